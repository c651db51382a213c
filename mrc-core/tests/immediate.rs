//! Writes with immediate, windows that change under way, and responders that refuse for a time. Every run prints its
//! seed.

mod common;

use common::{Net, Setup, Weather, net};
use mrc_core::{
    Discard, EndpointConfig, ErrorCause, Instant, NoReceive, Operation, PlacementMode, PostError, QpState, RetryConfig,
    Status, Trimming,
};
use mrc_wire::NackReason;

const SECOND: u64 = 1_000_000_000;

fn receive(net: &mut Net<'_>, wr_id: u64) {
    let side = &mut net.sides[1];
    side.engine.post_recv(side.qps[0], wr_id).unwrap();
    net.drain(1);
}

//= WIMM-001, WIMM-003, WIMM-004, WIMM-005, WIMM-008, WIMM-009, INV-006, SEG-004, BTH-003, METH-002 test
#[test]
fn immediates_arrive_in_order_after_everything_before_them() {
    let storm = Weather {
        loss: 30,
        reorder: 300,
        duplicate: 50,
        corrupt: 10,
        trim: 50,
        mark: 50,
        busy: 100,
        ..Weather::default()
    };
    for seed in 0..40 {
        let trimming = if seed % 2 == 0 { Trimming::On } else { Trimming::Off };
        // The queue of completions is small, so that some wait in the QP; RQMSN wraps.
        let setup = Setup { trimming, srv6: seed % 3 == 0, msn: 0xFFFE, cq_depth: 2, ..Setup::default() };
        net(seed, &setup, storm, |net| {
            let lengths = [700, 0, 5_000, 1_024, 1, 2_048, 12_345, 0, 3, 9_000, 1_025, 64];
            let (mut end, mut immediates) = (0usize, Vec::new());
            for (id, &len) in lengths.iter().enumerate() {
                // The immediate says how many bytes must be there when it is seen.
                if id % 3 == 1 {
                    net.post(0, id as u64, end, len).unwrap();
                } else {
                    net.post_imm(id as u64, end, len, (end + len) as u32).unwrap();
                    immediates.push(((end + len) as u32, len as u32));
                }
                end += len;
            }
            for id in 0..immediates.len() as u64 {
                receive(net, 100 + id);
            }
            for seen in 0..immediates.len() {
                assert!(net.run(20 * SECOND, |net| net.sides[1].receives.len() > seen), "immediate {seen} is missing");
                let until = net.sides[1].receives[seen].imm.unwrap() as usize;
                assert!(net.sides[0].memory[..until] == net.sides[1].memory[..until], "announced before it arrived");
            }
            assert!(net.run(20 * SECOND, |net| net.completed(lengths.len())));
            net.assert_arrived(0, end);
            let receives = &net.sides[1].receives;
            let got: Vec<_> = receives.iter().map(|c| (c.imm.unwrap(), c.byte_len)).collect();
            assert_eq!(got, immediates);
            assert!(receives.iter().all(|c| c.status == Status::Success && c.operation == Operation::Receive));
            assert!(receives.iter().all(|c| c.solicited == c.imm.unwrap().is_multiple_of(2)));
            assert!(receives.iter().map(|c| c.wr_id).eq(100..100 + immediates.len() as u64));
            let kinds = net.sides[0].completions.iter().filter(|c| c.operation == Operation::WriteImm).count();
            assert_eq!(kinds, immediates.len());
            assert_eq!(net.sides[1].engine.stats().rqmsn_gaps, 0);
        });
    }
}

//= SND-006, QP-009 test
#[test]
fn the_limit_stalls_new_messages_and_not_the_connection() {
    let setup = Setup { max_wimm: 2, max_wimm_dest: 2, ..Setup::default() };
    net(1, &setup, Weather { dead: true, ..Weather::default() }, |net| {
        for id in 0..5 {
            net.post_imm(id, 0, 100, id as u32).unwrap();
            receive(net, id);
        }
        net.run(100_000, |_| false);
        let stats = *net.sides[0].engine.stats();
        assert_eq!(stats.tx_data, 2, "a third write with immediate left");
        net.run(2_000_000, |_| false);
        assert!(net.sides[0].engine.stats().retransmitted > 0, "retransmissions stalled too");
        net.weather = Weather::default();
        assert!(net.run(SECOND, |net| net.completed(5)));
        assert_eq!(net.sides[1].receives.len(), 5);
    });
    let setup = Setup { max_wimm: 0, ..setup };
    net(1, &setup, Weather::default(), |net| {
        assert_eq!(net.post_imm(0, 0, 100, 1), Err(PostError::NoWriteImm));
    });
}

