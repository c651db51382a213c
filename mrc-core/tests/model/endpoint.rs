//! A naive endpoint with one QP: requester, responder and completion queue, and what each frame does to them.

use std::collections::VecDeque;

use mrc_core::{Completion, Discard, ErrorCause, NoReceive, Operation, QpState, Status};
use mrc_wire::{Body, Frame, Ip, Qpn, Syndrome};

use crate::requester::{Failure, Requester};
use crate::responder::{Kind, Outcome, Owed, Responder, Seq};
use crate::schedule::Setup;

/// A completion that must come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Done {
    pub(crate) wr_id: u64,
    pub(crate) operation: Operation,
    pub(crate) status: Status,
    pub(crate) imm: Option<u32>,
    pub(crate) solicited: bool,
    pub(crate) byte_len: u32,
    pub(crate) first_psn: u32,
    pub(crate) retries: u8,
}

impl From<&Completion> for Done {
    fn from(c: &Completion) -> Self {
        Self {
            wr_id: c.wr_id,
            operation: c.operation,
            status: c.status,
            imm: c.imm,
            solicited: c.solicited,
            byte_len: c.byte_len,
            first_psn: c.first_psn.value(),
            retries: c.retries,
        }
    }
}

pub(crate) struct Model {
    pub(crate) own: (Qpn, Ip),
    pub(crate) peer: (Qpn, Ip),
    pub(crate) key: u32,
    pub(crate) state: QpState,
    pub(crate) cause: Option<ErrorCause>,
    pub(crate) req: Requester,
    pub(crate) rsp: Responder,
    pub(crate) cq: VecDeque<Done>,
    /// The queue was found full: nothing goes there until half of it is free.
    cq_closed: bool,
    /// Status of the request that failed, and the PSN that names it.
    fault: Option<(Status, Option<Seq>)>,
    /// Frames sent since the QP failed.
    pub(crate) last_words: u32,
    peer_start: u32,
}

impl Model {
    pub(crate) fn new(setup: &Setup, side: usize, own: (Qpn, Ip), peer: (Qpn, Ip), key: u32) -> Self {
        Self {
            own,
            peer,
            key,
            state: QpState::Rts,
            cause: None,
            req: Requester::new(setup, setup.first_psn[side]),
            rsp: Responder::new(setup.first_psn[1 - side], setup.mpr_dest),
            cq: VecDeque::new(),
            cq_closed: false,
            fault: None,
            last_words: 0,
            peer_start: setup.first_psn[1 - side],
        }
    }

    /// What a frame that passed the wire's checks must do.
    pub(crate) fn receive(&mut self, setup: &Setup, now: u64, frame: &Frame) -> Outcome {
        if frame.bth.dest_qp != self.own.0 {
            return Outcome::Discard(Discard::Qpn);
        }
        // Both are full members of the default partition.
        if frame.bth.pkey & 0x7FFF != 0x7FFF {
            return Outcome::Discard(Discard::Pkey);
        }
        if (frame.src, frame.dst) != (self.peer.1, self.own.1) {
            return Outcome::Discard(Discard::Peer);
        }
        if self.state != QpState::Rts {
            return Outcome::Discard(Discard::State);
        }
        // What answers us counts once it was found to; a trimmed packet, which no ICRC protects, does not.
        if matches!(frame.body, Body::Write { .. } | Body::Probe(_)) {
            self.req.last_heard = now;
        }
        let tick = (now >> 7) as u16;
        let (rtx, psn) = (frame.bth.rtx, frame.bth.psn);
        match &frame.body {
            Body::Write { .. } => self.on_write(setup, now, tick, frame),
            Body::Probe(probe) => self.rsp.on_probe(setup, frame, tick, probe.probe_id),
            Body::Trimmed { kind, .. } => self.rsp.on_trimmed(setup, frame, tick, *kind),
            Body::Sack(sack) => {
                let result = self.req.on_sack(setup, now, sack, rtx);
                self.after_control(setup, result.map(|()| None))
            }
            Body::Nack(nack) => {
                let result = self.req.on_nack(setup, now, nack, rtx);
                self.after_control(setup, result)
            }
            Body::Ack(aeth) => {
                let result = self.req.on_ack(setup, now, psn, aeth);
                self.after_control(setup, result)
            }
            Body::EndpointRequest(_) | Body::EndpointResponse(_) => unreachable!(),
        }
    }

