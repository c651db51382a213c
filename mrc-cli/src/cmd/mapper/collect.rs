//! `mrc mapper collect`: the map of a fabric from the summaries of all its agents, with history and evidence over HTTP.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mrc_mapper::Fabric;
use mrc_mapper::policy::{self, Policy};
use mrc_mapper::topology::{Component, Direction, HostId, host_name};
use mrc_mapper::view::{Change, Evidence, View, ViewConfig};
use serde_json::{Value, json};

use super::agent::{self, key};
use super::enforce;
use super::host::lab_fabric;
use super::web;
use crate::http::{self, Answer, Question, Site};
use crate::interrupt::{self, Interrupt};
use crate::out::{errln, outln};
use crate::usage::usage;
use crate::watch::unix_ms;
use store::Store;
use wire::Address;

pub mod link;
mod peers;
pub mod store;
pub mod tls;
pub mod wire;

/// Paths of a piece of evidence; those with most losses.
const EVIDENCE: usize = 32;
/// Rounds after a restart in which an open fault may be found again.
const GRACE_ROUNDS: u32 = 100;
/// An agent that told nothing for so long no longer reports.
const SILENT: Duration = Duration::from_secs(3);
/// Most often that those who follow hear of a change, and longest time in which they hear nothing.
const NEWS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));

/// Arguments of `mrc mapper collect`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mrc mapper collect --db map.db &                          listen for agents and for questions
  mrc mapper agent --lab hA --collector 127.0.0.1:9713      an agent that reports to it
  mrc mapper why p0-t0a-t1c                                 state, history and evidence of a link
  http://127.0.0.1:9712/                                    the same as a page, live

GET /api/state, /api/events?after=N, /api/history?after=N, /api/why/COMPONENT and /api/denylist answer with JSON; /api/live
goes on with the state as server-sent events. Agents prove that they have the
fabric's key; what they tell is signed, numbered and bounded. It is encrypted, and both ends show certificates, with --tls;
without it agents must be on this machine. A collector that is gone costs agents nothing.
Exit codes: 0 time over, 1 failed, 2 usage, 130 interrupted.")]
pub struct Args {
    /// Where agents connect: an address, or the path of a Unix socket
    #[arg(long, default_value = "127.0.0.1:9713")]
    listen: Address,
    #[command(flatten)]
    tls: tls::Certificates,
    /// Where questions are answered
    #[arg(long, default_value = "127.0.0.1:9712")]
    http: SocketAddr,
    /// SQLite file with the history
    #[arg(long, default_value = "mrc-map.db")]
    db: PathBuf,
    /// First part of the lab's namespace names
    #[arg(long, default_value = "mrc")]
    prefix: String,
    /// The fabric, if it is no lab of this machine: planes, T0 and T1 per plane, hosts
    #[arg(long, value_name = "PLANES,T0,T1,HOSTS", value_parser = fabric)]
    fabric: Option<Fabric>,
    /// File with the 16 bytes of the fabric's key. None: the lab's own file
    #[arg(long)]
    key: Option<PathBuf>,
    /// Policy behind /api/denylist; none: the default one
    #[arg(long)]
    policy: Option<PathBuf>,
    /// Milliseconds between two judgements
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(20..=10_000))]
    round: u64,
    /// Stop after so many seconds; none = until Ctrl-C
    #[arg(long)]
    seconds: Option<u64>,
}

/// Reads `2,2,4,2`.
pub fn fabric(text: &str) -> Result<Fabric, String> {
    let wrong = || format!("`{text}` is no fabric: write planes, T0s, T1s and hosts as 2,2,4,2");
    let parts: Result<Vec<u16>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    let [planes, leaves, spines, hosts] = parts.map_err(|_| wrong())?[..] else { return Err(wrong()) };
    let fabric = Fabric { planes: u8::try_from(planes).map_err(|_| wrong())?, leaves, spines, hosts };
    fabric.check().map_err(|error| error.to_string())?;
    Ok(fabric)
}

