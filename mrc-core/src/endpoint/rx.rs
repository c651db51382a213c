//! A received frame: validation, then what requester and responder make of it. Source: `wire.md` 13 and 14.

use core::ops::Range;

use mrc_wire::{
    Body, BthRepr, Extension, Frame, Ip, NackReason, Opcode, PacketView, PortNum, ProbeRepr, Psn, Qpn, Reject,
    RethRepr, SackRepr, Syndrome, Trim, WriteHeaders,
};

use super::{Endpoint, IcrcCheck, Placement, Received, RxMeta, part, tx::stamp};
use crate::{
    error::Discard,
    event::ErrorCause,
    mem::{AccessError, Regions},
    qp::{Qp, QpState},
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
        let packet = PacketView::parse(head, rx.wire_len, &self.cfg.wire, |dst| self.is_local(rx.port, dst))?;
        let trimmed = matches!(packet.extension(), Extension::Trimmed { .. });
        let intact = match rx.icrc {
            IcrcCheck::Valid => true,
            IcrcCheck::Invalid => false,
            IcrcCheck::Verify => trimmed || mrc_wire::icrc::verify(head, packet.l3_offset(), packet.icrc_offset()),
        };
        if !intact && !trimmed {
            return Err(Discard::Icrc);
        }
        if let Some(port) = self.stats.ports.get_mut(usize::from(rx.port.plane())) {
            port.rx_packets += 1;
        }
        match packet.extension() {
            Extension::Write(headers) => {
                let qp = self.admit(&packet, QpState::receives)?;
                self.heard(now, qp);
                let result = self.on_write(now, rx.port, qp, &packet, headers);
                self.wake_control(qp);
                result
            }
            Extension::Sack(sack) => {
                let qp = self.admit(&packet, |state| state == QpState::Rts)?;
                let rtx = packet.bth(&self.cfg.wire).rtx;
                self.on_sack(now, qp, &SackRepr::parse(sack), rtx)
            }
            _ => self.receive_other(now, rx, head),
        }
    }

    /// What is rare in a transfer. Parses once more: handed over by reference, a packet would have to be in memory, and
    /// every write would pay for that.
    #[inline(never)]
    fn receive_other(&mut self, now: Instant, rx: RxMeta, head: &[u8]) -> Result<Received, Discard> {
        let packet = &PacketView::parse(head, rx.wire_len, &self.cfg.wire, |dst| self.is_local(rx.port, dst))?;
        let frame = &packet.to_frame(&self.cfg.wire);
        match &frame.body {
            Body::EndpointRequest(_) | Body::EndpointResponse(_) => self.on_endpoint(now, rx.port, frame),
            Body::Probe(probe) => {
                let qp = self.admit(packet, QpState::receives)?;
                self.stats.rx_marked += u64::from(frame.ce);
                self.heard(now, qp);
                let result = self.on_probe(now, qp, frame, probe);
                self.wake_control(qp);
                result
            }
            Body::Trimmed { kind, timestamp } => {
                let qp = self.admit(packet, QpState::receives)?;
                self.stats.rx_trimmed += 1;
                let result = self.on_trimmed(qp, frame, *kind, *timestamp);
                self.wake_control(qp);
                result
            }
            body => {
                let qp = self.admit(packet, |state| state == QpState::Rts)?;
                self.on_control(now, qp, body, frame.bth.psn, frame.bth.rtx)
            }
        }
    }

    /// A write or a probe is a sign of life. What answers our own packets is one only after it was found to (`feedback`),
    /// and a trimmed packet, which no ICRC protects, is none.
    #[inline(always)]
    fn heard(&mut self, now: Instant, qp: u32) {
        let Some(slot) = self.qps.get_mut(qp as usize) else { return };
        slot.req.last_heard = now;
        slot.reverse.on_data_received();
        if slot.reverse.is_due(now) {
            self.probe_way_back(now, qp);
        }
    }

    /// Step 2: whether the outermost destination is ours, the arriving port's own addresses first.
    #[inline(always)]
    fn is_local(&self, port: PortNum, dst: &Ip) -> bool {
        let own = self.cfg.ports.get(usize::from(port.plane())).and_then(Option::as_ref);
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
        let index = qpn.value() & (1u32 << self.qpn_bits).wrapping_sub(1);
        self.qps.get(index as usize).filter(|slot| slot.used && slot.qpn == qpn).map(|_| index)
    }

    /// Whether partition key `theirs` and ours name one partition, not both as limited members.
    //= VAL-012
    pub(super) fn same_partition(&self, theirs: u16) -> bool {
        let ours = self.cfg.pkey;
        (theirs ^ ours) & 0x7FFF == 0 && (theirs | ours) & 0x8000 != 0
    }

    /// Steps 11 and 12: the QP, if its partition, its state and its peer agree.
    //= VAL-013, VAL-014, IP6-007, PROBE-003, CTL-002, HOST-003
    #[inline(always)]
    fn admit(&self, packet: &PacketView<'_>, takes: impl Fn(QpState) -> bool) -> Result<u32, Discard> {
        let bth = packet.bth(&self.cfg.wire);
        let qp = self.find_qp(bth.dest_qp).ok_or(Discard::Qpn)?;
        let slot = self.qps.get(qp as usize).ok_or(Discard::Qpn)?;
        if !self.same_partition(bth.pkey) {
            return Err(Discard::Pkey);
        }
        if !takes(slot.state) {
            return Err(Discard::State);
        }
        let peer = self.peers.get(slot.peer as usize).ok_or(Discard::Peer)?;
        if peer.remote != packet.src() || peer.local != packet.dst() {
            return Err(Discard::Peer);
        }
        Ok(qp)
    }

    //= VAL-015, VAL-018, MODEL-002, ERR-002, WIMM-001, WIMM-002
    #[inline(always)]
    fn on_write(
        &mut self,
        now: Instant,
        port: PortNum,
        qp: u32,
        packet: &PacketView<'_>,
        headers: &WriteHeaders<'_>,
    ) -> Result<Received, Discard> {
        let bth = packet.bth(&self.cfg.wire);
        let tseth = headers.tseth();
        let ce = packet.ce();
        self.stats.rx_marked += u64::from(ce);
        let write = Write {
            psn: bth.psn,
            nominal: u32::from(packet.udp_len()) + 40,
            ends_message: bth.opcode.ends_message(),
            ack_req: bth.ack_req,
            rtx: bth.rtx,
            ce,
            ev: packet.entropy(&self.cfg.wire),
            //= TS-003, TS-004
            timestamp: tseth.map_or(0, |tseth| tseth.reflected()),
            standard_unit: tseth.is_some_and(|tseth| !tseth.tsr),
            arrived: stamp(now),
        };
        let payload = packet.payload();
        let payload_len = payload.len();
        // One borrow of the QP for all that a write of the common kind does.
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
        let mut checked = check_write(slot, &self.regions, &bth, &headers.reth(), payload);
        if let Some(imm) = headers.imm()
            && checked.is_ok()
            && !slot.stash_immediate(part(self.immediates, qp, self.limits.wimm), &bth, headers, imm)
        {
            checked = Err((Syndrome::from_u8(self.cfg.wimm_nak_syndrome), ErrorCause::RequestWimm));
        }
        match checked {
            Ok(received) => {
                if slot.rsp.stash.is_empty() {
                    slot.rsp.settle(&[]);
                } else {
                    self.after_immediate(now, qp);
                }
                self.stats.rx_data += 1;
                if let Some(port) = self.stats.ports.get_mut(usize::from(port.plane())) {
                    port.rx_bytes += payload_len as u64;
                }
                Ok(received)
            }
            Err((syndrome, cause)) => {
                self.fail_qp(now, qp, cause, None);
                self.answer_nak(qp, bth.psn, syndrome);
                Err(Discard::Nak)
            }
        }
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
        let slot = self.qps.get_mut(qp as usize).ok_or(Discard::Qpn)?;
        if !core::mem::take(&mut slot.fresh) {
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

    /// SACK for our requester.
    #[inline(never)]
    fn on_sack(&mut self, now: Instant, qp: u32, sack: &SackRepr, rtx: bool) -> Result<Received, Discard> {
        self.stats.rx_sack += 1;
        // One borrow of the QP's storage for the SACK and for what it lets the QP do.
        let turn = self.with_tx(
            qp,
            #[inline(always)]
            |mut tx| (tx.on_sack(now, sack, rtx), tx.oldest_done(), tx.wants(now)),
        );
        let Some((outcome, done, wants)) = turn else { return Err(Discard::Qpn) };
        if let Ok(echoed) = outcome
            && sack.verdict == mrc_wire::Verdict::None
        {
            self.learn_way_back(qp, echoed);
        }
        // Even a SACK that counts as stale (a late probe answer) may have moved the window.
        if done {
            self.complete(qp);
            self.wake(now, qp);
        } else {
            self.wake_control(qp);
            self.wake_for(qp, wants);
        }
        outcome.map(|_| Received::Nothing)
    }

    /// NACK, Transport ACK or NAK for our requester.
    fn on_control(&mut self, now: Instant, qp: u32, body: &Body, psn: Psn, rtx: bool) -> Result<Received, Discard> {
        let verdict = match body {
            Body::Nack(nack) => {
                self.stats.rx_nack += 1;
                let trimmed = matches!(nack.reason, NackReason::Trimmed | NackReason::TrimmedLastHop);
                self.stats.rx_nack_trimmed += u64::from(trimmed);
                self.with_tx(qp, |mut tx| tx.on_nack(now, nack, rtx)).unwrap_or(Err(Discard::Qpn))
            }
            Body::Ack(aeth) => self.with_tx(qp, |mut tx| tx.on_ack(now, psn, aeth)).unwrap_or(Err(Discard::Qpn)),
            _ => Err(Discard::Opcode),
        };
        if let Ok(requester::Verdict::Fail(cause)) = verdict {
            let at_fault = if matches!(body, Body::Ack(_)) { Some(psn) } else { None };
            self.fail_qp(now, qp, cause, at_fault);
        } else {
            self.complete(qp);
        }
        self.wake(now, qp);
        verdict.map(|_| Received::Nothing)
    }
}

impl Qp {
    /// Keeps the immediate of a write until its turn; `false` when there are more than agreed.
    #[inline(never)]
    fn stash_immediate(
        &mut self,
        stash: Option<&mut [Immediate]>,
        bth: &BthRepr,
        headers: &WriteHeaders<'_>,
        imm: u32,
    ) -> bool {
        let (rqmsn, dmalen) = (headers.meth().rqmsn, headers.reth().dmalen);
        let arrived = Immediate { psn: bth.psn, imm, dmalen, rqmsn, solicited: bth.se };
        stash.is_some_and(|stash| self.rsp.stash.insert(stash, arrived))
    }
}

/// Steps 15 and 16: lengths and memory.
//= VAL-016, VAL-017, LEN-002, LEN-003, LEN-005, LEN-006, LEN-007, RETH-003
#[inline(always)]
fn check_write(
    slot: &Qp,
    regions: &Regions<'_>,
    bth: &BthRepr,
    reth: &RethRepr,
    payload: Range<usize>,
) -> Result<Received, (Syndrome, ErrorCause)> {
    let (len, mtu) = (payload.len() as u64, u64::from(slot.path_mtu));
    let dmalen = u64::from(reth.dmalen);
    let well_formed = match bth.opcode {
        Opcode::WriteFirst | Opcode::WriteMiddle => len == mtu && bth.pad == 0 && dmalen > mtu,
        Opcode::WriteLast | Opcode::WriteLastImm => len >= 1 && len <= mtu && dmalen > mtu,
        _ => len <= mtu && dmalen == len,
    };
    if !well_formed {
        return Err((Syndrome::InvalidRequest, ErrorCause::RequestInvalid));
    }
    let refused = (Syndrome::RemoteAccess, ErrorCause::RequestAccess);
    if slot.write_refused {
        return Err(refused);
    }
    if len == 0 {
        return Ok(Received::Nothing);
    }
    // The first packet answers for the whole message, which begins where it does.
    let reach = if bth.opcode.is_first() { dmalen } else { len };
    match regions.check(slot.pd, reth.rkey.0, reth.va, reach, true) {
        Ok((mr, offset)) => Ok(Received::Place(Placement { mr, offset, payload })),
        Err(AccessError::Key | AccessError::Rights | AccessError::Bounds) => Err(refused),
    }
}
