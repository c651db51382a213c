//! Every entry point of `mrc-wire`, called with values the optimiser cannot see.

use core::fmt::Write as _;
use core::hint::black_box as opaque;

use mrc_wire::ev::{self, EvField};
use mrc_wire::{
    AethRepr, Body, BthRepr, Ecn, EmitMeta, Encap, EndpointRequestRepr, EndpointResponseRepr, Ev, FrameTemplate, Icrc,
    Ip, MethRepr, Msn, NackRepr, Opcode, PortNum, ProbeRepr, Psn, RethRepr, SackRepr, TsethRepr, WireConfig, icrc,
    nominal_bytes, pad_len, parse_frame, srv6,
};

/// Counts what is written to it.
struct Sink(usize);

impl core::fmt::Write for Sink {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.0 = self.0.wrapping_add(text.len());
        Ok(())
    }
}

/// A slice of any content and length.
fn any<'a, T>() -> &'a [T] {
    // SAFETY: never executed.
    unsafe { core::slice::from_raw_parts(opaque(core::ptr::dangling()), opaque(0)) }
}

/// Everything.
pub fn all() {
    let mut buffer = [0u8; 512];
    let out = opaque(&mut buffer[..]);
    let bytes: &[u8] = any();
    frames(bytes, out);
    headers(bytes, out);
    opaque((icrc::compute(bytes), icrc::start(bytes)));
    if let Some(mut crc) = Icrc::over_headers(bytes) {
        icrc::copy_and_update(&mut crc, out, bytes);
        crc.update(bytes);
        opaque(crc.finish());
    }
    addresses(bytes);
    numbers();
}

fn frames(bytes: &[u8], out: &mut [u8]) {
    let cfg = opaque(WireConfig::default());
    let Ok(frame) = parse_frame(bytes, opaque(100), &cfg, |dst| opaque(dst.is_v6())) else { return };
    opaque((frame.timestamp(), frame.payload.len(), icrc::verify(bytes, frame.l3_offset, frame.icrc_offset)));
    if let Body::Sack(sack) = &frame.body {
        for psn in sack.received() {
            opaque(psn.diff(sack.cack));
        }
        opaque(SackRepr::offset_of(sack.cack, frame.bth.psn));
    }
    let encap = opaque(Encap::plain([1; 6], [2; 6], Ip::V6([1; 16]), Ip::V6([2; 16])));
    let _ = opaque(encap.check());
    let template = FrameTemplate::new(&encap, &cfg);
    let outer_dst = frame.outer_dst.as_ref();
    let meta = EmitMeta { ev: frame.entropy, dscp: frame.dscp, ecn: Ecn::from_bits(frame.dscp), outer_dst };
    opaque(template.emit_packet(out, &meta, &frame.bth, &frame.body, bytes));
    opaque(template.emit(out, Ev(opaque(1)), opaque(1), opaque(Ecn::Ce), opaque(9), outer_dst));
    opaque((frame.body.emit(out), frame.body.header_len(), template.l3_offset(), template.header_len()));
    let mut sink = Sink(0);
    let _ = write!(sink, "{frame} {frame:#}");
    opaque(sink.0);
}

fn headers(bytes: &[u8], out: &mut [u8]) {
    macro_rules! always {
        ($($repr:ty),*) => {$(
            if let (Some(from), Some(to)) = (bytes.first_chunk(), out.first_chunk_mut()) {
                opaque(<$repr>::parse(from)).emit(to);
            }
        )*};
    }
    macro_rules! checked {
        ($($repr:ty),*) => {$(
            if let (Some(from), Some(to)) = (bytes.first_chunk(), out.first_chunk_mut())
                && let Ok(header) = opaque(<$repr>::parse(from))
            {
                header.emit(to);
            }
        )*};
    }
    always!(MethRepr, TsethRepr, RethRepr, AethRepr, SackRepr, NackRepr, ProbeRepr);
    checked!(BthRepr, EndpointRequestRepr, EndpointResponseRepr);
}

fn addresses(bytes: &[u8]) {
    if let Some(address) = bytes.first_chunk::<16>() {
        if let Ok(template) = srv6::EvTemplate::new(*address, any()) {
            opaque(template.apply(Ev(opaque(1))));
        }
        opaque((srv6::usid_shift(address), srv6::usid(address, opaque(3)), srv6::is_last(address)));
        opaque((srv6::is_own_sid(address, opaque(1), opaque(3)), srv6::block(address)));
    }
    opaque(srv6::container(opaque(1), any()));
    if let Some(value) = bytes.first_chunk::<32>()
        && let Ok(expanded) = ev::expand(value, any::<EvField>(), bytes)
    {
        opaque((ev::stev(&expanded), ev::udp(&expanded)));
        opaque((ev::srv6_destination(&expanded), ev::srh_segment(&expanded)));
    }
    opaque(ev::place(Ev(opaque(1)), opaque(true), opaque(true)));
    opaque(ev::echo(opaque(1), opaque(3), opaque(true), opaque(true)));
}

fn numbers() {
    let n = opaque(7u32);
    let _ = opaque(WireConfig::default().dscp.check());
    opaque((TsethRepr::ticks(n.into()), TsethRepr::elapsed_ns(n as u16, n as u16)));
    opaque((PortNum::new(n as u8), PortNum::from_plane(n as u8).plane()));
    opaque((Psn::new(n).add(n).sub(3).offset(-4).next(), Msn(n as u16).next()));
    opaque((pad_len(n as usize), nominal_bytes(n as u16), Opcode::write(opaque(true), false, true).name()));
}
