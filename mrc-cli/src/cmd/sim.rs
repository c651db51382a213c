//! `mrc sim`: scenarios on the fabric simulator. Owns arguments, progress and printing; everything else is `mrc_sim`'s.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Output};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::interrupt::{self, Interrupt};
use crate::out::{errln, outln, writable};
use crate::usage::usage;
use anyhow::{Context, anyhow, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use mrc_core::path::PathLoad;
use mrc_lab::{CapturedPacket, write_pcapng};
use mrc_sim::run::{self, Distribution, LinkRow, MessageRow, Options, Outcome, Progress, Results, RunEnd};
use mrc_sim::scenario::{Built, TransportSettings};
use mrc_sim::{Captured, Hop, PathRow};
use mrc_wire::icrc;
use rustix::process::{Signal, set_parent_process_death_signal};

mod bench;
mod choice;
mod file;
mod made;
mod parquet;
mod pool;
mod ready;
mod report;
mod schema;
mod sweep;
mod tune;
mod verdict;

use parquet::Column;
use ready::Source;

/// Header bytes of a captured packet.
const SNAPLEN: u32 = 256;

/// The largest integer that a TOML file can hold: results carry their scenario, with the seed, as such a file.
const MOST_SEED: u64 = i64::MAX as u64;

/// Arguments of `mrc sim`.
#[derive(clap::Args)]
#[command(after_help = "\
A scenario is a TOML file: fabric, transport, workload, faults. `mrc sim schema` lists its keys, `mrc sim list` names
the ready ones, which are part of this program, and `mrc sim run perm128` runs one. Equal files and seeds give equal
results, to the last packet.

Exit codes: 0 every message completed, or the run reached the limit_us that `until = \"limit\"` makes its end; 1 messages
failed, or results could not be written; 2 usage, or a scenario that cannot be; 4 unfinished: limit_us or stall_us ended
the run while messages waited (`ended` in the JSON says which); 130 interrupted. The results until then are written in
all cases but 2.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Run a scenario
    Run(RunArgs),
    /// Write a scenario to begin with
    New(file::NewArgs),
    /// Check scenarios and sweeps without running them
    Check(file::CheckArgs),
    /// List the ready scenarios, which are part of this program, or those below a folder
    List {
        /// Folder
        folder: Option<PathBuf>,
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// List the keys of scenario files, with their defaults and what they mean
    Schema(schema::Args),
    /// Measure the simulator: packet-hops and events per second, and memory, by size of the fabric
    Bench(bench::Args),
    /// Run a scenario at many points of its parameter space, on all cores, or hand the points to a cluster
    Sweep(sweep::Args),
    /// Compare sides that were all given the same small search for their best settings
    Tune(tune::Args),
    /// Make a page of plots and tables from a folder of results
    Report(report::Args),
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mrc sim run parity/perm128                      a ready scenario of `mrc sim list`
  mrc sim run mine.toml --seed 2 --set queue.trim=false --json out.json
  mrc sim run mine.toml --pcap p0-t0a-t1b         a link as p0-t0a-t1b.pcapng, for `mrc decode` and Wireshark
                                                  (`mrc dissector --help` says how it learns MRC)

  mrc sim run out.json                            the same run again, from its results; says whether the digest is the same
  kill -USR1 PID                                  a run that goes on writes its results so far to the file of --json, or one
                                                  line to standard error

Exit codes: as of `mrc sim`; 1 also when a run that was repeated has another digest.")]
#[command(group(clap::ArgGroup::new("look").multiple(true)))]
struct RunArgs {
    /// Scenario file, name of a ready scenario, results of an earlier run to repeat, or - for standard input
    file: PathBuf,
    /// Seed, in place of the file's
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=MOST_SEED))]
    seed: Option<u64>,
    /// Change a key of the file: queue.trim=false, workload.0.bytes=4096; repeat as needed
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Write the results as JSON to this file, or to standard output in place of the tables
    #[arg(long, value_name = "OUT", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Write a row for every message (sizes, times, slowdown, packets, retransmissions, ports) to this file: Parquet when its name ends
    /// in .parquet, else CSV; `-`: to standard output in place of the tables
    #[arg(long, value_name = "OUT")]
    flows: Option<PathBuf>,
    /// Write how busy each link was, and its queue, to this file: a row for each link, direction and sample. Parquet or CSV,
    /// as --flows
    #[arg(long, value_name = "OUT")]
    links: Option<PathBuf>,
    /// Write the path tables of the selector flowing-jumping at the end as CSV to this file: delay, bandwidth and load of each
    /// path, whether they come from telemetry or from round trips, and what each switch wrote last
    #[arg(long, value_name = "OUT")]
    paths: Option<PathBuf>,
    /// Threads at most, by default one for each core; a fabric of 1024 hosts or more has parts to share (`partitions`). Results
    /// do not depend on it. Threads wait for each other: where other programs keep the cores busy, one thread can be many times as fast as two
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Capture a link, such as p0-hA or p0-t0a-t1b, into NAME.pcapng in the current folder
    #[arg(long, value_name = "LINK", group = "look")]
    pcap: Option<String>,
    /// Packets to capture or to print at most
    #[arg(long, default_value_t = 100_000, requires = "look")]
    packets: usize,
    /// Print the packets of the captured link (by default that of the first sender), one line each
    #[arg(long, group = "look")]
    trace: bool,
    /// No progress
    #[arg(long)]
    quiet: bool,
    /// The process of the sweep that this run is a point of; the scenario's text is then on standard input
    #[arg(long, hide = true, value_name = "PID", requires = "folder")]
    sweep: Option<u32>,
    /// The folder that files of the scenario of a sweep are relative to
    #[arg(long, hide = true, requires = "sweep")]
    folder: Option<OsString>,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Run(args) => run_scenario(args),
        Command::New(args) => file::new(&args),
        Command::Check(args) => file::check(&args),
        Command::List { folder, json } => list(folder.as_deref(), json),
        Command::Schema(args) => schema::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Report(args) => report::run(&args),
    }
}

