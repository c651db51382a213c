//! Windows below a packet: senders pause, and whoever waits for the end of a pause gets it, whatever happens to the QP that sent last.

use super::*;
use mrc_core::EvReport;
use mrc_core::path::EvState;

/// Two QPs of one controller, whose window is a packet at most, after the first packet was trimmed; the first `busy` have data.
fn trimmed_once(crowds: bool, busy: usize, f: impl FnOnce(&mut Net<'_>)) {
    let cc = NsccConfig { crowds, max_cwnd_bytes: MTU, ..NsccConfig::new(100_000_000_000, 10_000, true) };
    let setup = Setup { trimming: Trimming::On, ..profiles(2, &[CcConfig::Nscc(cc)]) };
    net(1, &setup, Weather { trim: 1_000, ..Weather::default() }, |net| {
        for qp in 0..busy {
            net.post(qp, qp as u64, qp * 10_000, 10_000).unwrap();
        }
        assert!(net.run(SECOND, |net| net.qpcc(0).load.waiting_rtx == 1 || net.sides[0].info(0).retransmitted == 1));
        net.weather.trim = 0;
        f(net);
    });
}

/// What changes with each data packet of a QP, be it sent for the first time or again.
fn sent(net: &Net<'_>) -> [(u64, u32); 2] {
    [0, 1].map(|qp| (net.sides[0].info(qp).load.backlog_bytes, net.sides[0].info(qp).retransmitted))
}

/// The QP that sends the next data packet, and when.
fn next_sender(net: &mut Net<'_>) -> (usize, u64) {
    let before = sent(net);
    assert!(net.run(SECOND, |net| sent(net) != before), "nobody sends any more");
    (usize::from(sent(net)[1] != before[1]), net.now.as_nanos())
}

//= NSCC-027 test
#[test]
fn below_a_packet_there_is_a_pause_behind_each() {
    trimmed_once(true, 2, |net| {
        assert_eq!(net.qpcc(0).cwnd_bytes, u64::from(MTU) / 2);
        let (mut last, mut pauses) = (next_sender(net).1, vec![]);
        while net.qpcc(0).cwnd_bytes < u64::from(MTU) {
            let info = net.qpcc(0);
            assert_eq!(info.load.inflight_pkts, 1, "one packet at a time");
            let rtt_ns = info.base_rtt_ns.unwrap() + info.avg_delay_ns;
            let pause_ns = rtt_ns as f64 * info.inflight_bytes as f64 / info.cwnd_bytes as f64;
            let (_, now) = next_sender(net);
            assert!(((now - last) as f64 - pause_ns).abs() < 20.0, "{} ns, not {pause_ns}", now - last);
            pauses.push(now - last);
            last = now;
        }
        assert!(pauses.len() > 1 && pauses.iter().all(|&ns| ns > 8_000), "longer than a round trip: {pauses:?}");
        assert!(pauses.is_sorted_by(|a, b| a >= b), "no delay, so that the window grows: {pauses:?}");
        assert!(net.run(SECOND, |net| net.completed(2)));
        net.assert_arrived(0, 20_000);
    });
}

/// One QP looks for a path while the pause of the other lasts: that does not end it.
//= NSCC-027 test
#[test]
fn who_waits_for_a_path_ends_no_pause() {
    trimmed_once(true, 1, |net| {
        let profile = net.sides[0].profile.unwrap();
        let mut evs = [EvReport::EMPTY; 16];
        let n = net.sides[0].engine.query_evs(profile, 0, &mut evs).unwrap();
        let command = |net: &mut Net<'_>, state| {
            for report in &evs[..n] {
                net.sides[0].engine.set_ev_state(net.now, profile, &report.ev, state, true).unwrap();
            }
        };
        command(net, EvState::Denied);
        let before = sent(net);
        // Both look for a path once in each base RTT, not at the same time.
        assert!(!net.run(net.now.as_nanos() + 20_000, |net| sent(net) != before), "no EV may be used");
        net.post(1, 1, 10_000, 10_000).unwrap();
        let before = sent(net);
        assert!(!net.run(net.now.as_nanos() + 30_000, |net| sent(net) != before), "no EV may be used");
        command(net, EvState::Good);
        let (_, first) = next_sender(net);
        let info = net.qpcc(0);
        let rtt_ns = info.base_rtt_ns.unwrap() + info.avg_delay_ns;
        let (_, second) = next_sender(net);
        let pause_ns = rtt_ns as f64 * info.inflight_bytes as f64 / info.cwnd_bytes as f64;
        assert!(((second - first) as f64 - pause_ns).abs() < 20.0, "{} ns, not {pause_ns}", second - first);
        assert!(net.run(SECOND, |net| net.completed(2)));
    });
}

/// The QP that sent last is destroyed, or fails, during the pause that it was to end: the other one goes on.
//= NSCC-027, QPCC-001 test
#[test]
fn nobody_waits_for_a_qp_that_is_gone() {
    for fails in [false, true] {
        trimmed_once(true, 2, |net| {
            let (gone, _) = next_sender(net);
            // Its packet is acknowledged, and the pause is not over.
            assert!(net.run(SECOND, |net| net.qpcc(0).load.inflight_pkts == 0));
            assert_eq!(net.qpcc(0).state, QpccState::Active, "fails: {fails}");
            let (left, side) = (sent(net), &mut net.sides[0]);
            let other = 1 - gone;
            match fails {
                true => side.engine.modify_to_error(net.now, side.qps[gone]).unwrap(),
                false => side.engine.destroy_qp(side.qps[gone]).unwrap(),
            }
            net.transmit(0);
            assert!(net.sides[0].info(other).load.backlog_bytes < left[other].0, "fails: {fails}");
        });
    }
}

/// As specified, the window stays at a packet, and the next one leaves as soon as a NACK or a SACK comes.
//= NSCC-022 test
#[test]
fn a_window_of_a_packet_has_no_pause() {
    trimmed_once(false, 2, |net| {
        let mut last = next_sender(net).1;
        while !net.completed(2) {
            assert_eq!((net.qpcc(0).cwnd_bytes, net.qpcc(0).load.inflight_pkts), (MTU.into(), 1));
            let before = sent(net);
            net.run(SECOND, |net| sent(net) != before || net.completed(2));
            assert_eq!(net.now.as_nanos() - last, 8_000);
            last = net.now.as_nanos();
        }
    });
}
