//! The frames themselves: headers of control packets, probes and writes. Which is next is in `schedule`.
//! Source: `transport.md` 3.3, 4.7, 5.

use mrc_wire::{
    AethRepr, BthRepr, Ecn, Ev, NackRepr, Opcode, PortNum, ProbeRepr, Psn, Qpn, SackRepr, Syndrome, TsethRepr,
};

use super::{
    Endpoint, PayloadRef, Transmit, part,
    peers::PeerSlot,
    schedule::FrameSink,
    writes::{ToPeer, Unsendable},
};
use crate::num::Counter;
use crate::{
    cc::Credit,
    config::{Route, Trimming},
    event::ErrorCause,
    path::{Choice, EvEntry},
    port::PortMask,
    qp::QpState,
    requester::{DataPacket, TxSide, Wanted, Wants},
    responder::AnswerKind,
    stats::Stats,
    time::Instant,
};

/// The smallest `out` that every frame's headers fit in.
pub const MAX_HEADER_LEN: usize = 192;

impl Endpoint<'_> {
    //= DSCP-002, DSCP-005, BTH-010, BTH-012, BTH-015, ACK-005
    pub(super) fn send_control(&mut self, now: Instant, qp: u32, ports: PortMask, out: &mut [u8]) -> Option<Transmit> {
        let usable = self.usable_ports(qp).and(ports);
        let slot = self.qps.get_mut(qp as usize)?;
        if !slot.used || !slot.rsp.owes() {
            return None;
        }
        let choice = slot.reverse.pick(usable)?;
        self.stats.answers_merged.inc_by(u64::from(slot.rsp.answers.take_merged()));
        // A Transport ACK completes requests at the peer: it goes before the SACKs that wait.
        let answer = if slot.rsp.tack_due {
            slot.rsp.tack_due = false;
            None
        } else {
            Some(slot.rsp.next_answer(&mut self.refusals)?)
        };
        let len = match answer.map(|answer| answer.kind) {
            Some(AnswerKind::Sack { .. }) => SackRepr::LEN,
            Some(AnswerKind::Nack(_)) => NackRepr::LEN,
            Some(AnswerKind::Nak(_)) | None => AethRepr::LEN,
        };
        let dscp = self.cfg.wire.dscp.control;
        let ecn = if self.cfg.ctl_ect { Ecn::Ect0 } else { Ecn::NotEct };
        let (peer, way) = self.way_of_qp(qp, choice)?;
        let sizes = Sizes::headers(len.wrapping_add(BthRepr::LEN));
        let (start, transmit) = self.lower_layers(peer, &way, dscp, ecn, sizes, out)?;
        let slot = self.qps.get_mut(qp as usize)?;
        let to = out.get_mut(start..)?;
        let (pkey, se_bit) = (self.cfg.pkey, self.cfg.wire.bth_se_bit);
        let bth = |opcode, psn, rtx, to| emit_bth(&control_bth(slot.dest_qp, pkey, opcode, psn, rtx), se_bit, to);
        let Some(answer) = answer else {
            self.stats.tx_ack.inc();
            let rest = bth(Opcode::Ack, slot.rsp.tack_psn(), false, to)?;
            AethRepr { syndrome: Syndrome::Ack(31), msn: ack_msn(&self.cfg, &slot.rsp) }.emit(rest.first_chunk_mut()?);
            return Some(transmit);
        };
        match answer.kind {
            AnswerKind::Sack { probe_id, .. } => {
                self.stats.tx_sack.inc();
                let rest = bth(Opcode::Sack, slot.rsp.window.cack(), answer.rtx && probe_id.is_none(), to)?;
                let bits = part(self.rx_words, qp, self.limits.words())?;
                let contexts = self.cfg.wire.pdcid_order.of_answer(slot.qpn, slot.dest_qp);
                let sack = slot.rsp.sack(&answer, contexts, stamp(now), bits)?;
                sack.emit(rest.first_chunk_mut()?);
            }
            AnswerKind::Nack(reason) => {
                self.stats.tx_nack.inc();
                let rest = bth(Opcode::Nack, answer.psn, answer.rtx, to)?;
                let (spdcid, dpdcid) = self.cfg.wire.pdcid_order.of_answer(slot.qpn, slot.dest_qp);
                let nack = NackRepr {
                    reason,
                    vendor_info: 0,
                    entropy: answer.ev,
                    spdcid,
                    dpdcid,
                    psn: answer.psn,
                    cc_type: self.cfg.wire.neth_cc_type,
                    timestamp: answer.reflected(stamp(now)),
                };
                nack.emit(rest.first_chunk_mut()?);
            }
            AnswerKind::Nak(syndrome) => {
                self.stats.tx_nak.inc();
                let rest = bth(Opcode::Ack, answer.psn, false, to)?;
                AethRepr { syndrome, msn: ack_msn(&self.cfg, &slot.rsp) }.emit(rest.first_chunk_mut()?);
            }
        }
        Some(transmit)
    }

    /// The oldest SACK or NACK, whatever else is owed. Nothing where a refusal is next, which says the last word.
    pub(super) fn send_feedback(&mut self, now: Instant, qp: u32, ports: PortMask, out: &mut [u8]) -> Option<Transmit> {
        let rsp = &mut self.qps.get_mut(qp as usize)?.rsp;
        let next = rsp.answers.front().map(|answer| answer.kind);
        if matches!(next, Some(AnswerKind::Nak(_))) || (next.is_none() && rsp.refusals.is_empty()) {
            return None;
        }
        let tack_due = core::mem::take(&mut rsp.tack_due);
        let sent = self.send_control(now, qp, ports, out);
        self.qps.get_mut(qp as usize)?.rsp.tack_due = tack_due;
        sent
    }

    /// A probe that is wanted, else the repetition of a tail; and what the QP wants next, unless it is in ERROR.
    pub(super) fn send_urgent(
        &mut self,
        now: Instant,
        qp: u32,
        ports: PortMask,
        out: &mut [u8],
    ) -> (Option<Transmit>, Option<Wants>) {
        let (towards, testable) = (self.usable_ports(qp), self.testable_ports(qp).and(ports));
        let usable = towards.and(ports);
        let Some(slot) = self.qps.get_mut(qp as usize).filter(|slot| slot.state == QpState::Rts) else {
            return (None, None);
        };
        slot.paths.set_usable_ports(towards);
        let mut sent = None;
        if !testable.is_empty() && slot.req.probes.wants_any() && now >= slot.req.next_probe {
            sent = self.send_probe(now, qp, testable, out);
        }
        if sent.is_none()
            && !usable.is_empty()
            && let Some(packet) = self.with_tx(qp, |mut tx| tx.repeat_tail(now, usable)).flatten()
        {
            sent = self.send_write(now, qp, &packet, out);
        }
        let wants = self.with_tx(qp, |mut tx| {
            tx.set_ports(now, towards);
            if towards.is_empty() {
                tx.wait_for_path(now);
            }
            tx.wants(now)
        });
        (sent, wants)
    }

    /// A QP's turn with data: write packets that the congestion controller allows, at most `most`, while the sink has room.
    /// What they share (the borrow of the QP's storage, its peer, its paths) is looked up once.
    #[inline]
    pub(super) fn send_data(&mut self, now: Instant, qp: u32, most: u32, sink: &mut impl FrameSink) -> Run {
        let (towards, up) = (self.usable_ports(qp), self.up);
        if self.cfg.share_bad_evs {
            self.learn_shared(now, qp);
        }
        let run = self.with_tx_to(qp, |mut tx, to| {
            // The peer's mask may have changed since the last packet; reading it here spares a walk over all QPs.
            tx.set_ports(now, towards);
            if towards.is_empty() {
                tx.wait_for_path(now);
            }
            let mut run = Run { sent: 0, blocked: false, yields: false, fault: None, wants: None };
            let Some(mut to) = to else { return run };
            loop {
                // One packet, whatever it is.
                if !tx.flow.can_send() {
                    run.blocked = run.sent == 0;
                    break;
                }
                let usable = towards.and(sink.ports()).and(up);
                let packet = if usable.is_empty() { None } else { tx.next_data(now, usable) };
                let Some(packet) = packet else {
                    run.yields = tx.path.set.take_yielded();
                    // Whom it yields to is found out when its turn begins with that.
                    run.blocked = !(run.yields && run.sent > 0);
                    break;
                };
                if !run.emit(now, &mut to, &mut tx, packet, sink) || !run.goes_on(&tx, most, towards.and(up), sink) {
                    break;
                }
                // What follows it in series.
                let mut series = tx.series(most.saturating_sub(run.sent));
                let mut goes_on = true;
                while goes_on && series.goes_on() {
                    let usable = towards.and(sink.ports()).and(up);
                    if usable.is_empty() {
                        break;
                    }
                    match tx.next_of(&mut series, now, usable) {
                        Some(packet) => goes_on = run.emit(now, &mut to, &mut tx, packet, sink),
                        None => {
                            tx.wait_for_path(now);
                            run.blocked = true;
                            goes_on = false;
                        }
                    }
                }
                tx.end_series(now, &series);
                if !goes_on || !run.goes_on(&tx, most, towards.and(up), sink) {
                    break;
                }
            }
            if run.sent == 0 {
                // Over: those behind may have a port with room.
                tx.flow.share.turn = Credit::NONE;
            }
            run.wants = Some(if run.blocked { tx.wants(now) } else { tx.wants_after_data(now) });
            run
        });
        let Some(run) = run else { return Run { sent: 0, blocked: true, yields: false, fault: None, wants: None } };
        if run.sent > 0
            && let Some(slot) = self.qps.get_mut(qp as usize)
        {
            slot.reverse.on_data_sent();
        }
        run
    }

    //= PROBE-001, PROBE-007, PETH-002, NSCC-024
    fn send_probe(&mut self, now: Instant, qp: u32, usable: PortMask, out: &mut [u8]) -> Option<Transmit> {
        let up = self.testable_ports(qp);
        let slots = part(self.ev_slots, qp, self.limits.evs)?;
        let slot = self.qps.get_mut(qp as usize)?;
        let paths = &slot.paths;
        let judge = |ev| match paths.probe_choice(slots, ev) {
            Some(choice) if usable.contains(choice.port) => Wanted::Send,
            Some(choice) if up.contains(choice.port) => Wanted::Wait,
            _ => Wanted::Forget,
        };
        let (base_rtt, forgotten) = slot.req.probes.take_base_rtt(judge);
        if forgotten && let Some(qpcc) = slot.qpcc.and_then(|index| self.qpccs.get_mut(index as usize)) {
            qpcc.want_base_rtt();
        }
        let ev = base_rtt.or_else(|| slot.req.probes.take_wanted(judge))?;
        let choice = slot.paths.choice(slots, ev)?;
        let probe_id = slot.req.probes.sent(ev, now);
        if base_rtt.is_some() {
            slot.req.probes.is_base_rtt(probe_id);
        }
        slot.req.next_probe = now.after(slot.req.probe_rate_limit_ns);
        self.stats.tx_probe.inc();
        let bth = control_bth(slot.dest_qp, self.cfg.pkey, Opcode::Probe, Psn::new(0), false);
        let probe = ProbeRepr {
            probe_id,
            vendor_info: 0,
            spdcid: slot.qpn.value() as u16,
            dpdcid: slot.dest_qp.value() as u16,
            tseth: TsethRepr::ns128(stamp(now)),
        };
        // Probes see the queues that data sees, except the one that is to see none.
        let plan = &self.cfg.wire.dscp;
        let (dscp, ecn) = match base_rtt {
            Some(_) => (plan.control, if self.cfg.ctl_ect { Ecn::Ect0 } else { Ecn::NotEct }),
            None => (data_dscp(slot.req.trimming, plan, false), Ecn::Ect0),
        };
        let sizes = Sizes::headers(BthRepr::LEN + ProbeRepr::LEN);
        let (peer, way) = self.way_of_qp(qp, choice)?;
        let (start, transmit) = self.lower_layers(peer, &way, dscp, ecn, sizes, out)?;
        let rest = emit_bth(&bth, self.cfg.wire.bth_se_bit, out.get_mut(start..)?)?;
        probe.emit(rest.first_chunk_mut()?);
        Some(transmit)
    }

    /// Writes one packet outside a turn with data.
    fn send_write(&mut self, now: Instant, qp: u32, packet: &DataPacket, out: &mut [u8]) -> Option<Transmit> {
        let out = out.first_chunk_mut()?;
        match self.with_tx_to(qp, |mut tx, to| Some(to?.write(now, &mut tx, packet, out)))?? {
            Ok(transmit) => Some(transmit),
            Err(Unsendable::Memory) => {
                self.fail_qp(now, qp, ErrorCause::LocalProtection, Some(packet.psn));
                None
            }
            Err(Unsendable::NoWay) => None,
        }
    }

    /// The path `choice` of a QP on the wire, and its peer.
    #[inline]
    fn way_of_qp(&self, qp: u32, choice: Choice) -> Option<(u32, Way)> {
        let slot = self.qps.get(qp as usize)?;
        Some((slot.peer, Way::of(Some(slot.ev_profile), choice)))
    }

    /// A path that is given entry and all.
    pub(super) fn way_of(&self, peer: u32, entry: &EvEntry) -> Option<Way> {
        if matches!(self.peers.get(peer as usize)?.route, Route::Srv6Entry) {
            entry.dst?;
        }
        let via = Via::Given { outer: entry.dst, segment: entry.segment };
        Some(Way { ev: entry.ev, port: entry.port, via })
    }

    /// Writes everything below BTH; the caller writes the transport headers next, from the offset returned.
    #[inline]
    pub(super) fn lower_layers(
        &mut self,
        peer: u32,
        way: &Way,
        dscp: u8,
        ecn: Ecn,
        sizes: Sizes,
        out: &mut [u8],
    ) -> Option<(usize, Transmit)> {
        let slot = self.peers.get(peer as usize)?;
        //= MAP-005, MAP-006
        let given = match &way.via {
            Via::Given { outer, segment } => Given { outer: outer.as_ref(), segment: segment.as_ref() },
            Via::Entry { profile, entry } if matches!(slot.route, Route::Srv6Entry) => {
                let first = ((*profile)? as usize).checked_mul(self.limits.profile_evs)?;
                Given::of(self.ev_entries.get(first.checked_add((*entry).into())?)?)
            }
            Via::Entry { .. } => Given::NONE,
        };
        let (start, transmit) = below_bth(slot, way.ev, way.port, given, dscp, ecn, sizes, None, out)?;
        count_sent(&mut self.stats, &transmit);
        Some((start, transmit))
    }
}

