//! `mrc control`: asks running devices over their control sockets, and gives them denylists.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Subcommand;
use mrc_verbs_shim::control::{
    Client, Deny, Denylist, Devices, Effect, Events, Found, Recorded, Request, State, all_devices,
};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::out::{count, errln, outln};
use crate::usage::usage;

/// Arguments of `mrc control`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mrc control state                        devices, planes, queue pairs and entropy values as JSON
  mrc control events                       what happened to each device
  mrc control deny --plane 1 --seconds 60  send nothing through plane 1 for a minute
  mrc control deny --plane 1 --dry-run     only say what that would do
  mrc control record                       write down the last packets and events of each device
  mrc control denylist                     denylists in force
  mrc control allow                        end the denylist given here

A device listens on a Unix socket that only its user and root can open: in /run/mrc/engines for root's programs, else in
$XDG_RUNTIME_DIR/mrc-engines or /tmp/mrc-engines-UID. Root sees every program, others their own. A denylist ends by itself;
it never takes the last plane that is up, nor the last path of a queue pair. What was denied is GOOD afterwards, and
MRC's own losses and probes judge it.
Exit codes: 0 done; 1 no device runs, one refused, or the folder of sockets is refused; 2 usage.")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
    /// Only this process
    #[arg(long, global = true)]
    pid: Option<u32>,
}

#[derive(Subcommand)]
enum Action {
    /// Print everything that changes, one JSON object per device
    State,
    /// Print events of each device
    Events {
        /// Only events with a higher number
        #[arg(long, default_value_t = 0)]
        after: u64,
        /// One JSON object per device
        #[arg(long)]
        json: bool,
    },
    /// Write down the packet heads and events that each device's flight recorder holds; it then begins anew
    Record {
        /// One JSON object per device
        #[arg(long)]
        json: bool,
    },
    /// Print denylists in force, one JSON object per device
    Denylist,
    /// Deny planes or entropy values; replaces an earlier list of the same name
    #[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["planes", "evs"])))]
    Deny {
        /// Plane, from 0; may be repeated
        #[arg(long = "plane")]
        planes: Vec<u8>,
        /// Compact entropy value (plane in bits 11 to 8, uplink in bits 7 to 0), e.g. 0x102; may be repeated
        #[arg(long = "ev", value_parser = ev)]
        evs: Vec<u32>,
        /// Seconds until it ends by itself
        #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
        seconds: u32,
        /// Name of the list
        #[arg(long, default_value = "operator")]
        by: String,
        /// Why, for those who ask later
        #[arg(long, default_value = "")]
        because: String,
        /// Only say what it would do
        #[arg(long)]
        dry_run: bool,
    },
    /// End a denylist
    Allow {
        /// Name of the list
        #[arg(long, default_value = "operator")]
        by: String,
    },
}

fn ev(text: &str) -> Result<u32, String> {
    let parsed = text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u32::from_str_radix(hex, 16));
    let parsed = parsed.map_err(|_| format!("`{text}` is no entropy value: write 258 or 0x102"))?;
    if parsed > 0xFFF {
        return Err(format!("`{text}` has more than 12 bits: plane in bits 11 to 8, uplink in bits 7 to 0"));
    }
    Ok(parsed)
}

fn ask<T: DeserializeOwned>(found: &Found, request: &Request) -> anyhow::Result<T> {
    Client::connect(&found.path)
        .and_then(|mut client| client.ask(request))
        .with_context(|| format!("pid {}", found.pid))
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Devices { found: mut devices, refused, .. } = all_devices();
    devices.retain(|found| args.pid.is_none_or(|pid| found.pid == pid));
    let mut failed = devices.is_empty() || refused.is_some();
    if let Some(why) = refused {
        errln!("mrc: {why}");
    } else if failed {
        match args.pid {
            Some(pid) => errln!("mrc: process {pid} is no program with a device that this user may ask"),
            None => errln!("mrc: no program that this user may ask has a device open"),
        }
    }
    let request = request(args.action)?;
    for found in &devices {
        if let Err(error) = one(found, &request) {
            errln!("mrc: {error:#}");
            failed = true;
        }
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A request, and whether its answer is printed as JSON.
fn request(action: Action) -> anyhow::Result<(Request, bool)> {
    Ok(match action {
        Action::State => (Request::State { evs: true }, true),
        Action::Events { after, json } => (Request::Events { after }, json),
        Action::Record { json } => (Request::Record, json),
        Action::Denylist => (Request::Denylist, true),
        Action::Allow { by } => (Request::Allow { by }, false),
        Action::Deny { planes, evs, seconds, by, because, dry_run } => {
            if by.is_empty() {
                return Err(usage(anyhow::anyhow!("--by needs a name")));
            }
            let (planes, evs) = (planes.into_iter().collect(), evs.into_iter().collect());
            (Request::Deny(Deny { by, planes, evs, seconds, because, dry_run }), false)
        }
    })
}

fn one(found: &Found, (request, json): &(Request, bool)) -> anyhow::Result<()> {
    match request {
        Request::State { .. } | Request::Stats => outln!("{}", serde_json::to_string(&ask::<State>(found, request)?)?),
        Request::Denylist => {
            let lists: Vec<Denylist> = ask(found, request)?;
            outln!("{}", json!({ "pid": found.pid, "denylists": lists }));
        }
        Request::Events { .. } => {
            let events: Events = ask(found, request)?;
            if *json {
                outln!("{}", json!({ "pid": found.pid, "events": events.events, "lost": events.lost }));
                return Ok(());
            }
            outln!("pid {}: {}", found.pid, count(events.events.len(), "event"));
            for event in events.events {
                let (seconds, ms) = (event.unix_ms / 1000, event.unix_ms % 1000);
                outln!("{:>6} {seconds}.{ms:03} {}", event.number, event.text);
            }
        }
        Request::Record => {
            let recorded: Recorded = ask(found, request)?;
            if *json {
                outln!("{}", json!({ "pid": found.pid, "recorded": recorded }));
                return Ok(());
            }
            let Recorded { path, packets, packets_lost, events } = recorded;
            let (packets, events) = (count(packets as usize, "packet"), count(events as usize, "event"));
            outln!("pid {}: {packets} (after {packets_lost} older ones) and {events} in {}", found.pid, path.display());
        }
        Request::Deny(Deny { dry_run, .. }) => tell(found, &ask(found, request)?, *dry_run),
        Request::Allow { .. } => tell(found, &ask(found, request)?, false),
    }
    Ok(())
}

fn tell(found: &Found, effect: &Effect, dry_run: bool) {
    let verb = if dry_run { "would be denied" } else { "denied" };
    let spared = match effect.spared {
        0 => String::new(),
        some => format!("; {} spared, since nothing usable would remain", count(some, "profile")),
    };
    let absent = match effect.absent {
        0 => String::new(),
        some => format!("; no path has {} of the denylists now", count(some, "entropy value")),
    };
    outln!("pid {}: {} {verb}{spared}{absent}", found.pid, count(effect.denied, "path"));
}
