//! What a switch scheme is to the fabric: the door through which forwarding plugs in. The schemes themselves, and their
//! registry, are in [`crate::scheme`].

use std::cell::Cell;
use std::sync::Arc;

use mrc_core::{Instant, Rng};

use super::packet::Packet;
use super::port::Port;
use super::switch::NoForward;
use super::topology::{Clos, PortId};

/// What becomes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It joins the queue of this port.
    To(PortId),
    /// It was meant for the switch itself.
    Consume,
    /// It waits, behind those that wait already, in a queue of the scheme's own until [`SwitchCtx::release`]; then it joins
    /// the queue of the port. While it waits it takes no place in the buffer that PFC watches.
    Hold {
        /// Number of the queue, the scheme's choice.
        queue: u32,
        /// Where all packets of this queue go.
        port: PortId,
    },
}

/// Where a host is, seen from a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// By this port alone: below, or on the only shortest path.
    Down(PortId),
    /// By any of [`SwitchCtx::uplinks`].
    Up,
}

/// How a switch treats packets. One value per switch; what it keeps is its own, and may move to another thread.
pub trait SwitchScheme: Send {
    /// A packet arrived by `ingress`, which is named like the egress port on the same link. Its header may be changed.
    ///
    /// # Errors
    /// Why the packet cannot go on: it is dropped and counted.
    fn forward(&mut self, ctx: &mut SwitchCtx<'_>, ingress: PortId, packet: &mut Packet) -> Result<Verdict, NoForward>;

    /// The port that [`SwitchScheme::forward`] will choose, where that can be told for little: the fabric reads the port ahead.
    /// A wrong one costs time only.
    fn foresee(&self, _ctx: &SwitchCtx<'_>, _packet: &Packet) -> Option<PortId> {
        None
    }

    /// Whether [`SwitchScheme::on_dequeue`] wants to be called.
    fn hooks_dequeue(&self) -> bool {
        false
    }

    /// A packet begins to leave by `egress`.
    fn on_dequeue(&mut self, _ctx: &mut SwitchCtx<'_>, _egress: PortId, _packet: &mut Packet) {}

    /// A timer of [`SwitchCtx::set_timer`] ran out.
    fn on_timer(&mut self, _ctx: &mut SwitchCtx<'_>, _timer: u32) {}

    /// The carrier of one of the switch's ports came or went.
    fn on_link(&mut self, _ctx: &mut SwitchCtx<'_>, _port: PortId, _up: bool) {}

    /// Bytes that its tables take now, as a switch would store their entries: keys and values, no room to grow.
    fn state_bytes(&self) -> usize {
        0
    }
}

/// Bytes of the entries of a table, see [`SwitchScheme::state_bytes`].
pub const fn table_bytes<K, V>(entries: usize) -> usize {
    entries * (size_of::<K>() + size_of::<V>())
}

/// What a scheme asked for, until the fabric does it.
#[derive(Default)]
pub(crate) struct Requests {
    pub(crate) timers: Vec<(Instant, u32)>,
    pub(crate) packets: Vec<(PortId, Box<Packet>)>,
    pub(crate) releases: Vec<u32>,
}

impl Requests {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.timers.is_empty() && self.packets.is_empty() && self.releases.is_empty()
    }
}

/// What a switch sees: time, its ports, the ways to hosts, random numbers of its own.
pub struct SwitchCtx<'a> {
    pub(crate) now: Instant,
    pub(crate) ports: &'a [Port],
    pub(crate) routes: &'a Routes,
    /// The choice that [`SwitchCtx::way`] found last.
    pub(crate) choice: Cell<u32>,
    pub(crate) rng: &'a mut Rng,
    pub(crate) requests: &'a mut Requests,
}

impl<'a> SwitchCtx<'a> {
    /// Virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The way to a host; `None` for one that does not exist. In a fabric of more than two tiers, or with parallel links,
    /// there are several ports on the way to some hosts, and [`SwitchCtx::uplinks`] are those of the host asked for last.
    #[inline]
    pub fn way(&self, host: u32) -> Option<Way> {
        let (way, choice) = self.routes.way(host)?;
        self.choice.set(choice);
        Some(way)
    }

    /// Uplinks with a carrier, in order; none of a switch at the top.
    #[inline]
    pub fn uplinks(&self) -> &'a [PortId] {
        match &self.routes.table {
            Some(table) => &table.groups[self.choice.get() as usize].up,
            None => &self.routes.uplinks,
        }
    }

    /// All uplinks, in order.
    pub fn all_uplinks(&self) -> &'a [PortId] {
        match &self.routes.table {
            Some(table) => &table.groups[self.choice.get() as usize].all,
            None => &self.routes.all_uplinks,
        }
    }

