//! From keys to what a run is made of: topology, queues, transport, with every default filled in and every absurdity
//! refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mrc_core::Instant;

use super::job::{self, SpokenKeys};
use super::memory::PlanSize;
use super::rtt::RoundTrip;
use super::topology::TelemetryKey;
use super::traffic::Extent;
use super::{Problem, Scenario, TransportKind, faults, memory, mrc, queue, roce, rtt, topology, traffic};
use crate::fabric::{Fault, LinkId, LinkSpec, Partition, PathNames, ReceiveSpec, Topology};
use crate::host::{Ideal, MrcSettings, MrcTransport, RoceSettings, TransportInfo, WireBytes};
use crate::workload::{Connections, Message, Pair, Plan};

/// A scenario ready to run.
#[derive(Clone, Debug)]
pub struct Built {
    /// The keys it was built from, preset and changes included.
    pub scenario: Scenario,
    /// The fabric.
    pub topology: Topology,
    /// How hosts take in what they receive; `None`: at once.
    pub receive: Option<ReceiveSpec>,
    /// Links that differ from their tier.
    pub links: Vec<(LinkId, LinkSpec)>,
    /// What breaks, and when.
    pub faults: Vec<(Instant, Fault)>,
    /// How the fabric is divided among event queues.
    pub partition: Partition,
    /// What is sent.
    pub plan: Arc<Plan>,
    /// The pairs of hosts that talk, with their connections.
    pub pairs: Vec<Pair>,
    /// What the hosts speak: `[transport]`, then what jobs have in its place.
    pub transports: Vec<Spoken>,
    /// By host: which of `transports`; empty where there is one.
    pub speaks: Vec<usize>,
    /// So long may nothing arrive, in nanoseconds.
    pub stall_ns: u64,
    /// Folder of the files that the scenario names.
    pub folder: PathBuf,
}

/// Settings of the hosts, by transport.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one per run")]
#[non_exhaustive]
pub enum TransportSettings {
    /// The engine.
    Mrc(MrcSettings),
    /// RoCEv2.
    Roce(RoceSettings),
    /// A registered transport, with the values of its parameters.
    Named(&'static TransportInfo, Vec<f64>),
}

impl TransportSettings {
    /// The word of `transport.kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Mrc(_) => "mrc",
            Self::Roce(_) => "roce",
            Self::Named(info, _) => info.name,
        }
    }

    /// How long a queue pair that hears nothing tries before it fails, in nanoseconds; `None`: for ever.
    fn patience_ns(&self) -> Option<u64> {
        match self {
            Self::Mrc(mrc) => mrc.rts.retry.budget_ns(),
            Self::Named(info, values) => Some((info.patience_ns)(values)),
            Self::Roce(roce) => Some((u64::from(roce.retries) + 1) * roce.rto_ns.max(roce.rto_low_ns)),
        }
    }
}

/// A transport that hosts of the run speak.
#[derive(Clone, Debug)]
pub struct Spoken {
    /// The job whose `[job.transport]` it is; `None`: it has the keys of `[transport]`.
    pub job: Option<String>,
    /// Its settings.
    pub settings: TransportSettings,
}

/// A probe on the wire.
const PROBE_BYTES: u32 = 134;

/// Shortest default of `stall_us`, in nanoseconds.
const LEAST_STALL_NS: u64 = 100_000_000;

/// Hosts from which on a fabric is divided by default, and into how many parts.
const DIVIDED_HOSTS: u32 = 1024;
const DEFAULT_PARTS: u32 = 8;

/// Latest time of a scenario, in nanoseconds: 1e12 us.
pub(super) const LATEST_NS: u64 = 1_000_000_000_000_000;

/// Memory that a link with its two ports takes in a run, in bytes.
const LINK_BYTES: u64 = 1400;

/// Microseconds as nanoseconds; the key's name for the error.
pub(super) fn nanos(key: impl Into<String>, us: f64) -> Result<u64, Problem> {
    if us.is_finite() && (0.0..=1e12).contains(&us) {
        return Ok((us * 1e3).round() as u64);
    }
    Err(Problem::new(key, format_args!("{us} us: allowed are 0 to 1e12 us")))
}

pub(super) fn rate_bps(key: impl Into<String>, gbps: f64) -> Result<u64, Problem> {
    if gbps.is_finite() && (0.001..=10_000.0).contains(&gbps) {
        return Ok((gbps * 1e9).round() as u64);
    }
    Err(Problem::new(key, format_args!("{gbps} Gb/s: allowed are 0.001 to 10000 Gb/s")))
}

