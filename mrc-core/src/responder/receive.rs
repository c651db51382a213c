//! Receive requests and immediates of one QP: requests in posting order, immediates that wait for earlier packets in PSN
//! order. Both are rings over lent slices. Source: `transport.md` 4.6.

use crate::num::Counter;
use mrc_wire::{Msn, Psn};

/// A receive request, lent by the caller. A write with immediate names its own memory; the request only lends its number
/// to the completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecvWqe {
    pub(crate) wr_id: u64,
}

impl RecvWqe {
    /// An unused slot.
    pub const EMPTY: Self = Self { wr_id: 0 };
}

/// The receive queue of one QP; counters run freely and are masked on access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiveQueue {
    head: u32,
    tail: u32,
}

impl ReceiveQueue {
    pub(crate) const EMPTY: Self = Self { head: 0, tail: 0 };

    /// Counter of the oldest request.
    pub(crate) const fn first(&self) -> u32 {
        self.head
    }

    pub(crate) fn len(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    /// Whether the request fitted; `ring.len()` is a power of two or 0.
    pub(crate) fn push(&mut self, ring: &mut [RecvWqe], wqe: RecvWqe) -> bool {
        if self.len() as usize >= ring.len() {
            return false;
        }
        let at = self.tail as usize & ring.len().wrapping_sub(1);
        if let Some(slot) = ring.get_mut(at) {
            *slot = wqe;
        }
        self.tail = self.tail.wrapping_add(1);
        true
    }

    pub(crate) fn pop(&mut self, ring: &[RecvWqe]) -> Option<RecvWqe> {
        if self.len() == 0 {
            return None;
        }
        let wqe = ring.get(self.head as usize & ring.len().wrapping_sub(1)).copied()?;
        self.head = self.head.wrapping_add(1);
        Some(wqe)
    }
}

/// A write with immediate that arrived and is not completed, lent by the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Immediate {
    /// PSN of the packet that carried it, the last of its message.
    pub(crate) psn: Psn,
    pub(crate) imm: u32,
    /// Bytes of the message.
    pub(crate) dmalen: u32,
    pub(crate) rqmsn: Msn,
    pub(crate) solicited: bool,
}

impl Immediate {
    /// An unused slot.
    pub const EMPTY: Self = Self { psn: Psn::new(0), imm: 0, dmalen: 0, rqmsn: Msn(0), solicited: false };
}

/// Immediates in PSN order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stash {
    head: u16,
    len: u16,
    /// Most entries: the limit this side offered (`max_wimm_dest`).
    limit: u16,
}

impl Stash {
    pub(crate) const EMPTY: Self = Self { head: 0, len: 0, limit: 0 };

    pub(crate) fn new(limit: u16) -> Self {
        Self { limit, ..Self::EMPTY }
    }

    pub(crate) const fn len(&self) -> u16 {
        self.len
    }

    /// Whether it can be that of a ring of `capacity`.
    pub(crate) fn fits(&self, capacity: usize) -> bool {
        usize::from(self.head) < capacity.max(1) && usize::from(self.len.max(self.limit)) <= capacity
    }

