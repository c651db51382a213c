//! A scenario from start to end: builds fabric and hosts, lets time pass in slices, watches for progress, and writes down
//! what happened.

mod bad_path;
mod drive;
mod load;
mod results;
mod summary;

use mrc_core::Instant;

pub use drive::{Options, Progress};
pub use results::{
    BadPath, ClassCounts, Distribution, DropCounts, FailureReport, GroupReport, IterationReport, LinkLoad, LinkRow,
    LossCounts, MessageReport, MessageRow, Overhead, PacketCounts, PartsReport, PathSample, QueueSample, Results,
    RunEnd, SizeBin, Timeline,
};

use crate::fabric::{Captured, Parts, TopologyError};
use crate::host::{MixedHost, MrcHostError, MrcTransport, PathRow, RoceTransport, Transport};
use crate::scenario::{Built, Mixed, TransportSettings};
use crate::workload::{Exchange, Pair};

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
    match (&built.transport, &built.mixed) {
        (TransportSettings::Mrc(settings), None) => {
            let mut storages = settings.storages(topology, pairs)?;
            let hosts = MrcTransport::build(settings, topology, pairs, &mut storages, seed)?;
            start(hosts, built, options, progress)
        }
        (TransportSettings::Roce(settings), None) => {
            start(RoceTransport::build(settings, topology, pairs, seed), built, options, progress)
        }
        (main, Some(Mixed { hosts: others, transport: other })) => {
            let (mrc, roce, roce_is_other) = match (main, other) {
                (TransportSettings::Mrc(mrc), TransportSettings::Roce(roce)) => (mrc, roce, true),
                (TransportSettings::Roce(roce), TransportSettings::Mrc(mrc)) => (mrc, roce, false),
                _ => unreachable!("two jobs have two different transports"),
            };
            let speaks_roce = |host: u32| others[host as usize] == roce_is_other;
            let (of_roce, of_mrc): (Vec<Pair>, Vec<Pair>) = pairs.iter().partition(|pair| speaks_roce(pair.a));
            let mut storages = mrc.storages(topology, &of_mrc)?;
            let mut mrc = MrcTransport::build(mrc, topology, &of_mrc, &mut storages, seed)?.into_iter();
            let mut roce = RoceTransport::build(roce, topology, &of_roce, seed).into_iter();
            let host = |index| match (mrc.next(), roce.next()) {
                (_, Some(host)) if speaks_roce(index) => MixedHost::Roce(Box::new(host)),
                (Some(host), _) => MixedHost::Mrc(Box::new(host)),
                _ => unreachable!("one host for each index"),
            };
            start((0..topology.hosts()).map(host), built, options, progress)
        }
    }
}

/// Puts the hosts on the fabric and lets time pass.
fn start<T: Transport + Send>(
    hosts: impl IntoIterator<Item = T>,
    built: &Built,
    options: &Options,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Outcome, RunError> {
    let bin_ns = (built.scenario.bin_us * 1e3).round().max(1.0) as u64;
    let exchanges = Exchange::of_parts(built.plan.clone(), built.partition.firsts(), bin_ns);
    let seed = built.scenario.seed;
    let sim = Parts::new(&built.topology, seed, &built.partition, exchanges, hosts, options.threads)?;
    drive::drive(sim, built, options, progress)
}

/// The end of a run, in virtual time.
fn limit(built: &Built) -> Instant {
    Instant::from_nanos((built.scenario.limit_us * 1e3) as u64)
}
