//! Reading ahead. A frame begins with what memory holds of its QP, and where QPs are many each of these reads waits for
//! memory. What several frames will read is therefore read first, and memory answers such reads together: the frames of a received
//! burst, the QPs whose turns come, those whose completions wait. With many QPs the engine does so by itself. A simulator that
//! moves frames one by one between many endpoints asks for it. Changes nothing, and nothing depends on it.

use mrc_wire::{PortNum, Qpn};

use super::Endpoint;
use crate::{
    Prefetch,
    cc::Qpcc,
    path::EvSlot,
    port::PortMask,
    qp::{Qp, QpHandle},
    requester::TxWindow,
};

/// EVs that are read ahead for a packet: with several planes some are passed over, because their port has no room.
const PICKS: u32 = 2;

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
    /// The EV of its oldest packet in flight.
    Oldest(u32),
    /// The deadlines of a QP: mostly they have moved on, and nothing else is read.
    Deadlines(u32),
    /// A QP with answers, then what their headers begin with.
    Answering(u32),
    Answer(u32),
    /// A controller, which says which QP sends.
    Controller(u32),
    /// The only QP that may send for a controller: unless it leaves the port to others.
    Alone(u32),
    Sending(u32),
    /// Where the order of the EVs has the next ones, the request, the window, and what the headers begin with.
    Path(u32),
    /// These EVs.
    Evs(u32),
}

impl Upcoming {
    /// Nothing.
    pub const NONE: Self = Self::at(Step::Done);

    const fn at(step: Step) -> Self {
        Self { step, plane: 0, offset: None }
    }

