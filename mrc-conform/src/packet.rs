//! A packet as a stack of headers with named fields, to bytes and back. Uses the tables of [`crate::format`] only.

use std::fmt::Write as _;

use crate::bits::{Layout, read, truncate, write};
use crate::format::{self, Kind};
use crate::icrc;

/// One header with the values of its fields, in the order of its layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Which header.
    pub layout: Layout,
    /// Its values.
    pub values: Vec<u128>,
}

impl Layer {
    /// A header of zeros.
    pub fn zero(layout: Layout) -> Self {
        Self { layout, values: vec![0; layout.fields.len()] }
    }

    fn parse(layout: Layout, bytes: &[u8]) -> Self {
        let values = layout.places().map(|(at, field)| read(bytes, at, field.bits)).collect();
        Self { layout, values }
    }
}

/// A packet of known headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Headers from Ethernet on.
    pub layers: Vec<Layer>,
    /// Payload with its pad.
    pub payload: Vec<u8>,
    /// Trailer; `None` = the right one for the rest.
    pub icrc: Option<[u8; 4]>,
    /// Bytes kept behind UDP; what a trimming switch leaves. No trailer then.
    pub keep: Option<usize>,
}

/// Where a field stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Index of the header.
    pub layer: usize,
    /// Index of the field.
    pub field: usize,
}

impl Packet {
    /// An empty stack of these headers.
    pub fn of(layouts: impl IntoIterator<Item = Layout>) -> Self {
        let layers = layouts.into_iter().map(Layer::zero).collect();
        Self { layers, payload: Vec::new(), icrc: None, keep: None }
    }

    /// Finds a field: `header.field`, or `field` alone, looked for from the transport headers down to Ethernet.
    pub fn find(&self, name: &str) -> Option<At> {
        let (header, name) = match name.split_once('.') {
            Some((header, name)) => (Some(header), name),
            None => (None, name),
        };
        let mut layers = self.layers.iter().enumerate().rev();
        layers.find_map(|(layer, candidate)| {
            let here = match header {
                Some(header) => candidate.layout.name == header,
                None => !matches!(candidate.layout.name, "outer" | "srh"),
            };
            let field = candidate.layout.fields.iter().position(|field| here && field.name == name)?;
            Some(At { layer, field })
        })
    }

