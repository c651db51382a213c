//! Packets for transports that need no header of a standard: real Ethernet, IPv6 and UDP, by which switches forward, mark and
//! queue them; behind that, what the receiver must know.

use mrc_core::PortMask;
use mrc_wire::{Ecn, Encap, Ev, FrameTemplate, Ip, PortNum, WireConfig};

use super::transport::payload_tag;
use crate::fabric::{Packet, address};

/// The UDP port that throws away what it gets (discard, RFC 863): nobody takes these packets for another protocol.
const UDP_PORT: u16 = 9;
const BODY_AT: usize = 14 + 40 + 8;
/// Sender, receiver, message, bytes: 4 each; the offset: 8; whether it is an acknowledgement, and of what was marked: 1 each;
/// nothing: 2.
const BODY_LEN: usize = 28;

/// A piece of a message, or its acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// The host that sends it.
    pub from: u32,
    /// The host that receives it.
    pub to: u32,
    /// The message, as [`crate::workload::Exchange`] numbers them.
    pub message: u32,
    /// First byte of the piece.
    pub offset: u64,
    /// Bytes of the piece.
    pub bytes: u32,
    /// Says that the piece arrived, and carries nothing.
    pub ack: bool,
    /// The UDP source port, by which switches hash.
    pub entropy: u16,
    /// Of data that arrived: a switch marked it, there is congestion. An acknowledgement repeats it. Data leaves without a mark,
    /// whatever this says.
    pub marked: bool,
}

impl Datagram {
    /// Bytes on the wire beside the payload.
    pub const HEADERS: u32 = (BODY_AT + BODY_LEN) as u32;

    /// Writes the packet that leaves by `port`. Data is ECN capable and in the class that switches do not trim,
    /// acknowledgements are in the control class.
    pub fn write(&self, port: PortNum, out: &mut Packet) {
        let wire = WireConfig { udp_dport: UDP_PORT, ..WireConfig::default() };
        let plane = port.plane();
        let macs = (address::host_mac(plane, self.from), address::t0_mac(plane, self.from));
        let ips = (Ip::V6(address::gid(self.from)), Ip::V6(address::gid(self.to)));
        let template = FrameTemplate::new(&Encap::plain(macs.0, macs.1, ips.0, ips.1), &wire);
        let (dscp, ecn) = if self.ack { (wire.dscp.control, Ecn::NotEct) } else { (wire.dscp.no_trim, Ecn::Ect0) };
        let payload = if self.ack { 0 } else { self.bytes };
        let buffer = out.buffer();
        let ev = Ev::from_halves(0, self.entropy);
        let udp_payload = BODY_LEN + payload as usize;
        let at = template.emit(buffer, ev, dscp, ecn, udp_payload, None).expect("a packet fits its buffer");
        debug_assert_eq!(at, BODY_AT);
        let words = [self.from, self.to, self.message, self.bytes].map(u32::to_be_bytes);
        let body = &mut buffer[BODY_AT..BODY_AT + BODY_LEN];
        body[..16].copy_from_slice(words.as_flattened());
        body[16..24].copy_from_slice(&self.offset.to_be_bytes());
        body[24..].copy_from_slice(&[u8::from(self.ack), u8::from(self.ack && self.marked), 0, 0]);
        out.set_header_len(BODY_AT + BODY_LEN);
        out.wire_len = Self::HEADERS + payload;
        out.payload = payload_tag(self.from, self.message, self.offset, payload);
    }

    /// Reads a packet; `None` for one that is of another kind, that a link corrupted, or whose payload a switch cut off.
    pub fn read(packet: &Packet) -> Option<Self> {
        if packet.is_trimmed() || packet.is_corrupt() { None } else { Self::parse(packet.header()) }
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let body = body(bytes)?;
        let word = |at: usize| u32::from_be_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
        let (ack, congested) = (body[24] != 0, bytes[15] >> 4 & 3 == 3);
        Some(Self {
            from: word(0),
            to: word(4),
            message: word(8),
            bytes: word(12),
            offset: u64::from(word(16)) << 32 | u64::from(word(20)),
            ack,
            entropy: u16::from_be_bytes([bytes[54], bytes[55]]),
            marked: if ack { body[25] != 0 } else { congested },
        })
    }