//= WIMM-002 test
#[test]
fn more_immediates_than_offered_end_the_connection() {
    let unlike: fn(&mut EndpointConfig) = |cfg| cfg.wimm_nak_syndrome = 0x62;
    for (tweak, cause, last) in [
        (Setup::default().tweak, ErrorCause::RemoteInvalidRequest, Status::RemoteInvalidRequest),
        (unlike, ErrorCause::RemoteAccess, Status::RemoteAccess),
    ] {
        let setup = Setup { max_wimm: 8, max_wimm_dest: 2, tweak, ..Setup::default() };
        net(1, &setup, Weather::default(), |net| {
            // No receive request: the two accepted immediates stay where they are.
            for id in 0..4 {
                net.post_imm(id, 0, 100, id as u32).unwrap();
            }
            assert!(net.run(SECOND, |net| net.completed(4)));
            assert_eq!(net.sides[1].info(0).cause, Some(ErrorCause::RequestWimm));
            assert_eq!(net.sides[0].info(0).cause, Some(cause), "what the syndrome says");
            let status: Vec<_> = net.sides[0].completions.iter().map(|c| c.status).collect();
            assert_eq!(status, [Status::Flushed, Status::Flushed, last, Status::Flushed]);
        });
    }
}

/// One behind a gap takes the only place; the one that closes the gap needs none, where a receive request is posted.
//= WIMM-010 test
#[test]
fn an_immediate_in_order_needs_no_place_among_those_that_wait() {
    let setup = Setup { max_wimm: 8, max_wimm_dest: 1, ..Setup::default() };
    for (receives, delayed, len) in [(2, false, 100), (1, false, 100), (0, false, 100), (2, true, 0), (2, true, 100)] {
        let tweak: fn(&mut EndpointConfig) = match delayed {
            true => |cfg| cfg.placement = PlacementMode::Reported,
            false => |_| {},
        };
        let setup = Setup { tweak, ..setup.clone() };
        net(1, &setup, Weather::default(), |net| {
            (0..receives).for_each(|id| receive(net, id));
            (0..2).for_each(|id| net.post_imm(id, 200 * id as usize, len, id as u32).unwrap());
            let (first, second) = (net.wire.pop_first().unwrap().1, net.wire.pop_first().unwrap().1);
            let token = net.deliver(second.0, second.1, &second.2).unwrap();
            let now = net.now;
            if let (true, Some(token)) = (delayed, token) {
                net.sides[1].engine.placed(now, token).unwrap();
            }
            let taken = net.deliver(first.0, first.1, &first.2);
            net.drain(1);
            let got: Vec<_> = net.sides[1].receives.iter().map(|c| (c.imm, c.status)).collect();
            // Without a receive request, or with bytes on their way to memory, it has to wait as well.
            if receives == 0 || (delayed && len > 0) {
                assert_eq!(taken, Err(Discard::Nak), "{receives} receives");
                assert!(got.iter().all(|(_, status)| *status == Status::Flushed));
                assert_eq!(net.sides[1].info(0).cause, Some(ErrorCause::RequestWimm));
                return;
            }
            let in_order = [(Some(0), Status::Success), (Some(1), Status::Success)];
            assert_eq!(got, in_order[..receives as usize]);
            assert!(net.run(SECOND, |net| net.completed(receives as usize)));
            if receives == 1 {
                receive(net, 9);
            }
            assert!(net.run(SECOND, |net| net.completed(2) && net.sides[1].receives.len() == 2));
            assert_eq!(net.sides[1].engine.stats().rqmsn_gaps, 0);
        });
    }
}

