//! Hopper: one path at a time, left for a better one when its round trip says that it is congested.
//! Source: Nosrati and Ghaderi, "Hopper: Predictive Load Balancing for RDMA Traffic", section 3 and algorithm 1.
//!
//! ```text
//! RTT of the path   below th_probe      above th_probe                above th_cong
//! (average)         stay                probe two random paths        the better one wins by the margin: pause, then
//!                                       not probed for ttl_probe      switch; else stay, look again next epoch
//! ```
//! An epoch lasts one round trip, probes at most once and switches at most once. What the paper leaves open:
//!
//! * Probes are answered while the epoch runs on, so samples and answers both compare what is known; a sample then asks
//!   for more. Samples alone would come too late: on a very slow path they are rarer than answers live. A winner is taken
//!   once every unanswered probe has waited as long as the winner's round trip: those paths are slower.
//! * Table 1 has `delta_rtt` = 80 % without saying of what. We ask for a round trip below 80 % of the average. With a margin of
//!   80 % it would have to be below 20 %, and even an idle path would win only above five base round trips.
//! * The answers of the last two probed paths stay usable for `ttl_probe`, hence over the end of an epoch; and an epoch
//!   that begins while the probes of the one before may still show a faster path waits for them.
//! * No packet leaves during the pause: packets still sent on the old path would arrive later still.
//! * A path that dies shows no round trip. A timeout, an inferred loss or a verdict ALWAYS_SKIP changes the state of the
//!   EV as under MRC; one that is bad, denied or behind a port that went down is left at once for a random healthy one.
//!   A loss that leaves the EV healthy moves the QP once per epoch ([`HopperConfig::move_on_loss`]).
//!
//! Out of order: MRC places packets as they come, so reordering costs no retransmission by itself. A packet is inferred
//! lost when `reorder_factor` of a window overtook it, by default more than is ever in flight; and the pause lets the
//! last packet of the old path arrive first as far as the regression foresees its delay.

use mrc_wire::Verdict;

use super::{
    EvIndex, EvSlot, Feedback, PathError, PathSelector, Transition,
    research::Traits,
    rotation::Rotation,
    single::{Current, is_health},
    slot::SlotTime,
    spray::Spray,
    trend::Trend,
};
use crate::{
    port::PortMask,
    rng::Rng,
    time::{Instant, Tick},
};

/// Knobs of [`Selector::Hopper`](super::Selector::Hopper), table 1 of the paper. Thresholds are in percent of
/// [`PathConfig::base_rtt_ns`](super::PathConfig::base_rtt_ns), the round trip of a full packet without load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopperConfig {
    /// Weight of a new sample in the average, in percent. The average starts each epoch from zero, as in algorithm 1.
    pub alpha_percent: u16,
    /// Average above which alternatives are probed.
    pub th_probe_percent: u16,
    /// Average above which the path counts as congested.
    pub th_cong_percent: u16,
    /// How long a path is not probed again, and how long its answer is believed.
    pub ttl_probe_percent: u16,
    /// An alternative wins when its round trip is below this part of the average of the current path.
    pub delta_rtt_percent: u16,
    /// Pause before a switch, in percent of the difference between the round trip foreseen for the last packet in flight
    /// and that of the new path. 100 assumes that all the difference is on the way out, where data queues; 0 never
    /// pauses.
    pub switch_delay_percent: u16,
    /// Longest pause: bounds what a steep regression can cost, and with it how long a slow path is kept.
    pub switch_delay_max_percent: u16,
    /// An inferred loss on the current path moves the QP, once per epoch, even if the EV stays healthy.
    pub move_on_loss: bool,
    /// A marked acknowledgement of the current path starts the probes of its epoch, whatever the average: queues mark before
    /// round trips grow (section 3.1 leaves this to later work).
    pub probe_on_mark: bool,
    /// Entry of the profile to begin on; [`EvIndex::NONE`] draws one.
    pub first: EvIndex,
}

impl HopperConfig {
    /// The values of the paper; the last five are ours.
    //= HOP-002
    pub const DEFAULT: Self = Self {
        alpha_percent: 100,
        th_probe_percent: 150,
        th_cong_percent: 250,
        ttl_probe_percent: 400,
        delta_rtt_percent: 80,
        switch_delay_percent: 100,
        switch_delay_max_percent: 400,
        move_on_loss: true,
        probe_on_mark: false,
        first: EvIndex::NONE,
    };

    //= HOP-017
    pub(super) const fn check(&self) -> Result<(), PathError> {
        if self.alpha_percent == 0 || self.alpha_percent > 100 {
            return Err(PathError::Knob("Hopper: alpha_percent is 1 to 100"));
        }
        if self.th_cong_percent < self.th_probe_percent {
            return Err(PathError::Knob(
                "Hopper: th_cong_percent is at least th_probe_percent: probes come before switches",
            ));
        }
        Ok(())
    }
}

