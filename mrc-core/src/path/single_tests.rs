//! The policies beside MRC's own on scripted traces: what single paths share here, the rules of each and random
//! event sequences in files of their own.

mod flowbender;
mod flowing;
mod hopper;
mod plb;
mod reps;
mod sequences;

use std::{vec, vec::Vec};

use mrc_wire::{PortNum, Psn, Verdict};

use super::{
    flowbender::FlowBenderState, flowing::FlowingState, hopper::HopperState, plb::PlbState, reps::RepsState,
    rotation::Rotation, *,
};
use crate::rng::Rng;

const US: u64 = 1_000;
/// Base RTT of every script; so th_probe is 12 us, th_cong 20 us, ttl_probe 32 us.
const BASE: u64 = 8 * US;
const ALL: PortMask = PortMask::ALL;

/// A QP with the storage it would lend, and a PSN that counts its packets.
struct Qp {
    set: PathSet,
    slots: Vec<EvSlot>,
    order: Vec<u16>,
    cfg: PathConfig,
    rng: Rng,
    now: Instant,
    psn: u32,
}

impl Qp {
    /// `paths` paths over `planes` planes.
    fn new(selector: Selector, planes: u8, paths: u16, seed: u64) -> Self {
        let mut entries = vec![EvEntry::EMPTY; paths as usize];
        auto_profile(&mut entries, planes, 16, 7).unwrap();
        let cfg = PathConfig { active: paths, backup: 0, base_rtt_ns: BASE, ..PathConfig::default() };
        let mut qp = Self {
            set: PathSet::EMPTY,
            slots: vec![EvSlot::EMPTY; paths as usize],
            order: vec![0; paths as usize],
            cfg,
            rng: Rng::new(seed),
            now: Instant::from_nanos(1_000_000),
            psn: 0,
        };
        qp.set.start(&mut qp.slots, &mut qp.order, &entries, &cfg, selector, ALL, &mut qp.rng).unwrap();
        qp
    }

    fn hopper(paths: u16, tune: impl FnOnce(&mut HopperConfig)) -> Self {
        let mut cfg = HopperConfig::default();
        tune(&mut cfg);
        Self::new(Selector::Hopper(cfg), 2, paths, 3)
    }

    fn flowbender(paths: u16, tune: impl FnOnce(&mut FlowBenderConfig)) -> Self {
        let mut cfg = FlowBenderConfig::default();
        tune(&mut cfg);
        Self::new(Selector::FlowBender(cfg), 2, paths, 3)
    }

    fn plb(paths: u16) -> Self {
        Self::new(Selector::Plb(PlbConfig::default()), 2, paths, 3)
    }

    fn select(&mut self, ports: PortMask) -> Option<EvIndex> {
        let choice = self.set.select(self.now, &mut self.slots, &mut self.order, ports, &self.cfg, &mut self.rng);
        choice.map(|choice| choice.index)
    }

    fn path(&mut self) -> EvIndex {
        self.select(ALL).unwrap()
    }

    fn feed(&mut self, index: EvIndex, what: Feedback) -> Option<Transition> {
        self.set.on_feedback(self.now, &mut self.slots, &mut self.order, index, what, &self.cfg, &mut self.rng)
    }

    /// A packet on `path` measured `rtt_ns`; `behind` more are under way.
    fn rtt_behind(&mut self, path: EvIndex, rtt_ns: u64, behind: u16) {
        self.psn += 1;
        let psn = Psn::new(self.psn);
        assert_eq!(self.feed(path, Feedback::Rtt { rtt_ns, psn, behind }), None);
    }

    fn rtt(&mut self, path: EvIndex, rtt_ns: u64) {
        self.rtt_behind(path, rtt_ns, 0);
    }

    fn sack(&mut self, path: EvIndex, verdict: Verdict) {
        self.feed(path, Feedback::Sack(verdict));
    }

    fn poll(&mut self) -> Option<EvIndex> {
        let choice = self.set.poll_probe(self.now, &mut self.slots, ALL, &self.cfg, false);
        choice.map(|choice| choice.index)
    }

    /// All probes wanted now.
    fn probes(&mut self) -> Vec<EvIndex> {
        std::iter::from_fn(|| self.poll()).collect()
    }

    fn answer(&mut self, path: EvIndex, rtt_ns: u64) {
        self.feed(path, Feedback::ProbeRtt { rtt_ns });
        self.feed(path, Feedback::ProbeAnswer(Verdict::None));
    }