//= WIMM-006, ACK-003 test
#[test]
fn without_a_receive_request_the_acknowledgement_waits() {
    let retry = RetryConfig { timeout: 4, linear: 2, exponential: 1 };
    let budget = retry.budget_ns().unwrap();
    net(1, &Setup { lenient: true, retry, ..Setup::default() }, Weather::default(), |net| {
        net.post(0, 0, 0, 3_000).unwrap();
        net.post_imm(1, 3_000, 3_000, 7).unwrap();
        net.post(0, 2, 6_000, 3_000).unwrap();
        // Long past the retry budget: the peer answers, it just does not acknowledge.
        net.run(20 * budget, |_| false);
        net.assert_arrived(0, 9_000);
        let done: Vec<_> = net.sides[0].completions.iter().map(|c| (c.wr_id, c.status)).collect();
        assert_eq!(done, [(0, Status::Success)], "only what precedes the immediate may complete");
        assert!(net.sides[1].engine.stats().receive_starved > 0);
        receive(net, 42);
        assert!(net.run(20 * budget + SECOND, |net| net.completed(3)));
        assert!(net.sides[0].completions.iter().all(|c| c.status == Status::Success));
        assert_eq!(net.sides[1].receives[0].wr_id, 42);
    });
    net(1, &Setup { retry, ..Setup::default() }, Weather::default(), |net| {
        net.post_imm(1, 0, 3_000, 7).unwrap();
        assert!(net.run(20 * budget, |net| net.completed(1)), "the strict budget ends");
        assert_eq!(net.sides[0].completions[0].status, Status::RetryExceeded);
    });
}

/// A fabric that loses packets leaves repetitions without an answer, now and then for ever. Only silence that lasts is for the budget.
//= WIMM-006, RETRY-002 test
#[test]
fn without_a_receive_request_losses_do_not_add_up_to_the_budget() {
    let retry = RetryConfig { timeout: 4, linear: 7, exponential: 3 };
    let budget = retry.budget_ns().unwrap();
    let lossy = Weather { loss: 200, ..Weather::default() };
    net(1, &Setup { lenient: true, retry, ..Setup::default() }, lossy, |net| {
        net.post_imm(1, 0, 3_000, 7).unwrap();
        net.run(40 * budget, |_| false);
        assert!(net.sides[0].completions.is_empty(), "{:?}", net.sides[0].completions);
        receive(net, 42);
        assert!(net.run(60 * budget, |net| net.completed(1)));
        assert_eq!(net.sides[0].completions[0].status, Status::Success);
        // Silence that lasts still ends it.
        net.post_imm(2, 0, 3_000, 8).unwrap();
        net.run(80 * budget, |_| false);
        assert!(!net.completed(2), "{:?}", net.sides[0].completions);
        net.weather.dead = true;
        assert!(net.run(84 * budget, |net| net.completed(2)), "a peer that is gone");
        assert_eq!(net.sides[0].completions[1].status, Status::RetryExceeded);
    });
}

//= WIMM-006 test
#[test]
fn without_a_receive_request_a_strict_responder_refuses() {
    net(1, &Setup { no_receive: NoReceive::Nak, ..Setup::default() }, Weather::default(), |net| {
        net.post(0, 0, 0, 3_000).unwrap();
        net.post_imm(1, 3_000, 3_000, 7).unwrap();
        assert!(net.run(SECOND, |net| net.completed(2)));
        let status: Vec<_> = net.sides[0].completions.iter().map(|c| c.status).collect();
        assert_eq!(status, [Status::Success, Status::RemoteOperation]);
        assert_eq!(net.sides[1].info(0).cause, Some(ErrorCause::RequestNoReceive));
    });
}

#[test]
fn receive_requests_are_flushed_in_error_and_refused_in_reset() {
    net(1, &Setup { cq_depth: 2, ..Setup::default() }, Weather::default(), |net| {
        for id in 0..5 {
            receive(net, id);
        }
        assert_eq!(net.sides[1].info(0).receives, 5);
        let (now, side) = (net.now, &mut net.sides[1]);
        let qp = side.qps[0];
        side.engine.modify_to_error(now, qp).unwrap();
        side.engine.post_recv(qp, 5).unwrap();
        net.drain(1);
        let side = &mut net.sides[1];
        let flushed: Vec<_> = side.receives.iter().map(|c| (c.wr_id, c.status)).collect();
        assert_eq!(flushed, (0..6).map(|id| (id, Status::Flushed)).collect::<Vec<_>>());
        side.engine.modify_to_reset(qp).unwrap();
        assert_eq!(side.engine.post_recv(qp, 6), Err(PostError::State(QpState::Reset)));
    });
}

