//! `[transport.roce]`: RoCEv2 Reliable Connection, to compare with.

use mrc_core::path::PathConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::build::{nanos, rate_bps};
use super::{Problem, Scenario, SelectorKey, mrc, rtt};
use crate::fabric::{LinkId, LinkSpec, Topology};
use crate::host::{DcqcnConfig, Recovery, RocePaths, RoceSettings};

/// How losses are repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecoveryKey {
    /// As RoCEv2 NICs do.
    #[default]
    GoBackN,
    /// As IRN proposes: selective repeat, a window of one bandwidth-delay product.
    SelectiveRepeat,
}

/// Congestion control of RoCE.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoceCcKey {
    /// DCQCN with the published parameters, increases scaled to the line rate.
    #[default]
    Dcqcn,
    /// Cuts more often, comes back more slowly.
    DcqcnAggressive,
    /// Cuts with every notification.
    DcqcnMostAggressive,
    /// DCQCN with the parameters of the simulator that ConWeave's authors published, which Hopper's authors used too.
    DcqcnConweave,
    /// Line rate, held back by PFC alone.
    None,
}

/// `[transport.roce]`.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct RoceKeys {
    /// Queue pairs per connection; a message is cut into as many pieces.
    pub qps: u32,
    /// Payload of a full packet: 256, 512, 1024, 2048 or 4096.
    pub mtu: u32,
    /// How losses are repaired.
    pub recovery: RecoveryKey,
    /// Packets a queue pair may have in flight; by default one bandwidth-delay product for `selective-repeat`, else no
    /// limit.
    pub window_packets: Option<u32>,
    /// Retransmission timer; 10 round trips by default, at least 4.2 ms (the timeout of 10 that NICs use), or 320 us for
    /// `selective-repeat`.
    pub rto_us: Option<f64>,
    /// The timer when hardly anything is in flight; 3 round trips, at least 100 us, for `selective-repeat`, else as
    /// `rto_us`.
    pub rto_low_us: Option<f64>,
    /// Timeouts in a row that fail a queue pair.
    pub retries: u32,
    /// Acknowledge at least every so many packets.
    pub ack_every: u32,
    /// Packets that may be ahead of the first missing one before a `selective-repeat` receiver reports a hole; Hopper's have 30.
    pub reorder_packets: u32,
    /// How a queue pair chooses the UDP source port of each packet, by which switches hash. Acknowledgements then repeat
    /// marks. The knobs of the selectors (`hopper_probe_percent`, `active_evs`, ...) are those of `[transport.mrc]`.
    pub selector: SelectorKey,
    /// Bytes that a queue pair sends on one path before its selector may choose another one, as where software cuts flows into
    /// pieces and each piece keeps to a path; 0: each packet may leave on another one.
    pub piece_bytes: u32,
    /// Each piece is a send of its own: it begins when the one before is acknowledged and no probe is out. Its time is the
    /// round trip that the selector sees; thresholds refer to that of a piece over an idle path (Hopper's prototype). For
    /// `piece_bytes`.
    pub pieces_in_turn: bool,
    /// A queue pair that moves begins at line rate, as where each path has a queue pair of its own (Hopper's prototype).
    pub rate_per_path: bool,
    /// Payload of a probe, at most 65536.
    pub probe_bytes: u32,
    /// Congestion control.
    pub cc: RoceCcKey,
    /// A receiver that reports a hole also notifies the sender as of a mark, as ConWeave's authors saw NICs do. For DCQCN.
    pub hole_notifies: bool,
    /// Distance of two congestion notifications to a queue pair; the profile's by default.
    pub cnp_us: Option<f64>,
    /// DCQCN's additive increase; the profile's by default.
    pub additive_gbps: Option<f64>,
    /// Distance of two increases by time; the profile's by default.
    pub rise_us: Option<f64>,
}

impl Default for RoceKeys {
    fn default() -> Self {
        Self {
            qps: 1,
            mtu: 4096,
            recovery: RecoveryKey::GoBackN,
            window_packets: None,
            rto_us: None,
            rto_low_us: None,
            retries: 7,
            ack_every: 4,
            reorder_packets: 0,
            selector: SelectorKey::Single,
            piece_bytes: 0,
            pieces_in_turn: false,
            rate_per_path: false,
            probe_bytes: 0,
            cc: RoceCcKey::Dcqcn,
            hole_notifies: false,
            cnp_us: None,
            additive_gbps: None,
            rise_us: None,
        }
    }
}

