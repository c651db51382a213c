//! The frames themselves: headers of control packets, probes and writes. Which is next is in `schedule`.
//! Source: `transport.md` 3.3, 4.7, 5.

use mrc_wire::{AethRepr, NackRepr, Opcode, ProbeRepr, Psn, SackRepr, Syndrome, TsethRepr};

use super::{
    Endpoint, Transmit,
    below::{Below, Entries, Tail, control_bth, data_dscp},
    part,
    schedule::FrameSink,
    writes::{ToPeer, Unsendable},
};
use crate::num::Counter;
use crate::{
    cc::Credit,
    event::ErrorCause,
    port::PortMask,
    qp::QpState,
    requester::{DataPacket, TxSide, Wanted, Wants},
    responder::{Answer, AnswerKind},
    time::Instant,
};

/// The smallest `out` that every frame's headers fit in.
pub const MAX_HEADER_LEN: usize = 192;

impl Endpoint<'_> {
    //= DSCP-002, DSCP-005, BTH-010, BTH-012, BTH-015, ACK-005
    pub(super) fn send_control(&mut self, now: Instant, qp: u32, ports: PortMask, out: &mut [u8]) -> Option<Transmit> {
        let slot = self.qps.get_mut(qp as usize)?;
        if !slot.used || !slot.rsp.owes() {
            return None;
        }
        let peer = Below::of((self.peers, self.planes, self.routes), &self.limits, slot.peer)?;
        let choice = slot.reverse.pick(peer.slot.usable(self.up).and(ports))?;
        let stats = &mut self.stats;
        stats.answers_merged.inc_by(u64::from(slot.rsp.answers.take_merged()));
        // A Transport ACK completes requests at the peer: it goes before the SACKs that wait.
        let tack = core::mem::take(&mut slot.rsp.tack_due);
        let answer = if tack { None } else { Some(slot.rsp.next_answer(&mut self.refusals)?) };
        let (opcode, len, psn, rtx) = match answer {
            Some(Answer { kind: AnswerKind::Sack { probe_id, .. }, rtx, .. }) => {
                (Opcode::Sack, SackRepr::LEN, slot.rsp.window.cack(), rtx && probe_id.is_none())
            }
            Some(Answer { kind: AnswerKind::Nack(_), psn, rtx, .. }) => (Opcode::Nack, NackRepr::LEN, psn, rtx),
            Some(Answer { kind: AnswerKind::Nak(_), psn, rtx, .. }) => (Opcode::Ack, AethRepr::LEN, psn, rtx),
            None => (Opcode::Ack, AethRepr::LEN, slot.rsp.tack_psn(), false),
        };
        let entries = Entries::of(self.ev_entries, &self.limits, slot.ev_profile);
        let bth = control_bth(slot.dest_qp, self.cfg.pkey, opcode, psn, rtx);
        let path = (choice.ev, choice.port);
        let (transmit, rest) = peer.open(&self.cfg, stats, path, || entries.get(choice.entry), None, &bth, len, out)?;
        let contexts = self.cfg.wire.pdcid_order.of_answer(slot.qpn, slot.dest_qp);
        match answer.map(|answer| (answer.kind, answer)) {
            Some((AnswerKind::Sack { .. }, answer)) => {
                stats.tx_sack.inc();
                let bits = part(self.rx_words, qp, self.limits.words())?;
                let sack = slot.rsp.sack(&answer, contexts, now.stamp(), bits, self.cfg.bitmap_reach)?;
                sack.emit(rest.first_chunk_mut()?);
            }
            Some((AnswerKind::Nack(reason), answer)) => {
                stats.tx_nack.inc();
                let nack = NackRepr {
                    reason,
                    vendor_info: 0,
                    entropy: answer.ev,
                    spdcid: contexts.0,
                    dpdcid: contexts.1,
                    psn,
                    cc_type: self.cfg.wire.neth_cc_type,
                    timestamp: answer.reflected(now.stamp()),
                };
                nack.emit(rest.first_chunk_mut()?);
            }
            acked_or_refused => {
                let (counter, syndrome) = match acked_or_refused {
                    Some((AnswerKind::Nak(syndrome), _)) => (&mut stats.tx_nak, syndrome),
                    _ => (&mut stats.tx_ack, Syndrome::Ack(31)),
                };
                counter.inc();
                let msn = if self.cfg.ack_msn_zero { 0 } else { slot.rsp.messages_done() };
                AethRepr { syndrome, msn }.emit(rest.first_chunk_mut()?);
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
            tx.wants(now)
        });
        (sent, wants)
    }

    /// A QP's turn with data: write packets that the congestion controller allows, at most `most`, while the sink has room.
    /// What they share (the borrow of the QP's storage, its peer, its paths) is looked up once.
    #[inline]
    pub(super) fn send_data(&mut self, now: Instant, qp: u32, most: u32, sink: &mut impl FrameSink) -> Run {
        let up = self.up;
        if self.cfg.share_bad_evs {
            self.learn_shared(now, qp);
        }
        let run = self.with_tx_to(qp, |mut tx, to| {
            let towards = to.as_ref().map_or(PortMask::NONE, |to| to.peer.slot.usable(up));
            // The peer's mask may have changed since the last packet; reading it here spares a walk over all QPs.
            tx.set_ports(now, towards);
            let mut run = Run::NOTHING;
            let Some(mut to) = to else { return run };
            let ports = towards.and(up);
            loop {
                if !tx.qpcc.can_send() {
                    run.blocked = run.sent == 0;
                    break;
                }
                // Asked here, so that nothing is copied for the call where nothing is lost.
                let again = if tx.qp.req.has_lost() { run.emit_again(now, to, &mut tx, ports, sink) } else { None };
                let left = match again {
                    Some(left) => left,
                    None => run.emit_series(now, &mut to, &mut tx, most, ports, sink),
                };
                if !left || !run.goes_on(&tx, most, ports, sink) {
                    break;
                }
            }
            tx.count_ended_skips();
            if run.sent == 0 {
                // Over: those behind may have a port with room.
                tx.qp.share.turn = Credit::NONE;
                if run.yields {
                    // It keeps its turn for the next port: no timer has to put it back.
                    tx.qp.req.path_retry = Instant::FAR;
                }
            }
            let wants = if run.blocked { tx.wants(now) } else { tx.wants_after_data(now) };
            run.goes_on = run.sent > 0
                && !run.blocked
                && run.fault.is_none()
                && wants.has_only_new_data()
                && tx.qpcc.has_turn_left(&tx.qp.share)
                && tx.qpcc.can_send();
            run.wants = Some(wants);
            run
        });
        let Some(run) = run else { return Run { blocked: true, ..Run::NOTHING } };
        if run.sent > 0
            && let Some(slot) = self.qps.get_mut(qp as usize)
        {
            slot.reverse.on_data_sent();
        }
        run
    }

    /// Behind a packet of `qp` that may be larger than the window: the pause of its controller begins. What the QP wants then.
    #[cold]
    pub(super) fn pause(&mut self, now: Instant, qp: u32) -> Option<Wants> {
        self.with_tx(qp, |mut tx| {
            if let Some(at) = tx.qpcc.pause(now) {
                tx.pause(at);
            }
            tx.wants_after_data(now)
        })
    }

    /// A turn of a QP whose peer is silent: a packet to test whether it is there, if not enough are in flight.
    #[cold]
    #[inline(never)]
    pub(super) fn test_turn(&mut self, now: Instant, qp: u32, sink: &mut impl FrameSink) -> Run {
        let awaited = self.with_tx(qp, |mut tx| if tx.awaits_sign() { Some(tx.wants(now)) } else { None });
        if let Some(wants @ Some(_)) = awaited {
            return Run { blocked: true, wants, ..Run::NOTHING };
        }
        let mut run = self.send_data(now, qp, 1, sink);
        if run.sent > 0 {
            run.wants = self.with_tx(qp, |mut tx| {
                tx.qpcc.set_apart(&mut tx.qp.share);
                tx.wants_after_data(now)
            });
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
            Some(choice) if up.contains(choice.port) => Wanted::Wait(choice.port),
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
        // Probes see the queues that data sees, except the one that is to see none.
        let dscp = match base_rtt {
            Some(_) => None,
            None => Some(data_dscp(slot.req.trimming, &self.cfg.wire.dscp, false)),
        };
        let entries = Entries::of(self.ev_entries, &self.limits, slot.ev_profile);
        let entry = || entries.get(choice.entry);
        let peer = Below::of((self.peers, self.planes, self.routes), &self.limits, slot.peer)?;
        let bth = control_bth(slot.dest_qp, self.cfg.pkey, Opcode::Probe, Psn::new(0), false);
        let path = (choice.ev, choice.port);
        let (transmit, rest) = peer.open(&self.cfg, &mut self.stats, path, entry, dscp, &bth, ProbeRepr::LEN, out)?;
        let probe = ProbeRepr {
            probe_id,
            vendor_info: 0,
            spdcid: slot.qpn.value() as u16,
            dpdcid: slot.dest_qp.value() as u16,
            tseth: TsethRepr::ns128(now.stamp()),
        };
        probe.emit(rest.first_chunk_mut()?);
        Some(transmit)
    }

    /// Writes one packet outside a turn with data.
    fn send_write(&mut self, now: Instant, qp: u32, packet: &DataPacket, out: &mut [u8]) -> Option<Transmit> {
        let out = out.first_chunk_mut()?;
        let write = |mut tx: TxSide<'_, '_>, to: Option<ToPeer<'_>>| {
            let mut to = to?;
            let dscp = data_dscp(tx.qp.req.trimming, &tx.cfg.wire.dscp, packet.rtx);
            Some(to.write(now, &mut tx, dscp, Tail::of(packet.len), packet, out))
        };
        match self.with_tx_to(qp, write)?? {
            Ok(transmit) => Some(transmit),
            Err(Unsendable::Memory) => {
                self.fail_qp(now, qp, ErrorCause::LocalProtection, Some(packet.psn));
                None
            }
            Err(Unsendable::Unreachable) => None,
        }
    }
}

