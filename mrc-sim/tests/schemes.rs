//! What results say of schemes beside times: order, overhead, state, and how long faulty links stay in use.

mod common;

use std::path::Path;

use mrc_sim::run::Results;
use mrc_sim::scenario::load_str;

const SCENARIO: &str = r#"
limit_us = 20000
bin_us = 10
[topology]
t0 = 4
hosts_per_t0 = 4
t1 = 4
[[workload]]
kind = "permutation"
bytes = 8000000
"#;

fn play(set: &[&str]) -> Results {
    common::play(SCENARIO, set, Some(3))
}

const SINGLE: &str = "transport.mrc.selector=single";
const DOWN: &str = "fault=[{ kind = \"link-down\", target = [\"p0-t0a-t1b\"], at_us = 50 }]";

#[test]
fn spraying_reorders_and_one_path_does_not() {
    let sprayed = play(&["topology.forwarding=rps", SINGLE]);
    let one = play(&["topology.forwarding=ecmp", SINGLE]);
    assert!(sprayed.reordered_packets > sprayed.data_packets / 100, "{}", sprayed.reordered_packets);
    assert_eq!(one.reordered_packets, 0);
    let conweave = play(&["topology.forwarding=conweave", SINGLE]);
    assert_eq!(conweave.reordered_packets, 0, "the last leaf restores the order");
    assert!(conweave.overhead.switch_messages_permille > 0.0 && conweave.overhead.switch_bytes > 0);
}

/// By hand: 142 bytes of headers around each of 4096 bytes of payload with SRv6, 102 without.
#[test]
fn overhead_is_that_of_the_headers() {
    let mrc = play(&[]);
    assert!((mrc.overhead.header_percent - 100.0 * 142.0 / 4096.0).abs() < 0.2, "{:?}", mrc.overhead);
    assert_eq!(mrc.overhead.switch_bytes, 0);
    assert!(mrc.overhead.control_percent > 0.1 && mrc.overhead.queue_pair_bytes > 1000, "{:?}", mrc.overhead);
    let ecmp = play(&["topology.forwarding=ecmp", SINGLE]);
    assert!((ecmp.overhead.header_percent - 100.0 * 102.0 / 4096.0).abs() < 0.2, "{:?}", ecmp.overhead);
    assert_eq!((ecmp.overhead.queue_pair_bytes, ecmp.overhead.switch_messages_permille), (0, 0.0));
}

#[test]
fn spraying_leaves_a_dead_link_and_random_spraying_does_not() {
    let mrc = play(&[DOWN]).bad_path.expect("a fault");
    assert!(mrc.share_percent < 10.0, "{mrc:?}");
    // Leaf a knows of its own uplink, but spine b sends what others give it to nowhere.
    let rps = play(&[DOWN, "topology.forwarding=rps", SINGLE]).bad_path.expect("a fault");
    assert!(rps.leave_us.is_none() && rps.share_percent > 25.0, "{rps:?}");
    assert_eq!(play(&[]).bad_path, None, "no fault");
    assert_eq!(
        play(&["fault=[{ kind = \"loss\", target = [\"p0-hA\"], probability = 0.01, at_us = 0 }]"]).bad_path,
        None
    );
}

#[test]
fn a_fault_of_links_at_a_switch_strikes_all_of_its_links() {
    let slow =
        |target: &str| play(&[&format!("fault=[{{ kind = \"slow\", target = [{target}], gbps = 10, at_us = 0 }}]")]);
    let spine = slow("\"p0-t1b\"");
    assert_eq!(spine.digest, slow("\"p0-t0a-t1b\", \"p0-t0b-t1b\", \"p0-t0c-t1b\", \"p0-t0d-t1b\"").digest);
    assert_ne!(spine.digest, play(&[]).digest);
    let three = |target: &str| {
        let fault = format!("fault=[{{ kind = \"slow\", target = [{target}], gbps = 10, at_us = 0 }}]");
        play(&[
            "topology.shape=three-tier",
            "topology.pods=2",
            "topology.t0=2",
            "topology.t1=2",
            "topology.t2=2",
            &fault,
        ])
        .digest
    };
    assert_eq!(three("\"p0-t1a\""), three("\"p0-t0a-t1a\", \"p0-t0b-t1a\", \"p0-t1a-t2a\""));
    let set = ["fault=[{ kind = \"slow\", target = [\"p0-t1z\"], gbps = 10, at_us = 0 }]".to_owned()];
    let error = load_str("test.toml", SCENARIO, Path::new("."), &set, None).unwrap_err().to_string();
    assert!(error.contains("no link is called `p0-t1z`"), "{error}");
}
