//! Rules that a time draws a line for: just before it, at it, and just behind it. Each holds whenever the QP was connected.

mod common;

use common::{Net, Setup, Weather, net};
use mrc_core::cc::{CcConfig, NsccConfig};
use mrc_core::path::{EvState, HopperConfig, LossEvAction, Selector};
use mrc_core::{
    EndpointConfig, ErrorCause, EvReport, Event, EventMask, Instant, QpState, RetryConfig, RtsAttr, Stats, Status,
    Trimming,
};
use mrc_wire::{Body, NackReason, PortNum, Psn, WireConfig, parse_frame};

const SECOND: u64 = 1_000_000_000;
const RETRY: RetryConfig = RetryConfig { timeout: 8, linear: 7, exponential: 5 };
const T0: u64 = 1_024 << 8;
const DEAD: Weather = Weather {
    loss: 0,
    reorder: 0,
    duplicate: 0,
    corrupt: 0,
    trim: 0,
    mark: 0,
    busy: 0,
    black_hole: None,
    dead: true,
    delay_ns: 0,
};

/// Counters of side 0 at `ns`.
fn at(net: &mut Net<'_>, ns: u64) -> Stats {
    net.run(ns, |_| false);
    net.now = net.now.max(Instant::from_nanos(ns));
    *net.sides[0].engine.stats()
}

fn state(net: &Net<'_>) -> QpState {
    net.sides[0].info(0).state
}

/// A silent peer is asked when nothing was heard for the time of keep-alive, and again each time that it passes.
#[test]
fn keep_alive_asks_at_its_time() {
    for born in [0, 3_600 * SECOND] {
        let setup = Setup { keepalive_ns: [1_000_000, 0], born: Instant::from_nanos(born), ..Setup::default() };
        net(1, &setup, DEAD, |net| {
            for (ns, probes) in [(999_999, 0), (1_000_000, 1), (1_999_999, 1), (2_000_000, 2), (3_000_000, 3)] {
                assert_eq!(at(net, born + ns).tx_probe, probes, "{ns} ns after it was connected");
            }
        });
    }
}

/// Before its time keep-alive changes nothing, whatever other deadlines come.
#[test]
fn keep_alive_is_silent_before_its_time() {
    let frames = [0, 1_000_000].map(|ns| {
        let setup = Setup { keepalive_ns: [ns, 0], ..Setup::default() };
        net(1, &setup, DEAD, |net| {
            net.post(0, 0, 0, 3_000).unwrap();
            let stats = at(net, 999_999);
            assert!(stats.lost_timeout > 3 && stats.tx_probe > 3);
            (net.digest, stats.tx_probe)
        })
    });
    assert_eq!(frames[0], frames[1]);
}

/// When the last sign of life came, told from the keep-alive probe that follows it.
fn last_heard(net: &mut Net<'_>, keepalive_ns: u64) -> u64 {
    let before = net.sides[0].engine.stats().tx_probe;
    assert!(net.run(u64::MAX, |net| net.sides[0].engine.stats().tx_probe > before));
    net.now.as_nanos() - keepalive_ns
}

/// A peer that was heard once is gone when it is silent for longer than the whole retry budget and three keep-alive probes
/// stayed unanswered; both are needed.
//= RETRY-003 test
#[test]
fn a_peer_is_gone_after_three_probes_and_the_whole_budget() {
    let budget = RETRY.budget_ns().unwrap();
    for (keepalive_ns, end) in
        [(budget / 4, budget / 4 * 5), (budget / 2, budget / 2 * 3 + budget / 2), (budget, 4 * budget)]
    {
        let setup = Setup { keepalive_ns: [keepalive_ns, 0], ..Setup::default() };
        net(1, &setup, Weather::default(), |net| {
            net.post(0, 0, 0, 100).unwrap();
            at(net, 1_000_000);
            net.weather.dead = true;
            let since = last_heard(net, keepalive_ns);
            at(net, since + end - 1);
            assert_eq!(state(net), QpState::Rts, "keep-alive each {keepalive_ns} ns");
            at(net, since + end);
            assert_eq!(state(net), QpState::Error, "keep-alive each {keepalive_ns} ns");
            assert_eq!(net.sides[0].info(0).cause, Some(ErrorCause::PeerSilent));
        });
    }
}

