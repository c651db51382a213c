//! Ports over a real veth pair: frames of all sizes, modes and kinds; refusals; link events; foreign traffic.
//!
//! Needs root; each test skips by name and reason otherwise.

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use common::{KINDS, Kind, Pair, eventually, frame, in_namespace, ip, open, open_with, receive, send, xsk_config};
use mrc_afxdp::{
    Attach, Interface, LinkMonitor, LinkState, MemRegion, Mode, PacketFilter, Port, PortError, Problem, RawConfig,
    RawPort, SetupError, XskConfig, XskPort,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::xdp::{SocketAddrXdp, SocketAddrXdpFlags, XdpUmemReg, XdpUmemRegFlags};
use rustix::net::{AddressFamily, SocketType, sockopt};

#[test]
fn frames_of_all_sizes_cross_between_all_kinds() {
    let Some(pair) = Pair::new("frames_of_all_sizes_cross_between_all_kinds", 9000) else {
        return;
    };
    for (from, to) in KINDS.iter().flat_map(|from| KINDS.map(|to| (*from, to))) {
        let (mut a, mut b) = (open(&pair.a, from), open(&pair.b, to));
        for (seed, len) in [64, 1514, 3840, 3841, 4096, 4097, 4250, 8192].into_iter().enumerate() {
            let sent = frame(len, seed as u32, b.mac(), a.mac());
            send(&mut a, &sent);
            let got = receive(&mut b, 1);
            assert_eq!(got.len(), 1, "{from:?} -> {to:?}, {len} bytes: {:?}", b.stats());
            assert!(got[0] == sent, "{from:?} -> {to:?}: {len} bytes arrived changed");
        }
        assert_eq!(a.flush(), Ok(0), "{from:?}: frames left with the kernel");
        let (sent, got) = (a.stats(), b.stats());
        assert_eq!((sent.tx_frames, sent.tx_completed, got.rx_frames), (8, 8, 8));
        assert_eq!(sent.tx_bytes, got.rx_bytes);
        assert_eq!((got.rx_dropped, got.rx_invalid, sent.tx_invalid_completions), (0, 0, 0));
    }
}

#[test]
fn every_mode_reports_what_it_obtained() {
    let Some(pair) = Pair::new("every_mode_reports_what_it_obtained", 9000) else {
        return;
    };
    let expected = [
        (Kind::Xsk(Mode::Auto), Attach::NativeXdp, "native XDP, copy, multi-buffer, MTU 9000 (asked: auto)"),
        (Kind::Xsk(Mode::Native), Attach::NativeXdp, "native XDP, copy, multi-buffer, MTU 9000 (asked: native)"),
        (Kind::Xsk(Mode::Skb), Attach::SkbXdp, "SKB-mode XDP, copy, multi-buffer, MTU 9000 (asked: skb)"),
        (Kind::Raw, Attach::PacketSocket, "packet socket, copy, MTU 9000"),
    ];
    for (kind, attach, text) in expected {
        let port = open(&pair.a, kind);
        assert_eq!(port.obtained().attach, attach);
        assert_eq!(port.obtained().to_string(), text);
        let xdp = in_namespace(&pair.a, || Interface::by_name("p0").unwrap().xdp);
        assert_eq!(xdp.map(|xdp| xdp.native), (kind != Kind::Raw).then_some(attach == Attach::NativeXdp));
    }
    let detached = || in_namespace(&pair.a, || Interface::by_name("p0").unwrap().xdp).is_none();
    assert!(eventually(Duration::from_secs(1), detached), "the program outlived its port");
}

#[test]
fn many_frames_keep_order_and_every_buffer_returns() {
    let Some(pair) = Pair::new("many_frames_keep_order_and_every_buffer_returns", 9000) else {
        return;
    };
    for kind in KINDS {
        let (mut a, mut b) = (open(&pair.a, kind), open(&pair.b, kind));
        let slots = a.tx_free();
        assert_eq!(slots, 64);
        let (mut sent, mut next) = (0u32, 0u32);
        while next < 6000 {
            while sent < 6000 {
                let Some(mut slot) = a.tx_slot() else { break };
                let len = [64, 1514, 4250][sent as usize % 3];
                let bytes = frame(len, sent, [2; 6], [4; 6]);
                slot.buffer()[..len].copy_from_slice(&bytes);
                slot.buffer()[54..58].copy_from_slice(&sent.to_be_bytes());
                slot.commit(len);
                sent += 1;
            }
            a.flush().unwrap();
            let count = b.rx_batch(128, |got| {
                let head = got.head();
                assert_eq!(head[54..58], next.to_be_bytes(), "{kind:?}");
                assert_eq!(got.len(), [64, 1514, 4250][next as usize % 3]);
                next += 1;
            });
            assert!(count > 0 || a.flush().unwrap() == 0, "{kind:?}: stuck at {next}, {:?} {:?}", a.stats(), b.stats());
        }
        assert!(eventually(Duration::from_secs(1), || a.flush() == Ok(0) && a.tx_free() == slots), "{kind:?}");
        assert_eq!(b.stats().rx_dropped, 0);
    }
}

#[test]
fn a_port_is_readable_as_long_as_frames_wait() {
    let Some(pair) = Pair::new("a_port_is_readable_as_long_as_frames_wait", 1500) else {
        return;
    };
    for kind in KINDS {
        let (mut a, mut b) = (open(&pair.a, kind), open(&pair.b, kind));
        for number in 0..10 {
            send(&mut a, &frame(100, number, [2; 6], [4; 6]));
        }
        let mut received = 0;
        while received < 10 {
            let readable =
                |fd: &_| matches!(poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&Timespec::default())), Ok(1));
            assert!(eventually(Duration::from_secs(2), || readable(&b.fd())), "{kind:?}: {received} of 10 frames");
            let count = b.rx_batch(4, |_| ());
            assert!(count <= 4, "{kind:?}: {count}");
            received += count;
        }
    }
}

