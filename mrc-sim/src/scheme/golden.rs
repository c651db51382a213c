//! Schemes against their algorithm as stated, packet by packet, on one leaf: sequences worked out by hand. The fabric has four
//! leaves of four hosts and four spines; the leaf is leaf 0 with hosts 0 to 3, and hosts 4 to 7 are below leaf 1.

use super::named;
use crate::fabric::one_switch::{OneSwitch, packet};
use crate::fabric::{Clos, Packet, Verdict};

fn leaf(name: &str, params: &[(&str, f64)]) -> OneSwitch {
    let scheme = params.iter().fold(named(name).unwrap(), |scheme, (key, value)| scheme.with(key, *value).unwrap());
    OneSwitch::leaf(Clos { planes: 1, t0: 4, t1: 4, hosts: 16, scheme, ..Clos::default() }, 0)
}

fn marked(mut packet: Packet) -> Packet {
    packet.header_mut()[15] |= 0x30;
    packet
}

fn with(mut packet: Packet, scratch: &[u8]) -> Packet {
    packet.scratch[..scratch.len()].copy_from_slice(scratch);
    packet
}

/// The uplinks of twelve flows from leaf 0 to leaf 1, three of each host.
fn of_flows(leaf: &mut OneSwitch) -> Vec<u16> {
    let flows = (0..4).flat_map(|host| (1..=3).map(move |sport| (host, sport)));
    flows.map(|(host, sport)| leaf.uplink(&mut packet(host, host + 4, sport))).collect()
}

/// The salt of leaf 0 is 0x0ec3569d4d20cb9c: splitmix64 from the fabric's seed, 1, xor "salts". Hash of a flow: sender + 1 in
/// the highest 16 bits, receiver from bit 20, port in the lowest 16, xor salt, through the finaliser of MurmurHash3. Its
/// upper half, as a fraction of 2^32, is where the flow lies. The expected uplinks were computed apart from this code.
mod hashing {
    use super::*;

    #[test]
    fn ecmp_cuts_the_hash_into_equal_shares() {
        let mut leaf = leaf("ecmp", &[]);
        let four = [1, 1, 1, 1, 1, 1, 3, 2, 1, 1, 1, 2];
        assert_eq!(of_flows(&mut leaf), four);
        assert_eq!(of_flows(leaf.at_us(500.0)), four, "a flow stays, whenever its packets come");
        leaf.set_up(2, false);
        assert_eq!(of_flows(&mut leaf), [1, 0, 0, 0, 0, 0, 3, 1, 1, 1, 0, 3], "thirds of 0, 1 and 3");
        assert!(leaf.foreseen.is_some());
        leaf.set_up(2, true);
        assert_eq!(of_flows(&mut leaf), four);
    }

    #[test]
    fn ecmp_does_not_look_at_queues_or_rates() {
        let mut leaf = leaf("ecmp", &[]);
        leaf.set_queue(1, 1_000_000);
        leaf.set_gbps(1, 1);
        assert_eq!(of_flows(&mut leaf), [1, 1, 1, 1, 1, 1, 3, 2, 1, 1, 1, 2]);
    }

    /// Uplinks of 100, 50, 100 and 150 Gb/s: shares of 400 that end at 100, 150, 250 and 400. The flows lie at 171, 133, 123,
    /// 120, 132, 104, 359, 249, 184, 139, 109 and 293.
    #[test]
    fn wcmp_cuts_the_hash_by_rates() {
        let mut leaf = leaf("wcmp", &[]);
        assert_eq!(of_flows(&mut leaf), [1, 1, 1, 1, 1, 1, 3, 2, 1, 1, 1, 2], "equal rates: as ECMP");
        for (spine, gbps) in [(0, 100), (1, 50), (2, 100), (3, 150)] {
            leaf.set_gbps(spine, gbps);
        }
        assert_eq!(of_flows(&mut leaf), [2, 1, 1, 1, 1, 1, 3, 2, 2, 1, 1, 3]);
    }
}

