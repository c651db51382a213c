//! Bodies of the fuzz targets. Each takes any bytes and panics when a promise of the crate is broken.
//!
//! `tests/cross/tests/corpus.rs` includes this file and replays the corpora with it, so it uses nothing but the crates under
//! test. A target in `fuzz_targets/` is one line.
#![forbid(unsafe_code)]

use mrc_wire::{
    Body, BthRepr, Ecn, EmitMeta, Encap, Extension, Frame, FrameTemplate, HeadImage, Icrc, Outer, PacketView,
    PlainFrame, Srh, WireConfig, WriteShape, icrc, pad_len, parse_frame,
};

#[path = "conform.rs"]
pub mod conform;
#[path = "engine_rx.rs"]
pub mod engine;
#[path = "expand.rs"]
pub mod expand;
#[path = "ops.rs"]
pub mod ops;
#[path = "pair.rs"]
pub mod pair;
#[path = "update.rs"]
pub mod update;

/// What a function of this file looks like.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[
    ("wire_parse", wire_parse),
    ("icrc", icrc_target),
    ("engine_rx", engine::engine_rx),
    ("qp_pair", pair::qp_pair),
    ("endpoint_ops", ops::endpoint_ops),
    ("live_update", update::live_update),
    ("ev_expand", expand::ev_expand),
    ("conform_parse", conform::conform_parse),
];

/// `data` is a received frame, whole or cut, as it comes off the wire.
pub fn wire_parse(data: &[u8]) {
    let swapped = WireConfig { ev_high_half_in_sport: true, bth_se_bit: 6, ..WireConfig::default() };
    for cfg in [WireConfig::default(), swapped] {
        whole(data, &cfg);
        for wire_len in [data.len(), data.len() + 5000, data.len() / 2] {
            short_cuts(data, wire_len, &cfg);
        }
        // The first buffer of a longer frame.
        if let Ok(f) = parse_frame(data, data.len() + 5000, &cfg, |_| true) {
            ranges(&f, data.len() + 5000);
        }
        // Fewer bytes on the wire than the driver shows.
        if let Ok(f) = parse_frame(data, data.len() / 2, &cfg, |_| true) {
            ranges(&f, data.len() / 2);
        }
        assert!(parse_frame(data, data.len(), &cfg, |_| false).is_err(), "a foreign destination was taken");
    }
}

/// What is read by a short cut is read the same way by the long one.
fn short_cuts(data: &[u8], wire_len: usize, cfg: &WireConfig) {
    // What a head that was read in full tells of another one with the same fixed parts.
    let Ok(packet) = PacketView::parse(data, wire_len, cfg, |_| true) else { return };
    let Some(frame) = PlainFrame::find(data) else { return };
    if let Extension::Write(write) = packet.extension() {
        let (mut image, shape) = (HeadImage::of(&packet), WriteShape::of(&packet, &packet.payload()));
        image.expect(&packet, write, shape);
        if let Some((plain, headers, known)) = image.repeats(&frame, wire_len) {
            assert_eq!((plain, headers, known), (*packet, *write, shape));
            assert_eq!(known.payload(), packet.payload());
        }
    }
    let Some(plain) = frame.packet(wire_len, cfg) else { return };
    assert!(HeadImage::of(&packet).fits(&plain));
    assert_eq!(plain, *packet);
    let Some((extension, payload)) = Extension::plain(&plain, frame.rest()) else { return };
    assert_eq!(extension, *packet.extension());
    if let Extension::Write(write) = extension {
        assert_eq!((payload, write.imm()), (packet.payload(), None));
    }
}

fn ranges(f: &Frame, wire_len: usize) {
    assert!(f.l3_offset < f.payload.start && f.payload.start <= f.payload.end);
    assert!(f.payload.end <= f.icrc_offset && f.icrc_offset <= wire_len);
}

fn whole(data: &[u8], cfg: &WireConfig) {
    let Ok(f) = parse_frame(data, data.len(), cfg, |_| true) else { return };
    ranges(&f, data.len());
    assert_eq!(icrc::start(data), Some(f.l3_offset));
    let mut fields = 0;
    f.for_each_field(|_, _| fields += 1);
    assert_eq!(format!("{f:#}").lines().count(), fields);
    assert_eq!(f.to_string().lines().count(), 1);
    if matches!(f.body, Body::Trimmed { .. }) {
        assert!(f.payload.is_empty() && f.icrc_offset == data.len());
        return;
    }
    assert!(f.icrc_offset + icrc::LEN <= data.len());
    let _ = icrc::verify(data, f.l3_offset, f.icrc_offset);
    let headers = data.get(..f.payload.start);
    let again = headers.map(|head| parse_frame(head, data.len(), cfg, |_| true));
    assert_eq!(again, Some(Ok(f.clone())), "the payload was looked at");
    emit_again(data, &f, cfg);
}

