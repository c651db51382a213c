//! From text to a [`Scenario`]: TOML, the preset under it, `--set` over it, and errors that name file, line and key.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Table;
use toml::de::{DeTable, DeValue};

use super::schema::{homes, shapes, words};
use super::traffic::Extent;
use super::{Built, JobTransportKey, PARITY, Scenario, SelectorKey, TransportKind, mrc};

/// Something about a scenario that cannot be, found after its keys were read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The key at fault: `topology.t0`, `workload[1].bytes`.
    pub key: String,
    /// What is wrong with it, and what is allowed.
    pub message: String,
}

impl Problem {
    /// A problem with `key`.
    pub fn new(key: impl Into<String>, message: impl fmt::Display) -> Self {
        Self { key: key.into(), message: message.to_string() }
    }
}

/// A scenario that cannot be run, and where that is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScenarioError {
    /// The file, or `--set`.
    pub file: String,
    /// Line, from 1, where the file has one for it.
    pub line: Option<usize>,
    /// The key, where one is at fault.
    pub key: String,
    /// What is wrong, and what is allowed.
    pub message: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ScenarioError {}

/// Reads a scenario file with changes from the command line (`key=value`), and builds what it describes.
///
/// # Errors
/// A file that cannot be read, a key or value that is not allowed, or a scenario that cannot be.
pub fn load(path: &Path, set: &[String], seed: Option<u64>) -> Result<Built, ScenarioError> {
    read(path, set, seed, Extent::Whole)
}

fn read(path: &Path, set: &[String], seed: Option<u64>, extent: Extent) -> Result<Built, ScenarioError> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| ScenarioError {
        file: file.clone(),
        line: None,
        key: String::new(),
        message: error.to_string(),
    })?;
    build(&file, &text, path.parent().unwrap_or(Path::new(".")), (set, seed), extent)
}

/// Whether a scenario can run, as [`load`] would say, but without laying out more than one repetition of a collective: for
/// many scenarios at once.
///
/// # Errors
/// As [`load`].
pub fn check(path: &Path, set: &[String], seed: Option<u64>) -> Result<(), ScenarioError> {
    read(path, set, seed, Extent::OneRepetition).map(drop)
}

/// As [`load`], from text; `folder` is where trace files are looked for.
///
/// # Errors
/// As [`load`].
pub fn load_str(
    file: &str,
    text: &str,
    folder: &Path,
    set: &[String],
    seed: Option<u64>,
) -> Result<Built, ScenarioError> {
    build(file, text, folder, (set, seed), Extent::Whole)
}

/// As [`check`], from text.
///
/// # Errors
/// As [`load`].
pub fn check_str(
    file: &str,
    text: &str,
    folder: &Path,
    set: &[String],
    seed: Option<u64>,
) -> Result<(), ScenarioError> {
    build(file, text, folder, (set, seed), Extent::OneRepetition).map(drop)
}

