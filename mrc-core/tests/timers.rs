//! What time alone brings about, one deadline at a time: packet timers, tail probes, lost probes.

mod common;

use common::{Net, Setup, Weather, net};
use mrc_core::path::{HopperConfig, Selector};
use mrc_core::{
    EndpointConfig, IcrcCheck, Instant, MAX_HEADER_LEN, PortMask, QpState, RetryConfig, RtsAttr, RxMeta, Stats, Status,
};
use mrc_wire::{AethRepr, Body, PortNum, Psn, WireConfig, icrc, parse_frame};

/// Nothing arrives, so only time acts. T0 = 1.024 us * 2^8; base RTT and target delay are 10 us.
fn alone<R>(f: impl FnOnce(&mut Net<'_>) -> R) -> R {
    alone_with(0, f)
}

/// The same with a probe `tail_probe_ns` after each tail.
fn alone_with<R>(tail_probe_ns: u64, f: impl FnOnce(&mut Net<'_>) -> R) -> R {
    let retry = RetryConfig { timeout: 8, linear: 7, exponential: 5 };
    let setup = Setup { retry, tail_probe_ns, ..Setup::default() };
    net(1, &setup, Weather { dead: true, ..Weather::default() }, f)
}

const T0: u64 = 1_024 << 8;

/// Counters of the sender at `ns`.
fn at(net: &mut Net<'_>, ns: u64) -> Stats {
    net.run(ns, |_| false);
    net.now = net.now.max(Instant::from_nanos(ns));
    *net.sides[0].engine.stats()
}

/// Each packet has its own timer: the second one does not expire with the first.
//= TIMER-001 test
#[test]
fn packets_expire_one_by_one() {
    alone(|net| {
        net.post(0, 0, 0, 100).unwrap();
        at(net, 100_000);
        net.post(0, 1, 100, 100).unwrap();
        assert_eq!(at(net, T0 - 1_000).lost_timeout, 0);
        assert_eq!(at(net, T0 + 1_000).lost_timeout, 1);
        assert_eq!(at(net, T0 + 99_000).lost_timeout, 1);
        let stats = at(net, T0 + 101_000);
        assert_eq!((stats.lost_timeout, stats.retransmitted), (2, 2));
        // The copies have timers of their own, counted from when they left.
        assert_eq!(at(net, 2 * T0 - 1_000).lost_timeout, 2);
        assert_eq!(at(net, 2 * T0 + 2_000).lost_timeout, 3);
        assert_eq!(at(net, 2 * T0 + 102_000).lost_timeout, 4);
    });
}

/// A send time has 32 bits, which wrap after 68.7 s: without a timer a packet may wait for longer. Its round trip is then as long as
/// it was, not a microsecond.
//= QP-006, RTT-002 test
#[test]
fn an_answer_after_the_clock_of_send_times_wrapped_is_no_short_round_trip() {
    const WRAP: u64 = 1 << 36;
    for turns in 1..4 {
        let retry = RetryConfig { timeout: 0, linear: 7, exponential: 7 };
        let slow: fn(&mut RtsAttr) = |rts| rts.base_rtt_ns = 100_000_000;
        net(1, &Setup { retry, rts: slow, ..Setup::default() }, Weather::default(), |net| {
            // There and back 8 us more.
            net.weather.delay_ns = turns * WRAP + 20_000_000;
            net.post(0, 0, 0, 100).unwrap();
            net.weather = Weather { dead: true, ..Weather::default() };
            net.run(turns * WRAP + 19_990_000, |_| false);
            assert_eq!(net.sides[0].info(0).outstanding, 1);
            net.weather = Weather::default();
            let answered = |net: &Net<'_>| net.completed(1) && net.sides[0].engine.stats().rx_sack > 0;
            assert!(net.run((turns + 1) * WRAP, answered));
            let info = net.sides[0].info(0);
            assert_eq!((info.base_rtt_ns, info.srtt_ns), (100_000_000, 100_000_000), "{turns} times");
            net.assert_arrived(0, 100);
        });
    }
}

/// Probes find lost packets where the timer is disabled; a lost Transport ACK leaves no packet to ask for.
//= TACK-004, QP-006 test
#[test]
fn a_lost_transport_ack_is_asked_for_without_a_timer() {
    let retry = RetryConfig { timeout: 0, linear: 2, exponential: 1 };
    net(1, &Setup { retry, ..Setup::default() }, Weather::default(), |net| {
        net.post(0, 0, 0, 100).unwrap();
        // As often as would use up the retry budget, which needs a timer.
        let mut lost = 0;
        while lost < 9 {
            let asked = net.run(1_000_000_000, |net| net.wire.values().any(|(to, ..)| *to == 0));
            assert!(asked, "nobody asks after {lost} were lost");
            let before = net.wire.len();
            net.wire.retain(|_, (_, _, bytes)| {
                !matches!(parse_frame(bytes, bytes.len(), &WireConfig::default(), |_| true).unwrap().body, Body::Ack(_))
            });
            lost += before - net.wire.len();
            let now = net.now.as_nanos();
            net.run(now + 5_000, |_| false);
        }
        assert!(!net.completed(1));
        assert!(net.run(2_000_000_000, |net| net.completed(1)));
        assert_eq!(net.sides[0].completions[0].status, Status::Success);
        assert_eq!((net.sides[0].info(0).state, net.sides[0].info(0).retries), (QpState::Rts, 0));
    });
}

/// A peer falls silent after it has SACKed packets behind the last Transport ACK: the oldest packet that it lacks uses up the
/// budget, not the oldest of all, whose timer does not run.
//= RETRY-001, RETRY-003 test
#[test]
fn silence_behind_packets_that_arrived_ends_the_queue_pair() {
    const MTU: usize = 1_024;
    let retry = RetryConfig { timeout: 8, linear: 2, exponential: 1 };
    net(1, &Setup { retry, mtu: MTU as u16, ..Setup::default() }, Weather::default(), |net| {
        net.post(0, 0, 0, MTU).unwrap();
        // No receive request waits for its immediate: Transport ACKs end before its last packet.
        net.post_imm(1, MTU, 3 * MTU, 7).unwrap();
        net.post(0, 2, 4 * MTU, 2 * MTU).unwrap();
        // What reaches whom, by its place behind the first packet.
        let pass = |net: &mut Net<'_>, first: &mut Option<Psn>, arrives: &dyn Fn(&Body, i32) -> bool| {
            while let Some(((at, _), (to, port, frame))) = net.wire.pop_first() {
                net.now = net.now.max(Instant::from_nanos(at));
                let parsed = parse_frame(&frame, frame.len(), &WireConfig::default(), |_| true).unwrap();
                let first = *first.get_or_insert(parsed.bth.psn);
                if arrives(&parsed.body, parsed.bth.psn.diff(first)) {
                    net.deliver(to, port, &frame).unwrap();
                    net.transmit(to);
                }
            }
            net.now = net.now.max(net.sides[0].engine.next_timeout().unwrap());
            net.sides[0].engine.handle_timeout(net.now);
            net.drain(0);
        };
        let mut first = None;
        pass(net, &mut first, &|body, nth| !matches!(body, Body::Write { .. }) || [1, 2, 3, 5].contains(&nth));
        assert_eq!(
            net.sides[0].info(0).load.inflight_pkts + net.sides[0].info(0).load.waiting_rtx,
            2,
            "four are SACKED"
        );
        while net.sides[0].completions.is_empty() {
            pass(net, &mut first, &|body, nth| {
                matches!(body, Body::Write { .. } if nth == 0) || matches!(body, Body::Ack(_))
            });
        }
        assert_eq!(
            net.sides[0].info(0).outstanding,
            3,
            "before the packet that is missing there is one that was SACKED"
        );
        let silent_from = net.now;
        while net.sides[0].completions.len() < 2 {
            pass(net, &mut first, &|_, _| false);
            assert!(net.now.since(silent_from) < 3 * retry.budget_ns().unwrap(), "it goes on for ever");
        }
        assert_eq!(net.sides[0].completions[1].status, Status::RetryExceeded);
    });
}

/// All that is missing is a Transport ACK when the peer falls silent. The repeated tail goes each T0 and spends the budget with
/// each repetition, or, by the knob, as slowly as a packet.
//= TACK-004, RETRY-003 test
#[test]
fn a_silent_peer_has_as_long_for_a_transport_ack_by_the_knob() {
    let retry = RetryConfig { timeout: 8, linear: 1, exponential: 2 };
    let t0 = retry.t0_ns().unwrap();
    let silence = |tweak: fn(&mut EndpointConfig)| {
        let mut waited = (0, 0);
        net(1, &Setup { retry, tweak, ..Setup::default() }, Weather::default(), |net| {
            net.post(0, 0, 0, 64).unwrap();
            // The SACK arrives, the Transport ACK does not.
            while let Some(((at, _), (to, port, frame))) = net.wire.pop_first() {
                net.now = Instant::from_nanos(at);
                let parsed = parse_frame(&frame, frame.len(), &WireConfig::default(), |_| true).unwrap();
                if !matches!(parsed.body, Body::Ack(_)) {
                    net.deliver(to, port, &frame).unwrap();
                    net.drain(to);
                }
            }
            assert_eq!(net.sides[0].info(0).load.inflight_pkts, 0, "the packet is reported");
            let heard = net.now;
            net.weather = Weather { dead: true, ..Weather::default() };
            assert!(net.run(100 * t0, |net| !net.sides[0].completions.is_empty()));
            assert_eq!(net.sides[0].completions[0].status, Status::RetryExceeded);
            waited = ((net.now.since(heard) + t0 / 2) / t0, net.sides[0].engine.stats().tail_resent);
        });
        waited
    };
    assert_eq!(silence(|_| {}), (4, 3), "one linear retry, two exponential ones, and the one that is too many");
    assert_eq!(silence(|cfg| cfg.tail_retry_paced = true), (15, 14));
    assert_eq!(retry.budget_ns(), Some(15 * t0), "as long as a packet has");
}

/// What is posted after the queue pair failed is flushed: it was never under way.
//= ERR-001 test
#[test]
fn what_is_posted_in_error_is_flushed() {
    let setup = Setup { keepalive_ns: [5_000_000, 0], ..Setup::default() };
    let budget = setup.retry.budget_ns().unwrap();
    net(8, &setup, Weather::default(), |net| {
        net.post(0, 1, 0, 5_000).unwrap();
        assert!(net.run(1_000_000_000, |net| net.completed(1)));
        net.weather.dead = true;
        net.run(net.now.as_nanos() + budget * 3, |_| false);
        assert_eq!(net.sides[0].info(0).state, QpState::Error);
        net.post(0, 2, 0, 100).unwrap();
        assert_eq!(net.sides[0].completions.last().map(|done| (done.wr_id, done.status)), Some((2, Status::Flushed)));
    });
}

/// A probe that waits for its port holds up nothing else: the tail of a write without Transport ACK is repeated through another one.
//= TACK-004 test
#[test]
fn a_tail_is_repeated_while_a_probe_waits_for_its_port() {
    let retry = RetryConfig { timeout: 8, linear: 7, exponential: 5 };
    let setup = Setup { retry, keepalive_ns: [50_000, 0], ..Setup::default() };
    net(3, &setup, Weather::default(), |net| {
        net.post(0, 0, 0, 100).unwrap();
        while let Some(((at, _), (to, port, frame))) = net.wire.pop_first() {
            net.now = Instant::from_nanos(at);
            let parsed = parse_frame(&frame, frame.len(), &WireConfig::default(), |_| true).unwrap();
            if !matches!(parsed.body, Body::Ack(_)) {
                net.deliver(to, port, &frame).unwrap();
                net.transmit(to);
            }
        }
        let room = PortMask::NONE.with(PortNum::from_plane(0));
        let mut headers = [0; MAX_HEADER_LEN];
        let engine = &mut net.sides[0].engine;
        let (mut waits, mut now) = (false, Instant::ZERO);
        while engine.stats().tail_resent == 0 {
            now = engine.next_timeout().unwrap();
            engine.handle_timeout(now);
            match engine.poll_transmit(now, room, &mut headers) {
                Some(sent) if sent.payload.is_some() => break,
                Some(_) => waits = false,
                None => waits |= engine.next_timeout().is_some_and(|at| at > now),
            }
            assert!(now.as_nanos() < 3 * T0, "the tail waits with the probe");
        }
        assert!(waits, "no probe waits for the other port");
        // It leaves when its port has room.
        let probes = engine.stats().tx_probe;
        let other = PortMask::NONE.with(PortNum::from_plane(1));
        assert!(engine.poll_transmit(now, other, &mut headers).is_some());
        assert_eq!(engine.stats().tx_probe, probes + 1);
    });
}

/// The tail of a write is about to be repeated when a SACK that stands for its Transport ACK comes: the next write, which is
/// young, is not repeated in its place.
//= TACK-004 test
#[test]
fn a_tail_that_a_sack_completes_is_not_repeated_as_that_of_the_next_write() {
    let retry = RetryConfig { timeout: 8, linear: 7, exponential: 5 };
    let tweak: fn(&mut EndpointConfig) = |cfg| cfg.complete_on_sack = true;
    net(1, &Setup { retry, tweak, ..Setup::default() }, Weather::default(), |net| {
        let sent = |net: &mut Net<'_>| -> Vec<(PortNum, Vec<u8>)> {
            std::mem::take(&mut net.wire).into_values().map(|(_, port, frame)| (port, frame)).collect()
        };
        net.post(0, 0, 0, 100).unwrap();
        net.post(0, 1, 200, 100).unwrap();
        net.transmit(0);
        let writes = sent(net);
        let mut answers = Vec::new();
        for (port, frame) in [&writes[1], &writes[0]] {
            net.deliver(1, *port, frame).unwrap();
            net.transmit(1);
            answers.push(sent(net));
        }
        let body = |frame: &[u8], is: fn(&Body) -> bool| {
            is(&parse_frame(frame, frame.len(), &WireConfig::default(), |_| true).unwrap().body)
        };
        let sack = |answers: &[(PortNum, Vec<u8>)]| {
            answers.iter().find(|(_, frame)| body(frame, |body| matches!(body, Body::Sack(_)))).cloned().unwrap()
        };
        // The second write is known by the bitmap alone, once a Transport ACK covers the first one alone.
        let (port, early) = sack(&answers[0]);
        net.deliver(0, port, &early).unwrap();
        let is_ack = |(_, frame): &&(PortNum, Vec<u8>)| body(frame, |body| matches!(body, Body::Ack(_)));
        let (port, mut ack) = answers[1].iter().find(is_ack).cloned().unwrap();
        // The last three bytes of BTH.
        let end = ack.len() - icrc::LEN - AethRepr::LEN;
        let first = parse_frame(&writes[0].1, writes[0].1.len(), &WireConfig::default(), |_| true).unwrap().bth.psn;
        ack[end - 3..end].copy_from_slice(&first.value().to_be_bytes()[1..]);
        let meta = RxMeta { port, wire_len: ack.len(), icrc: IcrcCheck::Valid };
        let _ = net.sides[0].engine.handle_packet(net.now, meta, &ack).unwrap();
        let waits_from = net.now;
        net.now = waits_from.after(T0 / 2);
        net.post(0, 2, 400, 100).unwrap();
        net.transmit(0);
        drop(sent(net));
        net.now = waits_from.after(T0);
        net.sides[0].engine.handle_timeout(net.now);
        let (port, whole) = sack(&answers[1]);
        net.deliver(0, port, &whole).unwrap();
        net.drain(0);
        assert_eq!(net.sides[0].engine.stats().tail_resent, 0);
        assert_eq!(net.sides[0].completions.iter().map(|done| done.wr_id).collect::<Vec<_>>(), [0, 1]);
    });
}

