//! `mrc mapper trial`: breaks every component of a lab fabric in turn and asks the mapper what is broken.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use mrc_lab::{Fabric, Impairment, Shape};
use mrc_mapper::agent::Summary;
use mrc_mapper::locate::Finding;
use mrc_mapper::policy::{self, Policy};
use mrc_mapper::probe::Key;
use mrc_mapper::topology::{Component, Direction, host_name};
use mrc_mapper::view::{Change, Evidence, View, ViewConfig};
use serde::Serialize;

use super::agent::random_key;
use super::host::{Runner, Times, fabric_of, lab_fabric};
use crate::interrupt::{self, Interrupt};
use crate::out::{errln, out, outln};
use crate::session::lab_host;
use crate::usage::usage;

const ROUND: Duration = Duration::from_millis(100);
/// A component must be found, and be healthy again, within so many rounds.
const PATIENCE: u32 = 60;
/// A fault whose parts were made within this time is one.
const AT_ONCE: Duration = Duration::from_millis(50);
/// Loss of links that lose some.
const LOSS_PPM: u32 = 200_000;

/// Arguments of `mrc mapper trial`.
#[derive(clap::Args)]
#[command(after_help = "\
Every link is cut, made to lose 20 % in both directions, up and down; every T1, T0 and plane goes silent. After each fault
the map must name exactly that component, and after its end nothing. Then two threads burn all processor time there is,
without a fault, and nothing may be reported. Exit code 0: all of that. The fabric is its own and is removed.
Needs root and iproute2 6.1 or newer.")]
pub struct Args {
    /// Milliseconds between the probes of a path
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100))]
    interval: u64,
    /// Seconds of load without a fault
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=3600))]
    load_seconds: u64,
    /// Only components whose name contains this, e.g. t1c
    #[arg(long)]
    only: Option<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// What is done to a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Fault {
    Cut,
    Lossy,
    Silent,
}

#[derive(Debug, Serialize)]
struct Step {
    component: Component,
    fault: Fault,
    /// Seconds that it took to break it and to mend it. A fault of several parts is made one part after the other; when that
    /// takes longer than [`AT_ONCE`] because the machine is busy, a report of a part is true.
    making_s: [f64; 2],
    /// Seconds until exactly this component was reported.
    found_s: Option<f64>,
    /// Seconds after its end until nothing was reported.
    healed_s: Option<f64>,
    /// Loss that the map gave.
    loss: f64,
    /// Hosts whose plane the policy denies.
    denied: Vec<u16>,
    /// Other components of the fabric that were reported in between.
    wrong: Vec<Wrong>,
    ok: bool,
}

/// A report that is not true, with what the map believed at that moment.
#[derive(Debug, Serialize)]
struct Wrong {
    component: Component,
    /// Everything that was faulty then, this component included.
    faulty: Vec<Finding>,
    /// Paths through the component that lost probes.
    paths: Vec<Evidence>,
}

#[derive(Debug, Serialize)]
struct Report {
    steps: Vec<Step>,
    /// Components reported under load without a fault.
    wrong_under_load: Vec<Wrong>,
    load_seconds: u64,
    ok: bool,
}

fn steps(fabric: mrc_mapper::Fabric) -> Vec<(Component, Fault)> {
    let mut links = Vec::new();
    let mut rest = Vec::new();
    for plane in 0..fabric.planes {
        links.extend((0..fabric.hosts).map(|host| Component::HostLink(plane, host, Direction::Both)));
        for leaf in 0..fabric.leaves {
            links.extend((0..fabric.spines).map(|spine| Component::Uplink(plane, leaf, spine, Direction::Both)));
            rest.push((Component::T0(plane, leaf), Fault::Silent));
        }
        rest.extend((0..fabric.spines).map(|spine| (Component::T1(plane, spine), Fault::Silent)));
        rest.push((Component::Plane(plane), Fault::Silent));
    }
    let mut steps: Vec<(Component, Fault)> = links.iter().map(|link| (*link, Fault::Cut)).collect();
    for direction in [Direction::Both, Direction::Up, Direction::Down] {
        steps.extend(links.iter().map(|link| (link.with_direction(direction), Fault::Lossy)));
    }
    steps.extend(rest);
    steps
}

