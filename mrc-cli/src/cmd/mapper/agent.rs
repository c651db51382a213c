//! `mrc mapper agent`: one agent, until Ctrl-C.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mrc_mapper::Fabric;
use mrc_mapper::agent::Summary;
use mrc_mapper::probe::Key;
use mrc_mapper::topology::{Component, host_name};
use mrc_mapper::view::{Change, View, ViewConfig};
use mrc_verbs_shim::host::HostFile;
use serde_json::json;

use super::collect::link::Uplink;
use super::collect::tls;
use super::collect::wire::Address;
use super::enforce::{self, Hand};
use super::host::{Runner, Times, lab_fabric, place};
use crate::interrupt::{self, Interrupt};
use crate::out::{errln, outln};
use crate::session::lab_host;
use crate::usage::usage;
use crate::watch::unix_ms;

/// Arguments of `mrc mapper agent`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mrc mapper agent --lab hA                                                   on a host of the lab
  mrc mapper agent --host-file /etc/mrc/mrc.toml --fabric 2,2,4,2 --key /etc/mrc/mapper.key    on a real host

Needs CAP_NET_RAW and, for a lab host, the right to enter its namespace. Runs beside a program that uses MRC on the same
interfaces. What it reports is what this host's own probes show; `mrc mapper trial` shows what all agents together see. Exit codes: 0 time over, 1 failed, 2 usage, 130 interrupted.")]
pub struct Args {
    /// Host of the lab fabric to run on, e.g. hA
    #[arg(long, value_name = "HOST", required_unless_present = "host_file")]
    lab: Option<String>,
    /// This host, outside the lab: its host file (docs/verbs.md). Its SIDs must be BLOCK:3PHH::, with plane P and host number HH
    #[arg(long, value_name = "FILE", conflicts_with = "lab", requires_all = ["fabric", "key"])]
    host_file: Option<PathBuf>,
    /// The fabric of --host-file: planes, T0 and T1 per plane, hosts. Host H is under T0 number H modulo T0s
    #[arg(long, value_name = "PLANES,T0,T1,HOSTS", value_parser = super::collect::fabric, requires = "host_file")]
    fabric: Option<Fabric>,
    /// First part of the lab's namespace names
    #[arg(long, default_value = "mrc")]
    prefix: String,
    /// Milliseconds between the probes of a path
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    interval: u64,
    /// Milliseconds after which a probe is lost
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
    timeout: u64,
    /// Milliseconds after which a probe of a path is as long as a full data packet: it finds links of too small an MTU; 0 = never
    #[arg(long, value_name = "MILLISECONDS", default_value_t = FULL_EVERY.as_millis() as u64)]
    full_every: u64,
    /// File with the 16 bytes of the fabric's key; made by the first agent of a lab. None: the lab's own file
    #[arg(long)]
    key: Option<PathBuf>,
    /// Deny planes of this host's devices as this file says (`mrc mapper policy` shows one); only says so without --apply
    #[arg(long)]
    policy: Option<PathBuf>,
    /// Give the devices their denylists over their control sockets
    #[arg(long, requires = "policy")]
    apply: bool,
    /// Also report to the collector at this address (`mrc mapper collect`): 127.0.0.1:9713, NAME:9713, or the path of its Unix socket
    #[arg(long, value_name = "ADDRESS")]
    collector: Option<Address>,
    #[command(flatten)]
    tls: tls::Certificates,
    /// Stop after so many seconds; none = until Ctrl-C
    #[arg(long)]
    seconds: Option<u64>,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

/// Full probes take 1.2 Mb/s of a port, whatever the interval: with a probe each millisecond all together stays below 10 Mb/s.
pub const FULL_EVERY: Duration = Duration::from_millis(200);

/// Shortest time between two summaries for a collector. At a probe per millisecond rounds are shorter.
const REPORT: Duration = Duration::from_millis(100);

/// Reads a key; makes the file, readable by its owner alone, when there is none.
pub fn key(path: &Path) -> anyhow::Result<Key> {
    let mut read = std::fs::read(path);
    if read.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        if let Some(folder) = path.parent() {
            // An error shows when the file cannot be made.
            let _ = std::fs::create_dir_all(folder);
        }
        let made =
            make_key(path).with_context(|| format!("there is no key {}, and none can be made", path.display()))?;
        if made {
            errln!(
                "mrc: there was no key {}; made one: all agents of a fabric and its collector need the same",
                path.display()
            );
        }
        read = std::fs::read(path);
    }
    let bytes = read.with_context(|| format!("cannot read the key {}", path.display())).map_err(usage)?;
    if let Some(warning) = open_to_others(path) {
        errln!("mrc: {warning}");
    }
    let length = bytes.len();
    let bytes = <[u8; 16]>::try_from(bytes);
    bytes.map(Key::new).map_err(|_| usage(anyhow::anyhow!("{} has {length} bytes: a key has 16", path.display())))
}

