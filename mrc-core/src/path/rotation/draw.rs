//! Which EVs a QP begins with, and which of them are in rotation. Source: `paths.md` 5.

use core::num::NonZeroU16;

use super::{
    super::{EvEntry, EvSlot, EvState, MAX_PLANES, PathConfig, PathError, PathSet, Supply},
    Rotation,
};
use crate::num::Counter;
use crate::{port::PortMask, rng::Rng};
use mrc_wire::PortNum;

/// EVs that slots hold: how many, and how many of each plane are in rotation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Drawn {
    universe: u16,
    quota: u16,
    /// All are in rotation, plane after plane, and nothing was learned of any.
    fresh: bool,
}

impl Drawn {
    /// What is known when the QP of `paths` ends.
    pub(crate) fn end(&mut self, paths: &PathSet) {
        self.fresh &= !paths.rotation.touched;
    }
}

/// Puts the elements into a random order, each as likely as the others.
fn shuffle<T: Copy>(slice: &mut [T], rng: &mut Rng) {
    let mut left = slice;
    while let Some((last, rest)) = left.split_last_mut()
        && !rest.is_empty()
    {
        // The one behind the rest is the last itself.
        let other = rng.below((rest.len() as u32).wrapping_add(1)) as usize;
        if let Some(other) = rest.get_mut(other) {
            (*last, *other) = (*other, *last);
        }
        left = rest;
    }
}

/// Puts every usable entry into `slots`, plane after plane: `taken` says how many there are.
fn take_all(slots: &mut [EvSlot], entries: &[EvEntry], taken: [u16; MAX_PLANES], ports: PortMask) {
    let mut begin = 0u16;
    let mut next = taken.map(|taken| {
        let first = begin;
        begin = begin.saturating_add(taken);
        first
    });
    for (index, entry) in indexed(entries).filter(|(_, entry)| entry.is_usable(ports)) {
        if let Some(at) = next.get_mut(entry.port.plane() as usize)
            && let Some(slot) = slots.get_mut(usize::from(*at))
        {
            *slot = EvSlot::new(entry.ev, entry.port, index, EvState::Good);
            *at = at.wrapping_add(1);
        }
    }
}

/// Draws `taken[plane]` entries of each plane at random, plane after plane, into `slots`.
fn draw(slots: &mut [EvSlot], entries: &[EvEntry], taken: [u16; MAX_PLANES], ports: PortMask, rng: &mut Rng) {
    let mut base = 0u16;
    for (plane, &taken) in taken.iter().enumerate() {
        if taken == 0 {
            continue;
        }
        // Reservoir sampling: the n-th entry replaces one of the chosen with probability taken / n.
        let mut seen = 0u32;
        for (index, entry) in indexed(entries) {
            if entry.port.plane() as usize != plane || !entry.is_usable(ports) {
                continue;
            }
            let at = if seen < taken as u32 { seen } else { rng.below(seen.saturating_add(1)) };
            seen = seen.saturating_add(1);
            if at < taken as u32
                && let Some(slot) = slots.get_mut((base as usize).wrapping_add(at as usize))
            {
                *slot = EvSlot::new(entry.ev, entry.port, index, EvState::Good);
            }
        }
        base = base.saturating_add(taken);
    }
}

impl Rotation {
    /// `paths.md` 5: for each plane a random `active / P` EVs in rotation and `backup / P` in reserve. `supply` is that of `entries`.
    pub(in crate::path) fn start(
        &mut self,
        slots: &mut [EvSlot],
        order: &mut [u16],
        (entries, supply): (&[EvEntry], &Supply),
        cfg: &PathConfig,
        ports: PortMask,
        rng: &mut Rng,
    ) -> Result<(), PathError> {
        *self = Self { usable: self.usable, probes_limit: cfg.bad_probes_outstanding, ..Self::EMPTY };
        let available = supply.on(ports);
        let planes = available.iter().fold(0u16, |planes, &count| planes.saturating_add(u16::from(count > 0)));
        let planes = NonZeroU16::new(planes).ok_or(PathError::NoUsableEv)?;
        let room = |len: usize| u16::try_from(len).unwrap_or(u16::MAX) / planes;
        let (slot_room, order_room) = (room(slots.len()), room(order.len()));
        let least = available.iter().copied().filter(|&count| count > 0).min().unwrap_or(0);
        //= SET-001
        self.quota = (cfg.active / planes).max(1).min(slot_room).min(order_room).min(least);
        if self.quota == 0 {
            return Err(PathError::StorageTooSmall { need: planes.get() });
        }
        let share = (cfg.active.saturating_add(cfg.backup) / planes).min(slot_room).max(self.quota);

        let taken = available.map(|count| count.min(share));
        if taken == available {
            take_all(slots, entries, taken, ports);
        } else {
            draw(slots, entries, taken, ports, rng);
        }
        let mut base = 0u16;
        for (plane, taken) in taken.into_iter().enumerate().filter(|&(_, taken)| taken > 0) {
            let first = base;
            base = base.saturating_add(taken);
            let region = slots.get_mut(usize::from(first)..usize::from(base)).unwrap_or_default();
            //= SET-002
            // Which EVs are active is as random as which were drawn.
            shuffle(region, rng);
            if let Some(counts) = self.planes.get_mut(plane) {
                counts.good = taken;
            }
            self.join_first(region, order, plane, first);
        }
        self.universe = base;
        slots.get_mut(usize::from(base)..).unwrap_or_default().fill(EvSlot::EMPTY);
        if supply.denied {
            self.add_denied(slots, entries, ports);
        }
        Ok(())
    }

