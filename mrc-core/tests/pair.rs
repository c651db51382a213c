//! Two endpoints in virtual time over a pipe that loses, reorders, duplicates, corrupts and trims. Real frames, real bytes,
//! real ICRC. Every run prints its seed; the same seed gives the same run, which the tests check.

use std::collections::{BTreeMap, BTreeSet};

use mrc_core::path::{EvEntry, LossEvAction, compact_profile};
use mrc_core::{
    Access, Completion, CqHandle, Discard, Endpoint, EndpointConfig, ErrorCause, Event, IcrcCheck, Instant, Limits,
    MAX_HEADER_LEN, MAX_PORTS, MemRange, MrHandle, OwnedStorage, Pd, PeerConfig, PlanePath, PortConfig, PortMask,
    PostError, QpHandle, QpInit, QpState, Received, RetryConfig, Rng, Route, RtrAttr, RtsAttr, RxMeta, SendWr, Status,
    Trimming,
};
use mrc_wire::{Body, Ev, Ip, PortNum, Psn, Rkey, WireConfig, icrc, parse_frame};

const VA: u64 = 0x7000_0000;
const BYTES: usize = 1 << 18;
const PLANES: u8 = 2;

/// What the network does to frames; probabilities in parts per thousand.
#[derive(Clone, Copy, Default)]
struct Weather {
    loss: u32,
    reorder: u32,
    duplicate: u32,
    corrupt: u32,
    trim: u32,
    mark: u32,
    /// Frames with this EV never arrive.
    black_hole: Option<Ev>,
    /// Nothing arrives at all.
    dead: bool,
}

struct Side<'s> {
    engine: Endpoint<'s>,
    qps: Vec<QpHandle>,
    cq: CqHandle,
    mr: MrHandle,
    key: u32,
    memory: Vec<u8>,
    completions: Vec<Completion>,
    events: Vec<Event>,
}

struct Net<'s> {
    sides: [Side<'s>; 2],
    now: Instant,
    /// Frames under way: arrival, order, receiver, port, bytes.
    wire: BTreeMap<(u64, u64), (usize, PortNum, Vec<u8>)>,
    order: u64,
    rng: Rng,
    weather: Weather,
    digest: u64,
    /// First transmissions seen, for the rule that rtx = 0 never repeats a PSN.
    fresh: BTreeSet<(u32, u32)>,
    down: PortMask,
}

fn addresses(side: usize) -> [u8; 16] {
    let mut octets = [0xFD; 16];
    octets[15] = side as u8;
    octets
}

fn limits() -> Limits {
    Limits { qps: 4, send_queue: 16, evs: 16, active_evs: 16, cq_depth: 8, ..Limits::default() }
}

struct Setup {
    qps: usize,
    psn: u32,
    retry: RetryConfig,
    trimming: Trimming,
    keepalive_ns: [u64; 2],
    access: Access,
    mtu: u16,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            qps: 1,
            psn: 0xFF_FFF0,
            retry: RetryConfig { timeout: 8, linear: 7, exponential: 5 },
            trimming: Trimming::Off,
            keepalive_ns: [0, 0],
            access: Access::REMOTE_WRITE,
            mtu: 1024,
        }
    }
}

fn side<'s>(storage: &'s mut OwnedStorage, which: usize, seed: u64, setup: &Setup) -> Side<'s> {
    let mut cfg = EndpointConfig::default();
    cfg.gids[0] = Some(Ip::V6(addresses(which)));
    for port in cfg.ports.iter_mut().take(PLANES.into()) {
        *port = Some(PortConfig { mac: [2; 6], sid: None, addr: None });
    }
    let mut engine = Endpoint::new(cfg, storage.lend(), seed ^ which as u64).unwrap();
    let cq = engine.create_cq().unwrap();
    let range = MemRange { va: VA, len: BYTES as u64 };
    let mr = engine.register_mr(Pd(0), range, setup.access).unwrap();
    let key = engine.key(mr).unwrap().0;
    let init = QpInit { pd: Pd(0), send_cq: cq, recv_cq: cq };
    let qps = (0..setup.qps).map(|_| engine.create_qp(&init).unwrap()).collect();
    let memory = if which == 0 { (0..BYTES).map(|n| (n * 7 + n / 251) as u8).collect() } else { vec![0; BYTES] };
    Side { engine, qps, cq, mr, key, memory, completions: vec![], events: vec![] }
}

