//! Both directions of one RoCEv2 queue pair: what to send next, and what an arriving packet means. Go-back-N as RC has it,
//! or selective repeat with a bounded window as IRN (Mittal et al., SIGCOMM 2018) proposes. Writes no bytes, keeps no
//! clock. PSNs count on without end here; 24 bits of them travel.

use std::collections::VecDeque;

use mrc_core::Instant;

/// How losses are repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovery {
    /// The receiver takes packets in order only; after a hole everything is sent again.
    GoBackN,
    /// The receiver takes every packet; only what is missing is sent again.
    SelectiveRepeat,
}

/// A piece of a message, with the PSNs it was given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    first: u64,
    /// One behind the last.
    end: u64,
    pub(super) message: u32,
    offset: u64,
    pub(super) bytes: u32,
}

/// A data packet to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Outgoing {
    pub(super) psn: u64,
    pub(super) message: u32,
    pub(super) offset: u64,
    pub(super) len: u32,
    /// Bytes of its write, if it is the first packet of one.
    pub(super) write: Option<u32>,
    pub(super) last: bool,
    pub(super) again: bool,
    /// It goes again because a timer ran out, not because the receiver reported a hole.
    pub(super) timer: bool,
}

/// The sending half.
#[derive(Debug)]
pub(super) struct Sender {
    recovery: Recovery,
    mtu: u32,
    /// Packets in flight at most.
    window: u64,
    segments: VecDeque<Segment>,
    /// First packet not acknowledged.
    una: u64,
    /// Next packet to send for the first time, or again after going back.
    next: u64,
    /// One behind the highest packet ever sent.
    sent: u64,
    /// One behind the last packet of the last segment.
    end: u64,
    /// Selective repeat: which packets from `una` on have arrived.
    arrived: VecDeque<bool>,
    /// Selective repeat: packets before it and not arrived are missing.
    holes_below: u64,
    /// Selective repeat: next packet to look at for sending again.
    again: u64,
    /// Selective repeat: one behind the highest packet that was sent before the last timeout.
    recover: u64,
    /// Packets before it that go again do so because a timer ran out.
    timer_below: u64,
    /// Timeouts in a row.
    pub(super) retries: u32,
}

impl Sender {
    pub(super) fn new(recovery: Recovery, mtu: u32, window: Option<u32>) -> Self {
        Self {
            recovery,
            mtu,
            window: window.map_or(1 << 22, u64::from),
            segments: VecDeque::new(),
            una: 0,
            next: 0,
            sent: 0,
            end: 0,
            arrived: VecDeque::new(),
            holes_below: 0,
            again: 0,
            recover: 0,
            timer_below: 0,
            retries: 0,
        }
    }

    pub(super) fn push(&mut self, message: u32, offset: u64, bytes: u32) {
        let first = self.end;
        self.end += u64::from(bytes.div_ceil(self.mtu).max(1));
        self.segments.push_back(Segment { first, end: self.end, message, offset, bytes });
    }

    /// First packet not acknowledged.
    pub(super) fn una(&self) -> u64 {
        self.una
    }

    /// The packet in flight, or next to those, that has these 24 bits.
    pub(super) fn unwrapped(&self, psn: u32) -> u64 {
        unwrap(self.una, psn)
    }

    /// Packets sent and not acknowledged.
    pub(super) fn in_flight(&self) -> u64 {
        self.sent - self.una
    }

    /// Whether [`Sender::take`] has a packet.
    pub(super) fn is_ready(&self) -> bool {
        self.missing().is_some() || (self.next < self.end && self.next - self.una < self.window)
    }

    /// Whether that was sent before.
    pub(super) fn is_again(&self) -> bool {
        self.missing().is_some() || self.next < self.sent
    }

    /// The packet to send again first.
    fn missing(&self) -> Option<u64> {
        (self.again.max(self.una)..self.holes_below).find(|psn| !self.has_arrived(*psn))
    }

    fn has_arrived(&self, psn: u64) -> bool {
        self.arrived.get((psn - self.una) as usize).copied().unwrap_or(false)
    }

    pub(super) fn take(&mut self) -> Option<Outgoing> {
        if let Some(psn) = self.missing() {
            self.again = psn + 1;
            return self.packet(psn, true);
        }
        if self.next >= self.end || self.next - self.una >= self.window {
            return None;
        }
        let (psn, again) = (self.next, self.next < self.sent);
        self.next += 1;
        self.sent = self.sent.max(self.next);
        self.packet(psn, again)
    }

