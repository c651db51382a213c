//! Controllers that QPs share, their states, and what crosses the wire for them: congestion marks, waiting times,
//! receiver penalties, the probe for a clean base RTT.

mod by_hand;
#[path = "../common/mod.rs"]
mod common;
mod crowd;
mod turns;

use std::collections::BTreeSet;

use common::{Net, Setup, VA, Weather, net};
use mrc_core::cc::{CcConfig, NsccConfig};
use mrc_core::{
    CcProfileHandle, ConfigError, Endpoint, EndpointConfig, EvProfileHandle, Instant, Limits, MAX_HEADER_LEN,
    MAX_PORTS, ModifyError, OwnedStorage, Pd, PeerConfig, PlanePath, PortConfig, PortMask, QpInit, QpccInfo, QpccState,
    Route, RtrAttr, RtsAttr, SendWr, TableError, Trimming,
};
use mrc_wire::{Body, Ip, Psn, Qpn, Rkey, SackRepr, WireConfig, icrc, parse_frame};

const SECOND: u64 = 1_000_000_000;
/// Nominal bytes of a full packet of the harness as controllers assume it, and of one it sends.
const MTU: u32 = 1024 + 88;

/// Links of 100 Gb/s in all; the harness takes 4 us each way.
fn nscc() -> NsccConfig {
    NsccConfig::new(100_000_000_000, 10_000, false)
}

/// A window of `packets`.
fn fixed(packets: u32) -> CcConfig {
    CcConfig::Fixed { window_bytes: packets * MTU }
}

fn net_config() -> EndpointConfig {
    let mut cfg = EndpointConfig::default();
    cfg.gids[0] = Some(Ip::V4([192, 0, 2, 1]));
    cfg.ports[0] = Some(PortConfig { mac: [2; 6], sid: None, addr: None });
    cfg
}

fn profiles(qps: usize, cc: &[CcConfig]) -> Setup {
    Setup { qps, cc: cc.to_vec(), ..Setup::default() }
}

trait Congestion {
    fn qpcc(&self, qp: usize) -> QpccInfo;
    fn queue(&mut self, qp: usize, len: usize);
    fn turns(&mut self) -> Vec<usize>;
    fn first_turns(&mut self, most: usize) -> Vec<usize>;
    fn next_frame(&mut self, wanted: usize) -> Option<(mrc_wire::PortNum, Vec<u8>)>;
}

impl Congestion for Net<'_> {
    fn qpcc(&self, qp: usize) -> QpccInfo {
        self.sides[0].engine.qpcc_info(self.sides[0].qps[qp]).unwrap()
    }

    /// Posts a write of side 0 and lets nothing leave yet.
    fn queue(&mut self, qp: usize, len: usize) {
        let (lkey, rkey) = (self.sides[0].key, Rkey(self.sides[1].key));
        let wr =
            SendWr { lkey, local_va: VA, len: len as u32, remote_va: VA, rkey, signaled: true, ..SendWr::default() };
        let side = &mut self.sides[0];
        side.engine.post_send(self.now, side.qps[qp], &wr).unwrap();
    }

    /// The QPs of side 0 in the order in which their packets leave now; the packets go nowhere.
    fn turns(&mut self) -> Vec<usize> {
        self.first_turns(usize::MAX)
    }

    /// The same of at most so many packets.
    fn first_turns(&mut self, most: usize) -> Vec<usize> {
        let mut headers = [0u8; MAX_HEADER_LEN];
        let mut order = vec![];
        let (side, far) = self.sides.split_at_mut(1);
        while order.len() < most
            && let Some(tx) = side[0].engine.poll_transmit(self.now, PortMask::ALL, &mut headers)
        {
            let frame = parse_frame(&headers, tx.frame_len(), &WireConfig::default(), |_| true).unwrap();
            if matches!(frame.body, Body::Write { .. }) {
                order.push(far[0].qps.iter().position(|qp| qp.qpn() == frame.bth.dest_qp).unwrap());
            }
        }
        order
    }

    /// Takes the oldest frame to side `wanted` off the wire.
    fn next_frame(&mut self, wanted: usize) -> Option<(mrc_wire::PortNum, Vec<u8>)> {
        let key = self.wire.iter().find(|(_, (to, ..))| *to == wanted).map(|(&key, _)| key)?;
        self.wire.remove(&key).map(|(_, port, bytes)| (port, bytes))
    }
}

//= QPCC-001, QPCC-002, SND-003 test
#[test]
fn the_qps_of_a_peer_and_profile_share_one_window() {
    net(1, &profiles(4, &[fixed(8), fixed(8)]), Weather::default(), |net| {
        for qp in [0, 2] {
            net.queue(qp, 100_000);
        }
        let order = net.turns();
        assert_eq!(order, [0, 2, 0, 2, 0, 2, 0, 2], "eight packets in all, by turns");
        net.queue(1, 3_000);
        assert_eq!(net.turns(), [1, 1, 1], "the other profile has a window of its own");
        assert_eq!([0, 1, 2, 3].map(|qp| net.qpcc(qp).users), [2; 4]);
        assert_eq!((net.qpcc(0).inflight_bytes, net.qpcc(2).inflight_bytes), (8 * 1_112, 8 * 1_112));
        assert_eq!(net.qpcc(3).inflight_bytes, 3_000 + 3 * 88);
    });
}

