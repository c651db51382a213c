//! Two connected endpoints: transfers with and without faults of the network, paths that fail and heal, errors, back-pressure, silence.
//! Every run prints its seed; the same seed gives the same run, which the tests check.

mod common;

use common::{Net, Setup, VA, Weather, net};
use mrc_core::cc::CcConfig;
use mrc_core::{
    Access, Discard, ErrorCause, Event, IcrcCheck, Instant, MAX_HEADER_LEN, PortMask, PostError, QpInit, QpState,
    RxMeta, SendWr, Status, Trimming,
};
use mrc_wire::{Body, Ev, PortNum, Rkey, WireConfig, icrc, parse_frame};

/// Writes messages of `lengths`, one behind the other in memory, over the QPs by turns; both sides at once when `both`.
/// Returns a digest of all frames.
fn transfer(seed: u64, weather: Weather, setup: &Setup, lengths: &[usize], both: bool) -> u64 {
    net(seed, setup, weather, |net| {
        let senders = if both { 0..2 } else { 0..1 };
        let mut offset = 0;
        for (id, &len) in lengths.iter().enumerate() {
            for from in senders.clone() {
                while net.post_from(from, id % setup.qps, id as u64, offset, len) == Err(PostError::Full) {
                    assert!(net.run(u64::MAX, |net| net.sides[from].completions.len() > id - 16));
                }
            }
            offset += len;
        }
        for from in senders {
            let all = |net: &Net<'_>| net.sides[from].completions.len() == lengths.len();
            assert!(net.run(setup.born.as_nanos() + 20_000_000_000, all), "{:?}", net.sides[from].engine.stats());
            net.assert_arrived(from, offset);
            assert!(net.sides[from].completions.iter().all(|c| c.status == Status::Success));
            for qp in 0..setup.qps {
                let qpn = net.sides[from].qps[qp].qpn();
                let ids = net.sides[from].completions.iter().filter(|c| c.qp == qpn).map(|c| c.wr_id);
                assert!(ids.is_sorted(), "completions out of order");
                // Both sides count the same bytes, each packet once however often it left.
                let (acked, received) =
                    (net.sides[from].info(qp).acked_bytes, net.sides[1 - from].info(qp).received_bytes);
                assert_eq!(acked, received.into());
            }
        }
        net.digest
    })
}

const LENGTHS: [usize; 13] = [0, 1, 3, 1023, 1024, 1025, 4096, 9_999, 40_000, 1, 77_777, 0, 5];

//= SEG-001, SEG-002, SEG-003, LEN-001, LEN-002, LEN-003, LEN-005, LEN-006, RETH-001, RETH-002, TACK-002 test
//= ACK-001, REQ-001, RSP-001, RBYT-001, INV-002 test
#[test]
fn every_length_arrives_on_every_qp() {
    for (qps, psn, srv6) in [(1, 0xFF_FFF0, false), (4, 0, true), (3, 0x7F_FFFF, false)] {
        // Message numbers wrap on the way.
        let setup = Setup { qps, psn, srv6, msn: 0xFFFE, ..Setup::default() };
        transfer(1, Weather::default(), &setup, &LENGTHS, true);
    }
    transfer(3, Weather::default(), &Setup { v4: true, ..Setup::default() }, &LENGTHS, true);
    let lengths = [4095, 4096, 4097, 0, 1 << 20, 1, 3];
    for (qps, mtu, srv6) in [(1, 4096, true), (2, 4096, false), (3, 2048, false), (2, 256, true)] {
        let setup = Setup { qps, mtu, srv6, half: 5 << 18, ..Setup::default() };
        transfer(2, Weather::default(), &setup, &lengths, false);
    }
}

/// Nothing depends on when the engine's clock began: the same run long after it sends the same frames. The difference
/// is a multiple of everything that wraps, so that timestamps are equal, too.
//= VAL-010 test
#[test]
fn a_run_is_the_same_at_any_time_of_day() {
    let weather = Weather { loss: 30, reorder: 100, duplicate: 10, mark: 50, trim: 20, busy: 50, ..Weather::default() };
    for seed in 0..12 {
        let [first, second] = [1_000_000, (1 << 40) + 1_000_000].map(|born| {
            let setup = Setup {
                qps: 1 + seed as usize % 3,
                trimming: if seed % 4 == 3 { Trimming::On } else { Trimming::Off },
                tail_probe_ns: if seed % 2 == 0 { 0 } else { 40_000 },
                keepalive_ns: if seed % 3 == 0 { [0, 0] } else { [50_000, 70_000] },
                tell_ports: seed % 5 == 0,
                born: Instant::from_nanos(born),
                ..Setup::default()
            };
            transfer(seed, weather, &setup, &LENGTHS, seed % 2 == 0)
        });
        assert_eq!(first, second, "seed {seed}");
    }
}

