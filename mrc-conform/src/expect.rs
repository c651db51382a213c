//! A packet of a script with every field the script leaves out: defaults that follow from what was agreed and from what
//! was said before. Owns no transport rule; a script states what it wants to see.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use crate::facts::{self, Facts};
use crate::format::{self, Kind};
use crate::freedom;
use crate::knobs::Knobs;
use crate::packet::{Difference, Packet, show};
use crate::script::{PacketSpec, Value};

/// A stimulus may have headers that are accepted and never sent.
fn extended(mut stack: Vec<crate::Layout>, spec: &PacketSpec) -> Vec<crate::Layout> {
    if spec.value("options").is_some()
        && let Some(ip) = stack.iter_mut().find(|layout| layout.name == "ip")
    {
        *ip = format::IP4_OPTIONS;
    }
    if spec.value("vlan").is_some() {
        stack.insert(1, format::VLAN);
    }
    if spec.value("srh").is_some()
        && let Some(outer) = stack.iter().position(|layout| layout.name == "outer")
    {
        stack.insert(outer + 1, format::SRH);
    }
    stack
}

/// What the tester has said and heard so far.
#[derive(Clone, Debug)]
pub(crate) struct Story<'a> {
    pub(crate) facts: &'a Facts,
    pub(crate) knobs: &'a Knobs,
    /// Remembered values.
    pub(crate) bound: BTreeMap<String, u128>,
    /// Packets the tester sent, in order.
    sent: Vec<Sent>,
    /// First transmissions of the target's writes, by PSN.
    heard: BTreeMap<u32, Packet>,
    /// PSN of the newest Transport ACK of the target.
    acked: u32,
}

#[derive(Clone, Debug)]
struct Sent {
    psn: u32,
    kind: &'static Kind,
    packet: Packet,
    /// Bytes as the responder counts them; 0 when it should not count this one.
    counted: u32,
}

impl<'a> Story<'a> {
    pub(crate) fn new(facts: &'a Facts, knobs: &'a Knobs) -> Self {
        let acked = (knobs.get("psn") as u32).wrapping_sub(1) & 0xFF_FFFF;
        Self { facts, knobs, bound: BTreeMap::new(), sent: Vec::new(), heard: BTreeMap::new(), acked }
    }

    /// The context identifiers of a packet. The requester sends probes, the responder SACKs and NACKs; under the reading
    /// `pdcid_order=requester` all three name the requester first.
    fn contexts(&self, packet: &mut Packet, kind: &Kind, sender: u32, receiver: u32) {
        let answers = matches!(kind.name, "sack" | "nack");
        let swapped = answers && self.knobs.on("pdcid_order");
        let (first, second) = if swapped { (receiver, sender) } else { (sender, receiver) };
        set(packet, "spdcid", (first & 0xFFFF).into());
        set(packet, "dpdcid", (second & 0xFFFF).into());
    }