    /// Names of all fields, each without its header.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.layers.iter().flat_map(|layer| layer.layout.fields.iter().map(|field| field.name))
    }

    /// Bits of the field that [`Packet::find`] finds.
    pub fn width(&self, name: &str) -> Option<u8> {
        let At { layer, field } = self.find(name)?;
        Some(self.layers.get(layer)?.layout.fields.get(field)?.bits)
    }

    /// Value of a field as it stands in its bits.
    pub fn get(&self, name: &str) -> Option<u128> {
        let at = self.find(name)?;
        self.layers.get(at.layer)?.values.get(at.field).copied()
    }

    /// Sets a field, cut to its width. Whether there is such a field.
    pub fn set(&mut self, name: &str, value: u128) -> bool {
        let Some(at) = self.find(name) else { return false };
        let layer = &mut self.layers[at.layer];
        layer.values[at.field] = truncate(value, layer.layout.fields[at.field].bits);
        true
    }

    /// Offset of the IP header that carries UDP.
    pub(crate) fn l3(&self) -> Option<usize> {
        let ip = self.layers.iter().position(|layer| layer.layout.name == "ip")?;
        Some(self.layers[..ip].iter().map(|layer| layer.layout.bytes()).sum())
    }

    /// The frame, without FCS.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for layer in &self.layers {
            let mut header = vec![0; layer.layout.bytes()];
            for ((at, field), value) in layer.layout.places().zip(&layer.values) {
                write(&mut header, at, field.bits, *value);
            }
            out.extend(header);
        }
        out.extend(&self.payload);
        let trailer = self.icrc.unwrap_or_else(|| self.l3().map_or([0; 4], |at| icrc::icrc(&out[at..])));
        out.extend(trailer);
        if let (Some(keep), Some(l3)) = (self.keep, self.l3()) {
            let udp = self.layers.iter().find(|layer| layer.layout.name == "ip").map_or(40, |ip| ip.layout.bytes()) + 8;
            out.truncate(l3 + udp + keep);
        }
        out
    }

    /// Reads a frame whose headers are all there. `Err`: the header that is cut short, or what is not understood.
    pub fn parse(frame: &[u8]) -> Result<Self, String> {
        let mut packet = Self::of([]);
        let mut rest = frame;
        packet.take_headers(&mut rest)?;
        let Some((payload, trailer)) = rest.split_last_chunk::<{ icrc::LEN }>() else {
            return Err("no room for the ICRC".into());
        };
        packet.payload = payload.to_vec();
        packet.icrc = Some(*trailer);
        Ok(packet)
    }

    /// The headers of a frame that may be broken, as far as they go, and why no more of them follow; what lies behind them is
    /// left out.
    pub fn headers(frame: &[u8]) -> (Self, Option<String>) {
        let mut packet = Self::of([]);
        let end = packet.take_headers(&mut &*frame);
        (packet, end.err())
    }

    fn take_headers(&mut self, rest: &mut &[u8]) -> Result<(), String> {
        self.take(rest, format::ETH)?;
        let mut ethertype = self.get("type");
        for _ in 0..format::MOST_TAGS {
            if !ethertype.is_some_and(format::is_tag) {
                break;
            }
            self.take(rest, format::VLAN)?;
            ethertype = self.layers.last().and_then(|tag| tag.values.last().copied());
        }
        match ethertype {
            Some(0x86DD) => self.take_ip6(rest)?,
            Some(0x0800) => self.take_ip4(rest)?,
            other => return Err(format!("EtherType {:#06x}", other.unwrap_or(0))),
        }
        if self.get("ip.nh") != Some(17) {
            return Err(format!("IP protocol {}", self.get("ip.nh").unwrap_or(0)));
        }
        self.take(rest, format::UDP)?;
        self.take(rest, format::BTH)?;
        let opcode = self.get("opcode").unwrap_or(0) as u8;
        let kind = Kind::of(opcode).ok_or_else(|| format!("opcode {opcode:#04x}"))?;
        let timed = self.get("bth.ts") == Some(1);
        for layout in kind.ext {
            if layout.name != "tseth" || timed {
                self.take(rest, *layout)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, rest: &mut &[u8], layout: Layout) -> Result<(), String> {
        let Some((head, tail)) = rest.split_at_checked(layout.bytes()) else {
            return Err(format!("{} cut short: {} of {} bytes", layout.name, rest.len(), layout.bytes()));
        };
        self.layers.push(Layer::parse(layout, head));
        *rest = tail;
        Ok(())
    }

    fn take_ip6(&mut self, rest: &mut &[u8]) -> Result<(), String> {
        let next = rest.get(6).copied().unwrap_or(0);
        if next == 41 || next == 43 {
            self.take(rest, format::OUTER)?;
            if next == 43 {
                self.take(rest, format::SRH)?;
                // Only the first segment of several is a field.
                let len = 8 + 8 * self.get("srh.len").unwrap_or(0) as usize;
                Self::skip(rest, "srh", len.saturating_sub(format::SRH.bytes()))?;
            }
        }
        self.take(rest, format::IP6)
    }

    /// An IPv4 header; of its options the first word is a field.
    fn take_ip4(&mut self, rest: &mut &[u8]) -> Result<(), String> {
        let words = usize::from(rest.first().copied().unwrap_or(0) & 0xF);
        let layout = if words > 5 { format::IP4_OPTIONS } else { format::IP4 };
        self.take(rest, layout)?;
        Self::skip(rest, "IPv4 options", (4 * words).saturating_sub(layout.bytes()))
    }

    /// What of a header has no fields.
    fn skip(rest: &mut &[u8], what: &str, len: usize) -> Result<(), String> {
        let there = rest.len();
        *rest = rest.get(len..).ok_or_else(|| format!("{what} cut short: {there} of {len} bytes"))?;
        Ok(())
    }

    /// Its type, when the opcode is known.
    pub fn kind(&self) -> Option<&'static Kind> {
        Kind::of(self.get("opcode")? as u8)
    }

    /// The entropy value as a responder echoes it; `swapped`: its high half is the source port.
    pub fn ev(&self, swapped: bool) -> u32 {
        let label = self.get("ip.label").unwrap_or(0) as u32;
        let port = self.get("sport").unwrap_or(0) as u32;
        if swapped { port << 16 | label } else { label << 16 | port }
    }

    /// Every field that is not as expected, for packets with the same headers.
    pub(crate) fn field_differences(&self, expected: &Self) -> impl Iterator<Item = Difference> {
        let layers = self.layers.iter().zip(&expected.layers);
        layers.flat_map(|(ours, theirs)| {
            let values = ours.layout.fields.iter().zip(&ours.values).zip(&theirs.values);
            values.filter(|((_, have), want)| have != want).map(|((field, have), want)| {
                let show = |value| show(value, field.bits, field.signed);
                let name = format!("{}.{}", ours.layout.name, field.name);
                Difference { field: name, expected: show(*want), actual: show(*have) }
            })
        })
    }

    /// Every transport field, also those that are zero.
    pub fn all_fields(&self) -> String {
        let mut text = self.kind().map_or("packet", |kind| kind.name).to_string();
        for layer in self.layers.iter().skip_while(|layer| layer.layout.name != "bth") {
            for (field, value) in layer.layout.fields.iter().zip(&layer.values) {
                let value = show(*value, field.bits, field.signed).replace(' ', "");
                let _ = write!(text, " {}={value}", field.name);
            }
        }
        text
    }

    /// Compares with what was expected; both have the same headers. `None`: equal.
    pub fn difference(&self, expected: &Self) -> Option<Difference> {
        if let Some(difference) = self.field_differences(expected).next() {
            return Some(difference);
        }
        let differ =
            |field: &str, expected: String, actual: String| Some(Difference { field: field.into(), expected, actual });
        if self.payload.len() != expected.payload.len() {
            let len = |packet: &Self| format!("{} bytes with pad", packet.payload.len());
            return differ("payload length", len(expected), len(self));
        }
        if let Some(at) = (0..self.payload.len()).find(|&n| self.payload[n] != expected.payload[n]) {
            let byte = |packet: &Self| format!("{:#04x} at byte {at}", packet.payload[at]);
            return differ("payload", byte(expected), byte(self));
        }
        let bytes = |packet: &Self| packet.bytes();
        let (have, want) = (bytes(self), bytes(expected));
        if have != want {
            let tail = |frame: &[u8]| hex(frame.get(frame.len().saturating_sub(4)..).unwrap_or(&[]));
            return differ("icrc", tail(&want), tail(&have));
        }
        None
    }
}

