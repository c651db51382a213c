//! A plan at work. Owns the times of its messages and who may start; moves no byte itself.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use mrc_core::{Instant, PortMask};
use mrc_wire::PortNum;

use super::plan::{Group, Message, MessageId, Plan, Successors};
use crate::host::World;

/// A message that its transport gave up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The message.
    pub message: MessageId,
    /// When, in virtual nanoseconds.
    pub at_ns: u64,
    /// What the transport said.
    pub why: String,
}

/// No time yet.
const NEVER: u64 = u64::MAX;
/// Failures whose text is kept; all are counted.
const KEPT_FAILURES: usize = 32;

/// What happened to one message so far. Times in virtual nanoseconds, `u64::MAX` for what has not happened.
#[derive(Clone, Copy, Debug)]
struct State {
    /// Messages it still waits for.
    waits: u32,
    /// Bytes not placed yet.
    missing: u32,
    /// Bytes not acknowledged yet.
    unacked: u32,
    failed: bool,
    started: u64,
    delivered: u64,
    completed: u64,
    sent: Sent,
}

/// What the sender of a message put on its links.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sent {
    /// Payload bytes, retransmissions included.
    pub bytes: u64,
    /// Data packets, retransmissions included.
    pub packets: u32,
    /// Ports that they left by.
    pub ports: PortMask,
}

/// Messages of a run by what became of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Computations that have ended.
    pub computed: u32,
    /// Messages completed at their sender.
    pub completed: u32,
    /// Messages given up.
    pub failed: u32,
    /// Messages taken by their hosts and neither completed nor failed.
    pub under_way: u32,
    /// Payload bytes in their receivers' memories.
    pub placed_bytes: u64,
}

impl Tally {
    /// Of several parts.
    pub fn sum(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().fold(Self::default(), |sum, part| Self {
            computed: sum.computed + part.computed,
            completed: sum.completed + part.completed,
            failed: sum.failed + part.failed,
            under_way: sum.under_way + part.under_way,
            placed_bytes: sum.placed_bytes + part.placed_bytes,
        })
    }

    /// Messages that have an end.
    pub fn done(&self) -> u64 {
        u64::from(self.computed) + u64::from(self.completed) + u64::from(self.failed)
    }
}

/// The state that all hosts of a run share: messages, their progress, and the goodput over time. Where the fabric is
/// divided, hosts of a part share one: it knows the sender's half of what they send and the receiver's half of what they
/// receive, see [`Exchange::merged`].
///
/// What a transport does with it:
///
/// 1. In [`crate::Host::on_timer`] (called for every release) it takes its messages with [`Exchange::take_released`]; of
///    each data packet it tells [`Exchange::on_sent`].
/// 2. It calls [`Exchange::on_placed`] on the receiving host, once for each byte that reached the receiver's memory.
/// 3. It calls [`Exchange::on_acked`] on the sending host when bytes are known to have arrived, or
///    [`Exchange::on_failed`] when it gives up.
pub struct Exchange {
    messages: Arc<[Message]>,
    groups: Vec<Group>,
    states: Vec<State>,
    successors: Arc<Successors>,
    /// Its hosts.
    hosts: Range<u32>,
    /// Released messages by host, earliest first.
    released: Vec<BinaryHeap<Reverse<(u64, MessageId)>>>,
    wakes: Vec<(u32, Instant)>,
    bin_ns: u64,
    /// Bytes placed, by group and bin.
    bins: Vec<Vec<u64>>,
    tally: Tally,
    misplaced: u64,
    failures: Vec<Failure>,
    last_failure_ns: u64,
}

impl Exchange {
    /// The plan at time 0, with goodput in bins of `bin_ns` nanoseconds.
    pub fn new(plan: Plan, hosts: u32, bin_ns: u64) -> Self {
        let mut parts = Self::of_parts(plan, &[0, hosts], bin_ns);
        parts.pop().expect("one part")
    }

