//! Packets go on links: from a switch or a host, and what links do to them.

use mrc_core::Instant;

use super::super::packet::{CORRUPT, Waiting};
use super::super::port::Owner;
use super::super::shape::HEAD_BYTES;
use super::super::telemetry::COLLECTS;
use super::super::topology::PortId;
use super::{Event, Sim};
use crate::host::Host;

impl<H: Host> Sim<H> {
    #[inline(always)]
    pub(super) fn switch_transmit(&mut self, port: u32, mut packet: Waiting) {
        self.counters.switch_hops += 1;
        if self.collects || self.hooks_dequeue {
            packet.bytes = self.before_transmit(port, packet.id);
        }
        self.transmit(port, packet);
        if let Some(at) = self.ports[port as usize].wake(self.now.as_nanos()) {
            self.wheel.schedule(Instant::from_nanos(at), Event::PortFree { port });
        }
    }

    /// What a switch and its scheme do to a packet that begins to leave. Returns its bytes on the wire.
    #[inline(never)]
    fn before_transmit(&mut self, port: u32, packet: u32) -> u32 {
        if let Owner::Switch(index) = self.ports[port as usize].owner {
            if self.arena.get(packet).flags & COLLECTS != 0 {
                self.stamp(index, port, packet);
            }
            if self.switches[index as usize].hooks_dequeue {
                let switch = &mut self.switches[index as usize];
                let (scheme, mut ctx) = switch.scheme(self.now, &self.ports, &mut self.requests);
                scheme.on_dequeue(&mut ctx, PortId(port), self.arena.get_mut(packet));
                self.serve_requests(index);
            }
        }
        self.arena.get(packet).wire_len
    }

    /// Puts a packet on the link behind `port_id` and returns the end of its serialisation.
    #[inline(always)]
    pub(super) fn transmit(&mut self, port_id: u32, packet: Waiting) -> Instant {
        let now = self.now.as_nanos();
        let port = &mut self.ports[port_id as usize];
        let (free_at, mut arrives_at) = port.transmit(now, packet.bytes);
        let epoch = port.epoch;
        self.digest.mix(now << 24 ^ u64::from(port_id) << 12 ^ u64::from(packet.bytes));
        let unusual = port.is_impaired() || self.cut_through || self.tap.is_some();
        if unusual {
            match self.on_wire(port_id, packet, (free_at, arrives_at)) {
                Some(at) => arrives_at = at,
                None => return Instant::from_nanos(free_at),
            }
        }
        self.fly(Instant::from_nanos(arrives_at), port_id ^ 1, packet.id, epoch);
        Instant::from_nanos(free_at)
    }

    /// What a link does to a packet, who captures it, and when a switch that cuts through sees it. Returns when it arrives, if
    /// the link does not lose it.
    #[inline(never)]
    fn on_wire(
        &mut self,
        port_id: u32,
        Waiting { id, bytes }: Waiting,
        (free_at, arrives_at): (u64, u64),
    ) -> Option<u64> {
        let port = &mut self.ports[port_id as usize];
        let packet = self.arena.get_mut(id);
        let (fate, mut arrives_at) = port.impair(bytes, arrives_at, &mut self.rng);
        if fate.lost && packet.control {
            port.counters_mut().lost_control += 1;
        }
        packet.flags |= if fate.corrupt { CORRUPT } else { 0 };
        let (tapped, rate_bps) = (port.tapped, port.link().rate_bps);
        if self.tap.is_some() && tapped {
            self.record(port_id, true, id);
        }
        if self.cut_through && matches!(self.ports[(port_id ^ 1) as usize].owner, Owner::Switch(_)) {
            // The switch at the end sees the packet when its head has arrived.
            let head = (u64::from(bytes.min(HEAD_BYTES)) * 8_000_000_000).div_ceil(rate_bps);
            arrives_at -= (free_at - self.now.as_nanos()).saturating_sub(head);
        }
        if fate.lost {
            self.arena.release(id);
            return None;
        }
        Some(arrives_at)
    }
}