fn build(
    file: &str,
    text: &str,
    folder: &Path,
    (set, seed): (&[String], Option<u64>),
    extent: Extent,
) -> Result<Built, ScenarioError> {
    let source = Source { file, text };
    let mut table: Table = toml::from_str(text).map_err(|error| source.parse_error(&error))?;
    tables_where_they_belong(&table).map_err(|problem| source.locate(&problem, &[]))?;
    // The file alone first: serde then knows the place of every mistake.
    let alone: Scenario = toml::from_str(text).map_err(|error| source.parse_error(&error))?;
    let mut changed = Vec::new();
    for change in set {
        changed.push(apply(&mut table, change)?);
    }
    tables_where_they_belong(&table).map_err(|problem| source.locate(&problem, &changed))?;
    let preset = table.get("preset").and_then(|value| value.as_str()).unwrap_or(&alone.preset).to_owned();
    match preset.as_str() {
        "mrc" => {}
        "parity" => {
            let mut base: Table = toml::from_str(PARITY).expect("the built-in preset is TOML");
            merge(&mut base, table);
            table = base;
        }
        other => {
            let problem = Problem::new("preset", format_args!("`{other}` is none; allowed: mrc, parity"));
            return Err(source.locate(&problem, &changed));
        }
    }
    let mut scenario = Scenario::deserialize(table).map_err(|error| ScenarioError {
        // The file alone may lack what a change completes, and its reader lets pass a list that is too long.
        file: if changed.is_empty() { file } else { "--set" }.to_owned(),
        line: None,
        key: changed.join(", "),
        message: plain_types(error.message(), changed.first().filter(|_| changed.len() == 1)),
    })?;
    scenario.seed = seed.unwrap_or(scenario.seed);
    // A file may hold both tables, for comparisons; who changes a key wants to see what it does.
    let of_jobs = scenario.job.iter().filter_map(|job| match job.transport {
        Some(JobTransportKey::Kind(kind)) => Some(kind),
        _ => None,
    });
    let spoken: Vec<TransportKind> = of_jobs.chain([scenario.transport.kind]).collect();
    // The knobs of selectors stand in one place.
    let with_selector =
        spoken.contains(&TransportKind::Roce) && scenario.transport.roce.selector != SelectorKey::Single;
    let effect = |key: &str| match key.strip_prefix("transport.").and_then(|key| key.split_once('.')) {
        Some(("mrc", key)) => spoken.contains(&TransportKind::Mrc) || with_selector && mrc::selects(key),
        Some(("roce", _)) => spoken.contains(&TransportKind::Roce),
        Some(("params", _)) => spoken.iter().any(|kind| matches!(kind, TransportKind::Named(_))),
        _ => true,
    };
    if let Some(key) = changed.iter().find(|key| !effect(key)) {
        let kind = scenario.transport.kind.name();
        let message = format!("has no effect: transport.kind is \"{kind}\"");
        return Err(ScenarioError { file: "--set".to_owned(), line: None, key: key.clone(), message });
    }
    let folder: PathBuf = folder.to_owned();
    Built::new(scenario, &folder, extent).map_err(|problem| source.locate(&problem, &changed))
}

/// Writes one `key=value` into a table and returns the key.
fn apply(table: &mut Table, change: &str) -> Result<String, ScenarioError> {
    let refuse =
        |message: String| ScenarioError { file: "--set".to_owned(), line: None, key: change.to_owned(), message };
    let (key, value) =
        change.split_once('=').ok_or_else(|| refuse("write key=value, such as queue.trim=false".to_owned()))?;
    let (key, value) = (key.trim(), value.trim());
    // What is no TOML value is a string: names need no quotes.
    let parsed = toml::from_str::<Table>(&format!("value = {value}")).ok().and_then(|mut table| table.remove("value"));
    let value = parsed.unwrap_or_else(|| toml::Value::String(value.to_owned()));
    let path: Vec<&str> = key.split(['.', '[', ']']).filter(|part| !part.is_empty()).collect();
    let (last, way) = path.split_last().ok_or_else(|| refuse("the key is empty".to_owned()))?;
    let mut at = &mut *table;
    let mut parts = way.iter().peekable();
    while let Some(part) = parts.next() {
        if !at.contains_key(*part) && parts.peek().copied().unwrap_or(last).parse::<usize>().is_ok() {
            return Err(refuse(format!("`{part}` is a list of 0: the file needs a [[{part}]] first")));
        }
        let entry = at.entry((*part).to_owned()).or_insert_with(|| toml::Value::Table(Table::new()));
        at = match entry {
            toml::Value::Table(inner) => inner,
            toml::Value::Array(items) => {
                let len = items.len();
                let index = parts.next().and_then(|part| part.parse::<usize>().ok());
                let item = index.and_then(|index| items.get_mut(index)).and_then(toml::Value::as_table_mut);
                item.ok_or_else(|| refuse(format!("`{part}` is a list of {len}: name one, such as {part}.0.{last}")))?
            }
            _ => return Err(refuse(format!("`{part}` is no table"))),
        };
    }
    at.insert((*last).to_owned(), value);
    Ok(key.to_owned())
}

