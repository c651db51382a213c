//! `[topology]` and `[host]`: from keys to a fabric, and how hosts take in what they receive.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Serialize};

use super::build::{delay_ns, nanos, rate_bps};
use super::{Problem, Scenario, TransportKind, foreign};
use crate::fabric::{
    Clos, Edge, Graph, GraphError, GraphSpec, LinkSpec, Node, Param, ReceiveSpec, Scheme, Tiers, Topology,
    TopologyError,
};
use crate::scheme::{self, ECMP, SCHEMES, SRV6};

/// Shapes of fabrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Two tiers of switches per plane.
    #[default]
    Clos,
    /// Two switches and a link between them, per plane.
    Dumbbell,
    /// Three tiers of switches per plane: pods of T0s and T1s below T2s.
    ThreeTier,
    /// Three tiers of switches with `k` ports each, whatever the rates of the links.
    FatTree,
    /// What `topology.edge` joins.
    Graph,
    /// What a topology file of htsim says.
    Htsim,
}

/// What the bandwidth of a path is to hosts that get telemetry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TelemetryKey {
    /// Switches write nothing.
    #[default]
    Off,
    /// The least rate of its links.
    Rate,
    /// The greatest rate in use on one of its links: tells busy from idle paths where no queue does.
    Load,
}

/// Name of a switch scheme, one of [`crate::scheme::SCHEMES`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(transparent)]
pub struct SchemeKey(pub String);

impl<'de> Deserialize<'de> for SchemeKey {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        let known = || SCHEMES.iter().map(|info| format!("`{}`", info.name)).collect::<Vec<_>>().join(", ");
        match crate::scheme::named(&name) {
            Some(_) => Ok(Self(name)),
            None => Err(D::Error::custom(format!("unknown variant `{name}`, expected one of {}", known()))),
        }
    }
}

impl JsonSchema for SchemeKey {
    fn schema_name() -> Cow<'static, str> {
        "SchemeKey".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let of = SCHEMES.iter().map(|info| {
            let param = |param: &Param| format!(" `scheme.{}` {}", param.name, param.describe());
            let about = format!("{}{}", info.about, info.params.iter().map(param).collect::<String>());
            schemars::json_schema!({ "type": "string", "const": info.name, "description": about })
        });
        schemars::json_schema!({ "oneOf": of.map(|one| one.to_value()).collect::<Vec<_>>() })
    }
}

/// `[topology]`.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct TopologyKeys {
    /// Form of the fabric.
    pub shape: Shape,
    /// Independent planes; a host has a port on each.
    pub planes: u8,
    /// Leaves per plane; of three tiers, leaves of a pod.
    pub t0: u16,
    /// Hosts below a leaf.
    pub hosts_per_t0: u16,
    /// Spines per plane, of three tiers T1s of a pod; by default as many as the oversubscription asks for.
    pub t1: Option<u16>,
    /// Bandwidth of a leaf's hosts over that of its uplinks; of a fat tree, hosts over uplinks. Uplinks are whole: it may become less.
    pub oversubscription: f64,
    /// Links between a T0 and each of its T1s.
    pub parallel: u32,
    /// Ports of a switch of a fat tree, an even number.
    pub k: Option<u32>,
    /// Pods of three tiers; 2 by default.
    pub pods: Option<u32>,
    /// T2s per plane, a multiple of a pod's T1s; by default as many as the oversubscription of the T1s asks for.
    pub t2: Option<u32>,
    /// The same of a T1's links to T0s over its links to T2s.
    pub t2_oversubscription: f64,
    /// Links between a T1 and each of its T2s.
    pub t2_parallel: u32,
    /// Rate of a link to a T2, in Gb/s; `fabric_gbps` by default.
    pub t2_gbps: Option<f64>,
    /// Its propagation delay; `fabric_delay_us` by default.
    pub t2_delay_us: Option<f64>,
    /// Links of a graph.
    pub edge: Vec<EdgeKeys>,
    /// Topology file of htsim (`.topo`), relative to the scenario.
    pub file: Option<String>,
    /// Rate of a host's link, in Gb/s.
    pub host_gbps: f64,
    /// Its propagation delay.
    pub host_delay_us: f64,
    /// Rate of a link between switches; that of the hosts' by default.
    pub fabric_gbps: Option<f64>,
    /// Its propagation delay; that of the hosts' by default.
    pub fabric_delay_us: Option<f64>,
    /// Time a frame spends in a switch before its egress queue.
    pub switch_us: f64,
    /// Whether a switch begins to forward a packet when its first 64 bytes are there, not its last bit; to a faster link it
    /// never does.
    pub cut_through: bool,
    /// What switches do with packets; `srv6` by default, `ecmp` with RoCE, whose packets name no path.
    pub forwarding: Option<SchemeKey>,
    /// Switches write queue, rate and load of their links into the probes of MRC hosts (in-band telemetry), and the answers bring
    /// it back: 8 bytes for each hop and for the sum. The selector `flowing-jumping` then goes by it, not by round trips.
    pub telemetry: TelemetryKey,
    /// Parameters of that scheme, by name.
    pub scheme: BTreeMap<String, f64>,
}

