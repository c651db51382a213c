//! NSCC, the congestion control of UET that MRC adopts: a sender window clocked by the bytes the responder reports and
//! driven by ECN marks and round trips together. Owns the arithmetic; when it is asked is the requester's concern.
//! Source: `congestion.md` 2 to 4 and 7 (UET 1.0 section 3.6.13). Every window result is rounded down.

mod config;
mod crowd;
#[cfg(test)]
mod tests;

pub use config::NsccConfig;

use super::{AckSample, CongestionControl, NOMINAL_OVERHEAD};
use crate::{Prefetch, time::Instant};
use config::Params;

/// Longest delay that is averaged; longer ones count as this. Keeps the average's arithmetic within 64 bits.
const DELAY_CAP_NS: u64 = 1 << 31;

/// One NSCC controller.
//= NSCC-026
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Nscc {
    cwnd: u64,
    /// Signed: the responder rounds its byte counter up.
    inflight: i64,
    /// What must fit into the window before a packet leaves: a full packet, or one byte.
    room: u16,
    /// [`NsccConfig::crowds`].
    crowds: bool,
    /// A packet that is larger than the window has left: until `pause_end` no other may.
    paused: bool,
    trigger_qa: bool,
    /// Fast increase is on.
    boost: bool,
    // What follows is touched by every acknowledgement.
    base_rtt_ns: u64,
    /// Bytes received since increases were last applied.
    received: u64,
    /// Bytes received in the current quick-adapt epoch.
    achieved: u64,
    /// Bytes accounted for since the last quick adapt.
    ignored: u64,
    /// Increase waiting to be applied, in bytes^2.
    inc: u64,
    /// 2^48 / base RTT, so that averaging needs no division.
    per_base_rtt_q48: u64,
    t_avg: Instant,
    /// Average queueing delay in 1/256 ns.
    avg_delay_q8: u64,
    t_adj: Instant,
    /// End of the current quick-adapt epoch; [`Instant::ZERO`] before the first. As an `Option` it would be where the compiler says which
    /// kind of controller this is, far from the window.
    qa_end: Instant,
    /// Bytes received in a row at a delay of about zero.
    fi_count: u64,
    /// The window before a receiver penalty; 0 = none saved.
    saved_cwnd: u64,
    max_wnd: u64,
    p: Params,
    t_dec: Instant,
    /// Bytes that were in flight at the last quick adapt.
    to_ignore: u64,
    pause_end: Instant,
}

impl Nscc {
    /// Where what a packet that leaves touches ends, in bytes.
    #[cfg(test)]
    pub(crate) const SENT: usize = core::mem::offset_of!(Self, trigger_qa);

    /// The published name of the algorithm.
    //= CCU-008
    pub(crate) const NAME: &'static str = "uet-1.0-nscc";

    /// A controller for packets of at most `mtu_bytes` nominal bytes, with the window wide open.
    //= CCU-009, CCU-010
    pub(crate) fn new(config: &NsccConfig, mtu_bytes: u32, now: Instant) -> Self {
        let p = Params::derive(config, mtu_bytes);
        let max_wnd = p.max_wnd(p.base_rtt_ns);
        Self {
            room: p.room(),
            crowds: config.crowds,
            paused: false,
            pause_end: Instant::ZERO,
            p,
            cwnd: max_wnd,
            inflight: 0,
            saved_cwnd: 0,
            base_rtt_ns: p.base_rtt_ns,
            per_base_rtt_q48: per_rtt(p.base_rtt_ns),
            max_wnd,
            achieved: 0,
            received: 0,
            fi_count: 0,
            trigger_qa: false,
            boost: false,
            qa_end: Instant::ZERO,
            to_ignore: 0,
            ignored: 0,
            inc: 0,
            t_adj: now,
            t_dec: now,
            t_avg: now,
            avg_delay_q8: 0,
        }
    }

    /// The lines of memory that acknowledgements read.
    #[inline]
    pub(super) fn fetch(&self, memory: &impl Prefetch) {
        memory.prefetch(&self.base_rtt_ns);
        memory.prefetch(&self.t_adj);
        memory.prefetch(&self.p.alpha_q32);
    }

    /// Packets of up to `mtu_bytes` leave from now on: what depends on their size is derived anew, the state stays.
    pub(super) fn set_mtu(&mut self, config: &NsccConfig, mtu_bytes: u32) {
        self.p = Params::derive(config, mtu_bytes);
        self.room = self.p.room();
        self.max_wnd = self.p.max_wnd(self.base_rtt_ns);
        self.cwnd = self.cwnd.max(self.p.min_cwnd);
    }

