//! The configuration of an endpoint, from C and back. Everything from C is checked here; nothing here is unsafe.

use mrc_core::{EndpointConfig, EventMask, NoReceive, PlacementMode, PortConfig, Shard};
use mrc_wire::{DscpPlan, PdcidOrder, WireConfig};

use crate::{
    codes::*,
    convert::{cc, cc_default, ip, limits_default, mac, range, set},
    fault::Fault,
    types::*,
};

pub(crate) fn endpoint_config(c: &mrc_core_config) -> Result<EndpointConfig, Fault> {
    let mut config = EndpointConfig::default();
    for (to, from) in config.ports.iter_mut().zip(&c.ports) {
        if from.present == 0 {
            continue;
        }
        *to = Some(PortConfig {
            mac: mac(from.mac, "mac")?,
            sid: set(from.has_sid, from.sid, "sid")?,
            addr: set(from.has_addr, from.addr, "addr")?,
        });
    }
    for (to, from) in config.gids.iter_mut().zip(&c.gids) {
        *to = ip(from, "gids")?;
    }
    let dscp = DscpPlan {
        no_trim: c.dscp.no_trim,
        trimmable: c.dscp.trimmable,
        trimmable_retx: c.dscp.trimmable_retx,
        trimmed: c.dscp.trimmed,
        trimmed_lasthop: c.dscp.trimmed_lasthop,
        control: c.dscp.control,
    };
    dscp.check().map_err(|_| range("dscp"))?;
    if c.bth_se_bit != 6 && c.bth_se_bit != 7 {
        return Err(range("bth_se_bit"));
    }
    if c.eeth_op_bit != 2 && c.eeth_op_bit != 4 {
        return Err(range("eeth_op_bit"));
    }
    if c.neth_cc_type > 15 {
        return Err(range("neth_cc_type"));
    }
    // Another one says that the write succeeded, or is ignored by the peer.
    if !(0x61..=0x7F).contains(&c.wimm_nak_syndrome) {
        return Err(range("wimm_nak_syndrome"));
    }
    let pdcid_order = match c.pdcid_order {
        0 => PdcidOrder::SenderFirst,
        1 => PdcidOrder::RequesterFirst,
        _ => return Err(range("pdcid_order")),
    };
    config.wire = WireConfig {
        udp_dport: c.udp_dport,
        udp_dport_accept: c.udp_dport_accept,
        dscp,
        ev_high_half_in_sport: c.ev_high_half_in_sport != 0,
        bth_se_bit: c.bth_se_bit,
        neth_cc_type: c.neth_cc_type,
        pdcid_order,
        eeth_op_bit: c.eeth_op_bit,
    };
    config.pkey = c.pkey;
    config.sack_gen_threshold = c.sack_gen_threshold;
    config.oor_silent = c.oor_silent != 0;
    config.answers_on_silent_planes = c.answers_on_silent_planes != 0;
    config.complete_on_sack = c.complete_on_sack != 0;
    config.stale_nak_fatal = c.stale_nak_fatal != 0;
    config.retry_strict = c.retry_strict != 0;
    config.msn_start = c.msn_start;
    config.rqmsn_start = c.rqmsn_start;
    config.reject_zero_len = c.reject_zero_len != 0;
    config.timestamps = c.timestamps != 0;
    config.ctl_ect = c.ctl_ect != 0;
    config.always_skip_after = c.always_skip_after;
    config.wimm_nak_syndrome = c.wimm_nak_syndrome;
    config.events = EventMask::from_bits(c.events);
    config.no_receive = match c.no_receive {
        MRC_CORE_NO_RECEIVE_HOLD => NoReceive::Hold,
        MRC_CORE_NO_RECEIVE_NAK => NoReceive::Nak,
        _ => return Err(range("no_receive")),
    };
    config.tail_retry_lenient = c.tail_retry_lenient != 0;
    config.tail_retry_paced = c.tail_retry_paced != 0;
    config.silent_packets = c.silent_packets;
    config.port_update_rto_ns = c.port_update_rto_ns;
    config.port_update_max_ns = c.port_update_max_ns;
    config.port_unmask_after_ns = c.port_unmask_after_ns;
    config.endpoint_rate_limit = c.endpoint_rate_limit;
    config.ev_probe_rate_limit = c.ev_probe_rate_limit;
    config.turn_bytes = c.turn_bytes;
    config.call_budget = c.call_budget;
    config.shard = Shard { bits: c.shard_bits, index: c.shard };
    config.merge_sacks = c.merge_sacks != 0;
    config.tack_within_message = c.tack_within_message != 0;
    config.ask_each_message = c.ask_each_message != 0;
    config.placement = if c.placement_reported != 0 { PlacementMode::Reported } else { PlacementMode::BeforePoll };
    config.share_bad_evs = c.share_bad_evs != 0;
    config.endpoint_svc_time = c.endpoint_svc_time != 0;
    config.port_update_on_rts = c.port_update_on_rts != 0;
    config.probe_masked_ports = c.probe_masked_ports != 0;
    config.port_mask_zero_based = c.port_mask_zero_based != 0;
    config.measurement_life_ns = c.measurement_life_ns;
    config.bitmap_reach = c.bitmap_reach;
    config.right_edge_retreats = c.right_edge_retreats != 0;
    config.send_below_window = c.send_below_window != 0;
    config.size_overhead = c.size_overhead;
    config.ack_msn_zero = c.ack_msn_zero != 0;
    config.cc = cc(&c.cc)?;
    Ok(config)
}

