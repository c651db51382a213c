//! The ready scenarios, which are part of the program, and files that take their place. A file wins over a ready scenario of
//! the same name.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, ensure};
use mrc_sim::run::{Results, RunEnd};
use mrc_sim::scenario::{self, Built, ScenarioError, nearest};

/// Folder of the ready scenarios in the project.
const FOLDER: &str = "scenarios";

macro_rules! ready {
    ($($name:literal),* $(,)?) => {
        /// All ready scenarios and sweeps: name without `.toml`, and text.
        pub const READY: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../data/scenarios/", $name, ".toml")))),*];
    };
}

ready![
    "experiments/baselines",
    "experiments/baselines-sweep",
    "experiments/collectives",
    "experiments/collectives-sweep",
    "experiments/crowd",
    "experiments/dcqcn-fluid",
    "experiments/dcqcn-fluid-sweep",
    "experiments/dcqcn-sweep",
    "experiments/ecn-sweep",
    "experiments/ev-loss",
    "experiments/evs-sweep",
    "experiments/faca",
    "experiments/faca-competition",
    "experiments/faca-micro",
    "experiments/faca-micro-sweep",
    "experiments/faca-sweep",
    "experiments/hopper",
    "experiments/hopper-conga-sweep",
    "experiments/hopper-ml-sweep",
    "experiments/hopper-prototype-mixed-sweep",
    "experiments/hopper-prototype-sweep",
    "experiments/hopper-roce-sweep",
    "experiments/hopper-sizes-sweep",
    "experiments/hopper-sweep",
    "experiments/hopper-testbed",
    "experiments/hopper-testbed-mixed",
    "experiments/hopper-testbed-roce",
    "experiments/hopper-testbed-roce-sweep",
    "experiments/hopper-testbed-sweep",
    "experiments/incast-victim",
    "experiments/incast15-staggered",
    "experiments/irn",
    "experiments/irn-sweep",
    "experiments/links-flap",
    "experiments/links-one-by-one",
    "experiments/lossy-host-link",
    "experiments/lossy-host-link-scale",
    "experiments/lossy-host-link-scale-sweep",
    "experiments/lossy-host-link-sweep",
    "experiments/many-hosts",
    "experiments/nic-ports-flap",
    "experiments/nic-ports-one-by-one",
    "experiments/permutation8",
    "experiments/permutation8-sweep",
    "experiments/planes-sweep",
    "experiments/reunion",
    "experiments/reunion-deadline-sweep",
    "experiments/reunion-full-sweep",
    "experiments/reunion-interval-sweep",
    "experiments/reunion-packets-sweep",
    "experiments/reunion-slices-sweep",
    "experiments/reunion-sweep",
    "experiments/reunion-tenth-sweep",
    "experiments/same-search",
    "experiments/same-search-tune",
    "experiments/spraying",
    "experiments/startup",
    "experiments/startup-sweep",
    "experiments/t0-switch",
    "experiments/t1-reboot",
    "experiments/t1-silent",
    "experiments/t1-switch",
    "experiments/table",
    "experiments/table-sweep",
    "experiments/trimming-sweep",
    "experiments/two-flows-one-ev",
    "experiments/uplinks-one-by-one",
    "experiments/victim-four-sweep",
    "experiments/victim-sweep",
    "parity/incast15",
    "parity/incast7",
    "parity/one-flow",
    "parity/perm128",
    "parity/perm128-oblivious",
    "parity/perm128-single",
];

/// A scenario or a sweep: where its text comes from.
#[derive(Clone, Debug)]
pub struct Source {
    /// What messages call it, and what finds it again.
    pub name: PathBuf,
    /// Its text.
    pub text: String,
    /// Where the files that it names are.
    pub folder: PathBuf,
    /// Of a result file: the digest that its run had, and the program that made it.
    pub repeats: Option<(String, String)>,
}

impl Source {
    /// The file of this name, or the ready scenario; `-` is standard input.
    ///
    /// # Errors
    /// There is neither, or the file cannot be read.
    pub fn find(name: &Path) -> anyhow::Result<Self> {
        let read = match name.to_str() {
            Some("-") => std::io::read_to_string(std::io::stdin()),
            _ => std::fs::read_to_string(name),
        };
        let missing = match read {
            Ok(text) => {
                let folder = name.parent().unwrap_or(Path::new(".")).to_owned();
                return Self::of_results(name, &text)
                    .unwrap_or_else(|| Ok(Self { name: name.to_owned(), text, folder, repeats: None }));
            }
            Err(error) => error,
        };
        let cannot = || format!("cannot read {}", name.display());
        if missing.kind() != std::io::ErrorKind::NotFound {
            return Err(missing).with_context(cannot);
        }
        let wanted = plain(name);
        let found = READY.iter().find(|(ready, _)| *ready == wanted || last(ready) == wanted);
        let Some(&(ready, text)) = found else {
            let hint = nearest(&wanted, READY.iter().flat_map(|(name, _)| [*name, last(name)]));
            let hint = hint.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
            let list = "and no ready scenario has this name (`mrc sim list`)";
            return Err(anyhow!("{}: no such file, {list}{hint}", name.display()));
        };
        let folder = Path::new(FOLDER).join(ready).parent().unwrap_or(Path::new(".")).to_owned();
        Ok(Self { name: ready.into(), text: text.to_owned(), folder, repeats: None })
    }

