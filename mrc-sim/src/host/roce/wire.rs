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
/// Of the opcodes that are left to manufacturers.
const PROBE: u8 = 0xC0;
const PROBE_ANSWER: u8 = 0xC1;
const NAK_SEQUENCE: u8 = 0x60;
/// Unlimited credits.
const ACK: u8 = 0x1F;

/// Bytes on the wire beside the payload of a packet without RETH.
pub(super) const DATA_OVERHEAD: u32 = (BTH_AT + BTH_LEN + icrc::LEN) as u32;
/// Bytes on the wire of an acknowledgement.
pub(super) const ACK_BYTES: u32 = (BTH_AT + BTH_LEN + AETH_LEN + icrc::LEN) as u32;

/// Queue pairs 0 and 1 are not for data.
const FIRST_QPN: u32 = 2;
/// Of the one region a host has.
const RKEY: u32 = 1;
/// Backward explicit congestion notification, in the byte before the QPN.
const BECN: u8 = 0x40;
const PSN_MASK: u32 = 0xFF_FFFF;

/// Where a write goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reth {
    pub(super) va: u64,
    pub(super) len: u32,
}

/// What a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A packet of a write; the first one has a RETH.
    Data { reth: Option<Reth>, last: bool, ack_req: bool },
    /// All packets before the PSN have arrived; with a hole, the PSN is the first one missing. `seen` names the packet
    /// that showed the hole.
    /// `marked` (BECN): where paths are chosen, something that this acknowledges was marked.
    Ack { hole: bool, seen: Option<u32>, marked: bool },
    /// Tests the path that its source port names; numbered by the PSN.
    Probe,
    /// Comes back at once; `marked` (BECN): the probe was.
    ProbeAnswer { marked: bool },
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
        Kind::Data { reth, last, .. } => {
            let first = reth.is_some();
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
        // With the data, whose queues it is to see.
        Kind::Probe => (PROBE, 0, plan.no_trim, Ecn::Ect0),
        Kind::ProbeAnswer { .. } => (PROBE_ANSWER, 0, plan.control, Ecn::NotEct),
    };
    let pad = payload.wrapping_neg() as usize % 4;
    let len = BTH_AT + BTH_LEN + ext;
    let udp_payload = BTH_LEN + ext + payload as usize + pad + icrc::LEN;
    let ev = Ev::from_halves(0, sport);
    let buffer = out.buffer();
    let at = template.emit(buffer, ev, dscp, ecn, udp_payload, None).expect("a packet fits its buffer");
    debug_assert_eq!(at, BTH_AT);
    buffer[at..len].fill(0);
    let [_, q0, q1, q2] = header.qp.wrapping_add(FIRST_QPN).to_be_bytes();
    // An ACK carries the last PSN that arrived, a NAK the first one that did not.
    let psn = match header.kind {
        Kind::Ack { hole: false, .. } => header.psn.wrapping_sub(1) & PSN_MASK,
        Kind::Cnp => 0,
        _ => header.psn,
    };
    let congestion = match header.kind {
        Kind::Cnp | Kind::Ack { marked: true, .. } | Kind::ProbeAnswer { marked: true } => BECN,
        _ => 0,
    };
    let [_, p0, p1, p2] = psn.to_be_bytes();
    let ack_req = matches!(header.kind, Kind::Data { ack_req: true, .. });
    let bth = [opcode, (pad as u8) << 4, 0xFF, 0xFF, congestion, q0, q1, q2, u8::from(ack_req) << 7, p0, p1, p2];
    buffer[at..at + BTH_LEN].copy_from_slice(&bth);
    if let Kind::Data { reth: Some(reth), .. } = header.kind {
        let (va, rest) = buffer[at + BTH_LEN..len].split_at_mut(8);
        va.copy_from_slice(&reth.va.to_be_bytes());
        rest[..4].copy_from_slice(&RKEY.to_be_bytes());
        rest[4..].copy_from_slice(&reth.len.to_be_bytes());
    }
    if let Kind::Ack { hole, seen, .. } = header.kind {
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
    parse(packet.header())
}

fn parse(bytes: &[u8]) -> Option<(Header, bool)> {
    let bth: &[u8; BTH_LEN] = bytes.get(BTH_AT..)?.first_chunk()?;
    if bytes.get(56..58)? != ROCE_PORT.to_be_bytes() {
        return None;
    }
    let marked = bytes.get(15)? >> 4 & 3 == 3;
    let kind = match bth[0] {
        0x06 | MIDDLE | 0x08 | 0x0A => Kind::Data {
            reth: if matches!(bth[0], 0x06 | 0x0A) { Some(read_reth(bytes.get(BTH_AT + BTH_LEN..)?)?) } else { None },
            last: matches!(bth[0], 0x08 | 0x0A),
            ack_req: bth[8] & 0x80 != 0,
        },
        ACKNOWLEDGE => {
            let aeth = bytes.get(BTH_AT + BTH_LEN..)?;
            let seen = aeth.get(AETH_LEN..).and_then(|rest| rest.first_chunk::<4>());
            let (hole, seen) = (*aeth.first()? == NAK_SEQUENCE, seen.map(|psn| u32::from_be_bytes(*psn)));
            Kind::Ack { hole, seen, marked: bth[4] & BECN != 0 }
        }
        CNP => Kind::Cnp,
        PROBE => Kind::Probe,
        PROBE_ANSWER => Kind::ProbeAnswer { marked: bth[4] & BECN != 0 },
        _ => return None,
    };
    let qp = u32::from_be_bytes([0, bth[5], bth[6], bth[7]]).checked_sub(FIRST_QPN)?;
    let psn = u32::from_be_bytes([0, bth[9], bth[10], bth[11]]);
    let psn = if matches!(kind, Kind::Ack { hole: false, .. }) { psn.wrapping_add(1) & PSN_MASK } else { psn };
    Some((Header { qp, psn, kind }, marked))
}

