//! What a library with a thread asks of its process: to know of forks, signals elsewhere, exact timers.

use std::ffi::OsString;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use core::mem::MaybeUninit;

use super::private_fd;

/// How many forks lie between this process and the one that loaded the library.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process that something was made in.
#[derive(Debug, Clone, Copy)]
pub struct Owner(u32);

impl Owner {
    /// This process. Later forks are noticed.
    pub fn this() -> Self {
        extern "C" fn in_child() {
            FORKS.fetch_add(1, Ordering::Relaxed);
            private_fd::close_all();
        }
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // SAFETY: the handler touches atomics and makes system calls, which is allowed in a child. It fails for want
            // of memory only.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Whether this process is a child of the owner, made by `fork`.
    pub fn is_a_parent(self) -> bool {
        FORKS.load(Ordering::Relaxed) != self.0
    }
}

/// Lets timers of this thread be late by a nanosecond, where the kernel allows 50 microseconds by default.
pub(crate) fn exact_timers() {
    // SAFETY: sets a number of the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// An environment variable, which a program with more rights than its caller does not have (as `secure_getenv`): who starts
/// such a program must not choose its files.
pub fn trusted_env(name: &str) -> Option<OsString> {
    // SAFETY: reads a number that the kernel gave the process.
    let privileged = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    if privileged { None } else { std::env::var_os(name).filter(|value| !value.is_empty()) }
}

/// Signals that a thread sends itself by a fault; the others can go to any thread of a process.
const FAULTS: [i32; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS, libc::SIGABRT];

/// Runs `f`, which starts a thread: that thread never runs a signal handler of the program, except for its own faults.
pub fn without_signals<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: sets of signals on our stack, initialised before they are read.
    unsafe {
        let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        libc::sigfillset(all.as_mut_ptr());
        for fault in FAULTS {
            libc::sigdelset(all.as_mut_ptr(), fault);
        }
        let masked = libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) == 0;
        let result = f();
        if masked {
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), core::ptr::null_mut());
        }
        result
    }
}
