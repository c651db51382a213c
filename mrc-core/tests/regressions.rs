//! Defects that the model-based tests and embedders found, each in its shortest form.

mod common;

use common::{Net, Setup, VA, Weather, net};
use mrc_core::cc::CcConfig;
use mrc_core::{
    Access, Discard, IcrcCheck, Instant, MAX_HEADER_LEN, MemRange, Pd, PortMask, PostError, QpState, RxMeta, SendWr,
    Status, Trimming,
};
use mrc_wire::{Body, NackReason, Rkey, WireConfig, parse_frame};

const SECOND: u64 = 1_000_000_000;

/// A write of `len` bytes from side 0; with a key of the caller's, with an immediate or without.
fn write(net: &Net<'_>, wr_id: u64, len: u32, key: u32, imm: Option<u32>) -> SendWr {
    let lkey = net.sides[0].key;
    let solicited = false;
    SendWr { wr_id, lkey, local_va: VA, len, remote_va: VA, rkey: Rkey(key), signaled: true, imm, solicited }
}

/// Posts without looking at completions.
fn post(net: &mut Net<'_>, wr: &SendWr) {
    let now = net.now;
    let side = &mut net.sides[0];
    side.engine.post_send(now, side.qps[0], wr).unwrap();
    net.transmit(0);
}

/// Frames go to and fro until there are none; no application takes completions.
fn exchange(net: &mut Net<'_>) {
    while let Some((_, (to, port, frame))) = net.wire.pop_first() {
        let meta = RxMeta { port, wire_len: frame.len(), icrc: IcrcCheck::Verify };
        let _ = net.sides[to].engine.handle_packet(net.now, meta, &frame);
        net.transmit(to);
    }
}

/// It slept for ever: its turn came when another one completed, and that waited for room in the queue.
//= SND-006 test
#[test]
fn a_held_immediate_leaves_when_completions_are_taken() {
    net(1, &Setup { max_wimm: 1, cq_depth: 1, ..Setup::default() }, Weather::default(), |net| {
        let key = net.sides[1].key;
        let far = &mut net.sides[1];
        for id in 0..2 {
            far.engine.post_recv(far.qps[0], id).unwrap();
        }
        for (id, imm) in [None, Some(1), Some(2)].into_iter().enumerate() {
            post(net, &write(net, id as u64, 100, key, imm));
        }
        exchange(net);
        assert_eq!(net.sides[0].engine.stats().tx_data, 2, "the second immediate waits for the first");
        let (now, side) = (net.now, &mut net.sides[0]);
        assert_eq!(side.engine.poll_completion(side.cq).map(|c| c.wr_id), Some(0));
        let mut headers = [0u8; MAX_HEADER_LEN];
        assert!(side.engine.poll_transmit(now, PortMask::ALL, &mut headers).is_some());
    });
}

/// It became "flushed" when the queue had no room at the moment of the failure.
//= TACK-006 test
#[test]
fn the_status_of_a_failure_waits_for_room_in_the_queue() {
    net(1, &Setup { cq_depth: 1, ..Setup::default() }, Weather::default(), |net| {
        let key = net.sides[1].key;
        for (id, key) in [key, !key, key].into_iter().enumerate() {
            post(net, &write(net, id as u64, 100, key, None));
        }
        exchange(net);
        let side = &mut net.sides[0];
        let status: Vec<_> =
            std::iter::from_fn(|| side.engine.poll_completion(side.cq)).map(|c| (c.wr_id, c.status)).collect();
        assert_eq!(status, [(0, Status::Success), (1, Status::RemoteAccess), (2, Status::Flushed)]);
    });
}

/// The second one drew a second NAK.
//= INV-004 test
#[test]
fn two_failed_placements_are_one_last_word() {
    net(1, &Setup::default(), Weather::default(), |net| {
        net.post(0, 0, 0, 2_000).unwrap();
        let tokens = [(); 2].map(|()| net.deliver_next().unwrap());
        let now = net.now;
        for token in tokens {
            net.sides[1].engine.place_failed(now, token).unwrap();
            net.drain(1);
        }
        assert_eq!((net.sides[1].engine.stats().tx_nak, net.sides[1].info(0).state), (1, QpState::Error));
    });
}

/// The responder counts in units of 256 bytes. What it had rounded up in advance was forgotten when nothing was
/// outstanding, and came back as bytes in flight that nobody would ever acknowledge.
//= NSCC-021, INV-005 test
#[test]
fn a_window_of_one_packet_opens_for_lost_packets() {
    let one = CcConfig::Fixed { window_bytes: 1 };
    let cases = (1..256).step_by(15).flat_map(|first| (5..45).step_by(4).map(move |us| (first, us)));
    for (first, refused_us) in cases {
        let setup = Setup { cc: vec![one], mtu: 256, ..Setup::default() };
        net(1, &setup, Weather::default(), |net| {
            net.post(0, 0, 0, first).unwrap();
            net.run(50_000, |_| false);
            assert!(net.completed(1));
            net.sides[1].engine.set_refusal(Some(NackReason::NoResource));
            net.post(0, 1, first, 2_000).unwrap();
            net.run(net.now.as_nanos() + refused_us * 1_000, |_| false);
            net.sides[1].engine.set_refusal(None);
            assert!(net.run(SECOND, |net| net.completed(2)), "stuck after {first} bytes, {refused_us} us");
            net.assert_arrived(0, first + 2_000);
        });
    }
}

