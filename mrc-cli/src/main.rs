//! The `mrc` program: argument parsing and dispatch only; each command lives in `cmd/`.
#![forbid(unsafe_code)]
// `println!` and its like panic where nobody reads or the disk is full: `out` has others.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]
#![allow(unreachable_pub)] // a binary has no public API; `pub` marks the doors between its modules

mod cmd;
mod color;
mod conform;
mod congestion;
mod content;
mod demo;
mod handshake;
mod http;
mod interrupt;
mod lines;
mod load;
mod out;
mod refused;
mod selector;
mod session;
mod silent;
mod tcp;
mod transfer;
mod trial;
mod usage;
mod watch;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser};

/// MRC (Multipath Reliable Connection) in software: RDMA writes over many paths and planes.
#[derive(Parser)]
#[command(
    name = "mrc",
    version = env!("MRC_VERSION"),
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "\
Exit codes of every command: 0 done; 1 what was asked failed; 2 wrong usage or configuration; 3 not possible on this
machine or without more rights (`mrc doctor` names the cure); 4 a simulation that its limits ended; 130 interrupted."
)]
struct Cli {
    /// When output has colours
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    color: color::When,
    #[command(subcommand)]
    command: cmd::Command,
}

fn main() -> ExitCode {
    // Nobody reads what cannot be written.
    mrc_verbs_shim::logging::start("mrc", |line| drop(writeln!(std::io::stderr(), "{line}")));
    let help = color::When::of(std::env::args_os().map(|arg| arg.to_string_lossy().into_owned())).of_help();
    let matches = Cli::command().color(help).get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    cli.color.set();
    match cmd::run(cli.command) {
        Ok(code) => match out::lost() {
            None => code,
            Some(error) => {
                out::errln!("mrc: cannot write to standard output: {error}");
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            out::errln!("mrc: {}", chain(&error));
            usage::exit_code(&error)
        }
    }
}

/// An error and its causes; a cause that the text before it already names is not repeated.
fn chain(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.ends_with(&cause) {
        true => text,
        false if text.is_empty() => cause,
        false => format!("{text}: {cause}"),
    })
}