    /// Any room at all is enough.
    pub(super) fn send_below_window(&mut self) {
        self.room = 1;
    }

    /// Works out again what an image does not hold.
    pub(super) fn rebuild(&mut self, config: &NsccConfig, mtu_bytes: u32) {
        self.p = Params::derive(config, mtu_bytes);
        (self.room, self.crowds) = (self.p.room(), config.crowds);
        self.paused &= config.crowds;
        self.max_wnd = self.p.max_wnd(self.base_rtt_ns);
        self.per_base_rtt_q48 = per_rtt(self.base_rtt_ns);
    }

    /// Smallest round trip known, in nanoseconds.
    pub(crate) fn base_rtt_ns(&self) -> u64 {
        self.base_rtt_ns
    }

    /// Whether a probe may lower the base RTT.
    pub(super) fn takes_rtt_of_probes(&self) -> bool {
        !self.p.disable_rtt_probe
    }

    /// Average queueing delay over about one base RTT, in nanoseconds.
    pub(crate) fn avg_delay_ns(&self) -> u64 {
        self.avg_delay_q8 >> 8
    }

    fn follow_rtt(&mut self) {
        if self.p.window_follows_rtt {
            self.cwnd = self.cwnd.min(self.max_wnd);
        }
    }

    /// The round trip of a full packet, from that of one with `payload` bytes.
    #[inline(never)]
    pub(super) fn full_rtt_ns(&self, rtt_ns: u64, payload: u32) -> u64 {
        let full = self.p.mtu.saturating_sub(NOMINAL_OVERHEAD.into());
        let missing = full.saturating_sub(payload.into());
        // Products of a time below 2^32 and of less than 2^16 bytes; rounded up.
        let product = self.p.probe_shortfall_ns.wrapping_mul(missing).wrapping_add(full);
        rtt_ns.saturating_add(product.wrapping_sub(1).checked_div(full).unwrap_or(0))
    }

    /// The window follows the largest one when increases are applied, or at once.
    //= CCU-011
    fn learn_base_rtt(&mut self, sample_ns: u64) {
        let sample_ns = sample_ns.max(1);
        if sample_ns < self.base_rtt_ns {
            self.base_rtt_ns = sample_ns;
            self.per_base_rtt_q48 = per_rtt(sample_ns);
            self.max_wnd = self.p.max_wnd(sample_ns);
            self.follow_rtt();
        }
    }

    /// Moves the average towards `delay_ns`: all the way after one base RTT of silence, in proportion before.
    //= NSCC-025
    fn average(&mut self, now: Instant, delay_ns: u64) {
        let elapsed = now.since(self.t_avg);
        self.t_avg = now;
        let target = delay_ns.min(DELAY_CAP_NS) << 8;
        // Below 2^40 both ways: either product fits.
        let distance = (target as i64).wrapping_sub(self.avg_delay_q8 as i64);
        if self.p.avg_weight_q16 > 0 {
            let step = distance.wrapping_mul(self.p.avg_weight_q16 as i64) >> 16;
            self.avg_delay_q8 = self.avg_delay_q8.saturating_add_signed(step);
        } else if elapsed >= self.base_rtt_ns {
            self.avg_delay_q8 = target;
        } else if target != self.avg_delay_q8 {
            // Below 2^22, since `elapsed` is less than the base RTT.
            let weight_q22 = elapsed.wrapping_mul(self.per_base_rtt_q48) >> 26;
            let step = distance.wrapping_mul(weight_q22 as i64) >> 22;
            self.avg_delay_q8 = self.avg_delay_q8.saturating_add_signed(step);
        }
    }

    /// By `bytes`, down to a packet. What is less stays.
    fn shrink(&mut self, bytes: u32) {
        self.cwnd = self.cwnd.saturating_sub(bytes.into()).max(self.p.mtu.min(self.cwnd));
    }

    /// Whether quick adapt took charge of this feedback.
    //= NSCC-012, NSCC-013, NSCC-014
    fn quick_adapt(&mut self, now: Instant, loss: bool, mark: bool, delay_ns: u64) -> bool {
        if self.p.disable_qa || self.is_packet_or_less() {
            return false;
        }
        let mut handled = false;
        if mark && self.ignored < self.to_ignore {
            handled = true;
        } else if now >= self.qa_end {
            let called_for = self.trigger_qa || loss || delay_ns > self.p.qa_threshold_ns;
            if self.qa_end > Instant::ZERO && called_for && self.achieved < self.max_wnd.wrapping_shr(self.p.qa_gate) {
                self.cwnd = self.achieved.max(self.p.mtu);
                self.to_ignore = self.inflight.max(0).unsigned_abs();
                self.ignored = 0;
                self.trigger_qa = false;
                handled = true;
            }
            self.achieved = 0;
            self.qa_end = now.after(self.base_rtt_ns.saturating_add(self.p.target_ns));
        }
        if handled {
            self.inc = 0;
            self.received = 0;
        }
        handled
    }

