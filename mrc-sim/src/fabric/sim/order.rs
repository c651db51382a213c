//! The order in which data packets reach their hosts, by queue pair; that of datagrams by message, because they have no queue pair.

use mrc_core::Prefetch;

use super::super::packet::Packet;
use crate::host::datagram_message;
use crate::prefetch::Caches;

/// First byte of the receiving queue pair's number, 24 bits, behind Ethernet, IPv6, UDP and five bytes of the BTH.
const QPN: usize = 14 + 40 + 8 + 5;
/// Where an IPv6 header behind the Ethernet header says what follows it, what it says of another one, and how long that is.
const NEXT_HEADER: usize = 14 + 6;
const IPV6: u8 = 41;
const IPV6_LEN: usize = 40;

/// The latest packet that reached each queue pair, by host.
#[derive(Default)]
pub(super) struct Order {
    hosts: Vec<Latest>,
}

impl Order {
    /// What [`Order::is_late`] will read.
    pub(super) fn fetch(&self, host: u32, packet: &Packet) {
        let latest = |qpn| self.hosts.get(host as usize).and_then(|of| of.slots.get(of.place(qpn)));
        Caches.prefetch_all(key(packet).and_then(latest));
    }

    /// Whether a packet with payload comes after one that its host sent later to the same queue pair, or of the same message. A retransmission
    /// counts as sent when it is retransmitted. `host` counts from the first that is here.
    pub(super) fn is_late(&mut self, host: u32, packet: &Packet) -> bool {
        let Some(qpn) = key(packet) else { return false };
        if self.hosts.len() <= host as usize {
            self.hosts.resize_with(host as usize + 1, Latest::default);
        }
        let latest = self.hosts[host as usize].of(qpn, packet.payload.sent);
        let ahead = packet.payload.sent.wrapping_sub(*latest) as i32;
        if ahead > 0 {
            *latest = packet.payload.sent;
        }
        ahead < 0
    }
}

/// The queue pairs of a host: a table by the low bits of their numbers, which most hosts give out in turn, so that it takes few
/// lines of memory.
#[derive(Default)]
struct Latest {
    /// As many as a power of two, or none.
    slots: Box<[Slot]>,
    used: usize,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    /// One more than the queue pair's number; 0: none.
    qpn: u32,
    sent: u32,
}

impl Latest {
    fn place(&self, qpn: u32) -> usize {
        qpn as usize & self.slots.len().wrapping_sub(1)
    }

    /// The latest packet of a queue pair, which `sent` is if there was none.
    fn of(&mut self, qpn: u32, sent: u32) -> &mut u32 {
        if self.used * 4 >= self.slots.len() * 3 {
            self.grow();
        }
        let mut at = self.place(qpn);
        while self.slots[at].qpn != qpn + 1 {
            if self.slots[at].qpn == 0 {
                self.slots[at] = Slot { qpn: qpn + 1, sent };
                self.used += 1;
                break;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        &mut self.slots[at].sent
    }

    #[cold]
    fn grow(&mut self) {
        let more = vec![Slot::default(); (self.slots.len() * 2).max(4)].into_boxed_slice();
        let before = std::mem::replace(self, Self { slots: more, used: 0 });
        for slot in before.slots.iter().filter(|slot| slot.qpn > 0) {
            self.of(slot.qpn - 1, slot.sent);
        }
    }
}

/// The number of the queue pair of a packet with payload, or of a datagram's message.
fn key(packet: &Packet) -> Option<u32> {
    if packet.payload.len == 0 || packet.is_trimmed() {
        return None;
    }
    let header = packet.header();
    if let Some(message) = datagram_message(header) {
        return Some(message);
    }
    let at = QPN + if header.get(NEXT_HEADER) == Some(&IPV6) { IPV6_LEN } else { 0 };
    Some(header.get(at..at + 3)?.iter().fold(0, |sum, &byte| sum << 8 | u32::from(byte)))
}

#[cfg(test)]
mod tests {
    use mrc_wire::PortNum;

    use super::*;
    use crate::host::Datagram;

    fn packet(qpn: u8, sent: u32) -> Packet {
        let mut packet = Packet::new();
        packet.set_header_len(QPN + 3);
        packet.header_mut()[QPN + 2] = qpn;
        (packet.payload.len, packet.payload.sent) = (1, sent);
        packet
    }

    #[test]
    fn many_queue_pairs_of_a_host_keep_apart() {
        // Numbers that share their low bits, and so many that the table grows.
        let mut latest = Latest::default();
        let numbers: Vec<u32> = (0..500).map(|nth| (nth << 8) + nth / 3).chain([0, 0xff_ffff]).collect();
        let first: std::collections::BTreeMap<u32, u32> = numbers.iter().rev().map(|&qpn| (qpn, qpn ^ 5)).collect();
        for &qpn in &numbers {
            *latest.of(qpn, 0) = qpn ^ 5;
        }
        assert!(first.iter().all(|(&qpn, &sent)| *latest.of(qpn, 77) == sent));
        assert_eq!(latest.used, first.len());
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
        let mut datagram = |from: u32, message, sent| {
            let mut packet = Packet::new();
            let (offset, bytes, entropy) = (0, 100, 50_000);
            let data = Datagram { from, to: 5, message, offset, bytes, ack: false, entropy, marked: false };
            data.write(PortNum::from_plane(0), &mut packet);
            packet.payload.sent = sent;
            order.is_late(5, &packet)
        };
        assert!(!datagram(1, 8, 10) && !datagram(2, 9, 4), "messages of two hosts to one have orders of their own");
        assert!(datagram(1, 8, 9) && !datagram(2, 9, 11));
        let mut probe = packet(7, 1);
        probe.payload.len = 0;
        assert!(!order.is_late(1, &probe), "only payload counts");
    }
}
