//! The Wireshark dissector, run by tshark: every field of every packet must be what `mrc decode` says. Skipped by name and
//! reason where tshark is not installed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn mrc(args: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mrc")).args(args).current_dir(folder).output().unwrap()
}

fn skip(test: &str) -> bool {
    let missing = Command::new("tshark").arg("--version").output().is_err();
    if missing {
        use std::io::Write as _;
        let _ = std::io::stderr().write_all(format!("SKIP {test}: tshark is not installed\n").as_bytes());
    }
    missing
}

/// A folder with the dissector as users get it.
fn folder(test: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("dissector-{test}"));
    std::fs::create_dir_all(&path).unwrap();
    let lua = mrc(&["dissector"], &path);
    assert!(lua.status.success() && lua.stdout.starts_with(b"-- MRC"));
    std::fs::write(path.join("mrc.lua"), lua.stdout).unwrap();
    path
}

fn tshark(folder: &Path, capture: &str, more: &[&str]) -> String {
    let mut command = Command::new("tshark");
    let output =
        command.current_dir(folder).args(["-X", "lua_script:mrc.lua", "-r", capture]).args(more).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !errors.contains("Lua"), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// A classic capture of Ethernet frames.
fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    pcap_of(1, frames)
}

/// A classic capture of an interface with this link type.
fn pcap_of(link: u32, frames: &[Vec<u8>]) -> Vec<u8> {
    snapped(65535, link, frames)
}

/// One that keeps so many bytes of each frame.
fn snapped(snaplen: u32, link: u32, frames: &[Vec<u8>]) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut file = words(&[0xA1B2_C3D4, 4 << 16 | 2, 0, 0, snaplen, link]);
    for (number, frame) in frames.iter().enumerate() {
        let kept = &frame[..frame.len().min(snaplen as usize)];
        file.extend(words(&[100, number as u32 * 10, kept.len() as u32, frame.len() as u32]));
        file.extend(kept);
    }
    file
}

/// The golden packets by name.
fn golden() -> BTreeMap<String, Vec<u8>> {
    let text = include_str!("../../mrc-wire/tests/golden.json");
    let all: Value = serde_json::from_str(text).unwrap();
    let bytes =
        |hex: &str| (0..hex.len() / 2).map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap()).collect();
    let packets = all["packets"].as_object().unwrap().iter();
    packets.map(|(name, packet)| (name.clone(), bytes(packet["hex"].as_str().unwrap()))).collect()
}

/// What a value says, however it is written: numbers and flags as numbers, names of code points as their numbers.
fn meaning(name: &str, value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let list: &[(&str, &[(&str, i64)])] = &[
        (
            "bth.opcode",
            &[
                ("WRITE_FIRST", 0xC6),
                ("WRITE_MIDDLE", 0xC7),
                ("WRITE_LAST", 0xC8),
                ("WRITE_LAST_IMM", 0xC9),
                ("WRITE_ONLY", 0xCA),
                ("WRITE_ONLY_IMM", 0xCB),
                ("ACK", 0xD1),
                ("EP_REQUEST", 0xD8),
                ("EP_RESPONSE", 0xD9),
                ("SACK", 0xDC),
                ("NACK", 0xDD),
                ("PROBE", 0xDE),
            ],
        ),
        ("seth.m", &[("none", 0), ("skip_once", 1), ("always_skip", 2)]),
        (
            "neth.reason",
            &[
                ("trimmed", 1),
                ("trimmed_lasthop", 2),
                ("no_bitmap", 6),
                ("no_pkt_buffer", 7),
                ("no_resource", 10),
                ("psn_oor_window", 11),
                ("unexp_event", 0x19),
            ],
        ),
        ("erth.op", &[("port_status_update", 0), ("ev_probe", 1)]),
        ("eeth.op", &[("port_status_update", 0), ("ev_probe", 1)]),
        ("aeth.syndrome", &[("ack", 31)]),
        ("trim.kind", &[("trimmed", 1), ("trimmed_lasthop", 2)]),
        ("icrc.status", &[("bad", 0), ("good", 1), ("absent", 2)]),
    ];
    let named = list.iter().find(|(of, _)| *of == name).and_then(|(_, names)| names.iter().find(|(n, _)| *n == text));
    match (named, text.as_str()) {
        (Some((_, number)), _) => number.to_string(),
        (None, "true") => "1".to_owned(),
        (None, "false") => "0".to_owned(),
        _ => {
            let hex = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
            hex.map_or(text, |number| number.to_string())
        }
    }
}

