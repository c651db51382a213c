//! Placements that end late, in any order, or not at all: what waits for them, and what does not.

mod common;
#[path = "../examples/late_dma.rs"]
#[allow(dead_code, reason = "its main is the example's")]
mod late_dma;

use common::{Setup, Weather, net};
use mrc_core::{Discard, PlaceError, PlaceToken, PlacementMode, QpState, RtrAttr, RtsAttr, Status};
use mrc_wire::Psn;

const SECOND: u64 = 1_000_000_000;

fn reported() -> Setup {
    Setup { tweak: |cfg| cfg.placement = PlacementMode::Reported, ..Setup::default() }
}

/// The example of the documentation does what it says.
#[test]
fn the_example_of_a_late_dma_engine() {
    assert_eq!(
        late_dma::run(),
        [
            "20 transfers open, 0 packets outstanding",
            "0 left: completions [1, 1], bytes the same: true",
            "write 2: Some(RemoteOperation), as the peer cannot execute it: true",
        ]
    );
}

/// SACKs leave at once, the Transport ACK with the last placement before it.
//= ACK-003, SACK-001 test
#[test]
fn a_transport_ack_waits_for_the_oldest_placement_and_a_sack_for_none() {
    net(1, &reported(), Weather::default(), |net| {
        net.post(0, 1, 0, 3_000).unwrap();
        net.post(0, 2, 3_000, 1_000).unwrap();
        let tokens = [(); 4].map(|()| net.deliver_next().unwrap());
        net.drain(1);
        while !net.wire.is_empty() {
            net.deliver_next();
        }
        net.drain(0);
        assert_eq!((net.sides[0].info(0).outstanding, net.sides[0].completions.len()), (0, 0));
        assert_eq!(net.sides[1].info(0).placements, 4);
        // PSN 1 of the first message is missing: what is behind it does not help.
        let mut completed = vec![];
        for nth in [3, 0, 2, 1] {
            let now = net.now;
            net.sides[1].engine.placed(now, tokens[nth]).unwrap();
            net.drain(1);
            while !net.wire.is_empty() {
                net.deliver_next();
            }
            net.drain(0);
            completed.push(net.sides[0].completions.len());
        }
        assert_eq!(completed, [0, 0, 0, 2]);
        assert_eq!(net.sides[1].engine.stats().tx_ack, 2, "one for each time that the front moved");
    });
}

/// A message is in the count of a Transport ACK when it is in memory.
//= ACK-002, RSP-008 test
#[test]
fn an_ack_counts_the_messages_that_are_in_memory() {
    net(1, &reported(), Weather::default(), |net| {
        for n in 0..3 {
            net.post(0, n, n as usize * 100, 100).unwrap();
        }
        let tokens = [(); 3].map(|()| net.deliver_next().unwrap());
        net.drain(1);
        net.wire.clear();
        for (nth, token) in tokens.into_iter().enumerate() {
            let now = net.now;
            net.sides[1].engine.placed(now, token).unwrap();
            net.drain(1);
            let (_, (_, _, bytes)) = net.wire.pop_first().unwrap();
            let frame = mrc_wire::parse_frame(&bytes, bytes.len(), &mrc_wire::WireConfig::default(), |_| true).unwrap();
            let mrc_wire::Body::Ack(aeth) = frame.body else { panic!("{:?}", frame.body) };
            assert_eq!((aeth.msn, frame.bth.psn), (nth as u32 + 1, Psn::new(0xFF_FFF0).add(nth as u32)));
        }
    });
}

/// Without reports a write with immediate is complete when its frame is taken. Its receive succeeded though the bytes were never
/// placed, and so did those behind it.
//= VAL-019, WIMM-004, INV-006 test
#[test]
fn a_receive_fails_with_a_placement_before_it() {
    for (failed, succeed) in [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2)] {
        net(1, &Setup::default(), Weather::default(), |net| {
            let qp = net.sides[1].qps[0];
            (7..12).for_each(|id| net.sides[1].engine.post_recv(qp, id).unwrap());
            for (id, imm) in [(0, 20), (2, 21), (4, 22)] {
                // Two packets, two packets, one.
                net.post_imm(id, 2_000 * id as usize, if id < 4 { 2_000 } else { 500 }, imm).unwrap();
            }
            let tokens = [(); 5].map(|()| net.deliver_next().unwrap());
            let now = net.now;
            net.sides[1].engine.place_failed(now, tokens[failed]).unwrap();
            net.sides[1].engine.place_failed(now, tokens[failed]).unwrap();
            net.drain(1);
            let receives: Vec<_> =
                net.sides[1].receives.iter().map(|c| (c.wr_id, c.status, c.imm, c.byte_len, c.first_psn)).collect();
            let expected: Vec<_> =
                [(7, 20, 2_000, 1), (8, 21, 2_000, 3), (9, 22, 500, 4), (10, 0, 0, 0), (11, 0, 0, 0)]
                    .into_iter()
                    .enumerate()
                    .map(|(n, (id, imm, len, last))| match n < succeed {
                        true => (id, Status::Success, Some(imm), len, Psn::new(0xFF_FFF0).add(last)),
                        false => (id, Status::Flushed, None, 0, Psn::new(0)),
                    })
                    .collect();
            assert_eq!(receives, expected, "placement {failed} failed");
        });
    }
}