    fn packet(&self, psn: u64, again: bool) -> Option<Outgoing> {
        let at = self.segments.partition_point(|segment| segment.end <= psn);
        let segment = self.segments.get(at)?;
        let done = (psn - segment.first) * u64::from(self.mtu);
        let len = (u64::from(segment.bytes) - done).min(u64::from(self.mtu)) as u32;
        let (write, last) = ((psn == segment.first).then_some(segment.bytes), psn + 1 == segment.end);
        Some(Outgoing {
            psn,
            message: segment.message,
            offset: segment.offset + done,
            len,
            write,
            last,
            again,
            timer: again && psn < self.timer_below,
        })
    }

    /// All packets before `upto` have arrived, by the 24 bits of an acknowledgement; with a hole, that one is missing, and
    /// `seen` arrived. Returns whether it is news, or `None` for an acknowledgement of what was never sent.
    pub(super) fn on_ack(&mut self, upto: u32, hole: bool, seen: Option<u32>) -> Option<bool> {
        let upto = unwrap(self.una, upto);
        if upto > self.sent || upto + (1 << 22) < self.una {
            return None;
        }
        let progress = upto > self.una;
        if progress {
            self.arrived.drain(..((upto - self.una) as usize).min(self.arrived.len()));
            self.una = upto;
            self.next = self.next.max(upto);
            self.retries = 0;
            // What was in flight at a timeout is lost or has arrived: the acknowledgement of the packet that went again tells which
            // is missing next, as in IRN's own sender. Otherwise each packet of a lost tail would wait for a timer.
            if upto < self.recover && self.again <= upto {
                (self.again, self.timer_below) = (upto, upto + 1);
                self.holes_below = self.holes_below.max(upto + 1);
            }
        }
        let mut lost = false;
        let seen = seen.map(|seen| unwrap(self.una, seen)).filter(|&seen| seen > self.una && seen < self.sent);
        if let Some(seen) = seen.filter(|_| self.recovery == Recovery::SelectiveRepeat) {
            let at = (seen - self.una) as usize;
            if self.arrived.len() <= at {
                self.arrived.resize(at + 1, false);
            }
            self.arrived[at] = true;
        }
        if hole && upto == self.una {
            match (self.recovery, seen) {
                (Recovery::GoBackN, _) => {
                    lost = self.next > self.una;
                    self.next = self.una;
                    self.timer_below = self.una;
                }
                (Recovery::SelectiveRepeat, Some(seen)) => {
                    lost = seen > self.holes_below;
                    // A new hole, or the same after its repetition had time to arrive: look from the start.
                    if self.holes_below <= self.una {
                        self.again = self.una;
                    }
                    self.holes_below = self.holes_below.max(seen);
                }
                (Recovery::SelectiveRepeat, None) => {}
            }
        }
        Some(lost)
    }

    /// Takes off a segment whose every packet has arrived.
    pub(super) fn take_done(&mut self) -> Option<Segment> {
        self.segments.pop_front_if(|segment| segment.end <= self.una)
    }

    /// Gives the memory of its queues back when nothing is left to send or to acknowledge.
    pub(super) fn release(&mut self) {
        if self.segments.is_empty() {
            (self.segments, self.arrived) = (VecDeque::new(), VecDeque::new());
        }
    }

    /// No acknowledgement came in time: everything in flight, or what of it is not known to have arrived, goes again.
    pub(super) fn on_timeout(&mut self) {
        self.retries += 1;
        match self.recovery {
            Recovery::GoBackN => {
                self.next = self.una;
                self.timer_below = self.sent;
            }
            Recovery::SelectiveRepeat => {
                self.again = self.una;
                self.holes_below = self.holes_below.max(self.una + 1).min(self.sent);
                self.timer_below = self.holes_below;
                self.recover = self.sent;
            }
        }
    }

    /// Gives up everything.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Segment> + '_ {
        (self.una, self.next, self.sent) = (self.end, self.end, self.end);
        self.arrived.clear();
        self.segments.drain(..)
    }
}

/// Packets ahead of a hole whose memory a receiver keeps when the hole is filled.
const FEW_AHEAD: usize = 64;

/// What an arriving data packet leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Taken {
    /// Its payload goes to memory.
    pub(super) place: bool,
    /// Acknowledge; `hole` and `seen` as in [`Sender::on_ack`].
    pub(super) ack: Option<(bool, Option<u64>)>,
    /// Something that this acknowledges was marked.
    pub(super) marked: bool,
    /// Notify the sender of a mark.
    pub(super) cnp: bool,
}

