//! `[[workload]]`: from keys to messages.

mod csv;

use std::path::Path;

use mrc_core::Rng;

use super::build::{LATEST_NS, nanos};
use super::foreign::{self, Scale};
use super::job::Job;
use super::memory::PlanSize;
use super::{LoadOfKey, Problem, Scenario, TraceFormatKey, WorkloadKeys, WorkloadKind};
use crate::fabric::{LinkId, LinkSpec, Topology};
use crate::workload::{
    Collective, Group, Load, Message, Pairs, Plan, Poisson, PoissonEnd, Ring, SizeDistribution, Stream,
};

/// Longest message, in bytes.
const LONGEST: u64 = Plan::LONGEST as u64;

/// Keys of the collectives: first those of all, then that of an all-to-all, that of rings of rings, and last that of a training
/// step.
const COLLECTIVE_KEYS: &[&str] = &[
    "bytes",
    "first",
    "hosts",
    "stride",
    "interleave",
    "channels",
    "iterations",
    "compute_us",
    "skew_us",
    "concurrency",
    "group",
    "collective",
];

/// How much of a workload is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Extent {
    /// Every message.
    Whole,
    /// Of the repetitions of collectives the first: enough to see whether it can run.
    OneRepetition,
}

/// The messages of a scenario, and how many there are where not all are laid out.
pub(super) fn build(
    scenario: &Scenario,
    (topology, links): (&Topology, &[(LinkId, LinkSpec)]),
    jobs: &[Job],
    folder: &Path,
    extent: Extent,
) -> Result<(Plan, PlanSize), Problem> {
    if scenario.workload.is_empty() {
        return Err(Problem::new("workload", "a scenario sends something: add a [[workload]]"));
    }
    let names = names(scenario)?;
    let (mut plan, mut beyond) = (Plan::default(), PlanSize::default());
    // By workload: how many messages there are up to its last one.
    let mut ends: Vec<usize> = Vec::new();
    let mut rng = Rng::new(scenario.seed ^ 0x77_6f72_6b6c);
    let all: Vec<u32> = (0..topology.hosts()).collect();
    for (nth, keys) in scenario.workload.iter().enumerate() {
        let name = &names[nth];
        let key = format!("workload[{nth}]");
        let ranks = match &keys.job {
            None => &all,
            Some(name) => match jobs.iter().find(|job| job.name == *name) {
                Some(job) => &job.hosts,
                None => {
                    let known: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
                    let there = if known.is_empty() {
                        "there is none".to_owned()
                    } else {
                        format!("there are: {}", known.join(", "))
                    };
                    let message = format_args!("no [[job]] is called `{name}`; {there}");
                    return Err(Problem::new(format!("{key}.job"), message));
                }
            },
        };
        let (messages, edges) = (plan.messages.len(), plan.edges.len());
        let mut part = Part { keys, name, topology, links, ranks, key, rng: &mut rng, extent, beyond: &mut beyond };
        part.check_keys()?;
        part.add(&mut plan, folder)?;
        part.reply(&mut plan, messages, edges)?;
        // Until here hosts are ranks.
        for message in &mut plan.messages[messages..] {
            (message.src, message.dst) = (part.host_of(message.src), part.host_of(message.dst));
        }
        ends.push(plan.messages.len());
    }
    plan.check(topology.hosts()).map_err(|error| {
        let nth = error.message().map(|index| ends.partition_point(|&end| end <= index));
        Problem::new(nth.map_or_else(|| "workload".to_owned(), |nth| format!("workload[{nth}]")), error)
    })?;
    let size = PlanSize::of(&plan).and(beyond);
    Ok((plan, size))
}