impl Default for HopperConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What is known of a path that was probed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    /// Nothing: never asked, or the probe was lost.
    None,
    /// To be probed.
    Wanted,
    /// The probe is under way.
    Awaited,
    /// The round trip, in nanoseconds.
    Rtt(u32),
}

/// One of the two alternatives.
#[derive(Clone, Copy, Debug)]
struct Alternative {
    index: EvIndex,
    /// When it was chosen, then when it answered.
    since: Tick,
    answer: Answer,
}

impl Alternative {
    const NONE: Self = Self { index: EvIndex::NONE, since: Tick::at(Instant::ZERO), answer: Answer::None };

    /// The round trip, if it is not older than `ttl_ns`.
    fn rtt(&self, now: Instant, ttl_ns: u64) -> Option<u32> {
        match self.answer {
            Answer::Rtt(rtt_ns) if self.since.elapsed_ns(now) <= ttl_ns => Some(rtt_ns),
            _ => None,
        }
    }

    fn is_pending(&self) -> bool {
        matches!(self.answer, Answer::Wanted | Answer::Awaited)
    }

    /// Whether an answer may still come that shows a path faster than `rtt_ns`.
    //= HOP-014
    fn is_open(&self, now: Instant, rtt_ns: u32) -> bool {
        self.is_pending() && self.since.elapsed_ns(now) < u64::from(rtt_ns)
    }
}

/// The scalars of a QP under [`Hopper`].
#[derive(Clone, Copy, Debug)]
pub(super) struct HopperState {
    pub(super) cfg: HopperConfig,
    current: Current,
    /// The path to take at `resume_at`; `EvIndex::NONE` when no switch is pending.
    target: EvIndex,
    resume_at: Instant,
    epoch_end: Instant,
    avg_ns: u32,
    /// Probes, the comparison and the switch of this epoch are spent.
    probed: bool,
    compared: bool,
    switched: bool,
    alternatives: [Alternative; 2],
    trend: Trend,
}

impl HopperState {
    pub(super) const fn new(cfg: HopperConfig) -> Self {
        Self {
            cfg,
            current: Current::NONE,
            target: EvIndex::NONE,
            resume_at: Instant::ZERO,
            epoch_end: Instant::ZERO,
            avg_ns: 0,
            probed: false,
            compared: false,
            switched: false,
            alternatives: [Alternative::NONE; 2],
            trend: Trend::EMPTY,
        }
    }

    fn is_pausing(&self) -> bool {
        self.target != EvIndex::NONE
    }

    /// What was measured belongs to the path that is being left; the epoch runs on.
    fn take(&mut self, path: EvIndex) {
        self.current = Current { index: path, leave: false };
        self.target = EvIndex::NONE;
        self.avg_ns = 0;
        self.trend = Trend::EMPTY;
        for alternative in &mut self.alternatives {
            if alternative.index == path {
                *alternative = Alternative::NONE;
            }
        }
    }

    fn roll_epoch(&mut self, now: Instant, length_ns: u64) {
        if now >= self.epoch_end {
            self.epoch_end = now.after(length_ns);
            (self.probed, self.compared, self.switched) = (false, false, false);
            self.avg_ns = 0;
            self.trend = Trend::EMPTY;
        }
    }
}

/// `percent` of `ns`.
const fn part(ns: u64, percent: u16) -> u64 {
    ns.saturating_mul(percent as u64) / 100
}

impl Traits for HopperState {
    const SINGLE_PATH: bool = true;

    fn begin(&mut self, first: EvIndex) {
        self.current.index = first;
    }

    fn wants_probe(&self) -> bool {
        let [a, b] = &self.alternatives;
        matches!(a.answer, Answer::Wanted) || matches!(b.answer, Answer::Wanted)
    }

    /// End of the pause before a switch.
    fn next_timeout(&self, _rotation: &Rotation) -> Instant {
        if self.is_pausing() { self.resume_at } else { Instant::FAR }
    }
}

/// View of one QP's paths under Hopper. Built by [`PathSet`](super::PathSet).
#[derive(Debug)]
pub(super) struct Hopper<'a> {
    spray: Spray<'a>,
    state: &'a mut HopperState,
}

impl<'a> Hopper<'a> {
    #[inline]
    pub(super) fn new(spray: Spray<'a>, state: &'a mut HopperState) -> Self {
        Self { spray, state }
    }

    fn base_rtt_ns(&self) -> u64 {
        self.spray.cfg.base_rtt_ns.max(1)
    }