    /// The packet of a stimulus, its bytes and the port it goes to.
    pub(crate) fn stimulus(&mut self, spec: &PacketSpec) -> Result<(Packet, u8), String> {
        let timed = spec.number("ts").unwrap_or(1) != 0;
        let srv6 = self.knobs.on("srv6") && spec.value("bare").is_none();
        let mut packet = Packet::of(extended(format::layouts(spec.kind, self.knobs.get("ip"), srv6, timed), spec));
        let port = spec.number("port").unwrap_or(1).clamp(1, 8) as usize;
        self.lower(&mut packet, spec, port, true);
        let psn = self.input(spec, "psn")?.unwrap_or(0) as u32;
        set(&mut packet, "dqp", if spec.kind.is_endpoint() { 2 } else { self.facts.target_qpn.into() });
        set(&mut packet, "pkey", self.knobs.get("pkey") as u128);
        set(&mut packet, "psn", psn.into());
        // Spread over their range, so that a mixed-up echo shows.
        let stamp = u128::from(psn.wrapping_mul(257).wrapping_add(0x1234) & 0xFFFF);
        for (field, value) in [("stamp", stamp), ("ftype", 1)] {
            if !spec.kind.is_control() {
                set(&mut packet, field, value);
            }
        }
        self.contexts(&mut packet, spec.kind, self.facts.tester_qpn, self.facts.target_qpn);
        if spec.kind.is_write() {
            let len = spec.number("len").unwrap_or(64) as usize;
            packet.payload =
                (0..len).map(|n| facts::fill(spec.number("fill").unwrap_or(psn.into()) as u32, n)).collect();
            packet.payload.resize(len.next_multiple_of(4), 0);
            set(&mut packet, "ts", timed.into());
            let pad = packet.payload.len() - len;
            set(&mut packet, "pad", pad as u128);
            set(
                &mut packet,
                "va",
                u128::from(self.facts.target_va).wrapping_add(spec.number("at").unwrap_or(0) as u128),
            );
            set(&mut packet, "rkey", self.facts.target_rkey.into());
            set(&mut packet, "dmalen", len as u128);
        }
        match spec.kind.name {
            "sack" => {
                let cack = self.input(spec, "cack")?.unwrap_or(u128::from(psn));
                for (field, value) in [("psn", cack), ("cack", cack), ("sack_offset", 1), ("restore", 1)] {
                    set(&mut packet, field, value);
                }
                self.echo_of_heard(&mut packet, spec, (cack & 0xFF_FFFF) as u32);
            }
            "nack" => {
                let refused = self.input(spec, "nack_psn")?.unwrap_or(u128::from(psn));
                for (field, value) in [("psn", refused), ("nack_psn", refused), ("cc_type", 2)] {
                    set(&mut packet, field, value);
                }
                self.echo_of_heard(&mut packet, spec, (refused & 0xFF_FFFF) as u32);
            }
            "ack" => {
                set(&mut packet, "syndrome", 0x1F);
            }
            _ => {}
        }
        if let Some(ev) = self.input(spec, "ev")? {
            self.set_ev(&mut packet, ev as u32);
        } else {
            self.set_ev(&mut packet, if spec.kind.is_control() { 0x0000_0001 } else { 0x0003_5678 });
        }
        if spec.value("ce").is_some() {
            set(&mut packet, "ip.ecn", 3);
            set(&mut packet, "outer.ecn", 3);
        }
        if let Some(left) = spec.number("srh") {
            for (field, value) in
                [("outer.nh", 43), ("srh.nh", 41), ("srh.len", 2), ("srh.type", 4), ("srh.left", left as u128)]
            {
                set(&mut packet, field, value);
            }
        }
        if packet.find("vlan.type").is_some() {
            let ethertype = packet.get("eth.type").unwrap_or(0);
            set(&mut packet, "vlan.type", ethertype);
            set(&mut packet, "eth.type", 0x8100);
        }
        if spec.value("options").is_some() {
            set(&mut packet, "ip.ihl", 6);
            set(&mut packet, "ip.options", 0x0101_0101);
        }
        if spec.number("trim").is_some() {
            let header = if srv6 { "outer.dscp" } else { "ip.dscp" };
            set(&mut packet, header, self.knobs.get("dscp_trimmed") as u128);
        }
        self.lengths(&mut packet);
        for (name, _) in spec.fields.iter().filter(|(name, _)| !is_pseudo(name)) {
            if let Some(value) = self.input(spec, name)?
                && !packet.set(name, value)
            {
                return Err(format!("this {} has no field `{name}`", spec.kind.name));
            }
        }
        self.place_operation(&mut packet);
        checksum(&mut packet);
        if spec.number("icrc") == Some(-1) {
            let good = crate::icrc(&packet.bytes()[l3(&packet)..][..packet.bytes().len() - l3(&packet) - 4]);
            packet.icrc = Some([good[0] ^ 1, good[1], good[2], good[3]]);
        }
        packet.keep = spec.number("trim").map(|keep| keep as usize);
        self.remember(spec, &packet);
        Ok((packet, port as u8))
    }

    fn remember(&mut self, spec: &PacketSpec, packet: &Packet) {
        let psn = packet.get("psn").unwrap_or(0) as u32;
        let intact = packet.keep.is_none() && packet.icrc.is_none() && spec.value("cut").is_none();
        let known = self.sent.iter().any(|sent| sent.psn == psn && sent.counted > 0);
        let counts = spec.kind.is_write() && intact && !known;
        let counted =
            if counts { packet.get("udplen").unwrap_or(0) as u32 + self.knobs.get("size_overhead") as u32 } else { 0 };
        self.sent.push(Sent { psn, kind: spec.kind, packet: packet.clone(), counted });
    }