pub(super) fn probability(key: impl Into<String>, value: f64) -> Result<f64, Problem> {
    if (0.0..=1.0).contains(&value) {
        return Ok(value);
    }
    Err(Problem::new(key, format_args!("{value}: a probability is 0.0 to 1.0")))
}

/// A link's propagation delay fits 32 bits of nanoseconds.
pub(super) fn delay_ns(key: &str, us: f64) -> Result<u32, Problem> {
    let ns = nanos(key, us)?;
    u32::try_from(ns).map_err(|_| Problem::new(key, format_args!("{us} us: a link's delay is at most 4e6 us")))
}

/// Records that so many packets need so that a queue pair with them behaves as one with a whole window: losses are inferred
/// from seven eighths of them.
fn records_for(packets: u64) -> usize {
    (packets * 8 / 7 + 1).next_power_of_two().clamp(8, 1 << 16) as usize
}

/// `expected_slowdown` of MRC hosts, whose messages share their queue pairs, and of others, where a pair of hosts has its own.
const SLOWDOWN_OF_HOST: f64 = 8.0;
const SLOWDOWN_OF_PAIR: f64 = 30.0;

/// The pairs of hosts that talk, with their connections. MRC hosts whose messages have their own learn how many they need.
fn connections(
    scenario: &Scenario,
    (topology, links): (&Topology, &[(LinkId, LinkSpec)]),
    plan: &Plan,
    transports: &mut [Spoken],
) -> Result<Vec<Pair>, Problem> {
    let expected = scenario.transport.expected_slowdown;
    if let Some(slowdown) = expected.filter(|&slowdown| !(slowdown >= 1.0 && slowdown.is_finite())) {
        let message = format_args!("{slowdown}: nothing is faster than 1; allowed are finite numbers from there on");
        return Err(Problem::new("transport.expected_slowdown", message));
    }
    let ideal = Ideal::new(topology, links);
    // Those of MRC: others differ by a few percent, and the slowdown is a guess.
    let sizes = WireBytes { packet: 4096 + 142, payload: 4096, acknowledgement: 154 };
    let longest_ns = |message: &Message, slowdown: f64| {
        (slowdown * ideal.ns((message.src, message.dst), message.bytes, &sizes)).min(LATEST_NS as f64) as u64
    };
    let shared = scenario.transport.connections.0;
    let mrc = transports.iter_mut().filter_map(|spoken| match &mut spoken.settings {
        TransportSettings::Mrc(mrc) if shared == Connections::PerMessage => Some(mrc),
        _ => None,
    });
    let slowdown = expected.unwrap_or(SLOWDOWN_OF_HOST);
    let mut pooled = 0;
    for settings in mrc {
        let most = MrcTransport::most_own(settings.qps);
        if plan.messages.len() > most as usize {
            let messages = plan.messages.len();
            let message = format_args!("per-message: {messages} messages; MRC hosts tell at most {most} apart");
            return Err(Problem::new("transport.connections", message));
        }
        let lingers_ns = settings.rts.base_rtt_ns + settings.rts.target_delay_ns;
        settings.open = plan.most_open_at(topology.hosts(), &|message| longest_ns(message, slowdown), lingers_ns);
        pooled += 1;
    }
    let of_pairs = if pooled == transports.len() { Connections::PerPair } else { shared };
    let slowdown = expected.unwrap_or(SLOWDOWN_OF_PAIR);
    Ok(plan.connections(of_pairs, &|message| longest_ns(message, slowdown)))
}

