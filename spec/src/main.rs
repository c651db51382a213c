//! The `spec` program: the requirement register, who cites it, and what is still missing.
//!
//! Owns the command line only. `register` reads `requirements/*.toml`, `decisions.toml` and `exceptions.toml`;
//! `language` checks pages for plain English in the tests. `citation` finds `//= ID` lines in the tree; `coverage` joins the two. `spec/README.md` explains ids and levels.

#![forbid(unsafe_code)]

#[path = "../../mrc-conform/src/certainty.rs"]
#[allow(unreachable_pub, dead_code, reason = "the library of the scripts shows it")]
mod certainty;
mod citation;
mod coverage;
#[cfg(test)]
mod language;
mod register;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Parser, Subcommand};

use crate::citation::Scan;
use crate::coverage::Coverage;
use crate::register::{Chapter, Register};

const TEACH: &str = "\
A requirement has an id such as SACK-004 and lives in spec/requirements/<chapter>.toml.
Code that obeys it carries `//= SACK-004` on the line above, a test that would notice a
breach carries `//= SACK-004 test`; several ids are separated by commas. A conformance
script cites by its title line, `# SACK-004: what it shows`.

Examples:
  cargo run -p spec -- report                what is cited, per chapter, and which musts are not
  cargo run -p spec -- report --chapter wire --all
  cargo run -p spec -- show SACK-004         one record, its decisions and everything that cites it
  cargo run -p spec -- check --strict        fail when an implemented must lacks code or test";

/// Requirement register of the MRC reference and its coverage report.
#[derive(Parser)]
#[command(name = "spec", version, after_help = TEACH)]
struct Cli {
    /// Root of the source tree to read.
    #[arg(long, global = true, value_name = "DIR", default_value_os_t = default_root(), hide_default_value = true)]
    root: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print totals per chapter and the musts that lack code or test.
    #[command(after_help = "\
Columns: `implemented` counts records cited by code, `tested` those cited by a test, `planned` those a later issue
will bring, `uncited` the musts that lack code or test. A second table counts how well the records are known: two
independent sources agree, one source, our own decision, sources that conflict. With --json one object is printed:
requirements, must, implemented, tested, planned, certainty (by tag), uncited (ids), missing (what each lacks), chapters.")]
    Report {
        /// Print one JSON object instead of tables.
        #[arg(long)]
        json: bool,
        /// List uncited musts that are only planned, too.
        #[arg(long)]
        all: bool,
        /// Look at one chapter only.
        #[arg(long, value_enum)]
        chapter: Option<Chapter>,
    },
    /// Fail on a broken register, unknown or malformed citations and, with --strict, on uncited musts.
    Check {
        /// Treat an implemented `must` without code or test as an error instead of a warning.
        #[arg(long)]
        strict: bool,
    },
    /// Print one record, the decisions behind it and the places that cite it.
    Show {
        /// Requirement or decision id, such as SACK-004 or OQ-04.
        id: String,
    },
}

/// The workspace this program was built from.
fn default_root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("spec: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let register = match Register::load(&cli.root.join("spec")) {
        Ok(register) => register,
        Err(problems) => {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            bail!("the register is broken:\n{}", lines.join("\n"));
        }
    };
    let scan = Scan::of_tree(&cli.root)
        .with_context(|| format!("cannot read the tree below {}; is --root right?", cli.root.display()))?;
    let coverage = Coverage::new(&register, &scan);
    match &cli.command {
        Command::Report { json: true, chapter, .. } => {
            print(&format!("{:#}\n", coverage.json(*chapter)))?;
        }
        Command::Report { json: false, all, chapter } => print(&coverage.table(*chapter, *all))?,
        Command::Check { strict } => {
            let verdict = coverage.check(*strict);
            print(&verdict.text)?;
            if !verdict.ok {
                return Ok(ExitCode::FAILURE);
            }
        }
        Command::Show { id } => match coverage.show(id) {
            Some(text) => print(&text)?,
            None => bail!("no requirement or decision `{id}`; `spec report --all` lists ids"),
        },
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes to stdout; a reader that went away (`| head`) is no error.
fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot write to stdout"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::register::Certainty;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// The register of this very tree parses, is free of duplicates, and nobody cites an id it does not have.
    #[test]
    fn real_register_and_tree_agree() {
        let root = default_root();
        let register = Register::load(&root.join("spec")).unwrap_or_else(|problems| {
            panic!("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
        });
        assert!(register.requirements.len() >= 250, "{} requirements", register.requirements.len());
        assert!(register.decisions.len() >= 45, "{} decisions", register.decisions.len());
        let scan = Scan::of_tree(&root).expect("the tree is readable");
        let verdict = Coverage::new(&register, &scan).check(false);
        assert!(verdict.ok, "{}", verdict.text);
    }

    /// The README says on what the rules rest; the numbers are those of the register.
    #[test]
    fn the_readme_counts_as_the_register_does() {
        let root = default_root();
        let register = Register::load(&root.join("spec")).expect("sound");
        let readme = std::fs::read_to_string(root.join("README.md")).expect("readable");
        let words: String = readme.split_whitespace().collect::<Vec<_>>().join(" ");
        let count = |certainty| register.requirements.iter().filter(|r| r.certainty == certainty).count();
        let says = format!(
            "{} of {} rules on sources that agree, {} on one source, {} on a choice between sources that conflict, {} on our \
             own decision",
            count(Certainty::Agreed),
            register.requirements.len(),
            count(Certainty::Single),
            count(Certainty::Conflict),
            count(Certainty::Decision),
        );
        assert!(words.contains(&says), "README.md should say: {says}");
    }
}
