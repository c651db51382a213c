//! Handles of objects that are gone: nobody answers to them, not even the next object in the same slot.

mod common;

use common::{Setup, Weather, address, net};
use mrc_core::cc::CcConfig;
use mrc_core::path::{EvEntry, EvFormat, ProfileError};
use mrc_core::{
    Endpoint, EvEventMask, EvMode, EvProfileConfig, EvProfileHandle, Instant, MAX_PORTS, ModifyError, OpError,
    OpRequest, Pd, PeerConfig, PeerHandle, PlanePath, PortMask, PostError, QpHandle, QpInit, Route, RtrAttr, RtsAttr,
    SendWr, TableError,
};
use mrc_wire::{EndpointOp, Ev, PortNum, Psn, Qpn};

const PORT: PortNum = PortNum::from_plane(0);

fn config() -> PeerConfig {
    let mut planes = [None; MAX_PORTS];
    planes[0] = Some(PlanePath { next_hop: [4; 6], outer_src: None });
    PeerConfig { local: address(0, false), remote: address(7, false), planes, route: Route::Plain, hop_limit: 64 }
}

#[test]
fn a_stale_completion_queue_is_nobodys() {
    net(1, &Setup::default(), Weather::default(), |net| {
        let engine = &mut net.sides[0].engine;
        let stale = engine.create_cq().unwrap();
        // A completion is left in it.
        let init = QpInit { pd: Pd(0), send_cq: stale, recv_cq: stale };
        let qp = engine.create_qp(&init).unwrap();
        engine.modify_to_init(qp).unwrap();
        engine.post_recv(qp, 5).unwrap();
        engine.modify_to_error(Instant::ZERO, qp).unwrap();
        engine.destroy_qp(qp).unwrap();
        engine.destroy_cq(stale).unwrap();
        for round in 0..2 {
            assert_eq!(engine.poll_completion(stale), None, "round {round}");
            assert_eq!(engine.destroy_cq(stale), Err(TableError::Unknown("completion queue")));
            assert_eq!(engine.create_qp(&init), Err(TableError::Unknown("completion queue")));
            if round == 0 {
                let next = engine.create_cq().unwrap();
                assert_eq!(next.index(), stale.index());
                assert_ne!(next, stale);
            }
        }
    });
}

#[test]
fn a_stale_peer_is_nobody() {
    net(1, &Setup::default(), Weather::default(), |net| {
        let (profile, qp) = (net.sides[0].profile.unwrap(), net.sides[0].qps[0]);
        let engine = &mut net.sides[0].engine;
        let stale = engine.add_peer(&config()).unwrap();
        engine.remove_peer(stale).unwrap();
        let next = engine.add_peer(&config()).unwrap();
        assert_eq!((next.index(), next.generation()), (stale.index(), stale.generation() + 1));
        assert_eq!(engine.peer_ports(stale), None);
        assert_eq!(engine.peer_ports(next), Some(PortMask::ALL));
        let probe = OpRequest {
            cookie: 1,
            op: EndpointOp::EvProbe,
            ports: PortMask::NONE,
            path: EvEntry::new(Ev(4), PORT),
            dscp: None,
            timeout_ns: 1,
        };
        assert_eq!(engine.post_endpoint_op(stale, &probe), Err(OpError::Peer));
        assert_eq!(engine.post_endpoint_op(next, &probe), Ok(()));
        let address = address(0, false);
        let unknown = Err(TableError::Unknown("peer"));
        assert_eq!(engine.set_plane_addresses(stale, PORT, address, address), unknown);
        engine.modify_to_reset(qp).unwrap();
        engine.modify_to_init(qp).unwrap();
        let mut rtr = |peer: PeerHandle| {
            engine.modify_to_rtr(Instant::ZERO, qp, &RtrAttr::software(peer, Qpn::new(9), Psn::new(0), profile))
        };
        assert_eq!(rtr(stale), Err(ModifyError::Missing("peer")));
        assert_eq!(rtr(next), Ok(()));
        assert_eq!(engine.qp_info(qp).unwrap().peer, Some(next));
        engine.modify_to_reset(qp).unwrap();
        assert_eq!(engine.remove_peer(stale), unknown);
        assert_eq!(engine.remove_peer(next), Ok(()));
    });
}

