//! The endpoint's own ports: which are up, and through which of them a QP reaches its peer.

use mrc_wire::PortNum;

use super::Endpoint;
use crate::{event::Event, port::PortMask, time::Instant};

impl Endpoint<'_> {
    /// Tells the engine that the link of a port went up or down. EVs of a port that is down are not used; they keep their
    /// states. Peers hear of it by Port Status Updates. With a `call_budget` QPs and peers hear of it over several calls; no
    /// packet leaves through a port that is down meanwhile.
    //= PORT-001, PORT-003
    pub fn set_port(&mut self, now: Instant, port: PortNum, up: bool) {
        self.linked = if up { self.linked.with(port) } else { self.linked.without(port) };
        self.refresh_port(now, port);
    }

    /// Takes a port out of use, or back into it, whatever its link does: as if the link had gone down. Ports begin enabled.
    //= PORT-001, PORT-003
    pub fn set_port_admin(&mut self, now: Instant, port: PortNum, enabled: bool) {
        self.enabled = if enabled { self.enabled.with(port) } else { self.enabled.without(port) };
        self.refresh_port(now, port);
    }

    /// A port is up when its link is and nobody disabled it.
    fn refresh_port(&mut self, now: Instant, port: PortNum) {
        let known = self.cfg.port_mask().contains(port);
        let up = self.linked.contains(port) && self.enabled.contains(port);
        if !known || self.up.contains(port) == up {
            return;
        }
        self.up = if up { self.up.with(port) } else { self.up.without(port) };
        self.events.raise(&mut self.stats, Event::Port { port, up });
        self.walk_ports(now);
    }

    /// The ports that are not disabled, with a link or without.
    pub fn ports_enabled(&self) -> PortMask {
        self.enabled.and(self.ports)
    }

    /// The ports that are up.
    pub fn ports_up(&self) -> PortMask {
        self.up
    }

    /// Ports through which the QP's peer can be reached now.
    pub(super) fn usable_ports(&self, qp: u32) -> PortMask {
        self.qps
            .get(qp as usize)
            .and_then(|slot| self.peers.get(slot.peer as usize))
            .map_or(PortMask::NONE, |peer| self.ports_to(peer))
    }

    /// Ports for probes of the QP: as [`Self::usable_ports`], but those masked by the peer where no other is left.
    pub(super) fn testable_ports(&self, qp: u32) -> PortMask {
        let peer = self.qps.get(qp as usize).and_then(|slot| self.peers.get(slot.peer as usize));
        peer.map_or(PortMask::NONE, |peer| self.ports_to_test(peer))
    }

    /// Ports with a way to the QP's peer, up or not.
    pub(super) fn reachable_ports(&self, qp: u32) -> PortMask {
        let peer = self.qps.get(qp as usize).and_then(|slot| self.peers.get(slot.peer as usize));
        peer.map_or(PortMask::NONE, |peer| peer.reachable)
    }

    /// Whether a QP has urgent packets for ports without room alone, as far as is known. Reads little of it.
    pub(super) fn waits_for_room(&self, qp: u32, room: PortMask) -> bool {
        self.qps
            .get(qp as usize)
            .is_some_and(|slot| !slot.req.resend_tail && slot.req.probes.waits_for_room(room, self.testable_ports(qp)))
    }

    /// Whether a QP has used some plane more than others, as far as it may.
    #[inline(always)]
    pub(super) fn is_ahead(&self, qp: u32) -> bool {
        self.qps.get(qp as usize).is_some_and(|slot| slot.paths.is_ahead())
    }

    /// Whether a QP with new packets, being ahead on their planes, leaves the ports with `room` to others. Reads little of it.
    //= BAL-007
    pub(super) fn leaves_to_others(&self, qp: u32, room: PortMask) -> bool {
        let towards = self.usable_ports(qp);
        self.qps.get(qp as usize).is_some_and(|slot| slot.paths.leaves_to_others(room, towards))
    }
}
