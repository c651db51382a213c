//! A received frame: validation, then what requester and responder make of it. Source: `wire.md` 13 and 14.

use mrc_wire::{Body, Frame, Ip, NackReason, Opcode, PortNum, ProbeRepr, Qpn, Reject, Syndrome, Trim};

use super::{Endpoint, IcrcCheck, Placement, Received, RxMeta, part, tx::stamp};
use crate::{
    error::Discard,
    event::ErrorCause,
    mem::AccessError,
    qp::QpState,
    requester,
    responder::{self, Answer, AnswerKind, Immediate, Write},
    time::Instant,
};

impl From<Reject> for Discard {
    fn from(reject: Reject) -> Self {
        match reject {
            Reject::L3Bad => Self::L3Bad,
            Reject::L3Dst => Self::L3Dst,
            Reject::L3Len => Self::L3Len,
            Reject::UdpBad => Self::UdpBad,
            Reject::Opcode => Self::Opcode,
            Reject::Tver => Self::Tver,
            _ => Self::Short,
        }
    }
}

impl Endpoint<'_> {
    /// Takes one received frame. `head` holds at least its headers; the rest may lie elsewhere when the driver checked
    /// the ICRC.
    ///
    /// # Errors
    /// The reason why the frame had no further effect; it is counted under the same name.
    pub fn handle_packet(&mut self, now: Instant, rx: RxMeta, head: &[u8]) -> Result<Received, Discard> {
        match self.receive(now, rx, head) {
            Ok(received) => Ok(received),
            Err(why) => Err(self.discard(rx.port, why)),
        }
    }

    //= VAL-010
    fn receive(&mut self, now: Instant, rx: RxMeta, head: &[u8]) -> Result<Received, Discard> {
        let frame = mrc_wire::parse_frame(head, rx.wire_len, &self.cfg.wire, |dst| self.is_local(rx.port, dst))?;
        let trimmed = matches!(frame.body, Body::Trimmed { .. });
        let intact = match rx.icrc {
            IcrcCheck::Valid => true,
            IcrcCheck::Invalid => false,
            IcrcCheck::Verify => trimmed || mrc_wire::icrc::verify(head, frame.l3_offset, frame.icrc_offset),
        };
        if !intact && !trimmed {
            return Err(Discard::Icrc);
        }
        if let Some(port) = self.stats.ports.get_mut(usize::from(rx.port.plane())) {
            port.rx_packets += 1;
        }
        if matches!(frame.body, Body::EndpointRequest(_) | Body::EndpointResponse(_)) {
            return self.on_endpoint(now, rx.port, &frame);
        }
        let qp = self.find_qp(frame.bth.dest_qp).ok_or(Discard::Qpn)?;
        self.admit(qp, &frame)?;
        // A sign of life. What answers our own packets is one only after it was found to (`feedback`), and a trimmed packet,
        // which no ICRC protects, is none.
        if matches!(frame.body, Body::Write { .. } | Body::Probe(_))
            && let Some(slot) = self.qps.get_mut(qp as usize)
        {
            slot.req.last_heard = now;
        }
        self.count_treatment(&frame);
        if matches!(frame.body, Body::Write { .. } | Body::Probe(_)) {
            self.probe_ways_back(now, qp);
        }
        let result = match frame.body {
            Body::Write { .. } => self.on_write(now, rx.port, qp, &frame),
            Body::Probe(probe) => self.on_probe(now, qp, &frame, &probe),
            Body::Trimmed { kind, timestamp } => self.on_trimmed(qp, &frame, kind, timestamp),
            _ => self.on_control(now, qp, &frame),
        };
        if matches!(frame.body, Body::Write { .. } | Body::Probe(_) | Body::Trimmed { .. }) {
            self.wake_control(qp);
        } else {
            self.wake(now, qp);
        }
        result
    }

    /// What switches did to the packet on its way here.
    fn count_treatment(&mut self, frame: &Frame) {
        match frame.body {
            Body::Write { .. } | Body::Probe(_) => self.stats.rx_marked += u64::from(frame.ce),
            Body::Trimmed { .. } => self.stats.rx_trimmed += 1,
            _ => {}
        }
    }

    /// Step 2: whether the outermost destination is ours, the arriving port's own addresses first.
    fn is_local(&self, port: PortNum, dst: &Ip) -> bool {
        let own = self.cfg.ports.get(usize::from(port.plane())).copied().flatten();
        if let (Some(own), Ip::V6(dst)) = (own, dst)
            && (own.sid.as_ref() == Some(dst) || own.addr.as_ref() == Some(dst))
        {
            return true;
        }
        self.cfg.gids.iter().flatten().any(|gid| gid == dst)
    }

    /// Step 11: one index and one comparison.
    //= VAL-011
    fn find_qp(&self, qpn: Qpn) -> Option<u32> {
        let index = qpn.value() & (1u32 << self.qpn_bits()).wrapping_sub(1);
        self.qps.get(index as usize).filter(|slot| slot.used && slot.qpn == qpn).map(|_| index)
    }

    /// Whether partition key `theirs` and ours name one partition, not both as limited members.
    //= VAL-012
    pub(super) fn same_partition(&self, theirs: u16) -> bool {
        let ours = self.cfg.pkey;
        (theirs ^ ours) & 0x7FFF == 0 && (theirs | ours) & 0x8000 != 0
    }

    /// Step 12: partition, peer, state.
    //= VAL-013, VAL-014, IP6-007, PROBE-003, CTL-002, HOST-003
    fn admit(&self, qp: u32, frame: &Frame) -> Result<(), Discard> {
        let slot = self.qps.get(qp as usize).ok_or(Discard::Qpn)?;
        if !self.same_partition(frame.bth.pkey) {
            return Err(Discard::Pkey);
        }
        let takes = match frame.body {
            Body::Write { .. } | Body::Probe(_) | Body::Trimmed { .. } => slot.state.receives(),
            _ => slot.state == QpState::Rts,
        };
        if !takes {
            return Err(Discard::State);
        }
        let peer = self.peers.get(slot.peer as usize).ok_or(Discard::Peer)?;
        if peer.remote != frame.src || peer.local != frame.dst {
            return Err(Discard::Peer);
        }
        Ok(())
    }

    //= VAL-015, MODEL-002, ERR-002
    fn on_write(&mut self, now: Instant, port: PortNum, qp: u32, frame: &Frame) -> Result<Received, Discard> {
        let write = Write {
            psn: frame.bth.psn,
            nominal: u32::from(frame.udp_len) + 40,
            ends_message: frame.bth.opcode.ends_message(),
            ack_req: frame.bth.ack_req,
            rtx: frame.bth.rtx,
            ce: frame.ce,
            ev: frame.entropy,
            timestamp: frame.timestamp(),
            standard_unit: matches!(frame.body, Body::Write { tseth: Some(tseth), .. } if !tseth.tsr),
            arrived: stamp(now),
        };
        let bits = part(self.rx_words, qp, self.limits.mpr * 2).ok_or(Discard::Qpn)?;
        let slot = self.qps.get_mut(qp as usize).ok_or(Discard::Qpn)?;
        if let Some(reason) = self.refusal
            && slot.rsp.window.classify(write.psn, bits) == responder::Arrival::New
        {
            return Err(self.refuse_unrecorded(now, qp, &write, reason));
        }
        let cfg = &self.cfg;
        let verdict = slot.rsp.on_write(&write, bits, cfg.sack_gen_threshold, cfg.oor_silent, cfg.always_skip_after);
        match verdict {
            responder::Verdict::New => slot.fresh = true,
            responder::Verdict::OutOfWindow => return Err(Discard::OutOfWindow),
            responder::Verdict::Duplicate => {
                self.reroute_answers(now, qp);
                return Err(Discard::Duplicate);
            }
        }
        match self.check_write(qp, frame) {
            Ok(received) => {
                self.after_write(now, qp);
                self.stats.rx_data += 1;
                if let Some(port) = self.stats.ports.get_mut(usize::from(port.plane())) {
                    port.rx_bytes += frame.payload.len() as u64;
                }
                Ok(received)
            }
            Err((syndrome, cause)) => {
                self.fail_qp(now, qp, cause, None);
                self.answer_nak(qp, frame.bth.psn, syndrome);
                Err(Discard::Nak)
            }
        }
    }

    /// Steps 15 to 17: lengths, memory, write with immediate.
    //= VAL-016, VAL-017, VAL-018, LEN-002, LEN-003, LEN-005, LEN-006, LEN-007, RETH-003, WIMM-001, WIMM-002
    fn check_write(&mut self, qp: u32, frame: &Frame) -> Result<Received, (Syndrome, ErrorCause)> {
        let invalid = (Syndrome::InvalidRequest, ErrorCause::RequestInvalid);
        let failed = (Syndrome::RemoteOperational, ErrorCause::RequestFailed);
        let Body::Write { meth, reth, imm, .. } = &frame.body else { return Err(invalid) };
        let slot = self.qps.get_mut(qp as usize).ok_or(failed)?;
        let (len, mtu) = (frame.payload.len() as u64, u64::from(slot.path_mtu));
        let dmalen = u64::from(reth.dmalen);
        let well_formed = match frame.bth.opcode {
            Opcode::WriteFirst | Opcode::WriteMiddle => len == mtu && frame.bth.pad == 0 && dmalen > mtu,
            Opcode::WriteLast | Opcode::WriteLastImm => len >= 1 && len <= mtu && dmalen > mtu,
            _ => len <= mtu && dmalen == len,
        };
        if !well_formed {
            return Err(invalid);
        }
        if slot.write_refused {
            return Err((Syndrome::RemoteAccess, ErrorCause::RequestAccess));
        }
        let pd = slot.pd;
        let check = |va, len| {
            self.regions.check(pd, reth.rkey.0, va, len, true).map_err(|why| match why {
                AccessError::Key | AccessError::Rights | AccessError::Bounds => {
                    (Syndrome::RemoteAccess, ErrorCause::RequestAccess)
                }
            })
        };
        let placed = if len == 0 {
            Received::Nothing
        } else {
            let (mr, offset) = check(reth.va, len)?;
            if frame.bth.opcode.is_first() {
                check(reth.va, dmalen)?;
            }
            Received::Place(Placement { mr, offset, payload: frame.payload.clone() })
        };
        if let Some(imm) = *imm {
            let arrived =
                Immediate { psn: frame.bth.psn, imm, dmalen: reth.dmalen, rqmsn: meth.rqmsn, solicited: frame.bth.se };
            let stash = part(self.immediates, qp, self.limits.wimm).ok_or(failed)?;
            if !slot.rsp.stash.insert(stash, arrived) {
                return Err((Syndrome::from_u8(self.cfg.wimm_nak_syndrome), ErrorCause::RequestWimm));
            }
        }
        Ok(placed)
    }

    /// Refuses a new write before anything of it is recorded, for want of resources or because the device failed.
    //= VAL-019, RSP-007
    fn refuse_unrecorded(&mut self, now: Instant, qp: u32, write: &Write, reason: NackReason) -> Discard {
        if reason == NackReason::UnexpEvent {
            self.fail_qp(now, qp, ErrorCause::RequestFailed, None);
        }
        if let Some(slot) = self.qps.get_mut(qp as usize) {
            let nack = Answer::nack(reason, write, slot.rsp.svc_time);
            slot.rsp.answers.push(nack);
        }
        Discard::Refused
    }

    //= SACK-005, BTH-013, PROBE-002
    fn on_probe(&mut self, now: Instant, qp: u32, frame: &Frame, probe: &ProbeRepr) -> Result<Received, Discard> {
        self.stats.rx_probe += 1;
        // Two probes without new data between them: the peer may be asking because our answers die on their way.
        let quiet = self.qps.get_mut(qp as usize).is_some_and(|slot| !core::mem::take(&mut slot.fresh));
        if quiet {
            self.reroute_answers(now, qp);
        }
        let skip_after = self.cfg.always_skip_after;
        let slot = self.qps.get_mut(qp as usize).ok_or(Discard::Qpn)?;
        let verdict = slot.rsp.verdict(frame.entropy, frame.ce, skip_after);
        slot.rsp.answers.push(Answer {
            kind: AnswerKind::Sack { verdict, probe_id: Some(probe.probe_id) },
            psn: slot.rsp.window.cack(),
            ev: frame.entropy,
            timestamp: probe.tseth.reflected(),
            rtx: false,
            serviced: slot.rsp.svc_time && !probe.tseth.tsr && probe.tseth.reflected() != 0,
            arrived: stamp(now),
        });
        Ok(Received::Nothing)
    }

    //= TRIM-005, TRIM-006, TRIM-007, TRIM-008, TRIM-009, TRIM-010
    /// A trimmed packet may only draw one NACK, or a SACK when its PSN arrived before (`wire.md` 13).
    fn on_trimmed(&mut self, qp: u32, frame: &Frame, kind: Trim, timestamp: u16) -> Result<Received, Discard> {
        let bits = part(self.rx_words, qp, self.limits.mpr * 2).ok_or(Discard::Qpn)?;
        let slot = self.qps.get_mut(qp as usize).ok_or(Discard::Qpn)?;
        let psn = frame.bth.psn;
        let answer = |kind| Answer { psn, ev: frame.entropy, timestamp, rtx: frame.bth.rtx, ..Answer::of(kind) };
        match slot.rsp.window.classify(psn, bits) {
            _ if !slot.rsp.trim_nack => Err(Discard::Trimmed),
            responder::Arrival::Above => Err(Discard::Trimmed),
            responder::Arrival::New => {
                let reason = match kind {
                    Trim::Trimmed => NackReason::Trimmed,
                    Trim::LastHop => NackReason::TrimmedLastHop,
                };
                slot.rsp.answers.push(answer(AnswerKind::Nack(reason)));
                Ok(Received::Nothing)
            }
            responder::Arrival::Below | responder::Arrival::Seen => {
                let verdict = mrc_wire::Verdict::None;
                slot.rsp.answers.push(answer(AnswerKind::Sack { verdict, probe_id: None }));
                Ok(Received::Nothing)
            }
        }
    }

    /// SACK, NACK, Transport ACK or NAK for our requester.
    fn on_control(&mut self, now: Instant, qp: u32, frame: &Frame) -> Result<Received, Discard> {
        let (psn, rtx) = (frame.bth.psn, frame.bth.rtx);
        let verdict = match &frame.body {
            Body::Sack(sack) => {
                self.stats.rx_sack += 1;
                let outcome = self.with_tx(qp, |mut tx| tx.on_sack(now, sack, rtx)).unwrap_or(Err(Discard::Qpn));
                if let Ok(echoed) = outcome
                    && sack.verdict == mrc_wire::Verdict::None
                {
                    self.learn_way_back(qp, echoed);
                }
                outcome.map(|_| requester::Verdict::Continue)
            }
            Body::Nack(nack) => {
                self.stats.rx_nack += 1;
                let trimmed = matches!(nack.reason, NackReason::Trimmed | NackReason::TrimmedLastHop);
                self.stats.rx_nack_trimmed += u64::from(trimmed);
                self.with_tx(qp, |mut tx| tx.on_nack(now, nack, rtx)).unwrap_or(Err(Discard::Qpn))
            }
            Body::Ack(aeth) => self.with_tx(qp, |mut tx| tx.on_ack(now, psn, aeth)).unwrap_or(Err(Discard::Qpn)),
            _ => Err(Discard::Opcode),
        };
        // Even a SACK that counts as stale (a late probe answer) may have moved the window.
        if let Ok(requester::Verdict::Fail(cause)) = verdict {
            let at_fault = if matches!(frame.body, Body::Ack(_)) { Some(psn) } else { None };
            self.fail_qp(now, qp, cause, at_fault);
        } else {
            self.complete(qp);
        }
        verdict.map(|_| Received::Nothing)
    }
}
