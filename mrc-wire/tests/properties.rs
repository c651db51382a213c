//! Properties: what is written reads back, no bytes panic, the ICRC sees every covered bit, and another parser agrees.

mod support;

use mrc_wire::*;
use proptest::prelude::*;
use support::*;

fn psn() -> impl Strategy<Value = Psn> {
    any::<u32>().prop_map(Psn::new)
}

fn qpn() -> impl Strategy<Value = Qpn> {
    any::<u32>().prop_map(Qpn::new)
}

fn tseth() -> impl Strategy<Value = TsethRepr> {
    (any::<u16>(), any::<bool>(), 0u8..16).prop_map(|(timestamp, tsr, ftype)| TsethRepr { timestamp, tsr, ftype })
}

prop_compose! {
    fn bth(opcode: Opcode)(
        qp in qpn(), psn in psn(), se: bool, pkey: u16, ack_req: bool, rtx: bool,
    ) -> BthRepr {
        BthRepr { se, pkey, ack_req, rtx, ..BthRepr::new(opcode, qp, psn) }
    }
}

prop_compose! {
    fn sack()(
        verdict in prop_oneof![Just(Verdict::None), Just(Verdict::SkipOnce), Just(Verdict::AlwaysSkip)],
        (probe_answer, offset_or_probe, entropy, spdcid, dpdcid) in any::<(bool, u16, u32, u16, u16)>(),
        cack in psn(), cc_type in 0u8..16,
        (mpr, sack_offset, bitmap, timestamp) in any::<(u8, i16, u64, u16)>(),
        ooo_count in 0u16..0x8000, restore_cwnd: bool, rcv_cwnd_pen in 0u8..128, rcvd_bytes in 0u32..1 << 24,
    ) -> SackRepr {
        SackRepr {
            verdict, probe_answer, offset_or_probe, entropy: Ev(entropy), spdcid, dpdcid, cack, cc_type, mpr,
            sack_offset, bitmap, timestamp, ooo_count, restore_cwnd, rcv_cwnd_pen, rcvd_bytes,
        }
    }
}

prop_compose! {
    fn nack()(
        (reason, vendor_info, entropy, spdcid, dpdcid) in any::<(u8, u8, u32, u16, u16)>(),
        psn in psn(), cc_type in 0u8..16, timestamp: u16,
    ) -> NackRepr {
        let (reason, entropy) = (NackReason::from_u8(reason), Ev(entropy));
        NackRepr { reason, vendor_info, entropy, spdcid, dpdcid, psn, cc_type, timestamp }
    }
}

fn op() -> impl Strategy<Value = EndpointOp> {
    prop_oneof![Just(EndpointOp::EvProbe), Just(EndpointOp::PortStatusUpdate)]
}

/// A write body that fits `opcode`.
fn write_body(opcode: Opcode) -> impl Strategy<Value = Body> {
    let imm = if opcode.has_imm() { any::<u32>().prop_map(Some).boxed() } else { Just(None).boxed() };
    (any::<[u16; 2]>(), proptest::option::of(tseth()), any::<(u64, u32, u32)>(), imm).prop_map(
        |([rqmsn, msn], tseth, (va, rkey, dmalen), imm)| Body::Write {
            meth: MethRepr { rqmsn: Msn(rqmsn), msn: Msn(msn) },
            tseth,
            reth: RethRepr { va, rkey: Rkey(rkey), dmalen },
            imm,
        },
    )
}

fn body(opcode: Opcode) -> BoxedStrategy<Body> {
    match opcode {
        Opcode::Ack => (any::<u8>(), 0u32..1 << 24)
            .prop_map(|(s, msn)| Body::Ack(AethRepr { syndrome: Syndrome::from_u8(s), msn }))
            .boxed(),
        Opcode::Sack => sack().prop_map(Body::Sack).boxed(),
        Opcode::Nack => nack().prop_map(Body::Nack).boxed(),
        Opcode::Probe => (any::<(u16, u8, u16, u16)>(), tseth())
            .prop_map(|((probe_id, vendor_info, spdcid, dpdcid), tseth)| {
                Body::Probe(ProbeRepr { probe_id, vendor_info, spdcid, dpdcid, tseth })
            })
            .boxed(),
        Opcode::EndpointRequest => (op(), any::<(u8, u32)>(), tseth())
            .prop_map(|(op, (vendor_info, port_status_mask), tseth)| {
                Body::EndpointRequest(EndpointRequestRepr { op, vendor_info, port_status_mask, tseth })
            })
            .boxed(),
        Opcode::EndpointResponse => (op(), any::<u16>())
            .prop_map(|(op, timestamp)| Body::EndpointResponse(EndpointResponseRepr { op, timestamp }))
            .boxed(),
        write => write_body(write).boxed(),
    }
}

