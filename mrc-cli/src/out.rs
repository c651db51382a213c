//! Standard output that a reader may leave early, as in `mrc decode FILE | head`: what comes after is dropped, and the command
//! goes on to its end, so that nothing it made stays behind. Output that is lost for any other reason, such as a full disk,
//! makes the program fail in the end; until then it goes on to print, because a program that runs for months outlives a disk that is
//! full for a minute. What is said on standard error is no result: it may be lost.

use std::fmt::Arguments;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;

static CLOSED: AtomicBool = AtomicBool::new(false);
static LOST: OnceLock<String> = OnceLock::new();

/// Whether nobody reads any more, or the output has lost something already: long output may end here.
pub fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed) || lost().is_some()
}

/// Why output was lost although somebody wanted it.
pub fn lost() -> Option<&'static str> {
    LOST.get().map(String::as_str)
}

/// Prints; [`outln!`] and [`out!`] are its shorter forms.
pub fn text(text: Arguments<'_>, end: &str) {
    if CLOSED.load(Ordering::Relaxed) {
        return;
    }
    let mut out = std::io::stdout().lock();
    if let Err(error) = write!(out, "{text}{end}").and_then(|()| out.flush()) {
        if error.kind() == ErrorKind::BrokenPipe {
            CLOSED.store(true, Ordering::Relaxed);
        } else {
            LOST.get_or_init(|| error.to_string());
        }
    }
}

/// Says something on standard error, if it can be written there; [`errln!`] is the shorter form.
pub fn said(text: Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Text that somebody else wrote, on one line: nothing in it may steer the terminal, or look like a line of ours.
pub fn printable(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}

/// Asks whether a file can be written before the work of which it is to hold the results. What is there stays.
pub fn writable(path: &Path) -> anyhow::Result<()> {
    let asked = match fs::metadata(path) {
        // Whoever reads a pipe would take the question for all there is.
        Ok(there) if !there.is_file() && !there.is_dir() => Ok(()),
        Ok(_) => File::options().append(true).open(path).map(drop),
        // Under another name: somebody else may write this very file meanwhile.
        Err(_) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let asking = path.with_file_name(format!(".{name}.{}.new", std::process::id()));
            File::create_new(&asking).and_then(|_| fs::remove_file(&asking))
        }
    };
    asked.with_context(|| format!("cannot write {}", path.display()))
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
/// `eprintln!` that outlives its reader and a full disk, where that one panics.
macro_rules! errln {
    ($($text:tt)*) => { $crate::out::said(format_args!($($text)*)) };
}
pub(crate) use errln;
pub(crate) use out;
pub(crate) use outln;

/// A number of things: `1 plane`, `2 planes`.
pub fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