/// With nothing left to send silence draws a probe after a round trip and the target delay, then one every five round
/// trips; each that stays unanswered is counted once.
//= PROBE-006 test
#[test]
fn a_silent_tail_is_probed_early_and_every_five_round_trips() {
    alone(|net| {
        net.post(0, 0, 0, 100).unwrap();
        for (ns, probes) in [(19_000, 0), (21_000, 1), (69_000, 1), (71_000, 2)] {
            assert_eq!(at(net, ns).tx_probe, probes, "at {ns} ns");
        }
        // At these round trips patience is 100 us: the first is lost at 120 us, the second at 170.
        for (ns, lost) in [(119_000, 0), (125_000, 1), (169_000, 1), (175_000, 2)] {
            assert_eq!(at(net, ns).probe_lost, lost, "at {ns} ns");
        }
        assert_eq!(at(net, 175_000).tx_data, 1);
    });
}

/// The answer to a probe shows that the tail is lost long before its timer would, and whatever else the peer sends.
//= PROBE-006 test
#[test]
fn a_lost_tail_is_found_by_a_probe() {
    for peer_writes in [false, true] {
        alone(|net| {
            net.post(0, 0, 0, 100).unwrap();
            at(net, 5_000);
            net.weather.dead = false;
            for turn in 0..10 {
                if peer_writes {
                    net.post_from(1, 0, turn, turn as usize * 100, 100).unwrap();
                }
                at(net, 10_000 + turn * 5_000);
            }
            let stats = at(net, 60_000);
            assert_eq!((stats.lost_inferred, stats.lost_timeout, stats.retransmitted), (1, 0, 1), "{peer_writes}");
            assert!(net.sides[0].info(0).outstanding == 0, "{peer_writes}");
        });
    }
}