fn connect(side: &mut Side<'_>, which: usize, peers: &[QpHandle], setup: &Setup) {
    let engine = &mut side.engine;
    let mut planes = [None; MAX_PORTS];
    for plane in planes.iter_mut().take(PLANES.into()) {
        *plane = Some(PlanePath { next_hop: [4; 6], outer_src: None });
    }
    let (local, remote) = (Ip::V6(addresses(which)), Ip::V6(addresses(1 - which)));
    let peer = engine.add_peer(&PeerConfig { local, remote, planes, route: Route::Plain, hop_limit: 64 }).unwrap();
    let mut entries = [EvEntry::new(Ev(0), PortNum::from_plane(0)); 16];
    compact_profile(&mut entries, PLANES, 8, 8).unwrap();
    let ev_profile = engine.create_ev_profile(&entries).unwrap();
    for (&qp, far) in side.qps.iter().zip(peers) {
        engine.modify_to_init(qp).unwrap();
        let rtr = RtrAttr {
            peer,
            dest_qp: far.qpn(),
            rq_psn: Psn::new(setup.psn),
            path_mtu: setup.mtu,
            mpr_dest: 8,
            ev_profile,
            trim_nack: setup.trimming == Trimming::On,
        };
        engine.modify_to_rtr(Instant::ZERO, qp, &rtr).unwrap();
        let mut rts = RtsAttr::software(Psn::new(setup.psn));
        rts.retry = setup.retry;
        rts.trimming = setup.trimming;
        rts.keepalive_ns = setup.keepalive_ns[which];
        rts.base_rtt_ns = 10_000;
        rts.target_delay_ns = 10_000;
        rts.paths.loss_ev_action = LossEvAction::ByTrimming;
        engine.modify_to_rts(Instant::ZERO, qp, &rts).unwrap();
    }
}