/// Links whose two directions are impaired when a switch or a plane goes silent.
fn links_of(fabric: &Fabric, component: Component) -> Vec<String> {
    let name = component.to_string();
    let shape = fabric.shape();
    let links = shape.links().into_iter();
    match component {
        Component::T0(..) | Component::T1(..) => {
            links.filter(|link| link.a.name() == name || link.b.name() == name).map(|link| link.name()).collect()
        }
        _ => vec![name],
    }
}

fn set(fabric: &Fabric, component: Component, fault: Fault, on: bool) -> anyhow::Result<()> {
    for link in links_of(fabric, component) {
        let loss_ppm = if fault == Fault::Silent { 1_000_000 } else { LOSS_PPM };
        match (fault, on) {
            (Fault::Cut, true) => fabric.cut(&link)?,
            (Fault::Cut, false) => fabric.heal(&link)?,
            (_, true) => fabric.impair(&link, &Impairment { loss_ppm, seed: 1, ..Impairment::default() })?,
            (_, false) => fabric.clear(&link)?,
        }
    }
    Ok(())
}

/// Whether `part` is a direction of the link `whole`, or a link of the switch or plane `whole`.
fn is_part(part: Component, whole: Component) -> bool {
    match (part, whole) {
        (Component::Uplink(plane, leaf, ..), Component::T0(p, l)) => (plane, leaf) == (p, l),
        (Component::Uplink(plane, _, spine, _), Component::T1(p, s)) => (plane, spine) == (p, s),
        (
            Component::Uplink(..) | Component::HostLink(..) | Component::T0(..) | Component::T1(..),
            Component::Plane(p),
        ) => part.plane() == Some(p),
        (Component::HostLink(plane, ..), Component::T0(p, _)) => plane == p,
        _ => part.with_direction(Direction::Both) == whole,
    }
}

/// The collector of the trial: takes summaries, judges a round at a time.
struct Watch {
    view: View,
    summaries: Receiver<Summary>,
}

impl Watch {
    fn round(&mut self) -> anyhow::Result<Vec<Change>> {
        std::thread::sleep(ROUND);
        while let Ok(summary) = self.summaries.try_recv() {
            self.view.add(&summary)?;
        }
        Ok(self.view.judge())
    }

    /// A wrong report with its evidence.
    fn wrong(&self, component: Component) -> Wrong {
        let lossy = self.view.why(component).into_iter().filter(|path| path.lost > 0);
        Wrong { component, faulty: self.faulty(), paths: lossy.collect() }
    }

    /// Faulty components of the fabric; hosts that do not answer are none.
    fn faulty(&self) -> Vec<Finding> {
        self.view.faulty().filter(|finding| !matches!(finding.component, Component::Host(_))).cloned().collect()
    }
}

