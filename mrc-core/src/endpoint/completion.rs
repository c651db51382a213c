//! What the application gets back: completions of writes and of receive requests, in order, never lost. A full queue holds
//! them in their QP. Source: `transport.md` 3.9, 4.6.

use mrc_wire::{Psn, Syndrome};

use super::{Endpoint, part};
use crate::num::Counter;
use crate::{
    config::NoReceive,
    cq::{Completion, CqHandle, Operation, Status},
    event::ErrorCause,
    qp::{Qp, QpState},
    requester::Wqe,
    responder::{Answer, AnswerKind, Immediate},
    time::Instant,
};

/// Most packets that arrive behind a write with immediate whose Transport ACK waits for a receive request.
const MOST_HELD: i32 = 1 << 22;

impl Endpoint<'_> {
    /// The oldest completion of `cq`. A queue that was found full takes nothing more until half of it was polled; what waits
    /// stays in its QP, and none is lost.
    #[inline]
    pub fn poll_completion(&mut self, cq: CqHandle) -> Option<Completion> {
        let completion = self.cqs.pop(cq);
        if completion.is_some() && self.cqs.reopens(cq) {
            self.refill(cq);
        }
        completion
    }

    /// Half of `cq` became free: fills it with completions of the QPs that wait, the one that waits longest first. One by one
    /// each would cost a turn of its QP. Each turn fills the queue or takes a QP off the list, so this ends.
    fn refill(&mut self, cq: CqHandle) {
        while !self.cqs.is_closed(cq)
            && let Some(qp) = self
                .held_completions
                .take(self.qps, |slot| (slot.send_held && slot.send_cq == cq) || (slot.recv_held && slot.recv_cq == cq))
        {
            self.fetch_held(qp);
            let held = self.qps.get(qp as usize).map(|slot| (slot.send_held, slot.recv_held));
            if let Some((true, _)) = held {
                self.complete(qp);
            }
            if let Some((_, true)) = held {
                self.deliver(qp);
                self.wake_control(qp);
            }
        }
    }

    /// Moves finished requests of a QP to their completion queue, in posting order, until one is unfinished or the queue
    /// is full; then the QP waits for `poll_completion`. Writes with immediate make room for others, which may then leave.
    //= TACK-002, TACK-003, TACK-005, WIMM-008, MODEL-003, INV-002
    pub(super) fn complete(&mut self, qp: u32) {
        let Some(slot) = self.qps.get_mut(qp as usize) else { return };
        let Some(ring) = part(self.wqes, qp, self.limits.send_queue) else { return };
        let Some((queue, completions)) = self.cqs.parts(slot.send_cq.slot()) else { return };
        slot.send_held = false;
        let mut wimm_done = false;
        let failed = slot.state == QpState::Error;
        let last_path = slot.req.last_path.map(|choice| (choice.ev, choice.port));
        while let Some((wqe, all_sent)) = slot.sq.oldest(ring) {
            let done = all_sent && slot.req.tack.diff(wqe.last_psn()) >= 0;
            if !done && !failed {
                break;
            }
            let status = if done { Status::Success } else { slot.status_of(wqe, all_sent) };
            if wqe.signaled || status != Status::Success {
                let Some(completion) = queue.push(completions) else {
                    slot.send_held = true;
                    break;
                };
                *completion = Completion {
                    wr_id: wqe.wr_id,
                    operation: if wqe.imm.is_some() { Operation::WriteImm } else { Operation::Write },
                    status,
                    imm: None,
                    solicited: false,
                    qp: slot.qpn,
                    byte_len: wqe.len,
                    first_psn: wqe.first_psn,
                    last_path,
                    retries: slot.req.retry_cnt,
                    since_ack_ns: if status == Status::Success { 0 } else { slot.silent_ns },
                };
            }
            if !matches!(status, Status::Success | Status::Flushed) {
                // Said once, and only now: before there may have been no room for it.
                slot.failed_status = None;
            }
            if wqe.imm.is_some() {
                slot.req.wimm_done();
                wimm_done = true;
            }
            slot.sq.pop_oldest();
        }
        if slot.send_held {
            self.held_completions.push(self.qps, qp);
        } else if failed {
            // What is posted from now on is not what the queue pair failed with.
            slot.failed_status = None;
        }
        if wimm_done {
            self.wake_new_data(qp);
        }
    }

    /// Completes receive requests: with the immediates whose every earlier packet has arrived, oldest first, or flushed
    /// when the QP failed. Stops where an immediate finds no request, which holds the Transport ACK back, or the queue
    /// has no room.
    ///
    /// The driver has moved the bytes of earlier packets before it polls completions (contract of a turn), so a
    /// completion is never seen before the data it announces.
    //= WIMM-003, WIMM-004, WIMM-005, WIMM-006, WIMM-009, INV-006
    pub(super) fn deliver(&mut self, qp: u32) {
        self.deliver_from(qp, None);
    }

    /// Completes a receive request with an immediate for which the stash has no room, if nothing before it is missing and
    /// none waits before it; whether it did. The driver still `moves` its bytes.
    //= WIMM-010
    #[cold]
    #[inline(never)]
    pub(super) fn deliver_in_order(&mut self, qp: u32, imm: Immediate, moves: bool) -> bool {
        let Some(stash) = part(self.immediates, qp, self.limits.wimm) else { return false };
        let ready = self.qps.get(qp as usize).is_some_and(|slot| slot.rsp.is_next(stash, &imm, moves));
        ready && self.deliver_from(qp, Some(imm))
    }

    /// As [`Self::deliver`], beginning with `first`, which is in no stash; whether that completed a request, if there is one.
    fn deliver_from(&mut self, qp: u32, mut first: Option<Immediate>) -> bool {
        let Some(slot) = self.qps.get_mut(qp as usize) else { return false };
        let Some(requests) = part(self.recvs, qp, self.limits.recv_queue) else { return false };
        let Some(stash) = part(self.immediates, qp, self.limits.wimm) else { return false };
        slot.recv_held = false;
        let failed = slot.state == QpState::Error;
        loop {
            let ripe = if failed { None } else { first.or_else(|| slot.rsp.ripe(stash)) };
            if slot.rq.len() == 0 || (ripe.is_none() && !failed) {
                break;
            }
            let room = self.cqs.parts(slot.recv_cq.slot()).and_then(|(queue, completions)| queue.push(completions));
            let Some(completion) = room else {
                slot.recv_held = true;
                self.held_completions.push(self.qps, qp);
                break;
            };
            let Some(request) = slot.rq.pop(requests) else { break };
            if let Some(imm) = ripe {
                if first.take().is_none() {
                    slot.rsp.stash.pop(stash.len());
                }
                self.stats.rqmsn_gaps.inc_by(u64::from(!slot.rsp.in_sequence(imm.rqmsn)));
            }
            *completion = Completion {
                wr_id: request.wr_id,
                operation: Operation::Receive,
                status: if ripe.is_some() { Status::Success } else { Status::Flushed },
                imm: ripe.map(|imm| imm.imm),
                solicited: ripe.is_some_and(|imm| imm.solicited),
                qp: slot.qpn,
                byte_len: ripe.map_or(0, |imm| imm.dmalen),
                first_psn: ripe.map_or(Psn::new(0), |imm| imm.psn),
                last_path: None,
                retries: 0,
                since_ack_ns: 0,
            };
        }
        // `push` above needs all QPs; look the slot up again.
        if let Some(slot) = self.qps.get_mut(qp as usize)
            && !failed
        {
            slot.rsp.settle(stash);
        }
        first.is_none()
    }

    /// After a write was taken in while immediates wait: those that became ripe complete, and one that finds no receive
    /// request waits or fails the QP, as configured.
    //= WIMM-006
    #[inline(never)]
    pub(super) fn after_immediate(&mut self, now: Instant, qp: u32) {
        self.deliver(qp);
        let Some(slot) = self.qps.get_mut(qp as usize) else { return };
        let Some(stash) = part(self.immediates, qp, self.limits.wimm) else { return };
        let Some(starved) = slot.rsp.ripe(stash).filter(|_| slot.rq.len() == 0) else { return };
        self.stats.receive_starved.inc();
        // Held back any longer, its PSN could no longer be compared with those that arrive.
        let too_late = slot.rsp.executed().diff(starved.psn) > MOST_HELD;
        if too_late || self.cfg.no_receive == NoReceive::Nak {
            self.fail_qp(now, qp, ErrorCause::RequestNoReceive, None);
            self.answer_nak(qp, starved.psn, Syndrome::RemoteOperational);
        }
    }

    /// Queues the one NAK that a failed QP still sends.
    pub(super) fn answer_nak(&mut self, qp: u32, psn: Psn, syndrome: Syndrome) {
        if let Some(slot) = self.qps.get_mut(qp as usize) {
            slot.rsp.answers.push(Answer { psn, ..Answer::of(AnswerKind::Nak(syndrome)) });
        }
        self.wake_control(qp);
    }
}

