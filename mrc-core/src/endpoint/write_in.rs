//! A received write as its checks and books see it: read where it lies, or parsed in full. And what it may touch.
//! Source: `wire.md` 13 and 14.

use core::ops::Range;

use mrc_wire::{BthRepr, PacketView, PlainPacket, Psn, RethRepr, Syndrome, WriteHeaders};

use super::{PlaceToken, Placement, Received, tx::stamp};
use crate::{
    config::EndpointConfig,
    event::ErrorCause,
    mem::{AccessError, Regions},
    qp::{Qp, QpHandle},
    responder::{Echo, Immediate, WritePacket},
    time::Instant,
};

/// The immediate of a write that carries one.
pub(super) fn immediate(bth: &BthRepr, headers: &WriteHeaders<'_>) -> Option<Immediate> {
    let (rqmsn, dmalen) = (headers.meth().rqmsn, headers.reth().dmalen);
    headers.imm().map(|imm| Immediate { psn: bth.psn, imm, dmalen, rqmsn, solicited: bth.se })
}

/// A write that is to be placed.
pub(super) trait WriteRequest: WritePacket {
    fn is_first(&self) -> bool;
    fn is_padded(&self) -> bool;
    fn reth(&self) -> RethRepr;
    /// Bytes of the frame.
    fn payload(&self) -> Range<usize>;
}

/// A write with the head that was expected.
pub(super) struct Plain<'p, 'f> {
    pub(super) packet: &'p PlainPacket<'f>,
    pub(super) reth: &'f [u8; RethRepr::LEN],
    pub(super) payload: Range<usize>,
    pub(super) now: Instant,
}

impl WritePacket for Plain<'_, '_> {
    #[inline(always)]
    fn psn(&self) -> Psn {
        self.packet.psn()
    }

    #[inline(always)]
    fn nominal(&self, cfg: &EndpointConfig) -> u32 {
        u32::from(self.packet.udp_len()).wrapping_add(cfg.size_overhead.into())
    }

    #[inline(always)]
    fn ends_message(&self) -> bool {
        self.packet.ends_message()
    }

    #[inline(always)]
    fn ack_req(&self) -> bool {
        self.packet.ack_req()
    }

    #[inline(always)]
    fn rtx(&self) -> bool {
        self.packet.rtx()
    }

    #[inline(always)]
    fn ce(&self) -> bool {
        self.packet.ce()
    }

    #[inline(always)]
    fn arrived(&self) -> u16 {
        stamp(self.now)
    }

    #[inline(always)]
    fn echo(&self, cfg: &EndpointConfig) -> Echo {
        Echo { ev: self.packet.entropy(&cfg.wire), tseth: self.packet.tseth() }
    }
}

impl WriteRequest for Plain<'_, '_> {
    #[inline(always)]
    fn is_first(&self) -> bool {
        self.packet.is_first()
    }

    #[inline(always)]
    fn is_padded(&self) -> bool {
        self.packet.pad() != 0
    }

    #[inline(always)]
    fn reth(&self) -> RethRepr {
        RethRepr::parse(self.reth)
    }

    #[inline(always)]
    fn payload(&self) -> Range<usize> {
        self.payload.clone()
    }
}

/// Any write.
pub(super) struct Parsed<'p, 'f> {
    pub(super) packet: &'p PacketView<'f>,
    pub(super) bth: BthRepr,
    pub(super) headers: &'p WriteHeaders<'f>,
    pub(super) now: Instant,
}

impl WritePacket for Parsed<'_, '_> {
    fn psn(&self) -> Psn {
        self.bth.psn
    }

    fn nominal(&self, cfg: &EndpointConfig) -> u32 {
        u32::from(self.packet.udp_len()).wrapping_add(cfg.size_overhead.into())
    }

    fn ends_message(&self) -> bool {
        self.bth.opcode.ends_message()
    }

    fn ack_req(&self) -> bool {
        self.bth.ack_req
    }

    fn rtx(&self) -> bool {
        self.bth.rtx
    }

    fn ce(&self) -> bool {
        self.packet.ce()
    }

    fn arrived(&self) -> u16 {
        stamp(self.now)
    }

    fn echo(&self, cfg: &EndpointConfig) -> Echo {
        Echo { ev: self.packet.entropy(&cfg.wire), tseth: self.headers.tseth() }
    }
}

impl WriteRequest for Parsed<'_, '_> {
    fn is_first(&self) -> bool {
        self.bth.opcode.is_first()
    }

    fn is_padded(&self) -> bool {
        self.bth.pad != 0
    }

    fn reth(&self) -> RethRepr {
        self.headers.reth()
    }

    fn payload(&self) -> Range<usize> {
        self.packet.payload()
    }
}

/// Steps 15 and 16: lengths and memory.
//= VAL-016, VAL-017, LEN-002, LEN-003, LEN-005, LEN-006, LEN-007, RETH-003
#[inline(always)]
pub(super) fn check_write(
    slot: &Qp,
    regions: &Regions<'_>,
    qp: u32,
    write: &impl WriteRequest,
) -> Result<Received, (Syndrome, ErrorCause)> {
    let (payload, reth) = (write.payload(), write.reth());
    let (len, mtu, dmalen) = (payload.len() as u64, u64::from(slot.path_mtu), u64::from(reth.dmalen));
    let well_formed = match (write.is_first(), write.ends_message()) {
        (_, false) => len == mtu && !write.is_padded() && dmalen > mtu,
        (false, true) => len >= 1 && len <= mtu && dmalen > mtu,
        (true, true) => len <= mtu && dmalen == len,
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
    let reach = if write.is_first() { dmalen } else { len };
    match regions.check(slot.pd, reth.rkey.0, reth.va, reach, true) {
        Ok((mr, offset)) => {
            let psn = write.psn();
            let token = PlaceToken::new(qp, slot.life, psn);
            let qp = QpHandle::from_parts(qp, slot.qpn);
            Ok(Received::Place(Placement { mr, token, qp, psn, offset, payload }))
        }
        Err(AccessError::Key | AccessError::Rights | AccessError::Bounds) => Err(refused),
    }
}
