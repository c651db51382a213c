//! One controller and the shares of its QPs.

use super::*;
use crate::cc::NsccConfig;
use crate::cc::nscc::Nscc;
use crate::prefetch::Asked;
use core::mem::{align_of, offset_of};

#[test]
fn the_largest_packet_of_all_qps_counts() {
    let config = CcConfig::Fixed { window_bytes: 10_000 };
    let mut qpcc = Qpcc::new(&config, (0, 0), 1_112, Instant::ZERO, None);
    let fits = |qpcc: &Qpcc, bytes: u32| {
        let mut cc = qpcc.cc;
        cc.on_send(bytes);
        cc.can_send()
    };
    assert!(fits(&qpcc, 8_888) && !fits(&qpcc, 8_889));
    qpcc.join(&config, 4_184);
    assert!(fits(&qpcc, 5_816) && !fits(&qpcc, 5_817));
    qpcc.join(&config, 2_136);
    assert!(fits(&qpcc, 5_816) && !fits(&qpcc, 5_817));
    assert_eq!(qpcc.users, 3);
}

/// One that comes from an image leaves as much room for a packet that asks.
//= AREQ-002 test
#[test]
fn a_controller_of_an_image_leaves_as_much_room() {
    use crate::image::{Checksum, Reader, Stored, Writer};
    let config = CcConfig::Fixed { window_bytes: 50_000 };
    let mut qpcc = Qpcc::new(&config, (0, 0), 4_184, Instant::ZERO, None);
    let mut bytes = [0; 512];
    qpcc.save(&mut Writer::new(&mut bytes, Checksum::NEW));
    let mut again = Qpcc::load(&mut Reader::new(&bytes)).unwrap();
    assert!(again.rebuild(&config));
    for qpcc in [&mut qpcc, &mut again] {
        let mut share = Share::NONE;
        let cfg = begin(qpcc, &mut share);
        assert_eq!(qpcc.unasked_packets(&share, 4_184, &cfg), (50_000 - 4_184) / 4_184);
    }
}

/// A controller that was told to send below its window does so until larger packets come, whoever joins with the same ones.
//= NSCC-022 test
#[test]
fn who_joins_with_the_same_packets_changes_nothing() {
    let config = CcConfig::Fixed { window_bytes: 10_000 };
    let mut qpcc = Qpcc::new(&config, (0, 0), 4_184, Instant::ZERO, None);
    qpcc.cc.on_send(9_999);
    assert!(!qpcc.can_send());
    qpcc.send_below_window();
    for (mtu_bytes, sends) in [(1_112, true), (4_184, true), (4_185, false)] {
        qpcc.join(&config, mtu_bytes);
        assert_eq!(qpcc.can_send(), sends, "joined with {mtu_bytes}");
    }
}

/// What a full packet takes longer than a probe is added when the probe returns, not again when a controller begins with it.
//= NSCC-024, RTT-003 test
#[test]
fn a_known_base_rtt_is_that_of_full_packets() {
    let config =
        CcConfig::Nscc(NsccConfig { probe_shortfall_ns: 2_000, ..NsccConfig::new(100_000_000_000, 12_000, true) });
    let now = Instant::from_nanos(5);
    let mut first = Qpcc::new(&config, (0, 0), 4_184, now, None);
    first.on_probe_rtt(now, 7_000);
    assert_eq!(first.measured_base_rtt(), Some((9_000, now)));
    let second = Qpcc::new(&config, (0, 1), 4_184, now, first.measured_base_rtt());
    assert_eq!(second.measured_base_rtt(), Some((9_000, now)));
}

/// With `crowds` an eighth of the window may leave before a packet asks.
//= NSCC-027, AREQ-002 test
#[test]
fn in_a_crowd_packets_ask_more_often() {
    for (crowds, window, unasked) in [(true, 20_000, 0), (true, 80_000, 2), (true, 150_000, 4), (false, 80_000, 18)] {
        let config = NsccConfig { crowds, max_cwnd_bytes: window, ..NsccConfig::new(100_000_000_000, 12_000, true) };
        let mut qpcc = Qpcc::new(&CcConfig::Nscc(config), (0, 0), 4_184, Instant::ZERO, None);
        let mut share = Share::NONE;
        let cfg = begin(&mut qpcc, &mut share);
        for first in [true, false] {
            let mut sent = 0;
            loop {
                assert_eq!(qpcc.one_by_one(&share), crowds);
                let asks = qpcc.wants_ack(&share, 4_184, &cfg);
                if !asks {
                    assert!(qpcc.unasked_packets(&share, 4_184, &cfg) > 0, "{crowds}, {window}");
                }
                qpcc.on_send(&mut share, 1, 4_184, false, asks, THRESHOLD);
                if asks {
                    break;
                }
                sent += 1;
            }
            if first || crowds {
                assert_eq!(sent, unasked, "{crowds}, {window}");
            }
        }
    }
}

