//! A plan at work. Owns the times of its messages and who may start; moves no byte itself.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use mrc_core::{Instant, PortMask, Prefetch};
use mrc_wire::PortNum;

use super::plan::{Group, Message, MessageId, Plan, Successors};
use crate::host::{MessageAhead, World};
use crate::prefetch::Caches;

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
/// See [`Sending`].
const FAILED: u32 = u32::MAX;
/// Failures whose text is kept; all are counted.
const KEPT_FAILURES: usize = 32;

/// What its sender knows of a message so far. Times in virtual nanoseconds, `u64::MAX` for what has not happened.
#[derive(Clone, Copy, Debug)]
struct Sending {
    /// Messages it still waits for; [`FAILED`] when it was given up, which happens to no message that waits.
    waits: u32,
    /// Bytes not acknowledged yet.
    unacked: u32,
    started: u64,
    completed: u64,
}

/// The same of its receiver.
#[derive(Clone, Copy, Debug)]
struct Receiving {
    /// Bytes not placed yet.
    missing: u32,
    /// That of the message: whoever counts a packet then reads one line of memory.
    group: u16,
    delivered: u64,
}

impl Sending {
    fn new(message: &Message) -> Self {
        Self { waits: 0, unacked: message.bytes, started: NEVER, completed: NEVER }
    }
}

impl Receiving {
    fn new(message: &Message) -> Self {
        Self { missing: message.bytes, group: message.group, delivered: NEVER }
    }
}

/// Where a message stands in the lists of its sender's part and of its receiver's.
#[derive(Clone, Copy, Debug)]
struct Places {
    sending: u32,
    receiving: u32,
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
    plan: Arc<Plan>,
    /// By message, where there are several parts; of one part the place is the number.
    places: Option<Arc<[Places]>>,
    /// Messages that its hosts send.
    sending: Vec<Sending>,
    /// What they put on their links. Apart: each packet writes there.
    sent: Vec<Sent>,
    /// Messages that its hosts receive.
    receiving: Vec<Receiving>,
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
    pub fn new(plan: impl Into<Arc<Plan>>, hosts: u32, bin_ns: u64) -> Self {
        let mut parts = Self::of_parts(plan, &[0, hosts], bin_ns);
        parts.pop().expect("one part")
    }

