//! Two endpoints in virtual time over a pipe that loses, reorders, duplicates, corrupts, marks and trims. Real frames,
//! real bytes, real ICRC. What must hold whatever the network does (`transport.md` 10) is asserted here, at every frame.
#![allow(dead_code, reason = "each test binary uses a part of the harness")]

pub(crate) mod sums;

use std::collections::{BTreeMap, BTreeSet};

use mrc_core::cc::{CcConfig, QpccInfo};
use mrc_core::path::{EvEntry, LossEvAction, compact_profile};
use mrc_core::{
    Access, Completion, CqHandle, Discard, Endpoint, EndpointConfig, EvProfileHandle, Event, EventMask, IcrcCheck,
    Instant, Limits, MAX_HEADER_LEN, MAX_PORTS, MemRange, MrHandle, NoReceive, Operation, OwnedStorage, Pd, PeerConfig,
    PeerHandle, PlaceToken, PlanePath, PortConfig, PortMask, PostError, QpHandle, QpInfo, QpInit, QpState, Received,
    RetryConfig, Rng, Route, RtrAttr, RtsAttr, RxMeta, SendWr, Trimming,
};
use mrc_wire::srv6::{CopyOp, EvTemplate, container, usid, usid_shift};
use mrc_wire::{Body, Ev, Ip, NackReason, PortNum, Psn, Qpn, Rkey, Syndrome, WireConfig, icrc, parse_frame};

pub(crate) const VA: u64 = 0x7000_0000;
pub(crate) const PLANES: u8 = 2;
/// Window of every QP, units of 128 PSNs.
pub(crate) const MPR: u8 = 8;
const BLOCK: u32 = 0xFC00_0000;
/// First micro-SID of a path; plane and uplink are copied over its low bits.
const UPLINK: u16 = 0x1000;

/// What the network does to frames; probabilities in parts per thousand.
#[derive(Clone, Copy, Default)]
pub(crate) struct Weather {
    pub(crate) loss: u32,
    pub(crate) reorder: u32,
    pub(crate) duplicate: u32,
    pub(crate) corrupt: u32,
    pub(crate) trim: u32,
    pub(crate) mark: u32,
    /// The driver has no frame for one of the ports when it polls.
    pub(crate) busy: u32,
    /// Frames with this EV never arrive.
    pub(crate) black_hole: Option<Ev>,
    /// Nothing arrives at all.
    pub(crate) dead: bool,
    /// Longer way of every frame, in nanoseconds.
    pub(crate) delay_ns: u64,
}

pub(crate) struct Side<'s> {
    pub(crate) engine: Endpoint<'s>,
    pub(crate) qps: Vec<QpHandle>,
    pub(crate) peer: Option<PeerHandle>,
    pub(crate) profile: Option<EvProfileHandle>,
    pub(crate) cq: CqHandle,
    pub(crate) mr: MrHandle,
    pub(crate) key: u32,
    /// Two halves: side 0 writes from its first half to the peer's, side 1 from its second half to the peer's.
    pub(crate) memory: Vec<u8>,
    pub(crate) completions: Vec<Completion>,
    pub(crate) receives: Vec<Completion>,
    pub(crate) events: Vec<Event>,
}

impl Side<'_> {
    pub(crate) fn info(&self, qp: usize) -> QpInfo {
        self.engine.qp_info(self.qps[qp]).unwrap()
    }
}

/// What was seen of one packet: QP it goes to, PSN.
type PacketId = (u32, u32);

pub(crate) struct Net<'s> {
    pub(crate) sides: [Side<'s>; 2],
    pub(crate) now: Instant,
    /// Frames under way: arrival, order, receiver, port, bytes.
    pub(crate) wire: BTreeMap<(u64, u64), (usize, PortNum, Vec<u8>)>,
    order: u64,
    rng: Rng,
    pub(crate) weather: Weather,
    pub(crate) digest: u64,
    half: usize,
    mpr: u8,
    own_addresses: bool,
    /// Congestion-control profiles that the QPs name by turns.
    cc_profiles: usize,
    /// EV of the latest transmission of each packet.
    sent: BTreeMap<PacketId, Ev>,
    placed: BTreeSet<PacketId>,
    /// Packets of QPs in ERROR, per side and QP.
    last_words: BTreeMap<(usize, usize), u32>,
    /// When a driver that was short of frames polls again.
    repoll: [Option<Instant>; 2],
    /// Retransmissions that took the path of the copy before.
    pub(crate) same_path_again: u64,
    /// Ports cut in the fabric, whatever the endpoints know.
    pub(crate) cut: PortMask,
    /// EVs whose frames from one side never arrive: sender, EV.
    pub(crate) dead_ways: BTreeSet<(usize, Ev)>,
    /// Packets sent on each EV: sender, EV.
    pub(crate) used: BTreeMap<(usize, Ev), u64>,
    /// SACKs and Transport ACKs on each way: sender, EV, whether it is dead.
    pub(crate) answers: BTreeMap<(usize, Ev, bool), u64>,
}