/// While no port is up keep-alive asks nobody: at its end the ports are named, not the peer, and a port that comes back in time has
/// three probes of its own.
//= RETRY-003 test
#[test]
fn silence_without_a_port_is_not_the_peers() {
    let budget = RETRY.budget_ns().unwrap();
    let keepalive_ns = budget / 4;
    let setup = Setup { keepalive_ns: [keepalive_ns, 0], ..Setup::default() };
    for back in [None, Some(5)] {
        net(1, &setup, Weather::default(), |net| {
            net.post(0, 0, 0, 100).unwrap();
            at(net, 1_000_000);
            net.weather.dead = true;
            let since = last_heard(net, keepalive_ns);
            let set = |net: &mut Net<'_>, up| {
                for plane in 0..2 {
                    net.sides[0].engine.set_port(net.now, PortNum::from_plane(plane), up);
                }
                net.drain(0);
            };
            // One probe left. Three tries without a port, and the fourth is the end.
            set(net, false);
            at(net, since + 5 * keepalive_ns - 1);
            assert_eq!(state(net), QpState::Rts);
            let (end, cause) = match back {
                None => (5, ErrorCause::NoUsablePort),
                Some(tries) => {
                    set(net, true);
                    (tries + 3, ErrorCause::PeerSilent)
                }
            };
            at(net, since + end * keepalive_ns - 1);
            assert_eq!(state(net), QpState::Rts, "a port is back: {back:?}");
            at(net, since + end * keepalive_ns);
            assert_eq!(net.sides[0].info(0).cause, Some(cause));
        });
    }
}

/// A peer that was never heard may not have begun: it is asked, and not given up.
//= RETRY-003 test
#[test]
fn a_peer_that_was_never_heard_is_not_gone() {
    for born in [0, 3_600 * SECOND] {
        let setup = Setup { keepalive_ns: [5_000_000, 0], born: Instant::from_nanos(born), ..Setup::default() };
        net(1, &setup, DEAD, |net| {
            assert!(at(net, born + 10 * RETRY.budget_ns().unwrap()).tx_probe > 10);
            assert_eq!(state(net), QpState::Rts);
        });
    }
}

/// Probes of an earlier silence, which ended, prove nothing in a later one.
//= RETRY-003 test
#[test]
fn each_silence_has_its_own_three_probes() {
    const KEEPALIVE: u64 = 1_000_000;
    let setup = Setup { keepalive_ns: [KEEPALIVE, 0], ..Setup::default() };
    net(1, &setup, Weather::default(), |net| {
        net.post(0, 0, 0, 100).unwrap();
        at(net, 1_000_000);
        net.weather.dead = true;
        let before = at(net, 1_500_000).tx_probe;
        assert_eq!(at(net, 6_500_000).tx_probe - before, 5);
        net.weather.dead = false;
        at(net, 9_500_000);
        // The process is stopped for ten times the budget, and nothing arrives any more.
        net.weather.dead = true;
        let awake = net.now.as_nanos() + 10 * RETRY.budget_ns().unwrap();
        net.now = Instant::from_nanos(awake);
        at(net, awake + 3 * KEEPALIVE - 1);
        assert_eq!(state(net), QpState::Rts);
        at(net, awake + 3 * KEEPALIVE);
        assert_eq!(state(net), QpState::Error);
    });
}

/// EVs that side 0 used.
fn used(net: &Net<'_>) -> usize {
    net.used.keys().filter(|(side, _)| *side == 0).count()
}

