//! How control packets find return paths when most paths have failed, in virtual time.

mod common;

use common::{Net, Setup, Weather, net};
use mrc_core::path::EvState;
use mrc_core::{EndpointConfig, EvReport, Instant, PortMask, QpState, RetryConfig};
use mrc_wire::{Body, Ev, PortNum, WireConfig, parse_frame};

const SECOND: u64 = 1_000_000_000;

/// All EVs of the harness's profile, by plane.
fn evs(plane: u32) -> impl Iterator<Item = Ev> {
    (0..8).map(move |uplink| Ev(plane << 8 | uplink))
}

/// Answers of side 1 since the last call: on dead ways, on live ones.
fn answers(net: &mut Net<'_>) -> (u64, u64) {
    let sums = net
        .answers
        .iter()
        .filter(|((from, ..), _)| *from == 1)
        .fold((0, 0), |sum, ((_, _, dead), n)| if *dead { (sum.0 + n, sum.1) } else { (sum.0, sum.1 + n) });
    net.answers.clear();
    sums
}

/// Messages of 10 packets from side 0, one after the other, for `ns`.
fn traffic(net: &mut Net<'_>, ns: u64) {
    let end = net.now.as_nanos() + ns;
    while net.now.as_nanos() < end {
        let done = net.sides[0].completions.len();
        assert_eq!(net.sides[0].info(0).state, QpState::Rts);
        net.post(0, 0, 0, 10_000).unwrap();
        assert!(net.run(net.now.as_nanos() + SECOND, |net| net.completed(done + 1)), "a message never completes");
    }
}

//= REV-001, REV-003, REV-005, RES-005 test
#[test]
fn a_side_that_only_receives_probes_its_return_paths() {
    for seed in 0..2 {
        // However long it takes to find the one way that works.
        let retry = RetryConfig { exponential: 25, ..Setup::default().retry };
        let setup = Setup { one_way: true, retry, ..Setup::default() };
        net(seed, &setup, Weather::default(), |net| {
            assert_eq!(net.sides[1].info(0).state, QpState::Rtr);
            // One way of eight is left on each plane.
            let alive = [Ev(seed as u32), Ev(0x107 - seed as u32)];
            net.dead_ways = (0..2).flat_map(evs).filter(|ev| !alive.contains(ev)).map(|ev| (1, ev)).collect();
            traffic(net, 6_000_000);
            answers(net);
            traffic(net, 2_000_000);
            let (dead, live) = answers(net);
            assert!(live > 100 && dead * 20 < live, "{dead} answers on dead ways, {live} on live ones");
            let stats = net.sides[1].engine.stats();
            assert!(stats.return_path_found > 2 && stats.return_path_lost > 2, "{stats:?}");
            assert_eq!(net.sides[0].engine.stats().qp_errors, 0);

            // The live ways die, others come to life: found again without an error.
            let alive = [Ev(7 - seed as u32), Ev(0x100 + seed as u32)];
            net.dead_ways = (0..2).flat_map(evs).filter(|ev| !alive.contains(ev)).map(|ev| (1, ev)).collect();
            traffic(net, 8_000_000);
            answers(net);
            traffic(net, 2_000_000);
            let (dead, live) = answers(net);
            assert!(live > 100 && dead * 20 < live, "{dead} answers on dead ways, {live} on live ones");
        });
    }
}

