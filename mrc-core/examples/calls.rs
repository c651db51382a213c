//! One call of the engine in its worst case, for `benches/calls.sh`, which counts its instructions.
//! Usage: `calls CASE QPS BUDGET`; without arguments the names of the cases.

use std::collections::VecDeque;
use std::hint::black_box;

use mrc_core::path::{EvEntry, EvState, compact_profile};
use mrc_core::{
    Access, CqHandle, Endpoint, EndpointConfig, EvProfileHandle, EvReport, Export, IcrcCheck, Import, Instant, Limits,
    MAX_HEADER_LEN, MAX_PORTS, MemRange, OwnedStorage, Pd, PeerConfig, PlaceToken, PlacementMode, PlanePath,
    PortConfig, PortMask, QpHandle, QpInit, Received, Route, RtrAttr, RtsAttr, RxMeta, SendWr, Status,
};
use mrc_wire::{Ev, Ip, PortNum, Psn, Rkey};

const VA: u64 = 0x1000_0000;
const MTU: u32 = 1_024;
/// Packets of a window.
const WINDOW: u32 = 1_024;
const SEND_QUEUE: usize = 64;
/// Receives that complete and are not polled: all that a completion queue holds.
const RECEIVES: usize = 256;

/// What it costs and why it is the worst.
const CASES: [(&str, &str); 18] = [
    ("next_timeout", "nothing to do"),
    ("poll_transmit idle", "nothing to send"),
    ("poll_transmit", "one frame, all queue pairs have data"),
    ("post_send", "the first request of a queue pair"),
    ("handle_packet write", "in order, the first of its queue pair"),
    ("handle_packet hole", "the write that closes a hole before 1 023 others"),
    ("handle_packet SACK", "512 packets are missing before those it names"),
    ("handle_packet ACK", "64 requests complete"),
    ("placed", "the oldest of 1 024 placements ends last"),
    ("place_failed", "256 receives flush that had completed"),
    ("handle_timeout", "the timers of all queue pairs are due"),
    ("set_port", "a port goes down"),
    ("set_ev_state", "an EV is denied"),
    ("query_evs", "192 entries"),
    ("create_qp", "the first one behind a live update, in the last slot"),
    ("export", "the whole image, in all calls together"),
    ("import new", "the storage of all queue pairs is cleared"),
    ("feed", "the whole image, in all calls together"),
];

/// Bytes of an image that one call writes or takes.
const PIECE: usize = 64 << 10;

/// The only part that is counted.
#[inline(never)]
fn measured<R>(f: impl FnOnce() -> R) -> R {
    black_box(f())
}

struct Side<'s> {
    engine: Endpoint<'s>,
    qps: Vec<QpHandle>,
    cq: CqHandle,
    key: u32,
    profile: Option<EvProfileHandle>,
}

fn address(side: u8) -> Ip {
    let mut octets = [0xFD; 16];
    octets[15] = side;
    Ip::V6(octets)
}

fn limits(case: &str, qps: usize) -> Limits {
    let limits =
        Limits { qps, send_queue: SEND_QUEUE, recv_queue: 0, wimm: 0, peers: 1, qpccs: 4, ..Limits::default() };
    match case {
        "place_failed" => Limits { recv_queue: RECEIVES, wimm: SEND_QUEUE, cq_depth: RECEIVES, ..limits },
        _ => limits,
    }
}

impl<'s> Side<'s> {
    fn new(side: u8, storage: &'s mut OwnedStorage, qps: usize, budget: u32, placement: PlacementMode) -> Self {
        let cc = mrc_core::cc::CcConfig::None;
        let mut cfg = EndpointConfig { call_budget: budget, placement, cc, ..EndpointConfig::default() };
        (cfg.port_update_on_rts, cfg.ev_probe_rate_limit) = (false, 0);
        cfg.gids[0] = Some(address(side));
        for port in cfg.ports.iter_mut().take(2) {
            *port = Some(PortConfig { mac: [2; 6], sid: None, addr: None });
        }
        let mut engine = Endpoint::new(cfg, storage.lend(), u64::from(side)).expect("sound");
        let cq = engine.create_cq().expect("room");
        let range = MemRange { va: VA, len: 1 << 24 };
        let mr = engine.register_mr(Pd(0), range, Access::REMOTE_WRITE).expect("room");
        let key = engine.key(mr).expect("registered").0;
        let init = QpInit { pd: Pd(0), send_cq: cq, recv_cq: cq };
        let qps = (0..qps).map(|_| engine.create_qp(&init).expect("room")).collect();
        Self { engine, qps, cq, key, profile: None }
    }

