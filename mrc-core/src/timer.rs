//! Deadlines: an indexed binary heap with one entry per QP. `earliest` is O(1), a change is O(log n), and a QP
//! whose deadline only moves later is left alone until it fires (the reader then says when to come back).

use crate::Prefetch;
use crate::image::Sequence;
use crate::num::Counter;
use crate::time::Instant;

/// One heap slot, lent by the caller: which QP, and when.
#[derive(Clone, Copy, Debug)]
pub struct TimerSlot {
    at: Instant,
    qp: u32,
    /// Position in the heap of the QP with this slot's index; `NONE` when it is not armed.
    position: u32,
}

const NONE: u32 = u32::MAX;

impl TimerSlot {
    /// An unused slot.
    pub const EMPTY: Self = Self { at: Instant::FAR, qp: NONE, position: NONE };
}

/// The heap over the lent slots.
#[derive(Debug)]
pub(crate) struct Timers<'s> {
    slots: &'s mut [TimerSlot],
    len: usize,
}

impl<'s> Timers<'s> {
    pub(crate) fn new(slots: &'s mut [TimerSlot]) -> Self {
        slots.fill(TimerSlot::EMPTY);
        Self { slots, len: 0 }
    }

    /// The earliest deadline.
    #[inline]
    pub(crate) fn earliest(&self) -> Option<Instant> {
        if self.len == 0 { None } else { self.slots.first().map(|slot| slot.at) }
    }

    /// The QP with the earliest deadline.
    pub(crate) fn next(&self) -> Option<u32> {
        if self.len == 0 { None } else { self.slots.first().map(|slot| slot.qp) }
    }

    /// What arming `qp` begins with.
    pub(crate) fn fetch(&self, qp: u32, memory: &impl Prefetch) {
        memory.prefetch_all(self.slots.get(qp as usize).map(|slot| &slot.position));
    }

    /// The QP whose deadline has come; its entry is removed.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<u32> {
        let first = self.slots.first()?;
        if self.len == 0 || first.at > now {
            return None;
        }
        let qp = first.qp;
        self.remove(qp);
        Some(qp)
    }

    /// Makes `qp` fire at `at` or at what it was armed for, whichever is earlier.
    #[inline]
    pub(crate) fn arm(&mut self, qp: u32, at: Instant) {
        // Asked first: with many QPs the slot is a read that memory answers.
        if at == Instant::FAR {
            return;
        }
        let Some(position) = self.slots.get(qp as usize).map(|slot| slot.position) else { return };
        if position == NONE {
            let end = self.len;
            self.len.inc();
            self.put(end, at, qp);
            self.sift_up(end);
        } else if self.slots.get(position as usize).is_some_and(|slot| at < slot.at) {
            self.put(position as usize, at, qp);
            self.sift_up(position as usize);
        }
    }

    /// When `qp` fires.
    pub(crate) fn armed_for(&self, qp: u32) -> Instant {
        let position = self.slots.get(qp as usize).map_or(NONE, |slot| slot.position);
        if position == NONE { Instant::FAR } else { self.key(position as usize) }
    }

    /// Forgets `qp`.
    pub(crate) fn remove(&mut self, qp: u32) {
        let Some(position) = self.slots.get(qp as usize).map(|slot| slot.position) else { return };
        if position == NONE {
            return;
        }
        if let Some(slot) = self.slots.get_mut(qp as usize) {
            slot.position = NONE;
        }
        self.len = self.len.saturating_sub(1);
        let (end, position) = (self.len, position as usize);
        if position != end
            && let Some((at, moved)) = self.slots.get(end).map(|slot| (slot.at, slot.qp))
        {
            self.put(position, at, moved);
            self.sift_up(position);
            self.sift_down(position);
        }
    }

    fn key(&self, position: usize) -> Instant {
        self.slots.get(position).map_or(Instant::FAR, |slot| slot.at)
    }

    fn put(&mut self, position: usize, at: Instant, qp: u32) {
        if let Some(slot) = self.slots.get_mut(position) {
            slot.at = at;
            slot.qp = qp;
        }
        if let Some(slot) = self.slots.get_mut(qp as usize) {
            slot.position = position as u32;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        let (Some(x), Some(y)) = (self.slots.get(a).copied(), self.slots.get(b).copied()) else { return };
        self.put(a, y.at, y.qp);
        self.put(b, x.at, x.qp);
    }

    fn sift_up(&mut self, mut position: usize) {
        while position > 0 {
            let parent = position.wrapping_sub(1) >> 1;
            if self.key(parent) <= self.key(position) {
                break;
            }
            self.swap(parent, position);
            position = parent;
        }
    }

    fn sift_down(&mut self, mut position: usize) {
        loop {
            let left = (position << 1).wrapping_add(1);
            if left >= self.len {
                break;
            }
            let right = left.wrapping_add(1);
            let child = if right < self.len && self.key(right) < self.key(left) { right } else { left };
            if self.key(position) <= self.key(child) {
                break;
            }
            self.swap(position, child);
            position = child;
        }
    }
}

/// The heap in its order, for images: QPs and their deadlines.
impl Sequence for Timers<'_> {
    type Item = (u32, Instant);

    fn first(&self) -> Option<u32> {
        if self.len == 0 { None } else { Some(0) }
    }

    fn at(&mut self, place: u32) -> Option<((u32, Instant), Option<u32>)> {
        let slot = self.slots.get(place as usize)?;
        let next = place.wrapping_add(1);
        Some(((slot.qp, slot.at), if (next as usize) < self.len { Some(next) } else { None }))
    }

    fn append(&mut self, (qp, at): (u32, Instant)) -> bool {
        let end = self.len;
        let parent = end.checked_sub(1).map(|before| before >> 1);
        let armed = self.slots.get(qp as usize).is_none_or(|slot| slot.position != NONE);
        if armed || parent.is_some_and(|parent| self.key(parent) > at) {
            return false;
        }
        self.len.inc();
        self.put(end, at, qp);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn fires_in_order_whatever_the_arming_order() {
        let mut slots = [TimerSlot::EMPTY; 64];
        let mut timers = Timers::new(&mut slots);
        let mut want = [Instant::FAR; 64];
        let mut rng = Rng::new(1);
        for _ in 0..1_000 {
            let qp = rng.below(64);
            if rng.below(5) == 0 {
                timers.remove(qp);
                want[qp as usize] = Instant::FAR;
            } else {
                let at = Instant::from_nanos(rng.below(10_000).into());
                timers.arm(qp, at);
                want[qp as usize] = want[qp as usize].min(at);
            }
            assert_eq!(timers.earliest().unwrap_or(Instant::FAR), *want.iter().min().unwrap());
        }
        let mut last = Instant::ZERO;
        while let Some(at) = timers.earliest() {
            assert!(at >= last);
            last = at;
            let qp = timers.pop_due(at).unwrap();
            assert_eq!(want[qp as usize], at);
            want[qp as usize] = Instant::FAR;
        }
        assert!(want.iter().all(|&at| at == Instant::FAR));
    }
}