#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) qps: usize,
    pub(crate) psn: u32,
    pub(crate) msn: u16,
    /// Window of both directions in units of 128 PSNs.
    pub(crate) mpr: u8,
    pub(crate) tx_packets: usize,
    pub(crate) retry: RetryConfig,
    pub(crate) tail_probe_ns: u64,
    pub(crate) trimming: Trimming,
    pub(crate) keepalive_ns: [u64; 2],
    pub(crate) access: Access,
    pub(crate) mtu: u16,
    pub(crate) srv6: bool,
    /// Bytes one side can write.
    pub(crate) half: usize,
    pub(crate) cq_depth: usize,
    /// Limits for writes with immediate: the sender's and the receiver's.
    pub(crate) max_wimm: u16,
    pub(crate) max_wimm_dest: u16,
    pub(crate) no_receive: NoReceive,
    pub(crate) lenient: bool,
    pub(crate) dynamic_mpr: bool,
    pub(crate) events: EventMask,
    /// Sets knobs of both endpoints.
    pub(crate) tweak: fn(&mut EndpointConfig),
    /// IPv4 addresses.
    pub(crate) v4: bool,
    /// Responders and endpoint operations add how long a packet waited to the timestamp they reflect.
    pub(crate) svc_time: bool,
    /// QPs that enter RTS tell which ports are up.
    pub(crate) tell_ports: bool,
    /// QPs of a profile tell each other of bad EVs.
    pub(crate) share_bad: bool,
    /// Events that can wait.
    pub(crate) event_slots: usize,
    /// Congestion-control profiles that the QPs of both sides name by turns; none = the endpoint's own.
    pub(crate) cc: Vec<CcConfig>,
    pub(crate) qpccs: usize,
    /// Side 1 stays in RTR: it only receives.
    pub(crate) one_way: bool,
    /// Packets by which a QP may be ahead on a plane.
    pub(crate) plane_lead: u8,
    /// Sets attributes of all QPs.
    pub(crate) rts: fn(&mut RtsAttr),
    /// When the QPs connect.
    pub(crate) born: Instant,
    /// Each plane is a network with addresses of its own.
    pub(crate) own_addresses: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            qps: 1,
            psn: 0xFF_FFF0,
            msn: 0,
            mpr: MPR,
            tx_packets: usize::MAX,
            retry: RetryConfig { timeout: 8, linear: 7, exponential: 5 },
            tail_probe_ns: 0,
            trimming: Trimming::Off,
            keepalive_ns: [0, 0],
            access: Access::REMOTE_WRITE,
            mtu: 1024,
            srv6: false,
            half: 1 << 18,
            cq_depth: 8,
            max_wimm: 32,
            max_wimm_dest: 32,
            no_receive: NoReceive::Hold,
            lenient: false,
            dynamic_mpr: false,
            events: EventMask::default(),
            tweak: |_| {},
            v4: false,
            svc_time: false,
            tell_ports: false,
            share_bad: false,
            event_slots: 256,
            cc: vec![],
            qpccs: 16,
            one_way: false,
            plane_lead: 0,
            rts: |_| {},
            born: Instant::ZERO,
            own_addresses: false,
        }
    }
}

/// Inner address of a side on a plane of its own.
pub(crate) fn plane_address(side: usize, plane: u8) -> [u8; 16] {
    let mut octets = [0xFD; 16];
    (octets[14], octets[15]) = (plane + 1, side as u8);
    octets
}

pub(crate) fn address(side: usize, v4: bool) -> Ip {
    let mut octets = [0xFD; 16];
    octets[15] = side as u8;
    if v4 { Ip::V4([192, 0, 2, side as u8]) } else { Ip::V6(octets) }
}