    fn connect(&mut self, side: u8, far: &[QpHandle], wimm: u16) {
        let mut planes = [None; MAX_PORTS];
        for plane in planes.iter_mut().take(2) {
            *plane = Some(PlanePath { next_hop: [4; 6], outer_src: None });
        }
        let (local, remote) = (address(side), address(1 - side));
        let peer = PeerConfig { local, remote, planes, route: Route::Plain, hop_limit: 64 };
        let peer = self.engine.add_peer(&peer).expect("room");
        let mut entries = [EvEntry::new(Ev(0), PortNum::from_plane(0)); 192];
        compact_profile(&mut entries, 2, 96, 8).expect("paths");
        let profile = self.engine.create_ev_profile(&entries).expect("room");
        self.profile = Some(profile);
        for (&qp, far) in self.qps.iter().zip(far) {
            let rtr = RtrAttr {
                path_mtu: MTU as u16,
                max_wimm_dest: wimm,
                ..RtrAttr::software(peer, far.qpn(), Psn::new(0), profile)
            };
            self.engine.modify_to_init(qp).expect("from RESET");
            self.engine.modify_to_rtr(Instant::ZERO, qp, &rtr).expect("from INIT");
            let rts = RtsAttr { max_wimm: wimm, ..RtsAttr::software(Psn::new(0)) };
            self.engine.modify_to_rts(Instant::ZERO, qp, &rts).expect("from RTR");
        }
    }

    fn post(&mut self, qp: usize, len: u32, rkey: u32) {
        self.post_with(qp, len, rkey, None);
    }

    fn post_with(&mut self, qp: usize, len: u32, rkey: u32, imm: Option<u32>) {
        let (lkey, rkey) = (self.key, Rkey(rkey));
        let wr = SendWr { lkey, local_va: VA, len, remote_va: VA, rkey, imm, signaled: true, ..SendWr::default() };
        self.engine.post_send(Instant::ZERO, self.qps[qp], &wr).expect("room");
    }

    /// Heads of the frames that it sends now, at most `most`.
    fn frames(&mut self, now: Instant, most: usize) -> VecDeque<(RxMeta, Vec<u8>)> {
        let mut headers = [0; MAX_HEADER_LEN];
        let next = || {
            let tx = self.engine.poll_transmit(now, PortMask::ALL, &mut headers)?;
            let meta = RxMeta { port: tx.port, wire_len: tx.frame_len(), icrc: IcrcCheck::Valid };
            // The head is enough; where the packet is short it is the whole frame.
            let len = tx.frame_len().min(MAX_HEADER_LEN);
            let mut head = headers[..tx.header_len].to_vec();
            head.resize(len.max(tx.header_len), 0);
            Some((meta, head))
        };
        std::iter::from_fn(next).take(most).collect()
    }

    fn take(&mut self, now: Instant, (meta, head): &(RxMeta, Vec<u8>)) -> Option<PlaceToken> {
        match self.engine.handle_packet(now, *meta, head) {
            Ok(Received::Place(place)) => Some(place.token),
            _ => None,
        }
    }
}

