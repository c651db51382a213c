//! From a finished (or stuck) run to its results, or its diagnosis.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write;

use super::drive::{Options, counters};
use super::results::{
    ClassCounts, Distribution, DropCounts, FailureReport, GroupReport, IterationReport, LossCounts, MessageReport,
    MessageRow, Overhead, PacketCounts, PartsReport, Results, RunEnd, SizeBin, Timeline,
};
use crate::fabric::{Parts, PortId};
use crate::host::{Ideal, Transport, TransportCounters, WireBytes};
use crate::scenario::Built;
use crate::workload::{Exchange, Group, Message};

/// Quantiles of a CDF.
const CDF_POINTS: usize = 200;
/// Pairs whose rates are listed.
const MOST_PAIRS: usize = 4096;
/// Slowest messages of a group that are told.
const MOST_SLOWEST: usize = 8;

/// Processor time of this process so far, in seconds.
pub(super) fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Most memory of this process so far, in MB; 0 where the system does not say.
fn peak_rss_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
    kib.unwrap_or(0.0) * 1024.0 / 1e6
}

/// The parts of a divided fabric, and how evenly they worked.
fn parts<T: Transport>(sim: &Parts<T>) -> Option<PartsReport> {
    let (parts, windows) = (sim.sims().len(), sim.windows());
    (parts > 1).then(|| PartsReport {
        parts: parts as u32,
        threads: sim.threads() as u32,
        lookahead_us: sim.partition().lookahead_ns() as f64 / 1e3,
        windows: windows.count,
        balance: windows.events as f64 / (windows.critical.max(1) * parts as u64) as f64,
    })
}

/// Drops, trims and marks of all ports and switches.
pub(super) fn fabric_counts<T: Transport>(sim: &Parts<T>) -> (DropCounts, u64, u64) {
    let (mut drops, mut trims, mut marks) = (DropCounts::default(), 0, 0);
    for id in 0..sim.topology().links() * 2 {
        let port = sim.port_counters(PortId(id));
        drops.queue_full += port.drop_data;
        drops.control_full += port.drop_control;
        drops.trimmed += port.drop_trimmed;
        drops.link_down += port.drop_down + port.lost_in_flight;
        drops.random += port.lost_random;
        trims += port.trims;
        marks += port.ecn_marks;
    }
    for index in 0..sim.topology().switch_count() {
        drops.switch += sim.switch(index as usize).refused.iter().sum::<u64>();
    }
    drops.corrupt = sim.counters().corrupt;
    drops.host_full = sim.counters().host_full;
    (drops, trims, marks)
}

/// Packets of both classes, from what ports, switches and hosts counted.
fn packet_counts<T: Transport>(sim: &Parts<T>, drops: &DropCounts, trims: u64) -> PacketCounts {
    let ports = (0..sim.topology().links() * 2).map(|id| sim.port_counters(PortId(id)));
    let lost: u64 = ports.map(|port| port.drop_control + port.drop_trimmed + port.lost_control).sum();
    let switches = (0..sim.topology().switch_count()).map(|index| sim.switch(index as usize).refused_control);
    let dropped = lost + switches.sum::<u64>() + sim.counters().host_full_control;
    let (all, in_fabric) = (sim.counters(), sim.control_packets_in_fabric() as u64);
    PacketCounts {
        data: ClassCounts {
            sent: all.sent - all.sent_control,
            delivered: all.delivered - all.delivered_control,
            consumed: all.consumed - all.consumed_control,
            dropped: drops.total() - drops.corrupt - dropped,
            trimmed_out: trims,
            in_fabric: sim.packets_in_fabric() as u64 - in_fabric,
            ..ClassCounts::default()
        },
        control: ClassCounts {
            sent: all.sent_control + all.emitted,
            trimmed_in: trims,
            delivered: all.delivered_control,
            consumed: all.consumed_control,
            dropped,
            in_fabric,
            ..ClassCounts::default()
        },
    }
}

