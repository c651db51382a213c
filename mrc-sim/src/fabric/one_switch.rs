//! One switch alone, for tests of schemes against their algorithm: packets in, verdicts, messages and timers out.

use mrc_core::{Instant, Rng};

use super::address;
use super::packet::{Arena, Packet};
use super::port::{LinkSpec, Offer, Port};
use super::queue::QueueSpec;
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
    arena: Arena,
    pub(crate) now: Instant,
    /// What the scheme foresaw for the last packet.
    pub(crate) foreseen: Option<PortId>,
}

impl OneSwitch {
    /// Leaf number `leaf`.
    pub(crate) fn leaf(clos: Clos, leaf: u16) -> Self {
        let switch = clos.switches(1).swap_remove(clos.t0_switch(0, leaf));
        Self {
            clos,
            leaf,
            ports: clos.ports(),
            switch,
            requests: Requests::default(),
            arena: Arena::default(),
            now: Instant::ZERO,
            foreseen: None,
        }
    }

    /// Sets the clock.
    pub(crate) fn at_us(&mut self, us: f64) -> &mut Self {
        self.now = Instant::from_nanos((us * 1e3) as u64);
        self
    }

    pub(crate) fn forward(&mut self, packet: &mut Packet) -> Verdict {
        let (scheme, mut ctx) = self.switch.scheme(self.now, &self.ports, &mut self.requests);
        self.foreseen = scheme.foresee(&ctx, packet);
        let verdict = scheme.forward(&mut ctx, PortId(0), packet).expect("a packet for a host of the fabric");
        assert!(self.foreseen.is_none_or(|port| verdict == Verdict::To(port)), "{:?} {verdict:?}", self.foreseen);
        verdict
    }

    /// The uplink that a packet takes, by the number of its spine.
    pub(crate) fn uplink(&mut self, packet: &mut Packet) -> u16 {
        let verdict = self.forward(packet);
        let to = |t1: &u16| verdict == Verdict::To(self.clos.fabric_link_id(0, self.leaf, *t1).lower());
        (0..self.clos.t1).find(to).unwrap_or_else(|| panic!("{verdict:?} is no uplink"))
    }

    fn uplink_port(&self, spine: u16) -> PortId {
        self.clos.fabric_link_id(0, self.leaf, spine).lower()
    }

    /// Replaces what waits before the uplink to a spine by `bytes`.
    pub(crate) fn set_queue(&mut self, spine: u16, bytes: u32) {
        let id = self.uplink_port(spine).0 as usize;
        let port = &mut self.ports[id];
        while let Some(packet) = port.drain(&mut self.arena) {
            self.arena.release(packet);
        }
        if bytes > 0 {
            // Something long is being sent, and this waits behind it.
            port.transmit(self.now.as_nanos(), 1_000_000_000);
            let packet = self.arena.take();
            self.arena.get_mut(packet).wire_len = bytes;
            let spec = QueueSpec { data_bytes: u32::MAX, ..QueueSpec::default() };
            let offer = port.offer(self.now.as_nanos(), packet, &spec, &mut self.arena, &mut Rng::new(0));
            assert!(matches!(offer, Offer::Queued { .. }), "{offer:?}");
        }
        assert_eq!(port.queued_bytes(), bytes);
    }

    /// Changes the rate of the uplink to a spine.
    pub(crate) fn set_gbps(&mut self, spine: u16, gbps: u64) {
        let port = self.uplink_port(spine).0 as usize;
        self.ports[port].set_link(LinkSpec::new(gbps, 500), 0);
    }

    /// The carrier of the uplink to a spine comes or goes.
    pub(crate) fn set_up(&mut self, spine: u16, up: bool) {
        let port = self.uplink_port(spine);
        self.ports[port.0 as usize].up = up;
        self.switch.routes.set_port(port, up);
        let (scheme, mut ctx) = self.switch.scheme(self.now, &self.ports, &mut self.requests);
        scheme.on_link(&mut ctx, port, up);
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
