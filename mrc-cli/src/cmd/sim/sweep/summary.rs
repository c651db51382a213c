//! What a sweep prints at its end: a line for each point, the means over the seeds, or the table of a comparison.

use std::collections::BTreeMap;

use mrc_sim::run::{Distribution, Results, RunEnd, Timeline};
use serde::Serialize;

use super::{Args, Manifest, OVER_SEEDS, Point, read_results, result_file};
use crate::cmd::sim::pool::{self, Configuration, Estimate};
use crate::cmd::sim::{MadeBy, keep, verdict};
use crate::out::outln;

/// The summary, as `--json` prints it.
#[derive(Serialize)]
struct Summary<'a> {
    #[serde(flatten)]
    made_by: MadeBy,
    /// Name of the scenario, and its text.
    scenario: &'a str,
    text: &'a str,
    /// Whether all points of the file have results.
    finished: bool,
    points: &'a [Line<'a>],
}

/// One line of the summary.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    point: &'a Point,
    /// What made its results: those of an earlier program are kept.
    program: String,
    finished: bool,
    ended: RunEnd,
    fct_us: Option<Distribution>,
    completed_fct_us: Option<Distribution>,
    slowdown: Option<Distribution>,
    goodput_gbit_per_s: f64,
    retransmitted_percent: f64,
    digest: String,
}

/// A line for each point that has results.
pub(super) fn print(args: &Args, manifest: &Manifest) -> anyhow::Result<()> {
    let mut all: BTreeMap<&str, Results> = BTreeMap::new();
    for point in &manifest.points {
        let Some(mut results) = read_results(&result_file(&args.out, point))? else { continue };
        // What the table does not need would fill the memory.
        results.timeline = Timeline::default();
        all.insert(&point.name, results);
    }
    let mut lines = Vec::new();
    for point in &manifest.points {
        let Some(results) = all.get(point.name.as_str()) else { continue };
        lines.push(Line {
            point,
            program: results.program.clone(),
            finished: results.finished,
            ended: results.ended,
            fct_us: results.fct_us,
            completed_fct_us: results.completed_fct_us,
            slowdown: results.slowdown,
            goodput_gbit_per_s: results.goodput_gbit_per_s,
            retransmitted_percent: results.retransmitted_percent,
            digest: results.digest.clone(),
        });
    }
    let pooled = pool::over_seeds(manifest, |point| all.get(point.name.as_str()));
    if args.json {
        let summary = Summary {
            made_by: MadeBy::this(),
            scenario: &manifest.scenario,
            text: &manifest.text,
            finished: lines.len() == manifest.points.len(),
            points: &lines,
        };
        outln!("{}", serde_json::to_string_pretty(&summary)?);
    } else if let Some(table) = verdict::of(manifest, |point| all.get(point.name.as_str())) {
        // A line for each point would hide it.
        outln!("{}", table.text());
    } else {
        print_lines(&lines);
        print_pooled(&pooled);
    }
    if pooled.is_empty() {
        return Ok(());
    }
    // Last: a file that cannot be written has lost no table.
    keep(&args.out.join(OVER_SEEDS), serde_json::to_string_pretty(&pooled)?)
}

/// A table with a line for each point.
fn print_lines(lines: &[Line<'_>]) {
    let width = lines.iter().map(|line| line.point.name.len()).max().unwrap_or(0).max(5);
    let head = ["mean us", "p99 us", "max us", "Gb/s", "again %"].map(|name| format!("{name:>11}")).join("");
    outln!("{:<width$}{head}  digest", "point");
    for line in lines {
        let Line { point, fct_us, goodput_gbit_per_s: goodput, retransmitted_percent: again, digest, .. } = line;
        let times = fct_us.map_or([None; 3], |fct| [fct.mean, fct.p99, fct.max].map(Some));
        let times = times.map(|us| us.map_or_else(|| format!("{:>11}", "-"), |us| format!("{us:>11.1}"))).concat();
        let unfinished = match line.ended {
            _ if line.finished => "",
            RunEnd::Planned => "  to its planned end",
            _ => "  NOT all completed",
        };
        outln!("{:<width$}{times}{goodput:>11.2}{again:>11.3}  {digest}{unfinished}", point.name);
    }
}

/// Means over the seeds with their confidence intervals, if there are any.
fn print_pooled(pooled: &[Configuration]) {
    if pooled.is_empty() {
        return;
    }
    let width = pooled.iter().map(|one| one.name.len()).max().unwrap_or(0).max(10);
    let head = ["mean us", "p99 us", "max us", "Gb/s", "again %"].map(|name| format!("{name:>19}")).join("");
    outln!("\nmeans over seeds with 95 % confidence intervals, as in {OVER_SEEDS}");
    outln!("{:<width$}{head}", "");
    for one in pooled {
        let cell = |value: Option<Estimate>, digits| {
            format!("{:>19}", value.map_or_else(|| "-".to_owned(), |value| value.text(digits)))
        };
        let times = [one.fct_mean_us, one.fct_p99_us, one.fct_max_us].map(|value| cell(value, 1)).concat();
        let part = match (one.complete, one.planned, one.runs) {
            (complete, 0, runs) if complete == runs => String::new(),
            (0, planned, runs) if planned == runs => "  to their planned end".to_owned(),
            (complete, 0, runs) => format!("  {complete} of {runs} complete"),
            (complete, planned, runs) => format!("  {complete} of {runs} complete, {planned} to their planned end"),
        };
        let (goodput, again) = (cell(one.goodput_gbit_per_s, 2), cell(one.retransmitted_percent, 3));
        outln!("{:<width$}{times}{goodput}{again}{part}", one.name);
    }
}