/// Why a run does not go on: what waits, and what its transport says of it.
pub(super) fn diagnosis<T: Transport>((sim, exchange): (&Parts<T>, &Exchange), why: &str) -> String {
    let mut text = format!("{why} at {} us", sim.now().as_nanos() as f64 / 1e3);
    let (drops, trims, _) = fabric_counts(sim);
    let sent = messages(exchange).count();
    let (computed, computations) = (exchange.tally().computed, exchange.messages().len() - sent);
    let computed = match computations {
        0 => String::new(),
        _ => format!(", {computed} of {computations} computations ended"),
    };
    let _ = write!(
        text,
        "; {} of {sent} messages completed, {} failed{computed}; {} packets in the fabric, {} lost, {trims} trimmed",
        exchange.completed(),
        exchange.failed(),
        sim.packets_in_fabric(),
        drops.total(),
    );
    let now = sim.now().as_nanos();
    let started = (0..exchange.messages().len() as u32)
        .filter(|&id| begun(exchange, id, now).is_some() && exchange.completed_at(id).is_none());
    for id in started.take(8) {
        let message = exchange.message(id);
        let says = sim.host(message.src).diagnose(id, exchange);
        let missing = exchange.missing(id);
        let (src, dst, bytes) = (message.src, message.dst, message.bytes);
        let _ = write!(text, "\n  message {id}, {src} to {dst}, {missing} of {bytes} bytes missing: {says}");
    }
    for failure in exchange.failures().iter().take(4) {
        let _ = write!(text, "\n  message {} failed at {} us: {}", failure.message, failure.at_ns / 1000, failure.why);
    }
    text
}

/// When a message began; what is to begin after the end of the run has not.
fn begun(exchange: &Exchange, id: u32, end_ns: u64) -> Option<u64> {
    exchange.started(id).filter(|&at| at <= end_ns)
}

/// Everything about a finished run.
pub(super) fn results<T: Transport>(
    (sim, exchange): (&Parts<T>, &Exchange),
    built: &Built,
    options: &Options,
    mut timeline: Timeline,
    (cpu_seconds, wall_seconds): (f64, f64),
) -> Results {
    let scenario = &built.scenario;
    let (drops, trims, marks) = fabric_counts(sim);
    let sum = counters(sim);
    let overhead = overhead(sim, &sum);
    let packets = packet_counts(sim, &drops, trims);
    let ports = || (0..sim.topology().links() * 2).map(|id| sim.port_counters(PortId(id)));
    let idle = Ideal::new(sim.topology(), &built.links);
    // Once for each: groups and sizes ask for them again.
    let ideals: Vec<f64> = (0..)
        .zip(exchange.messages())
        .map(|(id, message)| {
            let counts = !message.is_compute() && exchange.completed_at(id).is_some();
            let ns = || idle.ns((message.src, message.dst), message.bytes, &sizes(sim, message.src));
            if counts { ns() } else { f64::NAN }
        })
        .collect();
    let flows = messages(exchange).count() as u64;
    let now = sim.now().as_nanos();
    let times = Times::of(exchange, messages(exchange), now, &ideals);
    // What loads the fabric before and after is no part of the figures of the whole.
    let measured =
        || messages(exchange).filter(|&id| exchange.groups()[usize::from(exchange.message(id).group)].measured);
    let count = measured().count() as u64;
    let stated = (count < flows).then(|| Times::of(exchange, measured(), now, &ideals));
    let stated = stated.as_ref().unwrap_or(&times);
    let whole = stated.completed == count;
    // A computation behind the last message is part of the run, too.
    let computations = (0..).zip(exchange.messages()).filter(|(_, message)| message.is_compute());
    let computed = computations.filter_map(|(id, _)| exchange.completed_at(id)).max().unwrap_or(0);
    let last_ns = times.last_event.max(exchange.last_failure_ns()).max(computed);
    let end_ns = if exchange.is_done() { last_ns } else { now };
    let bin_ns = exchange.bin_ns() as f64;
    // Where messages wait at the end, that nothing arrived is part of the picture.
    let mut waiting = vec![false; exchange.groups().len()];
    let open = messages(exchange).filter(|&id| begun(exchange, id, now).is_some() && exchange.delivered(id).is_none());
    open.for_each(|id| waiting[usize::from(exchange.message(id).group)] = true);
    let whole_run = end_ns.div_ceil(exchange.bin_ns()) as usize;
    let rate = |group: usize| {
        let bins = exchange.bins(group);
        let count = bins.len().max(if waiting[group] { whole_run } else { 0 });
        bins.iter().chain(std::iter::repeat(&0)).take(count).map(|&bytes| bytes as f64 * 8.0 / bin_ns).collect()
    };
    timeline.goodput_gbit_per_s = (0..exchange.groups().len()).map(rate).collect();
    Results {
        scenario: scenario.name.clone(),
        about: scenario.about.clone(),
        set: options.set.clone(),
        resolved: scenario.resolved(),
        folder: built.folder.display().to_string(),
        program: options.program.clone(),
        command: options.command.clone(),
        transport: built.transport_names(),
        seed: scenario.seed,
        hosts: sim.topology().hosts(),
        planes: sim.topology().planes(),
        finished: u64::from(exchange.completed()) == flows,
        ended: RunEnd::Completed,
        diagnosis: None,
        end_us: end_ns as f64 / 1e3,
        flows,
        completed: exchange.completed().into(),
        failed: exchange.failed().into(),
        goodput_gbit_per_s: times.goodput(exchange.placed_bytes(), end_ns),
        fct_us: stated.fct_us.filter(|_| whole),
        completed_fct_us: stated.fct_us,
        slowdown: stated.slowdown.filter(|_| whole),
        completed_slowdown: stated.slowdown,
        retransmitted_percent: 100.0 * sum.retransmitted as f64 / sum.data.max(1) as f64,
        data_packets: sum.data,
        retransmitted_packets: sum.retransmitted,
        control_packets: sum.control,
        trims,
        marks,
        pauses: ports().map(|port| port.pauses).sum(),
        drops: drops.total(),
        drops_by_cause: drops,
        control_drops: packets.control.dropped,
        packets,
        losses_by_cause: LossCounts { inferred: sum.lost_inferred, nack: sum.lost_nack, timeout: sum.lost_timeout },
        paths_retired: sum.paths_retired,
        paths_restored: sum.paths_restored,
        misplaced: exchange.misplaced(),
        switch_packet_hops: sim.counters().switch_hops,
        events: sim.counters().events,
        cpu_seconds,
        wall_seconds,
        peak_rss_mb: peak_rss_mb(),
        parts: parts(sim),
        digest: format!("{:016x}", digest(exchange, &sum, &packets, &drops, marks)),
        fabric_digest: format!("{:016x}", sim.digest().value()),
        reordered_packets: sim.counters().reordered,
        path_switches: sum.path_switches,
        crowded_messages: sum.crowded,
        overhead,
        bad_path: None,
        peak_queue_bytes: ports().map(|port| port.peak_bytes).max().unwrap_or(0),
        groups: groups(exchange, end_ns, &scenario.size_bins, &ideals),
        failures: failures(exchange),
        timeline,
    }
}