impl Built {
    /// Builds everything; `folder` is where trace files are looked for.
    ///
    /// # Errors
    /// The first key whose value makes no sense, alone or with the others.
    pub(super) fn new(scenario: Scenario, folder: &Path, extent: Extent) -> Result<Self, Problem> {
        for (key, us) in [("limit_us", Some(scenario.limit_us)), ("stall_us", scenario.stall_us)] {
            if us.map(|us| nanos(key, us)).transpose()? == Some(0) {
                return Err(Problem::new(key, "0: nothing would happen; at least 0.001 us"));
            }
        }
        if nanos("bin_us", scenario.bin_us)? == 0 {
            return Err(Problem::new("bin_us", "0: a bin has at least 0.001 us"));
        }
        if scenario.sample_us.map(|us| nanos("sample_us", us)).transpose()? == Some(0) {
            return Err(Problem::new("sample_us", "0: samples are at least 0.001 us apart"));
        }
        if scenario.limit_us / scenario.bin_us > 1e7 {
            let key = if scenario.bin_us == Scenario::default().bin_us { "limit_us" } else { "bin_us" };
            let (limit, bin) = (scenario.limit_us, scenario.bin_us);
            let message = format_args!("more than 10 million bins of {bin} us (bin_us) in {limit} us (limit_us)");
            return Err(Problem::new(key, message));
        }
        let topology = topology::build(&scenario, folder)?;
        let links = links(&scenario, &topology)?;
        let queue = queue::build(&scenario, &topology, round_trip(&scenario, (&topology, &links))?.base_ns)?;
        let topology = topology.with_queue(queue).map_err(|error| Problem::new("topology", error))?;
        let (spoken, of_job) = job::spoken(&scenario);
        check_params(&spoken)?;
        let mut transports =
            spoken.iter().map(|keys| settings(keys, &scenario, (&topology, &links))).collect::<Result<Vec<_>, _>>()?;
        let faults = faults::build(&scenario, &topology, &links)?;
        let jobs = job::place(&scenario, &topology)?;
        let (plan, size) = traffic::build(&scenario, (&topology, &links), &jobs, folder, extent)?;
        let speaks = job::speaks(&of_job, &jobs, topology.hosts());
        check_mixed(&topology, &plan, &transports, &speaks)?;
        // Queues that are never full need no room for more than there is.
        let queued = plan.most_queued(scenario.transport.connections.0).max(2).next_power_of_two();
        for spoken in &mut transports {
            if let TransportSettings::Mrc(mrc) = &mut spoken.settings {
                mrc.send_queue = mrc.send_queue.min(queued as usize);
                mrc.tx_packets =
                    records_for(plan.most_packets(scenario.transport.connections.0, mrc.mtu.into(), mrc.qps));
            }
        }
        let pairs = connections(&scenario, (&topology, &links), &plan, &mut transports)?;
        let stall_ns = match scenario.stall_us {
            Some(us) => nanos("stall_us", us)?,
            None => {
                let patience = transports.iter().filter_map(|spoken| spoken.settings.patience_ns()).max();
                (2 * patience.unwrap_or(0)).max(LEAST_STALL_NS)
            }
        };
        let here = Path::new(".");
        let folder = if folder.as_os_str().is_empty() { here } else { folder };
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let rising = scenario.size_bins.first() > Some(&0) && scenario.size_bins.is_sorted_by(|a, b| a < b);
        if !(1..=32).contains(&scenario.size_bins.len()) || !rising {
            return Err(Problem::new("size_bins", "1 to 32 rising numbers of bytes, from 1 on"));
        }
        let receive = topology::receive(&scenario)?;
        let partition = partition(&scenario, &topology, &links, &faults, &plan)?;
        let mut scenario = scenario;
        if partition.parts() > 1 {
            // Results repeat themselves with a program that has another default, too.
            scenario.partitions = Some(partition.parts() as u32);
        }
        let built = Self {
            scenario,
            topology,
            receive,
            links,
            faults,
            partition,
            plan: plan.into(),
            pairs,
            transports,
            speaks,
            stall_ns,
            folder,
        };
        built.check_memory(size)?;
        Ok(built)
    }

    /// What a host speaks.
    pub fn spoken_by(&self, host: u32) -> &Spoken {
        &self.transports[self.speaks.get(host as usize).copied().unwrap_or(0)]
    }

    /// The pairs whose hosts speak the transport of this place.
    pub fn pairs_of(&self, nth: usize) -> Vec<Pair> {
        let speaks = |host: u32| self.speaks.get(host as usize).copied().unwrap_or(0);
        self.pairs.iter().copied().filter(|pair| speaks(pair.a) == nth).collect()
    }

    /// What is spoken, in words: `mrc and roce (store)`, where the job `store` has tables of its own.
    pub fn transport_names(&self) -> String {
        let used = |nth: usize| self.transports.len() == 1 || !self.pairs_of(nth).is_empty();
        let name = |spoken: &Spoken| match &spoken.job {
            Some(job) => format!("{} ({job})", spoken.settings.kind()),
            None => spoken.settings.kind().to_owned(),
        };
        let all = self.transports.iter().enumerate().filter(|&(nth, _)| used(nth)).map(|(_, spoken)| name(spoken));
        all.collect::<Vec<_>>().join(" and ")
    }