impl Default for TopologyKeys {
    fn default() -> Self {
        Self {
            shape: Shape::Clos,
            planes: 1,
            t0: 2,
            hosts_per_t0: 2,
            t1: None,
            oversubscription: 1.0,
            parallel: 1,
            k: None,
            pods: None,
            t2: None,
            t2_oversubscription: 1.0,
            t2_parallel: 1,
            t2_gbps: None,
            t2_delay_us: None,
            edge: Vec::new(),
            file: None,
            host_gbps: 100.0,
            host_delay_us: 0.5,
            fabric_gbps: None,
            fabric_delay_us: None,
            switch_us: 0.5,
            cut_through: false,
            forwarding: None,
            telemetry: TelemetryKey::Off,
            scheme: BTreeMap::new(),
        }
    }
}

/// `[[topology.edge]]`.
#[derive(Clone, PartialEq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct EdgeKeys {
    /// Pairs of nodes that a link joins: `h0`, `h1` and so on are hosts, without gaps; any other name is a switch. The ports
    /// of a host are its links in their order.
    pub between: Vec<[String; 2]>,
    /// Rate, in Gb/s; `host_gbps` of a host's link, `fabric_gbps` of others by default.
    pub gbps: Option<f64>,
    /// Propagation delay; `host_delay_us` and `fabric_delay_us` by default.
    pub delay_us: Option<f64>,
    /// Links between each pair; 1 by default.
    pub parallel: Option<u32>,
}

/// `[host]`. By default a host takes in what its links bring at once.
#[derive(Clone, PartialEq, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct HostKeys {
    /// Longest extra time before a host looks at a packet, drawn evenly for each; packets keep their order.
    pub jitter_us: f64,
    /// Rate at which a host takes packets in, over all its ports, in Gb/s; by default that of its links.
    pub receive_gbps: Option<f64>,
    /// Bytes that may wait for that; what finds no room is dropped, or with PFC pauses the switch from half of it on.
    /// 1000000 by default.
    pub receive_buffer_bytes: Option<u32>,
}

/// Links by tier.
struct Links {
    host: LinkSpec,
    fabric: LinkSpec,
    t2: LinkSpec,
}

/// Schemes that keep no state that only two tiers have.
const ON_GRAPHS: [&str; 7] = ["srv6", "ecmp", "wcmp", "rps", "adaptive", "drill", "letflow"];
/// Most links of a scenario's fabric.
const MOST_LINKS: u64 = 8_000_000;

