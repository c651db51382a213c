//! Real agents that exchange real frames through the modelled fabric. The fabric forwards each frame by its micro-SIDs, so a
//! wrong destination shows. It loses and trims frames at components. Time passes in steps of a quarter of an interval.

use std::collections::BTreeMap;

use mrc_wire::DscpPlan;
use mrc_wire::srv6::usid;

use crate::agent::{Agent, AgentConfig, PortAddress};
use crate::plan::PlanConfig;
use crate::probe::{FRAME_LEN, Key, MAX_PADDING};
use crate::rng::Rng;
use crate::topology::{Component, Element, Fabric, HostId};

/// Bytes that a switch leaves of a trimmed frame.
const TRIMMED_BYTES: usize = 122;

/// A fabric of agents.
#[derive(Debug)]
pub struct WireModel {
    fabric: Fabric,
    agents: Vec<Agent>,
    /// Loss per element.
    loss: BTreeMap<Element, f64>,
    /// Elements that trim every data class frame.
    trimming: Vec<Element>,
    /// Elements that give every frame another code point.
    rewriting: BTreeMap<Element, u8>,
    /// Elements that lose every frame of more bytes.
    narrow: BTreeMap<Element, usize>,
    /// Hosts that sleep until then, in nanoseconds.
    asleep: BTreeMap<HostId, u64>,
    /// Frames that a host sends on a plane wait until then, in nanoseconds: its kernel has no processor time.
    held: BTreeMap<(HostId, u8), u64>,
    /// Frames on their way: arrival, host, plane, bytes.
    air: Vec<(u64, HostId, u8, Vec<u8>)>,
    now_ns: u64,
    rng: Rng,
    lost: u64,
    astray: u64,
}

impl WireModel {
    /// A fabric with an agent on every host.
    ///
    /// # Panics
    /// If the fabric is too large for micro-SIDs.
    #[must_use]
    pub fn new(fabric: Fabric, plan: PlanConfig, seed: u64) -> Self {
        Self::with(fabric, seed, |config| AgentConfig { plan, ..config })
    }

    /// The same with agents as `change` wants them.
    ///
    /// # Panics
    /// If the fabric is too large for micro-SIDs, or a configuration impossible.
    #[must_use]
    pub fn with(fabric: Fabric, seed: u64, change: impl Fn(AgentConfig) -> AgentConfig) -> Self {
        let key = Key::new([3; 16]);
        let agent = |host: HostId| {
            let port = |plane: u8| PortAddress { mac: [plane; 6], next_hop: [0x20 | plane; 6], source: [plane; 16] };
            let ports = (0..fabric.planes).map(port).collect();
            let config = change(AgentConfig::new(fabric, host, ports, key, u32::from(host) + 1));
            Agent::new(config, 0).unwrap_or_else(|error| panic!("agent of host {host}: {error}"))
        };
        Self {
            fabric,
            agents: (0..fabric.hosts).map(agent).collect(),
            loss: BTreeMap::new(),
            trimming: Vec::new(),
            rewriting: BTreeMap::new(),
            narrow: BTreeMap::new(),
            asleep: BTreeMap::new(),
            held: BTreeMap::new(),
            air: Vec::new(),
            now_ns: 0,
            rng: Rng::new(seed),
            lost: 0,
            astray: 0,
        }
    }

    /// Makes a component lose a share of the frames; 0 heals it.
    pub fn set_loss(&mut self, component: Component, share: f64) {
        for element in self.fabric.elements_of(component) {
            self.loss.insert(element, share);
        }
    }

    /// Makes a component trim all frames of the data class.
    pub fn trim(&mut self, component: Component) {
        self.trimming.extend(self.fabric.elements_of(component));
    }

    /// Makes a component lose every frame of more bytes, as a port of too small an MTU does; `None` mends it.
    pub fn narrow(&mut self, component: Component, most: Option<usize>) {
        for element in self.fabric.elements_of(component) {
            self.narrow.insert(element, most.unwrap_or(usize::MAX));
        }
    }

