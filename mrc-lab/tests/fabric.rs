//! The fabric against the real kernel. Needs root; skipped by name and reason otherwise.

use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use mrc_lab::{
    Capture, CapturedPacket, Fabric, Impairment, LinkState, PortCounters, Shape, VirtualQueue, enter,
    impair_requirements, skip,
};
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, bind, socket};

/// A guarded fabric of its own for `test`, or `None` with the reason printed.
fn fabric(test: &str, shape: Shape) -> Option<Fabric> {
    if skip(test) {
        return None;
    }
    let prefix = format!("mrctest{}{test}", std::process::id());
    Some(Fabric::up(Shape { prefix, ..shape }).unwrap().guarded())
}

/// Sends one SRv6-encapsulated UDP packet from hA's port of `plane` through T1 number `t1`.
fn send(fabric: &Fabric, plane: u8, t1: u8) {
    send_with(fabric, plane, t1, 0);
}

/// As [`send`], with DSCP and ECN in the outer header.
fn send_with(fabric: &Fabric, plane: u8, t1: u8, class: u8) {
    let host = fabric.host("hA").unwrap();
    let port = &host.planes[usize::from(plane)];
    let mut segments = host.peers[0].template.segments();
    for usid in &mut segments[2..6] {
        *usid |= u16::from(plane) << 8;
    }
    segments[3] |= u16::from(t1);
    let payload = [0xAB; 100];
    let mut inner = vec![0x60, 0, 0, 0, 0, 108, 17, 64];
    inner.extend(host.gid.octets());
    inner.extend(host.peers[0].gid.octets());
    inner.extend([0x12, 0x34, 0x12, 0xB7, 0, 108, 0, 0]);
    inner.extend(payload);
    let mut frame: Vec<u8> = port.next_hop.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    frame.extend([2, 0, 0, 0, 0, 1, 0x86, 0xDD, 0x60 | class >> 4, class << 4, 0, 0, 0, inner.len() as u8, 41, 64]);
    frame.extend(port.addr.octets());
    frame.extend(Ipv6Addr::from(segments).octets());
    frame.extend(inner);
    let interface = port.interface.clone();
    enter(host.namespace.as_ref().unwrap(), move || {
        let fd = socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), SockProtocol::EthAll).unwrap();
        let address = nix::ifaddrs::getifaddrs()
            .unwrap()
            .filter(|entry| entry.interface_name == interface)
            .find_map(|entry| entry.address.filter(|address| address.as_link_addr().is_some()))
            .unwrap();
        bind(fd.as_raw_fd(), &address).unwrap();
        nix::unistd::write(&fd, &frame).unwrap();
    })
    .unwrap();
}

/// Encapsulated packets that hB's port of `plane` received while `f` ran, by outer destination.
fn received(fabric: &Fabric, plane: u8, f: impl FnOnce()) -> BTreeMap<Ipv6Addr, u32> {
    let mut seen = BTreeMap::new();
    for packet in captured(fabric, plane, f) {
        let dst: [u8; 16] = packet.bytes[38..54].try_into().unwrap();
        *seen.entry(dst.into()).or_default() += 1;
    }
    seen
}

/// Encapsulated packets that hB's port of `plane` received while `f` ran.
fn captured(fabric: &Fabric, plane: u8, f: impl FnOnce()) -> Vec<CapturedPacket> {
    let host = fabric.host("hB").unwrap();
    let interface = &host.planes[usize::from(plane)].interface;
    let capture = Capture::start(host.namespace.as_ref().unwrap(), interface, 200, 100, 100).unwrap();
    f();
    std::thread::sleep(Duration::from_millis(60));
    let mut packets = capture.finish();
    packets.retain(|p| p.bytes.len() > 54 && p.bytes[12..14] == [0x86, 0xDD] && p.bytes[20] == 41);
    packets
}

#[test]
fn every_path_leads_to_the_peer_and_the_last_sid_is_its_own() {
    let Some(fabric) = fabric("paths", Shape::default()) else { return };
    for plane in 0..2 {
        let seen = received(&fabric, plane, || (0..4).for_each(|t1| send(&fabric, plane, t1)));
        let sid = fabric.host("hB").unwrap().planes[usize::from(plane)].sid;
        assert_eq!(seen, BTreeMap::from([(sid, 4)]), "plane {plane}");
    }
    let packets = fabric.t1_packets().unwrap();
    assert_eq!(packets.len(), 8);
    assert!(packets.values().all(|&n| n >= 1), "{packets:?}");
}

