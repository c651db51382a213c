//! `mrc write-lat`: how long a small write takes. Both sides write in turn; each waits for the other's value to show in
//! its memory, so half a round trip is one write from post to visible.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use mrc_verbs_shim::{QpAddress, WriteWr};
use serde::Serialize;

use super::write_bw::{addresses, failure, remotes};
use crate::handshake::{Control, Hello, Peer};
use crate::interrupt::{self, Interrupt};
use crate::out::outln;
use crate::session::{DeviceArgs, Nic, Session};

/// Arguments of `mrc write-lat`.
#[derive(clap::Args)]
#[command(after_help = "\
Start the server first (no address), then the client (with the server's address):
  mrc write-lat --lab hB &
  mrc write-lat --lab hA localhost -n 10000

Exit codes: 0 done, 1 a queue pair failed or the peer vanished, 2 usage or configuration, 130 interrupted (the round trips up to
then are printed).")]
pub struct Args {
    /// Server to connect to; without it this side is the server
    pub server: Option<String>,
    #[command(flatten)]
    device: DeviceArgs,
    /// Bytes per write, a multiple of 8
    #[arg(short, long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(8..=(1 << 20)))]
    size: u32,
    /// Round trips
    #[arg(short = 'n', long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    iterations: u64,
    /// TCP port of the exchange
    #[arg(short, long, default_value_t = 18516, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Longest wait for the other side's write.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize)]
struct Report {
    size: u32,
    iterations: u64,
    min_us: f64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
    average_us: f64,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if !args.size.is_multiple_of(8) {
        let why = format!("--size {}: a multiple of 8 is needed, the last 8 bytes are the value waited for", args.size);
        return Err(crate::usage::usage(anyhow::Error::msg(why)));
    }
    match args.server.clone() {
        None => serve(&args),
        Some(server) => client(&args, &server),
    }
}

/// The first half of the region is read from, the second half is written to by the peer.
fn open(args: &Args, host: &mrc_verbs_shim::host::HostFile, size: u32) -> anyhow::Result<Session> {
    Session::open(host, &args.device, 1, memory(size))
}

fn memory(size: u32) -> usize {
    (2 * size as usize).max(4096)
}

fn serve(args: &Args) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::install()?;
    let host = args.device.host()?;
    let mut nic = Some(Nic::open(&host, &args.device, 1)?);
    let Some((mut control, hello)) = Control::accept(args.port, || interrupt.is_set())? else {
        return Ok(ExitCode::from(interrupt::EXIT_CODE));
    };
    let mut opened = None;
    control.answer("write-lat", &hello, |theirs| {
        let peer = host.peer(theirs.gid)?;
        ensure!(theirs.size.is_multiple_of(8), "`size` {}: the last 8 bytes are the value waited for", theirs.size);
        let session = nic.take().context("no device")?.session(&args.device, 1, memory(theirs.size))?;
        let mut ours = Hello::new("write-lat", host.gid, host.path_mtu()?, theirs.size);
        (ours.va, ours.rkey) = (session.mr.addr(), session.mr.rkey().0);
        ours.qps = vec![addresses(&session, 0)];
        let mtu = theirs.path_mtu.min(ours.path_mtu);
        session.connect(&host, peer, mtu, true, &remotes(theirs))?;
        opened = Some(session);
        Ok(ours)
    })?;
    let mut session = opened.context("no session")?;
    let remote = *remotes(&hello).first().context("the client offers no queue pair")?;
    control.barrier()?;
    let mut served = 0;
    // The client's last value is followed by the end of its control connection.
    let ended = or_say_why(&mut control, |control| {
        loop {
            let round = served + 1;
            match wait_for(&mut session, control, hello.size, round, &interrupt)? {
                Waited::Arrived => write(&mut session, &remote, hello.size, round)?,
                ended => return Ok(ended),
            }
            served = round;
        }
    })?;
    if !args.json {
        outln!("{served} round trips served");
    }
    Ok(ended.exit_code())
}

/// Runs `rounds`; when they fail, the peer is told why before the connection closes.
fn or_say_why<T>(control: &mut Control, rounds: impl FnOnce(&mut Control) -> anyhow::Result<T>) -> anyhow::Result<T> {
    rounds(control).inspect_err(|why| control.give_up(&format!("{why:#}")))
}

fn client(args: &Args, server: &str) -> anyhow::Result<ExitCode> {
    let host = args.device.host()?;
    let mut session = open(args, &host, args.size)?;
    let mut control = Control::connect(server, args.port)?;
    let mut hello = Hello::new("write-lat", host.gid, host.path_mtu()?, args.size);
    (hello.va, hello.rkey) = (session.mr.addr(), session.mr.rkey().0);
    hello.qps = vec![addresses(&session, 0)];
    let theirs = control.offer(&hello)?;
    let remote = *remotes(&theirs).first().context("the server offers no queue pair")?;
    let mtu = theirs.path_mtu.min(hello.path_mtu);
    session.connect(&host, host.peer(theirs.gid)?, mtu, false, &[remote])?;
    control.barrier()?;
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} %").unwrap_or(ProgressStyle::default_bar());
    let bar = if args.json { ProgressBar::hidden() } else { ProgressBar::new(args.iterations).with_style(style) };
    let interrupt = Interrupt::install()?;
    let mut half_ns = Vec::with_capacity(args.iterations as usize);
    let ended = or_say_why(&mut control, |control| {
        for round in 1..=args.iterations {
            let start = Instant::now();
            write(&mut session, &remote, args.size, round)?;
            match wait_for(&mut session, control, args.size, round, &interrupt)? {
                Waited::Arrived => {}
                Waited::Ended => bail!("the server stopped after {} round trips", round - 1),
                Waited::Interrupted => return Ok(Waited::Interrupted),
            }
            half_ns.push(start.elapsed().as_nanos() as u64 / 2);
            if round % 256 == 0 {
                bar.set_position(round);
            }
        }
        Ok(Waited::Arrived)
    })?;
    bar.finish_and_clear();
    control.done();
    if !half_ns.is_empty() {
        print(args, half_ns);
    }
    Ok(ended.exit_code())
}

