//! Bursts: [`Endpoint::transmit`] fills a sink with the same frames, in the same order, as one `poll_transmit` after
//! the other would. [`Endpoint::receive`] makes of a source what one `handle_packet` after the other would. This holds
//! whatever the sink's room, the free ports and the fate of the frames.

mod common;

use std::cell::Cell;

use common::{Net, Setup, VA, Weather, net};
use mrc_core::cc::{CcConfig, NsccConfig};
use mrc_core::path::{HopperConfig, Selector};
use mrc_core::{
    Discard, EndpointConfig, FrameSink, FrameSource, IcrcCheck, Instant, MAX_HEADER_LEN, PortMask, QpState, Received,
    Rng, RxMeta, SendWr, Transmit,
};
use mrc_wire::srv6::usid_shift;
use mrc_wire::{Body, PortNum, Rkey, TsethRepr, WireConfig, parse_frame};

/// Room for some frames, and the ports that are free for each.
struct Sink {
    ports: Vec<PortMask>,
    headers: [u8; MAX_HEADER_LEN],
    frames: Vec<(Transmit, Vec<u8>)>,
}

impl FrameSink for Sink {
    fn ports(&self) -> PortMask {
        self.ports.get(self.frames.len()).copied().unwrap_or(PortMask::NONE)
    }

    fn headers(&mut self) -> &mut [u8; MAX_HEADER_LEN] {
        &mut self.headers
    }

    fn push(&mut self, transmit: Transmit) {
        assert!(self.ports().contains(transmit.port), "sent through a port without a frame");
        self.frames.push((transmit, self.headers[..transmit.header_len].to_vec()));
    }
}

/// Up to as many frames as there are sets of ports, one call for each.
fn one_by_one(net: &mut Net<'_>, side: usize, now: Instant, ports: &[PortMask]) -> Vec<(Transmit, Vec<u8>)> {
    let mut headers = [0; MAX_HEADER_LEN];
    let mut frames = Vec::new();
    for &free in ports {
        let Some(transmit) = net.sides[side].engine.poll_transmit(now, free, &mut headers) else { break };
        frames.push((transmit, headers[..transmit.header_len].to_vec()));
    }
    frames
}

fn in_bursts(net: &mut Net<'_>, side: usize, now: Instant, ports: &[PortMask]) -> Vec<(Transmit, Vec<u8>)> {
    let mut sink = Sink { ports: ports.to_vec(), headers: [0; MAX_HEADER_LEN], frames: Vec::new() };
    net.sides[side].engine.transmit(now, &mut sink);
    sink.frames
}

/// A frame as it arrives, whole.
type Arrival = (RxMeta, Vec<u8>);

fn arrival((transmit, headers): &(Transmit, Vec<u8>), icrc: IcrcCheck, marked: bool) -> Arrival {
    let mut frame = headers.clone();
    if transmit.l3_offset > 14
        && let Some(dst) = frame[38..54].first_chunk()
    {
        let dst = usid_shift(dst);
        frame[38..54].copy_from_slice(&dst);
    }
    if marked {
        frame[15] |= 0x30;
    }
    frame.resize(transmit.frame_len(), 0);
    (RxMeta { port: transmit.port, wire_len: transmit.frame_len(), icrc }, frame)
}

/// What happens to a burst on its way: losses, copies, marks, damage, and packets that others overtake.
fn weather(frames: &[(Transmit, Vec<u8>)], rng: &mut Rng) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    for frame in frames {
        let copies = if rng.below(40) == 0 { rng.below(3) } else { 1 };
        for _ in 0..copies {
            let icrc = if rng.below(60) == 0 { IcrcCheck::Invalid } else { IcrcCheck::Valid };
            let mut arrival = arrival(frame, icrc, rng.below(20) == 0);
            if rng.below(60) == 0 {
                // To somebody else: the second byte of the outermost destination.
                arrival.1[39] ^= 1;
            }
            arrivals.push(arrival);
        }
    }
    for _ in 0..arrivals.len() / 8 {
        let at = rng.below(arrivals.len() as u32) as usize;
        let behind = (at + rng.below(6) as usize).min(arrivals.len() - 1);
        arrivals.swap(at, behind);
    }
    arrivals
}

type Results = Vec<Result<Received, Discard>>;

fn take_one_by_one(net: &mut Net<'_>, to: usize, now: Instant, arrivals: &[Arrival]) -> Results {
    arrivals.iter().map(|(meta, frame)| net.sides[to].engine.handle_packet(now, *meta, frame)).collect()
}