    fn packet(opcode: u8, qp: u32) -> Self {
        Self::at(if opcode < FIRST_ANSWER { Step::Responder(qp) } else { Step::Requester(qp) })
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
pub(super) fn read(head: &[u8]) -> Option<(u8, Qpn)> {
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
pub(super) fn part_of<T>(slice: &[T], index: u32, each: usize) -> &[T] {
    slice.get((index as usize).wrapping_mul(each)..).and_then(|rest| rest.get(..each)).unwrap_or_default()
}

impl Endpoint<'_> {
    /// Asks `memory` for what [`Endpoint::handle_packet`] will read for the frame with this head, where `head` is such a frame.
    ///
    /// A driver with several frames at hand calls this for each of them, and then hands them over: what memory does not
    /// hold in its caches then arrives together, not frame after frame.
    pub fn fetch_for(&self, head: &[u8], memory: &impl Prefetch) {
        if let Some((opcode, qpn)) = read(head) {
            self.fetch_opcode(opcode, qpn, memory);
        }
    }

    #[inline(never)]
    pub(super) fn fetch_opcode(&self, opcode: u8, qpn: Qpn, memory: &impl Prefetch) {
        let index = self.slot_of(qpn);
        let Some(qp) = self.qps.get(index as usize) else { return };
        if opcode < FIRST_ANSWER {
            qp.fetch_responder(memory);
        } else {
            qp.fetch_acked(memory);
            if let Some(qpcc) = qp.qpcc.and_then(|qpcc| self.qpccs.get(qpcc as usize)) {
                qpcc.fetch_turn(memory);
            }
            self.fetch_window(index, qp.req.unack.next(), memory);
            self.fetch_oldest(index, qp, memory);
        }
    }

    /// An [`Endpoint::handle_packet`] of a frame with this head.
    pub fn upcoming_packet(&self, head: &[u8]) -> Upcoming {
        read(head).map_or(Upcoming::NONE, |(opcode, qpn)| Upcoming::packet(opcode, self.slot_of(qpn)))
    }

    /// The same where the head will be given the number of this queue pair before the engine gets it.
    pub fn upcoming_packet_to(&self, qp: QpHandle, head: &[u8]) -> Upcoming {
        read(head).map_or(Upcoming::NONE, |(opcode, _)| Upcoming::packet(opcode, qp.index))
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

    /// Asks `memory` for what `next` will read, one step: nothing that has to be found with another read of this step. Call it for
    /// all that comes, and then again for what is not done.
    pub fn fetch(&self, next: &mut Upcoming, memory: &impl Prefetch) {
        next.step = self.fetch_step(next, memory).unwrap_or(Step::Done);
    }

    /// What comes behind the step, if anything does.
    #[inline(always)]
    fn fetch_step(&self, next: &mut Upcoming, memory: &impl Prefetch) -> Option<Step> {
        match next.step {
            Step::Done => None,
            Step::Responder(qp) => {
                self.qps.get(qp as usize)?.fetch_responder(memory);
                None
            }
            Step::Requester(index) => {
                self.qps.get(index as usize)?.fetch_acked(memory);
                self.timers.fetch(index, memory);
                Some(Step::Acked(index))
            }
            Step::Acked(index) => {
                let qp = self.qps.get(index as usize)?;
                self.fetch_acked(index, qp, memory);
                Some(Step::Oldest(index))
            }
            Step::Oldest(index) => {
                self.fetch_oldest(index, self.qps.get(index as usize)?, memory);
                None
            }
            Step::Deadlines(index) => {
                self.qps.get(index as usize)?.fetch_requester(memory);
                self.timers.fetch(index, memory);
                None
            }
            Step::Answering(index) => {
                let qp = self.qps.get(index as usize)?;
                qp.fetch_responder(memory);
                if let Some(last) = self.qps.get(self.control.back() as usize) {
                    last.links.fetch(memory);
                }
                Some(Step::Answer(index))
            }
            Step::Answer(index) => {
                self.fetch_headers(self.qps.get(index as usize)?.peer, next.plane, memory);
                None
            }
            Step::Controller(index) => self.fetch_controller(index, memory),
            Step::Alone(index) => self.fetch_sole_sender(index, next.plane, memory),
            Step::Sending(index) => {
                let qp = self.qps.get(index as usize)?;
                qp.fetch_requester(memory);
                qp.fetch_data(memory);
                self.timers.fetch(index, memory);
                Some(Step::Path(index))
            }
            Step::Path(index) => self.fetch_path(index, next, memory),
            Step::Evs(index) => {
                let qp = self.qps.get(index as usize)?;
                let (slots, order) = (self.slots_of(index), self.order_of(index));
                qp.paths.fetch_evs(slots, order, PICKS, &mut { self.rng }, memory);
                None
            }
        }
    }

    /// What the turn of a controller reads.
    fn fetch_controller(&self, index: u32, memory: &impl Prefetch) -> Option<Step> {
        let qpcc = self.qpccs.get(index as usize)?;
        qpcc.fetch_turn(memory);
        if let Some(last) = self.qpccs.get(self.ready.back() as usize) {
            last.fetch_link(memory);
        }
        let Some(alone) = qpcc.sole_sender() else {
            return qpcc.retransmit.front().or(qpcc.new_data.front()).map(Step::Sending);
        };
        self.qps.get(alone as usize)?.fetch_balance(memory);
        Some(Step::Alone(alone))
    }

    /// Whether the only QP that may send does, or the next controller has the turn.
    fn fetch_sole_sender(&self, index: u32, plane: u8, memory: &impl Prefetch) -> Option<Step> {
        let room = PortMask::NONE.with(PortNum::from_plane(plane));
        let qp = self.qps.get(index as usize)?;
        // Where the ports have changed since its last packet, this is a guess.
        if !qp.paths.leaves_to_others(room, qp.paths.usable_ports()) {
            return Some(Step::Sending(index));
        }
        self.peers.get(qp.peer as usize)?.fetch(memory);
        qp.qpcc.and_then(|qpcc| self.qpccs.get(qpcc as usize)).and_then(Qpcc::behind).map(Step::Controller)
    }

    /// Where the EVs, the request, the window and the headers of the next packet are found.
    fn fetch_path(&self, index: u32, next: &mut Upcoming, memory: &impl Prefetch) -> Option<Step> {
        let qp = self.qps.get(index as usize)?;
        next.offset = Some(qp.head.offset());
        qp.paths.fetch_order(self.order_of(index), PICKS, &mut { self.rng }, memory);
        qp.sq.fetch_request(part_of(self.wqes, index, self.limits.send_queue), memory);
        self.fetch_window(index, qp.req.max_sent.next(), memory);
        self.fetch_headers(qp.peer, next.plane, memory);
        Some(Step::Evs(index))
    }

    pub(super) fn slots_of(&self, index: u32) -> &[EvSlot] {
        part_of(self.ev_slots, index, self.limits.evs)
    }

    pub(super) fn order_of(&self, index: u32) -> &[u16] {
        part_of(self.ev_order, index, self.limits.active_evs)
    }

    /// With the EV that carried the packet, where it was sent.
    #[inline]
    pub(super) fn fetch_window(&self, index: u32, psn: mrc_wire::Psn, memory: &impl Prefetch) {
        TxWindow::fetch((self.tx_records, self.tx_words), index, self.limits.records(), psn, memory);
    }

    /// The EV of the oldest packet in flight.
    #[inline]
    fn fetch_oldest(&self, index: u32, qp: &Qp, memory: &impl Prefetch) {
        let ev = TxWindow::ev_of(self.tx_records, index, self.limits.records(), qp.req.unack.next());
        if let Some(slot) = ev.and_then(|ev| self.slots_of(index).get(ev)) {
            slot.fetch(memory);
        }
    }

    /// What an answer to our packets reads where the QP says that it lies.
    fn fetch_acked(&self, index: u32, qp: &Qp, memory: &impl Prefetch) {
        if let Some(qpcc) = qp.qpcc.and_then(|qpcc| self.qpccs.get(qpcc as usize)) {
            qpcc.fetch_acked(memory);
        }
        self.fetch_window(index, qp.req.unack.next(), memory);
        if let Some(peer) = self.peers.get(qp.peer as usize) {
            peer.fetch(memory);
        }
    }

    /// What the headers of a packet to `peer` begin with.
    fn fetch_headers(&self, peer: u32, plane: u8, memory: &impl Prefetch) {
        let first = (peer as usize).wrapping_mul(self.limits.planes).wrapping_add(plane.into());
        if let Some(plane) = self.planes.get(first) {
            memory.prefetch_all(plane.0.lines());
        }
        if let Some(route) = self.routes.get(peer as usize) {
            memory.prefetch_all(route.0.lines());
        }
        if let Some(peer) = self.peers.get(peer as usize) {
            peer.fetch(memory);
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
