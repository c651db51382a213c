//! What a script may ask of the endpoint before it starts: numbers by name. One table, because the same names stand in
//! scripts, in the set-up file of a foreign endpoint and in the control protocol.

use std::collections::BTreeMap;

use Values::{OneOf, Range, Words};

use crate::register::nearest;
use crate::target::STATES;

/// A knob of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Knob {
    /// Name in scripts.
    pub name: &'static str,
    /// Value when a script does not set it.
    pub default: i64,
    /// Meaning and unit.
    pub doc: &'static str,
    /// The open question of the protocol that it settles (`spec/decisions.toml`); empty where it is plain configuration.
    pub question: &'static str,
    /// What it can be set to; JSON has this as text.
    pub values: Values,
}

const fn k(name: &'static str, default: i64, values: Values, doc: &'static str) -> Knob {
    Knob { name, default, doc, question: "", values }
}

const fn q(question: &'static str, name: &'static str, default: i64, values: Values, doc: &'static str) -> Knob {
    Knob { name, default, doc, question, values }
}

/// Every knob.
pub const KNOBS: &[Knob] = &[
    k("mtu", 1_024, OneOf(&[256, 512, 1024, 2048, 4096]), "path MTU, payload bytes"),
    k("psn", 0, Range(0, 0xFF_FFFF), "first PSN of the tester's writes"),
    k("sq_psn", 0, Range(0, 0xFF_FFFF), "first PSN of the target's writes"),
    k("state", 3, Words(STATES, 4), "state of the target's QP"),
    k("mpr", 8, Range(1, 255), "window of the target's responder, units of 128 PSNs"),
    k("mpr_tx", 8, Range(1, 255), "window of the target's requester, units of 128 PSNs"),
    k("dynamic_mpr", 0, SWITCH, "Dynamic MPR agreed"),
    k("max_wimm", 32, Range(0, 0xFFFF), "writes with immediate the target may have in flight"),
    k("max_wimm_dest", 32, Range(0, 0xFFFF), "writes with immediate the target accepts in flight"),
    k("timeout", 14, Range(0, 24), "T0 = 1.024 us * 2^timeout; 0 = no timer"),
    k("linear", 7, Range(0, 7), "retries at T0"),
    k("exp", 3, Range(0, 25), "retries at doubling intervals; 25 = unlimited"),
    q("OQ-13", "exp_from_t0", 0, SWITCH, "the first of these intervals is T0, not twice as long"),
    k("trimming", 0, SWITCH, "trimming agreed for the target's writes"),
    k("trim_nack", 1, SWITCH, "the target answers trimmed packets with a NACK"),
    q("OQ-26", "trim_keeps_tseth", 0, SWITCH, "trimmed packets that end before TSETH are dropped"),
    q("OQ-21", "svc_time", 0, SWITCH, "the target adds its service time to reflected timestamps"),
    q("OQ-22", "tsr_us", 0, SWITCH, "a private timestamp (tsr = 1) counts microseconds, where service time is added"),
    k("timestamps", 1, SWITCH, "the target's writes carry TSETH"),
    q("OQ-34", "bitmap_reach", 63, OneOf(&[63, 64]), "a bitmap of the newest PSNs begins so far below the highest one"),
    q("OQ-40", "right_edge_retreats", 0, SWITCH, "a smaller window refuses packets that the wider one allowed"),
    q("OQ-32", "sack_threshold", 16_384, ANY, "received bytes that trigger a SACK"),
    k("ev_probe_rate", 0, ANY, "EV probes per second that look for return paths"),
    k("port_update_on_rts", 0, SWITCH, "tell the ports that are up when a QP enters RTS"),
    q(
        "OQ-61",
        "port_unmask_after",
        16_777_216,
        ANY,
        "a packet from a port masked this long ago unmasks it, ns; 0 = never",
    ),
    q("OQ-61", "probe_masked_ports", 1, SWITCH, "probe ports that the peer has masked when no other is left"),
    q("OQ-30", "port_mask_zero_based", 0, SWITCH, "bit N of a port status mask stands for port N + 1"),
    q("OQ-04", "oor_silent", 0, SWITCH, "no NACK for packets above the window"),
    q("OQ-47", "answers_on_silent_planes", 0, SWITCH, "control packets also on planes whose EV probes nobody answers"),
    q("OQ-11", "complete_on_sack", 0, SWITCH, "a SACK completes requests"),
    q("OQ-50", "stale_nak_fatal", 0, SWITCH, "a Transport NAK ends the QP also below the last Transport ACK"),
    q("OQ-12", "retry_strict", 0, SWITCH, "every retried packet counts against the budget"),
    q("OQ-12", "tail_retry_paced", 0, SWITCH, "tail repeats are retries no faster than a packet's timer"),
    k(
        "silent_packets",
        0,
        Range(0, 0xFF),
        "behind a timeout without an answer since, lost packets wait while so many are in flight; 0: no limit",
    ),
    q("OQ-09", "msn_start", 0, Range(0, 0xFFFF), "first MSN"),
    q("OQ-09", "rqmsn_start", 0, Range(0, 0xFFFF), "first RQMSN"),
    q("OQ-36", "reject_zero_len", 0, SWITCH, "zero-length messages are refused when posted"),
    q("OQ-28", "ctl_ect", 0, SWITCH, "control packets are ECN-capable"),
    q(
        "OQ-43",
        "always_skip_after",
        0,
        Range(0, 0xFF),
        "CE marks in a row on one EV that become ALWAYS_SKIP; 0 = never",
    ),
    q("OQ-10", "wimm_nak_syndrome", 0x61, Range(0, 0xFF), "NAK of a write with immediate beyond the limit"),
    q(
        "OQ-38",
        "no_receive",
        0,
        Words(&["hold", "nak"], 1),
        "an immediate without receive request: hold the ACK, or nak",
    ),
    q("OQ-38", "tail_retry_lenient", 0, SWITCH, "an answered tail repeat does not count as retry"),
    k("planes", 1, Range(1, 8), "ports of the target"),
    k("evs", 8, Range(1, 192), "entries of the EV profile, over all planes"),
    k("ip", 6, OneOf(&[4, 6]), "inner IP version"),
    k("srv6", 0, SWITCH, "an outer IPv6 header carries the path"),
    k("base_rtt", 50_000, ANY, "unloaded round trip, ns"),
    k("target_delay", 50_000, ANY, "queueing delay aimed at, ns"),
    k("window", 262_144, ANY, "fixed congestion window, bytes"),
    q(
        "OQ-31",
        "send_below_window",
        0,
        SWITCH,
        "a packet may leave while less than the window is in flight, though it does not fit",
    ),
    q("OQ-14", "reorder_min", 3, Range(0, 0xFFFF), "fewest packets that must overtake a lost one"),
    q("OQ-14", "reorder_factor", 384, Range(0, 0xFFFF), "part of the window, in 1/256, that must overtake a lost one"),
    k("probe_limit", 10_000, ANY, "shortest time between two probes, ns"),
    k("keepalive", 0, ANY, "probe a silent peer this often, ns"),
    q("OQ-18", "skip_time", 0, ANY, "an EV stays in SKIP this long, ns; 0 = until the rotation passed"),
    q("OQ-18", "skip_extends", 0, SWITCH, "a mark lengthens a timed skip that is in force"),
    q(
        "OQ-15",
        "loss_ev_action",
        0,
        Range(0, 3),
        "an inferred loss makes an EV: 0 by trimming, 1 bad, 2 skip, 3 nothing",
    ),
    q("OQ-17", "resurrect_probes", 1, Range(0, 0xFF), "good probe answers that revive an EV"),
    q("OQ-17", "probe_interval", 1_000_000, ANY, "distance of two probes of a bad EV, ns"),
    q(
        "OQ-17",
        "relapse_backoff",
        0,
        SWITCH,
        "an EV that fails again after its return waits twice as long for its next probe",
    ),
    q("OQ-16", "marked_probe_good", 0, SWITCH, "a marked answer to that probe makes the EV good, not skipped"),
    q(
        "OQ-70",
        "reuse_nacked_ev",
        0,
        SWITCH,
        "a retransmission takes the EV that its NACK named where no other good one is free",
    ),
    k("ev_min_active", 1, Range(0, 0xFFFF), "EVs that stay in rotation whatever happens"),
    q(
        "OQ-19",
        "last_resort",
        1,
        Words(&["off", "on"], 2),
        "a bad EV when there is no other: 0 never, 1 one packet per base RTT, 2 at any pace",
    ),
    q("OQ-44", "pkey", 0xFFFF, Range(0, 0xFFFF), "partition key"),
    q("OQ-01", "udp_port", 4_791, Range(0, 0xFFFF), "UDP destination port sent"),
    q(
        "OQ-01",
        "udp_accept",
        0,
        Range(0, 0xFFFF),
        "the one UDP destination port that the target takes; 0 = both 4791 and 4971",
    ),
    q("OQ-02", "ev_high_half_in_sport", 0, SWITCH, "the high half of the EV is the UDP source port"),
    q("OQ-23", "ev_in_outer_label", 0, SWITCH, "under SRv6 the outer flow label alone carries the high half of the EV"),
    q("OQ-06", "eeth_op_bit", 2, OneOf(&[2, 4]), "lower bit of the operation in byte 1 of an endpoint response"),
    q("OQ-05", "bth_se_bit", 7, OneOf(&[6, 7]), "bit of byte 1 of BTH that asks for a solicited event"),
    q("OQ-08", "neth_cc_type", 2, Range(0, 15), "cc_type of NACKs"),
    q(
        "OQ-07",
        "pdcid_order",
        0,
        Words(&["sender", "requester"], 1),
        "spdcid of a SACK or NACK names the packet's sender, or the requester",
    ),
    q("OQ-27", "dscp_no_trim", 0, Range(0, 63), "code point of data while trimming is not agreed"),
    q("OQ-27", "dscp_trimmable", 4, Range(0, 63), "code point of data while trimming is agreed"),
    q("OQ-27", "dscp_retx", 8, Range(0, 63), "code point of retransmissions while trimming is agreed"),
    q("OQ-27", "dscp_trimmed", 12, Range(0, 63), "code point of a packet that a switch has cut"),
    q("OQ-27", "dscp_trimmed_lasthop", 16, Range(0, 63), "code point of a packet that the last switch has cut"),
    q("OQ-27", "dscp_control", 46, Range(0, 63), "code point of acknowledgements and endpoint operations"),
    q(
        "OQ-33",
        "size_overhead",
        40,
        Range(0, 0xFFFF),
        "what the size of a packet adds to its UDP length where bytes are counted",
    ),
    q("OQ-45", "ack_msn_zero", 0, SWITCH, "Transport ACKs carry message number 0, not the count of completed messages"),
    k("access", 1, SWITCH, "the target's memory may be written remotely"),
];

