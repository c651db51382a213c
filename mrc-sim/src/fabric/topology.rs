//! The shape of the fabric: a two-tier multi-plane Clos. Owns numbering, names and which link joins which nodes.
//! Without a T1, one leaf stands alone or two are joined by a link of their own: a dumbbell.
//!
//! ```text
//!   T1  0 .. t1-1          every T0 of a plane has one link to every T1 of it
//!       | x |
//!   T0  0 .. t0-1          host h hangs below T0 h / hosts_per_t0, with port N on plane N-1
//!       |   |
//!   hosts 0 .. hosts-1
//! ```

use mrc_core::Rng;

use mrc_wire::srv6::CopyOp;

use super::address::{DEFAULT_BLOCK, MAX_T0, UsidPlan};
use super::port::{LinkSpec, Owner, Port};
use super::queue::QueueSpec;
use super::scheme::{Routes, Scheme, Site};
use super::shape::one_way_ns;
use super::switch::Switch;

/// `a`, `b`, ... `z`, `a1`, `b1`, ..., as `mrc lab` names its nodes.
pub(super) fn letter(index: u32) -> String {
    let name = char::from(b'a' + (index % 26) as u8);
    if index < 26 { name.to_string() } else { format!("{name}{}", index / 26) }
}

/// Largest number of planes: the plane is one hexadecimal digit of a uSID.
pub const MAX_PLANES: u8 = 16;

/// An undirected link, numbered per plane: first the hosts' links, then T0 by T0 its uplinks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u32);

/// One end of a link, as an egress port: the lower tier's end is even, the upper tier's odd.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortId(pub u32);

impl LinkId {
    /// The port at the lower end (host, or T0 of a fabric link), which sends upwards.
    pub const fn lower(self) -> PortId {
        PortId(self.0 * 2)
    }

    /// The port at the upper end (T0 of a host link, or T1), which sends downwards.
    pub const fn upper(self) -> PortId {
        PortId(self.0 * 2 + 1)
    }
}

impl PortId {
    /// The other end of the link.
    pub const fn peer(self) -> PortId {
        PortId(self.0 ^ 1)
    }

    /// The link this port is an end of.
    pub const fn link(self) -> LinkId {
        LinkId(self.0 / 2)
    }
}

/// What a port sends to, seen from the tier that owns it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Tier {
    /// A host, up to its T0. Hosts do not queue in the fabric.
    Host,
    /// A T0, up to a T1, or across a dumbbell.
    T0Up,
    /// A T1, up to a T2, or any switch to one that is as far from hosts.
    T1Up,
    /// A T2, down to a T1.
    T2Down,
    /// A T1, down to a T0.
    T1Down,
    /// A T0, down to a host: the last hop.
    T0Down,
}

/// A two-tier multi-plane Clos. Every field has a default; [`Clos::validate`] refuses the impossible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clos {
    /// Independent planes, which is also the number of ports of a host.
    pub planes: u8,
    /// Leaves per plane.
    pub t0: u16,
    /// Spines per plane.
    pub t1: u16,
    /// Hosts in all, in blocks of equal size below the leaves.
    pub hosts: u32,
    /// Links between hosts and T0.
    pub host_link: LinkSpec,
    /// Links between T0 and T1.
    pub fabric_link: LinkSpec,
    /// Time from a frame's last bit in to its place in the egress queue.
    pub switch_latency_ns: u32,
    /// Whether a switch begins to forward a packet when its first bytes have arrived, where the egress link is no faster than
    /// the ingress link; otherwise when its last bit has. Hosts wait for the last bit.
    pub cut_through: bool,
    /// Every egress port of a switch.
    pub queue: QueueSpec,
    /// How switches treat packets.
    pub scheme: Scheme,
    /// Upper 32 bits of all SIDs.
    pub block: u32,
}

impl Default for Clos {
    fn default() -> Self {
        Self {
            planes: 2,
            t0: 2,
            t1: 4,
            hosts: 2,
            host_link: LinkSpec::new(100, 500),
            fabric_link: LinkSpec::new(100, 500),
            switch_latency_ns: 500,
            cut_through: false,
            queue: QueueSpec::default(),
            scheme: crate::scheme::SRV6,
            block: DEFAULT_BLOCK,
        }
    }
}