    fn sleep(&mut self, ns: u64) {
        self.now = self.now.after(ns);
    }

    fn port_of(&self, path: EvIndex) -> PortNum {
        self.slots[path.0 as usize].port()
    }
}

//= HOP-012, FLB-005 test
#[test]
fn a_dead_path_is_left_at_once() {
    for mut qp in [Qp::hopper(8, |_| {}), Qp::flowbender(8, |_| {}), Qp::plb(8)] {
        let path = qp.path();
        let change = qp.feed(path, Feedback::Timeout).unwrap();
        assert_eq!(change.to, EvState::AssumedBad);
        let second = qp.path();
        assert_ne!(second, path);
        assert_eq!(qp.path(), second, "and stays there");
        // Denied by the controller.
        qp.set.set_denied(&mut qp.slots, &mut qp.order, second, &mut qp.rng).unwrap();
        let third = qp.path();
        assert!(![path, second].contains(&third));
        // Its port goes down; a busy port is waited for.
        let port = qp.port_of(third);
        assert_eq!(qp.select(ALL.without(port)), None);
        assert_eq!(qp.path(), third);
        qp.set.set_usable_ports(ALL.without(port));
        let fourth = qp.select(ALL.without(port)).unwrap();
        assert_ne!(qp.port_of(fourth), port);
        qp.set.set_usable_ports(ALL);
        assert_eq!(qp.path(), fourth, "a port that returns moves nobody");
        // The first path is probed and comes back to health, not to use.
        qp.sleep(qp.cfg.probe_interval_ns + US);
        assert_eq!(qp.probes(), [path]);
        let change = qp.feed(path, Feedback::ProbeAnswer(Verdict::None)).unwrap();
        assert_eq!(change.to, EvState::Good);
        assert_eq!(qp.path(), fourth);
    }
}

#[test]
fn marks_and_trims_are_for_the_policy_and_leave_the_state_of_the_ev() {
    for mut qp in [Qp::hopper(8, |_| {}), Qp::flowbender(8, |_| {}), Qp::plb(8)] {
        let path = qp.path();
        let passing =
            [Feedback::Sack(Verdict::SkipOnce), Feedback::Trimmed, Feedback::TrimmedLastHop, Feedback::OtherNack];
        for what in passing {
            assert_eq!(qp.feed(path, what), None, "{what:?}");
        }
        assert_eq!(qp.slots[path.0 as usize].state(), EvState::Good);
        let change = qp.feed(path, Feedback::Sack(Verdict::AlwaysSkip)).unwrap();
        assert_eq!(change.to, EvState::AssumedBad);
        assert_ne!(qp.path(), path);
    }
}

#[test]
fn losses_in_a_row_are_forgiven_by_a_good_sack_as_under_spraying() {
    for mut qp in [Qp::hopper(8, |cfg| cfg.move_on_loss = false), Qp::flowbender(8, |_| {})] {
        qp.cfg.loss_streak = 2;
        let loss = Feedback::Loss { trim_nack: true };
        let path = qp.path();
        for _ in 0..4 {
            assert_eq!(qp.feed(path, loss).map(|change| change.to), Some(EvState::Skip));
            qp.sack(path, Verdict::None);
            qp.set.set_good(&mut qp.slots, &mut qp.order, path, &mut qp.rng).unwrap();
        }
        qp.feed(path, loss);
        assert_eq!(qp.feed(path, loss).map(|change| change.to), Some(EvState::AssumedBad), "the second in a row");
    }
}

#[test]
fn with_all_paths_bad_the_last_resort_paces_the_flow() {
    for mut qp in [Qp::hopper(2, |_| {}), Qp::flowbender(2, |_| {})] {
        qp.cfg.ev_min_active = 0;
        for index in [EvIndex(0), EvIndex(1)] {
            qp.feed(index, Feedback::Timeout);
        }
        assert!(qp.select(ALL).is_some());
        assert_eq!(qp.select(ALL), None);
        qp.sleep(BASE);
        assert!(qp.select(ALL).is_some());
    }
}

