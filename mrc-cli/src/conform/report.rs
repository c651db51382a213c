//! The verdict on a target: per script, how sure the rules behind it are, and which fields are wrong in which requirements.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use mrc_conform::{Certainty, Outcome, Verdict};
use serde::Serialize;

/// Everything that was played.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Scripts the target does as they say.
    pub passed: usize,
    /// Scripts it does otherwise.
    pub failed: usize,
    /// Scripts that passed only when they were played again.
    pub flaky: usize,
    /// Scripts that need what the target lacks.
    pub not_applicable: usize,
    /// Scripts that could not be played.
    pub broken: usize,
    /// Results by the certainty of the least sure requirement of a script.
    pub by_certainty: BTreeMap<&'static str, Counts>,
    /// Fields that differ, and the requirements of the scripts in which they do.
    pub differing: BTreeMap<String, BTreeSet<String>>,
    /// One by one.
    pub scripts: Vec<Outcome>,
}

/// Results of the scripts of one certainty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Passed.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
    /// Neither.
    pub open: usize,
}

/// The word for a verdict, and its reason where it has no packets.
pub fn word(verdict: &Verdict) -> (&'static str, Option<&str>) {
    match verdict {
        Verdict::Pass => ("pass", None),
        Verdict::Fail(_) => ("FAIL", None),
        Verdict::Flaky { .. } => ("flaky", None),
        Verdict::NotApplicable { reason } => ("n/a", Some(reason)),
        Verdict::Broken { reason } => ("broken", Some(reason)),
    }
}

impl Report {
    /// Takes a script in, and says a line about it, with the packets if it failed.
    pub fn add(&mut self, outcome: Outcome) -> String {
        let counts = self.by_certainty.entry(outcome.weight.certainty.tag()).or_default();
        match &outcome.verdict {
            Verdict::Pass => (self.passed, counts.passed) = (self.passed + 1, counts.passed + 1),
            Verdict::Fail(failure) => {
                (self.failed, counts.failed) = (self.failed + 1, counts.failed + 1);
                let field = failure.difference.as_ref().map_or("behaviour".to_string(), |d| d.field.clone());
                self.differing.entry(field).or_default().extend(outcome.requires.iter().cloned());
            }
            open => {
                counts.open += 1;
                *match open {
                    Verdict::Flaky { .. } => &mut self.flaky,
                    Verdict::NotApplicable { .. } => &mut self.not_applicable,
                    _ => &mut self.broken,
                } += 1;
            }
        }
        let (word, reason) = word(&outcome.verdict);
        let name = outcome.script.trim_end_matches(".mrc");
        let weight = outcome.weight.to_string();
        let mut line = format!("{word:<6} {weight:<9} {name:<32} {}", outcome.title);
        if let Some(reason) = reason {
            let _ = write!(line, ": {reason}");
        }
        for text in outcome.explain().lines() {
            let _ = write!(line, "\n  {text}");
        }
        self.scripts.push(outcome);
        line
    }

    /// Whether the target did everything it was asked for, at once.
    pub fn is_good(&self) -> bool {
        self.failed == 0 && self.broken == 0 && self.flaky == 0
    }

    /// The last lines.
    pub fn summary(&self) -> String {
        let mut text = format!("{} passed, {} failed, ", self.passed, self.failed);
        if self.flaky > 0 {
            let _ = write!(text, "{} flaky (passed only when played again), ", self.flaky);
        }
        let _ = writeln!(text, "{} not applicable, {} could not be played", self.not_applicable, self.broken);
        for certainty in Certainty::ALL {
            let Some(counts) = self.by_certainty.get(certainty.tag()) else { continue };
            let Counts { passed, failed, open } = counts;
            let _ = writeln!(
                text,
                "  certainty {:<2}: {passed:>3} passed, {failed:>3} failed, {open:>3} open  ({})",
                certainty.tag(),
                certainty.meaning()
            );
        }
        for (field, ids) in &self.differing {
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let _ = writeln!(text, "  {field}: {}", ids.join(", "));
        }
        let mut noted = self.scripts.iter().filter(|outcome| !outcome.notes.is_empty()).peekable();
        if let Some(first) = noted.peek() {
            let example = format!("{}: {}", first.script, first.notes.first().map_or("", String::as_str));
            let notes = match noted.count() {
                1 => "1 script has notes".to_string(),
                count => format!("{count} scripts have notes"),
            };
            let _ = writeln!(text, "  {notes}, such as {example}; --json shows all");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use mrc_conform::{Failure, Script};

    use super::*;

    #[test]
    fn a_script_that_passes_only_when_played_again_is_no_pass() {
        let script = Script::parse("sack/gap.mrc", "# t\nrequires SACK-008\n0 quiet").unwrap();
        let first = Failure {
            line: 3,
            what: "no packet came".into(),
            difference: None,
            more: Vec::new(),
            beside: None,
            by_timer: false,
            excuse: None,
        };
        let verdict = Verdict::Flaky { attempts: 2, first };
        let mut report = Report::default();
        let line = report.add(Outcome::of(&script, verdict, Vec::new()));
        assert!(line.starts_with("flaky  must 2+   sack/gap") && line.contains("line 3: no packet came"), "{line}");
        assert_eq!((report.passed, report.failed, report.flaky, report.is_good()), (0, 0, 1, false));
        assert_eq!(report.by_certainty["2+"], Counts { passed: 0, failed: 0, open: 1 });
        assert!(report.summary().contains("1 flaky"), "{}", report.summary());
        let path = std::env::temp_dir().join(format!("mrc-flaky-{}.xml", std::process::id()));
        super::super::files::junit(&report, &path).unwrap();
        let xml = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        assert!(
            xml.contains("failures=\"1\"") && xml.contains("type=\"flaky\" message=\"passed at attempt 2\""),
            "{xml}"
        );
    }
}