    /// Bytes that wait before a port, without the frame being sent.
    pub fn queued_bytes(&self, port: PortId) -> u32 {
        self.ports[port.0 as usize].queued_bytes()
    }

    /// Rate of the link behind a port, in bit/s.
    pub fn rate_bps(&self, port: PortId) -> u64 {
        self.ports[port.0 as usize].link().rate_bps
    }

    /// Whether the link behind a port carries.
    pub fn is_up(&self, port: PortId) -> bool {
        self.ports[port.0 as usize].up
    }

    /// Random numbers of this switch.
    pub fn rng(&mut self) -> &mut Rng {
        self.rng
    }

    /// Asks for [`SwitchScheme::on_timer`] at `at`, not before now.
    pub fn set_timer(&mut self, at: Instant, timer: u32) {
        self.requests.timers.push((at, timer));
    }

    /// Sends a packet of the switch's own by `port`, in the control class. Header and `wire_len` are the caller's.
    pub fn emit(&mut self, port: PortId, packet: Packet) {
        self.requests.packets.push((port, Box::new(packet)));
    }

    /// Lets go the packets that wait in `queue`, in their order, behind the packet that is being forwarded.
    pub fn release(&mut self, queue: u32) {
        self.requests.releases.push(queue);
    }
}

/// Ports that lead to the same hosts on shortest paths.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) all: Vec<PortId>,
    /// Those with a carrier.
    pub(crate) up: Vec<PortId>,
}

impl Choice {
    pub(crate) fn new(ports: Vec<PortId>) -> Self {
        Self { all: ports.clone(), up: ports }
    }
}

/// Ways to hosts in a graph.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// By host: the set of switches that it hangs below.
    pub(crate) of_host: Arc<[u32]>,
    /// By such a set: the choice towards it.
    pub(crate) of_class: Arc<[u32]>,
    /// Hosts below this switch, in order, with their choice.
    pub(crate) below: Vec<(u32, u32)>,
    /// The first holds all ports that lead upwards.
    pub(crate) groups: Vec<Choice>,
}

impl Table {
    fn way(&self, host: u32) -> Option<(Way, u32)> {
        let choice = match self.below.binary_search_by_key(&host, |(host, _)| *host) {
            Ok(at) => self.below[at].1,
            Err(_) => *self.of_class.get(*self.of_host.get(host as usize)? as usize)?,
        };
        match &self.groups.get(choice as usize)?.all[..] {
            &[only] => Some((Way::Down(only), choice)),
            _ => Some((Way::Up, choice)),
        }
    }
}

/// Ways to hosts: arithmetic on the numbering of a [`Clos`], or a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    pub(crate) table: Option<Box<Table>>,
    pub(crate) hosts: u32,
    /// Hosts below this switch: all of a T1's, a block of a T0's.
    pub(crate) first_host: u32,
    pub(crate) hosts_below: u32,
    /// Egress port of the first group below, and distance of the ports of two neighbouring groups.
    pub(crate) down_port: u32,
    pub(crate) down_stride: u32,
    /// Hosts of a group: 1 below a T0, a leaf's below a T1.
    pub(crate) group: u32,
    /// All uplinks.
    pub(crate) all_uplinks: Vec<PortId>,
    /// Uplinks that carry.
    pub(crate) uplinks: Vec<PortId>,
}

impl Routes {
    pub(crate) fn of_table(table: Table) -> Self {
        Self { table: Some(Box::new(table)), ..Self::default() }
    }

    #[inline]
    pub(crate) fn way(&self, host: u32) -> Option<(Way, u32)> {
        if let Some(table) = &self.table {
            return table.way(host);
        }
        if host >= self.hosts {
            return None;
        }
        let below = host.wrapping_sub(self.first_host);
        if below < self.hosts_below {
            let port = PortId(self.down_port + below / self.group.max(1) * self.down_stride);
            return Some((Way::Down(port), 0));
        }
        Some((Way::Up, 0))
    }

    /// The carrier of a port of the switch came or went.
    pub(crate) fn set_port(&mut self, port: PortId, up: bool) {
        let set = |all: &[PortId], ports: &mut Vec<PortId>| {
            if !all.contains(&port) {
                return;
            }
            ports.retain(|&other| other != port);
            if up {
                ports.push(port);
                ports.sort_unstable();
            }
        };
        match &mut self.table {
            Some(table) => table.groups.iter_mut().for_each(|group| set(&group.all, &mut group.up)),
            None => set(&self.all_uplinks, &mut self.uplinks),
        }
    }
}

/// A switch that a scheme is built for.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The fabric.
    pub clos: &'a Clos,
    /// Its plane.
    pub plane: u8,
    /// Whether it is a T1.
    pub spine: bool,
    /// Its number in its tier.
    pub index: u16,
    /// Different in every switch, the same in every run of a seed.
    pub salt: u64,
}

