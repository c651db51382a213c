//! From losses on paths to the components behind them. [`Localiser`] is the trait; each algorithm has a file.
//!
//! All algorithms read the same [`Matrix`] and the same [`Counts`]: probes of the control class, judged and lost, per path
//! and window. [`Ours`] also reads how often a path was congested.
//!
//! The published algorithms were made for links. To let them find what else breaks, switches and planes are candidates
//! besides directed links; NetBouncer has its own step for switches. [`roll_up`] treats all reports alike: both directions
//! of a link become the link, all links of a switch the switch, all switches of a plane the plane. The parts of a reported
//! switch or plane are not reported again. Constants are the published ones, except NetBouncer's regulariser, which was
//! chosen on another seed.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::topology::{Component, Direction, Element, Fabric};

mod detector;
mod identify;
mod majority;
mod netbouncer;
mod ours;
mod seven;

pub use detector::Detector;
pub use identify::{Footprint, Identify, footprint};
pub use majority::Majority;
pub use netbouncer::NetBouncer;
pub use ours::{Ours, OursConfig};
pub use seven::Seven;

/// Number of a path in a [`Matrix`].
pub type PathId = u32;

/// What every path passes, both ways round.
#[derive(Debug, Clone)]
pub struct Matrix {
    fabric: Fabric,
    /// Elements of a path with the number of traversals.
    starts: Vec<u32>,
    passes: Vec<(Element, u8)>,
    /// Probes per interval of a path.
    rates: Vec<f32>,
    element_starts: Vec<u32>,
    element_paths: Vec<(PathId, u8)>,
    sums: Vec<Sums>,
}

/// Sums over the paths of an element.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sums {
    /// Traversals per interval.
    pub(crate) passes: f64,
    /// Probes per interval.
    pub(crate) probes: f64,
    /// Probes per interval that pass the other direction of this link, too.
    pub(crate) both: f64,
}

impl std::ops::AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        self.passes += other.passes;
        self.probes += other.probes;
        self.both += other.both;
    }
}

impl Sums {
    pub(crate) fn add(&mut self, probes: f64, times: u8, both: bool) {
        self.passes += probes * f64::from(times);
        self.probes += probes;
        self.both += if both { probes } else { 0.0 };
    }
}

/// Elements of a path with the number of traversals, ascending.
pub(crate) fn grouped(mut elements: Vec<Element>) -> impl Iterator<Item = (Element, u8)> {
    elements.sort_unstable();
    let groups: Vec<(Element, u8)> =
        elements.chunk_by(|a, b| a == b).map(|group| (group[0], group.len() as u8)).collect();
    groups.into_iter()
}

/// Whether a path passes the other direction of the link `element`, too.
pub(crate) fn passes_both(fabric: &Fabric, passes: &[(Element, u8)], element: Element) -> bool {
    other_direction(fabric, element).is_some_and(|other| passes.binary_search_by_key(&other, |pass| pass.0).is_ok())
}

impl Matrix {
    /// A matrix of paths: what each passes (with repetitions), and how many probes it gets per interval.
    #[must_use]
    pub fn new(fabric: Fabric, paths: impl IntoIterator<Item = (Vec<Element>, f64)>) -> Self {
        let (mut starts, mut passes, mut rates) = (vec![0], Vec::new(), Vec::new());
        for (elements, rate) in paths {
            passes.extend(grouped(elements));
            starts.push(passes.len() as u32);
            rates.push(rate as f32);
        }
        let mut counts = vec![0u32; fabric.elements() as usize + 1];
        for (element, _) in &passes {
            counts[*element as usize + 1] += 1;
        }
        for i in 1..counts.len() {
            counts[i] += counts[i - 1];
        }
        let (mut at, mut element_paths) = (counts.clone(), vec![(0, 0); passes.len()]);
        let mut sums = vec![Sums::default(); fabric.elements() as usize];
        for path in 0..rates.len() {
            let rate = f64::from(rates[path]);
            let own = &passes[starts[path] as usize..starts[path + 1] as usize];
            for &(element, times) in own {
                element_paths[at[element as usize] as usize] = (path as PathId, times);
                at[element as usize] += 1;
                sums[element as usize].add(rate, times, passes_both(&fabric, own, element));
            }
        }
        Self { fabric, starts, passes, rates, element_starts: counts, element_paths, sums }
    }

