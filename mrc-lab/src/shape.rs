//! Names, micro-SIDs and addresses of the fabric, and the `ip -batch` lines that make each node. This module only computes
//! text; [`crate::Fabric`] runs it.
//!
//! uSID = `role[15:12] plane[11:8] index[7:0]`; role 1 = T0, 2 = T1, 3 = host. Locator block `fcbb:bb00::/32`.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::exec::LabError;
use crate::fabric::folder;

/// First two groups of every SID.
const BLOCK: [u16; 2] = [0xfcbb, 0xbb00];

/// Size of a fabric.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Shape {
    /// First part of every namespace's name.
    pub prefix: String,
    /// Independent networks.
    pub planes: u8,
    /// T0 switches per plane.
    pub t0: u8,
    /// T1 switches per plane.
    pub t1: u8,
    /// Hosts; host i hangs under T0 number `i mod t0` of every plane.
    pub hosts: u8,
    /// MTU of every link, in bytes.
    pub mtu: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Self { prefix: "mrc".into(), planes: 2, t0: 2, t1: 4, hosts: 2, mtu: 9000 }
    }
}

/// A host or a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Node {
    /// Host by number; the same on all planes.
    Host(u8),
    /// T0 (leaf) switch of a plane.
    T0(u8, u8),
    /// T1 (spine) switch of a plane.
    T1(u8, u8),
}

/// A cable between two nodes of one plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Link {
    /// Plane.
    pub plane: u8,
    /// Lower end: host or T0. When the link is cut, the switch end nearest the hosts is set down.
    pub a: Node,
    /// Upper end: T0 or T1.
    pub b: Node,
}

/// `a`, `b`, ... `z`, `a1`, `b1`, ...
fn letter(index: u8) -> String {
    let name = char::from(b'a' + index % 26);
    if index < 26 { name.to_string() } else { format!("{name}{}", index / 26) }
}

/// The index whose name this is, in any case.
pub(crate) fn index_of(letters: &str) -> Option<u8> {
    (0..=u8::MAX).find(|&index| letter(index).eq_ignore_ascii_case(letters))
}

impl Node {
    /// Name within its plane.
    pub fn short(self) -> String {
        match self {
            Self::Host(host) => format!("h{}", letter(host).to_uppercase()),
            Self::T0(_, index) => format!("t0{}", letter(index)),
            Self::T1(_, index) => format!("t1{}", letter(index)),
        }
    }

    /// Name within the fabric.
    pub fn name(self) -> String {
        match self {
            Self::Host(_) => self.short(),
            Self::T0(plane, _) | Self::T1(plane, _) => format!("p{plane}-{}", self.short()),
        }
    }

    /// Micro-SID on `plane`.
    pub fn usid(self, plane: u8) -> u16 {
        let (role, index) = match self {
            Self::T0(_, index) => (1u16, index),
            Self::T1(_, index) => (2, index),
            Self::Host(host) => (3, host),
        };
        role << 12 | u16::from(plane) << 8 | u16::from(index)
    }
}

/// The address made of the block and `usids`.
fn sid(usids: &[u16]) -> Ipv6Addr {
    let mut groups = [0u16; 8];
    for (group, value) in groups.iter_mut().zip(BLOCK.iter().chain(usids)) {
        *group = *value;
    }
    groups.into()
}

impl Link {
    /// Name, as `mrc lab status` prints it.
    pub fn name(&self) -> String {
        format!(
            "p{}-{}",
            self.plane,
            match self.a {
                Node::Host(_) => self.a.short(),
                _ => format!("{}-{}", self.a.short(), self.b.short()),
            }
        )
    }

    /// The end that is set down when the link is cut: always a switch port, so that a host sees its carrier vanish.
    pub fn cut_end(&self) -> (Node, Node) {
        match self.a {
            Node::Host(_) => (self.b, self.a),
            _ => (self.a, self.b),
        }
    }
}

