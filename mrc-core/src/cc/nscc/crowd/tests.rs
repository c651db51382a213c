//! What differs from the specification where `crowds` is set, each by its equation in doubles.

use super::super::tests::{MTU, ack, at, lab};
use super::*;
use crate::cc::{AckSample, CongestionControl, NsccConfig};

/// Base RTT 12 us, target 9 us, largest window 225 000 bytes; hence the gate.
const GATE: u64 = 28_125;
const TARGET_NS: f64 = 9_000.0;
const ALPHA: f64 = 4_096.0 / 3_000.0;

fn crowded(cwnd: u64) -> Nscc {
    let mut cc = Nscc::new(&NsccConfig { crowds: true, ..lab() }, MTU, at(0));
    assert_eq!(cc.gate(), GATE);
    cc.cwnd = cwnd;
    cc.qa_end = at(u64::MAX);
    cc
}

/// The target of a window, in nanoseconds, by a logarithm that is straight between powers of two.
fn target_ns(cwnd: u64) -> f64 {
    let log2 = |value: u64| {
        let whole = (value as f64).log2().floor();
        whole + value as f64 / whole.exp2() - 1.0
    };
    if cwnd < GATE { TARGET_NS * (1.0 + (log2(GATE) - log2(cwnd)) / 10.0) } else { TARGET_NS }
}

//= NSCC-027 test
#[test]
fn the_smaller_a_window_the_longer_its_target() {
    for cwnd in [1, 255, 256, 257, 1_000, 4_096, 10_000, GATE - 1, GATE, 100_000] {
        let (is, is_to_be) = (crowded(cwnd).target_ns() as f64, target_ns(cwnd));
        assert!((is - is_to_be).abs() <= 2.0 * TARGET_NS / 2_560.0, "{cwnd}: {is} not {is_to_be}");
    }
    let as_specified = Nscc { cwnd: MTU.into(), ..Nscc::new(&lab(), MTU, at(0)) };
    assert_eq!(as_specified.target_ns(), 9_000);
}

/// Behind a long delay large windows lose with a mark what the specification says, without one a quarter of it, and so do small ones.
//= NSCC-027 test
#[test]
fn delay_alone_decreases() {
    for cwnd in [200_000u64, 20_000, 5_000] {
        for marked in [false, true] {
            let part = if marked && cwnd > GATE { 1.0 } else { 0.25 };
            let mut cc = crowded(cwnd);
            cc.on_ack(at(100_000), &ack(MTU, marked, Some(12_000 + 15_000)));
            let cut = 0.8 * (15_000.0 - target_ns(cwnd)) / 15_000.0 * part;
            let left = cwnd as f64 * (1.0 - cut);
            // A large window has its fixed increase, too.
            let eta = if cwnd > GATE { 614.0 } else { 0.0 };
            let is_to_be = (left + eta).max(f64::from(MTU));
            assert!((cc.cwnd as f64 - is_to_be).abs() <= 5.0, "{cwnd}: {} not {is_to_be}", cc.cwnd);
        }
    }
    let mut as_specified = Nscc { cwnd: 20_000, qa_end: at(u64::MAX), ..Nscc::new(&lab(), MTU, at(0)) };
    as_specified.on_ack(at(100_000), &ack(MTU, false, Some(27_000)));
    assert!(as_specified.cwnd > 20_000);
}

/// Delay takes no window below a packet, nor one that is below it any further.
//= NSCC-027 test
#[test]
fn delay_stops_at_a_packet() {
    for cwnd in [MTU.into(), 3_000, 300] {
        let mut cc = crowded(cwnd);
        cc.on_ack(at(100_000), &ack(MTU, true, Some(60_000)));
        assert_eq!(cc.cwnd, cwnd);
        cc.on_loss(at(110_000), MTU);
        assert_eq!(cc.cwnd, cwnd, "nor do losses that are inferred");
    }
}

/// In proportion to the window: as many windows as make the gate grow together as one at the gate.
//= NSCC-027 test
#[test]
fn small_windows_grow_in_proportion() {
    for (cwnd, newly) in [(20_000u64, 8_192u32), (4_096, 4_096), (1_024, 4_096), (300, 4_096)] {
        let delay = 5_000.0;
        let mut cc = crowded(cwnd);
        cc.on_ack(at(100_000), &ack(newly, false, Some(17_000)));
        let counted = f64::from(newly).min(cwnd as f64);
        let step = ALPHA * counted * (target_ns(cwnd) - delay) / GATE as f64;
        let is_to_be = cwnd as f64 + step.min(cwnd as f64);
        assert!((cc.cwnd as f64 - is_to_be).abs() <= 0.01 * step + 2.0, "{cwnd}: {} not {is_to_be}", cc.cwnd);
    }
    let mut cc = crowded(300);
    cc.inc = u64::MAX;
    cc.on_ack(at(100_000), &ack(MTU, false, Some(17_000)));
    assert_eq!(cc.cwnd, 600, "no more than doubled");
}