fn net<R>(seed: u64, setup: &Setup, weather: Weather, f: impl FnOnce(&mut Net<'_>) -> R) -> R {
    println!("seed {seed}");
    let (mut a, mut b) = (OwnedStorage::new(limits()).unwrap(), OwnedStorage::new(limits()).unwrap());
    let mut sides = [side(&mut a, 0, seed, setup), side(&mut b, 1, seed, setup)];
    let (of_a, of_b) = (sides[0].qps.clone(), sides[1].qps.clone());
    connect(&mut sides[0], 0, &of_b, setup);
    connect(&mut sides[1], 1, &of_a, setup);
    f(&mut Net {
        sides,
        now: Instant::ZERO,
        wire: BTreeMap::new(),
        order: 0,
        rng: Rng::new(seed),
        weather,
        digest: 0,
        fresh: BTreeSet::new(),
        down: PortMask::NONE,
    })
}

impl Net<'_> {
    fn post(&mut self, qp: usize, wr_id: u64, offset: usize, len: usize) -> Result<(), PostError> {
        let (to, key) = (VA + offset as u64, self.sides[1].key);
        self.post_raw(qp, wr_id, offset, len, to, key)
    }

    fn post_raw(
        &mut self,
        qp: usize,
        wr_id: u64,
        offset: usize,
        len: usize,
        to: u64,
        key: u32,
    ) -> Result<(), PostError> {
        let side = &mut self.sides[0];
        let wr = SendWr {
            wr_id,
            lkey: side.key,
            local_va: VA + offset as u64,
            len: len as u32,
            remote_va: to,
            rkey: Rkey(key),
            signaled: true,
        };
        let posted = side.engine.post_send(self.now, side.qps[qp], &wr);
        self.drain(0);
        posted
    }

    /// Everything one side wants to do now.
    fn drain(&mut self, which: usize) {
        let mut headers = [0u8; MAX_HEADER_LEN];
        loop {
            let side = &mut self.sides[which];
            let Some(tx) = side.engine.poll_transmit(self.now, PortMask::ALL, &mut headers) else { break };
            let mut frame = headers[..tx.header_len].to_vec();
            if let Some(payload) = tx.payload {
                assert_eq!(payload.mr, side.mr);
                let at = payload.offset as usize;
                frame.extend(&side.memory[at..at + payload.len as usize]);
            }
            frame.resize(frame.len() + usize::from(tx.pad), 0);
            frame.extend(icrc::compute(&frame[tx.l3_offset..]).unwrap());
            assert_eq!(frame.len(), tx.frame_len());
            self.send(which, tx.port, frame);
        }
        let side = &mut self.sides[which];
        while let Some(completion) = side.engine.poll_completion(side.cq) {
            side.completions.push(completion);
        }
        while let Some(event) = side.engine.poll_event() {
            side.events.push(event);
        }
    }

    fn send(&mut self, from: usize, port: PortNum, mut frame: Vec<u8>) {
        for &byte in &frame {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
        }
        let parsed =
            parse_frame(&frame, frame.len(), &WireConfig::default(), |_| true).expect("we send what we can read");
        let write = matches!(parsed.body, Body::Write { .. });
        if write && !parsed.bth.rtx {
            let first = self.fresh.insert((parsed.bth.dest_qp.value(), parsed.bth.psn.value()));
            assert!(first, "PSN {} repeated without rtx", parsed.bth.psn.value());
        }
        let w = self.weather;
        let mut chance = |per_mille: u32| self.rng.below(1_000) < per_mille;
        let lost = chance(w.loss) || w.dead || w.black_hole == Some(parsed.entropy) || self.down.contains(port);
        let (late, twice, corrupt) = (chance(w.reorder), chance(w.duplicate), chance(w.corrupt));
        let (trim, mark) = (write && chance(w.trim), write && chance(w.mark));
        if lost {
            return;
        }
        if mark {
            frame[15] |= 0x30;
        }
        if trim && parsed.dscp == WireConfig::default().dscp.trimmable {
            frame.truncate(parsed.l3_offset + 40 + 8 + 12 + 8);
            let dscp = WireConfig::default().dscp.trimmed;
            frame[14] = 0x60 | dscp >> 2;
            frame[15] = (dscp << 6) | (frame[15] & 0x3F);
        } else if corrupt {
            let at = 62 + self.rng.below(frame.len() as u32 - 62) as usize;
            frame[at] ^= 1 << self.rng.below(8);
        }
        for copy in 0..=u64::from(twice) {
            let delay = 4_000 + copy * 900 + if late { u64::from(self.rng.below(60_000)) } else { 0 };
            self.order += 1;
            let at = self.now.as_nanos() + delay;
            self.wire.insert((at, self.order), (1 - from, port, frame.clone()));
        }
    }

    /// Runs until `done`, or until virtual `limit_ns`.
    fn run(&mut self, limit_ns: u64, mut done: impl FnMut(&Self) -> bool) -> bool {
        let mut idle_turns = 0;
        for which in 0..2 {
            self.drain(which);
        }
        while !done(self) {
            let timers = self.sides.iter().filter_map(|side| side.engine.next_timeout()).min();
            let frame = self.wire.first_key_value().map(|(&(at, _), _)| Instant::from_nanos(at));
            let Some(next) = timers.into_iter().chain(frame).min() else { return false };
            idle_turns = if next > self.now { 0 } else { idle_turns + 1 };
            assert!(idle_turns < 5_000, "time stands still at {:?}", self.now);
            self.now = self.now.max(next);
            if self.now.as_nanos() > limit_ns {
                return false;
            }
            if frame == Some(next) {
                let (_, (to, port, bytes)) = self.wire.pop_first().unwrap();
                self.deliver(to, port, &bytes);
            } else {
                for which in 0..2 {
                    self.sides[which].engine.handle_timeout(self.now);
                    self.drain(which);
                }
            }
        }
        true
    }

    fn deliver(&mut self, to: usize, port: PortNum, frame: &[u8]) {
        let side = &mut self.sides[to];
        let meta = RxMeta { port, wire_len: frame.len(), icrc: IcrcCheck::Verify };
        if let Ok(Received::Place(at)) = side.engine.handle_packet(self.now, meta, frame) {
            let offset = at.offset as usize;
            side.memory[offset..offset + at.payload.len()].copy_from_slice(&frame[at.payload]);
        }
        self.drain(to);
    }

    fn completed(&self, n: usize) -> bool {
        self.sides[0].completions.len() >= n
    }

    fn stat(&self, which: usize, why: Discard) -> u64 {
        self.sides[which].engine.stats().discarded(why)
    }

    fn assert_arrived(&self, end: usize) {
        assert!(self.sides[0].memory[..end] == self.sides[1].memory[..end], "bytes differ");
        assert!(self.sides[1].memory[end..].iter().all(|&byte| byte == 0), "bytes past the end");
    }
}

