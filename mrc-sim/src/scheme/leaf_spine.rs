//! What schemes share that know the two-tier fabric they run in: who is a leaf, where a host hangs, and the control packets
//! that leaves send each other.

use super::ip;
use crate::fabric::{Clos, NoForward, Packet, PortId, Site, SwitchCtx, Way};

/// A switch's place in the fabric.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) spine: bool,
    /// Its number in its tier.
    pub(super) index: u8,
    hosts_per_leaf: u32,
}

/// What a packet is to a switch of the fabric.
pub(super) enum Role {
    /// This leaf is the first switch; the packet is for a host below leaf `to`.
    Source {
        /// The leaf of the receiver.
        to: u8,
    },
    /// A spine, or the leaf of the receiver: one port leads on.
    Down(PortId),
}

impl Place {
    pub(super) fn of(site: &Site<'_>) -> Self {
        Self { spine: site.spine, index: site.index as u8, hosts_per_leaf: site.clos.hosts_per_t0().max(1) }
    }

    pub(super) fn leaf_of(&self, host: u32) -> u8 {
        (host / self.hosts_per_leaf) as u8
    }

    /// Checks a packet as every router does, and says where it is on its way.
    pub(super) fn role(&self, ctx: &SwitchCtx<'_>, packet: &mut Packet) -> Result<Role, NoForward> {
        let host = ip::next_hop(packet)?;
        match ctx.way(host).ok_or(NoForward::NoRoute)? {
            Way::Down(port) => Ok(Role::Down(port)),
            Way::Up if ctx.uplinks().is_empty() => Err(NoForward::NoRoute),
            Way::Up => Ok(Role::Source { to: self.leaf_of(host) }),
        }
    }

    /// A control packet of `wire_len` bytes to leaf `to`, which takes it out of the fabric: `scratch` tells it apart.
    pub(super) fn control_packet(&self, to: u8, wire_len: u32, scratch: [u8; 16]) -> Packet {
        ip::control_packet(u32::from(to) * self.hosts_per_leaf, wire_len, scratch)
    }
}

/// Schemes that choose among paths need some: at least two spines.
pub(super) fn check(clos: &Clos, _: &[f64]) -> Result<(), &'static str> {
    if clos.t1 < 2 {
        return Err("there is no alternative path: the scheme needs at least two spines (topology.t1)");
    }
    // Tables and packets name a leaf by 8 bits.
    if clos.t0 > 256 {
        return Err("the scheme knows at most 256 leaves (topology.t0)");
    }
    Ok(())
}

/// An uplink drawn at random.
pub(super) fn random_uplink(ctx: &mut SwitchCtx<'_>) -> PortId {
    let uplinks = ctx.uplinks();
    uplinks[ctx.rng().below(uplinks.len() as u32) as usize]
}

/// The number of an uplink: of its spine.
pub(super) fn number_of(ctx: &SwitchCtx<'_>, uplink: PortId) -> u8 {
    ctx.all_uplinks().iter().position(|&port| port == uplink).unwrap_or(0) as u8
}

/// An uplink by the hash of the flow: for packets that a scheme does not balance.
pub(super) fn by_hash(ctx: &SwitchCtx<'_>, packet: &Packet) -> PortId {
    let uplinks = ctx.uplinks();
    uplinks[(ip::mix(ip::flow(packet)) % uplinks.len() as u64) as usize]
}