//= DMPR-001, DMPR-002, DMPR-003, DMPR-004, CAP-003 test
#[test]
fn the_window_may_change_under_way() {
    let setup = Setup { dynamic_mpr: true, half: 1 << 21, mtu: 256, ..Setup::default() };
    net(1, &setup, Weather::default(), |net| {
        let len = 1 << 20;
        net.post(0, 0, 0, len).unwrap();
        net.run(10_000, |_| false);
        let qp = net.sides[1].qps[0];
        net.sides[1].engine.set_mpr(qp, 1).unwrap();
        // What was under way is taken; soon nothing beyond the new window leaves.
        net.run(net.now.as_nanos() + 20_000, |_| false);
        let most = |net: &mut Net<'_>, until: Instant| {
            let mut most = 0;
            net.run(until.as_nanos(), |net| {
                most = most.max(net.sides[0].info(0).outstanding);
                net.completed(1)
            });
            most
        };
        let narrow = most(net, net.now.after(40_000));
        assert!((1..=128).contains(&narrow), "{narrow} outstanding in a window of 128");
        net.sides[1].engine.set_mpr(qp, 8).unwrap();
        let wide = most(net, net.now.after(40_000));
        assert!(wide > 128, "the wider window is not used: {wide}");
        assert!(net.run(SECOND, |net| net.completed(1)));
        net.assert_arrived(0, len);
        let stats = net.sides[1].engine.stats();
        assert_eq!((stats.tx_nack, stats.discarded(mrc_core::Discard::OutOfWindow)), (0, 0), "the edge moved back");
    });
    net(1, &Setup::default(), Weather::default(), |net| {
        let qp = net.sides[1].qps[0];
        assert!(net.sides[1].engine.set_mpr(qp, 1).is_err(), "not negotiated");
    });
}

//= VAL-019 test
#[test]
fn refusals_for_want_of_resources_are_survived_and_failures_are_not() {
    for reason in [NackReason::NoBitmap, NackReason::NoPktBuffer, NackReason::NoResource] {
        net(1, &Setup::default(), Weather::default(), |net| {
            net.sides[1].engine.set_refusal(Some(reason));
            net.post(0, 0, 0, 20_000).unwrap();
            net.run(60_000, |_| false);
            let refused = net.sides[1].engine.stats().tx_nack;
            assert!(refused >= 20 && net.sides[1].memory.iter().take(20_000).all(|&byte| byte == 0));
            net.sides[1].engine.set_refusal(None);
            assert!(net.run(SECOND, |net| net.completed(1)));
            assert_eq!(net.sides[0].completions[0].status, Status::Success);
            net.assert_arrived(0, 20_000);
            assert_eq!(net.sides[0].engine.stats().ev_assumed_bad, 0, "a full responder is no fault of a path");
        });
    }
    net(1, &Setup::default(), Weather::default(), |net| {
        net.sides[1].engine.set_refusal(Some(NackReason::UnexpEvent));
        net.post(0, 0, 0, 500).unwrap();
        assert!(net.run(SECOND, |net| net.completed(1)));
        assert_eq!(net.sides[0].completions[0].status, Status::RemoteOperation);
        assert_eq!(net.sides[1].info(0).cause, Some(ErrorCause::RequestFailed));
    });
    net(1, &Setup::default(), Weather::default(), |net| {
        net.post(0, 0, 0, 500).unwrap();
        let token = net.deliver_next().unwrap();
        let now = net.now;
        net.sides[1].engine.place_failed(now, token).unwrap();
        net.drain(1);
        assert!(net.run(SECOND, |net| net.completed(1)));
        assert_eq!(net.sides[0].completions[0].status, Status::RemoteOperation);
    });
}
