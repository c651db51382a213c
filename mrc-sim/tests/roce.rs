//! RoCEv2 hosts on the fabric: what RC is known to do must come out of the model.

mod common;

use std::path::Path;

use mrc_sim::run::Results;
use mrc_sim::scenario::load_str;
use mrc_sim::{PfcSpec, QueueSpec, scheme};

fn play(text: &str, set: &[&str]) -> Results {
    common::play(text, set, Some(7))
}

/// One plane of 100 Gb/s, four leaves of four hosts.
const FABRIC: &str = r#"
limit_us = 200000
[topology]
planes = 1
t0 = 4
hosts_per_t0 = 4
t1 = 4
host_gbps = 100
[transport]
kind = "roce"
"#;

fn scenario(rest: &str) -> String {
    format!("{FABRIC}{rest}")
}

#[test]
fn a_flow_alone_fills_its_link() {
    let text = scenario("[[workload]]\nkind = \"point-to-point\"\nfrom = 0\nto = 15\nbytes = 8000000\n");
    for recovery in ["go-back-n", "selective-repeat"] {
        let results = play(&text, &[&format!("transport.roce.recovery={recovery}")]);
        assert!(results.finished);
        assert_eq!((results.retransmitted_packets, results.drops), (0, 0), "{recovery}");
        assert!(results.slowdown.unwrap().max < 1.05, "{recovery}: {:?}", results.slowdown);
    }
}

#[test]
fn pfc_loses_nothing_in_an_incast_and_its_absence_does() {
    let text = scenario("[[workload]]\nkind = \"incast\"\nfirst = 4\nfan_in = 12\nto = 0\nbytes = 2000000\n");
    let none = "transport.roce.cc=none";
    let paused = play(&text, &["queue.pfc=true", none]);
    assert!(paused.finished && paused.pauses > 0);
    assert_eq!((paused.drops, paused.retransmitted_packets), (0, 0));
    let patient = "transport.roce.retries=100";
    let lossy = play(&text, &["queue.pfc=false", none, patient]);
    assert!(lossy.finished && lossy.drops > 0 && lossy.retransmitted_percent > 10.0, "{}", lossy.drops);
    let held_back = play(&text, &["queue.pfc=false", patient]);
    assert!(held_back.finished && held_back.marks > 0);
    assert!(held_back.drops < lossy.drops / 2, "DCQCN: {} of {} drops", held_back.drops, lossy.drops);
}

#[test]
fn one_queue_pair_collides_and_sixteen_do_so_less() {
    let text = scenario("[[workload]]\nkind = \"permutation\"\nbytes = 8000000\n");
    let one = play(&text, &["queue.pfc=true"]);
    let sixteen = play(&text, &["queue.pfc=true", "transport.roce.qps=16"]);
    assert!(one.finished && sixteen.finished);
    assert!(one.slowdown.unwrap().max > 1.9, "two flows of a hash on one link share it: {:?}", one.slowdown);
    assert!(sixteen.slowdown.unwrap().mean < one.slowdown.unwrap().mean, "{:?} {:?}", sixteen.slowdown, one.slowdown);
}

#[test]
fn selective_repeat_survives_loss_better_than_go_back_n() {
    let text = scenario(
        "[[workload]]\nkind = \"permutation\"\nbytes = 4000000\n[[fault]]\nkind = \"loss\"\nat_us = 0\nprobability = 0.01\n",
    );
    let go_back = play(&text, &["queue.pfc=true"]);
    let selective = play(&text, &["queue.pfc=true", "transport.roce.recovery=selective-repeat"]);
    assert!(go_back.finished && selective.finished);
    assert!(selective.retransmitted_packets * 3 < go_back.retransmitted_packets);
    assert!(selective.fct_us.unwrap().mean < go_back.fct_us.unwrap().mean);
}

#[test]
fn roce_is_refused_on_a_source_routed_fabric() {
    let error = load_str("test.toml", &scenario(""), Path::new("."), &["topology.forwarding=srv6".to_owned()], None);
    let text = error.expect_err("no paths to name").to_string();
    assert!(text.contains("topology.forwarding") && text.contains("ecmp"), "{text}");
    let unsaid = "[transport]\nkind = \"roce\"\n[[workload]]\n";
    let built = load_str("test.toml", unsaid, Path::new("."), &[], None).expect("hashed unless said otherwise");
    assert_eq!(built.topology.scheme(), scheme::ECMP);
}

