//! What schemes read of a packet (IPv6 header and entropy), and the packets that they send themselves.

use mrc_wire::DscpPlan;

use crate::fabric::{NoForward, Packet, address};

/// Offset of the outer IPv6 header, behind an untagged Ethernet header.
const IP: usize = 14;
const HOP_LIMIT: usize = IP + 7;
const DST: usize = IP + 24;
/// Ethernet and outer IPv6 header.
const HEAD: usize = IP + 40;

#[inline]
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// A half of a word: what switches read ends with the UDP source port, as does the cache line that they read.
#[inline]
fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u16::from_be_bytes(*bytes))
}

/// Does what every IPv6 router does to a packet (checks, hop limit), and returns the receiving host's number.
///
/// # Errors
/// A packet that is not IPv6, names no host, or has travelled too far.
#[inline]
pub fn next_hop(packet: &mut Packet) -> Result<u32, NoForward> {
    let head: &mut [u8; HEAD] = packet.header_mut().first_chunk_mut().ok_or(NoForward::NotIpv6)?;
    if head[12..14] != [0x86, 0xdd] || head[IP] >> 4 != 6 {
        return Err(NoForward::NotIpv6);
    }
    if head[HOP_LIMIT] <= 1 {
        return Err(NoForward::HopLimit);
    }
    head[HOP_LIMIT] -= 1;
    Ok(word(head, DST + 12).wrapping_sub(1))
}

/// Number of the receiving host.
#[inline]
pub fn host_of(packet: &Packet) -> u32 {
    word(packet.header(), DST + 12).wrapping_sub(1)
}

/// A control packet of `wire_len` bytes on the way to `host`, for [`crate::SwitchCtx::emit`]. The switch that it is meant for tells it
/// by `scratch` and takes it out ([`crate::Verdict::Consume`]): no host understands it.
pub fn control_packet(host: u32, wire_len: u32, scratch: [u8; 16]) -> Packet {
    let mut packet = Packet::new();
    let head = packet.buffer();
    head[12..IP].copy_from_slice(&[0x86, 0xdd]);
    let class = DscpPlan::default().control << 2;
    (head[IP], head[IP + 1], head[HOP_LIMIT]) = (0x60 | class >> 4, class << 4, 64);
    head[DST..HEAD].copy_from_slice(&address::gid(host));
    packet.set_header_len(HEAD + 4);
    packet.wire_len = wire_len;
    packet.scratch = scratch;
    packet
}

/// The EV, as senders write it: 16 bits of the flow label above the UDP source port.
#[inline]
pub fn entropy(packet: &Packet) -> u32 {
    let header = packet.header();
    word(header, IP) << 16 | u32::from(half(header, HEAD))
}

/// A number that packets of one flow share: of sender, receiver and UDP source port.
#[inline]
pub fn flow(packet: &Packet) -> u64 {
    let header = packet.header();
    let host = word(header, DST + 12).wrapping_sub(1);
    u64::from(word(header, DST - 4)) << 48 ^ u64::from(host) << 20 ^ u64::from(half(header, HEAD))
}

/// A 64-bit finaliser; switches of real fabrics use CRCs, what counts is that neighbouring inputs part.
#[inline]
pub fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let value = (value ^ value >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    value ^ value >> 33
}
