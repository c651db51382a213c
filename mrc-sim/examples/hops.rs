//! Speed of the bare fabric: `cargo run --release -p mrc-sim --example hops`.
//!
//! A full-rate permutation of line-rate senders without transport; one packet-hop is one dequeue from a switch port.

use std::time::Instant as Wall;

use mrc_core::Instant;
use mrc_sim::traffic::{Flow, Generator};
use mrc_sim::{Clos, LinkSpec, Sim};
use mrc_wire::PortNum;

fn main() {
    for (hosts, leaves, spines) in [(128, 8, 16), (1024, 32, 32), (8192, 128, 64)] {
        let clos = Clos {
            planes: 1,
            t0: leaves,
            t1: spines,
            hosts,
            host_link: LinkSpec::new(100, 1000),
            fabric_link: LinkSpec::new(100, 1000),
            switch_latency_ns: 0,
            ..Clos::default()
        };
        let per_leaf = clos.hosts_per_t0();
        let count = 20_000_000 / hosts / 3;
        let built = Wall::now();
        let mut sim = Sim::new(clos, 1, (), |host| {
            // Every destination in the next leaf, and sixteen paths in turn.
            let to = (host + per_leaf) % hosts;
            let flows = (0..16).map(|n| Flow {
                start: Instant::from_nanos(u64::from(host % 332)),
                port: PortNum::from_plane(0),
                dst: clos.path(0, host, ((host + n * 7) % u32::from(spines)) as u8, to),
                traffic_class: 4 << 2 | 0b10,
                wire_len: 4150,
                count: count / 16,
            });
            Generator::new(flows.collect())
        })
        .expect("the three fabrics are valid");
        let built = built.elapsed();
        let wall = Wall::now();
        let quiet = sim.run_to_quiet(Instant::from_nanos(1_000_000_000));
        let seconds = wall.elapsed().as_secs_f64();
        let counters = sim.counters();
        println!(
            "{hosts:5} hosts: {:.2} M hops/s, {:.2} M events/s, {} hops, {} of {} delivered, virtual {} us, built in \
             {built:.0?}, quiet {quiet}, digest {:016x}",
            counters.switch_hops as f64 / seconds / 1e6,
            counters.events as f64 / seconds / 1e6,
            counters.switch_hops,
            counters.delivered,
            counters.sent,
            sim.now().as_nanos() / 1000,
            sim.digest().value(),
        );
    }
}
