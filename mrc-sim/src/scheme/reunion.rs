//! Reunion (Wang et al., "Reunion: Receiver-driven network load balancing mechanism in AI training clusters", section 3):
//! switches find elephant flows that share a link, the destination leaf tells one source leaf per such link to move one flow.
//!
//! ```text
//! source leaf         a count-min sketch tells elephants (3.2); their packets say so and name their path
//! source leaf, spine  more than t elephants on a port within an interval: the packet takes the link along, the first only (3.3)
//! destination leaf    which elephants cross which link, who last reported which bottleneck (3.3, 3.4); at the end of an
//!                     interval s it names, for each bottleneck, the flow, the bottleneck and the links with t or more (3.5)
//! source leaf         at the end of its interval moves the flow to the first path all of whose links have less than t (3.6)
//! ```
//! A path id is the number of the spine, 8 bits. What packets carry stands in their scratch area, as the paper's BTH field and
//! header do; notifications are packets of the control class, of 64 bytes and three for each link. What the paper leaves open:
//!
//! * Its algorithm 1 avoids links with more than t elephants, its text and example those with t or more; we do as the text.
//! * Its algorithm 2 as printed takes one free path after the other, and the text of 3.6 lets links with t elephants pass. We take
//!   the first path whose links have less than t each, as the pseudocode's condition says.
//! * A notification names 44 links at most, the bottleneck first: as many as a header holds.
//! * Counts, the sketch and the sets of elephants begin anew in each interval. A flow is an elephant when its estimate is among
//!   the t times uplinks largest of the interval.
//! * Intervals end everywhere at once, so that a source leaf acts an interval after it was notified. A collision that lasts until then
//!   is named once more, and the flow named then moves, too, though the first move ended the collision.
//! * A flow that was silent for `flowlet_us` takes a new random path, the fallback of section 4.2.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mrc_core::Instant;

use super::{
    ip,
    leaf_spine::{self, Place, Role},
    sketch::Sketch,
};
use crate::fabric::{
    Clos, NoForward, Packet, Param, PathNames, PortId, SchemeInfo, SwitchCtx, SwitchScheme, Verdict, table_bytes,
};

pub(super) static INFO: SchemeInfo = SchemeInfo {
    name: "reunion",
    about: "Reunion: receivers' leaves find elephants that share a link and have one of them moved.",
    paths: PathNames::Entropy,
    params: &[
        Param {
            name: "tolerance",
            about: "Elephants that may share a link (t); the slices of a flow where flows are sliced.",
            default: 1.0,
            range: (1.0, 64.0),
            whole: true,
        },
        Param {
            name: "interval_us",
            about: "Interval of the statistics (s), in microseconds; longer than a round trip.",
            default: 1_000.0,
            range: (1.0, 1e6),
            whole: false,
        },
        Param { name: "rows", about: "Hash functions of the sketch.", default: 7.0, range: (1.0, 16.0), whole: true },
        Param {
            name: "columns",
            about: "Counters of each of them.",
            default: 2_000.0,
            range: (16.0, 65_536.0),
            whole: true,
        },
        Param {
            name: "flowlet_us",
            about: "Silence after which a flow takes a new random path, in microseconds.",
            default: 500.0,
            range: (1.0, 1e9),
            whole: false,
        },
    ],
    check: Some(check),
    build: |site, values| {
        let spines = usize::from(site.clos.t1);
        Box::new(Reunion {
            place: Place::of(site),
            tolerance: values[0] as usize,
            interval_ns: (values[1] * 1e3) as u64,
            flowlet_ns: (values[4] * 1e3) as u64,
            elephants: Elephants {
                sketch: (!site.spine).then(|| Sketch::new(values[2] as usize, values[3] as usize)),
                most: values[0] as usize * spines,
                top: BTreeMap::new(),
            },
            interval: 0,
            armed: false,
            on_port: BTreeMap::new(),
            flows: HashMap::new(),
            sent: BTreeMap::new(),
            received: BTreeMap::new(),
            bottlenecks: BTreeMap::new(),
            orders: Vec::new(),
        })
    },
};