/// A full completion queue holds back the completion that would make room: taking one lets the next write go.
//= SND-006, WIMM-008 test
#[test]
fn a_taken_completion_lets_the_next_write_with_immediate_go() {
    let setup = Setup { max_wimm: 1, cq_depth: 1, ..profiles(1, &[CcConfig::None]) };
    net(1, &setup, Weather::default(), |net| {
        for id in 0..8 {
            net.sides[1].engine.post_recv(net.sides[1].qps[0], id).unwrap();
        }
        let (lkey, rkey) = (net.sides[0].key, Rkey(net.sides[1].key));
        for (wr_id, imm) in [(0, None), (1, Some(1)), (2, Some(2))] {
            let wr = SendWr {
                wr_id,
                lkey,
                local_va: VA,
                len: 8,
                remote_va: VA,
                rkey,
                imm,
                signaled: true,
                solicited: false,
            };
            let side = &mut net.sides[0];
            side.engine.post_send(net.now, side.qps[0], &wr).unwrap();
        }
        // The application of side 0 sleeps: only frames move.
        for _ in 0..20 {
            for which in 0..2 {
                net.transmit(which);
            }
            net.now = net.now.after(4_000);
            for to in 0..2 {
                while let Some((port, frame)) = net.next_frame(to) {
                    let _ = net.deliver(to, port, &frame);
                }
            }
            let side = &mut net.sides[1];
            while side.engine.poll_completion(side.cq).is_some() {}
        }
        let sent = |net: &Net<'_>| net.sides[0].engine.stats().tx_data;
        assert_eq!(sent(net), 2, "the second immediate waits for the completion of the first");
        let side = &mut net.sides[0];
        assert_eq!(side.engine.poll_completion(side.cq).unwrap().wr_id, 0);
        net.transmit(0);
        assert_eq!(sent(net), 3);
    });
}

//= QPCC-003, QPCC-004, CCU-001 test
#[test]
fn a_controller_goes_through_its_states() {
    net(1, &profiles(1, &[fixed(2)]), Weather::default(), |net| {
        let state = |net: &Net<'_>| {
            let qpcc = net.qpcc(0);
            (qpcc.state, qpcc.load.backlog_bytes, qpcc.load.inflight_pkts, qpcc.inflight_bytes)
        };
        assert_eq!(state(net), (QpccState::Idle, 0, 0, 0));
        net.queue(0, 3_000);
        // Three packets with 88 bytes each that count beside their payload.
        assert_eq!(state(net), (QpccState::Ready, 3_264, 0, 0));
        net.transmit(0);
        assert_eq!(state(net), (QpccState::Active, 952 + 88, 2, 2 * 1_112));
        let mut seen = BTreeSet::new();
        assert!(net.run(SECOND, |net| {
            seen.insert(net.qpcc(0).state as u8);
            net.completed(1)
        }));
        assert!(seen.contains(&(QpccState::Pending as u8)));
        let idle = |net: &Net<'_>| net.qpcc(0).state == QpccState::Idle;
        assert!(net.run(2 * SECOND, idle));
        assert_eq!(state(net), (QpccState::Idle, 0, 0, 0));
    });
}

//= INV-005, QPCC-003, NSCC-021 test
#[test]
fn nothing_stays_in_flight_when_everything_is_acknowledged() {
    let weather =
        Weather { loss: 20, reorder: 100, duplicate: 30, corrupt: 10, trim: 30, mark: 50, ..Weather::default() };
    for seed in 0..20 {
        let trimming = if seed % 2 == 0 { Trimming::On } else { Trimming::Off };
        let setup = Setup { trimming, ..profiles(3, &[CcConfig::Nscc(nscc()), fixed(40)]) };
        net(seed, &setup, weather, |net| {
            for id in 0..12 {
                net.post(id % 3, id as u64, id * 20_000, 20_000).unwrap();
            }
            let bounded = |net: &Net<'_>| {
                for (qpcc, qps) in [(net.qpcc(0), &[0usize, 2][..]), (net.qpcc(1), &[1])] {
                    let outstanding: u32 = qps.iter().map(|&qp| net.sides[0].info(qp).outstanding).sum();
                    assert!(qpcc.load.inflight_pkts + qpcc.load.waiting_rtx <= outstanding, "seed {seed}: {qpcc:?}");
                    assert!(qpcc.inflight_bytes <= i64::from(qpcc.load.inflight_pkts + 64) * 1_112, "{qpcc:?}");
                }
            };
            let quiet = |net: &Net<'_>| (0..2).all(|qp| net.qpcc(qp).state == QpccState::Idle);
            let done = |net: &Net<'_>| {
                bounded(net);
                net.completed(12) && quiet(net)
            };
            assert!(net.run(20 * SECOND, done), "{:?}", net.qpcc(0));
            for qp in 0..2 {
                let qpcc = net.qpcc(qp);
                assert_eq!((qpcc.inflight_bytes, qpcc.load), (0, Default::default()), "seed {seed}");
            }
            net.assert_arrived(0, 240_000);
        });
    }
}