    /// A matrix of the lossy paths alone, with what `sums` says of all paths through each element: what [`Ours`] needs.
    pub(crate) fn of_lossy<'p>(
        fabric: Fabric,
        paths: impl IntoIterator<Item = (&'p [(Element, u8)], f64)>,
        sums: Vec<Sums>,
    ) -> Self {
        let (mut starts, mut passes, mut rates) = (vec![0], Vec::new(), Vec::new());
        for (own, rate) in paths {
            passes.extend_from_slice(own);
            starts.push(passes.len() as u32);
            rates.push(rate as f32);
        }
        Self { fabric, starts, passes, rates, element_starts: Vec::new(), element_paths: Vec::new(), sums }
    }

    /// The fabric.
    #[must_use]
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// How many paths there are.
    #[must_use]
    pub fn paths(&self) -> usize {
        self.rates.len()
    }

    /// What a path passes, with the number of traversals, ascending.
    #[must_use]
    pub fn passes(&self, path: PathId) -> &[(Element, u8)] {
        let range = self.starts[path as usize] as usize..self.starts[path as usize + 1] as usize;
        &self.passes[range]
    }

    /// The paths through an element.
    #[must_use]
    pub fn through(&self, element: Element) -> &[(PathId, u8)] {
        let range = self.element_starts[element as usize] as usize..self.element_starts[element as usize + 1] as usize;
        &self.element_paths[range]
    }

    /// Probes per interval of a path.
    #[must_use]
    pub fn rate(&self, path: PathId) -> f64 {
        f64::from(self.rates[path as usize])
    }

    pub(crate) fn passes_both(&self, passes: &[(Element, u8)], element: Element) -> bool {
        passes_both(&self.fabric, passes, element)
    }

    pub(crate) fn sums(&self, element: Element) -> Sums {
        self.sums[element as usize]
    }

    /// Whether the element is part of the fabric: a link, a switch or a plane.
    pub(crate) fn is_fabric(&self, element: Element) -> bool {
        !matches!(self.fabric.component(element), Component::Host(_))
    }

    pub(crate) fn is_link(&self, element: Element) -> bool {
        matches!(self.fabric.component(element), Component::Uplink(..) | Component::HostLink(..))
    }
}

/// The other direction of a directed link.
fn other_direction(fabric: &Fabric, element: Element) -> Option<Element> {
    match fabric.component(element) {
        Component::Uplink(_, _, _, way) | Component::HostLink(_, _, way) => {
            Some(if way == Direction::Up { element + 1 } else { element - 1 })
        }
        _ => None,
    }
}

/// What became of the control class probes of a window. Paths without an entry were probed at their rate and lost nothing.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Length in intervals.
    pub window: f64,
    /// Lost probes per path.
    pub lost: BTreeMap<PathId, u32>,
    /// Probes of a path that were not sent or not judged.
    pub unjudged: BTreeMap<PathId, f64>,
    /// Of the lost probes, those that were lost while the path was known to be congested.
    pub lost_congested: BTreeMap<PathId, u32>,
    /// Components that were faulty a moment ago: losses are more likely theirs than those of others, because agents may tell
    /// them late. The direction of a link does not matter.
    pub likely: BTreeSet<Component>,
}

impl Counts {
    /// Probes judged on a path.
    #[must_use]
    pub fn sent(&self, matrix: &Matrix, path: PathId) -> f64 {
        let missing = self.unjudged.get(&path).copied().unwrap_or(0.0);
        let lost = self.lost.get(&path).copied().unwrap_or(0);
        (matrix.rate(path) * self.window - missing).max(f64::from(lost))
    }

    /// Paths that lost more than noise: two probes, or one of at most 20.
    #[must_use]
    pub fn bad_paths(&self, matrix: &Matrix) -> BTreeMap<PathId, u32> {
        let bad = |(path, lost): (&PathId, &u32)| {
            (*lost >= 2 || f64::from(*lost) >= 0.05 * self.sent(matrix, *path)).then_some((*path, *lost))
        };
        self.lost.iter().filter_map(bad).collect()
    }

    /// Share of a path's probes that came back.
    #[must_use]
    pub fn success(&self, matrix: &Matrix, path: PathId) -> f64 {
        let lost = f64::from(self.lost.get(&path).copied().unwrap_or(0));
        if lost == 0.0 { 1.0 } else { 1.0 - lost / self.sent(matrix, path) }
    }
}

/// A component that is reported.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Which.
    pub component: Component,
    /// Share of packets that it loses.
    pub loss: f64,
    /// Evidence: by how much this explanation is more likely than chance, as a natural logarithm. 0: not known.
    pub evidence: f64,
    /// Other single components that explain the same nearly as well.
    pub instead: Vec<Component>,
}

/// What finds components.
pub trait Localiser {
    /// Name for tables.
    fn name(&self) -> &'static str;
    /// The smallest set of components behind the losses, as this algorithm sees it.
    fn locate(&self, matrix: &Matrix, counts: &Counts) -> Vec<Finding>;
}