/// The queues of a fabric whose hosts have links of `gbps`.
fn queue(gbps: u32, more: &str, set: &[&str]) -> QueueSpec {
    let text = format!("[topology]\nhost_gbps = {gbps}\n[transport]\nkind = \"roce\"\n{more}[[workload]]\n");
    common::load(&text, set, None).topology.queue()
}

#[test]
fn the_queues_of_roce_are_those_of_its_own_publications() {
    // DCQCN 2015 at 40 Gb/s, and ten times the bytes at ten times the rate.
    for (gbps, times) in [(40, 1), (400, 10)] {
        let spec = queue(gbps, "", &[]);
        let ecn = spec.ecn.unwrap();
        assert_eq!((ecn.min_bytes, ecn.max_bytes), (5_000 * times, 200_000 * times));
        assert_eq!((ecn.max_percent, ecn.last_hop, spec.trim, spec.control_percent), (1, true, None, None));
        assert_eq!(spec.pfc, Some(PfcSpec::Dynamic { bytes_per_gbps: 4_900, beta: 8 }));
        assert!(spec.data_bytes > 1 << 30, "what PFC lets in");
        // IRN pauses nobody and has two bandwidth-delay products.
        let irn = queue(gbps, "", &["transport.roce.recovery=selective-repeat"]);
        assert_eq!((irn.pfc, irn.data_bytes), (None, 240_000 * times));
    }
    // Nothing of MRC moves them, and each can be said.
    let knobs = "[transport.mrc]\nbase_rtt_us = 100\nmtu = 1024\n";
    assert_eq!(queue(400, knobs, &[]), queue(400, "", &[]));
    let said = queue(400, "", &["queue.pfc_xoff_bytes=9000", "queue.ecn_max_percent=100", "queue.ecn_last_hop=false"]);
    assert_eq!(said.pfc, Some(PfcSpec::Static { xoff_bytes: 9_000, xon_bytes: 4_500 }));
    assert_eq!(said.ecn.map(|ecn| (ecn.max_percent, ecn.last_hop)), Some((100, false)));
}

/// A selector of the engine chooses among source ports: by marks that acknowledgements repeat, by round trips, and by probes.
#[test]
fn host_selectors_leave_paths_that_collide_over_roce_too() {
    let text = scenario("[[workload]]\nkind = \"permutation\"\nbytes = 8000000\n");
    let with = |selector: &str| {
        let irn = ["transport.roce.recovery=selective-repeat", "transport.roce.reorder_packets=30"];
        let results = play(&text, &[irn[0], irn[1], &format!("transport.roce.selector={selector}")]);
        assert!(results.finished, "{selector}");
        results
    };
    let (single, hopper, flow_bender) = (with("single"), with("hopper"), with("flow-bender"));
    assert_eq!((single.path_switches, single.overhead.probes_permille, single.overhead.queue_pair_bytes), (0, 0.0, 0));
    for moving in [&hopper, &flow_bender] {
        assert!(moving.path_switches > 0 && moving.overhead.queue_pair_bytes > 0);
        let (moved, stayed) = (moving.fct_us.unwrap().max, single.fct_us.unwrap().max);
        assert!(moved < 0.9 * stayed, "{moved} and {stayed} us");
    }
    assert!(hopper.overhead.probes_permille > 0.0 && flow_bender.overhead.probes_permille == 0.0);
    for spraying in ["oblivious", "reps", "flowing-jumping", "plb", "spray"] {
        assert!(with(spraying).overhead.queue_pair_bytes > 0, "{spraying}");
    }
    // Its knobs are those of `[transport.mrc]`, also from the command line; without a selector they change nothing.
    let knob = "transport.mrc.flow_bender_rtt_percent=250";
    let selector = "transport.roce.selector=flow-bender";
    assert_ne!(play(&text, &[selector, knob]).digest, play(&text, &[selector]).digest);
    for set in [&[knob][..], &[selector, "transport.mrc.qps=2"]] {
        let set: Vec<String> = set.iter().map(|&set| set.to_owned()).collect();
        let refused = load_str("test.toml", &text, Path::new("."), &set, None);
        assert!(refused.expect_err("nothing reads it").to_string().contains("no effect"), "{set:?}");
    }
    let refused = load_str("test.toml", &text, Path::new("."), &["transport.roce.selector=fastest".to_owned()], None);
    assert!(refused.expect_err("no such selector").to_string().contains("hopper"));
}

