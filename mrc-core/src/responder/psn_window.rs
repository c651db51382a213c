//! The received-PSN bitmap above the cumulative acknowledgement. Source: `transport.md` 4.1, 4.2, 4.9.

use crate::Prefetch;
use mrc_wire::Psn;

use crate::num::{Counter, across, low_bits};

/// Receive state of 64 PSNs, lent by the caller.
#[derive(Clone, Copy, Debug, Default)]
pub struct RxWord {
    have: u64,
    /// Packets among them that ended a message.
    end: u64,
    /// Packets whose payload the driver still moves (`placing`).
    pub(super) open: u64,
    /// Packets that ended a message and lie above what is in memory (`placing`).
    pub(super) last: u64,
}

impl RxWord {
    /// Nothing received.
    pub const EMPTY: Self = Self { have: 0, end: 0, open: 0, last: 0 };
}

/// Where a PSN stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// At or below the cumulative acknowledgement.
    Below,
    /// Above it and received before.
    Seen,
    /// Acceptable.
    New,
    /// Past the advertised right edge.
    Above,
}

/// Scalars of the window; the bits are a lent ring whose length in PSNs is a power of two, at least the range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PsnWindow {
    cack: Psn,
    max_rcv: Psn,
    range: u32,
    /// How far the last acceptable PSN lies beyond `cack + range`: it never moves left, even when the range shrinks.
    beyond: u32,
    /// Packets received above `cack`.
    ooo: u32,
    /// The PSN behind `cack` where to record it is to move `cack` there; [`Self::NONE`] where it lies outside of the window, packets
    /// wait behind it, or the right edge stays.
    next: u32,
}

impl PsnWindow {
    /// No PSN.
    const NONE: u32 = u32::MAX;

    pub(crate) const EMPTY: Self =
        Self { cack: Psn::new(0), max_rcv: Psn::new(0), range: 0, beyond: 0, ooo: 0, next: Self::NONE };

    pub(crate) fn new(cack: Psn, range: u32) -> Self {
        let mut window = Self { cack, max_rcv: cack, range, ..Self::EMPTY };
        window.expect_next();
        window
    }

    #[inline]
    pub(crate) fn fetch(&self, memory: &impl Prefetch) {
        memory.prefetch(&self.cack);
    }

    pub(crate) fn cack(&self) -> Psn {
        self.cack
    }

    pub(crate) fn max_rcv(&self) -> Psn {
        self.max_rcv
    }

    pub(crate) fn out_of_order(&self) -> u32 {
        self.ooo
    }

    /// Whether it can be that of a ring of `packets`.
    pub(super) fn fits(&self, packets: u32) -> bool {
        let ahead = i64::from(self.max_rcv.diff(self.cack));
        let width = u64::from(self.range).saturating_add(self.beyond.into());
        width <= packets.into() && self.ooo <= packets && (0..=i64::from(packets)).contains(&ahead)
    }

    /// PSNs above `cack` that are acceptable.
    #[inline(always)]
    const fn width(&self) -> u32 {
        self.range.wrapping_add(self.beyond)
    }

    pub(super) fn slot(psn: Psn, bits: &[RxWord]) -> (usize, u32) {
        let at = psn.value() as usize & (bits.len() << 6).wrapping_sub(1);
        (at >> 6, (at & 63) as u32)
    }

    //= RSP-006, RSP-010, INV-007
    #[inline(always)]
    pub(crate) fn classify(&self, psn: Psn, bits: &[RxWord]) -> Arrival {
        if psn.diff(self.cack) <= 0 {
            return Arrival::Below;
        }
        if psn.diff(self.cack.add(self.width())) > 0 {
            return Arrival::Above;
        }
        // In order nothing is above, and no bit has to be looked at.
        if self.ooo > 0 && self.have(psn, bits) { Arrival::Seen } else { Arrival::New }
    }

    fn have(&self, psn: Psn, bits: &[RxWord]) -> bool {
        let (index, shift) = Self::slot(psn, bits);
        bits.get(index).is_some_and(|word| word.have.wrapping_shr(shift) & 1 != 0)
    }

    /// Records `psn` if it is the next one and that is all there is to record; whether it is.
    #[inline(always)]
    pub(crate) fn take_next(&mut self, psn: Psn) -> bool {
        if psn.value() != self.next {
            return false;
        }
        (self.cack, self.max_rcv) = (psn, psn);
        self.next = psn.next().value();
        true
    }

