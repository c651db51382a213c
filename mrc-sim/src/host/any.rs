//! Hosts of several transports in one run: which one a host speaks is given by its job.

use mrc_core::{Instant, PortMask};
use mrc_wire::PortNum;

use super::transport::{PathCounts, PathRow, Transport, TransportCounters};
use super::{Host, Soon, Upcoming};
use crate::fabric::Packet;
use crate::workload::Exchange;

/// A host of any transport.
pub type AnyTransport<'s> = Box<dyn Transport + Send + 's>;

impl Host for AnyTransport<'_> {
    type World = Exchange;

    fn on_packet(&mut self, now: Instant, port: PortNum, packet: &Packet, world: &mut Exchange) {
        (**self).on_packet(now, port, packet, world);
    }

    fn on_timer(&mut self, now: Instant, world: &mut Exchange) {
        (**self).on_timer(now, world);
    }

    fn on_port(&mut self, now: Instant, port: PortNum, up: bool, world: &mut Exchange) {
        (**self).on_port(now, port, up, world);
    }

    fn on_pause(&mut self, now: Instant, port: PortNum, paused: bool, world: &mut Exchange) {
        (**self).on_pause(now, port, paused, world);
    }

    fn poll_transmit(
        &mut self,
        now: Instant,
        free: PortMask,
        out: &mut Packet,
        world: &mut Exchange,
    ) -> Option<PortNum> {
        (**self).poll_transmit(now, free, out, world)
    }

    fn next_timeout(&self) -> Option<Instant> {
        (**self).next_timeout()
    }

    fn fetches(&self) -> bool {
        (**self).fetches()
    }

    fn upcoming(&self, soon: Soon<'_>) -> Upcoming {
        (**self).upcoming(soon)
    }

    fn fetch(&self, next: &mut Upcoming, world: &Exchange) {
        (**self).fetch(next, world);
    }
}

impl Transport for AnyTransport<'_> {
    fn counters(&self) -> TransportCounters {
        (**self).counters()
    }

    fn paths(&self) -> PathCounts {
        (**self).paths()
    }

    fn path_table(&self) -> Vec<PathRow> {
        (**self).path_table()
    }

    fn path_state_bytes(&self) -> usize {
        (**self).path_state_bytes()
    }

    fn diagnose(&self, message: u32, exchange: &Exchange) -> String {
        (**self).diagnose(message, exchange)
    }

    fn packet_bytes(&self) -> (u32, u32) {
        (**self).packet_bytes()
    }

    fn acknowledgement_bytes(&self) -> u32 {
        (**self).acknowledgement_bytes()
    }
}
