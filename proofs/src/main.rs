//! The `mrc-proofs` program: explores the executable specification and prints what it found.
#![forbid(unsafe_code)]

use std::{
    io::Write as _,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::bail;
use clap::Parser;
use mrc_proofs::{Budget, Fault, MAX_PACKETS, Protocol};
use stateright::{Checker, HasDiscoveries, Model, Path};

const TEACH: &str = "\
Visits every state of the reliability layer (writes, SACK, NACK, Transport ACK, retransmission) that the given faults of
the network can lead to. In each state it holds the rules: nothing placed or completed twice, nothing completed that did
not arrive, no packet beyond the window, bounded retransmission, and every run ends with all messages completed.

Exit code: 0 when every rule holds (with --fault: when the fault was found), 1 when not, 2 for wrong usage.

Examples:
  cargo run --release -p mrc-proofs
  cargo run --release -p mrc-proofs -- --messages 2,1,1 --window 4 --losses 2 --duplicates 2 --reorderings 2
  cargo run --release -p mrc-proofs -- --fault zero-unmarks     print the shortest behaviour that shows the fault";

/// Explores every behaviour of MRC's reliability layer for small windows.
#[derive(Parser)]
#[command(name = "mrc-proofs", version, after_help = TEACH)]
struct Cli {
    /// Packets of each message.
    #[arg(long, value_delimiter = ',', default_value = "2,1,1")]
    messages: Vec<u8>,
    /// Packets that may be unacknowledged.
    #[arg(long, default_value_t = 3)]
    window: u8,
    /// Packets that the network may lose.
    #[arg(long, default_value_t = 1)]
    losses: u8,
    /// Packets that may arrive twice.
    #[arg(long, default_value_t = 1)]
    duplicates: u8,
    /// Packets that may overtake others.
    #[arg(long, default_value_t = 1)]
    reorderings: u8,
    /// Packets that switches may trim.
    #[arg(long, default_value_t = 1)]
    trims: u8,
    /// Packets that the responder may refuse for want of a resource.
    #[arg(long, default_value_t = 0)]
    refusals: u8,
    /// Packet timers that may run out too early.
    #[arg(long, default_value_t = 0)]
    early_timers: u8,
    /// Break the specification in one place, and print how a rule notices.
    #[arg(long)]
    fault: Option<Fault>,
    /// Threads that explore.
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

impl Cli {
    fn protocol(&self) -> anyhow::Result<Protocol> {
        let total: usize = self.messages.iter().map(|&n| usize::from(n)).sum();
        if total == 0 || total > MAX_PACKETS || self.messages.contains(&0) {
            bail!("--messages wants 1 to {MAX_PACKETS} packets in all, and at least one in each message");
        }
        if self.window == 0 {
            bail!("--window must be at least 1: nothing could be sent");
        }
        let budget = Budget {
            losses: self.losses,
            duplicates: self.duplicates,
            reorderings: self.reorderings,
            trims: self.trims,
            refusals: self.refusals,
            early_timers: self.early_timers,
        };
        let protocol = Protocol::new(&self.messages, self.window, budget);
        Ok(match self.fault {
            Some(fault) => protocol.with_fault(fault),
            None => protocol,
        })
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let protocol = match cli.protocol() {
        Ok(protocol) => protocol,
        Err(error) => {
            eprintln!("mrc-proofs: {error:#}");
            return ExitCode::from(2);
        }
    };
    let start = Instant::now();
    let checker = protocol.checker().threads(cli.threads.max(1)).finish_when(HasDiscoveries::Any).spawn_bfs();
    while !checker.is_done() {
        std::thread::sleep(Duration::from_millis(200));
        eprint!("\r{} states, depth {}   ", checker.unique_state_count(), checker.max_depth());
        let _ = std::io::stderr().flush();
    }
    let checker = checker.join();
    eprintln!();
    println!(
        "{} states, longest behaviour {} steps, {:.1} s",
        checker.unique_state_count(),
        checker.max_depth(),
        start.elapsed().as_secs_f64()
    );
    let discoveries = checker.discoveries();
    for (rule, path) in &discoveries {
        println!("broken: {rule}\n{}", story(path));
    }
    match (cli.fault, discoveries.is_empty()) {
        (None, true) => println!("every rule holds in every state"),
        (Some(fault), true) => println!("the fault {fault} was not noticed"),
        (_, false) => {}
    }
    if discoveries.is_empty() == cli.fault.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The steps that lead to a state which breaks a rule.
fn story(path: &Path<mrc_proofs::State, mrc_proofs::Action>) -> String {
    let states = path.clone().into_states();
    let actions = path.clone().into_actions();
    let mut lines: Vec<String> =
        actions.iter().enumerate().map(|(at, action)| format!("  {:>3}  {action}", at + 1)).collect();
    if let Some(broken) = states.last().and_then(|state| state.broken) {
        lines.push(format!("       so {broken}"));
    }
    lines.join("\n")
}