fn run_scenario(args: RunArgs) -> anyhow::Result<ExitCode> {
    if let Some(sweep) = args.sweep {
        end_with(sweep)?;
    }
    let outputs =
        [("--json", &args.json), ("--flows", &args.flows), ("--links", &args.links), ("--paths", &args.paths)];
    let to_stdout =
        outputs.iter().filter(|(_, path)| path.as_deref().is_some_and(is_stdout)).map(|&(option, _)| option);
    let mut on_stdout = args.trace.then_some("--trace").into_iter().chain(to_stdout);
    let first = on_stdout.next();
    if let (Some(first), Some(second)) = (first, on_stdout.next()) {
        return Err(usage(anyhow!("{first} and {second} both need standard output: give {second} a file")));
    }
    let same = |nth: usize| {
        let earlier = outputs[..nth].iter().find(|(_, path)| path.is_some() && *path == outputs[nth].1)?;
        Some((earlier.0, outputs[nth].0))
    };
    if let Some((first, second)) = (1..outputs.len()).find_map(same) {
        return Err(usage(anyhow!("{first} and {second} name one file")));
    }
    let tables = first.is_none_or(|option| option == "--trace");
    let source = match &args.folder {
        Some(folder) => {
            let text = std::io::read_to_string(std::io::stdin()).context("cannot read the scenario of the sweep")?;
            Source::given(args.file.clone(), text, folder.into())
        }
        None => Source::find(&args.file).map_err(usage)?,
    };
    if source.is_sweep() {
        let file = args.file.display();
        return Err(usage(anyhow!("{file} is a sweep of many runs: `mrc sim sweep {file} -o FOLDER` makes them")));
    }
    if source.is_tuning() {
        let file = args.file.display();
        return Err(usage(anyhow!("{file} compares sides: `mrc sim tune {file}` makes the runs")));
    }
    let built = source.load(&args.set, args.seed).map_err(usage)?;
    let json_file = args.json.as_deref().filter(|path| !is_stdout(path));
    let pcap_file = args.pcap.as_deref().map(capture_file);
    let files = outputs.iter().filter_map(|(_, path)| path.as_deref()).filter(|path| !is_stdout(path));
    files.chain(pcap_file.as_deref()).try_for_each(writable)?;
    let first_link = || {
        let host = built.plan.messages.first().map_or(0, |message| message.src);
        built.topology.link_name(built.topology.host_link_id(0, host))
    };
    let capture = args.pcap.clone().or_else(|| args.trace.then(first_link));
    // What was asked for is written even when the run is cut.
    let interrupt = Interrupt::install()?;
    let stop = Some(interrupt.flag());
    let made_by = MadeBy::this();
    let options = Options {
        set: args.set.clone(),
        program: made_by.program,
        command: made_by.command,
        messages: args.flows.is_some(),
        links: args.links.is_some(),
        threads: args.threads.map_or_else(cores, usize::from),
        capture,
        capture_packets: args.packets,
        stop,
        so_far: None,
    };
    let outcome = with_progress(&built, options, args.quiet, json_file)?;
    let Outcome { results, capture, .. } = &outcome;
    if args.trace {
        print_trace(&built, capture);
    }
    if tables {
        print(results);
    }
    if args.json.as_deref().is_some_and(is_stdout) {
        outln!("{}", serde_json::to_string(results)?);
    }
    // Last: what fails here has lost nothing that was printed.
    let mut failures = write_files(&args, &outcome).into_iter();
    if let Some(diagnosis) = &results.diagnosis {
        errln!("mrc: unfinished: {diagnosis}");
    }
    if results.ended == RunEnd::Interrupted {
        errln!("interrupted at {:.1} us: the results are of the time until then", results.end_us);
    }
    if let Some(first) = failures.next() {
        failures.for_each(|error| errln!("mrc: {}", crate::chain(&error)));
        return Err(first);
    }
    let unchanged = args.set.is_empty() && args.seed.is_none();
    if let Some((digest, program)) = source.repeats.filter(|_| unchanged && results.ended != RunEnd::Interrupted) {
        if results.digest == digest {
            errln!("same digest as in {}: {digest}", args.file.display());
        } else {
            let file = args.file.display();
            errln!(
                "mrc: {file} has digest {digest}, made by {program}; this run, by {PROGRAM}, has {}",
                results.digest
            );
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(verdict(results))
}

/// One line for each captured packet.
fn print_trace(built: &Built, capture: &[Captured]) {
    for packet in capture {
        let way = if packet.egress { "down" } else { "up  " };
        let sender = mrc_sim::address::sender(&packet.header).unwrap_or(0);
        let line = match built.spoken_by(sender).settings {
            TransportSettings::Roce(_) => mrc_sim::roce_line(&packet.header),
            _ => None,
        };
        let line = line
            .or_else(|| mrc_sim::datagram_line(&packet.header))
            .unwrap_or_else(|| crate::cmd::decode::line(&packet.header, packet.wire_len as usize));
        outln!("{:>14.3} us {way} {line}", packet.at.as_nanos() as f64 / 1e3);
    }
}

/// Writes the files that the command line asks for, and returns why some cannot be written: one of them takes no other along.
fn write_files(args: &RunArgs, outcome: &Outcome) -> Vec<anyhow::Error> {
    let Outcome { results, capture, messages, links, paths } = outcome;
    // Half a point is no point of a sweep.
    let whole = !(results.ended == RunEnd::Interrupted && args.sweep.is_some());
    let json = args.json.as_deref().filter(|path| whole && !is_stdout(path));
    let written = [
        json.map(|path| keep(path, serde_json::to_string_pretty(results)?)),
        args.flows.as_deref().map(|path| {
            keep(path, if is_parquet(path) { flows_parquet(messages) } else { flows_csv(messages).into() })
        }),
        args.links
            .as_deref()
            .map(|path| keep(path, if is_parquet(path) { links_parquet(links) } else { links_csv(links).into() })),
        args.paths.as_deref().map(|path| keep(path, paths_csv(paths))),
        args.pcap.as_deref().map(|link| write_capture(&capture_file(link), link, capture)),
    ];
    written.into_iter().flatten().filter_map(Result::err).collect()
}

/// Where the packets of a captured link go.
fn capture_file(link: &str) -> PathBuf {
    PathBuf::from(format!("{link}.pcapng"))
}

/// What made a result, for the record: every JSON file of results says it.
#[derive(serde::Serialize)]
struct MadeBy {
    /// Program, version and commit.
    program: String,
    /// The command line.
    command: String,
}

impl MadeBy {
    /// This process.
    fn this() -> Self {
        Self { program: PROGRAM.to_owned(), command: std::env::args().collect::<Vec<_>>().join(" ") }
    }
}

/// Program, version and commit.
const PROGRAM: &str = concat!("mrc ", env!("CARGO_PKG_VERSION"), " ", env!("MRC_COMMIT"));

/// A header line, and a line for each message; what never happened is empty.
fn flows_csv(messages: &[MessageRow]) -> String {
    let head = "id,workload,src,dst,bytes,iteration,start_us,delivered_us,completed_us,fct_us,slowdown,packets,retransmitted_bytes,ports,missing_bytes,failed\n";
    messages.iter().fold(head.to_owned(), |mut text, row| {
        let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        let MessageRow { id, workload, src, dst, bytes, iteration, packets, retransmitted_bytes, ports, .. } = row;
        let MessageRow { missing_bytes, failed, .. } = row;
        let quoted = workload.replace('"', "\"\"");
        let times = [row.start_us, row.delivered_us, row.completed_us, row.fct_us, row.slowdown].map(number).join(",");
        text += &format!("{id},\"{quoted}\",{src},{dst},{bytes},{iteration},{times},");
        text += &format!("{packets},{retransmitted_bytes},{ports},{missing_bytes},{failed}\n");
        text
    })
}

/// Whether a file's name stands for standard output.
fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "parquet")
}

