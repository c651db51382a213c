//! Which message a receive takes in a trace that has receives from any rank or of any tag: it depends on who sends first. The
//! operations run once, as on a network that takes no time; that order is the trace's.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::{Bad, Op, Origin, What};

/// An operation: rank, and place in the rank.
pub(super) type Place = (u32, usize);

/// By receive, in the order of ranks and places: the send that it takes.
///
/// Operations begin when what they wait for allows it, of several at one time those of lower ranks first. A message is there when its
/// send begins. It goes to the first receive that waits and takes it; a receive takes the first such message.
pub(super) fn matches(ranks: &[Vec<Op>]) -> Result<Vec<(Place, Place)>, Bad> {
    let mut run = Run::new(ranks);
    while let Some(Reverse((now, (rank, nth), ends))) = run.turns.pop() {
        if ends {
            run.end(now, (rank, nth));
        } else {
            run.begin(now, (rank, nth));
        }
    }
    run.taken.sort_unstable();
    run.stuck().map_or(Ok(run.taken), Err)
}

/// The error of a receive that no message is for.
pub(super) fn unsent(at: Origin, rank: u32, from: Option<u32>, tag: Option<u64>) -> Bad {
    let from = from.map_or("any rank".to_owned(), |from| format!("rank {from}"));
    let tag = tag.map_or("any tag".to_owned(), |tag| format!("tag {tag}"));
    format!("{at}: rank {rank} receives from {from} with {tag} what nobody sends")
}

/// A receive without a message: its place, from whom, with which tag.
type Waiting = (usize, Option<u32>, Option<u64>);

/// A send that never began: its rank, its tag, its place in the rank.
type Held = (u32, u64, usize);

struct Run<'a> {
    ranks: &'a [Vec<Op>],
    /// Beginnings and, behind those of the same instant and operation, ends.
    turns: BinaryHeap<Reverse<(u64, Place, bool)>>,
    /// By rank and operation: what it still waits for; who waits for its end, and for its beginning.
    waits: Vec<Vec<usize>>,
    after: Vec<Vec<Vec<usize>>>,
    beside: Vec<Vec<Vec<usize>>>,
    /// By rank: receives without a message, and messages that no receive has taken (sender, tag, send).
    waiting: Vec<VecDeque<Waiting>>,
    arrived: Vec<VecDeque<(u32, u64, usize)>>,
    taken: Vec<(Place, Place)>,
}

impl<'a> Run<'a> {
    fn new(ranks: &'a [Vec<Op>]) -> Self {
        let lists = || ranks.iter().map(|ops| vec![Vec::new(); ops.len()]).collect::<Vec<_>>();
        let (mut after, mut beside, mut turns) = (lists(), lists(), BinaryHeap::new());
        let mut waits = Vec::new();
        for (rank, ops) in ranks.iter().enumerate() {
            for (nth, op) in ops.iter().enumerate() {
                op.after.iter().for_each(|&other| after[rank][other].push(nth));
                op.beside.iter().for_each(|&other| beside[rank][other].push(nth));
                if op.after.is_empty() && op.beside.is_empty() {
                    turns.push(Reverse((0, (rank as u32, nth), false)));
                }
            }
            waits.push(ops.iter().map(|op| op.after.len() + op.beside.len()).collect());
        }
        Self {
            ranks,
            turns,
            waits,
            after,
            beside,
            waiting: vec![VecDeque::new(); ranks.len()],
            arrived: vec![VecDeque::new(); ranks.len()],
            taken: Vec::new(),
        }
    }

    fn begin(&mut self, now: u64, place: Place) {
        let (rank, nth) = place;
        let begun = std::mem::take(&mut self.beside[rank as usize][nth]);
        self.release(now, rank, &begun);
        match self.ranks[rank as usize][nth].what {
            What::Compute(ns) => self.turns.push(Reverse((now.saturating_add(ns), place, true))),
            What::Together { .. } => self.turns.push(Reverse((now, place, true))),
            What::Send { to, tag, .. } => {
                self.turns.push(Reverse((now, place, true)));
                let Some(waiting) = self.waiting.get_mut(to as usize) else { return };
                let takes = waiting.iter().position(|&(_, from, wanted)| fits(from, wanted, rank, tag));
                match takes.and_then(|at| waiting.remove(at)) {
                    Some((receive, ..)) => self.take(now, (to, receive), place),
                    None => self.arrived[to as usize].push_back((rank, tag, nth)),
                }
            }
            What::Receive { from, tag } => {
                let arrived = &mut self.arrived[rank as usize];
                let there = arrived.iter().position(|&(sender, sent, _)| fits(from, tag, sender, sent));
                match there.and_then(|at| arrived.remove(at)) {
                    Some((sender, _, send)) => self.take(now, place, (sender, send)),
                    None => self.waiting[rank as usize].push_back((nth, from, tag)),
                }
            }
        }
    }