//= VAL-019 test
#[test]
fn tokens_are_taken_once_and_only_those_given_out() {
    net(1, &reported(), Weather::default(), |net| {
        net.post(0, 1, 0, 2_000).unwrap();
        let [first, second] = [(); 2].map(|()| net.deliver_next().unwrap());
        let (now, qp, peer) = (net.now, net.sides[1].qps[0], net.sides[0].qps[0].qpn());
        let (peer_handle, profile) = (net.sides[1].peer.unwrap(), net.sides[1].profile.unwrap());
        let engine = &mut net.sides[1].engine;
        assert_eq!(engine.placed(now, second), Ok(()));
        assert_eq!(engine.placed(now, second), Err(PlaceError::NotOpen), "twice");
        assert_eq!(engine.place_failed(now, second), Err(PlaceError::NotOpen), "it did not fail");
        for ahead in [1, 64, 1 << 10, 1 << 23] {
            let unknown = PlaceToken::from_bits(second.to_bits() & !0xFF_FFFF | (second.to_bits() + ahead) & 0xFF_FFFF);
            assert_eq!(engine.placed(now, unknown), Err(PlaceError::NotOpen), "{ahead} ahead");
        }
        for bits in [0, u64::MAX, first.to_bits() ^ 1 << 24, first.to_bits() ^ 1 << 48] {
            assert_eq!(engine.placed(now, PlaceToken::from_bits(bits)), Err(PlaceError::Stale), "{bits:#x}");
        }
        assert_eq!(engine.qp_info(qp).unwrap().state, QpState::Rts);
        // The same QP lives again with the same PSNs: the DMA engine is late by a life.
        engine.modify_to_reset(qp).unwrap();
        assert_eq!(engine.placed(now, first), Err(PlaceError::Stale));
        engine.modify_to_init(qp).unwrap();
        let rtr = RtrAttr::software(peer_handle, peer, Psn::new(0xFF_FFF0), profile);
        engine.modify_to_rtr(now, qp, &rtr).unwrap();
        assert_eq!(engine.place_failed(now, first), Err(PlaceError::Stale));
        assert_eq!(engine.qp_info(qp).unwrap().state, QpState::Rtr);
        // Or by several.
        for life in 2..40 {
            engine.modify_to_reset(qp).unwrap();
            engine.modify_to_init(qp).unwrap();
            engine.modify_to_rtr(now, qp, &rtr).unwrap();
            assert_eq!(engine.placed(now, first), Err(PlaceError::Stale), "late by {life} lives");
        }
        engine.modify_to_rts(now, qp, &RtsAttr::software(Psn::new(1))).unwrap();
        engine.destroy_qp(qp).unwrap();
        assert_eq!(engine.placed(now, first), Err(PlaceError::Stale));
    });
}

/// Where placements end before the next poll, nobody waits for reports.
#[test]
fn reports_that_nobody_asked_for_are_refused() {
    net(1, &Setup::default(), Weather::default(), |net| {
        net.post(0, 1, 0, 500).unwrap();
        let token = net.deliver_next().unwrap();
        let now = net.now;
        assert_eq!(net.sides[1].engine.placed(now, token), Err(PlaceError::NotReported));
        assert!(net.run(SECOND, |net| net.completed(1)));
        assert_eq!(net.sides[0].completions[0].status, Status::Success);
    });
}

/// One payload that stays away stops the packets a window behind it, and nothing is lost by that.
//= VAL-019, NACK-001 test
#[test]
fn a_placement_that_stays_open_for_a_window_refuses_what_lies_beyond() {
    net(1, &Setup { mtu: 256, ..reported() }, Weather::default(), |net| {
        net.post(0, 1, 0, 200_000).unwrap();
        net.post(0, 2, 200_000, 62_000).unwrap();
        let mut open = vec![net.deliver_next().unwrap()];
        let mut refused = 0;
        for _ in 0..3_000 {
            if let Some(token) = net.deliver_next() {
                let now = net.now;
                net.sides[1].engine.placed(now, token).unwrap();
            }
            refused = net.discarded(1, Discard::Refused);
            net.drain(0);
            net.drain(1);
        }
        assert!(refused > 0, "1 024 PSNs are in the storage, 1 025 are sent");
        assert_eq!((net.sides[1].info(0).placements, net.sides[0].completions.len()), (1, 0));
        let now = net.now;
        net.sides[1].engine.placed(now, open.pop().unwrap()).unwrap();
        for _ in 0..20_000 {
            net.drain(0);
            net.drain(1);
            if let Some(token) = net.deliver_next() {
                let now = net.now;
                net.sides[1].engine.placed(now, token).unwrap();
            } else if net.wire.is_empty() {
                let due = net.sides.iter().filter_map(|side| side.engine.next_timeout()).min().unwrap();
                net.now = net.now.max(due);
                let now = net.now;
                net.sides.iter_mut().for_each(|side| side.engine.handle_timeout(now));
            }
            if net.completed(2) {
                break;
            }
        }
        let status: Vec<_> = net.sides[0].completions.iter().map(|done| done.status).collect();
        assert_eq!(status, [Status::Success; 2]);
        net.assert_arrived(0, 262_000);
    });
}

/// A QP that failed says no more, however many of its payloads land later.
//= INV-004 test
#[test]
fn payloads_of_a_failed_queue_pair_land_in_silence() {
    net(1, &reported(), Weather::default(), |net| {
        net.post(0, 1, 0, 3_000).unwrap();
        let tokens = [(); 3].map(|()| net.deliver_next().unwrap());
        let now = net.now;
        let engine = &mut net.sides[1].engine;
        engine.place_failed(now, tokens[1]).unwrap();
        for token in [tokens[0], tokens[2]] {
            assert_eq!(engine.placed(now, token), Ok(()));
        }
        net.drain(1);
        let stats = net.sides[1].engine.stats();
        assert_eq!((stats.tx_nak, stats.tx_ack), (1, 0));
        assert_eq!((net.sides[1].info(0).state, net.sides[1].info(0).placements), (QpState::Error, 0));
        assert!(net.run(SECOND, |net| net.completed(1)));
        assert_eq!(net.sides[0].completions[0].status, Status::RemoteOperation);
    });
}
