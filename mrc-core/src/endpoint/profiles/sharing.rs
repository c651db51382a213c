//! Bad EVs that the QPs of a profile learn from each other, and other shards from this one.

use core::ops::{Deref, DerefMut};

use mrc_wire::Verdict;

use super::{EvProfileSlot, part};
use crate::{
    Endpoint,
    event::Event,
    num::Counter,
    path::{Feedback, Transition},
    time::Instant,
};

/// Bad EVs that a profile remembers for QPs which have not heard of them (`EndpointConfig::share_bad_evs`).
pub(super) const SHARED: usize = 32;
/// Of these, taken over by a QP per packet it sends.
const LEARNED_PER_PACKET: u32 = 4;

/// End of the list.
const NIL: u32 = u32::MAX;

/// The place of a profile on the list of [`EvProfiles`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Untold {
    listed: bool,
    behind: u32,
}

impl Untold {
    pub(super) const NONE: Self = Self { listed: false, behind: NIL };
}

/// The table of profiles: a slice, with a list of those that have something for other shards, oldest first.
#[derive(Debug)]
pub(crate) struct EvProfiles<'s> {
    slots: &'s mut [EvProfileSlot],
    first: u32,
    last: u32,
}

impl Deref for EvProfiles<'_> {
    type Target = [EvProfileSlot];

    fn deref(&self) -> &Self::Target {
        self.slots
    }
}

impl DerefMut for EvProfiles<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.slots
    }
}

impl<'s> EvProfiles<'s> {
    pub(in crate::endpoint) fn new(slots: &'s mut [EvProfileSlot]) -> Self {
        slots.fill(EvProfileSlot::EMPTY);
        Self { slots, first: NIL, last: NIL }
    }

    /// Remembers a bad EV of profile `index` for its other QPs, and for other shards.
    pub(crate) fn tell_bad(&mut self, index: u32, entry: u16) {
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.tell_bad(entry);
            self.list(index);
        }
    }

    /// Puts a profile on the list, if it has something for other shards and is not there yet.
    pub(in crate::endpoint) fn list(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        if slot.untold.listed || slot.carried == slot.told {
            return;
        }
        slot.untold = Untold { listed: true, behind: NIL };
        match self.slots.get_mut(self.last as usize) {
            Some(last) => last.untold.behind = index,
            None => self.first = index,
        }
        self.last = index;
    }

    /// A bad EV that other shards have not been told, by profile and entry. Looks at the profiles on the list alone, and takes those off
    /// that have nothing more.
    pub(in crate::endpoint) fn next_told(&mut self) -> Option<(u32, u16)> {
        while let Some(slot) = self.slots.get_mut(self.first as usize) {
            if let Some(entry) = slot.next_told() {
                return Some((self.first, entry));
            }
            self.first = core::mem::replace(&mut slot.untold, Untold::NONE).behind;
            if self.first == NIL {
                self.last = NIL;
            }
        }
        None
    }
}

impl EvProfileSlot {
    /// Remembers a bad EV for the other QPs of the profile.
    fn tell_bad(&mut self, entry: u16) {
        self.heard &= !1u32.wrapping_shl(self.told);
        if let Some(slot) = self.shared.get_mut(self.told as usize % SHARED) {
            *slot = entry;
            self.told = self.told.wrapping_add(1);
        }
    }

    /// As [`Self::tell_bad`], from another shard, so that none is told.
    pub(in crate::endpoint) fn hear_bad(&mut self, entry: u16) {
        let place = self.told;
        self.tell_bad(entry);
        self.heard |= 1u32.wrapping_shl(place);
    }

    /// The oldest bad EV that other shards have not been told.
    fn next_told(&mut self) -> Option<u16> {
        if self.told.wrapping_sub(self.carried) > SHARED as u32 {
            self.carried = self.told.wrapping_sub(SHARED as u32);
        }
        while self.carried != self.told {
            let place = self.carried;
            self.carried = place.wrapping_add(1);
            if self.heard.wrapping_shr(place) & 1 == 0 {
                return self.shared.get(place as usize % SHARED).copied();
            }
        }
        None
    }

    /// Bad EVs told so far.
    pub(crate) fn told(&self) -> u32 {
        self.told
    }
}

