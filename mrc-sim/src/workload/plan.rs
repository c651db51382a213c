//! Messages and their dependencies as data: what a workload is before anything moves.

use serde::{Deserialize, Serialize};

/// A message of a plan, by position.
pub type MessageId = u32;

/// A group of messages that are reported together, by position.
pub type GroupId = u16;

/// One transfer from a host to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// Bytes; 0 of what only takes time, see [`Message::is_compute`].
    pub bytes: u32,
    /// Group it is reported in.
    pub group: GroupId,
    /// Iteration of its group, from 0: the step of a training run, the repetition of a collective.
    pub iteration: u32,
    /// Nanoseconds after the start of the run, or after the last message it waits for: computation.
    pub delay_ns: u64,
}

impl Message {
    /// Whether it stands for time that passes on a host: it has no byte, and is sent to nobody.
    pub const fn is_compute(&self) -> bool {
        self.bytes == 0 && self.src == self.dst
    }
}

/// `then` waits for `first`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    /// The message that must come first.
    pub first: MessageId,
    /// Whether the sender must have its completion; otherwise the receiver must have its bytes.
    pub acked: bool,
    /// The message that waits.
    pub then: MessageId,
}

/// Messages that belong together.
#[derive(Clone, PartialEq, Debug)]
pub struct Group {
    /// Name, from the scenario.
    pub name: String,
    /// Bytes that one iteration moves through the busiest host, from which collectives reckon their bandwidth; 0 for
    /// workloads without iterations.
    pub bus_bytes: u64,
    /// Iterations.
    pub iterations: u32,
    /// Computation before each iteration, which bandwidth does not count, in nanoseconds.
    pub compute_ns: u64,
    /// Whether its messages count in the figures of the whole run; those of a warm-up do not.
    pub measured: bool,
    /// The load of a random process, in the units that the scenario states.
    pub load: Option<Load>,
}

/// What a random process was to offer, and what its draws came to: sizes with a long tail need many messages to get near.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Load {
    /// The load that the scenario states.
    pub asked: f64,
    /// The load of the messages that count, over the time in which they begin.
    pub offered: f64,
}

impl Group {
    /// A group of messages without iterations.
    pub fn flows(name: &str) -> Self {
        Self { name: name.to_owned(), bus_bytes: 0, iterations: 1, compute_ns: 0, measured: true, load: None }
    }
}

/// How messages between two hosts share connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Connections {
    /// All share one.
    #[default]
    PerPair,
    /// So many, in turn.
    Count(u32),
    /// None waits for another: a message takes one that is idle, or a new one.
    PerMessage,
}

/// Two hosts that talk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pair {
    /// The one with the lower number.
    pub a: u32,
    /// The other.
    pub b: u32,
    /// Connections between them.
    pub connections: u32,
}

/// Why a plan cannot be built.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlanError {
    /// More than fits.
    #[error("{what}: {have} is above {most}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How much there is.
        have: u64,
        /// How much there may be.
        most: u64,
    },
    /// A host that does not exist, or sends to itself.
    #[error("message {index}: from host {src} to host {dst}, but hosts are 0 to {last} and do not send to themselves")]
    Host {
        /// Position of the message.
        index: usize,
        /// Its sender.
        src: u32,
        /// Its receiver.
        dst: u32,
        /// Last host.
        last: u32,
    },
    /// A message without a byte.
    #[error("message {index} from host {src} to host {dst} has no byte: give it at least 1")]
    Empty {
        /// Position of the message.
        index: usize,
        /// Its sender.
        src: u32,
        /// Its receiver.
        dst: u32,
    },
    /// A message longer than a transport takes.
    #[error(
        "message {index} from host {src} to host {dst} has more than {} bytes, the most: send several, or over more \
         ranks or channels",
        Plan::LONGEST
    )]
    Long {
        /// Position of the message.
        index: usize,
        /// Its sender.
        src: u32,
        /// Its receiver.
        dst: u32,
    },
    /// Messages that wait for each other.
    #[error("{count} messages wait for each other in a circle, message {index} among them: they would never start")]
    Circle {
        /// Messages that could never start.
        count: usize,
        /// The first of them.
        index: usize,
    },
}

impl PlanError {
    /// Position of the message that it is about, where it is about one.
    pub(crate) const fn message(&self) -> Option<usize> {
        match *self {
            Self::TooMany { .. } => None,
            Self::Host { index, .. }
            | Self::Empty { index, .. }
            | Self::Long { index, .. }
            | Self::Circle { index, .. } => Some(index),
        }
    }
}

/// All messages of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// The messages.
    pub messages: Vec<Message>,
    /// Who waits for whom.
    pub edges: Vec<Edge>,
    /// The groups that messages name.
    pub groups: Vec<Group>,
}

impl Plan {
    /// Most messages of a plan: a message's number has its place in a payload address.
    pub const MAX_MESSAGES: u64 = 1 << 27;