/// Hopper, section 4.2: software posts a piece when the one before has completed, so that moves reorder nothing; each path has a
/// queue pair of its own, which begins at line rate.
#[test]
fn pieces_in_turn_are_never_reordered_and_a_new_path_begins_at_line_rate() {
    let text = scenario("[[workload]]\nkind = \"permutation\"\nbytes = 8000000\n");
    let with = |set: &[&str]| {
        let selector = ["transport.roce.selector=flow-bender", "transport.mrc.flow_bender_rtt_percent=150"];
        let pieces = ["transport.roce.piece_bytes=500000", "transport.roce.ack_every=1"];
        let results = play(&text, &[&selector[..], &pieces[..], set].concat());
        assert!(results.finished && results.path_switches > 0, "{set:?}");
        results
    };
    let (streamed, in_turn) = (with(&[]), with(&["transport.roce.pieces_in_turn=true"]));
    assert!(streamed.reordered_packets > 0);
    assert_eq!((in_turn.reordered_packets, in_turn.retransmitted_packets), (0, 0));
    let own = with(&["transport.roce.pieces_in_turn=true", "transport.roce.rate_per_path=true"]);
    let (own, shared) = (own.fct_us.unwrap().mean, in_turn.fct_us.unwrap().mean);
    assert!(own < shared, "{own} and {shared} us");
    let probes = |bytes: &str| play(&text, &["transport.roce.selector=hopper", bytes]).digest;
    assert_ne!(probes("transport.roce.probe_bytes=10000"), probes("transport.roce.probe_bytes=0"));
    for (set, why) in
        [("transport.roce.pieces_in_turn=true", "piece_bytes"), ("transport.roce.probe_bytes=65537", "65536")]
    {
        let set = ["transport.roce.selector=hopper".to_owned(), set.to_owned()];
        let refused = load_str("test.toml", &text, Path::new("."), &set, None).expect_err("out of range").to_string();
        assert!(refused.contains(why), "{refused}");
    }
}

/// A piece of five packets ends between two acknowledgements of every fourth packet; one of four does where two messages meet.
#[test]
fn the_end_of_a_piece_in_turn_is_acknowledged_at_once() {
    let text = scenario("[[workload]]\nkind = \"point-to-point\"\nfrom = 0\nto = 15\nbytes = 1000000\nmessages = 3\n");
    for (piece, fault) in
        [(5 * 4096, ""), (4 * 4096, ""), (5 * 4096, "[[fault]]\nkind = \"loss\"\nprobability = 0.002\n")]
    {
        let piece = format!("transport.roce.piece_bytes={piece}");
        let pieces = ["transport.roce.selector=flow-bender", "transport.roce.pieces_in_turn=true", &piece];
        let results = play(&format!("{text}{fault}"), &pieces);
        assert!(results.finished && (results.losses_by_cause.timeout == 0 || results.drops > 0), "{piece} {fault}");
        let timers = 4_200.0 * results.drops as f64;
        assert!(results.end_us < 2_000.0 + timers, "{piece} {fault}: {} us, {} lost", results.end_us, results.drops);
    }
}

/// Two hosts of 10 Gb/s send to a third one. DCQCN works at their rate also where a faster host, which does nothing, shares the
/// fabric, and where `[[link]]` made them slow.
#[test]
fn dcqcn_works_at_the_rate_of_each_host() {
    let rest = "[queue]\npfc = false\ndata_bytes = 60000\necn_min_bytes = 5000\necn_max_bytes = 50000\n\
        [transport]\nkind = \"roce\"\n[transport.roce]\nrto_us = 5000\n\
        [[workload]]\nkind = \"incast\"\nfirst = 1\nfan_in = 2\nto = 0\nbytes = 4000000\n";
    let graph = |more: &str| {
        let text = "[topology]\nshape = \"graph\"\n[[topology.edge]]\ngbps = 10\n\
            between = [[\"h0\", \"a\"], [\"h1\", \"a\"], [\"h2\", \"a\"]]\n";
        play(&format!("{text}{more}{rest}"), &[])
    };
    let alone = graph("");
    let beside = graph("[[topology.edge]]\nbetween = [[\"h3\", \"a\"]]\n");
    let link = "[topology]\nt0 = 1\nhosts_per_t0 = 4\n[[link]]\nname = [\"p0-hA\", \"p0-hB\", \"p0-hC\"]\ngbps = 10\n";
    let slow = play(&format!("{link}{rest}"), &[]);
    assert!(alone.finished && alone.marks > 20, "{}", alone.marks);
    assert_eq!(beside.fct_us, alone.fct_us, "a host of 100 Gb/s beside them");
    assert_eq!(beside.drops, alone.drops);
    // Marks are drawn from other numbers.
    let share = slow.fct_us.unwrap().mean / alone.fct_us.unwrap().mean;
    assert!((0.9..1.1).contains(&share), "`[[link]]`: {:?} {:?}", slow.fct_us, alone.fct_us);
    let drops = slow.drops as f64 / alone.drops.max(1) as f64;
    assert!((0.5..2.0).contains(&drops), "{} {}", slow.drops, alone.drops);
}

