//! Ring memory on the heap, for threads of one process. Position words sit on cache lines of their own.

use core::fmt;
use core::mem::MaybeUninit;

use super::RingMem;
use super::sync::{Arc, AtomicU32, Ordering, UnsafeCell};

/// Two cache lines: neighbouring lines are fetched in pairs on x86.
#[derive(Debug)]
#[repr(align(128))]
struct Padded<T>(T);

struct Shared<T> {
    producer: Padded<AtomicU32>,
    consumer: Padded<AtomicU32>,
    /// Set when either end is dropped.
    closed: Padded<AtomicU32>,
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: a slot is touched by one side at a time (ring protocol), so only the entries cross threads.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let end = self.producer.0.load(Ordering::Acquire);
        let mut at = self.consumer.0.load(Ordering::Acquire);
        while at != end {
            if let Some(slot) = self.slots.get(at as usize & (self.slots.len() - 1)) {
                // SAFETY: published and not consumed, so initialised; both ends are gone.
                slot.with_mut(|slot| unsafe { (*slot).assume_init_drop() });
            }
            at = at.wrapping_add(1);
        }
    }
}

/// A handle to the shared slots; the two ends hold one each.
pub(crate) struct HeapMem<T>(Arc<Shared<T>>);

impl<T> Clone for HeapMem<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for HeapMem<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeapMem({} slots)", self.0.slots.len())
    }
}

impl<T> HeapMem<T> {
    /// Slots for at least `capacity` entries.
    pub(crate) fn new(capacity: u32) -> Self {
        Self::starting_at(capacity, 0)
    }

    /// As [`HeapMem::new`], with both positions at `start`, to test the wrap.
    pub(crate) fn starting_at(capacity: u32, start: u32) -> Self {
        let capacity = capacity.clamp(1, 1 << 30).next_power_of_two();
        let slots = (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
        Self(Arc::new(Shared {
            producer: Padded(AtomicU32::new(start)),
            consumer: Padded(AtomicU32::new(start)),
            closed: Padded(AtomicU32::new(0)),
            slots,
        }))
    }

    /// Tells the other end that this one is gone.
    pub(crate) fn close(&self) {
        self.0.closed.0.store(1, Ordering::Release);
    }

    /// Whether the other end is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.closed.0.load(Ordering::Acquire) != 0
    }

    fn slot(&self, position: u32) -> &UnsafeCell<MaybeUninit<T>> {
        let slots = &self.0.slots;
        // The mask keeps the index inside: the length is a power of two and at least 1.
        &slots[position as usize & (slots.len() - 1)]
    }
}

impl<T> RingMem for HeapMem<T> {
    type Entry = T;

    fn capacity(&self) -> u32 {
        self.0.slots.len() as u32
    }
    fn producer(&self) -> u32 {
        self.0.producer.0.load(Ordering::Acquire)
    }
    fn publish(&self, position: u32) {
        self.0.producer.0.store(position, Ordering::Release);
    }
    fn consumer(&self) -> u32 {
        self.0.consumer.0.load(Ordering::Acquire)
    }
    fn release(&self, position: u32) {
        self.0.consumer.0.store(position, Ordering::Release);
    }
    unsafe fn write(&self, position: u32, entry: T) {
        // SAFETY: the caller says the slot is free and ours to write.
        self.slot(position).with_mut(|slot| unsafe { (*slot).write(entry) });
    }
    unsafe fn read(&self, position: u32) -> T {
        // SAFETY: the caller says the slot is published, hence initialised, and read once.
        self.slot(position).with(|slot| unsafe { (*slot).assume_init_read() })
    }
}
