//! Steps 1 to 9 of the validation order: each refusal by itself, all pairs for the order, and what must be accepted.

mod support;

use mrc_wire::*;
use support::*;

/// Offsets in `srv6_srh_write_only_ts`.
mod at {
    pub(super) const OUTER: usize = 14;
    pub(super) const SRH: usize = OUTER + 40;
    pub(super) const INNER: usize = SRH + 24;
    pub(super) const UDP: usize = INNER + 40;
    pub(super) const BTH: usize = UDP + 8;
    pub(super) const EXT: usize = BTH + 12;
}

/// A received frame as the driver hands it over.
struct Received {
    frame: Vec<u8>,
    head_len: usize,
    local: bool,
}

impl Received {
    fn new(frame: Vec<u8>) -> Self {
        Self { head_len: frame.len(), frame, local: true }
    }

    fn parse(&self) -> Result<Frame, Reject> {
        let head = &self.frame[..self.head_len];
        parse_frame(head, self.frame.len(), &WireConfig::default(), |_| self.local)
    }

    fn cut(&mut self, len: usize) {
        self.head_len = self.head_len.min(len);
    }
}

type Fault = (&'static str, Reject, fn(&mut Received));

/// Faults in the order of the steps; those of one step stand together.
const FAULTS: &[(u8, Fault)] = &[
    (1, ("ethertype", Reject::L3Bad, |r| r.frame[13] = 0x06)),
    (1, ("outer version", Reject::L3Bad, |r| r.frame[at::OUTER] = 0x50)),
    (1, ("outer header cut", Reject::L3Bad, |r| r.cut(at::SRH - 1))),
    (2, ("not local", Reject::L3Dst, |r| r.local = false)),
    (2, ("segments left", Reject::L3Dst, |r| r.frame[at::SRH + 3] = 1)),
    (2, ("routing type", Reject::L3Dst, |r| r.frame[at::SRH + 2] = 3)),
    (2, ("SRH without a segment", Reject::L3Dst, |r| r.frame[at::SRH + 1] = 1)),
    (2, ("no inner header", Reject::L3Dst, |r| r.frame[at::SRH] = 17)),
    (2, ("inner version", Reject::L3Dst, |r| r.frame[at::INNER] = 0x40)),
    (2, ("two inner headers", Reject::L3Dst, |r| r.frame[at::INNER + 6] = 41)),
    (3, ("outer length", Reject::L3Len, |r| r.frame[at::OUTER + 5] += 1)),
    (3, ("inner length", Reject::L3Len, |r| r.frame[at::INNER + 5] += 1)),
    (4, ("protocol", Reject::UdpBad, |r| r.frame[at::INNER + 6] = 6)),
    (4, ("port", Reject::UdpBad, |r| r.frame[at::UDP + 3] ^= 1)),
    (4, ("UDP length above", Reject::UdpBad, |r| r.frame[at::UDP + 5] += 1)),
    (4, ("UDP length below", Reject::UdpBad, |r| r.frame[at::UDP + 5] = 23)),
    (4, ("UDP header cut", Reject::UdpBad, |r| r.cut(at::BTH - 1))),
    (5, ("BTH cut", Reject::Short, |r| r.cut(at::EXT - 1))),
    (6, ("opcode", Reject::Opcode, |r| r.frame[at::BTH] = 0xC5)),
    (7, ("version", Reject::Tver, |r| r.frame[at::BTH + 1] |= 1)),
    (9, ("extension headers cut", Reject::Short, |r| r.cut(at::EXT + 23))),
];

fn good() -> Received {
    Received::new(golden_frame("srv6_srh_write_only_ts"))
}

//= VAL-002, VAL-003, VAL-004, VAL-005, VAL-006, VAL-007, VAL-008, VAL-009, SRH-004, UDP-004 test
#[test]
fn each_fault_has_its_counter() {
    assert!(good().parse().is_ok());
    for (_, (name, reject, fault)) in FAULTS {
        let mut r = good();
        fault(&mut r);
        assert_eq!(r.parse(), Err(*reject), "{name}");
    }
}

//= VAL-001 test
#[test]
fn the_first_failing_step_decides() {
    for (early, (name, reject, first)) in FAULTS {
        for (late, (other, _, second)) in FAULTS {
            // A cut takes away what later steps look at, but never what earlier ones do.
            if early < late {
                let mut r = good();
                second(&mut r);
                first(&mut r);
                assert_eq!(r.parse(), Err(*reject), "{name} before {other}");
            }
        }
    }
}

#[test]
fn counters_have_the_names_of_the_reference() {
    let names = ["l3_bad", "l3_dst", "l3_len", "udp_bad", "short", "opcode", "tver"];
    assert!(Reject::ALL.iter().map(|r| r.name()).eq(names));
}

fn write(payload: &[u8]) -> Packet {
    let bth = BthRepr::new(Opcode::WriteOnly, QPN_B, Psn::new(7));
    let reth = RethRepr { dmalen: payload.len() as u32, ..RethRepr::default() };
    Packet {
        encap: a_to_b(),
        outer_dst: None,
        ev: Ev(0x0001_0002),
        dscp: 4,
        ecn: Ecn::Ect0,
        bth,
        body: Body::Write { meth: MethRepr::default(), tseth: None, reth, imm: None },
        payload: payload.to_vec(),
    }
}

const PLAIN_BTH: usize = 14 + 40 + 8;

//= VAL-009, BTH-004, LEN-004 test
#[test]
fn the_pad_may_be_as_long_as_the_payload_and_no_longer() {
    let cfg = WireConfig::default();
    let mut frame = write(b"a").emit(&cfg);
    assert_eq!(parse(&frame, &cfg).unwrap().payload.len(), 1);
    let mut none = write(&[]).emit(&cfg);
    assert!(parse(&none, &cfg).unwrap().payload.is_empty());
    none[PLAIN_BTH + 1] = 0x10;
    assert_eq!(parse(&none, &cfg), Err(Reject::Short));
    // One byte and three of pad, all declared as pad but one: the receiver does not look at them.
    let pad_at = frame.len() - icrc::LEN - 3;
    frame[pad_at..pad_at + 3].fill(0xFF);
    assert_eq!(parse(&frame, &cfg).unwrap().payload.len(), 1);
}

//= VAL-009 test
#[test]
fn the_icrc_must_have_room() {
    let cfg = WireConfig::default();
    let mut frame = write(&[]).emit(&cfg);
    assert_eq!(frame.len(), PLAIN_BTH + 12 + 20 + 4);
    for missing in 1..=4 {
        frame.truncate(PLAIN_BTH + 12 + 20 + 4 - missing);
        let udp_len = (frame.len() - 54) as u8;
        (frame[14 + 5], frame[54 + 5]) = (udp_len, udp_len);
        assert_eq!(parse(&frame, &cfg), Err(Reject::Short));
    }
}

//= OPC-001, OPC-002, VAL-007, BTH-009 test
#[test]
fn every_opcode_asks_for_its_own_headers() {
    let cfg = WireConfig::default();
    for byte in 0..=255u8 {
        let opcode = Opcode::from_u8(byte);
        for ts in [false, true] {
            let need = match opcode {
                Opcode::Unknown(_) => None,
                Opcode::Ack => Some(4),
                Opcode::Sack | Opcode::EndpointResponse => Some(36),
                Opcode::Nack => Some(20),
                Opcode::Probe | Opcode::EndpointRequest => Some(16),
                write => Some(20 + if ts { 4 } else { 0 } + if write.has_imm() { 4 } else { 0 }),
            };
            for len in 0..64 {
                let p = Packet { payload: vec![0; len], ..write(&[]) };
                let p = Packet { body: Body::Ack(AethRepr { syndrome: Syndrome::ACK, msn: 0 }), ..p };
                let mut frame = p.emit(&cfg);
                // The four bytes of AETH and the payload are the room; no pad, whatever their number.
                (frame[PLAIN_BTH], frame[PLAIN_BTH + 1]) = (byte, 0);
                frame[PLAIN_BTH + 8] = if ts { 0x10 } else { 0 };
                let room = frame.len() - PLAIN_BTH - 12 - icrc::LEN;
                let got = parse(&frame, &cfg);
                match need {
                    None => assert_eq!(got, Err(Reject::Opcode)),
                    Some(need) if room < need => assert_eq!(got, Err(Reject::Short), "{opcode}"),
                    Some(_) => assert_eq!(got.unwrap().bth.opcode, opcode),
                }
            }
        }
    }
}

//= ERTH-002 test
#[test]
fn reserved_endpoint_operations_are_dropped() {
    let cfg = WireConfig::default();
    let mut frame = golden_frame("ev_probe_request");
    frame[PLAIN_BTH + 12 + 1] = 2;
    assert_eq!(parse(&frame, &cfg), Err(Reject::Opcode));
    let mut frame = golden_frame("ev_probe_response");
    frame[PLAIN_BTH + 12 + 1] = 3 << 2;
    assert_eq!(parse(&frame, &cfg), Err(Reject::Opcode));
}

//= UDP-002 test
#[test]
fn two_ports_are_taken() {
    let cfg = WireConfig::default();
    let send = |udp_dport| write(b"x").emit(&WireConfig { udp_dport, ..cfg });
    assert!(parse(&send(4791), &cfg).is_ok());
    assert!(parse(&send(4971), &cfg).is_ok());
    assert_eq!(parse(&send(4792), &cfg), Err(Reject::UdpBad));
    let own = WireConfig { udp_dport_accept: [4792, 4792], ..cfg };
    assert!(parse(&send(4792), &own).is_ok());
    assert_eq!(parse(&send(4791), &own), Err(Reject::UdpBad));
}

//= ETH-002 test
#[test]
fn two_vlan_tags_are_stepped_over() {
    let cfg = WireConfig::default();
    for name in ["write_only_ts", "ipv4_write_only_imm_empty", "srv6_srh_write_only_ts"] {
        let bare = golden_frame(name);
        let a = parse(&bare, &cfg).unwrap();
        // A customer's tag alone, behind a provider's, and behind another of its kind.
        for tags in [&[0x8100u16][..], &[0x88A8], &[0x88A8, 0x8100], &[0x8100, 0x8100]] {
            let mut tagged = bare.clone();
            let bytes = tags.iter().flat_map(|tag| [tag.to_be_bytes(), [0x60, 0x07]].concat());
            tagged.splice(12..12, bytes);
            let b = parse(&tagged, &cfg).unwrap();
            let more = 4 * tags.len();
            assert_eq!((b.l3_offset, b.icrc_offset), (a.l3_offset + more, a.icrc_offset + more), "{tags:x?}");
            assert_eq!((b.body, b.bth, b.entropy), (a.body, a.bth, a.entropy));
            assert_eq!(icrc::start(&tagged), Some(b.l3_offset));
            assert!(icrc::verify(&tagged, b.l3_offset, b.icrc_offset));
            for len in 0..14 + more {
                assert_eq!((parse(&tagged[..len], &cfg), icrc::start(&tagged[..len])), (Err(Reject::L3Bad), None));
            }
        }
        let mut tagged = bare.clone();
        tagged.splice(12..12, [0x81, 0x00, 0x60, 0x07].repeat(3));
        assert_eq!((parse(&tagged, &cfg), icrc::start(&tagged)), (Err(Reject::L3Bad), None), "nobody has three");
    }
}

//= IP4-002 test
#[test]
fn ipv4_options_are_skipped_and_covered_by_the_icrc() {
    let cfg = WireConfig::default();
    let mut frame = golden_frame("ipv4_write_only_imm_empty");
    frame.splice(34..34, [7, 7, 4, 0]);
    frame[14] = 0x46;
    frame[17] += 4;
    let end = frame.len() - icrc::LEN;
    let sum = icrc::compute(&frame[14..end]).unwrap();
    frame[end..].copy_from_slice(&sum);
    let f = parse(&frame, &cfg).unwrap();
    assert_eq!(f.body, parse(&golden_frame("ipv4_write_only_imm_empty"), &cfg).unwrap().body);
    assert!(icrc::verify(&frame, f.l3_offset, f.icrc_offset));
    frame[35] ^= 1;
    assert!(!icrc::verify(&frame, f.l3_offset, f.icrc_offset));
    frame[14] = 0x44;
    assert_eq!(parse(&frame, &cfg), Err(Reject::L3Bad), "a header shorter than five words");
    frame[14] = 0x4F;
    assert_eq!(parse_frame(&frame[..73], 200, &cfg, |_| true), Err(Reject::L3Bad), "options cut off");
}

#[test]
fn fragments_are_refused() {
    let cfg = WireConfig::default();
    for (byte, value) in [(20, 0x20), (20, 0x01), (21, 0x01)] {
        let mut frame = golden_frame("ipv4_write_only_imm_empty");
        frame[byte] |= value;
        assert_eq!(parse(&frame, &cfg), Err(Reject::L3Bad));
    }
}

//= SRV6-006, IP6-004 test
#[test]
fn the_outer_code_point_counts_and_either_mark_does() {
    let cfg = WireConfig::default();
    for (outer, inner, ce) in [(0x20, 0x20, false), (0x30, 0x20, true), (0x20, 0x30, true)] {
        let mut frame = golden_frame("srv6_write_only_ts");
        // DSCP 8 outside, 4 inside.
        (frame[14], frame[15]) = (0x62, outer);
        (frame[54], frame[55]) = (0x61, inner);
        let f = parse(&frame, &cfg).unwrap();
        assert_eq!((f.dscp, f.ce), (8, ce));
        assert!(icrc::verify(&frame, f.l3_offset, f.icrc_offset), "marking does not break the sum");
    }
    let mut frame = golden_frame("ipv4_write_only_imm_empty");
    frame[15] |= 3;
    assert!(parse(&frame, &cfg).unwrap().ce);
}

//= HOST-001 test
#[test]
fn step_two_asks_for_the_outermost_destination() {
    let cfg = WireConfig::default();
    for (name, dst) in [
        ("write_only_ts", addr_b()),
        ("srv6_write_only_ts", Ip::V6(v6("fc00:1:e011:6501:e012:d00b::"))),
        ("ipv4_write_only_imm_empty", Ip::V4([192, 0, 2, 11])),
    ] {
        let frame = golden_frame(name);
        let asked = std::cell::RefCell::new(vec![]);
        let ask = |ip: &Ip| {
            asked.borrow_mut().push(*ip);
            true
        };
        parse_frame(&frame, frame.len(), &cfg, ask).unwrap();
        assert_eq!(*asked.borrow(), [dst]);
    }
}

#[test]
fn a_longer_srh_is_skipped_by_its_length() {
    let cfg = WireConfig::default();
    let mut frame = golden_frame("srv6_srh_write_only_ts");
    frame.splice(at::INNER..at::INNER, [4, 6, 0, 0, 0, 0, 0, 0]); // a padding TLV
    frame[at::SRH + 1] = 3;
    frame[at::OUTER + 5] += 8;
    let f = parse(&frame, &cfg).unwrap();
    assert_eq!(f.l3_offset, at::INNER + 8);
    assert_eq!(icrc::start(&frame), Some(f.l3_offset));
    assert!(icrc::verify(&frame, f.l3_offset, f.icrc_offset));
}

#[test]
fn bytes_behind_the_packet_do_not_matter() {
    let cfg = WireConfig::default();
    for name in ["write_only_ts", "transport_ack", "srv6_srh_write_only_ts", "ipv4_write_only_imm_empty"] {
        let bare = golden_frame(name);
        let mut padded = bare.clone();
        padded.extend([0xAB; 9]);
        assert_eq!(parse(&padded, &cfg), parse(&bare, &cfg), "{name}");
    }
}

#[test]
fn headers_alone_are_enough() {
    let cfg = WireConfig::default();
    let frame = write(&[0x5A; 4096]).emit(&cfg);
    let whole = parse(&frame, &cfg).unwrap();
    let head = &frame[..whole.payload.start];
    assert_eq!(parse_frame(head, frame.len(), &cfg, |_| true), Ok(whole.clone()));
    let less = &frame[..whole.payload.start - 1];
    assert_eq!(parse_frame(less, frame.len(), &cfg, |_| true), Err(Reject::Short));
    assert_eq!(parse_frame(head, frame.len() - 1, &cfg, |_| true), Err(Reject::L3Len));
}

//= TS-003, TS-004, TSETH-002 test
#[test]
fn timestamps_are_reflected_as_they_came() {
    let cfg = WireConfig::default();
    let stamp = |tseth: Option<TsethRepr>| {
        let mut p = write(b"x");
        let Body::Write { meth, reth, imm, .. } = p.body else { unreachable!("a write") };
        p.body = Body::Write { meth, tseth, reth, imm };
        p.bth.ts = tseth.is_some();
        parse(&p.emit(&cfg), &cfg).unwrap().timestamp()
    };
    assert_eq!(stamp(None), 0);
    assert_eq!(stamp(Some(TsethRepr { timestamp: 0xABCD, tsr: true, ftype: 1 })), 0xABCD);
    assert_eq!(stamp(Some(TsethRepr { timestamp: 0xABCD, tsr: false, ftype: 3 })), 0);
    for (name, want) in
        [("reliability_probe", 0xFFF0), ("ev_probe_request", 0x0102), ("sack_ecn", 0), ("ev_probe_response", 0)]
    {
        assert_eq!(parse(&golden_frame(name), &cfg).unwrap().timestamp(), want, "{name}");
    }
}

mod trimmed {
    use super::*;

    /// `write_only_ts` with the code point `dscp`, cut to `len` bytes.
    fn cut(name: &str, dscp: u8, len: usize) -> Vec<u8> {
        let mut frame = golden_frame(name);
        (frame[14], frame[15]) = (0x60 | dscp >> 2, (dscp << 6) | 0x20);
        frame.truncate(len);
        frame
    }

    //= TRIM-001, TRIM-002, TRIM-003, TRIM-004 test
    #[test]
    fn anything_from_bth_on_is_enough() {
        let cfg = WireConfig::default();
        let full = golden_frame("write_only_ts").len();
        for (dscp, kind) in [(12, Trim::Trimmed), (16, Trim::LastHop)] {
            for len in PLAIN_BTH..=full {
                let frame = cut("write_only_ts", dscp, len);
                let got = parse(&frame, &cfg);
                if len < PLAIN_BTH + 12 {
                    assert_eq!(got, Err(Reject::Short));
                    continue;
                }
                let got = got.unwrap();
                let timestamp = if len < PLAIN_BTH + 20 { 0 } else { 0x1234 };
                assert_eq!(got.body, Body::Trimmed { kind, timestamp, tsr: false });
                assert_eq!(got.timestamp(), timestamp);
                assert_eq!((got.bth.psn, got.entropy), (Psn::new(0x100), Ev(0x1234_5678)));
                assert_eq!((got.payload, got.icrc_offset), (len..len, len));
            }
        }
    }

    //= TRIM-002 test
    #[test]
    fn lengths_mean_nothing() {
        let cfg = WireConfig::default();
        for value in [0, 1, 23, 255] {
            let mut frame = cut("write_only_ts", 12, 82);
            frame[14 + 4..14 + 6].fill(value);
            frame[54 + 4..54 + 6].fill(value);
            assert!(matches!(parse(&frame, &cfg).unwrap().body, Body::Trimmed { .. }));
        }
    }

    //= TRIM-001 test
    #[test]
    fn under_srv6_the_outer_code_point_tells() {
        let cfg = WireConfig::default();
        let frame = cut("srv6_write_only_ts", 12, 54 + 40 + 8 + 20);
        assert!(matches!(
            parse(&frame, &cfg).unwrap().body,
            Body::Trimmed { kind: Trim::Trimmed, timestamp: 0x1234, tsr: false }
        ));
        // Trimmed inside only: no switch did this, and the lengths are wrong.
        let mut frame = cut("srv6_write_only_ts", 4, 54 + 40 + 8 + 20);
        (frame[54], frame[55]) = (0x63, 0x20);
        assert_eq!(parse(&frame, &cfg), Err(Reject::L3Len));
    }

    //= TRIM-008 test
    #[test]
    fn only_writes_count() {
        let cfg = WireConfig::default();
        for name in ["sack_ecn", "nack_trimmed", "transport_ack", "reliability_probe", "ev_probe_request"] {
            let frame = cut(name, 12, PLAIN_BTH + 12);
            assert_eq!(parse(&frame, &cfg), Err(Reject::Opcode), "{name}");
        }
        let mut frame = cut("write_only_ts", 12, 82);
        frame[PLAIN_BTH + 1] |= 1;
        assert_eq!(parse(&frame, &cfg), Err(Reject::Tver));
        let mut frame = cut("write_only_ts", 12, 82);
        frame[54 + 3] ^= 1;
        assert_eq!(parse(&frame, &cfg), Err(Reject::UdpBad));
    }

    //= TSETH-002 test
    #[test]
    fn another_timestamp_format_reflects_as_none() {
        let cfg = WireConfig::default();
        let mut frame = cut("write_only_ts", 12, 82);
        frame[81] = 2;
        assert_eq!(parse(&frame, &cfg).unwrap().timestamp(), 0);
    }
}

mod knobs {
    use super::*;

    //= EVW-002 test
    #[test]
    fn the_halves_of_the_ev_swap_on_both_sides() {
        let swapped = WireConfig { ev_high_half_in_sport: true, ..WireConfig::default() };
        let p = Packet { ev: Ev(0x1234_5678), ..write(b"x") };
        let frame = p.emit(&swapped);
        assert_eq!((&frame[16..18], &frame[54..56]), (&[0x56, 0x78][..], &[0x12, 0x34][..]));
        assert_eq!(parse(&frame, &swapped).unwrap().entropy, Ev(0x1234_5678));
        assert_eq!(parse(&frame, &WireConfig::default()).unwrap().entropy, Ev(0x5678_1234));
        let (src, dst) = (Ip::V4([10, 0, 0, 1]), Ip::V4([10, 0, 0, 2]));
        let p = Packet { encap: Encap { src, dst, ..a_to_b() }, ..p };
        assert_eq!(parse(&p.emit(&swapped), &swapped).unwrap().entropy, Ev(0x5678));
    }

    //= BTH-002 test
    #[test]
    fn the_solicited_bit_moves() {
        let cfg = WireConfig { bth_se_bit: 6, ..WireConfig::default() };
        let mut p = write(b"x");
        p.bth.se = true;
        let frame = p.emit(&cfg);
        assert_eq!(frame[PLAIN_BTH + 1] & 0xC0, 0x40);
        assert!(parse(&frame, &cfg).unwrap().bth.se);
        assert!(!parse(&frame, &WireConfig::default()).unwrap().bth.se);
    }

    #[test]
    fn code_points_are_configuration() {
        let mut cfg = WireConfig::default();
        cfg.dscp.trimmed = 9;
        let p = Packet { dscp: 9, ..write(b"x") };
        assert!(matches!(parse(&p.emit(&cfg), &cfg).unwrap().body, Body::Trimmed { .. }));
        let p = Packet { dscp: 12, ..write(b"x") };
        assert!(matches!(parse(&p.emit(&cfg), &cfg).unwrap().body, Body::Write { .. }));
    }
}