fn check(clos: &Clos, values: &[f64]) -> Result<(), &'static str> {
    leaf_spine::check(clos, values)?;
    let link = clos.fabric_link;
    if values[1] * 1e3 <= f64::from(4 * (link.delay_ns + clos.switch_latency_ns)) {
        return Err("interval_us must be longer than a round trip between leaves: a notification would come too late");
    }
    if clos.t0 > 128 {
        return Err("Reunion names a link by 7 bits of the leaf and 8 of the spine: at most 128 leaves");
    }
    Ok(())
}

/// A link between a leaf and a spine, in one direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Link {
    up: bool,
    leaf: u8,
    spine: u8,
}

impl Link {
    const fn write(self) -> [u8; 3] {
        [if self.up { 1 } else { 2 }, self.leaf, self.spine]
    }

    const fn read([kind, leaf, spine]: [u8; 3]) -> Option<Self> {
        if kind == 0 { None } else { Some(Self { up: kind == 1, leaf, spine }) }
    }
}

const fn links_of(from: u8, path: u8, to: u8) -> [Link; 2] {
    [Link { up: true, leaf: from, spine: path }, Link { up: false, leaf: to, spine: path }]
}

// Bytes of the scratch area.
const FLAGS: usize = 0;
const PATH: usize = 1;
const FROM: usize = 2;
/// Three bytes; zeros without a bottleneck.
const BOTTLENECK: usize = 3;
const DATA: u8 = 1;
const ELEPHANT: u8 = 2;
const NOTIFICATION: u8 = 0x80;
/// Where the links of a notification begin in its header, and how many there can be.
const LIST: usize = 58;
const MOST_LINKS: usize = 44;

/// Which flows of an interval are elephants (section 3.2). The sketch is that of leaves.
struct Elephants {
    sketch: Option<Sketch>,
    most: usize,
    /// The largest flows so far, with their estimates.
    top: BTreeMap<u64, u32>,
}

impl Elephants {
    /// Counts a packet of `flow`; whether the flow is among the largest.
    fn count(&mut self, flow: u64) -> bool {
        let Some(sketch) = &mut self.sketch else { return false };
        let estimate = sketch.add(flow);
        if self.top.len() < self.most || self.top.contains_key(&flow) {
            self.top.insert(flow, estimate);
            return true;
        }
        let Some((&least, &count)) = self.top.iter().min_by_key(|(_, count)| **count) else { return false };
        if estimate > count {
            self.top.remove(&least);
            self.top.insert(flow, estimate);
            return true;
        }
        false
    }
}

/// A flow at its source leaf.
#[derive(Clone, Copy)]
struct Flow {
    path: u8,
    to: u8,
    last: Instant,
}

/// What a destination leaf asks of a source leaf.
struct Order {
    flow: u64,
    avoid: Vec<Link>,
}

struct Reunion {
    place: Place,
    tolerance: usize,
    interval_ns: u64,
    flowlet_ns: u64,
    elephants: Elephants,
    /// Number of the interval that the counts belong to.
    interval: u64,
    /// Whether the timer of its end is set.
    armed: bool,
    /// Elephants by port, in this interval.
    on_port: BTreeMap<PortId, BTreeSet<u64>>,
    /// Looked up only, so that the order of the map is without effect.
    flows: HashMap<u64, Flow>,
    /// Elephants that this leaf sent in this interval.
    sent: BTreeMap<u64, Flow>,
    /// Elephants that it received, with path and source leaf.
    received: BTreeMap<u64, (u8, u8)>,
    /// By bottleneck, the flow that reported it last, with its source leaf.
    bottlenecks: BTreeMap<Link, (u64, u8)>,
    orders: Vec<Order>,
}

impl Reunion {
    /// Begins the interval that `now` lies in.
    fn roll(&mut self, now: Instant) {
        let interval = now.as_nanos() / self.interval_ns;
        if interval != self.interval {
            self.interval = interval;
            self.on_port.clear();
            self.elephants.top.clear();
            if let Some(sketch) = &mut self.elephants.sketch {
                sketch.clear();
            }
            self.sent.clear();
            self.received.clear();
            self.bottlenecks.clear();
        }
    }