/// What the run cost beside its payload.
fn overhead<T: Transport>(sim: &Parts<T>, sum: &TransportCounters) -> Overhead {
    let all = sim.counters();
    let percent = |bytes: u64| 100.0 * bytes as f64 / all.payload_bytes.max(1) as f64;
    let permille = |packets: u64| 1e3 * packets as f64 / (sum.data + sum.retransmitted).max(1) as f64;
    let of_host = (0..sim.topology().hosts()).map(|host| sim.host(host).path_state_bytes());
    Overhead {
        header_percent: percent(all.data_bytes.saturating_sub(all.payload_bytes)),
        control_percent: percent(all.control_bytes),
        probes_permille: permille(sum.probes + sum.path_probes),
        switch_messages_permille: permille(all.emitted),
        queue_pair_bytes: of_host.max().unwrap_or(0) as u64,
        switch_bytes: sim.scheme_state_bytes() as u64,
    }
}

/// A row for every message.
pub(super) fn message_rows<T: Transport>((sim, exchange): (&Parts<T>, &Exchange), built: &Built) -> Vec<MessageRow> {
    let idle = Ideal::new(sim.topology(), &built.links);
    let us = |ns: u64| ns as f64 / 1e3;
    let row = |id: u32| {
        let &Message { src, dst, bytes, group, iteration, .. } = exchange.message(id);
        let (start, completed) = (begun(exchange, id, sim.now().as_nanos()), exchange.completed_at(id));
        let took = start.zip(completed).map(|(start, end)| end - start);
        let sent = exchange.sent(id);
        MessageRow {
            id,
            workload: exchange.groups()[usize::from(group)].name.clone(),
            src,
            dst,
            bytes,
            iteration,
            start_us: start.map(us),
            delivered_us: exchange.delivered(id).map(us),
            completed_us: completed.map(us),
            fct_us: took.map(us),
            slowdown: took.map(|ns| ns as f64 / idle.ns((src, dst), bytes, &sizes(sim, src))),
            packets: sent.packets,
            retransmitted_bytes: sent.bytes.saturating_sub(bytes.into()),
            ports: sent.ports.len(),
            missing_bytes: exchange.missing(id),
            failed: exchange.has_failed(id),
        }
    };
    messages(exchange).map(row).collect()
}

