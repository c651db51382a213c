//! Collectives as messages: rings, all-to-all, neighbours. Each step waits for the bytes it passes on, as it does in life.

use mrc_core::Rng;

use super::plan::{Group, Message, MessageId, Plan};

/// Who takes part and how often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ring {
    /// Host of rank 0.
    pub first: u32,
    /// Hosts between two ranks.
    pub stride: u32,
    /// Ranks, at least 2.
    pub ranks: u32,
    /// Steps from a rank's host to that of the next rank; divides `ranks`. With 1 neighbours are neighbours, with the
    /// number of hosts below a leaf every hop of a ring leaves its leaf.
    pub interleave: u32,
    /// Rings at work on shares of the vector, each in its own time, as collective libraries pipeline them; at least 1.
    /// The operations that are no rings have no use for them.
    pub channels: u32,
    /// All-to-all: messages of a rank under way at once, at least 1, those to the next ranks first; `u32::MAX`: all.
    pub concurrency: u32,
    /// Bytes of the operation, as collective libraries count them: the whole vector of one rank.
    pub bytes: u64,
    /// Repetitions, one after the other.
    pub iterations: u32,
    /// Computation of every rank before each repetition, in nanoseconds.
    pub compute_ns: u64,
    /// How much later a rank may be with its computation, drawn for each rank and repetition, in nanoseconds.
    pub skew_ns: u32,
}

/// The collective operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Collective {
    /// Ring: reduce-scatter, then all-gather.
    AllReduce,
    /// Ring: every rank ends with all parts.
    AllGather,
    /// Ring: every rank ends with its part of the sum.
    ReduceScatter,
    /// Every rank sends a part of its vector to each other rank, as many at once as [`Ring::concurrency`] says.
    AllToAll,
    /// Every rank sends its vector to the next one and receives that of the one before.
    SendRecv,
}

impl Ring {
    fn host(&self, rank: u32) -> u32 {
        let step = u64::from(rank % self.ranks) * u64::from(self.interleave);
        let ranks = u64::from(self.ranks);
        self.first + (step % ranks + step / ranks) as u32 * self.stride
    }

    /// Bytes of a channel's share of a part.
    fn piece(&self) -> u32 {
        self.part().div_ceil(self.channels)
    }

    /// Bytes of a part of the vector; the last parts of an indivisible vector are a byte shorter, and at least 1 byte.
    fn part(&self) -> u32 {
        self.bytes.div_ceil(u64::from(self.ranks)).clamp(1, u32::MAX.into()) as u32
    }
}

impl Collective {
    /// Ring steps of one iteration; 0 for the operations that have none.
    fn steps(self, ranks: u32) -> u32 {
        match self {
            Self::AllReduce => 2 * (ranks - 1),
            Self::AllGather | Self::ReduceScatter => ranks - 1,
            Self::AllToAll | Self::SendRecv => 0,
        }
    }

    /// Bytes one rank sends in an iteration: what a perfect network needs is this over the host's rate.
    pub fn bus_bytes(self, ring: &Ring) -> u64 {
        match self {
            Self::AllReduce | Self::AllGather | Self::ReduceScatter => {
                u64::from(ring.piece()) * u64::from(ring.channels) * u64::from(self.steps(ring.ranks))
            }
            Self::AllToAll => u64::from(ring.part()) * u64::from(ring.ranks - 1),
            Self::SendRecv => ring.bytes.min(u32::MAX.into()),
        }
    }

    /// Messages of all iterations.
    pub fn messages(self, ring: &Ring) -> u64 {
        let each = match self {
            Self::AllToAll => u64::from(ring.ranks - 1),
            Self::SendRecv => 1,
            _ => u64::from(self.steps(ring.ranks)) * u64::from(ring.channels),
        };
        each * u64::from(ring.ranks) * u64::from(ring.iterations)
    }

