//! Endpoint operations on QP 2, asked and answered: EV probes and Port Status Updates. Connectionless and best effort;
//! every table is of fixed size and every packet costs O(1). Owns neither the choice of ports nor the state of EVs.
//! Source: `transport.md` 7, `wire.md` 8, `paths.md` 11 and 12.
//!
//! ```text
//! application, reverse paths --> requests (64) --> queue --> frame --> answer or timeout --> done --> poll_endpoint_op
//! local port change, RTS ------> sending (peers) --> one frame per plane --> waiting (peers) --> answer, or again
//! frame of a peer -------------> answers (32) --> frame
//! ```

use mrc_wire::{
    BthRepr, Ecn, EndpointOp, EndpointRequestRepr, EndpointResponseRepr, Ev, Frame, Opcode, PortNum, Psn, Qpn,
    TsethRepr,
};

use super::{
    Endpoint, PeerHandle, Received, Transmit,
    peers::{List, PeerIndex, PeerList, PeerSlot},
    profiles::profile,
    schedule::ATTEMPTS,
    tx::{Sizes, Way, control_bth, emit_bth, stamp},
};
use crate::{
    config::{EndpointConfig, Route},
    error::{Discard, OpError},
    event::Event,
    path::{Choice, EvEntry},
    port::PortMask,
    qp::QpHandle,
    time::Instant,
};

/// Requests that may be outstanding at once; the low six bits of an identifier name the slot.
const REQUESTS: usize = 64;
/// Answers that may wait to leave.
const ANSWERS: usize = 32;
/// Rounds after the first, each one RTO after the last.
//= EPOP-006
const REPEATS: u8 = 3;
/// Changes announced at once within one RTO; more than that wait for the next round, so that a port that flaps does not
/// make us a sender of updates.
const CHANGES_PER_RTO: u8 = 8;
/// An update with an identifier up to this far below the last one's is an older one that was overtaken.
const OVERTAKEN: u16 = 64;
/// The 16-bit timestamps tell round trips below this.
const TIMESTAMP_SPAN_NS: u64 = 1 << 23;

/// An endpoint operation to perform once, over one path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpRequest {
    /// Comes back in the outcome.
    pub cookie: u64,
    /// The operation.
    pub op: EndpointOp,
    /// Ports that a Port Status Update tells; ignored in an EV probe.
    pub ports: PortMask,
    /// The path: EV, port and, where the profile says so, outer destination.
    pub path: EvEntry,
    /// Code point, 6 bits; by default that of data which must not be trimmed for an EV probe, control for an update.
    pub dscp: Option<u8>,
    /// Time to wait for the answer, in nanoseconds.
    pub timeout_ns: u64,
}

/// How an endpoint operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpOutcome {
    /// Of the request.
    pub cookie: u64,
    /// Of the request.
    pub peer: PeerHandle,
    /// Of the request.
    pub op: EndpointOp,
    /// The answer; `None` when it did not come in time.
    pub answer: Option<OpAnswer>,
}

/// An answer to an endpoint operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpAnswer {
    /// Port it arrived on.
    pub port: PortNum,
    /// Round trip, in nanoseconds.
    pub rtt_ns: u64,
    /// Whether the peer took its service time out of the round trip.
    pub adjusted: bool,
}

/// Who asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// The application, with its cookie.
    Application(u64),
    /// A QP that looks for a way back to its peer.
    WayBack { qp: QpHandle, choice: Choice },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Free,
    Queued,
    Sent,
    Done(Option<OpAnswer>),
}

/// One operation that this endpoint asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) stage: Stage,
    pub(super) peer: u32,
    pub(super) id: u16,
    pub(super) op: EndpointOp,
    pub(super) ports: PortMask,
    pub(super) dscp: Option<u8>,
    pub(super) path: EvEntry,
    pub(super) owner: Owner,
    pub(super) timeout_ns: u64,
    pub(super) sent_at: Instant,
    pub(super) deadline: Instant,
}