    /// The same in parts, which begin with hosts `firsts`; the last number is that of all hosts. No message may wait for
    /// what happens in another part, see [`Plan::is_divisible`].
    pub fn of_parts(plan: Plan, firsts: &[u32], bin_ns: u64) -> Vec<Self> {
        let successors = Arc::new(Successors::of(&plan));
        let state = |message: &Message| State {
            waits: 0,
            missing: message.bytes,
            unacked: message.bytes,
            failed: false,
            started: NEVER,
            delivered: NEVER,
            completed: NEVER,
            sent: Sent::default(),
        };
        let mut states: Vec<State> = plan.messages.iter().map(state).collect();
        plan.edges.iter().for_each(|edge| states[edge.then as usize].waits += 1);
        let messages: Arc<[Message]> = plan.messages.into();
        let part = |ends: &[u32]| {
            let mut exchange = Self {
                states: states.clone(),
                successors: successors.clone(),
                hosts: ends[0]..ends[1],
                released: vec![BinaryHeap::new(); (ends[1] - ends[0]) as usize],
                wakes: Vec::new(),
                bin_ns: bin_ns.max(1),
                bins: vec![Vec::new(); plan.groups.len()],
                groups: plan.groups.clone(),
                messages: messages.clone(),
                tally: Tally::default(),
                misplaced: 0,
                failures: Vec::new(),
                last_failure_ns: 0,
            };
            for id in 0..exchange.messages.len() as u32 {
                if exchange.states[id as usize].waits == 0 {
                    exchange.release(0, id);
                }
            }
            exchange
        };
        firsts.windows(2).map(part).collect()
    }

    /// The whole, from its parts.
    pub fn merged(parts: &[&Self]) -> Self {
        let half = |host: u32| parts.iter().find(|part| part.hosts.contains(&host)).unwrap_or(&parts[0]);
        let state = |(id, message): (usize, &Message)| {
            let (sender, receiver) = (half(message.src).states[id], half(message.dst).states[id]);
            State { missing: receiver.missing, delivered: receiver.delivered, ..sender }
        };
        let first = parts[0];
        let mut bins = vec![Vec::<u64>::new(); first.groups.len()];
        for part in parts {
            for (sum, bins) in bins.iter_mut().zip(&part.bins) {
                sum.resize(sum.len().max(bins.len()), 0);
                sum.iter_mut().zip(bins).for_each(|(sum, bytes)| *sum += bytes);
            }
        }
        let mut failures: Vec<Failure> = parts.iter().flat_map(|part| part.failures.iter().cloned()).collect();
        failures.sort_by_key(|failure| (failure.at_ns, failure.message));
        failures.truncate(KEPT_FAILURES);
        Self {
            messages: first.messages.clone(),
            groups: first.groups.clone(),
            states: first.messages.iter().enumerate().map(state).collect(),
            successors: first.successors.clone(),
            hosts: first.hosts.start..parts.last().map_or(0, |last| last.hosts.end),
            released: parts.iter().flat_map(|part| part.released.iter().cloned()).collect(),
            wakes: Vec::new(),
            bin_ns: first.bin_ns,
            bins,
            tally: Tally::sum(parts.iter().map(|part| part.tally)),
            misplaced: parts.iter().map(|part| part.misplaced).sum(),
            failures,
            last_failure_ns: parts.iter().map(|part| part.last_failure_ns).max().unwrap_or(0),
        }
    }

    /// What became of messages so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// The messages of the plan.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The groups of the plan.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// A message.
    pub fn message(&self, id: MessageId) -> &Message {
        &self.messages[id as usize]
    }

    /// The next message that `host` may send now.
    pub fn take_released(&mut self, now: Instant, host: u32) -> Option<MessageId> {
        loop {
            let queue = &mut self.released[(host - self.hosts.start) as usize];
            queue.peek().filter(|Reverse((at, _))| *at <= now.as_nanos())?;
            let Reverse((_, id)) = queue.pop()?;
            if !self.messages[id as usize].is_compute() {
                self.tally.under_way += 1;
                return Some(id);
            }
            let state = &mut self.states[id as usize];
            (state.delivered, state.completed) = (now.as_nanos(), now.as_nanos());
            self.tally.computed += 1;
            self.follow(now, id, false);
            self.follow(now, id, true);
        }
    }

