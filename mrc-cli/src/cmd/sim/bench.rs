//! `mrc sim bench`: how fast the simulator is. Each size runs in a process of its own, so that its memory is its own.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use super::MadeBy;
use crate::interrupt;
use crate::out::{errln, outln};
use crate::usage::usage;
use anyhow::{Context, ensure};
use mrc_sim::run::{self, Options, Results};
use mrc_sim::scenario::{self, Built};

/// Arguments of `mrc sim bench`.
#[derive(clap::Args)]
#[command(after_help = "\
M hops/s and M events/s are per second of processor time, which several threads use at once.

Exit codes: 0 all sizes were measured, 1 a run failed, 2 usage or a size that cannot be, 130 interrupted.")]
pub struct Args {
    /// Fabric sizes, in hosts
    #[arg(long, value_delimiter = ',', default_value = "128,1024,8192", value_parser = clap::value_parser!(u32).range(2..=131_072))]
    hosts: Vec<u32>,
    /// Bytes each host sends; by default so many that packets cross about 20 million switches in all
    #[arg(long)]
    bytes: Option<u32>,
    /// Seed
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=super::MOST_SEED))]
    seed: u64,
    /// Threads at most for each run, see `mrc sim run --help`
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    threads: u16,
    /// Planes, with a port of each host on every one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    planes: u8,
    /// Parts of the fabric, in place of the default of its size
    #[arg(long)]
    partitions: Option<u32>,
    /// Print JSON, one object per size
    #[arg(long)]
    json: bool,
    /// Run this size here, and print its results (what the command starts for each size)
    #[arg(long, hide = true, value_parser = clap::value_parser!(u32).range(2..=131_072))]
    single: Option<u32>,
    /// The process of the command that started this one for a size
    #[arg(long, hide = true, value_name = "PID", requires = "single")]
    parent: Option<u32>,
}

/// A permutation across leaves on a non-blocking fabric, with the parity preset's queues and windows for each plane.
fn scenario_text(args: &Args, hosts: u32) -> anyhow::Result<String> {
    let planes = args.planes;
    // About 20 million packet-hops, but never less than a bandwidth-delay product.
    let bytes = args.bytes.unwrap_or((20_000_000 / 4 / hosts).clamp(200, 20_000) * 4096);
    let partitions = args.partitions.map(|parts| format!("partitions = {parts}\n")).unwrap_or_default();
    let (t0, per_leaf) = match hosts {
        128 => (8, 16),
        1024 => (32, 32),
        8192 => (128, 64),
        _ => {
            let per_leaf = (1..=256).rev().find(|n| hosts.is_multiple_of(*n) && n * n <= 2 * hosts && hosts / n <= 512);
            let per_leaf = per_leaf.filter(|n| hosts / n > 1);
            let per_leaf =
                per_leaf.with_context(|| format!("{hosts} hosts do not divide into 2 to 512 leaves of 1 to 256"))?;
            (hosts / per_leaf, per_leaf)
        }
    };
    // The preset's window is that of one plane.
    let window = format!(
        "[transport.mrc]\ncc_window_bytes = {}\ncc_gbps = {}\n",
        176_720 * u32::from(planes),
        100.82 * f64::from(planes)
    );
    Ok(format!(
        "name = \"bench{hosts}\"\npreset = \"parity\"\nbin_us = 1000\n{partitions}\n[topology]\nplanes = {planes}\nt0 = {t0}\nhosts_per_t0 = {per_leaf}\n\
         t1 = {per_leaf}\n\n[[workload]]\nkind = \"permutation\"\nbytes = {bytes}\n{window}"
    ))
}

/// The run of one size.
fn built(args: &Args, hosts: u32) -> anyhow::Result<Built> {
    let text = scenario_text(args, hosts)?;
    Ok(scenario::load_str(&format!("{hosts} hosts"), &text, ".".as_ref(), &[], Some(args.seed))?)
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(hosts) = args.single {
        args.parent.map_or(Ok(()), super::end_with)?;
        let built = built(args, hosts).map_err(usage)?;
        let MadeBy { program, .. } = MadeBy::this();
        let options = Options { threads: args.threads.into(), program, ..Options::default() };
        let mut results = run::run(&built, &options, &mut |_| ())?.results;
        results.timeline = run::Timeline::default();
        outln!("{}", serde_json::to_string(&results)?);
        return Ok(ExitCode::SUCCESS);
    }
    for &hosts in &args.hosts {
        built(args, hosts).map_err(usage)?;
    }
    let program = std::env::current_exe().context("cannot find this program to start it again")?;
    interrupt::on_signal(|| {
        errln!("interrupted: sizes without a result were not measured");
        // The run under way ends with this process.
        std::process::exit(interrupt::EXIT_CODE.into());
    })?;
    if !args.json {
        outln!(
            "{:>6}  {:>10}  {:>10}  {:>8}  {:>8}  {:>8}  digest",
            "hosts",
            "M hops/s",
            "M events/s",
            "RSS MB",
            "CPU s",
            "wall s"
        );
    }
    for &hosts in &args.hosts {
        let mut command = Command::new(&program);
        command.args(["sim", "bench", "--single", &hosts.to_string(), "--seed", &args.seed.to_string()]);
        command.args(["--parent", &std::process::id().to_string()]);
        // Ctrl-C is for this process alone, which says what became of the sizes.
        command.process_group(0);
        if let Some(bytes) = args.bytes {
            command.args(["--bytes", &bytes.to_string()]);
        }
        command.args(["--threads", &args.threads.to_string(), "--planes", &args.planes.to_string()]);
        if let Some(parts) = args.partitions {
            command.args(["--partitions", &parts.to_string()]);
        }
        let output = command.output().with_context(|| format!("cannot start {}", program.display()))?;
        ensure!(output.status.success(), "{hosts} hosts: {}", super::failure(&output));
        let mut results: Results = serde_json::from_slice(&output.stdout).context("the run's results do not parse")?;
        results.command = MadeBy::this().command;
        if args.json {
            outln!("{}", serde_json::to_string(&results)?);
            continue;
        }
        outln!(
            "{hosts:>6}  {:>10.2}  {:>10.2}  {:>8.0}  {:>8.1}  {:>8.1}  {}{}",
            results.switch_packet_hops as f64 / results.cpu_seconds / 1e6,
            results.events as f64 / results.cpu_seconds / 1e6,
            results.peak_rss_mb,
            results.cpu_seconds,
            results.wall_seconds,
            results.digest,
            super::shortfall(&results).map(|how| format!("  {how}")).unwrap_or_default()
        );
    }
    Ok(ExitCode::SUCCESS)
}
