//! `mrc conform`: test an MRC endpoint with the scripts, or be the endpoint under test.

use std::fmt::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, anyhow};
use mrc_conform::control::PORT;
use mrc_conform::{
    Certainty, Decision, Fault, KNOBS, Knobs, LACKS, Outcome, Requirement, Script, Verdict, Weight, builtin,
    builtin_text, engine, load_tree, nearest, run as play,
};
use serde_json::json;

use crate::color;
use crate::conform::files;
use crate::conform::link::{Driver, Lines};
use crate::conform::report::Report;
use crate::conform::serve::{Serve, serve};
use crate::conform::setup::Setup;
use crate::conform::tester::{Door, Tester};
use crate::out::{errln, out, outln};
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
  mrc conform --certainty 2+,1                     only rules that at least one source states
  mrc conform --html page.html --junit junit.xml --captures failed/
                                                   the certificate, the results for a test server, failed scripts as captures
  mrc conform --show SACK-008                      a requirement, its open questions and its scripts
  mrc conform --show sack/gap                      a script

Each line names the verdict, the level (must, should, may) and the certainty of the least sure requirement of the script:
2+ independent sources agree, 1 one source, D our decision, C our choice between sources that conflict.
A script that passes only when it is played again is flaky: no evidence for either side.

Exit codes: 0 every script passed or does not apply, 1 one failed, is flaky or could not be played, or none applies, 2 usage.")]
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
    /// Only scripts of this certainty, or several: 2+, 1, D, C
    #[arg(long, value_delimiter = ',', value_parser = certainty)]
    certainty: Vec<Certainty>,
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
    #[arg(long, conflicts_with_all = ["peer", "setup"])]
    serve: bool,
    /// Where the target listens for its tester
    #[arg(long, default_value = "[::]:4970", requires = "serve")]
    listen: String,
    /// Put this fault into the target: icrc-mask, sack-offset, skip-as-bad
    #[arg(long, requires = "serve")]
    fault: Option<String>,
    /// In virtual time: give the engine this knob without telling the tester, to see which scripts notice
    #[arg(long, value_name = "KNOB", conflicts_with_all = ["iface", "serve"])]
    target_knob: Vec<String>,
    /// Write the certificate, one HTML page, to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Name of the target on the certificate
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// Write the results as JUnit XML to this file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write a capture of each script that fails into this folder
    #[arg(long, value_name = "DIR")]
    captures: Option<PathBuf>,
    /// List the knobs a script can set, and what a target may lack
    #[arg(long)]
    list_knobs: bool,
    /// List the packet types a script can name, with headers, fields and widths
    #[arg(long, conflicts_with = "json")]
    list_fields: bool,
    /// Show a requirement with its scripts, an open question, or the text of a script
    #[arg(long, value_name = "ID|SCRIPT", conflicts_with = "json")]
    show: Option<String>,
}