/// Settings of the hosts on `topology`.
pub(super) fn build(
    scenario: &Scenario,
    (topology, links): (&Topology, &[(LinkId, LinkSpec)]),
) -> Result<RoceSettings, Problem> {
    let keys = &scenario.transport.roce;
    let at = |key: &str| format!("transport.roce.{key}");
    if !matches!(keys.mtu, 256 | 512 | 1024 | 2048 | 4096) {
        return Err(Problem::new(at("mtu"), format_args!("{}: allowed are 256, 512, 1024, 2048, 4096", keys.mtu)));
    }
    for (key, value) in [("qps", keys.qps), ("ack_every", keys.ack_every), ("retries", keys.retries)] {
        if !(1..=256).contains(&value) {
            return Err(Problem::new(at(key), format_args!("{value}: allowed are 1 to 256")));
        }
    }
    if keys.window_packets.is_some_and(|window| !(1..=1 << 22).contains(&window)) {
        return Err(Problem::new(at("window_packets"), "allowed are 1 to 4194304"));
    }
    let (full, ack) = RoceSettings::wire_bytes(keys.mtu);
    let base_rtt_ns = rtt::base_rtt_ns(topology, links, (full, ack));
    let line = topology.host_link().rate_bps;
    // What the receiver has not acknowledged yet although it could does not count.
    let bdp = (line as f64 * base_rtt_ns as f64 / 8e9 / f64::from(full)).ceil() as u32 + keys.ack_every;
    let selective = keys.recovery == RecoveryKey::SelectiveRepeat;
    if keys.reorder_packets > 0 && !selective {
        return Err(Problem::new(
            at("reorder_packets"),
            "go-back-n takes packets in order only: recovery = \"selective-repeat\"",
        ));
    }
    if keys.reorder_packets > 1 << 16 {
        return Err(Problem::new(at("reorder_packets"), "allowed are 0 to 65536"));
    }
    for (key, value) in [("rto_us", keys.rto_us), ("rto_low_us", keys.rto_low_us), ("rise_us", keys.rise_us)] {
        if value.is_some_and(|us| us <= 0.0) {
            return Err(Problem::new(at(key), "a timer of 0 would run out at once: at least 0.001"));
        }
    }
    let rto_ns = match keys.rto_us {
        Some(us) => nanos(at("rto_us"), us)?.max(1),
        None => (10 * base_rtt_ns).max(if selective { 320_000 } else { 4_194_304 }),
    };
    let rto_low_ns = match keys.rto_low_us {
        Some(us) => nanos(at("rto_low_us"), us)?.max(1),
        None if selective => (3 * base_rtt_ns).max(100_000),
        None => rto_ns,
    };
    Ok(RoceSettings {
        qps: keys.qps,
        connections: scenario.transport.connections.0,
        mtu: keys.mtu,
        recovery: if selective { Recovery::SelectiveRepeat } else { Recovery::GoBackN },
        window_packets: keys.window_packets.or(selective.then_some(bdp)),
        rto_ns,
        rto_low_ns,
        retries: keys.retries,
        ack_every: keys.ack_every,
        reorder_packets: keys.reorder_packets,
        hole_notifies: keys.hole_notifies,
        dcqcn: dcqcn(keys, line)?,
        paths: paths(scenario, topology, base_rtt_ns, rto_ns)?,
    })
}

fn paths(
    scenario: &Scenario,
    topology: &Topology,
    base_rtt_ns: u64,
    probe_patience_ns: u64,
) -> Result<Option<RocePaths>, Problem> {
    let keys = &scenario.transport.roce;
    let at = |key: &str| format!("transport.roce.{key}");
    if keys.pieces_in_turn && keys.piece_bytes == 0 {
        return Err(Problem::new(at("pieces_in_turn"), "needs the size of a piece: piece_bytes"));
    }
    if keys.probe_bytes > 1 << 16 {
        return Err(Problem::new(at("probe_bytes"), "allowed are 0 to 65536"));
    }
    let hold_packets = keys.piece_bytes.div_ceil(keys.mtu).max(1);
    let base_rtt_ns = match keys.pieces_in_turn {
        false => base_rtt_ns,
        true => {
            let rates = (0..topology.links()).map(|link| topology.link_spec(LinkId(link)).rate_bps);
            let slowest_bps = rates.min().unwrap_or(u64::MAX);
            let behind = u64::from(hold_packets - 1) * u64::from(RoceSettings::wire_bytes(keys.mtu).0);
            base_rtt_ns + (u128::from(behind) * 8_000_000_000 / u128::from(slowest_bps)) as u64
        }
    };
    let cfg = PathConfig { base_rtt_ns, ..mrc::paths(scenario)? };
    if keys.selector != SelectorKey::Single && cfg.active == 0 {
        return Err(Problem::new("transport.mrc.active_evs", "a selector needs a path at least: 1 to 65535"));
    }
    let selector = mrc::selector(keys.selector, &scenario.transport.mrc, keys.mtu as u16, topology);
    Ok(selector?.map(|selector| RocePaths {
        selector,
        cfg,
        probe_patience_ns,
        hold_packets,
        in_turn: keys.pieces_in_turn,
        rate_per_path: keys.rate_per_path,
        probe_bytes: keys.probe_bytes,
    }))
}

fn dcqcn(keys: &RoceKeys, line_bps: u64) -> Result<Option<DcqcnConfig>, Problem> {
    let at = |key: &str| format!("transport.roce.{key}");
    let mut cfg = match keys.cc {
        RoceCcKey::None => return Ok(None),
        RoceCcKey::Dcqcn => DcqcnConfig::published(line_bps),
        RoceCcKey::DcqcnAggressive => DcqcnConfig::aggressive(line_bps),
        RoceCcKey::DcqcnMostAggressive => DcqcnConfig::most_aggressive(line_bps),
        RoceCcKey::DcqcnConweave => DcqcnConfig::conweave(line_bps),
    };
    if let Some(us) = keys.cnp_us {
        cfg.cnp_interval_ns = nanos(at("cnp_us"), us)?;
    }
    if let Some(us) = keys.rise_us {
        cfg.rise_interval_ns = nanos(at("rise_us"), us)?.max(1_000);
    }
    if let Some(gbps) = keys.additive_gbps {
        (cfg.additive_bps, cfg.additive_scales) = (rate_bps(at("additive_gbps"), gbps)?, false);
    }
    Ok(Some(cfg))
}