    /// Refuses what would not fit into memory before any of it is allocated.
    fn check_memory(&self, plan: PlanSize) -> Result<(), Problem> {
        let (mut hosts, mut qps) = (0, 0);
        for (nth, spoken) in self.transports.iter().enumerate() {
            let pairs = self.pairs_of(nth);
            let ends = |per: u32| pairs.iter().map(|pair| 2 * u64::from(pair.connections * per)).sum::<u64>();
            match &spoken.settings {
                TransportSettings::Mrc(mrc) => {
                    qps += mrc.ends(&self.topology, &pairs);
                    hosts += mrc.bytes(&self.topology, &pairs);
                }
                TransportSettings::Roce(roce) => {
                    let peers = 2 * pairs.len() as u64 * RoceSettings::bytes_per_peer(self.topology.planes()) as u64;
                    qps += ends(roce.qps);
                    hosts += ends(roce.qps) * RoceSettings::bytes_per_qp() as u64 + peers;
                }
                // They have what their messages need.
                TransportSettings::Named(..) => {}
            }
        }
        let need = hosts + plan.bytes_beside(&self.plan) + u64::from(self.topology.links()) * LINK_BYTES;
        let have = memory::available();
        if need > have {
            let (need, have) = (need >> 20, have >> 20);
            let (all, PlanSize { messages, edges }) = (self.topology.hosts(), plan);
            let message = format_args!(
                "{all} hosts with {qps} queue pairs, {messages} messages and {edges} dependencies need {need} MiB, \
                 and {have} MiB are free"
            );
            return Err(Problem::new("workload", message));
        }
        Ok(())
    }
}

/// Settings of the hosts that speak this.
fn settings(
    spoken: &SpokenKeys,
    scenario: &Scenario,
    (topology, links): (&Topology, &[(LinkId, LinkSpec)]),
) -> Result<Spoken, Problem> {
    let alone = spoken.alone(scenario);
    let settings = match spoken.keys.kind {
        TransportKind::Mrc => {
            let rtt = round_trip(&alone, (topology, links)).map_err(|problem| spoken.problem(problem))?;
            mrc::build(&alone, topology, rtt).map(TransportSettings::Mrc)
        }
        TransportKind::Roce => {
            names_no_path("RoCE", scenario, topology)?;
            roce::build(&alone, (topology, links)).map(TransportSettings::Roce)
        }
        TransportKind::Named(info) => {
            names_no_path(info.name, scenario, topology)?;
            return Ok(Spoken {
                job: spoken.job.clone(),
                settings: TransportSettings::Named(info, spoken.params(info)?),
            });
        }
    };
    let settings = settings.map_err(|problem| spoken.problem(problem))?;
    Ok(Spoken { job: spoken.job.clone(), settings })
}

/// Refuses fabrics for hosts whose packets name no path.
fn names_no_path(who: &str, scenario: &Scenario, topology: &Topology) -> Result<(), Problem> {
    if topology.scheme().paths() != PathNames::Entropy {
        let message = format_args!("{who} packets name no path: use ecmp or another scheme that asks for none");
        return Err(Problem::new("topology.forwarding", message));
    }
    if scenario.topology.telemetry != TelemetryKey::Off {
        let message = format_args!("{who} hosts send no probes for switches to write into: leave telemetry out");
        return Err(Problem::new("topology.telemetry", message));
    }
    Ok(())
}

/// Refuses parameters that nobody reads.
fn check_params(spoken: &[SpokenKeys]) -> Result<(), Problem> {
    let read = |table: &str| {
        spoken.iter().any(|keys| keys.table == table && matches!(keys.keys.kind, TransportKind::Named(_)))
    };
    let Some(keys) = spoken.iter().find(|keys| !keys.keys.params.is_empty() && !read(&keys.table)) else {
        return Ok(());
    };
    let (table, kind) = (&keys.table, keys.keys.kind.name());
    let message = format_args!("the keys of `{kind}` are in [{table}.{kind}]; params are those of other kinds");
    Err(Problem::new(format!("{table}.params"), message))
}

