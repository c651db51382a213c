//! The invariant CRC: which bytes it covers, how it is carried along a copy, wire.md section 9.
//!
//! ```text
//!           covered, some bytes read as ones            covered as they are        not covered
//!  8 x FF | IP that carries UDP | UDP | BTH   |  extension headers, payload, pad  | ICRC (LE)
//! ```
//!
//! Outer IPv6 header and SRH are never covered. With the `crc32fast` feature the register is driven by that crate,
//! else by a table of sixteen words; both give the same bytes.

mod engine;
#[cfg(any(test, not(feature = "crc32fast")))]
mod soft;

use crate::bth::BthRepr;
use crate::bytes::{copy, set};
use crate::ip::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_LEN, IPV6_LEN, NH_IPV6, NH_ROUTING, UDP_LEN, behind_tags};
use engine::Crc;

/// Bytes of the ICRC.
pub const LEN: usize = 4;

/// Bytes copied between two visits of the CRC: the chunk is still in the first-level cache when it is summed.
const COPY_CHUNK: usize = 4096;

const TRANSPORT_LEN: usize = UDP_LEN + BthRepr::LEN;
const V6_LEN: usize = IPV6_LEN + TRANSPORT_LEN;
const V4_LEN: usize = IPV4_LEN + TRANSPORT_LEN;

/// Bits that read as ones in IPv6: traffic class, flow label, hop limit. `(offset, bits)`.
//= ICRC-004
const IPV6_MASKED: &[(usize, u8)] = &[(0, 0x0F), (1, 0xFF), (2, 0xFF), (3, 0xFF), (7, 0xFF)];
/// Bits that read as ones in IPv4: type of service, TTL, header checksum.
//= ICRC-005
const IPV4_MASKED: &[(usize, u8)] = &[(1, 0xFF), (8, 0xFF), (10, 0xFF), (11, 0xFF)];
/// Bits that read as ones in UDP and BTH, offsets from the UDP header: checksum, BTH byte 4.
//= ICRC-006, ICRC-007
const TRANSPORT_MASKED: &[(usize, u8)] = &[(6, 0xFF), (7, 0xFF), (UDP_LEN + 4, 0xFF)];

const MASK_IPV4: [u8; IPV4_LEN] = mask([0; IPV4_LEN], 0, IPV4_MASKED);
const MASK_TRANSPORT: [u8; TRANSPORT_LEN] = mask([0; TRANSPORT_LEN], 0, TRANSPORT_MASKED);
const MASK_V6: [u8; HEAD] = mask(mask([0; HEAD], 0, IPV6_MASKED), IPV6_LEN, TRANSPORT_MASKED);
const MASK_V4: [u8; HEAD] = mask(mask([0; HEAD], 0, IPV4_MASKED), IPV4_LEN, TRANSPORT_MASKED);

/// Runs at compile time only.
const fn mask<const N: usize>(mut m: [u8; N], base: usize, mut list: &[(usize, u8)]) -> [u8; N] {
    while let [(at, bits), rest @ ..] = list {
        set(&mut m, base.wrapping_add(*at), *bits);
        list = rest;
    }
    m
}

#[inline]
fn masked<const N: usize>(bytes: &[u8; N], mask: &[u8; N]) -> [u8; N] {
    let mut out = *bytes;
    for (byte, bits) in out.iter_mut().zip(mask) {
        *byte |= bits;
    }
    out
}

/// Bytes with all masked ones among them.
const HEAD: usize = 64;

/// Headers and what follows them, aligned: a load that spans two stores waits until both are in the cache.
#[repr(align(16))]
struct Block([u8; 2 * HEAD]);

/// Takes in `packet`, which begins with headers to be masked.
///
/// CRC instructions fold 16 bytes at a time and finish the rest byte by byte: headers and what follows them are one piece,
/// and a payload of whole kilobytes is another one, which the widest loop takes entirely.
#[inline]
fn begin(crc: &mut Crc, packet: &[u8], mask: &[u8; HEAD]) -> Option<()> {
    let mut block = Block([0; 2 * HEAD]);
    let (head, room) = block.0.split_first_chunk_mut()?;
    let mut first = packet.len();
    if let Some((from, rest)) = packet.split_first_chunk::<HEAD>() {
        *head = masked(from, mask);
        if let Some(from) = rest.first_chunk::<HEAD>() {
            *room.first_chunk_mut()? = *from;
            first = Some(first % 256).filter(|first| (V6_LEN..2 * HEAD).contains(first)).unwrap_or(2 * HEAD);
        } else {
            copy(room, rest);
        }
    } else {
        copy(head, packet);
        *head = masked(head, mask);
    }
    crc.update(block.0.get(..first)?);
    crc.update(packet.get(first..)?);
    Some(())
}

