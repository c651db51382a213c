//! Scenario files: what is simulated, as TOML. Owns the keys, their defaults and their errors; what the keys mean to
//! fabric, hosts and workload is in `build`.
//!
//! | table | keys |
//! |---|---|
//! | (top) | `name`, `about`, `preset`, `seed`, `limit_us`, `bin_us`, `stall_us` |
//! | `[topology]` | [`TopologyKeys`] |
//! | `[[link]]` | [`LinkKeys`]: links that differ from their tier |
//! | `[queue]` | [`QueueKeys`] |
//! | `[transport]` | `kind`, and a table per transport: [`MrcKeys`], [`RoceKeys`] |
//! | `[[workload]]` | [`WorkloadKeys`] |
//! | `[[fault]]` | [`FaultKeys`] |

mod build;
mod faults;
mod load;
mod roce;
mod schema;
mod timeline;
mod traffic;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use build::{Built, TransportSettings};
pub use load::{Problem, ScenarioError, check, load, load_str};
pub use roce::{RecoveryKey, RoceCcKey, RoceKeys};
pub use schema::{keys_by_kind, schema};

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
    /// Width of the bins of goodput and queue samples, in microseconds.
    pub bin_us: f64,
    /// A run in which no byte arrives for this long while messages wait is stopped with a diagnosis.
    pub stall_us: f64,
    /// The fabric.
    pub topology: TopologyKeys,
    /// Links that differ.
    pub link: Vec<LinkKeys>,
    /// Every switch port.
    pub queue: QueueKeys,
    /// The hosts.
    pub transport: TransportKeys,
    /// What is sent.
    pub workload: Vec<WorkloadKeys>,
    /// What breaks.
    pub fault: Vec<FaultKeys>,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            name: String::new(),
            about: String::new(),
            preset: "mrc".to_owned(),
            seed: 1,
            limit_us: 1_000_000.0,
            bin_us: 100.0,
            stall_us: 1_000_000.0,
            topology: TopologyKeys::default(),
            link: Vec::new(),
            queue: QueueKeys::default(),
            transport: TransportKeys::default(),
            workload: Vec::new(),
            fault: Vec::new(),
        }
    }
}

/// Shapes of fabrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Two tiers of switches per plane.
    #[default]
    Clos,
    /// Two switches and a link between them, per plane.
    Dumbbell,
}

/// How switches choose the way up, see [`crate::Forwarding`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ForwardingKey {
    /// The sender wrote the path: uSID shift.
    #[default]
    Srv6,
    /// The first STEV field of the EV is the uplink.
    Stev,
    /// Hash of addresses and EV.
    Ecmp,
    /// Packet by packet in turn.
    RoundRobin,
    /// The shortest queue.
    Adaptive,
}

/// `[topology]`.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TopologyKeys {
    /// Form of the fabric.
    pub shape: Shape,
    /// Independent planes; a host has a port on each.
    pub planes: u8,
    /// Leaves per plane.
    pub t0: u16,
    /// Hosts below a leaf.
    pub hosts_per_t0: u16,
    /// Spines per plane; by default as many as the oversubscription asks for.
    pub t1: Option<u16>,
    /// Bandwidth of a leaf's hosts over that of its uplinks.
    pub oversubscription: f64,
    /// Rate of a host's link, in Gb/s.
    pub host_gbps: f64,
    /// Its propagation delay.
    pub host_delay_us: f64,
    /// Rate of a link between switches; that of the hosts' by default.
    pub fabric_gbps: Option<f64>,
    /// Its propagation delay; that of the hosts' by default.
    pub fabric_delay_us: Option<f64>,
    /// Time a frame spends in a switch before its egress queue.
    pub switch_us: f64,
    /// How switches choose the way up; `srv6` by default, `ecmp` with RoCE, whose packets name no path.
    pub forwarding: Option<ForwardingKey>,
}

impl Default for TopologyKeys {
    fn default() -> Self {
        Self {
            shape: Shape::Clos,
            planes: 1,
            t0: 2,
            hosts_per_t0: 2,
            t1: None,
            oversubscription: 1.0,
            host_gbps: 100.0,
            host_delay_us: 0.5,
            fabric_gbps: None,
            fabric_delay_us: None,
            switch_us: 0.5,
            forwarding: None,
        }
    }
}

/// `[[link]]`.
#[derive(Clone, PartialEq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkKeys {
    /// Names of links: `p0-hA` (plane 0, host A), `p1-t0b-t1d`.
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