#[test]
fn a_receiver_that_looks_away_lends_more_chunks_when_it_is_back() {
    let Some(pair) = Pair::new("a_receiver_that_looks_away_lends_more_chunks_when_it_is_back", 1500) else {
        return;
    };
    for mode in [Mode::Native, Mode::Skb] {
        let config = XskConfig { rx_chunks: 4096, ring_entries: 2048, ..xsk_config(mode) };
        let mut b = in_namespace(&pair.b, || XskPort::open("p0", &config).unwrap());
        let mut a = open(&pair.a, Kind::Xsk(mode));
        for kept in [512, 700] {
            for number in 0..700 {
                while a.tx_free() == 0 {
                    let _ = a.flush();
                }
                send(&mut a, &frame(64, number, [2; 6], [4; 6]));
            }
            assert!(eventually(Duration::from_secs(1), || a.flush() == Ok(0)));
            let mut count = 0;
            while b.rx_batch(64, |_| count += 1) > 0 {}
            assert_eq!(count, kept, "{mode:?}");
        }
    }
}

#[test]
fn an_uncommitted_slot_sends_nothing_and_is_handed_out_again() {
    let Some(pair) = Pair::new("an_uncommitted_slot_sends_nothing_and_is_handed_out_again", 1500) else {
        return;
    };
    for kind in KINDS {
        let (mut a, mut b) = (open(&pair.a, kind), open(&pair.b, kind));
        for _ in 0..500 {
            drop(a.tx_slot().expect("a slot"));
        }
        assert_eq!(a.tx_free(), 64);
        let (sent, mut got) = (frame(100, 1, [2; 6], [4; 6]), Vec::new());
        // On a busy machine the interface may lose what follows the end of the socket before.
        eventually(Duration::from_secs(5), || {
            send(&mut a, &sent);
            got.extend(receive(&mut b, 1));
            !got.is_empty()
        });
        got.extend(receive(&mut b, 64));
        assert!(!got.is_empty() && got.iter().all(|frame| *frame == sent), "{kind:?}: {got:?}");
    }
}

#[test]
fn the_queue_is_free_again_after_close() {
    let Some(pair) = Pair::new("the_queue_is_free_again_after_close", 1500) else {
        return;
    };
    for mode in [Mode::Native, Mode::Skb, Mode::Auto, Mode::Native, Mode::Skb, Mode::Auto] {
        let (mut a, mut b) = (open(&pair.a, Kind::Xsk(mode)), open(&pair.b, Kind::Xsk(mode)));
        let sent = frame(200, 9, [2; 6], [4; 6]);
        send(&mut a, &sent);
        assert_eq!(receive(&mut b, 1), [sent]);
    }
}

