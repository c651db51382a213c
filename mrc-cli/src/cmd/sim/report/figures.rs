//! Which figures a report has, and what stands in them.

use mrc_sim::run::{Distribution, GroupReport, LossCounts, Results, RunEnd};

use super::Run;
use super::plots::{self, Axes, DASHES, Line, Look, MOST_LINES, MOST_PAIRS, Shown, spread};
use crate::cmd::sim::pool::{Estimate, without_seed};
use crate::cmd::sim::sweep::Manifest;

/// Runs that get figures of their own; more would make a page nobody reads.
pub(super) const DETAILED: usize = 12;

/// A picture.
pub struct Figure {
    /// File name without its ending, and anchor.
    pub id: String,
    /// Heading it belongs to.
    pub(super) section: String,
    /// What it shows.
    pub(super) caption: String,
    /// The picture.
    pub svg: String,
}

/// All figures, in the order of the page.
pub fn figures(runs: &[Run], sweep: Option<&Manifest>) -> anyhow::Result<Vec<Figure>> {
    let mut figures: Vec<Figure> = Vec::new();
    let mut add = |section: &str, id: String, caption: String, svg: Option<String>| {
        let id = own_name(&id, |id| figures.iter().any(|figure| figure.id == id));
        figures.extend(svg.map(|svg| Figure { id, section: section.to_owned(), caption, svg }));
    };
    if let Some(sweep) = sweep {
        for (axis, name) in sweep.axes.iter().enumerate() {
            let trends: [Trend<'_>; 4] = [
                ("bus bandwidth, Gb/s", "bus", &|results| Reading::rate(results, bus_gbit_per_s(results))),
                ("mean FCT, us", "fct", &|results| Reading::time(results, |fct| fct.mean)),
                ("99th percentile of FCT, us", "p99", &|results| Reading::time(results, |fct| fct.p99)),
                ("goodput, Gb/s", "goodput", &|results| Reading::rate(results, Some(results.goodput_gbit_per_s))),
            ];
            for (y, short, value) in trends {
                for (panel, shown) in panels(trend(runs, sweep, axis, value)) {
                    // The shortest of times is as telling as the longest; of rates only the high ones are.
                    let log_y = matches!(short, "fct" | "p99") && wide(&shown.lines, |(_, y)| y);
                    let axes = Axes { x: name, y, log_x: wide(&shown.lines, |(x, _)| x), log_y };
                    let tail = panel.as_ref().map(|panel| format!("-{panel}")).unwrap_or_default();
                    let id = format!("sweep-{name}-{short}{tail}");
                    let panel = panel.map(|panel| format!("{panel}. ")).unwrap_or_default();
                    let mut caption = format!("{panel}Mean over the seeds, with 95 % confidence intervals; x: {name}.");
                    if shown.lines.iter().any(|line| !line.bars.is_empty()) {
                        caption += OPEN_ENDS;
                    }
                    if shown.lines.iter().any(|line| !line.unfinished.is_empty()) {
                        caption += CROSSES;
                    }
                    add("Across the sweep", id, noted(caption, &shown), plots::lines(&axes, &shown)?);
                }
            }
        }
    }
    let pooled = configurations(runs, sweep);
    let cdfs = Shown::of(pooled.len(), |nth| cdf(pooled[nth].0, &pooled[nth].1, None));
    let axes = Axes { x: "flow completion time, us", y: "share of flows", log_x: true, log_y: false };
    let seeds = if pooled.len() < runs.len() { SEEDS } else { "" };
    let aside = if runs.iter().any(|run| run.results.groups.iter().any(|group| group.set_aside)) { ASIDE } else { "" };
    let caption = noted(format!("Distribution of flow completion times. {SHARES}{seeds}{aside}"), &cdfs);
    add("Completion times", "fct-cdf".to_owned(), caption, plots::lines(&axes, &cdfs)?);
    for run in spread(runs.len(), DETAILED).map(|run| &runs[run]) {
        for (id, caption, svg) in of_run(run)? {
            add(&run.name, format!("{}-{id}", run.name), caption, svg);
        }
    }
    Ok(figures)
}