    fn after_control(&mut self, setup: &Setup, result: Result<Failure, Discard>) -> Outcome {
        match result {
            Ok(Some((cause, at))) => {
                self.fail(setup, cause, at);
                Outcome::Nothing
            }
            Ok(None) => {
                self.complete(setup);
                Outcome::Nothing
            }
            Err(why) => {
                self.complete(setup);
                Outcome::Discard(why)
            }
        }
    }

    fn on_write(&mut self, setup: &Setup, _now: u64, tick: u16, frame: &Frame) -> Outcome {
        let key = self.key;
        let outcome = self.rsp.on_write(setup, frame, tick, key);
        match outcome {
            Outcome::Fatal(syndrome) => {
                let cause = match syndrome {
                    Syndrome::RemoteAccess => ErrorCause::RequestAccess,
                    _ => unreachable!(),
                };
                self.refuse(setup, cause, frame.bth.psn, syndrome);
                Outcome::Discard(Discard::Nak)
            }
            Outcome::Broken => {
                self.fail(setup, ErrorCause::RequestFailed, None);
                self.rsp.owed.push(Owed {
                    kind: Kind::Nack(mrc_wire::NackReason::UnexpEvent),
                    trigger: self.seq(frame.bth.psn),
                    ev: frame.entropy,
                    timestamp: frame.timestamp(),
                    rtx: frame.bth.rtx,
                    since: (setup.svc_time && frame.timestamp() != 0).then_some(tick),
                });
                Outcome::Discard(Discard::Refused)
            }
            Outcome::Place { .. } | Outcome::Nothing => {
                if setup.delayed_placement && matches!(outcome, Outcome::Place { .. }) {
                    self.rsp.moving.insert(self.seq(frame.bth.psn));
                }
                self.deliver(setup);
                if self.rsp.is_crowded(setup) {
                    self.rsp.moving.remove(&self.seq(frame.bth.psn));
                    self.refuse(setup, ErrorCause::RequestWimm, frame.bth.psn, Syndrome::InvalidRequest);
                    return Outcome::Discard(Discard::Nak);
                }
                self.executed(setup);
                outcome
            }
            Outcome::Discard(_) | Outcome::Any => outcome,
        }
    }

    /// A packet arrived or is in memory now: what waited for that.
    fn executed(&mut self, setup: &Setup) {
        self.deliver(setup);
        if setup.no_receive == NoReceive::Nak
            && self.rsp.receives.is_empty()
            && let Some((seq, _)) = self.rsp.ripe()
        {
            let psn = crate::responder::psn_of(self.peer_start, seq);
            self.refuse(setup, ErrorCause::RequestNoReceive, psn, Syndrome::RemoteOperational);
        }
    }

    /// The bytes of packet `seq` are in memory.
    pub(crate) fn placed(&mut self, setup: &Setup, seq: Seq) {
        assert!(self.rsp.moving.remove(&seq));
        if self.state != QpState::Error {
            self.executed(setup);
        }
    }

    fn seq(&self, psn: mrc_wire::Psn) -> Seq {
        crate::responder::seq_of(self.peer_start, psn, self.rsp.cack)
    }

    /// Fails the QP and owes the peer the reason; a QP that failed before has said its last word.
    pub(crate) fn refuse(&mut self, setup: &Setup, cause: ErrorCause, psn: mrc_wire::Psn, syndrome: Syndrome) {
        if self.state == QpState::Error {
            return;
        }
        self.fail(setup, cause, None);
        let (ev, trigger) = (mrc_wire::Ev(0), self.seq(psn));
        self.rsp.owed.push(Owed { kind: Kind::Nak(syndrome), trigger, ev, timestamp: 0, rtx: false, since: None });
    }

    /// The bytes of `psn` were never placed: receives that wait in the queue and completed with it or later packets flush.
    pub(crate) fn revoke_receives(&mut self, psn: mrc_wire::Psn) {
        let first = self.seq(psn);
        for nth in 0..self.cq.len() {
            let done = &self.cq[nth];
            let succeeded = done.operation == Operation::Receive && done.status == Status::Success;
            if succeeded && self.seq(mrc_wire::Psn::new(done.first_psn)) >= first {
                let done = &mut self.cq[nth];
                (done.status, done.imm, done.solicited) = (Status::Flushed, None, false);
                (done.byte_len, done.first_psn) = (0, 0);
            }
        }
    }

