//! A received frame: validation, then what requester and responder make of it. Source: `wire.md` 13 and 14.

use core::ops::Range;

use mrc_wire::{
    Body, BthRepr, Ev, Extension, Frame, Ip, NackReason, Opcode, PacketView, PlainExtension, PlainPacket, PlainSeries,
    PortNum, ProbeRepr, Psn, Qpn, Reject, RethRepr, SackRepr, Syndrome, Trim, TsethRepr, WriteHeaders,
};

use super::{Endpoint, IcrcCheck, Placement, Received, RxMeta, part, tx::stamp};
use crate::num::Counter;
use crate::{
    config::{EndpointConfig, MAX_PORTS},
    error::Discard,
    event::ErrorCause,
    mem::{AccessError, MrHandle, Regions},
    port::PortMask,
    qp::{Qp, QpHandle, QpState},
    requester::{self, Wants},
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

/// Where received frames come from in one call of [`Endpoint::receive`]: what a driver implements over its rings.
pub trait FrameSource {
    /// The next frame, as for [`Endpoint::handle_packet`]; `None` ends the call.
    fn next(&mut self) -> Option<(RxMeta, &[u8])>;

    /// What became of it: payload to move, or the reason why it had no effect.
    fn done(&mut self, result: Result<Received, Discard>);
}

/// What may follow a packet that was taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Anything,
    Writes,
    Sacks,
}

/// A write that was placed, and what holds for those that differ from it in place alone; or a SACK.
struct Series {
    next: Next,
    pattern: PlainSeries,
    qp: u32,
    // Of writes alone:
    mr: MrHandle,
    /// Address of the region.
    va: u64,
    /// Offset of the last place with room.
    last: u64,
}