    /// A packet with `bytes` of a message left by `port`.
    pub fn on_sent(&mut self, id: MessageId, bytes: u32, port: PortNum) {
        let sent = &mut self.states[id as usize].sent;
        sent.bytes += u64::from(bytes);
        sent.packets = sent.packets.saturating_add(1);
        sent.ports = sent.ports.with(port);
    }

    /// `bytes` of a message arrived in the receiver's memory for the first time.
    pub fn on_placed(&mut self, now: Instant, id: MessageId, bytes: u32) {
        let message = &self.messages[id as usize];
        let bins = &mut self.bins[usize::from(message.group)];
        // A bin ends with its last nanosecond, as a run that ends with a bin does.
        let bin = (now.as_nanos().saturating_sub(1) / self.bin_ns) as usize;
        if bins.len() <= bin {
            bins.resize(bin + 1, 0);
        }
        bins[bin] += u64::from(bytes);
        self.tally.placed_bytes += u64::from(bytes);
        let state = &mut self.states[id as usize];
        if state.missing < bytes {
            self.misplaced += 1;
            return;
        }
        state.missing -= bytes;
        if state.missing == 0 && bytes > 0 {
            state.delivered = now.as_nanos();
            self.follow(now, id, false);
        }
    }

    /// A payload arrived where it was not meant to go: an error of the transport that no run should show.
    pub fn on_misplaced(&mut self) {
        self.misplaced += 1;
    }

    /// The sender learned that `bytes` of a message arrived.
    pub fn on_acked(&mut self, now: Instant, id: MessageId, bytes: u32) {
        let state = &mut self.states[id as usize];
        state.unacked = state.unacked.saturating_sub(bytes);
        if state.unacked == 0 && state.completed == NEVER {
            state.completed = now.as_nanos();
            self.tally.completed += 1;
            self.tally.under_way = self.tally.under_way.saturating_sub(1);
            self.follow(now, id, true);
        }
    }

    /// The transport gave the message up: what waits for it will never start.
    pub fn on_failed(&mut self, now: Instant, id: MessageId, why: impl FnOnce() -> String) {
        let state = &mut self.states[id as usize];
        if state.failed || state.completed != NEVER {
            return;
        }
        state.failed = true;
        self.tally.failed += 1;
        self.last_failure_ns = self.last_failure_ns.max(now.as_nanos());
        self.tally.under_way = self.tally.under_way.saturating_sub(1);
        if self.failures.len() < KEPT_FAILURES {
            self.failures.push(Failure { message: id, at_ns: now.as_nanos(), why: why() });
        }
    }

    /// Messages completed at their sender.
    pub fn completed(&self) -> u32 {
        self.tally.completed
    }

    /// When the last message was given up; 0 if none was.
    pub fn last_failure_ns(&self) -> u64 {
        self.last_failure_ns
    }

    /// Messages given up.
    pub fn failed(&self) -> u32 {
        self.tally.failed
    }

    /// The first failures.
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// Whether every message has completed or failed.
    pub fn is_done(&self) -> bool {
        self.tally.done() == self.messages.len() as u64
    }

    /// Payload bytes in their receivers' memories.
    pub fn placed_bytes(&self) -> u64 {
        self.tally.placed_bytes
    }

    /// Payloads that arrived in a wrong place or twice; 0 unless a transport is at fault.
    pub fn misplaced(&self) -> u64 {
        self.misplaced
    }

    /// Width of a bin of [`Exchange::bins`], in nanoseconds.
    pub fn bin_ns(&self) -> u64 {
        self.bin_ns
    }

    /// Bytes placed by bin, of one group.
    pub fn bins(&self, group: usize) -> &[u64] {
        &self.bins[group]
    }

    /// When a message was released, in virtual nanoseconds.
    pub fn started(&self, id: MessageId) -> Option<u64> {
        Some(self.states[id as usize].started).filter(|&at| at != NEVER)
    }

    /// When its last byte reached the receiver.
    pub fn delivered(&self, id: MessageId) -> Option<u64> {
        Some(self.states[id as usize].delivered).filter(|&at| at != NEVER)
    }