/// All messages but those that only take time.
fn messages(exchange: &Exchange) -> impl Iterator<Item = u32> + Clone {
    (0..).zip(exchange.messages()).filter(|(_, message)| !message.is_compute()).map(|(id, _)| id)
}

/// FNV-1a over what became of every message, in their order, and over what ports and hosts counted.
fn digest(exchange: &Exchange, sum: &TransportCounters, packets: &PacketCounts, drops: &DropCounts, marks: u64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut mix = |value: u64| {
        for byte in value.to_le_bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    };
    for id in 0..exchange.messages().len() as u32 {
        for time in [exchange.started(id), exchange.delivered(id), exchange.completed_at(id)] {
            mix(time.unwrap_or(u64::MAX));
        }
        mix(u64::from(exchange.missing(id)) << 32 | u64::from(exchange.unacked(id)));
    }
    let TransportCounters { data, retransmitted, lost_inferred, lost_nack, lost_timeout, control, probes, .. } = *sum;
    [data, retransmitted, lost_inferred, lost_nack, lost_timeout, control, probes].into_iter().for_each(&mut mix);
    [sum.paths_retired, sum.paths_restored, sum.qp_errors, marks].into_iter().for_each(&mut mix);
    for class in [&packets.data, &packets.control] {
        let ClassCounts { sent, trimmed_in, delivered, consumed, dropped, trimmed_out, in_fabric } = *class;
        [sent, trimmed_in, delivered, consumed, dropped, trimmed_out, in_fabric].into_iter().for_each(&mut mix);
    }
    let DropCounts { queue_full, control_full, trimmed, link_down, random, switch, host_full, corrupt } = *drops;
    [queue_full, control_full, trimmed, link_down, random, switch, corrupt].into_iter().for_each(&mut mix);
    // Runs without a receive buffer have the fingerprint that they had before there were any.
    (host_full > 0).then_some(host_full).into_iter().for_each(&mut mix);
    hash
}

fn failures(exchange: &Exchange) -> Vec<FailureReport> {
    let report = |failure: &crate::workload::Failure| {
        let message = exchange.message(failure.message);
        let at_us = failure.at_ns as f64 / 1e3;
        FailureReport { src: message.src, dst: message.dst, at_us, why: failure.why.clone() }
    };
    exchange.failures().iter().map(report).collect()
}

/// Times of a set of messages.
struct Times {
    /// Of the messages that completed.
    fct_us: Option<Distribution>,
    cdf: Vec<f64>,
    slowdown: Option<Distribution>,
    completed: u64,
    first_start: u64,
    last_arrival: u64,
    last_event: u64,
    /// Something started and has not arrived: its bytes so far belong to the time up to the end.
    unfinished: bool,
}

impl Times {
    /// `ideals`: the ideal time of each message that completed, in nanoseconds.
    fn of(exchange: &Exchange, ids: impl Iterator<Item = u32> + Clone, end_ns: u64, ideals: &[f64]) -> Self {
        let mut fct = Vec::new();
        let (mut first_start, mut last_arrival, mut last_event, mut unfinished) = (u64::MAX, 0, 0, false);
        for id in ids.clone() {
            let Some(start) = begun(exchange, id, end_ns) else { continue };
            first_start = first_start.min(start);
            match exchange.delivered(id) {
                Some(arrival) => last_arrival = last_arrival.max(arrival),
                None => unfinished = true,
            }
            let Some(end) = exchange.completed_at(id) else { continue };
            last_event = last_event.max(end);
            fct.push((end - start) as f64 / 1e3);
        }
        let completed = fct.len() as u64;
        let fct_us = Distribution::of(&mut fct);
        let at = |nth: usize| fct.get((nth * fct.len()).div_ceil(CDF_POINTS).max(1) - 1).copied();
        let cdf = (1..=CDF_POINTS).filter_map(at).collect();
        // In the same memory: there may be millions of them.
        fct.clear();
        fct.extend(ids.filter_map(|id| {
            let took = exchange.completed_at(id)? - begun(exchange, id, end_ns)?;
            Some(took as f64 / ideals.get(id as usize)?)
        }));
        let slowdown = Distribution::of(&mut fct);
        Self { fct_us, cdf, slowdown, completed, first_start, last_arrival, last_event, unfinished }
    }

