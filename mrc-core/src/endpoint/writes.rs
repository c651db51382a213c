//! The frames of one QP's writes. Most packets come from the middle of one request, as the one before: its transport headers
//! are kept with the QP and copied.
//! Source: `wire.md` 3 and 4, `transport.md` 3.2.

use mrc_wire::{BthRepr, Ecn, MethRepr, Opcode, Psn, Qpn, RethRepr, Rkey, TsethRepr};

use super::{
    MAX_HEADER_LEN, PayloadRef, Transmit,
    below::{Below, Entries, Tail, count_sent},
};
use crate::{
    Prefetch,
    config::EndpointConfig,
    mem::{MrHandle, Regions},
    path::Choice,
    requester::{DataPacket, SegmentAt, SendQueue, TxSide, Wqe},
    time::Instant,
};

/// Why a chosen packet cannot leave.
pub(super) enum Unsendable {
    /// The local region of its request is gone.
    Memory,
    /// No template or no destination: the peer has no way on that plane.
    Unreachable,
}

/// The peer of one QP, for one turn.
#[derive(Clone, Copy)]
pub(super) struct ToPeer<'a> {
    pub(super) peer: Below<'a>,
    pub(super) entries: Entries<'a>,
    pub(super) regions: &'a Regions<'a>,
    /// The last region that was found live.
    pub(super) live: Option<MrHandle>,
}

impl ToPeer<'_> {
    /// Whether the payload of a packet of `len` bytes can be read, as far as it is not found out with the first packet of its
    /// request.
    //= ERR-003
    #[inline(always)]
    pub(super) fn has_payload(&self, tx: &TxSide<'_, '_>, (at, len): (SegmentAt, u32)) -> bool {
        let head = &tx.qp.head;
        len == 0 || head.middle_of != u64::from(at.request) || self.regions.live(head.mr)
    }

    /// Writes the headers of a write packet: a copy of the transport headers of the packet before it, where both are from the
    /// middle of one request, and what differs. The caller has asked [`Self::has_payload`].
    //= RETH-001, RETH-002, METH-002, METH-003, IP6-002
    #[inline(always)]
    pub(super) fn write(
        &mut self,
        now: Instant,
        tx: &mut TxSide<'_, '_>,
        dscp: u8,
        tail: Tail,
        packet: &DataPacket,
        out: &mut [u8; MAX_HEADER_LEN],
    ) -> Result<Transmit, Unsendable> {
        let qp = &mut *tx.qp;
        // The head is that of a middle packet of a request: this one is another, unless it is the last.
        if !packet.more || qp.head.middle_of != u64::from(packet.at.request) {
            let segment = SendQueue::segment(tx.ring, packet.at).ok_or(Unsendable::Unreachable)?;
            if packet.len > 0 && self.live != Some(segment.wqe.mr) {
                if !self.regions.live(segment.wqe.mr) {
                    return Err(Unsendable::Memory);
                }
                self.live = Some(segment.wqe.mr);
            }
            if !qp.head.renew(segment.wqe) {
                qp.head.compose(tx.cfg, qp.dest_qp, segment.wqe, packet.at, packet.len);
            }
        }
        // All packets of a turn leave at one time.
        if qp.head.stamp != u32::from(now.stamp()) {
            qp.head.put_time(tx.cfg, now.stamp());
        }
        let transmit = self.emit(tx, packet, dscp, tail, out).ok_or(Unsendable::Unreachable)?;
        count_sent(tx.stats, packet.choice.port, packet.len);
        Ok(transmit)
    }

    #[inline(always)]
    fn emit(
        &self,
        tx: &TxSide<'_, '_>,
        packet: &DataPacket,
        dscp: u8,
        tail: Tail,
        out: &mut [u8; MAX_HEADER_LEN],
    ) -> Option<Transmit> {
        let head = &tx.qp.head;
        let Choice { ev, port, entry, .. } = packet.choice;
        let entry_of = || self.entries.get(entry);
        let done = u64::from(packet.at.index).wrapping_mul(tx.qp.req.path_mtu.into());
        let offset = head.offset.wrapping_add(done);
        let payload = (packet.len > 0).then_some(PayloadRef { mr: head.mr, offset, len: packet.len });
        let len = head.len.into();
        let (start, transmit) = self.peer.write((ev, port), entry_of, dscp, Ecn::Ect0, len, tail, payload, out)?;
        // All that may follow, so that the pieces are cut off without looking at the length again.
        let room: &mut [u8; WRITE_HEADERS] = out.get_mut(start..)?.first_chunk_mut()?;
        *room = head.bytes;
        let (bth, rest) = room.split_first_chunk_mut()?;
        let ts = tx.cfg.timestamps;
        let flags = BthRepr { ack_req: packet.ack_req, rtx: packet.rtx, ts, ..NO_FLAGS };
        BthRepr { psn: packet.psn, ..flags }.emit_psn(bth);
        // RETH begins with the address.
        let reth = MethRepr::LEN.wrapping_add(if ts { TsethRepr::LEN } else { 0 });
        *rest.get_mut(reth..)?.first_chunk_mut()? = head.va.wrapping_add(done).to_be_bytes();
        Some(transmit)
    }
}

const NO_FLAGS: BthRepr = BthRepr::new(Opcode::WriteMiddle, Qpn::new(0), Psn::new(0));

