//! The event queue: a bucketed timing wheel over virtual nanoseconds. Owns event storage and order, knows no event's meaning.
//!
//! ```text
//!   position                near_end                            far_end
//!      |  near: 1 ns slots     |   far: 1024 ns buckets            |   overflow: binary heap
//!  ----+-----------------------+-----------------------------------+------------------------->
//! ```
//!
//! Almost every event of a fabric (end of a serialisation, arrival after a propagation delay) falls into `near`. A slot
//! there holds one instant only: first-in first-out within the slot *is* the order of insertion. Buckets move to
//! `near`, and the heap to `far`, before anything can be scheduled there directly. Events with equal times therefore
//! leave in the order they were scheduled, whatever route they took. Events live in one arena: no allocation once it
//! has grown to the largest number pending.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use mrc_core::Instant;

const NEAR_SLOTS: u64 = 8192;
const FAR_SHIFT: u32 = 10;
const FAR_WIDTH_NS: u64 = 1 << FAR_SHIFT;
const FAR_SLOTS: u64 = 4096;
const NIL: u32 = u32::MAX;

struct Node<E> {
    at: u64,
    next: u32,
    event: E,
}

/// A ring of FIFO lists with a two-level bitmap of those that are not empty.
struct Slots {
    ends: Vec<(u32, u32)>,
    words: Vec<u64>,
    summary: Vec<u64>,
}

impl Slots {
    fn new(count: u64) -> Self {
        let words = count as usize / 64;
        Self { ends: vec![(NIL, NIL); count as usize], words: vec![0; words], summary: vec![0; words.div_ceil(64)] }
    }

    #[inline(always)]
    fn push<E>(&mut self, slot: usize, node: u32, nodes: &mut [Node<E>]) {
        let (head, tail) = &mut self.ends[slot];
        if *head == NIL {
            *head = node;
            self.words[slot / 64] |= 1 << (slot % 64);
            self.summary[slot / 4096] |= 1 << (slot / 64 % 64);
        } else {
            nodes[*tail as usize].next = node;
        }
        *tail = node;
    }

    /// Empties a list and returns its first node.
    fn take(&mut self, slot: usize) -> u32 {
        let head = std::mem::replace(&mut self.ends[slot].0, NIL);
        if head != NIL {
            self.mark_empty(slot);
        }
        head
    }

    fn mark_empty(&mut self, slot: usize) {
        self.words[slot / 64] &= !(1 << (slot % 64));
        if self.words[slot / 64] == 0 {
            self.summary[slot / 4096] &= !(1 << (slot / 64 % 64));
        }
    }

    /// The first list that is not empty at or after `from`, going round once.
    fn first_from(&self, from: usize) -> Option<usize> {
        self.scan(from).or_else(|| self.scan(0))
    }

    fn scan(&self, from: usize) -> Option<usize> {
        let word = from / 64;
        let here = self.words[word] & (!0 << (from % 64));
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros() as usize);
        }
        let next = word + 1;
        let mut mask = !0 << (next % 64);
        for group in next / 64..self.summary.len() {
            let words = self.summary[group] & mask;
            if words != 0 {
                let word = group * 64 + words.trailing_zeros() as usize;
                return Some(word * 64 + self.words[word].trailing_zeros() as usize);
            }
            mask = !0;
        }
        None
    }
}

