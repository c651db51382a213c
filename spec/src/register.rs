//! The register: requirements, decisions and exceptions as read from TOML, checked against each other.
//!
//! Owns the file format. Each problem names file, line and key, so that a typo is found without searching.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::Path;

use clap::ValueEnum;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub(crate) use crate::certainty::Certainty;
use toml::Spanned;

/// The chapters of the reference, one file each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Chapter {
    Wire,
    Transport,
    Paths,
    Congestion,
    Selectors,
}

impl Chapter {
    pub(crate) const ALL: [Self; 5] = [Self::Wire, Self::Transport, Self::Paths, Self::Congestion, Self::Selectors];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Wire => "wire",
            Self::Transport => "transport",
            Self::Paths => "paths",
            Self::Congestion => "congestion",
            Self::Selectors => "selectors",
        }
    }
}

/// How binding a requirement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Must,
    Should,
    May,
}

impl Level {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Must => "must",
            Self::Should => "should",
            Self::May => "may",
        }
    }
}

/// Whether the project claims to obey already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Implemented,
    Planned,
}

/// One normative statement.
#[derive(Debug, Clone)]
pub(crate) struct Requirement {
    pub(crate) id: String,
    pub(crate) chapter: Chapter,
    /// Chapter and section of the reference, such as `wire 4`.
    pub(crate) source: String,
    pub(crate) level: Level,
    pub(crate) certainty: Certainty,
    pub(crate) status: Status,
    /// The issue that brings a planned requirement.
    pub(crate) issue: Option<u32>,
    /// Configuration knobs that change the behaviour.
    pub(crate) knobs: Vec<String>,
    pub(crate) summary: String,
}

/// One open question and what we do about it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decision {
    pub(crate) id: Spanned<String>,
    pub(crate) question: String,
    pub(crate) decision: String,
    pub(crate) why: String,
    pub(crate) impact: String,
    pub(crate) knobs: Vec<String>,
    pub(crate) requirements: Spanned<Vec<String>>,
}

/// One requirement we knowingly do not obey.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exception {
    pub(crate) requirement: Spanned<String>,
    pub(crate) reason: String,
    pub(crate) effect: String,
    pub(crate) until: String,
}

/// A problem in one of the register's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// File below `spec/`.
    pub(crate) file: String,
    /// Line, from 1; 0 when the whole file is meant.
    pub(crate) line: usize,
    /// The key at fault, where one is known.
    pub(crate) key: Option<String>,
    pub(crate) text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spec/{}", self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if let Some(key) = &self.key {
            write!(f, ": key `{key}`")?;
        }
        write!(f, ": {}", self.text)
    }
}

