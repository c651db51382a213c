//! Fabrics of three tiers, with parallel links, and of any form: what moves on them is reckoned by hand, as on two tiers.

use std::path::Path;

use mrc_sim::run::{Options, Results, RunEnd, run};
use mrc_sim::scenario::{Built, ScenarioError, load_str};

fn load(text: &str) -> Result<Built, ScenarioError> {
    load_str("test.toml", text, Path::new("."), &[], Some(3))
}

fn play(text: &str) -> Results {
    let built = load(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let results = run(&built, &Options::default(), &mut |_| {}).expect("a run").results;
    assert_eq!(results.misplaced, 0);
    for class in [results.packets.data, results.packets.control] {
        let out = class.delivered + class.consumed + class.dropped + class.trimmed_out + class.in_fabric;
        assert_eq!(class.sent + class.trimmed_in, out, "{class:?}");
    }
    results
}

const FAT_TREE: &str = "[topology]\nshape = \"fat-tree\"\nk = 8\n";
/// Two hosts of two ports each: one plane of 100 Gb/s by two switches, one of 50 Gb/s by three in a row.
const UNEQUAL: &str = "[topology]\nshape = \"graph\"\nedge = [\n\
    { between = [[\"h0\", \"a\"], [\"a\", \"b\"], [\"b\", \"h1\"]] },\n\
    { between = [[\"h0\", \"x\"], [\"x\", \"y\"], [\"y\", \"z\"], [\"z\", \"h1\"]], gbps = 50 },\n]\n";

/// A packet of RoCE and its acknowledgement over so many links of 100 Gb/s and 500 ns, with switches of 500 ns between them.
fn one_packet_ns(links: u64, cut_through: bool) -> u64 {
    let (data, ack) = (14 + 40 + 8 + 12 + 16 + 4096 + 4u64, 14 + 40 + 8 + 12 + 4 + 4u64);
    let ns = |bytes: u64| bytes * 8 / 100;
    let bits = |bytes: u64| match cut_through {
        // Every switch waits for 64 bytes; the last link carries the packet once.
        true => (links - 1) * ns(64) + ns(bytes),
        false => links * ns(bytes),
    };
    bits(data) + bits(ack) + 2 * links * 500 + 2 * (links - 1) * 500
}

fn one_packet(shape: &str, kind: &str, to: u32) -> Results {
    play(&format!(
        "{shape}[transport]\nkind = \"{kind}\"\n[queue]\necn = false\n[[workload]]\nfrom = 0\nto = {to}\nbytes = 4096\n"
    ))
}

#[test]
fn a_packet_crosses_as_many_links_as_the_shortest_path_has() {
    // Host 1 shares the T0 of host 0, host 4 its pod, host 127 neither.
    for (to, links) in [(1, 2), (4, 4), (127, 6)] {
        for kind in ["roce", "mrc"] {
            for cut_through in [false, true] {
                let shape = format!("{FAT_TREE}cut_through = {cut_through}\n");
                let results = one_packet(&shape, kind, to);
                let ns = results.fct_us.unwrap().max * 1e3;
                let hand = one_packet_ns(links, cut_through) as f64;
                let most = if kind == "roce" { 12.0 } else { 120.0 };
                assert!((-12.0..=most).contains(&(ns - hand)), "{kind} to {to}: {ns} ns, by hand {hand}");
                let slowdown = results.slowdown.unwrap().max;
                assert!((0.999..1.03).contains(&slowdown), "{kind} to {to}, {cut_through}: {slowdown}");
            }
        }
    }
    // 16 switches of each lower tier in 8 pods of 4 + 4, 16 T2s, 128 hosts.
    let built = load(&format!("{FAT_TREE}[[workload]]\n")).unwrap();
    assert_eq!((built.topology.hosts(), built.topology.switch_count(), built.topology.links()), (128, 80, 384));
}

#[test]
fn the_fat_tree_carries_a_permutation_at_the_rate_of_its_hosts() {
    let permutation = |kind: &str, rest: &str| {
        let text = format!(
            "{FAT_TREE}{rest}[transport]\nkind = \"{kind}\"\n[[workload]]\nkind = \"permutation\"\nbytes = 500000\n"
        );
        play(&text)
    };
    // 500 kB and headers at 100 Gb/s take 41 us, and a round trip 10.
    let mrc = permutation("mrc", "");
    assert!(mrc.finished && mrc.fct_us.unwrap().max < 1.35 * 51.0, "{:?}", mrc.fct_us);
    assert_eq!(mrc.drops_by_cause.switch, 0, "every micro-SID has a route");
    // One path for each flow: some share a link.
    let roce = permutation("roce", "");
    assert!(roce.finished && roce.fct_us.unwrap().max > 1.5 * mrc.fct_us.unwrap().max, "{:?}", roce.fct_us);
    assert!(permutation("mrc", "forwarding = \"adaptive\"\n").finished);
}

#[test]
fn senders_that_write_paths_use_every_t2() {
    let results = play(&format!("{FAT_TREE}[[workload]]\nfrom = 0\nto = 127\nbytes = 4000000\n"));
    assert!(results.slowdown.unwrap().max < 1.1, "{:?}", results.slowdown);
    // Half of the T2s fall silent: spraying finds the other paths.
    let silent = play(&format!(
        "{FAT_TREE}[[workload]]\nfrom = 0\nto = 127\nbytes = 4000000\n[[fault]]\nkind = \"switch-silent\"\ntier = \"t2\"\n\
         random = 8\n"
    ));
    assert!(silent.finished && silent.drops_by_cause.switch > 8, "{:?}", silent.drops_by_cause);
}

#[test]
fn two_flows_share_what_lies_between() {
    // Four links of 25 Gb/s side by side, or a tier above with a quarter of the rate: two flows of 100 Gb/s get half each.
    let shapes = [
        "[topology]\nt0 = 2\nt1 = 1\nparallel = 4\nfabric_gbps = 25\n",
        "[topology]\nshape = \"three-tier\"\nt0 = 1\nt1 = 1\npods = 2\nhosts_per_t0 = 2\nt2 = 1\nfabric_gbps = 100\n",
        "[topology]\nshape = \"graph\"\nedge = [{ between = [[\"h0\", \"a\"], [\"h1\", \"a\"], [\"a\", \"b\"], [\"b\", \"h2\"], \
         [\"b\", \"h3\"]] }]\n",
    ];
    for shape in shapes {
        let flows =
            "[[workload]]\nfrom = 0\nto = 2\nbytes = 4000000\n[[workload]]\nfrom = 1\nto = 3\nbytes = 4000000\n";
        let two = play(&format!("{shape}{flows}"));
        let bits = 8_000_000.0 * 8.0;
        let rate = bits / (two.end_us * 1e3);
        assert!((85.0..=97.0).contains(&rate), "{rate} Gb/s together over {shape}");
        // Half each would be 2; the first to end had up to 60 % of the link, by 24 seeds.
        assert!(two.groups.iter().all(|group| group.slowdown.unwrap().max > 1.6), "{shape}");
        let alone = play(&format!("{shape}[[workload]]\nfrom = 0\nto = 2\nbytes = 4000000\n"));
        let slowdown = alone.slowdown.unwrap().max;
        assert!((0.999..1.1).contains(&slowdown), "{slowdown} alone over {shape}");
    }
}

/// `k` is a number of ports. Faster links between switches make no tree with fewer of them.
#[test]
fn a_fat_tree_has_its_ports_at_any_rate() {
    for rates in ["", "fabric_gbps = 400\n", "fabric_gbps = 25\nt2_gbps = 200\n"] {
        let built = load(&format!("{FAT_TREE}{rates}[[workload]]\n")).unwrap();
        // 8 pods of 4 T0s, 4 T1s and 16 hosts; 16 T2s. 128 links to hosts, and as many of each tier.
        assert_eq!((built.topology.hosts(), built.topology.switch_count(), built.topology.links()), (128, 80, 3 * 128));
    }
    let built = load(&format!("{FAT_TREE}fabric_gbps = 400\noversubscription = 2\n[[workload]]\n")).unwrap();
    assert_eq!(built.topology.switch_count(), 8 * (4 + 2) + 2 * 4);
}

/// One uplink is the least, and the fraction of a ratio does not make one more.
#[test]
fn a_ratio_that_uplinks_cannot_have_is_refused() {
    let clos = |rest: &str| load(&format!("[topology]\n{rest}[[workload]]\n"));
    let error = clos("hosts_per_t0 = 4\noversubscription = 5\n").unwrap_err().to_string();
    assert!(
        error.contains("test.toml:3: topology.oversubscription: 5: with one uplink it is 4, which is the most"),
        "{error}"
    );
    let error = clos("hosts_per_t0 = 4\nfabric_gbps = 400\noversubscription = 2\n").unwrap_err().to_string();
    assert!(error.contains("2: with one uplink it is 1"), "{error}");
    assert!(clos("hosts_per_t0 = 4\noversubscription = 4\n").is_ok());
    // 21 hosts over 30 uplinks.
    assert_eq!(clos("hosts_per_t0 = 21\noversubscription = 0.7\n").unwrap().topology.switch_count(), 2 + 30);
    let tiers = "shape = \"three-tier\"\nhosts_per_t0 = 4\n";
    for (rest, says) in [
        ("t1 = 4\noversubscription = 2\n", "topology.oversubscription: 2 asks for 2 uplinks, and t1"),
        ("t2_oversubscription = 3\n", "topology.t2_oversubscription: 3: with one uplink it is 2"),
        ("t2 = 16\nt2_oversubscription = 0.5\n", ""),
        ("t2 = 8\nt2_oversubscription = 0.5\n", "topology.t2_oversubscription: 0.5 asks for 4 uplinks, and t2"),
    ] {
        match clos(&format!("{tiers}{rest}")) {
            Ok(_) => assert_eq!(says, "", "{rest}"),
            Err(error) => assert!(!says.is_empty() && error.to_string().contains(says), "{rest}: {error}"),
        }
    }
}

#[test]
fn oversubscription_of_a_tier_is_what_its_links_carry() {
    // 4 hosts of 100 Gb/s below a T0 with two uplinks; a T1 with two links down and one up.
    let text = "[topology]\nshape = \"three-tier\"\npods = 4\nt0 = 2\nhosts_per_t0 = 4\noversubscription = 2\n\
                t2_oversubscription = 2\n[[workload]]\n";
    let built = load(text).unwrap();
    // T1s of a pod: 2; T2s: one for each T1 of a pod.
    assert_eq!(built.topology.switch_count(), 4 * 2 + 4 * 2 + 2);
    let error = load(&text.replace("[[workload]]", "t2 = 3\n[[workload]]")).unwrap_err();
    assert_eq!((error.key.as_str(), error.message.contains("multiple of the 2 T1s")), ("topology.t2", true), "{error}");
}

#[test]
fn pfc_holds_an_incast_back_across_three_tiers() {
    let incast = "[topology]\nshape = \"fat-tree\"\nk = 4\n[queue]\npfc_xoff_bytes = 40000\n[transport]\nkind = \"roce\"\n\
                  [transport.roce]\ncc = \"none\"\n[[workload]]\nkind = \"incast\"\nfan_in = 12\nfirst = 4\nbytes = 500000\n";
    for cut_through in [false, true] {
        let results = play(&incast.replace("k = 4\n", &format!("k = 4\ncut_through = {cut_through}\n")));
        assert!(results.finished && results.pauses > 0);
        assert_eq!((results.drops, results.retransmitted_packets), (0, 0));
        // 12 x 500 kB and their headers at 100 Gb/s.
        let least = 12.0 * 500_000.0 * (4186.0 / 4096.0) * 8.0 / 100e3;
        assert!((least..1.05 * least).contains(&results.end_us), "{} us, at least {least}", results.end_us);
    }
}

/// What several ports send meets in the receiver's one link, which the ideal counts once.
#[test]
fn a_receiver_with_fewer_ports_than_the_sender_sets_the_ideal() {
    for first in
        ["[\"h0\", \"a\"], [\"h0\", \"b\"], [\"a\", \"b\"]", "[\"h0\", \"a\"], [\"h0\", \"a\"], [\"h0\", \"a\"]"]
    {
        let results = play(&format!(
            "[topology]\nshape = \"graph\"\nforwarding = \"ecmp\"\nedge = [{{ between = [{first}, [\"a\", \"h1\"]] }}]\n\
             [transport]\nkind = \"roce\"\nroce.qps = 4\n[[workload]]\nfrom = 0\nto = 1\nbytes = 16_777_216\n"
        ));
        let ideal_us = results.fct_us.unwrap().max / results.slowdown.unwrap().max;
        // 16 MiB and their headers at 100 Gb/s.
        let least = 4096.0 * 4174.0 * 8.0 / 100e3;
        assert!((least..1.01 * least).contains(&ideal_us), "{ideal_us} us, at least {least}: {first}");
    }
}

/// Two ports at each end, and one link between the switches above them: 100 Gb/s are the measure, not twice as much.
#[test]
fn a_link_that_ports_share_counts_once_in_the_ideal() {
    let edges = "edge = [{ between = [[\"h0\", \"a\"], [\"h0\", \"b\"], [\"a\", \"c\"], [\"b\", \"c\"], [\"c\", \"d\"], \
                 [\"d\", \"e\"], [\"d\", \"f\"], [\"e\", \"h1\"], [\"f\", \"h1\"]] }]";
    for (kind, forwarding, overhead) in [("mrc", "srv6", 142.0), ("mrc", "ecmp", 102.0), ("roce", "ecmp", 78.0)] {
        let results = play(&format!(
            "[topology]\nshape = \"graph\"\nforwarding = \"{forwarding}\"\n{edges}\n[transport]\nkind = \"{kind}\"\nroce.qps = 2\n\
             roce.cc = \"none\"\n[[workload]]\nfrom = 0\nto = 1\nbytes = 8_192_000\n"
        ));
        let ideal_us = results.fct_us.unwrap().max / results.slowdown.unwrap().max;
        let least = 2000.0 * (4096.0 + overhead) * 8.0 / 100e3;
        assert!((least..1.02 * least).contains(&ideal_us), "{kind}, {forwarding}: {ideal_us} us, at least {least}");
        assert!((0.999..1.03).contains(&results.slowdown.unwrap().max), "{kind}, {forwarding}: {:?}", results.slowdown);
    }
}

#[test]
fn a_host_uses_all_its_ports_whatever_lies_behind_them() {
    let results = play(&format!("{UNEQUAL}[[workload]]\nfrom = 0\nto = 1\nbytes = 8000000\n"));
    let ideal_us = results.fct_us.unwrap().max / results.slowdown.unwrap().max;
    assert!((440.0..460.0).contains(&ideal_us), "8 MB and 3.5 % headers at 150 Gb/s: {ideal_us} us");
    assert!(results.fct_us.unwrap().max < 1.6 * ideal_us, "{:?}", results.fct_us);
    // Hosts with different numbers of ports talk by those that both have.
    let uneven =
        "[topology]\nshape = \"graph\"\nedge = [{ between = [[\"h0\", \"a\"], [\"h1\", \"a\"], [\"h0\", \"b\"]] }]\n";
    for kind in ["mrc", "roce"] {
        for seed in 1..5 {
            let text = format!("{uneven}[transport]\nkind = \"{kind}\"\n[[workload]]\nfrom = 0\nto = 1\n");
            let built = load_str("test.toml", &text, Path::new("."), &[], Some(seed)).unwrap();
            let results = run(&built, &Options::default(), &mut |_| {}).expect("a run").results;
            assert!(results.finished, "{kind}, {seed}: {:?}", results.diagnosis);
        }
    }
    // Two links to one switch are two ports.
    let twice =
        "[topology]\nshape = \"graph\"\nedge = [{ between = [[\"h0\", \"a\"], [\"h1\", \"a\"]], parallel = 2 }]\n";
    let results = play(&format!("{twice}[[workload]]\nfrom = 0\nto = 1\nbytes = 8000000\n"));
    assert!(results.goodput_gbit_per_s > 160.0, "{} Gb/s over two ports", results.goodput_gbit_per_s);
}

#[test]
fn cut_through_waits_where_the_next_link_is_faster() {
    let time = |gbps: u32, cut_through: bool| {
        let text = format!(
            "[topology]\nshape = \"dumbbell\"\nfabric_gbps = {gbps}\ncut_through = {cut_through}\n[transport]\nkind = \"roce\"\n\
             [[workload]]\nfrom = 0\nto = 2\nbytes = 4096\n"
        );
        let results = play(&text);
        let slowdown = results.slowdown.unwrap().max;
        assert!((0.999..1.01).contains(&slowdown), "{gbps} Gb/s, {cut_through}: {slowdown}");
        results.fct_us.unwrap().max * 1e3
    };
    // Two switches save the time of a packet (334 ns) and an acknowledgement (6 ns) each, but for 64 bytes (5 ns, twice).
    let saved = time(100, false) - time(100, true);
    assert!((654.0..666.0).contains(&saved), "{saved} ns");
    // In front of a link of 400 Gb/s the first switch stores; behind it the second one does not, but it, too, has to send at
    // a quarter of the rate: there the packet on the fast link (84 ns) is saved.
    let saved = time(400, false) - time(400, true);
    assert!((70.0..90.0).contains(&saved), "{saved} ns");
}

#[test]
fn slow_receivers_lose_what_they_cannot_take_or_pause_the_switch() {
    let stream = |rest: &str| {
        play(&format!(
            "[topology]\nt0 = 1\n{rest}[[workload]]\nfrom = 0\nto = 1\nbytes = 4000000\n[host]\nreceive_gbps = 40\n\
             receive_buffer_bytes = 100000\n"
        ))
    };
    let roce = |rest: &str| stream(&format!("[transport]\nkind = \"roce\"\n[transport.roce]\ncc = \"none\"\n{rest}"));
    let lossless = roce("");
    assert_eq!((lossless.drops, lossless.retransmitted_packets), (0, 0));
    assert!(lossless.pauses > 0 && lossless.finished);
    // 4 MB and headers at 40 Gb/s.
    assert!((817.0..840.0).contains(&lossless.end_us), "{} us", lossless.end_us);
    let lossy = roce("[queue]\npfc = false\n");
    assert!(lossy.finished && lossy.drops_by_cause.host_full > 0 && lossy.end_us > 900.0, "{:?}", lossy.drops_by_cause);
    let mrc = stream("");
    assert!(mrc.finished && mrc.end_us > 817.0, "{} us", mrc.end_us);
}

#[test]
fn jitter_of_hosts_delays_packets_and_keeps_their_order() {
    let time = |host: &str| {
        let text = format!(
            "[topology]\nt0 = 1\n{host}[transport]\nkind = \"roce\"\n[transport.roce]\nack_every = 1\n\
             [[workload]]\nfrom = 0\nto = 1\nbytes = 4096\nmessages = 400\ndepth = 1\n"
        );
        let results = play(&text);
        assert_eq!(results.retransmitted_packets, 0);
        results.fct_us.unwrap().mean
    };
    // Once at each end, a microsecond on average.
    let added = time("[host]\njitter_us = 2\n") - time("");
    assert!((1.85..2.15).contains(&added), "{added} us");
}

#[test]
fn graphs_that_cannot_be_are_refused_with_the_key() {
    let cases = [
        ("[topology]\nshape = \"graph\"\n", "topology.edge", "at least 2 hosts"),
        (
            "[topology]\nshape = \"graph\"\nedge = [{ between = [[\"h0\", \"a\"], [\"h1\", \"b\"]] }]\n",
            "topology.edge",
            "no link joins",
        ),
        (
            "[topology]\nshape = \"graph\"\nedge = [{ between = [[\"h0\", \"h1\"]] }]\n",
            "topology.edge",
            "at least 2 hosts",
        ),
        (
            "[topology]\nshape = \"graph\"\nedge = [{ between = [[\"h0\", \"a\"], [\"h2\", \"a\"]] }]\n",
            "topology.edge",
            "host 1 has 0 links",
        ),
        (
            "[topology]\nshape = \"graph\"\nedge = [{ between = [[\"h00\", \"a\"], [\"h1\", \"a\"]] }]\n",
            "topology.edge[0].between",
            "a host is called h0",
        ),
        (
            "[topology]\nshape = \"graph\"\nedge = [{ between = [[\"h0\", \"a-b\"], [\"h1\", \"a-b\"], [\"a-b\", \"c\"], \
             [\"a\", \"b-c\"], [\"a\", \"c\"]] }]\n",
            "topology.edge[0].between",
            "two links would be called `a-b-c`",
        ),
        ("[topology]\nshape = \"fat-tree\"\n", "topology.k", "needs it"),
        ("[topology]\nshape = \"fat-tree\"\nk = 5\n", "topology.k", "even"),
        ("[topology]\nshape = \"fat-tree\"\nk = 4\nt0 = 8\n", "topology.t0", "`k` sets it"),
        ("[topology]\nk = 4\n", "topology.k", "fat-tree"),
        ("[topology]\npods = 4\n", "topology.pods", "three-tier"),
        ("[topology]\nshape = \"fat-tree\"\nk = 4\nforwarding = \"stev\"\n", "topology.forwarding", "two tiers"),
        ("[topology]\n[host]\nreceive_buffer_bytes = 100000\n", "host.receive_buffer_bytes", "beside it"),
    ];
    for (text, key, message) in cases {
        let error = load(&format!("{text}[[workload]]\n")).unwrap_err();
        assert!(error.key == key && error.message.contains(message), "{text}: {error}");
    }
}

/// Packets that carry the address of a host, not of a port, go to its nearest port: the ideal time knows that.
#[test]
fn the_ideal_of_a_host_with_ports_on_two_switches_is_that_of_the_nearest() {
    // Port 0 of h0 is on `a`, and so is port 1 of h1; its port 0 is three switches away.
    let graph = "[topology]\nshape = \"graph\"\nedge = [{ between = [[\"h0\", \"a\"], [\"a\", \"b\"], \
        [\"b\", \"c\"], [\"c\", \"d\"], [\"h1\", \"d\"], [\"h1\", \"a\"]] }]\n";
    let stream = "[[workload]]\nfrom = 0\nto = 1\nbytes = 4096\n";
    // The acknowledgement may leave by the port that is farther away.
    for forwarding in ["ecmp", "adaptive"] {
        let results = play(&format!("{graph}forwarding = \"{forwarding}\"\n{stream}"));
        assert!((0.98..2.0).contains(&results.slowdown.unwrap().max), "{forwarding}: {:?}", results.slowdown);
    }
    let written = play(&format!("{graph}{stream}"));
    assert!((0.98..1.05).contains(&written.slowdown.unwrap().max), "srv6: {:?}", written.slowdown);
    assert!(written.end_us > play(&format!("{graph}forwarding = \"ecmp\"\n{stream}")).end_us);
}

/// Leaves from 256 on have micro-SIDs of their own.
#[test]
fn a_plane_has_more_than_256_leaves() {
    let text = "[topology]\nplanes = 2\nt0 = 300\nhosts_per_t0 = 1\nt1 = 3\n";
    let stream = |from: u32, to: u32| format!("[[workload]]\nfrom = {from}\nto = {to}\nbytes = 20000\n");
    let results = play(&format!("{text}{}{}{}", stream(0, 256), stream(299, 255), stream(257, 1)));
    assert_eq!((results.ended, results.drops), (RunEnd::Completed, 0));
    let error = load(&format!("{text}forwarding = \"conga\"\n{}", stream(0, 1))).unwrap_err();
    assert!(error.message.contains("256 leaves"), "{error}");
}

#[test]
fn faults_strike_what_a_graph_has() {
    let stream = "[[workload]]\nfrom = 0\nto = 127\nbytes = 4000000\n";
    for fault in [
        "target = [\"p0-t0a-t1a\", \"p0-t1a-t2b\"]\nkind = \"link-down\"\nat_us = 50\n",
        "kind = \"transceiver\"\nlanes = 2\nat_us = 50\nfor_us = 100\nrandom = 3\n",
        "kind = \"switch-down\"\ntier = \"t1\"\nrandom = 4\nat_us = 50\n",
        "kind = \"switch-down\"\ntarget = [\"p0-t2a\"]\nat_us = 50\nfor_us = 50\n",
    ] {
        let results = play(&format!("{FAT_TREE}{stream}[[fault]]\n{fault}"));
        assert_eq!(results.ended, RunEnd::Completed, "{fault}: {:?}", results.diagnosis);
    }
    // IP forwarding goes around links of its own that are down; what comes back through them is lost until it is retried.
    let around = play(&format!(
        "{FAT_TREE}forwarding = \"ecmp\"\n{stream}[[fault]]\nkind = \"link-down\"\ntarget = [\"p0-t0a-t1a\", \"p0-t0a-t1b\"]\n"
    ));
    assert!(around.finished && around.drops == around.drops_by_cause.link_down, "{:?}", around.drops_by_cause);
}

/// Links of a graph are called by their ends in the order of the file; the other order is a slip that the error mends.
#[test]
fn a_link_named_from_its_other_end_is_named_in_the_error() {
    let graph = "[topology]\nshape = \"graph\"\nedge = [{ between = [[\"h0\", \"s\"], [\"s\", \"h1\"]] }]\n";
    let fault = "[[workload]]\n[[fault]]\ntarget = [\"h1-s\"]\n";
    let error = load(&format!("{graph}{fault}")).unwrap_err().to_string();
    assert!(error.contains("no link is called `h1-s`") && error.ends_with("did you mean `s-h1`?"), "{error}");
}
