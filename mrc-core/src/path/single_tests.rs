//! The single-path policies on scripted traces: every decision at its exact time, then random event sequences.

use std::{vec, vec::Vec};

use mrc_wire::{PortNum, Psn, Verdict};
use proptest::prelude::*;

use super::*;
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

// Hopper.

//= HOP-002 test
#[test]
fn the_defaults_are_those_of_the_paper() {
    let cfg = HopperConfig::default();
    assert_eq!((cfg.alpha_percent, cfg.th_probe_percent, cfg.th_cong_percent), (100, 150, 250));
    assert_eq!((cfg.ttl_probe_percent, cfg.delta_rtt_percent), (400, 80));
    assert_eq!(PathSet::EMPTY.selector(), Selector::Spray);
    assert_eq!(Qp::hopper(4, |_| {}).set.selector(), Selector::Hopper(cfg));
}

//= HOP-001, HOP-005 test
#[test]
fn below_the_threshold_nothing_is_probed_and_nothing_moves() {
    let mut qp = Qp::hopper(8, |_| {});
    let path = qp.path();
    for rtt in [8, 9, 11, 12, 12, 8] {
        qp.rtt(path, rtt * US);
        qp.sleep(9 * US);
        assert!(!qp.set.wants_probe() && qp.probes().is_empty(), "{rtt} us");
        assert_eq!(qp.path(), path);
    }
    // Between the thresholds: probes, but no switch whatever they say.
    qp.rtt(path, 12 * US + 1);
    let probed = qp.probes();
    assert_eq!(probed.len(), 2);
    for &probe in &probed {
        qp.answer(probe, BASE);
    }
    qp.rtt(path, 20 * US);
    assert_eq!(qp.path(), path);
}

//= HOP-003, HOP-005, HOP-006 test
#[test]
fn two_other_paths_are_probed_once_per_epoch() {
    let mut qp = Qp::hopper(8, |_| {});
    let path = qp.path();
    qp.rtt(path, 15 * US);
    assert!(qp.set.wants_probe());
    let first = qp.probes();
    assert_eq!(first.len(), 2);
    assert!(first[0] != first[1] && !first.contains(&path));
    for &probe in &first {
        qp.answer(probe, BASE);
    }
    // The epoch lasts the 15 us of its first sample.
    qp.sleep(15 * US - 1);
    qp.rtt(path, 19 * US);
    assert!(qp.probes().is_empty());
    qp.sleep(1);
    qp.rtt(path, 15 * US);
    let second = qp.probes();
    assert_eq!(second.len(), 2);
    assert!(second.iter().all(|probe| !first.contains(probe) && *probe != path));
}

//= HOP-007 test
#[test]
fn a_probed_path_rests_for_its_ttl() {
    let mut qp = Qp::new(Selector::Hopper(HopperConfig::default()), 1, 3, 3);
    let path = qp.path();
    qp.rtt(path, 15 * US);
    let mut first = qp.probes();
    assert_eq!(first.len(), 2, "all there are");
    for step in [15, 15] {
        qp.sleep(step * US);
        qp.rtt(path, 15 * US);
        assert!(qp.probes().is_empty(), "still resting");
    }
    // 32 us, rounded up to the unit of 1.024 us.
    qp.sleep(15 * US);
    qp.rtt(path, 15 * US);
    let mut again = qp.probes();
    first.sort();
    again.sort();
    assert_eq!(again, first);
}

//= HOP-007 test
#[test]
fn an_answer_is_believed_for_its_ttl() {
    for (age, moves) in [(32 * US, true), (32 * US + 32, false)] {
        let mut qp = Qp::hopper(2, |cfg| cfg.switch_delay_percent = 0);
        let path = qp.path();
        qp.rtt(path, 13 * US);
        let probe = qp.probes()[0];
        qp.answer(probe, BASE);
        qp.sleep(age);
        qp.rtt(path, 30 * US);
        assert_eq!(qp.path() != path, moves, "age {age} ns");
    }
}