/// Fields of a layer, whatever tree they stand in.
fn flat(value: &Value, into: &mut BTreeMap<String, Value>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        match key.strip_prefix("mrc.") {
            Some(name) if !value.is_object() => drop(into.entry(name.to_owned()).or_insert_with(|| value.clone())),
            _ => flat(value, into),
        }
    }
}

/// Compares tshark with `mrc decode`, packet by packet; how many packets and fields were the same.
fn compare(folder: &Path, capture: &str) -> (usize, usize) {
    let decoded = mrc(&["decode", "--json", "-v", capture], folder);
    let decoded = String::from_utf8(decoded.stdout).unwrap();
    let shown: Vec<Value> = serde_json::from_str(&tshark(folder, capture, &["-T", "json"])).unwrap();
    let (mut packets, mut fields) = (0, 0);
    for line in decoded.lines() {
        let packet: BTreeMap<String, Value> = serde_json::from_str(line).unwrap();
        let number = packet["number"].as_u64().unwrap() as usize;
        let layer = &shown[number - 1]["_source"]["layers"]["mrc"];
        let mut row = BTreeMap::new();
        flat(layer, &mut row);
        if !packet.contains_key("bth.opcode") {
            assert!(row.is_empty(), "packet {number} is not MRC: {row:?}");
            continue;
        }
        packets += 1;
        for (name, value) in packet {
            if ["number", "time_s", "time_ns", "len", "wire", "wire_end"].contains(&name.as_str()) {
                continue;
            }
            let name = if name == "icrc" { "icrc.status".to_owned() } else { name };
            let other = row.get(&name).unwrap_or_else(|| panic!("packet {number} of {capture} has no {name}: {row:?}"));
            assert_eq!(meaning(&name, other), meaning(&name, &value), "packet {number} of {capture}, {name}");
            fields += 1;
        }
    }
    (packets, fields)
}

#[test]
fn golden_packets_have_the_fields_that_decode_says() {
    if skip("golden_packets_have_the_fields_that_decode_says") {
        return;
    }
    let folder = folder("golden");
    let golden = golden();
    let mut frames: Vec<Vec<u8>> = golden.values().cloned().collect();
    // A wrong trailer, a VLAN tag, the first segment of a path extension still to come.
    let mut bad = golden["srv6_write_only_ts"].clone();
    *bad.last_mut().unwrap() ^= 1;
    let mut tagged = golden["write_only_ts"].clone();
    tagged.splice(12..12, [0x81, 0, 0, 7]);
    let mut extended = golden["srv6_srh_write_only_ts"].clone();
    extended[14 + 40 + 3] = 1;
    // An entropy value that is the port of another protocol: a source port of DNS, of BOOTP.
    let mut ports = golden["write_only_ts"].clone();
    ports[54..56].copy_from_slice(&53u16.to_be_bytes());
    // Bytes behind the header of a control packet, which are no payload.
    let mut longer = golden["transport_ack"].clone();
    longer.splice(78..78, [7; 8]);
    (longer[19], longer[59]) = (longer[19] + 8, longer[59] + 8);
    // A trimmed packet whose timestamp header is of another format than that of a timestamp.
    let mut unstamped = golden["trimmed_write_only_ts"].clone();
    *unstamped.last_mut().unwrap() = 2;
    frames.extend([bad, tagged, extended, ports, longer, unstamped]);
    std::fs::write(folder.join("golden.pcap"), pcap(&frames)).unwrap();
    let (packets, fields) = compare(&folder, "golden.pcap");
    assert!(packets == 20 && fields > 400, "{packets} packets, {fields} fields");
    let expert = tshark(&folder, "golden.pcap", &["-q", "-z", "expert"]);
    for part in
        ["Bad ICRC", "By a switch: trimmed", "Refused: trimmed", "Verdict on the EV: skip_once", "Retransmission"]
    {
        assert!(expert.contains(part), "{part}: {expert}");
    }
    // MRC sends no UDP checksum.
    assert!(!expert.contains("Illegal checksum"), "{expert}");
    // Micro-SIDs of the outer destination and of the second container.
    let usids = tshark(&folder, "golden.pcap", &["-Y", "mrc.srh.segment", "-T", "fields", "-e", "mrc.srv6.usid"]);
    assert!(usids.lines().count() == 2 && usids.contains("0x"), "{usids}");
}

