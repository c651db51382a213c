//! Two connected engines and a link that a script handles: loss, duplication, reordering, corruption, trimming, marks,
//! ports that come and go, starved queues. Bytes are real. What must always hold is asserted at every step. After the
//! script the network is free of faults, and everything that was posted must end.

use std::collections::{BTreeSet, VecDeque};

use mrc_core::path::{EvEntry, compact_profile};
use mrc_core::{
    Access, Completion, CqHandle, Endpoint, EndpointConfig, IcrcCheck, Instant, Limits, MAX_HEADER_LEN, MAX_PORTS,
    MemRange, Operation, OwnedStorage, Pd, PeerConfig, PlanePath, PortConfig, PortMask, QpHandle, QpInit, QpState,
    Received, Route, RtrAttr, RtsAttr, RxMeta, SendWr, Status, Trimming,
};
use mrc_wire::{Body, Ev, Ip, NackReason, PortNum, Psn, Qpn, Rkey, WireConfig, icrc, parse_frame};

const REGION: MemRange = MemRange { va: 0x10_0000, len: 1 << 15 };
const PLANES: u8 = 2;
const MTU: u16 = 256;
/// Frames that the link holds; a fuller one loses, as switches do.
const LINK: usize = 400;
const FIRST_PSN: u32 = 0xFF_FFE0;
/// Virtual time after which something that was posted should long have ended.
const PATIENCE_NS: u64 = 3_600_000_000_000;
/// Frames and timers of that time: a timer may take 17 s, and its queue pair looks for a lost tail every 43 us all the while.
const MOST_TURNS: u32 = 5_000_000;

/// Byte `at` of the writer's memory, and so of what it writes: everything goes to its own offset.
fn pattern(at: usize) -> u8 {
    (at * 7 + at / 251 + 1) as u8
}

fn address(which: usize) -> Ip {
    let mut ip = [0xFD; 16];
    ip[15] = which as u8;
    Ip::V6(ip)
}

struct Posted {
    wr_id: u64,
    offset: usize,
    len: usize,
    imm: Option<u32>,
    signaled: bool,
}

struct Side<'s> {
    engine: Endpoint<'s>,
    qp: QpHandle,
    cq: CqHandle,
    key: u32,
    memory: Vec<u8>,
    /// Writes without completion, in posting order.
    posted: VecDeque<Posted>,
    /// Receive requests without completion.
    receives: VecDeque<u64>,
    /// Immediates that we sent and the peer has not delivered.
    immediates: VecDeque<u32>,
    /// PSNs placed; none twice.
    placed: BTreeSet<u32>,
    next_id: u64,
    reset: bool,
}

struct Frame {
    to: usize,
    port: PortNum,
    bytes: Vec<u8>,
}

struct Pair<'s> {
    /// Retries never run out.
    stubborn: bool,
    sides: [Side<'s>; 2],
    link: VecDeque<Frame>,
    now: Instant,
}

/// `data` chooses features with its first byte; the rest are operations of two bytes.
pub fn qp_pair(data: &[u8]) {
    let Some((&features, script)) = data.split_first() else { return };
    let limits = Limits {
        qps: 1,
        mpr: 1,
        send_queue: 8,
        recv_queue: 8,
        wimm: 4,
        evs: 16,
        active_evs: 8,
        cqs: 1,
        cq_depth: 4,
        mrs: 1,
        peers: 1,
        ev_profiles: 1,
        profile_evs: 16,
        events: 4,
        ..Limits::default()
    };
    let mut a = OwnedStorage::new(limits).expect("limits");
    let mut b = OwnedStorage::new(limits).expect("limits");
    let mut sides = [side(&mut a, 0), side(&mut b, 1)];
    let qps = [sides[0].qp.qpn(), sides[1].qp.qpn()];
    connect(&mut sides[0], 0, qps[1], features);
    connect(&mut sides[1], 1, qps[0], features);
    let mut pair = Pair { stubborn: features & 16 != 0, sides, link: VecDeque::new(), now: Instant::from_nanos(1_000) };
    for op in script.chunks_exact(2).take(600) {
        pair.step(op[0], op[1]);
        pair.transmit();
        pair.check();
    }
    pair.settle();
}