/// Fields whose value an open question decides, and the knob that switches it.
const FIELDS: &[(&str, &str)] = &[
    ("meth.msn", "msn_start"),
    ("meth.rqmsn", "rqmsn_start"),
    ("seth.spdcid", "pdcid_order"),
    ("seth.dpdcid", "pdcid_order"),
    ("neth.spdcid", "pdcid_order"),
    ("neth.dpdcid", "pdcid_order"),
    ("neth.cc_type", "neth_cc_type"),
    ("erth.mask", "port_mask_zero_based"),
    ("bth.se", "bth_se_bit"),
    ("bth.mig", "bth_se_bit"),
    ("bth.pkey", "pkey"),
    ("udp.dport", "udp_port"),
    ("seth.rcvd", "size_overhead"),
    ("aeth.msn", "ack_msn_zero"),
    ("ip.dscp", "dscp_control"),
    ("outer.dscp", "dscp_control"),
    ("ip.ecn", "ctl_ect"),
    ("outer.ecn", "ctl_ect"),
    ("ev", "ev_high_half_in_sport"),
    ("seth.entropy", "ev_high_half_in_sport"),
    ("neth.entropy", "ev_high_half_in_sport"),
    ("seth.m", "always_skip_after"),
    ("aeth.syndrome", "wimm_nak_syndrome"),
    ("eeth.op", "eeth_op_bit"),
    ("eeth.res1", "eeth_op_bit"),
    ("outer.label", "ev_in_outer_label"),
    ("seth.entropy", "ev_in_outer_label"),
    ("neth.entropy", "ev_in_outer_label"),
    ("seth.stamp", "svc_time"),
    ("neth.stamp", "svc_time"),
    ("seth.stamp", "tsr_us"),
    ("seth.sack_offset", "bitmap_reach"),
    ("seth.bitmap", "bitmap_reach"),
];