/// Why a topology cannot be built.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TopologyError {
    /// Planes outside `1..=16`.
    #[error(
        "planes = {0}: a fabric has 1 to {MAX_PLANES} planes, because a uSID spends one hexadecimal digit on the plane"
    )]
    Planes(u8),
    /// Leaves outside `1..=1024`.
    #[error("t0 = {0}: a plane has 1 to {MAX_T0} leaves, because a uSID has 10 bits for them")]
    T0(u16),
    /// Spines outside the range.
    #[error("t1 = {0}: a plane of more than two leaves has 1 to 256 spines; two leaves may do without (a dumbbell)")]
    T1(u16),
    /// No host, or more than 256 below one leaf.
    #[error("hosts = {0}: between 1 and 256 hosts fit below each leaf; raise t0")]
    Hosts(u32),
    /// A rate of zero.
    #[error("a link rate of 0 bit/s would never deliver; to take a link down, cut it")]
    Rate,
    /// Trimming and pauses together.
    #[error("a queue trims or pauses its data class, not both: set trim or pfc to None")]
    TrimAndPfc,
}

impl Clos {
    /// Checks that every count fits its address field.
    ///
    /// # Errors
    /// The first field that does not.
    pub fn validate(&self) -> Result<(), TopologyError> {
        if !(1..=MAX_PLANES).contains(&self.planes) {
            return Err(TopologyError::Planes(self.planes));
        }
        if !(1..=MAX_T0).contains(&self.t0) {
            return Err(TopologyError::T0(self.t0));
        }
        if self.t1 > 256 || (self.t1 == 0 && self.t0 > 2) {
            return Err(TopologyError::T1(self.t1));
        }
        if self.hosts == 0 || self.hosts_per_t0() > 256 {
            return Err(TopologyError::Hosts(self.hosts));
        }
        if self.host_link.rate_bps == 0 || self.fabric_link.rate_bps == 0 {
            return Err(TopologyError::Rate);
        }
        if self.queue.trim.is_some() && self.queue.pfc.is_some() {
            return Err(TopologyError::TrimAndPfc);
        }
        Ok(())
    }

    /// How this fabric's nodes are addressed.
    pub const fn plan(&self) -> UsidPlan {
        UsidPlan { block: self.block }
    }

    /// Downlinks of a leaf.
    pub const fn hosts_per_t0(&self) -> u32 {
        self.hosts.div_ceil(self.t0 as u32)
    }

    /// The leaf, on every plane, above `host`.
    pub const fn t0_of(&self, host: u32) -> u16 {
        (host / self.hosts_per_t0()) as u16
    }

    /// The index a host's uSID carries: its number, or that of its downlink in fabrics of more than 256 hosts, where only
    /// the T0 above it needs to tell it from its neighbours.
    pub const fn host_index(&self, host: u32) -> u8 {
        if self.hosts <= 256 { host as u8 } else { (host % self.hosts_per_t0()) as u8 }
    }

    /// Whether two leaves are joined without a T1.
    pub const fn is_dumbbell(&self) -> bool {
        self.t0 == 2 && self.t1 == 0
    }

    /// Uplinks of a leaf, that is the different paths of a plane between two leaves.
    pub const fn uplinks(&self) -> u16 {
        if self.is_dumbbell() { 1 } else { self.t1 }
    }

    const fn fabric_links_per_plane(&self) -> u32 {
        if self.is_dumbbell() { 1 } else { self.t0 as u32 * self.t1 as u32 }
    }

    const fn links_per_plane(&self) -> u32 {
        self.hosts + self.fabric_links_per_plane()
    }

    /// The tier of an egress port.
    pub const fn tier(&self, port: PortId) -> Tier {
        let lower = port.0.is_multiple_of(2);
        match (port.0 / 2 % self.links_per_plane() < self.hosts, lower) {
            (true, true) => Tier::Host,
            (true, false) => Tier::T0Down,
            (false, true) => Tier::T0Up,
            (false, false) if self.is_dumbbell() => Tier::T0Up,
            (false, false) => Tier::T1Down,
        }
    }

    /// Switches of all planes.
    pub const fn switch_count(&self) -> u32 {
        self.planes as u32 * (self.t0 as u32 + self.t1 as u32)
    }

