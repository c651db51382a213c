//! `mrc conform`: hold an MRC endpoint against the scripts, or be the endpoint that is held.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use mrc_conform::control::PORT;
use mrc_conform::{Fault, KNOBS, Knobs, LACKS, Outcome, Script, builtin, engine, load_tree, run as play};
use serde_json::json;

use crate::conform::link::{Driver, Lines};
use crate::conform::report::Report;
use crate::conform::serve::{Serve, serve};
use crate::conform::tester::{Door, Tester};
use crate::out::{out, outln};
use crate::usage::usage;

/// Plays the conformance scripts against an MRC endpoint over a wire, or against the engine in virtual time.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mrc conform                                      all scripts against the engine, in virtual time
  mrc conform --filter SACK-008 --filter nack/     those of a requirement and those of a folder
  mrc conform --iface eth1 --serve                 be the target ...
  mrc conform --iface eth1 --peer 192.0.2.2        ... that another host tests, its control connection over TCP
  mrc conform --iface eth1 --setup nic.json        a target without one
  mrc conform --iface eth1 --peer 192.0.2.2 --knob pdcid_order=requester
                                                   a target that reads an open question the other way

Exit codes: 0 every script passed or does not apply, 1 one failed or could not be played, 2 usage.")]
pub struct Args {
    /// Interface towards the target; several, comma-separated, are its ports 1, 2, ... Without: virtual time
    #[arg(long, value_delimiter = ',')]
    iface: Vec<String>,
    /// Control connection of the target, ADDRESS or ADDRESS:PORT
    #[arg(long, requires = "iface")]
    peer: Option<String>,
    /// Set-up file of a target without control connection (docs/conformance.md)
    #[arg(long, requires = "iface")]
    setup: Option<PathBuf>,
    /// The target has this knob at this value in every script, NAME=VALUE; a script that needs another value does not apply.
    /// With --serve, the target's own. --list-knobs shows them all
    #[arg(long)]
    knob: Vec<String>,
    /// Only scripts with this requirement id, or with this text in their path
    #[arg(long)]
    filter: Vec<String>,
    /// Print the report, or the list of knobs, as JSON
    #[arg(long)]
    json: bool,
    /// Scripts from this folder instead of the built-in ones
    #[arg(long)]
    scripts: Option<PathBuf>,
    /// How interfaces are opened [default: raw for the tester, xdp for the target]
    #[arg(long)]
    driver: Option<Driver>,
    /// Play a script that fails over the wire so many times again before it counts, each time at half the speed
    #[arg(long, default_value_t = 2)]
    retries: u32,
    /// Be the target: this project's engine, set up anew for each script
    #[arg(long)]
    serve: bool,
    /// Where the target listens for its tester
    #[arg(long, default_value = "[::]:4970")]
    listen: String,
    /// Put this fault into the target: icrc-mask, sack-offset, skip-as-bad
    #[arg(long, requires = "serve")]
    fault: Option<String>,
    /// List the knobs a script can set, and what a target may lack
    #[arg(long)]
    list_knobs: bool,
}

/// Runs it; failing scripts make the exit code.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.list_knobs && args.json {
        let lacks = LACKS.iter().map(|(name, meaning)| json!({"name": name, "doc": meaning})).collect::<Vec<_>>();
        outln!("{}", serde_json::to_string_pretty(&json!({"knobs": KNOBS, "lacks": lacks}))?);
        return Ok(ExitCode::SUCCESS);
    }
    if args.list_knobs {
        for knob in KNOBS {
            outln!("{:<24} {:>8}  {:<5}  {}", knob.name, knob.default, knob.question, knob.doc);
        }
        for (name, meaning) in LACKS {
            outln!("lacks {name:<18}                  {meaning}");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut fixed = Knobs::default();
    for item in &args.knob {
        fixed.read(item).map_err(anyhow::Error::msg).context("--knob")?;
    }
    if args.serve {
        let fault = args.fault.as_deref().map(|name| {
            Fault::named(name).with_context(|| {
                let names: Vec<&str> = Fault::ALL.iter().map(|(known, _)| *known).collect();
                format!("no fault `{name}`; there are {}", names.join(", "))
            })
        });
        let driver = args.driver.unwrap_or(Driver::Xdp);
        if args.iface.is_empty() {
            return Err(usage(anyhow!("--serve needs --iface")));
        }
        serve(&Serve {
            interfaces: args.iface,
            driver,
            listen: args.listen,
            fault: fault.transpose().map_err(usage)?,
            fixed,
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut scripts = chosen(&args)?;
    if scripts.is_empty() {
        match &args.scripts {
            Some(folder) if args.filter.is_empty() => {
                return Err(usage(anyhow!("no script (*.mrc) below {}", folder.display())));
            }
            _ => {
                let why = anyhow!("no script matches the filter: a requirement id such as SACK-008, or part of a path");
                return Err(usage(why));
            }
        }
    }
    let mut report = Report::default();
    let say = |line: String| {
        if !args.json {
            outln!("{line}");
        }
    };
    let mut tester = match args.iface.is_empty() {
        true => None,
        false => {
            let door = door(&args)?;
            Some(Tester::new(&args.iface, args.driver.unwrap_or(Driver::Raw), door, args.retries)?)
        }
    };
    for script in &mut scripts {
        let outcome = match (script.knobs.fix(&fixed), &mut tester) {
            (Err(why), _) => Outcome::not_applicable(script, why),
            (Ok(()), Some(tester)) => tester.play(script),
            (Ok(()), None) => {
                let played = engine::with_virtual(&script.knobs, |target, facts| play(script, facts, target));
                played.with_context(|| script.file.clone())?
            }
        };
        say(report.add(outcome));
    }
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        out!("{}", report.summary());
    }
    let good = report.failed == 0 && report.broken == 0;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn chosen(args: &Args) -> anyhow::Result<Vec<Script>> {
    let scripts = match &args.scripts {
        Some(folder) => load_tree(folder)?,
        None => builtin()?,
    };
    let wanted = |script: &Script| {
        let matches = |filter: &String| script.requires.contains(filter) || script.file.contains(filter.as_str());
        args.filter.is_empty() || args.filter.iter().any(matches)
    };
    Ok(scripts.into_iter().filter(wanted).collect())
}

fn door(args: &Args) -> anyhow::Result<Door> {
    if let Some(file) = &args.setup {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        return Ok(Door::File(serde_json::from_str(&text).with_context(|| file.display().to_string())?));
    }
    let Some(peer) = &args.peer else {
        return Err(usage(anyhow!("name the target: --peer ADDRESS, or --setup FILE")));
    };
    let bare: Option<std::net::IpAddr> = peer.parse().ok();
    let address = bare.map_or_else(|| peer.clone(), |ip| std::net::SocketAddr::new(ip, PORT).to_string());
    // The target may still be starting.
    let give_up = Instant::now() + Duration::from_secs(5);
    loop {
        match TcpStream::connect(&address) {
            Ok(stream) => return Ok(Door::Control(Lines::new(stream)?)),
            Err(why) if Instant::now() > give_up => return Err(why).with_context(|| format!("connect to {address}")),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}
