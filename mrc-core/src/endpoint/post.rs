//! Posting work: writes and receive requests.

use super::{Endpoint, part};
use crate::{
    error::PostError,
    mem::AccessError,
    qp::{QpHandle, QpState},
    ready::List,
    requester::{SendWr, Wqe, nominal_bytes, packets_of},
    responder::RecvWqe,
    time::Instant,
};

/// Most packets of a message: half of the PSN space. In a longer one the last packet would compare as older than the first,
/// and a Transport ACK for the message before it could count for its end.
const MOST_PACKETS: u32 = 1 << 23;

impl Endpoint<'_> {
    /// Queues a write.
    ///
    /// # Errors
    /// Nothing was queued; the variant says why. In ERROR the request is accepted and flushed, as verbs do.
    //= MODEL-001
    pub fn post_send(&mut self, now: Instant, qp: QpHandle, wr: &SendWr) -> Result<(), PostError> {
        let index = qp.index;
        let known = self.qps.get_mut(index as usize).filter(|slot| slot.used && slot.qpn == qp.qpn);
        let slot = known.ok_or(PostError::UnknownQp)?;
        if !matches!(slot.state, QpState::Rts | QpState::Error) {
            return Err(PostError::State(slot.state));
        }
        if wr.imm.is_some() && slot.state == QpState::Rts && slot.req.wimm_tx == 0 {
            return Err(PostError::NoWriteImm);
        }
        if wr.len == 0 && self.cfg.reject_zero_len {
            return Err(PostError::Empty);
        }
        let (mr, offset) = if wr.len == 0 {
            (Wqe::EMPTY.mr, 0)
        } else {
            self.regions.check(slot.pd, wr.lkey, wr.local_va, u64::from(wr.len), false).map_err(|why| match why {
                AccessError::Bounds => PostError::LocalBounds,
                _ => PostError::LocalKey,
            })?
        };
        let packets = packets_of(wr.len, slot.path_mtu.max(256));
        //= LEN-009
        if u64::from(packets).saturating_mul(self.limits.send_queue as u64) >= MOST_PACKETS.into() {
            if packets > MOST_PACKETS {
                return Err(PostError::TooLong { max: u64::from(slot.path_mtu).saturating_mul(MOST_PACKETS.into()) });
            }
            slot.req.watch_span();
        }
        let wqe = Wqe {
            wr_id: wr.wr_id,
            mr,
            offset,
            remote_va: wr.remote_va,
            rkey: wr.rkey,
            len: wr.len,
            packets,
            signaled: wr.signaled,
            imm: wr.imm,
            solicited: wr.solicited,
            ..Wqe::EMPTY
        };
        let ring = part(self.wqes, index, self.limits.send_queue).ok_or(PostError::UnknownQp)?;
        if !slot.sq.push(ring, wqe) {
            return Err(PostError::Full);
        }
        // Behind a request that waits for its turn nothing changes. Without a port time has to be charged.
        let with_ports = !slot.paths.usable_ports().is_empty();
        let waits = with_ports && slot.links.get(List::NewData).is_queued();
        let sooner = !waits && slot.req.outstanding() == 0 && slot.paths.on_busy();
        if slot.state == QpState::Error {
            self.complete(index);
            return Ok(());
        }
        if let Some(qpcc) = slot.qpcc.and_then(|qpcc| self.qpccs.get_mut(qpcc as usize)) {
            let bytes = nominal_bytes(&self.cfg, wr.len, packets, wr.imm.is_some());
            qpcc.on_posted(&mut slot.share, bytes);
        }
        match (waits, with_ports && !sooner) {
            (true, _) => {}
            (false, true) => {
                self.wake_new_data(index);
                self.fetch_posts();
            }
            (false, false) => self.wake(now, index),
        }
        self.check_timer(now, index);
        Ok(())
    }

    /// Queues a receive request: the next write with immediate of the peer completes it. Allowed from INIT on; in ERROR it
    /// is accepted and flushed.
    ///
    /// # Errors
    /// Nothing was queued; the variant says why.
    //= WIMM-004, WIMM-006
    pub fn post_recv(&mut self, qp: QpHandle, wr_id: u64) -> Result<(), PostError> {
        let index = self.index_of(qp).ok_or(PostError::UnknownQp)?;
        let slot = self.qps.get_mut(index as usize).ok_or(PostError::UnknownQp)?;
        if slot.state == QpState::Reset {
            return Err(PostError::State(slot.state));
        }
        let ring = part(self.recvs, index, self.limits.recv_queue).ok_or(PostError::UnknownQp)?;
        if !slot.rq.push(ring, RecvWqe { wr_id }) {
            return Err(PostError::Full);
        }
        if slot.state == QpState::Error || !slot.rsp.stash.is_empty() {
            self.deliver(index);
            self.wake_control(index);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::fetch::tests::{limits, pair};
    use super::*;
    use crate::{Access, MemRange, OwnedStorage, Pd};
    use mrc_wire::{AethRepr, Psn, Syndrome};

    fn waits(engine: &mut Endpoint<'_>, qp: u32) -> bool {
        !engine.with_tx(qp, |tx| tx.has_new_data()).unwrap()
    }

    /// The current request leaves at once, and is acknowledged by SACKs alone.
    fn leaves(engine: &mut Endpoint<'_>, qp: u32) -> Option<Psn> {
        engine.with_tx(qp, |tx| {
            let (first, wqe) = (tx.qp.req.max_sent.next(), tx.qp.sq.current_mut(tx.ring).unwrap());
            wqe.first_psn = first;
            let packets = wqe.packets;
            tx.qp.sq.sent_to(packets, packets);
            (tx.qp.req.max_sent, tx.qp.req.unack) = (wqe.last_psn(), wqe.last_psn());
            tx.qp.req.max_sent
        })
    }

    /// Four requests that have half of all PSNs together: the end of the last one does not compare with the last Transport ACK.
    //= LEN-009 test
    #[test]
    fn a_full_queue_does_not_span_half_of_the_numbers() {
        let mut storage = [(); 2].map(|()| OwnedStorage::new(limits()).unwrap());
        let [side, _] = &mut pair(&mut storage, 0);
        let mr = side.engine.register_mr(Pd(0), MemRange { va: 0, len: 1 << 40 }, Access::default()).unwrap();
        let (lkey, qp) = (side.engine.key(mr).unwrap().0, side.qps[0].index);
        for _ in 0..4 {
            let wr = SendWr { lkey, len: 256 << 21, signaled: true, ..SendWr::default() };
            side.engine.post_send(Instant::ZERO, side.qps[0], &wr).unwrap();
        }
        let waiting = [(); 4].map(|()| {
            let waiting = waits(&mut side.engine, qp);
            leaves(&mut side.engine, qp).unwrap();
            waiting
        });
        assert_eq!(waiting, [false, false, false, true]);
    }

    /// The peer SACKs everything and holds its Transport ACKs back. What is sent beyond them stays within half of the PSN space: the
    /// one that comes at last says which requests it completes.
    //= LEN-009, TACK-001 test
    #[test]
    fn requests_wait_for_transport_acks_before_their_numbers_wrap() {
        const LONG: u32 = 1 << 22;
        let mut storage = [(); 2].map(|()| OwnedStorage::new(limits()).unwrap());
        let [side, _] = &mut pair(&mut storage, 0);
        let mr = side.engine.register_mr(Pd(0), MemRange { va: 0, len: 1 << 40 }, Access::default()).unwrap();
        let (lkey, qp) = (side.engine.key(mr).unwrap().0, side.qps[0].index);
        for packets in [LONG, LONG - (1 << 16), 1, 1] {
            let wr = SendWr { lkey, len: packets * 256, signaled: true, ..SendWr::default() };
            side.engine.post_send(Instant::ZERO, side.qps[0], &wr).unwrap();
        }
        let waits = |engine: &mut Endpoint<'_>| waits(engine, qp);
        let leaves = |engine: &mut Endpoint<'_>| leaves(engine, qp);
        let acknowledge = |engine: &mut Endpoint<'_>, psn: Psn| {
            let aeth = AethRepr { syndrome: Syndrome::Ack(31), msn: 0 };
            engine.with_tx(qp, |mut tx| tx.on_ack(Instant::from_nanos(1), psn, &aeth)).unwrap().unwrap();
            engine.complete(qp);
        };
        let left = |engine: &Endpoint<'_>| engine.qps[qp as usize].sq.len();
        assert!(!waits(&mut side.engine));
        let first = leaves(&mut side.engine).unwrap();
        assert!(!waits(&mut side.engine), "its end can still be compared");
        let second = leaves(&mut side.engine).unwrap();
        assert!(waits(&mut side.engine), "one packet more begins when its end can be compared");
        acknowledge(&mut side.engine, first);
        assert_eq!(left(&side.engine), 3);
        assert!(!waits(&mut side.engine));
        let third = leaves(&mut side.engine).unwrap();
        acknowledge(&mut side.engine, third);
        assert_eq!((left(&side.engine), third.diff(second)), (1, 1));
        // Behind a Transport ACK for all that was sent the longest message may begin.
        let last = leaves(&mut side.engine).unwrap();
        acknowledge(&mut side.engine, last);
        let wr = SendWr { lkey, len: 1 << 31, signaled: true, ..SendWr::default() };
        side.engine.post_send(Instant::ZERO, side.qps[0], &wr).unwrap();
        assert!(!waits(&mut side.engine));
    }
}
