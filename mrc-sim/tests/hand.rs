//! Runs whose results can be reckoned by hand: times to the nanosecond, rates no higher than the links, nothing lost that
//! must not be, and losses by what took them.

mod common;

use std::path::Path;

use mrc_sim::run::Results;
use mrc_sim::scenario::load_str;

fn play(text: &str) -> Results {
    play_seed(3, text)
}

fn play_seed(seed: u64, text: &str) -> Results {
    common::play(text, &[], Some(seed))
}

/// One packet of RoCE and its acknowledgement over `fabric_hops` links between switches, all of 100 Gb/s and 500 ns, and
/// switches of 500 ns: in nanoseconds.
fn one_packet_ns(fabric_hops: u64) -> u64 {
    // Ethernet 14, IPv6 40, UDP 8, BTH 12, RETH 16, ICRC 4 around 4096; an ACK has an AETH of 4 in place of the RETH.
    let (data, ack) = (14 + 40 + 8 + 12 + 16 + 4096 + 4u64, 14 + 40 + 8 + 12 + 4 + 4u64);
    let links = 2 + fabric_hops;
    let bits = |bytes: u64| links * bytes * 8;
    (bits(data) + bits(ack)) / 100 + 2 * links * 500 + 2 * (links - 1) * 500
}

#[test]
fn a_packet_needs_its_serialisations_delays_and_switches_and_that_is_no_slowdown() {
    let shapes = [("t0 = 1", 0, 1), ("shape = \"dumbbell\"", 1, 2), ("t0 = 2", 2, 2)];
    for (shape, hops, to) in shapes {
        for kind in ["roce", "mrc"] {
            let results = play(&format!(
                "[topology]\n{shape}\n[transport]\nkind = \"{kind}\"\n[queue]\necn = false\n\
                 [[workload]]\nfrom = 0\nto = {to}\nbytes = 4096\n"
            ));
            let ns = results.fct_us.unwrap().max * 1e3;
            let most = if kind == "roce" { 8.0 } else { 80.0 };
            let hand = one_packet_ns(hops) as f64;
            assert!((-8.0..=most).contains(&(ns - hand)), "{kind} {shape}: {ns} ns, by hand {hand}");
            // Rounding apart; MRC's Port Status Updates share the links.
            assert!((0.999..1.03).contains(&results.slowdown.unwrap().max), "{kind} {shape}: {:?}", results.slowdown);
        }
    }
}

/// Two packets over two ports need the time of one: while one port sends the first, the other sends the second.
#[test]
fn ports_that_send_side_by_side_are_no_faster_than_the_ideal() {
    let fct = |planes: u32, packets: u32| {
        let bytes = packets * 4096;
        let results = play(&format!(
            "[topology]\nplanes = {planes}\nt0 = 1\nhost_gbps = 10\ncut_through = true\n[queue]\necn = false\n\
             [[workload]]\nfrom = 0\nto = 1\nbytes = {bytes}\n"
        ));
        (results.fct_us.unwrap().max, results.slowdown.unwrap().max)
    };
    let (one_us, _) = fct(1, 1);
    for (planes, packets) in [(2, 2), (4, 4)] {
        let (us, slowdown) = fct(planes, packets);
        assert!((us - one_us).abs() < 0.2, "{planes} planes: {us} us, one packet {one_us} us");
        assert!((0.98..1.05).contains(&slowdown), "{planes} planes: {slowdown}");
    }
}

/// A message of two packets, the second one short, of hosts that have links of 10 Gb/s and 500 ns: 0.8 ns for each byte.
fn two_packets(topology: &str, links: &str, payload: u32) -> (f64, f64) {
    let results = play(&format!(
        "[topology]\nhost_gbps = 10\nswitch_us = 0\n{topology}\n{links}[transport]\nkind = \"roce\"\n\
         [transport.roce]\nrecovery = \"selective-repeat\"\n[queue]\necn = false\n\
         [[workload]]\nfrom = 0\nto = 2\nbytes = {}\n",
        4096 + payload
    ));
    (results.fct_us.unwrap().max * 1e3, results.slowdown.unwrap().max)
}

/// Headers of RoCE around a payload; the first packet of a message has 16 bytes more. An acknowledgement has 82 bytes.
const ROCE_HEADERS: f64 = 78.0;

