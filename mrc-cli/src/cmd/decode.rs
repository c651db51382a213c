//! `mrc decode`: packets of a capture file or a hex string, one line each, or field by field.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::out::{self, errln, outln};
use crate::usage::usage;
use anyhow::{anyhow, bail};
use mrc_conform::Packet;
use mrc_verbs_shim::host::HostFile;
use mrc_wire::{Frame, Ip, Reject, WireConfig, icrc, parse_frame};

use capture::Captured;

mod capture;
mod pcapng;
mod tunnel;

/// Arguments of `mrc decode`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mrc decode mrc-demo.pcapng             one line per packet
  mrc decode -v capture.pcap             every field, then each header as it is on the wire with its reserved bits; for a
                                         broken packet the headers that are there, and which one is cut;
                                         names are those of mrc conform --list-fields
  mrc decode --dport 4791 capture.pcap   another UDP port, or two: 4791,5000
  mrc decode --host-file /etc/mrc/mrc.toml capture.pcap
                                         the ports and code points of a host whose file has others than the defaults
  mrc decode 02000000000b02...           one frame as hex, from its Ethernet header
  tcpdump -U -w - | mrc decode -         a capture from standard input, packet by packet

A recording of a device (`mrc control record`) has events between its packets: lines that begin with --.
Captures of Ethernet, of all interfaces (Linux cooked) and of raw IP are understood. Packets of other protocols and
broken ones are counted by the first check they fail: link_type (an interface of another kind), l3_bad (no IP header, or
a fragment of IPv4),
l3_dst (a wrong chain behind the outer IPv6 header), l3_len (longer than the frame), udp_bad (not UDP, a fragment of
IPv6, another port, a wrong length), short (bytes are missing), snapped (the capture cut it within its headers: tcpdump -s 256 keeps them),
opcode, tver.

Packets in a tunnel of a mirror session or a network (ERSPAN, GRE, VXLAN, Geneve, MPLS, any number of VLAN tags) are opened;
their lines end with its name. sFlow and IPFIX are not: Wireshark opens them, with what mrc dissector prints.

Exit codes: 0 at least one MRC packet was decoded, 1 none was or the capture breaks off, 2 usage, or the input is no capture.")]
pub struct Args {
    /// Capture file (pcap or pcapng), frame as hex digits, or - for a capture on standard input
    input: PathBuf,
    /// Print every field of every packet, then each header as it is on the wire; also of packets that are not MRC, and why
    #[arg(short, long)]
    verbose: bool,
    /// Print one JSON object per packet; those that are not MRC only with -v
    #[arg(long)]
    json: bool,
    /// UDP destination port that carries MRC, or two [default: 4791,4971, or those of the host file]
    #[arg(long, value_name = "PORT[,PORT]", value_parser = ports)]
    dport: Option<[u16; 2]>,
    /// Host file with the UDP ports, code points and order of EV halves of these packets, where they are not the defaults
    #[arg(long, value_name = "FILE")]
    host_file: Option<PathBuf>,
}

impl Args {
    /// How packets are read.
    fn wire(&self) -> anyhow::Result<WireConfig> {
        let host = self.host_file.as_ref().map(|path| HostFile::read(path)).transpose()?;
        let mut wire = host.map_or_else(WireConfig::default, |host| host.device().endpoint.wire);
        if !wire.udp_dport_accept.contains(&wire.udp_dport) {
            wire.udp_dport_accept[1] = wire.udp_dport;
        }
        wire.udp_dport_accept = self.dport.unwrap_or(wire.udp_dport_accept);
        Ok(wire)
    }
}

fn ports(text: &str) -> Result<[u16; 2], String> {
    let (first, second) = text.split_once(',').unwrap_or((text, text));
    let port =
        |text: &str| text.parse().map_err(|_| format!("`{text}` is no UDP port; one or two are given as 4791,5000"));
    Ok([port(first)?, port(second)?])
}

