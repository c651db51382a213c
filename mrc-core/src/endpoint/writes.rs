//! The frames of one QP's writes. Within a turn most packets come from the middle of one request: the transport headers of
//! the first are the pattern of the others.
//! Source: `wire.md` 3 and 4, `transport.md` 3.2.

use mrc_wire::{BthRepr, Ecn, MethRepr, Opcode, Qpn, RethRepr, TsethRepr};

use super::{
    MAX_HEADER_LEN, PayloadRef, Transmit,
    peers::PeerSlot,
    schedule::FrameSink,
    tx::{Given, Sizes, below_bth, count_sent, data_dscp, stamp},
};
use crate::{
    config::{EndpointConfig, Route},
    mem::Regions,
    path::{Choice, EvEntry},
    requester::{DataPacket, SegmentAt, SendQueue, TxSide},
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
    /// Writes a write packet into the sink, by the pattern of an earlier one of the same turn where it fits.
    #[inline(always)]
    pub(super) fn write_in_turn(
        &self,
        now: Instant,
        tx: &mut TxSide<'_, '_>,
        packet: DataPacket,
        pattern: Option<&mut Option<Pattern>>,
        sink: &mut impl FrameSink,
    ) -> Result<(), Unsendable> {
        if let Some(Some(pattern)) = &pattern
            && packet.middle
            && packet.at.request == pattern.at.request
        {
            let transmit = self.repeat(pattern, &packet, sink.headers()).ok_or(Unsendable::NoWay)?;
            count_sent(tx.path.stats, &transmit);
            sink.push(transmit);
            return Ok(());
        }
        let transmit = self.write(now, tx, &packet, pattern, sink.headers())?;
        sink.push(transmit);
        Ok(())
    }

    /// Writes a packet that differs from `pattern` in path, PSN and place.
    #[inline(always)]
    fn repeat(&self, pattern: &Pattern, packet: &DataPacket, out: &mut [u8; MAX_HEADER_LEN]) -> Option<Transmit> {
        let further = u64::from(packet.at.index.wrapping_sub(pattern.at.index)).wrapping_mul(packet.len.into());
        let payload = PayloadRef { offset: pattern.payload.offset.wrapping_add(further), ..pattern.payload };
        let Choice { ev, port, entry, .. } = packet.choice;
        let (given, sizes) = (self.given(entry)?, pattern.sizes);
        let (start, transmit) =
            below_bth(self.peer, ev, port, given, pattern.dscp, Ecn::Ect0, sizes, Some(payload), out)?;
        let room: &mut [u8; WRITE_HEADERS] = out.get_mut(start..)?.first_chunk_mut()?;
        *room = pattern.headers;
        let (bth, rest) = room.split_first_chunk_mut()?;
        BthRepr { psn: packet.psn, ack_req: packet.ack_req, ..pattern.bth }.emit_psn(bth);
        let (_, mut rest) = rest.split_first_chunk_mut::<{ MethRepr::LEN }>()?;
        if pattern.bth.ts {
            rest = rest.split_first_chunk_mut::<{ TsethRepr::LEN }>()?.1;
        }
        // RETH begins with the address.
        *rest.first_chunk_mut()? = pattern.va.wrapping_add(further).to_be_bytes();
        Some(transmit)
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
        pattern: Option<&mut Option<Pattern>>,
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
        let done = u64::from(index).wrapping_mul(mtu.into());
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
        const PLAIN: usize = BthRepr::LEN + MethRepr::LEN + RethRepr::LEN;
        let headers = if ts { PLAIN + TsethRepr::LEN } else { PLAIN };
        let headers = headers.wrapping_add(if imm.is_some() { 4 } else { 0 });
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
            if let (Some(pattern), Some(payload), true) = (pattern, payload, packet.middle) {
                *pattern = Some(Pattern { headers: *room, at: packet.at, bth, va: reth.va, sizes, payload, dscp });
            }
            Some(transmit)
        };
        let transmit = given.and_then(transport).ok_or(Unsendable::NoWay)?;
        count_sent(tx.path.stats, &transmit);
        Ok(transmit)
    }
}

/// Transport headers of a write at most.
const WRITE_HEADERS: usize = BthRepr::LEN + MethRepr::LEN + TsethRepr::LEN + RethRepr::LEN + 4;

/// The transport headers of one packet from the middle of a request, to write those of others in the same turn: until it
/// ends neither time nor memory regions change.
pub(super) struct Pattern {
    headers: [u8; WRITE_HEADERS],
    at: SegmentAt,
    bth: BthRepr,
    /// Address that RETH carries.
    va: u64,
    sizes: Sizes,
    payload: PayloadRef,
    dscp: u8,
}

/// Opcode of packet `index` of a message of `packets`.
//= SEG-002, SEG-004
fn opcode(index: u32, packets: u32, imm: bool) -> Opcode {
    match (index == 0, index.wrapping_add(1) >= packets, imm) {
        (true, true, false) => Opcode::WriteOnly,
        (true, true, true) => Opcode::WriteOnlyImm,
        (true, false, _) => Opcode::WriteFirst,
        (false, false, _) => Opcode::WriteMiddle,
        (false, true, false) => Opcode::WriteLast,
        (false, true, true) => Opcode::WriteLastImm,
    }
}
