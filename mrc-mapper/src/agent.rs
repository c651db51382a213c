//! One agent: it takes frames and ticks, and gives probes and reports. It reads no clock, no socket and no random device.
//!
//! # A turn
//! 1. [`Agent::handle_frame`] for every frame that waits. Frames come before the tick: after a pause the replies that wait
//!    in the socket must be seen before their probes are judged lost.
//! 2. [`Agent::handle_tick`], about once per interval.
//! 3. [`Agent::poll_transmit`] until `None`.
//! 4. [`Agent::poll_event`] until `None`; [`Agent::summary`] as often as the collector wants one.
//!
//! The network cannot make an agent grow: probes in flight, replies per interval and events are bounded.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mrc_wire::DscpPlan;
use mrc_wire::srv6::container;
use serde::{Deserialize, Serialize};

use crate::path::{Fate, Path, PathConfig, PauseWatch, State, Totals};
use crate::plan::{Due, PathSpec, Plan, PlanConfig, Route, way_usids};
use crate::probe::{Addresses, Arrival, Class, FRAME_LEN, Key, Kind, Probe, Refused};
use crate::topology::{Fabric, HostId};

/// A port of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortAddress {
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// That of the T0's port.
    pub next_hop: [u8; 6],
    /// Outer source address.
    pub source: [u8; 16],
}

/// What an agent must know.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// The fabric.
    pub fabric: Fabric,
    /// This host.
    pub host: HostId,
    /// First 32 bits of every uSID container.
    pub block: u32,
    /// Ports, plane 0 first.
    pub ports: Vec<PortAddress>,
    /// The fabric's secret.
    pub key: Key,
    /// Random number of this run.
    pub instance: u32,
    /// Code points.
    pub dscp: DscpPlan,
    /// Who probes what.
    pub plan: PlanConfig,
    /// Thresholds of path states.
    pub path: PathConfig,
    /// Probe interval in nanoseconds.
    pub interval_ns: u64,
    /// A probe that is not back after so long is lost.
    pub timeout_ns: u64,
    /// A tick so much later than the last one is a pause of this host.
    pub pause_ns: u64,
    /// How often an agent says hello to the hosts of its T0.
    pub hello_ns: u64,
    /// A host that was not heard for so long has vanished.
    pub vanish_ns: u64,
}

impl AgentConfig {
    /// The configuration at the paper's rate: a probe per millisecond and path.
    #[must_use]
    pub fn new(fabric: Fabric, host: HostId, ports: Vec<PortAddress>, key: Key, instance: u32) -> Self {
        Self {
            fabric,
            host,
            block: 0xFCBB_BB00,
            ports,
            key,
            instance,
            dscp: DscpPlan::default(),
            plan: PlanConfig::default(),
            path: PathConfig::default(),
            interval_ns: 1_000_000,
            timeout_ns: 3_000_000,
            pause_ns: 2_500_000,
            hello_ns: 200_000_000,
            vanish_ns: 650_000_000,
        }
    }
}

/// Why an agent cannot start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// The fabric is impossible.
    #[error(transparent)]
    Fabric(#[from] crate::topology::BadFabric),
    /// The host is not in it.
    #[error("host number {host} is not in a fabric of {hosts} hosts: count from 0")]
    Host {
        /// The number given.
        host: HostId,
        /// Hosts of the fabric.
        hosts: u16,
    },
    /// Not one port per plane.
    #[error("{ports} ports for {planes} planes: give one interface per plane, plane 0 first")]
    Ports {
        /// Ports given.
        ports: usize,
        /// Planes of the fabric.
        planes: u8,
    },
    /// Numbers beyond what a micro-SID holds.
    #[error("micro-SIDs hold 256 hosts, T0s and T1s per plane; this fabric has more: split it")]
    TooLarge,
    /// Times that make no sense.
    #[error("interval and timeout must be positive, the timeout at most {max} intervals")]
    Times {
        /// Longest timeout in intervals.
        max: u64,
    },
}

/// Longest timeout in intervals: bounds the probes in flight.
const MAX_TIMEOUT: u64 = 1000;
const MAX_EVENTS: usize = 1024;
/// Probes judged lost that are remembered, in case they come back late.
const MAX_MISSED: usize = 8192;
/// Requests replied to that are remembered, so that none draws a second reply.
const MAX_REQUESTS: usize = 1024;
/// Runs of another agent that are remembered, and runs of others under this host's name that are told.
const MAX_RUNS: usize = 16;