    /// Where the immediate with this place in the order lies.
    pub(crate) fn at(&self, nth: u16, capacity: usize) -> usize {
        let at = usize::from(self.head).wrapping_add(nth.into());
        at.checked_sub(capacity).unwrap_or(at)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether there was room. Sorts in from the newest end: immediates arrive nearly in order.
    //= WIMM-001, WIMM-002
    pub(crate) fn insert(&mut self, ring: &mut [Immediate], new: Immediate) -> bool {
        if self.len >= self.limit || usize::from(self.len) >= ring.len() {
            return false;
        }
        let mut to = self.len;
        while to > 0 {
            let (before, here) = (self.at(to.wrapping_sub(1), ring.len()), self.at(to, ring.len()));
            let Some(older) = ring.get(before).copied().filter(|older| older.psn.diff(new.psn) > 0) else { break };
            if let Some(slot) = ring.get_mut(here) {
                *slot = older;
            }
            to.dec();
        }
        let here = self.at(to, ring.len());
        if let Some(slot) = ring.get_mut(here) {
            *slot = new;
        }
        self.len.inc();
        true
    }

    pub(crate) fn front(&self, ring: &[Immediate]) -> Option<Immediate> {
        if self.len == 0 { None } else { ring.get(usize::from(self.head)).copied() }
    }

    pub(crate) fn pop(&mut self, capacity: usize) {
        if self.len > 0 {
            self.head = self.at(1, capacity) as u16;
            self.len.dec();
        }
    }
}

crate::image::stored!(struct RecvWqe { wr_id });
crate::image::stored!(struct ReceiveQueue { head, tail });
crate::image::stored!(struct Immediate { psn, imm, dmalen, rqmsn, solicited });
crate::image::stored!(struct Stash { head, len, limit });

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn imm(psn: u32) -> Immediate {
        Immediate { psn: Psn::new(psn), imm: psn, ..Immediate::EMPTY }
    }

    //= WIMM-004 test
    #[test]
    fn immediates_come_out_in_psn_order_across_the_wrap() {
        let mut ring = [Immediate::EMPTY; 5];
        let mut stash = Stash::new(5);
        let mut out = Vec::new();
        for round in 0..4u32 {
            let base = 0xFF_FFFE + round * 10;
            for offset in [3, 0, 4, 1, 2] {
                assert!(stash.insert(&mut ring, imm((base + offset) & 0xFF_FFFF)));
            }
            assert!(!stash.insert(&mut ring, imm(base + 5)), "the ring is full");
            while let Some(front) = stash.front(&ring) {
                out.push(front.psn.diff(Psn::new(base & 0xFF_FFFF)));
                stash.pop(ring.len());
            }
        }
        assert_eq!(out, [0, 1, 2, 3, 4].repeat(4));
    }

    //= WIMM-002 test
    #[test]
    fn the_negotiated_limit_binds_before_the_storage() {
        let mut ring = [Immediate::EMPTY; 8];
        let mut stash = Stash::new(2);
        assert!(stash.insert(&mut ring, imm(1)) && stash.insert(&mut ring, imm(2)));
        assert!(!stash.insert(&mut ring, imm(3)));
        stash.pop(ring.len());
        assert!(stash.insert(&mut ring, imm(3)));
        assert!(!Stash::new(0).insert(&mut ring, imm(1)), "a limit of 0 takes none");
    }

    /// An image of a queue pair may name every state that its storage can hold, and no other.
    #[test]
    fn immediates_of_an_image_fit_their_storage() {
        assert!(Stash { head: 3, len: 4, limit: 4 }.fits(4) && Stash::EMPTY.fits(0));
        for bad in [(4, 4, 4), (0, 5, 4), (0, 4, 5)] {
            let (head, len, limit) = bad;
            assert!(!Stash { head, len, limit }.fits(4), "{bad:?}");
        }
        assert!(!Stash { head: 1, ..Stash::EMPTY }.fits(0));
    }

    #[test]
    fn a_receive_queue_is_first_in_first_out_and_bounded() {
        let mut ring = [RecvWqe::EMPTY; 4];
        let mut queue = ReceiveQueue { head: u32::MAX, tail: u32::MAX };
        for wr_id in 0..4 {
            assert!(queue.push(&mut ring, RecvWqe { wr_id }));
        }
        assert!(!queue.push(&mut ring, RecvWqe { wr_id: 9 }));
        assert_eq!(queue.pop(&ring), Some(RecvWqe { wr_id: 0 }));
        assert!(queue.push(&mut ring, RecvWqe { wr_id: 4 }));
        let rest: Vec<u64> = core::iter::from_fn(|| queue.pop(&ring)).map(|wqe| wqe.wr_id).collect();
        assert_eq!(rest, [1, 2, 3, 4]);
        let mut without = ReceiveQueue::EMPTY;
        assert!(!without.push(&mut [], RecvWqe::EMPTY), "no storage, no receives");
    }
}
