//! The log: the program's mistakes and the network's, on standard error. `MRC_LOG` chooses how much.

use std::collections::HashMap;
use std::sync::{LazyLock, Once};
use std::time::{Duration, Instant};

use log::{Level, LevelFilter, Log, Metadata, Record};
use parking_lot::Mutex;

use crate::stderr;

/// Lines of one kind that are shown in each [`WINDOW`].
const BURST: u32 = 10;
const WINDOW: Duration = Duration::from_secs(10);

/// Lines of the place in the code that makes them.
struct Kind {
    since: Instant,
    shown: u32,
    held: u64,
}

/// What becomes of a line.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Show {
        /// Lines of its kind that were not shown before it.
        held: u64,
        /// No more of its kind are shown for a while.
        last: bool,
    },
    Hold,
}

const ALONE: Verdict = Verdict::Show { held: 0, last: false };

/// Holds lines of a kind back that repeat.
#[derive(Default)]
struct Limiter {
    kinds: HashMap<(&'static str, u32), Kind>,
}

impl Limiter {
    fn judge(&mut self, place: (&'static str, u32), now: Instant) -> Verdict {
        let kind = self.kinds.entry(place).or_insert(Kind { since: now, shown: 0, held: 0 });
        if now.saturating_duration_since(kind.since) >= WINDOW {
            (kind.since, kind.shown) = (now, 0);
        }
        if kind.shown == BURST {
            kind.held += 1;
            return Verdict::Hold;
        }
        kind.shown += 1;
        Verdict::Show { held: core::mem::take(&mut kind.held), last: kind.shown == BURST }
    }
}

struct Stderr;

static LIMITER: LazyLock<Mutex<Limiter>> = LazyLock::new(Mutex::default);

impl Log for Stderr {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &Record<'_>) {
        // Who asks for details gets all of them.
        let limited = record.level() <= Level::Info;
        let place = (record.file_static().unwrap_or(""), record.line().unwrap_or(0));
        let verdict = match limited {
            // Nobody waits for a lock to complain, in a child after `fork` perhaps for ever.
            true => LIMITER.try_lock().map_or(ALONE, |mut limiter| limiter.judge(place, Instant::now())),
            false => ALONE,
        };
        let Verdict::Show { held, last } = verdict else { return };
        let mut line = format!("libibverbs (mrc): {}", record.args());
        if held > 0 {
            line += &format!(" ({held} lines like this one were not shown)");
        }
        if last {
            line += &format!(" (more like this one are not shown for {} s)", WINDOW.as_secs());
        }
        stderr::say(&line);
    }
    fn flush(&self) {}
}

/// Starts the log, once; the level is off, error, warn (the default), info, debug or trace.
pub(crate) fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let level =
            mrc_afxdp::trusted_env("MRC_LOG").and_then(|text| text.to_str()?.parse().ok()).unwrap_or(LevelFilter::Warn);
        if log::set_logger(&Stderr).is_ok() {
            log::set_max_level(level);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_repeat_are_counted_instead() {
        let (mut limiter, start) = (Limiter::default(), Instant::now());
        let show = |held, last| Verdict::Show { held, last };
        for n in 1..BURST {
            assert_eq!(limiter.judge(("a", 1), start), show(0, false), "{n}");
        }
        assert_eq!(limiter.judge(("a", 1), start), show(0, true));
        for _ in 0..500 {
            assert_eq!(limiter.judge(("a", 1), start + WINDOW / 2), Verdict::Hold);
        }
        // Others are not held back by it.
        assert_eq!(limiter.judge(("a", 2), start), show(0, false));
        assert_eq!(limiter.judge(("a", 1), start + WINDOW), show(500, false));
        assert_eq!(limiter.judge(("a", 1), start + WINDOW), show(0, false));
    }
}
