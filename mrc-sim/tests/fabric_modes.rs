//! Forwarding modes, faults of switches, impairments and pauses of the fabric, with bare load.

use mrc_core::{Instant, PortMask};
use mrc_sim::traffic::{Flow, Generator};
use mrc_sim::{
    Clos, Fault, Host, Impairment, LinkSpec, Loss, NoForward, Packet, PfcSpec, PortId, QueueSpec, Sim, Tier, address,
    scheme,
};
use mrc_wire::PortNum;

const DATA: u8 = 4 << 2 | 0b10;

fn at(ns: u64) -> Instant {
    Instant::from_nanos(ns)
}

/// One plane, 2 T0, 4 T1, 4 hosts below each T0; 100 Gb/s: 1000 B take 80 ns.
fn clos(scheme: &str) -> Clos {
    Clos {
        planes: 1,
        t0: 2,
        t1: 4,
        hosts: 8,
        host_link: LinkSpec::new(100, 500),
        fabric_link: LinkSpec::new(100, 500),
        switch_latency_ns: 0,
        scheme: scheme::named(scheme).unwrap(),
        ..Clos::default()
    }
}

fn flow(dst: [u8; 16], count: u32) -> Flow {
    Flow { start: Instant::ZERO, port: PortNum::from_plane(0), dst, traffic_class: DATA, wire_len: 1000, count }
}

/// Host 0 sends `flows` flows of 100 packets to the address of host 5; returns the packets by T1.
fn by_spine(clos: Clos, flows: u32) -> (Sim<Generator>, Vec<u64>) {
    let sending = (0..flows).map(|_| flow(address::gid(5), 100)).collect::<Vec<_>>();
    let mut sim =
        Sim::new(clos, 7, (), |host| Generator::new(if host == 0 { sending.clone() } else { Vec::new() })).unwrap();
    assert!(sim.run_to_quiet(at(100_000_000)));
    let spines = (0..clos.t1).map(|t1| sim.switch(clos.t1_switch(0, t1)).1.forwarded).collect();
    (sim, spines)
}

#[test]
fn round_robin_deals_packets_evenly() {
    let (sim, spines) = by_spine(clos("round-robin"), 4);
    assert_eq!(spines, [100; 4]);
    assert_eq!(sim.host(5).received(), 400);
}

#[test]
fn random_spraying_draws_an_uplink_for_every_packet() {
    let (sim, spines) = by_spine(clos("rps"), 1);
    // One flow, all uplinks: 25 each, give or take three standard deviations of 4.3.
    assert!(spines.iter().all(|packets| (12..=38).contains(packets)) && spines != [25; 4], "{spines:?}");
    assert_eq!(sim.host(5).received(), 100);
}

#[test]
fn adaptive_forwarding_draws_among_idle_uplinks() {
    let (sim, spines) = by_spine(clos("adaptive"), 4);
    // By a coin, not in turn: 100 each, give or take three standard deviations of 8.7.
    assert!(spines.iter().all(|packets| (74..=126).contains(packets)) && spines != [100; 4], "{spines:?}");
    assert_eq!(sim.host(5).received(), 400);
}

#[test]
fn adaptive_forwarding_avoids_the_uplink_that_is_slow() {
    let share_of_slow = |forwarding| {
        let clos = clos(forwarding);
        let sending = (0..4).map(|_| flow(address::gid(5), 100)).collect::<Vec<_>>();
        let mut sim =
            Sim::new(clos, 7, (), |host| Generator::new(if host == 0 { sending.clone() } else { Vec::new() })).unwrap();
        sim.set_link(clos.fabric_link_id(0, 0, 1), LinkSpec::new(10, 500));
        assert!(sim.run_to_quiet(at(100_000_000)));
        assert_eq!(sim.host(5).received(), 400);
        sim.switch(clos.t1_switch(0, 1)).1.forwarded
    };
    assert_eq!(share_of_slow("round-robin"), 100);
    // A packet takes ten times as long there.
    let slow = share_of_slow("adaptive");
    assert!((30..=45).contains(&slow), "{slow} of 400; one of eleven at equal queues");
}

