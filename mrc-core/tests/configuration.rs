//! What an endpoint refuses to be built from, each time naming the field.

use std::collections::BTreeSet;

use mrc_core::path::EvEntry;
use mrc_core::{
    Access, ConfigError, Endpoint, EndpointConfig, Instant, Limits, MAX_PORTS, MemRange, ModifyError, OwnedStorage, Pd,
    PeerConfig, PlanePath, PortConfig, QpInit, Rng, Route, RtrAttr, Seed, Storage,
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
    let mut cfg = config();
    (cfg.wire.neth_cc_type, cfg.wimm_nak_syndrome) = (15, 0x7F);
    assert!(Endpoint::new(cfg, OwnedStorage::new(Limits::default()).unwrap().lend(), 1).is_ok());
    for syndrome in [0x00, 0x1F, 0x20, 0x60, 0x80] {
        assert_eq!(refused(|cfg| cfg.wimm_nak_syndrome = syndrome), "wimm_nak_syndrome", "{syndrome:#x}");
    }
    assert_eq!(refused(|cfg| cfg.gids[0] = None), "gids");
    assert_eq!(refused(|cfg| cfg.ports[0].as_mut().unwrap().mac[0] = 1), "ports.mac");
    assert_eq!(refused(|cfg| cfg.bitmap_reach = 62), "bitmap_reach");
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

/// Each limit takes the ends of its documented range and nothing beyond them; the refusal names it.
#[test]
fn each_limit_takes_its_whole_range_and_no_more() {
    type Set = fn(&mut Limits, usize);
    let whole: [(&str, Set, usize, usize); 16] = [
        ("qps", |l, n| l.qps = n, 1, 65_536),
        ("mpr", |l, n| l.mpr = n, 1, 256),
        ("send_queue", |l, n| l.send_queue = n, 1, 1 << 20),
        ("recv_queue", |l, n| l.recv_queue = n, 0, 1 << 20),
        ("wimm", |l, n| l.wimm = n, 0, 65_535),
        ("evs", |l, n| (l.evs, l.active_evs) = (n, 1), 1, 4_096),
        ("evs", |l, n| (l.evs, l.active_evs) = (7, n), 1, 7),
        ("cqs", |l, n| l.cqs = n, 1, 65_536),
        ("cq_depth", |l, n| l.cq_depth = n, 1, 1 << 20),
        ("mrs", |l, n| l.mrs = n, 1, 65_536),
        ("peers", |l, n| l.peers = n, 1, 65_536),
        ("planes", |l, n| l.planes = n, 1, 8),
        ("ev_profiles", |l, n| l.ev_profiles = n, 1, 65_536),
        ("profile_evs", |l, n| l.profile_evs = n, 1, 65_535),
        ("cc_profiles", |l, n| l.cc_profiles = n, 1, 65_536),
        ("qpccs", |l, n| l.qpccs = n, 1, 65_536),
    ];
    let check = |set: Set, n| {
        let mut limits = Limits::default();
        set(&mut limits, n);
        limits.check()
    };
    let refuses = |what, set, n| assert_eq!(check(set, n), Err(ConfigError::Range { what }), "{what} = {n}");
    for (what, set, least, most) in whole {
        assert_eq!((check(set, least), check(set, most)), (Ok(()), Ok(())), "{what}");
        if least > 0 {
            refuses(what, set, least - 1);
        }
        // Twice as much, too, since some limits are powers of two.
        refuses(what, set, most + 1);
        refuses(what, set, 2 * most + 2);
        refuses(what, set, (most + 1).next_power_of_two() * 2);
    }
    let powers: [(&str, Set); 5] = [
        ("mpr", |l, n| l.mpr = n),
        ("send_queue", |l, n| l.send_queue = n),
        ("recv_queue", |l, n| l.recv_queue = n),
        ("cq_depth", |l, n| l.cq_depth = n),
        ("tx_packets", |l, n| l.tx_packets = n),
    ];
    for (what, set) in powers {
        assert_eq!(check(set, 64), Ok(()), "{what}");
        refuses(what, set, 48);
    }
    let (tx_packets, refusals): (Set, Set) = (|l, n| l.tx_packets = n, |l, n| l.refusals = n);
    assert_eq!(check(tx_packets, 8), Ok(()));
    refuses("tx_packets", tx_packets, 4);
    // From a whole window on, which is 1 024 packets here, nothing need be a power of two.
    refuses("tx_packets", tx_packets, 1_023);
    assert_eq!((check(tx_packets, 1_024), check(tx_packets, 1_025)), (Ok(()), Ok(())));
    assert_eq!((check(refusals, 0), check(refusals, 65_536)), (Ok(()), Ok(())));
    refuses("refusals", refusals, 65_537);
    refuses("refusals", refusals, 65_538);
}

macro_rules! lent_bytes {
    ($($(#[$doc:meta])* $field:ident: $ty:ty, $empty:expr, |$l:ident| $count:expr;)*) => {
        fn lent_bytes(storage: &Storage<'_>) -> usize {
            0 $(+ size_of_val::<[_]>(storage.$field))*
        }
    };
}

mrc_core::storage_slices!(lent_bytes);

/// What an embedder adds for one queue pair more, and for a peer whether micro-SIDs lead to it or not.
#[test]
fn a_queue_pair_costs_what_the_limits_say() {
    let bytes = |limits: Limits| lent_bytes(&OwnedStorage::new(limits).unwrap().lend());
    let usual = Limits::default();
    let uneven =
        Limits { mpr: 1, tx_packets: 32, send_queue: 4, recv_queue: 0, wimm: 3, evs: 5, active_evs: 2, ..usual };
    for limits in [usual, uneven, Limits { recv_queue: 2, ..uneven }] {
        let more = Limits { qps: limits.qps + 3, ..limits };
        assert_eq!(bytes(more) - bytes(limits), 3 * limits.bytes_per_qp(), "{limits:?}");
    }
    assert_eq!(usual.routes(), usual.peers, "all of them");
    for srv6_peers in 0..=usual.peers {
        assert_eq!(Limits { srv6_peers, ..usual }.routes(), srv6_peers);
    }
}
