//! Every path of a configuration: the destination that the engine computes, and a probe along it.
//!
//! A probe is an SRv6 packet without content that the switches send to the last one before the peer and back the same way,
//! so that it arrives here again. The last switch may remove its outer header. A second one is as long as the longest
//! packet: a link of too small an MTU loses only that. The first one is of the class of acknowledgements, the second of that
//! of data; a switch that rewrites code points or clears ECN shows when they are back. Both leave on all paths at once. A third one
//! leaves alone and tells the round trip. Probes need no program on the peer, and say nothing about the link
//! between the last switch and the peer: `mrc write-bw` does.

use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use mrc_afxdp::{Interface, PacketFilter, Port as _, RawConfig, RawPort, RxFrame, Sid};
use mrc_core::path::EvEntry;
use mrc_verbs_shim::host::{self, HostFile, HostPeer};

use super::{Check, Status, check};

/// How long a probe may take, and how often it is sent at most: a lossy path is neither dead nor narrow.
const PATIENCE: Duration = Duration::from_millis(100);
const TRIES: usize = 8;

/// Marks our probes: the first bytes behind the inner header.
const MARK: [u8; 8] = *b"mrcprobe";

const ETHERNET: usize = 14;
const IPV6: usize = 40;
const UDP: usize = 8;
/// What a probe holds at least, and where its content ends.
const SHORT: usize = ETHERNET + 2 * IPV6 + UDP + 16;
const IPV6_INSIDE: u8 = 41;
const UDP_INSIDE: u8 = 17;
/// UDP port of what is inside ("discard"): no MRC device and no agent takes it.
const PORT: u16 = 9;

/// What is known of a path.
#[derive(Debug, Clone, PartialEq)]
enum Outcome {
    Silent,
    /// The short probe came back.
    Short,
    /// The long one, too.
    Long,
    /// And a short one that left alone, after this.
    Alone(Duration),
    NotProbed(String),
}

/// One path to a peer.
struct Path {
    entry: EvEntry,
    destination: Ipv6Addr,
    back: Option<Ipv6Addr>,
    outcome: Outcome,
    /// What a switch did to a probe's traffic class.
    rewritten: Option<String>,
    /// A probe came back without its outer header.
    bare: bool,
    /// Probes sent.
    sent: usize,
}

/// A probe that came back.
#[derive(Debug, PartialEq)]
struct Returned {
    index: u32,
    /// Code point and ECN of its first header.
    class: u8,
    bare: bool,
}

/// How a probe differs from another.
#[derive(Clone, Copy)]
struct Kind {
    step: Step,
    /// Bytes of its frame.
    len: usize,
    /// Code point and ECN.
    class: u8,
}

#[derive(Clone, Copy, PartialEq)]
enum Step {
    Short,
    Long,
    Alone,
}

impl Kind {
    /// What is wrong with the traffic class with which such a probe came back. A mark of congestion is in order.
    fn rewritten(self, class: u8) -> Option<String> {
        const ECN: u8 = 3;
        let (sent, back) = (self.class >> 2, class >> 2);
        if sent != back {
            return Some(format!("code point {sent} came back as {back}"));
        }
        (self.class & ECN != 0 && class & ECN == 0).then(|| "its ECN bits came back cleared".into())
    }
}

/// Every path of `host`, called in the namespace of its interfaces.
pub(super) fn checks(host: &HostFile) -> Vec<Check> {
    let mut ports: Vec<Result<RawPort, String>> = (0..host.planes.len()).map(|plane| open(host, plane)).collect();
    host.peers.iter().flat_map(|peer| peer_checks(host, peer, &mut ports)).collect()
}

fn open(host: &HostFile, plane: usize) -> Result<RawPort, String> {
    let plane = &host.planes[plane];
    let interface = Interface::by_name(&plane.interface).map_err(|error| format!("{}: {error}", plane.interface))?;
    if !interface.carrier {
        return Err(format!("{} is down or has no carrier", plane.interface));
    }
    if interface.xdp.is_some() {
        return Err(format!("a program holds {} and would take the probe", plane.interface));
    }
    let sid = plane.sid.ok_or("packets without an outer header: no switch sends a probe back")?;
    let (udp_ports, addresses) = (vec![PORT], vec![host.gid.into()]);
    let filter = PacketFilter { udp_ports, addresses, ..PacketFilter::with_sids([Sid::exact(sid)]) };
    RawPort::open(&plane.interface, &RawConfig { filter, ..RawConfig::default() }).map_err(|error| error.to_string())
}

