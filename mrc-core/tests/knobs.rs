//! Numbers that wrap under way, and knobs that no conformance script can show.

mod common;

use common::{PLANES, Setup, VA, Weather, net};
use mrc_core::{EndpointConfig, PortMask, PostError, SendWr, Status, Trimming};
use mrc_wire::{Body, PortNum, Rkey, WireConfig, parse_frame};

const SECOND: u64 = 1_000_000_000;

/// More than 2^16 messages, and timestamps that wrap every 8.4 ms: PSN, MSN, RQMSN and timestamps come round, and nobody
/// notices.
//= METH-001, METH-002, TS-001, RTT-001, GEN-003 test
#[test]
fn every_number_comes_round() {
    const MESSAGES: u64 = 70_000;
    let setup = Setup { psn: 0xFF_8000, msn: 0x8000, mtu: 256, cq_depth: 32, ..Setup::default() };
    net(1, &setup, Weather::default(), |net| {
        let (qp, mut posted) = (net.sides[1].qps[0], 0u64);
        while posted < MESSAGES {
            let batch = (posted..MESSAGES).take(16);
            for id in batch.clone() {
                net.sides[1].engine.post_recv(qp, id).unwrap();
                net.post_imm(id, 0, 8, id as u32).unwrap();
            }
            posted += batch.clone().count() as u64;
            let frame = net.wire.values().rfind(|(to, ..)| *to == 1).unwrap();
            let parsed = parse_frame(&frame.2, frame.2.len(), &WireConfig::default(), |_| true).unwrap();
            let Body::Write { meth, tseth, .. } = parsed.body else { panic!("{:?}", parsed.body) };
            let number = 0x8000u16.wrapping_add(posted as u16).wrapping_sub(1);
            assert_eq!((meth.msn.0, meth.rqmsn.0), (number, number));
            assert_eq!(parsed.bth.psn.value(), (0xFF_8000 + posted as u32 - 1) & 0xFF_FFFF);
            assert_eq!(tseth.unwrap().timestamp, (net.now.as_nanos() >> 7) as u16);
            assert!(net.run(u64::MAX, |net| net.sides[0].completions.len() as u64 == posted));
            net.drain(1);
        }
        assert!(net.now.as_nanos() > 4 << 23, "timestamps wrapped {} times", net.now.as_nanos() >> 23);
        let (a, b) = (&net.sides[0], &net.sides[1]);
        assert!(a.completions.iter().zip(0..).all(|(c, id)| c.wr_id == id && c.status == Status::Success));
        assert!(b.receives.iter().zip(0..).all(|(c, id)| c.imm == Some(id)) && b.receives.len() as u64 == MESSAGES);
        assert_eq!((a.engine.stats().retransmitted, b.engine.stats().rqmsn_gaps), (0, 0));
        // A wrapped timestamp would have made a round trip shorter than the wire.
        assert_eq!(a.info(0).base_rtt_ns, 8_000);
    });
}

/// The same in bad weather, where loss is inferred and timed across the wraps.
//= LOSS-001, RSP-006, TIMER-001 test
#[test]
fn numbers_come_round_in_bad_weather() {
    let weather = Weather { loss: 20, reorder: 200, duplicate: 30, mark: 20, ..Weather::default() };
    for seed in 0..4 {
        let setup = Setup { psn: 0xFF_FE00, msn: 0xFF80, mtu: 256, ..Setup::default() };
        net(seed, &setup, weather, |net| {
            for round in 0..40 {
                for id in 0..16 {
                    net.post(0, round * 16 + id, id as usize * 3_000, 1 + (id as usize * 701) % 3_000).unwrap();
                }
                assert!(net.run(u64::MAX, |net| net.completed(round as usize * 16 + 16)), "round {round}");
            }
            assert!(net.sides[0].completions.iter().all(|c| c.status == Status::Success));
            assert!(net.sides[0].engine.stats().retransmitted > 0);
        });
    }
}

//= LEN-006 test
#[test]
fn zero_length_messages_can_be_refused() {
    let setup = Setup { tweak: |cfg| cfg.reject_zero_len = true, ..Setup::default() };
    net(1, &setup, Weather::default(), |net| {
        assert_eq!(net.post(0, 0, 0, 0), Err(PostError::Empty));
        net.post(0, 0, 0, 1).unwrap();
        assert!(net.run(SECOND, |net| net.completed(1)));
    });
}

