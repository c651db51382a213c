//! Reading ahead. A frame begins with what memory holds of its QP, and where QPs are many each of these reads waits for
//! memory. A driver that knows several frames in advance lets the engine read for all of them first: memory answers such reads
//! together. Changes nothing, and nothing depends on it.

use mrc_wire::Qpn;

use super::Endpoint;
use crate::{path::EvSlot, qp::Qp, requester::TxWindow};

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
        let Some((opcode, qpn)) = read(head) else { return 0 };
        let index = self.slot_of(qpn);
        let Some(qp) = self.qps.get(index as usize) else { return 0 };
        if opcode < FIRST_ANSWER { qp.fetch_responder() } else { self.fetch_requester(index, qp) }
    }

    /// Reads what the next [`Endpoint::poll_transmit`] will read, as far as it is known by now.
    pub fn fetch_next(&self) -> u32 {
        let answers = self.control.front().and_then(|qp| self.qps.get(qp as usize));
        if let Some(qp) = answers {
            return qp.fetch_responder() ^ self.fetch_peer(qp);
        }
        let Some(qpcc) = self.ready.front().and_then(|qpcc| self.qpccs.get(qpcc as usize)) else { return 0 };
        let Some(index) = qpcc.retransmit.front().or(qpcc.fresh.front()) else { return 0 };
        let Some(qp) = self.qps.get(index as usize) else { return 0 };
        let path =
            qp.paths.fetch(self.slots_of(index), part_of(self.ev_order, index, self.limits.active_evs), self.rng);
        let window = self.fetch_window(index, qp.req.max_sent.next());
        self.fetch_requester(index, qp) ^ qp.fetch_data() ^ self.fetch_peer(qp) ^ path ^ window
    }

    /// Reads what the next [`Endpoint::handle_timeout`] will read, as far as it is known by now.
    pub fn fetch_due(&self) -> u32 {
        let Some(index) = self.timers.next() else { return 0 };
        self.qps.get(index as usize).map_or(0, |qp| self.fetch_requester(index, qp) ^ self.fetch_peer(qp))
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

    #[inline]
    fn fetch_requester(&self, index: u32, qp: &Qp) -> u32 {
        let qpcc = qp.qpcc.and_then(|qpcc| self.qpccs.get(qpcc as usize));
        let qpcc = qpcc.map_or(0, |qpcc| qpcc.users ^ u32::from(qpcc.can_send()));
        let oldest = self.fetch_window(index, qp.req.unack.next());
        let slot = self.slots_of(index).get((oldest & 0xFFFF) as usize).map_or(0, |slot| slot.ev.0);
        qp.fetch_requester() ^ qpcc ^ slot
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
            crate::endpoint::tx::emit_bth(&bth, 6, &mut out[start..]).unwrap();
            assert_eq!(read(&out), Some((Opcode::Sack.to_u8(), Qpn::new(0x12_3456))), "{encap:?}");
            assert_eq!(read(&out[..start + 7]), None);
        }
    }
}