/// `[queue]`. Thresholds left out follow the recommendations for MRC fabrics, in units of what one plane holds in a
/// round trip (plane BDP).
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueKeys {
    /// Bytes of the data class; 5 plane BDP by default, with `pfc` as many as PFC lets in.
    pub data_bytes: Option<u32>,
    /// Bytes of the control class; by default as many as of the data class, with `pfc` 5 plane BDP.
    pub control_bytes: Option<u32>,
    /// Share of the link, in percent, that control may take while data waits; 0: strict priority.
    pub control_percent: u8,
    /// Whether switches mark.
    pub ecn: bool,
    /// No mark below; 0.2 plane BDP by default.
    pub ecn_min_bytes: Option<u32>,
    /// Every packet above; 0.8 plane BDP by default.
    pub ecn_max_bytes: Option<u32>,
    /// Chance just below `ecn_max_bytes`, in percent.
    pub ecn_max_percent: u8,
    /// Whether the last switch marks too.
    pub ecn_last_hop: bool,
    /// Whether switches trim.
    pub trim: bool,
    /// Data that may wait before packets are trimmed; 1 plane BDP by default.
    pub trim_bytes: Option<u32>,
    /// The same at the last hop; 1.5 plane BDP by default.
    pub trim_last_hop_bytes: Option<u32>,
    /// Bytes of a trimmed packet on the wire.
    pub trimmed_bytes: u32,
    /// Who is trimmed when the queue is full.
    pub trim_victim: VictimKey,
    /// Whether the last switch says that it was the last.
    pub trim_last_hop_code: bool,
    /// Whether switches pause their neighbours (PFC); for RoCE hosts, which listen.
    pub pfc: bool,
    /// Data from one port at which its sender is paused; half a plane BDP by default.
    pub pfc_xoff_bytes: Option<u32>,
    /// Data from one port at which it may go on; half of `pfc_xoff_bytes` by default.
    pub pfc_xon_bytes: Option<u32>,
}

impl Default for QueueKeys {
    fn default() -> Self {
        Self {
            data_bytes: None,
            control_bytes: None,
            control_percent: 25,
            ecn: true,
            ecn_min_bytes: None,
            ecn_max_bytes: None,
            ecn_max_percent: 100,
            ecn_last_hop: false,
            trim: true,
            trim_bytes: None,
            trim_last_hop_bytes: None,
            trimmed_bytes: 256,
            trim_victim: VictimKey::ArrivingOrLast,
            trim_last_hop_code: true,
            pfc: false,
            pfc_xoff_bytes: None,
            pfc_xon_bytes: None,
        }
    }
}

/// Transports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransportKind {
    /// The engine of this project.
    #[default]
    Mrc,
    /// RoCEv2 Reliable Connection, and its IRN variant.
    Roce,
}

/// `[transport]`.
#[derive(Clone, PartialEq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TransportKeys {
    /// What the hosts speak.
    pub kind: TransportKind,
    /// `[transport.mrc]`.
    pub mrc: MrcKeys,
    /// `[transport.roce]`.
    pub roce: RoceKeys,
}

/// Path selection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SelectorKey {
    /// MRC's spraying over all active EVs.
    #[default]
    Spray,
    /// Spraying that never reacts.
    Oblivious,
    /// One path per queue pair, drawn at random.
    Single,
    /// One path, left by round trips.
    Hopper,
    /// One path, left by marks.
    FlowBender,
}

/// Congestion control.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CcKey {
    /// MRC's own, by marks and delay.
    #[default]
    Nscc,
    /// A window that never changes.
    Fixed,
    /// No limit but the queue pair's own.
    None,
}

/// What an inferred loss does to its EV.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossActionKey {
    /// By whether the fabric trims.
    #[default]
    ByTrimming,
    /// It is retired.
    AssumedBad,
    /// It is skipped once.
    Skip,
}

