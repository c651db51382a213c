//! Bursts into ports of memory.

use std::sync::Arc;

use mrc_core::{Access, Endpoint, EndpointConfig, Limits, MemRange, OwnedStorage, PayloadRef, Pd, PortConfig};
use mrc_wire::{Ev, PortNum};

use super::*;
use crate::MemRegion;
use crate::device::fake_port::{Fake, Wire};

const HEADERS: usize = 14 + 40 + 8 + 12;

fn transmit(plane: usize, payload: Option<PayloadRef>, pad: u8) -> Transmit {
    let (port, ev) = (port_of(plane), Ev(plane as u32));
    Transmit { header_len: HEADERS, l3_offset: 14, payload, pad, port, ev, traffic_class: 0 }
}

/// What the engine does for each frame: looks for room, writes headers, hands over.
fn send(burst: &mut Burst<'_, Fake>, transmit: Transmit, mark: u8) {
    assert!(burst.ports().contains(transmit.port), "no room on {}", transmit.port.plane());
    let headers = burst.headers();
    headers.fill(0xAA);
    headers[..HEADERS].fill(0);
    headers[14] = 0x60;
    headers[HEADERS - 1] = mark;
    burst.push(transmit);
}

fn marks(wire: &Wire) -> Vec<(usize, u8)> {
    wire.borrow().iter().map(|(port, frame)| (*port, frame[HEADERS - 1])).collect()
}

//= ICRC-009 test
#[test]
fn a_frame_is_headers_payload_pad_and_icrc() {
    let mut recorder = Recorder::new(9);
    let bytes: Vec<u8> = (0..100).collect();
    let region = Arc::new(MemRegion::from_vec(bytes.clone()));
    let mut storage = OwnedStorage::new(Limits::default()).unwrap();
    let mut config = EndpointConfig::default();
    config.gids[0] = Some(mrc_wire::Ip::V6([1; 16]));
    config.ports[0] = Some(PortConfig { mac: [2; 6], sid: None, addr: None });
    let mut engine = Endpoint::new(config, storage.lend(), 1).unwrap();
    let range = MemRange { va: region.addr(), len: 100 };
    let mr = engine.register_mr(Pd(0), range, Access::REMOTE_WRITE).unwrap();
    let mut memory: Memory = vec![None; engine.limits().mrs];
    memory[mr.index()] = Some(region);
    let wire = Wire::default();
    let (mut ports, mut outlet) = ([Fake::new(0, &wire, 4)], Outlet::new(1, true));
    let mut burst = outlet.burst(&mut ports, &memory, &mut recorder);
    burst.allow(4);
    send(&mut burst, transmit(0, Some(PayloadRef { mr, offset: 10, len: 33 }), 3), 1);
    send(&mut burst, transmit(0, Some(PayloadRef { mr, offset: 90, len: 11 }), 1), 2);
    send(&mut burst, transmit(0, None, 0), 3);
    burst.finish();
    assert_eq!(marks(&wire), [(0, 1), (0, 3)], "bytes outside the region are not sent");
    assert_eq!(outlet.paths().collect::<Vec<_>>(), [(&(0, 0), &33)]);
    let recording = recorder.finish(mrc_core::Instant::ZERO);
    let recorded = recording.packets().map(|packet| (packet.sent, packet.wire_len, packet.head.len(), packet.head[14]));
    let (data, control) = (HEADERS + 33 + 3 + icrc::LEN, HEADERS + icrc::LEN);
    assert_eq!(
        recorded.collect::<Vec<_>>(),
        [(true, data as u32, HEADERS, 0x60), (true, control as u32, HEADERS, 0x60)],
        "what was not sent was not recorded"
    );
    let wire = wire.borrow();
    let frame = &wire[0].1;
    assert_eq!(frame.len(), HEADERS + 33 + 3 + icrc::LEN);
    assert_eq!(frame[HEADERS..HEADERS + 33], bytes[10..43]);
    assert_eq!(frame[HEADERS + 33..HEADERS + 36], [0; 3]);
    for (_, frame) in wire.iter() {
        assert!(icrc::verify(frame, 14, frame.len() - icrc::LEN));
    }
}

