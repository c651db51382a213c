//! Random scenarios: topology x workload x fault x scheme x transport x parts. No run panics. Packets of both classes
//! are conserved, and every message is accounted for. Nothing arrives twice or in a wrong place. The same scenario
//! gives the same digest on one thread and on two.
//!
//! `MRC_RANDOM_SCENARIOS=10000 cargo test --release -p mrc-sim --test random` draws more than the few of every day;
//! `MRC_RANDOM_FIRST=N` begins with seed N. A failure names its seed and prints the scenario. `tests/nightly.sh` runs 10 000.

mod scenario;

use std::panic::{AssertUnwindSafe, catch_unwind};

use mrc_core::Rng;
use scenario::{Choices, Draw, check};

/// All messages were over, but a computation waited for one that had failed: the run was called unfinished.
#[test]
fn a_computation_behind_a_failed_message_keeps_no_run_open() {
    const SEED: u64 = 9_004_253;
    assert!(check(&Draw(Choices::Random(Rng::new(SEED))).scenario(), SEED).is_some());
}

#[test]
fn random_scenarios_keep_what_every_run_must() {
    let number = |name: &str, default: u64| {
        std::env::var(name)
            .ok()
            .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: a number")))
    };
    let (first, count) = (number("MRC_RANDOM_FIRST", 1), number("MRC_RANDOM_SCENARIOS", 24));
    let (mut ran, mut divided) = (0, 0);
    for seed in first..first + count {
        let text = Draw(Choices::Random(Rng::new(seed))).scenario();
        match catch_unwind(AssertUnwindSafe(|| check(&text, seed))) {
            Ok(parts) => {
                ran += u64::from(parts.is_some());
                divided += u64::from(parts.is_some_and(|parts| parts > 1));
            }
            Err(_) => panic!("MRC_RANDOM_FIRST={seed} MRC_RANDOM_SCENARIOS=1: \n{text}"),
        }
    }
    println!("{count} drawn, {ran} run, {divided} of them in parts");
    assert!(2 * ran >= count, "{ran} of {count} could be run: the draw is too wild");
    assert!(4 * divided >= ran, "{divided} of {ran} were divided");
}