/// The message number of a Transport ACK or NAK.
fn ack_msn(cfg: &crate::EndpointConfig, rsp: &crate::responder::Responder) -> u32 {
    if cfg.ack_msn_zero { 0 } else { rsp.messages_done() }
}

#[inline]
pub(super) fn count_sent(stats: &mut Stats, transmit: &Transmit) {
    if let Some(port) = stats.ports.get_mut(usize::from(transmit.port.plane())) {
        port.tx_packets.inc();
        port.tx_bytes.inc_by(transmit.payload.map_or(0, |payload| u64::from(payload.len)));
    }
}

/// Writes everything below BTH for one packet to a peer.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "the per-packet fields; a struct would be built to be taken apart")]
pub(super) fn below_bth(
    peer: &PeerSlot,
    ev: Ev,
    port: PortNum,
    given: Given<'_>,
    dscp: u8,
    ecn: Ecn,
    sizes: Sizes,
    payload: Option<PayloadRef>,
    out: &mut [u8],
) -> Option<(usize, Transmit)> {
    let template = peer.templates.get(usize::from(port.plane()))?.as_ref()?;
    let mapped;
    let (outer, segment) = match &peer.route {
        Route::Plain => (None, None),
        Route::Srv6(map) => {
            mapped = map.apply(ev);
            (Some(&mapped), None)
        }
        Route::Srv6Entry => (given.outer, given.segment),
    };
    let behind = (sizes.payload as usize).wrapping_add(sizes.pad.into()).wrapping_add(mrc_wire::icrc::LEN);
    let udp_payload = sizes.headers.wrapping_add(behind);
    let start = template.emit_via(out, ev, dscp, ecn, udp_payload, outer, segment)?;
    let l3_offset = template.l3_offset().wrapping_add(if segment.is_some() { template.segment_len() } else { 0 });
    let transmit = Transmit {
        header_len: start.wrapping_add(sizes.headers),
        l3_offset,
        payload,
        pad: sizes.pad,
        port,
        ev,
        traffic_class: dscp << 2 | ecn.bits(),
    };
    Some((start, transmit))
}