    /// Links of all planes.
    pub const fn links(&self) -> u32 {
        self.planes as u32 * self.links_per_plane()
    }

    /// The link of `host` on `plane`.
    #[inline]
    pub const fn host_link_id(&self, plane: u8, host: u32) -> LinkId {
        LinkId(plane as u32 * self.links_per_plane() + host)
    }

    /// The link between a T0 and a T1 of `plane`; in a dumbbell, with `t0` and `t1` 0, the one between the leaves.
    pub const fn fabric_link_id(&self, plane: u8, t0: u16, t1: u16) -> LinkId {
        LinkId(plane as u32 * self.links_per_plane() + self.hosts + t0 as u32 * self.t1 as u32 + t1 as u32)
    }

    /// Name of a link, as `mrc lab` prints it: `p0-hA`, `p1-t0b-t1d`.
    pub fn link_name(&self, link: LinkId) -> String {
        let (plane, rest) = (link.0 / self.links_per_plane(), link.0 % self.links_per_plane());
        match rest.checked_sub(self.hosts) {
            None => format!("p{plane}-h{}", letter(rest).to_uppercase()),
            Some(_) if self.is_dumbbell() => format!("p{plane}-t0a-t0b"),
            Some(nth) => {
                let (t0, t1) = (nth / u32::from(self.t1), nth % u32::from(self.t1));
                format!("p{plane}-t0{}-t1{}", letter(t0), letter(t1))
            }
        }
    }

    /// Time from the first bit of a packet of `there` bytes to the last bit of its answer of `back` bytes, between the hosts
    /// that are farthest apart, with nothing in the way.
    pub fn base_rtt_ns(&self, there: u32, back: u32) -> u64 {
        self.rtt_ns(self.fabric_hops(0, self.hosts.saturating_sub(1)), there, back)
    }

    /// The same between these two hosts.
    pub fn pair_rtt_ns(&self, from: u32, to: u32, there: u32, back: u32) -> u64 {
        self.rtt_ns(self.fabric_hops(from, to), there, back)
    }

    /// Links between switches on the way from one host to another.
    fn fabric_hops(&self, from: u32, to: u32) -> usize {
        match self.t0_of(from) == self.t0_of(to) {
            true => 0,
            false if self.is_dumbbell() => 1,
            false => 2,
        }
    }

    fn rtt_ns(&self, fabric_hops: usize, there: u32, back: u32) -> u64 {
        let links = self.links_over(fabric_hops);
        let one_way = |bytes| one_way_ns(&links, bytes, self.switch_latency_ns, self.cut_through);
        one_way(there) + one_way(back)
    }

    /// The links of any path between two hosts, from the first to the last.
    pub fn path_links(&self, from: u32, to: u32) -> Vec<LinkSpec> {
        self.links_over(self.fabric_hops(from, to))
    }

    fn links_over(&self, fabric_hops: usize) -> Vec<LinkSpec> {
        let fabric = std::iter::repeat_n(self.fabric_link, fabric_hops);
        std::iter::once(self.host_link).chain(fabric).chain([self.host_link]).collect()
    }

    /// What two hosts could exchange over all planes if they were alone, in bit/s.
    pub fn pair_rate_bps(&self, from: u32, to: u32) -> u64 {
        let uplinks = u64::from(self.uplinks()) * self.fabric_link.rate_bps;
        let host = self.host_link.rate_bps;
        u64::from(self.planes) * if self.fabric_hops(from, to) == 0 { host } else { host.min(uplinks) }
    }

    /// Index of a T0 among all switches.
    pub const fn t0_switch(&self, plane: u8, t0: u16) -> usize {
        plane as usize * (self.t0 + self.t1) as usize + t0 as usize
    }

    /// Index of a T1 among all switches.
    pub const fn t1_switch(&self, plane: u8, t1: u16) -> usize {
        self.t0_switch(plane, self.t0) + t1 as usize
    }

    /// Name of a switch: `p0-t0a`, `p1-t1c`.
    pub fn switch_name(&self, index: u32) -> String {
        let each = u32::from(self.t0) + u32::from(self.t1);
        let (plane, rest) = (index / each, index % each);
        match rest.checked_sub(self.t0.into()) {
            None => format!("p{plane}-t0{}", letter(rest)),
            Some(t1) => format!("p{plane}-t1{}", letter(t1)),
        }
    }

