//! `mrc mapper score`: the table of algorithms.

use std::fmt::Write as _;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use mrc_mapper::score::{self, BLOCK, Report, ScoreConfig, Tally};

use super::packets::{self, Comparison, Level};
use crate::interrupt::{self, Interrupt};
use crate::out::{errln, out, outln};
use crate::usage::usage;

/// Arguments of `mrc mapper score`.
#[derive(clap::Args)]
#[command(after_help = "\
Each case is a fabric of 64 to 1024 hosts, weather (idle, paused hosts, incast, trimming) and one or two random faults:
links down, lossy (0.1 to 20 %), in one direction, flapping; T0s and T1s silent or lossy; a silent plane. All algorithms
read the same losses per path at the same time: 5 probe intervals after something went down, 3/p after it began to lose
the share p. Cases that no probe can tell apart are listed below the table. It is a model at the level of probes: no
packets, no queues. --packets holds it against the packet simulator: 16 hosts go through the same minutes without a fault
at both levels, with the same pauses and congestion.

Exit code 0: ours has a precision and a recall of at least 99 %, at least 98 % of its reports are exact, and nothing is
reported in the time without a fault; with --packets, the levels agree. 1: not so. 130: interrupted; the tables are of what was
done until then.")]
pub struct Args {
    /// Faulty cases
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    faults: u32,
    /// Hours of virtual time without a fault, 64 hosts that probe each millisecond in the worst weather
    #[arg(long, default_value_t = 0.1, value_parser = hours)]
    hours: f64,
    /// Instead: so many minutes of virtual time at both levels. A minute takes half a minute of processor time, or less
    #[arg(long, value_name = "MINUTES", value_parser = minutes, conflicts_with_all = ["faults", "hours"])]
    packets: Option<f64>,
    /// With --packets: begin so many minutes into the day
    #[arg(long, value_name = "MINUTES", value_parser = minutes, default_value_t = 0.0, requires = "packets")]
    from: f64,
    /// Seed of everything
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

fn hours(text: &str) -> Result<f64, String> {
    let hours: f64 = text.parse().map_err(|_| format!("`{text}` is no number of hours: write 24 or 0.5"))?;
    if (0.0..=10_000.0).contains(&hours) { Ok(hours) } else { Err("0 to 10000 hours are possible".to_owned()) }
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes: f64 = text.parse().map_err(|_| format!("`{text}` is no number of minutes: write 4 or 0.5"))?;
    if (0.0..=1440.0).contains(&minutes) { Ok(minutes) } else { Err("0 to 1440 minutes are possible".to_owned()) }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(minutes) = args.packets {
        return packet_level(args, minutes);
    }
    if args.faults == 0 && args.hours == 0.0 {
        return Err(usage(anyhow::anyhow!(
            "--faults 0 --hours 0: nothing to judge; ask for faults, for hours, or both"
        )));
    }
    let config = ScoreConfig { faults: args.faults, healthy_ms: (args.hours * 3.6e6) as u64, seed: args.seed };
    let bar = ProgressBar::new(u64::from(args.faults));
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} faults, {eta} left") {
        bar.set_style(style);
    }
    let (interrupt, mut judged) = (Interrupt::install()?, 0);
    let report = score::run(&config, |done| {
        judged = done;
        bar.set_position(u64::from(done));
        !interrupt.is_set()
    });
    bar.finish_and_clear();
    if args.json {
        outln!("{}", serde_json::to_string(&report)?);
    } else {
        out!("{}", table(&report));
    }
    if interrupt.is_set() {
        let ms = report.healthy.map_or(0, |healthy| healthy.ms);
        errln!(
            "interrupted after {judged} of {} faults and {:.2} of {:.2} hours without a fault",
            config.faults,
            ms as f64 / 3.6e6,
            args.hours
        );
        return Ok(ExitCode::from(interrupt::EXIT_CODE));
    }
    Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Holds the model against the packet simulator.
