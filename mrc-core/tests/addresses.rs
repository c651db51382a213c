//! Peers with addresses of their own on each plane, and with several registrations: who is known by which address.

mod common;

use common::{Net, PLANES, Setup, Weather, address, net, plane_address};
use mrc_core::path::EvEntry;
use mrc_core::{
    Discard, Endpoint, MAX_HEADER_LEN, MAX_PORTS, OpRequest, PeerConfig, PlanePath, PortMask, Route, TableError,
};
use mrc_wire::{
    Body, BthRepr, Ecn, EmitMeta, Encap, EndpointOp, EndpointRequestRepr, Ev, FrameTemplate, Ip, Opcode, PortNum, Psn,
    Qpn, TsethRepr, WireConfig, icrc, parse_frame,
};

const SECOND: u64 = 1_000_000_000;

/// A Port Status Update or an EV probe, whole.
fn request(src: Ip, dst: Ip, id: u32, op: EndpointOp, mask: u32) -> Vec<u8> {
    let template = FrameTemplate::new(&Encap::plain([2; 6], [4; 6], src, dst), &WireConfig::default());
    let meta = EmitMeta { ev: Ev(0x0042), dscp: 0, ecn: Ecn::Ect0, outer_dst: None };
    let bth = BthRepr::new(Opcode::EndpointRequest, Qpn::ENDPOINT, Psn::new(id));
    let tseth = TsethRepr::ns128(0x1234);
    let body = Body::EndpointRequest(EndpointRequestRepr { op, vendor_info: 0, port_status_mask: mask, tseth });
    let mut out = vec![0; 256];
    let len = template.emit_packet(&mut out, &meta, &bth, &body, &[]).unwrap();
    out.truncate(len);
    out
}

/// Gives a frame whose IP header with UDP is at `l3` the ICRC that belongs to it.
fn sign(frame: &mut [u8], l3: usize) {
    let end = frame.len() - icrc::LEN;
    let trailer = icrc::compute(&frame[l3..end]).unwrap();
    frame[end..].copy_from_slice(&trailer);
}

fn peer_ports(net: &Net<'_>, which: usize) -> Option<PortMask> {
    let side = &net.sides[which];
    side.engine.peer_ports(side.peer.unwrap())
}

/// The harness checks the addresses of every frame.
//= ADDR-001, IP6-007 test
#[test]
fn each_plane_may_be_a_network_with_addresses_of_its_own() {
    let storm = Weather { loss: 20, reorder: 200, duplicate: 30, corrupt: 5, mark: 50, ..Weather::default() };
    for (seed, srv6) in [(1, false), (2, true), (3, false)] {
        let setup = Setup { own_addresses: true, srv6, tell_ports: true, ..Setup::default() };
        net(seed, &setup, storm, |net| {
            for n in 0..12u64 {
                net.post(0, n, n as usize * 10_000, 10_000).unwrap();
                net.post_from(1, 0, n, n as usize * 10_000, 10_000).unwrap();
            }
            assert!(net.run(20 * SECOND, |net| net.sides.iter().all(|side| side.completions.len() == 12)));
            for from in 0..2 {
                net.assert_arrived(from, 120_000);
                let stats = net.sides[from].engine.stats();
                assert!((0..usize::from(PLANES)).all(|port| stats.ports[port].rx_packets > 30), "{stats:?}");
                assert_eq!((net.discarded(from, Discard::Peer), net.discarded(from, Discard::Stranger)), (0, 0));
                assert_eq!(peer_ports(net, from), Some(PortMask::first(PLANES)), "its update was understood");
                assert!(stats.rx_endpoint_request > 0 && stats.rx_endpoint_response > 0);
            }
        });
    }
}

/// Known under each of its addresses, on whichever plane; under no other.
//= ADDR-001, EPOP-004 test
#[test]
fn a_peer_is_known_by_each_of_its_addresses_alone() {
    let setup = Setup { own_addresses: true, ..Setup::default() };
    net(1, &setup, Weather::default(), |net| {
        let [ours, theirs] = [0, 1].map(|side| Ip::V6(plane_address(side, 0)));
        let mut ask = |src, dst, id| {
            let bytes = request(src, dst, id, EndpointOp::PortStatusUpdate, 1 << id);
            let heard = net.deliver(0, PortNum::from_plane(0), &bytes).map(|_| ());
            net.drain(0);
            (heard, peer_ports(net, 0).unwrap())
        };
        let ports = PortMask::from_bits;
        assert_eq!(ask(theirs, ours, 1), (Ok(()), ports(1 << 1)));
        assert_eq!(ask(Ip::V6(plane_address(1, 1)), ours, 2), (Ok(()), ports(1 << 2)), "a plane that leads astray");
        assert_eq!(ask(address(1, false), address(0, false), 3), (Ok(()), ports(1 << 3)), "the peer's own address");
        assert_eq!(ask(Ip::V6(plane_address(1, 2)), ours, 4), (Err(Discard::Stranger), ports(1 << 3)));
        assert_eq!(ask(theirs, Ip::V6(plane_address(0, 1)), 5).0, Err(Discard::L3Dst), "the address of another port");
    });
}

