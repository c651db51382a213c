//! The send queue of one QP: work requests in posting order, and how far transmission has come. A ring over a lent
//! slice. Source: `transport.md` 3.2 (segmentation), 3.9 (completion order).

use mrc_wire::{Msn, Psn, Rkey};

use crate::{Prefetch, mem::MrHandle};

/// One RDMA write, as an application posts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendWr {
    /// The caller's number, returned in the completion.
    pub wr_id: u64,
    /// L_Key of the local region.
    pub lkey: u32,
    /// Address of the first local byte.
    pub local_va: u64,
    /// Bytes of the message; 0 is allowed.
    pub len: u32,
    /// Address of the first remote byte.
    pub remote_va: u64,
    /// The peer's key.
    pub rkey: Rkey,
    /// Whether success produces a completion; failure always does.
    pub signaled: bool,
    /// Immediate to deliver with the message: it consumes a receive request of the peer and completes it in order.
    pub imm: Option<u32>,
    /// Ask the peer for an event with its completion; only with an immediate.
    pub solicited: bool,
}

/// A queued work request: a line of memory.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Wqe {
    pub(crate) wr_id: u64,
    pub(crate) mr: MrHandle,
    /// Offset of the message's first byte in `mr`.
    pub(crate) offset: u64,
    pub(crate) remote_va: u64,
    pub(crate) rkey: Rkey,
    pub(crate) len: u32,
    /// Packets of the message.
    pub(crate) packets: u32,
    /// Meaningful once transmission has started.
    pub(crate) first_psn: Psn,
    pub(crate) msn: Msn,
    /// Of a write with immediate.
    pub(crate) rqmsn: Msn,
    pub(crate) signaled: bool,
    pub(crate) solicited: bool,
    pub(crate) imm: Option<u32>,
}

impl Wqe {
    /// An unused slot.
    pub const EMPTY: Self = Self {
        wr_id: 0,
        mr: MrHandle { index: 0, generation: 0 },
        offset: 0,
        remote_va: 0,
        rkey: Rkey(0),
        len: 0,
        packets: 0,
        first_psn: Psn::new(0),
        msn: Msn(0),
        rqmsn: Msn(0),
        signaled: false,
        solicited: false,
        imm: None,
    };

    pub(crate) fn last_psn(&self) -> Psn {
        self.first_psn.add(self.packets.wrapping_sub(1))
    }
}

/// Positions in the ring; counters run freely and are masked on access.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SendQueue {
    /// Oldest request without completion.
    head: u32,
    /// Request being transmitted, or the next one.
    current: u32,
    /// Next free slot.
    tail: u32,
    /// Packets of `current` already sent.
    pub(crate) sent: u32,
}

/// A packet of a request: which, and where it lies in the message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'r> {
    pub(crate) wqe: &'r Wqe,
    pub(crate) at: SegmentAt,
}

/// A packet of a request that is still in the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentAt {
    /// Position of the request.
    pub(crate) request: u32,
    /// Index of the packet in its message.
    pub(crate) index: u32,
}

impl Segment<'_> {
    /// Whether this packet ends its message.
    #[inline]
    pub(crate) fn is_last(&self) -> bool {
        self.at.index.wrapping_add(1) >= self.wqe.packets
    }

    /// Bytes of its payload.
    #[inline]
    pub(crate) fn payload_len(&self, path_mtu: u32) -> u32 {
        // No wrap: a packet of the message begins inside it.
        self.wqe.len.saturating_sub(self.at.index.wrapping_mul(path_mtu)).min(path_mtu)
    }

    /// Whether this packet ends a write with immediate.
    #[inline]
    pub(crate) fn carries_imm(&self) -> bool {
        self.wqe.imm.is_some() && self.is_last()
    }
}

impl SendQueue {
    pub(crate) const IDLE: Self = Self { head: 0, current: 0, tail: 0, sent: 0 };

    #[inline]
    fn at(ring: &[Wqe], counter: u32) -> Option<&Wqe> {
        ring.get(counter as usize & ring.len().wrapping_sub(1))
    }

    /// Its own line of memory.
    #[inline]
    pub(crate) fn fetch(&self, memory: &impl Prefetch) {
        memory.prefetch(&self.current);
    }

    /// The request that is transmitted next.
    #[inline]
    pub(crate) fn fetch_request(&self, ring: &[Wqe], memory: &impl Prefetch) {
        memory.prefetch_all(Self::at(ring, self.current).map(|wqe| &wqe.len));
    }