//= REV-002 test
#[test]
fn data_of_its_own_teaches_a_side_its_return_paths() {
    net(11, &Setup::default(), Weather::default(), |net| {
        net.dead_ways = (0..2).flat_map(evs).filter(|ev| ev.0 % 8 > 1).map(|ev| (1, ev)).collect();
        // Both sides write; side 1 retires its dead EVs and answers on those whose data was acknowledged.
        let both = |net: &mut Net<'_>, ns: u64| {
            let end = net.now.as_nanos() + ns;
            while net.now.as_nanos() < end {
                let done = [0, 1].map(|side| net.sides[side].completions.len());
                for side in 0..2 {
                    net.post_from(side, 0, 0, 0, 20_000).unwrap();
                }
                let all = |net: &Net<'_>| (0..2).all(|side| net.sides[side].completions.len() > done[side]);
                assert!(net.run(net.now.as_nanos() + SECOND, all));
            }
        };
        both(net, 6_000_000);
        answers(net);
        let probes = net.sides[1].engine.stats().return_path_found;
        both(net, 2_000_000);
        let (dead, live) = answers(net);
        assert!(live > 100 && dead * 20 < live, "{dead} answers on dead ways, {live} on live ones");
        assert_eq!(net.sides[1].engine.stats().return_path_found, probes, "its data teaches more than probes");
    });
}

//= REV-003 test
#[test]
fn probes_of_return_paths_keep_their_pace() {
    net(12, &Setup { one_way: true, ..Setup::default() }, Weather::default(), |net| {
        let start = net.now.as_nanos();
        traffic(net, 4_000_000);
        let stats = net.sides[1].engine.stats();
        // One per base RTT, which a side that cannot send takes to be 50 us.
        let most = (net.now.as_nanos() - start) / 50_000 + 1;
        assert!(stats.tx_endpoint_request <= most && stats.tx_endpoint_request > most / 2, "{stats:?}");
        // Silence costs nothing.
        net.run(net.now.as_nanos() + SECOND, |_| false);
        let before = net.tx_packets();
        net.run(net.now.as_nanos() + SECOND, |_| false);
        assert_eq!(net.tx_packets(), before);
    });
}

/// In software a probe and its answer cost as much as two packets of data: many queue pairs together send as many as a few
/// would, and leave dead ways all the same.
//= REV-003, REV-007 test
#[test]
fn many_queue_pairs_share_the_probes_of_a_software_endpoint() {
    const QPS: usize = 32;
    let tweak: fn(&mut EndpointConfig) = |cfg| {
        let software = EndpointConfig::software();
        cfg.ev_probe_rate_limit = software.ev_probe_rate_limit;
    };
    net(12, &Setup { one_way: true, qps: QPS, tweak, ..Setup::default() }, Weather::default(), |net| {
        // Messages of all queue pairs at once, for `ns`.
        let round = |net: &mut Net<'_>, ns: u64| {
            let end = net.now.as_nanos() + ns;
            while net.now.as_nanos() < end {
                let done = net.sides[0].completions.len();
                for qp in 0..QPS {
                    net.post(qp, 0, 0, 10_000).unwrap();
                }
                assert!(
                    net.run(net.now.as_nanos() + SECOND, |net| net.completed(done + QPS)),
                    "a message never completes"
                );
            }
        };
        let start = net.now.as_nanos();
        round(net, 20_000_000);
        let sent = net.sides[1].engine.stats().tx_endpoint_request;
        // A burst of 16, and a tenth of what 20 queue pairs with a round trip of 50 us would send.
        let most = 16 + (net.now.as_nanos() - start) / 500_000;
        assert!(sent <= most && sent > most / 2, "{sent} probes, at most {most}");
        // One way of eight dies on each plane: requesters that ask again show who answers on it.
        net.dead_ways = (0..2).map(|plane| (1, Ev(plane << 8 | 3))).collect();
        round(net, 10_000_000);
        answers(net);
        let before = net.sides[0].engine.stats().retransmitted;
        round(net, 20_000_000);
        let (dead, live) = answers(net);
        assert!(live > 1_000 && dead * 16 < live, "{dead} answers on dead ways, {live} on live ones");
        assert_eq!(net.sides[0].engine.stats().retransmitted, before);
    });
}

