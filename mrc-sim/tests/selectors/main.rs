//! The path selectors side by side: a flow whose path is slowed on the way, in virtual time.

mod experiment;

use experiment::{Outcome, Setup, US, all, base_rtt_ns, run};
use mrc_core::Rng;
use mrc_core::path::{EvIndex, HopperConfig, Selector};
use mrc_sim::LinkSpec;

fn print(name: &str, setup: &Setup, outcome: &Outcome) {
    let step = setup.run / setup.samples as u64;
    for (nth, (row, bytes)) in outcome.paths.iter().zip(&outcome.goodput).enumerate() {
        let cells: Vec<String> = row.iter().map(|bytes| format!("{:>6}", bytes / 1024)).collect();
        let gbps = *bytes as f64 * 8.0 / step as f64;
        println!("{name:<10} {:>6} {gbps:>6.1}  {}", step * nth as u64 / US, cells.join(" "));
    }
}

/// The first probe from path 0 and the switch away from it.
fn escape(outcome: &Outcome) -> Option<(u64, u64)> {
    let probe = outcome.probes.iter().find(|&&(_, path)| path == 0)?.0;
    let switch = outcome.switches.iter().find(|&&(_, from, _)| from == 0)?.0;
    Some((probe, switch))
}

#[test]
fn five_selectors_meet_a_path_that_is_slowed() {
    let setup = Setup::DEFAULT;
    println!("base RTT {} ns; path 0 at 10 instead of 100 Gb/s from 200 us on", base_rtt_ns());
    println!("{:<11} {:>6} {:>6}  KiB sent on path 0 .. 7", "selector", "us", "Gb/s");
    let outcomes = all().map(|(name, selector)| {
        let outcome = run(selector, &setup);
        print(name, &setup, &outcome);
        outcome
    });
    let [spray, hopper, flowbender, oblivious, pinned] = &outcomes;
    let (before, after) = (0..2, 5..10);
    for outcome in &outcomes {
        assert!(outcome.gbps(&setup, before.clone()) > 80.0, "all are well before");
    }
    // The pinned flow has the rate of its path, all others do better; who listens does better than who does not.
    assert!(pinned.gbps(&setup, after.clone()) < 10.0);
    assert!(oblivious.gbps(&setup, after.clone()) > 60.0);
    assert!(spray.gbps(&setup, after.clone()) > oblivious.gbps(&setup, after.clone()));
    assert!(hopper.gbps(&setup, after.clone()) > 85.0 && flowbender.gbps(&setup, after.clone()) > 85.0);
    // Both single-path policies leave once and for all; Hopper within ten round trips of its first probe.
    for outcome in [hopper, flowbender] {
        assert_eq!(outcome.switches.len(), 1, "{:?}", outcome.switches);
        assert_eq!(outcome.on_slow(after.clone()), 0.0);
    }
    let (probe, switch) = escape(hopper).unwrap();
    println!("hopper: probes at {probe} ns, leaves at {switch} ns: {:.1} RTT", rtts(switch - probe));
    assert!(probe > setup.slow_at && switch - probe <= 10 * base_rtt_ns());
    let after_slow = rtts(flowbender.switches[0].0 - setup.slow_at);
    println!("flowbender: leaves {after_slow:.1} RTT after the path is slowed");
    for (name, outcome) in all().iter().map(|(name, _)| name).zip(&outcomes) {
        println!("{name:<11} {:>3} packets declared lost", outcome.lost);
    }
}

fn rtts(ns: u64) -> f64 {
    ns as f64 / base_rtt_ns() as f64
}

/// The pause before a switch costs time and saves order: packets overtaken by more than the window are sent again.
//= HOP-011 test
#[test]
fn a_longer_pause_loses_less_to_reordering() {
    let mut last: Option<(u64, u64)> = None;
    for max_percent in [0, 200, 400, 1000] {
        let first = EvIndex(0);
        let cfg = HopperConfig { first, switch_delay_max_percent: max_percent, ..HopperConfig::DEFAULT };
        let outcome = run(Selector::Hopper(cfg), &Setup::DEFAULT);
        let (probe, switch) = escape(&outcome).unwrap();
        println!("pause <= {max_percent:>4} %: {:>4.1} RTT, {:>2} declared lost", rtts(switch - probe), outcome.lost);
        if let Some((stay, lost)) = last {
            assert!(switch - probe > stay && outcome.lost < lost, "{max_percent} %");
        }
        last = Some((switch - probe, outcome.lost));
    }
}

/// However slow the path becomes (100 to 2 ... 30 Gb/s), and whenever. The others stay as good as ever, so that Hopper has
/// no reason to come back.
#[test]
fn hopper_leaves_any_slow_path_within_ten_round_trips_and_stays_off() {
    let mut rng = Rng::new(0x1107_0401);
    let mut worst = 0;
    for seed in 0..64 {
        let slow = LinkSpec::new(2 + u64::from(rng.below(29)), 500);
        let slow_at = 50 * US + u64::from(rng.below(100_000));
        let setup = Setup { seed, slow_at, slow, run: 900 * US, samples: 9 };
        let (_, selector) = all()[1];
        let outcome = run(selector, &setup);
        let Some((probe, switch)) = escape(&outcome) else { panic!("seed {seed}, {slow:?}: never left") };
        assert!(probe > slow_at, "seed {seed}: probed without need");
        assert!(switch - probe <= 10 * base_rtt_ns(), "seed {seed}, {slow:?}: {} ns", switch - probe);
        assert!(outcome.switches.iter().all(|&(_, _, to)| to != 0), "seed {seed}, {slow:?}: {:?}", outcome.switches);
        // Once the queue on the old path, a window at its slow rate, has drained.
        assert_eq!(outcome.on_slow(7..9), 0.0, "seed {seed}, {slow:?}");
        worst = worst.max(switch - probe);
    }
    println!("64 runs, longest stay after the first probe: {:.1} RTT", rtts(worst));
}