//= SND-001, SND-002, SRX-002, SRX-004, SRX-006, LOSS-002, TIMER-004, RSP-002, RSP-003, RSP-010, BTH-008 test
//= VAL-010, MODEL-002, ICRC-009 test
#[test]
fn bad_weather_costs_time_not_bytes() {
    let storm =
        Weather { loss: 20, reorder: 100, duplicate: 30, corrupt: 10, mark: 50, busy: 200, ..Weather::default() };
    for seed in 0..50 {
        let qps = 1 + seed as usize % 3;
        let trimming = if seed % 5 == 4 { Trimming::On } else { Trimming::Off };
        let (v4, tell_ports) = (seed % 6 == 0, seed % 3 == 0);
        let setup = Setup { qps, trimming, srv6: seed % 2 == 1, v4, tell_ports, ..Setup::default() };
        let weather = Weather { trim: 50, ..storm };
        let first = transfer(seed, weather, &setup, &LENGTHS, seed % 4 < 2);
        assert_eq!(first, transfer(seed, weather, &setup, &LENGTHS, seed % 4 < 2), "seed {seed} does not replay");
    }
    for (seed, weather) in [
        Weather { loss: 10, ..Weather::default() },
        Weather { loss: 50, ..Weather::default() },
        Weather { reorder: 500, ..Weather::default() },
        Weather { duplicate: 500, ..Weather::default() },
        Weather { corrupt: 50, ..Weather::default() },
        Weather { busy: 900, ..Weather::default() },
    ]
    .into_iter()
    .enumerate()
    {
        transfer(100 + seed as u64, weather, &Setup::default(), &LENGTHS, true);
    }
}

//= NACK-001, NACK-002, DSCP-003, TRIM-005, TRIM-006, TRIM-010, SND-004 test
#[test]
fn trimmed_packets_come_back_by_nack() {
    let setup = Setup { trimming: Trimming::On, ..Setup::default() };
    let weather = Weather { trim: 100, ..Weather::default() };
    for seed in 0..10 {
        transfer(seed, weather, &Setup { srv6: seed % 2 == 0, ..setup.clone() }, &LENGTHS, true);
    }
    net(1, &setup, weather, |net| {
        net.post(0, 1, 0, 100_000).unwrap();
        assert!(net.run(1_000_000_000, |net| net.completed(1)));
        let (a, b) = (net.sides[0].engine.stats(), net.sides[1].engine.stats());
        assert!(a.lost_nack > 0 && a.lost_nack == a.rx_nack && b.tx_nack == a.rx_nack, "{a:?}");
        assert_eq!((a.rx_nack_trimmed, b.rx_trimmed, b.rx_marked), (a.rx_nack, b.tx_nack, 0));
        assert!(a.ev_skipped > 0 && a.lost_timeout == 0);
        assert_eq!(net.same_path_again, 0, "a trimmed packet took the same path again");
    });
}

#[test]
fn marks_are_counted_where_they_arrive() {
    net(2, &Setup::default(), Weather { mark: 1_000, ..Weather::default() }, |net| {
        net.post(0, 1, 0, 100_000).unwrap();
        assert!(net.run(1_000_000_000, |net| net.completed(1)));
        let b = net.sides[1].engine.stats();
        assert_eq!((b.rx_marked, b.rx_trimmed), (b.rx_data, 0));
        assert!(net.sides[0].engine.stats().ev_skipped > 0);
    });
}

