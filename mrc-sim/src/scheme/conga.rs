//! CONGA (Alizadeh et al., SIGCOMM 2014, section 3): leaves know how congested each path to each leaf is, because packets
//! collect it on their way and packets of the other direction bring it back; a new flowlet takes the least congested path.
//!
//! ```text
//! source leaf    flowlet -> uplink, least max(own estimate of the uplink, metric of the path)
//!                packet carries: uplink (LBTag), congestion so far (CE), one metric for the receiver's leaf (FB)
//! spine          CE = max(CE, own estimate of the port)
//! receiver leaf  keeps CE by sender's leaf and uplink, to be fed back; takes FB into its own table
//! ```
//! What packets carry stands in their scratch area: CONGA takes reserved bits of the overlay header for it, so it costs no
//! bytes on the wire.

use std::collections::HashMap;

use mrc_core::Instant;

use super::{
    ip,
    leaf_spine::{self, Place, Role},
};
use crate::fabric::{
    Clos, NoForward, Packet, Param, PathNames, PortId, SchemeInfo, SwitchCtx, SwitchScheme, Verdict, table_bytes,
};

pub(super) static INFO: SchemeInfo = SchemeInfo {
    name: "conga",
    about: "CONGA: a flowlet takes the path that feedback from the receiver's leaf shows least congested.",
    paths: PathNames::Entropy,
    params: &[
        Param {
            name: "gap_us",
            about: "Silence that ends a flowlet, in microseconds; 500 in the paper at 10 Gb/s.",
            default: 500.0,
            range: (0.0, 1e6),
            whole: false,
        },
        Param {
            name: "tau_us",
            about: "Time constant of the estimate of a link's use (DRE), in microseconds.",
            default: 160.0,
            range: (1.0, 1e6),
            whole: false,
        },
        Param { name: "bits", about: "Bits of a congestion metric (Q).", default: 3.0, range: (1.0, 8.0), whole: true },
        Param {
            name: "age_us",
            about: "A metric that nobody renewed for so long decays, in microseconds.",
            default: 10_000.0,
            range: (1.0, 1e9),
            whole: false,
        },
        Param {
            name: "alpha",
            about: "Share of the estimate that fades in each period of `tau_us` times `alpha`.",
            default: 0.1,
            range: (0.001, 1.0),
            whole: false,
        },
        Param {
            name: "window",
            about: "Neighbouring uplinks that a flowlet compares, from a random first one; 0, as in the paper: all. The simulator \
                    that ConWeave's authors published compares 4.",
            default: 0.0,
            range: (0.0, 255.0),
            whole: true,
        },
    ],
    check: Some(check),
    build: |site, values| {
        Box::new(Conga {
            place: Place::of(site),
            gap_ns: (values[0] * 1e3) as u64,
            estimator: Estimator { tau_ns: values[1] * 1e3, alpha: values[4] },
            levels: 1 << values[2] as u32,
            age_ns: (values[3] * 1e3) as u64,
            window: values[5] as usize,
            links: HashMap::new(),
            flowlets: HashMap::new(),
            to_leaf: HashMap::new(),
            from_leaf: HashMap::new(),
        })
    },
};

fn check(clos: &Clos, values: &[f64]) -> Result<(), &'static str> {
    leaf_spine::check(clos, values)?;
    if clos.t1 > 255 {
        return Err("CONGA counts uplinks from 1 in eight bits: at most 255 spines");
    }
    Ok(())
}

// Bytes of the scratch area.
const PRESENT: usize = 0;
const FROM: usize = 1;
const TAG: usize = 2;
const CE: usize = 3;
const FB_TAG: usize = 4;
const FB_METRIC: usize = 5;

/// How fast estimates fade.
#[derive(Clone, Copy)]
struct Estimator {
    tau_ns: f64,
    /// Share of an estimate that fades in each period of `tau * alpha`.
    alpha: f64,
}

impl Estimator {
    fn period(&self, now: Instant) -> u64 {
        (now.as_nanos() as f64 / (self.tau_ns * self.alpha)) as u64
    }
}

/// Discounting rate estimator of a link (section 3.2): bytes sent, multiplied by `1 - alpha` every `tau * alpha`.
#[derive(Clone, Copy, Default)]
struct Dre {
    bytes: f64,
    period: u64,
}

impl Dre {
    fn at(&self, now: Instant, by: &Estimator) -> f64 {
        self.bytes * (1.0 - by.alpha).powi((by.period(now) - self.period).min(1_000) as i32)
    }

    fn add(&mut self, now: Instant, by: &Estimator, bytes: u32) {
        self.bytes = self.at(now, by) + f64::from(bytes);
        self.period = by.period(now);
    }
}

/// A metric and when it was heard.
#[derive(Clone, Copy)]
struct Metric {
    ce: u8,
    at: Instant,
}

impl Metric {
    /// What it counts for now: half for each `age_ns` since it was heard, so that a path that was congested is tried again.
    fn aged(&self, now: Instant, age_ns: u64) -> u8 {
        let ages = now.since(self.at) / age_ns;
        self.ce.checked_shr(ages.min(31) as u32).unwrap_or(0)
    }
}

