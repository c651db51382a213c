//! Scenario files: what is simulated, as TOML. Owns the keys, their defaults and their errors; what the keys mean to
//! fabric, hosts and workload is in `build`.
//!
//! | table | keys |
//! |---|---|
//! | (top) | `name`, `about`, `preset`, `seed`, `limit_us`, `until`, `bin_us`, `sample_us`, `stall_us`, `size_bins`, `partitions` |
//! | `[topology]` | [`TopologyKeys`] |
//! | `[[link]]` | [`LinkKeys`]: links that differ from their tier |
//! | `[host]` | [`HostKeys`]: time that hosts take for what they receive |
//! | `[queue]` | [`QueueKeys`] |
//! | `[transport]` | `kind`, and its table: [`MrcKeys`], [`RoceKeys`], or `params` |
//! | `[[job]]` | [`JobKeys`]: hosts with a transport of their own, `[job.transport]` |
//! | `[[workload]]` | [`WorkloadKeys`] |
//! | `[[fault]]` | [`FaultKeys`] |

mod build;
mod connections;
mod faults;
mod foreign;
mod job;
mod kind;
mod load;
mod memory;
mod mrc;
mod queue;
mod roce;
mod rtt;
mod schema;
mod sizes;
mod timeline;
mod topology;
mod traffic;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use faults::no_link;

pub use build::{Built, Spoken, TransportSettings};
pub use connections::ConnectionsKey;
pub use job::{JobTransportKey, OwnTransportKeys};
pub use kind::TransportKind;
pub use load::{Problem, ScenarioError, check, check_str, load, load_str, nearest};
pub use mrc::{CcKey, LossActionKey, MrcKeys, SelectorKey};
pub use roce::{RecoveryKey, RoceCcKey, RoceKeys};
pub use schema::{SchemaTable, keys_by_kind, resolve, schema, tables};
pub use sizes::SizesKey;
pub use topology::{EdgeKeys, HostKeys, SchemeKey, Shape, TopologyKeys};

/// The built-in base of settings that `preset = "parity"` names.
const PARITY: &str = include_str!("parity.toml");

/// A scenario file.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// One word.
    pub name: String,
    /// What it shows, in a sentence or two.
    pub about: String,
    /// Settings that stand where the file has none: `mrc` (MRC's own defaults) or `parity` (those of published UEC
    /// simulators).
    pub preset: String,
    /// All randomness of the run.
    pub seed: u64,
    /// The run ends here at the latest, in virtual microseconds.
    pub limit_us: f64,
    /// What the run is meant to end with.
    pub until: UntilKey,
    /// Width of the bins of goodput, in microseconds.
    pub bin_us: f64,
    /// Time between two samples of queues, links, paths and losses; `bin_us` by default. Whatever the run lasts, a thousand
    /// samples are kept at most: then every second one goes, and the time doubles.
    pub sample_us: Option<f64>,
    /// A run in which no byte arrives for this long while messages wait is stopped with a diagnosis; by default twice as
    /// long as the transport takes to give up a queue pair, at least 100000.
    pub stall_us: Option<f64>,
    /// Upper ends of the bins of message sizes in the results, in bytes; larger ones have a bin of their own.
    pub size_bins: Vec<u32>,
    /// Parts with an event queue each, which the threads of a run share; every part is some leaves with their hosts. Results
    /// do not depend on threads, but on this: simultaneous events and random numbers have another order. 1 below 1024
    /// hosts, 8 from there on; one where a link without delay or a message that waits for another part is in the way.
    pub partitions: Option<u32>,
    /// The fabric.
    pub topology: TopologyKeys,
    /// Links that differ.
    pub link: Vec<LinkKeys>,
    /// Time that hosts take.
    pub host: HostKeys,
    /// Every switch port.
    pub queue: QueueKeys,
    /// The hosts.
    pub transport: TransportKeys,
    /// Who sends.
    pub job: Vec<JobKeys>,
    /// What is sent.
    pub workload: Vec<WorkloadKeys>,
    /// What breaks.
    pub fault: Vec<FaultKeys>,
}