//= HOP-008, HOP-009 test
#[test]
fn the_better_alternative_wins_only_by_the_margin() {
    // 80 % of 30 us is 24 us.
    for (answers, winner) in
        [([23_999, 30_000], Some(0)), ([24_000, 25_000], None), ([9_000, 8_000], Some(1)), ([40_000, 50_000], None)]
    {
        let mut qp = Qp::hopper(8, |cfg| cfg.switch_delay_percent = 0);
        let path = qp.path();
        qp.rtt(path, 15 * US);
        let probes = qp.probes();
        for (&probe, rtt) in probes.iter().zip(answers) {
            qp.answer(probe, rtt);
        }
        qp.sleep(15 * US);
        qp.rtt(path, 30 * US);
        assert_eq!(qp.path(), winner.map_or(path, |nth: usize| probes[nth]), "{answers:?}");
    }
}

//= HOP-008 test
#[test]
fn an_epoch_compares_once_and_switches_once() {
    let mut qp = Qp::hopper(8, |cfg| cfg.switch_delay_percent = 0);
    let path = qp.path();
    qp.rtt(path, 30 * US);
    let probes = qp.probes();
    qp.answer(probes[0], 29 * US);
    qp.answer(probes[1], 29 * US);
    qp.sleep(US);
    qp.rtt(path, 30 * US);
    assert_eq!(qp.path(), path, "no winner");
    // Much later in the same epoch the margin would be met; the comparison is spent.
    qp.sleep(28 * US);
    qp.rtt(path, 90 * US);
    assert_eq!(qp.path(), path);
    // The next epoch compares what is still known, and switches.
    qp.sleep(US);
    qp.rtt(path, 90 * US);
    let second = qp.path();
    assert!(probes.contains(&second));
    // The new path looks worse still: no second switch before this epoch of 90 us is over.
    let more = qp.probes();
    assert!(more.is_empty(), "the sample that switched did not probe as well: {more:?}");
    let other = probes.iter().copied().find(|&probe| probe != second).unwrap();
    qp.sleep(10 * US);
    qp.rtt(second, 500 * US);
    let fresh = qp.probes();
    assert_eq!(fresh.len(), 2);
    for probe in fresh.iter().copied().chain([other]) {
        qp.answer(probe, BASE);
    }
    qp.sleep(79 * US);
    qp.rtt(second, 500 * US);
    assert_eq!(qp.path(), second);
    qp.answer(fresh[0], BASE);
    qp.sleep(US);
    qp.rtt(second, 500 * US);
    assert_eq!(qp.path(), second, "the answers of this epoch are older than their ttl");
}

#[test]
fn a_winner_waits_for_probes_that_could_still_beat_it() {
    let mut qp = Qp::hopper(8, |cfg| cfg.switch_delay_percent = 0);
    let path = qp.path();
    qp.rtt(path, 40 * US);
    let probes = qp.probes();
    qp.sleep(9 * US);
    qp.answer(probes[0], 10 * US);
    qp.rtt(path, 40 * US);
    assert_eq!(qp.path(), path, "the other probe is 9 us old: it may still be the faster path");
    qp.sleep(US);
    qp.rtt(path, 40 * US);
    assert_eq!(qp.path(), probes[0], "at 10 us it no longer can");
    // A probe that is given up is not waited for.
    let mut qp = Qp::hopper(8, |cfg| cfg.switch_delay_percent = 0);
    let path = qp.path();
    qp.rtt(path, 40 * US);
    let probes = qp.probes();
    qp.answer(probes[0], 10 * US);
    qp.feed(probes[1], Feedback::ProbeLost);
    qp.rtt(path, 40 * US);
    assert_eq!(qp.path(), probes[0]);
}

#[test]
fn an_epoch_waits_for_probes_that_can_still_show_a_faster_path() {
    let mut qp = Qp::hopper(8, |_| {});
    let path = qp.path();
    qp.rtt(path, 13 * US);
    assert_eq!(qp.probes().len(), 2);
    // The second epoch begins with the probes of the first one under way for 13 us; they may still beat 16 us.
    qp.sleep(13 * US);
    qp.rtt(path, 16 * US);
    assert!(!qp.set.wants_probe());
    qp.sleep(4 * US);
    qp.rtt(path, 16 * US);
    assert_eq!(qp.probes().len(), 2, "at 17 us they cannot");
}

