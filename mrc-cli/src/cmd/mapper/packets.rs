//! The probe-level model of `mrc mapper score` held against the packet simulator: the same fabric goes through the same
//! minutes of a day without a fault, once as draws and once as packets with queues.
//!
//! The pauses of hosts and the congestion of links are those that the model draws, to the interval. Here a paused host
//! stops: frames wait in its socket, and what finds no room is dropped. Congestion is load: hosts send data packets at line
//! rate until more reaches the link than fits, and its switch trims. Agents are real, with clocks of their own, and so are
//! their views, policies and the collector's view.

use mrc_core::Instant;
use mrc_mapper::agent::{Agent, AgentConfig, PortAddress, Summary};
use mrc_mapper::model::{Episode, ModelConfig, ProbeModel, Run};
use mrc_mapper::path::{State, Totals};
use mrc_mapper::plan::{PlanConfig, Route, way_usids};
use mrc_mapper::policy::{Decision, Enforcer, Policy};
use mrc_mapper::probe::Key;
use mrc_mapper::score::{BLOCK, Day, Healthy};
use mrc_mapper::view::{Change, View, ViewConfig};
use mrc_mapper::{Component, Direction, Fabric, HostId};
use mrc_sim::{Clos, Fault, Impairment, LinkId, LinkSpec, Loss, QueueSpec, Sim, TrimSpec};
use serde::Serialize;

mod host;

use host::{Delays, Load, ProbeHost};

/// The fabric: small, so that minutes are affordable.
pub const FABRIC: Fabric = Fabric { planes: 2, leaves: 4, spines: 4, hosts: 16 };
/// Every link. Slower ones have fewer packets of load, and shorter queues make up for it.
const LINK: LinkSpec = LinkSpec { rate_bps: 2_500_000_000, delay_ns: 500 };
const MS: u64 = 1_000_000;
/// Agents probe before anything is counted: a host that has not begun replies to nobody.
const WARM_UP: u64 = 10 * MS;
/// Data that may wait at a port before packets are trimmed.
const TRIM_BYTES: u32 = 64 * 1024;
/// Rounds of an agent and of the collector, in intervals.
const ROUND: i64 = 10;
const REPORT: i64 = 100;

/// What one level made of the minutes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Level {
    /// Control class probes of hosts that were awake.
    pub probes: u64,
    /// Of these, lost on the way to or in a host that was paused.
    pub lost_at_paused: u64,
    /// Lost otherwise.
    pub lost_elsewhere: u64,
    /// Data class probes that passed a congested link there and back, and what part of them came back trimmed.
    pub congested: u64,
    /// See there.
    pub trimmed: f64,
    /// Components of the fabric that were reported, each of them wrongly.
    pub reports: u64,
    /// Planes denied, each of them wrongly.
    pub denials: u64,
}

/// Round trips of probes that switches alone answer, at the packet level, in microseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct RoundTrips {
    pub median_us: f64,
    pub p99_us: f64,
    pub p9999_us: f64,
    pub max_us: f64,
}

impl RoundTrips {
    fn of(delays: &Delays) -> Self {
        Self {
            median_us: delays.quantile_us(0.5),
            p99_us: delays.quantile_us(0.99),
            p9999_us: delays.quantile_us(0.9999),
            max_us: delays.max_ns as f64 / 1e3,
        }
    }
}

/// The comparison.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    pub seed: u64,
    /// Intervals of a millisecond.
    pub ms: u64,
    pub pauses: u64,
    pub congestions: u64,
    pub model: Level,
    pub packets: Level,
    pub control: RoundTrips,
    pub data: RoundTrips,
    /// After so long an agent takes a probe for lost.
    pub timeout_us: f64,
    /// Path states other than up that agents told, without those of paths that ask another host.
    pub paths_not_up: u64,
    /// Frames that the sockets of paused hosts dropped.
    pub socket_drops: u64,
    /// Packets of load, and what of them switches trimmed.
    pub load: u64,
    pub load_trimmed: u64,
    /// What does not agree; empty when all does.
    pub differences: Vec<String>,
}