impl Run {
    /// Whether the turn goes on with one more packet to one of `ports`.
    #[inline(always)]
    fn goes_on(&self, tx: &TxSide<'_, '_>, most: u32, ports: PortMask, sink: &impl FrameSink) -> bool {
        self.sent < most && tx.flow.has_turn_left() && !ports.and(sink.ports()).is_empty()
    }

    /// Writes a chosen packet into the sink; whether the turn may go on.
    #[inline(always)]
    fn emit(
        &mut self,
        now: Instant,
        to: &mut ToPeer<'_>,
        tx: &mut TxSide<'_, '_>,
        packet: DataPacket,
        sink: &mut impl FrameSink,
    ) -> bool {
        match to.write(now, tx, &packet, sink.headers()) {
            Ok(transmit) => {
                sink.push(transmit);
                self.sent.inc();
                true
            }
            Err(why) => {
                self.fault = matches!(why, Unsendable::Memory).then_some(packet.psn);
                false
            }
        }
    }
}

/// What a turn with data came to.
pub(super) struct Run {
    /// Packets that left.
    pub(super) sent: u32,
    /// It ended because nothing more could leave, not because it was long enough.
    pub(super) blocked: bool,
    /// It left the ports with room to others, being ahead on their planes.
    pub(super) yields: bool,
    /// The local region of this packet's request is gone.
    pub(super) fault: Option<Psn>,
    /// What the QP wants next, unless it is in ERROR.
    pub(super) wants: Option<Wants>,
}

