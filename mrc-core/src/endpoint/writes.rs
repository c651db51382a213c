//! The frames of one QP's writes. Within a turn most packets come from the middle of one request: all their headers but
//! path, PSN and place are alike, so that the first on each plane is the pattern of the others.
//! Source: `wire.md` 3 and 4, `transport.md` 3.2.

use mrc_wire::{BthRepr, Ecn, MethRepr, Opcode, Qpn, RethRepr, TsethRepr};

use super::{
    MAX_HEADER_LEN, PayloadRef, Transmit,
    peers::PeerSlot,
    tx::{Given, Sizes, below_bth, count_sent, data_dscp, stamp},
};
use crate::{
    config::{EndpointConfig, MAX_PORTS, Route},
    mem::Regions,
    path::{Choice, EvEntry},
    requester::{DataPacket, SendQueue, TxSide},
    time::Instant,
};

/// Why a chosen packet cannot leave.
pub(super) enum Unsendable {
    /// The local region of its request is gone.
    Memory,
    /// No template or no destination: the peer has no way on that plane.
    NoWay,
}

/// The peer of one QP, for one turn.
pub(super) struct ToPeer<'a> {
    pub(super) cfg: &'a EndpointConfig,
    pub(super) peer: &'a PeerSlot,
    /// Entries from the first of the QP's profile on.
    pub(super) entries: &'a [EvEntry],
    pub(super) regions: &'a Regions<'a>,
    pub(super) dest_qp: Qpn,
}

impl ToPeer<'_> {
    /// As [`ToPeer::write`], by the pattern of an earlier packet of the same turn where one fits.
    #[inline(always)]
    pub(super) fn write_in_turn(
        &self,
        now: Instant,
        tx: &mut TxSide<'_, '_>,
        packet: &DataPacket,
        patterns: &mut Patterns,
        out: &mut [u8; MAX_HEADER_LEN],
    ) -> Result<Transmit, Unsendable> {
        if let Some(pattern) = patterns.of(packet)
            && let Some(transmit) = self.repeat(pattern, packet, tx.req.path_mtu, out)
        {
            count_sent(tx.path.stats, &transmit);
            return Ok(transmit);
        }
        self.write(now, tx, packet, patterns, out)
    }

    /// A copy of `pattern` with the path, the PSN and the place of `packet`.
    #[inline(always)]
    fn repeat(
        &self,
        pattern: &Pattern,
        packet: &DataPacket,
        path_mtu: u32,
        out: &mut [u8; MAX_HEADER_LEN],
    ) -> Option<Transmit> {
        let Choice { ev, port, .. } = packet.choice;
        let template = self.peer.templates.get(usize::from(port.plane()))?.as_ref()?;
        *out = pattern.headers;
        match &self.peer.route {
            Route::Plain => template.change_path(out, ev, None)?,
            Route::Srv6(map) => template.change_path(out, ev, Some(&map.apply(ev)))?,
            Route::Srv6Entry => return None,
        }
        let further = u64::from(packet.at.index.wrapping_sub(pattern.index)) * u64::from(path_mtu);
        let room: &mut [u8; WRITE_HEADERS] = out.get_mut(template.header_len()..)?.first_chunk_mut()?;
        let (bth, rest) = room.split_first_chunk_mut()?;
        BthRepr { psn: packet.psn, ack_req: packet.ack_req, ..pattern.bth }.emit_psn(bth);
        let (_, mut rest) = rest.split_first_chunk_mut::<{ MethRepr::LEN }>()?;
        if pattern.bth.ts {
            rest = rest.split_first_chunk_mut::<{ TsethRepr::LEN }>()?.1;
        }
        // A request's addresses begin RETH.
        *rest.first_chunk_mut()? = pattern.va.wrapping_add(further).to_be_bytes();
        let payload = pattern.transmit.payload?;
        let payload = PayloadRef { offset: payload.offset.wrapping_add(further), ..payload };
        Some(Transmit { ev, payload: Some(payload), ..pattern.transmit })
    }

    /// The SRv6 destination of an entry, where the peer's paths hold their own.
    //= MAP-005, MAP-006
    fn given(&self, entry: u16) -> Option<Given<'_>> {
        match self.peer.route {
            Route::Srv6Entry => self.entries.get(usize::from(entry)).map(Given::of),
            _ => Some(Given::NONE),
        }
    }

    /// Writes the headers of a write packet.
    //= RETH-001, RETH-002, METH-002, METH-003, SEG-003, SEG-004, BTH-003, IP6-002
    #[inline(never)]
    pub(super) fn write(
        &self,
        now: Instant,
        tx: &mut TxSide<'_, '_>,
        packet: &DataPacket,
        patterns: &mut Patterns,
        out: &mut [u8; MAX_HEADER_LEN],
    ) -> Result<Transmit, Unsendable> {
        let cfg = self.cfg;
        let segment = SendQueue::segment(tx.ring, packet.at).ok_or(Unsendable::NoWay)?;
        let (wqe, index) = (segment.wqe, segment.at.index);
        let mtu = tx.req.path_mtu;
        let len = packet.len;
        //= ERR-003
        if len > 0 && !self.regions.live(wqe.mr) {
            return Err(Unsendable::Memory);
        }
        let pad = (len.wrapping_neg() & 3) as u8;
        let imm = wqe.imm.filter(|_| segment.carries_imm());
        let done = u64::from(index) * u64::from(mtu);
        let ts = cfg.timestamps;
        let bth = BthRepr {
            opcode: opcode(index, wqe.packets, wqe.imm.is_some()),
            se: wqe.solicited && imm.is_some(),
            pad,
            pkey: cfg.pkey,
            dest_qp: self.dest_qp,
            ack_req: packet.ack_req,
            rtx: packet.rtx,
            ts,
            psn: packet.psn,
        };
        let reth = RethRepr { va: wqe.remote_va.wrapping_add(done), rkey: wqe.rkey, dmalen: wqe.len };
        let meth = MethRepr { rqmsn: wqe.rqmsn, msn: wqe.msn };
        let dscp = data_dscp(tx.req.trimming, &cfg.wire.dscp, packet.rtx);
        let payload = (len > 0).then(|| PayloadRef { mr: wqe.mr, offset: wqe.offset.wrapping_add(done), len });
        let imm_len = if imm.is_some() { 4 } else { 0 };
        let headers = BthRepr::LEN + MethRepr::LEN + if ts { TsethRepr::LEN } else { 0 } + RethRepr::LEN + imm_len;
        let sizes = Sizes::write(headers, len, pad);
        let Choice { ev, port, entry, .. } = packet.choice;
        let given = self.given(entry);
        let transport = |given| {
            let (start, transmit) = below_bth(self.peer, ev, port, given, dscp, Ecn::Ect0, sizes, payload, out)?;
            // All that may follow, so that the pieces are cut off without looking at the length again.
            let room: &mut [u8; WRITE_HEADERS] = out.get_mut(start..)?.first_chunk_mut()?;
            let (to, rest) = room.split_first_chunk_mut()?;
            bth.emit_with(to, cfg.wire.bth_se_bit);
            let (to, mut rest) = rest.split_first_chunk_mut()?;
            meth.emit(to);
            if ts {
                let (to, after) = rest.split_first_chunk_mut()?;
                TsethRepr::ns128(stamp(now)).emit(to);
                rest = after;
            }
            let (to, rest) = rest.split_first_chunk_mut()?;
            reth.emit(to);
            if let Some(imm) = imm {
                *rest.first_chunk_mut()? = imm.to_be_bytes();
            }
            Some(transmit)
        };
        let transmit = given.and_then(transport).ok_or(Unsendable::NoWay)?;
        count_sent(tx.path.stats, &transmit);
        if packet.middle {
            let pattern = Pattern { headers: *out, transmit, index, bth, va: reth.va };
            patterns.keep(packet, pattern);
        }
        Ok(transmit)
    }
}

