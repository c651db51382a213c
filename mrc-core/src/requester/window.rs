//! The requester's scoreboard: which PSNs in (unack_psn, max_psn_sent] are SENT, SACKED or LOST, and what is known of
//! each transmission. A ring over lent slices, one 8-byte record per PSN and two bits per PSN for the state, so that a
//! SACK is applied 64 packets at a time. Source: `transport.md` 3.1.

use mrc_wire::Psn;

use super::record::TxRecord;
use crate::Prefetch;
use crate::num::{Counter, across, low_bits, spread};

/// State of 64 PSNs; neither bit set means SENT (or outside the window), both mean LOST and held back: the responder had no
/// room, and the packet waits before it leaves again.
#[derive(Clone, Copy, Debug, Default)]
pub struct TxWord {
    sacked: u64,
    lost: u64,
}

impl TxWord {
    /// Nothing sacked, nothing lost.
    pub const EMPTY: Self = Self { sacked: 0, lost: 0 };
}

/// One QP's part of the lent storage, which is found where it is needed: a call that needs nothing of it pays nothing for it.
#[derive(Debug)]
pub(crate) struct TxWindow<'a> {
    /// Those of all QPs, as many for each.
    records: &'a mut [TxRecord],
    words: &'a mut [TxWord],
    /// The QP's first record.
    first: usize,
    capacity: u32,
}

/// Where QP number `qp`, which has a power of two of `each`, keeps what is said of `psn`.
#[inline]
fn place(qp: u32, each: usize, psn: Psn) -> usize {
    (qp as usize).wrapping_mul(each).wrapping_add(psn.value() as usize & each.wrapping_sub(1))
}

impl<'a> TxWindow<'a> {
    /// That of QP number `qp`; each has `capacity` records, a power of two, and a word for 64 of them, at least one.
    #[inline(always)]
    pub(crate) fn new(records: &'a mut [TxRecord], words: &'a mut [TxWord], qp: u32, capacity: usize) -> Self {
        // Cannot wrap: the slices hold as many for every QP. If it did, the part would be another one.
        Self { records, words, first: (qp as usize).wrapping_mul(capacity), capacity: capacity as u32 }
    }

    /// What lies about `psn` in the part of QP number `qp`.
    #[inline]
    pub(crate) fn fetch(
        (records, words): (&[TxRecord], &[TxWord]),
        qp: u32,
        capacity: usize,
        psn: Psn,
        memory: &impl Prefetch,
    ) {
        memory.prefetch_all(records.get(place(qp, capacity, psn)));
        memory.prefetch_all(words.get(place(qp, capacity.max(64), psn) >> 6).map(|word| &word.lost));
    }

    /// The slot of the EV that carried `psn`, where QP number `qp` has sent it.
    #[inline]
    pub(crate) fn ev_of(records: &[TxRecord], qp: u32, capacity: usize, psn: Psn) -> Option<usize> {
        records.get(place(qp, capacity, psn)).map(|record| record.ev().0.into())
    }

