//! In-band telemetry end to end: switches write into probes, answers bring it back, and the table of Flowing & Jumping goes by it.

mod common;

use std::path::Path;

use mrc_sim::PathRow;
use mrc_sim::run::{Options, Outcome};
use mrc_sim::scenario::load_str;

/// One spine is behind a link of a quarter of the rate; two hosts send to another leaf.
const SCENARIO: &str = r#"
limit_us = 400
until = "limit"
[topology]
t0 = 2
hosts_per_t0 = 2
t1 = 4
forwarding = "ecmp"
telemetry = "rate"
[[link]]
name = ["p0-t0b-t1c"]
gbps = 25
[transport.mrc]
selector = "flowing-jumping"
flowing_refresh_percent = 100
[[workload]]
kind = "permutation"
bytes = 20000000
"#;

fn play(set: &[&str]) -> Outcome {
    common::outcome(&common::load(SCENARIO, set, Some(3)), &Options::default())
}

/// The queue pairs with data: the receiver's send nothing and know nothing.
fn measured(outcome: &Outcome) -> Vec<&PathRow> {
    outcome.paths.iter().filter(|row| row.load.delay_ns > 0).collect()
}

#[test]
fn the_table_of_paths_comes_from_the_switches() {
    let outcome = play(&[]);
    let rows = measured(&outcome);
    assert!(rows.len() >= 16, "{}", rows.len());
    let mut rates = Vec::new();
    for row in rows {
        assert!(row.load.telemetry, "{row:?}");
        // Leaf 0 or 1, one of four spines (numbers 2 to 5), the other leaf.
        let switches: Vec<u16> = row.hops.iter().map(|hop| hop.switch).collect();
        let leaves = [row.host / 2, row.peer / 2].map(|leaf| leaf as u16);
        assert!(matches!(switches[..], [a, 2..=5, b] if [a, b] == leaves), "{row:?}");
        // The table has the latest report, and the bandwidth is that of its slowest link.
        let least = row.hops.iter().map(|hop| hop.rate_mbps).min().unwrap();
        assert_eq!(row.load.bandwidth_mbps, least);
        assert_eq!(least == 25_000, switches[1] == 4, "the slow links are those of spine c: {row:?}");
        let wait: u64 = row.hops.iter().map(|hop| u64::from(hop.queued_bytes) * 8_000 / u64::from(hop.rate_mbps)).sum();
        let idle = u64::from(row.load.delay_ns).abs_diff(wait);
        assert!((1_000..4_000).contains(&idle), "three links of propagation beside the queues: {row:?}");
        rates.push(least);
    }
    rates.sort_unstable();
    rates.dedup();
    assert_eq!(rates, [25_000, 100_000], "paths of both kinds");
    // Records count on the wire: 8 bytes for the sum, and for each hop.
    assert!(outcome.paths.iter().flat_map(|row| &row.hops).any(|hop| hop.load_permille > 100), "links are in use");
}

#[test]
fn without_telemetry_the_table_comes_from_round_trips() {
    let outcome = play(&["topology.telemetry=off"]);
    let rows = measured(&outcome);
    assert!(rows.len() >= 16, "{}", rows.len());
    for row in rows {
        assert!(!row.load.telemetry && row.hops.is_empty(), "{row:?}");
        assert_eq!(row.load.bandwidth_mbps, 100_000, "the rate of the host, one for all paths");
    }
    assert!(play(&["transport.mrc.selector=spray"]).paths.is_empty(), "other selectors keep no loads");
}

/// Data has the headers that it has without telemetry; what probes carry is counted by hand in `fabric/telemetry.rs`.
#[test]
fn data_carries_no_records() {
    let [with, without] = ["rate", "off"].map(|kind| {
        play(&[&format!("topology.telemetry={kind}"), "transport.mrc.selector=oblivious"]).results.overhead
    });
    assert!((with.header_percent - without.header_percent).abs() < 0.01, "{with:?} {without:?}");
    assert!(with.probes_permille > 5.0, "{with:?}");
}

/// No queue tells idle links from busy ones: the bandwidth in use on the busiest link does, also where rates are no whole Gb/s.
#[test]
fn load_shows_where_no_queue_does() {
    for rate in ["100", "23.75"] {
        let rows = play(&["topology.telemetry=load", &format!("topology.fabric_gbps={rate}")]).paths;
        let rows: Vec<&PathRow> = rows.iter().filter(|row| row.load.delay_ns > 0).collect();
        for row in &rows {
            let used = row.hops.iter().map(|hop| hop.rate_mbps * u32::from(hop.load_permille) / 1_000).max().unwrap();
            // In steps of 100 Mb/s, never 0.
            assert!(row.load.bandwidth_mbps.abs_diff(used) <= 100, "{used} {row:?}");
        }
        assert!(rows.len() >= 16 && rows.iter().any(|row| row.load.bandwidth_mbps < 90_000));
    }
}

#[test]
fn roce_has_no_probes_to_write_into() {
    let set = ["transport.kind=roce".to_owned()];
    let refused = load_str("test.toml", SCENARIO, Path::new("."), &set, None).unwrap_err().to_string();
    assert!(refused.contains("topology.telemetry") && refused.contains("no probes"), "{refused}");
}
