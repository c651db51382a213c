//! Reading ahead. A frame begins with what memory holds of its QP, and where QPs are many each of these reads waits for
//! memory. What several frames will read is therefore read first, and memory answers such reads together: the frames of a received
//! burst, the QPs whose turns come, those whose completions wait. With many QPs the engine does so by itself. A simulator that
//! moves frames one by one between many endpoints asks for it. Changes nothing, and nothing depends on it.

use mrc_wire::{EvTemplate, FrameTemplate, PortNum, Qpn};

use super::{Endpoint, FrameSource, PeerSlot};
use crate::{
    cc::Qpcc,
    path::EvSlot,
    port::PortMask,
    qp::{Qp, QpHandle},
    ready::List,
    requester::TxWindow,
    rng::Rng,
};

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
        if has_many && qps.get_mut(qp as usize).is_some_and(|slot| !slot.links.get(List::Fresh).is_queued()) {
            self.waits(qps, qp);
        }
    }
}

/// Something that an endpoint will soon do, and how much of what that reads was read: see [`Endpoint::fetch`]. A simulator of many
/// endpoints keeps one for each of the events that come, so that memory answers the reads of all of them together.
#[derive(Clone, Copy, Debug)]
pub struct Upcoming {
    step: Step,
    /// That of the port which has room.
    plane: u8,
    /// See [`Upcoming::take_offset`].
    offset: Option<u64>,
}

/// What is read next. Each step reads what needs no other read of the same step to be found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Done,
    /// The responder of a QP.
    Responder(u32),
    /// The requester of a QP, then what it points to.
    Requester(u32),
    Acked(u32),
    /// The deadlines of a QP: mostly they have moved on, and nothing else is read.
    Deadlines(u32),
    /// A QP with answers, or a controller, which says which QP sends.
    Answering(u32),
    Controller(u32),
    /// The only QP that may send for a controller: unless it leaves the port to others.
    Alone(u32),
    Sending(u32),
    Path(u32),
    /// Where the headers of a packet to a peer begin.
    Headers(u32),
}

impl Upcoming {
    /// Nothing.
    pub const NONE: Self = Self::at(Step::Done);

    const fn at(step: Step) -> Self {
        Self { step, plane: 0, offset: None }
    }

    /// The next [`Endpoint::post_send`] to this QP.
    pub const fn post(qp: QpHandle) -> Self {
        Self::at(Step::Sending(qp.index))
    }

    /// Whether nothing is left to read.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.step == Step::Done
    }

    /// Where the request lies in its region whose packets are sent next: known for one step, and a guess.
    #[inline]
    pub fn take_offset(&mut self) -> Option<u64> {
        self.offset.take()
    }
}

/// Ethernet, and the lengths of what may lie between it and BTH.
const ETH: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;
/// Where an IPv6 header says what follows it, and how it says that another one does.
const NEXT_HEADER: usize = 6;
const IS_IPV6: u8 = 41;
/// Where BTH has the opcode and the QP number.
const OPCODE: usize = 0;
const DEST_QP: usize = 5;
/// First opcode of what answers packets of our own.
const FIRST_ANSWER: u8 = mrc_wire::Opcode::Ack.to_u8();

/// Opcode and destination of a frame, without any check.
#[inline]
fn read(head: &[u8]) -> Option<(u8, Qpn)> {
    let l3 = match head.get(ETH)? >> 4 {
        4 => IPV4,
        _ if *head.get(ETH + NEXT_HEADER)? == IS_IPV6 => 2 * IPV6,
        _ => IPV6,
    };
    let bth: &[u8; DEST_QP + 3] = head.get(l3.wrapping_add(ETH + UDP)..)?.first_chunk()?;
    let [.., high, middle, low] = *bth;
    Some((bth[OPCODE], Qpn::new(u32::from_be_bytes([0, high, middle, low]))))
}

/// The part of `slice` that belongs to element `index` when each owns `each`.
fn part_of<T>(slice: &[T], index: u32, each: usize) -> &[T] {
    slice.get((index as usize).wrapping_mul(each)..).and_then(|rest| rest.get(..each)).unwrap_or_default()
}

