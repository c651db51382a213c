//! The host's half of in-band telemetry: probes ask switches to write, the answer to a probe brings back what they wrote, and
//! the engine hears of it. The engine itself knows nothing of records in frames.

use std::collections::BTreeMap;

use mrc_core::path::PathTelemetry;
use mrc_core::{Endpoint, Instant, QpHandle};
use mrc_wire::{Body, Ev, Extension, PacketView, SackRepr, WireConfig};

use crate::fabric::{Packet, Report};

/// Reports that wait for the answer of the engine to their probe; an engine that answers fewer loses all of them.
const WAITING: usize = 4_096;

/// What the selectors of a host take for the bandwidth of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathBandwidth {
    /// The least rate of its links.
    LeastRate,
    /// The greatest rate in use on one of its links.
    GreatestLoad,
}

impl PathBandwidth {
    fn mbps(self, report: &Report) -> u32 {
        match self {
            Self::LeastRate => report.bandwidth_mbps(),
            Self::GreatestLoad => report.hops().map(|hop| hop.used_mbps()).max().unwrap_or(0),
        }
    }
}

/// The telemetry of one host.
pub(super) struct Telemetry {
    bandwidth: PathBandwidth,
    /// What came in with a probe: by the low half of our queue pair's number and the probe's identifier.
    waiting: BTreeMap<(u16, u16), Report>,
    /// What came back last: by queue pair and EV.
    told: BTreeMap<(u32, u32), Report>,
}

/// What a frame is to telemetry.
enum Role {
    Probe { qpn: u16, id: u16 },
    Answer { qpn: u32, sack: SackRepr },
}

fn role(header: &[u8], wire_len: usize) -> Option<Role> {
    let view = PacketView::parse(header, wire_len, &WireConfig::default(), |_| true).ok()?;
    match view.extension() {
        Extension::Probe(_) | Extension::Sack(_) => {}
        _ => return None,
    }
    let qpn = view.dest_qp().value();
    match view.body() {
        Body::Probe(probe) => Some(Role::Probe { qpn: qpn as u16, id: probe.probe_id }),
        Body::Sack(sack) if sack.probe_answer => Some(Role::Answer { qpn, sack }),
        _ => None,
    }
}

impl Telemetry {
    pub(super) fn new(bandwidth: PathBandwidth) -> Self {
        Self { bandwidth, waiting: BTreeMap::new(), told: BTreeMap::new() }
    }

    /// A packet that the engine made is about to leave; `engine_len` is its length as the engine has it.
    pub(super) fn on_transmit(&mut self, engine_len: usize, packet: &mut Packet) {
        match role(packet.header(), engine_len) {
            Some(Role::Probe { .. }) => packet.collect_telemetry(),
            Some(Role::Answer { sack, .. }) => {
                if let Some(report) = self.waiting.remove(&(sack.spdcid, sack.probe_id())) {
                    packet.return_telemetry(&report);
                }
            }
            None => {}
        }
    }

    /// A packet brought telemetry; the engine gets its `header` next.
    pub(super) fn on_receive(
        &mut self,
        now: Instant,
        (header, wire_len): (&[u8], usize),
        report: &Report,
        endpoint: &mut Endpoint<'_>,
    ) {
        match role(header, wire_len) {
            Some(Role::Probe { qpn, id }) => {
                if self.waiting.len() >= WAITING {
                    self.waiting.clear();
                }
                self.waiting.insert((qpn, id), *report);
            }
            Some(Role::Answer { qpn, sack }) => {
                let Some(qp) = endpoint.qps().find(|qp| qp.qpn().value() == qpn) else { return };
                let told = PathTelemetry { bandwidth_mbps: self.bandwidth.mbps(report), delay_ns: report.delay_ns() };
                endpoint.report_telemetry(now, qp, sack.entropy, told);
                self.told.insert((qpn, sack.entropy.0), *report);
            }
            None => {}
        }
    }

    /// The queue pair ends.
    pub(super) fn forget(&mut self, qp: QpHandle) {
        self.told.retain(|&(qpn, _), _| qpn != qp.qpn().value());
    }

    /// What came back last from a path.
    pub(super) fn of(&self, qp: QpHandle, ev: Ev) -> Option<&Report> {
        self.told.get(&(qp.qpn().value(), ev.0))
    }
}
