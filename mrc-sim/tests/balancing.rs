//! CONGA, ConWeave and Reunion in fabrics with bare load: what each promises of paths and of order.

use std::collections::{BTreeMap, BTreeSet};

use mrc_core::Instant;
use mrc_sim::traffic::{Flow, Generator};
use mrc_sim::{Clos, EcnSpec, LinkSpec, QueueSpec, Scheme, Sim, address, scheme};
use mrc_wire::PortNum;

const DATA: u8 = 4 << 2 | 0b10;

fn us(us: u64) -> Instant {
    Instant::from_nanos(us * 1_000)
}

fn named(name: &str, params: &[(&str, f64)]) -> Scheme {
    params.iter().fold(scheme::named(name).unwrap(), |scheme, (key, value)| scheme.with(key, *value).unwrap())
}

/// One plane of 4 leaves with 4 hosts each and 4 spines, 100 Gb/s, queues that never overflow.
fn clos(scheme: Scheme) -> Clos {
    let ecn = EcnSpec::step(100_000);
    let queue = QueueSpec { data_bytes: 100_000_000, ecn: Some(ecn), ..QueueSpec::default() };
    Clos { planes: 1, t0: 4, t1: 4, hosts: 16, queue, scheme, ..Clos::default() }
}

fn flow(to: u32, start: Instant, count: u32) -> Flow {
    Flow { start, port: PortNum::from_plane(0), dst: address::gid(to), traffic_class: DATA, wire_len: 1_250, count }
}

/// Host h sends to host h + 4 `shift` (another leaf), 1250 bytes every 100 ns, all from 0 on; hosts of `idle` do not.
fn permutation(clos: Clos, count: u32, idle: &[u32]) -> Sim<Generator> {
    Sim::new(clos, 3, (), |host| {
        let flows = if idle.contains(&host) { Vec::new() } else { vec![flow((host + 4) % 16, Instant::ZERO, count)] };
        Generator::new(flows).recording()
    })
    .unwrap()
}

/// Packets that came after a later one of their flow.
fn reordered(sim: &Sim<Generator>) -> usize {
    let late = |host: u32| {
        let mut latest: BTreeMap<u32, u32> = BTreeMap::new();
        sim.host(host)
            .arrivals()
            .iter()
            .filter(|packet| {
                let latest = latest.entry(packet.flow).or_default();
                let late = packet.seq < *latest;
                *latest = packet.seq.max(*latest);
                late
            })
            .count()
    };
    (0..16).map(late).sum()
}

#[test]
fn conga_gives_flows_that_begin_one_by_one_an_uplink_each() {
    let clos = clos(named("conga", &[]));
    let mut sim = Sim::new(clos, 3, (), |host| {
        let start = us(u64::from(host) * 200);
        Generator::new(if host < 4 { vec![flow(host + 4, start, 10_000)] } else { Vec::new() })
    })
    .unwrap();
    sim.run_until(us(1_000));
    let uplinks: Vec<u64> =
        (0..4).map(|t1| sim.port_counters(clos.fabric_link_id(0, 0, t1).lower()).tx_packets).collect();
    assert!(uplinks.iter().all(|&packets| packets > 3_000), "{uplinks:?}");
}

/// Short flows one after another; one path is slow behind the spine, which only feedback can tell.
fn share_of_slow(name: &str) -> f64 {
    let clos = clos(named(name, &[]));
    let mut sim = Sim::new(clos, 3, (), |host| match host {
        0 => Generator::new((0..400).map(|nth| flow(4, us(nth * 20), 40)).collect()),
        4 => Generator::new(Vec::new()).echoing(address::gid(0)),
        _ => Generator::new(Vec::new()),
    })
    .unwrap();
    sim.set_link(clos.fabric_link_id(0, 1, 2), LinkSpec::new(10, 500));
    sim.run_until(us(2_000));
    let port = clos.fabric_link_id(0, 1, 2).upper();
    let before = sim.port_counters(port).tx_packets + u64::from(sim.queued_bytes(port)) / 1_250;
    sim.run_until(us(8_000));
    (sim.port_counters(port).tx_packets + u64::from(sim.queued_bytes(port)) / 1_250 - before) as f64 / 12_000.0
}

#[test]
fn conga_avoids_a_path_that_is_slow_behind_the_spine() {
    let (conga, letflow) = (share_of_slow("conga"), share_of_slow("letflow"));
    assert!(letflow > 0.15, "a random choice does not know: {letflow}");
    assert!(conga < letflow / 2.0, "{conga} of the packets, LetFlow {letflow}");
}