/// By a knob a probe follows the last packet there is to send, whatever is heard meanwhile; without an answer one follows
/// every five round trips as ever.
//= PROBE-006 test
#[test]
fn a_tail_is_followed_by_a_probe() {
    alone_with(2_000, |net| {
        net.post(0, 0, 0, 100).unwrap();
        assert_eq!(at(net, 1_500).tx_probe, 0);
        // Not the last one any more.
        net.post(0, 1, 100, 100).unwrap();
        for (ns, probes) in [(3_400, 0), (3_700, 1), (53_400, 1), (53_700, 2)] {
            assert_eq!(at(net, ns).tx_probe, probes, "at {ns} ns");
        }
        assert_eq!(at(net, 54_000).tx_data, 2);
    });
}

/// What left that much before the probe and its answer lacks is lost, on whichever path it went: a round trip later all of
/// it is sent again. Without the knob not even the probe has left by then.
//= PROBE-006, LOSS-002, LOSS-003 test
#[test]
fn the_probe_behind_a_tail_speaks_for_all_paths() {
    for (tail_probe_ns, lost) in [(2_000, 8), (0, 0)] {
        alone_with(tail_probe_ns, |net| {
            net.post(0, 0, 0, 8 * 1_024).unwrap();
            at(net, 1_000);
            net.weather.dead = false;
            // The probe leaves at 2 us, a round trip takes 8.
            assert_eq!(at(net, 9_900).lost_inferred, 0);
            let stats = at(net, 12_000);
            assert_eq!((stats.lost_inferred, stats.retransmitted), (lost, lost), "{tail_probe_ns}");
            at(net, 100_000);
            assert_eq!(net.sides[0].info(0).outstanding, 0, "{tail_probe_ns}");
            assert_eq!(net.sides[0].engine.stats().lost_timeout, 0);
        });
    }
}

