//! `mrc vectors`: golden packets and traces for hardware test benches.

use crate::out::outln;
use std::path::PathBuf;
use std::process::ExitCode;

/// Where to and how wide.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mrc vectors --out vectors               packets.json, packets.hex and traces/, as docs/vectors.md has them
  mrc vectors --out vectors --beat 64     words of 512 bits in the .hex files

Exit codes: 0 all were written, 1 a file cannot be, 2 usage.")]
pub struct Args {
    /// Folder to write to; files in it are replaced
    #[arg(long)]
    out: PathBuf,
    /// Bytes of a word in the hexadecimal files, 1 to 128
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=128))]
    beat: u16,
}

/// Runs it.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let written = mrc_conform::vectors::write(&args.out, usize::from(args.beat))?;
    let out = args.out.display();
    outln!("{out}: {} golden packets, {} traces with {} frames", written.packets, written.traces, written.frames);
    Ok(ExitCode::SUCCESS)
}
