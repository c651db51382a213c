//! The rounds of a view, and the numbers that identify its paths in them.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::locate::{Sums, grouped, passes_both};
use crate::plan::PathSpec;
use crate::topology::{Element, Fabric, HostId};

/// Paths that may have numbers before those that no round holds lose theirs.
const FEWEST: usize = 4096;

/// What a path lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Losses {
    pub(super) lost: u32,
    /// Of these, those that came back after all, perhaps in a later round.
    pub(super) late: u32,
    pub(super) congested: u32,
    /// Of the lost ones, those as long as a full data packet.
    pub(super) full: u32,
}

impl Losses {
    pub(super) fn add(&mut self, other: Self) {
        self.lost = self.lost.saturating_add(other.lost);
        self.late = self.late.saturating_add(other.late);
        self.congested = self.congested.saturating_add(other.congested);
        self.full = self.full.saturating_add(other.full);
    }

    /// Probes that did not come back at all. Those that were late may have been judged in an earlier round.
    pub(super) fn missing(&self) -> u32 {
        self.lost.saturating_sub(self.late)
    }
}

/// The paths that agents told of, by number.
#[derive(Debug, Default)]
pub(super) struct Paths {
    numbers: HashMap<(HostId, PathSpec), u32>,
    keys: Vec<(HostId, PathSpec)>,
    /// Where the elements of each path end.
    ends: Vec<u32>,
    passes: Vec<(Element, u8)>,
    /// So many paths are kept without a look at who needs them.
    most: usize,
}

impl Paths {
    /// The number of a path; a new one when it has none.
    pub(super) fn number(&mut self, fabric: &Fabric, host: HostId, spec: PathSpec) -> u32 {
        if let Some(number) = self.numbers.get(&(host, spec)) {
            return *number;
        }
        let number = self.keys.len() as u32;
        self.numbers.insert((host, spec), number);
        self.keys.push((host, spec));
        self.passes.extend(grouped(spec.elements(fabric, host)));
        self.ends.push(self.passes.len() as u32);
        number
    }

    pub(super) fn key(&self, path: u32) -> (HostId, PathSpec) {
        self.keys[path as usize]
    }

    /// What a path passes, with the number of traversals.
    pub(super) fn passes(&self, path: u32) -> &[(Element, u8)] {
        let at = path as usize;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.passes[start as usize..self.ends[at] as usize]
    }

    pub(super) fn passes_any(&self, path: u32, elements: &[Element]) -> bool {
        self.passes(path).iter().any(|(element, _)| elements.contains(element))
    }

    /// Paths through any of these elements.
    pub(super) fn through(&self, elements: &[Element]) -> impl Iterator<Item = u32> {
        (0..self.keys.len() as u32).filter(move |path| self.passes_any(*path, elements))
    }

    /// Takes the numbers of paths away that no round holds, when there are many. Between two rounds.
    pub(super) fn compact(&mut self, fabric: &Fabric, rounds: &mut VecDeque<Round>) {
        if self.keys.len() <= self.most.max(FEWEST) {
            return;
        }
        let used: BTreeSet<u32> = rounds.iter().flat_map(|round| round.sent.iter().map(|(path, _)| *path)).collect();
        let old = std::mem::take(self);
        // In order, so that what was sorted stays sorted.
        let renamed: HashMap<u32, u32> =
            used.into_iter().map(|path| (path, self.number(fabric, old.key(path).0, old.key(path).1))).collect();
        for round in rounds {
            for (path, _) in &mut round.sent {
                *path = renamed[path];
            }
            for (path, _) in &mut round.losses {
                *path = renamed[path];
            }
        }
        self.most = 2 * self.keys.len();
    }
}

/// What was told within a round.
#[derive(Debug)]
pub(super) struct Round {
    /// Probes judged per path, by number.
    sent: Vec<(u32, u32)>,
    /// Paths with losses, by number.
    pub(super) losses: Vec<(u32, Losses)>,
    /// Sums per element, over all paths.
    pub(super) sums: Vec<Sums>,
}

impl Round {
    pub(super) fn new(fabric: &Fabric, paths: &Paths, told: HashMap<u32, (u32, Losses)>) -> Self {
        let mut told: Vec<(u32, (u32, Losses))> = told.into_iter().collect();
        told.sort_unstable_by_key(|(path, _)| *path);
        let mut sums = vec![Sums::default(); fabric.elements() as usize];
        let (mut sent, mut losses) = (Vec::with_capacity(told.len()), Vec::new());
        for (path, (probes, lost)) in told {
            let passes = paths.passes(path);
            for &(element, times) in passes {
                sums[element as usize].add(f64::from(probes), times, passes_both(fabric, passes, element));
            }
            sent.push((path, probes));
            if lost != Losses::default() {
                losses.push((path, lost));
            }
        }
        Self { sent, losses, sums }
    }

    /// Probes of a path.
    pub(super) fn sent(&self, path: u32) -> u32 {
        self.sent.binary_search_by_key(&path, |(path, _)| *path).map_or(0, |at| self.sent[at].1)
    }

    pub(super) fn losses_of(&self, path: u32) -> Losses {
        let at = self.losses.binary_search_by_key(&path, |(path, _)| *path);
        at.map_or_else(|_| Losses::default(), |at| self.losses[at].1)
    }

    /// Probes through a component of one or two elements, the directions of a link.
    pub(super) fn probes(&self, elements: &[Element]) -> f64 {
        let sum: f64 = elements.iter().map(|element| self.sums[*element as usize].probes).sum();
        match elements {
            [one, _] => sum - self.sums[*one as usize].both,
            _ => sum,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Route;

    const FABRIC: Fabric = Fabric { planes: 2, leaves: 2, spines: 4, hosts: 4 };

    fn path(spine: u16) -> PathSpec {
        PathSpec { plane: 0, route: Route::T1 { spine } }
    }

    #[test]
    fn paths_that_nobody_probes_any_more_lose_their_numbers_and_the_others_keep_their_meaning() {
        let mut paths = Paths::default();
        let large = Fabric { planes: 2, leaves: 2, spines: 5000, hosts: 4 };
        let numbers: Vec<u32> = (0..5000).map(|spine| paths.number(&large, 1, path(spine))).collect();
        let told = |spine: usize| (numbers[spine], (7, Losses { lost: spine as u32, ..Losses::default() }));
        let mut rounds = VecDeque::from([Round::new(&large, &paths, HashMap::from([told(4999), told(4000)]))]);
        paths.compact(&large, &mut rounds);
        assert_eq!(paths.keys.len(), 2);
        let through = paths.through(&[large.uplink(0, 1, 4000, false)]).collect::<Vec<_>>();
        assert_eq!(through.len(), 1);
        assert_eq!((rounds[0].sent(through[0]), rounds[0].losses_of(through[0]).lost), (7, 4000));
        assert_eq!(paths.number(&large, 1, path(4999)), 1 - through[0]);
        assert_eq!(paths.number(&large, 1, path(0)), 2);
    }

    #[test]
    fn probes_through_both_directions_count_once() {
        let mut paths = Paths::default();
        let number = paths.number(&FABRIC, 0, path(2));
        let round = Round::new(&FABRIC, &paths, HashMap::from([(number, (10, Losses::default()))]));
        let (up, down) = (FABRIC.uplink(0, 0, 2, false), FABRIC.uplink(0, 0, 2, true));
        assert_eq!((round.probes(&[up]), round.probes(&[up, down])), (10.0, 10.0));
        assert_eq!(round.probes(&[FABRIC.uplink(0, 1, 2, false)]), 0.0);
        assert!(round.losses.is_empty());
    }
}
