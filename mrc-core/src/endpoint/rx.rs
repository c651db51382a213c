//! A received frame: validation, then what requester and responder make of it. What draws an answer and places nothing is in
//! `refused`. Source: `wire.md` 13 and 14.

use core::ops::Range;

use mrc_wire::{
    Extension, HeadImage, Ip, NackReason, NackRepr, PacketHead, PacketView, PlainFrame, PortNum, ProbeRepr, Qpn,
    Syndrome, WriteShape,
};

use super::{Endpoint, FrameSource, IcrcCheck, Received, RxMeta, part, write_in::check_write};
use crate::num::Counter;
use crate::{
    config::EndpointConfig,
    error::Discard,
    event::ErrorCause,
    qp::{Qp, QpState},
    ready::List,
    responder::{Answer, AnswerKind, Immediate, WritePacket},
    time::Instant,
};

impl Endpoint<'_> {
    /// Takes one received frame. `head` holds at least its headers; the rest may lie elsewhere when the driver checked
    /// the ICRC.
    ///
    /// # Errors
    /// The reason why the frame had no further effect; it is counted under the same name.
    pub fn handle_packet(&mut self, now: Instant, rx: RxMeta, head: &[u8]) -> Result<Received, Discard> {
        self.take(now, rx, head)
    }

    /// Takes received frames until the source has no more, as [`Endpoint::handle_packet`] does one.
    pub fn receive(&mut self, now: Instant, source: &mut impl FrameSource) {
        let many = self.has_many();
        loop {
            let most = if many { self.fetch_arrivals(source) } else { usize::MAX };
            for _ in 0..most {
                let Some((rx, head)) = source.next() else { return };
                let result = self.take(now, rx, head);
                source.done(result);
            }
        }
    }

    /// Handles one frame. The engine accepts a write that repeats the last one at once; [`Self::take_other`] handles all other frames.
    #[inline(never)]
    fn take(&mut self, now: Instant, rx: RxMeta, head: &[u8]) -> Result<Received, Discard> {
        let result = if let Some(frame) = PlainFrame::find(head)
            && let qp = self.slot_of(frame.dest_qp())
            && let Some(slot) = self.qps.get(qp as usize)
            && let Some((packet, headers, shape)) = slot.expected.repeats(&frame, rx.wire_len)
            && self.is_for_us(&rx, slot, &frame)
            && is_intact(rx.icrc, head, &packet)
            && self.is_usual(now, slot)
        {
            let write = WritePacket { packet, headers, shape, sound: true, ce: false, now };
            let result = self.on_write::<true>(now, rx.port, qp, write);
            if result.is_err() {
                self.count_received(rx.port);
            }
            result
        } else {
            self.take_other(now, rx, head)
        };
        match result {
            Err(why) => Err(self.discard(rx.port, why)),
            taken => taken,
        }
    }

    /// Handles a frame that repeats no write: by the head that its QP expects, or else field by field.
    //= VAL-010
    #[inline(never)]
    fn take_other(&mut self, now: Instant, rx: RxMeta, head: &[u8]) -> Result<Received, Discard> {
        if let Some(frame) = PlainFrame::find(head)
            && let Some(packet) = frame.packet(rx.wire_len, &self.cfg.wire)
            && let qp = self.slot_of(frame.dest_qp())
            && let Some(slot) = self.qps.get(qp as usize).filter(|slot| slot.expected.fits(&packet))
            && self.is_for_us(&rx, slot, &frame)
            && is_intact(rx.icrc, head, &packet)
            && let Some((extension, payload)) = Extension::plain(&packet, frame.rest())
        {
            self.count_received(rx.port);
            return self.accept(now, rx.port, qp, &packet, &extension, payload);
        }
        self.take_any(now, rx, head)
    }

    /// Whether a frame for the QP `slot` arrived at an address of its port, and the peer has not announced that port as down.
    #[inline(always)]
    fn is_for_us(&self, rx: &RxMeta, slot: &Qp, frame: &PlainFrame<'_>) -> bool {
        let Some(own) = self.arrives_at.get(usize::from(rx.port.plane())) else { return false };
        let masked = || self.peers.get(slot.peer as usize).is_none_or(|peer| !peer.announced.contains(rx.port));
        let dst = frame.outermost_dst();
        (self.masks.free.contains(rx.port) || !masked()) && (*own == Some(dst) || is_local_v6(&self.cfg, rx.port, dst))
    }

    /// Whether the QP `slot` has only to accept a write: no placement or immediate waits, the endpoint refuses no writes, and no return path
    /// is due to be probed.
    #[inline(always)]
    fn is_usual(&self, now: Instant, slot: &Qp) -> bool {
        let waits = slot.rsp.placing.is_reported() || !slot.rsp.stash.is_empty();
        !waits && self.refusal.is_none() && slot.reverse.rests(now)
    }

    /// Any frame; one that is found right tells which head its QP expects next.
    #[inline(never)]
    fn take_any(&mut self, now: Instant, rx: RxMeta, head: &[u8]) -> Result<Received, Discard> {
        let packet = PacketView::parse(head, rx.wire_len, &self.cfg.wire, |dst| self.is_local(rx.port, dst))?;
        let trimmed = matches!(packet.extension(), Extension::Trimmed { .. });
        if !trimmed && !is_intact(rx.icrc, head, &packet) {
            return Err(Discard::Icrc);
        }
        self.count_received(rx.port);
        let takes = match packet.extension() {
            Extension::EndpointRequest(..) | Extension::EndpointResponse(..) => {
                return self.on_endpoint(now, rx.port, &packet.to_frame(&self.cfg.wire));
            }
            Extension::Write(_) | Extension::Probe(_) | Extension::Trimmed { .. } => QpState::receives,
            Extension::Sack(_) | Extension::Ack(_) | Extension::Nack(_) => QpState::sends,
        };
        let qp = self.admit(&packet, takes)?;
        // No ICRC protects a trimmed packet: it says nothing about ports.
        if !trimmed {
            self.heard_through(now, qp, rx.port);
            if let Some(slot) = self.qps.get_mut(qp as usize).filter(|slot| !slot.expected.fits(&packet)) {
                slot.expected = HeadImage::of(&packet);
            }
            if let Ip::V6(dst) = packet.outermost_dst()
                && let Some(own) = self.arrives_at.get_mut(usize::from(rx.port.plane()))
            {
                *own = Some(dst);
            }
        }
        self.accept(now, rx.port, qp, &packet, packet.extension(), packet.payload())
    }

    #[inline(never)]
    fn on_unusual_write(
        &mut self,
        now: Instant,
        port: PortNum,
        qp: u32,
        write: WritePacket<'_>,
    ) -> Result<Received, Discard> {
        self.on_write::<false>(now, port, qp, write)
    }

    /// A packet for `qp`.
    #[inline(always)]
    fn accept(
        &mut self,
        now: Instant,
        port: PortNum,
        qp: u32,
        packet: &PacketHead<'_>,
        extension: &Extension<'_>,
        payload: Range<usize>,
    ) -> Result<Received, Discard> {
        match extension {
            Extension::Write(headers) => {
                let (packet, headers, shape) = (*packet, *headers, WriteShape::of(packet, &payload));
                let write = WritePacket { packet, headers, shape, sound: false, ce: packet.ce(), now };
                self.on_unusual_write(now, port, qp, write)
            }
            Extension::Sack(sack) => self.on_sack(now, qp, sack, packet.rtx()),
            Extension::Ack(aeth) => self.on_ack(now, qp, packet.psn(), aeth),
            Extension::Nack(nack) => self.on_nack(now, qp, &NackRepr::parse(nack), packet.rtx()),
            Extension::Probe(probe) => self.on_probe(now, qp, packet, &ProbeRepr::parse(probe)),
            Extension::Trimmed { kind, timestamp, tsr } => self.on_trimmed(now, qp, packet, *kind, (*timestamp, *tsr)),
            _ => Err(Discard::Opcode),
        }
    }

    #[inline(always)]
    fn count_received(&mut self, port: PortNum) {
        if let Some(port) = self.stats.ports.get_mut(usize::from(port.plane())) {
            port.rx_packets.inc();
        }
    }

    /// Step 2: whether the outermost destination is ours, the arriving port's own addresses first.
    #[inline(always)]
    pub(super) fn is_local(&self, port: PortNum, dst: &Ip) -> bool {
        match dst {
            Ip::V6(dst) => is_local_v6(&self.cfg, port, *dst),
            Ip::V4(_) => self.cfg.gids.iter().flatten().any(|gid| gid == dst),
        }
    }

    /// Slot of a QP with this number.
    #[inline(always)]
    pub(super) const fn slot_of(&self, qpn: Qpn) -> u32 {
        qpn.value() & self.qpn_mask
    }

    /// Whether partition key `theirs` and ours name one partition, not both as limited members.
    //= VAL-012
    pub(super) fn same_partition(&self, theirs: u16) -> bool {
        let ours = self.cfg.pkey;
        (theirs ^ ours) & 0x7FFF == 0 && (theirs | ours) & 0x8000 != 0
    }

    /// Steps 11 and 12: one index and a few comparisons.
    //= VAL-011, VAL-013, VAL-014, PROBE-003, CTL-002, IP6-007, HOST-003
    fn admit(&self, packet: &PacketView<'_>, takes: fn(QpState) -> bool) -> Result<u32, Discard> {
        let bth = packet.bth(&self.cfg.wire);
        let qp = self.slot_of(bth.dest_qp);
        let slot = self.qps.get(qp as usize).filter(|slot| slot.used && slot.qpn == bth.dest_qp).ok_or(Discard::Qpn)?;
        if !self.same_partition(bth.pkey) {
            return Err(Discard::Pkey);
        }
        // Before RTR there is no address to compare.
        let Some(peer) = self.peers.get(slot.peer as usize) else { return Err(Discard::State) };
        let (dst, src) = (packet.dst(), packet.src());
        let own = || !peer.own_addresses.is_empty() && self.headers().belong(peer, slot.peer, &dst, &src);
        if !(peer.local == dst && peer.remote == src || own()) {
            return Err(Discard::Peer);
        }
        if takes(slot.state) { Ok(qp) } else { Err(Discard::State) }
    }

    /// A write for `qp`; where `USUAL`, [`Self::is_usual`] holds, and one without an error is counted for its port.
    //= VAL-015, VAL-018, MODEL-002, ERR-002, WIMM-001, WIMM-002
    #[inline(always)]
    fn on_write<const USUAL: bool>(
        &mut self,
        now: Instant,
        port: PortNum,
        qp: u32,
        write: WritePacket<'_>,
    ) -> Result<Received, Discard> {
        let Some(mut slot) = self.qps.get_mut(qp as usize) else { return Err(Discard::Qpn) };
        if slot.heard(now) && !USUAL {
            self.probe_return_path(now, qp);
            slot = self.qps.get_mut(qp as usize).ok_or(Discard::Qpn)?;
        }
        if write.ce {
            self.stats.rx_marked.inc();
        }
        if !USUAL && (self.refusal.is_some() || slot.rsp.placing.is_reported()) {
            let reason = self.refusal.unwrap_or(NackReason::NoPktBuffer);
            let nack = Answer { kind: AnswerKind::Nack(reason), ..write.sack(&self.cfg, slot.rsp.svc_time) };
            if let Some(refused) = self.refuse_unrecorded(now, qp, nack) {
                return Err(refused);
            }
            slot = self.qps.get_mut(qp as usize).ok_or(Discard::Qpn)?;
        }
        let owes = match slot.rsp.on_next::<USUAL>(&write, &self.cfg) {
            Some(owes) => owes,
            None => {
                let arrived = write.arrived(&self.cfg, slot.rsp.svc_time);
                let owes = self.on_gap::<USUAL>(now, qp, &arrived)?;
                slot = self.qps.get_mut(qp as usize).ok_or(Discard::Qpn)?;
                owes
            }
        };
        if USUAL && owes && !slot.links.get(List::Control).is_queued() {
            self.join_control(qp);
            slot = self.qps.get_mut(qp as usize).ok_or(Discard::Qpn)?;
        }
        slot.written = true;
        // That of the write which this one repeats is read where it is needed.
        let shape = if USUAL { slot.expected.shape() } else { write.shape };
        let mut checked = check_write(slot, &self.regions, qp, &write, shape);
        if !USUAL
            && let Some(imm) = write.headers.imm()
            && let Ok(received) = &checked
            && !slot.stash_immediate(part(self.immediates, qp, self.limits.wimm), write, imm, &self.cfg)
        {
            let moves = matches!(received, Received::Place(_));
            if !self.deliver_in_order(qp, immediate(&write, imm, &self.cfg), moves) {
                checked = Err((Syndrome::from_u8(self.cfg.wimm_nak_syndrome), ErrorCause::RequestWimm));
            }
            slot = self.qps.get_mut(qp as usize).ok_or(Discard::Qpn)?;
        }
        match checked {
            Ok(received) => {
                if !write.sound && write.is_repeated() {
                    slot.expected.expect(&write.packet, &write.headers, write.shape);
                }
                if !USUAL && slot.rsp.placing.is_reported() {
                    let (moves, cack) = (matches!(received, Received::Place(_)), slot.rsp.window.cack());
                    if let Some(bits) = part(self.rx_words, qp, self.limits.words()) {
                        slot.rsp.placing.begin(write.psn(), write.ends_message(), moves, cack, bits);
                    }
                }
                if !USUAL {
                    if slot.rsp.stash.is_empty() {
                        slot.rsp.settle(&[]);
                    } else {
                        self.after_immediate(now, qp);
                    }
                    self.wake_control(qp);
                }
                self.stats.rx_data.inc();
                if let Some(port) = self.stats.ports.get_mut(usize::from(port.plane())) {
                    port.rx_packets.inc_by(USUAL.into());
                    port.rx_bytes.inc_by(shape.payload_len().into());
                }
                Ok(received)
            }
            Err((syndrome, cause)) => Err(self.refuse_for_good(now, qp, write.psn(), (syndrome, cause))),
        }
    }
}

