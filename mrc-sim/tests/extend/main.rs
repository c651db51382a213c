//! The examples of `docs/extend.md`, which quotes this folder: switch schemes, a transport, a workload. The crate compiles the first
//! three once more from within (`scheme/mod.rs`, `host/registry.rs`), as files that moved there.

mod counting;
mod spread;
mod stop_and_wait;

use counting::COUNTING;
use mrc_sim::NoForward;
use spread::SPREAD;
use stop_and_wait::STOP_AND_WAIT;

// test: begin
use mrc_core::Instant;
use mrc_sim::scheme::named;
use mrc_sim::traffic::{Flow, Generator};
use mrc_sim::{Clos, Scheme, Sim, address};
use mrc_wire::PortNum;

/// Host 0 sends `flows` flows to host 5 of another leaf; returns the simulation, and packets by spine.
fn load(scheme: Scheme, flows: usize) -> (Sim<Generator>, Vec<u64>) {
    let clos = Clos { planes: 1, t0: 2, t1: 4, hosts: 8, scheme, ..Clos::default() };
    let flow = Flow {
        start: Instant::ZERO,
        port: PortNum::from_plane(0),
        dst: address::gid(5),
        traffic_class: 0,
        wire_len: 1000,
        count: 100,
    };
    let sending = vec![flow; flows];
    let mut sim =
        Sim::new(clos, 1, (), |host| Generator::new(if host == 0 { sending.clone() } else { Vec::new() })).unwrap();
    assert!(sim.run_to_quiet(Instant::from_nanos(100_000_000)));
    let spines = (0..clos.t1).map(|t1| sim.switch(clos.t1_switch(0, t1)).1.forwarded).collect();
    (sim, spines)
}

#[test]
fn a_scheme_of_thirty_lines_forwards() {
    let (sim, spines) = load(Scheme::new(&SPREAD), 64);
    assert_eq!(sim.host(5).received(), 6_400);
    assert!(spines.iter().all(|&packets| packets > 0), "{spines:?}");
    let (_, alone) = load(Scheme::new(&SPREAD), 1);
    assert_eq!(alone.iter().filter(|&&packets| packets > 0).count(), 1, "one flow, no queue: one uplink");
}
// test: end

#[test]
fn a_whole_scheme_has_scratch_timers_and_refusals() {
    let (sim, _) = load(Scheme::new(&COUNTING), 1);
    assert_eq!(sim.host(5).received(), 100);
    let (sim, spines) = load(Scheme::new(&COUNTING).with("most", 2.0).unwrap(), 1);
    assert_eq!(
        (sim.host(5).received(), sim.host(0).received()),
        (0, 0),
        "the third switch drops them, no host gets a note"
    );
    assert_eq!(spines.iter().sum::<u64>(), 200, "each packet, and a note about it");
    assert!(spines.iter().all(|&packets| packets > 0), "{spines:?}");
    let third = sim.clos().t0_switch(0, 1);
    assert_eq!(sim.switch(third).1.refused[NoForward::HopLimit as usize], 100);
}

// pause: begin
/// A flow that is silent between its 50th and its 51st packet may leave by another uplink of LetFlow, and by no other before.
#[test]
fn a_gap_moves_a_flow() {
    let clos = Clos { planes: 1, t0: 2, t1: 16, hosts: 4, scheme: named("letflow").unwrap(), ..Clos::default() };
    let dst = address::gid(3);
    let flow =
        Flow { start: Instant::ZERO, port: PortNum::from_plane(0), dst, traffic_class: 0, wire_len: 1000, count: 100 };
    let uplinks = |gap_us: u64| {
        // 100 Gb/s: a packet every 80 ns.
        let (from, until) = (Instant::from_nanos(4_000), Instant::from_nanos(4_000 + gap_us * 1_000));
        let host = |host| Generator::new(if host == 0 { vec![flow] } else { Vec::new() }).pausing(0, from, until);
        let mut sim = Sim::new(clos, 1, (), host).unwrap();
        assert!(sim.run_to_quiet(Instant::from_nanos(100_000_000)) && sim.host(3).received() == 100);
        (0..clos.t1).filter(|&t1| sim.switch(clos.t1_switch(0, t1)).1.forwarded > 0).count()
    };
    assert_eq!((uplinks(40), uplinks(60)), (1, 2), "the default gap is 50 us");
}
// pause: end

