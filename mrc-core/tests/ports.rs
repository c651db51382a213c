//! Ports that fail and return while the network loses everything, peers whose updates are forged, and QPs without any
//! port, in virtual time.

mod common;

use std::cell::Cell;

use common::{Net, PLANES, Setup, Weather, address, net};
use mrc_core::path::EvEntry;
use mrc_core::{
    EndpointConfig, ErrorCause, Event, FrameSink, Instant, MAX_HEADER_LEN, MAX_PORTS, OpRequest, Pd, PeerConfig,
    PeerHandle, PlanePath, PortMask, QpInit, QpState, RetryConfig, Route, RtrAttr, RtsAttr, Status, Transmit,
};
use mrc_wire::{EndpointOp, Ev, Ip, PortNum, Psn, Qpn};

const PORT1: PortNum = PortNum::from_plane(0);
const PORT2: PortNum = PortNum::from_plane(1);
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// T0 = 1 ms, as with software; 127 ms and more in all.
const RETRY: RetryConfig = RetryConfig { timeout: 10, linear: 7, exponential: 6 };

fn setup() -> Setup {
    Setup { tell_ports: true, retry: RETRY, ..Setup::default() }
}

/// The ports that side `which` believes its peer has.
fn peer_ports(net: &Net<'_>, which: usize) -> PortMask {
    let side = &net.sides[which];
    side.engine.peer_ports(side.peer.unwrap()).unwrap().and(PortMask::first(PLANES))
}

/// Lets `ns` pass while side 0 writes a message of ten packets per millisecond; how many of its packets left through each
/// port.
fn traffic(net: &mut Net<'_>, ns: u64) -> [u64; 2] {
    let count = |net: &Net<'_>| [0, 1].map(|plane| net.sides[0].engine.stats().ports[plane].tx_packets);
    let (end, before) = (net.now.as_nanos() + ns, count(net));
    while net.now.as_nanos() < end && net.sides[0].info(0).state == QpState::Rts {
        if net.sides[0].info(0).queued < 2 {
            net.post(0, 0, 0, 10_000).unwrap();
        }
        let until = end.min(net.now.as_nanos() + MS);
        net.run(until, |_| false);
        net.now = net.now.max(Instant::from_nanos(until));
    }
    let after = count(net);
    [after[0] - before[0], after[1] - before[1]]
}

/// A Port Status Update in the name of side 1 reaches side 0.
fn forge(net: &mut Net<'_>, ports: PortMask) {
    let path = EvEntry::new(Ev(0), PORT1);
    let op = EndpointOp::PortStatusUpdate;
    let forged = OpRequest { cookie: 0, op, ports, path, dscp: None, timeout_ns: MS };
    let peer = net.sides[1].peer.unwrap();
    net.sides[1].engine.post_endpoint_op(peer, &forged).unwrap();
    net.drain(1);
}

/// The link of port 2 fails at 2 s and returns at 3.2 s, while from 3.0 s to 3.7 s nothing arrives anywhere: longer than
/// the first repetitions of the news that it is back.
//= EPOP-006 test
#[test]
fn a_port_whose_return_is_not_heard_at_once_is_used_again() {
    for (seed, other_cut) in [(0, false), (1, true)] {
        // Six times the outage.
        let setup = Setup { retry: RetryConfig { exponential: 12, ..RETRY }, ..setup() };
        net(seed, &setup, Weather::default(), |net| {
            traffic(net, 2_000 * MS);
            net.sides[1].engine.set_port(net.now, PORT2, false);
            let used = traffic(net, 1_000 * MS);
            assert!(used[1] < 20, "a port that is down carries {used:?}");
            net.weather.dead = true;
            traffic(net, 200 * MS);
            net.sides[1].engine.set_port(net.now, PORT2, true);
            traffic(net, 500 * MS);
            net.weather.dead = false;
            if other_cut {
                traffic(net, 300 * MS);
                net.sides[1].engine.set_port(net.now, PORT1, false);
            }
            traffic(net, 2_000 * MS);
            let used = traffic(net, 1_000 * MS);
            if other_cut {
                assert!(used[1] > 1_000 && used[0] == 0, "{used:?}");
            } else {
                assert!(used[0].abs_diff(used[1]) * 10 < used[0] + used[1], "{used:?}");
            }
            assert_eq!(net.sides[0].info(0).state, QpState::Rts);
            assert!(net.sides[0].completions.iter().all(|done| done.status == Status::Success));
        });
    }
}

