//! `[[fault]]`: who is struck, when, and for how long.

use mrc_core::{Instant, Rng};

use super::build::{LATEST_NS, nanos, probability, rate_bps};
use super::timeline::{self, Effect, Span, Target};
use super::{FaultKeys, FaultKind, FaultTier, Problem, Scenario, nearest};
use crate::fabric::{Clos, Edge, Fault, LinkId, LinkSpec, Loss, Node, Tier, Topology};

/// Most faults of a scenario.
const MOST: usize = 1_000_000;
/// Links of a transceiver that does not say.
const LANES: u32 = 4;

/// The link of this name.
pub(super) fn link(topology: &Topology, name: &str) -> Option<LinkId> {
    (0..topology.links()).map(LinkId).find(|&link| topology.link_name(link) == name)
}

/// What there is in place of a link that nothing is called.
pub(crate) fn no_link(topology: &Topology, name: &str) -> String {
    unknown("link", "links", name, (0..topology.links()).map(|link| topology.link_name(LinkId(link))).collect())
}

/// What there is in place of a name that nothing has.
fn unknown(one: &str, all: &str, name: &str, names: Vec<String>) -> String {
    let (Some(first), Some(last)) = (names.first(), names.last()) else { return format!("there are no {all}") };
    // Links of a graph are called by their ends in the order of the file.
    let reversed = name.split_once('-').map(|(one, other)| format!("{other}-{one}"));
    let reversed = reversed.as_deref().filter(|name| names.iter().any(|known| known == name));
    let hint = reversed.or_else(|| nearest(name, names.iter().map(String::as_str)));
    let hint = hint.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
    format!("no {one} is called `{name}`; {all} are {first} to {last}{hint}")
}

fn switch(topology: &Topology, name: &str) -> Option<u32> {
    (0..topology.switch_count()).find(|&index| topology.switch_name(index) == name)
}