fn peer_checks(host: &HostFile, peer: &HostPeer, ports: &mut [Result<RawPort, String>]) -> Vec<Check> {
    let subject = format!("paths to {}", peer.name);
    let paths = host.paths_to(peer).and_then(|entries| {
        entries.into_iter().map(|entry| Ok((entry, host.destination(peer, &entry)?))).collect::<Result<Vec<_>, _>>()
    });
    let paths = match paths {
        Ok(paths) => paths,
        Err(error) => {
            return vec![check(
                &subject,
                "destinations",
                Err((Status::Fail, error.to_string(), "correct the peer's `template`")),
            )];
        }
    };
    let mut paths: Vec<Path> = paths
        .into_iter()
        .map(|(entry, destination)| {
            let back = host.return_destination(peer, &entry);
            let outcome = match (&ports[usize::from(entry.port.plane())], back) {
                (Err(why), _) => Outcome::NotProbed(why.clone()),
                (_, None) => Outcome::NotProbed("no switch on the path sends a probe back".into()),
                _ => Outcome::Silent,
            };
            Path { entry, destination, back, outcome, rewritten: None, bare: false, sent: 0 }
        })
        .collect();
    let long = host.path_mtu().map_or(SHORT, |payload| ETHERNET + host::required_mtu(payload) as usize);
    const ECT_0: u8 = 2;
    let dscp = host.device().endpoint.wire.dscp;
    let [control, data] = [dscp.control << 2, dscp.no_trim << 2 | ECT_0];
    for kind in
        [Kind { step: Step::Short, len: SHORT, class: control }, Kind { step: Step::Long, len: long, class: data }]
    {
        for _ in 0..TRIES {
            probe(host, &mut paths, 0, ports, kind);
        }
    }
    for first in 0..paths.len() {
        for _ in 0..TRIES {
            let alone = Kind { step: Step::Alone, len: SHORT, class: control };
            probe(host, &mut paths[first..=first], first, ports, alone);
        }
    }
    paths.iter().map(|path| path.check(&subject, long)).collect()
}

impl Path {
    /// Whether the probe of this step is still to come back.
    fn awaits(&self, step: Step) -> bool {
        match self.outcome {
            Outcome::Silent => step == Step::Short,
            Outcome::Short => step == Step::Long,
            Outcome::Long => step == Step::Alone,
            Outcome::Alone(_) | Outcome::NotProbed(_) => false,
        }
    }

    fn check(&self, subject: &str, long: usize) -> Check {
        let name = HostFile::path_name(&self.entry);
        let to = self.destination;
        let result = match (&self.outcome, &self.rewritten) {
            (Outcome::Long | Outcome::Alone(_), Some(what)) => Err((
                Status::Warn,
                format!("{to} forwarded by every switch, but {what}"),
                "a switch of this path, there or back, changes the traffic class: let it trust that of its ports (docs/switches.md)",
            )),
            (Outcome::Long, None) => Err((
                Status::Warn,
                format!("{to} forwarded by every switch, but the last {TRIES} probes were lost"),
                "a link of this path, there or back, loses packets or is going down: compare the error counters of its ports",
            )),
            (Outcome::Alone(_), None) if self.sent > 3 => Err((
                Status::Warn,
                format!("{to} forwarded by every switch, but probes were lost: {} of {}", self.sent - 3, self.sent),
                "a link of this path, there or back, loses packets: compare the error counters of its ports",
            )),
            (Outcome::Alone(after), None) => {
                let bare = if self.bare { " without its outer header" } else { "" };
                Ok(format!("{to} forwarded by every switch, probe back after {} us{bare}", after.as_micros()))
            }
            (Outcome::Short, _) => Err((
                Status::Fail,
                format!(
                    "{to} a small probe came back, one as long as a full packet ({} bytes) did not",
                    long - ETHERNET
                ),
                "a link of this path has a smaller MTU: raise it on both of its ends, or set a smaller `pmtu` on all hosts",
            )),
            (Outcome::NotProbed(why), _) if self.back.is_none() => Ok(format!("{to} not probed: {why}")),
            (Outcome::NotProbed(why), _) => Err((
                Status::Warn,
                format!("{to} not probed: {why}"),
                "see the interface above; probing needs CAP_NET_RAW",
            )),
            (Outcome::Silent, _) => Err((
                Status::Fail,
                format!("{to} no probe came back"),
                "a link of this path is down, or a switch has none of these micro-SIDs: compare `template`, `uplinks` and \
                 `next_hop` with the switches (docs/verbs.md, \"Address plan\")",
            )),
        };
        check(subject, name, result)
    }
}

