//! How a fabric is divided among event queues: blocks of leaves with their hosts, and a share of the switches above them.

use std::sync::Arc;

use super::port::Owner;
use super::shape::Topology;
use super::topology::LinkId;

/// A division of a fabric into parts that exchange packets only over links with a delay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// First host of each part, and the number of hosts.
    firsts: Vec<u32>,
    /// By port: the part of its owner.
    owners: Arc<[u8]>,
    /// No packet or pause needs less time from one part to another.
    lookahead_ns: u64,
}

impl Partition {
    /// Most parts.
    pub const MOST: u32 = 64;

    /// All in one.
    pub fn whole(hosts: u32) -> Self {
        Self { firsts: vec![0, hosts], owners: Arc::from([]), lookahead_ns: u64::MAX }
    }

    /// Divides `topology` into `parts`, or as many as it has leaves; `delay_ns` is the shortest delay that each link ever
    /// has. One part where a link without delay would cross.
    pub fn new(topology: &Topology, parts: u32, delay_ns: impl Fn(LinkId) -> u32) -> Self {
        let leaves: Vec<u32> = (0..topology.hosts())
            .filter(|&host| host == 0 || topology.leaf_of(host) != topology.leaf_of(host - 1))
            .collect();
        let parts = (parts.min(Self::MOST) as usize).min(leaves.len());
        if parts < 2 {
            return Self::whole(topology.hosts());
        }
        let firsts = (0..parts).map(|part| leaves[part * leaves.len() / parts]).chain([topology.hosts()]).collect();
        let mut partition = Self { firsts, owners: Arc::from([]), lookahead_ns: u64::MAX };
        let ports = topology.ports();
        let mut of_switch = vec![None; topology.switch_count() as usize];
        for (id, port) in ports.iter().enumerate() {
            if let (Owner::Host { host, .. }, Owner::Switch(switch)) = (port.owner, ports[id ^ 1].owner) {
                of_switch[switch as usize].get_or_insert(partition.part_of(host));
            }
        }
        // Switches without hosts: each tier in blocks.
        for level in 1..=u8::MAX {
            let alone = |switch: &u32| of_switch[*switch as usize].is_none() && topology.switch_level(*switch) == level;
            let tier: Vec<u32> = (0..topology.switch_count()).filter(alone).collect();
            if tier.is_empty() {
                break;
            }
            for (nth, &switch) in tier.iter().enumerate() {
                of_switch[switch as usize] = Some(nth * parts / tier.len());
            }
        }
        let owner = |owner| match owner {
            Owner::Host { host, .. } => partition.part_of(host),
            Owner::Switch(switch) => of_switch[switch as usize].unwrap_or(0),
        };
        let owners: Vec<u8> = ports.iter().map(|port| owner(port.owner) as u8).collect();
        let crosses = |link: &LinkId| owners[link.lower().0 as usize] != owners[link.upper().0 as usize];
        let delays = (0..topology.links()).map(LinkId).filter(crosses).map(|link| delay_ns(link).into());
        partition.lookahead_ns = delays.min().unwrap_or(u64::MAX);
        partition.owners = owners.into();
        match partition.lookahead_ns {
            0 => Self::whole(topology.hosts()),
            _ => partition,
        }
    }

    /// Number of parts.
    pub fn parts(&self) -> usize {
        self.firsts.len() - 1
    }

    /// The part of a host.
    pub fn part_of(&self, host: u32) -> usize {
        self.firsts.partition_point(|&first| first <= host).saturating_sub(1)
    }

    /// First host of each part, and the number of hosts.
    pub fn firsts(&self) -> &[u32] {
        &self.firsts
    }

    /// Shortest time from one part to another, in nanoseconds.
    pub fn lookahead_ns(&self) -> u64 {
        self.lookahead_ns
    }

    pub(super) fn owners(&self) -> Arc<[u8]> {
        self.owners.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{Clos, LinkSpec};

    fn clos(t0: u16, hosts: u32) -> Topology {
        let link = LinkSpec::new(100, 700);
        Clos { planes: 2, t0, t1: 4, hosts, host_link: link, fabric_link: link, ..Clos::default() }.into()
    }

    #[test]
    fn hosts_stay_with_their_leaf_and_parts_are_even() {
        let topology = clos(8, 64);
        let partition = Partition::new(&topology, 4, |_| 700);
        assert_eq!((partition.parts(), partition.lookahead_ns()), (4, 700));
        assert_eq!(partition.firsts(), [0, 16, 32, 48, 64]);
        for host in 0..64 {
            assert_eq!(partition.part_of(host), host as usize / 16);
            for plane in 0..2 {
                let link = topology.host_link_id(plane, host);
                let ends = [link.lower(), link.upper()].map(|port| partition.owners[port.0 as usize]);
                assert_eq!(ends, [host as u8 / 16; 2], "no host link crosses");
            }
        }
        let ports = |part| partition.owners.iter().filter(|&&owner| owner == part).count();
        assert!((0..4).all(|part| ports(part) == partition.owners.len() / 4));
    }

    #[test]
    fn what_cannot_be_divided_stays_whole() {
        assert_eq!(Partition::new(&clos(8, 64), 1, |_| 700), Partition::whole(64));
        assert_eq!(Partition::new(&clos(8, 64), 4, |_| 0), Partition::whole(64), "no delay, no lookahead");
        assert_eq!(Partition::new(&clos(3, 6), 64, |_| 700).parts(), 3, "no more parts than leaves");
    }
}