    /// The same for another call.
    #[inline(always)]
    pub(super) fn copy(&mut self) -> TxWindow<'_> {
        TxWindow { records: self.records, words: self.words, first: self.first, capacity: self.capacity }
    }

    /// The bit of a PSN among those of all words.
    fn slot(&self, psn: Psn) -> usize {
        (psn.value() & self.bits().wrapping_sub(1)) as usize
    }

    /// Bits in all words: as many as records, or a whole word.
    const fn bits(&self) -> u32 {
        if self.capacity < 64 { 64 } else { self.capacity }
    }

    fn word_mask(&self) -> usize {
        (self.bits() >> 6).wrapping_sub(1) as usize
    }

    /// The QP's first word.
    const fn first_word(&self) -> usize {
        // A QP with fewer than 64 records has one.
        if self.capacity < 64 { self.first.wrapping_shr(self.capacity.trailing_zeros()) } else { self.first >> 6 }
    }

    /// The record of a PSN among those of all QPs.
    fn place(&self, psn: Psn) -> usize {
        self.first.wrapping_add((psn.value() & self.capacity.wrapping_sub(1)) as usize)
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Word `index` of the QP.
    fn word_at(&self, index: usize) -> Option<&TxWord> {
        self.words.get(self.first_word().wrapping_add(index))
    }

    fn word_mut(&mut self, index: usize) -> Option<&mut TxWord> {
        let at = self.first_word().wrapping_add(index);
        self.words.get_mut(at)
    }

    #[inline]
    pub(crate) fn record(&self, psn: Psn) -> Option<TxRecord> {
        self.records.get(self.place(psn)).copied()
    }

    #[inline]
    pub(crate) fn record_mut(&mut self, psn: Psn) -> Option<&mut TxRecord> {
        let at = self.place(psn);
        self.records.get_mut(at)
    }

    fn word(&self, psn: Psn) -> (TxWord, u64) {
        let slot = self.slot(psn);
        let word = self.word_at(slot >> 6).copied().unwrap_or(TxWord::EMPTY);
        (word, 1u64.wrapping_shl(slot as u32))
    }

    pub(crate) fn is_sacked(&self, psn: Psn) -> bool {
        let (word, bit) = self.word(psn);
        word.sacked & !word.lost & bit != 0
    }

    pub(crate) fn is_lost(&self, psn: Psn) -> bool {
        let (word, bit) = self.word(psn);
        word.lost & bit != 0
    }

    pub(crate) fn is_held(&self, psn: Psn) -> bool {
        let (word, bit) = self.word(psn);
        word.sacked & word.lost & bit != 0
    }

    /// Makes `psn`, which is neither SACKED nor held back, LOST or SENT.
    pub(crate) fn set_lost(&mut self, psn: Psn, lost: bool) {
        let slot = self.slot(psn);
        if let Some(word) = self.word_mut(slot >> 6) {
            let bit = 1u64.wrapping_shl(slot as u32);
            word.lost = if lost { word.lost | bit } else { word.lost & !bit };
        }
    }

    /// Holds back `psn`, which is LOST, or lets it go.
    pub(crate) fn set_held(&mut self, psn: Psn, held: bool) {
        let slot = self.slot(psn);
        if let Some(word) = self.word_mut(slot >> 6) {
            let bit = 1u64.wrapping_shl(slot as u32);
            word.sacked = if held { word.sacked | bit } else { word.sacked & !bit };
        }
    }

    /// Marks the set bits of `bitmap` (bit 0 = `base`) that lie in (`unack`, `max`] as received; how many were SENT.
    pub(crate) fn mark(&mut self, base: Psn, bitmap: u64, unack: Psn, max: Psn) -> u32 {
        let bits = bitmap & outstanding_bits(base, unack, max);
        let mut newly = 0u32;
        if bits == 0 {
            return newly;
        }
        let slot = self.slot(base);
        let (index, shift) = (slot >> 6, (slot & 63) as u32);
        let (low, high) = spread(bits, shift);
        let mask = self.word_mask();
        for (index, part) in [(index, low), (index.wrapping_add(1) & mask, high)] {
            if let Some(word) = self.word_mut(index) {
                newly.inc_by((part & !(word.sacked | word.lost)).count_ones());
                word.sacked |= part;
                word.lost &= !part;
            }
        }
        newly
    }

    /// Removes (`unack`, `to`] from the window, at most its capacity; how many were SENT.
    pub(crate) fn advance(&mut self, unack: Psn, to: Psn) -> u32 {
        let mut newly = 0u32;
        let mut left = to.diff(unack).max(0).unsigned_abs().min(self.capacity());
        let mut psn = unack.next();
        while left > 0 {
            let slot = self.slot(psn);
            let shift = (slot & 63) as u32;
            let n = left.min(64u32.wrapping_sub(shift));
            let bits = low_bits(n).wrapping_shl(shift);
            if let Some(word) = self.word_mut(slot >> 6) {
                newly.inc_by((bits & !(word.sacked | word.lost)).count_ones());
                word.sacked &= !bits;
                word.lost &= !bits;
            }
            psn = psn.add(n);
            left = left.wrapping_sub(n);
        }
        newly
    }

    /// The PSNs of (`unack`, `max`] inside `[base, base + 63]` that are SENT, as bits from `base`.
    pub(crate) fn sent_bits(&self, base: Psn, unack: Psn, max: Psn) -> u64 {
        let slot = self.slot(base);
        let (index, shift) = (slot >> 6, (slot & 63) as u32);
        let settled = |index: usize| self.word_at(index).map_or(u64::MAX, |word| word.sacked | word.lost);
        let next = index.wrapping_add(1) & self.word_mask();
        outstanding_bits(base, unack, max) & !across(settled(index), settled(next), shift)
    }

    /// The oldest SENT PSN of (`unack`, `max`].
    pub(crate) fn first_sent(&self, unack: Psn, max: Psn) -> Option<Psn> {
        let mut base = unack.next();
        let mut left = max.diff(unack).max(0).unsigned_abs().min(self.capacity());
        while left > 0 {
            let sent = self.sent_bits(base, unack, max);
            if sent != 0 {
                return Some(base.add(sent.trailing_zeros()));
            }
            base = base.add(64);
            left = left.saturating_sub(64);
        }
        None
    }

    /// The oldest LOST PSN of (`unack`, `max`].
    pub(crate) fn first_lost(&self, unack: Psn, max: Psn) -> Option<Psn> {
        self.first(unack, max, |word| word.lost)
    }

    /// The oldest PSN of (`unack`, `max`] that is not SACKED.
    pub(crate) fn first_unsacked(&self, unack: Psn, max: Psn) -> Option<Psn> {
        self.first(unack, max, |word| !word.sacked | word.lost)
    }

    /// The oldest LOST PSN of (`unack`, `max`] that is not held back.
    pub(crate) fn first_due(&self, unack: Psn, max: Psn) -> Option<Psn> {
        self.first(unack, max, |word| word.lost & !word.sacked)
    }

    /// The oldest LOST PSN of (`unack`, `max`] that is held back.
    pub(crate) fn first_held(&self, unack: Psn, max: Psn) -> Option<Psn> {
        self.first(unack, max, |word| word.lost & word.sacked)
    }

    #[inline]
    fn first(&self, unack: Psn, max: Psn, bits: impl Fn(&TxWord) -> u64) -> Option<Psn> {
        let mut base = unack.next();
        let mut left = max.diff(unack).max(0).unsigned_abs().min(self.capacity());
        while left > 0 {
            let slot = self.slot(base);
            let shift = (slot & 63) as u32;
            let n = left.min(64u32.wrapping_sub(shift));
            let found = self.word_at(slot >> 6).map_or(0, &bits).wrapping_shr(shift);
            let at = found.trailing_zeros();
            if at < n {
                return Some(base.add(at));
            }
            base = base.add(n);
            left = left.wrapping_sub(n);
        }
        None
    }
}

