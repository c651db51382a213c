//! Known answers: the vectors of the protocol reference, `tests/golden.json`.
//!
//! Each packet is read into the fields below and written from them again, byte for byte.

mod support;

use mrc_wire::*;
use support::*;

const TS_DATA: TsethRepr = TsethRepr::ns128(0x1234);

fn data(encap: Encap, ev: u32, bth: BthRepr, body: Body, payload: &[u8]) -> Packet {
    let pad = pad_len(payload.len());
    Packet {
        encap,
        outer_dst: None,
        ev: Ev(ev),
        dscp: 4,
        ecn: Ecn::Ect0,
        bth: BthRepr { pad, ..bth },
        body,
        payload: payload.to_vec(),
    }
}

fn control(ev: u32, bth: BthRepr, body: Body) -> Packet {
    Packet { dscp: 46, ecn: Ecn::NotEct, ..data(b_to_a(), ev, bth, body, &[]) }
}

fn bth(opcode: Opcode, qp: Qpn, psn: u32) -> BthRepr {
    BthRepr::new(opcode, qp, Psn::new(psn))
}

fn write_only_ts() -> Packet {
    let head = BthRepr { ack_req: true, ts: true, ..bth(Opcode::WriteOnly, QPN_B, 0x100) };
    let reth = RethRepr { va: 0x7F00_1122_3344, rkey: Rkey(0xCAFE_0001), dmalen: 13 };
    let body = Body::Write { meth: MethRepr::default(), tseth: Some(TS_DATA), reth, imm: None };
    data(a_to_b(), 0x1234_5678, head, body, b"MRC golden #1")
}

fn srv6(srh: Option<Srh>) -> Packet {
    let dst = v6("fc00:1:e011:6501:e012:d00b::");
    let outer = Some(Outer { src: v6("fc00:1:d00a::1"), dst, srh });
    Packet { encap: Encap { outer, ..a_to_b() }, ..write_only_ts() }
}

fn sack(pr: bool, offset: u16, entropy: u32, cack: u32) -> SackRepr {
    SackRepr {
        probe_answer: pr,
        offset_or_probe: offset,
        entropy: Ev(entropy),
        spdcid: QPN_B.low16(),
        dpdcid: QPN_A.low16(),
        cack: Psn::new(cack),
        ..SackRepr::default()
    }
}