//= SND-004, TIMER-004, PROBE-001, SACK-005 test
#[test]
fn a_black_hole_is_found_and_forgiven() {
    let weather = Weather { black_hole: Some(Ev(0x103)), ..Weather::default() };
    net(3, &Setup::default(), weather, |net| {
        let bad = |net: &Net<'_>| net.sides[0].info(0).evs.assumed_bad;
        let mut messages = 0;
        while bad(net) == 0 && messages < 200 {
            messages += 1;
            net.post(0, messages, 0, 60_000).unwrap();
            assert!(net.run(u64::MAX, |net| net.completed(messages as usize)));
        }
        assert_eq!(bad(net), 1);
        let lost = net.sides[0].engine.stats().retransmitted;
        net.post(0, 0, 0, 60_000).unwrap();
        assert!(net.run(u64::MAX, |net| net.completed(messages as usize + 1)));
        assert_eq!(net.sides[0].engine.stats().retransmitted, lost, "the dead path was used again");
        net.weather.black_hole = None;
        let until = net.now.as_nanos() + 2_000_000_000;
        assert!(net.run(until, |net| bad(net) == 0), "the healed path stays retired");
        assert!(net.sides[0].engine.stats().ev_restored >= 1);
    });
}

#[test]
fn a_plane_may_leave_and_return() {
    net(4, &Setup::default(), Weather::default(), |net| {
        let port = PortNum::from_plane(1);
        net.post(0, 1, 0, 200_000).unwrap();
        net.run(30_000, |_| false);
        net.cut = PortMask::NONE.with(port);
        for side in 0..2 {
            net.sides[side].engine.set_port(net.now, port, false);
        }
        assert!(net.run(u64::MAX, |net| net.completed(1)));
        net.assert_arrived(0, 200_000);
        let used = net.sides[0].engine.stats().ports[1].tx_packets;
        net.post(0, 2, 0, 100_000).unwrap();
        assert!(net.run(u64::MAX, |net| net.completed(2)));
        assert_eq!(net.sides[0].engine.stats().ports[1].tx_packets, used);
        net.cut = PortMask::NONE;
        for side in 0..2 {
            net.sides[side].engine.set_port(net.now, port, true);
        }
        // The peers tell each other.
        net.run(net.now.as_nanos() + 8_000, |_| false);
        net.post(0, 3, 0, 100_000).unwrap();
        assert!(net.run(u64::MAX, |net| net.completed(3)));
        assert!(net.sides[0].engine.stats().ports[1].tx_packets > used + 20);
    });
}

//= REV-006, REV-007 test
#[test]
fn a_plane_that_dies_unannounced_is_avoided_until_it_heals() {
    for seed in 0..20 {
        net(seed, &Setup { srv6: true, ..Setup::default() }, Weather::default(), |net| {
            net.cut = PortMask::NONE.with(PortNum::from_plane(1));
            let mut posted = 0;
            while net.sides[0].info(0).evs.assumed_bad < 8 && posted < 100 {
                posted += 1;
                net.post(0, posted, 0, 100_000).unwrap();
                assert!(net.run(u64::MAX, |net| net.completed(posted as usize)), "{posted}");
            }
            // Half of the answers die as well: EVs of the living plane whose last SACK was lost are suspected with them.
            assert!(net.sides[0].info(0).evs.assumed_bad >= 8);
            net.assert_arrived(0, 100_000);
            net.cut = PortMask::NONE;
            let until = net.now.as_nanos() + 5_000_000_000;
            assert!(net.run(until, |net| net.sides[0].info(0).evs.assumed_bad == 0), "{:?}", net.sides[0].info(0).evs);
            assert!(net.sides[0].completions.iter().all(|c| c.status == Status::Success));
        });
    }
}

/// 255 units are the most that the wire can say: 32 640 packets in flight, and not one more.
//= QP-005, SND-002 test
#[test]
fn the_widest_window_is_used_to_its_end() {
    let half = 40_000 * 256;
    let cc = vec![CcConfig::Fixed { window_bytes: u32::MAX }];
    let setup = Setup { mpr: 255, mtu: 256, half, cc, ..Setup::default() };
    for loss in [0, 20] {
        net(3, &setup, Weather { loss, ..Weather::default() }, |net| {
            net.post(0, 1, 0, half).unwrap();
            let mut most = 0;
            assert!(net.run(u64::MAX, |net| {
                most = most.max(net.sides[0].info(0).outstanding);
                net.completed(1)
            }));
            assert_eq!(most, 255 * 128);
            assert_eq!(net.sides[0].completions[0].status, Status::Success);
            net.assert_arrived(0, half);
        });
    }
}

