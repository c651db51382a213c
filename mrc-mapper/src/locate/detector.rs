//! deTector (Peng et al., "deTector: a Topology-aware Monitoring System for Data Center Networks", USENIX ATC 2017).
//!
//! Only its localisation step is here. A path whose loss is within the noise is good. A link is a candidate if at least a
//! given share of its paths is bad (the hit ratio). The algorithm reports the candidate that explains most lost probes,
//! takes away the paths through it, and repeats this until no candidate is left. The paper also chooses which paths to
//! probe; here all algorithms read the same paths.

use std::collections::{BTreeMap, BTreeSet};

use super::{Counts, Finding, Localiser, Matrix, roll_up};
use crate::topology::Element;

/// The algorithm with its constants.
#[derive(Debug, Clone, Copy)]
pub struct Detector {
    /// Share of a link's paths that must be bad.
    pub hit_ratio: f64,
}

impl Default for Detector {
    fn default() -> Self {
        Self { hit_ratio: 0.6 }
    }
}

impl Localiser for Detector {
    fn name(&self) -> &'static str {
        "detector"
    }

    fn locate(&self, matrix: &Matrix, counts: &Counts) -> Vec<Finding> {
        let bad = counts.bad_paths(matrix);
        let touched: BTreeSet<Element> = bad
            .keys()
            .flat_map(|path| matrix.passes(*path).iter().map(|pass| pass.0))
            .filter(|element| matrix.is_fabric(*element))
            .collect();
        let hit = |link: &Element| {
            let paths = matrix.through(*link);
            let hits = paths.iter().filter(|(path, _)| bad.contains_key(path)).count();
            hits as f64 / paths.len() as f64 >= self.hit_ratio
        };
        let mut candidates: Vec<Element> = touched.into_iter().filter(hit).collect();
        let (mut open, mut found) = (bad.clone(), BTreeMap::new());
        while !open.is_empty() {
            let score = |link: &Element| -> u64 {
                matrix.through(*link).iter().filter_map(|(path, _)| open.get(path)).map(|lost| u64::from(*lost)).sum()
            };
            let best = candidates
                .iter()
                .map(|link| (score(link), *link))
                .max_by_key(|(score, link)| (*score, u32::MAX - link));
            let Some((score, link)) = best.filter(|(score, _)| *score > 0) else { break };
            found.insert(link, score as f64);
            candidates.retain(|other| *other != link);
            for (path, _) in matrix.through(link) {
                open.remove(path);
            }
        }
        let total: f64 = found.values().sum();
        found.values_mut().for_each(|score| *score /= total);
        roll_up(matrix, &found, &BTreeMap::new())
    }
}