fn host(side: usize) -> u16 {
    0xA0 + side as u16
}

impl Setup {
    fn limits(&self) -> Limits {
        Limits {
            qps: self.qps.max(4),
            send_queue: 16,
            evs: 16,
            active_evs: 16,
            cq_depth: self.cq_depth,
            events: self.event_slots,
            mpr: usize::from(self.mpr).next_power_of_two(),
            tx_packets: self.tx_packets,
            cc_profiles: 2 + self.cc.len(),
            qpccs: self.qpccs,
            ..Limits::default()
        }
    }

    fn side<'s>(&self, storage: &'s mut OwnedStorage, which: usize, seed: u64) -> Side<'s> {
        let mut cfg = EndpointConfig {
            msn_start: self.msn,
            rqmsn_start: self.msn,
            no_receive: self.no_receive,
            tail_retry_lenient: self.lenient,
            events: self.events,
            endpoint_svc_time: self.svc_time,
            port_update_on_rts: self.tell_ports,
            share_bad_evs: self.share_bad,
            ..EndpointConfig::default()
        };
        (self.tweak)(&mut cfg);
        cfg.gids[0] = Some(address(which, self.v4));
        let sid = self.srv6.then(|| container(BLOCK, &[host(which)]));
        for port in cfg.ports.iter_mut().take(PLANES.into()) {
            *port = Some(PortConfig { mac: [2; 6], sid, addr: None });
        }
        for plane in (0..PLANES).filter(|_| self.own_addresses) {
            cfg.ports[usize::from(plane)].as_mut().unwrap().addr = Some(plane_address(which, plane));
        }
        let mut engine = Endpoint::new(cfg, storage.lend(), seed ^ which as u64).unwrap();
        let cq = engine.create_cq().unwrap();
        let range = MemRange { va: VA, len: 2 * self.half as u64 };
        let mr = engine.register_mr(Pd(0), range, self.access).unwrap();
        let key = engine.key(mr).unwrap().0;
        let init = QpInit { pd: Pd(0), send_cq: cq, recv_cq: cq };
        let qps = (0..self.qps).map(|_| engine.create_qp(&init).unwrap()).collect();
        let mut memory = vec![0; 2 * self.half];
        for (n, byte) in memory.iter_mut().enumerate().skip(which * self.half).take(self.half) {
            *byte = (n * 7 + n / 251) as u8;
        }
        Side {
            engine,
            qps,
            peer: None,
            profile: None,
            cq,
            mr,
            key,
            memory,
            completions: vec![],
            receives: vec![],
            events: vec![],
        }
    }

    fn connect(&self, side: &mut Side<'_>, which: usize, peers: &[QpHandle]) {
        let engine = &mut side.engine;
        let mut planes = [None; MAX_PORTS];
        for plane in planes.iter_mut().take(PLANES.into()) {
            let outer_src = self.srv6.then(|| container(BLOCK, &[host(which)]));
            *plane = Some(PlanePath { next_hop: [4; 6], outer_src });
        }
        let route = if self.srv6 {
            let base = container(BLOCK, &[UPLINK, host(1 - which)]);
            Route::Srv6(EvTemplate::new(base, &[CopyOp { ev_lsb: 0, width: 12, dst_msb_offset: 36 }]).unwrap())
        } else {
            Route::Plain
        };
        let (local, remote) = (address(which, self.v4), address(1 - which, self.v4));
        let peer = engine.add_peer(&PeerConfig { local, remote, planes, route, hop_limit: 64 }).unwrap();
        side.peer = Some(peer);
        for plane in (0..PLANES).filter(|_| self.own_addresses) {
            let [local, remote] = [which, 1 - which].map(|side| Ip::V6(plane_address(side, plane)));
            engine.set_plane_addresses(peer, PortNum::from_plane(plane), local, remote).unwrap();
        }
        let mut entries = [EvEntry::new(Ev(0), PortNum::from_plane(0)); 16];
        compact_profile(&mut entries, PLANES, 8, 8).unwrap();
        let ev_profile = engine.create_ev_profile(&entries).unwrap();
        side.profile = Some(ev_profile);
        let profiles: Vec<_> = self.cc.iter().map(|cc| engine.create_cc_profile(cc).unwrap()).collect();
        for (n, (&qp, far)) in side.qps.iter().zip(peers).enumerate() {
            engine.modify_to_init(qp).unwrap();
            let rtr = RtrAttr {
                path_mtu: self.mtu,
                mpr_dest: self.mpr,
                trim_nack: self.trimming == Trimming::On,
                max_wimm_dest: self.max_wimm_dest,
                dynamic_mpr: self.dynamic_mpr,
                svc_time: self.svc_time,
                ..RtrAttr::software(peer, far.qpn(), Psn::new(self.psn), ev_profile)
            };
            engine.modify_to_rtr(self.born, qp, &rtr).unwrap();
            if self.one_way && which == 1 {
                continue;
            }
            let mut rts = RtsAttr::software(Psn::new(self.psn));
            rts.mpr = self.mpr;
            rts.cc = profiles.get(n % profiles.len().max(1)).copied();
            rts.max_wimm = self.max_wimm;
            rts.dynamic_mpr = self.dynamic_mpr;
            rts.retry = self.retry;
            rts.trimming = self.trimming;
            rts.keepalive_ns = self.keepalive_ns[which];
            rts.base_rtt_ns = 10_000;
            rts.target_delay_ns = 10_000;
            rts.tail_probe_ns = self.tail_probe_ns;
            rts.paths.loss_ev_action = LossEvAction::ByTrimming;
            rts.paths.plane_lead = self.plane_lead;
            (self.rts)(&mut rts);
            engine.modify_to_rts(self.born, qp, &rts).unwrap();
        }
    }
}