#[test]
fn a_cut_link_loses_and_a_healed_one_delivers() {
    let Some(fabric) = fabric("cut", Shape { planes: 1, ..Shape::default() }) else { return };
    let through = |t1| received(&fabric, 0, || send(&fabric, 0, t1)).values().sum::<u32>();
    assert_eq!(through(2), 1);
    fabric.cut("p0-t0a-t1c").unwrap();
    fabric.cut("p0-t0a-t1c").unwrap();
    assert_eq!((through(2), through(1)), (0, 1));
    let state = |name: &str| fabric.status().unwrap().links.into_iter().find(|link| link.name == name).unwrap().state;
    assert_eq!(state("p0-t0a-t1c"), LinkState::Cut);
    fabric.heal("p0-t0a-t1c").unwrap();
    assert_eq!((through(2), state("p0-t0a-t1c")), (1, LinkState::Up));
    for link in ["p0-hB", "p0-t0b-t1a"] {
        fabric.cut(link).unwrap();
        assert_eq!(through(0), 0, "{link}");
        fabric.heal(link).unwrap();
        assert_eq!(through(0), 1, "{link}");
    }
    assert!(fabric.cut("p0-nowhere").unwrap_err().to_string().contains("mrc lab status"));
}

#[test]
fn up_twice_down_twice_leaves_nothing() {
    let Some(first) = fabric("twice", Shape { planes: 1, t1: 2, ..Shape::default() }) else { return };
    let shape = first.shape().clone();
    let again = Fabric::up(shape.clone()).unwrap();
    drop(first); // The guard of the first removes the second: same prefix, same fabric.
    assert!(Fabric::discover(&shape.prefix).is_err());
    assert_eq!(again.down().unwrap(), 0);
    let third = Fabric::up(shape.clone()).unwrap();
    assert_eq!(Fabric::discover(&shape.prefix).unwrap().shape(), &shape);
    assert_eq!(third.down().unwrap(), 2 + 2 + 2);
    assert_eq!(Fabric::remove(&shape.prefix).unwrap(), 0);
}

#[test]
fn the_folder_of_a_fabric_goes_with_it_and_outlives_a_new_one_in_its_place() {
    let Some(first) = fabric("folder", Shape { planes: 1, t1: 1, ..Shape::default() }) else { return };
    let shape = first.shape().clone();
    let key = mrc_lab::folder(&shape.prefix).join("mapper.key");
    std::fs::create_dir_all(key.parent().unwrap()).unwrap();
    std::fs::write(&key, "of agents that go on").unwrap();
    let again = Fabric::up(shape).unwrap();
    assert!(key.exists());
    again.down().unwrap();
    assert!(!key.parent().unwrap().exists());
    std::fs::create_dir_all(key.parent().unwrap()).unwrap();
    drop(first);
    assert!(!key.parent().unwrap().exists(), "removed by a guard");
}

