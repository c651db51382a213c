//! Short packets and the base RTT of NSCC, which never rises again: probes that find an idle fabric after an outage, and the last
//! packets of messages.

use std::path::Path;

use mrc_sim::run::{Options, run};
use mrc_sim::scenario::load_str;

/// Goodput in Gb/s before and after an outage of 20 ms of all links, of two hosts that send to each other over two planes.
fn before_and_after(gbps: f64, bytes: u64, keys: &str) -> (f64, f64) {
    let text = format!(
        "limit_us = 200000\nuntil = \"limit\"\nbin_us = 20000\n\
         [topology]\nplanes = 2\nt1 = 2\nhost_gbps = {gbps}\n[transport.mrc]\nqps = 2\n{keys}\n\
         [[workload]]\nfrom = 0\nto = 3\nbytes = {bytes}\nmessages = 12000\ndepth = 4\nbidirectional = true\n\
         [[fault]]\nkind = \"loss\"\ntier = \"any\"\nprobability = 1.0\nat_us = 80000\nfor_us = 20000\n"
    );
    let built = load_str("test.toml", &text, Path::new("."), &[], None).unwrap();
    let results = run(&built, &Options::default(), &mut |_| {}).unwrap().results;
    let rates = &results.timeline.goodput_gbit_per_s[0];
    let mean = |bins: &[f64]| bins.iter().sum::<f64>() / bins.len() as f64;
    (mean(&rates[1..4]), mean(&rates[6..]))
}

//= RTT-003 test
#[test]
fn after_an_outage_flows_are_as_fast_as_before() {
    for gbps in [1.0, 10.0, 25.0] {
        let (before, after) = before_and_after(gbps, 1 << 20, "");
        assert!(before > 3.0 * gbps, "{gbps} Gb/s: {before}");
        assert!(after > 0.97 * before, "{gbps} Gb/s: {before} before, {after} after");
    }
}

//= RTT-003 test
#[test]
fn messages_that_end_with_a_short_packet_are_as_fast_as_others() {
    for gbps in [1.0, 10.0, 25.0] {
        let (whole, _) = before_and_after(gbps, 1_048_576, "");
        for bytes in [1_000_000, 1_044_500] {
            let (before, after) = before_and_after(gbps, bytes, "");
            assert!(before.min(after) > 0.94 * whole, "{gbps} Gb/s, {bytes} bytes: {whole}, {before}, {after}");
        }
    }
}

/// The specification takes the round trip of any packet for that of a full one.
//= RTT-003 test
#[test]
fn on_slow_links_the_specification_s_base_rtt_costs_half_of_the_rate() {
    let specified = |bytes| before_and_after(10.0, bytes, "cc_probe_shortfall_us = 0.0");
    let (before, after) = specified(1_048_576);
    assert!((0.4..0.6).contains(&(after / before)), "{before} before, {after} after");
    let (short, _) = specified(1_044_500);
    assert!(short < 0.7 * before, "{before} with whole packets alone, {short} with others");
}