/// Writes messages of awkward lengths, one behind the other in memory, over `qps` QPs; returns a digest of all frames.
fn transfer(seed: u64, weather: Weather, setup: &Setup) -> u64 {
    net(seed, setup, weather, |net| {
        let lengths = [0usize, 1, 3, 1023, 1024, 1025, 4096, 9_999, 40_000, 1, 77_777, 0, 5];
        let (mut offset, mut posted) = (0, 0);
        for (id, len) in lengths.into_iter().enumerate() {
            while net.post(id % setup.qps, id as u64, offset, len) == Err(PostError::Full) {
                assert!(net.run(u64::MAX, |net| net.completed(posted)));
            }
            posted += 1;
            offset += len;
        }
        assert!(net.run(20_000_000_000, |net| net.completed(posted)), "{:?}", net.sides[0].engine.stats());
        net.assert_arrived(offset);
        for qp in 0..setup.qps {
            let qpn = net.sides[0].qps[qp].qpn();
            let ids: Vec<u64> = net.sides[0].completions.iter().filter(|c| c.qp == qpn).map(|c| c.wr_id).collect();
            assert!(ids.is_sorted(), "completions out of order: {ids:?}");
        }
        assert!(net.sides[0].completions.iter().all(|c| c.status == Status::Success));
        net.digest
    })
}

//= SEG-001, SEG-002, SEG-003, LEN-001, LEN-002, LEN-003, LEN-005, LEN-006, RETH-001, RETH-002, TACK-002 test
//= ACK-001, REQ-001, RSP-001 test
#[test]
fn every_length_arrives_on_every_qp() {
    for (qps, psn) in [(1, 0xFF_FFF0), (4, 0), (3, 0x7F_FFFF)] {
        transfer(1, Weather::default(), &Setup { qps, psn, ..Setup::default() });
    }
}

//= SND-001, SND-002, SRX-002, SRX-004, SRX-006, LOSS-002, TIMER-004, RSP-002, RSP-003, RSP-010, BTH-008 test
//= VAL-010, MODEL-002, ICRC-009 test
#[test]
fn bad_weather_costs_time_not_bytes() {
    let storm = Weather { loss: 20, reorder: 100, duplicate: 30, corrupt: 10, mark: 50, ..Weather::default() };
    for seed in 0..60 {
        let setup = Setup { qps: 1 + seed as usize % 3, ..Setup::default() };
        let first = transfer(seed, storm, &setup);
        assert_eq!(first, transfer(seed, storm, &setup), "seed {seed} does not replay");
    }
    for (seed, weather) in [
        Weather { loss: 10, ..Weather::default() },
        Weather { loss: 50, ..Weather::default() },
        Weather { reorder: 500, ..Weather::default() },
        Weather { duplicate: 500, ..Weather::default() },
        Weather { corrupt: 50, ..Weather::default() },
    ]
    .into_iter()
    .enumerate()
    {
        transfer(100 + seed as u64, weather, &Setup::default());
    }
}

//= NACK-001, DSCP-003 test
#[test]
fn trimmed_packets_come_back_by_nack() {
    let setup = Setup { trimming: Trimming::On, ..Setup::default() };
    let weather = Weather { trim: 100, ..Weather::default() };
    for seed in 0..10 {
        transfer(seed, weather, &setup);
    }
    net(1, &setup, weather, |net| {
        net.post(0, 1, 0, 100_000).unwrap();
        assert!(net.run(1_000_000_000, |net| net.completed(1)));
        let (a, b) = (net.sides[0].engine.stats(), net.sides[1].engine.stats());
        assert!(a.lost_nack > 0 && a.lost_nack == a.rx_nack && b.tx_nack == a.rx_nack, "{a:?}");
        assert!(a.ev_skipped > 0 && a.lost_timeout == 0);
    });
}

//= SND-004, TIMER-004, PROBE-001, SACK-005 test
#[test]
fn a_black_hole_is_found_and_forgiven() {
    let weather = Weather { black_hole: Some(Ev(0x103)), ..Weather::default() };
    net(3, &Setup::default(), weather, |net| {
        let bad = |net: &Net<'_>| net.sides[0].engine.qp_info(net.sides[0].qps[0]).unwrap().evs.assumed_bad;
        let mut messages = 0;
        while bad(net) == 0 && messages < 200 {
            messages += 1;
            net.post(0, messages, 0, 60_000).unwrap();
            assert!(net.run(u64::MAX, |net| net.completed(messages as usize)));
        }
        assert_eq!(bad(net), 1);
        let lost = net.sides[0].engine.stats().retransmitted;
        net.post(0, 0, 0, 60_000).unwrap();
        assert!(net.run(u64::MAX, |net| net.completed(messages as usize + 1)));
        assert_eq!(net.sides[0].engine.stats().retransmitted, lost, "the dead path was used again");
        net.weather.black_hole = None;
        let until = net.now.as_nanos() + 2_000_000_000;
        assert!(net.run(until, |net| bad(net) == 0), "the healed path stays retired");
        assert!(net.sides[0].engine.stats().ev_restored >= 1);
    });
}