/// By half of what a window's worth of acknowledgements says, up to the gate.
//= NSCC-027 test
#[test]
fn small_windows_grow_by_packets_without_a_round_trip() {
    for (cwnd, newly, grown) in [
        (1_000u64, MTU, 1_500),
        (10_000, MTU, 12_048),
        (GATE - 1, MTU, GATE),
        (GATE, MTU, GATE),
        (100_000, MTU, 100_000),
    ] {
        let mut cc = crowded(cwnd);
        cc.on_ack(at(100_000), &ack(newly, false, None));
        assert_eq!(cc.cwnd, grown, "{cwnd}");
        let mut limited = crowded(cwnd);
        limited.inflight = 1 << 20;
        limited.on_ack(at(100_000), &AckSample { penalty: 1, ..ack(newly, false, None) });
        // The penalty itself takes 1/128 of what arrived.
        assert!((cwnd - u64::from(newly / 128)..=cwnd).contains(&limited.cwnd), "a receiver penalty forbids it");
    }
}

/// Two windows that see one delay come together.
//= NSCC-027 test
#[test]
fn who_has_less_catches_up() {
    let (mut small, mut large) = (crowded(1_000), crowded(8_000));
    for round in 1..2_000u64 {
        // The queue of a link that both overload together.
        let delay = (small.cwnd + large.cwnd).saturating_sub(5_000) * 2;
        for cc in [&mut small, &mut large] {
            cc.on_ack(at(round * 30_000), &ack(MTU, false, Some(12_000 + delay)));
        }
    }
    let ratio = large.cwnd as f64 / small.cwnd as f64;
    assert!((0.9..1.1).contains(&ratio), "{} and {}", large.cwnd, small.cwnd);
}

/// Of all trimmed packets of a flight the first halves the window, down to an eighth of a packet.
//= NSCC-027 test
#[test]
fn a_flight_that_is_trimmed_halves_once() {
    let mut cc = crowded(3 * u64::from(MTU));
    for _ in 0..4 {
        cc.on_send(MTU);
    }
    let windows: std::vec::Vec<u64> = (0..4)
        .map(|n| {
            cc.on_nack(at(100_000 + n), MTU, true, None);
            cc.cwnd
        })
        .collect();
    assert_eq!(windows, [8_192, 4_096, 2_048, 2_048], "by packets down to one, then by half");
    let windows: std::vec::Vec<u64> = (0..6)
        .map(|n| {
            cc.on_send(MTU);
            cc.on_nack(at(200_000 + n), MTU, true, None);
            cc.cwnd
        })
        .collect();
    assert_eq!(windows, [1_024, 512, 512, 512, 512, 512]);
    let mut as_specified = Nscc::new(&lab(), MTU, at(0));
    (as_specified.cwnd, as_specified.qa_end) = (MTU.into(), at(u64::MAX));
    as_specified.on_nack(at(1), MTU, true, None);
    assert_eq!(as_specified.cwnd, u64::from(MTU));
}

/// Quick adapt measures what an epoch delivers: where packets are as far apart as that, it says nothing.
//= NSCC-027 test
#[test]
fn quick_adapt_leaves_windows_of_a_packet_or_less_alone() {
    for (cwnd, left) in [(1_024, 1_024), (4_096, 4_096), (20_000, 8_192)] {
        let mut cc = crowded(cwnd);
        (cc.qa_end, cc.trigger_qa) = (at(1), true);
        cc.on_ack(at(100_000), &ack(2 * MTU, true, Some(13_000)));
        assert_eq!(cc.cwnd, left);
    }
    // A trimmed packet would draw it, too, and halves instead.
    let mut cc = crowded(MTU.into());
    cc.qa_end = at(1);
    cc.on_nack(at(100_000), MTU, true, None);
    assert_eq!((cc.cwnd, cc.trigger_qa), (2_048, false));
}

//= NSCC-027 test
#[test]
fn a_pause_is_as_many_round_trips_as_the_packet_is_larger() {
    let mut cc = crowded(1_024);
    cc.avg_delay_q8 = 3_000 << 8;
    assert_eq!(cc.pause_ns(), None, "nothing is in flight");
    cc.on_send(MTU);
    assert_eq!(cc.pause_ns(), Some(4 * 15_000));
    cc.on_send(1_024);
    assert_eq!(cc.pause_ns(), Some(5 * 15_000));
    cc.on_settled(MTU.into());
    assert_eq!(cc.pause_ns(), None, "a small packet fits");
    cc.cwnd = MTU.into();
    cc.on_send(5 * MTU);
    assert_eq!(cc.pause_ns(), None);
}