    /// Longest message, in bytes.
    pub const LONGEST: u32 = 1 << 31;

    /// Opens a group; messages name it by the number returned.
    pub fn group(&mut self, group: Group) -> GroupId {
        self.groups.push(group);
        (self.groups.len() - 1) as GroupId
    }

    /// Adds a message.
    pub fn push(&mut self, message: Message) -> MessageId {
        self.messages.push(message);
        (self.messages.len() - 1) as MessageId
    }

    /// `then` starts when the bytes of `first` are in their receiver's memory.
    pub fn after_delivery(&mut self, first: MessageId, then: MessageId) {
        self.edges.push(Edge { first, acked: false, then });
    }

    /// `then` starts when the sender of `first` has its completion.
    pub fn after_completion(&mut self, first: MessageId, then: MessageId) {
        self.edges.push(Edge { first, acked: true, then });
    }

    /// Bytes of all messages.
    pub fn bytes(&self) -> u64 {
        self.messages.iter().map(|message| u64::from(message.bytes)).sum()
    }

    /// The pairs of hosts that talk, lower number first, in order and each once.
    pub fn pairs(&self) -> Vec<(u32, u32)> {
        let pair = |m: &Message| (m.src.min(m.dst), m.src.max(m.dst));
        let mut pairs: Vec<_> = self.messages.iter().filter(|m| !m.is_compute()).map(pair).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// Most connections of a pair.
    pub const MAX_CONNECTIONS: u32 = 1024;

    /// The pairs of hosts that talk, in order, each with its connections. Of messages with connections of their own as many as
    /// can be open at once, if none takes longer than `longest_ns` says: one that is done leaves its connection to another.
    pub fn connections(&self, connections: Connections, longest_ns: &dyn Fn(&Message) -> u64) -> Vec<Pair> {
        let each = |count| self.pairs().into_iter().map(move |(a, b)| Pair { a, b, connections: count }).collect();
        match connections {
            Connections::PerPair => each(1),
            Connections::Count(count) => each(count),
            Connections::PerMessage => {
                let pair = |(a, b, most): (u32, u32, u32)| Pair { a, b, connections: most.min(Self::MAX_CONNECTIONS) };
                self.most_open(longest_ns).into_iter().map(pair).collect()
            }
        }
    }

    /// Checks that the plan can run on `hosts` hosts.
    ///
    /// # Errors
    /// The first message or edge that cannot.
    pub fn check(&self, hosts: u32) -> Result<(), PlanError> {
        let have = self.messages.len() as u64;
        if have > Self::MAX_MESSAGES {
            return Err(PlanError::TooMany { what: "messages", have, most: Self::MAX_MESSAGES });
        }
        for (index, &message) in self.messages.iter().enumerate() {
            let Message { src, dst, bytes, .. } = message;
            if message.is_compute() && src < hosts {
                continue;
            }
            if src >= hosts || dst >= hosts || src == dst {
                return Err(PlanError::Host { index, src, dst, last: hosts.saturating_sub(1) });
            }
            if bytes == 0 {
                return Err(PlanError::Empty { index, src, dst });
            }
            if bytes > Self::LONGEST {
                return Err(PlanError::Long { index, src, dst });
            }
        }
        self.check_order()
    }

    /// Most messages that one connection ever has to hold at once in one direction, as far as the plan tells.
    pub fn most_queued(&self, connections: Connections) -> u32 {
        let mut ways: Vec<_> = self.messages.iter().filter(|m| !m.is_compute()).map(|m| (m.src, m.dst)).collect();
        ways.sort_unstable();
        let most = ways.chunk_by(|a, b| a == b).map(<[_]>::len).max().unwrap_or(0) as u32;
        match connections {
            // A message takes an idle one.
            Connections::PerMessage => 1,
            _ => most,
        }
    }

    /// Packets of `mtu` bytes that one host ever sends to another over a connection, at most: no queue pair has more in flight.
    pub fn most_packets(&self, connections: Connections, mtu: u32, qps: u32) -> u64 {
        // Each queue pair of a connection has a piece of whole packets.
        let packets = |bytes: u32| u64::from(bytes.div_ceil(mtu.max(1)).div_ceil(qps.max(1)));
        if connections == Connections::PerMessage {
            return self.messages.iter().map(|message| packets(message.bytes)).max().unwrap_or(0);
        }
        let sent = self.messages.iter().filter(|m| !m.is_compute()).map(|m| ((m.src, m.dst), packets(m.bytes)));
        let mut ways: Vec<_> = sent.collect();
        ways.sort_unstable();
        let of_way = |way: &[(_, u64)]| way.iter().map(|(_, packets)| packets).sum();
        ways.chunk_by(|a, b| a.0 == b.0).map(of_way).max().unwrap_or(0)
    }

    /// Whether every message waits only for what happens in its sender's part of the fabric, see [`crate::Partition`].
    pub fn is_divisible(&self, part_of: impl Fn(u32) -> usize) -> bool {
        self.edges.iter().all(|edge| {
            let (first, then) = (&self.messages[edge.first as usize], &self.messages[edge.then as usize]);
            part_of(if edge.acked { first.src } else { first.dst }) == part_of(then.src)
        })
    }

    /// Walks through the messages, none before those that it waits for; `visit` gets those that wait for it as well. Of each message
    /// what it still waits for: more than nothing only in a circle.
    pub(super) fn walk(&self, mut visit: impl FnMut(usize, &[(bool, MessageId)])) -> Vec<u32> {
        let Successors { first, edges } = Successors::of(self);
        let mut waits = vec![0u32; self.messages.len()];
        self.edges.iter().for_each(|edge| waits[edge.then as usize] += 1);
        let mut free: Vec<usize> = (0..waits.len()).filter(|&id| waits[id] == 0).collect();
        while let Some(id) = free.pop() {
            let behind = &edges[first[id] as usize..first[id + 1] as usize];
            visit(id, behind);
            for &(_, then) in behind {
                waits[then as usize] -= 1;
                if waits[then as usize] == 0 {
                    free.push(then as usize);
                }
            }
        }
        waits
    }

    /// Whether the edges let all messages come up.
    fn check_order(&self) -> Result<(), PlanError> {
        let mut done = 0;
        let waits = self.walk(|_, _| done += 1);
        match waits.iter().position(|&count| count > 0) {
            Some(index) => Err(PlanError::Circle { count: waits.len() - done, index }),
            None => Ok(()),
        }
    }
}

/// The edges by the message they start from: those of message `m` are `edges[first[m]..first[m + 1]]`, as (acked, then).
pub(super) struct Successors {
    pub(super) first: Vec<u32>,
    pub(super) edges: Vec<(bool, MessageId)>,
}

impl Successors {
    pub(super) fn of(plan: &Plan) -> Self {
        let mut first = vec![0u32; plan.messages.len() + 1];
        plan.edges.iter().for_each(|edge| first[edge.first as usize + 1] += 1);
        for at in 1..first.len() {
            first[at] += first[at - 1];
        }
        let mut next = first.clone();
        let mut edges = vec![(false, 0); plan.edges.len()];
        for edge in &plan.edges {
            let at = &mut next[edge.first as usize];
            edges[*at as usize] = (edge.acked, edge.then);
            *at += 1;
        }
        Self { first, edges }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(src: u32, dst: u32) -> Message {
        Message { src, dst, bytes: 1, group: 0, iteration: 0, delay_ns: 0 }
    }

    #[test]
    fn what_cannot_run_is_refused() {
        let mut plan = Plan::default();
        plan.push(message(0, 1));
        plan.push(message(1, 0));
        assert_eq!(plan.check(2), Ok(()));
        assert!(matches!(plan.check(1), Err(PlanError::Host { index: 0, .. })));
        plan.after_delivery(0, 1);
        assert_eq!(plan.check(2), Ok(()));
        plan.after_completion(1, 0);
        assert_eq!(plan.check(2), Err(PlanError::Circle { count: 2, index: 0 }));
        let empty = Message { bytes: 0, ..message(0, 1) };
        assert!(matches!(
            Plan { messages: vec![empty], ..Plan::default() }.check(2),
            Err(PlanError::Empty { index: 0, .. })
        ));
        let long = Message { bytes: Plan::LONGEST + 1, ..message(0, 1) };
        assert!(matches!(
            Plan { messages: vec![long], ..Plan::default() }.check(2),
            Err(PlanError::Long { index: 0, .. })
        ));
        assert!(matches!(
            Plan { messages: vec![message(1, 1)], ..Plan::default() }.check(2),
            Err(PlanError::Host { .. })
        ));
    }

    #[test]
    fn a_connection_holds_at_most_what_its_pair_sends() {
        let plan =
            Plan { messages: vec![message(2, 1), message(1, 2), message(2, 1), message(0, 5)], ..Plan::default() };
        assert_eq!(plan.most_queued(Connections::PerPair), 2);
        assert_eq!(plan.most_queued(Connections::Count(7)), 2);
        assert_eq!(plan.most_queued(Connections::PerMessage), 1);
        assert_eq!(Plan::default().most_queued(Connections::PerPair), 0);
        let packets = |connections| plan.most_packets(connections, 1, 1);
        assert_eq!((packets(Connections::PerPair), packets(Connections::PerMessage)), (2, 1));
    }

    #[test]
    fn pairs_are_listed_once() {
        let plan = Plan { messages: vec![message(2, 1), message(1, 2), message(0, 5)], ..Plan::default() };
        assert_eq!(plan.pairs(), [(0, 5), (1, 2)]);
    }
}
