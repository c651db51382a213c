//! The walk over an endpoint, a record at a time: which tables there are, in which order, and what an image may say of each. Reads
//! and writes through one [`Pass`], so that both directions have one order.

use mrc_wire::FrameTemplate;

use super::super::{
    Endpoint,
    below::{PlaneSlot, RouteKind, RouteSlot},
    part, peers,
    peers::PeerSlot,
};
use crate::{
    CcProfile, Qp, QpState,
    config::port_of_plane,
    image::{Pass, Sequence, Stored},
    num::Counter,
    port::PortMask,
    ready::{Listed, Member, Ready},
    responder::ListedRefusals,
};

/// Elements of a ring or list that one record holds at most.
const PIECE: u32 = 16;

macro_rules! tables {
    ($($table:ident = $name:literal,)*) => {
        /// What an image holds, in its order.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(super) enum Table { $($table,)* }

        impl Table {
            const ALL: &'static [Self] = &[$(Self::$table,)*];

            pub(super) const fn name(self) -> &'static str {
                match self { $(Self::$table => $name,)* }
            }
        }
    };
}

tables! {
    Head = "head",
    Scalars = "endpoint",
    Requests = "endpoint operations",
    Regions = "memory regions",
    Cqs = "completion queues",
    CcProfiles = "congestion-control profiles",
    EvProfiles = "EV profiles",
    Peers = "peers",
    PeerLists = "lists of peers",
    Controllers = "congestion controllers",
    Qps = "queue pairs",
    Timers = "timers",
    Lists = "ready lists",
    ControllerLists = "lists of controllers",
    Events = "events",
    End = "end",
}

/// What the next record holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    pub(super) table: Table,
    /// Slot of the table.
    index: u32,
    /// Part of the slot.
    part: u8,
    /// Elements of the part that are through.
    done: u32,
    /// Place of the next one, in a list.
    place: Option<u32>,
}

/// What a record leaves of its slot.
pub(super) enum Left {
    /// More of the same part.
    Elements,
    /// Another part.
    Parts,
    Nothing,
}

impl Left {
    /// After elements of a part; `last`: no other part follows.
    fn after(all: bool, last: bool) -> Self {
        match (all, last) {
            (false, _) => Self::Elements,
            (true, false) => Self::Parts,
            (true, true) => Self::Nothing,
        }
    }
}

impl Cursor {
    pub(super) const START: Self = Self { table: Table::Head, index: 0, part: 0, done: 0, place: None };

    /// To the next record; the table has `slots`.
    pub(super) fn advance(&mut self, left: Left, slots: usize) {
        match left {
            Left::Elements => return,
            Left::Parts => self.part = self.part.saturating_add(1),
            Left::Nothing => (self.index, self.part) = (self.index.saturating_add(1), 0),
        }
        (self.done, self.place) = (0, None);
        if self.index as usize >= slots {
            let next = (self.table as usize).saturating_add(1);
            (self.table, self.index) = (Table::ALL.get(next).copied().unwrap_or(Table::End), 0);
        }
    }

    /// A piece of a ring of `total` elements, the `nth` of which is at `at(nth)`; whether it was the last.
    fn ring<P: Pass, T: Stored>(
        &mut self,
        io: &mut P,
        total: usize,
        slots: &mut [T],
        at: impl Fn(u32) -> usize,
    ) -> Option<bool> {
        let total = u32::try_from(total).ok()?;
        let mut count = total.checked_sub(self.done)?.min(PIECE) as u8;
        let known = count;
        io.item(&mut count)?;
        if count != known {
            return None;
        }
        for _ in 0..count {
            io.item(slots.get_mut(at(self.done))?)?;
            self.done = self.done.saturating_add(1);
        }
        Some(self.done >= total)
    }

    /// A piece of a list; whether it was the last.
    fn list<P: Pass, S: Sequence>(&mut self, io: &mut P, list: &mut S) -> Option<bool> {
        for _ in 0..PIECE {
            let (mut item, mut next) = (None, None);
            if !P::LOADS
                && let Some(place) = if self.done == 0 { list.first() } else { self.place }
            {
                let member = list.at(place)?;
                (item, next) = (Some(member.0), member.1);
            }
            io.item(&mut item)?;
            let Some(item) = item else { return Some(true) };
            if P::LOADS && !list.append(item) {
                return None;
            }
            self.place = next;
            self.done = self.done.saturating_add(1);
        }
        Some(false)
    }