/// Names of all workloads; no two are alike.
fn names(scenario: &Scenario) -> Result<Vec<String>, Problem> {
    let given = |name: &str| scenario.workload.iter().any(|keys| keys.name.as_deref() == Some(name));
    let mut names: Vec<String> = Vec::new();
    for (nth, keys) in scenario.workload.iter().enumerate() {
        let name = match &keys.name {
            Some(name) if names.contains(name) => {
                let message = format_args!("`{name}` is the name of another workload: results could not be told apart");
                return Err(Problem::new(format!("workload[{nth}].name"), message));
            }
            Some(name) => name.clone(),
            None => {
                let kind = keys.kind.name();
                let numbered = (1u32..).map(|nth| if nth == 1 { kind.to_owned() } else { format!("{kind}-{nth}") });
                let mut free = numbered.filter(|name| !names.contains(name) && !given(name));
                free.next().expect("there are more numbers than workloads")
            }
        };
        names.push(name);
    }
    Ok(names)
}

impl WorkloadKind {
    /// All kinds.
    pub(super) const ALL: [Self; 14] = [
        Self::PointToPoint,
        Self::Permutation,
        Self::Incast,
        Self::AllReduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::AllToAll,
        Self::Neighbours,
        Self::HierarchicalAllReduce,
        Self::TreeAllReduce,
        Self::Broadcast,
        Self::Poisson,
        Self::Trace,
        Self::TrainingStep,
    ];

    /// Name in files.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::PointToPoint => "point-to-point",
            Self::Permutation => "permutation",
            Self::Incast => "incast",
            Self::AllReduce => "all-reduce",
            Self::AllGather => "all-gather",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllToAll => "all-to-all",
            Self::Neighbours => "neighbours",
            Self::HierarchicalAllReduce => "hierarchical-all-reduce",
            Self::TreeAllReduce => "tree-all-reduce",
            Self::Broadcast => "broadcast",
            Self::Poisson => "poisson",
            Self::Trace => "trace",
            Self::TrainingStep => "training-step",
        }
    }

    /// The keys that mean something beside `kind` and `name`.
    pub(super) const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::PointToPoint => {
                &["bytes", "messages", "depth", "start_us", "from", "to", "bidirectional", "reply_bytes", "reply_us"]
            }
            Self::Permutation => {
                &["bytes", "messages", "depth", "start_us", "first", "hosts", "other_leaf", "reply_bytes", "reply_us"]
            }
            Self::Incast => &[
                "bytes",
                "messages",
                "depth",
                "start_us",
                "first",
                "fan_in",
                "to",
                "stagger_us",
                "reply_bytes",
                "reply_us",
            ],
            Self::AllReduce
            | Self::AllGather
            | Self::ReduceScatter
            | Self::Neighbours
            | Self::TreeAllReduce
            | Self::Broadcast => COLLECTIVE_KEYS.split_at(COLLECTIVE_KEYS.len() - 3).0,
            Self::AllToAll => COLLECTIVE_KEYS.split_at(COLLECTIVE_KEYS.len() - 2).0,
            Self::HierarchicalAllReduce => &[
                "bytes",
                "first",
                "hosts",
                "stride",
                "interleave",
                "channels",
                "iterations",
                "compute_us",
                "skew_us",
                "group",
            ],
            Self::TrainingStep => COLLECTIVE_KEYS,
            Self::Poisson => &[
                "start_us",
                "first",
                "hosts",
                "other_leaf",
                "load",
                "load_of",
                "flows",
                "duration_us",
                "warm_up_us",
                "cool_down_us",
                "sizes",
                "reply_bytes",
                "reply_us",
            ],
            Self::Trace => &[
                "file",
                "lines",
                "format",
                "first",
                "stride",
                "ranks_per_host",
                "scale_bytes",
                "scale_time",
                "reply_bytes",
                "reply_us",
            ],
        }
    }

    const fn collective(self) -> Option<Collective> {
        match self {
            Self::AllReduce => Some(Collective::AllReduce),
            Self::AllGather => Some(Collective::AllGather),
            Self::ReduceScatter => Some(Collective::ReduceScatter),
            Self::AllToAll => Some(Collective::AllToAll),
            Self::Neighbours => Some(Collective::SendRecv),
            Self::HierarchicalAllReduce => Some(Collective::Hierarchical),
            Self::TreeAllReduce => Some(Collective::Tree),
            Self::Broadcast => Some(Collective::Broadcast),
            _ => None,
        }
    }
}

