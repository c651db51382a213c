//! `mrc sim report`: the results of one folder as one page that needs nothing else: a few lines of script are part of it, and it
//! can be read without them.

mod compared;
mod figures;
mod page;
mod plots;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use mrc_sim::run::{Results, Timeline};

use super::sweep::{MANIFEST, Manifest};
use super::{is_stdout, keep};
use crate::out::{count, errln, outln, writable};
use crate::usage::usage;

/// Arguments of `mrc sim report`.
#[derive(clap::Args)]
#[command(after_help = "\
Reads every result file (*.json, from `mrc sim run --json` or `mrc sim sweep`) of a folder and writes one page with
completion times, goodput, queues, paths, retransmissions and tables, and every picture as an SVG file in figures/ beside it.
Of a sweep that compares the cases of an axis (`compare`) it writes a verdict for each case and tables of all combinations.")]
pub struct Args {
    /// Folder with results
    folder: PathBuf,
    /// Page to write; FOLDER/report.html by default, - for standard output without figures/
    #[arg(long, short)]
    out: Option<PathBuf>,
    /// Title of the page
    #[arg(long)]
    title: Option<String>,
}

/// A result file.
struct Run {
    name: String,
    results: Results,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (runs, sweep) = read(&args.folder).map_err(usage)?;
    if runs.is_empty() {
        let folder = args.folder.display();
        return Err(usage(anyhow!("no results in {folder}: run a scenario with --json, or a sweep")));
    }
    let page = args.out.clone().unwrap_or_else(|| args.folder.join("report.html"));
    let to_stdout = is_stdout(&page);
    if !to_stdout {
        writable(&page)?;
    }
    let title = args.title.clone().unwrap_or_else(|| match &sweep {
        Some(sweep) => format!("Sweep of {}", sweep.scenario),
        None if one_scenario(&runs) => runs[0].results.scenario.clone(),
        None => count(runs.len(), "run"),
    });
    // A comparison is tables: a picture of each of its runs would bury them.
    let compares = sweep.as_ref().is_some_and(|sweep| sweep.compare.is_some());
    let figures = if compares { Vec::new() } else { figures::figures(&runs, sweep.as_ref())? };
    let html = page::html(&title, &runs, sweep.as_ref(), &figures);
    if to_stdout {
        keep(&page, html)?;
        return Ok(ExitCode::SUCCESS);
    }
    let folder = page.parent().unwrap_or(Path::new(".")).join("figures");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for figure in &figures {
        keep(&folder.join(format!("{}.svg", figure.id)), &figure.svg)?;
    }
    keep(&page, html)?;
    outln!("{} with {} and {}", page.display(), count(runs.len(), "run"), count(figures.len(), "figure"));
    Ok(ExitCode::SUCCESS)
}

/// The page of a folder, in the folder.
pub fn of_folder(folder: &Path) -> anyhow::Result<()> {
    run(&Args { folder: folder.to_owned(), out: None, title: None }).map(|_| ())
}

/// Whether the page is about one scenario, so that it says once what that is.
fn one_scenario(runs: &[Run]) -> bool {
    runs.iter().all(|run| run.results.scenario == runs[0].results.scenario)
}

/// The results of a folder by name, and the sweep they belong to. Other files are left out: what a sweep does not name, and
/// elsewhere what holds no results, with a word about it.
fn read(folder: &Path) -> anyhow::Result<(Vec<Run>, Option<Manifest>)> {
    let manifest = match std::fs::read_to_string(folder.join(MANIFEST)) {
        Ok(text) => Some(serde_json::from_str::<Manifest>(&text).with_context(|| format!("{MANIFEST} is damaged"))?),
        Err(_) => None,
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|ext| ext == "json") && path.file_name().is_some_and(|name| name != MANIFEST) {
            files.push(path);
        }
    }
    files.sort();
    let (mut runs, mut others) = (Vec::new(), Vec::new());
    for path in files {
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if manifest.as_ref().is_some_and(|sweep| !sweep.points.iter().any(|point| point.name == name)) {
            continue;
        }
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let parsed = serde_json::from_str::<Results>(&text)
            .with_context(|| format!("{} holds no results of `mrc sim run --json`", path.display()));
        let mut results = match parsed {
            Ok(results) => results,
            Err(error) if manifest.is_some() => return Err(error),
            Err(error) => {
                others.push(error);
                continue;
            }
        };
        if manifest.as_ref().is_some_and(|sweep| sweep.compare.is_some()) {
            // Thousands of them: what the page does not show would fill the memory.
            results.timeline = Timeline::default();
        }
        runs.push(Run { name, results });
    }
    if runs.is_empty() && !others.is_empty() {
        return Err(others.swap_remove(0));
    }
    for other in &others {
        errln!("{other}: left out");
    }
    if let Some(sweep) = &manifest {
        let place = |run: &Run| sweep.points.iter().position(|point| point.name == run.name);
        runs.sort_by_key(place);
    }
    Ok((runs, manifest))
}

#[cfg(test)]
mod tests {
    use mrc_sim::run::{GroupReport, Results, RunEnd};

    use super::Run;

    /// A run with something to draw and to escape.
    pub(super) fn run(name: &str) -> Run {
        let mut results = Results { finished: true, ended: RunEnd::Completed, ..Results::default() };
        results.about = "a <b> & c".to_owned();
        results.groups = vec![GroupReport { fct_cdf_us: vec![1.0, 2.0], ..Default::default() }];
        results.timeline.bin_us = 10.0;
        results.timeline.goodput_gbit_per_s = vec![vec![1.0, 2.0]];
        Run { name: name.to_owned(), results }
    }
}