/// A tail probe goes behind the oldest packet on its own path. When the silence has lasted five round trips, that path may be
/// dead: the probe takes another. A QP that was just connected has not been silent.
//= PROBE-006, PROBE-011 test
#[test]
fn a_tail_probe_leaves_a_path_that_was_silent_for_five_round_trips() {
    // The probe leaves 20 us behind the packet; the silence began when the QP was connected.
    for (born, sent, elsewhere) in [(0, 0, false), (0, 29_999, false), (0, 30_000, true), (3_600 * SECOND, 0, false)] {
        let strays = (0..12).filter(|&seed| {
            net(seed, &Setup { born: Instant::from_nanos(born), ..Setup::default() }, DEAD, |net| {
                at(net, born + sent);
                net.post(0, 0, 0, 100).unwrap();
                assert_eq!(at(net, born + sent + 19_999).tx_probe, 0);
                assert_eq!(at(net, born + sent + 20_000).tx_probe, 1);
                used(net) > 1
            })
        });
        assert_eq!(strays.count() > 0, elsewhere, "sent {sent} ns after {born}");
    }
}

/// A peer that gave no answer is asked on a retired EV, too: it may be the one that works. Probes of bad EVs as such are off.
//= PROBE-011 test
#[test]
fn a_silent_peer_is_asked_on_retired_evs() {
    let retry = RetryConfig { exponential: 25, ..RETRY };
    let rts = |attr: &mut RtsAttr| {
        (attr.paths.bad_probes_outstanding, attr.paths.loss_ev_action) = (0, LossEvAction::AssumedBad);
    };
    net(1, &Setup { keepalive_ns: [1_000_000, 0], retry, rts, ..Setup::default() }, Weather::default(), |net| {
        let (profile, now) = (net.sides[0].profile.unwrap(), net.now);
        let mut evs = [EvReport::EMPTY; 16];
        net.sides[0].engine.query_evs(profile, 0, &mut evs).unwrap();
        for report in &evs[2..] {
            net.sides[0].engine.set_ev_state(now, profile, &report.ev, EvState::Denied, false).unwrap();
        }
        for number in 0..4 {
            net.post(0, 0, 0, 20_000).unwrap();
            at(net, SECOND + number * 500_000);
        }
        let lossy = *net.used.keys().find(|(side, _)| *side == 0).unwrap();
        net.dead_ways.insert(lossy);
        for number in 4..12 {
            net.post(0, 0, 0, 20_000).unwrap();
            at(net, SECOND + number * 500_000);
        }
        assert_eq!(net.sides[0].engine.stats().ev_assumed_bad, 1);
        net.used.clear();
        net.weather.dead = true;
        at(net, 2 * SECOND);
        assert!(net.used.contains_key(&lossy) && used(net) == 2, "{:?}", net.used);
    });
}

/// A QP that has something to retransmit, and may, waits three round trips before silence draws a probe; one that can only
/// wait for a report, one round trip and the target delay.
//= PROBE-006 test
#[test]
fn silence_lasts_longer_while_something_can_be_sent() {
    net(1, &Setup { retry: RetryConfig { timeout: 14, ..RETRY }, ..Setup::default() }, Weather::default(), |net| {
        net.sides[1].engine.set_refusal(Some(NackReason::NoResource));
        net.post(0, 0, 0, 100).unwrap();
        // Refused for the fourth time it waits eight round trips.
        assert!(net.run(SECOND, |net| net.sides[0].engine.stats().rx_nack == 4));
        let (since, info) = (net.now.as_nanos(), net.sides[0].info(0));
        let rtt = info.srtt_ns.max(info.base_rtt_ns);
        let probes = net.sides[0].engine.stats().tx_probe;
        assert_eq!(at(net, since + 3 * rtt - 1).tx_probe, probes);
        assert_eq!(at(net, since + 3 * rtt).tx_probe, probes + 1);
        assert_eq!(net.sides[0].engine.stats().retransmitted, 3, "it still waits");
    });
}

