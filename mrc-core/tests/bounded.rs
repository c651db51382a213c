//! Calls that concern every queue pair serve a few of them, and the next calls the others; in the end all is as if one call had
//! served them all.

mod common;

use common::{Net, Setup, Weather, net};
use mrc_core::path::EvState;
use mrc_core::{EndpointConfig, Event, EventMask, Instant, PortMask, ProfileState, QpState, RtrAttr, RtsAttr};
use mrc_wire::{PortNum, Psn, Qpn};

const QPS: usize = 40;

fn setup(tweak: fn(&mut EndpointConfig)) -> Setup {
    let events = EventMask::EV.with(EventMask::PORT);
    Setup { qps: QPS, qpccs: 4, half: 1 << 16, events, event_slots: 4_096, tweak, ..Setup::default() }
}

fn whole() -> Setup {
    setup(|_| {})
}

fn few() -> Setup {
    setup(|cfg| cfg.call_budget = 3)
}

/// Lets an endpoint go on until nothing is due now; the calls it took.
fn settle(net: &mut Net<'_>, side: usize) -> usize {
    let now = net.now;
    let engine = &mut net.sides[side].engine;
    let mut calls = 0;
    while engine.next_timeout().is_some_and(|at| at <= now) {
        engine.handle_timeout(now);
        calls += 1;
        assert!(calls < 1_000, "it ends");
    }
    calls
}

/// EVs that events of queue pairs name, in order; events so far.
fn told(net: &mut Net<'_>, side: usize) -> Vec<(u32, EvState)> {
    std::iter::from_fn(|| net.sides[side].engine.poll_event())
        .filter_map(|event| match event {
            Event::Ev { qp, transition } => Some((qp.value(), transition.to)),
            _ => None,
        })
        .collect()
}

/// A denied EV reaches three queue pairs per call, and all of them in the end.
//= EV-014, DENY-001 test
#[test]
fn a_command_to_an_ev_reaches_queue_pairs_a_few_per_call() {
    let mut ends = vec![];
    for setup in [whole(), few()] {
        net(1, &setup, Weather::default(), |net| {
            let (now, profile) = (net.now, net.sides[0].profile.unwrap());
            let budget = net.sides[0].engine.config().call_budget as usize;
            let mut evs = [mrc_core::EvReport::EMPTY; 2];
            net.sides[0].engine.query_evs(profile, 0, &mut evs).unwrap();
            let mut counts = vec![];
            for state in [EvState::Denied, EvState::Good] {
                net.sides[0].engine.set_ev_state(now, profile, &evs[0].ev, state, false).unwrap();
                let mut last = told(net, 0).len();
                assert!(last == budget.min(QPS), "{last} at once");
                let mut seen = last;
                while net.sides[0].engine.next_timeout() == Some(Instant::ZERO) {
                    net.sides[0].engine.handle_timeout(now);
                    last = told(net, 0).len();
                    assert!(last <= budget);
                    seen += last;
                }
                assert_eq!(seen, QPS);
                counts.push((0..QPS).map(|qp| net.sides[0].info(qp).evs.denied).collect::<Vec<_>>());
            }
            ends.push(counts);
        });
    }
    assert_eq!(ends[0], ends[1]);
    assert_eq!((ends[0][0].clone(), ends[0][1].clone()), (vec![1; QPS], vec![0; QPS]));
}

/// The last word holds, whatever was under way; and a ninth command is refused until one has come round.
//= EV-014 test
#[test]
fn commands_that_overtake_each_other_end_in_order() {
    net(1, &few(), Weather::default(), |net| {
        let (now, profile) = (net.now, net.sides[0].profile.unwrap());
        let mut evs = [mrc_core::EvReport::EMPTY; 2];
        net.sides[0].engine.query_evs(profile, 0, &mut evs).unwrap();
        let engine = &mut net.sides[0].engine;
        for state in [EvState::Denied, EvState::Good].repeat(4) {
            engine.set_ev_state(now, profile, &evs[0].ev, state, false).unwrap();
        }
        let again = engine.set_ev_state(now, profile, &evs[1].ev, EvState::Denied, true);
        assert_eq!(again, Err(mrc_core::path::ProfileError::Commands));
        let calls = settle(net, 0);
        assert!(calls > 1);
        assert!((0..QPS).all(|qp| net.sides[0].info(qp).evs.denied == 0));
        net.sides[0].engine.set_ev_state(now, profile, &evs[1].ev, EvState::Denied, true).unwrap();
        settle(net, 0);
        assert!((0..QPS).all(|qp| net.sides[0].info(qp).evs.denied == 1));
    });
}

