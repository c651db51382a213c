//! What time alone does to the requester: packet timers, the missing Transport ACK, probes, keep-alive.
//! Source: `transport.md` 3.8, 3.9 and 5, `paths.md` 10.

use mrc_wire::{PortNum, Psn};

use super::{TxRecord, TxSide};
use crate::num::Counter;
use crate::{
    Qp,
    config::{MAX_PORTS, TIMER_CEILING_NS},
    event::{ErrorCause, LossCause},
    path::Feedback,
    port::PortMask,
    time::Instant,
};

/// Keep-alive probes in a row without an answer before the peer may count as gone.
const KEEPALIVE_PROBES: u8 = 3;

/// How often masked ports are tested, and a missing Transport ACK is asked for, when the retransmission timer is disabled, in nanoseconds.
const UNTIMED_TEST_NS: u64 = 1_024 << 14;

/// No timer of a QP fires sooner again, in nanoseconds, whatever round trip it is told of.
const SOONEST_NS: u64 = 1_000;

impl TxSide<'_, '_> {
    /// When the timer is to fire next, if nothing is due at `now` after all: deadlines move later without a word to the timer.
    pub(crate) fn not_before(&mut self, now: Instant, ports: PortMask) -> Option<Instant> {
        // Whatever may have changed what the QP wants is for a turn of the whole.
        if ports.is_empty() || ports != self.qp.paths.usable_ports() || self.qp.req.probes.wants_any() {
            return None;
        }
        let tail = self.tail_deadline(now);
        let next = self.deadlines(now).min(self.qp.paths.next_timeout()).min(tail);
        if next <= now {
            return None;
        }
        self.qp.req.next_tail_probe = tail;
        Some(next)
    }

    /// Does what is due at `now`; an error when the retry budget is spent. `ports` lead to the peer; `testable` are those
    /// for probes, which may go where the peer says that nothing arrives.
    pub(crate) fn on_timeout(&mut self, now: Instant, ports: PortMask, testable: PortMask) -> Option<ErrorCause> {
        self.set_ports(now, ports);
        let mut failure = self.wait_for_port(now, testable);
        if now >= self.qp.req.next_scan {
            failure = failure.or(self.expire_packets(now));
        }
        if failure.is_none() && now >= self.tack_deadline() {
            failure = self.tack_overdue(now);
        }
        self.release_held(now);
        let patience = self.qp.req.probe_patience_ns();
        while let Some(ev) = self.qp.req.probes.expired(now, patience) {
            self.stats.probe_lost.inc();
            self.feedback(now, ev, Feedback::ProbeLost);
        }
        if !ports.is_empty() && now >= self.qp.paths.next_timeout() {
            self.probe_paths(now, ports);
        }
        if !ports.is_empty() && now >= self.qp.req.next_tail_probe {
            self.probe_tail(now, ports);
        }
        if now >= self.qp.req.path_retry {
            self.qp.req.path_retry = self.qpcc.resume(now);
        }
        failure.or_else(|| self.keep_alive(now, testable))
    }

    /// No port leads to the peer: the first retry is charged after the interval of a packet that left now.
    #[cold]
    pub(super) fn without_ports(&mut self, now: Instant) {
        if !self.is_stranded() {
            self.qp.req.portless = Instant::FAR;
        } else if self.qp.req.portless == Instant::FAR {
            let wait = match self.qp.req.retry.t0_ns() {
                Some(_) => self.qp.req.retry.interval_ns(self.qp.req.retry_cnt),
                None => UNTIMED_TEST_NS,
            };
            self.qp.req.portless = now.after(wait);
        }
    }

    /// Without a usable port no packet leaves, so that no packet's timer can charge the budget: time charges it, a retry
    /// per interval. At the same pace a probe leaves through each testable port.
    //= RETRY-004, EPOP-009
    fn wait_for_port(&mut self, now: Instant, testable: PortMask) -> Option<ErrorCause> {
        if now < self.qp.req.portless {
            return None;
        }
        self.test_ports(testable);
        let timed = self.qp.req.retry.t0_ns().is_some();
        if timed {
            self.qp.req.retry_cnt = self.qp.req.retry_cnt.saturating_add(1);
            self.qp.req.last_retry = now;
        }
        self.qp.req.portless = Instant::FAR;
        self.without_ports(now);
        (timed && self.qp.req.retry.exhausted(self.qp.req.retry_cnt)).then_some(ErrorCause::NoUsablePort)
    }