/// The columns of [`flows_csv`]; what never happened has no value.
fn flows_parquet(messages: &[MessageRow]) -> Vec<u8> {
    let int = |of: fn(&MessageRow) -> u64| Column::Int(messages.iter().map(|row| of(row) as i64).collect());
    let time = |of: fn(&MessageRow) -> Option<f64>| Column::Float(messages.iter().map(of).collect());
    parquet::table(&[
        ("id", int(|row| row.id.into())),
        ("workload", Column::Text(messages.iter().map(|row| row.workload.as_str()).collect())),
        ("src", int(|row| row.src.into())),
        ("dst", int(|row| row.dst.into())),
        ("bytes", int(|row| row.bytes.into())),
        ("iteration", int(|row| row.iteration.into())),
        ("start_us", time(|row| row.start_us)),
        ("delivered_us", time(|row| row.delivered_us)),
        ("completed_us", time(|row| row.completed_us)),
        ("fct_us", time(|row| row.fct_us)),
        ("slowdown", time(|row| row.slowdown)),
        ("packets", int(|row| row.packets.into())),
        ("retransmitted_bytes", int(|row| row.retransmitted_bytes)),
        ("ports", int(|row| row.ports.into())),
        ("missing_bytes", int(|row| row.missing_bytes.into())),
        ("failed", Column::Bool(messages.iter().map(|row| row.failed).collect())),
    ])
}

