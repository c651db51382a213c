//! Two engines, two models, and the frames between them. After every frame and every operation engine and model must
//! agree, and what `transport.md` 10 promises must hold.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mrc_core::{
    CqHandle, Discard, Endpoint, IcrcCheck, Instant, MAX_HEADER_LEN, MrHandle, OwnedStorage, PeerHandle, PlaceError,
    PlaceToken, PortMask, PostError, QpHandle, QpState, Received, RxMeta, SendWr, Storage, Transmit,
};
use mrc_wire::{Body, PortNum, Psn, Qpn, Rkey, WireConfig, icrc, parse_frame};

use crate::endpoint::{Done, Model};
use crate::frames::{check_write, intact, line, nominal};
use crate::requester::{InFlight, Request};
use crate::responder::{Kind, Outcome, Seq, psn_of, reflected, seq_of};
use crate::schedule::{MEMORY, Op, Schedule, Setup};
use crate::sums::assert_sums;
use crate::update;
use crate::wiring::{NEVER_NS, RECV_QUEUE, SEND_QUEUE, VA, address, connect, engine, limits};

/// Frames under way at most; the oldest are lost beyond.
const IN_FLIGHT: usize = 600;

struct Side<'s> {
    engine: Endpoint<'s>,
    qp: QpHandle,
    cq: CqHandle,
    mr: MrHandle,
    peer: PeerHandle,
    model: Model,
    /// What it writes, then what the peer wrote.
    memory: Vec<u8>,
    /// Bytes it has posted.
    posted: usize,
    posts: u64,
    placed: BTreeSet<Seq>,
    /// Payloads that are not in memory yet, by PSN.
    moving: BTreeMap<Seq, Moving>,
    /// Where the payload that came last went.
    last_placed: Option<(Psn, PlaceToken)>,
    receives: u64,
    /// For endpoints that take the place of this one.
    spares: Vec<Storage<'s>>,
    /// The peer told of its ports since the last timer: paths that became usable are found when it rings.
    ports_news: bool,
}

impl Side<'_> {
    /// The planes that work from end to end as far as this side knows.
    fn planes(&self) -> PortMask {
        self.engine.ports_up().and(self.engine.peer_ports(self.peer).unwrap()).and(PortMask::first(2))
    }

    fn all_planes(&self) -> bool {
        self.planes().len() == 2
    }
}

/// A payload on its way to memory.
struct Moving {
    token: PlaceToken,
    at: usize,
    bytes: Vec<u8>,
}

/// A frame on its way to a side.
#[derive(Clone)]
struct Flying {
    to: usize,
    port: PortNum,
    bytes: Vec<u8>,
}

pub(crate) struct World<'s, 'c> {
    setup: &'c Setup,
    wire: WireConfig,
    sides: [Side<'s>; 2],
    now: u64,
    flying: VecDeque<Flying>,
    past: VecDeque<Flying>,
    /// Lines of the story, when somebody wants to read it.
    story: Option<&'c mut Vec<String>>,
}

macro_rules! tell {
    ($world:expr, $($text:tt)*) => {
        if let Some(story) = $world.story.as_mut() {
            story.push(format!($($text)*));
        }
    };
}

/// What a side writes: bytes that tell their place.
fn pattern() -> &'static [u8] {
    static PATTERN: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    PATTERN.get_or_init(|| (0..MEMORY).map(|n| (n * 7 + n / 251) as u8 | 1).collect())
}

