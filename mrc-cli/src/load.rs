//! Writes as fast as allowed for a while, and notes over time how much arrived and which paths it took.

mod book;
mod in_flight;

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::bail;
use mrc_afxdp::device::DeviceEvent;
use mrc_core::{ErrorCause, Event};
use mrc_verbs_shim::control::{PathRow, path_tables};
use mrc_verbs_shim::{Completion, QpAddress, Status, WriteWr};
use serde::Serialize;

use self::book::Book;
use self::in_flight::InFlight;
use crate::content::Content;
use crate::handshake::{Control, Peer};
use crate::interrupt::Interrupt;
use crate::selector::Paths;
use crate::session::Session;
use crate::silent::{SilentPath, UnsteadyPath};

/// Time that messages in flight have to complete when the time of a run is over.
const DRAIN: Duration = Duration::from_secs(2);
/// How often the connection to the peer's program is looked at.
const GLANCE: Duration = Duration::from_millis(100);

/// How much to write, and how.
#[derive(Debug, Clone, Copy)]
pub struct Goal {
    /// Bytes per message.
    pub size: u32,
    /// Messages in flight per queue pair.
    pub depth: u16,
    /// Messages to write.
    pub messages: u64,
    /// Time to write for.
    pub duration: Option<Duration>,
    /// Offered load of all queue pairs together; as much as fits without.
    pub bits_per_second: Option<u64>,
    /// Round trip without load.
    pub base_rtt: Duration,
    /// Distance of samples.
    pub interval: Option<Duration>,
}

/// What happened since the sample before.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// Its end, since the beginning of the run.
    pub ms: f64,
    /// Goodput.
    pub gbit_per_s: f64,
    /// Payload bytes sent on each path, retransmissions included.
    pub path_bytes: Vec<u64>,
}

/// A selector begins to probe alternatives.
#[derive(Debug, Clone, Serialize)]
pub struct Probe {
    /// When, since the beginning of the run.
    pub ms: f64,
    /// The path in use.
    pub path: String,
    /// Its round trip.
    pub rtt_us: f64,
}

/// A single-path selector moves.
#[derive(Debug, Clone, Serialize)]
pub struct Switch {
    /// When, since the beginning of the run.
    pub ms: f64,
    /// Path left.
    pub from: String,
    /// Path taken.
    pub to: String,
    /// Time since the first probe of alternatives to `from`, if there was one. Probes more than ten base RTTs apart do
    /// not belong together.
    pub after_probe_ms: Option<f64>,
}

/// One run.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// Selector.
    pub selector: &'static str,
    /// Bytes of completed messages.
    pub bytes: u64,
    /// Completed messages.
    pub messages: u64,
    /// How long it took.
    pub seconds: f64,
    /// Goodput.
    pub gbit_per_s: f64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// Payload bytes sent on each path, retransmissions included.
    pub path_bytes: Vec<u64>,
    /// Times that alternatives were probed.
    pub path_probes: u64,
    /// Times that a single-path selector moved.
    pub path_switches: u64,
    /// The first probes.
    pub probes: Vec<Probe>,
    /// The first switches.
    pub switches: Vec<Switch>,
    /// Over time.
    pub samples: Vec<Sample>,
    /// Paths by queue pair number, where the selector keeps a load of each: as it had them at the end.
    pub path_table: Vec<(u32, Vec<PathRow>)>,
    /// Paths that were retired and did not answer again before the end.
    pub silent_paths: Vec<SilentPath>,
    /// Paths that were retired again and again.
    pub unsteady_paths: Vec<UnsteadyPath>,
    /// Why it ended early.
    pub error: Option<String>,
}

/// Queue pairs that are connected to a peer's memory.
pub struct Load<'a> {
    /// This side.
    pub session: &'a mut Session,
    /// The connection to the peer's program, which says at once that it is gone.
    pub control: &'a mut Control,
    /// The peer's QPs.
    pub remotes: &'a [QpAddress],
    /// All paths.
    pub paths: &'a Paths,
    /// Ends a run before its time.
    pub interrupt: &'a Interrupt,
    /// The pattern of messages, if the peer is to check them.
    pub content: Option<Content>,
    /// Messages posted on each queue pair.
    pub posted: &'a mut [u64],
}