    /// `bytes` over the time from the first start to the last arrival, or to `end_ns` if something is still under way.
    fn goodput(&self, bytes: u64, end_ns: u64) -> f64 {
        let end = if self.unfinished { end_ns } else { self.last_arrival };
        bytes as f64 * 8.0 / end.saturating_sub(self.first_start).max(1) as f64
    }
}

fn groups(exchange: &Exchange, end_ns: u64, bins: &[u32], ideals: &[f64]) -> Vec<GroupReport> {
    let mut ids: Vec<Vec<u32>> = vec![Vec::new(); exchange.groups().len()];
    for id in messages(exchange) {
        ids[usize::from(exchange.message(id).group)].push(id);
    }
    let report = |(nth, ids): (usize, Vec<u32>)| {
        let group = &exchange.groups()[nth];
        let times = Times::of(exchange, ids.iter().copied(), end_ns, ideals);
        let ends = iteration_ends(exchange, group, &ids);
        let placed = exchange.bins(nth).iter().sum();
        let (pairs, jain) = pair_rates(exchange, &ids, end_ns);
        GroupReport {
            name: group.name.clone(),
            set_aside: !group.measured,
            load: group.load,
            flows: ids.len() as u64,
            completed: times.completed,
            fct_us: times.fct_us.filter(|_| times.completed == ids.len() as u64),
            completed_fct_us: times.fct_us,
            slowdown: times.slowdown.filter(|_| times.completed == ids.len() as u64),
            completed_slowdown: times.slowdown,
            goodput_gbit_per_s: times.goodput(placed, end_ns),
            jain,
            pair_gbit_per_s: pairs,
            bus_gbit_per_s: ends.last().map(|&end| bus_gbit_per_s(group, ends.len() as u64, end)),
            iterations: iterations(group, &ends),
            fct_cdf_us: times.cdf,
            slowest: slowest(exchange, &ids),
            by_size: by_size(exchange, &ids, end_ns, bins, ideals),
        }
    };
    ids.into_iter().enumerate().map(report).collect()
}

/// The messages of a group by size; nothing where all are in one bin.
fn by_size(exchange: &Exchange, ids: &[u32], end_ns: u64, bins: &[u32], ideals: &[f64]) -> Vec<SizeBin> {
    let mut of_bin: Vec<Vec<u32>> = vec![Vec::new(); bins.len() + 1];
    for &id in ids {
        of_bin[bins.partition_point(|&most| most < exchange.message(id).bytes)].push(id);
    }
    if of_bin.iter().filter(|ids| !ids.is_empty()).count() < 2 {
        return Vec::new();
    }
    let report = |(nth, ids): (usize, &Vec<u32>)| {
        let times = Times::of(exchange, ids.iter().copied(), end_ns, ideals);
        let up_to_bytes = bins.get(nth).copied();
        let (flows, completed) = (ids.len() as u64, times.completed);
        SizeBin { up_to_bytes, flows, completed, completed_fct_us: times.fct_us, completed_slowdown: times.slowdown }
    };
    of_bin.iter().enumerate().filter(|(_, ids)| !ids.is_empty()).map(report).collect()
}

/// Bytes on the wire of a full packet of a host, its payload, and an acknowledgement.
fn sizes<T: Transport>(sim: &Parts<T>, host: u32) -> WireBytes {
    let (packet, payload) = sim.host(host).packet_bytes();
    WireBytes { packet, payload, acknowledgement: sim.host(host).acknowledgement_bytes() }
}

fn slowest(exchange: &Exchange, ids: &[u32]) -> Vec<MessageReport> {
    // The first of equals, so that the choice does not depend on how they are sorted.
    let took = |&id: &u32| Some((Reverse(exchange.completed_at(id)? - exchange.started(id)?), id));
    let report = |(Reverse(ns), id): (Reverse<u64>, u32)| {
        let Message { src, dst, bytes, iteration, .. } = *exchange.message(id);
        let start_us = exchange.started(id).unwrap_or(0) as f64 / 1e3;
        MessageReport { src, dst, bytes, iteration, start_us, fct_us: ns as f64 / 1e3 }
    };
    least(ids.iter().filter_map(took), MOST_SLOWEST).into_iter().map(report).collect()
}