    /// The packet expected, in the light of `heard`: what the script leaves to the target is taken from there.
    /// `slack_ns`: by how much more than the script says a packet may wait in the target, on the target's clock.
    ///
    /// # Errors
    /// The field that breaks a condition which is no plain value.
    pub(crate) fn expected(
        &mut self,
        now: Option<u64>,
        slack_ns: u64,
        spec: &PacketSpec,
        heard: &Packet,
    ) -> Result<Packet, Difference> {
        let left_out = freedom::without_timestamp(spec, self.knobs, heard);
        let timed = spec.kind.is_write() && self.knobs.on("timestamps") && !left_out;
        let (ip, srv6) = (self.knobs.get("ip"), self.knobs.on("srv6"));
        let mut packet = Packet::of(format::layouts(spec.kind, ip, srv6, timed || !spec.kind.is_write()));
        let ev = self.ev_of(heard);
        let port = self.facts.evs.iter().find(|(value, _)| *value == ev).map_or(1, |(_, port)| usize::from(*port));
        self.lower(&mut packet, spec, port, false);
        if srv6 {
            // The flow label is copied from the inner header.
            set(&mut packet, "outer.dst", u128::from(self.facts.outer_dst(ev)));
        }
        set(&mut packet, "dqp", if spec.kind.is_endpoint() { 2 } else { self.facts.tester_qpn.into() });
        set(&mut packet, "pkey", self.knobs.get("pkey") as u128);
        self.contexts(&mut packet, spec.kind, self.facts.target_qpn, self.facts.tester_qpn);
        match now {
            Some(now) if spec.kind.is_stamped() => {
                set(&mut packet, "stamp", u128::from((now / 128) & 0xFFFF));
            }
            _ => copy(&mut packet, heard, "stamp"),
        }
        if spec.kind.is_stamped() {
            set(&mut packet, "ftype", 1);
        }
        if spec.kind.is_write() {
            self.expect_write(&mut packet, spec, timed);
        } else {
            self.expect_answer(&mut packet, spec, heard);
        }
        self.set_ev(&mut packet, ev);
        self.lengths(&mut packet);
        // The answer of a node without a connection may take any path.
        let free = self.facts.evs.is_empty() || spec.kind.name == "ep_response";
        if !free && !self.facts.evs.iter().any(|(value, _)| *value == ev) {
            let expected = "an EV of the profile".into();
            return Err(Difference { field: "ev".into(), expected, actual: show(ev.into(), 32, false) });
        }
        for (name, value) in &spec.fields {
            if now.is_none() && self.waited(&packet, heard, name, value, slack_ns) {
                copy(&mut packet, heard, name);
            } else {
                self.apply(&mut packet, heard, name, value, ev)?;
            }
        }
        self.place_operation(&mut packet);
        checksum(&mut packet);
        Ok(packet)
    }

    /// Whether this field is a reflected timestamp with a service time that fits the script in real time: at least three
    /// quarters of what the script says. `packet` has the timestamp of the packet that is answered.
    fn waited(&self, packet: &Packet, heard: &Packet, name: &str, value: &Value, slack_ns: u64) -> bool {
        let answers = packet.kind().is_some_and(|kind| matches!(kind.name, "sack" | "nack"));
        let (Value::Number(stamp), Some(echoed), Some(actual)) = (value, packet.get(name), heard.get(name)) else {
            return false;
        };
        if !answers || !matches!(name, "stamp" | "seth.stamp" | "neth.stamp") || !self.knobs.on("svc_time") {
            return false;
        }
        let unit_ns = if self.knobs.on("tsr_us") { 1_000 } else { 128 };
        let added = |stamp: u128| stamp.wrapping_sub(echoed) & 0xFFFF;
        let (wanted, got) = (added(*stamp as u128), added(actual));
        wanted > 0 && got * 4 >= wanted * 3 && got <= wanted + u128::from(slack_ns / unit_ns)
    }

