//! Endpoint operations on QP 2, in virtual time: planes that are withdrawn and restored by Port Status Updates, probes of
//! single EVs, strangers, floods, and the golden frames.

mod common;

use common::{Net, PLANES, Setup, Weather, address, net};
use mrc_core::path::EvEntry;
use mrc_core::{
    Discard, Endpoint, EndpointConfig, Event, IcrcCheck, Instant, Limits, MAX_HEADER_LEN, MAX_PORTS, OpError,
    OpOutcome, OpRequest, OwnedStorage, Pd, PeerConfig, PeerHandle, PlanePath, PortConfig, PortMask, QpInit, QpState,
    RetryConfig, Route, RtrAttr, RxMeta, Status,
};
use mrc_wire::{
    Body, BthRepr, Ecn, EmitMeta, Encap, EndpointOp, EndpointRequestRepr, EndpointResponseRepr, Ev, FrameTemplate, Ip,
    Opcode, PortNum, Psn, Qpn, TsethRepr, WireConfig, icrc, parse_frame,
};

const PORT1: PortNum = PortNum::from_plane(0);
const PORT2: PortNum = PortNum::from_plane(1);
/// QPs that enter RTS tell which ports are up.
fn told() -> Setup {
    Setup { tell_ports: true, ..Setup::default() }
}

/// There and back, as the harness delays frames.
const RTT: u64 = 8_000;
const SECOND: u64 = 1_000_000_000;

/// A frame for QP 2, whole.
fn frame(src: Ip, dst: Ip, opcode: Opcode, id: u32, body: &Body) -> Vec<u8> {
    let encap = Encap { hop_limit: 64, outer_hop_limit: 64, ..Encap::plain([2; 6], [4; 6], src, dst) };
    let template = FrameTemplate::new(&encap, &WireConfig::default());
    let meta = EmitMeta { ev: Ev(0x0042), dscp: 0, ecn: Ecn::Ect0, outer_dst: None };
    let bth = BthRepr {
        opcode,
        se: false,
        pad: 0,
        pkey: 0xFFFF,
        dest_qp: Qpn::ENDPOINT,
        ack_req: false,
        rtx: false,
        ts: false,
        psn: Psn::new(id),
    };
    let mut out = vec![0; 256];
    let len = template.emit_packet(&mut out, &meta, &bth, body, &[]).unwrap();
    out.truncate(len);
    out
}

fn request(src: Ip, dst: Ip, id: u32, op: EndpointOp, mask: u32) -> Vec<u8> {
    let tseth = TsethRepr::ns128(0x1234);
    let body = Body::EndpointRequest(EndpointRequestRepr { op, vendor_info: 0, port_status_mask: mask, tseth });
    frame(src, dst, Opcode::EndpointRequest, id, &body)
}

/// What side `which` sends now, parsed.
fn sent(net: &mut Net<'_>, which: usize) -> Vec<mrc_wire::Frame> {
    let mut headers = [0; MAX_HEADER_LEN];
    let mut frames = vec![];
    while let Some(tx) = net.sides[which].engine.poll_transmit(net.now, PortMask::ALL, &mut headers) {
        let mut bytes = headers[..tx.header_len].to_vec();
        bytes.extend([0; icrc::LEN]);
        frames.push(parse_frame(&bytes, tx.frame_len(), &WireConfig::default(), |_| true).unwrap());
    }
    frames
}

/// Lets what is said at start be said and answered.
fn settle(net: &mut Net<'_>) {
    let until = net.now.as_nanos() + 100_000;
    net.run(until, |_| false);
}

/// The ports that side `which` believes its peer has.
fn peer_ports(net: &Net<'_>, which: usize) -> Option<PortMask> {
    let side = &net.sides[which];
    side.engine.peer_ports(side.peer.unwrap())
}

//= EPOP-005, EPOP-006, EPOP-007, PORT-001, PORT-002, PORT-003, PORT-005, SEL-006 test
#[test]
fn a_plane_is_withdrawn_and_restored_within_a_round_trip() {
    /// Seven windows.
    const LEN: usize = 7 * 1_024 * 256;
    for seed in 0..4 {
        let setup = Setup { qps: 2, mtu: 256, half: 1 << 22, srv6: seed % 2 == 0, ..told() };
        net(seed, &setup, Weather::default(), |net| {
            settle(net);
            for qp in 0..2 {
                net.post(qp, qp as u64, qp * LEN, LEN).unwrap();
            }
            net.run(net.now.as_nanos() + RTT, |_| false);
            let plane2 = |net: &Net<'_>| net.sides[0].engine.stats().ports[1].tx_packets;
            assert!(plane2(net) > 10, "both planes carry data");

            // The receiver loses a port; the sender learns it from nothing but the update.
            let lost = net.sides[0].engine.stats().retransmitted;
            net.sides[1].engine.set_port(net.now, PORT2, false);
            let start = net.now;
            net.run(start.as_nanos() + RTT, |_| false);
            assert_eq!(peer_ports(net, 0), Some(PortMask::first(PLANES).without(PORT2)));
            let (used, before) = (plane2(net), net.tx_packets());
            net.run(net.now.as_nanos() + 12_000, |_| false);
            assert_eq!(plane2(net), used, "a withdrawn plane carries packets");
            assert!(net.tx_packets() > before, "the other plane carries on");
            // The plane itself still works here: what was on its way arrived, and nothing was declared lost.
            assert_eq!(net.sides[0].engine.stats().retransmitted, lost);

            net.sides[1].engine.set_port(net.now, PORT2, true);
            net.run(net.now.as_nanos() + RTT, |_| false);
            assert_eq!(peer_ports(net, 0), Some(PortMask::first(PLANES)));
            let used = plane2(net);
            assert!(net.run(net.now.as_nanos() + SECOND, |net| net.completed(2)));
            assert!(plane2(net) > used, "a restored plane carries nothing");
            net.assert_arrived(0, 2 * LEN);
            for qp in 0..2 {
                assert_eq!(net.sides[0].info(qp).state, QpState::Rts);
                assert_eq!(net.sides[0].info(qp).evs.assumed_bad, 0);
            }
            let told: Vec<_> = net.sides[0].events.iter().filter(|e| matches!(e, Event::PeerPorts { .. })).collect();
            assert_eq!(told.len(), 2, "{told:?}");
            assert!(net.sides[0].completions.iter().all(|c| c.status == Status::Success));
        });
    }
}

