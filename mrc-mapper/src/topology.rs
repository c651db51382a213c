//! The fabric as the mapper sees it: its components, their names, and what a probe passes.
//!
//! A probe passes [`Element`]s: directed links, switches, planes, and the host that reflects it. A [`Component`] is what
//! breaks and is replaced; it has one or two elements. Names are those of the lab: `p0-t0a-t1c` is a link, `p0-t0a-t1c:up`
//! its direction away from the hosts, `p0-t0a` a switch, `p0` a plane, `p0-hA` a host link, `p0-hA.port` the port at
//! its end, `hA` a host.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Number of a host; the same on all planes.
pub type HostId = u16;

/// Size of a fabric. Every T0 of a plane is connected to every T1 of that plane; host `h` hangs under T0 `h % leaves`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fabric {
    /// Independent networks.
    pub planes: u8,
    /// T0 switches per plane.
    pub leaves: u16,
    /// T1 switches per plane.
    pub spines: u16,
    /// Hosts, each with one port per plane.
    pub hosts: u16,
}

/// Which way a packet passes a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Away from the hosts.
    Up,
    /// Towards the hosts.
    Down,
    /// Both.
    Both,
}

/// What can be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Component {
    /// All of a plane.
    Plane(u8),
    /// A T0 switch: plane, number.
    T0(u8, u16),
    /// A T1 switch: plane, number.
    T1(u8, u16),
    /// The link between T0 and T1: plane, T0, T1.
    Uplink(u8, u16, u16, Direction),
    /// The link between a host and its T0: plane, host.
    HostLink(u8, HostId, Direction),
    /// The host's port: plane, host. Probes cannot tell it from its link; the host's own counters can.
    NicPort(u8, HostId),
    /// The host itself: its agent does not answer. Never a fault of the fabric.
    Host(HostId),
}

/// What a probe passes, numbered densely within a fabric.
pub type Element = u32;

impl Fabric {
    /// Refuses what has no host or no switch, and more planes or T1s than an EV can name.
    ///
    /// # Errors
    /// [`BadFabric`], with the smallest that is possible.
    pub fn check(&self) -> Result<(), BadFabric> {
        let enough = self.planes >= 1 && self.leaves >= 1 && self.spines >= 1 && self.hosts >= 1;
        if enough && self.planes <= 16 && self.spines <= 256 { Ok(()) } else { Err(BadFabric(*self)) }
    }

    /// The T0 of a host.
    #[must_use]
    pub fn leaf_of(&self, host: HostId) -> u16 {
        host % self.leaves
    }

    /// Hosts under a T0, ascending.
    pub fn hosts_of(&self, leaf: u16) -> impl Iterator<Item = HostId> + use<> {
        (leaf..self.hosts).step_by(usize::from(self.leaves))
    }

    fn plane_size(&self) -> u32 {
        let (t0, t1, hosts) = (u32::from(self.leaves), u32::from(self.spines), u32::from(self.hosts));
        1 + t0 + t1 + 2 * t0 * t1 + 2 * hosts
    }

    /// How many elements there are.
    #[must_use]
    pub fn elements(&self) -> u32 {
        u32::from(self.planes) * self.plane_size() + u32::from(self.hosts)
    }

    /// The element of a plane.
    #[must_use]
    pub fn plane(&self, plane: u8) -> Element {
        u32::from(plane) * self.plane_size()
    }

    /// The element of a T0.
    #[must_use]
    pub fn t0(&self, plane: u8, leaf: u16) -> Element {
        self.plane(plane) + 1 + u32::from(leaf)
    }

    /// The element of a T1.
    #[must_use]
    pub fn t1(&self, plane: u8, spine: u16) -> Element {
        self.plane(plane) + 1 + u32::from(self.leaves) + u32::from(spine)
    }

    fn uplinks_at(&self, plane: u8) -> u32 {
        self.plane(plane) + 1 + u32::from(self.leaves) + u32::from(self.spines)
    }

    /// The element of an uplink, from T0 to T1 (`down` false) or back.
    #[must_use]
    pub fn uplink(&self, plane: u8, leaf: u16, spine: u16, down: bool) -> Element {
        self.uplinks_at(plane) + 2 * (u32::from(leaf) * u32::from(self.spines) + u32::from(spine)) + u32::from(down)
    }

    /// The element of a host link, from the host (`down` false) or to it.
    #[must_use]
    pub fn host_link(&self, plane: u8, host: HostId, down: bool) -> Element {
        let uplinks = 2 * u32::from(self.leaves) * u32::from(self.spines);
        self.uplinks_at(plane) + uplinks + 2 * u32::from(host) + u32::from(down)
    }

    /// The element of a host that reflects probes.
    #[must_use]
    pub fn host(&self, host: HostId) -> Element {
        u32::from(self.planes) * self.plane_size() + u32::from(host)
    }

