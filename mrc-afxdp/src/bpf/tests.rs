//! The three forms of the filter agree: plain Rust, XDP (interpreted, and by the kernel where allowed), classic; and a
//! C version where clang is present.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;

use super::machine::{Verdict, run_classic, run_xdp};
use super::{classic, xdp};
use crate::filter::{PacketFilter, Sid};
use crate::sys::bpf;

const HOST: Ipv6Addr = Ipv6Addr::new(0xfcbb, 0xbb00, 0x1002, 0, 0, 0, 0, 0);
const PORT: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 7, 0, 0, 0, 0);

const GID: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 9, 0, 0, 0, 1);
const IPV4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// Both kinds of destination, of both families.
fn filter() -> PacketFilter {
    let addresses = vec![IpAddr::V6(GID), IpAddr::V6(PORT), IpAddr::V4(IPV4)];
    PacketFilter { sids: vec![Sid::exact(HOST), Sid::prefix64(PORT)], addresses, ..PacketFilter::default() }
}

fn ipv6(next_header: u8, destination: Ipv6Addr, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x02; 12];
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    frame.extend((payload.len() as u16).to_be_bytes());
    frame.extend([next_header, 64]);
    frame.extend([0xfe; 16]);
    frame.extend(destination.octets());
    frame.extend(payload);
    frame
}

fn ipv4(first: u8, fragment: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
    ipv4_to(IPV4.octets(), first, fragment, protocol, payload)
}

fn ipv4_to(to: [u8; 4], first: u8, fragment: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x02; 12];
    frame.extend([0x08, 0x00, first, 0, 0, 0, 0, 0]);
    frame.extend(fragment.to_be_bytes());
    frame.extend([64, protocol, 0, 0, 10, 0, 0, 1]);
    frame.extend(to);
    frame.extend(payload);
    frame
}

fn udp(port: u16) -> Vec<u8> {
    let mut datagram = vec![0xc0, 0x00];
    datagram.extend(port.to_be_bytes());
    datagram.extend([0; 60]);
    datagram
}

/// Name, frame, whether it is ours.
fn samples() -> Vec<(&'static str, Vec<u8>, bool)> {
    let other_host = Ipv6Addr::new(0xfcbb, 0xbb00, 0x1003, 0, 0, 0, 0, 0);
    let host_with_tail = Ipv6Addr::new(0xfcbb, 0xbb00, 0x1002, 0, 0, 0, 0, 1);
    let transit = Ipv6Addr::new(0xfcbb, 0xbb00, 0x0a00, 0x1002, 0, 0, 0, 0);
    let port_tail = Ipv6Addr::new(0xfd00, 0, 0, 7, 1, 2, 3, 4);
    let mut arp = vec![0xff; 12];
    arp.extend([0x08, 0x06]);
    arp.extend([1; 46]);
    let tagged = |tag: [u8; 4], mut frame: Vec<u8>| {
        frame.splice(12..12, tag);
        frame
    };
    let priority = [0x81, 0x00, 0xb0, 0];
    vec![
        ("SRv6 to the host SID", ipv6(41, HOST, &[0x60; 120]), true),
        ("SRv6+SRH to the host SID", ipv6(43, HOST, &[41; 120]), true),
        ("SRv6 with nothing inside", ipv6(41, HOST, &[]), true),
        ("SRv6 under the 64-bit prefix", ipv6(41, port_tail, &[0; 64]), true),
        ("UDP 4791 over IPv6", ipv6(17, GID, &udp(4791)), true),
        ("UDP 4971 over IPv6", ipv6(17, PORT, &udp(4971)), true),
        ("UDP 4791 over IPv4", ipv4(0x45, 0, 17, &udp(4791)), true),
        ("UDP 4971 over IPv4, don't fragment", ipv4(0x45, 0x4000, 17, &udp(4971)), true),
        ("UDP 4791 over IPv6 to another host", ipv6(17, other_host, &udp(4791)), false),
        ("UDP 4791 to the SID", ipv6(17, HOST, &udp(4791)), false),
        ("UDP 4791 over IPv4 to another host", ipv4_to([10, 0, 0, 3], 0x45, 0, 17, &udp(4791)), false),
        ("a tunnel's IPv6 in IPv6 to our address", ipv6(41, GID, &[0x60; 64]), false),
        ("SRv6 to another host", ipv6(41, other_host, &[0; 64]), false),
        ("SRv6 to our SID plus a bit", ipv6(41, host_with_tail, &[0; 64]), false),
        ("SRv6 in transit", ipv6(41, transit, &[0; 64]), false),
        ("ICMPv6 to the host SID", ipv6(58, HOST, &[128, 0, 0, 0, 0, 0, 0, 0]), false),
        ("TCP over IPv6", ipv6(6, HOST, &udp(4791)), false),
        ("hop-by-hop options", ipv6(0, HOST, &udp(4791)), false),
        ("UDP 53 over IPv6", ipv6(17, HOST, &udp(53)), false),
        ("source port 4791 only", ipv6(17, HOST, &[0x12, 0xb7, 0, 53, 0, 8, 0, 0]), false),
        ("UDP 53 over IPv4", ipv4(0x45, 0, 17, &udp(53)), false),
        ("TCP over IPv4", ipv4(0x45, 0, 6, &udp(4791)), false),
        ("IPv4 with options", ipv4(0x46, 0, 17, &udp(4791)), false),
        ("first IPv4 fragment", ipv4(0x45, 0x2000, 17, &udp(4791)), false),
        ("later IPv4 fragment", ipv4(0x45, 0x0010, 17, &udp(4791)), false),
        ("ARP", arp, false),
        ("SRv6 with a priority and no VLAN", tagged(priority, ipv6(41, HOST, &[0; 64])), true),
        ("UDP over IPv6 with a priority", tagged(priority, ipv6(17, GID, &udp(4791))), true),
        ("UDP over IPv4 with a priority", tagged(priority, ipv4(0x45, 0, 17, &udp(4791))), true),
        ("UDP 53 with a priority", tagged(priority, ipv6(17, GID, &udp(53))), false),
        ("nothing behind the tag", tagged(priority, ipv4(0x45, 0, 17, &udp(4791)))[..37].to_vec(), false),
        ("VLAN 5", tagged([0x81, 0x00, 0, 5], ipv6(41, HOST, &[0; 64])), false),
        ("VLAN 256 with a priority", tagged([0x81, 0x00, 0xe1, 0], ipv6(41, HOST, &[0; 64])), false),
        ("VLAN 5 behind a priority", tagged(priority, tagged([0x81, 0x00, 0, 5], ipv6(41, HOST, &[0; 64]))), false),
        ("provider tag", tagged([0x88, 0xa8, 0, 0], ipv6(41, HOST, &[0; 64])), false),
        ("empty", vec![], false),
        ("UDP header cut", ipv6(17, HOST, &udp(4791)[..3]), false),
        ("IPv6 header cut", ipv6(41, HOST, &[])[..53].to_vec(), false),
    ]
}