/// One agent until `stop`.
fn drive(mut runner: Runner, summaries: &Sender<Summary>, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut last = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        runner.turn()?;
        while runner.agent().poll_event().is_some() {}
        if last.elapsed() >= ROUND {
            last = Instant::now();
            if summaries.send(runner.agent().summary()).is_err() {
                break;
            }
        }
    }
    Ok(())
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let steps = chosen(args, fabric_of(&Shape::default()));
    if steps.is_empty() {
        let part = args.only.as_deref().unwrap_or_default();
        return Err(usage(anyhow!(
            "--only {part}: no component has this in its name; names are like p0-hA, p0-t0a-t1b, p0-t0a, p0"
        )));
    }
    mrc_lab::impair_requirements()?;
    let interrupt = Interrupt::install()?;
    let fabric = Fabric::temporary("map")?;
    let key = Key::new(random_key()?);
    let interval = Duration::from_millis(args.interval);
    let times = Times { interval, timeout: interval * 20, full_every: super::agent::FULL_EVERY };
    let runner = |host| Runner::new(&lab_host(&fabric, &host_name(host))?, lab_fabric(&fabric), key, times);
    let runners: Result<Vec<Runner>, _> = (0..u16::from(fabric.shape().hosts)).map(runner).collect();
    let (sender, summaries) = channel();
    let stop = AtomicBool::new(false);
    let mut watch = Watch { view: View::new(lab_fabric(&fabric), ViewConfig::default()), summaries };
    let report = std::thread::scope(|scope| {
        let stop = &stop;
        let agents: Vec<_> = runners?
            .into_iter()
            .map(|runner| {
                let sender = sender.clone();
                scope.spawn(move || drive(runner, &sender, stop))
            })
            .collect();
        drop(sender);
        let report = trial(args, &fabric, steps, &mut watch, &interrupt);
        stop.store(true, Ordering::Relaxed);
        for agent in agents {
            agent.join().map_err(|_| anyhow::anyhow!("an agent panicked"))??;
        }
        report
    })?;
    if args.json {
        outln!("{}", serde_json::to_string(&report)?);
    } else {
        out!("{}", table(&report));
    }
    if interrupt.is_set() {
        errln!("interrupted after {} steps; the fabric is removed", report.steps.len());
        return Ok(ExitCode::from(interrupt::EXIT_CODE));
    }
    Ok(if report.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The faults to make.
fn chosen(args: &Args, fabric: mrc_mapper::Fabric) -> Vec<(Component, Fault)> {
    let wanted = |component: &Component| args.only.as_ref().is_none_or(|part| component.to_string().contains(part));
    steps(fabric).into_iter().filter(|(component, _)| wanted(component)).collect()
}

fn trial(
    args: &Args,
    fabric: &Fabric,
    steps: Vec<(Component, Fault)>,
    watch: &mut Watch,
    interrupt: &Interrupt,
) -> anyhow::Result<Report> {
    for _ in 0..5 {
        watch.round()?;
    }
    let mut report =
        Report { steps: Vec::new(), wrong_under_load: Vec::new(), load_seconds: args.load_seconds, ok: true };
    for (component, fault) in steps {
        if interrupt.is_set() {
            report.ok = false;
            return Ok(report);
        }
        let step = step(fabric, watch, component, fault)?;
        report.ok &= step.ok;
        report.steps.push(step);
    }
    report.wrong_under_load = under_load(args.load_seconds, watch)?;
    report.ok &= report.wrong_under_load.is_empty() && !report.steps.is_empty();
    Ok(report)
}

fn step(fabric: &Fabric, watch: &mut Watch, component: Component, fault: Fault) -> anyhow::Result<Step> {
    let (mut wrong, mut loss, mut denied) = (Vec::new(), 0.0, Vec::new());
    let note = |watch: &Watch, changes: &[Change], in_parts: bool, wrong: &mut Vec<Wrong>| {
        for change in changes {
            if let Change::Faulty { finding } = change
                && finding.component != component
                && !matches!(finding.component, Component::Host(_))
                && !(in_parts && is_part(finding.component, component))
            {
                wrong.push(watch.wrong(finding.component));
            }
        }
    };
    let start = Instant::now();
    set(fabric, component, fault, true)?;
    let making = start.elapsed();
    let start = Instant::now();
    let mut found_s = None;
    for _ in 0..PATIENCE {
        let changes = watch.round()?;
        note(watch, &changes, making > AT_ONCE, &mut wrong);
        let faulty = watch.faulty();
        if let [finding] = &faulty[..]
            && finding.component == component
        {
            found_s = Some(start.elapsed().as_secs_f64());
            loss = finding.loss;
            denied = policy::apply(&lab_fabric(fabric), &Policy::default(), &faulty).into_keys().collect();
            break;
        }
    }
    let start = Instant::now();
    set(fabric, component, fault, false)?;
    let mending = start.elapsed();
    let start = Instant::now();
    let mut healed_s = None;
    for _ in 0..PATIENCE {
        let changes = watch.round()?;
        note(watch, &changes, making.max(mending) > AT_ONCE, &mut wrong);
        if watch.faulty().is_empty() {
            healed_s = Some(start.elapsed().as_secs_f64());
            break;
        }
    }
    let right = match component {
        Component::HostLink(_, host, _) => denied == [host],
        _ => denied.is_empty(),
    };
    let ok = found_s.is_some() && healed_s.is_some() && wrong.is_empty() && right;
    let making_s = [making, mending].map(|time| time.as_secs_f64());
    Ok(Step { component, fault, making_s, found_s, healed_s, loss, denied, wrong, ok })
}

/// No fault, and no processor time to spare: whatever is reported is wrong.
fn under_load(seconds: u64, watch: &mut Watch) -> anyhow::Result<Vec<Wrong>> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                let mut sum = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    sum = std::hint::black_box(sum.wrapping_mul(3).wrapping_add(1));
                }
            });
        }
        let (start, mut wrong) = (Instant::now(), Vec::new());
        let mut result = Ok(());
        while result.is_ok() && start.elapsed() < Duration::from_secs(seconds) {
            match watch.round() {
                Ok(_) => wrong.extend(watch.faulty().iter().map(|finding| watch.wrong(finding.component))),
                Err(error) => result = Err(error),
            }
        }
        stop.store(true, Ordering::Relaxed);
        result.map(|()| wrong)
    })
}

