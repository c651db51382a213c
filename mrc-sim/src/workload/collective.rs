//! Collectives as messages: rings, rings of rings, trees, all-to-all, neighbours. Each step waits for the bytes it passes on, as
//! it does in life.

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
    /// Of trees, pieces of the vector that follow one another. The operations without steps have no use for them.
    pub channels: u32,
    /// All-to-all: messages of a rank under way at once, at least 1, those to the next ranks first; `u32::MAX`: all.
    pub concurrency: u32,
    /// Ranks of an inner ring of [`Collective::Hierarchical`]; divides `ranks`.
    pub group: u32,
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
    /// Rings of rings: reduce-scatter among the ranks of a group, all-reduce among those of all groups that hold the same
    /// part, all-gather in the group.
    Hierarchical,
    /// Two binary trees, each with every second channel: up to the root, then down. Who passes on in one of them is a leaf
    /// of the other.
    Tree,
    /// Down a binary tree from rank 0.
    Broadcast,
}

/// Steps of a ring, after which another one may go on with what each rank holds.
struct Phase {
    steps: u32,
    /// Bytes of a channel's share in each step.
    bytes: u32,
    /// Ranks of the ring are neighbours in a group of so many...
    group: u32,
    /// ...or as many apart.
    apart: u32,
}

impl Phase {
    fn next(&self, rank: u32, ranks: u32) -> u32 {
        match self.apart {
            1 => rank / self.group * self.group + (rank + 1) % self.group,
            apart => (rank + apart) % ranks,
        }
    }
}

impl Ring {
    fn host(&self, rank: u32) -> u32 {
        let step = u64::from(rank % self.ranks) * u64::from(self.interleave);
        let ranks = u64::from(self.ranks);
        self.first + (step % ranks + step / ranks) as u32 * self.stride
    }

    /// Bytes of a channel's share, where the vector is cut into `parts`; the last ones of an indivisible vector are a byte
    /// shorter, and at least 1 byte.
    fn piece(&self, parts: u64) -> u32 {
        (self.bytes.div_ceil(parts).clamp(1, u32::MAX.into()) as u32).div_ceil(self.channels)
    }

    /// Whether ranks may begin this iteration at different times: late by the skew, or when they are through with the one before.
    fn ranks_differ(&self, iteration: u32) -> bool {
        iteration > 0 || self.skew_ns > 0
    }

    /// Bytes of a part of the vector.
    fn part(&self) -> u32 {
        self.bytes.div_ceil(u64::from(self.ranks)).clamp(1, u32::MAX.into()) as u32
    }
}

impl Collective {
    /// The rings of one iteration; none for the other operations.
    fn phases(self, ring: &Ring) -> Vec<Phase> {
        let (ranks, group) = (ring.ranks, ring.group);
        let one = |steps| vec![Phase { steps, bytes: ring.piece(ranks.into()), group: ranks, apart: 1 }];
        match self {
            Self::AllReduce => one(2 * (ranks - 1)),
            Self::AllGather | Self::ReduceScatter => one(ranks - 1),
            Self::Hierarchical => {
                let inner = || Phase { steps: group - 1, bytes: ring.piece(group.into()), group, apart: 1 };
                let steps = 2 * (ranks / group - 1);
                // Groups of one rank are neighbours on the outer ring.
                let outer = Phase { steps, bytes: ring.piece(ranks.into()), group: ranks, apart: group };
                vec![inner(), outer, inner()]
            }
            _ => Vec::new(),
        }
    }

    /// Bytes one rank sends in an iteration: what a perfect network needs is this over the host's rate. Of a tree it is what
    /// a ring would send, and of a broadcast the vector, as benchmarks reckon it.
    pub fn bus_bytes(self, ring: &Ring) -> u64 {
        let ranks = u64::from(ring.ranks);
        match self {
            Self::AllToAll => u64::from(ring.part()) * (ranks - 1),
            Self::SendRecv => ring.bytes.min(u32::MAX.into()),
            Self::Tree => 2 * (ranks - 1) * ring.bytes / ranks,
            Self::Broadcast => ring.bytes,
            _ => {
                let of = |phase: &Phase| u64::from(phase.bytes) * u64::from(ring.channels) * u64::from(phase.steps);
                self.phases(ring).iter().map(of).sum()
            }
        }
    }