fn refused(ns: &str, name: &str, config: &XskConfig) -> SetupError {
    let error = in_namespace(ns, || XskPort::open(name, config).map(drop)).unwrap_err();
    eprintln!("refusal: {error}");
    error
}

#[test]
fn refusals_name_cause_and_cure() {
    let Some(pair) = Pair::new("refusals_name_cause_and_cure", 1500) else {
        return;
    };
    let config = xsk_config(Mode::Auto);
    let error = refused(&pair.a, "nosuch0", &config);
    assert_eq!(error.problem, Problem::UnknownInterface);
    assert!(error.to_string().contains("nosuch0"), "{error}");

    let error = refused(&pair.a, "p0", &XskConfig { queue: 1, ..config.clone() });
    assert_eq!(error.problem, Problem::NoSuchQueue { have: 1 });

    let error = refused(&pair.a, "p0", &XskConfig { required_mtu: 4252, ..config.clone() });
    assert_eq!(error.problem, Problem::MtuTooSmall { have: 1500, need: 4252 });

    // Without multi-buffer no packet of 4096 payload bytes arrives.
    ip(&format!("-n {} link set p0 mtu 3500", pair.a)).unwrap();
    let single = XskConfig { required_mtu: 3500, multi_buffer: false, headroom: 512, ..config.clone() };
    let error = refused(&pair.a, "p0", &single);
    assert_eq!(error.problem, Problem::SingleBuffer { need: 3500, longest: 3328 });
    in_namespace(&pair.a, || XskPort::open("p0", &XskConfig { headroom: 0, ..single }).map(drop)).unwrap();
    ip(&format!("-n {} link set p0 mtu 1500", pair.a)).unwrap();

    let error = refused(&pair.a, "p0", &XskConfig { mode: Mode::ZeroCopy, ..config.clone() });
    assert!(matches!(error.problem, Problem::ModeUnsupported { .. }), "{error}");

    let error = refused(&pair.a, "p0", &XskConfig { ring_entries: 3000, ..config.clone() });
    assert!(matches!(error.problem, Problem::BadConfig(_)), "{error}");

    let raw = RawConfig { required_mtu: 4252, ..RawConfig::default() };
    let error = in_namespace(&pair.a, || RawPort::open("p0", &raw).map(drop)).unwrap_err();
    assert_eq!(error.problem, Problem::MtuTooSmall { have: 1500, need: 4252 });
    let error = in_namespace(&pair.a, || RawPort::open("nosuch0", &RawConfig::default()).map(drop)).unwrap_err();
    assert_eq!(error.problem, Problem::UnknownInterface);
}

#[test]
fn a_second_port_is_told_who_holds_the_interface() {
    let Some(pair) = Pair::new("a_second_port_is_told_who_holds_the_interface", 1500) else {
        return;
    };
    let mut first = open(&pair.a, Kind::Xsk(Mode::Native));
    let error = refused(&pair.a, "p0", &xsk_config(Mode::Auto));
    let Problem::ProgramBusy { waited_ms, holder } = error.problem else { panic!("{error}") };
    assert!((1900..4000).contains(&waited_ms), "{waited_ms} ms");
    assert!(holder.unwrap().contains(&format!("pid {}", std::process::id())));
    // The first port is none the worse for it.
    let mut b = open(&pair.b, Kind::Raw);
    send(&mut first, &frame(100, 1, [2; 6], [4; 6]));
    assert_eq!(receive(&mut b, 1).len(), 1);
}