    //= NSCC-016, NSCC-017
    fn receiver_penalty(&mut self, ack: &AckSample) {
        if ack.penalty > 0 {
            if self.saved_cwnd == 0 {
                self.saved_cwnd = self.cwnd;
            }
            let flight = self.inflight.max(0).unsigned_abs();
            let cut = u64::from(ack.penalty).wrapping_mul(ack.newly_bytes.into()) >> 7;
            self.cwnd = self.cwnd.min(flight).saturating_sub(cut).max(self.p.mtu.min(self.cwnd));
        } else if self.saved_cwnd > 0 {
            if ack.restore {
                self.cwnd = self.saved_cwnd;
                self.follow_rtt();
            }
            self.saved_cwnd = 0;
        }
    }

    /// Table 8-1: mark and delay choose the reaction; a receiver penalty forbids increases.
    //= NSCC-001, NSCC-002, NSCC-003, NSCC-004, NSCC-007
    fn react(&mut self, now: Instant, newly_bytes: u64, mark: bool, delay_ns: u64, limited: bool) {
        let target_ns = self.target_ns();
        match (mark, delay_ns < target_ns) {
            (false, true) if !limited => self.proportional_increase(newly_bytes, delay_ns, target_ns),
            (true, false) => self.decrease(now, target_ns, self.is_crowded()),
            (false, false) if self.crowds => self.decrease(now, target_ns, true),
            //= NSCC-008
            (false, false) if !limited => {
                self.inc = self.inc.saturating_add(self.p.fi_bytes.saturating_mul(newly_bytes));
            }
            _ => {}
        }
    }

    //= NSCC-009, NSCC-010
    fn proportional_increase(&mut self, newly_bytes: u64, delay_ns: u64, target_ns: u64) {
        if delay_ns >= self.p.clear_delay_ns {
            self.fi_count = 0;
            self.boost = false;
        } else {
            self.fi_count = self.fi_count.saturating_add(newly_bytes);
            if self.boost || self.fi_count > self.cwnd {
                self.boost = true;
                let step = newly_bytes.saturating_mul(self.p.fi_scale_q16) >> 16;
                self.cwnd = self.cwnd.saturating_add(step).min(self.max_wnd);
                return;
            }
        }
        let room_ns = target_ns.saturating_sub(delay_ns);
        // Three factors of 2^32, 2^32 and 2^64 at most.
        let step = u128::from(newly_bytes.wrapping_mul(room_ns)).wrapping_mul(self.p.alpha_q32.into()) >> 32;
        let step = step.min(u64::MAX.into()) as u64;
        let step = if self.is_crowded() { self.crowd_step(step, newly_bytes) } else { step };
        self.inc = self.inc.saturating_add(step);
    }

    //= NSCC-011
    fn decrease(&mut self, now: Instant, target_ns: u64, gently: bool) {
        self.boost = false;
        self.fi_count = 0;
        let target_q8 = target_ns << 8;
        if self.avg_delay_q8 <= target_q8 || now.since(self.t_dec) <= self.base_rtt_ns {
            return;
        }
        self.t_dec = now;
        let excess_q8 = self.avg_delay_q8.saturating_sub(target_q8);
        let excess_q24 = (excess_q8 << 24).checked_div(self.avg_delay_q8).unwrap_or(0);
        // Q24 * Q16: the part of the window to give up, rounded up so that the rest is rounded down.
        let cut_q40 = u128::from(excess_q24.wrapping_mul(self.p.gamma_q16)).wrapping_mul(self.cwnd.into());
        let cut = cut_q40.div_ceil(1 << 40).min(u64::MAX.into()) as u64;
        let cut = if gently { Self::gentle(cut) } else { cut };
        let floor = (u128::from(self.cwnd).wrapping_mul(self.p.max_md_jump_q16.into()) >> 16) as u64;
        self.cwnd = self.cwnd.saturating_sub(cut).max(floor).max(self.p.mtu.min(self.cwnd));
    }

