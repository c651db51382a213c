//! `mrc stats`: what the engines of running programs have counted so far.

use std::process::ExitCode;

use crate::out::{errln, outln};
use mrc_verbs_shim::control::{Client, ControlError, Counters, Found, Request, own_devices};

/// Arguments of `mrc stats`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mrc write-bw --lab hA localhost -D 60 &
  mrc stats                  packets by plane, discards by reason and all counters that are not zero
  watch -n 1 mrc stats       again and again

Shows `mrc write-bw`, `mrc write-lat` and programs over our libibverbs, of the same user. `mrc top` shows more.
docs/counters.md says what each number counts.
Exit codes: 0 shown; 1 nothing runs, or the folder of sockets is refused; 2 usage.")]
pub struct Args {
    /// Only this process
    #[arg(long)]
    pid: Option<u32>,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let devices = own_devices();
    let wanted = devices.found.into_iter().filter(|found| args.pid.is_none_or(|pid| found.pid == pid));
    let (mut all, mut silent) = (Vec::<Counters>::new(), false);
    for found in wanted {
        match ask(&found) {
            Ok(counters) => all.push(counters),
            Err(ControlError::Silent { .. }) => {
                errln!("mrc: process {} does not answer: it may be stopped, or too many others ask it", found.pid);
                silent = true;
            }
            // A program that ends meanwhile has nothing to say.
            Err(_) => {}
        }
    }
    if args.json {
        outln!("{}", serde_json::to_string(&all)?);
    } else {
        all.iter().for_each(print);
    }
    if let Some(why) = devices.refused {
        errln!("mrc: {why}");
    } else if all.is_empty() && !silent && !args.json {
        match args.pid {
            Some(pid) => {
                errln!("mrc: process {pid} is no program of this user with a device that publishes its counters")
            }
            None => errln!("mrc: no program of this user has a device open that publishes its counters"),
        }
    }
    Ok(if all.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn ask(found: &Found) -> Result<Counters, ControlError> {
    Client::connect(&found.path)?.ask(&Request::Stats)
}

fn print(counters: &Counters) {
    let Counters { pid, command, host, seconds, .. } = counters;
    outln!("{command} on {host}, pid {pid}, {seconds:.1} s");
    for (number, plane) in counters.planes.iter().enumerate() {
        outln!(
            "  plane {number} ({}): {} packets sent, {} received, {} dropped by the kernel",
            plane.interface,
            plane.tx_packets,
            plane.rx_packets,
            plane.rx_dropped
        );
    }
    let list = |title: &str, values: &std::collections::BTreeMap<String, u64>| {
        for (name, value) in values {
            outln!("  {title:<10} {name:<28} {value:>12}");
        }
    };
    list("discarded", &counters.discards);
    list("counted", &counters.counters);
}
