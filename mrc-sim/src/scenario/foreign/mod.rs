//! Traces that other tools write: GOAL (LogGOPSim's text), Chakra execution traces, htsim's connection matrices. Owns what the
//! first two have in common: operations of ranks that wait for each other, and how they become messages.

mod chakra;
mod goal;
mod htsim;
mod matching;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt;
use std::path::Path;

use super::memory::{self, PlanSize};
use crate::workload::{GroupId, Message, MessageId, Plan};

pub(super) use htsim::topology;

/// Messages of a trace between two looks at the memory that is left: a collective of many ranks is one operation of each.
const CHECKED: usize = 1 << 16;

/// A trace that cannot be read, and where.
pub(super) type Bad = String;

/// What a rank does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    /// Nothing on the network, for so many nanoseconds.
    Compute(u64),
    Send {
        to: u32,
        bytes: u64,
        tag: u64,
    },
    /// `None`: from any rank, with any tag.
    Receive {
        from: Option<u32>,
        tag: Option<u64>,
    },
    /// With all other ranks, or with those of a group that has a number above 0.
    Together {
        pattern: Pattern,
        bytes: u64,
        group: u32,
    },
}

/// Collective operations of execution traces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pattern {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    /// Nobody goes on before all have come.
    Barrier,
    /// Down a binary tree, and up one; the root is a place among the members.
    Broadcast {
        root: u32,
    },
    Reduce {
        root: u32,
    },
    /// A part of each member, to the root and from it.
    Gather {
        root: u32,
    },
    Scatter {
        root: u32,
    },
}

/// An operation, and what it waits for: positions in the list of its rank.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Op {
    what: What,
    /// They must have ended.
    after: Vec<usize>,
    /// They must have begun.
    beside: Vec<usize>,
    /// Where it stands in its file.
    at: Origin,
}

/// Where an operation stands in the file of its rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Origin {
    Line(usize),
    Node(u64),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Node(node) => write!(f, "node {node}"),
        }
    }
}

/// Where ranks are, and how much of a trace there is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Scale {
    /// Host of rank 0, and hosts from one to the next.
    pub(super) first: u32,
    pub(super) stride: u32,
    pub(super) ranks_per_host: u32,
    pub(super) bytes: f64,
    pub(super) time: f64,
}

impl Scale {
    pub(super) fn host(&self, rank: u32) -> u32 {
        (rank / self.ranks_per_host).saturating_mul(self.stride).saturating_add(self.first)
    }

    /// The size of a message; what is empty, or becomes so by the scale, has a byte.
    pub(super) fn bytes_of(&self, bytes: u64) -> Result<u32, Bad> {
        let scaled = (bytes as f64 * self.bytes) as u64;
        if scaled > u64::from(Plan::LONGEST) {
            return Err(format!("{scaled} bytes: a message has at most {}", Plan::LONGEST));
        }
        Ok(scaled.max(1) as u32)
    }

    pub(super) fn ns_of(&self, ns: u64) -> u64 {
        (ns as f64 * self.time).min(1e15) as u64
    }
}

/// Memory that a trace takes until it is a plan, for each byte of its text.
const TEXT_MEMORY: u64 = 8;

/// The text of a trace or a topology.
///
/// # Errors
/// What the system says, in which line something is no text, or that it has no room.
pub(super) fn text(path: &Path) -> Result<String, Bad> {
    let need = std::fs::metadata(path).map_or(0, |file| file.len()).saturating_mul(TEXT_MEMORY);
    let have = memory::available();
    if need > have {
        return Err(format!("so long a text needs {} MiB, and {} MiB are free", need >> 20, have >> 20));
    }
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        format!("line {line}: no UTF-8 text")
    })
}

/// Most characters of a file that an error repeats.
const LONGEST_EXCERPT: usize = 80;

/// What an error repeats of a file's text: its beginning, where the text is long.
pub(super) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(LONGEST_EXCERPT) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The error of a line, counted from 0, and the reason.
fn of_line(nth: usize, line: &str, why: &str) -> Bad {
    format!("line {}: `{}`: {why}", nth + 1, excerpt(line))
}

