//! The limits of rate and room, late answers, and what an image has of a queue.

use mrc_wire::Qpn;

use super::*;
use crate::image::{Checksum, Reader, Writer};
use crate::path::EvIndex;

//= EPOP-004 test
#[test]
fn a_pace_allows_its_burst_and_then_its_rate() {
    let mut pace = Pace::per_second(1_000, 4);
    let at = |us: u64| Instant::from_nanos(us * 1_000);
    let burst = (0..10).filter(|_| pace.allows(at(5_000))).count();
    assert_eq!(burst, 4);
    let steady = (0..1_000).filter(|&ms| pace.allows(at(6_000 + ms * 100))).count();
    assert_eq!(steady, 100, "one per millisecond, asked ten times as often");
    assert!(!Pace::per_second(0, 4).allows(at(0)));
}

fn ops() -> Ops {
    Ops::new(&EndpointConfig { ev_probe_rate_limit: 1_000_000, ..EndpointConfig::default() }, 7)
}

fn return_path(peer: u32) -> Request {
    let choice = Choice { ev: Ev(3), index: EvIndex::NONE, entry: 3, port: PortNum::from_plane(0) };
    let qp = QpHandle { index: 1, qpn: Qpn::new(9) };
    Request { peer, owner: Owner::ReturnPath { qp, choice }, ..Request::NONE }
}

#[test]
fn the_endpoints_own_probes_leave_half_of_the_room_to_the_application() {
    let mut ops = ops();
    let now = Instant::from_nanos(1_000_000_000);
    let probes = (0..REQUESTS).filter(|_| ops.may_probe(now) && ops.admit(return_path(0))).count();
    let requests = (0..REQUESTS).filter(|_| ops.admit(Request::NONE)).count();
    assert_eq!((probes, requests), (REQUESTS / 2, REQUESTS / 2));
}

/// Only a probe that left and was given up has a late answer: from its peer, with its identifier, within a second, once.
//= EPOP-002 test
#[test]
fn a_late_answer_is_that_of_the_probe_that_it_names() {
    let mut ops = ops();
    let at = |ns: u64| Instant::from_nanos(5_000 + ns);
    assert!(ops.admit(return_path(4)));
    let id = ops.requests[0].id;
    assert_eq!(ops.take_late(at(0), 4, id), None, "it has not left");
    (ops.requests[0].stage, ops.requests[0].sent_at) = (Stage::Sent, at(0));
    assert_eq!(ops.take_late(at(1), 4, id), None, "it is not given up");
    ops.finish(0, None);
    assert_eq!(ops.take_late(at(1), 4, id ^ 1 << 6), None, "another identifier of the slot");
    assert_eq!(ops.take_late(at(1), 5, id), None, "another peer");
    assert_eq!(ops.take_late(at(LATE_NS + 1), 4, id), None, "too late");
    let Owner::ReturnPath { qp, choice } = return_path(4).owner else { unreachable!() };
    assert_eq!(ops.take_late(at(LATE_NS), 4, id), Some((qp, choice, LATE_NS)));
    assert_eq!(ops.take_late(at(LATE_NS), 4, id), None, "once");
}

#[test]
fn an_image_holds_a_queue_up_to_its_capacity_and_no_longer_one() {
    let mut queue = Fifo::<u8, 4>::new(0);
    assert!((10..14).all(|value| queue.push(value)) && queue.pop() == Some(10) && queue.push(14));
    let mut image = [0; 16];
    let mut to = Writer::new(&mut image, Checksum::NEW);
    queue.visit(&mut to).unwrap();
    assert_eq!(to.finish().0, size_of::<u64>() + 4);
    let mut read = Fifo::<u8, 4>::new(0);
    assert_eq!(read.visit(&mut Reader::new(&image)), Some(()));
    assert!([11, 12, 13, 14].map(Some).into_iter().all(|value| read.pop() == value) && read.pop().is_none());
    image[0] = 5;
    assert_eq!(Fifo::<u8, 4>::new(0).visit(&mut Reader::new(&image)), None, "five elements of four");
}
