//! Policies that do not listen to the network: the baseline that sprays blindly, and the single path.

use mrc_wire::Ev;

use super::{EvIndex, EvSlot, EvState, Feedback, PathSelector, Transition, rotation::Rotation};
use crate::{port::PortMask, rng::Rng, time::Instant};

/// Sprays over the active set like [`Spray`](super::spray::Spray) and never reacts to feedback; sends no probe. Only the
/// controller takes an EV out. The baseline for measurements.
#[derive(Debug)]
pub(super) struct Oblivious<'a> {
    rotation: &'a mut Rotation,
    slots: &'a [EvSlot],
    order: &'a mut [u16],
}

impl<'a> Oblivious<'a> {
    #[inline]
    pub(super) fn new(rotation: &'a mut Rotation, slots: &'a [EvSlot], order: &'a mut [u16]) -> Self {
        Self { rotation, slots, order }
    }
}

//= OBL-001
impl PathSelector for Oblivious<'_> {
    #[inline]
    fn select(&mut self, _now: Instant, ports: PortMask, avoid: Option<Ev>, rng: &mut Rng) -> Option<EvIndex> {
        if ports.and(self.rotation.active_ports()).is_empty() {
            return None;
        }
        let mut fallback = None;
        for _ in 0..self.rotation.steps() {
            let index = self.rotation.advance(self.order, rng)?;
            let Some(slot) = self.slots.get(index as usize) else {
                continue;
            };
            if !ports.contains(slot.port()) {
                continue;
            }
            if avoid == Some(slot.ev()) {
                fallback = Some(EvIndex(index));
                continue;
            }
            return Some(EvIndex(index));
        }
        fallback
    }

    fn on_feedback(&mut self, _: Instant, _: EvIndex, _: Feedback, _: &mut Rng) -> Option<Transition> {
        None
    }

    fn poll_probe(&mut self, _: Instant, _: PortMask, _: bool) -> Option<EvIndex> {
        None
    }
}

/// Sends everything on one EV and never reacts to feedback: what a single-path transport does, and a tool to look at
/// one path. Waits while its port is down; the controller can still deny it.
#[derive(Debug)]
pub(super) struct Pinned<'a> {
    rotation: &'a Rotation,
    slots: &'a [EvSlot],
}

impl<'a> Pinned<'a> {
    #[inline]
    pub(super) fn new(rotation: &'a Rotation, slots: &'a [EvSlot]) -> Self {
        Self { rotation, slots }
    }
}

//= PIN-001
impl PathSelector for Pinned<'_> {
    #[inline]
    fn select(&mut self, _: Instant, ports: PortMask, _: Option<Ev>, _: &mut Rng) -> Option<EvIndex> {
        let slot = self.rotation.used(self.slots).first()?;
        (slot.state() != EvState::Denied && ports.contains(slot.port())).then_some(EvIndex(0))
    }

    fn on_feedback(&mut self, _: Instant, _: EvIndex, _: Feedback, _: &mut Rng) -> Option<Transition> {
        None
    }

    fn poll_probe(&mut self, _: Instant, _: PortMask, _: bool) -> Option<EvIndex> {
        None
    }
}
