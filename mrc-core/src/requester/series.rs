//! New packets leave in series: from one request, or from requests of one packet and the same length each, in one turn. They
//! differ in PSN, path and place alone, and only the last one may ask for an acknowledgement. The QP's books therefore take them in
//! once for all, before the last one is written. A packet that ends a longer request or that follows a single path is a series of
//! its own. Source: `transport.md` 3.2 and 3.3.

use mrc_wire::{Msn, Psn};

use super::{DataPacket, Segment, SegmentAt, TxRecord, TxSide, nominal_segment};
use crate::num::Counter;
use crate::{
    Qp,
    path::Choice,
    port::PortMask,
    time::{Instant, Tick},
};

/// A series under way.
#[derive(Debug)]
pub(crate) struct Series {
    /// Packets that may follow.
    left: u32,
    /// Nominal bytes of each.
    bytes: u32,
    /// Payload of each.
    len: u32,
    /// Packets of the request.
    packets: u32,
    /// Each is followed by others of its request: a series that has a request's last packet has no other.
    more: bool,
    /// The last packet may have to ask for an acknowledgement.
    may_ask: bool,
    /// The last one taken.
    psn: Psn,
    /// The next one.
    at: SegmentAt,
}

impl Series {
    /// Whether it can go on.
    #[inline]
    pub(crate) fn goes_on(&self) -> bool {
        self.left > 0
    }

    /// The next packet, and the bytes of payload that each has.
    #[inline]
    pub(crate) fn next(&self) -> (SegmentAt, u32) {
        (self.at, self.len)
    }

    /// Whether each packet is a request.
    #[inline]
    pub(crate) fn is_of_requests(&self) -> bool {
        self.packets == 1
    }
}

impl TxSide<'_, '_> {
    /// The series that may begin now, of at most `most` packets: up to the packet that ends the request or the requests alike,
    /// that closes a window, or that something else distinguishes. `None` when no new packet may leave. The caller has asked the
    /// congestion controller.
    //= SND-002, SEG-001, AREQ-001
    #[inline(always)]
    pub(crate) fn series(&self, most: u32) -> Option<Series> {
        if !self.has_new_data() {
            return None;
        }
        let at = self.qp.sq.next_at();
        let wqe = self.qp.sq.current(self.ring)?;
        let segment = Segment { wqe, at };
        let len = segment.payload_len(self.qp.req.path_mtu);
        let bytes = nominal_segment(self.cfg, len, &segment);
        let packets = wqe.packets;
        let each = self.cfg.ask_each_message || self.cfg.complete_on_sack;
        let before_last = match packets {
            1 if !each && wqe.imm.is_none() && self.qp.sq.goes_on_alike(self.ring, 1, len) => u32::MAX,
            _ => packets.saturating_sub(at.index.wrapping_add(1)),
        };
        let open = self.psn_limit().saturating_sub(self.qp.req.outstanding().wrapping_add(1));
        let most = if self.qp.req.lost == 0 && !self.qp.paths.is_single_path() { most.min(before_last) } else { 0 };
        let unasked =
            if most > 0 { self.qpcc.unasked_packets(&self.qp.share, bytes, self.cfg).min(most).min(open) } else { 0 };
        // What leaves room for a packet in every window leaves it to one that asks.
        let may_ask = unasked == 0 || (unasked < most && self.qpcc.has_turn_after(&self.qp.share, unasked, bytes));
        let left = unasked.wrapping_add(may_ask.into());
        let more = packets > at.index.wrapping_add(left);
        Some(Series { left, bytes, len, packets, more, may_ask, psn: self.qp.req.max_sent, at })
    }

    /// The next packet of a series that goes on; `None` when no path through `ports` can be used.
    //= SND-004, INV-003
    #[inline(always)]
    pub(crate) fn next_of(&mut self, series: &mut Series, now: Instant, ports: PortMask) -> Option<DataPacket> {
        let Self { qp, slots, order, rng, .. } = self;
        let Qp { paths: set, path_cfg: cfg, .. } = &mut **qp;
        let Some(choice) = set.select(now, slots, order, ports, cfg, rng) else {
            self.wait_for_path(now);
            return None;
        };
        let (psn, at, len) = (series.psn.next(), series.at, series.len);
        if at.index == 0 {
            self.begin_request(psn);
        }
        if let Some(record) = self.window.record_mut(psn) {
            *record = TxRecord::first(Tick::at(now), choice.index, self.qp.req.retry_cnt);
        }
        series.psn = psn;
        series.left = series.left.wrapping_sub(1);
        if series.is_of_requests() {
            self.qp.sq.sent_to(1, 1);
            if !self.qp.sq.goes_on_alike(self.ring, 0, len) {
                (series.left, series.may_ask) = (0, true);
            }
        }
        let ack_req = series.left == 0 && self.enter(now, series, series.at.index.wrapping_add(1), choice);
        Some(DataPacket { psn, at, len, choice, rtx: false, ack_req, more: series.more })
    }

    /// Goes to the packet behind the one that [`Self::next_of`] gave.
    #[inline(always)]
    pub(crate) fn go_on(&self, series: &mut Series) {
        if series.is_of_requests() {
            series.at = self.qp.sq.next_at();
        } else {
            series.at.index.inc();
        }
    }

    /// The current request begins with `psn`.
    //= METH-002
    #[inline(always)]
    fn begin_request(&mut self, psn: Psn) {
        let (msn, rqmsn) = (self.qp.req.next_msn, self.qp.req.next_rqmsn);
        let Some(wqe) = self.qp.sq.current_mut(self.ring) else { return };
        wqe.first_psn = psn;
        wqe.msn = Msn(msn);
        self.qp.req.next_msn = msn.wrapping_add(1);
        if wqe.imm.is_some() {
            wqe.rqmsn = Msn(rqmsn);
            self.qp.req.next_rqmsn = rqmsn.wrapping_add(1);
            self.qp.req.wimm_inflight = self.qp.req.wimm_inflight.saturating_add(1);
        }
    }

    /// Ends a series: what was taken of it and is not in the books is entered.
    #[inline(always)]
    pub(crate) fn end_series(&mut self, now: Instant, series: &mut Series) {
        if series.psn != self.qp.req.max_sent
            && let Some(record) = self.window.record(series.psn)
            && let Some(choice) = self.qp.paths.choice(self.slots, record.ev())
        {
            self.enter(now, series, series.at.index, choice);
        }
    }

    /// Enters in the books what was taken of a series, the last one through `choice`; whether that one asks for an
    /// acknowledgement. Of a request `sent` packets have left then.
    //= SND-007, TIMER-003
    #[inline(always)]
    fn enter(&mut self, now: Instant, series: &Series, sent: u32, choice: Choice) -> bool {
        let taken = series.psn.diff(self.qp.req.max_sent).unsigned_abs();
        if !series.is_of_requests() {
            self.qp.sq.sent_to(sent, series.packets);
        }
        self.qp.req.max_sent = series.psn;
        self.stats.tx_data.inc_by(taken.into());
        let bytes = series.bytes;
        if series.left > 0 || !series.may_ask {
            self.record_sent(now, (taken, bytes), choice, false, false);
            return false;
        }
        if taken > 1 {
            self.qpcc.on_send(
                &mut self.qp.share,
                taken.wrapping_sub(1),
                bytes,
                false,
                false,
                self.cfg.sack_gen_threshold,
            );
        }
        let last = series.is_of_requests() || sent >= series.packets;
        let ack_req = self.asks(bytes, last, false);
        self.record_sent(now, (1, bytes), choice, false, ack_req);
        ack_req
    }
}
