//! Shared by the integration tests: the two hosts of the golden packets and whole packets as values.
#![allow(dead_code, unreachable_pub, reason = "shared by test binaries, each uses a part")]

use mrc_wire::*;

pub const MAC_A: [u8; 6] = [2, 0, 0, 0, 0, 0x0A];
pub const MAC_B: [u8; 6] = [2, 0, 0, 0, 0, 0x0B];
pub const QPN_A: Qpn = Qpn::new(0x01_A0A1);
pub const QPN_B: Qpn = Qpn::new(0x01_B0B2);

pub fn v6(text: &str) -> [u8; 16] {
    text.parse::<std::net::Ipv6Addr>().unwrap().octets()
}

pub fn addr_a() -> Ip {
    Ip::V6(v6("2001:db8:1::a"))
}

pub fn addr_b() -> Ip {
    Ip::V6(v6("2001:db8:1::b"))
}

pub fn a_to_b() -> Encap {
    Encap::plain(MAC_A, MAC_B, addr_a(), addr_b())
}

pub fn b_to_a() -> Encap {
    Encap::plain(MAC_B, MAC_A, addr_b(), addr_a())
}

pub fn hex(text: &str) -> Vec<u8> {
    text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// The reference's own output, kept as a file.
pub fn golden() -> serde_json::Value {
    serde_json::from_str(include_str!("../golden.json")).unwrap()
}

pub fn golden_frame(name: &str) -> Vec<u8> {
    hex(golden()["packets"][name]["hex"].as_str().unwrap())
}

/// Everything a packet is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    pub encap: Encap,
    /// Replaces the outer destination.
    pub outer_dst: Option<[u8; 16]>,
    pub ev: Ev,
    pub dscp: u8,
    pub ecn: Ecn,
    pub bth: BthRepr,
    pub body: Body,
    pub payload: Vec<u8>,
}

impl Packet {
    pub fn emit(&self, cfg: &WireConfig) -> Vec<u8> {
        let mut out = vec![0xEE; FrameTemplate::HEADER_LEN_MAX + 64 + self.payload.len()];
        let meta = EmitMeta { ev: self.ev, dscp: self.dscp, ecn: self.ecn, outer_dst: self.outer_dst.as_ref() };
        let template = FrameTemplate::new(&self.encap, cfg);
        let len = template.emit_packet(&mut out, &meta, &self.bth, &self.body, &self.payload).expect("there is room");
        assert!(out[len..].iter().all(|b| *b == 0xEE), "nothing is written behind the packet");
        out.truncate(len);
        out
    }
}

/// Every destination is local.
pub fn parse(frame: &[u8], cfg: &WireConfig) -> Result<Frame, Reject> {
    parse_frame(frame, frame.len(), cfg, |_| true)
}