impl Endpoint<'_> {
    /// Takes one received frame. `head` holds at least its headers; the rest may lie elsewhere when the driver checked
    /// the ICRC.
    ///
    /// # Errors
    /// The reason why the frame had no further effect; it is counted under the same name.
    pub fn handle_packet(&mut self, now: Instant, rx: RxMeta, head: &[u8]) -> Result<Received, Discard> {
        self.take_one(now, rx, head, None).map_err(|why| self.discard(rx.port, why))
    }

    /// Takes received frames until the source has no more, as [`Endpoint::handle_packet`] does one. In bursts a packet
    /// costs less: writes that follow one another, and SACKs, are compared with the first of them in place of being checked
    /// field by field.
    pub fn receive(&mut self, now: Instant, source: &mut impl FrameSource) {
        let mut series = Series::NONE;
        while let Some((rx, head)) = source.next() {
            let result = self.take_first(now, rx, head, &mut series);
            source.done(result);
            loop {
                match series.next {
                    Next::Anything => break,
                    Next::Writes => self.take_writes(now, &mut series, source),
                    Next::Sacks => self.take_sacks(now, &mut series, source),
                }
            }
        }
    }

    /// A frame that may begin a series. Not inlined: its values would crowd those of a series out of the registers.
    #[inline(never)]
    fn take_first(&mut self, now: Instant, rx: RxMeta, head: &[u8], series: &mut Series) -> Result<Received, Discard> {
        series.next = Next::Anything;
        self.take_one(now, rx, head, Some(series)).map_err(|why| self.discard(rx.port, why))
    }

    /// Takes writes for as long as they go on with `series`, and the frame after them, which may begin another one. The QP
    /// is borrowed once: nobody else touches the endpoint meanwhile, so that what was found out about peer, QP and region
    /// stays true (steps 11, 12, 15 and 16).
    //= VAL-010
    #[inline(never)]
    fn take_writes(&mut self, now: Instant, series: &mut Series, source: &mut impl FrameSource) {
        series.next = Next::Anything;
        let unmasked = self.unmasked_ports(series.qp);
        let Some(bits) = part(self.rx_words, series.qp, self.limits.words()) else { return };
        let Some(slot) = self.qps.get_mut(series.qp as usize) else { return };
        let cfg = &self.cfg;
        let mut taken = 0;
        let after = loop {
            let Some((rx, head)) = source.next() else { break None };
            let Some(packet) = series.pattern.read(head, rx.wire_len) else { break Some((rx, head)) };
            let bth = packet.bth(&cfg.wire);
            let place = series
                .place(&packet, slot.qpn, bth.psn)
                .filter(|_| is_local_v6(cfg, rx.port, packet.outermost_dst()) && unmasked.contains(rx.port));
            let Some(place) = place else { break Some((rx, head)) };
            let write = arrived(now, &bth, &packet, cfg);
            if slot.rsp.window.classify(write.psn, bits) != responder::Arrival::New
                || !is_intact(rx.icrc, head, packet.l3_offset(), packet.icrc_offset())
            {
                break Some((rx, head));
            }
            slot.rsp.on_new(&write, bits, cfg);
            slot.rsp.settle(&[]);
            taken.inc();
            self.stats.rx_marked.inc_by(u64::from(write.ce));
            if let Some(port) = self.stats.ports.get_mut(usize::from(rx.port.plane())) {
                port.rx_packets.inc();
                port.rx_bytes.inc_by(place.payload.len() as u64);
            }
            source.done(Ok(Received::Place(place)));
        };
        self.stats.rx_data.inc_by(taken);
        self.wake_control(series.qp);
        if let Some((rx, head)) = after {
            let result = self.take_first(now, rx, head, series);
            source.done(result);
        }
    }

    /// Takes SACKs for as long as they go on with `series`, and the frame after them, which may begin another one. The QP is
    /// borrowed once. A SACK that lets a request complete, or that lets the QP do more than the one before, ends the series,
    /// which may then begin again.
    //= VAL-010
    #[inline(never)]
    fn take_sacks(&mut self, now: Instant, series: &mut Series, source: &mut impl FrameSource) {
        series.next = Next::Anything;
        let qp = series.qp;
        if self.qps.get(qp as usize).is_none_or(|slot| slot.state != QpState::Rts) {
            return;
        }
        let unmasked = self.unmasked_ports(qp);
        let Some((mut tx, _)) = self.tx_side(qp) else { return };
        let (woken, had_turn) = (tx.wants(now), tx.flow.qpcc.has_turn());
        // The last one of each plane: others are forgotten.
        let mut ways = [None; MAX_PORTS];
        let (last, after) = loop {
            let Some((rx, head)) = source.next() else { break (None, None) };
            let packet = series.pattern.read(head, rx.wire_len).filter(|packet| {
                is_local_v6(tx.cfg, rx.port, packet.outermost_dst())
                    && unmasked.contains(rx.port)
                    && is_intact(rx.icrc, head, packet.l3_offset(), packet.icrc_offset())
            });
            let Some((packet, PlainExtension::Sack(sack))) = packet.as_ref().map(|packet| (packet, packet.extension()))
            else {
                break (None, Some((rx, head)));
            };
            let (sack, rtx) = (SackRepr::parse(sack), packet.bth(&tx.cfg.wire).rtx);
            if let Some(port) = tx.path.stats.ports.get_mut(usize::from(rx.port.plane())) {
                port.rx_packets.inc();
            }
            tx.path.stats.rx_sack.inc();
            let outcome = tx.on_sack(now, &sack, rtx);
            if let Some(way) = tx.way_back(&sack, outcome)
                && let Some(slot) = ways.get_mut(usize::from(way.port.plane()))
            {
                *slot = Some(way);
            }
            let (done, wants) = (tx.oldest_done(), tx.wants(now));
            if outcome.is_err() || done || !wants.within(&woken) || tx.flow.qpcc.has_turn() != had_turn {
                break (Some((rx.port, outcome, done, wants)), None);
            }
            source.done(Ok(Received::Nothing));
        };
        self.learn_ways_back(qp, ways.into_iter().flatten());
        if let Some((port, outcome, done, wants)) = last {
            self.after_sack(now, qp, done, wants);
            if outcome.is_ok() {
                series.next = Next::Sacks;
            }
            source.done(outcome.map(|_| Received::Nothing).map_err(|why| self.discard(port, why)));
        } else if let Some((rx, head)) = after {
            let result = self.take_first(now, rx, head, series);
            source.done(result);
        }
    }

    /// One frame; begins a series where one may follow.
    //= VAL-010
    #[inline(always)]
    fn take_one(
        &mut self,
        now: Instant,
        rx: RxMeta,
        head: &[u8],
        series: Option<&mut Series>,
    ) -> Result<Received, Discard> {
        let plain = PlainPacket::read(head, rx.wire_len, &self.cfg.wire)
            .filter(|packet| is_local_v6(&self.cfg, rx.port, packet.outermost_dst()));
        let Some(packet) = plain else { return self.take_any(now, rx, head) };
        if !is_intact(rx.icrc, head, packet.l3_offset(), packet.icrc_offset()) {
            return Err(Discard::Icrc);
        }
        self.count_received(rx.port);
        let bth = packet.bth(&self.cfg.wire);
        let are = |local: &Ip, remote: &Ip| match (local, remote) {
            (Ip::V6(local), Ip::V6(remote)) => local == packet.dst() && remote == packet.src(),
            _ => false,
        };
        match packet.extension() {
            PlainExtension::Write(write) => {
                let qp = self.admit(&bth, QpState::receives)?;
                self.known_peer(qp, are)?;
                self.heard_through(now, qp, rx.port);
                let (arrival, reth, payload) = (arrived(now, &bth, &packet, &self.cfg), write.reth(), write.payload());
                let check = |slot: &Qp, regions: &Regions<'_>| check_write(slot, regions, qp, &bth, &reth, payload);
                let received = self.on_write(now, rx.port, qp, arrival, check, None)?;
                if let (Some(series), Received::Place(place)) = (series, &received) {
                    self.begin_writes(series, now, qp, &packet, head, rx.wire_len, &bth, &reth, place);
                }
                Ok(received)
            }
            PlainExtension::Sack(sack) => {
                let qp = self.admit(&bth, |state| state == QpState::Rts)?;
                self.known_peer(qp, are)?;
                self.heard_through(now, qp, rx.port);
                let received = self.on_sack(now, qp, &SackRepr::parse(sack), bth.rtx)?;
                if let Some(series) = series {
                    series.qp = qp;
                    series.begin(Next::Sacks, &packet, head, rx.wire_len);
                }
                Ok(received)
            }
        }
    }

    /// Others may follow a write that was placed, unless each needs more than its place in the books.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "what was read of the packet")]
    fn begin_writes(
        &self,
        series: &mut Series,
        now: Instant,
        qp: u32,
        packet: &PlainPacket<'_>,
        head: &[u8],
        wire_len: usize,
        bth: &BthRepr,
        reth: &RethRepr,
        place: &Placement,
    ) {
        let Some(slot) = self.qps.get(qp as usize) else { return };
        let reach = reach(bth, reth, place.payload.len() as u64);
        let (va, last) = (reth.va.checked_sub(place.offset), self.regions.len(place.mr).checked_sub(reach));
        let plain = slot.state.receives() && slot.rsp.stash.is_empty() && !slot.reverse.is_due(now);
        if let (Some(va), Some(last), true) = (va, last, plain) {
            (series.qp, series.mr, series.va, series.last) = (qp, place.mr, va, last);
            series.begin(Next::Writes, packet, head, wire_len);
        }
    }

    /// The ports that the QP's peer has not masked: a packet from another one needs a look ([`Self::heard_through`]).
    #[inline]
    fn unmasked_ports(&self, qp: u32) -> PortMask {
        let peer = self.qps.get(qp as usize).and_then(|slot| self.peers.get(slot.peer as usize));
        peer.map_or(PortMask::NONE, |peer| peer.announced)
    }

    /// Any frame.
    #[inline(never)]
    fn take_any(&mut self, now: Instant, rx: RxMeta, head: &[u8]) -> Result<Received, Discard> {
        let packet = PacketView::parse(head, rx.wire_len, &self.cfg.wire, |dst| self.is_local(rx.port, dst))?;
        let trimmed = matches!(packet.extension(), Extension::Trimmed { .. });
        if !trimmed && !is_intact(rx.icrc, head, packet.l3_offset(), packet.icrc_offset()) {
            return Err(Discard::Icrc);
        }
        self.count_received(rx.port);
        match packet.extension() {
            Extension::Write(headers) => {
                let bth = packet.bth(&self.cfg.wire);
                let qp = self.admit_packet(&packet, QpState::receives)?;
                self.heard_through(now, qp, rx.port);
                let (ce, ev) = (packet.ce(), packet.entropy(&self.cfg.wire));
                let write = Write::arrived(now, &bth, packet.udp_len(), ce, ev, headers.tseth());
                let (imm, reth, payload) = (immediate(&bth, headers), headers.reth(), packet.payload());
                let check = |slot: &Qp, regions: &Regions<'_>| check_write(slot, regions, qp, &bth, &reth, payload);
                self.on_write(now, rx.port, qp, write, check, imm)
            }
            Extension::Sack(sack) => {
                let qp = self.admit_packet(&packet, |state| state == QpState::Rts)?;
                self.heard_through(now, qp, rx.port);
                let rtx = packet.bth(&self.cfg.wire).rtx;
                self.on_sack(now, qp, &SackRepr::parse(sack), rtx)
            }
            _ => self.take_other(now, rx, head),
        }
    }

    #[inline(always)]
    fn count_received(&mut self, port: PortNum) {
        if let Some(port) = self.stats.ports.get_mut(usize::from(port.plane())) {
            port.rx_packets.inc();
        }
    }

    /// What is rare in a transfer. Parses once more: handed over by reference, a packet would have to be in memory, and
    /// every write would pay for that.
    #[inline(never)]
    fn take_other(&mut self, now: Instant, rx: RxMeta, head: &[u8]) -> Result<Received, Discard> {
        let packet = &PacketView::parse(head, rx.wire_len, &self.cfg.wire, |dst| self.is_local(rx.port, dst))?;
        let frame = &packet.to_frame(&self.cfg.wire);
        match &frame.body {
            Body::EndpointRequest(_) | Body::EndpointResponse(_) => self.on_endpoint(now, rx.port, frame),
            Body::Probe(probe) => {
                let qp = self.admit_packet(packet, QpState::receives)?;
                self.heard_through(now, qp, rx.port);
                self.stats.rx_marked.inc_by(u64::from(frame.ce));
                self.heard(now, qp);
                let result = self.on_probe(now, qp, frame, probe);
                self.wake_control(qp);
                result
            }
            Body::Trimmed { kind, timestamp } => {
                let qp = self.admit_packet(packet, QpState::receives)?;
                self.stats.rx_trimmed.inc();
                let result = self.on_trimmed(qp, frame, *kind, *timestamp);
                self.wake_control(qp);
                result
            }
            body => {
                let qp = self.admit_packet(packet, |state| state == QpState::Rts)?;
                self.heard_through(now, qp, rx.port);
                self.on_control(now, qp, body, frame.bth.psn, frame.bth.rtx)
            }
        }
    }

    /// A write or a probe is a sign of life. What answers our own packets is one only after it was found to (`feedback`),
    /// and a trimmed packet, which no ICRC protects, is none.
    fn heard(&mut self, now: Instant, qp: u32) {
        if self.qps.get_mut(qp as usize).is_some_and(|slot| slot.heard(now)) {
            self.probe_way_back(now, qp);
        }
    }

    /// Step 2: whether the outermost destination is ours, the arriving port's own addresses first.
    #[inline(always)]
    fn is_local(&self, port: PortNum, dst: &Ip) -> bool {
        match dst {
            Ip::V6(dst) => is_local_v6(&self.cfg, port, dst),
            Ip::V4(_) => self.cfg.gids.iter().flatten().any(|gid| gid == dst),
        }
    }

    /// Step 11: one index and one comparison.
    //= VAL-011
    fn find_qp(&self, qpn: Qpn) -> Option<u32> {
        let index = qpn.value() & !u32::MAX.wrapping_shl(self.qpn_bits);
        self.qps.get(index as usize).filter(|slot| slot.used && slot.qpn == qpn).map(|_| index)
    }

    /// Whether partition key `theirs` and ours name one partition, not both as limited members.
    //= VAL-012
    pub(super) fn same_partition(&self, theirs: u16) -> bool {
        let ours = self.cfg.pkey;
        (theirs ^ ours) & 0x7FFF == 0 && (theirs | ours) & 0x8000 != 0
    }

    /// Steps 11 and 12 but for the peer: the QP, if its partition and its state agree.
    //= VAL-013, VAL-014, PROBE-003, CTL-002
    #[inline(always)]
    fn admit(&self, bth: &BthRepr, takes: impl Fn(QpState) -> bool) -> Result<u32, Discard> {
        let qp = self.find_qp(bth.dest_qp).ok_or(Discard::Qpn)?;
        let slot = self.qps.get(qp as usize).ok_or(Discard::Qpn)?;
        if !self.same_partition(bth.pkey) {
            return Err(Discard::Pkey);
        }
        if takes(slot.state) { Ok(qp) } else { Err(Discard::State) }
    }

    /// Step 12: the addresses are those of the QP's peer; `are` compares its local and its remote one.
    //= IP6-007, HOST-003
    #[inline(always)]
    fn known_peer(&self, qp: u32, are: impl Fn(&Ip, &Ip) -> bool) -> Result<(), Discard> {
        let peer = self.qps.get(qp as usize).and_then(|slot| self.peers.get(slot.peer as usize));
        if peer.is_some_and(|peer| are(&peer.local, &peer.remote)) { Ok(()) } else { Err(Discard::Peer) }
    }

    /// Steps 11 and 12 for any packet.
    fn admit_packet(&self, packet: &PacketView<'_>, takes: impl Fn(QpState) -> bool) -> Result<u32, Discard> {
        let qp = self.admit(&packet.bth(&self.cfg.wire), takes)?;
        self.known_peer(qp, |local, remote| *local == packet.dst() && *remote == packet.src())?;
        Ok(qp)
    }

    /// A write for `qp`; `check` says where its payload goes (steps 15 and 16). One borrow of the QP for all that a write of
    /// the common kind does.
    //= VAL-015, VAL-018, MODEL-002, ERR-002, WIMM-001, WIMM-002
    #[inline(always)]
    fn on_write(
        &mut self,
        now: Instant,
        port: PortNum,
        qp: u32,
        write: Write,
        check: impl FnOnce(&Qp, &Regions<'_>) -> Result<Received, (Syndrome, ErrorCause)>,
        imm: Option<Immediate>,
    ) -> Result<Received, Discard> {
        let mut slot = self.qps.get_mut(qp as usize).ok_or(Discard::Qpn)?;
        if slot.heard(now) {
            self.probe_way_back(now, qp);
            slot = self.qps.get_mut(qp as usize).ok_or(Discard::Qpn)?;
        }
        self.stats.rx_marked.inc_by(u64::from(write.ce));
        let bits = part(self.rx_words, qp, self.limits.words()).ok_or(Discard::Qpn)?;
        if let Some(reason) = self.refusal
            && slot.rsp.window.classify(write.psn, bits) == responder::Arrival::New
        {
            let nack = Answer::nack(reason, &write, slot.rsp.svc_time);
            return Err(self.refuse_unrecorded(now, qp, nack, reason));
        }
        let verdict = slot.rsp.on_write(&write, bits, &self.cfg);
        if verdict != responder::Verdict::New {
            return Err(self.refuse_again(now, qp, verdict, &write));
        }
        slot.fresh = true;
        let mut checked = check(slot, &self.regions);
        if let Some(imm) = imm
            && checked.is_ok()
            && !slot.stash_immediate(part(self.immediates, qp, self.limits.wimm), imm)
        {
            checked = Err((Syndrome::from_u8(self.cfg.wimm_nak_syndrome), ErrorCause::RequestWimm));
        }
        match checked {
            Ok(received) => {
                if slot.rsp.stash.is_empty() {
                    slot.rsp.settle(&[]);
                    if slot.rsp.owes() {
                        self.control.push(self.qps, qp);
                    }
                } else {
                    self.after_immediate(now, qp);
                    self.wake_control(qp);
                }
                self.stats.rx_data.inc();
                if let (Received::Place(place), Some(port)) =
                    (&received, self.stats.ports.get_mut(usize::from(port.plane())))
                {
                    port.rx_bytes.inc_by(place.payload.len() as u64);
                }
                Ok(received)
            }
            Err((syndrome, cause)) => {
                self.fail_qp(now, qp, cause, None);
                self.answer_nak(qp, write.psn, syndrome);
                Err(Discard::Nak)
            }
        }
    }

    /// A write that is not new: a duplicate has been answered, one beyond the window is refused.
    #[cold]
    fn refuse_again(&mut self, now: Instant, qp: u32, verdict: responder::Verdict, write: &Write) -> Discard {
        let why = if verdict == responder::Verdict::Duplicate {
            self.reroute_answers(now, qp);
            Discard::Duplicate
        } else {
            if let Some(slot) = self.qps.get_mut(qp as usize)
                && let Some(nack) = slot.rsp.out_of_window(write, self.cfg.oor_silent)
            {
                slot.rsp.refuse(&mut self.refusals, nack);
            }
            Discard::OutOfWindow
        };
        self.wake_control(qp);
        why
    }

    /// Refuses a new write before anything of it is recorded, for want of resources or because the device failed.
    //= VAL-019, RSP-007
    #[cold]
    fn refuse_unrecorded(&mut self, now: Instant, qp: u32, nack: Answer, reason: NackReason) -> Discard {
        if reason == NackReason::UnexpEvent {
            self.fail_qp(now, qp, ErrorCause::RequestFailed, None);
        }
        if let Some(slot) = self.qps.get_mut(qp as usize) {
            slot.rsp.refuse(&mut self.refusals, nack);
        }
        self.wake_control(qp);
        Discard::Refused
    }

    //= SACK-005, SACK-007, BTH-013, PROBE-002
    fn on_probe(&mut self, now: Instant, qp: u32, frame: &Frame, probe: &ProbeRepr) -> Result<Received, Discard> {
        self.stats.rx_probe.inc();
        // Two probes without new data between them: the peer may be asking because our answers die on their way.
        let slot = self.qps.get_mut(qp as usize).ok_or(Discard::Qpn)?;
        if !core::mem::take(&mut slot.fresh) {
            self.reroute_answers(now, qp);
        }
        let skip_after = self.cfg.always_skip_after;
        let slot = self.qps.get_mut(qp as usize).ok_or(Discard::Qpn)?;
        let verdict = slot.rsp.verdict(frame.entropy, frame.ce, skip_after);
        slot.rsp.reported();
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
        let bits = part(self.rx_words, qp, self.limits.words()).ok_or(Discard::Qpn)?;
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
                slot.rsp.refuse(&mut self.refusals, answer(AnswerKind::Nack(reason)));
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
        self.stats.rx_sack.inc();
        // One borrow of the QP's storage for the SACK and for what it lets the QP do.
        let turn = self.with_tx(
            qp,
            #[inline(always)]
            |mut tx| {
                let outcome = tx.on_sack(now, sack, rtx);
                (outcome, tx.way_back(sack, outcome), tx.oldest_done(), tx.wants(now))
            },
        );
        let Some((outcome, way, done, wants)) = turn else { return Err(Discard::Qpn) };
        self.learn_ways_back(qp, way);
        self.after_sack(now, qp, done, wants);
        outcome.map(|_| Received::Nothing)
    }

    /// What a SACK lets the QP do. Even one that counts as stale (a late probe answer) may have moved the window.
    fn after_sack(&mut self, now: Instant, qp: u32, done: bool, wants: Wants) {
        if done {
            self.complete(qp);
            self.wake(now, qp);
        } else {
            self.wake_control(qp);
            self.wake_for(qp, wants);
        }
    }

    /// NACK, Transport ACK or NAK for our requester.
    fn on_control(&mut self, now: Instant, qp: u32, body: &Body, psn: Psn, rtx: bool) -> Result<Received, Discard> {
        let verdict = match body {
            Body::Nack(nack) => {
                self.stats.rx_nack.inc();
                let trimmed = matches!(nack.reason, NackReason::Trimmed | NackReason::TrimmedLastHop);
                self.stats.rx_nack_trimmed.inc_by(u64::from(trimmed));
                self.with_tx(qp, |mut tx| tx.on_nack(now, nack, rtx)).unwrap_or(Err(Discard::Qpn))
            }
            Body::Ack(aeth) => self.with_tx(qp, |mut tx| tx.on_ack(now, psn, aeth)).unwrap_or(Err(Discard::Qpn)),
            _ => Err(Discard::Opcode),
        };
        if let Ok(requester::Verdict::Fail(cause)) = verdict {
            // A NAK below what completed names no request; then the oldest one reports the cause.
            let open = |slot: &Qp| psn.diff(slot.req.tack) > 0;
            let names_request = matches!(body, Body::Ack(_)) && self.qps.get(qp as usize).is_some_and(open);
            self.fail_qp(now, qp, cause, names_request.then_some(psn));
        } else {
            self.complete(qp);
        }
        self.wake(now, qp);
        verdict.map(|_| Received::Nothing)
    }
}