//= HOP-008 test
#[test]
fn an_answer_decides_without_waiting_for_the_next_sample() {
    let mut qp = Qp::hopper(8, |cfg| cfg.switch_delay_percent = 0);
    let path = qp.path();
    qp.rtt(path, 50 * US);
    let probes = qp.probes();
    qp.sleep(10 * US);
    qp.answer(probes[0], 9 * US);
    assert_eq!(qp.path(), probes[0], "the other probe is as old and cannot be faster");
    // Below th_cong an answer decides nothing.
    let mut qp = Qp::hopper(8, |cfg| cfg.switch_delay_percent = 0);
    let path = qp.path();
    qp.rtt(path, 20 * US);
    for probe in qp.probes() {
        qp.answer(probe, US);
    }
    assert_eq!(qp.path(), path);
}

//= HOP-011 test
#[test]
fn the_switch_pauses_for_the_difference_of_the_round_trips() {
    let mut qp = Qp::hopper(8, |_| {});
    let path = qp.path();
    qp.rtt(path, 15 * US);
    let probes = qp.probes();
    qp.answer(probes[0], 12 * US);
    qp.answer(probes[1], 9 * US);
    qp.sleep(15 * US);
    // One sample makes no line: the difference of 30 and 9 us.
    qp.rtt(path, 30 * US);
    let resume = qp.now.after(21 * US);
    assert_eq!(qp.set.next_timeout(), resume);
    assert_eq!(qp.select(ALL), None);
    qp.rtt(path, 90 * US);
    assert!(qp.probes().is_empty(), "nothing is measured or probed while the switch is pending");
    qp.sleep(21 * US - 1);
    assert_eq!(qp.select(ALL), None);
    qp.sleep(1);
    assert_eq!(qp.path(), probes[1]);
    assert_eq!(qp.set.next_timeout(), Instant::FAR);
}

#[test]
fn a_pause_that_nobody_ends_does_not_keep_the_timer_busy() {
    let mut qp = Qp::hopper(8, |_| {});
    let path = qp.path();
    qp.rtt(path, 30 * US);
    let probes = qp.probes();
    qp.answer(probes[0], 9 * US);
    qp.answer(probes[1], 9 * US);
    qp.rtt(path, 30 * US);
    qp.sleep(21 * US);
    assert_eq!(qp.set.next_timeout(), qp.now);
    assert_eq!(qp.poll(), None);
    assert_eq!(qp.set.next_timeout(), Instant::FAR);
    assert!(probes.contains(&qp.path()));
}

//= HOP-010, HOP-011 test
#[test]
fn the_pause_foresees_the_last_packet_in_flight() {
    let setup = |tune: fn(&mut HopperConfig)| {
        let mut qp = Qp::hopper(8, tune);
        let path = qp.path();
        // 1.6 us more per packet, four packets behind each; only the last one is above the threshold.
        for rtt in [15_200, 16_800, 18_400, 20_000] {
            qp.rtt_behind(path, rtt, 4);
        }
        for probe in qp.probes() {
            qp.answer(probe, 8 * US);
        }
        assert_eq!(qp.path(), path);
        qp.rtt_behind(path, 21_600, 4);
        let pause = qp.set.next_timeout().since(qp.now);
        (pause, qp.select(ALL))
    };
    // 21.6 + 4 x 1.6 - 8 = 20 us.
    assert_eq!(setup(|_| {}), (20_000, None));
    assert_eq!(setup(|cfg| cfg.switch_delay_percent = 50), (10_000, None));
    assert_eq!(setup(|cfg| cfg.switch_delay_max_percent = 200), (16_000, None));
}