//= HOP-015, FLB-006 test
#[test]
fn a_flow_begins_where_it_is_told() {
    for entry in 0..8 {
        let first = EvIndex(entry);
        let hopper = Selector::Hopper(HopperConfig { first, ..HopperConfig::default() });
        let flowbender = Selector::FlowBender(FlowBenderConfig { first, ..FlowBenderConfig::default() });
        let plb = Selector::Plb(PlbConfig { first, ..PlbConfig::default() });
        for selector in [hopper, flowbender, plb] {
            let mut qp = Qp::new(selector, 2, 8, 5);
            let path = qp.path();
            assert_eq!(qp.slots[path.0 as usize].entry(), entry);
            assert_eq!(qp.path(), path);
        }
    }
    let mut qp = Qp::hopper(8, |_| {});
    let selector = Selector::Hopper(HopperConfig { first: EvIndex(8), ..HopperConfig::default() });
    let mut entries = vec![EvEntry::EMPTY; 8];
    auto_profile(&mut entries, 2, 16, 7).unwrap();
    let Qp { set, slots, order, cfg, rng, .. } = &mut qp;
    let refused = set.start(slots, order, &entries, cfg, selector, ALL, rng);
    assert_eq!(refused, Err(PathError::PinnedEv(EvIndex(8))));
    assert_eq!(qp.select(ALL), None);
}

/// Every selector refuses knobs that are out of range or contradict each other, and the QP then has no paths.
//= PLB-006, REPS-007, FLJ-007, FLB-008, HOP-017 test
#[test]
fn bad_knobs_are_refused_by_name() {
    let (hopper, bender, plb) = (HopperConfig::DEFAULT, FlowBenderConfig::DEFAULT, PlbConfig::DEFAULT);
    let (reps, flowing) = (RepsConfig::DEFAULT, FlowingJumpingConfig::DEFAULT);
    let cases = [
        (Selector::Hopper(HopperConfig { alpha_percent: 0, ..hopper }), "alpha_percent"),
        (Selector::Hopper(HopperConfig { alpha_percent: 101, ..hopper }), "alpha_percent"),
        (Selector::Hopper(HopperConfig { th_cong_percent: 149, ..hopper }), "th_cong_percent"),
        (Selector::FlowBender(FlowBenderConfig { threshold_permille: 1_001, ..bender }), "threshold_permille"),
        (Selector::FlowBender(FlowBenderConfig { rtt_percent: 100, ..bender }), "rtt_percent"),
        (Selector::Plb(PlbConfig { threshold_permille: 0, ..plb }), "threshold_permille"),
        (Selector::Plb(PlbConfig { rounds: 2, ..plb }), "rounds"),
        (Selector::Plb(PlbConfig { idle_rounds: 0, ..plb }), "idle_rounds"),
        (Selector::Reps(RepsConfig { reuse: 0, ..reps }), "reuse"),
        (Selector::FlowingJumping(FlowingJumpingConfig { paths: 1, ..flowing }), "paths"),
        (Selector::FlowingJumping(FlowingJumpingConfig { paths: 9, ..flowing }), "paths"),
        (Selector::FlowingJumping(FlowingJumpingConfig { demand_packets: 0, ..flowing }), "demand_packets"),
        (Selector::FlowingJumping(FlowingJumpingConfig { bandwidth_mbps: 0, ..flowing }), "bandwidth_mbps"),
    ];
    let mut entries = vec![EvEntry::EMPTY; 8];
    auto_profile(&mut entries, 2, 16, 7).unwrap();
    for (selector, name) in cases {
        let mut qp = Qp::hopper(8, |_| {});
        let Qp { set, slots, order, cfg, rng, .. } = &mut qp;
        let refused = set.start(slots, order, &entries, cfg, selector, ALL, rng).unwrap_err();
        assert!(matches!(refused, PathError::Knob(text) if text.contains(name)), "{selector:?}: {refused:?}");
        assert_eq!(qp.select(ALL), None);
    }
    for selector in [
        Selector::Hopper(hopper),
        Selector::FlowBender(bender),
        Selector::Plb(plb),
        Selector::Reps(reps),
        Selector::FlowingJumping(flowing),
    ] {
        assert_eq!(selector.check(), Ok(()));
        assert_eq!(Qp::new(selector, 2, 8, 1).set.selector(), selector);
    }
}