    /// When its sender had the completion.
    pub fn completed_at(&self, id: MessageId) -> Option<u64> {
        Some(self.states[id as usize].completed).filter(|&at| at != NEVER)
    }

    /// What the sender of a message put on its links.
    pub fn sent(&self, id: MessageId) -> Sent {
        self.states[id as usize].sent
    }

    /// Bytes of a message that have not reached the receiver.
    pub fn missing(&self, id: MessageId) -> u32 {
        self.states[id as usize].missing
    }

    /// Whether a message was given up.
    pub fn has_failed(&self, id: MessageId) -> bool {
        self.states[id as usize].failed
    }

    /// Bytes of a message that its sender does not know to have arrived.
    pub fn unacked(&self, id: MessageId) -> u32 {
        self.states[id as usize].unacked
    }

    /// When the first of the messages that wait for their time starts.
    pub fn next_start(&self) -> Option<u64> {
        let later = self.released.iter().filter_map(|queue| queue.peek()).map(|Reverse((at, _))| *at);
        later.min()
    }

    fn release(&mut self, now: u64, id: MessageId) {
        let message = &self.messages[id as usize];
        if !self.hosts.contains(&message.src) {
            return;
        }
        let at = now + message.delay_ns;
        self.states[id as usize].started = at;
        self.released[(message.src - self.hosts.start) as usize].push(Reverse((at, id)));
        self.wakes.push((message.src, Instant::from_nanos(at)));
    }

    fn follow(&mut self, now: Instant, id: MessageId, acked: bool) {
        let range = self.successors.first[id as usize] as usize..self.successors.first[id as usize + 1] as usize;
        for at in range {
            let (on_ack, then) = self.successors.edges[at];
            if on_ack == acked {
                let waits = &mut self.states[then as usize].waits;
                *waits -= 1;
                if *waits == 0 {
                    self.release(now.as_nanos(), then);
                }
            }
        }
    }
}

impl World for Exchange {
    fn next_wake(&mut self) -> Option<(u32, Instant)> {
        self.wakes.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn messages_wait_for_bytes_or_completions_and_then_compute() {
        let mut plan = Plan::default();
        let group = plan.group(Group::flows("g"));
        let message = |src, dst, delay_ns| Message { src, dst, bytes: 100, group, iteration: 0, delay_ns };
        let first = plan.push(message(0, 1, 5));
        let on_bytes = plan.push(message(1, 2, 7));
        let on_ack = plan.push(message(0, 2, 0));
        plan.after_delivery(first, on_bytes);
        plan.after_completion(first, on_ack);
        let mut exchange = Exchange::new(plan, 3, 1_000);
        assert_eq!(exchange.next_wake(), Some((0, at(5))));
        assert_eq!(exchange.next_wake(), None);
        assert_eq!(exchange.take_released(at(4), 0), None);
        assert_eq!(exchange.take_released(at(5), 0), Some(first));
        exchange.on_placed(at(900), first, 60);
        assert_eq!(exchange.next_wake(), None);
        exchange.on_placed(at(1_200), first, 40);
        assert_eq!(exchange.next_wake(), Some((1, at(1_207))));
        assert_eq!(exchange.bins(0), [60, 40]);
        exchange.on_acked(at(2_000), first, 100);
        assert_eq!(exchange.next_wake(), Some((0, at(2_000))));
        assert_eq!(exchange.take_released(at(2_000), 1), Some(on_bytes));
        exchange.on_failed(at(3_000), on_bytes, || "gone".to_owned());
        exchange.on_failed(at(3_000), on_bytes, || "again".to_owned());
        assert!(!exchange.is_done());
        exchange.on_acked(at(4_000), on_ack, 100);
        assert!(exchange.is_done());
        assert_eq!((exchange.completed(), exchange.failed(), exchange.failures().len()), (2, 1, 1));
        assert_eq!((exchange.started(on_bytes), exchange.delivered(first)), (Some(1_207), Some(1_200)));
        assert_eq!(exchange.completed_at(on_bytes), None);
        exchange.on_placed(at(5_000), first, 1);
        assert_eq!(exchange.misplaced(), 1);
    }
}
