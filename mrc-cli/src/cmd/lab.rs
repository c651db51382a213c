//! `mrc lab`: a fabric of network namespaces whose switches are Linux kernels.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{ArgGroup, Subcommand};
use mrc_lab::{Fabric, Impairment, LinkState, Shape, VirtualQueue, parse_ppm, parse_rate, parse_size};

use crate::interrupt::{self, Interrupt};
use crate::out::{count, errln, out, outln};
use crate::session::lab_host;
use crate::trial;
use crate::usage::usage;

/// Arguments of `mrc lab`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mrc lab up                          2 planes, each with 2 T0 and 4 T1 switches, 2 hosts
  mrc lab up --planes 4 --hosts 8     more of everything
  mrc lab status                      links and switches, with the kernel's packet counters
  mrc lab cut p0-t0a-t1c              break a link between a T0 and a T1 switch
  mrc lab heal p0-t0a-t1c             and mend it
  mrc lab withdraw 1                  take plane 1 from every host; `restore 1` gives it back
  mrc lab impair --all --loss 1%      every link loses 1 % of its packets in each direction
  mrc lab impair p0-t0a-t1c:up --loss 5%
                                      only the direction away from the hosts (`:down`: towards them)
  mrc lab impair p0-hB --trim 10%     the last hop to host B trims
  mrc lab impair --plane 0 --queue 1gbit,60kb,200kb,1mb
                                      each port marks above 60 kB, trims above 200 kB, drops above 1 MB
  mrc lab slow p0-hB --rate 50mbit    a real queue in front of a slow link; --clear ends it
  mrc lab counters --json             what the switches forwarded, lost, trimmed and marked
  mrc lab impair --all --clear        all is well again
  mrc lab host hA --out hA.json       what a driver on host A must know
  MRC_CONFIG=/run/mrc/mrc/hA.toml ip netns exec mrc-hA mrc verbs-run -- ibv_devinfo
                                      a verbs program on host A; `up` writes that file for each host
  mrc lab down                        remove every namespace of the fabric
  mrc lab trial                       a transfer through loss, trimming, a marking queue and a lost plane, on a fabric
                                      of its own; the counters of switches and engines compared

Needs root and iproute2 6.1 or newer. Namespaces are called PREFIX-hA, PREFIX-p0-t0a, ...
Exit codes: 0 done, 1 it failed, 2 usage (an impossible shape, no such link or host), 3 root, iproute2 or a kernel module is
missing, 130 interrupted.")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
    /// First part of every namespace's name
    #[arg(long, global = true, default_value = PREFIX)]
    prefix: String,
    /// Print JSON instead of a table
    #[arg(long, global = true)]
    json: bool,
}

/// First part of the names of namespaces, where none is given.
const PREFIX: &str = "mrc";

#[derive(Subcommand)]
enum Action {
    /// Build the fabric; one that stands under the same prefix is replaced
    Up {
        /// Independent networks
        #[arg(long, default_value_t = 2)]
        planes: u8,
        /// T0 (leaf) switches per plane
        #[arg(long, default_value_t = 2)]
        t0: u8,
        /// T1 (spine) switches per plane
        #[arg(long, default_value_t = 4)]
        t1: u8,
        /// Hosts; host i hangs under T0 number i modulo the number of T0
        #[arg(long, default_value_t = 2)]
        hosts: u8,
        /// MTU of every link, in bytes
        #[arg(long, default_value_t = 9000)]
        mtu: u32,
    },
    /// Remove the fabric, and those that demos and trials left behind when they were killed
    Down,
    /// Show hosts, links and switches
    Status,
    /// Show packets forwarded by each T1 switch, and what impaired links lost, trimmed and marked
    Counters,
    /// Make links lose, trim or mark packets; replaces an earlier impairment of the same links
    Impair(Impair),
    /// Slow links to a rate where switches send: packets wait in real queues
    Slow(Slow),
    /// Write through switches that lose, trim, mark and lose a plane; check every byte and compare all counters
    Trial {
        /// Seconds of each of the five phases
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
        seconds: u64,
    },
    /// Take a plane from every host: their ports lose the carrier
    Withdraw {
        /// Plane, from 0
        plane: u8,
    },
    /// Give a withdrawn plane back
    Restore {
        /// Plane, from 0
        plane: u8,
    },
    /// Break a link
    Cut {
        /// Name as shown by `mrc lab status`, e.g. p0-t0a-t1c or p1-hB
        link: String,
    },
    /// Mend a link
    Heal {
        /// Name as shown by `mrc lab status`
        link: String,
    },
    /// Write the host file that `mrc write-bw --host-file` reads
    Host {
        /// Host, e.g. hA
        host: String,
        /// As `MRC_CONFIG` wants it
        #[arg(long)]
        toml: bool,
        /// File to write; none = standard output
        #[arg(long)]
        out: Option<PathBuf>,
    },
}

/// Which links.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Links {
    /// Name as shown by `mrc lab status`
    link: Option<String>,
    /// Every link
    #[arg(long)]
    all: bool,
    /// Every link of this plane, from 0
    #[arg(long)]
    plane: Option<u8>,
}