    /// One probe through each of `ports`.
    fn test_ports(&mut self, ports: PortMask) {
        for plane in 0..MAX_PORTS as u8 {
            let port = PortNum::from_plane(plane);
            if ports.contains(port)
                && let Some(ev) = self.qp.paths.any_on(self.slots, port, self.rng)
            {
                self.qp.req.probes.want(ev);
            }
        }
    }

    /// Packets whose timer has run out; also finds the next deadline. Looks at each packet within [`TIMER_CEILING_NS`], even if the
    /// timer is disabled.
    //= TIMER-001, TIMER-004
    fn expire_packets(&mut self, now: Instant) -> Option<ErrorCause> {
        let (unack, max) = (self.qp.req.unack, self.qp.req.max_sent);
        let mut next = Instant::FAR;
        let mut failure = None;
        let mut base = unack.next();
        let mut left = self.qp.req.outstanding();
        while left > 0 {
            let mut sent = self.window.sent_bits(base, unack, max);
            while sent != 0 {
                let psn = base.add(sent.trailing_zeros());
                sent &= sent.wrapping_sub(1);
                let Some(record) = self.window.record_mut(psn) else { continue };
                let retries = record.armed_retries();
                let interval = self.qp.req.retry.interval_ns(retries);
                let elapsed = record.sent_at.elapsed_ns(now);
                if elapsed < interval {
                    record.keep_age(now);
                    next = next.min(now.after(interval.saturating_sub(elapsed).min(TIMER_CEILING_NS)));
                    continue;
                }
                record.timed_out();
                let left = record.left_at(now);
                let ev = record.ev();
                self.stats.lost_timeout.inc();
                self.announce_loss(psn, ev, LossCause::Timeout);
                self.lose(now, psn);
                // With a single path, silence on all paths is silence on one: the second time in a row it is to blame.
                let only = retries > 0 && self.qp.paths.is_single_path();
                if self.qp.req.blame_silence || only || self.qp.req.lateness.overtaken(left) {
                    self.feedback(now, ev, Feedback::Timeout);
                }
                self.qp.req.probes.want(ev);
                if !self.is_stranded() {
                    failure = failure.or(self.count_retry(now, psn));
                }
            }
            base = base.add(left.min(64));
            left = left.saturating_sub(64);
        }
        self.qp.req.next_scan = next;
        failure
    }

    fn tack_deadline(&self) -> Instant {
        match self.qp.req.tack_wait {
            Instant::FAR => Instant::FAR,
            // Nothing else would find that it was lost: all packets are known to have arrived.
            since => since.after(self.qp.req.retry.t0_ns().unwrap_or(UNTIMED_TEST_NS)),
        }
    }

    /// All packets of the oldest request arrived, its Transport ACK did not: repeat its last packet.
    //= TACK-004
    fn tack_overdue(&mut self, now: Instant) -> Option<ErrorCause> {
        let answered = self.qp.req.last_heard > self.qp.req.tack_wait;
        self.qp.req.tack_wait = now;
        self.qp.req.resend_tail = true;
        let timed = self.qp.req.retry.t0_ns().is_some();
        if self.is_stranded() || !timed {
            return None;
        }
        if answered && self.cfg.tail_retry_lenient {
            // The budget is for a peer that is silent. With nothing else unacknowledged, silences that it broke do not add up.
            if self.qp.req.outstanding() == 0 {
                self.qp.req.retry_cnt = 0;
            }
            return None;
        }
        if self.cfg.tail_retry_paced
            && self.qp.req.retry_cnt > 0
            && now.since(self.qp.req.last_retry) < self.tail_pause_ns()
        {
            return None;
        }
        self.count_retry(now, self.qp.req.tack.next())
    }

    /// How long after a retry a repeated tail is the next one, where it is charged no faster than a packet. Repetitions are T0
    /// apart: half of that less, so that one that is a little early counts, too.
    fn tail_pause_ns(&self) -> u64 {
        let retry = &self.qp.req.retry;
        retry.interval_ns(self.qp.req.retry_cnt).saturating_sub(retry.t0_ns().unwrap_or(0) / 2)
    }

    /// Asks for the probes that the paths want: of bad EVs, and of alternatives.
    pub(super) fn probe_paths(&mut self, now: Instant, ports: PortMask) {
        let idle = self.qp.req.outstanding() == 0 && !self.qp.sq.has_new();
        for _ in 0..4 {
            let Self { qp, slots, .. } = self;
            let Qp { paths: set, path_cfg: cfg, .. } = &mut **qp;
            let Some(choice) = set.poll_probe(now, slots, ports, cfg, idle) else { break };
            self.qp.req.probes.want(choice.index);
        }
    }