/// Rewrites the SACK in `bytes` and signs it again, as a forger would.
fn forge(bytes: &mut [u8], change: impl FnOnce(&mut SackRepr)) {
    let body = bytes.len() - icrc::LEN - SackRepr::LEN;
    let mut sack = SackRepr::parse(bytes[body..].first_chunk().unwrap());
    change(&mut sack);
    sack.emit(bytes[body..].first_chunk_mut().unwrap());
    let end = bytes.len() - icrc::LEN;
    let sum = icrc::compute(&bytes[14..end]).unwrap();
    bytes[end..].copy_from_slice(&sum);
}

/// The SACK that answers the first packet of QP 0 on side 0; the packets of QP 1 go nowhere.
fn first_sack(net: &mut Net<'_>) -> (mrc_wire::PortNum, Vec<u8>) {
    net.transmit(0);
    let qp = net.sides[1].qps[0].qpn();
    let of = |bytes: &[u8]| parse_frame(bytes, bytes.len(), &WireConfig::default(), |_| true).unwrap();
    loop {
        let (port, bytes) = net.next_frame(1).expect("a write of QP 0");
        if of(&bytes).bth.dest_qp != qp {
            continue;
        }
        net.deliver(1, port, &bytes).unwrap();
        net.transmit(1);
        while let Some((port, bytes)) = net.next_frame(0) {
            if matches!(of(&bytes).body, Body::Sack(_)) {
                net.now = net.now.after(10_000);
                return (port, bytes);
            }
        }
    }
}

/// Two QPs share a window. A SACK of one that reports four gigabytes takes nothing of what the other has in flight, and the
/// true reports after it still count.
//= SRX-009 test
#[test]
fn no_report_of_one_qp_empties_the_window_of_another() {
    let setup = Setup { tweak: |cfg| cfg.sack_gen_threshold = 1_024, ..profiles(2, &[fixed(16)]) };
    net(1, &setup, Weather::default(), |net| {
        net.queue(0, 8_000);
        net.queue(1, 100_000);
        let before = net.qpcc(0);
        assert_eq!(before.inflight_bytes, 0);
        let (port, good) = first_sack(net);
        let held = net.qpcc(0);
        assert_eq!(held.inflight_bytes, 8_000 + 8 * 88 + 8 * 1_112, "eight packets each");
        for units in [1 << 22, (1 << 23) - 1, 1 << 20] {
            let mut bad = good.clone();
            forge(&mut bad, |sack| sack.rcvd_bytes = units);
            let _ = net.deliver(0, port, &bad);
            let left = net.qpcc(0).inflight_bytes;
            assert!(left >= 8 * 1_112 - 255, "QP 1 has eight packets in flight, {left} bytes count");
        }
        // QP 0 is done but for its reports: the window belongs to QP 1, which fills it and no more.
        let more = net.turns();
        assert!(more.len() <= 8, "{more:?}: a window of 16 packets, 8 of them still in flight");
    });
}

/// A congestion state of a layout that nobody here knows: its bytes are no penalty, no timestamp and no count.
//= SETH-010 test
#[test]
fn an_opaque_congestion_state_is_not_read() {
    let setup = Setup { tweak: |cfg| cfg.sack_gen_threshold = 1_024, ..profiles(2, &[CcConfig::Nscc(nscc())]) };
    net(1, &setup, Weather::default(), |net| {
        net.queue(0, 8_192);
        net.queue(1, 8_192);
        let (port, mut bytes) = first_sack(net);
        let before = net.qpcc(0);
        forge(&mut bytes, |sack| {
            (sack.cc_type, sack.rcvd_bytes, sack.rcv_cwnd_pen, sack.restore_cwnd) = (3, 1 << 20, 127, false);
            sack.timestamp = sack.timestamp.wrapping_add(40);
        });
        net.deliver(0, port, &bytes).unwrap();
        let after = net.qpcc(0);
        assert_eq!(after.load.inflight_pkts, before.load.inflight_pkts - 1, "the reliability half counts");
        // The packet that arrived was a full one, and what is in flight now are the others.
        assert_eq!(after.inflight_bytes, before.inflight_bytes - 1_112);
        assert!(after.cwnd_bytes >= before.cwnd_bytes, "no penalty: {after:?}");
        assert_eq!(net.sides[0].info(0).base_rtt_ns, 10_000, "nothing says that the responder waited");
    });
}