/// Writes `round` into the peer's second half.
fn write(session: &mut Session, remote: &QpAddress, size: u32, round: u64) -> anyhow::Result<()> {
    while take_completion(session)? {}
    session.mr.memory().place(u64::from(size) - 8, &round.to_ne_bytes())?;
    let wr = WriteWr {
        wr_id: round,
        mr: &session.mr,
        offset: 0,
        len: size,
        remote_va: remote.va.wrapping_add(u64::from(size)),
        rkey: remote.rkey,
        signaled: true,
    };
    if !session.cq.post_write(&session.qps[0], &wr) {
        bail!("the send queue is full");
    }
    Ok(())
}

/// Whether there was a completion.
fn take_completion(session: &mut Session) -> anyhow::Result<bool> {
    let Some(completion) = session.cq.poll() else { return Ok(false) };
    if completion.status != mrc_verbs_shim::Status::Success {
        let why = failure(session).map_or(String::new(), |why| format!(": {why}"));
        bail!("write failed: {}{why}", completion.status.text());
    }
    Ok(true)
}

/// How a wait for the peer's value ended.
enum Waited {
    Arrived,
    /// The peer said that it is done.
    Ended,
    /// By a signal.
    Interrupted,
}

impl Waited {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Interrupted => ExitCode::from(interrupt::EXIT_CODE),
            Self::Arrived | Self::Ended => ExitCode::SUCCESS,
        }
    }
}

/// Waits until the peer's value of this round is visible. Polls meanwhile: a thread that polls in
/// vain does the device's work, so that no other one has to.
fn wait_for(
    session: &mut Session,
    control: &mut Control,
    size: u32,
    round: u64,
    interrupt: &Interrupt,
) -> anyhow::Result<Waited> {
    let at = 2 * u64::from(size) - 8;
    let start = Instant::now();
    for spins in 0u64.. {
        if session.mr.memory().load_u64(at)? == round {
            return Ok(Waited::Arrived);
        }
        if interrupt.is_set() {
            return Ok(Waited::Interrupted);
        }
        take_completion(session)?;
        if spins % 64 == 63 {
            std::thread::yield_now();
        }
        if spins % 65_536 == 65_535 {
            match control.watch(Duration::from_millis(1))? {
                Peer::Done => return Ok(Waited::Ended),
                Peer::GaveUp(why) => bail!("the peer gave up: {why}"),
                Peer::Vanished(why) => bail!("peer vanished: {why}{}", session.without_ports()),
                _ => {}
            }
            if let Some(why) = failure(session) {
                bail!("{why}");
            }
            if start.elapsed() > PATIENCE {
                bail!("no write from the peer for {} s{}", PATIENCE.as_secs(), session.without_ports());
            }
        }
    }
    Ok(Waited::Ended)
}

fn print(args: &Args, mut half_ns: Vec<u64>) {
    half_ns.sort_unstable();
    let at = |part: f64| half_ns[((half_ns.len() - 1) as f64 * part) as usize] as f64 / 1e3;
    let report = Report {
        size: args.size,
        iterations: half_ns.len() as u64,
        min_us: at(0.0),
        p50_us: at(0.5),
        p99_us: at(0.99),
        p999_us: at(0.999),
        max_us: at(1.0),
        average_us: half_ns.iter().sum::<u64>() as f64 / half_ns.len() as f64 / 1e3,
    };
    if args.json {
        outln!("{}", serde_json::to_string(&report).unwrap_or_default());
        return;
    }
    outln!(
        "{:>8} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "bytes",
        "iterations",
        "min us",
        "p50",
        "average",
        "p99",
        "p99.9",
        "max"
    );
    outln!(
        "{:>8} {:>10} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>9.2}",
        report.size,
        report.iterations,
        report.min_us,
        report.p50_us,
        report.average_us,
        report.p99_us,
        report.p999_us,
        report.max_us
    );
}
