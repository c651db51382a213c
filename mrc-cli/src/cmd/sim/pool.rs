//! Runs of one configuration with different seeds: means with their 95 % confidence intervals.

use mrc_sim::run::{Results, RunEnd};
use serde::Serialize;

use super::sweep::{Manifest, Point};

/// A mean over seeds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval (Student's t); `None` (null) of a single seed.
    pub ci95: Option<f64>,
    /// Seeds.
    pub seeds: usize,
}

/// Student's t for 95 %, by degrees of freedom from 1.
const T95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The same for any number of degrees of freedom: beyond the table by the first terms of its expansion around the normal
/// distribution's 1.96, which are exact to four digits there.
fn t95(freedom: usize) -> f64 {
    let (z, n) = (1.959_964f64, freedom as f64);
    let (first, second) = (z.powi(3) + z, 5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z);
    T95.get(freedom - 1).copied().unwrap_or(z + first / (4.0 * n) + second / (96.0 * n * n))
}

impl Estimate {
    /// Of some values; `None` of none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let seeds = values.len();
        let mean = values.iter().sum::<f64>() / seeds as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let half = |freedom: usize| t95(freedom) * (squares / freedom as f64 / seeds as f64).sqrt();
        (seeds > 0).then(|| Self { mean, ci95: seeds.checked_sub(1).filter(|&n| n > 0).map(half), seeds })
    }

    /// `12.3 +- 0.4`, or the mean alone.
    pub fn text(&self, digits: usize) -> String {
        match self.ci95 {
            Some(half) => format!("{:.digits$} \u{b1} {half:.digits$}", self.mean),
            None => format!("{:.digits$}", self.mean),
        }
    }
}

/// A configuration of a sweep.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Configuration {
    /// Name of its points without their seeds.
    pub name: String,
    /// Runs with results.
    pub runs: usize,
    /// Those that completed; completion times and slowdowns are of these alone, all other figures of these and the next.
    pub complete: usize,
    /// Those that `until = "limit"` ended, with messages in flight.
    pub planned: usize,
    /// Mean completion time, in microseconds.
    pub fct_mean_us: Option<Estimate>,
    /// 99th percentile of it.
    pub fct_p99_us: Option<Estimate>,
    /// Largest.
    pub fct_max_us: Option<Estimate>,
    /// Mean slowdown.
    pub slowdown_mean: Option<Estimate>,
    /// 99th percentile of it.
    pub slowdown_p99: Option<Estimate>,
    /// Goodput.
    pub goodput_gbit_per_s: Option<Estimate>,
    /// Bus bandwidth of the first collective.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bus_gbit_per_s: Option<Estimate>,
    /// Retransmitted packets.
    pub retransmitted_percent: Option<Estimate>,
    /// Data packets that arrived after a later one, in percent of all.
    pub reordered_percent: Option<Estimate>,
    /// Headers of data packets, in percent of the payload.
    pub header_percent: Option<Estimate>,
    /// Control packets, in percent of the payload.
    pub control_percent: Option<Estimate>,
    /// Probes per thousand data packets.
    pub probes_permille: Option<Estimate>,
    /// Messages among switches per thousand data packets.
    pub switch_messages_permille: Option<Estimate>,
    /// State of a queue pair about its paths, in bytes.
    pub queue_pair_bytes: Option<Estimate>,
    /// State of a switch, in bytes.
    pub switch_bytes: Option<Estimate>,
    /// What faulty links got of their even share, in percent.
    pub bad_share_percent: Option<Estimate>,
    /// Time until that was below a tenth for good, in microseconds; of the runs in which it ever was.
    pub leave_us: Option<Estimate>,
    /// Runs in which it never was.
    pub stayed: usize,
}

impl Configuration {
    /// Runs that completed or ended as they were meant to.
    pub const fn ended(&self) -> usize {
        self.complete + self.planned
    }
}