/// A responder whose every SACK has an opaque congestion state: the window moves with the packets.
//= SETH-010 test
#[test]
fn a_window_moves_without_a_known_congestion_state() {
    let setup = Setup { tweak: |cfg| cfg.sack_gen_threshold = 1_024, ..profiles(2, &[fixed(4)]) };
    net(1, &setup, Weather::default(), |net| {
        net.queue(0, 20 * 1_024);
        let mut most = 0;
        net.transmit(0);
        while let Some((port, bytes)) = net.next_frame(1) {
            net.deliver(1, port, &bytes).unwrap();
            net.transmit(1);
            while let Some((port, mut bytes)) = net.next_frame(0) {
                let frame = parse_frame(&bytes, bytes.len(), &WireConfig::default(), |_| true).unwrap();
                if matches!(frame.body, Body::Sack(_)) {
                    forge(&mut bytes, |sack| (sack.cc_type, sack.rcvd_bytes) = (1, 0));
                }
                net.deliver(0, port, &bytes).unwrap();
            }
            let qpcc = net.qpcc(0);
            assert_eq!(qpcc.inflight_bytes, i64::from(qpcc.load.inflight_pkts) * 1_112);
            net.transmit(0);
            most = most.max(net.qpcc(0).load.inflight_pkts);
        }
        net.drain(0);
        assert_eq!(most, 4);
        assert!(net.completed(1));
    });
}

/// A Transport ACK may overtake the SACK that reports the bytes it covers; they are not taken off twice.
//= INV-005, NSCC-021 test
#[test]
fn bytes_reported_late_do_not_count_against_the_next_message() {
    net(1, &profiles(1, &[fixed(100)]), Weather::default(), |net| {
        for id in 0..50 {
            net.post(0, id, 0, 10_000).unwrap();
            assert!(net.run(SECOND, |net| {
                let (inflight, packets) = (net.qpcc(0).inflight_bytes, net.qpcc(0).load.inflight_pkts);
                assert!(inflight > -256 || packets == 0, "message {id}: {inflight} bytes in {packets} packets");
                net.completed(id as usize + 1)
            }));
        }
    });
}

//= QPCC-001 test
#[test]
fn the_last_qp_out_ends_the_controller() {
    net(1, &profiles(4, &[fixed(8), fixed(8)]), Weather::default(), |net| {
        let profile = mrc_core::CcProfileHandle::from_index(1);
        net.queue(0, 100_000);
        net.queue(2, 100_000);
        assert_eq!(net.turns().len(), 8);
        assert_eq!(net.qpcc(0).state, QpccState::Active);
        let side = &mut net.sides[0];
        assert_eq!(side.engine.destroy_cc_profile(profile), Err(TableError::Busy("congestion-control profile")));
        let busy = side.engine.modify_cc_profile(profile, &fixed(9));
        assert_eq!(busy, Err(TableError::Busy("congestion-control profile")));
        // What a QP had in flight and queued goes with it: the other one may send.
        side.engine.modify_to_error(net.now, side.qps[0]).unwrap();
        assert!(side.engine.qpcc_info(side.qps[0]).is_none());
        assert_eq!(net.turns(), [2; 4]);
        assert_eq!((net.qpcc(2).users, net.qpcc(2).load.inflight_pkts), (1, 8));
        let side = &mut net.sides[0];
        side.engine.modify_to_reset(side.qps[0]).unwrap();
        side.engine.destroy_qp(side.qps[2]).unwrap();
        assert_eq!(side.engine.modify_cc_profile(profile, &fixed(9)), Ok(()));
        assert_eq!(side.engine.cc_profile(profile), Some(fixed(9)));
        assert_eq!(side.engine.destroy_cc_profile(profile), Ok(()));
        assert_eq!(side.engine.destroy_cc_profile(profile), Err(TableError::Unknown("congestion-control profile")));
        let own = side.engine.default_cc_profile();
        assert_eq!(side.engine.destroy_cc_profile(own), Err(TableError::Busy("congestion-control profile")));
    });
}

/// Runs until side 0 has `messages` completions; frames it sent by whether they were probes of the control class.
fn probes(net: &mut Net<'_>, messages: usize) -> (usize, usize) {
    let (mut base, mut plain) = (BTreeSet::new(), BTreeSet::new());
    let wire = WireConfig::default();
    assert!(net.run(u64::MAX, |net| {
        for (key, (to, _, bytes)) in &net.wire {
            let frame = parse_frame(bytes, bytes.len(), &wire, |_| true).unwrap();
            if *to == 1 && matches!(frame.body, Body::Probe(_)) {
                if frame.dscp == wire.dscp.control {
                    base.insert(*key);
                } else {
                    plain.insert(*key);
                }
            }
        }
        net.completed(messages) && net.wire.is_empty()
    }));
    (base.len(), plain.len())
}

