//! REPS: spraying that sends again on the paths whose acknowledgements came back unmarked.
//! Source: Bonato et al., "REPS: Recycled Entropy Packet Spraying for Adaptive Load Balancing and Failure Mitigation"
//! (2024), from its published description.
//!
//! ```text
//! unmarked acknowledgement     its EV enters a ring of eight
//! packet                       the oldest EV of the ring that was not used since; a random one when there is none
//! failure (timeout, loss)      freeze: for a while no random EV, but those of the ring again and again
//! end of a freeze              explore: the next packets take random EVs
//! ```
//! What the paper leaves open: an EV that is bad, denied or behind a port that is down leaves the ring; one whose port is
//! busy waits in it and the next one is taken. Health is that of [`Spray`], without its reaction to marks and trims.

use mrc_wire::{Ev, Verdict};

use super::{
    EvIndex, Feedback, PathError, PathSelector, Transition, research::Traits, single::is_health, spray::Spray,
};
use crate::{num::Counter, port::PortMask, rng::Rng, time::Instant};

/// EVs that can be recycled, as in the paper.
const RING: u8 = 8;

/// Knobs of [`Selector::Reps`](super::Selector::Reps).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RepsConfig {
    /// Packets on random EVs at the start and after a freeze; about one bandwidth-delay product.
    pub explore_packets: u16,
    /// Packets that a recycled EV carries, 1 in the paper. A responder that acknowledges every fourth packet echoes every
    /// fourth EV: 4 then keeps as many packets on known paths.
    pub reuse: u8,
    /// How long a freeze lasts at least, in percent of the base RTT.
    pub freeze_percent: u16,
}

impl RepsConfig {
    /// 32 packets, each EV once, ten base round trips.
    //= REPS-002
    pub const DEFAULT: Self = Self { explore_packets: 32, reuse: 1, freeze_percent: 1_000 };

    //= REPS-007
    pub(super) const fn check(&self) -> Result<(), PathError> {
        if self.reuse == 0 {
            return Err(PathError::Knob("REPS: reuse is at least 1, the packets that a recycled EV carries"));
        }
        Ok(())
    }
}

impl Default for RepsConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The scalars of a QP under [`Reps`].
#[derive(Clone, Copy, Debug)]
pub(super) struct RepsState {
    pub(super) cfg: RepsConfig,
    /// Slots of EVs, the oldest at `head` once the ring is full.
    ring: [EvIndex; RING as usize],
    /// Packets that each of them may still carry; 0: used up, of interest to a freeze alone.
    left: [u8; RING as usize],
    /// Place of the next EV.
    head: u8,
    frozen: bool,
    explore: u16,
    thaw_at: Instant,
}

impl RepsState {
    pub(super) const fn new(cfg: RepsConfig) -> Self {
        Self {
            cfg,
            ring: [EvIndex::NONE; RING as usize],
            left: [0; RING as usize],
            head: 0,
            frozen: false,
            explore: cfg.explore_packets,
            thaw_at: Instant::ZERO,
        }
    }

    /// An unmarked acknowledgement of `index`.
    //= REPS-001, REPS-005
    fn recycle(&mut self, now: Instant, index: EvIndex) {
        let at = usize::from(self.head);
        if let (Some(place), Some(left)) = (self.ring.get_mut(at), self.left.get_mut(at)) {
            (*place, *left) = (index, self.cfg.reuse.max(1));
        }
        self.head = self.head.wrapping_add(1) % RING;
        if self.frozen && now >= self.thaw_at {
            self.frozen = false;
            self.explore = self.cfg.explore_packets;
        }
    }

    //= REPS-004
    fn on_failure(&mut self, now: Instant, base_rtt_ns: u64) {
        if !self.frozen && self.explore == 0 {
            self.frozen = true;
            self.thaw_at = now.after(base_rtt_ns.saturating_mul(self.cfg.freeze_percent.into()) / 100);
        }
    }

