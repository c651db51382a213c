//! MRC's own policy: spray over the active set in random rotations, pass over what is congested, retire what is broken.
//! Source: `paths.md` 7 and 8.

use mrc_wire::{Ev, Verdict};

use super::{
    EvIndex, EvSlot, EvState, Feedback, PathConfig, PathSelector, SkipMode, Transition,
    probe::kept_backoff,
    rotation::Rotation,
    slot::SlotTime,
    state::{Reaction, react},
};
use crate::{port::PortMask, rng::Rng, time::Instant};

const fn is_loss(what: Feedback) -> bool {
    matches!(what, Feedback::Loss { .. } | Feedback::Timeout)
}

/// View of one QP's paths under the MRC policy. Built by [`PathSet`](super::PathSet).
#[derive(Debug)]
pub(super) struct Spray<'a> {
    pub(super) rotation: &'a mut Rotation,
    pub(super) slots: &'a mut [EvSlot],
    pub(super) order: &'a mut [u16],
    pub(super) cfg: &'a PathConfig,
}

impl<'a> Spray<'a> {
    #[inline]
    pub(super) fn new(
        rotation: &'a mut Rotation,
        slots: &'a mut [EvSlot],
        order: &'a mut [u16],
        cfg: &'a PathConfig,
    ) -> Self {
        Self { rotation, slots, order, cfg }
    }