impl Qp {
    /// The peer sent something of its own; whether a return path is due to be probed.
    #[inline(always)]
    pub(super) fn heard(&mut self, now: Instant) -> bool {
        self.req.last_heard = now;
        self.req.was_heard = true;
        self.reverse.on_data_received();
        self.reverse.is_due(now)
    }

    /// Keeps the immediate of a write until its turn; `false` when as many as agreed wait.
    #[inline(never)]
    fn stash_immediate(
        &mut self,
        stash: Option<&mut [Immediate]>,
        write: WritePacket<'_>,
        imm: u32,
        cfg: &EndpointConfig,
    ) -> bool {
        stash.is_some_and(|stash| self.rsp.stash.insert(stash, immediate(&write, imm, cfg)))
    }
}

/// What is kept of a write with immediate `imm`.
fn immediate(write: &WritePacket<'_>, imm: u32, cfg: &EndpointConfig) -> Immediate {
    let (bth, rqmsn, dmalen) = (write.packet.bth(&cfg.wire), write.headers.meth().rqmsn, write.headers.reth().dmalen);
    Immediate { psn: bth.psn, imm, dmalen, rqmsn, solicited: bth.se }
}

/// Step 10, as far as the driver has left it to the engine.
#[inline(always)]
fn is_intact(check: IcrcCheck, head: &[u8], packet: &PacketHead<'_>) -> bool {
    let verified = || mrc_wire::icrc::verify(head, packet.l3_offset(), packet.icrc_offset());
    check == IcrcCheck::Valid || check == IcrcCheck::Verify && verified()
}

/// Step 2 for IPv6: the arriving port's own addresses first.
//= HOST-002
#[inline(never)]
fn is_local_v6(cfg: &EndpointConfig, port: PortNum, dst: [u8; 16]) -> bool {
    let own = cfg.ports.get(usize::from(port.plane())).and_then(Option::as_ref);
    if let Some(own) = own
        && (own.sid == Some(dst) || own.addr == Some(dst))
    {
        return true;
    }
    cfg.gids.iter().flatten().any(|gid| matches!(gid, Ip::V6(gid) if *gid == dst))
}
