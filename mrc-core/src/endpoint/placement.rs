//! Placements that end late: what the driver reports about them, and what had waited for it. When packets count as executed
//! is `responder/placing.rs`'s. Source: `transport.md` 1, 4.6, 4.7.

use mrc_wire::{Psn, Syndrome};

use super::{Endpoint, part};
use crate::{
    error::PlaceError,
    event::ErrorCause,
    qp::{Qp, QpState},
    time::Instant,
};

/// Names one placement: QP, its life and PSN. 0 names none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PlaceToken(u64);

impl PlaceToken {
    #[inline(always)]
    pub(super) const fn new(qp: u32, life: u32, psn: Psn) -> Self {
        Self((qp as u64) << 48 | (life as u64) << 24 | psn.value() as u64)
    }

    /// As one word, for a DMA descriptor.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// A token from such a word. Words that the engine did not give out are refused when they are reported.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    const fn qp(self) -> u32 {
        (self.0 >> 48) as u32
    }

    const fn life(self) -> u32 {
        (self.0 >> 24) as u32 & 0xFF_FFFF
    }

    const fn psn(self) -> Psn {
        Psn::new(self.0 as u32 & 0xFF_FFFF)
    }
}

/// The life after `life`; 0 is nobody's.
pub(super) const fn next_life(life: u32) -> u32 {
    let next = life.wrapping_add(1) & 0xFF_FFFF;
    if next == 0 { 1 } else { next }
}

impl Endpoint<'_> {
    /// The bytes of a placement are in memory, where the application sees them. Placements of a QP may end in any order.
    /// Transport ACKs and completions that waited for this one come with the next polls.
    ///
    /// # Errors
    /// The report had no effect; the variant says why.
    //= ACK-003, WIMM-004, WIMM-005
    pub fn placed(&mut self, now: Instant, token: PlaceToken) -> Result<(), PlaceError> {
        let qp = self.end_placement(token)?;
        let Some(slot) = self.qps.get_mut(qp as usize) else { return Err(PlaceError::Stale) };
        if slot.state == QpState::Error {
            return Ok(());
        }
        if let Some(bits) = part(self.rx_words, qp, self.limits.words()) {
            slot.rsp.placing.advance(slot.rsp.window.cack(), bits);
        }
        if slot.rsp.stash.is_empty() {
            slot.rsp.settle(&[]);
        } else {
            self.after_immediate(now, qp);
        }
        self.wake_control(qp);
        Ok(())
    }

    /// The bytes of a placement cannot be moved: the QP sends NAK 0x63 for the packet and goes to ERROR. A driver that reports
    /// no placements says so before it polls again; receives that completed with this packet or later ones flush.
    ///
    /// # Errors
    /// The report had no effect; the variant says why.
    //= VAL-019, WIMM-004
    pub fn place_failed(&mut self, now: Instant, token: PlaceToken) -> Result<(), PlaceError> {
        let qp = token.qp();
        match self.end_placement(token) {
            Ok(_) => {}
            // What arrived counted as placed, until now.
            Err(PlaceError::NotReported) => {
                if let Some(slot) = self.qps.get(qp as usize) {
                    self.cqs.revoke_receives(slot.recv_cq, slot.qpn, token.psn());
                }
            }
            Err(why) => return Err(why),
        }
        if self.qps.get(qp as usize).is_some_and(|slot| slot.state == QpState::Error) {
            return Ok(()); // It has said its last word.
        }
        self.fail_qp(now, qp, ErrorCause::RequestFailed, None);
        self.answer_nak(qp, token.psn(), Syndrome::RemoteOperational);
        Ok(())
    }

    /// Takes a placement off those that are open; returns its QP.
    fn end_placement(&mut self, token: PlaceToken) -> Result<u32, PlaceError> {
        let qp = token.qp();
        let alive = |slot: &&mut Qp| slot.used && slot.life == token.life() && slot.life != 0;
        let slot = self.qps.get_mut(qp as usize).filter(alive).ok_or(PlaceError::Stale)?;
        if !slot.rsp.placing.is_reported() {
            return Err(PlaceError::NotReported);
        }
        let bits = part(self.rx_words, qp, self.limits.words()).ok_or(PlaceError::Stale)?;
        if slot.rsp.placing.end(token.psn(), bits) { Ok(qp) } else { Err(PlaceError::NotOpen) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report that is late by some lives is for none that is under way, and each life has a place in the token.
    #[test]
    fn lives_do_not_repeat() {
        let lives: std::vec::Vec<u32> =
            core::iter::successors(Some(0), |&life| Some(next_life(life))).take(1_000).collect();
        assert!(lives.iter().skip(1).all(|&life| 0 < life && life < 1 << 24), "{lives:?}");
        assert_eq!(lives.iter().collect::<std::collections::BTreeSet<_>>().len(), lives.len());
        assert_eq!((next_life(0xFF_FFFE), next_life(0xFF_FFFF)), (0xFF_FFFF, 1));
        let token = PlaceToken::new(0xFFFF, 0xFF_FFFF, Psn::new(5));
        assert_eq!((token.qp(), token.life(), token.psn()), (0xFFFF, 0xFF_FFFF, Psn::new(5)));
    }
}