//= NSCC-024, PROBE-007, RTT-003, DSCP-003 test
#[test]
fn the_first_feedback_of_a_destination_triggers_one_probe_for_its_base_rtt() {
    let setup = profiles(3, &[CcConfig::Nscc(nscc()), CcConfig::None, CcConfig::Nscc(nscc())]);
    net(1, &setup, Weather::default(), |net| {
        net.post(1, 0, 0, 10_000).unwrap();
        assert_eq!(probes(net, 1), (0, 0), "nothing to learn without an algorithm");
        assert_eq!(net.qpcc(0).base_rtt_ns, Some(10_000));
        for id in 1..4 {
            net.post(0, id, 0, 10_000).unwrap();
            assert_eq!(probes(net, id as usize + 1), (usize::from(id == 1), 0));
        }
        let base = net.qpcc(0).base_rtt_ns.unwrap();
        assert!((8_000 - 16..8_000 + 128).contains(&base), "{base} ns");
        // QP 2 has a controller of its own, which began before the measurement: it measures for itself.
        net.post(2, 4, 0, 10_000).unwrap();
        assert_eq!(probes(net, 5).0, 1);
        // A new controller within ten seconds knows, a later one asks again. The cache counts from the measurement.
        let measured = net.now;
        for (round, (later, probes_sent)) in [(9 * SECOND, 0), (11 * SECOND, 1)].into_iter().enumerate() {
            let gone = net.sides[0].qps[2];
            net.sides[0].engine.modify_to_error(net.now, gone).unwrap();
            net.now = measured.after(later);
            let psn = 1_000 * (round as u32 + 1);
            reconnect(net, &setup, psn);
            assert_eq!(net.qpcc(0).base_rtt_ns == Some(base), probes_sent == 0);
            net.post(0, 9, 0, 10_000).unwrap();
            let messages = net.sides[0].completions.len() + 1;
            assert_eq!(probes(net, messages).0, probes_sent);
        }
    });
}

/// A controller begins with what another one measured to the same peer, and with nothing measured to another peer.
//= NSCC-024, QPCC-001 test
#[test]
fn a_controller_begins_with_the_base_rtt_of_its_peer() {
    let setup = profiles(1, &[CcConfig::Nscc(nscc()), CcConfig::Nscc(nscc())]);
    net(1, &setup, Weather::default(), |net| {
        net.post(0, 1, 0, 10_000).unwrap();
        assert_eq!(probes(net, 1), (1, 0));
        let measured = net.qpcc(0).base_rtt_ns.unwrap();
        assert!(measured < 9_000);
        let stranger = {
            let mut planes = [None; MAX_PORTS];
            planes[0] = Some(PlanePath { next_hop: [4; 6], outer_src: None });
            let (local, remote) = (common::address(0, false), common::address(9, false));
            let peer = PeerConfig { local, remote, planes, route: Route::Plain, hop_limit: 64 };
            net.sides[0].engine.add_peer(&peer).unwrap()
        };
        let known = net.sides[0].peer.unwrap();
        for (peer, profile, base) in [(stranger, 1, 10_000), (known, 2, measured), (stranger, 2, 10_000)] {
            let side = &mut net.sides[0];
            let qp = side.engine.create_qp(&QpInit { pd: Pd(0), send_cq: side.cq, recv_cq: side.cq }).unwrap();
            side.engine.modify_to_init(qp).unwrap();
            let rtr = RtrAttr::software(peer, Qpn::new(9), Psn::new(0), side.profile.unwrap());
            side.engine.modify_to_rtr(net.now, qp, &rtr).unwrap();
            let cc = Some(CcProfileHandle::from_index(profile));
            side.engine.modify_to_rts(net.now, qp, &RtsAttr { cc, ..RtsAttr::software(Psn::new(0)) }).unwrap();
            assert_eq!(side.engine.qpcc_info(qp).unwrap().base_rtt_ns, Some(base), "{peer:?}, profile {profile}");
        }
    });
}

/// A profile that keeps to the round trips of data sends no such probe, and takes no other one's.
//= NSCC-024, RTT-003 test
#[test]
fn the_base_rtt_may_be_left_to_data_packets() {
    let data_only = NsccConfig { disable_rtt_probe: true, base_rtt_ns: 1_000_000, ..nscc() };
    let setup = profiles(1, &[CcConfig::Nscc(data_only)]);
    net(1, &setup, Weather::default(), |net| {
        net.post(0, 1, 0, 10_000).unwrap();
        assert_eq!(probes(net, 1), (0, 0));
        let by_data = net.qpcc(0).base_rtt_ns.unwrap();
        assert!(by_data < 20_000, "data packets measure as ever: {by_data} ns");
    });
}