impl Links {
    /// As the fabric calls them.
    fn name(&self) -> String {
        match (&self.link, self.plane) {
            (Some(link), _) => link.clone(),
            (None, Some(plane)) => format!("p{plane}"),
            (None, None) => "all".to_owned(),
        }
    }
}

/// Arguments of `mrc lab slow`.
#[derive(clap::Args)]
#[command(group(ArgGroup::new("speed").required(true).args(["rate", "clear"])))]
struct Slow {
    #[command(flatten)]
    links: Links,
    /// Rate, e.g. 50mbit
    #[arg(long, value_parser = parse_rate)]
    rate: Option<u64>,
    /// Bytes that may wait, e.g. 300kb; 16 MiB without
    #[arg(long, value_parser = parse_size, requires = "rate")]
    queue: Option<u64>,
    /// Full speed again
    #[arg(long)]
    clear: bool,
}

impl Slow {
    fn run(&self, fabric: &Fabric, json: bool) -> anyhow::Result<()> {
        let what = self.links.name();
        match self.rate {
            Some(rate) => fabric.slow(&what, rate, self.queue)?,
            None => fabric.unslow(&what)?,
        }
        say(json, &what, if self.rate.is_some() { "slowed" } else { "at full speed" });
        Ok(())
    }
}

/// Arguments of `mrc lab impair`.
#[derive(clap::Args)]
#[command(group(ArgGroup::new("what").required(true).multiple(true).args(["loss", "trim", "ce", "queue", "clear"])))]
struct Impair {
    #[command(flatten)]
    links: Links,
    /// Share of packets lost at random, e.g. 1%
    #[arg(long, value_parser = parse_ppm)]
    loss: Option<u32>,
    /// Share of trimmable packets (DSCP 4 and 8) trimmed at random, e.g. 10%
    #[arg(long, value_parser = parse_ppm)]
    trim: Option<u32>,
    /// Share of ECN-capable packets marked at random, e.g. 10%; never on the last hop
    #[arg(long, value_parser = parse_ppm)]
    ce: Option<u32>,
    /// Virtual queue: rate, and the backlogs above which it marks, trims and drops, e.g. 1gbit,60kb,200kb,1mb
    #[arg(long, value_name = "RATE,MARK,TRIM,DROP")]
    queue: Option<VirtualQueue>,
    /// Seed of the random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// End all impairments of these links
    #[arg(long, conflicts_with_all = ["loss", "trim", "ce", "queue"])]
    clear: bool,
}

