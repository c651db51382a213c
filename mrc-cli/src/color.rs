//! `--color`: whether verdicts and help have colours. A word says everything that its colour says.

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// When output has colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum When {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Also into files and pipes
    Always,
    /// Never
    Never,
}

impl When {
    /// What these arguments say; the last one counts. The parser needs to know before it parses.
    pub fn of(args: impl IntoIterator<Item = String>) -> Self {
        let (mut when, mut named) = (Self::Auto, false);
        for arg in args.into_iter().take_while(|arg| arg != "--") {
            let value = if named { Some(arg.as_str()) } else { arg.strip_prefix("--color=") };
            when = match value {
                Some("always") => Self::Always,
                Some("never") => Self::Never,
                Some("auto") => Self::Auto,
                _ => when,
            };
            named = arg == "--color";
        }
        when
    }

    /// For the parser's own output.
    pub fn of_help(self) -> clap::ColorChoice {
        match self {
            Self::Auto => clap::ColorChoice::Auto,
            Self::Always => clap::ColorChoice::Always,
            Self::Never => clap::ColorChoice::Never,
        }
    }

    /// From now on.
    pub fn set(self) {
        let on = match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
        };
        ON.store(on, Ordering::Relaxed);
    }
}

static ON: AtomicBool = AtomicBool::new(false);

/// A line that begins with a verdict, its word in the colour of the verdict.
pub fn verdict(line: String) -> String {
    if ON.load(Ordering::Relaxed) { painted(&line) } else { line }
}

fn painted(line: &str) -> String {
    let start = line.len() - line.trim_start().len();
    let word = line[start..].split_whitespace().next().unwrap_or("");
    let color = match word {
        "ok" | "pass" => 32,
        "FAIL" | "broken" => 31,
        "warn" | "flaky" | "n/a" => 33,
        _ => return line.to_string(),
    };
    let rest = &line[start + word.len()..];
    format!("{}\x1b[{color}m{word}\x1b[0m{rest}", &line[..start])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_of_a_verdict_is_painted_and_nothing_else() {
        assert_eq!(painted("pass   must"), "\x1b[32mpass\x1b[0m   must");
        assert_eq!(painted("  FAIL  file"), "  \x1b[31mFAIL\x1b[0m  file");
        assert_eq!(painted("paths to hB"), "paths to hB");
        assert_eq!(painted(""), "");
    }

    #[test]
    fn the_last_choice_before_a_program_counts() {
        let of = |args: &str| When::of(args.split(' ').map(String::from));
        assert_eq!(of("mrc conform"), When::Auto);
        assert_eq!(of("mrc --color always conform --color=never"), When::Never);
        assert_eq!(of("mrc verbs-run -- ls --color=always"), When::Auto);
    }
}
