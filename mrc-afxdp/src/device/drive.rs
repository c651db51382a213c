//! Who drives the device: its own thread, or the application's thread that would otherwise wait for it.
//!
//! The engine and the ports are behind one lock, so there is one owner at a time. The device's thread takes it for every
//! turn. An application thread that spins on an empty completion queue, or whose post finds the device at rest, tries the
//! lock and does a turn itself (*helps*): no second thread has to wake up, and no second CPU is needed. While somebody
//! helps, the device's thread naps: it looks every [`NAP`] whether the helper is still there, because a program may turn
//! to spinning on its memory, or to sleeping, without a word. Where that happens often, it stops napping
//! ([`super::trust`]).
//!
//! Helpers run no commands and look at no links: those wake the device's thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mrc_core::{Instant, OwnedStorage};
use self_cell::MutBorrow;

use super::baton::{Baton, Tried};
use super::progress::Progress;
use super::since;
use crate::ring::doorbell::{Doorbell, Rest};
use crate::sys::process;

/// How long the device's thread leaves the work to a helper before it looks again: the longest time that frames wait when
/// a helper goes away.
pub(super) const NAP: Duration = Duration::from_micros(50);

/// A helper that did a turn this long ago counts as being there.
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
    origin: std::time::Instant,
    /// When a helper ended its last turn, in nanoseconds since `origin`; 0: never.
    helped_at: AtomicU64,
    /// Somebody posted and drove, and nobody waited for completions since: the posts behind belong to the same burst.
    in_burst: AtomicBool,
}

impl std::fmt::Debug for Drive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Drive").field("bell", &self.bell).finish_non_exhaustive()
    }
}

impl Drive {
    pub(super) fn new(nic: Nic, bell: Doorbell, origin: std::time::Instant) -> Self {
        process::watch_forks();
        Self { nic: Baton::new(nic), bell, origin, helped_at: AtomicU64::new(0), in_burst: AtomicBool::new(false) }
    }

    pub(super) fn now(&self) -> Instant {
        since(self.origin)
    }

    /// For the device's thread: `f` with the engine, waiting for a helper's turn to end. `None` when it is gone.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Progress<'_>) -> R) -> Option<R> {
        self.nic.with(|nic| nic.with_dependent_mut(|_, progress| f(progress)))
    }

    /// As [`Self::with`], without waiting.
    pub(super) fn try_with<R>(&self, f: impl FnOnce(&mut Progress<'_>) -> R) -> Tried<R> {
        self.nic.try_with(|nic| nic.with_dependent_mut(|_, progress| f(progress)))
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

    fn drive(&self) -> bool {
        // A child's copy of the rings is its parent's.
        if process::is_forked() {
            return false;
        }
        let tried = self.try_with(|progress| progress.help());
        if tried == Tried::Done(true) {
            self.bell.ring();
        }
        matches!(tried, Tried::Done(_))
    }

    /// For an application thread that waits: one turn, unless somebody else is at it. Whether it was done.
    pub(super) fn help(&self) -> bool {
        let drove = self.drive();
        self.in_burst.store(false, Ordering::Relaxed);
        // Also when somebody else was at it: the device's thread shall leave the work to the helper.
        self.helped();
        drove
    }

    fn helped(&self) {
        self.helped_at.store(self.now().as_nanos().max(1), Ordering::Relaxed);
    }

    /// After posts were published. A device at rest is driven by the caller, once per burst.
    #[inline]
    pub(super) fn posted(&self) {
        let rest = self.bell.rest();
        if rest != Rest::Awake {
            self.posted_at_rest(rest);
        }
    }

    #[cold]
    fn posted_at_rest(&self, rest: Rest) {
        if !self.in_burst.swap(true, Ordering::Relaxed) {
            self.drive();
        }
        match rest {
            // Nobody has helped of late, so nobody may come back to see what the post leads to.
            Rest::Asleep => self.bell.ring(),
            // The turn may have been a long one.
            _ => self.helped(),
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