/// The same blocks at both levels: of the day of `seed`, `blocks` from number `first` on. After each block `progress` says whether to
/// go on; otherwise the comparison is of those that were played.
pub fn compare(
    seed: u64,
    first: u64,
    blocks: u64,
    mut progress: impl FnMut(u64) -> bool,
) -> anyhow::Result<Comparison> {
    let model = ProbeModel::new(FABRIC, &PlanConfig::default(), ModelConfig::default());
    let mut healthy = Healthy::new(&model, blocks * BLOCK as u64);
    let mut draws = Level::default();
    let mut packets = Packets::new(seed)?;
    let (mut pauses, mut congestions) = (0, 0);
    for (n, run) in (0..).zip(Day::new(&model, (first + blocks) * BLOCK as u64, seed).skip(first as usize)) {
        healthy.judge(&model, &run);
        count(&model, &run, &mut draws);
        pauses += run.pauses().len() as u64;
        congestions += run.congestion().len() as u64;
        packets.play(&run)?;
        if !progress(n + 1) {
            healthy.cut(&model, (n + 1) * BLOCK as u64);
            break;
        }
    }
    (draws.reports, draws.denials) = (healthy.reports, healthy.denials);
    draws.trimmed = ModelConfig::default().trimmed;
    let mut comparison = packets.result(&draws);
    (comparison.seed, comparison.ms, comparison.model) = (seed, healthy.ms, draws);
    (comparison.pauses, comparison.congestions) = (pauses, congestions);
    comparison.differences = differences(&comparison);
    Ok(comparison)
}

/// Adds a block of the model.
fn count(model: &ProbeModel, run: &Run, level: &mut Level) {
    let mut asleep = 0.0;
    for (host, episode) in run.pauses() {
        let long = clip(*episode).map_or(0, |episode| episode.until - episode.from) as f64;
        let own = (0..model.matrix().paths() as u32).filter(|path| model.path(*path).0 == *host);
        asleep += own.map(|path| model.matrix().rate(path)).sum::<f64>() * long;
    }
    level.probes += (model.probes_per_interval() * BLOCK as f64 - asleep) as u64;
    for (path, at) in run.lost() {
        let asks = match model.path(*path).1.route {
            Route::Pair { target, .. } => Some(target),
            _ => None,
        };
        let paused = |(host, e): &(HostId, Episode)| asks == Some(*host) && (e.from..e.until).contains(at);
        *if run.pauses().iter().any(paused) { &mut level.lost_at_paused } else { &mut level.lost_elsewhere } += 1;
    }
    let data_every = i64::from(PlanConfig::default().data_every);
    for (element, episode) in run.congestion() {
        let long = (episode.until - episode.from) as f64;
        let through = model.matrix().through(*element).iter().map(|(path, _)| *path);
        let there_and_back = through.filter(|path| matches!(model.path(*path).1.route, Route::T0 | Route::T1 { .. }));
        let rate: f64 = there_and_back.map(|path| model.matrix().rate(path)).sum();
        level.congested += (rate * long / data_every as f64).round() as u64;
    }
}

/// The part of an episode within its block.
fn clip(episode: Episode) -> Option<Episode> {
    let clipped = Episode { from: episode.from.max(0), until: episode.until.min(BLOCK) };
    (clipped.from < clipped.until).then_some(clipped)
}

