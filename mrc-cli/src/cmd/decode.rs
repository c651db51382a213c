//! `mrc decode`.

use std::process::ExitCode;

/// Arguments of `mrc decode`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: Args) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