/// The name of a point without its seed.
pub fn without_seed(point: &Point) -> &str {
    // One hyphen: a label may end in another one.
    let of_seed = |seed| {
        let name = point.name.strip_suffix(&format!("seed{seed}"))?;
        Some(name.strip_suffix('-').unwrap_or(name))
    };
    point.seed.and_then(of_seed).unwrap_or(&point.name)
}

/// All configurations, in the order of the sweep; nothing where none has several seeds.
pub fn over_seeds<'a>(sweep: &Manifest, results: impl Fn(&Point) -> Option<&'a Results>) -> Vec<Configuration> {
    let mut pools: Vec<(&str, Vec<&Results>)> = Vec::new();
    for point in &sweep.points {
        let Some(results) = results(point) else { continue };
        let name = without_seed(point);
        match pools.iter_mut().find(|(known, _)| *known == name) {
            Some((_, runs)) => runs.push(results),
            None => pools.push((name, vec![results])),
        }
    }
    if pools.iter().all(|(_, runs)| runs.len() < 2) {
        return Vec::new();
    }
    pools.into_iter().map(|(name, runs)| configuration(name, &runs)).collect()
}

/// Whether the rates of a run are those that it was meant to show: it completed, or it was planned as a look at a steady state.
pub fn has_rates(run: &Results) -> bool {
    run.fct_us.is_some() || run.ended == RunEnd::Planned
}