/// A name for a file and an anchor, which no other figure has: axes and labels may be called anything.
fn own_name(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let safe = |c: char| if c == '/' || c.is_whitespace() || c.is_control() { '-' } else { c };
    let name: String = name.chars().map(safe).collect();
    let further = (2..).map(|nth| format!("{name}-{nth}"));
    [name.clone()].into_iter().chain(further).find(|name| !taken(name)).expect("there are more names than figures")
}

/// What a bar without a stroke across its end means.
const OPEN_ENDS: &str = " An interval without a stroke across its end goes on beyond the axis.";

/// What crosses of a trend mean.
const CROSSES: &str = " A cross is a point with unfinished runs: its value is of what completed in them, and it stands at \
                       the upper edge when nothing did.";

/// What shares of a distribution refer to.
const SHARES: &str =
    "Shares are of all flows: a line that ends below 1 is of a run in which the others did not complete.";

/// What a line of several runs is.
const SEEDS: &str = " Runs that differ by their seeds alone are one line.";

/// What the distribution of a run leaves out, as its other figures do.
const ASIDE: &str = " What began in a warm-up or a cool-down is left out.";

/// Runs by configuration, in the order of the first of each: in a sweep those that differ by their seeds alone are one.
fn configurations<'a>(runs: &'a [Run], sweep: Option<&Manifest>) -> Vec<(&'a str, Vec<&'a Run>)> {
    let of_point = |run: &'a Run| {
        let point = sweep.and_then(|sweep| sweep.points.iter().find(|point| point.name == run.name));
        // A prefix of the run's own name.
        point.map_or(run.name.len(), |point| without_seed(point).len())
    };
    let mut all: Vec<(&str, Vec<&Run>)> = Vec::new();
    for run in runs {
        let name = &run.name[..of_point(run)];
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, runs)) => runs.push(run),
            None => all.push((name, vec![run])),
        }
    }
    for (name, runs) in &mut all {
        *name = match &runs[..] {
            [only] => &only.name,
            _ if name.is_empty() => "all seeds",
            _ => name,
        };
    }
    all
}

/// A value of a run, as far as it has one.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Reading {
    /// Of a run that is complete.
    Whole(f64),
    /// Of the part of a run that completed; `None` when none did.
    Part(Option<f64>),
    /// The run knows no such value.
    Absent,
}

impl Reading {
    /// A completion time: that of the messages that completed says little about the others.
    fn time(results: &Results, of: impl Fn(Distribution) -> f64) -> Self {
        results.fct_us.map(&of).map_or_else(|| Self::Part(results.completed_fct_us.map(&of)), Self::Whole)
    }

    /// A rate, which a run that ends as planned has, too.
    fn rate(results: &Results, value: Option<f64>) -> Self {
        match value {
            Some(value) if results.finished || results.ended == RunEnd::Planned => Self::Whole(value),
            Some(value) => Self::Part(Some(value)),
            None => Self::Absent,
        }
    }
}

/// Axis label, name of the figure, value of a run.
type Trend<'a> = (&'a str, &'a str, &'a dyn Fn(&Results) -> Reading);

/// Bus bandwidth of the first collective.
pub(super) fn bus_gbit_per_s(results: &Results) -> Option<f64> {
    results.groups.iter().find_map(|group| group.bus_gbit_per_s)
}

/// A caption that says what its plot leaves out.
fn noted(caption: String, shown: &Shown) -> String {
    match shown.note() {
        Some(note) => format!("{caption} {note}: the first, the last and others between them; the tables have all."),
        None => caption,
    }
}

