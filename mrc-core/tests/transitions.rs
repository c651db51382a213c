//! What the transitions of a QP demand: an attribute that is missing or out of its range is refused by name, and nothing
//! of the attempt remains.

use mrc_core::path::{EvEntry, HopperConfig, Selector, compact_profile};
use mrc_core::{
    Access, CqHandle, Endpoint, EndpointConfig, ErrorCause, EvProfileHandle, Instant, Limits, MAX_PORTS, MemRange,
    ModifyError, OwnedStorage, Pd, PeerConfig, PeerHandle, PlanePath, PortConfig, PostError, QpHandle, QpInit, QpState,
    RetryConfig, Route, RtrAttr, RtsAttr, SendWr, Status, TableError,
};
use mrc_wire::{Ev, Ip, PortNum, Psn, Qpn};

fn address(last: u8) -> [u8; 16] {
    let mut octets = [0xFD; 16];
    octets[15] = last;
    octets
}

/// An endpoint with a peer, a profile and a QP in INIT.
fn in_init(check: impl FnOnce(&mut Endpoint<'_>, QpHandle, PeerHandle, EvProfileHandle)) {
    in_init_over(1, Limits { mpr: 8, wimm: 32, ..Limits::default() }, check);
}

/// The same over so many planes, with four EVs.
fn in_init_over(
    ports: u8,
    limits: Limits,
    check: impl FnOnce(&mut Endpoint<'_>, QpHandle, PeerHandle, EvProfileHandle),
) {
    let mut storage = OwnedStorage::new(limits).unwrap();
    let mut cfg = EndpointConfig::default();
    cfg.gids[0] = Some(Ip::V6(address(1)));
    let mut planes = [None; MAX_PORTS];
    for plane in 0..ports {
        cfg.ports[usize::from(plane)] = Some(PortConfig { mac: [2 + 2 * plane; 6], sid: None, addr: None });
        planes[usize::from(plane)] = Some(PlanePath { next_hop: [4; 6], outer_src: None });
    }
    let mut engine = Endpoint::new(cfg, storage.lend(), 1).unwrap();
    let (local, remote) = (Ip::V6(address(1)), Ip::V6(address(2)));
    let config = PeerConfig { local, remote, planes, route: Route::Plain, hop_limit: 64 };
    let peer = engine.add_peer(&config).unwrap();
    let mut entries = [EvEntry::new(Ev(0), PortNum::from_plane(0)); 4];
    compact_profile(&mut entries, ports, 4, 8).unwrap();
    let profile = engine.create_ev_profile(&entries).unwrap();
    let cq = engine.create_cq().unwrap();
    let qp = engine.create_qp(&QpInit { pd: Pd(0), send_cq: cq, recv_cq: cq }).unwrap();
    engine.modify_to_init(qp).unwrap();
    check(&mut engine, qp, peer, profile);
}

fn state(engine: &Endpoint<'_>, qp: QpHandle) -> QpState {
    engine.qp_info(qp).unwrap().state
}

/// Each plane has an EV in rotation, so that fewer than planes would leave one unused.
#[test]
fn fewer_evs_in_rotation_than_planes_are_refused_by_the_name_of_the_limit() {
    for (active_evs, expected) in [(1, Err(ModifyError::Range("limits.active_evs"))), (2, Ok(()))] {
        in_init_over(2, Limits { active_evs, ..Limits::default() }, |engine, qp, peer, profile| {
            let rtr = RtrAttr::software(peer, Qpn::new(17), Psn::new(5), profile);
            engine.modify_to_rtr(Instant::ZERO, qp, &rtr).unwrap();
            assert_eq!(engine.modify_to_rts(Instant::ZERO, qp, &RtsAttr::software(Psn::new(9))), expected);
        });
    }
}

//= QP-003 test
#[test]
fn rtr_refuses_each_bad_attribute_by_name_and_changes_nothing() {
    in_init(|engine, qp, peer, profile| {
        let good = RtrAttr::software(peer, Qpn::new(17), Psn::new(5), profile);
        let bad = [
            (RtrAttr { path_mtu: 1_000, ..good }, ModifyError::Range("path_mtu")),
            (RtrAttr { path_mtu: 8_192, ..good }, ModifyError::Range("path_mtu")),
            (RtrAttr { mpr_dest: 0, ..good }, ModifyError::Range("mpr_dest")),
            (RtrAttr { mpr_dest: 9, ..good }, ModifyError::Range("mpr_dest")),
            (RtrAttr { dest_qp: Qpn::ENDPOINT, ..good }, ModifyError::Range("dest_qp")),
            (RtrAttr { max_wimm_dest: 33, ..good }, ModifyError::Range("max_wimm_dest")),
        ];
        for (attr, why) in bad {
            assert_eq!(engine.modify_to_rtr(Instant::ZERO, qp, &attr), Err(why));
            assert_eq!(state(engine, qp), QpState::Init, "{why:?}");
        }
        // Nothing of the refused attempts holds the peer; the first number that a QP may have is good.
        engine.modify_to_rtr(Instant::ZERO, qp, &RtrAttr { dest_qp: Qpn::new(3), ..good }).unwrap();
        assert_eq!(state(engine, qp), QpState::Rtr);
        engine.destroy_qp(qp).unwrap();
        engine.remove_peer(peer).unwrap();
    });
}

/// Of all payload limits that the attribute can hold a queue pair takes five.
//= LEN-001 test
#[test]
fn a_payload_limit_is_one_of_five() {
    in_init(|engine, qp, peer, profile| {
        let mut takes = |path_mtu: &u16| {
            let attr = RtrAttr { path_mtu: *path_mtu, ..RtrAttr::software(peer, Qpn::new(17), Psn::new(5), profile) };
            let taken = engine.modify_to_rtr(Instant::ZERO, qp, &attr);
            if taken.is_ok() {
                engine.modify_to_reset(qp).unwrap();
                engine.modify_to_init(qp).unwrap();
            }
            taken.is_ok()
        };
        let taken: Vec<_> = (0..=u16::MAX).filter(&mut takes).collect();
        assert_eq!(taken, [256, 512, 1_024, 2_048, 4_096]);
    });
}

//= QP-003 test
#[test]
fn rtr_refuses_a_peer_that_is_gone() {
    in_init(|engine, qp, peer, profile| {
        engine.remove_peer(peer).unwrap();
        let attr = RtrAttr::software(peer, Qpn::new(17), Psn::new(5), profile);
        assert_eq!(engine.modify_to_rtr(Instant::ZERO, qp, &attr), Err(ModifyError::Missing("peer")));
        assert_eq!(state(engine, qp), QpState::Init);
    });
}

//= QP-003 test
#[test]
fn rts_refuses_each_bad_attribute_by_name_and_changes_nothing() {
    in_init(|engine, qp, peer, profile| {
        let good = RtsAttr::software(Psn::new(9));
        assert!(engine.modify_to_rts(Instant::ZERO, qp, &good).is_err(), "not from INIT");
        assert_eq!(state(engine, qp), QpState::Init);
        engine.modify_to_rtr(Instant::ZERO, qp, &RtrAttr::software(peer, Qpn::new(17), Psn::new(5), profile)).unwrap();
        let retry =
            |timeout, linear, exponential| RtsAttr { retry: RetryConfig { timeout, linear, exponential }, ..good };
        let bad = [
            (RtsAttr { mpr: 0, ..good }, ModifyError::Range("mpr")),
            (RtsAttr { mpr: 9, ..good }, ModifyError::Range("mpr")),
            (retry(25, 4, 3), ModifyError::Range("retry.timeout")),
            (retry(14, 8, 3), ModifyError::Range("retry.linear")),
            (retry(14, 4, 26), ModifyError::Range("retry.exponential")),
            (RtsAttr { base_rtt_ns: 0, ..good }, ModifyError::Range("base_rtt_ns")),
            (RtsAttr { base_rtt_ns: 1_000_000_001, ..good }, ModifyError::Range("base_rtt_ns")),
            (RtsAttr { target_delay_ns: 1_000_000_001, ..good }, ModifyError::Range("target_delay_ns")),
            (RtsAttr { reorder_delay_ns: 1_000_000_001, ..good }, ModifyError::Range("reorder_delay_ns")),
            (RtsAttr { tail_probe_ns: 1_000_000_001, ..good }, ModifyError::Range("tail_probe_ns")),
        ];
        for (attr, why) in bad {
            assert_eq!(engine.modify_to_rts(Instant::ZERO, qp, &attr), Err(why));
            assert_eq!(state(engine, qp), QpState::Rtr, "{why:?}");
        }
        let selector = Selector::Hopper(HopperConfig { alpha_percent: 101, ..HopperConfig::default() });
        let refused = engine.modify_to_rts(Instant::ZERO, qp, &RtsAttr { selector, ..good });
        assert!(matches!(refused, Err(ModifyError::Range(text)) if text.contains("alpha_percent")), "{refused:?}");
        assert_eq!(state(engine, qp), QpState::Rtr);
        let longest = 1_000_000_000;
        let widest = RtsAttr {
            mpr: 8,
            retry: RetryConfig { timeout: 24, linear: 7, exponential: 25 },
            base_rtt_ns: longest,
            target_delay_ns: longest,
            reorder_delay_ns: longest,
            tail_probe_ns: longest,
            ..good
        };
        engine.modify_to_rts(Instant::ZERO, qp, &widest).unwrap();
        assert_eq!(state(engine, qp), QpState::Rts);
    });
}

/// The application may widen and narrow the window of a responder within its storage, where both sides agreed on that.
//= DMPR-001, CAP-003 test
#[test]
fn a_window_changes_within_its_storage_only() {
    in_init(|engine, qp, peer, profile| {
        for dynamic_mpr in [false, true] {
            let rtr = RtrAttr { dynamic_mpr, ..RtrAttr::software(peer, Qpn::new(17), Psn::new(5), profile) };
            engine.modify_to_rtr(Instant::ZERO, qp, &rtr).unwrap();
            let allowed = if dynamic_mpr { Ok(()) } else { Err(ModifyError::Missing("Dynamic MPR")) };
            assert_eq!([1, 7, 8].map(|mpr| engine.set_mpr(qp, mpr)), [allowed; 3]);
            let range = allowed.and(Err(ModifyError::Range("mpr")));
            assert_eq!([0, 9, 255].map(|mpr| engine.set_mpr(qp, mpr)), [range; 3]);
            engine.modify_to_reset(qp).unwrap();
            engine.modify_to_init(qp).unwrap();
        }
    });
}

/// A queue pair that was reset has its protection domain and its completion queues as before, whatever else there is.
//= QP-001 test
#[test]
fn a_reset_queue_pair_keeps_its_domain_and_its_queues() {
    in_init(|engine, other, peer, profile| {
        let (mine, foreign) = (Pd(3), Pd(0));
        let range = MemRange { va: 0x1_000, len: 64 };
        let [own, not_own] = [mine, foreign].map(|pd| engine.register_mr(pd, range, Access::REMOTE_WRITE).unwrap());
        let [lkey, foreign_key] = [own, not_own].map(|mr| engine.key(mr).unwrap().0);
        let [send_cq, recv_cq] = [(); 2].map(|()| engine.create_cq().unwrap());
        let qp = engine.create_qp(&QpInit { pd: mine, send_cq, recv_cq }).unwrap();
        assert_eq!((qp.index() == other.index(), QpHandle::from_parts(qp.index() as u32, qp.qpn())), (false, qp));
        for life in 0..2 {
            engine.modify_to_init(qp).unwrap();
            let rtr = RtrAttr::software(peer, Qpn::new(17), Psn::new(5), profile);
            engine.modify_to_rtr(Instant::ZERO, qp, &rtr).unwrap();
            engine.modify_to_rts(Instant::ZERO, qp, &RtsAttr::software(Psn::new(9))).unwrap();
            let wr = SendWr { wr_id: 1, lkey, local_va: 0x1_000, len: 64, signaled: true, ..SendWr::default() };
            let mut post = |wr: SendWr| engine.post_send(Instant::ZERO, qp, &wr);
            assert_eq!(post(SendWr { lkey: foreign_key, ..wr }), Err(PostError::LocalKey), "life {life}");
            assert_eq!(post(SendWr { lkey: lkey ^ 1 << 20, ..wr }), Err(PostError::LocalKey));
            for (local_va, len) in [(0xFFF, 1), (0x1_001, 64), (0x1_040, 1), (u64::MAX, 1)] {
                assert_eq!(post(SendWr { local_va, len, ..wr }), Err(PostError::LocalBounds), "{local_va:#x}");
            }
            assert_eq!(post(wr), Ok(()));
            engine.post_recv(qp, 2).unwrap();
            for cq in [send_cq, recv_cq] {
                assert_eq!(engine.destroy_cq(cq), Err(TableError::Busy("completion queue")));
            }
            engine.modify_to_error(Instant::ZERO, qp).unwrap();
            let done = [send_cq, recv_cq, CqHandle::from_index(0)].map(|cq| engine.poll_completion(cq));
            assert_eq!(done.map(|done| done.map(|done| done.wr_id)), [Some(1), Some(2), None], "life {life}");
            engine.modify_to_reset(qp).unwrap();
        }
        engine.destroy_qp(qp).unwrap();
        assert_eq!([send_cq, recv_cq].map(|cq| engine.destroy_cq(cq)), [Ok(()); 2]);
    });
}

/// A request that the driver had taken is refused: the queue pair failed, and says with what; the application asked for nothing.
//= ERR-001 test
#[test]
fn a_refused_request_is_no_wish_of_the_application() {
    in_init(|engine, qp, _, _| {
        engine.post_recv(qp, 7).unwrap();
        engine.fail_post(Instant::ZERO, qp).unwrap();
        let cause = engine.qp_info(qp).unwrap().cause.unwrap();
        assert_eq!((cause, state(engine, qp)), (ErrorCause::PostRefused, QpState::Error));
        assert!(!cause.text().contains("application") && engine.stats().qp_errors == 1);
        assert_eq!(
            engine.poll_completion(CqHandle::from_index(0)).map(|done| (done.wr_id, done.status)),
            Some((7, Status::Flushed))
        );
        engine.modify_to_reset(qp).unwrap();
        engine.destroy_qp(qp).unwrap();
        assert_eq!(engine.fail_post(Instant::ZERO, qp), Err(ModifyError::Unknown));
    });
}

/// Completions that wait for room in one queue wait for no other one.
//= INV-002 test
#[test]
fn room_in_a_completion_queue_is_for_those_who_wait_for_it() {
    in_init(|engine, _, _, _| {
        let [sends, receives] = [(); 2].map(|()| engine.create_cq().unwrap());
        // Both fill both queues. In ERROR a request completes at once, or waits for room.
        let qps = [(sends, receives), (receives, sends)].map(|(send_cq, recv_cq)| {
            let qp = engine.create_qp(&QpInit { pd: Pd(0), send_cq, recv_cq }).unwrap();
            engine.modify_to_init(qp).unwrap();
            engine.modify_to_error(Instant::ZERO, qp).unwrap();
            qp
        });
        for wr_id in 0..200 {
            let wr = SendWr { wr_id, signaled: true, ..SendWr::default() };
            qps.iter().for_each(|&qp| engine.post_send(Instant::ZERO, qp, &wr).unwrap());
            qps.iter().for_each(|&qp| engine.post_recv(qp, wr_id).unwrap());
        }
        assert!(engine.limits().cq_depth < 400);
        let poll = |engine: &mut Endpoint<'_>, cq| std::iter::from_fn(|| engine.poll_completion(cq)).count();
        assert_eq!(poll(engine, sends), 400, "while the other one is full");
        assert_eq!((poll(engine, receives), poll(engine, sends)), (400, 0));
    });
}