/// How senders name the paths of their packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathNames {
    /// The outer destination lists the switches (SRv6 micro-SIDs).
    MicroSids,
    /// The first ten bits of the EV are the uplink.
    UplinkNumbers,
    /// Not at all: the EV is entropy, or means nothing.
    Entropy,
}

/// A number that a scheme takes from the scenario.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Param {
    /// Key in `[topology.scheme]`.
    pub name: &'static str,
    /// What it means, with its unit.
    pub about: &'static str,
    /// Value when the scenario has none.
    pub default: f64,
    /// Least and greatest value.
    pub range: (f64, f64),
    /// Whether it counts something: only whole numbers are allowed.
    pub whole: bool,
}

impl Param {
    /// Whether the parameter may have this value.
    ///
    /// # Errors
    /// It is out of range, or has a fraction where a whole number is needed.
    pub fn check(&self, value: f64) -> Result<(), ParamError> {
        let (least, most) = self.range;
        let allowed = (least..=most).contains(&value) && (!self.whole || value.fract() == 0.0);
        match self.whole {
            _ if allowed => Ok(()),
            true => Err(ParamError::Whole(least, most)),
            false => Err(ParamError::Range(least, most)),
        }
    }

    /// What scenarios may write, for the schema: default, limits, meaning.
    pub(crate) fn describe(&self) -> String {
        let Self { about, default, range: (least, most), whole, .. } = self;
        let whole = if *whole { ", a whole number" } else { "" };
        format!("(default {default}, {least} to {most}{whole}): {about}")
    }
}

/// Most parameters of a scheme.
pub const MAX_PARAMS: usize = 6;

/// Says what is wrong with the values of a scheme's parameters, or with the fabric for it.
pub type Check = fn(&Clos, &[f64]) -> Result<(), &'static str>;

/// A registered scheme.
#[derive(Debug)]
pub struct SchemeInfo {
    /// Name in scenarios.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub about: &'static str,
    /// What it asks of senders.
    pub paths: PathNames,
    /// Its parameters, at most [`MAX_PARAMS`].
    pub params: &'static [Param],
    /// What else must hold of the values of the parameters and of a two-tier fabric, beside the ranges; the error says what
    /// is wrong and what to do.
    pub check: Option<Check>,
    /// Makes the scheme of one switch from the values of the parameters, in their order.
    pub build: fn(&Site<'_>, &[f64]) -> Box<dyn SwitchScheme>,
}

/// A scheme with values for its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Scheme {
    info: &'static SchemeInfo,
    values: [f64; MAX_PARAMS],
}

impl PartialEq for Scheme {
    fn eq(&self, other: &Self) -> bool {
        self.info.name == other.info.name && self.values == other.values
    }
}

impl Eq for Scheme {}

/// Why a parameter cannot be set.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum ParamError {
    /// There is none of this name.
    #[error("the scheme has no such parameter")]
    Unknown,
    /// The value is out of range.
    #[error("allowed are {0} to {1}")]
    Range(f64, f64),
    /// The value is out of range, or has a fraction.
    #[error("allowed are the whole numbers from {0} to {1}")]
    Whole(f64, f64),
}

impl Scheme {
    /// A registered scheme with the defaults of its parameters.
    pub const fn new(info: &'static SchemeInfo) -> Self {
        let mut values = [0.0; MAX_PARAMS];
        let mut nth = 0;
        while nth < info.params.len() {
            values[nth] = info.params[nth].default;
            nth += 1;
        }
        Self { info, values }
    }

    /// Its registration.
    pub const fn info(&self) -> &'static SchemeInfo {
        self.info
    }

    /// How senders name paths.
    pub const fn paths(&self) -> PathNames {
        self.info.paths
    }

    /// The same with another value of a parameter.
    ///
    /// # Errors
    /// There is no such parameter, or the value is not allowed, see [`Param::check`].
    pub fn with(mut self, name: &str, value: f64) -> Result<Self, ParamError> {
        let at = self.info.params.iter().position(|param| param.name == name).ok_or(ParamError::Unknown)?;
        self.info.params[at].check(value)?;
        self.values[at] = value;
        Ok(self)
    }

    /// Whether the values of the parameters fit together and to the fabric.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self, clos: &Clos) -> Result<(), &'static str> {
        self.info.check.map_or(Ok(()), |check| check(clos, &self.values[..self.info.params.len()]))
    }

    pub(crate) fn build(&self, site: &Site<'_>) -> Box<dyn SwitchScheme> {
        (self.info.build)(site, &self.values[..self.info.params.len()])
    }
}
