//! Builds, breaks, heals and removes the fabric.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::exec::{LabError, enter, ip, ip_batch, ip4_batch, requirements};
use crate::shape::{Host, Link, Node, Shape, check_prefix, device, index_of, mac};

/// What programs keep on fabrics while the machine runs.
const RUN: &str = "/run/mrc";
/// No prefix has a dot.
const LOCK: &str = "/run/mrc/lab.lock";

/// Where the programs of the fabric `prefix` keep its files: configurations of hosts, the mapper's key. It goes with the fabric.
pub fn folder(prefix: &str) -> PathBuf {
    Path::new(RUN).join(prefix)
}

/// State of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkState {
    /// Both ends up.
    Up,
    /// One end down.
    Cut,
    /// An end does not exist.
    Missing,
}

/// One link of [`Status`].
#[derive(Debug, Clone, Serialize)]
pub struct LinkReport {
    /// Name.
    pub name: String,
    /// State.
    pub state: LinkState,
}

/// One switch of [`Status`].
#[derive(Debug, Clone, Serialize)]
pub struct SwitchReport {
    /// Name.
    pub name: String,
    /// Packets its ports received and forwarded, from the kernel's counters; none when its namespace is gone.
    pub packets: Option<u64>,
}

/// A picture of the fabric.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// Size.
    pub shape: Shape,
    /// Host names.
    pub hosts: Vec<String>,
    /// Links.
    pub links: Vec<LinkReport>,
    /// Switches.
    pub switches: Vec<SwitchReport>,
}

/// A fabric that exists.
#[derive(Debug)]
pub struct Fabric {
    shape: Shape,
    remove_on_drop: bool,
}

/// Held by the only process that builds or removes fabrics. The kernel takes it from one that is killed.
fn alone() -> Result<File, LabError> {
    let lock = || {
        std::fs::create_dir_all(RUN)?;
        let file = File::create(LOCK)?;
        file.lock()?;
        Ok(file)
    };
    lock().map_err(|source| LabError::Os { what: LOCK.to_owned(), source })
}

impl Fabric {
    /// Builds a fabric; what stood under the same prefix is removed first, so a crash leaves nothing that matters. Its [`folder`] stays:
    /// programs that go on have the key in it. Whoever builds or removes one at the same time waits.
    ///
    /// # Errors
    /// What is missing, what is impossible, or which command failed; nothing is left then.
    pub fn up(shape: Shape) -> Result<Self, LabError> {
        shape.check()?;
        requirements()?;
        // Dropped last: a fabric that cannot be built is removed before others go on.
        let _alone = alone()?;
        remove_namespaces(&shape.prefix)?;
        let mut fabric = Self { shape, remove_on_drop: true };
        fabric.build()?;
        fabric.remove_on_drop = false;
        Ok(fabric)
    }

    /// The same fabric, removed when dropped.
    #[must_use]
    pub fn guarded(mut self) -> Self {
        self.remove_on_drop = true;
        self
    }

    fn build(&self) -> Result<(), LabError> {
        let shape = &self.shape;
        let nodes = shape.nodes();
        let adds: Vec<String> = nodes.iter().map(|&node| format!("netns add {}", shape.namespace(node))).collect();
        ip_batch(None, &adds)?;
        for &node in &nodes {
            let forwarding = !matches!(node, Node::Host(_));
            enter(&shape.namespace(node), || sysctls(forwarding))??;
        }
        let veths: Vec<String> = shape.links().iter().map(|link| self.veth(link)).collect();
        ip_batch(None, &veths)?;
        let links = shape.links();
        for &node in &nodes {
            let mut lines = shape.node_lines(node);
            for link in &links {
                for (from, to) in [(link.a, link.b), (link.b, link.a)] {
                    if from == node {
                        lines.extend(shape.port_lines(link.plane, from, to));
                    }
                }
            }
            ip_batch(Some(&shape.namespace(node)), &lines)?;
        }
        ip_batch(None, &shape.host_network_lines())?;
        for host in 0..shape.hosts {
            ip4_batch(&shape.namespace(Node::Host(host)), &shape.host_network_port_lines(host))?;
        }
        Ok(())
    }