/// Interface of `from` towards `to`.
pub(crate) fn device(plane: u8, from: Node, to: Node) -> String {
    match from {
        Node::Host(_) => format!("plane{plane}"),
        _ => to.short(),
    }
}

pub(crate) fn mac(plane: u8, from: Node, to: Node) -> String {
    let [a, b] = from.usid(plane).to_be_bytes();
    let [c, d] = to.usid(plane).to_be_bytes();
    format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

fn link_local(plane: u8, from: Node, to: Node) -> Ipv6Addr {
    [0xfe80, 0, 0, 0, 0, 0, from.usid(plane), to.usid(plane)].into()
}

/// One plane as a host sees it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct HostPlane {
    /// Network interface.
    pub interface: String,
    /// The host's SID on this plane.
    pub sid: Ipv6Addr,
    /// The port's own address.
    pub addr: Ipv6Addr,
    /// MAC address of the T0 switch's port.
    pub next_hop: String,
}

/// A peer as a host sees it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct HostPeer {
    /// Name for people.
    pub name: String,
    /// Inner address.
    pub gid: Ipv6Addr,
    /// Address in the host network.
    pub ipv4: Option<Ipv4Addr>,
    /// Micro-SIDs of plane 0, uplink 0.
    pub template: Ipv6Addr,
    /// T1 switches that lead there; 0 under a common T0.
    pub uplinks: u16,
}

/// What a driver must know to run on a host of the fabric.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Host {
    /// Name for people.
    pub name: String,
    /// Network namespace.
    pub namespace: Option<String>,
    /// Inner address, the same on all planes.
    pub gid: Ipv6Addr,
    /// Address in the host network: ordinary TCP/IP beside the fabric, for programs that exchange keys and QP numbers.
    pub ipv4: Option<Ipv4Addr>,
    /// Interface MTU in bytes.
    pub mtu: u32,
    /// Planes, plane 0 first.
    pub planes: Vec<HostPlane>,
    /// All other hosts.
    pub peers: Vec<HostPeer>,
}

/// Whether names may begin so. The prefix is part of names of namespaces and of a folder: it must lead nowhere else.
pub(crate) fn check_prefix(prefix: &str) -> Result<(), LabError> {
    let clean = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if prefix.is_empty() || prefix.len() > 32 || !prefix.chars().all(clean) {
        return Err(LabError::Shape(format!("prefix `{prefix}`: 1 to 32 letters, digits or underscores")));
    }
    // Programs with a device have a folder of this name beside those of fabrics.
    if prefix == "engines" {
        return Err(LabError::Shape(format!("prefix `{prefix}`: {} holds control sockets", folder(prefix).display())));
    }
    Ok(())
}

impl Shape {
    /// Refuses what the addressing or the kernel cannot hold.
    pub fn check(&self) -> Result<(), LabError> {
        let refuse = |why: String| Err(LabError::Shape(why));
        if self.planes == 0 || self.planes > 8 {
            return refuse(format!("{} planes: 1 to 8 are possible", self.planes));
        }
        if self.t0 == 0 || self.t0 > 64 || self.t1 == 0 || self.t1 > 64 {
            return refuse(format!("{} T0 and {} T1 per plane: 1 to 64 of each are possible", self.t0, self.t1));
        }
        if self.hosts < 2 || self.hosts > 200 {
            return refuse(format!("{} hosts: 2 to 200 are possible", self.hosts));
        }
        if !(1280..=65535).contains(&self.mtu) {
            return refuse(format!("MTU {}: IPv6 needs 1280, an interface takes at most 65535", self.mtu));
        }
        check_prefix(&self.prefix)?;
        Ok(())
    }

    /// Namespace of a node.
    pub fn namespace(&self, node: Node) -> String {
        format!("{}-{}", self.prefix, node.name())
    }

    /// T0 number of a host.
    pub fn t0_of(&self, host: u8) -> u8 {
        host % self.t0
    }