/// What came from one leaf, to be fed back to it.
#[derive(Default)]
struct Feedback {
    /// By its uplink; and whether the value is news to it.
    metrics: Vec<(Option<Metric>, bool)>,
    turn: usize,
}

impl Feedback {
    fn hear(&mut self, now: Instant, tag: u8, ce: u8) {
        let tag = usize::from(tag);
        if self.metrics.len() <= tag {
            self.metrics.resize(tag + 1, (None, false));
        }
        let changed = self.metrics[tag].0.is_none_or(|known| known.ce != ce);
        self.metrics[tag] = (Some(Metric { ce, at: now }), self.metrics[tag].1 || changed);
    }

    /// The next to feed back: in turn, those that changed first (section 3.3). A metric ages here, too: if it did not, its feedback would renew
    /// it at the other leaf for ever, and no flow would take that path again.
    fn next(&mut self, now: Instant, age_ns: u64) -> Option<(u8, u8)> {
        let len = self.metrics.len();
        let order = (0..len).map(|nth| (self.turn + nth) % len.max(1));
        let at = order.clone().find(|&at| self.metrics[at].1);
        let at = at.or_else(|| order.clone().find(|&at| self.metrics[at].0.is_some()))?;
        self.turn = at + 1;
        self.metrics[at].1 = false;
        Some((at as u8, self.metrics[at].0?.aged(now, age_ns)))
    }
}

/// Maps are looked up only, so that their order is without effect.
struct Conga {
    place: Place,
    gap_ns: u64,
    estimator: Estimator,
    levels: u32,
    age_ns: u64,
    /// Uplinks that a new flowlet compares; 0: all.
    window: usize,
    links: HashMap<PortId, Dre>,
    /// Uplink and latest packet of each flow.
    flowlets: HashMap<u64, (PortId, Instant)>,
    /// Congestion-To-Leaf table: by leaf and uplink.
    to_leaf: HashMap<(u8, u8), Metric>,
    /// Congestion-From-Leaf table.
    from_leaf: HashMap<u8, Feedback>,
}

impl Conga {
    fn metric_of_link(&self, ctx: &SwitchCtx<'_>, port: PortId) -> u8 {
        let bytes = self.links.get(&port).map_or(0.0, |dre| dre.at(ctx.now(), &self.estimator));
        let full = ctx.rate_bps(port) as f64 * self.estimator.tau_ns / 8e9;
        ((bytes / full * f64::from(self.levels)) as u32).min(self.levels - 1) as u8
    }

    fn metric_of_path(&self, now: Instant, to: u8, tag: u8) -> u8 {
        self.to_leaf.get(&(to, tag)).map_or(0, |metric| metric.aged(now, self.age_ns))
    }

    /// The uplink of a new flowlet (section 3.5). It stays where the last one was unless another is strictly better.
    fn decide(&self, ctx: &mut SwitchCtx<'_>, to: u8, last: Option<PortId>) -> PortId {
        let all = ctx.uplinks().len();
        let window = if self.window == 0 { all } else { self.window.min(all) };
        let first = if window < all { ctx.rng().below((all - window + 1) as u32) as usize } else { 0 };
        let uplinks = &ctx.uplinks()[first..first + window];
        let cost = |port: PortId| {
            let tag = leaf_spine::number_of(ctx, port);
            self.metric_of_link(ctx, port).max(self.metric_of_path(ctx.now(), to, tag))
        };
        let costs: Vec<u8> = uplinks.iter().map(|&port| cost(port)).collect();
        let least = costs.iter().copied().min().unwrap_or(0);
        let best: Vec<PortId> =
            uplinks.iter().zip(&costs).filter(|(_, cost)| **cost == least).map(|(port, _)| *port).collect();
        match last {
            Some(port) if best.contains(&port) => port,
            _ => best[ctx.rng().below(best.len() as u32) as usize],
        }
    }

    fn send(&mut self, ctx: &SwitchCtx<'_>, port: PortId, packet: &Packet) -> u8 {
        let estimator = self.estimator;
        self.links.entry(port).or_default().add(ctx.now(), &estimator, packet.wire_len);
        self.metric_of_link(ctx, port)
    }

    fn leave(&mut self, ctx: &mut SwitchCtx<'_>, to: u8, packet: &mut Packet) -> PortId {
        let (now, flow) = (ctx.now(), ip::flow(packet));
        let known = self.flowlets.get(&flow).copied().filter(|(port, _)| ctx.is_up(*port));
        let port = match known {
            Some((port, last)) if now.since(last) <= self.gap_ns => port,
            _ => self.decide(ctx, to, known.map(|(port, _)| port)),
        };
        self.flowlets.insert(flow, (port, now));
        let ce = self.send(ctx, port, packet);
        let age_ns = self.age_ns;
        let (fb_tag, fb_metric) = match self.from_leaf.get_mut(&to).and_then(|from| from.next(now, age_ns)) {
            Some((tag, ce)) => (tag + 1, ce),
            None => (0, 0),
        };
        let scratch = &mut packet.scratch;
        (scratch[PRESENT], scratch[FROM]) = (1, self.place.index);
        (scratch[TAG], scratch[CE]) = (leaf_spine::number_of(ctx, port), ce);
        (scratch[FB_TAG], scratch[FB_METRIC]) = (fb_tag, fb_metric);
        port
    }

