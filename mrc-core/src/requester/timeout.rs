//! What time alone does to the requester: packet timers, the missing Transport ACK, probes, keep-alive.
//! Source: `transport.md` 3.8, 3.9 and 5, `paths.md` 10.

use mrc_wire::PortNum;

use super::{PathCtx, TxSide};
use crate::num::Counter;
use crate::{
    config::MAX_PORTS,
    event::{ErrorCause, LossCause},
    path::Feedback,
    port::PortMask,
    time::Instant,
};

/// Keep-alive probes in a row without an answer before the peer may count as gone.
const KEEPALIVE_PROBES: u8 = 3;

/// How often masked ports are tested when the retransmission timer is disabled, in nanoseconds.
const UNTIMED_TEST_NS: u64 = 1_024 << 14;

impl TxSide<'_, '_> {
    /// Does what is due at `now`; an error when the retry budget is spent. `ports` lead to the peer; `testable` are those
    /// for probes, which may go where the peer says that nothing arrives.
    pub(crate) fn on_timeout(&mut self, now: Instant, ports: PortMask, testable: PortMask) -> Option<ErrorCause> {
        self.set_ports(now, ports);
        let mut failure = self.wait_for_port(now, testable);
        if now >= self.req.next_scan {
            failure = failure.or(self.expire_packets(now));
        }
        if failure.is_none() && now >= self.tack_deadline() {
            failure = self.tack_overdue(now);
        }
        self.release_held(now);
        let patience = self.req.probe_patience_ns();
        while let Some(ev) = self.req.probes.expired(now, patience) {
            self.path.stats.probe_lost.inc();
            self.path.feedback(now, ev, Feedback::ProbeLost);
        }
        if now >= self.path.set.next_timeout() {
            self.probe_paths(now, ports);
        }
        if now >= self.req.next_tail_probe {
            self.probe_tail(now, ports);
        }
        if now >= self.req.path_retry {
            self.req.path_retry = Instant::FAR;
        }
        failure.or_else(|| self.keep_alive(now, testable))
    }

    /// No port leads to the peer: the first retry is charged after the interval of a packet that left now.
    #[cold]
    pub(super) fn without_ports(&mut self, now: Instant) {
        if !self.is_stranded() {
            self.req.portless = Instant::FAR;
        } else if self.req.portless == Instant::FAR {
            let wait = match self.req.retry.t0_ns() {
                Some(_) => self.req.retry.interval_ns(self.req.retry_cnt),
                None => UNTIMED_TEST_NS,
            };
            self.req.portless = now.after(wait);
        }
    }

    /// Without a usable port no packet leaves, so that no packet's timer can charge the budget: time charges it, a retry
    /// per interval. At the same pace a probe leaves through each testable port.
    //= RETRY-004, EPOP-009
    fn wait_for_port(&mut self, now: Instant, testable: PortMask) -> Option<ErrorCause> {
        if now < self.req.portless {
            return None;
        }
        self.test_ports(testable);
        let timed = self.req.retry.t0_ns().is_some();
        if timed {
            self.req.retry_cnt = self.req.retry_cnt.saturating_add(1);
            self.req.last_retry = now;
        }
        self.req.portless = Instant::FAR;
        self.without_ports(now);
        (timed && self.req.retry.exhausted(self.req.retry_cnt)).then_some(ErrorCause::NoUsablePort)
    }

    /// One probe through each of `ports`.
    fn test_ports(&mut self, ports: PortMask) {
        for plane in 0..MAX_PORTS as u8 {
            let port = PortNum::from_plane(plane);
            if ports.contains(port)
                && let Some(ev) = self.path.set.any_on(self.path.slots, port, self.path.rng)
            {
                self.req.probes.want(ev);
            }
        }
    }

    /// Packets whose timer has run out; also finds the next deadline.
    //= TIMER-001, TIMER-004
    fn expire_packets(&mut self, now: Instant) -> Option<ErrorCause> {
        let (unack, max) = (self.req.unack, self.req.max_sent);
        let mut next = Instant::FAR;
        let mut failure = None;
        let mut base = unack.next();
        let mut left = self.req.outstanding();
        while left > 0 {
            let mut sent = self.window.sent_bits(base, unack, max);
            while sent != 0 {
                let psn = base.add(sent.trailing_zeros());
                sent &= sent.wrapping_sub(1);
                let Some(record) = self.window.record_mut(psn) else { continue };
                let retries = record.armed_retries();
                let interval = self.req.retry.interval_ns(retries);
                let elapsed = record.sent_at.elapsed_ns(now);
                if elapsed < interval {
                    next = next.min(now.after(interval.saturating_sub(elapsed)));
                    continue;
                }
                record.set_fast_done(false);
                let left = record.left_at(now);
                let ev = record.ev();
                self.path.stats.lost_timeout.inc();
                self.announce_loss(psn, ev, LossCause::Timeout);
                self.lose(now, psn);
                // With a single path, silence on all paths is silence on one: the second time in a row it is to blame.
                let only = retries > 0 && self.path.set.is_single_path();
                if self.req.blame_silence || only || self.req.lateness.overtaken(left) {
                    self.path.feedback(now, ev, Feedback::Timeout);
                }
                self.req.probes.want(ev);
                if !self.is_stranded() {
                    failure = failure.or(self.count_retry(now, psn));
                }
            }
            base = base.add(left.min(64));
            left = left.saturating_sub(64);
        }
        self.req.next_scan = next;
        failure
    }

    fn tack_deadline(&self) -> Instant {
        match (self.req.tack_wait, self.req.retry.t0_ns()) {
            (Instant::FAR, _) | (_, None) => Instant::FAR,
            (since, Some(t0)) => since.after(t0),
        }
    }