    fn take(&mut self, now: u64, receive: Place, send: Place) {
        self.taken.push((receive, send));
        self.turns.push(Reverse((now, receive, true)));
    }

    /// Why receives are left without a message, if any are: too few messages are sent to them, or all of these wait for other
    /// operations.
    fn stuck(&self) -> Option<Bad> {
        // By receiver: sends that never began.
        let mut held: Vec<Vec<Held>> = vec![Vec::new(); self.ranks.len()];
        for (rank, ops) in (0u32..).zip(self.ranks) {
            for (nth, op) in ops.iter().enumerate().filter(|&(nth, _)| self.waits[rank as usize][nth] > 0) {
                if let What::Send { to, tag, .. } = op.what
                    && let Some(held) = held.get_mut(to as usize)
                {
                    held.push((rank, tag, nth));
                }
            }
        }
        let at = |(rank, nth): Place| self.ranks[rank as usize][nth].at;
        let mut circle = None;
        for ((rank, waiting), held) in (0u32..).zip(&self.waiting).zip(&held) {
            let sends = match one_each(waiting, held) {
                Ok(sends) => sends,
                Err((nth, from, tag)) => return Some(unsent(at((rank, nth)), rank, from, tag)),
            };
            if let (Some(&(receive, ..)), Some(&(sender, _, send))) = (waiting.front(), sends.first()) {
                circle.get_or_insert(((rank, receive), (sender, send)));
            }
        }
        let ((rank, receive), (sender, send)) = circle?;
        Some(format!(
            "{}: rank {rank} receives what {} of rank {sender} sends, and operations of these ranks wait for each other in a circle: \
             this one would never end",
            at((rank, receive)),
            at((sender, send))
        ))
    }

    fn end(&mut self, now: u64, (rank, nth): Place) {
        let ended = std::mem::take(&mut self.after[rank as usize][nth]);
        self.release(now, rank, &ended);
    }

    fn release(&mut self, now: u64, rank: u32, ops: &[usize]) {
        for &nth in ops {
            let waits = &mut self.waits[rank as usize][nth];
            *waits -= 1;
            if *waits == 0 {
                self.turns.push(Reverse((now, (rank, nth), false)));
            }
        }
    }
}

/// For each receive of a rank a send of its own (a matching of the two, by augmenting paths).
///
/// # Errors
/// The first receive for which no send is left, however those before it share the sends.
fn one_each(waiting: &VecDeque<Waiting>, held: &[Held]) -> Result<Vec<Held>, Waiting> {
    // By send: the receive that has it. By receive: its send.
    let mut owner: Vec<Option<usize>> = vec![None; held.len()];
    let mut gets: Vec<usize> = Vec::with_capacity(waiting.len());
    for (new, &receive) in waiting.iter().enumerate() {
        // By send: the receive that would take it. Receives whose sends others would take look for another one in turn.
        let mut taker: Vec<Option<usize>> = vec![None; held.len()];
        let mut looking = VecDeque::from([new]);
        let mut free = None;
        while let Some(at) = looking.pop_front().filter(|_| free.is_none()) {
            let (_, from, tag) = waiting[at];
            for (send, &(sender, sent, _)) in held.iter().enumerate() {
                if taker[send].is_some() || !fits(from, tag, sender, sent) {
                    continue;
                }
                taker[send] = Some(at);
                let Some(other) = owner[send] else {
                    free = Some(send);
                    break;
                };
                looking.push_back(other);
            }
        }
        let mut send = free.ok_or(receive)?;
        gets.push(send);
        while let Some(at) = taker[send] {
            owner[send] = Some(at);
            let before = std::mem::replace(&mut gets[at], send);
            if at == new {
                break;
            }
            send = before;
        }
    }
    Ok(gets.into_iter().map(|send| held[send]).collect())
}

/// Whether a receive from these, `None` for any, takes a message of this sender with this tag.
fn fits(from: Option<u32>, wanted: Option<u64>, sender: u32, tag: u64) -> bool {
    from.is_none_or(|from| from == sender) && wanted.is_none_or(|wanted| wanted == tag)
}
