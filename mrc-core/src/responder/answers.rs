//! Control packets a responder owes, oldest first. Bounded: in a full ring a new answer takes the place of one that says
//! less. Every SACK carries the whole cumulative state, so one of many can go. A refusal is said only once: when the ring is
//! full it waits in the pool that all QPs share (`refusals`).

use crate::{Prefetch, num::Counter};
use mrc_wire::{Ev, NackReason, Psn, Syndrome, TsethRepr, Verdict};

/// Answers one QP can owe: a burst of 64 received frames triggers about 16 SACKs at the default threshold.
const CAPACITY: usize = 16;

/// Kind of a control packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AnswerKind {
    /// A SACK; `probe_id` when it answers a probe.
    Sack { verdict: Verdict, probe_id: Option<u16> },
    /// A refusal of one packet.
    Nack(NackReason),
    /// A refusal of the request: the last thing a failed QP says.
    Nak(Syndrome),
}

impl AnswerKind {
    /// A SACK that says nothing of its own.
    pub(crate) const PLAIN_SACK: Self = Self::Sack { verdict: Verdict::None, probe_id: None };
}

/// Which timestamps a responder adds its service time to (open questions 21 and 22).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ServiceTime {
    Never,
    /// Those of the standard unit.
    Standard,
    /// Private ones as well, whose unit is a microsecond then.
    Any,
}

/// What the time since a packet arrived adds to the timestamp of its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Added {
    Nothing,
    Ticks,
    Microseconds,
}

impl ServiceTime {
    /// For a packet with this timestamp.
    //= CAP-002
    #[inline(always)]
    pub(crate) fn on(self, tseth: &TsethRepr) -> Added {
        match (self, tseth.tsr) {
            (Self::Never, _) | (Self::Standard, true) => Added::Nothing,
            _ if tseth.reflected() == 0 => Added::Nothing,
            (_, false) => Added::Ticks,
            (_, true) => Added::Microseconds,
        }
    }
}

/// A control packet to send, with what it echoes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub(crate) kind: AnswerKind,
    /// PSN of the packet answered.
    pub(crate) psn: Psn,
    pub(crate) ev: Ev,
    pub(crate) timestamp: u16,
    pub(crate) rtx: bool,
    /// What to add to the timestamp when this leaves.
    pub(crate) added: Added,
    /// When the packet arrived, in ticks of 128 ns.
    pub(crate) arrived: u16,
}

/// Priority of a pending control packet, lowest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Priority {
    /// What arrived, which any other SACK tells too.
    State,
    /// A congestion mark on an EV, or the answer to a probe.
    Verdict,
    /// A packet that must be retransmitted.
    Refusal,
    /// The end of the QP.
    FatalNak,
}

impl Answer {
    pub(super) const NONE: Self = Self {
        kind: AnswerKind::PLAIN_SACK,
        psn: Psn::new(0),
        ev: Ev(0),
        timestamp: 0,
        rtx: false,
        added: Added::Nothing,
        arrived: 0,
    };

    /// The timestamp to reflect in an answer that leaves at `now`, in ticks of 128 ns.
    //= TS-005
    pub(crate) fn reflected(&self, now: u16) -> u16 {
        let waited = now.wrapping_sub(self.arrived);
        let waited = match self.added {
            Added::Nothing => return self.timestamp,
            Added::Ticks => waited,
            Added::Microseconds => (u32::from(waited).wrapping_mul(128) / 1_000) as u16,
        };
        // 0 means "no timestamp": a sum that lands on it is moved by one tick.
        self.timestamp.wrapping_add(waited).max(1)
    }

    /// An answer that echoes nothing.
    pub(crate) const fn of(kind: AnswerKind) -> Self {
        Self { kind, ..Self::NONE }
    }

    /// Any later SACK says all that this one does.
    fn is_plain(&self) -> bool {
        self.priority() == Priority::State && !self.rtx
    }

    fn priority(&self) -> Priority {
        match self.kind {
            AnswerKind::PLAIN_SACK => Priority::State,
            AnswerKind::Sack { .. } => Priority::Verdict,
            AnswerKind::Nack(_) => Priority::Refusal,
            AnswerKind::Nak(_) => Priority::FatalNak,
        }
    }
}

/// The ring.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Answers {
    head: u8,
    len: u8,
    /// Places of the ring that an answer was written to: the others are as at first.
    used: u8,
    /// Answers that took another one's place since the counter was last read.
    merged: u32,
    ring: [Answer; CAPACITY],
}

