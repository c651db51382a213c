//! When bad EVs are probed. Sends nothing: the engine turns the answer of `poll_probe` into a probe packet and reports
//! its result. Source: `paths.md` 10.

use super::{
    EvIndex, EvSlot, EvState, PathConfig,
    rotation::Rotation,
    slot::{MAX_BACKOFF, SlotTime},
    state::Reaction,
};
use crate::num::Counter;
use crate::{port::PortMask, time::Instant};

/// An idle QP probes this many times more rarely.
const IDLE_FACTOR: u64 = 8;

/// Probe intervals after which a probe without a result no longer counts as under way. Far above any answer timeout:
/// it only matters for probes that never left, because a queue was full or a port went down.
const LEASE_INTERVALS: u64 = 16;

/// Distance to the next probe after `backoff` doublings.
fn distance_ns(cfg: &PathConfig, backoff: u8) -> u64 {
    //= RES-002
    cfg.probe_interval_ns.max(1).saturating_mul(1u64.wrapping_shl(backoff.min(MAX_BACKOFF).into()))
}

/// Doublings of the probes' distance that outlive an answer, and the return of the EV.
pub(super) const fn kept_backoff(slot: &EvSlot, cfg: &PathConfig) -> u8 {
    if cfg.relapse_backoff { slot.backoff() } else { 0 }
}

impl Rotation {
    /// Sets the time of the next probe of a bad EV.
    pub(super) fn schedule_probe(&mut self, now: Instant, slot: &mut EvSlot, cfg: &PathConfig) {
        slot.set_due(SlotTime::after(now, distance_ns(cfg, slot.backoff())));
        self.probe_earliest = self.probe_earliest.min(slot.due().instant(now));
    }

    /// A probe came back or is given up: its place among the outstanding is free.
    pub(super) fn settle_probe(&mut self, slot: &mut EvSlot) {
        if slot.is_probing() {
            slot.set_probing(false);
            self.probes_out = self.probes_out.saturating_sub(1);
        }
    }

    /// The result of a probe after which the EV stays bad.
    pub(super) fn count_probe(&mut self, now: Instant, slot: &mut EvSlot, result: Reaction, cfg: &PathConfig) {
        let (good, doublings) = match result {
            Reaction::CountGood => (slot.probe_ok.saturating_add(1), kept_backoff(slot, cfg)),
            Reaction::BackOff => (0, slot.backoff().saturating_add(1)),
            _ => (0, kept_backoff(slot, cfg)),
        };
        slot.probe_ok = good;
        slot.set_backoff(doublings);
        self.schedule_probe(now, slot, cfg);
    }

    /// When the next probe of a bad EV is due, never before `now`.
    fn probe_due(now: Instant, slot: &EvSlot, cfg: &PathConfig, idle: bool) -> Instant {
        //= RES-004
        let wait = if idle { distance_ns(cfg, slot.backoff()).saturating_mul(IDLE_FACTOR - 1) } else { 0 };
        slot.due().plus(wait).instant(now)
    }

    /// SlotTime times depend on it: look at all bad EVs again. Whether it brought the next probe forward.
    fn set_idle(&mut self, idle: bool) -> bool {
        let moves = idle != self.idle && self.probe_earliest != Instant::FAR;
        self.idle = idle;
        if moves {
            self.probe_earliest = Instant::ZERO;
        }
        moves
    }

    pub(super) fn on_busy(&mut self) -> bool {
        self.set_idle(false)
    }

    /// Slots are visited round robin from where the last probe was found, so finding `k` due EVs costs one pass.
    pub(super) fn poll_probe(
        &mut self,
        now: Instant,
        slots: &mut [EvSlot],
        ports: PortMask,
        cfg: &PathConfig,
        idle: bool,
    ) -> Option<EvIndex> {
        if self.starving && now >= self.last_resort_at {
            // The wait that `next_timeout` announced is over; `select` says whether it matters.
            self.starving = false;
        }
        self.set_idle(idle);
        //= RES-003
        if self.probes_limit == 0 {
            return None;
        }
        if now >= self.lease_earliest {
            self.expire_leases(now, slots);
        }
        if now < self.probe_earliest || self.probes_out >= self.probes_limit {
            return None;
        }
        let universe = self.universe();
        let mut earliest = Instant::FAR;
        let mut blocked = false;
        let mut at = self.probe_cursor as usize;
        for _ in 0..universe {
            if at >= universe {
                at = 0;
            }
            let index = at as u16;
            at.inc();
            let Some(slot) = slots.get_mut(index as usize) else {
                continue;
            };
            //= PROBE-005
            if slot.state() != EvState::AssumedBad || slot.is_probing() {
                continue;
            }
            let due = Self::probe_due(now, slot, cfg, idle);
            if due > now {
                earliest = earliest.min(due);
            } else if ports.contains(slot.port()) {
                slot.set_probing(true);
                slot.set_due(SlotTime::after(now, cfg.probe_interval_ns.max(1).saturating_mul(LEASE_INTERVALS)));
                self.lease_earliest = self.lease_earliest.min(slot.due().instant(now));
                self.probes_out = self.probes_out.saturating_add(1);
                self.probe_cursor = at as u16;
                return Some(EvIndex(index));
            } else {
                blocked = true;
            }
        }
        if blocked {
            // Its port is busy or down. Look again later, not at every poll.
            earliest = earliest.min(now.after((cfg.probe_interval_ns / 8).max(1_024)));
        }
        self.probe_earliest = earliest;
        None
    }

    /// Gives up waiting for overdue results; their EVs are due again.
    #[cold]
    fn expire_leases(&mut self, now: Instant, slots: &mut [EvSlot]) {
        let universe = self.universe();
        let mut earliest = Instant::FAR;
        for slot in slots.iter_mut().take(universe).filter(|slot| slot.is_probing()) {
            if slot.due().reached(now) {
                self.settle_probe(slot);
                self.probe_earliest = now;
            } else {
                earliest = earliest.min(slot.due().instant(now));
            }
        }
        self.lease_earliest = earliest;
    }

    #[inline]
    pub(super) fn next_timeout(&self) -> Instant {
        let probe = if self.probes_out < self.probes_limit { self.probe_earliest } else { Instant::FAR };
        if self.starving || self.probes_out > 0 { self.next_rare(probe) } else { probe }
    }

    /// With a packet that starves, or probes under way. Out of line: their times lie in a line of memory that little else reads.
    #[cold]
    #[inline(never)]
    fn next_rare(&self, probe: Instant) -> Instant {
        let probe = if self.probes_out > 0 { probe.min(self.lease_earliest) } else { probe };
        if self.starving { probe.min(self.last_resort_at) } else { probe }
    }
}
