//! `mrc sim schema`: the keys of scenario files, for people as a list, for editors and checkers as JSON Schema. Both
//! are made from the types that read the files.

use std::fmt::{self, Display, Write};
use std::process::ExitCode;

use crate::out::outln;
use crate::usage::usage;
use anyhow::anyhow;
use mrc_sim::scenario::{self, SchemaTable};
use serde_json::Value;

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
    let tables = scenario::tables(&schema);
    let wanted = |table: &&SchemaTable| args.table.as_ref().is_none_or(|name| *name == table.path);
    let mut found = tables.iter().filter(wanted).peekable();
    if found.peek().is_none() {
        let names: Vec<&str> = tables.iter().map(|table| table.path.as_str()).collect();
        let wanted = args.table.as_deref().unwrap_or_default();
        let there = names.join(", ");
        return Err(usage(anyhow!("no table is called `{wanted}`; there are {}", there.trim_start_matches(", "))));
    }
    for of in found {
        outln!("{}", Table { of, schema: &schema });
    }
    Ok(ExitCode::SUCCESS)
}

/// A table as it is printed.
struct Table<'a> {
    of: &'a SchemaTable<'a>,
    schema: &'a Value,
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

impl Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.of.path.as_str(), self.of.repeated) {
            ("", _) => writeln!(f, "## Before all tables\n")?,
            (path, false) => writeln!(f, "## `[{path}]`\n")?,
            (path, true) => writeln!(f, "## `[[{path}]]`\n")?,
        }
        let mut listed = Vec::new();
        for (key, value) in &self.of.keys {
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
        if self.of.path == "workload" {
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
        let value = scenario::resolve(self.schema, value);
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
        let of = scenario::resolve(self.schema, value).get("oneOf").and_then(Value::as_array);
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
        let tables = scenario::tables(&schema);
        let list: Vec<String> = tables.iter().map(|of| format!("\n{}", Table { of, schema: &schema })).collect();
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