/// Transport headers of a write at most.
const WRITE_HEADERS: usize = BthRepr::LEN + MethRepr::LEN + TsethRepr::LEN + RethRepr::LEN + 4;

/// The headers of one packet from the middle of a request, to write those of others.
pub(super) struct Pattern {
    headers: [u8; MAX_HEADER_LEN],
    transmit: Transmit,
    /// Place of the packet in its request.
    index: u32,
    bth: BthRepr,
    /// Address that RETH carries.
    va: u64,
}

/// One pattern per plane, of one request, for one turn: until it ends neither time nor memory regions change.
pub(super) struct Patterns {
    request: u32,
    of_plane: [Option<Pattern>; MAX_PORTS],
}

impl Patterns {
    pub(super) const fn new(request: u32) -> Self {
        Self { request, of_plane: [const { None }; MAX_PORTS] }
    }

    #[inline(always)]
    fn of(&self, packet: &DataPacket) -> Option<&Pattern> {
        if !packet.middle || packet.at.request != self.request {
            return None;
        }
        self.of_plane.get(usize::from(packet.choice.port.plane()))?.as_ref()
    }

    fn keep(&mut self, packet: &DataPacket, pattern: Pattern) {
        if packet.at.request != self.request {
            *self = Self::new(packet.at.request);
        }
        if let Some(place) = self.of_plane.get_mut(usize::from(packet.choice.port.plane())) {
            *place = Some(pattern);
        }
    }
}

/// Opcode of packet `index` of a message of `packets`.
//= SEG-002, SEG-004
fn opcode(index: u32, packets: u32, imm: bool) -> Opcode {
    match (index == 0, index + 1 >= packets, imm) {
        (true, true, false) => Opcode::WriteOnly,
        (true, true, true) => Opcode::WriteOnlyImm,
        (true, false, _) => Opcode::WriteFirst,
        (false, false, _) => Opcode::WriteMiddle,
        (false, true, false) => Opcode::WriteLast,
        (false, true, true) => Opcode::WriteLastImm,
    }
}
