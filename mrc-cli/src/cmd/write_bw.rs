//! `mrc write-bw`: how fast one side writes into the other's memory.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use mrc_afxdp::device::DeviceEvent;
use mrc_core::{ErrorCause, Event};
use mrc_lab::parse_rate;
use serde::Serialize;

use crate::congestion::{CcReport, CongestionArgs};
use crate::content::{self, Content};
use crate::handshake::{Control, Hello, Peer};
use crate::interrupt::{self, Interrupt};
use crate::load::{Goal, Load, Run, Switch};
use crate::out::{count, errln, outln};
use crate::refused::Refused;
use crate::selector::{PathArgs, Paths, Tune};
use crate::session::{DeviceArgs, Nic, Session, address};
use crate::silent::{self, SilentPlane};
use crate::usage::usage;

/// Arguments of `mrc write-bw`.
#[derive(clap::Args)]
#[command(after_help = "\
Start the server first (no address), then the client (with the server's address):
  mrc lab up
  mrc write-bw --lab hB &
  mrc write-bw --lab hA localhost -D 10 -q 4

Congestion control by marks and delay instead of a fixed window:
  mrc write-bw --lab hA localhost -D 10 -q 4 --cc nscc --link-rate 20gbit --base-rtt 100

Path selectors side by side, on a fabric with a slow path:
  mrc lab slow p0-t0a-t1a --rate 20mbit
  mrc write-bw --lab hB &
  mrc write-bw --lab hA localhost -D 4 -s 16384 --rate-limit 300mbit --base-rtt 1000 --path p0u0 \\
      --selector spray,hopper,flow-bender,oblivious,single

Is every byte right? The server compares its memory with what the last messages carried:
  mrc lab impair --all --loss 1%
  mrc write-bw --lab hA localhost -n 2000 -q 4 --check

The address is for the exchange of QP numbers and keys over TCP; data takes the planes of the host file.
Exit codes: 0 done, 1 a queue pair failed, the peer gave up or vanished, or the content is wrong, 2 usage or configuration, 130 interrupted (the
totals up to then are printed).")]
pub struct Args {
    /// Server to connect to; without it this side is the server
    pub server: Option<String>,
    #[command(flatten)]
    device: DeviceArgs,
    /// Bytes per message
    #[arg(short, long, default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(1..=(1 << 30)))]
    size: u32,
    /// Messages to write, all queue pairs together
    #[arg(short = 'n', long, default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..))]
    iterations: u64,
    /// Queue pairs
    #[arg(short, long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16_384))]
    qps: u16,
    /// Write for this many seconds instead of a number of messages
    #[arg(short = 'D', long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86400))]
    duration: Option<u64>,
    /// Messages in flight per queue pair
    #[arg(short = 't', long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=128))]
    tx_depth: u16,
    /// TCP port of the exchange
    #[arg(short, long, default_value_t = 18515, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    #[command(flatten)]
    path: PathArgs,
    #[command(flatten)]
    congestion: CongestionArgs,
    /// Offered load of all queue pairs together, e.g. 400mbit; without it as much as fits
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate_limit: Option<u64>,
    /// Report goodput and bytes per path every so many milliseconds; 500 with --selector
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(10..))]
    interval: Option<u64>,
    /// Give every message a content of its own; at the end the server compares its memory with the last messages (-t of each
    /// queue pair). A difference is named with its offset, and both sides exit with 1. Costs time: no measurement of speed
    #[arg(long)]
    check: bool,
    /// Report Gb/s instead of MiB/s
    #[arg(long = "report-gbits", alias = "report_gbits")]
    report_gbits: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Queue pairs that a server has room for before it knows its client.
const SERVER_QPS: usize = 256;

/// Between two selectors.
const REST: Duration = Duration::from_millis(300);

/// Result of a measurement.
#[derive(Debug, Serialize)]
struct Report {
    bytes: u64,
    messages: u64,
    seconds: f64,
    gbit_per_s: f64,
    retransmitted: u64,
    ev_assumed_bad: u64,
    ev_restored: u64,
    plane_bytes: Vec<u64>,
    /// Names of the paths, in the order in which the runs list their bytes.
    paths: Vec<String>,
    /// One per selector; none on the server.
    runs: Vec<Run>,
    /// Planes on which nothing was sent, or nothing received; none on the server.
    silent_planes: Vec<SilentPlane>,
    /// Packets received that a right peer does not send, by reason.
    refused: Vec<Refused>,
    /// The congestion controller of each run at its end; none on the server.
    congestion: Vec<CcReport>,
    error: Option<String>,
    /// With `--check`: `ok`, or what is wrong where.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
}