const THRESHOLD: u32 = 16_384;

/// A QP has the turn for itself, and one packet per turn where others wait.
#[test]
fn what_a_turn_and_an_acknowledgement_read_is_read_ahead() {
    let cc = Cc::Nscc(Nscc::new(&NsccConfig::new(100_000_000_000, 12_000, true), 4_184, Instant::ZERO));
    let qpcc = Qpcc { cc, ..Qpcc::EMPTY };
    let of = |fetch: fn(&Qpcc, &Asked)| {
        let asked = Asked::default();
        fetch(&qpcc, &asked);
        (asked.within(&qpcc.link), asked.within(&qpcc.load.inflight_pkts), asked.within(&qpcc.cc), asked.words())
    };
    assert_eq!(of(Qpcc::fetch_link), (1, 0, 0, 1));
    assert_eq!(of(Qpcc::fetch_turn), (1, 1, 0, 2));
    assert_eq!(of(Qpcc::fetch_acked), (1, 1, 3, 5), "the window, its adjustment and its constants");
}

fn begin(qpcc: &mut Qpcc, share: &mut Share) -> EndpointConfig {
    qpcc.turn.begin(0, true);
    share.turn.begin(0, true);
    EndpointConfig { sack_gen_threshold: THRESHOLD, ..EndpointConfig::default() }
}

/// QP `qp` sends a full packet; whether that asks.
fn send(qpcc: &mut Qpcc, shares: &mut [Share], qp: usize) -> bool {
    let share = &mut shares[qp];
    let cfg = begin(qpcc, share);
    let asks = qpcc.wants_ack(share, 4_184, &cfg);
    assert_eq!(asks, qpcc.unasked_packets(share, 4_184, &cfg) == 0);
    qpcc.on_send(share, 1, 4_184, false, asks, THRESHOLD);
    asks
}

/// A packet that leaves room for exactly one full packet need not ask; one byte more must.
//= AREQ-002 test
#[test]
fn who_leaves_room_for_a_full_packet_does_not_ask() {
    let mut qpcc = Qpcc::new(&CcConfig::Fixed { window_bytes: 50_000 }, (0, 0), 4_184, Instant::ZERO, None);
    let mut share = Share::NONE;
    let cfg = begin(&mut qpcc, &mut share);
    qpcc.cc.on_send(50_000 - 4_184 - 1_112);
    assert!(!qpcc.wants_ack(&share, 1_112, &cfg) && qpcc.wants_ack(&share, 1_113, &cfg));
    assert_eq!((qpcc.unasked_packets(&share, 1_112, &cfg), qpcc.unasked_packets(&share, 1_113, &cfg)), (1, 0));
}

/// The turn ends when its bytes are spent, that of the queue pair or that of the controller.
//= SCHED-001 test
#[test]
fn a_turn_goes_on_while_both_have_bytes_left() {
    let (mut qpcc, mut share) =
        (Qpcc::new(&CcConfig::Fixed { window_bytes: 50_000 }, (0, 0), 4_184, Instant::ZERO, None), Share::NONE);
    qpcc.turn.begin(300, false);
    share.turn.begin(201, false);
    assert!(qpcc.has_turn_after(&share, 2, 100) && !qpcc.has_turn_after(&share, 3, 67));
    qpcc.turn.spend(100);
    assert!(!qpcc.has_turn_after(&share, 2, 100) && qpcc.has_turn_after(&share, 1, 100));
}

//= NSCC-023, AREQ-002 test
#[test]
fn a_full_window_and_one_below_the_threshold_ask() {
    let nscc = super::super::NsccConfig::new(100_000_000_000, 12_000, false);
    for config in [CcConfig::Fixed { window_bytes: 50_000 }, CcConfig::Nscc(nscc)] {
        let mut qpcc = Qpcc::new(&config, (0, 0), 1_112, Instant::ZERO, None);
        qpcc.join(&config, 4_184);
        let mut share = Share::NONE;
        let cfg = begin(&mut qpcc, &mut share);
        loop {
            let asks = qpcc.wants_ack(&share, 1_112, &cfg);
            qpcc.on_send(&mut share, 1, 1_112, false, asks, THRESHOLD);
            // A small packet would fit, but the next one may be a full one.
            assert_eq!(asks, !qpcc.can_send());
            if asks {
                break;
            }
        }
        let room = qpcc.cwnd_bytes() as i64 - qpcc.cc.inflight_bytes();
        assert!((1_112..4_184).contains(&room), "{room}");
    }
    let small = CcConfig::Fixed { window_bytes: THRESHOLD - 1 };
    assert!(send(&mut Qpcc::new(&small, (0, 0), 4_184, Instant::ZERO, None), &mut [Share::NONE], 0));
    let none = &mut Qpcc::new(&CcConfig::None, (0, 0), 4_184, Instant::ZERO, None);
    assert!(!(0..1_000).any(|_| send(none, &mut [Share::NONE], 0)));
}