/// The four yardsticks and ours, ours first.
#[must_use]
pub fn all() -> Vec<Box<dyn Localiser>> {
    vec![
        Box::new(Ours::default()),
        Box::new(NetBouncer::default()),
        Box::new(Seven::default()),
        Box::new(Detector::default()),
        Box::new(Majority),
    ]
}

/// Directed links and whole switches and planes as findings; see the module.
#[must_use]
pub fn roll_up(matrix: &Matrix, links: &BTreeMap<Element, f64>, switches: &BTreeMap<Component, f64>) -> Vec<Finding> {
    let fabric = matrix.fabric();
    let (mut links, whole): (BTreeMap<Element, f64>, BTreeMap<Element, f64>) =
        links.iter().map(|(element, loss)| (*element, *loss)).partition(|(element, _)| matrix.is_link(*element));
    let mut switches = switches.clone();
    switches.extend(whole.iter().map(|(element, loss)| (fabric.component(*element), *loss)));
    let mut ends: BTreeMap<Component, usize> = BTreeMap::new();
    for element in links.keys() {
        for switch in switches_of(fabric, fabric.component(*element)) {
            *ends.entry(switch).or_default() += 1;
        }
    }
    for (switch, flagged) in ends {
        let observed = observed_links(matrix, switch);
        if flagged == observed.len() && flagged > 2 {
            let loss = observed.iter().map(|link| links.get(link).copied().unwrap_or(0.0)).sum::<f64>();
            switches.entry(switch).or_insert(loss / flagged as f64);
        }
    }
    links.retain(|element, _| !switches_of(fabric, fabric.component(*element)).any(|at| switches.contains_key(&at)));
    let mut found: BTreeMap<Component, f64> = BTreeMap::new();
    for plane in 0..fabric.planes {
        let t0 = (0..fabric.leaves).all(|leaf| switches.contains_key(&Component::T0(plane, leaf)));
        let t1 = (0..fabric.spines).all(|spine| switches.contains_key(&Component::T1(plane, spine)));
        if t0 || t1 || switches.contains_key(&Component::Plane(plane)) {
            let of_plane: Vec<f64> =
                switches.iter().filter(|(at, _)| at.plane() == Some(plane)).map(|(_, loss)| *loss).collect();
            found.insert(Component::Plane(plane), of_plane.iter().sum::<f64>() / of_plane.len() as f64);
            switches.retain(|at, _| at.plane() != Some(plane));
            links.retain(|element, _| fabric.component(*element).plane() != Some(plane));
        }
    }
    found.extend(switches);
    let elements: BTreeSet<Element> = links.keys().copied().collect();
    for (element, loss) in links {
        let component = fabric.component(element);
        let both = other_direction(fabric, element).is_some_and(|other| elements.contains(&other));
        let component = if both { component.with_direction(Direction::Both) } else { component };
        let entry = found.entry(component).or_insert(loss);
        *entry = entry.max(loss);
    }
    found.into_iter().map(|(component, loss)| Finding { component, loss, evidence: 0.0, instead: Vec::new() }).collect()
}

/// The switches at the ends of a link.
fn switches_of(fabric: &Fabric, link: Component) -> impl Iterator<Item = Component> + use<> {
    let (a, b) = match link {
        Component::Uplink(plane, leaf, spine, _) => {
            (Some(Component::T0(plane, leaf)), Some(Component::T1(plane, spine)))
        }
        Component::HostLink(plane, host, _) => (Some(Component::T0(plane, fabric.leaf_of(host))), None),
        _ => (None, None),
    };
    a.into_iter().chain(b)
}

/// Directed links of a switch that some path passes.
fn observed_links(matrix: &Matrix, switch: Component) -> Vec<Element> {
    let fabric = matrix.fabric();
    let mut links = Vec::new();
    match switch {
        Component::T0(plane, leaf) => {
            for spine in 0..fabric.spines {
                links.extend([false, true].map(|down| fabric.uplink(plane, leaf, spine, down)));
            }
            for host in fabric.hosts_of(leaf) {
                links.extend([false, true].map(|down| fabric.host_link(plane, host, down)));
            }
        }
        Component::T1(plane, spine) => {
            for leaf in 0..fabric.leaves {
                links.extend([false, true].map(|down| fabric.uplink(plane, leaf, spine, down)));
            }
        }
        _ => {}
    }
    links.retain(|link| !matrix.through(*link).is_empty());
    links
}

#[cfg(test)]
pub(crate) mod tests;
