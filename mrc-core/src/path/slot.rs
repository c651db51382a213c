//! What a QP remembers about each of its entropy values. Reads no packet and takes no decision: transitions are in
//! `state`, who is in rotation is in `rotation`. Source: `paths.md` 5.
#![cfg_attr(not(feature = "research"), allow(dead_code, reason = "selectors of research use the rest"))]

use mrc_wire::{Ev, PortNum, Verdict};

use super::{Feedback, PathConfig, SkipMode};
use crate::time::Instant;

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

const ACTIVE: u8 = 1;
const PROBING: u8 = 2;
/// A healthy EV that was probed; `due` says until when it is not probed again.
const EXPLORED: u8 = 4;

/// One EV of a QP: 16 bytes of plain data, lent by the caller as part of a `&mut [EvSlot]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvSlot {
    pub(crate) ev: Ev,
    /// When the next probe is due; in state `Skip` under `SkipMode::Time`, when the EV may be used again; with the flag
    /// `EXPLORED`, when it may be probed again.
    pub(super) due: Due,
    entry: u16,
    port: PortNum,
    //= SET-003
    pub(super) state: EvState,
    /// Good probe answers in a row while ASSUMED_BAD; losses in a row while healthy.
    pub(super) probe_ok: u8,
    /// Unanswered probes in a row, up to [`MAX_BACKOFF`].
    pub(super) backoff: u8,
    flags: u8,
}

impl EvSlot {
    /// An unused slot, to fill the table before it is lent.
    pub const EMPTY: Self = Self {
        ev: Ev(0),
        due: Due(0),
        entry: u16::MAX,
        port: PortNum::from_plane(0),
        state: EvState::Denied,
        probe_ok: 0,
        backoff: 0,
        flags: 0,
    };

    pub(super) const fn new(ev: Ev, port: PortNum, entry: u16, state: EvState) -> Self {
        Self { ev, entry, port, state, ..Self::EMPTY }
    }

    /// The value on the wire, and the handle in its echoes.
    pub const fn ev(&self) -> Ev {
        self.ev
    }

    /// The port this EV leaves through.
    pub const fn port(&self) -> PortNum {
        self.port
    }

    /// Where the EV comes from: index into the entries of the QP's EV profile.
    pub const fn entry(&self) -> u16 {
        self.entry
    }

    /// Current state.
    pub const fn state(&self) -> EvState {
        self.state
    }

    /// Whether the EV is in rotation; the others are backups, bad or denied.
    pub const fn is_active(&self) -> bool {
        self.flags & ACTIVE != 0
    }

    /// Whether the answer to a probe from [`PathSet::poll_probe`](super::PathSet::poll_probe) is awaited.
    pub const fn is_probing(&self) -> bool {
        self.flags & PROBING != 0
    }

    /// `GOOD` or `SKIP`: data may use it, now or at a later visit.
    pub(super) const fn is_healthy(&self) -> bool {
        matches!(self.state, EvState::Good | EvState::Skip)
    }

    pub(super) const fn plane(&self) -> usize {
        self.port.plane() as usize
    }

    pub(super) fn set_active(&mut self, on: bool) {
        self.flags = if on { self.flags | ACTIVE } else { self.flags & !ACTIVE };
    }

    /// Probed lately, as an alternative to the path in use.
    pub(super) fn is_explored(&self, now: Instant) -> bool {
        self.flags & EXPLORED != 0 && !self.due.reached(now)
    }

    /// Not to be probed as an alternative before `until`. For policies that skip nothing: a timed skip has the same field.
    pub(super) fn set_explored(&mut self, until: Due) {
        self.due = until;
        self.flags |= EXPLORED;
    }

    /// A timed skip begins anew with each mark or trim NACK (open question 18).
    #[cold]
    pub(super) fn lengthen_skip(&mut self, now: Instant, what: Feedback, cfg: &PathConfig) {
        let marked = matches!(what, Feedback::Sack(Verdict::SkipOnce) | Feedback::Trimmed);
        if let (EvState::Skip, true, SkipMode::Time { ns }) = (self.state, marked, cfg.skip_mode) {
            self.due = Due::after(now, ns);
        }
    }

    pub(super) fn set_probing(&mut self, on: bool) {
        self.flags = if on { self.flags | PROBING } else { self.flags & !PROBING };
    }
}

/// A near future instant in four bytes: units of 1.024 us.
///
/// Delays are capped, so that a due time which lies "further in the future" than 17 s is known to have passed.
/// Only a slot that nobody looks at for 73 minutes can be misread, and then waits 17 s more at worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Due(u32);

impl Due {
    const SHIFT: u32 = 10;
    const MAX_TICKS: u32 = 1 << 24;
    /// Longest delay of each step, `after` and `plus`: 8.6 s.
    const MAX_DELAY_NS: u64 = ((Self::MAX_TICKS as u64) << Self::SHIFT) / 2 - 2048;

    /// `delay_ns` after `now`, rounded up to the unit so that it never comes early.
    pub(super) const fn after(now: Instant, delay_ns: u64) -> Self {
        let delay_ns = if delay_ns > Self::MAX_DELAY_NS { Self::MAX_DELAY_NS } else { delay_ns };
        Self((now.after(delay_ns).after((1 << Self::SHIFT) - 1).as_nanos() >> Self::SHIFT) as u32)
    }

    /// `delay_ns` later than this.
    pub(super) const fn plus(self, delay_ns: u64) -> Self {
        let delay_ns = if delay_ns > Self::MAX_DELAY_NS { Self::MAX_DELAY_NS } else { delay_ns };
        Self(self.0.wrapping_add((delay_ns >> Self::SHIFT) as u32))
    }

    /// When it is due, never before `now`.
    pub(super) const fn instant(self, now: Instant) -> Instant {
        let tick = now.as_nanos() >> Self::SHIFT;
        let ahead = self.0.wrapping_sub(tick as u32);
        if ahead == 0 || ahead > Self::MAX_TICKS {
            return now;
        }
        Instant::from_nanos(tick.saturating_add(ahead as u64) << Self::SHIFT)
    }

    /// Whether `now` has reached it.
    pub(super) const fn reached(self, now: Instant) -> bool {
        let ahead = self.0.wrapping_sub((now.as_nanos() >> Self::SHIFT) as u32);
        ahead == 0 || ahead > Self::MAX_TICKS
    }
}

crate::image::stored!(enum EvState { 0 => Good, 1 => Skip, 2 => AssumedBad, 3 => Denied });
crate::image::stored!(struct EvSlot { ev, due, entry, port, state, probe_ok, backoff, flags });
crate::image::stored!(newtype Due);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_sixteen_bytes() {
        assert_eq!(size_of::<EvSlot>(), 16);
    }

    #[test]
    fn due_times_survive_the_wrap_and_never_come_early() {
        for base in [0, 1, 1023, 1024, (u32::MAX as u64) << 10, (u64::MAX >> 20) + 7] {
            let now = Instant::from_nanos(base);
            for delay in [0, 1, 1_000, 1_000_000, 64_000_000, u64::MAX] {
                let due = Due::after(now, delay);
                let at = due.instant(now);
                let real = delay.min(Due::MAX_DELAY_NS);
                assert!(at.since(now) >= real && at.since(now) <= real + 1024, "base {base} delay {delay}");
                assert!(due.reached(at), "base {base} delay {delay}");
                assert!(due.reached(at.after(60 * 60 * 1_000_000_000)), "an hour late is still due");
                if real > 2048 {
                    assert!(!due.reached(now.after(real - 1025)), "base {base} delay {delay}");
                }
            }
        }
    }
}
