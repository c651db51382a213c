//! `mrc decode`: packets of a capture file or a hex string, one line each, or field by field.

use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use crate::out::{self, outln};
use anyhow::{Context as _, bail};
use mrc_wire::{Frame, Ip, WireConfig, icrc, parse_frame};
use pcap_file::DataLink;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};

/// Arguments of `mrc decode`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mrc decode mrc-demo.pcapng             one line per packet
  mrc decode -v capture.pcap             every field
  mrc decode 02000000000b02...           one frame as hex, from its Ethernet header
  tcpdump -w - | mrc decode -            a capture from standard input

Captures of Ethernet, of all interfaces (Linux cooked) and of raw IP are understood.

Exit codes: 0 at least one MRC packet was decoded, 1 none was or the input is broken, 2 usage.")]
pub struct Args {
    /// Capture file (pcap or pcapng), frame as hex digits, or - for a capture on standard input
    input: String,
    /// Print every field of every packet
    #[arg(short, long)]
    verbose: bool,
    /// Print one JSON object per packet
    #[arg(long)]
    json: bool,
    /// UDP destination ports that carry MRC
    #[arg(long, value_delimiter = ',', num_args = 1..=2, default_values_t = [4791u16, 4971])]
    dport: Vec<u16>,
}

/// A captured frame: possibly only its beginning.
struct Captured {
    at: Option<Duration>,
    wire_len: usize,
    bytes: Vec<u8>,
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
    let mut cfg = WireConfig::default();
    let first = args.dport.first().copied().unwrap_or(cfg.udp_dport);
    cfg.udp_dport_accept = [first, args.dport.get(1).copied().unwrap_or(first)];
    let (mut decoded, mut refused) = (0u64, std::collections::BTreeMap::<&str, u64>::new());
    for (number, packet) in read(&args.input)?.iter().enumerate() {
        if out::is_closed() {
            break;
        }
        match parse_frame(&packet.bytes, packet.wire_len.max(packet.bytes.len()), &cfg, |_| true) {
            Ok(frame) => {
                decoded += 1;
                print(&args, number + 1, packet, &frame);
            }
            Err(why) => *refused.entry(why.name()).or_default() += 1,
        }
    }
    if !refused.is_empty() {
        let reasons: Vec<String> = refused.iter().map(|(why, count)| format!("{count} {why}")).collect();
        eprintln!("not MRC: {}", reasons.join(", "));
    }
    if decoded == 0 {
        eprintln!("no MRC packet in the input; other UDP ports are chosen with --dport");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
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

fn print(args: &Args, number: usize, packet: &Captured, frame: &Frame) {
    let check = check(packet, frame);
    if args.json {
        let mut fields = serde_json::Map::new();
        fields.insert("number".into(), number.into());
        if let Some(at) = packet.at {
            fields.insert("time_s".into(), at.as_secs_f64().into());
        }
        fields.insert("len".into(), packet.wire_len.into());
        frame.for_each_field(|name, value| {
            fields.insert(name.to_owned(), value.to_string().into());
        });
        fields.insert("icrc".into(), format!("{check:?}").to_lowercase().into());
        outln!("{}", serde_json::Value::Object(fields));
        return;
    }
    let time = packet.at.map_or_else(String::new, |at| format!("{:.6} ", at.as_secs_f64()));
    let mark = match check {
        Check::Good => "",
        Check::Bad => " ICRC BAD",
        Check::Absent => " (icrc not checked)",
    };
    outln!("{time}{} > {}: {frame}{mark}", text(frame.src), text(frame.dst));
    if args.verbose {
        frame.for_each_field(|name, value| outln!("    {name:<24} {value}"));
    }
}

/// One line about a frame of which the headers are there; their own length fields are believed, for a scenario may give
/// packets another length on the wire.
pub fn line(head: &[u8], wire_len: usize) -> String {
    match parse_frame(head, usize::from(u16::MAX), &WireConfig::default(), |_| true) {
        Ok(frame) => format!("{} > {}: {frame}", text(frame.src), text(frame.dst)),
        Err(why) => format!("{wire_len} bytes, not MRC: {}", why.name()),
    }
}

fn text(ip: Ip) -> String {
    ip.to_string()
}

/// The frames of a file, of standard input, or of a hex string.
fn read(input: &str) -> anyhow::Result<Vec<Captured>> {
    if input == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).context("reading standard input")?;
        return capture(&bytes, "standard input");
    }
    if Path::new(input).exists() {
        let bytes = std::fs::read(input).with_context(|| format!("cannot read {input}"))?;
        return capture(&bytes, input);
    }
    if input.contains(['/', '.']) {
        bail!("there is no file {input}");
    }
    let bytes = hex(input)?;
    Ok(vec![Captured { at: None, wire_len: bytes.len(), bytes }])
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

fn capture(bytes: &[u8], name: &str) -> anyhow::Result<Vec<Captured>> {
    match bytes.first_chunk::<4>() {
        Some([0x0A, 0x0D, 0x0D, 0x0A]) => pcapng(bytes).with_context(|| format!("{name}: broken pcapng")),
        Some(
            [0xD4, 0xC3, 0xB2, 0xA1] | [0xA1, 0xB2, 0xC3, 0xD4] | [0x4D, 0x3C, 0xB2, 0xA1] | [0xA1, 0xB2, 0x3C, 0x4D],
        ) => pcap(bytes).with_context(|| format!("{name}: broken pcap")),
        _ => bail!("{name} is neither pcap nor pcapng"),
    }
}

fn pcap(bytes: &[u8]) -> anyhow::Result<Vec<Captured>> {
    let mut reader = PcapReader::new(bytes)?;
    let link = reader.header().datalink;
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet?;
        packets.push(captured(link, Some(packet.timestamp), packet.orig_len, &packet.data)?);
    }
    Ok(packets)
}