impl Scenario {
    /// A TOML file that gives the same run: presets and changes are in it.
    pub fn resolved(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            name: String::new(),
            about: String::new(),
            preset: "mrc".to_owned(),
            seed: 1,
            limit_us: 1_000_000.0,
            until: UntilKey::Completed,
            bin_us: 100.0,
            sample_us: None,
            stall_us: None,
            partitions: None,
            topology: TopologyKeys::default(),
            link: Vec::new(),
            host: HostKeys::default(),
            queue: QueueKeys::default(),
            transport: TransportKeys::default(),
            size_bins: vec![1_000, 10_000, 100_000, 1_000_000, 10_000_000],
            job: Vec::new(),
            workload: Vec::new(),
            fault: Vec::new(),
        }
    }
}

/// Ends of runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum UntilKey {
    /// Every message has completed; what `limit_us` cuts off is an unfinished run.
    #[default]
    Completed,
    /// `limit_us`, with messages under way: a look at a steady state.
    Limit,
}

/// `[[link]]`.
#[derive(Clone, PartialEq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct LinkKeys {
    /// Names of links: `p0-hA` (plane 0, host A), `p1-t0b-t1d`; of a graph `h0-a`.
    pub name: Vec<String>,
    /// Rate, in Gb/s.
    pub gbps: Option<f64>,
    /// Propagation delay.
    pub delay_us: Option<f64>,
}

/// Who is trimmed, see [`crate::TrimVictim`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VictimKey {
    /// The packet that arrives. Flows of equal packets and clocks that meet in one queue then keep their order, so that
    /// one always finds it full and starves: a phase effect that real clocks do not have.
    Arriving,
    /// By a coin, it or the last that waits.
    #[default]
    ArrivingOrLast,
    /// By a coin, it or any that waits.
    ArrivingOrAny,
}

/// `[queue]`. What is left out depends on the transport. MRC: the recommendations for its fabrics, in units of what one
/// plane holds in a round trip (plane BDP). RoCE: what DCQCN 2015 and IRN 2018 published for 40 Gb/s, bytes times the rate
/// of a host's link over 40 Gb/s. Other kinds: as RoCE without PFC.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct QueueKeys {
    /// Bytes of the data class. MRC: 5 plane BDP. RoCE: as many as PFC lets in, without `pfc` 240000 at 40 Gb/s (IRN).
    pub data_bytes: Option<u32>,
    /// Bytes of the control class; as `data_bytes` if given. MRC: 5 plane BDP. RoCE: 240000 at 40 Gb/s.
    pub control_bytes: Option<u32>,
    /// Share of the link, in percent, that control may take while data waits; 0: strict priority. MRC: 25. RoCE: 0.
    pub control_percent: Option<u8>,
    /// Whether switches mark.
    pub ecn: bool,
    /// No mark below. MRC: 0.2 plane BDP. RoCE: 5000 at 40 Gb/s (DCQCN).
    pub ecn_min_bytes: Option<u32>,
    /// Every packet above. MRC: 0.8 plane BDP. RoCE: 200000 at 40 Gb/s (DCQCN).
    pub ecn_max_bytes: Option<u32>,
    /// Chance just below `ecn_max_bytes`, in percent. MRC: 100. RoCE: 1 (DCQCN).
    pub ecn_max_percent: Option<u8>,
    /// Whether the last switch marks too. MRC: false. RoCE: true.
    pub ecn_last_hop: Option<bool>,
    /// Whether switches trim. MRC: true. RoCE: false.
    pub trim: Option<bool>,
    /// Data that may wait before packets are trimmed; 1 plane BDP by default.
    pub trim_bytes: Option<u32>,
    /// The same at the last hop; 1.5 plane BDP by default.
    pub trim_last_hop_bytes: Option<u32>,
    /// Bytes of a trimmed packet on the wire; packets that are no longer are not trimmed. A size below that of the headers
    /// stands for their size alone: the receiver still reads them. Below that of a probe, probes are trimmed, too.
    pub trimmed_bytes: u32,
    /// Who is trimmed when the queue is full.
    pub trim_victim: VictimKey,
    /// Whether the last switch says that it was the last.
    pub trim_last_hop_code: bool,
    /// Whether switches pause their neighbours (PFC); for RoCE hosts, which listen. RoCE: true with `go-back-n`, false with
    /// `selective-repeat`.
    pub pfc: Option<bool>,
    /// Data from one port at which its sender is paused. By default what is free of the buffer that the ports of a switch
    /// share, 4900 bytes per Gb/s of them (DCQCN: 12 MB for 32 ports of 40 Gb/s, less headroom; beta 8).
    pub pfc_xoff_bytes: Option<u32>,
    /// Data from one port at which it may go on; half of `pfc_xoff_bytes`, or two packets below the shared threshold.
    pub pfc_xon_bytes: Option<u32>,
}

