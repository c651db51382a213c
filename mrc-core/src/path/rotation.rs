//! Who is in rotation: the active set, its reserve, and the invariants that hold whatever the network says. Does not
//! know why an EV changes state (`state`, `spray`) nor when bad ones are probed (`probe`). Source: `paths.md` 5 and 6.
//!
//! ```text
//! order:  [ visited in this pass | not yet visited ] unused
//!          0                cursor         active_len
//! ```
//! The order of a pass is drawn while it runs: each step swaps a random not yet visited EV to the cursor.

mod draw;

pub(crate) use draw::Drawn;

use core::mem;

use super::{
    EvCounts, EvEntry, EvIndex, EvSlot, EvState, MAX_PLANES, PathConfig, PathError, Transition,
    balance::PlaneBalance,
    plane::Plane,
    state::{Order, Reaction, obey},
};
use crate::num::Counter;
use crate::{port::PortMask, rng::Rng, time::Instant};
use mrc_wire::PortNum;

/// The scalars of a QP's paths. Invariants between calls, per plane: every active EV is GOOD or SKIP, and
/// `active == min(quota, good + skip)` as far as `order` has room.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Rotation {
    planes: [Plane; MAX_PLANES],
    pub(super) last_resort_at: Instant,
    /// No result of a probe is overdue before this; only where one is under way.
    pub(super) lease_earliest: Instant,
    // What follows is touched by every packet, or by its acknowledgement.
    /// No bad EV is due before this.
    pub(super) probe_earliest: Instant,
    /// Planes with an active EV, as ports.
    active_ports: PortMask,
    /// Ports towards the peer that are up, busy or not.
    usable: PortMask,
    /// A full word: the compiler reads it as one, and a narrower store would not forward to that load (5 ns a packet).
    cursor: u32,
    /// Untouched unless `PathConfig::plane_lead` is set.
    pub(super) balance: PlaneBalance,
    active_len: u16,
    /// Skips that ended and are not in the sums of the endpoint yet.
    pub(super) ended_skips: u16,
    universe: u16,
    /// Active EVs of a plane with enough healthy ones.
    quota: u16,
    pub(super) probe_cursor: u16,
    pub(super) probes_out: u8,
    pub(super) probes_limit: u8,
    /// Something may be known of an EV, or one may have left the rotation or joined it, since they were drawn.
    pub(super) touched: bool,
    /// What the last poll said of the QP.
    pub(super) idle: bool,
    /// A packet waits for `last_resort_at`.
    pub(super) starving: bool,
}

impl Rotation {
    /// Where what every packet touches begins, in bytes; up to the end.
    #[cfg(test)]
    pub(super) const HOT: usize = mem::offset_of!(Self, probe_earliest);

    pub(super) const EMPTY: Self = Self {
        planes: [Plane::NONE; MAX_PLANES],
        active_ports: PortMask::NONE,
        usable: PortMask::ALL,
        universe: 0,
        active_len: 0,
        cursor: 0,
        quota: 0,
        ended_skips: 0,
        probe_earliest: Instant::FAR,
        lease_earliest: Instant::FAR,
        probe_cursor: 0,
        probes_out: 0,
        probes_limit: 0,
        idle: false,
        starving: false,
        touched: false,
        last_resort_at: Instant::ZERO,
        balance: PlaneBalance::EVEN,
    };

    /// The usable slot that entry `wanted` of the profile became.
    pub(super) fn slot_of(&self, slots: &[EvSlot], wanted: EvIndex) -> Option<EvIndex> {
        let of_entry = |slot: &EvSlot| slot.entry() == wanted.0 && slot.is_healthy();
        self.used(slots).iter().position(of_entry).and_then(|at| u16::try_from(at).ok()).map(EvIndex)
    }

    /// The universe of a pinned QP: one EV.
    pub(super) fn start_pinned(
        &mut self,
        slots: &mut [EvSlot],
        order: &mut [u16],
        entries: &[EvEntry],
        pinned: EvIndex,
        ports: PortMask,
    ) -> Result<(), PathError> {
        *self = Self { usable: self.usable, quota: 1, ..Self::EMPTY };
        slots.fill(EvSlot::EMPTY);
        let entry = entries.get(pinned.0 as usize).filter(|entry| entry.is_usable(ports));
        let entry = entry.ok_or(PathError::PinnedEv(pinned))?;
        let (Some(slot), false) = (slots.first_mut(), order.is_empty()) else {
            return Err(PathError::StorageTooSmall { need: 1 });
        };
        *slot = EvSlot::new(entry.ev, entry.port, pinned.0, EvState::Good);
        self.universe = 1;
        if let Some(counts) = self.planes.get_mut(entry.port.plane() as usize) {
            counts.good = 1;
        }
        self.join(slots, order, 0);
        Ok(())
    }