/// Draws of leaf 0 among four uplinks: splitmix64 from the complement of its salt.
/// 2, 3, 0, 3, 3, 2, 2, 3, 3, 2, 2, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 3, 0.
mod drawing {
    use super::*;

    fn next(leaf: &mut OneSwitch) -> u16 {
        leaf.uplink(&mut packet(0, 4, 1))
    }

    #[test]
    fn rps_draws_for_every_packet_of_a_flow() {
        let mut leaf = leaf("rps", &[]);
        leaf.set_queue(2, 1_000_000);
        let drawn: Vec<u16> = (0..12).map(|_| next(&mut leaf)).collect();
        assert_eq!(drawn, [2, 3, 0, 3, 3, 2, 2, 3, 3, 2, 2, 0], "whatever waits there");
    }

    /// DRILL section 3.2, d = 2 and m = 1: the shortest of two drawn queues and of the one remembered.
    #[test]
    fn drill_takes_the_shortest_of_two_draws_and_the_best_of_last_time() {
        let mut leaf = leaf("drill", &[("samples", 2.0)]);
        for (spine, kb) in [(0, 30), (1, 20), (2, 10), (3, 40)] {
            leaf.set_queue(spine, kb * 1_000);
        }
        assert_eq!(next(&mut leaf), 2, "of 2 and 3; nothing is remembered");
        assert_eq!(next(&mut leaf), 2, "of 0 and 3 and, remembered, 2");
        assert_eq!(next(&mut leaf), 2, "of 3 and 2");
        leaf.set_queue(2, 50_000);
        assert_eq!(next(&mut leaf), 3, "of 2 and 3: the memory says where to look, not how long the queue was");
        assert_eq!(next(&mut leaf), 3, "of 3 and 2");
        assert_eq!(next(&mut leaf), 0, "of 2 and 0, remembered 3");
        assert_eq!(next(&mut leaf), 1, "1 twice");
        assert_eq!(next(&mut leaf), 1);
        assert_eq!(next(&mut leaf), 1, "0 twice; remembered 1 is shorter");
        assert_eq!(next(&mut leaf), 1, "and again");
        for spine in 0..4 {
            leaf.set_queue(spine, 0);
        }
        assert_eq!(next(&mut leaf), 1);
        assert_eq!(next(&mut leaf), 3, "of 3 and 0 at level with what is remembered: the first drawn");
    }

    #[test]
    fn drill_forgets_an_uplink_without_carrier() {
        let mut leaf = leaf("drill", &[("samples", 1.0)]);
        for spine in [0, 2, 3] {
            leaf.set_queue(spine, 10_000);
        }
        let until = (0..100).position(|_| next(&mut leaf) == 1).expect("one of a hundred draws");
        assert!((0..50).all(|_| next(&mut leaf) == 1), "remembered after {until}");
        leaf.set_up(1, false);
        assert!((0..50).all(|_| next(&mut leaf) != 1));
    }
}

mod conga {
    use super::*;

    /// A packet from leaf 1 that brings back: on uplink `tag` of ours the congestion was `metric`.
    fn feedback(leaf: &mut OneSwitch, tag: u8, metric: u8) {
        // Present, from leaf 1, its uplink 0 without congestion, feedback (the tag counts from 1).
        let mut packet = with(packet(4, 0, 9), &[1, 1, 0, 0, tag + 1, metric]);
        assert!(matches!(leaf.forward(&mut packet), Verdict::To(_)));
        assert_eq!(packet.scratch, [0; 16], "hosts see nothing of it");
    }

