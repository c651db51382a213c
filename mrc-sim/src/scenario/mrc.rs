//! `[transport.mrc]`: the engine's knobs, and what they mean to the hosts.

use mrc_core::cc::{CcConfig, NsccConfig};
use mrc_core::path::{
    FlowBenderConfig, FlowingJumpingConfig, HopperConfig, LossEvAction, PathConfig, PathError, PlbConfig, RepsConfig,
    Selector, SkipMode,
};
use mrc_core::{EndpointConfig, EventMask, RetryConfig, RtsAttr, Trimming};
use mrc_wire::Psn;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::build::{nanos, probability, rate_bps};
use super::rtt::RoundTrip;
use super::topology::TelemetryKey;
use super::{Problem, Scenario};
use crate::fabric::Topology;
use crate::host::{MrcSettings, PathBandwidth, WireSizes};

/// Longest round trip, delay or timer that the engine's congestion control and loss inference know, in nanoseconds.
const LONGEST_NS: u64 = 1_000_000_000;

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
    #[serde(alias = "pinned")]
    Single,
    /// One path, left by round trips.
    Hopper,
    /// One path, left by marks.
    #[serde(alias = "flowbender")]
    FlowBender,
    /// One path, left after rounds of marks, earlier when idle (PLB).
    Plb,
    /// Spraying over paths whose acknowledgements came back unmarked (REPS).
    Reps,
    /// Spraying over a few paths so that their loads stay level (FaCa).
    FlowingJumping,
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
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct MrcKeys {
    /// Queue pairs per connection; a message is cut into as many pieces.
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
    /// An EV that fails again after its return is probed half as often each time, until SACKs without a mark take that back.
    pub relapse_backoff: bool,
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
    /// A packet that a NACK refused may take the EV that the NACK names where no other healthy EV is on a free port. Otherwise it
    /// waits, or takes an EV in reserve or a bad one.
    pub reuse_nacked_ev: bool,
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
    /// Where `cc_probe_shortfall_us` is 0, flows whose probes took different times share a link unevenly.
    pub cc_rtt_probe: bool,
    /// NSCC: what a full packet takes longer than a probe, over the longest idle path by default. A probe's round trip that
    /// would lower the base RTT is first longer by so much, that of a packet with less payload by a part. With 0, as
    /// the specification has it, the difference counts as queueing: flows at 10 Gb/s then lose half of their rate.
    pub cc_probe_shortfall_us: Option<f64>,
    /// NSCC: a base RTT that falls cuts the window to the largest one at once, not when increases are applied next, as the
    /// reference has it. An incast of short messages then trims half as much.
    pub cc_window_follows_rtt: bool,
    /// NSCC: many senders share the link of one host, whose switch marks nothing. Windows go below a packet, a delay of the target
    /// or more decreases them without a mark, and small ones grow slowly. As specified, windows are a packet at least, and grow
    /// until packets are trimmed. Other loads may be slower with it.
    pub cc_crowds: bool,
    /// NSCC's fair increase (`fi`), in bytes; 5 packets by default, times the BDP over 150000 bytes. With `cc_crowds` it has
    /// no effect: no window increases behind a long delay.
    pub cc_fair_increase_bytes: Option<u32>,
    /// NSCC's fixed increase (`eta`) per adjustment, in bytes; 0.15 packets by default, times the same.
    pub cc_fixed_increase_bytes: Option<u32>,
    /// NSCC's fast increase: growth per received byte; 0.25 by default, times the same.
    pub cc_fast_increase: Option<f64>,
    /// NSCC: weight of the excess delay in a decrease (`gamma`), up to 16; 0.8 by default.
    pub cc_decrease: Option<f64>,
    /// NSCC: smallest factor of one decrease; 0.5 by default.
    pub cc_decrease_least: Option<f64>,
    /// NSCC: increases are applied after so many received bytes; 8 packets by default.
    pub cc_adjust_bytes: Option<u32>,
    /// NSCC: or after so long; one base round trip by default.
    pub cc_adjust_us: Option<f64>,
    /// NSCC: queueing delays below this count as none; 1 us by default.
    pub cc_clear_us: Option<f64>,
    /// NSCC: quick adapt acts on a round trip that delivered less than the largest window halved so often.
    pub cc_quick_adapt_gate: u8,
    /// NSCC: a delay that calls for quick adapt by itself; 4 target delays by default, with trimming none.
    pub cc_quick_adapt_us: Option<f64>,
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
    /// Send a probe this long after the last packet there is to send, or after a window shrank and closed behind packets
    /// that did not ask to be acknowledged. What left that long before it, and its answer lacks, is lost; 0: only silence
    /// draws a probe.
    pub tail_probe_us: f64,
    /// Shortest distance of two probes of a queue pair.
    pub probe_rate_limit_us: f64,
    /// Probe a silent peer so often, and fail when it does not answer; 0: never.
    pub keepalive_us: f64,
    /// EV probes that a host sends per second, over all queue pairs, after a burst of 16.
    pub ev_probes_per_second: u32,
    /// Probes, Port Status Updates and the like of its peers that a host answers per second, after a burst of 32.
    pub answers_per_second: u32,
    /// An EV that one queue pair finds bad is bad for all of its profile.
    pub share_bad_evs: bool,
    /// Take the time that an answer to a probe waits in its host out of the round trip.
    pub probe_service_time: bool,
    /// Repeat a Port Status Update that nobody answers after so long; after three repetitions the wait doubles each time.
    pub port_update_rto_us: f64,
    /// Longest time between two repetitions of a Port Status Update.
    pub port_update_max_us: f64,
    /// A packet from a port that its peer masked so long ago unmasks it; 0: never.
    pub port_unmask_after_us: f64,
    /// Send probes through ports that the peer has masked when no other port is left.
    pub probe_masked_ports: bool,
    /// Tell peers of one's ports when a queue pair begins, not only when one changes.
    pub port_update_on_start: bool,
    /// Hopper: weight of a new round trip in the average, in percent.
    pub hopper_alpha_percent: u16,
    /// Hopper: average above which alternatives are probed, in percent of the base round trip.
    pub hopper_probe_percent: u16,
    /// Hopper: average above which the path counts as congested, in percent of the base round trip.
    pub hopper_congested_percent: u16,
    /// Hopper: how long a path is not probed again and its answer is believed, in percent of the base round trip.
    pub hopper_ttl_percent: u16,
    /// Hopper: an alternative wins below this part of the average, in percent.
    pub hopper_better_percent: u16,
    /// Hopper: pause before a switch, in percent of the difference of the two paths.
    pub hopper_pause_percent: u16,
    /// Hopper: longest pause, in percent of the base round trip.
    pub hopper_pause_max_percent: u16,
    /// Hopper: whether an inferred loss moves the queue pair.
    pub hopper_move_on_loss: bool,
    /// Hopper: whether a mark starts the probes of an epoch.
    pub hopper_probe_on_mark: bool,
    /// FlowBender: part of an epoch's acknowledgements that may be marked or lost, in tenths of a percent.
    pub flow_bender_permille: u16,
    /// FlowBender: epochs in a row above that before the queue pair moves.
    pub flow_bender_epochs: u8,
    /// FlowBender: round trips above this part of the base round trip, in percent, count in place of marks; 0: marks do.
    pub flow_bender_rtt_percent: u16,
    /// PLB: part of a round's acknowledgements that must be marked for it to count as congested, in tenths of a percent.
    pub plb_permille: u16,
    /// PLB: congested rounds in a row after which an idle queue pair moves.
    pub plb_idle_rounds: u8,
    /// PLB: congested rounds in a row after which any queue pair moves.
    pub plb_rounds: u8,
    /// PLB: how long congestion moves a queue pair no more after a timeout, at least.
    pub plb_suspend_us: f64,
    /// REPS: packets on random EVs at the start and after a freeze.
    pub reps_explore_packets: u16,
    /// REPS: packets that a recycled EV carries.
    pub reps_reuse: u8,
    /// REPS: how long a freeze lasts at least, in percent of the base round trip.
    pub reps_freeze_percent: u16,
    /// Flowing & Jumping: paths on the ring, 2 to 8.
    pub flowing_paths: u8,
    /// Flowing & Jumping: packets that are placed at once.
    pub flowing_demand_packets: u16,
    /// Flowing & Jumping: bandwidth of a path, in Gb/s; that of a host's link by default.
    pub flowing_gbps: Option<f64>,
    /// Flowing & Jumping: time constant of the aging of loads, in percent of the base round trip.
    pub flowing_aging_percent: u16,
    /// Flowing & Jumping: a path of which nothing was heard for so long is probed, in percent of the base round trip; 0: never.
    pub flowing_refresh_percent: u16,
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
        let (paths, hopper, flow_bender) = (PathConfig::DEFAULT, HopperConfig::DEFAULT, FlowBenderConfig::DEFAULT);
        let (plb, reps, flowing) = (PlbConfig::DEFAULT, RepsConfig::DEFAULT, FlowingJumpingConfig::DEFAULT);
        let (endpoint, retry) = (EndpointConfig::default(), RetryConfig::default());
        let rts = RtsAttr::software(Psn::new(0));
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
            relapse_backoff: paths.relapse_backoff,
            bad_probes_outstanding: paths.bad_probes_outstanding,
            skip_us: None,
            loss_action: LossActionKey::ByTrimming,
            loss_streak: paths.loss_streak,
            plane_lead: paths.plane_lead,
            last_resort: paths.last_resort,
            reuse_nacked_ev: paths.reuse_nacked_ev,
            cc: CcKey::Nscc,
            cc_window_bytes: None,
            cc_gbps: None,
            cc_target_us: None,
            cc_delay_weight: 0.0,
            cc_quick_adapt: true,
            cc_rtt_probe: true,
            cc_probe_shortfall_us: None,
            cc_window_follows_rtt: true,
            cc_crowds: false,
            cc_fair_increase_bytes: None,
            cc_fixed_increase_bytes: None,
            cc_fast_increase: None,
            cc_decrease: None,
            cc_decrease_least: None,
            cc_adjust_bytes: None,
            cc_adjust_us: None,
            cc_clear_us: None,
            cc_quick_adapt_gate: NsccConfig::new(1, 1, true).qa_gate,
            cc_quick_adapt_us: None,
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
            probe_rate_limit_us: rts.probe_rate_limit_ns as f64 / 1e3,
            keepalive_us: rts.keepalive_ns as f64 / 1e3,
            ev_probes_per_second: endpoint.ev_probe_rate_limit,
            answers_per_second: endpoint.endpoint_rate_limit,
            share_bad_evs: endpoint.share_bad_evs,
            probe_service_time: endpoint.endpoint_svc_time,
            port_update_rto_us: endpoint.port_update_rto_ns as f64 / 1e3,
            port_update_max_us: endpoint.port_update_max_ns as f64 / 1e3,
            port_unmask_after_us: endpoint.port_unmask_after_ns as f64 / 1e3,
            probe_masked_ports: endpoint.probe_masked_ports,
            port_update_on_start: endpoint.port_update_on_rts,
            hopper_alpha_percent: hopper.alpha_percent,
            hopper_probe_percent: hopper.th_probe_percent,
            hopper_congested_percent: hopper.th_cong_percent,
            hopper_ttl_percent: hopper.ttl_probe_percent,
            hopper_better_percent: hopper.delta_rtt_percent,
            hopper_pause_percent: hopper.switch_delay_percent,
            hopper_pause_max_percent: hopper.switch_delay_max_percent,
            hopper_move_on_loss: hopper.move_on_loss,
            hopper_probe_on_mark: hopper.probe_on_mark,
            flow_bender_permille: flow_bender.threshold_permille,
            flow_bender_epochs: flow_bender.epochs,
            flow_bender_rtt_percent: flow_bender.rtt_percent,
            plb_permille: plb.threshold_permille,
            plb_idle_rounds: plb.idle_rounds,
            plb_rounds: plb.rounds,
            plb_suspend_us: plb.suspend_ns as f64 / 1e3,
            reps_explore_packets: reps.explore_packets,
            reps_reuse: reps.reuse,
            reps_freeze_percent: reps.freeze_percent,
            flowing_paths: flowing.paths,
            flowing_demand_packets: flowing.demand_packets,
            flowing_gbps: None,
            flowing_aging_percent: flowing.aging_percent,
            flowing_refresh_percent: flowing.refresh_percent,
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

/// Refuses values of keys that are wrong whatever the others say.
fn check(keys: &MrcKeys, topology: &Topology) -> Result<(), Problem> {
    let at = |key: &str| format!("transport.mrc.{key}");
    if !matches!(keys.mtu, 256 | 512 | 1024 | 2048 | 4096) {
        return Err(Problem::new(at("mtu"), format_args!("{}: allowed are 256, 512, 1024, 2048, 4096", keys.mtu)));
    }
    if !(1..=256).contains(&keys.qps) {
        return Err(Problem::new(at("qps"), format_args!("{}: allowed are 1 to 256", keys.qps)));
    }
    if keys.active_evs == 0 || keys.active_evs > 4096 {
        return Err(Problem::new(at("active_evs"), format_args!("{}: 1 to 4096", keys.active_evs)));
    }
    if u32::from(keys.active_evs) + u32::from(keys.backup_evs) > 4096 {
        let key = if keys.backup_evs == PathConfig::DEFAULT.backup { "active_evs" } else { "backup_evs" };
        let message =
            format_args!("{} active_evs and {} backup_evs: together at most 4096", keys.active_evs, keys.backup_evs);
        return Err(Problem::new(at(key), message));
    }
    if !keys.send_queue.is_power_of_two() || keys.send_queue > 1 << 14 {
        return Err(Problem::new(at("send_queue"), format_args!("{}: a power of two up to 16384", keys.send_queue)));
    }
    if keys.selector != SelectorKey::Single && keys.active_evs < u16::from(topology.planes()) {
        let message = format_args!("{}: at least one for each of the {} planes", keys.active_evs, topology.planes());
        return Err(Problem::new(at("active_evs"), message));
    }
    if keys.paths_per_plane == Some(0) {
        return Err(Problem::new(at("paths_per_plane"), "0: at least one path"));
    }
    for (key, value) in [("sack_bytes", keys.sack_bytes), ("cc_window_bytes", keys.cc_window_bytes)] {
        if value == Some(0) {
            return Err(Problem::new(at(key), "0: at least 1"));
        }
    }
    if keys.rto_us.is_some_and(|us| us <= 0.0) {
        return Err(Problem::new(at("rto_us"), "a timer of 0 would run out at once: at least 0.001"));
    }
    if !(0.0..=250.0).contains(&keys.reorder_windows) {
        return Err(Problem::new(
            at("reorder_windows"),
            format_args!("{}: allowed are 0 to 250", keys.reorder_windows),
        ));
    }
    for (key, value, most) in
        [("linear_retries", keys.linear_retries, 7), ("exponential_retries", keys.exponential_retries, 25)]
    {
        if value > most {
            return Err(Problem::new(at(key), format_args!("{value}: allowed are 0 to {most}")));
        }
    }
    Ok(())
}

/// Settings of the hosts on `topology`.
pub(super) fn build(scenario: &Scenario, topology: &Topology, rtt: RoundTrip) -> Result<MrcSettings, Problem> {
    let base_rtt_ns = rtt.base_ns;
    let keys = &scenario.transport.mrc;
    let at = |key: &str| format!("transport.mrc.{key}");
    check(keys, topology)?;
    if base_rtt_ns > LONGEST_NS {
        let key = if keys.base_rtt_us.is_some() { at("base_rtt_us") } else { "topology".to_owned() };
        let message = format_args!("a base round trip of {} us; MRC knows at most 1e6 us", base_rtt_ns / 1000);
        return Err(Problem::new(key, message));
    }
    let rate = match keys.cc_gbps {
        Some(gbps) => rate_bps(at("cc_gbps"), gbps)?,
        None => topology.host_link().rate_bps * u64::from(topology.planes()),
    };
    if keys.cc == CcKey::Nscc && rate > 10_000_000_000_000 {
        let message = format_args!(
            "{} Gb/s over all planes; NSCC reckons with at most 10000: set transport.mrc.cc_gbps",
            rate / 1_000_000_000
        );
        return Err(Problem::new("topology.host_gbps", message));
    }
    let trimming = keys.trimming.unwrap_or(topology.queue().trim.is_some());
    let base_rtt = u32::try_from(base_rtt_ns).unwrap_or(u32::MAX);
    let window = (rate as f64 * base_rtt_ns as f64 / 8e9 * 1.5).min(4e9) as u32;
    let window = keys.cc_window_bytes.unwrap_or(window).max(1);
    let target_ns = match keys.cc_target_us {
        Some(us) => above_zero(&at("cc_target_us"), us)?,
        None if trimming => base_rtt_ns * 3 / 4,
        None => base_rtt_ns,
    };
    let cc = match keys.cc {
        CcKey::None => CcConfig::None,
        CcKey::Fixed => CcConfig::Fixed { window_bytes: window },
        CcKey::Nscc => CcConfig::Nscc(NsccConfig {
            target_delay_ns: target_ns as u32,
            max_cwnd_bytes: window,
            probe_shortfall_ns: match keys.cc_probe_shortfall_us {
                Some(us) => short(&at("cc_probe_shortfall_us"), us)? as u32,
                None => u32::try_from(rtt.probe_shortfall_ns).unwrap_or(u32::MAX),
            },
            ..nscc(keys, NsccConfig::new(rate, base_rtt, trimming))?
        }),
    };
    let window_packets = window.div_ceil(u32::from(keys.mtu)).clamp(3, 16_384) as u16;
    let reorder_packets = keys.reorder_packets.unwrap_or(window_packets);
    Ok(MrcSettings {
        telemetry: match scenario.topology.telemetry {
            TelemetryKey::Off => None,
            TelemetryKey::Rate => Some(PathBandwidth::LeastRate),
            TelemetryKey::Load => Some(PathBandwidth::GreatestLoad),
        },
        qps: keys.qps,
        connections: scenario.transport.connections.0,
        open: Vec::new(),
        mtu: keys.mtu,
        rts: RtsAttr {
            mpr: mpr(keys, window)?,
            retry: retry(keys, base_rtt_ns)?,
            trimming: if trimming { Trimming::On } else { Trimming::Off },
            paths: paths(scenario)?,
            base_rtt_ns,
            target_delay_ns: target_ns,
            max_wimm: 0,
            reorder_pkts_min: reorder_packets,
            reorder_factor: (keys.reorder_windows * 256.0) as u16,
            reorder_delay_ns: short(&at("reorder_delay_us"), keys.reorder_delay_us)?,
            // Networks of scenarios reorder by their queues alone, which `reorder_packets` covers.
            reorder_tolerance: 0,
            tail_probe_ns: short(&at("tail_probe_us"), keys.tail_probe_us)?,
            probe_rate_limit_ns: nanos(at("probe_rate_limit_us"), keys.probe_rate_limit_us)?,
            keepalive_ns: nanos(at("keepalive_us"), keys.keepalive_us)?,
            ..RtsAttr::software(Psn::new(0))
        },
        paths_per_plane: keys.paths_per_plane,
        selector: selector(keys.selector, keys, keys.mtu, topology)?,
        send_queue: keys.send_queue as usize,
        tx_packets: usize::MAX,
        endpoint: EndpointConfig {
            cc,
            sack_gen_threshold: keys.sack_bytes.unwrap_or_else(|| match keys.cc {
                CcKey::None => EndpointConfig::default().sack_gen_threshold,
                _ => EndpointConfig::default().sack_gen_threshold.min((window / keys.qps / 8).max(1)),
            }),
            always_skip_after: keys.always_skip_after,
            timestamps: keys.timestamps,
            complete_on_sack: keys.complete_on_sack,
            retry_strict: keys.retry_strict,
            oor_silent: keys.oor_silent,
            answers_on_silent_planes: keys.answers_on_silent_planes,
            ctl_ect: keys.control_ect,
            endpoint_rate_limit: keys.answers_per_second,
            ev_probe_rate_limit: keys.ev_probes_per_second,
            share_bad_evs: keys.share_bad_evs,
            endpoint_svc_time: keys.probe_service_time,
            port_update_rto_ns: nanos(at("port_update_rto_us"), keys.port_update_rto_us)?.max(1),
            port_update_max_ns: nanos(at("port_update_max_us"), keys.port_update_max_us)?,
            port_unmask_after_ns: nanos(at("port_unmask_after_us"), keys.port_unmask_after_us)?,
            probe_masked_ports: keys.probe_masked_ports,
            port_update_on_rts: keys.port_update_on_start,
            events: EventMask::NONE,
            ..EndpointConfig::default()
        },
        wire: wire_sizes(keys)?,
    })
}

/// Timer and retries: the least timer of the engine that is `rto_us` or longer, by default ten round trips.
fn retry(keys: &MrcKeys, base_rtt_ns: u64) -> Result<RetryConfig, Problem> {
    let rto_ns = match keys.rto_us {
        Some(us) => nanos("transport.mrc.rto_us".to_owned(), us)?,
        None => 10 * base_rtt_ns,
    };
    let retries = |timeout| RetryConfig { timeout, linear: keys.linear_retries, exponential: keys.exponential_retries };
    let fits = (1..=24).map(retries).find(|retry| retry.t0_ns() >= Some(rto_ns));
    fits.ok_or_else(|| Problem::new("transport.mrc.rto_us", "at most 17.1 s"))
}

/// The window of PSNs in units of 128, by default two congestion windows of `window` bytes.
fn mpr(keys: &MrcKeys, window: u32) -> Result<u8, Problem> {
    let packets = keys.window_packets.unwrap_or_else(|| {
        let two_windows = (2 * u64::from(window)).div_ceil(u64::from(keys.mtu));
        (two_windows.div_ceil(128).next_power_of_two() * 128).clamp(128, 16_384) as u32
    });
    if !packets.is_multiple_of(128) || !(packets / 128).is_power_of_two() || packets > 16_384 {
        let message = format_args!("{packets}: 128 times a power of two, up to 16384");
        return Err(Problem::new("transport.mrc.window_packets", message));
    }
    Ok((packets / 128) as u8)
}

/// Sizes on the wire that the file sets.
fn wire_sizes(keys: &MrcKeys) -> Result<Option<WireSizes>, Problem> {
    let problem = |key: &str, message: &str| Err(Problem::new(format!("transport.mrc.{key}"), message));
    match (keys.data_overhead_bytes, keys.control_packet_bytes) {
        (None, None) => Ok(None),
        (Some(data_overhead), Some(control)) => {
            for (key, bytes) in [("data_overhead_bytes", data_overhead), ("control_packet_bytes", control)] {
                if !(1..=65_536).contains(&bytes) {
                    return problem(key, &format!("{bytes}: allowed are 1 to 65536"));
                }
            }
            Ok(Some(WireSizes { data_overhead, control }))
        }
        (Some(_), None) => problem("data_overhead_bytes", "needs control_packet_bytes beside it"),
        (None, Some(_)) => problem("control_packet_bytes", "needs data_overhead_bytes beside it"),
    }
}

/// A time that the engine's rules about losses and delays know.
fn short(key: &str, us: f64) -> Result<u64, Problem> {
    match nanos(key, us)? {
        ns if ns <= LONGEST_NS => Ok(ns),
        _ => Err(Problem::new(key, format_args!("{us} us: at most 1e6 us"))),
    }
}

/// The same of a parameter of NSCC, whose zero stands for its default.
fn above_zero(key: &str, us: f64) -> Result<u64, Problem> {
    match short(key, us)? {
        0 => Err(Problem::new(key, format_args!("{us}: at least 0.001 us"))),
        ns => Ok(ns),
    }
}

/// NSCC's parameters on top of `base`, whose zeros stand for defaults.
fn nscc(keys: &MrcKeys, base: NsccConfig) -> Result<NsccConfig, Problem> {
    let at = |key: &str| format!("transport.mrc.{key}");
    let bytes = |key: &str, value: Option<u32>| match value {
        Some(0) => Err(Problem::new(at(key), "0: at least 1 byte")),
        value => Ok(value.unwrap_or(0)),
    };
    let ns = |key: &str, us: Option<f64>| us.map_or(Ok(0), |us| above_zero(&at(key), us)).map(|ns| ns as u32);
    let fraction = |key: &str, value: Option<f64>, most: f64| match value {
        None => Ok(0),
        // Its least, in the engine's fixed point, is not 0.
        Some(value) if value >= 1e-4 && value <= most => Ok((value * 65_536.0) as u32),
        Some(value) => Err(Problem::new(at(key), format_args!("{value}: allowed are 0.0001 to {most}"))),
    };
    let weight_q16 = (probability(at("cc_delay_weight"), keys.cc_delay_weight)? * 65_536.0) as u32;
    if weight_q16 == 0 && keys.cc_delay_weight > 0.0 {
        let message = format_args!("{}: 0, which weighs by time, or at least 0.00002", keys.cc_delay_weight);
        return Err(Problem::new(at("cc_delay_weight"), message));
    }
    if keys.cc_quick_adapt_gate > 31 {
        let message = format_args!("{}: allowed are 0 to 31", keys.cc_quick_adapt_gate);
        return Err(Problem::new(at("cc_quick_adapt_gate"), message));
    }
    Ok(NsccConfig {
        fi_bytes: bytes("cc_fair_increase_bytes", keys.cc_fair_increase_bytes)?,
        eta_bytes: bytes("cc_fixed_increase_bytes", keys.cc_fixed_increase_bytes)?,
        fi_scale_q16: fraction("cc_fast_increase", keys.cc_fast_increase, 16.0)?,
        gamma_q16: fraction("cc_decrease", keys.cc_decrease, 16.0)?,
        max_md_jump_q16: fraction("cc_decrease_least", keys.cc_decrease_least, 1.0)?,
        adjust_bytes: bytes("cc_adjust_bytes", keys.cc_adjust_bytes)?,
        adjust_period_ns: ns("cc_adjust_us", keys.cc_adjust_us)?,
        clear_delay_ns: ns("cc_clear_us", keys.cc_clear_us)?,
        qa_gate: keys.cc_quick_adapt_gate,
        qa_threshold_ns: ns("cc_quick_adapt_us", keys.cc_quick_adapt_us)?,
        disable_qa: !keys.cc_quick_adapt,
        disable_rtt_probe: !keys.cc_rtt_probe,
        window_follows_rtt: keys.cc_window_follows_rtt,
        crowds: keys.cc_crowds,
        avg_weight_q16: weight_q16,
        ..base
    })
}

/// Whether [`selector`] or [`paths`] reads this key, so that it holds for other transports with a selector, too.
pub(super) fn selects(key: &str) -> bool {
    let groups = ["hopper_", "flow_bender_", "plb_", "reps_", "flowing_"];
    let of_paths = [
        "active_evs",
        "backup_evs",
        "ev_min_active",
        "probe_interval_us",
        "resurrect_probes",
        "relapse_backoff",
        "bad_probes_outstanding",
        "skip_us",
        "loss_action",
        "loss_streak",
        "plane_lead",
        "last_resort",
        "reuse_nacked_ev",
    ];
    of_paths.contains(&key) || groups.iter().any(|group| key.starts_with(group))
}

/// Selector `which` with its knobs; `None`: each queue pair keeps to one path.
pub(super) fn selector(
    which: SelectorKey,
    keys: &MrcKeys,
    packet_bytes: u16,
    topology: &Topology,
) -> Result<Option<Selector>, Problem> {
    // Wrong values are refused whichever selector there is, as those of all other keys are.
    let suspend_ns = nanos("transport.mrc.plb_suspend_us", keys.plb_suspend_us)?;
    let path_rate = |gbps| rate_bps("transport.mrc.flowing_gbps", gbps);
    let path_rate_bps = keys.flowing_gbps.map_or(Ok(topology.host_link().rate_bps), path_rate)?;
    let selector = match which {
        SelectorKey::Spray => Some(Selector::Spray),
        SelectorKey::Oblivious => Some(Selector::Oblivious),
        SelectorKey::Single => None,
        SelectorKey::Hopper => Some(Selector::Hopper(HopperConfig {
            alpha_percent: keys.hopper_alpha_percent,
            th_probe_percent: keys.hopper_probe_percent,
            th_cong_percent: keys.hopper_congested_percent,
            ttl_probe_percent: keys.hopper_ttl_percent,
            delta_rtt_percent: keys.hopper_better_percent,
            switch_delay_percent: keys.hopper_pause_percent,
            switch_delay_max_percent: keys.hopper_pause_max_percent,
            move_on_loss: keys.hopper_move_on_loss,
            probe_on_mark: keys.hopper_probe_on_mark,
            ..HopperConfig::DEFAULT
        })),
        SelectorKey::FlowBender => Some(Selector::FlowBender(FlowBenderConfig {
            threshold_permille: keys.flow_bender_permille,
            epochs: keys.flow_bender_epochs,
            rtt_percent: keys.flow_bender_rtt_percent,
            ..FlowBenderConfig::DEFAULT
        })),
        SelectorKey::Plb => Some(Selector::Plb(PlbConfig {
            threshold_permille: keys.plb_permille,
            idle_rounds: keys.plb_idle_rounds,
            rounds: keys.plb_rounds,
            suspend_ns,
            ..PlbConfig::DEFAULT
        })),
        SelectorKey::Reps => Some(Selector::Reps(RepsConfig {
            explore_packets: keys.reps_explore_packets,
            reuse: keys.reps_reuse,
            freeze_percent: keys.reps_freeze_percent,
        })),
        SelectorKey::FlowingJumping => Some(Selector::FlowingJumping(FlowingJumpingConfig {
            paths: keys.flowing_paths,
            demand_packets: keys.flowing_demand_packets,
            packet_bytes,
            bandwidth_mbps: u32::try_from(path_rate_bps / 1_000_000).unwrap_or(u32::MAX).max(1),
            aging_percent: keys.flowing_aging_percent,
            refresh_percent: keys.flowing_refresh_percent,
        })),
    };
    match selector.map(|selector| selector.check()) {
        Some(Err(PathError::Knob(text))) => Err(Problem::new("transport.mrc.selector", text)),
        _ => Ok(selector),
    }
}

pub(super) fn paths(scenario: &Scenario) -> Result<PathConfig, Problem> {
    let keys = &scenario.transport.mrc;
    Ok(PathConfig {
        active: keys.active_evs,
        backup: keys.backup_evs,
        ev_min_active: keys.ev_min_active,
        probe_interval_ns: nanos("transport.mrc.probe_interval_us", keys.probe_interval_us)?,
        resurrect_probes: keys.resurrect_probes,
        relapse_backoff: keys.relapse_backoff,
        bad_probes_outstanding: keys.bad_probes_outstanding,
        skip_mode: match keys.skip_us {
            None => SkipMode::Rotation,
            Some(us) => SkipMode::Time { ns: nanos("transport.mrc.skip_us", us)? },
        },
        loss_ev_action: match keys.loss_action {
            LossActionKey::ByTrimming => LossEvAction::ByTrimming,
            LossActionKey::AssumedBad => LossEvAction::AssumedBad,
            LossActionKey::Skip => LossEvAction::Skip,
        },
        loss_streak: keys.loss_streak,
        plane_lead: keys.plane_lead,
        last_resort: keys.last_resort,
        reuse_nacked_ev: keys.reuse_nacked_ev,
        ..PathConfig::DEFAULT
    })
}