struct Source<'a> {
    arrivals: std::slice::Iter<'a, Arrival>,
    results: Results,
    /// Frames that the engine looked at ahead.
    peeked: Cell<usize>,
}

impl FrameSource for Source<'_> {
    fn next(&mut self) -> Option<(RxMeta, &[u8])> {
        self.arrivals.next().map(|(meta, frame)| (*meta, &frame[..]))
    }

    fn peek(&self, ahead: usize) -> Option<&[u8]> {
        let (_, frame) = self.arrivals.as_slice().get(ahead)?;
        self.peeked.set(self.peeked.get() + 1);
        Some(frame)
    }

    fn done(&mut self, result: Result<Received, Discard>) {
        self.results.push(result);
    }
}

fn take_in_bursts(net: &mut Net<'_>, to: usize, now: Instant, arrivals: &[Arrival]) -> Results {
    let mut source = Source { arrivals: arrivals.iter(), results: Vec::new(), peeked: Cell::new(0) };
    net.sides[to].engine.receive(now, &mut source);
    let many = net.sides[to].qps.len() >= 256;
    assert_eq!(source.peeked.get(), if many { arrivals.len() } else { 0 }, "every frame is read ahead once");
    source.results
}

fn post(net: &mut Net<'_>, side: usize, qp: usize, now: Instant, len: u32, imm: Option<u32>) -> bool {
    let (lkey, rkey) = (net.sides[side].key, Rkey(net.sides[1 - side].key));
    let wr = SendWr { lkey, local_va: VA, len, remote_va: VA, rkey, signaled: true, imm, ..SendWr::default() };
    let side = &mut net.sides[side];
    side.engine.post_send(now, side.qps[qp], &wr).is_ok()
}

/// Returns what both sides have to say.
fn let_time_pass(net: &mut Net<'_>, now: Instant) -> String {
    let mut said = String::new();
    for side in &mut net.sides {
        side.engine.handle_timeout(now);
        while let Some(completion) = side.engine.poll_completion(side.cq) {
            said += &format!("{completion:?}\n");
        }
        while let Some(event) = side.engine.poll_event() {
            said += &format!("{event:?}\n");
        }
    }
    said
}

/// Two pairs of endpoints alike: one polled frame by frame, one in bursts.
fn alike(seed: u64, setup: &Setup) -> u64 {
    net(seed, setup, Weather::default(), |single| {
        net(seed, setup, Weather::default(), |burst| {
            let mut rng = Rng::new(seed);
            let (mut now, mut sent) = (Instant::from_nanos(1_000), 0);
            // The last frame of each burst on its way to a side: a copy of it may come much later.
            let mut stray: [Option<Arrival>; 2] = [None, None];
            for step in 0..400 {
                now = now.after(u64::from(rng.below(4_000)));
                let (side, qp) = (rng.below(2) as usize, rng.below(setup.qps as u32) as usize);
                let most = if rng.below(4) == 0 { 3_000 } else { 60_000 };
                let (mut len, mut count) = (rng.below(most), 1);
                if rng.below(4) == 0 {
                    // Small requests alike, as far as there is room, then one that may differ.
                    (len, count) = (rng.below(100), 1 + rng.below(12));
                }
                for nth in 0..count {
                    let imm = (rng.below(8) == 0).then_some(step);
                    let len = if nth > 0 && nth + 1 == count { len + rng.below(2) } else { len };
                    assert_eq!(
                        post(single, side, qp, now, len, imm),
                        post(burst, side, qp, now, len, imm),
                        "seed {seed} step {step}"
                    );
                }
                assert_eq!(let_time_pass(burst, now), let_time_pass(single, now), "seed {seed} step {step}");
                let room = [1, 2, 7, 40][rng.below(4) as usize];
                let ports: Vec<_> = (0..room)
                    .map(|_| {
                        let busy = PortNum::from_plane(rng.below(2) as u8);
                        if rng.below(10) == 0 { PortMask::ALL.without(busy) } else { PortMask::ALL }
                    })
                    .collect();
                let from = rng.below(2) as usize;
                let frames = one_by_one(single, from, now, &ports);
                assert_eq!(in_bursts(burst, from, now, &ports), frames, "seed {seed} step {step}");
                sent += frames.len() as u64;
                let mut arrivals = weather(&frames, &mut rng);
                if rng.below(4) == 0
                    && let Some(copy) = stray[from].take()
                {
                    arrivals.insert(rng.below(arrivals.len().min(3) as u32 + 1) as usize, copy);
                }
                stray[from] = arrivals.last().cloned();
                let results = take_one_by_one(single, 1 - from, now, &arrivals);
                assert_eq!(take_in_bursts(burst, 1 - from, now, &arrivals), results, "seed {seed} step {step}");
            }
            for (a, b) in single.sides.iter().zip(&burst.sides) {
                assert_eq!(format!("{:?}", a.engine.stats()), format!("{:?}", b.engine.stats()), "seed {seed}");
            }
            sent
        })
    })
}

