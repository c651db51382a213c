//! Each rule of Hopper at its exact threshold and time.

use super::*;

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
        assert!(qp.set.wants_probe(), "one alternative is enough");
        let probe = qp.probes()[0];
        qp.answer(probe, BASE);
        qp.sleep(age);
        qp.rtt(path, 30 * US);
        assert_eq!(qp.path() != path, moves, "age {age} ns");
    }
}

//= HOP-008 test
#[test]
fn at_the_threshold_the_path_is_not_congested_and_above_it_is() {
    for (rtt, moves) in [(20 * US, false), (20 * US + 16, true)] {
        let mut qp = Qp::hopper(8, |cfg| cfg.switch_delay_percent = 0);
        let path = qp.path();
        qp.rtt(path, 15 * US);
        for probe in qp.probes() {
            qp.answer(probe, BASE);
        }
        qp.rtt(path, rtt);
        assert_eq!(qp.path() != path, moves, "{rtt} ns");
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

//= HOP-008 test
#[test]
fn the_second_best_stays_an_alternative_and_the_path_in_use_is_none() {
    let mut qp = Qp::hopper(8, |cfg| cfg.switch_delay_percent = 0);
    let path = qp.path();
    qp.rtt(path, 30 * US);
    let probes = qp.probes();
    qp.answer(probes[1], 10 * US);
    qp.answer(probes[0], 9 * US);
    assert_eq!(qp.path(), probes[0]);
    // In the next epoch the winner is worse than what the other answered, still within its ttl.
    qp.sleep(30 * US);
    qp.rtt(probes[0], 30 * US);
    assert_eq!(qp.path(), probes[1]);
}

//= HOP-007 test
#[test]
fn a_path_probed_alone_replaces_the_worse_of_two_known_ones() {
    for better in [0, 1] {
        let mut qp =
            Qp::new(Selector::Hopper(HopperConfig { switch_delay_percent: 0, ..HopperConfig::default() }), 1, 4, 3);
        let path = qp.path();
        qp.rtt(path, 15 * US);
        let known = qp.probes();
        qp.answer(known[better], 8 * US);
        qp.answer(known[1 - better], 11 * US);
        // Only one path is left that was not probed lately.
        qp.sleep(15 * US);
        qp.rtt(path, 15 * US);
        let alone = qp.probes();
        assert_eq!(alone.len(), 1);
        qp.answer(alone[0], 30 * US);
        qp.sleep(15 * US);
        qp.rtt(path, 40 * US);
        assert_eq!(qp.path(), known[better]);
    }
}

//= HOP-012 test
#[test]
fn an_alternative_that_cannot_be_used_does_not_win() {
    let mut cut = 0;
    for seed in 0..16 {
        for by_port in [false, true] {
            let cfg = HopperConfig { switch_delay_percent: 0, ..HopperConfig::default() };
            let mut qp = Qp::new(Selector::Hopper(cfg), 2, 8, seed);
            let path = qp.path();
            qp.rtt(path, 15 * US);
            let probes = qp.probes();
            qp.answer(probes[0], 8 * US);
            qp.answer(probes[1], 9 * US);
            let port = qp.port_of(probes[0]);
            if !by_port {
                qp.feed(probes[0], Feedback::Timeout);
            } else if qp.port_of(path) != port && qp.port_of(probes[1]) != port {
                qp.set.set_usable_ports(ALL.without(port));
                cut += 1;
            } else {
                continue;
            }
            qp.rtt(path, 30 * US);
            assert_eq!(qp.path(), probes[1], "seed {seed}, port cut: {by_port}");
        }
    }
    assert!(cut > 0, "no seed put the better path on a plane of its own");
}

//= HOP-014 test
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

//= HOP-014 test
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

//= HOP-008, HOP-014 test
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

//= HOP-016 test
#[test]
fn a_mark_starts_the_probes_when_told() {
    for (probe_on_mark, asked) in [(false, 0), (true, 2)] {
        let mut qp = Qp::hopper(8, |cfg| cfg.probe_on_mark = probe_on_mark);
        let path = qp.path();
        qp.rtt(path, BASE);
        qp.sack(path, Verdict::None);
        assert!(qp.probes().is_empty());
        qp.sack(path, Verdict::SkipOnce);
        let probed = qp.probes();
        assert_eq!(probed.len(), asked);
        qp.sack(path, Verdict::SkipOnce);
        assert!(qp.probes().is_empty(), "once per epoch");
        // The answers are there when the round trip grows: no further wait.
        probed.iter().for_each(|&probe| qp.answer(probe, BASE));
        assert_eq!(qp.path(), path);
        qp.rtt(path, 20 * US + 1);
        assert_eq!(qp.set.next_timeout() != Instant::FAR, probe_on_mark, "a switch is under way");
        qp.sleep(200 * US);
        assert_eq!(qp.path() != path, probe_on_mark);
    }
}
