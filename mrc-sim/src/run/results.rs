//! The results of a run as data: what `--json` writes and reports read. Field names are the interface.

use serde::{Deserialize, Serialize};

use crate::workload::Load;

/// Mean and quantiles of a set of numbers that is not empty.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Distribution {
    /// Mean.
    pub mean: f64,
    /// Half are at most this.
    pub p50: f64,
    /// 9 of 10 are at most this.
    #[serde(default)]
    pub p90: f64,
    /// 99 of 100 are at most this.
    pub p99: f64,
    /// 999 of 1000 are at most this.
    #[serde(default)]
    pub p999: f64,
    /// Largest.
    pub max: f64,
}

impl Distribution {
    /// Of `values`, which are sorted on the way; `None` when there are none. Quantiles are values of the set (nearest rank).
    pub fn of(values: &mut [f64]) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        let max = *values.last()?;
        let rank = |thousandths: usize| values[(values.len() * thousandths).div_ceil(1000).max(1) - 1];
        let mean = values.iter().fold(0.0, |sum, value| sum + value) / values.len() as f64;
        Some(Self { mean, p50: rank(500), p90: rank(900), p99: rank(990), p999: rank(999), max })
    }
}

/// What ended a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunEnd {
    /// Every message completed.
    Completed,
    /// Messages failed, and every other one completed or waits for one that failed.
    Failed,
    /// `limit_us`, as the scenario means it (`until = "limit"`).
    Planned,
    /// `limit_us`, with messages that had neither completed nor failed.
    #[default]
    Limit,
    /// No byte arrived for `stall_us`, or nothing was left that could happen, while messages waited.
    Stalled,
    /// Somebody from outside.
    Interrupted,
}

/// Packets of one class. What hosts sent, or what trimming moved there, is delivered, dropped, moved on or in the fabric:
/// `sent + trimmed_in == delivered + consumed + dropped + trimmed_out + in_fabric`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ClassCounts {
    /// Sent by hosts, and by switch schemes.
    pub sent: u64,
    /// Came from the other class by trimming.
    pub trimmed_in: u64,
    /// Reached a host, with right or wrong bits.
    pub delivered: u64,
    /// Reached the switch that they were meant for.
    #[serde(default)]
    pub consumed: u64,
    /// Dropped by switches or lost on links.
    pub dropped: u64,
    /// Went to the other class by trimming.
    pub trimmed_out: u64,
    /// In queues and on links at the end.
    pub in_fabric: u64,
}

/// Packets by class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PacketCounts {
    /// Data class: payload, and probes that travel with it.
    pub data: ClassCounts,
    /// Control class: acknowledgements, trimmed packets, some probes.
    pub control: ClassCounts,
}

/// Packets that no one received, by what took them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DropCounts {
    /// The data class was full.
    pub queue_full: u64,
    /// The control class was full.
    pub control_full: u64,
    /// Trimmed, and the control class was full.
    pub trimmed: u64,
    /// Before or on a link that was cut.
    pub link_down: u64,
    /// On a link that loses packets.
    pub random: u64,
    /// A silent switch, or one without a route.
    pub switch: u64,
    /// The receive buffer of a host was full.
    #[serde(default)]
    pub host_full: u64,
    /// Delivered with wrong bits: the receiver's ICRC check discarded it.
    #[serde(default)]
    pub corrupt: u64,
}

impl DropCounts {
    /// All together.
    pub fn total(&self) -> u64 {
        let queues = self.queue_full + self.control_full + self.trimmed;
        queues + self.link_down + self.random + self.switch + self.host_full + self.corrupt
    }
}

/// Retransmissions by how the loss was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LossCounts {
    /// Later packets arrived.
    pub inferred: u64,
    /// The receiver or a switch said so (trimming).
    pub nack: u64,
    /// A timer.
    pub timeout: u64,
}

/// One repetition of a collective or one training step.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct IterationReport {
    /// From the last iteration's end (or 0) to the last byte's arrival, computation included, in microseconds.
    pub us: f64,
    /// Bus bandwidth of this one, in Gb/s.
    pub bus_gbit_per_s: f64,
}

