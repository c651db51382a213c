//! Every behaviour within small bounds, and every seeded fault.
//!
//! The bounds here take seconds; `docs/testing.md` has the larger runs that were made by hand.

use mrc_proofs::{Budget, Fault, Protocol};
use stateright::{Checker, HasDiscoveries, Model};

/// Explores `protocol` and fails with the broken rule.
fn holds(protocol: Protocol) -> usize {
    let checker = protocol.checker().threads(2).finish_when(HasDiscoveries::Any).spawn_bfs().join();
    if let Some((rule, path)) = checker.discoveries().into_iter().next() {
        let steps: Vec<String> = path.into_actions().iter().map(ToString::to_string).collect();
        panic!("{rule}:\n{}", steps.join("\n"));
    }
    assert!(checker.is_done());
    checker.unique_state_count()
}

const LOSSY: Budget = Budget { losses: 2, duplicates: 0, reorderings: 1, trims: 0, refusals: 0, early_timers: 0 };

#[test]
fn a_perfect_network_delivers_every_message_once() {
    let protocol = Protocol::new(&[2, 1, 2], 3, Budget::default());
    assert!(holds(protocol) > 40);
}

/// The largest run of every test: a window of four packets, two of each fault that a network has.
#[test]
fn two_losses_two_duplicates_two_reorderings_in_a_window_of_four() {
    let budget = Budget { losses: 2, duplicates: 2, reorderings: 2, ..Budget::default() };
    assert!(holds(Protocol::new(&[2, 1, 1], 4, budget)) > 1_000_000);
}

#[test]
fn losses_and_reordering() {
    holds(Protocol::new(&[2, 1], 3, LOSSY));
}

#[test]
fn duplicates_and_reordering() {
    holds(Protocol::new(&[1, 1], 2, Budget { duplicates: 2, reorderings: 2, ..Budget::default() }));
}

#[test]
fn trims_refusals_and_a_loss() {
    holds(Protocol::new(&[2, 1], 2, Budget { losses: 1, trims: 2, refusals: 1, reorderings: 1, ..Budget::default() }));
}

#[test]
fn timers_that_run_out_early() {
    holds(Protocol::new(&[2, 1], 3, Budget { losses: 1, early_timers: 2, ..Budget::default() }));
}

/// A rule that notices nothing proves nothing.
#[test]
fn every_seeded_fault_breaks_a_rule() {
    let budget = Budget { losses: 1, duplicates: 1, reorderings: 1, trims: 1, refusals: 1, early_timers: 1 };
    for fault in Fault::ALL {
        let protocol = Protocol::new(&[2, 1], 2, budget).with_fault(fault);
        let checker = protocol.checker().finish_when(HasDiscoveries::Any).spawn_bfs().join();
        assert!(!checker.discoveries().is_empty(), "no rule notices {fault}");
    }
}
