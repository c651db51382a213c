//! Reads ahead: asks memory for what the next events will begin with.

use mrc_wire::PortNum;

use super::super::port::{Owner, Port};
use super::{Event, Sim};
use crate::host::{Host, Soon};

/// Events that are looked at together, before the first of them is processed: what they read fits into the first cache.
const AHEAD: usize = 32;
/// Steps that each of them is followed: where many queue pairs leave a port to others, who sends in the end is far.
const STEPS: usize = 12;
/// So many ports stay in a second-level cache: a look ahead at them costs more than it gains.
const NEAR_PORTS: usize = 512;
/// Events of an instant from which a look ahead pays where caches hold the hosts: so many of them come from a fabric that does
/// not fit there.
const CROWD: usize = 4;

impl<H: Host> Sim<H> {
    /// Asks for what this event and those after it will begin with, and returns how many they are. Memory answers these reads
    /// together; one by one, each event would wait for its own, and that is most of the time of a fabric that does not fit
    /// into caches.
    pub(super) fn fetch(&mut self, first: Event) -> usize {
        if !self.fetches && self.wheel.left() < CROWD {
            return 1;
        }
        self.ahead.clear();
        self.ahead.push(first);
        self.wheel.next(&mut self.ahead, AHEAD);
        self.foreseen.clear();
        let far = self.ports.len() > NEAR_PORTS;
        for event in &self.ahead {
            match *event {
                Event::Arrive { port, packet, .. } => {
                    let packet = self.arena.get(packet);
                    packet.fetch();
                    if let Owner::Host { .. } = self.inlets[port as usize].owner {
                        packet.fetch_rest();
                    }
                }
                Event::Stored { packet, .. } => self.arena.get(packet).fetch(),
                Event::PortFree { port } if far => {
                    self.ports[port as usize].fetch();
                    self.foreseen.push(port);
                }
                _ => {}
            }
        }
        if self.fetches {
            self.fetch_hosts(far);
        }
        let ports = || self.foreseen.iter().filter_map(|&port| self.ports.get(port as usize));
        ports().for_each(Port::fetch_used);
        ports().for_each(Port::fetch_queue);
        self.ahead.len()
    }

    /// Asks for what hosts will read: first what the packets name, then step by step what that leads to. Asks for the ports of switches,
    /// too, where they are `far`.
    fn fetch_hosts(&mut self, far: bool) {
        self.upcoming.clear();
        for nth in 0..self.ahead.len() {
            let (host, soon) = match self.ahead[nth] {
                Event::Arrive { port, packet, .. } => match self.inlets[port as usize].owner {
                    Owner::Host { host, .. } => {
                        let packet = self.arena.get(packet);
                        self.order.fetch(host - self.hosts.first, packet);
                        (host, Soon::Packet(packet))
                    }
                    Owner::Switch(_) if !far => continue,
                    Owner::Switch(index) => {
                        let switch = &mut self.switches[index as usize];
                        let (scheme, ctx) = switch.scheme(self.now, &self.ports, &mut self.requests);
                        let port = scheme.foresee(&ctx, self.arena.get(packet));
                        if let Some(port) = port.filter(|port| (port.0 as usize) < self.ports.len()) {
                            self.ports[port.0 as usize].fetch();
                            self.foreseen.push(port.0);
                        }
                        continue;
                    }
                },
                Event::PortFree { port } => match self.inlets[port as usize].owner {
                    Owner::Host { host, plane } => (host, Soon::Transmit(PortNum::from_plane(plane))),
                    Owner::Switch(_) => continue,
                },
                Event::HostTimer { host } => (host, Soon::Timer),
                Event::HostWake { host } => (host, Soon::Wake),
                _ => continue,
            };
            self.upcoming.push((host, self.hosts[host].host.upcoming(soon)));
        }
        for _ in 0..STEPS {
            for nth in (0..self.upcoming.len()).rev() {
                let (host, next) = &mut self.upcoming[nth];
                self.hosts[*host].host.fetch(next, &self.world);
                if next.is_done() {
                    self.upcoming.swap_remove(nth);
                }
            }
        }
    }
}
