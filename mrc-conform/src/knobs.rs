//! What a script may ask of the endpoint before it starts: numbers by name. One table, because the same names stand in
//! scripts, in the set-up file of a foreign endpoint and in the control protocol.

use std::collections::BTreeMap;

/// A knob of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Knob {
    /// Name in scripts.
    pub name: &'static str,
    /// Value when a script does not set it.
    pub default: i64,
    /// Meaning and unit.
    pub doc: &'static str,
}

const fn k(name: &'static str, default: i64, doc: &'static str) -> Knob {
    Knob { name, default, doc }
}

/// Every knob.
pub const KNOBS: &[Knob] = &[
    k("mtu", 1_024, "path MTU, payload bytes"),
    k("psn", 0, "first PSN of the tester's writes"),
    k("sq_psn", 0, "first PSN of the target's writes"),
    k("state", 3, "state of the target's QP: reset, init, rtr, rts, error"),
    k("mpr", 8, "window of the target's responder, units of 128 PSNs"),
    k("mpr_tx", 8, "window of the target's requester, units of 128 PSNs"),
    k("dynamic_mpr", 0, "Dynamic MPR agreed"),
    k("max_wimm", 32, "writes with immediate the target may have in flight"),
    k("max_wimm_dest", 32, "writes with immediate the target accepts in flight"),
    k("timeout", 14, "T0 = 1.024 us * 2^timeout; 0 = no timer"),
    k("linear", 7, "retries at T0"),
    k("exp", 3, "retries at doubling intervals; 25 = unlimited"),
    k("trimming", 0, "trimming agreed for the target's writes"),
    k("trim_nack", 1, "the target answers trimmed packets with a NACK"),
    k("svc_time", 0, "the target adds its service time to reflected timestamps"),
    k("timestamps", 1, "the target's writes carry TSETH"),
    k("sack_threshold", 16_384, "received bytes that trigger a SACK"),
    k("ev_probe_rate", 0, "EV probes per second that look for ways back"),
    k("port_update_on_rts", 0, "tell the ports that are up when a QP enters RTS"),
    k("port_mask_zero_based", 0, "bit N of a port status mask stands for port N + 1"),
    k("oor_silent", 0, "no NACK for packets above the window"),
    k("answers_on_silent_planes", 0, "control packets also on planes whose EV probes nobody answers"),
    k("complete_on_sack", 0, "a SACK completes requests"),
    k("retry_strict", 0, "every retried packet counts against the budget"),
    k("msn_start", 0, "first MSN"),
    k("rqmsn_start", 0, "first RQMSN"),
    k("reject_zero_len", 0, "zero-length messages are refused when posted"),
    k("ctl_ect", 0, "control packets are ECN-capable"),
    k("always_skip_after", 0, "CE marks in a row on one EV that become ALWAYS_SKIP; 0 = never"),
    k("wimm_nak_syndrome", 0x61, "NAK of a write with immediate beyond the limit"),
    k("no_receive", 0, "an immediate without receive request: hold the ACK, or nak"),
    k("tail_retry_lenient", 0, "an answered tail repeat does not count as retry"),
    k("planes", 1, "ports of the target"),
    k("evs", 8, "entries of the EV profile, over all planes"),
    k("ip", 6, "inner IP version"),
    k("srv6", 0, "an outer IPv6 header carries the path"),
    k("base_rtt", 50_000, "unloaded round trip, ns"),
    k("target_delay", 50_000, "queueing delay aimed at, ns"),
    k("window", 262_144, "fixed congestion window, bytes"),
    k("reorder_min", 3, "fewest packets that must overtake a lost one"),
    k("reorder_factor", 384, "part of the window, in 1/256, that must overtake a lost one"),
    k("probe_limit", 10_000, "shortest time between two probes, ns"),
    k("keepalive", 0, "probe a silent peer this often, ns"),
    k("skip_time", 0, "an EV stays in SKIP this long, ns; 0 = until the rotation passed"),
    k("loss_ev_action", 0, "an inferred loss makes an EV: 0 by trimming, 1 bad, 2 skip, 3 nothing"),
    k("resurrect_probes", 1, "good probe answers that revive an EV"),
    k("probe_interval", 1_000_000, "distance of two probes of a bad EV, ns"),
    k("ev_min_active", 1, "EVs that stay in rotation whatever happens"),
    k("last_resort", 1, "use a bad EV when there is no other"),
    k("pkey", 0xFFFF, "partition key"),
    k("udp_port", 4_791, "UDP destination port sent"),
    k("ev_high_half_in_sport", 0, "the high half of the EV is the UDP source port"),
    k("bth_se_bit", 7, "bit of byte 1 of BTH that asks for a solicited event"),
    k("neth_cc_type", 2, "cc_type of NACKs"),
    k("dscp_retx", 8, "code point of retransmissions while trimming is agreed"),
    k("access", 1, "the target's memory may be written remotely"),
];

/// Values of the knobs of one script.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Knobs(BTreeMap<String, i64>);

impl Knobs {
    /// Value of a knob.
    pub fn get(&self, name: &str) -> i64 {
        let default = || KNOBS.iter().find(|knob| knob.name == name).map_or(0, |knob| knob.default);
        self.0.get(name).copied().unwrap_or_else(default)
    }

    /// Whether a switch is on.
    pub fn on(&self, name: &str) -> bool {
        self.get(name) != 0
    }

    /// Sets a knob. Whether there is such a knob.
    pub fn set(&mut self, name: &str, value: i64) -> bool {
        let known = KNOBS.iter().any(|knob| knob.name == name);
        if known {
            self.0.insert(name.into(), value);
        }
        known
    }

    /// Those that a script sets, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

/// A value as scripts write it: a number or one of the words of a knob.
pub(crate) fn word(text: &str) -> Option<i64> {
    Some(match text {
        "off" | "hold" | "reset" => 0,
        "on" | "nak" | "init" => 1,
        "rtr" => 2,
        "rts" => 3,
        "error" => 4,
        _ => return crate::script::number(text).and_then(|n| i64::try_from(n).ok()),
    })
}