    /// One named field of an expected packet.
    fn apply(
        &mut self,
        packet: &mut Packet,
        heard: &Packet,
        name: &str,
        value: &Value,
        ev: u32,
    ) -> Result<(), Difference> {
        let actual = if name == "ev" { Some(u128::from(ev)) } else { heard.get(name) };
        let differs = |expected: String| {
            let actual = actual.map_or("no such field".into(), |actual| show(actual, 32, false));
            Err(Difference { field: name.into(), expected, actual })
        };
        let wanted = match value {
            Value::Any => actual,
            // Scripts count messages from 0.
            Value::Number(n) => {
                let is_ack = packet.kind().is_some_and(|kind| kind.name == "ack");
                if is_ack && name.trim_start_matches("aeth.") == "msn" && self.knobs.on("ack_msn_zero") {
                    packet.set(name, 0);
                    return Ok(());
                }
                let first = packet.kind().map_or(0, |kind| self.first_number(name.trim_start_matches("meth."), kind));
                Some((*n as u128).wrapping_add(first))
            }
            Value::Bound(variable) => match (self.bound.get(variable), actual) {
                (Some(known), _) => Some(*known),
                (None, Some(actual)) => {
                    self.bound.insert(variable.clone(), actual);
                    Some(actual)
                }
                (None, None) => return differs(format!("a value for @{variable}")),
            },
            Value::Not(variable) => {
                if self.bound.get(variable).copied() == actual {
                    return differs(format!("another value than @{variable}"));
                }
                actual
            }
        };
        match (name, wanted) {
            ("ev", Some(wanted)) if wanted & 0xFFFF_FFFF != u128::from(ev) => {
                return differs(show(wanted & 0xFFFF_FFFF, 32, false));
            }
            (name, Some(wanted)) if !is_pseudo(name) => {
                packet.set(name, wanted);
            }
            _ => {}
        }
        Ok(())
    }

    fn expect_write(&self, packet: &mut Packet, spec: &PacketSpec, timed: bool) {
        let psn = spec.number("psn").unwrap_or(0) as u32;
        let number = |name: &str| spec.number(name);
        let before = self.heard.get(&psn).filter(|_| number("rtx") == Some(1));
        if let Some(before) = before {
            for field in ["rqmsn", "msn", "va", "rkey", "dmalen", "imm", "pad", "se", "a"] {
                copy(packet, before, field);
            }
            packet.payload = before.payload.clone();
        } else {
            let len = number("len").unwrap_or(64) as usize;
            let from = number("from").unwrap_or(0) as u64;
            packet.payload = (0..len as u64).map(|n| facts::initial(from.wrapping_add(n))).collect();
            packet.payload.resize(len.next_multiple_of(4), 0);
            let pad = packet.payload.len() - len;
            set(packet, "pad", pad as u128);
            set(packet, "va", u128::from(self.facts.tester_va).wrapping_add(number("at").unwrap_or(0) as u128));
            set(packet, "rkey", self.facts.tester_rkey.into());
            set(packet, "dmalen", len as u128);
            set(packet, "a", spec.kind.ends_message().into());
            set(packet, "msn", self.first_number("msn", spec.kind));
            if spec.kind.name.ends_with("_imm") {
                set(packet, "rqmsn", self.first_number("rqmsn", spec.kind));
            }
        }
        set(packet, "ts", timed.into());
        set(packet, "ip.dscp", self.data_dscp(number("rtx") == Some(1)).into());
        set(packet, "outer.dscp", self.data_dscp(number("rtx") == Some(1)).into());
    }

