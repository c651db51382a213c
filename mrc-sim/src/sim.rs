//! The run: takes events in order, moves packets between ports, switches and hosts, and applies faults.

use mrc_core::Instant;
use mrc_core::PortMask;
use mrc_wire::PortNum;

use crate::host::Host;
use crate::packet::Arena;
use crate::port::{LinkSpec, Offer, Owner, Port, PortCounters};
use crate::switch::{self, Switch, SwitchCounters};
use crate::topology::{Clos, LinkId, PortId, TopologyError};
use crate::trace::{Digest, Tap};
use crate::wheel::Wheel;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The last bit of a packet came in by this port, and the switch's latency has passed.
    Arrive {
        port: u32,
        packet: u32,
    },
    /// The port ends a serialisation and somebody waits for it.
    PortFree {
        port: u32,
    },
    HostTimer {
        host: u32,
    },
    Fault {
        index: u32,
    },
}

/// Something that happens to the fabric at a scheduled time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Both directions stop; queues before the link and packets on it are lost.
    Cut(LinkId),
    /// The link carries again.
    Heal(LinkId),
    /// The link changes rate and delay.
    Degrade(LinkId, LinkSpec),
}

/// Totals of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SimCounters {
    /// Events processed.
    pub events: u64,
    /// Packets a host put on its link.
    pub sent: u64,
    /// Packets that reached a host.
    pub delivered: u64,
    /// Packets sent by a switch's egress port: the packet-hops of `perf.md`.
    pub switch_hops: u64,
}

struct HostSlot<H> {
    host: H,
    /// Ports that serialise nothing and have a carrier.
    free: PortMask,
    /// Earliest pending [`Event::HostTimer`].
    armed: Instant,
}

/// A fabric with its hosts in virtual time. Equal topology, hosts, seed and faults give equal runs, event by event.
pub struct Sim<H: Host> {
    now: Instant,
    wheel: Wheel<Event>,
    clos: Clos,
    ports: Vec<Port>,
    switches: Vec<Switch>,
    hosts: Vec<HostSlot<H>>,
    arena: Arena,
    faults: Vec<Fault>,
    world: H::World,
    counters: SimCounters,
    digest: Digest,
    tap: Option<Tap>,
}

impl<H: Host> Sim<H> {
    /// Builds the fabric and asks `host` for each host, by index.
    ///
    /// # Errors
    /// A topology that cannot be addressed.
    pub fn new(clos: Clos, world: H::World, mut host: impl FnMut(u32) -> H) -> Result<Self, TopologyError> {
        clos.validate()?;
        let mut slot = |index| HostSlot { host: host(index), free: PortMask::first(clos.planes), armed: Instant::ZERO };
        let mut sim = Self {
            now: Instant::ZERO,
            wheel: Wheel::new(),
            clos,
            ports: clos.ports(),
            switches: clos.switches(),
            hosts: (0..clos.hosts).map(&mut slot).collect(),
            arena: Arena::default(),
            faults: Vec::new(),
            world,
            counters: SimCounters::default(),
            digest: Digest::START,
            tap: None,
        };
        // Nothing moves before the first run: taps and faults can still be attached.
        for host in 0..clos.hosts {
            sim.wheel.schedule(Instant::ZERO, Event::HostTimer { host });
        }
        Ok(sim)
    }

    /// Virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The topology this fabric was built from.
    pub fn clos(&self) -> &Clos {
        &self.clos
    }

    /// Schedules `fault`.
    ///
    /// # Panics
    /// When the fabric has no such link.
    pub fn schedule(&mut self, at: Instant, fault: Fault) {
        let (Fault::Cut(link) | Fault::Heal(link) | Fault::Degrade(link, _)) = fault;
        assert!(link.0 < self.clos.links(), "{link:?} does not exist: the fabric has {} links", self.clos.links());
        let index = self.faults.len() as u32;
        self.faults.push(fault);
        self.wheel.schedule(at, Event::Fault { index });
    }

    /// Processes all events up to and including `until`, which becomes the present.
    pub fn run_until(&mut self, until: Instant) {
        while let Some((at, event)) = self.wheel.pop_until(until) {
            self.now = at;
            self.counters.events += 1;
            match event {
                Event::Arrive { port, packet } => self.arrive(port, packet),
                Event::PortFree { port } => self.port_free(port),
                Event::HostTimer { host } => self.host_timer(host),
                Event::Fault { index } => self.fault(self.faults[index as usize]),
            }
        }
        self.now = self.now.max(until);
    }

