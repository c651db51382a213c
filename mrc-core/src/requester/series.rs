//! A series: new packets from the middle of one request that leave in one turn. They ask for nothing and differ in PSN,
//! path and place alone, so that what they do to the QP's books is entered once for all. Everything else goes packet by
//! packet through [`TxSide::next_data`]. Source: `transport.md` 3.2 and 3.3.

use mrc_wire::Psn;

use super::{DataPacket, PathCtx, SegmentAt, TxRecord, TxSide, nominal_bytes};
use crate::num::Counter;
use crate::{
    path::Choice,
    port::PortMask,
    time::{Instant, Tick},
};

/// A series under way.
#[derive(Debug)]
pub(crate) struct Series {
    /// Packets that may follow.
    left: u32,
    taken: u32,
    /// Nominal bytes of each.
    bytes: u32,
    /// Payload of each.
    len: u32,
    /// The last one taken.
    psn: Psn,
    /// The next one.
    at: SegmentAt,
    last: Option<Choice>,
}

impl Series {
    /// Whether it can go on.
    #[inline]
    pub(crate) fn goes_on(&self) -> bool {
        self.left > 0
    }
}

impl TxSide<'_, '_> {
    /// The series that may begin now: up to the packet that ends the request, that closes a window, or that something
    /// else distinguishes. Often an empty one.
    //= SND-002, SEG-001, AREQ-001
    #[inline(always)]
    pub(crate) fn series(&self, most: u32) -> Series {
        let len = self.req.path_mtu;
        let bytes = nominal_bytes(self.cfg, len, 1, false) as u32;
        let at = self.sq.next_at();
        let plain = self.req.lost == 0 && at.index > 0 && !self.path.set.is_single_path();
        let middle = self.sq.current(self.ring).map_or(0, |wqe| wqe.packets.saturating_sub(at.index.wrapping_add(1)));
        let window = self.req.mpr_tx.min(self.window.capacity());
        let open = window.saturating_sub(self.req.outstanding().wrapping_add(1));
        let left = if plain { most.min(middle).min(open) } else { 0 };
        let left = if left > 0 { left.min(self.flow.unasked_packets(bytes, self.cfg)) } else { 0 };
        Series { left, taken: 0, bytes, len, psn: self.req.max_sent, at, last: None }
    }

    /// The next packet of a series that goes on; `None` when no path through `ports` can be used.
    //= SND-004, INV-003
    #[inline(always)]
    pub(crate) fn next_of(&mut self, series: &mut Series, now: Instant, ports: PortMask) -> Option<DataPacket> {
        let PathCtx { set, slots, order, cfg, rng, .. } = &mut self.path;
        let choice = set.select(now, slots, order, ports, cfg, rng)?;
        let (psn, at) = (series.psn.next(), series.at);
        if let Some(record) = self.window.record_mut(psn) {
            *record = TxRecord::first(Tick::at(now), choice.index, self.req.retry_cnt);
        }
        series.psn = psn;
        series.at.index.inc();
        series.left = series.left.wrapping_sub(1);
        series.taken.inc();
        series.last = Some(choice);
        Some(DataPacket { psn, at, len: series.len, choice, rtx: false, ack_req: false, middle: true })
    }

    /// Enters in the books what was taken of a series.
    //= SND-007, TIMER-003
    #[inline(always)]
    pub(crate) fn end_series(&mut self, now: Instant, series: &Series) {
        let Some(choice) = series.last else { return };
        self.sq.sent = series.at.index;
        self.req.max_sent = series.psn;
        self.path.stats.tx_data.inc_by(series.taken.into());
        self.flow.on_send(series.taken, series.bytes, false, false, self.cfg.sack_gen_threshold);
        self.await_answer(now, choice);
    }
}
