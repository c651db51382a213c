//! What an endpoint refuses to be built from, each time naming the field.

use std::collections::BTreeSet;

use mrc_core::path::EvEntry;
use mrc_core::{
    Access, ConfigError, Endpoint, EndpointConfig, Instant, Limits, MAX_PORTS, MemRange, ModifyError, OwnedStorage, Pd,
    PeerConfig, PlanePath, PortConfig, QpInit, Rng, Route, RtrAttr, Seed,
};
use mrc_wire::{Ev, Ip, PortNum, Psn, Qpn};

fn config() -> EndpointConfig {
    let mut cfg = EndpointConfig::default();
    cfg.gids[0] = Some(Ip::V4([192, 0, 2, 1]));
    cfg.ports[0] = Some(PortConfig { mac: [2; 6], sid: None, addr: None });
    cfg
}

fn refused(change: impl FnOnce(&mut EndpointConfig)) -> &'static str {
    let mut cfg = config();
    change(&mut cfg);
    let mut storage = OwnedStorage::new(Limits { qps: 1, ..Limits::default() }).unwrap();
    match Endpoint::new(cfg, storage.lend(), 1) {
        Err(ConfigError::Range { what }) => what,
        other => panic!("{other:?}"),
    }
}

/// Two roles with one code point could not be told apart on receipt.
//= DSCP-001 test
#[test]
fn a_wire_configuration_that_cannot_work_is_refused_by_name() {
    assert_eq!(refused(|cfg| cfg.wire.dscp.trimmed = cfg.wire.dscp.control), "wire.dscp");
    assert_eq!(refused(|cfg| cfg.wire.dscp.no_trim = 64), "wire.dscp");
    assert_eq!(refused(|cfg| cfg.wire.bth_se_bit = 5), "wire.bth_se_bit");
    assert_eq!(refused(|cfg| cfg.wire.eeth_op_bit = 3), "wire.eeth_op_bit");
    assert_eq!(refused(|cfg| cfg.wire.neth_cc_type = 16), "wire.neth_cc_type");
    for syndrome in [0x00, 0x1F, 0x20, 0x60, 0x80] {
        assert_eq!(refused(|cfg| cfg.wimm_nak_syndrome = syndrome), "wimm_nak_syndrome", "{syndrome:#x}");
    }
    assert_eq!(refused(|cfg| cfg.gids[0] = None), "gids");
    assert_eq!(refused(|cfg| cfg.ports[0] = None), "ports");
    assert_eq!(refused(|cfg| cfg.sack_gen_threshold = 0), "sack_gen_threshold");
}

/// Over IPv4 the echo brings back 16 bits of an EV: a longer one would never be found again.
//= IP4-003 test
#[test]
fn evs_of_more_than_sixteen_bits_are_refused_over_ipv4() {
    let mut storage = OwnedStorage::new(Limits { qps: 1, ..Limits::default() }).unwrap();
    let mut engine = Endpoint::new(config(), storage.lend(), 1).unwrap();
    let cq = engine.create_cq().unwrap();
    let qp = engine.create_qp(&QpInit { pd: Pd(0), send_cq: cq, recv_cq: cq }).unwrap();
    engine.modify_to_init(qp).unwrap();
    let mut planes = [None; MAX_PORTS];
    planes[0] = Some(PlanePath { next_hop: [4; 6], outer_src: None });
    let (local, remote) = (Ip::V4([192, 0, 2, 1]), Ip::V4([192, 0, 2, 2]));
    let peer = engine.add_peer(&PeerConfig { local, remote, planes, route: Route::Plain, hop_limit: 64 }).unwrap();
    let mut connect = |ev| {
        let port = PortNum::from_plane(0);
        let profile = engine.create_ev_profile(&[EvEntry::new(Ev(7), port), EvEntry::new(Ev(ev), port)]).unwrap();
        let attr = RtrAttr::software(peer, Qpn::new(5), Psn::new(0), profile);
        engine.modify_to_rtr(Instant::ZERO, qp, &attr)
    };
    assert_eq!(connect(0x1_0000), Err(ModifyError::Range("EV of more than 16 bits over IPv4")));
    assert_eq!(connect(0xFFFF), Ok(()));
}

/// Keys, QP numbers and PSNs of an endpoint, in the order in which applications would see them.
fn numbers(seed: impl Into<Seed>) -> Vec<u32> {
    let mut storage = OwnedStorage::new(Limits::default()).unwrap();
    let mut engine = Endpoint::new(config(), storage.lend(), seed).unwrap();
    let cq = engine.create_cq().unwrap();
    let mut numbers = vec![];
    for _ in 0..8 {
        let mr = engine.register_mr(Pd(0), MemRange { va: 0, len: 1 }, Access::REMOTE_WRITE).unwrap();
        numbers.push(engine.key(mr).unwrap().0 >> 6);
        let qp = engine.create_qp(&QpInit { pd: Pd(0), send_cq: cq, recv_cq: cq }).unwrap();
        numbers.push(qp.qpn().value() >> 4);
        numbers.push(engine.draw_psn().value());
    }
    numbers
}

/// Two numbers of SplitMix64 give its state. What peers learn of an endpoint is none of its numbers, whatever the seed; each
/// byte of the seed counts, and the same seed gives the same endpoint.
//= QP-008, QP-010 test
#[test]
fn numbers_that_peers_learn_do_not_tell_the_next_ones() {
    let mine = numbers(7);
    assert_eq!(mine, numbers(7));
    let mut split_mix = Rng::new(7);
    let stream: Vec<u64> = (0..64).map(|_| split_mix.next_u64()).collect();
    for known in &stream {
        assert!(!mine.contains(&((known >> 32) as u32 & 0x03FF_FFFF)), "a key out of SplitMix64");
        assert!(!mine.contains(&((known >> 40) as u32)), "a PSN out of SplitMix64");
    }
    for byte in 0..Seed::LEN {
        let mut seed = [1; Seed::LEN];
        seed[byte] = 2;
        let (one, other) = (numbers([1; Seed::LEN]), numbers(seed));
        assert!(one.iter().zip(&other).filter(|(one, other)| one == other).count() <= 1, "byte {byte} of the seed");
    }
    assert_eq!(mine.iter().collect::<BTreeSet<_>>().len(), mine.len());
}

/// A slot's QP number rests for one life: packets of the QP before may still arrive.
//= QP-010 test
#[test]
fn a_queue_pair_never_has_the_number_of_the_one_before() {
    // Many slots leave few bits to chance.
    let qps = 1 << 12;
    let limits =
        Limits { qps, mpr: 1, send_queue: 1, recv_queue: 0, wimm: 0, evs: 1, active_evs: 1, ..Limits::default() };
    let mut storage = OwnedStorage::new(limits).unwrap();
    let mut engine = Endpoint::new(config(), storage.lend(), 3).unwrap();
    let cq = engine.create_cq().unwrap();
    let init = QpInit { pd: Pd(0), send_cq: cq, recv_cq: cq };
    // The slot that follows could have number 2, which is that of endpoint operations.
    let _others = [(); 2].map(|()| engine.create_qp(&init).unwrap());
    let mut before = None;
    for _ in 0..30_000 {
        let qp = engine.create_qp(&init).unwrap();
        assert_ne!(Some(qp), before);
        assert!(qp.qpn().value() > 2, "{:?} is reserved", qp.qpn());
        engine.destroy_qp(qp).unwrap();
        before = Some(qp);
    }
}