/// The knobs of the open questions that decide the value of this field.
pub fn knobs_of(field: &str) -> impl Iterator<Item = &'static Knob> {
    let names = FIELDS.iter().filter(move |(known, _)| *known == field).map(|(_, name)| *name);
    names.filter_map(|name| KNOBS.iter().find(|knob| knob.name == name))
}

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

    /// Takes over what is fixed of a target, whatever the script is about.
    ///
    /// # Errors
    /// A knob that the script sets to another value, with both values: the script does not apply to this target.
    pub fn fix(&mut self, fixed: &Knobs) -> Result<(), String> {
        for (name, have) in fixed.iter() {
            match self.0.get(name) {
                Some(want) if *want != have => {
                    return Err(format!("needs {name}={want}; the target is set to {have}"));
                }
                _ => self.0.insert(name.into(), have),
            };
        }
        Ok(())
    }

    /// Takes in `name=value`, or `name` for a switch that is on.
    ///
    /// # Errors
    /// No such knob, no value of it, or no value at all where the knob is no switch.
    pub fn read(&mut self, item: &str) -> Result<(), String> {
        let (name, text) = item.split_once('=').map_or((item, None), |(name, value)| (name, Some(value)));
        let values = Values::of(name)?;
        let value = match text {
            Some(text) => values.read(text),
            None => values.read("on"),
        };
        let value = value.ok_or_else(|| match text {
            Some(_) => format!("`{item}`: {name} takes {values}"),
            None => format!("`{item}` needs a value: {name} takes {values}, e.g. {name}={}", self.get(name)),
        })?;
        self.set(name, value);
        Ok(())
    }

    /// Whether each is a knob and has a value that the knob can have: for knobs that were not read by [`Self::read`].
    ///
    /// # Errors
    /// The first one that is not.
    pub fn check(&self) -> Result<(), String> {
        for (name, value) in self.iter() {
            let values = Values::of(name)?;
            if !values.contains(value) {
                return Err(format!("`{name}={value}`: {name} takes {values}"));
            }
        }
        Ok(())
    }

    /// Those that a script sets, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

