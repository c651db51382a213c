//! The clock of a run: slices of virtual time, samples, and the watchdog.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Instant as Wall;

use mrc_core::Instant;

use super::bad_path::BadLinks;
use super::load::Loads;
use super::results::{LossCounts, PathSample, QueueSample, Results, RunEnd, Timeline};
use super::{Outcome, RunError, limit, nanos, summary};
use crate::fabric::{LinkId, Parts, Sim, Tap, Tier, TierQueue};
use crate::host::{Transport, TransportCounters};
use crate::scenario::{Built, UntilKey, no_link};
use crate::workload::{Exchange, Tally};

/// Samples of a time line at most; a longer run keeps every second one and goes on at half the pace. An odd number: the last
/// one stays, so that those that follow are as far apart as all others, and nothing that was sent in between is left out.
pub(super) const MOST_SAMPLES: usize = 999;
const _: () = assert!(MOST_SAMPLES % 2 == 1);
/// Most queue pairs whose paths are counted for each sample.
const MOST_PATHS: usize = 4096;
/// Events between two looks at the clock and at the signs of life.
const SLICE_EVENTS: u64 = 2_000_000;
/// Events without a byte placed after which a run is livelocked, whatever its virtual time.
const STALL_EVENTS: u64 = 400_000_000;

/// What the caller wants beside the results.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Changes that were made on the command line, for the record.
    pub set: Vec<String>,
    /// Program, version and commit, for the record.
    pub program: String,
    /// The command line, for the record.
    pub command: String,
    /// List every message.
    pub messages: bool,
    /// List every link in every sample.
    pub links: bool,
    /// Capture this link, by name.
    pub capture: Option<String>,
    /// Packets to capture at most, from the start.
    pub capture_packets: usize,
    /// Threads at most, for the parts of a fabric (`partitions` of the scenario); 0 counts as 1. Results do not depend on it.
    pub threads: usize,
    /// Ends the run when somebody sets it, within some million events: what happened so far becomes the results.
    pub stop: Option<Arc<AtomicBool>>,
    /// Sends the results so far when somebody sets the flag, within some million events, and takes it back.
    pub so_far: Option<(Arc<AtomicBool>, Sender<Box<Results>>)>,
}

/// Where a run is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// Virtual microseconds.
    pub at_us: f64,
    /// Messages completed or failed.
    pub done: u64,
    /// Messages.
    pub messages: u64,
    /// Bytes placed.
    pub placed_bytes: u64,
    /// Bytes of all messages.
    pub bytes: u64,
    /// Events processed.
    pub events: u64,
    /// Packets sent by switch ports.
    pub switch_hops: u64,
}

/// Counters of all hosts together.
pub(super) fn counters<T: Transport>(sim: &Parts<T>) -> TransportCounters {
    let mut sum = TransportCounters::default();
    for host in 0..sim.topology().hosts() {
        sum.add(&sim.host(host).counters());
    }
    sum
}

struct Watch {
    placed: u64,
    completed: u32,
    at: Instant,
    events: u64,
}