fn packet_level(args: &Args, minutes: f64) -> anyhow::Result<ExitCode> {
    let blocks = |minutes: f64| (minutes * 60_000.0 / BLOCK as f64).round() as u64;
    let (first, count) = (blocks(args.from), blocks(minutes).max(1));
    let bar = ProgressBar::new(count);
    let (interrupt, mut played) = (Interrupt::install()?, 0);
    let of = packets::compare(args.seed, first, count, |done| {
        played = done;
        bar.set_position(done);
        !interrupt.is_set()
    })?;
    bar.finish_and_clear();
    if args.json {
        outln!("{}", serde_json::to_string(&of)?);
    } else {
        out!("{}", side_by_side(&of));
    }
    if interrupt.is_set() {
        errln!("interrupted after {:.1} of {minutes:.1} minutes", (played * BLOCK as u64) as f64 / 60_000.0);
        return Ok(ExitCode::from(interrupt::EXIT_CODE));
    }
    Ok(if of.differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn side_by_side(of: &Comparison) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{:.1} s without a fault, seed {}: {} pauses of hosts, {} times a link is congested\n",
        of.ms as f64 / 1e3,
        of.seed,
        of.pauses,
        of.congestions
    );
    let _ = writeln!(text, "{:<58} {:>12} {:>12}", "", "model", "packets");
    let mut row = |name: &str, of: &dyn Fn(&Level) -> String, model: &Level, packets: &Level| {
        let _ = writeln!(text, "{name:<58} {:>12} {:>12}", of(model), of(packets));
    };
    row("probes of the control class", &|level| level.probes.to_string(), &of.model, &of.packets);
    row("lost at paused hosts", &|level| level.lost_at_paused.to_string(), &of.model, &of.packets);
    row("lost elsewhere", &|level| level.lost_elsewhere.to_string(), &of.model, &of.packets);
    row("data class probes through congested links", &|level| level.congested.to_string(), &of.model, &of.packets);
    row("of these, trimmed", &|level| percent(level.trimmed), &of.model, &of.packets);
    row("components reported", &|level| level.reports.to_string(), &of.model, &of.packets);
    row("planes denied", &|level| level.denials.to_string(), &of.model, &of.packets);
    for (class, trips) in [("control", of.control), ("data", of.data)] {
        let _ = writeln!(
            text,
            "round trips, {class} class, us: median {}, 99 % {}, 99.99 % {}, longest {:.1}",
            trips.median_us, trips.p99_us, trips.p9999_us, trips.max_us
        );
    }
    let _ = writeln!(
        text,
        "path states other than up: {}; frames that sockets of paused hosts dropped: {}; packets of load: {}, trimmed {}",
        of.paths_not_up, of.socket_drops, of.load, of.load_trimmed
    );
    for difference in &of.differences {
        let _ = writeln!(text, "DIFFERS: {difference}");
    }
    text
}

fn percent(part: f64) -> String {
    format!("{:.2} %", 100.0 * part)
}

fn place(tally: &Tally) -> f64 {
    if tally.cases == 0 { 1.0 } else { f64::from(tally.exact_place) / f64::from(tally.cases) }
}

fn table(report: &Report) -> String {
    let mut text = String::new();
    let cases = report.algorithms.first().map_or(0, |(_, tally)| tally.cases);
    let _ = writeln!(text, "{cases} identifiable cases, seed {}", report.seed);
    let _ = writeln!(
        text,
        "\n{:<12} {:>10} {:>10} {:>10} {:>18}",
        "algorithm", "precision", "recall", "exact", "exact but for way"
    );
    for (name, tally) in &report.algorithms {
        let _ = writeln!(
            text,
            "{name:<12} {:>10} {:>10} {:>10} {:>18}",
            percent(tally.precision()),
            percent(tally.recall()),
            percent(tally.exactness()),
            percent(place(tally))
        );
    }
    let _ = writeln!(
        text,
        "\n{:<16} {:>6} {:>6} {:>10} {:>9} {:>13} {:>10}",
        "ours by case", "cases", "exact", "components", "in time", "median/limit", "p90/limit"
    );
    for (case, tally) in &report.cases {
        let times = report.times.get(case).cloned().unwrap_or_default();
        let name = format!("{case:?}");
        let _ = writeln!(
            text,
            "{name:<16} {:>6} {:>6} {:>10} {:>9} {:>13.2} {:>10.2}",
            tally.cases, tally.exact, times.components, times.in_time, times.median_of_limit, times.p90_of_limit
        );
    }
    let _ = writeln!(text, "\nhealthy components accused before the deadline: {}", report.accused_early);
    for (why, tally) in &report.not_identifiable {
        let _ = writeln!(text, "not identifiable ({why:?}): {} cases, {} found exactly", tally.cases, tally.exact);
    }
    for miss in &report.misses {
        let reported: Vec<String> = miss.reported.iter().map(|finding| finding.component.to_string()).collect();
        let _ = writeln!(
            text,
            "missed: case {}, {} hosts, {:?}: {} was reported as [{}]",
            miss.case,
            miss.hosts,
            miss.weather,
            miss.faulty.join(" and "),
            reported.join(", ")
        );
    }
    if let Some(healthy) = report.healthy {
        let _ = writeln!(
            text,
            "\n{:.2} h without a fault: {} probes, {} lost, {} windows judged, {} paused hosts recognised, {} components \
             reported, {} could have been denied",
            healthy.ms as f64 / 3.6e6,
            healthy.probes,
            healthy.lost,
            healthy.windows,
            healthy.hosts,
            healthy.reports,
            healthy.denials
        );
    }
    text
}