//= SCHED-001, SCHED-002, SND-002, AREQ-001, VAL-010 test
#[test]
fn a_burst_is_the_frames_of_single_polls() {
    let mut sent = 0;
    for seed in 0..64 {
        let fixed = |packets: u32| CcConfig::Fixed { window_bytes: packets * 1_112 };
        let windows = [vec![], vec![fixed(20)], vec![CcConfig::None], vec![fixed(6), fixed(9), fixed(20)]];
        let setup = Setup {
            qps: if seed % 2 == 0 { 1 } else { 3 },
            srv6: seed % 3 > 0,
            cc: windows[seed as usize % 4].clone(),
            mpr: if seed % 5 == 0 { 1 } else { 8 },
            rts: if seed % 7 == 0 { |rts| rts.selector = Selector::Hopper(HopperConfig::default()) } else { |_| {} },
            tweak: match seed / 2 % 4 {
                0 => |cfg| cfg.complete_on_sack = true,
                1 => |cfg| {
                    (cfg.turn_bytes, cfg.tack_within_message) = (16_384, false);
                    (cfg.ask_each_message, cfg.merge_sacks) = (false, true);
                },
                2 => |cfg| cfg.turn_bytes = 2_500,
                _ => |_| {},
            },
            ..Setup::default()
        };
        sent += alike(seed, &setup);
    }
    assert!(sent > 64 * 1_000, "{sent}");
}

/// With NSCC, too, whose `crowds` decides for each packet whether it asks for an acknowledgement and how long the next one waits.
//= NSCC-027, AREQ-001, SCHED-001 test
#[test]
fn a_burst_of_a_crowd_is_the_frames_of_single_polls() {
    let mut sent = 0;
    for seed in 0..32 {
        let max_cwnd_bytes = [1_112, 33_400, 120_000][seed as usize % 3];
        let crowds = seed % 4 > 0;
        let cc = NsccConfig { crowds, max_cwnd_bytes, ..NsccConfig::new(100_000_000_000, 10_000, false) };
        let setup = Setup {
            qps: if seed % 2 == 0 { 1 } else { 3 },
            cc: vec![CcConfig::Nscc(cc)],
            tweak: |cfg| (cfg.turn_bytes, cfg.ask_each_message, cfg.merge_sacks) = (65_536, false, true),
            ..Setup::default()
        };
        sent += alike(seed, &setup);
    }
    assert!(sent > 32 * 500, "{sent}");
}

/// A write that was posted alone is sent once, whatever the ring of requests held before.
//= SND-002, AREQ-001 test
#[test]
fn an_old_request_like_the_last_one_is_not_sent_again() {
    let tweak: fn(&mut EndpointConfig) = |cfg| (cfg.turn_bytes, cfg.ask_each_message) = (16_384, false);
    net(5, &Setup { tweak, cc: vec![CcConfig::None], ..Setup::default() }, Weather::default(), |net| {
        let mut now = Instant::from_nanos(1_000);
        for round in 0..50 {
            assert!(post(net, 0, 0, now, 64, None), "round {round}");
            let frames = in_bursts(net, 0, now, &[PortMask::ALL; 8]);
            assert_eq!(net.sides[0].engine.stats().tx_data, round + 1, "round {round}");
            let arrivals: Vec<_> = frames.iter().map(|frame| arrival(frame, IcrcCheck::Valid, false)).collect();
            assert!(take_one_by_one(net, 1, now, &arrivals).iter().all(Result::is_ok));
            let replies = in_bursts(net, 1, now, &[PortMask::ALL; 8]);
            let arrivals: Vec<_> = replies.iter().map(|frame| arrival(frame, IcrcCheck::Valid, false)).collect();
            assert!(take_one_by_one(net, 0, now, &arrivals).iter().all(Result::is_ok));
            now = now.after(10_000);
            let_time_pass(net, now);
        }
        assert_eq!(net.sides[1].engine.stats().rx_data, 50);
    });
}

