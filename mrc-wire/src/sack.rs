//! Selective acknowledgement: SETH (28 bytes) and CC_STATE (8 bytes), wire.md section 6.

use crate::{Ev, Psn, SackPsns};
use core::fmt;

/// What a responder says about the EV it echoes (field `m`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// 0, and 3 which is reserved: nothing to say.
    #[default]
    None,
    /// 1: the packet met congestion, skip this EV once.
    SkipOnce,
    /// 2: do not use this EV any more.
    AlwaysSkip,
}

impl Verdict {
    const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            1 => Self::SkipOnce,
            2 => Self::AlwaysSkip,
            //= SETH-003
            _ => Self::None,
        }
    }

    const fn to_bits(self) -> u8 {
        //= SETH-002
        match self {
            Self::None => 0,
            Self::SkipOnce => 1,
            Self::AlwaysSkip => 2,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::SkipOnce => "skip_once",
            Self::AlwaysSkip => "always_skip",
        })
    }
}

/// A SACK body.
///
/// ```text
/// cack        base = cack + sack_offset
///  v           v
/// ..1 . . . .  b0 b1 b2 ...  b63        bit i set: PSN base + i has arrived
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SackRepr {
    /// Verdict on `entropy`.
    pub verdict: Verdict,
    /// Answers a reliability probe (`pr`); then `offset_or_probe` is the probe's identifier.
    pub probe_answer: bool,
    /// See [`SackRepr::ack_offset`] and [`SackRepr::probe_id`].
    pub offset_or_probe: u16,
    /// EV of the packet that triggered the SACK.
    pub entropy: Ev,
    /// Low half of the sender's QPN; not checked.
    pub spdcid: u16,
    /// Low half of the receiver's QPN; not checked.
    pub dpdcid: u16,
    /// Highest PSN up to which everything has arrived.
    pub cack: Psn,
    /// Layout of the congestion state, 4 bits; 0 is the one described here, others leave it opaque.
    pub cc_type: u8,
    /// The responder's window in units of 128 PSNs; 0 says nothing.
    pub mpr: u8,
    /// PSN of bitmap bit 0, relative to `cack`.
    pub sack_offset: i16,
    /// Which PSNs from there on have arrived.
    pub bitmap: u64,
    /// Reflected timestamp, 0 when the trigger had none.
    pub timestamp: u16,
    /// Packets received above `cack`, 15 bits, saturating.
    pub ooo_count: u16,
    /// The sender may save and restore its window around flow control.
    pub restore_cwnd: bool,
    /// Receiver penalty, 0 to 127.
    pub rcv_cwnd_pen: u8,
    /// New bytes received in all, units of 256 bytes, 24 bits, wrapping.
    pub rcvd_bytes: u32,
}

/// The congestion half of a SACK, in the one layout that this crate knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CcState {
    /// Reflected timestamp, 0 when the trigger had none.
    pub timestamp: u16,
    /// The sender may save and restore its window around flow control.
    pub restore_cwnd: bool,
    /// Receiver penalty, 0 to 127.
    pub rcv_cwnd_pen: u8,
    /// New bytes received in all, units of 256 bytes, 24 bits, wrapping.
    pub rcvd_bytes: u32,
}

impl SackRepr {
    /// Bytes on the wire, SETH and CC_STATE.
    pub const LEN: usize = 36;

    /// The congestion half, for who acts on it; `None` when `cc_type` announces another layout, whose bytes mean nothing here.
    #[inline]
    #[must_use]
    pub const fn cc_state(&self) -> Option<CcState> {
        //= SETH-010
        if self.cc_type != 0 {
            return None;
        }
        let Self { timestamp, restore_cwnd, rcv_cwnd_pen, rcvd_bytes, .. } = *self;
        Some(CcState { timestamp, restore_cwnd, rcv_cwnd_pen, rcvd_bytes })
    }

    /// PSN of the trigger relative to `cack`; means nothing in a probe answer.
    #[inline]
    #[must_use]
    pub const fn ack_offset(&self) -> i16 {
        self.offset_or_probe.cast_signed()
    }

    /// The probe answered; means nothing unless `probe_answer`.
    #[inline]
    #[must_use]
    pub const fn probe_id(&self) -> u16 {
        self.offset_or_probe
    }

    /// The offset field for a trigger: its distance from `cack`, clamped to 16 bits.
    #[inline]
    #[must_use]
    pub const fn offset_of(trigger: Psn, cack: Psn) -> u16 {
        //= SETH-005
        let d = trigger.diff(cack);
        let clamped = if d > i16::MAX as i32 {
            i16::MAX
        } else if d < i16::MIN as i32 {
            i16::MIN
        } else {
            d as i16
        };
        clamped.cast_unsigned()
    }

    /// The PSNs the bitmap marks as received, lowest first.
    #[inline]
    #[must_use]
    pub const fn received(&self) -> SackPsns {
        SackPsns::new(self.cack, self.sack_offset, self.bitmap)
    }