impl Qp {
    /// The peer sent something of its own; whether a way back is due to be probed.
    #[inline(always)]
    fn heard(&mut self, now: Instant) -> bool {
        self.req.last_heard = now;
        self.req.was_heard = true;
        self.reverse.on_data_received();
        self.reverse.is_due(now)
    }

    /// Keeps the immediate of a write until its turn; `false` when there are more than agreed.
    #[inline(never)]
    fn stash_immediate(&mut self, stash: Option<&mut [Immediate]>, imm: Immediate) -> bool {
        stash.is_some_and(|stash| self.rsp.stash.insert(stash, imm))
    }
}

/// Step 10, as far as the driver has left it to the engine.
#[inline(always)]
fn is_intact(check: IcrcCheck, head: &[u8], l3_offset: usize, icrc_offset: usize) -> bool {
    match check {
        IcrcCheck::Valid => true,
        IcrcCheck::Invalid => false,
        IcrcCheck::Verify => mrc_wire::icrc::verify(head, l3_offset, icrc_offset),
    }
}

/// What the responder looks at in a write.
#[inline(always)]
fn arrived(now: Instant, bth: &BthRepr, packet: &PlainPacket<'_>, cfg: &EndpointConfig) -> Write {
    let tseth = match packet.extension() {
        PlainExtension::Write(write) => write.tseth(),
        PlainExtension::Sack(_) => None,
    };
    Write::arrived(now, bth, packet.udp_len(), packet.ce(), packet.entropy(&cfg.wire), tseth)
}