/// Puts the uplink that a flow's address asks for into the first STEV field: 100 packets of host 0 for each of four.
struct Labelled {
    generator: Generator,
    sent: u32,
}

impl Host for Labelled {
    type World = ();

    fn on_packet(&mut self, now: Instant, port: PortNum, packet: &Packet, world: &mut ()) {
        self.generator.on_packet(now, port, packet, world);
    }

    fn on_timer(&mut self, now: Instant, world: &mut ()) {
        self.generator.on_timer(now, world);
    }

    fn on_port(&mut self, now: Instant, port: PortNum, up: bool, world: &mut ()) {
        self.generator.on_port(now, port, up, world);
    }

    fn poll_transmit(&mut self, now: Instant, free: PortMask, out: &mut Packet, world: &mut ()) -> Option<PortNum> {
        let port = self.generator.poll_transmit(now, free, out, world)?;
        // Bits 31 to 16 of the EV are the lower ones of the flow label.
        let uplink = (self.sent % 4) as u16;
        out.header_mut()[16..18].copy_from_slice(&(uplink << 6).to_be_bytes());
        self.sent += 1;
        Some(port)
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.generator.next_timeout()
    }
}

#[test]
fn with_stev_only_the_evs_of_an_uplink_without_carrier_move() {
    let spines = |cut: bool| {
        let clos = clos("stev");
        let flows = |host| if host == 0 { vec![flow(address::gid(5), 400)] } else { Vec::new() };
        let mut sim =
            Sim::new(clos, 7, (), |host| Labelled { generator: Generator::new(flows(host)), sent: 0 }).unwrap();
        if cut {
            sim.schedule(Instant::ZERO, Fault::Cut(clos.fabric_link_id(0, 0, 1)));
        }
        assert!(sim.run_to_quiet(at(100_000_000)));
        (0..clos.t1).map(|t1| sim.switch(clos.t1_switch(0, t1)).1.forwarded).collect::<Vec<_>>()
    };
    assert_eq!(spines(false), [100; 4]);
    // Uplink 1 of uplinks 0, 2 and 3 that are left is the second of them.
    assert_eq!(spines(true), [100, 0, 200, 100]);
}

/// Honours pauses and records when they come.
struct Paused {
    generator: Generator,
    held: bool,
    pauses: Vec<Instant>,
}

impl Host for Paused {
    type World = ();

    fn on_packet(&mut self, now: Instant, port: PortNum, packet: &Packet, world: &mut ()) {
        self.generator.on_packet(now, port, packet, world);
    }

    fn on_timer(&mut self, now: Instant, world: &mut ()) {
        self.generator.on_timer(now, world);
    }

    fn on_port(&mut self, now: Instant, port: PortNum, up: bool, world: &mut ()) {
        self.generator.on_port(now, port, up, world);
    }

    fn on_pause(&mut self, now: Instant, _: PortNum, paused: bool, (): &mut ()) {
        self.held = paused;
        self.pauses.push(now);
    }

    fn poll_transmit(&mut self, now: Instant, free: PortMask, out: &mut Packet, world: &mut ()) -> Option<PortNum> {
        if self.held { None } else { self.generator.poll_transmit(now, free, out, world) }
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.generator.next_timeout()
    }
}