/// Sends a probe on every path that awaits one and collects what comes back. `first` is the number of the first path.
fn probe(host: &HostFile, paths: &mut [Path], first: usize, ports: &mut [Result<RawPort, String>], kind: Kind) {
    let Kind { step, len, .. } = kind;
    let start = Instant::now();
    let (mut awaited, mut sent) = (0, Vec::new());
    for (index, path) in paths.iter().enumerate().filter(|(_, path)| path.awaits(step)) {
        let plane = usize::from(path.entry.port.plane());
        let (Some(Ok(port)), Some(back)) = (ports.get_mut(plane), path.back) else { continue };
        let Some(next_hop) = host.peer_config(&host.peers[0]).ok().and_then(|peer| peer.planes[plane]) else {
            continue;
        };
        let Some(own) = host.planes[plane].addr else { continue };
        let frame = frame(kind, [port.mac(), next_hop.next_hop], own, back, host.gid, (first + index) as u32);
        if port.tx_free() == 0 {
            let _ = port.flush();
        }
        if let Some(mut slot) = port.tx_slot() {
            slot.buffer()[..len].copy_from_slice(&frame);
            slot.commit(len);
            awaited += 1;
            sent.push(index);
        }
    }
    for port in ports.iter_mut().flatten() {
        let _ = port.flush();
    }
    for index in sent {
        paths[index].sent += 1;
    }
    loop {
        // Looked at before: what came while this process did not run is here, too.
        let over = start.elapsed() >= PATIENCE;
        for port in ports.iter_mut().flatten() {
            while let Some(frame) = port.rx_next(64) {
                let Some(probe) = returned(frame, len) else { continue };
                let index = (probe.index as usize).wrapping_sub(first);
                if let Some(path) = paths.get_mut(index).filter(|path| path.awaits(step)) {
                    path.rewritten = path.rewritten.take().or_else(|| kind.rewritten(probe.class));
                    path.bare |= probe.bare;
                    path.outcome = match step {
                        Step::Short => Outcome::Short,
                        Step::Long => Outcome::Long,
                        Step::Alone => Outcome::Alone(start.elapsed()),
                    };
                    awaited -= 1;
                }
            }
        }
        if awaited == 0 || over {
            return;
        }
        // A round trip is measured without the sleep, which is longer than it.
        if step == Step::Alone && start.elapsed() < Duration::from_millis(2) {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

fn frame(kind: Kind, macs: [[u8; 6]; 2], source: Ipv6Addr, to: Ipv6Addr, gid: Ipv6Addr, index: u32) -> Vec<u8> {
    let (Kind { len, class, .. }, [own, next_hop]) = (kind, macs);
    let mut frame = vec![0; len];
    frame[..6].copy_from_slice(&next_hop);
    frame[6..12].copy_from_slice(&own);
    frame[12..ETHERNET].copy_from_slice(&[0x86, 0xdd]);
    let mut header = |at: usize, next: u8, source: Ipv6Addr, to: Ipv6Addr| {
        frame[at..at + 2].copy_from_slice(&[0x60 | class >> 4, class << 4]);
        frame[at + 4..at + 6].copy_from_slice(&((len - at - IPV6) as u16).to_be_bytes());
        frame[at + 6..at + 8].copy_from_slice(&[next, 64]);
        frame[at + 8..at + 24].copy_from_slice(&source.octets());
        frame[at + 24..at + IPV6].copy_from_slice(&to.octets());
    };
    header(ETHERNET, IPV6_INSIDE, source, to);
    header(ETHERNET + IPV6, UDP_INSIDE, gid, gid);
    // Without a checksum: a kernel that gets it with nobody there drops it and says nothing.
    let udp = ETHERNET + 2 * IPV6;
    frame[udp..udp + 2].copy_from_slice(&PORT.to_be_bytes());
    frame[udp + 2..udp + 4].copy_from_slice(&PORT.to_be_bytes());
    frame[udp + 4..udp + 6].copy_from_slice(&((len - udp) as u16).to_be_bytes());
    frame[SHORT - 16..SHORT - 8].copy_from_slice(&MARK);
    frame[SHORT - 8..SHORT - 4].copy_from_slice(&std::process::id().to_be_bytes());
    frame[SHORT - 4..SHORT].copy_from_slice(&index.to_be_bytes());
    frame
}

/// A probe of this process that was sent with `len` bytes.
fn returned(frame: RxFrame<'_>, len: usize) -> Option<Returned> {
    let frame = frame.contiguous()?;
    let removed = [0, IPV6].into_iter().find(|removed| frame.len() + removed == len)?;
    let probe = frame.get(SHORT - removed - 16..SHORT - removed)?;
    let number = |at: usize| Some(u32::from_be_bytes(probe.get(at..at + 4)?.try_into().ok()?));
    let (index, class) = (number(12)?, frame[ETHERNET] << 4 | frame[ETHERNET + 1] >> 4);
    let ours = probe.starts_with(&MARK) && number(8)? == std::process::id();
    ours.then_some(Returned { index, class, bare: removed > 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traffic_class_that_a_switch_changed_is_told() {
        let told = |sent, back| Kind { step: Step::Short, len: SHORT, class: sent }.rewritten(back);
        assert_eq!(told(46 << 2, 0).unwrap(), "code point 46 came back as 0");
        assert_eq!(told(2, 0).unwrap(), "its ECN bits came back cleared");
        assert_eq!(told(2, 12 << 2 | 2).unwrap(), "code point 0 came back as 12");
        for (sent, back) in [(46 << 2, 46 << 2), (2, 2), (2, 3), (46 << 2, 46 << 2 | 3)] {
            assert_eq!(told(sent, back), None, "{sent} {back}");
        }
    }

    #[test]
    fn a_probe_is_an_ipv6_packet_in_another_and_says_which_path_it_took() {
        let to: Ipv6Addr = "fcbb:bb00:1000:3000::".parse().unwrap();
        for len in [SHORT, 4266] {
            let kind = Kind { step: Step::Short, len, class: 46 << 2 };
            let frame = frame(kind, [[2; 6], [4; 6]], Ipv6Addr::LOCALHOST, to, Ipv6Addr::LOCALHOST, 7);
            assert_eq!((frame.len(), &frame[..6], &frame[6..12]), (len, &[4; 6][..], &[2; 6][..]));
            assert_eq!((&frame[14..16], frame[20], &frame[38..54]), (&[0x6b, 0x80][..], 41, &to.octets()[..]));
            assert_eq!(usize::from(u16::from_be_bytes([frame[18], frame[19]])), len - 54);
            assert_eq!((frame[54], frame[60], &frame[94..98]), (0x6b, 17, &[0, 9, 0, 9][..]));
            assert_eq!(usize::from(u16::from_be_bytes([frame[98], frame[99]])), len - 94);
            let bytes = [&frame[..14], &frame[54..]].concat();
            for (bytes, bare) in [(&frame, false), (&bytes, true)] {
                let expected = Returned { index: 7, class: 46 << 2, bare };
                assert_eq!(returned(RxFrame::from_slice(bytes), len), Some(expected));
            }
            assert_eq!(returned(RxFrame::from_slice(&frame[..100]), len), None);
            assert_eq!(returned(RxFrame::from_slice(&vec![0; len]), len), None);
        }
    }
}
