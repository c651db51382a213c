//! `mrc lab`: a fabric of network namespaces whose switches are Linux kernels.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use mrc_lab::{Fabric, LinkState, Shape};

/// Arguments of `mrc lab`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  mrc lab up                          2 planes, each with 2 T0 and 4 T1 switches, 2 hosts
  mrc lab up --planes 4 --hosts 8     more of everything
  mrc lab status                      links and switches, with the kernel's packet counters
  mrc lab cut p0-t0a-t1c              break a link between a T0 and a T1 switch
  mrc lab heal p0-t0a-t1c             and mend it
  mrc lab host hA --out hA.json       what a driver on host A must know
  mrc lab down                        remove every namespace of the fabric

Needs root and iproute2 6.1 or newer. Namespaces are called PREFIX-hA, PREFIX-p0-t0a, ...")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
    /// First part of every namespace's name
    #[arg(long, global = true, default_value = "mrc")]
    prefix: String,
    /// Print JSON instead of a table
    #[arg(long, global = true)]
    json: bool,
}

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
    /// Remove the fabric, also what a crash left behind
    Down,
    /// Show hosts, links and switches
    Status,
    /// Show packets forwarded by each T1 switch
    Counters,
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
        /// File to write; none = standard output
        #[arg(long)]
        out: Option<PathBuf>,
    },
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let prefix = args.prefix;
    match args.action {
        Action::Up { planes, t0, t1, hosts, mtu } => {
            let fabric = Fabric::up(Shape { prefix, planes, t0, t1, hosts, mtu })?;
            if args.json {
                println!("{}", serde_json::to_string(&fabric.status()?)?);
            } else {
                let shape = fabric.shape();
                println!(
                    "fabric `{}` is up: {} hosts, {} planes, each with {} T0 and {} T1 switches",
                    shape.prefix, shape.hosts, shape.planes, shape.t0, shape.t1
                );
            }
        }
        Action::Down => {
            let removed = Fabric::remove(&prefix)?;
            if args.json {
                println!("{}", serde_json::json!({ "removed": removed }));
            } else {
                println!("{removed} namespaces removed");
            }
        }
        Action::Status => status(&Fabric::discover(&prefix)?, args.json)?,
        Action::Counters => {
            let packets = Fabric::discover(&prefix)?.t1_packets()?;
            if args.json {
                println!("{}", serde_json::to_string(&packets)?);
            } else {
                for (name, packets) in packets {
                    println!("{name:<10} {packets:>14} packets");
                }
            }
        }
        Action::Cut { link } => {
            Fabric::discover(&prefix)?.cut(&link)?;
            say(args.json, &link, "cut");
        }
        Action::Heal { link } => {
            Fabric::discover(&prefix)?.heal(&link)?;
            say(args.json, &link, "healed");
        }
        Action::Host { host, out } => {
            let text = serde_json::to_string_pretty(&Fabric::discover(&prefix)?.host(&host)?)?;
            match out {
                Some(path) => std::fs::write(&path, text + "\n")
                    .map_err(|error| anyhow::anyhow!("cannot write {}: {error}", path.display()))?,
                None => println!("{text}"),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn say(json: bool, link: &str, what: &str) {
    if json {
        println!("{}", serde_json::json!({ "link": link, "state": what }));
    } else {
        println!("{link} {what}");
    }
}

fn status(fabric: &Fabric, json: bool) -> anyhow::Result<()> {
    let status = fabric.status()?;
    if json {
        println!("{}", serde_json::to_string(&status)?);
        return Ok(());
    }
    println!("hosts     {}", status.hosts.join(" "));
    println!("\n{:<16} state", "link");
    for link in &status.links {
        let state = match link.state {
            LinkState::Up => "up",
            LinkState::Cut => "CUT",
            LinkState::Missing => "MISSING",
        };
        println!("{:<16} {state}", link.name);
    }
    println!("\n{:<16} {:>14}", "switch", "packets");
    for switch in &status.switches {
        println!("{:<16} {:>14}", switch.name, switch.packets);
    }
    Ok(())
}