/// Where queue pairs are so many that the engine reads ahead, the frames are the same, too.
//= SCHED-001, VAL-010 test
#[test]
fn a_burst_of_many_queue_pairs_is_the_frames_of_single_polls() {
    let mut sent = 0;
    for seed in 0..3 {
        let setup = Setup {
            qps: 260,
            srv6: true,
            cc: if seed == 0 { vec![] } else { vec![CcConfig::None, CcConfig::Fixed { window_bytes: 20_000 }] },
            tweak: match seed {
                0 => |_| {},
                _ => |cfg| {
                    (cfg.turn_bytes, cfg.tack_within_message) = (16_384, false);
                    (cfg.ask_each_message, cfg.merge_sacks) = (false, true);
                },
            },
            ..Setup::default()
        };
        sent += alike(seed, &setup);
    }
    assert!(sent > 3 * 1_000, "{sent}");
}

/// Requests of a burst leave ahead of the answers that are owed, which stay for the next call.
//= SCHED-001 test
#[test]
fn requests_alone_leave_the_answers_where_they_are() {
    let setup = Setup { qps: 1, srv6: true, ..Setup::default() };
    net(7, &setup, Weather::default(), |net| {
        let now = Instant::from_nanos(1_000);
        assert!(post(net, 1, 0, now, 3_000, None));
        let writes = in_bursts(net, 1, now, &[PortMask::ALL; 8]);
        let arrivals: Vec<_> = writes.iter().map(|frame| arrival(frame, IcrcCheck::Valid, false)).collect();
        assert!(take_in_bursts(net, 0, now, &arrivals).iter().all(Result::is_ok));
        assert!(post(net, 0, 0, now, 3_000, None));
        assert!(net.sides[0].engine.owes_answers());
        let mut sink = Sink { ports: vec![PortMask::ALL; 9], headers: [0; MAX_HEADER_LEN], frames: Vec::new() };
        net.sides[0].engine.transmit_requests(now, &mut sink);
        assert_eq!(sink.frames.len(), writes.len());
        assert!(sink.frames.iter().all(|(transmit, _)| transmit.payload.is_some()));
        assert!(net.sides[0].engine.owes_answers());
        // Not even when something goes before data: a probe for what nobody has answered.
        let now = now.after(400_000);
        net.sides[0].engine.handle_timeout(now);
        sink.frames.clear();
        net.sides[0].engine.transmit_requests(now, &mut sink);
        assert!(!sink.frames.is_empty(), "nothing was urgent");
        assert!(net.sides[0].engine.owes_answers());
        let answers = in_bursts(net, 0, now, &[PortMask::ALL; 9]);
        assert!(!answers.is_empty() && answers.iter().all(|(transmit, _)| transmit.payload.is_none()));
        assert!(!net.sides[0].engine.owes_answers());
    });
}

/// SACKs leave alone, in order and no more than there is room for; Transport ACKs stay.
//= SACK-007 test
#[test]
fn feedback_alone_leaves_transport_acks_where_they_are() {
    let setup = Setup { qps: 2, srv6: true, ..Setup::default() };
    net(8, &setup, Weather::default(), |net| {
        let now = Instant::from_nanos(1_000);
        for _ in 0..2 {
            assert!(post(net, 1, 0, now, 8, None) && post(net, 1, 1, now, 8, None));
            let writes = in_bursts(net, 1, now, &[PortMask::ALL; 8]);
            let arrivals: Vec<_> = writes.iter().map(|frame| arrival(frame, IcrcCheck::Valid, false)).collect();
            assert!(take_in_bursts(net, 0, now, &arrivals).iter().all(Result::is_ok));
        }
        assert!(post(net, 0, 0, now, 8, None));
        let counts = |net: &Net<'_>| {
            let stats = net.sides[0].engine.stats();
            (stats.tx_sack, stats.tx_ack, stats.tx_data)
        };
        for (room, sacks) in [(0, 0), (1, 1), (9, 4)] {
            let mut sink = Sink { ports: vec![PortMask::ALL; room], headers: [0; MAX_HEADER_LEN], frames: Vec::new() };
            net.sides[0].engine.transmit_feedback(now, &mut sink);
            assert_eq!(counts(net), (sacks, 0, 0));
            assert!(net.sides[0].engine.owes_answers());
        }
        in_bursts(net, 0, now, &[PortMask::ALL; 9]);
        assert_eq!(counts(net), (4, 2, 1));
        assert!(!net.sides[0].engine.owes_answers());
    });
}