/// The engine that never hears of the return hears the port itself.
//= EPOP-008 test
#[test]
fn a_packet_from_a_masked_port_unmasks_it() {
    net(2, &setup(), Weather::default(), |net| {
        traffic(net, 30 * MS);
        let one = PortMask::NONE.with(PORT1);
        forge(net, one);
        let told = net.sides[0].events.len();
        // What was under way when a port failed may arrive after the news: for a while it shows nothing.
        let used = traffic(net, 10 * MS);
        assert!(peer_ports(net, 0) == one && used[1] < 20, "{used:?}");
        traffic(net, 10 * MS);
        assert_eq!(peer_ports(net, 0), PortMask::first(PLANES));
        let news = |event: &&Event| matches!(event, Event::PeerPorts { .. });
        assert_eq!(net.sides[0].events[told..].iter().filter(news).count(), 2);
        let used = traffic(net, 10 * MS);
        assert!(used[0].abs_diff(used[1]) * 5 < used[0] + used[1], "{used:?}");
    });
}

/// News of ports go to nodes with queue pairs towards them. A port that returned when there were none is unmasked by an EV probe,
/// however old: who has no paths of his own towards the prober could not answer it.
//= EPOP-008 test
#[test]
fn an_ev_probe_from_a_masked_port_unmasks_it() {
    net(4, &setup(), Weather::default(), |net| {
        traffic(net, 30 * MS);
        let one = PortMask::NONE.with(PORT1);
        forge(net, one);
        assert!(net.run(net.now.as_nanos() + MS, |net| peer_ports(net, 0) == one && net.wire.is_empty()));
        for side in &mut net.sides {
            side.engine.destroy_qp(side.qps[0]).unwrap();
        }
        let probe = |net: &mut Net<'_>| {
            let path = EvEntry::new(Ev(0x103), PORT2);
            let (op, ports) = (EndpointOp::EvProbe, PortMask::NONE);
            let request = OpRequest { cookie: 1, op, ports, path, dscp: None, timeout_ns: MS };
            let peer = net.sides[1].peer.unwrap();
            net.sides[1].engine.post_endpoint_op(peer, &request).unwrap();
            net.drain(1);
            net.run(net.now.as_nanos() + 2 * MS, |_| false);
            peer_ports(net, 0)
        };
        assert_eq!(probe(net), one, "it may have left before the mask");
        net.now = net.now.after(net.sides[0].engine.config().port_unmask_after_ns);
        assert_eq!(probe(net), PortMask::first(PLANES));
        assert_eq!(net.sides[0].engine.stats().peer_ports_unmasked, 1);
    });
}

//= EPOP-008 test
#[test]
fn with_the_knob_off_only_updates_unmask() {
    let setup = Setup { tweak: |cfg| cfg.port_unmask_after_ns = 0, ..setup() };
    net(3, &setup, Weather::default(), |net| {
        traffic(net, 30 * MS);
        forge(net, PortMask::NONE.with(PORT1));
        let used = traffic(net, 1_000 * MS);
        assert!(used[0] > 1_000 && used[1] < 20, "{used:?}");
    });
}

/// Forged, stale, or the truth of a moment ago: an update that leaves no port does not stop a transfer.
//= EPOP-008, EPOP-009 test
#[test]
fn a_forged_update_without_ports_stops_no_transfer() {
    for seed in 0..8 {
        net(seed, &setup(), Weather::default(), |net| {
            traffic(net, 30 * MS);
            if seed % 2 == 0 {
                // The window is open.
                net.post(0, 1, 0, 200_000).unwrap();
            }
            forge(net, PortMask::NONE);
            net.run(net.now.as_nanos() + 5_000, |_| false);
            assert_eq!(peer_ports(net, 0), PortMask::NONE);
            let done = net.sides[0].completions.len();
            traffic(net, 40 * MS);
            assert!(net.sides[0].completions.len() > done + 15, "{}", net.sides[0].completions.len() - done);
            assert_eq!(peer_ports(net, 0), PortMask::first(PLANES));
        });
    }
}