impl Request {
    pub(super) const NONE: Self = Self {
        stage: Stage::Free,
        peer: 0,
        id: 0,
        op: EndpointOp::EvProbe,
        ports: PortMask::NONE,
        dscp: None,
        path: EvEntry::EMPTY,
        owner: Owner::Application(0),
        timeout_ns: 0,
        sent_at: Instant::ZERO,
        deadline: Instant::FAR,
    };
}

/// An answer that waits to leave.
#[derive(Clone, Copy, Debug)]
struct Due {
    /// `u32::MAX` once the peer is gone.
    peer: u32,
    id: u16,
    op: EndpointOp,
    timestamp: u16,
    /// Add the time since `arrived` to the timestamp.
    serviced: bool,
    arrived: u16,
    /// Port and EV of the request: the way back to a peer that has no QP of ours.
    port: PortNum,
    ev: Ev,
}

/// First in first out, of at most `N` elements.
#[derive(Clone, Copy, Debug)]
struct Fifo<T, const N: usize> {
    ring: [T; N],
    head: usize,
    len: usize,
}

impl<T: Copy, const N: usize> Fifo<T, N> {
    const fn new(empty: T) -> Self {
        Self { ring: [empty; N], head: 0, len: 0 }
    }

    fn at(&self, nth: usize) -> usize {
        let at = self.head + nth;
        if at >= N { at - N } else { at }
    }

    fn is_full(&self) -> bool {
        self.len >= N
    }

    fn push(&mut self, value: T) -> bool {
        if self.is_full() {
            return false;
        }
        let at = self.at(self.len);
        if let Some(slot) = self.ring.get_mut(at) {
            *slot = value;
            self.len += 1;
        }
        true
    }

    fn front(&self) -> Option<T> {
        if self.len == 0 { None } else { self.ring.get(self.head).copied() }
    }

    fn pop(&mut self) -> Option<T> {
        let front = self.front()?;
        self.head = self.at(1);
        self.len -= 1;
        Some(front)
    }
}

/// A limit of rate: one per interval, and a burst.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// `None` allows nothing.
    interval_ns: Option<u64>,
    burst_ns: u64,
    next: Instant,
}

impl Pace {
    fn per_second(rate: u32, burst: u64) -> Self {
        let interval_ns = 1_000_000_000u64.checked_div(rate.into());
        let burst_ns = interval_ns.unwrap_or(0).saturating_mul(burst.saturating_sub(1));
        Self { interval_ns, burst_ns, next: Instant::ZERO }
    }

    fn has_room(&self, now: Instant) -> bool {
        self.interval_ns.is_some() && self.next <= now.after(self.burst_ns)
    }

    fn allows(&mut self, now: Instant) -> bool {
        let Some(interval_ns) = self.interval_ns.filter(|_| self.has_room(now)) else { return false };
        self.next = self.next.max(now).after(interval_ns);
        true
    }
}

/// State of all endpoint operations of one endpoint.
#[derive(Debug)]
pub(super) struct Ops {
    requests: [Request; REQUESTS],
    /// Bit N: slot N is free.
    free: u64,
    /// High bits of the next identifier.
    generation: u16,
    queue: Fifo<u8, REQUESTS>,
    done: Fifo<u8, REQUESTS>,
    answers: Fifo<Due, ANSWERS>,
    answer_pace: Pace,
    probe_pace: Pace,
    sending: PeerList,
    waiting: PeerList,
    /// No request expires before this.
    expiry: Instant,
}

