//! The base round trip: what timers, windows and queues refer to by default.

use std::collections::BTreeSet;

use crate::fabric::{LinkId, LinkSpec, Topology};

/// What MRC is told of an idle fabric, between the hosts that are farthest apart, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrip {
    /// A full packet and its acknowledgement.
    pub base_ns: u64,
    /// So much less a probe and its answer take.
    pub probe_shortfall_ns: u64,
}

/// Hosts that are looked at because their own link is slow to arrive, and others because of their leaf.
const MOST: usize = 16;

/// Time from the first bit of a packet of `there` bytes to the last bit of its answer of `back` bytes on an idle fabric, between the
/// hosts that are farthest apart, over the fastest path. Rates are those of the topology; delays those of `links`, in order,
/// where they differ. Among many leaves and changed links of hosts some are looked at.
pub(super) fn base_rtt_ns(topology: &Topology, links: &[(LinkId, LinkSpec)], (there, back): (u32, u32)) -> u64 {
    let base = topology.base_rtt_ns(there, back);
    let longer = |&&(link, spec): &&(LinkId, LinkSpec)| spec.delay_ns > topology.link_spec(link).delay_ns;
    let longer: Vec<(LinkId, LinkSpec)> = links.iter().filter(longer).copied().collect();
    if longer.is_empty() {
        return base;
    }
    let spec = |link: LinkId| {
        let own = topology.link_spec(link);
        match longer.binary_search_by_key(&link, |(link, _)| *link) {
            Ok(at) => LinkSpec { delay_ns: longer[at].1.delay_ns, ..own },
            Err(_) => own,
        }
    };
    let rtt = |from: u32, to: u32| {
        let pairs = (0..topology.host_ports(from))
            .flat_map(|port| topology.arrivals(port, from, to).into_iter().map(move |there| (port, there)));
        let paths = pairs.flat_map(|ports| topology.paths(ports, from, to));
        let time =
            |path: Vec<LinkId>| topology.round_trip_ns(&path.into_iter().map(spec).collect::<Vec<_>>(), there, back);
        paths.map(time).min().unwrap_or(0)
    };
    let hosts = hosts(topology, &longer);
    let pairs = hosts.iter().flat_map(|&a| hosts.iter().map(move |&b| (a, b))).filter(|(a, b)| a != b);
    pairs.map(|(a, b)| rtt(a, b)).max().unwrap_or(0).max(base)
}

/// Hosts with the longest links of their own, one below each of some leaves, and the last one.
fn hosts(topology: &Topology, longer: &[(LinkId, LinkSpec)]) -> BTreeSet<u32> {
    let mut own: Vec<(u32, u32)> = Vec::new();
    let mut leaves: BTreeSet<u32> = BTreeSet::new();
    let mut hosts = BTreeSet::from([topology.hosts() - 1]);
    let delay =
        |link: LinkId| longer.binary_search_by_key(&link, |(link, _)| *link).ok().map(|at| longer[at].1.delay_ns);
    for host in 0..topology.hosts() {
        let ports = (0..topology.host_ports(host)).filter_map(|port| delay(topology.host_link_id(port, host)));
        own.extend(ports.max().map(|delay| (delay, host)));
        if leaves.len() < MOST && leaves.insert(topology.leaf_of(host)) {
            hosts.insert(host);
        }
    }
    own.sort_unstable_by(|a, b| b.cmp(a));
    hosts.extend(own.into_iter().take(MOST).map(|(_, host)| host));
    hosts
}
