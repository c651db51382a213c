//! Hosts of two transports in one run: which one a host speaks is given by its job.

use mrc_core::{Instant, PortMask};
use mrc_wire::PortNum;

use super::transport::{PathCounts, PathRow, Transport, TransportCounters};
use super::{Host, MrcTransport, RoceTransport, Soon, Upcoming};
use crate::fabric::Packet;
use crate::workload::Exchange;

/// A host that speaks one of the transports.
pub enum MixedHost<'s> {
    /// MRC.
    Mrc(Box<MrcTransport<'s>>),
    /// RoCEv2.
    Roce(Box<RoceTransport>),
}

macro_rules! each {
    ($self:ident, $host:ident => $call:expr) => {
        match $self {
            Self::Mrc($host) => $call,
            Self::Roce($host) => $call,
        }
    };
}

impl Host for MixedHost<'_> {
    type World = Exchange;

    fn on_packet(&mut self, now: Instant, port: PortNum, packet: &Packet, world: &mut Exchange) {
        each!(self, host => host.on_packet(now, port, packet, world));
    }

    fn on_timer(&mut self, now: Instant, world: &mut Exchange) {
        each!(self, host => host.on_timer(now, world));
    }

    fn on_port(&mut self, now: Instant, port: PortNum, up: bool, world: &mut Exchange) {
        each!(self, host => host.on_port(now, port, up, world));
    }

    fn on_pause(&mut self, now: Instant, port: PortNum, paused: bool, world: &mut Exchange) {
        each!(self, host => host.on_pause(now, port, paused, world));
    }

    fn poll_transmit(
        &mut self,
        now: Instant,
        free: PortMask,
        out: &mut Packet,
        world: &mut Exchange,
    ) -> Option<PortNum> {
        each!(self, host => host.poll_transmit(now, free, out, world))
    }

    fn next_timeout(&self) -> Option<Instant> {
        each!(self, host => host.next_timeout())
    }

    fn fetches(&self) -> bool {
        each!(self, host => host.fetches())
    }

    fn upcoming(&self, soon: Soon<'_>) -> Upcoming {
        each!(self, host => host.upcoming(soon))
    }

    fn fetch(&self, next: &mut Upcoming, world: &Exchange) {
        each!(self, host => host.fetch(next, world));
    }
}

impl Transport for MixedHost<'_> {
    fn counters(&self) -> TransportCounters {
        each!(self, host => host.counters())
    }

    fn paths(&self) -> PathCounts {
        each!(self, host => host.paths())
    }

    fn path_table(&self) -> Vec<PathRow> {
        each!(self, host => host.path_table())
    }

    fn path_state_bytes(&self) -> usize {
        each!(self, host => host.path_state_bytes())
    }

    fn diagnose(&self, message: u32, exchange: &Exchange) -> String {
        each!(self, host => host.diagnose(message, exchange))
    }

    fn packet_bytes(&self) -> (u32, u32) {
        each!(self, host => host.packet_bytes())
    }

    fn acknowledgement_bytes(&self) -> u32 {
        each!(self, host => host.acknowledgement_bytes())
    }
}