    fn veth(&self, link: &Link) -> String {
        let Link { plane, a, b } = *link;
        let end = |from, to| {
            format!(
                "netns {} address {} mtu {} numtxqueues 1 numrxqueues 1",
                self.shape.namespace(from),
                mac(plane, from, to),
                self.shape.mtu
            )
        };
        format!(
            "link add {} {} type veth peer name {} {}",
            device(plane, a, b),
            end(a, b),
            device(plane, b, a),
            end(b, a)
        )
    }

    /// The fabric that is up under `prefix`, as the kernel's namespaces tell.
    ///
    /// # Errors
    /// There is none.
    pub fn discover(prefix: &str) -> Result<Self, LabError> {
        requirements()?;
        let mut shape = Shape { prefix: prefix.to_owned(), planes: 0, t0: 0, t1: 0, hosts: 0, mtu: 9000 };
        // By the last of each kind: some may be missing.
        let count = |letters: &str| index_of(letters).map_or(0, |index| index.saturating_add(1));
        for name in namespaces(prefix)? {
            let rest = &name[prefix.len() + 1..];
            match rest.split_once('-') {
                None => shape.hosts = shape.hosts.max(count(&rest[1..])),
                Some((plane, node)) => {
                    let plane = plane.trim_start_matches('p').parse::<u8>().unwrap_or(0);
                    shape.planes = shape.planes.max(plane.saturating_add(1));
                    let (kind, letters) = node.split_at(2);
                    let most = if kind == "t0" { &mut shape.t0 } else { &mut shape.t1 };
                    *most = (*most).max(count(letters));
                }
            }
        }
        if shape.check().is_err() {
            return Err(LabError::NotUp(prefix.to_owned()));
        }
        let ports = (0..shape.hosts).find_map(|host| port_states(&shape.namespace(Node::Host(host))).ok());
        shape.mtu = ports.as_ref().and_then(|ports| ports.get("plane0")).map_or(shape.mtu, |port| port.mtu);
        Ok(Self { shape, remove_on_drop: false })
    }

    /// A fabric of this process, for `purpose` (`demo`, `trial` or `map`), that goes with it: removed on drop, and by
    /// [`Self::remove_abandoned`] when the process was killed. Removes what earlier ones left first.
    ///
    /// # Errors
    /// As [`Self::up`]; and another purpose, since nothing would find its namespaces again.
    pub fn temporary(purpose: &str) -> Result<Self, LabError> {
        if !PURPOSES.contains(&purpose) {
            return Err(LabError::Shape(format!("purpose `{purpose}`: one of {}", PURPOSES.join(", "))));
        }
        requirements()?;
        Self::remove_abandoned()?;
        let prefix = format!("{TEMPORARY}{purpose}{}", std::process::id());
        Ok(Self::up(Shape { prefix, ..Shape::default() })?.guarded())
    }

    /// Removes every namespace of temporary fabrics whose process has ended and returns how many there were.
    ///
    /// # Errors
    /// A namespace exists and cannot be removed.
    pub fn remove_abandoned() -> Result<usize, LabError> {
        let mut prefixes: BTreeSet<String> =
            all_namespaces()?.iter().filter_map(|name| temporary_prefix(name)).collect();
        prefixes.retain(|prefix| !owner_lives(prefix));
        prefixes.iter().map(|prefix| Self::remove(prefix)).sum()
    }

    /// Names of the links of which an end is gone.
    pub(crate) fn missing_links(&self) -> Result<Vec<String>, LabError> {
        let links = self.status()?.links;
        Ok(links.into_iter().filter(|link| link.state == LinkState::Missing).map(|link| link.name).collect())
    }

    /// Names of the nodes whose namespace is gone.
    ///
    /// # Errors
    /// `/run/netns` cannot be read.
    pub fn missing(&self) -> Result<Vec<String>, LabError> {
        let there = namespaces(&self.shape.prefix)?;
        let gone = |node: &Node| !there.contains(&self.shape.namespace(*node));
        Ok(self.shape.nodes().into_iter().filter(gone).map(Node::name).collect())
    }

