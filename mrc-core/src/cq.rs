//! Completion queues: rings of finished work requests. A full ring holds completions back in their QP instead of
//! losing them.

use mrc_wire::{Ev, PortNum, Psn, Qpn};

use crate::{error::TableError, first_free::FirstFree};

crate::handle::handle! {
    /// A completion queue. Stale once it is destroyed.
    CqHandle, "cqs"
}

/// How a work request ended. Names follow the verbs completion status.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Status {
    /// Executed by the responder.
    Success,
    /// The local region was deregistered under the request, or the request named none.
    LocalProtection,
    /// The message is too long for the QP.
    LocalLength,
    /// The QP cannot do this: the peer takes no write with immediate.
    LocalOperation,
    /// The QP failed or was reset before this request ended.
    Flushed,
    /// The responder refused the request's form.
    RemoteInvalidRequest,
    /// The responder refused the key, rights or bounds.
    RemoteAccess,
    /// The responder failed.
    RemoteOperation,
    /// Nothing was heard within the retry budget.
    RetryExceeded,
}

impl Status {
    /// Text for people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::LocalProtection => "local protection error",
            Self::LocalLength => "local length error",
            Self::LocalOperation => "local QP operation error",
            Self::Flushed => "work request flushed",
            Self::RemoteInvalidRequest => "remote invalid request",
            Self::RemoteAccess => "remote access error",
            Self::RemoteOperation => "remote operation error",
            Self::RetryExceeded => "retry counter exceeded",
        }
    }
}

/// What a completed request was.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Operation {
    /// An RDMA write we posted.
    #[default]
    Write,
    /// An RDMA write with immediate we posted.
    WriteImm,
    /// A receive request, consumed by the peer's write with immediate (or flushed).
    Receive,
}

/// One finished work request, and why when it failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The caller's number.
    pub wr_id: u64,
    /// What it was.
    pub operation: Operation,
    /// How it ended.
    pub status: Status,
    /// The peer's immediate, of a receive that succeeded.
    pub imm: Option<u32>,
    /// The peer asked for an event with this completion.
    pub solicited: bool,
    /// Local QP.
    pub qp: Qpn,
    /// Bytes of the message.
    pub byte_len: u32,
    /// PSN of its first packet (0 when it was never sent); of a receive that succeeded, PSN of the packet with the immediate.
    pub first_psn: Psn,
    /// EV and port of the last packet sent on the QP, when anything was.
    pub last_path: Option<(Ev, PortNum)>,
    /// Retries spent when it ended.
    pub retries: u8,
    /// Time since the peer was last heard, in nanoseconds; [`Completion::NEVER`] if it never was, 0 for success.
    pub since_ack_ns: u64,
}

impl Completion {
    /// [`Completion::since_ack_ns`] of a QP whose peer never said anything.
    pub const NEVER: u64 = u64::MAX;

    /// When the peer was last heard, in words.
    pub fn last_heard(&self) -> impl core::fmt::Display {
        core::fmt::from_fn(|f| match self.since_ack_ns {
            Self::NEVER => f.write_str("the peer was never heard"),
            ns => write!(f, "peer last heard {}.{} ms before", ns / 1_000_000, ns / 100_000 % 10),
        })
    }

    /// An empty slot of a completion ring.
    pub const EMPTY: Self = Self {
        wr_id: 0,
        operation: Operation::Write,
        status: Status::Success,
        imm: None,
        solicited: false,
        qp: Qpn::new(0),
        byte_len: 0,
        first_psn: Psn::new(0),
        last_path: None,
        retries: 0,
        since_ack_ns: 0,
    };
}

/// Bookkeeping of one completion queue, lent by the caller.
#[derive(Clone, Copy, Debug)]
pub struct CqSlot {
    head: u32,
    tail: u32,
    used: bool,
    /// A QP found it full: all wait for their turn until half of it is free.
    closed: bool,
    /// Queues that were destroyed here.
    generation: u16,
    /// QPs that refer to it.
    pub(crate) users: u32,
}

impl CqSlot {
    /// An unused slot.
    pub const EMPTY: Self = Self { head: 0, tail: 0, used: false, closed: false, generation: 0, users: 0 };
}

impl CqSlot {
    /// Counter of the oldest completion.
    pub(crate) const fn head(&self) -> u32 {
        self.head
    }

    fn is(&self, cq: CqHandle) -> bool {
        self.used && self.generation == cq.generation()
    }

    fn at(ring: &mut [Completion], counter: u32) -> Option<&mut Completion> {
        let mask = ring.len().wrapping_sub(1);
        ring.get_mut(counter as usize & mask)
    }

