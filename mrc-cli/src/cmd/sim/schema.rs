//! `mrc sim schema`: the keys of scenario files, for people as a list, for editors and checkers as JSON Schema. Both
//! are made from the types that read the files.

use std::fmt::{self, Display, Write};
use std::process::ExitCode;

use crate::out::outln;
use crate::usage::usage;
use anyhow::anyhow;
use mrc_sim::scenario;
use serde_json::{Map, Value};

/// Arguments of `mrc sim schema`.
#[derive(clap::Args)]
#[command(after_help = "\
An editor that knows JSON Schema for TOML completes and checks scenario files:

  mrc sim schema --json > scenario.schema.json
  # in the first line of a scenario:  #:schema scenario.schema.json")]
pub struct Args {
    /// Only this table: topology, queue, transport.mrc, workload ...
    #[arg(conflicts_with = "json")]
    table: Option<String>,
    /// Print the JSON Schema (draft 2020-12)
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let schema = scenario::schema();
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&schema)?);
        return Ok(ExitCode::SUCCESS);
    }
    let tables = tables(&schema);
    let wanted = |table: &&Table| args.table.as_ref().is_none_or(|name| *name == table.path);
    let mut found = tables.iter().filter(wanted).peekable();
    if found.peek().is_none() {
        let names: Vec<&str> = tables.iter().map(|table| table.path.as_str()).collect();
        let wanted = args.table.as_deref().unwrap_or_default();
        let there = names.join(", ");
        return Err(usage(anyhow!("no table is called `{wanted}`; there are {}", there.trim_start_matches(", "))));
    }
    for table in found {
        outln!("{table}");
    }
    Ok(ExitCode::SUCCESS)
}

/// A table of a scenario file.
struct Table<'a> {
    /// `topology`, `transport.mrc`; empty for the keys before all tables.
    path: String,
    /// Whether there may be several, `[[workload]]`.
    repeated: bool,
    keys: Vec<(&'a str, &'a Value)>,
    schema: &'a Value,
}

/// All tables, each before those in it.
fn tables(schema: &Value) -> Vec<Table<'_>> {
    let mut tables = Vec::new();
    collect(schema, schema, String::new(), false, &mut tables);
    tables
}

fn collect<'a>(schema: &'a Value, table: &'a Value, path: String, repeated: bool, into: &mut Vec<Table<'a>>) {
    let place = into.len();
    let mut keys = Vec::new();
    into.push(Table { path: path.clone(), repeated, keys: Vec::new(), schema });
    for (key, value) in properties(table) {
        let of_items = value.get("items").map(|items| resolve(schema, items));
        let (inner, several) = of_items.map_or((resolve(schema, value), false), |items| (items, true));
        if inner.get("properties").is_some() {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            collect(schema, inner, path, several, into);
        } else {
            keys.push((key.as_str(), value));
        }
    }
    into[place].keys = keys;
}

fn properties(table: &Value) -> impl Iterator<Item = (&String, &Value)> {
    table.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// What a `$ref` stands for.
fn resolve<'a>(schema: &'a Value, value: &'a Value) -> &'a Value {
    let name = value.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix("#/$defs/"));
    name.and_then(|name| schema.get("$defs")?.get(name)).unwrap_or(value)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

impl Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.path.as_str(), self.repeated) {
            ("", _) => writeln!(f, "## Before all tables\n")?,
            (path, false) => writeln!(f, "## `[{path}]`\n")?,
            (path, true) => writeln!(f, "## `[[{path}]]`\n")?,
        }
        let mut listed = Vec::new();
        for (key, value) in &self.keys {
            let mut kind = self.kind(value);
            if let Some(default) = value.get("default") {
                write!(kind, ", default `{default}`")?;
            }
            writeln!(f, "* `{key}` ({kind}): {}", line(text(value, "description")))?;
            let choices = self.choices(value);
            if listed.contains(&choices) {
                continue;
            }
            for (choice, meaning) in &choices {
                writeln!(f, "  * `{choice}`: {}", line(meaning))?;
            }
            listed.push(choices);
        }
        if self.path == "workload" {
            writeln!(f, "\nBeside `kind`, `name` and `job` a workload takes, by its kind:\n")?;
            for (kind, keys) in scenario::keys_by_kind() {
                writeln!(f, "* `{kind}`: {}", keys.join(", "))?;
            }
        }
        Ok(())
    }
}

impl Table<'_> {
    /// The type of a key.
    fn kind(&self, value: &Value) -> String {
        let value = resolve(self.schema, value);
        match text(value, "type") {
            "array" if value.get("prefixItems").is_some() => "list".to_owned(),
            "array" => value.get("items").map_or("list".to_owned(), |items| match text(items, "type") {
                "array" => "list of pairs".to_owned(),
                _ => format!("list of {}s", self.kind(items)),
            }),
            "" if value.get("oneOf").is_some() => "word".to_owned(),
            "boolean" => "true or false".to_owned(),
            "object" => "table of numbers".to_owned(),
            kind => kind.to_owned(),
        }
    }

    /// The words that a key may hold, with their meanings.
    fn choices<'a>(&'a self, value: &'a Value) -> Vec<(String, &'a str)> {
        let of = resolve(self.schema, value).get("oneOf").and_then(Value::as_array);
        let word = |choice: &Value| choice.get("const").and_then(Value::as_str).map(str::to_owned);
        of.into_iter().flatten().filter_map(|choice| Some((word(choice)?, text(choice, "description")))).collect()
    }
}

/// Prose of the source on one line; its links to the source mean nothing here.
fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.find(", see [`") {
        Some(end) => format!("{}.", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/scenarios.md");

    /// `MRC_WRITE_DOCS=1 cargo test -p mrc-transport schema` writes the list into the guide.
    #[test]
    fn the_guide_lists_the_keys_as_they_are() {
        let guide = std::fs::read_to_string(GUIDE).expect("docs/scenarios.md");
        let mark = "<!-- keys: from `mrc sim schema` -->\n";
        let (before, listed) = guide.split_once(mark).expect("the mark before the list");
        let schema = scenario::schema();
        let list: Vec<String> = tables(&schema).iter().map(|table| format!("\n{table}")).collect();
        if std::env::var_os("MRC_WRITE_DOCS").is_some() {
            std::fs::write(GUIDE, format!("{before}{mark}{}", list.concat())).expect("writable");
            return;
        }
        assert_eq!(listed, list.concat(), "run MRC_WRITE_DOCS=1 cargo test -p mrc-transport schema");
    }

    #[test]
    fn the_scenario_of_the_guide_can_be_run() {
        let guide = std::fs::read_to_string(GUIDE).expect("docs/scenarios.md");
        let (_, rest) = guide.split_once("```toml\n").expect("a scenario");
        let (text, _) = rest.split_once("```").expect("its end");
        let built = scenario::load_str("mine.toml", text, std::path::Path::new("."), &[], None);
        assert_eq!(built.map(|built| built.scenario.name).map_err(|error| error.to_string()), Ok("mine".to_owned()));
    }
}
