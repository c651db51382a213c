//! The run: takes events in order, moves packets between ports, switches and hosts, and applies faults.

mod ahead;
mod capacity;
mod counters;
mod faults;
mod mail;
mod order;
mod pause;
mod receive;
mod telemetry;
mod wire;

use mrc_core::{Instant, PortMask, Rng};
use mrc_wire::PortNum;

use super::impair::Impairment;
use super::packet::{Arena, Fifo, LOADED, Waiting};
use super::port::{Inlet, LinkSpec, Offer, Owner, Port, PortCounters};
use super::queue::QueueSpec;
use super::scheme::{Requests, Verdict};
use super::shape::{HEAD_BYTES, Topology};
use super::switch::{self, NoForward, Switch, SwitchCounters};
use super::telemetry::{COLLECTS, Meters};
use super::topology::{Clos, LinkId, PortId, Tier, TopologyError};
use super::trace::{Digest, Tap};
use super::wheel::Wheel;
use crate::host::{Host, Upcoming, World};

use capacity::{BitNanos, Capacity};
pub use counters::SimCounters;
use mail::Hosts;
pub(super) use mail::{Mail, Share};
use order::Order;
use receive::Receive;
pub use receive::ReceiveSpec;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The last bit of a packet came in by this port, and the switch's latency has passed.
    Arrive {
        port: u32,
        packet: u32,
        /// Of the link, when the packet left: a cut changes it.
        epoch: u16,
    },
    /// The port ends a serialisation and somebody waits for it.
    PortFree {
        port: u32,
    },
    /// A packet that a switch could not begin to forward before its last bit is there.
    Stored {
        egress: u32,
        packet: u32,
    },
    /// A host took a packet out of its receive buffer.
    Received {
        host: u32,
        plane: u8,
        packet: u32,
    },
    HostTimer {
        host: u32,
    },
    /// A scheme asked for it.
    SwitchTimer {
        switch: u32,
        timer: u32,
    },
    /// The world has something for the host.
    HostWake {
        host: u32,
    },
    /// A pause frame, or the end of a pause, reached this port.
    Pause {
        port: u32,
        paused: bool,
        epoch: u16,
    },
    Fault {
        index: u32,
    },
}

/// Something that happens to the fabric at a scheduled time. Switches are numbered by [`Clos::t0_switch`] and
/// [`Clos::t1_switch`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fault {
    /// Both directions stop; queues before the link and packets on it are lost.
    Cut(LinkId),
    /// The link carries again, if no switch at its ends is down.
    Heal(LinkId),
    /// The link changes rate and delay.
    Degrade(LinkId, LinkSpec),
    /// Both directions of the link lose, corrupt or delay packets from now on; the default impairment ends that.
    Impair(LinkId, Impairment),
    /// The switch goes down, and with it the carrier of all its links.
    SwitchDown(u32),
    /// The switch is back.
    SwitchUp(u32),
    /// The switch drops whatever it receives, with its carriers up: nobody is told.
    Silent(u32),
    /// The silent switch forwards again.
    Loud(u32),
}

/// The queues of all switch ports of one tier, now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TierQueue {
    /// Ports of the tier.
    pub ports: u32,
    /// Bytes waiting in all of them.
    pub total_bytes: u64,
    /// Bytes waiting in the fullest one.
    pub max_bytes: u64,
}

struct HostSlot<H> {
    host: H,
    receive: Receive,
    /// Ports that serialise nothing and have a carrier.
    free: PortMask,
    /// Earliest pending [`Event::HostTimer`].
    armed: Instant,
}