/// The fabric of a scenario, with default queues.
pub(super) fn build(scenario: &Scenario, folder: &Path) -> Result<Topology, Problem> {
    let keys = &scenario.topology;
    let links = links(keys)?;
    keys_of_shape(keys)?;
    if !(1..=64).contains(&keys.parallel) || !(1..=64).contains(&keys.t2_parallel) {
        let key = if (1..=64).contains(&keys.parallel) { "topology.t2_parallel" } else { "topology.parallel" };
        return Err(Problem::new(key, "allowed are 1 to 64"));
    }
    let mut switch_latency_ns = delay_ns("topology.switch_us", keys.switch_us)?;
    let spec = match keys.shape {
        Shape::Clos if keys.parallel > 1 => tiers(keys, &links)?.graph(),
        Shape::Clos | Shape::Dumbbell => return clos(scenario, &links).map(Topology::from),
        Shape::ThreeTier | Shape::FatTree => tiers(keys, &links)?.graph(),
        Shape::Graph => graph(keys, &links)?,
        Shape::Htsim => {
            let (tiers, latency_ns) = of_file(keys, folder)?;
            switch_latency_ns = latency_ns;
            tiers.graph()
        }
    };
    let scheme = scheme(scenario)?;
    if !ON_GRAPHS.contains(&scheme.info().name) {
        let (name, known) = (scheme.info().name, ON_GRAPHS.join(", "));
        let message = format_args!("`{name}` knows two tiers without parallel links only: use one of {known}");
        return Err(Problem::new("topology.forwarding", message));
    }
    let spec = GraphSpec { switch_latency_ns, cut_through: keys.cut_through, scheme, ..spec };
    let graph = Graph::new(spec).map_err(|error| {
        let key = match error {
            GraphError::Ports { .. } | GraphError::Apart { .. } | GraphError::Empty | GraphError::Ends(_) => {
                "topology.edge"
            }
            GraphError::Sids(..) | GraphError::HostSids => "topology.forwarding",
            GraphError::Rate(_) => "topology",
        };
        Problem::new(if keys.shape == Shape::Graph { key } else { "topology" }, error)
    })?;
    Ok(graph.into())
}

/// The fabric of a topology file.
fn of_file(keys: &TopologyKeys, folder: &Path) -> Result<(Tiers, u32), Problem> {
    let Some(file) = &keys.file else {
        return Err(Problem::new("topology.file", "shape = \"htsim\" needs it"));
    };
    let path = folder.join(file);
    let of_path = |why: String| Problem::new("topology.file", format_args!("{}: {why}", path.display()));
    let text = foreign::text(&path).map_err(of_path)?;
    let (tiers, latency_ns) = foreign::topology(&text).map_err(of_path)?;
    check_size(&tiers)?;
    Ok((tiers, latency_ns))
}

/// How hosts receive; `None`: at once.
pub(super) fn receive(scenario: &Scenario) -> Result<Option<ReceiveSpec>, Problem> {
    let keys = &scenario.host;
    let jitter_ns = nanos("host.jitter_us", keys.jitter_us)?;
    let jitter_ns = u32::try_from(jitter_ns).ok().filter(|&ns| ns < 1_000_000_000);
    let jitter_ns = jitter_ns.ok_or_else(|| Problem::new("host.jitter_us", "at most 1e6 us"))?;
    let rate = keys.receive_gbps.map(|gbps| rate_bps("host.receive_gbps", gbps)).transpose()?;
    if jitter_ns == 0 && rate.is_none() {
        return match keys.receive_buffer_bytes {
            Some(_) => Err(Problem::new("host.receive_buffer_bytes", "needs jitter_us or receive_gbps beside it")),
            None => Ok(None),
        };
    }
    let buffer_bytes = keys.receive_buffer_bytes.unwrap_or(1_000_000);
    if buffer_bytes < 10_000 {
        let message = format_args!("{buffer_bytes}: at least 10000, two full packets");
        return Err(Problem::new("host.receive_buffer_bytes", message));
    }
    Ok(Some(ReceiveSpec { jitter_ns, rate_bps: rate, buffer_bytes }))
}

