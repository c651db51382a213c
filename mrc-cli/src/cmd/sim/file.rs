//! `mrc sim new` and `mrc sim check`: a first scenario to change, and whether a file can be run, without running it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{anyhow, bail, ensure};
use mrc_sim::scenario::Built;

use super::ready::Source;
use super::{sweep, tune};
use crate::out::outln;
use crate::usage::usage;

/// What `mrc sim new` writes.
const TEMPLATE: &str = include_str!("template.toml");

/// Arguments of `mrc sim new`.
#[derive(clap::Args)]
pub struct NewArgs {
    /// File to write, such as mine.toml; one that exists is kept
    file: PathBuf,
}

/// Arguments of `mrc sim check`.
#[derive(clap::Args)]
pub struct CheckArgs {
    /// Scenarios, sweeps or tuning files, or names of ready ones; - is standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Change a key of the scenarios, as `mrc sim run` does
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// Writes a scenario to begin with.
pub fn new(args: &NewArgs) -> anyhow::Result<ExitCode> {
    let file = args.file.display();
    ensure_new(&args.file).map_err(usage)?;
    super::keep(&args.file, first_text(&args.file))?;
    outln!("{file}: `mrc sim run {file}` runs it, `mrc sim schema` lists what else it may say");
    Ok(ExitCode::SUCCESS)
}

/// The scenario that [`new`] writes into a file of this name.
fn first_text(file: &Path) -> String {
    let no_name = |c: char| c.is_control() || matches!(c, '"' | '\\');
    let name = file.file_stem().unwrap_or_default().to_string_lossy().replace(no_name, "");
    TEMPLATE.replacen("name = \"mine\"", &format!("name = \"{name}\""), 1)
}

fn ensure_new(file: &Path) -> anyhow::Result<()> {
    ensure!(!file.exists(), "{} exists: choose another name", file.display());
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        bail!("cannot write {}: {} is no folder", file.display(), folder.display());
    }
    Ok(())
}

/// Says of each file what it would run; fails with the first that cannot be.
pub fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    for name in &args.files {
        let source = Source::find(name).map_err(usage)?;
        let (sweep, tuning) = (source.is_sweep(), source.is_tuning());
        if (sweep || tuning) && !args.set.is_empty() {
            let kind = if sweep { "a sweep, whose" } else { "a tuning file, whose sides'" };
            return Err(usage(anyhow!("--set: {} is {kind} `set` says what changes", name.display())));
        }
        let about = match (sweep, tuning) {
            (true, _) => sweep::about(&source, true).map_err(usage)?,
            (_, true) => tune::about(&source).map_err(usage)?,
            _ => describe(&source.load(&args.set, None).map_err(usage)?),
        };
        outln!("{}: {about}", name.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// What a scenario is, in a line.
fn describe(built: &Built) -> String {
    let some = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let sent = built.plan.messages.iter().filter(|message| !message.is_compute()).count() as u64;
    let parts = [
        some(built.topology.hosts().into(), "host"),
        some(built.topology.switch_count().into(), "switch").replace("switchs", "switches"),
        built.transport_names(),
        format!("{} of {:.3} MB in all", some(sent, "message"), built.plan.bytes() as f64 / 1e6),
        some(built.pairs.len() as u64, "pair"),
        some(built.faults.len() as u64, "change") + " by faults",
        some(built.partition.parts() as u64, "part"),
    ];
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_scenario_can_be_read_whatever_its_file_is_called() {
        for (file, name) in
            [("mine.toml", "mine"), ("a \"b\\ \u{fc}'.toml", "a b \u{fc}'"), ("a\nb\t\u{7f}.toml", "ab")]
        {
            let text: toml::Table = toml::from_str(&first_text(Path::new(file))).unwrap();
            assert_eq!(text["name"].as_str(), Some(name), "{file:?}");
        }
    }
}
