//! Impairments: what a link does to its packets, and counters of what it did.

use std::str::FromStr;

use serde::Serialize;

use crate::bpf::{self, Hook, Port};
use crate::exec::{LabError, enter};
use crate::fabric::Fabric;
use crate::shape::{Link, Node, Shape, device};
use crate::shaper::parse_rate;

/// What the switches do to the packets of a link. Everything happens where a switch sends, except that packets from a
/// host can also be lost where the switch receives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Impairment {
    /// Packets lost at random, in parts per million; any SRv6 packet.
    pub loss_ppm: u32,
    /// Packets trimmed at random, in parts per million, of those whose DSCP allows it.
    pub trim_ppm: u32,
    /// Packets marked CE at random, in parts per million, of those that are ECN-capable; not on the last hop.
    pub ce_ppm: u32,
    /// A queue that exists only in numbers, but marks, trims and drops like one.
    pub queue: Option<VirtualQueue>,
    /// Seed of the random choices; each port makes its own of it.
    pub seed: u64,
}

/// A queue drained at a fixed rate. Control and trimmed packets overtake it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VirtualQueue {
    /// Its rate.
    pub bits_per_second: u64,
    /// Backlog in bytes beyond which ECN-capable packets are marked; not on the last hop.
    pub mark_bytes: u64,
    /// Backlog in bytes beyond which packets are trimmed if their DSCP allows it.
    pub trim_bytes: u64,
    /// Backlog in bytes beyond which other packets are dropped.
    pub drop_bytes: u64,
}

/// What one port did since it was impaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct PortCounters {
    /// SRv6 packets that came by.
    pub packets: u64,
    /// Lost at random.
    pub lost: u64,
    /// Dropped because the virtual queue was full.
    pub dropped: u64,
    /// Trimmed.
    pub trimmed: u64,
    /// Marked CE.
    pub marked: u64,
}

/// One direction of an impaired link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PortReport {
    /// Link.
    pub link: String,
    /// Node the packets come from.
    pub from: String,
    /// Node they go to.
    pub to: String,
    /// Whether they go to a host.
    pub last_hop: bool,
    /// What happened to them.
    #[serde(flatten)]
    pub counters: PortCounters,
}

/// Parts per million from text: `1%`, `0.5%`, `0.01`.
///
/// # Errors
/// What is wrong, for people.
pub fn parse_ppm(text: &str) -> Result<u32, String> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1e6), |number| (number, 1e4));
    let value: f64 = number.trim().parse().map_err(|_| format!("`{text}` is no share: write 1% or 0.01"))?;
    let ppm = (value * scale).round();
    if !(0.0..=1e6).contains(&ppm) {
        return Err(format!("`{text}` is no share: 0% to 100% are possible"));
    }
    Ok(ppm as u32)
}

/// A number with one of the unit suffixes, largest first.
pub(crate) fn parse_unit(text: &str, what: &str, units: &[(&str, u64)]) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((lower.strip_suffix(unit)?, *factor))).unwrap_or((&lower, 1));
    let value: f64 = number.parse().map_err(|_| format!("`{text}` is no {what}"))?;
    let value = value * factor as f64;
    if !(1.0..=1e15).contains(&value) {
        return Err(format!("`{text}` is no {what} a queue can have"));
    }
    Ok(value as u64)
}

impl FromStr for VirtualQueue {
    type Err = String;

    /// `RATE,MARK,TRIM,DROP`, such as `1gbit,60kb,200kb,1mb`.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(',').collect();
        let [rate, mark, trim, drop] = parts.as_slice() else {
            return Err(format!("`{text}` is no queue: write RATE,MARK,TRIM,DROP, such as 1gbit,60kb,200kb,1mb"));
        };
        let sizes = [("gb", 1_000_000_000), ("mb", 1_000_000), ("kb", 1_000), ("b", 1)];
        let size = |text| parse_unit(text, "number of bytes", &sizes);
        Ok(Self {
            bits_per_second: parse_rate(rate)?,
            mark_bytes: size(mark)?,
            trim_bytes: size(trim)?,
            drop_bytes: size(drop)?,
        })
    }
}

/// One direction of a link, at the switch where it is impaired.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) link: Link,
    /// The switch.
    pub(crate) switch: Node,
    /// The other end.
    pub(crate) peer: Node,
    pub(crate) hook: Hook,
    number: u64,
}

impl Place {
    fn last_hop(&self) -> bool {
        self.hook == Hook::Egress && matches!(self.peer, Node::Host(_))
    }

    fn name(&self) -> String {
        let (from, to) = self.ends();
        format!("{} ({} to {})", self.link.name(), from.name(), to.name())
    }

    pub(crate) fn ends(&self) -> (Node, Node) {
        match self.hook {
            Hook::Egress => (self.switch, self.peer),
            Hook::Ingress => (self.peer, self.switch),
        }
    }

