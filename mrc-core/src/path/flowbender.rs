//! FlowBender: one path at a time, left for a random one when too many of an epoch's packets were marked or lost.
//! Source: Kabbani, Vamanan, Hasan, Duchene, "FlowBender: Flow-level Adaptive Routing for Improved Latency and Throughput
//! in Datacenter Networks" (CoNEXT 2014), from its published description; Hopper's section 2 sums it up.

use mrc_wire::{Ev, Verdict};

use super::{
    EvIndex, Feedback, PathError, PathSelector, Transition,
    research::Traits,
    rounds::Rounds,
    single::{Current, is_health},
    spray::Spray,
};
use crate::{port::PortMask, rng::Rng, time::Instant};

/// Knobs of [`Selector::FlowBender`](super::Selector::FlowBender).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowBenderConfig {
    /// Part of an epoch's acknowledgements that may be marked or lost, in tenths of a percent.
    pub threshold_permille: u16,
    /// 0: acknowledgements say by their marks what they met. Otherwise by their round trip: one above this part of the
    /// base RTT, in percent, counts as marked, and marks do not (Hopper, section 4.2).
    pub rtt_percent: u16,
    /// Epochs in a row above the threshold before the QP moves; 0 counts as 1.
    pub epochs: u8,
    /// Entry of the profile to begin on; [`EvIndex::NONE`] draws one.
    pub first: EvIndex,
}

impl FlowBenderConfig {
    /// 5 % of the marks in one epoch.
    //= FLB-002
    pub const DEFAULT: Self = Self { threshold_permille: 50, rtt_percent: 0, epochs: 1, first: EvIndex::NONE };

    //= FLB-008
    pub(super) const fn check(&self) -> Result<(), PathError> {
        if self.threshold_permille > 1_000 {
            return Err(PathError::Knob("FlowBender: threshold_permille is 0 to 1000, tenths of a percent"));
        }
        if self.rtt_percent > 0 && self.rtt_percent <= 100 {
            return Err(PathError::Knob(
                "FlowBender: rtt_percent is 0 or above 100, which is a round trip without load",
            ));
        }
        Ok(())
    }
}

impl Default for FlowBenderConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The scalars of a QP under [`FlowBender`].
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowBenderState {
    pub(super) cfg: FlowBenderConfig,
    current: Current,
    /// Epochs above the threshold so far.
    congested: u8,
    rounds: Rounds,
}

impl FlowBenderState {
    pub(super) const fn new(cfg: FlowBenderConfig) -> Self {
        Self { cfg, current: Current::NONE, congested: 0, rounds: Rounds::NEW }
    }

    /// Counts one acknowledgement or loss of the current path; at the end of an epoch decides whether to leave.
    //= FLB-001, FLB-003
    fn count(&mut self, now: Instant, marked: bool, base_rtt_ns: u64) {
        if let Some(epoch) = self.rounds.count(now, marked, base_rtt_ns) {
            let (share, threshold) = epoch.against(self.cfg.threshold_permille);
            self.congested = if share > threshold { self.congested.saturating_add(1) } else { 0 };
            if self.congested >= self.cfg.epochs.max(1) {
                self.current.leave = true;
            }
        }
    }
}

impl Traits for FlowBenderState {
    const SINGLE_PATH: bool = true;

    fn begin(&mut self, first: EvIndex) {
        self.current.index = first;
    }
}

/// View of one QP's paths under FlowBender. Built by [`PathSet`](super::PathSet).
#[derive(Debug)]
pub(super) struct FlowBender<'a> {
    spray: Spray<'a>,
    state: &'a mut FlowBenderState,
}

impl<'a> FlowBender<'a> {
    #[inline]
    pub(super) fn new(spray: Spray<'a>, state: &'a mut FlowBenderState) -> Self {
        Self { spray, state }
    }
}

impl PathSelector for FlowBender<'_> {
    /// `_avoid` is ignored: one path for everything, until the policy leaves it.
    #[inline]
    fn select(&mut self, now: Instant, ports: PortMask, _avoid: Option<Ev>, rng: &mut Rng) -> Option<EvIndex> {
        let before = self.state.current.index;
        let index = self.state.current.settle(&mut self.spray, now, ports, rng);
        if self.state.current.index != before {
            // A new path starts with a clean record.
            self.state.congested = 0;
            self.state.rounds.restart();
        }
        index
    }

    fn on_feedback(&mut self, now: Instant, index: EvIndex, what: Feedback, rng: &mut Rng) -> Option<Transition> {
        if index == self.state.current.index {
            let base_rtt_ns = self.spray.cfg.base_rtt_ns.max(1);
            match what {
                Feedback::Rtt { rtt_ns, .. } => {
                    self.state.rounds.measured(rtt_ns);
                    //= FLB-007
                    let percent = self.state.cfg.rtt_percent;
                    if percent > 0 {
                        let limit_ns = base_rtt_ns.saturating_mul(percent.into()) / 100;
                        self.state.count(now, rtt_ns > limit_ns, base_rtt_ns);
                    }
                }
                Feedback::Sack(_) if self.state.cfg.rtt_percent > 0 => {}
                Feedback::Sack(verdict) => self.state.count(now, verdict != Verdict::None, base_rtt_ns),
                Feedback::Trimmed | Feedback::Loss { .. } => self.state.count(now, true, base_rtt_ns),
                //= FLB-004
                Feedback::Timeout => self.state.current.leave = true,
                _ => {}
            }
        }
        if is_health(what) { self.spray.on_feedback(now, index, what, rng) } else { None }
    }

    fn poll_probe(&mut self, now: Instant, ports: PortMask, idle: bool) -> Option<EvIndex> {
        self.spray.poll_probe(now, ports, idle)
    }
}

crate::image::stored!(struct FlowBenderConfig { threshold_permille, rtt_percent, epochs, first });
crate::image::stored!(struct FlowBenderState { cfg, current, congested, rounds });