fn encap() -> impl Strategy<Value = Encap> {
    let v6 = any::<([u8; 16], [u8; 16])>().prop_map(|(s, d)| (Ip::V6(s), Ip::V6(d)));
    let v4 = any::<([u8; 4], [u8; 4])>().prop_map(|(s, d)| (Ip::V4(s), Ip::V4(d)));
    let srh = any::<[u8; 16]>().prop_map(|segment| Srh { segments_left: 0, segment });
    let outer = (any::<([u8; 16], [u8; 16])>(), proptest::option::of(srh)).prop_map(|((src, dst), srh)| Outer {
        src,
        dst,
        srh,
    });
    (prop_oneof![3 => v6, 1 => v4], proptest::option::of(outer), any::<([u8; 6], [u8; 6], u8, u8)>()).prop_map(
        |((src, dst), outer, (eth_src, eth_dst, hop_limit, outer_hop_limit))| Encap {
            eth_src,
            eth_dst,
            outer: outer.filter(|_| dst.is_v6()),
            src,
            dst,
            hop_limit,
            outer_hop_limit,
        },
    )
}

/// Any packet the crate can write, but for the trimmed code points.
fn packet() -> impl Strategy<Value = Packet> {
    let payload = proptest::collection::vec(any::<u8>(), 0..300);
    proptest::sample::select(&Opcode::ALL)
        .prop_flat_map(move |opcode| {
            let dscp = (0u8..64).prop_filter("trimmed", |d| WireConfig::default().dscp.trim(*d).is_none());
            (bth(opcode), body(opcode), payload.clone(), encap(), any::<(u32, u8)>(), dscp)
        })
        .prop_map(|(bth, body, payload, encap, (ev, ecn), dscp)| {
            let write = bth.opcode.is_write();
            let payload = if write { payload } else { vec![] };
            let ts = matches!(body, Body::Write { tseth: Some(_), .. });
            let bth = BthRepr { pad: pad_len(payload.len()), ts, ..bth };
            Packet { encap, outer_dst: None, ev: Ev(ev), dscp, ecn: Ecn::from_bits(ecn), bth, body, payload }
        })
}

/// Whether flipping bit `bit` of byte `i` after the IP header that carries UDP may go unseen.
fn is_masked(v6: bool, i: usize, bit: u8) -> bool {
    let udp = if v6 { 40 } else { 20 };
    match i {
        0 => v6 && bit < 4,
        1..=3 | 7 if v6 => true,
        1 | 8 | 10 | 11 if !v6 => true,
        _ => i == udp + 6 || i == udp + 7 || i == udp + 8 + 4,
    }
}

/// What has the head `expected` as a plain packet is what [`PacketView::parse`] takes, and reads alike; whether it has.
fn plain_is_right(bytes: &[u8], wire_len: usize, expected: &HeadImage, cfg: &WireConfig) -> bool {
    let Some(frame) = PlainFrame::find(bytes) else { return false };
    repeat_is_right(&frame, bytes, wire_len, expected, cfg);
    let Some(plain) = frame.packet(wire_len, cfg).filter(|plain| expected.fits(plain)) else { return false };
    let Some((extension, payload)) = Extension::plain(&plain, frame.rest()) else { return false };
    let packet = PacketView::parse(bytes, wire_len, cfg, |_| true).expect("read at all");
    assert_eq!((frame.dest_qp(), Ip::V6(frame.outermost_dst())), (packet.dest_qp(), packet.outermost_dst()));
    assert_eq!(plain, *packet);
    assert_eq!((plain.outer_dst(), plain.ce()), (packet.outer_dst(), packet.ce()));
    assert_eq!(extension, *packet.extension());
    if let Extension::Write(write) = extension {
        assert_eq!((payload, write.imm()), (packet.payload(), None));
    }
    true
}