/// A fabric with its hosts in virtual time. Equal topology, hosts, seed and faults give equal runs, event by event.
pub struct Sim<H: Host> {
    now: Instant,
    wheel: Wheel<Event>,
    topology: Topology,
    cut_through: bool,
    /// Whether somebody asks by which port a packet came in.
    keeps_ingress: bool,
    /// Whether a scheme wants to see what leaves.
    hooks_dequeue: bool,
    /// Whether packets may collect telemetry.
    collects: bool,
    receive: Option<ReceiveSpec>,
    queue: QueueSpec,
    /// Draws marks, trimming victims and losses.
    rng: Rng,
    ports: Vec<Port>,
    inlets: Vec<Inlet>,
    switches: Vec<Switch>,
    hosts: Hosts<H>,
    arena: Arena,
    faults: Vec<Fault>,
    capacity: Capacity,
    world: H::World,
    counters: SimCounters,
    digest: Digest,
    tap: Option<Tap>,
    /// What the scheme that was called last asked for.
    requests: Requests,
    meters: Meters,
    order: Order,
    /// The events that were looked at last, and how many of them are still to come.
    ahead: Vec<Event>,
    read: usize,
    /// What hosts will do with them.
    upcoming: Vec<(u32, Upcoming)>,
    /// The ports among it.
    foreseen: Vec<u32>,
    /// Whether hosts are worth a look, and events of later instants.
    fetches: bool,
    /// Where only a share of the fabric is here: which, and what goes to the others.
    share: Option<Share>,
}

impl<H: Host> Sim<H> {
    /// Builds the fabric and asks `host` for each host, by index. `seed` is the fabric's own: marks, trimming victims,
    /// losses and ECMP hashes; hosts bring theirs.
    ///
    /// # Errors
    /// A topology that cannot be addressed.
    pub fn new(
        topology: impl Into<Topology>,
        seed: u64,
        world: H::World,
        mut host: impl FnMut(u32) -> H,
    ) -> Result<Self, TopologyError> {
        let topology = topology.into();
        topology.validate()?;
        let hosts = (0..topology.hosts()).map(&mut host).collect();
        Ok(Self::assemble(topology, seed, world, (0, hosts), None))
    }

    /// A fabric of which the hosts from `first` on are here, and the switches that `share` names.
    pub(super) fn assemble(
        topology: Topology,
        seed: u64,
        world: H::World,
        (first, hosts): (u32, Vec<H>),
        share: Option<Share>,
    ) -> Self {
        let slot = |(index, host)| HostSlot {
            host,
            receive: Receive::default(),
            free: topology.port_mask(index),
            armed: Instant::ZERO,
        };
        let ports = topology.ports();
        let mut sim = Self {
            now: Instant::ZERO,
            wheel: Wheel::new(),
            cut_through: topology.cut_through(),
            keeps_ingress: topology.cut_through() || topology.queue().pfc.is_some(),
            hooks_dequeue: false,
            collects: false,
            receive: None,
            queue: topology.queue(),
            rng: Rng::new(share.as_ref().map_or(seed, |share| share.seed(seed))),
            inlets: ports.iter().map(Port::inlet).collect(),
            ports,
            switches: topology.switches(seed),
            hosts: Hosts { first, slots: (first..).zip(hosts).map(slot).collect() },
            topology,
            arena: Arena::default(),
            faults: Vec::new(),
            capacity: Capacity::default(),
            world,
            counters: SimCounters::default(),
            digest: Digest::START,
            tap: None,
            requests: Requests::default(),
            meters: Meters::default(),
            order: Order::default(),
            ahead: Vec::new(),
            read: 0,
            upcoming: Vec::new(),
            foreseen: Vec::new(),
            fetches: false,
            share,
        };
        for port in &sim.ports {
            if let Owner::Switch(index) = port.owner {
                sim.switches[index as usize].rate_bps += port.link().rate_bps;
            }
        }
        (0..sim.switches.len() as u32).for_each(|switch| sim.size_buffer(switch));
        sim.hooks_dequeue = sim.switches.iter().any(|switch| switch.hooks_dequeue);
        sim.fetches = sim.hosts.slots.iter().any(|slot| slot.host.fetches());
        // Nothing moves before the first run: taps and faults can still be attached.
        for host in sim.hosts.numbers() {
            sim.wheel.schedule(Instant::ZERO, Event::HostTimer { host });
        }
        sim
    }

