//! `mrc sim sweep`: one scenario at many points of its parameter space, one process per point, on all cores or on
//! somebody's cluster. A point that has its results is not run again.

mod summary;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;

use super::choice::Choice;
use super::made::Made;
use super::ready::Source;
use crate::interrupt;
use crate::out::{count, errln};
use crate::usage::usage;
use anyhow::{Context, anyhow, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use mrc_sim::run::{Results, RunEnd};
use serde::{Deserialize, Serialize};

/// What a sweep leaves in its folder beside the results: which points there are.
pub const MANIFEST: &str = "sweep.json";

/// Means over the seeds of each configuration.
pub const OVER_SEEDS: &str = "over-seeds.json";

/// Arguments of `mrc sim sweep`.
#[derive(clap::Args)]
#[command(after_help = "\
A sweep file names a scenario and what changes:

  scenario = \"ring.toml\"                # relative to this file
  seeds = [1, 2, 3, 4, 5]               # default: the scenario's own
  set = { \"topology.host_gbps\" = 400 }  # for all points
  compare = \"hosts\"                     # the report ranks the cases of this axis

  [[axis]]
  key = \"topology.forwarding\"           # one key ...
  values = [\"srv6\", \"ecmp\", \"adaptive\"]

  [[axis]]
  name = \"hosts\"                        # ... or several keys that change together
  cases = [
    { label = \"mrc\", set = { \"transport.kind\" = \"mrc\" } },
    { label = \"roce\", set = { \"transport.kind\" = \"roce\", \"queue.pfc\" = false } },
  ]

  [[without]]                           # combinations that do not exist, and why
  at = { hosts = \"roce\", forwarding = \"srv6\" }
  why = \"RoCE packets name no path\"

The points are all combinations. Each one runs in a process of its own and leaves OUT/NAME.json; run the same command
again to go on after an interruption. Points with results are kept; the sweep says which of them another program made, and
which are older than the program or a trace. --where AXIS=LABEL runs a part of the points, \"seed\" being an axis too; more of
them can follow in the same folder. On a cluster: --slurm writes an array script, --jobs a list of commands, one per point
and line, for any other engine, and --part K/N is every N-th point from K on; all use the same folder.

Exit codes: 0 every point has its results and is complete or at its planned end (`until = \"limit\"`), 1 one or more
failed or are unfinished, 2 usage or a sweep that cannot be, 130 interrupted.")]
pub struct Args {
    /// Sweep file, or name of a ready sweep
    file: PathBuf,
    /// Folder for the results
    #[arg(long, short)]
    out: PathBuf,
    /// Points at a time; all cores by default
    #[arg(short = 'j', long = "workers", value_name = "N")]
    workers: Option<usize>,
    /// Run this point only, by its number from 0
    #[arg(long, value_name = "N", conflicts_with_all = ["wanted", "part"])]
    only: Option<usize>,
    /// Run the points with these labels of an axis only, such as load=50,80 or seed=1; repeat for further axes
    #[arg(long = "where", value_name = "AXIS=LABEL,...")]
    wanted: Vec<String>,
    /// Run every N-th of these points, from the K-th on, which is 0 to N-1
    #[arg(long, value_name = "K/N")]
    part: Option<String>,
    /// Write the page of `mrc sim report` at the end
    #[arg(long, conflicts_with_all = ["slurm", "jobs"])]
    report: bool,
    /// Write a Slurm array script to this file instead of running; - is standard output
    #[arg(long, value_name = "SCRIPT", conflicts_with_all = ["only", "jobs"])]
    slurm: Option<PathBuf>,
    /// Write one command per point to this file instead of running; - is standard output
    #[arg(long, value_name = "LIST", conflicts_with = "only")]
    jobs: Option<PathBuf>,
    /// Print the summary as JSON: a line for each point that has results, with program, command and scenario
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    scenario: PathBuf,
    #[serde(default)]
    seeds: Vec<u64>,
    #[serde(default)]
    set: toml::Table,
    #[serde(default)]
    axis: Vec<Axis>,
    compare: Option<String>,
    #[serde(default)]
    without: Vec<Without>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Axis {
    key: Option<String>,
    #[serde(default)]
    values: Vec<toml::Value>,
    name: Option<String>,
    #[serde(default)]
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    label: String,
    #[serde(default)]
    set: toml::Table,
}

/// One run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Name of its results, without `.json`.
    pub name: String,
    /// Where it lies: label by axis.
    pub at: BTreeMap<String, String>,
    /// Seed; the scenario's own by default.
    pub seed: Option<u64>,
    /// Changed keys.
    pub set: Vec<String>,
}

/// Combinations that are not run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Without {
    /// Where they lie: one or several labels by axis.
    at: BTreeMap<String, Labels>,
    /// Why.
    pub why: String,
}

/// One label or several.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a label in quotes, or a list of such labels")]
enum Labels {
    One(String),
    Several(Vec<String>),
}

impl Labels {
    fn all(&self) -> &[String] {
        match self {
            Self::One(label) => std::slice::from_ref(label),
            Self::Several(labels) => labels,
        }
    }
}

impl Without {
    /// Whether a point lies there.
    pub fn covers(&self, at: &BTreeMap<String, String>) -> bool {
        self.at.iter().all(|(axis, labels)| at.get(axis).is_some_and(|label| labels.all().contains(label)))
    }
}

/// What `sweep.json` holds.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Manifest {
    /// The scenario file's name.
    pub scenario: String,
    /// Its text: the same points of another scenario are other results.
    pub text: String,
    /// Axes, in the order of the file.
    pub axes: Vec<String>,
    /// All points.
    pub points: Vec<Point>,
    /// The axis whose cases the report ranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compare: Option<String>,
    /// Combinations without points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<Without>,
}

impl Args {
    /// What `--only`, `--where` and `--part` say.
    pub fn chosen(&self) -> (Option<usize>, &[String], Option<&String>) {
        (self.only, &self.wanted, self.part.as_ref())
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let choice = Choice::of(args).map_err(usage)?;
    if args.file == Path::new("-") && (args.slurm.is_some() || args.jobs.is_some()) {
        return Err(usage(anyhow!(
            "each command of --slurm or --jobs reads the sweep again: give it a file in place of -"
        )));
    }
    let source = Source::find(&args.file).map_err(usage)?;
    let (manifest, scenario) = read(&source, &choice).map_err(usage)?;
    let all = choice.points(&manifest).map_err(usage)?;
    std::fs::create_dir_all(&args.out).with_context(|| format!("cannot create {}", args.out.display()))?;
    keep_manifest(&args.out, &manifest, &scenario).map_err(usage)?;
    if let Some(path) = &args.slurm {
        return emit(path, &slurm(args, all.len())?, all.len());
    }
    if let Some(path) = &args.jobs {
        let lines = all.iter().map(|n| command_line(args, &format!("--only {n}")));
        let lines = lines.collect::<anyhow::Result<Vec<_>>>()?;
        return emit(path, &(lines.join("\n") + "\n"), all.len());
    }
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new(all.len() as u64) } else { ProgressBar::hidden() };
    bar.set_style(
        ProgressStyle::with_template("{wide_bar} {pos}/{len} points, {elapsed}, {eta} left {msg}").expect("valid"),
    );
    let files: Vec<PathBuf> = all.iter().map(|&n| result_file(&args.out, &manifest.points[n])).collect();
    let shown = bar.clone();
    interrupt::on_signal(move || {
        shown.finish_and_clear();
        let left = files.iter().filter(|file| !file.exists()).count();
        errln!("interrupted with {left} of {} points left; the same command goes on from here", files.len());
        // The runs under way end with this process.
        std::process::exit(interrupt::EXIT_CODE.into());
    })?;
    let mut failures = run_points(args, &manifest, &scenario, &all, &bar)?;
    let (shortfalls, made) = judged(args, &manifest, &all)?;
    failures.extend(shortfalls);
    failures.sort();
    for note in made.notes() {
        errln!("mrc: {note}");
    }
    for (name, why) in &failures {
        errln!("{name}: {why}");
    }
    if args.only.is_none() && args.part.is_none() {
        summary::print(args, &manifest)?;
    }
    if args.report {
        super::report::of_folder(&args.out)?;
    }
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One line on a sweep: its scenario, its axes and how many points that makes. Without `check` its points may not run.
pub fn about(source: &Source, check: bool) -> anyhow::Result<String> {
    let manifest = if check { read(source, &Choice::default())?.0 } else { lay_out(source)?.0 };
    let Manifest { scenario, axes, points, .. } = manifest;
    let plural = if points.len() == 1 { "" } else { "s" };
    let by = if axes.is_empty() { String::new() } else { format!(" by {}", axes.join(", ")) };
    Ok(format!("sweep of {scenario}.toml{by}: {} point{plural}", points.len()))
}

/// Reads a sweep; the points chosen are checked before the first one runs, each with one seed.
fn read(source: &Source, choice: &Choice) -> anyhow::Result<(Manifest, Source)> {
    let (manifest, scenario) = lay_out(source)?;
    let mut checked: HashSet<&[String]> = HashSet::new();
    for point in choice.points(&manifest)?.into_iter().map(|nth| &manifest.points[nth]) {
        // What can run with one seed can run with all.
        if checked.insert(&point.set) {
            let which = || format!("{}: point {}", source.name.display(), point.name);
            scenario.check(&point.set, point.seed).with_context(which)?;
        }
    }
    Ok((manifest, scenario))
}

/// Lays out the points of a sweep; the second value is its scenario.
fn lay_out(source: &Source) -> anyhow::Result<(Manifest, Source)> {
    let file = &source.name;
    source.as_table().with_context(|| format!("{} is no sweep file", file.display()))?;
    ensure!(source.is_sweep(), "{0} is a scenario: `mrc sim run {0}` runs it", file.display());
    let sweep: Sweep = toml::from_str(&source.text).with_context(|| format!("{} is no sweep file", file.display()))?;
    let scenario = source.beside(&sweep.scenario)?;
    let mut points = vec![Point { name: String::new(), at: BTreeMap::new(), seed: None, set: assignments(&sweep.set) }];
    let mut axes = Vec::new();
    let mut changed: BTreeMap<String, String> = BTreeMap::new();
    let of_all: Vec<String> = sweep.set.keys().map(|key| key_of(key)).collect();
    for (nth, axis) in sweep.axis.iter().enumerate() {
        let (mut name, cases) = cases(axis).with_context(|| format!("{}: axis {}", file.display(), nth + 1))?;
        if axes.contains(&name) {
            // The last word of a key alone does not tell it from another one: workload.0.bytes, workload.1.bytes.
            name = axis.key.clone().unwrap_or(name);
            ensure!(!axes.contains(&name), "{}: two axes are called {name}", file.display());
        }
        // Each point would hold the value of the second one, under the name of both.
        let keys: BTreeSet<String> = cases.iter().flat_map(|(_, set)| set).map(|change| key_of(change)).collect();
        let both =
            keys.iter().find_map(|key| changed.iter().find_map(|(other, axis)| Some((same_place(other, key)?, axis))));
        if let Some((key, other)) = both {
            bail!("{}: two axes change {key}: {other} and {name}", file.display());
        }
        if let Some(lost) = keys.iter().find_map(|key| lost_with(&of_all, key)) {
            bail!("{}: axis {name} replaces the table that {lost} of `set` lies in", file.display());
        }
        changed.extend(keys.into_iter().map(|key| (key, name.clone())));
        points = cross(&points, &name, &cases);
        axes.push(name);
    }
    if let Some(compare) = sweep.compare.iter().find(|name| !axes.contains(name)) {
        bail!("{}: compare = \"{compare}\": the axes are {}", file.display(), axes.join(", "));
    }
    for without in &sweep.without {
        let whole = points.len();
        points.retain(|point| !without.covers(&point.at));
        ensure!(points.len() < whole, "{}: no point is left out by `at` of: {}", file.display(), without.why);
    }
    ensure!(!points.is_empty(), "{}: [[without]] leaves no point", file.display());
    if let Some(seed) =
        (1..sweep.seeds.len()).find_map(|nth| sweep.seeds[..nth].iter().find(|seed| **seed == sweep.seeds[nth]))
    {
        bail!("{}: seeds: {seed} is there twice", file.display());
    }
    if !sweep.seeds.is_empty() {
        let sets_seed = |point: &Point| point.set.iter().any(|change| change.starts_with("seed="));
        if points.iter().any(sets_seed) {
            bail!(
                "{}: both `seeds` and a changed key say which seed a point has: leave one of them out",
                file.display()
            );
        }
        points = sweep
            .seeds
            .iter()
            .flat_map(|&seed| {
                points.iter().map(move |point| Point {
                    name: join(&point.name, &format!("seed{seed}")),
                    seed: Some(seed),
                    ..point.clone()
                })
            })
            .collect();
    }
    points.iter_mut().filter(|point| point.name.is_empty()).for_each(|point| point.name = "point".to_owned());
    let mut names: Vec<&str> = points.iter().map(|point| point.name.as_str()).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        bail!("{}: two points are called {}: give their cases labels of their own", file.display(), twice[0]);
    }
    // Their results would have the name of another file of the folder.
    if let Some(taken) = names.iter().find(|name| [MANIFEST, OVER_SEEDS].contains(&&*format!("{name}.json"))) {
        bail!(
            "{}: no point can be called {taken}, as a file of the sweep is: give its case another label",
            file.display()
        );
    }
    let Sweep { compare, without, .. } = sweep;
    let manifest = Manifest { scenario: scenario.stem(), text: scenario.text.clone(), axes, points, compare, without };
    Ok((manifest, scenario))
}

/// A case's label and its changes.
type Labelled = (String, Vec<String>);

/// The cases of an axis: label and changes.
fn cases(axis: &Axis) -> anyhow::Result<(String, Vec<Labelled>)> {
    match (&axis.key, &axis.name) {
        (Some(key), None) if axis.cases.is_empty() && !axis.values.is_empty() => {
            let short = key.rsplit('.').next().unwrap_or(key);
            let case = |value: &toml::Value| (text_of(value), vec![format!("{key}={}", text_of(value))]);
            Ok((short.to_owned(), axis.values.iter().map(case).collect()))
        }
        (None, Some(name)) if axis.values.is_empty() && !axis.cases.is_empty() => {
            let case = |case: &Case| (case.label.clone(), assignments(&case.set));
            Ok((name.clone(), axis.cases.iter().map(case).collect()))
        }
        _ => bail!("needs either `key` and `values`, or `name` and `cases`"),
    }
}

fn cross(points: &[Point], axis: &str, cases: &[Labelled]) -> Vec<Point> {
    let with = |point: &Point, (label, set): &Labelled| {
        let mut point = point.clone();
        point.name = join(&point.name, label);
        point.at.insert(axis.to_owned(), label.clone());
        point.set.extend(set.iter().cloned());
        point
    };
    points.iter().flat_map(|point| cases.iter().map(move |case| with(point, case))).collect()
}

fn join(name: &str, label: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' };
    let label: String = label.chars().map(safe).collect();
    if name.is_empty() { label } else { format!("{name}-{label}") }
}

/// The key that a change is of, in one of its spellings: `workload[0].bytes` is `workload.0.bytes`.
pub fn key_of(change: &str) -> String {
    let key = change.split('=').next().unwrap_or_default();
    key.replace('[', ".").replace(']', "").trim().to_owned()
}

/// Whether a key lies in the table that the other one names.
fn is_within(key: &str, table: &str) -> bool {
    key.strip_prefix(table).is_some_and(|rest| rest.starts_with('.'))
}

/// The innermost of two keys, if a change of one is a change of the other: they are the same, or one lies in the table that the other names.
pub fn same_place<'a>(one: &'a str, other: &'a str) -> Option<&'a str> {
    if one == other || is_within(one, other) { Some(one) } else { is_within(other, one).then_some(other) }
}

/// The first of these changed keys that a later change of `key` loses: it replaces the table that this one lies in.
pub fn lost_with<'a>(earlier: &'a [String], key: &str) -> Option<&'a String> {
    earlier.iter().find(|earlier| is_within(earlier, key))
}

/// Changes as `--set` takes them.
pub fn assignments(table: &toml::Table) -> Vec<String> {
    table.iter().map(|(key, value)| format!("{key}={}", text_of(value))).collect()
}

/// As `--set` takes it: strings without their quotes.
pub fn text_of(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The folder belongs to one sweep.
fn keep_manifest(out: &Path, manifest: &Manifest, scenario: &Source) -> anyhow::Result<()> {
    let path = out.join(MANIFEST);
    if let Ok(text) = std::fs::read_to_string(&path) {
        let old: Manifest = serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))?;
        ensure!(
            old == *manifest,
            "{} holds another sweep, or this one before it was changed: choose another folder, or remove this one",
            out.display()
        );
        return Ok(());
    }
    // Nothing says what results are of that are there already: those of another run would be taken for a point's.
    for point in &manifest.points {
        let file = result_file(out, point);
        let Some(results) = read_results(&file)? else { continue };
        let wanted = scenario.load(&point.set, point.seed)?.scenario.resolved();
        ensure!(results.resolved == wanted, "{} is of another run: remove it or choose another folder", file.display());
    }
    super::keep(&path, serde_json::to_string_pretty(manifest)?)
}

fn run_points(
    args: &Args,
    manifest: &Manifest,
    scenario: &Source,
    points: &[usize],
    bar: &ProgressBar,
) -> anyhow::Result<Vec<(String, String)>> {
    let program = std::env::current_exe().context("cannot find this program to start it again")?;
    let missing = points.iter().map(|&n| &manifest.points[n]);
    let missing: Vec<&Point> = missing.filter(|point| !result_file(&args.out, point).exists()).collect();
    let done = points.len() - missing.len();
    let at_once = args.workers.or_else(|| std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    bar.inc(done as u64);
    // Those took no time.
    bar.reset_eta();
    let queue = Mutex::new(missing.into_iter());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once.max(1) {
            scope.spawn(|| {
                loop {
                    let Some(point) = queue.lock().expect("no worker panics with the lock").next() else { break };
                    bar.set_message(point.name.clone());
                    if let Err(error) = run_point(&program, scenario, &args.out, point) {
                        let failure = (point.name.clone(), format!("{error:#}"));
                        failures.lock().expect("no worker panics with the lock").push(failure);
                    }
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    Ok(failures.into_inner().expect("all workers have ended"))
}

/// Points whose results are those of a run that failed or did not end, whenever it ran, and why; and what made the results of all.
fn judged(args: &Args, manifest: &Manifest, points: &[usize]) -> anyhow::Result<(Vec<(String, String)>, Made)> {
    let (mut shortfalls, mut made) = (Vec::new(), Made::default());
    let program = std::env::current_exe().ok();
    for point in points.iter().map(|&n| &manifest.points[n]) {
        let file = result_file(&args.out, point);
        let Some(results) = read_results(&file)? else { continue };
        made.add(&file, &results, program.as_deref());
        let (name, Results { failed, misplaced, flows, completed, .. }) = (point.name.clone(), &results);
        if *failed > 0 || *misplaced > 0 {
            shortfalls.push((name, format!("{failed} messages failed, {misplaced} payloads arrived wrongly")));
        } else if let (false, Some(how)) = (results.ended == RunEnd::Planned, super::shortfall(&results)) {
            shortfalls.push((name, format!("{how}: {completed} of {flows} messages")));
        }
    }
    Ok((shortfalls, made))
}

/// The results of a point, if it has any.
fn read_results(path: &Path) -> anyhow::Result<Option<Results>> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        text => text.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let damaged = || format!("{} is damaged: remove it, and the same command runs its point again", path.display());
    serde_json::from_str(&text).map(Some).with_context(damaged)
}

fn result_file(out: &Path, point: &Point) -> PathBuf {
    out.join(format!("{}.json", point.name))
}

/// Runs one point. Its results appear under their name only when they are complete. The scenario goes along as it was read: its file
/// may have changed since.
fn run_point(program: &Path, scenario: &Source, out: &Path, point: &Point) -> anyhow::Result<()> {
    let results = result_file(out, point);
    let mut command = Command::new(program);
    // The points share the cores.
    command.args(["sim", "run", "--quiet", "--threads", "1", "--sweep", &std::process::id().to_string()]);
    command.arg("--folder").arg(&scenario.folder).arg(&scenario.name).arg("--json").arg(&results);
    if let Some(seed) = point.seed {
        command.arg("--seed").arg(seed.to_string());
    }
    for change in &point.set {
        command.arg("--set").arg(change);
    }
    let run = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut run = run.context("cannot start the run")?;
    // A run that ends before it has read all says why.
    let _ = run.stdin.take().map(|mut to_run| to_run.write_all(scenario.text.as_bytes()));
    let output = run.wait_with_output().context("cannot wait for the run")?;
    // A run whose messages failed has results too: those are judged when all points have run.
    ensure!(results.exists(), "{}", super::failure(&output));
    Ok(())
}

fn command_line(args: &Args, which: &str) -> anyhow::Result<String> {
    let program = std::env::current_exe().context("cannot find this program")?;
    // A ready sweep has its name everywhere.
    let absolute = |path: &Path| match path.exists() {
        true => std::path::absolute(path).map(|path| quote(&path.display().to_string())),
        false => Ok(quote(&path.display().to_string())),
    };
    let program = quote(&program.display().to_string());
    Ok(format!("{program} sim sweep {} --out {} {which}", absolute(&args.file)?, absolute(&args.out)?))
}

fn quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:".contains(c);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Most tasks of an array that clusters take by default.
const MOST_TASKS: usize = 1000;

fn slurm(args: &Args, points: usize) -> anyhow::Result<String> {
    let name = args.file.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let tasks = points.min(MOST_TASKS);
    let wanted: String = args.wanted.iter().map(|wanted| format!("--where {} ", quote(wanted))).collect();
    Ok(format!(
        "#!/bin/sh\n#SBATCH --job-name={}\n#SBATCH --array=0-{}\n#SBATCH --ntasks=1\n#SBATCH --cpus-per-task=1\n\
         # Each task runs every {tasks}-th point; every node needs this program and the folder under these paths.\nexec {}\n",
        join("", &name),
        tasks - 1,
        command_line(args, &format!("{wanted}--part \"$SLURM_ARRAY_TASK_ID\"/{tasks} -j 1"))?
    ))
}

/// Writes what a cluster runs to a file, or to standard output (`-`).
fn emit(path: &Path, text: &str, points: usize) -> anyhow::Result<ExitCode> {
    super::keep(path, text)?;
    if !super::is_stdout(path) {
        errln!("{} in {}", count(points, "point"), path.display());
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::sim::ready::READY;

    fn found(file: &Path) -> Source {
        Source::find(file).unwrap()
    }

    fn axis(text: &str) -> (String, Vec<Labelled>) {
        cases(&toml::from_str(text).unwrap()).unwrap()
    }

    #[test]
    fn points_are_all_combinations() {
        let start = Point { name: String::new(), at: BTreeMap::new(), seed: None, set: vec!["a=1".to_owned()] };
        let (key, values) = axis("key = \"transport.mrc.active_evs\"\nvalues = [4, 16]");
        let points = cross(&[start], &key, &values);
        let (name, labels) =
            axis("name = \"hosts\"\ncases = [{ label = \"RoCE 1\", set = { x = \"go-back-n\", y = 2 } }]");
        let points = cross(&points, &name, &labels);
        let names: Vec<&str> = points.iter().map(|point| point.name.as_str()).collect();
        assert_eq!(names, ["4-RoCE-1", "16-RoCE-1"]);
        assert_eq!(points[1].set, ["a=1", "transport.mrc.active_evs=16", "x=go-back-n", "y=2"]);
        assert_eq!(points[1].at.get("active_evs").map(String::as_str), Some("16"));
    }

    #[test]
    fn axes_whose_keys_end_alike_are_told_apart() {
        let folder = std::env::temp_dir().join(format!("mrc-sweep-axes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("s.toml"), "[[workload]]\n[[workload]]\nfrom = 1\nto = 0\n").unwrap();
        let axis = |key: &str| format!("[[axis]]\nkey = \"{key}\"\nvalues = [1, 2]\n");
        let sweep = |keys: [&str; 2]| format!("scenario = \"s.toml\"\n{}", keys.map(axis).concat());
        let file = folder.join("sweep.toml");
        std::fs::write(&file, sweep(["workload.0.bytes", "workload.1.bytes"])).unwrap();
        let (manifest, _) = read(&found(&file), &Choice::default()).unwrap();
        assert_eq!(manifest.axes, ["bytes", "workload.1.bytes"]);
        assert_eq!(manifest.points[1].at.values().collect::<Vec<_>>(), ["1", "2"]);
        std::fs::write(&file, sweep(["seed", "seed"])).unwrap();
        assert!(read(&found(&file), &Choice::default()).unwrap_err().to_string().contains("two axes are called seed"));
        let (both, one) =
            (axis("workload[0].bytes"), "cases = [{ label = \"a\", set = { \"workload.0.bytes\" = 3 } }]");
        std::fs::write(&file, format!("scenario = \"s.toml\"\n[[axis]]\nname = \"size\"\n{one}\n{both}")).unwrap();
        let error = read(&found(&file), &Choice::default()).unwrap_err().to_string();
        assert!(error.contains("two axes change workload.0.bytes: size and bytes"), "{error}");
        // A table has the keys of its own value alone.
        let scheme = "name = \"scheme\"\ncases = [{ label = \"a\", set = { \"topology.scheme\" = { gap_us = 3 } } }]";
        for axes in [
            [scheme, "key = \"topology.scheme.gap_us\"\nvalues = [5]"],
            ["key = \"topology.scheme.gap_us\"\nvalues = [5]", scheme],
        ] {
            std::fs::write(&file, format!("scenario = \"s.toml\"\n[[axis]]\n{}\n[[axis]]\n{}", axes[0], axes[1]))
                .unwrap();
            let error = read(&found(&file), &Choice::default()).unwrap_err().to_string();
            assert!(error.contains("two axes change topology.scheme.gap_us: "), "{error}");
        }
        let of_all = "set = { \"topology.scheme.gap_us\" = 5 }";
        std::fs::write(&file, format!("scenario = \"s.toml\"\n{of_all}\n[[axis]]\n{scheme}")).unwrap();
        let error = read(&found(&file), &Choice::default()).unwrap_err().to_string();
        assert!(
            error.contains("axis scheme replaces the table that topology.scheme.gap_us of `set` lies in"),
            "{error}"
        );
        // One of the two seeds would count, under the name of both.
        for both in [axis("seed"), "set = { seed = 9 }\n".to_owned()] {
            std::fs::write(&file, format!("scenario = \"s.toml\"\nseeds = [1, 2]\n{both}")).unwrap();
            let error = read(&found(&file), &Choice::default()).unwrap_err().to_string();
            assert!(error.contains("both `seeds` and a changed key"), "{error}");
        }
        for taken in ["sweep", "over-seeds"] {
            let cases = format!("[[axis]]\nname = \"x\"\ncases = [{{ label = \"{taken}\" }}, {{ label = \"b\" }}]\n");
            std::fs::write(&file, format!("scenario = \"s.toml\"\n{cases}")).unwrap();
            let error = read(&found(&file), &Choice::default()).unwrap_err().to_string();
            assert!(error.contains(&format!("no point can be called {taken}")), "{error}");
            std::fs::write(&file, format!("scenario = \"s.toml\"\nseeds = [1]\n{cases}")).unwrap();
            assert!(read(&found(&file), &Choice::default()).is_ok(), "sweep-seed1");
        }
        // A task of a cluster checks its own point only.
        std::fs::write(&file, "scenario = \"s.toml\"\n[[axis]]\nkey = \"bin_us\"\nvalues = [100, -1]\n").unwrap();
        assert!(read(&found(&file), &Choice::default()).unwrap_err().to_string().contains("sweep.toml: point -1"));
        assert!(read(&found(&file), &Choice::only(0)).is_ok() && read(&found(&file), &Choice::only(1)).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_half_described_axis_is_refused() {
        for text in ["key = \"a\"", "name = \"a\"", "key = \"a\"\nvalues = [1]\ncases = [{ label = \"x\" }]"] {
            assert!(cases(&toml::from_str(text).unwrap()).is_err(), "{text}");
        }
    }

    #[test]
    fn the_sweeps_that_are_shipped_can_be_read() {
        let names = || READY.iter().map(|(name, _)| *name);
        let sweeps: Vec<_> = names().filter(|name| Source::find(name.as_ref()).unwrap().is_sweep()).collect();
        assert_eq!(sweeps, names().filter(|name| name.ends_with("-sweep")).collect::<Vec<_>>(), "their names say so");
        assert!(sweeps.len() >= 5, "{sweeps:?}");
        for name in sweeps {
            let (manifest, _) =
                read(&found(name.as_ref()), &Choice::default()).unwrap_or_else(|error| panic!("{name}: {error:#}"));
            assert!(manifest.points.len() > 1 && !manifest.axes.is_empty(), "{name}");
        }
    }

    #[test]
    fn paths_survive_a_shell() {
        assert_eq!(quote("/a/b-c.toml"), "/a/b-c.toml");
        assert_eq!(quote("it's here"), "'it'\\''s here'");
    }
}