fn table(report: &Report) -> String {
    let mut text = String::new();
    let seconds = |time: Option<f64>| time.map_or_else(|| "never".to_owned(), |time| format!("{time:.2}"));
    let _ = writeln!(
        text,
        "{:<18} {:<8} {:>8} {:>9} {:>8} {:>7}  wrong",
        "component", "fault", "found s", "healed s", "loss", "denied"
    );
    for step in &report.steps {
        let names = |list: &[Wrong]| list.iter().map(|wrong| wrong.component.to_string()).collect::<Vec<_>>().join(" ");
        let denied: Vec<String> = step.denied.iter().map(|host| mrc_mapper::topology::host_name(*host)).collect();
        let (component, fault) = (step.component.to_string(), format!("{:?}", step.fault).to_lowercase());
        let _ = writeln!(
            text,
            "{component:<18} {fault:<8} {:>8} {:>9} {:>7.1}% {:>7}  {}{}",
            seconds(step.found_s),
            seconds(step.healed_s),
            100.0 * step.loss,
            denied.join(","),
            names(&step.wrong),
            if step.ok { "" } else { " FAILED" }
        );
    }
    let passed = report.steps.iter().filter(|step| step.ok).count();
    let _ = writeln!(text, "\n{passed} of {} faults localised, told, and healthy again", report.steps.len());
    let _ = writeln!(
        text,
        "{} s of load without a fault: {} wrong reports",
        report.load_seconds,
        report.wrong_under_load.len()
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_of_the_same_link_switch_or_plane() {
        let part = |part: &str, whole: &str| is_part(part.parse().unwrap(), whole.parse().unwrap());
        for (one, whole) in [
            ("p0-hA:down", "p0-hA"),
            ("p0-t0a-t1b:up", "p0-t0a-t1b"),
            ("p0-t0a-t1b", "p0-t0a"),
            ("p0-t0a-t1b:down", "p0-t1b"),
            ("p1-t1c", "p1"),
            ("p1-hB", "p1"),
        ] {
            assert!(part(one, whole), "{one} of {whole}");
        }
        for (one, whole) in [
            ("p0-t0a", "p0-t0a-t1b"),
            ("p0-hB:down", "p0-hA"),
            ("p1-t0a-t1b", "p0-t0a"),
            ("p0-t0a-t1b", "p0-t1c"),
            ("p0", "p1"),
            ("p0-hA", "p0-hA:down"),
        ] {
            assert!(!part(one, whole), "{one} of {whole}");
        }
    }
}