    /// Every node.
    pub fn nodes(&self) -> Vec<Node> {
        let planes = 0..self.planes;
        let t0 = planes.clone().flat_map(|p| (0..self.t0).map(move |i| Node::T0(p, i)));
        let t1 = planes.flat_map(|p| (0..self.t1).map(move |i| Node::T1(p, i)));
        (0..self.hosts).map(Node::Host).chain(t0).chain(t1).collect()
    }

    /// Every link.
    pub fn links(&self) -> Vec<Link> {
        let mut links = Vec::new();
        for plane in 0..self.planes {
            for host in 0..self.hosts {
                links.push(Link { plane, a: Node::Host(host), b: Node::T0(plane, self.t0_of(host)) });
            }
            for t0 in 0..self.t0 {
                for t1 in 0..self.t1 {
                    links.push(Link { plane, a: Node::T0(plane, t0), b: Node::T1(plane, t1) });
                }
            }
        }
        links
    }

    /// The link called `name`.
    pub fn link(&self, name: &str) -> Result<Link, LabError> {
        self.links().into_iter().find(|link| link.name() == name).ok_or_else(|| LabError::UnknownLink {
            name: name.to_owned(),
            example: self.links().last().map(Link::name).unwrap_or_default(),
        })
    }

    /// Inner address of a host.
    pub fn gid(&self, host: u8) -> Ipv6Addr {
        [0xfd00, 0x6d72, 0x0063, 0, 0, 0, 0, u16::from(host) + 1].into()
    }

    /// What a driver on `host` must know.
    pub fn host(&self, host: u8) -> Host {
        let me = Node::Host(host);
        let own_t0 = self.t0_of(host);
        let planes = (0..self.planes).map(|plane| {
            let t0 = Node::T0(plane, own_t0);
            let usid = me.usid(plane);
            HostPlane {
                interface: device(plane, me, t0),
                sid: sid(&[usid]),
                addr: port_addr(usid),
                next_hop: mac(plane, t0, me),
            }
        });
        let peers = (0..self.hosts).filter(|&peer| peer != host).map(|peer| {
            let (from, to) = (Node::T0(0, own_t0).usid(0), Node::T0(0, self.t0_of(peer)).usid(0));
            let last = Node::Host(peer).usid(0);
            let near = own_t0 == self.t0_of(peer);
            HostPeer {
                name: Node::Host(peer).name(),
                gid: self.gid(peer),
                ipv4: Some(ipv4(peer)),
                template: if near { sid(&[from, last]) } else { sid(&[from, Node::T1(0, 0).usid(0), to, last]) },
                uplinks: if near { 0 } else { u16::from(self.t1) },
            }
        });
        Host {
            name: me.name(),
            namespace: Some(self.namespace(me)),
            gid: self.gid(host),
            ipv4: Some(ipv4(host)),
            mtu: self.mtu,
            planes: planes.collect(),
            peers: peers.collect(),
        }
    }

    /// Batch lines that make the host network: an Ethernet bridge on the first host, a cable to every other one. It shares
    /// nothing with the planes.
    pub(crate) fn host_network_lines(&self) -> Vec<String> {
        let first = self.namespace(Node::Host(0));
        let mut lines = vec![format!("link add {HOST_NETWORK} netns {first} type bridge")];
        for host in 1..self.hosts {
            let (node, port) = (Node::Host(host), self.namespace(Node::Host(host)));
            lines.push(format!(
                "link add to-{} netns {first} type veth peer name {HOST_NETWORK} netns {port}",
                node.name()
            ));
        }
        lines
    }

    /// Batch lines of `host` for its end of the host network.
    pub(crate) fn host_network_port_lines(&self, host: u8) -> Vec<String> {
        let mut lines =
            vec![format!("addr add {}/24 dev {HOST_NETWORK}", ipv4(host)), format!("link set {HOST_NETWORK} up")];
        if host == 0 {
            for other in (1..self.hosts).map(|host| Node::Host(host).name()) {
                lines.push(format!("link set to-{other} master {HOST_NETWORK} up"));
            }
        }
        lines
    }