    /// Makes a component give every frame this code point; `None` mends it.
    pub fn rewrite(&mut self, component: Component, to: Option<u8>) {
        for element in self.fabric.elements_of(component) {
            match to {
                Some(to) => self.rewriting.insert(element, to),
                None => self.rewriting.remove(&element),
            };
        }
    }

    /// Stops a host for so many nanoseconds. Frames wait in its sockets.
    pub fn sleep(&mut self, host: HostId, ns: u64) {
        self.asleep.insert(host, self.now_ns + ns);
    }

    /// Whether a host sleeps.
    #[must_use]
    pub fn is_asleep(&self, host: HostId) -> bool {
        self.asleep.get(&host).is_some_and(|until| *until > self.now_ns)
    }

    /// Holds what a host sends on a plane for so many nanoseconds, as a kernel without processor time does.
    pub fn hold(&mut self, host: HostId, plane: u8, ns: u64) {
        self.held.insert((host, plane), self.now_ns + ns);
    }

    /// The agent of a host.
    #[must_use]
    pub fn agent(&self, host: HostId) -> &Agent {
        &self.agents[usize::from(host)]
    }

    /// The same, to be changed.
    pub fn agent_mut(&mut self, host: HostId) -> &mut Agent {
        &mut self.agents[usize::from(host)]
    }

    /// Now, in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Frames that were lost, and frames whose destination leads nowhere.
    #[must_use]
    pub fn lost(&self) -> (u64, u64) {
        (self.lost, self.astray)
    }