impl Args {
    /// What messages carry with `--check`.
    fn content(&self) -> Option<Content> {
        // A queue pair never has more messages in flight than there are.
        let slots = u16::try_from(self.messages()).unwrap_or(u16::MAX).min(self.tx_depth);
        self.check.then_some(Content { size: self.size, slots })
    }

    /// Messages to write at most, all queue pairs together.
    fn messages(&self) -> u64 {
        if self.duration.is_some() { u64::MAX } else { self.iterations }
    }

    fn goal(&self) -> Goal {
        Goal {
            size: self.size,
            depth: self.tx_depth,
            messages: self.messages(),
            duration: self.duration.map(Duration::from_secs),
            bits_per_second: self.rate_limit,
            base_rtt: Duration::from_micros(self.path.base_rtt),
            interval: self.interval().map(Duration::from_millis),
        }
    }

    fn interval(&self) -> Option<u64> {
        self.interval.or((!self.path.selector.is_empty()).then_some(500))
    }
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.server.clone() {
        None => serve(&args),
        Some(server) => client(&args, &server),
    }
}

fn serve(args: &Args) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::install()?;
    let host = args.device.host()?;
    // Before anybody connects: what an interface lacks is told at once.
    let mut nic = Some(Nic::open(&host, &args.device, SERVER_QPS)?);
    if !args.json {
        errln!("waiting for a client on TCP port {}", args.port);
    }
    let Some((mut control, hello)) = Control::accept(args.port, || interrupt.is_set())? else {
        return Ok(ExitCode::from(interrupt::EXIT_CODE));
    };
    let mut opened = None;
    control.answer("write-bw", &hello, |theirs| {
        // Before anything is made for it.
        let peer = host.peer(theirs.gid)?;
        let content = theirs.check.map(|slots| Content { size: theirs.size, slots });
        let bytes = content.map_or(theirs.size as usize * theirs.qps.len(), |content| content.bytes(theirs.qps.len()));
        if theirs.qps.len() > SERVER_QPS {
            // The first goes before the second can have the interfaces.
            drop(nic.take());
            nic = Some(Nic::open(&host, &args.device, theirs.qps.len())?);
        }
        let session = nic.take().context("no device")?.session(&args.device, theirs.qps.len(), bytes.max(4096))?;
        let mut ours = Hello::new("write-bw", host.gid, host.path_mtu()?, theirs.size);
        ours.check = theirs.check;
        ours.va = session.mr.addr();
        ours.rkey = session.mr.rkey().0;
        ours.qps = (0..theirs.qps.len()).map(|i| addresses(&session, i)).collect();
        let remotes = remotes(theirs);
        let mtu = theirs.path_mtu.min(ours.path_mtu);
        session.connect(&host, peer, mtu, true, &remotes)?;
        opened = Some(session);
        Ok(ours)
    })?;
    let session = opened.context("no session")?;
    control.barrier()?;
    let start = Instant::now();
    let mut error = None;
    let (mut finished, mut gave_up) = (false, false);
    let mut verdict = None;
    while !finished && !interrupt.is_set() {
        match control.watch(Duration::from_millis(50))? {
            Peer::Quiet => {}
            Peer::Done => finished = true,
            Peer::GaveUp(why) => {
                error = Some(format!("the client gave up: {why}"));
                (finished, gave_up) = (true, true);
            }
            Peer::Check(messages) => verdict = Some(check(&session, &mut control, &hello, &messages)?),
            Peer::Vanished(why) => {
                for qp in &session.qps {
                    qp.fail()?;
                }
                error = Some(format!("peer vanished: {why}"));
                finished = true;
            }
        }
        if let Some(why) = failure(&session) {
            control.give_up(&why);
            // The control connection says more than the flush it caused.
            error.get_or_insert(why);
            finished = true;
        }
    }
    let stats = session.context.stats()?;
    let bytes = stats.engine.ports.iter().map(|port| port.rx_bytes).sum();
    let mut report = Report::new(&stats.engine, host.planes.len(), bytes, 0, start.elapsed(), error);
    (report.content, report.refused) = (verdict, session.refused(&stats.engine));
    let (failed, qps) = (report.error.clone(), hello.qps.len());
    report.print(args, "placed");
    match failed {
        None if report.content_is_wrong() => Ok(ExitCode::FAILURE),
        None if !finished => Ok(ExitCode::from(interrupt::EXIT_CODE)),
        None => Ok(ExitCode::SUCCESS),
        Some(_) if gave_up => Ok(ExitCode::FAILURE),
        Some(why) => {
            for qp in &session.qps {
                errln!("mrc: QP {:#08x} in ERROR: {why}", qp.qpn().value());
            }
            errln!("mrc: {} closed after {:.1} s", count(qps, "queue pair"), start.elapsed().as_secs_f64());
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Answers a client that asks whether its messages arrived as they were sent.
fn check(session: &Session, control: &mut Control, hello: &Hello, messages: &[u64]) -> anyhow::Result<String> {
    let slots = hello.check.context("the client asks for a check that it did not announce")?;
    ensure!(messages.len() == session.qps.len(), "the client counts messages of {} queue pairs", messages.len());
    let verdict = Content { size: hello.size, slots }.check(session.mr.memory(), messages)?;
    control.tell_verdict(&verdict)?;
    Ok(verdict)
}

fn client(args: &Args, server: &str) -> anyhow::Result<ExitCode> {
    let host = args.device.host()?;
    let selectors = args.path.selectors();
    let qps = usize::from(args.qps) * selectors.len();
    let device = DeviceArgs { count_paths: true, ..args.device.clone() };
    let bytes = args.content().map_or(args.size as usize * qps, |content| content.bytes(qps));
    // Before the server knows of us: it waits for no client that is silent, and much memory takes its time.
    let mut session = Session::open(&host, &device, qps, bytes.max(4096))?;
    let mut control = Control::connect(server, args.port)?;
    let mut hello = Hello::new("write-bw", host.gid, host.path_mtu()?, args.size);
    hello.check = args.content().map(|content| content.slots);
    hello.va = session.mr.addr();
    hello.rkey = session.mr.rkey().0;
    hello.qps = (0..qps).map(|i| addresses(&session, i)).collect();
    let theirs = control.offer(&hello)?;
    if theirs.qps.len() != qps {
        bail!("the server opened {} queue pairs, not {qps}", theirs.qps.len());
    }
    if theirs.check != hello.check {
        bail!("the server does not check the content: run the same version of mrc on both sides");
    }
    let remotes = remotes(&theirs);
    let mtu = theirs.path_mtu.min(hello.path_mtu);
    let peer = host.peer(theirs.gid)?;
    let paths = Paths::between(&host, peer)?;
    let cc = args.congestion.profile(host.planes.len(), args.path.base_rtt, args.device.trimming);
    let tune = |&name: &_| -> anyhow::Result<Tune> {
        // Each run begins with a window of its own.
        args.path.tune(name, &paths, session.context.create_cc_profile(cc).context("--cc").map_err(usage)?)
    };
    let tunes: Vec<Tune> = selectors.iter().map(tune).collect::<Result<_, _>>()?;
    session
        .connect_with(&host, peer, mtu, false, &remotes, |qp, attr| tunes[qp / usize::from(args.qps)].apply(attr))?;
    control.barrier()?;
    let before = session.context.stats()?.engine;
    let start = Instant::now();
    let interrupt = Interrupt::install()?;
    let mut posted = vec![0; qps];
    let runs = measure(args, &mut session, &mut control, &remotes, &paths, &interrupt, &mut posted)?;
    // After an error messages are missing anyway.
    let verdict = (args.check && runs.iter().all(|run| run.error.is_none())).then(|| control.ask_for_check(&posted));
    let verdict = verdict.transpose()?;
    let error = runs.iter().find_map(|run| run.error.clone());
    match &error {
        Some(why) => control.give_up(why),
        None => control.done(),
    }
    let (bytes, messages) = runs.iter().fold((0, 0), |sum, run| (sum.0 + run.bytes, sum.1 + run.messages));
    let stats = session.context.stats()?;
    let mut report = Report::new(&stats.engine, host.planes.len(), bytes, messages, start.elapsed(), error);
    (report.paths, report.runs, report.content) = (paths.names(), runs, verdict);
    report.silent_planes = silent::planes(&before, &stats.engine, host.planes.len());
    report.refused = session.refused(&stats.engine);
    for qp in session.qps.iter().step_by(args.qps.into()) {
        report.congestion.extend(qp.congestion()?.map(|info| CcReport::new(args.congestion.cc, &info)));
    }
    report.print(args, "written");
    Ok(match report.error {
        Some(_) => ExitCode::FAILURE,
        None if report.content_is_wrong() => ExitCode::FAILURE,
        None if interrupt.is_set() => ExitCode::from(interrupt::EXIT_CODE),
        None => ExitCode::SUCCESS,
    })
}

/// Runs the selectors one after the other, each on queue pairs of its own.
fn measure(
    args: &Args,
    session: &mut Session,
    control: &mut Control,
    remotes: &[mrc_verbs_shim::QpAddress],
    paths: &Paths,
    interrupt: &Interrupt,
    posted: &mut [u64],
) -> anyhow::Result<Vec<Run>> {
    let bar = progress(args);
    let goal = args.goal();
    let per_run = usize::from(args.qps);
    let mut runs = Vec::new();
    let mut last_tick = Duration::ZERO;
    for (nth, selector) in args.path.selectors().into_iter().enumerate() {
        if nth > 0 {
            // Queues in the fabric drain: every selector begins on an idle one.
            std::thread::sleep(REST);
        }
        bar.set_position(0);
        let mut tick = |elapsed: Duration, done: u64| {
            if elapsed.abs_diff(last_tick) >= Duration::from_millis(200) {
                last_tick = elapsed;
                let gbit = done as f64 * f64::from(args.size) * 8.0 / elapsed.as_secs_f64() / 1e9;
                bar.set_position(if args.duration.is_some() { elapsed.as_millis() as u64 } else { done });
                bar.set_message(format!("{} {gbit:.2} Gb/s", selector.name()));
            }
        };
        let mut load = Load { session, control, remotes, paths, interrupt, content: args.content(), posted };
        let run = load.run(selector.name(), nth * per_run..(nth + 1) * per_run, &goal, &mut tick)?;
        let failed = run.error.is_some();
        runs.push(run);
        if failed || interrupt.is_set() {
            break;
        }
    }
    bar.finish_and_clear();
    Ok(runs)
}

/// The first failure that the engine reported, in words.
pub fn failure(session: &Session) -> Option<String> {
    while let Some(event) = session.poll_event() {
        match event {
            DeviceEvent::Engine(Event::QpError { qp, cause }) if cause != ErrorCause::Application => {
                return Some(format!("QP {:#08x}: {}", qp.value(), cause.text()));
            }
            _ => {}
        }
    }
    None
}

/// QP number and first PSN for the exchange.
pub fn addresses(session: &Session, index: usize) -> (u32, u32) {
    let address = session.address(index);
    (address.qpn.value(), address.psn.value())
}

/// The peer's QPs.
pub fn remotes(hello: &Hello) -> Vec<mrc_verbs_shim::QpAddress> {
    hello.qps.iter().map(|&(qpn, psn)| address(qpn, psn, hello.mpr_dest, hello.va, hello.rkey)).collect()
}

fn progress(args: &Args) -> ProgressBar {
    if args.json {
        return ProgressBar::hidden();
    }
    let length = args.duration.map_or(args.iterations, |seconds| seconds * 1000);
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}").unwrap_or(ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style)
}

/// Queue pairs whose paths are printed; JSON has all of them.
const PRINTED_TABLES: usize = 4;

/// The paths of a run, where its selector keeps a load of each.
fn print_paths(run: &Run) {
    for (qpn, paths) in run.path_table.iter().take(PRINTED_TABLES) {
        outln!("\npaths of QP {qpn:#08x}, as {} had them at the end", run.selector);
        outln!(
            "{:<9} {:<11} {:>9} {:>8} {:>11} {:>7}  from",
            "path",
            "state",
            "delay us",
            "Mb/s",
            "load bytes",
            "placed"
        );
        for path in paths {
            let delay_us = f64::from(path.delay_ns) / 1e3;
            let from = if path.telemetry { "telemetry" } else { "round trips" };
            outln!(
                "{:<9} {:<11} {delay_us:>9.1} {:>8} {:>11} {:>7}  {from}",
                path.name,
                path.state,
                path.bandwidth_mbps,
                path.load_bytes,
                path.placed_packets
            );
        }
    }
    let more = run.path_table.len().saturating_sub(PRINTED_TABLES);
    if more > 0 {
        outln!("{more} more queue pairs: --json has their paths");
    }
}

impl Report {
    fn new(
        engine: &mrc_core::Stats,
        planes: usize,
        bytes: u64,
        messages: u64,
        elapsed: Duration,
        error: Option<String>,
    ) -> Self {
        let seconds = elapsed.as_secs_f64();
        Self {
            bytes,
            messages,
            seconds,
            gbit_per_s: bytes as f64 * 8.0 / seconds / 1e9,
            retransmitted: engine.retransmitted,
            ev_assumed_bad: engine.ev_assumed_bad,
            ev_restored: engine.ev_restored,
            plane_bytes: engine.ports.iter().take(planes).map(|port| port.tx_bytes + port.rx_bytes).collect(),
            paths: Vec::new(),
            runs: Vec::new(),
            silent_planes: Vec::new(),
            refused: Vec::new(),
            congestion: Vec::new(),
            error,
            content: None,
        }
    }

    fn content_is_wrong(&self) -> bool {
        self.content.as_ref().is_some_and(|verdict| verdict != content::OK)
    }

    fn print(&self, args: &Args, verb: &str) {
        if args.json {
            outln!("{}", serde_json::to_string(self).unwrap_or_default());
            return;
        }
        if args.interval().is_some() && !self.runs.is_empty() {
            self.print_runs();
        }
        let (rate, unit) = if args.report_gbits {
            (self.gbit_per_s, "Gb/s")
        } else {
            (self.bytes as f64 / self.seconds / f64::from(1 << 20), "MiB/s")
        };
        outln!("{:>14} {:>12} {:>10} {:>12}  retransmitted", "bytes", "messages", "seconds", unit);
        outln!(
            "{:>14} {:>12} {:>10.2} {:>12.2}  {}",
            self.bytes,
            self.messages,
            self.seconds,
            rate,
            self.retransmitted
        );
        let planes: Vec<String> =
            self.plane_bytes.iter().map(|bytes| format!("{:.1} MiB", *bytes as f64 / f64::from(1 << 20))).collect();
        outln!("{verb} per plane: {}", planes.join(", "));
        for congestion in &self.congestion {
            outln!("congestion control: {congestion}");
        }
        self.runs.iter().for_each(print_paths);
        for run in &self.runs {
            let (silent, unsteady) = (&run.silent_paths, &run.unsteady_paths);
            for sentence in silent::sentences(silent, unsteady, &self.silent_planes, &self.paths) {
                errln!("mrc: {sentence}");
            }
        }
        for refused in self.refused.iter().filter(|refused| self.error.is_some() || !refused.may_be_of_others()) {
            errln!("mrc: {refused}");
        }
        match &self.content {
            Some(verdict) if self.content_is_wrong() => errln!("mrc: content: {verdict}"),
            Some(verdict) => outln!("content: {verdict}"),
            None => {}
        }
        if let Some(error) = &self.error {
            errln!("mrc: {error}");
        }
    }

    /// Goodput and bytes per path over time, all selectors in one table.
    fn print_runs(&self) {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let row = |paths: &[u64]| paths.iter().map(|&bytes| format!(" {:>8.2}", mib(bytes))).collect::<String>();
        let names: String = self.paths.iter().map(|name| format!(" {name:>8}")).collect();
        outln!("{:<10} {:>8} {:>9} {names}", "selector", "ms", "Mb/s");
        for run in &self.runs {
            for sample in &run.samples {
                let mbit = sample.gbit_per_s * 1e3;
                outln!("{:<10} {:>8.0} {mbit:>9.1} {}", run.selector, sample.ms, row(&sample.path_bytes));
            }
        }
        outln!("MiB sent on each path since the row before, retransmissions included\n");
        outln!("{:<10} {:>9} {:>13} {:>7} {:>9}  moves", "selector", "Mb/s", "retransmitted", "probes", "switches");
        for run in &self.runs {
            let moves: Vec<String> = run.switches.iter().take(3).map(Switch::to_string).collect();
            let mbit = run.gbit_per_s * 1e3;
            outln!(
                "{:<10} {mbit:>9.1} {:>13} {:>7} {:>9}  {}",
                run.selector,
                run.retransmitted,
                run.path_probes,
                run.path_switches,
                moves.join(", ")
            );
        }
        outln!();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// One message of 1 GiB took 16 GiB.
    #[test]
    fn a_check_takes_no_memory_for_messages_that_never_come() {
        let slots = |more: &str| {
            let line = format!("write-bw --lab hA localhost --check {more}");
            let line = <Line as clap::Parser>::try_parse_from(line.split_whitespace()).ok()?;
            Some(line.args.content()?.slots)
        };
        assert_eq!((slots("-n 1"), slots("-n 5 -t 4"), slots("-n 100000")), (Some(1), Some(4), Some(16)));
        assert_eq!(slots("-n 1 -D 1"), Some(16), "as many as the time allows");
    }
}
