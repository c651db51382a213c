//! `[queue]`: from keys to the queues of switch ports. Each transport has defaults of its own, from its own sources; none
//! follows from another's knobs.

use super::job::{self, SpokenKeys};
use super::{Problem, QueueKeys, RecoveryKey, Scenario, TransportKind, VictimKey};
use crate::fabric::{EcnSpec, PfcSpec, QueueSpec, Topology, TrimSpec, TrimVictim};
use crate::host::RoceSettings;

/// What a file may leave out.
struct Defaults {
    /// `None`: as many as PFC lets in.
    data_bytes: Option<u32>,
    control_bytes: u32,
    control_percent: u8,
    ecn_min_bytes: u32,
    ecn_max_bytes: u32,
    ecn_max_percent: u8,
    ecn_last_hop: bool,
    trim: bool,
    trim_bytes: u32,
    trim_last_hop_bytes: u32,
    pfc: bool,
}

/// Recommendations for MRC fabrics, in units of what one plane holds in a round trip (plane BDP).
fn of_mrc(topology: &Topology, base_rtt_ns: u64) -> Defaults {
    let bdp = topology.host_link().rate_bps as f64 * base_rtt_ns as f64 / 8e9;
    let part = |share: f64| (bdp * share).clamp(4_200.0, f64::from(u32::MAX / 2)) as u32;
    Defaults {
        data_bytes: Some(part(5.0)),
        control_bytes: part(5.0),
        control_percent: 25,
        ecn_min_bytes: part(0.2),
        ecn_max_bytes: part(0.8),
        ecn_max_percent: 100,
        ecn_last_hop: false,
        trim: true,
        trim_bytes: part(1.0),
        trim_last_hop_bytes: part(1.5),
        pfc: false,
    }
}

/// Published settings for RoCEv2 at 40 Gb/s. Bytes grow with the rate of a host's link, so that a queue of them drains in the
/// same time at any rate.
mod roce_40g {
    /// DCQCN (Zhu et al., SIGCOMM 2015), table of deployed parameters: no mark below.
    pub(super) const K_MIN: f64 = 5_000.0;
    /// The same: every packet above.
    pub(super) const K_MAX: f64 = 200_000.0;
    /// The same: chance just below `K_MAX`, in percent.
    pub(super) const P_MAX: u8 = 1;
    /// The same, section 4: a switch of 32 ports has 12 MB, of which 8 classes of 22.4 kB headroom per port leave 6.27 MB to
    /// share: bytes per Gb/s of its ports.
    pub(super) const SHARED_PER_GBPS: u32 = 4_900;
    /// The same: pause at beta = 8 eighths of what is free.
    pub(super) const BETA: u32 = 8;
    /// IRN (Mittal et al., SIGCOMM 2018), section 4.1: buffer of a port where nothing pauses, two bandwidth-delay products.
    pub(super) const LOSSY: f64 = 240_000.0;
}

/// `lossless`: whether switches pause by default.
fn of_roce(scenario: &Scenario, topology: &Topology, lossless: bool) -> Defaults {
    let times = topology.host_link().rate_bps as f64 / 40e9;
    let scaled = |bytes: f64| (bytes * times).clamp(4_200.0, f64::from(u32::MAX / 2)) as u32;
    let pfc = scenario.queue.pfc.unwrap_or(lossless && scenario.queue.trim != Some(true));
    Defaults {
        data_bytes: (!pfc).then(|| scaled(roce_40g::LOSSY)),
        control_bytes: scaled(roce_40g::LOSSY),
        control_percent: 0,
        ecn_min_bytes: scaled(roce_40g::K_MIN),
        ecn_max_bytes: scaled(roce_40g::K_MAX),
        ecn_max_percent: roce_40g::P_MAX,
        ecn_last_hop: true,
        trim: false,
        trim_bytes: scaled(roce_40g::LOSSY),
        trim_last_hop_bytes: scaled(roce_40g::LOSSY),
        pfc,
    }
}