/// Runs `schedule`, then lets the weather calm down and everything end. Panics where engine and model disagree.
pub(crate) fn run(schedule: &Schedule, story: Option<&mut Vec<String>>) {
    let setup = &schedule.setup;
    let mut storage = [limits(setup), limits(setup)].map(|limits| OwnedStorage::new(limits).unwrap());
    let [a, b] = &mut storage;
    // Endpoints that take the place of others have storage of their own.
    let updates =
        |which| schedule.ops.iter().filter(|op| matches!(op, Op::Update { side, .. } if *side == which)).count();
    let mut more = [0, 1]
        .map(|side| -> Vec<_> { (0..updates(side)).map(|_| OwnedStorage::new(limits(setup)).unwrap()).collect() });
    let mut spares = more.each_mut().map(|spares| spares.iter_mut().map(OwnedStorage::lend).collect::<Vec<_>>());
    let (mut a, mut b) = (engine(setup, 0, a), engine(setup, 1, b));
    let peers = [connect(setup, 0, &mut a.0, a.1, b.1), connect(setup, 1, &mut b.0, b.1, a.1)];
    let names = [(a.1.qpn(), address(0, setup.v4)), (b.1.qpn(), address(1, setup.v4))];
    let mut which = 0;
    let sides = [a, b].map(|(engine, qp, cq, mr)| {
        let side = which;
        which += 1;
        let model = Model::new(setup, side, names[side], names[1 - side], engine.key(mr).unwrap().0);
        let mut memory = vec![0; 2 * MEMORY];
        memory[..MEMORY].copy_from_slice(pattern());
        let (posted, posts, receives, last_placed) = (0, 0, 0, None);
        Side {
            engine,
            qp,
            cq,
            mr,
            peer: peers[side],
            model,
            memory,
            posted,
            posts,
            placed: BTreeSet::new(),
            moving: BTreeMap::new(),
            last_placed,
            receives,
            spares: std::mem::take(&mut spares[side]),
            ports_news: false,
        }
    });
    let (flying, past) = (VecDeque::new(), VecDeque::new());
    let mut world = World { setup, wire: WireConfig::default(), sides, now: setup.start_ns, flying, past, story };
    for op in &schedule.ops {
        tell!(world, "{op:?}");
        world.apply(*op);
        world.agree();
    }
    tell!(world, "calm");
    world.calm();
}

