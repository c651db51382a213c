//! `plane_lead`: QPs that are ahead on a plane leave its port to others, and no port stays free for it.

mod common;

use common::{Net, Setup, VA, Weather, net};
use mrc_core::cc::CcConfig;
use mrc_core::{FrameSink, Instant, MAX_HEADER_LEN, PortMask, Rng, SendWr, Transmit};
use mrc_wire::{PortNum, Rkey};

const QPS: usize = 8;
/// Of each QP's message, which says whose packet it is.
const SHARE: u32 = 100 * 1024;

fn setup(plane_lead: u8) -> Setup {
    // A controller for each QP, as towards different peers.
    Setup {
        qps: QPS,
        cc: vec![CcConfig::None; QPS],
        qpccs: QPS,
        half: QPS * SHARE as usize,
        plane_lead,
        ..Setup::default()
    }
}

fn post(net: &mut Net<'_>, qp: usize) {
    let va = VA + (qp as u64) * u64::from(SHARE);
    let (lkey, rkey) = (net.sides[0].key, Rkey(net.sides[1].key));
    let wr = SendWr { lkey, local_va: va, len: SHARE, remote_va: va, rkey, signaled: true, ..SendWr::default() };
    let side = &mut net.sides[0];
    side.engine.post_send(Instant::ZERO, side.qps[qp], &wr).unwrap();
}

/// Which QP sends when only `port` has room.
fn next(net: &mut Net<'_>, port: PortNum) -> Option<usize> {
    let mut headers = [0; MAX_HEADER_LEN];
    let sent = net.sides[0].engine.poll_transmit(Instant::ZERO, PortMask::NONE.with(port), &mut headers)?;
    assert_eq!(sent.port, port);
    Some((sent.payload.unwrap().offset / u64::from(SHARE)) as usize)
}

/// The largest difference of what a QP has sent through two ports, over a random sequence of ports that become free.
fn most_uneven(plane_lead: u8, seed: u64) -> i32 {
    net(seed, &setup(plane_lead), Weather::default(), |net| {
        (0..QPS).for_each(|qp| post(net, qp));
        let (mut rng, mut ahead, mut all, mut worst) = (Rng::new(seed), [0i32; QPS], 0i32, 0);
        for _ in 0..QPS as u32 * 90 {
            // As both ports drain alike, neither is ever free much more often.
            let plane = if all.abs() < 3 { rng.below(2) as u8 } else { u8::from(all > 0) };
            let step = 1 - 2 * i32::from(plane);
            let qp = next(net, PortNum::from_plane(plane)).expect("everybody has packets left");
            all += step;
            ahead[qp] += step;
            worst = worst.max(ahead[qp].abs());
        }
        worst
    })
}

//= BAL-007 test
#[test]
fn who_is_ahead_on_a_plane_leaves_its_port_to_others() {
    for seed in 0..8 {
        assert_eq!(most_uneven(1, seed), 1, "seed {seed}");
        assert!(most_uneven(3, seed) <= 3, "seed {seed}");
        assert!(most_uneven(0, seed) > 5, "seed {seed}: without a limit the shares drift apart");
    }
}

//= BAL-007 test
#[test]
fn a_port_that_nobody_else_can_use_is_used_all_the_same() {
    net(3, &setup(1), Weather::default(), |net| {
        (0..QPS).for_each(|qp| post(net, qp));
        let mut sent = [0; QPS];
        for nth in 0..QPS * 80 {
            let qp = next(net, PortNum::from_plane(0));
            sent[qp.unwrap_or_else(|| panic!("packet {nth} waits for a plane without room"))] += 1;
        }
        assert!(sent.iter().all(|&packets| packets == 80), "still in turn: {sent:?}");
    });
}

