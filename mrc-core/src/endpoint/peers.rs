//! The table of registered peers: what is prebuilt for packets to them, and
//! which of them wait for a Port Status Update. Sends nothing. Source: `transport.md` 7, `paths.md` 9.5 and 12.

mod index;

use mrc_wire::Ip;

pub(super) use self::index::{Headers, PeerIndex};
use super::{PeerHandle, below::RouteKind, shards::Untold};
use crate::{
    Prefetch,
    config::{MAX_PORTS, PeerConfig, port_of_plane},
    image::Sequence,
    num::Counter,
    path::ReverseSet,
    port::PortMask,
    time::Instant,
};

/// End of a list.
const NIL: u32 = u32::MAX;

/// Which ports no peer says are down: most packets arrive by one of them, and nobody has to look at their peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Masks {
    /// By plane: peers that mask it.
    by: [u32; MAX_PORTS],
    /// Those that none masks.
    pub(super) free: PortMask,
}

impl Masks {
    pub(super) const fn new() -> Self {
        Self { by: [0; MAX_PORTS], free: PortMask::first(MAX_PORTS as u8) }
    }

    /// A peer says that `ports` are up. The only place that changes what a peer in use has announced; returns what it had.
    pub(super) fn announce(&mut self, slot: &mut PeerSlot, ports: PortMask) -> PortMask {
        let before = core::mem::replace(&mut slot.announced, ports);
        for (plane, by) in self.by.iter_mut().enumerate() {
            let port = port_of_plane(plane);
            match (before.contains(port), ports.contains(port)) {
                (true, false) => by.inc(),
                (false, true) => *by = by.saturating_sub(1),
                _ => continue,
            }
            self.free = if *by == 0 { self.free.with(port) } else { self.free.without(port) };
        }
        before
    }
}

/// One slot of the peer table, lent by the caller. What most packets read of it lies in its first line of memory.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct PeerSlot {
    pub(super) used: bool,
    pub(super) route: RouteKind,
    /// Peers that were removed here.
    pub(super) generation: u16,
    pub(super) users: u32,
    /// Congestion controllers to it.
    pub(super) controllers: u32,
    /// Ports with a path to the peer.
    pub(super) reachable: PortMask,
    /// Ports the peer says are up.
    //= PORT-004, EPOP-007
    pub(super) announced: PortMask,
    /// Profile of the QPs towards the peer, from which its endpoint operations draw their EVs.
    pub(super) ev_profile: Option<u32>,
    pub(super) local: Ip,
    pub(super) remote: Ip,
    /// One EV per plane for endpoint operations.
    pub(super) op_paths: ReverseSet,
    /// What we tell the peer of our ports.
    pub(super) update: Update,
    /// Identifier and time of the last update of the peer that was applied.
    pub(super) last_update: Option<(u16, Instant)>,
    /// When an update of the peer last masked a port.
    pub(super) masked_at: Instant,
    /// Base RTT in nanoseconds that the last congestion controller to the peer measured by probe, and when.
    pub(super) base_rtt: Option<(u64, Instant)>,
    /// Other shards with QPs towards the peer, bit N for shard N; the first shard's only.
    pub(super) used_by: u64,
    /// Ports on which packets to the peer have addresses of their own.
    pub(super) own_addresses: PortMask,
    /// First entry of the hash bucket with this slot's index.
    bucket: u32,
    /// Next entries of the buckets that this slot's addresses are in: its own one's, and those of its planes.
    chains: [u32; MAX_PORTS + 1],
    /// Profile bound on their behalf.
    pub(super) shards_profile: Option<u32>,
    /// What of the peer other shards have not been told.
    pub(super) untold: Untold,
    links: [PeerLinks; 3],
}

/// An announcement of our ports to one peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Update {
    /// Identifier of the requests; a new one for each change.
    pub(super) id: u16,
    /// Ports through which this round's request has not left.
    pub(super) todo: PortMask,
    /// Ports that the round announces as up.
    pub(super) announced: PortMask,
    /// Rounds sent since the change; 0 also when the change has been answered.
    pub(super) rounds: u8,
    /// Doublings of the wait for the answer, which also name the list the peer waits on.
    pub(super) level: u8,
    /// When the next round is due.
    pub(super) due: Instant,
    /// When the last change was announced; `None` before the first.
    pub(super) changed: Option<Instant>,
    /// Until then the changes announced so far use up their rate.
    pub(super) spent_until: Instant,
}

impl Update {
    const NONE: Self = Self {
        id: 0,
        todo: PortMask::NONE,
        announced: PortMask::NONE,
        rounds: 0,
        level: 0,
        due: Instant::FAR,
        changed: None,
        spent_until: Instant::ZERO,
    };
}