/// Both sides are told so: neither sends data, and the probes of one show the ports of both.
//= EPOP-009 test
#[test]
fn two_forged_updates_stop_no_transfer() {
    net(4, &setup(), Weather::default(), |net| {
        traffic(net, 30 * MS);
        forge(net, PortMask::NONE);
        net.run(net.now.as_nanos() + 5_000, |_| false);
        let path = EvEntry::new(Ev(0), PORT1);
        let op = EndpointOp::PortStatusUpdate;
        let forged = OpRequest { cookie: 0, op, ports: PortMask::NONE, path, dscp: None, timeout_ns: MS };
        // Side 0 has no port to send this through; the harness hands it over as if it had.
        let peer = net.sides[0].peer.unwrap();
        net.sides[0].engine.post_endpoint_op(peer, &forged).unwrap();
        net.drain(0);
        net.run(net.now.as_nanos() + 5_000, |_| false);
        assert_eq!((peer_ports(net, 0), peer_ports(net, 1)), (PortMask::NONE, PortMask::NONE));
        let done = net.sides[0].completions.len();
        traffic(net, 60 * MS);
        assert!(net.sides[0].completions.len() > done + 15);
    });
}

/// Why a QP has no port.
#[derive(Clone, Copy, PartialEq)]
enum Lost {
    /// Its own are down.
    Ours,
    /// Its peer has masked all of its own, and is gone.
    Theirs,
    /// Some are masked, the others down.
    Both,
}

impl Lost {
    fn happens(self, net: &mut Net<'_>) {
        match self {
            Self::Ours => {
                net.wire.clear();
                net.weather.dead = true;
                net.sides[0].engine.set_port(net.now, PORT1, false);
                net.sides[0].engine.set_port(net.now, PORT2, false);
            }
            Self::Theirs | Self::Both => {
                let left = if self == Self::Theirs { PortMask::NONE } else { PortMask::NONE.with(PORT2) };
                forge(net, left);
                net.run(net.now.as_nanos() + 5_000, |_| false);
                net.wire.clear();
                net.weather.dead = true;
                if self == Self::Both {
                    net.sides[0].engine.set_port(net.now, PORT2, false);
                }
            }
        }
    }
}

/// The budget is charged by time: nothing that could be retransmitted leaves.
//= RETRY-004, SEL-007 test
#[test]
fn a_qp_without_a_port_fails_within_its_budget() {
    let budget = RETRY.budget_ns().unwrap();
    for (seed, lost) in [(0, Lost::Ours), (1, Lost::Theirs), (2, Lost::Both)] {
        // Posted before or after, or both.
        for posted in 0..3 {
            net(seed, &setup(), Weather::default(), |net| {
                traffic(net, 30 * MS);
                net.run(net.now.as_nanos() + MS, |net| net.sides[0].info(0).queued == 0);
                net.sides[0].completions.clear();
                if posted != 1 {
                    // The answers are lost with the ports.
                    net.post(0, 1, 0, 20_000).unwrap();
                    net.wire.clear();
                }
                lost.happens(net);
                if posted != 0 {
                    net.post(0, 2, 0, 20_000).unwrap();
                }
                let start = net.now;
                assert!(net.run(start.as_nanos() + 10 * SECOND, |net| net.completed(1)), "neither done nor failed");
                let took = net.now.since(start);
                let first = net.sides[0].completions[0];
                assert_eq!(first.status, Status::RetryExceeded);
                assert!((budget / 2..budget * 11 / 10).contains(&took), "{took} of {budget} ns");
                let (qp, cause) = (net.sides[0].qps[0].qpn(), ErrorCause::NoUsablePort);
                assert!(net.sides[0].events.contains(&Event::QpError { qp, cause }), "{:?}", net.sides[0].events);
            });
        }
    }
}