/// Packets with less payload than the path takes would lower the base RTT of those that are full. Of one whose request is
/// complete when its SACK arrives nobody knows the payload.
//= RTT-003 test
#[test]
fn by_a_knob_the_base_rtt_is_that_of_full_packets() {
    let config = NsccConfig { disable_rtt_probe: true, base_rtt_ns: 1_000_000, probe_shortfall_ns: 2_048, ..nscc() };
    let setup = profiles(1, &[CcConfig::Nscc(config)]);
    net(1, &setup, Weather::default(), |net| {
        let mtu = usize::from(setup.mtu);
        let mut posted = 0;
        for (lengths, longer_ns) in [(&[256][..], 2_048), (&[20 * mtu], 0), (&[256, 20 * mtu], 0)] {
            for length in lengths {
                net.post(0, posted, 0, *length).unwrap();
                posted += 1;
            }
            assert!(net.run(u64::MAX, |net| net.completed(posted as usize) && net.wire.is_empty()));
            assert_eq!(net.qpcc(0).base_rtt_ns, Some(8_000 + longer_ns), "{lengths:?}");
        }
    });
}

/// Takes QP 0 of both sides through RESET to RTS, with fresh PSNs.
fn reconnect(net: &mut Net<'_>, setup: &Setup, psn: u32) {
    let (now, psn) = (net.now, Psn::new(psn));
    for which in 0..2 {
        let far = net.sides[1 - which].qps[0].qpn();
        let side = &mut net.sides[which];
        let (qp, peer) = (side.qps[0], side.peer.unwrap());
        let engine = &mut side.engine;
        engine.modify_to_reset(qp).unwrap();
        engine.modify_to_init(qp).unwrap();
        let rtr = RtrAttr::software(peer, far, psn, EvProfileHandle::from_index(0));
        engine.modify_to_rtr(now, qp, &RtrAttr { path_mtu: setup.mtu, ..rtr }).unwrap();
        let cc = Some(CcProfileHandle::from_index(1));
        engine.modify_to_rts(now, qp, &RtsAttr { cc, ..RtsAttr::software(psn) }).unwrap();
    }
}

/// A window that shrinks closes behind packets that did not ask: their responder may sit on them, and nothing that could ask
/// can leave. With probes that follow tails one leaves at once; otherwise silence draws it.
//= PROBE-006 test
#[test]
fn a_window_that_closes_behind_packets_that_did_not_ask_draws_a_probe() {
    for (tail_probe_ns, before, after) in [(2_000, 10_000, 12_500), (0, 25_000, 30_500)] {
        let cc = CcConfig::Nscc(NsccConfig { disable_rtt_probe: true, ..nscc() });
        let setup = Setup { tail_probe_ns, ..profiles(1, &[cc]) };
        net(1, &setup, Weather::default(), |net| {
            let far = &mut net.sides[1];
            far.engine.set_receiver_penalty(far.qps[0], 127, false).unwrap();
            // Its acknowledgement arrives at 8 us and takes the window to less than what is in flight by then.
            net.post(0, 0, 0, 100).unwrap();
            net.run(5_000, |_| false);
            net.queue(0, 20 * 1_024);
            let mut headers = [0u8; MAX_HEADER_LEN];
            for _ in 0..4 {
                let tx = net.sides[0].engine.poll_transmit(net.now, PortMask::ALL, &mut headers).unwrap();
                let frame = parse_frame(&headers, tx.frame_len(), &WireConfig::default(), |_| true).unwrap();
                assert!(!frame.bth.ack_req);
            }
            net.now = Instant::from_nanos(8_100);
            while let Some((port, frame)) = net.next_frame(0) {
                net.deliver(0, port, &frame).unwrap();
            }
            assert_eq!(net.qpcc(0).state, QpccState::Active, "closed");
            let probes = net.sides[0].engine.stats().tx_probe;
            for (ns, more) in [(before, 0), (after, 1)] {
                net.run(ns, |_| false);
                assert_eq!(net.sides[0].engine.stats().tx_probe - probes, more, "at {ns} ns");
            }
        });
    }
}

//= PEN-001, PEN-002, NSCC-016, NSCC-017 test
#[test]
fn a_receiver_slows_its_sender_and_lets_it_go_again() {
    for restore in [true, false] {
        net(1, &profiles(1, &[CcConfig::Nscc(nscc())]), Weather::default(), |net| {
            let mut id = 0;
            let mut send = |net: &mut Net<'_>, penalty, restore| {
                let side = &mut net.sides[1];
                side.engine.set_receiver_penalty(side.qps[0], penalty, restore).unwrap();
                id += 1;
                net.post(0, id, 0, 60_000).unwrap();
                assert!(net.run(u64::MAX, |net| net.completed(id as usize) && net.wire.is_empty()));
                net.qpcc(0).cwnd_bytes
            };
            let open = send(net, 0, restore);
            for penalty in [64, 127] {
                let shrunk = send(net, penalty, restore);
                assert!(shrunk < open / 2, "{shrunk} of {open} with {penalty} in every SACK");
            }
            let after = send(net, 0, restore);
            if restore {
                assert_eq!(after, open, "the window from before the first penalty");
            } else {
                assert!(after < open / 2, "{after} of {open}: it has to grow back");
            }
        });
    }
    net(1, &Setup::default(), Weather::default(), |net| {
        let (engine, qp) = (&mut net.sides[0].engine, net.sides[0].qps[0]);
        assert_eq!(engine.set_receiver_penalty(qp, 128, true), Err(ModifyError::Range("penalty")));
    });
}