fn side(storage: &mut OwnedStorage, which: usize) -> Side<'_> {
    let mut cfg = EndpointConfig { sack_gen_threshold: 1_024, ..EndpointConfig::default() };
    cfg.gids[0] = Some(address(which));
    for port in cfg.ports.iter_mut().take(PLANES.into()) {
        *port = Some(PortConfig { mac: [2; 6], sid: None, addr: None });
    }
    let mut engine = Endpoint::new(cfg, storage.lend(), 11 + which as u64).expect("configuration");
    let mr = engine.register_mr(Pd(0), REGION, Access::REMOTE_WRITE).expect("region");
    let key = engine.key(mr).expect("key").0;
    let cq = engine.create_cq().expect("completion queue");
    let qp = engine.create_qp(&QpInit { pd: Pd(0), send_cq: cq, recv_cq: cq }).expect("queue pair");
    let half = REGION.len as usize / 2;
    let memory = (0..2 * half).map(|at| if at / half == which { pattern(at) } else { 0 }).collect();
    let (posted, receives, immediates) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
    Side {
        engine,
        qp,
        cq,
        key,
        memory,
        posted,
        receives,
        immediates,
        placed: BTreeSet::new(),
        next_id: 0,
        reset: false,
    }
}

fn connect(side: &mut Side<'_>, which: usize, far: Qpn, features: u8) {
    let engine = &mut side.engine;
    let mut planes = [None; MAX_PORTS];
    for plane in planes.iter_mut().take(PLANES.into()) {
        *plane = Some(PlanePath { next_hop: [4; 6], outer_src: None });
    }
    let (local, remote) = (address(which), address(1 - which));
    let peer = PeerConfig { local, remote, planes, route: Route::Plain, hop_limit: 64 };
    let peer = engine.add_peer(&peer).expect("peer");
    let mut entries = [EvEntry::new(Ev(0), PortNum::from_plane(0)); 16];
    compact_profile(&mut entries, PLANES, 8, 8).expect("paths");
    let ev_profile = engine.create_ev_profile(&entries).expect("profile");
    engine.modify_to_init(side.qp).expect("init");
    let trimming = features & 1 != 0;
    let rtr = RtrAttr {
        path_mtu: MTU,
        mpr_dest: 1,
        trim_nack: trimming,
        max_wimm_dest: 4,
        dynamic_mpr: features & 2 != 0,
        svc_time: features & 4 != 0,
        ..RtrAttr::software(peer, far, Psn::new(FIRST_PSN), ev_profile)
    };
    engine.modify_to_rtr(Instant::ZERO, side.qp, &rtr).expect("rtr");
    let mut rts = RtsAttr::software(Psn::new(FIRST_PSN));
    rts.mpr = 1;
    rts.max_wimm = 4;
    rts.dynamic_mpr = features & 2 != 0;
    rts.trimming = if trimming { Trimming::On } else { Trimming::Off };
    rts.keepalive_ns = if features & 8 != 0 { 1_000_000 } else { 0 };
    rts.retry.timeout = 8;
    let stubborn = features & 16 != 0;
    rts.retry.exponential = if stubborn { 25 } else { 3 };
    // Who retries for ever may wait 17 s for a timer: probes in between must not use up the turns of `settle`.
    rts.probe_rate_limit_ns = if stubborn { 10_000_000 } else { 50_000 };
    rts.paths.active = 8;
    rts.paths.backup = 8;
    rts.paths.relapse_backoff = features & 32 != 0;
    rts.base_rtt_ns = 10_000;
    rts.target_delay_ns = 10_000;
    engine.modify_to_rts(Instant::ZERO, side.qp, &rts).expect("rts");
}