    /// CONGA section 3.5: a flowlet takes the uplink with the least max(own, remote); within the gap it stays, after it the
    /// last uplink wins ties.
    #[test]
    fn a_flowlet_takes_the_least_congested_path_and_stays_on_it() {
        let mut leaf = leaf("conga", &[("gap_us", 100.0)]);
        for (tag, metric) in [(0, 3), (1, 1), (2, 5), (3, 2)] {
            feedback(leaf.at_us(0.0), tag, metric);
        }
        assert_eq!(leaf.at_us(1.0).uplink(&mut packet(0, 4, 1)), 1);
        // The metric of that path rises: the flowlet stays for as long as it is not silent for more than the gap.
        feedback(&mut leaf, 1, 6);
        assert_eq!(leaf.at_us(101.0).uplink(&mut packet(0, 4, 1)), 1);
        assert_eq!(leaf.at_us(201.1).uplink(&mut packet(0, 4, 1)), 3, "2 is the least now");
        // Another flow begins where it is best; at equal metrics a flow stays where it was.
        assert_eq!(leaf.uplink(&mut packet(1, 4, 2)), 3);
        feedback(&mut leaf, 0, 2);
        assert_eq!(leaf.at_us(400.0).uplink(&mut packet(0, 4, 1)), 3, "0 and 3 are level");
    }

    /// A window of two: only uplink 0 is free, and the flows whose window begins elsewhere do not see it. Without congestion
    /// the outer uplinks are in one window of three, the inner ones in two.
    #[test]
    fn a_window_hides_the_uplinks_outside_of_it() {
        let share = |metrics: [u8; 4]| {
            let mut leaf = leaf("conga", &[("window", 2.0), ("tau_us", 1e6)]);
            for (tag, metric) in metrics.into_iter().enumerate() {
                feedback(&mut leaf, tag as u8, metric);
            }
            let mut count = [0; 4];
            for flow in 0..3_000 {
                count[usize::from(leaf.uplink(&mut packet(0, 4, flow)))] += 1;
            }
            count
        };
        let close = |count: i32, expect: i32| (count - expect).abs() < 120;
        let taken = share([0, 7, 7, 7]);
        assert!(close(taken[0], 1_000) && close(taken[2], 1_000), "{taken:?}");
        let taken = share([1; 4]);
        assert!(close(taken[0], 500) && close(taken[1], 1_000) && close(taken[3], 500), "{taken:?}");
    }

    /// Section 3.3: a packet tells its uplink and leaf, and feeds back what came from the leaf it goes to.
    #[test]
    fn packets_carry_their_uplink_and_feedback() {
        let mut leaf = leaf("conga", &[]);
        let mut first = packet(0, 4, 1);
        let uplink = leaf.uplink(&mut first);
        assert_eq!(first.scratch[..6], [1, 0, uplink as u8, 0, 0, 0], "nothing came from leaf 1 yet");
        // From leaf 1 by its uplink 2 with congestion 5.
        leaf.forward(&mut with(packet(4, 0, 9), &[1, 1, 2, 5, 0, 0]));
        let mut second = packet(0, 4, 1);
        leaf.uplink(&mut second);
        assert_eq!(second.scratch[4..6], [3, 5], "uplink 2, counted from 1, has congestion 5");
        let mut other = packet(0, 8, 1);
        leaf.uplink(&mut other);
        assert_eq!(other.scratch[4..6], [0, 0], "leaf 2 sent nothing");
    }

    /// Section 3.3, aging: two leaves talk all the time, but no flow takes uplink 0 since it was congested. The metric that the other
    /// leaf keeps of it halves every 10 ms, so that its feedback does not hold the path congested for ever.
    #[test]
    fn feedback_about_a_path_that_nobody_takes_decays() {
        let mut leaf = leaf("conga", &[]);
        leaf.at_us(0.0).forward(&mut with(packet(4, 0, 9), &[1, 1, 0, 7, 0, 0]));
        let mut fed = |ms: f64| {
            leaf.at_us(ms * 1e3).forward(&mut with(packet(4, 0, 9), &[1, 1, 1, 0, 0, 0]));
            let mut told = [0; 2];
            for _ in 0..2 {
                let mut packet = packet(0, 4, 1);
                leaf.uplink(&mut packet);
                told[usize::from(packet.scratch[4]) - 1] = packet.scratch[5];
            }
            told
        };
        assert_eq!([1.0, 9.0, 11.0, 21.0, 31.0].map(&mut fed), [[7, 0], [7, 0], [3, 0], [1, 0], [0, 0]]);
    }
}