/// A command that has not reached all queue pairs ends with its profile: it does not deny an EV of the profile that takes its slot.
//= EV-014 test
#[test]
fn a_command_to_an_ev_does_not_outlive_its_profile() {
    for reprogrammed in [false, true] {
        net(1, &few(), Weather::default(), |net| {
            let (now, profile, peer) = (net.now, net.sides[0].profile.unwrap(), net.sides[0].peer.unwrap());
            let handles = net.sides[0].qps.clone();
            let engine = &mut net.sides[0].engine;
            let mut evs = [mrc_core::EvReport::EMPTY; 1];
            engine.query_evs(profile, 0, &mut evs).unwrap();
            engine.set_ev_state(now, profile, &evs[0].ev, EvState::Denied, false).unwrap();
            for &qp in &handles {
                engine.modify_to_reset(qp).unwrap();
            }
            let auto = mrc_core::EvProfileConfig {
                mode: mrc_core::EvMode::Auto,
                format: mrc_core::path::EvFormat::UDP,
                fields: &[],
                count: 16,
                min_active: 0,
                events: mrc_core::EvEventMask::default(),
                paths: &[],
            };
            let profile = if reprogrammed {
                engine.set_ev_profile_state(profile, ProfileState::Offline).unwrap();
                profile
            } else {
                engine.destroy_ev_profile(profile).unwrap();
                engine.open_ev_profile(7).unwrap()
            };
            engine.configure_ev_profile(profile, &auto).unwrap();
            engine.set_ev_profile_state(profile, ProfileState::Online).unwrap();
            for &qp in &handles {
                engine.modify_to_init(qp).unwrap();
                engine.modify_to_rtr(now, qp, &RtrAttr::software(peer, Qpn::new(77), Psn::new(0), profile)).unwrap();
                engine.modify_to_rts(now, qp, &RtsAttr::software(Psn::new(0))).unwrap();
            }
            settle(net, 0);
            assert!((0..QPS).all(|qp| net.sides[0].info(qp).evs.denied == 0), "reprogrammed: {reprogrammed}");
        });
    }
}

/// A port that is down is not used at once, however few queue pairs have heard of it; one that comes back wakes them all.
//= PORT-001, PORT-003 test
#[test]
fn a_port_goes_down_and_comes_back_for_all() {
    for setup in [whole(), few()] {
        net(1, &setup, Weather::default(), |net| {
            let (both, second) = (PortMask::first(2), PortNum::from_plane(1));
            let now = net.now;
            for port in [PortNum::from_plane(0), second] {
                net.sides[0].engine.set_port(now, port, false);
            }
            for qp in 0..QPS {
                net.post(qp, qp as u64, qp * 1_000, 1_000).unwrap();
            }
            assert!(net.wire.is_empty(), "nothing leaves without a port");
            net.sides[0].engine.set_port(now, second, true);
            let calls = settle(net, 0);
            assert_eq!(calls > 5, net.sides[0].engine.config().call_budget < 100, "{calls} calls");
            net.drain(0);
            let ports = net.wire.values().fold(PortMask::NONE, |mask, (_, port, _)| mask.with(*port));
            assert_eq!(ports.and(both), PortMask::NONE.with(second));
            assert!(net.run(1_000_000_000, |net| net.completed(QPS)));
            net.assert_arrived(0, QPS * 1_000);
        });
    }
}

/// Timers of all queue pairs at once: three are served per call, and none is forgotten.
#[test]
fn timers_that_are_due_together_are_served_a_few_per_call() {
    net(1, &few(), Weather { dead: true, ..Weather::default() }, |net| {
        for qp in 0..QPS {
            net.post(qp, qp as u64, qp * 1_000, 1_000).unwrap();
        }
        // Long after all of them.
        net.now = net.now.after(100_000_000);
        let mut lost = 0;
        loop {
            let now = net.now;
            let engine = &mut net.sides[0].engine;
            if engine.next_timeout().is_none_or(|at| at > now) {
                break;
            }
            engine.handle_timeout(now);
            let all = engine.stats().lost_timeout;
            assert!(all - lost <= 3, "{} in one call", all - lost);
            lost = all;
        }
        assert!(lost >= QPS as u64);
    });
}

/// Weather, ports that flap and commands: with a budget of one everything arrives as without.
#[test]
fn everything_arrives_with_a_budget_of_one() {
    let setup = setup(|cfg| cfg.call_budget = 1);
    net(3, &setup, Weather { loss: 30, reorder: 100, ..Weather::default() }, |net| {
        for round in 0..6usize {
            for qp in 0..QPS {
                net.post(qp, (round * QPS + qp) as u64, (round * QPS + qp) * 200, 200).unwrap();
            }
            let (now, port) = (net.now, PortNum::from_plane((round % 2) as u8));
            net.sides[round % 2].engine.set_port(now, port, false);
            net.run(now.as_nanos() + 300_000, |_| false);
            let now = net.now;
            net.sides[round % 2].engine.set_port(now, port, true);
        }
        assert!(net.run(60_000_000_000, |net| net.completed(6 * QPS)));
        net.assert_arrived(0, 6 * QPS * 200);
        assert!((0..QPS).all(|qp| net.sides[0].info(qp).state == QpState::Rts));
    });
}

#[test]
fn a_budget_of_none_is_refused() {
    let mut storage = mrc_core::OwnedStorage::new(mrc_core::Limits::default()).unwrap();
    let mut cfg = EndpointConfig { call_budget: 0, ..EndpointConfig::default() };
    cfg.gids[0] = Some(common::address(0, false));
    cfg.ports[0] = Some(mrc_core::PortConfig { mac: [2; 6], sid: None, addr: None });
    let error = mrc_core::Endpoint::new(cfg, storage.lend(), 1).unwrap_err();
    assert_eq!(error, mrc_core::ConfigError::Range { what: "call_budget" });
}