    /// Does `f` to the port, in its switch.
    fn at<R: Send>(
        &self,
        shape: &Shape,
        f: impl FnOnce(&Port<'_>) -> std::io::Result<R> + Send,
    ) -> Result<R, LabError> {
        let device = device(self.link.plane, self.switch, self.peer);
        let port = Port { device: &device, hook: self.hook, last_hop: self.last_hop(), number: self.number };
        enter(&shape.namespace(self.switch), || f(&port))?
            .map_err(|source| LabError::Os { what: format!("impairing {}", self.name()), source })
    }
}

/// Both directions of every link called `what`: a link's name, `p1` for all of a plane, `all`. With `:up` or `:down` behind
/// it, only the direction away from the hosts or towards them.
pub(crate) fn places(shape: &Shape, what: &str) -> Result<Vec<Place>, LabError> {
    let links = shape.links();
    let (what, up, down) = match what.rsplit_once(':') {
        Some((name, "up")) => (name, true, false),
        Some((name, "down")) => (name, false, true),
        _ => (what, true, true),
    };
    let wanted: Vec<Link> = match what {
        "all" => links.clone(),
        _ if (0..shape.planes).any(|plane| format!("p{plane}") == what) => {
            links.iter().filter(|link| format!("p{}", link.plane) == what).copied().collect()
        }
        name => vec![shape.link(name)?],
    };
    let mut places = Vec::new();
    for link in wanted {
        let number = links.iter().position(|other| *other == link).unwrap_or(0) as u64 * 2;
        let back = if matches!(link.a, Node::Host(_)) {
            Place { link, switch: link.b, peer: link.a, hook: Hook::Ingress, number: number + 1 }
        } else {
            Place { link, switch: link.a, peer: link.b, hook: Hook::Egress, number: number + 1 }
        };
        let forth = Place { link, switch: link.b, peer: link.a, hook: Hook::Egress, number };
        places.extend(down.then_some(forth).into_iter().chain(up.then_some(back)));
    }
    Ok(places)
}

impl Fabric {
    /// Impairs links: `what` is a link's name, `p1` for all links of a plane, or `all`; `:up` or `:down` behind it means only
    /// the direction away from the hosts or towards them. An earlier impairment of the
    /// same link is replaced; counters start at zero.
    ///
    /// # Errors
    /// No such link, or the kernel cannot (see [`crate::impair_requirements`]).
    pub fn impair(&self, what: &str, impairment: &Impairment) -> Result<(), LabError> {
        let places = places(self.shape(), what)?;
        bpf::impair_requirements()?;
        places.iter().try_for_each(|place| place.at(self.shape(), |port| bpf::impair(port, impairment)))
    }

    /// Ends all impairments of `what`, as in [`Self::impair`]. A link that has none stays as it is.
    ///
    /// # Errors
    /// No such link.
    pub fn clear(&self, what: &str) -> Result<(), LabError> {
        places(self.shape(), what)?.iter().try_for_each(|place| place.at(self.shape(), bpf::clear))
    }

    /// What the impaired links did, one entry per direction, in the order of the links.
    ///
    /// # Errors
    /// A switch does not answer.
    pub fn impaired(&self) -> Result<Vec<PortReport>, LabError> {
        let mut reports = Vec::new();
        let missing = self.missing_links()?;
        for place in places(self.shape(), "all")?.into_iter().filter(|place| !missing.contains(&place.link.name())) {
            if let Some(counters) = place.at(self.shape(), bpf::counters)? {
                let (from, to) = place.ends();
                let (link, last_hop) = (place.link.name(), place.last_hop());
                reports.push(PortReport { link, from: from.name(), to: to.name(), last_hop, counters });
            }
        }
        Ok(reports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_queues_are_read_and_refused() {
        assert_eq!(parse_ppm("1%"), Ok(10_000));
        assert_eq!(parse_ppm("0.5 %"), Ok(5_000));
        assert_eq!(parse_ppm("0.01"), Ok(10_000));
        assert_eq!(parse_ppm("100%"), Ok(1_000_000));
        for bad in ["", "%", "101%", "-1%", "1.5", "x", "NaN"] {
            assert!(parse_ppm(bad).is_err(), "{bad}");
        }
        let queue: VirtualQueue = "2.5gbit,60kb,200KB,1mb".parse().unwrap();
        let (bits_per_second, drop_bytes) = (2_500_000_000, 1_000_000);
        assert_eq!(queue, VirtualQueue { bits_per_second, mark_bytes: 60_000, trim_bytes: 200_000, drop_bytes });
        for bad in ["", "1gbit", "1gbit,1,2", "x,1,2,3", "0,1,2,3", "1gbit,1,2,3,4", "1gbit,-1,2,3"] {
            assert!(bad.parse::<VirtualQueue>().is_err(), "{bad}");
        }
    }

    #[test]
    fn every_direction_has_one_place_and_its_own_number() {
        let shape = Shape::default();
        let all = places(&shape, "all").unwrap();
        assert_eq!(all.len(), 2 * shape.links().len());
        let numbers: std::collections::BTreeSet<u64> = all.iter().map(|place| place.number).collect();
        assert_eq!(numbers.len(), all.len());
        assert_eq!(all.iter().filter(|place| place.last_hop()).count(), 4);
        assert_eq!(places(&shape, "p1").unwrap().len(), all.len() / 2);
        let one = places(&shape, "p0-hA").unwrap();
        assert_eq!(one[0].name(), "p0-hA (p0-t0a to hA)");
        assert_eq!((one[1].name(), one[1].hook), ("p0-hA (hA to p0-t0a)".into(), Hook::Ingress));
        let name = |what: &str| places(&shape, what).unwrap().iter().map(Place::name).collect::<Vec<_>>();
        assert_eq!(name("p0-t0a-t1c:up"), ["p0-t0a-t1c (p0-t0a to p0-t1c)"]);
        assert_eq!(name("p0-t0a-t1c:down"), ["p0-t0a-t1c (p0-t1c to p0-t0a)"]);
        assert_eq!(name("p0-hA:down"), ["p0-hA (p0-t0a to hA)"]);
        assert!(places(&shape, "p0-hA:left").is_err());
        assert!(places(&shape, "p2").is_err() && places(&shape, "p0-x").is_err());
    }
}
