//! The paths of control packets: forward EVs are not reversible, so the responder keeps one EV per plane towards the
//! requester. Source: `paths.md` 11.

use super::{Choice, EvEntry, EvIndex, MAX_PLANES, set::random_place};
use crate::num::Counter;
use crate::{Prefetch, port::PortMask, rng::Rng, time::Instant};
use mrc_wire::{Ev, PortNum};

/// Unanswered probes after which another EV of the plane is tried.
const TRIES: u8 = 3;

/// One plane of the reverse set.
#[derive(Clone, Copy, Debug, Default)]
struct Reverse {
    /// What control packets use.
    current: Option<Choice>,
    /// What the next probe of this plane tests.
    candidate: Option<Choice>,
    /// Unanswered probes of the candidate.
    lost: u8,
    /// Data or a probe vouched for `current` since it was last suspected.
    vouched: bool,
}

impl Reverse {
    const NONE: Self = Self { current: None, candidate: None, lost: 0, vouched: false };

    /// `current` may be dead: replaces it by another EV of its plane, where there is another. An EV that data or a probe
    /// has vouched for is spared once.
    fn doubt(&mut self, port: PortNum, entries: &[EvEntry], rng: &mut Rng) {
        let Some(current) = self.current else { return };
        if core::mem::take(&mut self.vouched) {
            return;
        }
        if let Some(choice) = random_entry(entries, port, Some(current.ev), rng) {
            *self = Self { current: Some(choice), candidate: Some(choice), lost: 0, vouched: false };
        }
    }
}

/// One EV per plane for SACKs, NACKs, Transport ACKs and endpoint responses of a QP.
///
/// A QP that sends data learns from its SACKs ([`learn`](Self::learn)); one that only receives finds working EVs with
/// EV probes ([`poll_probe`](Self::poll_probe)), one per base RTT in which data arrived.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct ReverseSet {
    received: bool,
    sent: bool,
    next_plane: u8,
    probe_plane: u8,
    /// Planes with an EV, as ports.
    ports: PortMask,
    /// Planes of which nothing has been heard since [`TRIES`] probes in a row went unanswered, as ports.
    silent: PortMask,
    /// Planes that had an EV since the set was empty, as ports: all others are as [`Self::EMPTY`] has them.
    touched: PortMask,
    probe_at: Instant,
    /// Round trip of the set's own probes: longer ones count at once, shorter ones by and by. 0: none measured.
    rtt_ns: u64,
    planes: [Reverse; MAX_PLANES],
}

impl ReverseSet {
    /// A set without paths.
    pub const EMPTY: Self = Self {
        planes: [Reverse::NONE; MAX_PLANES],
        ports: PortMask::NONE,
        silent: PortMask::NONE,
        touched: PortMask::NONE,
        next_plane: 0,
        probe_plane: 0,
        received: false,
        sent: false,
        probe_at: Instant::ZERO,
        rtt_ns: 0,
    };

    /// An empty set.
    pub const fn new() -> Self {
        Self::EMPTY
    }

    /// Makes the set an empty one again. Planes without an EV are not written.
    pub(crate) fn clear(&mut self) {
        let Self { received, sent, next_plane, probe_plane, ports, silent, touched, probe_at, rtt_ns, planes: _ } =
            Self::EMPTY;
        for (plane, reverse) in (0u8..).zip(&mut self.planes) {
            if self.touched.contains(PortNum::from_plane(plane)) {
                *reverse = Reverse::NONE;
            }
        }
        (self.received, self.sent, self.next_plane, self.probe_plane) = (received, sent, next_plane, probe_plane);
        (self.ports, self.silent, self.touched) = (ports, silent, touched);
        (self.probe_at, self.rtt_ns) = (probe_at, rtt_ns);
    }

    /// Starts, or starts again, with a random EV of the responder's own profile on each plane it covers, and at a random
    /// plane so that QPs started together do not move in step. No entry has a port that is not one of `ports`.
    pub fn start(&mut self, entries: &[EvEntry], ports: PortMask, rng: &mut Rng) {
        self.clear();
        let covered = covered(entries, ports);
        for (plane, reverse) in (0u8..).zip(&mut self.planes) {
            let port = PortNum::from_plane(plane);
            if !covered.contains(port) {
                // Draws nevertheless: what a seed gives does not depend on how planes without an EV are found.
                rng.below(0);
                continue;
            }
            if let Some(choice) = random_entry(entries, port, None, rng) {
                //= REV-001
                *reverse = Reverse { current: Some(choice), candidate: Some(choice), lost: 0, vouched: false };
                self.ports = self.ports.with(port);
            }
        }
        self.touched = self.ports;
        self.next_plane = random_plane(self.ports, rng);
        self.probe_plane = random_plane(self.ports, rng);
    }