pub(super) fn drive<T: Transport + Send>(
    mut sim: Parts<T>,
    built: &Built,
    options: &Options,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Outcome, RunError> {
    built.links.iter().for_each(|&(link, spec)| sim.set_link(link, spec));
    if let Some(receive) = built.receive {
        sim.set_receive(receive);
    }
    built.faults.iter().for_each(|&(at, fault)| sim.schedule(at, fault));
    if let Some(name) = &options.capture {
        attach(&mut sim, name, options.capture_packets)?;
    }
    let stall_ns = built.stall_ns;
    let (end, bytes) = (limit(built), built.plan.bytes());
    let messages = built.plan.messages.iter().filter(|message| !message.is_compute()).count() as u64;
    let mut sampler = Sampler::new(&sim, built, options.links);
    let mut watch = Watch { placed: 0, completed: 0, at: Instant::ZERO, events: 0 };
    let (wall, cpu) = (Wall::now(), summary::cpu_seconds());
    sampler.sample(&sim, false);
    sampler.go_on(&sim);
    let (ended, why) = loop {
        let until = end.min(sampler.next);
        let reached = sim.run_events(until, SLICE_EVENTS);
        let tally = Tally::sum(sim.sims().iter().map(|part| part.world().tally()));
        progress(&Progress {
            at_us: sim.now().as_nanos() as f64 / 1e3,
            done: u64::from(tally.completed) + u64::from(tally.failed),
            messages,
            placed_bytes: tally.placed_bytes,
            bytes,
            events: sim.counters().events,
            switch_hops: sim.counters().switch_hops,
        });
        if let Some((flag, results)) = &options.so_far
            && flag.swap(false, Ordering::Relaxed)
        {
            let times = (summary::cpu_seconds() - cpu, wall.elapsed().as_secs_f64());
            let so_far = with_exchange(&sim, |exchange| {
                summary::results((&sim, exchange), built, options, sampler.timeline.clone(), times)
            });
            // Nobody listens any more: nobody wants them.
            let _ = results.send(Box::new(Results { ended: RunEnd::Interrupted, ..so_far }));
        }
        if tally.done() == built.plan.messages.len() as u64 {
            break (if tally.failed == 0 { RunEnd::Completed } else { RunEnd::Failed }, None);
        }
        let next_start = sim.sims().iter().filter_map(|part| part.world().next_start()).min();
        // What waits for a failed message never starts: the results say which failed and why.
        let in_vain = tally.failed > 0 && (sim.is_quiet() || tally.under_way == 0 && next_start.is_none());
        let unfinished = |ended, why| if in_vain { (RunEnd::Failed, None) } else { (ended, Some(why)) };
        if sim.now() >= end {
            let why = format!("limit_us = {} ended the run", end.as_nanos() as f64 / 1e3);
            let planned = built.scenario.until == UntilKey::Limit;
            break if planned { (RunEnd::Planned, None) } else { unfinished(RunEnd::Limit, why) };
        }
        if options.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            break (RunEnd::Interrupted, None);
        }
        let (placed, completed) = (tally.placed_bytes, tally.completed);
        if placed != watch.placed || completed != watch.completed {
            watch = Watch { placed, completed, at: sim.now(), events: sim.counters().events };
        }
        if sim.is_quiet() {
            break unfinished(RunEnd::Stalled, "nothing is left that could happen".to_owned());
        }
        if tally.under_way == 0 && next_start.is_some_and(|at| at > sim.now().as_nanos()) {
            // Everybody computes: no stall.
            watch.at = sim.now();
        }
        if sim.now().since(watch.at) > stall_ns {
            break unfinished(RunEnd::Stalled, format!("no byte arrived for {} us (stall_us)", stall_ns / 1000));
        }
        if sim.counters().events - watch.events > STALL_EVENTS {
            break unfinished(RunEnd::Stalled, format!("no byte arrived during {STALL_EVENTS} events"));
        }
        if reached && sim.now() >= sampler.next {
            sampler.sample(&sim, false);
            sampler.go_on(&sim);
        }
    };
    sampler.sample(&sim, true);
    let times = (summary::cpu_seconds() - cpu, wall.elapsed().as_secs_f64());
    let bad_path = sampler.bad.as_ref().and_then(BadLinks::result);
    let (links, loads) = sampler.loads.finish(&sim);
    sampler.timeline.links = loads;
    let (results, messages) = with_exchange(&sim, |exchange| {
        let mut results = summary::results((&sim, exchange), built, options, sampler.timeline, times);
        results.ended = ended;
        results.bad_path = bad_path;
        results.diagnosis = why.map(|why| summary::diagnosis((&sim, exchange), &why));
        let rows = || summary::message_rows((&sim, exchange), built);
        (results, if options.messages { rows() } else { Vec::new() })
    });
    let capture = sim.captured().into_iter().take(options.capture_packets).collect();
    let paths = (0..sim.topology().hosts()).flat_map(|host| sim.host(host).path_table()).collect();
    Ok(Outcome { results, capture, messages, links, paths })
}

/// What became of all messages, put together where the fabric is divided.
fn with_exchange<T: Transport, R>(sim: &Parts<T>, act: impl FnOnce(&Exchange) -> R) -> R {
    let parts: Vec<&Exchange> = sim.sims().iter().map(Sim::world).collect();
    match parts[..] {
        [whole] => act(whole),
        _ => act(&Exchange::merged(&parts)),
    }
}

