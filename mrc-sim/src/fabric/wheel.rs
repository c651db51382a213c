//! The event queue: a calendar of buckets over virtual nanoseconds. Owns event storage and order, knows no event's meaning.
//!
//! ```text
//!   position      present bucket            near_end                            far_end
//!      |  instants of 1 ns | near: 64 ns buckets  |   far: 1024 ns buckets            |   overflow: binary heap
//!  ----+-------------------+----------------------+-----------------------------------+------------------------->
//! ```
//!
//! Almost every event of a fabric (end of a serialisation, arrival after a propagation delay) falls into `near`. A bucket
//! there is one array in the order of insertion. When its time has come its events move to the lists of their instants,
//! and later ones for this bucket join those lists directly. So first-in first-out within a list *is* the order of
//! insertion. Far buckets move to `near`, and the heap to `far`, before anything can be scheduled there directly. Events with
//! equal times therefore leave in the order they were scheduled, whatever route they took. Arrays are used again: few
//! allocations once they have grown to the largest number pending.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use mrc_core::Instant;

/// What is scheduled less than this ahead goes to a near bucket.
const NEAR_NS: u64 = 8192;
const BUCKET_SHIFT: u32 = 6;
const BUCKET_NS: u64 = 1 << BUCKET_SHIFT;
/// A power of two that holds `NEAR_NS` from any instant of a bucket on.
const BUCKETS: usize = 2 * (NEAR_NS / BUCKET_NS) as usize;
const FAR_SHIFT: u32 = 10;
const FAR_WIDTH_NS: u64 = 1 << FAR_SHIFT;
const FAR_SLOTS: usize = 4096;

/// An event of a near bucket.
#[derive(Clone, Copy)]
struct Entry<E> {
    /// Nanoseconds from the begin of the bucket.
    offset: u32,
    event: E,
}

/// An event of a later bucket, with its instant.
type Later<E> = Vec<(u64, E)>;

/// Which of a ring of buckets hold something.
struct Used<const WORDS: usize>([u64; WORDS]);

impl<const WORDS: usize> Used<WORDS> {
    #[inline(always)]
    fn set(&mut self, slot: usize) {
        self.0[slot / 64] |= 1 << (slot % 64);
    }

    #[inline(always)]
    fn clear(&mut self, slot: usize) {
        self.0[slot / 64] &= !(1 << (slot % 64));
    }

    /// How many slots after `from` the first one is that holds something, going round once.
    fn ahead(&self, from: usize) -> Option<usize> {
        let here = self.0[from / 64] >> (from % 64);
        if here != 0 {
            return Some(here.trailing_zeros() as usize);
        }
        let mut ahead = 64 - from % 64;
        for nth in 1..=WORDS {
            let word = self.0[(from / 64 + nth) % WORDS];
            if word != 0 {
                return Some(ahead + word.trailing_zeros() as usize);
            }
            ahead += 64;
        }
        None
    }
}

/// A queue of events ordered by time, then by order of insertion.
pub struct Wheel<E> {
    /// No pending event and no future one is earlier.
    position: u64,
    /// Where the bucket after the present one begins.
    present_end: u64,
    near_end: u64,
    /// Events of the present instant that were pending when it began, and how many of them were removed since.
    present: Vec<E>,
    removed: usize,
    /// Instants of the present bucket that hold other events.
    instants: u64,
    /// By instant of the present bucket.
    lists: Box<[Vec<E>; BUCKET_NS as usize]>,
    near: Box<[Vec<Entry<E>>; BUCKETS]>,
    near_used: Used<{ BUCKETS / 64 }>,
    /// Arrays without events, for buckets that get some.
    spare: Vec<Vec<Entry<E>>>,
    far: Vec<Later<E>>,
    far_used: Used<{ FAR_SLOTS / 64 }>,
    overflow: BinaryHeap<Reverse<Overflow<E>>>,
    /// Breaks ties inside the heap; the other levels are first-in first-out by construction.
    overflow_seq: u64,
    len: usize,
}

/// An event beyond all buckets.
struct Overflow<E> {
    at: u64,
    seq: u64,
    event: E,
}

impl<E> PartialEq for Overflow<E> {
    fn eq(&self, other: &Self) -> bool {
        self.seq == other.seq
    }
}