    /// Finds out which packet [`Self::take_next`] may take.
    fn expect_next(&mut self) {
        let usual = self.ooo == 0 && self.beyond == 0 && self.range > 0;
        self.next = if usual { self.cack.next().value() } else { Self::NONE };
    }

    /// Records any new PSN and returns how many messages became complete.
    #[inline(never)]
    pub(crate) fn insert(&mut self, psn: Psn, ends_message: bool, bits: &mut [RxWord]) -> u32 {
        if psn.diff(self.max_rcv) > 0 {
            self.max_rcv = psn;
        }
        let (index, shift) = Self::slot(psn, bits);
        if let Some(word) = bits.get_mut(index) {
            word.have |= 1u64.wrapping_shl(shift);
            word.end |= u64::from(ends_message).wrapping_shl(shift);
        }
        self.ooo.inc();
        let ended = if psn == self.cack.next() { self.advance(bits) } else { 0 };
        self.expect_next();
        ended
    }

    /// Moves the cumulative acknowledgement over everything received.
    //= RSP-009
    fn advance(&mut self, bits: &mut [RxWord]) -> u32 {
        let mut ended = 0u32;
        while self.ooo > 0 {
            let (index, shift) = Self::slot(self.cack.next(), bits);
            let Some(word) = bits.get_mut(index) else { break };
            let run = word.have.wrapping_shr(shift).trailing_ones();
            if run == 0 {
                break;
            }
            let mask = low_bits(run).wrapping_shl(shift);
            ended.inc_by((word.end & mask).count_ones());
            word.have &= !mask;
            word.end &= !mask;
            self.cack = self.cack.add(run);
            // The right edge moves only as far as the range reaches.
            self.beyond = self.beyond.saturating_sub(run);
            self.ooo = self.ooo.saturating_sub(run);
        }
        ended
    }

    /// Where the right edge `retreats`, a smaller range moves it back.
    //= DMPR-001, DMPR-002
    pub(crate) fn set_range(&mut self, range: u32, retreats: bool) {
        self.beyond = if retreats { 0 } else { self.width().saturating_sub(range) };
        self.range = range;
        self.expect_next();
    }

    pub(crate) fn range(&self) -> u32 {
        self.range
    }

    /// 64 bits of "received" from `base`, cumulative part included.
    //= SACK-012
    pub(crate) fn bitmap(&self, base: Psn, bits: &[RxWord]) -> u64 {
        let below = self.cack.diff(base);
        let cumulative = match u32::try_from(below) {
            Ok(below) => u64::MAX.wrapping_shr(63u32.saturating_sub(below)),
            Err(_) => 0,
        };
        if self.ooo == 0 || self.max_rcv.diff(base) < 0 {
            return cumulative;
        }
        let (index, shift) = Self::slot(base, bits);
        let word = |index: usize| bits.get(index & bits.len().wrapping_sub(1)).map_or(0, |word| word.have);
        let ahead = across(word(index), word(index.wrapping_add(1)), shift);
        // The ring repeats: bits past the highest PSN belong to nobody.
        let last = self.max_rcv.diff(base).max(0).unsigned_abs();
        cumulative | (ahead & low_bits(last.saturating_add(1)))
    }
}

