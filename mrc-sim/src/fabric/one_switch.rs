//! One switch alone, for tests of schemes against their algorithm: packets in, verdicts, messages and timers out.

use mrc_core::Instant;

use super::address;
use super::packet::Packet;
use super::port::Port;
use super::scheme::{Requests, Verdict};
use super::switch::Switch;
use super::topology::{Clos, PortId};

/// A switch of plane 0 with its ports idle, and a clock.
pub(crate) struct OneSwitch {
    clos: Clos,
    leaf: u16,
    ports: Vec<Port>,
    switch: Switch,
    requests: Requests,
    pub(crate) now: Instant,
}

impl OneSwitch {
    /// Leaf number `leaf`.
    pub(crate) fn leaf(clos: Clos, leaf: u16) -> Self {
        let switch = clos.switches(1).swap_remove(clos.t0_switch(0, leaf));
        Self { clos, leaf, ports: clos.ports(), switch, requests: Requests::default(), now: Instant::ZERO }
    }

    /// Sets the clock.
    pub(crate) fn at_us(&mut self, us: f64) -> &mut Self {
        self.now = Instant::from_nanos((us * 1e3) as u64);
        self
    }

    pub(crate) fn forward(&mut self, packet: &mut Packet) -> Verdict {
        let (scheme, mut ctx) = self.switch.scheme(self.now, &self.ports, &mut self.requests);
        scheme.forward(&mut ctx, PortId(0), packet).expect("a packet for a host of the fabric")
    }

    /// The uplink that a packet takes, by the number of its spine.
    pub(crate) fn uplink(&mut self, packet: &mut Packet) -> u16 {
        let verdict = self.forward(packet);
        let to = |t1: &u16| verdict == Verdict::To(self.clos.fabric_link_id(0, self.leaf, *t1).lower());
        (0..self.clos.t1).find(to).unwrap_or_else(|| panic!("{verdict:?} is no uplink"))
    }

    /// Lets a timer run out.
    pub(crate) fn fire(&mut self, timer: u32) {
        let (scheme, mut ctx) = self.switch.scheme(self.now, &self.ports, &mut self.requests);
        scheme.on_timer(&mut ctx, timer);
    }

    /// Timers set since the last call.
    pub(crate) fn timers(&mut self) -> Vec<(Instant, u32)> {
        std::mem::take(&mut self.requests.timers)
    }

    /// Packets sent since the last call.
    pub(crate) fn sent(&mut self) -> Vec<Packet> {
        std::mem::take(&mut self.requests.packets).into_iter().map(|(_, packet)| *packet).collect()
    }

    /// Queues let go since the last call.
    pub(crate) fn released(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.requests.releases)
    }
}

/// A data packet of 1250 bytes of flow `sport` from host `from` to host `to`.
pub(crate) fn packet(from: u32, to: u32, sport: u16) -> Packet {
    let mut packet = Packet::new();
    let head = packet.buffer();
    head[12..14].copy_from_slice(&[0x86, 0xdd]);
    // ECN-capable, so that a mark can be written.
    (head[14], head[15], head[21]) = (0x60, 0x20, 64);
    head[22..38].copy_from_slice(&address::gid(from));
    head[38..54].copy_from_slice(&address::gid(to));
    head[54..56].copy_from_slice(&sport.to_be_bytes());
    packet.set_header_len(80);
    packet.wire_len = 1250;
    packet
}
