//! Who drives the device: its own thread, or the application's thread that would otherwise wait for it.
//!
//! The engine and the ports are behind one lock, so there is one owner at a time. The device's thread takes it for every
//! turn. An application thread that spins on an empty completion queue, or posts and did so a moment ago, tries the lock
//! and does a turn itself (*helps*): no second thread has to wake up, and no second CPU is needed. While an
//! application thread helps, the device's thread sleeps. It wakes now and then and checks whether the helper still polls,
//! because a program may begin to spin on its memory, or to sleep, without notice. Where that happens often, the device's
//! thread stays awake; where it has not happened for long, it sleeps longer ([`super::trust`]).
//!
//! Helpers run no commands and look at no links: those wake the device's thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mrc_core::{Instant, OwnedStorage};
use self_cell::MutBorrow;

use super::baton::{Baton, Tried};
use super::clock::Clock;
use super::progress::Progress;
use crate::ring::doorbell::{Doorbell, Rest};
use crate::sys::process::Owner;

/// A helper that was seen this long ago counts as being there. Long turns begin before their end: the lock tells of those.
const PRESENT_NS: u64 = 10_000;

self_cell::self_cell!(
    /// The engine with the memory it lives in, and the ports.
    pub(super) struct Nic {
        owner: MutBorrow<OwnedStorage>,
        #[not_covariant]
        dependent: Progress,
    }
);

/// What the device's thread and the application's threads share.
pub(super) struct Drive {
    nic: Baton<Nic>,
    pub(super) bell: Doorbell,
    pub(super) clock: Clock,
    /// When a helper was last seen, in nanoseconds of `clock`; 0: never.
    helped_at: AtomicU64,
    /// The process that has the device's thread.
    owner: Owner,
    /// Somebody posted and drove, and nobody waited for completions since: the posts behind belong to the same burst.
    in_burst: AtomicBool,
}

impl std::fmt::Debug for Drive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Drive").field("bell", &self.bell).finish_non_exhaustive()
    }
}

impl Drive {
    pub(super) fn new(nic: Nic, bell: Doorbell, clock: Clock) -> Self {
        let (helped_at, in_burst) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { nic: Baton::new(nic), bell, clock, helped_at, owner: Owner::this(), in_burst }
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// For the device's thread: `f` with the engine, waiting for a helper's turn to end. `None` when it is gone.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Progress<'_>) -> R) -> Option<R> {
        self.nic.with(|nic| nic.with_dependent_mut(|_, progress| f(progress)))
    }

    /// As [`Self::with`], without waiting.
    pub(super) fn try_with<R>(&self, f: impl FnOnce(&mut Progress<'_>) -> R) -> Tried<R> {
        self.nic.try_with(|nic| nic.with_dependent_mut(|_, progress| f(progress)))
    }

    /// Whether this process is a child of the one that opened the device.
    pub(super) fn is_forked(&self) -> bool {
        self.owner.is_a_parent()
    }

    /// Takes the engine away for good.
    pub(super) fn take(&self) -> Option<Nic> {
        self.nic.take()
    }

    /// Whether a helper is at work.
    pub(super) fn is_helped(&self, now: Instant) -> bool {
        let at = self.helped_at.load(Ordering::Relaxed);
        at != 0 && now.since(Instant::from_nanos(at)) < PRESENT_NS
    }

    /// One turn, unless somebody else is at it. When it began, if it was done.
    fn drive(&self) -> Option<Instant> {
        // A child's copy of the rings is its parent's.
        if self.is_forked() {
            return None;
        }
        match self.try_with(|progress| progress.help()) {
            Tried::Done((began, wake)) => {
                if wake {
                    self.bell.ring();
                }
                Some(began)
            }
            Tried::Busy | Tried::Gone => None,
        }
    }

    /// For an application thread that waits: one turn, unless somebody else is at it. Whether it was done.
    pub(super) fn help(&self) -> bool {
        let began = self.drive();
        self.in_burst.store(false, Ordering::Relaxed);
        // Also when somebody else was at it: the device's thread shall leave the work to the helper.
        self.helped(began.unwrap_or_else(|| self.now()));
        began.is_some()
    }

    fn helped(&self, at: Instant) {
        self.helped_at.store(at.as_nanos().max(1), Ordering::Relaxed);
    }

    /// After posts were published: wakes a device that sleeps; does the work of one that naps, once per burst.
    #[inline]
    pub(super) fn posted(&self) {
        match self.bell.rest() {
            Rest::Awake => {}
            Rest::Asleep => self.bell.ring(),
            Rest::Napping => self.posted_in_a_nap(),
        }
    }

    #[cold]
    fn posted_in_a_nap(&self) {
        if !self.in_burst.swap(true, Ordering::Relaxed) {
            self.drive();
            // The turn may have been a long one.
            self.helped(self.now());
        }
    }

    /// After receive requests were published: they can wait for the end of a nap.
    #[inline]
    pub(super) fn posted_receive(&self) {
        if self.bell.rest() == Rest::Asleep {
            self.bell.ring();
        }
    }
}

/// Takes the engine away when it goes.
pub(super) struct Last<'d>(pub(super) &'d Drive);

impl Drop for Last<'_> {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}
