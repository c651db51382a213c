//! Which message a receive takes in a trace that has receives from any rank or of any tag: it depends on who sends first. The
//! operations run once, as on a network that takes no time; that order is the trace's.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

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

/// What a receive asks for: from whom, with which tag; `None` for any.
type Wanted = (Option<u32>, Option<u64>);

/// What receives may ask for that take a message of this sender with this tag.
fn wanted(sender: u32, tag: u64) -> [Wanted; 4] {
    [(Some(sender), Some(tag)), (Some(sender), None), (None, Some(tag)), (None, None)]
}

/// A receive without a message: its place, and what it asks for.
type Waiting = (usize, Wanted);

/// A send that never began: its rank, its tag, its place in the rank.
type Held = (u32, u64, usize);

/// Receives of a rank that wait, by what they ask for; with the turn in which each one began.
#[derive(Clone, Default)]
struct Receives {
    turns: usize,
    by: BTreeMap<Wanted, VecDeque<(usize, usize)>>,
}

impl Receives {
    fn push(&mut self, nth: usize, wanted: Wanted) {
        self.turns += 1;
        self.by.entry(wanted).or_default().push_back((self.turns, nth));
    }

    /// Takes out the first one that takes a message of this sender with this tag.
    fn take(&mut self, sender: u32, tag: u64) -> Option<usize> {
        let first = |wanted: Wanted| Some((*self.by.get(&wanted)?.front()?, wanted));
        let (_, wanted) = wanted(sender, tag).into_iter().filter_map(first).min()?;
        self.by.get_mut(&wanted)?.pop_front().map(|(_, nth)| nth)
    }

    /// Those that are left, first come first.
    fn in_order(&self) -> Vec<Waiting> {
        let each = |(&wanted, of): (&Wanted, &VecDeque<(usize, usize)>)| {
            of.iter().map(|&(turn, nth)| (turn, (nth, wanted))).collect::<Vec<_>>()
        };
        let mut all: Vec<(usize, Waiting)> = self.by.iter().flat_map(each).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, waiting)| waiting).collect()
    }
}

/// Messages to a rank that no receive has taken.
#[derive(Clone, Default)]
struct Sends {
    /// Sender and send of each message; `None` of those that are taken.
    all: Vec<Option<(u32, usize)>>,
    /// Those that fit what a receive may ask for, first come first, with some that are taken.
    by: BTreeMap<Wanted, VecDeque<usize>>,
}

impl Sends {
    fn push(&mut self, sender: u32, tag: u64, nth: usize) {
        for wanted in wanted(sender, tag) {
            self.by.entry(wanted).or_default().push_back(self.all.len());
        }
        self.all.push(Some((sender, nth)));
    }

    fn take(&mut self, wanted: Wanted) -> Option<(u32, usize)> {
        let fitting = self.by.get_mut(&wanted)?;
        while let Some(at) = fitting.pop_front() {
            if let Some(message) = self.all[at].take() {
                return Some(message);
            }
        }
        None
    }
}