    /// The outer destination from host `from` to host `to` over spine `t1` of `plane`; below one leaf `t1` is ignored.
    pub fn path(&self, plane: u8, from: u32, t1: u8, to: u32) -> [u8; 16] {
        let plan = self.plan();
        let (a, b, host) = (self.t0_of(from), self.t0_of(to), plan.host(plane, self.host_index(to)));
        if a == b {
            return plan.container(&[plan.t0(plane, a), host]);
        }
        if self.is_dumbbell() {
            return plan.container(&[plan.t0(plane, a), plan.t0(plane, b), host]);
        }
        plan.container(&[plan.t0(plane, a), plan.t1(plane, t1), plan.t0(plane, b), host])
    }

    /// How a host turns an EV into the outer destination towards another: a template, and what to copy into it.
    pub fn ev_template(&self, from: u32, to: u32) -> ([u8; 16], &'static [CopyOp]) {
        let plan = self.plan();
        let (a, b, host) = (self.t0_of(from), self.t0_of(to), self.host_index(to));
        if a != b && self.is_dumbbell() {
            return (plan.container(&[plan.t0(0, a), plan.t0(0, b), plan.host(0, host)]), plan.dumbbell_ops());
        }
        (plan.template(a, b, host), plan.copy_ops(a, b))
    }

    /// All switches, in the order of [`Clos::t0_switch`] and [`Clos::t1_switch`].
    pub(crate) fn switches(&self, seed: u64) -> Vec<Switch> {
        let mut salts = Rng::new(seed ^ 0x73_616c_7473);
        let mut switches = Vec::with_capacity(self.switch_count() as usize);
        for plane in 0..self.planes {
            let tiers = (0..self.t0).map(|index| (false, index)).chain((0..self.t1).map(|index| (true, index)));
            for (spine, index) in tiers {
                let site = Site { clos: self, plane, spine, index, salt: salts.next_u64() };
                let routes = if spine { self.t1_routes(plane, index) } else { self.t0_routes(plane, index) };
                let name = self.switch_name(switches.len() as u32);
                switches.push(Switch::new(name, routes, self.scheme.build(&site), site.salt));
            }
        }
        switches
    }

    /// The end of a dumbbell's middle link at leaf `t0`.
    pub(crate) const fn cross_port(&self, plane: u8, t0: u16) -> PortId {
        let link = self.fabric_link_id(plane, 0, 0);
        if t0 == 0 { link.lower() } else { link.upper() }
    }

    fn t0_routes(&self, plane: u8, t0: u16) -> Routes {
        let first_host = u32::from(t0) * self.hosts_per_t0();
        let uplinks: Vec<PortId> = match self.is_dumbbell() {
            true => vec![self.cross_port(plane, t0)],
            false => (0..self.t1).map(|t1| self.fabric_link_id(plane, t0, t1).lower()).collect(),
        };
        Routes {
            table: None,
            hosts: self.hosts,
            first_host,
            hosts_below: self.hosts_per_t0().min(self.hosts.saturating_sub(first_host)),
            down_port: self.host_link_id(plane, first_host).upper().0,
            down_stride: 2,
            group: 1,
            all_uplinks: uplinks.clone(),
            uplinks,
        }
    }

    fn t1_routes(&self, plane: u8, t1: u16) -> Routes {
        Routes {
            table: None,
            hosts: self.hosts,
            first_host: 0,
            hosts_below: self.hosts,
            down_port: self.fabric_link_id(plane, 0, t1).upper().0,
            down_stride: 2 * u32::from(self.t1),
            group: self.hosts_per_t0(),
            all_uplinks: Vec::new(),
            uplinks: Vec::new(),
        }
    }