/// A queue pair with room for few packets in flight sends no more, and everything else is as with a whole window.
//= SND-002 test
#[test]
fn few_records_bound_what_is_in_flight() {
    let storm = Weather { loss: 30, reorder: 100, duplicate: 30, mark: 50, trim: 30, ..Weather::default() };
    for (seed, tx_packets) in [8, 16, 64].into_iter().enumerate() {
        let setup = Setup { qps: 3, tx_packets, trimming: Trimming::On, ..Setup::default() };
        transfer(seed as u64, storm, &setup, &LENGTHS, true);
        let cc = vec![CcConfig::Fixed { window_bytes: u32::MAX }];
        net(7, &Setup { cc, tx_packets, ..Setup::default() }, Weather::default(), |net| {
            net.post(0, 1, 0, 200_000).unwrap();
            let mut most = 0;
            assert!(net.run(u64::MAX, |net| {
                most = most.max(net.sides[0].info(0).outstanding);
                net.completed(1)
            }));
            assert_eq!(most as usize, tx_packets);
            net.assert_arrived(0, 200_000);
        });
    }
}

//= RETRY-003, TIMER-002, TACK-005 test
#[test]
fn silence_ends_in_an_error_that_explains_itself() {
    net(5, &Setup { keepalive_ns: [0, 5_000_000], ..Setup::default() }, Weather::default(), |net| {
        net.post(0, 1, 0, 5_000).unwrap();
        assert!(net.run(u64::MAX, |net| net.completed(1)));
        net.weather.dead = true;
        let start = net.now;
        net.post(0, 2, 0, 5_000).unwrap();
        net.post(0, 3, 0, 5_000).unwrap();
        assert!(net.run(u64::MAX, |net| net.completed(3)));
        let budget = Setup::default().retry.budget_ns().unwrap();
        assert!(net.now.since(start) < budget * 3 / 2, "{} of {budget}", net.now.since(start));
        let [_, failed, flushed] = net.sides[0].completions[..] else { panic!() };
        assert_eq!((failed.wr_id, failed.status), (2, Status::RetryExceeded));
        assert!(failed.retries > 12 && failed.last_path.is_some() && failed.since_ack_ns > budget / 2, "{failed:?}");
        assert_eq!((flushed.wr_id, flushed.status), (3, Status::Flushed));
        // The side that only receives finds out by itself.
        let (qp, silent) = (net.sides[1].qps[0].qpn(), ErrorCause::PeerSilent);
        let until = net.now.as_nanos() + 3 * budget;
        assert!(net.run(until, |net| net.sides[1].events.contains(&Event::QpError { qp, cause: silent })));
    });
}

//= VAL-017, VAL-018, AETH-005, RETH-003 test
#[test]
fn memory_that_is_not_offered_is_not_written() {
    let cases: [(&str, Access, u64, u32); 4] = [
        ("key", Access::REMOTE_WRITE, 0, 1 << 31),
        ("end", Access::REMOTE_WRITE, 2 * Setup::default().half as u64 - 10, 0),
        ("start", Access::REMOTE_WRITE, u64::MAX, 0),
        ("rights", Access::LOCAL, 0, 0),
    ];
    for (what, access, offset, key_bit) in cases {
        net(6, &Setup { access, ..Setup::default() }, Weather::default(), |net| {
            let (to, key) = (VA.wrapping_add(offset), net.sides[1].key ^ key_bit);
            net.post_raw(0, 0, 1, VA, 5_000, to, key).unwrap();
            assert!(net.run(u64::MAX, |net| net.completed(1)), "{what}");
            assert_eq!(net.sides[0].completions[0].status, Status::RemoteAccess, "{what}");
            net.assert_arrived(0, 0);
            for (which, cause) in [(0, ErrorCause::RemoteAccess), (1, ErrorCause::RequestAccess)] {
                let info = net.sides[which].info(0);
                assert_eq!((info.state, info.cause), (QpState::Error, Some(cause)), "{what}");
            }
        });
    }
}

