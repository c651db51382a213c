//! Answers that wait a moment for data to go with them.
//!
//! Some applications answer writes with writes. The acknowledgement of a write (SACK and Transport ACK) and the
//! application's own write are then made within a microsecond or two of each other. Sent first, the answer holds the
//! write up by as long as a system call takes that carries a frame to the other host. So answers wait up to a given
//! delay, but only where writes have followed closely before: receivers of one-way traffic answer at once.
//!
//! Right behind the write of ours, the answers hold up what is done with the peer's next one. Some peers wait for our
//! write only and go on without them. Such a peer gets the acknowledgements of two delays together, behind one of our
//! writes, and after four delays at the latest; but a SACK leaves behind each write of ours, while the peer has that to
//! do with. SACKs are as many as writes however long they wait, where one Transport ACK tells all. Whether the peer
//! goes on is tried out, ever more rarely where it does not.

use std::time::Duration;

use mrc_core::Instant;

/// Writes in reply that make answers wait, and how many of them one wait in vain outweighs.
const MOST: u8 = 8;
const IN_VAIN: u8 = 4;
/// Longest delay, in nanoseconds: answers may wait for several of them.
const LONGEST_NS: u64 = 1_000_000_000;
/// Writes in reply between two tries whether the peer goes on without answers, at first and after many tries in vain.
const FIRST_TRY: u32 = 32;
const LAST_TRY: u32 = 8192;

#[derive(Debug)]
pub(super) struct Hold {
    delay_ns: u64,
    /// Since when answers wait.
    since: Option<Instant>,
    /// Until when they do, as things are.
    until: Option<Instant>,
    /// When the last ones left.
    answered: Instant,
    /// How well waiting has done.
    score: u8,
    /// Writes received when ours left while answers waited on, and when that was.
    replied: Option<(u64, Instant)>,
    /// How well the peer goes on without answers.
    goes_on: u8,
    /// Writes in reply until the next try, and between this one and the one behind.
    next_try: u32,
    tries: u32,
}

