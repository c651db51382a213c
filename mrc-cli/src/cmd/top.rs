//! `mrc top`: devices, planes, queue pairs, entropy values and events of this machine, live or from a file.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Terminal};

use crate::interrupt::{self, Interrupt};
use crate::out::{errln, outln};
use crate::watch::{self, Snapshot, Watcher};
use model::Model;

mod columns;
mod model;
mod screen;

/// Arguments of `mrc top`.
#[derive(clap::Args)]
#[command(after_help = "\
Keys: Tab next device, s next column to sort by, r the other way round, / filter queue pairs (Enter ends, Esc clears),
up and down scroll, p pause, left and right one snapshot back and on while paused, q quit.

Examples:
  mrc top                        every device that this user may ask (root: of all users)
  mrc top --interval 100         ten times a second
  mrc top --record run.jsonl     and keep what is seen
  mrc top --replay run.jsonl     look at it again
  mrc top --once                 one screen as text, after a second

Exit codes: 0 quit or recording over, 1 failed, 2 usage, 130 interrupted.")]
pub struct Args {
    /// Milliseconds between two looks
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(50..=60_000))]
    interval: u64,
    /// Only this process
    #[arg(long, conflicts_with = "replay")]
    pid: Option<u32>,
    /// Also write every snapshot to this file, one JSON object per line
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    record: Option<PathBuf>,
    /// Show a recording instead of the devices
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Print one screen as text: the rates of a second, or the end of a recording
    #[arg(long)]
    once: bool,
    /// Columns of that screen
    #[arg(long, default_value_t = 110, value_parser = clap::value_parser!(u16).range(40..=400))]
    width: u16,
    /// Its rows
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u16).range(10..=400))]
    height: u16,
}

/// How often it looks whether it shall end: a signal wakes nobody who waits for keys.
const GLANCE: Duration = Duration::from_millis(200);

/// Where snapshots come from.
enum Source {
    Live { watcher: Watcher, record: Option<std::fs::File> },
    File(std::vec::IntoIter<Snapshot>),
}

impl Source {
    fn open(args: &Args) -> anyhow::Result<Self> {
        if let Some(path) = &args.replay {
            return Ok(Self::File(watch::read(path)?.into_iter()));
        }
        let create = |path: &PathBuf| {
            std::fs::File::create(path).with_context(|| format!("cannot write the recording {}", path.display()))
        };
        Ok(Self::Live { watcher: Watcher::of(args.pid), record: args.record.as_ref().map(create).transpose()? })
    }

    /// The next snapshot; none at the end of a recording.
    fn next(&mut self) -> anyhow::Result<Option<Snapshot>> {
        match self {
            Self::File(all) => Ok(all.next()),
            Self::Live { watcher, record } => {
                let snapshot = watcher.look();
                if let Some(file) = record {
                    let line = serde_json::to_string(&snapshot)? + "\n";
                    file.write_all(line.as_bytes()).context("cannot write the recording")?;
                }
                Ok(Some(snapshot))
            }
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut model = Model::default();
    let interrupt = Interrupt::install()?;
    if args.once {
        return once(args, &mut Source::open(args)?, &mut model, &interrupt);
    }
    let mut terminal = ratatui::try_init().context("this is no terminal; `mrc top --once` needs none")?;
    // Behind the terminal: without one, the file that `--record` names stays as it is.
    let result =
        Source::open(args).and_then(|mut source| live(args, &mut source, &mut model, &mut terminal, &interrupt));
    ratatui::restore();
    result
}

/// Waits; whether nobody has ended it meanwhile.
fn wait(time: Duration, interrupt: &Interrupt) -> bool {
    let until = Instant::now() + time;
    while Instant::now() < until && !interrupt.is_set() {
        std::thread::sleep(GLANCE.min(until.saturating_duration_since(Instant::now())));
    }
    !interrupt.is_set()
}

fn once(args: &Args, source: &mut Source, model: &mut Model, interrupt: &Interrupt) -> anyhow::Result<ExitCode> {
    match source {
        Source::File(_) => {
            while let Some(snapshot) = source.next()? {
                model.take(snapshot);
            }
        }
        Source::Live { .. } => {
            for time in [Duration::ZERO, Duration::from_secs(1)] {
                if !wait(time, interrupt) {
                    return Ok(ExitCode::from(interrupt::EXIT_CODE));
                }
                model.take(source.next()?.unwrap_or_default());
            }
        }
    }
    let mut terminal = Terminal::new(TestBackend::new(args.width, args.height))?;
    terminal.draw(|frame| screen::draw(frame, model))?;
    let buffer = terminal.backend().buffer();
    for row in 0..args.height {
        let line: String =
            (0..args.width).filter_map(|column| buffer.cell((column, row)).map(|cell| cell.symbol())).collect();
        outln!("{}", line.trim_end());
    }
    let Some(why) = model.refused() else { return Ok(ExitCode::SUCCESS) };
    errln!("mrc: {why}");
    Ok(ExitCode::FAILURE)
}

fn live(
    args: &Args,
    source: &mut Source,
    model: &mut Model,
    terminal: &mut DefaultTerminal,
    interrupt: &Interrupt,
) -> anyhow::Result<ExitCode> {
    let interval = Duration::from_millis(args.interval);
    let mut next = Instant::now();
    let mut over = false;
    let mut stale = true;
    while !interrupt.is_set() {
        if Instant::now() >= next && !over {
            next += interval;
            if next < Instant::now() {
                // Stopped for a while: what was missed is not made up for.
                next = Instant::now() + interval;
            }
            match source.next()? {
                Some(snapshot) => model.take(snapshot),
                // The end of a recording stays on the screen.
                None => over = true,
            }
            stale |= !model.paused();
        }
        if stale {
            terminal.draw(|frame| screen::draw(frame, model))?;
            stale = false;
        }
        let wait = if over { interval } else { next.saturating_duration_since(Instant::now()) };
        if event::poll(wait.min(GLANCE))? {
            match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Press => {
                    if press(model, key) {
                        return Ok(ExitCode::SUCCESS);
                    }
                    stale = true;
                }
                Event::Resize(..) => stale = true,
                _ => {}
            }
        }
    }
    Ok(ExitCode::from(interrupt::EXIT_CODE))
}

/// Does what a key asks; whether it asks to quit.
fn press(model: &mut Model, key: KeyEvent) -> bool {
    if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
        return true;
    }
    if model.is_typing() {
        match key.code {
            KeyCode::Char(letter) => model.type_filter(letter),
            KeyCode::Backspace => model.erase_filter(),
            KeyCode::Esc => model.clear_filter(),
            _ => model.end_filter(),
        }
        return false;
    }
    match key.code {
        KeyCode::Char('q') => return true,
        KeyCode::Char('p') => model.pause(),
        KeyCode::Char('s') => model.next_sort(),
        KeyCode::Char('r') => model.reverse(),
        KeyCode::Char('/') => model.begin_filter(),
        KeyCode::Esc => model.clear_filter(),
        KeyCode::Tab => model.next_device(),
        KeyCode::Down => model.scroll(1),
        KeyCode::Up => model.scroll(-1),
        KeyCode::PageDown => model.scroll(20),
        KeyCode::PageUp => model.scroll(-20),
        KeyCode::Left => model.step(-1),
        KeyCode::Right => model.step(1),
        _ => {}
    }
    false
}