/// What is wrong with the rights of a key's file, if others than its owner and group may read or write it: who has the key can
/// forge probes and reports of the whole fabric.
fn open_to_others(path: &Path) -> Option<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    let path = path.display();
    (mode & 0o007 != 0).then(|| {
        format!("every user of this machine can open the key {path} (mode {mode:o}) and forge probes with it: chmod 600 {path}")
    })
}

/// Makes the file of a key whole, unless somebody else was faster: agents of one fabric begin together, and none may read a
/// file that another has not written yet. Returns whether this key is the file's.
fn make_key(path: &Path) -> anyhow::Result<bool> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let mut whole = path.as_os_str().to_owned();
    whole.push(format!(".{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&whole)?.write_all(&random_key()?)?;
    let linked = std::fs::hard_link(&whole, path);
    std::fs::remove_file(&whole)?;
    match linked {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(true),
    }
}

/// Sixteen random bytes.
pub fn random_key() -> anyhow::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no random number: {error}"))?;
    Ok(bytes)
}

impl Args {
    /// The host to run on, and its fabric.
    fn host(&self) -> anyhow::Result<(HostFile, Fabric)> {
        if let (Some(path), Some(fabric)) = (&self.host_file, self.fabric) {
            return Ok((HostFile::read(path)?, fabric));
        }
        let name = self.lab.as_deref().unwrap_or_default();
        let Ok(Component::Host(_)) = name.parse() else {
            return Err(usage(anyhow::anyhow!("`{name}` is no host: write hA, hB, ...")));
        };
        let fabric = mrc_lab::Fabric::discover(&self.prefix)?;
        Ok((lab_host(&fabric, name)?, lab_fabric(&fabric)))
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    args.collector.as_ref().map_or(Ok(()), |address| address.check(args.tls.is_set())).map_err(usage)?;
    let certificates = args.tls.client()?;
    let (host, fabric) = args.host()?;
    let number = place(&host, &fabric)?.number;
    let key = key(&args.key.clone().unwrap_or_else(|| mrc_lab::folder(&args.prefix).join("mapper.key")))?;
    let times = Times {
        interval: Duration::from_millis(args.interval),
        timeout: Duration::from_millis(args.timeout.max(args.interval)),
        full_every: Duration::from_millis(args.full_every),
    };
    let mut runner = Runner::new(&host, fabric, key, times)?;
    let plan = runner.agent().plan();
    let (paths, bits) = (plan.paths().len(), plan.bits_per_second(args.interval * 1_000_000));
    say(args.json, json!({ "event": "started", "host": host_name(number), "paths": paths, "bits_per_second": bits }));
    let uplink = args.collector.clone().map(|address| Uplink::start(address, key, certificates)).transpose()?;
    let (mut lost, mut unsent, mut reported) = (0, None::<Summary>, Instant::now());
    let mut view = View::new(fabric, ViewConfig { viewpoint: Some(number), ..ViewConfig::default() });
    let policy = args.policy.as_deref().map(enforce::read).transpose()?;
    let mut hand = policy.map(|policy| Hand::new(fabric, (number, &host.name), policy, args.apply)).transpose()?;
    let (interrupt, start) = (Interrupt::install()?, Instant::now());
    let over = || args.seconds.is_some_and(|seconds| start.elapsed() >= Duration::from_secs(seconds));
    let mut round = Instant::now();
    while !interrupt.is_set() && !over() {
        runner.turn()?;
        while let Some(event) = runner.agent().poll_event() {
            say(args.json, serde_json::to_value(event)?);
        }
        if round.elapsed() >= times.interval * 10 {
            round = Instant::now();
            let summary = runner.agent().summary();
            view.add(&summary)?;
            if let Some(uplink) = &uplink {
                match &mut unsent {
                    Some(unsent) => unsent.extend(summary),
                    None => unsent = Some(summary),
                }
                if reported.elapsed() >= REPORT
                    && let Some(summary) = unsent.take()
                {
                    reported = Instant::now();
                    lost += u64::from(!uplink.send(summary));
                }
            }
            for change in view.judge() {
                say(args.json, told(&change));
            }
            let faulty: Vec<_> = view.faulty().cloned().collect();
            for told in hand.iter_mut().flat_map(|hand| hand.act(&faulty)) {
                say(args.json, serde_json::to_value(told)?);
            }
        }
    }
    say(args.json, json!({ "event": "stopped", "stats": runner.agent().stats(), "summaries_lost": lost }));
    Ok(if interrupt.is_set() { ExitCode::from(interrupt::EXIT_CODE) } else { ExitCode::SUCCESS })
}

/// What happened, as a line of JSON: when, and what.
pub fn line(mut event: serde_json::Value) -> String {
    event["unix_ms"] = unix_ms().into();
    event.to_string()
}

/// A change as it is printed.
pub fn told(change: &Change) -> serde_json::Value {
    match change {
        Change::Faulty { finding } => json!({
            "event": "faulty", "component": finding.component, "loss": finding.loss, "evidence": finding.evidence,
            "or": finding.instead,
        }),
        Change::Healthy { component } => json!({ "event": "healthy", "component": component }),
    }
}

fn say(json: bool, value: serde_json::Value) {
    if json {
        outln!("{}", line(value));
        return;
    }
    let name = value["event"].as_str().unwrap_or_default();
    let rest: Vec<String> = value
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| *key != "event")
        .map(|(key, value)| format!("{key} {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        .collect();
    outln!("{name} {}", rest.join(", "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_every_user_can_open_is_told() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../target/tmp/rights-{}", std::process::id()));
        let path = folder.join("a.key");
        key(&path).unwrap();
        assert_eq!(open_to_others(&path), None, "one that was made here");
        for (mode, told) in [(0o640, false), (0o644, true), (0o602, true)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let warning = open_to_others(&path);
            assert_eq!(warning.is_some(), told, "{mode:o}: {warning:?}");
            assert!(warning.is_none_or(|text| text.contains("chmod 600") && text.contains(&format!("{mode:o}"))));
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// A key that is there and cannot be read is not made anew.
    #[test]
    fn why_there_is_no_key_is_told() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../target/tmp/none-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("folder.key")).unwrap();
        std::fs::write(folder.join("file"), "").unwrap();
        for (path, told) in [("folder.key", "cannot read the key "), ("file/a.key", "cannot read the key ")] {
            let text = key(&folder.join(path)).unwrap_err().to_string();
            assert!(text.starts_with(told), "{text}");
        }
        let text = key(Path::new("/proc/mrc/a.key")).unwrap_err().to_string();
        assert_eq!(text, "there is no key /proc/mrc/a.key, and none can be made");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn agents_that_begin_together_have_one_key() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../target/tmp/keys-{}", std::process::id()));
        for round in 0..200 {
            let path = folder.join(format!("{round}.key"));
            let start = std::sync::Barrier::new(8);
            let keys: Vec<Key> = std::thread::scope(|scope| {
                let begin = || {
                    start.wait();
                    key(&path).unwrap()
                };
                let agents: Vec<_> = (0..8).map(|_| scope.spawn(begin)).collect();
                agents.into_iter().map(|agent| agent.join().unwrap()).collect()
            });
            assert!(keys.iter().all(|key| *key == keys[0]), "round {round}");
        }
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 200);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