/// A retry of the oldest packet counts once per half base interval, and the one after the last ends the QP.
//= RETRY-001, RETRY-003 test
#[test]
fn retries_count_once_per_half_interval() {
    // Each copy is refused, and the next one leaves a round trip later: all of it takes an eighth of half the interval.
    const TURN: u64 = T0 / 16;
    let weather = Weather { delay_ns: TURN / 4 - 4_000, ..Weather::default() };
    let setup = Setup { retry: RETRY, rts: |rts| rts.base_rtt_ns = TURN / 2, ..Setup::default() };
    net(1, &setup, weather, |net| {
        net.sides[1].engine.set_refusal(Some(NackReason::PsnOorWindow));
        net.post(0, 0, 0, 100).unwrap();
        for retry in 0..13 {
            let due = TURN / 2 + T0 / 2 * retry;
            at(net, due - 1);
            assert_eq!(
                (u64::from(net.sides[0].info(0).retries), state(net)),
                (retry, QpState::Rts),
                "at {} ns",
                due - 1
            );
        }
        at(net, TURN / 2 + T0 / 2 * 12);
        assert_eq!(state(net), QpState::Error);
        assert_eq!(net.sides[0].info(0).cause, Some(ErrorCause::RetryExceeded));
    });
}

/// Without a port time charges the budget: a retry per interval, to the end.
//= RETRY-004 test
#[test]
fn without_a_port_the_budget_lasts_exactly() {
    let retry = RetryConfig { linear: 2, exponential: 1, ..RETRY };
    net(1, &Setup { retry, ..Setup::default() }, DEAD, |net| {
        for plane in 0..2 {
            net.sides[0].engine.set_port(net.now, PortNum::from_plane(plane), false);
        }
        net.post(0, 0, 0, 100).unwrap();
        // Two linear intervals, and those of the doubled retries.
        let ends: Vec<u64> = (0..4)
            .scan(0, |sum, n| {
                *sum += retry.interval_ns(n);
                Some(*sum)
            })
            .collect();
        for (retries, &end) in (0..).zip(&ends) {
            at(net, end - 1);
            assert_eq!((net.sides[0].info(0).retries, state(net)), (retries, QpState::Rts), "at {} ns", end - 1);
        }
        at(net, ends[3]);
        assert_eq!(net.sides[0].info(0).cause, Some(ErrorCause::NoUsablePort));
    });
}

/// With nothing to do a QP needs no timer, whatever it went through: data that waited for a port leaves no deadline behind.
#[test]
fn an_idle_queue_pair_has_no_deadline() {
    for more in 0..12 {
        net(1, &Setup::default(), Weather::default(), |net| {
            let set = |net: &mut Net<'_>, up| {
                for plane in 0..2 {
                    net.sides[0].engine.set_port(net.now, PortNum::from_plane(plane), up);
                }
                net.drain(0);
            };
            set(net, false);
            net.post(0, 0, 0, 100).unwrap();
            at(net, 20_000 + more * 1_000);
            assert!(!net.completed(1));
            set(net, true);
            at(net, SECOND);
            assert!(net.completed(1));
            for side in &net.sides {
                assert_eq!(side.engine.next_timeout(), None);
            }
        });
    }
}

/// A packet that found no path is tried again a base round trip later, once: when it has left nothing is due because of it.
//= SND-004 test
#[test]
fn a_packet_without_a_path_is_tried_again() {
    net(1, &Setup::default(), Weather::default(), |net| {
        let (profile, now) = (net.sides[0].profile.unwrap(), net.now);
        let mut evs = [EvReport::EMPTY; 16];
        net.sides[0].engine.query_evs(profile, 0, &mut evs).unwrap();
        let set = |net: &mut Net<'_>, state| {
            for report in &evs {
                net.sides[0].engine.set_ev_state(now, profile, &report.ev, state, false).unwrap();
                net.sides[0].engine.handle_timeout(net.now);
            }
        };
        set(net, EvState::Denied);
        net.post(0, 0, 0, 100).unwrap();
        at(net, 45_000);
        assert_eq!(net.sides[0].engine.stats().tx_data, 0);
        set(net, EvState::Good);
        at(net, SECOND);
        assert!(net.completed(1));
        assert_eq!(net.sides[0].engine.next_timeout(), None);
    });
}

