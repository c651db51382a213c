//! Templates: SRv6 variants, limits and room.

mod support;

use mrc_wire::*;
use support::*;

fn srv6(srh: Option<Srh>) -> Encap {
    Encap { outer: Some(Outer { src: [1; 16], dst: [2; 16], srh }), ..a_to_b() }
}

fn headers(encap: &Encap, udp_payload: usize, dst: Option<&[u8; 16]>) -> Option<Vec<u8>> {
    let t = FrameTemplate::new(encap, &WireConfig::default());
    let mut out = vec![0xEE; t.header_len()];
    let n = t.emit(&mut out, Ev(0x0A0B_0C0D), 4, Ecn::Ect0, udp_payload, dst)?;
    assert_eq!(n, out.len());
    Some(out)
}

const SRH_AT: usize = 14 + 40;

//= SRV6-001, SRV6-002, SRV6-003, MAP-002 test
#[test]
fn a_destination_replaces_that_of_the_template() {
    let dst = [7; 16];
    let out = headers(&srv6(None), 16, Some(&dst)).unwrap();
    assert_eq!(out[38..54], dst);
    assert_eq!(out[14..18], out[54..58], "outer and inner agree in class and label");
    assert_eq!(out[18..20], [0, 40 + 8 + 16]);
    assert_eq!(headers(&srv6(None), 16, None).unwrap()[38..54], [2; 16]);
    let plain = headers(&a_to_b(), 16, None);
    assert_eq!(headers(&a_to_b(), 16, Some(&dst)), plain, "without an outer header there is nothing to replace");
}

//= SRH-001, SRH-002, SRH-003 test
#[test]
fn a_path_record_follows_the_destination_and_an_extension_does_not() {
    let dst = [7; 16];
    let record = srv6(Some(Srh { segments_left: 0, segment: [9; 16] }));
    let out = headers(&record, 16, Some(&dst)).unwrap();
    assert_eq!(out[SRH_AT..SRH_AT + 8], [41, 2, 4, 0, 0, 0, 0, 0]);
    assert_eq!(out[SRH_AT + 8..SRH_AT + 24], dst);
    assert_eq!(headers(&record, 16, None).unwrap()[SRH_AT + 8..SRH_AT + 24], [2; 16]);
    let extension = srv6(Some(Srh { segments_left: 1, segment: [9; 16] }));
    let out = headers(&extension, 16, Some(&dst)).unwrap();
    assert_eq!((out[SRH_AT + 3], &out[SRH_AT + 8..SRH_AT + 24]), (1, &[9; 16][..]));
    assert_eq!(out[18..20], [0, 24 + 40 + 8 + 16]);
}

//= SRH-001, SRH-003, MAP-005 test
#[test]
fn a_segment_given_with_the_packet_is_as_good_as_one_of_the_template() {
    let (dst, segment) = ([7; 16], [9; 16]);
    let fixed = srv6(Some(Srh { segments_left: 1, segment }));
    let want = headers(&fixed, 16, Some(&dst)).unwrap();
    for encap in [srv6(None), srv6(Some(Srh { segments_left: 0, segment: [1; 16] }))] {
        let t = FrameTemplate::new(&encap, &WireConfig::default());
        let mut out = [0; 200];
        let (n, l3) = t
            .emit_via(&mut out, Ev(0x0A0B_0C0D), 4, Ecn::Ect0, 16, Some(u128::from_be_bytes(dst)), Some(&segment))
            .unwrap();
        assert_eq!((n, l3), (t.header_len() + t.segment_len(), t.l3_offset() + t.segment_len()));
        assert_eq!(out[..n], want);
        assert_eq!(out[l3] >> 4, 6, "the ICRC starts at the inner header");
        assert_eq!(
            t.emit_via(&mut out[..n - 1], Ev(0), 4, Ecn::Ect0, 16, Some(u128::from_be_bytes(dst)), Some(&segment)),
            None
        );
    }
    let plain = FrameTemplate::new(&a_to_b(), &WireConfig::default());
    let mut out = [0; 200];
    let (n, l3) = plain.emit_via(&mut out, Ev(0x0A0B_0C0D), 4, Ecn::Ect0, 16, None, Some(&segment)).unwrap();
    assert_eq!(
        (n, l3, plain.segment_len()),
        (plain.header_len(), plain.l3_offset(), 0),
        "without an outer header it is ignored"
    );
}