    /// The EV of the next packet out of the ring: the oldest that `usable` takes and that was not used since it came
    /// back, or, when `again`, whatever stands at the head.
    //= REPS-003
    fn next(&mut self, again: bool, usable: impl Fn(EvIndex) -> bool) -> Option<EvIndex> {
        for nth in 0..RING {
            let at = usize::from(self.head.wrapping_add(nth) % RING);
            let (Some(&index), Some(left)) = (self.ring.get(at), self.left.get_mut(at)) else { continue };
            if (*left == 0 && !again) || !usable(index) {
                continue;
            }
            if *left > 0 {
                left.dec();
            } else {
                self.head = (at as u8).wrapping_add(1) % RING;
            }
            return Some(index);
        }
        None
    }
}

impl Traits for RepsState {}

/// View of one QP's paths under REPS. Built by [`PathSet`](super::PathSet).
#[derive(Debug)]
pub(super) struct Reps<'a> {
    spray: Spray<'a>,
    state: &'a mut RepsState,
}

impl<'a> Reps<'a> {
    #[inline]
    pub(super) fn new(spray: Spray<'a>, state: &'a mut RepsState) -> Self {
        Self { spray, state }
    }

    /// A recycled EV that can be used now.
    //= REPS-006
    fn recycled(&mut self, ports: PortMask, avoid: Option<Ev>) -> Option<EvIndex> {
        let (slots, state) = (&*self.spray.slots, &mut *self.state);
        let usable = |index: EvIndex| {
            let slot = slots.get(usize::from(index.0));
            slot.is_some_and(|slot| slot.is_healthy() && ports.contains(slot.port()) && avoid != Some(slot.ev()))
        };
        if let Some(index) = state.next(false, usable) {
            return Some(index);
        }
        if state.frozen { state.next(true, usable) } else { None }
    }

    /// Whether the ring holds an EV that could be used if its port were free.
    fn waits_for_port(&self) -> bool {
        let usable = self.spray.rotation.usable();
        self.state.ring.iter().any(|index| {
            let slot = self.spray.slots.get(usize::from(index.0));
            slot.is_some_and(|slot| slot.is_healthy() && usable.contains(slot.port()))
        })
    }
}

impl PathSelector for Reps<'_> {
    #[inline]
    fn select(&mut self, now: Instant, ports: PortMask, avoid: Option<Ev>, rng: &mut Rng) -> Option<EvIndex> {
        if self.state.explore == 0 {
            if let Some(index) = self.recycled(ports, avoid) {
                return Some(index);
            }
            // A freeze trusts nothing but what came back.
            if self.state.frozen && avoid.is_none() && self.waits_for_port() {
                return None;
            }
        }
        let index = self.spray.select(now, ports, avoid, rng)?;
        self.state.explore = self.state.explore.saturating_sub(1);
        Some(index)
    }

    fn on_feedback(&mut self, now: Instant, index: EvIndex, what: Feedback, rng: &mut Rng) -> Option<Transition> {
        match what {
            Feedback::Sack(Verdict::SkipOnce | Verdict::AlwaysSkip) => {}
            Feedback::Sack(_) => self.state.recycle(now, index),
            // Where the fabric trims, a packet that is lost was not lost to congestion.
            Feedback::Timeout | Feedback::Loss { trim_nack: true } => {
                self.state.on_failure(now, self.spray.cfg.base_rtt_ns.max(1));
            }
            _ => {}
        }
        if is_health(what) { self.spray.on_feedback(now, index, what, rng) } else { None }
    }

    fn poll_probe(&mut self, now: Instant, ports: PortMask, idle: bool) -> Option<EvIndex> {
        self.spray.poll_probe(now, ports, idle)
    }
}

crate::image::stored!(struct RepsConfig { explore_packets, reuse, freeze_percent });
crate::image::stored!(struct RepsState { cfg, ring, left, head, frozen, explore, thaw_at } where |reps| reps.head < RING);