/// Runs it; failing scripts make the exit code.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.list_knobs && args.json {
        let lacks = LACKS.iter().map(|(name, meaning)| json!({"name": name, "doc": meaning})).collect::<Vec<_>>();
        outln!("{}", serde_json::to_string_pretty(&json!({"knobs": KNOBS, "lacks": lacks}))?);
        return Ok(ExitCode::SUCCESS);
    }
    if args.list_fields {
        out!("{}", mrc_conform::list_fields());
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(name) = &args.show {
        out!("{}", show(name, args.scripts.as_deref()).map_err(usage)?);
        return Ok(ExitCode::SUCCESS);
    }
    if args.list_knobs {
        for knob in KNOBS {
            outln!("{:<24} {:>8}  {:<5}  {} ({})", knob.name, knob.default, knob.question, knob.doc, knob.values);
        }
        for (name, meaning) in LACKS {
            outln!("lacks {name:<18}                  {meaning}");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let fixed = knobs(&args.knob, "--knob")?;
    let hidden = knobs(&args.target_knob, "--target-knob")?;
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
                let why =
                    anyhow!("no script matches: --filter takes a requirement id such as SACK-008 or part of a path");
                return Err(usage(why));
            }
        }
    }
    let when = utc(SystemTime::now());
    let mut report = Report::default();
    let say = |line: String| {
        if !args.json {
            outln!("{}", color::verdict(line));
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
        let own = script.knobs.clone();
        let fits = script.knobs.fix(&fixed).and_then(|()| rests_on_no_default(script, &own, &fixed));
        let outcome = match (fits, &mut tester) {
            (Err(why), _) => Outcome::not_applicable(script, why),
            (Ok(()), Some(tester)) => tester.play(script),
            (Ok(()), None) => {
                let mut own = script.knobs.clone();
                for (name, value) in hidden.iter() {
                    own.set(name, value);
                }
                let played = engine::with_virtual(&own, |target, facts| play(script, facts, target));
                let played = played.with_context(|| script.file.clone());
                // Without knobs of the user the scripts' own are at fault.
                match args.knob.is_empty() && args.target_knob.is_empty() {
                    true => played?,
                    false => played.map_err(usage)?,
                }
            }
        };
        if let Some(folder) = &args.captures {
            files::capture(&outcome, folder)?;
        }
        say(report.add(outcome));
    }
    // Before the files: one that cannot be written costs nobody the results of a long run.
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        out!("{}", report.summary());
    }
    if let Some(path) = &args.junit {
        files::junit(&report, path)?;
    }
    if let Some(path) = &args.html {
        let by = match (&args.peer, &args.setup) {
            (Some(peer), _) => format!("{}, control connection to {peer}", args.iface.join(",")),
            (_, Some(file)) => format!("{}, set-up file {}", args.iface.join(","), file.display()),
            _ => "this program's engine in virtual time".to_string(),
        };
        let target = args.target.clone().or_else(|| args.peer.clone());
        let target = target.unwrap_or_else(|| "the engine of mrc".to_string());
        files::certificate(&report, &files::Test { target, by, knobs: fixed, when }, path)?;
    }
    if report.is_good() && report.passed == 0 {
        errln!("nothing was tested: no script applies to this target");
        return Ok(ExitCode::FAILURE);
    }
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether a script can be played against a target that has these knobs, whatever the script itself sets. Most scripts do
/// not name what they take for granted, such as the path MTU that their packets fill: the engine shows it, since a script
/// that it does not pass with a knob at another value than the default needs the default.
///
/// # Errors
/// The default that the script needs.
fn rests_on_no_default(script: &Script, own: &Knobs, fixed: &Knobs) -> Result<(), String> {
    let passes = |knobs: Knobs| {
        let mut script = script.clone();
        script.knobs = knobs;
        let outcome = engine::with_virtual(&script.knobs, |target, facts| play(&script, facts, target));
        outcome.is_ok_and(|outcome| outcome.verdict == Verdict::Pass)
    };
    let sets = |knobs: &Knobs, name: &str| knobs.iter().any(|(set, _)| set == name);
    let others: Vec<(&str, i64)> =
        fixed.iter().filter(|(name, value)| !sets(own, name) && Knobs::default().get(name) != *value).collect();
    if others.is_empty() || passes(script.knobs.clone()) {
        return Ok(());
    }
    let with = |name: &str, value: i64| {
        let mut knobs = own.clone();
        knobs.set(name, value);
        knobs
    };
    let to_blame = others.iter().find(|(name, value)| !passes(with(name, *value)));
    let (name, have) = to_blame.or(others.first()).copied().unwrap_or(("", 0));
    Err(format!("needs {name}={}; the target is set to {have}", Knobs::default().get(name)))
}

fn knobs(items: &[String], option: &'static str) -> anyhow::Result<Knobs> {
    let mut knobs = Knobs::default();
    for item in items {
        knobs.read(item).map_err(|why| usage(anyhow!("{option}: {why}")))?;
    }
    Ok(knobs)
}

fn certainty(tag: &str) -> Result<Certainty, String> {
    Certainty::named(tag).ok_or_else(|| format!("`{tag}` is none of 2+, 1, D, C"))
}

/// A requirement, an open question or a script in words. Scripts are those of `folder`, or the ones inside.
fn show(name: &str, folder: Option<&Path>) -> anyhow::Result<String> {
    let scripts = all_scripts(folder)?;
    let bare = name.trim_end_matches(".mrc");
    if let Some(script) = scripts.iter().find(|script| script.file.trim_end_matches(".mrc") == bare) {
        return match folder {
            Some(folder) => {
                let path = folder.join(&script.file);
                std::fs::read_to_string(&path).with_context(|| path.display().to_string())
            }
            None => Ok(builtin_text(bare).unwrap_or_default().to_string()),
        };
    }
    let mut text = String::new();
    let question = |text: &mut String, decision: &Decision| {
        let knobs = KNOBS.iter().filter(|knob| knob.question == decision.id).map(|knob| knob.name);
        let knobs: Vec<&str> = knobs.collect();
        let _ = writeln!(text, "{}  {}\n  here: {}", decision.id, decision.question, decision.decision);
        if !knobs.is_empty() {
            let _ = writeln!(text, "  knobs: {}", knobs.join(", "));
        }
    };
    if let Some(rule) = Requirement::named(name) {
        let (level, certainty) = (rule.level, rule.certainty);
        let _ = writeln!(text, "{name}  {level}, certainty {} ({})", certainty.tag(), certainty.meaning());
        let _ = writeln!(text, "  {}\n  register: {}", rule.summary, rule.source);
        if !rule.ocp.is_empty() {
            let _ = writeln!(text, "  OCP MRC 1.0: {}", rule.ocp);
        }
        rule.decisions().for_each(|decision| question(&mut text, decision));
        let scripts: Vec<Script> =
            scripts.into_iter().filter(|script| script.requires.iter().any(|id| id == name)).collect();
        text += if scripts.is_empty() { "no script tests it\n" } else { "scripts:\n" };
        for script in scripts {
            let _ = writeln!(text, "  {:<32} {}", script.file.trim_end_matches(".mrc"), script.title);
        }
        return Ok(text);
    }
    if let Some(decision) = Decision::named(name) {
        question(&mut text, decision);
        let _ = writeln!(text, "  requirements: {}", decision.requirements.join(", "));
        return Ok(text);
    }
    let ids = Requirement::all().iter().map(|rule| rule.id);
    let ids = ids.chain(Decision::all().iter().map(|decision| decision.id));
    let names = ids.chain(scripts.iter().map(|script| script.file.trim_end_matches(".mrc")));
    let hint = nearest(name, names).map_or(String::new(), |near| format!("; did you mean {near}?"));
    Err(anyhow!("no requirement, question or script `{name}`{hint}"))
}

