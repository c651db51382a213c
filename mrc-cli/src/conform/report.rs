//! The verdict on a target: per script, and which fields are wrong in which requirements.

use std::collections::{BTreeMap, BTreeSet};

use mrc_conform::{Outcome, Verdict};
use serde::Serialize;

/// Everything that was played.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Scripts the target does as they say.
    pub passed: usize,
    /// Scripts it does otherwise.
    pub failed: usize,
    /// Scripts that need what the target lacks.
    pub not_applicable: usize,
    /// Scripts that could not be played.
    pub broken: usize,
    /// Fields that differ, and the requirements of the scripts in which they do.
    pub differing: BTreeMap<String, BTreeSet<String>>,
    /// One by one.
    pub scripts: Vec<Outcome>,
}

impl Report {
    /// Takes a script in, and says one line about it unless it passed quietly.
    pub fn add(&mut self, outcome: Outcome) -> String {
        let (word, detail) = match &outcome.verdict {
            Verdict::Pass => {
                self.passed += 1;
                ("pass", String::new())
            }
            Verdict::Fail(failure) => {
                self.failed += 1;
                let field = failure.difference.as_ref().map_or("behaviour".to_string(), |d| d.field.clone());
                self.differing.entry(field).or_default().extend(outcome.requires.iter().cloned());
                ("FAIL", format!("\n  line {}: {failure}", failure.line))
            }
            Verdict::NotApplicable { reason } => {
                self.not_applicable += 1;
                ("n/a ", format!(": {reason}"))
            }
            Verdict::Broken { reason } => {
                self.broken += 1;
                ("????", format!(": {reason}"))
            }
        };
        let line = format!("{word} {:<36} {}{detail}", outcome.script.trim_end_matches(".mrc"), outcome.title);
        self.scripts.push(outcome);
        line
    }

    /// The last lines.
    pub fn summary(&self) -> String {
        let mut text = format!(
            "{} passed, {} failed, {} not applicable, {} could not be played\n",
            self.passed, self.failed, self.not_applicable, self.broken
        );
        for (field, ids) in &self.differing {
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            text += &format!("  {field}: {}\n", ids.join(", "));
        }
        let wrong_trailer = self.scripts.iter().filter(|outcome| !outcome.notes.is_empty()).count();
        if wrong_trailer > 0 {
            text += &format!(
                "  {wrong_trailer} scripts have notes (a wrong ICRC, or a second attempt); --json shows them\n"
            );
        }
        text
    }
}