/// More than any request has.
const NO_REQUEST: u64 = u64::MAX;

/// More than any timestamp is.
const NO_TIME: u32 = u32::MAX;

/// [`WriteHead::single`] of any other request.
const NOT_SINGLE: (u64, Rkey) = (u64::MAX, Rkey(0));

/// Where the time lies in the transport headers of a write that has one.
const TSETH: usize = BthRepr::LEN + MethRepr::LEN;

/// Transport headers of a write at most.
const WRITE_HEADERS: usize = BthRepr::LEN + MethRepr::LEN + TsethRepr::LEN + RethRepr::LEN + 4;

/// The transport headers of a QP's last write packet, but for PSN, its flags and address: those of the next one, where both are from
/// the middle of one request and leave at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteHead {
    bytes: [u8; WRITE_HEADERS],
    /// Bytes in use.
    len: u8,
    /// The time in them; [`NO_TIME`] at first.
    stamp: u32,
    /// Request from whose middle the packet was; [`NO_REQUEST`] of any other packet.
    middle_of: u64,
    /// Bytes and key of the request, where it was of one packet and without immediate; else more bytes than any request has.
    single: (u64, Rkey),
    /// Where the request of the packet begins, in its region and at the peer.
    mr: MrHandle,
    offset: u64,
    va: u64,
}

impl WriteHead {
    pub(crate) const NONE: Self = Self {
        bytes: [0; WRITE_HEADERS],
        len: 0,
        stamp: NO_TIME,
        middle_of: NO_REQUEST,
        single: NOT_SINGLE,
        mr: MrHandle::from_parts(0, 0),
        offset: 0,
        va: 0,
    };

    /// Where the request of the last packet begins in its region.
    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }

    /// Its lines of memory.
    pub(crate) fn fetch(&self, memory: &impl Prefetch) {
        memory.prefetch(&self.len);
        memory.prefetch(&self.va);
    }

    /// Makes it that of another request of one packet like the last one; `false` where they differ in more than number and place.
    #[inline(always)]
    fn renew(&mut self, wqe: &Wqe) -> bool {
        // As many bytes are as many packets.
        if wqe.imm.is_some() || self.single != (wqe.len.into(), wqe.rkey) {
            return false;
        }
        if let Some(meth) = self.bytes.get_mut(BthRepr::LEN..).and_then(<[u8]>::first_chunk_mut) {
            MethRepr { rqmsn: wqe.rqmsn, msn: wqe.msn }.emit(meth);
        }
        (self.mr, self.offset, self.va) = (wqe.mr, wqe.offset, wqe.remote_va);
        true
    }

    /// Puts the time `stamp` into the headers, where they have one.
    #[inline(always)]
    fn put_time(&mut self, cfg: &EndpointConfig, stamp: u16) {
        self.stamp = stamp.into();
        if cfg.timestamps
            && let Some(to) = self.bytes.get_mut(TSETH..).and_then(<[u8]>::first_chunk_mut)
        {
            TsethRepr::ns128(stamp).emit(to);
        }
    }

    /// All but the time.
    //= SEG-003, SEG-004, BTH-003
    #[inline(never)]
    fn compose(&mut self, cfg: &EndpointConfig, dest_qp: Qpn, wqe: &Wqe, at: SegmentAt, len: u32) {
        let last = at.index.wrapping_add(1) >= wqe.packets;
        let imm = wqe.imm.filter(|_| last);
        let bth = BthRepr {
            //= SEG-002
            opcode: Opcode::write(at.index == 0, last, wqe.imm.is_some()),
            se: wqe.solicited && imm.is_some(),
            pad: (len.wrapping_neg() & 3) as u8,
            pkey: cfg.pkey,
            dest_qp,
            ..NO_FLAGS
        };
        self.len = self.write(&bth, cfg, wqe, imm).unwrap_or(0);
        self.middle_of = if at.index > 0 && !last { at.request.into() } else { NO_REQUEST };
        self.single = if wqe.packets == 1 && wqe.imm.is_none() { (wqe.len.into(), wqe.rkey) } else { NOT_SINGLE };
        (self.mr, self.offset, self.va) = (wqe.mr, wqe.offset, wqe.remote_va);
    }

    /// Writes the headers; their length.
    #[inline(always)]
    fn write(&mut self, bth: &BthRepr, cfg: &EndpointConfig, wqe: &Wqe, imm: Option<u32>) -> Option<u8> {
        let (to, rest) = self.bytes.split_first_chunk_mut()?;
        bth.emit_with(to, cfg.wire.bth_se_bit);
        let (to, rest) = rest.split_first_chunk_mut()?;
        MethRepr { rqmsn: wqe.rqmsn, msn: wqe.msn }.emit(to);
        let (_, rest) = rest.split_at_mut_checked(if cfg.timestamps { TsethRepr::LEN } else { 0 })?;
        let (to, rest) = rest.split_first_chunk_mut()?;
        RethRepr { va: 0, rkey: wqe.rkey, dmalen: wqe.len }.emit(to);
        let mut left = rest.len();
        if let Some(imm) = imm {
            let (to, rest) = rest.split_first_chunk_mut()?;
            *to = imm.to_be_bytes();
            left = rest.len();
        }
        u8::try_from(WRITE_HEADERS.wrapping_sub(left)).ok()
    }
}
