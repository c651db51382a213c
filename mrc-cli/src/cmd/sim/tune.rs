//! `mrc sim tune`: a comparison that gives every side the same small search. Knob by knob in the order of the file, all values of
//! one on the search's seed, the best is kept; then both the defaults and what was found run on other seeds.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context, anyhow, ensure};
use mrc_sim::run::{self, Options, Results, RunEnd};
use serde::{Deserialize, Serialize};

use super::MadeBy;
use super::pool::{self, Estimate};
use super::ready::Source;
use super::sweep::{assignments, key_of, lost_with, same_place};
use crate::interrupt::{self, Interrupt};
use crate::out::{count, errln, out, writable};
use crate::usage::usage;

/// Arguments of `mrc sim tune`.
#[derive(clap::Args)]
#[command(after_help = "\
A tuning file names a scenario, what is to be small or large, and the sides with their knobs:

  scenario = \"mine.toml\"            # relative to this file, or a ready scenario
  seed = 1                          # searched on this one
  seeds = [2, 3, 4, 5, 6]           # reported on these
  measure = \"p99\"                   # mean, p99, max (of completion times, small is better), or goodput (large)

  [[side]]
  name = \"MRC\"
  knob = [{ key = \"transport.mrc.active_evs\", values = [32, 128] }]

  [[side]]
  name = \"RoCE, go-back-N, PFC\"
  set = { \"transport.kind\" = \"roce\" }
  knob = [{ key = \"transport.roce.qps\", values = [1, 8] }, { key = \"queue.ecn_max_percent\", values = [1, 10, 100] }]

The search goes through the knobs of a side once, in their order: it runs all values of a knob with the search's seed and keeps the
best, or the default where none is better. A run that does not complete is worse than any that does, as are values that do not
go together; for `goodput` a planned end (`until = \"limit\"`) is as good.

Where a run fails, or Ctrl-C or SIGTERM ends the command, the table has the sides that were finished.

Exit codes: 0 all runs completed, 1 some did not, 2 usage or a file that cannot be, 130 interrupted.")]
pub struct Args {
    /// Tuning file
    file: PathBuf,
    /// Write the table as JSON to this file, or to standard output, with program, command, scenario, measure and seeds
    #[arg(long, value_name = "OUT", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Runs at a time; all cores by default
    #[arg(short = 'j', long = "workers", value_name = "N")]
    workers: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tuning {
    scenario: PathBuf,
    seed: u64,
    seeds: Vec<u64>,
    measure: Measure,
    side: Vec<Side>,
}

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Measure {
    Mean,
    P99,
    Max,
    Goodput,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Side {
    name: String,
    #[serde(default)]
    set: toml::Table,
    #[serde(default)]
    knob: Vec<Knob>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Knob {
    key: String,
    values: Vec<toml::Value>,
}

/// The comparison, as `--json` writes it.
#[derive(Serialize)]
struct Compared<'a> {
    #[serde(flatten)]
    made_by: MadeBy,
    /// Name of the scenario, and its text.
    scenario: String,
    text: &'a str,
    measure: Measure,
    /// Of the search, and of the report.
    seed: u64,
    seeds: &'a [u64],
    /// Whether all sides of the file are there.
    finished: bool,
    sides: Vec<Row>,
}

/// A row of the comparison.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Row {
    side: String,
    /// What the side changes in the scenario, before the search.
    set: Vec<String>,
    /// Keys that were searched, how many values of each, and which one won; empty where the default did.
    tuned: Vec<Found>,
    /// Runs of the search.
    searched: usize,
    /// Combinations that were not run, because their values do not go together.
    refused: usize,
    default: Option<Estimate>,
    best: Option<Estimate>,
    /// Runs of the report that did not complete: with what was found, and with the defaults.
    incomplete: usize,
    default_incomplete: usize,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
struct Found {
    key: String,
    tried: Vec<String>,
    /// `None` (null): the default was best.
    best: Option<String>,
}

impl Measure {
    fn of(self, results: &Results) -> Option<f64> {
        match self {
            Self::Mean => results.fct_us.map(|fct| fct.mean),
            Self::P99 => results.fct_us.map(|fct| fct.p99),
            Self::Max => results.fct_us.map(|fct| fct.max),
            Self::Goodput => pool::has_rates(results).then_some(results.goodput_gbit_per_s),
        }
    }

    /// Whether one result is better than another; anything is better than none.
    fn better(self, one: Option<f64>, than: Option<f64>) -> bool {
        match (one, than) {
            (Some(one), Some(than)) if self == Self::Goodput => one > than,
            (Some(one), Some(than)) => one < than,
            (one, than) => one.is_some() && than.is_none(),
        }
    }
}

/// What `mrc sim list` says of a tuning file.
pub fn about(file: &Source) -> anyhow::Result<String> {
    let (scenario, tuning) = read(file)?;
    let sides: Vec<&str> = tuning.side.iter().map(|side| side.name.as_str()).collect();
    Ok(format!("{}.toml, every side tuned by the same search: {}", scenario.stem(), sides.join("; ")))
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (scenario, tuning) = Source::find(&args.file).and_then(|file| read(&file)).map_err(usage)?;
    let to_file = args.json.as_deref().filter(|path| *path != Path::new("-"));
    to_file.into_iter().try_for_each(writable)?;
    let workers = args.workers.or_else(|| std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    let interrupt = Interrupt::install()?;
    let search = Search { source: &scenario, tuning: &tuning, workers, stop: interrupt.flag() };
    let (rows, failure) = search.sides();
    let complete = rows.iter().all(|row| row.incomplete + row.default_incomplete == 0);
    let sides = rows.len();
    // The table first: no file that cannot be written loses it.
    if to_file.is_some() || args.json.is_none() {
        out!("{}", table(&tuning, &rows));
    }
    if let Some(path) = &args.json {
        let compared = Compared {
            made_by: MadeBy::this(),
            scenario: scenario.stem(),
            text: &scenario.text,
            measure: tuning.measure,
            seed: tuning.seed,
            seeds: &tuning.seeds,
            finished: failure.is_none(),
            sides: rows,
        };
        super::keep(path, serde_json::to_string_pretty(&compared)?)?;
    }
    match failure {
        Some(error) if error.is::<Interrupted>() => {
            errln!("interrupted: {sides} of {} finished", count(tuning.side.len(), "side"));
            Ok(ExitCode::from(interrupt::EXIT_CODE))
        }
        Some(error) => Err(error),
        None if complete => Ok(ExitCode::SUCCESS),
        None => Ok(ExitCode::FAILURE),
    }
}

/// Reads a tuning file; the first value is its scenario.
fn read(file: &Source) -> anyhow::Result<(Source, Tuning)> {
    let name = file.name.display();
    file.as_table().with_context(|| format!("{name} is no tuning file"))?;
    if !file.is_tuning() {
        let command = if file.is_sweep() { "sweep" } else { "run" };
        anyhow::bail!("{name} compares no sides: `mrc sim {command} {name}` runs it");
    }
    let tuning: Tuning = toml::from_str(&file.text).with_context(|| format!("{name} is no tuning file"))?;
    ensure!(!tuning.side.is_empty(), "{name}: a comparison has at least one [[side]]");
    ensure!(!tuning.seeds.is_empty(), "{name}: seeds: at least one to report on");
    ensure!(
        !tuning.seeds.contains(&tuning.seed),
        "{name}: seeds: {} is the search's own; report on others",
        tuning.seed
    );
    let twice = (1..tuning.seeds.len()).find(|&nth| tuning.seeds[..nth].contains(&tuning.seeds[nth]));
    if let Some(nth) = twice {
        anyhow::bail!("{name}: seeds: {} is there twice", tuning.seeds[nth]);
    }
    let beside = file.beside(&tuning.scenario);
    let source = beside.or_else(|error| Source::find(&tuning.scenario).map_err(|_| error))?;
    for (nth, side) in tuning.side.iter().enumerate() {
        let of_side = || format!("{name}: side `{}`", side.name);
        ensure!(tuning.side[..nth].iter().all(|other| other.name != side.name), "{} is there twice", of_side());
        let keys: Vec<String> = side.knob.iter().map(|knob| key_of(&knob.key)).collect();
        let of_all: Vec<String> = side.set.keys().map(|key| key_of(key)).collect();
        for (nth, key) in keys.iter().enumerate() {
            // The last one alone would hold, and both would be reported.
            if let Some(place) = keys[..nth].iter().find_map(|other| same_place(other, key)) {
                anyhow::bail!("{}: two knobs change {place}", of_side());
            }
            if let Some(lost) = lost_with(&of_all, key) {
                anyhow::bail!("{}: knob {key} replaces the table that {lost} of `set` lies in", of_side());
            }
        }
        ensure!(
            !side.set.contains_key("seed") && side.knob.iter().all(|knob| knob.key != "seed"),
            "{}: `seed` and `seeds` of the file say which seeds run",
            of_side()
        );
        let base = assignments(&side.set);
        source.check(&base, Some(tuning.seed)).map_err(anyhow::Error::from).with_context(of_side)?;
        for knob in &side.knob {
            ensure!(!knob.values.is_empty(), "{}: knob {} has no values", of_side(), knob.key);
            for value in &knob.values {
                let set = [&base[..], &[change(knob, value)]].concat();
                source.check(&set, Some(tuning.seed)).map_err(anyhow::Error::from).with_context(of_side)?;
            }
        }
    }
    Ok((source, tuning))
}

fn change(knob: &Knob, value: &toml::Value) -> String {
    format!("{}={}", knob.key, super::sweep::text_of(value))
}

/// The runs of a comparison: what all of them share.
struct Search<'a> {
    source: &'a Source,
    tuning: &'a Tuning,
    workers: usize,
    /// Ends the search, with the runs under way, when somebody sets it.
    stop: Arc<AtomicBool>,
}

/// What some runs came to.
struct Measured {
    /// In their order; `None` of those that did not complete or were refused.
    values: Vec<Option<f64>>,
    /// Combinations that cannot be run.
    refused: usize,
}

impl Search<'_> {
    /// The rows of all sides; up to the first one that fails, and why it did.
    fn sides(&self) -> (Vec<Row>, Option<anyhow::Error>) {
        let mut rows = Vec::new();
        for side in &self.tuning.side {
            match self.tune(side) {
                Ok(row) => rows.push(row),
                Err(error) => return (rows, Some(error.context(format!("side `{}`", side.name)))),
            }
        }
        (rows, None)
    }

    fn tune(&self, side: &Side) -> anyhow::Result<Row> {
        let (tuning, base) = (self.tuning, assignments(&side.set));
        let first = self.measure(side, &[(base.clone(), tuning.seed)])?;
        let (mut best, mut value) = (base.clone(), first.values[0]);
        let (mut tuned, mut tries, mut refused) = (Vec::new(), 1, first.refused);
        for knob in &side.knob {
            let sets: Vec<(Vec<String>, u64)> =
                knob.values.iter().map(|value| ([&best[..], &[change(knob, value)]].concat(), tuning.seed)).collect();
            let results = self.measure(side, &sets)?;
            tries += sets.len();
            refused += results.refused;
            let tried: Vec<String> = knob.values.iter().map(super::sweep::text_of).collect();
            let mut found = None;
            for (nth, result) in results.values.into_iter().enumerate() {
                if tuning.measure.better(result, value) {
                    (value, found) = (result, Some(nth));
                    best.clone_from(&sets[nth].0);
                }
            }
            tuned.push(Found { key: knob.key.clone(), best: found.map(|nth| tried[nth].clone()), tried });
        }
        let searched = tries - refused;
        let over = |set: &Vec<String>| {
            let runs: Vec<_> = tuning.seeds.iter().map(|&seed| (set.clone(), seed)).collect();
            self.measure(side, &runs).map(|measured| measured.values)
        };
        let default = over(&base)?;
        let report = if best == base { default.clone() } else { over(&best)? };
        let estimate = |values: &[Option<f64>]| Estimate::of(&values.iter().copied().flatten().collect::<Vec<_>>());
        let missing = |values: &[Option<f64>]| values.iter().filter(|value| value.is_none()).count();
        let (incomplete, default_incomplete) = (missing(&report), missing(&default));
        let (default, best) = (estimate(&default), estimate(&report));
        let side = side.name.clone();
        Ok(Row { side, set: base, tuned, searched, refused, default, best, incomplete, default_incomplete })
    }

    /// Runs them all, some at a time.
    fn measure(&self, side: &Side, all: &[(Vec<String>, u64)]) -> anyhow::Result<Measured> {
        let runs = run_all(all, self.workers, &self.stop, |(set, seed)| self.one(side, set, *seed))?;
        let refused = runs.iter().filter(|run| run.is_none()).count();
        Ok(Measured { values: runs.into_iter().map(Option::flatten).collect(), refused })
    }

    /// What a run came to, if it completed; `None` of a combination that cannot be run.
    fn one(&self, side: &Side, set: &[String], seed: u64) -> anyhow::Result<Option<Option<f64>>> {
        // Each value was checked beside the defaults; beside other values it may be none.
        let built = match self.source.load(set, Some(seed)) {
            Ok(built) => built,
            Err(error) => {
                errln!("mrc: side `{}`: {error}: no run with {}", side.name, set.join(", "));
                return Ok(None);
            }
        };
        let options = Options { stop: Some(Arc::clone(&self.stop)), ..Options::default() };
        let results = run::run(&built, &options, &mut |_| {})?.results;
        // What a run was cut to is no result of its side.
        ensure!(results.ended != RunEnd::Interrupted, Interrupted);
        Ok(Some(self.tuning.measure.of(&results)))
    }
}

/// Why a comparison ends that somebody stops.
#[derive(Debug)]
struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Does `one` with all of them, some at a time, and returns what they came to, in their order. The first one that fails sets `stop`,
/// which ends the others, too: nobody would see what they come to.
fn run_all<T: Sync, R: Send>(
    all: &[T],
    workers: usize,
    stop: &AtomicBool,
    one: impl Fn(&T) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    const ALONE: &str = "no worker panics with the lock";
    let (queue, done, failure) = (Mutex::new(all.iter().enumerate()), Mutex::new(Vec::new()), Mutex::new(None));
    let next = || queue.lock().expect(ALONE).next().filter(|_| !stop.load(Ordering::Relaxed));
    let work = || {
        while let Some((nth, item)) = next() {
            match one(item) {
                Ok(result) => done.lock().expect(ALONE).push((nth, result)),
                Err(error) => {
                    // The first: the others then fail because they are stopped.
                    failure.lock().expect(ALONE).get_or_insert(error);
                    stop.store(true, Ordering::Relaxed);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers.clamp(1, all.len().max(1))).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow!("a run panicked")))
    })?;
    if let Some(error) = failure.into_inner().expect(ALONE) {
        return Err(error);
    }
    let mut done = done.into_inner().expect(ALONE);
    ensure!(done.len() == all.len(), Interrupted);
    done.sort_unstable_by_key(|&(nth, _)| nth);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

/// The rows as a table.
fn table(tuning: &Tuning, rows: &[Row]) -> String {
    let what = match tuning.measure {
        Measure::Mean => "mean FCT, us",
        Measure::P99 => "p99 of FCT, us",
        Measure::Max => "largest FCT, us",
        Measure::Goodput => "goodput, Gb/s",
    };
    let mut table = format!(
        "{what}; searched with seed {}, reported on {:?} with 95 % confidence intervals\n\n\
         | side | defaults | tuned | what was tuned, how |\n|---|---|---|---|\n",
        tuning.seed, tuning.seeds
    );
    for row in rows {
        let value = |value: Option<Estimate>| value.map_or_else(|| "-".to_owned(), |value| value.text(1));
        let how = row.tuned.iter().map(|found| {
            let best = found.best.as_ref().map_or_else(|| "default".to_owned(), |best| format!("`{best}`"));
            format!("`{}`: {best} of {}", found.key, found.tried.join(", "))
        });
        let how = how.collect::<Vec<_>>().join("; ");
        let refused = if row.refused > 0 { format!(", {} refused", row.refused) } else { String::new() };
        let how = if how.is_empty() { "nothing".to_owned() } else { format!("{how} ({} runs{refused})", row.searched) };
        let part = |runs: usize| if runs > 0 { format!(" ({runs} incomplete)") } else { String::new() };
        let default = value(row.default) + &part(row.default_incomplete);
        let best = value(row.best) + &part(row.incomplete);
        // A bar within a cell would end it.
        let cells = [&row.side, &default, &best, &how].map(|cell| cell.replace('|', "\\|"));
        table += &format!("| {} |\n", cells.join(" | "));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two flows of one pair of hosts: with one connection the short one waits.
    const SCENARIO: &str = "[topology]\nt0 = 1\n[[workload]]\nfrom = 0\nto = 1\nbytes = 1000000\n\
        [[workload]]\nfrom = 0\nto = 1\nbytes = 1000\n";

    fn folder(name: &str, tuning: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("mrc-tune-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("s.toml"), SCENARIO).unwrap();
        std::fs::write(folder.join("t.toml"), tuning).unwrap();
        folder
    }

    fn search<'a>(source: &'a Source, tuning: &'a Tuning) -> Search<'a> {
        Search { source, tuning, workers: 2, stop: Arc::default() }
    }

    #[test]
    fn the_search_keeps_what_is_better_and_reports_other_seeds() {
        let text = "scenario = \"s.toml\"\nseed = 1\nseeds = [2, 3]\nmeasure = \"mean\"\n[[side]]\nname = \"a\"\n\
                    knob = [{ key = \"transport.connections\", values = [1, 2] }, { key = \"queue.ecn\", values = [false] }]\n\
                    [[side]]\nname = \"b\"\n";
        let folder = folder("best", text);
        let (source, tuning) = read(&Source::find(&folder.join("t.toml")).unwrap()).unwrap();
        let row = search(&source, &tuning).tune(&tuning.side[0]).unwrap();
        assert_eq!(row.tuned[0].best.as_deref(), Some("2"));
        assert_eq!(row.tuned[1].best, None, "no better than the default");
        assert_eq!((row.searched, row.incomplete), (4, 0));
        assert!(row.best.unwrap().mean < 0.8 * row.default.unwrap().mean, "{row:?}");
        assert_eq!(row.best.unwrap().seeds, 2);
        let row = search(&source, &tuning).tune(&tuning.side[1]).unwrap();
        assert_eq!((row.tuned.len(), row.default), (0, row.best));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn knobs_and_sides_are_there_once_and_values_that_do_not_go_together_lose() {
        let file = |side: &str| {
            let head = "scenario = \"s.toml\"\nseed = 1\nseeds = [2]\nmeasure = \"mean\"\n";
            format!("{head}[[side]]\nname = \"a\"\n{side}")
        };
        for (side, why) in [
            (
                "knob = [{ key = \"queue.ecn\", values = [true] }, { key = \"queue.ecn\", values = [false] }]",
                "two knobs change queue.ecn",
            ),
            (
                "knob = [{ key = \"queue.ecn\", values = [true] }, { key = \"queue\", values = [{ trim = false }] }]",
                "two knobs change queue.ecn",
            ),
            (
                "set = { \"queue.ecn\" = false }\nknob = [{ key = \"queue\", values = [{ trim = false }] }]",
                "knob queue replaces the table that queue.ecn of `set` lies in",
            ),
            ("[[side]]\nname = \"a\"\n", "side `a` is there twice"),
        ] {
            let folder = folder("once", &file(side));
            let error = read(&Source::find(&folder.join("t.toml")).unwrap()).err().unwrap().to_string();
            assert!(error.contains(why), "{error}");
            std::fs::remove_dir_all(&folder).unwrap();
        }
        // Either goes with the default of the other.
        let side = "knob = [{ key = \"queue.trim_bytes\", values = [230000] }, { key = \"queue.data_bytes\", values = [210000] }]";
        let folder = folder("apart", &file(side));
        let (source, tuning) = read(&Source::find(&folder.join("t.toml")).unwrap()).unwrap();
        let apart = [vec!["queue.trim_bytes=230000".to_owned(), "queue.data_bytes=210000".to_owned()], vec![]];
        let search = search(&source, &tuning);
        let found = search.measure(&tuning.side[0], &apart.map(|set| (set, 1))).unwrap();
        assert!(found.values[0].is_none() && found.values[1].is_some(), "{:?}", found.values);
        assert_eq!(found.refused, 1);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn bars_in_names_and_values_stay_within_their_cell() {
        let folder = folder(
            "bars",
            "scenario = \"s.toml\"\nseed = 1\nseeds = [2]\nmeasure = \"mean\"\n[[side]]\nname = \"a|b\"\n",
        );
        let (_, tuning) = read(&Source::find(&folder.join("t.toml")).unwrap()).unwrap();
        let found = Found { key: "name".to_owned(), tried: vec!["c|d".to_owned()], best: None };
        let (side, tuned) = (tuning.side[0].name.clone(), vec![found]);
        let row = Row {
            side,
            set: Vec::new(),
            tuned,
            searched: 2,
            refused: 0,
            default: None,
            best: None,
            incomplete: 0,
            default_incomplete: 1,
        };
        let table = table(&tuning, &[row]);
        let last = table.lines().last().unwrap();
        assert_eq!(last, "| a\\|b | - (1 incomplete) | - | `name`: default of c\\|d (2 runs) |");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_run_that_fails_ends_the_others_and_says_why() {
        let (stop, begun) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        let all: Vec<u32> = (0..1000).collect();
        let error = run_all(&all, 2, &stop, |&nth| {
            begun.lock().unwrap().push(nth);
            if nth == 1 {
                return Err(anyhow!("no room"));
            }
            while nth > 1 && !stop.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            ensure!(nth < 2, Interrupted);
            Ok(nth)
        });
        assert_eq!(error.unwrap_err().to_string(), "no room");
        assert!(begun.lock().unwrap().len() <= 3, "one for each worker at the failure");
        // What a signal has stopped says so, and is no failure.
        assert!(run_all(&all, 2, &stop, |&nth| Ok(nth)).unwrap_err().is::<Interrupted>());
        assert_eq!(run_all(&all, 2, &AtomicBool::new(false), |&nth| Ok(nth)).unwrap(), all);
    }

    #[test]
    fn a_run_that_does_not_complete_is_worse_than_any_that_does() {
        assert!(Measure::P99.better(Some(9e9), None) && !Measure::P99.better(None, Some(9e9)));
        assert!(Measure::Goodput.better(Some(2.0), Some(1.0)) && Measure::Max.better(Some(1.0), Some(2.0)));
    }

    #[test]
    fn a_steady_state_is_compared_by_its_goodput_and_what_defaults_do_not_complete_is_told() {
        let text = |measure: &str| {
            format!(
                "scenario = \"s.toml\"\nseed = 1\nseeds = [2, 3]\nmeasure = \"{measure}\"\n[[side]]\nname = \"a\"\n\
                 set = {{ until = \"limit\", limit_us = 50.0 }}\nknob = [{{ key = \"limit_us\", values = [1000.0] }}]\n"
            )
        };
        let row = |measure: &str| {
            let folder = folder(measure, &text(measure));
            let (source, tuning) = read(&Source::find(&folder.join("t.toml")).unwrap()).unwrap();
            let row = search(&source, &tuning).tune(&tuning.side[0]).unwrap();
            std::fs::remove_dir_all(&folder).unwrap();
            row
        };
        let goodput = row("goodput");
        assert!(goodput.default.unwrap().mean > 80.0, "{goodput:?}");
        assert_eq!((goodput.incomplete, goodput.default_incomplete), (0, 0));
        let mean = row("mean");
        assert_eq!((mean.default, mean.default_incomplete, mean.incomplete), (None, 2, 0));
        assert_eq!(mean.tuned[0].best.as_deref(), Some("1000.0"));
    }

    #[test]
    fn files_that_cannot_be_compared_say_why() {
        let base = "scenario = \"s.toml\"\nseed = 1\nmeasure = \"p99\"\n";
        for (rest, says) in [
            ("seeds = [1, 2]\n[[side]]\nname = \"a\"\n", "report on others"),
            ("seeds = [2, 3, 2]\n[[side]]\nname = \"a\"\n", "2 is there twice"),
            ("seeds = [2]\n[[side]]\nname = \"a\"\nset = { seed = 9 }\n", "say which seeds run"),
            ("seeds = [2]\n[[side]]\nname = \"a\"\nknob = [{ key = \"seed\", values = [3] }]\n", "say which seeds run"),
            ("seeds = []\n[[side]]\nname = \"a\"\n", "at least one"),
            ("seeds = [2]\nside = []\n", "at least one [[side]]"),
            ("seeds = [2]\n[[side]]\nname = \"a\"\nknob = [{ key = \"queue.trem\", values = [true] }]\n", "queue.trem"),
        ] {
            let folder = folder("bad", &format!("{base}{rest}"));
            let error = read(&Source::find(&folder.join("t.toml")).unwrap())
                .err()
                .map(|error| format!("{error:#}"))
                .unwrap_or_default();
            assert!(error.contains(says), "{rest}: {error}");
            std::fs::remove_dir_all(&folder).unwrap();
        }
    }
}