/// The SRv6 destination that comes with a path; of use where the peer's paths hold their own.
#[derive(Clone, Copy)]
pub(super) struct Given<'e> {
    outer: Option<&'e [u8; 16]>,
    segment: Option<&'e [u8; 16]>,
}

impl<'e> Given<'e> {
    pub(super) const NONE: Self = Self { outer: None, segment: None };

    pub(super) fn of(entry: &'e EvEntry) -> Self {
        Self { outer: entry.dst.as_ref(), segment: entry.segment.as_ref() }
    }
}

/// Where one packet goes, as far as its bytes say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) ev: Ev,
    pub(super) port: PortNum,
    pub(super) via: Via,
}

impl Way {
    /// The path `choice`, drawn from profile `profile`.
    #[inline]
    pub(super) fn of(profile: Option<u32>, choice: Choice) -> Self {
        Self { ev: choice.ev, port: choice.port, via: Via::Entry { profile, entry: choice.entry } }
    }
}

/// Where the SRv6 destination of a path comes from when the peer's paths hold their own; else the peer's mapping makes it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Via {
    /// This entry of a profile.
    Entry {
        /// The profile, where there is one.
        profile: Option<u32>,
        /// Index in the profile.
        entry: u16,
    },
    /// These.
    Given {
        /// Outer destination.
        outer: Option<[u8; 16]>,
        /// Segment of the SRH behind it.
        segment: Option<[u8; 16]>,
    },
}