    /// Our answers seem to die on the EVs in use: replaces that of every plane by another one of the plane, where there
    /// is another, and never by the same one, so that with two paths the second try is the right one. An EV that data or a
    /// probe has vouched for is spared once.
    ///
    /// The rotation goes on from a random plane: a peer that asks again and again for two answers, and loses one plane,
    /// would else find the same one of them lost each time.
    pub fn redraw(&mut self, entries: &[EvEntry], rng: &mut Rng) {
        //= REV-007
        self.next_plane = random_plane(self.ports, rng);
        for (plane, reverse) in (0u8..).zip(&mut self.planes) {
            reverse.doubt(PortNum::from_plane(plane), entries, rng);
        }
    }

    /// Replaces EVs that the profile denies by now; a plane that has no other goes without, until an EV of it, of port `allowed`,
    /// is denied no longer.
    //= REV-001
    pub fn heed_denylist(&mut self, entries: &[EvEntry], allowed: Option<PortNum>, rng: &mut Rng) {
        let denied = |choice: Option<Choice>| {
            choice.is_some_and(|choice| entries.get(usize::from(choice.entry)).is_some_and(|entry| entry.denied))
        };
        for (plane, reverse) in (0u8..).zip(&mut self.planes) {
            let port = PortNum::from_plane(plane);
            if denied(reverse.candidate) {
                (reverse.candidate, reverse.lost) = (None, 0);
            }
            if denied(reverse.current) || (reverse.current.is_none() && allowed == Some(port)) {
                reverse.current = random_entry(entries, port, None, rng);
                reverse.vouched = false;
                self.ports = match reverse.current {
                    Some(_) => self.ports.with(port),
                    None => self.ports.without(port),
                };
                self.touched = self.touched.with(port);
            }
        }
    }

    /// `choice` works: it carried data that was acknowledged without a mark, or a probe that was answered.
    pub fn learn(&mut self, choice: Choice) {
        if let Some(reverse) = self.planes.get_mut(choice.port.plane() as usize) {
            //= REV-002
            reverse.current = Some(choice);
            reverse.vouched = true;
            self.ports = self.ports.with(choice.port);
            self.touched = self.touched.with(choice.port);
            self.silent = self.silent.without(choice.port);
        }
    }

    /// The path of a control packet through one of `ports`: planes in turn, those that are silent only where there is no
    /// other. `None` without an EV on these ports.
    pub fn pick(&mut self, ports: PortMask) -> Option<Choice> {
        //= REV-004, REV-006
        let ports = ports.and(self.ports);
        let heard = ports.minus(self.silent);
        let plane = next_plane(&mut self.next_plane, if heard.is_empty() { ports } else { heard })?;
        self.planes.get(plane as usize)?.current
    }

    /// The path of the answer to an endpoint request: as [`pick`](Self::pick), but never twice through an EV for which
    /// nothing has vouched in between. A peer that looks for its own return path asks again and again while our answers die;
    /// where its SACKs die as well, nothing else would tell us.
    pub fn pick_answer(&mut self, ports: PortMask, entries: &[EvEntry], rng: &mut Rng) -> Option<Choice> {
        //= REV-008
        let port = self.pick(ports)?.port;
        let reverse = self.planes.get_mut(port.plane() as usize)?;
        reverse.doubt(port, entries, rng);
        reverse.current
    }

    /// The path of a packet that must leave through `port`.
    pub fn on(&self, port: PortNum) -> Option<Choice> {
        self.planes.get(port.plane() as usize)?.current
    }

    /// Data arrived on the QP.
    pub const fn on_data_received(&mut self) {
        self.received = true;
    }

    /// The QP sent data of its own, whose SACKs teach more than a probe.
    pub const fn on_data_sent(&mut self) {
        self.sent = true;
    }

    /// What sending a packet writes.
    #[inline]
    pub(crate) fn fetch_sent(&self, memory: &impl Prefetch) {
        memory.prefetch(&self.probe_at);
    }

    /// What receiving a packet and answering it read.
    #[inline]
    pub(crate) fn fetch(&self, memory: &impl Prefetch) {
        memory.prefetch(&self.probe_at);
        memory.prefetch_all(self.planes.get(1).map(|plane| &plane.vouched));
    }

    /// Whether [`poll_probe`](Self::poll_probe) has nothing to probe yet, even when data arrives now.
    #[inline]
    pub(crate) fn rests(&self, now: Instant) -> bool {
        now < self.probe_at
    }

    /// Whether [`poll_probe`](Self::poll_probe) can have something to probe.
    #[inline]
    pub fn is_due(&self, now: Instant) -> bool {
        self.received && now >= self.probe_at
    }

    /// No EV probe can be sent now: nothing is due for a base RTT.
    pub fn postpone(&mut self, now: Instant, base_rtt_ns: u64) {
        self.probe_at = now.after(base_rtt_ns.max(1));
    }

    /// The path of an EV probe to send now, if a base RTT with data received and none sent has gone by.
    ///
    /// `ports`: free and usable. The caller owes [`on_probe_answered`](Self::on_probe_answered) or
    /// [`on_probe_lost`](Self::on_probe_lost). Nothing is due while no data arrives, so the set needs no timer: poll when
    /// data arrived.
    pub fn poll_probe(
        &mut self,
        now: Instant,
        entries: &[EvEntry],
        ports: PortMask,
        base_rtt_ns: u64,
        rng: &mut Rng,
    ) -> Option<Choice> {
        if !self.is_due(now) {
            return None;
        }
        let quiet = !self.sent;
        (self.received, self.sent) = (false, false);
        self.probe_at = now.after(base_rtt_ns.max(1));
        //= REV-003
        if !quiet {
            return None;
        }
        let plane = next_plane(&mut self.probe_plane, ports.and(self.ports))?;
        let reverse = self.planes.get_mut(plane as usize)?;
        if reverse.candidate.is_none() {
            reverse.candidate = random_entry(entries, PortNum::from_plane(plane), None, rng);
        }
        reverse.candidate
    }