    /// Runs until nothing is left to happen, or `limit`; returns whether the fabric fell quiet.
    pub fn run_to_quiet(&mut self, limit: Instant) -> bool {
        self.run_until(limit);
        self.wheel.is_empty()
    }

    /// Lets the caller act on a host (post work, read results), then asks the host for packets.
    pub fn with_host<R>(&mut self, index: u32, act: impl FnOnce(&mut H, Instant, &mut H::World) -> R) -> R {
        let result = act(&mut self.hosts[index as usize].host, self.now, &mut self.world);
        self.wake_host(index, self.now);
        result
    }

    /// A host, to look at.
    pub fn host(&self, index: u32) -> &H {
        &self.hosts[index as usize].host
    }

    /// What the hosts share.
    pub fn world(&self) -> &H::World {
        &self.world
    }

    /// What the hosts share, to change between runs of the clock.
    pub fn world_mut(&mut self) -> &mut H::World {
        &mut self.world
    }

    /// Totals so far.
    pub fn counters(&self) -> SimCounters {
        self.counters
    }

    /// Fingerprint of the run so far.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Counters of one egress port.
    pub fn port_counters(&self, port: PortId) -> PortCounters {
        self.ports[port.0 as usize].counters
    }

    /// Bytes waiting before one egress port now.
    pub fn queued_bytes(&self, port: PortId) -> u32 {
        self.ports[port.0 as usize].queued_bytes()
    }

    /// Whether a link carries.
    pub fn link_is_up(&self, link: LinkId) -> bool {
        self.ports[link.lower().0 as usize].up
    }

    /// Name and counters of a switch, see [`Clos::t0_switch`] and [`Clos::t1_switch`].
    pub fn switch(&self, index: usize) -> (&str, SwitchCounters) {
        let switch = &self.switches[index];
        (&switch.name, switch.counters)
    }

    /// Packets anywhere in the fabric now: queued, or on a link.
    pub fn packets_in_fabric(&self) -> usize {
        self.arena.alive()
    }

    /// Captures the packets of `ports`, both directions, into `tap`; replaces an earlier tap.
    pub fn attach_tap(&mut self, tap: Tap, ports: &[PortId]) {
        self.ports.iter_mut().for_each(|port| port.tapped = false);
        for port in ports {
            self.ports[port.0 as usize].tapped = true;
        }
        self.tap = Some(tap);
    }

    /// What the attached tap has captured.
    pub fn tap(&self) -> Option<&Tap> {
        self.tap.as_ref()
    }

    fn arrive(&mut self, port_id: u32, packet: u32) {
        let now = self.now.as_nanos();
        let port = &mut self.ports[port_id as usize];
        if port.lost(self.arena.get(packet).epoch, now) {
            self.ports[(port_id ^ 1) as usize].counters.lost_in_flight += 1;
            self.arena.release(packet);
            return;
        }
        if port.tapped {
            self.record(port_id, false, packet);
        }
        match self.ports[port_id as usize].owner {
            Owner::Switch(index) => self.switch_packet(index, packet),
            Owner::Host { host, plane } => self.deliver(host, plane, packet),
        }
    }

    fn switch_packet(&mut self, index: u32, id: u32) {
        let packet = self.arena.get_mut(id);
        let Ok(egress) = self.switches[index as usize].forward(packet.header_mut()) else {
            self.arena.release(id);
            return;
        };
        let port = &mut self.ports[egress as usize];
        packet.control = port.is_control(switch::dscp(packet.header()));
        if !packet.control && port.congested() && switch::mark_ce(packet.header_mut()) {
            port.counters.ecn_marks += 1;
        }
        match port.offer(self.now.as_nanos(), id, &mut self.arena) {
            Offer::SendNow => self.switch_transmit(egress, id),
            Offer::Queued { wake: Some(at) } => {
                self.wheel.schedule(Instant::from_nanos(at), Event::PortFree { port: egress });
            }
            Offer::Queued { wake: None } => {}
            Offer::Dropped => self.arena.release(id),
        }
    }

    fn switch_transmit(&mut self, port: u32, packet: u32) {
        self.counters.switch_hops += 1;
        self.transmit(port, packet);
        if let Some(at) = self.ports[port as usize].wake() {
            self.wheel.schedule(Instant::from_nanos(at), Event::PortFree { port });
        }
    }

