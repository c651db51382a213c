//! Turns of controllers and of the QPs that share one, and who may hold a window back from others.

use mrc_core::cc::CcConfig;
use mrc_core::path::{EvIndex, Selector};
use mrc_core::{
    CcProfileHandle, EndpointConfig, Instant, MAX_HEADER_LEN, PortMask, QpccState, RtrAttr, RtsAttr, SendWr,
};
use mrc_wire::{Psn, Rkey};

use crate::common::{Net, Setup, VA, Weather, net};
use crate::{Congestion, MTU, SECOND, fixed, nscc, profiles};

//= SCHED-001, SCHED-002 test
#[test]
fn controllers_take_turns_and_so_do_their_qps() {
    net(1, &profiles(3, &[fixed(4), fixed(6)]), Weather::default(), |net| {
        for qp in 0..3 {
            net.queue(qp, 100_000);
        }
        // QPs 0 and 2 share the first controller: together they get as many turns as QP 1 alone.
        assert_eq!(net.turns(), [0, 1, 2, 1, 0, 1, 2, 1, 1, 1]);
    });
}

/// Turns of bytes: what others send meanwhile is bounded, and sizes of packets or messages buy nobody a larger share.
//= SCHED-001, SCHED-002 test
#[test]
fn turns_of_bytes_are_fair() {
    let setup = Setup { tweak: |cfg| cfg.turn_bytes = 3 * MTU, ..profiles(3, &[fixed(60), fixed(60)]) };
    net(1, &setup, Weather::default(), |net| {
        for qp in 0..3 {
            net.queue(qp, 12 * 1_024);
        }
        // QPs 0 and 2 share the first controller.
        let rounds = [0, 1, 2, 1].map(|qp| [qp; 3]).concat();
        let order = net.turns();
        assert_eq!(order[..12], rounds);
        assert_eq!([0, 1, 2].map(|qp| order.iter().filter(|&&at| at == qp).count()), [12; 3]);
    });
    let setup = Setup { tweak: |cfg| cfg.turn_bytes = 3 * MTU, ..profiles(3, &[CcConfig::None]) };
    net(1, &setup, Weather::default(), |net| {
        // Full packets beside packets of 512 bytes, which count 600: in the long run the bytes are equal.
        net.queue(0, 60 * 1_024);
        for _ in 0..15 {
            net.queue(2, 512);
        }
        let order = net.turns();
        let small = order.iter().rposition(|&qp| qp == 2).unwrap();
        let large = order[..small].iter().filter(|&&qp| qp == 0).count() as u32 * MTU;
        assert!(large.abs_diff(15 * 600) <= 3 * MTU, "{large} bytes beside {}", 15 * 600);
    });
}

/// A QP that was idle sends before those that had turns, whatever a turn is: what a small write waits for is no turn of others.
//= SCHED-001, SCHED-002 test
#[test]
fn a_small_write_goes_before_those_that_had_turns() {
    for tweak in
        [|cfg: &mut EndpointConfig| cfg.turn_bytes = 4 * MTU, |cfg: &mut EndpointConfig| cfg.turn_bytes = 12 * MTU]
    {
        net(1, &Setup { tweak, ..profiles(64, &[CcConfig::None]) }, Weather::default(), |net| {
            let turn = (net.sides[0].engine.config().turn_bytes / MTU) as usize;
            for qp in 0..63 {
                net.queue(qp, 100 * 1_024);
            }
            // Each of the others had a turn; the first has begun another one.
            let order = net.first_turns(63 * turn + 1);
            assert_eq!(order.iter().filter(|&&qp| qp == 0).count(), turn + 1);
            net.queue(63, 64);
            assert_eq!(net.first_turns(2), [63, 0]);
            // One of three packets waits for none of another's, either, when all others had a turn since.
            net.first_turns(64 * turn);
            net.queue(63, 3_000);
            assert_eq!(net.first_turns(3), [63; 3]);
            // Of a large one as much as a turn goes before the others, and no more.
            net.first_turns(64 * turn);
            net.queue(63, 40 * 1_024);
            let order = net.first_turns(turn + 1);
            assert_eq!(order[..turn], vec![63; turn]);
            assert_ne!(order[turn], 63);
            let rest = net.first_turns(62 * turn);
            assert!(!rest.contains(&63), "a turn of each other before its next one");
        });
    }
}

