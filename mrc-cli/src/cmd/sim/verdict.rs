//! The cases of one axis of a sweep against each other, over all combinations of the other axes (`compare` of a sweep file).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use mrc_sim::run::Results;

use super::pool::{self, Configuration, Estimate};
use super::sweep::{Manifest, Point};

/// A case at most so much slower than the best one counts as equal to it.
pub const EQUAL: f64 = 1.05;
/// What a combination counts in which not every run of a case came to its end.
pub const UNFINISHED: f64 = 10.0;

/// One case in one combination.
pub struct Cell {
    /// The case.
    pub case: String,
    /// Labels of the other axes.
    pub at: Vec<String>,
    /// Its figures over the seeds.
    pub figures: Configuration,
    /// Its cost over that of the best case there; `None` where none came to its end.
    pub ratio: Option<f64>,
}

impl Cell {
    /// Whether all its runs completed or ended as they were meant to.
    pub const fn has_ended(&self) -> bool {
        self.figures.ended() == self.figures.runs
    }

    /// What cases are compared by: the time of an iteration of a collective, else the 99th percentile of completion times. Runs
    /// with a planned end have neither; where there are such, by `goodput`.
    fn cost(&self, goodput: bool) -> Option<f64> {
        let time_of = |rate: Option<Estimate>| rate.filter(|rate| rate.mean > 0.0).map(|rate| 1.0 / rate.mean);
        let Configuration { bus_gbit_per_s: bus, fct_p99_us: fct, goodput_gbit_per_s, .. } = self.figures;
        let cost = if goodput { time_of(goodput_gbit_per_s) } else { time_of(bus).or_else(|| fct.map(|fct| fct.mean)) };
        cost.filter(|_| self.has_ended())
    }
}

/// What is said of one case.
pub struct Case {
    /// Its label.
    pub name: String,
    /// Combinations that it ran in.
    pub cells: usize,
    /// Those in which it was the best or equal to it.
    pub best: usize,
    /// Those in which not all its runs came to their end.
    pub unfinished: usize,
    /// Geometric mean of its ratios.
    pub mean: f64,
    /// The same by axis and label, in the order of [`Table::labels`].
    pub by_label: Vec<Option<f64>>,
    /// Its worst combination of those that came to their end.
    pub worst: Option<(String, f64)>,
    /// Of the combinations with faulty links: those it left in every run, all of them, and the median time in microseconds.
    pub left: (usize, usize, Option<f64>),
    /// Means over its combinations.
    pub costs: Costs,
}

/// What a case costs beside time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Costs {
    pub reordered_percent: f64,
    pub retransmitted_percent: f64,
    pub header_percent: f64,
    pub control_percent: f64,
    pub probes_permille: f64,
    pub switch_messages_permille: f64,
    /// Largest over the combinations.
    pub queue_pair_bytes: f64,
    /// Largest over the combinations.
    pub switch_bytes: f64,
}

impl Costs {
    fn of(cells: &[&Cell]) -> Self {
        let values = |of: &dyn Fn(&Configuration) -> Option<Estimate>| -> Vec<f64> {
            cells.iter().filter_map(|cell| of(&cell.figures)).map(|value| value.mean).collect()
        };
        let mean = |of: &dyn Fn(&Configuration) -> Option<Estimate>| {
            let values = values(of);
            values.iter().sum::<f64>() / values.len().max(1) as f64
        };
        let most = |of: &dyn Fn(&Configuration) -> Option<Estimate>| values(of).into_iter().fold(0.0, f64::max);
        Self {
            reordered_percent: mean(&|one| one.reordered_percent),
            retransmitted_percent: mean(&|one| one.retransmitted_percent),
            header_percent: mean(&|one| one.header_percent),
            control_percent: mean(&|one| one.control_percent),
            probes_permille: mean(&|one| one.probes_permille),
            switch_messages_permille: mean(&|one| one.switch_messages_permille),
            queue_pair_bytes: most(&|one| one.queue_pair_bytes),
            switch_bytes: most(&|one| one.switch_bytes),
        }
    }
}