    /// All packets of the oldest request arrived, its Transport ACK did not: repeat its last packet.
    //= TACK-004
    fn tack_overdue(&mut self, now: Instant) -> Option<ErrorCause> {
        let answered = self.req.last_heard > self.req.tack_wait;
        self.req.tack_wait = now;
        self.req.resend_tail = true;
        if self.is_stranded() || (answered && self.cfg.tail_retry_lenient) {
            return None;
        }
        self.count_retry(now, self.req.tack.next())
    }

    /// Asks for the probes that the paths want: of bad EVs, and of alternatives.
    pub(super) fn probe_paths(&mut self, now: Instant, ports: PortMask) {
        let idle = self.req.outstanding() == 0 && !self.sq.has_new();
        for _ in 0..4 {
            let PathCtx { set, slots, cfg, .. } = &mut self.path;
            let Some(choice) = set.poll_probe(now, slots, ports, cfg, idle) else { break };
            self.req.probes.want(choice.index);
        }
    }

    /// Data is outstanding and nothing was heard for a while: ask.
    fn probe_tail(&mut self, now: Instant, ports: PortMask) {
        let patience = self.tail_patience_ns();
        let silent = now.since(self.req.last_answer);
        if silent < patience && !self.probes_tails() {
            self.req.next_tail_probe = self.req.last_answer.after(patience);
            return;
        }
        self.req.next_tail_probe = now.after(self.req.rtt_now_ns().saturating_mul(5));
        // Behind the oldest packet on its own path; when that path gives no answer, on another.
        let oldest = self.window.first_sent(self.req.unack, self.req.max_sent).and_then(|psn| self.window.record(psn));
        match oldest.filter(|_| silent < self.req.rtt_now_ns().saturating_mul(5)) {
            Some(record) => self.req.probes.want(record.ev()),
            None => self.probe_somewhere(now, ports),
        }
    }

    /// How long silence lasts before it draws a probe. With nothing left to send, or a window that does not let it go,
    /// only a probe can show what became of the tail, so it leaves as soon as the answer to the last packet is overdue.
    //= PROBE-006
    fn tail_patience_ns(&self) -> u64 {
        let more = (self.sq.has_new() || self.req.lost > 0) && self.flow.can_send();
        if more { self.req.rtt_now_ns().saturating_mul(3) } else { self.req.tail_answer_ns() }
    }

    /// A probe on a path like that of data or, every other time, on any EV that is not denied: where answers die on their
    /// way back, EVs were retired that work, and those left in rotation may be the dead ones.
    //= PROBE-011
    fn probe_somewhere(&mut self, now: Instant, ports: PortMask) {
        let PathCtx { set, slots, order, cfg, rng, .. } = &mut self.path;
        let ev = if rng.below(2) == 0 {
            set.any_of(slots, ports.and(set.usable_ports()), rng)
        } else {
            set.select(now, slots, order, ports, cfg, rng).map(|choice| choice.index)
        };
        if let Some(ev) = ev {
            self.req.probes.want(ev);
        }
    }

    /// Asks a silent peer for a sign of life; fails when it gave none for the whole retry budget.
    fn keep_alive(&mut self, now: Instant, ports: PortMask) -> Option<ErrorCause> {
        if self.req.keepalive_ns == 0 || now < self.keepalive_deadline() {
            return None;
        }
        if self.req.keepalive_from != self.req.last_heard {
            (self.req.keepalive_from, self.req.keepalive_probes) = (self.req.last_heard, 0);
        }
        let silent = now.since(self.req.last_heard);
        let begun = self.req.last_heard > self.req.started;
        // Probes, not only time: a process that was stopped itself has asked nobody.
        if begun
            && self.req.keepalive_probes >= KEEPALIVE_PROBES
            && self.req.retry.budget_ns().is_some_and(|budget| silent > budget)
        {
            return Some(ErrorCause::PeerSilent);
        }
        self.req.keepalive_probes = self.req.keepalive_probes.saturating_add(1);
        if self.path.set.usable_ports().is_empty() {
            self.test_ports(ports);
        } else {
            self.probe_somewhere(now, ports);
        }
        self.req.next_keepalive = now.after(self.req.keepalive_ns);
        None
    }

    fn keepalive_deadline(&self) -> Instant {
        if self.req.keepalive_ns == 0 {
            return Instant::FAR;
        }
        self.req.next_keepalive.max(self.req.last_heard.after(self.req.keepalive_ns))
    }

    /// When the rate limit lets a wanted probe go. Once it does, the QP has its turn among those that send.
    fn wanted_probe(&self, now: Instant) -> Instant {
        let held_back = self.req.probes.wants_any() && self.req.next_probe > now;
        if held_back { self.req.next_probe } else { Instant::FAR }
    }

    /// When the oldest probe under way expires.
    fn probe_deadline(&self, now: Instant) -> Instant {
        let probes = &self.req.probes;
        if probes.is_idle() { Instant::FAR } else { probes.deadline(now, self.req.probe_patience_ns()) }
    }

    /// When [`TxSide::on_timeout`] next has something to do, always after `now`: a deadline that has come but could
    /// not be served (no port, probe limit) is tried again a little later instead of spinning.
    pub(crate) fn next_timeout(&self, now: Instant) -> Instant {
        let earliest = self
            .req
            .next_scan
            .min(self.tack_deadline())
            .min(self.probe_deadline(now))
            .min(self.wanted_probe(now))
            .min(self.path.set.next_timeout())
            .min(self.req.next_tail_probe)
            .min(self.req.path_retry)
            .min(self.req.portless)
            .min(self.keepalive_deadline())
            .min(self.req.next_release);
        if earliest > now { earliest } else { now.after(self.req.probe_rate_limit_ns.max(1_000)) }
    }
}
