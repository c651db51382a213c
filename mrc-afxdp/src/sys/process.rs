//! What a library with a thread asks of its process: fork handlers, exact timers.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set in a child after `fork`.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Lets [`is_forked`] know of later forks.
pub(crate) fn watch_forks() {
    extern "C" fn in_child() {
        FORKED.store(true, Ordering::Relaxed);
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler only stores to a static, which is allowed in a child. It fails for want of memory only.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// Whether this process is a child of the one that called [`watch_forks`], and has not executed another program.
pub(crate) fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Lets timers of this thread be late by a nanosecond, where the kernel allows 50 microseconds by default.
pub(crate) fn exact_timers() {
    // SAFETY: sets a number of the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}