    /// Round trip of probes under the present load, in nanoseconds; 0 before the first answer.
    pub const fn rtt_ns(&self) -> u64 {
        self.rtt_ns
    }

    /// A probe on `choice` was answered after `rtt_ns`: control packets of its plane use it from now on, and another EV is
    /// tested next.
    pub fn on_probe_answered(&mut self, choice: Choice, rtt_ns: u64) {
        self.learn(choice);
        let eased = self.rtt_ns.saturating_sub(self.rtt_ns.saturating_sub(rtt_ns) / 2);
        self.rtt_ns = rtt_ns.max(eased);
        if let Some(reverse) = self.planes.get_mut(choice.port.plane() as usize) {
            (reverse.candidate, reverse.lost) = (None, 0);
        }
    }

    /// A probe on `ev` through `port` was not answered. After three, another random EV of the plane is tested, and used
    /// as well if the silent one was in use; until one is answered, control packets keep to the other planes, unless
    /// `keep_plane`.
    pub fn on_probe_lost(&mut self, port: PortNum, ev: Ev, entries: &[EvEntry], keep_plane: bool, rng: &mut Rng) {
        let Some(reverse) = self.planes.get_mut(port.plane() as usize) else {
            return;
        };
        if reverse.candidate.is_none_or(|candidate| candidate.ev != ev) {
            return;
        }
        reverse.lost = reverse.lost.saturating_add(1);
        //= REV-005
        if reverse.lost < TRIES {
            return;
        }
        //= REV-006
        if !keep_plane {
            self.silent = self.silent.with(port);
        }
        let other = random_entry(entries, port, Some(ev), rng);
        if reverse.current.is_some_and(|current| current.ev == ev) && other.is_some() {
            reverse.current = other;
            reverse.vouched = false;
        }
        (reverse.candidate, reverse.lost) = (other, 0);
    }
}

impl Default for ReverseSet {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// The ports of the usable entries: most profiles begin with one entry for each of `ports`, and nobody looks at the others.
fn covered(entries: &[EvEntry], ports: PortMask) -> PortMask {
    let mut covered = PortMask::NONE;
    for entry in entries {
        if covered == ports {
            break;
        }
        if entry.is_usable(PortMask::NONE.with(entry.port)) {
            covered = covered.with(entry.port);
        }
    }
    covered
}

/// The number of planes is a power of two.
const PLANES_MASK: u8 = {
    assert!(MAX_PLANES.is_power_of_two() && MAX_PLANES <= 128);
    MAX_PLANES as u8 - 1
};

/// A bit for each plane.
const ALL_PLANES: u32 = !u32::MAX.wrapping_shl(MAX_PLANES as u32);

/// The next plane in turn among `ports`; moves `turn` behind it.
fn next_plane(turn: &mut u8, ports: PortMask) -> Option<u8> {
    // Ports begin at 1, planes at 0. Those at or after the one whose turn it is come first.
    let planes = ports.bits() >> 1 & ALL_PLANES;
    let later = planes & ALL_PLANES.wrapping_shl((*turn & PLANES_MASK).into());
    let first = if later == 0 { planes } else { later };
    if first == 0 {
        return None;
    }
    let plane = first.trailing_zeros() as u8;
    *turn = plane.wrapping_add(1) & PLANES_MASK;
    Some(plane)
}

/// One of the planes of `ports`, each as likely as the others; 0 without any.
fn random_plane(ports: PortMask, rng: &mut Rng) -> u8 {
    let mut left = rng.below(ports.len());
    for plane in 0..MAX_PLANES as u8 {
        if ports.contains(PortNum::from_plane(plane)) {
            if left == 0 {
                return plane;
            }
            left.dec();
        }
    }
    0
}

/// A random usable entry on `port` other than `avoid`: the first one at or after a random place.
fn random_entry(entries: &[EvEntry], port: PortNum, avoid: Option<Ev>, rng: &mut Rng) -> Option<Choice> {
    let only = PortMask::NONE.with(port);
    let at = random_place(entries, rng, |entry| entry.is_usable(only) && avoid != Some(entry.ev))?;
    let entry = entries.get(usize::from(at))?;
    Some(Choice { ev: entry.ev, index: EvIndex::NONE, entry: at, port })
}

crate::image::stored!(struct Reverse { current, candidate, lost, vouched });
crate::image::stored!(
    struct ReverseSet { received, sent, next_plane, probe_plane, ports, silent, probe_at, rtt_ns, planes }
    rebuilt { touched: PortMask::ALL }
);

#[cfg(test)]
mod tests;