/// A NAK is the last word of a QP, behind the SACKs that wait; it is no feedback.
//= SACK-007, ERR-002 test
#[test]
fn feedback_alone_leaves_a_refusal_where_it_is() {
    net(8, &Setup::default(), Weather::default(), |net| {
        let now = Instant::from_nanos(1_000);
        assert!(post(net, 1, 0, now, 8, None));
        let side = &mut net.sides[1];
        let wr = SendWr { lkey: side.key, local_va: VA, len: 8, remote_va: VA, rkey: Rkey(0), ..SendWr::default() };
        side.engine.post_send(now, side.qps[0], &wr).unwrap();
        for frame in in_bursts(net, 1, now, &[PortMask::ALL; 8]) {
            let _ = take_in_bursts(net, 0, now, &[arrival(&frame, IcrcCheck::Valid, false)]);
        }
        assert_eq!(net.sides[0].info(0).state, QpState::Error);
        let mut sink = Sink { ports: vec![PortMask::ALL; 9], headers: [0; MAX_HEADER_LEN], frames: Vec::new() };
        net.sides[0].engine.transmit_feedback(now, &mut sink);
        assert!(net.sides[0].engine.owes_answers());
        assert_eq!(net.sides[0].engine.stats().tx_nak, 0);
        net.sides[0].engine.transmit(now, &mut sink);
        assert_eq!(net.sides[0].engine.stats().tx_nak, 1);
    });
}

/// A packet that goes on with a series in all but its place, which leaves the region, is refused as it would be alone.
//= VAL-017 test
#[test]
fn a_series_ends_where_its_region_does() {
    let setup = Setup { qps: 1, srv6: true, ..Setup::default() };
    let refused_in = |take: fn(&mut Net<'_>, usize, Instant, &[Arrival]) -> Results| {
        net(3, &setup, Weather::default(), |net| {
            let now = Instant::from_nanos(1_000);
            assert!(post(net, 0, 0, now, 12_000, None));
            let frames = in_bursts(net, 0, now, &[PortMask::ALL; 40]);
            let mut arrivals: Vec<_> = frames.iter().map(|frame| arrival(frame, IcrcCheck::Valid, false)).collect();
            assert!(arrivals.len() > 8);
            // RETH is the last header; its address goes far beyond any region.
            let va = frames[5].1.len() - 16;
            arrivals[5].1[va + 1] = 0x7F;
            let results = take(net, 1, now, &arrivals);
            assert!(results[..5].iter().all(Result::is_ok));
            (results, format!("{:?}", net.sides[1].engine.stats()))
        })
    };
    let alone = refused_in(take_one_by_one);
    assert_eq!(alone.0[5], Err(Discard::Nak));
    assert_eq!(refused_in(take_in_bursts), alone);
}

/// Packets from the middle of a request share the headers of the first of them, but each tells its own time and place, however
/// late it leaves and whatever left between.
//= TS-001, RETH-001, SEG-004 test
#[test]
fn packets_of_one_request_that_leave_one_by_one_tell_their_own_time() {
    let setup = Setup { qps: 2, srv6: true, ..Setup::default() };
    net(9, &setup, Weather::default(), |net| {
        let mut now = Instant::from_nanos(1_000);
        assert!(post(net, 0, 0, now, 12 * 1_024, None) && post(net, 0, 1, now, 9 * 1_024 + 7, None));
        let mut places = [(0, 0); 2];
        for _ in 0..22 {
            now = now.after(1_000);
            let frames = in_bursts(net, 0, now, &[PortMask::ALL]);
            let (transmit, bytes) = &frames[0];
            let frame = parse_frame(bytes, transmit.frame_len(), &WireConfig::default(), |_| true).unwrap();
            let Body::Write { tseth, reth, .. } = frame.body else { panic!("{frame}") };
            assert_eq!(tseth, Some(TsethRepr::ns128((now.as_nanos() >> 7) as u16)));
            let qp = usize::from(frame.bth.dest_qp != net.sides[1].qps[0].qpn());
            let (packets, first) = &mut places[qp];
            if *packets == 0 {
                *first = reth.va;
            }
            assert_eq!(reth.va - *first, *packets * 1_024);
            *packets += 1;
        }
        assert_eq!(places.map(|(packets, _)| packets), [12, 10]);
    });
}