#[test]
fn a_short_last_packet_that_overtakes_a_full_one_is_no_faster_than_the_ideal() {
    // Each packet takes a spine of its own. The short one arrives first; four hops of the full one decide.
    let (ns, slowdown) = two_packets("forwarding = \"round-robin\"\nt1 = 2", "", 1000);
    let hand = 4.0 * 0.8 * (4096.0 + ROCE_HEADERS + 16.0) + 4.0 * 0.8 * 82.0 + 8.0 * 500.0;
    assert!((ns - hand).abs() < 8.0, "{ns} ns, by hand {hand}");
    assert!((0.999..1.01).contains(&slowdown), "{slowdown}");
}

#[test]
fn a_short_last_packet_is_done_sooner_behind_the_narrowest_link() {
    // One path: the link of the sender has a tenth of the rate of the others.
    let slow = "[[link]]\nname = [\"p0-hA\"]\ngbps = 1\n";
    let (ns, slowdown) = two_packets("shape = \"dumbbell\"", slow, 1000);
    let (first, last) = (4096.0 + ROCE_HEADERS + 16.0, 1000.0 + ROCE_HEADERS);
    // Both leave the sender one behind the other; behind it the second one waits for nobody.
    let hand = 8.0 * (first + last) + 2.0 * 0.8 * last + (2.0 * 0.8 + 8.0) * 82.0 + 6.0 * 500.0;
    assert!((ns - hand).abs() < 8.0, "{ns} ns, by hand {hand}");
    assert!((0.999..1.01).contains(&slowdown), "{slowdown}");
}

/// A Transport ACK completes a message, and it is 32 bytes shorter than a SACK.
#[test]
fn the_ideal_of_mrc_ends_with_a_transport_ack() {
    for (forwarding, outer, timestamps) in [("srv6", 40.0, true), ("ecmp", 0.0, true), ("ecmp", 0.0, false)] {
        let results = play(&format!(
            "[topology]\nhost_gbps = 1\nswitch_us = 0\nt0 = 1\nforwarding = \"{forwarding}\"\n[queue]\necn = false\n\
             [transport.mrc]\ntimestamps = {timestamps}\n[[workload]]\nfrom = 0\nto = 1\nbytes = 4096\n"
        ));
        // A time stamp takes 4 bytes of a data packet.
        let (data, ack) = (4096.0 + 98.0 + outer + if timestamps { 4.0 } else { 0.0 }, 82.0 + outer);
        let hand_us = (2.0 * 8.0 * (data + ack) + 4.0 * 500.0) / 1e3;
        let ideal_us = results.fct_us.unwrap().max / results.slowdown.unwrap().max;
        assert!((ideal_us - hand_us).abs() < 0.01, "{forwarding}: {ideal_us} us, by hand {hand_us}");
    }
}

/// A bin ends with its last nanosecond: what arrives then belongs to it, and no bin without a length follows.
#[test]
fn a_run_that_ends_with_a_bin_shows_no_drop_behind_it() {
    let scenario = |bin_us: f64| {
        format!(
            "bin_us = {bin_us}\n[topology]\nt0 = 1\n[transport]\nkind = \"roce\"\n[queue]\necn = false\n\
             [[workload]]\nfrom = 0\nto = 1\nbytes = 81920\n"
        )
    };
    let built = common::load(&scenario(100.0), &[], Some(3));
    let options = mrc_sim::run::Options { messages: true, ..Default::default() };
    let end_us = common::outcome(&built, &options).messages[0].delivered_us.unwrap();
    let rates = &play(&scenario(end_us)).timeline.goodput_gbit_per_s[0];
    assert_eq!(rates.len(), 1, "{rates:?}");
    assert!((rates[0] - 81_920.0 * 8.0 / (end_us * 1e3)).abs() < 1e-6, "{rates:?}");
}