    /// The place of the request that is posted next.
    #[inline]
    pub(crate) fn fetch_place(&self, ring: &[Wqe], memory: &impl Prefetch) {
        memory.prefetch_all(Self::at(ring, self.tail).map(|wqe| &wqe.len));
    }

    /// Counter of the oldest request.
    pub(crate) const fn first(&self) -> u32 {
        self.head
    }

    pub(crate) fn len(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    pub(crate) fn push(&mut self, ring: &mut [Wqe], wqe: Wqe) -> bool {
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

    /// Whether packets wait that were never sent.
    #[inline]
    pub(crate) fn has_new(&self) -> bool {
        self.current != self.tail
    }

    /// The request whose next packet is due for its first transmission.
    #[inline]
    pub(crate) fn current<'r>(&self, ring: &'r [Wqe]) -> Option<&'r Wqe> {
        if self.has_new() { Self::at(ring, self.current) } else { None }
    }

    /// Packets that wait for their first transmission: those of the current request, or as many as requests where each is one.
    pub(crate) fn waiting(&self, ring: &[Wqe]) -> u32 {
        match self.current(ring) {
            Some(wqe) if wqe.packets > 1 => wqe.packets.saturating_sub(self.sent),
            Some(_) => self.tail.wrapping_sub(self.current),
            None => 0,
        }
    }

    /// Whether request number `ahead` from the current one on is of one packet, of `len` bytes, without immediate.
    #[inline]
    pub(crate) fn goes_on_alike(&self, ring: &[Wqe], ahead: u32, len: u32) -> bool {
        let waits = self.tail.wrapping_sub(self.current) > ahead;
        let alike = |wqe: &Wqe| wqe.packets == 1 && wqe.len == len && wqe.imm.is_none();
        waits && Self::at(ring, self.current.wrapping_add(ahead)).is_some_and(alike)
    }

    /// As `current`, to change it.
    #[inline]
    pub(crate) fn current_mut<'r>(&self, ring: &'r mut [Wqe]) -> Option<&'r mut Wqe> {
        if !self.has_new() {
            return None;
        }
        let at = self.current as usize & ring.len().wrapping_sub(1);
        ring.get_mut(at)
    }

    /// Where the next packet of the current request lies.
    #[inline]
    pub(crate) fn next_at(&self) -> SegmentAt {
        SegmentAt { request: self.current, index: self.sent }
    }

    /// Where the last packet of the oldest request, which has `packets`, lies.
    pub(crate) fn tail_at(&self, packets: u32) -> SegmentAt {
        SegmentAt { request: self.head, index: packets.wrapping_sub(1) }
    }

    /// A packet found before.
    #[inline]
    pub(crate) fn segment(ring: &[Wqe], at: SegmentAt) -> Option<Segment<'_>> {
        Some(Segment { wqe: Self::at(ring, at.request)?, at })
    }

    /// The first `sent` packets of the current request, which has `packets`, have left.
    #[inline]
    pub(crate) fn sent_to(&mut self, sent: u32, packets: u32) {
        self.sent = sent;
        if sent >= packets {
            self.sent = 0;
            self.current = self.current.wrapping_add(1);
        }
    }

    /// The oldest request and whether all its packets were sent at least once.
    #[inline]
    pub(crate) fn oldest<'r>(&self, ring: &'r [Wqe]) -> Option<(&'r Wqe, bool)> {
        if self.head == self.tail {
            return None;
        }
        Self::at(ring, self.head).map(|wqe| (wqe, self.head != self.current))
    }

    pub(crate) fn pop_oldest(&mut self) {
        if self.head == self.current {
            self.current = self.current.wrapping_add(1);
            self.sent = 0;
        }
        self.head = self.head.wrapping_add(1);
    }

    /// Whether `psn` lies at or beyond the end of the request that follows `tack`, all of which was sent.
    pub(crate) fn ends_next(&self, ring: &[Wqe], tack: Psn, max_sent: Psn, psn: Psn) -> bool {
        let next = self.find(ring, tack.next()).map(|segment| segment.wqe.last_psn());
        next.is_some_and(|last| max_sent.diff(last) >= 0 && psn.diff(last) >= 0)
    }

    /// The packet that carried `psn`, by binary search over the requests in flight.
    pub(crate) fn find<'r>(&self, ring: &'r [Wqe], psn: Psn) -> Option<Segment<'r>> {
        let started = self.current.wrapping_sub(self.head).wrapping_add(u32::from(self.sent > 0));
        let (mut low, mut high) = (0u32, started);
        while low < high {
            let mid = low.wrapping_add(high) >> 1;
            let request = self.head.wrapping_add(mid);
            let wqe = Self::at(ring, request)?;
            if psn.diff(wqe.first_psn) < 0 {
                high = mid;
            } else if psn.diff(wqe.last_psn()) > 0 {
                low = mid.wrapping_add(1);
            } else {
                let index = psn.diff(wqe.first_psn) as u32;
                return Some(Segment { wqe, at: SegmentAt { request, index } });
            }
        }
        None
    }
}

