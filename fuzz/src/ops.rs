//! Endpoint operations on QP 2: what we ask, what peers and strangers ask us, and the answers to both.

use mrc_core::path::EvEntry;
use mrc_core::{
    Endpoint, EndpointConfig, IcrcCheck, Instant, Limits, MAX_HEADER_LEN, MAX_PORTS, OpRequest, OwnedStorage,
    PeerConfig, PeerHandle, PlanePath, PortConfig, PortMask, Received, Route, RxMeta,
};
use mrc_wire::{
    Body, BthRepr, Ecn, EmitMeta, Encap, EndpointOp, EndpointRequestRepr, EndpointResponseRepr, Ev, Frame,
    FrameTemplate, Ip, Opcode, PortNum, Psn, Qpn, TsethRepr, WireConfig, parse_frame,
};

const PLANES: u8 = 3;
const RATE: u32 = 1_000_000;

fn address(last: u8) -> Ip {
    let mut ip = [0xFD; 16];
    ip[15] = last;
    Ip::V6(ip)
}

fn op_of(byte: u8) -> EndpointOp {
    if byte & 1 == 0 { EndpointOp::EvProbe } else { EndpointOp::PortStatusUpdate }
}

struct World<'s> {
    engine: Endpoint<'s>,
    peers: [PeerHandle; 2],
    now: Instant,
    /// Requests of ours that left, with the peer's address.
    asked: Vec<Frame>,
    posted: u64,
    ended: u64,
    /// Bytes received from and sent to addresses that are nobody's peer.
    from_strangers: u64,
    to_strangers: u64,
}

/// `data` is a script of operations of four bytes.
pub fn endpoint_ops(data: &[u8]) {
    let limits =
        Limits { qps: 1, mpr: 1, send_queue: 1, evs: 8, active_evs: 8, peers: 2, events: 4, ..Limits::default() };
    let mut storage = OwnedStorage::new(limits).expect("limits");
    let mut cfg = EndpointConfig { endpoint_rate_limit: RATE, ..EndpointConfig::default() };
    cfg.gids[0] = Some(address(0));
    for port in cfg.ports.iter_mut().take(PLANES.into()) {
        *port = Some(PortConfig { mac: [2; 6], sid: None, addr: None });
    }
    let mut engine = Endpoint::new(cfg, storage.lend(), 5).expect("configuration");
    let peers = [1, 2].map(|last| {
        let mut planes = [None; MAX_PORTS];
        for plane in planes.iter_mut().take(PLANES.into()) {
            *plane = Some(PlanePath { next_hop: [4; 6], outer_src: None });
        }
        let (local, remote) = (address(0), address(last));
        engine.add_peer(&PeerConfig { local, remote, planes, route: Route::Plain, hop_limit: 64 }).expect("peer")
    });
    let now = Instant::from_nanos(1_000);
    let mut world =
        World { engine, peers, now, asked: vec![], posted: 0, ended: 0, from_strangers: 0, to_strangers: 0 };
    for op in data.chunks_exact(4).take(500) {
        world.step([op[0], op[1], op[2], op[3]]);
        world.transmit();
    }
    world.settle();
}