//= RETRY-004 test
#[test]
fn a_qp_whose_port_returns_in_time_goes_on() {
    let budget = RETRY.budget_ns().unwrap();
    for seed in 0..2 {
        net(seed, &setup(), Weather::default(), |net| {
            traffic(net, 30 * MS);
            Lost::Ours.happens(net);
            for _ in 0..5 {
                traffic(net, budget * 9 / 10);
                assert_eq!(net.sides[0].info(0).state, QpState::Rts);
                let done = net.sides[0].completions.len();
                net.weather.dead = false;
                net.sides[0].engine.set_port(net.now, PORT2, true);
                traffic(net, 20 * MS);
                assert!(net.sides[0].completions.len() > done + 15);
                assert_eq!(net.sides[0].info(0).retries, 0);
                net.sides[0].engine.set_port(net.now, PORT2, false);
            }
        });
    }
}

/// With packets in flight and no port nothing can leave: no timer runs but those that charge the budget. A port that returns is used at once,
/// be it ours or one that the peer masked.
//= RETRY-004, PORT-001, EPOP-005 test
#[test]
fn a_qp_without_a_port_sleeps_until_one_returns() {
    let unlimited = RetryConfig { exponential: 25, timeout: 14, ..RETRY };
    for (seed, lost) in [(0, Lost::Ours), (1, Lost::Theirs), (2, Lost::Both)] {
        let setup = Setup { retry: unlimited, tweak: |cfg| cfg.probe_masked_ports = false, ..setup() };
        net(seed, &setup, Weather::default(), |net| {
            traffic(net, 30 * MS);
            assert!(net.run(net.now.as_nanos() + MS, |net| net.sides[0].info(0).queued == 0));
            net.sides[0].completions.clear();
            net.post(0, 1, 0, 20_000).unwrap();
            net.wire.clear();
            lost.happens(net);
            let (start, mut wake_ups) = (net.now, 0);
            while let Some(next) = net.sides[0].engine.next_timeout().filter(|next| next.since(start) < SECOND) {
                wake_ups += 1;
                net.now = net.now.max(next);
                net.sides[0].engine.handle_timeout(net.now);
                net.drain(0);
            }
            // Ten retries in a second, a few timers of 20 packets, and what peers are told about ports.
            assert!(wake_ups < 150, "{wake_ups} wake-ups");
            net.now = start.after(SECOND);
            net.wire.clear();
            net.weather.dead = false;
            if lost == Lost::Theirs {
                // The peer could send nothing meanwhile; its update comes now.
                forge(net, PortMask::first(PLANES));
            } else {
                net.sides[0].engine.set_port(net.now, PORT2, true);
            }
            let returned = net.now;
            assert!(
                net.run(returned.as_nanos() + 2 * SECOND, |net| net.completed(1)),
                "port returned, nothing goes on"
            );
            assert!(net.now.since(returned) < MS, "{} ns behind the return of a port", net.now.since(returned));
        });
    }
}

/// New packets that found no port leave when the peer tells that it has one again, though no timer of the queue pair is due for long.
//= EPOP-005 test
#[test]
fn a_peer_that_has_ports_again_wakes_its_queue_pairs() {
    let unlimited = RetryConfig { exponential: 25, timeout: 14, ..RETRY };
    net(3, &Setup { retry: unlimited, ..setup() }, Weather::default(), |net| {
        traffic(net, 30 * MS);
        assert!(net.run(net.now.as_nanos() + MS, |net| net.sides[0].info(0).queued == 0));
        net.sides[0].completions.clear();
        forge(net, PortMask::NONE);
        net.run(net.now.as_nanos() + 5_000, |_| false);
        net.post(0, 1, 0, 20_000).unwrap();
        net.run(net.now.as_nanos() + 2 * MS, |_| false);
        assert_eq!((net.sides[0].info(0).outstanding, peer_ports(net, 0)), (0, PortMask::NONE));
        forge(net, PortMask::first(PLANES));
        let told = net.now;
        assert!(net.run(told.as_nanos() + SECOND, |net| net.completed(1)));
        assert!(net.now.since(told) < MS, "{} ns behind the news", net.now.since(told));
    });
}

/// Counts how often it is asked for room: for each queue pair that is looked at.
struct Counting(Cell<u32>, [u8; MAX_HEADER_LEN]);