/// A queue pair of a host whose only port has no carrier from the start counts its tries: the message fails as one fails whose
/// port goes down later. A port that comes back in time is used at once, and the retransmission timer begins with the first packet.
#[test]
fn a_message_fails_when_its_host_never_had_a_port() {
    let text = |for_us: f64| {
        let fault = format!("[[fault]]\ntarget = [\"p0-hA\"]\nat_us = 0\nfor_us = {for_us}\n");
        scenario(&format!(
            "{fault}[[workload]]\nkind = \"point-to-point\"\nfrom = 0\nto = 15\nbytes = 8000000\nstart_us = 10\n"
        ))
    };
    let timer = ["transport.roce.retries=3", "transport.roce.rto_us=400", "transport.roce.rto_low_us=400"];
    let results = play(&text(1e6), &timer);
    assert_eq!((results.failed, results.failures.len()), (1, 1), "{:?}", results.diagnosis);
    assert!(results.failures[0].why.contains("3 retries without answer"), "{:?}", results.failures);
    // From 10 us on, four times 400 us.
    assert!((results.end_us - 1_610.0).abs() < 5.0, "{}", results.end_us);
    let back = play(&text(300.0), &timer);
    assert!(back.finished && back.failed == 0, "{:?}", back.diagnosis);
    assert_eq!(back.retransmitted_packets, 0, "640 us of sending from 300 us on, and no timer ran out");
}

/// The ports of a host are one bond, over which the queue pairs of different pairs of hosts are spread.
#[test]
fn one_queue_pair_for_each_pair_of_hosts_fills_more_than_one_plane() {
    let text = "[topology]\nplanes = 4\nhost_gbps = 25\nt0 = 2\nhosts_per_t0 = 4\n[transport]\nkind = \"roce\"\n\
        [transport.roce]\ncc = \"none\"\n[[workload]]\nkind = \"all-to-all\"\nbytes = 8000000\n";
    let rate = |qps: &str| play(text, &[qps]).goodput_gbit_per_s;
    // Eight hosts with 25 Gb/s on each plane: together they have 200 Gb/s on one, 800 on all.
    let (one, four) = (rate("transport.roce.qps=1"), rate("transport.roce.qps=4"));
    assert!((250.0..700.0).contains(&one), "{one}");
    assert!((650.0..800.0).contains(&four), "{four}");
}

/// The last packets of a message are lost, so that no later one reports their holes. IRN's own sender repeats the next one at the
/// acknowledgement of the one before: there is one timeout, not one for each packet.
#[test]
fn a_lost_tail_waits_for_one_timeout_of_selective_repeat() {
    let text = "[topology]\nt0 = 1\n[transport]\nkind = \"roce\"\n[transport.roce]\ncc = \"none\"\n\
        recovery = \"selective-repeat\"\n[[workload]]\nfrom = 0\nto = 1\nbytes = 163840\n\
        [[fault]]\nkind = \"loss\"\ntarget = [\"p0-hB\"]\nprobability = 1\nat_us = 11.9\nfor_us = 5\n";
    let results = play(text, &[]);
    assert!(results.finished && results.drops > 6, "{}", results.drops);
    // 17 us without loss; a timeout of 320 us, and some round trips of 4 us.
    let us = results.fct_us.unwrap().max;
    assert!((330.0..450.0).contains(&us), "{us} us");
}