pub(crate) fn config_of(config: &EndpointConfig) -> mrc_core_config {
    let (wire, dscp) = (&config.wire, &config.wire.dscp);
    let no_port = mrc_core_port { present: 0, has_sid: 0, has_addr: 0, mac: [0; 6], sid: [0; 16], addr: [0; 16] };
    mrc_core_config {
        abi: MRC_CORE_ABI,
        limits: limits_default(),
        cc: cc_default(),
        ports: [no_port; MRC_CORE_MAX_PORTS],
        gids: [mrc_core_ip { version: 0, bytes: [0; 16] }; MRC_CORE_MAX_GIDS],
        dscp: mrc_core_dscp {
            no_trim: dscp.no_trim,
            trimmable: dscp.trimmable,
            trimmable_retx: dscp.trimmable_retx,
            trimmed: dscp.trimmed,
            trimmed_lasthop: dscp.trimmed_lasthop,
            control: dscp.control,
        },
        udp_dport: wire.udp_dport,
        udp_dport_accept: wire.udp_dport_accept,
        pkey: config.pkey,
        msn_start: config.msn_start,
        rqmsn_start: config.rqmsn_start,
        sack_gen_threshold: config.sack_gen_threshold,
        ev_high_half_in_sport: wire.ev_high_half_in_sport.into(),
        bth_se_bit: wire.bth_se_bit,
        neth_cc_type: wire.neth_cc_type,
        pdcid_order: u8::from(wire.pdcid_order == PdcidOrder::RequesterFirst),
        oor_silent: config.oor_silent.into(),
        answers_on_silent_planes: config.answers_on_silent_planes.into(),
        complete_on_sack: config.complete_on_sack.into(),
        stale_nak_fatal: config.stale_nak_fatal.into(),
        retry_strict: config.retry_strict.into(),
        reject_zero_len: config.reject_zero_len.into(),
        timestamps: config.timestamps.into(),
        ctl_ect: config.ctl_ect.into(),
        always_skip_after: config.always_skip_after,
        wimm_nak_syndrome: config.wimm_nak_syndrome,
        events: config.events.bits(),
        no_receive: match config.no_receive {
            NoReceive::Hold => MRC_CORE_NO_RECEIVE_HOLD,
            NoReceive::Nak => MRC_CORE_NO_RECEIVE_NAK,
        },
        tail_retry_lenient: config.tail_retry_lenient.into(),
        tail_retry_paced: config.tail_retry_paced.into(),
        silent_packets: config.silent_packets,
        port_update_rto_ns: config.port_update_rto_ns,
        port_update_max_ns: config.port_update_max_ns,
        port_unmask_after_ns: config.port_unmask_after_ns,
        endpoint_rate_limit: config.endpoint_rate_limit,
        ev_probe_rate_limit: config.ev_probe_rate_limit,
        share_bad_evs: config.share_bad_evs.into(),
        endpoint_svc_time: config.endpoint_svc_time.into(),
        port_update_on_rts: config.port_update_on_rts.into(),
        probe_masked_ports: config.probe_masked_ports.into(),
        port_mask_zero_based: config.port_mask_zero_based.into(),
        turn_bytes: config.turn_bytes,
        call_budget: config.call_budget,
        shard_bits: config.shard.bits,
        shard: config.shard.index,
        merge_sacks: config.merge_sacks.into(),
        tack_within_message: config.tack_within_message.into(),
        ask_each_message: config.ask_each_message.into(),
        placement_reported: u8::from(config.placement == PlacementMode::Reported),
        measurement_life_ns: config.measurement_life_ns,
        bitmap_reach: config.bitmap_reach,
        right_edge_retreats: config.right_edge_retreats.into(),
        send_below_window: config.send_below_window.into(),
        size_overhead: config.size_overhead,
        ack_msn_zero: config.ack_msn_zero.into(),
        eeth_op_bit: wire.eeth_op_bit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert;

    /// Every knob that C has reaches the engine, and its defaults are the engine's.
    #[test]
    fn configurations_survive_the_border() {
        let changed = EndpointConfig {
            turn_bytes: 3_000,
            call_budget: 7,
            shard: Shard { bits: 3, index: 5 },
            merge_sacks: true,
            placement: PlacementMode::Reported,
            measurement_life_ns: 9,
            bitmap_reach: 64,
            right_edge_retreats: true,
            send_below_window: true,
            size_overhead: 36,
            ack_msn_zero: true,
            wire: WireConfig { eeth_op_bit: 4, ..WireConfig::default() },
            ..EndpointConfig::default()
        };
        let strict = EndpointConfig { ask_each_message: false, ..EndpointConfig::default() };
        let later = EndpointConfig { tack_within_message: false, ..EndpointConfig::default() };
        let mut seen = std::vec::Vec::new();
        for config in [EndpointConfig::default(), EndpointConfig::software(), changed, strict, later] {
            let back = endpoint_config(&config_of(&config)).unwrap();
            let (want, have) = (std::format!("{config:?}"), std::format!("{back:?}"));
            assert_eq!(want, have);
            assert!(!seen.contains(&have));
            seen.push(have);
        }
    }

    /// The same for what a queue pair learns: defaults are the engine's, and every open question can be switched.
    #[test]
    fn attributes_survive_the_border() {
        let limits = mrc_core::Limits { evs: 4_096, active_evs: 4_096, ..mrc_core::Limits::default() };
        let mut wanted = mrc_core::RtsAttr::software(mrc_wire::Psn::new(5));
        wanted.cc = Some(mrc_core::CcProfileHandle::from_index(0));
        let mut given = convert::rts_default(5);
        assert_eq!(std::format!("{:?}", convert::rts(&given, &limits).unwrap()), std::format!("{wanted:?}"));
        (given.reorder_floor_ns, given.reorder_tolerance, given.exponential_from_t0, given.blame_silence) =
            (1, 2, 1, 0);
        (given.paths.last_resort_unpaced, given.paths.marked_probe_good) = (1, 1);
        (given.paths.skip_extends, given.paths.reuse_nacked_ev, given.paths.relapse_backoff) = (1, 1, 1);
        given.max_wimm = 0xFFFF;
        (wanted.reorder_floor_ns, wanted.reorder_tolerance) = (1, 2);
        (wanted.exponential_from_t0, wanted.blame_silence, wanted.max_wimm) = (true, false, 0xFFFF);
        let paths = &mut wanted.paths;
        (paths.last_resort_unpaced, paths.marked_probe_good) = (true, true);
        (paths.skip_extends, paths.reuse_nacked_ev, paths.relapse_backoff) = (true, true, true);
        assert_eq!(std::format!("{:?}", convert::rts(&given, &limits).unwrap()), std::format!("{wanted:?}"));

        let mut given = convert::rtr_default();
        (given.svc_time, given.private_stamps_us) = (1, 1);
        let rtr = convert::rtr(&given).unwrap();
        assert!(rtr.svc_time && rtr.private_stamps_us);
    }
}