/// The same of controllers, and several QPs that were idle send in the order in which they were posted to.
//= SCHED-001, SCHED-002 test
#[test]
fn a_controller_that_was_idle_goes_before_those_that_had_turns() {
    let setup = Setup { tweak: |cfg| cfg.turn_bytes = 4 * MTU, ..profiles(6, &[CcConfig::None; 3]) };
    net(1, &setup, Weather::default(), |net| {
        // QPs 0 and 3 share the first controller, 1 and 4 the second, 2 and 5 the third.
        net.queue(0, 100_000);
        net.queue(1, 100_000);
        assert_eq!(net.first_turns(9), [0, 0, 0, 0, 1, 1, 1, 1, 0]);
        net.queue(5, 64);
        net.queue(2, 64);
        assert_eq!(net.first_turns(9), [5, 2, 0, 0, 0, 1, 1, 1, 1]);
    });
}

/// What leaves while nobody else waits counts as turns by its bytes.
//= SCHED-002 test
#[test]
fn who_sends_alone_has_turns() {
    let setup = Setup { tweak: |cfg| cfg.turn_bytes = 4 * MTU, ..profiles(3, &[CcConfig::None]) };
    net(1, &setup, Weather::default(), |net| {
        net.queue(0, 100 * 1_024);
        assert_eq!(net.first_turns(4), [0; 4]);
        net.queue(2, 64);
        assert_eq!(net.first_turns(3), [2, 0, 0]);
        // Less than a turn since then.
        net.queue(2, 64);
        assert_eq!(net.first_turns(5), [0, 0, 0, 0, 2]);
        // A turn.
        assert_eq!(net.first_turns(4), [0; 4]);
        net.queue(2, 64);
        assert_eq!(net.first_turns(2), [2, 0]);
    });
}

/// A packet per turn: who was idle stands behind all who wait.
//= SCHED-001, SCHED-002 test
#[test]
fn a_turn_of_a_packet_puts_nobody_before_others() {
    net(1, &profiles(4, &[CcConfig::None]), Weather::default(), |net| {
        for qp in 0..3 {
            net.queue(qp, 30 * 1_024);
        }
        assert_eq!(net.first_turns(7), [0, 1, 2, 0, 1, 2, 0]);
        net.queue(3, 64);
        assert_eq!(net.first_turns(5), [1, 2, 0, 3, 1]);
    });
}

/// A QP that posts whenever it has nothing to send gets no more than those that always have something.
//= SCHED-002 test
#[test]
fn coming_back_again_and_again_starves_nobody() {
    for (others, packets) in [(1, 1), (1, 4), (2, 1), (2, 4), (5, 3)] {
        let setup = Setup { tweak: |cfg| cfg.turn_bytes = 4 * MTU, ..profiles(others + 1, &[CcConfig::None]) };
        net(1, &setup, Weather::default(), |net| {
            for qp in 0..others {
                net.queue(qp, 110 * 1_024);
            }
            net.first_turns(4 * others);
            let (mut sent, mut left) = (vec![0; others + 1], 0);
            let mut posts = 0;
            for _ in 0..50 * others {
                if left == 0 {
                    // Nothing is acknowledged: the send queue has room for so many.
                    assert!(posts < 16, "{packets} packets beside {others} QPs: {sent:?}");
                    net.queue(others, packets * 1_024);
                    (left, posts) = (packets, posts + 1);
                }
                let qp = net.first_turns(1)[0];
                sent[qp] += 1;
                left -= usize::from(qp == others);
            }
            let least = *sent[..others].iter().min().unwrap();
            // At most one turn more than its part: as many packets as it posts at once for each turn of each other.
            assert!(sent[others] * 4 <= (least + 2 * 4) * packets, "{packets} packets beside {others} QPs: {sent:?}");
        });
    }
}

