//! The fabric against arithmetic done by hand: paths, times, losses, repeatability.

use mrc_core::Instant;
use mrc_core::Rng;
use mrc_sim::traffic::{Flow, Generator};
use mrc_sim::{Clos, EcnSpec, Fault, LinkSpec, PortId, QueueSpec, Sim, Tap};
use mrc_wire::{PortNum, srv6};

const CONTROL: u8 = 46 << 2;
const DATA: u8 = 4 << 2 | 0b10;

fn at(ns: u64) -> Instant {
    Instant::from_nanos(ns)
}

fn port(num: u8) -> PortNum {
    PortNum::new(num).unwrap()
}

/// 2 planes, 3 T0, 2 T1, 6 hosts; 100 Gb/s up to the T0, 400 Gb/s above; 1000 B take 80 and 20 ns.
fn clos() -> Clos {
    Clos {
        planes: 2,
        t0: 3,
        t1: 2,
        hosts: 6,
        host_link: LinkSpec::new(100, 300),
        fabric_link: LinkSpec::new(400, 700),
        switch_latency_ns: 50,
        ..Clos::default()
    }
}

fn flow(clos: &Clos, plane: u8, from: u32, t1: u8, to: u32, count: u32) -> Flow {
    Flow {
        start: Instant::ZERO,
        port: PortNum::from_plane(plane),
        dst: clos.path(plane, from, t1, to),
        traffic_class: DATA,
        wire_len: 1000,
        count,
    }
}

/// A run in which only host 0 sends, and everybody records.
fn sim(clos: Clos, flows: Vec<Flow>) -> Sim<Generator> {
    Sim::new(clos, 1, (), |host| Generator::new(if host == 0 { flows.clone() } else { Vec::new() }).recording())
        .unwrap()
}

#[test]
fn a_packet_walks_the_path_of_its_micro_sids() {
    let clos = clos();
    for (plane, t1, to) in [(0, 0, 2), (0, 1, 5), (1, 0, 4), (1, 1, 3)] {
        let mut sim = sim(clos, vec![flow(&clos, plane, 0, t1, to, 1)]);
        let t0 = clos.t0_of(to);
        let hops = [
            clos.host_link_id(plane, 0).lower(),
            clos.fabric_link_id(plane, 0, t1.into()).lower(),
            clos.fabric_link_id(plane, t0, t1.into()).upper(),
            clos.host_link_id(plane, to).upper(),
        ];
        sim.attach_tap(Tap::around(Instant::FAR, 100, 0), &hops);
        assert!(sim.run_to_quiet(at(1_000_000)));

        // The golden walk: the destination seen on each link is the previous one shifted.
        let mut expect = Vec::new();
        let mut dst = clos.path(plane, 0, t1, to);
        for (hop, port) in hops.iter().enumerate() {
            expect.push((*port, dst, 64 - hop as u8));
            dst = srv6::usid_shift(&dst);
        }
        let seen = sim
            .tap()
            .unwrap()
            .packets()
            .filter(|p| p.egress)
            .map(|p| (p.port, <[u8; 16]>::try_from(&p.header[38..54]).unwrap(), p.header[21]));
        assert_eq!(seen.collect::<Vec<_>>(), expect);

        let arrival = &sim.host(to).arrivals()[0];
        assert_eq!(arrival.port, PortNum::from_plane(plane));
        assert_eq!(arrival.head[38..54], clos.plan().sid(clos.plan().host(plane, clos.host_index(to))));
        assert_eq!(sim.switch(clos.t1_switch(plane, t1.into())).1.forwarded, 1);
        assert_eq!(sim.counters().switch_hops, 3);
        assert_eq!(sim.packets_in_fabric(), 0);
    }
}

#[test]
fn hosts_below_one_leaf_do_not_use_a_spine() {
    let clos = clos();
    let mut sim = sim(clos, vec![flow(&clos, 1, 0, 0, 1, 3)]);
    assert!(sim.run_to_quiet(at(1_000_000)));
    assert_eq!(sim.host(1).received(), 3);
    assert_eq!(sim.counters().switch_hops, 3);
}

#[test]
fn times_are_exact() {
    let clos = clos();
    let mut sim = sim(clos, vec![flow(&clos, 0, 0, 1, 2, 3)]);
    sim.run_until(at(1_000_000));
    // Serialise 80, fly 300, switch 50 | 20, 700, 50 | 20, 700, 50 | 80, 300; then one every 80 ns.
    let first = 80 + 300 + 50 + 20 + 700 + 50 + 20 + 700 + 50 + 80 + 300;
    let times: Vec<u64> = sim.host(2).arrivals().iter().map(|a| a.at.as_nanos()).collect();
    assert_eq!(times, [first, first + 80, first + 160]);
}

#[test]
fn a_flow_starts_at_its_time() {
    let clos = clos();
    let start = at(5_000_123);
    let mut sim = sim(clos, vec![Flow { start, ..flow(&clos, 0, 0, 0, 1, 1) }]);
    sim.run_until(at(10_000_000));
    assert_eq!(sim.host(1).arrivals()[0].at, start.after(80 + 300 + 50 + 80 + 300));
}