/// The columns of [`links_csv`].
fn links_parquet(links: &[LinkRow]) -> Vec<u8> {
    let direction = |row: &LinkRow| if row.upwards { "up" } else { "down" };
    let number = |of: fn(&LinkRow) -> f64| Column::Float(links.iter().map(|row| Some(of(row))).collect());
    parquet::table(&[
        ("at_us", number(|row| row.at_us)),
        ("link", Column::Text(links.iter().map(|row| row.link.as_str()).collect())),
        ("direction", Column::Text(links.iter().map(direction).collect())),
        ("percent", number(|row| row.percent)),
        ("queued_bytes", Column::Int(links.iter().map(|row| i64::from(row.queued_bytes)).collect())),
    ])
}

/// A header line, and a line for each direction of each link in each sample.
fn links_csv(links: &[LinkRow]) -> String {
    links.iter().fold("at_us,link,direction,percent,queued_bytes\n".to_owned(), |mut text, row| {
        let LinkRow { at_us, link, percent, queued_bytes, .. } = row;
        let direction = if row.upwards { "up" } else { "down" };
        text += &format!("{at_us},{link},{direction},{percent},{queued_bytes}\n");
        text
    })
}

/// A header line, and a line for each path of each queue pair whose selector keeps loads.
fn paths_csv(paths: &[PathRow]) -> String {
    let header = "host,peer,qp,port,ev,delay_ns,bandwidth_mbps,load_bytes,placed_packets,source,hops\n".to_owned();
    paths.iter().fold(header, |mut text, PathRow { host, peer, qp, load, hops }| {
        let PathLoad { port, ev, delay_ns, bandwidth_mbps, load_bytes, placed_packets, .. } = load;
        let source = if load.telemetry { "telemetry" } else { "round-trips" };
        let hop = |hop: &Hop| {
            let Hop { switch, queued_bytes, rate_mbps, load_permille } = hop;
            format!("{switch}:{queued_bytes}:{rate_mbps}:{load_permille}")
        };
        let hops = hops.iter().map(hop).collect::<Vec<_>>().join(" ");
        let plane = port.plane();
        text += &format!("{host},{peer},{qp},{plane},{:#x},{delay_ns},{bandwidth_mbps},{load_bytes},", ev.0);
        text += &format!("{placed_packets},{source},{hops}\n");
        text
    })
}

