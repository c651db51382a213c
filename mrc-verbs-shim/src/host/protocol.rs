//! `[protocol]` of a host file: settings for which the verbs interfaces have no attribute.
//!
//! * knobs, by the names of `mrc conform --list-knobs`, for peers that answer an open question of the protocol differently;
//! * the defaults of the specification in place of those tuned for software;
//! * a slow clock for conformance tests.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;

use mrc_afxdp::device::DeviceConfig;
use mrc_core::{ConfigError, Endpoint, EndpointConfig, KnobError, Limits, OwnedStorage, PortConfig, RtrAttr, RtsAttr};
use mrc_wire::{DscpPlan, Ip, Psn, Qpn};
use serde::de::{Deserializer, MapAccess, Visitor};
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
#[derive(Debug, Clone, Default, Serialize)]
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

/// By hand, because an error within flattened fields does not say where it is.
impl<'de> Deserialize<'de> for HostProtocol {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Table;
        impl<'de> Visitor<'de> for Table {
            type Value = HostProtocol;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<HostProtocol, A::Error> {
                let mut table = HostProtocol::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "tuning" => table.tuning = map.next_value()?,
                        "slowness" => table.slowness = map.next_value()?,
                        _ => _ = table.knobs.insert(key, map.next_value()?),
                    }
                }
                Ok(table)
            }
        }
        deserializer.deserialize_map(Table)
    }
}

impl HostProtocol {
    /// Whether every knob exists and has such a value, also beside the others and `[dscp]`; the name and what is wrong if
    /// not.
    pub(super) fn check(&self, dscp: DscpPlan) -> Result<(), (&str, String)> {
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
                no_value(*value)
            } else {
                let names = EndpointConfig::KNOBS.iter().chain(RtsAttr::KNOBS).chain(RtrAttr::KNOBS);
                format!("no such knob; there are {}", names.copied().collect::<Vec<_>>().join(", "))
            };
            return Err((name, why));
        }
        let Some(refused) = refused(self.endpoint(dscp, None)) else { return Ok(()) };
        // The knob without which that is not refused; several code points may be equal.
        let at_fault = |name: &&String| refused != self::refused(self.endpoint(dscp, Some(name))).unwrap_or_default();
        let Some(name) = self.knobs.keys().find(at_fault).or(self.knobs.keys().next()) else { return Ok(()) };
        let shared = self.endpoint(dscp, None).wire.dscp.check().err().filter(|_| name.starts_with("dscp_"));
        Err((name, shared.map_or_else(|| no_value(self.knobs[name]), |shared| shared.to_string())))
    }

    /// What the engine is told, but for one knob.
    fn endpoint(&self, dscp: DscpPlan, without: Option<&str>) -> EndpointConfig {
        let mut named = self.clone();
        named.knobs.retain(|name, _| Some(name.as_str()) != without);
        let mut config = DeviceConfig::new("", Vec::new(), [0; 16]);
        config.endpoint.wire.dscp = dscp;
        named.device(&mut config);
        config.endpoint
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

fn no_value(value: u64) -> String {
    format!("{value}: no value of this knob; `mrc conform --list-knobs` says what it means")
}

/// What the engine does not accept, by its name there.
fn refused(mut endpoint: EndpointConfig) -> Option<&'static str> {
    let limits =
        Limits { qps: 1, cqs: 1, mrs: 1, peers: 1, ev_profiles: 1, cc_profiles: 1, qpccs: 1, ..Limits::default() };
    let mut storage = OwnedStorage::new(limits).ok()?;
    endpoint.ports[0] = Some(PortConfig { mac: [2, 0, 0, 0, 0, 1], sid: None, addr: None });
    endpoint.gids[0] = Some(Ip::V6([0; 16]));
    match Endpoint::new(endpoint, storage.lend(), 1) {
        Err(ConfigError::Range { what }) => Some(what),
        _ => None,
    }
}
