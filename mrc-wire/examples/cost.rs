//! What emission, parsing and ICRC cost on this machine: `cargo run --release -p mrc-wire --example cost`.
//!
//! The best of several rounds, in nanoseconds per packet. Nothing is asserted; machines differ.

use mrc_wire::*;
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: u32 = 15;
const CALLS: u32 = 200_000;

/// Best time of one call.
fn best(name: &str, mut call: impl FnMut(u32)) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for i in 0..CALLS {
            call(i);
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(CALLS));
    }
    println!("{name:<44} {best:8.1} ns");
    best
}

fn write(payload: usize, psn: u32) -> (BthRepr, Body) {
    let bth = BthRepr {
        ts: true,
        ack_req: psn.is_multiple_of(16),
        ..BthRepr::new(Opcode::WriteMiddle, Qpn::new(0x01_B0B2), Psn::new(psn))
    };
    let reth = RethRepr { va: u64::from(psn) << 12, rkey: Rkey(7), dmalen: payload as u32 };
    let meth = MethRepr { rqmsn: Msn(0), msn: Msn(3) };
    (bth, Body::Write { meth, tseth: Some(TsethRepr::ns128(9)), reth, imm: None })
}

fn main() {
    let cfg = WireConfig::default();
    let plain = Encap::plain([2; 6], [4; 6], Ip::V6([0xAA; 16]), Ip::V6([0xBB; 16]));
    let v4 = Encap { src: Ip::V4([10, 0, 0, 1]), dst: Ip::V4([10, 0, 0, 2]), ..plain };
    let srv6 = Encap { outer: Some(Outer { src: [1; 16], dst: [2; 16], srh: None }), ..plain };
    let mut out = vec![0u8; 4400];
    let payload = vec![0x5A; 4096];

    for (name, encap) in [("IPv6", plain), ("IPv4", v4), ("SRv6", srv6)] {
        let t = FrameTemplate::new(&encap, &cfg);
        best(&format!("headers of a data packet, {name}"), |i| {
            let (bth, body) = write(4096, i);
            let out = black_box(&mut out[..]);
            let at = t.emit(out, Ev(i), 4, Ecn::Ect0, 40 + 4096, None).unwrap_or(0);
            if let Some((to, rest)) = out.get_mut(at..).and_then(<[u8]>::split_first_chunk_mut) {
                bth.emit(to);
                black_box(body.emit(rest));
            }
        });
        let meta = EmitMeta { ev: Ev(1), dscp: 4, ecn: Ecn::Ect0, outer_dst: None };
        let (bth, body) = write(4096, 1);
        let len = t.emit_packet(&mut out, &meta, &bth, &body, &payload).expect("it fits");
        best(&format!("parse a data packet, {name}"), |_| {
            let head = black_box(&out[..len]);
            black_box(parse_frame(head, len, &cfg, |dst| *dst != Ip::V4([0; 4])).is_ok());
        });
    }

    let t = FrameTemplate::new(&plain, &cfg);
    let meta = EmitMeta { ev: Ev(1), dscp: 46, ecn: Ecn::NotEct, outer_dst: None };
    let bth = BthRepr::new(Opcode::Sack, Qpn::new(9), Psn::new(1));
    best("whole SACK with ICRC", |i| {
        let sack = SackRepr { cack: Psn::new(i), bitmap: u64::from(i), ..SackRepr::default() };
        black_box(t.emit_packet(black_box(&mut out), &meta, &bth, &Body::Sack(sack), &[]));
    });

    for size in [0, 64, 256, 1024, 4096] {
        let (bth, body) = write(size, 1);
        let len = t.emit_packet(&mut out, &meta, &bth, &body, &payload[..size]).expect("it fits");
        best(&format!("verify the ICRC, payload {size}"), |_| {
            black_box(icrc::verify(black_box(&out[..len]), 14, len - icrc::LEN));
        });
        best(&format!("copy and sum, payload {size}"), |_| {
            let head = 14 + 40 + 8 + 12 + 24;
            let (headers, data) = out.split_at_mut(head);
            if let Some(mut sum) = Icrc::over_headers(black_box(&headers[14..])) {
                icrc::copy_and_update(&mut sum, data, black_box(&payload[..size]));
                black_box(sum.finish());
            }
        });
    }
    best("copy 4096 bytes, nothing else", |_| {
        out[..4096].copy_from_slice(black_box(&payload));
        black_box(&mut out);
    });

    let op = |ev_lsb, width, dst_msb_offset| CopyOp { ev_lsb, width, dst_msb_offset };
    let ops = [op(8, 4, 36), op(8, 4, 52), op(8, 4, 68), op(8, 4, 84), op(0, 8, 56)];
    let map = EvTemplate::new([0xFC; 16], &ops).expect("the ranges are right");
    best("EV to SRv6 destination, five fields", |i| {
        black_box(map.apply(black_box(Ev(i))));
    });
}
