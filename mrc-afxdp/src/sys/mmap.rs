//! An owned memory mapping: UMEM, kernel rings, registered memory.

use core::ffi::c_void;
use core::ptr::{self, NonNull};
use std::os::fd::BorrowedFd;

use rustix::io;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// `len` readable and writable bytes, page aligned, unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; whoever touches its bytes synchronises.
unsafe impl Send for Mapping {}
// SAFETY: `&Mapping` gives out nothing but the address.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroed private memory, all pages present.
    pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
        // SAFETY: the kernel chooses the address, so no existing mapping is replaced.
        let base = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::POPULATE,
            )?
        };
        Self::adopt(base, len)
    }

    /// Memory shared with the kernel object behind `fd`.
    pub(crate) fn of_fd(fd: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<Self> {
        // SAFETY: as above.
        let base = unsafe {
            mmap(
                ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                fd,
                offset,
            )?
        };
        Self::adopt(base, len)
    }

    fn adopt(base: *mut c_void, len: usize) -> io::Result<Self> {
        NonNull::new(base.cast()).map(|base| Self { base, len }).ok_or(io::Errno::NOMEM)
    }

    /// First byte.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `base` and `len` come from one mmap call; borrowers of the bytes hold a borrow of their owner.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