impl<E> Eq for Overflow<E> {}

impl<E> PartialOrd for Overflow<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Overflow<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.seq).cmp(&(other.at, other.seq))
    }
}

impl<E: Copy> Default for Wheel<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: Copy> Wheel<E> {
    /// An empty queue at time zero.
    pub fn new() -> Self {
        Self {
            position: 0,
            present_end: BUCKET_NS,
            near_end: NEAR_NS,
            present: Vec::new(),
            removed: 0,
            instants: 0,
            lists: Box::new([const { Vec::new() }; BUCKET_NS as usize]),
            near: Box::new([const { Vec::new() }; BUCKETS]),
            near_used: Used([0; BUCKETS / 64]),
            spare: Vec::new(),
            far: (0..FAR_SLOTS).map(|_| Vec::new()).collect(),
            far_used: Used([0; FAR_SLOTS / 64]),
            overflow: BinaryHeap::new(),
            overflow_seq: 0,
            len: 0,
        }
    }

    /// Number of pending events.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no event is pending.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds `event` at `at`, after all events already pending for that instant. An instant that has passed counts as the
    /// present one.
    // In line: the event is then written where it stays. Passed through memory it would be read back in other pieces than it
    // was written, and wait until all that was written before has reached the cache.
    #[inline(always)]
    pub fn schedule(&mut self, at: Instant, event: E) {
        let at = at.as_nanos().max(self.position);
        self.len += 1;
        if at < self.present_end {
            self.add_present(at, event);
        } else if at < self.near_end {
            self.add_near(at, event);
        } else {
            self.add_far(at, event);
        }
    }

    #[inline(always)]
    fn add_present(&mut self, at: u64, event: E) {
        let instant = at % BUCKET_NS;
        self.instants |= 1 << instant;
        self.lists[instant as usize].push(event);
    }

    #[inline(always)]
    fn add_near(&mut self, at: u64, event: E) {
        let slot = (at >> BUCKET_SHIFT) as usize % BUCKETS;
        let bucket = &mut self.near[slot];
        if bucket.is_empty() {
            self.near_used.set(slot);
            if bucket.capacity() == 0 {
                *bucket = self.spare.pop().unwrap_or_default();
            }
        }
        bucket.push(Entry { offset: (at % BUCKET_NS) as u32, event });
    }

    #[inline(never)]
    fn add_far(&mut self, at: u64, event: E) {
        if at < self.far_end() {
            let slot = (at >> FAR_SHIFT) as usize % FAR_SLOTS;
            self.far_used.set(slot);
            self.far[slot].push((at, event));
        } else {
            self.overflow_seq += 1;
            self.overflow.push(Reverse(Overflow { at, seq: self.overflow_seq, event }));
        }
    }

    /// No pending event is earlier, and the first is less than a bucket later; `None`: no event is pending.
    pub fn earliest(&self) -> Option<Instant> {
        if self.len == 0 {
            return None;
        }
        if self.left() > 0 {
            return Some(Instant::from_nanos(self.position));
        }
        let at = match (self.instants, self.near_ahead()) {
            (0, None) => self.far_start(),
            (0, Some(begin)) => {
                let bucket = &self.near[(begin >> BUCKET_SHIFT) as usize % BUCKETS];
                Some(begin + bucket.iter().map(|entry| u64::from(entry.offset)).min().unwrap_or(0))
            }
            (instants, _) => Some(self.present_end - BUCKET_NS + u64::from(instants.trailing_zeros())),
        };
        at.map(Instant::from_nanos)
    }

    /// Events that are left of those that were pending when the present instant began.
    #[inline]
    pub(super) fn left(&self) -> usize {
        self.present.len() - self.removed
    }

    /// Adds the events that come next to `events`, in their order, until it holds `most` or those of the present bucket, less
    /// than 64 ns away. What is scheduled meanwhile may come before them.
    pub(super) fn next(&self, events: &mut Vec<E>, most: usize) {
        let mut add = |list: &[E]| {
            events.extend_from_slice(&list[..list.len().min(most.saturating_sub(events.len()))]);
            events.len() < most
        };
        let mut goes_on = add(&self.present[self.removed..]);
        let mut instants = self.instants;
        while goes_on && instants != 0 {
            goes_on = add(&self.lists[instants.trailing_zeros() as usize % BUCKET_NS as usize]);
            instants &= instants - 1;
        }
    }

