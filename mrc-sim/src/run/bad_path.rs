//! How long a scheme goes on using links that a fault struck: samples of what switches offer to them.

use std::collections::BTreeSet;

use mrc_core::Instant;

use super::results::BadPath;
use crate::fabric::{Fault, LinkId, Parts, PortId, Tier};
use crate::host::Transport;
use crate::scenario::Built;

/// Share of all data of the time in question that shares are reckoned from, at least: a few late packets tell nothing.
const WINDOW: f64 = 0.02;
/// Of its even share, what a link that was left may still get: packets in flight, and those that try it again.
const LEFT: f64 = 0.1;

/// Data offered until some instant.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Sample {
    at: Instant,
    /// To the struck ports.
    bad: u64,
    /// What an even spread over all ports of their tiers had offered them.
    even: f64,
}

/// What is wrong with a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Wrong {
    Carrier,
    Rate,
    /// Packets are lost, changed or late.
    Bits,
}

/// The links that faults strike, and what was offered to them.
pub(super) struct BadLinks {
    /// Ports of switches on both ends, with their tiers.
    ports: Vec<(PortId, Tier)>,
    /// Of each tier: its ports.
    tiers: Vec<(Tier, Vec<PortId>)>,
    from: Instant,
    until: Instant,
    samples: Vec<Sample>,
}

impl BadLinks {
    /// `None` without faults of links between switches; nobody can avoid a link to a host.
    pub(super) fn of(built: &Built) -> Option<Self> {
        let topology = &built.topology;
        let from = built.faults.iter().map(|(at, _)| *at).min()?;
        let mut links: Vec<LinkId> = Vec::new();
        // What is wrong with which link: it may change before it ends, where faults overlap.
        let (mut lasting, mut last) = (BTreeSet::new(), from);
        for (at, fault) in &built.faults {
            let (link, what, ends) = match *fault {
                Fault::Cut(link) => (link, Wrong::Carrier, false),
                Fault::Heal(link) => (link, Wrong::Carrier, true),
                Fault::Degrade(link, spec) => (link, Wrong::Rate, spec.rate_bps >= own_rate(built, link)),
                Fault::Impair(link, spec) => (link, Wrong::Bits, spec.is_none()),
                // All links of a switch: which they are follows from the topology alone, and none of them heals alone.
                Fault::SwitchDown(_) | Fault::SwitchUp(_) | Fault::Silent(_) | Fault::Loud(_) => return None,
            };
            if topology.is_host_link(link) {
                return None;
            }
            if !links.contains(&link) {
                links.push(link);
            }
            if ends {
                lasting.remove(&(link, what));
            } else {
                lasting.insert((link, what));
            }
            last = last.max(*at);
        }
        let until = if lasting.is_empty() { last } else { Instant::FAR };
        let tier = |port: PortId| topology.tier(port);
        let ports: Vec<_> =
            links.iter().flat_map(|link| [link.lower(), link.upper()]).map(|port| (port, tier(port))).collect();
        let mut tiers: Vec<(Tier, Vec<PortId>)> = Vec::new();
        for &(_, tier) in &ports {
            if tiers.iter().all(|(known, _)| *known != tier) {
                let all = (0..topology.links() * 2).map(PortId).filter(|&port| topology.tier(port) == tier);
                tiers.push((tier, all.collect()));
            }
        }
        Some(Self { ports, tiers, from, until, samples: Vec::new() })
    }

    pub(super) fn sample<T: Transport>(&mut self, sim: &Parts<T>) {
        let offered = |port: &PortId| sim.port_counters(*port).offered_bytes;
        let even = self.tiers.iter().map(|(tier, all)| {
            let struck = self.ports.iter().filter(|(_, of)| of == tier).count();
            all.iter().map(offered).sum::<u64>() as f64 * struck as f64 / all.len() as f64
        });
        let even = even.sum();
        let bad = self.ports.iter().map(|(port, _)| offered(port)).sum();
        self.samples.push(Sample { at: sim.now(), bad, even });
    }

    pub(super) fn result(&self) -> Option<BadPath> {
        over(&self.samples, self.from, self.until)
    }
}

/// Rate of a link without faults.
fn own_rate(built: &Built, link: LinkId) -> u64 {
    let changed = built.links.iter().rev().find(|(other, _)| *other == link);
    changed.map_or_else(|| built.topology.link_spec(link), |&(_, spec)| spec).rate_bps
}