/// A window that closes behind a packet that asked draws no early probe, though a knob has one follow every tail: its acknowledgement
/// is on its way.
//= PROBE-006, AREQ-001 test
#[test]
fn a_window_that_closes_behind_a_question_waits_for_its_answer() {
    let setup = Setup { tail_probe_ns: 2_000, cc: vec![CcConfig::Fixed { window_bytes: 20_000 }], ..Setup::default() };
    net(1, &setup, DEAD, |net| {
        net.post(0, 0, 0, 60_000).unwrap();
        let stats = at(net, 19_999);
        assert!((10..30).contains(&stats.tx_data) && stats.tx_probe == 0, "{} packets", stats.tx_data);
        assert_eq!(at(net, 20_000).tx_probe, 1, "a round trip and the target delay");
    });
}

/// A probe follows each tail, and after that silence alone draws one: reports that come one by one do not.
//= PROBE-006 test
#[test]
fn reports_draw_no_probes() {
    let setup = Setup { tail_probe_ns: 2_000, ..Setup::default() };
    for seed in 0..8 {
        net(seed, &setup, Weather { reorder: 500, ..Weather::default() }, |net| {
            net.post(0, 0, 0, 32 * 1_024).unwrap();
            let mut last = 0;
            let mut probes = 0;
            while net.now.as_nanos() < 300_000 {
                let stats = at(net, net.now.as_nanos() + 500);
                if stats.tx_probe > probes {
                    assert!(
                        probes == 0 || stats.retransmitted > 0 || net.now.as_nanos() - last >= 40_000,
                        "seed {seed}"
                    );
                    (last, probes) = (net.now.as_nanos(), stats.tx_probe);
                }
            }
        });
    }
}

/// A selector that listens to delay hears how long each path takes; when it takes too long, the QP probes others and says so.
//= HOP-003, HOP-004 test
#[test]
fn a_selector_hears_the_round_trips_of_its_path() {
    for (delay_ns, asks) in [(0, false), (40_000, true)] {
        let rts: fn(&mut RtsAttr) = |rts| rts.selector = Selector::Hopper(HopperConfig::default());
        let setup = Setup { rts, events: EventMask::ALL, ..Setup::default() };
        net(1, &setup, Weather { delay_ns, ..Weather::default() }, |net| {
            for turn in 0..20 {
                net.post(0, turn, 0, 100).unwrap();
                at(net, (turn + 1) * 150_000);
            }
            let heard = net.sides[0].events.iter().filter_map(|event| match event {
                Event::PathProbe { rtt_ns, .. } => Some(u64::from(*rtt_ns)),
                _ => None,
            });
            let heard: Vec<u64> = heard.collect();
            assert_eq!(!heard.is_empty(), asks);
            assert!(heard.iter().all(|rtt| rtt.abs_diff(2 * (4_000 + delay_ns)) < 16), "{heard:?}");
        });
    }
}

/// Two probes of a QP leave no closer than its limit, and the second one no later.
//= PROBE-008 test
#[test]
fn probes_keep_their_distance() {
    let setup = Setup { rts: |rts| rts.probe_rate_limit_ns = 7_000, ..Setup::default() };
    net(1, &setup, DEAD, |net| {
        // Both timers run out at once, and each asks for a probe on the path of its packet.
        net.post(0, 0, 0, 2_048).unwrap();
        let before = at(net, T0 - 1).tx_probe;
        for (ns, probes) in [(0, 1), (6_999, 1), (7_000, 2)] {
            assert_eq!(at(net, T0 + ns).tx_probe - before, probes, "{ns} ns behind the timer");
        }
    });
}

/// Between two deadlines of a QP nobody wakes it: a probe that left keeps the next one at its distance, and that is no deadline while
/// none is wanted.
//= PROBE-006, PROBE-008 test
#[test]
fn a_queue_pair_sleeps_until_its_next_deadline() {
    net(1, &Setup::default(), DEAD, |net| {
        net.post(0, 0, 0, 100).unwrap();
        // The tail probe after 20 us; the next one five round trips later; the first is given up after 100 us.
        for (ns, probes, next) in [(0, 0, 20_000), (20_000, 1, 70_000), (70_000, 2, 120_000)] {
            assert_eq!(at(net, ns).tx_probe, probes);
            assert_eq!(net.sides[0].engine.next_timeout(), Some(Instant::from_nanos(next)));
        }
    });
}