/// Cores that this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Exit code of a run that a limit ended while messages waited.
const UNFINISHED: u8 = 4;

/// The exit code of a run.
fn verdict(results: &Results) -> ExitCode {
    match results.ended {
        RunEnd::Interrupted => ExitCode::from(interrupt::EXIT_CODE),
        _ if results.failed > 0 || results.misplaced > 0 => ExitCode::FAILURE,
        RunEnd::Limit | RunEnd::Stalled => ExitCode::from(UNFINISHED),
        RunEnd::Completed | RunEnd::Failed | RunEnd::Planned => ExitCode::SUCCESS,
    }
}

/// How a run ended, in words; `None` when every message completed.
fn shortfall(results: &Results) -> Option<&'static str> {
    match results.ended {
        _ if results.finished => None,
        RunEnd::Interrupted => Some("interrupted"),
        RunEnd::Stalled => Some("stalled"),
        RunEnd::Planned => Some("cut off at its planned end"),
        RunEnd::Completed | RunEnd::Failed | RunEnd::Limit => Some("not all completed"),
    }
}

/// Ends this process with that of the sweep or bench that started it, also if that is killed: the same sweep, started again, makes all
/// points that have no results.
fn end_with(parent: u32) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    ensure!(std::os::unix::process::parent_id() == parent, "the command that started this run has ended");
    Ok(())
}

/// Why a run failed that this process started.
fn failure(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim();
    let said = said.strip_prefix("mrc: ").unwrap_or(said);
    if said.is_empty() { output.status.to_string() } else { said.to_owned() }
}

fn write_capture(path: &Path, link: &str, capture: &[Captured]) -> anyhow::Result<()> {
    let packet = |packet: &Captured| CapturedPacket {
        at: Duration::from_nanos(packet.at.as_nanos()),
        len: packet.wire_len,
        bytes: captured_bytes(packet),
    };
    let packets: Vec<CapturedPacket> = capture.iter().map(packet).collect();
    whole(path, |part| Ok(write_pcapng(part, link, SNAPLEN, &packets)?))?;
    errln!("{} packets of {link} in {}", packets.len(), path.display());
    Ok(())
}