type Drawn = (&'static str, String, Option<String>);

fn of_run(run: &Run) -> anyhow::Result<Vec<Drawn>> {
    let results = &run.results;
    let timeline = &results.timeline;
    let at = |values: Vec<f64>| timeline.at_us.iter().copied().zip(values).collect::<Vec<_>>();
    let mut drawn = Vec::new();
    let workloads: Vec<_> = timeline.goodput_gbit_per_s.iter().zip(&results.groups).collect();
    let goodput = Shown::of(workloads.len(), |nth| {
        let (bins, group) = workloads[nth];
        let at = |(bin, &rate): (usize, &f64)| (bin as f64 * timeline.bin_us, rate);
        Line::new(group.name.clone(), bins.iter().enumerate().map(at).collect())
    });
    let axes = Axes { x: "time, us", y: "goodput, Gb/s", log_x: false, log_y: false };
    drawn.push((
        "goodput",
        noted("Bytes placed in the receivers' memories over time, by workload.".to_owned(), &goodput),
        plots::lines(&axes, &goodput)?,
    ));
    if results.groups.len() > 1 {
        let cdfs = Shown::of(results.groups.len(), |group| cdf(&run.name, &[run], Some(group)));
        let axes = Axes { x: "flow completion time, us", y: "share of flows", log_x: true, log_y: false };
        let caption = noted("Flow completion times by workload.".to_owned(), &cdfs);
        drawn.push(("fct", caption, plots::lines(&axes, &cdfs)?));
    }
    drawn.push(("queues", "Fullest queue of each tier over time.".to_owned(), plots::heat(results)?));
    let loads = Shown::of(timeline.links.len(), |nth| {
        let load = &timeline.links[nth];
        Line::new(load.tier.clone(), at(load.mean_percent.clone()))
    });
    let axes = Axes { x: "time, us", y: "sent, % of the links' rate", log_x: false, log_y: false };
    let caption = noted("Mean utilisation of the links of each tier since the sample before.".to_owned(), &loads);
    drawn.push(("links", caption, plots::lines(&axes, &loads)?));
    let most = Shown::of(timeline.links.len(), |nth| {
        let load = &timeline.links[nth];
        Line::new(load.tier.clone(), at(load.max_percent.clone()))
    });
    let caption = noted("Utilisation of the busiest link of each tier since the sample before.".to_owned(), &most);
    drawn.push(("links-max", caption, plots::lines(&axes, &most)?));
    if timeline.paths.iter().any(|paths| paths.good + paths.skip + paths.assumed_bad > 0) {
        let line = |name: &str, of: &dyn Fn(usize) -> u64| {
            Line::new(name, at((0..timeline.paths.len()).map(|n| of(n) as f64).collect()))
        };
        let states = Shown::from([
            line("GOOD", &|n| timeline.paths[n].good),
            line("SKIP", &|n| timeline.paths[n].skip),
            line("ASSUMED_BAD", &|n| timeline.paths[n].assumed_bad),
        ]);
        let axes = Axes { x: "time, us", y: "EVs of all QPs", log_x: false, log_y: false };
        drawn.push(("evs", "EVs by state over time.".to_owned(), plots::lines(&axes, &states)?));
    }
    if timeline.losses.last().is_some_and(|last| *last != LossCounts::default()) {
        let line = |name: &str, of: &dyn Fn(&LossCounts) -> u64| {
            Line::new(name, at(timeline.losses.iter().map(|losses| of(losses) as f64).collect()))
        };
        let causes = Shown::from([
            line("told by NACK", &|losses| losses.nack),
            line("inferred", &|losses| losses.inferred),
            line("by timer", &|losses| losses.timeout),
        ]);
        let axes = Axes { x: "time, us", y: "packets, sum so far", log_x: false, log_y: false };
        drawn.push(("losses", "Retransmissions by how the loss was found.".to_owned(), plots::lines(&axes, &causes)?));
    }
    Ok(drawn)
}

/// The distribution of completion times of a workload, or of all together, where each flow counts the same.
fn cdf(name: &str, runs: &[&Run], group: Option<usize>) -> Line {
    let all = runs.iter().copied().flat_map(|run| run.results.groups.iter().enumerate());
    let shown = |(nth, of): &(usize, &GroupReport)| group.map_or(!of.set_aside, |group| group == *nth);
    let groups: Vec<&GroupReport> = all.filter(shown).map(|(_, group)| group).collect();
    let mut name = match group.and_then(|_| groups.first()) {
        Some(group) => group.name.clone(),
        None => name.to_owned(),
    };
    let all: u64 = groups.iter().map(|group| group.flows.max(group.completed)).sum();
    let completed: u64 = groups.iter().map(|group| group.completed).sum();
    if completed < all {
        name = format!("{completed}/{all}: {name}");
    }
    let weighted = groups.iter().flat_map(|group| {
        let weight = group.completed as f64 / group.fct_cdf_us.len().max(1) as f64;
        group.fct_cdf_us.iter().map(move |&us| (us, weight))
    });
    let mut points: Vec<(f64, f64)> = weighted.collect();
    points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut sum = 0.0;
    for (_, share) in &mut points {
        sum += *share;
        *share = (sum / all as f64).min(1.0);
    }
    Line::new(name, points)
}

/// Points of complete runs, those of others as in [`Line::unfinished`], and [`Line::bars`].
type Points = (Vec<(f64, f64)>, Vec<(f64, Option<f64>)>, Vec<(f64, f64)>);

/// One line of a trend: its names on the other axes, and its points.
type Named = (Vec<String>, Points);

/// The readings of one point, seed by seed.
#[derive(Default)]
struct Pool {
    values: Vec<f64>,
    unfinished: bool,
}

impl Pool {
    fn add(&mut self, reading: Reading) {
        let (value, unfinished) = match reading {
            Reading::Whole(value) => (Some(value), false),
            Reading::Part(value) => (value, true),
            Reading::Absent => (None, false),
        };
        self.values.extend(value);
        self.unfinished |= unfinished;
    }

    fn mean(&self) -> Option<f64> {
        Estimate::of(&self.values).map(|value| value.mean)
    }

    /// Half the width of the confidence interval.
    fn bar(&self) -> Option<f64> {
        Estimate::of(&self.values)?.ci95
    }
}

/// A value over one axis of a sweep whose labels are numbers, one line for each combination of the other axes, the mean
/// over the seeds. Names have no place on an axis: those of other axes tell the lines apart.
fn trend(runs: &[Run], sweep: &Manifest, axis: usize, value: &dyn Fn(&Results) -> Reading) -> Vec<Named> {
    let name = &sweep.axes[axis];
    let others: Vec<&String> = sweep.axes.iter().filter(|other| *other != name).collect();
    // Runs of a sweep come in the order of its axes: lines keep it.
    let mut order: Vec<Vec<&str>> = Vec::new();
    let mut pools: Vec<Vec<(f64, Pool)>> = Vec::new();
    for run in runs {
        let Some(point) = sweep.points.iter().find(|point| point.name == run.name) else { continue };
        let number = |label: &String| label.parse::<f64>().ok().filter(|x| x.is_finite());
        let Some(x) = point.at.get(name).and_then(number) else { return Vec::new() };
        let reading = value(&run.results);
        if reading == Reading::Absent {
            continue;
        }
        let labels: Vec<&str> = others.iter().filter_map(|&other| point.at.get(other).map(String::as_str)).collect();
        let line = order.iter().position(|known| *known == labels).unwrap_or_else(|| {
            order.push(labels);
            pools.push(Vec::new());
            order.len() - 1
        });
        let of_line = &mut pools[line];
        let at = of_line.iter().position(|(known, _)| *known == x).unwrap_or_else(|| {
            of_line.push((x, Pool::default()));
            of_line.len() - 1
        });
        of_line[at].1.add(reading);
    }
    pools.iter_mut().for_each(|of_line| of_line.sort_by(|a, b| a.0.total_cmp(&b.0)));
    // A bare number, yes or no as a name needs its axis.
    let named = |other: &str, label: &str| match label {
        "true" | "false" => format!("{other} {label}"),
        _ if label.parse::<f64>().is_ok() => format!("{other} {label}"),
        _ => label.to_owned(),
    };
    let line = |(labels, pools): (Vec<&str>, Vec<(f64, Pool)>)| {
        let names = others.iter().zip(labels).map(|(other, label)| named(other, label)).collect();
        let at = |(x, pool): &(f64, Pool)| (*x, pool.mean());
        let whole = pools.iter().filter(|(_, pool)| !pool.unfinished).map(at);
        let part = pools.iter().filter(|(_, pool)| pool.unfinished).map(at);
        let bars = pools.iter().filter(|(_, pool)| !pool.unfinished);
        let bars = bars.filter_map(|(x, pool)| Some((*x, pool.bar()?)));
        (names, (whole.filter_map(|(x, mean)| Some((x, mean?))).collect(), part.collect(), bars.collect()))
    };
    order.into_iter().zip(pools).map(line).collect()
}

/// Spreads lines over plots: with more than a plot can hold, one plot for each name of the first axis. Where two axes
/// remain, the first gives the colour and the second the dashes.
fn panels(lines: Vec<Named>) -> Vec<(Option<String>, Shown)> {
    let split = lines.len() > MOST_LINES && lines.iter().all(|(names, _)| names.len() > 1);
    let mut panels: Vec<(Option<String>, Vec<Named>)> = Vec::new();
    for (mut names, points) in lines {
        let panel = split.then(|| names.remove(0));
        match panels.iter_mut().find(|(known, _)| *known == panel) {
            Some((_, lines)) => lines.push((names, points)),
            None => panels.push((panel, vec![(names, points)])),
        }
    }
    panels.into_iter().map(|(panel, lines)| (panel, looks(lines))).collect()
}

/// Draws lines that two axes tell apart in colours and dashes, others in a colour each. What is too much for one plot
/// loses whole names of an axis, so that what remains can be compared.
fn looks(lines: Vec<Named>) -> Shown {
    let of = lines.len();
    if !lines.iter().all(|(names, _)| names.len() == 2) {
        return Shown::of(of, |nth| named_line(&lines[nth]));
    }
    let dashes = kept(&lines, 1, DASHES.len());
    let colours = kept(&lines, 0, (MOST_PAIRS / dashes.len().max(1)).min(MOST_LINES));
    let draw = |line: &Named| {
        let names = &line.0;
        let place = |of: &[&String], name: &String| of.iter().position(|&kept| kept == name);
        let look = Look { colour: place(&colours, &names[0])?, dashes: place(&dashes, &names[1])? };
        Some(Line { look: Some(look), ..named_line(line) })
    };
    Shown { lines: lines.iter().filter_map(draw).collect(), of }
}

fn named_line((names, (points, unfinished, bars)): &Named) -> Line {
    Line { unfinished: unfinished.clone(), bars: bars.clone(), ..Line::new(names.join(", "), points.clone()) }
}

/// The names of one axis, in their order, or `most` of them.
fn kept(lines: &[Named], axis: usize, most: usize) -> Vec<&String> {
    let mut names: Vec<&String> = Vec::new();
    for (line, _) in lines {
        if !names.contains(&&line[axis]) {
            names.push(&line[axis]);
        }
    }
    spread(names.len(), most).map(|nth| names[nth]).collect()
}

/// Whether such values of the points span more than a decade and a half.
fn wide(lines: &[Line], value: impl Fn((f64, f64)) -> f64) -> bool {
    let crosses = |line: &Line| line.unfinished.clone().into_iter().filter_map(|(x, y)| Some((x, y?)));
    let values = || lines.iter().flat_map(|line| line.points.iter().copied().chain(crosses(line))).map(&value);
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    low > 0.0 && high / low > 30.0
}

#[cfg(test)]
mod tests {
    use super::super::page::html;
    use super::super::tests::run;
    use super::*;
    use crate::cmd::sim::sweep::Point;

    #[test]
    fn a_trend_is_the_mean_over_seeds_by_the_other_axes() {
        let point = |name: &str, qps: &str, kind: &str| Point {
            name: name.to_owned(),
            at: [("qps".to_owned(), qps.to_owned()), ("kind".to_owned(), kind.to_owned())].into(),
            seed: None,
            set: Vec::new(),
        };
        let points = vec![point("a", "16", "x"), point("b", "2", "x"), point("c", "2", "x"), point("d", "2", "true")];
        let runs: Vec<Run> = points.iter().map(|point| run(&point.name)).collect();
        let axes = vec!["qps".to_owned(), "kind".to_owned()];
        let sweep = Manifest { axes, points, ..Manifest::default() };
        let seen = std::cell::Cell::new(0.0);
        let value = |_: &Results| Reading::Whole(seen.replace(seen.get() + 1.0));
        let lines = trend(&runs, &sweep, 0, &value);
        let bars = &lines[0].1.2;
        assert!(
            bars.len() == 1 && bars[0].0 == 2.0 && (bars[0].1 - 6.353).abs() < 1e-3,
            "Student, one degree: {bars:?}"
        );
        assert_eq!((&lines[0].0, &lines[0].1.0), (&vec!["x".to_owned()], &vec![(2.0, 1.5), (16.0, 0.0)]));
        assert_eq!(lines[1], (vec!["kind true".to_owned()], (vec![(2.0, 3.0)], vec![], vec![])));
        assert!(trend(&runs, &sweep, 1, &value).is_empty(), "names are no axis");
        assert!(trend(&runs, &sweep, 0, &|_| Reading::Absent).is_empty(), "no run has such a value");
        // One of two seeds did not complete: no mean of survivors on the line. Nothing completed: no 0 either.
        let readings = [Reading::Part(None), Reading::Whole(7.0), Reading::Part(Some(1.0)), Reading::Whole(3.0)];
        let nth = std::cell::Cell::new(0);
        let lines = trend(&runs, &sweep, 0, &|_| readings[nth.replace(nth.get() + 1)]);
        assert_eq!(lines[0].1, (vec![], vec![(2.0, Some(4.0)), (16.0, None)], vec![]));
        let (_, shown) = panels(lines).remove(0);
        let axes = Axes { x: "qps", y: "us", log_x: false, log_y: true };
        let svg = plots::lines(&axes, &shown).unwrap().unwrap();
        let strokes = |svg: &str| svg.matches("<line").count() + svg.matches("<polyline").count();
        let bare =
            plots::lines(&axes, &Shown { lines: vec![named_line(&lines_of(&[(2.0, 4.0), (16.0, 9.0)]))], of: 1 });
        assert!(strokes(&svg) > strokes(&bare.unwrap().unwrap()), "crosses are drawn: {svg}");
    }

    #[test]
    fn axes_may_have_any_name_and_numbers_below_zero() {
        let trends = |name: &str, labels: &[&str]| {
            let point = |label: &&str| Point {
                name: (*label).to_owned(),
                at: [(name.to_owned(), (*label).to_owned())].into(),
                seed: None,
                set: Vec::new(),
            };
            let points: Vec<Point> = labels.iter().map(point).collect();
            let runs: Vec<Run> = points.iter().map(|point| run(&point.name)).collect();
            let sweep = Manifest { axes: vec![name.to_owned()], points, ..Manifest::default() };
            let xs = trend(&runs, &sweep, 0, &|_| Reading::Whole(1.0));
            let xs: Vec<f64> = xs.iter().flat_map(|line| line.1.0.iter().map(|point| point.0)).collect();
            (xs, figures(&runs, Some(&sweep)).unwrap())
        };
        let (xs, figures) = trends("../load / link, %", &["3", "-2", "-10", "0"]);
        assert_eq!(xs, [-10.0, -2.0, 0.0, 3.0]);
        let ids: Vec<&str> = figures.iter().map(|figure| figure.id.as_str()).collect();
        assert!(ids.contains(&"sweep-..-load---link,-%-goodput"), "{ids:?}");
        assert!(!ids.iter().any(|id| id.contains(['/', ' '])), "{ids:?}");
        for label in ["inf", "nan"] {
            assert_eq!(trends("x", &["1", label]).0, [] as [f64; 0], "{label} has no place on an axis");
        }
        assert_eq!(own_name("a b", |name| name == "a-b"), "a-b-2");
    }

    fn lines_of(points: &[(f64, f64)]) -> Named {
        (vec!["line".to_owned()], (points.to_vec(), vec![], vec![]))
    }

    #[test]
    fn a_run_that_did_not_complete_is_never_shown_as_a_fast_one() {
        let mut dead = run("dead");
        dead.results = Results { ended: RunEnd::Stalled, diagnosis: Some("no <byte>".into()), ..dead.results };
        (dead.results.finished, dead.results.flows, dead.results.groups[0].flows) = (false, 2, 2);
        dead.results.groups[0].fct_cdf_us.clear();
        let mut half = run("half");
        let fct = Distribution::of(&mut [3.0, 4.0]);
        (half.results.finished, half.results.ended, half.results.completed_fct_us) = (false, RunEnd::Limit, fct);
        (half.results.flows, half.results.completed) = (4, 2);
        (half.results.groups[0].flows, half.results.groups[0].completed) = (4, 2);
        assert_eq!(Reading::time(&dead.results, |fct| fct.mean), Reading::Part(None));
        assert_eq!(Reading::time(&half.results, |fct| fct.mean), Reading::Part(Some(3.5)));
        assert_eq!(Reading::rate(&half.results, Some(5.0)), Reading::Part(Some(5.0)));
        let line = cdf("half", &[&half], None);
        assert_eq!((line.name.as_str(), line.points.last()), ("2/4: half", Some(&(2.0, 0.5))), "half of all flows");
        let runs = [dead, half];
        let page = html("t", &runs, None, &figures(&runs, None).unwrap());
        let row = ["2 of 4", "<span class=\"bad\">(3.5)</span>"].map(|cell| format!("<td>{cell}</td>")).concat();
        assert!(page.contains(&row), "{page}");
        assert!(page.contains("stalled</span>") && page.contains("not all completed</span>"));
        assert!(page.contains("<td>0 of 2</td><td>-</td><td>-</td>") && page.contains("Unfinished: no &lt;byte&gt;"));
        assert!(!page.contains("<td>0.0</td><td>0.0</td>"), "{page}");
    }

    #[test]
    fn many_lines_are_spread_over_plots_and_keep_their_looks() {
        let named =
            |names: &[&str]| (names.iter().map(|&name| name.to_owned()).collect(), (vec![(1.0, 1.0)], vec![], vec![]));
        let all = ["ring", "mesh"]
            .into_iter()
            .flat_map(|a| ["mrc", "roce"].into_iter().flat_map(move |b| ["0", "0.1", "1"].map(|c| [a, b, c])));
        let plots = panels(all.map(|names| named(&names)).collect());
        let names: Vec<_> = plots.iter().map(|(panel, shown)| (panel.as_deref(), shown.lines.len())).collect();
        assert_eq!(names, [(Some("ring"), 6), (Some("mesh"), 6)]);
        assert_eq!(plots[1].1.lines[4].name, "roce, 0.1");
        let looks: Vec<_> =
            plots[1].1.lines.iter().map(|line| line.look.map(|look| (look.colour, look.dashes))).collect();
        assert_eq!(looks, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)].map(Some));
        let few = panels(vec![named(&["a"]), named(&["b"])]);
        assert_eq!((few.len(), few[0].0.as_ref(), few[0].1.lines.len()), (1, None, 2));
        assert_eq!(few[0].1.lines[0].look, None, "one axis: a colour each");
    }

    #[test]
    fn what_a_plot_leaves_out_is_said_on_it_and_below_it() {
        let named = |names: &[String]| (names.to_vec(), (vec![(1.0, 1.0), (2.0, 2.0)], vec![], vec![]));
        let label = |name: &str, of: usize| (0..of).map(|nth| format!("{name}{nth}")).collect::<Vec<_>>();
        // Two axes: whole names go, and no two lines look alike.
        let pairs = label("kind", 3)
            .into_iter()
            .flat_map(|kind| label("size", 6).into_iter().map(move |size| [kind.clone(), size]));
        let shown = looks(pairs.map(|names| named(&names)).collect());
        assert_eq!(shown.note().as_deref(), Some("12 of 18 lines shown"));
        let mut seen: Vec<_> = shown.lines.iter().filter_map(|line| line.look).collect();
        seen.sort_by_key(|look| (look.colour, look.dashes));
        seen.dedup();
        assert_eq!(seen.len(), 12);
        let sizes: Vec<_> = shown.lines.iter().take(4).map(|line| line.name.as_str()).collect();
        assert_eq!(sizes, ["kind0, size0", "kind0, size1", "kind0, size3", "kind0, size5"]);
        let svg = plots::lines(&Axes { x: "x", y: "y", log_x: false, log_y: false }, &shown).unwrap().unwrap();
        assert!(svg.contains("12 of 18 lines shown") && svg.contains("kind2, size5"), "{svg}");
        // One axis, and the runs of a folder.
        let one = looks(label("seed", 40).into_iter().map(|name| named(&[name])).collect());
        assert_eq!((one.lines.len(), one.lines[0].name.as_str(), one.lines[7].name.as_str()), (8, "seed0", "seed39"));
        let runs: Vec<Run> = label("run", 40).iter().map(|name| run(name)).collect();
        let figures = figures(&runs, None).unwrap();
        let cdf = figures.iter().find(|figure| figure.id == "fct-cdf").unwrap();
        assert!(cdf.caption.contains("8 of 40 lines shown") && cdf.svg.contains("8 of 40 lines shown"));
        assert!(cdf.svg.contains("run39"));
        assert!(figures.iter().any(|figure| figure.section == "run39"), "the last run has figures too");
        assert!(html("t", &runs, None, &figures).contains("Figures for 12 of 40 runs"));
        // Nothing is said where nothing is left out.
        let all = looks(label("seed", 8).into_iter().map(|name| named(&[name])).collect());
        assert_eq!((all.lines.len(), all.note()), (8, None));
    }

    #[test]
    fn each_flow_counts_the_same_in_a_distribution() {
        let mut run = run("one");
        let group =
            |completed, times: &[f64]| GroupReport { completed, fct_cdf_us: times.to_vec(), ..Default::default() };
        run.results.groups = vec![group(10, &[5.0, 9.0]), group(90, &[1.0, 2.0, 3.0])];
        let shares: Vec<(f64, f64)> =
            cdf("one", &[&run], None).points.iter().map(|(us, share)| (*us, share * 100.0)).collect();
        for ((us, share), want) in shares.iter().zip([(1.0, 30.0), (2.0, 60.0), (3.0, 90.0), (5.0, 95.0), (9.0, 100.0)])
        {
            assert!(*us == want.0 && (share - want.1).abs() < 1e-9, "{shares:?}");
        }
        assert_eq!(cdf("one", &[&run], Some(0)).points, [(5.0, 0.5), (9.0, 1.0)]);
        // As in the figures of the run, the warm-up does not count.
        run.results.groups[1].set_aside = true;
        assert_eq!(cdf("one", &[&run], None).points, [(5.0, 0.5), (9.0, 1.0)]);
        let page = figures(std::slice::from_ref(&run), None).unwrap();
        assert!(page.iter().any(|figure| figure.id == "fct-cdf" && figure.caption.contains("warm-up")));
    }

    #[test]
    fn runs_that_differ_by_their_seeds_are_one_distribution() {
        let point =
            |name: &str, seed| Point { name: name.to_owned(), at: [].into(), seed: Some(seed), set: Vec::new() };
        let points = vec![point("a-seed1", 1), point("b-seed1", 1), point("a-seed2", 2), point("c-seed2", 2)];
        let mut runs: Vec<Run> = points.iter().map(|point| run(&point.name)).collect();
        for (run, times) in runs.iter_mut().zip([[1.0, 2.0], [5.0, 6.0], [3.0, 4.0], [7.0, 8.0]]) {
            run.results.groups[0] =
                GroupReport { flows: 2, completed: 2, fct_cdf_us: times.to_vec(), ..Default::default() };
        }
        let sweep = Manifest { points, ..Manifest::default() };
        let pooled = configurations(&runs, Some(&sweep));
        let names: Vec<_> = pooled.iter().map(|(name, runs)| (*name, runs.len())).collect();
        assert_eq!(names, [("a", 2), ("b-seed1", 1), ("c-seed2", 1)]);
        let both = cdf(pooled[0].0, &pooled[0].1, None);
        assert_eq!(both.points, [(1.0, 0.25), (2.0, 0.5), (3.0, 0.75), (4.0, 1.0)]);
        let all = figures(&runs, Some(&sweep)).unwrap();
        let figure = all.iter().find(|figure| figure.id == "fct-cdf").unwrap();
        assert!(figure.caption.contains("seeds alone are one line"), "{}", figure.caption);
        let alone = Manifest { points: vec![point("seed1", 1), point("seed2", 2)], ..Manifest::default() };
        let runs = [run("seed1"), run("seed2")];
        assert_eq!(configurations(&runs, Some(&alone))[0].0, "all seeds");
        assert_eq!(configurations(&runs, None).len(), 2, "files of a folder are no sweep");
    }
}