impl Default for QueueKeys {
    fn default() -> Self {
        Self {
            data_bytes: None,
            control_bytes: None,
            control_percent: None,
            ecn: true,
            ecn_min_bytes: None,
            ecn_max_bytes: None,
            ecn_max_percent: None,
            ecn_last_hop: None,
            trim: None,
            trim_bytes: None,
            trim_last_hop_bytes: None,
            trimmed_bytes: 256,
            trim_victim: VictimKey::ArrivingOrLast,
            trim_last_hop_code: true,
            pfc: None,
            pfc_xoff_bytes: None,
            pfc_xon_bytes: None,
        }
    }
}

/// `[transport]`.
#[derive(Clone, PartialEq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct TransportKeys {
    /// What the hosts speak.
    pub kind: TransportKind,
    /// Connections between two hosts.
    pub connections: ConnectionsKey,
    /// With `per-message`: there are connections enough if no message takes more than so many times its time on an idle fabric.
    /// MRC: a host has as many queue pairs as it then needs, over all its messages; 8 by default, and at least 64 each way. A
    /// message that finds all of them taken waits, a packet that finds none at its receiver is dropped. RoCE: a pair of hosts
    /// has as many connections; 30 by default, and at least 8 each way. A message that finds all of them taken waits behind
    /// another. Results count what found none. Nobody has more than its messages need.
    pub expected_slowdown: Option<f64>,
    /// `[transport.mrc]`.
    pub mrc: MrcKeys,
    /// `[transport.roce]`.
    pub roce: RoceKeys,
    /// Parameters of a transport of another kind, by name.
    pub params: BTreeMap<String, f64>,
}

/// Kinds of workloads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadKind {
    /// A stream of messages between two hosts.
    #[default]
    PointToPoint,
    /// Every host sends to one other.
    Permutation,
    /// Many hosts send to one.
    Incast,
    /// Ring all-reduce.
    AllReduce,
    /// Ring all-gather.
    AllGather,
    /// Ring reduce-scatter.
    ReduceScatter,
    /// Everybody to everybody.
    AllToAll,
    /// Everybody to the next rank.
    Neighbours,
    /// Reduce-scatter in each group of ranks, all-reduce across the groups, all-gather in each group.
    HierarchicalAllReduce,
    /// All-reduce up and down two binary trees, each with half of the vector.
    TreeAllReduce,
    /// From the first rank down a binary tree.
    Broadcast,
    /// Random arrivals of random sizes.
    Poisson,
    /// Messages from a file.
    Trace,
    /// Computation, then a collective, step by step.
    TrainingStep,
}