impl Ops {
    pub(super) fn new(cfg: &EndpointConfig) -> Self {
        let none = Due {
            peer: u32::MAX,
            id: 0,
            op: EndpointOp::EvProbe,
            timestamp: 0,
            serviced: false,
            arrived: 0,
            port: PortNum::from_plane(0),
            ev: Ev(0),
        };
        Self {
            requests: [Request::NONE; REQUESTS],
            free: u64::MAX,
            generation: 0,
            queue: Fifo::new(0),
            done: Fifo::new(0),
            answers: Fifo::new(none),
            answer_pace: Pace::per_second(cfg.endpoint_rate_limit, ANSWERS as u64),
            probe_pace: Pace::per_second(cfg.ev_probe_rate_limit, 16),
            sending: PeerList::new(List::Sending),
            waiting: PeerList::new(List::Waiting),
            expiry: Instant::FAR,
        }
    }

    /// Whether nothing waits to be sent.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.answers.len == 0 && self.queue.len == 0 && self.sending.front().is_none()
    }

    /// When time alone has something to do.
    #[inline]
    pub(super) fn deadline(&self, peers: &[PeerSlot]) -> Instant {
        let round = self.waiting.front().and_then(|peer| peers.get(peer as usize));
        round.map_or(Instant::FAR, |slot| slot.update.due).min(self.expiry)
    }

    fn slot(&mut self, nth: u8) -> Option<&mut Request> {
        self.requests.get_mut(usize::from(nth))
    }

    /// Takes a free slot for `request`.
    //= EPOP-002
    fn admit(&mut self, request: Request) -> bool {
        let nth = self.free.trailing_zeros() as u8;
        // Unique among the outstanding: the slot is part of the identifier.
        let id = self.generation << 6 | u16::from(nth);
        let Some(slot) = self.slot(nth) else { return false };
        *slot = Request { id, stage: Stage::Queued, ..request };
        self.generation = self.generation.wrapping_add(1);
        self.free &= self.free.wrapping_sub(1);
        self.queue.push(nth)
    }

    /// Whether the endpoint's own EV probes are within their rate and have room. Half of the room is the application's.
    pub(super) fn may_probe(&self, now: Instant) -> bool {
        self.free.count_ones() > REQUESTS as u32 / 2 && self.probe_pace.has_room(now)
    }

    /// Queues an EV probe of the endpoint's own.
    pub(super) fn probe(&mut self, now: Instant, request: Request) {
        if self.probe_pace.allows(now) {
            self.admit(request);
        }
    }

    /// Ends a request; its slot is free once the owner heard of it. Returns the owner that must be told.
    fn finish(&mut self, nth: u8, answer: Option<OpAnswer>) -> Option<(QpHandle, Choice)> {
        let slot = self.slot(nth)?;
        match slot.owner {
            Owner::Application(_) => {
                slot.stage = Stage::Done(answer);
                self.done.push(nth);
                None
            }
            Owner::WayBack { qp, choice } => {
                slot.stage = Stage::Free;
                self.free |= 1u64.wrapping_shl(nth.into());
                Some((qp, choice))
            }
        }
    }

    /// The last QP towards `peer` is gone: nobody there cares for our ports.
    pub(super) fn stop_updates(&mut self, peers: &mut [PeerSlot], peer: u32) {
        self.sending.remove(peers, peer);
        self.waiting.remove(peers, peer);
    }

    /// Ends everything that concerns a peer which is being removed.
    pub(super) fn forget(&mut self, peers: &mut [PeerSlot], peer: u32) {
        self.stop_updates(peers, peer);
        for due in &mut self.answers.ring {
            if due.peer == peer {
                due.peer = u32::MAX;
            }
        }
        for nth in 0..REQUESTS as u8 {
            let Some(request) = self.slot(nth).filter(|request| request.peer == peer) else { continue };
            match request.stage {
                Stage::Sent => {
                    self.finish(nth, None);
                }
                // Its turn to be sent ends it.
                Stage::Queued => request.peer = u32::MAX,
                Stage::Free | Stage::Done(_) => {}
            }
        }
    }
}

/// The mask on the wire (open question 30).
fn wire_mask(ports: PortMask, zero_based: bool) -> u32 {
    if zero_based { ports.bits() >> 1 } else { ports.bits() }
}