    /// Leaves act at the end of an interval in which something happened.
    fn arm(&mut self, ctx: &mut SwitchCtx<'_>) {
        if !self.armed {
            self.armed = true;
            // One nanosecond before the next interval begins and the counts are cleared.
            ctx.set_timer(Instant::from_nanos((self.interval + 1) * self.interval_ns - 1), 0);
        }
    }

    /// More elephants on a port than it tolerates: the packet takes the link along, unless it has one already (3.3).
    fn detect(&mut self, port: PortId, link: Link, flow: u64, packet: &mut Packet) {
        let on_port = self.on_port.entry(port).or_default();
        on_port.insert(flow);
        if on_port.len() > self.tolerance && packet.scratch[BOTTLENECK] == 0 {
            packet.scratch[BOTTLENECK..BOTTLENECK + 3].copy_from_slice(&link.write());
        }
    }

    fn leave(&mut self, ctx: &mut SwitchCtx<'_>, to: u8, packet: &mut Packet) -> PortId {
        let (now, flow) = (ctx.now(), ip::flow(packet));
        let all = ctx.all_uplinks();
        let known = self.flows.get(&flow).copied();
        let known =
            known.filter(|flow| now.since(flow.last) <= self.flowlet_ns && ctx.is_up(all[usize::from(flow.path)]));
        let path = match known {
            Some(flow) => flow.path,
            None => {
                let port = leaf_spine::random_uplink(ctx);
                leaf_spine::number_of(ctx, port)
            }
        };
        let state = Flow { path, to, last: now };
        self.flows.insert(flow, state);
        let port = all[usize::from(path)];
        let elephant = self.elephants.count(flow);
        let scratch = &mut packet.scratch;
        (scratch[FLAGS], scratch[PATH], scratch[FROM]) = (DATA, path, self.place.index);
        if elephant {
            scratch[FLAGS] |= ELEPHANT;
            self.sent.insert(flow, state);
            let [up, _] = links_of(self.place.index, path, to);
            self.detect(port, up, flow, packet);
            self.arm(ctx);
        }
        port
    }

    /// The destination leaf learns from an elephant's packet.
    fn arrive(&mut self, ctx: &mut SwitchCtx<'_>, packet: &mut Packet) {
        let flow = ip::flow(packet);
        let scratch = std::mem::take(&mut packet.scratch);
        if scratch[FLAGS] & ELEPHANT == 0 {
            return;
        }
        self.received.insert(flow, (scratch[PATH], scratch[FROM]));
        if let Some(link) = Link::read([scratch[BOTTLENECK], scratch[BOTTLENECK + 1], scratch[BOTTLENECK + 2]]) {
            self.bottlenecks.insert(link, (flow, scratch[FROM]));
        }
        self.arm(ctx);
    }

    /// Section 3.5 and algorithm 1.
    fn notify(&mut self, ctx: &mut SwitchCtx<'_>) {
        let mut counts: BTreeMap<Link, usize> = BTreeMap::new();
        for &(path, from) in self.received.values() {
            for link in links_of(from, path, self.place.index) {
                *counts.entry(link).or_default() += 1;
            }
        }
        let used: Vec<Link> =
            counts.iter().filter(|(_, count)| **count >= self.tolerance).map(|(link, _)| *link).collect();
        for (bottleneck, (flow, from)) in std::mem::take(&mut self.bottlenecks) {
            let links: Vec<Link> = [bottleneck].into_iter().chain(used.iter().copied()).take(MOST_LINKS).collect();
            let mut scratch = [0; 16];
            (scratch[FLAGS], scratch[PATH]) = (NOTIFICATION, links.len() as u8);
            scratch[8..].copy_from_slice(&flow.to_be_bytes());
            let mut packet = self.place.control_packet(from, 64 + 3 * links.len() as u32, scratch);
            for (nth, link) in links.iter().enumerate() {
                packet.buffer()[LIST + 3 * nth..LIST + 3 * nth + 3].copy_from_slice(&link.write());
            }
            packet.set_header_len(LIST + 3 * links.len());
            if !ctx.all_uplinks().iter().any(|&port| ctx.is_up(port)) {
                return;
            }
            let port = leaf_spine::random_uplink(ctx);
            ctx.emit(port, packet);
        }
    }