#[test]
fn a_pause_frame_waits_for_the_frame_being_sent() {
    // Hosts 0 and 1 overload host 2, which fills the link to host 0 meanwhile.
    let pfc = Some(PfcSpec::Static { xoff_bytes: 20_000, xon_bytes: 10_000 });
    let queue = QueueSpec { data_bytes: 4 << 20, pfc, ..QueueSpec::default() };
    let clos = Clos { queue, t0: 1, t1: 0, ..clos("ecmp") };
    let mut sim = Sim::new(clos, 7, (), |host| {
        let to = match host {
            0 | 1 => Some(2),
            2 => Some(0),
            _ => None,
        };
        let flows = to.map(|to| Flow { wire_len: 3_000, ..flow(address::gid(to), 300) });
        Paused { generator: Generator::new(flows.into_iter().collect()).recording(), held: false, pauses: Vec::new() }
    })
    .unwrap();
    assert!(sim.run_to_quiet(at(100_000_000)));
    let host = sim.host(0);
    let arrivals: Vec<u64> = host.generator.arrivals().iter().map(|arrival| arrival.at.as_nanos()).collect();
    let last = *arrivals.last().unwrap();
    let during: Vec<u64> = host.pauses.iter().map(|at| at.as_nanos()).filter(|&at| at < last).collect();
    assert!(during.len() > 4, "{during:?}");
    for at in during {
        // 64 bytes at 100 Gb/s after the end of a frame.
        assert!(arrivals.contains(&(at - 5)), "a pause in the middle of a frame: {at}");
    }
}

/// Packets that each spine got of 400 flows of host 0 when the link to the second one is slow.
fn shares_with_a_slow_uplink(name: &str, gbps: u64) -> Vec<u64> {
    let clos = clos(name);
    let sending = (0..400).map(|_| flow(address::gid(5), 2)).collect::<Vec<_>>();
    let mut sim =
        Sim::new(clos, 7, (), |host| Generator::new(if host == 0 { sending.clone() } else { Vec::new() })).unwrap();
    sim.set_link(clos.fabric_link_id(0, 0, 1), LinkSpec::new(gbps, 500));
    assert!(sim.run_to_quiet(at(100_000_000)));
    assert_eq!(sim.host(5).received(), 800, "{name}");
    (0..clos.t1).map(|t1| sim.switch(clos.t1_switch(0, t1)).1.forwarded).collect()
}

#[test]
fn wcmp_gives_uplinks_shares_by_their_rates() {
    // 20 of 320 Gb/s: 50 of 800 packets, where ecmp gives 200.
    let (wcmp, ecmp) = (shares_with_a_slow_uplink("wcmp", 20), shares_with_a_slow_uplink("ecmp", 20));
    assert!((20..=90).contains(&wcmp[1]) && (150..=250).contains(&ecmp[1]), "{wcmp:?} {ecmp:?}");
}

#[test]
fn drill_leaves_the_longest_of_its_samples_alone() {
    let (drill, blind) = (shares_with_a_slow_uplink("drill", 2), shares_with_a_slow_uplink("ecmp", 2));
    assert!(drill[1] < blind[1] / 4, "{drill:?} {blind:?}");
}

#[test]
fn letflow_moves_a_flow_after_a_pause_and_not_before() {
    let uplinks = |gap_us: f64| {
        let clos =
            Clos { scheme: scheme::named("letflow").unwrap().with("gap_us", gap_us).unwrap(), ..clos("letflow") };
        // One flow: ten packets back to back, 100 us of silence, ten packets, and so on.
        let burst = |nth: u64| Flow { start: at(nth * 100_000), ..flow(address::gid(5), 10) };
        let mut sim = Sim::new(clos, 7, (), |host| {
            Generator::new(if host == 0 { (0..40).map(burst).collect() } else { Vec::new() }).one_flow()
        })
        .unwrap();
        assert!(sim.run_to_quiet(at(100_000_000)));
        assert_eq!(sim.host(5).received(), 400);
        (0..clos.t1).map(|t1| sim.switch(clos.t1_switch(0, t1)).1.forwarded).collect::<Vec<_>>()
    };
    let long = uplinks(1_000.0);
    assert_eq!(long.iter().filter(|&&packets| packets > 0).count(), 1, "no pause is long enough: {long:?}");
    let short = uplinks(50.0);
    assert!(short.iter().all(|&packets| packets > 0 && packets % 10 == 0), "whole bursts, on all uplinks: {short:?}");
}