    /// Batch lines that belong to the port of `from` towards `to`: an admin down erases them, so healing replays them.
    pub(crate) fn port_lines(&self, plane: u8, from: Node, to: Node) -> Vec<String> {
        let dev = device(plane, from, to);
        let (own, far) = (link_local(plane, from, to), link_local(plane, to, from));
        let mut lines = vec![
            format!("link set {dev} up"),
            format!("addr replace {own}/64 dev {dev} nodad"),
            format!("neigh replace {far} lladdr {} nud permanent dev {dev}", mac(plane, to, from)),
            format!("route replace {}/48 via {far} dev {dev}", sid(&[to.usid(plane)])),
        ];
        if let Node::Host(_) = from {
            lines.push(format!("addr replace {}/128 dev {dev} nodad", port_addr(from.usid(plane))));
        }
        lines
    }

    /// Batch lines of a node beyond its ports.
    pub(crate) fn node_lines(&self, node: Node) -> Vec<String> {
        let mut lines = vec!["link set lo up".to_owned()];
        match node {
            Node::Host(host) => lines.push(format!("addr replace {}/128 dev lo nodad", self.gid(host))),
            Node::T0(plane, _) | Node::T1(plane, _) => {
                // The SID hangs on a stub that never goes down: on a port it would die with the port, on `lo` the kernel
                // drops everything.
                lines.push("link add sid0 type ifb".to_owned());
                lines.push("link set sid0 up".to_owned());
                lines.push(format!(
                    "route replace {}/48 encap seg6local action End flavors next-csid lblen 32 nflen 16 dev sid0",
                    sid(&[node.usid(plane)])
                ));
            }
        }
        lines
    }
}

/// A host's interface to the host network.
const HOST_NETWORK: &str = "hostnet";

/// A host's address in the host network.
fn ipv4(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 109, 0, host + 1)
}

/// A host port's own address: inside its locator, so that ICMP errors find the way back.
fn port_addr(usid: u16) -> Ipv6Addr {
    let mut groups = sid(&[usid]).segments();
    groups[7] = 1;
    groups.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses() {
        let shape = Shape::default();
        let links: Vec<String> = shape.links().iter().map(Link::name).collect();
        assert_eq!(links.len(), 2 * (2 + 8));
        assert!(links.contains(&"p0-hA".to_owned()) && links.contains(&"p1-t0b-t1d".to_owned()));
        assert_eq!(shape.namespace(Node::T1(1, 2)), "mrc-p1-t1c");
        let host = shape.host(0);
        assert_eq!(host.planes[1].sid.to_string(), "fcbb:bb00:3100::");
        assert_eq!(host.planes[1].addr.to_string(), "fcbb:bb00:3100::1");
        assert_eq!(host.peers[0].template.to_string(), "fcbb:bb00:1000:2000:1001:3001::");
        assert_eq!(host.peers[0].uplinks, 4);
    }

    #[test]
    fn hosts_under_one_t0_need_no_t1() {
        let shape = Shape { hosts: 3, ..Shape::default() };
        let peers = shape.host(0).peers;
        assert_eq!(peers[1].name, "hC");
        assert_eq!((peers[1].uplinks, peers[1].template.to_string()), (0, "fcbb:bb00:1000:3002::".into()));
    }

    #[test]
    fn impossible_shapes_say_what_is_possible() {
        for shape in [
            Shape { planes: 0, ..Shape::default() },
            Shape { hosts: 1, ..Shape::default() },
            Shape { mtu: 500, ..Shape::default() },
            Shape { prefix: "a b".into(), ..Shape::default() },
        ] {
            let text = shape.check().unwrap_err().to_string();
            assert!(text.contains("possible") || text.contains("needs") || text.contains("letters"), "{text}");
        }
        assert!(matches!(Shape::default().link("p0-x"), Err(LabError::UnknownLink { .. })));
    }
}
