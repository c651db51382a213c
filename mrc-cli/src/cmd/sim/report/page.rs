//! Which figures and tables a report has, and the page around them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mrc_sim::run::{Distribution, GroupReport, LossCounts, Results, RunEnd};

use super::Run;
use super::plots::{self, Axes, DASHES, Line, Look, MOST_LINES, MOST_PAIRS, Shown, number, spread};
use crate::cmd::sim::pool::{self, Estimate};
use crate::cmd::sim::shortfall;
use crate::cmd::sim::sweep::Manifest;

/// Runs that get figures of their own; more would make a page nobody reads.
const DETAILED: usize = 12;

/// A picture.
pub struct Figure {
    /// File name without its ending, and anchor.
    pub id: String,
    /// Heading it belongs to.
    section: String,
    /// What it shows.
    caption: String,
    /// The picture.
    pub svg: String,
}

/// All figures, in the order of the page.
pub fn figures(runs: &[Run], sweep: Option<&Manifest>) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let mut add = |section: &str, id: String, caption: String, svg: Option<String>| {
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
                    let tail = panel.as_ref().map(|panel| format!("-{}", panel.replace(' ', "-"))).unwrap_or_default();
                    let id = format!("sweep-{name}-{short}{tail}");
                    let mut caption = match panel {
                        Some(panel) => {
                            format!("{panel}. Mean over the seeds, with 95 % confidence intervals; x: {name}.")
                        }
                        None => format!("Mean over the seeds, with 95 % confidence intervals; x: {name}."),
                    };
                    if shown.lines.iter().any(|line| !line.unfinished.is_empty()) {
                        caption += CROSSES;
                    }
                    add("Across the sweep", id, noted(caption, &shown), plots::lines(&axes, &shown)?);
                }
            }
        }
    }
    let cdfs = Shown::of(runs.len(), |run| cdf(&runs[run], None));
    let axes = Axes { x: "flow completion time, us", y: "share of flows", log_x: true, log_y: false };
    let caption = noted(format!("Distribution of flow completion times. {SHARES}"), &cdfs);
    add("Completion times", "fct-cdf".to_owned(), caption, plots::lines(&axes, &cdfs)?);
    for run in spread(runs.len(), DETAILED).map(|run| &runs[run]) {
        for (id, caption, svg) in of_run(run)? {
            add(&run.name, format!("{}-{id}", run.name), caption, svg);
        }
    }
    Ok(figures)
}

/// What crosses of a trend mean.
const CROSSES: &str = " A cross is a point with unfinished runs: its value is of what completed in them, and it stands at \
                       the upper edge when nothing did.";

