//! `mrc mapper`: finds the broken component of a fabric with probes.

use std::process::ExitCode;

use clap::Subcommand;

mod agent;
mod collect;
mod enforce;
mod host;
mod load;
mod packets;
mod score;
mod trial;
mod web;

/// Arguments of `mrc mapper`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mrc mapper score                    1000 random faults in a model: five algorithms in one table
  mrc mapper score --hours 24         also a day of virtual time without a fault
  mrc mapper score --faults 50 --json --seed 7
  mrc mapper score --packets 4        four minutes of such a day as packets in the simulator, beside the model
  mrc mapper agent --lab hA           probe the fabric made by `mrc lab up` from host A
  mrc mapper agent --lab hA --policy policy.toml --apply
                                      and deny planes of running devices as the policy says
  mrc mapper collect --db map.db      the map of all agents (`--collector`), with history and an HTTP API
  mrc mapper why p0-t0a-t1c           the evidence about a link
  mrc mapper web                      where the page of the collector is; --db shows a history without one
  mrc mapper policy                   the policy that holds without a file; checks files, too
  mrc mapper trial                    break every component of a fabric of its own; the map must name it")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Probe the fabric from one host and say what its probes show
    Agent(agent::Args),
    /// Keep the map of a fabric from what its agents tell, with history
    Collect(collect::Args),
    /// Ask the collector for state, history and evidence of a component
    Why(collect::WhyArgs),
    /// Show the fabric in a browser: live from the collector, or a history that it wrote
    Web(web::Args),
    /// Play many agents, to see what a collector can bear
    Load(load::Args),
    /// Check a policy, and say what it would deny
    Policy(enforce::Args),
    /// Break every component of a lab fabric in turn and check what the mapper says
    Trial(trial::Args),
    /// Compare localisation algorithms on random faults in a model of a fabric
    Score(score::Args),
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.action {
        Action::Agent(args) => agent::run(&args),
        Action::Collect(args) => collect::run(&args),
        Action::Why(args) => collect::why(&args),
        Action::Web(args) => web::run(&args),
        Action::Load(args) => load::run(&args),
        Action::Policy(args) => enforce::run(&args),
        Action::Trial(args) => trial::run(&args),
        Action::Score(args) => score::run(&args),
    }
}