// transport test: begin
use std::collections::BTreeMap;
use std::path::Path;

use mrc_sim::HostSite;
use mrc_sim::run::{Options, Results, run_hosts};
use mrc_sim::scenario::{Built, load_str};

fn built(text: &str) -> Built {
    load_str("test.toml", text, Path::new("."), &[], Some(1)).unwrap()
}

/// Runs what a scenario describes with `STOP_AND_WAIT` on all hosts: before it is registered.
fn play(built: &Built) -> Results {
    let topology = &built.topology;
    let values = STOP_AND_WAIT.values(&BTreeMap::new()).unwrap();
    let host = |host| (STOP_AND_WAIT.build)(&HostSite { topology, host, seed: 1 }, &values);
    run_hosts((0..topology.hosts()).map(host), built, &Options::default(), &mut |_| {}).unwrap().results
}

#[test]
fn a_transport_of_one_file_carries_messages() {
    let text = "[topology]\nhost_gbps = 10\n[transport]\nkind = \"line-rate\"\n\
        [[workload]]\nkind = \"permutation\"\nbytes = 102400\n";
    let results = play(&built(text));
    assert!(results.finished && results.misplaced == 0);
    assert_eq!(results.data_packets, 4 * 100);
    let loss = "[[fault]]\nkind = \"loss\"\nprobability = 0.1\n";
    let lossy = play(&built(&format!("{text}{loss}")));
    assert!(lossy.finished && lossy.misplaced == 0 && lossy.end_us > results.end_us + 100.0);
    assert!(lossy.data_packets == 4 * 100 && lossy.retransmitted_packets > 0);
}
// transport test: end

// workload: begin
use mrc_sim::workload::{Connections, Group, Message, Plan};

/// A relay: each host hands 64 KiB to the next one when it has got them, `rounds` times around.
fn relay(hosts: u32, rounds: u32) -> Plan {
    let mut plan = Plan::default();
    let group = plan.group(Group::flows("relay"));
    let mut last = None;
    for hop in 0..hosts * rounds {
        let (src, dst, iteration) = (hop % hosts, (hop + 1) % hosts, hop / hosts);
        // `delay_ns` is what a host computes before it hands on.
        let message = plan.push(Message { src, dst, bytes: 65_536, group, iteration, delay_ns: 2_000 });
        if let Some(last) = last {
            plan.after_delivery(last, message);
        }
        last = Some(message);
    }
    plan
}

/// Runs it on what a scenario describes, in place of its own workload.
#[test]
fn a_workload_of_one_function_runs() {
    let mut built = built("[topology]\nt0 = 2\nhosts_per_t0 = 4\n[[workload]]\n");
    built.plan = relay(8, 3).into();
    built.pairs = built.plan.connections(Connections::PerPair, &|_| 0);
    let results = mrc_sim::run::run(&built, &Options::default(), &mut |_| {}).unwrap().results;
    assert!(results.finished);
    // One message at a time: 24 of them, each with its computation and at least its time on a link of 100 Gb/s.
    assert!(results.end_us > 24.0 * (2.0 + 65_536.0 * 8.0 / 100e3), "{} us", results.end_us);
}
// workload: end

#[test]
fn the_page_quotes_this_folder() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/extend.md")).unwrap();
    let files = [include_str!("spread.rs"), include_str!("counting.rs"), include_str!("stop_and_wait.rs")];
    for file in files {
        assert!(page.contains(&format!("```rust\n{file}```")), "docs/extend.md lacks the present text of {file}");
    }
    let source = include_str!("main.rs");
    for name in ["test", "pause", "transport test", "workload"] {
        let (begin, end) = (format!("// {name}: begin\n"), format!("// {name}: end\n"));
        let part = source.split(&begin).nth(1).and_then(|rest| rest.split(&end).next()).unwrap();
        assert!(page.contains(&format!("```rust\n{part}```")), "docs/extend.md lacks the present text of `{name}`");
    }
}
