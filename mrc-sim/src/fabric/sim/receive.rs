//! How hosts take in what they receive: time for each packet, a buffer before it, and pauses where PFC is in use.

use mrc_core::Instant;

use super::{Event, Sim};
use crate::host::Host;

/// How fast hosts take in what their links bring; nothing of it is free of charge in a real host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiveSpec {
    /// Longest extra time before a host looks at a packet, drawn evenly for each packet; they keep their order.
    pub jitter_ns: u32,
    /// Rate at which a host takes packets in, over all its ports, in bit/s; `None`: as they come.
    pub rate_bps: Option<u64>,
    /// Bytes that may wait for that; what finds no room is dropped. With PFC a port is paused when half of it waits.
    pub buffer_bytes: u32,
}

/// The receive buffer of a host.
#[derive(Clone, Copy, Default)]
pub(super) struct Receive {
    /// When the last packet will be taken, and handed over.
    taken_at: u64,
    ready_at: u64,
    bytes: u32,
}

impl<H: Host> Sim<H> {
    /// A packet joins the receive buffer of a host.
    pub(super) fn receive(&mut self, index: u32, plane: u8, port: u32, id: u32) {
        let Some(spec) = self.receive else { return };
        let (bytes, control) = (self.arena.get(id).wire_len, self.arena.get(id).control);
        let jitter = if spec.jitter_ns == 0 { 0 } else { u64::from(self.rng.below(spec.jitter_ns + 1)) };
        let buffer = &mut self.hosts[index].receive;
        if buffer.bytes.saturating_add(bytes) > spec.buffer_bytes {
            self.counters.host_full += 1;
            self.counters.host_full_control += u64::from(control);
            return self.arena.release(id);
        }
        let takes = spec.rate_bps.map_or(0, |rate| u64::from(bytes) * 8_000_000_000 / rate);
        buffer.taken_at = buffer.taken_at.max(self.now.as_nanos()) + takes;
        buffer.ready_at = buffer.ready_at.max(buffer.taken_at + jitter);
        buffer.bytes += bytes;
        let at = Instant::from_nanos(buffer.ready_at);
        self.wheel.schedule(at, Event::Received { host: index, plane, packet: id });
        self.account_host(port, true, (bytes, control), spec);
    }

    pub(super) fn received(&mut self, index: u32, plane: u8, id: u32) {
        let (bytes, control) = (self.arena.get(id).wire_len, self.arena.get(id).control);
        self.hosts[index].receive.bytes -= bytes;
        if let Some(spec) = self.receive {
            let port = self.topology.host_link_id(plane, index).lower().0;
            self.account_host(port, false, (bytes, control), spec);
        }
        self.deliver(index, plane, id);
    }

    /// Data joined or left a host's receive buffer: PFC may have to tell the switch.
    fn account_host(&mut self, port: u32, joined: bool, (bytes, control): (u32, bool), spec: ReceiveSpec) {
        if self.queue.pfc.is_none() || control {
            return;
        }
        let half = u64::from(spec.buffer_bytes) / 2;
        if let Some(paused) = self.ports[port as usize].account_ingress(joined, bytes, (half, half / 2)) {
            self.send_pause(port, paused);
        }
    }
}