/// A running ICRC.
#[derive(Clone, Debug)]
pub struct Icrc {
    crc: Crc,
}

impl Icrc {
    /// The register after the headers of a packet.
    ///
    /// `headers` starts at the IP header that carries UDP and reaches at least through BTH; what lies behind BTH is
    /// summed as it is. `None` when it is shorter or no IP header.
    #[inline]
    #[must_use]
    pub fn over_headers(headers: &[u8]) -> Option<Self> {
        //= ICRC-003
        let mut crc = Crc::after_eight_ones();
        match headers.first()? {
            0x60..=0x6F if headers.len() >= V6_LEN => begin(&mut crc, headers, &MASK_V6)?,
            0x45 if headers.len() >= V4_LEN => begin(&mut crc, headers, &MASK_V4)?,
            byte @ 0x46..=0x4F => {
                let (head, rest) = headers.split_first_chunk::<IPV4_LEN>()?;
                let (options, rest) = rest.split_at_checked((usize::from(byte & 0x0F) << 2).checked_sub(IPV4_LEN)?)?;
                let (transport, rest) = rest.split_first_chunk::<TRANSPORT_LEN>()?;
                crc.update(&masked(head, &MASK_IPV4));
                crc.update(options);
                crc.update(&masked(transport, &MASK_TRANSPORT));
                crc.update(rest);
            }
            _ => return None,
        }
        Some(Self { crc })
    }

    /// Takes in more bytes: extension headers, payload, pad.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        self.crc.update(bytes);
    }

    /// The four bytes that go on the wire.
    #[inline]
    #[must_use]
    pub fn finish(self) -> [u8; LEN] {
        //= ICRC-002
        self.crc.finish().to_le_bytes()
    }
}

/// The ICRC of a packet that lies in one piece, from the IP header that carries UDP to the last pad byte.
///
/// `None` when the slice does not reach through BTH or starts with no IP header.
#[inline]
#[must_use]
pub fn compute(l3_onwards_without_icrc: &[u8]) -> Option<[u8; LEN]> {
    Icrc::over_headers(l3_onwards_without_icrc).map(Icrc::finish)
}

/// Whether `frame` carries the right ICRC; both offsets are those of [`Frame`](crate::Frame).
#[inline]
#[must_use]
pub fn verify(frame: &[u8], l3_offset: usize, icrc_offset: usize) -> bool {
    let Some(covered) = frame.get(l3_offset..icrc_offset) else {
        return false;
    };
    let Some(stored) = frame.get(icrc_offset..).and_then(|t| t.first_chunk::<LEN>()) else {
        return false;
    };
    compute(covered).as_ref() == Some(stored)
}

/// Copies `src` to the start of `dst` and takes it into `icrc`, one cache-sized chunk after the other.
///
/// Returns the bytes copied: the shorter of the two lengths.
#[inline]
pub fn copy_and_update(icrc: &mut Icrc, dst: &mut [u8], src: &[u8]) -> usize {
    let len = dst.len().min(src.len());
    let (mut dst, mut src) = (dst, src);
    loop {
        let n = dst.len().min(src.len()).min(COPY_CHUNK);
        let (Some((to, room)), Some((from, rest))) = (dst.split_at_mut_checked(n), src.split_at_checked(n)) else {
            break;
        };
        if n == 0 {
            break;
        }
        copy(to, from);
        icrc.update(to);
        (dst, src) = (room, rest);
    }
    len
}

/// Where the ICRC starts: offset of the IP header that carries UDP, found without judging the frame.
///
/// Steps over Ethernet, at most two VLAN tags, an outer IPv6 header and an SRH. `None` when the frame is neither IPv4 nor
/// IPv6 or ends early.
#[inline]
#[must_use]
pub fn start(frame: &[u8]) -> Option<usize> {
    let (at, ethertype, rest) = behind_tags(frame)?;
    match ethertype {
        ETHERTYPE_IPV4 => Some(at),
        ETHERTYPE_IPV6 => {
            //= ICRC-008
            let (ip, rest) = rest.split_first_chunk::<IPV6_LEN>()?;
            match ip[6] {
                NH_IPV6 => at.checked_add(IPV6_LEN),
                NH_ROUTING => at.checked_add(IPV6_LEN + 8)?.checked_add(usize::from(*rest.get(1)?) << 3),
                _ => Some(at),
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