#[test]
fn an_echo_comes_back_after_twice_the_way() {
    let clos = clos();
    let mut sim = Sim::new(clos, 1, (), |host| match host {
        0 => Generator::new(vec![flow(&clos, 0, 0, 0, 1, 1)]).recording(),
        1 => Generator::new(Vec::new()).echoing(clos.path(0, 1, 0, 0)),
        _ => Generator::default(),
    })
    .unwrap();
    assert!(sim.run_to_quiet(at(1_000_000)));
    assert_eq!(sim.host(0).arrivals()[0].at, at(2 * (80 + 300 + 50 + 80 + 300)));
}

/// Two senders at full rate into one receiver: the T0's port to it overflows.
fn incast(queue: QueueSpec) -> Sim<Generator> {
    let clos = Clos { queue, ..clos() };
    Sim::new(clos, 1, (), |host| {
        let class = [CONTROL, DATA, DATA][host as usize % 3];
        let flow = Flow { traffic_class: class, ..flow(&clos, 0, host, 0, 3, 100) };
        Generator::new(if host < 3 { vec![flow] } else { Vec::new() }).recording()
    })
    .unwrap()
}

#[test]
fn a_full_queue_drops_its_tail_and_nothing_disappears() {
    let mut sim = incast(QueueSpec { data_bytes: 20_000, control_bytes: 1 << 20, ..QueueSpec::default() });
    assert!(sim.run_to_quiet(at(10_000_000)));
    let port = sim.port_counters(sim.clos().host_link_id(0, 3).upper());
    let received = sim.host(3).received();
    assert_eq!(port.tx_packets, received);
    assert_eq!(received + port.drop_data, 300);
    assert_eq!(port.drop_control, 0);
    let control = sim.host(3).arrivals().iter().filter(|a| a.head[14] == 0x60 | CONTROL >> 4).count();
    assert_eq!(control, 100, "the control class is served first and lost nothing");
    // 20 data packets fit; the two data flows offer 200, and while control takes the link none leaves.
    assert!(port.peak_bytes <= 21_000 && port.drop_data >= 150, "{port:?}");
    assert_eq!(sim.packets_in_fabric(), 0);
}

#[test]
fn ecn_marks_only_packets_that_meet_a_queue() {
    let mut sim = incast(QueueSpec { ecn: Some(EcnSpec::step(5_000)), ..QueueSpec::default() });
    assert!(sim.run_to_quiet(at(10_000_000)));
    let port = sim.port_counters(sim.clos().host_link_id(0, 3).upper());
    let marked = sim.host(3).arrivals().iter().filter(|a| a.head[15] >> 4 & 3 == 3);
    assert_eq!(marked.count() as u64, port.ecn_marks);
    assert!(port.ecn_marks > 100 && port.ecn_marks < 200, "{port:?}");
    let mut alone = sim_with_threshold();
    alone.run_until(at(1_000_000));
    assert_eq!(alone.port_counters(alone.clos().host_link_id(0, 1).upper()).ecn_marks, 0);
}

fn sim_with_threshold() -> Sim<Generator> {
    let clos = Clos { queue: QueueSpec { ecn: Some(EcnSpec::step(5_000)), ..QueueSpec::default() }, ..clos() };
    sim(clos, vec![flow(&clos, 0, 0, 0, 1, 100)])
}

#[test]
fn a_cut_loses_exactly_what_is_on_the_link_and_in_its_queue() {
    let clos = clos();
    let link = clos.fabric_link_id(0, 0, 1);
    // Packet n leaves host 0 at 80 n, is wholly at the T0's egress at 80 n + 430, on the wire until 80 n + 450, and at
    // the T1 at 80 n + 1150. A cut at 8_000 spares those with 80 n + 1150 <= 8000, n <= 85, and catches n <= 94 on it.
    let mut sim = sim(clos, vec![flow(&clos, 0, 0, 1, 2, 200)]);
    sim.schedule(at(8_000), Fault::Cut(link));
    sim.schedule(at(12_000), Fault::Heal(link));
    assert!(sim.run_to_quiet(at(1_000_000)));
    let port = sim.port_counters(link.lower());
    assert_eq!(port.lost_in_flight, 9, "86 ..= 94");
    // Offered while down: 80 n + 430 in [8000, 12000), n = 95 ..= 144.
    assert_eq!(port.drop_down, 50);
    let seen: Vec<u32> = sim.host(2).arrivals().iter().map(|a| a.seq).collect();
    assert_eq!(seen, (0..=85).chain(145..200).collect::<Vec<_>>());
    assert!(sim.link_is_up(link));
    assert_eq!(sim.packets_in_fabric(), 0);
}