    fn hear(&mut self, ctx: &mut SwitchCtx<'_>, packet: &Packet) {
        let flow = u64::from_be_bytes([8, 9, 10, 11, 12, 13, 14, 15].map(|at: usize| packet.scratch[at]));
        let list = packet.header().get(LIST..).unwrap_or(&[]);
        let links = list.chunks_exact(3).take(usize::from(packet.scratch[PATH]));
        let avoid = links.filter_map(|link| Link::read([link[0], link[1], link[2]])).collect();
        self.orders.push(Order { flow, avoid });
        self.arm(ctx);
    }

    /// Section 3.6 and algorithm 2. Links that a notification names are closed for all flows that move now. A flow that is named for two
    /// bottlenecks moves once (section 3.7): all of them are closed to it.
    fn reroute(&mut self, ctx: &SwitchCtx<'_>) {
        let own = self.place.index;
        let mut counts: BTreeMap<Link, usize> = BTreeMap::new();
        for flow in self.sent.values() {
            for link in links_of(own, flow.path, flow.to) {
                *counts.entry(link).or_default() += 1;
            }
        }
        let orders = std::mem::take(&mut self.orders);
        for link in orders.iter().flat_map(|order| &order.avoid) {
            counts.insert(*link, usize::MAX / 2);
        }
        let mut named = BTreeSet::new();
        for order in orders.iter().filter(|order| named.insert(order.flow)) {
            let Some(flow) = self.flows.get_mut(&order.flow) else { continue };
            let all = ctx.all_uplinks();
            let free = |path: &u8| {
                ctx.is_up(all[usize::from(*path)])
                    && links_of(own, *path, flow.to)
                        .iter()
                        .all(|link| counts.get(link).copied().unwrap_or(0) < self.tolerance)
            };
            if let Some(path) = (0..all.len().min(256) as u16).map(|path| path as u8).find(free) {
                for link in links_of(own, path, flow.to) {
                    *counts.entry(link).or_default() += 1;
                }
                flow.path = path;
            }
        }
    }
}

impl SwitchScheme for Reunion {
    fn forward(&mut self, ctx: &mut SwitchCtx<'_>, _: PortId, packet: &mut Packet) -> Result<Verdict, NoForward> {
        let flags = packet.scratch[FLAGS];
        let role = self.place.role(ctx, packet)?;
        self.roll(ctx.now());
        match role {
            Role::Source { .. } if packet.control => Ok(Verdict::To(leaf_spine::by_hash(ctx, packet))),
            Role::Source { to } => Ok(Verdict::To(self.leave(ctx, to, packet))),
            Role::Down(port) if self.place.spine => {
                if flags & (NOTIFICATION | ELEPHANT) == ELEPHANT {
                    // The host's leaf is at the other end of the port.
                    let to = self.place.leaf_of(ip::host_of(packet));
                    let link = Link { up: false, leaf: to, spine: self.place.index };
                    self.detect(port, link, ip::flow(packet), packet);
                }
                Ok(Verdict::To(port))
            }
            Role::Down(_) if flags & NOTIFICATION != 0 => {
                self.hear(ctx, packet);
                Ok(Verdict::Consume)
            }
            Role::Down(port) => {
                if flags & DATA != 0 {
                    self.arrive(ctx, packet);
                }
                Ok(Verdict::To(port))
            }
        }
    }

    fn on_timer(&mut self, ctx: &mut SwitchCtx<'_>, _: u32) {
        self.armed = false;
        self.notify(ctx);
        self.reroute(ctx);
    }

    fn state_bytes(&self) -> usize {
        let on_ports: usize = self.on_port.values().map(BTreeSet::len).sum();
        self.elephants.sketch.as_ref().map_or(0, Sketch::bytes)
            + table_bytes::<u64, u32>(self.elephants.top.len())
            + table_bytes::<u64, ()>(on_ports)
            + table_bytes::<u64, Flow>(self.flows.len() + self.sent.len())
            + table_bytes::<u64, (u8, u8)>(self.received.len())
            + table_bytes::<Link, (u64, u8)>(self.bottlenecks.len())
    }
}