/// The samples, every length of each, and each with one byte changed.
fn variations() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (_, frame, _) in samples() {
        all.extend((0..=frame.len().min(70)).map(|len| frame[..len].to_vec()));
        for at in 0..frame.len().min(60) {
            for flip in [1, 0x80, 0xff] {
                let mut changed = frame.clone();
                changed[at] ^= flip;
                all.push(changed);
            }
        }
    }
    all
}

fn xdp_takes(program: &[xdp::Insn], frame: &[u8]) -> bool {
    match run_xdp(program, frame, 3).unwrap() {
        Verdict::Redirect(queue) => {
            assert_eq!(queue, 3);
            true
        }
        Verdict::Returned(code) => {
            assert_eq!(code, xdp::XDP_PASS as u64);
            false
        }
    }
}

/// As the kernel does, takes an 802.1Q tag out before the filter runs.
fn classic_takes(program: &[classic::Insn], frame: &[u8]) -> bool {
    if frame.len() < 16 || frame[12..14] != [0x81, 0x00] {
        return run_classic(program, frame, None).unwrap();
    }
    let untagged = [&frame[..12], &frame[16..]].concat();
    run_classic(program, &untagged, Some(u16::from_be_bytes([frame[14], frame[15]]))).unwrap()
}

//= ETH-002 test
#[test]
fn samples_are_judged_right_by_all_three_forms() {
    let (xdp, classic) = (xdp::program(&filter(), 0), classic::program(&filter()));
    for (name, frame, ours) in samples() {
        assert_eq!(filter().matches(&frame), ours, "plain: {name}");
        assert_eq!(xdp_takes(&xdp, &frame), ours, "xdp: {name}");
        assert_eq!(classic_takes(&classic, &frame), ours, "classic: {name}");
        // On another VLAN it is not ours, whatever it is; XDP is told nothing of tags that the card took out.
        assert!(!run_classic(&classic, &frame, Some(5)).unwrap(), "classic, tag taken out: {name}");
    }
}

#[test]
fn all_three_forms_agree_on_variations_and_odd_filters() {
    let no_sid = PacketFilter::default();
    let nothing = PacketFilter { sids: vec![], udp_ports: vec![], addresses: vec![] };
    let sids = PacketFilter::with_sids([Sid::exact(HOST)]);
    let bare = PacketFilter::with_addresses([IpAddr::V6(GID)]);
    let many_addresses = PacketFilter::with_addresses((0..20).flat_map(|n| {
        [IpAddr::V4([10, 0, 0, n].into()), IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 9, 0, 0, 0, u16::from(n)))]
    }));
    let many = PacketFilter {
        sids: (0..20).map(|n| Sid::exact(Ipv6Addr::new(0xfcbb, 0xbb00, 0x1000 + n, 0, 0, 0, 0, 0))).collect(),
        udp_ports: vec![1, 2, 3, 4, 4791],
        ..many_addresses.clone()
    };
    for filter in [filter(), no_sid, nothing, sids, bare, many_addresses, many] {
        let (xdp, classic) = (xdp::program(&filter, 0), classic::program(&filter));
        for frame in variations() {
            let ours = filter.matches(&frame);
            assert_eq!(xdp_takes(&xdp, &frame), ours, "xdp: {filter:?} {frame:02x?}");
            assert_eq!(classic_takes(&classic, &frame), ours, "classic: {filter:?} {frame:02x?}");
        }
    }
}

