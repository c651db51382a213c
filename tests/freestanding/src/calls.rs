//! The methods of an endpoint.

use core::hint::black_box;

use mrc_core::{
    Discard, Export, FrameSink, FrameSource, Loads, MAX_HEADER_LEN, PortMask, Received, RxMeta, Transmit, Upcoming,
};

use crate::{any, some};

images! {
    // Tables.
    image_register_mr(e) e.register_mr(*any(), *any(), *any());
    image_change_mr(e) e.change_mr(*any(), *any(), *any());
    image_deregister_mr(e) e.deregister_mr(*any());
    image_key(e) e.key(*any());
    image_create_cq(e) e.create_cq();
    image_destroy_cq(e) e.destroy_cq(*any());
    image_add_peer(e) e.add_peer(any());
    image_set_plane_addresses(e) e.set_plane_addresses(*any(), *any(), *any(), *any());
    image_remove_peer(e) e.remove_peer(*any());
    image_peer_ports(e) e.peer_ports(*any());
    image_create_cc_profile(e) e.create_cc_profile(any());
    image_cc_profile(e) black_box(e.cc_profile(*any())).is_none();
    image_default_cc_profile(e) e.default_cc_profile();
    image_modify_cc_profile(e) e.modify_cc_profile(*any(), any());
    image_destroy_cc_profile(e) e.destroy_cc_profile(*any());

    // EV profiles.
    image_create_ev_profile(e) e.create_ev_profile(some());
    image_open_ev_profile(e) e.open_ev_profile(*any());
    image_configure_ev_profile(e) e.configure_ev_profile(*any(), any());
    image_replace_ev(e) e.replace_ev(*any(), any(), any(), *any(), *any());
    image_set_ev_profile_state(e) e.set_ev_profile_state(*any(), *any());
    image_set_ev_state(e) e.set_ev_state(*any(), *any(), any(), *any(), *any());
    image_set_ev_events(e) e.set_ev_events(*any(), *any());
    image_set_ev_min_active(e) e.set_ev_min_active(*any(), *any());
    image_query_evs(e) e.query_evs(*any(), *any(), some());
    image_query_ev_state(e) e.query_ev_state(*any(), any());
    image_ev_profile_info(e) e.ev_profile_info(*any());
    image_ev_profiles(e) e.ev_profiles().count();
    image_destroy_ev_profile(e) e.destroy_ev_profile(*any());

    // Queue pairs.
    image_create_qp(e) e.create_qp(any());
    image_draw_psn(e) e.draw_psn();
    image_modify_to_init(e) e.modify_to_init(*any());
    image_modify_to_rtr(e) e.modify_to_rtr(*any(), *any(), any());
    image_modify_to_rts(e) e.modify_to_rts(*any(), *any(), any());
    image_fail_post(e) e.fail_post(*any(), *any());
    image_modify_to_error(e) e.modify_to_error(*any(), *any());
    image_modify_to_reset(e) e.modify_to_reset(*any());
    image_destroy_qp(e) e.destroy_qp(*any());
    image_qps(e) e.qps().count();
    image_qp_info(e) e.qp_info(*any());
    image_report_telemetry(e) e.report_telemetry(*any(), *any(), *any(), *any());
    image_qpcc_info(e) e.qpcc_info(*any());
    image_set_qp_access(e) e.set_qp_access(*any(), *any());
    image_set_mpr(e) e.set_mpr(*any(), *any());
    image_set_receiver_penalty(e) e.set_receiver_penalty(*any(), *any(), *any());
    image_post_send(e) e.post_send(*any(), *any(), any());
    image_post_recv(e) e.post_recv(*any(), *any());
    image_placed(e) e.placed(*any(), *any());
    image_place_failed(e) e.place_failed(*any(), *any());
    image_set_refusal(e) e.set_refusal(*any());

    // Ports and endpoint operations.
    image_set_port(e) e.set_port(*any(), *any(), *any());
    image_set_port_admin(e) e.set_port_admin(*any(), *any(), *any());
    image_ports_up(e) e.ports_up();
    image_ports_enabled(e) e.ports_enabled();
    image_post_endpoint_op(e) e.post_endpoint_op(*any(), any());
    image_poll_endpoint_op(e) e.poll_endpoint_op();
    image_poll_shard_message(e) e.poll_shard_message();
    image_handle_shard_message(e) e.handle_shard_message(*any(), any());

    // Live update; the other side is in `storage`.
    image_export(e) (e.export(any(), some()), any::<Export>().is_done(), Export::new());

    // A turn.
    image_handle_packet(e) e.handle_packet(*any(), *any(), some());
    image_fetch_for(e) e.fetch_for(some(), &Loads);
    image_upcoming_packet(e) e.upcoming_packet(some());
    image_upcoming_packet_to(e) e.upcoming_packet_to(*any(), some());
    image_upcoming_timeout(e) e.upcoming_timeout();
    image_upcoming_transmit(e) e.upcoming_transmit(*any());
    image_fetch(e) e.fetch(&mut *any(), &Loads);
    image_is_done(e) (Upcoming::post(*any()), e.next_timeout()).0.is_done();
    image_take_offset(e) {
        let mut next = *any::<Upcoming>();
        (e.fetch(&mut next, &Loads), next.take_offset())
    };
    image_receive(e) e.receive(*any(), &mut Frames { left: *any() });
    image_handle_timeout(e) e.handle_timeout(*any());
    image_next_timeout(e) e.next_timeout();
    image_poll_transmit(e) e.poll_transmit(*any(), *any(), some());
    image_transmit(e) e.transmit(*any(), &mut Room { left: *any() });
    image_transmit_requests(e) e.transmit_requests(*any(), &mut Room { left: *any() });
    image_transmit_feedback(e) e.transmit_feedback(*any(), &mut Room { left: *any() });
    image_owes_answers(e) e.owes_answers();
    image_poll_completion(e) e.poll_completion(*any()).map(|done| black_box(done.status.text().len()));
    image_poll_event(e) e.poll_event();

    // What an endpoint is.
    image_stats(e) {
        black_box(e.stats().discarded(*any()));
        e.stats().for_each(|name, value| {
            black_box((name, value));
        })
    };
    image_limits(e) (e.limits().bytes_per_qp(), e.limits().check().is_ok());
    image_config(e) e.config().port_mask();
    image_frame_len(_e) any::<Transmit>().frame_len();
}

#[cfg(feature = "flowing-jumping")]
images! {
    image_path_loads(e) e.path_loads(*any()).count();
}

/// A burst of received frames.
struct Frames {
    left: u32,
}

impl FrameSource for Frames {
    fn next(&mut self) -> Option<(RxMeta, &[u8])> {
        self.left = self.left.checked_sub(1)?;
        Some((*any(), some()))
    }

    fn peek(&self, _ahead: usize) -> Option<&[u8]> {
        Some(some())
    }

    fn done(&mut self, result: Result<Received, Discard>) {
        if let Err(why) = result {
            black_box(why.name());
        }
    }
}

/// Frames to fill.
struct Room {
    left: u32,
}

impl FrameSink for Room {
    fn ports(&self) -> PortMask {
        if self.left == 0 { PortMask::NONE } else { *any() }
    }

    fn headers(&mut self) -> &mut [u8; MAX_HEADER_LEN] {
        any()
    }

    fn push(&mut self, transmit: Transmit) {
        self.left = self.left.saturating_sub(1);
        black_box(transmit.frame_len());
    }
}
