//! What a QP wants to send, and when it is to be asked again.

use super::{Requester, TxSide};
use crate::{config::EndpointConfig, time::Instant};

/// What a QP has to send; who lets it, and when, is the endpoint's concern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wants {
    /// A probe or the repetition of a tail: no congestion window holds them back.
    pub(crate) urgent: bool,
    /// Packets to send again.
    pub(crate) retransmit: bool,
    /// New packets that the window of PSNs and the limit of writes with immediate allow.
    pub(crate) new_data: bool,
    /// When its timer is to fire.
    pub(crate) deadline: Instant,
}

impl Wants {
    /// New packets, and nothing that goes before them.
    #[inline(always)]
    pub(crate) const fn has_only_new_data(&self) -> bool {
        self.new_data && !self.retransmit && !self.urgent
    }
}

/// Most PSNs beyond the last Transport ACK: half of all, less a window of requests that begin together.
const MOST_SPAN: u32 = (1 << 23) - (1 << 16);

impl Requester {
    /// Its timer ran out and nothing was answered since, where that matters (`silent_packets`).
    #[inline(always)]
    pub(crate) fn is_silent(&self, cfg: &EndpointConfig) -> bool {
        self.retry_cnt > 0 && self.is_unanswered(cfg)
    }

    /// Out of line: a QP seldom has a retry.
    #[cold]
    #[inline(never)]
    fn is_unanswered(&self, cfg: &EndpointConfig) -> bool {
        self.last_answer < self.last_retry && cfg.silent_packets > 0
    }

    /// A full send queue of requests like one that was posted spans more PSNs than can be compared.
    pub(crate) fn watch_span(&mut self) {
        self.begin_gate = 0;
    }

    /// Whether a request of so many packets would end further beyond the last Transport ACK than PSNs can be compared. Behind
    /// a Transport ACK for all that was sent any request may begin.
    #[inline(always)]
    fn is_too_far(&self, packets: u32) -> bool {
        let open = self.max_sent.value().wrapping_sub(self.tack.value()) & 0xFF_FFFF;
        open > 0 && open.saturating_add(packets) > MOST_SPAN
    }
}

impl TxSide<'_, '_> {
    /// What the QP wants right after a write packet: that can only have brought forward the deadlines of packets, tail
    /// probe and paths; the timer knows the others.
    #[inline(always)]
    pub(crate) fn wants_after_data(&mut self, now: Instant) -> Wants {
        let moved = self.qp.req.next_scan.min(self.qp.req.next_tail_probe).min(self.qp.paths.next_of_choice());
        let deadline = if moved > now { moved } else { self.copy().next_timeout(now) };
        debug_assert!(deadline > now, "{deadline:?} has passed");
        Wants { deadline, ..self.wants_now(now) }
    }

    /// As [`Self::wants`] after a SACK in order and without mark, which brings hardly any deadline forward.
    #[inline(always)]
    pub(crate) fn wants_after_report(&mut self, now: Instant) -> Wants {
        let Requester { tack_wait, next_release, tail_probe_ns, probes, .. } = &self.qp.req;
        let waits = *tack_wait != Instant::FAR || *next_release != Instant::FAR || *tail_probe_ns > 0;
        let moved = waits || !probes.is_idle() || probes.wants_any() || self.qp.paths.wants_rtt();
        let deadline = if moved { self.copy().next_timeout(now) } else { Instant::FAR };
        Wants { deadline, ..self.wants_now(now) }
    }

    /// What the QP wants: which calls of [`TxSide::next_again`], [`TxSide::series`] and
    /// [`TxSide::repeat_tail`] can be worth it, and when to
    /// come back in any case.
    #[inline(always)]
    pub(crate) fn wants(&mut self, now: Instant) -> Wants {
        Wants { deadline: self.copy().next_timeout(now), ..self.wants_now(now) }
    }

    /// The controller pauses until `at`, and this QP is to end the pause.
    pub(crate) fn pause(&mut self, at: Instant) {
        self.qp.req.path_retry = self.qp.req.path_retry.min(at);
        self.qp.req.next_scan = self.qp.req.next_scan.min(at);
    }

    #[inline(always)]
    fn wants_now(&self, now: Instant) -> Wants {
        if self.awaits_sign() {
            return Wants { retransmit: false, new_data: false, ..self.unheld(now) };
        }
        self.unheld(now)
    }

    /// As [`Self::wants_now`], whether or not the peer is silent.
    #[inline(always)]
    fn unheld(&self, now: Instant) -> Wants {
        Wants {
            urgent: self.qp.req.resend_tail || (self.qp.req.probes.wants_any() && now >= self.qp.req.next_probe),
            retransmit: self.qp.req.lost > self.qp.req.held || now >= self.qp.req.next_release,
            new_data: self.has_new_data(),
            deadline: Instant::FAR,
        }
    }

    /// The peer is silent, and as many packets are in flight as may test whether it is there: all else waits for a sign of it.
    #[inline(always)]
    pub(crate) fn awaits_sign(&self) -> bool {
        self.qp.req.is_silent(self.cfg) && self.qp.share.load.inflight_pkts >= u32::from(self.cfg.silent_packets)
    }

    /// Whether a new packet waits that the window of PSNs and the limit of writes with immediate allow.
    #[inline(always)]
    pub(crate) fn has_new_data(&self) -> bool {
        self.qp.sq.has_new() && self.window_open() && !self.request_blocked()
    }

    /// Whether the next new packet begins a request that may not begin. Retransmissions go on.
    #[inline(always)]
    fn request_blocked(&self) -> bool {
        self.qp.req.wimm_inflight >= self.qp.req.begin_gate && self.qp.sq.sent == 0 && self.may_not_begin()
    }

    /// A write with immediate beyond the limit, or a request whose end no Transport ACK could be told apart from.
    //= SND-006, LEN-009
    #[inline(always)]
    fn may_not_begin(&self) -> bool {
        let Some(wqe) = self.qp.sq.current(self.ring) else { return false };
        let full = wqe.imm.is_some() && self.qp.req.wimm_inflight >= self.qp.req.wimm_tx;
        full || self.qp.req.is_too_far(wqe.packets)
    }
}