//= REV-006 test
#[test]
fn a_plane_without_a_return_path_carries_no_answers() {
    for rotate in [false, true] {
        let tweak: fn(&mut EndpointConfig) = if rotate { |cfg| cfg.answers_on_silent_planes = true } else { |_| {} };
        let setup = Setup { one_way: true, tweak, ..Setup::default() };
        net(13, &setup, Weather::default(), |net| {
            net.dead_ways = evs(1).map(|ev| (1, ev)).collect();
            traffic(net, 4_000_000);
            net.assert_arrived(0, 10_000);
            answers(net);
            traffic(net, 2_000_000);
            let (dead, live) = answers(net);
            assert!(
                live > 100 && (dead * 20 < live) != rotate,
                "{dead} answers on the dead plane, {live} on the other"
            );
            // It comes back to life: probes find it.
            net.dead_ways.clear();
            traffic(net, 4_000_000);
            net.answers.clear();
            traffic(net, 2_000_000);
            let on = |plane: u32| -> u64 {
                net.answers.iter().filter(|((_, ev, _), _)| ev.0 >> 8 == plane).map(|(_, n)| n).sum()
            };
            assert!(on(1) * 3 > on(0), "{} answers on plane 0, {} on plane 1", on(0), on(1));
        });
    }
}

/// A requester that lacks one of two answers gets both again each time that it asks: were the planes taken strictly in
/// turn, the one that it lacks could die on the silent plane for ever.
//= REV-007 test
#[test]
fn answers_do_not_keep_step_with_a_dead_plane() {
    for seed in 0..32 {
        let tweak: fn(&mut EndpointConfig) = |cfg| cfg.answers_on_silent_planes = true;
        net(seed, &Setup { one_way: true, tweak, ..Setup::default() }, Weather::default(), |net| {
            net.dead_ways = evs(1).map(|ev| (1, ev)).collect();
            for done in 0..50 {
                net.post(0, 0, 0, 1000).unwrap();
                let soon = net.now.as_nanos() + 100_000_000;
                assert!(net.run(soon, |net| net.completed(done + 1)), "message {done} never completes");
                assert_eq!(net.sides[0].engine.stats().qp_errors, 0, "message {done} fails");
            }
        });
    }
}

/// A plane whose return paths are all dead and then goes down is left alone.
#[test]
fn a_plane_that_goes_down_is_left_alone() {
    net(13, &Setup::default(), Weather::default(), |net| {
        net.dead_ways = evs(1).map(|ev| (1, ev)).collect();
        traffic(net, 4_000_000);
        net.assert_arrived(0, 10_000);
        // Told of it, side 1 leaves the plane alone.
        net.cut = PortMask::NONE.with(PortNum::from_plane(1));
        net.sides[0].engine.set_port(net.now, PortNum::from_plane(1), false);
        net.run(net.now.as_nanos() + 1_000_000, |_| false);
        answers(net);
        traffic(net, 2_000_000);
        assert_eq!(answers(net).0, 0);
    });
}

/// A loaded receiver is answered later than an idle one. It learns by how much, from late answers as well.
//= REV-003, REV-005 test
#[test]
fn slow_answers_to_probes_of_return_paths_are_no_losses() {
    let setup = Setup { one_way: true, ..Setup::default() };
    net(11, &setup, Weather::default(), |net| {
        traffic(net, 2_000_000);
        for delay_ns in [300_000, 2_000_000] {
            net.weather.delay_ns = delay_ns;
            // Probes under way when it became slow count as lost at first, and are answered late.
            let before = *net.sides[1].engine.stats();
            traffic(net, 10 * delay_ns);
            let stats = net.sides[1].engine.stats();
            assert_eq!(
                stats.return_path_late - before.return_path_late,
                stats.return_path_lost - before.return_path_lost
            );
            let before = *stats;
            traffic(net, 50 * delay_ns);
            let stats = net.sides[1].engine.stats();
            let (lost, found) =
                (stats.return_path_lost - before.return_path_lost, stats.return_path_found - before.return_path_found);
            assert!(found > 10 && lost == 0, "{lost} lost, {found} found");
        }
        // Fast again: patience follows.
        net.weather.delay_ns = 0;
        traffic(net, 10_000_000);
        let before = *net.sides[1].engine.stats();
        traffic(net, 2_000_000);
        assert!(net.sides[1].engine.stats().return_path_found > before.return_path_found + 10);
    });
}