mod letflow {
    use super::*;

    /// The gap begins with the latest packet, and a flow that is silent for exactly the gap stays.
    #[test]
    fn only_silence_above_the_gap_draws_a_new_uplink() {
        let mut leaf = leaf("letflow", &[("gap_us", 10.0)]);
        let first = leaf.uplink(&mut packet(0, 4, 1));
        for nth in 1..=100 {
            assert_eq!(leaf.at_us(f64::from(nth) * 10.0).uplink(&mut packet(0, 4, 1)), first);
        }
        let mut seen = [false; 4];
        for nth in 1..=100 {
            seen[usize::from(leaf.at_us(1_000.0 + f64::from(nth) * 10.001).uplink(&mut packet(0, 4, 1)))] = true;
        }
        assert_eq!(seen, [true; 4]);
    }

    /// When an uplink loses its carrier or gets it back, only its own flows move: all others would be out of order.
    #[test]
    fn only_flows_of_a_dead_uplink_move() {
        let mut leaf = leaf("letflow", &[("gap_us", 1_000.0)]);
        let of_flows =
            |leaf: &mut OneSwitch| -> Vec<u16> { (0..32).map(|flow| leaf.uplink(&mut packet(0, 4, flow))).collect() };
        let before = of_flows(&mut leaf);
        leaf.set_up(1, false);
        let after = of_flows(&mut leaf);
        let stayed =
            before.iter().zip(&after).filter(|(before, _)| **before != 1).all(|(before, after)| before == after);
        assert!(stayed && before.contains(&1) && !after.contains(&1), "{before:?} {after:?}");
        leaf.set_up(1, true);
        assert_eq!(of_flows(&mut leaf), after);
    }
}

mod conweave {
    use super::*;

    const DATA: u8 = 1;
    const REQUEST: u8 = 2;
    const TAIL: u8 = 4;
    const REROUTED: u8 = 8;
    const REPLY: u8 = 0x81;
    const CLEAR: u8 = 0x82;
    const NOTIFY: u8 = 0x83;

    /// Sends a packet of the flow; its uplink, flags and epoch.
    fn step(leaf: &mut OneSwitch) -> (u16, u8, u8) {
        let mut packet = packet(0, 4, 1);
        let uplink = leaf.uplink(&mut packet);
        (uplink, packet.scratch[0], packet.scratch[1])
    }

    /// A control message of leaf 1 about flow 1 from host 0 to host 4.
    fn hear(leaf: &mut OneSwitch, kind: u8, epoch: u8, path: u8) {
        let flow = super::super::ip::flow(&packet(0, 4, 1));
        let mut message = with(packet(4, 0, 0), &[kind, epoch, path, 1]);
        message.scratch[8..].copy_from_slice(&flow.to_be_bytes());
        message.control = true;
        assert_eq!(leaf.forward(&mut message), Verdict::Consume);
    }