#[test]
fn the_kernel_accepts_and_agrees() {
    let map = match bpf::create_xskmap(1) {
        Ok(map) => map,
        Err(errno) => {
            let _ =
                writeln!(std::io::stderr(), "SKIP the_kernel_accepts_and_agrees: bpf(2) is not allowed here ({errno})");
            return;
        }
    };
    let sids = PacketFilter::with_sids([Sid::exact(HOST)]);
    let bare = PacketFilter::with_addresses([IpAddr::V4(IPV4)]);
    let nothing = PacketFilter { sids: vec![], udp_ports: vec![], addresses: vec![] };
    for filter in [filter(), PacketFilter::default(), sids, bare, nothing] {
        let program = match bpf::load_xdp(&xdp::program(&filter, map.as_raw_fd())) {
            Ok(program) => program,
            Err((rustix::io::Errno::PERM, _)) => {
                let _ = writeln!(
                    std::io::stderr(),
                    "SKIP the_kernel_accepts_and_agrees: loading XDP programs is not allowed here"
                );
                return;
            }
            Err((errno, log)) => panic!("{errno}: {log}"),
        };
        // The map is empty, so a redirect falls back to "pass", which shows nothing: make the fallback "drop" (1).
        let mut dropping = xdp::program(&filter, map.as_raw_fd());
        if let Some(call) = dropping.iter().position(|insn| insn.immediate == xdp::BPF_FUNC_REDIRECT_MAP) {
            assert_eq!(dropping[call - 1].immediate, xdp::XDP_PASS);
            dropping[call - 1].immediate = 1;
        }
        let dropping = bpf::load_xdp(&dropping).map_err(|(errno, log)| format!("{errno}: {log}")).unwrap();
        for (name, frame, _) in samples() {
            // The kernel refuses to test frames shorter than an Ethernet header.
            if frame.len() < 14 {
                continue;
            }
            let verdict = bpf::test_run(dropping.as_fd(), &frame).unwrap();
            assert_eq!(verdict == 1, filter.matches(&frame), "{name}: {verdict}");
            assert_eq!(bpf::test_run(program.as_fd(), &frame).unwrap(), 2, "{name}: no socket, so it must pass");
        }
    }
}

#[test]
fn the_compiler_agrees() {
    let clang = std::env::var("CLANG").unwrap_or("clang".into());
    let object = std::env::temp_dir().join(format!("mrc_xdp_{}.o", std::process::id()));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bpf/mrc_xdp.bpf.c");
    let words = |address: Ipv6Addr, name: &'static str| {
        let octets = address.octets();
        (0..4).map(move |n| {
            let word = [octets[4 * n], octets[4 * n + 1], octets[4 * n + 2], octets[4 * n + 3]];
            format!("-DSID_{name}{n}={:#x}u", u32::from_be_bytes(word))
        })
    };
    let output = Command::new(&clang)
        .args(["-O2", "-Wall", "-Werror", "-target", "bpfel", "-c", source, "-o"])
        .arg(&object)
        .args(words(HOST, "A").chain(words(PORT, "B")).chain(words(GID, "C")))
        .arg(format!("-DIPV4={:#x}u", u32::from(IPV4)))
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            let _ = writeln!(
                std::io::stderr(),
                "SKIP the_compiler_agrees: cannot run {clang} ({error}); CLANG names another"
            );
            return;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let elf = std::fs::read(&object).unwrap();
    std::fs::remove_file(&object).unwrap();
    let compiled = section(&elf, "xdp").expect("section xdp");
    let ours = xdp::program(&filter(), 0);
    for frame in samples().into_iter().map(|(_, frame, _)| frame).chain(variations()) {
        assert_eq!(xdp_takes(&compiled, &frame), xdp_takes(&ours, &frame), "{frame:02x?}");
    }
}

/// The instructions in section `name` of a 64-bit little-endian ELF object.
fn section(elf: &[u8], name: &str) -> Option<Vec<xdp::Insn>> {
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let field = elf.get(at..at + bytes)?;
        Some(field.iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte)))
    };
    let (table, entry, count) = (number(40, 8)?, number(58, 2)?, number(60, 2)?);
    let names = number(table + number(62, 2)? * entry + 24, 8)?;
    for at in (0..count).map(|n| table + n * entry) {
        let this = elf.get(names + number(at, 4)?..)?;
        if this.starts_with(format!("{name}\0").as_bytes()) {
            let code = elf.get(number(at + 24, 8)?..)?.get(..number(at + 32, 8)?)?;
            let insns = code.as_chunks::<8>().0.iter().map(|b| xdp::Insn {
                code: b[0],
                registers: b[1],
                offset: i16::from_le_bytes([b[2], b[3]]),
                immediate: i32::from_le_bytes([b[4], b[5], b[6], b[7]]),
            });
            return Some(insns.collect());
        }
    }
    None
}