/// What agents and questions share.
pub struct Map {
    fabric: Fabric,
    view: View,
    store: Store,
    policy: Policy,
    /// Faults of an earlier run that were not found again yet.
    open: Vec<String>,
    rounds: u32,
    /// When each agent was heard last.
    heard: BTreeMap<HostId, Instant>,
    /// Nobody reports: the history alone is shown.
    recorded: bool,
    /// What those that follow heard last, and when.
    told: (Value, Option<Instant>),
}

impl Map {
    fn new(fabric: Fabric, store: Store, policy: Policy) -> anyhow::Result<Self> {
        let open = store.open_faults()?;
        let view = View::new(fabric, ViewConfig::default());
        let (heard, told) = (BTreeMap::new(), (Value::Null, None));
        Ok(Self { fabric, view, store, policy, open, rounds: 0, heard, recorded: false, told })
    }

    /// The history of another collector's file, without agents.
    pub fn recorded(fabric: Fabric, store: Store) -> anyhow::Result<Self> {
        Ok(Self { recorded: true, ..Self::new(fabric, store, Policy::default())? })
    }

    /// Takes in what an agent tells.
    ///
    /// # Errors
    /// No agent of this fabric can have said it.
    pub fn add(&mut self, summary: &mrc_mapper::agent::Summary) -> anyhow::Result<()> {
        self.view.add(summary)?;
        self.heard.insert(summary.host, Instant::now());
        Ok(())
    }

    /// An agent did something wrong.
    pub fn blame(&mut self, who: &str, why: &str) {
        log::warn!("{who}: {why}");
        self.store.add(unix_ms(), who, "agent", 0.0, &json!(why));
    }

    fn judge(&mut self) -> Vec<Change> {
        let changes = self.view.judge();
        for change in &changes {
            match change {
                Change::Faulty { finding } => {
                    let name = finding.component.to_string();
                    let known = self.open.iter().position(|open| *open == name);
                    if let Some(at) = known {
                        // It began before this collector did.
                        self.open.remove(at);
                        continue;
                    }
                    self.store.add(unix_ms(), &name, "faulty", finding.loss, &self.evidence(finding.component));
                }
                Change::Healthy { component } => {
                    self.store.add(unix_ms(), &component.to_string(), "healthy", 0.0, &Value::Null);
                }
            }
        }
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds == GRACE_ROUNDS {
            for name in std::mem::take(&mut self.open) {
                self.store.add(unix_ms(), &name, "healthy", 0.0, &json!("not found again after a restart"));
            }
        }
        changes
    }

    /// Paths through a component, those with most losses first.
    fn evidence(&self, component: Component) -> Value {
        let mut paths = self.view.why(component);
        paths.sort_by_key(|seen| (std::cmp::Reverse((seen.lost, seen.sent)), seen.host, seen.path));
        let row = |seen: &Evidence| {
            let Evidence { host, path, sent, lost, lost_full } = seen;
            json!({ "host": host_name(*host), "path": path, "sent": sent, "lost": lost, "lost_full": lost_full })
        };
        Value::Array(paths.iter().take(EVIDENCE).map(row).collect())
    }

    fn state(&self) -> Value {
        let faulty: Vec<Value> = self
            .view
            .faulty()
            .map(
                |finding| json!({ "component": finding.component, "loss": finding.loss, "evidence": finding.evidence }),
            )
            .collect();
        let agents: Vec<String> = self.view.agents().keys().map(|host| host_name(*host)).collect();
        let reports = |host: &HostId| self.heard.get(host).is_some_and(|at| at.elapsed() < SILENT);
        let silent: Vec<String> = (0..self.fabric.hosts).filter(|host| !reports(host)).map(host_name).collect();
        json!({
            "unix_ms": unix_ms(), "fabric": self.fabric, "agents": agents, "silent": silent, "faulty": faulty,
            "open_before": self.open, "denied": self.denied_planes(), "last_event": self.store.last_event(),
            "recorded": self.recorded,
        })
    }

