//! Who probes what, and when.
//!
//! Every agent probes its own T0 on each plane in every interval. The uplinks of a T0 are divided among the agents of its
//! hosts: each uplink has [`PlanConfig::redundancy`] owners. Rendezvous hashing with bounded load over the live hosts
//! finds them, so agents need not coordinate: those that know the same live hosts compute the same division, and when
//! one vanishes only its share moves.
//!
//! An owner sends two kinds of probes through its uplink in every interval: there and back, and a triangle through
//! another T0, which crosses each of its four uplinks in one direction only. For host links an agent sends a request to a
//! neighbour, which replies on another plane.
//!
//! # Overhead
//! [`Plan::frames_per_interval`] counts frames, replies included. [`PlanConfig::max_frames`] bounds it: an agent that owns
//! more uplinks than fit probes them in turn, so that each is probed once in [`Plan::stretch`] intervals.

use crate::probe::{Class, FRAME_LEN, WIRE_EXTRA};
use crate::rng::mix;
use crate::topology::{Element, Fabric, HostId};

/// Knobs of a plan; the same on all agents of a fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanConfig {
    /// Owners of each uplink, as far as there are hosts.
    pub redundancy: u8,
    /// Every how many intervals a path is probed in the data class, too.
    pub data_every: u32,
    /// Padding of data class probes in bytes; enough that a switch that trims has something to cut.
    pub data_padding: u16,
    /// Every how many control class probes of a path one is as long as a full data packet; 0: never. A link of too small an MTU, or
    /// one that damages bits, spares short frames.
    pub full_every: u32,
    /// Padding of these in bytes, at most [`MAX_PADDING`](crate::probe::MAX_PADDING).
    pub full_padding: u16,
    /// Triangles per uplink and requests per port that take turns.
    pub variants: u16,
    /// Most frames per port and interval.
    pub max_frames: u16,
}

impl Default for PlanConfig {
    fn default() -> Self {
        Self {
            redundancy: 2,
            data_every: 4,
            data_padding: 64,
            full_every: 0,
            full_padding: 0,
            variants: 4,
            max_frames: 9,
        }
    }
}

/// Route of a probe.
//= CLU-001
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// To the own T0 and back.
    T0,
    /// To a T1 and back.
    T1 {
        /// That T1.
        spine: u16,
    },
    /// Up to a T1, down to another T0, up to another T1, back down.
    Triangle {
        /// First T1.
        spine: u16,
        /// The other T0.
        leaf: u16,
        /// Second T1.
        back: u16,
    },
    /// To another host, whose agent replies on another plane.
    Pair {
        /// That host.
        target: HostId,
        /// Plane of the reply.
        reply_plane: u8,
        /// T1 of both ways where the hosts have different T0s.
        spine: u16,
    },
}

/// A path of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct PathSpec {
    /// Plane the probe leaves on.
    pub plane: u8,
    /// What it passes.
    pub route: Route,
}

/// uSID roles: 1 is a T0, 2 a T1, 3 a host.
fn usid(role: u16, plane: u8, index: u16) -> u16 {
    role << 12 | u16::from(plane & 0xF) << 8 | (index & 0xFF)
}

impl PathSpec {
    /// Whether the fabric has everything on it.
    #[must_use]
    pub fn exists(&self, fabric: &Fabric) -> bool {
        let route = match self.route {
            Route::T0 => true,
            Route::T1 { spine } => spine < fabric.spines,
            Route::Triangle { spine, leaf, back } => {
                spine < fabric.spines && leaf < fabric.leaves && back < fabric.spines
            }
            Route::Pair { target, reply_plane, spine } => {
                target < fabric.hosts && reply_plane < fabric.planes && spine < fabric.spines
            }
        };
        route && self.plane < fabric.planes
    }