/// What each golden packet is made of.
fn packet(name: &str) -> Packet {
    match name {
        "write_only_ts" | "trimmed_write_only_ts" => write_only_ts(),
        "srv6_write_only_ts" => srv6(None),
        "srv6_srh_write_only_ts" => {
            let segment = v6("fc00:1:e011:6501:e012:d00b::");
            srv6(Some(Srh { segments_left: 0, segment }))
        }
        "write_last_imm_rtx" => {
            let head = BthRepr { ack_req: true, rtx: true, ..bth(Opcode::WriteLastImm, QPN_B, 0xFF_FFFF) };
            let meth = MethRepr { rqmsn: Msn(3), msn: Msn(9) };
            let reth = RethRepr { va: 0x7F00_1122_4344, rkey: Rkey(0xCAFE_0001), dmalen: 4096 + 8 };
            let body = Body::Write { meth, tseth: None, reth, imm: Some(0xA5A5_F00D) };
            let payload: Vec<u8> = (0x20..0x28).collect();
            Packet { dscp: 8, ..data(a_to_b(), 0x0000_C001, head, body, &payload) }
        }
        "ipv4_write_only_imm_empty" => {
            let (src, dst) = (Ip::V4([192, 0, 2, 10]), Ip::V4([192, 0, 2, 11]));
            let head = BthRepr { ack_req: true, ts: true, se: true, ..bth(Opcode::WriteOnlyImm, QPN_B, 0x101) };
            let meth = MethRepr { rqmsn: Msn(0), msn: Msn(1) };
            let body =
                Body::Write { meth, tseth: Some(TsethRepr::ns128(0x1240)), reth: RethRepr::default(), imm: Some(7) };
            data(Encap { src, dst, ..a_to_b() }, 0x5678, head, body, &[])
        }
        "sack_ecn" => {
            let body = SackRepr {
                verdict: Verdict::SkipOnce,
                mpr: 8,
                sack_offset: 1,
                bitmap: 0b10110,
                timestamp: 0x1234,
                ooo_count: 3,
                rcvd_bytes: (4u32 * 4184).div_ceil(256),
                ..sack(false, 5, 0x1234_5678, 0x100)
            };
            control(0x0003_A001, bth(Opcode::Sack, QPN_A, 0x100), Body::Sack(body))
        }
        "sack_probe_answer" => {
            let body = SackRepr {
                sack_offset: -7,
                bitmap: 0xFF,
                timestamp: 0xFFF0,
                restore_cwnd: true,
                rcv_cwnd_pen: 64,
                rcvd_bytes: 0xAB_CDEF,
                ..sack(true, 0xBEEF, 0x0007_0042, 2)
            };
            control(0x0003_0001, bth(Opcode::Sack, QPN_A, 2), Body::Sack(body))
        }
        "nack_trimmed" => {
            let body = NackRepr {
                reason: NackReason::Trimmed,
                vendor_info: 0,
                entropy: Ev(0x1234_5678),
                spdcid: QPN_B.low16(),
                dpdcid: QPN_A.low16(),
                psn: Psn::new(0x100),
                cc_type: NackRepr::CC_TYPE,
                timestamp: 0x1234,
            };
            control(0x0003_A002, bth(Opcode::Nack, QPN_A, 0x100), Body::Nack(body))
        }
        "transport_ack" => {
            let body = AethRepr { syndrome: Syndrome::ACK, msn: 1 };
            control(0x0003_A003, bth(Opcode::Ack, QPN_A, 0x100), Body::Ack(body))
        }
        "reliability_probe" => {
            let body = ProbeRepr {
                probe_id: 0xBEEF,
                vendor_info: 0,
                spdcid: QPN_A.low16(),
                dpdcid: QPN_B.low16(),
                tseth: TsethRepr::ns128(0xFFF0),
            };
            data(a_to_b(), 0x0007_0042, bth(Opcode::Probe, QPN_B, 0), Body::Probe(body), &[])
        }
        "ev_probe_request" => {
            let head = bth(Opcode::EndpointRequest, Qpn::ENDPOINT, 0xCDEF);
            let body = Body::EndpointRequest(EndpointRequestRepr {
                op: EndpointOp::EvProbe,
                vendor_info: 0,
                port_status_mask: 0,
                tseth: TsethRepr::ns128(0x0102),
            });
            Packet { dscp: 0, ..data(a_to_b(), 0x0007_0042, head, body, &[]) }
        }
        "ev_probe_response" => {
            let head = bth(Opcode::EndpointResponse, Qpn::ENDPOINT, 0xCDEF);
            let body = EndpointResponseRepr { op: EndpointOp::EvProbe, timestamp: 0x0102 };
            control(0x0003_A004, head, Body::EndpointResponse(body))
        }
        "port_status_update" => {
            let head = bth(Opcode::EndpointRequest, Qpn::ENDPOINT, 1);
            let body = Body::EndpointRequest(EndpointRequestRepr {
                op: EndpointOp::PortStatusUpdate,
                vendor_info: 0,
                port_status_mask: 0x1DE,
                tseth: TsethRepr::ns128(0x0103),
            });
            Packet { encap: a_to_b(), ..control(0x0007_0043, head, body) }
        }
        other => panic!("golden.json has a packet this test does not know: {other}"),
    }
}

/// Bytes from Ethernet to the IP header that carries UDP.
fn l3_offset(encap: &Encap) -> usize {
    match encap.outer {
        None => 14,
        Some(Outer { srh: None, .. }) => 54,
        Some(_) => 78,
    }
}

