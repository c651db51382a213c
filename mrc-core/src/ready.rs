//! Ready lists: which QPs have something to send. Intrusive, first in first out, so that finding work is O(1) whatever
//! the number of QPs.

use crate::qp::Qp;

/// Lists a QP can be on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum List {
    /// Owes SACKs, NACKs or ACKs.
    Control = 0,
    /// Has probes or data.
    Data = 1,
    /// Has completions that found their queue full.
    Completions = 2,
}

/// Links of one QP, one per list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    next: [u32; 3],
    queued: [bool; 3],
}

impl Links {
    pub(crate) const NONE: Self = Self { next: [NIL; 3], queued: [false; 3] };
}

const NIL: u32 = u32::MAX;

/// Head and tail of one list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    list: List,
    head: u32,
    tail: u32,
}

impl Ready {
    pub(crate) const fn new(list: List) -> Self {
        Self { list, head: NIL, tail: NIL }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// Appends `qp` unless it is on the list already.
    #[inline]
    pub(crate) fn push(&mut self, qps: &mut [Qp], qp: u32) {
        let k = self.list as usize;
        let Some(slot) = qps.get_mut(qp as usize) else { return };
        if slot.links.queued[k] {
            return;
        }
        slot.links.queued[k] = true;
        slot.links.next[k] = NIL;
        if self.head == NIL {
            self.head = qp;
        } else if let Some(last) = qps.get_mut(self.tail as usize) {
            last.links.next[k] = qp;
        }
        self.tail = qp;
    }

    /// The QP whose turn it is.
    #[inline]
    pub(crate) fn front(&self) -> Option<u32> {
        if self.head == NIL { None } else { Some(self.head) }
    }

    /// Takes the front off.
    #[inline]
    pub(crate) fn pop(&mut self, qps: &mut [Qp]) -> Option<u32> {
        let qp = self.front()?;
        let k = self.list as usize;
        let slot = qps.get_mut(qp as usize)?;
        self.head = slot.links.next[k];
        slot.links.queued[k] = false;
        slot.links.next[k] = NIL;
        if self.head == NIL {
            self.tail = NIL;
        }
        Some(qp)
    }

    /// Takes off the first QP that `wanted` accepts; the others keep their order.
    pub(crate) fn take(&mut self, qps: &mut [Qp], wanted: impl Fn(&Qp) -> bool) -> Option<u32> {
        let k = self.list as usize;
        let (mut before, mut at) = (NIL, self.head);
        while let Some(slot) = qps.get_mut(at as usize) {
            let next = slot.links.next[k];
            if !wanted(slot) {
                (before, at) = (at, next);
                continue;
            }
            slot.links.queued[k] = false;
            slot.links.next[k] = NIL;
            match qps.get_mut(before as usize) {
                Some(previous) => previous.links.next[k] = next,
                None => self.head = next,
            }
            if self.tail == at {
                self.tail = before;
            }
            return Some(at);
        }
        None
    }

    /// Takes the front to the end: the next QP's turn.
    #[inline]
    pub(crate) fn rotate(&mut self, qps: &mut [Qp]) {
        if self.head != self.tail
            && let Some(qp) = self.pop(qps)
        {
            self.push(qps, qp);
        }
    }
}