/// `[[workload]]`. Which keys a kind takes is checked; all have defaults.
#[derive(Clone, PartialEq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct WorkloadKeys {
    /// What it is.
    pub kind: WorkloadKind,
    /// Name in the results; by default the kind, with a number from the second one of a kind on.
    pub name: Option<String>,
    /// Bytes of a message; of a collective's vector; 1048576 by default.
    pub bytes: Option<u64>,
    /// Messages of a stream; 1 by default.
    pub messages: Option<u32>,
    /// Messages of a stream under way at once; 2 by default.
    pub depth: Option<u32>,
    /// When it begins; at 0 by default.
    pub start_us: Option<f64>,
    /// Sender of a stream; host 0 by default.
    pub from: Option<u32>,
    /// Receiver of a stream, by default the last host; of an incast, by default host 0.
    pub to: Option<u32>,
    /// Also the other way round.
    pub bidirectional: Option<bool>,
    /// First host that takes part; 0 by default.
    pub first: Option<u32>,
    /// Hosts, or ranks, that take part; all by default.
    pub hosts: Option<u32>,
    /// Distance of the hosts of two ranks; 1 by default.
    pub stride: Option<u32>,
    /// Consecutive ranks are this many ranks' hosts apart; a divisor of their number, 1 by default. The number of hosts
    /// below a leaf makes every hop of a ring leave its leaf.
    pub interleave: Option<u32>,
    /// Rings that share the vector and run side by side, as collective libraries have them; pieces that follow one another in
    /// a tree. 1 by default, 2 of `tree-all-reduce`: every second one goes through its second tree. No effect on an all-to-all and
    /// on `neighbours`.
    pub channels: Option<u32>,
    /// Messages of a rank in an all-to-all under way at once, as libraries that go through their peers in turn have
    /// them; all by default.
    pub concurrency: Option<u32>,
    /// Ranks of a group of a hierarchical all-reduce, a divisor of their number; by default those below the first rank's leaf.
    pub group: Option<u32>,
    /// Whether all destinations are below another leaf; true by default for a permutation, false for Poisson flows.
    pub other_leaf: Option<bool>,
    /// Senders of an incast; all others by default.
    pub fan_in: Option<u32>,
    /// Time between the starts of two flows; 0 by default.
    pub stagger_us: Option<f64>,
    /// Repetitions of a collective, or training steps; 1 by default. A rank begins the next one when it has received all its
    /// parts; the root of a broadcast, which receives none, when those that it sent are acknowledged.
    pub iterations: Option<u32>,
    /// Computation of each rank before each repetition; 0 by default, 1000 in a training step.
    pub compute_us: Option<f64>,
    /// By how much at most a rank is late with its computation, drawn evenly for each rank and repetition; 0 by default,
    /// which is a lockstep that no cluster has.
    pub skew_us: Option<f64>,
    /// Collective of a training step: `all-reduce` (the default) or any other.
    pub collective: Option<WorkloadKind>,
    /// Offered load: payload per time over the rate of what `load_of` says; 0.5 by default.
    pub load: Option<f64>,
    /// What `load` is a share of; `host` by default.
    pub load_of: Option<LoadOfKey>,
    /// Flows of a Poisson process; 1000 by default.
    pub flows: Option<u32>,
    /// Instead of `flows`: how long flows begin.
    pub duration_us: Option<f64>,
    /// What begins in the first so many microseconds of a Poisson process loads the fabric, and is reported on its own.
    pub warm_up_us: Option<f64>,
    /// The same of the last so many.
    pub cool_down_us: Option<f64>,
    /// Sizes: a name, or points of the cumulative distribution, `[bytes, share]`; by default all flows have 1000000 bytes.
    pub sizes: Option<SizesKey>,
    /// Every message draws an answer of so many bytes when it has arrived; streams then wait for answers.
    pub reply_bytes: Option<u64>,
    /// Time until the answer goes; 0 by default.
    pub reply_us: Option<f64>,
    /// Name of a job: hosts of the workload are then ranks of the job.
    pub job: Option<String>,
    /// Trace file, relative to the scenario. `csv`: lines of `start_us,from,to,bytes`, and after a further comma the line
    /// numbers, from 1, of messages that must have arrived first, separated by spaces; `start_us` of such a line counts
    /// from the arrival of the last of them. Empty lines and those that begin with `#` say nothing; the first may name the
    /// columns. `chakra`: the name without `.0.et`.
    pub file: Option<String>,
    /// A trace in the scenario itself, in place of `file`: as `csv`; its first line is line 1.
    pub lines: Option<String>,
    /// Format of the trace; by default what the name ends in says, else `csv`.
    pub format: Option<TraceFormatKey>,
    /// Ranks of a trace on each host; what stays within a host takes no time. 1 by default.
    pub ranks_per_host: Option<u32>,
    /// Factor of the sizes of a trace; 1.0 by default.
    pub scale_bytes: Option<f64>,
    /// Factor of the times of a trace; 1.0 by default.
    pub scale_time: Option<f64>,
}