impl std::fmt::Display for Switch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to {} at {:.1} ms", self.from, self.to, self.ms)?;
        self.after_probe_ms.map_or(Ok(()), |ms| write!(f, " ({ms:.1} ms after its first probe)"))
    }
}

impl Load<'_> {
    /// Writes on the queue pairs `qps` until `goal` is reached; `tick` hears the time and the completed messages.
    pub fn run(
        &mut self,
        selector: &'static str,
        qps: Range<usize>,
        goal: &Goal,
        tick: &mut dyn FnMut(Duration, u64),
    ) -> anyhow::Result<Run> {
        // Events of what came before are not of this run.
        while self.session.poll_event().is_some() {}
        let mut book = Book::open(selector, self.session.context.stats()?, self.paths, goal.base_rtt);
        let start = Instant::now();
        let (mut posted, mut done, mut error) = (0u64, 0u64, None);
        let mut in_flight = InFlight::new(qps.clone(), goal.depth);
        let mut next_sample = goal.interval;
        // Moves to now when the user interrupts: what is in flight ends, and the totals are printed.
        let mut limit = goal.duration;
        let mut peer = PeerWatch::default();
        let mut cause = None;
        loop {
            let elapsed = start.elapsed();
            if limit.is_none_or(|limit| elapsed < limit) && self.interrupt.is_set() {
                limit = Some(elapsed);
            }
            let more = error.is_none() && limit.is_none_or(|limit| elapsed < limit);
            if more {
                let allowed = goal.messages.min(goal.offered(elapsed));
                posted += self.post_up_to(allowed - posted.min(allowed), goal.size, &mut in_flight)?;
            }
            let mut idle = true;
            while let Some(completion) = self.session.cq.poll() {
                idle = false;
                in_flight.completed(completion.wr_id as usize);
                match completion.status {
                    Status::Success => done += 1,
                    Status::Flushed => {}
                    status => error = Some(explain(&completion, status)),
                }
            }
            while let Some(event) = self.session.poll_event() {
                cause = cause.or(cause_of(&event));
                book.note(&event, self.paths, elapsed);
            }
            if self.session.cq.is_closed() {
                bail!("the device's progress thread ended");
            }
            tick(elapsed, done);
            if next_sample.is_some_and(|at| elapsed >= at) {
                book.sample(&self.session.context.stats()?, done * u64::from(goal.size), self.paths);
                next_sample = next_sample.zip(goal.interval).map(|(at, step)| at + step);
            }
            if (!more || posted >= goal.messages) && in_flight.total() == 0 {
                break;
            }
            let open = in_flight.total();
            if let Some(why) = peer.look(self.session, self.control, elapsed)? {
                let ports = self.session.without_ports();
                error = Some(format!("{why}; {open} messages did not complete{ports}"));
                break;
            }
            if let Some(why) = limit.and_then(|limit| peer.gives_up(elapsed, limit, open)) {
                error.get_or_insert(why);
                break;
            }
            match (idle, goal.bits_per_second) {
                // With a limit there is time to leave the core to others.
                (true, Some(_)) => std::thread::sleep(Duration::from_micros(100)),
                (true, None) => std::thread::yield_now(),
                _ => {}
            }
        }
        let last = std::iter::from_fn(|| self.session.poll_event()).find_map(|event| cause_of(&event));
        let cause = cause.or(last);
        let error = error.map(|error| cause.map_or(error.clone(), |cause| format!("{error}: {}", cause.text())));
        let own: Vec<u32> = qps.map(|index| self.session.address(index).qpn.value()).collect();
        let mut tables = path_tables(self.session.context.device())?;
        tables.retain(|(qpn, _)| own.contains(qpn));
        let run = book.close(&self.session.context.stats()?, done, start.elapsed(), goal, error, self.paths);
        Ok(Run { path_table: tables, ..run })
    }

    /// Posts up to `most` messages where there is room; how many.
    fn post_up_to(&mut self, most: u64, size: u32, in_flight: &mut InFlight) -> anyhow::Result<u64> {
        let mut posted = 0;
        while posted < most
            && let Some(index) = in_flight.next()
            && self.post(index, size)?
        {
            in_flight.posted();
            posted += 1;
        }
        Ok(posted)
    }

    /// Posts the next message of a queue pair; whether there was room.
    fn post(&mut self, index: usize, size: u32) -> anyhow::Result<bool> {
        let remote = &self.remotes[index];
        let number = self.posted[index];
        let offset = match self.content {
            Some(content) => {
                content.prepare(self.session.mr.memory(), index, number)?;
                content.offset(index, number)
            }
            None => index as u64 * u64::from(size),
        };
        let wr = WriteWr {
            wr_id: index as u64,
            mr: &self.session.mr,
            offset,
            len: size,
            remote_va: remote.va.wrapping_add(offset),
            rkey: remote.rkey,
            signaled: true,
        };
        let posted = self.session.cq.post_write(&self.session.qps[index], &wr);
        self.posted[index] += u64::from(posted);
        Ok(posted)
    }
}