/// Share and time to leave between `from` and `until`.
fn over(samples: &[Sample], from: Instant, until: Instant) -> Option<BadPath> {
    let lasting: Vec<&Sample> = samples.iter().filter(|sample| (from..=until).contains(&sample.at)).collect();
    // After the last data nobody chooses anything.
    let (first, all) = (lasting.first()?, lasting.last()?);
    let busy = lasting.iter().position(|sample| sample.even >= all.even)?;
    let lasting = &lasting[..=busy];
    let even = all.even - first.even;
    if even <= 0.0 {
        return None;
    }
    let since = |sample: &Sample| sample.at.since(from) as f64;
    let (mut begin, mut before, mut last) = (*first, *first, 0.0);
    for sample in &lasting[1..] {
        let few = sample.even - begin.even < WINDOW * even;
        if few && sample.even < all.even {
            continue;
        }
        let stays =
            |start: &Sample| (sample.bad - start.bad) as f64 > LEFT * (sample.even - start.even).max(WINDOW * even);
        // A few packets at the end do not tell that what stayed until then has left.
        if stays(begin) || few && stays(before) {
            last = since(sample);
        }
        (before, begin) = (begin, *sample);
    }
    let end = since(lasting[busy]);
    Some(BadPath {
        share_percent: 100.0 * (all.bad - first.bad) as f64 / even,
        leave_us: (last <= 0.9 * end).then_some(last / 1e3),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample every 10 us, in which an even spread offers 1000 bytes more, and the struck ports get `offered`.
    fn samples(offered: &[u64]) -> Vec<Sample> {
        let mut samples = vec![Sample { at: Instant::ZERO, bad: 0, even: 0.0 }];
        for &bytes in offered {
            let last = samples[samples.len() - 1];
            samples.push(Sample { at: last.at.after(10_000), bad: last.bad + bytes, even: last.even + 1000.0 });
        }
        samples
    }

    fn us(us: u64) -> Instant {
        Instant::from_nanos(us * 1_000)
    }

    /// A fault that changes into another one of its kind before it ends lasts until that ends.
    #[test]
    fn faults_that_overlap_end_with_the_last_one() {
        let fault = |kind: &str, link: &str, at: u32, lasting: u32| {
            format!("[[fault]]\nkind = {kind}\ntarget = [\"p0-t0a-{link}\"]\nat_us = {at}\nfor_us = {lasting}\n")
        };
        let [one, two] = ["\"slow\"\ngbps = 1", "\"slow\"\ngbps = 2"];
        let (loss, jitter) = ("\"loss\"\nprobability = 0.1", "\"jitter\"\njitter_us = 1");
        for (faults, until) in [
            (fault(one, "t1a", 10, 100) + &fault(two, "t1a", 50, 100), us(150)),
            (fault(loss, "t1a", 10, 100) + &fault(jitter, "t1a", 50, 20), us(110)),
            (fault("\"link-down\"", "t1a", 10, 10) + &fault(loss, "t1b", 5, 100), us(105)),
            (fault(one, "t1a", 10, 100) + &fault(two, "t1a", 50, 100).replace("for_us = 100", ""), Instant::FAR),
        ] {
            let text = format!("[[workload]]\n{faults}");
            let built = crate::scenario::load_str("t.toml", &text, std::path::Path::new("."), &[], None).unwrap();
            let bad = BadLinks::of(&built).unwrap();
            assert_eq!((bad.until, bad.from < us(11)), (until, true), "{faults}");
        }
    }

    #[test]
    fn a_path_is_left_when_its_share_stays_below_a_tenth() {
        // The fault comes at 20 us; what happens before does not count.
        let samples = samples(&[1000, 1000, 1000, 500, 50, 300, 0, 99, 0, 0, 0, 0, 0, 0]);
        let found = over(&samples, us(20), Instant::FAR).unwrap();
        assert_eq!(found.leave_us, Some(40.0), "300 at 60 us is the last above 100");
        assert!((found.share_percent - 100.0 * 1949.0 / 12_000.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn whoever_stays_has_no_time_of_leaving() {
        let stays = over(&samples(&[1000; 20]), us(20), Instant::FAR).unwrap();
        assert_eq!((stays.leave_us, stays.share_percent), (None, 100.0));
        let never_there = over(&samples(&[0; 20]), us(20), Instant::FAR).unwrap();
        assert_eq!((never_there.leave_us, never_there.share_percent), (Some(0.0), 0.0));
        assert_eq!(over(&samples(&[5; 2]), us(30), Instant::FAR), None, "no data while it lasted");
    }

    #[test]
    fn time_after_the_fault_or_after_the_data_does_not_count() {
        let mut there = vec![1000, 1000, 800, 0, 0, 0, 0];
        there.extend([1000; 20]);
        let found = over(&samples(&there), us(20), us(70)).unwrap();
        assert_eq!((found.leave_us, found.share_percent), (Some(10.0), 16.0), "it healed at 70 us");
        let mut ends = samples(&[1000; 10]);
        let last = ends[10];
        ends.extend((1..100).map(|nth| Sample { at: last.at.after(nth * 10_000), ..last }));
        assert_eq!(over(&ends, us(20), Instant::FAR).unwrap().leave_us, None, "a flow that ends did not leave");
        let mut late = samples(&[1000; 10]);
        late.push(Sample { at: last.at.after(10_000), even: last.even + 5.0, ..last });
        assert_eq!(over(&late, us(20), Instant::FAR).unwrap().leave_us, None, "nor one with a late packet");
    }
}