/// What shares of a distribution refer to.
const SHARES: &str =
    "Shares are of all flows: a line that ends below 1 is of a run in which the others did not complete.";

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
fn bus_gbit_per_s(results: &Results) -> Option<f64> {
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
        let cdfs = Shown::of(results.groups.len(), |group| cdf(run, Some(group)));
        let axes = Axes { x: "flow completion time, us", y: "share of flows", log_x: true, log_y: false };
        let caption = noted("Flow completion times by workload.".to_owned(), &cdfs);
        drawn.push(("fct", caption, plots::lines(&axes, &cdfs)?));
    }
    drawn.push(("queues", "Fullest queue of each tier over time.".to_owned(), plots::heat(results)?));
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
fn cdf(run: &Run, group: Option<usize>) -> Line {
    let groups = &run.results.groups;
    let (mut name, groups) = match group.and_then(|group| groups.get(group)) {
        Some(group) => (group.name.clone(), std::slice::from_ref(group)),
        None => (run.name.clone(), &groups[..]),
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
    let mut pools: Vec<BTreeMap<u64, Pool>> = Vec::new();
    for run in runs {
        let Some(point) = sweep.points.iter().find(|point| point.name == run.name) else { continue };
        let Some(Ok(x)) = point.at.get(name).map(|label| label.parse::<f64>()) else { return Vec::new() };
        let reading = value(&run.results);
        if reading == Reading::Absent {
            continue;
        }
        let labels: Vec<&str> = others.iter().filter_map(|&other| point.at.get(other).map(String::as_str)).collect();
        let line = order.iter().position(|known| *known == labels).unwrap_or_else(|| {
            order.push(labels);
            pools.push(BTreeMap::new());
            order.len() - 1
        });
        // Bits of non-negative numbers have the order of the numbers.
        pools[line].entry(x.max(0.0).to_bits()).or_default().add(reading);
    }
    // A bare number, yes or no as a name needs its axis.
    let named = |other: &str, label: &str| match label {
        "true" | "false" => format!("{other} {label}"),
        _ if label.parse::<f64>().is_ok() => format!("{other} {label}"),
        _ => label.to_owned(),
    };
    let line = |(labels, pools): (Vec<&str>, BTreeMap<u64, Pool>)| {
        let names = others.iter().zip(labels).map(|(other, label)| named(other, label)).collect();
        let at = |(x, pool): (&u64, &Pool)| (f64::from_bits(*x), pool.mean());
        let whole = pools.iter().filter(|(_, pool)| !pool.unfinished).map(at);
        let part = pools.iter().filter(|(_, pool)| pool.unfinished).map(at);
        let bars = pools.iter().filter(|(_, pool)| !pool.unfinished);
        let bars = bars.filter_map(|(x, pool)| Some((f64::from_bits(*x), pool.bar()?)));
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

const STYLE: &str = "
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc; }
table { border-collapse: collapse; margin: 0.8rem 0; font-size: 0.7rem; font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }
th, td { padding: 0.2rem 0.3rem; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
th { white-space: normal; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; }
figure { margin: 1rem 0; break-inside: avoid; } figcaption { color: #555; font-size: 0.9em; }
.bad { color: #b00; font-weight: 600; } td .bad { display: block; }
figure svg { display: block; }
input { font: inherit; margin-top: 0.8rem; padding: 0.1rem 0.4rem; }
@media (prefers-color-scheme: dark) {
  :root { color-scheme: dark; }
  body { color: #ddd; background: #181818; } figcaption { color: #aaa; } .bad { color: #f77; }
  h2, th, td { border-color: #444; } a { color: #8bf; }
}
@media print {
  :root { color-scheme: light; } body { color: #222; background: #fff; } input { display: none; }
  @page { margin: 12mm; }
  body { max-width: none; margin: 0; padding: 0; font-size: 10px; }
  h2, thead { break-after: avoid; } tr { break-inside: avoid; }
  table { display: table; width: 100%; overflow: visible; font-size: 7px; }
  th, td { padding: 0.1rem 0.2rem; }
  /* Names may break, numbers may not: half of one reads as another one. */
  td:first-child { white-space: normal; overflow-wrap: anywhere; }
}
";

/// The page.
pub fn html(title: &str, runs: &[Run], sweep: Option<&Manifest>, figures: &[Figure]) -> String {
    let mut page = String::new();
    let (title, overview) = (escape(title), overview(runs));
    let _ = write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <link rel=\"icon\" href=\"data:,\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
    );
    let one = super::one_scenario(runs);
    page.push_str(&if one { about(&runs[0].results) } else { String::new() });
    if let Some(sweep) = sweep {
        let missing = sweep.points.len() - runs.len();
        let axes = if sweep.axes.is_empty() { "seeds".to_owned() } else { sweep.axes.join(", ") };
        let _ =
            writeln!(page, "<p>{} points over {}; {missing} without results.</p>", sweep.points.len(), escape(&axes));
    }
    // A long table before the figures would hide them.
    let long = runs.len() > DETAILED;
    page.push_str(if long { "<p><a href=\"#runs\">All runs in numbers</a></p>\n" } else { "" });
    page.push_str(if long { "" } else { &overview });
    if let Some(sweep) = sweep {
        page.push_str(&over_seeds(runs, sweep));
    }
    let mut section = "";
    for figure in figures {
        if figure.section != section {
            section = &figure.section;
            let _ = writeln!(page, "<h2>{}</h2>", escape(section));
            if let Some(run) = runs.iter().find(|run| run.name == section) {
                page.push_str(&if one { String::new() } else { about(&run.results) });
                page.push_str(&details(&run.results));
            }
        }
        let (id, caption) = (escape(&figure.id), escape(&figure.caption));
        let _ = writeln!(page, "<figure id=\"{id}\">{}<figcaption>{caption}</figcaption></figure>", figure.svg);
    }
    if long {
        let (all, between) = (runs.len(), "the first, the last and others between them");
        let _ = writeln!(page, "<p>Figures for {DETAILED} of {all} runs: {between}.</p>");
        let _ = write!(page, "<h2 id=\"runs\">All runs</h2>\n{overview}");
    }
    let _ = writeln!(page, "<script>{SCRIPT}</script></body></html>");
    page
}

/// Above each long table a field that hides the rows without its words. Without scripts the page lacks the field alone.
const SCRIPT: &str = "
document.querySelectorAll('table').forEach(table => {
  const rows = [...table.tBodies[0].rows];
  if (rows.length < 6) return;
  const field = document.createElement('input');
  field.type = 'search';
  field.placeholder = 'filter rows';
  field.oninput = () => {
    const words = field.value.toLowerCase().split(/\\s+/);
    rows.forEach(row => row.hidden = !words.every(word => row.textContent.toLowerCase().includes(word)));
  };
  table.before(field);
});
";

/// Means over the seeds of each configuration.
fn over_seeds(runs: &[Run], sweep: &Manifest) -> String {
    let find =
        |point: &crate::cmd::sim::sweep::Point| runs.iter().find(|run| run.name == point.name).map(|run| &run.results);
    let pooled = pool::over_seeds(sweep, find);
    if pooled.is_empty() {
        return String::new();
    }
    let head = [
        "configuration",
        "complete",
        "mean FCT, us",
        "p99, us",
        "max, us",
        "mean slowdown",
        "p99 slowdown",
        "goodput, Gb/s",
        "bus, Gb/s",
        "retransmitted, %",
    ];
    let cell = |value: Option<Estimate>, digits| value.map_or_else(|| "-".to_owned(), |value| value.text(digits));
    let rows = pooled.iter().map(|one| {
        vec![
            escape(&one.name),
            format!("{} of {}", one.complete, one.runs),
            cell(one.fct_mean_us, 1),
            cell(one.fct_p99_us, 1),
            cell(one.fct_max_us, 1),
            cell(one.slowdown_mean, 2),
            cell(one.slowdown_p99, 2),
            cell(one.goodput_gbit_per_s, 2),
            cell(one.bus_gbit_per_s, 1),
            cell(one.retransmitted_percent, 3),
        ]
    });
    let table = table(&head, rows);
    format!(
        "<h2 id=\"over-seeds\">Over the seeds</h2>\n<p>Means of the complete runs with 95 % confidence intervals.</p>\n{table}"
    )
}

fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let cells = |cells: &mut dyn Iterator<Item = String>, tag: &str| {
        cells.map(|cell| format!("<{tag}>{cell}</{tag}>")).collect::<String>()
    };
    let head = cells(&mut head.iter().map(|name| escape(name)), "th");
    let rows: String = rows.map(|row| format!("<tr>{}</tr>\n", cells(&mut row.into_iter(), "td"))).collect();
    format!("<table><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table>\n")
}

fn overview(runs: &[Run]) -> String {
    let head = [
        "run",
        "seed",
        "flows",
        "mean FCT, us",
        "p99, us",
        "max, us",
        "p99 slowdown",
        "goodput, Gb/s",
        "bus, Gb/s",
        "retransmitted, %",
        "trims",
        "marks",
        "lost",
        "digest",
    ];
    let rows = runs.iter().map(|run| {
        let results = &run.results;
        let state = shortfall(results).map(|how| format!(" <span class=\"bad\">{how}</span>")).unwrap_or_default();
        let [mean, p99, max] = cells(results.fct_us, results.completed_fct_us, 1);
        let [_, slowdown, _] = cells(results.slowdown, results.completed_slowdown, 2);
        vec![
            format!("{}{state}", escape(&run.name)),
            results.seed.to_string(),
            match results.finished {
                true => results.flows.to_string(),
                false => format!("{} of {}", results.completed, results.flows),
            },
            mean,
            p99,
            max,
            slowdown,
            format!("{:.2}", results.goodput_gbit_per_s),
            bus_gbit_per_s(results).map(|bus| format!("{bus:.1}")).unwrap_or_default(),
            format!("{:.3}", results.retransmitted_percent),
            number(results.trims as f64),
            number(results.marks as f64),
            number(results.drops as f64),
            escape(&results.digest),
        ]
    });
    table(&head, rows)
}

/// Mean, 99th percentile and maximum as cells of a table. Of a run that is not complete they are those of what completed,
/// in brackets; a dash where nothing did.
fn cells(all: Option<Distribution>, completed: Option<Distribution>, digits: usize) -> [String; 3] {
    let numbers = |d: Distribution| [d.mean, d.p99, d.max].map(|value| format!("{value:.digits$}"));
    match (all, completed) {
        (Some(all), _) => numbers(all),
        (None, Some(completed)) => numbers(completed).map(|number| format!("<span class=\"bad\">({number})</span>")),
        (None, None) => [(); 3].map(|()| "-".to_owned()),
    }
}

/// What the scenario says of itself.
fn about(results: &Results) -> String {
    if results.about.is_empty() { String::new() } else { format!("<p>{}</p>\n", escape(&results.about)) }
}

fn details(results: &Results) -> String {
    let mut text = String::new();
    let (transport, hosts, planes) = (escape(&results.transport), results.hosts, results.planes);
    let _ = writeln!(
        text,
        "<p>{transport}, {hosts} hosts, {planes} planes; {:.1} us; {} new data packets, {} retransmissions; EVs retired {} and restored {}; \
         fullest queue {} bytes.</p>",
        results.end_us,
        results.data_packets,
        results.retransmitted_packets,
        results.paths_retired,
        results.paths_restored,
        results.peak_queue_bytes
    );
    if !results.set.is_empty() {
        let set: Vec<String> = results.set.iter().map(|change| format!("<code>{}</code>", escape(change))).collect();
        let _ = writeln!(text, "<p>Changed: {}</p>", set.join(", "));
    }
    let head = ["workload", "flows", "mean FCT, us", "p99, us", "max, us", "goodput, Gb/s", "Jain index"];
    let rows = results.groups.iter().map(|group| {
        let [mean, p99, max] = cells(group.fct_us, group.completed_fct_us, 1);
        vec![
            escape(&group.name),
            format!("{} of {}", group.completed, group.flows),
            mean,
            p99,
            max,
            format!("{:.2}", group.goodput_gbit_per_s),
            format!("{:.4}", group.jain),
        ]
    });
    text.push_str(&table(&head, rows));
    for group in results.groups.iter().filter(|group| group.flows > 1) {
        if let Some(slow) = group.slowest.first() {
            let (src, dst, start, took) = (slow.src, slow.dst, slow.start_us, slow.fct_us);
            let name = escape(&group.name);
            let _ = writeln!(text, "<p>Slowest of {name}: {src} to {dst}, from {start:.1} us on, {took:.1} us.</p>");
        }
    }
    if results.groups.iter().any(|group| !group.iterations.is_empty()) {
        let head = ["iterations of", "number", "mean, us", "shortest, us", "longest, us", "bus, Gb/s", "best, Gb/s"];
        text.push_str(&table(&head, results.groups.iter().filter(|group| !group.iterations.is_empty()).map(steps)));
    }
    if let Some(diagnosis) = &results.diagnosis {
        let _ = writeln!(text, "<p class=\"bad\">Unfinished: {}</p>", escape(diagnosis));
    }
    for failure in &results.failures {
        let _ = writeln!(
            text,
            "<p class=\"bad\">{} to {} failed at {:.1} us: {}</p>",
            failure.src,
            failure.dst,
            failure.at_us,
            escape(&failure.why)
        );
    }
    text
}

/// Times and bandwidth of a collective's repetitions, or of training steps.
fn steps(group: &GroupReport) -> Vec<String> {
    let us = Distribution::of(&mut group.iterations.iter().map(|step| step.us).collect::<Vec<_>>());
    let bus = Distribution::of(&mut group.iterations.iter().map(|step| step.bus_gbit_per_s).collect::<Vec<_>>());
    let shortest = group.iterations.iter().map(|step| step.us).min_by(f64::total_cmp);
    let (mean, longest) = (us.map(|us| us.mean), us.map(|us| us.max));
    let all = group.bus_gbit_per_s.or(bus.map(|bus| bus.mean));
    let numbers = [mean, shortest, longest, all, bus.map(|bus| bus.max)]
        .map(|value| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}")));
    [escape(&group.name), group.iterations.len().to_string()].into_iter().chain(numbers).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::sim::sweep::Point;
    use mrc_sim::run::IterationReport;

    fn run(name: &str) -> Run {
        let mut results = Results { finished: true, ended: RunEnd::Completed, ..Results::default() };
        results.about = "a <b> & c".to_owned();
        results.groups = vec![mrc_sim::run::GroupReport { fct_cdf_us: vec![1.0, 2.0], ..Default::default() }];
        results.timeline.bin_us = 10.0;
        results.timeline.goodput_gbit_per_s = vec![vec![1.0, 2.0]];
        Run { name: name.to_owned(), results }
    }

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
        let sweep = Manifest { scenario: String::new(), text: String::new(), axes, points };
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
        let line = cdf(&half, None);
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
        let shares: Vec<(f64, f64)> = cdf(&run, None).points.iter().map(|(us, share)| (*us, share * 100.0)).collect();
        for ((us, share), want) in shares.iter().zip([(1.0, 30.0), (2.0, 60.0), (3.0, 90.0), (5.0, 95.0), (9.0, 100.0)])
        {
            assert!(*us == want.0 && (share - want.1).abs() < 1e-9, "{shares:?}");
        }
        assert_eq!(cdf(&run, Some(0)).points, [(5.0, 0.5), (9.0, 1.0)]);
    }

    #[test]
    fn steps_and_interruptions_are_on_the_page() {
        let mut run = run("one");
        (run.results.finished, run.results.ended) = (false, RunEnd::Interrupted);
        let step = |us, bus_gbit_per_s| IterationReport { us, bus_gbit_per_s };
        run.results.groups[0].bus_gbit_per_s = Some(24.0);
        run.results.groups[0].iterations = vec![step(100.0, 40.0), step(300.0, 20.0)];
        let runs = [run];
        let page = html("t", &runs, None, &figures(&runs, None).unwrap());
        assert!(page.contains(">interrupted<"), "{page}");
        let row = ["", "2", "200.0", "100.0", "300.0", "24.0", "40.0"].map(|cell| format!("<td>{cell}</td>")).concat();
        assert!(page.contains(&row), "{page}");
    }

    #[test]
    fn many_runs_come_after_the_figures_and_numbers_stay_whole_in_print() {
        let page = |count: usize| {
            let runs: Vec<Run> = (0..count).map(|nth| run(&format!("run{nth}"))).collect();
            html("t", &runs, None, &figures(&runs, None).unwrap())
        };
        let (few, many) = (page(DETAILED), page(DETAILED + 1));
        assert!(few.find("<table>").unwrap() < few.find("<figure").unwrap() && !few.contains("id=\"runs\""));
        let all = many.find("<h2 id=\"runs\">").unwrap();
        assert!(all > many.rfind("<figure").unwrap() && many.contains("<a href=\"#runs\">"));
        assert_eq!(many[all..].matches("<tr>").count(), 1 + DETAILED + 1);
        let print = STYLE.split("@media print").nth(1).unwrap();
        let cells = print.lines().find(|line| line.trim_start().starts_with("th, td")).unwrap();
        assert!(!cells.contains("wrap") && !cells.contains("white-space"), "{cells}");
    }

    #[test]
    fn what_a_scenario_is_about_stands_once_above_all_runs_or_with_each() {
        let mut runs = [run("one"), run("two")];
        let page = |runs: &[Run]| html("t", runs, None, &figures(runs, None).unwrap());
        let abouts = |page: &str| page.matches("<p>a &lt;b&gt; &amp; c</p>").count();
        let of_one = page(&runs);
        assert!(abouts(&of_one) == 1 && of_one.find("<p>a &lt;b") < of_one.find("<h2>"));
        runs[1].results.scenario = "another".to_owned();
        let of_two = page(&runs);
        assert!(abouts(&of_two) == 2 && of_two.find("<p>a &lt;b") > of_two.find("<h2>"));
    }

    #[test]
    fn the_page_is_whole_and_loads_nothing() {
        let runs = [run("one"), run("two & more")];
        let figures = figures(&runs, None).unwrap();
        assert!(figures.iter().any(|figure| figure.id == "fct-cdf"));
        let page = html("<title>", &runs, None, &figures);
        assert_eq!(page.matches("<svg").count(), figures.len());
        assert!(page.contains("a &lt;b&gt; &amp; c") && page.contains("&lt;title&gt;"));
        assert!(page.matches("<script>").count() == 1 && !page.contains("src=") && !page.contains("url("));
        for tag in ["table", "figure", "h2", "p"] {
            let (open, close) = (
                page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count(),
                page.matches(&format!("</{tag}>")).count(),
            );
            assert_eq!(open, close, "{tag}");
        }
    }
}