    fn expect_answer(&self, packet: &mut Packet, spec: &PacketSpec, heard: &Packet) {
        let of = self.answered(spec);
        if let Some(of) = of {
            let timed = of.kind.name == "probe" || of.kind.name == "ep_request" || of.packet.get("ts") == Some(1);
            // A trimming switch leaves TSETH or not.
            let left = of.packet.keep.is_none_or(|keep| keep >= 20) && of.packet.get("ftype") == Some(1);
            let stamp = if timed && left { of.packet.get("stamp").unwrap_or(0) } else { 0 };
            set(packet, "entropy", self.ev_of(&of.packet).into());
            if !spec.kind.is_stamped() {
                set(packet, "stamp", stamp);
            }
            set(packet, "rtx", if of.kind.name == "probe" { 0 } else { of.packet.get("rtx").unwrap_or(0) });
        }
        match spec.kind.name {
            "sack" => {
                let cack = spec.number("cack").unwrap_or(0) as u128 & 0xFF_FFFF;
                let probed = of.filter(|of| of.kind.name == "probe");
                let offset = of.map_or(0, |of| u128::from(of.psn).wrapping_sub(cack));
                let about = probed.map_or(offset, |of| of.packet.get("probe_id").unwrap_or(0));
                for (field, value) in [
                    ("psn", cack),
                    ("pr", probed.is_some().into()),
                    ("ack_offset", about),
                    ("sack_offset", 1),
                    ("restore", 1),
                    ("rcvd", u128::from(self.counted().div_ceil(256))),
                ] {
                    set(packet, field, value);
                }
            }
            "nack" => {
                let psn = spec.number("nack_psn").map_or(of.map_or(0, |of| of.psn.into()), |psn| psn as u128);
                for (field, value) in
                    [("psn", psn), ("nack_psn", psn), ("cc_type", self.knobs.get("neth_cc_type") as u128)]
                {
                    set(packet, field, value);
                }
            }
            "ack" => {
                set(packet, "rtx", 0);
                set(packet, "syndrome", 0x1F);
                let psn = spec.number("psn").unwrap_or(0) as u32;
                let msn = if self.knobs.on("ack_msn_zero") { 0 } else { self.messages_below(psn) };
                set(packet, "msn", msn);
            }
            "probe" => {
                set(packet, "rtx", 0);
                copy(packet, heard, "probe_id");
            }
            // The identifier lies in the PSN field.
            "ep_request" => {
                set(packet, "rtx", 0);
                copy(packet, heard, "psn");
            }
            "ep_response" => {
                set(packet, "psn", of.map_or(0, |of| of.psn.into()));
                set(packet, "eeth.op", of.and_then(|of| of.packet.get("erth.op")).unwrap_or(0));
            }
            _ => {}
        }
        let dscp = if spec.kind.is_control() || is_port_update(spec) {
            self.control_dscp()
        } else if spec.kind.is_endpoint() {
            self.knobs.get("dscp_no_trim") as u8
        } else {
            self.data_dscp(false)
        };
        set(packet, "ip.dscp", dscp.into());
        set(packet, "outer.dscp", dscp.into());
    }

    /// What the target's first message has in this field; 0 for fields that number no messages. Writes without immediate
    /// have no receive-queue number, and the first packets of a message name one only if it ends with an immediate.
    fn first_number(&self, field: &str, kind: &Kind) -> u128 {
        match field {
            "msn" if kind.is_write() => self.knobs.get("msn_start") as u128,
            "rqmsn" if kind.is_write() && !matches!(kind.name, "write_only" | "write_last") => {
                self.knobs.get("rqmsn_start") as u128
            }
            _ => 0,
        }
    }

    /// The tester's packet that an answer answers: the one `of=` names, else the last.
    fn answered(&self, spec: &PacketSpec) -> Option<&Sent> {
        let of = spec.number("of").map(|psn| psn as u32);
        self.sent.iter().rev().find(|sent| of.is_none_or(|psn| sent.psn == psn))
    }

    /// Bytes of the tester's writes that a responder has counted.
    fn counted(&self) -> u64 {
        self.sent.iter().map(|sent| u64::from(sent.counted)).sum()
    }

    /// Messages of the tester that end at or below `psn`.
    fn messages_below(&self, psn: u32) -> u128 {
        let ends = |sent: &&Sent| sent.counted > 0 && sent.kind.ends_message();
        let below = |sent: &&Sent| psn.wrapping_sub(sent.psn) & 0xFF_FFFF < 1 << 23;
        self.sent.iter().filter(ends).filter(below).count() as u128
    }

    /// A control packet of the tester echoes the target's write that it is about.
    fn echo_of_heard(&self, packet: &mut Packet, spec: &PacketSpec, about: u32) {
        let psn = spec.number("of").map_or_else(
            || about.wrapping_add(spec.number("ack_offset").unwrap_or(0) as u32) & 0xFF_FFFF,
            |psn| psn as u32,
        );
        let Some(write) = self.heard.get(&psn) else { return };
        set(packet, "entropy", self.ev_of(write).into());
        set(packet, "stamp", write.get("stamp").unwrap_or(0));
        if spec.value("of").is_some() && spec.kind.name == "sack" {
            set(packet, "ack_offset", u128::from(psn).wrapping_sub(u128::from(about)));
        }
    }

    /// The target's write was as expected.
    pub(crate) fn matched(&mut self, packet: &Packet) {
        if packet.kind().is_some_and(Kind::is_write) {
            let psn = packet.get("psn").unwrap_or(0) as u32;
            // The latest copy counts for echoes; what it carries never changes.
            self.heard.insert(psn, packet.clone());
        }
        if packet.kind().is_some_and(|kind| kind.name == "ack") {
            self.acked = packet.get("psn").unwrap_or(0) as u32;
        }
    }

