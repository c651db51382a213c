//! Transports that are registered by name, from scenario to results: `line-rate`.

use std::path::Path;

use mrc_sim::run::{Options, Outcome, Results, run};
use mrc_sim::scenario::{Built, ScenarioError, load_str, schema};

fn load(text: &str) -> Result<Built, ScenarioError> {
    load_str("test.toml", text, Path::new("."), &[], Some(3))
}

fn play_all(text: &str) -> Outcome {
    let built = load(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    run(&built, &Options { messages: true, ..Options::default() }, &mut |_| {}).expect("a run")
}

fn play(text: &str) -> Results {
    play_all(text).results
}

const ALONE: &str = "[topology]\nhost_gbps = 100\nhost_delay_us = 1\nfabric_delay_us = 1\nswitch_us = 0.5\n\
    [transport]\nkind = \"line-rate\"\n[[workload]]\nfrom = 0\nto = 3\nbytes = 409600\n";

/// Host 0 has a second port, of which host 2 knows nothing: what left by it would find no route.
#[test]
fn hosts_talk_by_the_ports_that_both_have() {
    for (from, to, ports) in [(0, 2, 1), (2, 0, 1), (0, 1, 2)] {
        let outcome = play_all(&format!(
            "[topology]\nshape = \"graph\"\n[[topology.edge]]\nbetween = [[\"h0\", \"a\"], [\"a\", \"b\"], [\"b\", \"h1\"], \
             [\"h0\", \"c\"], [\"c\", \"h1\"], [\"h2\", \"a\"]]\n[transport]\nkind = \"line-rate\"\n\
             [[workload]]\nfrom = {from}\nto = {to}\nbytes = 409600\n"
        ));
        let results = &outcome.results;
        assert_eq!((results.drops, results.retransmitted_packets, outcome.messages[0].ports), (0, 0, ports));
        // Of two paths one has a switch more.
        assert!((0.999..1.12).contains(&results.slowdown.unwrap().max), "{from} to {to}: {:?}", results.slowdown);
    }
}

/// 100 packets of 4096 + 90 bytes leave back to back over four links and three switches; the acknowledgement of the last one
/// comes back. Bytes of preamble and gap are no part of `wire_len`.
#[test]
fn a_message_alone_takes_the_time_of_its_links() {
    let results = play(ALONE);
    assert!(results.finished && results.misplaced == 0);
    assert_eq!((results.data_packets, results.retransmitted_packets), (100, 0));
    assert_eq!(results.transport, "line-rate");
    let ideal = results.slowdown.unwrap().max;
    // The fabric counts whole nanoseconds.
    assert!((0.9999..1.001).contains(&ideal), "slowdown {ideal}");
    // By hand: 100 packets, three more serialisations of the last one, four delays and three switches there; back the same
    // with 90 bytes.
    let ns = |bytes: f64| bytes * 8.0 / 100.0;
    let fixed = 4.0 * 1_000.0 + 3.0 * 500.0;
    let by_hand = (103.0 * ns(4_186.0) + fixed + 4.0 * ns(90.0) + fixed) / 1e3;
    let took = results.groups[0].fct_us.unwrap().max;
    assert!((took - by_hand).abs() < 0.3, "{took} us, by hand {by_hand} us");
}

#[test]
fn what_is_lost_goes_again_and_every_byte_is_placed_once() {
    for spray in [0, 1] {
        let params = format!("[transport.params]\nspray = {spray}\nrto_us = 40\n");
        let loss = "[[fault]]\nkind = \"loss\"\ntier = \"any\"\nprobability = 0.05\n";
        let text = format!(
            "[topology]\nplanes = 2\nt0 = 4\n[transport]\nkind = \"line-rate\"\n{params}\
            [[workload]]\nkind = \"all-to-all\"\nbytes = 1000000\n{loss}"
        );
        let results = play(&text);
        assert!(results.finished && results.misplaced == 0, "{:?}", results.diagnosis);
        assert!(results.retransmitted_packets > 50, "{}", results.retransmitted_packets);
        assert_eq!(play(&results.resolved).digest, results.digest, "{}", results.resolved);
    }
    // Nobody answers: the message fails, and says why.
    let text = format!("{ALONE}[transport.params]\nretries = 3\n[[fault]]\nkind = \"loss\"\nprobability = 1.0\n");
    let results = play(&text);
    assert_eq!(results.failed, 1);
    assert!(results.failures[0].why.contains("after 4 tries"), "{}", results.failures[0].why);
}

/// Without congestion control an incast overruns its queue; a sprayed one still ends.
#[test]
fn nothing_adapts() {
    let text = "[topology]\nt0 = 2\nhosts_per_t0 = 4\n[transport]\nkind = \"line-rate\"\n\
        [[workload]]\nkind = \"incast\"\nbytes = 1000000\n";
    let results = play(text);
    assert!(
        results.finished && results.retransmitted_packets > results.data_packets / 2,
        "{}",
        results.retransmitted_packets
    );
    let paced = play(&text.replace("line-rate", "mrc"));
    assert!(paced.retransmitted_packets < results.retransmitted_packets / 5);
}

#[test]
fn a_job_may_speak_it_beside_others() {
    let text = "[topology]\nt0 = 4\nhosts_per_t0 = 4\nforwarding = \"ecmp\"\n[queue]\npfc = false\n\
        [transport]\nkind = \"roce\"\n\
        [[job]]\nname = \"a\"\nhosts = 4\n\
        [[job]]\nname = \"b\"\nhosts = 4\n[job.transport]\nkind = \"line-rate\"\nparams.mtu = 1024\n\
        [[job]]\nname = \"c\"\nhosts = 4\ntransport = \"mrc\"\n\
        [[workload]]\nkind = \"permutation\"\nother_leaf = false\njob = \"a\"\nbytes = 409600\n\
        [[workload]]\nkind = \"permutation\"\nother_leaf = false\njob = \"b\"\nbytes = 409600\n\
        [[workload]]\nkind = \"permutation\"\nother_leaf = false\njob = \"c\"\nbytes = 409600\n";
    let results = play(text);
    assert!(results.finished && results.misplaced == 0, "{:?}", results.diagnosis);
    assert_eq!(results.transport, "roce and line-rate (b) and mrc");
    assert_eq!(results.data_packets, 4 * (100 + 400 + 100));
    assert_eq!(play(&results.resolved).digest, results.digest);
    let error = load(&text.replace("params.mtu = 1024", "params.mtu = 10")).unwrap_err();
    assert_eq!((&*error.key, error.line), ("job[1].transport.params.mtu", Some(17)), "{error}");
}

#[test]
fn errors_name_the_key() {
    let with = |more: &str| load(&format!("{ALONE}{more}")).unwrap_err();
    for (text, key, says) in [
        ("[transport.params]\nmtu = 63\n", "transport.params.mtu", "64 to 9000"),
        ("[transport.params]\nmtu = 64.5\n", "transport.params.mtu", "whole"),
        ("[transport.params]\nmut = 64\n", "transport.params.mut", "mtu, rto_us"),
        ("[queue]\npfc = true\n", "queue.pfc", "line-rate hosts do not pause"),
    ] {
        let error = with(text);
        assert!(error.key == key && error.message.contains(says), "{error}");
    }
    let scheme = |name: &str| load(&ALONE.replace("[topology]\n", &format!("[topology]\nforwarding = \"{name}\"\n")));
    let error = scheme("srv6").unwrap_err();
    assert!(error.key == "topology.forwarding" && error.message.contains("line-rate"), "{error}");
    assert!(scheme("adaptive").is_ok());
    let error = load(&ALONE.replace("line-rate", "line-rat")).unwrap_err().to_string();
    assert!(error.contains("did you mean `line-rate`?"), "{error}");
    // Parameters that nobody reads, from the file and from the command line.
    let other = format!("{}[transport.params]\nmtu = 1024\n", ALONE.replace("line-rate", "mrc"));
    let error = load(&other).unwrap_err();
    assert!(error.key == "transport.params" && error.message.contains("[transport.mrc]"), "{error}");
    let set = ["transport.params.mtu=1024".to_owned()];
    let error = load_str("test.toml", &ALONE.replace("line-rate", "roce"), Path::new("."), &set, None).unwrap_err();
    assert!(error.message.contains("no effect"), "{error}");
    assert!(load_str("test.toml", ALONE, Path::new("."), &set, None).is_ok());
}

#[test]
fn the_schema_lists_it_with_its_parameters() {
    let kinds = schema()["$defs"]["TransportKind"]["oneOf"].as_array().unwrap().clone();
    let line_rate = kinds.iter().find(|kind| kind["const"] == "line-rate").unwrap();
    assert!(line_rate["description"].as_str().unwrap().contains("`params.rto_us` (default 320, 1 to 1000000)"));
}

/// Its timer is slower than the shortest default of `stall_us`: what waits for it has not stalled.
#[test]
fn a_run_waits_for_the_timers_of_its_transport() {
    let text = "[topology]\nt0 = 1\nhosts_per_t0 = 2\n[transport]\nkind = \"line-rate\"\nparams = { rto_us = 300000 }\n\
                [[workload]]\nfrom = 0\nto = 1\nbytes = 1000\n\
                [[fault]]\nkind = \"loss\"\ntarget = [\"p0-hA\"]\nprobability = 1.0\nat_us = 0\nfor_us = 1000\n";
    let results = play(text);
    assert!(results.finished && results.end_us > 300_000.0, "{:?}, {} us", results.diagnosis, results.end_us);
}

/// A host does not take what a link corrupted: the datagram goes again, as one that was lost.
#[test]
fn a_corrupt_datagram_is_not_taken() {
    let fault = "[transport.params]\nretries = 2\nrto_us = 40\n[[fault]]\nkind = \"corruption\"\ntier = \"any\"\n";
    let none = play(&format!("{ALONE}{fault}probability = 1.0\n"));
    assert_eq!((none.failed, none.drops_by_cause.corrupt), (1, none.packets.data.delivered));
    let some = play(&format!("{ALONE}{fault}probability = 0.05\n").replace("retries = 2", "retries = 20"));
    assert!(some.finished && some.misplaced == 0, "{:?}", some.diagnosis);
    assert!(some.drops_by_cause.corrupt > 0 && some.retransmitted_packets >= some.drops_by_cause.corrupt, "{some:?}");
}

/// Datagrams of a host whose only port lost its carrier count their tries, too: the message fails and does not wait for ever.
/// If the port comes back in time, they go again.
#[test]
fn a_message_fails_when_its_host_has_no_port_left() {
    let text = |for_us| {
        format!(
            "{ALONE}[transport.params]\nretries = 3\nrto_us = 40\n[[fault]]\ntarget = [\"p0-hA\"]\nat_us = 10\nfor_us = {for_us}\n"
        )
    };
    let results = play(&text(1e6));
    assert_eq!((results.failed, results.failures.len()), (1, 1), "{:?}", results.diagnosis);
    assert!(results.failures[0].why.contains("after 4 tries") && results.end_us < 400.0, "{:?}", results.failures);
    let back = play(&text(60.0));
    assert!(back.finished && back.misplaced == 0 && back.retransmitted_packets > 0, "{:?}", back.diagnosis);
    // All the way again from 70 us on at the latest: 40 us of the timer, and the time of the message.
    assert!(back.end_us < 70.0 + 40.0 + 60.0, "{}", back.end_us);
}

/// Datagrams of one message come out of order where paths differ. Those of a near host that overtake the ones of a far host do not.
#[test]
fn order_is_that_of_a_message() {
    let spread = "[transport]\nkind = \"line-rate\"\n[[workload]]\nkind = \"incast\"\nto = 2\nbytes = 1000000\n";
    let one_path = "[topology]\nshape = \"graph\"\n[[topology.edge]]\nbetween = [[\"h0\", \"a\"]]\ndelay_us = 20\n\
                    [[topology.edge]]\nbetween = [[\"h1\", \"a\"], [\"a\", \"h2\"]]\n";
    let results = play(&format!("{one_path}{spread}"));
    assert_eq!((results.completed, results.reordered_packets), (2, 0));
    let two_paths = "[topology]\nforwarding = \"rps\"\n[[link]]\nname = [\"p0-t0a-t1a\"]\ndelay_us = 20\n";
    assert!(play(&format!("{two_paths}{spread}")).reordered_packets > 0);
}