/// A key that the shape does not take is a misunderstanding.
fn keys_of_shape(keys: &TopologyKeys) -> Result<(), Problem> {
    let default = TopologyKeys::default();
    let tiers3 = matches!(keys.shape, Shape::ThreeTier | Shape::FatTree);
    let refuse = |key: &str, cure: &str| {
        let shape = serde_json::to_value(keys.shape).ok().and_then(|name| name.as_str().map(str::to_owned));
        let shape = shape.unwrap_or_default();
        Err(Problem::new(format!("topology.{key}"), format_args!("means nothing to shape \"{shape}\"; {cure}")))
    };
    if !keys.edge.is_empty() && keys.shape != Shape::Graph {
        return refuse("edge", "it goes with shape = \"graph\"");
    }
    if keys.file.is_some() && keys.shape != Shape::Htsim {
        return refuse("file", "it goes with shape = \"htsim\"");
    }
    if keys.k.is_some() && keys.shape != Shape::FatTree {
        return refuse("k", "it goes with shape = \"fat-tree\"");
    }
    let third = [
        ("pods", keys.pods.is_some()),
        ("t2", keys.t2.is_some()),
        ("t2_oversubscription", keys.t2_oversubscription != 1.0),
        ("t2_parallel", keys.t2_parallel != 1),
        ("t2_gbps", keys.t2_gbps.is_some()),
        ("t2_delay_us", keys.t2_delay_us.is_some()),
    ];
    if let Some((key, _)) = third.iter().find(|(_, set)| *set && !tiers3) {
        return refuse(key, "it goes with shape = \"three-tier\" or \"fat-tree\"");
    }
    let given = [
        ("planes", keys.planes != default.planes && matches!(keys.shape, Shape::Graph | Shape::Htsim)),
        ("t0", keys.t0 != default.t0),
        ("hosts_per_t0", keys.hosts_per_t0 != default.hosts_per_t0),
        ("t1", keys.t1.is_some()),
        ("pods", keys.pods.is_some()),
        ("oversubscription", keys.oversubscription != 1.0 && matches!(keys.shape, Shape::Graph | Shape::Htsim)),
        ("parallel", keys.parallel != 1 && matches!(keys.shape, Shape::Graph | Shape::Htsim)),
    ];
    match (keys.shape, given.iter().find(|(_, set)| *set)) {
        (Shape::FatTree, Some((key, _))) => refuse(key, "`k` sets it; shape = \"three-tier\" has it free"),
        (Shape::Htsim, Some((key, _))) => refuse(key, "the topology file says it"),
        (Shape::Graph, Some((key, _))) => refuse(key, "the links of topology.edge say it all"),
        (Shape::Dumbbell, _) if keys.parallel != 1 => refuse("parallel", "set fabric_gbps"),
        _ => Ok(()),
    }
}

fn links(keys: &TopologyKeys) -> Result<Links, Problem> {
    let rate = |key: &str, gbps: Option<f64>, default: u64| match gbps {
        Some(gbps) => rate_bps(format!("topology.{key}"), gbps),
        None => Ok(default),
    };
    let delay = |key: &str, us: Option<f64>, default: u32| match us {
        Some(us) => delay_ns(&format!("topology.{key}"), us),
        None => Ok(default),
    };
    let host = LinkSpec {
        rate_bps: rate("host_gbps", Some(keys.host_gbps), 0)?,
        delay_ns: delay("host_delay_us", Some(keys.host_delay_us), 0)?,
    };
    let fabric = LinkSpec {
        rate_bps: rate("fabric_gbps", keys.fabric_gbps, host.rate_bps)?,
        delay_ns: delay("fabric_delay_us", keys.fabric_delay_us, host.delay_ns)?,
    };
    let t2 = LinkSpec {
        rate_bps: rate("t2_gbps", keys.t2_gbps, fabric.rate_bps)?,
        delay_ns: delay("t2_delay_us", keys.t2_delay_us, fabric.delay_ns)?,
    };
    Ok(Links { host, fabric, t2 })
}

/// Links upwards of this rate for what comes from below, at a ratio; at least one.
fn uplinks(below: f64, rate: f64, over: f64) -> f64 {
    // A ratio such as 0.7 is no fraction of two: what is a whole number but for that is one.
    (below / rate / over - 1e-9).ceil().max(1.0)
}

/// Refuses a ratio that so few uplinks cannot have, or that a number of uplinks given beside it contradicts.
fn check_ratio(
    (key, over): (&str, f64),
    (below, rate): (f64, f64),
    (count, given): (&str, Option<u32>),
) -> Result<(), Problem> {
    let need = uplinks(below, rate, over);
    let at = |message: std::fmt::Arguments<'_>| Err(Problem::new(format!("topology.{key}"), message));
    match given {
        _ if over == 1.0 => Ok(()),
        Some(given) if f64::from(given) != need => at(format_args!(
            "{over} asks for {need} uplinks, and {count}, here or in the preset, says {given}: give one of both"
        )),
        _ if below / rate / over < 1.0 - 1e-9 => {
            at(format_args!("{over}: with one uplink it is {}, which is the most", below / rate))
        }
        _ => Ok(()),
    }
}

fn ratio(key: &str, over: f64) -> Result<f64, Problem> {
    if over.is_finite() && over > 0.0 {
        return Ok(over);
    }
    Err(Problem::new(format!("topology.{key}"), format_args!("{over}: must be above 0")))
}