//= VAL-017 test
#[test]
fn a_queue_pair_that_refuses_writes_refuses_those_without_bytes_too() {
    for len in [5_000, 0] {
        net(6, &Setup::default(), Weather::default(), |net| {
            let side = &mut net.sides[1];
            side.engine.set_qp_access(side.qps[0], Access::LOCAL).unwrap();
            net.post(0, 1, 0, len).unwrap();
            assert!(net.run(u64::MAX, |net| net.completed(1)), "{len}");
            assert_eq!(net.sides[0].completions[0].status, Status::RemoteAccess, "{len}");
            net.assert_arrived(0, 0);
            assert_eq!(net.sides[1].info(0).cause, Some(ErrorCause::RequestAccess), "{len}");
        });
    }
    net(6, &Setup::default(), Weather::default(), |net| {
        let side = &mut net.sides[1];
        for access in [Access::LOCAL, Access::REMOTE_WRITE] {
            side.engine.set_qp_access(side.qps[0], access).unwrap();
        }
        net.post(0, 1, 0, 5_000).unwrap();
        assert!(net.run(u64::MAX, |net| net.completed(1)));
        assert_eq!(net.sides[0].completions[0].status, Status::Success);
    });
}

/// Writes like those before it are taken at a glance; the permission that they had may be gone.
//= VAL-017 test
#[test]
fn a_queue_pair_that_refuses_writes_from_now_on_refuses_those_like_the_last_one() {
    for len in [100, 0] {
        net(6, &Setup::default(), Weather::default(), |net| {
            for n in 1..=3 {
                net.post(0, 1, 0, len).unwrap();
                assert!(net.run(u64::MAX, |net| net.completed(n)), "{len}");
            }
            assert!(net.sides[0].completions.iter().all(|done| done.status == Status::Success), "{len}");
            let side = &mut net.sides[1];
            side.engine.set_qp_access(side.qps[0], Access::LOCAL).unwrap();
            net.post(0, 1, 0, len).unwrap();
            assert!(net.run(u64::MAX, |net| net.completed(4)), "{len}");
            assert_eq!(net.sides[0].completions[3].status, Status::RemoteAccess, "{len}");
        });
    }
}

#[test]
fn a_region_that_disappears_fails_its_requests() {
    net(7, &Setup::default(), Weather { dead: true, ..Weather::default() }, |net| {
        net.post(0, 1, 0, 100_000).unwrap();
        let mr = net.sides[0].mr;
        net.sides[0].engine.deregister_mr(mr).unwrap();
        assert!(net.run(u64::MAX, |net| net.completed(1)));
        assert_eq!(net.sides[0].completions[0].status, Status::LocalProtection);
    });
}

/// However far the request has come, no payload of a region is named that the application may have freed.
//= ERR-003 test
#[test]
fn a_region_that_disappears_in_the_middle_of_a_request_fails_it() {
    for sent in [0, 1, 2, 5, 96, 97] {
        net(7, &Setup::default(), Weather::default(), |net| {
            let side = &mut net.sides[0];
            let wr = SendWr {
                wr_id: 1,
                lkey: side.key,
                local_va: VA,
                len: 100_000,
                remote_va: VA,
                signaled: true,
                ..SendWr::default()
            };
            side.engine.post_send(net.now, side.qps[0], &wr).unwrap();
            let mut headers = [0; MAX_HEADER_LEN];
            for packet in 0..sent {
                let frame = side.engine.poll_transmit(net.now, PortMask::ALL, &mut headers).unwrap();
                let payload = frame.payload.unwrap();
                assert_eq!((payload.mr, payload.offset), (side.mr, 1_024 * packet));
            }
            side.engine.deregister_mr(side.mr).unwrap();
            assert!(side.engine.poll_transmit(net.now, PortMask::ALL, &mut headers).is_none(), "behind {sent} packets");
            let failed = side.engine.poll_completion(side.cq).expect("the request has ended");
            assert_eq!((failed.wr_id, failed.status), (1, Status::LocalProtection), "behind {sent} packets");
            assert_eq!(side.info(0).state, QpState::Error);
        });
    }
}