/// The field in which a packet is not what was expected.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    /// Qualified name.
    pub field: String,
    /// What the script says.
    pub expected: String,
    /// What came.
    pub actual: String,
}

/// A value the way people read it: small ones decimal with hexadecimal beside, wide ones hexadecimal.
pub fn show(value: u128, bits: u8, signed: bool) -> String {
    if signed && bits > 0 && value >> (bits - 1) & 1 == 1 {
        return format!("-{}", (1u128 << bits) - value);
    }
    if value < 10 {
        format!("{value}")
    } else if bits > 32 {
        format!("{value:#x}")
    } else {
        format!("{value} ({value:#x})")
    }
}

/// Bytes as one hexadecimal string.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// One line: the type and every transport field that is not zero.
impl std::fmt::Display for Packet {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind() {
            Some(kind) => write!(out, "{}", kind.name)?,
            None => write!(out, "opcode {:#04x}", self.get("opcode").unwrap_or(0))?,
        }
        write!(out, " ev={:#x} dscp={}", self.ev(false), self.get("ip.dscp").unwrap_or(0))?;
        let transport = self.layers.iter().skip_while(|layer| layer.layout.name != "bth");
        for layer in transport {
            for (field, value) in layer.layout.fields.iter().zip(&layer.values) {
                if *value != 0 && !matches!(field.name, "opcode" | "pkey" | "pad" | "ts" | "ftype") {
                    write!(out, " {}={}", field.name, show(*value, field.bits, field.signed).replace(' ', ""))?;
                }
            }
        }
        if !self.payload.is_empty() {
            let pad = self.get("pad").unwrap_or(0) as usize;
            write!(out, " len={}", self.payload.len().saturating_sub(pad))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden() -> Vec<(String, Vec<u8>)> {
        let text = include_str!("../data/golden.json");
        let doc: serde_json::Value = serde_json::from_str(text).unwrap();
        let hex = |value: &serde_json::Value| -> Vec<u8> {
            let text = value.as_str().or_else(|| value["hex"].as_str()).or_else(|| value["frame"].as_str()).unwrap();
            (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
        };
        doc["packets"].as_object().unwrap().iter().map(|(name, value)| (name.clone(), hex(value))).collect()
    }

    /// The tables against the published packets: read, written again, and the trailer found by calculation.
    //= ICRC-002, ICRC-004, ICRC-005, ICRC-006, ICRC-007, ICRC-008 test
    #[test]
    fn the_published_packets_go_in_and_out() {
        let packets = golden();
        assert!(packets.len() >= 13);
        for (name, bytes) in packets.iter().filter(|(name, _)| !name.starts_with("trimmed")) {
            let mut packet = Packet::parse(bytes).unwrap_or_else(|why| panic!("{name}: {why}"));
            assert_eq!(&packet.bytes(), bytes, "{name}");
            packet.icrc = None;
            assert_eq!(&packet.bytes(), bytes, "{name}: ICRC");
        }
    }

    //= ETH-002 test
    #[test]
    fn two_tags_are_read_and_three_are_named() {
        let (_, plain) = golden().into_iter().find(|(name, _)| name == "srv6_write_only_ts").unwrap();
        let mut tagged = plain.clone();
        for tag in [[0x81, 0, 0, 7], [0x88, 0xA8, 0, 9]] {
            tagged.splice(12..12, tag);
            let mut packet = Packet::parse(&tagged).unwrap();
            assert_eq!(packet.bytes(), tagged);
            packet.icrc = None;
            assert_eq!(packet.bytes(), tagged, "the trailer covers no tag");
            assert!(crate::vectors::good_trailer(&tagged));
        }
        tagged.splice(12..12, [0x81, 0, 0, 7]);
        assert_eq!(Packet::parse(&tagged).unwrap_err(), "EtherType 0x8100");
        assert!(!crate::vectors::good_trailer(&tagged));
    }

    /// Scripts and `mrc decode` share their names.
    #[test]
    fn a_script_can_name_every_field_that_decode_prints() {
        let own = ["ip.ce", "entropy", "payload.offset", "payload.len", "icrc.offset"];
        let cfg = mrc_wire::WireConfig::default();
        for (name, bytes) in golden().iter().filter(|(name, _)| !name.starts_with("trimmed")) {
            let packet = Packet::parse(bytes).unwrap();
            let frame = mrc_wire::parse_frame(bytes, bytes.len(), &cfg, |_| true).unwrap();
            frame.for_each_field(|field, _| {
                let short = format::short_name(field).unwrap_or(field);
                assert!(own.contains(&field) || packet.find(short).is_some(), "{name}: {field}");
            });
        }
        let script = "# t\nrequires SACK-001\n0 > sack seth.cack_psn=4 cc_state.ooo_count=1";
        let script = crate::Script::parse("a", script).unwrap();
        let crate::Op::Expect(spec) = &script.steps[0].op else { panic!() };
        assert_eq!((spec.number("cack"), spec.number("ooo")), (Some(4), Some(1)));
    }

    #[test]
    fn a_difference_is_named() {
        let (_, bytes) = golden().into_iter().find(|(name, _)| name == "sack_ecn").unwrap();
        let expected = Packet { icrc: None, ..Packet::parse(&bytes).unwrap() };
        let mut actual = expected.clone();
        assert_eq!(actual.difference(&expected), None);
        actual.set("sack_offset", u128::from(0xFFFEu16));
        let difference = actual.difference(&expected).unwrap();
        assert_eq!((difference.field.as_str(), difference.expected.as_str()), ("seth.sack_offset", "1"));
        assert_eq!(difference.actual, "-2");
        let mut actual = expected.clone();
        actual.icrc = Some([1, 2, 3, 4]);
        assert_eq!(actual.difference(&expected).unwrap().field, "icrc");
    }

    #[test]
    fn headers_of_a_broken_frame_are_read_as_far_as_they_go() {
        let (_, bytes) = golden().into_iter().find(|(name, _)| name == "write_only_ts").unwrap();
        let names = |packet: &Packet| packet.layers.iter().map(|layer| layer.layout.name).collect::<Vec<_>>().join(" ");
        let (packet, end) = Packet::headers(&bytes[..14 + 40 + 8 + 12 + 4 + 4 + 5]);
        assert_eq!(names(&packet), "eth ip udp bth meth tseth");
        assert_eq!(end.as_deref(), Some("reth cut short: 5 of 16 bytes"));
        let (packet, end) = Packet::headers(&bytes);
        assert_eq!((names(&packet).as_str(), end), ("eth ip udp bth meth tseth reth", None));
        let (_, mut bytes) = golden().into_iter().find(|(name, _)| name == "ipv4_write_only_imm_empty").unwrap();
        // Two words of options.
        bytes.splice(34..34, [1; 8]);
        bytes[14] = 0x47;
        let (packet, end) = Packet::headers(&bytes);
        assert_eq!((packet.get("opcode"), packet.get("ip.options"), end), (Some(0xCB), Some(0x0101_0101), None));
        let (_, mut srh) = golden().into_iter().find(|(name, _)| name == "srv6_srh_write_only_ts").unwrap();
        // Two segments more.
        srh.splice(78..78, [0; 32]);
        srh[55] = 6;
        let (headers, none) = Packet::headers(&srh);
        assert_eq!((headers.get("opcode"), none), (Some(0xCA), None));
        let (packet, end) = Packet::headers(&bytes[..40]);
        assert_eq!((names(&packet).as_str(), end.as_deref()), ("eth ip", Some("IPv4 options cut short: 2 of 4 bytes")));
    }

    #[test]
    fn no_bytes_panic() {
        let (_, bytes) = golden().into_iter().next().unwrap();
        for len in 0..bytes.len() {
            let _ = Packet::parse(&bytes[..len]);
        }
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xFF] {
                let mut bytes = bytes.clone();
                bytes[at] ^= flip;
                if let Ok(packet) = Packet::parse(&bytes) {
                    let _ = packet.to_string();
                }
            }
        }
    }
}
