//! The calls of `mrc-wire`.

use core::fmt::Write as _;
use core::hint::black_box;

use mrc_wire::ev;
use mrc_wire::{
    AethRepr, Body, BthRepr, DscpPlan, Encap, EndpointRequestRepr, EndpointResponseRepr, Extension, Frame,
    FrameTemplate, HeadImage, Icrc, Ip, MethRepr, Msn, NackRepr, Opcode, PacketView, PlainFrame, PortNum, ProbeRepr,
    Psn, RethRepr, SackRepr, TsethRepr, WriteShape, icrc, nominal_bytes, pad_len, parse_frame, srv6,
};

use crate::{any, some};

/// Counts what is written to it.
struct Sink(usize);

impl core::fmt::Write for Sink {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.0 = self.0.wrapping_add(text.len());
        Ok(())
    }
}

fn written(frame: &Frame) -> usize {
    let mut sink = Sink(0);
    let _ = write!(sink, "{frame} {frame:#} {}", black_box(frame.src));
    sink.0
}

/// Parses and emits a header that has no refusal.
macro_rules! always {
    ($repr:ty) => {
        <$repr>::parse(any()).emit(any())
    };
}

/// The same for one that may be refused.
macro_rules! checked {
    ($repr:ty) => {
        if let Ok(header) = <$repr>::parse(any()) {
            header.emit(any());
        }
    };
}

images! {
    image_parse_frame(_e) parse_frame(some(), *any(), any(), |dst| black_box(dst.is_v6()));
    image_packet_view(_e) PacketView::parse(some(), *any(), any(), |dst| black_box(dst.is_v6())).map(|packet| packet.to_frame(any()));
    image_repeated_write(_e) PlainFrame::find(some()).map(|frame| {
        black_box((frame.outermost_dst(), frame.dest_qp()));
        any::<HeadImage>().repeats(&frame, *any())
    });
    image_write_shape(_e) any::<HeadImage>().expect(any(), any(), WriteShape::of(any(), any()));
    image_plain_packet(_e) PlainFrame::find(some()).and_then(|frame| Some((frame.packet(*any(), any())?, frame.rest()))).map(|(packet, rest)| {
        black_box((HeadImage::of(&packet), any::<HeadImage>().fits(&packet)));
        black_box((packet.src(), packet.outermost_dst(), packet.ce(), packet.entropy(any()), packet.dscp()));
        black_box((packet.opcode(), packet.begins_message(), packet.ends_message(), packet.outer_dst()));
        black_box((packet.dest_qp(), packet.psn(), packet.pad(), packet.ack_req(), packet.rtx()));
        (Extension::plain(&packet, rest), packet.udp_len(), packet.icrc_offset())
    });
    image_display(_e) written(any());
    image_frame(_e) any::<Frame>().timestamp();

    image_template(_e) FrameTemplate::new(any(), any());
    image_template_emit(_e) any::<FrameTemplate>().emit(some(), *any(), *any(), *any(), *any(), *any());
    image_template_emit_via(_e) any::<FrameTemplate>().emit_via(some(), *any(), *any(), *any(), *any(), *any(), *any());
    image_template_emit_packet(_e) any::<FrameTemplate>().emit_packet(some(), any(), any(), any(), some());
    image_encap(_e) any::<Encap>().check();
    image_body(_e) (any::<Body>().emit(some()), any::<Body>().header_len());

    image_meth(_e) always!(MethRepr);
    image_tseth(_e) always!(TsethRepr);
    image_reth(_e) always!(RethRepr);
    image_aeth(_e) always!(AethRepr);
    image_sack(_e) always!(SackRepr);
    image_nack(_e) always!(NackRepr);
    image_probe(_e) always!(ProbeRepr);
    image_bth(_e) checked!(BthRepr);
    image_endpoint_request(_e) checked!(EndpointRequestRepr);
    image_endpoint_response(_e) checked!(EndpointResponseRepr);
    image_sack_psns(_e) any::<SackRepr>().received().fold(0u32, |sum, psn| sum.wrapping_add(psn.value()));
    image_sack_offset(_e) SackRepr::offset_of(*any(), *any());

    image_icrc(_e) (icrc::compute(some()), icrc::start(some()), icrc::verify(some(), *any(), *any()));
    image_icrc_copy(_e) Icrc::over_headers(some()).map(|mut crc| {
        icrc::copy_and_update(&mut crc, some(), some());
        crc.update(some());
        crc.finish()
    });

    image_srv6_template(_e) srv6::EvTemplate::new(*any(), some());
    image_srv6_apply(_e) any::<srv6::EvTemplate>().apply(*any());
    image_srv6_shift(_e) (srv6::usid_shift(any()), srv6::usid(any(), *any()), srv6::is_last(any()), srv6::block(any()));
    image_srv6_own(_e) srv6::is_own_sid(any(), *any(), *any());
    image_srv6_container(_e) srv6::container(*any(), some());

    image_ev_expand(_e) ev::expand(any(), some(), some());
    image_ev_collapse(_e) ev::collapse(any(), some(), some());
    image_ev_forms(_e) (ev::stev(any()), ev::udp(any()), ev::srv6_destination(any()), ev::srh_segment(any()));
    image_ev_place(_e) (ev::place(*any(), *any(), *any()), ev::echo(*any(), *any(), *any(), *any()));

    image_dscp(_e) (any::<DscpPlan>().check(), any::<DscpPlan>().trim(*any()));
    image_ticks(_e) (TsethRepr::ticks(*any()), TsethRepr::elapsed_ns(*any(), *any()));
    image_port_num(_e) (PortNum::new(*any()), PortNum::from_plane(*any()).plane());
    image_psn(_e) Psn::new(*any()).add(*any()).sub(*any()).offset(*any()).next().diff(*any());
    image_lengths(_e) (Msn(*any()).next(), pad_len(*any()), nominal_bytes(*any()));
    image_opcode(_e) Opcode::write(*any(), *any(), *any()).name();
    image_ip(_e) any::<Ip>().is_v6();
}