/// `2026-03-01 12:00 UTC`, by the civil calendar.
fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days since 1 March of year 0, in eras of 400 years.
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{date:02} {:02}:{:02} UTC", second / 3_600, second / 60 % 60)
}

fn all_scripts(folder: Option<&Path>) -> anyhow::Result<Vec<Script>> {
    Ok(match folder {
        Some(folder) => load_tree(folder).map_err(usage)?,
        None => builtin()?,
    })
}

fn chosen(args: &Args) -> anyhow::Result<Vec<Script>> {
    let scripts = all_scripts(args.scripts.as_deref())?;
    let wanted = |script: &Script| {
        let matches = |filter: &String| script.requires.contains(filter) || script.file.contains(filter.as_str());
        let sure = args.certainty.is_empty() || args.certainty.contains(&Weight::of(&script.requires).certainty);
        sure && (args.filter.is_empty() || args.filter.iter().any(matches))
    };
    Ok(scripts.into_iter().filter(wanted).collect())
}

fn door(args: &Args) -> anyhow::Result<Door> {
    if let Some(file) = &args.setup {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string()).map_err(usage)?;
        let setup: Box<Setup> =
            serde_json::from_str(&text).with_context(|| file.display().to_string()).map_err(usage)?;
        setup.check().map_err(|why| usage(anyhow!("{}: {why}", file.display())))?;
        return Ok(Door::File(setup));
    }
    let Some(peer) = &args.peer else {
        return Err(usage(anyhow!("name the target: --peer ADDRESS, or --setup FILE")));
    };
    let (host, port) = control_address(peer).map_err(usage)?;
    // The target may still be starting.
    let give_up = Instant::now() + Duration::from_secs(5);
    loop {
        match TcpStream::connect((host, port)) {
            Ok(stream) => return Ok(Door::Control(Lines::new(stream)?)),
            Err(why) if Instant::now() > give_up => {
                return Err(why).with_context(|| format!("connect to {host}, port {port}"));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Host and port of a control connection: `192.0.2.2`, `name:4970`, `::1`, `fe80::2%eth1`, `[fe80::2%eth1]:4970`.
fn control_address(peer: &str) -> anyhow::Result<(&str, u16)> {
    let bare = |host| str::strip_prefix(host, "[").and_then(|host| host.strip_suffix(']'));
    match peer.rsplit_once(':') {
        // More colons are those of an IPv6 address.
        Some((host, port)) if !host.contains(':') || bare(host).is_some() => {
            let port = port.parse().map_err(|_| anyhow!("--peer {peer}: `{port}` is no TCP port"))?;
            Ok((bare(host).unwrap_or(host), port))
        }
        _ => Ok((bare(peer).unwrap_or(peer), PORT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_control_connection() {
        for (peer, expected) in [
            ("192.0.2.2", ("192.0.2.2", PORT)),
            ("nic:80", ("nic", 80)),
            ("::1", ("::1", PORT)),
            ("[::1]", ("::1", PORT)),
            ("[::1]:80", ("::1", 80)),
            // A link-local address is what two ports back to back have.
            ("fe80::2%eth1", ("fe80::2%eth1", PORT)),
            ("[fe80::2%eth1]:80", ("fe80::2%eth1", 80)),
        ] {
            assert_eq!(control_address(peer).unwrap(), expected, "{peer}");
        }
        assert!(control_address("nic:door").unwrap_err().to_string().contains("`door` is no TCP port"));
    }

    #[test]
    fn dates() {
        let at = |seconds| utc(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01 00:00 UTC");
        assert_eq!(at(951_782_400 + 60), "2000-02-29 00:01 UTC");
        assert_eq!(at(1_735_689_599), "2024-12-31 23:59 UTC");
    }
}
