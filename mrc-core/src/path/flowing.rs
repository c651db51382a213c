//! FaCa's Flowing & Jumping: a table of paths with their load; demand jumps to a random path and flows from there to
//! lighter neighbours until they are level.
//! Source: Jiang et al., "FaCa: Fast Aware and Competition-Avoided Balancing for Data Center Network", sections 5.3 to 5.5.
//!
//! ```text
//! load of a path    E(t) = a E(t - dt) + (1 - a) bandwidth * delay,  a = exp(-dt / aging)          (equations 1 to 3)
//! demand            a few packets at a time, placed by algorithm 1 on paths that stand on a ring; each adds its bytes to E
//! packets           go out path by path, as many as were placed on each
//! ```
//! Delay and bandwidth come from telemetry that switches write into probes, where the embedder reports it
//! ([`Endpoint::report_telemetry`](crate::Endpoint::report_telemetry)). On wires whose switches write nothing the delay is the
//! measured round trip of data and, for paths that nothing was heard of lately, of probes. The bandwidth is then a knob, one
//! for all paths: a slow path shows by its queue alone. What the paper leaves open:
//!
//! * The paper places whole flows when connections are set up; we place a few packets of a queue pair at a time. It ages a load
//!   when it decides, we do at each measurement.
//! * One load measured from telemetry and another from round trips cannot be compared: once a report came, round trips
//!   count no more; a probe that is answered without a report ends that.
//! * Its last loop, printed as "while E(k+1) > E(k)", places on a path that is heavier; its text and figure 4 place on the
//!   lighter one, as we do.
//! * Nothing can flow when all paths near the chosen one are level with it: we walk the ring to the next place where
//!   something can; when all paths are level, the chosen one takes a packet.
//! * A path that is bad, denied or behind a port that is down gives its place on the ring to another.

use mrc_wire::Ev;

use super::{
    EvIndex, EvSlot, Feedback, PathError, PathLoad, PathSelector, PathTelemetry, Transition, research::Traits,
    rotation::Rotation, single::is_health, spray::Spray,
};
use crate::{
    num::Counter,
    port::PortMask,
    rng::Rng,
    time::{Instant, Tick},
};

/// Most paths on the ring, as many as in the paper's figure 4.
pub(super) const RING: usize = 8;

/// Knobs of [`Selector::FlowingJumping`](super::Selector::FlowingJumping).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowingJumpingConfig {
    /// Paths on the ring, 2 to 8.
    pub paths: u8,
    /// Packets that are placed at once.
    pub demand_packets: u16,
    /// Load that a packet adds to its path, in bytes.
    pub packet_bytes: u16,
    /// Bandwidth of a path, in Mb/s.
    pub bandwidth_mbps: u32,
    /// Time constant of the aging, in percent of the base RTT: the `1 / k` of equation 3.
    pub aging_percent: u16,
    /// A path of which nothing was heard for so long is probed, in percent of the base RTT; 0: never.
    pub refresh_percent: u16,
}

impl FlowingJumpingConfig {
    /// Eight paths, 64 packets of 4096 bytes, 100 Gb/s, one and ten base round trips.
    //= FLJ-002
    pub const DEFAULT: Self = Self {
        paths: RING as u8,
        demand_packets: 64,
        packet_bytes: 4_096,
        bandwidth_mbps: 100_000,
        aging_percent: 100,
        refresh_percent: 1_000,
    };

    //= FLJ-007
    pub(super) const fn check(&self) -> Result<(), PathError> {
        if self.paths < 2 || self.paths as usize > RING {
            return Err(PathError::Knob("Flowing & Jumping: paths is 2 to 8; one path leaves nothing to choose"));
        }
        if self.demand_packets == 0 || self.demand_packets > 4_096 {
            return Err(PathError::Knob("Flowing & Jumping: demand_packets is 1 to 4096"));
        }
        if self.packet_bytes == 0 || self.bandwidth_mbps == 0 || self.aging_percent == 0 {
            return Err(PathError::Knob(
                "Flowing & Jumping: packet_bytes, bandwidth_mbps and aging_percent are above 0",
            ));
        }
        Ok(())
    }
}