fn tiers(keys: &TopologyKeys, links: &Links) -> Result<Tiers, Problem> {
    let at = |key: &str| format!("topology.{key}");
    let &Links { host, fabric, t2: t2_link } = links;
    let (pods, t0, hosts_per_t0) = match (keys.shape, keys.k) {
        (Shape::FatTree, Some(k)) if k >= 2 && k % 2 == 0 && k <= 128 => (k, k / 2, k / 2),
        (Shape::FatTree, Some(k)) => return Err(Problem::new(at("k"), format_args!("{k}: an even number, 2 to 128"))),
        (Shape::FatTree, None) => return Err(Problem::new(at("k"), "shape = \"fat-tree\" needs it")),
        (Shape::ThreeTier, _) => (keys.pods.unwrap_or(2), u32::from(keys.t0), u32::from(keys.hosts_per_t0)),
        _ => (1, u32::from(keys.t0), u32::from(keys.hosts_per_t0)),
    };
    for (key, value) in [("pods", pods), ("t0", t0), ("hosts_per_t0", hosts_per_t0)] {
        if !(1..=4096).contains(&value) {
            return Err(Problem::new(at(key), format_args!("{value}: allowed are 1 to 4096")));
        }
    }
    let most = mrc_core::MAX_PORTS;
    if !(1..=most).contains(&usize::from(keys.planes)) {
        let message = format_args!("{}: 1 to {most}: a host has at most {most} ports", keys.planes);
        return Err(Problem::new(at("planes"), message));
    }
    // The ports of a fat tree's switches count, whatever the rates of its links.
    let rate = |link: LinkSpec| if keys.shape == Shape::FatTree { 1.0 } else { link.rate_bps as f64 };
    let over = ratio("oversubscription", keys.oversubscription)?;
    let below = f64::from(hosts_per_t0) * rate(host) / f64::from(keys.parallel);
    let need = uplinks(below, rate(fabric), over);
    check_ratio(("oversubscription", over), (below, rate(fabric)), ("t1", keys.t1.map(u32::from)))?;
    if need > 4096.0 {
        return Err(Problem::new(at("oversubscription"), format_args!("{need} T1s per pod; at most 4096")));
    }
    let t1 = keys.t1.map_or(need as u32, u32::from);
    if t1 == 0 {
        return Err(Problem::new(at("t1"), "0: at least 1"));
    }
    let t2 = if matches!(keys.shape, Shape::ThreeTier | Shape::FatTree) {
        let over = ratio("t2_oversubscription", keys.t2_oversubscription)?;
        let below = f64::from(t0 * keys.parallel) * rate(fabric) / f64::from(keys.t2_parallel);
        let need = uplinks(below, rate(t2_link), over) as u32;
        let of_t1 = keys.t2.filter(|t2| t2.is_multiple_of(t1)).map(|t2| t2 / t1);
        check_ratio(("t2_oversubscription", over), (below, rate(t2_link)), ("t2", of_t1))?;
        let t2 = keys.t2.unwrap_or(need.saturating_mul(t1));
        if t2 == 0 || !t2.is_multiple_of(t1) {
            let message = format_args!("{t2}: a multiple of the {t1} T1s of a pod, at least once");
            return Err(Problem::new(at("t2"), message));
        }
        t2
    } else {
        0
    };
    let tiers = Tiers {
        planes: keys.planes,
        pods,
        t0,
        t1,
        t2,
        hosts_per_t0,
        parallel: keys.parallel,
        t2_parallel: keys.t2_parallel,
        host_link: host,
        fabric_link: fabric,
        t2_link,
    };
    check_size(&tiers)?;
    Ok(tiers)
}

fn check_size(tiers: &Tiers) -> Result<(), Problem> {
    let &Tiers { pods, t0, t1, t2, hosts_per_t0, parallel, t2_parallel, planes, .. } = tiers;
    let wide = |a: u32, b: u32| u64::from(a) * u64::from(b);
    let of_hosts = wide(pods, t0).saturating_mul(hosts_per_t0.into());
    let of_pods =
        wide(pods, t0).saturating_mul(wide(t1, parallel)).saturating_add(wide(pods, t2) * u64::from(t2_parallel));
    if of_hosts > 1 << 20 || of_hosts.saturating_add(of_pods).saturating_mul(planes.into()) > MOST_LINKS {
        let message = format_args!("{of_hosts} hosts and {of_pods} links between switches of a plane: too many");
        return Err(Problem::new("topology", message));
    }
    Ok(())
}