/// Packets that arrive are neither repeated nor followed by more than the one probe of their tail.
//= PROBE-006 test
#[test]
fn nothing_is_repeated_because_of_a_probe_behind_a_tail() {
    alone_with(2_000, |net| {
        net.weather.dead = false;
        for turn in 0..5 {
            net.post(0, turn, 0, 8 * 1_024).unwrap();
            at(net, 50_000 * (turn + 1));
        }
        let stats = at(net, 300_000);
        assert_eq!((stats.tx_probe, stats.retransmitted, stats.tx_data), (5, 0, 40));
    });
}

/// A host that does not run a process for some seconds is no dead host.
//= RETRY-003 test
#[test]
fn by_default_a_silence_of_several_seconds_is_survived_and_a_longer_one_is_not() {
    let setup = Setup { retry: RetryConfig::default(), ..Setup::default() };
    for (seconds, survives) in [(1, true), (5, true), (8, true), (20, false)] {
        net(seconds, &setup, Weather::default(), |net| {
            net.post(0, 1, 0, 20_000).unwrap();
            assert!(net.run(1_000_000_000, |net| net.completed(1)));
            net.weather.dead = true;
            net.post(0, 2, 0, 20_000).unwrap();
            net.run(net.now.as_nanos() + seconds * 1_000_000_000, |_| false);
            net.weather.dead = false;
            assert_eq!(net.sides[0].info(0).state == QpState::Rts, survives, "after {seconds} s");
            if survives {
                // A probe finds out, long before the timer does.
                assert!(net.run(net.now.as_nanos() + 10_000_000, |net| net.completed(2)), "after {seconds} s");
                net.assert_arrived(0, 20_000);
            }
        });
    }
}