    /// The source leaf: request, late reply, TAIL on the old path, the rest on the new one until CLEAR, then a new epoch.
    #[test]
    fn a_late_reply_moves_the_flow_behind_a_tail() {
        let mut leaf = leaf("conweave", &[("reply_us", 10.0)]);
        let (old, flags, epoch) = step(leaf.at_us(0.0));
        assert_eq!((flags, epoch), (DATA | REQUEST, 1));
        assert_eq!(step(leaf.at_us(5.0)), (old, DATA, 1), "the reply may still come");
        // The idle round trip is below 10 us: at 25 us the reply is late. Both draws may fall on the old path, so try on.
        leaf.at_us(25.0);
        let mut tail = step(&mut leaf);
        let mut at = 25.0;
        while tail.1 & TAIL == 0 {
            // No better path was drawn: the epoch ends, and the next one asks again.
            assert_eq!(tail, (old, DATA, tail.2));
            assert_eq!(step(&mut leaf), (old, DATA | REQUEST, tail.2 + 1));
            at += 25.0;
            tail = step(leaf.at_us(at));
        }
        assert_eq!(tail.1, DATA | TAIL);
        let epoch = tail.2;
        let (new, flags, same) = step(&mut leaf);
        assert_eq!((flags, same), (DATA | REROUTED, epoch));
        assert!(new != old, "the TAIL is the last one on {old}");
        assert_eq!(step(leaf.at_us(at + 100.0)), (new, DATA | REROUTED, epoch), "it asks no more until CLEAR");
        hear(&mut leaf, CLEAR, epoch.wrapping_sub(1), 0);
        assert_eq!(step(&mut leaf).1, DATA | REROUTED, "a CLEAR of another epoch is none");
        hear(&mut leaf, CLEAR, epoch, 0);
        assert_eq!(step(&mut leaf), (new, DATA | REQUEST, epoch + 1));
    }

    #[test]
    fn a_reply_in_time_keeps_the_flow_and_begins_an_epoch() {
        let mut leaf = leaf("conweave", &[("reply_us", 10.0)]);
        let (path, _, epoch) = step(leaf.at_us(0.0));
        hear(leaf.at_us(6.0), REPLY, epoch, 0);
        assert_eq!(
            step(leaf.at_us(50.0)),
            (path, DATA | REQUEST, epoch + 1),
            "late as the packet is, the reply was not"
        );
        // Silence above `inactive_us` begins a new epoch whatever was awaited.
        assert_eq!(step(leaf.at_us(360.0)).1, DATA | REQUEST);
    }

    /// Paths that NOTIFY named are no alternative for `busy_us`.
    #[test]
    fn busy_paths_are_not_drawn() {
        let mut leaf = leaf("conweave", &[("reply_us", 1.0), ("busy_us", 1000.0)]);
        let (old, ..) = step(leaf.at_us(0.0));
        for path in (0..4).filter(|&path| u16::from(path) != old) {
            hear(&mut leaf, NOTIFY, 0, path);
        }
        for nth in 1..40 {
            let (path, flags, _) = step(leaf.at_us(f64::from(nth) * 20.0));
            assert_eq!((path, flags & (TAIL | REROUTED)), (old, 0), "all others are busy");
        }
    }

    /// The destination leaf: what the new path brings waits for the TAIL; REPLY, CLEAR and NOTIFY go to the source leaf.
    #[test]
    fn the_destination_leaf_restores_the_order_and_answers() {
        let mut leaf = leaf("conweave", &[]);
        let from = |flags: u8, epoch: u8, path: u8| with(packet(4, 0, 7), &[flags, epoch, path, 1]);
        let kinds = |leaf: &mut OneSwitch| leaf.sent().iter().map(|packet| packet.scratch[0]).collect::<Vec<_>>();
        assert!(matches!(leaf.at_us(1.0).forward(&mut from(DATA | REQUEST, 1, 0)), Verdict::To(_)));
        assert_eq!(kinds(&mut leaf), [REPLY]);
        assert!(matches!(leaf.forward(&mut marked(from(DATA, 1, 0))), Verdict::To(_)));
        assert_eq!(kinds(&mut leaf), [NOTIFY], "path 0 is busy");
        assert!(matches!(leaf.forward(&mut marked(from(DATA, 1, 0))), Verdict::To(_)));
        assert!(kinds(&mut leaf).is_empty(), "and was said to be");
        let Verdict::Hold { queue, .. } = leaf.at_us(2.0).forward(&mut from(DATA | REROUTED, 1, 2)) else {
            panic!("it overtook the TAIL");
        };
        assert!(
            matches!(leaf.forward(&mut from(DATA | REROUTED, 1, 2)), Verdict::Hold { queue: same, .. } if same == queue)
        );
        assert!(matches!(leaf.forward(&mut from(DATA, 1, 0)), Verdict::To(_)), "the old path goes first");
        assert!(leaf.released().is_empty());
        assert!(matches!(leaf.at_us(3.0).forward(&mut from(DATA | TAIL, 1, 0)), Verdict::To(_)));
        assert_eq!((leaf.released(), kinds(&mut leaf)), (vec![queue], vec![CLEAR]));
        assert!(matches!(leaf.forward(&mut from(DATA | REROUTED, 1, 2)), Verdict::To(_)), "nothing is awaited");
    }