impl Write {
    #[inline(always)]
    fn arrived(now: Instant, bth: &BthRepr, udp_len: u16, ce: bool, ev: Ev, tseth: Option<TsethRepr>) -> Self {
        Self {
            psn: bth.psn,
            nominal: u32::from(udp_len) + 40,
            ends_message: bth.opcode.ends_message(),
            ack_req: bth.ack_req,
            rtx: bth.rtx,
            ce,
            ev,
            tseth,
            arrived: stamp(now),
        }
    }
}

/// Step 2 for IPv6: the arriving port's own addresses first.
//= HOST-002
#[inline(always)]
fn is_local_v6(cfg: &EndpointConfig, port: PortNum, dst: &[u8; 16]) -> bool {
    let own = cfg.ports.get(usize::from(port.plane())).and_then(Option::as_ref);
    if let Some(own) = own
        && (own.sid.as_ref() == Some(dst) || own.addr.as_ref() == Some(dst))
    {
        return true;
    }
    cfg.gids.iter().flatten().any(|gid| matches!(gid, Ip::V6(gid) if gid == dst))
}

impl Series {
    const NONE: Self = Self {
        next: Next::Anything,
        pattern: PlainSeries::NONE,
        qp: 0,
        mr: MrHandle::from_parts(0, 0),
        va: 0,
        last: 0,
    };