    /// All ports in the order of their ids.
    pub(crate) fn ports(&self) -> Vec<Port> {
        let mut ports = Vec::with_capacity(self.links() as usize * 2);
        let latency = self.switch_latency_ns;
        for plane in 0..self.planes {
            let t0 = |index: u16| Owner::Switch(self.t0_switch(plane, index) as u32);
            for host in 0..self.hosts {
                ports.push(Port::new(Owner::Host { host, plane }, self.host_link, false, latency, 0));
                ports.push(Port::new(t0(self.t0_of(host)), self.host_link, true, 0, latency));
            }
            let mut join = |lower: Owner, upper: Owner| {
                ports.push(Port::new(lower, self.fabric_link, false, latency, latency));
                ports.push(Port::new(upper, self.fabric_link, false, latency, latency));
            };
            if self.is_dumbbell() {
                join(t0(0), t0(1));
            }
            for leaf in 0..self.t0 {
                for t1 in 0..self.t1 {
                    join(t0(leaf), Owner::Switch(self.t1_switch(plane, t1) as u32));
                }
            }
        }
        ports
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_numbers_and_ports_agree() {
        let clos = Clos { planes: 3, t0: 4, t1: 5, hosts: 10, ..Clos::default() };
        clos.validate().unwrap();
        let ports = clos.ports();
        assert_eq!(ports.len(), clos.links() as usize * 2);
        for plane in 0..3 {
            for host in 0..10 {
                let link = clos.host_link_id(plane, host);
                let t0 = clos.t0_switch(plane, clos.t0_of(host)) as u32;
                assert_eq!(ports[link.lower().0 as usize].owner, Owner::Host { host, plane });
                assert_eq!(ports[link.upper().0 as usize].owner, Owner::Switch(t0));
            }
            for t0 in 0..4 {
                for t1 in 0..5 {
                    let link = clos.fabric_link_id(plane, t0, t1);
                    assert_eq!(ports[link.lower().0 as usize].owner, Owner::Switch(clos.t0_switch(plane, t0) as u32));
                    assert_eq!(ports[link.upper().0 as usize].owner, Owner::Switch(clos.t1_switch(plane, t1) as u32));
                    assert_eq!(link.lower().peer(), link.upper());
                    assert_eq!(link.upper().link(), link);
                }
            }
        }
        assert_eq!(clos.switches(1)[clos.t1_switch(2, 4)].name, "p2-t1e");
    }

    #[test]
    fn links_are_named_as_in_the_lab() {
        let clos = Clos { planes: 2, t0: 30, t1: 4, hosts: 60, ..Clos::default() };
        assert_eq!(clos.link_name(clos.host_link_id(0, 0)), "p0-hA");
        assert_eq!(clos.link_name(clos.host_link_id(1, 27)), "p1-hB1");
        assert_eq!(clos.link_name(clos.fabric_link_id(1, 1, 3)), "p1-t0b-t1d");
        assert_eq!(clos.link_name(clos.fabric_link_id(0, 29, 0)), "p0-t0d1-t1a");
    }

    #[test]
    fn impossible_shapes_are_refused() {
        let ok = Clos::default();
        let cases = [
            (Clos { planes: 0, ..ok }, TopologyError::Planes(0)),
            (Clos { planes: 17, ..ok }, TopologyError::Planes(17)),
            (Clos { t0: 0, ..ok }, TopologyError::T0(0)),
            (Clos { t0: 1025, ..ok }, TopologyError::T0(1025)),
            (Clos { t0: 3, t1: 0, hosts: 3, ..ok }, TopologyError::T1(0)),
            (Clos { t1: 257, ..ok }, TopologyError::T1(257)),
            (Clos { hosts: 0, ..ok }, TopologyError::Hosts(0)),
            (Clos { hosts: 513, ..ok }, TopologyError::Hosts(513)),
            (Clos { host_link: LinkSpec { rate_bps: 0, delay_ns: 1 }, ..ok }, TopologyError::Rate),
        ];
        for (clos, error) in cases {
            assert_eq!(clos.validate(), Err(error));
        }
        assert_eq!(Clos { t0: 1, t1: 0, ..ok }.validate(), Ok(()), "one leaf needs no spine");
        assert_eq!(Clos { t0: 2, t1: 0, ..ok }.validate(), Ok(()), "a dumbbell has none");
    }

    #[test]
    fn large_fabrics_number_hosts_by_downlink() {
        let clos = Clos { t0: 128, t1: 64, hosts: 8192, ..Clos::default() };
        clos.validate().unwrap();
        assert_eq!((clos.t0_of(8191), clos.host_index(8191)), (127, 63));
        assert_eq!(Clos { hosts: 200, t0: 4, ..clos }.host_index(199), 199);
    }
}
