//! Which ports lead to a peer, and what nodes tell each other about them: Port Status Updates, their repetitions, and ports that
//! work although an update masks them. Source: `transport.md` 7, `paths.md` 12.

use mrc_wire::PortNum;

use super::{
    Endpoint,
    op_table::Waiting,
    peers::{PeerIndex, PeerSlot},
    profiles::profile,
};
use crate::{config::MAX_PORTS, event::Event, num::Counter, port::PortMask, time::Instant};

/// Rounds after the first, each one RTO after the last; then the wait for an answer doubles from round to round.
//= EPOP-006
const REPEATS: u8 = 3;
/// Rounds after which an update counts as unanswered.
pub(super) const ROUNDS_IN_TIME: u8 = REPEATS + 1;
/// Changes announced at once: as many as all ports that fail and come back. An RTO makes room for as many again; what
/// finds none waits for the next round, so that a port that flaps does not make us a sender of updates.
const CHANGES_PER_RTO: u64 = 2 * MAX_PORTS as u64;
/// An update with an identifier up to this far below the last one's is an older one that was overtaken.
const OVERTAKEN: u16 = 64;

impl Endpoint<'_> {
    /// Ports through which packets to a peer can leave and arrive now.
    //= SEL-006
    pub(super) fn ports_to(&self, peer: &PeerSlot) -> PortMask {
        peer.usable(self.up)
    }

    /// Ports for packets that may show whether a port of the peer works: the usable ones, or, where the peer's update
    /// leaves none, those it masks. An update is a hint, not a verdict.
    //= EPOP-009
    pub(super) fn ports_to_test(&self, peer: &PeerSlot) -> PortMask {
        let usable = self.ports_to(peer);
        if usable.is_empty() && self.cfg.probe_masked_ports { self.up.and(peer.reachable) } else { usable }
    }

    /// A valid packet of an open QP arrived on `port`, which leads to the peer's port of the same number.
    #[inline(always)]
    pub(super) fn heard_through(&mut self, now: Instant, qp: u32, port: PortNum) {
        let Some(slot) = self.qps.get(qp as usize) else { return };
        self.peer_heard_through(now, slot.peer, port);
    }

    /// A packet of `peer` arrived on `port`.
    //= EPOP-008
    #[inline(always)]
    pub(super) fn peer_heard_through(&mut self, now: Instant, peer: u32, port: PortNum) {
        if self.peers.get(peer as usize).is_some_and(|peer| !peer.announced.contains(port)) {
            self.unmask(now, peer, port);
        }
    }

    /// The masked `port` of a peer works after all.
    //= EPOP-008
    #[cold]
    fn unmask(&mut self, now: Instant, peer: u32, port: PortNum) {
        let Some(slot) = self.peers.get(peer as usize) else { return };
        let after_ns = self.cfg.port_unmask_after_ns;
        if after_ns == 0 || now.since(slot.masked_at) < after_ns {
            return;
        }
        let mut next = self.peer_index.find(self.peers, self.headers(), &slot.remote);
        while let Some(peer) = next {
            next = PeerIndex::next(self.peers, peer);
            let Some(slot) = self.peers.get(peer as usize) else { return };
            if self.set_peer_ports(peer, slot.announced.with(port)) {
                self.stats.peer_ports_unmasked.inc();
                self.tell_peer_ports(peer);
            }
        }
    }

    /// The `ports` of a peer are up; whether that changes those that lead there. QPs read them when they choose a path, so nobody
    /// needs to be told, except those that had no port at all: they wait to be woken.
    //= EPOP-005
    pub(super) fn set_peer_ports(&mut self, peer: u32, ports: PortMask) -> bool {
        let Some(slot) = self.peers.get_mut(peer as usize) else { return false };
        let stranded = slot.usable(self.up).is_empty();
        let before = self.masks.announce(slot, ports);
        if before.and(slot.reachable) == ports.and(slot.reachable) {
            return false;
        }
        let (handle, returns) = (slot.handle(peer), stranded && !slot.usable(self.up).is_empty());
        self.events.raise(&mut self.stats, Event::PeerPorts { peer: handle, ports });
        if returns {
            self.wake_all();
        }
        true
    }

    /// The peer's ports are those of `mask`, for every registration of that node.
    //= EPOP-005
    pub(super) fn on_port_update(&mut self, now: Instant, first: u32, id: u16, mask: PortMask) {
        let rto = self.cfg.port_update_rto_ns;
        let mut next = Some(first);
        while let Some(peer) = next {
            next = PeerIndex::next(self.peers, peer);
            let Some(slot) = self.peers.get_mut(peer as usize) else { return };
            // Updates travel on all planes at once: an older one may come in behind a newer one.
            let overtaken = slot.last_update.is_some_and(|(last, at)| {
                let behind = last.wrapping_sub(id);
                behind != 0 && behind <= OVERTAKEN && now.since(at) < rto
            });
            if overtaken {
                self.stats.port_update_stale.inc();
                continue;
            }
            slot.last_update = Some((id, now));
            if !slot.announced.minus(mask).is_empty() {
                slot.masked_at = now;
            }
            if self.set_peer_ports(peer, mask) {
                self.stats.peer_ports_changed.inc();
                self.tell_peer_ports(peer);
            }
        }
    }

    /// The peer has heard of our ports.
    pub(super) fn update_answered(&mut self, peer: u32, id: u16) -> bool {
        let Some(slot) = self.peers.get_mut(peer as usize) else { return false };
        if slot.update.rounds == 0 || slot.update.id != id {
            return false;
        }
        slot.update.rounds = 0;
        slot.update.todo = PortMask::NONE;
        self.ops.sending.remove(self.peers, peer);
        self.ops.waiting.remove(self.peers, peer);
        true
    }

    /// A QP towards `peer` can send now: the peer may know nothing of our ports, or what it knew of an earlier life.
    //= EPOP-006
    pub(super) fn announce_on_rts(&mut self, now: Instant, peer: u32) {
        self.tell_peer_used(peer, true);
        let Some(slot) = self.peers.get(peer as usize) else { return };
        let lately = slot.update.changed.is_some_and(|at| now.since(at) < self.cfg.port_update_rto_ns);
        let announced = lately && slot.update.announced == self.up;
        if self.cfg.port_update_on_rts && !announced {
            self.announce_to(now, peer);
        }
    }

    /// Tells a peer that has a QP of ours which of our ports are up.
    //= PORT-005, EPOP-006
    pub(super) fn announce_to(&mut self, now: Instant, peer: u32) {
        // The first shard speaks for all, or updates of the node would overtake each other.
        if self.cfg.shard.index > 0 {
            return;
        }
        let rto = self.cfg.port_update_rto_ns;
        self.ops.waiting.remove(self.peers, peer);
        let Some(slot) = self.peers.get_mut(peer as usize).filter(|slot| slot.used && slot.is_used()) else { return };
        let update = &mut slot.update;
        update.changed = Some(now);
        update.id = update.id.wrapping_add(1);
        update.rounds = 0;
        let spent_until = update.spent_until.max(now).after(rto / CHANGES_PER_RTO);
        if spent_until.since(now) > rto {
            self.ops.sending.remove(self.peers, peer);
            self.wait_for_answer(now, peer);
        } else {
            update.spent_until = spent_until;
            self.start_round(peer);
            self.round_sent(now, peer);
        }
    }

    /// The next round of updates: one request per plane that still leads to the peer.
    pub(super) fn start_round(&mut self, peer: u32) {
        let Some(slot) = self.peers.get(peer as usize) else { return };
        let todo = self.ports_to_test(slot);
        let up = self.up;
        let Some(slot) = self.peers.get_mut(peer as usize) else { return };
        (slot.update.todo, slot.update.announced) = (todo, up);
        slot.update.rounds = slot.update.rounds.saturating_add(1);
        // The EV of a plane that was not answered may be the dead one.
        if slot.update.rounds > 1
            && let Some(index) = slot.ev_profile
            && let Some(entries) = profile(self.ev_entries, &self.ev_profiles, &self.limits, index)
        {
            slot.op_paths.redraw(entries, &mut self.rng);
        }
        self.ops.sending.push(self.peers, peer);
    }

    /// Nothing of the round is left to send: wait for the answer.
    pub(super) fn round_sent(&mut self, now: Instant, peer: u32) {
        if self.peers.get(peer as usize).is_some_and(|slot| slot.update.todo.is_empty()) {
            self.ops.sending.remove(self.peers, peer);
            self.wait_for_answer(now, peer);
        }
    }

    fn wait_for_answer(&mut self, now: Instant, peer: u32) {
        self.ops.waiting.remove(self.peers, peer);
        if let Some(slot) = self.peers.get_mut(peer as usize) {
            let rto = self.cfg.port_update_rto_ns.max(1);
            slot.update.level = Waiting::level(slot.update.rounds, REPEATS);
            let wait = rto
                .saturating_mul(1u64.wrapping_shl(slot.update.level.into()))
                .min(self.cfg.port_update_max_ns.max(rto));
            slot.update.due = now.after(wait);
        }
        self.ops.waiting.push(self.peers, peer);
    }
}
