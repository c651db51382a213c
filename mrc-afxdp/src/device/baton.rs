//! A lock around what may be driven by several threads in turn, and taken away for good.

use std::sync::TryLockError;

use crate::ring::sync::Mutex;

/// How an attempt went.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tried<R> {
    /// Well.
    Done(R),
    /// Somebody else has it.
    Busy,
    /// It was taken away, or its holder panicked.
    Gone,
}

#[derive(Debug)]
pub(super) struct Baton<T> {
    held: Mutex<Option<T>>,
}

impl<T> Baton<T> {
    pub(super) fn new(value: T) -> Self {
        Self { held: Mutex::new(Some(value)) }
    }

    /// `f` with the value, after whoever has it now; `None` when it was taken away, or its holder panicked.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.held.lock().ok()?.as_mut().map(f)
    }

    /// As [`Self::with`], without waiting.
    pub(super) fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Tried<R> {
        match self.held.try_lock() {
            Ok(mut held) => held.as_mut().map_or(Tried::Gone, |value| Tried::Done(f(value))),
            Err(TryLockError::WouldBlock) => Tried::Busy,
            Err(TryLockError::Poisoned(_)) => Tried::Gone,
        }
    }

    pub(super) fn take(&self) -> Option<T> {
        match self.held.lock() {
            Ok(mut held) => held.take(),
            Err(poisoned) => poisoned.into_inner().take(),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time_and_none_after_it_was_taken() {
        let baton = Baton::new(1);
        assert_eq!(baton.with(|value| baton.try_with(|other| *other).eq(&Tried::Busy) && *value == 1), Some(true));
        assert_eq!(baton.try_with(|value| *value), Tried::Done(1));
        assert_eq!(baton.take(), Some(1));
        assert_eq!(
            (baton.take(), baton.with(|value| *value), baton.try_with(|value| *value)),
            (None, None, Tried::Gone)
        );
    }
}

/// The rings between an application and a device whose other ends are driven by both threads in turn, and the bell: what
/// [`super::drive`] does, with counters in place of engine and file descriptor.
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::thread;

    use super::*;
    use crate::ring::doorbell::{ASLEEP, Bell, Rest, Signal};
    use crate::ring::spsc::{Receiver, Sender, channel};

    struct Counter(AtomicU32);
    impl Signal for Arc<Counter> {
        fn set(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Completes every post.
    struct Nic {
        posts: Receiver<u32>,
        completions: Sender<u32>,
    }

    impl Nic {
        fn turn(&mut self) {
            while let Some(post) = self.posts.pop() {
                self.completions.push(post).unwrap();
            }
        }
    }

    fn rings() -> (Sender<u32>, Receiver<u32>, Nic) {
        let (posts, taken) = channel(2);
        let (completed, completions) = channel(2);
        (posts, completions, Nic { posts: taken, completions: completed })
    }

    #[test]
    fn loom_a_post_is_completed_by_whoever_drives() {
        loom::model(|| {
            let (mut posts, mut completions, nic) = rings();
            let baton = Arc::new(Baton::new(nic));
            let theirs = Arc::clone(&baton);
            let device = thread::spawn(move || {
                theirs.with(Nic::turn).unwrap();
            });
            posts.push(7).unwrap();
            let mut got = Vec::new();
            // A post, then two polls that help.
            for _ in 0..2 {
                let _ = baton.try_with(Nic::turn);
                got.extend(completions.pop());
            }
            device.join().unwrap();
            baton.with(Nic::turn).unwrap();
            got.extend(completions.pop());
            assert_eq!(got, [7]);
        });
    }

    #[test]
    fn loom_no_post_waits_for_a_sleeper() {
        loom::model(|| {
            let (mut posts, mut completions, nic) = rings();
            let (baton, signal) = (Arc::new(Baton::new(nic)), Arc::new(Counter(AtomicU32::new(0))));
            let bell = Arc::new(Bell::new(Arc::clone(&signal)));
            let (their_baton, their_bell) = (Arc::clone(&baton), Arc::clone(&bell));
            let application = thread::spawn(move || {
                posts.push(7).unwrap();
                if their_bell.rest() != Rest::Awake {
                    let _ = their_baton.try_with(Nic::turn);
                    their_bell.ring();
                }
            });
            // The device's thread: a turn, the announcement, a last look.
            let seen = baton.with(|nic| {
                nic.turn();
                bell.announce(ASLEEP);
                !nic.posts.is_empty()
            });
            application.join().unwrap();
            let done = completions.pop().is_some();
            assert!(done || seen == Some(true) || signal.0.load(Ordering::SeqCst) == 1);
        });
    }

    #[test]
    fn loom_the_last_helper_leaves_before_the_device_goes() {
        loom::model(|| {
            let (mut posts, mut completions, nic) = rings();
            posts.push(7).unwrap();
            let baton = Arc::new(Baton::new(nic));
            let theirs = Arc::clone(&baton);
            let device = thread::spawn(move || drop(theirs.take().unwrap()));
            let helped = baton.try_with(Nic::turn);
            let done = completions.pop();
            device.join().unwrap();
            assert_eq!(done.is_some(), helped == Tried::Done(()));
            assert!(posts.is_closed() && completions.is_closed());
        });
    }
}
