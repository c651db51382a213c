//! Traffic without collectives: streams between pairs, permutations, incasts, Poisson arrivals, trace files.

use mrc_core::Rng;

use super::plan::{GroupId, Message, Plan};

/// Messages one after the other between two hosts, as `ib_write_bw` sends them: the next is posted when the completion
/// of the one `depth` before it is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream {
    /// Bytes of a message.
    pub bytes: u32,
    /// Messages.
    pub messages: u32,
    /// Messages under way.
    pub depth: u32,
    /// Start, in nanoseconds.
    pub start_ns: u64,
}

impl Stream {
    /// Adds the stream from `src` to `dst` to a plan.
    pub fn add(&self, plan: &mut Plan, group: GroupId, src: u32, dst: u32) {
        let first = plan.messages.len() as u32;
        for nth in 0..self.messages {
            let delay_ns = if nth < self.depth { self.start_ns } else { 0 };
            let id = plan.push(Message { src, dst, bytes: self.bytes, group, iteration: 0, delay_ns });
            if nth >= self.depth {
                plan.after_completion(first + nth - self.depth, id);
            }
        }
    }
}

/// Who sends to whom.
pub struct Pairs(pub Vec<(u32, u32)>);

impl Pairs {
    /// A random permutation of hosts `first..first + hosts`: everybody sends to one and receives from one, never itself
    /// nor another of the same `leaf`.
    ///
    /// # Errors
    /// When no such permutation exists: one leaf holds more than half of the hosts.
    pub fn permutation(first: u32, hosts: u32, leaf: impl Fn(u32) -> u32, rng: &mut Rng) -> Result<Self, &'static str> {
        let mut to: Vec<u32> = (first..first + hosts).collect();
        let mut leaves: Vec<u32> = to.iter().map(|&host| leaf(host)).collect();
        leaves.sort_unstable();
        let largest = leaves.chunk_by(|a, b| a == b).map(<[u32]>::len).max().unwrap_or(0);
        if 2 * largest > to.len() {
            return Err("more than half of the hosts are below one leaf: not everybody finds a destination elsewhere");
        }
        for at in (1..to.len()).rev() {
            to.swap(at, rng.below(at as u32 + 1) as usize);
        }
        // Each host with a forbidden destination swaps with a random one that makes neither of them worse; with at most
        // half of the hosts in one block there is always one.
        for at in 0..to.len() {
            while leaf(to[at]) == leaf(first + at as u32) {
                let other = rng.below(hosts) as usize;
                if leaf(to[other]) != leaf(first + at as u32) && leaf(to[at]) != leaf(first + other as u32) {
                    to.swap(at, other);
                }
            }
        }
        Ok(Self((first..).zip(to).collect()))
    }

    /// `count` senders from `first` on, a host in between skipped if it is the receiver, all to `to`.
    pub fn incast(first: u32, count: u32, to: u32) -> Self {
        Self((first..).filter(|&host| host != to).take(count as usize).map(|host| (host, to)).collect())
    }
}

/// Sizes of flows as a cumulative distribution, linear between its points.
#[derive(Clone, PartialEq, Debug)]
pub struct SizeDistribution {
    /// (bytes, share of flows up to this size), both rising, the last share 1.
    points: Vec<(f64, f64)>,
}

impl SizeDistribution {
    /// From points (bytes, cumulative share).
    ///
    /// # Errors
    /// Points that are no cumulative distribution.
    pub fn new(points: &[(f64, f64)]) -> Result<Self, &'static str> {
        let rising = points.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1);
        let ends = points.first().is_some_and(|p| p.0 >= 1.0 && p.1 >= 0.0)
            && points.last().is_some_and(|p| p.0 <= 2e9 && (p.1 - 1.0).abs() < 1e-9);
        if !rising || !ends {
            return Err("a list of [bytes, share] with rising bytes (1 to 2e9) and rising shares that end in 1.0");
        }
        Ok(Self { points: points.to_vec() })
    }

    /// Mean size, in bytes.
    pub fn mean(&self) -> f64 {
        let first = self.points[0].0 * self.points[0].1;
        let rest = self.points.windows(2).map(|p| (p[0].0 + p[1].0) / 2.0 * (p[1].1 - p[0].1));
        first + rest.sum::<f64>()
    }

    fn draw(&self, rng: &mut Rng) -> u32 {
        let share = unit(rng);
        let at = self.points.partition_point(|point| point.1 < share);
        let (Some(&above), Some(&below)) = (self.points.get(at), self.points.get(at.wrapping_sub(1))) else {
            return self.points[0].0 as u32;
        };
        let width = above.1 - below.1;
        let part = if width > 0.0 { (share - below.1) / width } else { 1.0 };
        ((below.0 + part * (above.0 - below.0)) as u32).max(1)
    }
}

