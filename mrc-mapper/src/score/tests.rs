use super::*;

#[test]
fn ours_finds_what_is_faulty_in_time_and_nothing_else() {
    let report = run(&ScoreConfig { faults: 40, healthy_ms: 120_000, seed: 7 }, |_| true);
    assert!(report.passed(), "{report:?}");
    let (name, ours) = report.algorithms[0];
    assert_eq!((name, report.algorithms.len()), ("ours", 5));
    assert!(report.algorithms.iter().all(|(_, other)| other.cases == ours.cases && other.faulty == ours.faulty));
    assert!(report.algorithms.iter().skip(1).all(|(_, other)| other.exact < ours.exact), "{:?}", report.algorithms);
    let (found, in_time) = report.times.values().fold((0, 0), |sum, t| (sum.0 + t.components, sum.1 + t.in_time));
    assert!(found > 35 && in_time * 100 >= found * 97, "{in_time} of {found}");
    let healthy = report.healthy.unwrap();
    assert!(healthy.lost > 100 && healthy.reports == 0, "{healthy:?}");
}

#[test]
fn the_same_seed_gives_the_same_report() {
    let of = |seed| format!("{:?}", run(&ScoreConfig { faults: 6, healthy_ms: 5000, seed }, |_| true));
    assert_eq!(of(3), of(3));
    assert_ne!(of(3), of(4));
}

#[test]
fn a_run_that_is_ended_reports_what_was_done() {
    let cases = |report: &Report| {
        let apart = report.not_identifiable.values().map(|tally| tally.cases).sum::<u32>();
        report.algorithms[0].1.cases + apart
    };
    let all = ScoreConfig { faults: 5, healthy_ms: 20_000, seed: 3 };
    let some = run(&all, |done| done < 2);
    assert_eq!((cases(&some), some.healthy.is_none()), (2, true));
    let two = run(&ScoreConfig { faults: 2, healthy_ms: 0, ..all }, |_| true);
    assert_eq!(format!("{some:?}"), format!("{two:?}"));
    // The second block of the time without a fault is the last.
    let mut blocks = 0;
    let some = run(&ScoreConfig { faults: 0, ..all }, |_| {
        blocks += 1;
        blocks < 2
    });
    let block = BLOCK as u64;
    let two = run(&ScoreConfig { faults: 0, healthy_ms: 2 * block, ..all }, |_| true);
    assert_eq!((blocks, some.healthy.unwrap().ms, format!("{some:?}")), (2, 2 * block, format!("{two:?}")));
}

#[test]
fn a_tally_counts_places_apart_from_directions() {
    let one = |name: &str| -> Finding {
        Finding { component: name.parse().unwrap(), loss: 1.0, evidence: 1.0, instead: Vec::new() }
    };
    let truth = BTreeSet::from([one("p0-t0a-t1b:up").component, one("p1-hC").component]);
    let mut tally = Tally::default();
    tally.add(&truth, &[one("p0-t0a-t1b"), one("p1-hC"), one("hD")]);
    assert_eq!((tally.reported, tally.right, tally.right_place, tally.exact, tally.exact_place), (2, 1, 2, 0, 1));
    tally.add(&truth, &[one("p0-t0a-t1b:up"), one("p1-hC")]);
    assert_eq!((tally.cases, tally.exact, tally.exact_place), (2, 1, 2));
    assert!((tally.precision() - 0.75).abs() < 1e-9 && (tally.recall() - 0.75).abs() < 1e-9);
}