/// A run of more samples than are kept: those that stay are equally far apart, so that each tells of the time since the one
/// before it.
#[test]
fn samples_that_stay_are_equally_far_apart() {
    let results = play(
        "sample_us = 0.5\n[topology]\nt0 = 1\n[transport]\nkind = \"roce\"\n[queue]\necn = false\n\
         [[workload]]\nfrom = 0\nto = 1\nbytes = 16384000\n",
    );
    let at = &results.timeline.at_us;
    let steps: Vec<f64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let (last, whole) = steps.split_last().unwrap();
    assert!(at.len() > 400 && whole.iter().all(|step| (step - 2.0).abs() < 1e-6), "{steps:?}");
    assert!(*last <= 2.0, "{last}");
    // 4000 packets of 4174 bytes, the first of 4190, keep one link of the tier busy.
    let hand = (3999.0 * 4174.0 + 4190.0) * 8.0 / 100e3;
    let load = results.timeline.links.iter().find(|load| load.tier == "host-up").unwrap();
    let busy: f64 = steps.iter().zip(&load.max_percent[1..]).map(|(us, percent)| us * percent / 100.0).sum();
    assert!((busy - hand).abs() < 0.01 * hand, "busy for {busy} us, by hand {hand}");
}

/// Samples that are joined show what a link that is busy for a fifth of the time has sent, as `--links` does for each link.
#[test]
fn the_busiest_link_of_samples_that_are_joined_is_as_busy_as_it_was() {
    let mut text =
        "sample_us = 1\n[topology]\nt0 = 1\n[transport]\nkind = \"roce\"\n[[workload]]\nkind = \"trace\"\nlines = \"\"\"\n".to_owned();
    (0..500).for_each(|nth| text += &format!("{},0,1,12288\n", 5 * nth));
    text += "\"\"\"\n";
    let options = mrc_sim::run::Options { links: true, ..Default::default() };
    let outcome = common::outcome(&common::load(&text, &[], Some(3)), &options);
    let line = &outcome.results.timeline;
    let load = line.links.iter().find(|load| load.tier == "host-up").unwrap();
    assert!((300..900).contains(&line.at_us.len()), "{} samples are left", line.at_us.len());
    for (at, percent) in line.at_us.iter().zip(&load.max_percent).skip(1) {
        let rows = outcome.links.iter().filter(|row| row.at_us == *at && row.upwards && row.link.contains("-h"));
        let most = rows.map(|row| row.percent).fold(0.0, f64::max);
        assert!((percent - most).abs() < 2.0, "{at} us: {percent} %, {most} % by link");
    }
}

/// A frame keeps its rate when that of its link changes. 4186 bytes at 1 Gb/s take 33.488 us, and the link has 100 Gb/s again from 20 us
/// on: until 30 us they are 1 % of it, then the rest of them and a second frame.
#[test]
fn a_frame_that_began_on_a_slow_link_leaves_slowly() {
    let text = "sample_us = 5\n[topology]\nt0 = 1\n[transport]\nkind = \"line-rate\"\n[[workload]]\nfrom = 0\nto = 1\nbytes = 8192\n\
        [[fault]]\nkind = \"slow\"\ngbps = 1\ntarget = [\"p0-hA\"]\nfor_us = 20\n";
    let options = mrc_sim::run::Options { links: true, ..Default::default() };
    let outcome = common::outcome(&common::load(text, &[], Some(1)), &options);
    let rows = outcome.links.iter().filter(|row| row.upwards && row.link == "p0-hA");
    let percent: Vec<f64> = rows.map(|row| row.percent).take(7).collect();
    assert_eq!(percent, [100.0, 100.0, 100.0, 100.0, 1.0, 1.0, 7.4]);
}

/// However short a sample is, a frame counts in those in which it leaves: a busy link shows 100 % in each of them.
#[test]
fn a_frame_longer_than_a_sample_counts_in_each() {
    for sample_us in ["0.1", "0.25", "7"] {
        let results = play(&format!(
            "sample_us = {sample_us}\n[topology]\nt0 = 1\n[transport]\nkind = \"roce\"\n[queue]\necn = false\n\
             [[workload]]\nfrom = 0\nto = 1\nbytes = 819200\n"
        ));
        let line = &results.timeline;
        // 200 packets of 4174 bytes, the first of 4190, from the start on.
        let hand = (199.0 * 4174.0 + 4190.0) * 8.0 / 100e3;
        let load = line.links.iter().find(|load| load.tier == "host-up").unwrap();
        let steps = line.at_us.windows(2).zip(&load.max_percent[1..]);
        let busy: f64 = steps.clone().map(|(at, percent)| (at[1] - at[0]) * percent / 100.0).sum();
        assert!((busy - hand).abs() < 0.01 * hand, "{sample_us}: busy for {busy} us, by hand {hand}");
        let full = steps.filter(|(at, _)| at[1] < hand);
        assert!(full.into_iter().all(|(_, percent)| *percent > 99.0), "{sample_us}: {:?}", load.max_percent);
    }
}