/// The number of a queue pair is no secret: what comes from elsewhere is refused, also where the peer has addresses for each plane.
//= VAL-013, IP6-007, ADDR-001 test
#[test]
fn a_write_from_an_address_of_nobody_is_refused() {
    for own_addresses in [false, true] {
        net(1, &Setup { own_addresses, ..Setup::default() }, Weather::default(), |net| {
            for n in 1..=4 {
                net.post(0, n, 0, 3_000).unwrap();
                while !net.completed(n as usize) {
                    if net.wire.is_empty() {
                        net.drain(0);
                    }
                    let (_, (to, port, frame)) = net.wire.pop_first().expect("a frame under way");
                    let parsed = parse_frame(&frame, frame.len(), &WireConfig::default(), |_| true).unwrap();
                    let why = if parsed.bth.dest_qp == Qpn::ENDPOINT { Discard::Stranger } else { Discard::Peer };
                    let l3 = parsed.l3_offset;
                    for (source, octet) in [(plane_address(to, 0), 0), (plane_address(1 - to, 3), 0), ([0xFE; 16], 8)] {
                        let mut forged = frame.clone();
                        forged[l3 + 8 + octet..l3 + 24].copy_from_slice(&source[octet..]);
                        sign(&mut forged, l3);
                        assert_eq!(net.deliver(to, port, &forged), Err(why), "write {n}, source {source:?}");
                    }
                    net.deliver(to, port, &frame).unwrap();
                    net.drain(to);
                }
            }
        });
    }
}

/// A node that reaches us under an address of ours which no registration of it has.
//= EPOP-002, EPOP-004, EPOP-005 test
#[test]
fn a_known_node_is_answered_from_the_address_that_it_asked() {
    for v4 in [false, true] {
        let setup = Setup { v4, tweak: |cfg| cfg.gids[1] = Some(address(8, false)), ..Setup::default() };
        let setup = if v4 { Setup { tweak: |cfg| cfg.gids[1] = Some(address(8, true)), ..setup } } else { setup };
        net(1, &setup, Weather::default(), |net| {
            let (node, other) = (address(1, v4), address(8, v4));
            let ask = |net: &mut Net<'_>, dst, id, op| {
                net.deliver(0, PortNum::from_plane(0), &request(node, dst, id, op, 0b10)).map(|_| ())
            };
            assert_eq!(ask(net, other, 7, EndpointOp::EvProbe), Ok(()));
            let mut headers = [0; MAX_HEADER_LEN];
            let tx = net.sides[0].engine.poll_transmit(net.now, PortMask::ALL, &mut headers).unwrap();
            let mut bytes = headers[..tx.header_len].to_vec();
            bytes.extend(icrc::compute(&bytes[tx.l3_offset..]).unwrap());
            let answer = parse_frame(&bytes, bytes.len(), &WireConfig::default(), |_| true).unwrap();
            assert_eq!((answer.src, answer.dst, answer.bth.psn), (other, node, Psn::new(7)));
            if v4 {
                let words = bytes[14..34].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
                let sum = words.sum::<u32>();
                assert_eq!((sum & 0xFFFF) + (sum >> 16), 0xFFFF, "the header checksum");
            }
            assert_eq!(ask(net, other, 8, EndpointOp::PortStatusUpdate), Ok(()));
            assert_eq!(peer_ports(net, 0), Some(PortMask::from_bits(0b10)), "the ports of the node, not of an address");
            assert_eq!(ask(net, address(9, v4), 9, EndpointOp::EvProbe), Err(Discard::L3Dst));
        });
    }
}

/// Inside a tunnel to a destination of ours: the inner one has to be ours as well.
//= EPOP-004 test
#[test]
fn a_tunnel_brings_nothing_for_others() {
    net(1, &Setup { srv6: true, ..Setup::default() }, Weather::default(), |net| {
        net.drain(1);
        let peer = net.sides[1].peer.unwrap();
        let probe = OpRequest {
            cookie: 1,
            op: EndpointOp::EvProbe,
            ports: PortMask::NONE,
            path: EvEntry::new(Ev(4), PortNum::from_plane(0)),
            dscp: None,
            timeout_ns: SECOND,
        };
        net.sides[1].engine.post_endpoint_op(peer, &probe).unwrap();
        net.drain(1);
        let (to, port, bytes) = net.wire.pop_first().unwrap().1;
        let l3 = parse_frame(&bytes, bytes.len(), &WireConfig::default(), |_| true).unwrap().l3_offset;
        let mut astray = bytes.clone();
        astray[l3 + 39] ^= 0x40;
        sign(&mut astray, l3);
        assert_eq!(net.deliver(to, port, &astray), Err(Discard::Stranger));
        assert!(net.deliver(to, port, &bytes).is_ok());
    });
}