    //= NSCC-015
    fn apply(&mut self, now: Instant) {
        let period_over = now.since(self.t_adj) >= self.p.adjust_period_ns;
        if !period_over && self.received <= self.p.adjust_bytes {
            return;
        }
        let mut step = self.inc.checked_div(self.cwnd).unwrap_or(0);
        if self.is_crowded() {
            step = step.min(self.cwnd);
        } else if period_over {
            step = step.saturating_add(self.p.eta_bytes);
        }
        if period_over {
            self.t_adj = now;
        }
        self.cwnd = self.cwnd.saturating_add(step).min(self.max_wnd);
        self.inc = 0;
        self.received = 0;
    }
}

fn per_rtt(rtt_ns: u64) -> u64 {
    (1u64 << 48).checked_div(rtt_ns).unwrap_or(1 << 48)
}

impl CongestionControl for Nscc {
    //= NSCC-005, NSCC-006
    fn on_ack(&mut self, now: Instant, ack: &AckSample) {
        let newly = u64::from(ack.newly_bytes);
        self.inflight = self.inflight.saturating_sub(ack.newly_bytes.into());
        self.ignored = self.ignored.saturating_add(newly);
        self.received = self.received.saturating_add(newly);
        self.achieved = self.achieved.saturating_add(newly);
        self.receiver_penalty(ack);
        let Some(rtt_ns) = ack.rtt_ns else {
            self.grow_unmeasured(newly, ack.penalty > 0);
            return;
        };
        self.learn_base_rtt(rtt_ns);
        let delay_ns = rtt_ns.saturating_sub(self.base_rtt_ns);
        let unmarked_late = !ack.marked && delay_ns > self.p.target_ns && self.p.avg_weight_q16 > 0;
        self.average(now, if unmarked_late { self.p.base_rtt_ns / 4 } else { delay_ns });
        if self.quick_adapt(now, false, ack.marked, delay_ns) {
            return;
        }
        self.react(now, newly, ack.marked, delay_ns, ack.penalty > 0);
        self.apply(now);
    }

    //= NSCC-019, NSCC-020
    fn on_nack(&mut self, now: Instant, bytes: u32, trimmed: bool, rtt_ns: Option<u64>) {
        self.inflight = self.inflight.saturating_sub(bytes.into());
        if let Some(rtt_ns) = rtt_ns {
            self.learn_base_rtt(rtt_ns);
        }
        if !trimmed {
            return;
        }
        // The packet met a full queue; how long that would have delayed it is not known.
        self.average(now, self.p.base_rtt_ns);
        self.ignored = self.ignored.saturating_add(bytes.into());
        self.trigger_qa = true;
        if self.quick_adapt(now, true, true, 0) {
            return;
        }
        if self.is_packet_or_less() {
            self.halve();
        } else {
            self.shrink(bytes);
        }
    }

    //= NSCC-018
    fn on_loss(&mut self, _now: Instant, bytes: u32) {
        self.shrink(bytes);
        self.ignored = self.ignored.saturating_add(bytes.into());
        self.inflight = self.inflight.saturating_sub(bytes.into());
    }

    //= NSCC-021
    fn on_unloss(&mut self, bytes: u32) {
        self.inflight = self.inflight.saturating_add(bytes.into());
    }

    fn on_send(&mut self, bytes: u32) {
        self.inflight = self.inflight.saturating_add(bytes.into());
    }

    //= RTT-003
    fn on_base_rtt(&mut self, rtt_ns: u64) {
        if !self.p.disable_rtt_probe {
            self.learn_base_rtt(rtt_ns);
        }
    }

    //= NSCC-021
    fn on_settled(&mut self, bytes: i64) {
        self.inflight = self.inflight.saturating_sub(bytes);
    }

    //= NSCC-022
    fn can_send(&self) -> bool {
        let fits = self.inflight <= 0 || self.inflight.unsigned_abs().saturating_add(self.room.into()) <= self.cwnd;
        fits && !self.paused
    }

    fn cwnd_bytes(&self) -> u64 {
        self.cwnd
    }

    fn max_wnd_bytes(&self) -> u64 {
        self.max_wnd
    }

    fn inflight_bytes(&self) -> i64 {
        self.inflight
    }
}

crate::image::stored!(
    struct Nscc {
        cwnd, inflight, saved_cwnd, base_rtt_ns, achieved, received, fi_count, trigger_qa, boost, qa_end, to_ignore, ignored, inc,
        t_adj, t_dec, t_avg, avg_delay_q8, paused, pause_end,
    }
    rebuilt {
        room: 1, crowds: false, p: Params::derive(&NsccConfig::new(1, 1, false), 1),
        per_base_rtt_q48: 0, max_wnd: 0,
    }
    where |cc| cc.base_rtt_ns > 0
);