/// A number in (0, 1].
fn unit(rng: &mut Rng) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// Flows that arrive at random, between random hosts.
#[derive(Clone, PartialEq, Debug)]
pub struct Poisson {
    /// Sizes.
    pub sizes: SizeDistribution,
    /// Mean time between two flows of the whole fabric, in nanoseconds.
    pub interval_ns: f64,
    /// When the process begins, in nanoseconds.
    pub start_ns: u64,
    /// Flows, or how long they begin.
    pub until: PoissonEnd,
}

/// The end of a Poisson process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoissonEnd {
    /// After so many flows.
    Flows(u32),
    /// After so many nanoseconds.
    Duration(u64),
}

impl Poisson {
    /// Adds the flows among hosts `first..first + hosts`, at least 2, to a plan; destinations are of another `leaf`, of which
    /// there must be one. Returns when it ended, in nanoseconds after its start.
    pub fn add(
        &self,
        plan: &mut Plan,
        group: GroupId,
        (first, hosts): (u32, u32),
        leaf: impl Fn(u32) -> u32,
        rng: &mut Rng,
    ) -> u64 {
        let mut at = 0.0;
        let mut flows = 0;
        loop {
            match self.until {
                PoissonEnd::Flows(most) if flows == most => return at as u64,
                _ => {}
            }
            at -= self.interval_ns * unit(rng).ln();
            match self.until {
                PoissonEnd::Duration(ns) if at >= ns as f64 => return ns,
                _ => {}
            }
            let src = rng.below(hosts);
            let mut dst = (src + 1 + rng.below(hosts - 1)) % hosts;
            while leaf(first + src) == leaf(first + dst) {
                dst = (src + 1 + rng.below(hosts - 1)) % hosts;
            }
            let (src, dst, bytes) = (first + src, first + dst, self.sizes.draw(rng));
            plan.push(Message { src, dst, bytes, group, iteration: 0, delay_ns: self.start_ns + at as u64 });
            flows += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Group;

    #[test]
    fn a_permutation_leaves_the_leaf_and_reaches_everybody() {
        for seed in 0..50 {
            let Pairs(pairs) = Pairs::permutation(16, 32, |host| host / 16, &mut Rng::new(seed)).unwrap();
            let mut to: Vec<u32> = pairs.iter().map(|pair| pair.1).collect();
            to.sort_unstable();
            assert_eq!(to, (16..48).collect::<Vec<_>>());
            assert!(pairs.iter().all(|(src, dst)| src / 16 != dst / 16), "{pairs:?}");
        }
        let Pairs(pairs) = Pairs::permutation(0, 5, |host| host, &mut Rng::new(1)).unwrap();
        assert!(pairs.iter().all(|(src, dst)| src != dst));
        assert!(Pairs::permutation(0, 24, |host| host / 16, &mut Rng::new(1)).is_err());
    }

    #[test]
    fn an_incast_skips_its_receiver() {
        assert_eq!(Pairs::incast(1, 3, 2).0, [(1, 2), (3, 2), (4, 2)]);
    }

    #[test]
    fn a_stream_keeps_its_depth() {
        let mut plan = Plan::default();
        let group = plan.group(Group::flows("s"));
        Stream { bytes: 10, messages: 5, depth: 2, start_ns: 9 }.add(&mut plan, group, 0, 1);
        assert_eq!(plan.check(2), Ok(()));
        assert_eq!(plan.edges.iter().map(|edge| (edge.first, edge.then)).collect::<Vec<_>>(), [(0, 2), (1, 3), (2, 4)]);
        assert_eq!(plan.messages.iter().map(|m| m.delay_ns).collect::<Vec<_>>(), [9, 9, 0, 0, 0]);
    }

    #[test]
    fn poisson_flows_have_the_mean_rate_and_size() {
        let sizes = SizeDistribution::new(&[(1_000.0, 0.5), (11_000.0, 1.0)]).unwrap();
        assert_eq!(sizes.mean(), 3_500.0);
        let mut plan = Plan::default();
        let group = plan.group(Group::flows("p"));
        let poisson = Poisson { sizes, interval_ns: 100.0, start_ns: 0, until: PoissonEnd::Flows(20_000) };
        poisson.add(&mut plan, group, (4, 8), |host| host, &mut Rng::new(3));
        assert_eq!(plan.check(12), Ok(()));
        let mean = plan.bytes() as f64 / 20_000.0;
        assert!((3_400.0..3_600.0).contains(&mean), "{mean}");
        let last = plan.messages.last().unwrap().delay_ns;
        assert!((1_950_000..2_050_000).contains(&last), "{last}");
        assert!(SizeDistribution::new(&[(1.0, 0.5), (2.0, 0.4)]).is_err());
        assert!(SizeDistribution::new(&[]).is_err());
    }
}
