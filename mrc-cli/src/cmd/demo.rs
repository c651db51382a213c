//! `mrc demo`: a transfer through a real SRv6 fabric, a link cut in the middle, a table and a picture at the end.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::demo::{self, Report, Story};
use crate::interrupt::{self, Interrupt};
use crate::out::{errln, outln, writable};

/// Arguments of `mrc demo`.
#[derive(clap::Args)]
#[command(after_help = "\
As root with iproute2 6.1 or newer, the fabric is real: network namespaces as hosts and switches, kernels that forward by
SRv6 micro-SIDs, AF_XDP at both ends. Otherwise the same story runs in the simulator, in virtual time, and says so.

Exit codes: 0 every byte arrived intact, 1 something went wrong, 2 usage, 3 `--mode lab` without root,
iproute2 or a kernel module, 130 interrupted (the fabric is removed).")]
pub struct Args {
    /// Seconds of transfer; a link is cut after one third and healed after two
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(3..=3600))]
    seconds: u64,
    /// Where to run
    #[arg(long, value_enum, default_value_t = Where::Auto)]
    mode: Where,
    /// Folder for chart and capture
    #[arg(long, default_value = ".")]
    out: PathBuf,
    /// Print one JSON object instead of the tables; progress goes to standard error
    #[arg(long)]
    json: bool,
}

/// `--mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Where {
    /// The lab if this machine and user can, else the simulator
    Auto,
    /// Namespaces, kernel switches, AF_XDP
    Lab,
    /// Virtual time
    Sim,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let lab = match args.mode {
        Where::Lab => true,
        Where::Sim => false,
        Where::Auto => match mrc_lab::requirements() {
            Ok(()) => true,
            Err(missing) => {
                errln!("simulated: no real fabric here ({missing})");
                false
            }
        },
    };
    std::fs::create_dir_all(&args.out)
        .map_err(|error| anyhow::anyhow!("cannot create the folder {}: {error}", args.out.display()))?;
    let story = Story { seconds: args.seconds, out: args.out };
    [story.chart(), story.pcap()].iter().try_for_each(|path| writable(path))?;
    let interrupt = Interrupt::install()?;
    if !args.json && !lab {
        outln!("simulated: this run is in virtual time, no packet leaves the program");
    }
    let report = if lab { demo::lab::run(&story, &interrupt)? } else { demo::sim::run(&story, &interrupt)? };
    if interrupt.is_set() {
        errln!("interrupted: the fabric is removed");
        return Ok(ExitCode::from(interrupt::EXIT_CODE));
    }
    demo::chart::draw(&report, &story)?;
    if args.json {
        outln!("{}", serde_json::to_string(&report)?);
    } else {
        print(&report);
    }
    Ok(if report.integrity == "ok" { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(report: &Report) {
    outln!();
    let row = |name: &str, value: String| outln!("{name:<24} {value}");
    row("mode", report.mode.to_owned());
    row("goodput", format!("{:.2} Gb/s over {:.1} s", report.gbit_per_s, report.seconds));
    for plane in &report.planes {
        let share =
            100.0 * plane.bytes as f64 / report.planes.iter().map(|plane| plane.bytes).sum::<u64>().max(1) as f64;
        row(&format!("plane {}", plane.plane), format!("{} bytes ({share:.1} %)", plane.bytes));
    }
    for (name, packets) in &report.t1_packets {
        row(&format!("T1 {name}"), format!("{packets} packets"));
    }
    row("retransmitted", format!("{} packets", report.retransmitted));
    row("EVs retired", report.ev_assumed_bad.to_string());
    row("EVs restored", report.ev_restored.to_string());
    row("longest stall", format!("{:.1} ms", report.longest_stall_us as f64 / 1e3));
    row("integrity", format!("{} ({} bytes checked)", report.integrity, report.bytes));
    row("chart", report.chart.clone());
    row("capture", report.pcap.clone());
}
