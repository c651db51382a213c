//! One module per command: `Args` says what the user may ask, `run` does it.

use std::process::ExitCode;

use clap::Subcommand;

pub mod completions;
pub mod conform;
pub mod control;
pub mod decode;
pub mod demo;
pub mod dissector;
pub mod doctor;
pub mod lab;
pub mod man;
pub mod mapper;
pub mod metrics;
pub mod sim;
pub mod stats;
pub mod top;
pub mod vectors;
pub mod verbs_run;
pub mod write_bw;
pub mod write_lat;

/// What `mrc` can do.
#[derive(Subcommand)]
pub enum Command {
    /// Show it: a real transfer through a real SRv6 fabric, a link cut in the middle
    Demo(demo::Args),
    /// Play the conformance scripts against an MRC endpoint, or be the endpoint
    Conform(conform::Args),
    /// Ask running devices for states and events, and give them denylists
    Control(control::Args),
    /// Print packets from a capture or from hex, one line each
    Decode(decode::Args),
    /// Print the Wireshark dissector of MRC
    Dissector(dissector::Args),
    /// Check what this machine offers and how to cure what is missing
    Doctor(doctor::Args),
    /// Build, break and heal a multi-plane SRv6 fabric on this machine
    Lab(lab::Args),
    /// Find the broken link or switch of a fabric with probes
    Mapper(mapper::Args),
    /// Print or serve the counters of all devices as OpenMetrics
    Metrics(metrics::Args),
    /// Simulate fabrics: scenarios from files, results as data
    Sim(sim::Args),
    /// Show what the engines of running programs have counted
    Stats(stats::Args),
    /// Watch devices, planes, queue pairs and events live
    Top(top::Args),
    /// Run a program written for RDMA hardware over our libibverbs
    VerbsRun(verbs_run::Args),
    /// Write golden packets and traces for hardware test benches
    Vectors(vectors::Args),
    /// Measure write bandwidth between two hosts
    WriteBw(write_bw::Args),
    /// Measure write latency between two hosts
    WriteLat(write_lat::Args),
    /// Print the completion script of a shell
    Completions(completions::Args),
    /// Write the manual pages of all commands
    Man(man::Args),
}

/// Runs one command; the exit code is the command's verdict, an error is a failure to try.
pub fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Demo(args) => demo::run(args),
        Command::Conform(args) => conform::run(args),
        Command::Control(args) => control::run(args),
        Command::Decode(args) => decode::run(args),
        Command::Dissector(args) => dissector::run(&args),
        Command::Doctor(args) => doctor::run(args),
        Command::Lab(args) => lab::run(args),
        Command::Mapper(args) => mapper::run(args),
        Command::Metrics(args) => metrics::run(&args),
        Command::Sim(args) => sim::run(args),
        Command::Stats(args) => stats::run(args),
        Command::Top(args) => top::run(&args),
        Command::VerbsRun(args) => verbs_run::run(args),
        Command::Vectors(args) => vectors::run(args),
        Command::WriteBw(args) => write_bw::run(args),
        Command::WriteLat(args) => write_lat::run(args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}
