//! Packets that follow one another: within a burst most writes differ from the one before in path, PSN and place alone, and
//! SACKs in path and what they say, which one comparison tells. What [`PlainSeries::read`] takes, [`PlainPacket::read`] takes
//! too and reads alike (`tests/properties.rs` holds them together).

use crate::bytes::{fill, last, set};
use crate::ip::{ETH_LEN, IPV6_LEN};
use crate::plain::{BTH, HEADERS, PlainExtension, PlainPacket, PlainWrite, UDP};
use crate::{MethRepr, Opcode, RethRepr, TsethRepr, bth};

/// Bytes compared: all headers of the longest kind, so that one loop of known length does for each kind.
const LEN: usize = ETH_LEN + IPV6_LEN + HEADERS + MethRepr::LEN + TsethRepr::LEN + RethRepr::LEN;

/// Aligned for wide loads.
#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
struct Head([u8; LEN]);

/// What follows BTH.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Write,
    StampedWrite,
    Sack,
}

/// A write or a SACK that others may follow: of the same QP and peer, of the same kind and size, writes into the same region.
#[derive(Clone, Copy, Debug)]
pub struct PlainSeries {
    head: Head,
    mask: &'static Head,
    wire_len: usize,
    l3_offset: usize,
    kind: Kind,
    // Of writes alone:
    opcode: Opcode,
    payload: usize,
    pad: usize,
    end: usize,
}

impl PlainSeries {
    /// A series that nothing goes on with.
    pub const NONE: Self = Self {
        head: Head([0; LEN]),
        mask: &MASKS[0][0],
        wire_len: 0,
        l3_offset: 0,
        kind: Kind::Write,
        opcode: Opcode::WriteOnly,
        payload: 0,
        pad: 0,
        end: 0,
    };

    /// Begins anew with `packet`, which was read from `head` and `wire_len`; `false`, and nothing goes on with it, when `head`
    /// ends with its headers and these are of a short kind.
    #[inline]
    pub fn begin(&mut self, packet: &PlainPacket<'_>, head: &[u8], wire_len: usize) -> bool {
        let Some(head) = head.first_chunk() else {
            self.wire_len = 0;
            return false;
        };
        self.kind = match packet.extension() {
            PlainExtension::Write(write) => {
                (self.opcode, self.payload, self.pad, self.end) = (write.opcode, write.payload, write.pad, write.end);
                if write.tseth.is_some() { Kind::StampedWrite } else { Kind::Write }
            }
            PlainExtension::Sack(_) => Kind::Sack,
        };
        self.l3_offset = packet.l3_offset();
        let [plain, srv6] = &MASKS;
        let [write, stamped_write, sack] = if self.l3_offset > ETH_LEN { srv6 } else { plain };
        self.mask = match self.kind {
            Kind::Write => write,
            Kind::StampedWrite => stamped_write,
            Kind::Sack => sack,
        };
        self.head.0 = *head;
        self.wire_len = wire_len;
        true
    }

    /// Reads a frame if it goes on with the series: everything but addresses below the outermost IP header and of it,
    /// marks, hop limits, EV, message numbers, PSN and its flags, timestamp and place, or what a SACK says, is as in the packet
    /// it began with.
    /// The caller asks again whether [`PlainPacket::outermost_dst`] is one of its own, and checks the ICRC.
    #[inline(always)]
    #[must_use]
    pub fn read<'a>(&self, head: &'a [u8], wire_len: usize) -> Option<PlainPacket<'a>> {
        let bytes: &[u8; LEN] = head.first_chunk()?;
        if differs(bytes, &self.head.0, &self.mask.0) || wire_len != self.wire_len {
            return None;
        }
        let (_, outermost) = bytes.split_first_chunk::<ETH_LEN>()?;
        let (headers, ext) = bytes.get(self.l3_offset..)?.split_first_chunk()?;
        let write = |ext: &'a [u8], tseth| {
            let Self { opcode, payload, pad, end, .. } = *self;
            Some(PlainExtension::Write(PlainWrite { opcode, tseth, reth: ext.first_chunk()?, payload, pad, end }))
        };
        let extension = match self.kind {
            Kind::Write => write(ext.split_first_chunk::<{ MethRepr::LEN }>()?.1, None)?,
            Kind::StampedWrite => {
                let (stamp, reth) = ext.split_first_chunk::<{ MethRepr::LEN }>()?.1.split_first_chunk()?;
                write(reth, Some(stamp))?
            }
            // Longer than what was compared.
            Kind::Sack => PlainExtension::Sack(head.get(self.l3_offset.wrapping_add(HEADERS)..)?.first_chunk()?),
        };
        Some(PlainPacket { outermost: outermost.first_chunk()?, headers, l3_offset: self.l3_offset, extension })
    }
}

/// Whether two heads differ in a bit of the mask. By words, the last two of which overlap: comparing byte by byte is too slow.
#[inline(always)]
fn differs(a: &[u8; LEN], b: &[u8; LEN], mask: &[u8; LEN]) -> bool {
    let word = |a: &[u8; 8], b: &[u8; 8], mask: &[u8; 8]| {
        (u64::from_ne_bytes(*a) ^ u64::from_ne_bytes(*b)) & u64::from_ne_bytes(*mask)
    };
    let mut differs = match (last(a), last(b), last(mask)) {
        (Some(a), Some(b), Some(mask)) => word(a, b, mask),
        _ => 0,
    };
    for ((a, b), mask) in a.as_chunks().0.iter().zip(b.as_chunks().0).zip(mask.as_chunks().0) {
        differs |= word(a, b, mask);
    }
    differs != 0
}

/// Without and with an outer header.
static MASKS: [[Head; 3]; 2] = [
    [mask(false, Kind::Write), mask(false, Kind::StampedWrite), mask(false, Kind::Sack)],
    [mask(true, Kind::Write), mask(true, Kind::StampedWrite), mask(true, Kind::Sack)],
];

/// The bits that stay the same in a series.
const fn mask(srv6: bool, kind: Kind) -> Head {
    let mut mask = [0; LEN];
    // Ethertype.
    keep(&mut mask, ETH_LEN - 2, 2);
    if srv6 {
        keep_ipv6(&mut mask, ETH_LEN);
    }
    let ip = if srv6 { ETH_LEN + IPV6_LEN } else { ETH_LEN };
    keep_ipv6(&mut mask, ip);
    // Both addresses.
    keep(&mut mask, ip.wrapping_add(8), 32);
    // Destination port and length.
    keep(&mut mask, ip.wrapping_add(UDP + 2), 4);
    // Up to the partition key, the QP; of the flags the one that says where RETH is.
    keep(&mut mask, ip.wrapping_add(BTH), 4);
    keep(&mut mask, ip.wrapping_add(BTH + 5), 3);
    set(&mut mask, ip.wrapping_add(BTH + 8), bth::TS);
    // Key and length of the message.
    match kind {
        Kind::Write => keep(&mut mask, ip.wrapping_add(HEADERS + MethRepr::LEN + 8), 8),
        Kind::StampedWrite => keep(&mut mask, ip.wrapping_add(HEADERS + MethRepr::LEN + TsethRepr::LEN + 8), 8),
        Kind::Sack => {}
    }
    Head(mask)
}

/// Version, code point, length and next header.
const fn keep_ipv6(mask: &mut [u8; LEN], ip: usize) {
    set(mask, ip, 0xFF);
    set(mask, ip.wrapping_add(1), 0xC0);
    keep(mask, ip.wrapping_add(4), 3);
}

const fn keep(mask: &mut [u8; LEN], from: usize, len: usize) {
    fill(mask, from, len, 0xFF);
}