    /// Everything the probe passes, with repetitions.
    #[must_use]
    pub fn elements(&self, fabric: &Fabric, host: HostId) -> Vec<Element> {
        let (p, leaf) = (self.plane, fabric.leaf_of(host));
        let (out, back) = (fabric.host_link(p, host, false), fabric.host_link(p, host, true));
        let t0 = fabric.t0(p, leaf);
        match self.route {
            Route::T0 => vec![fabric.plane(p), out, t0, back],
            Route::T1 { spine } => vec![
                fabric.plane(p),
                out,
                t0,
                fabric.uplink(p, leaf, spine, false),
                fabric.t1(p, spine),
                fabric.uplink(p, leaf, spine, true),
                t0,
                back,
            ],
            Route::Triangle { spine, leaf: other, back: second } => vec![
                fabric.plane(p),
                out,
                t0,
                fabric.uplink(p, leaf, spine, false),
                fabric.t1(p, spine),
                fabric.uplink(p, other, spine, true),
                fabric.t0(p, other),
                fabric.uplink(p, other, second, false),
                fabric.t1(p, second),
                fabric.uplink(p, leaf, second, true),
                t0,
                back,
            ],
            Route::Pair { target, reply_plane, spine } => {
                let mut elements = one_way(fabric, p, host, target, spine);
                elements.push(fabric.host(target));
                elements.extend(one_way(fabric, reply_plane, target, host, spine));
                elements
            }
        }
    }

    /// The uSIDs of the probe's destination, the own or the target's host uSID last. At most six.
    #[must_use]
    pub fn usids(&self, fabric: &Fabric, host: HostId) -> Vec<u16> {
        let (p, leaf) = (self.plane, fabric.leaf_of(host));
        let (t0, t1, end) = (|i| usid(1, p, i), |i| usid(2, p, i), |i| usid(3, p, i));
        match self.route {
            Route::T0 => vec![t0(leaf), end(host)],
            Route::T1 { spine } => vec![t0(leaf), t1(spine), t0(leaf), end(host)],
            Route::Triangle { spine, leaf: other, back } => {
                vec![t0(leaf), t1(spine), t0(other), t1(back), t0(leaf), end(host)]
            }
            Route::Pair { target, spine, .. } => way_usids(fabric, p, host, target, spine),
        }
    }
}

/// uSIDs from one host to another.
#[must_use]
pub fn way_usids(fabric: &Fabric, plane: u8, from: HostId, to: HostId, spine: u16) -> Vec<u16> {
    let (near, far) = (fabric.leaf_of(from), fabric.leaf_of(to));
    let mut usids = vec![usid(1, plane, near)];
    if near != far {
        usids.extend([usid(2, plane, spine), usid(1, plane, far)]);
    }
    usids.push(usid(3, plane, to));
    usids
}

/// What a packet from one host to another passes.
fn one_way(fabric: &Fabric, plane: u8, from: HostId, to: HostId, spine: u16) -> Vec<Element> {
    let (near, far) = (fabric.leaf_of(from), fabric.leaf_of(to));
    let mut elements = vec![fabric.plane(plane), fabric.host_link(plane, from, false), fabric.t0(plane, near)];
    if near != far {
        elements.extend([
            fabric.uplink(plane, near, spine, false),
            fabric.t1(plane, spine),
            fabric.uplink(plane, far, spine, true),
            fabric.t0(plane, far),
        ]);
    }
    elements.push(fabric.host_link(plane, to, true));
    elements
}

/// One path with its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Turn {
    /// Sent in the intervals `i` with `i % every == at`.
    every: u32,
    at: u32,
    /// Whether a data class probe goes, too.
    data: bool,
}

/// A probe that is to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Number of its path.
    pub path: u32,
    /// Its class.
    pub class: Class,
    /// Bytes behind its head.
    pub padding: u16,
}

impl Due {
    /// Whether it is as long as a full data packet, in the control class.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.class == Class::Control && self.padding > 0
    }
}

/// What one agent sends.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    paths: Vec<PathSpec>,
    turns: Vec<Turn>,
    stretch: u32,
    config: PlanConfig,
    frames: f64,
}

/// Owners of the uplinks of a T0, one list per T1: rendezvous hashing with bounded load. `alive` are the hosts of the T0
/// that may own one.
#[must_use]
pub fn owners(plane: u8, leaf: u16, spines: u16, alive: &[HostId], redundancy: u8) -> Vec<Vec<HostId>> {
    let count = usize::from(redundancy).min(alive.len());
    let bound = (usize::from(spines) * count).div_ceil(alive.len().max(1));
    let mut load = vec![0usize; alive.len()];
    let place = u64::from(plane) << 32 | u64::from(leaf) << 16;
    let mut all = Vec::with_capacity(usize::from(spines));
    for spine in 0..spines {
        let uplink = mix(place | u64::from(spine) | 1 << 48);
        let mut ranked: Vec<(u64, usize)> =
            alive.iter().enumerate().map(|(at, host)| (mix(uplink ^ mix(u64::from(*host) + 1)), at)).collect();
        // Hosts with room first; among them the highest hash.
        ranked.sort_unstable_by_key(|(hash, at)| (load[*at] >= bound, u64::MAX - *hash));
        let mut chosen: Vec<usize> = ranked.iter().take(count).map(|(_, at)| *at).collect();
        chosen.sort_unstable();
        for &at in &chosen {
            load[at] += 1;
        }
        for at in chosen.clone() {
            if load[at] > bound {
                relieve(&mut all, &mut load, at, bound);
            }
        }
        all.push(chosen);
    }
    all.into_iter().map(|list: Vec<usize>| list.into_iter().map(|at| alive[at]).collect()).collect()
}