/// Bytes on the wire of the longest packet, as far as the queue's limits need it.
fn full_packet(scenario: &Scenario) -> u32 {
    // Values that are wrong are refused with the transport's settings.
    let full = |spoken: &SpokenKeys| match spoken.keys.kind {
        TransportKind::Mrc => u32::from(spoken.keys.mrc.mtu.clamp(256, 4096)) + 142,
        TransportKind::Roce => RoceSettings::wire_bytes(spoken.keys.roce.mtu.clamp(256, 4096)).0,
        TransportKind::Named(info) => spoken.params(info).map_or(0, |values| (info.longest_packet)(&values)),
    };
    job::spoken(scenario).0.iter().map(full).max().unwrap_or_default()
}

/// The queues of all switch ports; `base_rtt_ns` is the round trip that MRC's recommendations refer to.
pub(super) fn build(scenario: &Scenario, topology: &Topology, base_rtt_ns: u64) -> Result<QueueSpec, Problem> {
    let keys = &scenario.queue;
    let defaults = match scenario.transport.kind {
        TransportKind::Mrc => of_mrc(topology, base_rtt_ns),
        TransportKind::Roce => {
            let lossless = scenario.transport.roce.recovery == RecoveryKey::GoBackN;
            of_roce(scenario, topology, lossless)
        }
        TransportKind::Named(_) => of_roce(scenario, topology, false),
    };
    let pfc = keys.pfc.unwrap_or(defaults.pfc);
    // What PFC lets in bounds a lossless queue: a limit of its own would drop what senders were allowed to send.
    let unbounded = pfc.then_some(u32::MAX / 2);
    let full = full_packet(scenario);
    // What the file leaves out has room for a packet, whatever it follows from.
    let data_by_default = defaults.data_bytes.unwrap_or(defaults.control_bytes).max(full);
    let data_bytes = keys.data_bytes.or(unbounded).unwrap_or(data_by_default);
    if data_bytes < full {
        let message = format_args!("{data_bytes}: a full packet has {full} bytes; at least as many");
        return Err(Problem::new("queue.data_bytes", message));
    }
    let control_by_default = defaults.control_bytes.max(keys.trimmed_bytes);
    let control_bytes = keys.control_bytes.or(keys.data_bytes).unwrap_or(control_by_default);
    if control_bytes < keys.trimmed_bytes {
        let message = format_args!("{control_bytes}: at least one packet of trimmed_bytes, {}", keys.trimmed_bytes);
        return Err(Problem::new("queue.control_bytes", message));
    }
    let trim = trim(keys, &defaults, data_bytes, full)?;
    if trim.is_some() && pfc {
        return Err(Problem::new("queue.pfc", "a class is trimmed or paused, not both: set trim or pfc to false"));
    }
    if pfc && scenario.transport.kind != TransportKind::Roce {
        let who = match scenario.transport.kind {
            TransportKind::Mrc => "MRC",
            other => other.name(),
        };
        let message = format_args!("{who} hosts do not pause: pfc goes with transport.kind = \"roce\"");
        return Err(Problem::new("queue.pfc", message));
    }
    let control_percent = keys.control_percent.unwrap_or(defaults.control_percent);
    if control_percent > 100 {
        let message = format_args!("{control_percent}: allowed are 0 to 100 percent");
        return Err(Problem::new("queue.control_percent", message));
    }
    Ok(QueueSpec {
        data_bytes,
        control_bytes,
        control_percent: (control_percent > 0).then_some(control_percent),
        ecn: ecn(keys, &defaults)?,
        trim,
        pfc: pfc_of(keys, pfc)?,
        ..QueueSpec::default()
    })
}

