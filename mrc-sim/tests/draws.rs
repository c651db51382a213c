//! What hosts draw at random is theirs alone: two hosts do not draw the same numbers.

mod common;

use std::collections::BTreeMap;
use std::fmt::Write;

use common::{load, outcome};
use mrc_sim::run::Options;

/// 32 hosts, each with a queue pair to every other one, and each queue pair on one path that it names. At 1 ms every host of the
/// first leaf sends to the host of the same place below the second leaf.
fn fullest_uplink(seed: u64, forwarding: &str) -> f64 {
    let mut text = format!(
        "bin_us = 1000\n[topology]\nt0 = 2\nhosts_per_t0 = 16\nt1 = 8\nforwarding = \"{forwarding}\"\n\
         [transport.mrc]\nselector = \"single\"\nactive_evs = 8\nbackup_evs = 0\n\
         [[workload]]\nkind = \"trace\"\nlines = \"\"\"\n"
    );
    for (from, to) in (0..32).flat_map(|from| (0..32).map(move |to| (from, to))).filter(|(from, to)| from != to) {
        writeln!(text, "0,{from},{to},64").unwrap();
    }
    for from in 0..16 {
        writeln!(text, "1000,{from},{},400000", from + 16).unwrap();
    }
    text += "\"\"\"\n";
    let outcome = outcome(&load(&text, &[], Some(seed)), &Options { links: true, ..Options::default() });
    let mut links = BTreeMap::new();
    for row in outcome.links.iter().filter(|row| row.link.starts_with("p0-t0a-t1") && row.upwards && row.at_us > 1001.0)
    {
        *links.entry(row.link.clone()).or_insert(0.0) += row.percent;
    }
    assert_eq!(links.len(), 8, "{links:?}");
    links.values().fold(0.0, |most: f64, share| most.max(*share)) * 16.0 / links.values().sum::<f64>()
}

/// Sixteen balls in eight bins: the fullest has 4.2 on average, and 9 or more in one of 4000 throws.
#[test]
fn single_paths_of_different_hosts_are_drawn_apart() {
    for forwarding in ["srv6", "stev", "ecmp"] {
        let fullest: Vec<f64> = (0..16).map(|seed| fullest_uplink(seed, forwarding)).collect();
        let mean = fullest.iter().sum::<f64>() / 16.0;
        assert!(fullest.iter().all(|&most| most < 8.7), "{forwarding}: {fullest:.1?}");
        assert!((3.5..5.0).contains(&mean), "{forwarding}: {mean}, {fullest:.1?}");
    }
}