/// Lengths and offsets are those of the captured packet, and a header that is not there is not shown.
#[test]
fn captures_without_ethernet_have_the_same_fields() {
    if skip("captures_without_ethernet_have_the_same_fields") {
        return;
    }
    let folder = folder("cooked");
    let golden = golden();
    let frames: Vec<&Vec<u8>> = golden.values().collect();
    let raw = frames.iter().map(|frame| frame[14..].to_vec());
    let cooked = frames.iter().map(|frame| [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0], &frame[12..]].concat());
    let cooked2 = frames.iter().map(|frame| [&frame[12..14], &[0; 18], &frame[14..]].concat());
    for (name, link, frames) in
        [("raw", 101, raw.collect::<Vec<_>>()), ("cooked", 113, cooked.collect()), ("cooked2", 276, cooked2.collect())]
    {
        let file = format!("{name}.pcap");
        std::fs::write(folder.join(&file), pcap_of(link, &frames)).unwrap();
        let (packets, fields) = compare(&folder, &file);
        assert!(packets == golden.len() && fields > 300, "{name}: {packets} packets, {fields} fields");
        let first = mrc(&["decode", "--json", "-v", &file], &folder).stdout;
        let first: Value = serde_json::from_slice(first.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
        assert_eq!(first["len"], frames[0].len(), "{name}");
        assert!(first["wire"]["eth.dst"].is_null() && !first["wire"]["ip.src"].is_null(), "{name}: {first}");
    }
}

/// The header of an IPv6 packet with the traffic class of a trimmed one, and the Ethernet header before it.
fn ipv6(next_header: u8, payload: usize) -> Vec<u8> {
    let mut header = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xDD, 0x63, 0, 0, 0][..], &[0; 36]].concat();
    header[18..20].copy_from_slice(&(payload as u16).to_be_bytes());
    (header[20], header[21]) = (next_header, 64);
    (header[22], header[37], header[38], header[53]) = (0xFD, 1, 0xFD, 2);
    header
}

/// Switches send copies through tunnels over IPv6. The tunnel's code point and addresses are none of the copy's.
#[test]
fn copies_in_a_tunnel_over_ipv6_have_their_own_fields() {
    if skip("copies_in_a_tunnel_over_ipv6_have_their_own_fields") {
        return;
    }
    let folder = folder("tunnel");
    let frames: Vec<Vec<u8>> = golden().into_values().collect();
    let vxlan = |frame: &Vec<u8>| {
        let len = frame.len() + 16;
        let udp = [&[0, 9, 0x12, 0xB5][..], &(len as u16).to_be_bytes(), &[0, 0, 8, 0, 0, 0, 0, 0, 5, 0]].concat();
        [&ipv6(17, len)[..], &udp, frame].concat()
    };
    let gre = |frame: &Vec<u8>| [&ipv6(47, frame.len() - 10)[..], &[0, 0], &frame[12..]].concat();
    let rows = |name: &str, frames: &[Vec<u8>]| {
        std::fs::write(folder.join(name), pcap(frames)).unwrap();
        let shown: Vec<Value> = serde_json::from_str(&tshark(&folder, name, &["-T", "json"])).unwrap();
        let row = |packet: &Value| {
            let mut row = BTreeMap::new();
            flat(&packet["_source"]["layers"]["mrc"], &mut row);
            row.retain(|name, _| !name.ends_with(".offset"));
            row
        };
        shown.iter().map(row).collect::<Vec<_>>()
    };
    let plain = rows("plain.pcap", &frames);
    for (name, copies) in [
        ("vxlan.pcap", frames.iter().map(vxlan).collect::<Vec<_>>()),
        ("gre.pcap", frames.iter().map(gre).collect::<Vec<_>>()),
    ] {
        for (number, (copy, packet)) in rows(name, &copies).iter().zip(&plain).enumerate() {
            assert!(packet.len() > 15 && copy == packet, "{name}, packet {}: {copy:?} is {packet:?}", number + 1);
        }
    }
}