    /// Removes and returns the earliest event, unless it is later than `limit`.
    ///
    /// After `None`, events may still be scheduled from `limit` on.
    #[inline]
    pub fn pop_until(&mut self, limit: Instant) -> Option<(Instant, E)> {
        let limit = limit.as_nanos();
        if self.removed == self.present.len() {
            self.begin_instant(limit)?;
        } else if self.position > limit {
            return None;
        }
        let event = *self.present.get(self.removed)?;
        self.removed += 1;
        self.len -= 1;
        Some((Instant::from_nanos(self.position), event))
    }

    /// Makes the earliest instant the present one, unless it is later than `limit`.
    #[inline]
    fn begin_instant(&mut self, limit: u64) -> Option<()> {
        while self.instants == 0 {
            self.begin_bucket(limit)?;
        }
        let instant = u64::from(self.instants.trailing_zeros());
        let at = self.present_end - BUCKET_NS + instant;
        if at > limit {
            return None;
        }
        self.instants &= self.instants - 1;
        self.present.clear();
        std::mem::swap(&mut self.present, &mut self.lists[(instant % BUCKET_NS) as usize]);
        self.removed = 0;
        self.position = at;
        if self.has_room() {
            self.refill();
        }
        Some(())
    }

    /// With nothing left in the present bucket, makes that of the earliest event the present one; `None` when it begins after
    /// `limit`.
    #[inline(never)]
    fn begin_bucket(&mut self, limit: u64) -> Option<()> {
        if self.len == 0 {
            return None;
        }
        let Some(begin) = self.near_ahead() else { return self.jump(limit) };
        if begin > limit {
            return None;
        }
        self.position = begin;
        self.open(begin);
        Some(())
    }

    /// Moves the events of the bucket that begins at `begin` to the lists of their instants.
    fn open(&mut self, begin: u64) {
        self.present_end = begin + BUCKET_NS;
        let slot = (begin >> BUCKET_SHIFT) as usize % BUCKETS;
        if self.near[slot].is_empty() {
            return;
        }
        let mut bucket = std::mem::take(&mut self.near[slot]);
        self.near_used.clear(slot);
        for &Entry { offset, event } in &bucket {
            self.add_present(offset.into(), event);
        }
        bucket.clear();
        self.spare.push(bucket);
    }

    /// Where the first near bucket that holds something begins.
    fn near_ahead(&self) -> Option<u64> {
        let ahead = self.near_used.ahead((self.present_end >> BUCKET_SHIFT) as usize % BUCKETS)?;
        Some(self.present_end + ((ahead as u64) << BUCKET_SHIFT))
    }

    fn far_end(&self) -> u64 {
        self.near_end.saturating_add((FAR_SLOTS as u64) << FAR_SHIFT)
    }

    /// With nothing near, moves to the far bucket of the earliest event; `None` when it begins after `limit`.
    fn jump(&mut self, limit: u64) -> Option<()> {
        let start = self.far_start()?;
        if start > limit {
            return None;
        }
        self.position = start;
        self.near_end = start;
        self.present_end = start;
        self.pull_overflow();
        self.refill();
        self.open(start);
        Some(())
    }

    /// Where the far bucket of the earliest event beyond `near` begins.
    fn far_start(&self) -> Option<u64> {
        match self.far_used.ahead((self.near_end >> FAR_SHIFT) as usize % FAR_SLOTS) {
            Some(ahead) => Some(self.near_end + ((ahead as u64) << FAR_SHIFT)),
            None => Some(self.overflow.peek()?.0.at & !(FAR_WIDTH_NS - 1)),
        }
    }

    /// Whether the next far bucket fits in `near`.
    #[inline]
    fn has_room(&self) -> bool {
        self.near_end + FAR_WIDTH_NS - self.position <= NEAR_NS
    }

    /// Moves far buckets to `near` while they fit there.
    #[inline(never)]
    fn refill(&mut self) {
        while self.has_room() {
            let slot = (self.near_end >> FAR_SHIFT) as usize % FAR_SLOTS;
            self.near_end += FAR_WIDTH_NS;
            if !self.far[slot].is_empty() {
                self.far_used.clear(slot);
                for (at, event) in std::mem::take(&mut self.far[slot]) {
                    self.add_near(at, event);
                }
            }
            self.pull_overflow();
        }
    }

