//! The order in which data packets reach their hosts, by queue pair.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::super::packet::Packet;

/// First byte of the receiving queue pair's number, 24 bits, behind Ethernet, IPv6, UDP and five bytes of the BTH.
const QPN: usize = 14 + 40 + 8 + 5;
/// Where an IPv6 header behind the Ethernet header says what follows it, what it says of another one, and how long that is.
const NEXT_HEADER: usize = 14 + 6;
const IPV6: u8 = 41;
const IPV6_LEN: usize = 40;

/// The latest packet that reached each queue pair. Looked up only, so that the order of the map is without effect.
#[derive(Default)]
pub(super) struct Order {
    latest: HashMap<u64, u32, BuildHasherDefault<Multiply>>,
}

impl Order {
    /// Reads what [`Order::is_late`] will read; the number means nothing.
    pub(super) fn fetch(&self, host: u32, packet: &Packet) -> u32 {
        key(host, packet).and_then(|key| self.latest.get(&key)).copied().unwrap_or(0)
    }

    /// Whether a packet with payload comes after one that its host sent later to the same queue pair. A retransmission
    /// counts as sent when it is retransmitted.
    pub(super) fn is_late(&mut self, host: u32, packet: &Packet) -> bool {
        let Some(key) = key(host, packet) else { return false };
        let latest = self.latest.entry(key).or_insert(packet.payload.sent);
        let ahead = packet.payload.sent.wrapping_sub(*latest) as i32;
        if ahead > 0 {
            *latest = packet.payload.sent;
        }
        ahead < 0
    }
}

/// The queue pair of a packet with payload.
fn key(host: u32, packet: &Packet) -> Option<u64> {
    if packet.payload.len == 0 || packet.is_trimmed() {
        return None;
    }
    let header = packet.header();
    let at = QPN + if header.get(NEXT_HEADER) == Some(&IPV6) { IPV6_LEN } else { 0 };
    let qpn = header.get(at..at + 3)?.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    Some(u64::from(host) << 24 | qpn)
}

/// A hash of one number: the default one costs more than the rest of a delivery.
#[derive(Default)]
pub(super) struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(self.0 ^ u64::from(byte)));
    }

    fn write_u64(&mut self, value: u64) {
        let product = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(qpn: u8, sent: u32) -> Packet {
        let mut packet = Packet::new();
        packet.set_header_len(QPN + 3);
        packet.header_mut()[QPN + 2] = qpn;
        (packet.payload.len, packet.payload.sent) = (1, sent);
        packet
    }

    #[test]
    fn a_packet_is_late_after_one_sent_later_to_the_same_queue_pair() {
        let mut order = Order::default();
        let mut late = |host, qpn, sent| order.is_late(host, &packet(qpn, sent));
        assert!(!late(1, 7, 10));
        assert!(!late(1, 7, 12));
        assert!(late(1, 7, 11) && late(1, 7, 9), "12 overtook both");
        assert!(!late(1, 8, 3) && !late(2, 7, 4), "other queue pairs have orders of their own");
        assert!(!late(1, 7, 13));
        // SRv6 puts a header in front: the number stands behind two.
        let mut behind_two = |qpn, sent| {
            let mut packet = packet(0, sent);
            packet.set_header_len(QPN + IPV6_LEN + 3);
            packet.header_mut()[NEXT_HEADER] = IPV6;
            packet.header_mut()[QPN + IPV6_LEN + 2] = qpn;
            order.is_late(4, &packet)
        };
        assert!(!behind_two(7, 10) && !behind_two(8, 5), "other queue pairs here as well");
        assert!(behind_two(7, 9) && behind_two(8, 4));
        let mut late = |host, qpn, sent| order.is_late(host, &packet(qpn, sent));
        assert!(!late(3, 1, u32::MAX) && !late(3, 1, 2) && late(3, 1, u32::MAX), "numbers wrap");
        let mut probe = packet(7, 1);
        probe.payload.len = 0;
        assert!(!order.is_late(1, &probe), "only payload counts");
    }
}