    /// The same view for a call out of line: of the original, whose address is not taken then, nothing goes to memory.
    #[inline(always)]
    fn copy(&mut self) -> Spray<'_> {
        Spray { rotation: self.rotation, slots: self.slots, order: self.order, cfg: self.cfg }
    }

    /// The next EV of the rotation that may be used.
    #[inline(always)]
    fn select_any(&mut self, now: Instant, ports: PortMask, avoid: Option<Ev>, rng: &mut Rng) -> Option<EvIndex> {
        let first = self.rotation.advance(self.order, rng)?;
        // The first EV nearly always does; the rest of the scan stays out of line so that this path is short.
        match self.slots.get(first as usize) {
            Some(slot) if slot.state() == EvState::Good && ports.contains(slot.port()) && avoid != Some(slot.ev()) => {
                Some(EvIndex(first))
            }
            _ => self.copy().scan(first, now, ports, avoid, rng),
        }
    }

    /// As `select_any`, but on no plane that is too far ahead. What is sent again does not wait for its plane.
    //= BAL-007
    #[inline(never)]
    fn select_evenly(&mut self, now: Instant, ports: PortMask, avoid: Option<Ev>, rng: &mut Rng) -> Option<EvIndex> {
        let rotation = &mut *self.rotation;
        let in_use = rotation.active_ports();
        if avoid.is_some() {
            rotation.balance.waive();
        }
        let ports = rotation.balance.allow(ports.and(in_use), in_use.and(rotation.usable()));
        if ports.is_empty() {
            return None;
        }
        let index = self.select_any(now, ports, avoid, rng)?;
        let plane = self.slots.get(index.0 as usize)?.plane();
        self.rotation.balance.count(plane, self.cfg.plane_lead);
        Some(index)
    }

    /// Two passes from the EV `first`, which is visited already.
    #[inline(never)]
    fn scan(&mut self, first: u16, now: Instant, ports: PortMask, avoid: Option<Ev>, rng: &mut Rng) -> Option<EvIndex> {
        let rotation = &mut *self.rotation;
        let mut reset_used = false;
        // Used when the two passes find nothing better: an EV whose skip is not over, or else `avoid`.
        let mut fallback: Option<(u16, bool)> = None;
        let mut next = Some(first);
        //= SEL-004
        for _ in 0..rotation.steps() {
            let index = match next.take() {
                Some(first) => first,
                None => rotation.advance(self.order, rng)?,
            };
            let Some(slot) = self.slots.get_mut(index as usize) else {
                continue;
            };
            let avoided = avoid == Some(slot.ev());
            let worse = |fallback: Option<(u16, bool)>| fallback.is_none_or(|(_, was_avoided)| was_avoided && !avoided);
            match (slot.state(), self.cfg.skip_mode) {
                (EvState::Good, _) => {}
                //= EV-010, SEL-003
                (EvState::Skip, SkipMode::Rotation) => {
                    if self.cfg.plane_lead > 0 && ports.contains(slot.port()) {
                        rotation.balance.count(slot.plane(), self.cfg.plane_lead);
                    }
                    // Two passes from here may end before they come to this one again.
                    if worse(fallback) && ports.contains(slot.port()) {
                        fallback = Some((index, avoided));
                    }
                    // The one that is made good again must be of use.
                    if !avoided && !reset_used {
                        reset_used = true;
                        rotation.end_skip(slot);
                    }
                    continue;
                }
                (EvState::Skip, SkipMode::Time { .. }) if slot.due().reached(now) => rotation.end_skip(slot),
                (EvState::Skip, SkipMode::Time { .. }) => {
                    if self.cfg.plane_lead > 0 && ports.contains(slot.port()) {
                        rotation.balance.count(slot.plane(), self.cfg.plane_lead);
                    }
                    if worse(fallback) && ports.contains(slot.port()) {
                        fallback = Some((index, avoided));
                    }
                    continue;
                }
                //= BAL-003
                (EvState::AssumedBad | EvState::Denied, _) => continue,
            }
            //= SEL-002, PORT-002
            if !ports.contains(slot.port()) {
                continue;
            }
            //= SND-005
            if avoided {
                if worse(fallback) {
                    fallback = Some((index, avoided));
                }
                continue;
            }
            return Some(EvIndex(index));
        }
        //= SEL-007
        let (index, _) = fallback?;
        let slot = self.slots.get_mut(index as usize)?;
        // One skip ends per packet: where the walk has ended another's, on a port without room, this one's goes on.
        if slot.state() == EvState::Skip && !reset_used {
            rotation.end_skip(slot);
        }
        Some(EvIndex(index))
    }

    /// A packet on this EV arrived: its losses so far were not in a row, and it relapses less.
    fn forgive(&mut self, index: EvIndex) {
        if let Some(slot) = self.slots.get_mut(index.0 as usize)
            && slot.is_healthy()
        {
            slot.probe_ok = 0;
            slot.set_backoff(slot.backoff().saturating_sub(1));
        }
    }

    /// What changes the state of an EV, or may.
    #[inline(never)]
    fn learn(&mut self, now: Instant, index: EvIndex, what: Feedback, rng: &mut Rng) -> Option<Transition> {
        let rotation = &mut *self.rotation;
        //= EV-019
        let slot = self.slots.get_mut(index.0 as usize).filter(|_| (index.0 as usize) < rotation.universe())?;
        rotation.touched = true;
        let tested = slot.is_probing();
        if matches!(what, Feedback::ProbeAnswer(_) | Feedback::ProbeLost) {
            rotation.settle_probe(slot);
        }
        let cfg = self.cfg;
        let losses = slot.probe_ok.saturating_add(1);
        let to = match react(slot.state(), what, slot.probe_ok, cfg.resurrect_probes, cfg.loss_ev_action) {
            Reaction::Keep => {
                if cfg.skip_extends {
                    slot.lengthen_skip(now, what, cfg);
                }
                return None;
            }
            Reaction::Become(EvState::Skip) if cfg.marked_probe_good && matches!(what, Feedback::ProbeAnswer(_)) => {
                EvState::Good
            }
            //= BAL-002
            Reaction::Become(EvState::AssumedBad) if rotation.must_stay(slot, cfg.ev_min_active) => EvState::Skip,
            Reaction::Become(EvState::AssumedBad) if is_loss(what) && losses < cfg.loss_streak => EvState::Skip,
            Reaction::Become(to) => to,
            //= RES-001
            // It left before the EV was retired, and delays none of those that follow.
            Reaction::BackOff if !tested => {
                slot.probe_ok = 0;
                return None;
            }
            counted => {
                rotation.count_probe(now, slot, counted, cfg);
                return None;
            }
        };
        // An EV that comes back is put to the test.
        let relapse = u8::from(cfg.relapse_backoff && !slot.is_healthy());
        let backoff = kept_backoff(slot, cfg).saturating_add(relapse);
        let transition = rotation.change(self.slots, self.order, index, to, rng);
        let slot = self.slots.get_mut(index.0 as usize)?;
        if is_loss(what) && slot.is_healthy() {
            slot.probe_ok = losses;
        }
        let transition = Transition { cause: Some(what), ..transition? };
        slot.set_backoff(backoff);
        match (to, cfg.skip_mode) {
            //= RES-001
            (EvState::AssumedBad, _) => rotation.schedule_probe(now, slot, cfg),
            (EvState::Skip, SkipMode::Time { ns }) => slot.set_due(SlotTime::after(now, ns)),
            _ => {}
        }
        Some(transition)
    }

    /// No healthy EV on a usable port: one packet per base RTT on a bad one.
    #[cold]
    fn last_resort(&mut self, now: Instant, ports: PortMask, rng: &mut Rng) -> Option<EvIndex> {
        let rotation = &mut *self.rotation;
        rotation.starving = false;
        if !self.cfg.last_resort || !rotation.active_ports().and(rotation.usable()).is_empty() {
            return None;
        }
        let ports = ports.and(rotation.usable());
        let bad = rotation.bad_on(ports);
        if bad == 0 {
            return None;
        }
        if !rotation.may_resort(now, self.cfg) {
            return None;
        }
        let nth = rng.below(bad) as usize;
        let candidates = (0u16..).zip(rotation.used(self.slots));
        let mut candidates =
            candidates.filter(|(_, slot)| slot.state() == EvState::AssumedBad && ports.contains(slot.port()));
        candidates.nth(nth).map(|(index, _)| EvIndex(index))
    }
}

impl PathSelector for Spray<'_> {
    #[inline(always)]
    fn select(&mut self, now: Instant, ports: PortMask, avoid: Option<Ev>, rng: &mut Rng) -> Option<EvIndex> {
        if ports.and(self.rotation.active_ports()).is_empty() {
            return self.copy().last_resort(now, ports, rng);
        }
        if self.cfg.plane_lead > 0 {
            return self.copy().select_evenly(now, ports, avoid, rng);
        }
        self.select_any(now, ports, avoid, rng)
    }

    #[inline(always)]
    fn on_feedback(&mut self, now: Instant, index: EvIndex, what: Feedback, rng: &mut Rng) -> Option<Transition> {
        // The commonest event by far changes nothing, unless losses in a row count.
        if what == Feedback::Sack(Verdict::None) {
            if self.cfg.loss_streak > 1 || self.cfg.relapse_backoff {
                self.forgive(index);
            }
            return None;
        }
        self.copy().learn(now, index, what, rng)
    }

    fn poll_probe(&mut self, now: Instant, ports: PortMask, idle: bool) -> Option<EvIndex> {
        self.rotation.poll_probe(now, self.slots, ports, self.cfg, idle)
    }
}
