//! Many senders to one host. As specified, their windows of a packet are together more than its link holds.

use std::path::Path;

use mrc_sim::run::{Options, Results, run};
use mrc_sim::scenario::load_str;

/// `senders` hosts send `bytes` each to the last of 128 hosts; links of `gbps`.
fn incast(gbps: u32, senders: u32, bytes: u64, keys: &str) -> Results {
    let text = format!(
        "limit_us = 1000000\n[topology]\nt0 = 16\nhosts_per_t0 = 8\nhost_gbps = {gbps}\n[transport.mrc]\n{keys}\n\
         [[workload]]\nkind = \"incast\"\nfan_in = {senders}\nto = 127\nbytes = {bytes}\n"
    );
    let built = load_str("test.toml", &text, Path::new("."), &[], Some(1)).unwrap();
    run(&built, &Options::default(), &mut |_| {}).unwrap().results
}

/// Times the time that the receiver's link takes for all of it; a packet of 4096 bytes has 4238 on the wire.
fn over_ideal(results: &Results, gbps: u32, senders: u32, bytes: u64) -> f64 {
    let ideal_us = f64::from(senders) * bytes as f64 * 8.0 / (f64::from(gbps) * 1e3) * 4238.0 / 4096.0;
    results.end_us / ideal_us
}

//= NSCC-027 test
#[test]
fn a_hundred_senders_share_the_link_of_a_host() {
    let results = incast(100, 100, 2_000_000, "cc_crowds = true");
    assert_eq!((results.completed, results.failed), (100, 0));
    let over = over_ideal(&results, 100, 100, 2_000_000);
    assert!(over < 1.03, "{over} times the ideal time");
    assert!(results.retransmitted_percent < 10.0, "{} %", results.retransmitted_percent);
}

/// A packet that is trimmed again and again spends the retry budget of its queue pair.
//= NSCC-027 test
#[test]
fn no_queue_pair_of_a_healthy_fabric_fails() {
    let specified = incast(10, 100, 500_000, "qps = 4");
    assert!(specified.failed > 0, "else this shows nothing");
    let results = incast(10, 100, 500_000, "qps = 4\ncc_crowds = true");
    assert_eq!(results.failed, 0);
    let over = over_ideal(&results, 10, 100, 500_000);
    assert!(over < 1.25, "{over} times the ideal time");
}

/// A few senders retransmit a quarter of what they do as specified, or less, and the link is as full.
//= NSCC-027 test
#[test]
fn a_few_senders_lose_nothing_by_it() {
    for senders in [7, 15, 30] {
        let [specified, results] = ["", "cc_crowds = true"].map(|keys| incast(100, senders, 4_000_000, keys));
        let over = over_ideal(&results, 100, senders, 4_000_000);
        assert!(over < 1.05, "{senders}: {over} times the ideal time");
        let (less, more) = (results.retransmitted_percent, specified.retransmitted_percent);
        assert!(less < more / 4.0, "{senders}: {less} and {more} %");
        // The last to end had no less than two thirds of what others had.
        let fct = results.fct_us.unwrap();
        assert!(fct.max < 1.5 * fct.mean, "{senders}: {fct:?}");
    }
}
