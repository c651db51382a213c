//! Ports that fail and return while the network loses everything, peers whose updates are forged, and QPs without any
//! port, in virtual time.

mod common;

use common::{Net, PLANES, Setup, Weather, net};
use mrc_core::path::EvEntry;
use mrc_core::{ErrorCause, Event, Instant, OpRequest, PortMask, QpState, RetryConfig, Status};
use mrc_wire::{EndpointOp, Ev, PortNum};

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