impl FrameSink for Counting {
    fn ports(&self) -> PortMask {
        self.0.update(|asked| asked + 1);
        PortMask::first(PLANES)
    }

    fn headers(&mut self) -> &mut [u8; MAX_HEADER_LEN] {
        &mut self.1
    }

    fn push(&mut self, _: Transmit) {}
}

/// Queue pairs whose peer has no ports wait with packets, probes and tails to repeat: no call of `transmit` looks at them.
//= EPOP-005 test
#[test]
fn queue_pairs_without_a_port_cost_the_calls_for_others_nothing() {
    let unlimited = RetryConfig { exponential: 25, timeout: 10, ..RETRY };
    let tweaks: [fn(&mut EndpointConfig); 2] =
        [|cfg| cfg.probe_masked_ports = false, |cfg| cfg.probe_masked_ports = true];
    for (seed, tweak) in (5..).zip(tweaks) {
        net(seed, &Setup { qps: 40, retry: unlimited, tweak, ..setup() }, Weather::default(), |net| {
            traffic(net, 30 * MS);
            assert!(net.run(net.now.as_nanos() + MS, |net| net.sides[0].info(0).queued == 0));
            net.sides[0].completions.clear();
            for qp in 0..40 {
                net.post(qp, 1, 0, 20_000).unwrap();
            }
            net.wire.clear();
            forge(net, PortMask::NONE);
            net.run(net.now.as_nanos() + 5_000, |_| false);
            let start = net.now;
            while let Some(next) = net.sides[0].engine.next_timeout().filter(|next| next.since(start) < 5 * MS) {
                net.now = net.now.max(next);
                net.sides[0].engine.handle_timeout(net.now);
                let mut sink = Counting(Cell::new(0), [0; MAX_HEADER_LEN]);
                // What the timer woke is looked at once.
                net.sides[0].engine.transmit(net.now, &mut sink);
                sink.0.set(0);
                net.sides[0].engine.transmit(net.now, &mut sink);
                assert_eq!(sink.0.get(), 0, "times asked for room at {:?}", net.now);
            }
            assert!(net.sides[0].engine.stats().lost_timeout > 0);
            forge(net, PortMask::first(PLANES));
            assert!(net.run(net.now.as_nanos() + SECOND, |net| net.completed(40)));
        });
    }
}

/// Without work nothing is owed, however long the ports are away; without a budget nothing ends.
//= RETRY-004 test
#[test]
fn an_idle_qp_and_one_without_limit_wait() {
    let unlimited = RetryConfig { exponential: 25, ..RETRY };
    let untimed = RetryConfig { timeout: 0, ..RETRY };
    for (retry, work) in [(RETRY, false), (unlimited, true), (untimed, true)] {
        for lost in [Lost::Ours, Lost::Theirs] {
            net(6, &Setup { retry, ..setup() }, Weather::default(), |net| {
                traffic(net, 30 * MS);
                net.run(net.now.as_nanos() + MS, |net| net.sides[0].info(0).queued == 0);
                lost.happens(net);
                let start = net.now;
                if work {
                    net.post(0, 1, 0, 20_000).unwrap();
                }
                net.run(net.now.as_nanos() + 5 * SECOND, |_| false);
                let probes = net.sides[0].engine.stats().tx_probe;
                assert_eq!(net.sides[0].info(0).state, QpState::Rts);
                assert!(probes < 2_000, "{probes} probes in {} ns", net.now.since(start));
                net.weather.dead = false;
                net.sides[0].engine.set_port(net.now, PORT1, true);
                let done = net.sides[0].completions.len();
                if !work {
                    net.post(0, 1, 0, 20_000).unwrap();
                }
                assert!(net.run(net.now.as_nanos() + 20 * SECOND, |net| net.completed(done + 1)));
            });
        }
    }
}

/// Requests for QP 2 that side 0 has sent.
fn requests(net: &Net<'_>) -> u64 {
    net.sides[0].engine.stats().tx_endpoint_request
}

