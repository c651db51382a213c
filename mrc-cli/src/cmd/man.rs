//! `mrc man`: the manual pages, from the same text as `--help`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::CommandFactory as _;

/// Arguments of `mrc man`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mrc man --out /usr/local/share/man/man1    then: man mrc-conform
  mrc man --out . && man ./mrc.1

Exit codes: 0 done, 1 a file cannot be written, 2 usage.")]
pub struct Args {
    /// Folder for mrc.1, mrc-conform.1 and the others; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Writes the pages.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let cannot = || format!("cannot write manual pages to {}", args.out.display());
    std::fs::create_dir_all(&args.out).with_context(cannot)?;
    clap_mangen::generate_to(crate::Cli::command(), &args.out).with_context(cannot)?;
    Ok(ExitCode::SUCCESS)
}