impl Endpoint<'_> {
    /// Reads what [`Endpoint::handle_packet`] will read for the frame with this head, where `head` is such a frame. The number that
    /// comes back means nothing but that the reads were done.
    ///
    /// A driver with several frames at hand calls this for each of them, and then hands them over: what memory does not
    /// hold in its caches then arrives together, not frame after frame.
    pub fn fetch_for(&self, head: &[u8]) -> u32 {
        read(head).map_or(0, |(opcode, qpn)| self.fetch_opcode(opcode, qpn))
    }

    #[inline(never)]
    fn fetch_opcode(&self, opcode: u8, qpn: Qpn) -> u32 {
        let index = self.slot_of(qpn);
        let Some(qp) = self.qps.get(index as usize) else { return 0 };
        if opcode < FIRST_ANSWER { qp.fetch_responder() } else { self.fetch_requester(index, qp) }
    }

    /// An [`Endpoint::handle_packet`] of a frame with this head.
    pub fn upcoming_packet(&self, head: &[u8]) -> Upcoming {
        read(head).map_or(Upcoming::NONE, |(opcode, qpn)| {
            let qp = self.slot_of(qpn);
            Upcoming::at(if opcode < FIRST_ANSWER { Step::Responder(qp) } else { Step::Requester(qp) })
        })
    }

    /// The next [`Endpoint::poll_transmit`] with room at this port.
    pub fn upcoming_transmit(&self, port: PortNum) -> Upcoming {
        let step = match (self.control.front(), self.ready.front()) {
            (Some(qp), _) => Step::Answering(qp),
            (None, Some(qpcc)) => Step::Controller(qpcc),
            (None, None) => Step::Done,
        };
        Upcoming { plane: port.plane(), ..Upcoming::at(step) }
    }

    /// The next [`Endpoint::handle_timeout`].
    pub fn upcoming_timeout(&self) -> Upcoming {
        self.timers.next().map_or(Upcoming::NONE, |qp| Upcoming::at(Step::Deadlines(qp)))
    }

    /// Reads what `next` will read of memory, one step: nothing that another read of this step has to find. The number means
    /// nothing. Call it for all that comes, and then again for what is not done.
    pub fn fetch(&self, next: &mut Upcoming) -> u32 {
        let (sum, step) = match next.step {
            Step::Done => (0, None),
            Step::Responder(qp) => (self.qps.get(qp as usize).map_or(0, Qp::fetch_responder), None),
            Step::Requester(qp) => {
                (self.qps.get(qp as usize).map_or(0, Qp::fetch_acked) ^ self.timers.fetch(qp), Some(Step::Acked(qp)))
            }
            Step::Deadlines(qp) => {
                (self.qps.get(qp as usize).map_or(0, Qp::fetch_requester) ^ self.timers.fetch(qp), None)
            }
            Step::Acked(index) => (self.qps.get(index as usize).map_or(0, |qp| self.fetch_acked(index, qp)), None),
            Step::Answering(index) => self.qps.get(index as usize).map_or((0, None), |qp| {
                let last = self.qps.get(self.control.back() as usize).map_or(0, |last| last.links.fetch());
                (qp.fetch_responder() ^ last, Some(Step::Headers(qp.peer)))
            }),
            Step::Controller(index) => self.qpccs.get(index as usize).map_or((0, None), |qpcc| {
                let qp = qpcc.retransmit.front().or(qpcc.fresh.front());
                let last = self.qpccs.get(self.ready.back() as usize).map_or(0, Qpcc::fetch_link);
                let step = if qpcc.sole_sender().is_some() { Step::Alone } else { Step::Sending };
                (qpcc.fetch_turn() ^ last, qp.map(step))
            }),
            Step::Alone(index) => self.qps.get(index as usize).map_or((0, None), |qp| {
                let room = PortMask::NONE.with(PortNum::from_plane(next.plane));
                let leaves = self.leaves_to_others(index, room);
                let qpcc = qp.qpcc.filter(|_| leaves).and_then(|qpcc| self.qpccs.get(qpcc as usize));
                let behind = qpcc.and_then(Qpcc::behind);
                (0, Some(behind.map_or(Step::Sending(index), Step::Controller)))
            }),
            Step::Sending(index) => {
                let qp = self.qps.get(index as usize);
                let sum = qp.map_or(0, |qp| qp.fetch_requester() ^ qp.fetch_data());
                (sum ^ self.timers.fetch(index), Some(Step::Path(index)))
            }
            Step::Path(index) => self.qps.get(index as usize).map_or((0, None), |qp| {
                next.offset = Some(qp.head.offset());
                (self.fetch_path(index, qp), Some(Step::Headers(qp.peer)))
            }),
            Step::Headers(peer) => (self.fetch_headers(peer, next.plane), None),
        };
        next.step = step.unwrap_or(Step::Done);
        sum
    }

    /// Whether there are so many QPs that packets wait for memory.
    #[inline(always)]
    pub(super) fn has_many(&self) -> bool {
        self.stats.states.connected() >= MANY
    }

    /// With many QPs: at the first of some turns with data, reads what those behind them will read.
    #[inline(never)]
    pub(super) fn fetch_turns(&mut self) {
        let qpcc = self.ready.front().and_then(|qpcc| self.qpccs.get(qpcc as usize));
        let Some((fresh, first)) = qpcc.and_then(|qpcc| Some((qpcc.fresh, qpcc.fresh.front()?))) else { return };
        if self.ahead.qp.replace(first) == Some(first) {
            // Its turn goes on.
            return;
        }
        if let Some(left) = self.ahead.left.checked_sub(1) {
            self.ahead.left = left;
            return;
        }
        if fresh.len().saturating_add(self.ready.len()) < WAITING {
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
                next = fresh.behind(self.qps, next).unwrap_or(first);
            }
        }
        let read = now.map(|qp| self.qps.get(usize::from(qp)).map_or(0, |qp| qp.links.ahead));
        self.ahead.read = read;
        core::hint::black_box(self.fetch_qps(&now, &read));
    }

    /// Reads what sending from the QPs `read` reads, when those of `now` have sent.
    fn fetch_qps(&self, now: &[u16; TURNS], read: &[u16; TURNS]) -> u32 {
        // First where each is known to lie, so that no read waits for another.
        let mut sum = 0;
        for &index in read {
            let Some(qp) = self.qps.get(usize::from(index)) else { continue };
            sum ^= qp.fetch_requester() ^ qp.fetch_data() ^ self.timers.fetch(index.into());
        }
        // Then where the QPs say that there is more. The order of the turns tells which numbers choose the paths of each.
        let mut rng = self.rng;
        for &index in now {
            (0..self.waiting(index)).for_each(|_| _ = rng.next_u64());
        }
        for &index in read {
            let Some(qp) = self.qps.get(usize::from(index)) else { continue };
            sum ^= self.fetch_sending(index.into(), qp, self.waiting(index), &mut rng);
        }
        sum
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
        let (mut last, mut sum) = (None, 0);
        for ahead in 0..FRAMES {
            let Some((opcode, qpn)) = source.peek(ahead).and_then(read) else { break };
            if last != Some(qpn) {
                sum ^= self.fetch_opcode(opcode, qpn);
                last = Some(qpn);
            }
        }
        core::hint::black_box(sum);
        FRAMES
    }

    /// Reads what the completions that wait longest for room will read; of how many QPs.
    #[inline(never)]
    pub(super) fn fetch_held(&self) -> usize {
        if !self.has_many() {
            return usize::MAX;
        }
        let (mut sum, mut next) = (0, self.held_completions.front());
        for _ in 0..TURNS {
            let Some(qp) = next.and_then(|index| self.qps.get(index as usize)) else { break };
            // Those that sent behind each other complete behind each other.
            let index = u32::from(qp.links.ahead);
            if let Some(qp) = self.qps.get(index as usize) {
                let oldest = qp.sq.oldest(part_of(self.wqes, index, self.limits.send_queue));
                sum ^= qp.fetch_completion() ^ oldest.map_or(0, |(wqe, _)| wqe.len);
            }
            next = self.held_completions.behind_of(&qp.links);
        }
        core::hint::black_box(sum);
        TURNS
    }

    /// What sending so many packets reads where the QP says that it lies.
    fn fetch_sending(&self, index: u32, qp: &Qp, packets: u32, rng: &mut Rng) -> u32 {
        let (slots, order) = (self.slots_of(index), part_of(self.ev_order, index, self.limits.active_evs));
        let path = qp.paths.fetch(slots, order, packets, rng);
        let first = self.fetch_window(index, qp.req.max_sent.next());
        let last = self.fetch_window(index, qp.req.max_sent.add(packets));
        path ^ first ^ last ^ self.fetch_peer(qp) ^ self.timers.fetch(index)
    }

    fn slots_of(&self, index: u32) -> &[EvSlot] {
        part_of(self.ev_slots, index, self.limits.evs)
    }

    #[inline]
    fn fetch_peer(&self, qp: &Qp) -> u32 {
        let plane = (qp.peer as usize).checked_mul(self.limits.planes).and_then(|first| self.planes.get(first));
        let len = plane.and_then(|plane| plane.0.as_ref()).map_or(0, |template| template.header_len() as u32);
        self.peers.get(qp.peer as usize).map_or(len, |peer| peer.reachable.bits() ^ len)
    }

    /// With the EV that carried the packet, where it was sent.
    #[inline]
    fn fetch_window(&self, index: u32, psn: mrc_wire::Psn) -> u32 {
        TxWindow::fetch(self.tx_records, self.tx_words, index, self.limits.records(), psn)
    }

    /// What an answer to our packets reads where the QP says that it lies.
    fn fetch_acked(&self, index: u32, qp: &Qp) -> u32 {
        let qpcc = qp.qpcc.and_then(|qpcc| self.qpccs.get(qpcc as usize)).map_or(0, Qpcc::fetch_acked);
        let oldest = self.fetch_window(index, qp.req.unack.next());
        let slot = self.slots_of(index).get((oldest & 0xFFFF) as usize).map_or(0, |slot| slot.ev.0);
        qpcc ^ slot ^ self.peers.get(qp.peer as usize).map_or(0, PeerSlot::fetch)
    }

    /// The same of a packet that is sent.
    fn fetch_path(&self, index: u32, qp: &Qp) -> u32 {
        let (slots, order) = (self.slots_of(index), part_of(self.ev_order, index, self.limits.active_evs));
        // Those before that with a free port are passed over: with several planes there are some.
        let paths = qp.paths.fetch(slots, order, self.limits.planes.min(2) as u32, &mut { self.rng });
        let request = qp.sq.fetch(part_of(self.wqes, index, self.limits.send_queue));
        paths ^ request ^ self.fetch_window(index, qp.req.max_sent.next())
    }

    /// What the headers of a packet to `peer` begin with.
    fn fetch_headers(&self, peer: u32, plane: u8) -> u32 {
        let first = (peer as usize).wrapping_mul(self.limits.planes).wrapping_add(plane.into());
        let template = self.planes.get(first).and_then(|plane| plane.0.as_ref()).map_or(0, FrameTemplate::fetch);
        let route = self.routes.get(peer as usize).and_then(|route| route.0.as_ref()).map_or(0, EvTemplate::fetch);
        template ^ route ^ self.peers.get(peer as usize).map_or(0, PeerSlot::fetch)
    }

    #[inline]
    fn fetch_requester(&self, index: u32, qp: &Qp) -> u32 {
        let qpcc = qp.qpcc.and_then(|qpcc| self.qpccs.get(qpcc as usize));
        let qpcc = qpcc.map_or(0, Qpcc::fetch_turn);
        let oldest = self.fetch_window(index, qp.req.unack.next());
        let slot = self.slots_of(index).get((oldest & 0xFFFF) as usize).map_or(0, |slot| slot.ev.0);
        qp.fetch_acked() ^ qpcc ^ slot
    }
}