    /// Elements of a component, one or two.
    #[must_use]
    pub fn elements_of(&self, component: Component) -> Vec<Element> {
        let ways = |direction, up: Element, down: Element| match direction {
            Direction::Up => vec![up],
            Direction::Down => vec![down],
            Direction::Both => vec![up, down],
        };
        match component {
            Component::Plane(plane) => vec![self.plane(plane)],
            Component::T0(plane, leaf) => vec![self.t0(plane, leaf)],
            Component::T1(plane, spine) => vec![self.t1(plane, spine)],
            Component::Uplink(plane, leaf, spine, way) => {
                ways(way, self.uplink(plane, leaf, spine, false), self.uplink(plane, leaf, spine, true))
            }
            Component::HostLink(plane, host, way) => {
                ways(way, self.host_link(plane, host, false), self.host_link(plane, host, true))
            }
            Component::NicPort(plane, host) => {
                vec![self.host_link(plane, host, false), self.host_link(plane, host, true)]
            }
            Component::Host(host) => vec![self.host(host)],
        }
    }

    /// What an element is.
    #[must_use]
    pub fn component(&self, element: Element) -> Component {
        let size = self.plane_size();
        let (plane, at) = (element / size, element % size);
        if plane >= u32::from(self.planes) {
            return Component::Host((element - u32::from(self.planes) * size) as HostId);
        }
        let (plane, t0, t1) = (plane as u8, u32::from(self.leaves), u32::from(self.spines));
        let way = |at: u32| if at.is_multiple_of(2) { Direction::Up } else { Direction::Down };
        if at == 0 {
            return Component::Plane(plane);
        }
        let at = at - 1;
        if at < t0 {
            return Component::T0(plane, at as u16);
        }
        let at = at - t0;
        if at < t1 {
            return Component::T1(plane, at as u16);
        }
        let at = at - t1;
        if at < 2 * t0 * t1 {
            return Component::Uplink(plane, (at / 2 / t1) as u16, (at / 2 % t1) as u16, way(at));
        }
        let at = at - 2 * t0 * t1;
        Component::HostLink(plane, (at / 2) as HostId, way(at))
    }

    /// Whether a component exists here.
    #[must_use]
    pub fn has(&self, component: Component) -> bool {
        let plane_ok = |plane: u8| plane < self.planes;
        match component {
            Component::Plane(plane) => plane_ok(plane),
            Component::T0(plane, leaf) => plane_ok(plane) && leaf < self.leaves,
            Component::T1(plane, spine) => plane_ok(plane) && spine < self.spines,
            Component::Uplink(plane, leaf, spine, _) => plane_ok(plane) && leaf < self.leaves && spine < self.spines,
            Component::HostLink(plane, host, _) | Component::NicPort(plane, host) => {
                plane_ok(plane) && host < self.hosts
            }
            Component::Host(host) => host < self.hosts,
        }
    }
}

/// A fabric that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("fabric {0:?} is impossible: it needs 1 to 16 planes, 1 to 256 T1s and at least one T0 and host")]
pub struct BadFabric(Fabric);

impl Component {
    /// The plane it belongs to; none for a host.
    #[must_use]
    pub fn plane(&self) -> Option<u8> {
        match *self {
            Self::Plane(plane)
            | Self::T0(plane, _)
            | Self::T1(plane, _)
            | Self::Uplink(plane, ..)
            | Self::HostLink(plane, ..)
            | Self::NicPort(plane, _) => Some(plane),
            Self::Host(_) => None,
        }
    }

    /// The same link in another direction; anything else as it is.
    #[must_use]
    pub fn with_direction(self, direction: Direction) -> Self {
        match self {
            Self::Uplink(plane, leaf, spine, _) => Self::Uplink(plane, leaf, spine, direction),
            Self::HostLink(plane, host, _) => Self::HostLink(plane, host, direction),
            other => other,
        }
    }
}

/// `a` to `z`, `a1` to `z1`, ... as the lab counts.
fn letter(index: u16) -> String {
    let name = char::from(b'a' + (index % 26) as u8);
    if index < 26 { name.to_string() } else { format!("{name}{}", index / 26) }
}

fn index(text: &str) -> Option<u16> {
    let mut chars = text.chars();
    let first = chars.next().filter(char::is_ascii_alphabetic)?.to_ascii_lowercase();
    let rest = chars.as_str();
    let round = if rest.is_empty() { 0 } else { rest.parse::<u16>().ok().filter(|round| *round > 0)? };
    round.checked_mul(26)?.checked_add(u16::from(first as u8 - b'a'))
}

