//! Single-producer single-consumer rings over shared words: one algorithm for the four rings of an AF_XDP socket
//! (memory from the kernel) and for the rings to the application (memory from the heap).
//!
//! Positions are free-running 32-bit counters. A side writes its own word only, with release order after it is done
//! with the slots, and reads the other side's with acquire order before it touches them:
//!
//! ```text
//!        consumer word            producer word
//!             v                        v
//!   [ free ] [ published, to be consumed ] [ free: may be written ]
//! ```
//! The code is generic over [`RingMem`], so it runs on plain memory in unit tests, and under loom
//! (`RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p mrc-afxdp --lib loom`).

pub(crate) mod doorbell;
pub(crate) mod heap;
pub(crate) mod kernel;
pub mod spsc;
pub(crate) mod sync;

/// Memory that holds a ring: two position words, flags, and a power-of-two number of slots.
pub(crate) trait RingMem {
    /// What a slot holds.
    type Entry;
    /// Slots, a power of two.
    fn capacity(&self) -> u32;
    /// Producer word, acquire.
    fn producer(&self) -> u32;
    /// Stores the producer word, release.
    fn publish(&self, position: u32);
    /// Consumer word, acquire.
    fn consumer(&self) -> u32;
    /// Stores the consumer word, release.
    fn release(&self, position: u32);
    /// Fills the slot of `position`.
    ///
    /// # Safety
    /// The caller is the producer and the slot is free.
    unsafe fn write(&self, position: u32, entry: Self::Entry);
    /// Moves the entry out of the slot of `position`.
    ///
    /// # Safety
    /// The caller is the consumer, the slot is published, and it is read once.
    unsafe fn read(&self, position: u32) -> Self::Entry;
}

/// The writing end.
#[derive(Debug)]
pub(crate) struct Producer<M> {
    mem: M,
    /// Position of the next write.
    next: u32,
    /// Last value of the producer word we stored.
    published: u32,
    /// Last value of the consumer word we saw.
    consumed: u32,
}

impl<M: RingMem> Producer<M> {
    /// # Safety
    /// This is the only producer of `mem`, and whoever consumes keeps to the protocol above.
    pub(crate) unsafe fn new(mem: M) -> Self {
        let (next, consumed) = (mem.producer(), mem.consumer());
        Self { mem, next, published: next, consumed }
    }

    /// The memory, for its flags.
    pub(crate) fn mem(&self) -> &M {
        &self.mem
    }

    /// Free slots; looks at the shared word only when fewer than `want` are known to be free.
    pub(crate) fn free(&mut self, want: u32) -> u32 {
        let capacity = self.mem.capacity();
        let known = capacity.saturating_sub(self.next.wrapping_sub(self.consumed));
        if known >= want {
            return known;
        }
        self.consumed = self.mem.consumer();
        capacity.saturating_sub(self.next.wrapping_sub(self.consumed))
    }

    /// Entries written and not yet consumed, as the other side says now.
    pub(crate) fn pending(&mut self) -> u32 {
        self.consumed = self.mem.consumer();
        self.next.wrapping_sub(self.consumed)
    }

    /// Writes one entry, invisible until [`Producer::publish`]; gives it back when the ring is full.
    pub(crate) fn push(&mut self, entry: M::Entry) -> Result<(), M::Entry> {
        if self.free(1) == 0 {
            return Err(entry);
        }
        // SAFETY: `new` made us the only producer, and `free` saw the consumer leave this slot.
        unsafe { self.mem.write(self.next, entry) };
        self.next = self.next.wrapping_add(1);
        Ok(())
    }

    /// Makes all written entries visible. Free when there are none.
    pub(crate) fn publish(&mut self) {
        if self.published != self.next {
            self.published = self.next;
            self.mem.publish(self.next);
        }
    }
}

/// The reading end.
#[derive(Debug)]
pub(crate) struct Consumer<M> {
    mem: M,
    /// Position of the next read.
    next: u32,
    /// Last value of the consumer word we stored.
    released: u32,
    /// Last value of the producer word we saw.
    produced: u32,
}

impl<M: RingMem> Consumer<M> {
    /// # Safety
    /// This is the only consumer of `mem`, and whoever produces keeps to the protocol above.
    pub(crate) unsafe fn new(mem: M) -> Self {
        let (next, produced) = (mem.consumer(), mem.producer());
        Self { mem, next, released: next, produced }
    }

    /// The memory, for its flags.
    pub(crate) fn mem(&self) -> &M {
        &self.mem
    }

    /// Entries ready to be popped; looks at the shared word only when none is known.
    pub(crate) fn available(&mut self) -> u32 {
        if self.produced == self.next {
            self.produced = self.mem.producer();
        }
        self.produced.wrapping_sub(self.next)
    }

    /// Entries in the ring, also those that came since [`Consumer::available`] looked.
    pub(crate) fn published(&mut self) -> u32 {
        self.produced = self.mem.producer();
        self.produced.wrapping_sub(self.next)
    }

    /// Takes the next entry; its slot stays ours until [`Consumer::release`].
    pub(crate) fn pop(&mut self) -> Option<M::Entry> {
        if self.available() == 0 {
            return None;
        }
        // SAFETY: `new` made us the only consumer, the producer published this slot, and `next` passes it once.
        let entry = unsafe { self.mem.read(self.next) };
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    /// Gives all popped slots back to the producer. Free when there are none.
    pub(crate) fn release(&mut self) {
        if self.released != self.next {
            self.released = self.next;
            self.mem.release(self.next);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::heap::HeapMem;
    use super::*;

    fn ring(capacity: u32, start: u32) -> (Producer<HeapMem<u64>>, Consumer<HeapMem<u64>>) {
        let mem = HeapMem::starting_at(capacity, start);
        // SAFETY: one producer and one consumer over fresh memory.
        unsafe { (Producer::new(mem.clone()), Consumer::new(mem)) }
    }

    #[test]
    fn entries_appear_at_publish_and_slots_return_at_release() {
        let (mut tx, mut rx) = ring(4, 0);
        for n in 0..4 {
            tx.push(n).unwrap();
        }
        assert_eq!(tx.push(9), Err(9));
        assert_eq!(rx.available(), 0);
        tx.publish();
        assert_eq!(rx.available(), 4);
        assert_eq!((rx.pop(), rx.pop()), (Some(0), Some(1)));
        assert_eq!(tx.free(1), 0, "popped slots are not free before release");
        rx.release();
        assert_eq!(tx.free(1), 2);
        assert_eq!(tx.pending(), 2);
    }

    #[test]
    fn positions_wrap() {
        let (mut tx, mut rx) = ring(8, u32::MAX - 20);
        for n in 0..1000 {
            tx.push(n).unwrap();
            tx.publish();
            assert_eq!(rx.pop(), Some(n));
            rx.release();
        }
        assert_eq!(rx.pop(), None);
    }
}