impl Default for FlowingJumpingConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// One path of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) index: EvIndex,
    /// Packets placed on it that have not left.
    pub(super) quota: u16,
    /// Its load, in bytes: `E` of equation 2.
    pub(super) load: u32,
    /// When the load was measured last.
    at: Tick,
    /// The delay measured last, in units of 128 ns, saturating; 0: none yet.
    delay: u16,
    /// The bandwidth that telemetry told last, in units of 100 Mb/s, saturating.
    bandwidth: u16,
}

/// Nanoseconds and Mb/s in the units of an [`Entry`].
const DELAY_NS: u32 = 128;
const BANDWIDTH_MBPS: u32 = 100;

/// `value` in units of `unit`, rounded to the nearest and not to 0.
const fn units(value: u32, unit: u32) -> u16 {
    match value.saturating_add(unit / 2).checked_div(unit) {
        Some(0) | None => 1,
        Some(units) if units > u16::MAX as u32 => u16::MAX,
        Some(units) => units as u16,
    }
}

impl Entry {
    const NONE: Self =
        Self { index: EvIndex::NONE, quota: 0, load: 0, at: Tick::at(Instant::ZERO), delay: 0, bandwidth: 0 };
}

/// `exp(-num / den)` in units of 2^-16, within 2^-13.
///
/// As a power of two: the integer part of the exponent shifts, the rest is a polynomial of degree 3.
pub(super) fn decay_q16(num: u64, den: u64) -> u32 {
    // Twenty time constants leave less than a unit.
    let x_q16 = num.min(den.saturating_mul(20)).saturating_mul(1 << 16).checked_div(den).unwrap_or(20 << 16);
    // log2(e) = 94548 / 2^16.
    let y_q16 = x_q16.wrapping_mul(94_548) >> 16;
    let f = y_q16 & 0xFFFF;
    // 2^-f by least squares, exact at both ends: 1 - f (0.69159 - f (0.23116 - 0.03957 f)).
    let inner = 15_149_u64.wrapping_sub(2_593_u64.wrapping_mul(f) >> 16);
    let outer = 45_324_u64.wrapping_sub(inner.wrapping_mul(f) >> 16);
    let power = 65_536_u64.wrapping_sub(outer.wrapping_mul(f) >> 16);
    power.wrapping_shr((y_q16 >> 16) as u32 & 63) as u32
}

/// The paths of a QP and their loads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    pub(super) entries: [Entry; RING],
    len: u8,
}

impl Ring {
    pub(super) const EMPTY: Self = Self { entries: [Entry::NONE; RING], len: 0 };

    pub(super) fn used(&self) -> &[Entry] {
        self.entries.get(..usize::from(self.len)).unwrap_or(&[])
    }

    fn load(&self, at: usize) -> u32 {
        self.used().get(at).map_or(0, |entry| entry.load)
    }

    /// The places before and after `at`.
    fn neighbours(&self, at: usize) -> [usize; 2] {
        let last = usize::from(self.len).saturating_sub(1);
        [if at == 0 { last } else { at.wrapping_sub(1) }, if at >= last { 0 } else { at.wrapping_add(1) }]
    }

    pub(super) fn add(&mut self, now: Instant, index: EvIndex) {
        if let Some(entry) = self.entries.get_mut(usize::from(self.len)) {
            *entry = Entry { index, at: Tick::at(now), ..Entry::NONE };
            self.len.inc();
        }
    }

    /// Takes the path at `at` off the ring; what was placed on it goes to its neighbour.
    fn remove(&mut self, at: usize) {
        let Some(orphaned) = self.used().get(at).map(|entry| entry.quota) else { return };
        for place in at..usize::from(self.len) {
            if let Some(&next) = self.entries.get(place.wrapping_add(1))
                && let Some(entry) = self.entries.get_mut(place)
            {
                *entry = next;
            }
        }
        self.len.dec();
        let to = if at < usize::from(self.len) { at } else { 0 };
        if let Some(entry) = self.entries.get_mut(to) {
            entry.quota = entry.quota.saturating_add(orphaned);
        }
    }

    fn put(&mut self, at: usize, bytes: u32) {
        if let Some(entry) = self.entries.get_mut(at) {
            entry.load = entry.load.saturating_add(bytes);
            entry.quota = entry.quota.saturating_add(1);
        }
    }