impl Answers {
    pub(crate) const EMPTY: Self = Self { ring: [Answer::NONE; CAPACITY], head: 0, len: 0, used: 0, merged: 0 };

    /// As at first. Writes only what is not.
    pub(crate) fn clear(&mut self) {
        self.ring.iter_mut().take(self.used.into()).for_each(|answer| *answer = Answer::NONE);
        let Self { head, len, used, merged, ring: _ } = self;
        (*head, *len, *used, *merged) = (0, 0, 0, 0);
    }

    /// Queues a SACK, or puts it in the place of the newest that waits where that one has nothing to say that this one does
    /// not: neither has a mark, a probe's number or the echo of a retransmission.
    //= SACK-007
    #[inline(never)]
    pub(crate) fn merge(&mut self, sack: Answer) {
        let newest = if self.len == 0 { None } else { Some(self.place((self.len as usize).wrapping_sub(1))) };
        match newest.and_then(|at| self.ring.get_mut(at)) {
            Some(newest) if newest.is_plain() && sack.is_plain() => {
                *newest = sack;
                self.merged = self.merged.saturating_add(1);
            }
            _ => self.push(sack),
        }
    }

    /// Queues `answer`. In a full ring it takes the place of the newest among those that say least, if they say no more
    /// than itself. A SACK goes in however little it says when no other one waits.
    #[inline(never)]
    pub(crate) fn push(&mut self, answer: Answer) {
        let len = self.len as usize;
        let nth = if len < CAPACITY {
            self.len.inc();
            len
        } else {
            self.merged = self.merged.saturating_add(1);
            let Some((least, nth)) = self.least() else { return };
            let priority = answer.priority();
            if priority < least && !(priority <= Priority::Verdict && least >= Priority::Refusal) {
                return;
            }
            nth
        };
        let at = self.place(nth);
        if let Some(slot) = self.ring.get_mut(at) {
            *slot = answer;
            self.used = self.used.max((at as u8).wrapping_add(1));
        }
    }

    /// Where the answer with this place in the queue lies.
    fn place(&self, nth: usize) -> usize {
        (self.head as usize).wrapping_add(nth) % CAPACITY
    }

    /// The newest of the waiting answers that say least, by its place in the queue.
    fn least(&self) -> Option<(Priority, usize)> {
        let priority = |nth| self.ring.get(self.place(nth)).map(Answer::priority);
        (0..self.len as usize).rev().filter_map(|nth| Some((priority(nth)?, nth))).min_by_key(|(priority, _)| *priority)
    }

    #[cfg(test)]
    pub(crate) const fn len(&self) -> u8 {
        self.len
    }

    #[inline]
    pub(crate) const fn is_full(&self) -> bool {
        self.len as usize >= CAPACITY
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the first answer goes when none waits: mostly the oldest lies there.
    #[inline]
    pub(crate) fn fetch(&self, memory: &impl Prefetch) {
        memory.prefetch_all(self.ring.first().map(|answer| &answer.psn));
    }

    pub(crate) fn front(&self) -> Option<Answer> {
        if self.len == 0 { None } else { self.ring.get(self.head as usize).copied() }
    }

    pub(crate) fn pop(&mut self) {
        if self.len > 0 {
            // An empty ring begins anew, so that few answers touch few lines of memory.
            self.head = if self.len == 1 { 0 } else { self.place(1) as u8 };
            self.len.dec();
        }
    }

    pub(crate) fn take_merged(&mut self) -> u32 {
        core::mem::take(&mut self.merged)
    }
}

crate::image::stored!(enum ServiceTime { 0 => Never, 1 => Standard, 2 => Any });
crate::image::stored!(enum Added { 0 => Nothing, 1 => Ticks, 2 => Microseconds });
crate::image::stored!(enum AnswerKind { 0 => Sack { verdict, probe_id }, 1 => Nack(reason), 2 => Nak(syndrome) });
crate::image::stored!(struct Answer { kind, psn, ev, timestamp, rtx, added, arrived });
crate::image::stored!(
    struct Answers { head, len, merged, ring } rebuilt { used: CAPACITY as u8 }
    where |answers| usize::from(answers.head) < CAPACITY && usize::from(answers.len) <= CAPACITY
);

#[cfg(test)]
mod tests {
    use super::*;