impl World<'_> {
    fn step(&mut self, [op, a, b, c]: [u8; 4]) {
        match op % 8 {
            0 => self.post(a, b, c),
            // Peers 1 and 2, and one that is nobody's.
            1 | 2 => {
                let request = EndpointRequestRepr {
                    op: op_of(b),
                    vendor_info: c,
                    port_status_mask: u32::from(b >> 2) | u32::from(c) << 5,
                    tseth: TsethRepr::ns128(c.into()),
                };
                self.hear(a, Opcode::EndpointRequest, u32::from(op >> 3) * 37, &Body::EndpointRequest(request));
            }
            3 => {
                let response = EndpointResponseRepr { op: op_of(b), timestamp: u16::from(c) << 3 };
                self.hear(a, Opcode::EndpointResponse, u32::from(op >> 3), &Body::EndpointResponse(response));
            }
            4 => self.answer(a, b, c),
            5 => {
                self.now = self.now.after(1 << (a % 34));
                self.engine.handle_timeout(self.now);
            }
            6 => self.engine.set_port(self.now, PortNum::from_plane(a % (PLANES + 1)), b & 1 != 0),
            _ => self.take(a.into()),
        }
    }

    fn post(&mut self, a: u8, b: u8, c: u8) {
        let port = PortNum::from_plane(b % (PLANES + 1));
        let plan = WireConfig::default().dscp;
        // Frames in the colours of a trimming switch are nobody's to send.
        let dscp = Some(c).filter(|&dscp| a & 0x80 != 0 && dscp != plan.trimmed && dscp != plan.trimmed_lasthop);
        let request = OpRequest {
            cookie: self.posted,
            op: op_of(c),
            ports: PortMask::from_bits(u32::from(c) >> 1),
            path: EvEntry::new(Ev(b.into()), port),
            dscp,
            timeout_ns: 1 << (a % 32),
        };
        if self.engine.post_endpoint_op(self.peers[usize::from(a & 1)], &request).is_ok() {
            assert!(port.plane() < PLANES);
            self.posted += 1;
        }
    }

    fn hear(&mut self, who: u8, opcode: Opcode, id: u32, body: &Body) {
        let src = address(1 + who % 3);
        let stranger = who % 3 == 2;
        let encap = Encap::plain([2; 6], [4; 6], src, address(0));
        let template = FrameTemplate::new(&encap, &WireConfig::default());
        let meta = EmitMeta { ev: Ev(who.into()), dscp: 0, ecn: Ecn::Ect0, outer_dst: None };
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
        let mut frame = vec![0; 256];
        let len = template.emit_packet(&mut frame, &meta, &bth, body, &[]).expect("a frame");
        let before: Vec<_> = self.peers.iter().map(|&peer| self.engine.peer_ports(peer)).collect();
        let port = PortNum::from_plane(who / 3 % PLANES);
        let meta = RxMeta { port, wire_len: len, icrc: IcrcCheck::Verify };
        let heard = self.engine.handle_packet(self.now, meta, &frame[..len]);
        assert!(matches!(heard, Ok(Received::Nothing) | Err(_)), "an endpoint operation places nothing");
        let after: Vec<_> = self.peers.iter().map(|&peer| self.engine.peer_ports(peer)).collect();
        if stranger {
            self.from_strangers += len as u64;
            assert_eq!(before, after, "a stranger changed what a peer said of its ports");
        }
        if opcode != Opcode::EndpointRequest || heard.is_err() {
            assert_eq!(before, after, "only a request that was taken tells ports");
        }
        let other = 1 - usize::from(who % 3) % 2;
        assert!(stranger || before[other] == after[other], "one peer told the ports of another");
    }

    /// Answers something we asked, more or less truly.
    fn answer(&mut self, a: u8, b: u8, c: u8) {
        let Some(asked) = self.asked.get(usize::from(a) % self.asked.len().max(1)).cloned() else { return };
        let Body::EndpointRequest(request) = asked.body else { return };
        let response = EndpointResponseRepr {
            op: if b & 1 == 0 { request.op } else { op_of(b >> 1) },
            timestamp: request.tseth.reflected().wrapping_add(if b & 4 == 0 { 0 } else { c.into() }),
        };
        let who = if asked.dst == address(1) { 0 } else { 1 };
        let who = if b & 8 == 0 { who } else { b >> 4 };
        self.hear(
            who + c % PLANES * 3,
            Opcode::EndpointResponse,
            asked.bth.psn.value(),
            &Body::EndpointResponse(response),
        );
    }

    fn transmit(&mut self) {
        let mut headers = [0u8; MAX_HEADER_LEN];
        let mut sent = 0;
        while let Some(tx) = self.engine.poll_transmit(self.now, PortMask::ALL, &mut headers) {
            sent += 1;
            assert!(sent < 500, "the engine talks without end");
            assert!(self.engine.ports_up().contains(tx.port), "a port that is down");
            assert!(tx.payload.is_none() && tx.pad == 0);
            let mut bytes = headers[..tx.header_len].to_vec();
            bytes.extend([0; 4]);
            let frame = parse_frame(&bytes, bytes.len(), &WireConfig::default(), |_| true).expect("readable");
            assert_eq!(frame.bth.dest_qp, Qpn::ENDPOINT);
            if frame.dst != address(1) && frame.dst != address(2) {
                self.to_strangers += bytes.len() as u64;
            }
            if matches!(frame.body, Body::EndpointRequest(_)) {
                self.asked.insert(0, frame);
                self.asked.truncate(80);
            }
        }
        assert!(self.to_strangers <= self.from_strangers, "more for strangers than came from them");
    }

    fn take(&mut self, most: u64) {
        for _ in 0..most {
            let Some(outcome) = self.engine.poll_endpoint_op() else { break };
            assert!(outcome.cookie < self.posted);
            self.ended += 1;
        }
        assert!(self.ended <= self.posted, "more ends than beginnings");
        while self.engine.poll_event().is_some() {}
    }

    /// With time and open ports each operation ends, and then nothing moves.
    fn settle(&mut self) {
        for plane in 0..PLANES {
            self.engine.set_port(self.now, PortNum::from_plane(plane), true);
        }
        for _ in 0..2_000 {
            self.transmit();
            self.take(1_000);
            let Some(next) = self.engine.next_timeout() else { break };
            self.now = self.now.max(next);
            self.engine.handle_timeout(self.now);
        }
        self.transmit();
        self.take(1_000);
        assert_eq!(self.ended, self.posted, "an operation never ended");
        assert_eq!(self.engine.next_timeout(), None, "it is never quiet");
    }
}