/// What an agent has to tell at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A path has another state.
    State {
        /// The path.
        path: PathSpec,
        /// Its new state.
        state: State,
    },
    /// Probes of a path come back with another code point than that of their class.
    Rewritten {
        /// The path.
        path: PathSpec,
        /// What they were sent with.
        sent: u8,
        /// What they come back with.
        back: u8,
    },
    /// This host was paused: the agent's ticks came late.
    Paused {
        /// For so long.
        ns: u64,
    },
    /// Another agent probes under this host's name.
    SameName {
        /// Its instance number.
        instance: u32,
    },
    /// Hosts of the own T0 vanished or came back; the plan is another one.
    Mates {
        /// Who is there, this host included.
        alive: Vec<HostId>,
    },
}

/// Frames that were not used, and what left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AgentStats {
    /// Frames sent.
    pub sent: u64,
    /// Frames received that are probes of this fabric.
    pub received: u64,
    /// Frames that are no probes.
    pub foreign: u64,
    /// Probes with a wrong checksum, version or field.
    pub forged: u64,
    /// Signed probes that were answered before, never sent, too late, or came in on a wrong port.
    pub replayed: u64,
    /// Probes that came back with another code point than that of their class.
    #[serde(default)]
    pub rewritten: u64,
    /// Requests beyond what is replied to in one interval.
    pub refused_requests: u64,
    /// Events that found no room.
    pub lost_events: u64,
}

/// What a path did since the last summary.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PathSummary {
    /// The path.
    pub path: PathSpec,
    /// Its state now.
    pub state: State,
    /// Probes judged and lost since the last summary.
    pub delta: Totals,
    /// Usual round trip in nanoseconds.
    pub rtt_ns: Option<u64>,
}

/// What an agent tells its collector now and then.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Who.
    pub host: HostId,
    /// Which run of it.
    pub instance: u32,
    /// Consecutive within a run.
    pub number: u64,
    /// Pauses of the host since the last summary, in nanoseconds.
    pub paused_ns: u64,
    /// Ports whose interface is gone, by plane.
    pub gone: Vec<u8>,
    /// Paths.
    pub paths: Vec<PathSummary>,
    /// Counters since the agent began.
    pub stats: AgentStats,
}

impl Summary {
    /// Takes in the summary that follows, so that both are told as one.
    pub fn extend(&mut self, later: Self) {
        let mut paths: BTreeMap<PathSpec, PathSummary> =
            std::mem::take(&mut self.paths).into_iter().map(|path| (path.path, path)).collect();
        for mut path in later.paths {
            if let Some(earlier) = paths.get(&path.path) {
                path.delta = path.delta.and(&earlier.delta);
            }
            paths.insert(path.path, path);
        }
        let paused_ns = self.paused_ns.saturating_add(later.paused_ns);
        *self = Self { paths: paths.into_values().collect(), paused_ns, ..later };
    }
}

#[derive(Debug, Clone, Copy)]
struct InFlight {
    due: Due,
    sent_ns: u64,
    /// How it came back: round trip in nanoseconds, and whether a switch trimmed it.
    answer: Option<(u64, bool)>,
}

#[derive(Debug, Clone, Copy)]
enum Outgoing {
    Probe(Due),
    /// A reply is as long as its request.
    Reply(Probe, u16),
    Hello(HostId, u8),
}

#[derive(Debug, Clone, Default)]
struct Mate {
    heard_ns: u64,
    /// The last hello of each run, by instance number; the run heard last is the last one. A recorded hello of an earlier run
    /// counts no more than one of this run.
    hellos: Vec<(u32, u64)>,
}

impl Mate {
    /// Takes in a hello; whether it is a new one.
    fn hears(&mut self, now_ns: u64, instance: u32, sequence: u64) -> bool {
        match self.hellos.iter().position(|(run, _)| *run == instance) {
            Some(at) if sequence <= self.hellos[at].1 => return false,
            Some(at) => drop(self.hellos.remove(at)),
            None if self.hellos.len() == MAX_RUNS => drop(self.hellos.remove(0)),
            None => {}
        }
        self.hellos.push((instance, sequence));
        self.heard_ns = now_ns;
        true
    }
}

/// The requests replied to last.
#[derive(Debug, Default)]
struct Requests {
    known: BTreeSet<(HostId, u32, u64)>,
    /// In the order in which they came.
    order: VecDeque<(HostId, u32, u64)>,
}