/// Sixteen hosts at line rate: paths collide all the time, flows are rerouted, and no host sees it.
#[test]
fn conweave_never_reorders() {
    let mut sim = permutation(clos(named("conweave", &[])), 5_000, &[]);
    assert!(sim.run_to_quiet(us(20_000)));
    assert_eq!((0..16).map(|host| sim.host(host).received()).sum::<u64>(), 80_000);
    assert_eq!(reordered(&sim), 0);
    // The proof that something happened: messages of its own, and flows on several paths.
    assert!(sim.counters().emitted > 100 && sim.counters().consumed == sim.counters().emitted);
    let leaf = *sim.clos();
    let used = |t1| sim.port_counters(leaf.fabric_link_id(0, 0, t1).lower()).tx_packets;
    assert!((0..4).all(|t1| used(t1) > 500), "{:?}", [used(0), used(1), used(2), used(3)]);
    // The same load under random spraying arrives in another order.
    let mut sim = permutation(clos(named("rps", &[])), 5_000, &[]);
    assert!(sim.run_to_quiet(us(20_000)));
    assert!(reordered(&sim) > 1_000);
}

/// A source leaf alone: one flow collides with another, its reply is late, it moves, and the queue holds its new path back.
#[test]
fn conweave_moves_a_flow_whose_reply_is_late() {
    let clos = clos(named("conweave", &[]));
    let mut sim = permutation(clos, 5_000, &(2..16).collect::<Vec<_>>());
    // Two flows, the uplinks of the first two spines at a tenth: whoever begins there leaves.
    for t1 in [0, 1] {
        sim.set_link(clos.fabric_link_id(0, 0, t1), LinkSpec::new(10, 500));
    }
    assert!(sim.run_to_quiet(us(20_000)));
    let used: u64 = (0..2).map(|t1| sim.port_counters(clos.fabric_link_id(0, 0, t1).lower()).tx_packets).sum();
    assert!(used < 3_000, "{used} of 10000 packets on the slow half");
    assert_eq!((reordered(&sim), sim.host(4).received() + sim.host(5).received()), (0, 10_000));
}

/// Elephants by fabric link and direction in the last part of the run: the flows whose packets cross it.
fn collisions(sim: &mut Sim<Generator>, from: Instant, until: Instant) -> Vec<f64> {
    let clos = *sim.clos();
    let ports: Vec<_> = (0..4u16)
        .flat_map(|t0| (0..4u16).map(move |t1| (t0, t1)))
        .flat_map(|(t0, t1)| [clos.fabric_link_id(0, t0, t1).lower(), clos.fabric_link_id(0, t0, t1).upper()])
        .collect();
    sim.run_until(from);
    let before: Vec<u64> = ports.iter().map(|&port| sim.port_counters(port).tx_bytes).collect();
    sim.run_until(until);
    let line = until.since(from) as f64 * 12.5;
    ports.iter().zip(before).map(|(&port, before)| (sim.port_counters(port).tx_bytes - before) as f64 / line).collect()
}

#[test]
fn reunion_ends_without_collision_where_paths_are_left() {
    // Three of four hosts send: 75 % of the uplinks.
    let idle = [3, 7, 11, 15];
    let scheme = named("reunion", &[("interval_us", 50.0)]);
    let mut sim = permutation(clos(scheme), 50_000, &idle);
    let loads = collisions(&mut sim, us(2_500), us(3_000));
    let used = loads.iter().filter(|&&load| load > 0.9).count();
    assert!(loads.iter().all(|load| !(0.1..=0.9).contains(load)), "each link carries one elephant or none: {loads:?}");
    assert_eq!(used, 24, "twelve flows over two links each");
    assert!(sim.counters().emitted > 0 && sim.counters().consumed == sim.counters().emitted);
    // ECMP leaves them where the hash has put them: fewer links, hence collisions.
    let mut sim = permutation(clos(named("ecmp", &[])), 50_000, &idle);
    let used = collisions(&mut sim, us(500), us(1_000)).iter().filter(|&&load| load > 0.9).count();
    assert!(used < 24, "{used}");
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    let clos = clos(named("ecmp", &[]));
    let refused = |scheme: Scheme, clos: &Clos| scheme.check(clos).unwrap_err();
    for name in ["conga", "conweave", "reunion"] {
        assert_eq!(named(name, &[]).check(&clos), Ok(()));
        let one = Clos { t1: 1, ..clos };
        assert!(refused(named(name, &[]), &one).contains("no alternative path"));
    }
    // CONGA counts uplinks from 1 in eight bits.
    assert_eq!(named("conga", &[]).check(&Clos { t1: 255, ..clos }), Ok(()));
    assert!(refused(named("conga", &[]), &Clos { t1: 256, ..clos }).contains("255 spines"));
    assert!(refused(named("reunion", &[]), &Clos { t0: 129, ..clos }).contains("128 leaves"));
    assert!(refused(named("conweave", &[("inactive_us", 10.0)]), &clos).contains("resume_us"));
    assert!(refused(named("reunion", &[("interval_us", 3.0)]), &clos).contains("interval_us"));
    for (name, key, value) in [("reunion", "tolerance", 0.0), ("conga", "bits", 0.0), ("conweave", "reply_us", 0.0)] {
        assert!(scheme::named(name).unwrap().with(key, value).is_err(), "{name} {key}");
    }
    let names: BTreeSet<&str> = scheme::SCHEMES.iter().map(|info| info.name).collect();
    for name in ["ecmp", "wcmp", "rps", "drill", "letflow", "conga", "conweave", "reunion"] {
        assert!(names.contains(name));
    }
}
