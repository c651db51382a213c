//! PLB: one path at a time, left for a random one after rounds of congestion, earlier when the flow was idle anyway.
//! Source: Qureshi et al., "PLB: Congestion Signals are Simple and Effective for Network Load Balancing" (SIGCOMM 2022),
//! from its published description and defaults.
//!
//! ```text
//! a round (one round trip) counts as congested when enough of its acknowledgements were marked
//! idle_rounds congested rounds in a row, and the flow was idle    take another path: nothing in flight can be overtaken
//! rounds congested rounds in a row                                take another path all the same
//! a timeout                                                       take another path, and none for its congestion for a while
//! ```

use mrc_wire::{Ev, Verdict};

use super::{
    EvIndex, Feedback, PathError, PathSelector, Transition,
    research::Traits,
    rounds::Rounds,
    single::{Current, is_health},
    spray::Spray,
};
use crate::{port::PortMask, rng::Rng, time::Instant};

/// Knobs of [`Selector::Plb`](super::Selector::Plb).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlbConfig {
    /// Part of a round's acknowledgements that must be marked for the round to count as congested, in tenths of a percent;
    /// trimmed packets count as marked.
    pub threshold_permille: u16,
    /// Congested rounds in a row after which the QP moves when it begins to send again.
    pub idle_rounds: u8,
    /// Congested rounds in a row after which the QP moves while it sends, at least `idle_rounds`.
    pub rounds: u8,
    /// After a timeout congestion moves the QP no more for this long and up to twice as long, drawn at random: the
    /// timeout has moved it already.
    pub suspend_ns: u64,
    /// Entry of the profile to begin on; [`EvIndex::NONE`] draws one.
    pub first: EvIndex,
}

impl PlbConfig {
    /// 50 %, 3 rounds when idle, 12 in any case, 60 s.
    //= PLB-002
    pub const DEFAULT: Self =
        Self { threshold_permille: 500, idle_rounds: 3, rounds: 12, suspend_ns: 60_000_000_000, first: EvIndex::NONE };

    //= PLB-006
    pub(super) const fn check(&self) -> Result<(), PathError> {
        if self.threshold_permille == 0 || self.threshold_permille > 1_000 {
            return Err(PathError::Knob("PLB: threshold_permille is 1 to 1000, tenths of a percent"));
        }
        if self.idle_rounds == 0 || self.rounds < self.idle_rounds {
            return Err(PathError::Knob("PLB: rounds is at least idle_rounds, and idle_rounds at least 1"));
        }
        Ok(())
    }
}

impl Default for PlbConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The scalars of a QP under [`Plb`].
#[derive(Clone, Copy, Debug)]
pub(super) struct PlbState {
    pub(super) cfg: PlbConfig,
    current: Current,
    /// Congested rounds in a row.
    congested: u8,
    /// The QP has begun to send again and has not sent yet.
    was_idle: bool,
    rounds: Rounds,
    suspended_until: Instant,
}

impl PlbState {
    pub(super) const fn new(cfg: PlbConfig) -> Self {
        Self {
            cfg,
            current: Current::NONE,
            congested: 0,
            was_idle: false,
            rounds: Rounds::NEW,
            suspended_until: Instant::ZERO,
        }
    }

    /// Counts one acknowledgement of the current path; the first one after a round ends that round.
    //= PLB-001, PLB-003
    fn count(&mut self, now: Instant, marked: bool, base_rtt_ns: u64) {
        if let Some(round) = self.rounds.count(now, marked, base_rtt_ns) {
            let (share, threshold) = round.against(self.cfg.threshold_permille);
            self.congested = if share >= threshold { self.congested.saturating_add(1) } else { 0 };
            self.move_after(now, self.cfg.rounds);
        }
    }

    /// Leaves the path if so many rounds in a row were congested and no timeout has moved the QP lately.
    fn move_after(&mut self, now: Instant, rounds: u8) {
        if self.congested >= rounds && now >= self.suspended_until {
            self.current.leave = true;
            self.congested = 0;
        }
    }

    //= PLB-005
    fn on_timeout(&mut self, now: Instant, rng: &mut Rng) {
        let ms = u32::try_from(self.cfg.suspend_ns / 1_000_000).unwrap_or(u32::MAX);
        let more_ns = u64::from(rng.below(ms.max(1))).saturating_mul(1_000_000);
        self.suspended_until = now.after(self.cfg.suspend_ns.saturating_add(more_ns));
        self.congested = 0;
        self.current.leave = true;
    }
}

impl Traits for PlbState {
    const SINGLE_PATH: bool = true;

    fn begin(&mut self, first: EvIndex) {
        self.current.index = first;
    }

    fn on_busy(&mut self) {
        self.was_idle = true;
    }
}

/// View of one QP's paths under PLB. Built by [`PathSet`](super::PathSet).
#[derive(Debug)]
pub(super) struct Plb<'a> {
    spray: Spray<'a>,
    state: &'a mut PlbState,
}

impl<'a> Plb<'a> {
    #[inline]
    pub(super) fn new(spray: Spray<'a>, state: &'a mut PlbState) -> Self {
        Self { spray, state }
    }
}

impl PathSelector for Plb<'_> {
    /// `_avoid` is ignored: one path for everything, until the policy leaves it.
    #[inline]
    fn select(&mut self, now: Instant, ports: PortMask, _avoid: Option<Ev>, rng: &mut Rng) -> Option<EvIndex> {
        //= PLB-004
        if self.state.was_idle {
            self.state.was_idle = false;
            self.state.move_after(now, self.state.cfg.idle_rounds);
        }
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
                Feedback::Rtt { rtt_ns, .. } => self.state.rounds.measured(rtt_ns),
                Feedback::Sack(verdict) => self.state.count(now, verdict != Verdict::None, base_rtt_ns),
                Feedback::Trimmed => self.state.count(now, true, base_rtt_ns),
                Feedback::Timeout => self.state.on_timeout(now, rng),
                _ => {}
            }
        }
        if is_health(what) { self.spray.on_feedback(now, index, what, rng) } else { None }
    }

    fn poll_probe(&mut self, now: Instant, ports: PortMask, idle: bool) -> Option<EvIndex> {
        self.spray.poll_probe(now, ports, idle)
    }
}

crate::image::stored!(struct PlbConfig { threshold_permille, idle_rounds, rounds, suspend_ns, first });
crate::image::stored!(struct PlbState { cfg, current, congested, was_idle, rounds, suspended_until });