    fn arrive(&mut self, now: Instant, packet: &mut Packet) {
        let scratch = std::mem::take(&mut packet.scratch);
        let from = scratch[FROM];
        self.from_leaf.entry(from).or_default().hear(now, scratch[TAG], scratch[CE]);
        if let Some(tag) = scratch[FB_TAG].checked_sub(1) {
            self.to_leaf.insert((from, tag), Metric { ce: scratch[FB_METRIC], at: now });
        }
    }
}

impl SwitchScheme for Conga {
    fn forward(&mut self, ctx: &mut SwitchCtx<'_>, _: PortId, packet: &mut Packet) -> Result<Verdict, NoForward> {
        match self.place.role(ctx, packet)? {
            Role::Source { to } => Ok(Verdict::To(self.leave(ctx, to, packet))),
            Role::Down(port) => {
                if packet.scratch[PRESENT] == 0 {
                    return Ok(Verdict::To(port));
                }
                if self.place.spine {
                    let ce = self.send(ctx, port, packet);
                    packet.scratch[CE] = packet.scratch[CE].max(ce);
                } else {
                    self.arrive(ctx.now(), packet);
                }
                Ok(Verdict::To(port))
            }
        }
    }

    fn state_bytes(&self) -> usize {
        let feedback: usize = self.from_leaf.values().map(|from| from.metrics.len()).sum();
        table_bytes::<PortId, Dre>(self.links.len())
            + table_bytes::<u64, (PortId, Instant)>(self.flowlets.len())
            + table_bytes::<(u8, u8), Metric>(self.to_leaf.len())
            + table_bytes::<u8, (Option<Metric>, bool)>(feedback)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1_000)
    }

    /// 100 Gb/s into an estimate of 160 us settle at rate times tau, 2 MB; silence of one tau leaves (1 - 0.1)^10 of it.
    #[test]
    fn the_estimate_settles_at_rate_times_tau_and_fades() {
        let mut dre = Dre::default();
        let by = Estimator { tau_ns: 160_000.0, alpha: 0.1 };
        for packet in 0..20_000u64 {
            dre.add(Instant::from_nanos(packet * 100), &by, 1_250);
        }
        let settled = dre.at(Instant::from_nanos(2_000_000), &by);
        assert!((1.79e6..2.01e6).contains(&settled), "{settled}");
        let faded = dre.at(Instant::from_nanos(2_160_000), &by);
        assert!((faded / settled - 0.9f64.powi(10)).abs() < 1e-9, "{}", faded / settled);
        // Periods of 50 us that fade a fifth, as ConWeave's authors have it.
        let by = Estimator { tau_ns: 250_000.0, alpha: 0.2 };
        let mut slow = Dre::default();
        slow.add(at(0), &by, 1_000);
        assert_eq!([49, 50, 100].map(|us| slow.at(at(us), &by).round()), [1_000.0, 800.0, 640.0]);
    }

    #[test]
    fn feedback_goes_round_and_prefers_what_changed() {
        let (now, age_ns) = (at(0), 10_000_000);
        let mut feedback = Feedback::default();
        assert_eq!(feedback.next(now, age_ns), None);
        for (tag, ce) in [(0, 3), (2, 5)] {
            feedback.hear(now, tag, ce);
        }
        let mut next = || feedback.next(now, age_ns).unwrap();
        assert_eq!([next(), next(), next(), next()], [(0, 3), (2, 5), (0, 3), (2, 5)], "unknown uplinks are left out");
        feedback.hear(now, 2, 5);
        feedback.hear(now, 0, 4);
        assert_eq!(feedback.next(now, age_ns), Some((0, 4)));
        feedback.hear(now, 0, 6);
        assert_eq!(feedback.next(now, age_ns), Some((0, 6)), "before 2, whose turn it is");
    }

    #[test]
    fn a_metric_that_nobody_renews_decays() {
        let clos = crate::Clos { planes: 1, t0: 2, t1: 4, hosts: 4, ..crate::Clos::default() };
        let site = crate::fabric::Site { clos: &clos, plane: 0, spine: false, index: 0, salt: 0 };
        let mut conga = Conga {
            place: Place::of(&site),
            gap_ns: 1,
            estimator: Estimator { tau_ns: 1.0, alpha: 0.1 },
            levels: 8,
            age_ns: 10_000_000,
            window: 0,
            links: HashMap::new(),
            flowlets: HashMap::new(),
            to_leaf: HashMap::new(),
            from_leaf: HashMap::new(),
        };
        conga.to_leaf.insert((1, 2), Metric { ce: 7, at: at(0) });
        let metrics = [9_999, 10_000, 20_000, 30_000].map(|us| conga.metric_of_path(at(us), 1, 2));
        assert_eq!(metrics, [7, 3, 1, 0]);
    }
}