/// What the driver found of the ICRC holds, however the frame is read: the first write is read in full, the second one by the head that
/// its QP expects, the third one repeats the second.
//= VAL-010 test
#[test]
fn a_frame_whose_icrc_the_driver_found_wrong_is_discarded() {
    net(8, &Setup::default(), Weather::default(), |net| {
        // All leave before the first one arrives: between a round trip and the next the engine may owe a probe of a return path,
        // and then it reads no frame as a repetition.
        let lengths = [100, 200, 200, 200];
        lengths.into_iter().for_each(|len| net.post(0, 1, 0, len).unwrap());
        for n in 1..=lengths.len() {
            let (_, (to, port, frame)) = net.wire.pop_first().unwrap();
            assert_eq!(to, 1, "write {n}");
            let mut given = |icrc, frame: &[u8]| {
                let meta = RxMeta { port, wire_len: frame.len(), icrc };
                net.sides[1].engine.handle_packet(net.now, meta, frame)
            };
            let mut broken = frame.clone();
            *broken.last_mut().unwrap() ^= 1;
            assert_eq!(given(IcrcCheck::Invalid, &frame), Err(Discard::Icrc), "write {n}");
            assert_eq!(given(IcrcCheck::Verify, &broken), Err(Discard::Icrc), "write {n}");
            assert!(given(IcrcCheck::Valid, &broken).is_ok(), "write {n}");
        }
        assert!(net.run(u64::MAX, |net| net.completed(lengths.len())));
    });
}

//= VAL-010, VAL-011, VAL-013, IP6-007 test
#[test]
fn strangers_are_counted_by_reason() {
    net(8, &Setup::default(), Weather::default(), |net| {
        net.post(0, 1, 0, 100).unwrap();
        let (_, (to, port, good)) = net.wire.pop_first().unwrap();
        let patched = |at: usize, value: u8| {
            let mut frame = good.clone();
            frame[at] = value;
            let end = frame.len() - 4;
            let crc = icrc::compute(&frame[14..end]).unwrap();
            frame[end..].copy_from_slice(&crc);
            frame
        };
        let cases = [
            (patched(37, 9), Discard::Peer),   // source address
            (patched(53, 9), Discard::L3Dst),  // destination address
            (patched(57, 0), Discard::UdpBad), // UDP port
            (patched(62, 0x0A), Discard::Opcode),
            (patched(63, 0x01), Discard::Tver),
            (patched(65, 0x01), Discard::Pkey),
            (patched(67, 0xEE), Discard::Qpn),
            (good[..good.len() - 30].to_vec(), Discard::L3Len),
            (good[..20].to_vec(), Discard::L3Bad),
            (
                {
                    let mut bad = good.clone();
                    *bad.last_mut().unwrap() ^= 1;
                    bad
                },
                Discard::Icrc,
            ),
        ];
        for (frame, why) in cases {
            let before = net.discarded(1, why);
            assert_eq!(net.deliver(to, port, &frame), Err(why));
            assert_eq!(net.discarded(1, why), before + 1, "{why}");
        }
        for len in 0..good.len() {
            let why = net.deliver(to, port, &good[..len]).unwrap_err();
            assert!(matches!(why, Discard::L3Bad | Discard::L3Len), "{len} bytes: {why}");
        }
        net.assert_arrived(0, 0);
        assert!(net.deliver(to, port, &good).is_ok());
        assert!(net.run(u64::MAX, |net| net.completed(1)));
    });
}

#[test]
fn full_queues_hold_back_and_lose_nothing() {
    net(9, &Setup { qps: 2, ..Setup::default() }, Weather::default(), |net| {
        for id in 0..16 {
            net.post(0, id, 0, 10).unwrap();
        }
        // Nothing completed yet: the send queue is full, and stays usable.
        assert_eq!(net.post(0, 99, 0, 10), Err(PostError::Full));
        // Sixteen completions, a completion queue of eight: the rest waits in the QP until it is polled.
        let cq = net.sides[0].cq;
        while let Some((_, (to, port, frame))) = net.wire.pop_first() {
            let meta = RxMeta { port, wire_len: frame.len(), icrc: IcrcCheck::Verify };
            let _ = net.sides[to].engine.handle_packet(net.now, meta, &frame);
            net.transmit(to);
        }
        let ids: Vec<u64> = std::iter::from_fn(|| net.sides[0].engine.poll_completion(cq)).map(|c| c.wr_id).collect();
        assert_eq!(ids, (0..16).collect::<Vec<_>>());
    });
}