fn read_reth(bytes: &[u8]) -> Option<Reth> {
    let (va, rest) = bytes.split_first_chunk::<8>()?;
    Some(Reth { va: u64::from_be_bytes(*va), len: u32::from_be_bytes(*rest.get(4..)?.first_chunk()?) })
}

/// One line about a packet of the RoCE hosts, as `mrc decode` writes them for MRC; `None` for anything else.
pub fn roce_line(head: &[u8]) -> Option<String> {
    let (Header { qp, kind, .. }, marked) = parse(head)?;
    let addr = |at: usize| head.get(at..)?.first_chunk::<16>().map(|bytes| std::net::Ipv6Addr::from(*bytes));
    let (src, dst) = (addr(22)?, addr(38)?);
    let sport = u16::from_be_bytes(*head.get(54..)?.first_chunk()?);
    let bth: &[u8; BTH_LEN] = head.get(BTH_AT..)?.first_chunk()?;
    let psn = u32::from_be_bytes([0, bth[9], bth[10], bth[11]]);
    let what = match (bth[0], kind) {
        (0x06, _) => "RDMA_WRITE_FIRST",
        (MIDDLE, _) => "RDMA_WRITE_MIDDLE",
        (0x08, _) => "RDMA_WRITE_LAST",
        (0x0A, _) => "RDMA_WRITE_ONLY",
        (_, Kind::Ack { hole: true, .. }) => "NAK",
        (CNP, _) => "CNP",
        (PROBE, _) => "PROBE",
        (PROBE_ANSWER, _) => "PROBE_ANSWER",
        _ => "ACK",
    };
    let mut line = format!("{src} > {dst}: {what} qp={:#08x} psn={psn} sport={sport}", qp + FIRST_QPN);
    if let Kind::Data { reth, ack_req, .. } = kind {
        let udp = u16::from_be_bytes(*head.get(58..)?.first_chunk()?);
        let ext = if reth.is_some() { RETH_LEN } else { 0 };
        let payload = usize::from(udp).saturating_sub(8 + BTH_LEN + ext + usize::from(bth[1] >> 4 & 3) + icrc::LEN);
        line += &format!(" len={payload}");
        line += if ack_req { " a" } else { "" };
        if let Some(Reth { va, len }) = reth {
            line += &format!(" va={va:#x} dmalen={len}");
        }
    }
    if let Kind::Ack { seen: Some(seen), .. } = kind {
        line += &format!(" seen={seen}");
    }
    line += if marked { " ce" } else { "" };
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let template = template(0, 0, 1);
        let kinds = [
            Kind::Data { reth: Some(Reth { va: 1 << 40, len: 70_000 }), last: false, ack_req: false },
            Kind::Data { reth: None, last: true, ack_req: true },
            Kind::Ack { hole: false, seen: None, marked: false },
            Kind::Ack { hole: true, seen: Some(0xFF_FFFF), marked: true },
            Kind::Cnp,
            Kind::Probe,
            Kind::ProbeAnswer { marked: true },
        ];
        for kind in kinds {
            let psn = if kind == Kind::Cnp { 0 } else { 0xFF_FFFE };
            let header = Header { qp: 0x12_3456, psn, kind };
            let mut packet = Packet::new();
            let payload = if matches!(kind, Kind::Data { .. }) { 4_095 } else { 0 };
            write(&mut packet, &template, 50_000, &header, payload);
            assert_eq!(read(&packet), Some((header, false)));
            assert_eq!(packet.header()[54..56], 50_000u16.to_be_bytes());
            let line = roce_line(packet.header()).unwrap();
            assert!(
                line.contains("sport=50000")
                    && line.contains(&format!("psn={}", psn - u32::from(line.contains(": ACK"))))
            );
            assert_eq!(line.contains(" len=4095"), payload > 0, "{line}");
            packet.header_mut()[15] |= 0x30;
            assert_eq!(read(&packet), Some((header, true)));
        }
        let mut middle = Packet::new();
        let kind = Kind::Data { reth: None, last: false, ack_req: false };
        write(&mut middle, &template, 1, &Header { qp: 1, psn: 1, kind }, 4_096);
        assert_eq!(middle.wire_len, 4_096 + DATA_OVERHEAD);
        // Of an ACK for all packets before 0x1234 the wire has 0x1233; a CNP has BECN and no PSN.
        let kind = Kind::Ack { hole: false, seen: None, marked: false };
        write(&mut middle, &template, 1, &Header { qp: 1, psn: 0x1234, kind }, 0);
        assert_eq!(middle.header()[BTH_AT..][..BTH_LEN], [0x11, 0, 0xFF, 0xFF, 0, 0, 0, 3, 0, 0, 0x12, 0x33]);
        write(&mut middle, &template, 1, &Header { qp: 1, psn: 0x1234, kind: Kind::Cnp }, 0);
        assert_eq!(middle.header()[BTH_AT..][..BTH_LEN], [0x81, 0, 0xFF, 0xFF, 0x40, 0, 0, 3, 0, 0, 0, 0]);
    }
}