//= STACK-001, STACK-002, BTH-001, BTH-007, IMM-001, SETH-001, EVW-003, EVW-004 test
//= AETH-001, PETH-001, ERTH-003, IP4-003, TRIM-004 test
#[test]
fn every_packet_is_read_field_by_field() {
    let cfg = WireConfig::default();
    let doc = golden();
    for (name, _) in doc["packets"].as_object().unwrap() {
        let bytes = golden_frame(name);
        let want = packet(name);
        let frame = parse(&bytes, &cfg).unwrap_or_else(|e| panic!("{name}: {e}"));
        let trimmed = name.starts_with("trimmed");
        let body =
            if trimmed { Body::Trimmed { kind: Trim::Trimmed, timestamp: 0x1234, tsr: false } } else { want.body };
        assert_eq!(frame.body, body, "{name}");
        assert_eq!(frame.bth, want.bth, "{name}");
        assert_eq!(frame.entropy, want.ev, "{name}");
        assert_eq!(frame.dscp, if trimmed { 12 } else { want.dscp }, "{name}");
        assert!(!frame.ce, "{name}");
        assert_eq!((frame.src, frame.dst), (want.encap.src, want.encap.dst), "{name}");
        assert_eq!(frame.outer_dst, want.encap.outer.map(|o| o.dst), "{name}");
        assert_eq!(frame.l3_offset, l3_offset(&want.encap), "{name}");
        assert_eq!(icrc::start(&bytes), Some(frame.l3_offset), "{name}");
        if trimmed {
            assert!(frame.payload.is_empty());
            assert_eq!(frame.icrc_offset, bytes.len());
        } else {
            assert_eq!(bytes[frame.payload.clone()], want.payload, "{name}");
            assert_eq!(frame.icrc_offset, bytes.len() - icrc::LEN, "{name}");
            assert!(icrc::verify(&bytes, frame.l3_offset, frame.icrc_offset), "{name}");
        }
    }
}

//= STACK-001, STACK-002, GEN-001, IP6-001, IP6-005, IP6-006, IP4-001, UDP-001, UDP-003, EVW-001 test
//= SRV6-001, SRV6-002, SRV6-003, SRV6-004, SRH-001, SRH-002, ICRC-002, ICRC-008, LEN-004, ETH-001 test
#[test]
fn every_packet_is_written_byte_for_byte() {
    let cfg = WireConfig::default();
    let doc = golden();
    for (name, _) in doc["packets"].as_object().unwrap() {
        let want = golden_frame(name);
        let mut bytes = packet(name).emit(&cfg);
        if name.starts_with("trimmed") {
            // What the switch does: cut behind TSETH and set the code point.
            bytes.truncate(14 + 40 + 8 + 12 + 4 + 4);
            (bytes[14], bytes[15]) = (0x63, 0x20);
        }
        assert_eq!(bytes, want, "{name}");
    }
}

/// `emit` and the single headers, as the engine calls them, against `emit_packet`.
#[test]
fn the_engine_writes_the_same_bytes_in_pieces() {
    let cfg = WireConfig::default();
    let doc = golden();
    for (name, _) in doc["packets"].as_object().unwrap().iter().filter(|(n, _)| !n.starts_with("trimmed")) {
        let want = golden_frame(name);
        let p = packet(name);
        let template = FrameTemplate::new(&p.encap, &cfg);
        let mut out = vec![0xEE; want.len()];
        let at = template.header_len();
        let udp_payload = want.len() - at;
        assert_eq!(template.emit(&mut out, p.ev, p.dscp, p.ecn, udp_payload, None), Some(at));
        assert_eq!(template.l3_offset(), l3_offset(&p.encap));
        p.bth.emit(out[at..].first_chunk_mut().unwrap());
        let ext = p.body.emit(&mut out[at + BthRepr::LEN..]).unwrap();
        let headers = at + BthRepr::LEN + ext;
        let mut sum = Icrc::over_headers(&out[template.l3_offset()..headers]).unwrap();
        let copied = icrc::copy_and_update(&mut sum, &mut out[headers..], &p.payload);
        let pad = &mut out[headers + copied..want.len() - icrc::LEN];
        pad.fill(0);
        sum.update(pad);
        let trailer = want.len() - icrc::LEN;
        out[trailer..].copy_from_slice(&sum.finish());
        assert_eq!(out, want, "{name}");
    }
}