/// A workload of the scenario.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct GroupReport {
    /// Name.
    pub name: String,
    /// Whether the figures of the whole run leave it out: what begins in a warm-up or a cool-down.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub set_aside: bool,
    /// The load of a random process: what was asked, and what its draws offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
    /// Messages.
    pub flows: u64,
    /// Messages completed.
    pub completed: u64,
    /// Completion times, from release to the acknowledgement of the last byte at the sender, in microseconds. `None` (null)
    /// unless every message completed: the times of those that did say nothing about the others.
    pub fct_us: Option<Distribution>,
    /// The same of the messages that completed; `None` when none did.
    #[serde(default)]
    pub completed_fct_us: Option<Distribution>,
    /// Completion times over those on an idle fabric; `None` unless every message completed.
    pub slowdown: Option<Distribution>,
    /// The same of the messages that completed; `None` when none did.
    #[serde(default)]
    pub completed_slowdown: Option<Distribution>,
    /// Bytes over the time from the first release to the last arrival.
    pub goodput_gbit_per_s: f64,
    /// Fairness among the pairs of hosts, by their mean rates; 1 is equal shares.
    pub jain: f64,
    /// Mean rate of each pair of hosts, from its first release to its last arrival, in Gb/s; at most 4096 of them.
    pub pair_gbit_per_s: Vec<f64>,
    /// Collectives: bytes that one rank sends in all whole iterations over the time they took without computation, in
    /// Gb/s, which is what benchmarks report as bus bandwidth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus_gbit_per_s: Option<f64>,
    /// Iterations, for collectives.
    pub iterations: Vec<IterationReport>,
    /// 200 quantiles of the completion times, for a CDF: the 0.5th, 1st, ... 100th percentile.
    pub fct_cdf_us: Vec<f64>,
    /// The messages that took longest, at most 8, slowest first: where to look with a capture.
    #[serde(default)]
    pub slowest: Vec<MessageReport>,
    /// Its messages by size (`size_bins`); empty where all are in one bin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_size: Vec<SizeBin>,
}

/// The messages of a group up to a size, and above that of the bin before.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct SizeBin {
    /// Largest size, in bytes; `None` (null) in the last bin.
    pub up_to_bytes: Option<u32>,
    /// Messages.
    pub flows: u64,
    /// Messages completed.
    pub completed: u64,
    /// Their completion times, in microseconds; `None` when none did.
    pub completed_fct_us: Option<Distribution>,
    /// The same over those on an idle fabric.
    pub completed_slowdown: Option<Distribution>,
}

/// A message that completed.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct MessageReport {
    /// Sender.
    pub src: u32,
    /// Receiver.
    pub dst: u32,
    /// Bytes.
    pub bytes: u32,
    /// Iteration of its collective, from 0.
    pub iteration: u32,
    /// Its release, in microseconds.
    pub start_us: f64,
    /// From there to the acknowledgement of the last byte at the sender, in microseconds.
    pub fct_us: f64,
}

/// A message that failed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FailureReport {
    /// Sender.
    pub src: u32,
    /// Receiver.
    pub dst: u32,
    /// When, in microseconds.
    pub at_us: f64,
    /// What the transport said.
    pub why: String,
}

/// The queues of one tier at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct QueueSample {
    /// Mean over the ports, in bytes.
    pub mean_bytes: u64,
    /// The fullest port.
    pub max_bytes: u64,
}

/// Paths of all queue pairs at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PathSample {
    /// In use or in reserve.
    pub good: u64,
    /// Skipped for a moment.
    pub skip: u64,
    /// Out of use.
    pub assumed_bad: u64,
}

/// How busy the links of a tier were, one direction.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LinkLoad {
    /// `host-up`, `t0-up`, `t1-up`, `t2-down`, `t1-down` or `t0-down`: who sends, and towards what.
    pub tier: String,
    /// Bytes sent since the sample before, over what the links could have sent, in percent: mean of the links.
    pub mean_percent: Vec<f64>,
    /// The same of the busiest link; of samples that were joined, the mean of their busiest links.
    pub max_percent: Vec<f64>,
}

/// One direction of a link in one sample, for tables with a row for each.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LinkRow {
    /// End of the sample, in microseconds.
    pub at_us: f64,
    /// Name of the link.
    pub link: String,
    /// Whether it is the direction away from hosts.
    pub upwards: bool,
    /// Bytes sent since the sample before, in percent of what the link could have sent.
    pub percent: f64,
    /// Bytes that wait at the end of the sample.
    pub queued_bytes: u32,
}

