//! `mrc mapper load`: many agents that exist only as connections, to see what a collector can bear. They tell what agents of
//! such a fabric would tell, signed like theirs.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mrc_mapper::Fabric;
use mrc_mapper::agent::{AgentStats, PathSummary, Summary};
use mrc_mapper::locate::Finding;
use mrc_mapper::path::{State, Totals};
use mrc_mapper::plan::{Plan, PlanConfig};
use mrc_mapper::probe::Key;
use serde_json::json;

use super::agent::key;
use super::collect::{fabric, link};
use super::enforce::fault;
use crate::interrupt::{self, Interrupt};
use crate::out::outln;
use crate::usage::usage;

/// Arguments of `mrc mapper load`.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  mrc mapper collect --fabric 4,100,100,10000 --key k --db load.db --round 1000 &
  mrc mapper load --fabric 4,100,100,10000 --key k --every 1000 --seconds 60 --fault p0-t0a-t1c:up=5%

Each agent tells once per --every how its paths are, as `mrc mapper agent` does. Exit codes: 0 all agents stayed, 1 some were
cut off, 2 usage, 130 interrupted.")]
pub struct Args {
    /// Where the collector listens for agents
    #[arg(long, default_value = "127.0.0.1:9713")]
    collector: SocketAddr,
    /// The fabric: planes, T0 and T1 per plane, hosts; an agent per host
    #[arg(long, value_name = "PLANES,T0,T1,HOSTS", value_parser = fabric)]
    fabric: Fabric,
    /// File with the 16 bytes of the fabric's key
    #[arg(long)]
    key: PathBuf,
    /// Milliseconds between two summaries of an agent
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(20..=60_000))]
    every: u64,
    /// Stop after so many seconds
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// What loses packets, from a third of the time on
    #[arg(long, value_name = "COMPONENT=LOSS", value_parser = fault)]
    fault: Option<Finding>,
}

/// A summary without its number.
struct Text {
    before: String,
    after: String,
}

impl Text {
    fn new(summary: &Summary) -> anyhow::Result<Self> {
        let text = serde_json::to_string(summary)?;
        let (before, after) = text.split_once("\"number\":0,").context("a summary has a number")?;
        Ok(Self { before: format!("{before}\"number\":"), after: format!(",{after}") })
    }
}

struct Agent {
    stream: TcpStream,
    challenge: [u8; 16],
    line: u64,
    well: Text,
    ill: Option<Text>,
    waiting: Vec<u8>,
    is_cut_off: bool,
}

impl Agent {
    fn new(args: &Args, stream: TcpStream, host: u16, alive: &[u16]) -> anyhow::Result<Self> {
        let mut greeting = [0; 33];
        (&stream).read_exact(&mut greeting).context("it gave no challenge: is it a collector?")?;
        let challenge = std::str::from_utf8(&greeting).ok().and_then(link::unhex).context("that is no challenge")?;
        stream.set_nonblocking(true)?;
        let plan = Plan::new(&args.fabric, host, alive, &PlanConfig::default());
        let elements = args.fault.as_ref().map(|fault| (args.fabric.elements_of(fault.component), fault.loss));
        let summary = |ill: bool| {
            let path = |path: &mrc_mapper::plan::PathSpec| {
                let passes = path.elements(&args.fabric, host);
                let hit = elements.iter().filter(|_| ill).flat_map(|(elements, loss)| {
                    passes.iter().filter(|element| elements.contains(element)).map(|_| *loss)
                });
                let arrives: f64 = hit.map(|loss| 1.0 - loss).product();
                // A probe per millisecond, and every fourth time one more of the other class.
                let sent = args.every + args.every / 4;
                let lost = ((1.0 - arrives) * sent as f64).round() as u64;
                let delta = Totals { sent, lost, ..Totals::default() };
                PathSummary { path: *path, state: State::Up, delta, rtt_ns: Some(8_000) }
            };
            let paths: Vec<PathSummary> = plan.paths().iter().map(path).collect();
            let any = paths.iter().any(|path| path.delta.lost > 0);
            let (gone, stats) = (Vec::new(), AgentStats::default());
            (any, Summary { host, instance: 1, number: 0, paused_ns: 0, gone, paths, stats })
        };
        let ill = Some(summary(true)).filter(|(any, _)| *any).map(|(_, ill)| Text::new(&ill)).transpose()?;
        let well = Text::new(&summary(false).1)?;
        Ok(Self { stream, challenge, line: 0, well, ill, waiting: Vec::new(), is_cut_off: false })
    }