/// Runs `f` with two connected endpoints. The seed decides everything: names, paths and weather.
pub(crate) fn net<R>(seed: u64, setup: &Setup, weather: Weather, f: impl FnOnce(&mut Net<'_>) -> R) -> R {
    println!("seed {seed}");
    let (mut a, mut b) = (OwnedStorage::new(setup.limits()).unwrap(), OwnedStorage::new(setup.limits()).unwrap());
    let mut sides = [setup.side(&mut a, 0, seed), setup.side(&mut b, 1, seed)];
    let (of_a, of_b) = (sides[0].qps.clone(), sides[1].qps.clone());
    setup.connect(&mut sides[0], 0, &of_b);
    setup.connect(&mut sides[1], 1, &of_a);
    f(&mut Net {
        sides,
        now: setup.born,
        wire: BTreeMap::new(),
        order: 0,
        rng: Rng::new(seed),
        weather,
        digest: 0,
        half: setup.half,
        mpr: setup.mpr,
        own_addresses: setup.own_addresses,
        cc_profiles: setup.cc.len().max(1),
        sent: BTreeMap::new(),
        placed: BTreeSet::new(),
        last_words: BTreeMap::new(),
        repoll: [None; 2],
        same_path_again: 0,
        cut: PortMask::NONE,
        dead_ways: BTreeSet::new(),
        used: BTreeMap::new(),
        answers: BTreeMap::new(),
    })
}

impl Net<'_> {
    /// Side 0 writes `len` bytes from `offset` of its half to the same place at the peer.
    pub(crate) fn post(&mut self, qp: usize, wr_id: u64, offset: usize, len: usize) -> Result<(), PostError> {
        self.post_from(0, qp, wr_id, offset, len)
    }

    pub(crate) fn post_from(
        &mut self,
        from: usize,
        qp: usize,
        wr_id: u64,
        offset: usize,
        len: usize,
    ) -> Result<(), PostError> {
        let (at, key) = (VA + (from * self.half + offset) as u64, self.sides[1 - from].key);
        self.post_raw(from, qp, wr_id, at, len, at, key)
    }

    #[expect(clippy::too_many_arguments, reason = "a work request, field by field")]
    pub(crate) fn post_raw(
        &mut self,
        from: usize,
        qp: usize,
        wr_id: u64,
        local_va: u64,
        len: usize,
        remote_va: u64,
        key: u32,
    ) -> Result<(), PostError> {
        let (lkey, rkey) = (self.sides[from].key, Rkey(key));
        let wr =
            SendWr { wr_id, lkey, local_va, len: len as u32, remote_va, rkey, signaled: true, ..SendWr::default() };
        self.post_wr(from, qp, &wr)
    }

    /// As `post`, with an immediate.
    pub(crate) fn post_imm(&mut self, wr_id: u64, offset: usize, len: usize, imm: u32) -> Result<(), PostError> {
        let (at, key) = (VA + offset as u64, self.sides[1].key);
        let wr = SendWr {
            wr_id,
            lkey: self.sides[0].key,
            local_va: at,
            len: len as u32,
            remote_va: at,
            rkey: Rkey(key),
            signaled: true,
            imm: Some(imm),
            solicited: imm.is_multiple_of(2),
        };
        self.post_wr(0, 0, &wr)
    }

    pub(crate) fn post_wr(&mut self, from: usize, qp: usize, wr: &SendWr) -> Result<(), PostError> {
        let side = &mut self.sides[from];
        let posted = side.engine.post_send(self.now, side.qps[qp], wr);
        self.drain(from);
        posted
    }

    /// Everything one side wants to do now.
    pub(crate) fn drain(&mut self, which: usize) {
        self.transmit(which);
        let side = &mut self.sides[which];
        while let Some(completion) = side.engine.poll_completion(side.cq) {
            match completion.operation {
                Operation::Receive => side.receives.push(completion),
                _ => side.completions.push(completion),
            }
        }
        while let Some(event) = side.engine.poll_event() {
            side.events.push(event);
        }
    }

    /// As `drain`, but leaves completions and events where they are.
    pub(crate) fn transmit(&mut self, which: usize) {
        let mut headers = [0u8; MAX_HEADER_LEN];
        loop {
            let busy = self.rng.below(1_000) < self.weather.busy;
            let full = PortNum::from_plane((self.rng.below(PLANES.into())) as u8);
            let ports = if busy { PortMask::ALL.without(full) } else { PortMask::ALL };
            let side = &mut self.sides[which];
            let Some(tx) = side.engine.poll_transmit(self.now, ports, &mut headers) else {
                if busy {
                    self.repoll[which] = Some(self.now.after(700));
                }
                break;
            };
            assert!(ports.contains(tx.port), "sent through a port without a frame");
            let mut frame = headers[..tx.header_len].to_vec();
            if let Some(payload) = tx.payload {
                assert_eq!(payload.mr, side.mr);
                let at = payload.offset as usize;
                frame.extend(&side.memory[at..at + payload.len as usize]);
            }
            frame.resize(frame.len() + usize::from(tx.pad), 0);
            frame.extend(icrc::compute(&frame[tx.l3_offset..]).unwrap());
            assert_eq!(frame.len(), tx.frame_len());
            let class = match frame[tx.l3_offset] >> 4 {
                4 => frame[tx.l3_offset + 1],
                _ => frame[tx.l3_offset] << 4 | frame[tx.l3_offset + 1] >> 4,
            };
            assert_eq!(tx.traffic_class, class, "a driver that picks a queue reads another class than switches do");
            self.send(which, tx.port, frame);
        }
    }

    fn send(&mut self, from: usize, port: PortNum, mut frame: Vec<u8>) {
        for &byte in &frame {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
        }
        let wire = WireConfig::default();
        let parsed = parse_frame(&frame, frame.len(), &wire, |_| true).expect("we send what we can read");
        self.check_sent(from, &parsed);
        let plane = port.plane();
        let [src, dst] = [from, 1 - from].map(|side| match self.own_addresses {
            true => Ip::V6(plane_address(side, plane)),
            false => address(side, matches!(parsed.src, Ip::V4(_))),
        });
        let strange = parsed.bth.dest_qp == Qpn::ENDPOINT && !self.own_addresses;
        assert!(strange || (parsed.src, parsed.dst) == (src, dst), "{} to {} on plane {plane}", parsed.src, parsed.dst);
        let write = matches!(parsed.body, Body::Write { .. });
        if let Some(dst) = parsed.outer_dst {
            // The fabric in one hop: the first micro-SID names the path, the rest the host.
            assert_eq!(usid(&dst, 0), UPLINK | parsed.entropy.0 as u16);
            frame[38..54].copy_from_slice(&usid_shift(&dst));
        }
        let w = self.weather;
        let mut chance = |per_mille: u32| self.rng.below(1_000) < per_mille;
        let way = (from, parsed.entropy);
        let dead_way = self.dead_ways.contains(&way);
        *self.used.entry(way).or_default() += 1;
        if matches!(parsed.body, Body::Sack(_) | Body::Ack(_)) {
            *self.answers.entry((from, parsed.entropy, dead_way)).or_default() += 1;
        }
        let lost =
            dead_way || chance(w.loss) || w.dead || w.black_hole == Some(parsed.entropy) || self.cut.contains(port);
        let (late, twice, corrupt) = (chance(w.reorder), chance(w.duplicate), chance(w.corrupt));
        let (trim, mark) = (write && chance(w.trim), write && chance(w.mark));
        if lost {
            return;
        }
        let v4 = frame[14] >> 4 == 4;
        if mark {
            frame[15] |= if v4 { 0x03 } else { 0x30 };
        }
        if trim && parsed.dscp == wire.dscp.trimmable {
            frame.truncate(parsed.l3_offset + if v4 { 20 } else { 40 } + 8 + 12 + 8);
            if v4 {
                frame[15] = wire.dscp.trimmed << 2 | frame[15] & 3;
            } else {
                frame[14] = 0x60 | wire.dscp.trimmed >> 2;
                frame[15] = (wire.dscp.trimmed << 6) | (frame[15] & 0x3F);
            }
        } else if corrupt {
            let at = 14 + self.rng.below(frame.len() as u32 - 14) as usize;
            frame[at] ^= 1 << self.rng.below(8);
        }
        for copy in 0..=u64::from(twice) {
            let delay = 4_000 + w.delay_ns + copy * 900 + if late { u64::from(self.rng.below(60_000)) } else { 0 };
            self.order += 1;
            let at = self.now.as_nanos() + delay;
            self.wire.insert((at, self.order), (1 - from, port, frame.clone()));
        }
    }

    /// The invariants that a sender can break.
    //= INV-001, INV-003, INV-004, INV-007, SND-002, BTH-008, STACK-003 test
    fn check_sent(&mut self, from: usize, frame: &mrc_wire::Frame) {
        let dest = frame.bth.dest_qp;
        let udp_len = match frame.body {
            Body::Sack(_) | Body::EndpointResponse(_) => 60,
            Body::Nack(_) => 44,
            Body::Ack(_) => 28,
            Body::Probe(_) | Body::EndpointRequest(_) => 40,
            Body::Write { .. } | Body::Trimmed { .. } => frame.udp_len,
        };
        assert_eq!(frame.udp_len, udp_len, "{:?}", frame.body);
        if dest == Qpn::ENDPOINT {
            return;
        }
        let qp = self.sides[1 - from].qps.iter().position(|far| far.qpn() == dest).expect("a QP of the peer");
        let info = self.sides[from].info(qp);
        assert!(info.outstanding <= u32::from(self.mpr) * 128, "{} PSNs outstanding", info.outstanding);
        if info.state == QpState::Error {
            let nak = match &frame.body {
                Body::Ack(aeth) => !matches!(aeth.syndrome, Syndrome::Ack(_)),
                Body::Nack(nack) => nack.reason == NackReason::UnexpEvent,
                _ => false,
            };
            let words = self.last_words.entry((from, qp)).or_default();
            *words += 1;
            assert!(nak && *words == 1, "a QP in ERROR says more than one NAK");
        }
        if matches!(frame.body, Body::Write { .. }) {
            let psn = frame.bth.psn.value();
            let before = self.sent.insert((dest.value(), psn), frame.entropy);
            assert_eq!(frame.bth.rtx, before.is_some(), "PSN {psn}: rtx is wrong");
            self.same_path_again += u64::from(before == Some(frame.entropy));
        }
    }

    /// Runs until `done`, or until virtual `limit_ns`.
    pub(crate) fn run(&mut self, limit_ns: u64, mut done: impl FnMut(&Self) -> bool) -> bool {
        let mut idle_turns = 0;
        for which in 0..2 {
            self.drain(which);
        }
        while !done(self) {
            let timers = self.sides.iter().filter_map(|side| side.engine.next_timeout()).min();
            let frame = self.wire.first_key_value().map(|(&(at, _), _)| Instant::from_nanos(at));
            let due = timers.into_iter().chain(frame).chain(self.repoll.into_iter().flatten()).min();
            let Some(next) = due else { return false };
            idle_turns = if next > self.now { 0 } else { idle_turns + 1 };
            assert!(idle_turns < 100_000, "time stands still at {:?}", self.now);
            if next.as_nanos() > limit_ns {
                self.now = self.now.max(Instant::from_nanos(limit_ns));
                return false;
            }
            self.now = self.now.max(next);
            if frame == Some(next) {
                let (_, (to, port, bytes)) = self.wire.pop_first().unwrap();
                let _ = self.deliver(to, port, &bytes);
                self.drain(to);
            } else {
                for which in 0..2 {
                    if self.repoll[which].is_some_and(|at| at <= self.now) {
                        self.repoll[which] = None;
                    }
                    self.sides[which].engine.handle_timeout(self.now);
                    self.drain(which);
                }
            }
        }
        true
    }

    /// Hands the next frame to its side; the token of its placement, if it draws one.
    pub(crate) fn deliver_next(&mut self) -> Option<PlaceToken> {
        let ((at, _), (to, port, bytes)) = self.wire.pop_first()?;
        self.now = self.now.max(Instant::from_nanos(at));
        self.deliver(to, port, &bytes).ok()?
    }

    /// Hands a frame to one side and moves its bytes; the token of the placement, if there is one.
    //= RSP-003, MODEL-002 test
    pub(crate) fn deliver(&mut self, to: usize, port: PortNum, frame: &[u8]) -> Result<Option<PlaceToken>, Discard> {
        let side = &mut self.sides[to];
        let meta = RxMeta { port, wire_len: frame.len(), icrc: IcrcCheck::Verify };
        let mut token = None;
        if let Received::Place(at) = side.engine.handle_packet(self.now, meta, frame)? {
            token = Some(at.token);
            let parsed = parse_frame(frame, frame.len(), &WireConfig::default(), |_| true).unwrap();
            let id = (parsed.bth.dest_qp.value(), parsed.bth.psn.value());
            assert!(self.placed.insert(id), "PSN {} placed twice", id.1);
            assert_eq!(at.mr, side.mr);
            let offset = at.offset as usize;
            side.memory[offset..offset + at.payload.len()].copy_from_slice(&frame[at.payload]);
        }
        self.assert_shares(to);
        sums::assert_sums(&self.sides[to].engine);
        Ok(token)
    }

    /// A controller counts what its QPs count together.
    //= INV-005, QPCC-002, QPCC-003 test
    pub(crate) fn assert_shares(&self, which: usize) {
        let side = &self.sides[which];
        for profile in 0..self.cc_profiles {
            let of_profile = side.qps.iter().skip(profile).step_by(self.cc_profiles);
            let mut whole = None;
            let mut sum = (0, 0, 0, 0, 0);
            for &qp in of_profile {
                let Some(controller) = side.engine.qpcc_info(qp) else { continue };
                let info = side.engine.qp_info(qp).unwrap();
                sum.0 += info.load.inflight_pkts;
                sum.1 += info.inflight_bytes;
                sum.2 += info.load.waiting_rtx;
                sum.3 += info.load.rtx_backlog_bytes;
                sum.4 += info.load.backlog_bytes;
                whole = Some(controller);
            }
            let Some(QpccInfo { load, inflight_bytes, .. }) = whole else { continue };
            let whole =
                (load.inflight_pkts, inflight_bytes, load.waiting_rtx, load.rtx_backlog_bytes, load.backlog_bytes);
            assert_eq!(sum, whole, "controller of profile {profile}, side {which}");
        }
    }

    /// Whether side 0 has `n` completions.
    pub(crate) fn completed(&self, n: usize) -> bool {
        self.sides[0].completions.len() >= n
    }

    pub(crate) fn discarded(&self, which: usize, why: Discard) -> u64 {
        self.sides[which].engine.stats().discarded(why)
    }

    /// The first `end` bytes that `from` can write arrived at its peer, and nothing else.
    pub(crate) fn assert_arrived(&self, from: usize, end: usize) {
        let (start, half) = (from * self.half, self.half);
        let (mine, theirs) = (&self.sides[from].memory, &self.sides[1 - from].memory);
        assert!(mine[start..start + end] == theirs[start..start + end], "bytes differ");
        assert!(theirs[start + end..start + half].iter().all(|&byte| byte == 0), "bytes past the end");
    }

    pub(crate) fn tx_packets(&self) -> u64 {
        self.sides.iter().flat_map(|side| side.engine.stats().ports).map(|port| port.tx_packets).sum()
    }
}
