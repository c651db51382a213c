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
    BthRepr, Ecn, EndpointOp, EndpointRequestRepr, EndpointResponseRepr, Frame, Opcode, PortNum, Psn, Qpn, TsethRepr,
};

use super::{
    Endpoint, PeerHandle, Received, Transmit,
    op_table::{Due, Owner, REQUESTS, Request, Stage, Waiting},
    peers::{PeerIndex, PeerSlot},
    profiles::profile,
    schedule::ATTEMPTS,
    tx::{Entries, below_bth, control_bth, count_sent, emit_bth, stamp},
};
use crate::{
    config::{MAX_PORTS, Route},
    error::{Discard, OpError},
    event::Event,
    num::Counter,
    path::{Choice, EvEntry},
    port::PortMask,
    time::Instant,
};

/// Rounds after the first, each one RTO after the last; then the wait for an answer doubles from round to round.
//= EPOP-006
const REPEATS: u8 = 3;
/// Rounds after which an update counts as unanswered.
const ROUNDS_IN_TIME: u8 = REPEATS + 1;
/// Changes announced at once: as many as all ports that fail and come back. An RTO makes room for as many again; what
/// finds none waits for the next round, so that a port that flaps does not make us a sender of updates.
const CHANGES_PER_RTO: u64 = 2 * MAX_PORTS as u64;
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
    //= SEL-006
    pub(super) fn ports_to(&self, peer: &PeerSlot) -> PortMask {
        peer.usable(self.up)
    }

    /// Ports for packets that may show whether a port of the peer works: the usable ones, or, where the peer's update
    /// leaves none, those it masks. An update is a hint, not a verdict.
    //= EPOP-009
    pub(super) fn ports_to_test(&self, peer: &PeerSlot) -> PortMask {
        let usable = self.ports_to(peer);
        if usable.is_empty() && self.cfg.probe_masked_ports { self.up.and(peer.reachable) } else { usable }
    }

    /// A valid packet of an open QP arrived on `port`, which leads to the peer's port of the same number.
    //= EPOP-008
    #[inline(always)]
    pub(super) fn heard_through(&mut self, now: Instant, qp: u32, port: PortNum) {
        let Some(slot) = self.qps.get(qp as usize) else { return };
        if self.peers.get(slot.peer as usize).is_some_and(|peer| !peer.announced.contains(port)) {
            self.unmask(now, slot.peer, port);
        }
    }

    /// The masked `port` of a peer works after all.
    //= EPOP-008
    #[cold]
    fn unmask(&mut self, now: Instant, peer: u32, port: PortNum) {
        let Some(slot) = self.peers.get(peer as usize) else { return };
        let after_ns = self.cfg.port_unmask_after_ns;
        if after_ns == 0 || now.since(slot.masked_at) < after_ns {
            return;
        }
        let mut next = self.peer_index.find(self.peers, &slot.local, &slot.remote);
        while let Some(peer) = next {
            next = PeerIndex::next(self.peers, peer);
            let Some(slot) = self.peers.get_mut(peer as usize) else { return };
            let ports = slot.announced.with(port);
            if core::mem::replace(&mut slot.announced, ports) == ports || !slot.reachable.contains(port) {
                continue;
            }
            self.stats.peer_ports_unmasked.inc();
            self.events.raise(&mut self.stats, Event::PeerPorts { peer: PeerHandle(peer), ports });
            self.tell_peer_ports(peer);
        }
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
        self.stats.rx_endpoint_request.inc();
        let id = frame.bth.psn.value() as u16;
        if request.op == EndpointOp::PortStatusUpdate {
            self.on_port_update(now, peer, id, ports_of(request.port_status_mask, self.cfg.port_mask_zero_based));
        }
        let timestamp = request.tseth.reflected();
        let serviced = self.cfg.endpoint_svc_time && !request.tseth.tsr && timestamp != 0;
        let peer = self.answering(peer);
        let due = Due { peer, id, op: request.op, timestamp, serviced, arrived: stamp(now), port, ev: frame.entropy };
        self.ops.answers.push(due);
        Ok(())
    }

    /// The registration of a node that answers for all of them: one with paths of its own, else one that a bare EV, as the
    /// request brought it, leads back along.
    fn answering(&self, first: u32) -> u32 {
        let (mut next, mut bare) = (Some(first), None);
        while let Some(peer) = next {
            next = PeerIndex::next(self.peers, peer);
            let Some(slot) = self.peers.get(peer as usize) else { continue };
            if slot.ev_profile.is_some() {
                return peer;
            }
            if !matches!(slot.route, Route::Srv6Entry) {
                bare = Some(peer);
            }
        }
        bare.unwrap_or(first)
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
                self.stats.port_update_stale.inc();
                continue;
            }
            slot.last_update = Some((id, now));
            if !slot.announced.minus(mask).is_empty() {
                slot.masked_at = now;
            }
            let before = core::mem::replace(&mut slot.announced, mask);
            if before.and(slot.reachable) == mask.and(slot.reachable) {
                continue;
            }
            self.stats.peer_ports_changed.inc();
            self.events.raise(&mut self.stats, Event::PeerPorts { peer: PeerHandle(peer), ports: mask });
            self.tell_peer_ports(peer);
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
        if self.take_response(now, port, peer, id, response) || self.forward_response(peer, id, port, response) {
            self.stats.rx_endpoint_response.inc();
            Ok(())
        } else {
            Err(Discard::StaleProbe)
        }
    }

    /// Whether a request of this endpoint waited for the answer.
    pub(super) fn take_response(
        &mut self,
        now: Instant,
        port: PortNum,
        peer: u32,
        id: u16,
        response: &EndpointResponseRepr,
    ) -> bool {
        let mut next = Some(peer);
        let mut answered = false;
        while let Some(peer) = next {
            next = PeerIndex::next(self.peers, peer);
            if response.op == EndpointOp::PortStatusUpdate && self.update_answered(peer, id) {
                answered = true;
            }
            let nth = (id & const { REQUESTS as u16 - 1 }) as u8;
            let Some(request) = self.ops.slot(nth) else { continue };
            if request.stage == Stage::Sent && (request.peer, request.id, request.op) == (peer, id, response.op) {
                let elapsed = now.since(request.sent_at);
                let measured = u64::from(stamp(now).wrapping_sub(response.timestamp)) << 7;
                // One tick of rounding on each side.
                let adjusted = elapsed < TIMESTAMP_SPAN_NS && measured.saturating_add(256) < elapsed;
                let rtt_ns = if adjusted { measured } else { elapsed };
                self.end_request(nth, Some(OpAnswer { port, rtt_ns, adjusted }));
                answered = true;
            } else if response.op == EndpointOp::EvProbe
                && let Some((qp, choice, age_ns)) = self.ops.take_late(now, peer, id)
            {
                self.stats.way_back_late.inc();
                self.way_back_probed(qp, choice, Some(age_ns));
                answered = true;
            }
        }
        answered
    }

    fn end_request(&mut self, nth: u8, answer: Option<OpAnswer>) {
        if let Some((qp, choice)) = self.ops.finish(nth, answer) {
            self.way_back_probed(qp, choice, answer.map(|answer| answer.rtt_ns));
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

    /// A QP towards `peer` can send now: the peer may know nothing of our ports, or what it knew of an earlier life.
    //= EPOP-006
    pub(super) fn announce_on_rts(&mut self, now: Instant, peer: u32) {
        self.tell_peer_used(peer, true);
        let Some(slot) = self.peers.get(peer as usize) else { return };
        let lately = slot.update.changed.is_some_and(|at| now.since(at) < self.cfg.port_update_rto_ns);
        let told = lately && slot.update.told == self.up;
        if self.cfg.port_update_on_rts && !told {
            self.announce_to(now, peer);
        }
    }

    /// Tells a peer that has a QP of ours which of our ports are up.
    //= PORT-005, EPOP-006
    pub(super) fn announce_to(&mut self, now: Instant, peer: u32) {
        // The first shard speaks for all, or updates of the node would overtake each other.
        if self.cfg.shard.index > 0 {
            return;
        }
        let rto = self.cfg.port_update_rto_ns;
        self.ops.waiting.remove(self.peers, peer);
        let Some(slot) = self.peers.get_mut(peer as usize).filter(|slot| slot.used && slot.is_used()) else { return };
        let update = &mut slot.update;
        update.changed = Some(now);
        update.id = update.id.wrapping_add(1);
        update.rounds = 0;
        let spent_until = update.spent_until.max(now).after(rto / CHANGES_PER_RTO);
        if spent_until.since(now) > rto {
            self.ops.sending.remove(self.peers, peer);
            self.wait_for_answer(now, peer);
        } else {
            update.spent_until = spent_until;
            self.start_round(peer);
            self.round_sent(now, peer);
        }
    }

    /// The next round of updates: one request per plane that still leads to the peer.
    fn start_round(&mut self, peer: u32) {
        let Some(slot) = self.peers.get(peer as usize) else { return };
        let todo = self.ports_to_test(slot);
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
        self.ops.waiting.remove(self.peers, peer);
        if let Some(slot) = self.peers.get_mut(peer as usize) {
            let rto = self.cfg.port_update_rto_ns.max(1);
            slot.update.level = Waiting::level(slot.update.rounds, REPEATS);
            let wait = rto
                .saturating_mul(1u64.wrapping_shl(slot.update.level.into()))
                .min(self.cfg.port_update_max_ns.max(rto));
            slot.update.due = now.after(wait);
        }
        self.ops.waiting.push(self.peers, peer);
    }

    /// What time alone does to endpoint operations. O(1) but for the peers whose round is due, at most `call_budget`.
    pub(super) fn ops_timeout(&mut self, now: Instant) {
        if now >= self.ops.expiry {
            self.expire_requests(now);
        }
        let mut left = self.cfg.call_budget;
        while left > 0
            && let Some(peer) = self.ops.waiting.due(now, self.peers)
        {
            left = left.saturating_sub(1);
            let rounds = self.peers.get(peer as usize).map_or(0, |slot| slot.update.rounds);
            self.stats.port_update_unanswered.inc_by(u64::from(rounds == ROUNDS_IN_TIME));
            self.ops.waiting.remove(self.peers, peer);
            self.start_round(peer);
            self.round_sent(now, peer);
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
            let usable = self.ports_to_test(slot);
            let free = usable.and(ports);
            let bound = slot.ev_profile;
            let way = if let Some(index) = bound {
                let entries = profile(self.ev_entries, self.ev_profiles, &self.limits, index);
                let slot = self.peers.get_mut(due.peer as usize);
                let choice =
                    slot.zip(entries).and_then(|(slot, entries)| slot.ways.pick_answer(free, entries, &mut self.rng));
                choice.and_then(|choice| self.entry_of(bound, choice))
            } else if free.contains(due.port) {
                self.leads_to(due.peer, EvEntry::new(due.ev, due.port))
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
            body.emit_at(self.cfg.wire.eeth_op_bit, rest.first_chunk_mut()?);
            self.stats.tx_endpoint_response.inc();
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
            let Some(way) = choice.and_then(|choice| self.entry_of(profile, choice)) else { continue };
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
            self.stats.tx_endpoint_request.inc();
            return Some(transmit);
        }
        None
    }

    //= EPOP-001, BTH-014
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
            let way = self.leads_to(request.peer, request.path);
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
            self.stats.tx_endpoint_request.inc();
            let deadline = now.after(request.timeout_ns.max(1));
            let slot = self.ops.slot(nth)?;
            (slot.stage, slot.sent_at, slot.deadline) = (Stage::Sent, now, deadline);
            self.ops.expiry = self.ops.expiry.min(deadline);
            return Some(transmit);
        }
        None
    }

    /// The path `choice` of a profile, with the destination that its entry holds.
    fn entry_of(&self, profile: Option<u32>, choice: Choice) -> Option<EvEntry> {
        let entry = *Entries::of(self.ev_entries, &self.limits, profile?).get(choice.entry)?;
        Some(EvEntry { ev: choice.ev, port: choice.port, ..entry })
    }

    /// A path that is given entry and all, if the peer can be reached by it.
    fn leads_to(&self, peer: u32, entry: EvEntry) -> Option<EvEntry> {
        let needs_dst = matches!(self.peers.get(peer as usize)?.route, Route::Srv6Entry);
        if needs_dst && entry.dst.is_none() { None } else { Some(entry) }
    }

    /// Everything up to BTH of an endpoint operation, and where its body goes. Without a code point it is a control packet.
    fn op_headers<'o>(
        &mut self,
        peer: u32,
        way: &EvEntry,
        opcode: Opcode,
        id: u16,
        dscp: Option<u8>,
        out: &'o mut [u8],
    ) -> Option<(Transmit, &'o mut [u8])> {
        let body = if opcode == Opcode::EndpointRequest { EndpointRequestRepr::LEN } else { EndpointResponseRepr::LEN };
        let control = if self.cfg.ctl_ect { Ecn::Ect0 } else { Ecn::NotEct };
        let ecn = if dscp.is_some() { Ecn::Ect0 } else { control };
        let dscp = dscp.unwrap_or(self.cfg.wire.dscp.control);
        let peer = self.peers.get(peer as usize)?;
        let len = body.wrapping_add(BthRepr::LEN);
        let (start, transmit) = below_bth(peer, (way.ev, way.port), || Some(way), dscp, ecn, len, None, out)?;
        count_sent(&mut self.stats, &transmit);
        let bth = control_bth(Qpn::ENDPOINT, self.cfg.pkey, opcode, Psn::new(id.into()), false);
        let rest = emit_bth(&bth, self.cfg.wire.bth_se_bit, out.get_mut(start..)?)?;
        Some((transmit, rest))
    }
}

crate::image::stored!(struct OpAnswer { port, rtt_ns, adjusted });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_follow_the_numbering() {
        let ports = PortMask::NONE.with(PortNum::from_plane(0)).with(PortNum::from_plane(3));
        assert_eq!(wire_mask(ports, false), 0b1_0010);
        assert_eq!(wire_mask(ports, true), 0b1001);
        assert_eq!(ports_of(0b1_0011, false), ports);
        assert_eq!(ports_of(0b1001, true), ports);
    }
}