    /// Removes every namespace with `prefix`, and its [`folder`]; returns how many namespaces there were.
    ///
    /// # Errors
    /// A namespace could not be removed.
    pub fn remove(prefix: &str) -> Result<usize, LabError> {
        check_prefix(prefix)?;
        let _alone = alone()?;
        Self::remove_now(prefix)
    }

    /// As [`Self::remove`], for who builds or removes alone already.
    fn remove_now(prefix: &str) -> Result<usize, LabError> {
        let removed = remove_namespaces(prefix)?;
        // What is not there needs no removing.
        let _ = std::fs::remove_dir_all(folder(prefix));
        Ok(removed)
    }

    /// Removes this fabric.
    ///
    /// # Errors
    /// A namespace could not be removed.
    pub fn down(mut self) -> Result<usize, LabError> {
        self.remove_on_drop = false;
        Self::remove(&self.shape.prefix)
    }

    /// Its size.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// What a driver on the host called `name` (`hA`, `hB`, ...) must know.
    ///
    /// # Errors
    /// No such host.
    pub fn host(&self, name: &str) -> Result<Host, LabError> {
        (0..self.shape.hosts)
            .find(|&host| Node::Host(host).name() == name)
            .map(|host| self.shape.host(host))
            .ok_or_else(|| LabError::UnknownHost(name.to_owned()))
    }

    /// Cuts a link: its switch end nearest the hosts is set down, the other end loses its carrier. What was on the wire
    /// and what comes later is lost, silently for T0-T1 links as far as the hosts can tell.
    ///
    /// # Errors
    /// No such link.
    pub fn cut(&self, link: &str) -> Result<(), LabError> {
        let link = self.shape.link(link)?;
        let (from, to) = link.cut_end();
        let dev = device(link.plane, from, to);
        ip(&["-n", &self.shape.namespace(from), "link", "set", &dev, "down"]).map(drop)
    }

    /// Heals a link: sets the port up and replays the addresses, neighbours and routes that the cut erased. Healing a
    /// link that is up changes nothing.
    ///
    /// # Errors
    /// No such link.
    pub fn heal(&self, link: &str) -> Result<(), LabError> {
        let link = self.shape.link(link)?;
        let (from, to) = link.cut_end();
        ip_batch(Some(&self.shape.namespace(from)), &self.shape.port_lines(link.plane, from, to))
    }

    /// Withdraws a plane: every host's link to it is cut, so that every host sees its port lose the carrier.
    ///
    /// # Errors
    /// No such plane.
    pub fn withdraw(&self, plane: u8) -> Result<(), LabError> {
        self.host_links(plane)?.iter().try_for_each(|link| self.cut(link))
    }

    /// Restores a withdrawn plane.
    ///
    /// # Errors
    /// No such plane.
    pub fn restore(&self, plane: u8) -> Result<(), LabError> {
        self.host_links(plane)?.iter().try_for_each(|link| self.heal(link))
    }

    fn host_links(&self, plane: u8) -> Result<Vec<String>, LabError> {
        let planes = self.shape.planes;
        if plane >= planes {
            return Err(LabError::Shape(format!("no plane {plane}: the fabric has planes 0 to {}", planes - 1)));
        }
        let links = self.shape.links().into_iter();
        Ok(links.filter(|l| l.plane == plane && matches!(l.a, Node::Host(_))).map(|l| l.name()).collect())
    }

    /// Packets that each T1 switch received for forwarding, from the kernel's counters.
    ///
    /// # Errors
    /// A switch does not answer.
    pub fn t1_packets(&self) -> Result<BTreeMap<String, u64>, LabError> {
        let mut packets = BTreeMap::new();
        let missing = self.missing()?;
        for node in self.shape.nodes() {
            if matches!(node, Node::T1(..)) && !missing.contains(&node.name()) {
                packets.insert(node.name(), self.packets(node)?);
            }
        }
        Ok(packets)
    }

