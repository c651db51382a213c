//! What faults do: carriers that go and come, links that change, switches that fall silent.

use mrc_wire::PortNum;

use super::super::port::{Down, LinkSpec, Owner};
use super::super::topology::{LinkId, PortId};
use super::{Fault, Sim};
use crate::host::Host;

impl<H: Host> Sim<H> {
    pub(super) fn fault(&mut self, fault: Fault) {
        self.counters.events -= u64::from(!self.is_first());
        match fault {
            Fault::Cut(link) => self.set_cut(link, true),
            Fault::Heal(link) => self.set_cut(link, false),
            Fault::Degrade(link, spec) => self.degrade(link, spec),
            Fault::Impair(link, spec) => {
                for port in [link.lower(), link.upper()] {
                    self.ports[port.0 as usize].set_impairment(&spec);
                }
            }
            Fault::SwitchDown(index) => self.set_switch(index, true),
            Fault::SwitchUp(index) => self.set_switch(index, false),
            Fault::Silent(index) => self.switches[index as usize].silent = true,
            Fault::Loud(index) => self.switches[index as usize].silent = false,
        }
    }

    pub(super) fn degrade(&mut self, link: LinkId, spec: LinkSpec) {
        for port in [link.lower(), link.upper()] {
            let far = self.ports[port.peer().0 as usize].ingress_ns();
            let port_of = &mut self.ports[port.0 as usize];
            self.capacity.close(port.0, self.now.as_nanos(), port_of.link().rate_bps, port_of.busy_until());
            port_of.set_link(spec, far);
        }
    }

    fn set_cut(&mut self, link: LinkId, cut: bool) {
        for port in [link.lower(), link.upper()] {
            self.ports[port.0 as usize].down().cut = cut;
        }
        self.set_carrier(link);
    }

    fn set_switch(&mut self, index: u32, down: bool) {
        if std::mem::replace(&mut self.switches[index as usize].down, down) == down {
            return;
        }
        for port in 0..self.ports.len() as u32 {
            if self.ports[port as usize].owner != Owner::Switch(index) {
                continue;
            }
            for end in [port, port ^ 1] {
                let switches = &mut self.ports[end as usize].down().switches;
                *switches = if down { *switches + 1 } else { switches.saturating_sub(1) };
            }
            self.set_carrier(PortId(port).link());
        }
    }

    fn set_carrier(&mut self, link: LinkId) {
        let now = self.now.as_nanos();
        for id in [link.lower(), link.upper()] {
            let port = &mut self.ports[id.0 as usize];
            let up = *port.down() == Down::default();
            if port.up == up {
                continue;
            }
            if up {
                port.heal();
            } else {
                port.cut(now);
                self.inlets[id.0 as usize] = port.inlet();
                self.drain(id.0);
            }
            match self.ports[id.0 as usize].owner {
                _ if self.stranger(id.0).is_some() => {}
                Owner::Switch(index) => {
                    let switch = &mut self.switches[index as usize];
                    switch.routes.set_port(id, up);
                    let (scheme, mut ctx) = switch.scheme(self.now, &self.ports, &mut self.requests);
                    scheme.on_link(&mut ctx, id, up);
                    self.serve_requests(index);
                }
                Owner::Host { host, plane } => {
                    let num = PortNum::from_plane(plane);
                    let free = up && !self.ports[id.0 as usize].busy(now);
                    let slot = &mut self.hosts[host];
                    slot.free = if free { slot.free.with(num) } else { slot.free.without(num) };
                    if !up {
                        // Who paused the port can no longer end that.
                        slot.host.on_pause(self.now, num, false, &mut self.world);
                    }
                    slot.host.on_port(self.now, num, up, &mut self.world);
                    self.wake_host(host, self.now);
                }
            }
        }
    }

    /// Loses what stands in the queue of a link that was cut.
    fn drain(&mut self, port: u32) {
        while let Some(id) = self.ports[port as usize].drain(&mut self.arena) {
            let packet = self.arena.get(id);
            if self.queue.pfc.is_some() && !packet.control {
                let (ingress, bytes) = (packet.ingress, packet.wire_len);
                self.account(ingress, false, bytes);
            }
            self.arena.release(id);
        }
    }
}