/// A bad EV is probed at its interval while data is on its way, an eighth as often when there is none.
//= RES-004 test
#[test]
fn bad_evs_are_probed_rarely_while_nothing_is_sent() {
    for (busy, probes) in [(true, 4), (false, 1)] {
        let setup = Setup { trimming: Trimming::On, ..Setup::default() };
        net(1, &setup, Weather::default(), |net| {
            net.post(0, 0, 0, 1_000).unwrap();
            at(net, 50_000);
            let bad = net.used.keys().find(|(side, _)| *side == 0).map(|(_, ev)| *ev).unwrap();
            net.weather.black_hole = Some(bad);
            net.post(0, 0, 0, 60_000).unwrap();
            assert!(net.run(SECOND, |net| net.sides[0].info(0).evs.assumed_bad > 0));
            let probed = |net: &Net<'_>| net.used.get(&(0, bad)).copied().unwrap_or(0);
            let (since, before) = (net.now.as_nanos(), probed(net));
            // The probe of the tail left before: probes come after 1, 2, 4 and 8 intervals of 1 ms, each behind the one before.
            while net.now.as_nanos() < since + 17_000_000 {
                if busy {
                    net.post(0, 0, 0, 100).unwrap();
                }
                at(net, net.now.as_nanos() + 4_000);
            }
            assert_eq!(probed(net) - before, probes, "busy: {busy}");
        });
    }
}

/// What an application reads of a QP: its smoothed round trip begins at the one it was told and follows what it measures, and its
/// retransmissions are those of the endpoint when there is no other QP.
#[test]
fn a_queue_pair_tells_its_round_trip_and_retransmissions() {
    net(1, &Setup::default(), DEAD, |net| {
        assert_eq!(net.sides[0].info(0).srtt_ns, 10_000);
        net.post(0, 0, 0, 5_000).unwrap();
        at(net, 2 * T0);
        net.weather.dead = false;
        let stats = at(net, 10 * T0);
        let info = net.sides[0].info(0);
        assert!(stats.retransmitted >= 5 && u64::from(info.retransmitted) == stats.retransmitted);
        for turn in 0..40 {
            net.post(0, turn, 0, 100).unwrap();
            at(net, (11 + turn) * T0);
        }
        assert!((8_000..8_200).contains(&net.sides[0].info(0).srtt_ns), "{}", net.sides[0].info(0).srtt_ns);
    });
}

/// Where a write packet on the wire lies in its message, from 0, and whether it was sent before.
fn nth(net: &Net<'_>, frame: &[u8]) -> Option<(i32, bool)> {
    let parsed = parse_frame(frame, frame.len(), &WireConfig::default(), |_| true).ok()?;
    let of_peer = parsed.bth.dest_qp == net.sides[1].qps[0].qpn() && matches!(parsed.body, Body::Write { .. });
    of_peer.then(|| (parsed.bth.psn.diff(Psn::new(Setup::default().psn)), parsed.bth.rtx))
}

/// A retransmission leaves when it lies in the window of PSNs that the peer allows now, up to the last one.
//= SND-003, DMPR-003 test
#[test]
fn retransmissions_keep_to_a_window_that_shrank() {
    // 250 packets are on their way; then the peer allows 128.
    for (lost, sent) in [([0, 127], 2), ([0, 128], 1)] {
        let cc = vec![CcConfig::Fixed { window_bytes: 1 << 20 }];
        let setup = Setup { dynamic_mpr: true, cc, ..Setup::default() };
        net(1, &setup, Weather::default(), |net| {
            net.post(0, 0, 0, 250 * 1_024).unwrap();
            assert_eq!(net.sides[0].engine.stats().tx_data, 250);
            net.sides[1].engine.set_mpr(net.sides[1].qps[0], 1).unwrap();
            // The first copies are lost, and what leaves again, too.
            while net.now.as_nanos() < 15_000 && !net.wire.is_empty() {
                let doomed = |frame: &[u8]| nth(net, frame).is_some_and(|(nth, rtx)| rtx || lost.contains(&nth));
                let gone: Vec<_> =
                    net.wire.iter().filter(|(_, (_, _, frame))| doomed(frame)).map(|(at, _)| *at).collect();
                for at in gone {
                    net.wire.remove(&at);
                }
                let due = net.wire.first_key_value().map_or(15_000, |(&(at, _), _)| at);
                at(net, due);
            }
            assert_eq!(net.sides[0].engine.stats().retransmitted, sent, "{lost:?} lost");
        });
    }
}