    /// One round trip of the current path: algorithm 1 of the paper.
    fn on_rtt(&mut self, now: Instant, rtt_ns: u32, psn: mrc_wire::Psn, behind: u16, rng: &mut Rng) {
        let base_ns = self.base_rtt_ns();
        let state = &mut *self.state;
        //= HOP-003
        state.roll_epoch(now, base_ns.max(u64::from(rtt_ns)));
        let alpha = u64::from(state.cfg.alpha_percent.min(100));
        //= HOP-004
        state.avg_ns = {
            let (new, old) = (alpha.wrapping_mul(rtt_ns.into()), alpha.abs_diff(100).wrapping_mul(state.avg_ns.into()));
            (new.wrapping_add(old) / 100) as u32
        };
        state.trend.add(psn, rtt_ns, behind);
        self.judge(now);
        // After a switch the average is that of the new path: none yet.
        let state = &mut *self.state;
        let above = u64::from(state.avg_ns) > part(base_ns, state.cfg.th_probe_percent);
        //= HOP-005
        let waits = state.alternatives.iter().any(|alternative| alternative.is_open(now, state.avg_ns));
        if above && !waits {
            self.explore(now, rng);
        }
    }

    /// Asks for the probes of this epoch, once.
    fn explore(&mut self, now: Instant, rng: &mut Rng) {
        if !self.state.probed && !self.state.is_pausing() {
            self.state.probed = true;
            self.choose_alternatives(now, rng);
        }
    }

    /// A mark on the current path: probes begin before the round trip says so.
    //= HOP-016
    fn on_mark(&mut self, now: Instant, rng: &mut Rng) {
        let base_ns = self.base_rtt_ns();
        let state = &mut *self.state;
        state.roll_epoch(now, base_ns);
        if !state.alternatives.iter().any(Alternative::is_pending) {
            self.explore(now, rng);
        }
    }

    /// Compares if the path is congested and this epoch has not compared yet.
    fn judge(&mut self, now: Instant) {
        let threshold_ns = part(self.base_rtt_ns(), self.state.cfg.th_cong_percent);
        let state = &*self.state;
        //= HOP-008
        if u64::from(state.avg_ns) > threshold_ns && !(state.compared || state.switched) {
            self.consider(now);
        }
    }

    /// Compares the congested path with what the probes found; switches if the better one wins by the margin.
    fn consider(&mut self, now: Instant) {
        let base_ns = self.base_rtt_ns();
        let ttl_ns = part(base_ns, self.state.cfg.ttl_probe_percent);
        let usable = self.spray.rotation.usable();
        let slots = &*self.spray.slots;
        let takes = |index: EvIndex| {
            slots.get(index.0 as usize).is_some_and(|slot| slot.is_healthy() && usable.contains(slot.port()))
        };
        let state = &mut *self.state;
        let known = state.alternatives.iter().filter(|alternative| takes(alternative.index));
        let known = known.filter_map(|alternative| Some((alternative.rtt(now, ttl_ns)?, alternative.index)));
        let Some((rtt_ns, index)) = known.min_by_key(|&(rtt_ns, _)| rtt_ns) else { return };
        if state.alternatives.iter().any(|alternative| alternative.is_open(now, rtt_ns)) {
            return;
        }
        // The comparison of this epoch; without a winner the next epoch probes and compares again.
        state.compared = true;
        let avg_ns = u64::from(state.avg_ns);
        //= HOP-009
        if u64::from(rtt_ns) >= part(avg_ns, state.cfg.delta_rtt_percent) {
            return;
        }
        state.switched = true;
        let last_ns = state.trend.of_newest().map_or(avg_ns, u64::from);
        let ahead_ns = last_ns.saturating_sub(u64::from(rtt_ns));
        let limit_ns = part(base_ns, state.cfg.switch_delay_max_percent);
        //= HOP-011
        let pause_ns = part(ahead_ns, state.cfg.switch_delay_percent).min(limit_ns);
        if pause_ns == 0 {
            state.take(index);
        } else {
            state.target = index;
            state.resume_at = now.after(pause_ns);
        }
    }