/// A duplicate hints that answers die on their way. It does so right after the clock's origin, too.
//= REV-007 test
#[test]
fn suspect_ways_are_replaced_however_early_it_is() {
    let ways = [0, SECOND].map(|born| {
        let setup = Setup { one_way: true, born: Instant::from_nanos(born), ..Setup::default() };
        net(3, &setup, Weather::default(), |net| {
            net.post(0, 0, 0, 100).unwrap();
            let (_, (to, port, write)) = net.wire.pop_first().unwrap();
            net.wire.clear();
            let mut ways = vec![];
            for wait_ns in [10_000, 1_000, 1_000] {
                net.now = net.now.after(wait_ns);
                let _ = net.deliver(to, port, &write);
                net.answers.clear();
                net.drain(to);
                ways.push(net.answers.keys().map(|&(_, ev, _)| ev).collect::<Vec<_>>());
            }
            assert_ne!(ways[0], ways[1], "the first duplicate");
            assert_eq!(ways[1], ways[2], "the second one, too soon after it");
            ways
        })
    });
    assert_eq!(ways[0], ways[1]);
}

/// An EV that is denied while a probe of it is under way does not become a return path.
//= DENY-001, REV-003 test
#[test]
fn an_ev_that_is_denied_meanwhile_is_not_found() {
    net(14, &Setup { one_way: true, ..Setup::default() }, Weather::default(), |net| {
        traffic(net, 1_000_000);
        net.run(net.now.as_nanos() + SECOND, |net| net.wire.is_empty());
        // A base RTT without traffic: the next data draws a probe.
        net.now = net.now.after(1_000_000);
        net.post(0, 0, 0, 10_000).unwrap();
        let asks = |net: &Net<'_>| {
            net.wire.values().any(|(to, _, bytes)| {
                let frame = parse_frame(bytes, bytes.len(), &WireConfig::default(), |_| true).unwrap();
                *to == 0 && matches!(frame.body, Body::EndpointRequest(_))
            })
        };
        assert!(net.run(net.now.as_nanos() + SECOND, asks));
        let (now, profile) = (net.now, net.sides[1].profile.unwrap());
        let engine = &mut net.sides[1].engine;
        let mut evs = [EvReport::EMPTY; 16];
        assert_eq!(engine.query_evs(profile, 0, &mut evs), Ok(16));
        for report in &evs {
            engine.set_ev_state(now, profile, &report.ev, EvState::Denied, false).unwrap();
        }
        let before = *engine.stats();
        assert!(net.run(net.now.as_nanos() + SECOND, |net| net.wire.is_empty()));
        let stats = net.sides[1].engine.stats();
        assert!(stats.rx_endpoint_response > before.rx_endpoint_response);
        assert_eq!(stats.return_path_found, before.return_path_found);
    });
}