/// A router that cannot forward a packet sends it back within a message. That is not the packet sent once more.
#[test]
fn what_an_error_message_quotes_was_not_sent_again() {
    if skip("what_an_error_message_quotes_was_not_sent_again") {
        return;
    }
    let folder = folder("quoted");
    let golden = golden();
    let (probe, answer) = (&golden["reliability_probe"], &golden["sack_probe_answer"]);
    // Time exceeded.
    let message = [&ipv6(58, probe.len() - 6)[..], &[3, 0, 0, 0, 0, 0, 0, 0], &probe[14..]].concat();
    std::fs::write(folder.join("quoted.pcap"), pcap(&[probe.clone(), message, answer.clone()])).unwrap();
    let columns = ["mrc.peth.probe_id", "mrc.outer.dst", "mrc.sent_before_in", "mrc.request_in", "mrc.response_time"];
    let columns = columns.iter().flat_map(|name| ["-e", name]).collect::<Vec<_>>();
    let shown = tshark(&folder, "quoted.pcap", &[&["-T", "fields"][..], &columns].concat());
    let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
    assert_eq!(lines, ["0xbeef", "0xbeef", "\t\t\t1\t0.000020000"], "{shown}");
}

/// `tcpdump -i any` on a switch has each packet as it comes and as it goes.
#[test]
fn a_packet_at_two_ports_was_sent_once() {
    if skip("a_packet_at_two_ports_was_sent_once") {
        return;
    }
    let folder = folder("ports");
    let first = golden()["srv6_write_only_ts"].clone();
    let forwarded = |frame: &[u8]| {
        let mut frame = frame.to_vec();
        // A hop less, the micro-SIDs shifted.
        frame[21] -= 1;
        frame.copy_within(44..54, 42);
        frame[52..54].fill(0);
        frame
    };
    let mut again = first.clone();
    again[102 + 8] |= 0x20;
    let frames = [first.clone(), forwarded(&first), again.clone(), forwarded(&again)];
    std::fs::write(folder.join("ports.pcap"), pcap(&frames)).unwrap();
    let columns = ["-T", "fields", "-e", "mrc.sent_before_in", "-e", "mrc.seen_before_in", "-e", "mrc.srv6.usid"];
    let shown = tshark(&folder, "ports.pcap", &columns);
    let lines: Vec<&str> = shown.lines().map(|line| line.rsplit_once('\t').unwrap().0).collect();
    assert_eq!(lines, ["\t", "\t1", "2\t", "2\t3"], "{shown}");
}

#[test]
fn what_is_not_mrc_stays_with_the_built_in_dissectors() {
    if skip("what_is_not_mrc_stays_with_the_built_in_dissectors") {
        return;
    }
    let folder = folder("others");
    let golden = golden();
    let with = |at: usize, byte: u8| {
        let mut frame = golden["write_only_ts"].clone();
        frame[at] = byte;
        frame
    };
    // RoCEv2's opcodes, another transport version, another port, a length that leaves no room for the headers.
    let mut short = golden["write_only_ts"].clone();
    short[58..60].copy_from_slice(&30u16.to_be_bytes());
    let mut dns = golden["write_only_ts"].clone();
    dns[56..58].copy_from_slice(&53u16.to_be_bytes());
    // A UDP length beyond the packet.
    let frames = [with(62, 0x0A), with(62, 0x81), with(63, 1), dns, short, with(58, 0x40)];
    std::fs::write(folder.join("others.pcap"), pcap(&frames)).unwrap();
    let shown = tshark(&folder, "others.pcap", &["-T", "fields", "-e", "_ws.col.Protocol", "-e", "frame.protocols"]);
    let protocols: Vec<&str> = shown.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(protocols.len(), 6, "{shown}");
    assert!(protocols[..2] == ["RRoCE"; 2] && protocols[3] == "DNS", "{shown}");
    let rows = tshark(&folder, "others.pcap", &["-Y", "mrc.bth.opcode"]);
    assert!(rows.is_empty(), "{rows}");
}