    /// Algorithm 1 for one chosen path: places at most `left` packets of `bytes` and returns how many.
    //= FLJ-003, FLJ-004
    pub(super) fn flow(&mut self, at: usize, left: u16, bytes: u32) -> u16 {
        let [before, after] = self.neighbours(at);
        let mut placed = 0;
        while placed < left && self.load(before) > self.load(at) && self.load(after) > self.load(at) {
            self.put(at, bytes);
            placed.inc();
        }
        for neighbour in [before, after] {
            while placed < left && self.load(neighbour) < self.load(at) {
                self.put(neighbour, bytes);
                placed.inc();
            }
        }
        placed
    }

    /// Places a demand of `packets` of `bytes` each: jump, flow, until nothing is left. O(packets * paths).
    //= FLJ-003, FLJ-005
    pub(super) fn place(&mut self, packets: u16, bytes: u32, rng: &mut Rng) {
        let mut left = packets;
        while left > 0 && self.len > 0 {
            let chosen = rng.below(self.len.into()) as usize;
            let mut at = chosen;
            let mut placed = 0;
            for _ in 0..self.len {
                placed = self.flow(at, left, bytes);
                if placed > 0 {
                    break;
                }
                at = self.neighbours(at)[1];
            }
            if placed == 0 {
                self.put(chosen, bytes);
                placed = 1;
            }
            left = left.saturating_sub(placed);
        }
    }
}

/// The scalars of a QP under [`FlowingJumping`].
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowingState {
    pub(super) cfg: FlowingJumpingConfig,
    pub(super) ring: Ring,
    /// Place of the path that carries packets now.
    at: u8,
    /// The path whose probe is under way.
    awaited: EvIndex,
    probe_at: Instant,
    /// Loads come from telemetry, not from round trips.
    pub(super) told: bool,
    /// The path of the latest report, until the answer it came with is taken.
    reported: EvIndex,
}

impl FlowingState {
    pub(super) const fn new(cfg: FlowingJumpingConfig) -> Self {
        Self {
            cfg,
            ring: Ring::EMPTY,
            at: 0,
            awaited: EvIndex::NONE,
            probe_at: Instant::ZERO,
            told: false,
            reported: EvIndex::NONE,
        }
    }

    /// When to look for a path of which nothing was heard.
    fn probe_at(&self) -> Instant {
        if self.cfg.refresh_percent == 0 || self.ring.len == 0 { Instant::FAR } else { self.probe_at }
    }

    fn refresh_ns(&self, base_rtt_ns: u64) -> u64 {
        base_rtt_ns.saturating_mul(self.cfg.refresh_percent.into()) / 100
    }

    /// Time between two looks for a path of which nothing was heard: round trips of data keep most paths fresh, telemetry
    /// comes with probes alone.
    fn look_ns(&self, base_rtt_ns: u64) -> u64 {
        let refresh_ns = self.refresh_ns(base_rtt_ns);
        let ways = if self.told { u64::from(self.ring.len).max(1) } else { 1 };
        refresh_ns.checked_div(ways).unwrap_or(refresh_ns).max(1_024)
    }

    /// A round trip of path `index`, by data or by a probe.
    //= FLJ-009
    pub(super) fn on_rtt(&mut self, now: Instant, index: EvIndex, rtt_ns: u64, probe: bool, base_rtt_ns: u64) {
        if probe {
            let reported = core::mem::replace(&mut self.reported, EvIndex::NONE) == index;
            self.told = self.told && reported;
        }
        if !self.told {
            let delay_ns = u32::try_from(rtt_ns).unwrap_or(u32::MAX);
            self.measure(now, index, self.cfg.bandwidth_mbps, delay_ns, base_rtt_ns);
        }
    }

    /// What switches said of path `index`.
    //= FLJ-009
    pub(super) fn on_telemetry(&mut self, now: Instant, index: EvIndex, told: PathTelemetry, base_rtt_ns: u64) {
        (self.told, self.reported) = (true, index);
        self.measure(now, index, told.bandwidth_mbps, told.delay_ns, base_rtt_ns);
    }

