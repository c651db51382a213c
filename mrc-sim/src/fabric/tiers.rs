//! Regular graphs: Clos fabrics of two and three tiers with parallel links, and fat trees.

use super::graph::{Edge, GraphSpec, Node};
use super::port::LinkSpec;
use super::topology::letter;

/// A Clos of pods below a common third tier, or without pods and third tier.
///
/// ```text
///   T2   every T1 of a pod has links to its own group of T2s; T1s of the same place in their pods share a group
///   T1   every T1 of a pod has `parallel` links to every T0 of it
///   T0   hosts below
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tiers {
    /// Independent planes.
    pub planes: u8,
    /// Pods of a plane; 1 without a third tier.
    pub pods: u32,
    /// T0s of a pod.
    pub t0: u32,
    /// T1s of a pod.
    pub t1: u32,
    /// T2s of a plane, a multiple of `t1`; 0: no third tier.
    pub t2: u32,
    /// Hosts below a T0.
    pub hosts_per_t0: u32,
    /// Links between a T0 and a T1 of its pod.
    pub parallel: u32,
    /// Links between a T1 and a T2 of its group.
    pub t2_parallel: u32,
    /// Links of hosts.
    pub host_link: LinkSpec,
    /// Links between T0 and T1.
    pub fabric_link: LinkSpec,
    /// Links between T1 and T2.
    pub t2_link: LinkSpec,
}

impl Tiers {
    /// The fat tree of switches with `k` ports (Al-Fares et al., SIGCOMM 2008): `k` pods of `k/2` T0s and `k/2` T1s, `k/2`
    /// hosts below each T0, `k*k/4` T2s.
    pub const fn fat_tree(k: u32, planes: u8, link: LinkSpec) -> Self {
        let half = k / 2;
        Self {
            planes,
            pods: k,
            t0: half,
            t1: half,
            t2: half * half,
            hosts_per_t0: half,
            parallel: 1,
            t2_parallel: 1,
            host_link: link,
            fabric_link: link,
            t2_link: link,
        }
    }

    /// Hosts in all.
    pub const fn hosts(&self) -> u32 {
        self.pods * self.t0 * self.hosts_per_t0
    }

    /// The graph. Links are named as those of a two-tier Clos, `p0-hA`, `p0-t0a-t1b`, `p0-t1b-t2c`, further parallel ones
    /// `p0-t0a-t1b-2` and so on; T0s and T1s are counted through all pods of a plane.
    pub fn graph(&self) -> GraphSpec {
        let mut spec = GraphSpec { hosts: self.hosts(), ..GraphSpec::default() };
        let (t0s, t1s) = (self.pods * self.t0, self.pods * self.t1);
        for plane in 0..self.planes {
            let first = spec.switches.len() as u32;
            let (t1_first, t2_first) = (first + t0s, first + t0s + t1s);
            for (tier, count) in [(0, t0s), (1, t1s), (2, self.t2)] {
                spec.switches.extend((0..count).map(|nth| format!("p{plane}-t{tier}{}", letter(nth))));
            }
            for host in 0..self.hosts() {
                let name = format!("p{plane}-h{}", letter(host).to_uppercase());
                let (a, b) = (Node::Host(host), Node::Switch(first + host / self.hosts_per_t0));
                spec.links.push(Edge { a, b, spec: self.host_link, name });
            }
            let mut join = |(a, low): (u32, String), (b, high): (u32, String), parallel: u32, link: LinkSpec| {
                for nth in 1..=parallel {
                    let more = if nth == 1 { String::new() } else { format!("-{nth}") };
                    let name = format!("p{plane}-{low}-{high}{more}");
                    spec.links.push(Edge { a: Node::Switch(a), b: Node::Switch(b), spec: link, name });
                }
            };
            for (t0, place) in (0..t0s).flat_map(|t0| (0..self.t1).map(move |place| (t0, place))) {
                let t1 = t0 / self.t0 * self.t1 + place;
                let (low, high) = (format!("t0{}", letter(t0)), format!("t1{}", letter(t1)));
                join((first + t0, low), (t1_first + t1, high), self.parallel, self.fabric_link);
            }
            let group = self.t2 / self.t1.max(1);
            for (t1, nth) in (0..t1s).flat_map(|t1| (0..group).map(move |nth| (t1, nth))) {
                let t2 = t1 % self.t1 * group + nth;
                let (low, high) = (format!("t1{}", letter(t1)), format!("t2{}", letter(t2)));
                join((t1_first + t1, low), (t2_first + t2, high), self.t2_parallel, self.t2_link);
            }
        }
        spec
    }
}
