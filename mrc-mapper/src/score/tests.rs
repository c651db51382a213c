use super::*;

#[test]
fn ours_finds_what_is_faulty_in_time_and_nothing_else() {
    let report = run(&ScoreConfig { faults: 40, healthy_ms: 120_000, seed: 7 }, |_| {});
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
    let of = |seed| format!("{:?}", run(&ScoreConfig { faults: 6, healthy_ms: 5000, seed }, |_| {}));
    assert_eq!(of(3), of(3));
    assert_ne!(of(3), of(4));
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
