//! What packets to a peer begin with, up to BTH: prebuilt headers for each plane, and the micro-SIDs that lead there.

use mrc_wire::{BthRepr, DscpPlan, Ecn, Ev, EvTemplate, FrameTemplate, Opcode, PortNum, Psn, Qpn};

use super::{PayloadRef, Transmit, peers::PeerSlot};
use crate::{
    config::{EndpointConfig, Route, Trimming},
    num::Counter,
    path::EvEntry,
    stats::Stats,
    storage::Limits,
};

/// What packets to one peer through one plane begin with, lent by the caller: everything below BTH is the same for all of
/// them, so it is prebuilt here. [`PeerSlot`] says through which planes the peer can be reached.
#[derive(Clone, Debug)]
pub struct PlaneSlot(pub(super) FrameTemplate);

impl PlaneSlot {
    /// No way to the peer through this plane.
    pub const EMPTY: Self = Self(FrameTemplate::BLANK);
}

/// The micro-SIDs that lead to one peer, lent by the caller. [`PeerSlot`] says whether any do.
#[derive(Clone, Debug)]
pub struct RouteSlot(pub(super) EvTemplate);

impl RouteSlot {
    /// None lead there.
    pub const EMPTY: Self = Self(EvTemplate::BLANK);
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
            RouteKind::Srv6 => Some(&routes.get(peer as usize)?.0),
            _ => None,
        };
        Some(Self { slot, planes, route })
    }

    /// Whether the peer can be reached through `port`.
    pub(super) const fn reaches(&self, port: PortNum) -> bool {
        self.slot.reachable.contains(port)
    }

    /// Writes everything below BTH for one packet, with `headers` bytes of transport headers, which the caller writes
    /// next, from the offset returned, and `tail` behind them. The peer can be reached through the port. `entry` gives the path's entry,
    /// of use where the peer's paths hold their own destination.
    //= MAP-005, MAP-006
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the per-packet fields; a struct would be built to be taken apart")]
    pub(super) fn write<'e>(
        self,
        (ev, port): (Ev, PortNum),
        entry: impl FnOnce() -> Option<&'e EvEntry>,
        dscp: u8,
        ecn: Ecn,
        headers: usize,
        tail: Tail,
        payload: Option<PayloadRef>,
        out: &mut [u8],
    ) -> Option<(usize, Transmit)> {
        let template = &self.planes.get(usize::from(port.plane()))?.0;
        let (outer, segment) = if let Some(map) = self.route {
            (Some(map.destination(ev)), None)
        } else if self.slot.route == RouteKind::Srv6Entry {
            let entry = entry()?;
            (entry.dst.map(u128::from_be_bytes), entry.segment.as_ref())
        } else {
            (None, None)
        };
        let len = headers.wrapping_add(tail.bytes);
        let (start, l3_offset) = template.emit_via(out, ev, dscp, ecn, len, outer, segment)?;
        let header_len = start.wrapping_add(headers);
        let traffic_class = dscp << 2 | ecn.bits();
        Some((start, Transmit { header_len, l3_offset, payload, pad: tail.pad, port, ev, traffic_class }))
    }

    /// A packet without payload, up to BTH, and the `len` bytes where its body goes. Without a code point it is a control packet.
    //= DSCP-002, DSCP-005, BTH-010, BTH-012, BTH-015
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "see `write`")]
    pub(super) fn open<'e, 'o>(
        self,
        cfg: &EndpointConfig,
        stats: &mut Stats,
        path: (Ev, PortNum),
        entry: impl FnOnce() -> Option<&'e EvEntry>,
        dscp: Option<u8>,
        bth: &BthRepr,
        len: usize,
        out: &'o mut [u8],
    ) -> Option<(Transmit, &'o mut [u8])> {
        let ecn = if dscp.is_some() || cfg.ctl_ect { Ecn::Ect0 } else { Ecn::NotEct };
        let dscp = dscp.unwrap_or(cfg.wire.dscp.control);
        if !self.reaches(path.1) {
            return None;
        }
        let headers = len.wrapping_add(BthRepr::LEN);
        let (start, transmit) = self.write(path, entry, dscp, ecn, headers, Tail::of(0), None, out)?;
        count_sent(stats, path.1, 0);
        let (to, rest) = out.get_mut(start..)?.split_first_chunk_mut()?;
        bth.emit_with(to, cfg.wire.bth_se_bit);
        Some((transmit, rest))
    }
}

/// The entries of one EV profile. Looked up only where the paths of a peer hold their own destinations.
#[derive(Clone, Copy)]
pub(super) struct Entries<'e> {
    all: &'e [EvEntry],
    each: usize,
    profile: u32,
}

impl<'e> Entries<'e> {
    #[inline(always)]
    pub(super) fn of(all: &'e [EvEntry], limits: &Limits, profile: u32) -> Self {
        Self { all, each: limits.profile_evs, profile }
    }

    pub(super) fn get(self, entry: u16) -> Option<&'e EvEntry> {
        // Cannot wrap: the slice holds as many for every profile. If it did, the entry would be another one.
        let first = (self.profile as usize).wrapping_mul(self.each);
        self.all.get(first.wrapping_add(entry.into()))
    }
}

/// A packet with `len` bytes of payload left through `port`.
#[inline]
pub(super) fn count_sent(stats: &mut Stats, port: PortNum, len: u32) {
    if let Some(port) = stats.ports.get_mut(usize::from(port.plane())) {
        port.tx_packets.inc();
        port.tx_bytes.inc_by(len.into());
    }
}

/// What follows the headers of a packet: payload, pad and ICRC.
#[derive(Clone, Copy)]
pub(super) struct Tail {
    pad: u8,
    /// Of all three.
    bytes: usize,
}

impl Tail {
    /// With `len` bytes of payload.
    #[inline(always)]
    pub(super) const fn of(len: u32) -> Self {
        let pad = (len.wrapping_neg() & 3) as u8;
        Self { pad, bytes: (len as usize).wrapping_add(pad as usize).wrapping_add(mrc_wire::icrc::LEN) }
    }
}

pub(super) fn control_bth(dest_qp: Qpn, pkey: u16, opcode: Opcode, psn: Psn, rtx: bool) -> BthRepr {
    BthRepr { opcode, se: false, pad: 0, pkey, dest_qp, ack_req: false, rtx, ts: false, psn }
}

//= DSCP-003, CAP-001
pub(super) fn data_dscp(trimming: Trimming, plan: &DscpPlan, rtx: bool) -> u8 {
    match (trimming, rtx) {
        (Trimming::Off, _) => plan.no_trim,
        (Trimming::On, false) => plan.trimmable,
        (Trimming::On, true) => plan.trimmable_retx,
    }
}