    /// Where in the queue's `ring` the next completion goes, which the caller writes; `None` without room. Then nothing else
    /// has room either until [`Cqs::reopens`]: what came later would overtake what waits.
    #[inline]
    pub(crate) fn push<'r>(&mut self, ring: &'r mut [Completion]) -> Option<&'r mut Completion> {
        if self.closed || self.len() as usize >= ring.len() {
            self.closed = true;
            return None;
        }
        let tail = self.tail;
        self.tail = tail.wrapping_add(1);
        Self::at(ring, tail)
    }

    /// Completions that wait.
    pub(crate) const fn len(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }
}

/// All completion queues; each owns an equal part of one ring buffer.
#[derive(Debug)]
pub(crate) struct Cqs<'s> {
    slots: &'s mut [CqSlot],
    free: FirstFree,
    ring: &'s mut [Completion],
    /// Entries per queue, a power of two.
    depth: u32,
}

impl<'s> Cqs<'s> {
    pub(crate) fn new(slots: &'s mut [CqSlot], ring: &'s mut [Completion], depth: u32) -> Self {
        slots.fill(CqSlot::EMPTY);
        Self { slots, free: FirstFree::NONE, ring, depth }
    }

    /// A queue with its ring.
    #[inline]
    pub(crate) fn parts(&mut self, index: u32) -> Option<(&mut CqSlot, &mut [Completion])> {
        let depth = self.depth as usize;
        let start = (index as usize).checked_mul(depth)?;
        Some((self.slots.get_mut(index as usize)?, self.ring.get_mut(start..start.checked_add(depth)?)?))
    }

    pub(crate) fn is_used(&self, cq: CqHandle) -> bool {
        self.slots.get(cq.index()).is_some_and(|slot| slot.is(cq))
    }

    pub(crate) fn create(&mut self) -> Result<CqHandle, TableError> {
        let index = self.free.find(self.slots, |slot| !slot.used).ok_or(TableError::Full("completion queue"))?;
        let slot = self.slots.get_mut(index).ok_or(TableError::Full("completion queue"))?;
        *slot = CqSlot { used: true, generation: slot.generation, ..CqSlot::EMPTY };
        Ok(CqHandle::from_parts(index as u16, slot.generation))
    }

    pub(crate) fn destroy(&mut self, cq: CqHandle) -> Result<(), TableError> {
        let slot = self.slot(cq).ok_or(TableError::Unknown("completion queue"))?;
        if slot.users > 0 {
            return Err(TableError::Busy("completion queue"));
        }
        slot.used = false;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.freed(cq.slot());
        Ok(())
    }

    pub(crate) fn slot(&mut self, cq: CqHandle) -> Option<&mut CqSlot> {
        self.slots.get_mut(cq.index()).filter(|slot| slot.is(cq))
    }

    pub(crate) fn is_closed(&self, cq: CqHandle) -> bool {
        self.slots.get(cq.index()).is_none_or(|slot| slot.closed)
    }

    /// Opens a queue that was found full where no more than half of it waits to be polled; whether it did.
    #[inline]
    pub(crate) fn reopens(&mut self, cq: CqHandle) -> bool {
        let half = self.depth / 2;
        let full = self.slots.get_mut(cq.index()).filter(|slot| slot.closed && slot.len() <= half);
        full.is_some_and(|slot| core::mem::replace(&mut slot.closed, false))
    }

    /// Flushes the receives of a QP that wait in `cq` and completed with a packet from `first` on.
    pub(crate) fn revoke_receives(&mut self, cq: CqHandle, qp: Qpn, first: Psn) {
        let Some((slot, ring)) = self.parts(cq.slot()) else { return };
        for nth in 0..slot.len() {
            let Some(done) = CqSlot::at(ring, slot.head.wrapping_add(nth)) else { return };
            let succeeded = done.operation == Operation::Receive && done.status == Status::Success;
            if done.qp == qp && succeeded && done.first_psn.diff(first) >= 0 {
                *done = Completion {
                    wr_id: done.wr_id,
                    operation: Operation::Receive,
                    status: Status::Flushed,
                    qp,
                    ..Completion::EMPTY
                };
            }
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self, cq: CqHandle) -> Option<Completion> {
        let slot = self.slots.get_mut(cq.index())?;
        if slot.len() == 0 || slot.generation != cq.generation() {
            return None;
        }
        let at = slot.head & self.depth.wrapping_sub(1);
        slot.head = slot.head.wrapping_add(1);
        self.ring.get(cq.slot().wrapping_mul(self.depth).wrapping_add(at) as usize).copied()
    }
}

crate::image::stored!(enum Status {
    0 => Success, 1 => LocalProtection, 2 => LocalLength, 3 => LocalOperation, 4 => Flushed, 5 => RemoteInvalidRequest,
    6 => RemoteAccess, 7 => RemoteOperation, 8 => RetryExceeded,
});
crate::image::stored!(enum Operation { 0 => Write, 1 => WriteImm, 2 => Receive });
crate::image::stored!(struct Completion {
    wr_id, operation, status, imm, solicited, qp, byte_len, first_psn, last_path, retries, since_ack_ns,
});
crate::image::stored!(struct CqSlot { head, tail, used, closed, generation, users });
