//! Endpoint operations on QP 2, asked and answered: EV probes and Port Status Updates. Connectionless and best effort;
//! every table is of fixed size and every packet costs O(1). `op_frames` writes the frames, `port_status` says what an
//! update means and when it is repeated; the state of EVs is `path`'s. Source: `transport.md` 7, `paths.md` 11.
//!
//! ```text
//! application, reverse paths --> requests (64) --> queue --> frame --> answer or timeout --> done --> poll_endpoint_op
//! local port change, RTS ------> sending (peers) --> one frame per plane --> waiting (peers) --> answer, or again
//! frame of a peer -------------> answers (32) --> frame
//! ```

use mrc_wire::{EndpointOp, EndpointRequestRepr, EndpointResponseRepr, Frame, Ip, PortNum, Qpn};

use super::{
    Endpoint, PeerHandle, Received,
    below::RouteKind,
    op_frames::ports_of,
    op_table::{DueResponse, Owner, REQUESTS, Request, Stage},
    peers::PeerIndex,
    port_status::ROUNDS_IN_TIME,
};
use crate::{
    error::{Discard, OpError},
    num::Counter,
    path::EvEntry,
    port::PortMask,
    time::Instant,
};

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
    /// Of the request; stale if it was removed meanwhile.
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

impl Endpoint<'_> {
    /// Performs an endpoint operation once; [`Endpoint::poll_endpoint_op`] tells how it ended.
    ///
    /// # Errors
    /// Nothing was queued; the variant says why.
    pub fn post_endpoint_op(&mut self, peer: PeerHandle, request: &OpRequest) -> Result<(), OpError> {
        let slot = self.peers.get(peer.index()).filter(|slot| slot.is(peer)).ok_or(OpError::Peer)?;
        if !slot.reachable.contains(request.path.port) || request.dscp.is_some_and(|dscp| dscp > 63) {
            return Err(OpError::Range);
        }
        if (slot.route == RouteKind::Srv6Entry) != request.path.dst.is_some() {
            return Err(OpError::Range);
        }
        let admitted = self.ops.admit(Request {
            peer: peer.slot(),
            op: request.op,
            ports: request.ports,
            dscp: request.dscp,
            path: request.path,
            owner: Owner::Application { cookie: request.cookie, peer },
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
        let Owner::Application { cookie, peer } = request.owner else { return None };
        let op = request.op;
        self.ops.free |= 1u64.wrapping_shl(nth.into());
        Some(OpOutcome { cookie, peer, op, answer })
    }

    /// The ports that a peer says are up; all of them until it has told.
    pub fn peer_ports(&self, peer: PeerHandle) -> Option<PortMask> {
        self.peers.get(peer.index()).filter(|slot| slot.is(peer)).map(|slot| slot.announced)
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
        let peer = self.peer_index.find(self.peers, self.headers(), &frame.src).ok_or(Discard::Stranger)?;
        if !self.is_local(port, &frame.dst) && !self.is_ours(peer, &frame.dst) {
            return Err(Discard::Stranger);
        }
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
        } else {
            self.peer_heard_through(now, peer, port);
        }
        let timestamp = request.tseth.reflected();
        let serviced = self.cfg.endpoint_svc_time && !request.tseth.tsr && timestamp != 0;
        let peer = self.answering(peer, Some(&frame.dst)).or_else(|| self.answering(peer, None)).unwrap_or(peer);
        let due = DueResponse {
            peer,
            local: frame.dst,
            id,
            op: request.op,
            timestamp,
            serviced,
            arrived: now.stamp(),
            port,
            ev: frame.entropy,
        };
        self.ops.answers.push(due);
        Ok(())
    }

    /// Whether a registration of the node says that `local` is our address.
    fn is_ours(&self, first: u32, local: &Ip) -> bool {
        let mut next = Some(first);
        while let Some(peer) = next {
            next = PeerIndex::next(self.peers, peer);
            let slot = self.peers.get(peer as usize);
            if slot.is_some_and(|slot| self.headers().belong(slot, peer, local, &slot.remote)) {
                return true;
            }
        }
        false
    }

    /// The registration of a node that answers for all of them, or for those where `local` is our address: one with paths of its
    /// own, else one that a bare EV, as the request brought it, leads back along.
    fn answering(&self, first: u32, local: Option<&Ip>) -> Option<u32> {
        let (mut next, mut bare) = (Some(first), None);
        while let Some(peer) = next {
            next = PeerIndex::next(self.peers, peer);
            let Some(slot) = self.peers.get(peer as usize) else { continue };
            if local.is_some_and(|local| !self.headers().belong(slot, peer, local, &slot.remote)) {
                continue;
            }
            if slot.ev_profile.is_some() {
                return Some(peer);
            }
            if slot.route != RouteKind::Srv6Entry {
                bare = Some(peer);
            }
        }
        bare
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
                let measured = u64::from(now.stamp().wrapping_sub(response.timestamp)) << 7;
                // One tick of rounding on each side. 0 reflects no timestamp.
                let told = response.timestamp != 0 && elapsed < TIMESTAMP_SPAN_NS;
                let adjusted = told && measured.saturating_add(256) < elapsed;
                let rtt_ns = if adjusted { measured } else { elapsed };
                self.end_request(nth, Some(OpAnswer { port, rtt_ns, adjusted }));
                answered = true;
            } else if response.op == EndpointOp::EvProbe
                && let Some((qp, choice, age_ns)) = self.ops.take_late(now, peer, id)
            {
                self.stats.return_path_late.inc();
                self.return_path_probed(qp, choice, Some(age_ns));
                answered = true;
            }
        }
        answered
    }

    pub(super) fn end_request(&mut self, nth: u8, answer: Option<OpAnswer>) {
        if let Some((qp, choice)) = self.ops.finish(nth, answer) {
            self.return_path_probed(qp, choice, answer.map(|answer| answer.rtt_ns));
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
}

crate::image::stored!(struct OpAnswer { port, rtt_ns, adjusted });

#[cfg(test)]
mod tests {
    use std::vec;

    use super::super::fetch::tests::{limits, pair};
    use crate::{Instant, MAX_HEADER_LEN, OwnedStorage, PortMask};

    /// Three peers have not answered: two are asked again by the first call, the third by the next one.
    //= EPOP-006 test
    #[test]
    fn updates_that_are_due_together_are_repeated_a_few_per_call() {
        let mut storage = [(); 2].map(|()| OwnedStorage::new(limits()).unwrap());
        let [side, _] = &mut pair(&mut storage, 0);
        let engine = &mut side.engine;
        let mut head = [0; MAX_HEADER_LEN];
        engine.set_port(Instant::ZERO, mrc_wire::PortNum::from_plane(1), false);
        while engine.poll_transmit(Instant::ZERO, PortMask::ALL, &mut head).is_some() {}
        let late = Instant::from_nanos(1_000_000_000);
        engine.cfg.call_budget = 2;
        let mut rounds = vec![];
        while engine.ops.deadline() <= late {
            let before = engine.stats().tx_endpoint_request;
            engine.ops_timeout(late);
            while engine.poll_transmit(late, PortMask::ALL, &mut head).is_some() {}
            rounds.push(engine.stats().tx_endpoint_request - before);
        }
        assert_eq!(rounds, [2, 1]);
    }
}