    pub(crate) fn fail(&mut self, setup: &Setup, cause: ErrorCause, at: Option<Seq>) {
        if self.state == QpState::Error {
            return;
        }
        self.state = QpState::Error;
        self.cause = Some(cause);
        let status = match cause {
            ErrorCause::RetryExceeded | ErrorCause::NoUsablePort => Some(Status::RetryExceeded),
            ErrorCause::RemoteInvalidRequest => Some(Status::RemoteInvalidRequest),
            ErrorCause::RemoteAccess => Some(Status::RemoteAccess),
            ErrorCause::RemoteOperation => Some(Status::RemoteOperation),
            _ => None,
        };
        self.fault = status.map(|status| (status, at));
        self.rsp.owed.clear();
        self.rsp.refused.clear();
        self.rsp.ack_due = false;
        self.settle(setup);
    }

    /// Whatever can complete does, requests before receives.
    pub(crate) fn settle(&mut self, setup: &Setup) {
        self.complete(setup);
        self.deliver(setup);
    }

    fn complete(&mut self, setup: &Setup) {
        while let Some(request) = self.req.requests.get(self.req.oldest).copied() {
            let done = request.last().is_some_and(|last| self.req.tack >= last);
            let failed = self.state == QpState::Error;
            if !done && !failed {
                break;
            }
            let status = match (done, self.fault) {
                (true, _) => Status::Success,
                (false, Some((status, at))) if at.is_none_or(|at| names(&request, at)) => status,
                _ => Status::Flushed,
            };
            if request.signaled || status != Status::Success {
                if !self.has_room(setup) {
                    break;
                }
                self.cq.push_back(Done {
                    wr_id: request.id,
                    operation: if request.imm.is_some() { Operation::WriteImm } else { Operation::Write },
                    status,
                    imm: None,
                    solicited: false,
                    byte_len: request.len,
                    first_psn: self.req.first_psn(&request).value(),
                    retries: self.req.retries,
                });
            }
            if status != Status::Success && status != Status::Flushed {
                self.fault = None;
            }
            if request.imm.is_some() && request.first.is_some() {
                self.req.wimm_done();
            }
            self.req.oldest += 1;
            self.req.current = self.req.current.max(self.req.oldest);
        }
        if self.state == QpState::Error && self.req.oldest == self.req.requests.len() {
            self.fault = None;
        }
    }

    pub(crate) fn deliver(&mut self, setup: &Setup) {
        let failed = self.state == QpState::Error;
        while !self.rsp.receives.is_empty() {
            let ripe = if failed { None } else { self.rsp.ripe() };
            if (ripe.is_none() && !failed) || !self.has_room(setup) {
                break;
            }
            let wr_id = self.rsp.receives.pop_front().unwrap();
            if let Some((seq, _)) = ripe {
                self.rsp.stash.remove(&seq);
            }
            self.cq.push_back(Done {
                wr_id,
                operation: Operation::Receive,
                status: if ripe.is_some() { Status::Success } else { Status::Flushed },
                imm: ripe.map(|(_, waiting)| waiting.imm),
                solicited: ripe.is_some_and(|(_, waiting)| waiting.solicited),
                byte_len: ripe.map_or(0, |(_, waiting)| waiting.dmalen),
                first_psn: ripe.map_or(0, |(seq, _)| crate::responder::psn_of(self.peer_start, seq).value()),
                retries: 0,
            });
        }
        if !failed {
            self.rsp.settle();
        }
    }

    /// The application takes a completion.
    pub(crate) fn reap(&mut self, setup: &Setup) -> Option<Done> {
        let done = self.cq.pop_front();
        if self.cq_closed && self.cq.len() <= setup.cq_depth / 2 {
            self.cq_closed = false;
            self.settle(setup);
        }
        done
    }

    fn has_room(&mut self, setup: &Setup) -> bool {
        self.cq_closed |= self.cq.len() >= setup.cq_depth;
        !self.cq_closed
    }
}

/// Whether `at` is a packet of `request` that was or could be on its way.
fn names(request: &crate::requester::Request, at: Seq) -> bool {
    request.first.is_some_and(|first| (first..first + request.packets).contains(&at))
}