impl Requests {
    fn has(&self, probe: &Probe) -> bool {
        self.known.contains(&Self::name(probe))
    }

    fn add(&mut self, probe: &Probe) {
        self.known.insert(Self::name(probe));
        self.order.push_back(Self::name(probe));
        if self.order.len() > MAX_REQUESTS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    fn name(probe: &Probe) -> (HostId, u32, u64) {
        (probe.host, probe.instance, probe.sequence)
    }
}

/// The agent.
#[derive(Debug)]
pub struct Agent {
    config: AgentConfig,
    plan: Plan,
    paths: Vec<Path>,
    reported: Vec<Totals>,
    flights: VecDeque<InFlight>,
    /// Sequence number of the first of `flights`.
    first: u64,
    /// Paths whose last probe of a class came back with another code point.
    rewritten: BTreeSet<(u32, bool)>,
    /// Control class probes judged lost: sequence number and path.
    missed: BTreeMap<u64, u32>,
    watch: PauseWatch,
    reported_pause_ns: u64,
    mates: BTreeMap<HostId, Mate>,
    alive: Vec<HostId>,
    outgoing: VecDeque<Outgoing>,
    replies_left: u32,
    requests: Requests,
    interval: Option<u64>,
    last_tick_ns: u64,
    next_hello_ns: u64,
    hello_plane: u8,
    events: VecDeque<Event>,
    /// Runs of other agents under this host's name.
    namesakes: BTreeSet<u32>,
    gone: Vec<u8>,
    summaries: u64,
    stats: AgentStats,
}

impl Agent {
    /// An agent that begins at `now_ns`, with every host of its T0 taken for alive.
    ///
    /// # Errors
    /// [`AgentError`] says what is wrong with the configuration.
    pub fn new(config: AgentConfig, now_ns: u64) -> Result<Self, AgentError> {
        let fabric = config.fabric;
        fabric.check()?;
        if config.host >= fabric.hosts {
            return Err(AgentError::Host { host: config.host, hosts: fabric.hosts });
        }
        if config.ports.len() != usize::from(fabric.planes) {
            return Err(AgentError::Ports { ports: config.ports.len(), planes: fabric.planes });
        }
        if fabric.hosts > 256 || fabric.leaves > 256 || fabric.spines > 256 {
            return Err(AgentError::TooLarge);
        }
        if config.interval_ns == 0
            || config.timeout_ns == 0
            || config.timeout_ns > config.interval_ns.saturating_mul(MAX_TIMEOUT)
        {
            return Err(AgentError::Times { max: MAX_TIMEOUT });
        }
        let alive: Vec<HostId> = fabric.hosts_of(fabric.leaf_of(config.host)).collect();
        let heard = Mate { heard_ns: now_ns, ..Mate::default() };
        let mates = alive.iter().filter(|mate| **mate != config.host).map(|mate| (*mate, heard.clone())).collect();
        let plan = Plan::new(&fabric, config.host, &alive, &config.plan);
        let count = plan.paths().len();
        Ok(Self {
            watch: PauseWatch::new(config.pause_ns.max(config.interval_ns * 2)),
            plan,
            paths: vec![Path::default(); count],
            reported: vec![Totals::default(); count],
            flights: VecDeque::new(),
            first: 0,
            rewritten: BTreeSet::new(),
            missed: BTreeMap::new(),
            reported_pause_ns: 0,
            mates,
            alive,
            outgoing: VecDeque::new(),
            replies_left: 0,
            requests: Requests::default(),
            interval: None,
            last_tick_ns: now_ns,
            next_hello_ns: now_ns,
            hello_plane: 0,
            events: VecDeque::new(),
            namesakes: BTreeSet::new(),
            gone: Vec::new(),
            summaries: 0,
            stats: AgentStats::default(),
            config,
        })
    }

    /// Its configuration.
    #[must_use]
    pub fn config(&self) -> &AgentConfig {
        &self.config
    }