impl Case {
    /// In words.
    pub fn verdict(&self) -> String {
        let mut text = format!(
            "Best or within 5 % in {} of {} combinations; {:.2} times the best on average",
            self.best, self.cells, self.mean
        );
        if let Some((at, ratio)) = self.worst.as_ref().filter(|(_, ratio)| *ratio > EQUAL) {
            let _ = write!(text, ", {ratio:.1} times in the worst ({at})");
        }
        if self.unfinished > 0 {
            let _ = write!(text, "; does not complete in {}", self.unfinished);
        }
        match self.left {
            (_, 0, _) => {}
            (0, of, _) => {
                let _ = write!(text, ". Never leaves faulty links for good ({of} combinations)");
            }
            (left, of, Some(us)) => {
                let _ = write!(text, ". Leaves faulty links in {left} of {of}, after {us:.0} us (median)");
            }
            (left, of, None) => {
                let _ = write!(text, ". Leaves faulty links in {left} of {of}");
            }
        }
        text + "."
    }
}

/// All cases in all combinations.
pub struct Table {
    /// The axis that is compared.
    pub axis: String,
    /// The other axes with their labels, in the order of the file.
    pub labels: Vec<(String, Vec<String>)>,
    /// Cases, best first.
    pub cases: Vec<Case>,
    /// In the order of the points.
    pub cells: Vec<Cell>,
    /// Points with results, and all.
    pub points: (usize, usize),
}

/// Labels of the other axes, and the case.
type Place = (Vec<String>, String);

/// The comparison that a sweep asks for; `None` when it asks for none, or has no results.
pub fn of<'a>(sweep: &Manifest, results: impl Fn(&Point) -> Option<&'a Results>) -> Option<Table> {
    let axis = sweep.compare.clone()?;
    let others: Vec<&String> = sweep.axes.iter().filter(|name| **name != axis).collect();
    let mut order: Vec<Place> = Vec::new();
    let mut runs: BTreeMap<Place, (String, Vec<&Results>)> = BTreeMap::new();
    for point in &sweep.points {
        let Some(results) = results(point) else { continue };
        let at: Vec<String> = others.iter().filter_map(|&name| point.at.get(name).cloned()).collect();
        let key = (at, point.at.get(&axis)?.clone());
        let (_, of) = runs.entry(key.clone()).or_insert_with(|| {
            order.push(key);
            (pool::without_seed(point).to_owned(), Vec::new())
        });
        of.push(results);
    }
    let with_results = runs.values().map(|(_, runs)| runs.len()).sum();
    let mut cells: Vec<Cell> = Vec::new();
    for key in order {
        let Some((name, runs)) = runs.remove(&key) else { continue };
        let (at, case) = key;
        cells.push(Cell { case, at, figures: pool::configuration(&name, &runs), ratio: None });
    }
    let planned = cells.iter().filter(|cell| cell.figures.planned > 0).map(|cell| cell.at.clone());
    let by_goodput: BTreeSet<Vec<String>> = planned.collect();
    let mut best: BTreeMap<Vec<String>, f64> = BTreeMap::new();
    for cell in &cells {
        if let Some(cost) = cell.cost(by_goodput.contains(&cell.at)) {
            best.entry(cell.at.clone()).and_modify(|least| *least = least.min(cost)).or_insert(cost);
        }
    }
    for cell in &mut cells {
        let least = best.get(&cell.at).copied();
        let cost = cell.cost(by_goodput.contains(&cell.at));
        cell.ratio = cost.or_else(|| least.map(|least| least * UNFINISHED)).zip(least).map(|(a, b)| a / b);
    }
    let labels: Vec<(String, Vec<String>)> = others
        .iter()
        .enumerate()
        .map(|(nth, name)| ((*name).clone(), distinct(cells.iter().map(|cell| &cell.at[nth]))))
        .collect();
    let names = distinct(cells.iter().map(|cell| &cell.case));
    let mut cases: Vec<Case> = names.into_iter().map(|name| case(name, &cells, &labels)).collect();
    cases.sort_by(|a, b| a.mean.total_cmp(&b.mean));
    let points = (with_results, sweep.points.len());
    (!cells.is_empty()).then_some(Table { axis, labels, cases, cells, points })
}