/// Whether the peer is still there: its connection, and the acknowledgements that come.
#[derive(Default)]
struct PeerWatch {
    next_glance: Duration,
    /// Acknowledgements so far, and when there was one more than before.
    answers: u64,
    answered: Duration,
}

impl PeerWatch {
    /// Looks now and then; why the peer does not go on, if so.
    fn look(&mut self, session: &Session, control: &mut Control, elapsed: Duration) -> anyhow::Result<Option<String>> {
        if elapsed < self.next_glance {
            return Ok(None);
        }
        self.next_glance = elapsed + GLANCE;
        let count = |engine: &mut mrc_core::Endpoint<'_>, _| engine.stats().rx_sack + engine.stats().rx_ack;
        let answers = session.context.device().with_engine(count)?;
        if std::mem::replace(&mut self.answers, answers) != answers {
            self.answered = elapsed;
        }
        Ok(match control.glance()? {
            Peer::GaveUp(why) => Some(format!("the server gave up: {why}")),
            Peer::Vanished(why) => Some(format!("peer vanished: {why}")),
            _ => None,
        })
    }

    /// Why a run that should have ended at `limit` waits no longer for the `open` messages in flight. They complete as long as
    /// answers come. Without any, queue pairs fail by themselves, but later than a run of a set time may end.
    fn gives_up(&self, elapsed: Duration, limit: Duration, open: u64) -> Option<String> {
        (elapsed > limit.max(self.answered) + DRAIN).then(|| {
            let silence = (elapsed - self.answered).as_secs();
            format!(
                "{open} messages did not complete, and no answer came for {silence} s: no plane leads to the peer, or the peer is \
                 stopped; see `mrc doctor`, and `mrc lab status` on a lab fabric"
            )
        })
    }
}

/// Why the engine gave up a queue pair, if this event says so.
fn cause_of(event: &DeviceEvent) -> Option<ErrorCause> {
    match *event {
        DeviceEvent::Engine(Event::QpError { cause, .. }) if cause != ErrorCause::Application => Some(cause),
        _ => None,
    }
}

impl Goal {
    /// Messages that the offered load has produced after `elapsed`.
    fn offered(&self, elapsed: Duration) -> u64 {
        self.bits_per_second.map_or(u64::MAX, |rate| {
            let bytes = u128::from(rate) / 8 * elapsed.as_nanos() / 1_000_000_000;
            (bytes / u128::from(self.size)) as u64 + 1
        })
    }
}

/// A failed completion, in words.
fn explain(completion: &Completion, status: Status) -> String {
    let path = completion.last_path.map_or_else(
        || "no packet was sent".to_owned(),
        |(ev, port)| format!("last EV {:#x} on plane {}", ev.0, port.plane()),
    );
    format!(
        "{}: QP {:#08x}, first PSN {}, {path}, {} retries, {}",
        status.text(),
        completion.qp.value(),
        completion.first_psn.value(),
        completion.retries,
        completion.last_heard()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offered_load_grows_with_time() {
        let goal = |bits_per_second| Goal {
            size: 1_000,
            depth: 1,
            messages: 10,
            duration: None,
            bits_per_second,
            base_rtt: Duration::from_millis(1),
            interval: None,
        };
        let limited = goal(Some(8_000_000));
        assert_eq!(limited.offered(Duration::ZERO), 1);
        assert_eq!(limited.offered(Duration::from_millis(10)), 11);
        assert_eq!(goal(None).offered(Duration::ZERO), u64::MAX);
    }
}