/// Whether tables are tables, and lists of them such lists. Serde takes a list for a table, too: its items for the values of the keys
/// in their order.
fn tables_where_they_belong(file: &Table) -> Result<(), Problem> {
    for (path, repeated) in shapes() {
        let (last, way) = path.rsplit_once('.').map_or((path.as_str(), None), |(way, last)| (last, Some(way)));
        let within = way.map_or(Some(file), |way| file.get(way).and_then(toml::Value::as_table));
        let Some(value) = within.and_then(|table| table.get(last)) else { continue };
        // What is neither serde names well.
        let wrong = match value {
            toml::Value::Array(items) => !repeated || !items.iter().all(toml::Value::is_table),
            toml::Value::Table(_) => *repeated,
            _ => false,
        };
        match (wrong, repeated) {
            (false, _) => {}
            (true, true) => return Err(Problem::new(path, format_args!("a list of tables: write [[{path}]]"))),
            (true, false) => return Err(Problem::new(path, format_args!("there is one such table: write [{path}]"))),
        }
    }
    Ok(())
}

/// Puts `over` on top of `base`, table by table.
fn merge(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) => merge(below, above),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// A message of the parser about a key, where that is known, without the names that Rust has for types.
fn plain_types(message: &str, key: Option<&String>) -> String {
    let mut text = message.replace('\n', " ").replace("` as i128", "`");
    // Of what is no text where a word must stand the parser says neither this nor which words there are.
    if text == "wanted string or table" || text.ends_with("unit variant, expected string only") {
        let words: Vec<String> =
            key.map_or(Vec::new(), |key| words(key)).iter().map(|word| format!("`{word}`")).collect();
        let of = if words.is_empty() { String::new() } else { format!(", one of {}", words.join(", ")) };
        return format!("expected a word in quotes{of}");
    }
    // What TOML itself cannot hold.
    text = text.replace("u64 value was too large", "an integer of a TOML file is at most 9223372036854775807");
    for (name, plain) in [
        ("u8", "a whole number, 0 to 255"),
        ("u16", "a whole number, 0 to 65535"),
        ("u32", "a whole number, 0 to 4294967295"),
        ("u64", "a whole number from 0 on"),
        ("f64", "a number"),
        ("a boolean", "true or false"),
        ("a sequence", "a list"),
    ] {
        if let Some(start) = text.strip_suffix(&format!("expected {name}")) {
            text = format!("{start}expected {plain}");
        }
    }
    suggestion(&text).unwrap_or(text)
}

/// A message about an unknown key or word: with the tables that have this key, or the nearest name that is known. As many names as
/// `[transport.mrc]` has are not listed.
fn suggestion(text: &str) -> Option<String> {
    const MOST_LISTED: usize = 24;
    let is_key = text.contains("unknown field `");
    let (_, rest) = text.split_once("unknown field `").or_else(|| text.split_once("unknown variant `"))?;
    let (wrong, list) = rest.split_once("`, expected ")?;
    let known = || list.split('`').skip(1).step_by(2);
    let homes = if is_key { homes(wrong) } else { Vec::new() };
    let hint = match nearest(wrong, known()) {
        _ if !homes.is_empty() => Some(format!("it stands {}", homes.join(", "))),
        near => near.map(|name| format!("did you mean `{name}`?")),
    };
    if known().count() <= MOST_LISTED {
        return hint.map(|hint| format!("{text}; {hint}"));
    }
    let hint = hint.unwrap_or_else(|| format!("`mrc sim schema` lists the {} that there are", known().count()));
    Some(format!("{}; {hint}", text.strip_suffix(&format!(", expected {list}"))?))
}