impl Run {
    pub(super) const NOTHING: Self =
        Self { sent: 0, blocked: false, yields: false, goes_on: false, fault: None, wants: None };

    /// Whether the turn goes on with one more packet to one of `ports`.
    #[inline(always)]
    fn goes_on(&self, tx: &TxSide<'_, '_>, most: u32, ports: PortMask, sink: &impl FrameSink) -> bool {
        self.sent < most && tx.qpcc.has_turn_left(&tx.qp.share) && !ports.and(sink.ports()).is_empty()
    }

    /// Writes the oldest packet that is to leave again, if there is one, into the sink; whether the turn may go on.
    #[inline(always)]
    fn emit_again(
        &mut self,
        now: Instant,
        to: ToPeer<'_>,
        tx: &mut TxSide<'_, '_>,
        ports: PortMask,
        sink: &mut impl FrameSink,
    ) -> Option<bool> {
        let run = Self::emit_lost(now, to, tx.copy(), ports, sink)?;
        self.sent.inc_by(run.sent);
        self.fault = run.fault;
        Some(run.sent > 0)
    }

    /// Out of line, so that turns without losses stay short.
    #[inline(never)]
    fn emit_lost(
        now: Instant,
        mut to: ToPeer<'_>,
        mut tx: TxSide<'_, '_>,
        ports: PortMask,
        sink: &mut impl FrameSink,
    ) -> Option<Self> {
        let usable = ports.and(sink.ports());
        let packet = if usable.is_empty() { None } else { tx.next_again(now, usable) }?;
        let dscp = data_dscp(tx.qp.req.trimming, &tx.cfg.wire.dscp, true);
        let mut run = Self::NOTHING;
        run.emit(now, &mut to, &mut tx, (dscp, Tail::of(packet.len)), packet, sink);
        Some(run)
    }

