//! `[protocol]` of a host file: settings for which the verbs interfaces have no attribute.
//!
//! * knobs, by the names of `mrc conform --list-knobs`, for peers that answer an open question of the protocol differently;
//! * the defaults of the specification in place of those tuned for software;
//! * a slow clock for conformance tests.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use mrc_afxdp::device::DeviceConfig;
use mrc_core::{EndpointConfig, KnobError, RtrAttr, RtsAttr};
use mrc_wire::{Psn, Qpn};
use serde::{Deserialize, Serialize};

use crate::QpAttr;

/// Where knobs that are not named get their values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tuning {
    /// What fits hosts whose packets wait for threads: fewer acknowledgements, more patience.
    #[default]
    Software,
    /// The specification, as `mrc conform --list-knobs` prints it.
    Specification,
}

/// The table.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HostProtocol {
    /// Values of the knobs that are not named.
    pub tuning: Tuning,
    /// Real nanoseconds to a nanosecond of the device's clock; 1 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowness: Option<NonZeroU32>,
    /// Knobs by name.
    #[serde(flatten)]
    pub knobs: BTreeMap<String, u64>,
}

impl HostProtocol {
    /// Whether every knob exists and has such a value; the name and what is wrong if not.
    pub(super) fn check(&self) -> Result<(), (&str, String)> {
        let mut endpoint = EndpointConfig::default();
        let mut rts = RtsAttr::software(Psn::new(0));
        for (name, value) in &self.knobs {
            let known = [
                endpoint.set_knob(name, *value),
                rts.set_knob(name, *value),
                if RtrAttr::KNOBS.contains(&name.as_str()) && *value <= 1 { Ok(()) } else { Err(KnobError::Unknown) },
            ];
            if known.contains(&Ok(())) {
                continue;
            }
            let why = if known.contains(&Err(KnobError::Range)) || RtrAttr::KNOBS.contains(&name.as_str()) {
                format!("{value}: no value of this knob; `mrc conform --list-knobs` says what it means")
            } else {
                let names = EndpointConfig::KNOBS.iter().chain(RtsAttr::KNOBS).chain(RtrAttr::KNOBS);
                format!("no such knob; there are {}", names.copied().collect::<Vec<_>>().join(", "))
            };
            return Err((name, why));
        }
        Ok(())
    }

    /// Sets the device up; `[protocol]` decides after everything else in the file.
    pub(super) fn device(&self, config: &mut DeviceConfig) {
        if self.tuning == Tuning::Specification {
            let software = std::mem::take(&mut config.endpoint);
            config.endpoint.wire.dscp = software.wire.dscp;
            config.answer_delay = std::time::Duration::ZERO;
        }
        // `check` has refused what cannot be set.
        for (name, value) in &self.knobs {
            let _ = config.endpoint.set_knob(name, *value);
        }
        config.slowness = self.slowness.unwrap_or(NonZeroU32::MIN);
    }

    /// Both of these for a queue pair of ours; what its first PSN is stays.
    pub fn connect(&self, attr: &mut QpAttr) {
        attr.rts = self.send(attr.rts.sq_psn);
        let mut rtr = RtrAttr::software(attr.peer, Qpn::new(0), Psn::new(0), attr.ev_profile);
        (rtr.trim_nack, rtr.svc_time, rtr.private_stamps_us) = (attr.trim_nack, attr.svc_time, attr.private_stamps_us);
        self.receive(&mut rtr);
        (attr.trim_nack, attr.svc_time, attr.private_stamps_us) = (rtr.trim_nack, rtr.svc_time, rtr.private_stamps_us);
    }

    /// What a queue pair knows when it begins to receive. A knob of another structure is not this one's.
    pub fn receive(&self, rtr: &mut RtrAttr) {
        for (name, value) in &self.knobs {
            let _ = rtr.set_knob(name, *value);
        }
    }

    /// What a queue pair knows when it begins to send.
    pub fn send(&self, sq_psn: Psn) -> RtsAttr {
        let mut rts = match self.tuning {
            Tuning::Software => crate::software_host(sq_psn),
            Tuning::Specification => RtsAttr::software(sq_psn),
        };
        for (name, value) in &self.knobs {
            let _ = rts.set_knob(name, *value);
        }
        rts
    }
}