    /// Draws up to two healthy paths that were not probed lately. O(active EVs), once per epoch.
    //= HOP-006, HOP-007
    fn choose_alternatives(&mut self, now: Instant, rng: &mut Rng) {
        let ttl_ns = part(self.base_rtt_ns(), self.state.cfg.ttl_probe_percent);
        let (rotation, state) = (&mut *self.spray.rotation, &mut *self.state);
        // A path found alone replaces the worse of the two known ones.
        let value = |alternative: &Alternative| alternative.rtt(now, ttl_ns).unwrap_or(u32::MAX);
        let [a, b] = &mut state.alternatives;
        if value(a) < value(b) {
            core::mem::swap(a, b);
        }
        let mut free = state.alternatives.iter_mut();
        let mut place = free.next();
        for _ in 0..rotation.steps() {
            let Some(to) = place.as_deref_mut() else { return };
            let Some(index) = rotation.advance(self.spray.order, rng) else { return };
            let Some(slot) = self.spray.slots.get_mut(index as usize) else { continue };
            let drawn = EvIndex(index) != state.current.index && slot.is_healthy();
            if !drawn || !rotation.usable().contains(slot.port()) || slot.is_explored(now) {
                continue;
            }
            rotation.touched = true;
            slot.set_explored(SlotTime::after(now, ttl_ns));
            *to = Alternative { index: EvIndex(index), since: Tick::at(now), answer: Answer::Wanted };
            place = free.next();
        }
    }

    /// A probe was answered or given up.
    fn settle_probe(&mut self, now: Instant, index: EvIndex, rtt_ns: Option<u32>) {
        for alternative in &mut self.state.alternatives {
            if alternative.index == index && alternative.is_pending() {
                alternative.answer = rtt_ns.map_or(Answer::None, Answer::Rtt);
                alternative.since = Tick::at(now);
            }
        }
    }

    fn finish_pause(&mut self, now: Instant) {
        if self.state.is_pausing() && now >= self.state.resume_at {
            self.state.take(self.state.target);
        }
    }
}

impl PathSelector for Hopper<'_> {
    /// `_avoid` is ignored: a retransmission takes the path of the flow, which a loss has moved where that is called for.
    #[inline]
    fn select(
        &mut self,
        now: Instant,
        ports: PortMask,
        _avoid: Option<mrc_wire::Ev>,
        rng: &mut Rng,
    ) -> Option<EvIndex> {
        if self.state.is_pausing() {
            if now < self.state.resume_at {
                return None;
            }
            self.finish_pause(now);
        }
        //= HOP-001
        let before = self.state.current.index;
        let index = self.state.current.settle(&mut self.spray, now, ports, rng);
        if self.state.current.index != before {
            self.state.take(self.state.current.index);
        }
        index
    }

    fn on_feedback(&mut self, now: Instant, index: EvIndex, what: Feedback, rng: &mut Rng) -> Option<Transition> {
        let is_current = index == self.state.current.index && !self.state.is_pausing();
        match what {
            Feedback::Rtt { rtt_ns, psn, behind } if is_current => {
                self.on_rtt(now, u32::try_from(rtt_ns).unwrap_or(u32::MAX), psn, behind, rng);
                return None;
            }
            Feedback::ProbeRtt { rtt_ns } => {
                self.settle_probe(now, index, Some(u32::try_from(rtt_ns).unwrap_or(u32::MAX)));
                if !self.state.is_pausing() {
                    self.judge(now);
                }
                return None;
            }
            Feedback::ProbeLost => self.settle_probe(now, index, None),
            Feedback::Sack(Verdict::SkipOnce) if is_current && self.state.cfg.probe_on_mark => self.on_mark(now, rng),
            //= HOP-013
            Feedback::Loss { .. } if is_current && self.state.cfg.move_on_loss => {
                let base_ns = self.base_rtt_ns();
                self.state.roll_epoch(now, base_ns);
                if !self.state.switched {
                    self.state.switched = true;
                    self.state.current.leave = true;
                }
            }
            _ => {}
        }
        if is_health(what) { self.spray.on_feedback(now, index, what, rng) } else { None }
    }

    fn poll_probe(&mut self, now: Instant, ports: PortMask, idle: bool) -> Option<EvIndex> {
        self.finish_pause(now);
        for alternative in &mut self.state.alternatives {
            if alternative.answer != Answer::Wanted {
                continue;
            }
            let slot = self.spray.slots.get(alternative.index.0 as usize);
            if !slot.is_some_and(EvSlot::is_healthy) {
                alternative.answer = Answer::None;
            } else if slot.is_some_and(|slot| ports.contains(slot.port())) {
                alternative.answer = Answer::Awaited;
                return Some(alternative.index);
            }
        }
        self.spray.poll_probe(now, ports, idle)
    }
}

crate::image::stored!(struct HopperConfig {
    alpha_percent, th_probe_percent, th_cong_percent, ttl_probe_percent, delta_rtt_percent, switch_delay_percent,
    switch_delay_max_percent, move_on_loss, probe_on_mark, first,
});
crate::image::stored!(enum Answer { 0 => None, 1 => Wanted, 2 => Awaited, 3 => Rtt(rtt_ns) });
crate::image::stored!(struct Alternative { index, since, answer });
crate::image::stored!(struct HopperState {
    cfg, current, target, resume_at, epoch_end, avg_ns, probed, compared, switched, alternatives, trend,
});