    /// Adds the operation to a plan as group `name`. `rng` draws who is how late; without skew nothing is drawn.
    pub fn add(self, plan: &mut Plan, name: &str, ring: &Ring, rng: &mut Rng) {
        let group = plan.group(Group {
            name: name.to_owned(),
            bus_bytes: self.bus_bytes(ring),
            iterations: ring.iterations,
            compute_ns: ring.compute_ns,
            measured: true,
        });
        // What each rank has to receive before it is through with the iteration before.
        let mut before: Vec<Vec<MessageId>> = vec![Vec::new(); ring.ranks as usize];
        for iteration in 0..ring.iterations {
            let mut late = || if ring.skew_ns == 0 { 0 } else { u64::from(rng.below(ring.skew_ns)) };
            let starts: Vec<u64> = (0..ring.ranks).map(|_| ring.compute_ns + late()).collect();
            let message = |rank: u32, to: u32, bytes: u32, first: bool| Message {
                src: ring.host(rank),
                dst: ring.host(to),
                bytes,
                group,
                iteration,
                delay_ns: if first { starts[rank as usize] } else { 0 },
            };
            let mut last: Vec<Vec<MessageId>> = vec![Vec::new(); ring.ranks as usize];
            match self {
                Self::AllToAll | Self::SendRecv => {
                    for rank in 0..ring.ranks {
                        let (peers, bytes) = match self {
                            // From the next rank on, so that not all begin with rank 0.
                            Self::AllToAll => (1..ring.ranks, ring.part()),
                            _ => (1..2, ring.bytes.clamp(1, u32::MAX.into()) as u32),
                        };
                        let mut sent = Vec::with_capacity(ring.ranks as usize);
                        for distance in peers {
                            let to = (rank + distance) % ring.ranks;
                            let turn = sent.len().checked_sub(ring.concurrency as usize);
                            let id = plan.push(message(rank, to, bytes, turn.is_none()));
                            match turn.map(|nth: usize| sent[nth]) {
                                Some(first) => plan.after_completion(first, id),
                                None => before[rank as usize].iter().for_each(|&first| plan.after_delivery(first, id)),
                            }
                            sent.push(id);
                            last[to as usize].push(id);
                        }
                    }
                }
                _ => {
                    // By rank and channel: what it passes on next.
                    let (ranks, channels) = (ring.ranks as usize, ring.channels as usize);
                    let mut held: Vec<Option<MessageId>> = vec![None; ranks * channels];
                    for step in 0..self.steps(ring.ranks) {
                        let mut sent = vec![None; ranks * channels];
                        for (rank, channel) in
                            (0..channels).flat_map(|channel| (0..ranks).map(move |rank| (rank, channel)))
                        {
                            let to = (rank + 1) % ranks;
                            let id = plan.push(message(rank as u32, to as u32, ring.piece(), step == 0));
                            match held[rank * channels + channel] {
                                Some(first) => plan.after_delivery(first, id),
                                None => before[rank].iter().for_each(|&first| plan.after_delivery(first, id)),
                            }
                            sent[to * channels + channel] = Some(id);
                        }
                        held = sent;
                    }
                    for (rank, ids) in held.chunks(channels).enumerate() {
                        last[rank].extend(ids.iter().flatten());
                    }
                }
            }
            before = last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Edge;

    const RING: Ring = Ring {
        first: 2,
        stride: 3,
        ranks: 4,
        interleave: 1,
        channels: 1,
        concurrency: u32::MAX,
        bytes: 4096,
        iterations: 2,
        compute_ns: 50,
        skew_ns: 0,
    };

    #[test]
    fn channels_share_the_vector_and_wait_for_their_own_only() {
        let ring = Ring { ranks: 4, channels: 3, bytes: 4 * 3 * 100, ..RING };
        let mut plan = Plan::default();
        Collective::AllReduce.add(&mut plan, "ring", &ring, &mut Rng::new(1));
        assert_eq!(plan.messages.len() as u64, Collective::AllReduce.messages(&ring));
        assert!(plan.messages.iter().all(|message| message.bytes == 100));
        assert_eq!(plan.groups[0].bus_bytes, 6 * 300);
        // Within an iteration every later step waits for one message, that of its channel.
        let first: Vec<u32> =
            plan.edges.iter().filter(|edge| edge.then < 4 * 3 * 6).map(|edge| edge.then - edge.first).collect();
        assert_eq!(first.len(), 4 * 3 * 5);
    }

    #[test]
    fn interleaved_ranks_visit_every_host_once() {
        let ring = Ring { first: 0, stride: 1, ranks: 12, interleave: 4, ..RING };
        let hosts: Vec<u32> = (0..12).map(|rank| ring.host(rank)).collect();
        assert_eq!(hosts, [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]);
    }

    fn plan(collective: Collective) -> Plan {
        let mut plan = Plan::default();
        collective.add(&mut plan, "c", &RING, &mut Rng::new(1));
        assert_eq!(plan.check(12), Ok(()));
        assert_eq!(plan.messages.len() as u64, collective.messages(&RING));
        plan
    }

    #[test]
    fn a_ring_passes_on_what_it_received() {
        let plan = plan(Collective::AllReduce);
        assert_eq!(plan.messages.len(), 2 * 6 * 4);
        assert_eq!(plan.groups[0].bus_bytes, 6 * 1024);
        for edge in &plan.edges {
            let (first, then) = (plan.messages[edge.first as usize], plan.messages[edge.then as usize]);
            assert_eq!(first.dst, then.src, "a rank waits for what it receives");
            assert!(!edge.acked);
        }
        // All but the 4 messages of the very first step wait for exactly one message.
        assert_eq!(plan.edges.len(), 2 * 6 * 4 - 4);
        assert_eq!(plan.messages[0], Message { src: 2, dst: 5, bytes: 1024, group: 0, iteration: 0, delay_ns: 50 });
        assert_eq!(plan.messages[4].delay_ns, 0);
        assert_eq!(plan.messages[24].delay_ns, 50);
    }

    #[test]
    fn all_to_all_waits_for_everybody_between_iterations() {
        let plan = plan(Collective::AllToAll);
        assert_eq!(plan.messages.len(), 2 * 4 * 3);
        assert_eq!(plan.edges.len(), 4 * 3 * 3);
    }

    #[test]
    fn an_all_to_all_in_turns_waits_for_its_own_completions() {
        let ring = Ring { ranks: 8, concurrency: 3, ..RING };
        let mut plan = Plan::default();
        Collective::AllToAll.add(&mut plan, "turns", &ring, &mut Rng::new(1));
        assert_eq!(plan.check(24), Ok(()));
        let (own, others): (Vec<Edge>, Vec<Edge>) = plan.edges.iter().copied().partition(|edge| edge.acked);
        // Of seven messages four wait for the one three before; the first three of the second iteration for everybody.
        assert_eq!((own.len(), others.len()), (2 * 8 * 4, 8 * 3 * 7));
        for edge in own {
            let (first, then) = (plan.messages[edge.first as usize], plan.messages[edge.then as usize]);
            assert_eq!((first.src, first.iteration, then.delay_ns), (then.src, then.iteration, 0));
            assert_eq!(edge.then - edge.first, 3);
        }
    }

    #[test]
    fn ranks_begin_late_by_up_to_the_skew_and_each_by_its_own() {
        let ring = Ring { ranks: 32, skew_ns: 1_000, ..RING };
        for collective in [Collective::AllReduce, Collective::AllToAll] {
            let mut plan = Plan::default();
            collective.add(&mut plan, "late", &ring, &mut Rng::new(1));
            let starts = |iteration: u32| -> Vec<u64> {
                let of = |rank: u32| move |m: &&Message| (m.src, m.iteration) == (ring.host(rank), iteration);
                let first = |rank| plan.messages.iter().filter(of(rank)).map(|m| m.delay_ns).max();
                (0..32).filter_map(first).collect()
            };
            let (one, two) = (starts(0), starts(1));
            assert_ne!(one, two, "drawn for each repetition");
            for starts in [one, two] {
                assert!(starts.iter().all(|ns| (50..1_050).contains(ns)));
                let (early, late) = (starts.iter().min().unwrap(), starts.iter().max().unwrap());
                assert!(late - early > 500, "{early} to {late}");
            }
            assert_eq!(plan.groups[0].compute_ns, 50, "skew is no computation: bandwidth counts it");
        }
    }

    #[test]
    fn neighbours_and_halves_of_the_ring() {
        assert_eq!(plan(Collective::SendRecv).messages[0].bytes, 4096);
        assert_eq!(plan(Collective::AllGather).messages.len(), 2 * 3 * 4);
        assert_eq!(plan(Collective::ReduceScatter).groups[0].bus_bytes, 3 * 1024);
    }
}