/// A link that a fault slows down or speeds up is busy by what it could have sent at the rates that it had, wherever the
/// fault stands between two samples.
#[test]
fn a_busy_link_whose_rate_changes_is_busy() {
    for (at, last) in [(100, 100), (130, 150), (100, 250)] {
        let results = play(&format!(
            "sample_us = 100\n[topology]\nt0 = 1\n[transport]\nkind = \"line-rate\"\n[transport.params]\nrto_us = 100000\n\
             [queue]\necn = false\ndata_bytes = 100000000\n[[workload]]\nfrom = 0\nto = 1\nbytes = 8192000\n\
             [[fault]]\nkind = \"slow\"\ngbps = 25\ntarget = [\"p0-hB\"]\nat_us = {at}\nfor_us = {last}\n"
        ));
        let load = results.timeline.links.iter().find(|load| load.tier == "t0-down").unwrap();
        // All packets through the link, some of them at a quarter of its rate; and the delay up to it.
        let end = 2000.0 * 4186.0 * 8.0 / 100e3 + f64::from(last) * 0.75 + 1.8;
        let busy = results.timeline.at_us[1..].iter().zip(&load.max_percent[1..]).filter(|(at, _)| **at < end);
        assert!(busy.clone().count() >= 7, "{:?}", results.timeline.at_us);
        busy.into_iter().for_each(|(_, percent)| assert!(*percent > 97.0, "{at}, {last}: {:?}", load.max_percent));
    }
}

/// A tree all-reduce has two trees without being asked, one the mirror image of the other, each with half of the vector.
#[test]
fn a_tree_all_reduce_has_two_trees() {
    let text = |channels| {
        format!(
            "[topology]\nt0 = 1\nhosts_per_t0 = 8\n[transport]\nkind = \"roce\"\n[[workload]]\n\
             kind = \"tree-all-reduce\"\nbytes = 163840\n{channels}"
        )
    };
    let all = |channels| {
        let options = mrc_sim::run::Options { messages: true, ..Default::default() };
        common::outcome(&common::load(&text(channels), &[], Some(3)), &options)
    };
    let two = all("");
    assert_eq!((two.messages.len(), two.messages[0].bytes), (2 * 2 * 7, 81_920));
    assert_eq!(two.results.digest, all("channels = 2\n").results.digest);
    let one = all("channels = 1\n").results.groups[0].bus_gbit_per_s.unwrap();
    let ratio = two.results.groups[0].bus_gbit_per_s.unwrap() / one;
    assert!((1.7..2.1).contains(&ratio), "two trees are {ratio} times as fast as one");
}

/// A table of so many links that it has no room for all samples is thinner than the time line, and the run is the same.
#[test]
fn a_table_by_link_changes_nothing_of_a_run() {
    let text = "partitions = 2\nsample_us = 0.019\n[topology]\nplanes = 8\nt0 = 17\nhosts_per_t0 = 16\nforwarding = \"adaptive\"\n\
                [transport]\nkind = \"line-rate\"\n[[workload]]\nkind = \"permutation\"\nbytes = 40000\n";
    let built = common::load(text, &[], Some(3));
    let [without, with] =
        [false, true].map(|links| common::outcome(&built, &mrc_sim::run::Options { links, ..Default::default() }));
    assert_eq!(with.results.fabric_digest, without.results.fabric_digest);
    assert_eq!(with.results.timeline, without.results.timeline);
    let mut samples: Vec<f64> = with.links.iter().map(|row| row.at_us).collect();
    samples.dedup();
    let line = with.results.timeline.at_us.len();
    assert!(line > 490 && (100..line).contains(&samples.len()), "{} of {line}", samples.len());
}