crate::image::stored!(struct Wqe {
    wr_id, mr, offset, remote_va, rkey, len, packets, first_psn, msn, rqmsn, signaled, solicited, imm,
});
crate::image::stored!(
    struct SendQueue { head, current, tail, sent }
    where |queue| queue.current.wrapping_sub(queue.head) <= queue.len()
);

#[cfg(test)]
mod tests {
    use super::*;

    fn wqe(first: u32, packets: u32) -> Wqe {
        Wqe { first_psn: Psn::new(first), packets, ..Wqe::EMPTY }
    }

    #[test]
    fn finds_the_request_of_a_psn_across_the_wrap() {
        let mut ring = [Wqe::EMPTY; 8];
        let mut sq = SendQueue::default();
        for (first, packets) in [(0xFF_FFF0, 8), (0xFF_FFF8, 16), (8, 1), (9, 4)] {
            assert!(sq.push(&mut ring, wqe(first, packets)));
        }
        for packets in [8, 16, 1] {
            sq.sent_to(packets, packets);
        }
        sq.sent_to(1, 4);
        let found = |psn| sq.find(&ring, Psn::new(psn)).map(|s| (s.wqe.first_psn.value(), s.at.index));
        assert_eq!(found(0xFF_FFF0), Some((0xFF_FFF0, 0)));
        assert_eq!(found(7), Some((0xFF_FFF8, 15)));
        assert_eq!(found(8), Some((8, 0)));
        assert_eq!(found(9), Some((9, 0)));
        assert_eq!(found(0xFF_FFEF), None);
        assert_eq!(found(13), None);
    }

    //= TACK-001 test
    #[test]
    fn the_end_of_the_longest_message_is_seen_from_within_the_next() {
        let (first, packets) = (Psn::new(0xFF_FF00), 1 << 23);
        let (mut ring, mut sq, tack) = ([Wqe::EMPTY; 4], SendQueue::default(), first.sub(1));
        for first in [first, first.add(packets)] {
            assert!(sq.push(&mut ring, wqe(first.value(), packets)));
        }
        let last = first.add(packets - 1);
        sq.sent_to(packets - 1, packets);
        assert!(!sq.ends_next(&ring, tack, last.sub(1), last.sub(1)), "it is not sent");
        sq.sent_to(packets, packets);
        sq.sent_to(40, packets);
        let max_sent = last.add(40);
        let ends = |psn| sq.ends_next(&ring, tack, max_sent, psn);
        assert!(last.add(1).diff(tack) < 0, "too far to compare");
        assert_eq!([last.sub(1), last, last.add(1), max_sent].map(ends), [false, true, true, true]);
        assert!(!ends(tack));
    }

    #[test]
    fn a_full_ring_refuses() {
        let mut ring = [Wqe::EMPTY; 2];
        let mut sq = SendQueue::default();
        assert!(sq.push(&mut ring, wqe(0, 1)) && sq.push(&mut ring, wqe(1, 1)));
        assert!(!sq.push(&mut ring, wqe(2, 1)));
        sq.sent_to(1, 1);
        sq.pop_oldest();
        assert!(sq.push(&mut ring, wqe(2, 1)));
        assert!(sq.has_new());
    }

    #[test]
    fn the_request_that_is_sent_next_is_read_ahead() {
        let (mut ring, mut sq) = ([Wqe::EMPTY; 8], SendQueue::default());
        for first in [1, 3, 5] {
            sq.push(&mut ring, wqe(first, 2));
        }
        sq.current = 1;
        let asked = crate::prefetch::Asked::default();
        sq.fetch(&asked);
        assert_eq!((asked.within(&sq), asked.words()), (1, 1));
        sq.fetch_request(&ring, &asked);
        assert_eq!((asked.within(&ring[1]), asked.words()), (1, 2));
    }
}
