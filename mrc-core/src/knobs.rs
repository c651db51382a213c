//! Knobs by name. Configuration files of hosts and conformance scripts set the same knobs under the same names; this file
//! says which field each name is. The fields document the values and the open questions.

use crate::cc::CcConfig;
use crate::config::{EndpointConfig, NoReceive, RtrAttr, RtsAttr};
use crate::path::{LossEvAction, SkipMode};
use mrc_wire::{PdcidOrder, WireConfig};

/// Why a knob was not set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KnobError {
    /// This structure has no knob of the name.
    Unknown,
    /// The knob has no such value.
    Range,
}

impl core::fmt::Display for KnobError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Unknown => "no such knob",
            Self::Range => "the knob has no such value",
        })
    }
}

impl core::error::Error for KnobError {}

fn fit<T: TryFrom<u64>>(value: u64) -> Result<T, KnobError> {
    T::try_from(value).map_err(|_| KnobError::Range)
}

fn within_a_second(ns: u64) -> Result<u64, KnobError> {
    if ns > 1_000_000_000 { Err(KnobError::Range) } else { Ok(ns) }
}

fn flag(value: u64) -> Result<bool, KnobError> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(KnobError::Range),
    }
}

impl EndpointConfig {
    /// Names that [`Self::set_knob`] takes.
    pub const KNOBS: &'static [&'static str] = &[
        "ack_msn_zero",
        "always_skip_after",
        "answers_on_silent_planes",
        "ask_each_message",
        "bitmap_reach",
        "bth_se_bit",
        "complete_on_sack",
        "ctl_ect",
        "dscp_control",
        "dscp_no_trim",
        "dscp_retx",
        "dscp_trimmable",
        "dscp_trimmed",
        "dscp_trimmed_lasthop",
        "eeth_op_bit",
        "endpoint_rate",
        "endpoint_svc_time",
        "ev_high_half_in_sport",
        "ev_probe_rate",
        "measurement_life",
        "merge_sacks",
        "msn_start",
        "neth_cc_type",
        "no_receive",
        "oor_silent",
        "pdcid_order",
        "pkey",
        "port_mask_zero_based",
        "port_unmask_after",
        "port_update_max",
        "port_update_on_rts",
        "port_update_rto",
        "probe_masked_ports",
        "reject_zero_len",
        "retry_strict",
        "right_edge_retreats",
        "rqmsn_start",
        "sack_threshold",
        "send_below_window",
        "share_bad_evs",
        "silent_packets",
        "size_overhead",
        "stale_nak_fatal",
        "tack_within_message",
        "tail_retry_lenient",
        "tail_retry_paced",
        "timestamps",
        "turn_bytes",
        "udp_accept",
        "udp_port",
        "wimm_nak_syndrome",
        "window",
    ];

    /// Sets a knob; `value` is a number (times in nanoseconds), or 0 and 1 for off and on.
    ///
    /// # Errors
    /// [`KnobError`]; nothing changes.
    pub fn set_knob(&mut self, name: &str, value: u64) -> Result<(), KnobError> {
        match name {
            "ack_msn_zero" => self.ack_msn_zero = flag(value)?,
            "always_skip_after" => self.always_skip_after = fit(value)?,
            "answers_on_silent_planes" => self.answers_on_silent_planes = flag(value)?,
            "ask_each_message" => self.ask_each_message = flag(value)?,
            "bitmap_reach" => self.bitmap_reach = fit(value)?,
            "bth_se_bit" => self.wire.bth_se_bit = fit(value)?,
            "complete_on_sack" => self.complete_on_sack = flag(value)?,
            "ctl_ect" => self.ctl_ect = flag(value)?,
            "dscp_control" => self.wire.dscp.control = fit(value)?,
            "dscp_no_trim" => self.wire.dscp.no_trim = fit(value)?,
            "dscp_trimmable" => self.wire.dscp.trimmable = fit(value)?,
            "dscp_trimmed" => self.wire.dscp.trimmed = fit(value)?,
            "dscp_trimmed_lasthop" => self.wire.dscp.trimmed_lasthop = fit(value)?,
            "dscp_retx" => self.wire.dscp.trimmable_retx = fit(value)?,
            "eeth_op_bit" => self.wire.eeth_op_bit = fit(value)?,
            "endpoint_rate" => self.endpoint_rate_limit = fit(value)?,
            "endpoint_svc_time" => self.endpoint_svc_time = flag(value)?,
            "ev_high_half_in_sport" => self.wire.ev_high_half_in_sport = flag(value)?,
            "ev_probe_rate" => self.ev_probe_rate_limit = fit(value)?,
            "measurement_life" => self.measurement_life_ns = value,
            "merge_sacks" => self.merge_sacks = flag(value)?,
            "msn_start" => self.msn_start = fit(value)?,
            "neth_cc_type" => self.wire.neth_cc_type = fit(value)?,
            "no_receive" => self.no_receive = if flag(value)? { NoReceive::Nak } else { NoReceive::Hold },
            "oor_silent" => self.oor_silent = flag(value)?,
            "pdcid_order" => {
                let requester = flag(value)?;
                self.wire.pdcid_order = if requester { PdcidOrder::RequesterFirst } else { PdcidOrder::SenderFirst };
            }
            "pkey" => self.pkey = fit(value)?,
            "port_mask_zero_based" => self.port_mask_zero_based = flag(value)?,
            "port_unmask_after" => self.port_unmask_after_ns = value,
            "port_update_max" => self.port_update_max_ns = value,
            "port_update_rto" => self.port_update_rto_ns = value,
            "port_update_on_rts" => self.port_update_on_rts = flag(value)?,
            "probe_masked_ports" => self.probe_masked_ports = flag(value)?,
            "reject_zero_len" => self.reject_zero_len = flag(value)?,
            "retry_strict" => self.retry_strict = flag(value)?,
            "right_edge_retreats" => self.right_edge_retreats = flag(value)?,
            "rqmsn_start" => self.rqmsn_start = fit(value)?,
            "sack_threshold" => self.sack_gen_threshold = fit(value)?,
            "send_below_window" => self.send_below_window = flag(value)?,
            "share_bad_evs" => self.share_bad_evs = flag(value)?,
            "silent_packets" => self.silent_packets = fit(value)?,
            "size_overhead" => self.size_overhead = fit(value)?,
            "stale_nak_fatal" => self.stale_nak_fatal = flag(value)?,
            "tack_within_message" => self.tack_within_message = flag(value)?,
            "tail_retry_lenient" => self.tail_retry_lenient = flag(value)?,
            "tail_retry_paced" => self.tail_retry_paced = flag(value)?,
            "timestamps" => self.timestamps = flag(value)?,
            "turn_bytes" => self.turn_bytes = fit(value)?,
            "udp_accept" => {
                let own = WireConfig::default().udp_dport_accept;
                self.wire.udp_dport_accept = if value == 0 { own } else { [fit(value)?; 2] };
            }
            "udp_port" => self.wire.udp_dport = fit(value)?,
            "wimm_nak_syndrome" => self.wimm_nak_syndrome = fit(value)?,
            "window" => self.cc = CcConfig::Fixed { window_bytes: fit(value)? },
            _ => return Err(KnobError::Unknown),
        }
        Ok(())
    }
}