    /// Its plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Paths and their states.
    pub fn states(&self) -> impl Iterator<Item = (PathSpec, &Path)> {
        self.plan.paths().iter().copied().zip(&self.paths)
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> AgentStats {
        self.stats
    }

    /// Takes in a frame that arrived on the port of `plane`.
    ///
    /// # Errors
    /// [`Refused`] when it is no probe of this fabric; it is counted.
    pub fn handle_frame(&mut self, now_ns: u64, plane: u8, frame: &[u8]) -> Result<(), Refused> {
        let arrival = Probe::parse(frame, &self.config.key, &self.config.dscp).inspect_err(|refused| {
            match refused {
                Refused::Foreign => self.stats.foreign += 1,
                _ => self.stats.forged += 1,
            };
        })?;
        self.stats.received += 1;
        let probe = arrival.probe;
        match probe.kind {
            Kind::Path | Kind::Reply if probe.host == self.config.host => {
                let back = if probe.kind == Kind::Path { probe.plane } else { probe.reply_plane };
                if probe.instance != self.config.instance {
                    self.meet_namesake(probe.instance);
                } else if back != plane || !self.answer(now_ns, &arrival) {
                    self.stats.replayed += 1;
                }
            }
            Kind::Request if probe.target == self.config.host && probe.host != self.config.host => {
                let padding = frame.len().saturating_sub(FRAME_LEN);
                self.reply(probe, u16::try_from(padding).unwrap_or(u16::MAX));
            }
            Kind::Hello if probe.target == self.config.host => self.hear(now_ns, &probe),
            _ => self.stats.replayed += 1,
        }
        Ok(())
    }

    fn meet_namesake(&mut self, instance: u32) {
        if self.namesakes.len() < MAX_RUNS && self.namesakes.insert(instance) {
            self.tell(Event::SameName { instance });
        }
    }

    fn answer(&mut self, now_ns: u64, arrival: &Arrival) -> bool {
        let Arrival { probe, trimmed, rewritten } = arrival;
        let Some(at) = probe.sequence.checked_sub(self.first) else {
            let path = self.missed.remove(&probe.sequence).and_then(|path| self.paths.get_mut(path as usize));
            return path.map(Path::record_late).is_some();
        };
        let Some(flight) = self.flights.get_mut(at as usize).filter(|flight| flight.answer.is_none()) else {
            return false;
        };
        flight.answer = Some((now_ns.saturating_sub(flight.sent_ns), *trimmed));
        let due = flight.due;
        self.look_at_code_point(due, *rewritten);
        true
    }

    /// Tells once that probes of a path come back with another code point, until one is as it was sent.
    fn look_at_code_point(&mut self, due: Due, back: Option<u8>) {
        let Due { path, class, .. } = due;
        let name = (path, class == Class::Data);
        let Some(back) = back else {
            self.rewritten.remove(&name);
            return;
        };
        self.stats.rewritten += 1;
        if self.rewritten.insert(name)
            && let Some(path) = self.plan.paths().get(path as usize).copied()
        {
            self.tell(Event::Rewritten { path, sent: class.dscp(&self.config.dscp), back });
        }
    }

    fn reply(&mut self, mut probe: Probe, padding: u16) {
        if self.requests.has(&probe) {
            self.stats.replayed += 1;
            return;
        }
        let fabric = &self.config.fabric;
        let possible =
            probe.host < fabric.hosts && probe.reply_plane < fabric.planes && probe.reply_spine < fabric.spines;
        if !possible || self.replies_left == 0 {
            self.stats.refused_requests += 1;
            return;
        }
        self.replies_left -= 1;
        self.requests.add(&probe);
        probe.kind = Kind::Reply;
        self.outgoing.push_back(Outgoing::Reply(probe, padding));
    }

    fn hear(&mut self, now_ns: u64, probe: &Probe) {
        let mate = self.mates.get_mut(&probe.host);
        if !mate.is_some_and(|mate| mate.hears(now_ns, probe.instance, probe.sequence)) {
            self.stats.replayed += 1;
        }
    }

    fn record(&mut self, flight: InFlight, fate: Fate) {
        let at = flight.due.path as usize;
        let record = |path: &mut Path| match flight.due.is_full() {
            true => path.record_full(&self.config.path, fate),
            false => path.record(&self.config.path, flight.due.class, fate),
        };
        let Some(state) = self.paths.get_mut(at).and_then(record) else { return };
        self.tell(Event::State { path: self.plan.paths()[at], state });
    }

    fn tell(&mut self, event: Event) {
        if self.events.len() < MAX_EVENTS {
            self.events.push_back(event);
        } else {
            self.stats.lost_events += 1;
        }
    }

    /// The kernel dropped frames of the socket: what is in flight cannot be judged.
    pub fn handle_drops(&mut self, now_ns: u64) {
        self.watch.dropped(self.last_tick_ns.saturating_sub(self.config.timeout_ns), now_ns);
    }

    /// The interface of `plane` is there, with this Ethernet address, or is not.
    pub fn handle_port(&mut self, plane: u8, mac: Option<[u8; 6]>) {
        self.gone.retain(|gone| *gone != plane);
        match (mac, self.config.ports.get_mut(usize::from(plane))) {
            (Some(mac), Some(port)) => port.mac = mac,
            (None, Some(_)) => self.gone.push(plane),
            (_, None) => {}
        }
    }

    /// Time has passed: judges what is overdue and queues what is due.
    pub fn handle_tick(&mut self, now_ns: u64) {
        if let Some(ns) = self.watch.tick(now_ns) {
            self.tell(Event::Paused { ns });
        }
        self.expire(now_ns);
        self.last_tick_ns = now_ns;
        self.meet(now_ns);
        let interval = now_ns / self.config.interval_ns;
        if self.interval.replace(interval) == Some(interval) {
            return;
        }
        // What was not sent in its interval is not sent in a later one.
        self.outgoing.retain(|out| !matches!(out, Outgoing::Probe(..)));
        self.replies_left = 4 * u32::from(self.config.plan.variants) * u32::from(self.config.fabric.planes);
        self.outgoing.extend(self.plan.due(interval).map(Outgoing::Probe));
        if now_ns >= self.next_hello_ns {
            self.next_hello_ns = now_ns + self.config.hello_ns;
            self.hello_plane = (self.hello_plane + 1) % self.config.fabric.planes;
            let plane = self.hello_plane;
            self.outgoing.extend(self.mates.keys().map(|mate| Outgoing::Hello(*mate, plane)));
        }
    }

    /// Judges what is overdue, in the order in which it was sent. What came back is judged with what did not: a pause of
    /// this host excuses both alike, otherwise the share of lost probes would be too low behind it.
    fn expire(&mut self, now_ns: u64) {
        while let Some(flight) = self.flights.front().copied() {
            let deadline = flight.sent_ns + self.config.timeout_ns;
            if deadline > now_ns {
                return;
            }
            self.flights.pop_front();
            self.first += 1;
            let fate = match flight.answer {
                _ if self.watch.covers(flight.sent_ns, deadline) => Fate::Unjudged,
                Some((rtt_ns, trimmed)) => Fate::Answered { rtt_ns, trimmed },
                None => Fate::Lost,
            };
            if fate == Fate::Lost && flight.due.class == Class::Control {
                self.missed.insert(self.first - 1, flight.due.path);
                if self.missed.len() > MAX_MISSED {
                    self.missed.pop_first();
                }
            }
            self.record(flight, fate);
        }
    }

    /// Makes a new plan when hosts vanished or came back. Paths that stay keep their past.
    fn meet(&mut self, now_ns: u64) {
        let vanished = self.config.vanish_ns;
        let heard = |mate: &Mate| now_ns.saturating_sub(mate.heard_ns) < vanished;
        let mut alive: Vec<HostId> = self.mates.iter().filter(|(_, mate)| heard(mate)).map(|(host, _)| *host).collect();
        alive.push(self.config.host);
        alive.sort_unstable();
        if alive == self.alive {
            return;
        }
        let plan = Plan::new(&self.config.fabric, self.config.host, &alive, &self.config.plan);
        let old: BTreeMap<PathSpec, usize> = self.plan.paths().iter().enumerate().map(|(n, spec)| (*spec, n)).collect();
        let kept: Vec<Option<usize>> = plan.paths().iter().map(|spec| old.get(spec).copied()).collect();
        self.paths = kept.iter().map(|n| n.map_or_else(Path::default, |n| self.paths[n].clone())).collect();
        self.reported = kept.iter().map(|n| n.map_or_else(Totals::default, |n| self.reported[n])).collect();
        // Probes in flight belong to the old numbers: they are forgotten.
        self.first += self.flights.len() as u64;
        self.flights.clear();
        self.missed.clear();
        self.rewritten.clear();
        self.outgoing.retain(|out| !matches!(out, Outgoing::Probe(..)));
        self.plan = plan;
        self.alive.clone_from(&alive);
        self.tell(Event::Mates { alive });
    }

    /// Writes the next frame to send into `out`: plane and length; `None` when there is no more.
    pub fn poll_transmit(&mut self, now_ns: u64, out: &mut [u8]) -> Option<(u8, usize)> {
        loop {
            let outgoing = self.outgoing.pop_front()?;
            if let Some(sent) = self.send(now_ns, outgoing, out) {
                self.stats.sent += 1;
                return Some(sent);
            }
        }
    }

    fn send(&mut self, now_ns: u64, outgoing: Outgoing, out: &mut [u8]) -> Option<(u8, usize)> {
        let (fabric, host) = (self.config.fabric, self.config.host);
        let (probe, plane, usids, padding) = match outgoing {
            Outgoing::Reply(probe, padding) => {
                let plane = probe.reply_plane;
                (probe, plane, way_usids(&fabric, plane, host, probe.host, probe.reply_spine), padding)
            }
            Outgoing::Hello(mate, plane) => {
                let probe = self.own(Kind::Hello, Class::Control, plane, now_ns);
                (Probe { target: mate, ..probe }, plane, way_usids(&fabric, plane, host, mate, 0), 0)
            }
            Outgoing::Probe(Due { path, class, padding, .. }) => {
                let spec = *self.plan.paths().get(path as usize)?;
                let mut probe = Probe { path, ..self.own(Kind::Path, class, spec.plane, now_ns) };
                if let Route::Pair { target, reply_plane, spine } = spec.route {
                    probe = Probe { kind: Kind::Request, target, reply_plane, reply_spine: spine, ..probe };
                }
                (probe, spec.plane, spec.usids(&fabric, host), padding)
            }
        };
        let port = self.config.ports.get(usize::from(plane))?;
        let to = Addresses {
            macs: [port.next_hop, port.mac],
            source: port.source,
            destination: container(self.config.block, &usids),
            last: container(self.config.block, &usids[usids.len() - 1..]),
        };
        let len = probe.emit(&self.config.key, &to, &self.config.dscp, padding.into(), out)?;
        if let Outgoing::Probe(due) = outgoing {
            self.flights.push_back(InFlight { due, sent_ns: now_ns, answer: None });
        }
        Some((plane, len))
    }

    /// A probe of ours. Hellos have sequence numbers of their own: the time they are sent.
    fn own(&self, kind: Kind, class: Class, plane: u8, now_ns: u64) -> Probe {
        let sequence = if kind == Kind::Hello { now_ns } else { self.first + self.flights.len() as u64 };
        Probe {
            kind,
            class,
            host: self.config.host,
            plane,
            target: self.config.host,
            reply_plane: plane,
            reply_spine: 0,
            path: 0,
            instance: self.config.instance,
            sequence,
            sent_ns: now_ns,
        }
    }

    /// When the next tick is due.
    #[must_use]
    pub fn next_tick_ns(&self) -> u64 {
        (self.last_tick_ns / self.config.interval_ns + 1) * self.config.interval_ns
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// What happened since the last summary.
    pub fn summary(&mut self) -> Summary {
        let paused_ns = self.watch.pauses().1;
        self.summaries += 1;
        let mut paths = Vec::with_capacity(self.paths.len());
        for ((spec, path), reported) in self.plan.paths().iter().zip(&self.paths).zip(&mut self.reported) {
            let totals = path.totals();
            let delta = totals.since(reported);
            *reported = totals;
            paths.push(PathSummary { path: *spec, state: path.state(), delta, rtt_ns: path.baseline_ns() });
        }
        Summary {
            host: self.config.host,
            instance: self.config.instance,
            number: self.summaries,
            paused_ns: paused_ns - std::mem::replace(&mut self.reported_pause_ns, paused_ns),
            gone: self.gone.clone(),
            paths,
            stats: self.stats,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_summaries_told_as_one_count_everything_once() {
        let path = |spine: u16, sent: u64, lost: u64| PathSummary {
            path: PathSpec { plane: 0, route: Route::T1 { spine } },
            state: if lost > 0 { State::Down } else { State::Up },
            delta: Totals { sent, lost, late: lost / 2, ..Totals::default() },
            rtt_ns: None,
        };
        let summary = |number: u64, paths: Vec<PathSummary>| {
            let (gone, stats) = (vec![number as u8], AgentStats::default());
            Summary { host: 1, instance: 2, number, paused_ns: 5, gone, paths, stats }
        };
        let mut all = summary(7, vec![path(0, 10, 0), path(1, 10, 4)]);
        all.extend(summary(8, vec![path(1, 20, 0), path(2, 3, 3)]));
        let both = PathSummary { delta: Totals { sent: 30, lost: 4, late: 2, ..Totals::default() }, ..path(1, 20, 0) };
        let expected = Summary { paused_ns: 10, ..summary(8, vec![path(0, 10, 0), both, path(2, 3, 3)]) };
        assert_eq!(all, expected);
    }
}