impl Impair {
    fn run(&self, fabric: &Fabric, json: bool) -> anyhow::Result<()> {
        let what = self.links.name();
        if self.clear {
            fabric.clear(&what)?;
            say(json, &what, "cleared");
            return Ok(());
        }
        let impairment = Impairment {
            loss_ppm: self.loss.unwrap_or(0),
            trim_ppm: self.trim.unwrap_or(0),
            ce_ppm: self.ce.unwrap_or(0),
            queue: self.queue,
            seed: self.seed,
        };
        fabric.impair(&what, &impairment)?;
        say(json, &what, "impaired");
        Ok(())
    }
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let prefix = args.prefix;
    match args.action {
        Action::Up { planes, t0, t1, hosts, mtu } => {
            let interrupt = Interrupt::install()?;
            let fabric = Fabric::up(Shape { prefix, planes, t0, t1, hosts, mtu });
            if interrupt.is_set() {
                // A fabric that failed is removed already.
                fabric.ok().map(Fabric::down).transpose()?;
                return Ok(ExitCode::from(interrupt::EXIT_CODE));
            }
            let fabric = fabric?;
            let directory = write_configurations(&fabric)?;
            if args.json {
                outln!("{}", serde_json::to_string(&fabric.status()?)?);
            } else {
                let shape = fabric.shape();
                outln!(
                    "fabric `{}` is up: {} hosts, {}, each with {} T0 and {} T1 switches",
                    shape.prefix,
                    shape.hosts,
                    count(shape.planes.into(), "plane"),
                    shape.t0,
                    shape.t1
                );
                outln!("each host's configuration: {}", directory.join("hA.toml").display());
            }
        }
        Action::Down => {
            mrc_lab::requirements()?;
            let removed = Fabric::remove(&prefix)? + Fabric::remove_abandoned()?;
            if args.json {
                outln!("{}", serde_json::json!({ "removed": removed }));
            } else {
                outln!("{} removed", count(removed, "namespace"));
            }
        }
        Action::Status => status(&Fabric::discover(&prefix)?, args.json)?,
        Action::Counters => {
            counters(&Fabric::discover(&prefix)?, args.json)?;
        }
        Action::Impair(impair) => impair.run(&Fabric::discover(&prefix)?, args.json)?,
        Action::Slow(slow) => slow.run(&Fabric::discover(&prefix)?, args.json)?,
        Action::Trial { .. } if prefix != PREFIX => {
            return Err(usage(anyhow::anyhow!("the trial builds a fabric of its own: --prefix has no effect on it")));
        }
        Action::Trial { seconds } => return run_trial(seconds, args.json),
        Action::Withdraw { plane } => {
            Fabric::discover(&prefix)?.withdraw(plane)?;
            say(args.json, &format!("p{plane}"), "withdrawn");
        }
        Action::Restore { plane } => {
            Fabric::discover(&prefix)?.restore(plane)?;
            say(args.json, &format!("p{plane}"), "restored");
        }
        Action::Cut { link } => {
            Fabric::discover(&prefix)?.cut(&link)?;
            say(args.json, &link, "cut");
        }
        Action::Heal { link } => {
            Fabric::discover(&prefix)?.heal(&link)?;
            say(args.json, &link, "healed");
        }
        Action::Host { host, toml, out } => {
            let fabric = Fabric::discover(&prefix)?;
            let text = match toml {
                true => lab_host(&fabric, &host)?.to_toml(),
                false => serde_json::to_string_pretty(&fabric.host(&host)?)?,
            };
            match out {
                Some(path) => std::fs::write(&path, text + "\n")
                    .map_err(|error| anyhow::anyhow!("cannot write {}: {error}", path.display()))?,
                None => outln!("{text}"),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes what `MRC_CONFIG` should name on each host.
fn write_configurations(fabric: &Fabric) -> anyhow::Result<PathBuf> {
    let directory = mrc_lab::folder(&fabric.shape().prefix);
    std::fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    // A fabric that was here before may have had more hosts.
    for old in std::fs::read_dir(&directory)?.flatten().map(|file| file.path()) {
        if old.extension().is_some_and(|extension| extension == "toml") {
            std::fs::remove_file(&old).with_context(|| format!("cannot remove {}", old.display()))?;
        }
    }
    for name in fabric.status()?.hosts {
        let path = directory.join(format!("{name}.toml"));
        let text = format!("# Host {name} of the lab fabric, by `mrc lab up`.\n{}", lab_host(fabric, &name)?.to_toml());
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(directory)
}

fn run_trial(seconds: u64, json: bool) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::install()?;
    let report = trial::run(Duration::from_secs(seconds), &interrupt)?;
    if json {
        outln!("{}", serde_json::to_string(&report)?);
    } else {
        out!("{}", report.table());
    }
    if interrupt.is_set() {
        errln!("interrupted after {} phases; the fabric is removed", report.phases.len());
        return Ok(ExitCode::from(interrupt::EXIT_CODE));
    }
    Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn say(json: bool, link: &str, what: &str) {
    if json {
        outln!("{}", serde_json::json!({ "link": link, "state": what }));
    } else {
        outln!("{link} {what}");
    }
}

fn counters(fabric: &Fabric, json: bool) -> anyhow::Result<()> {
    let (t1_packets, impaired, slowed) = (fabric.t1_packets()?, fabric.impaired()?, fabric.slowed()?);
    let missing = fabric.missing()?;
    if json {
        let report = serde_json::json!({
            "t1_packets": t1_packets, "impaired": impaired, "slowed": slowed, "missing": missing
        });
        outln!("{report}");
        return Ok(());
    }
    for (name, packets) in t1_packets {
        outln!("{name:<10} {packets:>14} packets");
    }
    for name in missing {
        outln!("{name:<10} {:>14}", "MISSING");
    }
    if !impaired.is_empty() {
        outln!(
            "\n{:<24} {:>12} {:>9} {:>9} {:>9} {:>9}",
            "impaired",
            "packets",
            "lost",
            "dropped",
            "trimmed",
            "marked"
        );
    }
    for port in impaired {
        let (name, n) = (format!("{} to {}", port.from, port.to), port.counters);
        outln!("{name:<24} {:>12} {:>9} {:>9} {:>9} {:>9}", n.packets, n.lost, n.dropped, n.trimmed, n.marked);
    }
    if !slowed.is_empty() {
        outln!("\n{:<24} {:>12} {:>9} {:>9} {:>9}", "slowed", "packets", "waits", "dropped", "waiting B");
    }
    for port in slowed {
        let name = format!("{} to {}", port.from, port.to);
        outln!("{name:<24} {:>12} {:>9} {:>9} {:>9}", port.packets, port.waits, port.dropped, port.backlog_bytes);
    }
    Ok(())
}

fn status(fabric: &Fabric, json: bool) -> anyhow::Result<()> {
    let status = fabric.status()?;
    if json {
        outln!("{}", serde_json::to_string(&status)?);
        return Ok(());
    }
    outln!("hosts     {}", status.hosts.join(" "));
    outln!("\n{:<16} state", "link");
    for link in &status.links {
        let state = match link.state {
            LinkState::Up => "up",
            LinkState::Cut => "CUT",
            LinkState::Missing => "MISSING",
        };
        outln!("{:<16} {state}", link.name);
    }
    outln!("\n{:<16} {:>14}", "switch", "packets");
    for switch in &status.switches {
        match switch.packets {
            Some(packets) => outln!("{:<16} {packets:>14}", switch.name),
            None => outln!("{:<16} {:>14}", switch.name, "MISSING"),
        }
    }
    Ok(())
}