/// Reads GOAL text into a plan.
pub(super) fn goal(text: &str, group: GroupId, scale: &Scale, plan: &mut Plan) -> Result<(), Bad> {
    Weaver::new(&in_order(goal::read(text)?)?, group, scale, plan).weave()
}

/// Reads the Chakra traces `NAME.0.et`, `NAME.1.et` and so on into a plan.
pub(super) fn chakra(name: &Path, group: GroupId, scale: &Scale, plan: &mut Plan) -> Result<(), Bad> {
    Weaver::new(&in_order(chakra::read(name)?)?, group, scale, plan).weave()
}

/// Reads a connection matrix of htsim into a plan.
pub(super) fn connections(text: &str, group: GroupId, scale: &Scale, plan: &mut Plan) -> Result<(), Bad> {
    htsim::connections(text, group, scale, plan)
}

/// A message, and whether its sender's completion counts, or else its arrival.
type Event = (MessageId, bool);

/// Turns the operations of all ranks into messages and their order.
struct Weaver<'a> {
    /// Of each rank, each operation behind those that it waits for.
    ranks: &'a [Vec<Op>],
    group: GroupId,
    scale: &'a Scale,
    plan: &'a mut Plan,
    /// By rank and operation: what it begins (sends, computations), and what ends it.
    begins: Vec<Vec<Vec<MessageId>>>,
    ends: Vec<Vec<Vec<Event>>>,
}

impl<'a> Weaver<'a> {
    fn new(ranks: &'a [Vec<Op>], group: GroupId, scale: &'a Scale, plan: &'a mut Plan) -> Self {
        let of = |ops: &Vec<Op>| ops.len();
        Self {
            begins: ranks.iter().map(|ops| vec![Vec::new(); of(ops)]).collect(),
            ends: ranks.iter().map(|ops| vec![Vec::new(); of(ops)]).collect(),
            ranks,
            group,
            scale,
            plan,
        }
    }

    fn message(&mut self, at: Origin, from: u32, to: u32, bytes: u64) -> Result<MessageId, Bad> {
        let (src, dst) = (self.scale.host(from), self.scale.host(to));
        let of = |why| format!("{at}: rank {from} to rank {to}: {why}");
        // What stays within a host needs no network.
        let bytes = if src == dst { 0 } else { self.scale.bytes_of(bytes).map_err(of)? };
        if self.plan.messages.len().is_multiple_of(CHECKED) {
            PlanSize::of(self.plan).fits_beside(self.plan)?;
        }
        Ok(self.plan.push(Message { src, dst, bytes, group: self.group, iteration: 0, delay_ns: 0 }))
    }

    fn compute(&mut self, rank: u32, ns: u64) -> MessageId {
        let (host, delay_ns) = (self.scale.host(rank), self.scale.ns_of(ns));
        self.plan.push(Message { src: host, dst: host, bytes: 0, group: self.group, iteration: 0, delay_ns })
    }

    fn weave(mut self) -> Result<(), Bad> {
        let mut sent: BTreeMap<(u32, u32, u64), VecDeque<MessageId>> = BTreeMap::new();
        // By group and rank; in the group of all, number 0, every rank takes part.
        let everybody = (0..self.ranks.len() as u32).map(|rank| (rank, Vec::new())).collect();
        let mut together: BTreeMap<u32, BTreeMap<u32, Vec<usize>>> = BTreeMap::from([(0, everybody)]);
        for (rank, ops) in (0u32..).zip(self.ranks) {
            for (nth, op) in ops.iter().enumerate() {
                let id = match op.what {
                    What::Compute(ns) => self.compute(rank, ns),
                    What::Send { to, bytes, tag } => {
                        if to as usize >= self.ranks.len() {
                            return Err(format!(
                                "{}: rank {rank} sends to rank {to}: ranks are 0 to {}",
                                op.at,
                                self.ranks.len() - 1
                            ));
                        }
                        let id = self.message(op.at, rank, to, bytes)?;
                        sent.entry((rank, to, tag)).or_default().push_back(id);
                        id
                    }
                    What::Receive { .. } => continue,
                    What::Together { group, .. } => {
                        together.entry(group).or_default().entry(rank).or_default().push(nth);
                        continue;
                    }
                };
                self.begins[rank as usize][nth].push(id);
                self.ends[rank as usize][nth].push((id, true));
            }
        }
        self.receives(sent)?;
        together.values().try_for_each(|members| self.collectives(members))?;
        for rank in 0..self.ranks.len() {
            let starts = self.starts(rank);
            for (nth, before) in starts.into_iter().enumerate() {
                let begins = std::mem::take(&mut self.begins[rank][nth]);
                // As one event where many messages wait for it.
                let before = if begins.len() > 1 { self.all_of(rank, before) } else { before };
                for id in begins {
                    self.after(&before, id);
                }
            }
        }
        Ok(())
    }

