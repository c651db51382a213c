//! Creating and destroying objects, and pictures of them. `qp_states` moves QPs through their states, `post` queues work.

use mrc_wire::{Encap, Ev, FrameTemplate, Ip, Outer, PortNum, Qpn, Rkey};

use super::{Endpoint, PeerHandle, PeerSlot, PlaneSlot, RouteSlot, part, peers, peers::Headers, profiles::profile};
use crate::num::Counter;
use crate::{
    config::{MAX_PORTS, PeerConfig, Route, port_of_plane},
    cq::CqHandle,
    error::TableError,
    mem::{Access, MemRange, MrHandle, Pd},
    path::{Feedback, PathTelemetry},
    port::PortMask,
    qp::{QpHandle, QpInfo, QpInit},
    time::Instant,
};

impl Endpoint<'_> {
    /// Registers application memory. The returned region's key is fresh and random.
    ///
    /// # Errors
    /// No free slot, or a range past the end of the address space.
    pub fn register_mr(&mut self, pd: Pd, range: MemRange, access: Access) -> Result<MrHandle, TableError> {
        self.regions.register(pd, range, access, &mut self.secrets)
    }

    /// Revokes a region: its key is dead when this returns, and nothing is placed through it any more.
    ///
    /// # Errors
    /// The handle is stale.
    pub fn deregister_mr(&mut self, mr: MrHandle) -> Result<(), TableError> {
        self.regions.deregister(mr)
    }

    /// Gives a region another protection domain and other rights. Its key stays. Packets and posts that come later meet what is new;
    /// requests that were posted before go on.
    ///
    /// # Errors
    /// The handle is stale.
    pub fn change_mr(&mut self, mr: MrHandle, pd: Pd, access: Access) -> Result<(), TableError> {
        self.regions.change(mr, pd, access)
    }

    /// The key of a live region, for both local and remote use.
    pub fn key(&self, mr: MrHandle) -> Option<Rkey> {
        self.regions.key(mr)
    }

    /// Creates a completion queue of `Limits::cq_depth` entries.
    ///
    /// # Errors
    /// No free slot.
    pub fn create_cq(&mut self) -> Result<CqHandle, TableError> {
        self.cqs.create()
    }

    /// Destroys a completion queue.
    ///
    /// # Errors
    /// The handle is stale, or a QP still uses it.
    pub fn destroy_cq(&mut self, cq: CqHandle) -> Result<(), TableError> {
        self.cqs.destroy(cq)
    }

    /// Registers a peer: addresses and paths shared by all QPs towards it.
    ///
    /// # Errors
    /// No free slot, or no plane leads to the peer.
    pub fn add_peer(&mut self, config: &PeerConfig) -> Result<PeerHandle, TableError> {
        let index = self.free_peers.find(self.peers, |peer| !peer.used).ok_or(TableError::Full("peer"))?;
        let mut slot = PeerSlot::of(config);
        if matches!(config.route, Route::Srv6(_)) && index >= self.routes.len() {
            return Err(TableError::Full("peer with micro-SIDs"));
        }
        let planes = part(self.planes, index as u32, self.limits.planes).ok_or(TableError::Full("peer"))?;
        planes.fill(PlaneSlot::EMPTY);
        for plane in 0..MAX_PORTS {
            let path = config.planes.get(plane).copied().flatten();
            let port = self.cfg.ports.get(plane).copied().flatten();
            let (Some(path), Some(port)) = (path, port) else { continue };
            let outer = match (config.route, path.outer_src) {
                (Route::Plain, _) | (_, None) => None,
                (_, Some(src)) => Some(Outer { src, dst: [0; 16], srh: None }),
            };
            let encap = Encap {
                eth_src: port.mac,
                eth_dst: path.next_hop,
                outer,
                src: config.local,
                dst: config.remote,
                hop_limit: config.hop_limit,
                outer_hop_limit: 64,
            };
            if let Some(template) = planes.get_mut(plane) {
                *template = PlaneSlot(FrameTemplate::new(&encap, &self.cfg.wire));
                slot.reachable = slot.reachable.with(port_of_plane(plane));
            }
        }
        if slot.reachable.is_empty() {
            return Err(TableError::Range("peer planes"));
        }
        if let (Some(route), Route::Srv6(map)) = (self.routes.get_mut(index), config.route) {
            *route = RouteSlot(map);
        }
        slot.update.id = self.secrets.draw() as u16;
        peers::occupy(self.peers.get_mut(index).ok_or(TableError::Full("peer"))?, slot);
        self.index_peer(index as u32);
        self.peers.get(index).map(|slot| slot.handle(index as u32)).ok_or(TableError::Full("peer"))
    }

    /// Packets to and from a peer on `port` have the inner addresses `local` and `remote` in place of the peer's, which
    /// [`PeerConfig`] names: where each plane is a network of its own. To be called before a QP uses the peer. Packets of the peer are then
    /// accepted under each of its addresses. Writes whose addresses differ from those of the one before take a little longer.
    ///
    /// # Errors
    /// The handle is stale, a QP uses the peer, or the peer is not reached through the port; or the addresses are of another
    /// family than the peer's, or `local` is neither a GID nor the port's own address.
    //= ADDR-001
    pub fn set_plane_addresses(
        &mut self,
        peer: PeerHandle,
        port: PortNum,
        local: Ip,
        remote: Ip,
    ) -> Result<(), TableError> {
        let slot = self.peers.get(peer.index()).filter(|slot| slot.is(peer)).ok_or(TableError::Unknown("peer"))?;
        if slot.is_used() {
            return Err(TableError::Busy("peer"));
        }
        if !slot.reachable.contains(port) {
            return Err(TableError::Range("peer planes"));
        }
        let family = slot.remote.is_v6();
        if local.is_v6() != family || remote.is_v6() != family || !self.is_local(port, &local) {
            return Err(TableError::Range("plane addresses"));
        }
        let own = (slot.local, slot.remote) != (local, remote);
        self.unindex_peer(peer.slot());
        let template = part(self.planes, peer.slot(), self.limits.planes)
            .and_then(|planes| planes.get_mut(usize::from(port.plane())));
        if let Some(PlaneSlot(template)) = template {
            let encap = Encap { src: local, dst: remote, ..template.encap() };
            *template = FrameTemplate::new(&encap, &self.cfg.wire);
        }
        if let Some(slot) = self.peers.get_mut(peer.index()) {
            let before = slot.own_addresses;
            slot.own_addresses = if own { before.with(port) } else { before.without(port) };
        }
        self.index_peer(peer.slot());
        Ok(())
    }

    /// What packets to peers begin with, to look up their addresses.
    pub(super) fn headers(&self) -> Headers<'_> {
        Headers { planes: self.planes, each: self.limits.planes }
    }

    pub(super) fn index_peer(&mut self, peer: u32) {
        let headers = Headers { planes: self.planes, each: self.limits.planes };
        self.peer_index.insert(self.peers, headers, peer);
    }

    fn unindex_peer(&mut self, peer: u32) {
        let headers = Headers { planes: self.planes, each: self.limits.planes };
        self.peer_index.remove(self.peers, headers, peer);
    }

    /// Forgets a peer.
    ///
    /// # Errors
    /// The handle is stale, or a QP still uses it, also one of another shard; or the first shard has not been told that
    /// none does any more ([`Endpoint::poll_shard_message`]).
    pub fn remove_peer(&mut self, peer: PeerHandle) -> Result<(), TableError> {
        let slot = self.peers.get(peer.index()).filter(|slot| slot.is(peer)).ok_or(TableError::Unknown("peer"))?;
        if slot.is_used() || slot.untold.used {
            return Err(TableError::Busy("peer"));
        }
        self.ops.forget(self.peers, peer.slot());
        self.unindex_peer(peer.slot());
        if let Some(slot) = self.peers.get_mut(peer.index()) {
            self.masks.announce(slot, PortMask::ALL);
            peers::clear(slot);
            self.free_peers.freed(peer.slot());
        }
        Ok(())
    }

    /// Creates a QP in RESET. Its number is random but for the bits of slot and shard.
    ///
    /// # Errors
    /// No free slot, or an unknown completion queue.
    pub fn create_qp(&mut self, init: &QpInit) -> Result<QpHandle, TableError> {
        let index = self.free_qps.find(self.qps).ok_or(TableError::Full("queue pair"))?;
        for cq in [init.send_cq, init.recv_cq] {
            self.cqs.slot(cq).ok_or(TableError::Unknown("completion queue"))?;
        }
        let (bits, shard) = (self.qpn_bits, self.cfg.shard);
        let before = self.qps.get(index).map(|slot| slot.qpn);
        let qpn = loop {
            let random = (self.secrets.draw() >> 40) as u32;
            let qpn = Qpn::new(shard.prefixed(random << bits | index as u32, 24));
            // Packets of the slot's last QP may still arrive: its number rests for one life.
            if qpn.value() > 2 && Some(qpn) != before {
                break qpn;
            }
        };
        for cq in [init.send_cq, init.recv_cq] {
            if let Some(slot) = self.cqs.slot(cq) {
                slot.users.inc();
            }
        }
        self.free_qps.take(self.qps, index);
        let slot = self.qps.get_mut(index).ok_or(TableError::Full("queue pair"))?;
        slot.begin(qpn, init);
        self.stats.states.enter(slot);
        Ok(QpHandle { index: index as u32, qpn })
    }

    /// Destroys a QP; what it had queued is dropped without completions.
    ///
    /// # Errors
    /// The handle is stale.
    pub fn destroy_qp(&mut self, qp: QpHandle) -> Result<(), TableError> {
        let index = self.index_of(qp).ok_or(TableError::Unknown("queue pair"))?;
        self.leave_qpcc(index);
        self.release_peer(index);
        self.timers.remove(index);
        let Some(slot) = self.qps.get_mut(index as usize) else { return Ok(()) };
        let cqs = [slot.send_cq, slot.recv_cq];
        slot.rsp.forget_answers(&mut self.refusals);
        self.stats.states.leave(slot);
        slot.reset();
        slot.used = false;
        self.free_qps.freed(self.qps, index);
        for cq in cqs {
            if let Some(slot) = self.cqs.slot(cq) {
                slot.users = slot.users.saturating_sub(1);
            }
        }
        Ok(())
    }

    pub(super) fn release_peer(&mut self, index: u32) {
        let Some(slot) = self.qps.get_mut(index as usize) else { return };
        if !core::mem::take(&mut slot.has_peer) {
            return;
        }
        let bound = slot.ev_profile;
        let peer = slot.peer;
        if let Some(slot) = self.peers.get_mut(peer as usize) {
            slot.users = slot.users.saturating_sub(1);
            if slot.users == 0 {
                slot.ev_profile = None;
                self.unless_used(peer);
                self.tell_peer_used(peer, false);
            }
        }
        self.unbind_profile(bound);
    }

    /// Stops telling a peer of our ports which no QP needs any more. Where only other shards do, their paths are taken.
    pub(super) fn unless_used(&mut self, peer: u32) {
        let Some(slot) = self.peers.get_mut(peer as usize).filter(|slot| slot.users == 0) else { return };
        slot.ev_profile = slot.shards_profile;
        if let Some(index) = slot.ev_profile
            && let Some(entries) = profile(self.ev_entries, &self.ev_profiles, &self.limits, index)
        {
            slot.op_paths.start(entries, self.ports, &mut self.rng);
        }
        if !slot.is_used() {
            slot.update.rounds = 0;
            slot.update.todo = PortMask::NONE;
            self.ops.stop_updates(self.peers, peer);
        }
    }

    /// A picture of one QP.
    pub fn qp_info(&self, qp: QpHandle) -> Option<QpInfo> {
        let slot = self.qps.get(self.index_of(qp)? as usize)?;
        Some(QpInfo {
            state: slot.state,
            cause: slot.cause,
            dest_qp: slot.dest_qp,
            outstanding: slot.req.outstanding(),
            queued: slot.sq.len(),
            receives: slot.rq.len(),
            retries: slot.req.retry_cnt,
            base_rtt_ns: slot.req.base_rtt_ns(),
            load: slot.share.load,
            inflight_bytes: slot.share.inflight_bytes(),
            evs: slot.ev_counts().unwrap_or_default(),
            peer: self.peers.get(slot.peer as usize).filter(|_| slot.has_peer).map(|peer| peer.handle(slot.peer)),
            ev_profile: slot.has_peer.then(|| self.profile_handle(slot.ev_profile)).flatten(),
            srtt_ns: slot.req.srtt_ns(),
            acked_bytes: slot.share.acked_bytes(),
            retransmitted: slot.share.retransmitted(),
            received_bytes: slot.rsp.received_bytes(),
            placements: slot.rsp.placing.open(),
        })
    }

    /// What the switches on a path of a QP wrote into a probe, in the order of arrival: call it before
    /// [`Endpoint::handle_packet`] with the SACK that answers the probe, which echoes `ev`. How the records travel is the
    /// embedder's concern; selectors that keep no load of their paths ignore them.
    //= FLJ-009
    pub fn report_telemetry(&mut self, now: Instant, qp: QpHandle, ev: Ev, told: PathTelemetry) {
        let Some(index) = self.index_of(qp) else { return };
        self.with_tx(index, |mut tx| {
            if tx.qp.paths.wants_telemetry()
                && let Some(at) = tx.qp.paths.find(tx.slots, None, ev)
            {
                tx.feedback(now, at, Feedback::Telemetry(told));
            }
        });
    }

    /// The paths of a QP with their loads, where its selector keeps them ([`Selector`](crate::path::Selector)).
    //= FLJ-010
    #[cfg(feature = "flowing-jumping")]
    pub fn path_loads(&self, qp: QpHandle) -> impl Iterator<Item = crate::path::PathLoad> + '_ {
        let index = self.index_of(qp);
        let slot =
            index.and_then(|index| self.qps.get(index as usize)).filter(|slot| slot.state == crate::QpState::Rts);
        let first = index.and_then(|index| (index as usize).checked_mul(self.limits.evs));
        let slots = first.and_then(|first| self.ev_slots.get(first..)).unwrap_or(&[]);
        slot.into_iter().flat_map(move |slot| slot.paths.loads(slot.paths.used(slots)))
    }

    /// Every QP that exists, by slot number.
    pub fn qps(&self) -> impl Iterator<Item = QpHandle> + '_ {
        (0u32..).zip(&*self.qps).filter(|(_, slot)| slot.used).map(|(index, slot)| QpHandle { index, qpn: slot.qpn })
    }

    /// While set, every new write is refused with a NACK of this reason before anything of it is recorded: for a driver
    /// that runs out of packet buffers or of room to track (`NoPktBuffer`, `NoBitmap`, `NoResource`), or whose device
    /// failed (`UnexpEvent`, which also moves the QP to ERROR).
    //= VAL-019
    pub fn set_refusal(&mut self, reason: Option<mrc_wire::NackReason>) {
        self.refusal = reason;
    }
}