/// The receiving half.
#[derive(Debug)]
pub(super) struct Receiver {
    recovery: Recovery,
    ack_every: u32,
    /// Selective repeat: a packet so far ahead of the first missing one reports no hole yet.
    reorder: u32,
    /// A reported hole counts as a mark.
    hole_notifies: bool,
    cnp_interval_ns: Option<u64>,
    expected: u64,
    /// The hole at `expected` has been reported (go-back-N reports it once).
    reported: bool,
    /// Selective repeat: which packets from `expected` on are here.
    ahead: VecDeque<bool>,
    since_ack: u32,
    /// A packet since the last acknowledgement was marked.
    marked: bool,
    last_cnp: Option<Instant>,
}

impl Receiver {
    pub(super) fn new(recovery: Recovery, ack_every: u32, reorder: u32, cnp_interval_ns: Option<u64>) -> Self {
        Self {
            recovery,
            ack_every,
            reorder,
            hole_notifies: false,
            cnp_interval_ns,
            expected: 0,
            reported: false,
            ahead: VecDeque::new(),
            since_ack: 0,
            marked: false,
            last_cnp: None,
        }
    }

    /// As `self`, with or without notifications of holes.
    pub(super) fn hole_notifies(self, hole_notifies: bool) -> Self {
        Self { hole_notifies, ..self }
    }

    /// First packet that is missing.
    pub(super) fn expected(&self) -> u64 {
        self.expected
    }

    pub(super) fn on_data(&mut self, now: Instant, psn: u32, ack_req: bool, marked: bool) -> Taken {
        let psn = unwrap(self.expected, psn);
        let taken = match psn.cmp(&self.expected) {
            std::cmp::Ordering::Less => Taken { ack: Some((false, None)), ..Taken::default() },
            std::cmp::Ordering::Equal => self.in_order(ack_req),
            std::cmp::Ordering::Greater => self.out_of_order(psn),
        };
        let hole = taken.ack.is_some_and(|(hole, _)| hole);
        let due = self
            .cnp_interval_ns
            .filter(|_| marked || hole && self.hole_notifies)
            .is_some_and(|interval| self.last_cnp.is_none_or(|last| now.as_nanos() - last.as_nanos() >= interval));
        if due {
            self.last_cnp = Some(now);
        }
        self.marked |= marked;
        let marked = taken.ack.is_some() && core::mem::take(&mut self.marked);
        Taken { marked, cnp: due, ..taken }
    }

    fn in_order(&mut self, ack_req: bool) -> Taken {
        let filled = !self.ahead.is_empty() || self.reported;
        self.expected += 1;
        self.ahead.pop_front();
        while self.ahead.front() == Some(&true) {
            self.ahead.pop_front();
            self.expected += 1;
        }
        if self.ahead.is_empty() && self.ahead.capacity() > FEW_AHEAD {
            self.ahead = VecDeque::new();
        }
        self.reported = false;
        self.since_ack += 1;
        let ack = ack_req || filled || self.since_ack >= self.ack_every;
        if ack {
            self.since_ack = 0;
        }
        Taken { place: true, ack: ack.then_some((false, None)), ..Taken::default() }
    }

    fn out_of_order(&mut self, psn: u64) -> Taken {
        match self.recovery {
            Recovery::GoBackN => {
                let first = !self.reported;
                self.reported = true;
                Taken { place: false, ack: first.then_some((true, None)), ..Taken::default() }
            }
            Recovery::SelectiveRepeat => {
                let at = (psn - self.expected) as usize;
                if at >= 1 << 22 {
                    return Taken::default();
                }
                if self.ahead.len() <= at {
                    self.ahead.resize(at + 1, false);
                }
                let new = !core::mem::replace(&mut self.ahead[at], true);
                let hole = at > self.reorder as usize;
                Taken { place: new, ack: Some((hole, Some(psn))), ..Taken::default() }
            }
        }
    }
}

/// The PSN next to `near` that has these 24 bits.
fn unwrap(near: u64, psn: u32) -> u64 {
    let ahead = psn.wrapping_sub(near as u32) << 8;
    near.wrapping_add_signed(i64::from(ahead.cast_signed() >> 8))
}

#[cfg(test)]
mod tests {
    use mrc_core::Rng;

    use super::*;

    const NOW: Instant = Instant::ZERO;

    #[test]
    fn psns_unwrap_both_ways() {
        assert_eq!(unwrap(0x1FF_FFFF, 2), 0x200_0002);
        assert_eq!(unwrap(0x200_0001, 0xFF_FFFF), 0x1FF_FFFF);
    }