/// One more queue pair of side 0, in RTS.
fn connect(net: &mut Net<'_>, peer: PeerHandle) {
    let side = &mut net.sides[0];
    let qp = side.engine.create_qp(&QpInit { pd: Pd(0), send_cq: side.cq, recv_cq: side.cq }).unwrap();
    side.engine.modify_to_init(qp).unwrap();
    let rtr = RtrAttr::software(peer, Qpn::new(9), Psn::new(0), side.profile.unwrap());
    side.engine.modify_to_rtr(net.now, qp, &rtr).unwrap();
    side.engine.modify_to_rts(net.now, qp, &RtsAttr::software(Psn::new(0))).unwrap();
}

/// A peer of side 0 that `port` alone leads to.
fn peer_behind(net: &mut Net<'_>, port: PortNum, remote: Ip) -> PeerHandle {
    let mut planes = [None; MAX_PORTS];
    planes[usize::from(port.plane())] = Some(PlanePath { next_hop: [4; 6], outer_src: None });
    let peer = PeerConfig { local: address(0, false), remote, planes, route: Route::Plain, hop_limit: 64 };
    net.sides[0].engine.add_peer(&peer).unwrap()
}

/// Queue pairs that enter RTS together tell the peer of our ports once, on both planes; one that follows later tells again.
//= EPOP-006 test
#[test]
fn queue_pairs_that_connect_together_tell_of_our_ports_once() {
    net(5, &setup(), Weather::default(), |net| {
        let connect = |net: &mut Net<'_>| {
            connect(net, net.sides[0].peer.unwrap());
            net.drain(0);
        };
        net.drain(0);
        assert_eq!(requests(net), 2, "the queue pair of the harness");
        connect(net);
        assert_eq!(requests(net), 2, "at the same instant");
        let rto = EndpointConfig::default().port_update_rto_ns;
        net.now = Instant::from_nanos(rto - 1);
        connect(net);
        assert_eq!(requests(net), 2, "the peer was told lately");
        net.now = Instant::from_nanos(rto);
        connect(net);
        assert_eq!(requests(net), 4, "it may have begun a new life since");
    });
}

/// While one queue pair is left the peer is told. When the last one goes, what waits to leave and to be repeated ends.
//= EPOP-006 test
#[test]
fn a_peer_without_queue_pairs_is_told_nothing() {
    for waits_to_leave in [false, true] {
        net(6, &Setup { qps: 2, ..setup() }, Weather { dead: true, ..Weather::default() }, |net| {
            net.drain(0);
            let (told, qps) = (requests(net), net.sides[0].qps.clone());
            net.sides[0].engine.destroy_qp(qps[0]).unwrap();
            net.sides[0].engine.set_port(net.now, PORT2, false);
            net.drain(0);
            assert_eq!(requests(net), told + 1, "on the port that is left");
            if waits_to_leave {
                net.sides[0].engine.set_port(net.now, PORT2, true);
            }
            net.sides[0].engine.destroy_qp(qps[1]).unwrap();
            assert_eq!(net.sides[0].engine.next_timeout(), None);
            net.drain(0);
            net.sides[0].engine.set_port(net.now, PORT1, false);
            net.run(net.now.as_nanos() + SECOND, |_| false);
            assert_eq!(requests(net), told + 1);
            assert_eq!(net.sides[0].engine.stats().port_update_unanswered, 0);
        });
    }
}

/// Not before packets that were sent before the mask have all arrived. A registration of the node that the port does not
/// lead to hears nothing of it.
//= EPOP-008 test
#[test]
fn a_masked_port_is_unmasked_when_its_time_is_over() {
    net(2, &setup(), Weather::default(), |net| {
        traffic(net, 30 * MS);
        net.run(net.now.as_nanos() + MS, |_| false);
        let half = peer_behind(net, PORT1, address(1, false));
        let one = PortMask::NONE.with(PORT1);
        forge(net, one);
        net.run(net.now.as_nanos() + SECOND, |net| peer_ports(net, 0) == one);
        let (masked_at, after_ns) = (net.now, net.sides[0].engine.config().port_unmask_after_ns);
        net.post_from(1, 0, 1, 0, 20_000).unwrap();
        let frames: Vec<_> = std::mem::take(&mut net.wire).into_values().collect();
        let mut late = frames.iter().filter(|(to, port, _)| (*to, *port) == (0, PORT2));
        for (wait_ns, ports) in [(after_ns - 1, one), (after_ns, PortMask::first(PLANES))] {
            net.now = masked_at.after(wait_ns);
            net.deliver(0, PORT2, &late.next().unwrap().2).unwrap();
            assert_eq!(peer_ports(net, 0), ports);
        }
        net.drain(0);
        assert_eq!(net.sides[0].engine.stats().peer_ports_unmasked, 1);
        assert!(net.sides[0].engine.peer_ports(half).unwrap().contains(PORT2));
        let of_half = |event: &&Event| matches!(event, Event::PeerPorts { peer, .. } if *peer == half);
        assert_eq!(net.sides[0].events.iter().filter(of_half).count(), 0);
    });
}