    /// A piece of a ready list; whether it was the last.
    fn ready<P: Pass, M: Member>(&mut self, io: &mut P, list: &mut Ready, members: &mut [M]) -> Option<bool> {
        if self.done == 0 {
            io.item(list.turns_mut())?;
        }
        self.list(io, &mut Listed(list, members))
    }
}

impl Endpoint<'_> {
    /// One record; `None` when it cannot be that of an endpoint of this configuration.
    pub(super) fn record<P: Pass>(&mut self, at: &mut Cursor, io: &mut P) -> Option<()> {
        let l = self.limits;
        let (left, slots) = match at.table {
            Table::Head | Table::End => (Left::Nothing, 1),
            Table::Scalars => (self.scalars(at.part, io)?, 1),
            Table::Requests => {
                let requests = &mut self.ops.requests;
                (Left::after(at.ring(io, requests.len(), requests, |nth| nth as usize)?, true), 1)
            }
            Table::Regions => {
                self.regions.visit(at.index, io)?;
                (Left::Nothing, l.mrs)
            }
            Table::Cqs => (self.cq(at, io)?, l.cqs),
            Table::CcProfiles => {
                let slot = self.cc_profiles.get_mut(at.index as usize)?;
                io.item(slot)?;
                if let Some(config) = slot.config {
                    config.validate().ok()?;
                }
                (Left::Nothing, l.cc_profiles)
            }
            Table::EvProfiles => (self.ev_profile(at, io)?, l.ev_profiles),
            Table::Peers => (self.peer(at, io)?, l.peers),
            Table::PeerLists => self.peer_list(at, io)?,
            Table::Controllers => (self.controller(at.index, io)?, l.qpccs),
            Table::Qps => (self.qp(at, io)?, l.qps),
            Table::Timers => (Left::after(at.list(io, &mut self.timers)?, true), 1),
            Table::Lists => (self.list(at, io)?, 1),
            Table::ControllerLists => {
                let slot = self.qpccs.get_mut(at.index as usize)?;
                let list = if at.part == 0 { &mut slot.retransmit } else { &mut slot.new_data };
                (Left::after(at.ready(io, list, self.qps)?, at.part == 1), l.qpccs)
            }
            Table::Events => {
                if at.done == 0 {
                    io.item(self.events.dropped_mut())?;
                }
                (Left::after(at.list(io, &mut self.events)?, true), 1)
            }
        };
        at.advance(left, slots);
        Some(())
    }

    /// What is no table. Every field of the endpoint stands here: those without a name are tables, follow from limits and
    /// configuration, or are learned anew.
    fn scalars<P: Pass>(&mut self, part: u8, io: &mut P) -> Option<Left> {
        let round = self.round();
        let Self {
            cfg: _,
            limits: _,
            up,
            linked,
            enabled,
            refusal,
            rng,
            secrets,
            stats,
            qps: _,
            lives,
            qpn_bits: _,
            qpn_mask: _,
            timers: _,
            tx_records: _,
            tx_words: _,
            rx_words: _,
            wqes: _,
            recvs: _,
            immediates: _,
            refusals: _,
            ev_slots: _,
            ev_order: _,
            cqs: _,
            regions: _,
            peers: _,
            planes: _,
            routes: _,
            arrives_at: _,
            masks: _,
            free_qps: _,
            ev_edition: _,
            ports: _,
            free_peers: _,
            free_qpccs: _,
            free_profiles: _,
            free_cc_profiles: _,
            peer_index,
            ops,
            walk,
            ev_entries: _,
            ev_profiles: _,
            cc_profiles: _,
            qpccs: _,
            events: _,
            control: _,
            urgent: _,
            ready: _,
            held_completions: _,
            ahead: _,
        } = self;
        match part {
            0 => {
                for ports in [up, linked, enabled] {
                    io.item(ports)?;
                }
                io.item(refusal)?;
                io.item(rng)?;
                io.item(secrets)?;
                io.item(lives)?;
                io.item(peer_index)?;
                walk.visit(io, round)?;
            }
            1 => io.item(stats)?,
            _ => ops.visit(io)?,
        }
        Some(Left::after(true, part == 2))
    }

    fn cq<P: Pass>(&mut self, at: &mut Cursor, io: &mut P) -> Option<Left> {
        let (slot, ring) = self.cqs.parts(at.index)?;
        if at.part == 0 {
            io.item(slot)?;
            return (slot.len() as usize <= ring.len()).then_some(Left::Parts);
        }
        let (head, mask) = (slot.head(), ring.len().wrapping_sub(1));
        let all = at.ring(io, slot.len() as usize, ring, |nth| head.wrapping_add(nth) as usize & mask)?;
        Some(Left::after(all, true))
    }

    fn ev_profile<P: Pass>(&mut self, at: &mut Cursor, io: &mut P) -> Option<Left> {
        let slot = self.ev_profiles.get_mut(at.index as usize)?;
        if at.part == 0 {
            io.item(slot)?;
            let fits = slot.entries() <= self.limits.profile_evs;
            if P::LOADS {
                self.ev_profiles.list(at.index);
            }
            return fits.then_some(Left::Parts);
        }
        let entries = part(self.ev_entries, at.index, self.limits.profile_evs)?;
        Some(Left::after(at.ring(io, slot.entries(), entries, |nth| nth as usize)?, true))
    }

    fn peer<P: Pass>(&mut self, at: &mut Cursor, io: &mut P) -> Option<Left> {
        let slot = self.peers.get_mut(at.index as usize)?;
        if at.part == 0 {
            let mut used = slot.used;
            io.item(&mut slot.generation)?;
            io.item(&mut used)?;
            if !used {
                return Some(Left::Nothing);
            }
            if !P::LOADS {
                io.item(slot)?;
                return Some(Left::Parts);
            }
            let mut peer = PeerSlot::EMPTY;
            io.item(&mut peer)?;
            let profiles = self.ev_profiles.len() as u32;
            let known = [peer.ev_profile, peer.shards_profile].into_iter().flatten().all(|profile| profile < profiles);
            if !peer.used || !known {
                return None;
            }
            let announced = core::mem::replace(&mut peer.announced, PortMask::ALL);
            peers::occupy(slot, peer);
            self.masks.announce(slot, announced);
            return Some(Left::Parts);
        }
        for (plane, PlaneSlot(template)) in part(self.planes, at.index, self.limits.planes)?.iter_mut().enumerate() {
            let reachable = slot.reachable.contains(port_of_plane(plane));
            let mut encap = reachable.then(|| template.encap());
            io.item(&mut encap)?;
            if encap.is_some() != reachable {
                return None;
            }
            if let Some(encap) = encap.filter(|_| P::LOADS) {
                *template = FrameTemplate::new(&encap, &self.cfg.wire);
                if (encap.src, encap.dst) != (slot.local, slot.remote) {
                    slot.own_addresses = slot.own_addresses.with(port_of_plane(plane));
                }
            }
        }
        if slot.route == RouteKind::Srv6 {
            let RouteSlot(route) = self.routes.get_mut(at.index as usize)?;
            let mut known = Some(*route);
            io.item(&mut known)?;
            *route = known?;
        }
        if P::LOADS {
            self.index_peer(at.index);
        }
        Some(Left::Nothing)
    }

    /// The lists of peers, and how many there are.
    fn peer_list<P: Pass>(&mut self, at: &mut Cursor, io: &mut P) -> Option<(Left, usize)> {
        let ops = &mut self.ops;
        let lists = [&mut ops.sending, &mut ops.news].into_iter().chain(&mut ops.waiting.lists);
        let (count, list) = (lists.size_hint().0, lists.into_iter().nth(at.index as usize)?);
        let all = at.list(io, &mut peers::Listed(list, self.peers))?;
        ops.waiting.refresh(self.peers);
        Some((Left::after(all, true), count))
    }

    fn controller<P: Pass>(&mut self, index: u32, io: &mut P) -> Option<Left> {
        let slot = self.qpccs.get_mut(index as usize)?;
        let mut used = slot.users > 0;
        io.item(&mut used)?;
        if used {
            io.item(slot)?;
        }
        if used && P::LOADS {
            let config = self.cc_profiles.get(slot.profile as usize).and_then(|CcProfile { config, .. }| *config)?;
            let known = slot.rebuild(&config);
            if self.cfg.send_below_window {
                slot.send_below_window();
            }
            let peer = self.peers.get_mut(slot.peer as usize).filter(|_| known && slot.users > 0)?;
            peer.controllers.inc();
        }
        Some(Left::Nothing)
    }

    /// The lists of the endpoint itself.
    fn list<P: Pass>(&mut self, at: &mut Cursor, io: &mut P) -> Option<Left> {
        let all = match at.part {
            0 => at.ready(io, &mut self.control, self.qps),
            1 => at.ready(io, &mut self.urgent, self.qps),
            2 => at.ready(io, &mut self.held_completions, self.qps),
            _ => at.ready(io, &mut self.ready, self.qpccs),
        };
        Some(Left::after(all?, at.part == 3))
    }

    fn qp<P: Pass>(&mut self, at: &mut Cursor, io: &mut P) -> Option<Left> {
        if at.part == 0 {
            return self.qp_state(at.index, io);
        }
        let (l, index) = (self.limits, at.index);
        let slot = self.qps.get_mut(index as usize)?;
        // What a QP that does not send, or never received, left there has no meaning. Records of packets that are acknowledged
        // have one: a SACK that comes late still measures its round trip.
        let sends = slot.state == QpState::Rts;
        let (records, tx_words) = if sends { (l.records(), l.tx_words()) } else { (0, 0) };
        let rx_words = if slot.life == 0 { 0 } else { l.words() };
        let straight = |nth: u32| nth as usize;
        let all = match at.part {
            1 => at.ring(io, records, part(self.tx_records, index, l.records())?, straight),
            2 => at.ring(io, tx_words, part(self.tx_words, index, l.tx_words())?, straight),
            3 => at.ring(io, rx_words, part(self.rx_words, index, l.words())?, straight),
            4 => {
                let (first, mask) = (slot.sq.first(), l.send_queue.wrapping_sub(1));
                let place = |nth| first.wrapping_add(nth) as usize & mask;
                at.ring(io, slot.sq.len() as usize, part(self.wqes, index, l.send_queue)?, place)
            }
            5 => {
                let (first, mask) = (slot.rq.first(), l.recv_queue.wrapping_sub(1));
                let place = |nth| first.wrapping_add(nth) as usize & mask;
                at.ring(io, slot.rq.len() as usize, part(self.recvs, index, l.recv_queue)?, place)
            }
            6 => {
                let stash = slot.rsp.stash;
                let place = |nth| stash.at(nth as u16, l.wimm);
                at.ring(io, stash.len().into(), part(self.immediates, index, l.wimm)?, place)
            }
            7 => at.ring(io, slot.paths.universe(), part(self.ev_slots, index, l.evs)?, straight),
            8 => {
                let order = part(self.ev_order, index, l.active_evs)?;
                let all = at.ring(io, slot.paths.active_len(), order, straight);
                let known =
                    order.iter().take(at.done as usize).all(|&slot_of| usize::from(slot_of) < slot.paths.universe());
                all.filter(|_| known || !P::LOADS)
            }
            _ => at.list(io, &mut ListedRefusals(&mut self.refusals, &mut slot.rsp.refusals)),
        };
        Some(Left::after(all?, at.part == 9))
    }

    fn qp_state<P: Pass>(&mut self, index: u32, io: &mut P) -> Option<Left> {
        let slot = self.qps.get_mut(index as usize)?;
        // A slot that was used once remembers its last QP.
        let mut known = slot.qpn.value() != 0;
        io.item(&mut known)?;
        if !known {
            return Some(Left::Nothing);
        }
        io.item(slot)?;
        if P::LOADS {
            let slot = self.qps.get(index as usize)?;
            let own = slot.qpn.value() & !u32::MAX.wrapping_shl(self.qpn_bits) == index;
            if !own || !self.may_be(slot) {
                return None;
            }
            if slot.used {
                self.stats.states.enter(slot);
            }
        }
        Some(Left::Parts)
    }

    /// Whether the queue pair of an image names what there is, and holds no more than there is room for.
    fn may_be(&self, qp: &Qp) -> bool {
        let l = &self.limits;
        let queues = [qp.send_cq, qp.recv_cq].iter().all(|cq| !qp.used || self.cqs.is_used(*cq));
        let peer = self.peers.get(qp.peer as usize).is_some_and(|peer| peer.used) || !qp.has_peer;
        let profile = (qp.ev_profile as usize) < self.ev_profiles.len();
        let controller = qp.qpcc.is_none_or(|qpcc| self.qpccs.get(qpcc as usize).is_some_and(|slot| slot.users > 0));
        let state = match qp.state {
            QpState::Rts => qp.has_peer && qp.qpcc.is_some(),
            QpState::Rtr => qp.has_peer,
            _ => qp.qpcc.is_none(),
        };
        queues
            && peer
            && profile
            && controller
            && state
            && matches!(qp.path_mtu, 0 | 256 | 512 | 1_024 | 2_048 | 4_096)
            && qp.req.fits(l.records() as u32, l.window() as u32, qp.path_mtu)
            && qp.rsp.fits(l.window() as u32, l.wimm)
            && qp.sq.len() as usize <= l.send_queue
            && qp.rq.len() as usize <= l.recv_queue
            && qp.paths.universe() <= l.evs
            && qp.paths.active_len() <= l.active_evs.min(qp.paths.universe())
    }
}

#[cfg(test)]
mod tests;