#[test]
fn lengths_that_ip_cannot_say_are_refused() {
    let v4 = Encap { src: Ip::V4([1; 4]), dst: Ip::V4([2; 4]), ..a_to_b() };
    let srh = srv6(Some(Srh { segments_left: 0, segment: [0; 16] }));
    for (encap, most) in [(a_to_b(), 65_535 - 8), (v4, 65_535 - 28), (srv6(None), 65_535 - 48), (srh, 65_535 - 72)] {
        assert!(headers(&encap, most, None).is_some());
        assert!(headers(&encap, most + 1, None).is_none());
        assert!(headers(&encap, usize::MAX, None).is_none());
    }
}

#[test]
fn too_little_room_is_refused() {
    for encap in [a_to_b(), srv6(None), Encap { src: Ip::V4([1; 4]), dst: Ip::V4([2; 4]), ..a_to_b() }] {
        let cfg = WireConfig::default();
        let t = FrameTemplate::new(&encap, &cfg);
        let mut out = [0; 200];
        for len in 0..t.header_len() {
            assert_eq!(t.emit(&mut out[..len], Ev(0), 0, Ecn::Ect0, 16, None), None);
        }
        let bth = BthRepr::new(Opcode::Ack, QPN_A, Psn::new(0));
        let body = Body::Ack(AethRepr { syndrome: Syndrome::ACK, msn: 0 });
        let meta = EmitMeta { ev: Ev(0), dscp: 46, ecn: Ecn::NotEct, outer_dst: None };
        let need = t.header_len() + 12 + 4 + 4;
        for len in 0..need {
            assert_eq!(t.emit_packet(&mut out[..len], &meta, &bth, &body, &[]), None);
        }
        assert_eq!(t.emit_packet(&mut out[..need], &meta, &bth, &body, &[]), Some(need));
    }
}

#[test]
fn impossible_layers_are_named() {
    let v4 = Ip::V4([1; 4]);
    let plain = a_to_b();
    assert_eq!(plain.check(), Ok(()));
    assert_eq!(Encap { src: v4, ..plain }.check(), Err(EncapError::MixedFamilies));
    assert_eq!(Encap { src: v4, dst: v4, ..srv6(None) }.check(), Err(EncapError::OuterOverIpv4));
    let two = srv6(Some(Srh { segments_left: 2, segment: [0; 16] }));
    assert_eq!(two.check(), Err(EncapError::SegmentsLeft(2)));
    // What the documentation promises of an unchecked one.
    let t = FrameTemplate::new(&Encap { src: v4, dst: v4, ..srv6(None) }, &WireConfig::default());
    assert_eq!(t.header_len(), 14 + 20 + 8);
}

//= IP4-001 test
#[test]
fn the_ipv4_checksum_is_right_for_all_sizes_and_classes() {
    let encap = Encap { src: Ip::V4([192, 0, 2, 1]), dst: Ip::V4([255, 255, 255, 254]), ..a_to_b() };
    let t = FrameTemplate::new(&encap, &WireConfig::default());
    let mut out = [0; 42];
    for (dscp, size) in (0..64).flat_map(|d| (16..=4200).step_by(61).map(move |s| (d, s))) {
        t.emit(&mut out, Ev(1), dscp, Ecn::Ect0, size, None).unwrap();
        let sum: u32 = out[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
        assert_eq!((sum & 0xFFFF) + (sum >> 16), 0xFFFF);
    }
}