/// A controller takes a plane away from a side that only receives, and gives it back: answers leave by it again, also when
/// it is all that is left.
//= DENY-001, REV-001, REV-004 test
#[test]
fn a_plane_that_is_allowed_again_carries_answers_again() {
    net(15, &Setup { one_way: true, ..Setup::default() }, Weather::default(), |net| {
        let left_by = |net: &Net<'_>| {
            let ports = &net.sides[1].engine.stats().ports;
            [ports[0].tx_packets, ports[1].tx_packets]
        };
        let used = |net: &mut Net<'_>| {
            let before = left_by(net);
            traffic(net, 1_000_000);
            let after = left_by(net);
            [after[0] - before[0], after[1] - before[1]]
        };
        let command = |net: &mut Net<'_>, planes: &[u32], state: EvState| {
            let profile = net.sides[1].profile.unwrap();
            let mut reports = [EvReport::EMPTY; 16];
            let engine = &mut net.sides[1].engine;
            assert_eq!(engine.query_evs(profile, 0, &mut reports), Ok(16));
            for (report, _) in reports.iter().zip(0..).filter(|(_, nth)| planes.contains(&(nth % 2))) {
                engine.set_ev_state(net.now, profile, &report.ev, state, false).unwrap();
            }
        };
        assert!(used(net).iter().all(|&packets| packets > 100));
        command(net, &[1], EvState::Denied);
        let [one, two] = used(net);
        assert!(one > 100 && two == 0, "{one} {two}");
        command(net, &[1], EvState::Good);
        let [one, two] = used(net);
        assert!(one.abs_diff(two) * 10 < one, "{one} {two}");
        // Without any there are no answers; with the second plane alone there are some.
        command(net, &[0, 1], EvState::Denied);
        let done = net.sides[0].completions.len();
        net.post(0, 0, 0, 10_000).unwrap();
        assert!(!net.run(net.now.as_nanos() + 1_000_000, |net| net.sides[0].completions.len() > done));
        command(net, &[1], EvState::Good);
        let [one, two] = used(net);
        assert!(one == 0 && two > 100, "{one} {two}");
    });
}

/// What taught a side its return paths also teaches it where news of its ports leave: however often a port changes
/// before more is learned, the peer hears of it without a repetition.
//= EPOP-006 test
#[test]
fn news_of_ports_leave_on_ways_that_work() {
    for one_way in [false, true] {
        let retry = RetryConfig { exponential: 25, ..Setup::default().retry };
        let setup = Setup { tell_ports: true, one_way, retry, ..Setup::default() };
        net(11, &setup, Weather::default(), |net| {
            net.dead_ways = (0..2).flat_map(evs).filter(|ev| ev.0 % 8 != 1).map(|ev| (1, ev)).collect();
            let end = net.now.as_nanos() + 12_000_000;
            // Its own data teaches side 1, or probes do.
            let sender = usize::from(!one_way);
            while net.now.as_nanos() < end {
                let done = net.sides[sender].completions.len();
                net.post_from(sender, 0, 0, 0, 20_000).unwrap();
                assert!(net.run(net.now.as_nanos() + SECOND, |net| net.sides[sender].completions.len() > done));
            }
            net.run(net.now.as_nanos() + SECOND, |_| false);
            let port = PortNum::from_plane(1);
            for change in 0..8 {
                let up = change % 2 == 1;
                net.sides[1].engine.set_port(net.now, port, up);
                net.run(net.now.as_nanos() + 10_000, |_| false);
                let side = &net.sides[0];
                let known = side.engine.peer_ports(side.peer.unwrap()).unwrap();
                assert_eq!(known.contains(port), up, "change {change}, one way {one_way}");
            }
        });
    }
}

/// A side that cannot send waits four times the round trip that it assumes, 200 us in all; one that can send probes once per
/// base RTT that it knows.
//= REV-003 test
#[test]
fn probes_wait_for_the_round_trip_that_a_side_knows() {
    let setup = Setup { one_way: true, ..Setup::default() };
    net(11, &setup, Weather { delay_ns: 90_000, ..Weather::default() }, |net| {
        traffic(net, 4_000_000);
        let stats = net.sides[1].engine.stats();
        assert!(stats.return_path_found > 10, "{stats:?}");
        assert_eq!((stats.return_path_lost, stats.return_path_late), (0, 0));
    });
    let tweak: fn(&mut EndpointConfig) = |cfg| cfg.ev_probe_rate_limit = 1_000_000;
    net(12, &Setup { tweak, ..Setup::default() }, Weather::default(), |net| {
        traffic(net, 4_000_000);
        let probes = net.sides[1].engine.stats().tx_endpoint_request;
        let most = net.now.as_nanos() / net.sides[1].info(0).base_rtt_ns + 1;
        assert!(probes <= most && probes > most / 2, "{probes} of {most}");
    });
}