/// What waits for a completion queue moves into it when half of it is free, as many as there is room for: one by one each would
/// cost a turn of its QP.
#[test]
fn a_full_completion_queue_is_refilled_by_halves() {
    net(9, &Setup { cq_depth: 4, ..Setup::default() }, Weather::default(), |net| {
        for id in 0..12 {
            net.post(0, id, 0, 10).unwrap();
        }
        while let Some((_, (to, port, frame))) = net.wire.pop_first() {
            net.deliver(to, port, &frame).unwrap();
            net.transmit(to);
        }
        let (cq, qp) = (net.sides[0].cq, net.sides[0].qps[0]);
        let mut waiting = Vec::new();
        for id in 0..12 {
            assert_eq!(net.sides[0].engine.poll_completion(cq).map(|c| c.wr_id), Some(id));
            waiting.push(net.sides[0].engine.qp_info(qp).unwrap().queued);
        }
        assert_eq!(waiting, [8, 6, 6, 4, 4, 2, 2, 0, 0, 0, 0, 0]);
        assert!(net.sides[0].engine.poll_completion(cq).is_none());
    });
}

/// A held completion comes when its own queue has room, whatever other queues do.
#[test]
fn a_full_completion_queue_does_not_hold_back_another() {
    net(11, &Setup { cq_depth: 1, ..Setup::default() }, Weather::default(), |net| {
        let side = &mut net.sides[0];
        let other = side.engine.create_cq().unwrap();
        let init = QpInit { pd: mrc_core::Pd(0), send_cq: other, recv_cq: other };
        let neighbour = side.engine.create_qp(&init).unwrap();
        side.engine.modify_to_error(net.now, neighbour).unwrap();
        let own = side.qps[0];
        side.engine.modify_to_error(net.now, own).unwrap();
        // Both QPs flush what is posted; `other` is never polled until the end.
        let key = side.key;
        let wr = |wr_id| SendWr {
            wr_id,
            lkey: key,
            local_va: VA,
            len: 1,
            remote_va: 0,
            rkey: Rkey(0),
            signaled: true,
            ..SendWr::default()
        };
        for id in 0..4 {
            side.engine.post_send(net.now, neighbour, &wr(10 + id)).unwrap();
            side.engine.post_send(net.now, own, &wr(id)).unwrap();
        }
        let cq = side.cq;
        let mut polled =
            |cq| -> Vec<u64> { std::iter::from_fn(|| side.engine.poll_completion(cq)).map(|c| c.wr_id).collect() };
        assert_eq!(polled(cq), [0, 1, 2, 3]);
        assert_eq!(polled(other), [10, 11, 12, 13]);
    });
}

/// QPs that turn out to have nothing to send do not use up the turn of one that has.
//= TACK-004 test
#[test]
fn a_full_completion_queue_does_not_hide_a_lost_acknowledgement() {
    net(21, &Setup { cq_depth: 1, ..Setup::default() }, Weather::default(), |net| {
        let cq = net.sides[0].cq;
        let exchange = |net: &mut Net<'_>, id: u64, lose_ack: bool| {
            let (at, key) = (VA + id * 100, net.sides[1].key);
            let lkey = net.sides[0].key;
            let wr =
                SendWr { wr_id: id, lkey, local_va: at, len: 100, remote_va: at, rkey: Rkey(key), ..SendWr::default() };
            let qp = net.sides[0].qps[0];
            net.sides[0].engine.post_send(net.now, qp, &SendWr { signaled: true, ..wr }).unwrap();
            net.transmit(0);
            while let Some(((at, _), (to, port, frame))) = net.wire.pop_first() {
                net.now = Instant::from_nanos(at);
                let parsed = parse_frame(&frame, frame.len(), &WireConfig::default(), |_| true).unwrap();
                if !(lose_ack && matches!(parsed.body, Body::Ack(_))) {
                    net.deliver(to, port, &frame).unwrap();
                    net.transmit(to);
                }
            }
        };
        // One completion fills the queue, the next waits in the QP, the third request is not acknowledged.
        exchange(net, 0, false);
        exchange(net, 1, false);
        exchange(net, 2, true);
        let ids: Vec<u64> = std::iter::from_fn(|| net.sides[0].engine.poll_completion(cq)).map(|c| c.wr_id).collect();
        assert_eq!(ids, [0, 1]);
        assert!(net.run(1_000_000_000, |net| net.completed(1)));
        assert_eq!(net.sides[0].completions[0].wr_id, 2);
        assert_eq!(net.sides[0].engine.stats().tail_resent, 1);
    });
}