//= HOP-004 test
#[test]
fn the_average_weighs_new_samples_by_alpha() {
    let mut qp = Qp::hopper(8, |cfg| cfg.alpha_percent = 50);
    let path = qp.path();
    // Averages: 8, 12, 14 us; the threshold is 12 us.
    for (nth, probes) in [(0, false), (1, false), (2, true)] {
        qp.rtt(path, 16 * US);
        assert_eq!(qp.set.wants_probe(), probes, "sample {nth}");
    }
    // A new epoch starts from zero.
    qp.probes();
    qp.sleep(16 * US);
    qp.rtt(path, 24 * US);
    assert!(!qp.set.wants_probe());
}

#[test]
fn samples_of_other_paths_do_not_count() {
    let mut qp = Qp::hopper(8, |_| {});
    let path = qp.path();
    let other = EvIndex((path.0 + 1) % 8);
    qp.rtt(other, 900 * US);
    assert!(!qp.set.wants_probe());
    assert_eq!(qp.path(), path);
}

//= HOP-012, FLB-005 test
#[test]
fn a_dead_path_is_left_at_once() {
    for mut qp in [Qp::hopper(8, |_| {}), Qp::flowbender(8, |_| {})] {
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

#[test]
fn a_path_that_dies_during_the_pause_is_not_taken() {
    let mut qp = Qp::hopper(8, |_| {});
    let path = qp.path();
    qp.rtt(path, 30 * US);
    let probes = qp.probes();
    for &probe in &probes {
        qp.answer(probe, 9 * US);
    }
    qp.rtt(path, 30 * US);
    for &probe in &probes {
        qp.feed(probe, Feedback::Timeout);
    }
    qp.sleep(21 * US);
    assert!(!probes.contains(&qp.path()));
}

//= HOP-013 test
#[test]
fn a_loss_moves_hopper_once_per_epoch() {
    let mut qp = Qp::hopper(8, |_| {});
    let loss = Feedback::Loss { trim_nack: false };
    let path = qp.path();
    qp.rtt(path, 9 * US);
    qp.feed(path, loss);
    let second = qp.path();
    assert_ne!(second, path);
    // Packets of the old path are lost later; those of the new one in the same epoch do not move it again.
    qp.feed(path, loss);
    qp.feed(second, loss);
    assert_eq!(qp.path(), second);
    qp.sleep(9 * US);
    qp.feed(second, loss);
    assert_ne!(qp.path(), second);
    let mut calm = Qp::hopper(8, |cfg| cfg.move_on_loss = false);
    let path = calm.path();
    calm.feed(path, loss);
    assert_eq!(calm.path(), path);
}

#[test]
fn a_flow_begins_where_it_is_told() {
    for entry in 0..8 {
        let first = EvIndex(entry);
        let hopper = Selector::Hopper(HopperConfig { first, ..HopperConfig::default() });
        let flowbender = Selector::FlowBender(FlowBenderConfig { first, ..FlowBenderConfig::default() });
        for selector in [hopper, flowbender] {
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

// FlowBender.

/// `n` acknowledgements, the first `marked` of them marked.
fn epoch(qp: &mut Qp, path: EvIndex, n: usize, marked: usize) {
    for nth in 0..n {
        qp.sack(path, if nth < marked { Verdict::SkipOnce } else { Verdict::None });
    }
    qp.sleep(BASE);
}

//= FLB-001, FLB-002, FLB-003 test
#[test]
fn flowbender_moves_above_five_percent() {
    for (marked, moves) in [(0, false), (5, false), (6, true), (100, true)] {
        let mut qp = Qp::flowbender(8, |_| {});
        let path = qp.path();
        epoch(&mut qp, path, 100, marked);
        assert_eq!(qp.path(), path, "the epoch is judged by the first acknowledgement after it");
        qp.sack(path, Verdict::None);
        assert_eq!(qp.path() != path, moves, "{marked} %");
    }
}

//= FLB-003 test
#[test]
fn flowbender_counts_epochs_in_a_row() {
    let mut qp = Qp::flowbender(8, |cfg| cfg.epochs = 2);
    let path = qp.path();
    for marked in [50, 0, 50] {
        epoch(&mut qp, path, 100, marked);
    }
    qp.sack(path, Verdict::None);
    assert_eq!(qp.path(), path, "interrupted");
    for _ in 0..2 {
        epoch(&mut qp, path, 100, 50);
    }
    qp.sack(path, Verdict::None);
    assert_ne!(qp.path(), path);
}

//= FLB-001 test
#[test]
fn losses_and_trims_count_and_the_last_hop_does_not() {
    for (what, moves) in [
        (Feedback::Trimmed, true),
        (Feedback::Loss { trim_nack: false }, true),
        (Feedback::TrimmedLastHop, false),
        (Feedback::OtherNack, false),
    ] {
        let mut qp = Qp::flowbender(8, |_| {});
        let path = qp.path();
        qp.sack(path, Verdict::None);
        qp.feed(path, what);
        qp.sleep(BASE);
        qp.sack(path, Verdict::None);
        assert_eq!(qp.path() != path, moves, "{what:?}");
    }
}

#[test]
fn an_epoch_of_flowbender_lasts_the_measured_round_trip() {
    let mut qp = Qp::flowbender(8, |_| {});
    let path = qp.path();
    qp.rtt(path, 50 * US);
    qp.sack(path, Verdict::SkipOnce);
    qp.sleep(50 * US - 1);
    qp.sack(path, Verdict::None);
    assert_eq!(qp.path(), path);
    qp.sleep(1);
    qp.sack(path, Verdict::None);
    assert_ne!(qp.path(), path);
}

//= FLB-004 test
#[test]
fn a_timeout_moves_flowbender_even_from_an_ev_that_must_stay_active() {
    // `ev_min_active` keeps the EV healthy; the flow leaves it all the same.
    let mut qp = Qp::flowbender(4, |_| {});
    qp.cfg.ev_min_active = 4;
    let path = qp.path();
    qp.feed(path, Feedback::Timeout);
    assert!(qp.slots[path.0 as usize].is_healthy());
    assert_ne!(qp.path(), path);
}

#[test]
fn marks_of_the_old_path_do_not_follow_the_flow() {
    let mut qp = Qp::flowbender(8, |_| {});
    let path = qp.path();
    epoch(&mut qp, path, 10, 10);
    qp.sack(path, Verdict::None);
    let second = qp.path();
    for _ in 0..50 {
        qp.sack(path, Verdict::SkipOnce);
        qp.sleep(US);
    }
    qp.sack(second, Verdict::None);
    assert_eq!(qp.path(), second);
}

// All of them.

/// The single-path selectors and the pinned one cost little beside the 16 bytes per EV that every selector has.
#[test]
fn the_state_of_each_selector_is_small() {
    let states = [
        ("rotation (all selectors)", size_of::<Rotation>(), 160),
        ("hopper", size_of::<HopperState>(), 144),
        ("flowbender", size_of::<FlowBenderState>(), 32),
        ("path set of a QP", size_of::<PathSet>(), 320),
    ];
    for (name, bytes, most) in states {
        std::println!("{name:<26} {bytes:>4} bytes per QP");
        assert!(bytes <= most, "{name}: {bytes} bytes, at most {most}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Select(u8),
    Feed(u16, Feedback),
    Poll,
    Sleep(u64),
    Deny(u16),
    Allow(u16),
    Usable(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let feedback = prop_oneof![
        4 => (0u64..200_000, 0u32..5_000, 0u16..300)
            .prop_map(|(rtt_ns, psn, behind)| Feedback::Rtt { rtt_ns, psn: Psn::new(psn), behind }),
        2 => (0u64..200_000).prop_map(|rtt_ns| Feedback::ProbeRtt { rtt_ns }),
        3 => prop_oneof![Just(Verdict::None), Just(Verdict::SkipOnce), Just(Verdict::AlwaysSkip)].prop_map(Feedback::Sack),
        1 => Just(Feedback::Timeout),
        1 => any::<bool>().prop_map(|trim_nack| Feedback::Loss { trim_nack }),
        1 => Just(Feedback::ProbeAnswer(Verdict::None)),
        1 => Just(Feedback::ProbeLost),
        1 => Just(Feedback::Trimmed),
    ];
    prop_oneof![
        4 => any::<u8>().prop_map(Step::Select),
        8 => (0u16..14, feedback).prop_map(|(index, what)| Step::Feed(index, what)),
        3 => Just(Step::Poll),
        4 => (0u64..40_000).prop_map(Step::Sleep),
        1 => (0u16..12).prop_map(Step::Deny),
        1 => (0u16..12).prop_map(Step::Allow),
        1 => any::<u8>().prop_map(Step::Usable),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens: packets leave on given ports; the path changes for a reason only; probes go to paths that may be
    /// probed and to no more than two in an epoch; a pause ends by itself.
    #[test]
    fn any_sequence_keeps_to_one_path(
        seed in any::<u64>(),
        flowbender in any::<bool>(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let selector = if flowbender {
            Selector::FlowBender(FlowBenderConfig::default())
        } else {
            Selector::Hopper(HopperConfig::default())
        };
        let mut qp = Qp::new(selector, 3, 12, seed);
        qp.cfg.ev_min_active = 0;
        let mut usable = ALL;
        let mut last: Option<EvIndex> = None;
        let mut reason = true;
        for step in steps {
            match step {
                Step::Select(mask) => {
                    let mut ports = PortMask::NONE;
                    for plane in 0..3u8 {
                        let port = PortNum::from_plane(plane);
                        if mask & 1 << plane != 0 && usable.contains(port) {
                            ports = ports.with(port);
                        }
                    }
                    let choice = qp.select(ports);
                    if let Some(index) = choice {
                        let slot = qp.slots[index.0 as usize];
                        prop_assert!(ports.contains(slot.port()) && slot.state() != EvState::Denied);
                        if slot.is_healthy() {
                            if let Some(last) = last.filter(|&last| last != index) {
                                let old = qp.slots[last.0 as usize];
                                let lost = !old.is_healthy() || !usable.contains(old.port());
                                prop_assert!(reason || lost, "moved from {last:?} to {index:?} without a reason");
                            }
                            (last, reason) = (Some(index), false);
                        }
                    } else if qp.set.next_timeout() != Instant::FAR {
                        prop_assert!(qp.set.next_timeout().since(qp.now) <= 1_000_000_000);
                    }
                }
                Step::Feed(index, what) => {
                    // Only delay, marks, losses and timeouts may move a flow whose path is healthy.
                    reason |= !matches!(what, Feedback::ProbeAnswer(_) | Feedback::ProbeLost | Feedback::ProbeRtt { .. });
                    qp.feed(EvIndex(index), what);
                }
                Step::Poll => {
                    let asked = qp.probes();
                    let good = asked.iter().filter(|&&i| qp.slots[i.0 as usize].is_healthy()).count();
                    prop_assert!(good <= 2 && (good == 0 || !flowbender), "{asked:?}");
                    prop_assert!(!qp.set.wants_probe());
                }
                Step::Sleep(ns) => qp.sleep(ns),
                Step::Deny(index) => {
                    qp.set.set_denied(&mut qp.slots, &mut qp.order, EvIndex(index), &mut qp.rng).unwrap();
                }
                Step::Allow(index) => {
                    qp.set.set_good(&mut qp.slots, &mut qp.order, EvIndex(index), &mut qp.rng).unwrap();
                }
                Step::Usable(mask) => {
                    usable = PortMask::NONE;
                    for plane in (0..3u8).filter(|plane| mask & 1 << plane != 0) {
                        usable = usable.with(PortNum::from_plane(plane));
                    }
                    qp.set.set_usable_ports(usable);
                }
            }
        }
        // With everything allowed, up and a while later, a packet leaves.
        qp.set.set_usable_ports(ALL);
        qp.sleep(1_000_000);
        prop_assert!(qp.select(ALL).is_some());
    }
}