/// A queue of events ordered by time, then by order of insertion.
pub struct Wheel<E> {
    /// No pending event and no future one is earlier.
    position: u64,
    near_end: u64,
    near: Slots,
    far: Slots,
    overflow: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// Breaks ties inside the heap; the other two levels are first-in first-out by construction.
    overflow_seq: u64,
    nodes: Vec<Node<E>>,
    /// Nodes without an event. A stack and no list through the nodes: which one is next is known without reading a node that
    /// nobody has touched for long.
    free: Vec<u32>,
    /// What is left of the events of the present instant, which were taken out of their slot together. Those scheduled for
    /// it meanwhile are in the slot, behind them.
    present: u32,
    len: usize,
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
            near_end: NEAR_SLOTS,
            near: Slots::new(NEAR_SLOTS),
            far: Slots::new(FAR_SLOTS),
            overflow: BinaryHeap::new(),
            overflow_seq: 0,
            nodes: Vec::new(),
            free: Vec::new(),
            present: NIL,
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
        let node = self.store(at, event);
        self.len += 1;
        if at < self.near_end {
            self.near.push((at % NEAR_SLOTS) as usize, node, &mut self.nodes);
        } else {
            self.schedule_far(at, node);
        }
    }

    /// No pending event is earlier, and the first is less than a bucket later; `None`: no event is pending.
    pub fn earliest(&self) -> Option<Instant> {
        if self.len == 0 {
            return None;
        }
        if self.present != NIL {
            return Some(Instant::from_nanos(self.position));
        }
        let near = self.near.first_from((self.position % NEAR_SLOTS) as usize);
        let at = near.map(|slot| self.nodes[self.near.ends[slot].0 as usize].at);
        at.or_else(|| self.far_start()).map(Instant::from_nanos)
    }

    /// Adds the events that come next to `events`, in their order, until it holds `most` or those less than some thousand
    /// nanoseconds away; or only those that are left of the present instant. What is scheduled meanwhile may come before them.
    pub(super) fn next(&self, events: &mut Vec<E>, most: usize, only_present: bool) {
        let mut list = |mut node: u32| {
            while node != NIL && events.len() < most {
                let Node { next, event, .. } = self.nodes[node as usize];
                events.push(event);
                node = next;
            }
            events.len() < most
        };
        let start = (self.position % NEAR_SLOTS) as usize;
        let mut goes_on = list(self.present) && !only_present;
        for (from, end) in [(start, NEAR_SLOTS as usize), (0, start)] {
            let mut at = self.near.scan(from);
            while let Some(slot) = at.filter(|&slot| goes_on && slot < end) {
                goes_on = list(self.near.ends[slot].0);
                at = if slot + 1 < end { self.near.scan(slot + 1) } else { None };
            }
        }
    }

    /// Removes and returns the earliest event, unless it is later than `limit`.
    ///
    /// After `None`, events may still be scheduled from `limit` on.
    #[inline]
    pub fn pop_until(&mut self, limit: Instant) -> Option<(Instant, E)> {
        let limit = limit.as_nanos();
        if self.present == NIL {
            self.take_instant(limit)?;
        } else if self.position > limit {
            return None;
        }
        let id = self.present;
        let node = &self.nodes[id as usize];
        let event = node.event;
        self.present = node.next;
        self.free.push(id);
        self.len -= 1;
        Some((Instant::from_nanos(self.position), event))
    }

    /// Makes the earliest instant the present one, with all its events, unless it is later than `limit`.
    fn take_instant(&mut self, limit: u64) -> Option<()> {
        if self.len == 0 {
            return None;
        }
        let slot = loop {
            if let Some(slot) = self.near.first_from((self.position % NEAR_SLOTS) as usize) {
                break slot;
            }
            self.jump(limit)?;
        };
        let at = self.nodes[self.near.ends[slot].0 as usize].at;
        if at > limit {
            return None;
        }
        self.present = self.near.take(slot);
        self.position = at;
        self.refill();
        Some(())
    }

    #[inline(always)]
    fn store(&mut self, at: u64, event: E) -> u32 {
        let fresh = Node { at, next: NIL, event };
        let Some(node) = self.free.pop() else {
            self.nodes.push(fresh);
            return (self.nodes.len() - 1) as u32;
        };
        self.nodes[node as usize] = fresh;
        node
    }

    fn far_end(&self) -> u64 {
        self.near_end.saturating_add(FAR_SLOTS << FAR_SHIFT)
    }

    #[inline(never)]
    fn schedule_far(&mut self, at: u64, node: u32) {
        if at < self.far_end() {
            self.far.push(((at >> FAR_SHIFT) % FAR_SLOTS) as usize, node, &mut self.nodes);
        } else {
            self.overflow_seq += 1;
            self.overflow.push(Reverse((at, self.overflow_seq, node)));
        }
    }

    /// With nothing near, moves to the bucket of the earliest event; `None` when it begins after `limit`.
    fn jump(&mut self, limit: u64) -> Option<()> {
        let start = self.far_start()?;
        if start > limit {
            return None;
        }
        self.position = start;
        self.near_end = start;
        self.pull_overflow();
        self.refill();
        Some(())
    }

    /// Where the bucket of the earliest event beyond `near` begins.
    fn far_start(&self) -> Option<u64> {
        let first = ((self.near_end >> FAR_SHIFT) % FAR_SLOTS) as usize;
        match self.far.first_from(first) {
            Some(slot) => {
                let ahead = (slot as u64 + FAR_SLOTS - first as u64) % FAR_SLOTS;
                Some(self.near_end + (ahead << FAR_SHIFT))
            }
            None => Some(self.overflow.peek()?.0.0 & !(FAR_WIDTH_NS - 1)),
        }
    }

    /// Moves buckets to `near` while they fit beside what is pending there.
    fn refill(&mut self) {
        while self.near_end + FAR_WIDTH_NS - self.position <= NEAR_SLOTS {
            let mut node = self.far.take(((self.near_end >> FAR_SHIFT) % FAR_SLOTS) as usize);
            self.near_end += FAR_WIDTH_NS;
            while node != NIL {
                let Node { at, next, .. } = self.nodes[node as usize];
                self.nodes[node as usize].next = NIL;
                self.near.push((at % NEAR_SLOTS) as usize, node, &mut self.nodes);
                node = next;
            }
            self.pull_overflow();
        }
    }

    fn pull_overflow(&mut self) {
        let end = self.far_end();
        while let Some(&Reverse((at, _, node))) = self.overflow.peek() {
            if at >= end {
                break;
            }
            self.overflow.pop();
            self.far.push(((at >> FAR_SHIFT) % FAR_SLOTS) as usize, node, &mut self.nodes);
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
            wheel.next(&mut next, 20, false);
            let mut present = Vec::new();
            wheel.next(&mut present, 20, true);
            assert!(next.starts_with(&present));
            assert!(next.len() <= 20);
            let near = wheel.len() - wheel.overflow.len();
            for event in next.iter().take(near) {
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
        assert_eq!(wheel.nodes.len(), 100);
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
