//! The log of every program and library of this project: lines on standard error. `MRC_LOG` sets the level; repeated lines
//! are counted and not printed.
//!
//! ```text
//! 2026-11-22T06:48:02.113Z WARN libibverbs (mrc): peer=hB path=p1u1 GOOD->ASSUMED_BAD reason=reordering qp=0x4f1201
//! ```

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use log::{Level, LevelFilter, Log, Metadata, Record};
use mrc_afxdp::device::DeviceEvent;
use mrc_core::path::{EvEntry, EvState};
use mrc_core::{ErrorCause, Event, Stats};
use mrc_wire::Qpn;

use crate::host::HostFile;

/// Names the level: off, error, warn (the default), info, debug or trace.
pub const LOG_VARIABLE: &str = "MRC_LOG";

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

struct Lines {
    who: &'static str,
    write: fn(&str),
    limiter: Mutex<Limiter>,
}

impl Log for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &Record<'_>) {
        let place = (record.file_static().unwrap_or(""), record.line().unwrap_or(0));
        // Who asks for details gets all of them. Nobody waits for a lock to complain, in a child after `fork` perhaps for ever.
        let verdict = match (record.level() <= Level::Info, self.limiter.try_lock()) {
            (false, _) | (_, Err(TryLockError::WouldBlock)) => ALONE,
            (true, limiter) => limiter
                .unwrap_or_else(|poisoned| match poisoned {
                    TryLockError::Poisoned(poisoned) => PoisonError::into_inner(poisoned),
                    TryLockError::WouldBlock => unreachable!("matched above"),
                })
                .judge(place, Instant::now()),
        };
        let Verdict::Show { held, last } = verdict else { return };
        let mut line = format!("{} {} {}: {}", timestamp(SystemTime::now()), record.level(), self.who, record.args());
        if held > 0 {
            line += &format!(" ({held} lines like this one were not shown)");
        }
        if last {
            line += &format!(" (more like this one are not shown for {} s)", WINDOW.as_secs());
        }
        (self.write)(&line);
    }
    fn flush(&self) {}
}

/// Starts the log of this process, once: `who` names program or library in each line, `write` takes the lines.
pub fn start(who: &'static str, write: fn(&str)) {
    static LINES: OnceLock<Lines> = OnceLock::new();
    let lines = LINES.get_or_init(|| Lines { who, write, limiter: Mutex::default() });
    let wanted = mrc_afxdp::trusted_env(LOG_VARIABLE).filter(|text| !text.is_empty());
    let level = wanted.as_ref().and_then(|text| text.to_str()?.parse().ok());
    if log::set_logger(lines).is_ok() {
        log::set_max_level(level.unwrap_or(LevelFilter::Warn));
        if let (Some(text), None) = (wanted, level) {
            log::warn!(
                "{LOG_VARIABLE}={text:?} is no level: off, error, warn, info, debug and trace are; `warn` holds"
            );
        }
    }
}