    /// Writes a series of new packets into the sink; whether the turn may go on.
    #[inline(always)]
    fn emit_series(
        &mut self,
        now: Instant,
        to: &mut ToPeer<'_>,
        tx: &mut TxSide<'_, '_>,
        most: u32,
        ports: PortMask,
        sink: &mut impl FrameSink,
    ) -> bool {
        let Some(mut series) = tx.series(most.saturating_sub(self.sent)) else {
            self.is_stuck(tx);
            return false;
        };
        let dscp = data_dscp(tx.qp.req.trimming, &tx.cfg.wire.dscp, false);
        let (readable, tail) = (to.has_payload(tx, series.next()), Tail::of(series.next().1));
        let mut left = true;
        while left && series.goes_on() {
            let usable = ports.and(sink.ports());
            let packet = if usable.is_empty() { None } else { tx.next_of(&mut series, now, usable) };
            if packet.is_none() && usable.is_empty() && self.sent > 0 {
                left = false;
                break;
            }
            left = packet.is_some_and(|packet| readable && self.emit(now, to, tx, (dscp, tail), packet, sink));
            match packet {
                None => self.is_stuck(tx),
                Some(packet) if !readable => self.fault = Some(packet.psn),
                Some(_) => {}
            }
            if packet.is_some() {
                tx.go_on(&mut series);
            }
        }
        tx.end_series(now, &mut series);
        left
    }

    /// No packet could leave. Whom the QP yields to is found out when its turn begins with that.
    #[inline(always)]
    fn is_stuck(&mut self, tx: &mut TxSide<'_, '_>) {
        self.yields = tx.qp.paths.take_yielded();
        self.blocked = !(self.yields && self.sent > 0);
        if !self.blocked {
            Self::keeps_turn(tx);
        }
    }

    /// As where nothing left: no timer has to put the QP back.
    #[cold]
    #[inline(never)]
    fn keeps_turn(tx: &mut TxSide<'_, '_>) {
        tx.qp.req.path_retry = Instant::FAR;
    }

    /// Writes a chosen packet into the sink; whether the turn may go on.
    #[inline(always)]
    fn emit(
        &mut self,
        now: Instant,
        to: &mut ToPeer<'_>,
        tx: &mut TxSide<'_, '_>,
        (dscp, tail): (u8, Tail),
        packet: DataPacket,
        sink: &mut impl FrameSink,
    ) -> bool {
        match to.write(now, tx, dscp, tail, &packet, sink.headers()) {
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
    /// The turn is not over, and the QP wants nothing else than to send on.
    pub(super) goes_on: bool,
    /// The local region of this packet's request is gone.
    pub(super) fault: Option<Psn>,
    /// What the QP wants next, unless it is in ERROR.
    pub(super) wants: Option<Wants>,
}
