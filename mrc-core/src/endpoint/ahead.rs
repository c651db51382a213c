//! What the engine reads ahead by itself where QPs are many: for the frames of a received burst, the QPs whose turns come, and those
//! whose completions wait. Changes nothing, and nothing depends on it.

use super::{
    Endpoint, FrameSource,
    fetch::{part_of, read},
};
use crate::{Loads, Prefetch, qp::Qp, ready::List, rng::Rng};

/// QPs from which on the engine reads ahead by itself: the blocks of so many do not fit a second-level cache.
const MANY: u64 = 256;

/// Turns, frames and packets of a turn that are read together, at most. Turns are a power of two, which [`LAST`] masks.
const TURNS: usize = 8;
const FRAMES: usize = 16;
const PACKETS: u32 = 16;

/// The turns that are left of them when the first one has begun.
const LAST: u32 = TURNS.wrapping_sub(1) as u32;

const _: () = assert!(TURNS.is_power_of_two());

/// QPs and controllers that wait for a turn, at least, where turns are read ahead.
const WAITING: u32 = 16;

/// No queue pair but the last of 65 536 has this number.
const NOBODY: u16 = u16::MAX;

/// What is known of the turns with data that come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    /// The QPs that last got data to send, in turn: each learns which one did [`TURNS`] later.
    waiting: [u16; TURNS],
    waits: u32,
    /// The QPs that were read ahead.
    read: [u16; TURNS],
    /// Turns of them that have not begun.
    left: u32,
    /// Whose turn it was at the last look.
    qp: Option<u32>,
}

impl Ahead {
    pub(super) const NONE: Self = Self { waiting: [0; TURNS], waits: 0, read: [NOBODY; TURNS], left: 0, qp: None };

    /// `qp` stands behind all that wait.
    #[inline(never)]
    pub(super) fn waits(&mut self, qps: &mut [Qp], qp: u32) {
        let place = self.waits as usize & LAST as usize;
        self.waits = self.waits.wrapping_add(1);
        let Some(waiting) = self.waiting.get_mut(place) else { return };
        let before = core::mem::replace(waiting, qp as u16);
        if let Some(slot) = qps.get_mut(usize::from(before)) {
            slot.links.ahead = qp as u16;
        }
    }

    /// The same, unless it stands there already.
    #[inline(always)]
    pub(super) fn joins(&mut self, qps: &mut [Qp], qp: u32, has_many: bool) {
        if has_many && qps.get_mut(qp as usize).is_some_and(|slot| !slot.links.get(List::NewData).is_queued()) {
            self.waits(qps, qp);
        }
    }
}