/// The name most like `wrong`, if one is like it: at most a third of its letters differ.
pub fn nearest<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Who writes MRC means `mrc`. Of names that then are equally near the one with fewer letters of another case.
    let lower = wrong.to_lowercase();
    let unlike = |name: &str| (strsim::osa_distance(&lower, &name.to_lowercase()), strsim::osa_distance(wrong, name));
    let ((letters, _), name) = known.map(|name| (unlike(name), name)).min()?;
    (letters <= (wrong.chars().count() / 3).max(1)).then_some(name)
}

struct Source<'a> {
    file: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn line_of(&self, byte: usize) -> usize {
        self.text.as_bytes().iter().take(byte).filter(|&&byte| byte == b'\n').count() + 1
    }

    fn parse_error(&self, error: &toml::de::Error) -> ScenarioError {
        let span = error.span();
        let line = span.as_ref().map(|span| self.line_of(span.start));
        let key = line.map(|line| self.key_at(line)).unwrap_or_default();
        let message = plain_types(error.message(), Some(&key));
        ScenarioError { file: self.file.to_owned(), line, key, message }
    }

    /// The key that a line sets: what stands before the first `=`, below the header above it; or that header itself.
    fn key_at(&self, line: usize) -> String {
        let header = |line: &str| line.trim_start().starts_with('[').then(|| line.trim().to_owned());
        let lines: Vec<&str> = self.text.lines().take(line).collect();
        let Some((last, above)) = lines.split_last() else { return String::new() };
        // A table within an item of a list: `[job.transport]` is `job[1].transport` behind the second `[[job]]`.
        let name = |header: &str| {
            let name = header.trim_matches(|c| c == '[' || c == ']').trim();
            let Some((list, rest)) = name.split_once('.') else { return name.to_owned() };
            match above.iter().filter(|line| line.trim() == format!("[[{list}]]")).count() {
                0 => name.to_owned(),
                items => format!("{list}[{}].{rest}", items - 1),
            }
        };
        if let Some(header) = header(last) {
            return name(&header);
        }
        let key = last.split('=').next().unwrap_or_default().trim();
        let Some(table) = above.iter().rev().find_map(|line| header(line)) else { return key.to_owned() };
        let of_list = table.starts_with("[[");
        let nth = above.iter().filter_map(|line| header(line)).filter(|other| *other == table).count() - 1;
        let table = name(&table);
        if of_list { format!("{table}[{nth}].{key}") } else { format!("{table}.{key}") }
    }

    /// Finds the line of a problem's key.
    fn locate(&self, problem: &Problem, changed: &[String]) -> ScenarioError {
        let plain = |key: &str| key.replace('[', ".").replace(']', "");
        let from_set = changed.iter().any(|key| plain(key) == plain(&problem.key));
        let line = (!from_set).then(|| self.find(&plain(&problem.key))).flatten();
        ScenarioError {
            file: if from_set { "--set".to_owned() } else { self.file.to_owned() },
            line,
            key: problem.key.clone(),
            message: problem.message.clone(),
        }
    }

    /// Line of a key, or of the innermost table on the way to it.
    fn find(&self, key: &str) -> Option<usize> {
        let root = DeTable::parse(self.text).ok()?;
        let mut line = None;
        let mut parts = key.split('.');
        let mut table = root.get_ref();
        while let Some(part) = parts.next() {
            let Some((name, mut value)) = table.iter().find(|(name, _)| name.get_ref().as_ref() == part) else {
                break;
            };
            line = Some(self.line_of(name.span().start));
            if let DeValue::Array(items) = value.get_ref() {
                let Some(item) =
                    parts.next().and_then(|part| part.parse::<usize>().ok()).and_then(|nth| items.get(nth))
                else {
                    break;
                };
                line = Some(self.line_of(item.span().start));
                value = item;
            }
            match value.get_ref() {
                DeValue::Table(inner) => table = inner,
                _ => break,
            }
        }
        line
    }
}