//= ADDR-001 test
#[test]
fn addresses_that_cannot_be_are_refused() {
    let setup = Setup { tweak: |cfg| cfg.gids[1] = Some(address(8, false)), ..Setup::default() };
    net(1, &setup, Weather::default(), |net| {
        let used = net.sides[0].peer.unwrap();
        let engine: &mut Endpoint<'_> = &mut net.sides[0].engine;
        let mut planes = [None; MAX_PORTS];
        planes[0] = Some(PlanePath { next_hop: [4; 6], outer_src: None });
        let (local, remote) = (address(0, false), address(7, false));
        let config = PeerConfig { local, remote, planes, route: Route::Plain, hop_limit: 64 };
        let peer = engine.add_peer(&config).unwrap();
        let (ours, theirs) = (address(8, false), address(9, false));
        let [port1, port2] = [0, 1].map(PortNum::from_plane);
        assert_eq!(engine.set_plane_addresses(used, port1, ours, theirs), Err(TableError::Busy("peer")));
        assert_eq!(engine.set_plane_addresses(peer, port2, ours, theirs), Err(TableError::Range("peer planes")));
        let wrong = Err(TableError::Range("plane addresses"));
        assert_eq!(engine.set_plane_addresses(peer, port1, theirs, theirs), wrong, "not ours");
        assert_eq!(engine.set_plane_addresses(peer, port1, ours, address(9, true)), wrong, "another family");
        assert_eq!(engine.set_plane_addresses(peer, port1, ours, theirs), Ok(()));
        assert_eq!(engine.set_plane_addresses(peer, port1, local, remote), Ok(()), "as it was");
        engine.remove_peer(peer).unwrap();
        assert_eq!(engine.set_plane_addresses(peer, port1, ours, theirs), Err(TableError::Unknown("peer")));
    });
}

/// A tunnel may come out at another port than the one whose address is inside.
//= ADDR-001, EPOP-004 test
#[test]
fn a_tunnel_to_another_port_brings_what_is_for_a_plane_address() {
    net(1, &Setup { srv6: true, own_addresses: true, ..Setup::default() }, Weather::default(), |net| {
        net.drain(1);
        net.wire.clear();
        let (peer, first) = (net.sides[1].peer.unwrap(), PortNum::from_plane(0));
        let path = EvEntry::new(Ev(4), first);
        let (op, ports) = (EndpointOp::EvProbe, PortMask::NONE);
        let probe = OpRequest { cookie: 1, op, ports, path, dscp: None, timeout_ns: SECOND };
        net.sides[1].engine.post_endpoint_op(peer, &probe).unwrap();
        net.drain(1);
        let (to, port, bytes) = net.wire.pop_first().unwrap().1;
        assert_eq!((to, port), (0, first));
        let l3 = parse_frame(&bytes, bytes.len(), &WireConfig::default(), |_| true).unwrap().l3_offset;
        let mut astray = bytes.clone();
        astray[l3 + 39] ^= 0x40;
        sign(&mut astray, l3);
        assert_eq!(net.deliver(0, first, &astray), Err(Discard::Stranger), "for none of our addresses");
        assert_eq!(net.deliver(0, PortNum::from_plane(1), &bytes), Ok(None));
    });
}

/// A queue pair takes packets from each address of its peer, and from no other one.
//= ADDR-001, VAL-013 test
#[test]
fn a_queue_pair_takes_packets_from_the_addresses_of_its_peer_alone() {
    net(1, &Setup { own_addresses: true, ..Setup::default() }, Weather::default(), |net| {
        net.post(0, 1, 0, 1_000).unwrap();
        let (to, port, bytes) = net.wire.pop_first().unwrap().1;
        let mut from = |source: Ip| {
            let (Ip::V6(octets), mut bytes) = (source, bytes.clone()) else { unreachable!() };
            bytes[14 + 8..14 + 24].copy_from_slice(&octets);
            let end = bytes.len() - icrc::LEN;
            let trailer = icrc::compute(&bytes[14..end]).unwrap();
            bytes[end..].copy_from_slice(&trailer);
            net.deliver(to, port, &bytes).map(|token| token.is_some())
        };
        for stranger in [plane_address(0, 5), plane_address(1, 0), [1; 16]] {
            assert_eq!(from(Ip::V6(stranger)), Err(Discard::Peer));
        }
        let other_plane = plane_address(0, 1 - port.plane());
        assert_eq!(from(Ip::V6(other_plane)), Ok(true));
    });
}