#[test]
fn a_queue_held_by_a_socket_without_program_is_busy() {
    let Some(pair) = Pair::new("a_queue_held_by_a_socket_without_program_is_busy", 1500) else {
        return;
    };
    let memory = MemRegion::map(64 * 4096).unwrap();
    let _holder = in_namespace(&pair.a, || {
        let fd = rustix::net::socket(AddressFamily::XDP, SocketType::RAW, None).unwrap();
        let registration = XdpUmemReg {
            addr: memory.addr(),
            len: memory.len() as u64,
            chunk_size: 4096,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        sockopt::set_xdp_umem_reg(&fd, registration).unwrap();
        sockopt::set_xdp_umem_fill_ring_size(&fd, 64).unwrap();
        sockopt::set_xdp_umem_completion_ring_size(&fd, 64).unwrap();
        sockopt::set_xdp_rx_ring_size(&fd, 64).unwrap();
        let index = Interface::by_name("p0").unwrap().index;
        rustix::net::bind(&fd, &SocketAddrXdp::new(SocketAddrXdpFlags::XDP_COPY, index, 0)).unwrap();
        fd
    });
    let error = refused(&pair.a, "p0", &xsk_config(Mode::Auto));
    assert!(matches!(error.problem, Problem::QueueBusy { waited_ms: 1900..4000 }), "{error}");
}

#[test]
fn foreign_traffic_stays_with_the_kernel() {
    let Some(pair) = Pair::new("foreign_traffic_stays_with_the_kernel", 9000) else {
        return;
    };
    for kind in KINDS {
        let (mut a, mut b) = (open(&pair.a, kind), open(&pair.b, kind));
        // TCP over IPv6: neighbour discovery (ICMPv6) has to work first.
        let listener = in_namespace(&pair.b, || TcpListener::bind("[fd00:7::2]:4000").unwrap());
        let mut client = in_namespace(&pair.a, || {
            let address = "[fd00:7::2]:4000".parse().unwrap();
            TcpStream::connect_timeout(&address, Duration::from_secs(5)).unwrap()
        });
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"hello").unwrap();
        let mut answer = [0; 5];
        server.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"hello");
        assert_eq!(receive_now(&mut b) + receive_now(&mut a), 0, "{kind:?} took the kernel's packets");

        // UDP to the MRC port belongs to the kernel where packets come under SIDs: another program may own it.
        let own = in_namespace(&pair.b, || UdpSocket::bind("[fd00:7::2]:4791").unwrap());
        own.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let socket = in_namespace(&pair.a, || UdpSocket::bind("[fd00:7::1]:0").unwrap());
        socket.send_to(b"not MRC", "[fd00:7::2]:4791").unwrap();
        let mut text = [0; 7];
        assert_eq!((own.recv(&mut text).unwrap(), &text), (7, b"not MRC"));
        assert_eq!(receive_now(&mut b), 0, "{kind:?} took a datagram of the kernel's");
    }
}

#[test]
fn bare_packets_are_taken_at_our_addresses_alone() {
    let Some(pair) = Pair::new("bare_packets_are_taken_at_our_addresses_alone", 1500) else {
        return;
    };
    ip(&format!("-n {} addr add fd00:7::9/64 dev p0 nodad", pair.b)).unwrap();
    let ours = || PacketFilter::with_addresses(["fd00:7::2".parse().unwrap()]);
    for kind in KINDS {
        let mut b = open_with(&pair.b, kind, ours());
        let socket = in_namespace(&pair.a, || UdpSocket::bind("[fd00:7::1]:0").unwrap());
        socket.send_to(b"another address", "[fd00:7::9]:4791").unwrap();
        socket.send_to(b"looks like MRC", "[fd00:7::2]:4791").unwrap();
        let got = receive(&mut b, 1);
        assert!(got.len() == 1 && got[0].ends_with(b"looks like MRC"), "{kind:?}: {got:02x?}");
        assert_eq!(receive_now(&mut b), 0, "{kind:?}");
    }
}

/// The kernel takes the tag out of what a packet socket gets, and needs no VLAN interface for that.
//= ETH-002 test
#[test]
fn a_frame_of_a_vlan_is_not_ours_and_one_with_a_priority_alone_is() {
    let Some(pair) = Pair::new("a_frame_of_a_vlan_is_not_ours_and_one_with_a_priority_alone_is", 1500) else {
        return;
    };
    for kind in KINDS {
        let (mut a, mut b) = (open(&pair.a, Kind::Raw), open(&pair.b, kind));
        let plain = frame(200, 1, b.mac(), a.mac());
        let tagged = [&plain[..12], &[0x81, 0x00, 0x00, 0x05], &plain[12..]].concat();
        send(&mut a, &tagged);
        send(&mut a, &plain);
        assert_eq!(receive(&mut b, 1), [&plain[..]], "{kind:?}");
        assert_eq!(receive_now(&mut b), 0, "{kind:?}");
        let priority = [&plain[..12], &[0x81, 0x00, 0xb0, 0x00], &plain[12..]].concat();
        send(&mut a, &priority);
        let got = receive(&mut b, 1);
        assert_eq!(got, [if kind == Kind::Raw { plain } else { priority }], "{kind:?}");
    }
}