/// What a built-in dissector throws at a cut packet of RoCEv2 must not add up.
#[test]
fn after_many_cut_packets_of_others_mrc_is_still_dissected() {
    if skip("after_many_cut_packets_of_others_mrc_is_still_dissected") {
        return;
    }
    let folder = folder("others-cut");
    let golden = golden();
    let mut roce = golden["write_only_ts"].clone();
    roce[62] = 0x0A;
    let mut frames = vec![roce; 300];
    frames.push(golden["transport_ack"].clone());
    // The end of the acknowledgement is within the remote address of the other packets.
    std::fs::write(folder.join("cut.pcap"), snapped(82, 1, &frames)).unwrap();
    let shown = tshark(&folder, "cut.pcap", &["-T", "fields", "-e", "mrc.bth.psn", "-e", "_ws.expert.message"]);
    assert_eq!(shown.lines().last(), Some("256\t"), "{shown}");
}

#[test]
fn a_frame_that_is_cut_is_no_error_of_the_dissector() {
    if skip("a_frame_that_is_cut_is_no_error_of_the_dissector") {
        return;
    }
    let folder = folder("cut");
    let cuts = |frame: Vec<u8>| (0..frame.len().min(180)).map(move |len| frame[..len].to_vec());
    let frames: Vec<Vec<u8>> = golden().into_values().flat_map(cuts).collect();
    std::fs::write(folder.join("cut.pcap"), pcap(&frames)).unwrap();
    let shown = tshark(&folder, "cut.pcap", &["-T", "fields", "-e", "_ws.expert.message", "-e", "_ws.lua.text"]);
    let errors: Vec<&str> = shown.lines().filter(|line| line.contains("Lua Error")).collect();
    assert!(
        errors.is_empty() && shown.lines().count() == frames.len(),
        "{} frames, {:?}",
        errors.len(),
        errors.first()
    );
}

#[test]
fn a_capture_of_the_simulator_is_understood_to_the_last_field() {
    if skip("a_capture_of_the_simulator_is_understood_to_the_last_field") {
        return;
    }
    let folder = folder("sim");
    // One plane, so that the link sees requests and answers.
    let scenario = ["sim", "run", "experiments/incast-victim", "--set", "limit_us=600", "--set", "topology.planes=1"];
    let run = mrc(&[&scenario[..], &["--pcap", "p0-hA", "--packets", "1500", "--quiet"]].concat(), &folder);
    assert!(run.status.success(), "{run:?}");
    let (packets, fields) = compare(&folder, "p0-hA.pcapng");
    assert!(packets == 1500 && fields > 30_000, "{packets} packets, {fields} fields");
    // Answers find their requests: a SACK names a data packet before it, of the same conversation, and its age.
    let columns = ["-T", "fields", "-e", "frame.number", "-e", "mrc.request_in", "-e", "mrc.response_time"];
    let sacks = tshark(&folder, "p0-hA.pcapng", &[&["-Y", "mrc.bth.opcode == 0xdc"][..], &columns].concat());
    let answered = sacks.lines().filter(|line| {
        let cells: Vec<&str> = line.split('\t').collect();
        let number = |at: usize| cells.get(at).and_then(|cell| cell.parse::<f64>().ok());
        matches!((number(0), number(1), number(2)), (Some(n), Some(r), Some(t)) if r < n && t > 0.0 && t < 0.01)
    });
    let (answered, sacks) = (answered.count(), sacks.lines().count());
    assert!(sacks > 50 && answered * 10 >= sacks * 9, "{answered} of {sacks} SACKs have their request");
    let trimmed = tshark(&folder, "p0-hA.pcapng", &["-Y", "mrc.expert.trimmed", "-T", "fields", "-e", "mrc.trim.kind"]);
    assert!(trimmed.lines().count() > 0);
    let conversations = tshark(&folder, "p0-hA.pcapng", &["-T", "fields", "-e", "mrc.conversation"]);
    let distinct: std::collections::BTreeSet<&str> = conversations.lines().filter(|line| !line.is_empty()).collect();
    assert!(distinct.len() >= 7, "seven hosts write to one: {distinct:?}");
}