//= RETRY-003 test
#[test]
fn keep_alive_asks_before_it_gives_up() {
    let setup = Setup { keepalive_ns: [0, 5_000_000], ..Setup::default() };
    let budget = setup.retry.budget_ns().unwrap();
    let state = |net: &Net<'_>| net.sides[1].info(0).state;
    net(8, &setup, Weather::default(), |net| {
        net.post(0, 1, 0, 5_000).unwrap();
        assert!(net.run(1_000_000_000, |net| net.completed(1)));
        // Stopped for ten times the budget, it has asked nobody.
        net.now = net.now.after(10 * budget);
        net.run(net.now.as_nanos() + 3 * budget, |_| false);
        assert_eq!(state(net), QpState::Rts);
        net.weather.dead = true;
        net.run(net.now.as_nanos() + budget * 2, |_| false);
        assert_eq!(state(net), QpState::Error);
    });
    // A peer that was never heard may not have begun.
    net(9, &setup, Weather { dead: true, ..Weather::default() }, |net| {
        net.run(10 * budget, |_| false);
        assert_eq!(state(net), QpState::Rts);
        net.weather.dead = false;
        net.run(11 * budget, |_| false);
        net.weather.dead = true;
        net.run(net.now.as_nanos() + budget * 2, |_| false);
        assert_eq!(state(net), QpState::Error);
    });
}

/// A host that does not blame silence on all paths at once still leaves a path that is the only one it uses: the second
/// timeout in a row is the path's. A QP that sprays over all of them waits for its peer.
#[test]
fn silence_on_the_only_path_is_that_of_the_path() {
    let single: fn(&mut RtsAttr) = |rts| {
        rts.blame_silence = false;
        rts.selector = Selector::Hopper(HopperConfig::default());
    };
    let spray: fn(&mut RtsAttr) = |rts| rts.blame_silence = false;
    for (rts, left) in [(single, true), (spray, false)] {
        let retry = RetryConfig { timeout: 8, linear: 7, exponential: 5 };
        let setup = Setup { retry, rts, ..Setup::default() };
        net(1, &setup, Weather { dead: true, ..Weather::default() }, |net| {
            net.post(0, 0, 0, 100).unwrap();
            assert_eq!(at(net, T0 + 1_000).path_switches, 0, "the peer may not have run");
            assert_eq!(at(net, 2 * T0 + 2_000).lost_timeout, 2);
            assert_eq!(at(net, 2 * T0 + 2_000).path_switches > 0, left);
        });
    }
}