/// Passes one earlier uplink of the overloaded host `from` on to a host that has room and does not own it yet.
fn relieve(all: &mut [Vec<usize>], load: &mut [usize], from: usize, bound: usize) {
    for list in all.iter_mut().filter(|list| list.contains(&from)) {
        if let Some(to) = (0..load.len()).find(|to| load[*to] < bound && !list.contains(to)) {
            list.retain(|at| *at != from);
            list.push(to);
            list.sort_unstable();
            load[from] -= 1;
            load[to] += 1;
            return;
        }
    }
}

impl Plan {
    /// The plan of `host` while `alive` (ascending, `host` among them) are the hosts of its T0 that answer.
    #[must_use]
    pub fn new(fabric: &Fabric, host: HostId, alive: &[HostId], config: &PlanConfig) -> Self {
        let variants = u32::from(config.variants.max(1));
        let owned: Vec<Vec<u16>> = (0..fabric.planes).map(|plane| owned(fabric, host, alive, config, plane)).collect();
        let most = owned.iter().map(Vec::len).max().unwrap_or(0);
        let data = 1.0 / f64::from(config.data_every.max(1));
        // T0 probe with its data share, request and reply; each owned uplink costs two frames and a data share.
        let fixed = 1.0 + data + 2.0;
        let room = (f64::from(config.max_frames) - fixed).max(2.0 + data);
        let at_once = ((room / (2.0 + data)) as usize).max(1);
        let stretch = most.div_ceil(at_once).max(1) as u32;
        let mut plan = Self {
            paths: Vec::new(),
            turns: Vec::new(),
            stretch,
            config: *config,
            frames: fixed + (2.0 + data) * most.min(at_once) as f64,
        };
        for (plane, spines) in (0..fabric.planes).zip(&owned) {
            plan.push(plane, Route::T0, Turn { every: 1, at: 0, data: true });
            for (n, &spine) in (0u32..).zip(spines) {
                let at = n % stretch;
                plan.push(plane, Route::T1 { spine }, Turn { every: stretch, at, data: true });
                let triangles = triangles(fabric, plane, host, spine, variants);
                let count = triangles.len() as u32;
                for (k, route) in (0u32..).zip(triangles) {
                    plan.push(plane, route, Turn { every: stretch * count, at: at + stretch * k, data: false });
                }
            }
            let pairs = pairs(fabric, host, alive, plane, variants);
            let count = pairs.len() as u32;
            for (k, route) in (0u32..).zip(pairs) {
                plan.push(plane, route, Turn { every: count, at: k, data: false });
            }
        }
        plan
    }

    fn push(&mut self, plane: u8, route: Route, turn: Turn) {
        self.paths.push(PathSpec { plane, route });
        self.turns.push(turn);
    }

    /// The paths; a path's number is its place.
    #[must_use]
    pub fn paths(&self) -> &[PathSpec] {
        &self.paths
    }

    /// Intervals in which each owned uplink is probed once.
    #[must_use]
    pub fn stretch(&self) -> u32 {
        self.stretch
    }

    /// Control class probes of a path per interval.
    #[must_use]
    pub fn rate(&self, path: usize) -> f64 {
        self.turns.get(path).map_or(0.0, |turn| 1.0 / f64::from(turn.every))
    }

    /// A path is probed in the intervals `i` with `i % every == at`: `(every, at)`.
    #[must_use]
    pub fn turn(&self, path: usize) -> (u32, u32) {
        self.turns.get(path).map_or((1, 0), |turn| (turn.every, turn.at))
    }