    /// The scenario that a result file carries; `None` for a file that is none.
    fn of_results(name: &Path, text: &str) -> Option<anyhow::Result<Self>> {
        if !text.trim_start().starts_with('{') {
            return None;
        }
        let cannot = || format!("{} holds no results of `mrc sim run --json`", name.display());
        Some(serde_json::from_str::<Results>(text).with_context(cannot).and_then(|results| {
            ensure!(!results.resolved.is_empty(), "{} is of a program that did not keep the scenario", name.display());
            let repeats = (results.ended != RunEnd::Interrupted).then_some((results.digest, results.program));
            // Results travel, to machines without that folder, with the trace beside them.
            let then = PathBuf::from(results.folder);
            let folder = if then.is_dir() { then } else { name.parent().unwrap_or(Path::new(".")).to_owned() };
            Ok(Self { name: name.to_owned(), text: results.resolved, folder, repeats })
        }))
    }

    /// A scenario that somebody else has found and read: its name, its text, and the folder of the files that it names.
    pub const fn given(name: PathBuf, text: String, folder: PathBuf) -> Self {
        Self { name, text, folder, repeats: None }
    }

    /// The scenario that this sweep names.
    ///
    /// # Errors
    /// As [`Source::find`].
    pub fn beside(&self, name: &Path) -> anyhow::Result<Self> {
        Self::find(&self.folder.join(name))
    }

    /// Name in messages.
    pub fn label(&self) -> String {
        self.name.display().to_string()
    }

    /// Last part of the name, without `.toml`.
    pub fn stem(&self) -> String {
        last(&plain(&self.name)).to_owned()
    }

    /// Builds the scenario.
    ///
    /// # Errors
    /// As [`scenario::load_str`].
    pub fn load(&self, set: &[String], seed: Option<u64>) -> Result<Built, ScenarioError> {
        scenario::load_str(&self.label(), &self.text, &self.folder, set, seed)
    }

    /// Checks the scenario.
    ///
    /// # Errors
    /// As [`scenario::check_str`].
    pub fn check(&self, set: &[String], seed: Option<u64>) -> Result<(), ScenarioError> {
        scenario::check_str(&self.label(), &self.text, &self.folder, set, seed)
    }

    /// Whether this is a sweep: it names the scenario it is about, which no scenario does.
    pub fn is_sweep(&self) -> bool {
        self.has("scenario") && !self.is_tuning()
    }

    /// Whether this is a tuning file: it has sides.
    pub fn is_tuning(&self) -> bool {
        self.has("scenario") && self.has("side")
    }

    /// What it says that it is about; nothing where it is no scenario.
    pub fn about(&self) -> String {
        let table = self.as_table().unwrap_or_default();
        table.get("about").and_then(toml::Value::as_str).unwrap_or_default().to_owned()
    }

    /// Its keys.
    ///
    /// # Errors
    /// It is no TOML, so that nobody can say what kind of file it is.
    pub fn as_table(&self) -> Result<toml::Table, toml::de::Error> {
        toml::from_str(&self.text)
    }

    fn has(&self, key: &str) -> bool {
        self.as_table().is_ok_and(|table| table.contains_key(key))
    }
}

/// A name as the list has it: `scenarios/parity/perm128.toml` is `parity/perm128`.
fn plain(name: &Path) -> String {
    let name = name.to_string_lossy();
    let name = name.strip_suffix(".toml").unwrap_or(&name);
    name.strip_prefix("scenarios/").unwrap_or(name).to_owned()
}

fn last(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_part_of_the_program() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
        let mut files = Vec::new();
        super::super::collect(&folder, &mut files).unwrap();
        let mut names: Vec<String> =
            files.iter().map(|file| plain(file.strip_prefix(&folder).expect("below it"))).collect();
        names.sort();
        let ready: Vec<&str> = READY.iter().map(|(name, _)| *name).collect();
        assert_eq!(ready, names, "list them in ready.rs, in this order");
        let mut stems: Vec<&str> = ready.iter().map(|name| last(name)).collect();
        stems.sort_unstable();
        stems.dedup();
        assert_eq!(stems.len(), ready.len(), "the last part of a name is enough");
    }

    /// `mrc sim list` checks none of them.
    #[test]
    fn every_ready_scenario_can_be_built_and_says_what_it_is_about() {
        for (name, _) in READY {
            let source = Source::find(Path::new(name)).unwrap();
            if !source.is_sweep() && !source.is_tuning() {
                let built = source.load(&[], None).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(built.scenario.about, source.about(), "{name}");
                assert!(!source.about().is_empty(), "{name}");
            }
        }
    }

    #[test]
    fn a_ready_scenario_is_found_by_each_of_its_names() {
        for name in ["perm128", "parity/perm128", "scenarios/parity/perm128.toml", "perm128.toml"] {
            assert_eq!(Source::find(Path::new(name)).unwrap().name, Path::new("parity/perm128"), "{name}");
        }
        let error = Source::find(Path::new("perm182")).unwrap_err().to_string();
        assert!(error.contains("no such file") && error.contains("did you mean perm128?"), "{error}");
    }
}