/// The bytes of a packet that there are: all of them, with the trailer that closes them, when it has no payload.
fn captured_bytes(packet: &Captured) -> Vec<u8> {
    let mut bytes = packet.header.clone();
    if bytes.len() + icrc::LEN == packet.wire_len as usize
        && let Some(mut trailer) = icrc::start(&bytes).and_then(|start| icrc::compute(bytes.get(start..)?))
    {
        trailer[0] ^= u8::from(packet.corrupt);
        bytes.extend_from_slice(&trailer);
    }
    bytes
}

/// Writes a file whole or not at all: half of one would be taken for results, and two processes may write the same one.
fn keep(path: &Path, contents: impl AsRef<[u8]>) -> anyhow::Result<()> {
    if is_stdout(path) {
        outln!("{}", String::from_utf8_lossy(contents.as_ref()).trim_end());
        return Ok(());
    }
    whole(path, |part| Ok(std::fs::write(part, contents)?))
}

/// As [`keep`], of what `write` writes to the path that it gets.
fn whole(path: &Path, write: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return write(path).with_context(cannot); // a pipe or a device stays what it is
    }
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let part = path.with_file_name(format!(".{name}.{}", std::process::id()));
    write(&part).and_then(|()| Ok(std::fs::rename(&part, &path)?)).or_else(|error| {
        let _ = std::fs::remove_file(&part);
        Err(error).with_context(cannot)
    })
}

/// Runs with a progress bar on a terminal. On SIGUSR1 the results so far go to `json`, or as a table to standard error.
fn with_progress(built: &Built, mut options: Options, quiet: bool, json: Option<&Path>) -> anyhow::Result<Outcome> {
    let (flag, (sender, so_far)) = (interrupt::on_usr1()?, mpsc::channel());
    options.so_far = Some((flag, sender));
    let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
        let style = ProgressStyle::with_template("{wide_bar} {percent:>3} % {msg}").expect("the template is valid");
        ProgressBar::new(built.plan.bytes()).with_style(style)
    });
    let start = Instant::now();
    let mut last = start;
    let outcome = run::run(built, &options, &mut |progress: &Progress| {
        while let Ok(results) = so_far.try_recv() {
            tell_so_far(&results, progress, json);
        }
        let Some(bar) = bar.as_ref().filter(|_| last.elapsed() >= Duration::from_millis(200)) else { return };
        last = Instant::now();
        bar.set_position(progress.placed_bytes);
        bar.set_message(format!(
            "{:.0} us, {} of {} messages, {:.2} M hops/s{}",
            progress.at_us,
            progress.done,
            progress.messages,
            progress.switch_hops as f64 / start.elapsed().as_secs_f64() / 1e6,
            time_left(progress, start.elapsed()).map(|left| format!(", {left} left")).unwrap_or_default()
        ));
    });
    bar.iter().for_each(ProgressBar::finish_and_clear);
    outcome.map_err(usage)
}

/// How long a run will take, if bytes go on arriving at the pace so far; nothing before a hundredth has.
fn time_left(progress: &Progress, elapsed: Duration) -> Option<String> {
    let share = progress.placed_bytes as f64 / progress.bytes.max(1) as f64;
    let seconds = (elapsed.as_secs_f64() * (1.0 - share) / share).ceil() as u64;
    (share > 0.01).then(|| match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3600)),
    })
}

fn tell_so_far(results: &Results, progress: &Progress, json: Option<&Path>) {
    let share = 100.0 * progress.placed_bytes as f64 / progress.bytes.max(1) as f64;
    let text = serde_json::to_string_pretty(results).unwrap_or_default();
    let written = json.map(|path| (path, keep(path, &text)));
    let place = match written {
        Some((path, Ok(()))) => format!("the results so far are in {}", path.display()),
        Some((_, Err(error))) => format!("{error:#}"),
        None => results.completed_fct_us.map_or_else(
            || "no message has completed".to_owned(),
            |fct| format!("FCT of what completed (us): mean {:.1}, p99 {:.1}, max {:.1}", fct.mean, fct.p99, fct.max),
        ),
    };
    let (at_us, done, all) = (progress.at_us, progress.done, progress.messages);
    errln!("at {at_us:.1} us, {share:.1} % of the bytes, {done} of {all} messages: {place}");
}