    /// Virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The topology this fabric was built from.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The same, of a fabric built from a [`Clos`].
    ///
    /// # Panics
    /// When it was built from a graph.
    pub fn clos(&self) -> &Clos {
        self.topology.as_clos().expect("a fabric that was built from a Clos")
    }

    /// Makes hosts take time for what they receive. Before the run.
    pub fn set_receive(&mut self, spec: ReceiveSpec) {
        self.receive = Some(spec);
    }

    /// Schedules `fault`.
    ///
    /// # Panics
    /// When the fabric has no such link or switch.
    pub fn schedule(&mut self, at: Instant, fault: Fault) {
        match fault {
            Fault::Cut(link) | Fault::Heal(link) | Fault::Degrade(link, _) | Fault::Impair(link, _) => {
                let links = self.topology.links();
                assert!(link.0 < links, "{link:?} does not exist: the fabric has {links} links");
            }
            Fault::SwitchDown(index) | Fault::SwitchUp(index) | Fault::Silent(index) | Fault::Loud(index) => {
                let switches = self.switches.len();
                assert!((index as usize) < switches, "switch {index} does not exist: the fabric has {switches}");
            }
        }
        let index = self.faults.len() as u32;
        self.faults.push(fault);
        self.wheel.schedule(at, Event::Fault { index });
    }

    /// Changes a link before the run, or at any time between two calls.
    ///
    /// # Panics
    /// As [`Sim::schedule`].
    pub fn set_link(&mut self, link: LinkId, spec: LinkSpec) {
        for port in [link.lower(), link.upper()] {
            let port = &self.ports[port.0 as usize];
            if let Owner::Switch(index) = port.owner {
                let switch = &mut self.switches[index as usize];
                switch.rate_bps = switch.rate_bps - port.link().rate_bps + spec.rate_bps;
                self.size_buffer(index);
            }
        }
        self.degrade(link, spec);
    }

    /// Gives a switch the shared buffer that belongs to the rates of its ports.
    fn size_buffer(&mut self, index: u32) {
        let switch = &mut self.switches[index as usize];
        switch.buffer = self.queue.pfc.map_or(0, |pfc| pfc.buffer_bytes(switch.rate_bps));
    }

    /// Processes all events up to and including `until`, which becomes the present.
    pub fn run_until(&mut self, until: Instant) {
        self.run_events(until, u64::MAX);
    }

    /// As [`Sim::run_until`], but at most `most` events; returns whether `until` was reached.
    pub fn run_events(&mut self, until: Instant, most: u64) -> bool {
        let stop = self.counters.events.saturating_add(most);
        while self.counters.events < stop {
            let Some((at, event)) = self.wheel.pop_until(until) else {
                self.now = self.now.max(until);
                return true;
            };
            self.now = at;
            if self.read == 0 {
                self.read = self.fetch(event);
            }
            self.read -= 1;
            self.counters.events += 1;
            match event {
                Event::Arrive { port, packet, epoch } => self.arrive(port, packet, epoch),
                Event::PortFree { port } => self.port_free(port),
                Event::Stored { egress, packet } => self.offer(egress, packet),
                Event::Received { host, plane, packet } => self.received(host, plane, packet),
                Event::HostTimer { host } => self.host_timer(host),
                Event::SwitchTimer { switch, timer } => self.switch_timer(switch, timer),
                Event::HostWake { host } => self.host_wake(host),
                Event::Pause { port, paused, epoch } => self.pause(port, paused, epoch),
                Event::Fault { index } => self.fault(self.faults[index as usize]),
            }
        }
        false
    }

    /// Whether nothing is left to happen.
    pub fn is_quiet(&self) -> bool {
        self.wheel.is_empty()
    }

    /// Runs until nothing is left to happen, or `limit`; returns whether the fabric fell quiet.
    pub fn run_to_quiet(&mut self, limit: Instant) -> bool {
        self.run_until(limit);
        self.wheel.is_empty()
    }