/// The driver has no frame for the port that one peer still needs: the update for another peer leaves meanwhile.
//= EPOP-006 test
#[test]
fn a_peer_whose_port_has_no_room_does_not_hold_up_another() {
    net(7, &setup(), Weather::default(), |net| {
        net.drain(0);
        let other = address(7, false);
        let peer = peer_behind(net, PORT2, other);
        connect(net, peer);
        net.drain(0);
        net.now = net.now.after(SECOND);
        net.sides[0].engine.set_port(net.now, PORT2, false);
        net.sides[0].engine.set_port(net.now, PORT2, true);
        let mut out = [0; MAX_HEADER_LEN];
        let mut leaves = |port| {
            let ports = PortMask::NONE.with(port);
            net.sides[0].engine.poll_transmit(net.now, ports, &mut out).map(|_| out[14 + 24..14 + 40] == other_octets())
        };
        assert_eq!((leaves(PORT2), leaves(PORT2), leaves(PORT2)), (Some(false), Some(true), None));
        assert_eq!((leaves(PORT1), leaves(PORT1)), (Some(false), None));
    });
}

fn other_octets() -> [u8; 16] {
    let Ip::V6(octets) = address(7, false) else { unreachable!() };
    octets
}

/// The EVs of an update that was not answered may be dead: the repetition takes others.
//= EPOP-006 test
#[test]
fn a_repetition_takes_other_evs() {
    // The other side asks nothing: answers change EVs, too.
    net(8, &Setup { one_way: true, ..setup() }, Weather::default(), |net| {
        net.drain(0);
        net.wire.clear();
        net.dead_ways = net.used.keys().copied().collect();
        assert_eq!((net.dead_ways.len(), requests(net)), (2, 2));
        let rto = EndpointConfig::default().port_update_rto_ns;
        net.run(rto + MS, |_| false);
        assert_eq!(requests(net), 4);
        assert_eq!(net.sides[0].engine.next_timeout(), None, "answered");
    });
}

/// A driver may call late: the update is repeated then.
//= EPOP-006 test
#[test]
fn an_update_is_repeated_when_the_timer_comes_late() {
    net(6, &setup(), Weather { dead: true, ..Weather::default() }, |net| {
        net.drain(0);
        for (round, late_ns) in [0, 1, 5_000_000].into_iter().enumerate() {
            assert_eq!(net.sides[0].engine.stats().tx_endpoint_request, 2 * (round as u64 + 1));
            net.now = net.now.after(EndpointConfig::default().port_update_rto_ns + late_ns);
            net.sides[0].engine.handle_timeout(net.now);
            net.drain(0);
        }
        assert_eq!(net.sides[0].engine.stats().tx_endpoint_request, 8);
    });
}

/// Sixteen changes at one instant are told at once; the next one waits.
//= EPOP-006, PORT-005 test
#[test]
fn sixteen_changes_of_ports_are_told_at_once() {
    net(9, &setup(), Weather::default(), |net| {
        net.run(net.now.as_nanos() + 100_000, |_| false);
        net.now = net.now.after(SECOND);
        for change in 0..17 {
            let before = net.sides[0].engine.stats().tx_endpoint_request;
            net.sides[0].engine.set_port(net.now, PORT2, change % 2 == 1);
            net.drain(0);
            let told = net.sides[0].engine.stats().tx_endpoint_request - before;
            assert_eq!(told, if change == 16 { 0 } else { 1 + change % 2 }, "change {change}");
        }
    });
}
