//! `mrc mapper`: finds the broken component of a fabric with probes.

use std::process::ExitCode;

use clap::Subcommand;

mod score;

/// Arguments of `mrc mapper`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mrc mapper score                    1000 random faults in a model: five algorithms in one table
  mrc mapper score --hours 24         also a day of virtual time without a fault
  mrc mapper score --faults 50 --json --seed 7")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Compare localisation algorithms on random faults in a model of a fabric
    Score(score::Args),
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.action {
        Action::Score(args) => score::run(&args),
    }
}
