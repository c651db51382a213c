//! What a QP remembers about each of its entropy values. Reads no packet and takes no decision: transitions are in
//! `state`, who is in rotation is in `rotation`. Source: `paths.md` 5.
#![cfg_attr(not(feature = "research"), allow(dead_code, reason = "selectors of research use the rest"))]

use mrc_wire::{Ev, PortNum, Verdict};

use super::{Choice, EvIndex, Feedback, MAX_PLANES, PathConfig, SkipMode};
use crate::{Prefetch, time::Instant};

/// State of one entropy value (EV) in one QP. Order and names of `paths.md` 7.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum EvState {
    /// In use, or ready to be used.
    #[default]
    Good,
    /// Passed over once (or for a time, see [`SkipMode`](super::SkipMode)); internal, reported to controllers as good.
    Skip,
    /// Carries no data until a probe or the controller revives it.
    AssumedBad,
    /// Excluded by the controller; neither data nor probes, and no feedback changes it.
    Denied,
}

/// Probes double their distance this many times: 64 intervals at most.
pub(super) const MAX_BACKOFF: u8 = 6;

const ACTIVE: u8 = 1 << 5;
const PROBING: u8 = 1 << 6;
/// A healthy EV that was probed; `due` says until when it is not probed again.
const EXPLORED: u8 = 1 << 7;

/// One EV of a QP: 12 bytes of plain data, lent by the caller as part of a `&mut [EvSlot]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvSlot {
    pub(crate) ev: Ev,
    /// Bits 0..=28 a [`SlotTime`], 29..=31 doublings of the probes' distance, up to [`MAX_BACKOFF`].
    later: u32,
    entry: u16,
    /// Bits 0..=2 plane, 3..=4 state, 5..=7 flags.
    place: u8,
    /// Good probe answers in a row while ASSUMED_BAD; losses in a row while healthy.
    pub(super) probe_ok: u8,
}

const PLANE: u8 = MAX_PLANES as u8 - 1;
const STATE_SHIFT: u32 = 3;
const STATE: u8 = 0b11 << STATE_SHIFT;

impl EvSlot {
    /// An unused slot, to fill the table before it is lent.
    pub const EMPTY: Self =
        Self { ev: Ev(0), later: 0, entry: u16::MAX, place: (EvState::Denied as u8) << STATE_SHIFT, probe_ok: 0 };

    pub(super) const fn new(ev: Ev, port: PortNum, entry: u16, state: EvState) -> Self {
        // Ports above the planes carry no EV.
        let place = (port.plane() & PLANE) | (state as u8) << STATE_SHIFT;
        Self { ev, entry, place, ..Self::EMPTY }
    }

    /// It may lie on two lines of memory.
    #[inline]
    pub(crate) fn fetch(&self, memory: &impl Prefetch) {
        memory.prefetch(&self.ev);
        memory.prefetch(&self.place);
    }

    /// The value on the wire, and the handle in its echoes.
    pub const fn ev(&self) -> Ev {
        self.ev
    }

    /// The port this EV leaves through.
    #[inline]
    pub const fn port(&self) -> PortNum {
        PortNum::from_plane(self.place & PLANE)
    }

    /// Where the EV comes from: index into the entries of the QP's EV profile.
    pub const fn entry(&self) -> u16 {
        self.entry
    }

    /// Current state.
    #[inline]
    pub const fn state(&self) -> EvState {
        match (self.place & STATE) >> STATE_SHIFT {
            0 => EvState::Good,
            1 => EvState::Skip,
            2 => EvState::AssumedBad,
            _ => EvState::Denied,
        }
    }

    //= SET-003
    pub(super) fn set_state(&mut self, state: EvState) {
        self.place = self.place & !STATE | (state as u8) << STATE_SHIFT;
    }

    /// When the next probe is due; in state `Skip` under `SkipMode::Time`, when the EV may be used again; with the flag
    /// `EXPLORED`, when it may be probed again.
    pub(super) const fn due(&self) -> SlotTime {
        SlotTime(self.later & SlotTime::MASK)
    }

    pub(super) fn set_due(&mut self, due: SlotTime) {
        self.later = self.later & !SlotTime::MASK | due.0;
    }

    /// How often the distance of probes is doubled: once for each unanswered one in a row, and for relapses.
    pub(super) const fn backoff(&self) -> u8 {
        (self.later >> SlotTime::BITS) as u8
    }

    pub(super) fn set_backoff(&mut self, doublings: u8) {
        self.later = self.later & SlotTime::MASK | u32::from(doublings.min(MAX_BACKOFF)) << SlotTime::BITS;
    }

    /// Whether the EV is in rotation; the others are backups, bad or denied.
    pub const fn is_active(&self) -> bool {
        self.place & ACTIVE != 0
    }

    /// Whether the answer to a probe from [`PathSet::poll_probe`](super::PathSet::poll_probe) is awaited.
    pub const fn is_probing(&self) -> bool {
        self.place & PROBING != 0
    }