/// `[transport.mrc]`: the engine's knobs, with the engine's defaults.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct MrcKeys {
    /// Queue pairs per pair of hosts; a message is cut into as many pieces.
    pub qps: u32,
    /// Payload of a full packet: 256, 512, 1024, 2048 or 4096.
    pub mtu: u16,
    /// Packets a queue pair may have in flight: 128 times a power of two up to 128. By default the smallest that holds
    /// two windows of congestion control.
    pub window_packets: Option<u32>,
    /// EVs in rotation; where EVs name paths, no more than there are different paths.
    pub active_evs: u16,
    /// EVs in reserve.
    pub backup_evs: u16,
    /// Only the first so many T1s of each plane.
    pub paths_per_plane: Option<u16>,
    /// How a queue pair chooses the path of each packet.
    pub selector: SelectorKey,
    /// EVs never retired.
    pub ev_min_active: u16,
    /// Distance of two probes of a bad EV.
    pub probe_interval_us: f64,
    /// Good probe answers in a row that revive an EV.
    pub resurrect_probes: u8,
    /// Probes of bad EVs under way at once.
    pub bad_probes_outstanding: u8,
    /// A marked EV is skipped for so long; left out: until the rotation has passed it once.
    pub skip_us: Option<f64>,
    /// What an inferred loss does to its EV.
    pub loss_action: LossActionKey,
    /// Losses in a row that retire an EV.
    pub loss_streak: u8,
    /// Packets by which a queue pair may use one plane more than its least used one while others can use the port; 0: no
    /// limit.
    pub plane_lead: u8,
    /// Send on a bad EV when there is no other.
    pub last_resort: bool,
    /// Congestion control.
    pub cc: CcKey,
    /// Window of `fixed`, and cap of `nscc`; 1.5 BDP of all planes by default.
    pub cc_window_bytes: Option<u32>,
    /// Rate that NSCC reckons with; that of all planes by default.
    pub cc_gbps: Option<f64>,
    /// NSCC's target queueing delay.
    pub cc_target_us: Option<f64>,
    /// NSCC: fixed weight of a delay sample in the average, 0.0 to 1.0; 0: by time.
    pub cc_delay_weight: f64,
    /// Whether NSCC takes its window from what the last round trip delivered when packets are trimmed (quick adapt).
    pub cc_quick_adapt: bool,
    /// NSCC: a probe after the first feedback of a destination measures the base RTT, and other probes may lower it.
    /// On slow links a probe, being small, is much faster than data: the window then becomes too small.
    pub cc_rtt_probe: bool,
    /// Unloaded round trip; that of the topology by default.
    pub base_rtt_us: Option<f64>,
    /// Whether receivers answer trimmed packets; as `queue.trim` by default.
    pub trimming: Option<bool>,
    /// Retransmission timer, rounded up to 1.024 us times a power of two; 10 round trips by default.
    pub rto_us: Option<f64>,
    /// Retries at that interval.
    pub linear_retries: u8,
    /// Retries at a doubling interval; 25: for ever.
    pub exponential_retries: u8,
    /// Acknowledge after so many bytes; by default 16384, or an eighth of a queue pair's share of the largest window of
    /// congestion control where that is less: what a receiver withholds from the sender's window must be little of it.
    pub sack_bytes: Option<u32>,
    /// Packets that must have overtaken one before it counts as lost, at least; by default as many as the largest
    /// window of congestion control holds. The engine's own default, 3, leaves it to `reorder_windows` of the present
    /// window: when that shrinks, what left under the larger one counts as lost and retires its paths, though it only queues.
    pub reorder_packets: Option<u16>,
    /// Windows that must have overtaken it.
    pub reorder_windows: f64,
    /// A packet is lost, too, when one sent so much later has arrived; 0: no such rule.
    pub reorder_delay_us: f64,
    /// Send a probe this long after the last packet there is to send, and take for lost what left that long before it
    /// and its answer lacks; 0: only silence draws a probe.
    pub tail_probe_us: f64,
    /// Writes a queue pair holds, a power of two.
    pub send_queue: u32,
    /// Verdict ALWAYS_SKIP after so many marks in a row; 0: never.
    pub always_skip_after: u8,
    /// Put a timestamp in every write.
    pub timestamps: bool,
    /// Let a SACK complete requests.
    pub complete_on_sack: bool,
    /// Count every retried packet against the budget.
    pub retry_strict: bool,
    /// Drop packets above the window without a NACK.
    pub oor_silent: bool,
    /// Send control packets also on planes whose EV probes nobody answers.
    pub answers_on_silent_planes: bool,
    /// Control packets are ECN-capable.
    pub control_ect: bool,
    /// Bytes on the wire beside the payload, in place of the headers' own.
    pub data_overhead_bytes: Option<u32>,
    /// Bytes on the wire of any other packet.
    pub control_packet_bytes: Option<u32>,
}