    /// The next EV of the pass; a new pass, in a new random order, starts where the last one ended.
    #[inline(always)]
    pub(super) fn advance(&mut self, order: &mut [u16], rng: &mut Rng) -> Option<u16> {
        let order = order.get_mut(..self.active_len as usize)?;
        let at = if self.cursor < self.active_len as u32 { self.cursor as usize } else { 0 };
        //= SEL-001
        let pick = at.wrapping_add(rng.below(order.len().wrapping_sub(at) as u32) as usize);
        let next = *order.get(pick)?;
        let head = mem::replace(order.get_mut(at)?, next);
        *order.get_mut(pick)? = head;
        self.cursor = (at as u32).wrapping_add(1);
        Some(next)
    }

    /// The active EVs, and the place in the pass of the next one.
    pub(super) fn pass<'o>(&self, order: &'o [u16]) -> (&'o [u16], usize) {
        (order.get(..self.active_len as usize).unwrap_or_default(), self.cursor as usize)
    }

    /// A word of the line of memory that every packet reads.
    pub(super) const fn hot(&self) -> &PortMask {
        &self.usable
    }

    /// Steps of one `select`: two passes.
    #[inline(always)]
    pub(super) const fn steps(&self) -> u32 {
        (self.active_len as u32) << 1
    }

    #[inline(always)]
    pub(super) const fn active_ports(&self) -> PortMask {
        self.active_ports
    }

    pub(super) const fn active_len(&self) -> usize {
        self.active_len as usize
    }

    pub(super) const fn usable(&self) -> PortMask {
        self.usable
    }

    pub(super) fn set_usable(&mut self, ports: PortMask) {
        self.usable = ports;
    }

    pub(super) fn universe(&self) -> usize {
        self.universe as usize
    }

    /// The slots in use.
    pub(super) fn used<'a>(&self, slots: &'a [EvSlot]) -> &'a [EvSlot] {
        slots.get(..self.universe as usize).unwrap_or(slots)
    }

    /// Bad EVs on `ports`.
    pub(super) fn bad_on(&self, ports: PortMask) -> u32 {
        let on = self.planes.iter().enumerate().filter(|&(plane, _)| ports.contains(PortNum::from_plane(plane as u8)));
        on.fold(0, |sum, (_, counts)| u32::from(counts.bad()).wrapping_add(sum))
    }

    /// Active EVs on `ports`.
    pub(super) fn active_on(&self, ports: PortMask) -> u32 {
        let on = self.planes.iter().enumerate().filter(|&(plane, _)| ports.contains(PortNum::from_plane(plane as u8)));
        on.fold(0, |sum, (_, counts)| u32::from(counts.active).wrapping_add(sum))
    }

    /// Whether a packet may leave on a bad EV now: one per base RTT.
    //= SEL-005
    pub(super) fn may_resort(&mut self, now: Instant, cfg: &PathConfig) -> bool {
        self.starving = now < self.last_resort_at;
        if self.starving {
            return false;
        }
        self.last_resort_at = if cfg.last_resort_unpaced { now } else { now.after(cfg.base_rtt_ns.max(1)) };
        true
    }

    /// Whether the active EV of `slot` may not leave: nothing would replace it and `ev_min_active` would be broken.
    pub(super) fn must_stay(&self, slot: &EvSlot, ev_min_active: u16) -> bool {
        let spare = self.planes.get(slot.plane()).map_or(0, Plane::spare);
        slot.is_active() && spare == 0 && self.active_len <= ev_min_active
    }

    /// A skipped EV becomes GOOD; both are healthy, so the rotation is not touched.
    #[inline]
    pub(super) fn end_skip(&mut self, slot: &mut EvSlot) {
        slot.set_state(EvState::Good);
        self.ended_skips = self.ended_skips.saturating_add(1);
        if let Some(counts) = self.planes.get_mut(slot.plane()) {
            counts.skip = counts.skip.saturating_sub(1);
            counts.good = counts.good.saturating_add(1);
        }
    }

    /// Moves an EV to state `to` and restores the invariants: a retired EV is replaced from its own plane, a revived one
    /// joins the rotation if its plane is below quota. The caller knows that `index` is in use.
    pub(super) fn change(
        &mut self,
        slots: &mut [EvSlot],
        order: &mut [u16],
        index: EvIndex,
        to: EvState,
        rng: &mut Rng,
    ) -> Option<Transition> {
        let slot = slots.get_mut(index.0 as usize)?;
        let from = slot.state();
        self.touched = true;
        slot.set_state(to);
        if from == to {
            return None;
        }
        if slot.is_probing() {
            slot.set_probing(false);
            self.probes_out = self.probes_out.saturating_sub(1);
        }
        slot.probe_ok = 0;
        slot.set_backoff(0);
        let (was_active, healthy, plane) = (slot.is_active(), slot.is_healthy(), slot.plane());
        let transition = Transition { index, ev: slot.ev(), port: slot.port(), from, to, cause: None };
        let counts = self.planes.get_mut(plane)?;
        let old = counts.of_state(from);
        *old = old.saturating_sub(1);
        let new = counts.of_state(to);
        *new = new.saturating_add(1);
        //= EV-016
        if was_active && !healthy {
            self.retire(slots, order, index.0, rng);
        } else if !was_active && healthy && counts.active < self.quota {
            //= EV-017
            self.join(slots, order, index.0);
        }
        Some(transition)
    }

    /// The controller's door: no feedback leads in or out of DENIED.
    pub(super) fn command(
        &mut self,
        slots: &mut [EvSlot],
        order: &mut [u16],
        index: EvIndex,
        what: Order,
        rng: &mut Rng,
    ) -> Result<Option<Transition>, PathError> {
        let slot = self.used(slots).get(index.0 as usize).ok_or(PathError::UnknownEv(index))?;
        match obey(slot.state(), what) {
            Reaction::Become(to) => Ok(self.change(slots, order, index, to, rng)),
            _ => Ok(None),
        }
    }

    /// Appends an EV to the rotation, to be visited in the current pass. Without room it stays in reserve.
    fn join(&mut self, slots: &mut [EvSlot], order: &mut [u16], index: u16) {
        let Some(end) = order.get_mut(self.active_len as usize) else {
            return;
        };
        let Some(slot) = slots.get_mut(index as usize) else {
            return;
        };
        let Some(counts) = self.planes.get_mut(slot.plane()) else {
            return;
        };
        *end = index;
        slot.set_active(true);
        counts.active = counts.active.saturating_add(1);
        self.active_ports = self.active_ports.with(slot.port());
        self.active_len = self.active_len.saturating_add(1);
    }

    /// Takes an EV out of the rotation; a healthy one of the same plane takes its place in the order.
    fn retire(&mut self, slots: &mut [EvSlot], order: &mut [u16], index: u16, rng: &mut Rng) {
        let Some(active) = order.get_mut(..self.active_len as usize) else {
            return;
        };
        let Some(at) = active.iter().position(|&e| e == index) else {
            return;
        };
        let Some(slot) = slots.get_mut(index as usize) else {
            return;
        };
        slot.set_active(false);
        let (plane, port) = (slot.plane(), slot.port());
        // A skipped backup is better than none: the rotation is what ends its skip.
        //= BAL-001
        let backup = self
            .random_backup(slots, plane, EvState::Good, rng)
            .or_else(|| self.random_backup(slots, plane, EvState::Skip, rng));
        if let Some(backup) = backup
            && let Some(slot) = slots.get_mut(backup as usize)
            && let Some(place) = active.get_mut(at)
        {
            slot.set_active(true);
            *place = backup;
            return;
        }
        let Some(&last) = active.last() else { return };
        let mut hole = at;
        if at < self.cursor as usize {
            // Close the gap among the visited with the last of them, so that nobody is visited twice in a pass.
            self.cursor.dec();
            let visited = active.get(self.cursor as usize).copied().unwrap_or(last);
            if let Some(place) = active.get_mut(hole) {
                *place = visited;
            }
            hole = self.cursor as usize;
        }
        if let Some(place) = active.get_mut(hole) {
            *place = last;
        }
        self.active_len = self.active_len.saturating_sub(1);
        self.cursor = self.cursor.min(self.active_len as u32);
        if let Some(counts) = self.planes.get_mut(plane) {
            counts.active = counts.active.saturating_sub(1);
            if counts.active == 0 {
                self.active_ports = self.active_ports.without(port);
            }
        }
    }

    /// A random EV of `plane` in `state` outside the rotation. O(slots), and only where there is one to be found.
    fn random_backup(&self, slots: &[EvSlot], plane: usize, state: EvState, rng: &mut Rng) -> Option<u16> {
        // The EV being retired still counts as active here but not as healthy.
        let counts = self.planes.get(plane)?;
        if counts.good.saturating_add(counts.skip) < counts.active {
            return None;
        }
        let mut found = None;
        let mut seen = 0u32;
        for (index, slot) in (0u16..).zip(self.used(slots)) {
            if slot.plane() == plane && slot.state() == state && !slot.is_active() {
                seen.inc();
                if rng.below(seen) == 0 {
                    found = Some(index);
                }
            }
        }
        found
    }

    pub(super) fn counts(&self) -> EvCounts {
        let mut sum = EvCounts::default();
        for (plane, counts) in (0u8..).zip(&self.planes) {
            sum.good = sum.good.saturating_add(counts.good);
            sum.skip = sum.skip.saturating_add(counts.skip);
            sum.assumed_bad = sum.assumed_bad.saturating_add(counts.bad);
            sum.denied = sum.denied.saturating_add(counts.denied);
            sum.active = sum.active.saturating_add(counts.active);
            if counts.is_suspended() {
                sum.suspended_planes = sum.suspended_planes.with(PortNum::from_plane(plane));
            }
        }
        sum
    }
}

crate::image::stored!(
    struct Rotation {
        planes, active_ports, usable, universe, active_len, cursor, quota, probe_earliest, lease_earliest, probe_cursor,
        probes_out, probes_limit, idle, starving, last_resort_at, balance,
    }
    rebuilt { ended_skips: 0, touched: true }
);
