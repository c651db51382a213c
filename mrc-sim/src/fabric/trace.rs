//! Evidence of a run: a digest that tells two runs apart, and taps that keep the packets of one port.

use std::collections::VecDeque;

use mrc_core::Instant;

use super::packet::Packet;
use super::topology::PortId;

/// A running fingerprint of all transmissions and deliveries of a run, in order: equal for equal runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest(u64);

impl Digest {
    pub(crate) const START: Self = Self(0x6d72_6373_696d_0001);

    /// The fingerprint.
    pub const fn value(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) fn mix(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    /// Mixes in every header byte of a delivered packet; one multiplication for all.
    pub(crate) fn mix_packet(&mut self, packet: &Packet) {
        let (words, rest) = packet.header().as_chunks::<8>();
        let mut sum = u64::from(packet.wire_len);
        for word in words {
            sum = sum.rotate_left(7) ^ u64::from_be_bytes(*word);
        }
        for &byte in rest {
            sum = sum.rotate_left(7) ^ u64::from(byte);
        }
        self.mix(sum);
    }
}

/// One captured frame: header bytes only, as a capture with a short snap length.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Captured {
    /// When its first bit left, or its last bit arrived, at the link, before any latency of the switch there. At a switch that cuts
    /// through, its first 64 bytes count in place of its last bit.
    pub at: Instant,
    /// The tapped port.
    pub port: PortId,
    /// Whether it left through the port; otherwise it came in.
    pub egress: bool,
    /// Bytes on the wire.
    pub wire_len: u32,
    /// Whether a link has changed its bits by now.
    pub corrupt: bool,
    /// The header, from Ethernet on.
    pub header: Vec<u8>,
}

/// A capture on some ports: the last `before` packets until a mark, and the first `after` from it on.
#[derive(Clone, Debug, Default)]
pub struct Tap {
    mark: Instant,
    before: usize,
    after: usize,
    early: VecDeque<Captured>,
    late: Vec<Captured>,
}

impl Tap {
    /// Captures `before` packets before `mark` and `after` packets from it on.
    pub fn around(mark: Instant, before: usize, after: usize) -> Self {
        Self { mark, before, after, early: VecDeque::with_capacity(before), late: Vec::with_capacity(after) }
    }

    pub(crate) fn record(&mut self, at: Instant, port: PortId, egress: bool, packet: &Packet) {
        let (wire_len, header, corrupt) = (packet.wire_len, packet.header(), packet.is_corrupt());
        if at < self.mark {
            // The ring hands its oldest buffer to the newest packet: no allocation once it is full.
            let mut buffer = Vec::new();
            if self.early.len() >= self.before {
                match self.early.pop_front() {
                    Some(oldest) => buffer = oldest.header,
                    None => return,
                }
            }
            buffer.clear();
            buffer.extend_from_slice(header);
            self.early.push_back(Captured { at, port, egress, wire_len, corrupt, header: buffer });
        } else if self.late.len() < self.after {
            self.late.push(Captured { at, port, egress, wire_len, corrupt, header: header.to_vec() });
        }
    }

    /// What was captured, in order of time.
    pub fn packets(&self) -> impl Iterator<Item = &Captured> {
        self.early.iter().chain(&self.late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tap_keeps_what_lies_around_its_mark() {
        let mut tap = Tap::around(Instant::from_nanos(10), 3, 2);
        let mut packet = Packet::new();
        for at in 0..20u32 {
            packet.wire_len = at;
            tap.record(Instant::from_nanos(at.into()), PortId(4), true, &packet);
        }
        assert_eq!(tap.packets().map(|p| p.wire_len).collect::<Vec<_>>(), [7, 8, 9, 10, 11]);
        let mut none = Tap::around(Instant::from_nanos(10), 0, 0);
        none.record(Instant::ZERO, PortId(4), true, &packet);
        assert_eq!(none.packets().count(), 0);
    }

    #[test]
    fn the_digest_sees_order_and_content() {
        let digest = |bytes: &[&[u8]]| {
            let mut digest = Digest::START;
            for &header in bytes {
                let mut packet = Packet::new();
                packet.buffer()[..header.len()].copy_from_slice(header);
                packet.set_header_len(header.len());
                digest.mix_packet(&packet);
            }
            digest.value()
        };
        let base = digest(&[b"abcdefghi", b"x"]);
        assert_eq!(base, digest(&[b"abcdefghi", b"x"]));
        assert_ne!(base, digest(&[b"x", b"abcdefghi"]));
        assert_ne!(base, digest(&[b"abcdefghj", b"x"]));
        assert_ne!(base, digest(&[b"abcdffghi", b"x"]));
    }
}