#[test]
fn a_plane_may_leave_and_return() {
    net(4, &Setup::default(), Weather::default(), |net| {
        let port = PortNum::from_plane(1);
        net.post(0, 1, 0, 200_000).unwrap();
        net.run(30_000, |_| false);
        net.down = PortMask::NONE.with(port);
        for side in 0..2 {
            net.sides[side].engine.set_port(net.now, port, false);
        }
        assert!(net.run(u64::MAX, |net| net.completed(1)));
        net.assert_arrived(200_000);
        let used = net.sides[0].engine.stats().ports[1].tx_packets;
        net.post(0, 2, 0, 100_000).unwrap();
        assert!(net.run(u64::MAX, |net| net.completed(2)));
        assert_eq!(net.sides[0].engine.stats().ports[1].tx_packets, used);
        net.down = PortMask::NONE;
        for side in 0..2 {
            net.sides[side].engine.set_port(net.now, port, true);
        }
        net.post(0, 3, 0, 100_000).unwrap();
        assert!(net.run(u64::MAX, |net| net.completed(3)));
        assert!(net.sides[0].engine.stats().ports[1].tx_packets > used + 20);
    });
}

//= RETRY-003, TIMER-002, TACK-005 test
#[test]
fn silence_ends_in_an_error_that_explains_itself() {
    net(5, &Setup { keepalive_ns: [0, 5_000_000], ..Setup::default() }, Weather::default(), |net| {
        net.post(0, 1, 0, 5_000).unwrap();
        assert!(net.run(u64::MAX, |net| net.completed(1)));
        net.weather.dead = true;
        let start = net.now;
        net.post(0, 2, 0, 5_000).unwrap();
        net.post(0, 3, 0, 5_000).unwrap();
        assert!(net.run(u64::MAX, |net| net.completed(3)));
        let budget = Setup::default().retry.budget_ns().unwrap();
        assert!(net.now.since(start) < budget * 3 / 2, "{} of {budget}", net.now.since(start));
        let [_, failed, flushed] = net.sides[0].completions[..] else { panic!() };
        assert_eq!((failed.wr_id, failed.status), (2, Status::RetryExceeded));
        assert!(failed.retries > 12 && failed.last_path.is_some() && failed.since_ack_ns > budget / 2, "{failed:?}");
        assert_eq!((flushed.wr_id, flushed.status), (3, Status::Flushed));
        // The side that only receives finds out by itself.
        let (qp, silent) = (net.sides[1].qps[0].qpn(), ErrorCause::PeerSilent);
        let until = net.now.as_nanos() + 3 * budget;
        assert!(net.run(until, |net| net.sides[1].events.contains(&Event::QpError { qp, cause: silent })));
    });
}

//= VAL-017, VAL-018, AETH-005, RETH-003 test
#[test]
fn memory_that_is_not_offered_is_not_written() {
    let cases: [(&str, Access, u64, u32); 4] = [
        ("key", Access::REMOTE_WRITE, 0, 1 << 31),
        ("end", Access::REMOTE_WRITE, BYTES as u64 - 10, 0),
        ("start", Access::REMOTE_WRITE, u64::MAX, 0),
        ("rights", Access::LOCAL, 0, 0),
    ];
    for (what, access, offset, key_bit) in cases {
        net(6, &Setup { access, ..Setup::default() }, Weather::default(), |net| {
            let (to, key) = (VA.wrapping_add(offset), net.sides[1].key ^ key_bit);
            net.post_raw(0, 1, 0, 5_000, to, key).unwrap();
            assert!(net.run(u64::MAX, |net| net.completed(1)), "{what}");
            assert_eq!(net.sides[0].completions[0].status, Status::RemoteAccess, "{what}");
            assert!(net.sides[1].memory.iter().all(|&byte| byte == 0), "{what}");
            for (which, cause) in [(0, ErrorCause::RemoteAccess), (1, ErrorCause::RequestAccess)] {
                let info = net.sides[which].engine.qp_info(net.sides[which].qps[0]).unwrap();
                assert_eq!((info.state, info.cause), (QpState::Error, Some(cause)), "{what}");
            }
        });
    }
}