/// Key and length of the message that a write is of.
fn message_of(bytes: &[u8], cfg: &WireConfig) -> Option<(Rkey, u32)> {
    let packet = PacketView::parse(bytes, bytes.len(), cfg, |_| true).ok()?;
    let Extension::Write(write) = packet.extension() else { return None };
    let RethRepr { rkey, dmalen, .. } = write.reth();
    Some((rkey, dmalen))
}

/// The same of a frame that is like the last write; whether it is.
fn repeat_is_right(
    frame: &PlainFrame<'_>,
    bytes: &[u8],
    wire_len: usize,
    expected: &HeadImage,
    cfg: &WireConfig,
) -> bool {
    let Some((plain, write, shape)) = expected.repeats(frame, wire_len) else { return false };
    let packet = PacketView::parse(bytes, wire_len, cfg, |_| true).expect("read at all");
    assert_eq!((plain, Extension::Write(write)), (*packet, *packet.extension()));
    assert_eq!(shape, WriteShape::of(&packet, &packet.payload()));
    assert_eq!((shape.payload(), shape.payload_len() as usize), (packet.payload(), packet.payload().len()));
    assert!(!packet.ce() && write.imm().is_none());
    true
}

/// Whether the crate reads it with every field at a known place.
fn is_plain(p: &Packet) -> bool {
    let plain = matches!(
        p.bth.opcode,
        Opcode::WriteFirst | Opcode::WriteMiddle | Opcode::WriteLast | Opcode::WriteOnly | Opcode::Sack | Opcode::Ack
    );
    plain && p.encap.src.is_v6() && p.encap.outer.is_none_or(|outer| outer.srh.is_none())
}

