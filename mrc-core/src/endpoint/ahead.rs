//! What the engine reads ahead by itself where QPs are many: for the frames of a received burst, the QPs whose turns come, and those
//! whose completions wait. Changes nothing, and nothing depends on it.

use super::{
    Endpoint, FrameSource,
    fetch::{part_of, read},
};
use crate::{Prefetch, prefetch::HINTS, qp::Qp, ready::List};

/// QPs from which on the engine reads ahead by itself: the blocks of so many do not fit a second-level cache.
const MANY: u64 = 256;

/// Turns that are known to come, frames that are read together, and packets of a turn, at most. Turns are a power of two, which
/// [`LAST`] masks.
const TURNS: usize = 16;
const FRAMES: usize = 16;
const PACKETS: u32 = 16;

/// How many turns before its own a QP's request is read, then where the order has its EVs, then these EVs. Each of them is found with
/// what was read before it.
#[cfg(feature = "prefetch")]
const BEFORE: [usize; 3] = [12, 8, 4];
#[cfg(not(feature = "prefetch"))]
const BEFORE: [usize; 3] = [1; 3];

/// Turns for which the engine reads together: loads of several turns wait for memory together, the instruction waits for nothing.
const TOGETHER: usize = if cfg!(feature = "prefetch") { 1 } else { TURNS / 2 };

/// How many posts before its own the place of a QP's request is read.
const PLACE: u32 = 8;

/// The turns behind the first one.
const LAST: u32 = TURNS.wrapping_sub(1) as u32;

const _: () = assert!(TURNS.is_power_of_two());

/// QPs and controllers that wait for a turn, at least, where turns are read ahead.
const WAITING: u32 = 16;

/// What is known of the turns with data that come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    /// The QPs that last got data to send, in turn: each learns which one did [`TURNS`] later.
    waiting: [u16; TURNS],
    waits: u32,
    /// The turns that come, from place `next` on.
    turns: [Turn; TURNS],
    next: u32,
    /// Turns to go before their order is looked up again, where it was wrong.
    left: u32,
    /// Whose turn it was at the last look.
    qp: Option<u32>,
}

/// A turn that comes.
#[derive(Clone, Copy, Debug)]
struct Turn {
    qp: u16,
    /// As far as is known.
    packets: u16,
}

impl Ahead {
    pub(super) const NONE: Self =
        Self { waiting: [0; TURNS], waits: 0, turns: [Turn { qp: 0, packets: 0 }; TURNS], next: 0, left: 0, qp: None };

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

    /// The QP that got data so many places before the next one.
    fn waited(&self, before: u32) -> u16 {
        let place = self.waits.wrapping_sub(before) & LAST;
        self.waiting.get(place as usize).copied().unwrap_or_default()
    }

    /// The turn that comes so many turns later.
    fn turn(&mut self, later: usize) -> Option<&mut Turn> {
        self.turns.get_mut((self.next as usize).wrapping_add(later) & LAST as usize)
    }

    /// Packets of the turns before that one.
    fn packets(&self, later: usize) -> u32 {
        let at = |turn: usize| self.turns.get((self.next as usize).wrapping_add(turn) & LAST as usize);
        (0..later).filter_map(at).fold(0, |sum, turn| u32::from(turn.packets).wrapping_add(sum))
    }
}

