//! Sizes of packets and messages as congestion control and requests count them. Source: `congestion.md` 1, `transport.md` 3.2.

use super::Segment;
use crate::config::EndpointConfig;

/// Nominal bytes of `packets` write packets that carry `payload` bytes in all, the last one an immediate if `imm`: UDP
/// length with the headers they carry, + `size_overhead`. All but the last payload are multiples of 4.
//= CCU-001
pub(crate) fn nominal_bytes(cfg: &EndpointConfig, payload: u32, packets: u32, imm: bool) -> u64 {
    const PLAIN: u64 = 8 + 12 + 4 + 16 + 4;
    let plain = PLAIN.wrapping_add(cfg.size_overhead.into());
    let headers = if cfg.timestamps { plain.wrapping_add(4) } else { plain };
    let padded = u64::from(payload).wrapping_add(3) & !3;
    u64::from(packets).wrapping_mul(headers).wrapping_add(padded).wrapping_add(if imm { 4 } else { 0 })
}

pub(super) fn nominal_segment(cfg: &EndpointConfig, payload: u32, segment: &Segment<'_>) -> u32 {
    nominal_bytes(cfg, payload, 1, segment.carries_imm()) as u32
}

/// Packets of a message of `len` bytes; `path_mtu` is a power of two.
//= SEG-001
pub(crate) fn packets_of(len: u32, path_mtu: u32) -> u32 {
    let full = len.wrapping_shr(path_mtu.trailing_zeros());
    full.wrapping_add(u32::from(len & path_mtu.wrapping_sub(1) != 0)).max(1)
}