impl Endpoint<'_> {
    /// Whether there are so many QPs that packets wait for memory.
    #[inline(always)]
    pub(super) fn has_many(&self) -> bool {
        self.stats.states.connected() >= MANY
    }

    /// With many QPs: at the first of some turns with data, reads what those behind them will read.
    #[inline(never)]
    pub(super) fn fetch_turns(&mut self) {
        let qpcc = self.ready.front().and_then(|qpcc| self.qpccs.get(qpcc as usize));
        let Some((waiting, first)) = qpcc.and_then(|qpcc| Some((qpcc.new_data, qpcc.new_data.front()?))) else {
            return;
        };
        if self.ahead.qp.replace(first) == Some(first) {
            // Its turn goes on.
            return;
        }
        if let Some(left) = self.ahead.left.checked_sub(1) {
            self.ahead.left = left;
            return;
        }
        if waiting.len().saturating_add(self.ready.len()) < WAITING {
            return;
        }
        self.ahead.left = LAST;
        let mut now = self.ahead.read;
        if now.first().is_none_or(|&qp| u32::from(qp) != first) {
            // Others had turns: from the first one on, each leads to the one behind it.
            now = [0; TURNS];
            let mut next = first;
            for qp in &mut now {
                *qp = next as u16;
                next = waiting.behind(self.qps, next).unwrap_or(first);
            }
        }
        let read = now.map(|qp| self.qps.get(usize::from(qp)).map_or(0, |qp| qp.links.ahead));
        self.ahead.read = read;
        self.fetch_qps(&now, &read);
    }

    /// Reads what sending from the QPs `read` reads, when those of `now` have sent.
    fn fetch_qps(&self, now: &[u16; TURNS], read: &[u16; TURNS]) {
        // First where each is known to lie, so that no read waits for another.
        for &index in read {
            let Some(qp) = self.qps.get(usize::from(index)) else { continue };
            qp.fetch_requester(&Loads);
            qp.fetch_data(&Loads);
            self.timers.fetch(index.into(), &Loads);
        }
        // Then where the QPs say that there is more. The order of the turns tells which numbers choose the paths of each.
        let mut rng = self.rng;
        for &index in now {
            (0..self.waiting(index)).for_each(|_| _ = rng.next_u64());
        }
        for &index in read {
            let Some(qp) = self.qps.get(usize::from(index)) else { continue };
            self.fetch_sending(index.into(), qp, self.waiting(index), &mut rng);
        }
    }

    /// Packets that QP `index` may send in its next turn.
    fn waiting(&self, index: u16) -> u32 {
        let qp = self.qps.get(usize::from(index));
        qp.map_or(0, |qp| qp.sq.waiting(part_of(self.wqes, index.into(), self.limits.send_queue)).min(PACKETS))
    }

    /// Reads what the next frames of `source` will read; how many they are at most.
    // Inlined, so that the source stays in registers.
    #[inline(always)]
    pub(super) fn fetch_arrivals(&self, source: &impl FrameSource) -> usize {
        let mut last = None;
        for ahead in 0..FRAMES {
            let Some((opcode, qpn)) = source.peek(ahead).and_then(read) else { break };
            if last != Some(qpn) {
                self.fetch_opcode(opcode, qpn, &Loads);
                last = Some(qpn);
            }
        }
        FRAMES
    }

    /// Reads what the completions that wait longest for room will read; of how many QPs.
    #[inline(never)]
    pub(super) fn fetch_held(&self) -> usize {
        if !self.has_many() {
            return usize::MAX;
        }
        let mut next = self.held_completions.front();
        for _ in 0..TURNS {
            let Some(qp) = next.and_then(|index| self.qps.get(index as usize)) else { break };
            // Those that sent behind each other complete behind each other.
            let index = u32::from(qp.links.ahead);
            if let Some(qp) = self.qps.get(index as usize) {
                let oldest = qp.sq.oldest(part_of(self.wqes, index, self.limits.send_queue));
                qp.fetch_completion(&Loads);
                Loads.prefetch_all(oldest.map(|(wqe, _)| &wqe.len));
            }
            next = self.held_completions.behind_of(&qp.links);
        }
        TURNS
    }

    /// What sending so many packets reads where the QP says that it lies.
    fn fetch_sending(&self, index: u32, qp: &Qp, packets: u32, rng: &mut Rng) {
        qp.paths.fetch_evs(self.slots_of(index), self.order_of(index), packets, rng, &Loads);
        self.fetch_window(index, qp.req.max_sent.next(), &Loads);
        self.fetch_window(index, qp.req.max_sent.add(packets), &Loads);
        self.fetch_peer(qp);
        self.timers.fetch(index, &Loads);
    }

    #[inline]
    fn fetch_peer(&self, qp: &Qp) {
        let plane = (qp.peer as usize).checked_mul(self.limits.planes).and_then(|first| self.planes.get(first));
        if let Some(plane) = plane {
            Loads.prefetch_all(plane.0.lines());
        }
        if let Some(peer) = self.peers.get(qp.peer as usize) {
            peer.fetch(&Loads);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Members in the order in which they came to wait: each leads to the one that came [`TURNS`] later, as far as one has.
    #[test]
    fn a_queue_pair_learns_which_one_has_its_turn_some_turns_later() {
        let mut qps = std::vec![Qp::EMPTY; 3 * TURNS];
        let mut ahead = Ahead::NONE;
        let order: std::vec::Vec<u32> = (0..qps.len() as u32).rev().collect();
        for &qp in &order {
            ahead.joins(&mut qps, qp, true);
        }
        let led = |qps: &[Qp], qp: u32| u32::from(qps[qp as usize].links.ahead);
        for places in order.windows(TURNS + 1).skip(1) {
            assert_eq!(led(&qps, places[0]), places[TURNS]);
        }
        // With few queue pairs nothing is noted.
        let mut few = std::vec![Qp::EMPTY; 3 * TURNS];
        order.iter().for_each(|&qp| ahead.joins(&mut few, qp, false));
        assert!(few.iter().all(|qp| qp.links.ahead == 0));
    }
}