    /// A trimmed packet overtakes others: a trimmed TAIL does not let go what the packets before it are to precede.
    #[test]
    fn a_trimmed_tail_is_no_tail() {
        let mut leaf = leaf("conweave", &[]);
        let from = |flags: u8| with(packet(4, 0, 7), &[flags, 1, 0, 1]);
        leaf.at_us(1.0).forward(&mut from(DATA | REQUEST));
        assert!(matches!(leaf.at_us(2.0).forward(&mut from(DATA | REROUTED)), Verdict::Hold { .. }));
        leaf.sent();
        let mut tail = from(DATA | TAIL);
        (tail.control, tail.flags) = (true, crate::fabric::packet::TRIMMED);
        assert!(matches!(leaf.at_us(3.0).forward(&mut tail), Verdict::To(_)));
        assert!(leaf.released().is_empty() && leaf.sent().is_empty());
        assert!(matches!(leaf.at_us(4.0).forward(&mut from(DATA)), Verdict::To(_)), "sent before the TAIL");
    }

    /// A TAIL that is lost does not hold packets for ever: they go when it should have come.
    #[test]
    fn held_packets_go_without_the_tail_in_the_end() {
        let mut leaf = leaf("conweave", &[("resume_us", 16.0)]);
        let from = |flags: u8| with(packet(4, 0, 7), &[flags, 1, 0, 1]);
        leaf.at_us(1.0).forward(&mut from(DATA | REQUEST));
        leaf.timers();
        let Verdict::Hold { queue, .. } = leaf.at_us(2.0).forward(&mut from(DATA | REROUTED)) else { panic!() };
        let timers = leaf.timers();
        let (at, timer) = timers[timers.len() - 1];
        assert_eq!((at.as_nanos(), timer), (17_000, queue), "16 us after the latest of the old path");
        leaf.now = at;
        leaf.fire(timer);
        assert_eq!(leaf.released(), [queue]);
    }
}

mod reunion {
    use super::*;

    const DATA: u8 = 1;
    const ELEPHANT: u8 = 2;
    const NOTIFICATION: u8 = 0x80;
    /// Kinds of links in packets.
    const UP: u8 = 1;
    const DOWN: u8 = 2;

    fn reunion() -> OneSwitch {
        leaf("reunion", &[("interval_us", 50.0)])
    }

