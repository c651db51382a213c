//! Messages in flight of the queue pairs of a run. Posting and completing a message cost the same whatever their number.

use std::collections::VecDeque;
use std::ops::Range;

/// How many messages each queue pair has in flight, and which queue pairs have room for another.
pub struct InFlight {
    /// The first queue pair of the run.
    first: usize,
    /// Most messages of a queue pair.
    depth: u16,
    /// Messages of each queue pair, from the first on.
    messages: Vec<u16>,
    /// Queue pairs with room, each once; they take turns.
    free: VecDeque<usize>,
    total: u64,
}

impl InFlight {
    /// Nothing in flight on the queue pairs `qps`, each of which takes `depth` messages.
    pub fn new(qps: Range<usize>, depth: u16) -> Self {
        Self { first: qps.start, depth, messages: vec![0; qps.len()], free: qps.collect(), total: 0 }
    }

    /// The queue pair for the next message.
    pub fn next(&self) -> Option<usize> {
        self.free.front().copied()
    }

    /// A message was posted on the queue pair that [`next`](Self::next) named: the others have their turn first.
    pub fn posted(&mut self) {
        let Some(qp) = self.free.pop_front() else { return };
        let messages = &mut self.messages[qp - self.first];
        *messages += 1;
        self.total += 1;
        if *messages < self.depth {
            self.free.push_back(qp);
        }
    }

    /// A message of `qp` completed; of a queue pair of another run it means nothing.
    pub fn completed(&mut self, qp: usize) {
        let place = qp.checked_sub(self.first);
        let Some(messages) = place.and_then(|place| self.messages.get_mut(place)).filter(|messages| **messages > 0)
        else {
            return;
        };
        if *messages == self.depth {
            self.free.push_back(qp);
        }
        *messages -= 1;
        self.total -= 1;
    }

    /// Messages in flight on all queue pairs.
    pub fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Posts up to `most` messages; the queue pairs that took them, in order.
    fn post(in_flight: &mut InFlight, most: usize) -> Vec<usize> {
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some(qp) = in_flight.next()
        {
            in_flight.posted();
            taken.push(qp);
        }
        taken
    }

    #[test]
    fn queue_pairs_take_turns_until_each_is_full() {
        let mut in_flight = InFlight::new(4..7, 2);
        assert_eq!(post(&mut in_flight, 4), [4, 5, 6, 4], "an offered load is spread over all");
        assert_eq!(post(&mut in_flight, 100), [5, 6]);
        assert_eq!(in_flight.total(), 6);
        in_flight.completed(6);
        in_flight.completed(4);
        in_flight.completed(6);
        assert_eq!(post(&mut in_flight, 100), [6, 4, 6]);
    }

    #[test]
    fn completions_of_another_run_mean_nothing() {
        let mut in_flight = InFlight::new(4..6, 1);
        assert_eq!(post(&mut in_flight, 1), [4]);
        for stranger in [0, 3, 5, 6, usize::MAX] {
            in_flight.completed(stranger);
        }
        assert_eq!(in_flight.total(), 1);
        assert_eq!(post(&mut in_flight, 100), [5]);
    }
}