#[test]
fn a_port_without_room_is_left_out_until_it_has_some() {
    let mut recorder = Recorder::new(9);
    let wire = Wire::default();
    let (mut ports, mut outlet) = ([Fake::new(0, &wire, 2), Fake::new(1, &wire, 0)], Outlet::new(2, false));
    let memory = Memory::new();
    let mut burst = outlet.burst(&mut ports, &memory, &mut recorder);
    assert!(burst.ports().is_empty(), "nothing was allowed yet");
    burst.allow(3);
    send(&mut burst, transmit(0, None, 0), 1);
    assert_eq!(burst.ports(), PortMask::NONE.with(port_of(0)));
    send(&mut burst, transmit(0, None, 0), 2);
    assert!(burst.ports().is_empty());
    burst.finish();
    ports[0].room = 1;
    ports[1].room = 9;
    let mut burst = outlet.burst(&mut ports, &memory, &mut recorder);
    burst.allow(2);
    send(&mut burst, transmit(1, None, 0), 3);
    send(&mut burst, transmit(0, None, 0), 4);
    assert!(burst.ports().is_empty(), "all frames that were allowed are made");
    assert_eq!(burst.made(), 2);
    burst.finish();
    assert_eq!(marks(&wire), [(0, 1), (0, 2), (0, 4), (1, 3)], "each port gets its frames at once");
}

#[test]
fn frames_leave_in_the_order_asked_for_as_long_as_that_is() {
    let mut recorder = Recorder::new(9);
    let wire = Wire::default();
    let (mut ports, mut outlet) = ([Fake::new(0, &wire, 9), Fake::new(1, &wire, 9)], Outlet::new(2, false));
    let memory = Memory::new();
    let mut burst = outlet.burst(&mut ports, &memory, &mut recorder);
    burst.allow(9);
    burst.keep_order(2);
    for (mark, plane) in [1, 0, 0, 1, 0, 1].into_iter().enumerate() {
        send(&mut burst, transmit(plane, None, 0), mark as u8);
    }
    burst.finish();
    assert_eq!(marks(&wire), [(1, 0), (0, 1), (0, 2), (0, 4), (1, 3), (1, 5)]);
}

#[test]
fn a_kernel_that_holds_frames_is_reminded_and_nobody_else_is() {
    let mut recorder = Recorder::new(9);
    let wire = Wire::default();
    let (mut ports, mut outlet) = ([Fake::new(0, &wire, 9), Fake::new(1, &wire, 9)], Outlet::new(2, false));
    let memory = Memory::new();
    ports[0].held = 1;
    let mut burst = outlet.burst(&mut ports, &memory, &mut recorder);
    burst.allow(1);
    send(&mut burst, transmit(0, None, 0), 1);
    burst.finish();
    assert!(outlet.is_pending());
    for _ in 0..3 {
        outlet.burst(&mut ports, &memory, &mut recorder).finish();
    }
    assert!(!outlet.is_pending());
    assert_eq!((ports[0].flushes, ports[1].flushes), (2, 0));
}

#[test]
fn a_port_that_is_not_there_takes_nothing() {
    let mut recorder = Recorder::new(9);
    let wire = Wire::default();
    let (mut ports, mut outlet) = ([Fake::new(0, &wire, 1)], Outlet::new(1, false));
    let memory = Memory::new();
    let mut burst = outlet.burst(&mut ports, &memory, &mut recorder);
    burst.allow(2);
    assert!(!burst.ports().contains(PortNum::from_plane(1)));
    burst.push(transmit(1, None, 0));
    burst.finish();
    assert_eq!(marks(&wire), []);
}