/// What the two levels must have in common.
fn differences(of: &Comparison) -> Vec<String> {
    let (model, packets) = (&of.model, &of.packets);
    let mut all = Vec::new();
    let mut check = |holds: bool, what: String| {
        if !holds {
            all.push(what);
        }
    };
    let share = packets.probes as f64 / model.probes as f64;
    check((0.99..1.01).contains(&share), format!("{share:.4} times the probes of the model"));
    // The share of a rare event has the spread of its count.
    let (a, b) = (model.lost_at_paused as f64, packets.lost_at_paused as f64);
    let spread = 0.1 * a.max(b) + 4.0 * (a + b).sqrt();
    check((a - b).abs() <= spread, format!("{b} probes lost at paused hosts, the model has {a}"));
    let (a, b) = (model.lost_elsewhere as f64, packets.lost_elsewhere as f64);
    check(b - a <= 4.0 * (a + b).sqrt(), format!("{b} probes lost elsewhere, the model has {a}"));
    // Who knows of congestion excuses losses: the model must not know more.
    let (expected, seen) = (model.trimmed * model.congested as f64, packets.trimmed * model.congested as f64);
    check(
        seen >= expected - 4.0 * expected.sqrt(),
        format!("{:.3} of the congested data class probes trimmed, the model has {}", packets.trimmed, model.trimmed),
    );
    check(
        of.control.max_us < of.timeout_us,
        format!(
            "a probe of the control class took {} us: the model has none above {} us",
            of.control.max_us, of.timeout_us
        ),
    );
    check(of.paths_not_up == 0, format!("{} path states other than up", of.paths_not_up));
    for (name, level) in [("model", model), ("packet level", packets)] {
        check(
            level.reports == 0 && level.denials == 0,
            format!("{name}: {} wrong reports, {} wrong denials", level.reports, level.denials),
        );
    }
    all
}

/// A host and what it makes of its own probes.
struct Watch {
    view: View,
    enforcer: Enforcer,
    unsent: Option<Summary>,
}

/// The packet level.
struct Packets {
    sim: Sim<ProbeHost>,
    watches: Vec<Watch>,
    collector: View,
    block: u64,
    /// Picks senders of load.
    draw: mrc_core::Rng,
    level: Level,
    paths_not_up: u64,
    /// Sums over the paths to neighbours, and over all others.
    pairs: Totals,
    others: Totals,
}

/// Number of a host in the simulator, which counts T0 by T0.
fn place(host: HostId) -> u32 {
    let below = u32::from(FABRIC.hosts / FABRIC.leaves);
    u32::from(FABRIC.leaf_of(host)) * below + u32::from(host / FABRIC.leaves)
}

fn clos() -> Clos {
    let trim = TrimSpec {
        threshold_bytes: TRIM_BYTES,
        last_hop_threshold_bytes: TRIM_BYTES,
        trimmed_bytes: 122,
        victim: mrc_sim::TrimVictim::Arriving,
        last_hop_dscp: true,
    };
    Clos {
        planes: FABRIC.planes,
        t0: FABRIC.leaves,
        t1: FABRIC.spines,
        hosts: FABRIC.hosts.into(),
        host_link: LINK,
        fabric_link: LINK,
        queue: QueueSpec { trim: Some(trim), ..QueueSpec::default() },
        ..Clos::default()
    }
}

impl Packets {
    fn new(seed: u64) -> anyhow::Result<Self> {
        let key = Key::new([7; 16]);
        let names: Vec<u16> = (0..FABRIC.hosts).map(|host| place(host) as u16).collect();
        let mut draw = mrc_core::Rng::new(seed);
        let mut hosts: Vec<Option<ProbeHost>> = (0..FABRIC.hosts).map(|_| None).collect();
        let mut watches = Vec::new();
        for host in 0..FABRIC.hosts {
            let port = |plane: u8| PortAddress { mac: [plane; 6], next_hop: [0x20 | plane; 6], source: [plane; 16] };
            let ports = (0..FABRIC.planes).map(port).collect();
            let config = AgentConfig::new(FABRIC, host, ports, key, u32::from(host) + 1);
            // Clocks that agree in nothing but their speed.
            let clock = draw.next_u64() >> 20;
            hosts[place(host) as usize] = Some(ProbeHost::new(Agent::new(config, clock)?, clock, names.clone()));
            let own = ViewConfig { viewpoint: Some(host), ..ViewConfig::default() };
            let enforcer = Enforcer::new(FABRIC, host, Policy::default())?;
            watches.push(Watch { view: View::new(FABRIC, own), enforcer, unsent: None });
        }
        let mut sim = Sim::new(clos(), seed, (), |index| hosts[index as usize].take().expect("every host once"))?;
        // What the model calls noise, on five links.
        let loss = Loss::Bernoulli { probability: ModelConfig::default().noise / 5.0 };
        for link in 0..sim.clos().links() {
            sim.schedule(Instant::ZERO, Fault::Impair(LinkId(link), Impairment { loss, ..Impairment::default() }));
        }
        let mut all = Self {
            sim,
            watches,
            collector: View::new(FABRIC, ViewConfig::default()),
            block: 0,
            draw,
            level: Level::default(),
            paths_not_up: 0,
            pairs: Totals::default(),
            others: Totals::default(),
        };
        all.sim.run_until(Instant::from_nanos(WARM_UP));
        all.judge(true)?;
        (all.pairs, all.others) = (Totals::default(), Totals::default());
        Ok(all)
    }