    /// A sender and a receiver with a pipe of `delay` packets between them that loses one packet in `loss`.
    fn run(recovery: Recovery, loss: u32, seed: u64) -> (u64, u64) {
        let (mut sender, mut receiver) = (Sender::new(recovery, 1_000, Some(64)), Receiver::new(recovery, 4, 0, None));
        for message in 0..50 {
            sender.push(message, 0, 1_000 * (message % 7) + 1);
        }
        let total = sender.end;
        let mut rng = Rng::new(seed);
        let (mut pipe, mut back) = (VecDeque::new(), VecDeque::new());
        let (mut sent, mut placed, mut done) = (0, vec![false; total as usize], 0);
        let mut quiet = 0;
        while done < 50 {
            match sender.take() {
                Some(out) => {
                    sent += 1;
                    pipe.push_back((rng.below(loss) != 0).then_some(out));
                    quiet = 0;
                }
                None => pipe.push_back(None),
            }
            if pipe.len() > 20
                && let Some(Some(out)) = pipe.pop_front()
            {
                let taken = receiver.on_data(NOW, out.psn as u32 & 0xFF_FFFF, out.last, false);
                if taken.place {
                    assert!(!core::mem::replace(&mut placed[out.psn as usize], true), "seed {seed}: twice");
                }
                if let Some((hole, seen)) = taken.ack
                    && rng.below(loss) != 0
                {
                    back.push_back((receiver.expected() as u32, hole, seen.map(|psn| psn as u32)));
                }
            }
            if let Some((upto, hole, seen)) = back.pop_front() {
                assert!(sender.on_ack(upto, hole, seen).is_some());
                done += std::iter::from_fn(|| sender.take_done()).count();
            }
            quiet += 1;
            if quiet > 100 {
                sender.on_timeout();
                quiet = 0;
            }
        }
        assert!(placed.iter().all(|placed| *placed), "seed {seed}");
        (total, sent)
    }

    #[test]
    fn every_packet_arrives_once_whatever_is_lost() {
        for seed in 0..200 {
            for recovery in [Recovery::GoBackN, Recovery::SelectiveRepeat] {
                run(recovery, 5 + seed as u32 % 40, seed);
            }
        }
    }

    /// Nothing that follows reports the holes of a lost tail: one timeout does for all of them.
    #[test]
    fn selective_repeat_repairs_a_lost_tail_behind_one_timeout() {
        let mut sender = Sender::new(Recovery::SelectiveRepeat, 1_000, None);
        sender.push(0, 0, 10_000);
        (0..10).for_each(|_| assert!(sender.take().is_some()));
        // Of packets 4 to 9 only 6 arrives.
        sender.on_ack(4, true, Some(6));
        sender.on_timeout();
        // Before each acknowledgement: what goes again. 5 went before that of 4 came, and goes once.
        for (again, upto) in [(&[4, 5][..], 5), (&[], 7), (&[7], 8), (&[8], 9), (&[9], 10)] {
            let sent: Vec<u64> = std::iter::from_fn(|| sender.take()).map(|out| out.psn).collect();
            assert_eq!(sent, again, "before the acknowledgement up to {upto}");
            sender.on_ack(upto, false, None);
        }
        assert_eq!((sender.is_ready(), sender.in_flight()), (false, 0));
    }

    #[test]
    fn without_loss_nothing_is_sent_twice() {
        for recovery in [Recovery::GoBackN, Recovery::SelectiveRepeat] {
            let (total, sent) = run(recovery, u32::MAX, 1);
            assert_eq!(total, sent);
        }
    }

    #[test]
    fn selective_repeat_sends_less_again() {
        let spent = |recovery| (0..40).map(|seed| run(recovery, 30, seed).1).sum::<u64>();
        assert!(spent(Recovery::SelectiveRepeat) * 5 < spent(Recovery::GoBackN) * 4);
    }

    #[test]
    fn go_back_n_reports_a_hole_once() {
        let mut receiver = Receiver::new(Recovery::GoBackN, 1, 0, None);
        assert_eq!(receiver.on_data(NOW, 2, false, false).ack, Some((true, None)));
        assert_eq!(receiver.on_data(NOW, 3, false, false), Taken::default());
        assert!(receiver.on_data(NOW, 0, false, false).place);
        assert_eq!(receiver.on_data(NOW, 2, false, false).ack, Some((true, None)), "the next hole is another");
    }