    /// Equations 1 to 3.
    //= FLJ-001
    fn measure(&mut self, now: Instant, index: EvIndex, bandwidth_mbps: u32, delay_ns: u32, base_rtt_ns: u64) {
        let aging_ns = base_rtt_ns.saturating_mul(self.cfg.aging_percent.into()) / 100;
        let Some(entry) = self.ring.entries.iter_mut().find(|entry| entry.index == index) else { return };
        // Mb/s times ns is 1 / 8000 byte.
        let product = u64::from(bandwidth_mbps).saturating_mul(delay_ns.into()) / 8_000;
        let fresh = u64::from(u32::try_from(product).unwrap_or(u32::MAX));
        let old_q16 = u64::from(decay_q16(entry.at.elapsed_ns(now), aging_ns));
        let new_q16 = 65_536_u64.wrapping_sub(old_q16);
        let load = old_q16.wrapping_mul(entry.load.into()).wrapping_add(new_q16.wrapping_mul(fresh)) >> 16;
        (entry.load, entry.at) = (load as u32, Tick::at(now));
        (entry.delay, entry.bandwidth) = (units(delay_ns, DELAY_NS), units(bandwidth_mbps, BANDWIDTH_MBPS));
    }

    /// The paths of the table.
    //= FLJ-010
    pub(super) fn table<'a>(&'a self, slots: &'a [EvSlot]) -> impl Iterator<Item = PathLoad> + 'a {
        self.ring.used().iter().filter_map(move |entry| {
            let slot = slots.get(usize::from(entry.index.0))?;
            Some(PathLoad {
                index: entry.index,
                ev: slot.ev(),
                port: slot.port(),
                entry: slot.entry(),
                delay_ns: u32::from(entry.delay).wrapping_mul(DELAY_NS),
                bandwidth_mbps: match self.told {
                    true => u32::from(entry.bandwidth).wrapping_mul(BANDWIDTH_MBPS),
                    false => self.cfg.bandwidth_mbps,
                },
                load_bytes: entry.load,
                placed_packets: entry.quota,
                telemetry: self.told,
            })
        })
    }

    fn settle_probe(&mut self, index: EvIndex) {
        if self.awaited == index {
            self.awaited = EvIndex::NONE;
        }
    }
}

impl Traits for FlowingState {
    const WANTS_RTT: bool = true;
    const WANTS_TELEMETRY: bool = true;

    /// When to look for a path of which nothing was heard.
    fn next_timeout(&self, rotation: &Rotation) -> Instant {
        if rotation.idle { Instant::FAR } else { self.probe_at() }
    }
}

/// View of one QP's paths under Flowing & Jumping. Built by [`PathSet`](super::PathSet).
#[derive(Debug)]
pub(super) struct FlowingJumping<'a> {
    spray: Spray<'a>,
    state: &'a mut FlowingState,
}

impl<'a> FlowingJumping<'a> {
    #[inline]
    pub(super) fn new(spray: Spray<'a>, state: &'a mut FlowingState) -> Self {
        Self { spray, state }
    }

    fn slot(&self, at: usize) -> Option<&EvSlot> {
        let index = self.state.ring.used().get(at)?.index;
        self.spray.slots.get(usize::from(index.0))
    }

    /// Whether the path at place `at` may carry packets, on a busy port or a free one.
    fn is_usable(&self, at: usize) -> bool {
        let usable = self.spray.rotation.usable();
        self.slot(at).is_some_and(|slot| slot.is_healthy() && usable.contains(slot.port()))
    }

    /// Brings the ring to its size: paths that cannot be used leave, random ones that can join. O(active EVs).
    //= FLJ-006
    fn repair(&mut self, now: Instant, rng: &mut Rng) {
        let mut at = 0;
        while at < usize::from(self.state.ring.len) {
            if self.is_usable(at) {
                at.inc();
            } else {
                self.state.ring.remove(at);
            }
        }
        let Self { spray, state } = self;
        for _ in 0..spray.rotation.steps() {
            if state.ring.len >= state.cfg.paths {
                return;
            }
            let Some(index) = spray.rotation.advance(spray.order, rng).map(EvIndex) else { return };
            let usable = spray.rotation.usable();
            let fits = spray.slots.get(usize::from(index.0));
            let fits = fits.is_some_and(|slot| slot.is_healthy() && usable.contains(slot.port()));
            if fits && state.ring.used().iter().all(|entry| entry.index != index) {
                state.ring.add(now, index);
            }
        }
    }