    fn pull_overflow(&mut self) {
        let end = self.far_end();
        while let Some(Reverse(first)) = self.overflow.peek()
            && first.at < end
            && let Some(Reverse(Overflow { at, event, .. })) = self.overflow.pop()
        {
            let slot = (at >> FAR_SHIFT) as usize % FAR_SLOTS;
            self.far_used.set(slot);
            self.far[slot].push((at, event));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mrc_core::Rng;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn order_is_time_then_insertion_against_a_sorted_model() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let mut wheel = Wheel::new();
            let mut model: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
            let mut now = 0;
            for id in 0..20_000u32 {
                // From "this instant" to far beyond both wheels, with many ties.
                let ahead = match rng.below(6) {
                    0 => 0,
                    1 => rng.below(4) as u64,
                    2 => rng.below(10_000) as u64,
                    3 => rng.below(50) as u64 * 1024,
                    4 => rng.below(8) as u64 * 1_000_000,
                    _ => rng.below(4) as u64 * 1_000_000_000,
                };
                wheel.schedule(at(now + ahead), id);
                model.push(Reverse((now + ahead, id)));
                if rng.below(3) == 0 {
                    // A limit that often lies before the next event: the wheel must not run ahead of it.
                    let limit = now + rng.below(3_000_000) as u64;
                    let expect = model.peek().filter(|e| e.0.0 <= limit).map(|e| e.0);
                    let (bound, first) = (wheel.earliest().unwrap().as_nanos(), model.peek().unwrap().0.0);
                    assert!(bound <= first && first < bound + FAR_WIDTH_NS, "{bound} {first}");
                    assert_eq!(wheel.pop_until(at(limit)), expect.map(|(t, id)| (at(t), id)));
                    match expect {
                        Some((t, _)) => {
                            model.pop();
                            now = t;
                        }
                        None => now = limit,
                    }
                }
            }
            while let Some(Reverse((t, id))) = model.pop() {
                assert_eq!(wheel.pop_until(Instant::FAR), Some((at(t), id)));
            }
            assert!(wheel.is_empty() && wheel.earliest().is_none());
            assert_eq!(wheel.pop_until(Instant::FAR), None);
        }
    }

    #[test]
    fn the_next_events_are_those_that_are_removed_next() {
        let (mut rng, mut wheel) = (Rng::new(9), Wheel::new());
        for round in 0..300u32 {
            for id in 0..rng.below(40) {
                wheel.schedule(at(wheel.position + u64::from(rng.below(600) * (rng.below(13)))), round << 8 | id);
            }
            // From the middle of an instant, too.
            for _ in 0..rng.below(30) {
                wheel.pop_until(Instant::FAR);
            }
            let mut next = Vec::new();
            wheel.next(&mut next, 20);
            assert!(next.len() <= 20 && next.len() >= wheel.left().min(20));
            for event in &next {
                assert_eq!(wheel.pop_until(Instant::FAR).map(|(_, event)| event), Some(*event));
            }
        }
    }

    #[test]
    fn storage_stops_growing_in_steady_state() {
        let mut wheel = Wheel::new();
        for i in 0..100 {
            wheel.schedule(at(i * 13), i);
        }
        for _ in 0..100_000 {
            let (now, id) = wheel.pop_until(Instant::FAR).unwrap();
            wheel.schedule(now.after(300 + id * 20_000), id);
        }
        let arrays = wheel.spare.iter().chain(wheel.near.iter()).map(Vec::capacity).sum::<usize>();
        let instants = wheel.lists.iter().map(Vec::capacity).sum::<usize>();
        assert!(arrays <= 400 && instants <= 64 * 16, "{arrays} {instants}");
    }

    #[test]
    fn a_past_instant_counts_as_now() {
        let mut wheel = Wheel::new();
        wheel.schedule(at(1000), 1);
        assert_eq!(wheel.pop_until(at(1000)), Some((at(1000), 1)));
        wheel.schedule(at(10), 2);
        assert_eq!(wheel.pop_until(at(1000)), Some((at(1000), 2)));
    }
}