struct Part<'a> {
    keys: &'a WorkloadKeys,
    name: &'a str,
    topology: &'a Topology,
    /// Links that differ from their tier, in order.
    links: &'a [(LinkId, LinkSpec)],
    /// The hosts that take part, by rank.
    ranks: &'a [u32],
    key: String,
    rng: &'a mut Rng,
    extent: Extent,
    /// What is not laid out of all workloads so far.
    beyond: &'a mut PlanSize,
}

impl Part<'_> {
    fn at(&self, key: &str) -> String {
        format!("{}.{key}", self.key)
    }

    /// Ranks, or hosts where the workload has no job.
    fn all(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// The host of a rank; what is no rank is no host either.
    fn host_of(&self, rank: u32) -> u32 {
        self.ranks.get(rank as usize).copied().unwrap_or(u32::MAX)
    }

    fn leaf(&self, rank: u32) -> u32 {
        self.topology.leaf_of(self.host_of(rank))
    }

    fn problem(&self, key: &str, message: impl std::fmt::Display) -> Problem {
        Problem::new(self.at(key), message)
    }

    /// A key that the kind does not take is a misunderstanding.
    fn check_keys(&self) -> Result<(), Problem> {
        // What is not set is not written.
        let set = toml::Table::try_from(self.keys).map_err(|error| Problem::new(&*self.key, error))?;
        let kind = self.keys.kind;
        let means = |key: &str| matches!(key, "kind" | "name" | "job") || kind.keys().contains(&key);
        match set.keys().find(|key| !means(key)) {
            Some(key) => {
                let (kind, takes) = (kind.name(), kind.keys().join(", "));
                Err(self.problem(key, format_args!("means nothing to kind \"{kind}\"; it takes {takes}")))
            }
            None => Ok(()),
        }
    }

    fn bytes(&self, default: u64) -> Result<u32, Problem> {
        match self.keys.bytes.unwrap_or(default) {
            bytes @ 1..=LONGEST => Ok(bytes as u32),
            bytes => Err(self.problem("bytes", format_args!("{bytes}: a message has 1 to {LONGEST} bytes"))),
        }
    }

    fn ns(&self, key: &str, us: Option<f64>) -> Result<u64, Problem> {
        nanos(self.at(key), us.unwrap_or(0.0))
    }

    fn stream(&self) -> Result<Stream, Problem> {
        let messages = self.keys.messages.unwrap_or(1);
        let depth = self.keys.depth.unwrap_or(2);
        if messages == 0 {
            return Err(self.problem("messages", "0: at least 1"));
        }
        if depth == 0 {
            return Err(self.problem("depth", "0: at least 1"));
        }
        let start_ns = self.ns("start_us", self.keys.start_us)?;
        Ok(Stream { bytes: self.bytes(1 << 20)?, messages, depth, start_ns })
    }

    /// Refuses so many more messages and dependencies where they have no room, before they take any.
    fn room(&self, plan: &Plan, key: &str, messages: u64, edges: u64) -> Result<(), Problem> {
        let all = PlanSize::of(plan).and(*self.beyond).and(PlanSize { messages, edges });
        all.fits_beside(plan).map_err(|why| self.problem(key, why))
    }

    /// The same of so many streams.
    fn room_for_streams(&self, plan: &Plan, stream: &Stream, count: u32) -> Result<(), Problem> {
        let of_all = |each: u32| u64::from(each) * u64::from(count);
        let edges = of_all(stream.messages.saturating_sub(stream.depth));
        self.room(plan, "messages", of_all(stream.messages), edges)
    }

    /// First host and number of hosts that take part.
    fn range(&self, least: u32, stride: u32) -> Result<(u32, u32), Problem> {
        let first = self.keys.first.unwrap_or(0);
        let all = self.all().saturating_sub(first).div_ceil(stride);
        let count = self.keys.hosts.unwrap_or(all);
        if first >= self.all() {
            return Err(self.problem("first", format_args!("{first}: hosts are 0 to {}", self.all() - 1)));
        }
        if count < least || count > all {
            let message = format_args!("{count}: from host {first} on there are {all}, and the kind needs {least}");
            return Err(self.problem("hosts", message));
        }
        Ok((first, count))
    }

    fn host(&self, key: &str, value: Option<u32>, default: u32) -> Result<u32, Problem> {
        let host = value.unwrap_or(default);
        if host >= self.all() {
            return Err(self.problem(key, format_args!("{host}: hosts are 0 to {}", self.all() - 1)));
        }
        Ok(host)
    }

    fn add(&mut self, plan: &mut Plan, folder: &Path) -> Result<(), Problem> {
        let keys = self.keys;
        match keys.kind {
            WorkloadKind::PointToPoint => {
                let stream = self.stream()?;
                let from = self.host("from", keys.from, 0)?;
                let to = self.host("to", keys.to, self.all() - 1)?;
                if from == to {
                    return Err(self.problem("to", format_args!("{to}: a host does not send to itself")));
                }
                let both = keys.bidirectional == Some(true);
                self.room_for_streams(plan, &stream, if both { 2 } else { 1 })?;
                let group = plan.group(Group::flows(self.name));
                stream.add(plan, group, from, to);
                if both {
                    stream.add(plan, group, to, from);
                }
            }
            WorkloadKind::Permutation => {
                let stream = self.stream()?;
                let (first, hosts) = self.range(2, 1)?;
                self.room_for_streams(plan, &stream, hosts)?;
                let other_leaf = keys.other_leaf.unwrap_or(true);
                let (ranks, topology) = (self.ranks, self.topology);
                let leaf = |rank: u32| if other_leaf { topology.leaf_of(ranks[rank as usize]) } else { rank };
                let pairs = Pairs::permutation(first, hosts, leaf, self.rng);
                let Pairs(pairs) = pairs.map_err(|why| self.problem("other_leaf", why))?;
                let group = plan.group(Group::flows(self.name));
                pairs.into_iter().for_each(|(src, dst)| stream.add(plan, group, src, dst));
            }
            WorkloadKind::Incast => self.incast(plan)?,
            WorkloadKind::Poisson => self.poisson(plan)?,
            WorkloadKind::Trace => self.trace(plan, folder)?,
            WorkloadKind::TrainingStep => {
                let kind = keys.collective.unwrap_or(WorkloadKind::AllReduce);
                let collective = kind.collective();
                let allowed = "allowed are the collectives, such as all-reduce and all-to-all";
                let collective = collective.ok_or_else(|| self.problem("collective", allowed))?;
                self.collective(plan, collective, 1_000.0)?;
            }
            kind => {
                let collective = kind.collective().expect("all other kinds are named above");
                self.collective(plan, collective, 0.0)?;
            }
        }
        Ok(())
    }

    fn incast(&mut self, plan: &mut Plan) -> Result<(), Problem> {
        let keys = self.keys;
        let stream = self.stream()?;
        let to = self.host("to", keys.to, 0)?;
        let first = self.host("first", keys.first, 0)?;
        let there = self.all() - first - u32::from(to >= first);
        let fan_in = keys.fan_in.unwrap_or(there);
        if fan_in == 0 || fan_in > there {
            let message = format_args!("{fan_in}: from host {first} on there are {there} senders beside host {to}");
            return Err(self.problem("fan_in", message));
        }
        self.room_for_streams(plan, &stream, fan_in)?;
        let stagger = self.ns("stagger_us", keys.stagger_us)?;
        if stagger.checked_mul(fan_in.into()).is_none_or(|ns| ns > LATEST_NS) {
            return Err(self.problem("stagger_us", format_args!("{fan_in} of them reach beyond 1e12 us")));
        }
        let group = plan.group(Group::flows(self.name));
        for (nth, (src, dst)) in (0..).zip(Pairs::incast(first, fan_in, to).0) {
            Stream { start_ns: stream.start_ns + nth * stagger, ..stream }.add(plan, group, src, dst);
        }
        Ok(())
    }

    fn collective(&mut self, plan: &mut Plan, collective: Collective, compute_us: f64) -> Result<(), Problem> {
        let keys = self.keys;
        let stride = keys.stride.unwrap_or(1);
        if stride == 0 {
            return Err(self.problem("stride", "0: at least 1"));
        }
        let (first, ranks) = self.range(2, stride)?;
        let interleave = keys.interleave.unwrap_or(1);
        if interleave == 0 || !ranks.is_multiple_of(interleave) {
            return Err(self.problem("interleave", format_args!("{interleave}: must divide the {ranks} ranks")));
        }
        // One for each of the two trees.
        let channels = keys.channels.unwrap_or(if collective == Collective::Tree { 2 } else { 1 });
        if !(1..=256).contains(&channels) {
            return Err(self.problem("channels", format_args!("{channels}: allowed are 1 to 256")));
        }
        let concurrency = keys.concurrency.unwrap_or(u32::MAX);
        if concurrency == 0 {
            return Err(self.problem("concurrency", "0: at least 1"));
        }
        let below_leaf = (1..ranks).find(|nth| self.leaf(first + nth * stride) != self.leaf(first)).unwrap_or(ranks);
        let group = keys.group.unwrap_or(below_leaf);
        if collective == Collective::Hierarchical && (group == 0 || !ranks.is_multiple_of(group)) {
            return Err(self.problem("group", format_args!("{group}: must divide the {ranks} ranks")));
        }
        let iterations = keys.iterations.unwrap_or(1);
        if iterations == 0 {
            return Err(self.problem("iterations", "0: at least 1"));
        }
        let bytes = keys.bytes.unwrap_or(1 << 20);
        if bytes == 0 || bytes > 1 << 40 {
            return Err(self.problem("bytes", format_args!("{bytes}: a vector has 1 to {} bytes", 1u64 << 40)));
        }
        let compute_ns = self.ns("compute_us", Some(keys.compute_us.unwrap_or(compute_us)))?;
        let skew_ns = self.ns("skew_us", keys.skew_us)?;
        let skew_ns = u32::try_from(skew_ns).map_err(|_| self.problem("skew_us", "allowed are 0 to 4294967"))?;
        let ring = Ring {
            first,
            stride,
            ranks,
            interleave,
            channels,
            concurrency,
            group,
            bytes,
            iterations,
            compute_ns,
            skew_ns,
        };
        let size = |ring: &Ring| (collective.messages(ring), collective.edges(ring));
        let (messages, edges) = size(&ring);
        self.room(plan, "iterations", messages, edges)?;
        let iterations = if self.extent == Extent::Whole { iterations } else { 1 };
        let ring = Ring { iterations, ..ring };
        let laid_out = size(&ring);
        let beyond = PlanSize { messages: messages - laid_out.0, edges: edges - laid_out.1 };
        *self.beyond = self.beyond.and(beyond);
        let name = self.name.to_owned();
        collective.add(plan, &name, &ring, self.rng);
        Ok(())
    }

    fn poisson(&mut self, plan: &mut Plan) -> Result<(), Problem> {
        let keys = self.keys;
        let (first, hosts) = self.range(2, 1)?;
        let points = keys.sizes.as_ref().map_or_else(|| vec![(1e6, 0.0), (1e6, 1.0)], super::SizesKey::points);
        let sizes = SizeDistribution::new(&points).map_err(|why| self.problem("sizes", why))?;
        let load = keys.load.unwrap_or(0.5);
        if !(load > 0.0 && load <= 10.0) {
            return Err(self.problem("load", format_args!("{load}: above 0, up to 10")));
        }
        let (ranks, topology) = (self.ranks, self.topology);
        let other_leaf = keys.other_leaf.unwrap_or(false);
        let leaf = |rank: u32| if other_leaf { topology.leaf_of(ranks[rank as usize]) } else { rank };
        if (first..first + hosts).all(|rank| leaf(rank) == leaf(first)) {
            return Err(
                self.problem("other_leaf", "all hosts that take part are below one leaf: nobody finds another one")
            );
        }
        let (bps, share) = self.carries(first, hosts, other_leaf)?;
        let interval_ns = sizes.mean() * 8e9 / (bps / share * load);
        let start_ns = self.ns("start_us", keys.start_us)?;
        let until = match (keys.flows, keys.duration_us) {
            (Some(_), Some(_)) => return Err(self.problem("duration_us", "either flows or duration_us")),
            (Some(0), _) => return Err(self.problem("flows", "0: at least 1")),
            (None, Some(us)) => match nanos(self.at("duration_us"), us)? {
                0 => return Err(self.problem("duration_us", "0: at least 0.001")),
                ns => PoissonEnd::Duration(ns),
            },
            (flows, None) => PoissonEnd::Flows(flows.unwrap_or(1000)),
        };
        let (key, expected) = match until {
            PoissonEnd::Flows(flows) => ("flows", u64::from(flows)),
            PoissonEnd::Duration(ns) => ("duration_us", (ns as f64 / interval_ns * 1.5) as u64),
        };
        self.room(plan, key, expected, 0)?;
        let group = plan.group(Group::flows(self.name));
        let at = plan.messages.len();
        let poisson = Poisson { sizes, interval_ns, start_ns, until };
        let ns = poisson.add(plan, group, (first, hosts), leaf, self.rng);
        if plan.messages.len() == at {
            let message = format_args!(
                "no flow begins in {} us: one does every {:.3} us on average",
                ns as f64 / 1e3,
                interval_ns / 1e3
            );
            return Err(self.problem("duration_us", message));
        }
        let measured_ns = self.set_aside(plan, at, (start_ns, ns))?;
        let crosses = |message: &Message| self.leaf(message.src) != self.leaf(message.dst);
        let of_uplinks = keys.load_of == Some(LoadOfKey::Uplink);
        let counts = |message: &&Message| message.group == group && (!of_uplinks || crosses(message));
        let measured = plan.messages[at..].iter().filter(counts);
        let bytes: u64 = measured.map(|message| u64::from(message.bytes)).sum();
        let offered = bytes as f64 * 8e9 / measured_ns.max(1) as f64 / bps;
        plan.groups[usize::from(group)].load = Some(Load { asked: load, offered });
        Ok(())
    }

    /// Rate of a link, in bit/s, as `[[link]]` has it.
    fn link_bps(&self, link: LinkId) -> u64 {
        match self.links.binary_search_by_key(&link, |(link, _)| *link) {
            Ok(at) => self.links[at].1.rate_bps,
            Err(_) => self.topology.link_spec(link).rate_bps,
        }
    }

    /// What the links that `load` refers to carry, in bit/s, and the share of the flows of these hosts that crosses them.
    fn carries(&self, first: u32, hosts: u32, other_leaf: bool) -> Result<(f64, f64), Problem> {
        let of_hosts = || {
            let rate = |rank| {
                let host = self.host_of(rank);
                let ports = 0..self.topology.host_ports(host);
                let link = |port| self.link_bps(self.topology.host_link_id(port, host));
                ports.map(link).sum::<u64>() as f64
            };
            (first..first + hosts).map(rate).sum()
        };
        match self.keys.load_of.unwrap_or_default() {
            LoadOfKey::Host => Ok((of_hosts(), 1.0)),
            LoadOfKey::Uplink => {
                let mut leaves: Vec<u32> = (first..first + hosts).map(|rank| self.leaf(rank)).collect();
                leaves.sort_unstable();
                let sizes: Vec<f64> = leaves.chunk_by(|a, b| a == b).map(|leaf| leaf.len() as f64).collect();
                let all = f64::from(hosts);
                // Of a flow between two different hosts.
                let stays: f64 = sizes.iter().map(|size| size / all * (size - 1.0) / (all - 1.0)).sum();
                let crosses = if other_leaf { 1.0 } else { 1.0 - stays };
                let uplinks: u64 = self.topology.uplinks().map(|link| self.link_bps(link)).sum();
                if crosses <= 0.0 || uplinks == 0 {
                    return Err(self.problem("load_of", "no flow leaves its leaf: use `host`"));
                }
                let share = all / f64::from(self.topology.hosts());
                Ok((uplinks as f64 * share, crosses))
            }
        }
    }

    /// Moves what begins in the warm-up or the cool-down of a process into a group of its own. Returns how long the rest takes.
    fn set_aside(&mut self, plan: &mut Plan, at: usize, (start_ns, ns): (u64, u64)) -> Result<u64, Problem> {
        let keys = self.keys;
        let [warm, cool] =
            [("warm_up_us", keys.warm_up_us), ("cool_down_us", keys.cool_down_us)].map(|(key, us)| self.ns(key, us));
        let (warm, cool) = (warm?, cool?);
        if warm == 0 && cool == 0 {
            return Ok(ns);
        }
        let measured = start_ns + warm..(start_ns + ns).saturating_sub(cool);
        if !plan.messages[at..].iter().any(|message| measured.contains(&message.delay_ns)) {
            let key = if keys.warm_up_us.is_some() { "warm_up_us" } else { "cool_down_us" };
            return Err(self.problem(key, format_args!("nothing is left of {} us", ns / 1000)));
        }
        let name = format!("{} (warm-up and cool-down)", self.name);
        let group = plan.group(Group { measured: false, ..Group::flows(&name) });
        for message in plan.messages[at..].iter_mut().filter(|message| !measured.contains(&message.delay_ns)) {
            message.group = group;
        }
        Ok(measured.end - measured.start)
    }

    /// Adds the answers to the messages from `at` on, and makes what waited for their completion, by edges from `edges` on,
    /// wait for the answers.
    fn reply(&mut self, plan: &mut Plan, at: usize, edges: usize) -> Result<(), Problem> {
        let keys = self.keys;
        let delay_ns = self.ns("reply_us", keys.reply_us)?;
        let Some(bytes) = keys.reply_bytes else {
            return if keys.reply_us.is_some() { Err(self.problem("reply_us", "needs reply_bytes")) } else { Ok(()) };
        };
        if !(1..=LONGEST).contains(&bytes) {
            return Err(self.problem("reply_bytes", format_args!("{bytes}: a message has 1 to {LONGEST} bytes")));
        }
        let requests = plan.messages.len() - at;
        self.room(plan, "reply_bytes", requests as u64, requests as u64)?;
        let measured = plan.group(Group::flows(&format!("{} (answers)", self.name)));
        let mut aside = None;
        for id in at..at + requests {
            let request = plan.messages[id];
            if request.is_compute() {
                return Err(self.problem("reply_bytes", "a trace with computations says itself who answers"));
            }
            let group = match plan.groups[usize::from(request.group)].measured {
                true => measured,
                false => *aside.get_or_insert_with(|| {
                    let name = format!("{} (answers of warm-up and cool-down)", self.name);
                    plan.group(Group { measured: false, ..Group::flows(&name) })
                }),
            };
            let (src, dst, bytes) = (request.dst, request.src, bytes as u32);
            let answer = plan.push(Message { src, dst, bytes, group, iteration: 0, delay_ns });
            plan.after_delivery(id as u32, answer);
        }
        let answer = |request: u32| request - at as u32 + (at + requests) as u32;
        let waits = plan.edges.len() - requests;
        for edge in plan.edges[edges..waits].iter_mut().filter(|edge| edge.acked) {
            (edge.first, edge.acked) = (answer(edge.first), false);
        }
        Ok(())
    }

    fn trace(&mut self, plan: &mut Plan, folder: &Path) -> Result<(), Problem> {
        let scale = self.scale()?;
        let file = match (&self.keys.file, &self.keys.lines) {
            (Some(file), None) => file,
            (None, Some(lines)) => {
                if self.keys.format.is_some_and(|format| format != TraceFormatKey::Csv) {
                    return Err(self.problem("format", "`lines` are csv; other formats come from a file"));
                }
                let group = plan.group(Group::flows(self.name));
                return self.csv(plan, ("lines", Path::new("lines")), lines, group, &scale);
            }
            _ => return Err(self.problem("file", "kind \"trace\" needs it or `lines`, and not both")),
        };
        let path = folder.join(file);
        let format = self.keys.format.unwrap_or(match path.extension().and_then(|end| end.to_str()) {
            Some("goal") => TraceFormatKey::Goal,
            Some("cm") => TraceFormatKey::Htsim,
            Some("et") => TraceFormatKey::Chakra,
            _ => TraceFormatKey::Csv,
        });
        let of_path = |why: String| self.problem("file", format_args!("{}: {why}", path.display()));
        let read = || foreign::text(&path).map_err(of_path);
        let group = plan.group(Group::flows(self.name));
        let (messages, last) = (plan.messages.len(), self.all() - 1);
        match format {
            TraceFormatKey::Csv => return self.csv(plan, ("file", &path), &read()?, group, &scale),
            TraceFormatKey::Goal => foreign::goal(&read()?, group, &scale, plan).map_err(of_path)?,
            TraceFormatKey::Htsim => foreign::connections(&read()?, group, &scale, plan).map_err(of_path)?,
            TraceFormatKey::Chakra => foreign::chakra(&path, group, &scale, plan).map_err(of_path)?,
        }
        let added = &plan.messages[messages..];
        if let Some(message) = added.iter().find(|message| message.src.max(message.dst) > last) {
            let host = message.src.max(message.dst);
            let message = format_args!(
                "{}: a rank is on host {host}, and hosts are 0 to {last}: raise ranks_per_host or take a larger fabric",
                path.display()
            );
            return Err(self.problem("file", message));
        }
        if added.iter().all(|message| message.is_compute()) {
            return Err(self.problem("file", format_args!("{} holds no message", path.display())));
        }
        Ok(())
    }

    /// Where the ranks of a trace are.
    fn scale(&self) -> Result<Scale, Problem> {
        let keys = self.keys;
        let factor = |key: &str, value: Option<f64>| match value.unwrap_or(1.0) {
            value if value.is_finite() && value > 0.0 && value <= 1e6 => Ok(value),
            value => Err(self.problem(key, format_args!("{value}: above 0, up to 1e6"))),
        };
        for (key, value) in [("stride", keys.stride), ("ranks_per_host", keys.ranks_per_host)] {
            if value == Some(0) {
                return Err(self.problem(key, "0: at least 1"));
            }
        }
        Ok(Scale {
            first: self.host("first", keys.first, 0)?,
            stride: keys.stride.unwrap_or(1),
            ranks_per_host: keys.ranks_per_host.unwrap_or(1),
            bytes: factor("scale_bytes", keys.scale_bytes)?,
            time: factor("scale_time", keys.scale_time)?,
        })
    }
}