/// A shape holds lengths of 16 bits: no write whose frame is longer is expected again, the longest one below is.
//= VAL-001 test
#[test]
fn a_write_longer_than_a_shape_can_tell_is_read_in_full() {
    let cfg = WireConfig::default();
    let plain = Encap::plain([2; 6], [4; 6], Ip::V6([1; 16]), Ip::V6([3; 16]));
    let outer = Some(Outer { src: [9; 16], dst: [5; 16], srh: None });
    let template = FrameTemplate::new(&Encap { outer, ..plain }, &cfg);
    let meta = EmitMeta { ev: Ev(0), dscp: cfg.dscp.no_trim, ecn: Ecn::Ect0, outer_dst: None };
    let reth = RethRepr { va: 0, rkey: Rkey(7), dmalen: 60_000 };
    let body = Body::Write { meth: MethRepr { rqmsn: Msn(0), msn: Msn(0) }, tseth: None, reth, imm: None };
    let bth = BthRepr::new(Opcode::WriteMiddle, Qpn::new(9), Psn::new(1));
    let mut bytes = vec![0; 300];
    template.emit_packet(&mut bytes, &meta, &bth, &body, &[7; 100]).unwrap();
    for (end, expected) in [(65_531_usize, true), (65_532, false), (65_535, false), (65_536, false), (65_585, false)] {
        let udp_len = (end - (54 + 40 - 4)) as u16;
        bytes[58..60].copy_from_slice(&udp_len.to_be_bytes());
        bytes[98..100].copy_from_slice(&udp_len.to_be_bytes());
        bytes[18..20].copy_from_slice(&(udp_len + 40).to_be_bytes());
        let wire_len = end + 4;
        let packet = PacketView::parse(&bytes, wire_len, &cfg, |_| true).unwrap();
        let Extension::Write(write) = packet.extension() else { panic!("{packet:?}") };
        let mut image = HeadImage::of(&packet);
        image.expect(&packet, write, WriteShape::of(&packet, &packet.payload()));
        let frame = PlainFrame::find(&bytes).unwrap();
        assert_eq!(repeat_is_right(&frame, &bytes, wire_len, &image, &cfg), expected, "ICRC at {end}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// What a template was built from makes it again.
    #[test]
    fn a_template_tells_its_layers(encap in encap(), swap: bool) {
        let cfg = WireConfig { ev_high_half_in_sport: swap, ..WireConfig::default() };
        let template = FrameTemplate::new(&encap, &cfg);
        prop_assert_eq!(FrameTemplate::new(&template.encap(), &cfg), template);
        if encap.check().is_ok() && encap.outer.is_some() {
            prop_assert_eq!(template.encap(), encap);
        }
    }

    /// A prepared EV template survives as words; words that no template has are refused.
    #[test]
    fn an_ev_template_survives_as_words(base: [u8; 16], ops in proptest::collection::vec((0u8..32, 1u8..33, 0u8..128), 0..17)) {
        let ops: Vec<CopyOp> = ops.iter().map(|&(ev_lsb, width, dst_msb_offset)| CopyOp { ev_lsb, width, dst_msb_offset }).collect();
        if let Ok(template) = EvTemplate::new(base, &ops) {
            let mut words = template.to_words();
            prop_assert_eq!(EvTemplate::from_words(&words), Some(template));
            for (word, wrong, what) in [(6, 32, "the EV moves out of itself"), (7, 256, "no distance"), (8, 17, "too many steps")] {
                let kept = std::mem::replace(&mut words[word], wrong);
                prop_assert_eq!(EvTemplate::from_words(&words), None, "{}", what);
                words[word] = kept;
            }
        }
    }

    //= VAL-002, VAL-004, VAL-005, VAL-006, VAL-007, VAL-009, UDP-002, UDP-003, UDP-004, HOST-001, IP6-004, EVW-004 test
    #[test]
    fn plain_packets_read_as_all_do(
        p in packet(),
        hits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut: prop::sample::Index,
        swap: bool,
    ) {
        let cfg = WireConfig { ev_high_half_in_sport: swap, ..WireConfig::default() };
        let mut bytes = p.emit(&cfg);
        let frame = PlainFrame::find(&bytes);
        let plain = frame.and_then(|frame| frame.packet(bytes.len(), &cfg));
        let mut expected = plain.map_or(HeadImage::NONE, |plain| HeadImage::of(&plain));
        prop_assert!(!frame.is_some_and(|frame| repeat_is_right(&frame, &bytes, bytes.len(), &expected, &cfg)));
        if let (Some(frame), Ok(packet)) = (frame, PacketView::parse(&bytes, bytes.len(), &cfg, |_| true))
            && let Extension::Write(write) = packet.extension()
        {
            expected.expect(&packet, write, WriteShape::of(&packet, &packet.payload()));
            let repeats = repeat_is_right(&frame, &bytes, bytes.len(), &expected, &cfg);
            prop_assert_eq!(repeats, is_plain(&p) && !packet.ce());
        }
        if p.bth.opcode.is_write() && let Ok(write) = PacketView::parse(&bytes, bytes.len(), &cfg, |_| true) {
            let (first, last) = (p.bth.opcode.is_first(), p.bth.opcode.ends_message());
            prop_assert_eq!((write.begins_message(), write.ends_message()), (first, last));
        }
        let taken = plain_is_right(&bytes, bytes.len(), &expected, &cfg);
        prop_assert_eq!(taken, is_plain(&p));
        // Every bit of the headers that differs, every traffic class of both, and every opcode. What repeats a write is of the same message.
        let message = message_of(&bytes, &cfg);
        for bit in 0..8 * bytes.len().min(170) {
            bytes[bit / 8] ^= 1 << (bit % 8);
            plain_is_right(&bytes, bytes.len(), &expected, &cfg);
            if PlainFrame::find(&bytes).is_some_and(|frame| expected.repeats(&frame, bytes.len()).is_some()) {
                prop_assert_eq!(message_of(&bytes, &cfg), message, "bit {}", bit);
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        for at in [62, 102] {
            let Some(opcode) = bytes.get(at).copied() else { continue };
            for other in 0..=255u8 {
                bytes[at] = other;
                plain_is_right(&bytes, bytes.len(), &expected, &cfg);
            }
            bytes[at] = opcode;
        }
        for at in [14, 54] {
            let [version, label] = [bytes[at], bytes[at + 1]];
            for class in 0..=255u8 {
                (bytes[at], bytes[at + 1]) = (version & 0xF0 | class >> 4, label & 0x0F | class << 4);
                plain_is_right(&bytes, bytes.len(), &expected, &cfg);
            }
            (bytes[at], bytes[at + 1]) = (version, label);
        }
        for (at, value) in hits {
            // Most of the damage to the headers.
            let at = at.index(bytes.len().min(170));
            bytes[at] = value;
            plain_is_right(&bytes, bytes.len(), &expected, &cfg);
        }
        let cut = cut.index(bytes.len() + 1);
        plain_is_right(&bytes[..cut], cut, &expected, &cfg);
        plain_is_right(&bytes[..cut], bytes.len(), &expected, &cfg);
        plain_is_right(&bytes, cut, &expected, &cfg);
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    //= GEN-001, OPC-001, SETH-001, NETH-001, PETH-001, ERTH-001, EETH-001 test
    #[test]
    fn what_is_written_reads_back(p in packet(), swap: bool, se_bit in 6u8..8) {
        let cfg = WireConfig { ev_high_half_in_sport: swap, bth_se_bit: se_bit, ..WireConfig::default() };
        let bytes = p.emit(&cfg);
        let f = parse(&bytes, &cfg).unwrap();
        prop_assert_eq!(f.body, p.body);
        prop_assert_eq!(f.bth, p.bth);
        prop_assert_eq!(&bytes[f.payload.clone()], &p.payload[..]);
        prop_assert_eq!((f.src, f.dst), (p.encap.src, p.encap.dst));
        prop_assert_eq!(f.outer_dst, p.encap.outer.map(|o| o.dst));
        prop_assert_eq!((f.dscp, f.ce), (p.dscp, p.ecn == Ecn::Ce));
        let ev = if f.src.is_v6() { p.ev } else { Ev(p.ev.0 & 0xFFFF) };
        prop_assert_eq!(f.entropy, ev);
        prop_assert_eq!(f.icrc_offset + icrc::LEN, bytes.len());
        prop_assert_eq!(icrc::start(&bytes), Some(f.l3_offset));
        prop_assert!(icrc::verify(&bytes, f.l3_offset, f.icrc_offset));
        // And the line about it can be printed.
        let text = (f.to_string(), format!("{f:#}"));
        prop_assert!(!text.0.contains('\n') && text.1.lines().count() > 15);
    }

    //= ICRC-004, ICRC-005, ICRC-006, ICRC-007, ICRC-008 test
    #[test]
    fn the_icrc_sees_every_covered_bit_and_no_other(p in packet(), at: prop::sample::Index, bit in 0u8..8) {
        let cfg = WireConfig::default();
        let mut bytes = p.emit(&cfg);
        let f = parse(&bytes, &cfg).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let seen = match at.checked_sub(f.l3_offset) {
            None => false,
            Some(i) => !is_masked(f.src.is_v6(), i, bit),
        };
        prop_assert_eq!(icrc::verify(&bytes, f.l3_offset, f.icrc_offset), !seen, "byte {}, bit {}", at, bit);
    }

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300), wire_len: usize) {
        let cfg = WireConfig::default();
        let _ = parse_frame(&bytes, wire_len, &cfg, |_| true);
        let _ = parse(&bytes, &cfg);
    }

    #[test]
    fn damaged_frames_are_survived(
        p in packet(),
        hits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        len: prop::sample::Index,
        wire_len in 0usize..500,
    ) {
        let cfg = WireConfig::default();
        let mut bytes = p.emit(&cfg);
        for (at, value) in hits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let cut = len.index(bytes.len() + 1);
        for wire_len in [cut, bytes.len(), wire_len] {
            if let Ok(f) = parse_frame(&bytes[..cut], wire_len, &cfg, |_| true) {
                let _ = (f.to_string(), format!("{f:#}"), f.timestamp());
                prop_assert!(f.payload.start <= f.payload.end && f.payload.end <= f.icrc_offset);
                prop_assert!(f.icrc_offset <= wire_len.max(cut));
                let _ = icrc::verify(&bytes[..cut], f.l3_offset, f.icrc_offset);
            }
        }
    }

    #[test]
    fn headers_read_any_bytes_and_write_back_what_they_read(b: [u8; 36]) {
        macro_rules! round {
            ($t:ty) => {{
                let h = <$t>::parse(b.first_chunk().unwrap());
                let mut out = [0xEE; <$t>::LEN];
                h.emit(&mut out);
                prop_assert_eq!(<$t>::parse(&out), h);
            }};
        }
        macro_rules! round_fallible {
            ($t:ty) => {{
                if let Ok(h) = <$t>::parse(b.first_chunk().unwrap()) {
                    let mut out = [0xEE; <$t>::LEN];
                    h.emit(&mut out);
                    prop_assert_eq!(<$t>::parse(&out), Ok(h));
                }
            }};
        }
        round!(MethRepr);
        round!(TsethRepr);
        round!(RethRepr);
        round!(AethRepr);
        round!(SackRepr);
        round!(NackRepr);
        round!(ProbeRepr);
        round_fallible!(BthRepr);
        round_fallible!(EndpointRequestRepr);
        round_fallible!(EndpointResponseRepr);
    }

    //= STACK-002, IP4-001, IP6-001, UDP-003 test
    #[test]
    fn another_parser_sees_the_same_layers(p in packet()) {
        use etherparse::{NetSlice, SlicedPacket, TransportSlice};
        let cfg = WireConfig::default();
        let bytes = p.emit(&cfg);
        let f = parse(&bytes, &cfg).unwrap();
        // From the inner header on; what lies before it is checked below.
        let sliced = if p.encap.outer.is_some() {
            SlicedPacket::from_ip(&bytes[f.l3_offset..]).unwrap()
        } else {
            SlicedPacket::from_ethernet(&bytes).unwrap()
        };
        let (src, dst, class): (std::net::IpAddr, std::net::IpAddr, u8) = match sliced.net.unwrap() {
            NetSlice::Ipv4(ip) => {
                let h = ip.header();
                prop_assert_eq!(h.header_checksum(), h.to_header().calc_header_checksum());
                prop_assert!(h.dont_fragment() && !ip.is_payload_fragmented());
                prop_assert_eq!(h.ttl(), p.encap.hop_limit);
                let class = h.dcp().value() << 2 | h.ecn().value();
                (h.source_addr().into(), h.destination_addr().into(), class)
            }
            NetSlice::Ipv6(ip) => {
                let h = ip.header();
                prop_assert_eq!(h.flow_label().value(), p.ev.0 >> 16);
                prop_assert_eq!(h.hop_limit(), p.encap.hop_limit);
                (h.source_addr().into(), h.destination_addr().into(), h.traffic_class())
            }
            NetSlice::Arp(_) => unreachable!("no ARP is written"),
        };
        prop_assert_eq!((Ip::from(src), Ip::from(dst)), (p.encap.src, p.encap.dst));
        prop_assert_eq!(class, p.dscp << 2 | p.ecn.bits());
        let Some(TransportSlice::Udp(udp)) = sliced.transport else { panic!("not UDP") };
        prop_assert_eq!(udp.source_port(), p.ev.low());
        prop_assert_eq!(udp.destination_port(), 4791);
        prop_assert_eq!((udp.length(), udp.checksum()), (f.udp_len, 0));
        prop_assert_eq!(udp.payload().len(), usize::from(f.udp_len) - 8);
        if let Some(outer) = p.encap.outer {
            let whole = etherparse::LaxSlicedPacket::from_ethernet(&bytes).unwrap();
            let Some(etherparse::LaxNetSlice::Ipv6(ip)) = whole.net else { panic!("not IPv6") };
            prop_assert_eq!(ip.header().destination(), outer.dst);
            prop_assert_eq!(ip.header().source(), outer.src);
            prop_assert_eq!(usize::from(ip.header().payload_length()), bytes.len() - 54);
            let routing = ip.extensions().clone().into_iter().count();
            prop_assert_eq!(routing, usize::from(outer.srh.is_some()));
        }
    }
}
