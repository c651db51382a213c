//! Descriptors that a child does not keep after `fork`. A child that lives on would hold sockets, queue and XDP program of
//! an interface after its parent died, and nobody could open it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use super::process::Owner;

const NONE: i32 = -1;

/// Descriptors to close in a child; those beyond its room are inherited. 8 ports with 4 each and a control socket, for several
/// devices.
static PRIVATE: [AtomicI32; 256] = [const { AtomicI32::new(NONE) }; 256];

/// Keeps an open descriptor from children. To be dropped before the descriptor is closed.
#[derive(Debug)]
pub struct Private(Option<&'static AtomicI32>);

impl Private {
    /// Children that are made from now on do not have `fd`.
    pub fn of(fd: &impl AsRawFd) -> Self {
        let _ = Owner::this();
        let free = |entry: &&AtomicI32| {
            entry.compare_exchange(NONE, fd.as_raw_fd(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        Self(PRIVATE.iter().find(free))
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        if let Some(entry) = self.0 {
            entry.store(NONE, Ordering::Release);
        }
    }
}

/// A descriptor of this process only.
#[derive(Debug)]
pub(crate) struct PrivateFd {
    // Before the descriptor, which is closed when it goes.
    _private: Private,
    fd: OwnedFd,
}

impl From<OwnedFd> for PrivateFd {
    fn from(fd: OwnedFd) -> Self {
        Self { _private: Private::of(&fd), fd }
    }
}

impl AsFd for PrivateFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for PrivateFd {
    fn as_raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

/// In a child, right after `fork`: what was private is closed. The numbers stay taken, by a descriptor that does nothing, so
/// that nobody closes a stranger's later.
pub(super) fn close_all() {
    // SAFETY: system calls on numbers; all of them may be made in a child of a process with threads.
    unsafe {
        let nothing = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
        for entry in &PRIVATE {
            let fd = entry.load(Ordering::Acquire);
            if fd != NONE && (nothing < 0 || libc::dup3(nothing, fd, libc::O_CLOEXEC) < 0) {
                libc::close(fd);
            }
        }
        if nothing >= 0 {
            libc::close(nothing);
        }
    }
}