/// A time as RFC 3339 writes it, in UTC.
fn timestamp(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Days since 1 March of year 0, in eras of 400 years: leap days come last in a year that begins in March.
    let (era, day) = ((days + 719_468) / 146_097, (days + 719_468) % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = year + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

pub(crate) fn state(state: EvState) -> &'static str {
    match state {
        EvState::Good => "GOOD",
        EvState::Skip => "SKIP",
        EvState::AssumedBad => "ASSUMED_BAD",
        EvState::Denied => "DENIED",
    }
}

/// What happened to a device, in one line; `peer_of` names the peer of a queue pair, if it is known.
pub fn line(event: &DeviceEvent, peer_of: impl Fn(Qpn) -> Option<String>) -> String {
    let peer = |qp| peer_of(qp).unwrap_or_else(|| "?".to_owned());
    match event {
        DeviceEvent::Engine(Event::Ev { qp, transition }) => {
            let path = HostFile::path_name(&EvEntry::new(transition.ev, transition.port));
            let (from, to, reason) = (state(transition.from), state(transition.to), transition.reason());
            format!("peer={} path={path} {from}->{to} reason={reason} qp={:#x}", peer(*qp), qp.value())
        }
        DeviceEvent::Engine(Event::QpError { qp, cause }) => {
            format!("peer={} qp={:#x} RTS->ERROR reason=\"{}\"", peer(*qp), qp.value(), cause.text())
        }
        DeviceEvent::Engine(Event::Port { port, up: true }) => format!("plane={} DOWN->UP", port.plane()),
        DeviceEvent::Engine(Event::Port { port, .. }) => format!("plane={} UP->DOWN", port.plane()),
        DeviceEvent::Engine(Event::PeerPorts { peer, ports }) => {
            format!("peer={} ports={:#x} (bit 1: plane 0 is up there)", peer.index(), ports.bits())
        }
        DeviceEvent::Engine(other) => format!("{other:?}"),
        DeviceEvent::PostRefused { wr_id, why } => format!("work-request={wr_id:#x} refused: {why}"),
        DeviceEvent::Established { qp } => format!("peer={} qp={:#x} first data in RTR", peer(*qp), qp.value()),
        DeviceEvent::Link(text) => text.clone(),
        other => format!("{other:?}"),
    }
}

/// Logs what happened to a device, one line per event; `peer_of` names the peer of a queue pair, if it is known.
pub fn tell(event: &DeviceEvent, peer_of: impl Fn(Qpn) -> Option<String>) {
    let line = line(event, peer_of);
    // Each kind in a place of its own: many of one kind hide no other.
    match event {
        DeviceEvent::Engine(Event::Ev { transition, .. }) => match (transition.from, transition.to) {
            (_, EvState::AssumedBad) => log::warn!("{line}"),
            (EvState::AssumedBad, _) => log::info!("{line}"),
            _ => log::debug!("{line}"),
        },
        // Programs end their connections so.
        DeviceEvent::Engine(Event::QpError { cause: ErrorCause::Application, .. }) => log::info!("{line}"),
        DeviceEvent::Engine(Event::QpError { .. }) => log::warn!("{line}"),
        DeviceEvent::Engine(Event::Port { up: true, .. }) => log::warn!("{line}"),
        DeviceEvent::Engine(Event::Port { .. }) => log::warn!("{line}"),
        DeviceEvent::Engine(Event::PeerPorts { .. }) => log::info!("{line}"),
        DeviceEvent::PostRefused { .. } => log::error!("{line}"),
        // The device itself logs it.
        DeviceEvent::Link(_) => {}
        _ => log::debug!("{line}"),
    }
}

/// Every counter that is not zero, by name: `tx_data=12 rx_sack=3`.
pub fn counters(stats: &Stats) -> String {
    let mut text = Vec::new();
    stats.for_each(|name, value| {
        if value > 0 {
            text.push(format!("{name}={value}"));
        }
    });
    text.join(" ")
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

    #[test]
    fn times_are_those_of_the_calendar() {
        let at = |seconds, millis: u32| timestamp(UNIX_EPOCH + Duration::new(seconds, millis * 1_000_000));
        assert_eq!(at(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_400, 1), "2000-02-29T00:00:00.001Z");
        assert_eq!(at(1_709_251_199, 0), "2024-02-29T23:59:59.000Z");
        assert_eq!(at(1_795_330_082, 113), "2026-11-22T06:48:02.113Z");
        assert_eq!(at(4_107_542_400, 0), "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn an_event_is_one_line_with_names() {
        use mrc_core::path::{EvIndex, Feedback, Transition};
        use mrc_wire::{Ev, PortNum};
        static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
        start("test", |line| SAID.lock().unwrap().push(line.to_owned()));
        log::set_max_level(LevelFilter::Info);
        let (from, to) = (EvState::Good, EvState::AssumedBad);
        let cause = Some(Feedback::Loss { trim_nack: false });
        let transition = Transition { index: EvIndex(5), ev: Ev(0x101), port: PortNum::from_plane(1), from, to, cause };
        let event = DeviceEvent::Engine(Event::Ev { qp: Qpn::new(0x4f1201), transition });
        for _ in 0..20 {
            tell(&event, |_| Some("hB".into()));
        }
        let back = Transition { from: to, to: from, cause: None, ..transition };
        tell(&DeviceEvent::Engine(Event::Ev { qp: Qpn::new(7), transition: back }), |_| None);
        // The end that a program gives a connection is no trouble; any other is.
        for cause in [ErrorCause::Application, ErrorCause::PeerSilent] {
            tell(&DeviceEvent::Engine(Event::QpError { qp: Qpn::new(7), cause }), |_| Some("hB".into()));
        }
        // It stood there twice.
        tell(&DeviceEvent::Link("interface p0 (index 7) is up".into()), |_| None);
        let said = SAID.lock().unwrap();
        assert_eq!(said.len(), 13, "{said:?}");
        let line = "WARN test: peer=hB path=p1u1 GOOD->ASSUMED_BAD reason=reordering qp=0x4f1201";
        assert!(said[0].ends_with(line) && said[0].as_bytes()[10] == b'T', "{said:?}");
        assert!(said[9].ends_with("(more like this one are not shown for 10 s)"), "{said:?}");
        assert!(said[10].ends_with("INFO test: peer=? path=p1u1 ASSUMED_BAD->GOOD reason=told qp=0x7"), "{said:?}");
        let ended = "INFO test: peer=hB qp=0x7 RTS->ERROR reason=\"moved to ERROR by the application\"";
        assert!(said[11].ends_with(ended) && said[12].contains("WARN test: peer=hB qp=0x7 RTS->ERROR"), "{said:?}");
        assert_eq!(counters(&Stats::default()), "");
    }
}