/// The `count` least of all, in order.
fn least<T: Ord>(all: impl Iterator<Item = T>, count: usize) -> Vec<T> {
    let mut kept = BinaryHeap::with_capacity(count + 1);
    for one in all {
        kept.push(one);
        if kept.len() > count {
            kept.pop();
        }
    }
    kept.into_sorted_vec()
}

/// Mean rates of the first pairs of hosts, in the order of senders and receivers, 0 where nothing has begun; and the fairness
/// among all that have.
fn pair_rates(exchange: &Exchange, ids: &[u32], end_ns: u64) -> (Vec<f64>, f64) {
    let mut pairs: Vec<(u32, u32, u32)> = ids
        .iter()
        .map(|&id| {
            let message = exchange.message(id);
            (message.src, message.dst, id)
        })
        .collect();
    pairs.sort_unstable();
    let rate = |pair: &[(u32, u32, u32)]| {
        let (mut start, mut end, mut bytes) = (u64::MAX, 0, 0);
        for &(_, _, id) in pair {
            let Some(began) = begun(exchange, id, end_ns) else { continue };
            start = start.min(began);
            // What is under way counts up to the end of the run.
            end = end.max(exchange.delivered(id).unwrap_or(end_ns));
            bytes += u64::from(exchange.message(id).bytes - exchange.missing(id));
        }
        (start < u64::MAX).then(|| bytes as f64 * 8.0 / end.saturating_sub(start).max(1) as f64)
    };
    let rates = || pairs.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)).map(rate);
    (rates().take(MOST_PAIRS).map(|rate| rate.unwrap_or(0.0)).collect(), jain(rates().flatten()))
}

/// Jain's fairness index; 1 for an empty set.
fn jain(rates: impl Iterator<Item = f64>) -> f64 {
    let (sum, squares, count) =
        rates.fold((0.0, 0.0, 0u32), |(sum, squares, count), rate| (sum + rate, squares + rate * rate, count + 1));
    if squares == 0.0 { 1.0 } else { sum * sum / (squares * f64::from(count)) }
}

/// When the last byte of each iteration arrived, in virtual nanoseconds, up to the first iteration that is not whole.
fn iteration_ends(exchange: &Exchange, group: &Group, ids: &[u32]) -> Vec<u64> {
    if group.bus_bytes == 0 {
        return Vec::new();
    }
    let mut ends = vec![0; group.iterations as usize];
    for &id in ids {
        let end: &mut u64 = &mut ends[exchange.message(id).iteration as usize];
        *end = (*end).max(exchange.delivered(id).unwrap_or(u64::MAX));
    }
    ends.into_iter().take_while(|&end| end != u64::MAX).collect()
}

/// Bus bandwidth of `count` iterations that took `ns` nanoseconds with their computation.
fn bus_gbit_per_s(group: &Group, count: u64, ns: u64) -> f64 {
    let moving = ns.saturating_sub(count * group.compute_ns).max(1);
    (count * group.bus_bytes) as f64 * 8.0 / moving as f64
}

fn iterations(group: &Group, ends: &[u64]) -> Vec<IterationReport> {
    let starts = std::iter::once(&0).chain(ends);
    let spans = starts.zip(ends).map(|(start, end)| end.saturating_sub(*start));
    spans.map(|ns| IterationReport { us: ns as f64 / 1e3, bus_gbit_per_s: bus_gbit_per_s(group, 1, ns) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_are_those_that_sorting_all_would_find() {
        let mut rng = mrc_core::Rng::new(7);
        for len in [0usize, 1, 7, 8, 9, 500] {
            // Few distinct values: most of them are equal, and the number tells them apart.
            let all: Vec<(u32, usize)> = (0..len).map(|nth| (rng.below(5), nth)).collect();
            let mut sorted = all.clone();
            sorted.sort_unstable();
            sorted.truncate(8);
            assert_eq!(least(all.into_iter(), 8), sorted, "{len}");
        }
        assert!(least([1, 2].into_iter(), 0).is_empty());
    }

    #[test]
    fn fairness_of_equal_and_unequal_shares() {
        assert_eq!(jain([5.0, 5.0, 5.0].into_iter()), 1.0);
        assert_eq!(jain([1.0, 0.0].into_iter()), 0.5);
        assert_eq!(jain([].into_iter()), 1.0);
    }
}
