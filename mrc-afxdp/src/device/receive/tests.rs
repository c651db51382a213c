//! Frames out of ports of memory.

use std::sync::Arc;

use mrc_core::{
    Access, Endpoint, EndpointConfig, Limits, MemRange, MrHandle, OwnedStorage, Pd, PlaceToken, Placement, PortConfig,
    QpHandle,
};
use mrc_wire::{Psn, Qpn};

use super::*;
use crate::MemRegion;
use crate::device::fake_port::{Fake, Wire};
use crate::device::progress::port_of;

const HEADERS: usize = 14 + 40 + 8 + 12;
const REGION: usize = 256;

/// A region of zeros, registered.
fn region() -> (Memory, MrHandle, Arc<MemRegion>) {
    let region = Arc::new(MemRegion::from_vec(vec![0; REGION]));
    let mut storage = OwnedStorage::new(Limits::default()).unwrap();
    let mut config = EndpointConfig::default();
    config.gids[0] = Some(mrc_wire::Ip::V6([1; 16]));
    config.ports[0] = Some(PortConfig { mac: [2; 6], sid: None, addr: None });
    let mut engine = Endpoint::new(config, storage.lend(), 1).unwrap();
    let range = MemRange { va: region.addr(), len: REGION as u64 };
    let mr = engine.register_mr(Pd(0), range, Access::REMOTE_WRITE).unwrap();
    let mut memory: Memory = vec![None; engine.limits().mrs];
    memory[mr.index()] = Some(Arc::clone(&region));
    (memory, mr, region)
}

/// A frame with payload and a valid ICRC.
fn frame(payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; HEADERS];
    frame[12..15].copy_from_slice(&[0x86, 0xDD, 0x60]);
    frame[20] = 17;
    frame.extend_from_slice(payload);
    let crc = icrc::compute(&frame[14..]).unwrap();
    frame.extend_from_slice(&crc);
    frame
}

/// The frame in two pieces.
fn cut(frame: &[u8], at: usize) -> Vec<Vec<u8>> {
    vec![frame[..at].to_vec(), frame[at..].to_vec()]
}

//= ICRC-009 test
#[test]
fn frames_in_pieces_are_checked_here_and_whole_ones_by_the_engine() {
    let (mut recorder, mut awaited) = (Recorder::new(9), Awaited::default());
    let good = frame(&[7; 100]);
    let mut bad = good.clone();
    bad[HEADERS + 60] ^= 1;
    let end = good.len();
    let mut port = Fake::new(0, &Wire::default(), 0);
    let memory = Memory::new();
    port.arrivals.extend([vec![good.clone()], vec![bad.clone()]]);
    // A buffer ends where it is full, also inside the ICRC.
    let ends = [HEADERS, HEADERS + 50, end - 4, end - 3, end - 2, end - 1];
    for at in ends {
        port.arrivals.extend([cut(&good, at), cut(&bad, at)]);
    }
    let mut arrivals = Arrivals::new(&mut port, port_of(1), &memory, &mut recorder, &mut awaited, 99);
    let mut seen = Vec::new();
    while let Some((meta, head)) = arrivals.next() {
        assert_eq!((meta.port, meta.wire_len), (port_of(1), end));
        assert_eq!(head[..HEADERS], good[..HEADERS]);
        seen.push(meta.icrc);
        arrivals.done(Err(Discard::Short));
    }
    assert_eq!(arrivals.finish(), 2 + 2 * ends.len());
    assert_eq!(seen[..2], [IcrcCheck::Verify; 2]);
    assert_eq!(seen[2..], [IcrcCheck::Valid, IcrcCheck::Invalid].repeat(ends.len()));
}

#[test]
fn payload_is_placed_from_all_pieces_and_before_the_next_frame() {
    let (mut recorder, mut awaited) = (Recorder::new(9), Awaited::default());
    let (memory, mr, region) = region();
    let payload: Vec<u8> = (1..=100).collect();
    let whole = frame(&payload);
    let mut port = Fake::new(0, &Wire::default(), 0);
    port.arrivals.extend([vec![whole.clone()], cut(&whole, HEADERS + 33), vec![whole.clone()]]);
    let mut arrivals = Arrivals::new(&mut port, port_of(0), &memory, &mut recorder, &mut awaited, 99);
    let (qp, psn) = (QpHandle::from_parts(0, Qpn::new(3)), Psn::new(1));
    let place = |offset| {
        Ok(Received::Place(Placement {
            mr,
            token: PlaceToken::from_bits(0),
            qp,
            psn,
            offset,
            payload: HEADERS..HEADERS + 100,
        }))
    };
    for result in [place(3), place(120), Err(Discard::Duplicate)] {
        assert!(arrivals.next().is_some());
        arrivals.done(result);
    }
    assert!(arrivals.next().is_none());
    // Nothing is placed from a frame that has gone.
    arrivals.done(place(0));
    assert_eq!(arrivals.finish(), 3);
    let recording = recorder.finish(mrc_core::Instant::ZERO);
    let recorded = recording.packets().map(|packet| (packet.sent, packet.wire_len as usize, packet.discard));
    let expected = [None, None, Some(Discard::Duplicate)].map(|discard| (false, whole.len(), discard));
    assert_eq!(recorded.collect::<Vec<_>>(), expected);
    let mut bytes = vec![0; REGION];
    region.gather(0, &mut bytes).unwrap();
    let mut expected = vec![0; REGION];
    expected[3..103].copy_from_slice(&payload);
    expected[120..220].copy_from_slice(&payload);
    assert_eq!(bytes, expected);
}

#[test]
fn a_turn_takes_no_more_frames_than_it_may() {
    let (mut recorder, mut awaited) = (Recorder::new(9), Awaited::default());
    let mut port = Fake::new(0, &Wire::default(), 0);
    let memory = Memory::new();
    port.arrivals.extend((0..5u8).map(|n| vec![frame(&[n; 8])]));
    for (most, taken, left) in [(2, 2, 3), (0, 0, 3), (2, 2, 1), (2, 1, 0), (2, 0, 0)] {
        let mut arrivals = Arrivals::new(&mut port, port_of(0), &memory, &mut recorder, &mut awaited, most);
        while arrivals.next().is_some() {
            arrivals.done(Ok(Received::Nothing));
        }
        assert_eq!(arrivals.finish(), taken);
        assert_eq!(port.arrivals.len(), left);
    }
}

#[test]
fn the_engine_sees_the_frames_that_follow_and_no_others() {
    let (mut recorder, mut awaited) = (Recorder::new(9), Awaited::default());
    let mut port = Fake::new(0, &Wire::default(), 0);
    let memory = Memory::new();
    let frames: Vec<Vec<u8>> = (0..4).map(|n| frame(&[n; 30])).collect();
    port.arrivals.extend(frames.iter().map(|frame| vec![frame.clone()]));
    let mut arrivals = Arrivals::new(&mut port, port_of(0), &memory, &mut recorder, &mut awaited, 3);
    assert_eq!(arrivals.peek(0), Some(&frames[0][..]));
    assert_eq!(arrivals.peek(2), Some(&frames[2][..]));
    assert_eq!(arrivals.peek(3), None, "not of this batch");
    assert!(arrivals.next().is_some());
    assert_eq!(arrivals.peek(0), Some(&frames[1][..]), "behind the one that was given out");
    assert_eq!(arrivals.peek(2), None);
}