#[test]
fn a_region_that_disappears_fails_its_requests() {
    net(7, &Setup::default(), Weather { dead: true, ..Weather::default() }, |net| {
        net.post(0, 1, 0, 100_000).unwrap();
        let mr = net.sides[0].mr;
        net.sides[0].engine.deregister_mr(mr).unwrap();
        assert!(net.run(u64::MAX, |net| net.completed(1)));
        assert_eq!(net.sides[0].completions[0].status, Status::LocalProtection);
    });
}

//= VAL-010, VAL-011, VAL-013, IP6-007 test
#[test]
fn strangers_are_counted_by_reason() {
    net(8, &Setup::default(), Weather::default(), |net| {
        net.post(0, 1, 0, 100).unwrap();
        let (_, (to, port, good)) = net.wire.pop_first().unwrap();
        let patched = |at: usize, value: u8| {
            let mut frame = good.clone();
            frame[at] = value;
            let end = frame.len() - 4;
            let crc = icrc::compute(&frame[14..end]).unwrap();
            frame[end..].copy_from_slice(&crc);
            frame
        };
        let cases = [
            (patched(37, 9), Discard::Peer),   // source address
            (patched(53, 9), Discard::L3Dst),  // destination address
            (patched(57, 0), Discard::UdpBad), // UDP port
            (patched(62, 0x0A), Discard::Opcode),
            (patched(63, 0x01), Discard::Tver),
            (patched(65, 0x01), Discard::Pkey),
            (patched(67, 0xEE), Discard::Qpn),
            (good[..good.len() - 30].to_vec(), Discard::L3Len),
            (good[..20].to_vec(), Discard::L3Bad),
            (
                {
                    let mut bad = good.clone();
                    *bad.last_mut().unwrap() ^= 1;
                    bad
                },
                Discard::Icrc,
            ),
        ];
        for (frame, why) in cases {
            let before = net.stat(1, why);
            net.deliver(to, port, &frame);
            assert_eq!(net.stat(1, why), before + 1, "{why}");
        }
        assert!(net.sides[1].memory.iter().all(|&byte| byte == 0));
        net.deliver(to, port, &good);
        assert!(net.run(u64::MAX, |net| net.completed(1)));
    });
}

#[test]
fn full_queues_hold_back_and_lose_nothing() {
    net(9, &Setup { qps: 2, ..Setup::default() }, Weather::default(), |net| {
        for id in 0..16 {
            net.post(0, id, 0, 10).unwrap();
        }
        // Nothing completed yet: the send queue is full, and stays usable.
        let refused = net.post(0, 99, 0, 10);
        assert_eq!(refused, Err(PostError::Full));
        // Sixteen completions, a completion queue of eight: the rest waits in the QP until it is polled.
        let cq = net.sides[0].cq;
        while let Some((_, (to, port, frame))) = net.wire.pop_first() {
            let meta = RxMeta { port, wire_len: frame.len(), icrc: IcrcCheck::Verify };
            let _ = net.sides[to].engine.handle_packet(net.now, meta, &frame);
            if to == 1 {
                net.drain(1);
            }
        }
        let mut ids = Vec::new();
        while let Some(completion) = net.sides[0].engine.poll_completion(cq) {
            ids.push(completion.wr_id);
        }
        assert_eq!(ids, (0..16).collect::<Vec<_>>());
    });
}

#[test]
fn an_idle_connection_is_quiet() {
    net(10, &Setup { qps: 4, ..Setup::default() }, Weather::default(), |net| {
        net.post(0, 1, 0, 50_000).unwrap();
        assert!(net.run(u64::MAX, |net| net.completed(1)));
        let sent =
            |net: &Net<'_>| net.sides.iter().flat_map(|s| s.engine.stats().ports).map(|p| p.tx_packets).sum::<u64>();
        net.run(net.now.as_nanos() + 50_000_000, |_| false);
        let before = sent(net);
        net.run(net.now.as_nanos() + 10_000_000_000, |_| false);
        assert_eq!(sent(net), before);
    });
}