/// A refusal of a packet that is not the oldest: charged to the budget only by the knob.
//= RETRY-001 test
#[test]
fn every_retried_packet_can_be_charged() {
    let retries = |tweak: fn(&mut mrc_core::EndpointConfig)| {
        let setup = Setup { trimming: Trimming::On, tweak, ..Setup::default() };
        net(1, &setup, Weather { trim: 1_000, ..Weather::default() }, |net| {
            net.post(0, 0, 0, 2_000).unwrap();
            // The first of two packets gets lost, the second one is trimmed.
            assert_eq!(net.wire.len(), 2);
            net.wire.pop_first();
            net.run(9_000, |_| false);
            assert_eq!(net.sides[0].engine.stats().lost_nack, 1);
            net.sides[0].info(0).retries
        })
    };
    assert_eq!((retries(|_| {}), retries(|cfg| cfg.retry_strict = true)), (0, 1));
}

//= ERTH-003 test
#[test]
fn port_masks_can_begin_at_bit_zero() {
    for (zero_based, want) in [(false, 0b10), (true, 0b01)] {
        let tweak: fn(&mut mrc_core::EndpointConfig) =
            if zero_based { |cfg| cfg.port_mask_zero_based = true } else { |_| {} };
        net(1, &Setup { tweak, ..Setup::default() }, Weather::default(), |net| {
            let last = PortNum::from_plane(PLANES - 1);
            net.sides[0].engine.set_port(net.now, last, false);
            net.drain(0);
            let (_, (_, port, frame)) = net.wire.first_key_value().unwrap();
            let parsed = parse_frame(frame, frame.len(), &WireConfig::default(), |_| true).unwrap();
            let Body::EndpointRequest(update) = parsed.body else { panic!("{:?}", parsed.body) };
            assert_eq!((update.port_status_mask, *port), (want, PortNum::from_plane(0)));
            // The peer reads it the same way: what it sends avoids the plane.
            net.run(net.now.as_nanos() + 100_000, |_| false);
            net.post_from(1, 0, 0, 0, 100_000).unwrap();
            assert!(net.wire.values().all(|(to, port, _)| *to == 1 || *port == PortNum::from_plane(0)));
            assert!(net.run(SECOND, |net| !net.sides[1].completions.is_empty()));
            assert_eq!(net.sides[1].engine.ports_up(), PortMask::first(PLANES));
        });
    }
}

/// Without `ask_each_message` the last packet that may leave asks, and every message completes all the same. Where SACKs
/// complete requests each message asks in any case.
//= AREQ-001 test
#[test]
fn messages_that_others_follow_need_not_ask() {
    let dry: fn(&mut EndpointConfig) = |cfg| cfg.ask_each_message = false;
    let on_sack: fn(&mut EndpointConfig) = |cfg| (cfg.ask_each_message, cfg.complete_on_sack) = (false, true);
    for (tweak, want) in [(dry, [false, false, true]), (on_sack, [true; 3])] {
        net(1, &Setup { tweak, ..Setup::default() }, Weather::default(), |net| {
            let (lkey, rkey) = (net.sides[0].key, Rkey(net.sides[1].key));
            for wr_id in 0..3 {
                let wr = SendWr {
                    wr_id,
                    lkey,
                    local_va: VA,
                    len: 64,
                    remote_va: VA,
                    rkey,
                    signaled: true,
                    ..SendWr::default()
                };
                let side = &mut net.sides[0];
                side.engine.post_send(net.now, side.qps[0], &wr).unwrap();
            }
            net.transmit(0);
            let mut asked: Vec<_> = net
                .wire
                .values()
                .map(|(_, _, bytes)| parse_frame(bytes, bytes.len(), &WireConfig::default(), |_| true).unwrap().bth)
                .map(|bth| (bth.psn.value(), bth.ack_req))
                .collect();
            asked.sort_unstable();
            assert_eq!(asked.iter().map(|(_, asks)| *asks).collect::<Vec<_>>(), want);
            assert!(net.run(SECOND, |net| net.sides[0].completions.len() == 3));
            assert!(net.sides[0].completions.iter().all(|c| c.status == Status::Success));
        });
    }
}