impl FaultKind {
    /// Name in files.
    fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

/// All faults of a scenario in the order of time, on a fabric whose `links` differ from their tier.
pub(super) fn build(
    scenario: &Scenario,
    topology: &Topology,
    links: &[(LinkId, LinkSpec)],
) -> Result<Vec<(Instant, Fault)>, Problem> {
    let mut rng = Rng::new(scenario.seed ^ 0x66_6175_6c74);
    let (mut spans, mut most) = (Vec::new(), MOST);
    for (nth, keys) in scenario.fault.iter().enumerate() {
        let at = |name: &str| format!("fault[{nth}].{name}");
        check_keys(keys, &at)?;
        let start = nanos(at("at_us"), keys.at_us)?;
        let within = nanos(at("within_us"), keys.within_us.unwrap_or(0.0))?;
        let stagger = nanos(at("stagger_us"), keys.stagger_us.unwrap_or(0.0))?;
        let lasting = keys.for_us.map(|us| nanos(at("for_us"), us)).transpose()?;
        let every = nanos(at("every_us"), keys.every_us.unwrap_or(0.0))?;
        let times = keys.times.unwrap_or(1);
        if times == 0 || times > 1 && (every == 0 || lasting.is_none_or(|lasting| lasting >= every)) {
            let message = "a train needs times of at least 1, and every_us above for_us";
            return Err(Problem::new(at("times"), message));
        }
        let targets = targets(keys, topology, &mut rng, &at)?;
        let many = || Problem::new(at("times"), format_args!("more than {MOST} faults in all"));
        most = most.checked_sub(targets.len().saturating_mul(times as usize)).ok_or_else(many)?;
        // The lanes of a transceiver go together, other targets one by one.
        let together =
            if keys.kind == FaultKind::Transceiver { keys.lanes.unwrap_or(LANES).max(1) as usize } else { 1 };
        for (key, each, last) in
            [("stagger_us", stagger, targets.len().div_ceil(together)), ("every_us", every, times as usize)]
        {
            if each.checked_mul(last as u64).is_none_or(|ns| ns > LATEST_NS) {
                return Err(Problem::new(at(key), format_args!("{last} of them reach beyond 1e12 us")));
            }
        }
        let mut spread = 0;
        for (index, target) in targets.into_iter().enumerate() {
            if within > 0 && index % together == 0 {
                spread = rng.next_u64() % (within + 1);
            }
            let first = start + spread + stagger * (index / together) as u64;
            let effect = effect(keys, target, &at)?;
            for repetition in 0..u64::from(times) {
                let begin = first + repetition * every;
                spans.push(Span { target, effect, begin, end: lasting.map(|lasting| begin + lasting) });
            }
        }
    }
    Ok(timeline::merge(&spans, |link| {
        links.iter().rev().find(|(other, _)| *other == link).map_or(topology.link_spec(link), |&(_, spec)| spec)
    }))
}

fn check_keys(keys: &FaultKeys, at: &impl Fn(&str) -> String) -> Result<(), Problem> {
    let only = |name: &str, set: bool, kinds: &[FaultKind]| {
        if set && !kinds.contains(&keys.kind) {
            let kinds: Vec<String> = kinds.iter().map(|kind| format!("`{}`", kind.name())).collect();
            return Err(Problem::new(at(name), format_args!("means something for {} only", kinds.join(", "))));
        }
        Ok(())
    };
    only("probability", keys.probability.is_some(), &[FaultKind::Loss, FaultKind::Corruption])?;
    only("burst", keys.burst.is_some(), &[FaultKind::Loss])?;
    only("longer_than", keys.longer_than.is_some(), &[FaultKind::Loss])?;
    only("jitter_us", keys.jitter_us.is_some(), &[FaultKind::Jitter])?;
    only("gbps", keys.gbps.is_some(), &[FaultKind::Slow])?;
    only("lanes", keys.lanes.is_some(), &[FaultKind::Transceiver])?;
    if keys.target.is_some() && keys.random.is_some() {
        return Err(Problem::new(at("random"), "either target or random"));
    }
    if keys.target.is_some() && keys.tier.is_some() {
        return Err(Problem::new(at("tier"), "target says already what is struck"));
    }
    if keys.target.as_ref().is_some_and(Vec::is_empty) {
        let message =
            "names nothing: leave it out to strike the whole tier, or set random to 0 in its place to strike nothing";
        return Err(Problem::new(at("target"), message));
    }
    if keys.every_us.is_some() && keys.times.is_none() {
        return Err(Problem::new(at("every_us"), "needs times: how often the fault strikes"));
    }
    Ok(())
}

fn targets(
    keys: &FaultKeys,
    topology: &Topology,
    rng: &mut Rng,
    at: &impl Fn(&str) -> String,
) -> Result<Vec<Target>, Problem> {
    let of_switches = matches!(keys.kind, FaultKind::SwitchDown | FaultKind::SwitchSilent);
    if let Some(names) = &keys.target {
        let find = |name: &String| {
            if of_switches {
                let all = || (0..topology.switch_count()).map(|index| topology.switch_name(index)).collect();
                let names = || unknown("switch", "switches", name, all());
                let switch = switch(topology, name).ok_or_else(|| Problem::new(at("target"), names()))?;
                return Ok(vec![Target::Switch(switch)]);
            }
            let one = link(topology, name).map(|link| vec![Target::Link(link)]);
            let all = || switch(topology, name).map(|switch| links_of(topology, switch));
            one.or_else(all).ok_or_else(|| Problem::new(at("target"), no_link(topology, name)))
        };
        return names.iter().map(find).collect::<Result<Vec<_>, _>>().map(|targets| targets.concat());
    }
    let tier = keys.tier.unwrap_or(if of_switches { FaultTier::T1 } else { FaultTier::Fabric });
    let mut all: Vec<Target> = match (tier, of_switches) {
        (FaultTier::T0 | FaultTier::T1 | FaultTier::T2, true) => {
            let level = |index: u32| topology.switch_level(index);
            let wanted = |&index: &u32| match tier {
                FaultTier::T0 => level(index) == 0,
                FaultTier::T1 => level(index) == 1,
                _ => level(index) >= 2,
            };
            (0..topology.switch_count()).filter(wanted).map(Target::Switch).collect()
        }
        (FaultTier::Fabric | FaultTier::Host | FaultTier::Any, false) => {
            let wanted = |&link: &LinkId| {
                let host = topology.is_host_link(link);
                tier == FaultTier::Any || host == (tier == FaultTier::Host)
            };
            (0..topology.links()).map(LinkId).filter(wanted).map(Target::Link).collect()
        }
        (_, true) => return Err(Problem::new(at("tier"), "switches are of tier t0, t1 or t2")),
        (_, false) => return Err(Problem::new(at("tier"), "links are of tier fabric, host or any")),
    };
    if all.is_empty() && keys.random.is_none() {
        let key = if keys.tier.is_some() { "tier" } else { "kind" };
        let tier = format!("{tier:?}").to_lowercase();
        return Err(Problem::new(at(key), format_args!("the fabric has nothing of tier {tier}")));
    }
    if keys.kind == FaultKind::Transceiver {
        if tier == FaultTier::Any {
            return Err(Problem::new(at("tier"), "the links of a transceiver are of tier fabric or host"));
        }
        return transceivers(keys, topology, rng, at);
    }
    let Some(count) = keys.random else { return Ok(all) };
    if count as usize > all.len() {
        let message = format_args!("{count} of {}: the fabric has no more", all.len());
        return Err(Problem::new(at("random"), message));
    }
    for nth in 0..count as usize {
        let other = nth + rng.below((all.len() - nth) as u32) as usize;
        all.swap(nth, other);
    }
    all.truncate(count as usize);
    Ok(all)
}

/// All links of a switch, those to hosts among them.
fn links_of(topology: &Topology, switch: u32) -> Vec<Target> {
    let links: Vec<LinkId> = match topology {
        Topology::Clos(clos) => {
            let t0s = || (0..clos.planes).flat_map(|plane| (0..clos.t0).map(move |t0| (plane, t0)));
            let of_hosts = (0..clos.planes).flat_map(|plane| (0..clos.hosts).map(move |host| (plane, host)));
            let below = of_hosts.filter(|&(plane, host)| clos.t0_switch(plane, clos.t0_of(host)) == switch as usize);
            let between = t0s().flat_map(|(plane, t0)| (0..clos.t1).map(move |t1| (plane, t0, t1)));
            let between = between.filter(|&(plane, t0, t1)| {
                [clos.t0_switch(plane, t0), clos.t1_switch(plane, t1)].contains(&(switch as usize))
            });
            // The one link between the leaves of a dumbbell is that of the plane.
            let across = (0..clos.planes).filter(|&plane| {
                clos.is_dumbbell() && [0, 1].map(|t0| clos.t0_switch(plane, t0)).contains(&(switch as usize))
            });
            let below = below.map(|(plane, host)| clos.host_link_id(plane, host));
            let between = between.map(|(plane, t0, t1)| clos.fabric_link_id(plane, t0, t1));
            below.chain(between).chain(across.map(|plane| clos.fabric_link_id(plane, 0, 0))).collect()
        }
        Topology::Graph(graph) => {
            let own = |link: &&Edge| [link.a, link.b].contains(&Node::Switch(switch));
            (0..).map(LinkId).zip(&graph.spec().links).filter(|(_, link)| own(link)).map(|(id, _)| id).collect()
        }
    };
    links.into_iter().map(Target::Link).collect()
}

/// Neighbouring links of one T0: uplinks, or downlinks to neighbouring hosts.
fn transceivers(
    keys: &FaultKeys,
    topology: &Topology,
    rng: &mut Rng,
    at: &impl Fn(&str) -> String,
) -> Result<Vec<Target>, Problem> {
    let lanes = keys.lanes.unwrap_or(LANES);
    let up = keys.tier.unwrap_or_default() == FaultTier::Fabric;
    // The links of each T0, in order.
    let mut of_leaf: Vec<Vec<LinkId>> = Vec::new();
    if let Topology::Clos(clos) = topology {
        for (plane, t0) in (0..clos.planes).flat_map(|plane| (0..clos.t0).map(move |t0| (plane, t0))) {
            let hosts = u32::from(t0) * clos.hosts_per_t0()..(u32::from(t0) + 1) * clos.hosts_per_t0();
            of_leaf.push(match up {
                true => (0..clos.t1).map(|t1| clos.fabric_link_id(plane, t0, t1)).collect(),
                false => hosts.map(|host| clos.host_link_id(plane, host)).collect(),
            });
        }
    } else if let Topology::Graph(graph) = topology {
        of_leaf.resize(graph.spec().switches.len(), Vec::new());
        for (nth, link) in (0..).zip(&graph.spec().links) {
            match (link.a, link.b) {
                (Node::Host(_), Node::Switch(leaf)) if !up => of_leaf[leaf as usize].push(LinkId(nth)),
                (Node::Switch(leaf), _) if up && graph.level(leaf) == 0 => of_leaf[leaf as usize].push(LinkId(nth)),
                _ => {}
            }
        }
        of_leaf.retain(|links| !links.is_empty());
    }
    let width = of_leaf.iter().map(Vec::len).min().unwrap_or(0) as u32;
    if width == 0 {
        let message = "no leaf has links to switches above it; with tier = \"host\" those to hosts are struck";
        return Err(Problem::new(at("kind"), message));
    }
    if lanes == 0 || lanes > width {
        return Err(Problem::new(at("lanes"), format_args!("{lanes}: a leaf has {width} links there; 1 to {width}")));
    }
    let each = width / lanes;
    let all = of_leaf.len() as u32 * each;
    let count = keys.random.unwrap_or(1);
    if count > all {
        return Err(Problem::new(at("random"), format_args!("{count} of {all}: the fabric has no more transceivers")));
    }
    let mut chosen: Vec<u32> = (0..all).collect();
    let mut targets = Vec::new();
    for nth in 0..count {
        let other = nth + rng.below(all - nth);
        chosen.swap(nth as usize, other as usize);
        let module = chosen[nth as usize];
        let first = (module % each * lanes) as usize;
        let links = &of_leaf[(module / each) as usize][first..first + lanes as usize];
        targets.extend(links.iter().copied().map(Target::Link));
    }
    Ok(targets)
}

/// What strikes a target.
fn effect(keys: &FaultKeys, target: Target, at: &impl Fn(&str) -> String) -> Result<Effect, Problem> {
    let needed = |name: &str, value: Option<f64>| {
        value.ok_or_else(|| Problem::new(at(name), format_args!("a fault of kind `{}` needs it", keys.kind.name())))
    };
    Ok(match (target, keys.kind) {
        (Target::Switch(_), FaultKind::SwitchDown) => Effect::Down,
        (Target::Switch(_), _) => Effect::Silent,
        (_, FaultKind::Loss) => Effect::Loss(loss(keys, at)?, keys.longer_than.unwrap_or(0)),
        (_, FaultKind::Corruption) => {
            Effect::Corruption(probability(at("probability"), needed("probability", keys.probability)?)?)
        }
        (_, FaultKind::Jitter) => {
            let ns = nanos(at("jitter_us"), needed("jitter_us", keys.jitter_us)?)?;
            let most = || Problem::new(at("jitter_us"), "at most 2e6 us");
            Effect::Jitter(u32::try_from(ns).ok().filter(|&ns| ns < 2_000_000_000).ok_or_else(most)?)
        }
        (_, FaultKind::Slow) => Effect::Rate(rate_bps(at("gbps"), needed("gbps", keys.gbps)?)?),
        _ => Effect::Down,
    })
}

fn loss(keys: &FaultKeys, at: &impl Fn(&str) -> String) -> Result<Loss, Problem> {
    match (keys.probability, keys.burst) {
        (Some(value), None) => Ok(Loss::Bernoulli { probability: probability(at("probability"), value)? }),
        (None, Some(burst)) => {
            for value in burst {
                probability(at("burst"), value)?;
            }
            let [to_bad, to_good, loss_good, loss_bad] = burst;
            Ok(Loss::GilbertElliott { to_bad, to_good, loss_good, loss_bad })
        }
        _ => Err(Problem::new(at("probability"), "a loss has a probability, or a burst of four probabilities")),
    }
}

impl Clos {
    /// Whether a link joins a host to the fabric.
    pub fn is_host_link(&self, link: LinkId) -> bool {
        self.tier(link.lower()) == Tier::Host
    }
}
