//! Standard output that a reader may leave early, as in `mrc decode FILE | head`: what comes after is dropped, and the command
//! goes on to its end, so that nothing it made stays behind.

use std::fmt::Arguments;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether nobody reads any more: long output may end here.
pub fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

/// Prints one line; [`outln!`] is its shorter form.
pub fn line(text: Arguments<'_>) {
    if !is_closed() && writeln!(std::io::stdout().lock(), "{text}").is_err() {
        CLOSED.store(true, Ordering::Relaxed);
    }
}

/// `println!` that outlives its reader.
macro_rules! outln {
    () => { $crate::out::line(format_args!("")) };
    ($($text:tt)*) => { $crate::out::line(format_args!($($text)*)) };
}
pub(crate) use outln;