#[test]
fn slowdown_refers_to_the_rates_that_the_links_have() {
    // A flow alone on one path is as fast as it can be, whatever its links are.
    let slow_end = "[[link]]\nname = [\"p0-hD\"]\ngbps = 10\n";
    let slow_spine = "[[link]]\nname = [\"p0-t0b-t1a\"]\ngbps = 10\ndelay_us = 3\n";
    for links in ["", slow_end, slow_spine] {
        let results = play(&format!("[topology]\nt1 = 1\n{links}[[workload]]\nbytes = 8000000\n"));
        let slowdown = results.slowdown.unwrap().max;
        assert!((0.999..1.05).contains(&slowdown), "{links}: {slowdown}");
    }
    // Over two planes, of which one ends in a link of 10 Gb/s, 110 Gb/s are the measure.
    let results = play(&format!("[topology]\nplanes = 2\nt1 = 1\n{slow_end}[[workload]]\nbytes = 8000000\n"));
    let ideal_us = results.fct_us.unwrap().max / results.slowdown.unwrap().max;
    assert!((595.0..620.0).contains(&ideal_us), "8 MB and 3.5 % headers at 110 Gb/s: {ideal_us} us");
}

/// A long link is the same link by whichever key it became long: timers and windows know it. Not so where another path is short.
#[test]
fn long_links_set_the_base_round_trip() {
    let stream = "[[workload]]\nfrom = 0\nbytes = 4000000\n";
    for kind in ["mrc", "roce"] {
        let play = |text: &str| {
            play(&format!("{text}[transport]\nkind = \"{kind}\"\nroce.recovery = \"selective-repeat\"\n{stream}"))
        };
        let tier = play("[topology]\nshape = \"dumbbell\"\nfabric_delay_us = 500\n");
        let link = play("[topology]\nshape = \"dumbbell\"\n[[link]]\nname = [\"p0-t0a-t0b\"]\ndelay_us = 500\n");
        assert!(tier.slowdown.unwrap().max < 1.1, "{kind}: {:?}", tier.slowdown);
        assert_eq!((link.digest, link.slowdown), (tier.digest, tier.slowdown), "{kind}");
        let tier = play("[topology]\nhost_delay_us = 300\nfabric_delay_us = 0.5\n");
        let ends = "[topology]\n[[link]]\nname = [\"p0-hA\", \"p0-hB\", \"p0-hC\", \"p0-hD\"]\ndelay_us = 300\n";
        assert_eq!(play(ends).digest, tier.digest, "{kind}");
    }
    let rtt = |links: &str| {
        let built = common::load(&format!("[topology]\n{links}{stream}"), &[], None);
        let mrc_sim::scenario::TransportSettings::Mrc(mrc) = &built.transports[0].settings else { panic!("MRC") };
        mrc.rts.base_rtt_ns
    };
    let far = rtt("[[link]]\nname = [\"p0-t0a-t1a\"]\ndelay_us = 500\n");
    assert_eq!(far, rtt(""), "the other spine is as near as before");
    let both = rtt("[[link]]\nname = [\"p0-t0a-t1a\", \"p0-t0a-t1b\"]\ndelay_us = 500.5\n");
    assert_eq!(both, rtt("") + 2 * 500_000);
}

/// So is a fast one: the buffer that the ports of a switch share for PFC grows with it.
#[test]
fn fast_links_have_their_share_of_the_buffer() {
    let play = |text: &str| {
        play(&format!(
            "[topology]\nshape = \"dumbbell\"\nhosts_per_t0 = 4\n{text}[transport]\nkind = \"roce\"\nroce.cc = \"none\"\n\
             [queue]\necn = false\n[[workload]]\nkind = \"incast\"\nfan_in = 3\nto = 5\nbytes = 2000000\n\
             [[workload]]\nname = \"other\"\nkind = \"incast\"\nfan_in = 3\nto = 6\nbytes = 2000000\n"
        ))
    };
    let tier = play("fabric_gbps = 400\n");
    let link = play("[[link]]\nname = [\"p0-t0a-t0b\"]\ngbps = 400\n");
    assert!(tier.pauses > 0 && tier.drops == 0);
    assert_eq!((link.pauses, link.peak_queue_bytes, link.digest), (tier.pauses, tier.peak_queue_bytes, tier.digest));
}

