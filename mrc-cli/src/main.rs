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
    interrupt::end_as_first_process();
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

/// An error and its causes; neither a cause that the text before it already names is repeated, nor an error that its cause names.
/// Any call may be the one that finds no descriptor left: the cure is told here. Errors quote files, which may come from anybody:
/// nothing in them may steer the terminal.
fn chain(error: &anyhow::Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        match texts.last_mut() {
            Some(last) if last.ends_with(&cause) => {}
            Some(last) if cause.ends_with(last.as_str()) => *last = cause,
            _ => texts.push(cause),
        }
    }
    let text = texts.join(": ");
    let text = text.replace(|c: char| c.is_control() && !"\n\t".contains(c), "\u{fffd}");
    let without_cure = text.contains(&format!("(os error {})", libc::EMFILE)) && !text.contains("ulimit");
    if without_cure { format!("{text}; raise `ulimit -n`") } else { text }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Commands of `mrc` at the beginning of lines, up to comment, pipe, redirection or explanation.
    fn commands(text: &str) -> Vec<String> {
        let joined = text.split("\\\n").map(str::trim_start).collect::<Vec<_>>().join(" ");
        let lines = joined.lines().map(|line| line.trim_start().trim_start_matches(['$', '#']).trim_start());
        let command = |line: &str| {
            let line = line.split("  ").next().unwrap_or("");
            let line = line.split(';').next().unwrap_or("").replace("$!", "1");
            let ends = |word: &&str| word.starts_with("2>") || ["#", "|", "&", "&&", ">"].contains(word);
            line.split_whitespace().take_while(|word| !ends(word)).collect::<Vec<_>>().join(" ")
        };
        lines.filter(|line| line.starts_with("mrc ")).map(command).collect()
    }

    fn helps(command: &clap::Command, into: &mut String) {
        into.extend(command.get_after_help().map(|text| format!("{text}\n")));
        command.get_subcommands().for_each(|inner| helps(inner, into));
    }

    #[test]
    fn a_program_without_descriptors_names_the_cure() {
        let error = || anyhow::Error::from(std::io::Error::from_raw_os_error(libc::EMFILE));
        let says = "Too many open files (os error 24); raise `ulimit -n`";
        assert_eq!(chain(&error()), says);
        assert_eq!(chain(&error().context("cannot connect")), format!("cannot connect: {says}"));
        let told = error().context("no socket, see `ulimit -n`");
        assert!(!chain(&told).contains("raise"));
        assert_eq!(
            chain(&anyhow::Error::from(std::io::Error::from_raw_os_error(libc::EACCES))),
            "Permission denied (os error 13)"
        );
    }

    #[test]
    fn no_part_of_an_error_is_told_twice() {
        let error = |texts: &[&'static str]| {
            let mut texts = texts.iter().rev();
            let first = anyhow::Error::msg(*texts.next().unwrap());
            chain(&texts.fold(first, |error, text| error.context(*text)))
        };
        assert_eq!(error(&["cannot write x: disk full", "disk full"]), "cannot write x: disk full");
        assert_eq!(error(&["cannot write x", "disk full", "code 13: disk full"]), "cannot write x: code 13: disk full");
        assert_eq!(error(&["a", "b", "c"]), "a: b: c");
    }

    #[test]
    fn an_error_that_quotes_a_file_does_not_steer_the_terminal() {
        let broken = "\u{1b}[31m = 1\nname =\u{7}";
        let error = anyhow::anyhow!("line 1,\n\t`{broken}`").context("x.toml\r");
        assert_eq!(chain(&error), "x.toml\u{fffd}: line 1,\n\t`\u{fffd}[31m = 1\nname =\u{fffd}`");
    }

    /// What a reader copies from a help text or a page is a command line that is accepted.
    #[test]
    fn commands_of_pages_and_help_texts_are_accepted() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut text = String::new();
        helps(&Cli::command(), &mut text);
        let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
        let pages =
            docs.chain(["README.md", "packaging/README.md", "conform-agent/README.md"].map(|page| root.join(page)));
        for page in pages.filter(|page| page.extension().is_some_and(|extension| extension == "md")) {
            let page = std::fs::read_to_string(page).unwrap();
            text.extend(page.split("```").skip(1).step_by(2));
        }
        let all = commands(&text);
        assert!(all.len() > 150, "{}", all.len());
        let refused = |command: &String| {
            let error = Cli::command().try_get_matches_from(command.split_whitespace()).err()?;
            (error.exit_code() != 0).then(|| format!("{command}\n{error}"))
        };
        let refused: Vec<String> = all.iter().filter_map(refused).collect();
        assert!(refused.is_empty(), "{}", refused.join("\n"));
    }
}