#[test]
fn a_queue_of_dead_qps_does_not_hide_a_live_one() {
    net(12, &Setup { qps: 20, ..Setup::default() }, Weather::default(), |net| {
        let (now, side) = (net.now, &mut net.sides[0]);
        let key = side.key;
        let wr = SendWr {
            wr_id: 1,
            lkey: key,
            local_va: VA,
            len: 1,
            remote_va: VA,
            rkey: Rkey(key),
            signaled: true,
            ..SendWr::default()
        };
        for &qp in &side.qps {
            side.engine.post_send(now, qp, &wr).unwrap();
        }
        for &qp in &side.qps[..19] {
            side.engine.modify_to_error(now, qp).unwrap();
        }
        let mut headers = [0u8; MAX_HEADER_LEN];
        assert!(side.engine.poll_transmit(now, PortMask::ALL, &mut headers).is_some());
        assert_eq!(side.engine.poll_transmit(now, PortMask::ALL, &mut headers), None);
    });
}

#[test]
fn an_idle_endpoint_is_quiet() {
    net(10, &Setup { qps: 512, cq_depth: 512, ..Setup::default() }, Weather::default(), |net| {
        for qp in 0..512 {
            net.post(qp, qp as u64, qp * 100, 100).unwrap();
        }
        assert!(net.run(u64::MAX, |net| net.completed(512)));
        net.assert_arrived(0, 51_200);
        net.run(net.now.as_nanos() + 50_000_000, |_| false);
        let before = net.tx_packets();
        let mut turns = 0;
        net.run(net.now.as_nanos() + 10_000_000_000, |_| {
            turns += 1;
            false
        });
        assert_eq!(net.tx_packets(), before);
        assert!(turns < 10, "{turns} turns with nothing to do");
        for side in &mut net.sides {
            let mut headers = [0u8; MAX_HEADER_LEN];
            assert!(side.engine.next_timeout().is_none_or(|at| at > net.now));
            assert_eq!(side.engine.poll_transmit(net.now, PortMask::ALL, &mut headers), None);
        }
    });
}

/// Two messages arrived; the Transport ACK of the first gets through late, that of the second dies. Nothing else is under
/// way that could bring the second one up again.
//= TACK-004 test
#[test]
fn a_lost_transport_ack_is_asked_for_behind_one_that_arrived() {
    net(11, &Setup::default(), Weather::default(), |net| {
        for id in 0..2 {
            net.post(0, id, id as usize * 100, 100).unwrap();
        }
        let mut acks = vec![];
        while let Some((_, (to, port, bytes))) = net.wire.pop_first() {
            let frame = parse_frame(&bytes, bytes.len(), &WireConfig::default(), |_| true).unwrap();
            if matches!(frame.body, Body::Ack(_)) {
                acks.push((to, port, bytes));
                continue;
            }
            net.deliver(to, port, &bytes).unwrap();
            net.drain(to);
        }
        assert_eq!(acks.len(), 2, "one acknowledgement for each message");
        let (to, port, bytes) = acks.swap_remove(0);
        net.deliver(to, port, &bytes).unwrap();
        net.drain(to);
        assert_eq!(net.sides[0].completions.len(), 1);
        assert_eq!(net.sides[0].info(0).outstanding, 0);
        assert!(net.run(1_000_000_000, |net| net.completed(2)), "the second write never ends");
        assert_eq!(net.sides[0].engine.stats().tail_resent, 1);
    });
}

/// A queue pair that is reset while it owes an acknowledgement keeps none of those that others owe.
//= QP-001, INV-004 test
#[test]
fn a_reset_queue_pair_leaves_the_answers_of_others_alone() {
    for reset in 0..3 {
        net(1, &Setup { qps: 3, ..Setup::default() }, Weather::default(), |net| {
            (0..3).for_each(|qp| net.post(qp, qp as u64, 1_000 * qp, 1_000).unwrap());
            for _ in 0..3 {
                net.deliver_next().unwrap();
            }
            let qp = net.sides[1].qps[reset];
            net.sides[1].engine.modify_to_reset(qp).unwrap();
            assert!(net.run(1_000_000_000, |net| net.completed(2)));
            let stats = net.sides[0].engine.stats();
            assert_eq!((stats.retransmitted, stats.lost_timeout), (0, 0));
            let others: Vec<_> = (0..3).filter(|&id| id != reset as u64).collect();
            assert_eq!(net.sides[0].completions.iter().map(|done| done.wr_id).collect::<Vec<_>>(), others);
        });
    }
}