/// Refuses what hosts of several transports in one fabric cannot do.
fn check_mixed(topology: &Topology, plan: &Plan, transports: &[Spoken], speaks: &[usize]) -> Result<(), Problem> {
    if speaks.is_empty() {
        return Ok(());
    }
    let of = |host: u32| speaks[host as usize];
    if let Some(message) = plan.messages.iter().find(|message| of(message.src) != of(message.dst)) {
        let name = &plan.groups[usize::from(message.group)].name;
        let text = format_args!(
            "`{name}` sends from host {} to host {}, which speaks another transport: give the workload a job",
            message.src, message.dst
        );
        return Err(Problem::new("workload", text));
    }
    let pauses = |nth: &usize| matches!(transports[*nth].settings, TransportSettings::Roce(_));
    if topology.queue().pfc.is_some() && !speaks.iter().all(pauses) {
        let message = "only RoCE hosts pause, and a job of each transport shares the fabric: set pfc to false";
        return Err(Problem::new("queue.pfc", message));
    }
    Ok(())
}

/// The round trip on an idle fabric that MRC's recommendations refer to.
fn round_trip(
    scenario: &Scenario,
    (topology, links): (&Topology, &[(LinkId, LinkSpec)]),
) -> Result<RoundTrip, Problem> {
    let full = rtt::base_rtt_ns(topology, links, (u32::from(scenario.transport.mrc.mtu) + 142, 154));
    let base_ns = match scenario.transport.mrc.base_rtt_us {
        Some(us) => nanos("transport.mrc.base_rtt_us", us)?.max(1),
        None => full,
    };
    let probe_shortfall_ns = full.saturating_sub(rtt::base_rtt_ns(topology, links, (PROBE_BYTES, 154)));
    Ok(RoundTrip { base_ns, probe_shortfall_ns })
}

/// How the fabric is divided: as the scenario asks, or by its size.
fn partition(
    scenario: &Scenario,
    topology: &Topology,
    links: &[(LinkId, LinkSpec)],
    faults: &[(Instant, Fault)],
    plan: &Plan,
) -> Result<Partition, Problem> {
    let hosts = topology.hosts();
    let wanted = scenario.partitions.unwrap_or(if hosts < DIVIDED_HOSTS { 1 } else { DEFAULT_PARTS });
    if !(1..=Partition::MOST).contains(&wanted) {
        return Err(Problem::new("partitions", format_args!("{wanted}: allowed are 1 to {}", Partition::MOST)));
    }
    let degraded = faults.iter().filter_map(|(_, fault)| match *fault {
        Fault::Degrade(link, spec) => Some((link, spec)),
        _ => None,
    });
    let mut shortest: BTreeMap<LinkId, u32> = BTreeMap::new();
    for (link, spec) in links.iter().copied().chain(degraded) {
        let delay = shortest.entry(link).or_insert_with(|| topology.link_spec(link).delay_ns);
        *delay = spec.delay_ns.min(*delay);
    }
    let delay = |link| shortest.get(&link).copied().unwrap_or_else(|| topology.link_spec(link).delay_ns);
    let partition = Partition::new(topology, wanted, delay);
    if plan.is_divisible(|host| partition.part_of(host)) {
        return Ok(partition);
    }
    if scenario.partitions.is_some() {
        let message = "messages wait for what happens in another part, at once and over no link: leave it out";
        return Err(Problem::new("partitions", message));
    }
    Ok(Partition::whole(hosts))
}

fn links(scenario: &Scenario, topology: &Topology) -> Result<Vec<(LinkId, LinkSpec)>, Problem> {
    let mut changed: BTreeMap<LinkId, LinkSpec> = BTreeMap::new();
    for (nth, keys) in scenario.link.iter().enumerate() {
        let key = |name: &str| format!("link[{nth}].{name}");
        if keys.name.is_empty() {
            return Err(Problem::new(key("name"), "name at least one link, such as [\"p0-t0a-t1b\"]"));
        }
        if keys.gbps.is_none() && keys.delay_us.is_none() {
            return Err(Problem::new(format!("link[{nth}]"), "changes nothing: set gbps, delay_us or both"));
        }
        for name in &keys.name {
            let link = faults::link(topology, name)
                .ok_or_else(|| Problem::new(key("name"), faults::no_link(topology, name)))?;
            let tier = topology.link_spec(link);
            // An earlier entry may have changed the other half.
            let spec = changed.entry(link).or_insert(tier);
            if let Some(gbps) = keys.gbps {
                spec.rate_bps = rate_bps(key("gbps"), gbps)?;
            }
            if let Some(us) = keys.delay_us {
                spec.delay_ns = delay_ns(&key("delay_us"), us)?;
            }
        }
    }
    Ok(changed.into_iter().collect())
}
