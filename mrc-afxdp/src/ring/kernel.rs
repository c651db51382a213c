//! Ring memory shared with the kernel: the mapping of one of the four rings of an AF_XDP socket.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use std::os::fd::BorrowedFd;

use rustix::io;
use rustix::net::xdp::XdpRingOffset;

use super::{Consumer, Producer, RingMem};
use crate::sys::mmap::Mapping;

/// Ring flag: the kernel sleeps, a system call wakes it.
const NEED_WAKEUP: u32 = 1;

/// Any bit pattern is a value, so that reading what the kernel (or a stray driver) wrote is harmless.
pub(crate) trait Plain: Copy {}
impl Plain for u64 {}

/// One descriptor of a receive or transmit ring, as the kernel lays it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Descriptor {
    pub(crate) address: u64,
    pub(crate) len: u32,
    pub(crate) options: u32,
}

impl Descriptor {
    /// Option bit: the frame goes on in the next descriptor.
    pub(crate) const CONTINUES: u32 = 1;
}
impl Plain for Descriptor {}

/// The mapping; words and slots lie inside it, checked at construction.
#[derive(Debug)]
pub(crate) struct KernelMem<T> {
    _map: Mapping,
    producer: NonNull<u32>,
    consumer: NonNull<u32>,
    flags: Option<NonNull<u32>>,
    slots: NonNull<T>,
    mask: u32,
}

// SAFETY: the pointers lead into the owned mapping, which may be used from any one thread at a time.
unsafe impl<T: Plain + Send> Send for KernelMem<T> {}

impl<T: Plain> KernelMem<T> {
    /// Maps the ring at `page_offset` of the socket, `entries` (a power of two) slots large.
    pub(crate) fn map(fd: BorrowedFd<'_>, entries: u32, offsets: &XdpRingOffset, page_offset: u64) -> io::Result<Self> {
        let slots_bytes = entries as u64 * size_of::<T>() as u64;
        let len = offsets.desc.checked_add(slots_bytes).ok_or(io::Errno::OVERFLOW)?;
        let map = Mapping::of_fd(fd, page_offset, len as usize)?;
        let word = |offset: u64| place::<u32>(&map, offset);
        Ok(Self {
            producer: word(offsets.producer)?,
            consumer: word(offsets.consumer)?,
            flags: offsets.flags.map(word).transpose()?,
            slots: place::<T>(&map, offsets.desc)?,
            mask: entries - 1,
            _map: map,
        })
    }

    /// Whether the kernel waits for a system call to look at this ring. Without flags (Linux before 5.4): yes.
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.flags.is_none_or(|flags| self.word(flags).load(Ordering::Relaxed) & NEED_WAKEUP != 0)
    }

    fn word(&self, word: NonNull<u32>) -> &AtomicU32 {
        // SAFETY: `place` checked bounds and alignment; the mapping lives as long as `self`; both sides use atomics.
        unsafe { AtomicU32::from_ptr(word.as_ptr()) }
    }
}

/// Address of a `T` at `offset`, if it lies aligned inside the mapping.
fn place<T>(map: &Mapping, offset: u64) -> io::Result<NonNull<T>> {
    let offset = usize::try_from(offset).map_err(|_| io::Errno::OVERFLOW)?;
    let end = offset.checked_add(size_of::<T>()).ok_or(io::Errno::OVERFLOW)?;
    if end > map.len() || !offset.is_multiple_of(align_of::<T>()) {
        return Err(io::Errno::OVERFLOW);
    }
    // SAFETY: `offset` is inside the mapping.
    Ok(unsafe { map.base().add(offset) }.cast())
}

impl<T: Plain> RingMem for KernelMem<T> {
    type Entry = T;

    fn capacity(&self) -> u32 {
        self.mask + 1
    }
    fn producer(&self) -> u32 {
        self.word(self.producer).load(Ordering::Acquire)
    }
    fn publish(&self, position: u32) {
        self.word(self.producer).store(position, Ordering::Release);
    }
    fn consumer(&self) -> u32 {
        self.word(self.consumer).load(Ordering::Acquire)
    }
    fn release(&self, position: u32) {
        self.word(self.consumer).store(position, Ordering::Release);
    }
    unsafe fn write(&self, position: u32, entry: T) {
        // SAFETY: masked, so inside the slots; the caller says the kernel does not read it now.
        unsafe { self.slots.add((position & self.mask) as usize).write(entry) }
    }
    unsafe fn read(&self, position: u32) -> T {
        // SAFETY: masked, so inside the slots; the caller says the kernel is done writing it; any bits are a `T`.
        unsafe { self.slots.add((position & self.mask) as usize).read() }
    }
}

impl<T: Plain> Producer<KernelMem<T>> {
    /// The producing end of a ring that the kernel consumes.
    pub(crate) fn kernel(mem: KernelMem<T>) -> Self {
        // SAFETY: `mem` owns its mapping and cannot be cloned, and the kernel keeps to the ring protocol; were it not to,
        // slots hold plain bits and positions are masked, so frames could go astray but memory could not.
        unsafe { Self::new(mem) }
    }
}

impl<T: Plain> Consumer<KernelMem<T>> {
    /// The consuming end of a ring that the kernel produces.
    pub(crate) fn kernel(mem: KernelMem<T>) -> Self {
        // SAFETY: as above.
        unsafe { Self::new(mem) }
    }
}
