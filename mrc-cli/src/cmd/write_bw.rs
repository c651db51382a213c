//! `mrc write-bw`: how fast one side writes into the other's memory.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use indicatif::{ProgressBar, ProgressStyle};
use mrc_afxdp::device::DeviceEvent;
use mrc_core::Event;
use mrc_verbs_shim::{Status, WriteWr};
use serde::Serialize;

use crate::handshake::{Control, Hello, Peer};
use crate::session::{DeviceArgs, Session, address};

/// Arguments of `mrc write-bw`.
#[derive(clap::Args)]
#[command(after_help = "\
Start the server first (no address), then the client (with the server's address):
  mrc lab up
  mrc write-bw --lab hB &
  mrc write-bw --lab hA localhost -D 10 -q 4

The address is for the exchange of QP numbers and keys over TCP; data takes the planes of the host file.
Exit codes: 0 done, 1 a queue pair failed or the peer vanished, 2 usage.")]
pub struct Args {
    /// Server to connect to; without it this side is the server
    pub server: Option<String>,
    #[command(flatten)]
    device: DeviceArgs,
    /// Bytes per message
    #[arg(short, long, default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(1..=(1 << 30)))]
    size: u32,
    /// Messages to write, all queue pairs together
    #[arg(short = 'n', long, default_value_t = 5000)]
    iterations: u64,
    /// Queue pairs
    #[arg(short, long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    qps: u16,
    /// Write for this many seconds instead of a number of messages
    #[arg(short = 'D', long)]
    duration: Option<u64>,
    /// Messages in flight per queue pair
    #[arg(short = 't', long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=128))]
    tx_depth: u16,
    /// TCP port of the exchange
    #[arg(short, long, default_value_t = 18515)]
    port: u16,
    /// Report Gb/s instead of MiB/s
    #[arg(long = "report-gbits", alias = "report_gbits")]
    report_gbits: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

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
    error: Option<String>,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.server.clone() {
        None => serve(&args),
        Some(server) => client(&args, &server),
    }
}

fn serve(args: &Args) -> anyhow::Result<ExitCode> {
    let host = args.device.host()?;
    if !args.json {
        eprintln!("waiting for a client on TCP port {}", args.port);
    }
    let mut control = Control::accept(args.port)?;
    let mut opened = None;
    let hello = control.answer("write-bw", |theirs| {
        let bytes = theirs.size as usize * theirs.qps.len();
        let session = Session::open(&host, &args.device, theirs.qps.len(), bytes.max(4096))?;
        let mut ours = Hello::new("write-bw", host.gid, host.path_mtu()?, theirs.size);
        ours.va = session.mr.addr();
        ours.rkey = session.mr.rkey().0;
        ours.qps = (0..theirs.qps.len()).map(|i| addresses(&session, i)).collect();
        let peer = host.peer(theirs.gid)?;
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
    let mut finished = false;
    while !finished {
        match control.watch(Duration::from_millis(50))? {
            Peer::Quiet => {}
            Peer::Done => finished = true,
            Peer::Vanished(why) => {
                for qp in &session.qps {
                    qp.fail()?;
                }
                error = Some(format!("peer vanished: {why}"));
                finished = true;
            }
        }
        if let Some(why) = failure(&session) {
            // The control connection says more than the flush it caused.
            error.get_or_insert(why);
            finished = true;
        }
    }
    let stats = session.context.stats()?;
    let bytes = stats.engine.ports.iter().map(|port| port.rx_bytes).sum();
    let report = Report::new(&stats.engine, host.planes.len(), bytes, 0, start.elapsed(), error);
    let (failed, qps) = (report.error.clone(), hello.qps.len());
    report.print(args, "placed");
    match failed {
        None => Ok(ExitCode::SUCCESS),
        Some(why) => {
            for qp in &session.qps {
                eprintln!("mrc: QP {:#08x} in ERROR: {why}", qp.qpn().value());
            }
            eprintln!("mrc: {qps} queue pairs closed after {:.1} s", start.elapsed().as_secs_f64());
            Ok(ExitCode::FAILURE)
        }
    }
}

fn client(args: &Args, server: &str) -> anyhow::Result<ExitCode> {
    let host = args.device.host()?;
    let qps = usize::from(args.qps);
    let mut control = Control::connect(server, args.port)?;
    let mut session = Session::open(&host, &args.device, qps, (args.size as usize * qps).max(4096))?;
    let mut hello = Hello::new("write-bw", host.gid, host.path_mtu()?, args.size);
    hello.va = session.mr.addr();
    hello.rkey = session.mr.rkey().0;
    hello.qps = (0..qps).map(|i| addresses(&session, i)).collect();
    let theirs = control.offer(&hello)?;
    if theirs.qps.len() != qps {
        bail!("the server opened {} queue pairs, not {qps}", theirs.qps.len());
    }
    let remotes = remotes(&theirs);
    let mtu = theirs.path_mtu.min(hello.path_mtu);
    session.connect(&host, host.peer(theirs.gid)?, mtu, false, &remotes)?;
    control.barrier()?;
    let (report, failed) = measure(args, &mut session, &remotes, host.planes.len())?;
    control.done();
    report.print(args, "written");
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Keeps `tx_depth` writes in flight on every QP until time or messages run out.
fn measure(
    args: &Args,
    session: &mut Session,
    remotes: &[mrc_verbs_shim::QpAddress],
    planes: usize,
) -> anyhow::Result<(Report, bool)> {
    let start = Instant::now();
    let deadline = args.duration.map(|seconds| start + Duration::from_secs(seconds));
    let target = if deadline.is_some() { u64::MAX } else { args.iterations };
    let bar = progress(args);
    let (mut posted, mut done, mut error) = (0u64, 0u64, None);
    let mut inflight = vec![0u16; remotes.len()];
    let mut last_tick = start;
    loop {
        let now = Instant::now();
        let more = error.is_none() && deadline.is_none_or(|at| now < at);
        for (index, remote) in remotes.iter().enumerate() {
            while more && posted < target && inflight[index] < args.tx_depth {
                let wr = WriteWr {
                    wr_id: index as u64,
                    mr: &session.mr,
                    offset: index as u64 * u64::from(args.size),
                    len: args.size,
                    remote_va: remote.va + index as u64 * u64::from(args.size),
                    rkey: remote.rkey,
                    signaled: true,
                };
                if !session.cq.post_write(&session.qps[index], &wr) {
                    break;
                }
                inflight[index] += 1;
                posted += 1;
            }
        }
        let mut idle = true;
        while let Some(completion) = session.cq.poll() {
            idle = false;
            inflight[completion.wr_id as usize] -= 1;
            match completion.status {
                Status::Success => done += 1,
                Status::Flushed => {}
                status => {
                    error = Some(explain(&completion, status));
                }
            }
        }
        if idle {
            std::thread::yield_now();
        }
        if session.cq.is_closed() {
            bail!("the device's progress thread ended");
        }
        if now.duration_since(last_tick) >= Duration::from_millis(200) {
            last_tick = now;
            let gbit = done as f64 * f64::from(args.size) * 8.0 / now.duration_since(start).as_secs_f64() / 1e9;
            bar.set_position(if deadline.is_some() { start.elapsed().as_millis() as u64 } else { done });
            bar.set_message(format!("{gbit:.2} Gb/s"));
        }
        let finished = (!more || posted >= target) && inflight.iter().all(|&n| n == 0);
        if finished {
            break;
        }
    }
    bar.finish_and_clear();
    let failed = error.is_some();
    let stats = session.context.stats()?;
    let bytes = done * u64::from(args.size);
    Ok((Report::new(&stats.engine, planes, bytes, done, start.elapsed(), error), failed))
}

/// A failed completion, in words.
fn explain(completion: &mrc_verbs_shim::Completion, status: Status) -> String {
    let path = completion.last_path.map_or_else(
        || "no packet was sent".to_owned(),
        |(ev, port)| format!("last EV {:#x} on plane {}", ev.0, port.plane()),
    );
    format!(
        "{}: QP {:#08x}, first PSN {}, {path}, {} retries, last acknowledgement {:.1} ms ago",
        status.text(),
        completion.qp.value(),
        completion.first_psn.value(),
        completion.retries,
        completion.since_ack_ns as f64 / 1e6
    )
}

/// The first failure that the engine reported, in words.
pub fn failure(session: &Session) -> Option<String> {
    while let Some(event) = session.context.poll_event() {
        match event {
            DeviceEvent::Engine(Event::QpError { qp, cause }) if cause != mrc_core::ErrorCause::Application => {
                return Some(format!("QP {:#08x}: {}", qp.value(), cause.text()));
            }
            DeviceEvent::Link(text) => log::warn!("{text}"),
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
            error,
        }
    }

    fn print(&self, args: &Args, verb: &str) {
        if args.json {
            println!("{}", serde_json::to_string(self).unwrap_or_default());
            return;
        }
        let (rate, unit) = if args.report_gbits {
            (self.gbit_per_s, "Gb/s")
        } else {
            (self.bytes as f64 / self.seconds / f64::from(1 << 20), "MiB/s")
        };
        println!("{:>14} {:>12} {:>10} {:>12}  retransmitted", "bytes", "messages", "seconds", unit);
        println!(
            "{:>14} {:>12} {:>10.2} {:>12.2}  {}",
            self.bytes, self.messages, self.seconds, rate, self.retransmitted
        );
        let planes: Vec<String> =
            self.plane_bytes.iter().map(|bytes| format!("{:.1} MiB", *bytes as f64 / f64::from(1 << 20))).collect();
        println!("{verb} per plane: {}", planes.join(", "));
        if let Some(error) = &self.error {
            eprintln!("mrc: {error}");
        }
    }
}