    /// Whether this is a Transport ACK that says something new and true: a responder may send one at each advance of its
    /// cumulative PSN.
    pub(crate) fn is_true_ack(&self, packet: &Packet) -> bool {
        let Some(kind) = packet.kind().filter(|kind| kind.name == "ack") else { return false };
        let psn = packet.get("psn").unwrap_or(0) as u32;
        let arrived: BTreeSet<u32> = self.sent.iter().filter(|sent| sent.counted > 0).map(|sent| sent.psn).collect();
        let new = psn.wrapping_sub(self.acked) & 0xFF_FFFF;
        let gapless = || (1..=new).all(|n| arrived.contains(&(self.acked.wrapping_add(n) & 0xFF_FFFF)));
        let spec = PacketSpec { kind, fields: vec![("psn".into(), Value::Number(psn.into()))] };
        let expected = || self.clone().expected(None, 0, &spec, packet).ok();
        (1..1 << 23).contains(&new) && gapless() && expected().is_some_and(|ack| packet.difference(&ack).is_none())
    }

    /// EVs that the latest copies of these PSNs used.
    pub(crate) fn paths(&self, first: u32, last: u32) -> usize {
        let of_psn = |psn: u32| self.heard.get(&(psn & 0xFF_FFFF)).map(|packet| self.ev_of(packet));
        (first..=last).filter_map(of_psn).collect::<BTreeSet<u32>>().len()
    }

    /// A field's value in a stimulus.
    fn input(&self, spec: &PacketSpec, name: &str) -> Result<Option<u128>, String> {
        match spec.value(name) {
            None => Ok(None),
            Some(Value::Number(n)) => Ok(Some(*n as u128)),
            Some(Value::Bound(variable)) => {
                let value = self.bound.get(variable).copied();
                value.map(Some).ok_or_else(|| format!("@{variable} is not known yet"))
            }
            Some(Value::Any | Value::Not(_)) => Err(format!("a packet that is sent needs a value of `{name}`")),
        }
    }

    fn swapped(&self) -> bool {
        // IPv4 carries the lower half only, and always there.
        self.knobs.on("ev_high_half_in_sport") && self.knobs.get("ip") != 4
    }

    fn set_ev(&self, packet: &mut Packet, ev: u32) {
        let (high, low) = if self.swapped() { (ev & 0xFFFF, ev >> 16) } else { (ev >> 16, ev & 0xFFFF) };
        set(packet, "sport", low.into());
        let inner = if self.label_is_outer(packet) { 0 } else { high };
        set(packet, "ip.label", inner.into());
        set(packet, "outer.label", high.into());
    }

    /// Under `ev_in_outer_label`, where there is an outer header.
    fn label_is_outer(&self, packet: &Packet) -> bool {
        self.knobs.on("ev_in_outer_label") && packet.find("outer.label").is_some()
    }

    /// The entropy value of a packet, as a responder echoes it.
    fn ev_of(&self, packet: &Packet) -> u32 {
        if !self.label_is_outer(packet) {
            return packet.ev(self.swapped());
        }
        let mut read = packet.clone();
        set(&mut read, "ip.label", packet.get("outer.label").unwrap_or(0));
        read.ev(self.swapped())
    }

    /// Under `eeth_op_bit=4` the operation of a response stands where the other reading has reserved bits.
    fn place_operation(&self, packet: &mut Packet) {
        if self.knobs.get("eeth_op_bit") == 4
            && let (Some(op), Some(reserved)) = (packet.get("eeth.op"), packet.get("eeth.res1"))
        {
            set(packet, "eeth.res1", reserved | op);
            set(packet, "eeth.op", 0);
        }
    }

    fn data_dscp(&self, rtx: bool) -> u8 {
        match (self.knobs.on("trimming"), rtx) {
            (false, _) => self.knobs.get("dscp_no_trim") as u8,
            (true, false) => self.knobs.get("dscp_trimmable") as u8,
            (true, true) => self.knobs.get("dscp_retx") as u8,
        }
    }

    fn control_dscp(&self) -> u8 {
        self.knobs.get("dscp_control") as u8
    }