#[test]
fn a_message_under_way_at_the_limit_does_not_raise_the_goodput() {
    let results = play(
        "limit_us = 500\n[topology]\nshape = \"dumbbell\"\n[[workload]]\nfrom = 0\nto = 2\nbytes = 1000\n\
         [[workload]]\nfrom = 1\nto = 3\nbytes = 1000000000\n",
    );
    assert_eq!((results.completed, results.finished), (1, false));
    assert!((80.0..100.0).contains(&results.goodput_gbit_per_s), "{} Gb/s", results.goodput_gbit_per_s);
}

#[test]
fn pfc_loses_nothing_however_many_senders_and_links_that_flap_stay_usable() {
    let incast = "limit_us = 100000\n[topology]\nhosts_per_t0 = 8\n[queue]\npfc_xoff_bytes = 40000\n[transport]\nkind = \"roce\"\n\
                  [transport.roce]\ncc = \"none\"\n[[workload]]\nkind = \"incast\"\nbytes = 500000\n";
    let results = play(incast);
    assert!(results.finished && results.pauses > 0);
    assert_eq!((results.drops, results.retransmitted_packets), (0, 0));
    // Senders are paused all the time: a cut meets their links while they are.
    for at_us in [20, 50, 100, 200] {
        for for_us in [0, 1, 3, 10] {
            let fault = format!(
                "[[fault]]\nkind = \"link-down\"\ntier = \"host\"\nrandom = 8\nat_us = {at_us}\nfor_us = {for_us}\n"
            );
            let results = play(&format!("{incast}{fault}"));
            assert!(results.finished && results.failed == 0, "cut at {at_us} us for {for_us} us");
            assert_eq!(results.drops, results.drops_by_cause.link_down, "{:?}", results.drops_by_cause);
        }
    }
}

#[test]
fn corrupt_packets_count_as_drops_and_faults_of_one_link_add_up() {
    let stream = "[topology]\nshape = \"dumbbell\"\n[[workload]]\nfrom = 0\nto = 2\nbytes = 8000000\n";
    let on = |kind: &str, rest: &str| format!("[[fault]]\nkind = \"{kind}\"\ntarget = [\"p0-t0a-t0b\"]\n{rest}\n");
    let corruption = on("corruption", "probability = 0.02");
    let corrupt = play(&format!("{stream}{corruption}"));
    assert!(corrupt.drops_by_cause.corrupt > 20 && corrupt.drops == corrupt.drops_by_cause.corrupt);
    let (loss, jitter) = (on("loss", "probability = 0.02"), on("jitter", "jitter_us = 1"));
    let all = play(&format!("{stream}{corruption}{loss}{jitter}"));
    assert!(all.drops_by_cause.corrupt > 20 && all.drops_by_cause.random > 20, "{:?}", all.drops_by_cause);
    // A link that slows down for a while returns to its own rate, not to that of its tier.
    let own = "[[link]]\nname = [\"p0-t0a-t0b\"]\ngbps = 20\n";
    let plain = play(&format!("{stream}{own}"));
    let slow = play(&format!("{stream}{own}{}", on("slow", "gbps = 10\nat_us = 100\nfor_us = 100")));
    let lost = slow.fct_us.unwrap().max - plain.fct_us.unwrap().max;
    assert!((30.0..80.0).contains(&lost), "half the rate for 100 us costs 50 us: {lost}");
}

#[test]
fn a_link_with_too_small_an_mtu_loses_long_frames_alone() {
    let fault = "[[fault]]\nkind = \"loss\"\ntarget = [\"p0-t0a-t1a\"]\nprobability = 1.0\nlonger_than = 1514\n";
    let write =
        |bytes: u32| play(&format!("[topology]\nhosts_per_t0 = 1\nt1 = 4\n[[workload]]\nbytes = {bytes}\n{fault}"));
    let (short, long) = (write(1_000), write(8_000_000));
    assert_eq!((short.completed, short.drops), (1, 0));
    // Probes are short: each brings the path back, and the next data on it are lost.
    let causes = &long.drops_by_cause;
    assert!(causes.random > 0 && causes.random == long.drops && long.control_drops == 0, "{causes:?}");
    assert_eq!((long.completed, long.retransmitted_packets), (1, causes.random));
    assert!(long.paths_retired > 0);
}