    /// Whether each rank begins this iteration with one event behind all that it received in the one before.
    fn gathers(self, ring: &Ring, iteration: u32) -> bool {
        self == Self::AllToAll && iteration > 0 && ring.ranks > 2 && ring.concurrency > 1
    }

    /// Messages of all iterations.
    pub fn messages(self, ring: &Ring) -> u64 {
        let (ranks, channels) = (u128::from(ring.ranks), u128::from(ring.channels));
        // Of one iteration, and what each one behind the first has beside them.
        let (within, between) = match self {
            Self::AllToAll => (ranks * (ranks - 1), ranks * u128::from(self.gathers(ring, 1))),
            Self::SendRecv => (ranks, 0),
            // With the computation of every rank.
            Self::Tree => (2 * (ranks - 1) * channels + ranks, 0),
            Self::Broadcast => ((ranks - 1) * channels + ranks, 0),
            _ => {
                // With the computation of every rank, where ranks differ.
                let computed = ranks * u128::from(ring.ranks_differ(0));
                (ranks * channels * self.steps(ring) + computed, ranks - computed)
            }
        };
        in_all(ring, within, between)
    }

    /// Dependencies between the messages of all iterations.
    pub fn edges(self, ring: &Ring) -> u64 {
        let (ranks, channels) = (u128::from(ring.ranks), u128::from(ring.channels));
        let below_root = (ranks - 1).min(2);
        // As of messages.
        let (within, between) = match self {
            Self::AllToAll => {
                let at_once = u128::from(ring.concurrency).min(ranks - 1);
                let begins = if self.gathers(ring, 1) { ranks - 1 + at_once } else { at_once * (ranks - 1) };
                (ranks * (ranks - 1 - at_once), ranks * begins)
            }
            Self::SendRecv => (0, ranks),
            Self::Tree => {
                let up = 2 * (ranks - 1) - below_root;
                let down = below_root * (1 + below_root) + ranks - 1 - below_root;
                (channels * (up + down), channels * (below_root + ranks - 1))
            }
            Self::Broadcast => {
                let down = below_root + 2 * (ranks - 1 - below_root);
                (channels * down, channels * (ranks - 1 + ranks + below_root))
            }
            _ => {
                let first = ranks * channels;
                let messages = first * self.steps(ring);
                let computed = messages * u128::from(ring.ranks_differ(0));
                (messages - first + computed, first + messages - computed)
            }
        };
        in_all(ring, within, between)
    }

    /// Steps of the rings of one iteration.
    fn steps(self, ring: &Ring) -> u128 {
        self.phases(ring).iter().map(|phase| u128::from(phase.steps)).sum()
    }