//= CCP-001, NSCC-003 test
#[test]
fn a_mark_moves_both_the_window_and_the_path() {
    let weather = Weather { mark: 1_000, reorder: 700, ..Weather::default() };
    net(5, &profiles(1, &[CcConfig::Nscc(nscc())]), weather, |net| {
        let open = net.qpcc(0).cwnd_bytes;
        net.post(0, 0, 0, 200_000).unwrap();
        assert!(net.run(SECOND, |net| net.completed(1)));
        assert!(net.qpcc(0).avg_delay_ns > 0 && net.qpcc(0).cwnd_bytes < open / 2, "{:?}", net.qpcc(0));
        assert!(net.sides[0].engine.stats().ev_skipped > 0);
    });
}

/// A responder that waits before it answers: with service time agreed on, the wait is no queueing delay.
//= RTT-001, RTT-002 test
#[test]
fn the_time_that_a_responder_waits_is_not_counted() {
    let delay = |svc_time, wait_ns: u64| {
        let setup = Setup { svc_time, ..profiles(1, &[CcConfig::Nscc(nscc())]) };
        net(1, &setup, Weather::default(), |net| {
            net.now = Instant::from_nanos(100_000_000);
            net.post(0, 0, 0, 1_000).unwrap();
            net.now = net.now.after(8_000);
            let (port, frame) = net.next_frame(1).unwrap();
            net.deliver(1, port, &frame).unwrap();
            net.now = net.now.after(wait_ns);
            net.transmit(1);
            while let Some((port, frame)) = net.next_frame(0) {
                net.deliver(0, port, &frame).unwrap();
            }
            assert!(net.sides[0].engine.stats().rx_sack > 0);
            net.qpcc(0).avg_delay_ns
        })
    };
    assert!((48_900..49_100).contains(&delay(false, 51_000)));
    let waited = delay(true, 51_000);
    assert!(waited < 256, "{waited} ns: two stamps of 128 ns");
    assert!(delay(true, 7_900_000) < 256);
    // Older than 16 bits can tell: the whole time counts, as without agreement.
    assert!(delay(true, 8_100_000) > 8_000_000);
}

//= RTT-001 test
#[test]
fn feedback_that_may_answer_either_copy_is_no_sample() {
    net(1, &Setup::default(), Weather::default(), |net| {
        net.post(0, 0, 0, 1_000).unwrap();
        let (port, first) = net.next_frame(1).unwrap();
        net.now = Instant::from_nanos(1_024 << 8);
        net.sides[0].engine.handle_timeout(net.now);
        net.transmit(0);
        assert_eq!(net.sides[0].engine.stats().retransmitted, 1);
        // The first copy arrives after all, a moment after the second one left.
        net.now = net.now.after(1_000);
        // Everything the responder answers; whether its SACKs say that they answer a retransmission.
        let answer = |net: &mut Net<'_>, frame: &[u8]| {
            let _ = net.deliver(1, port, frame);
            net.transmit(1);
            let mut rtx = vec![];
            while let Some((port, frame)) = net.next_frame(0) {
                let parsed = parse_frame(&frame, frame.len(), &WireConfig::default(), |_| true).unwrap();
                if matches!(parsed.body, Body::Sack(_)) {
                    rtx.push(parsed.bth.rtx);
                }
                let _ = net.deliver(0, port, &frame);
            }
            rtx
        };
        let frames: Vec<_> = std::iter::from_fn(|| net.next_frame(1)).map(|(_, frame)| frame).collect();
        let is_write = |frame: &&Vec<u8>| {
            let parsed = parse_frame(frame, frame.len(), &WireConfig::default(), |_| true).unwrap();
            matches!(parsed.body, Body::Write { .. })
        };
        let second = frames.iter().find(is_write).unwrap();
        assert_eq!(answer(net, &first), [false]);
        assert_eq!(net.sides[0].info(0).base_rtt_ns, 10_000, "1 us since the second copy left is no round trip");
        assert_eq!(answer(net, second), [true]);
        assert!(net.sides[0].info(0).base_rtt_ns < 1_100, "feedback for the second copy says so");
    });
}