/// Whether the trailer is right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Check {
    Good,
    Bad,
    /// Trimmed, or cut by the capture.
    Absent,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let cfg = args.wire()?;
    let (mut number, mut decoded) = (0, 0u64);
    // By reason: how many, and the first of them.
    let mut refused = BTreeMap::<&str, (u64, u64)>::new();
    let result = read(&args.input, |packet| {
        number += 1;
        if !args.json {
            let lines = packet.comments.iter().flat_map(|comment| comment.lines().map(out::printable));
            lines.for_each(|line| outln!("{}-- {line}", time(packet)));
        }
        let (opened, judged) = open(packet, &cfg);
        let packet = opened.as_ref().unwrap_or(packet);
        match judged {
            Ok(frame) => {
                decoded += 1;
                print(&args, &cfg, number, packet, &frame);
            }
            Err(why) => {
                refused.entry(why.0).or_insert((0, number)).0 += 1;
                if args.verbose {
                    print_refused(&args, &cfg, number, packet, why);
                }
            }
        }
        if out::is_closed() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if !refused.is_empty() {
        let reason = |(why, (count, first)): (&&str, &(u64, u64))| match count {
            1 => format!("1 {why} (packet {first})"),
            _ => format!("{count} {why} (the first is packet {first})"),
        };
        errln!("not MRC: {}", refused.iter().map(reason).collect::<Vec<_>>().join(", "));
    }
    result?;
    if decoded == 0 {
        errln!("{}", nothing_decoded(number, refused.keys().copied()));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// What may be the cause that none of so many packets was one of MRC, by the reasons of all of them.
fn nothing_decoded(packets: u64, mut reasons: impl Iterator<Item = &'static str>) -> &'static str {
    if packets == 0 {
        "no packet in the input"
    } else if reasons.all(|why| why == SNAPPED.0) {
        "no MRC packet can be read: the capture ends within their headers, which tcpdump -s 256 keeps"
    } else {
        "no MRC packet in the input; other UDP ports are chosen with --dport"
    }
}

/// Name and meaning of what is wrong with a packet.
type Wrong = (&'static str, &'static str);

/// The MRC packet that this is, or that is in its tunnels, with what was inside of them.
fn open(packet: &Captured, cfg: &WireConfig) -> (Option<Captured>, Result<Frame, Wrong>) {
    /// A mirrored frame of a network with tunnels of its own has two; no packet may keep the program busy.
    const MOST_TUNNELS: usize = 8;
    let mut opened = None;
    let mut judged = judge(packet, cfg);
    for _ in 0..MOST_TUNNELS {
        let Some(inner) = judged.as_ref().err().and_then(|_| tunnel::open(opened.as_ref().unwrap_or(packet))) else {
            break;
        };
        judged = judge(&inner, cfg);
        opened = Some(inner);
    }
    (opened, judged)
}

/// The MRC packet that this is; name and meaning of what is wrong if it is none.
fn judge(packet: &Captured, cfg: &WireConfig) -> Result<Frame, Wrong> {
    if packet.foreign {
        return Err(FOREIGN);
    }
    parse(&packet.bytes, packet.wire_len.max(packet.bytes.len()), cfg).map_err(|why| match why {
        Reject::Short if packet.bytes.len() < packet.wire_len => SNAPPED,
        Reject::L3Bad | Reject::L3Dst | Reject::UdpBad if is_cut_before_ports(packet) => SNAPPED,
        why => (why.name(), meaning(why)),
    })
}

/// Whether the capture ends before the UDP ports, and only for that the packet has none: with more bytes there would be
/// another header.
fn is_cut_before_ports(packet: &Captured) -> bool {
    const LONGEST_HEADER: usize = 60;
    let (there, _) = Packet::headers(&packet.bytes);
    let longer = [&packet.bytes[..], &[0; LONGEST_HEADER]].concat();
    packet.bytes.len() < packet.wire_len
        && there.get("dport").is_none()
        && Packet::headers(&longer).0.layers.len() > there.layers.len()
}

/// As [`parse_frame`], also for what is seen on its way: a path extension of which the last segment is still to come, which
/// no host may accept.
fn parse(head: &[u8], wire_len: usize, cfg: &WireConfig) -> Result<Frame, Reject> {
    match parse_frame(head, wire_len, cfg, |_| true) {
        Err(Reject::L3Dst) => {
            let arrived = at_last_segment(head).ok_or(Reject::L3Dst)?;
            parse_frame(&arrived, wire_len, cfg, |_| true)
        }
        result => result,
    }
}

/// The frame with the segments left of its segment routing header at 0.
fn at_last_segment(head: &[u8]) -> Option<Vec<u8>> {
    const ROUTING: u8 = 43;
    let (ip, ..) = tunnel::behind_tags(head)?;
    let mut head = (*head.get(ip + 6)? == ROUTING).then(|| head.to_vec())?;
    *head.get_mut(ip + 40 + 3)? = 0;
    Some(head)
}

fn check(packet: &Captured, frame: &Frame) -> Check {
    if matches!(frame.body, mrc_wire::Body::Trimmed { .. }) || frame.icrc_offset + icrc::LEN > packet.bytes.len() {
        Check::Absent
    } else if icrc::verify(&packet.bytes, frame.l3_offset, frame.icrc_offset) {
        Check::Good
    } else {
        Check::Bad
    }
}

/// The trailer that the packet carries, as hex.
fn trailer(packet: &Captured, frame: &Frame) -> String {
    mrc_conform::hex(packet.bytes.get(frame.icrc_offset..frame.icrc_offset + icrc::LEN).unwrap_or_default())
}

/// The trailer that the packet should carry, as hex.
fn expected(packet: &Captured, frame: &Frame) -> String {
    let covered = packet.bytes.get(frame.l3_offset..frame.icrc_offset).unwrap_or_default();
    icrc::compute(covered).map_or_else(|| "unknown".into(), |trailer| mrc_conform::hex(&trailer))
}

/// What every object has.
fn object(number: u64, packet: &Captured) -> serde_json::Map<String, serde_json::Value> {
    let mut fields = serde_json::Map::new();
    fields.insert("number".into(), number.into());
    if let Some(at) = packet.at {
        fields.insert("time_s".into(), at.as_secs_f64().into());
        // What a float is too coarse for.
        fields.insert("time_ns".into(), u64::try_from(at.as_nanos()).unwrap_or(u64::MAX).into());
    }
    fields.insert("len".into(), packet.place(packet.wire_len).into());
    if !packet.comments.is_empty() {
        fields.insert("comments".into(), packet.comments.clone().into());
    }
    if !packet.tunnels.is_empty() {
        fields.insert("tunnels".into(), packet.tunnels.clone().into());
    }
    fields
}

/// When a packet was seen, for the beginning of its line.
fn time(packet: &Captured) -> String {
    packet.at.map_or_else(String::new, |at| format!("{}.{:09} ", at.as_secs(), at.subsec_nanos()))
}

/// A field's value; offsets count from the beginning of the captured packet, whatever its link header.
fn in_capture(packet: &Captured, name: &str, value: String) -> String {
    match value.parse() {
        Ok(at) if name.ends_with(".offset") => packet.place(at).to_string(),
        _ => value,
    }
}

fn print(args: &Args, cfg: &WireConfig, number: u64, packet: &Captured, frame: &Frame) {
    let check = check(packet, frame);
    if args.json {
        let mut fields = object(number, packet);
        frame.for_each_field(|name, value| {
            // Numbers and truth values as they are; all else is text.
            let text = in_capture(packet, name, value.to_string());
            let value = serde_json::from_str(&text).unwrap_or(serde_json::Value::String(text));
            fields.insert(name.to_owned(), value);
        });
        fields.insert("icrc".into(), format!("{check:?}").to_lowercase().into());
        if check == Check::Bad {
            fields.insert("icrc.expected".into(), format!("0x{}", expected(packet, frame)).into());
        }
        if args.verbose {
            insert_headers(&mut fields, packet, cfg.udp_dport_accept);
        }
        outln!("{}", serde_json::Value::Object(fields));
        return;
    }
    let mark = match check {
        Check::Good => String::new(),
        Check::Bad => format!(" ICRC BAD: {}, expected {}", trailer(packet, frame), expected(packet, frame)),
        Check::Absent => " (icrc not checked)".to_string(),
    };
    let via = frame.outer_dst.map_or(String::new(), |dst| format!(" via {}", text(Ip::V6(dst))));
    let tunnels = packet.tunnels.iter().map(|tunnel| format!(" (in {tunnel})")).collect::<String>();
    outln!("{}{} > {}{via}: {frame}{mark}{tunnels}", time(packet), text(frame.src), text(frame.dst));
    if args.verbose {
        frame.for_each_field(|name, value| outln!("    {name:<24} {}", in_capture(packet, name, value.to_string())));
        print_headers(packet, cfg.udp_dport_accept);
    }
}

/// The headers of a packet, and why no more of them follow. Behind the UDP header of another port, and in a fragment that is
/// not the first, there are none of MRC.
fn headers(packet: &Captured, dport: [u16; 2]) -> (Packet, Option<String>) {
    let (mut headers, end) = Packet::headers(&packet.bytes);
    if packet.bare {
        headers.layers.retain(|layer| layer.layout.name != "eth");
    }
    let foreign = headers.get("dport").filter(|port| !dport.map(u128::from).contains(port));
    let later = headers.get("fragment").filter(|&at| at != 0);
    let (last, why) = match (later, foreign) {
        (Some(at), _) => ("ip", format!("a fragment from byte {}", at * 8)),
        (None, Some(port)) => ("udp", format!("UDP port {port}")),
        (None, None) => return (headers, end),
    };
    let last = headers.layers.iter().position(|layer| layer.layout.name == last);
    headers.layers.truncate(last.map_or(0, |last| last + 1));
    (headers, Some(why))
}

/// Every header as it is on the wire, field by field, reserved ones included; what a broken one lacks.
fn print_headers(packet: &Captured, dport: [u16; 2]) {
    let (headers, end) = headers(packet, dport);
    for layer in &headers.layers {
        let fields = layer.layout.fields.iter().zip(&layer.values);
        let fields = fields.map(|(field, value)| format!("{}={}", field.name, raw(field.bits, *value)));
        outln!("    wire {:<19} {}", layer.layout.name, fields.collect::<Vec<_>>().join(" "));
    }
    if let Some(end) = end {
        outln!("    wire                     {end}");
    }
}

/// A field as it is on the wire: addresses and words hexadecimal, smaller ones decimal.
fn raw(bits: u8, value: u128) -> String {
    if bits >= 32 { format!("0x{value:0width$x}", width = usize::from(bits / 4)) } else { value.to_string() }
}

/// As [`print_headers`], for an object.
fn insert_headers(fields: &mut serde_json::Map<String, serde_json::Value>, packet: &Captured, dport: [u16; 2]) {
    let (headers, end) = headers(packet, dport);
    let mut wire = serde_json::Map::new();
    for layer in &headers.layers {
        for (field, value) in layer.layout.fields.iter().zip(&layer.values) {
            let name = format!("{}.{}", layer.layout.name, field.name);
            let value = match u32::try_from(*value) {
                Ok(value) if field.bits < 32 => value.into(),
                _ => raw(field.bits, *value).into(),
            };
            wire.insert(name, value);
        }
    }
    fields.insert("wire".into(), wire.into());
    if let Some(end) = end {
        fields.insert("wire_end".into(), end.into());
    }
}

/// What the check means that a frame fails.
fn meaning(why: Reject) -> &'static str {
    match why {
        Reject::L3Bad => "no whole IP header behind the Ethernet header, or a fragment of IPv4",
        Reject::L3Dst => "a wrong chain of headers behind the outer IPv6 header",
        Reject::L3Len => "the IP header says more bytes than the frame has",
        Reject::UdpBad => "not UDP, a fragment of IPv6, another destination port, or a wrong UDP length",
        Reject::Short => "bytes of a transport header, the pad or the ICRC are missing",
        Reject::Opcode => {
            "an opcode or endpoint operation that MRC does not have, or a trimmed packet that is no write"
        }
        Reject::Tver => "another transport version than 0",
        _ => "another reason",
    }
}

/// A packet of an interface of which the link header is not known.
const FOREIGN: Wrong = ("link_type", "its interface is neither Ethernet, Linux cooked nor raw IP");

/// A packet that the capture cut within its headers: it may have been a good one.
const SNAPPED: Wrong = ("snapped", "the capture ends within its headers: keep more of each packet (tcpdump -s 256)");

fn print_refused(args: &Args, cfg: &WireConfig, number: u64, packet: &Captured, (why, meaning): Wrong) {
    if args.json {
        let mut fields = object(number, packet);
        fields.insert("not_mrc".into(), why.into());
        if !packet.foreign {
            insert_headers(&mut fields, packet, cfg.udp_dport_accept);
        }
        outln!("{}", serde_json::Value::Object(fields));
    } else {
        let (len, kept) = (packet.place(packet.wire_len), packet.place(packet.bytes.len()));
        let cut = if kept < len { format!(" ({kept} captured)") } else { String::new() };
        let tunnels = packet.tunnels.iter().map(|tunnel| format!(" in {tunnel}")).collect::<String>();
        outln!("{}packet {number}, {len} bytes{cut}{tunnels}, not MRC: {why}: {meaning}", time(packet));
        if !packet.foreign {
            print_headers(packet, cfg.udp_dport_accept);
        }
    }
}

/// One line about a frame of which the headers are there; their own length fields are believed, for a scenario may give
/// packets another length on the wire.
pub fn line(head: &[u8], wire_len: usize) -> String {
    match parse(head, usize::from(u16::MAX), &WireConfig::default()) {
        Ok(frame) => format!("{} > {}: {frame}", text(frame.src), text(frame.dst)),
        Err(why) => format!("{wire_len} bytes, not MRC: {}", why.name()),
    }
}

fn text(ip: Ip) -> String {
    ip.to_string()
}

/// The frames of a file, of standard input, or of a hex string.
fn read(input: &Path, mut each: impl FnMut(&Captured) -> ControlFlow<()>) -> anyhow::Result<()> {
    let name = input.display().to_string();
    if name == "-" {
        return capture::read(io::stdin().lock(), "standard input", each);
    }
    match File::open(input) {
        Ok(file) => return capture::read(file, &name, each),
        Err(error) if name.contains(['/', '.']) || input.exists() => {
            return Err(usage(match error.kind() {
                io::ErrorKind::NotFound => anyhow!("there is no file {name}"),
                _ => anyhow!(error).context(format!("cannot read {name}")),
            }));
        }
        Err(_) => {}
    }
    let bytes = hex(&name).map_err(usage)?;
    let _ = each(&capture::frame(None, bytes.len(), bytes));
    Ok(())
}

/// Hex digits, with blanks and colons allowed between bytes.
fn hex(text: &str) -> anyhow::Result<Vec<u8>> {
    let mut digits = Vec::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        match c.to_digit(16) {
            Some(digit) => digits.push(digit as u8),
            None if c.is_whitespace() || c == ':' => {}
            None => bail!("`{c}` at position {} is no hex digit, and there is no file of that name", at + 1),
        }
    }
    if digits.is_empty() || digits.len() % 2 == 1 {
        bail!("{} hex digits: an even number, at least two, is needed", digits.len());
    }
    Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn golden(name: &str) -> Captured {
        let text = include_str!("../../../mrc-wire/tests/golden.json");
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        let bytes = hex(value["packets"][name]["hex"].as_str().unwrap()).unwrap();
        capture::frame(None, bytes.len(), bytes)
    }

    fn parsed(packet: &Captured) -> Frame {
        parse(&packet.bytes, packet.wire_len, &WireConfig::default()).unwrap()
    }

    #[test]
    fn what_is_said_of_a_capture_without_mrc_follows_from_its_packets() {
        let says = |packets, reasons: &[&'static str]| nothing_decoded(packets, reasons.iter().copied());
        assert_eq!(says(0, &[]), "no packet in the input");
        assert!(says(3, &["snapped"]).contains("tcpdump -s 256") && !says(3, &["snapped"]).contains("--dport"));
        assert!(says(3, &["snapped", "udp_bad"]).contains("--dport"));
    }

    #[test]
    fn golden_packets_are_good_and_broken_ones_are_not() {
        for name in ["write_only_ts", "sack_ecn", "srv6_srh_write_only_ts", "ipv4_write_only_imm_empty"] {
            let mut packet = golden(name);
            assert_eq!(check(&packet, &parsed(&packet)), Check::Good, "{name}");
            let last = packet.bytes.len() - 5;
            packet.bytes[last] ^= 1;
            assert_eq!(check(&packet, &parsed(&packet)), Check::Bad, "{name}");
            assert_ne!(trailer(&packet, &parsed(&packet)), expected(&packet, &parsed(&packet)), "{name}");
            // Zeros in place of the trailer: what is expected is what was there.
            let mut packet = golden(name);
            let right = trailer(&packet, &parsed(&packet));
            let end = packet.bytes.len();
            packet.bytes[end - 4..].fill(0);
            assert_eq!(expected(&packet, &parsed(&packet)), right, "{name}");
        }
        let trimmed = golden("trimmed_write_only_ts");
        assert_eq!(check(&trimmed, &parsed(&trimmed)), Check::Absent);
    }

    #[test]
    fn a_snapped_packet_is_decoded_but_not_checked() {
        let mut packet = golden("srv6_write_only_ts");
        packet.bytes.truncate(140);
        let frame = parsed(&packet);
        assert_eq!(check(&packet, &frame), Check::Absent);
        assert!(frame.to_string().contains("WRITE_ONLY"));
        // Within the headers nothing can be decoded, and the packet is not to blame for that.
        let cfg = WireConfig::default();
        packet.bytes.truncate(120);
        assert_eq!(judge(&packet, &cfg).unwrap_err().0, "snapped");
        packet.wire_len = 120;
        assert_ne!(judge(&packet, &cfg).unwrap_err().0, "snapped");
    }

    #[test]
    fn whatever_header_the_capture_ends_in_the_packet_is_not_to_blame() {
        let cfg = WireConfig::default();
        let kinds = ["write_only_ts", "srv6_write_only_ts", "srv6_srh_write_only_ts", "ipv4_write_only_imm_empty"];
        for name in kinds {
            let whole = golden(name);
            for len in 0..parsed(&whole).payload.start {
                let bytes = whole.bytes[..len].to_vec();
                let why = judge(&capture::frame(None, whole.wire_len, bytes), &cfg).unwrap_err().0;
                assert_eq!(why, "snapped", "{name} {len}");
            }
        }
        // What is there says that more bytes would not help: another protocol, another port.
        for (at, other, why) in [(12, [0x08, 0x06], "l3_bad"), (20, [6, 64], "udp_bad"), (56, [0, 53], "udp_bad")] {
            let mut packet = golden("write_only_ts");
            packet.bytes[at..at + 2].copy_from_slice(&other);
            packet.bytes.truncate(64);
            assert_eq!(judge(&packet, &cfg).unwrap_err().0, why);
        }
    }

    #[test]
    fn a_comment_steers_no_terminal() {
        let lines: Vec<_> = "seen at T0\r\n\u{1b}[31mred\u{7} \u{e9}".lines().map(out::printable).collect();
        assert_eq!(lines, ["seen at T0", "\\u{1b}[31mred\\u{7} \u{e9}"]);
    }

    #[test]
    fn a_path_extension_is_decoded_before_its_last_segment_too() {
        let mut packet = golden("srv6_srh_write_only_ts");
        packet.bytes[14 + 40 + 3] = 1;
        assert_eq!(parse_frame(&packet.bytes, packet.wire_len, &WireConfig::default(), |_| true), Err(Reject::L3Dst));
        assert_eq!(check(&packet, &parsed(&packet)), Check::Good);
        // The same behind a VLAN tag, and behind two.
        for tag in [[0x81, 0, 0, 7], [0x88, 0xA8, 0, 9]] {
            packet.bytes.splice(12..12, tag);
            packet.wire_len += 4;
            assert_eq!(check(&packet, &parsed(&packet)), Check::Good);
        }
        for len in 0..packet.bytes.len() {
            let _ = parse(&packet.bytes[..len], len, &WireConfig::default());
        }
    }

    #[test]
    fn headers_show_what_the_fields_leave_out() {
        let mut packet = golden("sack_ecn");
        // The reserved verdict, a reserved bit of BTH, the hop limit.
        packet.bytes[14 + 7] = 9;
        packet.bytes[62 + 4] = 0x80;
        packet.bytes[62 + 12 + 1] |= 0x60;
        let mut fields = serde_json::Map::new();
        insert_headers(&mut fields, &packet, [4791, 4971]);
        let wire = &fields["wire"];
        assert_eq!((&wire["seth.m"], &wire["bth.var_res"], &wire["ip.hop"]), (&3.into(), &0x80.into(), &9.into()));
        assert_eq!(wire["ip.src"], "0x20010db800010000000000000000000b");
        assert!(!fields.contains_key("wire_end"));
        packet.bytes.truncate(62 + 12 + 30);
        insert_headers(&mut fields, &packet, [4791, 4971]);
        assert_eq!(fields["wire_end"], "seth cut short: 30 of 36 bytes");
    }

    #[test]
    fn what_no_port_of_mrc_carries_has_no_headers_of_mrc() {
        let mut packet = golden("write_only_ts");
        packet.bytes[56..58].copy_from_slice(&4789u16.to_be_bytes());
        let (shown, end) = headers(&packet, [4791, 4971]);
        let names: Vec<_> = shown.layers.iter().map(|layer| layer.layout.name).collect();
        assert_eq!((&names[..], end.as_deref()), (&["eth", "ip", "udp"][..], Some("UDP port 4789")));
        assert!(headers(&packet, [4789; 2]).1.is_none(), "a port that was asked for");
        packet.bytes.truncate(64);
        assert_eq!(
            headers(&packet, [4791, 4971]).1.as_deref(),
            Some("UDP port 4789"),
            "the port says more than the cut"
        );
        let mut packet = golden("ipv4_write_only_imm_empty");
        packet.bytes[21] = 10;
        let (shown, end) = headers(&packet, [4791, 4971]);
        assert_eq!((shown.layers.len(), end.as_deref()), (2, Some("a fragment from byte 80")));
        assert_eq!(judge(&packet, &WireConfig::default()).unwrap_err().0, "l3_bad");
    }

    #[test]
    fn a_host_file_says_which_packets_are_trimmed_and_which_ports_they_have() {
        let path = std::env::temp_dir().join(format!("mrc-decode-host-{}.toml", std::process::id()));
        let text = "name = \"hA\"\ngid = \"fd00::1\"\nmtu = 9000\n[dscp]\ntrimmable = 12\ntrimmed = 4\n[protocol]\nudp_port = 5000\n\
            [[planes]]\ninterface = \"p0\"\nnext_hop = \"02:00:00:00:00:01\"\n[[peers]]\nname = \"hB\"\ngid = \"fd00::2\"\nuplinks = 4\n";
        std::fs::write(&path, text).unwrap();
        let args =
            |dport| Args { input: PathBuf::new(), verbose: false, json: false, dport, host_file: Some(path.clone()) };
        let wire = args(None).wire().unwrap();
        assert_eq!(
            (wire.udp_dport_accept, args(Some([7; 2])).wire().unwrap().udp_dport_accept),
            ([4791, 5000], [7; 2])
        );
        let packet = golden("write_only_ts");
        assert!(matches!(judge(&packet, &wire).unwrap().body, mrc_wire::Body::Trimmed { .. }));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn every_refusal_has_a_meaning() {
        for why in Reject::ALL {
            assert_ne!(meaning(why), "another reason", "{why:?}");
        }
    }

    #[test]
    fn one_port_or_two() {
        assert_eq!((ports("4791"), ports("1,65535")), (Ok([4791; 2]), Ok([1, 65535])));
        for wrong in ["", "65536", "x", "1,2,3", "1,"] {
            assert!(ports(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn hex_may_have_blanks_and_names_what_is_wrong() {
        assert_eq!(hex("0a:0B 0c").unwrap(), [10, 11, 12]);
        assert!(hex("0g").unwrap_err().to_string().contains("position 2"));
        assert!(hex("abc").is_err() && hex("").is_err());
    }
}
