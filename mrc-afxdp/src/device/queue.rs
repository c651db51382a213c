//! The application's ends of the rings: posts in, completions out. No lock, and no system call while the device is busy.

use std::sync::Arc;

use mrc_core::{Completion, CqHandle, QpHandle, SendWr};

use crate::ring::doorbell::Doorbell;
use crate::ring::spsc;

/// What is posted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Work {
    Write(SendWr),
    /// A receive request with the caller's number.
    Receive(u64),
}

impl Work {
    pub(super) fn wr_id(&self) -> u64 {
        match self {
            Self::Write(wr) => wr.wr_id,
            Self::Receive(wr_id) => *wr_id,
        }
    }
}

/// A post on its way to the progress thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Post {
    pub(super) qp: QpHandle,
    pub(super) work: Work,
}

/// Hears on the progress thread that completions can be polled; must not block.
pub trait CompletionWaker: Send + Sync + std::fmt::Debug {
    /// `solicited`: one of them failed, or the peer asked for an event with it.
    fn completed(&self, solicited: bool);
}

/// A ring of posts, for one application thread at a time.
#[derive(Debug)]
pub struct WorkQueue {
    posts: spsc::Sender<Post>,
    bell: Arc<Doorbell>,
}

impl WorkQueue {
    pub(super) fn new(posts: spsc::Sender<Post>, bell: Arc<Doorbell>) -> Self {
        Self { posts, bell }
    }

    fn push(&mut self, qp: QpHandle, work: Work) -> bool {
        let posted = self.posts.push(Post { qp, work }).is_ok();
        if posted {
            self.bell.ring();
        }
        posted
    }

    /// Posts a write; `false` when the ring is full: poll completions first.
    pub fn post(&mut self, qp: QpHandle, wr: SendWr) -> bool {
        self.push(qp, Work::Write(wr))
    }

    /// Posts a receive request for a write with immediate; `false` when the ring is full.
    pub fn post_recv(&mut self, qp: QpHandle, wr_id: u64) -> bool {
        self.push(qp, Work::Receive(wr_id))
    }

    /// Posts there is room for; a lower bound while the progress thread takes some.
    pub fn free(&mut self) -> usize {
        self.posts.free()
    }

    /// Whether the device has gone.
    pub fn is_closed(&self) -> bool {
        self.posts.is_closed()
    }
}

/// Completions of one completion queue, for one application thread at a time.
#[derive(Debug)]
pub struct CompletionRing {
    cq: CqHandle,
    completions: spsc::Receiver<Completion>,
}

impl CompletionRing {
    pub(super) fn new(cq: CqHandle, completions: spsc::Receiver<Completion>) -> Self {
        Self { cq, completions }
    }

    /// The engine's name for it.
    pub fn handle(&self) -> CqHandle {
        self.cq
    }

    /// The oldest completion; never blocks.
    pub fn poll(&mut self) -> Option<Completion> {
        self.completions.pop()
    }

    /// Hands up to `max` completions to `f`, oldest first, and returns how many; never blocks.
    pub fn drain(&mut self, max: usize, f: impl FnMut(Completion)) -> usize {
        self.completions.drain(max, f)
    }

    /// Whether there is nothing to poll now.
    pub fn is_empty(&mut self) -> bool {
        self.completions.is_empty()
    }

    /// Whether the device has gone.
    pub fn is_closed(&self) -> bool {
        self.completions.is_closed()
    }
}

/// A completion queue with rings for posts, for one application thread at a time.
#[derive(Debug)]
pub struct Queue {
    pub(super) writes: WorkQueue,
    pub(super) receives: WorkQueue,
    pub(super) completions: CompletionRing,
}

impl Queue {
    /// Posts a write; `false` when the ring is full: poll completions first.
    pub fn post(&mut self, qp: QpHandle, wr: SendWr) -> bool {
        self.writes.post(qp, wr)
    }

    /// Posts a receive request for a write with immediate; `false` when the ring is full.
    pub fn post_recv(&mut self, qp: QpHandle, wr_id: u64) -> bool {
        self.receives.post_recv(qp, wr_id)
    }

    /// The oldest completion; never blocks.
    pub fn poll(&mut self) -> Option<Completion> {
        self.completions.poll()
    }

    /// Whether the device has gone.
    pub fn is_closed(&self) -> bool {
        self.completions.is_closed()
    }
}