/// What changed over time. All lists but `goodput_gbit_per_s` have one entry per element of `at_us`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Timeline {
    /// Width of a bin of `goodput_gbit_per_s`, in microseconds.
    pub bin_us: f64,
    /// By group: bytes placed in each bin, as a rate.
    pub goodput_gbit_per_s: Vec<Vec<f64>>,
    /// When samples were taken, in microseconds.
    pub at_us: Vec<f64>,
    /// Queues of T0 ports towards T1.
    pub queue_t0_up: Vec<QueueSample>,
    /// Queues of T1 ports towards T0.
    pub queue_t1_down: Vec<QueueSample>,
    /// Queues of T1 ports towards T2, or to switches as far from hosts; empty where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue_t1_up: Vec<QueueSample>,
    /// Queues of T2 ports; empty where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue_t2_down: Vec<QueueSample>,
    /// Queues of T0 ports towards hosts.
    pub queue_t0_down: Vec<QueueSample>,
    /// How busy links were since the sample before, by tier.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkLoad>,
    /// Paths by state.
    pub paths: Vec<PathSample>,
    /// Losses found so far, by cause.
    pub losses: Vec<LossCounts>,
    /// Packets lost so far.
    pub drops: Vec<u64>,
    /// Packets trimmed so far.
    pub trims: Vec<u64>,
    /// Marks set so far; a packet has one for each queue that marks it.
    pub marks: Vec<u64>,
}

/// A run whose fabric was divided among event queues.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct PartsReport {
    /// Parts (`partitions` of the scenario, or its default).
    pub parts: u32,
    /// Threads that shared them.
    pub threads: u32,
    /// Length of a window, in microseconds: the shortest delay of a link between two parts.
    pub lookahead_us: f64,
    /// Windows, after each of which the parts waited for each other.
    pub windows: u64,
    /// Events of all parts over those of the busiest in each window, and the number of parts: times `parts` it is the most
    /// that as many threads could gain.
    pub balance: f64,
}

/// A message, for tables with a row for each.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MessageRow {
    /// Its number, from 0.
    pub id: u32,
    /// Name of its workload.
    pub workload: String,
    /// Sender.
    pub src: u32,
    /// Receiver.
    pub dst: u32,
    /// Bytes.
    pub bytes: u32,
    /// Iteration of its collective, from 0.
    pub iteration: u32,
    /// Its release, in microseconds; `None` if it never came.
    pub start_us: Option<f64>,
    /// When its last byte reached the receiver.
    pub delivered_us: Option<f64>,
    /// When its sender had the acknowledgement of the last byte.
    pub completed_us: Option<f64>,
    /// From release to that.
    pub fct_us: Option<f64>,
    /// That over the time on an idle fabric.
    pub slowdown: Option<f64>,
    /// Data packets that carried it, retransmissions included.
    pub packets: u32,
    /// Payload sent beyond its bytes: retransmissions.
    pub retransmitted_bytes: u64,
    /// Ports of the sender that its packets left by.
    pub ports: u32,
    /// Bytes that did not reach the receiver.
    pub missing_bytes: u32,
    /// Whether its transport gave it up.
    pub failed: bool,
}

/// What a run cost beside its payload.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Overhead {
    /// Headers of data packets, in percent of their payload.
    pub header_percent: f64,
    /// Control packets of hosts and switches, probes among them, in percent of the payload: bytes on the wire.
    pub control_percent: f64,
    /// Probes of hosts, of peers and of paths, per thousand data packets.
    pub probes_permille: f64,
    /// Messages that switches of one scheme exchanged, per thousand data packets.
    pub switch_messages_permille: f64,
    /// Bytes that a queue pair keeps about its paths.
    pub queue_pair_bytes: u64,
    /// Bytes of the tables of the switch whose scheme kept most at the end.
    pub switch_bytes: u64,
}

/// How data avoided the links that faults struck, from the first fault to the end of the last one.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct BadPath {
    /// Data that switches offered to these links, in percent of their even share among the links of their tiers.
    pub share_percent: f64,
    /// When their share fell below a tenth of that for good, in microseconds after the first fault; `None` (null) when it
    /// never did, that is, not before the last tenth of the time.
    pub leave_us: Option<f64>,
}