#[test]
fn ecmp_keeps_a_flow_on_one_path_and_parts_flows() {
    // The flow's index stands where the UDP source port does: 64 flows, 64 entropies.
    let (sim, spines) = by_spine(clos("ecmp"), 64);
    assert_eq!(sim.host(5).received(), 6400);
    assert!(spines.iter().all(|count| count.is_multiple_of(100)), "{spines:?}");
    assert!(spines.iter().all(|&count| count >= 500), "{spines:?}");
    let (_, one) = by_spine(clos("ecmp"), 1);
    assert_eq!(one.iter().filter(|&&count| count > 0).count(), 1);
}

#[test]
fn ecmp_leaves_out_an_uplink_without_carrier() {
    let clos = clos("ecmp");
    let sending = (0..64).map(|_| flow(address::gid(5), 100)).collect::<Vec<_>>();
    let mut sim =
        Sim::new(clos, 7, (), |host| Generator::new(if host == 0 { sending.clone() } else { Vec::new() })).unwrap();
    sim.schedule(Instant::ZERO, Fault::Cut(clos.fabric_link_id(0, 0, 2)));
    assert!(sim.run_to_quiet(at(100_000_000)));
    assert_eq!(sim.switch(clos.t1_switch(0, 2)).1.forwarded, 0);
    assert_eq!(sim.host(5).received(), 6400);
}

#[test]
fn a_dumbbell_has_one_way_and_shares_it() {
    for forwarding in ["srv6", "ecmp"] {
        let clos = Clos { t1: 0, ..clos(forwarding) };
        let dst = |from, to| match forwarding {
            "srv6" => clos.path(0, from, 0, to),
            _ => address::gid(to),
        };
        let queue = QueueSpec { data_bytes: 1 << 20, ..QueueSpec::default() };
        let mut sim = Sim::new(Clos { queue, ..clos }, 7, (), |host| {
            Generator::new(if host < 2 { vec![flow(dst(host, host + 4), 100)] } else { Vec::new() }).recording()
        })
        .unwrap();
        assert!(sim.run_to_quiet(at(100_000_000)));
        assert_eq!((sim.host(4).received(), sim.host(5).received()), (100, 100));
        // 200 packets of 80 ns through the middle: the last one leaves it at 16000 + 80 + 500, and has 1080 to go.
        let last = [4, 5].iter().map(|&host| sim.host(host).arrivals().last().unwrap().at).max();
        assert_eq!(last, Some(at(16_000 + 80 + 500 + 500 + 80 + 500)));
        assert_eq!(clos.link_name(clos.fabric_link_id(0, 0, 0)), "p0-t0a-t0b");
        assert_eq!(clos.tier(clos.fabric_link_id(0, 0, 0).upper()), Tier::T0Up);
    }
}

#[test]
fn a_switch_that_goes_down_takes_its_carriers_along() {
    let clos = clos("srv6");
    let path = clos.path(0, 0, 1, 5);
    let mut sim =
        Sim::new(clos, 7, (), |host| Generator::new(if host == 0 { vec![flow(path, 100)] } else { Vec::new() }))
            .unwrap();
    let t1 = clos.t1_switch(0, 1) as u32;
    let link = clos.fabric_link_id(0, 1, 1);
    sim.schedule(at(2_000), Fault::SwitchDown(t1));
    sim.schedule(at(2_500), Fault::Heal(link));
    sim.run_until(at(3_000));
    assert!(!sim.link_is_up(link), "healing a cable does not raise a switch");
    assert!(!sim.link_is_up(clos.fabric_link_id(0, 0, 1)));
    assert!(sim.link_is_up(clos.fabric_link_id(0, 0, 0)));
    sim.schedule(at(4_000), Fault::SwitchUp(t1));
    assert!(sim.run_to_quiet(at(1_000_000)));
    assert!(sim.link_is_up(link));
    let received = sim.host(5).received();
    let ports = (0..clos.links() * 2).map(|id| sim.port_counters(PortId(id)));
    let lost: u64 = ports.map(|port| port.drop_down + port.lost_in_flight).sum();
    assert!(received > 50 && lost > 20, "{received} {lost}");
    assert_eq!(received + lost, 100);
}