impl World<'_, '_> {
    fn instant(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    fn apply(&mut self, op: Op) {
        let count = self.flying.len();
        let at = |nth: u32| if count == 0 { None } else { Some(nth as usize % count) };
        match op {
            Op::Flow { frames } => {
                for _ in 0..frames {
                    self.poll_all();
                    self.deliver(0);
                }
                self.poll_all();
            }
            Op::Deliver { nth } => at(nth).map_or((), |nth| self.deliver(nth)),
            Op::Drop { nth } => drop(at(nth).and_then(|nth| self.flying.remove(nth))),
            Op::Duplicate { nth } => {
                if let Some(nth) = at(nth) {
                    let copy = self.flying[nth].clone();
                    self.flying.push_back(copy);
                }
            }
            Op::Corrupt { nth, bit } => {
                if let Some(nth) = at(nth) {
                    let bytes = &mut self.flying[nth].bytes;
                    let bit = bit as usize % ((bytes.len() - 14) * 8);
                    bytes[14 + bit / 8] ^= 1 << (bit % 8);
                }
            }
            Op::Trim { nth, last_hop } => at(nth).map_or((), |nth| self.trim(nth, last_hop)),
            Op::Mark { nth } => {
                if let Some(nth) = at(nth) {
                    let bytes = &mut self.flying[nth].bytes;
                    let v4 = bytes[14] >> 4 == 4;
                    // A switch marks only what is ECN-capable.
                    let capable = if v4 { bytes[15] & 3 } else { bytes[15] >> 4 & 3 };
                    if capable != 0 {
                        bytes[15] |= if v4 { 3 } else { 0x30 };
                    }
                }
            }
            Op::Replay { nth } => {
                if !self.past.is_empty() {
                    let old = self.past[nth as usize % self.past.len()].clone();
                    self.flying.push_front(old);
                    self.deliver(0);
                }
            }
            Op::Wait { ns } => self.now += ns,
            Op::Timer => {
                if let Some(due) = self.next_timeout() {
                    self.now = self.now.max(due);
                }
                self.timers();
            }
            Op::Post { side, len, imm, signaled, bad_key } => self.post(side, len, imm, signaled, bad_key),
            Op::Receive { side } => self.receive(side),
            Op::Poll { side, frames, ports } => self.poll(side, frames, PortMask::from_bits(ports)),
            Op::Reap { side, completions } => self.reap(side, completions),
            Op::Port { side, plane, up } => {
                let now = self.instant();
                self.sides[side].engine.set_port(now, PortNum::from_plane(plane), up);
            }
            Op::Window { side, mpr } => {
                let side = &mut self.sides[side];
                let changed = side.engine.set_mpr(side.qp, mpr).is_ok();
                assert_eq!(changed, self.setup.dynamic_mpr);
                if changed {
                    side.model.rsp.set_range(mpr);
                }
            }
            Op::Refuse { side, reason } => {
                self.sides[side].engine.set_refusal(reason);
                self.sides[side].model.rsp.refusal = reason;
            }
            Op::Placed { side, nth, payloads } => (0..payloads).for_each(|_| self.placed(side, nth)),
            Op::PlaceFails { side, nth } => self.place_fails(side, nth),
            Op::Kill { side } => self.kill(side),
            Op::Update { side, buffer } => {
                let side = &mut self.sides[side];
                let storage = side.spares.pop().expect("one for each update");
                update::replace(&mut side.engine, storage, buffer as usize);
            }
        }
    }

    /// A payload reaches memory, in whatever order: the `nth` of those under way.
    //= ACK-003, WIMM-004 test
    fn placed(&mut self, which: usize, nth: u32) {
        let (now, setup) = (self.instant(), self.setup);
        let side = &mut self.sides[which];
        let Some(&seq) = side.moving.keys().nth(nth as usize % side.moving.len().max(1)) else { return };
        let Moving { token, at, bytes } = side.moving.remove(&seq).unwrap();
        side.memory[at..at + bytes.len()].copy_from_slice(&bytes);
        assert_eq!(side.engine.placed(now, token), Ok(()));
        side.model.placed(setup, seq);
        assert_eq!(side.engine.placed(now, token), Err(PlaceError::NotOpen), "a second time");
        self.agree_of(which);
    }

    /// The driver cannot place a payload: one that is under way, or the last one where none ever is.
    fn place_fails(&mut self, which: usize, nth: u32) {
        let (now, setup) = (self.instant(), self.setup);
        let side = &mut self.sides[which];
        let (psn, token) = if setup.delayed_placement {
            let Some(&seq) = side.moving.keys().nth(nth as usize % side.moving.len().max(1)) else { return };
            side.model.rsp.moving.remove(&seq);
            (psn_of(setup.first_psn[1 - which], seq), side.moving.remove(&seq).unwrap().token)
        } else {
            let Some(last) = side.last_placed else { return };
            side.model.revoke_receives(last.0);
            last
        };
        assert_eq!(side.engine.place_failed(now, token), Ok(()));
        side.model.refuse(setup, mrc_core::ErrorCause::RequestFailed, psn, mrc_wire::Syndrome::RemoteOperational);
    }

    fn kill(&mut self, side: usize) {
        let (now, setup) = (self.instant(), self.setup);
        let side = &mut self.sides[side];
        side.engine.modify_to_error(now, side.qp).unwrap();
        side.model.fail(setup, mrc_core::ErrorCause::Application, None);
    }

    fn post(&mut self, which: usize, len: u32, imm: bool, signaled: bool, bad_key: bool) {
        let (now, setup) = (self.instant(), self.setup);
        let key = self.sides[1 - which].model.key;
        let side = &mut self.sides[which];
        let at = side.posted;
        if at + len as usize > MEMORY {
            return;
        }
        let id = side.posts;
        let wr = SendWr {
            wr_id: id,
            lkey: side.model.key,
            local_va: VA + at as u64,
            len,
            remote_va: VA + (MEMORY + at) as u64,
            rkey: Rkey(if bad_key { !key } else { key }),
            signaled,
            imm: imm.then_some(id as u32 ^ 0xABCD_0000),
            solicited: imm && id.is_multiple_of(2),
        };
        let full = side.model.req.queued() >= SEND_QUEUE;
        let posted = side.engine.post_send(now, side.qp, &wr);
        assert_eq!(posted, if full { Err(PostError::Full) } else { Ok(()) });
        if posted.is_err() {
            return;
        }
        side.posts += 1;
        side.posted += len as usize;
        side.model.req.requests.push(Request {
            id,
            len,
            at,
            imm: wr.imm,
            solicited: wr.solicited,
            signaled,
            first: None,
            packets: i64::from(len.div_ceil(setup.mtu.into()).max(1)),
            sent: 0,
            rqmsn: 0,
        });
        if side.model.state == QpState::Error {
            side.model.settle(setup);
        }
    }

    fn receive(&mut self, which: usize) {
        let setup = self.setup;
        let side = &mut self.sides[which];
        let full = side.model.rsp.receives.len() >= RECV_QUEUE;
        let id = 1_000 + side.receives;
        let posted = side.engine.post_recv(side.qp, id);
        assert_eq!(posted, if full { Err(PostError::Full) } else { Ok(()) });
        if posted.is_ok() {
            side.receives += 1;
            side.model.rsp.receives.push_back(id);
            side.model.deliver(setup);
        }
    }

    /// The application takes completions: in the model's order, with the model's contents.
    //= INV-002, INV-006 test
    fn reap(&mut self, which: usize, completions: u32) {
        for _ in 0..completions {
            let setup = self.setup;
            let side = &mut self.sides[which];
            let have = side.engine.poll_completion(side.cq);
            let want = side.model.reap(setup);
            assert_eq!(have.as_ref().map(Done::from), want, "completion of side {which}");
            let Some(done) = want else { break };
            if let Some(imm) = done.imm {
                let announced = imm ^ 0xABCD_0000;
                self.whole(1 - which, announced as usize);
            }
        }
    }

    /// Every byte of `from`'s requests up to number `last` is in the peer's memory.
    fn whole(&self, from: usize, last: usize) {
        let requests = &self.sides[from].model.req.requests[..=last];
        let end = requests.last().map_or(0, |request| request.at + request.len as usize);
        let there = &self.sides[1 - from].memory[MEMORY..];
        assert!(there[..end] == pattern()[..end], "announced before it arrived: request {last} of side {from}");
    }

    /// A switch cuts a packet that allows it.
    fn trim(&mut self, nth: usize, last_hop: bool) {
        let plan = self.wire.dscp;
        let gid = address(self.flying[nth].to, self.setup.v4);
        let bytes = &mut self.flying[nth].bytes;
        let Ok(frame) = parse_frame(bytes, bytes.len(), &self.wire, |dst| *dst == gid) else { return };
        if !matches!(frame.body, Body::Write { .. }) || ![plan.trimmable, plan.trimmable_retx].contains(&frame.dscp) {
            return;
        }
        let v4 = bytes[14] >> 4 == 4;
        let timestamp = if frame.bth.ts { 4 } else { 0 };
        bytes.truncate(14 + if v4 { 20 } else { 40 } + 8 + 12 + 4 + timestamp);
        let dscp = if last_hop { plan.trimmed_lasthop } else { plan.trimmed };
        if v4 {
            bytes[15] = dscp << 2 | bytes[15] & 3;
        } else {
            bytes[14] = 0x60 | dscp >> 2;
            bytes[15] = dscp << 6 | bytes[15] & 0x3F;
        }
    }

    /// Hands a frame to its side; engine and model must make the same of it.
    //= INV-003, RSP-003, MODEL-002 test
    fn deliver(&mut self, nth: usize) {
        let Some(Flying { to, port, bytes }) = self.flying.remove(nth) else { return };
        self.now += self.setup.flight_ns;
        let (now, setup, gid) = (self.now, self.setup, address(to, self.setup.v4));
        let parsed = parse_frame(&bytes, bytes.len(), &self.wire, |dst| *dst == gid);
        if let Some(story) = self.story.as_mut() {
            let what = parsed.as_ref().map_or_else(|why| format!("{why:?}"), line);
            story.push(format!("  {now} ns, to {to}: {what}"));
        }
        let side = &mut self.sides[to];
        let want = match &parsed {
            Err(why) => Outcome::Discard(Discard::from(*why)),
            Ok(frame) if !intact(frame, &bytes) => Outcome::Discard(Discard::Icrc),
            // Of no connection, and not the model's matter.
            Ok(frame) if matches!(frame.body, Body::EndpointRequest(_) | Body::EndpointResponse(_)) => Outcome::Any,
            Ok(frame) => side.model.receive(setup, now, frame),
        };
        let meta = RxMeta { port, wire_len: bytes.len(), icrc: IcrcCheck::Verify };
        let planes = side.planes();
        let have = side.engine.handle_packet(Instant::from_nanos(now), meta, &bytes);
        // A packet from a masked port unmasks it.
        side.ports_news |= side.planes() != planes;
        match (have, want) {
            (Err(have), Outcome::Discard(want)) => assert_eq!(have, want),
            (Ok(Received::Nothing), Outcome::Nothing) => {}
            (Ok(Received::Nothing) | Err(_), Outcome::Any) => side.ports_news = true,
            (Ok(Received::Place(at)), Outcome::Place { va, len }) => {
                let frame = parsed.unwrap();
                assert_eq!((at.mr, at.offset, at.payload.len()), (side.mr, va - VA, len));
                let seq = seq_of(setup.first_psn[1 - to], frame.bth.psn, side.model.rsp.cack);
                assert!(side.placed.insert(seq), "PSN {} placed twice", frame.bth.psn);
                let (token, to) = (at.token, at.offset as usize);
                assert_eq!(at.psn, frame.bth.psn);
                side.last_placed = Some((at.psn, token));
                if setup.delayed_placement {
                    side.moving.insert(seq, Moving { token, at: to, bytes: bytes[at.payload].to_vec() });
                } else {
                    side.memory[to..to + len].copy_from_slice(&bytes[at.payload]);
                    let refused = side.engine.placed(Instant::from_nanos(now), token);
                    assert_eq!(refused, Err(PlaceError::NotReported));
                }
            }
            (have, want) => panic!("engine {have:?}, model {want:?}"),
        }
        self.past.push_back(Flying { to, port, bytes });
        if self.past.len() > 64 {
            self.past.pop_front();
        }
        self.agree_of(to);
    }

    fn poll_all(&mut self) {
        (0..2).for_each(|side| self.poll(side, 1_000, PortMask::ALL));
    }

    /// The driver takes frames; when it gets none though it could send anything, the model has none either.
    fn poll(&mut self, which: usize, frames: u32, ports: PortMask) {
        let mut headers = [0u8; MAX_HEADER_LEN];
        for _ in 0..frames {
            let now = self.instant();
            let side = &mut self.sides[which];
            let Some(transmit) = side.engine.poll_transmit(now, ports, &mut headers) else {
                if ports == PortMask::ALL {
                    self.nothing_left(which);
                }
                return;
            };
            assert!(ports.contains(transmit.port) && side.engine.ports_up().contains(transmit.port));
            let bytes = self.frame(which, &headers, &transmit);
            self.check_sent(which, &bytes, &transmit, ports);
            self.agree_of(which);
            self.flying.push_back(Flying { to: 1 - which, port: transmit.port, bytes });
            if self.flying.len() > IN_FLIGHT {
                self.flying.pop_front();
            }
        }
    }

    fn frame(&self, which: usize, headers: &[u8], transmit: &Transmit) -> Vec<u8> {
        let mut bytes = headers[..transmit.header_len].to_vec();
        if let Some(payload) = transmit.payload {
            let at = payload.offset as usize;
            assert!(payload.mr == self.sides[which].mr && at + payload.len as usize <= MEMORY);
            bytes.extend(&self.sides[which].memory[at..at + payload.len as usize]);
        }
        bytes.resize(bytes.len() + usize::from(transmit.pad), 0);
        bytes.extend(icrc::compute(&bytes[transmit.l3_offset..]).unwrap());
        bytes
    }

    /// A QP that may send and has paths leaves nothing undone.
    fn nothing_left(&self, which: usize) {
        let side = &self.sides[which];
        if !side.all_planes() || side.ports_news {
            return;
        }
        let model = &side.model;
        let (owed, refused) = (&model.rsp.owed, &model.rsp.refused);
        assert!(!model.rsp.ack_due && owed.is_empty() && refused.is_empty(), "side {which} owes {owed:?} {refused:?}");
        let info = side.engine.qp_info(side.qp).unwrap();
        let free = self.setup.window_bytes.is_none() || model.req.outstanding() == 0;
        // A timer that is due may be what lets it go on; one that could not be served waits a little.
        let soon = self.now + self.slack();
        let due = side.engine.next_timeout().is_some_and(|at| at.as_nanos() <= soon);
        if model.state != QpState::Rts
            || !free
            || due
            || info.evs.good + info.evs.skip == 0
            || !info.evs.suspended_planes.is_empty()
        {
            return;
        }
        assert!(!model.req.resend_tail, "side {which} does not repeat its tail");
        assert_eq!(model.req.due_again(self.setup, self.now), None, "side {which} does not send a lost packet again");
        let allowed = model.req.new_allowed(self.setup) && !model.req.held_back(self.setup);
        assert!(!allowed, "side {which} does not send what it may");
    }

    /// What left, against the model.
    //= INV-001, INV-004, INV-007, SND-001, SND-002, SND-003, BTH-008 test
    fn check_sent(&mut self, which: usize, bytes: &[u8], transmit: &Transmit, ports: PortMask) {
        let (now, setup) = (self.now, self.setup);
        let gid = address(1 - which, setup.v4);
        let frame = parse_frame(bytes, bytes.len(), &self.wire, |dst| *dst == gid).expect("what we send can be read");
        tell!(self, "  {now} ns, from {which}: {}", line(&frame));
        assert_eq!((frame.entropy, frame.src), (transmit.ev, address(which, setup.v4)));
        if frame.bth.dest_qp == Qpn::ENDPOINT {
            return;
        }
        assert_eq!(frame.bth.dest_qp, self.sides[1 - which].qp.qpn());
        let both_up = self.sides[which].all_planes() && ports == PortMask::ALL;
        let evs = self.sides[which].engine.qp_info(self.sides[which].qp).unwrap().evs;
        let side = &mut self.sides[which];
        let model = &mut side.model;
        if model.state == QpState::Error {
            model.last_words += 1;
            assert_eq!(model.last_words, 1, "a QP in ERROR says more than one thing");
        }
        let tick = (now >> 7) as u16;
        match &frame.body {
            Body::Write { .. } => {
                assert_eq!(model.state, QpState::Rts);
                // The echoed EV of a lost copy is not used again while there is another.
                let choice = both_up && evs.good + evs.skip > 1 && evs.suspended_planes.is_empty();
                check_write(setup, now, model, &frame, transmit, choice);
            }
            Body::Probe(probe) => {
                assert_eq!(model.state, QpState::Rts);
                model.req.send_probe(setup, now, probe.probe_id, frame.entropy);
            }
            Body::Ack(aeth) if matches!(aeth.syndrome, mrc_wire::Syndrome::Ack(_)) => {
                assert!(std::mem::take(&mut model.rsp.ack_due), "a Transport ACK that is not owed");
                let psn = psn_of(setup.first_psn[1 - which], model.rsp.acked);
                assert_eq!((frame.bth.psn, aeth.msn), (psn, model.rsp.messages()));
            }
            body => {
                assert!(!model.rsp.ack_due, "a Transport ACK goes first");
                let rsp = &mut model.rsp;
                let waiting = if rsp.owed.is_empty() { &mut rsp.refused } else { &mut rsp.owed };
                assert!(!waiting.is_empty(), "an answer that is not owed: {}", line(&frame));
                let owed = waiting.remove(0);
                let trigger = psn_of(setup.first_psn[1 - which], owed.trigger);
                match body {
                    Body::Sack(sack) => {
                        assert_eq!((frame.bth.rtx, frame.bth.psn), (owed.rtx, sack.cack));
                        model.rsp.check_sack(setup, &owed, sack, tick);
                    }
                    Body::Nack(nack) => {
                        assert_eq!(Kind::Nack(nack.reason), owed.kind);
                        let echo = (owed.ev, reflected(&owed, tick), trigger, trigger, owed.rtx);
                        assert_eq!((nack.entropy, nack.timestamp, nack.psn, frame.bth.psn, frame.bth.rtx), echo);
                    }
                    Body::Ack(aeth) => {
                        assert_eq!((Kind::Nak(aeth.syndrome), trigger), (owed.kind, frame.bth.psn));
                    }
                    other => panic!("nobody sends {other:?}"),
                }
            }
        }
    }

    /// How late a timer may be: what is due and cannot be done (no port, too many probes) is tried again after so long.
    fn slack(&self) -> u64 {
        self.setup.probe_rate_limit_ns.max(1_000) + 16
    }

    /// When a timer of either side is due, on the grid of send times (16 ns); that of Port Status Updates does not count.
    fn next_timeout(&self) -> Option<u64> {
        let due = self.sides.iter().filter_map(|side| side.engine.next_timeout()).min()?.as_nanos();
        (due < self.setup.start_ns + NEVER_NS).then(|| due.next_multiple_of(64))
    }

    fn timers(&mut self) {
        for which in 0..2 {
            let (now, setup) = (self.instant(), self.setup);
            let side = &mut self.sides[which];
            let due = side.engine.next_timeout().is_some_and(|at| at <= now);
            let stranded = side.planes().is_empty() && side.model.req.queued() > 0;
            side.engine.handle_timeout(now);
            // When time charges a retry is the engine's choice, within bounds: an update is noticed with some delay.
            let charged = stranded && side.engine.qp_info(side.qp).unwrap().retries > side.model.req.retries;
            if due && !stranded {
                side.model.req.stranded_since = None;
            }
            side.ports_news &= !due;
            if due
                && side.model.state == QpState::Rts
                && let Some((cause, _)) = side.model.req.on_timeout(setup, self.now, stranded, charged)
            {
                side.model.fail(setup, cause, None);
            }
            let next = side.engine.next_timeout();
            assert!(next.is_none_or(|at| at > now), "a timer that does not move on");
            self.agree_of(which);
        }
    }

    fn agree(&mut self) {
        (0..2).for_each(|side| self.agree_of(side));
    }

    /// Engine and model see the same.
    //= INV-001, INV-005 test
    fn agree_of(&mut self, which: usize) {
        let now = self.now;
        let side = &mut self.sides[which];
        if side.planes().is_empty() && side.model.req.queued() > 0 {
            side.model.req.stranded_since.get_or_insert(now);
        }
        let side = &self.sides[which];
        assert_sums(&side.engine);
        let (model, info, stats) = (&side.model, side.engine.qp_info(side.qp).unwrap(), side.engine.stats());
        let req = &model.req;
        assert_eq!((info.state, info.cause), (model.state, model.cause), "state of side {which}");
        assert_eq!(i64::from(info.outstanding), req.outstanding(), "outstanding of side {which}");
        assert!(req.outstanding() <= req.widest, "window of side {which}");
        assert_eq!(info.placements as usize, side.moving.len(), "payloads on their way to memory");
        assert_eq!((info.queued as usize, info.receives as usize), (req.queued(), model.rsp.receives.len()));
        assert_eq!((info.retries, info.base_rtt_ns), (req.retries, req.base_rtt), "retries, base RTT of side {which}");
        let have = (stats.lost_inferred, stats.lost_nack, stats.lost_timeout, stats.probe_lost, stats.retransmitted);
        let want = req.losses;
        assert_eq!(
            have,
            (want.inferred, want.nack, want.timeout, want.probes, want.retransmitted),
            "losses of {which}"
        );
        // Without a port no packet's timer need run: the one of the budget does, or the QP never ends.
        if model.state == QpState::Rts && req.queued() > 0 && side.engine.ports_up().is_empty() {
            assert!(side.engine.next_timeout().is_some(), "side {which} waits for ever");
        }
        if model.state == QpState::Rts {
            self.flight_agrees(which);
            let slack = self.slack();
            let late = req.deadline().filter(|&at| {
                side.engine.next_timeout().is_none_or(|timer| timer.as_nanos() > at.max(self.now) + slack)
            });
            assert_eq!(late, None, "side {which} would sleep through it, until {:?}", side.engine.next_timeout());
        }
    }

    /// Queue pair and controller count exactly what is in flight and what waits; the controller does not count what tests a silent peer.
    //= INV-005, QPCC-003, NSCC-021, SCHED-002 test
    fn flight_agrees(&self, which: usize) {
        let side = &self.sides[which];
        let (info, qpcc) = (side.engine.qp_info(side.qp).unwrap(), side.engine.qpcc_info(side.qp).unwrap());
        let want = side.model.req.in_flight();
        let unsent = side.model.req.unsent(self.setup.mtu.into(), |payload, imm| nominal(self.setup, payload, imm));
        let apart = side.model.req.apart;
        for (who, load, counted) in
            [("queue pair", info.load, info.inflight_bytes), ("controller", qpcc.load, qpcc.inflight_bytes)]
        {
            let bytes = counted + apart;
            let packets = i64::from(load.inflight_pkts);
            let (lost, lost_bytes) = (i64::from(load.waiting_rtx), load.rtx_backlog_bytes as i64);
            let have = InFlight { packets, bytes, lost, lost_bytes };
            assert_eq!(have, want, "in flight, {who} of side {which}");
            assert_eq!(load.backlog_bytes as i64, unsent, "never sent, {who} of side {which}");
        }
    }

    /// The network heals, the applications take and post what is wanted: everything must end, and end well.
    fn calm(&mut self) {
        let now = self.instant();
        for side in &mut self.sides {
            for plane in 0..2 {
                side.engine.set_port(now, PortNum::from_plane(plane), true);
            }
            side.engine.set_refusal(None);
            side.model.rsp.refusal = None;
        }
        let mut busy = 0;
        // A long bad time may have made a timer as long as it gets, 17 s, with a probe in each round trip meanwhile.
        for turn in 0.. {
            assert!(turn < 32_000_000, "no end: {}", self.picture());
            if self.sides.iter().any(|side| side.model.state == QpState::Error) {
                (0..2).for_each(|side| self.kill(side));
            }
            for side in 0..2 {
                self.reap(side, 100);
                let model = &self.sides[side].model;
                if model.state == QpState::Rts && model.rsp.ripe().is_some() && model.rsp.receives.is_empty() {
                    self.receive(side);
                }
            }
            self.poll_all();
            let moving = self.sides.iter().any(|side| !side.moving.is_empty());
            (0..2).for_each(|side| self.placed(side, turn));

            if !self.flying.is_empty() {
                self.now += 1_024;
                self.deliver(0);
                busy += 1;
                // Timers wait for the frames in flight, which may take longer than a short T0. But frames may come without
                // end: packets above the responder's window are refused again and again.
                if busy % (2 * IN_FLIGHT) == 0 && self.next_timeout().is_some_and(|due| due <= self.now) {
                    self.timers();
                }
                continue;
            }
            busy = 0;
            if moving {
                continue;
            }
            if self.sides.iter().all(|side| side.model.req.queued() == 0 && side.model.cq.is_empty()) {
                break;
            }
            let due = self.next_timeout().unwrap_or_else(|| panic!("nobody waits for anything: {}", self.picture()));
            self.now = self.now.max(due);
            self.timers();
        }
        for which in 0..2 {
            let side = &self.sides[which];
            if side.model.state == QpState::Rts {
                assert_eq!(side.engine.qp_info(side.qp).unwrap().outstanding, 0);
                if let Some(last) = side.model.req.requests.len().checked_sub(1) {
                    self.whole(which, last);
                }
            }
        }
    }

    fn picture(&self) -> String {
        let of = |side: &Side<'_>| {
            let info = side.engine.qp_info(side.qp);
            format!("{info:?}, timer {:?}, deadline {:?}\n", side.engine.next_timeout(), side.model.req.deadline())
        };
        format!("at {} ns\n{}{}", self.now, of(&self.sides[0]), of(&self.sides[1]))
    }
}