/// The figures of runs that differ by their seeds alone.
pub fn configuration(name: &str, runs: &[&Results]) -> Configuration {
    let whole: Vec<&Results> = runs.iter().copied().filter(|run| run.fct_us.is_some()).collect();
    let cut = |run: &&Results| run.fct_us.is_none() && has_rates(run);
    let time = |value: &dyn Fn(&Results) -> Option<f64>| {
        Estimate::of(&whole.iter().filter_map(|run| value(run)).collect::<Vec<_>>())
    };
    let of = |value: &dyn Fn(&Results) -> Option<f64>| {
        let ended = runs.iter().filter(|run| has_rates(run));
        Estimate::of(&ended.filter_map(|run| value(run)).collect::<Vec<_>>())
    };
    // How a path is left shows in runs that do not complete, too.
    let any = |value: &dyn Fn(&Results) -> Option<f64>| {
        Estimate::of(&runs.iter().filter_map(|run| value(run)).collect::<Vec<_>>())
    };
    Configuration {
        name: if name.is_empty() { "all seeds".to_owned() } else { name.to_owned() },
        runs: runs.len(),
        complete: whole.len(),
        planned: runs.iter().filter(|run| cut(run)).count(),
        fct_mean_us: time(&|run| run.fct_us.map(|fct| fct.mean)),
        fct_p99_us: time(&|run| run.fct_us.map(|fct| fct.p99)),
        fct_max_us: time(&|run| run.fct_us.map(|fct| fct.max)),
        slowdown_mean: time(&|run| run.slowdown.map(|slow| slow.mean)),
        slowdown_p99: time(&|run| run.slowdown.map(|slow| slow.p99)),
        goodput_gbit_per_s: of(&|run| Some(run.goodput_gbit_per_s)),
        bus_gbit_per_s: of(&|run| run.groups.iter().find_map(|group| group.bus_gbit_per_s)),
        retransmitted_percent: of(&|run| Some(run.retransmitted_percent)),
        reordered_percent: of(&|run| {
            let sent = run.data_packets + run.retransmitted_packets;
            Some(100.0 * run.reordered_packets as f64 / sent.max(1) as f64)
        }),
        header_percent: of(&|run| Some(run.overhead.header_percent)),
        control_percent: of(&|run| Some(run.overhead.control_percent)),
        probes_permille: of(&|run| Some(run.overhead.probes_permille)),
        switch_messages_permille: of(&|run| Some(run.overhead.switch_messages_permille)),
        queue_pair_bytes: of(&|run| Some(run.overhead.queue_pair_bytes as f64)),
        switch_bytes: of(&|run| Some(run.overhead.switch_bytes as f64)),
        bad_share_percent: any(&|run| run.bad_path.map(|bad| bad.share_percent)),
        leave_us: any(&|run| run.bad_path.and_then(|bad| bad.leave_us)),
        stayed: runs.iter().filter(|run| run.bad_path.is_some_and(|bad| bad.leave_us.is_none())).count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_student() {
        // Mean 3, sample deviation 1.5811, t of 4 degrees 2.776: half width 2.776 * 1.5811 / sqrt(5).
        let estimate = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!((estimate.mean, estimate.seeds), (3.0, 5));
        assert!((estimate.ci95.unwrap() - 1.9629).abs() < 1e-3, "{estimate:?}");
        assert_eq!(estimate.text(1), "3.0 \u{b1} 2.0");
        assert_eq!(Estimate::of(&[7.0]).unwrap().ci95, None);
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&[2.0, 2.0]).unwrap().ci95, Some(0.0));
        // Quantiles of printed tables, within the one here and beyond it.
        for (freedom, t) in [(1, 12.706), (30, 2.042), (31, 2.0395), (40, 2.0211), (60, 2.0003), (120, 1.9799)] {
            assert!((t95(freedom) - t).abs() < 2e-4, "{freedom}: {}", t95(freedom));
        }
    }

    #[test]
    fn labels_that_end_in_signs_stay_apart() {
        let point = |name: &str| Point { name: name.to_owned(), at: [].into(), seed: Some(1), set: Vec::new() };
        // `seed1`: a sweep without axes. `dcqcn--seed1`: a case that is labelled `dcqcn+`.
        for (name, without) in
            [("seed1", ""), ("dcqcn-seed1", "dcqcn"), ("dcqcn--seed1", "dcqcn-"), ("a-seed2", "a-seed2")]
        {
            assert_eq!(without_seed(&point(name)), without, "{name}");
        }
    }

    #[test]
    fn seeds_are_pooled_by_configuration_and_only_complete_runs_count() {
        let point =
            |name: &str, seed| Point { name: name.to_owned(), at: [].into(), seed: Some(seed), set: Vec::new() };
        let points = vec![point("a-seed1", 1), point("b-seed1", 1), point("a-seed2", 2), point("b-seed2", 2)];
        let sweep = Manifest { points, ..Manifest::default() };
        let fct = |mean| mrc_sim::run::Distribution { mean, p50: mean, p90: mean, p99: mean, p999: mean, max: mean };
        let run = |mean: Option<f64>| Results { fct_us: mean.map(fct), ..Results::default() };
        let results = [run(Some(1.0)), run(Some(5.0)), run(Some(3.0)), run(None)];
        let of = |point: &Point| sweep.points.iter().position(|other| other == point).map(|nth| &results[nth]);
        let pooled = over_seeds(&sweep, of);
        assert_eq!(
            pooled.iter().map(|c| (c.name.as_str(), c.runs, c.complete)).collect::<Vec<_>>(),
            [("a", 2, 2), ("b", 2, 1)]
        );
        assert_eq!(pooled[0].fct_mean_us.unwrap().mean, 2.0);
        assert_eq!(pooled[1].fct_mean_us.unwrap().ci95, None);
    }

    /// A look at a steady state has rates and no completion times.
    #[test]
    fn runs_that_end_as_planned_have_rates() {
        let run = |ended, goodput_gbit_per_s| Results { ended, goodput_gbit_per_s, ..Results::default() };
        let runs = [run(RunEnd::Planned, 90.0), run(RunEnd::Planned, 94.0), run(RunEnd::Limit, 10.0)];
        let pooled = configuration("a", &runs.iter().collect::<Vec<_>>());
        assert_eq!((pooled.runs, pooled.complete, pooled.planned), (3, 0, 2));
        let goodput = pooled.goodput_gbit_per_s.unwrap();
        assert_eq!((goodput.mean, goodput.seeds), (92.0, 2));
        assert_eq!((pooled.fct_mean_us, pooled.slowdown_p99), (None, None));
    }
}