    /// The next place, from the present one on, whose path may have this packet.
    fn find(&self, ports: PortMask, avoid: Option<Ev>) -> Option<usize> {
        let mut at = if self.state.at < self.state.ring.len { usize::from(self.state.at) } else { 0 };
        for _ in 0..self.state.ring.len {
            let placed = self.state.ring.used().get(at).is_some_and(|entry| entry.quota > 0);
            let fits = |slot: &EvSlot| slot.is_healthy() && ports.contains(slot.port()) && avoid != Some(slot.ev());
            if placed && self.slot(at).is_some_and(fits) {
                return Some(at);
            }
            at = self.state.ring.neighbours(at)[1];
        }
        None
    }
}

impl PathSelector for FlowingJumping<'_> {
    fn select(&mut self, now: Instant, ports: PortMask, avoid: Option<Ev>, rng: &mut Rng) -> Option<EvIndex> {
        let mut found = self.find(ports, avoid);
        if found.is_none() {
            self.repair(now, rng);
            // More is placed only when what was placed is nearly gone: the rest may merely wait for a busy port.
            let left = self.state.ring.used().iter().fold(0u16, |sum, entry| sum.saturating_add(entry.quota));
            if left < self.state.cfg.demand_packets {
                let (packets, bytes) = (self.state.cfg.demand_packets, self.state.cfg.packet_bytes);
                self.state.ring.place(packets, bytes.into(), rng);
            }
            found = self.find(ports, avoid);
        }
        let Some(at) = found else {
            let waits = (0..usize::from(self.state.ring.len)).any(|at| self.is_usable(at));
            return if waits && avoid.is_none() { None } else { self.spray.select(now, ports, avoid, rng) };
        };
        self.state.at = at as u8;
        let entry = self.state.ring.entries.get_mut(at)?;
        entry.quota = entry.quota.saturating_sub(1);
        Some(entry.index)
    }

    fn on_feedback(&mut self, now: Instant, index: EvIndex, what: Feedback, rng: &mut Rng) -> Option<Transition> {
        let base_rtt_ns = self.spray.cfg.base_rtt_ns.max(1);
        match what {
            Feedback::Rtt { rtt_ns, .. } => self.state.on_rtt(now, index, rtt_ns, false, base_rtt_ns),
            Feedback::ProbeRtt { rtt_ns } => self.state.on_rtt(now, index, rtt_ns, true, base_rtt_ns),
            Feedback::Telemetry(told) => self.state.on_telemetry(now, index, told, base_rtt_ns),
            Feedback::ProbeAnswer(_) | Feedback::ProbeLost => self.state.settle_probe(index),
            _ => {}
        }
        if is_health(what) { self.spray.on_feedback(now, index, what, rng) } else { None }
    }

    /// Beside bad paths, the path of the ring of which nothing was heard for the longest time, one at a time.
    //= FLJ-008
    fn poll_probe(&mut self, now: Instant, ports: PortMask, idle: bool) -> Option<EvIndex> {
        let base_rtt_ns = self.spray.cfg.base_rtt_ns.max(1);
        let refresh_ns = self.state.refresh_ns(base_rtt_ns);
        if !idle && now >= self.state.probe_at() {
            // The answer, or the next look, frees the place of a probe that never left.
            self.state.probe_at = now.after(self.state.look_ns(base_rtt_ns));
            let age = |entry: &Entry| entry.at.elapsed_ns(now);
            let oldest = self.state.ring.used().iter().max_by_key(|entry| age(entry)).copied();
            let oldest = oldest.filter(|entry| age(entry) >= refresh_ns && entry.index != self.state.awaited);
            self.state.awaited = EvIndex::NONE;
            if let Some(entry) = oldest
                && let Some(slot) = self.spray.slots.get(usize::from(entry.index.0))
                && slot.is_healthy()
                && ports.contains(slot.port())
            {
                self.state.awaited = entry.index;
                return Some(entry.index);
            }
        }
        self.spray.poll_probe(now, ports, idle)
    }
}

crate::image::stored!(struct FlowingJumpingConfig { paths, demand_packets, packet_bytes, bandwidth_mbps, aging_percent, refresh_percent });
crate::image::stored!(struct Entry { index, quota, load, at, delay, bandwidth });
crate::image::stored!(struct Ring { entries, len } where |ring| usize::from(ring.len) <= RING);
crate::image::stored!(struct FlowingState { cfg, ring, at, awaited, probe_at, told, reported });

#[cfg(test)]
mod tests;