/// Formats of traces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceFormatKey {
    /// Our own.
    Csv,
    /// The text of LogGOPSim's schedules (`.goal`).
    Goal,
    /// Chakra execution traces, a file per rank (`.et`).
    Chakra,
    /// Connection matrices of htsim (`.cm`).
    Htsim,
}

/// What a load is a share of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadOfKey {
    /// The links of the hosts that take part.
    #[default]
    Host,
    /// The links from T0s upwards, of flows that leave their leaf; those that do not come on top. A half of the fabric's hosts has half
    /// of these links, wherever they are.
    Uplink,
}

/// Where the hosts of a job are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementKey {
    /// The next free hosts in order.
    #[default]
    Packed,
    /// One below each leaf in turn.
    Spread,
    /// Drawn at random.
    Random,
}

/// `[[job]]`: hosts of its own, with a transport of its own.
#[derive(Clone, PartialEq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct JobKeys {
    /// Name, for workloads.
    pub name: String,
    /// Hosts; no host has two jobs.
    pub hosts: u32,
    /// Which hosts.
    pub placement: PlacementKey,
    /// What they speak, in place of `transport.kind`: a word, with the tables below `[transport]`; or a table of its own,
    /// `[job.transport]` with `kind`, `mrc`, `roce` and `params`, which takes over nothing from `[transport]` and the preset. The
    /// queues follow `[transport]`.
    pub transport: Option<JobTransportKey>,
}

/// Kinds of faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// Links lose their carrier; of hosts, that is a NIC port down.
    #[default]
    LinkDown,
    /// Several neighbouring links of one switch lose their carrier at once.
    Transceiver,
    /// Links lose packets.
    Loss,
    /// Links change bits.
    Corruption,
    /// Links delay packets at random.
    Jitter,
    /// Links change their rate.
    Slow,
    /// Switches go down.
    SwitchDown,
    /// Switches drop everything and tell nobody.
    SwitchSilent,
}

/// Where faults strike.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultTier {
    /// Links between T0 and T1.
    #[default]
    Fabric,
    /// Links between hosts and T0.
    Host,
    /// All links.
    Any,
    /// T0 switches.
    T0,
    /// T1 switches.
    T1,
    /// T2 switches.
    T2,
}

/// `[[fault]]`.
#[derive(Clone, PartialEq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct FaultKeys {
    /// What breaks.
    pub kind: FaultKind,
    /// When it strikes.
    pub at_us: f64,
    /// At a random time up to this much later, for each target (the links of a transceiver together); 0 by default.
    pub within_us: Option<f64>,
    /// For how long; for ever by default.
    pub for_us: Option<f64>,
    /// Names of links (`p0-hA`, `p0-t0a-t1b`) or switches (`p0-t0a`, `p0-t1b`); a fault of links strikes all links of a switch.
    pub target: Option<Vec<String>>,
    /// Instead of `target`: so many at random.
    pub random: Option<u32>,
    /// Of these; without `target` and `random` all of these. By default links between switches, or T1 switches.
    pub tier: Option<FaultTier>,
    /// Time between two targets: one after the other; 0 by default.
    pub stagger_us: Option<f64>,
    /// Repetitions, with `every_us` between their begins: a flap train; 1 by default.
    pub times: Option<u32>,
    /// Time between two repetitions.
    pub every_us: Option<f64>,
    /// Links of a transceiver; 4 by default. Without `random` there is one transceiver, with it so many different ones.
    pub lanes: Option<u32>,
    /// Probability of loss or corruption.
    pub probability: Option<f64>,
    /// Loss in bursts: probabilities of leaving the good and the bad state, and of loss in each of them.
    pub burst: Option<[f64; 4]>,
    /// Loss of frames of more bytes alone, Ethernet header included: 1514 and a probability of 1 are a port with an MTU of 1500.
    pub longer_than: Option<u32>,
    /// Largest extra delay.
    pub jitter_us: Option<f64>,
    /// Rate of a slow link.
    pub gbps: Option<f64>,
}