    /// `GOOD` or `SKIP`: data may use it, now or at a later visit.
    pub(super) const fn is_healthy(&self) -> bool {
        matches!(self.state(), EvState::Good | EvState::Skip)
    }

    pub(super) const fn plane(&self) -> usize {
        (self.place & PLANE) as usize
    }

    pub(super) fn set_active(&mut self, on: bool) {
        self.place = if on { self.place | ACTIVE } else { self.place & !ACTIVE };
    }

    /// Probed lately, as an alternative to the path in use.
    pub(super) fn is_explored(&self, now: Instant) -> bool {
        self.place & EXPLORED != 0 && !self.due().reached(now)
    }

    /// Not to be probed as an alternative before `until`. For policies that skip nothing: a timed skip has the same field.
    pub(super) fn set_explored(&mut self, until: SlotTime) {
        self.set_due(until);
        self.place |= EXPLORED;
    }

    /// A timed skip begins anew with each mark or trim NACK (open question 18).
    #[cold]
    pub(super) fn lengthen_skip(&mut self, now: Instant, what: Feedback, cfg: &PathConfig) {
        let marked = matches!(what, Feedback::Sack(Verdict::SkipOnce) | Feedback::Trimmed);
        if let (EvState::Skip, true, SkipMode::Time { ns }) = (self.state(), marked, cfg.skip_mode) {
            self.set_due(SlotTime::after(now, ns));
        }
    }

    /// As when it was drawn: GOOD, in the rotation or not as it is, and nothing is known of it.
    pub(super) fn renew(&mut self) {
        self.place &= PLANE | ACTIVE;
        (self.later, self.probe_ok) = (Self::EMPTY.later, Self::EMPTY.probe_ok);
    }

    pub(super) fn set_probing(&mut self, on: bool) {
        self.place = if on { self.place | PROBING } else { self.place & !PROBING };
    }
}

/// A near future instant in 29 bits: units of 1.024 us.
///
/// Delays are capped, so that a due time which lies "further in the future" than 17 s is known to have passed.
/// Only a slot that nobody looks at for 9 minutes can be misread, and then waits 17 s more at worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct SlotTime(u32);

impl SlotTime {
    const SHIFT: u32 = 10;
    const BITS: u32 = 29;
    const MASK: u32 = (1 << Self::BITS) - 1;
    const MAX_TICKS: u32 = 1 << 24;
    /// Longest delay of each step, `after` and `plus`: 8.6 s.
    const MAX_DELAY_NS: u64 = ((Self::MAX_TICKS as u64) << Self::SHIFT) / 2 - 2048;

    /// `delay_ns` after `now`, rounded up to the unit so that it never comes early.
    pub(super) const fn after(now: Instant, delay_ns: u64) -> Self {
        let delay_ns = if delay_ns > Self::MAX_DELAY_NS { Self::MAX_DELAY_NS } else { delay_ns };
        Self((now.after(delay_ns).after((1 << Self::SHIFT) - 1).as_nanos() >> Self::SHIFT) as u32 & Self::MASK)
    }

    /// `delay_ns` later than this.
    pub(super) const fn plus(self, delay_ns: u64) -> Self {
        let delay_ns = if delay_ns > Self::MAX_DELAY_NS { Self::MAX_DELAY_NS } else { delay_ns };
        Self(self.0.wrapping_add((delay_ns >> Self::SHIFT) as u32) & Self::MASK)
    }

    /// When it is due, never before `now`.
    pub(super) const fn instant(self, now: Instant) -> Instant {
        let tick = now.as_nanos() >> Self::SHIFT;
        let ahead = self.0.wrapping_sub(tick as u32) & Self::MASK;
        if ahead == 0 || ahead > Self::MAX_TICKS {
            return now;
        }
        Instant::from_nanos(tick.saturating_add(ahead as u64) << Self::SHIFT)
    }

    /// Whether `now` has reached it.
    pub(super) const fn reached(self, now: Instant) -> bool {
        let ahead = self.0.wrapping_sub((now.as_nanos() >> Self::SHIFT) as u32) & Self::MASK;
        ahead == 0 || ahead > Self::MAX_TICKS
    }
}

/// The first slot with this EV.
#[inline(never)]
pub(super) fn scan(slots: &[EvSlot], ev: Ev) -> Option<EvIndex> {
    slots.iter().position(|slot| slot.ev() == ev).and_then(|at| u16::try_from(at).ok()).map(EvIndex)
}

/// The path of slot `index`.
#[inline(always)]
pub(super) fn choice(slots: &[EvSlot], index: EvIndex) -> Option<Choice> {
    let slot = slots.get(index.0 as usize)?;
    Some(Choice { ev: slot.ev(), index, entry: slot.entry(), port: slot.port() })
}