    /// What is sent in an interval.
    pub fn due(&self, interval: u64) -> impl Iterator<Item = Due> + '_ {
        let PlanConfig { data_every, data_padding, full_every, full_padding, .. } = self.config;
        (0u32..).zip(&self.turns).flat_map(move |(path, turn)| {
            let now = interval % u64::from(turn.every) == u64::from(turn.at);
            // Paths take turns, so that not all of them send more in one interval.
            let round = interval / u64::from(turn.every) + u64::from(path);
            let data = turn.data && round.is_multiple_of(u64::from(data_every.max(1)));
            let is_full = full_every > 0 && round.is_multiple_of(u64::from(full_every));
            let control = Due { path, class: Class::Control, padding: if is_full { full_padding } else { 0 } };
            let data_probe = Due { path, class: Class::Data, padding: data_padding };
            [(now, control), (now && data, data_probe)].into_iter().filter_map(|(is_due, due)| is_due.then_some(due))
        })
    }

    /// Frames per interval of the busiest port, replies to neighbours included.
    #[must_use]
    pub fn frames_per_interval(&self) -> f64 {
        self.frames
    }

    /// What the busiest port sends, in bits per second on the wire.
    #[must_use]
    pub fn bits_per_second(&self, interval_ns: u64) -> f64 {
        let PlanConfig { data_padding, full_every, full_padding, .. } = self.config;
        let frame = (FRAME_LEN + WIRE_EXTRA) as f64;
        // The T0 and each uplink have a share of probes of the data class beside one and two of the control class, and a request and
        // its reply make two more.
        let data = 1.0 / f64::from(self.config.data_every.max(1));
        let data_frames = data * (1.0 + (self.frames - 3.0 - data) / (2.0 + data));
        let full_frames = if full_every > 0 { (self.frames - data_frames) / f64::from(full_every) } else { 0.0 };
        let padding = data_frames * f64::from(data_padding) + full_frames * f64::from(full_padding);
        (self.frames * frame + padding) * 8.0 * 1e9 / interval_ns as f64
    }
}

/// The T1s whose uplinks `host` owns on `plane`.
fn owned(fabric: &Fabric, host: HostId, alive: &[HostId], config: &PlanConfig, plane: u8) -> Vec<u16> {
    let all = owners(plane, fabric.leaf_of(host), fabric.spines, alive, config.redundancy.max(1));
    (0u16..).zip(all).filter(|(_, owners)| owners.contains(&host)).map(|(spine, _)| spine).collect()
}

/// Triangles that begin with the uplink to `spine`, without repetition.
fn triangles(fabric: &Fabric, plane: u8, host: HostId, spine: u16, variants: u32) -> Vec<Route> {
    if fabric.leaves < 2 || fabric.spines < 2 {
        return Vec::new();
    }
    let leaf = fabric.leaf_of(host);
    // An odd stride that depends on who asks, so that owners of an uplink take different ways.
    let start = mix(u64::from(plane) << 40 | u64::from(host) << 20 | u64::from(spine));
    let mut routes = Vec::new();
    for k in 0..u64::from(variants) {
        let other = 1 + (start.wrapping_add(k) % u64::from(fabric.leaves - 1)) as u16;
        let second = 1 + ((start >> 24).wrapping_add(k) % u64::from(fabric.spines - 1)) as u16;
        let route =
            Route::Triangle { spine, leaf: (leaf + other) % fabric.leaves, back: (spine + second) % fabric.spines };
        if !routes.contains(&route) {
            routes.push(route);
        }
    }
    routes
}

/// Requests to neighbours under the same T0, in a ring; to hosts elsewhere when there is no neighbour.
fn pairs(fabric: &Fabric, host: HostId, alive: &[HostId], plane: u8, variants: u32) -> Vec<Route> {
    let reply_plane = (plane + 1) % fabric.planes;
    let route = |target, spine| Route::Pair { target, reply_plane, spine };
    let at = alive.iter().position(|mate| *mate == host).unwrap_or(0);
    if alive.len() > 1 {
        let count = (alive.len() - 1).min(variants as usize);
        return (1..=count).map(|k| route(alive[(at + k) % alive.len()], 0)).collect();
    }
    let mut routes = Vec::new();
    for k in 0..variants {
        let target = (u32::from(host) + 1 + k % u32::from(fabric.hosts.max(2) - 1)) % u32::from(fabric.hosts);
        let other = route(target as HostId, ((u32::from(host) + k) % u32::from(fabric.spines)) as u16);
        if target as HostId != host && !routes.contains(&other) {
            routes.push(other);
        }
    }
    routes
}

#[cfg(test)]
mod tests;