    //= TS-005, CAP-002 test
    #[test]
    fn service_time_is_added_to_a_reflected_stamp_only_when_agreed() {
        let answer = Answer { timestamp: 0xFFF0, arrived: 100, ..Answer::NONE };
        assert_eq!(answer.reflected(164), 0xFFF0);
        let answer = Answer { added: Added::Ticks, ..answer };
        assert_eq!(answer.reflected(100), 0xFFF0);
        assert_eq!(answer.reflected(164), 0x30, "both clocks wrap");
        assert_eq!(answer.reflected(116), 1, "0 would mean that there is no stamp");
        let answer = Answer { added: Added::Microseconds, ..answer };
        assert_eq!(answer.reflected(164), 0xFFF8, "64 ticks are 8.2 us");
    }

    fn psns(answers: &mut Answers) -> std::vec::Vec<u32> {
        let next = || {
            let front = answers.front();
            answers.pop();
            front.map(|answer| answer.psn.value())
        };
        std::iter::from_fn(next).collect()
    }

    fn sack(psn: u32, verdict: Verdict) -> Answer {
        Answer { psn: Psn::new(psn), ..Answer::of(AnswerKind::Sack { verdict, probe_id: None }) }
    }

    fn refusal(psn: u32) -> Answer {
        Answer { psn: Psn::new(psn), ..Answer::of(AnswerKind::Nack(NackReason::Trimmed)) }
    }

    #[test]
    fn answers_leave_in_order_round_the_ring_and_an_empty_one_begins_anew() {
        let mut answers = Answers::EMPTY;
        answers.push(refusal(0));
        let rounds = 2 * CAPACITY as u32 + 3;
        for psn in 1..=rounds {
            answers.push(refusal(psn));
            assert_eq!(answers.front(), Some(refusal(psn - 1)));
            answers.pop();
        }
        assert_eq!(answers.head, 3);
        assert_eq!((psns(&mut answers), answers.head), (std::vec![rounds], 0));
    }

    #[test]
    fn a_full_ring_keeps_the_oldest_and_the_newest() {
        let mut answers = Answers::EMPTY;
        for psn in 0..20 {
            answers.push(sack(psn, Verdict::None));
        }
        assert_eq!(answers.take_merged(), 4);
        let psns = psns(&mut answers);
        assert_eq!(psns.len(), CAPACITY);
        assert_eq!((psns[0], psns[14], psns[15]), (0, 14, 19));
    }

    /// A trim NACK lost here would be a loss found by inference or timeout.
    #[test]
    fn a_full_ring_gives_up_what_says_least() {
        let mut answers = Answers::EMPTY;
        for psn in 0..16 {
            answers.push(if psn == 3 { refusal(psn) } else { sack(psn, Verdict::None) });
        }
        for psn in 20..25 {
            answers.push(refusal(psn));
        }
        answers.push(sack(30, Verdict::SkipOnce));
        answers.push(sack(31, Verdict::None));
        assert_eq!(answers.take_merged(), 7);
        assert_eq!(psns(&mut answers), [0, 1, 2, 3, 4, 5, 6, 7, 8, 31, 30, 24, 23, 22, 21, 20]);
    }

    /// Marks that wait are SACKs already: one that says less than they do need not go in.
    #[test]
    fn a_ring_full_of_marks_takes_no_plain_sack() {
        let mut answers = Answers::EMPTY;
        for psn in 0..16 {
            answers.push(sack(psn, Verdict::SkipOnce));
        }
        answers.push(sack(16, Verdict::None));
        assert_eq!(psns(&mut answers), (0..16).collect::<std::vec::Vec<_>>());
    }

    #[test]
    fn a_ring_full_of_refusals_still_takes_one_sack() {
        let mut answers = Answers::EMPTY;
        for psn in 0..20 {
            answers.push(refusal(psn));
        }
        answers.push(sack(40, Verdict::None));
        answers.push(refusal(41));
        answers.push(sack(42, Verdict::None));
        let psns = psns(&mut answers);
        assert_eq!((psns.len(), psns[14], psns[15]), (16, 14, 42));
    }

    #[test]
    fn where_the_next_answer_is_noted_is_read_ahead() {
        let (answers, asked) = (Answers::EMPTY, crate::prefetch::Asked::default());
        answers.fetch(&asked);
        assert_eq!((asked.within(&answers.ring[0]), asked.words()), (1, 1));
    }
}