/// What a knob can be set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Words for the numbers from 0 on, and the largest number.
    Words(&'static [&'static str], i64),
    /// Numbers, these included.
    Range(i64, i64),
    /// One of these.
    OneOf(&'static [i64]),
}

const SWITCH: Values = Words(&["off", "on"], 1);

const ANY: Values = Range(0, u32::MAX as i64);

impl Values {
    /// Those of a knob.
    fn of(name: &str) -> Result<Self, String> {
        KNOBS.iter().find(|knob| knob.name == name).map(|knob| knob.values).ok_or_else(|| {
            let hint = nearest(name, KNOBS.iter().map(|knob| knob.name));
            let hint = hint.map_or(String::new(), |near| format!("did you mean `{near}`? "));
            format!("no knob `{name}`; {hint}`mrc conform --list-knobs` shows them")
        })
    }

    fn contains(&self, value: i64) -> bool {
        match self {
            Words(_, most) => (0..=*most).contains(&value),
            Range(least, most) => (*least..=*most).contains(&value),
            OneOf(all) => all.contains(&value),
        }
    }

    /// A value as scripts write it: a number or one of the knob's words.
    fn read(&self, text: &str) -> Option<i64> {
        let words = if let Words(words, _) = self { *words } else { &[] };
        let word = (0..).zip(words).find(|(_, word)| **word == text).map(|(value, _)| value);
        let number = || crate::number::number(text).and_then(|n| i64::try_from(n).ok());
        word.or_else(number).filter(|value| self.contains(*value))
    }
}

impl serde::Serialize for Values {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl std::fmt::Display for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Words(words, most) if words.len() as i64 > *most => write!(f, "{}", words.join(", ")),
            Words(words, most) => write!(f, "{} or {most}", words.join(", ")),
            Range(least, most) => write!(f, "a number from {least} to {most}"),
            OneOf(all) => {
                let all: Vec<String> = all.iter().map(i64::to_string).collect();
                write!(f, "{}", all.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that is left out was 1, and a word of another knob was its number: `mtu` was an MTU of 1 byte.
    #[test]
    fn only_a_switch_is_on_without_a_value() {
        for knob in KNOBS {
            let switch = matches!(knob.values, Words(["off", "on"], _));
            let bare = Knobs::default().read(knob.name);
            assert_eq!(bare.is_ok(), switch, "{}: {bare:?}", knob.name);
            if !switch {
                assert!(bare.unwrap_err().contains("needs a value"), "{}", knob.name);
                assert!(Knobs::default().read(&format!("{}=on", knob.name)).is_err(), "{}", knob.name);
            }
            let default = format!("{}={}", knob.name, knob.default);
            assert_eq!(Knobs::default().read(&default), Ok(()), "its own default");
            assert!(switch == (knob.default <= 1 && Knobs::default().read(&format!("{}=off", knob.name)).is_ok()));
        }
        for (at, knob) in KNOBS.iter().enumerate() {
            assert!(knob.values.contains(knob.default), "{}", knob.name);
            assert!(!KNOBS[..at].iter().any(|other| other.name == knob.name), "{} is there twice", knob.name);
        }
        let error = Knobs::default().read("mtu").unwrap_err();
        assert_eq!(error, "`mtu` needs a value: mtu takes 256, 512, 1024, 2048, 4096, e.g. mtu=1024");
    }

    /// These were cut to the width of their field: 270 was a timeout of 14.
    #[test]
    fn a_value_that_the_knob_cannot_have_is_refused() {
        for item in ["timeout=270", "mpr=256", "mpr=0", "psn=0x1000000", "ip=5", "state=5", "oor_silent=2", "linear=8"]
        {
            assert!(Knobs::default().read(item).unwrap_err().contains("takes"), "{item}");
        }
        let mut knobs = Knobs::default();
        assert_eq!(knobs.check(), Ok(()));
        assert!(knobs.set("mtu", 1));
        assert_eq!(knobs.check().unwrap_err(), "`mtu=1`: mtu takes 256, 512, 1024, 2048, 4096");
        assert_eq!((knobs.read("state=rtr"), knobs.get("state")), (Ok(()), 2));
        assert_eq!((knobs.read("last_resort=2"), knobs.get("last_resort")), (Ok(()), 2));
    }
}
