//! What else `mrc-core` exports: paths, time, numbers.

use core::hint::black_box;

use mrc_core::path::{
    EvFields, EvFormat, PathConfig, PathSet, ReverseSet, auto_profile, compact_profile, generate_profile,
    validate_profile,
};
use mrc_core::{EndpointConfig, Event, Instant, Limits, PortMask, RetryConfig, Rng, RtsAttr, Tick};

use crate::{any, some};

fn paths() -> &'static mut PathSet {
    any()
}

fn config() -> &'static PathConfig {
    any()
}

images! {
    image_path_start(_e) paths().start(some(), some(), some(), config(), *any(), *any(), any());
    image_path_select(_e) paths().select(*any(), some(), some(), *any(), config(), any());
    image_path_select_other(_e) paths().select_other(*any(), some(), some(), *any(), *any(), config(), any());
    image_path_select_after_nack(_e) paths().select_after_nack(*any(), some(), some(), *any(), *any(), config(), any());
    image_path_find(_e) paths().find(some(), *any(), *any());
    image_path_choice(_e) paths().choice(some(), *any());
    image_path_feedback(_e) paths().on_feedback(*any(), some(), some(), *any(), *any(), config(), any());
    image_path_denied(_e) paths().set_denied(some(), some(), *any(), any());
    image_path_good(_e) paths().set_good(some(), some(), *any(), any());
    image_path_ports(_e) {
        paths().set_usable_ports(*any());
        paths().on_busy();
    };
    image_path_probe(_e) paths().poll_probe(*any(), some(), *any(), config(), *any());
    image_path_counts(_e) (paths().next_timeout(), paths().counts(), paths().universe(), paths().usable_ports());

    image_auto_profile(_e) auto_profile(some(), *any(), *any(), *any());
    image_compact_profile(_e) compact_profile(some(), *any(), *any(), *any());
    image_validate_profile(_e) validate_profile(some(), *any());
    image_generate_profile(_e) generate_profile(some(), any(), any(), *any(), *any());
    image_ev_format(_e) EvFormat::new(*any(), some());
    image_ev_format_entry(_e) any::<EvFormat>().entry(any(), any(), *any(), *any());
    image_ev_format_value(_e) any::<EvFormat>().value(any(), any());
    image_ev_fields(_e) (EvFields::new(any(), some()), EvFields::full(any()));

    image_reverse_start(_e) any::<ReverseSet>().start(some(), *any(), any());
    image_reverse_redraw(_e) any::<ReverseSet>().redraw(some(), any());
    image_reverse_heed_denylist(_e) any::<ReverseSet>().heed_denylist(some(), *any(), any());
    image_reverse_learn(_e) any::<ReverseSet>().learn(*any());
    image_reverse_pick(_e) (any::<ReverseSet>().pick(*any()), any::<ReverseSet>().on(*any()));
    image_reverse_data(_e) {
        any::<ReverseSet>().on_data_received();
        any::<ReverseSet>().on_data_sent();
        any::<ReverseSet>().postpone(*any(), *any());
    };
    image_reverse_probe(_e) any::<ReverseSet>().poll_probe(*any(), some(), *any(), *any(), any());
    image_reverse_answered(_e) any::<ReverseSet>().on_probe_answered(*any(), *any());
    image_reverse_lost(_e) any::<ReverseSet>().on_probe_lost(*any(), *any(), some(), *any(), any());

    image_rng(_e) {
        let mut rng = Rng::new(*any());
        (rng.fork().below(*any()), rng.next_u64())
    };
    image_time(_e) {
        let (now, then): (Instant, Instant) = (*any(), *any());
        (now.after(*any()), now.since(then), Tick::at(now).elapsed_ns(then), Tick::at(now).stamp())
    };
    image_retry(_e) {
        let retry = any::<RetryConfig>();
        (retry.t0_ns(), retry.interval_ns(*any()), retry.exhausted(*any()), retry.budget_ns())
    };
    image_port_mask(_e) {
        let mask: PortMask = *any();
        (PortMask::first(*any()).with(*any()).without(*any()), mask.lowest(), mask.len(), mask.contains(*any()))
    };
    image_event(_e) any::<Event>().kind();
    image_config_ports(_e) any::<EndpointConfig>().port_mask();
    image_limits_check(_e) (any::<Limits>().check().is_ok(), any::<Limits>().bytes_per_qp());
    image_rts_software(_e) black_box(RtsAttr::software(*any()).keepalive_ns);
}