#[test]
fn a_cut_empties_the_queue_before_it() {
    let clos = clos();
    // Hosts 0 and 1 send to host 3 by one spine: the link is no bottleneck, the last hop is; cut that one.
    let last = clos.host_link_id(0, 3);
    let mut sim = Sim::new(clos, 1, (), |host| {
        Generator::new(if host < 2 { vec![flow(&clos, 0, host, 0, 3, 40)] } else { Vec::new() })
    })
    .unwrap();
    sim.run_until(at(4_000));
    let queued = u64::from(sim.queued_bytes(last.upper())) / 1000;
    assert!(queued > 5, "{queued}");
    let before = sim.port_counters(last.upper());
    sim.schedule(at(4_000), Fault::Cut(last));
    sim.run_until(at(4_000));
    assert_eq!(sim.queued_bytes(last.upper()), 0);
    assert_eq!(sim.port_counters(last.upper()).drop_down, before.drop_down + queued);
    assert!(sim.run_to_quiet(at(1_000_000)));
    let after = sim.port_counters(last.upper());
    assert_eq!(sim.host(3).received() + after.drop_down + after.lost_in_flight, 80);
    assert_eq!(sim.packets_in_fabric(), 0);
}

#[test]
fn a_host_hears_of_its_own_carrier_only_and_goes_on_after_healing() {
    let clos = clos();
    let own = clos.host_link_id(1, 0);
    let mut sim = sim(clos, vec![flow(&clos, 1, 0, 0, 4, 100)]);
    sim.schedule(at(1_000), Fault::Cut(own));
    sim.schedule(at(1_500), Fault::Cut(clos.fabric_link_id(0, 0, 0)));
    sim.schedule(at(5_000), Fault::Heal(own));
    assert!(sim.run_to_quiet(at(1_000_000)));
    assert_eq!(sim.host(0).carrier_changes(), [(at(1_000), port(2), false), (at(5_000), port(2), true)]);
    assert!(sim.host(1).carrier_changes().is_empty());
    let counters = sim.port_counters(own.lower());
    // Frame n ends its flight at 80 (n + 1) + 300: 0 ..= 7 make it, 8 ..= 12 were on the wire, the others wait.
    assert_eq!((counters.lost_in_flight, counters.drop_down), (5, 0));
    assert_eq!(sim.host(4).received(), 95);
    assert_eq!(sim.host(0).sent(), 100);
}

#[test]
fn a_slower_link_takes_longer() {
    let clos = clos();
    let mut sim = sim(clos, vec![flow(&clos, 0, 0, 0, 1, 1)]);
    sim.schedule(at(0), Fault::Degrade(clos.host_link_id(0, 1), LinkSpec::new(10, 1_000)));
    sim.run_until(at(1_000_000));
    assert_eq!(sim.host(1).arrivals()[0].at, at(80 + 300 + 50 + 800 + 1_000));
}

/// Random flows and faults from one seed.
fn storm(seed: u64) -> Sim<Generator> {
    let clos = Clos { queue: QueueSpec { data_bytes: 8_000, ..QueueSpec::default() }, ..clos() };
    let mut rng = Rng::new(seed);
    let mut sim = Sim::new(clos, 1, (), |host| {
        let flows = (0..4).map(|_| {
            let to = (host + 1 + rng.below(5)) % 6;
            let (plane, t1) = (rng.below(2) as u8, rng.below(2) as u8);
            let mut flow = flow(&clos, plane, host, t1, to, 200);
            flow.start = at(rng.below(20_000).into());
            flow.wire_len = 64 + rng.below(4_000);
            flow.traffic_class = [DATA, CONTROL][rng.below(2) as usize];
            flow
        });
        Generator::new(flows.collect())
    })
    .unwrap();
    for _ in 0..20 {
        let link = mrc_sim::LinkId(rng.below(clos.links()));
        let cut = u64::from(rng.below(60_000));
        sim.schedule(at(cut), Fault::Cut(link));
        sim.schedule(at(cut + u64::from(rng.below(20_000))), Fault::Heal(link));
    }
    sim
}

#[test]
fn equal_seeds_give_equal_runs_and_every_packet_is_accounted_for() {
    for seed in 0..10 {
        let (mut a, mut b) = (storm(seed), storm(seed));
        assert!(a.run_to_quiet(at(1_000_000_000)));
        // Stopping on the way changes nothing.
        for ms in 0..100 {
            b.run_until(at(ms * 7_777));
        }
        assert!(b.run_to_quiet(at(1_000_000_000)));
        assert_eq!((a.digest(), a.counters()), (b.digest(), b.counters()));
        assert_ne!(a.digest(), {
            let mut other = storm(seed + 100);
            other.run_to_quiet(at(1_000_000_000));
            other.digest()
        });

        let ports = (0..a.clos().links() * 2).map(|id| a.port_counters(PortId(id)));
        let dropped: u64 = ports.map(|p| p.drop_data + p.drop_control + p.drop_down + p.lost_in_flight).sum();
        assert!(dropped > 0);
        assert_eq!(a.counters().sent, a.counters().delivered + dropped);
        assert_eq!(a.counters().sent, 6 * 4 * 200);
        assert_eq!(a.packets_in_fabric(), 0);
    }
}
