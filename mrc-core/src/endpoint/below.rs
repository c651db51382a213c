//! What lies below BTH of packets to a peer: what they begin with through each plane, and the micro-SIDs that lead there.

use mrc_wire::{EvTemplate, FrameTemplate, PortNum};

use super::peers::PeerSlot;
use crate::{config::Route, storage::Limits};

/// What packets to one peer through one plane begin with, lent by the caller: everything below BTH is the same for all of
/// them, so it is prebuilt here.
#[derive(Clone, Debug)]
pub struct PlaneSlot(pub(super) Option<FrameTemplate>);

impl PlaneSlot {
    /// No way to the peer through this plane.
    pub const EMPTY: Self = Self(None);
}

/// The micro-SIDs that lead to one peer, lent by the caller.
#[derive(Clone, Debug)]
pub struct RouteSlot(pub(super) Option<EvTemplate>);

impl RouteSlot {
    /// None lead there.
    pub const EMPTY: Self = Self(None);
}

/// How the outer destination of a packet to a peer is found: [`Route`] without its template, which is in a [`RouteSlot`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RouteKind {
    Plain,
    Srv6,
    Srv6Entry,
}

impl RouteKind {
    pub(super) const fn of(route: &Route) -> Self {
        match route {
            Route::Plain => Self::Plain,
            Route::Srv6(_) => Self::Srv6,
            Route::Srv6Entry => Self::Srv6Entry,
        }
    }
}

/// A peer with all it takes to write what lies below BTH.
#[derive(Clone, Copy)]
pub(super) struct Below<'a> {
    pub(super) slot: &'a PeerSlot,
    planes: &'a [PlaneSlot],
    /// Of a peer that micro-SIDs lead to.
    pub(super) route: Option<&'a EvTemplate>,
}

impl<'a> Below<'a> {
    #[inline(always)]
    pub(super) fn of(
        (peers, planes, routes): (&'a [PeerSlot], &'a [PlaneSlot], &'a [RouteSlot]),
        limits: &Limits,
        peer: u32,
    ) -> Option<Self> {
        let slot = peers.get(peer as usize)?;
        // Cannot wrap: the slice holds as many for every peer. If it did, the part would be another one.
        let planes = planes.get((peer as usize).wrapping_mul(limits.planes)..)?.get(..limits.planes)?;
        let route = match slot.route {
            RouteKind::Srv6 => routes.get(peer as usize)?.0.as_ref(),
            _ => None,
        };
        Some(Self { slot, planes, route })
    }

    /// What packets through `port` begin with.
    #[inline(always)]
    pub(super) fn template(&self, port: PortNum) -> Option<&'a FrameTemplate> {
        self.planes.get(usize::from(port.plane()))?.0.as_ref()
    }
}
