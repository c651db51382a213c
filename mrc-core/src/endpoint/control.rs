//! Creating, modifying and destroying objects, and posting work: the calls that an application's verbs become.

use mrc_wire::{Encap, Ev, FrameTemplate, Ip, Outer, PortNum, Psn, Qpn, Rkey};

use super::{Endpoint, EvProfileHandle, PeerHandle, PeerSlot, part, peers, placement::next_life, profiles::profile};
use crate::num::Counter;
use crate::{
    config::{MAX_PORTS, PeerConfig, PlacementMode, Route, RtrAttr, RtsAttr, port_of_plane},
    cq::CqHandle,
    error::{ModifyError, PostError, TableError},
    event::{ErrorCause, Event},
    mem::{Access, MemRange, MrHandle, Pd},
    path::{Feedback, PathError, PathTelemetry},
    port::PortMask,
    qp::{Qp, QpHandle, QpInfo, QpInit, QpState},
    ready::List,
    requester::{Requester, SendWr, TxWord, Wqe, nominal_bytes, packets_of},
    responder::{Placing, RecvWqe, Responder, RxWord},
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
        let index = self.peers.iter().position(|peer| !peer.used).ok_or(TableError::Full("peer"))?;
        let mut slot = PeerSlot::of(config);
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
            if let Some(template) = slot.templates.get_mut(plane) {
                *template = Some(FrameTemplate::new(&encap, &self.cfg.wire));
                slot.reachable = slot.reachable.with(port_of_plane(plane));
            }
        }
        if slot.reachable.is_empty() {
            return Err(TableError::Range("peer planes"));
        }
        slot.update.id = self.secrets.draw() as u16;
        peers::occupy(self.peers.get_mut(index).ok_or(TableError::Full("peer"))?, slot);
        self.peer_index.insert(self.peers, index as u32);
        Ok(PeerHandle(index as u32))
    }

    /// Forgets a peer.
    ///
    /// # Errors
    /// The handle is stale, or a QP still uses it, also one of another shard; or the first shard has not been told that
    /// none does any more ([`Endpoint::poll_shard_message`]).
    pub fn remove_peer(&mut self, peer: PeerHandle) -> Result<(), TableError> {
        let slot = self.peers.get(peer.0 as usize).filter(|slot| slot.used).ok_or(TableError::Unknown("peer"))?;
        if slot.is_used() || slot.untold.used {
            return Err(TableError::Busy("peer"));
        }
        self.ops.forget(self.peers, peer.0);
        self.peer_index.remove(self.peers, peer.0);
        if let Some(slot) = self.peers.get_mut(peer.0 as usize) {
            peers::clear(slot);
        }
        Ok(())
    }

    /// Creates a QP in RESET. Its number is random but for the bits of slot and shard.
    ///
    /// # Errors
    /// No free slot, or an unknown completion queue.
    pub fn create_qp(&mut self, init: &QpInit) -> Result<QpHandle, TableError> {
        let index = self.qps.iter().position(|qp| !qp.used).ok_or(TableError::Full("queue pair"))?;
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
        let slot = self.qps.get_mut(index).ok_or(TableError::Full("queue pair"))?;
        *slot = Qp {
            qpn,
            used: true,
            pd: init.pd,
            send_cq: init.send_cq,
            recv_cq: init.recv_cq,
            links: slot.links,
            ..Qp::EMPTY
        };
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
        for cq in cqs {
            if let Some(slot) = self.cqs.slot(cq) {
                slot.users = slot.users.saturating_sub(1);
            }
        }
        Ok(())
    }

    fn release_peer(&mut self, index: u32) {
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
            && let Some(entries) = profile(self.ev_entries, self.ev_profiles, &self.limits, index)
        {
            slot.ways.start(entries, &mut self.rng);
        }
        if !slot.is_used() {
            slot.update.rounds = 0;
            slot.update.todo = PortMask::NONE;
            self.ops.stop_updates(self.peers, peer);
        }
    }

    fn transition(&mut self, qp: QpHandle, to: QpState) -> Result<u32, ModifyError> {
        let index = self.index_of(qp).ok_or(ModifyError::Unknown)?;
        let from = self.qps.get(index as usize).map(|slot| slot.state).ok_or(ModifyError::Unknown)?;
        if from.allows(to) { Ok(index) } else { Err(ModifyError::Transition { from, to }) }
    }

    /// A first PSN for one direction of a QP, which nobody can guess.
    //= QP-008
    pub fn draw_psn(&mut self) -> Psn {
        Psn::new((self.secrets.draw() >> 40) as u32)
    }

    /// RESET to INIT.
    ///
    /// # Errors
    /// Stale handle or wrong state.
    pub fn modify_to_init(&mut self, qp: QpHandle) -> Result<(), ModifyError> {
        let index = self.transition(qp, QpState::Init)?;
        if let Some(slot) = self.qps.get_mut(index as usize) {
            self.stats.states.change(slot, QpState::Init);
        }
        self.announce(qp.qpn, QpState::Reset, QpState::Init);
        Ok(())
    }

    /// Says whether the peer may write through this QP, on top of what each region allows. Every QP starts, and leaves RESET,
    /// with permission; a write without it is refused like one without the region's.
    ///
    /// # Errors
    /// Stale handle.
    pub fn set_qp_access(&mut self, qp: QpHandle, access: Access) -> Result<(), ModifyError> {
        let index = self.index_of(qp).ok_or(ModifyError::Unknown)?;
        let slot = self.qps.get_mut(index as usize).ok_or(ModifyError::Unknown)?;
        slot.write_refused = !access.remote_write;
        Ok(())
    }

    /// INIT to RTR: the QP receives from now on.
    ///
    /// # Errors
    /// Stale handle, wrong state, an attribute outside its range, an unknown peer or profile.
    //= QP-003, QP-005, LEN-001
    pub fn modify_to_rtr(&mut self, now: Instant, qp: QpHandle, attr: &RtrAttr) -> Result<(), ModifyError> {
        let index = self.transition(qp, QpState::Rtr)?;
        attr.validate()?;
        if usize::from(attr.mpr_dest) > self.limits.mpr {
            return Err(ModifyError::Range("mpr_dest"));
        }
        if usize::from(attr.max_wimm_dest) > self.limits.wimm {
            return Err(ModifyError::Range("max_wimm_dest"));
        }
        let peer = self.peers.get_mut(attr.peer.0 as usize).filter(|peer| peer.used);
        let peer = peer.ok_or(ModifyError::Missing("peer"))?;
        //= PROF-006
        let entries = profile(self.ev_entries, self.ev_profiles, &self.limits, attr.ev_profile.0)
            .ok_or(ModifyError::Missing("EV profile"))?;
        let routed = matches!(peer.route, Route::Srv6Entry);
        if entries.iter().any(|entry| entry.dst.is_some() != routed) {
            return Err(ModifyError::Range("EV format"));
        }
        //= IP4-003
        if matches!(peer.local, Ip::V4(_)) && entries.iter().any(|entry| entry.populated && entry.ev.0 > 0xFFFF) {
            return Err(ModifyError::Range("EV of more than 16 bits over IPv4"));
        }
        let slot = self.qps.get_mut(index as usize).ok_or(ModifyError::Unknown)?;
        slot.peer = attr.peer.0;
        slot.has_peer = true;
        peer.users.inc();
        let first = peer.users == 1;
        if peer.ev_profile.is_none() {
            peer.ev_profile = Some(attr.ev_profile.0);
            peer.ways.start(entries, &mut self.rng);
        }
        slot.dest_qp = attr.dest_qp;
        slot.path_mtu = u32::from(attr.path_mtu);
        slot.ev_profile = attr.ev_profile.0;
        slot.req.last_heard = now;
        slot.rsp = Responder::start(attr);
        slot.rsp.placing = Placing::start(attr.rq_psn.sub(1), self.cfg.placement == PlacementMode::Reported);
        self.lives = next_life(self.lives);
        slot.life = self.lives;
        slot.reverse.start(entries, &mut self.rng);
        if let Some(words) = part(self.rx_words, index, self.limits.words()) {
            words.fill(RxWord::EMPTY);
        }
        self.stats.states.change(slot, QpState::Rtr);
        self.bind_profile(attr.ev_profile.0);
        if first {
            self.tell_peer_used(attr.peer.0, false);
        }
        self.announce(qp.qpn, QpState::Init, QpState::Rtr);
        Ok(())
    }

    /// RTR to RTS: the QP sends from now on.
    ///
    /// # Errors
    /// Stale handle, wrong state, an attribute outside its range, or no usable EV.
    //= QP-003
    pub fn modify_to_rts(&mut self, now: Instant, qp: QpHandle, attr: &RtsAttr) -> Result<(), ModifyError> {
        let index = self.transition(qp, QpState::Rts)?;
        attr.validate()?;
        if usize::from(attr.mpr) > self.limits.mpr {
            return Err(ModifyError::Range("mpr"));
        }
        let ports = self.usable_ports(index);
        let reachable = self.reachable_ports(index);
        let peer = self.qps.get(index as usize).map_or(0, |slot| slot.peer);
        let qpcc = self.find_qpcc(peer, attr.cc)?;
        let (evs, active) = (self.limits.evs, self.limits.active_evs);
        let slot = self.qps.get_mut(index as usize).ok_or(ModifyError::Unknown)?;
        let entries = profile(self.ev_entries, self.ev_profiles, &self.limits, slot.ev_profile)
            .ok_or(ModifyError::Missing("EV profile"))?;
        let slots = part(self.ev_slots, index, evs).ok_or(ModifyError::Unknown)?;
        let order = part(self.ev_order, index, active).ok_or(ModifyError::Unknown)?;
        slot.path_cfg = attr.paths;
        slot.path_cfg.base_rtt_ns = attr.base_rtt_ns;
        if let Some(profile) = self.ev_profiles.get(slot.ev_profile as usize) {
            slot.bad_evs_heard = profile.told();
            if profile.min_active() > 0 {
                slot.path_cfg.ev_min_active = profile.min_active();
            }
        }
        // A probe per ten round trips at most (`paths.md` 10).
        slot.path_cfg.probe_interval_ns = attr.paths.probe_interval_ns.max(attr.base_rtt_ns.saturating_mul(10));
        slot.paths.start(slots, order, entries, &slot.path_cfg, attr.selector, reachable, &mut self.rng).map_err(
            |error| match error {
                PathError::Knob(text) => ModifyError::Range(text),
                _ => ModifyError::NoUsableEv,
            },
        )?;
        slot.paths.set_usable_ports(ports);
        let last_life = slot.req.probes;
        slot.req = Requester::start(now, attr, slot.path_mtu, &self.cfg);
        slot.req.probes.begin_after(&last_life, self.secrets.draw());
        if let Some(words) = part(self.tx_words, index, self.limits.words()) {
            words.fill(TxWord::EMPTY);
        }
        self.stats.states.change(slot, QpState::Rts);
        self.join_qpcc(now, index, qpcc);
        self.announce(qp.qpn, QpState::Rtr, QpState::Rts);
        self.announce_on_rts(now, peer);
        self.wake(now, index);
        Ok(())
    }

    /// Any state to ERROR: queued work flushes.
    ///
    /// # Errors
    /// Stale handle.
    pub fn modify_to_error(&mut self, now: Instant, qp: QpHandle) -> Result<(), ModifyError> {
        let index = self.transition(qp, QpState::Error)?;
        self.fail_qp(now, index, ErrorCause::Application, None);
        Ok(())
    }

    /// Any state to RESET: queued work is dropped. The QP keeps its number, so that packets of the life that ends may still
    /// arrive in the next one. Identifiers of probes do not come again; choose other first PSNs, too, from
    /// [`Endpoint::draw_psn`].
    ///
    /// # Errors
    /// Stale handle.
    pub fn modify_to_reset(&mut self, qp: QpHandle) -> Result<(), ModifyError> {
        let index = self.transition(qp, QpState::Reset)?;
        self.leave_qpcc(index);
        self.release_peer(index);
        self.timers.remove(index);
        if let Some(slot) = self.qps.get_mut(index as usize) {
            let from = slot.state;
            slot.rsp.forget_answers(&mut self.refusals);
            self.stats.states.leave(slot);
            slot.reset();
            self.stats.states.enter(slot);
            self.announce(qp.qpn, from, QpState::Reset);
        }
        Ok(())
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
            evs: slot.ev_counts(),
            peer: slot.has_peer.then_some(PeerHandle(slot.peer)),
            ev_profile: slot.has_peer.then_some(EvProfileHandle(slot.ev_profile)),
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
        let slot = index.and_then(|index| self.qps.get(index as usize)).filter(|slot| slot.state == QpState::Rts);
        let first = index.and_then(|index| (index as usize).checked_mul(self.limits.evs));
        let slots = first.and_then(|first| self.ev_slots.get(first..)).unwrap_or(&[]);
        slot.into_iter().flat_map(move |slot| slot.paths.loads(slot.paths.used(slots)))
    }

    /// Every QP that exists, by slot number.
    pub fn qps(&self) -> impl Iterator<Item = QpHandle> + '_ {
        (0u32..).zip(&*self.qps).filter(|(_, slot)| slot.used).map(|(index, slot)| QpHandle { index, qpn: slot.qpn })
    }

    /// Queues a write.
    ///
    /// # Errors
    /// Nothing was queued; the variant says why. In ERROR the request is accepted and flushed, as verbs do.
    //= MODEL-001
    pub fn post_send(&mut self, now: Instant, qp: QpHandle, wr: &SendWr) -> Result<(), PostError> {
        let index = qp.index;
        let known = self.qps.get_mut(index as usize).filter(|slot| slot.used && slot.qpn == qp.qpn);
        let slot = known.ok_or(PostError::UnknownQp)?;
        if !matches!(slot.state, QpState::Rts | QpState::Error) {
            return Err(PostError::State(slot.state));
        }
        if wr.imm.is_some() && slot.state == QpState::Rts && slot.req.wimm_tx == 0 {
            return Err(PostError::NoWriteImm);
        }
        if wr.len == 0 && self.cfg.reject_zero_len {
            return Err(PostError::TooLong { max: 0 });
        }
        let (mr, offset) = if wr.len == 0 {
            (Wqe::EMPTY.mr, 0)
        } else {
            self.regions.check(slot.pd, wr.lkey, wr.local_va, u64::from(wr.len), false).map_err(|why| match why {
                crate::mem::AccessError::Bounds => PostError::LocalBounds,
                _ => PostError::LocalKey,
            })?
        };
        let packets = packets_of(wr.len, slot.path_mtu.max(256));
        if packets >= 1 << 23 {
            return Err(PostError::TooLong { max: u64::from(slot.path_mtu) << 23 });
        }
        let wqe = Wqe {
            wr_id: wr.wr_id,
            mr,
            offset,
            remote_va: wr.remote_va,
            rkey: wr.rkey,
            len: wr.len,
            packets,
            signaled: wr.signaled,
            imm: wr.imm,
            solicited: wr.solicited,
            ..Wqe::EMPTY
        };
        let ring = part(self.wqes, index, self.limits.send_queue).ok_or(PostError::UnknownQp)?;
        if !slot.sq.push(ring, wqe) {
            return Err(PostError::Full);
        }
        if slot.req.outstanding() == 0 {
            slot.paths.on_busy();
        }
        // Behind a request that waits for its turn nothing changes; without a port time has to be charged.
        let waits = slot.links.get(List::Fresh).is_queued() && !slot.paths.usable_ports().is_empty();
        if slot.state == QpState::Error {
            self.complete(index);
            return Ok(());
        }
        if let Some(qpcc) = slot.qpcc.and_then(|qpcc| self.qpccs.get_mut(qpcc as usize)) {
            let bytes = nominal_bytes(&self.cfg, wr.len, packets, wr.imm.is_some());
            qpcc.on_posted(&mut slot.share, bytes);
        }
        if !waits {
            self.wake(now, index);
        }
        Ok(())
    }

    /// Queues a receive request: the next write with immediate of the peer completes it. Allowed from INIT on; in ERROR it
    /// is accepted and flushed.
    ///
    /// # Errors
    /// Nothing was queued; the variant says why.
    //= WIMM-004, WIMM-006
    pub fn post_recv(&mut self, qp: QpHandle, wr_id: u64) -> Result<(), PostError> {
        let index = self.index_of(qp).ok_or(PostError::UnknownQp)?;
        let slot = self.qps.get_mut(index as usize).ok_or(PostError::UnknownQp)?;
        if slot.state == QpState::Reset {
            return Err(PostError::State(slot.state));
        }
        let ring = part(self.recvs, index, self.limits.recv_queue).ok_or(PostError::UnknownQp)?;
        if !slot.rq.push(ring, RecvWqe { wr_id }) {
            return Err(PostError::Full);
        }
        if slot.state == QpState::Error || !slot.rsp.stash.is_empty() {
            self.deliver(index);
            self.wake_control(index);
        }
        Ok(())
    }

    /// Changes the window of a QP's responder, in units of 128 PSNs; every SACK reports it. What was offered before stays
    /// acceptable. Only on QPs with Dynamic MPR.
    ///
    /// # Errors
    /// Stale handle, no Dynamic MPR, 0, or more than `Limits::mpr`.
    //= DMPR-001, CAP-003
    pub fn set_mpr(&mut self, qp: QpHandle, mpr: u8) -> Result<(), ModifyError> {
        let index = self.index_of(qp).ok_or(ModifyError::Unknown)?;
        let slot = self.qps.get_mut(index as usize).ok_or(ModifyError::Unknown)?;
        if !slot.rsp.dynamic_mpr {
            return Err(ModifyError::Missing("Dynamic MPR"));
        }
        if mpr == 0 || usize::from(mpr) > self.limits.mpr {
            return Err(ModifyError::Range("mpr"));
        }
        slot.rsp.set_range(u32::from(mpr) * 128, self.cfg.right_edge_retreats);
        Ok(())
    }

    /// While set, every new write is refused with a NACK of this reason before anything of it is recorded: for a driver
    /// that runs out of packet buffers or of room to track (`NoPktBuffer`, `NoBitmap`, `NoResource`), or whose device
    /// failed (`UnexpEvent`, which also moves the QP to ERROR).
    //= VAL-019
    pub fn set_refusal(&mut self, reason: Option<mrc_wire::NackReason>) {
        self.refusal = reason;
    }

    /// Tells the engine that the link of a port went up or down. EVs of a port that is down are not used; they keep their
    /// states. Peers hear of it by Port Status Updates. With a `call_budget` QPs and peers hear of it over several calls; no
    /// packet leaves through a port that is down meanwhile.
    //= PORT-001, PORT-003
    pub fn set_port(&mut self, now: Instant, port: PortNum, up: bool) {
        self.linked = if up { self.linked.with(port) } else { self.linked.without(port) };
        self.refresh_port(now, port);
    }

    /// Takes a port out of use, or back into it, whatever its link does: as if the link had gone down. Ports begin enabled.
    //= PORT-001, PORT-003
    pub fn set_port_admin(&mut self, now: Instant, port: PortNum, enabled: bool) {
        self.enabled = if enabled { self.enabled.with(port) } else { self.enabled.without(port) };
        self.refresh_port(now, port);
    }

    /// A port is up when its link is and nobody disabled it.
    fn refresh_port(&mut self, now: Instant, port: PortNum) {
        let known = self.cfg.port_mask().contains(port);
        let up = self.linked.contains(port) && self.enabled.contains(port);
        if !known || self.up.contains(port) == up {
            return;
        }
        self.up = if up { self.up.with(port) } else { self.up.without(port) };
        self.events.raise(&mut self.stats, Event::Port { port, up });
        self.walk_ports(now);
    }

    /// The ports that are not disabled, with a link or without.
    pub fn ports_enabled(&self) -> PortMask {
        self.enabled.and(self.cfg.port_mask())
    }

    /// The ports that are up.
    pub fn ports_up(&self) -> PortMask {
        self.up
    }
}