impl Default for MrcKeys {
    fn default() -> Self {
        let paths = mrc_core::path::PathConfig::DEFAULT;
        let endpoint = mrc_core::EndpointConfig::default();
        let retry = mrc_core::RetryConfig::default();
        Self {
            qps: 1,
            mtu: 4096,
            window_packets: None,
            active_evs: paths.active,
            backup_evs: paths.backup,
            paths_per_plane: None,
            selector: SelectorKey::Spray,
            ev_min_active: paths.ev_min_active,
            probe_interval_us: paths.probe_interval_ns as f64 / 1e3,
            resurrect_probes: paths.resurrect_probes,
            bad_probes_outstanding: paths.bad_probes_outstanding,
            skip_us: None,
            loss_action: LossActionKey::ByTrimming,
            loss_streak: paths.loss_streak,
            plane_lead: paths.plane_lead,
            last_resort: paths.last_resort,
            cc: CcKey::Nscc,
            cc_window_bytes: None,
            cc_gbps: None,
            cc_target_us: None,
            cc_delay_weight: 0.0,
            cc_quick_adapt: true,
            cc_rtt_probe: true,
            base_rtt_us: None,
            trimming: None,
            rto_us: None,
            linear_retries: retry.linear,
            exponential_retries: retry.exponential,
            sack_bytes: None,
            reorder_packets: None,
            reorder_windows: 1.5,
            reorder_delay_us: 0.0,
            tail_probe_us: 0.0,
            send_queue: 16,
            always_skip_after: endpoint.always_skip_after,
            timestamps: endpoint.timestamps,
            complete_on_sack: endpoint.complete_on_sack,
            retry_strict: endpoint.retry_strict,
            oor_silent: endpoint.oor_silent,
            answers_on_silent_planes: endpoint.answers_on_silent_planes,
            control_ect: endpoint.ctl_ect,
            data_overhead_bytes: None,
            control_packet_bytes: None,
        }
    }
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
    /// Random arrivals of random sizes.
    Poisson,
    /// Messages from a file.
    Trace,
    /// Computation, then a collective, step by step.
    TrainingStep,
}

/// `[[workload]]`. Which keys a kind takes is checked; all have defaults.
#[derive(Clone, PartialEq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkloadKeys {
    /// What it is.
    pub kind: WorkloadKind,
    /// Name in the results; the kind by default.
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
    /// Rings that share the vector and run side by side, as collective libraries have them; 1 by default.
    pub channels: Option<u32>,
    /// Messages of a rank in an all-to-all under way at once, as libraries that go through their peers in turn have
    /// them; all by default.
    pub concurrency: Option<u32>,
    /// Whether destinations of a permutation are below another leaf; true by default.
    pub other_leaf: Option<bool>,
    /// Senders of an incast; all others by default.
    pub fan_in: Option<u32>,
    /// Time between the starts of two flows; 0 by default.
    pub stagger_us: Option<f64>,
    /// Repetitions of a collective, or training steps; 1 by default.
    pub iterations: Option<u32>,
    /// Computation of each rank before each repetition; 0 by default, 1000 in a training step.
    pub compute_us: Option<f64>,
    /// By how much at most a rank is late with its computation, drawn evenly for each rank and repetition; 0 by default,
    /// which is a lockstep that no cluster has.
    pub skew_us: Option<f64>,
    /// Collective of a training step: `all-reduce` (the default), `all-gather`, `reduce-scatter`, `all-to-all` or
    /// `neighbours`.
    pub collective: Option<WorkloadKind>,
    /// Offered load over all hosts' rates; 0.5 by default.
    pub load: Option<f64>,
    /// Flows of a Poisson process; 1000 by default.
    pub flows: Option<u32>,
    /// Sizes: points of the cumulative distribution, `[bytes, share]`; by default all flows have 1000000 bytes.
    pub sizes: Option<Vec<(f64, f64)>>,
    /// Trace file, relative to the scenario: lines of `start_us,from,to,bytes`, and after a further comma the line
    /// numbers, from 1, of messages that must have arrived first, separated by spaces; `start_us` of such a line counts
    /// from the arrival of the last of them. Empty lines and those that begin with `#` say nothing.
    pub file: Option<String>,
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
}

/// `[[fault]]`.
#[derive(Clone, PartialEq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultKeys {
    /// What breaks.
    pub kind: FaultKind,
    /// When it strikes.
    pub at_us: f64,
    /// At a random time up to this much later, for each target (the links of a transceiver together); 0 by default.
    pub within_us: Option<f64>,
    /// For how long; for ever by default.
    pub for_us: Option<f64>,
    /// Names of links (`p0-hA`, `p0-t0a-t1b`) or switches (`p0-t0a`, `p0-t1b`).
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
    /// Largest extra delay.
    pub jitter_us: Option<f64>,
    /// Rate of a slow link.
    pub gbps: Option<f64>,
}