    /// One summary more; whether there was room for it.
    fn tell(&mut self, key: &Key, ill: bool) -> bool {
        if self.is_cut_off || !self.waiting.is_empty() {
            return false;
        }
        let Text { before, after } = self.ill.as_ref().filter(|_| ill).unwrap_or(&self.well);
        let json = format!("{before}{}{after}", self.line + 1);
        let signature = link::sign(key, &self.challenge, self.line, &json);
        self.waiting = format!("{signature:016x} {json}\n").into_bytes();
        self.line += 1;
        true
    }

    fn push(&mut self) {
        while !self.waiting.is_empty() && !self.is_cut_off {
            match self.stream.write(&self.waiting) {
                Ok(len) if len > 0 => drop(self.waiting.drain(..len)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                _ => self.is_cut_off = true,
            }
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(fault) = args.fault.as_ref().filter(|fault| !args.fabric.has(fault.component)) {
        return Err(usage(anyhow::anyhow!("the fabric has no `{}`", fault.component)));
    }
    let key = key(&args.key)?;
    let (interrupt, began) = (Interrupt::install()?, Instant::now());
    let connect = || TcpStream::connect(args.collector).context("the collector does not listen");
    let mut agents = Vec::new();
    for leaf in 0..args.fabric.leaves {
        let alive: Vec<u16> = args.fabric.hosts_of(leaf).collect();
        // Those of a leaf connect before any of them waits for its greeting. All at once would wait longer than the collector
        // lets a connection be without a name.
        let mut streams = alive.iter().map(|_| connect()).collect::<anyhow::Result<Vec<_>>>()?;
        for &host in &alive {
            let stream = streams.pop().context("a connection per host")?;
            let agent = Agent::new(args, stream, host, &alive);
            agents.push(agent.with_context(|| format!("agent {} of them", agents.len() + 1))?);
            if interrupt.is_set() {
                return Ok(ExitCode::from(interrupt::EXIT_CODE));
            }
        }
    }
    outln!("{}", json!({ "event": "connected", "agents": agents.len(), "seconds": began.elapsed().as_secs_f64() }));
    let (start, every) = (Instant::now(), Duration::from_millis(args.every));
    let (end, ill_from) = (Duration::from_secs(args.seconds), Duration::from_secs(args.seconds) / 3);
    let (mut told, mut missed, mut at, mut is_ill) = (0u64, 0u64, 0usize, false);
    while start.elapsed() < end && !interrupt.is_set() {
        let now = start.elapsed();
        if now >= ill_from && !is_ill && args.fault.is_some() {
            is_ill = true;
            outln!("{}", json!({ "event": "faulty", "unix_ms": crate::watch::unix_ms() }));
        }
        // Summaries are spread evenly over time.
        let due = (now.as_secs_f64() / every.as_secs_f64() * agents.len() as f64) as usize;
        while at < due {
            let index = at % agents.len();
            let agent = &mut agents[index];
            agent.push();
            match agent.tell(&key, is_ill) {
                true => told += 1,
                false => missed += 1,
            }
            agent.push();
            at += 1;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let cut_off = agents.iter().filter(|agent| agent.is_cut_off).count();
    let seconds = start.elapsed().as_secs_f64();
    outln!(
        "{}",
        json!({ "event": "done", "told": told, "missed": missed, "cut_off": cut_off, "seconds": seconds,
            "per_second": told as f64 / seconds })
    );
    Ok(match (interrupt.is_set(), cut_off) {
        (true, _) => ExitCode::from(interrupt::EXIT_CODE),
        (false, 0) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}
