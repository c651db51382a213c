//! Standard output that a reader may leave early, as in `mrc decode FILE | head`: what comes after is dropped, and the command
//! goes on to its end, so that nothing it made stays behind. Output that is lost for any other reason, such as a full disk,
//! makes the program fail.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);
static LOST: OnceLock<String> = OnceLock::new();

/// Whether nobody reads any more: long output may end here.
pub fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

/// Why output was lost although somebody wanted it.
pub fn lost() -> Option<&'static str> {
    LOST.get().map(String::as_str)
}

/// Prints; [`outln!`] and [`out!`] are its shorter forms.
pub fn text(text: Arguments<'_>, end: &str) {
    if is_closed() {
        return;
    }
    let mut out = std::io::stdout().lock();
    if let Err(error) = write!(out, "{text}{end}").and_then(|()| out.flush()) {
        CLOSED.store(true, Ordering::Relaxed);
        if error.kind() != ErrorKind::BrokenPipe {
            LOST.get_or_init(|| error.to_string());
        }
    }
}

/// `println!` that outlives its reader.
macro_rules! outln {
    () => { $crate::out::text(format_args!(""), "\n") };
    ($($text:tt)*) => { $crate::out::text(format_args!($($text)*), "\n") };
}
/// `print!` that outlives its reader.
macro_rules! out {
    ($($text:tt)*) => { $crate::out::text(format_args!($($text)*), "") };
}
pub(crate) use out;
pub(crate) use outln;