fn ecn(keys: &QueueKeys, defaults: &Defaults) -> Result<Option<EcnSpec>, Problem> {
    let min_bytes = keys.ecn_min_bytes.unwrap_or(defaults.ecn_min_bytes);
    let max_bytes = keys.ecn_max_bytes.unwrap_or(defaults.ecn_max_bytes);
    if keys.ecn && min_bytes > max_bytes {
        if keys.ecn_min_bytes.is_none() {
            let message = format_args!("{max_bytes} is below ecn_min_bytes, {min_bytes} by default; at least as much");
            return Err(Problem::new("queue.ecn_max_bytes", message));
        }
        let message = format_args!("{min_bytes} is above ecn_max_bytes, {max_bytes}; at most as much");
        return Err(Problem::new("queue.ecn_min_bytes", message));
    }
    let max_percent = keys.ecn_max_percent.unwrap_or(defaults.ecn_max_percent);
    if max_percent > 100 {
        let message = format_args!("{max_percent}: allowed are 0 to 100 percent");
        return Err(Problem::new("queue.ecn_max_percent", message));
    }
    let last_hop = keys.ecn_last_hop.unwrap_or(defaults.ecn_last_hop);
    Ok(keys.ecn.then_some(EcnSpec { min_bytes, max_bytes, max_percent, last_hop }))
}

fn trim(keys: &QueueKeys, defaults: &Defaults, data_bytes: u32, full: u32) -> Result<Option<TrimSpec>, Problem> {
    if !keys.trim.unwrap_or(defaults.trim) {
        return Ok(None);
    }
    let trimmed_bytes = keys.trimmed_bytes;
    if trimmed_bytes < 64 || trimmed_bytes >= full {
        let message = format_args!("{trimmed_bytes}: at least 64, and less than a full packet, {full}");
        return Err(Problem::new("queue.trimmed_bytes", message));
    }
    let threshold = |key: &str, value: Option<u32>, default: u32| match value {
        Some(bytes) if bytes > data_bytes => {
            let message =
                format_args!("{bytes} is above data_bytes, {data_bytes}: packets would drop before they are trimmed");
            Err(Problem::new(format!("queue.{key}"), message))
        }
        value => Ok(value.unwrap_or(default.min(data_bytes))),
    };
    Ok(Some(TrimSpec {
        threshold_bytes: threshold("trim_bytes", keys.trim_bytes, defaults.trim_bytes)?,
        last_hop_threshold_bytes: threshold(
            "trim_last_hop_bytes",
            keys.trim_last_hop_bytes,
            defaults.trim_last_hop_bytes,
        )?,
        trimmed_bytes,
        victim: match keys.trim_victim {
            VictimKey::Arriving => TrimVictim::Arriving,
            VictimKey::ArrivingOrLast => TrimVictim::ArrivingOrLast,
            VictimKey::ArrivingOrAny => TrimVictim::ArrivingOrAny,
        },
        last_hop_dscp: keys.trim_last_hop_code,
    }))
}

fn pfc_of(keys: &QueueKeys, pfc: bool) -> Result<Option<PfcSpec>, Problem> {
    let Some(xoff_bytes) = keys.pfc_xoff_bytes else {
        if keys.pfc_xon_bytes.is_some() {
            return Err(Problem::new("queue.pfc_xon_bytes", "needs pfc_xoff_bytes beside it"));
        }
        let dynamic = PfcSpec::Dynamic { bytes_per_gbps: roce_40g::SHARED_PER_GBPS, beta: roce_40g::BETA };
        return Ok(pfc.then_some(dynamic));
    };
    let xon_bytes = keys.pfc_xon_bytes.unwrap_or(xoff_bytes / 2);
    if pfc && xon_bytes > xoff_bytes {
        let message = format_args!("{xon_bytes} is above pfc_xoff_bytes, {xoff_bytes}; at most as much");
        return Err(Problem::new("queue.pfc_xon_bytes", message));
    }
    Ok(pfc.then_some(PfcSpec::Static { xoff_bytes, xon_bytes }))
}