    /// Lets the caller act on a host (post work, read results), then asks the host for packets.
    pub fn with_host<R>(&mut self, index: u32, act: impl FnOnce(&mut H, Instant, &mut H::World) -> R) -> R {
        let result = act(&mut self.hosts[index].host, self.now, &mut self.world);
        self.wake_host(index, self.now);
        result
    }

    /// A host, to look at.
    pub fn host(&self, index: u32) -> &H {
        &self.hosts[index].host
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
        self.ports[port.0 as usize].counters()
    }

    /// Bytes waiting before one egress port now.
    pub fn queued_bytes(&self, port: PortId) -> u32 {
        self.ports[port.0 as usize].queued_bytes()
    }

    /// Bytes that have left by one egress port, to the bit that leaves now: its counters have the whole frame that is being sent.
    pub fn sent_bytes(&self, port: PortId) -> u64 {
        let of = &self.ports[port.0 as usize];
        let frame_bps = self.capacity.frame_bps(port.0, of.busy_until(), of.link().rate_bps);
        of.counters().tx_bytes.saturating_sub(of.unsent_bytes(self.now.as_nanos(), frame_bps))
    }

    /// What the link behind one egress port could have sent so far, at the rates that it had.
    pub(crate) fn capacity(&self, port: PortId) -> BitNanos {
        self.capacity.until(port.0, self.now.as_nanos(), self.ports[port.0 as usize].link().rate_bps)
    }