/// Bits of `[base, base + 63]` that lie in (`unack`, `max`].
pub(crate) fn outstanding_bits(base: Psn, unack: Psn, max: Psn) -> u64 {
    let first = unack.next().diff(base);
    let last = max.diff(base);
    if last < 0 || first > 63 || first > last {
        return 0;
    }
    // Both within [0, 63] now, but for a `first` below 0 and a `last` above 63.
    let from = u64::MAX.wrapping_shl(first.max(0).unsigned_abs());
    let to = low_bits(last.unsigned_abs().wrapping_add(1));
    from & to
}

crate::image::stored!(struct TxWord { sacked, lost });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::EvIndex;
    use crate::time::{Instant, Tick};
    use std::vec;

    fn psn(n: u32) -> Psn {
        Psn::new(n)
    }

    /// A packet is SENT, SACKED, LOST, or LOST and held back; what is said of one says nothing of its neighbours.
    //= REQ-002 test
    #[test]
    fn each_packet_has_one_state() {
        window(|window| {
            let (at, beside) = (psn(5), psn(6));
            let state = |window: &TxWindow<'_>, of| (window.is_sacked(of), window.is_lost(of), window.is_held(of));
            assert_eq!(state(window, at), (false, false, false));
            for _ in 0..2 {
                window.set_lost(at, true);
                assert_eq!(state(window, at), (false, true, false));
            }
            for _ in 0..2 {
                window.set_held(at, true);
                assert_eq!(state(window, at), (false, true, true));
            }
            assert_eq!(state(window, beside), (false, false, false));
            for _ in 0..2 {
                window.set_held(at, false);
                assert_eq!(state(window, at), (false, true, false));
            }
            for _ in 0..2 {
                window.set_lost(at, false);
                assert_eq!(state(window, at), (false, false, false));
            }
            window.mark(beside, 1, psn(0), psn(20));
            assert_eq!(state(window, beside), (true, false, false));
            assert_eq!(state(window, at), (false, false, false));
        });
    }

    /// A ring of few records answers as one of many does, as long as no more is in flight, and touches nobody else's.
    #[test]
    fn few_records_are_as_good_as_many() {
        for capacity in [8usize, 16, 32, 64] {
            let mut rng = crate::rng::Rng::new(capacity as u64);
            let (mut few, mut few_words) = (vec![TxRecord::EMPTY; 3 * capacity], vec![TxWord::EMPTY; 3]);
            let (mut many, mut many_words) = (vec![TxRecord::EMPTY; 3 * 128], vec![TxWord::EMPTY; 3 * 2]);
            let (mut unack, mut max) = (psn(0xFF_FFC0), psn(0xFF_FFC0));
            for step in 0..4_000u32 {
                let mut windows = [
                    TxWindow::new(&mut few, &mut few_words, 1, capacity),
                    TxWindow::new(&mut many, &mut many_words, 1, 128),
                ];
                let flying = max.diff(unack) as u32;
                let any = unack.add(1 + rng.below(flying.max(1)));
                let (bits, skip) = (rng.next_u64(), rng.below(flying + 1));
                match rng.below(6) {
                    0 | 1 if (flying as usize) < capacity => {
                        max = max.next();
                        let record = TxRecord::first(Tick::at(Instant::ZERO), EvIndex(step as u16), 0);
                        windows.iter_mut().for_each(|window| *window.record_mut(max).unwrap() = record);
                    }
                    2 if flying > 0 && !windows[0].is_sacked(any) && !windows[0].is_held(any) => {
                        windows.iter_mut().for_each(|window| window.set_lost(any, true));
                    }
                    3 => {
                        let [a, b] = windows.each_mut().map(|window| window.mark(unack.next(), bits, unack, max));
                        assert_eq!(a, b);
                    }
                    4 => {
                        let [a, b] = windows.each_mut().map(|window| window.advance(unack, unack.add(skip)));
                        assert_eq!(a, b);
                        unack = unack.add(skip);
                    }
                    _ => {}
                }
                let seen = |window: &TxWindow<'_>| {
                    let all = (1..=max.diff(unack) as u32).map(|n| unack.add(n));
                    let each = |psn| (window.is_sacked(psn), window.is_lost(psn), window.record(psn).unwrap().ev());
                    let states: std::vec::Vec<_> = all.map(each).collect();
                    (
                        states,
                        window.first_lost(unack, max),
                        window.first_sent(unack, max),
                        window.sent_bits(any, unack, max),
                    )
                };
                assert_eq!(seen(&windows[0]), seen(&windows[1]), "{capacity} records, step {step}");
            }
            let untouched = |word: &TxWord| word.sacked | word.lost == 0;
            assert!(untouched(&few_words[0]) && untouched(&few_words[2]));
            assert!(few[..capacity].iter().chain(&few[2 * capacity..]).all(|record| record.meta == 0));
        }
    }

    /// The second of three QPs: the storage of its neighbours stays as it was.
    fn window<R>(f: impl FnOnce(&mut TxWindow<'_>) -> R) -> R {
        let mut records = [TxRecord::EMPTY; 3 * 128];
        let mut words = [TxWord::EMPTY; 3 * 2];
        let result = f(&mut TxWindow::new(&mut records, &mut words, 1, 128));
        assert!([0, 1, 4, 5].iter().all(|&at| words[at].sacked | words[at].lost == 0));
        result
    }

    //= SRX-004 test
    #[test]
    fn bits_outside_the_outstanding_range_are_ignored() {
        window(|w| {
            assert_eq!(w.mark(psn(100), u64::MAX, psn(109), psn(119)), 10);
            assert!(!w.is_sacked(psn(109)) && w.is_sacked(psn(110)) && w.is_sacked(psn(119)));
            assert!(!w.is_sacked(psn(120)));
            assert_eq!(w.mark(psn(100), u64::MAX, psn(109), psn(119)), 0);
        });
    }

    #[test]
    fn marking_straddles_the_psn_wrap() {
        window(|w| {
            let base = psn(0xFF_FFFE);
            assert_eq!(w.mark(base, 0b1011, psn(0xFF_FFFD), psn(10)), 3);
            assert!(w.is_sacked(psn(0xFF_FFFE)) && w.is_sacked(psn(0xFF_FFFF)) && w.is_sacked(psn(1)));
            assert!(!w.is_sacked(psn(0)));
            assert_eq!(w.sent_bits(base, psn(0xFF_FFFD), psn(2)), 0b1_0100);
        });
    }

    #[test]
    fn advancing_counts_what_was_not_sacked_and_clears() {
        window(|w| {
            w.mark(psn(50), 0b110, psn(49), psn(200));
            w.set_lost(psn(53), true);
            assert_eq!(w.first_lost(psn(49), psn(200)), Some(psn(53)));
            assert_eq!(w.advance(psn(49), psn(60)), 8, "neither SACKED nor LOST before");
            assert_eq!(w.first_lost(psn(60), psn(170)), None);
            assert!(!w.is_sacked(psn(51)));
        });
    }

    /// A packet that waits for room at the responder is LOST: it is not in flight, and does not leave it when it is acknowledged.
    #[test]
    fn a_packet_held_back_is_not_in_flight() {
        window(|w| {
            w.set_lost(psn(53), true);
            w.set_held(psn(53), true);
            assert_eq!(w.advance(psn(49), psn(60)), 10);
        });
    }

    /// A bitmap speaks of 64 packets from its base on, of those in flight alone.
    //= SRX-004 test
    #[test]
    fn a_bitmap_begins_and_ends_with_what_is_in_flight() {
        let all = u64::MAX;
        for (unack, max, bits) in [
            (0, 99, 0),
            (0, 100, 1),
            (99, 100, 1),
            (100, 200, all << 1),
            (99, 163, all),
            (99, 164, all),
            (99, 162, all >> 1),
            (162, 163, 1 << 63),
            (162, 300, 1 << 63),
            (163, 300, 0),
            (150, 150, 0),
        ] {
            assert_eq!(outstanding_bits(psn(100), psn(unack), psn(max)), bits, "({unack}, {max}]");
        }
    }

    #[test]
    fn the_oldest_packet_under_way_is_neither_sacked_nor_lost() {
        window(|w| {
            w.mark(psn(50), u64::MAX, psn(49), psn(130));
            w.set_lost(psn(114), true);
            assert_eq!(w.first_sent(psn(49), psn(130)), Some(psn(115)));
            assert_eq!(w.first_sent(psn(49), psn(114)), None);
        });
    }

    //= SRX-007 test
    #[test]
    fn a_lost_packet_that_arrived_after_all_is_not_lost() {
        window(|w| {
            w.set_lost(psn(7), true);
            assert_eq!(w.mark(psn(7), 1, psn(6), psn(7)), 0);
            assert!(!w.is_lost(psn(7)) && w.is_sacked(psn(7)));
        });
    }

    /// Of the right QP and at the right place, where windows are shorter than a word as well.
    #[test]
    fn what_lies_about_a_packet_is_read_ahead() {
        for (capacity, words_each) in [(8usize, 1usize), (256, 4)] {
            let (mut records, mut words) = (vec![TxRecord::EMPTY; 4 * capacity], vec![TxWord::EMPTY; 4 * words_each]);
            for (qp, number, slot) in [(0, 5, 9), (3, 5, 11), (3, 2 * capacity as u32 + 7, 13), (2, 0xFF_FFFF, 1)] {
                let mut window = TxWindow::new(&mut records, &mut words, qp, capacity);
                *window.record_mut(psn(number)).unwrap() = TxRecord::first(Tick::at(Instant::ZERO), EvIndex(slot), 0);
                assert_eq!(TxWindow::ev_of(&records, qp, capacity, psn(number)), Some(slot.into()));
                let asked = crate::prefetch::Asked::default();
                TxWindow::fetch((&records, &words), qp, capacity, psn(number), &asked);
                let place = qp as usize * capacity + number as usize % capacity;
                let word = qp as usize * words_each + number as usize % capacity / 64;
                assert_eq!((asked.within(&records[place]), asked.within(&words[word]), asked.words()), (1, 1, 2));
            }
        }
    }
}