//= PORT-001, PORT-005 test
#[test]
fn a_disabled_port_is_down_whatever_its_link_does() {
    net(11, &told(), Weather::default(), |net| {
        settle(net);
        let (all, one) = (PortMask::first(PLANES), PortMask::first(PLANES).without(PORT2));
        // (what happens, our ports, and the same told to the peer)
        type Step = fn(&mut Endpoint<'_>, Instant);
        let steps: [(Step, PortMask, bool); 7] = [
            (|e, now| e.set_port_admin(now, PORT2, false), one, false),
            (|e, now| e.set_port(now, PORT2, false), one, false),
            (|e, now| e.set_port(now, PORT2, true), one, false),
            (|e, now| e.set_port(now, PORT2, false), one, false),
            (|e, now| e.set_port_admin(now, PORT2, true), one, true),
            (|e, now| e.set_port(now, PORT2, true), all, true),
            (|e, now| e.set_port_admin(now, PortNum::from_plane(20), false), all, true),
        ];
        for (step, (what, up, enabled)) in steps.into_iter().enumerate() {
            what(&mut net.sides[1].engine, net.now);
            settle(net);
            assert_eq!(net.sides[1].engine.ports_up(), up, "step {step}");
            assert_eq!(net.sides[1].engine.ports_enabled(), if enabled { all } else { one }, "step {step}");
            assert_eq!(peer_ports(net, 0), Some(up), "step {step}");
        }
        let heard = net.sides[1].events.iter().filter(|event| matches!(event, Event::Port { .. })).count();
        assert_eq!(heard, 2, "down once, up once");
    });
}

//= PORT-004 test
#[test]
fn a_peer_that_told_nothing_has_all_ports() {
    net(9, &told(), Weather { dead: true, ..Weather::default() }, |net| {
        assert_eq!(peer_ports(net, 0), Some(PortMask::ALL));
        net.post(0, 1, 0, 50_000).unwrap();
        assert!(net.sides[0].engine.stats().ports[..2].iter().all(|port| port.tx_packets > 15));
    });
}

//= PORT-003, SEL-007 test
#[test]
fn a_peer_without_ports_is_waited_for() {
    net(1, &Setup { qps: 2, ..told() }, Weather::default(), |net| {
        settle(net);
        let none = request(address(1, false), address(0, false), 900, EndpointOp::PortStatusUpdate, 0);
        net.deliver(0, PORT1, &none).unwrap();
        net.post(0, 1, 0, 50_000).unwrap();
        let sent = net.sides[0].engine.stats().tx_data;
        net.run(net.now.as_nanos() + 10 * SECOND / 1_000, |_| false);
        assert_eq!(net.sides[0].engine.stats().tx_data, sent, "no port leads to the peer");
        let all = request(address(1, false), address(0, false), 901, EndpointOp::PortStatusUpdate, u32::MAX);
        net.deliver(0, PORT1, &all).unwrap();
        let back = net.now.as_nanos();
        // Within the base RTT of 10 us it looks again.
        assert!(net.run(back + 10_000, |net| net.sides[0].engine.stats().tx_data > sent));
        assert!(net.run(back + SECOND, |net| net.completed(1)));
        assert_eq!(net.sides[0].info(0).state, QpState::Rts);
    });
}

//= EPOP-004 test
#[test]
fn strangers_change_nothing_and_hear_nothing() {
    net(2, &told(), Weather::default(), |net| {
        settle(net);
        let mut unknown = [0xFD; 16];
        unknown[15] = 99;
        for (n, op) in [EndpointOp::PortStatusUpdate, EndpointOp::EvProbe].into_iter().cycle().take(1_000).enumerate() {
            let bytes = request(Ip::V6(unknown), address(0, false), n as u32, op, 0);
            assert_eq!(net.deliver(0, PORT1, &bytes), Err(Discard::Stranger));
        }
        let body = Body::EndpointResponse(EndpointResponseRepr { op: EndpointOp::PortStatusUpdate, timestamp: 0 });
        for id in 0..1_000 {
            let bytes = frame(Ip::V6(unknown), address(0, false), Opcode::EndpointResponse, id, &body);
            assert_eq!(net.deliver(0, PORT1, &bytes), Err(Discard::Stranger));
        }
        assert_eq!(net.discarded(0, Discard::Stranger), 2_000);
        assert_eq!(sent(net, 0), []);
        assert_eq!(peer_ports(net, 0), Some(PortMask::first(PLANES)));
        // Another partition, another QP number.
        let mut bytes = request(address(1, false), address(0, false), 5, EndpointOp::EvProbe, 0);
        let at = bytes.len() - 4 - EndpointRequestRepr::LEN - BthRepr::LEN;
        let patch = |bytes: &mut Vec<u8>, at: usize, with: u8| {
            bytes[at] = with;
            let end = bytes.len() - icrc::LEN;
            let sum = icrc::compute(&bytes[14..end]).unwrap();
            bytes[end..].copy_from_slice(&sum);
        };
        patch(&mut bytes, at + 3, 0xFE);
        assert_eq!(net.deliver(0, PORT1, &bytes), Err(Discard::Pkey));
        patch(&mut bytes, at + 3, 0xFF);
        patch(&mut bytes, at + 7, 3);
        assert_eq!(net.deliver(0, PORT1, &bytes), Err(Discard::Qpn));
        assert_eq!(sent(net, 0), []);
    });
}

//= EPOP-004 test
#[test]
fn a_flood_of_a_peer_is_answered_at_the_limit() {
    net(3, &told(), Weather::default(), |net| {
        settle(net);
        let (mut answers, mut refused) = (0, 0);
        // A million a second for ten milliseconds, ten times the limit.
        for id in 0..10_000 {
            let bytes = request(address(1, false), address(0, false), id, EndpointOp::EvProbe, 0);
            refused += u64::from(net.deliver(0, PORT1, &bytes) == Err(Discard::EndpointRate));
            answers += sent(net, 0).len() as u64;
            net.now = net.now.after(1_000);
        }
        assert_eq!(answers + refused, 10_000);
        assert!((1_000..1_040).contains(&answers), "{answers}");
        assert_eq!(net.discarded(0, Discard::EndpointRate), refused);
    });
}

fn probe(cookie: u64, ev: Ev, port: PortNum) -> OpRequest {
    OpRequest {
        cookie,
        op: EndpointOp::EvProbe,
        ports: PortMask::NONE,
        path: EvEntry::new(ev, port),
        dscp: None,
        timeout_ns: 50_000,
    }
}

fn outcomes(net: &mut Net<'_>) -> Vec<OpOutcome> {
    std::iter::from_fn(|| net.sides[0].engine.poll_endpoint_op()).collect()
}

//= EPOP-001, EPOP-002, EPOP-003 test
#[test]
fn an_ev_is_probed_on_demand() {
    net(4, &told(), Weather::default(), |net| {
        settle(net);
        net.dead_ways.insert((0, Ev(0x103)));
        let peer = net.sides[0].peer.unwrap();
        let engine = &mut net.sides[0].engine;
        engine.post_endpoint_op(peer, &probe(7, Ev(0x004), PORT1)).unwrap();
        engine.post_endpoint_op(peer, &probe(8, Ev(0x103), PORT2)).unwrap();
        net.run(net.now.as_nanos() + SECOND, |net| net.sides[0].engine.next_timeout().is_none());
        let got = outcomes(net);
        assert_eq!(got.len(), 2, "{got:?}");
        let answer = got[0].answer.expect("this EV works");
        assert_eq!((got[0].cookie, got[0].peer, got[0].op), (7, peer, EndpointOp::EvProbe));
        assert_eq!((answer.rtt_ns, answer.adjusted), (RTT, false));
        assert_eq!((got[1].cookie, got[1].answer), (8, None), "this one is a black hole");

        // On the wire: the EV asked for, data's queue, no PSN of a QP; the answer repeats identifier and timestamp.
        net.sides[0].engine.post_endpoint_op(peer, &probe(9, Ev(0x005), PORT1)).unwrap();
        let asked = sent(net, 0).pop().unwrap();
        let Body::EndpointRequest(body) = &asked.body else { panic!("{asked:?}") };
        assert_eq!((asked.entropy, asked.dscp, asked.bth.dest_qp), (Ev(0x005), 0, Qpn::ENDPOINT));
        let id = asked.bth.psn.value();
        let mut bytes = request(address(0, false), address(1, false), id, body.op, 0);
        let end = bytes.len() - icrc::LEN;
        bytes[end - 4..end - 2].copy_from_slice(&body.tseth.timestamp.to_be_bytes());
        let sum = icrc::compute(&bytes[14..end]).unwrap();
        bytes[end..].copy_from_slice(&sum);
        net.deliver(1, PORT1, &bytes).unwrap();
        let answer = sent(net, 1).pop().unwrap();
        let want = EndpointResponseRepr { op: EndpointOp::EvProbe, timestamp: body.tseth.timestamp };
        assert_eq!(answer.body, Body::EndpointResponse(want));
        assert_eq!((answer.bth.psn.value(), answer.dscp), (id, WireConfig::default().dscp.control));

        // Answers that nobody waits for: wrong operation, wrong identifier, wrong peer address; then the right one, twice.
        let respond = |op, id| {
            let body = Body::EndpointResponse(EndpointResponseRepr { op, timestamp: 1 });
            frame(address(1, false), address(0, false), Opcode::EndpointResponse, id, &body)
        };
        let (right, other) = (EndpointOp::EvProbe, EndpointOp::PortStatusUpdate);
        assert_eq!(net.deliver(0, PORT1, &respond(other, id)), Err(Discard::StaleProbe));
        assert_eq!(net.deliver(0, PORT1, &respond(right, id ^ 0x40)), Err(Discard::StaleProbe));
        assert_eq!(net.deliver(0, PORT2, &respond(right, id)), Ok(None));
        assert_eq!(net.deliver(0, PORT1, &respond(right, id)), Err(Discard::StaleProbe));
        let got = outcomes(net);
        assert_eq!((got.len(), got[0].cookie), (1, 9));
        assert_eq!(got[0].answer.unwrap().port, PORT2);
    });
}

#[test]
fn operations_that_cannot_be_are_refused() {
    net(5, &told(), Weather::default(), |net| {
        settle(net);
        net.weather.dead = true;
        let peer = net.sides[0].peer.unwrap();
        let engine = &mut net.sides[0].engine;
        let good = probe(0, Ev(1), PORT1);
        let refuse = |engine: &mut Endpoint<'_>, request| engine.post_endpoint_op(peer, &request);
        assert_eq!(refuse(engine, probe(0, Ev(1), PortNum::from_plane(7))), Err(OpError::Range));
        assert_eq!(refuse(engine, OpRequest { dscp: Some(64), ..good }), Err(OpError::Range));
        let routed = EvEntry { dst: Some([1; 16]), ..good.path };
        assert_eq!(refuse(engine, OpRequest { path: routed, ..good }), Err(OpError::Range));
        // 64 under way, no more; each ends once, and its place is free only when that was heard.
        for round in 0..3u64 {
            for n in 0..64 {
                assert_eq!(refuse(engine, OpRequest { cookie: round * 64 + n, ..good }), Ok(()));
            }
            assert_eq!(refuse(engine, good), Err(OpError::Busy));
            let mut out = [0; MAX_HEADER_LEN];
            while engine.poll_transmit(net.now, PortMask::ALL, &mut out).is_some() {}
            net.now = net.now.after(60_000);
            engine.handle_timeout(net.now);
            assert_eq!(refuse(engine, good), Err(OpError::Busy));
            let ended: Vec<_> = std::iter::from_fn(|| engine.poll_endpoint_op()).collect();
            assert!(ended.iter().all(|outcome| outcome.answer.is_none()));
            let mut cookies: Vec<_> = ended.iter().map(|outcome| outcome.cookie).collect();
            cookies.sort_unstable();
            assert!(cookies.into_iter().eq(round * 64..round * 64 + 64));
        }
        assert_eq!(engine.next_timeout(), None);
    });
}

//= EPOP-006 test
#[test]
fn news_of_ports_is_repeated_until_answered_and_then_not() {
    let retry = RetryConfig { timeout: 10, linear: 7, exponential: 5 };
    let setup = Setup { retry, ..told() };
    // Entry to RTS told it once, on both planes; the answer ends it.
    net(6, &setup, Weather::default(), |net| {
        net.run(SECOND, |_| false);
        for side in 0..2 {
            let stats = net.sides[side].engine.stats();
            assert_eq!((stats.tx_endpoint_request, stats.rx_endpoint_request), (2, 2));
            assert_eq!((stats.tx_endpoint_response, stats.port_update_unanswered), (2, 0));
            assert_eq!(net.sides[side].engine.next_timeout(), None);
        }
    });
    // Nobody answers: once and three times more, one RTO apart, then at waits that double up to a second.
    net(6, &setup, Weather { dead: true, ..Weather::default() }, |net| {
        let (mut times, rto) = (vec![], EndpointConfig::default().port_update_rto_ns);
        net.run(40 * SECOND, |net| {
            let sent = net.sides[0].engine.stats().tx_endpoint_request;
            if times.last().is_none_or(|&(last, _)| last != sent) {
                times.push((sent, net.now.as_nanos()));
            }
            false
        });
        let waits = [1, 1, 1, 2, 4, 8, 16, 32].map(|factor| factor * rto).into_iter().chain([SECOND; 38]);
        let mut want = vec![(2, 0)];
        for wait in waits {
            let &(sent, at) = want.last().unwrap();
            want.push((sent + 2, at + wait));
        }
        assert_eq!(times, want);
        let before = want.last().unwrap().0;
        assert_eq!(net.sides[0].engine.stats().port_update_unanswered, 1);
        // A port that flaps is told at once a few times, then sixteen times per RTO.
        let start = net.now;
        for up in [false, true].into_iter().cycle().take(200) {
            net.sides[0].engine.set_port(net.now, PORT2, up);
            net.drain(0);
            net.now = net.now.after(1_000);
        }
        let told = net.sides[0].engine.stats().tx_endpoint_request - before;
        assert!((16..=32).contains(&told), "{told} in {} ns", net.now.since(start));
        assert!(
            net.run(net.now.as_nanos() + 2 * rto, |net| net.sides[0].engine.stats().tx_endpoint_request
                > told + before)
        );
    });
}

/// Eight ports that fail together and come back within an RTO are 16 changes, and the peer hears of each at once: a port
/// whose return waits for a timer stays unused on the peer's side for as long.
//= EPOP-006, PORT-005 test
#[test]
fn ports_that_come_back_together_are_told_at_once() {
    net(9, &told(), Weather::default(), |net| {
        settle(net);
        let rto = EndpointConfig::default().port_update_rto_ns;
        for burst in 0..4 {
            for change in 0..14 {
                let up = change % 2 == 1;
                net.sides[0].engine.set_port(net.now, PORT2, up);
                let until = net.now.as_nanos() + 10_000;
                net.run(until, |_| false);
                let expected = if up { PortMask::first(2) } else { PortMask::first(2).without(PORT2) };
                assert_eq!(peer_ports(net, 1), Some(expected), "change {change} of burst {burst}");
            }
            net.now = net.now.after(rto);
        }
    });
}

#[test]
fn an_overtaken_update_does_not_come_back() {
    net(7, &told(), Weather::default(), |net| {
        settle(net);
        let update =
            |id: u32, mask| request(address(1, false), address(0, false), id, EndpointOp::PortStatusUpdate, mask);
        let base = 0xFFFE;
        net.deliver(0, PORT1, &update(base, 0b010)).unwrap();
        net.deliver(0, PORT1, &update((base + 2) & 0xFFFF, 0b110)).unwrap();
        // The one between them took a slower plane. It is answered and has no effect.
        net.deliver(0, PORT1, &update(base + 1, 0b100)).unwrap();
        assert_eq!(peer_ports(net, 0), Some(PortMask::first(2)));
        assert_eq!(net.sides[0].engine.stats().port_update_stale, 1);
        assert_eq!(sent(net, 0).len(), 3);
        // Long after, any identifier counts: the peer may have started again.
        net.now = net.now.after(SECOND);
        net.deliver(0, PORT1, &update(base + 1, 0b100)).unwrap();
        assert_eq!(peer_ports(net, 0), Some(PortMask::NONE.with(PORT2)));
    });
}

/// Two addresses of the golden frames, and one endpoint that holds the second or the first.
fn golden_endpoint<R>(own: u8, ports: usize, ev: Ev, f: impl FnOnce(&mut Endpoint<'_>, PeerHandle) -> R) -> R {
    let gid = |last: u8| {
        let mut octets = [0; 16];
        (octets[0], octets[1], octets[2], octets[3], octets[5], octets[15]) = (0x20, 1, 0x0D, 0xB8, 1, last);
        Ip::V6(octets)
    };
    let mac = |last: u8| [2, 0, 0, 0, 0, last];
    let other = 0x0A + 0x0B - own;
    let mut storage = OwnedStorage::new(Limits::default()).unwrap();
    let mut cfg = EndpointConfig::default();
    cfg.gids[0] = Some(gid(own));
    let mut planes = [None; MAX_PORTS];
    for (port, plane) in cfg.ports.iter_mut().zip(&mut planes).take(ports) {
        *port = Some(PortConfig { mac: mac(own), sid: None, addr: None });
        *plane = Some(PlanePath { next_hop: mac(other), outer_src: None });
    }
    let mut engine = Endpoint::new(cfg, storage.lend(), 1).unwrap();
    let config = PeerConfig { local: gid(own), remote: gid(other), planes, route: Route::Plain, hop_limit: 64 };
    let peer = engine.add_peer(&config).unwrap();
    engine.create_ev_profile(&[EvEntry::new(ev, PORT1)]).unwrap();
    f(&mut engine, peer)
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn emitted(engine: &mut Endpoint<'_>, now: Instant) -> Vec<u8> {
    let mut out = [0; MAX_HEADER_LEN];
    let tx = engine.poll_transmit(now, PortMask::ALL, &mut out).expect("a frame");
    let mut frame = out[..tx.header_len].to_vec();
    frame.extend(icrc::compute(&frame[tx.l3_offset..]).unwrap());
    frame
}

/// `frame` with another identifier.
fn with_id(mut frame: Vec<u8>, id: u16) -> Vec<u8> {
    let psn = 14 + 40 + 8 + 10;
    frame[psn..psn + 2].copy_from_slice(&id.to_be_bytes());
    let end = frame.len() - icrc::LEN;
    let sum = icrc::compute(&frame[14..end]).unwrap();
    frame[end..].copy_from_slice(&sum);
    frame
}

const EV_PROBE_REQUEST: &str = "02000000000b02000000000a86dd602000070028114020010db800010000000000000000000a20010db800010000\
000000000000000b004212b700280000d800ffff000000020000cdef000100000000000000000000010200010655ad93";
const EV_PROBE_RESPONSE: &str = "02000000000a02000000000b86dd6b800003003c114020010db800010000000000000000000b20010db80001\
0000000000000000000aa00412b7003c0000d900ffff000000020000cdef00040000000000000000000000000000000000000000000000000000\
0102000000000000c3ca0693";
const PORT_STATUS_UPDATE: &str = "02000000000b02000000000a86dd6b8000070028114020010db800010000000000000000000a20010db80001\
0000000000000000000b004312b700280000d800ffff000000020000000100000000000001de0000000001030001fe3f0db8";

/// One registration for EVs, another for outer destinations: the answer takes the one that leads back, whichever is newer.
//= EPOP-003 test
#[test]
fn a_node_that_is_registered_twice_is_answered_once() {
    let asked = bytes(EV_PROBE_REQUEST);
    let meta = RxMeta { port: PORT1, wire_len: asked.len(), icrc: IcrcCheck::Verify };
    golden_endpoint(0x0B, 8, Ev(0x0003_A004), |engine, bare| {
        let whole = parse_frame(&asked, asked.len(), &WireConfig::default(), |_| true).unwrap();
        let mut planes = [None; MAX_PORTS];
        planes[0] = Some(PlanePath { next_hop: [2; 6], outer_src: Some([9; 16]) });
        let routed = PeerConfig { local: whole.dst, remote: whole.src, planes, route: Route::Srv6Entry, hop_limit: 64 };
        let newer = engine.add_peer(&routed).unwrap();
        for older_gone in [false, true] {
            let _ = engine.handle_packet(Instant::ZERO, meta, &asked).unwrap();
            let mut out = [0; MAX_HEADER_LEN];
            let answer = engine.poll_transmit(Instant::ZERO, PortMask::ALL, &mut out);
            assert_eq!(answer.map(|tx| tx.ev), (!older_gone).then_some(whole.entropy), "gone: {older_gone}");
            assert!(engine.poll_transmit(Instant::ZERO, PortMask::ALL, &mut out).is_none());
            if !older_gone {
                engine.remove_peer(bare).unwrap();
            }
        }
        // Paths of its own lead back as well: those of a QP.
        let route = EvEntry { dst: Some([7; 16]), ..EvEntry::new(Ev(0), PORT1) };
        let profile = engine.create_ev_profile(&[route]).unwrap();
        let cq = engine.create_cq().unwrap();
        let qp = engine.create_qp(&QpInit { pd: Pd(0), send_cq: cq, recv_cq: cq }).unwrap();
        engine.modify_to_init(qp).unwrap();
        engine.modify_to_rtr(Instant::ZERO, qp, &RtrAttr::software(newer, Qpn::new(9), Psn::new(0), profile)).unwrap();
        let bare = PeerConfig { route: Route::Plain, ..routed };
        engine.add_peer(&bare).unwrap();
        let _ = engine.handle_packet(Instant::ZERO, meta, &asked).unwrap();
        let answer = emitted(engine, Instant::ZERO);
        assert_eq!(answer[14 + 24..14 + 40], [7; 16], "the outer destination of the QP's path");
    });
}

//= EPOP-003, ERTH-003, EETH-001 test
#[test]
fn golden_frames_leave_and_are_understood() {
    let meta = |frame: &[u8]| RxMeta { port: PORT1, wire_len: frame.len(), icrc: IcrcCheck::Verify };
    // B answers A's probe, byte by byte but for the EV: without a QP towards A it answers on the EV it was asked on.
    golden_endpoint(0x0B, 8, Ev(0x0003_A004), |engine, peer| {
        let asked = bytes(EV_PROBE_REQUEST);
        let _ = engine.handle_packet(Instant::ZERO, meta(&asked), &asked).unwrap();
        let mut answer = emitted(engine, Instant::ZERO);
        let mut want = bytes(EV_PROBE_RESPONSE);
        assert_eq!((answer[17], answer[54..56].to_vec()), (0x07, vec![0x00, 0x42]));
        for frame in [&mut answer, &mut want] {
            frame.truncate(frame.len() - icrc::LEN);
            (frame[17], frame[54], frame[55]) = (0, 0, 0);
        }
        assert_eq!(answer, want);
        // B hears which of A's ports are up.
        let update = bytes(PORT_STATUS_UPDATE);
        let _ = engine.handle_packet(Instant::ZERO, meta(&update), &update).unwrap();
        assert_eq!(engine.peer_ports(peer), Some(PortMask::from_bits(0x1DE)));
    });
    // A asks; the identifier is of A's choice.
    golden_endpoint(0x0A, 8, Ev(1), |engine, peer| {
        let now = Instant::from_nanos(0x0102 * 128);
        engine.post_endpoint_op(peer, &probe(1, Ev(0x0007_0042), PORT1)).unwrap();
        let request = emitted(engine, now);
        assert_eq!(with_id(request.clone(), 0xCDEF), bytes(EV_PROBE_REQUEST));
        let id = u16::from_be_bytes([request[72], request[73]]);
        let answer = with_id(bytes(EV_PROBE_RESPONSE), id);
        let _ = engine.handle_packet(now.after(5_000), meta(&answer), &answer).unwrap();
        assert_eq!(engine.poll_endpoint_op().unwrap().answer.unwrap().rtt_ns, 5_000);

        let ports = PortMask::first(8).without(PortNum::from_plane(4));
        let told = OpRequest { op: EndpointOp::PortStatusUpdate, ports, ..probe(2, Ev(0x0007_0043), PORT1) };
        engine.post_endpoint_op(peer, &told).unwrap();
        let update = emitted(engine, Instant::from_nanos(0x0103 * 128));
        assert_eq!(with_id(update, 1), bytes(PORT_STATUS_UPDATE));
    });
}

//= TS-005 test
#[test]
fn service_time_is_taken_out_of_a_probe_when_configured() {
    for (svc_time, want) in [(false, (RTT + 90_000, false)), (true, (RTT, true))] {
        let setup = Setup { svc_time, ..told() };
        net(8, &setup, Weather::default(), |net| {
            settle(net);
            let request = OpRequest { timeout_ns: SECOND, ..probe(1, Ev(1), PORT1) };
            let peer = net.sides[0].peer.unwrap();
            net.sides[0].engine.post_endpoint_op(peer, &request).unwrap();
            net.drain(0);
            // The peer is busy for 90 us before it looks at what it wants to send.
            let ((at, _), (to, port, bytes)) = net.wire.pop_first().unwrap();
            net.now = Instant::from_nanos(at);
            net.deliver(to, port, &bytes).unwrap();
            net.now = net.now.after(90_000);
            net.drain(1);
            net.run(net.now.as_nanos() + SECOND, |net| net.wire.is_empty());
            let answer = outcomes(net).pop().unwrap().answer.unwrap();
            assert_eq!(answer.adjusted, want.1);
            assert!(answer.rtt_ns.abs_diff(want.0) <= 256, "{answer:?}");
        });
    }
}

/// An update that finds no room for its answer is refused as a whole: the peer asks again, and only then it counts.
//= EPOP-005 test
#[test]
fn an_update_that_cannot_be_answered_does_not_count() {
    net(12, &told(), Weather::default(), |net| {
        settle(net);
        let mut last = PortMask::first(PLANES);
        let mut refused = 0;
        // A driver that does not poll: answers pile up, while the limit of rate would allow them.
        for id in 0..40 {
            net.now = net.now.after(1_000_000);
            let mask = PortMask::from_bits(2 << (id % 2));
            let bytes =
                request(address(1, false), address(0, false), 1_000 + id, EndpointOp::PortStatusUpdate, mask.bits());
            match net.deliver(0, PORT1, &bytes) {
                Ok(_) => last = mask,
                Err(why) => {
                    assert_eq!(why, Discard::EndpointRate);
                    refused += 1;
                }
            }
            assert_eq!(peer_ports(net, 0), Some(last));
        }
        assert_eq!(refused, 8);
    });
}

/// A response that reflects 0 reflects no timestamp: its round trip is that of our own clock, whatever the timestamps show.
//= TS-004, EPOP-003 test
#[test]
fn a_response_without_a_timestamp_takes_no_service_time_out() {
    net(8, &told(), Weather::default(), |net| {
        settle(net);
        let request = OpRequest { timeout_ns: SECOND, ..probe(1, Ev(1), PORT1) };
        let peer = net.sides[0].peer.unwrap();
        // Timestamps come round shortly before the response arrives.
        net.now = Instant::from_nanos((9 << 23) - 4_000_000);
        net.sides[0].engine.post_endpoint_op(peer, &request).unwrap();
        let asked = sent(net, 0).pop().unwrap();
        net.now = Instant::from_nanos((9 << 23) + 1_000);
        let body = Body::EndpointResponse(EndpointResponseRepr { op: EndpointOp::EvProbe, timestamp: 0 });
        let id = asked.bth.psn.value();
        let answer = frame(address(1, false), address(0, false), Opcode::EndpointResponse, id, &body);
        assert_eq!(net.deliver(0, PORT1, &answer), Ok(None));
        let answer = outcomes(net).pop().unwrap().answer.unwrap();
        assert_eq!((answer.rtt_ns, answer.adjusted), (4_001_000, false));
    });
}

/// Timestamps come round after 2^23 ns: from then on only our own clock measures.
//= EPOP-003, TS-004 test
#[test]
fn a_response_that_comes_when_timestamps_come_round_takes_no_service_time_out() {
    net(8, &told(), Weather::default(), |net| {
        settle(net);
        let peer = net.sides[0].peer.unwrap();
        net.now = Instant::from_nanos(net.now.as_nanos().next_multiple_of(1 << 20) + (1 << 20));
        // (round trip, ticks that the peer added, what is left of it): a tick of rounding on each side is no service time.
        let cases = [((1 << 23) - 128, 0, None), (1 << 23, 0, None), ((1 << 23) + 128, 0, None)];
        for (elapsed, ticks, left) in cases.into_iter().chain([(12_800, 2, None), (12_800, 3, Some(12_800 - 384))]) {
            let request = OpRequest { timeout_ns: SECOND, ..probe(1, Ev(1), PORT1) };
            net.sides[0].engine.post_endpoint_op(peer, &request).unwrap();
            let asked = sent(net, 0).pop().unwrap();
            let Body::EndpointRequest(body) = &asked.body else { panic!("{asked:?}") };
            assert_ne!(body.tseth.timestamp, 0);
            net.now = net.now.after(elapsed);
            let timestamp = body.tseth.timestamp.wrapping_add(ticks);
            let response = EndpointResponseRepr { op: EndpointOp::EvProbe, timestamp };
            let (body, id) = (Body::EndpointResponse(response), asked.bth.psn.value());
            let answer = frame(address(1, false), address(0, false), Opcode::EndpointResponse, id, &body);
            assert_eq!(net.deliver(0, PORT1, &answer), Ok(None));
            let answer = outcomes(net).pop().unwrap().answer.unwrap();
            assert_eq!((answer.rtt_ns, answer.adjusted), (left.unwrap_or(elapsed), left.is_some()));
        }
    });
}

/// By default a probe goes where data goes, an update with the control packets.
//= DSCP-003, EPOP-001 test
#[test]
fn an_operation_has_the_code_point_that_its_caller_asks_for() {
    net(5, &told(), Weather::default(), |net| {
        settle(net);
        let (peer, plan) = (net.sides[0].peer.unwrap(), WireConfig::default().dscp);
        for (op, default) in [(EndpointOp::EvProbe, plan.no_trim), (EndpointOp::PortStatusUpdate, plan.control)] {
            for dscp in [None, Some(0), Some(46), Some(63)] {
                let request = OpRequest { op, dscp, ..probe(1, Ev(1), PORT1) };
                net.sides[0].engine.post_endpoint_op(peer, &request).unwrap();
                assert_eq!(sent(net, 0).pop().unwrap().dscp, dscp.unwrap_or(default), "{op:?}");
            }
        }
        // It goes to the peer that is named.
        let mut planes = [None; MAX_PORTS];
        planes[0] = Some(PlanePath { next_hop: [4; 6], outer_src: None });
        let (local, remote) = (address(0, false), address(7, false));
        let other = PeerConfig { local, remote, planes, route: Route::Plain, hop_limit: 64 };
        let other = net.sides[0].engine.add_peer(&other).unwrap();
        net.sides[0].engine.post_endpoint_op(other, &probe(1, Ev(1), PORT1)).unwrap();
        assert_eq!(sent(net, 0).pop().unwrap().dst, remote);
    });
}

/// The EV probe of the golden frames, with another identifier, arrives on `port`.
fn ask(engine: &mut Endpoint<'_>, port: PortNum, id: u16) {
    let asked = with_id(bytes(EV_PROBE_REQUEST), id);
    let meta = RxMeta { port, wire_len: asked.len(), icrc: IcrcCheck::Verify };
    let _ = engine.handle_packet(Instant::ZERO, meta, &asked).unwrap();
}

/// A driver without a frame for the port of an answer gets it later. An answer whose port is down does not hold up others.
//= EPOP-003 test
#[test]
fn an_answer_waits_for_room_but_not_for_a_port_that_is_down() {
    golden_endpoint(0x0B, 8, Ev(1), |engine, _| {
        let mut out = [0; MAX_HEADER_LEN];
        ask(engine, PORT1, 1);
        for _ in 0..2 {
            assert!(engine.poll_transmit(Instant::ZERO, PortMask::ALL.without(PORT1), &mut out).is_none());
        }
        let mut answered = |engine: &mut Endpoint<'_>| {
            let sent = engine.poll_transmit(Instant::ZERO, PortMask::ALL, &mut out)?;
            Some((sent.port, u16::from_be_bytes([out[72], out[73]])))
        };
        assert_eq!(answered(engine), Some((PORT1, 1)));
        ask(engine, PORT1, 2);
        ask(engine, PORT2, 3);
        engine.set_port(Instant::ZERO, PORT1, false);
        assert_eq!((answered(engine), answered(engine)), (Some((PORT2, 3)), None));
    });
}

/// What left ends at once, what waits ends when its turn comes, each under the handle that the application knows. The peer
/// that takes the slot gets none of it.
//= EPOP-001, EPOP-002 test
#[test]
fn operations_towards_a_peer_that_is_removed_end() {
    golden_endpoint(0x0B, 8, Ev(1), |engine, peer| {
        engine.post_endpoint_op(peer, &probe(1, Ev(1), PORT1)).unwrap();
        emitted(engine, Instant::ZERO);
        engine.post_endpoint_op(peer, &probe(2, Ev(1), PORT1)).unwrap();
        ask(engine, PORT1, 1);
        engine.remove_peer(peer).unwrap();
        let ended = |cookie| OpOutcome { cookie, peer, op: EndpointOp::EvProbe, answer: None };
        assert_eq!((engine.poll_endpoint_op(), engine.poll_endpoint_op()), (Some(ended(1)), None));
        let mut planes = [None; MAX_PORTS];
        planes[0] = Some(PlanePath { next_hop: [2; 6], outer_src: None });
        let (local, remote) = (engine.config().gids[0].unwrap(), address(7, false));
        let other = PeerConfig { local, remote, planes, route: Route::Plain, hop_limit: 64 };
        let other = engine.add_peer(&other).unwrap();
        assert_eq!((other.index(), other == peer), (peer.index(), false));
        let mut out = [0; MAX_HEADER_LEN];
        assert!(engine.poll_transmit(Instant::ZERO, PortMask::ALL, &mut out).is_none());
        assert_eq!((engine.poll_endpoint_op(), engine.poll_endpoint_op()), (Some(ended(2)), None));
    });
}

/// An update ends with an answer that has its identifier, and with no other one.
//= EPOP-002, EPOP-006 test
#[test]
fn an_update_is_answered_by_its_identifier() {
    net(6, &told(), Weather { dead: true, ..Weather::default() }, |net| {
        let asked = sent(net, 0);
        let ids: Vec<u32> = asked.iter().map(|frame| frame.bth.psn.value()).collect();
        assert_eq!((ids.len(), ids[0]), (2, ids[1]), "one identifier for both planes");
        let respond = |id| {
            let response = EndpointResponseRepr { op: EndpointOp::PortStatusUpdate, timestamp: 1 };
            let body = Body::EndpointResponse(response);
            frame(address(1, false), address(0, false), Opcode::EndpointResponse, id & 0xFFFF, &body)
        };
        for wrong in [ids[0] ^ 1, ids[0] ^ 0x8000, ids[0] + 1] {
            assert_eq!(net.deliver(0, PORT1, &respond(wrong)), Err(Discard::StaleProbe));
            assert!(net.sides[0].engine.next_timeout().is_some());
        }
        assert_eq!(net.deliver(0, PORT1, &respond(ids[0])), Ok(None));
        assert_eq!(net.sides[0].engine.next_timeout(), None);
        assert_eq!(net.deliver(0, PORT1, &respond(ids[0])), Err(Discard::StaleProbe));
    });
}
