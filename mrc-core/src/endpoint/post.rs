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
            return Err(PostError::TooLong { max: 0 });
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
        if packets > MOST_PACKETS {
            return Err(PostError::TooLong { max: u64::from(slot.path_mtu).saturating_mul(MOST_PACKETS.into()) });
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
            (false, true) => self.wake_new_data(index),
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