impl RtrAttr {
    /// Names that [`Self::set_knob`] takes.
    pub const KNOBS: &'static [&'static str] = &["svc_time", "trim_nack", "tsr_us"];

    /// Sets a knob; `value` is 0 or 1 for off and on.
    ///
    /// # Errors
    /// [`KnobError`]; nothing changes.
    pub fn set_knob(&mut self, name: &str, value: u64) -> Result<(), KnobError> {
        match name {
            "svc_time" => self.svc_time = flag(value)?,
            "trim_nack" => self.trim_nack = flag(value)?,
            "tsr_us" => self.private_stamps_us = flag(value)?,
            _ => return Err(KnobError::Unknown),
        }
        Ok(())
    }
}

impl RtsAttr {
    /// Names that [`Self::set_knob`] takes.
    pub const KNOBS: &'static [&'static str] = &[
        "base_rtt",
        "blame_silence",
        "ev_min_active",
        "exp_from_t0",
        "keepalive",
        "last_resort",
        "loss_ev_action",
        "loss_streak",
        "marked_probe_good",
        "plane_lead",
        "probe_interval",
        "probe_limit",
        "relapse_backoff",
        "reorder_delay",
        "reorder_factor",
        "reorder_floor",
        "reorder_min",
        "reorder_tolerance",
        "resurrect_probes",
        "reuse_nacked_ev",
        "skip_extends",
        "skip_time",
        "tail_probe",
        "target_delay",
    ];

    /// Sets a knob; `value` is a number (times in nanoseconds), or 0 and 1 for off and on.
    ///
    /// # Errors
    /// [`KnobError`]; nothing changes.
    pub fn set_knob(&mut self, name: &str, value: u64) -> Result<(), KnobError> {
        match name {
            "base_rtt" => self.base_rtt_ns = value,
            "blame_silence" => self.blame_silence = flag(value)?,
            "ev_min_active" => self.paths.ev_min_active = fit(value)?,
            "exp_from_t0" => self.exponential_from_t0 = flag(value)?,
            "keepalive" => self.keepalive_ns = value,
            "last_resort" => {
                let unpaced = value == 2;
                self.paths.last_resort = unpaced || flag(value)?;
                self.paths.last_resort_unpaced = unpaced;
            }
            "loss_ev_action" => {
                self.paths.loss_ev_action = match value {
                    0 => LossEvAction::ByTrimming,
                    1 => LossEvAction::AssumedBad,
                    2 => LossEvAction::Skip,
                    3 => LossEvAction::None,
                    _ => return Err(KnobError::Range),
                }
            }
            "loss_streak" => self.paths.loss_streak = fit(value)?,
            "marked_probe_good" => self.paths.marked_probe_good = flag(value)?,
            "plane_lead" => self.paths.plane_lead = fit(value)?,
            "probe_interval" => self.paths.probe_interval_ns = value,
            "probe_limit" => self.probe_rate_limit_ns = value,
            "relapse_backoff" => self.paths.relapse_backoff = flag(value)?,
            "reorder_delay" => self.reorder_delay_ns = within_a_second(value)?,
            "reorder_factor" => self.reorder_factor = fit(value)?,
            "reorder_floor" => self.reorder_floor_ns = value,
            "reorder_min" => self.reorder_pkts_min = fit(value)?,
            "reorder_tolerance" => self.reorder_tolerance = fit(value)?,
            "resurrect_probes" => self.paths.resurrect_probes = fit(value)?,
            "reuse_nacked_ev" => self.paths.reuse_nacked_ev = flag(value)?,
            "skip_extends" => self.paths.skip_extends = flag(value)?,
            "skip_time" => {
                self.paths.skip_mode = if value == 0 { SkipMode::Rotation } else { SkipMode::Time { ns: value } };
            }
            "tail_probe" => self.tail_probe_ns = within_a_second(value)?,
            "target_delay" => self.target_delay_ns = value,
            _ => return Err(KnobError::Unknown),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mrc_wire::{Psn, Qpn};

    #[test]
    fn every_listed_knob_is_taken_and_no_other() {
        let mut endpoint = EndpointConfig::default();
        let mut rts = RtsAttr::software(Psn::new(0));
        let (peer, profile) = (crate::PeerHandle::from_index(0), crate::EvProfileHandle::from_index(0));
        let mut rtr = RtrAttr::software(peer, Qpn::new(1), Psn::new(0), profile);
        for name in EndpointConfig::KNOBS {
            assert_eq!(endpoint.set_knob(name, 1), Ok(()), "{name}");
        }
        for name in RtsAttr::KNOBS {
            assert_eq!(rts.set_knob(name, 1), Ok(()), "{name}");
        }
        for name in RtrAttr::KNOBS {
            assert_eq!(rtr.set_knob(name, 1), Ok(()), "{name}");
        }
        let unknown = Err(KnobError::Unknown);
        assert_eq!(
            (endpoint.set_knob("mtu", 1), rts.set_knob("mtu", 1), rtr.set_knob("mtu", 1)),
            (unknown, unknown, unknown)
        );
        assert_eq!((endpoint.wire.pdcid_order, endpoint.no_receive), (PdcidOrder::RequesterFirst, NoReceive::Nak));
    }

    /// Decisions of `spec/decisions.toml` that a host file can switch.
    #[test]
    fn turns_reports_and_losses_have_names() {
        let mut software = EndpointConfig::default();
        for (name, value) in [
            ("turn_bytes", 65_536),
            ("tack_within_message", 0),
            ("ask_each_message", 0),
            ("merge_sacks", 1),
            ("tail_retry_paced", 1),
            ("silent_packets", 4),
        ] {
            assert_eq!(software.set_knob(name, value), Ok(()), "{name}");
        }
        software.set_knob("ev_probe_rate", 2_000).unwrap();
        assert_eq!(std::format!("{software:?}"), std::format!("{:?}", EndpointConfig::software()));
        let mut rts = RtsAttr::software(Psn::new(0));
        for (name, value) in [
            ("blame_silence", 0),
            ("loss_streak", 2),
            ("plane_lead", 3),
            ("reorder_delay", 4),
            ("reorder_floor", 5),
            ("reorder_tolerance", 6),
            ("tail_probe", 7),
        ] {
            assert_eq!(rts.set_knob(name, value), Ok(()), "{name}");
        }
        assert_eq!((rts.blame_silence, rts.paths.loss_streak, rts.paths.plane_lead), (false, 2, 3));
        assert_eq!(
            (rts.reorder_delay_ns, rts.reorder_floor_ns, rts.reorder_tolerance, rts.tail_probe_ns),
            (4, 5, 6, 7)
        );
        assert_eq!(rts.set_knob("reorder_delay", 2_000_000_000), Err(KnobError::Range));
        assert_eq!(rts.set_knob("tail_probe", 2_000_000_000), Err(KnobError::Range));
        assert_eq!(rts.set_knob("tail_probe", 1_000_000_000), Ok(()), "a second is the longest");
        let actions = [LossEvAction::ByTrimming, LossEvAction::AssumedBad, LossEvAction::Skip, LossEvAction::None];
        for (value, action) in (0..).zip(actions) {
            assert_eq!(rts.set_knob("loss_ev_action", value), Ok(()));
            assert_eq!(rts.paths.loss_ev_action, action);
        }
    }

    #[test]
    fn a_value_that_does_not_fit_changes_nothing() {
        let mut endpoint = EndpointConfig::default();
        assert_eq!(endpoint.set_knob("pkey", 1 << 16), Err(KnobError::Range));
        assert_eq!(endpoint.set_knob("oor_silent", 2), Err(KnobError::Range));
        assert_eq!((endpoint.pkey, endpoint.oor_silent), (0xFFFF, false));
        assert_eq!(RtsAttr::software(Psn::new(0)).set_knob("loss_ev_action", 4), Err(KnobError::Range));
    }
}
