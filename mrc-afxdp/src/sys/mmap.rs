//! An owned memory mapping: UMEM, kernel rings, registered memory.

use core::ffi::c_void;
use core::ptr::{self, NonNull};
use std::os::fd::BorrowedFd;

use rustix::io;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use super::process::Owner;

/// `len` readable and writable bytes, page aligned, unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    /// Set when children after `fork` do not have it: the process that does.
    private: Option<Owner>,
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

    /// Memory shared with the kernel object behind `fd`; children after `fork` do not have it.
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
        Self::adopt(base, len)?.without_children()
    }

    fn adopt(base: *mut c_void, len: usize) -> io::Result<Self> {
        NonNull::new(base.cast()).map(|base| Self { base, len, private: None }).ok_or(io::Errno::NOMEM)
    }

    /// Keeps the memory from children after `fork`. It is for memory that the kernel uses: a copy would be of no use, a
    /// shared ring would keep its socket alive, and copying on write would take the kernel's pages away from us.
    pub(crate) fn without_children(mut self) -> io::Result<Self> {
        // SAFETY: the range is one mapping of ours; the advice changes nothing in this process.
        unsafe { madvise(self.base.as_ptr().cast(), self.len, Advice::LinuxDontFork)? };
        self.private = Some(Owner::this());
        Ok(self)
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
        // In a child other memory may be there by now.
        if self.private.is_some_and(Owner::is_a_parent) {
            return;
        }
        // SAFETY: `base` and `len` come from one mmap call; borrowers of the bytes hold a borrow of their owner.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