    /// Packets of one kind may follow `packet`.
    #[inline(always)]
    fn begin(&mut self, next: Next, packet: &PlainPacket<'_>, head: &[u8], wire_len: usize) {
        if self.pattern.begin(packet, head, wire_len) {
            self.next = next;
        }
    }

    /// Where the payload of its next packet goes, if that is within the region.
    #[inline(always)]
    fn place(&self, packet: &PlainPacket<'_>, qpn: Qpn, psn: Psn) -> Option<Placement> {
        let PlainExtension::Write(write) = packet.extension() else { return None };
        let offset = write.reth().va.checked_sub(self.va).filter(|offset| *offset <= self.last)?;
        let qp = QpHandle::from_parts(self.qp, qpn);
        Some(Placement { mr: self.mr, qp, psn, offset, payload: write.payload() })
    }
}

/// The immediate of a write that carries one.
fn immediate(bth: &BthRepr, headers: &WriteHeaders<'_>) -> Option<Immediate> {
    let (rqmsn, dmalen) = (headers.meth().rqmsn, headers.reth().dmalen);
    headers.imm().map(|imm| Immediate { psn: bth.psn, imm, dmalen, rqmsn, solicited: bth.se })
}

/// Steps 15 and 16: lengths and memory.
//= VAL-016, VAL-017, LEN-002, LEN-003, LEN-005, LEN-006, LEN-007, RETH-003
#[inline(always)]
fn check_write(
    slot: &Qp,
    regions: &Regions<'_>,
    qp: u32,
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
    match regions.check(slot.pd, reth.rkey.0, reth.va, reach(bth, reth, len), true) {
        Ok((mr, offset)) => {
            let qp = QpHandle::from_parts(qp, slot.qpn);
            Ok(Received::Place(Placement { mr, qp, psn: bth.psn, offset, payload }))
        }
        Err(AccessError::Key | AccessError::Rights | AccessError::Bounds) => Err(refused),
    }
}

/// Bytes from its own place on that a packet with `len` bytes of payload needs access to.
#[inline(always)]
fn reach(bth: &BthRepr, reth: &RethRepr, len: u64) -> u64 {
    // The first packet answers for the whole message, which begins where it does.
    if bth.opcode.is_first() { u64::from(reth.dmalen) } else { len }
}