/// Where turns are of bytes, a QP whose only port has no room keeps nobody from the other one.
//= SCHED-002 test
#[test]
fn a_qp_without_room_on_its_port_ends_its_turn() {
    let setup = Setup { tweak: |cfg| cfg.turn_bytes = 16_384, ..profiles(3, &[CcConfig::None]) };
    net(1, &setup, Weather::default(), |net| {
        let far = net.sides[1].qps[0].qpn();
        let side = &mut net.sides[0];
        let (qp, peer, profile) = (side.qps[0], side.peer.unwrap(), side.profile.unwrap());
        side.engine.modify_to_reset(qp).unwrap();
        side.engine.modify_to_init(qp).unwrap();
        side.engine.modify_to_rtr(net.now, qp, &RtrAttr::software(peer, far, Psn::new(0), profile)).unwrap();
        // Under the controller of the others.
        let cc = Some(CcProfileHandle::from_index(1));
        let rts = RtsAttr { selector: Selector::Pinned(EvIndex(0)), cc, ..RtsAttr::software(Psn::new(0)) };

        side.engine.modify_to_rts(net.now, qp, &rts).unwrap();
        for qp in 0..3 {
            net.queue(qp, 30 * 1_024);
        }
        let mut headers = [0u8; MAX_HEADER_LEN];
        let mut next = |net: &mut Net<'_>, ports| net.sides[0].engine.poll_transmit(net.now, ports, &mut headers);
        // The pinned QP begins its turn; then its port is full.
        let port = next(net, PortMask::ALL).unwrap().port;
        let others = (0..60).map_while(|_| next(net, PortMask::ALL.without(port))).count();
        assert_eq!(others, 60, "all that the two others have");
    });
}

//= SCHED-002, QPCC-004 test
#[test]
fn a_blocked_qp_is_passed_over_and_its_controller_stays_ready() {
    let setup = Setup { max_wimm: 1, ..profiles(2, &[CcConfig::None]) };
    net(1, &setup, Weather::default(), |net| {
        let (lkey, rkey) = (net.sides[0].key, Rkey(net.sides[1].key));
        let wr = SendWr { lkey, local_va: VA, len: 1, remote_va: VA, rkey, imm: Some(1), ..SendWr::default() };
        for _ in 0..2 {
            let side = &mut net.sides[0];
            side.engine.post_send(net.now, side.qps[0], &wr).unwrap();
        }
        net.queue(1, 3_000);
        // The second write with immediate of QP 0 has to wait for the first.
        assert_eq!(net.turns(), [0, 1, 1, 1]);
        assert_eq!(net.qpcc(0).state, QpccState::Ready);
        assert_eq!(net.turns(), []);
    });
}

//= SCHED-002 test
#[test]
fn retransmissions_of_one_qp_go_before_new_packets_of_another() {
    net(1, &profiles(2, &[fixed(4)]), Weather::default(), |net| {
        net.queue(0, 2 * 1024);
        assert_eq!(net.turns(), [0, 0]);
        net.now = Instant::from_nanos(100_000);
        net.queue(1, 100_000);
        assert_eq!(net.turns(), [1, 1], "four packets fill the window");
        // The timer of QP 0 runs out; that of QP 1 does not yet.
        net.now = Instant::from_nanos(1_024 << 8);
        net.sides[0].engine.handle_timeout(net.now);
        assert_eq!(net.qpcc(0).load.waiting_rtx, 2);
        assert_eq!(net.turns(), [0, 0], "QP 1 waited longer for its turn");
        assert_eq!(net.qpcc(0).load.waiting_rtx, 0);
    });
}

/// Round trips (8 us in the harness) until each of `qps` queue pairs has written 100 packets through one window of
/// `packets`, and the SACKs that it took, when responders acknowledge after `threshold` bytes.
fn round_trips(qps: usize, packets: u32, threshold: fn(&mut EndpointConfig)) -> (u64, u64) {
    let setup = Setup { qps, cc: vec![fixed(packets)], tweak: threshold, ..Setup::default() };
    net(1, &setup, Weather::default(), |net| {
        for qp in 0..qps {
            net.queue(qp, 102_400);
        }
        assert!(net.run(SECOND, |net| net.sides[0].completions.len() == qps));
        let stats = net.sides.each_ref().map(|side| side.engine.stats());
        assert_eq!((stats[0].lost_timeout, stats[0].retransmitted), (0, 0));
        (net.now.as_nanos() / 8_000, stats[1].tx_sack)
    })
}

