//! `mrc completions`: what a shell needs to complete commands and options.

use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::out::out;

/// Arguments of `mrc completions`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mrc completions bash > /etc/bash_completion.d/mrc
  mrc completions zsh > /usr/share/zsh/vendor-completions/_mrc
  mrc completions fish > ~/.config/fish/completions/mrc.fish

Exit codes: 0 done, 2 usage.")]
pub struct Args {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "mrc", &mut script);
    out!("{}", String::from_utf8_lossy(&script));
    Ok(ExitCode::SUCCESS)
}