    /// Reads the header; reserved bits are ignored.
    #[inline]
    #[must_use]
    pub const fn parse(b: &[u8; Self::LEN]) -> Self {
        //= SETH-001
        //= SETH-004
        Self {
            verdict: Verdict::from_bits(b[1] >> 5),
            probe_answer: b[1] & 0x02 != 0,
            offset_or_probe: u16::from_be_bytes([b[2], b[3]]),
            entropy: Ev(u32::from_be_bytes([b[4], b[5], b[6], b[7]])),
            spdcid: u16::from_be_bytes([b[8], b[9]]),
            dpdcid: u16::from_be_bytes([b[10], b[11]]),
            cack: Psn::new(u32::from_be_bytes([0, b[13], b[14], b[15]])),
            cc_type: b[16] >> 4,
            mpr: b[17],
            sack_offset: i16::from_be_bytes([b[18], b[19]]),
            bitmap: u64::from_be_bytes([b[20], b[21], b[22], b[23], b[24], b[25], b[26], b[27]]),
            timestamp: u16::from_be_bytes([b[28], b[29]]),
            ooo_count: u16::from_be_bytes([b[30] & 0x7F, b[31]]),
            restore_cwnd: b[32] & 0x80 != 0,
            rcv_cwnd_pen: b[32] & 0x7F,
            rcvd_bytes: u32::from_be_bytes([0, b[33], b[34], b[35]]),
        }
    }

    /// Writes every byte. `ooo_count` and `rcv_cwnd_pen` saturate, `rcvd_bytes` wraps.
    #[inline(always)]
    pub fn emit(&self, out: &mut [u8; Self::LEN]) {
        let m = self.verdict.to_bits() << 5 | if self.probe_answer { 0x02 } else { 0 };
        //= CCS-002
        let ooo_count = self.ooo_count.min(0x7FFF);
        //= CCS-003
        let penalty = self.rcv_cwnd_pen.min(0x7F) | if self.restore_cwnd { 0x80 } else { 0 };
        let context = u32::from(self.cc_type << 4) << 24
            | u32::from(self.mpr) << 16
            | u32::from(self.sack_offset.cast_unsigned());
        let stamp = u32::from(self.timestamp) << 16 | u32::from(ooo_count);
        let two = |first: u32, second: u32| u64::from(first) << 32 | u64::from(second);
        let words = [
            two(u32::from(m) << 16 | u32::from(self.offset_or_probe), self.entropy.0),
            two(u32::from(self.spdcid) << 16 | u32::from(self.dpdcid), self.cack.value()),
            two(context, (self.bitmap >> 32) as u32),
            two(self.bitmap as u32, stamp),
        ];
        let (to, last) = out.as_chunks_mut::<8>();
        for (to, word) in to.iter_mut().zip(words) {
            *to = word.to_be_bytes();
        }
        //= CCS-004
        if let Some(last) = last.first_chunk_mut() {
            *last = (u32::from(penalty) << 24 | self.rcvd_bytes & 0xFF_FFFF).to_be_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //= SETH-002 test
    //= SETH-003 test
    //= SETH-004 test
    #[test]
    fn the_second_byte_holds_verdict_and_probe_flag() {
        let mut b = [0; 36];
        for (m, verdict) in [(0, Verdict::None), (1, Verdict::SkipOnce), (2, Verdict::AlwaysSkip), (3, Verdict::None)] {
            b[1] = m << 5;
            assert_eq!(SackRepr::parse(&b).verdict, verdict);
            let mut written = [0xFF; 36];
            SackRepr { verdict, ..Default::default() }.emit(&mut written);
            assert_eq!(written[1], if m == 3 { 0 } else { m << 5 }, "the reserved value is never written");
        }
        b[1] = 0b1001_1111;
        b[2] = 0xFF;
        b[3] = 0xFE;
        let s = SackRepr::parse(&b);
        assert!(s.probe_answer);
        assert_eq!((s.verdict, s.probe_id(), s.ack_offset()), (Verdict::None, 0xFFFE, -2));
    }

    //= SETH-005 test
    #[test]
    fn far_triggers_are_clamped() {
        let cack = Psn::new(10);
        let off =
            |p: Psn| SackRepr { offset_or_probe: SackRepr::offset_of(p, cack), ..Default::default() }.ack_offset();
        assert_eq!(off(cack.add(5)), 5);
        assert_eq!(off(cack.sub(20)), -20);
        assert_eq!(off(cack.add(40_000)), i16::MAX);
        assert_eq!(off(cack.sub(40_000)), i16::MIN);
    }

    //= SETH-010 test
    #[test]
    fn an_unknown_congestion_type_leaves_the_rest_readable() {
        let mut out = [0; 36];
        let sack = SackRepr { cc_type: 5, cack: Psn::new(9), bitmap: 3, ..SackRepr::default() };
        sack.emit(&mut out);
        assert_eq!(out[16], 0x50);
        assert_eq!(SackRepr::parse(&out), sack);
        assert_eq!(SackRepr::parse(&out).cc_state(), None);
        let known = SackRepr { rcvd_bytes: 7, rcv_cwnd_pen: 9, ..SackRepr::default() };
        assert_eq!(known.cc_state(), Some(CcState { rcvd_bytes: 7, rcv_cwnd_pen: 9, ..CcState::default() }));
    }

    //= SETH-001 test
    //= CCS-002 test
    //= CCS-003 test
    //= CCS-004 test
    #[test]
    fn narrow_fields_saturate_or_wrap() {
        let wide = SackRepr {
            ooo_count: 0xFFFF,
            rcv_cwnd_pen: 200,
            restore_cwnd: true,
            rcvd_bytes: 0x0112_3456,
            ..SackRepr::default()
        };
        let mut out = [0xFF; 36];
        wide.emit(&mut out);
        assert_eq!(out[28..], [0, 0, 0x7F, 0xFF, 0xFF, 0x12, 0x34, 0x56]);
        assert_eq!(out[..28], [0; 28], "nothing else is set");
    }
}