    /// Finds the message of each receive, which ends with it: in the order of the trace where all receives say from whom and with
    /// which tag; otherwise as [`matching::matches`] says.
    fn receives(&mut self, mut sent: BTreeMap<(u32, u32, u64), VecDeque<MessageId>>) -> Result<(), Bad> {
        let any = |op: &Op| matches!(op.what, What::Receive { from: None, .. } | What::Receive { tag: None, .. });
        if self.ranks.iter().flatten().any(any) {
            for ((rank, nth), (sender, send)) in matching::matches(self.ranks)? {
                let id = self.begins[sender as usize][send][0];
                self.ends[rank as usize][nth].push((id, false));
            }
            return Ok(());
        }
        for (rank, ops) in (0u32..).zip(self.ranks) {
            for (nth, op) in ops.iter().enumerate() {
                if let What::Receive { from: Some(from), tag: Some(tag) } = op.what {
                    let id = sent.get_mut(&(from, rank, tag)).and_then(VecDeque::pop_front);
                    let id = id.ok_or_else(|| matching::unsent(op.at, rank, Some(from), Some(tag)))?;
                    self.ends[rank as usize][nth].push((id, false));
                }
            }
        }
        Ok(())
    }

    /// What each operation of a rank waits for. Receives and collectives get their ends here.
    fn starts(&mut self, rank: usize) -> Vec<Vec<Event>> {
        let ops = &self.ranks[rank];
        let mut starts: Vec<Vec<Event>> = vec![Vec::new(); ops.len()];
        for nth in 0..ops.len() {
            let ends = ops[nth].after.iter().flat_map(|&other| &self.ends[rank][other]);
            let began = ops[nth].beside.iter().flat_map(|&other| &starts[other]);
            let before = once(ends.chain(began).copied());
            if matches!(ops[nth].what, What::Receive { .. } | What::Together { .. }) {
                let arrivals = std::mem::take(&mut self.ends[rank][nth]);
                self.ends[rank][nth] = self.all_of(rank, once(before.iter().copied().chain(arrivals)));
            }
            starts[nth] = before;
        }
        starts
    }

    /// The same as one event: a computation without duration waits for them. Otherwise what comes after a chain of receives would
    /// have to wait for each of them.
    fn all_of(&mut self, rank: usize, events: Vec<Event>) -> Vec<Event> {
        if events.len() < 2 {
            return events;
        }
        let id = self.compute(rank as u32, 0);
        self.after(&events, id);
        vec![(id, true)]
    }

    fn after(&mut self, events: &[Event], then: MessageId) {
        for &(first, acked) in events {
            if acked {
                self.plan.after_completion(first, then);
            } else {
                self.plan.after_delivery(first, then);
            }
        }
    }