//= STACK-003 test
#[test]
fn fixed_packets_have_their_udp_lengths() {
    let cfg = WireConfig::default();
    let lengths = [
        ("sack_ecn", 60),
        ("nack_trimmed", 44),
        ("transport_ack", 28),
        ("reliability_probe", 40),
        ("ev_probe_request", 40),
        ("ev_probe_response", 60),
    ];
    for (name, len) in lengths {
        let frame = parse(&golden_frame(name), &cfg).unwrap();
        let emitted = 8 + BthRepr::LEN + frame.body.header_len() + icrc::LEN;
        assert_eq!((usize::from(frame.udp_len), emitted), (len, len), "{name}");
    }
}

//= EXP-001, EXP-002, EXP-003, FMT-002 test
#[test]
fn entropy_values_expand_as_published() {
    let doc = golden();
    for (name, case) in doc["ev_expansion"].as_object().unwrap() {
        let mut bits = [0; 32];
        let given = hex(case["ev"].as_str().unwrap());
        bits[..given.len()].copy_from_slice(&given);
        let number = |v: &serde_json::Value| u32::try_from(v.as_u64().unwrap()).unwrap();
        let fields: Vec<EvField> = case["fields_width_init_mask"]
            .as_array()
            .unwrap()
            .iter()
            .map(|f| {
                let (width, init_val, mask) = (number(&f[0]), number(&f[1]), number(&f[2]));
                EvField { width: width as u8, init_val, min_val: 0, max_val: 0, mask }
            })
            .collect();
        let widths: Vec<u8> = case["fmt_widths"].as_array().unwrap().iter().map(|w| number(w) as u8).collect();
        let mut values = vec![];
        let out = ev::expand_with(&bits, &fields, &widths, |_, v| values.push(v)).unwrap();
        let want = hex(case["expanded"].as_str().unwrap());
        assert_eq!(out[..want.len()], want, "{name}");
        assert!(out[want.len()..].iter().all(|b| *b == 0), "{name}");
        assert_eq!(ev::collapse(&out, &fields, &widths), bits, "{name}: back again");
        let want: Vec<u32> = case["field_values"]
            .as_array()
            .unwrap()
            .iter()
            .map(|v| u32::from_str_radix(&v.as_str().unwrap()[2..], 16).unwrap())
            .collect();
        assert_eq!(values, want, "{name}");
    }
}

//= USID-001, MAP-002, MAP-003 test
#[test]
fn micro_sids_walk_and_templates_fill_as_published() {
    let doc = golden();
    let walk: Vec<[u8; 16]> =
        doc["srv6"]["shift_walk"].as_array().unwrap().iter().map(|a| v6(a.as_str().unwrap())).collect();
    assert_eq!(walk.len(), 5);
    for step in walk.windows(2) {
        assert_eq!(srv6::usid_shift(&step[0]), step[1]);
    }
    let t = &doc["srv6"]["template"];
    let ops: Vec<srv6::CopyOp> = t["copies_evlsb_width_dstoffset"]
        .as_array()
        .unwrap()
        .iter()
        .map(|op| {
            let n = |i: usize| op[i].as_u64().unwrap() as u8;
            srv6::CopyOp { ev_lsb: n(0), width: n(1), dst_msb_offset: n(2) }
        })
        .collect();
    let template = srv6::EvTemplate::new(v6(t["template"].as_str().unwrap()), &ops).unwrap();
    assert_eq!(template.apply(Ev(0x72A)), v6(t["result"].as_str().unwrap()));
}

//= GEN-003, SETH-008 test
#[test]
fn psn_distances_and_sack_bitmaps_read_as_published() {
    let doc = golden();
    let number = |v: &serde_json::Value| u64::from_str_radix(&v.as_str().unwrap()[2..], 16).unwrap();
    let psn = |v: &serde_json::Value| Psn::new(number(v) as u32);
    for row in doc["psn"]["diff"].as_array().unwrap() {
        assert_eq!(i64::from(psn(&row[0]).diff(psn(&row[1]))), row[2].as_i64().unwrap());
    }
    for case in doc["psn"]["sack_received"].as_array().unwrap() {
        let sack = SackRepr {
            cack: psn(&case["cack"]),
            sack_offset: case["off"].as_i64().unwrap() as i16,
            bitmap: number(&case["bitmap"]),
            ..SackRepr::default()
        };
        assert!(sack.received().eq(case["psns"].as_array().unwrap().iter().map(psn)));
    }
}