    /// Section 3.3: the first t elephants of a port mark nothing; one more, and every packet there without a bottleneck takes
    /// the link along.
    #[test]
    fn more_elephants_than_tolerated_mark_the_uplink() {
        let mut leaf = reunion();
        // Flows until two share an uplink; with five flows on four uplinks they do.
        let mut on: [Vec<u16>; 4] = Default::default();
        for sport in 1..=5 {
            let mut packet = packet(0, 4, sport);
            let uplink = leaf.uplink(&mut packet);
            // The table of the largest has t times uplinks = 4 places; the fifth flow is no larger than the others.
            assert_eq!(packet.scratch[0], if sport <= 4 { DATA | ELEPHANT } else { DATA }, "flow {sport}");
            let shared = sport <= 4 && !on[usize::from(uplink)].is_empty();
            let expected = if shared { [UP, 0, uplink as u8] } else { [0; 3] };
            assert_eq!(packet.scratch[3..6], expected, "flow {sport} on {uplink}");
            if sport <= 4 {
                on[usize::from(uplink)].push(sport);
            }
        }
        // The next interval begins anew.
        let mut packet = packet(0, 4, 2);
        leaf.at_us(51.0).uplink(&mut packet);
        assert_eq!(packet.scratch[3..6], [0; 3]);
    }

    /// Sections 3.4 and 3.5, algorithm 1: per bottleneck one notification to the leaf of the flow that reported it last, with
    /// the bottleneck and all links that carry t elephants or more.
    #[test]
    fn the_destination_leaf_notifies_one_flow_for_each_bottleneck() {
        let mut leaf = reunion();
        // Elephants to hosts below leaf 0: two from leaf 1 by spine 2, which share the uplink, one from leaf 2 by spine 3.
        let bottleneck = [UP, 1, 2];
        let elephant = |from: u32, sport: u16, path: u8, of: u8, bottleneck: [u8; 3]| {
            let [kind, leaf, spine] = bottleneck;
            with(packet(from, 0, sport), &[DATA | ELEPHANT, path, of, kind, leaf, spine])
        };
        leaf.at_us(5.0).forward(&mut elephant(4, 1, 2, 1, [0; 3]));
        let timers = leaf.timers();
        assert_eq!((timers[0].0.as_nanos(), timers.len()), (49_999, 1), "leaves act at the end of the interval");
        leaf.forward(&mut elephant(5, 2, 2, 1, bottleneck));
        leaf.forward(&mut elephant(8, 3, 3, 2, [0; 3]));
        leaf.forward(&mut with(packet(9, 0, 4), &[DATA, 1, 2]));
        leaf.at_us(49.999).fire(0);
        let sent = leaf.sent();
        let [notification] = &sent[..] else { panic!("one bottleneck, one notification: {}", sent.len()) };
        assert_eq!(super::super::ip::host_of(notification) / 4, 1, "to leaf 1");
        let flow = super::super::ip::flow(&packet(5, 0, 2)).to_be_bytes();
        assert_eq!(
            (notification.scratch[0], &notification.scratch[8..]),
            (NOTIFICATION, &flow[..]),
            "the last reporter"
        );
        let links: Vec<_> = notification.header()[58..].chunks(3).map(|link| [link[0], link[1], link[2]]).collect();
        let mut used = links[1..].to_vec();
        used.sort_unstable();
        assert_eq!(links[0], bottleneck);
        assert_eq!(used, [[UP, 1, 2], [UP, 2, 3], [DOWN, 0, 2], [DOWN, 0, 3]], "the mouse from leaf 2 does not count");
        assert_eq!(notification.wire_len, 64 + 3 * 5);
    }

    /// Section 3.6, algorithm 2: the flow moves to the first path whose links are neither named nor in use by this leaf.
    #[test]
    fn the_source_leaf_moves_the_flow_to_the_first_free_path() {
        for closed in 0..4u8 {
            let mut leaf = reunion();
            let own = leaf.uplink(&mut packet(0, 4, 1)) as u8;
            let mut order = with(packet(4, 0, 0), &[NOTIFICATION, 2]);
            order.scratch[8..].copy_from_slice(&super::super::ip::flow(&packet(0, 4, 1)).to_be_bytes());
            order.control = true;
            order.set_header_len(64);
            // Its uplink is the bottleneck, and the link from spine `closed` to leaf 1 is highly used.
            order.header_mut()[58..64].copy_from_slice(&[UP, 0, own, DOWN, 1, closed]);
            assert_eq!(leaf.at_us(10.0).forward(&mut order), Verdict::Consume);
            assert_eq!(leaf.uplink(&mut packet(0, 4, 1)), u16::from(own), "not before the interval ends");
            leaf.at_us(49.999).fire(0);
            let first = (0..4).find(|&path| path != own && path != closed).unwrap();
            assert_eq!(leaf.at_us(50.1).uplink(&mut packet(0, 4, 1)), u16::from(first), "closed {closed}, own {own}");
        }
    }

