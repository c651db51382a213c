//! Placements that the driver has not finished, where it reports the end of each ([`crate::PlacementMode::Reported`]). A SACK
//! says what arrived, so it waits for none of them. A Transport ACK and a completion say that the bytes are in memory, so
//! they go up to [`Placing::done`] only. Source: `transport.md` 1, 4.6, 4.7.

use mrc_wire::Psn;

use super::{PsnWindow, RxWord};
use crate::num::{Counter, low_bits};

/// Scalars of one QP; the bits are in the words of its receive window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placing {
    /// The driver reports placements. Otherwise nothing here is used: what arrived counts as placed.
    reported: bool,
    /// Placements that the driver has not finished.
    open: u32,
    /// PSN of the oldest one, if there is any.
    oldest: Psn,
    /// Every packet up to here arrived and its bytes are in memory.
    done: Psn,
    /// Messages that end there or before, modulo 2^24.
    messages: u32,
}

impl Placing {
    pub(crate) const NONE: Self =
        Self { reported: false, open: 0, oldest: Psn::new(0), done: Psn::new(0), messages: 0 };

    /// For a QP that has received everything up to `before`.
    pub(crate) const fn start(before: Psn, reported: bool) -> Self {
        Self { reported, done: before, ..Self::NONE }
    }

    #[inline(always)]
    pub(crate) const fn is_reported(&self) -> bool {
        self.reported
    }

    /// Placements that the driver has not finished.
    pub(crate) const fn open(&self) -> u32 {
        self.open
    }

    /// Every packet up to here arrived and its bytes are in memory.
    pub(super) const fn done(&self) -> Psn {
        self.done
    }

    /// Messages that end at [`Self::done`] or before, modulo 2^24.
    pub(super) const fn messages(&self) -> u32 {
        self.messages
    }

    /// Whether there is a bit for `psn`: the bits reach as far beyond `done` as the lent window is wide.
    pub(crate) fn has_room(&self, psn: Psn, bits: &[RxWord]) -> bool {
        let width = bits.len().saturating_mul(64);
        !self.reported || i64::from(psn.diff(self.done)) <= width as i64
    }

    /// A new packet was accepted; `moves` when the driver was asked to place its payload.
    #[inline(never)]
    pub(crate) fn begin(&mut self, psn: Psn, ends_message: bool, moves: bool, cack: Psn, bits: &mut [RxWord]) {
        let (index, shift) = PsnWindow::slot(psn, bits);
        if let Some(word) = bits.get_mut(index) {
            word.last |= u64::from(ends_message).wrapping_shl(shift);
            word.open |= u64::from(moves).wrapping_shl(shift);
        }
        if moves {
            if self.open == 0 || psn.diff(self.oldest) < 0 {
                self.oldest = psn;
            }
            self.open.inc();
        }
        self.advance(cack, bits);
    }

    /// The driver finished with the payload of `psn`; `false` if it was not to place any, or said so before.
    pub(crate) fn end(&mut self, psn: Psn, bits: &mut [RxWord]) -> bool {
        if psn.diff(self.done) <= 0 || !self.has_room(psn, bits) {
            return false;
        }
        let (index, shift) = PsnWindow::slot(psn, bits);
        let bit = 1u64.wrapping_shl(shift);
        let Some(word) = bits.get_mut(index).filter(|word| word.open & bit != 0) else { return false };
        word.open &= !bit;
        self.open.dec();
        if psn == self.oldest {
            self.oldest = Self::first_open(psn, bits);
        }
        true
    }

    /// The first open placement from `from` on. Looks at each word once at most.
    fn first_open(from: Psn, bits: &[RxWord]) -> Psn {
        let mut at = from;
        for _ in 0..=bits.len() {
            let (index, shift) = PsnWindow::slot(at, bits);
            let open = bits.get(index).map_or(0, |word| word.open.wrapping_shr(shift));
            if open != 0 {
                return at.add(open.trailing_zeros());
            }
            at = at.add(64u32.wrapping_sub(shift));
        }
        from
    }

    /// Moves `done` to where the first packet is missing or not in memory.
    pub(crate) fn advance(&mut self, cack: Psn, bits: &mut [RxWord]) {
        let before = self.oldest.sub(1);
        let to = if self.open > 0 && before.diff(cack) < 0 { before } else { cack };
        while let Ok(left @ 1..) = u32::try_from(to.diff(self.done)) {
            let (index, shift) = PsnWindow::slot(self.done.next(), bits);
            let run = left.min(64u32.wrapping_sub(shift));
            let mask = low_bits(run).wrapping_shl(shift);
            if let Some(word) = bits.get_mut(index) {
                self.messages = self.messages.wrapping_add((word.last & mask).count_ones()) & 0xFF_FFFF;
                word.last &= !mask;
            }
            self.done = self.done.add(run);
        }
    }
}

crate::image::stored!(struct Placing { reported, open, oldest, done, messages });

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    use super::*;

    proptest! {
        /// Against naive sets of PSNs: packets arrive with gaps, placements end in any order, some twice, some never begun.
        //= ACK-003, WIMM-004 test
        #[test]
        fn agrees_with_a_set(start in 0u32..0x100_0000, steps in prop::collection::vec((0u8..4, 0u32..90), 1..500)) {
            let mut bits = [RxWord::EMPTY; 2];
            let start = Psn::new(start);
            let mut placing = Placing::start(start, true);
            let (mut arrived, mut open) = (BTreeSet::new(), BTreeSet::new());
            let (mut cack, mut done) = (0u32, 0u32);
            for (what, step) in steps {
                let at = done + 1 + step * 2;
                let psn = start.add(at);
                prop_assert_eq!(placing.has_room(psn, &bits), at <= done + 128);
                if what == 3 {
                    let ended = placing.end(psn, &mut bits);
                    prop_assert_eq!(ended, open.remove(&at));
                    placing.advance(start.add(cack), &mut bits);
                } else if at <= done + 128 && at > cack && arrived.insert(at) {
                    while arrived.contains(&(cack + 1)) {
                        cack += 1;
                    }
                    if what > 0 {
                        open.insert(at);
                    }
                    placing.begin(psn, at.is_multiple_of(3), what > 0, start.add(cack), &mut bits);
                } else if let Some(&oldest) = open.first() {
                    open.remove(&oldest);
                    prop_assert!(placing.end(start.add(oldest), &mut bits));
                    prop_assert!(!placing.end(start.add(oldest), &mut bits), "a second time");
                    placing.advance(start.add(cack), &mut bits);
                } else {
                    let next = cack + 1;
                    if next <= done + 128 && arrived.insert(next) {
                        while arrived.contains(&(cack + 1)) {
                            cack += 1;
                        }
                        placing.begin(start.add(next), next.is_multiple_of(3), false, start.add(cack), &mut bits);
                    }
                }
                done = open.first().map_or(cack, |&oldest| cack.min(oldest - 1));
                prop_assert_eq!(placing.done(), start.add(done));
                prop_assert_eq!(placing.open() as usize, open.len());
                prop_assert_eq!(placing.messages(), (1..=done).filter(|at| at.is_multiple_of(3)).count() as u32);
            }
        }
    }
}