    /// Adds the operation to a plan as group `name`. `rng` draws who is how late; without skew nothing is drawn.
    pub fn add(self, plan: &mut Plan, name: &str, ring: &Ring, rng: &mut Rng) {
        let group = plan.group(Group {
            bus_bytes: self.bus_bytes(ring),
            iterations: ring.iterations,
            compute_ns: ring.compute_ns,
            ..Group::flows(name)
        });
        // What each rank has to receive before it is through with the iteration before.
        let mut before: Vec<Vec<MessageId>> = vec![Vec::new(); ring.ranks as usize];
        // What the root of a broadcast, which receives nothing, has to have sent.
        let mut of_root: Vec<MessageId> = Vec::new();
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
                        let before = &mut before[rank as usize];
                        // One event, for which many messages wait: otherwise each would wait for each that the rank received.
                        let gathers = self.gathers(ring, iteration);
                        if gathers {
                            let id = plan.push(message(rank, rank, 0, true));
                            before.drain(..).for_each(|first| plan.after_delivery(first, id));
                            before.push(id);
                        }
                        let mut sent = Vec::with_capacity(ring.ranks as usize);
                        for distance in peers {
                            let to = (rank + distance) % ring.ranks;
                            let turn = sent.len().checked_sub(ring.concurrency as usize);
                            let id = plan.push(message(rank, to, bytes, turn.is_none() && !gathers));
                            match turn.map(|nth: usize| sent[nth]) {
                                Some(first) => plan.after_completion(first, id),
                                None => before.iter().for_each(|&first| plan.after_delivery(first, id)),
                            }
                            sent.push(id);
                            last[to as usize].push(id);
                        }
                    }
                }
                Self::Tree | Self::Broadcast => {
                    let ready: Vec<MessageId> = (0..ring.ranks)
                        .map(|rank| {
                            let id = plan.push(message(rank, rank, 0, true));
                            before[rank as usize].iter().for_each(|&first| plan.after_delivery(first, id));
                            id
                        })
                        .collect();
                    of_root.drain(..).for_each(|first| plan.after_completion(first, ready[0]));
                    let begin = plan.messages.len();
                    for channel in 0..ring.channels {
                        let tree = Tree { ranks: ring.ranks, mirrored: self == Self::Tree && channel % 2 == 1 };
                        let bytes = ring.piece(1);
                        tree.add(plan, self == Self::Tree, &ready, &mut last, |from, to| {
                            message(from, to, bytes, false)
                        });
                    }
                    if self == Self::Broadcast {
                        let root = ring.host(0);
                        let sent = (begin..plan.messages.len()).filter(|&id| plan.messages[id].src == root);
                        of_root.extend(sent.map(|id| id as MessageId));
                    }
                }
                _ => {
                    // By rank and channel: what it passes on next.
                    let (ranks, channels) = (ring.ranks as usize, ring.channels as usize);
                    let mut held: Vec<Option<MessageId>> = vec![None; ranks * channels];
                    let phases = self.phases(ring);
                    let steps = phases.iter().flat_map(|phase| (0..phase.steps).map(move |_| phase));
                    // Nobody passes on before it takes part, also where the rank before it is earlier.
                    let computed: Vec<Option<MessageId>> = (0..ranks)
                        .map(|rank| {
                            let id = ring
                                .ranks_differ(iteration)
                                .then(|| plan.push(message(rank as u32, rank as u32, 0, true)));
                            id.inspect(|&id| before[rank].iter().for_each(|&first| plan.after_delivery(first, id)))
                        })
                        .collect();
                    let mut first = !ring.ranks_differ(iteration);
                    for phase in steps {
                        let mut sent = vec![None; ranks * channels];
                        for (rank, channel) in
                            (0..channels).flat_map(|channel| (0..ranks).map(move |rank| (rank, channel)))
                        {
                            let to = phase.next(rank as u32, ring.ranks);
                            let id = plan.push(message(rank as u32, to, phase.bytes, first));
                            computed[rank].iter().for_each(|&computed| plan.after_delivery(computed, id));
                            held[rank * channels + channel].iter().for_each(|&got| plan.after_delivery(got, id));
                            sent[to as usize * channels + channel] = Some(id);
                        }
                        (held, first) = (sent, false);
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

/// What all iterations have, of which each one has `within`, and each one behind the first `between` as well.
fn in_all(ring: &Ring, within: u128, between: u128) -> u64 {
    let iterations = u128::from(ring.iterations);
    u64::try_from(within * iterations + between * iterations.saturating_sub(1)).unwrap_or(u64::MAX)
}

/// A binary tree over ranks: those below `n` are `2n + 1` and `2n + 2`, counted from the other end if mirrored.
struct Tree {
    ranks: u32,
    mirrored: bool,
}

impl Tree {
    fn rank(&self, place: u32) -> u32 {
        if self.mirrored { self.ranks - 1 - place } else { place }
    }

    /// Adds one pass upwards (`up`) and one downwards. `ready` stands for the computation of each rank; what a rank receives
    /// at last goes to `last`.
    fn add(
        &self,
        plan: &mut Plan,
        up: bool,
        ready: &[MessageId],
        last: &mut [Vec<MessageId>],
        message: impl Fn(u32, u32) -> Message,
    ) {
        // What a place has received from below.
        let mut below: Vec<Vec<MessageId>> = vec![Vec::new(); self.ranks as usize];
        for place in (1..self.ranks).rev().filter(|_| up) {
            let (parent, rank) = ((place - 1) / 2, self.rank(place));
            let id = plan.push(message(rank, self.rank(parent)));
            plan.after_delivery(ready[rank as usize], id);
            below[place as usize].iter().for_each(|&first| plan.after_delivery(first, id));
            below[parent as usize].push(id);
        }
        last[self.rank(0) as usize].extend(&below[0]);
        let mut above: Vec<Option<MessageId>> = vec![None; self.ranks as usize];
        for place in 1..self.ranks {
            let (parent, rank) = ((place - 1) / 2, self.rank(place));
            let id = plan.push(message(self.rank(parent), rank));
            match above[parent as usize] {
                Some(first) => {
                    plan.after_delivery(first, id);
                    if !up {
                        // Nobody takes part before its own computation. In a reduction it sent upwards behind that.
                        plan.after_delivery(ready[self.rank(parent) as usize], id);
                    }
                }
                None => {
                    plan.after_delivery(ready[self.rank(0) as usize], id);
                    below[0].iter().for_each(|&first| plan.after_delivery(first, id));
                }
            }
            above[place as usize] = Some(id);
            last[rank as usize].push(id);
        }
        if !up {
            // Whoever only receives computes nonetheless.
            (0..self.ranks as usize).for_each(|rank| last[rank].push(ready[rank]));
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
        group: 2,
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
        assert!(plan.messages.iter().all(|message| message.bytes == 100 || message.is_compute()));
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
        // The second iteration has a computation of each rank.
        assert_eq!(plan.messages.len(), 2 * 6 * 4 + 4);
        assert_eq!(plan.groups[0].bus_bytes, 6 * 1024);
        for edge in &plan.edges {
            let (first, then) = (plan.messages[edge.first as usize], plan.messages[edge.then as usize]);
            assert_eq!(first.dst, then.src, "a rank waits for what it receives");
            assert!(!edge.acked);
        }
        // All but the 4 messages of the very first step wait for exactly one message; in the second iteration all for their rank's
        // computation, too.
        assert_eq!(plan.edges.len(), 2 * 6 * 4 + 6 * 4 - 4 + 4 - 4);
        assert_eq!(plan.messages[0], Message { src: 2, dst: 5, bytes: 1024, group: 0, iteration: 0, delay_ns: 50 });
        assert_eq!(plan.messages[4].delay_ns, 0);
        assert!(plan.messages[24].is_compute() && plan.messages[24].delay_ns == 50);
        assert_eq!(plan.messages[28].delay_ns, 0);
    }

    /// With a skew each message waits for its sender's computation: the last one passes nothing on before it is done.
    #[test]
    fn nobody_passes_on_before_it_takes_part() {
        for collective in [Collective::AllReduce, Collective::AllGather, Collective::Hierarchical] {
            let ring = Ring { skew_ns: 1_000, channels: 2, ..RING };
            let mut plan = Plan::default();
            collective.add(&mut plan, "late", &ring, &mut Rng::new(1));
            assert_eq!(plan.messages.len() as u64, collective.messages(&ring));
            for (id, message) in (0..).zip(&plan.messages).filter(|(_, message)| !message.is_compute()) {
                let waits =
                    plan.edges.iter().filter(|edge| edge.then == id).map(|edge| plan.messages[edge.first as usize]);
                let own = waits.filter(|first| first.is_compute() && first.iteration == message.iteration);
                assert_eq!(
                    own.map(|first| first.src).collect::<Vec<_>>(),
                    [message.src],
                    "{collective:?}, message {id}"
                );
            }
        }
    }

    #[test]
    fn all_to_all_waits_for_everybody_between_iterations() {
        let plan = plan(Collective::AllToAll);
        // Each rank begins the second iteration once, behind three messages and before three.
        assert_eq!(plan.messages.len(), 2 * 4 * 3 + 4);
        assert_eq!(plan.edges.len(), 4 * (3 + 3));
        for begin in plan.messages.iter().filter(|message| message.is_compute()) {
            assert_eq!((begin.iteration, begin.delay_ns), (1, 50));
        }
        let late = plan.messages.iter().filter(|message| message.iteration == 1 && message.delay_ns > 0);
        assert_eq!(late.count(), 4, "what waits for the computation does not compute again");
    }

    #[test]
    fn an_all_to_all_in_turns_waits_for_its_own_completions() {
        let ring = Ring { ranks: 8, concurrency: 3, ..RING };
        let mut plan = Plan::default();
        Collective::AllToAll.add(&mut plan, "turns", &ring, &mut Rng::new(1));
        assert_eq!(plan.check(24), Ok(()));
        let (own, others): (Vec<Edge>, Vec<Edge>) = plan.edges.iter().copied().partition(|edge| edge.acked);
        // Of seven messages four wait for the one three before; the first three of the second iteration for one event behind everybody.
        assert_eq!((own.len(), others.len()), (2 * 8 * 4, 8 * (7 + 3)));
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

    /// Who lays out a plan knows before how much memory it takes.
    #[test]
    fn messages_and_dependencies_are_reckoned_before_they_are_there() {
        use Collective::*;
        let all = [AllReduce, AllGather, ReduceScatter, AllToAll, SendRecv, Hierarchical, Tree, Broadcast];
        let numbers = |ranks| [1, 2, 5].map(|iterations| (ranks, iterations));
        for (ranks, iterations) in (2..9).flat_map(numbers) {
            for (channels, concurrency, skew_ns) in [(1, u32::MAX, 0), (3, 1, 7), (2, 2, 0)] {
                for group in (1..=ranks).filter(|group| ranks % group == 0) {
                    let ring =
                        Ring { ranks, iterations, channels, concurrency, skew_ns, group, first: 0, stride: 1, ..RING };
                    for collective in all {
                        let mut plan = Plan::default();
                        collective.add(&mut plan, "c", &ring, &mut Rng::new(1));
                        let (messages, edges) = (plan.messages.len() as u64, plan.edges.len() as u64);
                        let reckoned = (collective.messages(&ring), collective.edges(&ring));
                        assert_eq!(reckoned, (messages, edges), "{collective:?} {ring:?}");
                    }
                }
            }
        }
        let most = Ring { ranks: 1 << 20, channels: 256, iterations: u32::MAX, group: 1, ..RING };
        assert_eq!(all.map(|collective| collective.messages(&most) > 1 << 40), [true; 8]);
    }

    #[test]
    fn rings_of_rings_send_what_one_ring_would() {
        let ring = Ring { ranks: 12, group: 4, stride: 1, first: 0, iterations: 1, bytes: 12 * 4 * 100, ..RING };
        let mut plan = Plan::default();
        Collective::Hierarchical.add(&mut plan, "h", &ring, &mut Rng::new(1));
        assert_eq!(plan.check(12), Ok(()));
        assert_eq!(plan.messages.len() as u64, Collective::Hierarchical.messages(&ring));
        assert_eq!(Collective::Hierarchical.bus_bytes(&ring), Collective::AllReduce.bus_bytes(&ring));
        // 3 steps of a quarter in the group, 2 * 2 of a twelfth across, 3 of a quarter in the group.
        let (inside, across): (Vec<&Message>, Vec<&Message>) =
            plan.messages.iter().partition(|m| m.src / 4 == m.dst / 4);
        assert_eq!((inside.len(), across.len()), (12 * 6, 12 * 4));
        assert!(
            inside.iter().all(|m| m.bytes == 1200) && across.iter().all(|m| m.bytes == 400 && m.src % 4 == m.dst % 4)
        );
        // All but those of the first step wait for exactly one message, which their sender received.
        assert_eq!(plan.edges.len(), 12 * 10 - 12);
        for edge in &plan.edges {
            assert_eq!(plan.messages[edge.first as usize].dst, plan.messages[edge.then as usize].src);
        }
    }

    #[test]
    fn a_tree_reduces_before_it_tells_and_shares_the_work() {
        let ring = Ring { ranks: 8, channels: 2, stride: 1, first: 0, iterations: 2, bytes: 8000, ..RING };
        let mut plan = Plan::default();
        Collective::Tree.add(&mut plan, "t", &ring, &mut Rng::new(1));
        assert_eq!(plan.check(8), Ok(()));
        assert_eq!(plan.messages.len() as u64, Collective::Tree.messages(&ring));
        let sent = |rank: u32| plan.messages.iter().filter(|m| m.src == rank && !m.is_compute()).count();
        // Inner ranks of one tree are leaves of the other: 3 messages, and 1, but for the roots and who has one child.
        assert!((0..8).all(|rank| (3..=4).contains(&(sent(rank) / 2))), "{:?}", (0..8).map(sent).collect::<Vec<_>>());
        assert!(plan.messages.iter().all(|m| m.is_compute() && m.delay_ns == 50 || m.bytes == 4000 && m.delay_ns == 0));
        // The root tells nobody before it has heard of all.
        let waits = |then: u32| plan.edges.iter().filter(move |edge| edge.then == then).map(|edge| edge.first);
        let down = plan.messages.iter().position(|m| (m.src, m.dst, m.bytes) == (0, 1, 4000)).unwrap() as u32;
        let mut heard = vec![down];
        let mut from = std::collections::BTreeSet::new();
        while let Some(id) = heard.pop() {
            for first in waits(id) {
                from.insert(plan.messages[first as usize].src);
                heard.push(first);
            }
        }
        assert_eq!(from.len(), 8);
    }

    #[test]
    fn a_broadcast_reaches_everybody_once() {
        let mut broadcast = Plan::default();
        let ring = Ring { ranks: 7, channels: 3, stride: 1, first: 0, iterations: 2, ..RING };
        Collective::Broadcast.add(&mut broadcast, "b", &ring, &mut Rng::new(1));
        assert_eq!(broadcast.check(7), Ok(()));
        assert_eq!(broadcast.messages.len() as u64, Collective::Broadcast.messages(&ring));
        for rank in 0..7 {
            let to = broadcast.messages.iter().filter(|m| m.dst == rank && !m.is_compute()).count();
            assert_eq!(to, if rank == 0 { 0 } else { 2 * 3 });
        }
        let waits = |then: u32| broadcast.edges.iter().filter(move |edge| edge.then == then);
        // The second repetition of the root waits for what it sent in the first: to two ranks, in three channels.
        let computes = (0..).zip(&broadcast.messages).filter(|(_, m)| m.is_compute());
        let root: Vec<u32> = computes.filter(|(_, m)| m.src == 0).map(|(id, _)| id).collect();
        assert_eq!(waits(root[0]).count(), 0);
        let sent: Vec<&Message> =
            waits(root[1]).filter(|edge| edge.acked).map(|edge| &broadcast.messages[edge.first as usize]).collect();
        assert!(sent.len() == 2 * 3 && sent.iter().all(|first| (first.src, first.iteration) == (0, 0)), "{sent:?}");
        // Who passes on has the data, and has computed.
        for (id, message) in (0..).zip(&broadcast.messages).filter(|(_, m)| m.src > 0 && !m.is_compute()) {
            let firsts: Vec<&Message> = waits(id).map(|edge| &broadcast.messages[edge.first as usize]).collect();
            assert!(firsts.len() == 2 && firsts.iter().all(|first| first.dst == message.src), "{firsts:?}");
            assert_eq!(firsts.iter().filter(|first| first.is_compute()).count(), 1);
        }
    }

    #[test]
    fn neighbours_and_halves_of_the_ring() {
        assert_eq!(plan(Collective::SendRecv).messages[0].bytes, 4096);
        assert_eq!(plan(Collective::AllGather).messages.len(), 2 * 3 * 4 + 4);
        assert_eq!(plan(Collective::ReduceScatter).groups[0].bus_bytes, 3 * 1024);
    }
}