//= AREQ-002, QPCC-003 test
#[test]
fn what_others_may_hold_back_is_half_the_window() {
    let config = CcConfig::Fixed { window_bytes: 100_000 };
    let mut qpcc = Qpcc::new(&config, (0, 0), 4_184, Instant::ZERO, None);
    let mut shares = [Share::NONE; 16];
    // Twelve times 4184 bytes are half of the window.
    let asked: [bool; 16] = core::array::from_fn(|qp| send(&mut qpcc, &mut shares, qp));
    assert_eq!(asked, core::array::from_fn(|qp| qp >= 12));
    assert_eq!(qpcc.unasked, 12 * 4_184);
    // Its own part does not count: a QP alone never holds more than the threshold.
    let mut qpcc = Qpcc::new(&config, (0, 0), 4_184, Instant::ZERO, None);
    let asked: [bool; 23] = core::array::from_fn(|_| send(&mut qpcc, &mut shares[15..], 0));
    assert_eq!(asked, core::array::from_fn(|n| n == 22));
    assert_eq!(qpcc.unasked, 0);
}

/// A window of exactly what the responder collects before it reports is large enough not to ask.
//= AREQ-002 test
#[test]
fn a_window_of_the_threshold_need_not_ask() {
    for (window_bytes, asks) in [(THRESHOLD - 1, true), (THRESHOLD, false)] {
        let mut qpcc = Qpcc::new(&CcConfig::Fixed { window_bytes }, (0, 0), 1_112, Instant::ZERO, None);
        let mut share = Share::NONE;
        let cfg = begin(&mut qpcc, &mut share);
        assert_eq!(qpcc.wants_ack(&share, 1_112, &cfg), asks, "{window_bytes} bytes");
    }
}

/// Where others may sit on more than half of the window, exactly half is not more; and then the packet asks that ends the turn, or
/// with which as much as a turn would be unasked.
//= AREQ-002, NSCC-023 test
#[test]
fn the_packet_that_ends_a_turn_asks_while_others_hold_back() {
    const TURN: u32 = 3_000;
    // The turn of 7500 bytes is over with the eighth packet.
    for (others, own, unasked) in
        [(50_000, 0, 8), (50_001, 0, 3), (50_001, 1_000, 2), (50_001, 1_001, 1), (50_001, 3_000, 0)]
    {
        let mut qpcc = Qpcc::new(&CcConfig::Fixed { window_bytes: 100_000 }, (0, 0), 1_000, Instant::ZERO, None);
        let mut share = Share { unasked: own, ..Share::NONE };
        qpcc.unasked = u64::from(own) + others;
        qpcc.turn.begin(7_500, false);
        share.turn.begin(7_500, false);
        let cfg = EndpointConfig { sack_gen_threshold: THRESHOLD, turn_bytes: TURN, ..EndpointConfig::default() };
        assert_eq!(qpcc.unasked_packets(&share, 1_000, &cfg), unasked, "{others} of others, {own} of its own");
        qpcc.turn.spend(7_499);
        assert_eq!(qpcc.wants_ack(&share, 1_000, &cfg), others > 50_000, "the last of the turn");
    }
}

/// What a controller has to do shows in its state: packets to send again count as much as new ones.
//= QPCC-004 test
#[test]
fn the_state_of_a_controller() {
    for (backlog_bytes, waiting_rtx, inflight_pkts, open, state) in [
        (0, 0, 0, true, QpccState::Idle),
        (0, 0, 1, true, QpccState::Pending),
        (1, 0, 0, true, QpccState::Ready),
        (0, 1, 0, true, QpccState::Ready),
        (0, 1, 5, true, QpccState::Ready),
        (1, 0, 5, false, QpccState::Active),
        (0, 1, 5, false, QpccState::Active),
        (0, 0, 5, false, QpccState::Pending),
    ] {
        let mut qpcc = Qpcc::new(&CcConfig::Fixed { window_bytes: 5_000 }, (0, 0), 1_000, Instant::ZERO, None);
        qpcc.load = Load { backlog_bytes, waiting_rtx, inflight_pkts, ..Load::default() };
        if !open {
            qpcc.cc.on_send(5_000);
        }
        assert_eq!(qpcc.state(), state);
    }
}

/// A turn touches one line of memory, a packet that leaves in it one more: a packet of a controller that no cache holds waits for each.
#[test]
fn lines() {
    const LINE: usize = 64;
    assert_eq!(align_of::<Qpcc>(), LINE);
    assert!(offset_of!(Qpcc, new_data) + size_of::<Ready>() <= LINE);
    assert_eq!(offset_of!(Qpcc, load), LINE);
    assert!(offset_of!(Qpcc, cc) + Nscc::SENT <= 2 * LINE);
}