crate::image::stored!(struct RxWord { have, end, open, last });
crate::image::stored!(
    struct PsnWindow { cack, max_rcv, range, beyond, ooo }
    rebuilt { next: Self::NONE }
);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    use super::*;

    //= RSP-006 test
    #[test]
    fn the_window_wraps_with_the_psn_space() {
        let bits = [RxWord::EMPTY; 16];
        let window = PsnWindow::new(Psn::new(0xFF_FFFE), 1_024);
        assert_eq!(window.classify(Psn::new(0xFF_FFFE), &bits), Arrival::Below);
        assert_eq!(window.classify(Psn::new(0xFF_FFFF), &bits), Arrival::New);
        assert_eq!(window.classify(Psn::new(0x3FE), &bits), Arrival::New);
        assert_eq!(window.classify(Psn::new(0x3FF), &bits), Arrival::Above);
    }

    /// The next packet in order, too, must lie within the window.
    //= RSP-006, DMPR-001 test
    #[test]
    fn a_closed_window_takes_not_even_the_next_packet() {
        let mut bits = [RxWord::EMPTY; 2];
        let mut window = PsnWindow::new(Psn::new(9), 2);
        assert_eq!(window.insert(Psn::new(10), false, &mut bits), 0);
        window.set_range(0, true);
        assert!(!window.take_next(Psn::new(11)));
        assert_eq!(window.classify(Psn::new(11), &bits), Arrival::Above);
        window.set_range(1, false);
        assert!(window.take_next(Psn::new(11)) && !window.take_next(Psn::new(11)));
    }

    /// The right edge stays where it was advertised until the smaller range reaches it, whether packets come in order or not.
    //= DMPR-001, DMPR-002 test
    #[test]
    fn the_edge_of_a_window_that_shrank_waits_for_its_range() {
        for ahead_first in [false, true] {
            let mut bits = [RxWord::EMPTY; 2];
            let mut window = PsnWindow::new(Psn::new(0), 8);
            window.set_range(5, false);
            let order: [u32; 4] = if ahead_first { [2, 3, 4, 1] } else { [1, 2, 3, 4] };
            let mut edges = [0; 4];
            for (edge, psn) in edges.iter_mut().zip(order) {
                if !window.take_next(Psn::new(psn)) {
                    window.insert(Psn::new(psn), false, &mut bits);
                }
                *edge = (1..20).take_while(|&psn| window.classify(Psn::new(psn), &bits) != Arrival::Above).count();
            }
            assert_eq!(edges, [8, 8, 8, 9]);
            window.set_range(7, false);
            assert_eq!(window.classify(Psn::new(11), &bits), Arrival::New);
            assert_eq!(window.classify(Psn::new(12), &bits), Arrival::Above);
        }
    }

    /// An image of a queue pair may name every state that its storage can hold, and no other.
    #[test]
    fn a_window_of_an_image_fits_its_storage() {
        let cack = Psn::new(0xFF_FFF0);
        let good = PsnWindow { cack, max_rcv: cack.add(128), range: 100, beyond: 28, ooo: 128, ..PsnWindow::EMPTY };
        assert!(good.fits(128) && PsnWindow::new(cack, 128).fits(128) && PsnWindow::EMPTY.fits(0));
        for bad in [
            PsnWindow { range: 129, ..good },
            PsnWindow { ooo: 129, ..good },
            PsnWindow { beyond: 29, ..good },
            PsnWindow { beyond: u32::MAX, ..good },
            PsnWindow { max_rcv: cack.add(129), ..good },
            PsnWindow { max_rcv: cack.sub(1), ..good },
        ] {
            assert!(!bad.fits(128), "{bad:?}");
        }
    }

    proptest! {
        /// Against a naive set of received PSNs.
        //= RSP-009, RSP-010, SACK-012 test
        #[test]
        fn agrees_with_a_set(start in 0u32..0x100_0000, steps in prop::collection::vec(0u32..140, 1..600)) {
            let mut bits = [RxWord::EMPTY; 2];
            let start = Psn::new(start);
            let mut window = PsnWindow::new(start, 128);
            let mut set = BTreeSet::new();
            let mut cack = 0u32;
            for step in steps {
                // Offsets around the current cumulative point, in PSNs after `start`.
                let at = (cack + step).saturating_sub(5);
                let psn = start.add(at);
                let want = if at <= cack {
                    Arrival::Below
                } else if at > cack + 128 {
                    Arrival::Above
                } else if set.contains(&at) {
                    Arrival::Seen
                } else {
                    Arrival::New
                };
                prop_assert_eq!(window.classify(psn, &bits), want);
                if want == Arrival::New {
                    set.insert(at);
                    let ended = window.insert(psn, at.is_multiple_of(3), &mut bits);
                    let before = cack;
                    while set.contains(&(cack + 1)) {
                        cack += 1;
                    }
                    let want_ended = (before + 1..=cack).filter(|at| at.is_multiple_of(3)).count();
                    prop_assert_eq!(ended as usize, want_ended);
                    prop_assert_eq!(window.cack(), start.add(cack));
                    prop_assert_eq!(window.out_of_order() as usize, set.iter().filter(|&&at| at > cack).count());
                }
                let base = cack.saturating_sub(3);
                let bitmap = window.bitmap(start.add(base), &bits);
                let naive: Vec<bool> = (base..base + 64).map(|at| at <= cack || set.contains(&at)).collect();
                for (i, have) in naive.into_iter().enumerate() {
                    prop_assert_eq!(bitmap >> i & 1 == 1, have, "bit {} base {} cack {}", i, base, cack);
                }
            }
        }
    }

    #[test]
    fn how_far_everything_arrived_is_read_ahead() {
        let (window, asked) = (PsnWindow::new(Psn::new(1), 1_024), crate::prefetch::Asked::default());
        window.fetch(&asked);
        assert_eq!((asked.within(&window.cack), asked.words()), (1, 1));
    }
}