/// Name of a host.
#[must_use]
pub fn host_name(host: HostId) -> String {
    format!("h{}", letter(host).to_uppercase())
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = |direction: Direction| match direction {
            Direction::Up => ":up",
            Direction::Down => ":down",
            Direction::Both => "",
        };
        match *self {
            Self::Plane(plane) => write!(f, "p{plane}"),
            Self::T0(plane, leaf) => write!(f, "p{plane}-t0{}", letter(leaf)),
            Self::T1(plane, spine) => write!(f, "p{plane}-t1{}", letter(spine)),
            Self::Uplink(plane, leaf, spine, direction) => {
                write!(f, "p{plane}-t0{}-t1{}{}", letter(leaf), letter(spine), way(direction))
            }
            Self::HostLink(plane, host, direction) => write!(f, "p{plane}-{}{}", host_name(host), way(direction)),
            Self::NicPort(plane, host) => write!(f, "p{plane}-{}.port", host_name(host)),
            Self::Host(host) => f.write_str(&host_name(host)),
        }
    }
}

/// A name that is no component's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no component is called `{0}`: write p0 (plane), p0-t0a or p0-t1c (switch), p0-t0a-t1c (link; :up or :down for one \
     direction), p0-hA (host link), p0-hA.port or hA"
)]
pub struct BadName(String);

impl FromStr for Component {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        parse(text).ok_or_else(|| BadName(text.chars().take(80).collect()))
    }
}

fn parse(text: &str) -> Option<Component> {
    let (name, direction) = match text.split_once(':') {
        None => (text, Direction::Both),
        Some((name, "up")) => (name, Direction::Up),
        Some((name, "down")) => (name, Direction::Down),
        Some(_) => return None,
    };
    let mut parts = name.split('-');
    let first = parts.next()?;
    let component = if let Some(host) = first.strip_prefix('h') {
        Component::Host(index(host)?)
    } else {
        let plane = first.strip_prefix('p')?.parse::<u8>().ok()?;
        match (parts.next(), parts.next()) {
            (None, _) => Component::Plane(plane),
            (Some(node), None) => match (node.strip_prefix("t0"), node.strip_prefix("t1"), node.strip_prefix('h')) {
                (Some(leaf), _, _) => Component::T0(plane, index(leaf)?),
                (_, Some(spine), _) => Component::T1(plane, index(spine)?),
                (_, _, Some(host)) => match host.strip_suffix(".port") {
                    Some(host) => Component::NicPort(plane, index(host)?),
                    None => Component::HostLink(plane, index(host)?, direction),
                },
                _ => return None,
            },
            (Some(leaf), Some(spine)) => {
                let (leaf, spine) = (leaf.strip_prefix("t0")?, spine.strip_prefix("t1")?);
                Component::Uplink(plane, index(leaf)?, index(spine)?, direction)
            }
        }
    };
    let has_direction = matches!(component, Component::Uplink(..) | Component::HostLink(..));
    (parts.next().is_none() && (has_direction || direction == Direction::Both)).then_some(component)
}

impl Serialize for Component {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Component {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_a_component_and_back() {
        let fabric = Fabric { planes: 2, leaves: 3, spines: 4, hosts: 7 };
        for element in 0..fabric.elements() {
            let component = fabric.component(element);
            assert!(fabric.has(component));
            assert_eq!(fabric.elements_of(component), [element], "{component}");
            assert_eq!(component.to_string().parse(), Ok(component));
        }
        let both = Component::Uplink(1, 2, 3, Direction::Both);
        assert_eq!(both.to_string(), "p1-t0c-t1d");
        assert_eq!(fabric.elements_of(both).len(), 2);
        assert_eq!("p0-hA.port".parse(), Ok(Component::NicPort(0, 0)));
        assert_eq!(Component::Host(27).to_string(), "hB1");
        assert_eq!("hB1".parse(), Ok(Component::Host(27)));
        for bad in ["", "p", "px", "p0-", "p0-t0", "p0-t0a-", "p0-t0a-t1c:left", "p0:up", "hA:up", "p0-t0a-t1c-x", "h"]
        {
            assert!(bad.parse::<Component>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_fabric_has_no_more_than_evs_can_name() {
        let largest = Fabric { planes: 16, leaves: u16::MAX, spines: 256, hosts: u16::MAX };
        assert_eq!(largest.check(), Ok(()));
        let last = largest.elements() - 1;
        assert_eq!((largest.component(last), largest.host(u16::MAX - 1)), (Component::Host(u16::MAX - 1), last));
        for fabric in [
            Fabric { planes: 17, ..largest },
            Fabric { spines: 257, ..largest },
            Fabric { planes: 0, ..largest },
            Fabric { leaves: 0, ..largest },
            Fabric { spines: 0, ..largest },
            Fabric { hosts: 0, ..largest },
        ] {
            assert_eq!(fabric.check(), Err(BadFabric(fabric)));
        }
    }

    #[test]
    fn hosts_hang_under_their_leaf() {
        let fabric = Fabric { planes: 1, leaves: 3, spines: 1, hosts: 7 };
        assert_eq!(fabric.hosts_of(0).collect::<Vec<_>>(), [0, 3, 6]);
        assert!(fabric.hosts_of(1).all(|host| fabric.leaf_of(host) == 1));
    }
}