//= CCU-007 test
#[test]
fn bad_profiles_are_refused_by_name() {
    let limits = Limits { cc_profiles: 2, qpccs: 1, ..Limits::default() };
    net(1, &Setup::default(), Weather::default(), |net| {
        let engine = &mut net.sides[0].engine;
        let bad = |change: fn(&mut NsccConfig)| {
            let mut config = nscc();
            change(&mut config);
            CcConfig::Nscc(config)
        };
        for (config, field) in [
            (bad(|c| c.rate_bps = 0), "nscc.rate_bps"),
            (bad(|c| c.rate_bps = 10_000_000_000_001), "nscc.rate_bps"),
            (bad(|c| c.base_rtt_ns = 0), "nscc.base_rtt_ns"),
            (bad(|c| c.base_rtt_ns = 1_000_000_001), "nscc.base_rtt_ns"),
            (bad(|c| c.gamma_q16 = (16 << 16) + 1), "nscc.gamma_q16"),
            (bad(|c| c.max_md_jump_q16 = 65_537), "nscc.max_md_jump_q16"),
            (bad(|c| c.qa_gate = 32), "nscc.qa_gate"),
        ] {
            let error = engine.create_cc_profile(&config).unwrap_err();
            assert_eq!(error, TableError::Range(field));
            assert_eq!(error.to_string(), format!("`{field}` is outside its range"));
            let own = engine.default_cc_profile();
            assert!(engine.modify_cc_profile(own, &config).is_err());
            let mut storage = OwnedStorage::new(limits).unwrap();
            let mut cfg = net_config();
            cfg.cc = config;
            assert_eq!(Endpoint::new(cfg, storage.lend(), 1).unwrap_err(), ConfigError::Range { what: field });
        }
    });
    for limits in [Limits { cc_profiles: 0, ..limits }, Limits { qpccs: 0, ..limits }] {
        assert!(OwnedStorage::new(limits).is_err());
    }
    let mut storage = OwnedStorage::new(limits).unwrap();
    let mut engine = Endpoint::new(net_config(), storage.lend(), 1).unwrap();
    engine.create_cc_profile(&CcConfig::None).unwrap();
    assert_eq!(engine.create_cc_profile(&CcConfig::None), Err(TableError::Full("congestion-control profile")));
}

//= QPCC-002 test
#[test]
fn a_qp_needs_an_existing_profile_and_room_for_its_controller() {
    let setup = Setup { qpccs: 1, ..profiles(2, &[fixed(8)]) };
    net(1, &setup, Weather::default(), |net| {
        let (now, side) = (net.now, &mut net.sides[0]);
        let (qp, peer) = (side.qps[0], side.peer.unwrap());
        let other = side.engine.create_cc_profile(&CcConfig::None).unwrap();
        side.engine.modify_to_reset(qp).unwrap();
        side.engine.modify_to_init(qp).unwrap();
        let far = net.sides[1].qps[0].qpn();
        let engine = &mut net.sides[0].engine;
        engine
            .modify_to_rtr(now, qp, &RtrAttr::software(peer, far, Psn::new(0), EvProfileHandle::from_index(0)))
            .unwrap();
        let mut to_rts =
            |cc| engine.modify_to_rts(now, qp, &RtsAttr { cc: Some(cc), ..RtsAttr::software(Psn::new(0)) });
        let missing = ModifyError::Missing("congestion-control profile");
        assert_eq!(to_rts(CcProfileHandle::from_index(2)), Err(ModifyError::Full("congestion controller")));
        assert_eq!(to_rts(CcProfileHandle::from_index(99)), Err(missing));
        assert_eq!(other.index(), 2);
        assert_eq!(to_rts(CcProfileHandle::from_index(1)), Ok(()), "the controller of QP 1");
        assert_eq!(net.qpcc(0).users, 2);
    });
}

/// Parameters at the ends of their ranges are odd, not wrong: everything arrives.
//= CCU-007, NSCC-022 test
#[test]
fn profiles_at_their_limits_carry_data() {
    let least = NsccConfig {
        max_cwnd_bytes: 1,
        adjust_bytes: 1,
        adjust_period_ns: 1,
        target_delay_ns: 1,
        clear_delay_ns: 1,
        ..NsccConfig::new(1, 1, true)
    };
    let most = NsccConfig {
        target_delay_ns: u32::MAX,
        fi_bytes: u32::MAX,
        eta_bytes: u32::MAX,
        fi_scale_q16: u32::MAX,
        gamma_q16: 16 << 16,
        max_md_jump_q16: 1 << 16,
        qa_gate: 31,
        qa_threshold_ns: 1,
        adjust_bytes: u32::MAX,
        adjust_period_ns: u32::MAX,
        max_cwnd_bytes: u32::MAX,
        clear_delay_ns: u32::MAX,
        ..NsccConfig::new(10_000_000_000_000, 1_000_000_000, false)
    };
    let weather = Weather { loss: 20, reorder: 100, mark: 200, trim: 20, ..Weather::default() };
    for (seed, config) in [least, most].into_iter().enumerate() {
        let setup = Setup { trimming: Trimming::On, ..profiles(2, &[CcConfig::Nscc(config), fixed(0)]) };
        net(seed as u64, &setup, weather, |net| {
            for id in 0..2 {
                net.post(id, id as u64, id * 50_000, 50_000).unwrap();
            }
            assert!(net.run(20 * SECOND, |net| net.completed(2)), "{:?}", net.qpcc(0));
            net.assert_arrived(0, 100_000);
        });
    }
}
