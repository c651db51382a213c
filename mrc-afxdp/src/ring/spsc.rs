//! Lock-free single-producer single-consumer queue between an application thread and the progress thread.
//!
//! Own code rather than `rtrb`: the ring protocol is the one of the kernel rings, written and checked once. It must run
//! under loom, which that crate does not offer. Its positions are published once per batch.

use super::heap::HeapMem;
use super::{Consumer, Producer, RingMem as _};

/// The writing end. Dropping it publishes what was pushed and closes the queue.
#[derive(Debug)]
pub struct Sender<T> {
    ring: Producer<HeapMem<T>>,
}

/// The reading end. Dropping it closes the queue; what was not popped is dropped with the later of both ends.
#[derive(Debug)]
pub struct Receiver<T> {
    ring: Consumer<HeapMem<T>>,
}

/// A queue of at least `capacity` entries (rounded up to a power of two); its memory is allocated here, once.
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let mem = HeapMem::new(u32::try_from(capacity).unwrap_or(u32::MAX));
    // SAFETY: fresh memory, and the two ends below are the only ones: neither can be cloned.
    unsafe { (Sender { ring: Producer::new(mem.clone()) }, Receiver { ring: Consumer::new(mem) }) }
}

impl<T> Sender<T> {
    /// Appends and publishes one entry.
    ///
    /// # Errors
    /// The entry itself when the queue is full.
    pub fn push(&mut self, entry: T) -> Result<(), T> {
        self.ring.push(entry)?;
        self.ring.publish();
        Ok(())
    }

    /// Appends one entry that the other side sees at the next [`Sender::publish`] (or [`Sender::push`]).
    ///
    /// # Errors
    /// The entry itself when the queue is full.
    pub fn stage(&mut self, entry: T) -> Result<(), T> {
        self.ring.push(entry)
    }

    /// Makes all staged entries visible.
    pub fn publish(&mut self) {
        self.ring.publish();
    }

    /// Free places; exact when the other side is idle, otherwise a lower bound.
    pub fn free(&mut self) -> usize {
        self.ring.free(u32::MAX) as usize
    }

    /// Whether the reading end is gone: nobody will take what is pushed.
    pub fn is_closed(&self) -> bool {
        self.ring.mem().is_closed()
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.ring.publish();
        self.ring.mem().close();
    }
}

impl<T> Receiver<T> {
    /// Takes the oldest entry.
    pub fn pop(&mut self) -> Option<T> {
        let entry = self.ring.pop();
        self.ring.release();
        entry
    }

    /// Hands up to `max` entries to `f`, oldest first, and returns how many; their places are freed once, at the end.
    pub fn drain(&mut self, max: usize, mut f: impl FnMut(T)) -> usize {
        let mut taken = 0;
        while taken < max {
            let Some(entry) = self.ring.pop() else { break };
            taken += 1;
            f(entry);
        }
        self.ring.release();
        taken
    }

    /// Entries that were published before this call.
    pub(crate) fn len(&mut self) -> usize {
        self.ring.published() as usize
    }

    /// Entries there is room for, popped or not.
    pub(crate) fn capacity(&self) -> usize {
        self.ring.mem().capacity() as usize
    }

    /// Whether there is nothing to pop now.
    pub fn is_empty(&mut self) -> bool {
        self.ring.available() == 0
    }

    /// Whether the writing end is gone. Entries it pushed before can still be popped: pop until empty *after* this is true.
    pub fn is_closed(&self) -> bool {
        self.ring.mem().is_closed()
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.ring.release();
        self.ring.mem().close();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::rc::Rc;
    use std::thread;

    use super::*;

    #[test]
    fn full_then_drained_then_usable() {
        let (mut tx, mut rx) = channel(3);
        assert_eq!(tx.free(), 4);
        for n in 0..4 {
            tx.push(n).unwrap();
        }
        assert_eq!(tx.push(4), Err(4));
        let mut got = Vec::new();
        assert_eq!(rx.len(), 4);
        assert_eq!(rx.drain(3, |n| got.push(n)), 3);
        assert_eq!(got, [0, 1, 2]);
        assert_eq!(tx.free(), 3);
        tx.push(5).unwrap();
        assert_eq!((rx.len(), rx.pop(), rx.pop()), (2, Some(3), Some(5)));
        assert!(rx.is_empty());
    }

    #[test]
    fn staged_entries_wait_for_publish() {
        let (mut tx, mut rx) = channel(4);
        tx.stage(1).unwrap();
        assert!(rx.is_empty());
        tx.publish();
        assert_eq!(rx.pop(), Some(1));
    }

    #[test]
    fn entries_left_behind_are_dropped_once() {
        let counted = Rc::new(());
        let (mut tx, mut rx) = channel(8);
        for _ in 0..5 {
            tx.stage(Rc::clone(&counted)).unwrap();
        }
        tx.publish();
        drop(rx.pop());
        assert_eq!(Rc::strong_count(&counted), 5);
        drop(tx);
        assert!(rx.is_closed());
        drop(rx);
        assert_eq!(Rc::strong_count(&counted), 1);
    }

    #[test]
    fn two_threads_keep_order() {
        const COUNT: u64 = if cfg!(miri) { 200 } else { 200_000 };
        let (mut tx, mut rx) = channel(64);
        let writer = thread::spawn(move || {
            for n in 0..COUNT {
                let mut entry = Box::new(n);
                while let Err(back) = tx.push(entry) {
                    entry = back;
                    thread::yield_now();
                }
            }
        });
        let mut next = 0;
        while next < COUNT {
            if rx.drain(16, |n| {
                assert_eq!(*n, next);
                next += 1;
            }) == 0
            {
                thread::yield_now();
            }
        }
        writer.join().unwrap();
        assert!(rx.is_closed() && rx.is_empty());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::thread;

    use super::*;

    #[test]
    fn loom_entries_arrive_whole_and_in_order() {
        loom::model(|| {
            let (mut tx, mut rx) = channel(2);
            let writer = thread::spawn(move || {
                for n in 0..3u32 {
                    let mut entry = Box::new(n);
                    while let Err(back) = tx.push(entry) {
                        entry = back;
                        thread::yield_now();
                    }
                }
            });
            let mut next = 0;
            while next < 3 {
                match rx.pop() {
                    Some(n) => {
                        assert_eq!(*n, next);
                        next += 1;
                    }
                    None => thread::yield_now(),
                }
            }
            writer.join().unwrap();
        });
    }

    #[test]
    fn loom_a_batch_is_published_at_once() {
        loom::model(|| {
            let (mut tx, mut rx) = channel(4);
            let writer = thread::spawn(move || {
                tx.stage(1u32).unwrap();
                tx.stage(2).unwrap();
                tx.publish();
            });
            let mut got = 0;
            rx.drain(4, |_| got += 1);
            assert!(got == 0 || got == 2);
            writer.join().unwrap();
        });
    }

    #[test]
    fn loom_nothing_pushed_before_the_close_is_lost() {
        loom::model(|| {
            let (mut tx, mut rx) = channel(2);
            let writer = thread::spawn(move || tx.push(Box::new(7u32)).unwrap());
            if rx.is_closed() {
                assert_eq!(rx.pop().as_deref(), Some(&7));
            }
            writer.join().unwrap();
        });
    }

    #[test]
    fn loom_either_end_may_go_first() {
        loom::model(|| {
            let (mut tx, rx) = channel(2);
            let writer = thread::spawn(move || {
                let _ = tx.push(Box::new(1u32));
            });
            drop(rx);
            writer.join().unwrap();
        });
    }
}