/// The probe for the base round trip finds no way out, because its port fails before it leaves: the next feedback asks for another.
//= PROBE-007, NSCC-024 test
#[test]
fn a_base_round_trip_that_could_not_be_probed_is_asked_for_again() {
    let cc = CcConfig::Nscc(NsccConfig::new(100_000_000_000, 10_000, false));
    for fails in [false, true] {
        net(1, &Setup { cc: vec![cc], ..Setup::default() }, Weather::default(), |net| {
            net.post(0, 0, 0, 100).unwrap();
            // The packet arrives; then its acknowledgements, after which nothing leaves yet.
            net.deliver_next();
            net.drain(1);
            while !net.wire.is_empty() {
                net.deliver_next();
            }
            let path = net.used.keys().find(|(side, _)| *side == 0).unwrap().1;
            let port = PortNum::from_plane((path.0 >> 8) as u8);
            if fails {
                net.sides[0].engine.set_port(net.now, port, false);
            }
            net.drain(0);
            assert_eq!(net.sides[0].engine.stats().tx_probe, u64::from(!fails));
            net.sides[0].engine.set_port(net.now, port, true);
            net.post(0, 1, 0, 100).unwrap();
            net.run(1_000_000, |_| false);
            assert_eq!(net.sides[0].engine.stats().tx_probe, 1);
        });
    }
}

/// The peer lives and answers probes, but no write above 600 bytes gets through: probes show each loss at once, and the retry budget
/// ends the queue pair all the same. By inference a packet is repeated six times before its first timeout, and three behind each other.
//= LOSS-004, RETRY-003 test
#[test]
fn a_hole_for_long_packets_ends_the_queue_pair() {
    let retry = RetryConfig { timeout: 8, linear: 7, exponential: 0 };
    net(1, &Setup { retry, ..Setup::default() }, Weather::default(), |net| {
        net.post(0, 0, 0, 1_024).unwrap();
        let until = Instant::from_nanos(3 * retry.budget_ns().unwrap());
        while net.sides[0].completions.is_empty() && net.now < until {
            while let Some(((at, _), (to, port, frame))) = net.wire.pop_first() {
                net.now = net.now.max(Instant::from_nanos(at));
                let parsed = parse_frame(&frame, frame.len(), &WireConfig::default(), |_| true).unwrap();
                if !matches!(parsed.body, Body::Write { .. }) || frame.len() <= 600 {
                    let _ = net.deliver(to, port, &frame);
                    net.transmit(to);
                }
            }
            net.now = net.now.max(net.sides[0].engine.next_timeout().unwrap_or(until));
            net.sides[0].engine.handle_timeout(net.now);
            net.drain(0);
        }
        let done = net.sides[0].completions.first().map(|done| done.status);
        assert_eq!(done, Some(Status::RetryExceeded));
        assert_eq!(net.sides[0].engine.stats().lost_inferred, 6 + 7 * 3);
    });
}

