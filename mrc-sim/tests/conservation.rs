//! Nothing disappears and nothing is doubled: packets of each class in every run, and what a run's fingerprint covers.

mod common;

use mrc_sim::run::{ClassCounts, Results};

fn play(text: &str, set: &[&str]) -> Results {
    common::play(text, set, None)
}

/// Two planes of four leaves, an incast and a permutation, cut off in the middle.
const BUSY: &str = "limit_us = 60\nuntil = \"limit\"\n[topology]\nplanes = 2\nt0 = 4\nhosts_per_t0 = 4\nt1 = 2\n\
    [[workload]]\nkind = \"incast\"\nbytes = 200000\n[[workload]]\nkind = \"permutation\"\nbytes = 300000\n";

#[test]
fn packets_of_each_class_are_conserved() {
    let faults = [
        "",
        "[[fault]]\nkind = \"loss\"\nprobability = 0.05\ntier = \"any\"\n",
        "[[fault]]\nkind = \"link-down\"\nat_us = 10\ntier = \"any\"\nrandom = 6\n",
        "[[fault]]\nkind = \"switch-silent\"\nat_us = 10\nrandom = 1\n",
        "[[fault]]\nkind = \"corruption\"\nprobability = 0.05\n",
    ];
    let kinds: [&[&str]; 10] = [
        &[],
        &["topology.forwarding=stev"],
        &["topology.forwarding=adaptive", "queue.control_bytes=1000"],
        &["queue.trim=false", "queue.data_bytes=40000"],
        &["queue.trim_victim=arriving-or-any", "queue.control_percent=1"],
        &["transport.kind=roce"],
        &["transport.kind=roce", "topology.forwarding=conga"],
        &["transport.kind=roce", "topology.forwarding=conweave", "topology.scheme.reply_us=0.1"],
        &["transport.kind=roce", "topology.forwarding=reunion", "topology.scheme.interval_us=10"],
        &["transport.kind=roce", "transport.roce.recovery=selective-repeat", "queue.data_bytes=20000"],
    ];
    let (mut trimmed, mut dropped, mut control_dropped, mut in_fabric) = (0, 0, 0, 0);
    for fault in faults {
        for kind in kinds {
            let results = play(&format!("{BUSY}{fault}"), kind);
            let packets = results.packets;
            for class in [packets.data, packets.control] {
                let ClassCounts { sent, trimmed_in, delivered, consumed, dropped, trimmed_out, in_fabric } = class;
                let here = format!("{fault} {kind:?}: {class:?}");
                assert_eq!(sent + trimmed_in, delivered + consumed + dropped + trimmed_out + in_fabric, "{here}");
                assert!(sent > 0 && delivered > 0, "{here}");
            }
            in_fabric += packets.data.in_fabric;
            assert_eq!(packets.data.trimmed_out, results.trims);
            assert_eq!(packets.data.dropped + packets.control.dropped, results.drops - results.drops_by_cause.corrupt);
            trimmed += results.trims;
            dropped += packets.data.dropped;
            control_dropped += packets.control.dropped;
        }
    }
    assert!(in_fabric > 1000, "runs were cut off in the middle: {in_fabric}");
    assert!(trimmed > 1000 && dropped > 1000 && control_dropped > 100, "{trimmed} {dropped} {control_dropped}");
}

#[test]
fn the_digest_tells_unfinished_runs_apart() {
    // Nothing completes in 40 us, whatever happens on the way.
    let mut seen = std::collections::BTreeSet::new();
    let early = |set: &[&str]| {
        let results = play(BUSY, &[&["limit_us=12"], set].concat());
        assert_eq!(results.completed, 0);
        results.digest
    };
    assert_eq!(early(&[]), early(&[]));
    for set in ["seed=2", "seed=3", "queue.ecn=false", "queue.trim=false", "topology.host_delay_us=0.4", "limit_us=11"]
    {
        seen.insert(early(&[set]));
    }
    seen.insert(early(&[]));
    assert_eq!(seen.len(), 7);
}