    /// Goes through what the model drew.
    fn play(&mut self, run: &Run) -> anyhow::Result<()> {
        let start = WARM_UP + self.block * BLOCK as u64 * MS;
        let at = |interval: i64| start + interval as u64 * MS;
        let mut naps: Vec<(HostId, Episode)> = run.pauses().to_vec();
        naps.sort_by_key(|(_, episode)| episode.from);
        for (host, episode) in naps {
            let Some(episode) = clip(episode) else { continue };
            self.sim.with_host(place(host), |host, _, ()| host.sleep(at(episode.from), at(episode.until)));
        }
        let mut loads: Vec<(HostId, Load)> = Vec::new();
        for (element, episode) in run.congestion() {
            let (from, until) = (at(episode.from), at(episode.until));
            for (sender, plane, usids) in self.senders(FABRIC.component(*element)) {
                let destination = mrc_wire::srv6::container(mrc_sim::address::DEFAULT_BLOCK, &usids);
                loads.push((sender, Load { from, until, plane, destination }));
            }
        }
        loads.sort_by_key(|(_, load)| load.from);
        for (sender, load) in loads {
            self.sim.with_host(place(sender), |host, _, ()| host.offer(load));
        }
        for round in 1..=BLOCK / ROUND {
            self.sim.run_until(Instant::from_nanos(at(round * ROUND)));
            self.judge(round % (REPORT / ROUND) == 0)?;
        }
        self.sim.run_until(Instant::from_nanos(at(BLOCK)));
        self.block += 1;
        Ok(())
    }