    /// What another QP whose EVs are those that [`Rotation::start`] drew for this one needs to know of them; `None` where a denied
    /// one is among them.
    pub(in crate::path) fn drawn(&self) -> Option<Drawn> {
        let denied = self.planes.iter().any(|plane| plane.denied > 0);
        let fresh = self.active_len == self.universe && !self.touched;
        (!denied).then_some(Drawn { universe: self.universe, quota: self.quota, fresh })
    }

    /// Starts with the EVs of the last QP in these slots, and those of them in rotation that were: nothing is drawn. Whether that
    /// is as good as a new draw: each plane has what it should have in rotation.
    pub(in crate::path) fn start_again(&mut self, drawn: Drawn, slots: &mut [EvSlot], cfg: &PathConfig) -> bool {
        let Drawn { universe, quota, fresh } = drawn;
        *self = Self { usable: self.usable, probes_limit: cfg.bad_probes_outstanding, universe, quota, ..Self::EMPTY };
        if fresh {
            self.begin_fresh(slots);
            return true;
        }
        for slot in slots.get_mut(..usize::from(universe)).unwrap_or_default() {
            slot.renew();
            if let Some(plane) = self.planes.get_mut(slot.plane()) {
                plane.good = plane.good.wrapping_add(1);
                plane.active = plane.active.wrapping_add(u16::from(slot.is_active()));
            }
        }
        for (number, plane) in (0u8..).zip(&self.planes).filter(|(_, plane)| plane.good > 0) {
            if plane.active != quota.min(plane.good) {
                return false;
            }
            self.active_ports = self.active_ports.with(PortNum::from_plane(number));
            self.active_len = self.active_len.saturating_add(plane.active);
        }
        true
    }

    /// Starts with EVs that are all in rotation and as they were drawn: so many of each plane, one plane after the other.
    fn begin_fresh(&mut self, slots: &[EvSlot]) {
        let mut left = slots.get(..usize::from(self.universe)).unwrap_or_default();
        while let Some(first) = left.first() {
            if let Some(plane) = self.planes.get_mut(first.plane()) {
                (plane.good, plane.active) = (self.quota, self.quota);
                self.active_ports = self.active_ports.with(first.port());
            }
            left = left.get(self.quota.max(1).into()..).unwrap_or_default();
        }
        self.active_len = self.universe;
    }

    /// Puts the first EVs of `region`, up to the quota, into rotation: those of `plane`, of which none was, in the slots from
    /// `first` on.
    fn join_first(&mut self, region: &mut [EvSlot], order: &mut [u16], plane: usize, first: u16) {
        let room = order.get_mut(usize::from(self.active_len)..).unwrap_or_default();
        let mut joined = 0u16;
        for ((slot, end), index) in region.iter_mut().zip(room).take(self.quota.into()).zip(first..) {
            slot.set_active(true);
            *end = index;
            joined = joined.wrapping_add(1);
        }
        self.active_len = self.active_len.saturating_add(joined);
        if let Some(counts) = self.planes.get_mut(plane)
            && joined > 0
        {
            counts.active = joined;
            self.active_ports = self.active_ports.with(PortNum::from_plane(plane as u8));
        }
    }

    /// Keeps denied entries in the slots that are left, for the day the controller allows them.
    fn add_denied(&mut self, slots: &mut [EvSlot], entries: &[EvEntry], ports: PortMask) {
        for (index, entry) in indexed(entries) {
            let plane = entry.port.plane() as usize;
            if !entry.populated || !entry.denied || !ports.contains(entry.port) || self.universe == u16::MAX {
                continue;
            }
            let (Some(counts), Some(slot)) = (self.planes.get_mut(plane), slots.get_mut(self.universe as usize)) else {
                continue;
            };
            *slot = EvSlot::new(entry.ev, entry.port, index, EvState::Denied);
            counts.denied = counts.denied.saturating_add(1);
            self.universe.inc();
        }
    }
}

/// Entries with the index a slot can hold.
fn indexed(entries: &[EvEntry]) -> impl Iterator<Item = (u16, &EvEntry)> {
    (0..u16::MAX).zip(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mrc_wire::Ev;

    /// Where all usable EVs are taken there is nothing to draw: both ways fill the same slots.
    #[test]
    fn taking_all_is_drawing_where_all_are_taken() {
        let mut rng = Rng::new(5);
        for _ in 0..200 {
            let mut entries = [EvEntry::EMPTY; 40];
            for (nth, entry) in (0u32..).zip(&mut entries) {
                let port = PortNum::from_plane(rng.below(4) as u8);
                *entry =
                    EvEntry { denied: rng.below(9) == 0, populated: rng.below(9) > 0, ..EvEntry::new(Ev(nth), port) };
            }
            let ports = PortMask::ALL.without(PortNum::from_plane(rng.below(8) as u8));
            let mut taken = [0u16; MAX_PLANES];
            for entry in entries.iter().filter(|entry| entry.is_usable(ports)) {
                taken[entry.port.plane() as usize] += 1;
            }
            let [mut all, mut drawn] = [[EvSlot::EMPTY; 40]; 2];
            take_all(&mut all, &entries, taken, ports);
            draw(&mut drawn, &entries, taken, ports, &mut Rng::new(1));
            assert_eq!(all, drawn);
        }
    }
}