/// Each responder reports after 16 KiB by itself: as many QPs as share a window may sit on all of it, and what then leaves
/// it draws the report of one of them only.
//= AREQ-002 test
#[test]
fn queue_pairs_do_not_withhold_a_window_from_each_other() {
    for (qps, packets) in [(2, 16), (4, 16), (4, 32), (8, 20), (8, 64), (16, 32), (16, 64), (16, 128), (16, 240)] {
        let (rtts, sacks) = round_trips(qps, packets, |_| ());
        let (ideal, most) = round_trips(qps, packets, |cfg| cfg.sack_gen_threshold = 1);
        assert!(rtts * 20 <= ideal * 29, "{qps} QPs, {packets} packets: {rtts} round trips, could be {ideal}");
        assert!(sacks < most, "{sacks}");
    }
    // A window with room for all of them is acknowledged as if each had its own.
    let (rtts, sacks) = round_trips(4, 240, |_| ());
    assert_eq!((rtts, sacks), (2, 4 * 7 + 2));
}

/// A queue pair whose peer's end is gone took the window again at each timeout until it failed; those that share its controller waited
/// for seconds.
//= SCHED-002 test
#[test]
fn a_qp_whose_peer_is_silent_leaves_the_window_to_others() {
    let tweaks: [fn(&mut EndpointConfig); 2] = [|cfg| cfg.silent_packets = 4, |cfg| cfg.silent_packets = 0];
    let took = tweaks.map(|tweak| {
        net(1, &Setup { tweak, ..profiles(2, &[fixed(8)]) }, Weather::default(), |net| {
            let gone = net.sides[1].qps[0];
            net.sides[1].engine.modify_to_reset(gone).unwrap();
            net.post(0, 0, 0, 32 * 1_024).unwrap();
            net.run(5_000_000, |_| false);
            net.post(1, 1, 0, 32 * 1_024).unwrap();
            let began = net.now;
            net.run(20 * SECOND, |net| net.completed(1));
            let first = net.sides[0].completions[0];
            (first.wr_id, first.status, net.now.since(began))
        })
    });
    let [(1, mrc_core::Status::Success, ns), (0, mrc_core::Status::RetryExceeded, _)] = took else {
        panic!("{took:?}")
    };
    assert!(ns < 2_000_000, "{ns} ns");
}

/// Each of its lost packets took a packet off the window that all share, down to one, which its tests then held until it failed.
//= SCHED-002 test
#[test]
fn the_losses_of_a_qp_whose_peer_is_silent_do_not_close_the_window_of_others() {
    let setup = Setup { tweak: |cfg| cfg.silent_packets = 4, ..profiles(2, &[CcConfig::Nscc(nscc())]) };
    net(1, &setup, Weather::default(), |net| {
        let gone = net.sides[1].qps[0];
        net.sides[1].engine.modify_to_reset(gone).unwrap();
        net.post(0, 0, 0, 200 * 1_024).unwrap();
        net.run(5_000_000, |_| false);
        assert!(net.sides[0].engine.stats().lost_timeout >= 60);
        let window = net.qpcc(0).cwnd_bytes;
        assert!(window > 50 * u64::from(MTU), "{window} bytes");
        net.post(1, 1, 0, 200 * 1_024).unwrap();
        let began = net.now;
        assert!(net.run(SECOND, |net| net.completed(1)));
        let (first, ns) = (net.sides[0].completions[0], net.now.since(began));
        assert_eq!((first.wr_id, first.status), (1, mrc_core::Status::Success));
        assert!(ns < 2_000_000, "{ns} ns");
    });
}