fn run(case: &str, qps: usize, budget: u32) {
    let placement = if case == "placed" { PlacementMode::Reported } else { PlacementMode::BeforePoll };
    let limits = limits(case, qps);
    let mut storage = [limits; 2].map(|limits| OwnedStorage::new(limits).expect("sound"));
    let [a, b] = &mut storage;
    let (mut a, mut b) = (Side::new(0, a, qps, budget, placement), Side::new(1, b, qps, budget, placement));
    a.connect(0, &b.qps, limits.wimm as u16);
    b.connect(1, &a.qps, limits.wimm as u16);
    let (last, rkey) = (qps - 1, b.key);
    let now = Instant::from_nanos(1_000_000);
    match case {
        "next_timeout" => {
            measured(|| a.engine.next_timeout());
        }
        "poll_transmit idle" => {
            let mut headers = [0; MAX_HEADER_LEN];
            let sent = measured(|| a.engine.poll_transmit(now, PortMask::ALL, &mut headers));
            assert!(sent.is_none());
        }
        "poll_transmit" => {
            (0..qps).for_each(|qp| a.post(qp, 4 * MTU, rkey));
            let mut headers = [0; MAX_HEADER_LEN];
            let sent = measured(|| a.engine.poll_transmit(now, PortMask::ALL, &mut headers));
            assert!(sent.is_some());
        }
        "post_send" => measured(|| a.post(last, 4 * MTU, rkey)),
        "handle_packet write" => {
            a.post(last, 4 * MTU, rkey);
            let frames = a.frames(now, 4);
            assert!(measured(|| b.take(now, &frames[0])).is_some());
        }
        "handle_packet hole" | "placed" => {
            a.post(last, WINDOW * MTU, rkey);
            let frames = a.frames(now, WINDOW as usize);
            let mut tokens: Vec<_> = frames.iter().skip(1).filter_map(|frame| b.take(now, frame)).collect();
            if case == "placed" {
                let oldest = b.take(now, &frames[0]).expect("it is new");
                tokens.drain(..).for_each(|token| b.engine.placed(now, token).expect("open"));
                measured(|| b.engine.placed(now, oldest)).expect("open");
            } else {
                assert!(measured(|| b.take(now, &frames[0])).is_some());
            }
        }
        "place_failed" => {
            (0..RECEIVES).for_each(|nth| b.engine.post_recv(b.qps[last], nth as u64).expect("room"));
            let mut tokens = Vec::new();
            while tokens.len() < RECEIVES {
                (0..SEND_QUEUE).for_each(|_| a.post_with(last, 64, rkey, Some(7)));
                tokens.extend(a.frames(now, SEND_QUEUE).iter().filter_map(|frame| b.take(now, frame)));
                b.frames(now, SEND_QUEUE).iter().for_each(|answer| assert!(a.take(now, answer).is_none()));
                while a.engine.poll_completion(a.cq).is_some() {}
            }
            measured(|| b.engine.place_failed(now, tokens[0])).expect("before the poll");
            let flushed =
                std::iter::from_fn(|| b.engine.poll_completion(b.cq)).filter(|done| done.status == Status::Flushed);
            assert_eq!(flushed.count(), RECEIVES);
        }
        "handle_packet SACK" => {
            a.post(last, WINDOW * MTU, rkey);
            let frames = a.frames(now, WINDOW as usize);
            frames.iter().skip(512).for_each(|frame| {
                b.take(now, frame);
            });
            let sacks = b.frames(now, 64);
            let later = now.after(1_000_000);
            let (sack, before) =
                sacks.iter().collect::<Vec<_>>().split_last().map(|(l, r)| (*l, r.to_vec())).expect("SACKs");
            before.iter().for_each(|sack| {
                a.take(later, sack);
            });
            measured(|| a.take(later, sack));
        }
        "handle_packet ACK" => {
            (0..SEND_QUEUE).for_each(|_| a.post(last, 64, rkey));
            let frames = a.frames(now, SEND_QUEUE);
            frames.iter().for_each(|frame| {
                b.take(now, frame);
            });
            // The Transport ACK goes first.
            let ack = b.frames(now, 1).pop_front().expect("an ACK");
            measured(|| a.take(now, &ack));
            let done = std::iter::from_fn(|| a.engine.poll_completion(a.cq)).count();
            assert_eq!(done, SEND_QUEUE);
        }
        "handle_timeout" => {
            (0..qps).for_each(|qp| a.post(qp, 4 * MTU, rkey));
            a.frames(now, 4 * qps);
            let late = now.after(10_000_000_000);
            measured(|| a.engine.handle_timeout(late));
        }
        "set_port" => measured(|| a.engine.set_port(now, PortNum::from_plane(1), false)),
        "set_ev_state" => {
            let profile = a.profile.expect("connected");
            let mut evs = [EvReport::EMPTY];
            a.engine.query_evs(profile, 0, &mut evs).expect("it lives");
            measured(|| a.engine.set_ev_state(now, profile, &evs[0].ev, EvState::Denied, false)).expect("it is there");
        }
        "query_evs" => {
            let profile = a.profile.expect("connected");
            let mut evs = [EvReport::EMPTY; 192];
            measured(|| a.engine.query_evs(profile, 0, &mut evs)).expect("it lives");
        }
        "create_qp" => {
            a.engine.destroy_qp(a.qps[last]).expect("it lives");
            let init = QpInit { pd: Pd(0), send_cq: a.cq, recv_cq: a.cq };
            let mut storage = OwnedStorage::new(limits).expect("sound");
            let mut engine = update(case, &mut a.engine, &mut storage);
            measured(|| engine.create_qp(&init)).expect("one is free");
        }
        "export" | "import new" | "feed" => {
            (0..qps).for_each(|qp| a.post(qp, 4 * MTU, rkey));
            a.frames(now, 4 * qps);
            let mut storage = OwnedStorage::new(limits).expect("sound");
            update(case, &mut a.engine, &mut storage);
        }
        other => panic!("no case {other}"),
    }
}

/// The endpoint that goes on in `storage` where `engine` stopped; counts the part of the update that `case` names.
fn update<'s>(case: &str, engine: &mut Endpoint<'_>, storage: &'s mut OwnedStorage) -> Endpoint<'s> {
    let cfg = engine.config().clone();
    let import = if case == "import new" {
        measured(|| Import::new(cfg, storage.lend()))
    } else {
        Import::new(cfg, storage.lend())
    };
    let (mut export, mut import) = (Export::new(), import.expect("sound"));
    let (mut out, mut image) = (vec![0; PIECE], Vec::new());
    while !export.is_done() {
        let len = if case == "export" {
            measured(|| engine.export(&mut export, &mut out))
        } else {
            engine.export(&mut export, &mut out)
        };
        image.extend(&out[..len.expect("room")]);
        let taken = if case == "feed" { measured(|| import.feed(&image)) } else { import.feed(&image) };
        drop(image.drain(..taken.expect("sound")));
    }
    import.finish().expect("whole")
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words[..] {
        [case, qps, budget] => run(case, qps.parse().expect("QPS"), budget.parse().expect("BUDGET")),
        _ => CASES.iter().for_each(|(name, why)| println!("{name}\t{why}")),
    }
}
