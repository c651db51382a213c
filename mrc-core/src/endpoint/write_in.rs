//! What a received write may touch. Source: `wire.md` 13 and 14.

use mrc_wire::Syndrome;

use super::{PlaceToken, Placement, Received};
use crate::{
    event::ErrorCause,
    mem::{AccessError, Regions},
    qp::{Qp, QpHandle},
    responder::WritePacket,
};

/// Steps 15 and 16: lengths and memory.
//= VAL-016, VAL-017, LEN-002, LEN-003, LEN-005, LEN-006, LEN-007, RETH-003
#[inline(always)]
pub(super) fn check_write(
    slot: &Qp,
    regions: &Regions<'_>,
    qp: u32,
    write: &WritePacket<'_, '_>,
) -> Result<Received, (Syndrome, ErrorCause)> {
    let (packet, payload, reth) = (write.packet, write.payload.clone(), write.headers.reth());
    let (len, mtu, dmalen) = (payload.len() as u64, u64::from(slot.path_mtu), u64::from(reth.dmalen));
    let first = packet.begins_message();
    let well_formed = match (first, write.ends_message()) {
        (_, false) => len == mtu && packet.pad() == 0 && dmalen > mtu,
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
    let reach = if first { dmalen } else { len };
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