fn distinct<'a>(all: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for one in all {
        if !seen.contains(one) {
            seen.push(one.clone());
        }
    }
    seen
}

/// Geometric mean; `None` of nothing.
fn geometric(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let logs: Vec<f64> = ratios.map(f64::ln).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

fn case(name: String, cells: &[Cell], labels: &[(String, Vec<String>)]) -> Case {
    let own: Vec<&Cell> = cells.iter().filter(|cell| cell.case == name).collect();
    let ratio_where =
        |fits: &dyn Fn(&Cell) -> bool| geometric(own.iter().filter(|cell| fits(cell)).filter_map(|cell| cell.ratio));
    let mut by_label = Vec::new();
    for (nth, (_, all)) in labels.iter().enumerate() {
        by_label.extend(all.iter().map(|label| ratio_where(&|cell: &Cell| cell.at[nth] == *label)));
    }
    let ended = own.iter().filter(|cell| cell.has_ended());
    let worst = ended.filter_map(|cell| Some((cell.at.join(", "), cell.ratio?)));
    let worst = worst.max_by(|a, b| a.1.total_cmp(&b.1));
    let faulty: Vec<&&Cell> = own.iter().filter(|cell| cell.figures.bad_share_percent.is_some()).collect();
    let left = faulty.iter().filter(|cell| cell.figures.stayed == 0);
    let mut times: Vec<f64> = left.filter_map(|cell| cell.figures.leave_us).map(|leave| leave.mean).collect();
    times.sort_unstable_by(f64::total_cmp);
    Case {
        cells: own.len(),
        best: own.iter().filter(|cell| cell.has_ended() && cell.ratio.is_some_and(|ratio| ratio <= EQUAL)).count(),
        unfinished: own.iter().filter(|cell| !cell.has_ended()).count(),
        mean: ratio_where(&|_: &Cell| true).unwrap_or(f64::INFINITY),
        by_label,
        worst,
        left: (times.len(), faulty.len(), times.get(times.len() / 2).copied()),
        costs: Costs::of(&own),
        name,
    }
}

impl Table {
    /// As lines.
    pub fn text(&self) -> String {
        let width = self.cases.iter().map(|case| case.name.len()).max().unwrap_or(0).max(self.axis.len());
        let mut text = format!("{:<width$}  verdict\n", self.axis);
        for case in &self.cases {
            let _ = writeln!(text, "{:<width$}  {}", case.name, case.verdict());
        }
        let (have, all) = self.points;
        let _ =
            write!(text, "{have} of {all} points have results; `mrc sim report` makes the page of all combinations");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mrc_sim::run::{BadPath, Distribution, GroupReport, RunEnd};

    fn run(us: Option<f64>, bad: Option<BadPath>) -> Results {
        let fct = |us| Distribution { mean: us, p50: us, p90: us, p99: us, p999: us, max: us };
        Results { fct_us: us.map(fct), bad_path: bad, ..Results::default() }
    }

    fn sweep(cases: &[&str], faults: &[&str]) -> Manifest {
        let point = |fault: &str, case: &str, seed: u64| Point {
            name: format!("{fault}-{case}-seed{seed}"),
            at: [("fault".to_owned(), fault.to_owned()), ("scheme".to_owned(), case.to_owned())].into(),
            seed: Some(seed),
            set: Vec::new(),
        };
        let points = faults
            .iter()
            .flat_map(|fault| cases.iter().flat_map(move |case| [1, 2].map(|seed| point(fault, case, seed))));
        Manifest {
            axes: vec!["fault".to_owned(), "scheme".to_owned()],
            points: points.collect(),
            compare: Some("scheme".to_owned()),
            ..Manifest::default()
        }
    }

    #[test]
    fn cases_are_ranked_by_their_times_and_unfinished_ones_count_ten() {
        let sweep = sweep(&["a", "b", "c"], &["none", "loss"]);
        let (stays, leaves) =
            (BadPath { share_percent: 90.0, leave_us: None }, BadPath { share_percent: 3.0, leave_us: Some(30.0) });
        let of = |point: &Point| match (&point.at["fault"][..], &point.at["scheme"][..], point.seed) {
            ("none", "a", _) => run(Some(100.0), None),
            ("none", "b", _) => run(Some(104.0), None),
            ("none", ..) => run(Some(400.0), None),
            (_, "a", _) => run(Some(200.0), Some(leaves)),
            (_, "b", Some(1)) => run(Some(200.0), Some(leaves)),
            (_, "b", _) => run(None, Some(stays)),
            _ => run(Some(100.0), Some(stays)),
        };
        let results: BTreeMap<&str, Results> = sweep.points.iter().map(|point| (&point.name[..], of(point))).collect();
        let table = super::of(&sweep, |point| results.get(&point.name[..])).unwrap();
        let names: Vec<_> = table.cases.iter().map(|case| (&case.name[..], case.best, case.unfinished)).collect();
        assert_eq!(names, [("a", 1, 0), ("c", 1, 0), ("b", 1, 1)]);
        let [a, c, b] = &table.cases[..] else { panic!() };
        assert!((a.mean - 2.0f64.sqrt()).abs() < 1e-9 && (c.mean - 2.0).abs() < 1e-9, "{} {}", a.mean, c.mean);
        assert!((b.mean - 10.4f64.sqrt()).abs() < 1e-9, "1.04 and 10: {}", b.mean);
        assert_eq!(b.by_label.iter().map(|ratio| ratio.unwrap()).collect::<Vec<_>>().len(), 2);
        assert_eq!((a.left, b.left, c.left), ((1, 1, Some(30.0)), (0, 1, None), (0, 1, None)));
        assert!(a.verdict().contains("in the worst (loss)") && a.verdict().contains("in 1 of 1, after 30 us"));
        assert!(b.verdict().contains("does not complete in 1") && b.verdict().contains("Never leaves"));
        assert!(table.text().contains("12 of 12 points"));
    }

    /// A run that ends by plan has no completion times: where one does, goodput ranks the cases, also those that completed.
    #[test]
    fn steady_states_compare_by_their_goodput() {
        let sweep = sweep(&["a", "b", "c"], &["none"]);
        let of = |point: &Point| {
            let planned = |rate| Results { ended: RunEnd::Planned, goodput_gbit_per_s: rate, ..Results::default() };
            match &point.at["scheme"][..] {
                "a" => planned(50.0),
                "b" => planned(100.0),
                _ => Results { goodput_gbit_per_s: 25.0, ..run(Some(1.0), None) },
            }
        };
        let results: BTreeMap<&str, Results> = sweep.points.iter().map(|point| (&point.name[..], of(point))).collect();
        let table = super::of(&sweep, |point| results.get(&point.name[..])).unwrap();
        let names: Vec<_> = table.cases.iter().map(|case| (&case.name[..], case.mean, case.unfinished)).collect();
        assert_eq!(names, [("b", 1.0, 0), ("a", 2.0, 0), ("c", 4.0, 0)]);
    }

    #[test]
    fn collectives_compare_by_their_bandwidth_and_nothing_compares_without_being_asked() {
        let mut sweep = sweep(&["a", "b"], &["none"]);
        let of = |point: &Point| {
            let bus = if point.at["scheme"] == "a" { 50.0 } else { 100.0 };
            // Its messages are slower, its iterations faster.
            let groups = vec![GroupReport { bus_gbit_per_s: Some(bus), ..GroupReport::default() }];
            Results { groups, ..run(Some(bus), None) }
        };
        let results: BTreeMap<String, Results> =
            sweep.points.iter().map(|point| (point.name.clone(), of(point))).collect();
        let table = super::of(&sweep, |point| results.get(&point.name)).unwrap();
        assert_eq!((&table.cases[0].name[..], table.cases[1].mean), ("b", 2.0));
        sweep.compare = None;
        assert!(super::of(&sweep, |point| results.get(&point.name)).is_none());
    }
}