#[test]
fn two_that_build_the_same_do_so_one_after_the_other() {
    if skip("two_that_build_the_same_do_so_one_after_the_other") {
        return;
    }
    let shape = Shape { prefix: format!("mrctest{}two", std::process::id()), ..Shape::default() };
    for _ in 0..3 {
        let built: Vec<_> = std::thread::scope(|scope| {
            let build = || Fabric::up(shape.clone()).map(|fabric| fabric.shape().clone()).map_err(|e| e.to_string());
            let both = [scope.spawn(build), scope.spawn(build)];
            both.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let missing = Fabric::discover(&shape.prefix).map(|fabric| fabric.guarded().missing().unwrap());
        assert!(built.iter().all(Result::is_ok), "{built:?}");
        assert_eq!(missing.unwrap(), [""; 0]);
    }
}

#[test]
fn a_namespace_of_its_own() {
    let Some(fabric) = fabric("enter", Shape { planes: 1, t1: 1, ..Shape::default() }) else { return };
    let host = fabric.host("hA").unwrap();
    let gid = host.gid;
    let bound = enter(host.namespace.as_ref().unwrap(), || UdpSocket::bind(SocketAddrV6::new(gid, 0, 0, 0)).is_ok());
    assert!(bound.unwrap());
    assert!(UdpSocket::bind(SocketAddrV6::new(gid, 0, 0, 0)).is_err());
    assert!(enter("mrctest-nowhere", || ()).is_err());
}

/// What `from` to `to` did on an impaired link.
fn counted(fabric: &Fabric, from: &str, to: &str) -> Option<PortCounters> {
    fabric.impaired().unwrap().into_iter().find(|port| port.from == from && port.to == to).map(|port| port.counters)
}

#[test]
fn switches_lose_trim_and_mark_and_count_it() {
    let Some(fabric) = fabric("impair", Shape { planes: 1, t1: 2, ..Shape::default() }) else { return };
    if let Err(missing) = impair_requirements() {
        eprintln!("SKIP switches_lose_trim_and_mark_and_count_it: {missing}");
        return;
    }
    let all = 1_000_000;
    let through = |class| captured(&fabric, 0, || (0..5).for_each(|_| send_with(&fabric, 0, 1, class)));
    assert_eq!(through(0).len(), 5);
    assert_eq!(fabric.impaired().unwrap(), []);

    // Where a switch sends, and where it receives from a host.
    for (link, from, to) in [("p0-t0a-t1b", "p0-t0a", "p0-t1b"), ("p0-hA", "hA", "p0-t0a"), ("p0-hB", "p0-t0b", "hB")] {
        fabric.impair(link, &Impairment { loss_ppm: all, ..Impairment::default() }).unwrap();
        assert_eq!(through(0).len(), 0, "{link}");
        let counters = counted(&fabric, from, to).unwrap();
        assert!(counters.lost >= 5 && counters.lost == counters.packets, "{link}: {counters:?}");
        fabric.clear(link).unwrap();
        assert_eq!((through(0).len(), fabric.impaired().unwrap().len()), (5, 0), "{link}");
    }

    // Trimmed in the fabric, and on the last hop; what may not be trimmed stays whole.
    let trim = Impairment { trim_ppm: all, ..Impairment::default() };
    for (link, from, to, code) in [("p0-t0a-t1b", "p0-t0a", "p0-t1b", 12), ("p0-hB", "p0-t0b", "hB", 16)] {
        fabric.impair(link, &trim).unwrap();
        let packets = through(4 << 2 | 2);
        assert_eq!(packets.len(), 5);
        for packet in &packets {
            let class = packet.bytes[14] << 4 | packet.bytes[15] >> 4;
            assert_eq!((packet.len, class, &packet.bytes[18..20]), (122, code << 2 | 2, &[0, 68][..]), "{link}");
        }
        assert!(through(0).iter().all(|packet| packet.len == 202));
        assert_eq!(counted(&fabric, from, to).unwrap().trimmed, 5);
        fabric.clear(link).unwrap();
    }

    // Marked everywhere but on the last hop.
    fabric.impair("all", &Impairment { ce_ppm: all, ..Impairment::default() }).unwrap();
    assert!(through(2).iter().all(|packet| packet.bytes[15] & 0x30 == 0x30));
    assert!(through(0).iter().all(|packet| packet.bytes[15] & 0x30 == 0));
    let marked: u64 = fabric.impaired().unwrap().iter().map(|port| port.counters.marked).sum();
    assert_eq!(marked, 5);

    // A full queue: replaced settings start their counters anew, and survive a cut and a heal.
    let queue = VirtualQueue { bits_per_second: 8, mark_bytes: 1, trim_bytes: 1, drop_bytes: 500 };
    fabric.impair("p0", &Impairment { queue: Some(queue), ..Impairment::default() }).unwrap();
    fabric.withdraw(0).unwrap();
    fabric.restore(0).unwrap();
    assert_eq!(through(2).len(), 3);
    let first = counted(&fabric, "p0-t0a", "p0-t1b").unwrap();
    assert_eq!((first.dropped, first.marked), (2, 2));
    fabric.clear("all").unwrap();
    assert!(fabric.impair("p9", &trim).is_err() && fabric.withdraw(1).is_err());
}
