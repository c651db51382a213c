//! RoCEv2 packets: Ethernet, IPv6, UDP 4791, BTH, and RETH, AETH or the 16 bytes of a CNP. IBTA opcodes of Reliable
//! Connection, not those of MRC.

use mrc_wire::{Ecn, Encap, Ev, FrameTemplate, Ip, WireConfig, icrc};

use crate::fabric::{Packet, address};

const ROCE_PORT: u16 = 4791;
const BTH_AT: usize = 14 + 40 + 8;
const BTH_LEN: usize = 12;
const RETH_LEN: usize = 16;
const AETH_LEN: usize = 4;
const CNP_LEN: usize = 16;
/// Of a NACK that names the packet which arrived out of order (selective repeat).
const SELECTIVE_LEN: usize = 4;
const MIDDLE: u8 = 0x07;
const ACKNOWLEDGE: u8 = 0x11;
const CNP: u8 = 0x81;
const NAK_SEQUENCE: u8 = 0x60;
/// Unlimited credits.
const ACK: u8 = 0x1F;

/// Bytes on the wire beside the payload of a packet without RETH.
pub(super) const DATA_OVERHEAD: u32 = (BTH_AT + BTH_LEN + icrc::LEN) as u32;
/// Bytes on the wire of an acknowledgement.
pub(super) const ACK_BYTES: u32 = (BTH_AT + BTH_LEN + AETH_LEN + icrc::LEN) as u32;

/// What a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A piece of a write; `first` and `last` say where in its message.
    Data { first: bool, last: bool, ack_req: bool },
    /// All packets before the PSN have arrived; with a hole, the PSN is the first one missing. `seen` names the packet
    /// that showed the hole.
    Ack { hole: bool, seen: Option<u32> },
    /// The receiver saw a mark.
    Cnp,
}

/// The transport header: 24 bits of PSN, the receiving queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) qp: u32,
    pub(super) psn: u32,
    pub(super) kind: Kind,
}

/// Frames of one queue pair on one port.
pub(super) fn template(plane: u8, from: u32, to: u32) -> FrameTemplate {
    let cfg = WireConfig { udp_dport: ROCE_PORT, ..WireConfig::default() };
    let encap = Encap::plain(
        address::host_mac(plane, from),
        address::t0_mac(plane, from),
        Ip::V6(address::gid(from)),
        Ip::V6(address::gid(to)),
    );
    FrameTemplate::new(&encap, &cfg)
}

/// Writes a packet; `sport` is the entropy that switches hash.
pub(super) fn write(out: &mut Packet, template: &FrameTemplate, sport: u16, header: &Header, payload: u32) {
    let plan = WireConfig::default().dscp;
    let (opcode, ext, dscp, ecn) = match header.kind {
        Kind::Data { first, last, .. } => {
            let opcode = match (first, last) {
                (true, true) => 0x0A,
                (true, false) => 0x06,
                (false, false) => MIDDLE,
                (false, true) => 0x08,
            };
            (opcode, if first { RETH_LEN } else { 0 }, plan.no_trim, Ecn::Ect0)
        }
        Kind::Ack { seen, .. } => {
            let ext = AETH_LEN + if seen.is_some() { SELECTIVE_LEN } else { 0 };
            (ACKNOWLEDGE, ext, plan.control, Ecn::NotEct)
        }
        Kind::Cnp => (CNP, CNP_LEN, plan.control, Ecn::NotEct),
    };
    let pad = payload.wrapping_neg() as usize % 4;
    let len = BTH_AT + BTH_LEN + ext;
    let udp_payload = BTH_LEN + ext + payload as usize + pad + icrc::LEN;
    let ev = Ev::from_halves(0, sport);
    let buffer = out.buffer();
    let at = template.emit(buffer, ev, dscp, ecn, udp_payload, None).expect("a packet fits its buffer");
    debug_assert_eq!(at, BTH_AT);
    buffer[at..len].fill(0);
    let [_, q0, q1, q2] = header.qp.to_be_bytes();
    let [_, p0, p1, p2] = header.psn.to_be_bytes();
    let ack_req = matches!(header.kind, Kind::Data { ack_req: true, .. });
    let bth = [opcode, (pad as u8) << 4, 0xFF, 0xFF, 0, q0, q1, q2, u8::from(ack_req) << 7, p0, p1, p2];
    buffer[at..at + BTH_LEN].copy_from_slice(&bth);
    if let Kind::Ack { hole, seen } = header.kind {
        buffer[at + BTH_LEN] = if hole { NAK_SEQUENCE } else { ACK };
        if let Some(seen) = seen {
            buffer[at + BTH_LEN + AETH_LEN..len].copy_from_slice(&seen.to_be_bytes());
        }
    }
    out.set_header_len(len);
    out.wire_len = (len + payload as usize + pad + icrc::LEN) as u32;
}

/// Reads a packet, and whether it carries a mark; `None` for what is not RoCEv2.
pub(super) fn read(packet: &Packet) -> Option<(Header, bool)> {
    let bytes = packet.header();
    let bth: &[u8; BTH_LEN] = bytes.get(BTH_AT..)?.first_chunk()?;
    if bytes.get(56..58)? != ROCE_PORT.to_be_bytes() {
        return None;
    }
    let marked = bytes.get(15)? >> 4 & 3 == 3;
    let kind = match bth[0] {
        0x06 | MIDDLE | 0x08 | 0x0A => Kind::Data {
            first: matches!(bth[0], 0x06 | 0x0A),
            last: matches!(bth[0], 0x08 | 0x0A),
            ack_req: bth[8] & 0x80 != 0,
        },
        ACKNOWLEDGE => {
            let aeth = bytes.get(BTH_AT + BTH_LEN..)?;
            let seen = aeth.get(AETH_LEN..).and_then(|rest| rest.first_chunk::<4>());
            Kind::Ack { hole: *aeth.first()? == NAK_SEQUENCE, seen: seen.map(|psn| u32::from_be_bytes(*psn)) }
        }
        CNP => Kind::Cnp,
        _ => return None,
    };
    let qp = u32::from_be_bytes([0, bth[5], bth[6], bth[7]]);
    Some((Header { qp, psn: u32::from_be_bytes([0, bth[9], bth[10], bth[11]]), kind }, marked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let template = template(0, 0, 1);
        let kinds = [
            Kind::Data { first: true, last: false, ack_req: false },
            Kind::Data { first: false, last: true, ack_req: true },
            Kind::Ack { hole: false, seen: None },
            Kind::Ack { hole: true, seen: Some(0xFF_FFFF) },
            Kind::Cnp,
        ];
        for kind in kinds {
            let header = Header { qp: 0x12_3456, psn: 0xFF_FFFE, kind };
            let mut packet = Packet::new();
            let payload = if matches!(kind, Kind::Data { .. }) { 4_095 } else { 0 };
            write(&mut packet, &template, 50_000, &header, payload);
            assert_eq!(read(&packet), Some((header, false)));
            assert_eq!(packet.header()[54..56], 50_000u16.to_be_bytes());
            packet.header_mut()[15] |= 0x30;
            assert_eq!(read(&packet), Some((header, true)));
        }
        let mut middle = Packet::new();
        let kind = Kind::Data { first: false, last: false, ack_req: false };
        write(&mut middle, &template, 1, &Header { qp: 1, psn: 1, kind }, 4_096);
        assert_eq!(middle.wire_len, 4_096 + DATA_OVERHEAD);
    }
}