impl PeerSlot {
    /// What packets to the peer read.
    #[inline]
    pub(super) fn fetch(&self, memory: &impl Prefetch) {
        memory.prefetch(&self.reachable);
    }

    /// An unused slot.
    pub const EMPTY: Self = Self {
        used: false,
        generation: 0,
        users: 0,
        local: Ip::V6([0; 16]),
        remote: Ip::V6([0; 16]),
        route: RouteKind::Plain,
        controllers: 0,
        reachable: PortMask::NONE,
        announced: PortMask::ALL,
        ev_profile: None,
        op_paths: ReverseSet::EMPTY,
        update: Update::NONE,
        last_update: None,
        masked_at: Instant::ZERO,
        base_rtt: None,
        own_addresses: PortMask::NONE,
        bucket: NIL,
        chains: [NIL; MAX_PORTS + 1],
        used_by: 0,
        shards_profile: None,
        untold: Untold::NOTHING,
        links: [PeerLinks::NONE; 3],
    };

    /// Whether `peer`, which names the slot, is the one that is registered here.
    pub(super) fn is(&self, peer: PeerHandle) -> bool {
        self.used && self.generation == peer.generation()
    }

    /// The handle of the peer in this slot, number `index`.
    pub(super) fn handle(&self, index: u32) -> PeerHandle {
        PeerHandle::from_parts(index as u16, self.generation)
    }

    /// Whether any QP of the NIC needs it.
    pub(super) const fn is_used(&self) -> bool {
        self.users > 0 || self.used_by != 0
    }

    /// Ports that lead to the peer now; `up` are ours.
    #[inline(always)]
    pub(super) fn usable(&self, up: PortMask) -> PortMask {
        up.and(self.reachable).and(self.announced)
    }

    /// A registered peer without paths yet.
    pub(super) fn of(config: &PeerConfig) -> Self {
        Self {
            used: true,
            local: config.local,
            remote: config.remote,
            route: RouteKind::of(&config.route),
            ..Self::EMPTY
        }
    }
}

/// Links of one peer in one [`PeerList`].
#[derive(Clone, Copy, Debug)]
struct PeerLinks {
    before: u32,
    after: u32,
}

impl PeerLinks {
    /// In place of the peer before: on no list.
    const UNLISTED: u32 = NIL - 1;
    const NONE: Self = Self { before: Self::UNLISTED, after: NIL };

    const fn is_listed(self) -> bool {
        self.before != Self::UNLISTED
    }
}

/// Lists a peer can be on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PeerListId {
    /// Packets of a round of updates wait to leave.
    Sending = 0,
    /// A round left. One list per wait, ordered by `due`, because all its peers wait equally long.
    Waiting = 1,
    /// Other shards have not been told something of the peer.
    News = 2,
}

/// A list of peers, first in first out, from which any can be taken in O(1).
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerList {
    list: PeerListId,
    head: u32,
    tail: u32,
}

impl PeerList {
    pub(super) const fn new(list: PeerListId) -> Self {
        Self { list, head: NIL, tail: NIL }
    }

    pub(super) fn front(&self) -> Option<u32> {
        if self.head == NIL { None } else { Some(self.head) }
    }

    fn links<'p>(&self, peers: &'p mut [PeerSlot], peer: u32) -> Option<&'p mut PeerLinks> {
        peers.get_mut(peer as usize)?.links.get_mut(self.list as usize)
    }

    /// Appends `peer` unless it is on the list already.
    pub(super) fn push(&mut self, peers: &mut [PeerSlot], peer: u32) {
        let tail = self.tail;
        let Some(links) = self.links(peers, peer).filter(|links| !links.is_listed()) else { return };
        *links = PeerLinks { before: tail, after: NIL };
        match self.links(peers, tail) {
            Some(last) => last.after = peer,
            None => self.head = peer,
        }
        self.tail = peer;
    }

    /// Takes `peer` off if it is on the list.
    pub(super) fn remove(&mut self, peers: &mut [PeerSlot], peer: u32) {
        let Some(links) = self.links(peers, peer) else { return };
        let gone = core::mem::replace(links, PeerLinks::NONE);
        if !gone.is_listed() {
            return;
        }
        match self.links(peers, gone.before) {
            Some(before) => before.after = gone.after,
            None => self.head = gone.after,
        }
        match self.links(peers, gone.after) {
            Some(after) => after.before = gone.before,
            None => self.tail = gone.before,
        }
    }
}

/// A list with its members, for images.
pub(super) struct Listed<'a>(pub(super) &'a mut PeerList, pub(super) &'a mut [PeerSlot]);