    /// Data is outstanding and nothing was heard for a while: ask.
    fn probe_tail(&mut self, now: Instant, ports: PortMask) {
        if self.qp.req.next_scan == Instant::FAR {
            // Without a timer packets are looked at only to keep their age.
            self.qp.req.next_scan = now.after(TIMER_CEILING_NS);
        }
        let due = self.tail_deadline(now);
        if now < due {
            self.qp.req.next_tail_probe = due;
            return;
        }
        let oldest =
            self.window.first_sent(self.qp.req.unack, self.qp.req.max_sent).and_then(|psn| self.window.record(psn));
        let silent = now.since(self.qp.req.last_answer);
        let pace = self.qp.req.rtt_now_ns().saturating_mul(5);
        // No earlier than the probe limit lets the one after this leave: until then a wake-up could send nothing.
        let next = now.after(pace.max(self.silent_pace_ns(now, silent, oldest)).max(SOONEST_NS));
        let allowed = self.qp.req.next_probe.max(now).after(self.qp.req.probe_rate_limit_ns);
        self.qp.req.next_tail_probe = next.max(allowed);
        // Behind the oldest packet on its own path; when that path gives no answer, on another.
        match oldest.filter(|_| silent < pace) {
            Some(record) => self.qp.req.probes.want(record.ev()),
            None => self.probe_somewhere(now, ports),
        }
    }

    /// How far apart tail probes are at least while the peer is `silent`, where that matters (`silent_packets`): a quarter of the silence, so
    /// that they become fewer, and T0 at most, so that a peer that returns is found soon. No answer was owed before the `oldest` packet left.
    //= PROBE-006
    fn silent_pace_ns(&self, now: Instant, silent: u64, oldest: Option<TxRecord>) -> u64 {
        if self.cfg.silent_packets == 0 {
            return 0;
        }
        let first = oldest.filter(|record| record.tx_count() == 1);
        let silent = first.map_or(silent, |record| silent.min(record.sent_at.elapsed_ns(now)));
        (silent / 4).min(self.qp.req.retry.t0_ns().unwrap_or(UNTIMED_TEST_NS))
    }

    /// When a tail draws its probe: later than was foreseen, where the silence was broken.
    fn tail_deadline(&self, now: Instant) -> Instant {
        let foreseen = self.qp.req.next_tail_probe;
        if now < foreseen || self.probes_tails() {
            return foreseen;
        }
        foreseen.max(self.qp.req.last_answer.after(self.tail_patience_ns()))
    }

    /// How long silence lasts before it draws a probe. With nothing left to send, or a window that does not let it go,
    /// only a probe can show what became of the tail, so it leaves as soon as the answer to the last packet is overdue.
    //= PROBE-006
    fn tail_patience_ns(&self) -> u64 {
        let more = (self.qp.sq.has_new() || self.qp.req.lost > 0) && self.qpcc.can_send();
        if more { self.qp.req.rtt_now_ns().saturating_mul(3) } else { self.qp.req.tail_answer_ns() }
    }

    /// A probe on a path like that of data or, every other time, on any EV that is not denied: where answers die on their
    /// return path, EVs were retired that work, and those left in rotation may be the dead ones.
    //= PROBE-011
    fn probe_somewhere(&mut self, now: Instant, ports: PortMask) {
        let Self { qp, slots, order, rng, .. } = self;
        let Qp { paths: set, path_cfg: cfg, .. } = &mut **qp;
        let ev = if rng.below(2) == 0 {
            set.any_of(slots, ports.and(set.usable_ports()), rng)
        } else {
            set.select(now, slots, order, ports, cfg, rng).map(|choice| choice.index)
        };
        self.count_ended_skips();
        if let Some(ev) = ev {
            self.qp.req.probes.want(ev);
        }
    }

    /// Asks a silent peer for a sign of life; fails when it gave none for the whole retry budget. While no port is up nobody
    /// can be asked, and the silence is no fault of the peer: tries with and without a port do not add up.
    //= RETRY-003
    fn keep_alive(&mut self, now: Instant, ports: PortMask) -> Option<ErrorCause> {
        if self.qp.req.keepalive_ns == 0 || now < self.keepalive_deadline() {
            return None;
        }
        let unheard = ports.is_empty();
        if self.qp.req.keepalive_from != self.qp.req.last_heard || self.qp.req.keepalive_unheard != unheard {
            self.qp.req.keepalive_from = self.qp.req.last_heard;
            (self.qp.req.keepalive_probes, self.qp.req.keepalive_unheard) = (0, unheard);
        }
        let silent = now.since(self.qp.req.last_heard);
        let begun = self.qp.req.last_heard > self.qp.req.started;
        // Probes, not only time: a process that was stopped itself has asked nobody.
        if begun
            && self.qp.req.keepalive_probes >= KEEPALIVE_PROBES
            && self.qp.req.retry.budget_ns().is_some_and(|budget| silent > budget)
        {
            return Some(if unheard { ErrorCause::NoUsablePort } else { ErrorCause::PeerSilent });
        }
        self.qp.req.keepalive_probes = self.qp.req.keepalive_probes.saturating_add(1);
        if self.qp.paths.usable_ports().is_empty() {
            self.test_ports(ports);
        } else {
            self.probe_somewhere(now, ports);
        }
        self.qp.req.next_keepalive = now.after(self.qp.req.keepalive_ns);
        None
    }