/// Lengths of what follows the lower layers, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Transport headers, BTH included.
    headers: usize,
    payload: u32,
    pad: u8,
}

impl Sizes {
    /// Of a write packet.
    pub(super) const fn write(headers: usize, payload: u32, pad: u8) -> Self {
        Self { headers, payload, pad }
    }

    /// Of a packet without payload.
    pub(super) const fn headers(headers: usize) -> Self {
        Self { headers, payload: 0, pad: 0 }
    }
}

#[inline(always)]
pub(super) fn emit_bth<'o>(bth: &BthRepr, se_bit: u8, out: &'o mut [u8]) -> Option<&'o mut [u8]> {
    let (to, rest) = out.split_first_chunk_mut()?;
    bth.emit_with(to, se_bit);
    Some(rest)
}

pub(super) fn control_bth(dest_qp: Qpn, pkey: u16, opcode: Opcode, psn: Psn, rtx: bool) -> BthRepr {
    BthRepr { opcode, se: false, pad: 0, pkey, dest_qp, ack_req: false, rtx, ts: false, psn }
}

/// 128 ns ticks, 16 bits (`wire.md` 15).
pub(super) fn stamp(now: Instant) -> u16 {
    (now.as_nanos() >> 7) as u16
}

//= DSCP-003, CAP-001
pub(super) fn data_dscp(trimming: Trimming, plan: &mrc_wire::DscpPlan, rtx: bool) -> u8 {
    match (trimming, rtx) {
        (Trimming::Off, _) => plan.no_trim,
        (Trimming::On, false) => plan.trimmable,
        (Trimming::On, true) => plan.trimmable_retx,
    }
}