    #[test]
    fn a_queue_pair_that_is_done_gives_its_memory_back() {
        let recovery = Recovery::SelectiveRepeat;
        let (mut sender, mut receiver) = (Sender::new(recovery, 1_000, None), Receiver::new(recovery, 1, 0, None));
        (0..100).for_each(|message| sender.push(message, 0, 10_000));
        (0..1_000).for_each(|_| assert!(sender.take().is_some()));
        // Packet 0 is late: the receiver keeps 999, the sender learns of each.
        for psn in 1..1_000 {
            assert!(receiver.on_data(NOW, psn, false, false).place);
            sender.on_ack(0, true, Some(psn));
        }
        let held = |sender: &Sender, receiver: &Receiver| {
            sender.segments.capacity() + sender.arrived.capacity() + receiver.ahead.capacity()
        };
        assert!(held(&sender, &receiver) > 2_000);
        assert!(receiver.on_data(NOW, 0, true, false).place);
        sender.on_ack(receiver.expected() as u32, false, None);
        assert_eq!(std::iter::from_fn(|| sender.take_done()).count(), 100);
        sender.release();
        assert_eq!(held(&sender, &receiver), 0);
        // And goes on as before.
        sender.push(100, 0, 1_000);
        assert_eq!(sender.take().unwrap().psn, 1_000);
        assert!(receiver.on_data(NOW, 1_000, true, false).place);
    }

    #[test]
    fn notifications_are_spaced() {
        let mut receiver = Receiver::new(Recovery::GoBackN, 1, 0, Some(50_000));
        let at = |us: u64| Instant::from_nanos(us * 1_000);
        let cnps: Vec<bool> = [1, 20, 50, 51, 80]
            .into_iter()
            .zip(0..)
            .map(|(us, psn)| receiver.on_data(at(us), psn, false, true).cnp)
            .collect();
        assert_eq!(cnps, [true, false, false, true, false]);
    }

    #[test]
    fn forged_acknowledgements_are_ignored() {
        let mut sender = Sender::new(Recovery::SelectiveRepeat, 1_000, None);
        sender.push(0, 0, 10_000);
        (0..4).for_each(|_| assert!(sender.take().is_some()));
        assert_eq!(sender.on_ack(5, false, None), None);
        assert_eq!(sender.on_ack(0, true, Some(9)), Some(false));
        assert_eq!(sender.take().unwrap().psn, 4);
    }

    /// Hopper's receivers (section 4.1.1) hold up to 30 packets without a NACK; here 2. By hand: packet 0 is late.
    #[test]
    fn a_tolerant_receiver_reports_no_hole_until_packets_are_too_far_ahead() {
        let mut receiver = Receiver::new(Recovery::SelectiveRepeat, 1, 2, None);
        let mut sender = Sender::new(Recovery::SelectiveRepeat, 1_000, None);
        sender.push(0, 0, 10_000);
        (0..4).for_each(|_| assert!(sender.take().is_some()));
        for psn in [1, 2] {
            let taken = receiver.on_data(NOW, psn, false, false);
            assert_eq!((taken.place, taken.ack), (true, Some((false, Some(psn.into())))));
            assert_eq!(sender.on_ack(0, false, Some(psn)), Some(false), "acknowledged, nothing goes again");
            assert_eq!(sender.missing(), None);
        }
        assert_eq!(receiver.on_data(NOW, 3, false, false).ack, Some((true, Some(3))));
        assert_eq!(sender.on_ack(0, true, Some(3)), Some(true));
        assert_eq!(sender.take().unwrap().psn, 0);
        assert_eq!(sender.take().unwrap().psn, 4, "1 to 3 are known to have arrived");
        assert_eq!(receiver.on_data(NOW, 0, false, false).ack, Some((false, None)));
        assert_eq!(receiver.expected(), 4);
    }

    /// Packet 1 is missing. With two packets of reordering allowed, 4 reports the hole, and only a receiver that notifies of holes
    /// notifies then.
    #[test]
    fn a_reported_hole_notifies_where_the_knob_says_so() {
        for (knob, expect) in [(false, [false; 5]), (true, [false, false, false, true, false])] {
            let mut receiver = Receiver::new(Recovery::SelectiveRepeat, 1, 2, Some(50_000)).hole_notifies(knob);
            let cnps = [(1, 0), (2, 2), (3, 3), (4, 4), (5, 5)]
                .map(|(us, psn)| receiver.on_data(Instant::from_nanos(us * 1_000), psn, false, false).cnp);
            assert_eq!(cnps, expect, "5 is within 50 us");
        }
    }
}
