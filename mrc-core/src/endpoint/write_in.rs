//! What a received write may touch. Source: `wire.md` 13 and 14.

use mrc_wire::{Syndrome, WriteShape};

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
    write: &WritePacket<'_>,
    shape: WriteShape,
) -> Result<Received, (Syndrome, ErrorCause)> {
    let (reth, len) = (write.headers.reth(), shape.payload_len());
    let refused = (Syndrome::RemoteAccess, ErrorCause::RequestAccess);
    if !write.sound {
        if !is_well_formed(slot.path_mtu, write, reth.dmalen) {
            return Err((Syndrome::InvalidRequest, ErrorCause::RequestInvalid));
        }
        if slot.write_refused {
            return Err(refused);
        }
        if len == 0 {
            return Ok(Received::Nothing);
        }
    }
    // The first packet answers for the whole message, which begins where it does.
    let reach = if write.packet.begins_message() { reth.dmalen } else { len };
    match regions.check(slot.pd, reth.rkey.0, reth.va, reach.into(), true) {
        Ok((mr, offset)) => {
            let psn = write.psn();
            let token = PlaceToken::new(qp, slot.life, psn);
            let qp = QpHandle::from_parts(qp, slot.qpn);
            Ok(Received::Place(Placement { mr, token, qp, psn, offset, payload: shape.payload() }))
        }
        Err(AccessError::Key | AccessError::Rights | AccessError::Bounds) => Err(refused),
    }
}

/// Step 15: the lengths of a write in a message of `dmalen` bytes.
//= VAL-016, LEN-002, LEN-003, LEN-005, LEN-006
#[inline(always)]
fn is_well_formed(path_mtu: u32, write: &WritePacket<'_>, dmalen: u32) -> bool {
    let len = write.shape.payload_len();
    match (write.packet.begins_message(), write.ends_message()) {
        (_, false) => len == path_mtu && write.packet.pad() == 0 && dmalen > path_mtu,
        (false, true) => len >= 1 && len <= path_mtu && dmalen > path_mtu,
        (true, true) => len <= path_mtu && dmalen == len,
    }
}