#[test]
fn packets_of_a_vlan_stay_with_it() {
    let Some(pair) = Pair::new("packets_of_a_vlan_stay_with_it", 1500) else {
        return;
    };
    for (ns, host) in [(&pair.a, 1), (&pair.b, 2)] {
        if let Err(error) = ip(&format!("-n {ns} link add link p0 name p0.5 type vlan id 5")) {
            let _ = writeln!(std::io::stderr(), "SKIP packets_of_a_vlan_stay_with_it: {error}");
            return;
        }
        ip(&format!("-n {ns} link set p0.5 up")).unwrap();
        ip(&format!("-n {ns} addr add fd00:8::{host}/64 dev p0.5 nodad")).unwrap();
    }
    let interface = in_namespace(&pair.b, || Interface::by_name("p0").unwrap());
    let vlans = in_namespace(&pair.b, || interface.vlans_without_tag());
    assert!(vlans == ["p0.5"] || vlans.is_empty(), "{vlans:?}");
    // A packet socket is told of the tag, whoever took it out.
    let mut b = open_with(&pair.b, Kind::Raw, PacketFilter::with_addresses(["fd00:8::2".parse().unwrap()]));
    let own = in_namespace(&pair.b, || UdpSocket::bind("[fd00:8::2]:4791").unwrap());
    own.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let socket = in_namespace(&pair.a, || UdpSocket::bind("[fd00:8::1]:0").unwrap());
    socket.send_to(b"VLAN 5", "[fd00:8::2]:4791").unwrap();
    let mut text = [0; 6];
    assert_eq!((own.recv(&mut text).unwrap(), &text), (6, b"VLAN 5"));
    assert_eq!(receive_now(&mut b), 0);
}

fn receive_now(port: &mut mrc_afxdp::AnyPort) -> usize {
    port.rx_batch(64, |_| ())
}

#[test]
fn link_events_come_with_the_name() {
    let Some(pair) = Pair::new("link_events_come_with_the_name", 1500) else {
        return;
    };
    let index = in_namespace(&pair.a, || Interface::by_name("p0").unwrap().index);
    let mut monitor = in_namespace(&pair.a, || LinkMonitor::new([(index, "p0"), (4_000_000, "nosuch")]).unwrap());
    let ready = |monitor: &mut LinkMonitor| {
        monitor.poll(|_| ()).unwrap();
        monitor.state_of(0) == Some(LinkState::Up)
    };
    assert!(eventually(Duration::from_secs(2), || ready(&mut monitor)));
    assert_eq!(monitor.state_of(1), Some(LinkState::Gone));
    assert_eq!(monitor.state_of(2), None);

    let mut expect = |command: &str, state: LinkState| {
        ip(command).unwrap();
        let mut seen = Vec::new();
        let came = eventually(Duration::from_secs(3), || {
            monitor.poll(|event| seen.push(event.clone())).unwrap();
            seen.last().is_some_and(|event| event.state == state)
        });
        assert!(came, "{command}: {seen:?}");
        assert!(seen.iter().all(|event| event.name == "p0" && event.ifindex == index), "{seen:?}");
        eprintln!("event: {}", seen[seen.len() - 1]);
    };
    expect(&format!("-n {} link set p0 down", pair.b), LinkState::NoCarrier);
    expect(&format!("-n {} link set p0 up", pair.b), LinkState::Up);
    expect(&format!("-n {} link set p0 down", pair.a), LinkState::AdminDown);
    expect(&format!("-n {} link set p0 up", pair.a), LinkState::Up);
    expect(&format!("-n {} link del p0", pair.a), LinkState::Gone);
}