/// A captured packet as the Ethernet frame that it was, or could have been: captures of all interfaces at once (`-i any`)
/// and of tunnels hold another link header, or none.
fn captured(link: DataLink, at: Option<Duration>, wire_len: u32, data: &[u8]) -> anyhow::Result<Captured> {
    let short = || data.len().min(2);
    let (header, ethertype) = match link {
        DataLink::ETHERNET => return Ok(Captured { at, wire_len: wire_len as usize, bytes: data.to_vec() }),
        DataLink::LINUX_SLL => (16, data.get(14..16).unwrap_or(&data[..short()])),
        DataLink::LINUX_SLL2 => (20, data.get(..2).unwrap_or(&data[..short()])),
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 => {
            let v4 = data.first().is_some_and(|byte| byte >> 4 == 4);
            (0, if v4 { &[0x08, 0x00][..] } else { &[0x86, 0xDD][..] })
        }
        other => bail!("link type {other:?}: captures of Ethernet, Linux cooked (-i any) and raw IP can be decoded"),
    };
    let mut bytes = vec![0; 12];
    bytes.extend_from_slice(ethertype);
    bytes.extend_from_slice(data.get(header..).unwrap_or_default());
    Ok(Captured { at, wire_len: (wire_len as usize + 14).saturating_sub(header), bytes })
}

fn pcapng(bytes: &[u8]) -> anyhow::Result<Vec<Captured>> {
    let mut reader = PcapNgReader::new(bytes)?;
    let (mut packets, mut links) = (Vec::new(), Vec::new());
    while let Some(block) = reader.next_block() {
        match block? {
            Block::InterfaceDescription(interface) => links.push(interface.linktype),
            Block::SectionHeader(_) => links.clear(),
            Block::EnhancedPacket(packet) => {
                let link = *links.get(packet.interface_id as usize).context("a packet of an unknown interface")?;
                packets.push(captured(link, Some(packet.timestamp), packet.original_len, &packet.data)?);
            }
            Block::SimplePacket(packet) => {
                let link = *links.first().context("a packet of an unknown interface")?;
                packets.push(captured(link, None, packet.original_len, &packet.data)?);
            }
            _ => {}
        }
    }
    Ok(packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden(name: &str) -> Captured {
        let text = include_str!("../../../mrc-wire/tests/golden.json");
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        let bytes = hex(value["packets"][name]["hex"].as_str().unwrap()).unwrap();
        Captured { at: None, wire_len: bytes.len(), bytes }
    }

    fn parse(packet: &Captured) -> Frame {
        parse_frame(&packet.bytes, packet.wire_len, &WireConfig::default(), |_| true).unwrap()
    }

    #[test]
    fn golden_packets_are_good_and_broken_ones_are_not() {
        for name in ["write_only_ts", "sack_ecn", "srv6_srh_write_only_ts", "ipv4_write_only_imm_empty"] {
            let mut packet = golden(name);
            assert_eq!(check(&packet, &parse(&packet)), Check::Good, "{name}");
            let last = packet.bytes.len() - 5;
            packet.bytes[last] ^= 1;
            assert_eq!(check(&packet, &parse(&packet)), Check::Bad, "{name}");
        }
        let trimmed = golden("trimmed_write_only_ts");
        assert_eq!(check(&trimmed, &parse(&trimmed)), Check::Absent);
    }

    #[test]
    fn a_snapped_packet_is_decoded_but_not_checked() {
        let mut packet = golden("srv6_write_only_ts");
        packet.bytes.truncate(140);
        let frame = parse(&packet);
        assert_eq!(check(&packet, &frame), Check::Absent);
        assert!(frame.to_string().contains("WRITE_ONLY"));
    }

    #[test]
    fn other_link_headers_give_way_to_ethernet() {
        let whole = golden("srv6_write_only_ts");
        let ip = &whole.bytes[14..];
        let cooked = [&[0; 14][..], &[0x86, 0xDD], ip].concat();
        let cooked2 = [&[0x86, 0xDD][..], &[0; 18], ip].concat();
        for (link, data) in [
            (DataLink::LINUX_SLL, &cooked[..]),
            (DataLink::LINUX_SLL2, &cooked2),
            (DataLink::RAW, ip),
            (DataLink::IPV6, ip),
        ] {
            let packet = captured(link, None, data.len() as u32, data).unwrap();
            assert_eq!((packet.wire_len, &packet.bytes[12..]), (whole.wire_len, &whole.bytes[12..]), "{link:?}");
            assert_eq!(check(&packet, &parse(&packet)), Check::Good, "{link:?}");
            for len in 0..data.len() {
                captured(link, None, len as u32, &data[..len]).unwrap();
            }
        }
        assert!(captured(DataLink::IEEE802_11, None, 0, &[]).is_err_and(|error| error.to_string().contains("-i any")));
    }

    #[test]
    fn hex_may_have_blanks_and_names_what_is_wrong() {
        assert_eq!(hex("0a:0B 0c").unwrap(), [10, 11, 12]);
        assert!(hex("0g").unwrap_err().to_string().contains("position 2"));
        assert!(hex("abc").is_err() && hex("").is_err());
        assert!(capture(b"GIF89a", "x.gif").is_err_and(|error| error.to_string().contains("x.gif")));
    }
}
