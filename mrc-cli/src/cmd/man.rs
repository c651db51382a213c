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
    let fresh = args.out.join(".mrc-man");
    std::fs::create_dir_all(&fresh).with_context(cannot)?;
    let written = clap_mangen::generate_to(crate::Cli::command(), &fresh).and_then(|()| {
        for page in std::fs::read_dir(&fresh)? {
            let page = page?;
            std::fs::write(args.out.join(page.file_name()), with_examples(&std::fs::read_to_string(page.path())?))?;
        }
        Ok(())
    });
    let _ = std::fs::remove_dir_all(&fresh);
    written.with_context(cannot)?;
    Ok(ExitCode::SUCCESS)
}

/// Lines that begin with two spaces are examples: files and commands, which a reader copies. They keep their lines and spaces.
fn with_examples(page: &str) -> String {
    let (mut text, mut inside) = (String::new(), false);
    for line in page.lines() {
        let example = line.starts_with("  ") || (inside && line.is_empty());
        if example != inside {
            text += if example { ".nf\n" } else { ".fi\n" };
            inside = example;
        }
        text += line;
        text.push('\n');
    }
    text
}