fn ports_of(mask: u32, zero_based: bool) -> PortMask {
    PortMask::from_bits(if zero_based { mask << 1 } else { mask })
}

impl Endpoint<'_> {
    /// Performs an endpoint operation once; [`Endpoint::poll_endpoint_op`] tells how it ended.
    ///
    /// # Errors
    /// Nothing was queued; the variant says why.
    pub fn post_endpoint_op(&mut self, peer: PeerHandle, request: &OpRequest) -> Result<(), OpError> {
        let slot = self.peers.get(peer.0 as usize).filter(|slot| slot.used).ok_or(OpError::Peer)?;
        if !slot.reachable.contains(request.path.port) || request.dscp.is_some_and(|dscp| dscp > 63) {
            return Err(OpError::Range);
        }
        if matches!(slot.route, Route::Srv6Entry) != request.path.dst.is_some() {
            return Err(OpError::Range);
        }
        let admitted = self.ops.admit(Request {
            peer: peer.0,
            op: request.op,
            ports: request.ports,
            dscp: request.dscp,
            path: request.path,
            owner: Owner::Application(request.cookie),
            timeout_ns: request.timeout_ns,
            ..Request::NONE
        });
        if admitted { Ok(()) } else { Err(OpError::Busy) }
    }

    /// The endpoint operation that ended longest ago. Until it is taken its place is not free for another.
    pub fn poll_endpoint_op(&mut self) -> Option<OpOutcome> {
        let nth = self.ops.done.pop()?;
        let request = self.ops.slot(nth)?;
        let Stage::Done(answer) = core::mem::replace(&mut request.stage, Stage::Free) else { return None };
        let Owner::Application(cookie) = request.owner else { return None };
        let (peer, op) = (PeerHandle(request.peer), request.op);
        self.ops.free |= 1u64.wrapping_shl(nth.into());
        Some(OpOutcome { cookie, peer, op, answer })
    }

    /// The ports that a peer says are up; all of them until it has told.
    pub fn peer_ports(&self, peer: PeerHandle) -> Option<PortMask> {
        self.peers.get(peer.0 as usize).filter(|slot| slot.used).map(|slot| slot.announced)
    }

    /// Ports through which packets to a peer can leave and arrive now.
    pub(super) fn ports_to(&self, peer: &PeerSlot) -> PortMask {
        self.up.and(peer.reachable).and(peer.announced)
    }

    /// A frame for QP 2.
    //= EPOP-001, EPOP-004
    pub(super) fn on_endpoint(&mut self, now: Instant, port: PortNum, frame: &Frame) -> Result<Received, Discard> {
        if frame.bth.dest_qp != Qpn::ENDPOINT {
            return Err(Discard::Qpn);
        }
        if !self.same_partition(frame.bth.pkey) {
            return Err(Discard::Pkey);
        }
        let peer = self.peer_index.find(self.peers, &frame.dst, &frame.src).ok_or(Discard::Stranger)?;
        match &frame.body {
            mrc_wire::Body::EndpointRequest(request) => self.on_request(now, port, peer, frame, request)?,
            mrc_wire::Body::EndpointResponse(response) => self.on_response(now, port, peer, frame, response)?,
            _ => return Err(Discard::Opcode),
        }
        Ok(Received::Nothing)
    }

    //= EPOP-003, EPOP-004
    fn on_request(
        &mut self,
        now: Instant,
        port: PortNum,
        peer: u32,
        frame: &Frame,
        request: &EndpointRequestRepr,
    ) -> Result<(), Discard> {
        // Room for the answer first: what is not answered must not count either.
        if self.ops.answers.is_full() || !self.ops.answer_pace.allows(now) {
            return Err(Discard::EndpointRate);
        }
        self.stats.rx_endpoint_request += 1;
        let id = frame.bth.psn.value() as u16;
        if request.op == EndpointOp::PortStatusUpdate {
            self.on_port_update(now, peer, id, ports_of(request.port_status_mask, self.cfg.port_mask_zero_based));
        }
        let timestamp = request.tseth.reflected();
        let serviced = self.cfg.endpoint_svc_time && !request.tseth.tsr && timestamp != 0;
        let due = Due { peer, id, op: request.op, timestamp, serviced, arrived: stamp(now), port, ev: frame.entropy };
        self.ops.answers.push(due);
        Ok(())
    }

    /// The peer's ports are those of `mask`, for every registration of that node. QPs read the mask when they choose a
    /// path, so nobody needs to be told.
    //= EPOP-005
    fn on_port_update(&mut self, now: Instant, first: u32, id: u16, mask: PortMask) {
        let rto = self.cfg.port_update_rto_ns;
        let mut next = Some(first);
        while let Some(peer) = next {
            next = PeerIndex::next(self.peers, peer);
            let Some(slot) = self.peers.get_mut(peer as usize) else { return };
            // Updates travel on all planes at once: an older one may come in behind a newer one.
            let overtaken = slot.last_update.is_some_and(|(last, at)| {
                let behind = last.wrapping_sub(id);
                behind != 0 && behind <= OVERTAKEN && now.since(at) < rto
            });
            if overtaken {
                self.stats.port_update_stale += 1;
                continue;
            }
            slot.last_update = Some((id, now));
            let before = core::mem::replace(&mut slot.announced, mask);
            if before.and(slot.reachable) == mask.and(slot.reachable) {
                continue;
            }
            self.stats.peer_ports_changed += 1;
            self.events.raise(&mut self.stats, Event::PeerPorts { peer: PeerHandle(peer), ports: mask });
        }
    }

    //= EPOP-002
    fn on_response(
        &mut self,
        now: Instant,
        port: PortNum,
        peer: u32,
        frame: &Frame,
        response: &EndpointResponseRepr,
    ) -> Result<(), Discard> {
        let id = frame.bth.psn.value() as u16;
        let mut next = Some(peer);
        let mut answered = false;
        while let Some(peer) = next {
            next = PeerIndex::next(self.peers, peer);
            if response.op == EndpointOp::PortStatusUpdate && self.update_answered(peer, id) {
                answered = true;
            }
            let nth = (id & (REQUESTS as u16 - 1)) as u8;
            let Some(request) = self.ops.slot(nth) else { continue };
            if request.stage == Stage::Sent && (request.peer, request.id, request.op) == (peer, id, response.op) {
                let elapsed = now.since(request.sent_at);
                let measured = u64::from(stamp(now).wrapping_sub(response.timestamp)) << 7;
                // One tick of rounding on each side.
                let adjusted = elapsed < TIMESTAMP_SPAN_NS && measured.saturating_add(256) < elapsed;
                let rtt_ns = if adjusted { measured } else { elapsed };
                self.end_request(nth, Some(OpAnswer { port, rtt_ns, adjusted }));
                answered = true;
            }
        }
        if answered {
            self.stats.rx_endpoint_response += 1;
            Ok(())
        } else {
            Err(Discard::StaleProbe)
        }
    }

    fn end_request(&mut self, nth: u8, answer: Option<OpAnswer>) {
        if let Some((qp, choice)) = self.ops.finish(nth, answer) {
            self.way_back_probed(qp, choice, answer.is_some());
        }
    }

    /// Ends requests whose time is over.
    fn expire_requests(&mut self, now: Instant) {
        let mut next = Instant::FAR;
        for nth in 0..REQUESTS as u8 {
            let Some(deadline) = self.ops.slot(nth).filter(|r| r.stage == Stage::Sent).map(|r| r.deadline) else {
                continue;
            };
            if deadline <= now {
                self.end_request(nth, None);
            } else {
                next = next.min(deadline);
            }
        }
        self.ops.expiry = next;
    }

    /// The peer has heard of our ports.
    fn update_answered(&mut self, peer: u32, id: u16) -> bool {
        let Some(slot) = self.peers.get_mut(peer as usize) else { return false };
        if slot.update.rounds == 0 || slot.update.id != id {
            return false;
        }
        slot.update.rounds = 0;
        slot.update.todo = PortMask::NONE;
        self.ops.sending.remove(self.peers, peer);
        self.ops.waiting.remove(self.peers, peer);
        true
    }

    /// Tells every peer that has a QP of ours which of our ports are up. A rare event: visiting every peer costs less
    /// than tracking who has a QP.
    //= PORT-005, EPOP-006
    pub(super) fn announce_ports(&mut self, now: Instant) {
        for peer in 0..self.peers.len() as u32 {
            self.announce_to(now, peer);
        }
    }

    /// A QP towards `peer` can send now: the peer may know nothing of our ports, or what it knew of an earlier life.
    //= EPOP-006
    pub(super) fn announce_on_rts(&mut self, now: Instant, peer: u32) {
        let Some(slot) = self.peers.get(peer as usize) else { return };
        let told = slot.update.told == self.up && now.since(slot.update.changed) < self.cfg.port_update_rto_ns;
        if self.cfg.port_update_on_rts && !(told && slot.update.changes > 0) {
            self.announce_to(now, peer);
        }
    }

    fn announce_to(&mut self, now: Instant, peer: u32) {
        let rto = self.cfg.port_update_rto_ns;
        self.ops.waiting.remove(self.peers, peer);
        let Some(slot) = self.peers.get_mut(peer as usize).filter(|slot| slot.used && slot.users > 0) else { return };
        let update = &mut slot.update;
        if now.since(update.changed) >= rto {
            (update.changed, update.changes) = (now, 0);
        }
        update.changes = update.changes.saturating_add(1);
        update.id = update.id.wrapping_add(1);
        update.rounds = 0;
        if update.changes > CHANGES_PER_RTO {
            self.ops.sending.remove(self.peers, peer);
            self.wait_for_answer(now, peer);
        } else {
            self.start_round(peer);
            self.round_sent(now, peer);
        }
    }

    /// The next round of updates: one request per plane that still leads to the peer.
    fn start_round(&mut self, peer: u32) {
        let Some(slot) = self.peers.get(peer as usize) else { return };
        let todo = self.ports_to(slot);
        let up = self.up;
        let Some(slot) = self.peers.get_mut(peer as usize) else { return };
        (slot.update.todo, slot.update.told) = (todo, up);
        slot.update.rounds = slot.update.rounds.saturating_add(1);
        // The EV of a plane that was not answered may be the dead one.
        if slot.update.rounds > 1
            && let Some(index) = slot.ev_profile
            && let Some(entries) = profile(self.ev_entries, self.ev_profiles, &self.limits, index)
        {
            slot.ways.redraw(entries, &mut self.rng);
        }
        self.ops.sending.push(self.peers, peer);
    }

    /// Nothing of the round is left to send: wait for the answer.
    fn round_sent(&mut self, now: Instant, peer: u32) {
        if self.peers.get(peer as usize).is_some_and(|slot| slot.update.todo.is_empty()) {
            self.ops.sending.remove(self.peers, peer);
            self.wait_for_answer(now, peer);
        }
    }

    fn wait_for_answer(&mut self, now: Instant, peer: u32) {
        if let Some(slot) = self.peers.get_mut(peer as usize) {
            slot.update.due = now.after(self.cfg.port_update_rto_ns.max(1));
        }
        self.ops.waiting.push(self.peers, peer);
    }

    /// What time alone does to endpoint operations. O(1) but for the peers whose round is due.
    pub(super) fn ops_timeout(&mut self, now: Instant) {
        if now >= self.ops.expiry {
            self.expire_requests(now);
        }
        while let Some(peer) = self.ops.waiting.front() {
            let Some(update) = self.peers.get_mut(peer as usize).map(|slot| &mut slot.update) else { return };
            if update.due > now {
                return;
            }
            let spent = update.rounds > REPEATS;
            self.ops.waiting.remove(self.peers, peer);
            if spent {
                self.stats.port_update_unanswered += 1;
            } else {
                self.start_round(peer);
                self.round_sent(now, peer);
            }
        }
    }

    /// The next frame of an endpoint operation: answers, then news of our ports, then requests.
    pub(super) fn send_op(&mut self, now: Instant, ports: PortMask, out: &mut [u8]) -> Option<Transmit> {
        self.send_answer(now, ports, out)
            .or_else(|| self.send_update(now, ports, out))
            .or_else(|| self.send_request(now, ports, out))
    }

    //= EPOP-003
    fn send_answer(&mut self, now: Instant, ports: PortMask, out: &mut [u8]) -> Option<Transmit> {
        while let Some(due) = self.ops.answers.front() {
            let Some(slot) = self.peers.get(due.peer as usize).filter(|slot| slot.used) else {
                self.ops.answers.pop();
                continue;
            };
            let usable = self.ports_to(slot);
            let free = usable.and(ports);
            let profile = slot.ev_profile;
            let way = if profile.is_some() {
                let choice = self.peers.get_mut(due.peer as usize).and_then(|slot| slot.ways.pick(free));
                choice.and_then(|choice| self.way(due.peer, profile, choice))
            } else if free.contains(due.port) {
                self.way_of(due.peer, &EvEntry::new(due.ev, due.port))
            } else {
                None
            };
            let Some(way) = way else {
                if free == usable {
                    // Nothing leads there: the peer asks again.
                    self.ops.answers.pop();
                    continue;
                }
                return None;
            };
            self.ops.answers.pop();
            // 0 means "no timestamp": a sum that lands on it is moved by one tick.
            let service = if due.serviced { stamp(now).wrapping_sub(due.arrived) } else { 0 };
            let timestamp = if due.serviced { due.timestamp.wrapping_add(service).max(1) } else { due.timestamp };
            let body = EndpointResponseRepr { op: due.op, timestamp };
            let rest = self.op_headers(due.peer, &way, Opcode::EndpointResponse, due.id, None, out);
            let Some((transmit, rest)) = rest else { continue };
            body.emit(rest.first_chunk_mut()?);
            self.stats.tx_endpoint_response += 1;
            return Some(transmit);
        }
        None
    }

    //= EPOP-006
    fn send_update(&mut self, now: Instant, ports: PortMask, out: &mut [u8]) -> Option<Transmit> {
        let up = wire_mask(self.up, self.cfg.port_mask_zero_based);
        for _ in 0..ATTEMPTS {
            let peer = self.ops.sending.front()?;
            let slot = self.peers.get_mut(peer as usize)?;
            slot.update.todo = slot.update.todo.and(self.up);
            let Some(port) = slot.update.todo.and(ports).lowest() else {
                if !slot.update.todo.is_empty() {
                    // The driver has no frame for these ports; others may have their turn.
                    self.ops.sending.remove(self.peers, peer);
                    self.ops.sending.push(self.peers, peer);
                } else {
                    self.round_sent(now, peer);
                }
                continue;
            };
            slot.update.todo = slot.update.todo.without(port);
            let (choice, profile, id) = (slot.ways.on(port), slot.ev_profile, slot.update.id);
            self.round_sent(now, peer);
            let Some(way) = choice.and_then(|choice| self.way(peer, profile, choice)) else { continue };
            let Some((transmit, rest)) = self.op_headers(peer, &way, Opcode::EndpointRequest, id, None, out) else {
                continue;
            };
            let body = EndpointRequestRepr {
                op: EndpointOp::PortStatusUpdate,
                vendor_info: 0,
                port_status_mask: up,
                tseth: TsethRepr::ns128(stamp(now)),
            };
            body.emit(rest.first_chunk_mut()?);
            self.stats.tx_endpoint_request += 1;
            return Some(transmit);
        }
        None
    }

    //= EPOP-001
    fn send_request(&mut self, now: Instant, ports: PortMask, out: &mut [u8]) -> Option<Transmit> {
        for _ in 0..self.ops.queue.len {
            let nth = self.ops.queue.pop()?;
            let request = *self.ops.slot(nth)?;
            if !ports.contains(request.path.port) {
                if self.up.contains(request.path.port) {
                    self.ops.queue.push(nth);
                } else {
                    self.end_request(nth, None);
                }
                continue;
            }
            let way = self.way_of(request.peer, &request.path);
            let probe = request.op == EndpointOp::EvProbe;
            let dscp = request.dscp.or_else(|| probe.then_some(self.cfg.wire.dscp.no_trim));
            let headers =
                way.and_then(|way| self.op_headers(request.peer, &way, Opcode::EndpointRequest, request.id, dscp, out));
            let Some((transmit, rest)) = headers else {
                self.end_request(nth, None);
                continue;
            };
            let ports = if probe { PortMask::NONE } else { request.ports };
            let body = EndpointRequestRepr {
                op: request.op,
                vendor_info: 0,
                port_status_mask: wire_mask(ports, self.cfg.port_mask_zero_based),
                tseth: TsethRepr::ns128(stamp(now)),
            };
            body.emit(rest.first_chunk_mut()?);
            self.stats.tx_endpoint_request += 1;
            let deadline = now.after(request.timeout_ns.max(1));
            let slot = self.ops.slot(nth)?;
            (slot.stage, slot.sent_at, slot.deadline) = (Stage::Sent, now, deadline);
            self.ops.expiry = self.ops.expiry.min(deadline);
            return Some(transmit);
        }
        None
    }

    /// Everything up to BTH of an endpoint operation, and where its body goes. Without a code point it is a control packet.
    fn op_headers<'o>(
        &mut self,
        peer: u32,
        way: &Way,
        opcode: Opcode,
        id: u16,
        dscp: Option<u8>,
        out: &'o mut [u8],
    ) -> Option<(Transmit, &'o mut [u8])> {
        let body = if opcode == Opcode::EndpointRequest { EndpointRequestRepr::LEN } else { EndpointResponseRepr::LEN };
        let control = if self.cfg.ctl_ect { Ecn::Ect0 } else { Ecn::NotEct };
        let ecn = if dscp.is_some() { Ecn::Ect0 } else { control };
        let dscp = dscp.unwrap_or(self.cfg.wire.dscp.control);
        let sizes = Sizes::headers(BthRepr::LEN + body);
        let (start, transmit) = self.lower_layers(peer, way, dscp, ecn, sizes, None, out)?;
        let bth = control_bth(Qpn::ENDPOINT, self.cfg.pkey, opcode, Psn::new(id.into()), false);
        let rest = emit_bth(&bth, self.cfg.wire.bth_se_bit, out.get_mut(start..)?)?;
        Some((transmit, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //= EPOP-004 test
    #[test]
    fn a_pace_allows_its_burst_and_then_its_rate() {
        let mut pace = Pace::per_second(1_000, 4);
        let at = |us: u64| Instant::from_nanos(us * 1_000);
        let burst = (0..10).filter(|_| pace.allows(at(5_000))).count();
        assert_eq!(burst, 4);
        let steady = (0..1_000).filter(|&ms| pace.allows(at(6_000 + ms * 100))).count();
        assert_eq!(steady, 100, "one per millisecond, asked ten times as often");
        assert!(!Pace::per_second(0, 4).allows(at(0)));
    }

    #[test]
    fn masks_follow_the_numbering() {
        let ports = PortMask::NONE.with(PortNum::from_plane(0)).with(PortNum::from_plane(3));
        assert_eq!(wire_mask(ports, false), 0b1_0010);
        assert_eq!(wire_mask(ports, true), 0b1001);
        assert_eq!(ports_of(0b1_0011, false), ports);
        assert_eq!(ports_of(0b1001, true), ports);
    }
}