#[test]
fn a_t0_that_goes_down_is_seen_by_its_hosts() {
    let clos = clos("srv6");
    let mut sim = Sim::new(clos, 7, (), |_| Generator::default()).unwrap();
    sim.schedule(at(1_000), Fault::SwitchDown(clos.t0_switch(0, 1) as u32));
    assert!(sim.run_to_quiet(at(10_000)));
    assert!(sim.host(0).carrier_changes().is_empty());
    for host in 4..8 {
        assert_eq!(sim.host(host).carrier_changes(), [(at(1_000), PortNum::from_plane(0), false)]);
    }
}

#[test]
fn a_silent_switch_swallows_and_keeps_its_carriers() {
    let clos = clos("srv6");
    let path = clos.path(0, 0, 3, 5);
    let mut sim =
        Sim::new(clos, 7, (), |host| Generator::new(if host == 0 { vec![flow(path, 100)] } else { Vec::new() }))
            .unwrap();
    let t1 = clos.t1_switch(0, 3);
    sim.schedule(Instant::ZERO, Fault::Silent(t1 as u32));
    sim.schedule(at(4_000), Fault::Loud(t1 as u32));
    assert!(sim.run_to_quiet(at(1_000_000)));
    assert!(sim.link_is_up(clos.fabric_link_id(0, 0, 3)));
    let silent = sim.switch(t1).1.refused[NoForward::Silent as usize];
    assert!(silent > 10, "{silent}");
    assert_eq!(sim.host(5).received() + silent, 100);
}

#[test]
fn an_impaired_link_loses_its_share_in_both_directions() {
    let clos = clos("srv6");
    let link = clos.fabric_link_id(0, 0, 0);
    let mut sim = Sim::new(clos, 7, (), |host| {
        let flows = match host {
            0 => vec![flow(clos.path(0, 0, 0, 4), 10_000)],
            4 => vec![flow(clos.path(0, 4, 0, 0), 10_000)],
            _ => Vec::new(),
        };
        Generator::new(flows)
    })
    .unwrap();
    let bad = Impairment { loss: Loss::Bernoulli { probability: 0.1 }, ..Impairment::default() };
    sim.schedule(Instant::ZERO, Fault::Impair(link, bad));
    assert!(sim.run_to_quiet(at(10_000_000)));
    for (port, host) in [(link.lower(), 4), (link.upper(), 0)] {
        let lost = sim.port_counters(port).lost_random;
        assert!((900..1_100).contains(&lost), "{lost}");
        assert_eq!(sim.host(host).received() + lost, 10_000);
    }
}

#[test]
fn pauses_keep_a_full_buffer_from_dropping() {
    // Three hosts at line rate into one; generators do not honour pauses, switches do: the pause of the last switch
    // reaches the T1s, and theirs the first switch, whose queue takes what the hosts send.
    let pfc = PfcSpec::Static { xoff_bytes: 20_000, xon_bytes: 10_000 };
    let run = |pfc| {
        let queue = QueueSpec { data_bytes: 4 << 20, pfc, ..QueueSpec::default() };
        let clos = Clos { queue, ..clos("srv6") };
        let mut sim = Sim::new(clos, 7, (), |host| {
            let path = clos.path(0, host, host as u8, 7);
            Generator::new(if host < 3 { vec![flow(path, 1_000)] } else { Vec::new() })
        })
        .unwrap();
        assert!(sim.run_to_quiet(at(100_000_000)));
        assert_eq!(sim.host(7).received(), 3_000);
        let last = sim.port_counters(clos.host_link_id(0, 7).upper());
        let pauses: u64 = (0..clos.links() * 2).map(|id| sim.port_counters(PortId(id)).pauses).sum();
        (last.peak_bytes, pauses, sim.now())
    };
    let (free_peak, none, _) = run(None);
    let (paused_peak, pauses, _) = run(Some(pfc));
    assert_eq!(none, 0);
    assert!(pauses > 10, "{pauses}");
    assert!(free_peak > 1_900_000, "{free_peak}");
    // Three ingress ports with 20 kB each, and what flies while the pause does.
    assert!(paused_peak < 3 * (20_000 + 20_000), "{paused_peak}");
}