    /// The n-th collective operation of every rank of a group is the same one.
    fn collectives(&mut self, members: &BTreeMap<u32, Vec<usize>>) -> Result<(), Bad> {
        let count = members.values().map(Vec::len).max().unwrap_or(0);
        for turn in 0..count {
            let mut what = None;
            for (&rank, ops) in members {
                let Some(&nth) = ops.get(turn) else {
                    let more = members.iter().find_map(|(&other, ops)| Some((other, *ops.get(turn)?)));
                    let more = more.map(|(other, nth)| (other, self.ranks[other as usize][nth].at));
                    let of = more.map_or(String::new(), |(other, at)| format!("{at} of rank {other}: "));
                    return Err(format!("{of}rank {rank} has {} collective operations, others {count}", ops.len()));
                };
                let What::Together { pattern, bytes, .. } = self.ranks[rank as usize][nth].what else { continue };
                let (first, same, most) = what.get_or_insert((rank, pattern, bytes));
                // Of a scatter only the root has an input.
                let alike = *most == bytes || matches!(pattern, Pattern::Scatter { .. });
                if *same != pattern || !alike {
                    let at = self.ranks[rank as usize][nth].at;
                    return Err(format!(
                        "{at}: collective operation {turn} of rank {rank} is {pattern:?} of {bytes} bytes, that of rank {first} \
                         {same:?} of {most} bytes"
                    ));
                }
                *most = bytes.max(*most);
            }
            if let Some((_, pattern, bytes)) = what {
                let ops: Vec<(u32, usize)> = members.iter().map(|(&rank, ops)| (rank, ops[turn])).collect();
                self.collective(pattern, bytes, &ops)?;
            }
        }
        Ok(())
    }

    /// Down a binary tree of these ranks and operations, or up one.
    fn tree(&mut self, down: bool, root: u32, bytes: u64, ops: &[(u32, usize)]) -> Result<(), Bad> {
        let root = place(root, ops.len())?;
        // By distance from the root: the message that brought the vector, or those that did from below.
        let mut held: Vec<Vec<MessageId>> = vec![Vec::new(); ops.len()];
        let members = 1..ops.len();
        let order: Vec<usize> = if down { members.collect() } else { members.rev().collect() };
        for child in order {
            let parent = (child - 1) / 2;
            let (from, to) = if down { (parent, child) } else { (child, parent) };
            let at = |member: usize| (member + root) % ops.len();
            let id = self.step(ops, (at(from), at(to)), bytes)?;
            for &first in &held[from] {
                self.plan.after_delivery(first, id);
            }
            held[to].push(id);
        }
        Ok(())
    }

    /// A message of a collective between two of its members, which waits for its sender's operation to begin; the operations of both
    /// end with it.
    fn step(&mut self, ops: &[(u32, usize)], (from, to): (usize, usize), bytes: u64) -> Result<MessageId, Bad> {
        let ((rank, nth), (peer, nth_of_peer)) = (ops[from], ops[to]);
        let at = self.ranks[rank as usize][nth].at;
        let id = self.message(at, rank, peer, bytes)?;
        self.begins[rank as usize][nth].push(id);
        self.ends[rank as usize][nth].push((id, true));
        self.ends[peer as usize][nth_of_peer].push((id, false));
        Ok(id)
    }