fn graph(keys: &TopologyKeys, links: &Links) -> Result<GraphSpec, Problem> {
    let mut spec = GraphSpec::default();
    let mut switches: BTreeMap<String, u32> = BTreeMap::new();
    let mut of_pair: BTreeMap<(Node, Node), u32> = BTreeMap::new();
    let mut called: BTreeSet<String> = BTreeSet::new();
    for (nth, edge) in keys.edge.iter().enumerate() {
        let at = |key: &str| format!("topology.edge[{nth}].{key}");
        if edge.between.is_empty() {
            return Err(Problem::new(
                at("between"),
                "names no pair of nodes: write [[\"h0\", \"a\"], [\"h1\", \"a\"]]",
            ));
        }
        let parallel = edge.parallel.unwrap_or(1);
        if !(1..=64).contains(&parallel) {
            return Err(Problem::new(at("parallel"), format_args!("{parallel}: allowed are 1 to 64")));
        }
        for names in &edge.between {
            let mut node = |name: &String| {
                let host = name.strip_prefix('h').and_then(|number| number.parse::<u32>().ok());
                match host {
                    Some(host) if *name != format!("h{host}") => {
                        let message =
                            format_args!("`{name}`: a host is called h{host}, a switch must not begin like one");
                        Err(Problem::new(at("between"), message))
                    }
                    Some(host) if host < 1 << 20 => {
                        spec.hosts = spec.hosts.max(host + 1);
                        Ok(Node::Host(host))
                    }
                    Some(_) => Err(Problem::new(at("between"), format_args!("`{name}`: hosts are h0 to h1048575"))),
                    // A switch, to the letter; nobody means one.
                    None if name.strip_prefix('H').is_some_and(|number| number.parse::<u32>().is_ok()) => {
                        let message = format_args!("`{name}`: hosts are h0, h1 and so on, in small letters");
                        Err(Problem::new(at("between"), message))
                    }
                    None if name.is_empty() => Err(Problem::new(at("between"), "a switch has a name")),
                    None => {
                        let next = spec.switches.len() as u32;
                        let number = *switches.entry(name.clone()).or_insert(next);
                        if number == next {
                            spec.switches.push(name.clone());
                        }
                        Ok(Node::Switch(number))
                    }
                }
            };
            let (a, b) = (node(&names[0])?, node(&names[1])?);
            let of_host = matches!(a, Node::Host(_)) || matches!(b, Node::Host(_));
            let mut link = if of_host { links.host } else { links.fabric };
            if let Some(gbps) = edge.gbps {
                link.rate_bps = rate_bps(at("gbps"), gbps)?;
            }
            if let Some(us) = edge.delay_us {
                link.delay_ns = delay_ns(&at("delay_us"), us)?;
            }
            for _ in 0..parallel {
                let count = of_pair.entry((a.min(b), a.max(b))).or_insert(0);
                *count += 1;
                let more = if *count == 1 { String::new() } else { format!("-{count}") };
                let name = format!("{}-{}{more}", names[0], names[1]);
                if !called.insert(name.clone()) {
                    let message =
                        format_args!("two links would be called `{name}`: use names of switches without a dash");
                    return Err(Problem::new(at("between"), message));
                }
                spec.links.push(Edge { a, b, spec: link, name });
            }
        }
    }
    Ok(spec)
}