#[test]
fn stale_profiles_are_unknown() {
    net(1, &Setup::default(), Weather::default(), |net| {
        let (peer, qp) = (net.sides[0].peer.unwrap(), net.sides[0].qps[0]);
        let engine = &mut net.sides[0].engine;
        let entry = [EvEntry::new(Ev(4), PORT)];
        let stale = engine.create_ev_profile(&entry).unwrap();
        engine.destroy_ev_profile(stale).unwrap();
        let next = engine.create_ev_profile(&entry).unwrap();
        assert_eq!((next.index(), next.generation()), (stale.index(), stale.generation() + 1));
        assert!(engine.ev_profile_info(stale).is_none() && engine.ev_profile_info(next).is_some());
        assert!(engine.ev_profiles().any(|profile| profile == next));
        assert_eq!(engine.destroy_ev_profile(stale), Err(ProfileError::Unknown));
        // One that is configured is the one that was opened.
        let opened = engine.open_ev_profile(3).unwrap();
        engine.destroy_ev_profile(opened).unwrap();
        let opened = engine.open_ev_profile(3).unwrap();
        let config = EvProfileConfig {
            mode: EvMode::Auto,
            format: EvFormat::UDP,
            fields: &[],
            count: 4,
            min_active: 0,
            events: EvEventMask::default(),
            paths: &[],
        };
        engine.configure_ev_profile(opened, &config).unwrap();
        assert_eq!(engine.ev_profile_info(opened).map(|info| info.count), Some(4));
        engine.destroy_ev_profile(opened).unwrap();
        let cc = CcConfig::Fixed { window_bytes: 9_000 };
        let stale_cc = engine.create_cc_profile(&cc).unwrap();
        engine.destroy_cc_profile(stale_cc).unwrap();
        let next_cc = engine.create_cc_profile(&cc).unwrap();
        assert_eq!((next_cc.index(), next_cc.generation()), (stale_cc.index(), stale_cc.generation() + 1));
        assert!(engine.cc_profile(stale_cc).is_none() && engine.cc_profile(next_cc).is_some());
        let unknown = Err(TableError::Unknown("congestion-control profile"));
        assert_eq!(engine.modify_cc_profile(stale_cc, &cc), unknown);
        assert_eq!(engine.destroy_cc_profile(stale_cc), unknown);
        engine.modify_to_reset(qp).unwrap();
        engine.modify_to_init(qp).unwrap();
        let rtr = |profile: EvProfileHandle| RtrAttr::software(peer, Qpn::new(9), Psn::new(0), profile);
        let missing = Err(ModifyError::Missing("EV profile"));
        assert_eq!(engine.modify_to_rtr(Instant::ZERO, qp, &rtr(stale)), missing);
        assert_eq!(engine.modify_to_rtr(Instant::ZERO, qp, &rtr(next)), Ok(()));
        let mut rts = RtsAttr { mpr: 8, ..RtsAttr::software(Psn::new(0)) };
        rts.cc = Some(stale_cc);
        let missing = Err(ModifyError::Missing("congestion-control profile"));
        assert_eq!(engine.modify_to_rts(Instant::ZERO, qp, &rts), missing);
        rts.cc = Some(next_cc);
        assert_eq!(engine.modify_to_rts(Instant::ZERO, qp, &rts), Ok(()));
        assert_eq!(engine.qp_info(qp).unwrap().ev_profile, Some(next));
    });
}

/// A request of an application that kept the handle too long is refused, and so is one that mixes up two handles.
#[test]
fn a_stale_queue_pair_takes_no_request() {
    net(1, &Setup { qps: 2, ..Setup::default() }, Weather::default(), |net| {
        let (cq, qps) = (net.sides[0].cq, net.sides[0].qps.clone());
        let engine = &mut net.sides[0].engine;
        let mixed = QpHandle::from_parts(qps[0].index() as u32, qps[1].qpn());
        let refuses = |engine: &mut Endpoint<'_>, qp| {
            assert_eq!(engine.post_send(Instant::ZERO, qp, &SendWr::default()), Err(PostError::UnknownQp));
            assert_eq!(engine.post_recv(qp, 1), Err(PostError::UnknownQp));
        };
        refuses(engine, mixed);
        engine.destroy_qp(qps[0]).unwrap();
        refuses(engine, qps[0]);
        let next = engine.create_qp(&QpInit { pd: Pd(0), send_cq: cq, recv_cq: cq }).unwrap();
        assert_eq!(next.index(), qps[0].index());
        refuses(engine, qps[0]);
        engine.modify_to_init(next).unwrap();
        engine.modify_to_error(Instant::ZERO, next).unwrap();
        refuses(engine, qps[0]);
        assert_eq!(engine.post_send(Instant::ZERO, next, &SendWr::default()), Ok(()));
    });
}

/// A number that no table has names nothing.
#[test]
fn a_handle_of_no_slot_is_unknown() {
    net(1, &Setup::default(), Weather::default(), |net| {
        let engine = &mut net.sides[0].engine;
        for index in [60_000, 65_535, 65_536, u32::MAX] {
            assert_eq!(engine.peer_ports(PeerHandle::from_index(index)), None, "{index}");
            assert!(engine.ev_profile_info(EvProfileHandle::from_index(index)).is_none(), "{index}");
            assert!(engine.qp_info(QpHandle::from_parts(index, Qpn::new(index))).is_none());
        }
    });
}