    /// What those that follow have not heard yet, as an event; nothing while nothing changes, but for a sign of life.
    pub fn news(&mut self) -> Option<String> {
        let since = self.told.1.map_or(Duration::MAX, |at| at.elapsed());
        if since < NEWS.0 {
            return None;
        }
        let state = self.state();
        let mut timeless = state.clone();
        timeless["unix_ms"] = Value::Null;
        if timeless == self.told.0 && since < NEWS.1 {
            return None;
        }
        self.told = (timeless, Some(Instant::now()));
        Some(http::event(&state))
    }

    fn why(&self, name: &str) -> anyhow::Result<Answer> {
        let component = match name.parse::<Component>() {
            Ok(component) if self.fabric.has(component) => component,
            _ => {
                return Ok(Answer::not_found(&format!(
                    "the fabric has no `{name}`: names are p0-t0a-t1c, p0-hA, p1-t1b, p0"
                )));
            }
        };
        // Who asks for a link means both of its directions.
        let meant = |found: Component| found == component || found.with_direction(Direction::Both) == component;
        let finding = self.view.faulty().find(|finding| meant(finding.component));
        let history = self.store.of(component)?;
        Ok(Answer::json(&json!({
            "component": finding.map_or(component, |finding| finding.component), "faulty": finding.is_some(), "loss": finding.map(|finding| finding.loss),
            "paths": self.evidence(component), "history": history,
        })))
    }

    fn lists(&self) -> BTreeMap<HostId, policy::Denylist> {
        let faulty: Vec<_> = self.view.faulty().cloned().collect();
        policy::apply(&self.fabric, &self.policy, &faulty)
    }

    fn denied_planes(&self) -> Value {
        let lists = self.lists().into_iter().filter(|(_, list)| !list.planes.is_empty());
        lists.map(|(host, list)| (host_name(host), json!(list.planes))).collect::<serde_json::Map<_, _>>().into()
    }