fn attach<T: Transport>(sim: &mut Parts<T>, name: &str, packets: usize) -> Result<(), RunError> {
    let topology = sim.topology();
    let link = (0..topology.links()).map(LinkId).find(|&link| topology.link_name(link) == name);
    let link = link.ok_or_else(|| RunError::Capture(no_link(topology, name)))?;
    // One end sees both directions once each.
    let port = link.upper();
    sim.attach_tap(&Tap::around(Instant::ZERO, 0, packets), &[port]);
    Ok(())
}

struct Sampler {
    timeline: Timeline,
    loads: Loads,
    step_ns: u64,
    next: Instant,
    paths: bool,
    three_tiers: bool,
    bad: Option<BadLinks>,
}

impl Sampler {
    fn new<T: Transport>(sim: &Parts<T>, built: &Built, links: bool) -> Self {
        let step_ns = nanos(built.scenario.sample_us.unwrap_or(built.scenario.bin_us));
        let ends = built.pairs.iter().map(|pair| 2 * pair.connections as usize).sum::<usize>();
        let paths = ends <= MOST_PATHS;
        let timeline = Timeline { bin_us: built.scenario.bin_us, ..Timeline::default() };
        let three_tiers =
            (0..built.topology.links()).any(|link| built.topology.tier(LinkId(link).lower()) == Tier::T1Up);
        let loads = Loads::new(sim, links);
        Self { timeline, loads, step_ns, next: Instant::ZERO, paths, three_tiers, bad: BadLinks::of(built) }
    }

    fn sample<T: Transport>(&mut self, sim: &Parts<T>, last: bool) {
        let queue = |tier| {
            let TierQueue { ports, total_bytes, max_bytes } = sim.tier_queue(tier);
            QueueSample { mean_bytes: total_bytes / u64::from(ports.max(1)), max_bytes }
        };
        let line = &mut self.timeline;
        line.at_us.push(sim.now().as_nanos() as f64 / 1e3);
        line.queue_t0_up.push(queue(Tier::T0Up));
        line.queue_t1_down.push(queue(Tier::T1Down));
        if self.three_tiers {
            line.queue_t1_up.push(queue(Tier::T1Up));
            line.queue_t2_down.push(queue(Tier::T2Down));
        }
        line.queue_t0_down.push(queue(Tier::T0Down));
        let mut paths = PathSample::default();
        if self.paths {
            for host in 0..sim.topology().hosts() {
                let counts = sim.host(host).paths();
                paths.good += counts.good;
                paths.skip += counts.skip;
                paths.assumed_bad += counts.assumed_bad;
            }
        }
        line.paths.push(paths);
        let sum = counters(sim);
        line.losses.push(LossCounts { inferred: sum.lost_inferred, nack: sum.lost_nack, timeout: sum.lost_timeout });
        let (drops, trims, marks) = summary::fabric_counts(sim);
        line.drops.push(drops.total());
        line.trims.push(trims);
        line.marks.push(marks);
        self.bad.iter_mut().for_each(|bad| bad.sample(sim));
        self.loads.sample(sim, last);
    }

    /// Makes room for more samples, and says when the next one is due.
    fn go_on<T: Transport>(&mut self, sim: &Parts<T>) {
        if self.timeline.at_us.len() >= MOST_SAMPLES {
            self.thin_out();
        }
        self.next = sim.now().after(self.step_ns);
    }

    /// Keeps every second sample.
    fn thin_out(&mut self) {
        fn half<T>(list: &mut Vec<T>) {
            let mut nth = 0;
            list.retain(|_| {
                nth += 1;
                nth % 2 == 1
            });
        }
        let line = &mut self.timeline;
        half(&mut line.at_us);
        half(&mut line.queue_t0_up);
        half(&mut line.queue_t1_down);
        half(&mut line.queue_t1_up);
        half(&mut line.queue_t2_down);
        half(&mut line.queue_t0_down);
        half(&mut line.paths);
        half(&mut line.losses);
        half(&mut line.drops);
        half(&mut line.trims);
        half(&mut line.marks);
        self.loads.thin_out();
        self.step_ns *= 2;
    }
}