/// All records, in file order.
#[derive(Debug, Default)]
pub(crate) struct Register {
    pub(crate) requirements: Vec<Requirement>,
    pub(crate) decisions: Vec<Decision>,
    pub(crate) exceptions: Vec<Exception>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChapterFile {
    chapter: Spanned<Chapter>,
    requirement: Vec<RawRequirement>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRequirement {
    id: Spanned<String>,
    source: Spanned<String>,
    level: Level,
    certainty: Certainty,
    status: Spanned<Status>,
    issue: Option<u32>,
    #[serde(default)]
    knobs: Vec<String>,
    summary: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DecisionFile {
    decision: Vec<Decision>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExceptionFile {
    exception: Vec<Exception>,
}

impl Register {
    /// Reads every file of the register below `spec_dir`.
    ///
    /// # Errors
    /// All problems found, not just the first.
    pub(crate) fn load(spec_dir: &Path) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut files = BTreeMap::new();
        let names = Chapter::ALL.map(|chapter| format!("requirements/{}.toml", chapter.name()));
        for name in names.into_iter().chain(["decisions.toml".into(), "exceptions.toml".into()]) {
            match fs::read_to_string(spec_dir.join(&name)) {
                Ok(text) => {
                    files.insert(name, text);
                }
                Err(error) => {
                    let text = format!("cannot be read ({error}); is --root the top of the source tree?");
                    problems.push(Problem { file: name, line: 0, key: None, text });
                }
            }
        }
        if problems.is_empty() { Self::from_texts(&files) } else { Err(problems) }
    }

    /// Parses and cross-checks the register from file texts, keyed by the path below `spec/`.
    pub(crate) fn from_texts(files: &BTreeMap<String, String>) -> Result<Self, Vec<Problem>> {
        let mut reader = Reader::default();
        for chapter in Chapter::ALL {
            let name = format!("requirements/{}.toml", chapter.name());
            if let Some(text) = files.get(&name) {
                reader.chapter(chapter, &name, text);
            }
        }
        if let Some(text) = files.get("decisions.toml") {
            reader.decisions("decisions.toml", text);
        }
        if let Some(text) = files.get("exceptions.toml") {
            reader.exceptions("exceptions.toml", text);
        }
        if reader.problems.is_empty() { Ok(reader.register) } else { Err(reader.problems) }
    }

    pub(crate) fn is_excepted(&self, id: &str) -> bool {
        self.exceptions.iter().any(|exception| exception.requirement.get_ref() == id)
    }
}

/// Collects records and problems file by file.
#[derive(Default)]
struct Reader {
    register: Register,
    /// Where each id was defined, for the message about a second definition.
    defined: BTreeMap<String, String>,
    problems: Vec<Problem>,
}

impl Reader {
    fn chapter(&mut self, chapter: Chapter, file: &str, text: &str) {
        let Some(parsed) = self.parse::<ChapterFile>(file, text) else {
            return;
        };
        if *parsed.chapter.get_ref() != chapter {
            let message = format!("this file holds chapter `{}`", chapter.name());
            self.problem(file, text, &parsed.chapter.span(), message);
        }
        for raw in parsed.requirement {
            self.requirement(chapter, file, text, raw);
        }
    }

    fn requirement(&mut self, chapter: Chapter, file: &str, text: &str, raw: RawRequirement) {
        let id = raw.id.get_ref().clone();
        if !is_requirement_id(&id) {
            let message = format!("`{id}` is no id; write a group and three digits, as in SACK-004");
            self.problem(file, text, &raw.id.span(), message);
        }
        self.define(file, text, &raw.id);
        if raw.source.get_ref().split(' ').next() != Some(chapter.name()) {
            let message = format!("starts with the chapter, as in `{} 4.3`", chapter.name());
            self.problem(file, text, &raw.source.span(), message);
        }
        match (raw.status.get_ref(), raw.issue) {
            (Status::Planned, None) => {
                self.problem(
                    file,
                    text,
                    &raw.status.span(),
                    "a planned record needs the `issue` that brings it".into(),
                );
            }
            (Status::Implemented, Some(_)) => {
                self.problem(file, text, &raw.status.span(), "an implemented record has no `issue`".into());
            }
            _ => {}
        }
        if !raw.summary.get_ref().ends_with('.') {
            self.problem(file, text, &raw.summary.span(), "is a sentence and ends with a full stop".into());
        }
        self.register.requirements.push(Requirement {
            id,
            chapter,
            source: raw.source.into_inner(),
            level: raw.level,
            certainty: raw.certainty,
            status: raw.status.into_inner(),
            issue: raw.issue,
            knobs: raw.knobs,
            summary: raw.summary.into_inner(),
        });
    }

    fn decisions(&mut self, file: &str, text: &str) {
        let Some(parsed) = self.parse::<DecisionFile>(file, text) else {
            return;
        };
        let mut explained = BTreeSet::new();
        for decision in parsed.decision {
            if !is_decision_id(decision.id.get_ref()) {
                let message = format!("`{}` is no decision id; write OQ- and two digits", decision.id.get_ref());
                self.problem(file, text, &decision.id.span(), message);
            }
            self.define(file, text, &decision.id);
            for id in decision.requirements.get_ref() {
                self.known(file, text, id, &decision.requirements.span());
                explained.insert(id.clone());
            }
            self.register.decisions.push(decision);
        }
        let unexplained = |r: &&Requirement| r.certainty == Certainty::Conflict && !explained.contains(&r.id);
        for requirement in self.register.requirements.iter().filter(unexplained) {
            self.problems.push(Problem {
                file: file.into(),
                line: 0,
                key: None,
                text: format!("{} has certainty \"C\" but no decision names it", requirement.id),
            });
        }
    }

    fn exceptions(&mut self, file: &str, text: &str) {
        let Some(parsed) = self.parse::<ExceptionFile>(file, text) else {
            return;
        };
        for exception in parsed.exception {
            self.known(file, text, exception.requirement.get_ref(), &exception.requirement.span());
            self.register.exceptions.push(exception);
        }
    }

    /// Notes a definition of `id` and refuses a second one.
    fn define(&mut self, file: &str, text: &str, id: &Spanned<String>) {
        let here = format!("spec/{file}:{}", line_of(text, id.span().start));
        if let Some(first) = self.defined.get(id.get_ref()) {
            let message = format!("`{}` is already defined at {first}", id.get_ref());
            self.problem(file, text, &id.span(), message);
        } else {
            self.defined.insert(id.get_ref().clone(), here);
        }
    }

    fn known(&mut self, file: &str, text: &str, id: &str, span: &Range<usize>) {
        if !self.register.requirements.iter().any(|r| r.id == id) {
            self.problem(file, text, span, format!("no requirement `{id}`"));
        }
    }

    fn parse<T: DeserializeOwned>(&mut self, file: &str, text: &str) -> Option<T> {
        match toml::from_str(text) {
            Ok(value) => Some(value),
            Err(error) => {
                let span = error.span().unwrap_or(0..0);
                self.problem(file, text, &span, error.message().replace('\n', "; "));
                None
            }
        }
    }

    fn problem(&mut self, file: &str, text: &str, span: &Range<usize>, message: String) {
        let line = line_of(text, span.start);
        self.problems.push(Problem { file: file.into(), line, key: key_at(text, line), text: message });
    }
}

/// Line number, from 1, of a byte offset.
fn line_of(text: &str, offset: usize) -> usize {
    let upto = text.len().min(offset);
    1 + text.as_bytes()[..upto].iter().filter(|byte| **byte == b'\n').count()
}

/// The key of a `key = value` line.
fn key_at(text: &str, line: usize) -> Option<String> {
    let (key, _) = text.lines().nth(line.checked_sub(1)?)?.split_once('=')?;
    let key = key.trim();
    (!key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')).then(|| key.into())
}

/// `GROUP-NNN`: capitals and digits, a dash, three digits.
pub(crate) fn is_requirement_id(id: &str) -> bool {
    id.split_once('-').is_some_and(|(group, number)| {
        group.starts_with(|c: char| c.is_ascii_uppercase())
            && group.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
            && number.len() == 3
            && number.bytes().all(|b| b.is_ascii_digit())
    })
}

fn is_decision_id(id: &str) -> bool {
    id.strip_prefix("OQ-").is_some_and(|number| number.len() == 2 && number.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const GOOD: &str = "chapter = \"wire\"\n\
        [[requirement]]\nid = \"BTH-001\"\nsource = \"wire 4\"\nlevel = \"must\"\ncertainty = \"2+\"\n\
        status = \"implemented\"\nsummary = \"One.\"\n\
        [[requirement]]\nid = \"BTH-002\"\nsource = \"wire 4\"\nlevel = \"must\"\ncertainty = \"C\"\n\
        status = \"planned\"\nissue = 3\nknobs = [\"x\"]\nsummary = \"Two.\"\n";
    const DECISIONS: &str = "[[decision]]\nid = \"OQ-01\"\nquestion = \"q\"\ndecision = \"d\"\nwhy = \"w\"\n\
        impact = \"i\"\nknobs = []\nrequirements = [\"BTH-002\"]\n";

    pub(crate) fn load(wire: &str, decisions: &str, exceptions: &str) -> Result<Register, Vec<String>> {
        let files = [("requirements/wire.toml", wire), ("decisions.toml", decisions), ("exceptions.toml", exceptions)];
        let files = files.map(|(name, text)| (name.to_string(), text.to_string()));
        Register::from_texts(&BTreeMap::from(files))
            .map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    pub(crate) fn good() -> Register {
        load(GOOD, DECISIONS, "exception = []").expect("the sample register is sound")
    }

    fn refusal(wire: &str) -> String {
        load(wire, DECISIONS, "exception = []").expect_err("must be refused").join("\n")
    }

    #[test]
    fn sample_parses() {
        let register = good();
        assert_eq!(register.requirements.len(), 2);
        assert_eq!(register.requirements[1].issue, Some(3));
        assert_eq!(register.requirements[1].knobs, ["x"]);
    }

    #[test]
    fn wrong_value_names_file_line_and_key() {
        let text = refusal(&GOOD.replacen("level = \"must\"", "level = \"shall\"", 1));
        assert!(text.starts_with("spec/requirements/wire.toml:5: key `level`: unknown variant `shall`"), "{text}");
        assert!(text.contains("`must`"), "{text}");
    }

    #[test]
    fn unknown_key_names_file_line_and_key() {
        let text = refusal(&GOOD.replacen("summary", "sumary", 1));
        assert!(text.starts_with("spec/requirements/wire.toml:8: key `sumary`: unknown field `sumary`"), "{text}");
    }

    #[test]
    fn missing_key_is_named() {
        let text = refusal(&GOOD.replacen("certainty = \"2+\"\n", "", 1));
        assert!(text.starts_with("spec/requirements/wire.toml:2: missing field `certainty`"), "{text}");
    }

    #[test]
    fn syntax_error_names_file_and_line() {
        let text = refusal(&GOOD.replacen("id = \"BTH-001\"", "id = \"BTH-001", 1));
        assert!(text.starts_with("spec/requirements/wire.toml:3: key `id`: "), "{text}");
    }

    #[test]
    fn second_definition_names_both_places() {
        let text = refusal(&GOOD.replacen("BTH-002", "BTH-001", 1));
        let expected = "spec/requirements/wire.toml:10: key `id`: `BTH-001` is already defined at \
                        spec/requirements/wire.toml:3";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn records_are_consistent() {
        let cases = [
            ("BTH-001", "bth-1", ":3: key `id`: `bth-1` is no id"),
            ("\"wire 4\"", "\"paths 4\"", ":4: key `source`: starts with the chapter"),
            ("chapter = \"wire\"", "chapter = \"paths\"", ":1: key `chapter`: this file holds chapter `wire`"),
            ("\"implemented\"", "\"planned\"", ":7: key `status`: a planned record needs"),
            ("\"planned\"", "\"implemented\"", ":14: key `status`: an implemented record has no"),
            ("\"One.\"", "\"One\"", ":8: key `summary`: is a sentence"),
        ];
        for (from, to, expected) in cases {
            let text = refusal(&GOOD.replacen(from, to, 1));
            assert!(text.contains(expected), "{from} -> {to}: {text}");
        }
    }

    #[test]
    fn decisions_and_exceptions_name_known_requirements() {
        let stray = DECISIONS.replace("BTH-002", "BTH-009");
        let text = load(GOOD, &stray, "exception = []").expect_err("unknown id").join("\n");
        assert!(text.contains("spec/decisions.toml:8: key `requirements`: no requirement `BTH-009`"), "{text}");
        assert!(text.contains("BTH-002 has certainty \"C\" but no decision names it"), "{text}");

        let exception = "[[exception]]\nrequirement = \"X-001\"\nreason = \"r\"\neffect = \"e\"\nuntil = \"never\"\n";
        let text = load(GOOD, DECISIONS, exception).expect_err("unknown id").join("\n");
        assert!(text.contains("spec/exceptions.toml:2: key `requirement`: no requirement `X-001`"), "{text}");
    }

    #[test]
    fn missing_file_is_a_problem_without_line() {
        let problems = Register::load(Path::new("/nonexistent")).expect_err("nothing there");
        // One per chapter, decisions, exceptions.
        assert_eq!(problems.len(), Chapter::ALL.len() + 2);
        assert!(problems[0].to_string().starts_with("spec/requirements/wire.toml: cannot be read"), "{}", problems[0]);
    }
}