impl Pair<'_> {
    fn step(&mut self, op: u8, value: u8) {
        let which = usize::from(op >> 7);
        match op & 0x1F {
            0..=3 => self.post(which, value, false),
            4..=5 => self.post(which, value, true),
            6 => self.receive_request(which),
            7..=14 => {
                for _ in 0..=value % 16 {
                    self.deliver(0);
                }
            }
            15 => self.deliver(usize::from(value)),
            16 => {
                self.link.pop_front();
            }
            17 => self.link.truncate(usize::from(value)),
            18 => {
                if let Some(frame) = self.link.get(usize::from(value)) {
                    let copy = Frame { bytes: frame.bytes.clone(), ..*frame };
                    self.link.push_back(copy);
                }
            }
            19 => self.corrupt(value),
            20 => self.mark(value),
            21..=22 => self.trim(value),
            23..=25 => self.wait(1 << (value % 27)),
            26 => {
                let up = value & 2 == 0;
                self.sides[which].engine.set_port(self.now, PortNum::from_plane(value & 1), up);
            }
            27 => {
                let reason = [None, Some(NackReason::NoPktBuffer), Some(NackReason::NoBitmap)];
                self.sides[which].engine.set_refusal(reason[usize::from(value) % reason.len()]);
            }
            28 => {
                let _ = self.sides[which].engine.set_mpr(self.sides[which].qp, value % 3);
            }
            29..=30 => self.poll(which, value.into()),
            _ => self.give_up(which, value),
        }
    }

    fn post(&mut self, from: usize, value: u8, immediate: bool) {
        let half = REGION.len as usize / 2;
        // Small and large, whole packets and not, none.
        let len = [0, 1, 255, 256, 257, 3_000, 9_000, half][usize::from(value) % 8];
        let offset = from * half + usize::from(value) * 5 % (half - len + 1);
        let (rkey, lkey) = (Rkey(self.sides[1 - from].key), self.sides[from].key);
        let side = &mut self.sides[from];
        let id = side.next_id;
        let at = REGION.va + offset as u64;
        let imm = immediate.then_some(id as u32 ^ 0x5A5A_5A5A);
        let (len32, signaled) = (len as u32, value & 8 == 0);
        let wr = SendWr {
            wr_id: id,
            lkey,
            local_va: at,
            len: len32,
            remote_va: at,
            rkey,
            signaled,
            imm,
            solicited: immediate && value & 16 != 0,
        };
        if side.engine.post_send(self.now, side.qp, &wr).is_ok() {
            side.next_id += 1;
            side.immediates.extend(imm);
            side.posted.push_back(Posted { wr_id: id, offset, len, imm, signaled });
        }
    }

    fn receive_request(&mut self, which: usize) {
        let side = &mut self.sides[which];
        let id = side.next_id;
        if side.engine.post_recv(side.qp, id).is_ok() {
            side.next_id += 1;
            side.receives.push_back(id);
        }
    }

    /// Hands over the frame at `nth`, and looks at what happens.
    fn deliver(&mut self, nth: usize) {
        let nth = if self.link.is_empty() { return } else { nth % self.link.len() };
        let Some(Frame { to, port, bytes }) = self.link.remove(nth) else { return };
        // Light takes its time: round trips of nothing would make every timer a hot loop.
        self.now = self.now.after(1_000);
        let half = REGION.len as usize / 2;
        let side = &mut self.sides[to];
        let meta = RxMeta { port, wire_len: bytes.len(), icrc: IcrcCheck::Verify };
        if let Ok(Received::Place(place)) = side.engine.handle_packet(self.now, meta, &bytes) {
            let frame = parse_frame(&bytes, bytes.len(), &WireConfig::default(), |_| true).expect("it was accepted");
            assert!(side.placed.insert(frame.bth.psn.value()), "PSN {} placed twice", frame.bth.psn.value());
            let start = place.offset as usize;
            let range = start..start + place.payload.len();
            assert!(range.start / half == 1 - to && range.end <= (2 - to) * half, "placed outside the peer's half");
            for (at, byte) in range.zip(&bytes[place.payload]) {
                assert_eq!(*byte, pattern(at), "a wrong byte passed the checks");
                side.memory[at] = *byte;
            }
        }
    }

    fn corrupt(&mut self, value: u8) {
        if let Some(frame) = self.link.front_mut() {
            let at = usize::from(value) * 7 % frame.bytes.len();
            frame.bytes[at] ^= 1 << (value % 8);
        }
    }

    fn mark(&mut self, value: u8) {
        let nth = usize::from(value) % self.link.len().max(1);
        if let Some(frame) = self.link.get_mut(nth) {
            frame.bytes[15] |= 0x30;
        }
    }

    /// As a switch trims: payload gone, code point changed.
    fn trim(&mut self, value: u8) {
        let nth = usize::from(value) % self.link.len().max(1);
        let Some(frame) = self.link.get_mut(nth) else { return };
        let plan = WireConfig::default().dscp;
        let bytes = &mut frame.bytes;
        let class = bytes[14] << 4 | bytes[15] >> 4;
        let trimmable = [plan.trimmable, plan.trimmable_retx].contains(&(class >> 2));
        let least = 14 + 40 + 8 + 20;
        if trimmable && bytes.len() > least {
            bytes.truncate(least);
            let dscp = if value & 1 == 0 { plan.trimmed } else { plan.trimmed_lasthop };
            let class = dscp << 2 | class & 3;
            bytes[14] = 0x60 | class >> 4;
            bytes[15] = class << 4 | bytes[15] & 0x0F;
        }
    }

    fn wait(&mut self, ns: u64) {
        self.now = self.now.after(ns);
        for side in &mut self.sides {
            side.engine.handle_timeout(self.now);
        }
    }

    fn give_up(&mut self, which: usize, value: u8) {
        // Rarely: both are the end of the story.
        let side = &mut self.sides[which];
        match value {
            0..=3 => {
                let _ = side.engine.modify_to_error(self.now, side.qp);
            }
            4..=5 => {
                side.engine.modify_to_reset(side.qp).expect("from any state");
                side.posted.clear();
                side.receives.clear();
                side.reset = true;
            }
            _ => {}
        }
    }

    /// Everything both want to send goes onto the link.
    fn transmit(&mut self) {
        let mut headers = [0u8; MAX_HEADER_LEN];
        for which in 0..2 {
            let mut sent = 0;
            while let Some(tx) = self.sides[which].engine.poll_transmit(self.now, PortMask::ALL, &mut headers) {
                sent += 1;
                assert!(sent < 2_000, "side {which} talks without end");
                let side = &mut self.sides[which];
                assert!(side.engine.ports_up().contains(tx.port), "a port that is down");
                let mut bytes = headers[..tx.header_len].to_vec();
                if let Some(payload) = tx.payload {
                    let at = payload.offset as usize;
                    bytes.extend(&side.memory[at..at + payload.len as usize]);
                }
                bytes.resize(bytes.len() + usize::from(tx.pad), 0);
                bytes.extend(icrc::compute(&bytes[tx.l3_offset..]).expect("a packet"));
                assert_eq!(bytes.len(), tx.frame_len());
                let frame = parse_frame(&bytes, bytes.len(), &WireConfig::default(), |_| true).expect("readable");
                let write = matches!(frame.body, Body::Write { .. });
                let info = side.engine.qp_info(side.qp).expect("the QP lives");
                assert!(!write || info.state == QpState::Rts, "data from a QP in {:?}", info.state);
                if self.link.len() < LINK {
                    self.link.push_back(Frame { to: 1 - which, port: tx.port, bytes });
                }
            }
        }
    }

    /// Takes up to `most` completions.
    fn poll(&mut self, which: usize, most: usize) {
        for _ in 0..most {
            let side = &mut self.sides[which];
            let Some(done) = side.engine.poll_completion(side.cq) else { return };
            match done.operation {
                Operation::Receive => self.received(which, &done),
                _ => self.sent(which, &done),
            }
        }
        while self.sides[which].engine.poll_event().is_some() {}
    }

    /// A write ended: in order, once, and if well then with every byte where it belongs.
    fn sent(&mut self, which: usize, done: &Completion) {
        let [a, b] = &mut self.sides;
        let (side, far) = if which == 0 { (a, b) } else { (b, a) };
        // A reset forgets requests, but not the completions that waited in the queue.
        if side.reset && side.posted.iter().all(|posted| posted.wr_id != done.wr_id) {
            return;
        }
        while let Some(posted) = side.posted.pop_front() {
            if done.status == Status::Success {
                let range = posted.offset..posted.offset + posted.len;
                assert!(
                    range.clone().all(|at| far.memory[at] == pattern(at)),
                    "wr {}: bytes are missing",
                    posted.wr_id
                );
            }
            if posted.wr_id == done.wr_id {
                let imm = if posted.imm.is_some() { Operation::WriteImm } else { Operation::Write };
                assert_eq!((done.operation, done.byte_len as usize), (imm, posted.len));
                assert!(posted.signaled || done.status != Status::Success, "nobody asked for this completion");
                return;
            }
            // One without a completion of its own ended well before the next.
            assert!(!posted.signaled, "wr {} ends before wr {}", done.wr_id, posted.wr_id);
        }
        panic!("wr {} was never posted, or ended before", done.wr_id);
    }

    /// A receive request ended: in order, with the oldest immediate on its way.
    fn received(&mut self, which: usize, done: &Completion) {
        let side = &mut self.sides[which];
        let request = side.receives.pop_front();
        assert!(request == Some(done.wr_id) || side.reset, "receive request {} out of order", done.wr_id);
        let reset = self.sides.iter().any(|side| side.reset);
        if done.status == Status::Success && !reset {
            let imm = self.sides[1 - which].immediates.pop_front();
            assert!(done.imm.is_some() && done.imm == imm, "immediate {:?} out of order", done.imm);
        }
    }

    fn check(&mut self) {
        for side in &mut self.sides {
            let info = side.engine.qp_info(side.qp).expect("the QP lives");
            assert!(info.outstanding <= 128, "more in flight than the window");
            assert!(side.reset || info.state != QpState::Reset, "nobody asked for a reset");
            assert!(info.state != QpState::Reset || (info.queued, info.receives) == (0, 0));
            assert_eq!(info.state == QpState::Error, info.cause.is_some());
        }
    }

    /// Good weather: everything posted ends, and then it is quiet.
    fn settle(&mut self) {
        for which in 0..2 {
            let side = &mut self.sides[which];
            side.engine.set_refusal(None);
            for plane in 0..PLANES {
                side.engine.set_port(self.now, PortNum::from_plane(plane), true);
            }
            let _ = side.engine.set_mpr(side.qp, 1);
        }
        let (begin, end) = (self.now, self.now.after(PATIENCE_NS));
        let mut turns = 0;
        while turns < MOST_TURNS {
            turns += 1;
            for which in 0..2 {
                self.receive_request(which);
                self.poll(which, 100);
            }
            self.transmit();
            if !self.link.is_empty() {
                self.deliver(0);
                continue;
            }
            let open = (0..2).any(|which| self.must_end(which) && self.open(which).next().is_some());
            let deadline = self.sides.iter().filter_map(|side| side.engine.next_timeout()).min();
            let Some(next) = deadline.filter(|&next| open && next < end) else { break };
            assert!(next > self.now || !self.link.is_empty() || self.idle_turn(), "a deadline that never moves");
            self.now = self.now.max(next);
            self.wait(0);
        }
        for which in 0..2 {
            self.poll(which, 100);
            let side = &self.sides[which];
            let left: Vec<u64> = self.open(which).collect();
            let state = side.engine.qp_info(side.qp).map(|qp| (qp.state, qp.cause));
            let passed = (self.now.as_nanos() - begin.as_nanos()) / 1_000_000;
            let why = format_args!("{left:?} did not end in {turns} turns and {passed} ms");
            assert!(left.is_empty() || !self.must_end(which), "side {which} in {state:?}: {why}");
        }
        self.check();
    }

    /// Writes that still owe a completion.
    fn open(&self, which: usize) -> impl Iterator<Item = u64> {
        self.sides[which].posted.iter().filter(|wr| wr.signaled).map(|wr| wr.wr_id)
    }

    /// With a peer that is gone, only a budget of retries ends what is under way.
    fn must_end(&self, which: usize) -> bool {
        let state = |side: &Side<'_>| side.engine.qp_info(side.qp).map(|qp| qp.state);
        let [side, far] = [which, 1 - which].map(|which| state(&self.sides[which]));
        !self.stubborn || far == Some(QpState::Rts) || side != Some(QpState::Rts)
    }

    /// A deadline may lie in the past once; serving it moves it.
    fn idle_turn(&mut self) -> bool {
        self.wait(0);
        self.transmit();
        let deadline = self.sides.iter().filter_map(|side| side.engine.next_timeout()).min();
        deadline.is_none_or(|next| next > self.now) || !self.link.is_empty()
    }
}