    /// Ethernet to UDP, without EV and lengths.
    fn lower(&self, packet: &mut Packet, spec: &PacketSpec, port: usize, to_target: bool) {
        let kind = spec.kind;
        let mac = |list: &[[u8; 6]]| {
            let octets = list.get(port - 1).or(list.first()).copied().unwrap_or([0; 6]);
            octets.iter().fold(0, |value, byte| value << 8 | u128::from(*byte))
        };
        let (target, tester) = (mac(&self.facts.target_mac), mac(&self.facts.tester_mac));
        let (dst, src) = if to_target { (target, tester) } else { (tester, target) };
        let (to, from) = (self.facts.target_ip, self.facts.tester_ip);
        let (to, from) = if to_target { (to, from) } else { (from, to) };
        let control = kind.is_control() || (!to_target && is_port_update(spec));
        let ecn = if !control || self.knobs.on("ctl_ect") { 2 } else { 0 };
        let dscp = if control { self.control_dscp() } else { self.knobs.get("dscp_no_trim") as u8 };
        let v4 = to.is_ipv4();
        let sid = |list: &[Ipv6Addr]| u128::from(list.get(port - 1).copied().unwrap_or(Ipv6Addr::UNSPECIFIED));
        let (outer_dst, outer_src) = if to_target {
            (sid(&self.facts.target_sid), sid(&self.facts.tester_sid))
        } else {
            (0, sid(&self.facts.target_sid))
        };
        for (field, value) in [
            ("eth.dst", dst),
            ("eth.src", src),
            ("eth.type", if v4 { 0x0800 } else { 0x86DD }),
            ("outer.version", 6),
            ("outer.nh", 41),
            ("outer.hop", 64),
            ("outer.src", outer_src),
            ("outer.dst", outer_dst),
            ("outer.ecn", ecn),
            ("outer.dscp", dscp.into()),
            ("ip.version", if v4 { 4 } else { 6 }),
            ("ip.ihl", 5),
            ("ip.flags", 2),
            ("ip.ttl", 64),
            ("ip.hop", 64),
            ("ip.nh", 17),
            ("ip.dst", bits(to)),
            ("ip.src", bits(from)),
            ("ip.ecn", ecn),
            ("ip.dscp", dscp.into()),
            ("dport", self.knobs.get("udp_port") as u128),
            ("opcode", kind.opcode.into()),
        ] {
            packet.set(field, value);
        }
    }

    /// Length fields, from what follows them.
    fn lengths(&self, packet: &mut Packet) {
        let ip = packet.layers.iter().position(|layer| layer.layout.name == "ip").unwrap_or(1);
        let after: usize = packet.layers[ip + 1..].iter().map(|layer| layer.layout.bytes()).sum();
        let udp = after + packet.payload.len() + 4;
        let own = packet.layers[ip].layout.bytes();
        let inner = udp + own + packet.layers.iter().find(|layer| layer.layout.name == "srh").map_or(0, |_| 24);
        for (field, value) in [("udplen", udp), ("plen", udp), ("ip.total", udp + own), ("outer.plen", inner)] {
            packet.set(field, value as u128);
        }
        if self.knobs.get("ip") != 4 {
            packet.set("ip.plen", udp as u128);
        }
    }
}

fn is_pseudo(name: &str) -> bool {
    crate::script::PSEUDO.contains(&name)
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u32::from(v4).into(),
        IpAddr::V6(v6) => v6.into(),
    }
}

/// Whether this is an endpoint request about ports. The target sends it as control; an EV probe travels as data does where
/// no switch trims.
fn is_port_update(spec: &PacketSpec) -> bool {
    spec.kind.name == "ep_request" && spec.number("op").unwrap_or(0) != 1
}

fn set(packet: &mut Packet, name: &str, value: u128) {
    packet.set(name, value);
}

fn copy(to: &mut Packet, from: &Packet, name: &str) {
    if let Some(value) = from.get(name) {
        to.set(name, value);
    }
}

fn l3(packet: &Packet) -> usize {
    packet.layers.iter().take_while(|layer| layer.layout.name != "ip").map(|layer| layer.layout.bytes()).sum()
}

/// The header checksum of IPv4, unless a script gave one.
pub(crate) fn checksum(packet: &mut Packet) {
    if packet.get("ip.hsum") != Some(0) {
        return;
    }
    let bytes = packet.bytes();
    let at = l3(packet);
    let own = packet.layers.iter().find(|layer| layer.layout.name == "ip").map_or(20, |ip| ip.layout.bytes());
    let header = bytes.get(at..at + own).unwrap_or(&[]);
    let sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    packet.set("ip.hsum", u128::from(!((folded & 0xFFFF) + (folded >> 16)) & 0xFFFF));
}
