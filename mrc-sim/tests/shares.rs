//! NSCC by hand: two flows over one link of 100 Gb/s, of which the second finds the first one's queue standing.
//!
//! With the configured base RTT of 6.05 us, and no trimming, the target is as long. Marks are certain above 0.8
//! bandwidth-delay products, 60 kB. A queue is left alone between there and the target, 76 kB: marked, but below it. Flows that
//! agree about the base RTT decrease together, and by what they have too much; so their shares come together.

use std::path::Path;

use mrc_sim::run::{Options, run};
use mrc_sim::scenario::load_str;

/// Base RTT of a full packet in nanoseconds: 4238 bytes there over three links, a SACK of 154 bytes back; each way three delays
/// of 500 ns and two switches of 500 ns.
const BASE_RTT_NS: f64 = 3.0 * (4238.0 + 154.0) * 0.08 + 2.0 * 5.0 * 500.0;
/// What three quarters of the run show, in bins of 1 ms.
const SETTLED: std::ops::Range<usize> = 5..20;

//= NSCC-001, NSCC-002, NSCC-004, NSCC-011, NSCC-015 test
#[test]
fn flows_that_agree_about_the_base_rtt_share_evenly_and_leave_a_queue_at_the_target() {
    for (seed, keys) in [(1, ""), (2, ""), (3, ""), (1, "cc_rtt_probe = false"), (3, "cc_rtt_probe = false")] {
        // Whole packets alone. With the default keys probes lower no base RTT below that of a full packet.
        let flow = |from: u32, start: u32| {
            format!(
                "[[workload]]\nfrom = {from}\nto = {}\nbytes = 1003520\nmessages = 1000\ndepth = 8\nstart_us = {start}\n",
                from + 2
            )
        };
        let text = format!(
            "limit_us = 20000\nuntil = \"limit\"\nbin_us = 1000\n\
             [topology]\nshape = \"dumbbell\"\nhosts_per_t0 = 2\n\
             [host]\njitter_us = 0.5\n[queue]\ntrim = false\n[transport.mrc]\n{keys}\n{}{}",
            flow(0, 0),
            flow(1, 2_000)
        );
        let built = load_str("test.toml", &text, Path::new("."), &[], Some(seed)).unwrap();
        let results = run(&built, &Options::default(), &mut |_| {}).unwrap().results;
        let rates = &results.timeline.goodput_gbit_per_s;
        let mean = |rates: &[f64]| rates[SETTLED].iter().sum::<f64>() / SETTLED.len() as f64;
        let (first, second) = (mean(&rates[0]), mean(&rates[1]));
        // 4096 of 4238 bytes are payload: 96.6 Gb/s.
        assert!((95.5..96.7).contains(&(first + second)), "seed {seed}, {keys:?}: {first} and {second} Gb/s");
        assert!((0.85..1.18).contains(&(first / second)), "seed {seed}, {keys:?}: {first} and {second} Gb/s");
        assert_eq!((results.retransmitted_packets, results.drops), (0, 0), "seed {seed}, {keys:?}");
        // The port towards the receivers' leaf has it all; the other one of the two, on the way of SACKs, is empty.
        let queues = &results.timeline.queue_t0_up;
        let settled = &queues[queues.len() / 4..];
        let queue = 2.0 * settled.iter().map(|sample| sample.mean_bytes as f64).sum::<f64>() / settled.len() as f64;
        let product = BASE_RTT_NS * 12.5;
        assert!((0.75 * product..1.05 * product).contains(&queue), "seed {seed}, {keys:?}: {queue} bytes wait");
    }
}