#[cfg(test)]
mod tests {
    use mrc_wire::{BthRepr, Ecn, Encap, Ev, FrameTemplate, Ip, Opcode, Outer, Psn, WireConfig};

    use super::*;

    #[test]
    fn the_queue_pair_is_found_behind_every_stack_of_headers() {
        let (v6, v4) = (Ip::V6([1; 16]), Ip::V4([2; 4]));
        let outer = Some(Outer { src: [3; 16], dst: [4; 16], srh: None });
        let stacks = [Encap::plain([0; 6], [0; 6], v6, v6), Encap::plain([0; 6], [0; 6], v4, v4)];
        for encap in [stacks[0], stacks[1], Encap { outer, ..stacks[0] }] {
            let mut out = [0; 192];
            let template = FrameTemplate::new(&encap, &WireConfig::default());
            let start = template.emit(&mut out, Ev(7), 4, Ecn::Ect0, 100, None).unwrap();
            let bth = BthRepr::new(Opcode::Sack, Qpn::new(0x12_3456), Psn::new(9));
            bth.emit(out[start..].first_chunk_mut().unwrap());
            assert_eq!(read(&out), Some((Opcode::Sack.to_u8(), Qpn::new(0x12_3456))), "{encap:?}");
            assert_eq!(read(&out[..start + 7]), None);
        }
    }

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