impl Hold {
    pub(super) fn new(delay: Duration) -> Self {
        let delay_ns = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX).min(LONGEST_NS);
        Self {
            delay_ns,
            since: None,
            until: None,
            answered: Instant::ZERO,
            score: 0,
            replied: None,
            goes_on: 0,
            next_try: FIRST_TRY,
            tries: FIRST_TRY,
        }
    }

    /// Whether the answers that are owed wait on, after `requests` did or did not leave in this turn. `writes` counts what
    /// was received.
    pub(super) fn holds(&mut self, now: Instant, owes: bool, requests: bool, writes: u64) -> bool {
        if !owes {
            // Also when they went with their queue pair.
            (self.since, self.until, self.replied) = (None, None, None);
            return false;
        }
        let since = *self.since.get_or_insert(now);
        let waited = now.since(since);
        if self.replied.is_some_and(|(before, _)| writes > before) {
            (self.goes_on, self.tries, self.replied) = (MOST.min(self.goes_on + 2), FIRST_TRY, None);
        }
        if requests {
            self.score = MOST.min(self.score + 1);
            if waited < 2 * self.delay_ns && self.waits_behind() {
                self.replied = Some((writes, now));
                return self.waits_until(now.after(2 * self.delay_ns));
            }
        } else if let Some((_, at)) = self.replied {
            if now.since(at) < 2 * self.delay_ns {
                return true;
            }
            // The peer does nothing before it has them.
            self.goes_on = self.goes_on.saturating_sub(2);
            if self.goes_on == 0 {
                self.tries = LAST_TRY.min(self.tries.saturating_mul(2));
                self.next_try = self.tries;
            }
        } else if self.score > 0 {
            // A write that came just before the end is worth a reply, too.
            let most = if self.goes_on > 0 { 3 * self.delay_ns } else { self.delay_ns };
            if waited < most {
                return self.waits_until(since.after(most));
            }
            self.score = self.score.saturating_sub(IN_VAIN);
        }
        (self.since, self.until, self.replied) = (None, None, None);
        self.answered = now;
        false
    }

    fn waits_until(&mut self, until: Instant) -> bool {
        self.until = Some(until);
        true
    }

    /// Whether answers wait on behind a write in reply.
    fn waits_behind(&mut self) -> bool {
        if self.goes_on == 0 {
            self.next_try = self.next_try.saturating_sub(1);
        }
        self.goes_on > 0 || (self.next_try == 0 && self.score == MOST)
    }

    /// Requests left without answers: had the last ones better waited?
    pub(super) fn requested(&mut self, now: Instant) {
        if now.since(self.answered) < 2 * self.delay_ns {
            self.score = MOST.min(self.score + 1);
        }
    }

    /// When answers leave at the latest.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1000)
    }

    #[test]
    fn one_way_traffic_is_answered_at_once() {
        let mut hold = Hold::new(Duration::from_micros(20));
        for us in (1000..2000).step_by(10) {
            assert!(!hold.holds(at(us), true, false, us));
            assert_eq!(hold.until(), None);
        }
    }

    #[test]
    fn where_writes_follow_writes_answers_wait_for_them_and_no_longer() {
        let mut hold = Hold::new(Duration::from_micros(20));
        // A write in reply that came after the answer.
        assert!(!hold.holds(at(1000), true, false, 1));
        hold.requested(at(1002));
        // So the next answer waits, and leaves with the write.
        assert!(hold.holds(at(1010), true, false, 2));
        assert_eq!(hold.until(), Some(at(1030)));
        assert!(!hold.holds(at(1012), true, true, 2));
        assert_eq!(hold.until(), None);
        // No write this time.
        assert!(hold.holds(at(1020), true, false, 3));
        assert!(hold.holds(at(1039), true, false, 3));
        assert!(!hold.holds(at(1040), true, false, 3));
        // That was one wait in vain: no more of them.
        assert!(!hold.holds(at(1050), true, false, 4));
    }

    #[test]
    fn answers_that_are_gone_leave_no_clock_behind() {
        let mut hold = Hold::new(Duration::from_micros(20));
        assert!(!hold.holds(at(1000), true, false, 1));
        hold.requested(at(1002));
        assert!(hold.holds(at(1010), true, false, 2));
        // Their queue pair was destroyed. The next ones have a delay of their own.
        assert!(!hold.holds(at(1011), false, false, 2));
        assert_eq!(hold.until(), None);
        assert!(hold.holds(at(1100), true, false, 3));
        assert_eq!(hold.until(), Some(at(1120)));
    }

    #[test]
    fn without_a_delay_nothing_waits() {
        let mut hold = Hold::new(Duration::ZERO);
        for us in 1000..1100 {
            assert!(!hold.holds(at(us), true, us % 2 == 0, us));
            hold.requested(at(us));
        }
    }

    /// Writes in turn, a reply 1 us after each; the peer's next one comes 9 us later, or 9 us after the answers. How many
    /// times answers were sent, and how long it took.
    fn ping_pong(hold: &mut Hold, from: u64, rounds: u64, needs_answers: bool) -> (u64, u64) {
        let (mut us, mut answers, mut owes) = (from, 0, false);
        for write in 1..=rounds {
            owes = true;
            let write = from + write;
            for requests in [false, true] {
                if owes && !hold.holds(at(us), owes, requests, write) {
                    (owes, answers) = (false, answers + 1);
                    if !requests {
                        hold.requested(at(us + 1));
                    }
                }
                us += 1;
            }
            while needs_answers && owes {
                us = hold.until().map_or(us, |until| us.max(until.as_nanos() / 1000));
                if !hold.holds(at(us), true, false, write) {
                    (owes, answers) = (false, answers + 1);
                }
            }
            us += 7;
        }
        assert!(!needs_answers || !owes);
        (answers, us - from)
    }

    #[test]
    fn a_peer_that_goes_on_gets_its_answers_together() {
        let mut hold = Hold::new(Duration::from_micros(20));
        ping_pong(&mut hold, 1000, 100, false);
        let (answers, took) = ping_pong(&mut hold, 10_000, 900, false);
        assert_eq!(took, 8100, "nobody waits for a clock");
        assert!((150..=225).contains(&answers), "{answers} for 900 writes of 9 us each");
    }

    #[test]
    fn a_peer_that_waits_for_answers_is_tried_rarely() {
        let mut hold = Hold::new(Duration::from_micros(20));
        ping_pong(&mut hold, 1000, 100, true);
        let (answers, took) = ping_pong(&mut hold, 10_000, 10_000, true);
        assert_eq!(answers, 10_000, "one for each");
        // Tries in vain, of 40 us each, double the distance to the next one.
        assert!(took > 90_000 && took < 90_000 + 12 * 41, "{took}");
        // It changes its mind; the next try finds out. And back: a few waits in vain end it.
        let (answers, _) = ping_pong(&mut hold, 900_000, 20_000, false);
        assert!(answers < 15_000, "{answers}");
        let (answers, took) = ping_pong(&mut hold, 2_000_000, 1000, true);
        assert_eq!(answers, 1000);
        assert!(took < 9000 + 12 * 41, "{took}");
    }

    #[test]
    fn a_peer_that_stops_is_answered_in_time() {
        for stop in 0..40 {
            let mut hold = Hold::new(Duration::from_micros(20));
            let (_, took) = ping_pong(&mut hold, 1000, 200 + stop, false);
            let last = 1000 + took;
            let end = (last..last + 200).find(|&us| !hold.holds(at(us), true, us == last + 1, 1201 + stop));
            assert!(end.is_some_and(|end| end <= last + 80), "{end:?} after {last}");
            assert_eq!(hold.until(), None);
        }
    }
}