fn print(results: &Results) {
    let row = |name: &str, value: String| outln!("{name:<18} {value}");
    let times = |all: Option<Distribution>, completed: Option<Distribution>, digits: usize| match (all, completed) {
        (_, None) => "none completed".to_owned(),
        (all, Some(d)) => format!(
            "{}mean {:.digits$}, p50 {:.digits$}, p99 {:.digits$}, max {:.digits$}",
            if all.is_some() { "" } else { "of those that completed: " },
            d.mean,
            d.p50,
            d.p99,
            d.max
        ),
    };
    row(
        "scenario",
        format!("{} (seed {}, {} hosts, {})", results.scenario, results.seed, results.hosts, results.transport),
    );
    let state = shortfall(results).map_or_else(|| "all completed".to_owned(), str::to_uppercase);
    let failed = if results.failed > 0 { format!(", {} failed", results.failed) } else { String::new() };
    row("messages", format!("{} of {} in {:.1} us: {state}{failed}", results.completed, results.flows, results.end_us));
    row("FCT (us)", times(results.fct_us, results.completed_fct_us, 1));
    if results.completed > 0 {
        row("slowdown", times(results.slowdown, results.completed_slowdown, 3));
    }
    row("goodput", format!("{:.2} Gb/s", results.goodput_gbit_per_s));
    let losses = &results.losses_by_cause;
    for group in &results.groups {
        if let Some(load) = group.load {
            row(&group.name, format!("load {:.3} offered, {} asked", load.offered, load.asked));
        }
        for (nth, bin) in group.by_size.iter().enumerate() {
            let to = bin.up_to_bytes.map_or_else(|| "more".to_owned(), |bytes| format!("to {bytes} B"));
            let name = if nth == 0 && group.load.is_none() { group.name.as_str() } else { "" };
            let all = bin.completed_slowdown.filter(|_| bin.completed == bin.flows);
            let slowdown = times(all, bin.completed_slowdown, 2);
            row(name, format!("{to:>14}: {:>7} messages, slowdown {slowdown}", bin.flows));
        }
    }
    row(
        "retransmitted",
        format!(
            "{} packets, {:.3} % of {} new ones",
            results.retransmitted_packets, results.retransmitted_percent, results.data_packets
        ),
    );
    let (told, inferred, timer) = (losses.nack, losses.inferred, losses.timeout);
    row("losses found", format!("{told} reported (NACK), {inferred} inferred (reordering), {timer} by timer"));
    let (data, control) = (results.drops - results.control_drops, results.control_drops);
    let (trims, marks) = (results.trims, results.marks);
    row("fabric", format!("{trims} trimmed, {marks} marked, {data} data and {control} control packets lost"));
    row("paths", format!("{} retired, {} restored", results.paths_retired, results.paths_restored));
    for group in &results.groups {
        if results.groups.len() > 1 {
            let jain = group.jain;
            row(
                &group.name,
                format!(
                    "{:.2} Gb/s, Jain {jain:.4}, FCT (us) {}",
                    group.goodput_gbit_per_s,
                    times(group.fct_us, group.completed_fct_us, 1)
                ),
            );
        }
        if let (Some(bus), Some(last)) = (group.bus_gbit_per_s, group.iterations.last()) {
            let count = group.iterations.len();
            let mean = group.iterations.iter().map(|it| it.us).sum::<f64>() / count as f64;
            row(
                "iterations",
                format!("{count}, mean {mean:.1} us, last {:.1} us, bus bandwidth {bus:.1} Gb/s", last.us),
            );
        }
    }
    if let Some(crowded) = results.crowded() {
        row("connections", crowded);
    }
    for failure in results.failures.iter().take(5) {
        row("failed", format!("{} to {} at {:.1} us: {}", failure.src, failure.dst, failure.at_us, failure.why));
    }
    row(
        "simulator",
        format!(
            "{:.2} M hops/s, {:.2} M events/s, {:.1} s, {:.0} MB, digest {}",
            results.switch_packet_hops as f64 / results.wall_seconds / 1e6,
            results.events as f64 / results.wall_seconds / 1e6,
            results.wall_seconds,
            results.peak_rss_mb,
            results.digest
        ),
    );
}

