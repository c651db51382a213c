//! Answers that wait a moment for data to go with them.
//!
//! Where an application answers writes with writes, the answer to a write (SACK and Transport ACK) and the application's
//! own write are made within a microsecond or two of each other. Sent first, the answer holds the write up by as long as a
//! system call takes that carries a frame to the other host. So answers wait up to a given delay, but only where writes
//! have followed closely before: receivers of one-way traffic answer at once.

use std::time::Duration;

use mrc_core::Instant;

/// Writes in reply that make answers wait, and how many of them one wait in vain outweighs.
const MOST: u8 = 8;
const IN_VAIN: u8 = 4;

#[derive(Debug)]
pub(super) struct Hold {
    delay_ns: u64,
    /// Since when answers wait.
    since: Option<Instant>,
    /// When the last ones left.
    answered: Instant,
    /// How well waiting has done.
    score: u8,
}

impl Hold {
    pub(super) fn new(delay: Duration) -> Self {
        let delay_ns = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        Self { delay_ns, since: None, answered: Instant::ZERO, score: 0 }
    }

    /// Whether the answers that are owed wait on, after `requests` did or did not leave in this turn.
    pub(super) fn holds(&mut self, now: Instant, owes: bool, requests: bool) -> bool {
        if !owes {
            return false;
        }
        let since = *self.since.get_or_insert(now);
        if requests {
            self.score = MOST.min(self.score + 1);
        } else if self.score > 0 {
            if now.since(since) < self.delay_ns {
                return true;
            }
            self.score = self.score.saturating_sub(IN_VAIN);
        }
        self.since = None;
        self.answered = now;
        false
    }

    /// Requests left without answers: had the last ones better waited?
    pub(super) fn requested(&mut self, now: Instant) {
        if now.since(self.answered) < 2 * self.delay_ns {
            self.score = MOST.min(self.score + 1);
        }
    }

    /// When answers leave at the latest.
    pub(super) fn until(&self) -> Option<Instant> {
        self.since.map(|since| since.after(self.delay_ns))
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
            assert!(!hold.holds(at(us), true, false));
            assert_eq!(hold.until(), None);
        }
    }

    #[test]
    fn where_writes_follow_writes_answers_wait_for_them_and_no_longer() {
        let mut hold = Hold::new(Duration::from_micros(20));
        // A write in reply that came after the answer.
        assert!(!hold.holds(at(1000), true, false));
        hold.requested(at(1002));
        // So the next answer waits, and leaves with the write.
        assert!(hold.holds(at(1010), true, false));
        assert_eq!(hold.until(), Some(at(1030)));
        assert!(!hold.holds(at(1012), true, true));
        assert_eq!(hold.until(), None);
        // No write this time.
        assert!(hold.holds(at(1020), true, false));
        assert!(hold.holds(at(1039), true, false));
        assert!(!hold.holds(at(1040), true, false));
        // That was one wait in vain: no more of them.
        assert!(!hold.holds(at(1050), true, false));
    }

    #[test]
    fn without_a_delay_nothing_waits() {
        let mut hold = Hold::new(Duration::ZERO);
        for us in 1000..1100 {
            assert!(!hold.holds(at(us), true, us % 2 == 0));
            hold.requested(at(us));
        }
    }
}