    /// Rate and delay of the link behind one egress port now.
    pub fn link_spec(&self, port: PortId) -> LinkSpec {
        self.ports[port.0 as usize].link()
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

    /// Bytes that the tables of the switches' schemes take now: of the switch with the most.
    pub fn scheme_state_bytes(&self) -> usize {
        self.switches.iter().map(Switch::state_bytes).max().unwrap_or(0)
    }

    /// Packets anywhere in the fabric now: queued, or on a link.
    pub fn packets_in_fabric(&self) -> usize {
        self.arena.alive()
    }

    /// Packets of the control class anywhere in the fabric now. Looks at every packet: for the end of a run.
    pub fn control_packets_in_fabric(&self) -> usize {
        self.arena.packets().filter(|packet| packet.control).count()
    }

    /// The queues of one tier now. Looks at every port: for samples, not for every event.
    pub fn tier_queue(&self, tier: Tier) -> TierQueue {
        let mut sum = TierQueue::default();
        for id in 0..self.ports.len() as u32 {
            if self.topology.tier(PortId(id)) == tier {
                let bytes = u64::from(self.ports[id as usize].queued_bytes());
                sum.ports += 1;
                sum.total_bytes += bytes;
                sum.max_bytes = sum.max_bytes.max(bytes);
            }
        }
        sum
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

    fn arrive(&mut self, port_id: u32, packet: u32, epoch: u16) {
        let inlet = self.inlets[port_id as usize];
        if epoch != inlet.epoch && self.ports[port_id as usize].lost(epoch, self.now.as_nanos()) {
            let counters = self.ports[(port_id ^ 1) as usize].counters_mut();
            counters.lost_in_flight += 1;
            counters.lost_control += u64::from(self.arena.get(packet).control);
            self.arena.release(packet);
            return;
        }
        if self.tap.is_some() && self.ports[port_id as usize].tapped {
            self.record(port_id, false, packet);
        }
        match inlet.owner {
            Owner::Switch(index) => self.switch_packet(index, port_id, packet),
            Owner::Host { host, plane } if self.receive.is_none() => self.deliver(host, plane, packet),
            Owner::Host { host, plane } => self.receive(host, plane, port_id, packet),
        }
    }

    fn switch_packet(&mut self, index: u32, ingress: u32, id: u32) {
        let packet = self.arena.get_mut(id);
        let switch = &mut self.switches[index as usize];
        let verdict = if switch.silent {
            Err(NoForward::Silent)
        } else {
            let (scheme, mut ctx) = switch.scheme(self.now, &self.ports, &mut self.requests);
            scheme.forward(&mut ctx, PortId(ingress), packet)
        };
        let egress = match verdict {
            Ok(Verdict::To(port)) => port.0,
            Ok(Verdict::Consume) => {
                self.counters.consumed += 1;
                self.counters.consumed_control += u64::from(packet.control);
                self.arena.release(id);
                return self.serve_requests(index);
            }
            Ok(Verdict::Hold { queue, port }) => {
                switch.counters.forwarded += 1;
                packet.ingress = ingress;
                let (_, fifo) = switch.held.entry(queue).or_insert_with(|| (port, Fifo::default()));
                fifo.push(Waiting { id, bytes: packet.wire_len });
                return self.serve_requests(index);
            }
            Err(reason) => {
                switch.counters.refused[reason as usize] += 1;
                switch.counters.refused_control += u64::from(packet.control);
                self.arena.release(id);
                return self.serve_requests(index);
            }
        };
        switch.counters.forwarded += 1;
        if self.keeps_ingress {
            packet.ingress = ingress;
        }
        self.enqueue(egress, id);
        self.serve_requests(index);
    }

    /// Puts a packet that came in by its `ingress` into the queue of a switch's port, or on the link behind it.
    fn enqueue(&mut self, egress: u32, id: u32) {
        if self.cut_through {
            let packet = self.arena.get(id);
            let [from, to] = [packet.ingress, egress].map(|port| self.ports[port as usize].link().rate_bps);
            if to > from {
                // It would run out of bits: it is stored first.
                let rest = u64::from(packet.wire_len.saturating_sub(HEAD_BYTES)) * 8_000_000_000 / from;
                return self.wheel.schedule(self.now.after(rest), Event::Stored { egress, packet: id });
            }
        }
        self.offer(egress, id);
    }

    fn offer(&mut self, egress: u32, id: u32) {
        let packet = self.arena.get(id);
        let now = self.now.as_nanos();
        let (control, bytes) = (packet.control, packet.wire_len);
        match self.ports[egress as usize].offer(now, id, &self.queue, &mut self.arena, &mut self.rng) {
            Offer::SendNow => self.switch_transmit(egress, Waiting { id, bytes }),
            Offer::Queued { wake, evicted } => {
                if let Some(at) = wake {
                    self.wheel.schedule(Instant::from_nanos(at), Event::PortFree { port: egress });
                }
                if self.queue.pfc.is_some() && !control {
                    let ingress = self.arena.get(id).ingress;
                    self.account(ingress, true, bytes);
                }
                if let Some(evicted) = evicted {
                    self.arena.release(evicted);
                }
            }
            Offer::Dropped => self.arena.release(id),
        }
    }

    /// Does what a scheme asked for.
    #[inline(always)]
    fn serve_requests(&mut self, switch: u32) {
        if !self.requests.is_empty() {
            self.do_requests(switch);
        }
    }

    fn do_requests(&mut self, switch: u32) {
        let timers = std::mem::take(&mut self.requests.timers);
        for (at, timer) in timers {
            self.wheel.schedule(at.max(self.now), Event::SwitchTimer { switch, timer });
        }
        for (port, packet) in std::mem::take(&mut self.requests.packets) {
            let id = self.arena.take();
            let slot = self.arena.get_mut(id);
            slot.copy_frame(&packet);
            (slot.control, slot.ingress) = (true, port.0);
            self.counters.emitted += 1;
            self.counters.control_bytes += u64::from(packet.wire_len);
            self.enqueue(port.0, id);
        }
        for queue in std::mem::take(&mut self.requests.releases) {
            let Some((port, mut fifo)) = self.switches[switch as usize].held.remove(&queue) else { continue };
            while let Some(packet) = fifo.pop() {
                self.enqueue(port.0, packet.id);
            }
        }
    }

    fn switch_timer(&mut self, index: u32, timer: u32) {
        let switch = &mut self.switches[index as usize];
        let (scheme, mut ctx) = switch.scheme(self.now, &self.ports, &mut self.requests);
        scheme.on_timer(&mut ctx, timer);
        self.serve_requests(index);
    }

    fn port_free(&mut self, port_id: u32) {
        let port = &mut self.ports[port_id as usize];
        match port.owner {
            Owner::Switch(_) => {
                let Some(next) = port.dequeue(&self.queue, &mut self.arena, &mut self.rng) else {
                    return;
                };
                if self.queue.pfc.is_some() {
                    let packet = self.arena.get(next.id);
                    if !packet.control {
                        let (ingress, bytes) = (packet.ingress, packet.wire_len);
                        self.account(ingress, false, bytes);
                    }
                }
                self.switch_transmit(port_id, next);
            }
            Owner::Host { host, plane } => {
                if port.up && !port.busy(self.now.as_nanos()) {
                    self.hosts[host].free = self.hosts[host].free.with(PortNum::from_plane(plane));
                    self.wake_host(host, self.now);
                }
            }
        }
    }

    fn deliver(&mut self, index: u32, plane: u8, id: u32) {
        let packet = self.arena.get(id);
        self.counters.delivered += 1;
        self.counters.delivered_control += u64::from(packet.control);
        self.counters.reordered += u64::from(self.order.is_late(index - self.hosts.first, packet));
        // Nobody checks the ICRC of a trimmed packet: it was that of the whole one.
        self.counters.corrupt += u64::from(packet.is_corrupt() && !packet.is_trimmed());
        self.digest.mix(self.now.as_nanos() << 24 ^ u64::from(index) << 8 ^ u64::from(plane));
        self.digest.mix_packet(packet);
        let slot = &mut self.hosts[index];
        slot.host.on_packet(self.now, PortNum::from_plane(plane), packet, &mut self.world);
        self.arena.release(id);
        self.wake_host(index, self.now);
    }

    fn host_timer(&mut self, index: u32) {
        let slot = &mut self.hosts[index];
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

    fn host_wake(&mut self, index: u32) {
        self.hosts[index].host.on_timer(self.now, &mut self.world);
        self.wake_host(index, self.now);
    }

    /// Takes from a host what it wants to send on its free ports, and files its next timer, not before `earliest`.
    fn wake_host(&mut self, index: u32, earliest: Instant) {
        loop {
            let slot = &mut self.hosts[index];
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
            let port = self.topology.host_link_id(num.plane(), index).lower().0;
            packet.control = self.queue.is_control(switch::dscp(packet.header()));
            self.counters.sent += 1;
            self.counters.sent_control += u64::from(packet.control);
            packet.payload.sent = self.counters.sent as u32;
            let bytes = if packet.control { &mut self.counters.control_bytes } else { &mut self.counters.data_bytes };
            *bytes += u64::from(packet.wire_len);
            self.counters.payload_bytes += u64::from(packet.payload.len);
            packet.flags |= if packet.payload.len > 0 { LOADED } else { 0 };
            self.collects |= packet.flags & COLLECTS != 0;
            let bytes = packet.wire_len;
            let free_at = self.transmit(port, Waiting { id, bytes });
            self.wheel.schedule(free_at, Event::PortFree { port });
        }
        while let Some((host, at)) = self.world.next_wake() {
            self.wheel.schedule(at.max(self.now), Event::HostWake { host });
        }
        let slot = &mut self.hosts[index];
        let Some(at) = slot.host.next_timeout() else {
            return;
        };
        let at = at.max(earliest);
        if at < slot.armed {
            slot.armed = at;
            self.wheel.schedule(at, Event::HostTimer { host: index });
        }
    }

    fn record(&mut self, port: u32, egress: bool, packet: u32) {
        if let Some(tap) = &mut self.tap {
            let since = if egress { 0 } else { u64::from(self.ports[port as usize].ingress_ns()) };
            let at = Instant::from_nanos(self.now.as_nanos() - since);
            tap.record(at, PortId(port), egress, self.arena.get(packet));
        }
    }
}