    fn packets(&self, node: Node) -> Result<u64, LabError> {
        let ports = port_states(&self.shape.namespace(node))?;
        Ok(ports.iter().filter(|(name, _)| name.starts_with('t') || name.starts_with('h')).map(|(_, p)| p.rx).sum())
    }

    /// A picture of everything.
    ///
    /// # Errors
    /// A namespace does not answer.
    pub fn status(&self) -> Result<Status, LabError> {
        let shape = &self.shape;
        let mut ports = BTreeMap::new();
        let mut switches = Vec::new();
        for node in shape.nodes() {
            let states = port_states(&shape.namespace(node)).ok();
            if !matches!(node, Node::Host(_)) {
                let forwarded = |states: &BTreeMap<String, PortState>| {
                    states.iter().filter(|(name, _)| *name != "lo" && *name != "sid0").map(|(_, port)| port.rx).sum()
                };
                switches.push(SwitchReport { name: node.name(), packets: states.as_ref().map(forwarded) });
            }
            ports.insert(node.name(), states.unwrap_or_default());
        }
        let end = |plane, from: Node, to: Node| {
            ports.get(&from.name()).and_then(|states| states.get(&device(plane, from, to))).map(|port| port.up)
        };
        let report = |link: &Link| LinkReport {
            name: link.name(),
            state: match (end(link.plane, link.a, link.b), end(link.plane, link.b, link.a)) {
                (Some(true), Some(true)) => LinkState::Up,
                (Some(_), Some(_)) => LinkState::Cut,
                _ => LinkState::Missing,
            },
        };
        let links = shape.links().iter().map(report).collect();
        let hosts = (0..shape.hosts).map(|host| Node::Host(host).name()).collect();
        Ok(Status { shape: shape.clone(), hosts, links, switches })
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        if self.remove_on_drop
            && let Err(error) = Self::remove_now(&self.shape.prefix)
        {
            log::error!("fabric {} was not removed: {error}", self.shape.prefix);
        }
    }
}

/// Removes the nodes of `prefix`; returns how many there were.
fn remove_namespaces(prefix: &str) -> Result<usize, LabError> {
    let names = namespaces(prefix)?;
    let lines: Vec<String> = names.iter().map(|name| format!("netns del {name}")).collect();
    if !lines.is_empty() {
        ip_batch(None, &lines)?;
    }
    Ok(lines.len())
}

/// Per-namespace switches: static addressing only, and routers forward.
fn sysctls(forwarding: bool) -> Result<(), LabError> {
    let set =
        |path: String, value: &str| std::fs::write(&path, value).map_err(|source| LabError::Os { what: path, source });
    for scope in ["all", "default"] {
        let conf = format!("/proc/sys/net/ipv6/conf/{scope}");
        set(format!("{conf}/accept_dad"), "0")?;
        set(format!("{conf}/accept_ra"), "0")?;
        set(format!("{conf}/router_solicitations"), "0")?;
        set(format!("{conf}/addr_gen_mode"), "1")?;
    }
    if forwarding {
        set("/proc/sys/net/ipv6/conf/all/forwarding".to_owned(), "1")?;
    }
    Ok(())
}

/// Names of the namespaces that belong to `prefix`.
fn namespaces(prefix: &str) -> Result<BTreeSet<String>, LabError> {
    Ok(all_namespaces()?.into_iter().filter(|name| is_ours(prefix, name)).collect())
}

/// How the prefixes of [`Fabric::temporary`] begin; a purpose and a process number follow.
const TEMPORARY: &str = "mrc";
/// What temporary fabrics are for: between [`TEMPORARY`] and the number of the process in their prefix.
const PURPOSES: [&str; 3] = ["demo", "trial", "map"];

/// The prefix of a temporary fabric that has a node called `name`.
fn temporary_prefix(name: &str) -> Option<String> {
    let (prefix, _) = name.split_once('-')?;
    let purpose = prefix.strip_prefix(TEMPORARY)?.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = prefix.get(TEMPORARY.len() + purpose.len()..)?;
    let ours = PURPOSES.contains(&purpose) && !number.is_empty() && is_ours(prefix, name);
    ours.then(|| prefix.to_owned())
}