/// The driver offers the port that it leaves: it is asked again with the other one.
#[test]
fn who_leaves_a_port_to_others_needs_no_timer() {
    net(5, &setup(1), Weather::default(), |net| {
        (0..2).for_each(|qp| post(net, qp));
        let planes = [0, 1].map(PortNum::from_plane);
        let (first, second) = (next(net, planes[0]), next(net, planes[1]));
        assert_ne!(first, second, "they take turns");
        let before = net.sides[0].engine.next_timeout();
        assert_eq!(next(net, planes[0]), second, "the first one is ahead there");
        assert_eq!(net.sides[0].engine.next_timeout(), before);
    });
}

/// A call looks at eight queue pairs that leave the port to others, and not at a ninth: then the first of them takes it.
//= BAL-007 test
#[test]
fn a_call_passes_over_eight_queue_pairs() {
    const MANY: usize = 12;
    let setup = Setup { qps: MANY, cc: vec![CcConfig::None; MANY], half: MANY * SHARE as usize, ..setup(1) };
    net(6, &Setup { qpccs: MANY, ..setup }, Weather::default(), |net| {
        (0..MANY).for_each(|qp| post(net, qp));
        let planes = [0, 1].map(PortNum::from_plane);
        let first: Vec<_> = (0..MANY).map(|_| next(net, planes[0]).unwrap()).collect();
        assert_eq!(next(net, planes[1]), Some(first[0]), "its planes are even, and it stands last");
        assert_eq!(next(net, planes[0]), Some(first[1]));
        let few = 8 - 1;
        let even: Vec<_> = (0..MANY - few - 2).map(|_| next(net, planes[1]).unwrap()).collect();
        assert_eq!(even, first[2..MANY - few], "the rest of them is ahead");
        assert_eq!(next(net, planes[0]), Some(first[0]), "behind seven that are");
    });
}

/// The same where each controller has two queue pairs, and the turn of the first of them shows that it leaves the port.
#[test]
fn who_leaves_a_port_to_another_controller_needs_no_timer() {
    net(5, &Setup { qps: 4, cc: vec![CcConfig::None; 2], qpccs: 2, ..setup(1) }, Weather::default(), |net| {
        (0..4).for_each(|qp| post(net, qp));
        let planes = [0, 1].map(PortNum::from_plane);
        let first = [0, 1, 0, 1].map(|plane| next(net, planes[plane]).unwrap());
        assert_eq!(first, [0, 1, 2, 3], "controllers take turns, and so do the queue pairs of each");
        let before = net.sides[0].engine.next_timeout();
        assert_eq!(next(net, planes[0]), Some(1), "queue pair 0 is ahead there");
        assert_eq!(net.sides[0].engine.next_timeout(), before);
    });
}

/// Room for so many frames on one port.
struct Room {
    port: PortNum,
    left: usize,
    headers: [u8; MAX_HEADER_LEN],
}

impl FrameSink for Room {
    fn ports(&self) -> PortMask {
        if self.left > 0 { PortMask::NONE.with(self.port) } else { PortMask::NONE }
    }

    fn headers(&mut self) -> &mut [u8; MAX_HEADER_LEN] {
        &mut self.headers
    }

    fn push(&mut self, transmit: Transmit) {
        assert_eq!(transmit.port, self.port);
        self.left -= 1;
    }
}

/// The same in a burst: packets leave until the queue pair is ahead. Its timer was not armed for the time that it then named, so
/// debug builds stopped there.
#[test]
fn who_leaves_a_port_to_others_within_a_burst_needs_no_timer() {
    let wide = Setup { tweak: |cfg| cfg.turn_bytes = 64 << 10, ..setup(3) };
    for (lead, qps) in [(1, 1), (2, 1), (3, 2), (3, 8)] {
        net(7, &Setup { plane_lead: lead, ..wide.clone() }, Weather::default(), |net| {
            (0..qps).for_each(|qp| post(net, qp));
            for turn in 0..6 {
                let port = PortNum::from_plane(turn % 2);
                let mut room = Room { port, left: 5, headers: [0; MAX_HEADER_LEN] };
                net.sides[0].engine.transmit(Instant::ZERO, &mut room);
                assert_eq!(room.left, 0, "nobody else can use the port");
            }
        });
    }
}