/// The selectors cost little beside the 14 bytes per EV that every selector has.
#[test]
fn the_state_of_each_selector_is_small() {
    let states = [
        ("rotation (all selectors)", size_of::<Rotation>(), 160),
        ("hopper", size_of::<HopperState>(), 144),
        ("flowbender", size_of::<FlowBenderState>(), 32),
        ("plb", size_of::<PlbState>(), 64),
        ("reps", size_of::<RepsState>(), 48),
        ("flowing and jumping", size_of::<FlowingState>(), 168),
        ("path set of a QP", size_of::<PathSet>(), 336),
    ];
    for (name, bytes, most) in states {
        std::println!("{name:<26} {bytes:>4} bytes per QP");
        assert!(bytes <= most, "{name}: {bytes} bytes, at most {most}");
    }
    // What reports state: 14 bytes for each of 64 EVs, the active set, the selector's own; one path for ever needs none.
    let spray = Selector::Spray.state_bytes(64);
    assert_eq!(spray, 64 * 14 + size_of::<Rotation>());
    assert_eq!(Selector::Plb(PlbConfig::DEFAULT).state_bytes(64), spray + size_of::<PlbState>());
    assert_eq!(Selector::Pinned(EvIndex(0)).state_bytes(64), 0);
}

/// Knobs at their limits and beyond.
//= FLB-008, FLJ-007, HOP-017, PLB-006, REPS-007 test
#[test]
fn knobs_have_their_limits() {
    let (hopper, bender, plb) = (HopperConfig::default(), FlowBenderConfig::default(), PlbConfig::default());
    let (flowing, reps) = (FlowingJumpingConfig::default(), RepsConfig::default());
    for (percent, fine) in [(99, false), (100, true), (101, true)] {
        let probe = hopper.th_probe_percent;
        let cfg = HopperConfig { th_cong_percent: probe * percent / 100, ..hopper };
        assert_eq!(Selector::Hopper(cfg).check().is_ok(), fine, "{percent} % of th_probe");
    }
    for (permille, fine) in [(0, true), (1_000, true), (1_001, false), (u16::MAX, false)] {
        let cfg = FlowBenderConfig { threshold_permille: permille, ..bender };
        assert_eq!(Selector::FlowBender(cfg).check().is_ok(), fine, "FlowBender: {permille}");
        let cfg = PlbConfig { threshold_permille: permille, ..plb };
        assert_eq!(Selector::Plb(cfg).check().is_ok(), fine && permille > 0, "PLB: {permille}");
    }
    for (percent, fine) in [(0, true), (1, false), (100, false), (101, true)] {
        let cfg = FlowBenderConfig { rtt_percent: percent, ..bender };
        assert_eq!(Selector::FlowBender(cfg).check().is_ok(), fine, "{percent} % of the base RTT");
    }
    for (idle_rounds, rounds, fine) in [(0, 3, false), (1, 1, true), (3, 3, true), (4, 3, false)] {
        assert_eq!(Selector::Plb(PlbConfig { idle_rounds, rounds, ..plb }).check().is_ok(), fine);
    }
    for (paths, fine) in [(1, false), (2, true), (8, true), (9, false)] {
        let cfg = FlowingJumpingConfig { paths, ..flowing };
        assert_eq!(Selector::FlowingJumping(cfg).check().is_ok(), fine, "{paths} paths");
    }
    for (demand_packets, fine) in [(0, false), (1, true), (4_096, true), (4_097, false), (u16::MAX, false)] {
        let cfg = FlowingJumpingConfig { demand_packets, ..flowing };
        assert_eq!(Selector::FlowingJumping(cfg).check().is_ok(), fine, "{demand_packets} packets");
    }
    for reuse in 0..3 {
        assert_eq!(Selector::Reps(RepsConfig { reuse, ..reps }).check().is_ok(), reuse > 0);
    }
}

/// What a selector asks for: round trips those that listen to delay, telemetry Flowing & Jumping alone. A single path that works
/// needs no timer.
#[test]
fn selectors_say_what_they_listen_to() {
    for (selector, rtt, telemetry, single) in [
        (Selector::Spray, false, false, false),
        (Selector::Oblivious, false, false, false),
        (Selector::Hopper(HopperConfig::default()), true, false, true),
        (Selector::FlowBender(FlowBenderConfig::default()), true, false, true),
        (Selector::Plb(PlbConfig::default()), true, false, true),
        (Selector::Reps(RepsConfig::default()), false, false, false),
        (Selector::FlowingJumping(FlowingJumpingConfig::default()), true, true, false),
    ] {
        let mut qp = Qp::new(selector, 2, 8, 3);
        assert_eq!((qp.set.wants_rtt(), qp.set.wants_telemetry()), (rtt, telemetry), "{selector:?}");
        assert_eq!(qp.set.is_single_path(), single, "{selector:?}");
        qp.path();
        qp.poll();
        assert_eq!(qp.set.next_timeout() == Instant::FAR, !telemetry, "{selector:?}");
    }
}