/// A timer that fires while the probe limit lets nothing leave is a wake-up for nothing.
//= PROBE-006, PROBE-008 test
#[test]
fn a_tail_is_probed_no_sooner_than_the_probe_limit_allows() {
    const LIMIT: u64 = 1_000_000;
    let retry = RetryConfig { timeout: 20, ..RETRY };
    let setup = Setup { retry, rts: |rts| rts.probe_rate_limit_ns = LIMIT, ..Setup::default() };
    net(1, &setup, DEAD, |net| {
        net.post(0, 0, 0, 3_000).unwrap();
        let mut wake_ups = 0;
        while let Some(next) = net.sides[0].engine.next_timeout().filter(|next| next.as_nanos() <= 10 * LIMIT) {
            wake_ups += 1;
            net.now = net.now.max(next);
            net.sides[0].engine.handle_timeout(net.now);
            net.drain(0);
        }
        let probes = net.sides[0].engine.stats().tx_probe;
        assert!((9..=11).contains(&probes), "{probes} probes");
        // One that asks for the probe, one that finds it unanswered, and one that lets the next one leave.
        assert!(wake_ups <= 3 * probes, "{wake_ups} wake-ups for {probes} probes");
    });
}

/// Times at which side 0 sends a tail probe to a peer that answers nothing, in nanoseconds, until `end`.
fn tail_probes(silent_packets: u8, retry: RetryConfig, rts: fn(&mut RtsAttr), end: u64) -> Vec<u64> {
    let tweak = match silent_packets {
        0 => |cfg: &mut EndpointConfig| cfg.silent_packets = 0,
        _ => |cfg: &mut EndpointConfig| cfg.silent_packets = 4,
    };
    net(1, &Setup { retry, tweak, rts, ..Setup::default() }, DEAD, |net| {
        // It was idle before: nothing was owed then.
        at(net, 5 * SECOND);
        net.post(0, 0, 0, 20_000).unwrap();
        let (began, mut times) = (net.now.as_nanos(), vec![]);
        while let Some(next) = net.sides[0].engine.next_timeout().filter(|next| next.as_nanos() < began + end) {
            let before = net.sides[0].engine.stats().tx_probe;
            net.now = next;
            net.sides[0].engine.handle_timeout(next);
            net.drain(0);
            if net.sides[0].engine.stats().tx_probe > before {
                times.push(next.as_nanos() - began);
            }
        }
        times
    })
}

/// A tail probe follows the one before after five round trips. By the knob that keeps silent queue pairs quiet it follows no sooner than
/// after a quarter of the silence, and no later than after T0.
//= PROBE-006 test
#[test]
fn a_silent_peer_is_asked_less_and_less() {
    const PACE: u64 = 50_000;
    let untimed = RetryConfig { timeout: 0, ..RETRY };
    let long = RetryConfig { timeout: 16, ..RETRY };
    for (retry, longest) in [(untimed, 1_024 << 14), (long, 1_024 << 16)] {
        let steady = tail_probes(0, retry, |_| (), 60_000_000);
        assert!(steady.windows(2).all(|pair| pair[1] - pair[0] == PACE), "{steady:?}");
        let quiet = tail_probes(4, retry, |_| (), 2 * SECOND);
        assert_eq!(quiet[..4], steady[..4], "five round trips are a quarter of twenty");
        for pair in quiet.windows(2) {
            let (silent, distance) = (pair[0], pair[1] - pair[0]);
            let want = (silent / 4).clamp(PACE, longest);
            if retry.t0_ns().is_none_or(|t0| pair[1] < t0) {
                assert!(distance.abs_diff(want) <= 16, "{distance} at {silent}");
            }
            // Behind a timeout retransmissions draw probes of their own, and how long silence lasted before is not known.
            assert!(distance <= longest + 16, "{distance} at {silent}");
        }
        assert!(retry.t0_ns().is_some() || quiet.len() < 160, "{}", quiet.len());
    }
}

/// Nobody measures a round trip of a nanosecond, but one can be set.
//= PROBE-006 test
#[test]
fn tail_probes_are_a_microsecond_apart_at_least() {
    let tiny = |rts: &mut RtsAttr| (rts.base_rtt_ns, rts.probe_rate_limit_ns) = (1, 0);
    let times = tail_probes(0, RetryConfig { timeout: 10, ..RETRY }, tiny, 100_000);
    assert!((50..=102).contains(&times.len()), "{} probes in 100 us", times.len());
}