    /// Who sends through a directed link so that more arrives than fits, and by which micro-SIDs.
    fn senders(&mut self, link: Component) -> Vec<(HostId, u8, Vec<u16>)> {
        let way = |plane: u8, from: HostId, to: HostId, spine: u16| {
            let mut usids = way_usids(&FABRIC, plane, from, to, spine);
            let last = usids.len() - 1;
            usids[last] = usids[last] & 0xFF00 | place(to) as u16;
            (from, plane, usids)
        };
        let turn = self.draw.below(u32::from(FABRIC.leaves)) as u16;
        let host =
            |leaf: u16, n: u16| (turn + n) % (FABRIC.hosts / FABRIC.leaves) * FABRIC.leaves + leaf % FABRIC.leaves;
        match link {
            // Incast: all neighbours under the T0.
            Component::HostLink(plane, to, _) => {
                let mates = FABRIC.hosts_of(FABRIC.leaf_of(to)).filter(|mate| *mate != to);
                mates.map(|mate| way(plane, mate, to, 0)).collect()
            }
            Component::Uplink(plane, leaf, spine, Direction::Up) => {
                (0..2).map(|n| way(plane, host(leaf, n), host(leaf + 1 + n, n), spine)).collect()
            }
            Component::Uplink(plane, leaf, spine, _) => {
                (0..2).map(|n| way(plane, host(leaf + 1 + n, n), host(leaf, n), spine)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// A round of all agents that are awake, and, if it is time, of the collector.
    fn judge(&mut self, report: bool) -> anyhow::Result<()> {
        let now = self.sim.now().as_nanos();
        for (number, watch) in (0..).zip(&mut self.watches) {
            let (summary, not_up) = self.sim.with_host(place(number), |host, now, ()| {
                if host.is_asleep(now.as_nanos()) {
                    return (None, 0);
                }
                let events = std::iter::from_fn(|| host.agent.poll_event());
                let not_up = events.filter(|event| match event {
                    mrc_mapper::agent::Event::State { path, state } => {
                        *state != State::Up && !matches!(path.route, Route::Pair { .. })
                    }
                    _ => false,
                });
                let not_up = not_up.count() as u64;
                (Some(host.agent.summary()), not_up)
            });
            self.paths_not_up += not_up;
            let Some(summary) = summary else { continue };
            for path in &summary.paths {
                let sum =
                    if matches!(path.path.route, Route::Pair { .. }) { &mut self.pairs } else { &mut self.others };
                *sum = sum.and(&path.delta);
            }
            watch.view.add(&summary)?;
            watch.view.judge();
            let faulty: Vec<_> = watch.view.faulty().cloned().collect();
            let (_, decisions) = watch.enforcer.decide(now as f64 / 1e9, &faulty);
            self.level.denials += decisions.iter().filter(|d| matches!(d, Decision::Deny { .. })).count() as u64;
            match &mut watch.unsent {
                Some(unsent) => unsent.extend(summary),
                None => watch.unsent = Some(summary),
            }
            if report && let Some(summary) = watch.unsent.take() {
                self.collector.add(&summary)?;
            }
        }
        if report {
            let changes = self.collector.judge();
            let wrong = changes.iter().filter(|change| match change {
                Change::Faulty { finding } => !matches!(finding.component, Component::Host(_)),
                Change::Healthy { .. } => false,
            });
            self.level.reports += wrong.count() as u64;
        }
        Ok(())
    }

    fn result(self, model: &Level) -> Comparison {
        let (mut control, mut data, mut socket_drops, mut load) = (Delays::default(), Delays::default(), 0, 0);
        for host in (0..FABRIC.hosts).map(|host| self.sim.host(place(host))) {
            control.merge(&host.control);
            data.merge(&host.data);
            socket_drops += host.dropped();
            load += host.offered();
        }
        let trims = |port| self.sim.port_counters(port).trims;
        let links = (0..self.sim.clos().links()).map(LinkId);
        let trimmed = links.map(|link| trims(link.lower()) + trims(link.upper())).sum::<u64>();
        let probes_trimmed = self.pairs.trimmed + self.others.trimmed;
        let packets = Level {
            probes: self.pairs.sent + self.others.sent,
            lost_at_paused: self.pairs.lost,
            lost_elsewhere: self.others.lost,
            congested: model.congested,
            trimmed: probes_trimmed as f64 / (model.congested as f64).max(1.0),
            ..self.level
        };
        Comparison {
            seed: 0,
            ms: 0,
            pauses: 0,
            congestions: 0,
            model: *model,
            packets,
            control: RoundTrips::of(&control),
            data: RoundTrips::of(&data),
            timeout_us: self.sim.host(0).agent.config().timeout_ns as f64 / 1e3,
            paths_not_up: self.paths_not_up,
            socket_drops,
            load,
            load_trimmed: trimmed - probes_trimmed.min(trimmed),
            differences: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first block of a day in which a host pauses.
    #[test]
    fn the_probe_model_agrees_with_the_packet_simulator() {
        let model = ProbeModel::new(FABRIC, &PlanConfig::default(), ModelConfig::default());
        let first = Day::new(&model, 1_000_000, 1).position(|run| !run.pauses().is_empty()).unwrap() as u64;
        let of = compare(1, first, 1, |_| true).unwrap();
        println!("{of:#?}");
        assert!(of.pauses > 0 && of.congestions > 10, "a block in which something happens: {of:?}");
        assert_eq!(of.differences, Vec::<String>::new(), "{of:#?}");
    }
}
