//! A scenario from start to end: builds fabric and hosts, lets time pass in slices, watches for progress, and writes down
//! what happened.

mod bad_path;
mod drive;
mod load;
mod results;
mod summary;

use std::collections::BTreeMap;

use mrc_core::Instant;

pub use drive::{Options, Progress};
pub use results::{
    BadPath, ClassCounts, Distribution, DropCounts, FailureReport, GroupReport, IterationReport, LinkLoad, LinkRow,
    LossCounts, MessageReport, MessageRow, Overhead, PacketCounts, PartsReport, PathSample, QueueSample, Results,
    RunEnd, SizeBin, Timeline,
};

use crate::fabric::{Captured, Parts, TopologyError};
use crate::host::{
    AnyTransport, HostSite, MrcHostError, MrcTransport, PathRow, RoceTransport, Transport, TransportInfo,
};
use crate::scenario::{Built, Spoken, TransportSettings};
use crate::workload::Exchange;

/// Why a scenario could not be run, or did not end.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum RunError {
    /// The fabric.
    #[error("{0}")]
    Topology(#[from] TopologyError),
    /// A host.
    #[error("{0}")]
    Host(#[from] MrcHostError),
    /// The link to capture.
    #[error("--pcap: {0}")]
    Capture(String),
}

/// What a run leaves behind.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The results, as `--json` writes them.
    pub results: Results,
    /// Packets of the captured link.
    pub capture: Vec<Captured>,
    /// Every message, if asked for.
    pub messages: Vec<MessageRow>,
    /// Every link in every sample, if asked for.
    pub links: Vec<LinkRow>,
    /// Paths with their loads at the end, of selectors that keep them.
    pub paths: Vec<PathRow>,
}

/// Runs a scenario. `progress` hears of it a few hundred times. A run that stalls has results too: see [`Results::ended`].
///
/// # Errors
/// A fabric or host that cannot be built.
pub fn run(built: &Built, options: &Options, progress: &mut dyn FnMut(&Progress)) -> Result<Outcome, RunError> {
    let topology = &built.topology;
    let (seed, pairs) = (built.scenario.seed, &built.pairs[..]);
    match &built.transports[..] {
        [Spoken { settings: TransportSettings::Mrc(settings), .. }] => {
            let mut storages = settings.storages(topology, pairs)?;
            let hosts = MrcTransport::build(settings, topology, pairs, &mut storages, seed)?;
            run_hosts(hosts, built, options, progress)
        }
        [Spoken { settings: TransportSettings::Roce(settings), .. }] => {
            run_hosts(RoceTransport::build(settings, (topology, &built.links), pairs, seed), built, options, progress)
        }
        [Spoken { settings: TransportSettings::Named(info, values), .. }] => {
            run_hosts(named(info, values, built), built, options, progress)
        }
        several => {
            let storages = several.iter().enumerate().map(|(nth, spoken)| match &spoken.settings {
                TransportSettings::Mrc(settings) => settings.storages(topology, &built.pairs_of(nth)),
                TransportSettings::Roce(_) | TransportSettings::Named(..) => Ok(Vec::new()),
            });
            let mut storages = storages.collect::<Result<Vec<_>, _>>()?;
            let mut hosts: BTreeMap<u32, AnyTransport<'_>> = BTreeMap::new();
            for ((nth, spoken), storages) in several.iter().enumerate().zip(&mut storages) {
                let own = built.pairs_of(nth);
                let all: Vec<AnyTransport<'_>> = match &spoken.settings {
                    TransportSettings::Mrc(settings) => {
                        boxed(MrcTransport::build(settings, topology, &own, storages, seed)?)
                    }
                    TransportSettings::Roce(settings) => {
                        boxed(RoceTransport::build(settings, (topology, &built.links), &own, seed))
                    }
                    TransportSettings::Named(info, values) => named(info, values, built),
                };
                hosts.extend((0..).zip(all).filter(|&(host, _)| built.speaks[host as usize] == nth));
            }
            run_hosts(hosts.into_values(), built, options, progress)
        }
    }
}

fn boxed<'s, T: Transport + Send + 's>(hosts: Vec<T>) -> Vec<AnyTransport<'s>> {
    hosts.into_iter().map(|host| Box::new(host) as AnyTransport<'s>).collect()
}

/// All hosts with a registered transport.
fn named(info: &TransportInfo, values: &[f64], built: &Built) -> Vec<AnyTransport<'static>> {
    let (topology, seed) = (&built.topology, built.scenario.seed);
    (0..topology.hosts()).map(|host| (info.build)(&HostSite { topology, host, seed }, values)).collect()
}

/// Runs the fabric, the faults and the workload of a scenario with these hosts, in their order, in place of those that it names.
///
/// # Errors
/// A fabric that cannot be built.
pub fn run_hosts<T: Transport + Send>(
    hosts: impl IntoIterator<Item = T>,
    built: &Built,
    options: &Options,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Outcome, RunError> {
    let bin_ns = nanos(built.scenario.bin_us);
    let exchanges = Exchange::of_parts(built.plan.clone(), built.partition.firsts(), bin_ns);
    let seed = built.scenario.seed;
    let sim = Parts::new(&built.topology, seed, &built.partition, exchanges, hosts, options.threads)?;
    drive::drive(sim, built, options, progress)
}

/// A time of a scenario in whole nanoseconds, at least one.
fn nanos(us: f64) -> u64 {
    (us * 1e3).round().max(1.0) as u64
}

/// The end of a run, in virtual time.
fn limit(built: &Built) -> Instant {
    Instant::from_nanos(nanos(built.scenario.limit_us))
}