impl Endpoint<'_> {
    /// Takes over what other QPs of the profile found bad since this one last asked. Bounded: a QP that lags far behind
    /// misses the oldest, and finds out by itself.
    //= SET-003
    pub(in crate::endpoint) fn learn_shared(&mut self, now: Instant, qp: u32) {
        let Some(slot) = self.qps.get_mut(qp as usize) else { return };
        let Some(profile) = self.ev_profiles.get(slot.ev_profile as usize) else { return };
        let lag = profile.told.wrapping_sub(slot.bad_evs_heard);
        if lag == 0 {
            return;
        }
        if lag > SHARED as u32 {
            slot.bad_evs_heard = profile.told.wrapping_sub(SHARED as u32);
        }
        let (Some(slots), Some(order)) =
            (part(self.ev_slots, qp, self.limits.evs), part(self.ev_order, qp, self.limits.active_evs))
        else {
            return;
        };
        for _ in 0..LEARNED_PER_PACKET {
            if slot.bad_evs_heard == profile.told {
                return;
            }
            let entry = profile.shared.get(slot.bad_evs_heard as usize % SHARED).copied();
            slot.bad_evs_heard = slot.bad_evs_heard.wrapping_add(1);
            let Some(index) = entry.and_then(|entry| slot.paths.find_entry(slots, entry)) else { continue };
            // As if it had been told on this QP never to use it; the invariants of its own set hold.
            let what = Feedback::Sack(Verdict::AlwaysSkip);
            let change = slot.paths.on_feedback(now, slots, order, index, what, &slot.path_cfg, &mut self.rng);
            if let Some(transition) = change {
                self.stats.ev_learned_bad.inc();
                self.stats.states.change_evs(transition.from, transition.to, 1);
                let transition = Transition { cause: None, ..transition };
                self.events.raise(&mut self.stats, Event::Ev { qp: slot.qpn, transition });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{vec, vec::Vec};

    /// Each bad EV that this shard found is told once and in order. What another shard found is not told again: news would go in
    /// circles.
    //= SET-003 test
    #[test]
    fn other_shards_hear_of_what_was_found_here_and_nothing_else() {
        let all = |slot: &mut EvProfileSlot| core::iter::from_fn(|| slot.next_told()).collect::<Vec<_>>();
        let mut slot = EvProfileSlot::EMPTY;
        assert_eq!(slot.next_told(), None);
        // More than are remembered, so that each place is used several times, by both kinds.
        for round in 0..50u16 {
            let (mut own, first) = (vec![], 100 * round);
            for entry in first..first + 7 {
                if (entry + round) % 3 == 0 {
                    slot.hear_bad(entry);
                } else {
                    slot.tell_bad(entry);
                    own.push(entry);
                }
            }
            assert_eq!(all(&mut slot), own, "round {round}");
            assert_eq!(slot.next_told(), None);
        }
    }

    /// Against the tables walked from end to end: each bad EV is told once, those of one profile in order, and a profile that was
    /// destroyed meanwhile leaves the others on the list.
    #[test]
    fn only_profiles_with_news_are_looked_at() {
        let (mut slots, mut rng) = (vec![EvProfileSlot::EMPTY; 40], crate::rng::Rng::new(17));
        let mut profiles = EvProfiles::new(&mut slots);
        let mut want = vec![std::collections::VecDeque::new(); 40];
        for entry in 0..4_000u16 {
            let index = rng.below(40) as usize;
            match rng.below(20) {
                0 => {
                    let untold = profiles[index].untold;
                    profiles[index] = EvProfileSlot { untold, ..EvProfileSlot::EMPTY };
                    want[index].clear();
                }
                1..9 => {
                    profiles.tell_bad(index as u32, entry);
                    want[index].push_back(entry);
                    if want[index].len() > SHARED {
                        want[index].pop_front();
                    }
                }
                9 => {
                    profiles[index].hear_bad(entry);
                    want[index].pop_front_if(|_| profiles[index].told.wrapping_sub(profiles[index].carried) > 32);
                }
                _ => match profiles.next_told() {
                    Some((index, entry)) => assert_eq!(want[index as usize].pop_front(), Some(entry)),
                    None => assert!(want.iter().all(|told| told.is_empty()), "{want:?}"),
                },
            }
        }
    }

    /// Of more than are remembered the newest are told, each once.
    #[test]
    fn a_shard_that_asks_late_hears_the_newest() {
        for (found, first) in [(31, 0), (32, 0), (33, 1), (70, 38)] {
            let mut slot = EvProfileSlot::EMPTY;
            (0..found).for_each(|entry| slot.tell_bad(entry));
            let told = core::iter::from_fn(|| slot.next_told()).collect::<Vec<_>>();
            assert_eq!(told, (first..found).collect::<Vec<_>>(), "{found} found");
        }
    }
}
