//! Switches write into probes that collect telemetry as they leave.

use super::super::telemetry::Egress;
use super::Sim;
use crate::host::Host;

impl<H: Host> Sim<H> {
    #[cold]
    pub(super) fn stamp(&mut self, switch: u32, port_id: u32, packet: u32) {
        let port = &self.ports[port_id as usize];
        let egress = Egress {
            switch,
            port: port_id,
            queued_bytes: port.queued_bytes(),
            rate_bps: port.link().rate_bps,
            tx_bytes: port.counters().tx_bytes,
            flight_ns: port.flight_ns(),
        };
        self.meters.stamp(self.now.as_nanos(), &egress, self.arena.get_mut(packet));
    }
}