/// Whether the process that made a temporary fabric still runs. A number that another program has by now does not count.
fn owner_lives(prefix: &str) -> bool {
    let number = prefix.trim_start_matches(|c: char| !c.is_ascii_digit());
    let program = |number: &str| std::fs::read_to_string(format!("/proc/{number}/comm")).ok();
    program(number).is_some_and(|name| Some(name) == program("self"))
}

fn all_namespaces() -> Result<BTreeSet<String>, LabError> {
    let entries = match std::fs::read_dir("/run/netns") {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(source) => return Err(LabError::Os { what: "/run/netns".into(), source }),
    };
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect())
}

/// Whether a namespace is a node of the fabric `prefix`: `-hA` or `-p0-t0a`.
fn is_ours(prefix: &str, name: &str) -> bool {
    let Some(rest) = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-')) else { return false };
    let upper = |text: &str| text.chars().next().is_some_and(|c| c.is_ascii_uppercase());
    match rest.split_once('-') {
        None => rest.strip_prefix('h').is_some_and(upper),
        Some((plane, node)) => {
            plane.strip_prefix('p').is_some_and(|n| n.parse::<u8>().is_ok())
                && (node.starts_with("t0") || node.starts_with("t1"))
        }
    }
}

#[derive(Debug)]
struct PortState {
    up: bool,
    mtu: u32,
    rx: u64,
}

fn port_states(namespace: &str) -> Result<BTreeMap<String, PortState>, LabError> {
    let text = ip(&["-n", namespace, "-j", "-s", "link", "show"])?;
    let unreadable = |text: String| LabError::Command { command: "ip -j -s link show".into(), text };
    let value: Value = serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
    let ports = value.as_array().ok_or_else(|| unreadable("no list".into()))?;
    Ok(ports
        .iter()
        .filter_map(|port| {
            let name = port["ifname"].as_str()?.to_owned();
            let up = port["operstate"].as_str() == Some("UP");
            let mtu = port["mtu"].as_u64()? as u32;
            let rx = port["stats64"]["rx"]["packets"].as_u64().unwrap_or(0);
            Some((name, PortState { up, mtu, rx }))
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::{Fabric, LabError, is_ours, owner_lives, temporary_prefix};

    #[test]
    fn a_prefix_leads_nowhere_else() {
        for prefix in ["", ".", "..", "../x", "/tmp", "a b", "a-b", "engines"] {
            assert!(matches!(Fabric::remove(prefix), Err(LabError::Shape(_))), "{prefix}");
        }
    }

    #[test]
    fn temporary_fabrics_are_known_by_name_and_process() {
        for (name, prefix) in [
            ("mrcdemo12-hA", Some("mrcdemo12")),
            ("mrctrial3-p0-t0a", Some("mrctrial3")),
            ("mrcmap7-p1-t1d", Some("mrcmap7")),
            ("mrc-hA", None),
            ("mrcdemo-hA", None),
            ("mrcdemo12-web", None),
            ("mrcother12-hA", None),
            ("demo12-hA", None),
        ] {
            assert_eq!(temporary_prefix(name).as_deref(), prefix, "{name}");
        }
        assert!(matches!(Fabric::temporary("other"), Err(LabError::Shape(_))));
        assert!(owner_lives(&format!("mrcdemo{}", std::process::id())));
        // Larger than any process number; and a process of another name.
        assert!(!owner_lives("mrcdemo4194305") && !owner_lives("mrcdemo1"));
    }

    #[test]
    fn only_nodes_of_the_prefix_are_ours() {
        for name in ["mrc-hA", "mrc-p0-t0a", "mrc-p7-t1z"] {
            assert!(is_ours("mrc", name), "{name}");
        }
        for name in ["mrc", "mrc-", "mrcx-hA", "mrc-web", "mrc-prod-db", "mrc-p0-db", "other-hA"] {
            assert!(!is_ours("mrc", name), "{name}");
        }
    }
}
