//! NSCC among many senders to one host (`NsccConfig::crowds`). The switch before that host marks nothing, and the windows of the specification,
//! a packet at least, are then more than the link holds: packets are trimmed again and again.
//!
//! * A delay of the target or more decreases a window without a mark, by a quarter of what it loses with one.
//! * A window below the gate, the one below which quick adapt acts, is small. Small windows grow in proportion to their size, so that many
//!   together grow no faster than one at the gate, and give up a quarter of what others would.
//! * The smaller a window, the longer the delay it aims at. At one delay all have the same window, and who has less catches up.
//! * Packets that arrive grow small windows even where their round trip is not known, as that of one sent three times.
//! * Packets ask for an acknowledgement every eighth of a window. One report of most of a small window would draw the next burst, which is its own
//!   delay.
//! * Trimmed packets take a window below a packet, by half for each flight, in place of quick adapt. Below a packet, senders pause between
//!   two packets.

use super::Nscc;
use crate::time::Instant;

/// Windows of a packet over this are the smallest: so many round trips may be between two packets.
pub(super) const LEAST_PART: u64 = 8;
/// One over the part of the target by which it grows with each halving of the window.
const TARGET_PER_HALVING: u64 = 10;
/// One over the part of a window that may leave before a packet asks for an acknowledgement.
const UNASKED_PART: u64 = 8;
/// One over the part that is left of a decrease.
const DECREASE_PART: u64 = 4;

//= NSCC-027
impl Nscc {
    /// [`NsccConfig::crowds`](super::NsccConfig::crowds).
    #[inline]
    pub(in crate::cc) fn crowds(&self) -> bool {
        self.crowds
    }

    /// Windows below this are small.
    fn gate(&self) -> u64 {
        self.max_wnd.wrapping_shr(self.p.qa_gate).max(self.p.mtu)
    }

    /// Whether a packet of `bytes` asks for an acknowledgement because `unasked` have left since one did.
    pub(in crate::cc) fn wants_ack(&self, unasked: u32, bytes: u32) -> bool {
        u64::from(unasked).saturating_add(bytes.into()) > self.cwnd / UNASKED_PART
    }

    /// The window is small, and may be because many share a link.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.crowds && self.cwnd < self.gate()
    }

    /// The window is a packet, or less. Quick adapt then says nothing: packets are as far apart as its epochs are long.
    #[inline]
    pub(super) fn is_packet_or_less(&self) -> bool {
        self.crowds && self.cwnd <= self.p.mtu
    }

    /// The queueing delay to aim at, in nanoseconds.
    #[inline]
    pub(super) fn target_ns(&self) -> u64 {
        if self.is_crowded() { self.crowd_target_ns() } else { self.p.target_ns }
    }

    fn crowd_target_ns(&self) -> u64 {
        let halvings_q8 = log2_q8(self.gate()).saturating_sub(log2_q8(self.cwnd));
        let more = self.p.target_ns.saturating_mul(halvings_q8) / (TARGET_PER_HALVING * 256);
        self.p.target_ns.saturating_add(more)
    }

    /// The increase of a small window, in bytes^2, in place of `step` for `newly_bytes`.
    pub(super) fn crowd_step(&self, step: u64, newly_bytes: u64) -> u64 {
        // An acknowledgement says at most as much as a window: below a packet it comes once in several round trips.
        let counted = newly_bytes.min(self.cwnd);
        let whole = u128::from(step).wrapping_mul(counted.into()).checked_div(newly_bytes.into()).unwrap_or(0);
        let part = whole.wrapping_mul(self.cwnd.into()).checked_div(self.gate().into()).unwrap_or(0);
        part.min(u64::MAX.into()) as u64
    }

    /// A packet arrived whose round trip is not known: it was sent three times or more. A crowd begins with many of those, and a small
    /// window that waited for a measured one would stay small until the last of them is through.
    pub(super) fn grow_unmeasured(&mut self, newly_bytes: u64, limited: bool) {
        if self.is_crowded() && !limited {
            self.cwnd = self.cwnd.saturating_add(newly_bytes.min(self.cwnd) / 2).min(self.gate());
        }
    }

    /// What a small window gives up, or one without a mark, in place of `cut` bytes.
    pub(super) const fn gentle(cut: u64) -> u64 {
        cut / DECREASE_PART
    }

    /// A trimmed packet halves a window of a packet or less, down to the smallest. What was in flight then says no more.
    pub(super) fn halve(&mut self) {
        if self.ignored > self.to_ignore {
            self.cwnd = (self.cwnd / 2).max(self.p.min_cwnd);
            self.to_ignore = self.inflight.max(0).unsigned_abs();
            self.ignored = 0;
            self.trigger_qa = false;
        }
    }

    /// After a packet that is larger than the window, no other may leave until the instant returned.
    #[cold]
    pub(in crate::cc) fn pause(&mut self, now: Instant) -> Option<Instant> {
        self.pause_end = now.after(self.pause_ns()?);
        self.paused = true;
        Some(self.pause_end)
    }

    /// Ends a pause whose time has come; until when it lasts if not, [`Instant::FAR`] if there is none.
    pub(in crate::cc) fn resume(&mut self, now: Instant) -> Instant {
        self.paused &= now < self.pause_end;
        if self.paused { self.pause_end } else { Instant::FAR }
    }

    /// How long, in nanoseconds: as many round trips as the packet is larger than the window.
    pub(super) fn pause_ns(&self) -> Option<u64> {
        let flight =
            u64::try_from(self.inflight).ok().filter(|&flight| flight > self.cwnd && self.cwnd < self.p.mtu)?;
        let rtt_ns = self.base_rtt_ns.saturating_add(self.avg_delay_ns());
        rtt_ns.saturating_mul(flight).checked_div(self.cwnd)
    }
}

/// The logarithm to base 2 in 1/256, straight between powers of two.
fn log2_q8(value: u64) -> u64 {
    let whole = value.checked_ilog2().unwrap_or(0);
    let rest = (u128::from(value) << 8).wrapping_shr(whole) as u64;
    (u64::from(whole) << 8).saturating_add(rest.saturating_sub(256))
}

#[cfg(test)]
mod tests;
