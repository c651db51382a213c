//! The states of a QP, from RESET to RTS and to ERROR, and what an application changes in between.

use mrc_wire::{Ip, Psn};

use super::{Endpoint, below::RouteKind, part, placement::next_life, profiles::profile};
use crate::{
    config::{PlacementMode, RtrAttr, RtsAttr},
    error::ModifyError,
    event::ErrorCause,
    mem::Access,
    num::Counter,
    path::{PathError, PathSet},
    qp::{DrawnFor, QpHandle, QpState},
    requester::{Requester, TxWord},
    responder::{Placing, Responder, RxWord},
    time::Instant,
};

impl Endpoint<'_> {
    /// Number of a QP that may go to `to`.
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
        // A write that repeats an allowed one is not asked again.
        slot.expected = mrc_wire::HeadImage::NONE;
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
        let ports = self.ports;
        let peer = self.peers.get_mut(attr.peer.index()).filter(|peer| peer.is(attr.peer));
        let peer = peer.ok_or(ModifyError::Missing("peer"))?;
        //= PROF-006
        let known = self.ev_profiles.get(attr.ev_profile.index()).is_some_and(|slot| slot.is(attr.ev_profile));
        let entries = profile(self.ev_entries, &self.ev_profiles, &self.limits, attr.ev_profile.slot())
            .filter(|_| known)
            .ok_or(ModifyError::Missing("EV profile"))?;
        let slot = self.ev_profiles.get_mut(attr.ev_profile.index()).ok_or(ModifyError::Missing("EV profile"))?;
        let contents = slot.contents(self.ev_edition, entries);
        let routed = peer.route == RouteKind::Srv6Entry;
        if (routed && contents.bare) || (!routed && contents.routed) {
            return Err(ModifyError::Range("EV format"));
        }
        //= IP4-003
        if matches!(peer.local, Ip::V4(_)) && contents.wide {
            return Err(ModifyError::Range("EV of more than 16 bits over IPv4"));
        }
        let slot = self.qps.get_mut(index as usize).ok_or(ModifyError::Unknown)?;
        slot.peer = attr.peer.slot();
        slot.has_peer = true;
        peer.users.inc();
        let first = peer.users == 1;
        if peer.ev_profile.is_none() {
            peer.ev_profile = Some(attr.ev_profile.slot());
            peer.op_paths.start(entries, ports, &mut self.rng);
        }
        slot.dest_qp = attr.dest_qp;
        slot.path_mtu = u32::from(attr.path_mtu);
        slot.ev_profile = attr.ev_profile.slot();
        slot.req.last_heard = now;
        slot.rsp.renew(Responder::start(attr));
        slot.rsp.placing = Placing::start(attr.rq_psn.sub(1), self.cfg.placement == PlacementMode::Reported);
        self.lives = next_life(self.lives);
        slot.life = self.lives;
        slot.reverse.start(entries, ports, &mut self.rng);
        if !slot.words_empty
            && let Some(words) = part(self.rx_words, index, self.limits.words())
        {
            words.fill(RxWord::EMPTY);
        }
        // Where the driver reports placements, each of them writes words.
        slot.words_empty = self.cfg.placement != PlacementMode::Reported;
        self.stats.states.change(slot, QpState::Rtr);
        self.bind_profile(attr.ev_profile.slot());
        if first {
            self.tell_peer_used(attr.peer.slot(), false);
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
        let entries = profile(self.ev_entries, &self.ev_profiles, &self.limits, slot.ev_profile)
            .ok_or(ModifyError::Missing("EV profile"))?;
        let slots = part(self.ev_slots, index, evs).ok_or(ModifyError::Unknown)?;
        let order = part(self.ev_order, index, active).ok_or(ModifyError::Unknown)?;
        slot.path_cfg = attr.paths;
        slot.path_cfg.base_rtt_ns = attr.base_rtt_ns;
        let profile = self.ev_profiles.get_mut(slot.ev_profile as usize).ok_or(ModifyError::Missing("EV profile"))?;
        slot.bad_evs_heard = profile.told();
        if profile.min_active() > 0 {
            slot.path_cfg.ev_min_active = profile.min_active();
        }
        // A probe per ten round trips at most (`paths.md` 10).
        slot.path_cfg.probe_interval_ns = attr.paths.probe_interval_ns.max(attr.base_rtt_ns.saturating_mul(10));
        let drawn_for = DrawnFor {
            profile: slot.ev_profile,
            edition: self.ev_edition,
            ports: reachable,
            active: attr.paths.active,
            backup: attr.paths.backup,
        };
        let before = slot.drawn.take().filter(|(of, _)| *of == drawn_for);
        let again = before.and_then(|(_, drawn)| slot.paths.start_again(drawn, slots, &slot.path_cfg, attr.selector));
        let (started, drawn) = match again {
            Some(started) => (started, before),
            None => {
                let supply = profile.contents(self.ev_edition, entries).supply;
                let (from, cfg, rng) = ((entries, &supply), &slot.path_cfg, &mut self.rng);
                let started = slot.paths.start_with(slots, order, from, cfg, attr.selector, reachable, rng);
                // Where chance has left an EV out, or in reserve, the next QP draws for itself.
                let all = supply.all_on(reachable) == slot.paths.active_len();
                (started, slot.paths.draw_of().filter(|_| all).map(|drawn| (drawn_for, drawn)))
            }
        };
        if let Err(error) = started {
            // The QP is still in RTR, where nothing is known of its paths.
            slot.paths = PathSet::EMPTY;
            slot.paths.set_usable_ports(ports);
            return Err(match error {
                PathError::Knob(text) => ModifyError::Range(text),
                PathError::StorageTooSmall { .. } => ModifyError::Range("limits.active_evs"),
                _ => ModifyError::NoUsableEv,
            });
        }
        slot.drawn = drawn;
        slot.paths.set_usable_ports(ports);
        slot.req.renew(Requester::start(now, attr, slot.path_mtu, &self.cfg));
        slot.req.probes.begin_again(self.secrets.draw());
        if let Some(words) = part(self.tx_words, index, self.limits.tx_words()) {
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

    /// Any state to ERROR, for a driver that took a request from the application before [`Endpoint::post_send`] refused it: queued
    /// work flushes, as behind any request that fails. The driver completes the refused one itself.
    ///
    /// # Errors
    /// Stale handle.
    pub fn fail_post(&mut self, now: Instant, qp: QpHandle) -> Result<(), ModifyError> {
        let index = self.transition(qp, QpState::Error)?;
        self.fail_qp(now, index, ErrorCause::PostRefused, None);
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
}