impl Sequence for Listed<'_> {
    type Item = u32;

    fn first(&self) -> Option<u32> {
        self.0.front()
    }

    fn at(&mut self, place: u32) -> Option<(u32, Option<u32>)> {
        let after = self.0.links(self.1, place)?.after;
        Some((place, if after == NIL { None } else { Some(after) }))
    }

    fn append(&mut self, peer: u32) -> bool {
        let new = self.0.links(self.1, peer).is_some_and(|links| !links.is_listed());
        self.0.push(self.1, peer);
        new
    }
}

/// Gives a slot back to its unused state; bucket heads belong to the index, not to the peer.
pub(super) fn clear(slot: &mut PeerSlot) {
    *slot = PeerSlot { bucket: slot.bucket, generation: slot.generation.wrapping_add(1), ..PeerSlot::EMPTY };
}

/// Takes over a slot; bucket heads belong to the index, not to the peer.
pub(super) fn occupy(slot: &mut PeerSlot, peer: PeerSlot) {
    *slot = PeerSlot { bucket: slot.bucket, generation: slot.generation, ..peer };
}

crate::image::stored!(enum RouteKind { 0 => Plain, 1 => Srv6, 2 => Srv6Entry });
crate::image::stored!(struct Update { id, todo, announced, rounds, level, due, changed, spent_until });
crate::image::stored!(
    struct PeerSlot {
        used, users, local, remote, route, reachable, announced, ev_profile, op_paths, update, last_update, masked_at, base_rtt,
        used_by, shards_profile, untold,
    }
    rebuilt {
        controllers: 0, generation: 0, own_addresses: PortMask::NONE, bucket: NIL, chains: [NIL; MAX_PORTS + 1], links: [PeerLinks::NONE; 3],
    }
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use std::{vec, vec::Vec};

    /// A packet to a peer that no cache holds waits for one line of its slot.
    #[test]
    fn lines() {
        const LINE: usize = 64;
        assert_eq!(align_of::<PeerSlot>(), LINE);
        assert!(core::mem::offset_of!(PeerSlot, ev_profile) + size_of::<Option<u32>>() <= LINE);
    }

    /// Against a model that counts anew each time.
    #[test]
    fn a_port_is_free_while_no_peer_masks_it() {
        let mut peers = vec![PeerSlot::EMPTY; 5];
        let (mut masks, mut rng) = (Masks::new(), Rng::new(11));
        for _ in 0..2_000 {
            let at = rng.below(5) as usize;
            let ports = PortMask::from_bits(rng.below(1 << 10) | rng.below(1 << 10));
            let before = peers[at].announced;
            assert_eq!(masks.announce(&mut peers[at], ports), before);
            let all = peers.iter().fold(PortMask::first(8), |all, peer| all.and(peer.announced));
            assert_eq!(masks.free, all);
        }
    }

    /// What an image has of a list makes the same list again, and refuses a peer that is on it.
    #[test]
    fn an_image_of_a_list_has_its_peers_in_their_order() {
        let mut peers = vec![PeerSlot::EMPTY; 8];
        let mut list = PeerList::new(PeerListId::Waiting);
        let order = [5, 2, 7, 1];
        order.into_iter().for_each(|peer| list.push(&mut peers, peer));
        let mut from = Listed(&mut list, &mut peers);
        let (mut members, mut next) = (vec![], from.first());
        while let Some(place) = next {
            let (member, after) = from.at(place).unwrap();
            members.push(member);
            next = after.filter(|_| members.len() < 8);
        }
        assert_eq!(members, order);
        let (mut peers, mut list) = (vec![PeerSlot::EMPTY; 8], PeerList::new(PeerListId::Waiting));
        let mut to = Listed(&mut list, &mut peers);
        assert!(members.into_iter().all(|peer| to.append(peer)) && !to.append(2) && !to.append(8));
        assert_eq!(to.first(), Some(5));
    }

    #[test]
    fn lists_keep_their_order_whoever_leaves() {
        let mut peers = vec![PeerSlot::EMPTY; 16];
        let mut list = PeerList::new(PeerListId::Waiting);
        let (mut rng, mut want) = (Rng::new(5), Vec::<u32>::new());
        for _ in 0..1_000 {
            let peer = rng.below(16);
            if rng.below(2) == 0 {
                list.push(&mut peers, peer);
                if !want.contains(&peer) {
                    want.push(peer);
                }
            } else {
                list.remove(&mut peers, peer);
                want.retain(|&p| p != peer);
            }
            let mut have = vec![];
            let mut at = list.front();
            while let Some(peer) = at {
                have.push(peer);
                let after = peers[peer as usize].links[PeerListId::Waiting as usize].after;
                at = (after != NIL).then_some(after);
            }
            assert_eq!(have, want);
        }
    }
}