    /// The same in parts, which begin with hosts `firsts`; the last number is that of all hosts. No message may wait for
    /// what happens in another part, see [`Plan::is_divisible`].
    pub fn of_parts(plan: impl Into<Arc<Plan>>, firsts: &[u32], bin_ns: u64) -> Vec<Self> {
        let plan: Arc<Plan> = plan.into();
        let successors = Arc::new(Successors::of(&plan));
        let places = (firsts.len() > 2).then(|| places(&plan.messages, firsts));
        let messages = &plan.messages[..];
        let part = |ends: &[u32]| {
            let hosts = ends[0]..ends[1];
            let mut exchange = Self {
                sending: messages.iter().filter(|message| hosts.contains(&message.src)).map(Sending::new).collect(),
                sent: messages.iter().filter(|message| hosts.contains(&message.src)).map(|_| Sent::default()).collect(),
                receiving: messages.iter().filter(|message| hosts.contains(&message.dst)).map(Receiving::new).collect(),
                places: places.clone(),
                successors: successors.clone(),
                hosts,
                released: vec![BinaryHeap::new(); (ends[1] - ends[0]) as usize],
                wakes: Vec::new(),
                bin_ns: bin_ns.max(1),
                bins: vec![Vec::new(); plan.groups.len()],
                plan: plan.clone(),
                tally: Tally::default(),
                misplaced: 0,
                failures: Vec::new(),
                last_failure_ns: 0,
            };
            let sends = |exchange: &Self, id: MessageId| exchange.hosts.contains(&exchange.message(id).src);
            for edge in &plan.edges {
                if sends(&exchange, edge.then) {
                    exchange.sending_mut(edge.then).waits += 1;
                }
            }
            let begins = |exchange: &Self, id: MessageId| sends(exchange, id) && exchange.sending(id).waits == 0;
            let ids = 0..exchange.messages().len() as u32;
            let mut first = vec![0; exchange.released.len()];
            for id in ids.clone().filter(|&id| begins(&exchange, id)) {
                first[(exchange.message(id).src - exchange.hosts.start) as usize] += 1;
            }
            exchange.released.iter_mut().zip(first).for_each(|(released, first)| released.reserve_exact(first));
            for id in ids {
                if begins(&exchange, id) {
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
        let sending = |(id, message): (u32, &Message)| *half(message.src).sending(id);
        let sent = |(id, message): (u32, &Message)| half(message.src).sent(id);
        let receiving = |(id, message): (u32, &Message)| *half(message.dst).receiving(id);
        let first = parts[0];
        let mut bins = vec![Vec::<u64>::new(); first.groups().len()];
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
            plan: first.plan.clone(),
            places: None,
            sending: (0..).zip(first.messages()).map(sending).collect(),
            sent: (0..).zip(first.messages()).map(sent).collect(),
            receiving: (0..).zip(first.messages()).map(receiving).collect(),
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

    fn place_of_sending(&self, id: MessageId) -> usize {
        self.places.as_ref().map_or(id, |places| places[id as usize].sending) as usize
    }

    fn sending(&self, id: MessageId) -> &Sending {
        &self.sending[self.place_of_sending(id)]
    }

    fn sending_mut(&mut self, id: MessageId) -> &mut Sending {
        let place = self.place_of_sending(id);
        &mut self.sending[place]
    }

    fn receiving(&self, id: MessageId) -> &Receiving {
        &self.receiving[self.places.as_ref().map_or(id, |places| places[id as usize].receiving) as usize]
    }

    fn receiving_mut(&mut self, id: MessageId) -> &mut Receiving {
        &mut self.receiving[self.places.as_ref().map_or(id, |places| places[id as usize].receiving) as usize]
    }

    /// What became of messages so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// The messages of the plan.
    pub fn messages(&self) -> &[Message] {
        &self.plan.messages
    }

    /// The groups of the plan.
    pub fn groups(&self) -> &[Group] {
        &self.plan.groups
    }

    /// A message.
    pub fn message(&self, id: MessageId) -> &Message {
        &self.plan.messages[id as usize]
    }

    /// The next message that `host` may send now.
    pub fn take_released(&mut self, now: Instant, host: u32) -> Option<MessageId> {
        loop {
            let queue = &mut self.released[(host - self.hosts.start) as usize];
            queue.peek().filter(|Reverse((at, _))| *at <= now.as_nanos())?;
            let Reverse((_, id)) = queue.pop()?;
            if !self.plan.messages[id as usize].is_compute() {
                self.tally.under_way += 1;
                return Some(id);
            }
            self.receiving_mut(id).delivered = now.as_nanos();
            self.sending_mut(id).completed = now.as_nanos();
            self.tally.computed += 1;
            self.follow(now, id, false);
            self.follow(now, id, true);
        }
    }

    /// The first message that `host` sends when its time has come.
    pub(crate) fn next_released(&self, host: u32) -> Option<MessageId> {
        let queue = self.released.get((host - self.hosts.start) as usize)?;
        queue.peek().map(|Reverse((_, id))| *id)
    }

    /// What [`Exchange::on_sent`] or [`Exchange::on_placed`] will read.
    pub(crate) fn fetch(&self, message: MessageAhead) {
        match message {
            MessageAhead::Received(id) => Caches.prefetch(&self.receiving(id).missing),
            // What sends say of their messages is a guess.
            MessageAhead::Sent(id) if (id as usize) < self.plan.messages.len() => {
                Caches.prefetch(&self.sent[self.place_of_sending(id)].packets);
            }
            _ => {}
        }
    }

    /// A packet with `bytes` of a message left by `port`.
    pub fn on_sent(&mut self, id: MessageId, bytes: u32, port: PortNum) {
        let place = self.place_of_sending(id);
        let sent = &mut self.sent[place];
        sent.bytes += u64::from(bytes);
        sent.packets = sent.packets.saturating_add(1);
        sent.ports = sent.ports.with(port);
    }

    /// `bytes` of a message arrived in the receiver's memory for the first time.
    pub fn on_placed(&mut self, now: Instant, id: MessageId, bytes: u32) {
        let group = usize::from(self.receiving(id).group);
        let bins = &mut self.bins[group];
        // A bin ends with its last nanosecond, as a run that ends with a bin does.
        let bin = (now.as_nanos().saturating_sub(1) / self.bin_ns) as usize;
        if bins.len() <= bin {
            bins.resize(bin + 1, 0);
        }
        bins[bin] += u64::from(bytes);
        self.tally.placed_bytes += u64::from(bytes);
        let state = self.receiving_mut(id);
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
        let state = self.sending_mut(id);
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
        let state = self.sending_mut(id);
        if state.waits == FAILED || state.completed != NEVER {
            return;
        }
        state.waits = FAILED;
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
        self.tally.done() == self.plan.messages.len() as u64
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
        Some(self.sending(id).started).filter(|&at| at != NEVER)
    }

    /// When its last byte reached the receiver.
    pub fn delivered(&self, id: MessageId) -> Option<u64> {
        Some(self.receiving(id).delivered).filter(|&at| at != NEVER)
    }

    /// When its sender had the completion.
    pub fn completed_at(&self, id: MessageId) -> Option<u64> {
        Some(self.sending(id).completed).filter(|&at| at != NEVER)
    }

    /// What the sender of a message put on its links.
    pub fn sent(&self, id: MessageId) -> Sent {
        self.sent[self.place_of_sending(id)]
    }

    /// Bytes of a message that have not reached the receiver.
    pub fn missing(&self, id: MessageId) -> u32 {
        self.receiving(id).missing
    }

    /// Whether a message was given up.
    pub fn has_failed(&self, id: MessageId) -> bool {
        self.sending(id).waits == FAILED
    }

    /// Bytes of a message that its sender does not know to have arrived.
    pub fn unacked(&self, id: MessageId) -> u32 {
        self.sending(id).unacked
    }

    /// When the first of the messages that wait for their time starts.
    pub fn next_start(&self) -> Option<u64> {
        let later = self.released.iter().filter_map(|queue| queue.peek()).map(|Reverse((at, _))| *at);
        later.min()
    }

    fn release(&mut self, now: u64, id: MessageId) {
        let message = *self.message(id);
        let at = now + message.delay_ns;
        self.sending_mut(id).started = at;
        self.released[(message.src - self.hosts.start) as usize].push(Reverse((at, id)));
        // Messages that a host begins in the same instant follow each other: one wake is enough for them.
        let wake = (message.src, Instant::from_nanos(at));
        if self.wakes.last() != Some(&wake) {
            self.wakes.push(wake);
        }
    }

    fn follow(&mut self, now: Instant, id: MessageId, acked: bool) {
        let range = self.successors.first[id as usize] as usize..self.successors.first[id as usize + 1] as usize;
        for at in range {
            let (on_ack, then) = self.successors.edges[at];
            if on_ack == acked {
                debug_assert!(self.hosts.contains(&self.plan.messages[then as usize].src), "see `Plan::is_divisible`");
                let waits = &mut self.sending_mut(then).waits;
                *waits -= 1;
                if *waits == 0 {
                    self.release(now.as_nanos(), then);
                }
            }
        }
    }
}

/// Numbers messages within the part of their sender, and within that of their receiver, in their order.
fn places(messages: &[Message], firsts: &[u32]) -> Arc<[Places]> {
    let part_of = |host: u32| firsts.partition_point(|&first| first <= host).saturating_sub(1);
    let (mut sent, mut received) = (vec![0; firsts.len()], vec![0; firsts.len()]);
    let next = |count: &mut u32| {
        *count += 1;
        *count - 1
    };
    let place = |message: &Message| Places {
        sending: next(&mut sent[part_of(message.src)]),
        receiving: next(&mut received[part_of(message.dst)]),
    };
    messages.iter().map(place).collect()
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

    #[test]
    fn a_part_keeps_what_its_hosts_send_and_receive_and_no_more() {
        let mut plan = Plan::default();
        let group = plan.group(Group::flows("g"));
        let message = |src, dst| Message { src, dst, bytes: 100, group, iteration: 0, delay_ns: 0 };
        let across = plan.push(message(0, 2));
        let back = plan.push(message(2, 0));
        let within = plan.push(message(3, 2));
        plan.after_delivery(across, back);
        let mut parts = Exchange::of_parts(plan, &[0, 2, 4], 1_000);
        let kept: Vec<_> = parts.iter().map(|part| (part.sending.len(), part.receiving.len())).collect();
        assert_eq!(kept, [(1, 1), (2, 2)]);
        let [left, right] = &mut parts[..] else { panic!("two parts") };
        assert_eq!(left.take_released(at(0), 0), Some(across));
        assert_eq!((right.take_released(at(0), 2), right.take_released(at(0), 3)), (None, Some(within)));
        left.on_sent(across, 100, PortNum::from_plane(0));
        right.on_placed(at(700), across, 100);
        left.on_acked(at(900), across, 100);
        assert_eq!(right.take_released(at(700), 2), Some(back), "its sender waited for what its own part received");
        let whole = Exchange::merged(&[left, right]);
        let of = |id| (whole.started(id), whole.delivered(id), whole.completed_at(id), whole.sent(id).packets);
        assert_eq!(of(across), (Some(0), Some(700), Some(900), 1));
        assert_eq!((of(back), of(within)), ((Some(700), None, None, 0), (Some(0), None, None, 0)));
        assert_eq!((whole.missing(within), whole.unacked(within), whole.missing(across)), (100, 100, 0));
    }
}