/// Writes what was read and reads it once more.
fn emit_again(data: &[u8], f: &Frame, cfg: &WireConfig) {
    let srh = (f.l3_offset > 14 + 40 + 4).then_some(Srh { segments_left: 0, segment: [1; 16] });
    let encap = Encap {
        outer: f.outer_dst.map(|dst| Outer { src: [3; 16], dst, srh }),
        ..Encap::plain([2; 6], [4; 6], f.src, f.dst)
    };
    assert_eq!(encap.check(), Ok(()));
    let payload = data.get(f.payload.clone()).unwrap_or_default();
    let ecn = if f.ce { Ecn::Ce } else { Ecn::Ect0 };
    let meta = EmitMeta { ev: f.entropy, dscp: f.dscp, ecn, outer_dst: f.outer_dst.as_ref() };
    let mut out = vec![0; data.len() + FrameTemplate::HEADER_LEN_MAX + 64];
    let template = FrameTemplate::new(&encap, cfg);
    let Some(len) = template.emit_packet(&mut out, &meta, &f.bth, &f.body, payload) else {
        // Only a packet at the very end of what a length field says can outgrow it, by another outer header.
        assert!(data.len() > 65_000, "a parsed packet could not be written");
        return;
    };
    let g = parse_frame(&out[..len], len, cfg, |_| true).expect("what was written must be readable");
    assert!(icrc::verify(&out[..len], g.l3_offset, g.icrc_offset));
    assert_eq!(g.bth, BthRepr { pad: pad_len(payload.len()), ..f.bth });
    assert_eq!((g.body, &out[g.payload.clone()]), (f.body, payload));
    assert_eq!((g.src, g.dst, g.outer_dst), (f.src, f.dst, f.outer_dst));
    assert_eq!((g.dscp, g.ce, g.entropy), (f.dscp, f.ce, f.entropy));
    assert_eq!(g.timestamp(), f.timestamp());
}

/// `data` is two bytes that choose a cut and a bit, then a packet from its IP header to its last pad byte.
pub fn icrc_target(data: &[u8]) {
    let Some((choice, l3)) = data.split_first_chunk::<2>() else { return };
    let _ = icrc::start(l3);
    let Some(sum) = icrc::compute(l3) else {
        assert!(expected(l3).is_none(), "a packet got no sum");
        return;
    };
    assert_eq!(Some(sum), expected(l3));
    let choice = usize::from(u16::from_be_bytes(*choice));

    // In two parts, the second along a copy.
    let least = header_len(l3);
    let cut = least + choice % (l3.len() - least + 1);
    let (headers, rest) = l3.split_at(cut);
    let mut running = Icrc::over_headers(headers).expect("BTH is there");
    let mut copy = vec![0xEE; rest.len()];
    assert_eq!(icrc::copy_and_update(&mut running, &mut copy, rest), rest.len());
    assert_eq!(copy, rest);
    assert_eq!(running.finish(), sum);

    // One bit: seen when it is covered, unseen when it is masked.
    let mut frame = l3.to_vec();
    frame.extend_from_slice(&sum);
    assert!(icrc::verify(&frame, 0, l3.len()));
    let (at, bit) = (choice / 8 % frame.len(), choice % 8);
    if let Some(byte) = frame.get_mut(at) {
        *byte ^= 1 << bit;
    }
    // A flip in the version or header length moves the fields; then there is nothing to compare.
    let moved = frame.first() != l3.first();
    assert!(moved || icrc::verify(&frame, 0, l3.len()) == is_masked(l3, at), "byte {at}, bit {bit}");
}

/// Bytes through BTH, 0 when that is not IP.
fn header_len(l3: &[u8]) -> usize {
    match l3.first() {
        Some(b) if b >> 4 == 6 => 40 + 20,
        Some(b) if b >> 4 == 4 && b & 15 >= 5 => 4 * usize::from(b & 15) + 20,
        _ => 0,
    }
}

/// Whether byte `at` reads as ones; byte 0 of IPv6 is masked in half and left out here.
fn is_masked(l3: &[u8], at: usize) -> bool {
    let udp = header_len(l3) - 20;
    let ip: &[usize] =
        if udp == 40 && l3.first().is_some_and(|b| b >> 4 == 6) { &[1, 2, 3, 7] } else { &[1, 8, 10, 11] };
    ip.contains(&at) || [udp + 6, udp + 7, udp + 12].contains(&at)
}

/// The ICRC by its definition, bit by bit.
fn expected(l3: &[u8]) -> Option<[u8; 4]> {
    let least = header_len(l3);
    if least == 0 || l3.len() < least {
        return None;
    }
    let mut reg = !0u32;
    let mut feed = |byte: u8| {
        reg ^= u32::from(byte);
        for _ in 0..8 {
            reg = if reg & 1 == 1 { reg >> 1 ^ 0xEDB8_8320 } else { reg >> 1 };
        }
    };
    [0xFF; 8].into_iter().for_each(&mut feed);
    for (at, byte) in l3.iter().enumerate() {
        let half = if at == 0 && byte >> 4 == 6 { 0x0F } else { 0 };
        feed(if is_masked(l3, at) { 0xFF } else { byte | half });
    }
    Some((!reg).to_le_bytes())
}