#[test]
fn the_interface_that_comes_is_the_one_with_the_name() {
    let Some(pair) = Pair::new("the_interface_that_comes_is_the_one_with_the_name", 1500) else {
        return;
    };
    let index = in_namespace(&pair.a, || Interface::by_name("p0").unwrap().index);
    let mut monitor = in_namespace(&pair.a, || LinkMonitor::new([(index, "p0")]).unwrap());
    let mut becomes = |state: LinkState| {
        let mut seen = Vec::new();
        let came = eventually(Duration::from_secs(3), || {
            monitor.poll(|event| seen.push(event.to_string())).unwrap();
            monitor.state_of(0) == Some(state)
        });
        assert!(came, "{state:?}: {seen:?}");
        seen
    };
    becomes(LinkState::Up);
    // The one that is watched may be renamed.
    ip(&format!("-n {} link set p0 down", pair.a)).unwrap();
    ip(&format!("-n {} link set p0 name old0", pair.a)).unwrap();
    ip(&format!("-n {} link set old0 up", pair.a)).unwrap();
    let seen = becomes(LinkState::Up);
    assert!(seen.last().is_some_and(|event| event.contains("old0")), "{seen:?}");
    ip(&format!("-n {} link del old0", pair.a)).unwrap();
    becomes(LinkState::Gone);
    // Others have its index, or the name that it had at the end.
    ip(&format!("-n {} link add other0 index {index} type bridge", pair.a)).unwrap();
    ip(&format!("-n {} link set other0 up", pair.a)).unwrap();
    ip(&format!("-n {} link add old0 type bridge", pair.a)).unwrap();
    assert_eq!(becomes(LinkState::Gone), [""; 0]);
    ip(&format!("link add p0 netns {} type veth peer name p0 netns {}", pair.a, pair.b)).unwrap();
    ip(&format!("-n {} link set p0 up", pair.b)).unwrap();
    ip(&format!("-n {} link set p0 up", pair.a)).unwrap();
    becomes(LinkState::Up);
}

#[test]
fn more_link_events_than_the_kernel_keeps_leave_the_last_state() {
    let Some(pair) = Pair::new("more_link_events_than_the_kernel_keeps_leave_the_last_state", 1500) else {
        return;
    };
    let index = in_namespace(&pair.a, || Interface::by_name("p0").unwrap().index);
    let mut monitor = in_namespace(&pair.a, || LinkMonitor::new([(index, "p0")]).unwrap());
    let batch = std::env::temp_dir().join(format!("mrc-flaps-{}", std::process::id()));
    std::fs::write(&batch, "link set p0 up\nlink set p0 down\n".repeat(3000)).unwrap();
    ip(&format!("-n {} -batch {}", pair.a, batch.display())).unwrap();
    std::fs::remove_file(&batch).unwrap();
    ip(&format!("-n {} link del p0", pair.a)).unwrap();
    let mut becomes = |state: LinkState| {
        let came = eventually(Duration::from_secs(3), || {
            in_namespace(&pair.a, || monitor.poll(|_| ())).unwrap();
            monitor.state_of(0) == Some(state)
        });
        assert!(came, "{state:?}: {:?}", monitor.state_of(0));
    };
    becomes(LinkState::Gone);
    ip(&format!("link add p0 netns {} type veth peer name p0 netns {}", pair.a, pair.b)).unwrap();
    ip(&format!("-n {} link set p0 up", pair.b)).unwrap();
    ip(&format!("-n {} link set p0 up", pair.a)).unwrap();
    becomes(LinkState::Up);
}

#[test]
fn a_port_survives_its_link_and_reports_its_end() {
    let Some(pair) = Pair::new("a_port_survives_its_link_and_reports_its_end", 1500) else {
        return;
    };
    for kind in KINDS {
        let (mut a, mut b) = (open(&pair.a, kind), open(&pair.b, kind));
        ip(&format!("-n {} link set p0 down", pair.a)).unwrap();
        let mut slot = a.tx_slot().unwrap();
        slot.buffer()[..100].copy_from_slice(&frame(100, 1, [2; 6], [4; 6]));
        slot.commit(100);
        assert_eq!(a.flush(), Err(PortError::LinkDown), "{kind:?}");
        ip(&format!("-n {} link set p0 up", pair.a)).unwrap();
        let arrived = eventually(Duration::from_secs(3), || {
            if kind == Kind::Raw {
                // This kind drops while down; later frames pass again.
                send(&mut a, &frame(100, 2, [2; 6], [4; 6]));
            }
            let _ = a.flush();
            receive_now(&mut b) > 0
        });
        assert!(arrived, "{kind:?}: {:?}", a.stats());
    }
    let mut ports = [open(&pair.a, Kind::Raw), open(&pair.b, Kind::Xsk(Mode::Auto))];
    ip(&format!("-n {} link del p0", pair.a)).unwrap();
    for port in &mut ports {
        let end = eventually(Duration::from_secs(2), || {
            let Some(mut slot) = port.tx_slot() else {
                return false;
            };
            slot.buffer()[..100].copy_from_slice(&frame(100, 1, [2; 6], [4; 6]));
            slot.commit(100);
            port.flush() == Err(PortError::Gone)
        });
        assert!(end, "{:?}: {:?}", port.obtained().attach, port.flush());
    }
}