    fn keepalive_deadline(&self) -> Instant {
        if self.qp.req.keepalive_ns == 0 {
            return Instant::FAR;
        }
        self.qp.req.next_keepalive.max(self.qp.req.last_heard.after(self.qp.req.keepalive_ns))
    }

    /// When the rate limit lets a wanted probe go. Once it does, the QP has its turn among those that send.
    fn wanted_probe(&self, now: Instant) -> Instant {
        let held_back = self.qp.req.probes.wants_any() && self.qp.req.next_probe > now;
        if held_back { self.qp.req.next_probe } else { Instant::FAR }
    }

    /// When the oldest probe under way expires.
    fn probe_deadline(&self, now: Instant) -> Instant {
        let probes = &self.qp.req.probes;
        if probes.is_idle() { Instant::FAR } else { probes.deadline(now, self.qp.req.probe_patience_ns()) }
    }

    /// When [`TxSide::on_timeout`] next has something to do, always after `now`: a deadline that has come but could
    /// not be served (probe limit) is tried again a little later instead of spinning. Without a port that leads to the peer neither paths
    /// nor tails are probed: one that returns wakes the QP.
    pub(crate) fn next_timeout(&self, now: Instant) -> Instant {
        let mut earliest = self.deadlines(now);
        if !self.qp.paths.usable_ports().is_empty() {
            earliest = earliest.min(self.qp.paths.next_timeout()).min(self.qp.req.next_tail_probe);
        }
        if earliest > now { earliest } else { self.once_more(now) }
    }

    /// When a deadline that has come is looked at again.
    pub(crate) fn once_more(&self, now: Instant) -> Instant {
        now.after(self.qp.req.probe_rate_limit_ns.max(SOONEST_NS))
    }

    /// The first of the deadlines that no port has to lead to the peer for.
    #[inline(always)]
    fn deadlines(&self, now: Instant) -> Instant {
        self.qp
            .req
            .next_scan
            .min(self.tack_deadline())
            .min(self.probe_deadline(now))
            .min(self.wanted_probe(now))
            .min(self.qp.req.path_retry)
            .min(self.qp.req.portless)
            .min(self.keepalive_deadline())
            .min(self.qp.req.next_release)
    }

    /// The ports that lead to the peer now. Without any, time begins to charge the retry budget.
    #[inline(always)]
    pub(crate) fn set_ports(&mut self, now: Instant, ports: PortMask) {
        self.qp.paths.set_usable_ports(ports);
        if !ports.is_empty() {
            self.qp.req.portless = Instant::FAR;
        } else {
            self.copy().without_ports(now);
        }
    }

    /// Whether requests wait, and no port leads to the peer.
    #[inline]
    pub(super) fn is_stranded(&self) -> bool {
        self.qp.paths.usable_ports().is_empty() && self.qp.sq.len() > 0
    }

    /// Charges a retry of `psn` to the budget; an error when it is spent (`transport.md` 3.8).
    //= RETRY-001, RETRY-003, ERR-005
    pub(super) fn count_retry(&mut self, now: Instant, psn: Psn) -> Option<ErrorCause> {
        // What a SACK reports is acknowledged, though packets before it keep the responder from saying so of all.
        let oldest = self.window.first_unsacked(self.qp.req.unack, self.qp.req.max_sent);
        let counts = Some(psn) == oldest || psn == self.qp.req.tack.next() || self.cfg.retry_strict;
        if !counts {
            return None;
        }
        let pause = self.qp.req.retry.t0_ns().unwrap_or(0) / 2;
        if self.qp.req.retry_cnt > 0 && now.since(self.qp.req.last_retry) < pause {
            return None;
        }
        self.qp.req.retry_cnt = self.qp.req.retry_cnt.saturating_add(1);
        self.qp.req.last_retry = now;
        self.qp.req.retry.exhausted(self.qp.req.retry_cnt).then_some(ErrorCause::RetryExceeded)
    }
}