impl Endpoint<'_> {
    /// Whether there are so many QPs that packets wait for memory.
    #[inline(always)]
    pub(super) fn has_many(&self) -> bool {
        self.stats.states.connected() >= MANY
    }

    /// With many QPs: when a turn with data begins, reads for those behind it what each needs next.
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
        if waiting.len().saturating_add(self.ready.len()) < WAITING {
            return;
        }
        if self.ahead.turn(0).is_none_or(|turn| u32::from(turn.qp) != first) {
            // Another one had its turn.
            if let Some(left) = self.ahead.left.checked_sub(1) {
                self.ahead.left = left;
                return;
            }
            self.ahead.left = LAST;
            let mut next = first;
            for later in 0..TURNS {
                if let Some(turn) = self.ahead.turn(later) {
                    *turn = Turn { qp: next as u16, packets: 0 };
                }
                next = waiting.behind(self.qps, next).unwrap_or(first);
            }
            (1..TURNS).for_each(|later| self.fetch_turn(later));
            // The packets of the first one count for all others.
            self.fetch_found([1, 0, 1], BEFORE);
        }
        let together = (self.ahead.next as usize).is_multiple_of(TOGETHER);
        if together {
            self.fetch_found(BEFORE, BEFORE.map(|before| before.wrapping_add(TOGETHER)));
        }
        // Those that got data behind each other have their turns behind each other.
        let behind = self.qps.get(first as usize).map_or(0, |qp| qp.links.ahead);
        if let Some(turn) = self.ahead.turn(0) {
            *turn = Turn { qp: behind, packets: 0 };
        }
        if together {
            // The last ones.
            (0..TOGETHER).for_each(|before| self.fetch_turn(TURNS.wrapping_sub(before)));
        }
        self.ahead.next = self.ahead.next.wrapping_add(1);
    }

    /// What is found with what was read before, for the turns from `first` to `end` of each kind.
    #[inline(always)]
    fn fetch_found(&mut self, first: [usize; 3], end: [usize; 3]) {
        let ([request, order, evs], [no_request, no_order, no_evs]) = (first, end);
        (request..no_request).for_each(|later| self.fetch_request(later));
        (order..no_order).for_each(|later| self.fetch_order(later));
        (evs..no_evs).for_each(|later| self.fetch_evs(later));
    }

    /// Of the turn that comes so many turns later, what is found by the number of the QP.
    #[inline(always)]
    fn fetch_turn(&mut self, later: usize) {
        let Some(index) = self.ahead.turn(later).map(|turn| turn.qp) else { return };
        let Some(qp) = self.qps.get(usize::from(index)) else { return };
        qp.fetch_requester(&HINTS);
        qp.fetch_data(&HINTS);
        self.timers.fetch(index.into(), &HINTS);
    }

    /// The request, and what is kept of its packets.
    #[inline(always)]
    fn fetch_request(&mut self, later: usize) {
        let Some(index) = self.ahead.turn(later).map(|turn| turn.qp) else { return };
        let Some(qp) = self.qps.get(usize::from(index)) else { return };
        qp.sq.fetch_request(part_of(self.wqes, index.into(), self.limits.send_queue), &HINTS);
        self.fetch_window(index.into(), qp.req.max_sent.next(), &HINTS);
        self.fetch_peer(qp);
    }

    /// Where the order has the EVs of its packets. The order of the turns tells which numbers choose them.
    #[inline(always)]
    fn fetch_order(&mut self, later: usize) {
        let mut rng = self.rng;
        rng.skip(self.ahead.packets(later));
        let Some(turn) = self.ahead.turn(later) else { return };
        let index = u32::from(turn.qp);
        let Some(qp) = self.qps.get(index as usize) else { return };
        let packets = qp.sq.waiting(part_of(self.wqes, index, self.limits.send_queue)).min(PACKETS);
        turn.packets = packets as u16;
        qp.paths.fetch_order(self.order_of(index), packets, &mut rng, &HINTS);
        self.fetch_window(index, qp.req.max_sent.add(packets), &HINTS);
    }

    /// These EVs.
    #[inline(always)]
    fn fetch_evs(&mut self, later: usize) {
        let mut rng = self.rng;
        rng.skip(self.ahead.packets(later));
        let Some(turn) = self.ahead.turn(later).copied() else { return };
        let index = u32::from(turn.qp);
        let Some(qp) = self.qps.get(index as usize) else { return };
        qp.paths.fetch_evs(self.slots_of(index), self.order_of(index), turn.packets.into(), &mut rng, &HINTS);
    }

    /// With many QPs, when one got data to send: reads what posting to others will read, if they get data in the order of the last time.
    #[inline(always)]
    pub(super) fn fetch_posts(&self) {
        if self.has_many() {
            self.fetch_next_posts();
        }
    }

    #[inline(never)]
    fn fetch_next_posts(&self) {
        let behind = |before| self.qps.get(usize::from(self.ahead.waited(before))).map_or(0, |qp| qp.links.ahead);
        if let Some(qp) = self.qps.get(usize::from(behind(1))) {
            qp.fetch_post(&HINTS);
        }
        let index = behind(PLACE);
        if let Some(qp) = self.qps.get(usize::from(index)) {
            qp.sq.fetch_place(part_of(self.wqes, index.into(), self.limits.send_queue), &HINTS);
        }
    }

    /// Reads what the next frames of `source` will read; how many they are at most.
    // Inlined, so that the source stays in registers.
    #[inline(always)]
    pub(super) fn fetch_arrivals(&self, source: &impl FrameSource) -> usize {
        let mut last = None;
        for ahead in 0..FRAMES {
            let Some((opcode, qpn)) = source.peek(ahead).and_then(read) else { break };
            if last != Some(qpn) {
                self.fetch_opcode(opcode, qpn, &HINTS);
                last = Some(qpn);
            }
        }
        FRAMES
    }

    /// Reads what the completions that wait behind that of `index` will read.
    #[inline(always)]
    pub(super) fn fetch_held(&self, index: u32) {
        if !self.has_many() {
            return;
        }
        self.fetch_next_held(index);
    }

    #[inline(never)]
    fn fetch_next_held(&self, index: u32) {
        // Those that sent behind each other complete behind each other.
        let behind = |index: u32| self.qps.get(index as usize).map(|qp| u32::from(qp.links.ahead));
        let Some((index, qp)) = behind(index).and_then(|index| Some((index, self.qps.get(index as usize)?))) else {
            return;
        };
        let oldest = qp.sq.oldest(part_of(self.wqes, index, self.limits.send_queue));
        HINTS.prefetch_all(oldest.map(|(wqe, _)| &wqe.len));
        if let Some(qp) = behind(index).and_then(|index| self.qps.get(index as usize)) {
            qp.fetch_completion(&HINTS);
        }
    }

    #[inline]
    fn fetch_peer(&self, qp: &Qp) {
        let plane = (qp.peer as usize).checked_mul(self.limits.planes).and_then(|first| self.planes.get(first));
        if let Some(plane) = plane {
            HINTS.prefetch_all(plane.0.lines());
        }
        if let Some(peer) = self.peers.get(qp.peer as usize) {
            peer.fetch(&HINTS);
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
