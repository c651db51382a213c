//! The examples of `docs/extend.md`, which quotes this file: a switch scheme, a transport of one's own load, a workload.

// scheme: begin
use mrc_sim::scheme::{ByUplink, UplinkChoice, ip};
use mrc_sim::{Packet, Param, PathNames, PortId, Scheme, SchemeInfo, SwitchCtx};

/// Registered in `SCHEMES` it is `forwarding = "spread"` of a scenario, with `scheme.after` beside it.
static SPREAD: SchemeInfo = SchemeInfo {
    name: "spread",
    about: "A hash of the flow as long as its uplink is nearly empty; the next one when it is not.",
    paths: PathNames::Entropy,
    params: &[Param {
        name: "after",
        about: "Queue that moves a packet, in bytes.",
        default: 8000.0,
        range: (0.0, 1e9),
    }],
    check: None,
    build: |site, values| Box::new(ByUplink(Spread { salt: site.salt, after: values[0] as u32 })),
};

struct Spread {
    salt: u64,
    after: u32,
}

impl UplinkChoice for Spread {
    fn choose(&mut self, ctx: &mut SwitchCtx<'_>, _: PortId, packet: &mut Packet) -> PortId {
        let uplinks = ctx.uplinks();
        let home = ip::mix(ip::flow(packet) ^ self.salt) as usize % uplinks.len();
        let port = uplinks[home];
        if ctx.queued_bytes(port) <= self.after { port } else { uplinks[(home + 1) % uplinks.len()] }
    }
}
// scheme: end

// whole: begin
use mrc_core::Instant;
use mrc_sim::{NoForward, SwitchScheme, Verdict, Way};

/// A whole scheme: IP forwarding in which every switch counts hops in the packet's scratch area, tells the time, and drops
/// what has crossed too many.
struct Counting {
    most: u8,
    ticks: u32,
}

impl SwitchScheme for Counting {
    fn forward(&mut self, ctx: &mut SwitchCtx<'_>, _: PortId, packet: &mut Packet) -> Result<Verdict, NoForward> {
        let host = ip::next_hop(packet)?;
        packet.scratch[0] += 1;
        if packet.scratch[0] > self.most {
            return Err(NoForward::HopLimit);
        }
        if self.ticks == 0 {
            self.ticks = 1;
            ctx.set_timer(ctx.now().after(1_000), 7);
        }
        match ctx.way(host).ok_or(NoForward::NoRoute)? {
            Way::Down(port) => Ok(Verdict::To(port)),
            Way::Up => Ok(Verdict::To(*ctx.uplinks().first().ok_or(NoForward::NoRoute)?)),
        }
    }

    fn on_timer(&mut self, ctx: &mut SwitchCtx<'_>, timer: u32) {
        assert_eq!(timer, 7);
        self.ticks += 1;
        if self.ticks < 5 {
            ctx.set_timer(ctx.now().after(1_000), 7);
        }
    }
}
// whole: end

static COUNTING: SchemeInfo = SchemeInfo {
    name: "counting",
    about: "Counts hops.",
    paths: PathNames::Entropy,
    params: &[Param { name: "most", about: "Hops.", default: 3.0, range: (0.0, 255.0) }],
    check: None,
    build: |_, values| Box::new(Counting { most: values[0] as u8, ticks: 0 }),
};

// test: begin
use mrc_sim::traffic::{Flow, Generator};
use mrc_sim::{Clos, Sim, address};
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
    assert_eq!((sim.host(5).received(), spines[0]), (0, 100), "the third switch drops them");
    let third = sim.clos().t0_switch(0, 1);
    assert_eq!(sim.switch(third).1.refused[NoForward::HopLimit as usize], 100);
}

#[test]
fn the_page_quotes_this_file() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/extend.md")).unwrap();
    let source = include_str!("extend.rs");
    for name in ["scheme", "whole", "test"] {
        let (begin, end) = (format!("// {name}: begin\n"), format!("// {name}: end\n"));
        let part = source.split(&begin).nth(1).and_then(|rest| rest.split(&end).next()).unwrap();
        assert!(page.contains(&format!("```rust\n{part}```")), "docs/extend.md lacks the present text of `{name}`");
    }
}