crate::image::stored!(enum EvState { 0 => Good, 1 => Skip, 2 => AssumedBad, 3 => Denied });
crate::image::stored!(struct EvSlot { ev, later, entry, place, probe_ok });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_twelve_bytes() {
        assert_eq!(size_of::<EvSlot>(), 12);
    }

    /// What shares a word does not change what lies beside it.
    #[test]
    fn each_part_of_a_slot_is_kept_whatever_happens_to_the_others() {
        let states = [EvState::Good, EvState::Skip, EvState::AssumedBad, EvState::Denied];
        for plane in 0..MAX_PLANES as u8 {
            let mut slot = EvSlot::new(Ev(u32::MAX), PortNum::from_plane(plane), 0xABCD, EvState::Good);
            for (nth, state) in (0u8..).zip(states) {
                let due = SlotTime::after(Instant::from_nanos(u64::MAX >> 2), u64::MAX);
                slot.set_state(state);
                for _ in 0..2 {
                    slot.set_active(nth & 1 != 0);
                    slot.set_probing(nth & 2 != 0);
                }
                slot.set_backoff(nth + 3);
                slot.set_due(due);
                slot.probe_ok = 0xFF - nth;
                assert_eq!((slot.ev(), slot.entry(), slot.port()), (Ev(u32::MAX), 0xABCD, PortNum::from_plane(plane)));
                assert_eq!((slot.state(), slot.is_active(), slot.is_probing()), (state, nth & 1 != 0, nth & 2 != 0));
                assert_eq!((slot.backoff(), slot.due(), slot.probe_ok), (nth + 3, due, 0xFF - nth));
                slot.set_backoff(0);
                assert_eq!((slot.backoff(), slot.due()), (0, due));
                slot.set_due(SlotTime(0));
            }
            slot.set_explored(SlotTime(9));
            assert_eq!((slot.state(), slot.due(), slot.backoff()), (EvState::Denied, SlotTime(9), 0));
        }
    }

    /// A slot without an EV stands for no path: nothing selects or probes it.
    #[test]
    fn an_unused_slot_is_denied() {
        let slot = EvSlot::EMPTY;
        assert_eq!((slot.state(), slot.is_active(), slot.is_probing()), (EvState::Denied, false, false));
    }

    /// Only an EV that was probed as an alternative counts as explored, and until its time.
    #[test]
    fn an_ev_is_explored_until_its_time() {
        let (now, until) = (Instant::from_nanos(5 << 10), SlotTime::after(Instant::from_nanos(5 << 10), 3 << 10));
        let mut slot = EvSlot::new(Ev(1), PortNum::from_plane(0), 0, EvState::Good);
        slot.set_due(until);
        assert!(!slot.is_explored(now));
        slot.set_explored(until);
        assert!(slot.is_explored(now) && slot.is_explored(now.after((3 << 10) - 1)));
        assert!(!slot.is_explored(now.after(3 << 10)));
    }

    /// A due time is rounded up to the unit, and not at all when it is one.
    #[test]
    fn a_delay_of_whole_units_is_exact() {
        let now = Instant::from_nanos(7 << 10);
        for (delay, due) in [(0, 7), (1, 8), (1_023, 8), (1_024, 8), (1_025, 9), (2_048, 9)] {
            assert_eq!(SlotTime::after(now, delay).instant(now), Instant::from_nanos(due << 10), "{delay} ns");
        }
    }

    /// Both steps of a due time are capped, so that none lies so far ahead that it counts as passed.
    #[test]
    fn the_longest_delays_lie_in_the_future() {
        for now in [0, 1_023, (u32::MAX as u64) << 10].map(Instant::from_nanos) {
            let due = SlotTime::after(now, u64::MAX).plus(u64::MAX);
            assert!(!due.reached(now));
            let ahead = due.instant(now).since(now);
            assert!(ahead.abs_diff(2 * SlotTime::MAX_DELAY_NS) <= 2_048, "{ahead}");
            let next = SlotTime::after(now, 0).plus(5_000).instant(now).since(now);
            assert!((3_000..=5_120).contains(&next), "{next}");
        }
    }

    #[test]
    fn due_times_survive_the_wrap_and_never_come_early() {
        for base in [0, 1, 1023, 1024, (u32::MAX as u64) << 10, (u64::MAX >> 20) + 7] {
            let now = Instant::from_nanos(base);
            for delay in [0, 1, 1_000, 1_000_000, 64_000_000, u64::MAX] {
                let due = SlotTime::after(now, delay);
                let at = due.instant(now);
                let real = delay.min(SlotTime::MAX_DELAY_NS);
                assert!(at.since(now) >= real && at.since(now) <= real + 1024, "base {base} delay {delay}");
                assert!(due.reached(at), "base {base} delay {delay}");
                assert!(due.reached(at.after(60 * 60 * 1_000_000_000)), "an hour late is still due");
                if real > 2048 {
                    assert!(!due.reached(now.after(real - 1025)), "base {base} delay {delay}");
                }
            }
        }
    }

    #[test]
    fn both_ends_of_a_slot_are_read_ahead() {
        let (slot, asked) = (EvSlot::EMPTY, crate::prefetch::Asked::default());
        slot.fetch(&asked);
        assert_eq!((asked.within(&slot.ev), asked.within(&slot.place)), (1, 1));
    }
}