    /// Lets so many milliseconds pass.
    pub fn run_ms(&mut self, ms: u64) {
        let until = self.now_ns + ms * 1_000_000;
        let mut out = [0u8; FRAME_LEN + MAX_PADDING];
        while self.now_ns < until {
            self.now_ns += 250_000;
            let now = self.now_ns;
            let asleep = |host: HostId| self.asleep.get(&host).is_some_and(|until| *until > now);
            let (due, air): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.air).into_iter().partition(|frame| frame.0 <= now && !asleep(frame.1));
            self.air = air;
            for (_, host, plane, frame) in due {
                // A refused frame is counted by the agent.
                let _ = self.agents[usize::from(host)].handle_frame(now, plane, &frame);
            }
            for host in 0..self.fabric.hosts {
                if self.asleep.get(&host).is_some_and(|until| *until > now) {
                    continue;
                }
                self.agents[usize::from(host)].handle_tick(now);
                while let Some((plane, len)) = self.agents[usize::from(host)].poll_transmit(now, &mut out) {
                    self.carry(host, plane, out[..len].to_vec());
                }
            }
        }
    }

    fn carry(&mut self, from: HostId, plane: u8, mut frame: Vec<u8>) {
        let mut destination = [0; 16];
        destination.copy_from_slice(&frame[38..54]);
        let Some((to, elements)) = self.follow(from, plane, &destination) else {
            self.astray += 1;
            return;
        };
        let plan = DscpPlan::default();
        let data = (frame[14] & 0x0F) << 2 | frame[15] >> 6 == plan.trimmable;
        for element in elements {
            let is_too_long = self.narrow.get(&element).is_some_and(|most| frame.len() > *most);
            if is_too_long || self.loss.get(&element).is_some_and(|loss| self.rng.chance(*loss)) {
                self.lost += 1;
                return;
            }
            if let Some(to) = self.rewriting.get(&element) {
                frame[14] = 0x60 | to >> 2;
                frame[15] = to << 6;
            }
            if data && self.trimming.contains(&element) {
                frame.truncate(TRIMMED_BYTES);
                frame[14] = 0x60 | plan.trimmed >> 2;
                frame[15] = plan.trimmed << 6;
            }
        }
        let held = self.held.get(&(from, plane)).copied().unwrap_or(0);
        self.air.push((held.max(self.now_ns) + 10_000, to, plane, frame));
    }

    /// Where a destination leads from a host, and what the packet passes.
    fn follow(&self, from: HostId, plane: u8, destination: &[u8; 16]) -> Option<(HostId, Vec<Element>)> {
        let fabric = &self.fabric;
        let mut elements = vec![fabric.plane(plane), fabric.host_link(plane, from, false)];
        let (mut leaf, mut spine) = (None, None);
        for n in 0..6 {
            let sid = usid(destination, n);
            let (role, index) = (sid >> 12, sid & 0xFF);
            if sid >> 8 & 0xF != u16::from(plane) {
                return None;
            }
            match (role, leaf, spine) {
                (1, None, None) if index == fabric.leaf_of(from) => leaf = Some(index),
                (1, None, Some(t1)) if index < fabric.leaves => {
                    elements.push(fabric.uplink(plane, index, t1, true));
                    (leaf, spine) = (Some(index), None);
                }
                (2, Some(t0), None) if index < fabric.spines => {
                    elements.extend([fabric.uplink(plane, t0, index, false), fabric.t1(plane, index)]);
                    (leaf, spine) = (None, Some(index));
                    continue;
                }
                (3, Some(t0), None) if index < fabric.hosts && fabric.leaf_of(index) == t0 => {
                    elements.push(fabric.host_link(plane, index, true));
                    return Some((index, elements));
                }
                _ => return None,
            }
            elements.push(fabric.t0(plane, index));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Event;
    use crate::locate::{Counts, Localiser, Matrix, Ours};
    use crate::path::State;
    use crate::topology::Direction;
    use crate::view::{Change, Evidence, View, ViewConfig};

    const FABRIC: Fabric = Fabric { planes: 2, leaves: 2, spines: 4, hosts: 8 };

    fn model() -> WireModel {
        WireModel::new(FABRIC, PlanConfig::default(), 1)
    }

    fn judge(model: &mut WireModel, view: &mut View) -> Vec<Change> {
        for host in 0..model.fabric.hosts {
            let summary = model.agent_mut(host).summary();
            view.add(&summary).unwrap();
        }
        view.judge()
    }

    /// One view of all agents, a round every 100 ms.
    fn watch(model: &mut WireModel, view: &mut View, rounds: u32) -> Vec<Change> {
        let mut changes = Vec::new();
        for _ in 0..rounds {
            model.run_ms(100);
            changes.extend(judge(model, view));
        }
        changes
    }

    fn faulty(changes: &[Change]) -> Vec<String> {
        changes
            .iter()
            .map(|change| match change {
                Change::Faulty { finding } => format!("+{}", finding.component),
                Change::Healthy { component } => format!("-{component}"),
            })
            .collect()
    }

    #[test]
    fn a_healthy_fabric_has_only_answers() {
        let mut model = model();
        let mut view = View::new(FABRIC, ViewConfig::default());
        assert_eq!(faulty(&watch(&mut model, &mut view, 5)), [""; 0]);
        assert_eq!(model.lost(), (0, 0), "every destination leads home");
        for host in 0..FABRIC.hosts {
            let agent = model.agent_mut(host);
            assert_eq!(agent.poll_event(), None);
            let stats = agent.stats();
            assert_eq!((stats.foreign, stats.forged, stats.replayed, stats.refused_requests), (0, 0, 0, 0));
            assert!(agent.states().all(|(_, path)| path.state() == State::Up && path.totals().sent > 100));
        }
    }

    #[test]
    fn each_kind_of_component_is_found_and_heals() {
        let components = [
            Component::Uplink(0, 1, 2, Direction::Both),
            Component::Uplink(1, 0, 3, Direction::Up),
            Component::Uplink(1, 0, 3, Direction::Down),
            Component::HostLink(0, 5, Direction::Both),
            Component::HostLink(0, 5, Direction::Up),
            Component::HostLink(1, 2, Direction::Down),
            Component::T1(0, 0),
            Component::T0(1, 1),
            Component::Plane(1),
        ];
        let mut model = model();
        let mut view = View::new(FABRIC, ViewConfig::default());
        watch(&mut model, &mut view, 3);
        for component in components {
            for share in [1.0, 0.05] {
                model.set_loss(component, share);
                assert_eq!(faulty(&watch(&mut model, &mut view, 12)), [format!("+{component}")], "loss {share}");
                model.set_loss(component, 0.0);
                assert_eq!(faulty(&watch(&mut model, &mut view, 40)), [format!("-{component}")], "loss {share}");
            }
        }
    }

    /// What a short frame passes and a full one does not: seen where a share of the probes is as long as a data packet.
    #[test]
    fn links_that_lose_full_frames_alone_are_found() {
        const FULL: usize = 4266;
        let components = [
            Component::Uplink(0, 1, 2, Direction::Up),
            Component::Uplink(1, 0, 3, Direction::Both),
            Component::HostLink(0, 5, Direction::Down),
            Component::HostLink(1, 2, Direction::Both),
            Component::T1(0, 0),
        ];
        for full_every in [0, 16] {
            let plan = PlanConfig { full_every, full_padding: (FULL - FRAME_LEN) as u16, ..PlanConfig::default() };
            let mut model = WireModel::new(FABRIC, plan, 1);
            let mut view = View::new(FABRIC, ViewConfig::default());
            assert_eq!(faulty(&watch(&mut model, &mut view, 3)), [""; 0]);
            for component in components {
                model.narrow(component, Some(FULL));
                assert_eq!(faulty(&watch(&mut model, &mut view, 5)), [""; 0], "the longest frame passes");
                model.narrow(component, Some(FULL - 1));
                let found = faulty(&watch(&mut model, &mut view, 12));
                let seen = full_every > 0;
                assert_eq!(found, Vec::from_iter(seen.then(|| format!("+{component}"))));
                let why = view.why(component);
                let sum = |count: fn(&Evidence) -> u64| why.iter().map(count).sum::<u64>();
                let (sent, lost) = (sum(|seen| seen.sent), sum(|seen| seen.lost));
                assert_eq!(sum(|seen| seen.lost_full), lost, "only full ones are lost");
                assert!(if seen { lost > sent / 50 } else { lost == 0 }, "{component}: {lost} of {sent}");
                if let Some(finding) = view.faulty().next() {
                    assert!((1.0 / 32.0..1.0 / 8.0).contains(&finding.loss), "{finding:?}: a sixteenth of the probes");
                }
                model.narrow(component, None);
                assert_eq!(
                    faulty(&watch(&mut model, &mut view, 40)),
                    Vec::from_iter(seen.then(|| format!("-{component}")))
                );
            }
        }
    }

    /// All planes of a host, all uplinks of a T0: which direction of the links is at fault cannot be told, which links can.
    #[test]
    fn links_that_are_all_down_at_one_end_are_found_and_heal() {
        let both = Direction::Both;
        let host = [0, 1].map(|plane| Component::HostLink(plane, 0, both));
        let uplinks = [0, 1, 2, 3].map(|spine| Component::Uplink(0, 0, spine, both));
        for (links, hosts) in [(&uplinks[..], 8), (&host[..], 8), (&host[..], 2)] {
            let fabric = Fabric { hosts, ..FABRIC };
            for earlier in [3, 0] {
                let mut model = WireModel::new(fabric, PlanConfig::default(), 1);
                // A view that begins later has seen no good time.
                let mut view = View::new(fabric, ViewConfig::default());
                model.run_ms(300);
                watch(&mut model, &mut view, earlier);
                for (share, sign) in [(1.0, '+'), (0.0, '-')] {
                    links.iter().for_each(|link| model.set_loss(*link, share));
                    if earlier == 0 && share > 0.0 {
                        model.run_ms(1000);
                        (0..hosts).for_each(|host| drop(model.agent_mut(host).summary()));
                    }
                    let mut changes = faulty(&watch(&mut model, &mut view, 50));
                    changes.sort();
                    let told: Vec<String> = links.iter().map(|link| format!("{sign}{link}")).collect();
                    assert_eq!(changes, told, "{hosts} hosts, {earlier} rounds before");
                }
            }
        }
    }

    #[test]
    fn an_agent_that_vanishes_is_replaced_within_a_second() {
        let mut model = model();
        model.run_ms(300);
        model.sleep(4, 60_000_000_000);
        model.run_ms(1000);
        for host in [0, 2, 6] {
            let events: Vec<Event> = std::iter::from_fn(|| model.agent_mut(host).poll_event()).collect();
            assert!(events.contains(&Event::Mates { alive: vec![0, 2, 6] }), "host {host}: {events:?}");
        }
        let probed = |spine: u16| {
            let of = |host: &u16| {
                let has = |route| model.agent(*host).plan().paths().iter().any(|p| p.plane == 0 && p.route == route);
                has(crate::plan::Route::T1 { spine })
            };
            [0, 2, 6].iter().filter(|host| of(host)).count()
        };
        assert_eq!([0, 1, 2, 3].map(probed), [2; 4], "every uplink has two owners again");
    }

    #[test]
    fn a_paused_host_is_told_apart_from_its_links() {
        let mut model = model();
        let mut view = View::new(FABRIC, ViewConfig::default());
        watch(&mut model, &mut view, 3);
        model.sleep(3, 300_000_000);
        let changes = watch(&mut model, &mut view, 10);
        assert!(faulty(&changes).iter().all(|change| change.ends_with("hD")), "{:?}", faulty(&changes));
        let events: Vec<Event> = std::iter::from_fn(|| model.agent_mut(3).poll_event()).collect();
        assert!(matches!(events[..], [Event::Paused { ns }] if ns >= 290_000_000), "{events:?}");
        let own = model.agent(3).states().map(|(_, path)| path.totals().lost).sum::<u64>();
        assert_eq!(own, 0, "what was in flight is not judged");
    }

    #[test]
    fn trimmed_probes_are_congestion_not_loss() {
        let mut model = model();
        let mut view = View::new(FABRIC, ViewConfig::default());
        model.trim(Component::HostLink(0, 1, Direction::Down));
        assert_eq!(faulty(&watch(&mut model, &mut view, 10)), [""; 0]);
        let trimmed: u64 = model.agent(1).states().map(|(_, path)| path.totals().trimmed).sum();
        assert!(trimmed > 100, "{trimmed}");
    }

    #[test]
    fn code_points_that_a_switch_rewrites_are_told_once_a_path() {
        let mut model = model();
        model.run_ms(300);
        let t1 = Component::T1(0, 1);
        let passes = |path: &crate::plan::PathSpec| {
            path.elements(&FABRIC, 3).iter().any(|element| FABRIC.elements_of(t1).contains(element))
        };
        let control = DscpPlan::default().control;
        for _ in 0..2 {
            model.rewrite(t1, Some(0));
            model.run_ms(100);
            let told: Vec<Event> = std::iter::from_fn(|| model.agent_mut(3).poll_event()).collect();
            let paths = model.agent(3).plan().paths().iter().filter(|path| passes(path)).count();
            let of_class = |class: u8| {
                told.iter().filter(|event| matches!(event, Event::Rewritten { path, sent, back: 0 } if *sent == class && passes(path))).count()
            };
            assert!(paths > 0 && of_class(control) == paths, "{paths}: {told:?}");
            assert!(of_class(DscpPlan::default().trimmable) > 0, "{told:?}");
            assert_eq!(of_class(control) + of_class(DscpPlan::default().trimmable), told.len());
            model.rewrite(t1, None);
            model.run_ms(100);
        }
        let stats = model.agent(3).stats();
        assert!(stats.rewritten > 100 && stats.rewritten < stats.received, "{stats:?}");
    }

    #[test]
    fn forged_and_replayed_frames_change_nothing() {
        let mut model = model();
        model.run_ms(20);
        let mut out = [0; 2048];
        // What host 1 is about to send, once forged by a stranger's key and once taken twice.
        let now = model.now_ns() + 1_000_000;
        let agent = model.agent_mut(1);
        agent.handle_tick(now);
        let mut frames = Vec::new();
        while let Some((plane, len)) = agent.poll_transmit(now, &mut out) {
            frames.push((plane, out[..len].to_vec()));
        }
        let own: Vec<_> = frames.into_iter().filter(|(_, frame)| frame[65] == 1).collect();
        let before = agent.stats();
        for (plane, frame) in &own {
            let mut forged = frame.clone();
            forged[100] ^= 1;
            assert!(agent.handle_frame(now, *plane, &forged).is_err());
            assert!(agent.handle_frame(now, *plane, frame).is_ok());
            assert!(agent.handle_frame(now, *plane, frame).is_ok());
        }
        let after = agent.stats();
        assert_eq!(after.forged - before.forged, own.len() as u64);
        assert_eq!(after.replayed - before.replayed, own.len() as u64);
        let answered: u64 = agent.states().map(|(_, path)| path.totals().sent + path.totals().data_sent).sum();
        assert!(answered <= before.received + own.len() as u64);
    }

    /// The frames of a kind that an agent sends at a time.
    fn sends(agent: &mut Agent, now: u64, kind: u8) -> Vec<(u8, Vec<u8>)> {
        let mut out = [0; 2048];
        agent.handle_tick(now);
        let sent =
            std::iter::from_fn(|| agent.poll_transmit(now, &mut out).map(|(plane, len)| (plane, out[..len].to_vec())));
        sent.filter(|(_, frame)| frame[65] == kind).collect()
    }

    /// An agent of the same host with another number, as an earlier run of it.
    fn earlier(model: &WireModel, host: HostId, instance: u32) -> Agent {
        Agent::new(AgentConfig { instance, ..model.agent(host).config().clone() }, model.now_ns()).unwrap()
    }

    #[test]
    fn replayed_hellos_do_not_keep_a_host_that_vanished() {
        let mut model = model();
        model.run_ms(300);
        let now = model.now_ns();
        let mut recorded = sends(&mut earlier(&model, 4, 7), now, 4);
        recorded.extend(sends(model.agent_mut(4), now + 200_000_000, 4));
        recorded.retain(|(_, frame)| frame[70..72] == [0, 0]);
        assert_eq!(recorded.len(), 2, "to host 0, of two runs of host 4");
        model.sleep(4, 60_000_000_000);
        for _ in 0..20 {
            model.run_ms(100);
            let now = model.now_ns();
            for (plane, frame) in &recorded {
                model.agent_mut(0).handle_frame(now, *plane, frame).unwrap();
            }
        }
        let events: Vec<Event> = std::iter::from_fn(|| model.agent_mut(0).poll_event()).collect();
        assert!(events.contains(&Event::Mates { alive: vec![0, 2, 6] }), "{events:?}");
        assert_eq!(model.agent(0).stats().replayed, 38, "each counted once");
    }

    #[test]
    fn a_replayed_request_takes_no_reply_from_others() {
        let mut model = model();
        model.run_ms(20);
        let now = model.now_ns();
        let (plane, frame) = sends(&mut earlier(&model, 1, 7), now, 2).swap_remove(0);
        let target = u16::from_be_bytes([frame[70], frame[71]]);
        let mut view = View::new(FABRIC, ViewConfig::default());
        for _ in 0..5 {
            for _ in 0..100 {
                for _ in 0..200 {
                    let now = model.now_ns();
                    model.agent_mut(target).handle_frame(now, plane, &frame).unwrap();
                }
                model.run_ms(1);
            }
            assert_eq!(faulty(&judge(&mut model, &mut view)), [""; 0]);
        }
        let stats = model.agent(target).stats();
        assert_eq!((stats.refused_requests, stats.replayed), (0, 5 * 100 * 200 - 1));
        assert_eq!(model.lost(), (0, 0));
    }

    #[test]
    fn replayed_probes_of_earlier_runs_are_told_once_each() {
        let mut model = model();
        model.run_ms(5);
        let now = model.now_ns();
        let recorded = [7, 8].map(|instance| sends(&mut earlier(&model, 1, instance), now, 1).swap_remove(0));
        for _ in 0..100 {
            for (plane, frame) in &recorded {
                model.agent_mut(1).handle_frame(now, *plane, frame).unwrap();
            }
        }
        let events: Vec<Event> = std::iter::from_fn(|| model.agent_mut(1).poll_event()).collect();
        assert_eq!(events, [7, 8].map(|instance| Event::SameName { instance }));
    }

    #[test]
    fn answers_that_come_late_are_no_loss() {
        let mut model = model();
        model.run_ms(20);
        let (mut now, mut out) = (model.now_ns(), [0; 2048]);
        let agent = model.agent_mut(1);
        let mut late = Vec::new();
        for _ in 0..12 {
            now += 1_000_000;
            agent.handle_tick(now);
            while let Some((plane, len)) = agent.poll_transmit(now, &mut out) {
                late.push((plane, out[..len].to_vec()));
            }
        }
        // The network held everything up for longer than the timeout.
        for (plane, frame) in late.iter().filter(|(_, frame)| frame[65] == 1) {
            agent.handle_frame(now, *plane, frame).unwrap();
        }
        let mut view = View::new(FABRIC, ViewConfig::default());
        let summary = agent.summary();
        let (lost, late): (u64, u64) =
            summary.paths.iter().fold((0, 0), |sum, p| (sum.0 + p.delta.lost, sum.1 + p.delta.late));
        assert!(late > 20 && lost >= late, "{lost} {late}");
        view.add(&summary).unwrap();
        let through = view.why(Component::T0(0, 1));
        let own = through.iter().filter(|seen| !matches!(seen.path.route, crate::plan::Route::Pair { .. }));
        assert_eq!(own.map(|seen| seen.lost).sum::<u64>(), 0);
    }

    #[test]
    fn two_agents_under_one_name_are_reported_once() {
        let mut model = model();
        model.run_ms(5);
        let config = AgentConfig { instance: 99, ..model.agent(1).config().clone() };
        let mut other = Agent::new(config, 0).unwrap();
        let (now, mut out) = (model.now_ns(), [0; 2048]);
        other.handle_tick(now);
        let mut sent = 0;
        while let Some((plane, len)) = other.poll_transmit(now, &mut out) {
            if out[65] == 1 {
                sent += 1;
                model.agent_mut(1).handle_frame(now, plane, &out[..len]).unwrap();
            }
        }
        assert!(sent > 2);
        let events: Vec<Event> = std::iter::from_fn(|| model.agent_mut(1).poll_event()).collect();
        assert_eq!(events, [Event::SameName { instance: 99 }]);
    }

    /// The probe model and real agents lose the same share on the same faulty fabric.
    #[test]
    fn the_probe_model_agrees_with_real_agents() {
        use crate::model::{Behaviour, Fault, ModelConfig, ProbeModel, Weather};
        let component = Component::T1(0, 1);
        let mut wire = model();
        wire.set_loss(component, 0.03);
        wire.run_ms(5000);
        let model = ProbeModel::new(FABRIC, &PlanConfig::default(), ModelConfig::default());
        let fault = Fault { component, behaviour: Behaviour::Lossy(0.03) };
        let run = model.run(&mut Rng::new(4), Weather::Idle, &[fault], 0, 5000);
        let counts = model.counts(&run, 0, 5000);
        let (mut path, mut sent) = (0u32, 0.0);
        let mut rows = Vec::new();
        let mut real = Counts { window: 1.0, ..Counts::default() };
        for host in 0..FABRIC.hosts {
            for (spec, state) in wire.agent(host).states() {
                let totals = state.totals();
                let expected = model.matrix().rate(path) * 5000.0;
                assert!((totals.sent as f64 - expected).abs() <= 8.0, "{spec:?}: {} {expected}", totals.sent);
                if totals.lost > 0 {
                    real.lost.insert(path, totals.lost as u32);
                }
                rows.push((spec.elements(&FABRIC, host), totals.sent as f64));
                sent += totals.sent as f64;
                path += 1;
            }
        }
        let total = |counts: &Counts| f64::from(counts.lost.values().sum::<u32>());
        let (a, b) = (total(&counts), total(&real));
        assert!((a - b).abs() < 6.0 * (a + b).sqrt(), "{a} and {b} of {sent}");
        let ours = Ours::default();
        let of = |matrix: &Matrix, counts: &Counts| -> Vec<Component> {
            ours.locate(matrix, counts).iter().map(|finding| finding.component).collect()
        };
        assert_eq!(of(&Matrix::new(FABRIC, rows), &real), [component]);
        assert_eq!(of(model.matrix(), &counts), [component]);
    }
}
