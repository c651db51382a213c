//! Wakes a sleeping consumer: an eventfd that is written only when the consumer said it sleeps.
//!
//! The consumer announces, looks at its queues once more, then sleeps; the producer publishes, then looks for the
//! announcement. A sequentially consistent fence on both sides makes sure that one of them sees the other.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use super::sync::{AtomicU32, Ordering, fence};

/// What is signalled; loom tests use a counter instead of a file descriptor.
pub(crate) trait Signal {
    fn set(&self);
}

impl Signal for OwnedFd {
    fn set(&self) {
        // A full counter means it is already readable.
        let _ = rustix::io::write(self, &1u64.to_ne_bytes());
    }
}

/// The announcements, over any signal.
#[derive(Debug)]
pub(crate) struct Bell<S> {
    asleep: AtomicU32,
    signal: S,
}

/// What the consumer said last.
const AWAKE: u32 = 0;
pub(crate) const ASLEEP: u32 = 1;
const NAPPING: u32 = 2;

impl<S: Signal> Bell<S> {
    pub(crate) fn new(signal: S) -> Self {
        Self { asleep: AtomicU32::new(AWAKE), signal }
    }

    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) != AWAKE && self.asleep.swap(AWAKE, Ordering::AcqRel) != AWAKE {
            self.signal.set();
        }
    }

    pub(crate) fn announce(&self, how: u32) {
        self.asleep.store(how, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    pub(crate) fn rest(&self) -> Rest {
        fence(Ordering::SeqCst);
        match self.asleep.load(Ordering::Relaxed) {
            AWAKE => Rest::Awake,
            NAPPING => Rest::Napping,
            _ => Rest::Asleep,
        }
    }

    fn withdraw(&self) {
        self.asleep.store(AWAKE, Ordering::Relaxed);
    }
}

/// How the consumer rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// It will look at its queues before it rests.
    Awake,
    /// Until it is rung for.
    Asleep,
    /// For a moment at most, because somebody else does its work: no need to ring for ordinary work.
    Napping,
}

/// Shared by the one consumer and any number of producers (put it in an `Arc`).
///
/// ```no_run
/// # use mrc_afxdp::Doorbell;
/// # let bell = Doorbell::new()?;
/// # let (queues_are_empty, poll_on) = (|| true, |_fd| ());
/// bell.announce_sleep();
/// if queues_are_empty() {
///     poll_on(bell.fd()); // together with the sockets, until one is readable
/// }
/// bell.awake();
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Doorbell(Bell<OwnedFd>);

impl Doorbell {
    /// A new bell; costs one file descriptor.
    ///
    /// # Errors
    /// Whatever `eventfd(2)` says, usually too many open files.
    pub fn new() -> io::Result<Self> {
        let signal = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self(Bell::new(signal)))
    }

    /// Producer: after publishing. A fence and a load while the consumer is awake; a system call only if it sleeps.
    pub fn ring(&self) {
        self.0.ring();
    }

    /// Consumer: before it looks at its queues for the last time and sleeps on [`Doorbell::fd`].
    pub fn announce_sleep(&self) {
        self.0.announce(ASLEEP);
    }

    /// Consumer: before it rests for a moment, while others do its work; see [`Rest::Napping`].
    pub(crate) fn announce_nap(&self) {
        self.0.announce(NAPPING);
    }

    /// Producer: after publishing, to see whether to ring.
    pub(crate) fn rest(&self) -> Rest {
        self.0.rest()
    }

    /// Consumer: as [`Doorbell::awake`], if it cannot have been rung for or does not mind a signal too many.
    pub(crate) fn withdraw(&self) {
        self.0.withdraw();
    }

    /// Consumer: after sleeping, or when the last look found something.
    pub fn awake(&self) {
        self.0.withdraw();
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.0.signal, &mut count);
    }

    /// Readable after a ring that found the consumer asleep.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.signal.as_fd()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn readable(bell: &Doorbell) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(bell.fd(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn rings_only_for_a_sleeper_and_once() {
        let bell = Doorbell::new().unwrap();
        bell.ring();
        assert!(!readable(&bell));
        bell.announce_sleep();
        bell.ring();
        bell.ring();
        assert!(readable(&bell));
        bell.awake();
        assert!(!readable(&bell));
        bell.ring();
        assert!(!readable(&bell));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::ring::spsc::channel;

    struct Counter(AtomicU32);
    impl Signal for Counter {
        fn set(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn loom_no_wakeup_is_lost() {
        loom::model(|| {
            let bell = Arc::new(Bell::new(Counter(AtomicU32::new(0))));
            let (mut tx, mut rx) = channel(2);
            let theirs = Arc::clone(&bell);
            let producer = thread::spawn(move || {
                tx.push(1u32).unwrap();
                theirs.ring();
            });
            bell.announce(ASLEEP);
            let seen = !rx.is_empty();
            producer.join().unwrap();
            // Had the consumer slept now, the signal must be set.
            assert!(seen || bell.signal.0.load(Ordering::SeqCst) == 1);
        });
    }
}