struct Run<'a> {
    ranks: &'a [Vec<Op>],
    /// Beginnings and, behind those of the same instant and operation, ends.
    turns: BinaryHeap<Reverse<(u64, Place, bool)>>,
    /// By rank and operation: what it still waits for; who waits for its end, and for its beginning.
    waits: Vec<Vec<usize>>,
    after: Vec<Vec<Vec<usize>>>,
    beside: Vec<Vec<Vec<usize>>>,
    /// By rank: receives without a message, and messages that no receive has taken (sender, tag, send).
    waiting: Vec<Receives>,
    arrived: Vec<Sends>,
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
            waiting: vec![Receives::default(); ranks.len()],
            arrived: vec![Sends::default(); ranks.len()],
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
                match waiting.take(rank, tag) {
                    Some(receive) => self.take(now, (to, receive), place),
                    None => self.arrived[to as usize].push(rank, tag, nth),
                }
            }
            What::Receive { from, tag } => match self.arrived[rank as usize].take((from, tag)) {
                Some(send) => self.take(now, place, send),
                None => self.waiting[rank as usize].push(nth, (from, tag)),
            },
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
            let waiting = waiting.in_order();
            let send = match first_of_one_each(&waiting, held) {
                Ok(send) => send,
                Err((nth, (from, tag))) => return Some(unsent(at((rank, nth)), rank, from, tag)),
            };
            if let (Some(&(receive, _)), Some((sender, _, send))) = (waiting.first(), send) {
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

/// Finds for each receive of a rank a send of its own (a matching of the two, by augmenting paths). Returns that of the first one.
///
/// # Errors
/// The first receive for which no send is left, however those before it share the sends.
fn first_of_one_each(waiting: &[Waiting], held: &[Held]) -> Result<Option<Held>, Waiting> {
    let mut kinds = Kinds::new(waiting, held);
    for &receive in waiting {
        if !kinds.give(kinds.receives[&receive.1]) {
            return Err(receive);
        }
    }
    let Some((_, wanted)) = waiting.first() else { return Ok(None) };
    let kind = kinds.receives[wanted];
    Ok(kinds.sends.iter().find(|sends| sends.given.contains_key(&kind)).map(|sends| sends.first))
}

/// Sends of one sender with one tag.
struct SendKind {
    first: Held,
    free: usize,
    /// How many of them receives have, by kind of receive.
    given: BTreeMap<usize, usize>,
}

/// Sends and receives by kind. What is alike is counted, and a kind of sends fits four kinds of receives at most, so that long traces
/// take no more time than their length.
struct Kinds {
    sends: Vec<SendKind>,
    receives: BTreeMap<Wanted, usize>,
    /// By kind of receive: kinds of sends that fit, and the first of them that may be free.
    fitting: Vec<(Vec<usize>, usize)>,
}

impl Kinds {
    fn new(waiting: &[Waiting], held: &[Held]) -> Self {
        let mut receives = BTreeMap::new();
        for &(_, wanted) in waiting {
            let new = receives.len();
            receives.entry(wanted).or_insert(new);
        }
        let mut fitting = vec![(Vec::new(), 0); receives.len()];
        let (mut sends, mut known): (Vec<SendKind>, BTreeMap<(u32, u64), usize>) = Default::default();
        for &send in held {
            let (sender, tag, _) = send;
            let kind = *known.entry((sender, tag)).or_insert(sends.len());
            if kind == sends.len() {
                sends.push(SendKind { first: send, free: 0, given: BTreeMap::new() });
                let takers = wanted(sender, tag).into_iter().filter_map(|wanted| receives.get(&wanted));
                takers.for_each(|&receive| fitting[receive].0.push(kind));
            }
            sends[kind].free += 1;
        }
        Self { sends, receives, fitting }
    }

    /// Gives one more receive of this kind a send; whether there is one.
    fn give(&mut self, receive: usize) -> bool {
        let (kinds, next) = &mut self.fitting[receive];
        while let Some(&kind) = kinds.get(*next) {
            let sends = &mut self.sends[kind];
            if sends.free > 0 {
                sends.free -= 1;
                *sends.given.entry(receive).or_default() += 1;
                return true;
            }
            *next += 1;
        }
        self.move_for(receive)
    }

    /// The same where others have all that fit: one of them takes another send, in whose place a third one may have to.
    fn move_for(&mut self, receive: usize) -> bool {
        // By kind of sends: the receives that would take one of them. By kind of receives: the sends of which they would give up one.
        let mut taker: Vec<Option<usize>> = vec![None; self.sends.len()];
        let mut gives_up: Vec<Option<usize>> = vec![None; self.fitting.len()];
        let mut looking = VecDeque::from([receive]);
        let mut free = None;
        while let Some(at) = looking.pop_front().filter(|_| free.is_none()) {
            for &kind in &self.fitting[at].0 {
                if taker[kind].is_some() {
                    continue;
                }
                taker[kind] = Some(at);
                if self.sends[kind].free > 0 {
                    free = Some(kind);
                    break;
                }
                for &other in self.sends[kind].given.keys() {
                    if other != receive && gives_up[other].is_none() {
                        gives_up[other] = Some(kind);
                        looking.push_back(other);
                    }
                }
            }
        }
        let Some(mut kind) = free else { return false };
        self.sends[kind].free -= 1;
        while let Some(at) = taker[kind] {
            *self.sends[kind].given.entry(at).or_default() += 1;
            let Some(before) = gives_up[at] else { break };
            kind = before;
            let given = &mut self.sends[kind].given;
            match given.get_mut(&at) {
                Some(count) if *count > 1 => *count -= 1,
                _ => {
                    given.remove(&at);
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use mrc_core::Rng;

    use super::*;

    /// Whether all of these receives can have a send of their own: one after the other takes any, and goes back where none is left.
    fn fit(waiting: &[Waiting], held: &[Held], taken: &mut Vec<usize>) -> bool {
        let Some((&(_, asks), rest)) = waiting.split_first() else { return true };
        (0..held.len()).any(|nth| {
            if taken.contains(&nth) || !wanted(held[nth].0, held[nth].1).contains(&asks) {
                return false;
            }
            taken.push(nth);
            let all = fit(rest, held, taken);
            taken.pop();
            all
        })
    }

    #[test]
    fn receives_share_their_sends_wherever_that_is_possible() {
        let mut rng = Rng::new(5);
        let mut refused = 0;
        for _ in 0..3_000 {
            let held: Vec<Held> =
                (0..rng.below(6) as usize).map(|nth| (rng.below(2), rng.below(3).into(), nth)).collect();
            let ask = |rng: &mut Rng| {
                let (from, tag) = (rng.below(3), u64::from(rng.below(4)));
                ((from < 2).then_some(from), (tag < 3).then_some(tag))
            };
            let waiting: Vec<Waiting> = (0..rng.below(6) as usize).map(|nth| (nth, ask(&mut rng))).collect();
            let first_left = (0..waiting.len()).find(|&nth| !fit(&waiting[..=nth], &held, &mut Vec::new()));
            match first_of_one_each(&waiting, &held) {
                Err((nth, _)) => assert_eq!(Some(nth), first_left, "{waiting:?} {held:?}"),
                Ok(None) => assert!(waiting.is_empty(), "{waiting:?} {held:?}"),
                Ok(Some(send)) => {
                    assert_eq!(first_left, None, "{waiting:?} {held:?}");
                    let others: Vec<Held> = held.iter().copied().filter(|&other| other != send).collect();
                    assert!(wanted(send.0, send.1).contains(&waiting[0].1), "{waiting:?} {held:?}");
                    assert!(fit(&waiting[1..], &others, &mut Vec::new()), "{waiting:?} {held:?}");
                }
            }
            refused += u32::from(first_left.is_some());
        }
        assert!((500..2_500).contains(&refused), "{refused}");
    }
}
