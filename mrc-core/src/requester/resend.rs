//! Packets that leave again: the oldest LOST one, and the tail that draws a Transport ACK. Source: `transport.md` 3.3 and
//! 3.9.

use mrc_wire::Ev;

use super::{DataPacket, TxSide, nominal_segment, send_queue::Segment};
use crate::{
    Qp,
    event::LossCause,
    num::Counter,
    path::{Choice, EvIndex},
    port::PortMask,
    time::{Instant, Tick},
};

impl TxSide<'_, '_> {
    /// The oldest LOST packet, which leaves again through one of `ports`, before any new one ([`TxSide::series`]). `None` when
    /// none may; then the timer or the next acknowledgement helps. The caller has asked the congestion controller.
    //= SND-001, SND-003, SND-004, BTH-008
    pub(crate) fn next_again(&mut self, now: Instant, ports: PortMask) -> Option<DataPacket> {
        self.release_held(now);
        let psn = self.window.first_due(self.qp.req.unack, self.qp.req.max_sent)?;
        if psn.diff(self.qp.req.unack) > self.qp.req.mpr_tx as i32 {
            return None;
        }
        let record = self.window.record(psn)?;
        let segment = self.qp.sq.find(self.ring, psn)?;
        let len = segment.payload_len(self.qp.req.path_mtu);
        let bytes = nominal_segment(self.cfg, len, &segment);
        let (at, last) = (segment.at, segment.is_last());
        let choice = self.select_other(now, ports, record.ev(), record.was_nacked())?;
        if let Some(slot) = self.window.record_mut(psn) {
            *slot = record.again(Tick::at(now), choice.index, self.qp.req.retry_cnt);
        }
        self.window.set_lost(psn, false);
        self.qp.req.lost = self.qp.req.lost.saturating_sub(1);
        self.stats.retransmitted.inc();
        let ack_req = self.asks(bytes, last, true);
        self.record_sent(now, (1, bytes), choice, true, ack_req);
        Some(DataPacket { psn, at, len, choice, rtx: true, ack_req, more: false })
    }

    /// Repeats the last packet of the oldest request so that the responder repeats its Transport ACK.
    //= TACK-004
    pub(crate) fn repeat_tail(&mut self, now: Instant, ports: PortMask) -> Option<DataPacket> {
        if !self.qp.req.resend_tail {
            return None;
        }
        let oldest = self.qp.sq.oldest(self.ring).filter(|(_, all_sent)| *all_sent).map(|(wqe, _)| *wqe);
        let Some(wqe) = oldest else {
            self.qp.req.resend_tail = false;
            return None;
        };
        let avoid = self.qp.req.last_path.map_or(EvIndex(0), |choice| choice.index);
        let choice = self.select_other(now, ports, avoid, false)?;
        self.qp.req.resend_tail = false;
        self.qp.req.last_path = Some(choice);
        // One more transmission, or the answer would be taken for that of an earlier one and timed by it. Long after, the
        // record may have gone to a later packet.
        if self.qp.req.max_sent.diff(wqe.last_psn()) < self.window.capacity() as i32
            && let Some(record) = self.window.record_mut(wqe.last_psn())
        {
            *record = record.again(Tick::at(now), choice.index, self.qp.req.retry_cnt);
        }
        self.stats.retransmitted.inc();
        self.stats.tail_resent.inc();
        self.announce_loss(wqe.last_psn(), avoid, LossCause::Tail);
        let at = self.qp.sq.tail_at(wqe.packets);
        let len = Segment { wqe: &wqe, at }.payload_len(self.qp.req.path_mtu);
        Some(DataPacket { psn: wqe.last_psn(), at, len, choice, rtx: true, ack_req: true, more: false })
    }

    /// The path of a retransmission: another one than `avoid`, which a NACK for the packet named if it was `nacked`.
    //= SND-005
    fn select_other(&mut self, now: Instant, ports: PortMask, avoid: EvIndex, nacked: bool) -> Option<Choice> {
        let avoid = self.wire_ev(avoid).unwrap_or(Ev(0));
        let Self { qp, slots, order, rng, .. } = self;
        let Qp { paths: set, path_cfg: cfg, .. } = &mut **qp;
        let choice = match nacked {
            true => set.select_after_nack(now, slots, order, ports, avoid, cfg, rng),
            false => set.select_other(now, slots, order, ports, avoid, cfg, rng),
        };
        self.count_ended_skips();
        if choice.is_none() {
            self.wait_for_path(now);
        }
        if choice.is_none() && nacked {
            // New packets may leave meanwhile, and only look at this deadline.
            let req = &mut self.qp.req;
            req.next_scan = req.next_scan.min(req.path_retry).min(self.qp.paths.next_timeout());
        }
        choice
    }
}