fn clos(scenario: &Scenario, links: &Links) -> Result<Clos, Problem> {
    let keys = &scenario.topology;
    let &Links { host, fabric, .. } = links;
    let t0 = if keys.shape == Shape::Dumbbell { 2 } else { keys.t0 };
    let over = keys.oversubscription;
    if !over.is_finite() || over <= 0.0 {
        return Err(Problem::new("topology.oversubscription", format_args!("{over}: must be above 0")));
    }
    if keys.shape == Shape::Dumbbell && over != 1.0 {
        let message = format_args!("{over}: a dumbbell has one link between its switches: set fabric_gbps");
        return Err(Problem::new("topology.oversubscription", message));
    }
    if keys.shape == Shape::Dumbbell && keys.t0 != 2 {
        return Err(Problem::new("topology.t0", format_args!("{}: a dumbbell has 2; leave the key out", keys.t0)));
    }
    let (below, rate) = (f64::from(keys.hosts_per_t0) * host.rate_bps as f64, fabric.rate_bps as f64);
    let need = uplinks(below, rate, over);
    // No host at all is told apart below.
    if keys.shape == Shape::Clos && t0 > 1 && keys.hosts_per_t0 > 0 {
        check_ratio(("oversubscription", over), (below, rate), ("t1", keys.t1.map(u32::from)))?;
    }
    let t1 = match (keys.shape, keys.t1) {
        (Shape::Dumbbell, None | Some(0)) => 0,
        (Shape::Dumbbell, Some(t1)) => {
            return Err(Problem::new("topology.t1", format_args!("{t1}: a dumbbell has no T1; leave the key out")));
        }
        (_, Some(t1)) => t1,
        (_, None) if t0 == 1 => 0,
        (_, None) if need > 256.0 => {
            let message = format_args!("{} hosts below a leaf ask for {need} T1s; at most 256", keys.hosts_per_t0);
            return Err(Problem::new("topology.hosts_per_t0", message));
        }
        (_, None) => need as u16,
    };
    let clos = Clos {
        planes: keys.planes,
        t0,
        t1,
        hosts: u32::from(t0) * u32::from(keys.hosts_per_t0),
        host_link: host,
        fabric_link: fabric,
        switch_latency_ns: delay_ns("topology.switch_us", keys.switch_us)?,
        cut_through: keys.cut_through,
        scheme: scheme(scenario)?,
        ..Clos::default()
    };
    if let Err(wrong) = clos.scheme.check(&clos) {
        let key = if keys.scheme.is_empty() { "topology.forwarding" } else { "topology.scheme" };
        return Err(Problem::new(key, format_args!("`{}`: {wrong}", clos.scheme.info().name)));
    }
    if t0 == 0 || keys.hosts_per_t0 == 0 {
        return Err(Problem::new("topology", "t0 and hosts_per_t0 are at least 1"));
    }
    if keys.shape == Shape::Clos && t0 > 1 && t1 == 0 {
        return Err(Problem::new("topology.t1", "0: leaves without a spine cannot reach each other"));
    }
    let most = mrc_core::MAX_PORTS;
    if !(1..=most).contains(&usize::from(clos.planes)) {
        let message = format_args!("{}: 1 to {most}: a host has at most {most} ports", clos.planes);
        return Err(Problem::new("topology.planes", message));
    }
    clos.validate().map_err(|error| {
        let key = match error {
            TopologyError::Planes(_) => "topology.planes",
            TopologyError::T0(_) => "topology.t0",
            TopologyError::T1(_) => "topology.t1",
            TopologyError::Hosts(_) => "topology.hosts_per_t0",
            TopologyError::Rate => "topology",
            TopologyError::TrimAndPfc => "queue.pfc",
        };
        Problem::new(key, error)
    })?;
    Ok(clos)
}

/// The scheme of the switches with its parameters.
fn scheme(scenario: &Scenario) -> Result<Scheme, Problem> {
    let keys = &scenario.topology;
    let default = match scenario.transport.kind {
        TransportKind::Mrc => SRV6,
        TransportKind::Roce | TransportKind::Named(_) => ECMP,
    };
    let unknown =
        |name: &SchemeKey| Problem::new("topology.forwarding", format_args!("there is no scheme `{}`", name.0));
    let given = keys.forwarding.as_ref().map(|name| scheme::named(&name.0).ok_or_else(|| unknown(name))).transpose()?;
    let mut scheme = given.unwrap_or(default);
    for (name, &value) in &keys.scheme {
        scheme = scheme.with(name, value).map_err(|error| {
            let takes: Vec<&str> = scheme.info().params.iter().map(|param| param.name).collect();
            let takes = if takes.is_empty() { "none".to_owned() } else { takes.join(", ") };
            let message = format_args!("{value}: {error}; parameters of `{}`: {takes}", scheme.info().name);
            Problem::new(format!("topology.scheme.{name}"), message)
        })?;
    }
    Ok(scheme)
}