    /// Puts a packet on the link behind `port_id` and returns the end of its serialisation.
    fn transmit(&mut self, port_id: u32, id: u32) -> Instant {
        let port = &mut self.ports[port_id as usize];
        let packet = self.arena.get_mut(id);
        packet.epoch = port.epoch;
        let (free_at, arrives_at) = port.transmit(self.now.as_nanos(), packet.wire_len);
        self.digest.mix(self.now.as_nanos() << 24 ^ u64::from(port_id) << 12 ^ u64::from(packet.wire_len));
        if port.tapped {
            self.record(port_id, true, id);
        }
        self.wheel.schedule(Instant::from_nanos(arrives_at), Event::Arrive { port: port_id ^ 1, packet: id });
        Instant::from_nanos(free_at)
    }

    fn port_free(&mut self, port_id: u32) {
        let port = &mut self.ports[port_id as usize];
        match port.owner {
            Owner::Switch(_) => {
                if let Some(packet) = port.dequeue(&self.arena) {
                    self.switch_transmit(port_id, packet);
                }
            }
            Owner::Host { host, plane } => {
                if port.up && !port.busy(self.now.as_nanos()) {
                    self.hosts[host as usize].free = self.hosts[host as usize].free.with(PortNum::from_plane(plane));
                    self.wake_host(host, self.now);
                }
            }
        }
    }

    fn deliver(&mut self, index: u32, plane: u8, id: u32) {
        let packet = self.arena.get(id);
        self.counters.delivered += 1;
        self.digest.mix(self.now.as_nanos() << 24 ^ u64::from(index) << 8 ^ u64::from(plane));
        self.digest.mix_packet(packet);
        let slot = &mut self.hosts[index as usize];
        slot.host.on_packet(self.now, PortNum::from_plane(plane), packet, &mut self.world);
        self.arena.release(id);
        self.wake_host(index, self.now);
    }

    fn host_timer(&mut self, index: u32) {
        let slot = &mut self.hosts[index as usize];
        if slot.armed != self.now {
            return; // a later, or an earlier, wake-up has replaced this one
        }
        slot.armed = Instant::FAR;
        if slot.host.next_timeout().is_some_and(|at| at <= self.now) {
            slot.host.on_timer(self.now, &mut self.world);
        }
        // A deadline that stays in the past after its timer ran must not stop the clock.
        self.wake_host(index, self.now.after(1));
    }

    /// Takes from a host what it wants to send on its free ports, and files its next timer, not before `earliest`.
    fn wake_host(&mut self, index: u32, earliest: Instant) {
        loop {
            let slot = &mut self.hosts[index as usize];
            if slot.free.is_empty() {
                break;
            }
            let id = self.arena.take();
            let packet = self.arena.get_mut(id);
            let Some(num) = slot.host.poll_transmit(self.now, slot.free, packet, &mut self.world) else {
                self.arena.release(id);
                break;
            };
            debug_assert!(slot.free.contains(num), "a host sends only on free ports");
            slot.free = slot.free.without(num);
            let port = self.clos.host_link_id(num.plane(), index).lower().0;
            self.counters.sent += 1;
            let free_at = self.transmit(port, id);
            self.wheel.schedule(free_at, Event::PortFree { port });
        }
        let slot = &mut self.hosts[index as usize];
        let Some(at) = slot.host.next_timeout() else {
            return;
        };
        let at = at.max(earliest);
        if at < slot.armed {
            slot.armed = at;
            self.wheel.schedule(at, Event::HostTimer { host: index });
        }
    }

    fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::Cut(link) => self.set_carrier(link, false),
            Fault::Heal(link) => self.set_carrier(link, true),
            Fault::Degrade(link, spec) => {
                for port in [link.lower(), link.upper()] {
                    let far = self.ports[port.peer().0 as usize].ingress_ns();
                    self.ports[port.0 as usize].set_link(spec, far);
                }
            }
        }
    }

    fn set_carrier(&mut self, link: LinkId, up: bool) {
        let now = self.now.as_nanos();
        for id in [link.lower(), link.upper()] {
            let port = &mut self.ports[id.0 as usize];
            if port.up == up {
                continue;
            }
            if up {
                port.heal();
            } else {
                port.cut(now, &mut self.arena);
            }
            let Owner::Host { host, plane } = port.owner else {
                continue;
            };
            let num = PortNum::from_plane(plane);
            let slot = &mut self.hosts[host as usize];
            slot.free = if up && !port.busy(now) { slot.free.with(num) } else { slot.free.without(num) };
            slot.host.on_port(self.now, num, up, &mut self.world);
            self.wake_host(host, self.now);
        }
    }

    fn record(&mut self, port: u32, egress: bool, packet: u32) {
        if let Some(tap) = &mut self.tap {
            tap.record(self.now, PortId(port), egress, self.arena.get(packet));
        }
    }
}