    /// As a ring, or all to all, of these ranks and operations; what a rank begins with waits for its operation's own conditions.
    fn collective(&mut self, pattern: Pattern, bytes: u64, ops: &[(u32, usize)]) -> Result<(), Bad> {
        let ranks = ops.len();
        // The size is what a rank brings along: its own part where the others get it, else the whole vector.
        let part = match pattern {
            Pattern::AllGather | Pattern::Gather { .. } => bytes.max(1),
            _ => bytes.div_ceil(ranks as u64).max(1),
        };
        match pattern {
            Pattern::Broadcast { root } => return self.tree(true, root, bytes.max(1), ops),
            Pattern::Reduce { root } => return self.tree(false, root, bytes.max(1), ops),
            Pattern::Gather { root } | Pattern::Scatter { root } => {
                let root = place(root, ranks)?;
                for other in (0..ranks).filter(|&other| other != root) {
                    let ways = if matches!(pattern, Pattern::Gather { .. }) { (other, root) } else { (root, other) };
                    self.step(ops, ways, part)?;
                }
                return Ok(());
            }
            _ => {}
        }
        if matches!(pattern, Pattern::AllToAll | Pattern::Barrier) {
            let part = if pattern == Pattern::Barrier { 1 } else { part };
            for (at, distance) in (0..ranks).flat_map(|at| (1..ranks).map(move |distance| (at, distance))) {
                let ((rank, nth), (to, nth_of_to)) = (ops[at], ops[(at + distance) % ranks]);
                let id = self.message(self.ranks[rank as usize][nth].at, rank, to, part)?;
                self.begins[rank as usize][nth].push(id);
                self.ends[to as usize][nth_of_to].push((id, false));
            }
            return Ok(());
        }
        let steps = if pattern == Pattern::AllReduce { 2 * (ranks - 1) } else { ranks - 1 };
        let mut held: Vec<Option<MessageId>> = vec![None; ranks];
        for _ in 0..steps {
            let mut sent = vec![None; ranks];
            for (at, &(rank, nth)) in ops.iter().enumerate() {
                let to = (at + 1) % ranks;
                let id = self.message(self.ranks[rank as usize][nth].at, rank, ops[to].0, part)?;
                // Nobody passes on what it received before it takes part itself.
                self.begins[rank as usize][nth].push(id);
                held[at].iter().for_each(|&first| self.plan.after_delivery(first, id));
                sent[to] = Some(id);
            }
            held = sent;
        }
        for (&(rank, nth), last) in ops.iter().zip(held) {
            self.ends[rank as usize][nth].extend(last.map(|id| (id, false)));
        }
        Ok(())
    }
}

/// The place of a root among the members.
fn place(root: u32, members: usize) -> Result<usize, Bad> {
    let root = root as usize;
    if root >= members {
        return Err(format!("root_rank {root} of a collective of {members} ranks: 0 to {}", members - 1));
    }
    Ok(root)
}

/// Each of these once, in order.
fn once(events: impl Iterator<Item = Event>) -> Vec<Event> {
    let mut events: Vec<Event> = events.collect();
    events.sort_unstable();
    events.dedup();
    events
}

/// The operations of all ranks, each behind those that it waits for, otherwise as in the file: in this order a rank sends, receives and
/// takes part in collectives.
///
/// # Errors
/// Where some wait for each other in a circle: the first one that never starts.
fn in_order(ranks: Vec<Vec<Op>>) -> Result<Vec<Vec<Op>>, Bad> {
    let ordered = (0u32..).zip(ranks).map(|(rank, ops)| {
        let order = order(&ops).map_err(|stuck| {
            let at = ops[stuck].at;
            format!("{at}: operations of rank {rank} wait for each other in a circle: this one would never start")
        })?;
        let mut places = vec![0; ops.len()];
        order.iter().enumerate().for_each(|(place, &nth)| places[nth] = place);
        let moved = |others: &[usize]| others.iter().map(|&other| places[other]).collect();
        Ok(order
            .iter()
            .map(|&nth| Op { after: moved(&ops[nth].after), beside: moved(&ops[nth].beside), ..ops[nth] })
            .collect())
    });
    ordered.collect()
}

/// Positions of operations, each behind those that it waits for, of several that could follow the first one.
///
/// # Errors
/// The first operation of a circle.
fn order(ops: &[Op]) -> Result<Vec<usize>, usize> {
    let mut waits: Vec<usize> = ops.iter().map(|op| op.after.len() + op.beside.len()).collect();
    let mut behind = vec![Vec::new(); ops.len()];
    for (nth, op) in ops.iter().enumerate() {
        op.after.iter().chain(&op.beside).for_each(|&other| behind[other].push(nth));
    }
    let mut ready: BinaryHeap<Reverse<usize>> = (0..ops.len()).filter(|&nth| waits[nth] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(ops.len());
    while let Some(Reverse(nth)) = ready.pop() {
        order.push(nth);
        for &then in &behind[nth] {
            waits[then] -= 1;
            if waits[then] == 0 {
                ready.push(Reverse(then));
            }
        }
    }
    match waits.iter().position(|&waits| waits > 0) {
        Some(stuck) => Err(stuck),
        None => Ok(order),
    }
}