/// The peer could not process a packet of the second request, SENT or LOST, while the first one was on its way: the second one
/// failed, the first one did not.
//= NACK-006 test
#[test]
fn a_failure_of_the_peer_ends_the_request_that_it_names() {
    for lost in [false, true] {
        net(1, &Setup::default(), Weather::default(), |net| {
            (0..3).for_each(|id| net.post(0, id, 200 * id as usize, 100).unwrap());
            let frames: Vec<_> = core::mem::take(&mut net.wire).into_values().collect();
            let (to, port, second) = &frames[1];
            if lost {
                net.sides[1].engine.set_refusal(Some(NackReason::NoResource));
                assert_eq!(net.deliver(*to, *port, second), Err(Discard::Refused));
                net.drain(1);
            }
            net.sides[1].engine.set_refusal(Some(NackReason::UnexpEvent));
            assert_eq!(net.deliver(*to, *port, second), Err(Discard::Refused));
            net.drain(1);
            assert!(net.run(SECOND, |net| net.completed(3)));
            assert_eq!(net.sides[0].engine.stats().lost_nack, u64::from(lost));
            let status: Vec<_> = net.sides[0].completions.iter().map(|c| (c.wr_id, c.status)).collect();
            assert_eq!(status, [(0, Status::Flushed), (1, Status::RemoteOperation), (2, Status::Flushed)]);
        });
    }
}

/// The last instant of all is one like others.
#[test]
fn the_end_of_time_ends_the_call() {
    net(1, &Setup::default(), Weather::default(), |net| {
        net.post(0, 0, 0, 1_024).unwrap();
        net.sides[0].engine.handle_timeout(Instant::FAR);
    });
}

/// As long as the length field allows, but for packets of 256 bytes: the longest message that the refusal names is accepted.
//= LEN-009 test
#[test]
fn the_longest_message_is_taken() {
    for mtu in [256, 512, 1024, 2048, 4096] {
        net(1, &Setup { mtu, ..Setup::default() }, Weather { dead: true, ..Weather::default() }, |net| {
            let side = &mut net.sides[0];
            let mr = side.engine.register_mr(Pd(0), MemRange { va: 0, len: 1 << 40 }, Access::default()).unwrap();
            let lkey = side.engine.key(mr).unwrap().0;
            let wr = |len: u64| SendWr { wr_id: 1, lkey, len: len as u32, signaled: true, ..SendWr::default() };
            let longest = side.engine.post_send(net.now, side.qps[0], &wr(u32::MAX.into()));
            if mtu > 256 {
                assert_eq!(longest, Ok(()), "MTU {mtu}");
                return;
            }
            assert_eq!(longest, Err(PostError::TooLong { max: 1 << 31 }));
            let too_long = side.engine.post_send(net.now, side.qps[0], &wr((1 << 31) + 1));
            assert_eq!(too_long, Err(PostError::TooLong { max: 1 << 31 }));
            assert_eq!(side.engine.post_send(net.now, side.qps[0], &wr(1 << 31)), Ok(()));
        });
    }
}

/// The frame cut behind TSETH, as a switch does it, with its `tsr` bit as given.
fn trimmed(mut frame: Vec<u8>, tsr: bool) -> Vec<u8> {
    let trimmed = WireConfig::default().dscp.trimmed;
    frame.truncate(14 + 40 + 8 + 12 + 8);
    frame[14] = 0x60 | trimmed >> 2;
    frame[15] = trimmed << 6 | frame[15] & 0x3F;
    frame[14 + 40 + 8 + 12 + 6] |= u8::from(tsr) << 7;
    frame
}

/// It reflected the timestamp of a trimmed packet as it came: the round trip had the time that the NACK waited.
//= TS-005, CAP-002 test
#[test]
fn the_answer_to_a_trimmed_packet_has_its_service_time() {
    const WAITED_NS: u64 = 50_000;
    for (svc_time, tsr, arrived_before) in
        [(false, false, false), (true, false, false), (true, true, false), (true, false, true)]
    {
        let setup = Setup { svc_time, trimming: Trimming::On, ..Setup::default() };
        net(1, &setup, Weather::default(), |net| {
            net.now = Instant::from_nanos(1_000_000);
            net.post(0, 0, 0, 100).unwrap();
            let (_, (to, port, frame)) = net.wire.pop_first().unwrap();
            let sent = (net.now.as_nanos() >> 7) as u16;
            net.now = net.now.after(4_096);
            if arrived_before {
                net.deliver(to, port, &frame).unwrap();
                net.drain(to);
                net.wire.clear();
            }
            net.deliver(to, port, &trimmed(frame, tsr)).unwrap();
            net.now = net.now.after(WAITED_NS);
            net.drain(to);
            let (_, (_, _, answer)) = net.wire.pop_first().unwrap();
            let reflected = match parse_frame(&answer, answer.len(), &WireConfig::default(), |_| true).unwrap().body {
                Body::Nack(nack) if !arrived_before => nack.timestamp,
                Body::Sack(sack) if arrived_before => sack.timestamp,
                other => panic!("{other:?}"),
            };
            let ticks = ((1_004_096 + WAITED_NS) / 128 - 1_004_096 / 128) as u16;
            let added = if svc_time && !tsr { ticks } else { 0 };
            assert_eq!(reflected, sent + added, "{svc_time} {tsr} {arrived_before}");
        });
    }
}