    /// Section 3.6, algorithm 2: a path that carries an elephant of this leaf already is not free, though nobody named it.
    #[test]
    fn a_path_with_another_elephant_is_not_free() {
        let mut moves = 0;
        for before in 0..12 {
            let mut leaf = reunion();
            // Flows of the interval before, so that the next ones draw other uplinks.
            (1..=before).for_each(|sport| _ = leaf.uplink(&mut packet(0, 4, sport)));
            let uplinks = [101, 102, 103].map(|sport| leaf.at_us(51.0).uplink(&mut packet(0, 4, sport)));
            let mut order = with(packet(4, 0, 0), &[NOTIFICATION, 1]);
            order.scratch[8..].copy_from_slice(&super::super::ip::flow(&packet(0, 4, 101)).to_be_bytes());
            order.control = true;
            order.set_header_len(61);
            order.header_mut()[58..61].copy_from_slice(&[UP, 0, uplinks[0] as u8]);
            leaf.at_us(60.0).forward(&mut order);
            leaf.at_us(99.999).fire(0);
            let free = (0..4).find(|path| !uplinks.contains(path)).expect("three flows on four uplinks");
            moves += u16::from(free > 0);
            assert_eq!(leaf.at_us(100.1).uplink(&mut packet(0, 4, 101)), free, "elephants on {uplinks:?}");
        }
        assert!(moves > 3, "the first path was free {} times of 12", 12 - moves);
    }

    /// Section 3.7: a flow moves at most once in an interval, though two bottlenecks name it. It takes the first path that is free of both.
    #[test]
    fn a_flow_that_is_named_twice_moves_once() {
        let mut leaf = reunion();
        let own = leaf.uplink(&mut packet(0, 4, 1)) as u8;
        for bottleneck in [[UP, 0, own], [DOWN, 1, own]] {
            let mut order = with(packet(4, 0, 0), &[NOTIFICATION, 1]);
            order.scratch[8..].copy_from_slice(&super::super::ip::flow(&packet(0, 4, 1)).to_be_bytes());
            order.control = true;
            order.set_header_len(61);
            order.header_mut()[58..61].copy_from_slice(&bottleneck);
            leaf.at_us(10.0).forward(&mut order);
        }
        leaf.at_us(49.999).fire(0);
        let first = (0..4).find(|&path| path != own).unwrap();
        assert_eq!(leaf.at_us(50.1).uplink(&mut packet(0, 4, 1)), u16::from(first));
    }

    /// No free path: the flow stays.
    #[test]
    fn without_a_free_path_a_flow_stays() {
        let mut leaf = reunion();
        let own = leaf.uplink(&mut packet(0, 4, 1)) as u8;
        let mut order = with(packet(4, 0, 0), &[NOTIFICATION, 5]);
        order.scratch[8..].copy_from_slice(&super::super::ip::flow(&packet(0, 4, 1)).to_be_bytes());
        order.control = true;
        order.set_header_len(73);
        let links = [[UP, 0, own], [DOWN, 1, 0], [DOWN, 1, 1], [DOWN, 1, 2], [DOWN, 1, 3]];
        order.header_mut()[58..73].copy_from_slice(&links.concat());
        leaf.at_us(10.0).forward(&mut order);
        leaf.at_us(49.999).fire(0);
        assert_eq!(leaf.at_us(50.1).uplink(&mut packet(0, 4, 1)), u16::from(own));
    }
}
