//! What an image may not say, though its checksum is right: only an error of the firmware that wrote it can.

use super::super::super::fetch::tests::{limits, pair, post};
use super::super::{Export, Import};
use super::*;
use mrc_wire::Rkey;

use crate::{CqHandle, EndpointConfig, ImageError, OwnedStorage, RecvWqe};

/// An endpoint in which QP 0 is in RTS and has a request and a receive, and in which the last slot was never used.
fn with_endpoint<T>(look: impl FnOnce(&mut Endpoint<'_>) -> T) -> T {
    let mut storage = [(); 2].map(|()| OwnedStorage::new(limits()).unwrap());
    let [side, _] = &mut pair(&mut storage, 0);
    post(side, Rkey(0), 0, 1_000);
    side.engine.post_recv(side.qps[0], 1).unwrap();
    look(&mut side.engine)
}

/// Whether the walk takes QP 0, as `change` leaves it, among what else there is.
fn may_be(change: impl FnOnce(&mut Endpoint<'_>, &mut Qp)) -> bool {
    with_endpoint(|engine| {
        let mut qp = engine.qps[0].clone();
        assert!(engine.may_be(&qp), "it is as an endpoint of ours has it");
        change(engine, &mut qp);
        engine.may_be(&qp)
    })
}

#[test]
fn a_queue_pair_names_what_there_is() {
    let nowhere = CqHandle::from_index(1);
    assert!(!may_be(|_, qp| qp.send_cq = nowhere));
    assert!(!may_be(|_, qp| qp.recv_cq = nowhere));
    assert!(
        may_be(|_, qp| (qp.used, qp.recv_cq) = (false, nowhere)),
        "what was destroyed may have outlived its queues"
    );
    assert!(!may_be(|engine, qp| engine.peers[qp.peer as usize].used = false));
    assert!(!may_be(|_, qp| qp.peer = u32::MAX));
    assert!(!may_be(|engine, qp| qp.ev_profile = engine.ev_profiles.len() as u32));
    assert!(!may_be(|engine, qp| engine.qpccs[qp.qpcc.unwrap() as usize].users = 0));
    assert!(!may_be(|_, qp| qp.qpcc = Some(u32::MAX)));
}

#[test]
fn the_state_of_a_queue_pair_says_what_it_has() {
    assert!(!may_be(|_, qp| qp.has_peer = false), "RTS");
    assert!(!may_be(|_, qp| qp.qpcc = None), "RTS");
    assert!(may_be(|_, qp| (qp.state, qp.qpcc) = (QpState::Rtr, None)));
    assert!(!may_be(|_, qp| (qp.state, qp.qpcc, qp.has_peer) = (QpState::Rtr, None, false)));
    for state in [QpState::Reset, QpState::Init, QpState::Error] {
        assert!(may_be(|_, qp| (qp.state, qp.qpcc) = (state, None)), "{state:?}");
        assert!(may_be(|_, qp| (qp.state, qp.qpcc, qp.has_peer) = (state, None, false)), "{state:?}");
        assert!(!may_be(|_, qp| qp.state = state), "{state:?} with a controller");
    }
}

#[test]
fn a_queue_pair_has_no_more_than_there_is_room_for() {
    for mtu in [256, 512, 1_024, 2_048, 4_096] {
        assert!(may_be(|_, qp| (qp.path_mtu, qp.req.path_mtu) = (mtu, mtu)), "{mtu}");
    }
    for mtu in [1, 255, 257, 1_500, 8_192] {
        assert!(!may_be(|_, qp| (qp.path_mtu, qp.req.path_mtu) = (mtu, mtu)), "{mtu}");
    }
    assert!(!may_be(|_, qp| qp.req.path_mtu = 512), "another one than that of the QP");
    // As with `limits` that are those of the other endpoint, and smaller than what it has.
    assert!(!may_be(|engine, _| engine.limits.send_queue = 0));
    assert!(!may_be(|engine, _| engine.limits.recv_queue = 0));
    assert!(!may_be(|engine, qp| engine.limits.evs = qp.paths.universe() - 1));
    assert!(!may_be(|engine, qp| engine.limits.active_evs = qp.paths.active_len() - 1));
    assert!(!may_be(|engine, _| engine.limits.mpr = 0));
    assert!(may_be(|engine, _| (engine.limits.send_queue, engine.limits.recv_queue) = (1, 1)), "both full");
}

/// The whole way: an image of an endpoint that cannot be has a right checksum, and is refused where the fault is.
fn refused(change: impl FnOnce(&mut Endpoint<'_>)) -> Result<(), ImageError> {
    let (cfg, image) = with_endpoint(|engine| {
        change(engine);
        let (mut export, mut image) = (Export::new(), std::vec![0; 1 << 20]);
        let len = engine.export(&mut export, &mut image).unwrap();
        assert!(export.is_done());
        image.truncate(len);
        (engine.config().clone(), image)
    });
    load(cfg, &image)
}

fn load(cfg: EndpointConfig, image: &[u8]) -> Result<(), ImageError> {
    let mut storage = OwnedStorage::new(limits()).unwrap();
    let mut import = Import::new(cfg, storage.lend()).unwrap();
    import.feed(image)?;
    import.finish().map(drop)
}

#[test]
fn an_image_that_contradicts_itself_is_refused_where_it_does() {
    assert_eq!(refused(|_| {}), Ok(()));
    let at = |what| Err(ImageError::Damaged(what));
    assert_eq!(refused(|engine| engine.qps[0].state = QpState::Init), at("queue pairs"));
    assert_eq!(
        refused(|engine| engine.qps[1].qpn = engine.qps[0].qpn),
        at("queue pairs"),
        "the number of another slot"
    );
    assert_eq!(refused(|engine| engine.peers[0].ev_profile = Some(engine.ev_profiles.len() as u32)), at("peers"));
    assert_eq!(refused(|engine| engine.peers[0].shards_profile = Some(engine.ev_profiles.len() as u32)), at("peers"));
    // An export ends whatever it finds.
    assert_eq!(refused(|engine| engine.ev_order[3] = engine.qps[0].paths.universe() as u16), at("queue pairs"));
    assert_eq!(refused(|engine| engine.qpccs[engine.qps[0].qpcc.unwrap() as usize].users = 0), at("queue pairs"));
}

/// The order of a queue pair names EVs of its own. Of a value that could be only the checksum tells.
#[test]
fn the_order_of_the_evs_has_only_known_ones() {
    let (cfg, image, order, evs) = with_endpoint(|engine| {
        let mut image = std::vec![0; 1 << 20];
        let len = engine.export(&mut Export::new(), &mut image).unwrap();
        image.truncate(len);
        (engine.config().clone(), image, engine.order_of(0).to_vec(), engine.qps[0].paths.universe() as u16)
    });
    let bytes: std::vec::Vec<u8> = order.iter().flat_map(|ev| ev.to_le_bytes()).collect();
    let at = image.windows(bytes.len()).position(|bytes_at| bytes_at == bytes).unwrap();
    for (nth, ev, why) in [
        (0, evs - 1, ImageError::Checksum),
        (0, evs, ImageError::Damaged("queue pairs")),
        (15, evs, ImageError::Damaged("queue pairs")),
        (15, u16::MAX, ImageError::Damaged("queue pairs")),
    ] {
        let mut image = image.clone();
        let known = core::mem::replace(&mut image[at + 2 * nth], ev.to_le_bytes()[0]);
        image[at + 2 * nth + 1] = ev.to_le_bytes()[1];
        let expected = if u16::from(known) == ev { Ok(()) } else { Err(why) };
        assert_eq!(load(cfg.clone(), &image), expected, "place {nth}, EV {ev}");
    }
}

/// What waits goes on waiting, and what was counted stays counted.
#[test]
fn receives_and_dropped_events_are_in_the_image() {
    let (cfg, image, dropped) = with_endpoint(|engine| {
        *engine.events.dropped_mut() = 7;
        let mut image = std::vec![0; 1 << 20];
        let len = engine.export(&mut Export::new(), &mut image).unwrap();
        image.truncate(len);
        (engine.config().clone(), image, *engine.events.dropped_mut())
    });
    let mut storage = OwnedStorage::new(limits()).unwrap();
    let mut import = Import::new(cfg, storage.lend()).unwrap();
    assert_eq!(import.feed(&image), Ok(image.len()));
    let mut engine = import.finish().unwrap();
    assert_eq!((*engine.events.dropped_mut(), engine.qps[0].rq.len()), (dropped, 1));
    let RecvWqe { wr_id } = engine.recvs[0];
    assert_eq!(wr_id, 1);
}

/// No record is longer than [`Export::MIN_BUFFER`] says, and one that could be the longest is waited for.
#[test]
fn a_record_that_is_too_long_is_refused_at_once() {
    let cfg = with_endpoint(|engine| engine.config().clone());
    let fed = |len: u16| {
        let mut storage = OwnedStorage::new(limits()).unwrap();
        Import::new(cfg.clone(), storage.lend()).unwrap().feed(&len.to_le_bytes())
    };
    let longest = Export::MIN_BUFFER as u16 - 2;
    assert_eq!(fed(longest), Ok(0));
    assert_eq!(fed(longest + 1), Err(ImageError::Damaged("head")));
    assert_eq!(fed(u16::MAX), Err(ImageError::Damaged("head")));
}

/// Of bad EVs that other shards have not been told the new endpoint tells them.
//= SET-003 test
#[test]
fn bad_evs_that_were_not_told_are_told_by_the_new_endpoint() {
    with_endpoint(|engine| {
        engine.ev_profiles.tell_bad(0, 1);
        engine.ev_profiles.tell_bad(0, 2);
        assert_eq!(engine.ev_profiles.next_told(), Some((0, 1)));
        let mut storage = OwnedStorage::new(limits()).unwrap();
        let mut import = Import::new(engine.config().clone(), storage.lend()).unwrap();
        let (mut export, mut piece) = (Export::new(), std::vec![0; 1 << 16]);
        while !export.is_done() {
            let len = engine.export(&mut export, &mut piece).unwrap();
            assert_eq!(import.feed(&piece[..len]), Ok(len));
        }
        let mut new = import.finish().unwrap();
        assert_eq!([(); 2].map(|()| new.ev_profiles.next_told()), [Some((0, 2)), None]);
    });
}
