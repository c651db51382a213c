//! What made the results of a folder: programs and files. Results that a change of one of them has overtaken are kept, because a
//! sweep may have run for days, but nobody should compare them with others unawares.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mrc_sim::run::Results;

use crate::out::count;

/// What made some results.
#[derive(Debug, Default)]
pub struct Made {
    /// Results by program.
    programs: BTreeMap<String, usize>,
    /// Results by a file that is newer than they are.
    newer: BTreeMap<PathBuf, usize>,
}

impl Made {
    /// Adds the results in `file`, which `program` may have made.
    pub fn add(&mut self, file: &Path, results: &Results, program: Option<&Path>) {
        self.by(&results.program);
        let made = modified(file);
        for input in inputs(results).into_iter().chain(program.map(Path::to_owned)) {
            if made.zip(modified(&input)).is_some_and(|(made, input)| made < input) {
                *self.newer.entry(input).or_default() += 1;
            }
        }
    }

    /// Adds a program that made one of the results.
    pub fn by(&mut self, program: &str) {
        *self.programs.entry(program.to_owned()).or_default() += 1;
    }

    /// The programs; where there are several, each with its number of results.
    pub fn programs(&self) -> String {
        let alone = self.programs.len() == 1;
        let each = self.programs.iter().map(|(program, results)| match alone {
            true => program.clone(),
            false => format!("{program} ({})", count(*results, "run")),
        });
        each.collect::<Vec<_>>().join(", ")
    }

    /// What to know before comparing them.
    pub fn notes(&self) -> Vec<String> {
        let programs = (self.programs.len() > 1).then(|| format!("results of different programs: {}", self.programs()));
        let newer = self.newer.iter().map(|(file, results)| {
            let of = if *results == 1 { "1 point has results" } else { &format!("{results} points have results") };
            format!("{of} older than {}: they are kept; remove them to run them again", file.display())
        });
        programs.into_iter().chain(newer).collect()
    }
}

/// The files that the scenario of a run names.
fn inputs(results: &Results) -> Vec<PathBuf> {
    let scenario: toml::Table = toml::from_str(&results.resolved).unwrap_or_default();
    let workloads = scenario.get("workload").and_then(toml::Value::as_array).into_iter().flatten();
    let tables = workloads.chain(scenario.get("topology"));
    let files = tables.filter_map(|table| table.get("file")?.as_str());
    // A Chakra trace is a file for each rank.
    let files = files.flat_map(|file| [file.to_owned(), format!("{file}.0.et")]);
    files.map(|file| Path::new(&results.folder).join(file)).collect()
}

fn modified(file: &Path) -> Option<SystemTime> {
    std::fs::metadata(file).and_then(|file| file.modified()).ok()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::Duration;

    use super::*;

    #[test]
    fn results_of_other_programs_and_older_than_their_files_are_told() {
        let folder = std::env::temp_dir().join(format!("mrc-made-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let at = |name: &str, seconds| {
            let file = folder.join(name);
            let when = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            File::create(&file).unwrap().set_modified(when).unwrap();
            file
        };
        let (program, trace) = (at("mrc", 100), at("trace.csv", 300));
        at("ranks.0.et", 300);
        let results = |program: &str, file: &str| Results {
            program: program.to_owned(),
            folder: folder.to_string_lossy().into_owned(),
            resolved: format!("[[workload]]\nfile = \"{file}\"\n[topology]\nfile = \"none.topo\"\n"),
            ..Results::default()
        };
        let made = |all: &[(u64, &str, &str)]| {
            let mut made = Made::default();
            for (seconds, by, file) in all {
                made.add(&at("results", *seconds), &results(by, file), Some(&program));
            }
            made.notes()
        };
        assert_eq!(made(&[(400, "a", "trace.csv"), (301, "a", "ranks")]), [] as [&str; 0]);
        let of_program = format!("1 point has results older than {}: they are kept", program.display());
        let of_trace = format!("2 points have results older than {}: they are kept", trace.display());
        let notes = made(&[(50, "a", "trace.csv"), (200, "a", "trace.csv"), (400, "b", "trace.csv")]);
        assert_eq!(notes[0], "results of different programs: a (2 runs), b (1 run)");
        assert!(notes[1].starts_with(&of_program) && notes[2].starts_with(&of_trace), "{notes:?}");
        assert!(made(&[(200, "a", "ranks")])[0].contains("ranks.0.et"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