impl Qp {
    /// How a request ends that the QP failed with.
    #[inline(never)]
    fn status_of(&self, wqe: &Wqe, all_sent: bool) -> Status {
        // Only what was sent has PSNs that a NAK can name.
        let begun = all_sent || self.sq.sent > 0;
        let named = |psn: Psn| begun && psn.diff(wqe.first_psn) >= 0 && psn.diff(wqe.last_psn()) <= 0;
        self.failed_status.filter(|_| self.failed_psn.is_none_or(named)).unwrap_or(Status::Flushed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fetch::tests::{limits, pair};
    use super::*;
    use crate::{IcrcCheck, MAX_HEADER_LEN, OwnedStorage, RxMeta, SendWr, port::PortMask, responder::PsnWindow};

    /// The refused packet names one request. The request behind it has no PSNs before it leaves, and flushes.
    //= TACK-005 test
    #[test]
    fn a_request_that_never_left_is_not_the_one_at_fault() {
        let mut qp = Qp { failed_status: Some(Status::RemoteAccess), failed_psn: Some(Psn::new(1)), ..Qp::EMPTY };
        let sent = Wqe { first_psn: Psn::new(0), packets: 2, ..Wqe::EMPTY };
        assert_eq!((qp.status_of(&sent, true), qp.status_of(&sent, false)), (Status::RemoteAccess, Status::Flushed));
        qp.sq.sent = 1;
        assert_eq!(qp.status_of(&sent, false), Status::RemoteAccess, "its first packet left");
        qp.failed_psn = Some(Psn::new(2));
        assert_eq!(qp.status_of(&sent, true), Status::Flushed);
    }

    /// A PSN that is held back can be compared with 2^23 later ones, no more.
    //= WIMM-006 test
    #[test]
    fn an_immediate_waits_for_a_receive_request_while_its_number_can_be_compared() {
        const QP: usize = 0;
        for (behind, fails) in [(1, false), (1 << 22, false), ((1 << 22) + 1, true)] {
            let mut storage = [(); 2].map(|()| OwnedStorage::new(limits()).unwrap());
            let mut sides = pair(&mut storage, 0);
            let req = &mut sides[0].engine.qps[QP].req;
            (req.wimm_tx, req.begin_gate) = (1, 1);
            let mut send = |last: u32, imm| {
                let now = Instant::from_nanos(1);
                let [from, to] = &mut sides;
                let before = Psn::new(last).sub(1);
                let req = &mut from.engine.qps[QP].req;
                (req.max_sent, req.unack) = (before, before);
                to.engine.qps[QP].rsp.window = PsnWindow::new(before, 128);
                from.engine.post_send(now, from.qps[QP], &SendWr { imm, ..SendWr::default() }).unwrap();
                let mut head = [0; MAX_HEADER_LEN];
                while let Some(sent) = from.engine.poll_transmit(now, PortMask::ALL, &mut head) {
                    let rx = RxMeta { port: sent.port, wire_len: sent.frame_len(), icrc: IcrcCheck::Valid };
                    let _ = to.engine.handle_packet(now, rx, &head[..sent.header_len]);
                }
                (to.engine.qps[QP].rsp.stash.len(), to.engine.qps[QP].state)
            };
            assert_eq!(send(1, Some(7)), (1, QpState::Rts));
            let state = if fails { QpState::Error } else { QpState::Rts };
            assert_eq!(send(1 + behind, None).1, state, "{behind} packets behind it");
        }
    }
}
