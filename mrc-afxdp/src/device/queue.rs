//! The application's ends of the rings: posts in, completions out. No lock, and no system call while the device is busy; an
//! application that waits does the device's work ([`super::drive`]).

use std::sync::Arc;

use mrc_core::{Completion, CqHandle, QpHandle, SendWr};

use super::drive::Drive;
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

/// Hears that completions can be polled, on the thread that drives the device, under its lock; must not block.
pub trait CompletionWaker: Send + Sync + std::fmt::Debug {
    /// Calls `publish` once, which lets the application poll completions that came. `solicited`: one of them failed, or the
    /// peer asked for an event with it.
    ///
    /// The call is the waker's own so that it can tell completions that were visible when the application asked for an
    /// event from later ones.
    fn completed(&self, solicited: bool, publish: &mut dyn FnMut());
}

/// A ring of posts, for one application thread at a time.
#[derive(Debug)]
pub struct WorkQueue {
    posts: spsc::Sender<Post>,
    drive: Arc<Drive>,
}

impl WorkQueue {
    pub(super) fn new(posts: spsc::Sender<Post>, drive: Arc<Drive>) -> Self {
        Self { posts, drive }
    }

    /// Posts a write without telling the device; `false` when the ring is full: poll completions first. After the last
    /// one of a list [`Device::posted`](super::Device::posted) has them sent.
    pub fn stage(&mut self, qp: QpHandle, wr: SendWr) -> bool {
        self.posts.push(Post { qp, work: Work::Write(wr) }).is_ok()
    }

    /// Posts a write; `false` when the ring is full: poll completions first.
    pub fn post(&mut self, qp: QpHandle, wr: SendWr) -> bool {
        let posted = self.stage(qp, wr);
        if posted {
            self.drive.posted();
        }
        posted
    }

    /// Posts a receive request for a write with immediate; `false` when the ring is full.
    pub fn post_recv(&mut self, qp: QpHandle, wr_id: u64) -> bool {
        let posted = self.posts.push(Post { qp, work: Work::Receive(wr_id) }).is_ok();
        if posted {
            self.drive.posted_receive();
        }
        posted
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

    /// Completions there are to poll now.
    pub fn len(&mut self) -> usize {
        self.completions.len()
    }

    /// Completions there is room for.
    pub(super) fn capacity(&self) -> usize {
        self.completions.capacity()
    }

    /// Reads from another ring from now on; what it read from before.
    pub(super) fn replace(&mut self, completions: spsc::Receiver<Completion>) -> spsc::Receiver<Completion> {
        core::mem::replace(&mut self.completions, completions)
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
    /// Polls in a row that found nothing.
    pub(super) idle: u32,
}

/// Polls in a row that found nothing before the program counts as one that waits.
const IN_PASSING: u32 = 16;
/// Of the later ones, one in so many does the device's work.
const EACH: u32 = 16;

/// Whether a program that polled in vain `times` in a row should do the device's work
/// ([`Device::help`](super::Device::help)) after this one: not at once, because many look in passing, and not every time,
/// because a look should stay cheap.
pub fn waits(times: u32) -> bool {
    times >= IN_PASSING && times.is_multiple_of(EACH)
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

    /// The oldest completion; never blocks. A program that keeps polling an empty queue does the device's work meanwhile.
    pub fn poll(&mut self) -> Option<Completion> {
        let mut found = self.completions.poll();
        self.idle = if found.is_none() { self.idle.wrapping_add(1) } else { 0 };
        if waits(self.idle) && self.writes.drive.help() {
            found = self.completions.poll();
        }
        found
    }

    /// Whether the device has gone.
    pub fn is_closed(&self) -> bool {
        self.completions.is_closed()
    }
}