    /// The acknowledgement of this piece.
    pub fn answer(&self) -> Self {
        Self { from: self.to, to: self.from, ack: true, ..*self }
    }
}

/// What stands behind the UDP header of such a packet; `None` for anything else.
#[inline]
fn body(head: &[u8]) -> Option<&[u8; BODY_LEN]> {
    let is_datagram = *head.get(54..58)?.last_chunk()? == UDP_PORT.to_be_bytes();
    head.get(BODY_AT..)?.first_chunk().filter(|_| is_datagram)
}

/// The message of such a packet; `None` for anything else.
#[inline]
pub(crate) fn datagram_message(head: &[u8]) -> Option<u32> {
    let message = body(head)?[8..].first_chunk()?;
    Some(u32::from_be_bytes(*message))
}

/// One line about such a packet, as `mrc decode` writes them for MRC; `None` for anything else.
pub fn datagram_line(head: &[u8]) -> Option<String> {
    let Datagram { from, to, message, offset, bytes, ack, entropy, marked } = Datagram::parse(head)?;
    let what = if ack { "ACK" } else { "DATA" };
    let marked = if marked { " ce" } else { "" };
    Some(format!("h{from} > h{to}: {what} message={message} offset={offset} len={bytes} sport={entropy}{marked}"))
}

/// The port of `free` behind `last` in turn, for transports that use all ports alike.
pub fn next_port(free: PortMask, last: Option<PortNum>) -> Option<PortNum> {
    let after = last.map_or(PortMask::NONE, |port| PortMask::first(port.plane() + 1));
    free.minus(after).lowest().or_else(|| free.lowest())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::CORRUPT;

    #[test]
    fn what_is_written_can_be_read() {
        let data = Datagram {
            from: 3,
            to: 70_000,
            message: 9,
            offset: (1 << 40) + 5,
            bytes: 4_096,
            ack: false,
            entropy: 50_000,
            marked: false,
        };
        let mut packet = Packet::new();
        data.write(PortNum::from_plane(1), &mut packet);
        assert_eq!(Datagram::read(&packet), Some(data));
        assert_eq!((packet.wire_len, packet.header().len()), (4_096 + 90, 90));
        assert_eq!(packet.header()[38..54], address::gid(70_000), "switches forward it by the receiver");
        assert_eq!(packet.header()[15] >> 4 & 3, 2, "ECN capable");
        let line = datagram_line(packet.header()).unwrap();
        assert_eq!(line, "h3 > h70000: DATA message=9 offset=1099511627781 len=4096 sport=50000");
        data.answer().write(PortNum::from_plane(0), &mut packet);
        assert_eq!(Datagram::read(&packet), Some(Datagram { from: 70_000, to: 3, ack: true, ..data }));
        assert_eq!((packet.wire_len, packet.payload.len), (90, 0));
        assert!(packet.header()[15] >> 4 & 3 == 0, "acknowledgements are not marked");
        // A switch marks the data: it arrives marked, and its acknowledgement says so.
        Datagram { marked: true, ..data }.write(PortNum::from_plane(0), &mut packet);
        assert_eq!(Datagram::read(&packet), Some(data), "it leaves without a mark");
        packet.header_mut()[15] |= 3 << 4;
        let arrived = Datagram::read(&packet).unwrap();
        assert_eq!(arrived, Datagram { marked: true, ..data });
        arrived.answer().write(PortNum::from_plane(0), &mut packet);
        assert!(Datagram::read(&packet).is_some_and(|ack| ack.ack && ack.marked));
        assert!(datagram_line(packet.header()).unwrap().ends_with("sport=50000 ce"));
        packet.flags |= CORRUPT;
        assert_eq!(Datagram::read(&packet), None, "a checksum does not match");
        packet.flags = 0;
        packet.header_mut()[57] = 10;
        assert_eq!((Datagram::read(&packet), datagram_line(&[0; 40])), (None, None));
    }

    #[test]
    fn ports_take_turns() {
        let [a, b, c] = [0, 1, 2].map(PortNum::from_plane);
        let all = PortMask::first(3);
        assert_eq!([None, Some(a), Some(b), Some(c)].map(|last| next_port(all, last)), [a, b, c, a].map(Some));
        assert_eq!(next_port(all.without(b), Some(a)), Some(c));
        assert_eq!(next_port(PortMask::NONE, Some(a)), None);
    }
}