#[test]
fn retransmissions_of_roce_have_a_cause_each() {
    for recovery in ["go-back-n", "selective-repeat"] {
        let results = play(&format!(
            "[transport]\nkind = \"roce\"\n[transport.roce]\nrecovery = \"{recovery}\"\n[[workload]]\nbytes = 8000000\n\
             [[fault]]\nkind = \"loss\"\nprobability = 0.01\n"
        ));
        let causes = results.losses_by_cause;
        assert!(results.retransmitted_packets > 0);
        assert_eq!(
            causes.inferred + causes.nack + causes.timeout,
            results.retransmitted_packets,
            "{recovery}: {causes:?}"
        );
    }
}

#[test]
fn the_lanes_of_a_transceiver_go_together() {
    // Without a spread every lane of the two goes at its time; what is left of the leaf's four uplinks carries on.
    let built = load_str(
        "test.toml",
        "[topology]\nhosts_per_t0 = 8\n[[workload]]\nbytes = 1000\n[[fault]]\nkind = \"transceiver\"\nrandom = 4\n\
         stagger_us = 10\nwithin_us = 5\n",
        Path::new("."),
        &[],
        Some(3),
    )
    .unwrap();
    let times: Vec<u64> = built.faults.iter().map(|(at, _)| at.as_nanos()).collect();
    assert_eq!(times.len(), 16, "all four transceivers of the fabric, once each");
    for (nth, lanes) in times.chunks(4).enumerate() {
        assert!(lanes.iter().all(|at| *at == lanes[0]), "{lanes:?}");
        assert!((10_000 * nth as u64..=10_000 * nth as u64 + 5_000).contains(&lanes[0]), "{lanes:?}");
    }
}

#[test]
fn queue_pairs_that_share_a_window_and_short_round_trips_fill_the_link() {
    // A receiver that withholds 16 KiB of each queue pair would hold most of these windows.
    let stream = "[[workload]]\nfrom = 0\nto = 3\nbytes = 10000000\n";
    for settings in [
        "[transport.mrc]\nqps = 8\n",
        "[transport.mrc]\nqps = 64\n",
        "[topology]\nhost_delay_us = 0.05\nswitch_us = 0.05\n",
        "[topology]\nhost_gbps = 10\n",
    ] {
        let results = play(&format!("{settings}{stream}"));
        assert!(results.finished);
        assert!(results.slowdown.unwrap().max < 1.02, "{settings:?}: {:?}", results.slowdown);
    }
}

#[test]
fn every_plane_has_an_ev() {
    let load = |evs| {
        let text = format!("[topology]\nplanes = 4\n[transport.mrc]\nactive_evs = {evs}\n[[workload]]\nbytes = 1000\n");
        load_str("test.toml", &text, Path::new("."), &[], None).map(|_| ())
    };
    assert_eq!(load(4), Ok(()));
    let refusal = load(3).unwrap_err().to_string();
    assert!(
        refusal.starts_with("test.toml:4: transport.mrc.active_evs: 3: at least one for each of the 4"),
        "{refusal}"
    );
}

/// One seed may give a flow the better paths for all of its ten milliseconds: the mean of eight says how fair it is. Over
/// 80 draws of four senders that mean is 0.972, and those of eight lie between 0.963 and 0.983.
#[test]
fn long_flows_into_one_host_share_its_link() {
    const SEEDS: u64 = 8;
    for fan_in in [2, 4, 5] {
        let text = format!(
            "limit_us = 10000\n[topology]\nhosts_per_t0 = 8\n\
             [[workload]]\nkind = \"incast\"\nfirst = 8\nfan_in = {fan_in}\nbytes = 200000000\n"
        );
        let mut jain = 0.0;
        for seed in 1..=SEEDS {
            let results = play_seed(seed, &text);
            assert!(results.goodput_gbit_per_s > 90.0, "{fan_in} to one: {} Gb/s", results.goodput_gbit_per_s);
            jain += results.groups[0].jain / SEEDS as f64;
        }
        assert!(jain > 0.955, "{fan_in} to one: mean {jain}");
    }
}
