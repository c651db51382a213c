//! The content of a SACK. Source: `transport.md` 4.3, `wire.md` 6.

use mrc_wire::{Psn, SackRepr};

use super::{Answer, AnswerKind, Responder, RxWord};

impl Responder {
    /// The SACK that `answer` asks for, as of now, with these `spdcid` and `dpdcid`. `None` for other answers. `reach` is
    /// [`crate::EndpointConfig::bitmap_reach`].
    //= SACK-008, SACK-010, SETH-007, CCS-001, DMPR-001, PEN-001, PEN-002
    #[inline(always)]
    pub(crate) fn sack(
        &mut self,
        answer: &Answer,
        (spdcid, dpdcid): (u16, u16),
        now: u16,
        bits: &[RxWord],
        reach: u8,
    ) -> Option<SackRepr> {
        let AnswerKind::Sack { verdict, probe_id } = answer.kind else { return None };
        let cack = self.window.cack();
        let (base, bitmap) = if self.window.out_of_order() > 0 {
            let base = self.next_base(reach);
            (base, self.window.bitmap(base, bits))
        } else {
            self.lowest_unsacked = cack;
            (cack.next(), 0)
        };
        Some(SackRepr {
            verdict,
            probe_answer: probe_id.is_some(),
            offset_or_probe: probe_id.unwrap_or_else(|| SackRepr::offset_of(answer.psn, cack)),
            entropy: answer.ev,
            spdcid,
            dpdcid,
            cack,
            cc_type: 0,
            mpr: if self.dynamic_mpr { (self.window.range() >> 7).min(255) as u8 } else { 0 },
            sack_offset: base.diff(cack) as i16,
            bitmap,
            timestamp: answer.reflected(now),
            ooo_count: self.window.out_of_order().min(0x7FFF) as u16,
            restore_cwnd: self.restore_cwnd,
            rcv_cwnd_pen: self.penalty,
            rcvd_bytes: (self.rcvd_bytes.wrapping_add(255) >> 8) & 0xFF_FFFF,
        })
    }

    /// The base of the next bitmap, where packets are missing: the newest 64 PSNs, or the next slice of a wide window.
    //= SACK-011
    fn next_base(&mut self, reach: u8) -> Psn {
        let (cack, max) = (self.window.cack(), self.window.max_rcv());
        let first = cack.next();
        let mut base = if self.lowest_unsacked.diff(cack) > 0 { self.lowest_unsacked } else { first };
        if max.diff(base) < 64 {
            let newest = max.sub(reach.into());
            base = if newest.diff(first) > 0 { newest } else { first };
        }
        self.lowest_unsacked = if max.diff(base.add(63)) > 0 { base.add(64) } else { cack };
        base
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::RtrAttr,
        responder::tests::{Write, on_write},
    };
    use mrc_wire::Qpn;
    use std::vec::Vec;

    fn responder(cack: u32) -> Responder {
        let attr = RtrAttr::software(
            crate::PeerHandle::from_index(0),
            Qpn::new(5),
            Psn::new(cack + 1),
            crate::EvProfileHandle::from_index(0),
        );
        Responder::start(&attr)
    }

    fn write(psn: u32) -> Write {
        Write {
            psn: Psn::new(psn),
            nominal: 4_184,
            ends_message: false,
            ack_req: false,
            rtx: false,
            ce: false,
            tseth: None,
        }
    }

    fn feed(r: &mut Responder, bits: &mut [RxWord], psns: impl IntoIterator<Item = u32>) {
        for psn in psns {
            write(psn).read(|write| on_write(r, &write, bits, &crate::EndpointConfig::default()));
        }
    }

    fn final_sack(r: &mut Responder, bits: &[RxWord]) -> SackRepr {
        let kind = AnswerKind::Sack { verdict: mrc_wire::Verdict::None, probe_id: None };
        let answer = Answer { psn: r.window.max_rcv(), ev: mrc_wire::Ev(1), ..Answer::of(kind) };
        r.sack(&answer, (1, 2), 0, bits, 63).unwrap()
    }

    //= SACK-008, RBYT-001, SETH-007 test
    #[test]
    fn two_losses_of_twelve() {
        let mut bits = [RxWord::EMPTY; 16];
        let mut r = responder(0);
        r.window = super::super::PsnWindow::new(Psn::new(0xFF_FFFF), 1_024);
        feed(&mut r, &mut bits, (0..12).filter(|psn| ![5, 8].contains(psn)));
        let sack = final_sack(&mut r, &bits);
        assert_eq!((sack.cack.value(), sack.sack_offset), (4, 1));
        assert_eq!(sack.bitmap, 0x76);
        assert_eq!(sack.ooo_count, 5);
        assert_eq!(sack.rcvd_bytes, (10u32 * 4_184).div_ceil(256));
    }

    //= SACK-011 test
    #[test]
    fn slices_of_a_wide_window_walk_upward_and_restart() {
        let mut bits = [RxWord::EMPTY; 16];
        let mut r = responder(99);
        feed(&mut r, &mut bits, [300]);
        let bases: Vec<u32> = (0..5)
            .map(|_| {
                let sack = final_sack(&mut r, &bits);
                (sack.cack.value() as i32 + i32::from(sack.sack_offset)) as u32
            })
            .collect();
        assert_eq!(bases, [100, 164, 228, 237, 100]);
    }
}