/// A file of `mrc sim list`.
#[derive(serde::Serialize)]
struct Listed {
    file: PathBuf,
    sweep: bool,
    /// What it shows, or what is wrong with it.
    about: String,
    valid: bool,
}

fn list(folder: Option<&Path>, json: bool) -> anyhow::Result<ExitCode> {
    let mut files: Vec<PathBuf> = ready::READY.iter().map(|(name, _)| PathBuf::from(name)).collect();
    if let Some(folder) = folder {
        files.clear();
        collect(folder, &mut files).with_context(|| format!("cannot list {}", folder.display())).map_err(usage)?;
        files.sort();
    }
    // What comes with the program is tested: nobody has to wait until it has been checked.
    let check = folder.is_some();
    let listed = files.into_iter().map(|file| {
        let source = Source::find(&file)?;
        let sweep = source.is_sweep();
        let about = match sweep {
            true => sweep::about(&source, check),
            false if source.is_tuning() => tune::about(&source),
            false if check => source.load(&[], None).map(|built| built.scenario.about).map_err(Into::into),
            false => Ok(source.about()),
        };
        let valid = about.is_ok();
        Ok(Listed { file, sweep, about: about.unwrap_or_else(|error| format!("{error:#}")), valid })
    });
    let listed = listed.collect::<anyhow::Result<Vec<Listed>>>()?;
    if json {
        outln!("{}", serde_json::to_string_pretty(&listed)?);
    } else if listed.is_empty() {
        outln!("no scenario below {}", folder.unwrap_or(Path::new(".")).display());
    }
    for Listed { file, about, .. } in listed.iter().filter(|_| !json) {
        outln!("{:<48} {about}", file.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A result file holds the seed as TOML does, and nothing could read it otherwise.
    #[test]
    fn no_run_has_a_seed_that_its_results_cannot_hold() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            run: RunArgs,
        }
        let seed =
            |seed: &str| <Line as clap::Parser>::try_parse_from(["run", "x", "--seed", seed]).map(|line| line.run.seed);
        assert_eq!(seed("9223372036854775807").unwrap(), Some(MOST_SEED));
        assert!(seed("9223372036854775808").is_err());
    }

    #[test]
    fn the_page_about_metrics_names_every_column() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/model.md");
        let page = std::fs::read_to_string(page).unwrap();
        let files = [("--flows", flows_csv(&[])), ("--links", links_csv(&[])), ("--paths", paths_csv(&[]))];
        for (file, columns) in files {
            let rows = page.split(&format!("| `{file}` | `")).nth(1).expect("rows of its own");
            let rows = rows.split("\n| `--").next().unwrap();
            for column in columns.trim_end().split(',').skip(1) {
                assert!(rows.contains(&format!("`{column}`")), "{file}: {column}");
            }
        }
    }

    #[test]
    fn a_file_is_replaced_and_never_written_into() {
        let folder = std::env::temp_dir().join(format!("mrc-keep-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let (file, old, link) = (folder.join("a.json"), folder.join("old"), folder.join("link"));
        keep(&file, "old").unwrap();
        std::fs::hard_link(&file, &old).unwrap();
        std::os::unix::fs::symlink("a.json", &link).unwrap();
        keep(&link, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "old", "whoever reads the old one reads it to its end");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 3, "nothing is left over");
        assert!(keep(&folder, "").unwrap_err().to_string().starts_with("cannot write "));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
