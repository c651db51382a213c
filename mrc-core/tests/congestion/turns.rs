//! Turns of controllers and of the QPs that share one, and who may hold a window back from others.

use mrc_core::cc::CcConfig;
use mrc_core::path::{EvIndex, Selector};
use mrc_core::{
    CcProfileHandle, EndpointConfig, Instant, MAX_HEADER_LEN, PortMask, QpccState, RtrAttr, RtsAttr, SendWr,
};
use mrc_wire::{Psn, Rkey};

use crate::common::{Net, Setup, VA, Weather, net};
use crate::{Congestion, MTU, SECOND, fixed, profiles};

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

/// A small write waits for at most one turn of each other QP, however much these have to send.
//= SCHED-002 test
#[test]
fn a_small_write_waits_for_one_turn_of_each_other() {
    let setup = Setup { tweak: |cfg| cfg.turn_bytes = 4 * MTU, ..profiles(3, &[CcConfig::None]) };
    net(1, &setup, Weather::default(), |net| {
        net.queue(0, 60 * 1_024);
        net.queue(1, 60 * 1_024);
        // One packet of the first turn left.
        let mut headers = [0u8; MAX_HEADER_LEN];
        let _ = net.sides[0].engine.poll_transmit(net.now, PortMask::ALL, &mut headers).unwrap();
        net.queue(2, 64);
        let order = net.turns();
        let place = order.iter().position(|&qp| qp == 2).unwrap();
        assert_eq!(order[..=place], [0, 0, 0, 1, 1, 1, 1, 2]);
    });
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