/// Everything a run leaves behind as data. Equal scenarios and seeds give equal values, but for `cpu_seconds`,
/// `wall_seconds`, `peak_rss_mb` and the threads in `parts`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    /// Name of the scenario.
    pub scenario: String,
    /// What it shows.
    pub about: String,
    /// Changes made on the command line.
    pub set: Vec<String>,
    /// The scenario as it was run, preset and changes included: a TOML file that gives the same run.
    #[serde(default)]
    pub resolved: String,
    /// Folder that the files it names are relative to.
    #[serde(default)]
    pub folder: String,
    /// Program, version and commit.
    #[serde(default)]
    pub program: String,
    /// The command line.
    #[serde(default)]
    pub command: String,
    /// Transport.
    pub transport: String,
    /// Seed.
    pub seed: u64,
    /// Hosts of the fabric.
    pub hosts: u32,
    /// Planes of the fabric.
    pub planes: u8,
    /// Whether every message completed.
    pub finished: bool,
    /// What ended the run.
    #[serde(default)]
    pub ended: RunEnd,
    /// Why messages did not complete, for those that neither completed nor failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<String>,
    /// End of the run in virtual microseconds: the last event that mattered, computations included, or the limit.
    pub end_us: f64,
    /// Messages.
    pub flows: u64,
    /// Messages completed.
    pub completed: u64,
    /// Messages given up by their transport.
    pub failed: u64,
    /// Completion times of all messages, in microseconds; `None` (null) unless every message completed.
    pub fct_us: Option<Distribution>,
    /// The same of the messages that completed; `None` when none did.
    #[serde(default)]
    pub completed_fct_us: Option<Distribution>,
    /// Completion times over those on an idle fabric; `None` unless every message completed.
    pub slowdown: Option<Distribution>,
    /// The same of the messages that completed; `None` when none did.
    #[serde(default)]
    pub completed_slowdown: Option<Distribution>,
    /// Bytes placed over the time from the first release to the last arrival.
    pub goodput_gbit_per_s: f64,
    /// Data packets retransmitted, in percent of those sent for the first time.
    pub retransmitted_percent: f64,
    /// Data packets sent for the first time.
    pub data_packets: u64,
    /// Data packets retransmitted.
    pub retransmitted_packets: u64,
    /// SACKs, ACKs, NACKs, NAKs and CNPs sent by hosts; probes are not among them.
    pub control_packets: u64,
    /// Packets trimmed.
    pub trims: u64,
    /// Marks set; a packet has one for each queue that marks it.
    pub marks: u64,
    /// Pauses told to a port.
    pub pauses: u64,
    /// Packets lost in the fabric, or discarded by receivers because the fabric changed their bits.
    pub drops: u64,
    /// The same by cause.
    pub drops_by_cause: DropCounts,
    /// Those of them in the control class, trimmed packets among them; corrupt ones are not told apart.
    #[serde(default)]
    pub control_drops: u64,
    /// Packets by class: nothing disappears.
    #[serde(default)]
    pub packets: PacketCounts,
    /// Losses by how they were found.
    pub losses_by_cause: LossCounts,
    /// Paths taken out of use.
    pub paths_retired: u64,
    /// Paths that came back.
    pub paths_restored: u64,
    /// Payloads that arrived in a wrong place or twice; anything but 0 is an error of the transport.
    pub misplaced: u64,
    /// Packets sent by switch ports.
    pub switch_packet_hops: u64,
    /// Events processed.
    pub events: u64,
    /// Processor time of the run, without its set-up.
    pub cpu_seconds: f64,
    /// Real time of the run, without its set-up.
    pub wall_seconds: f64,
    /// Most memory the process ever held.
    pub peak_rss_mb: f64,
    /// How the fabric was divided; `None` where it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<PartsReport>,
    /// Fingerprint of what happened, in hexadecimal: times and missing bytes of every message, packets by class, drops by
    /// cause, marks, and what transports counted.
    pub digest: String,
    /// Fingerprint of every transmission and delivery.
    pub fabric_digest: String,
    /// Data packets that reached their host after one that was sent later on the same queue pair; of datagrams, which have none, after one
    /// of the same message.
    #[serde(default)]
    pub reordered_packets: u64,
    /// Changes of path of queue pairs that keep to one path.
    #[serde(default)]
    pub path_switches: u64,
    /// With `connections = "per-message"`: messages that waited because all connections of their pair, or all queue pairs of
    /// their host, were taken, and packets that found no queue pair at their receiver (`transport.expected_slowdown`).
    #[serde(default)]
    pub crowded_messages: u64,
    /// What it cost beside the payload.
    #[serde(default)]
    pub overhead: Overhead,
    /// How data avoided faulty links between switches; `None` without such faults, or without data while they lasted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bad_path: Option<BadPath>,
    /// Largest queue of any port, in bytes.
    pub peak_queue_bytes: u64,
    /// By workload.
    pub groups: Vec<GroupReport>,
    /// The first messages that failed.
    pub failures: Vec<FailureReport>,
    /// Over time.
    pub timeline: Timeline,
}

impl Results {
    /// What to tell a reader who asked for a connection for each message, where there were too few.
    pub fn crowded(&self) -> Option<String> {
        let count = self.crowded_messages;
        let text = "times all connections were taken: give a greater transport.expected_slowdown for more of them";
        (count > 0).then(|| format!("{count} {text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_of_the_set() {
        let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let want = Distribution { mean: 50.5, p50: 50.0, p90: 90.0, p99: 99.0, p999: 100.0, max: 100.0 };
        assert_eq!(Distribution::of(&mut values), Some(want));
        assert_eq!(Distribution::of(&mut []), None, "no value is not 0");
        assert_eq!(Distribution::of(&mut [3.0]).unwrap().p99, 3.0);
    }
}
