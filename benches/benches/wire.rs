//! Packet formats: emit, parse and ICRC of one data packet.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use mrc_wire::{Ecn, Encap, Ev, FrameTemplate, Ip, Outer, PacketView, WireConfig, icrc, parse_frame};

/// BTH, METH, TSETH, RETH of a write-only packet with a timestamp and 4096 bytes to come.
const HEADERS: usize = 12 + 4 + 4 + 16;
const PAYLOAD: usize = 4096;

fn frame(template: &FrameTemplate) -> Vec<u8> {
    let mut out = vec![0u8; template.header_len() + HEADERS + PAYLOAD + icrc::LEN];
    let start = template.emit(&mut out, Ev(5), 4, Ecn::Ect0, HEADERS + PAYLOAD + icrc::LEN, None).expect("room");
    out[start..start + 12].copy_from_slice(&[0xCA, 0, 0xFF, 0xFF, 0, 0, 0, 9, 0x10, 0, 0, 1]);
    let end = out.len() - icrc::LEN;
    let crc = icrc::compute(&out[template.l3_offset()..end]).expect("a packet");
    out[end..].copy_from_slice(&crc);
    out
}

fn wire(c: &mut Criterion) {
    let cfg = WireConfig::default();
    let outer = Some(Outer { src: [1; 16], dst: [2; 16], srh: None });
    let encap = Encap { outer, ..Encap::plain([2; 6], [4; 6], Ip::V6([3; 16]), Ip::V6([4; 16])) };
    let template = FrameTemplate::new(&encap, &cfg);
    let frame = frame(&template);
    let mut out = [0u8; 256];
    c.bench_function("wire: emit below BTH, SRv6", |b| {
        let len = HEADERS + PAYLOAD + icrc::LEN;
        b.iter(|| template.emit(black_box(&mut out), black_box(Ev(7)), 4, Ecn::Ect0, len, Some(black_box(&[5; 16]))));
    });
    c.bench_function("wire: check a write where it lies, SRv6", |b| {
        b.iter(|| PacketView::parse(black_box(&frame), frame.len(), &cfg, |_| true).is_ok());
    });
    c.bench_function("wire: read every field of a write, SRv6", |b| {
        b.iter(|| black_box(parse_frame(black_box(&frame), frame.len(), &cfg, |_| true)).is_ok());
    });
    let (from, end) = (template.l3_offset(), frame.len() - icrc::LEN);
    c.bench_function("wire: ICRC of 4 KiB", |b| b.iter(|| icrc::compute(black_box(&frame[from..end]))));
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(30).measurement_time(std::time::Duration::from_secs(2));
    targets = wire
}
criterion_main!(benches);
