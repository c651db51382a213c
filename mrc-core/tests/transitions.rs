//! What the transitions of a QP demand: an attribute that is missing or out of its range is refused by name, and nothing
//! of the attempt remains.

use mrc_core::path::{EvEntry, compact_profile};
use mrc_core::{
    CqHandle, Endpoint, EndpointConfig, ErrorCause, EvProfileHandle, Instant, Limits, MAX_PORTS, ModifyError,
    OwnedStorage, Pd, PeerConfig, PeerHandle, PlanePath, PortConfig, QpHandle, QpInit, QpState, RetryConfig, Route,
    RtrAttr, RtsAttr, Status,
};
use mrc_wire::{Ev, Ip, PortNum, Psn, Qpn};

fn address(last: u8) -> [u8; 16] {
    let mut octets = [0xFD; 16];
    octets[15] = last;
    octets
}

/// An endpoint with a peer, a profile and a QP in INIT.
fn in_init(check: impl FnOnce(&mut Endpoint<'_>, QpHandle, PeerHandle, EvProfileHandle)) {
    let mut storage = OwnedStorage::new(Limits { mpr: 8, wimm: 32, ..Limits::default() }).unwrap();
    let mut cfg = EndpointConfig::default();
    cfg.gids[0] = Some(Ip::V6(address(1)));
    cfg.ports[0] = Some(PortConfig { mac: [2; 6], sid: None, addr: None });
    let mut engine = Endpoint::new(cfg, storage.lend(), 1).unwrap();
    let mut planes = [None; MAX_PORTS];
    planes[0] = Some(PlanePath { next_hop: [4; 6], outer_src: None });
    let (local, remote) = (Ip::V6(address(1)), Ip::V6(address(2)));
    let config = PeerConfig { local, remote, planes, route: Route::Plain, hop_limit: 64 };
    let peer = engine.add_peer(&config).unwrap();
    let mut entries = [EvEntry::new(Ev(0), PortNum::from_plane(0)); 4];
    compact_profile(&mut entries, 1, 4, 8).unwrap();
    let profile = engine.create_ev_profile(&entries).unwrap();
    let cq = engine.create_cq().unwrap();
    let qp = engine.create_qp(&QpInit { pd: Pd(0), send_cq: cq, recv_cq: cq }).unwrap();
    engine.modify_to_init(qp).unwrap();
    check(&mut engine, qp, peer, profile);
}

fn state(engine: &Endpoint<'_>, qp: QpHandle) -> QpState {
    engine.qp_info(qp).unwrap().state
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
        // Nothing of the refused attempts holds the peer.
        engine.modify_to_rtr(Instant::ZERO, qp, &good).unwrap();
        assert_eq!(state(engine, qp), QpState::Rtr);
        engine.destroy_qp(qp).unwrap();
        engine.remove_peer(peer).unwrap();
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
        engine.modify_to_rts(Instant::ZERO, qp, &good).unwrap();
        assert_eq!(state(engine, qp), QpState::Rts);
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