/// What tests whether a silent peer is there takes nothing from the window, however small that is, and be it new or sent again.
//= SCHED-002, NSCC-021 test
#[test]
fn tests_of_a_silent_peer_take_nothing_from_any_window() {
    for window in 1..6 {
        for dead in [1, 3, 40] {
            let setup = Setup { tweak: |cfg| cfg.silent_packets = 4, ..profiles(2, &[fixed(window)]) };
            net(1, &setup, Weather::default(), |net| {
                let gone = net.sides[1].qps[0];
                net.sides[1].engine.modify_to_reset(gone).unwrap();
                net.post(0, 0, 0, dead * 1_024).unwrap();
                net.run(5_000_000, |_| false);
                // More than it may have in flight, and new.
                net.post(0, 0, 64 * 1_024, 40 * 1_024).unwrap();
                net.run(6_000_000, |_| false);
                let info = net.sides[0].info(0);
                assert!((1..=4).contains(&info.load.inflight_pkts), "{info:?}");
                assert_eq!((info.inflight_bytes, net.qpcc(0).inflight_bytes), (0, 0));
                let alone = u64::from(40 / window + 1) * 15_000;
                for turn in 0..20 {
                    let began = net.now;
                    net.post(1, 1, 0, 40 * 1_024).unwrap();
                    assert!(net.run(20 * SECOND, |net| net.completed(turn + 1)));
                    let (last, ns) = (net.sides[0].completions[turn], net.now.since(began));
                    assert_eq!((last.wr_id, last.status), (1, mrc_core::Status::Success));
                    assert!(ns <= alone, "window {window}, {dead} to a dead peer, turn {turn}: {ns} ns");
                    net.run(net.now.as_nanos() + 200_000, |_| false);
                }
            });
        }
    }
}

/// A peer that was silent and returns: what was in flight to test it is reported, or lost, and everything counts again.
//= SCHED-002, INV-005 test
#[test]
fn a_silent_peer_that_returns_has_its_part_of_the_window_again() {
    for seed in 0..40 {
        let setup = Setup { tweak: |cfg| cfg.silent_packets = 4, ..profiles(2, &[fixed(8)]) };
        net(seed, &setup, Weather { reorder: 200, ..Weather::default() }, |net| {
            net.weather.dead = true;
            net.post(0, 0, 0, 100 * 1_024).unwrap();
            net.run(1_000_000 + seed * 20_000, |_| false);
            (net.weather.dead, net.weather.loss) = (false, if seed % 2 == 0 { 0 } else { 100 });
            net.post(1, 1, 0, 100 * 1_024).unwrap();
            let mut most = 0;
            assert!(net.run(20 * SECOND, |net| {
                most = most.max(net.qpcc(0).load.inflight_pkts);
                net.completed(2)
            }));
            // The window, and what tests one of the two.
            assert!(most <= 8 + 4, "{most} packets in flight");
            assert_eq!((net.qpcc(0).inflight_bytes, net.qpcc(0).load.inflight_pkts), (0, 0));
            net.assert_arrived(0, 100 * 1_024);
        });
    }
}

/// A refusal is an answer, though it is charged to the budget of retries.
//= SCHED-002, RETRY-001 test
#[test]
fn a_peer_that_refuses_packets_is_not_silent() {
    let tweaks: [fn(&mut EndpointConfig); 2] = [|cfg| cfg.silent_packets = 0, |cfg| cfg.silent_packets = 1];
    let digests = tweaks.map(|tweak| {
        let setup = Setup { tweak, trimming: mrc_core::Trimming::On, ..profiles(1, &[CcConfig::Nscc(nscc())]) };
        net(3, &setup, Weather { trim: 300, ..Weather::default() }, |net| {
            net.post(0, 0, 0, 200 * 1_024).unwrap();
            let mut retries = 0;
            assert!(net.run(SECOND, |net| {
                retries = retries.max(net.sides[0].info(0).retries);
                net.completed(1)
            }));
            let stats = net.sides[0].engine.stats();
            assert!(retries > 0 && stats.lost_timeout == 0, "{retries} retries, {} timeouts", stats.lost_timeout);
            (net.digest, net.now)
        })
    });
    assert_eq!(digests[0], digests[1]);
}