    /// What each host should deny, in the form that `mrc_ctl` takes.
    fn denylist(&self) -> Value {
        self.lists()
            .into_iter()
            .map(|(host, list)| (host_name(host), json!(list)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    /// An answer to a question over HTTP.
    pub fn answer(&self, Question { path, query, .. }: Question<'_>) -> anyhow::Result<Answer> {
        let after = match query.split('&').find_map(|part| part.strip_prefix("after=")) {
            None => Ok(0),
            Some(number) => number.parse::<i64>(),
        };
        let Ok(after) = after else {
            return Ok(Answer::bad_request("after= takes the number of an event, such as after=0"));
        };
        if let Some(page) = web::page(path) {
            return Ok(page);
        }
        if let Some(name) = path.strip_prefix("/api/why/") {
            return self.why(name);
        }
        Ok(match path {
            "/api/state" => Answer::json(&self.state()),
            "/api/denylist" => Answer::json(&self.denylist()),
            "/api/live" => Answer::follow(&self.state()),
            "/api/events" => Answer::json(&json!(self.store.events(after)?)),
            "/api/history" => Answer::json(&json!(self.store.history(after)?)),
            _ => Answer::not_found(
                "ask /, /api/state, /api/live, /api/events?after=0, /api/history?after=0, /api/why/COMPONENT or /api/denylist",
            ),
        })
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    args.listen.check(args.tls.is_set()).map_err(usage)?;
    let certificates = args.tls.server()?;
    let fabric = match args.fabric {
        Some(fabric) => fabric,
        None => lab_fabric(&mrc_lab::Fabric::discover(&args.prefix)?),
    };
    let key = key(&args.key.clone().unwrap_or_else(|| mrc_lab::folder(&args.prefix).join("mapper.key")))?;
    let policy = args.policy.as_deref().map_or_else(|| Ok(Policy::default()), enforce::read)?;
    // Before the database: who cannot listen makes none.
    let (agents, questions) = (args.listen.listen()?, http::listen(args.http)?);
    let map = Mutex::new(Map::new(fabric, Store::open(&args.db, fabric)?, policy)?);
    let lock = || map.lock().unwrap_or_else(PoisonError::into_inner);
    let interrupt = Interrupt::install()?;
    errln!("agents at {}, questions and the page at http://{}/", args.listen, questions.local_addr()?);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serve = || {
            let is_over = || interrupt.is_set() || over.load(Ordering::Relaxed);
            let (answer, news) = (&mut |asked: Question<'_>| lock().answer(asked), &mut || lock().news());
            http::serve(&questions, &is_over, Site { answer, news, own_names_only: true })
        };
        let answers = std::thread::Builder::new().name("mrc-http".into()).spawn_scoped(scope, serve);
        let answers = answers.context("cannot make a thread that answers questions")?;
        let mut peers = peers::Peers::new(&agents, key, certificates, fabric.hosts);
        let start = Instant::now();
        let (round, mut next) = (Duration::from_millis(args.round), start);
        let done = || args.seconds.is_some_and(|seconds| start.elapsed() >= Duration::from_secs(seconds));
        let mut result = Ok(());
        while result.is_ok() && !interrupt.is_set() && !done() && !answers.is_finished() {
            next += round;
            result = peers.serve(next, &mut |what| peers::deliver(&mut lock(), what));
            for change in lock().judge() {
                outln!("{}", agent::line(agent::told(&change)));
            }
        }
        over.store(true, Ordering::Relaxed);
        let answered = answers.join().map_err(|_| anyhow::anyhow!("the HTTP server panicked"))?;
        result.and(answered)
    })?;
    Ok(if interrupt.is_set() { ExitCode::from(interrupt::EXIT_CODE) } else { ExitCode::SUCCESS })
}

/// Arguments of `mrc mapper why`.
#[derive(clap::Args)]
#[command(after_help = "Exit codes: 0 told, 1 no answer from the collector, 2 usage, or no such component.")]
pub struct WhyArgs {
    /// Component, e.g. p0-t0a-t1c, p0-hA:down or p1-t1b
    component: Component,
    /// Where the collector answers questions
    #[arg(long, default_value = "127.0.0.1:9712")]
    http: SocketAddr,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Runs `mrc mapper why`.
pub fn why(args: &WhyArgs) -> anyhow::Result<ExitCode> {
    let text =
        http::get(args.http, &format!("/api/why/{}", args.component)).map_err(|error| match error.to_string() {
            text if text.contains("the fabric has no") => usage(error),
            _ => error,
        })?;
    if args.json {
        outln!("{}", text.trim());
        return Ok(ExitCode::SUCCESS);
    }
    let all: Value = serde_json::from_str(&text).context("the collector said something else")?;
    let state = if all["faulty"] == true { "FAULTY" } else { "healthy" };
    let loss = all["loss"].as_f64().map_or_else(String::new, |loss| format!(", loses {:.2} %", 100.0 * loss));
    // Somebody else may listen there: nothing steers the terminal.
    let text = |of: &Value, key: &str| of[key].as_str().unwrap_or_default().escape_debug().to_string();
    outln!("{} is {state}{loss}", text(&all, "component"));
    for event in all["history"].as_array().into_iter().flatten() {
        outln!("  at {} ms: {} {}", event["unix_ms"], text(event, "component"), text(event, "event"));
    }
    outln!("paths through it in the last rounds, those with most losses first:");
    for path in all["paths"].as_array().into_iter().flatten() {
        let (sent, lost) = (&path["sent"], &path["lost"]);
        outln!("  {:<6} {lost:>6} of {sent:>6} lost  {}", text(path, "host"), path["path"]);
    }
    let sum = |key: &str| -> u64 {
        let paths = all["paths"].as_array();
        paths.into_iter().flatten().filter_map(|path| path[key].as_u64()).sum()
    };
    // Of probes that are lost whatever their length, few are full ones.
    let (lost, full) = (sum("lost"), sum("lost_full"));
    if full >= 4 && 2 * full > lost {
        outln!(
            "{full} of the {lost} lost probes were as long as a full data packet: a port on the way has too small an MTU, or damages bits"
        );
    }
    Ok(ExitCode::SUCCESS)
}
