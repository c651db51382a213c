//! Congestion-control profiles, and the controllers that QPs join when they begin to send and leave when they stop.
//! Source: `congestion.md` 1, 4.5, 4.8 and 5.

use super::Endpoint;
use crate::{
    cc::{CcConfig, CcProfile, CcProfileHandle, NOMINAL_OVERHEAD, Qpcc, QpccInfo},
    error::{ModifyError, TableError},
    num::Counter,
    qp::QpHandle,
    time::Instant,
};

/// The profile of [`crate::EndpointConfig::cc`].
const OWN_PROFILE: u32 = 0;

/// Largest receiver penalty: about one packet per round trip.
const MAX_PENALTY: u8 = 127;

impl Endpoint<'_> {
    /// Creates a congestion-control profile. QPs name it when they go to RTS; those of one peer that name the same
    /// profile share a controller.
    ///
    /// # Errors
    /// No free slot, or a parameter outside its range, by name.
    //= CCU-007, QPCC-002
    pub fn create_cc_profile(&mut self, config: &CcConfig) -> Result<CcProfileHandle, TableError> {
        config.validate().map_err(TableError::Range)?;
        let index = self.free_cc_profiles.find(self.cc_profiles, |profile| profile.config.is_none());
        let index = index.ok_or(TableError::Full("congestion-control profile"))?;
        let slot = self.cc_profiles.get_mut(index).ok_or(TableError::Full("congestion-control profile"))?;
        *slot = CcProfile { config: Some(*config), ..*slot };
        Ok(CcProfileHandle::from_parts(index as u16, slot.generation))
    }

    /// Changes a profile that no QP uses at the moment.
    ///
    /// # Errors
    /// The handle is stale, a controller runs the profile, or a parameter is outside its range.
    pub fn modify_cc_profile(&mut self, profile: CcProfileHandle, config: &CcConfig) -> Result<(), TableError> {
        config.validate().map_err(TableError::Range)?;
        self.idle_profile(profile)?.config = Some(*config);
        Ok(())
    }

    /// Forgets a profile.
    ///
    /// # Errors
    /// The handle is stale or that of the endpoint's own profile, or a controller runs it.
    pub fn destroy_cc_profile(&mut self, profile: CcProfileHandle) -> Result<(), TableError> {
        if profile.slot() == OWN_PROFILE {
            return Err(TableError::Busy("congestion-control profile"));
        }
        let slot = self.idle_profile(profile)?;
        *slot = CcProfile { generation: slot.generation.wrapping_add(1), ..CcProfile::EMPTY };
        self.free_cc_profiles.freed(profile.slot());
        Ok(())
    }

    /// The profile of QPs that name none, [`crate::EndpointConfig::cc`].
    pub fn default_cc_profile(&self) -> CcProfileHandle {
        CcProfileHandle::from_index(OWN_PROFILE)
    }

    /// What a profile was created with.
    pub fn cc_profile(&self, profile: CcProfileHandle) -> Option<CcConfig> {
        self.cc_profiles.get(profile.index()).filter(|slot| slot.is(profile))?.config
    }

    fn idle_profile(&mut self, profile: CcProfileHandle) -> Result<&mut CcProfile, TableError> {
        let slot = self.cc_profiles.get_mut(profile.index()).filter(|slot| slot.is(profile));
        let slot = slot.ok_or(TableError::Unknown("congestion-control profile"))?;
        if slot.users > 0 { Err(TableError::Busy("congestion-control profile")) } else { Ok(slot) }
    }

    /// A picture of the controller that a QP shares; `None` unless the QP is in RTS.
    pub fn qpcc_info(&self, qp: QpHandle) -> Option<QpccInfo> {
        let index = self.qps.get(self.index_of(qp)? as usize)?.qpcc?;
        self.qpccs.get(index as usize).map(Qpcc::info)
    }

    /// What the SACKs of a QP's responder ask of the peer's window from now on: 0 nothing, 64 for a whole round trip
    /// halves it, 127 leaves about one packet per round trip. With `restore_cwnd` the peer takes its old window back when
    /// the penalty ends. How a penalty is found is the driver's decision: it knows how full its receive buffers are.
    ///
    /// # Errors
    /// Stale handle, or a penalty above 127.
    //= PEN-001, PEN-002
    pub fn set_receiver_penalty(&mut self, qp: QpHandle, penalty: u8, restore_cwnd: bool) -> Result<(), ModifyError> {
        let index = self.index_of(qp).ok_or(ModifyError::Unknown)?;
        if penalty > MAX_PENALTY {
            return Err(ModifyError::Range("penalty"));
        }
        let slot = self.qps.get_mut(index as usize).ok_or(ModifyError::Unknown)?;
        slot.rsp.penalty = penalty;
        slot.rsp.restore_cwnd = restore_cwnd;
        Ok(())
    }

    /// The profile a QP names, if it exists, and room for it to join a controller to `peer`: that controller, or a free
    /// slot.
    pub(super) fn find_qpcc(&mut self, peer: u32, profile: Option<CcProfileHandle>) -> Result<(u32, u32), ModifyError> {
        let named = profile.unwrap_or(self.default_cc_profile());
        let known = self.cc_profiles.get(named.index()).is_some_and(|slot| slot.is(named));
        let profile = named.slot();
        if !known {
            return Err(ModifyError::Missing("congestion-control profile"));
        }
        let shared = if self.has_controllers(peer) {
            let mut used = self.qpccs.iter();
            used.position(|qpcc| qpcc.users > 0 && qpcc.peer == peer && qpcc.profile == profile)
        } else {
            None
        };
        let index = shared.or_else(|| self.free_qpccs.find(self.qpccs, |qpcc| qpcc.users == 0));
        Ok((index.ok_or(ModifyError::Full("congestion controller"))? as u32, profile))
    }

    /// Whether any controller leads to a peer: a first QP has no need to look at all of them.
    fn has_controllers(&self, peer: u32) -> bool {
        self.peers.get(peer as usize).is_some_and(|slot| slot.controllers > 0)
    }

    /// Lets a QP join what [`Endpoint::find_qpcc`] found.
    //= QPCC-001, QPCC-002
    pub(super) fn join_qpcc(&mut self, now: Instant, qp: u32, (index, profile): (u32, u32)) {
        let to_peer = self.qps.get(qp as usize).is_some_and(|slot| self.has_controllers(slot.peer));
        let Some(slot) = self.qps.get_mut(qp as usize) else { return };
        let Some(named) = self.cc_profiles.get_mut(profile as usize) else { return };
        let Some(config) = &named.config else { return };
        let (peer, mtu_bytes) = (slot.peer, slot.path_mtu.saturating_add(NOMINAL_OVERHEAD));
        // One that has QPs knows its peer.
        let is_new = self.qpccs.get(index as usize).is_some_and(|qpcc| qpcc.users == 0);
        let siblings = if to_peer && is_new { &*self.qpccs } else { &[] };
        let siblings = siblings.iter().filter(|qpcc| qpcc.users > 0 && qpcc.peer == peer);
        let known = siblings.filter_map(Qpcc::measured_base_rtt).min_by_key(|&(rtt_ns, _)| rtt_ns);
        let known = known.or_else(|| self.peers.get(peer as usize)?.base_rtt);
        let Some(qpcc) = self.qpccs.get_mut(index as usize) else { return };
        if qpcc.users == 0 {
            named.users = named.users.saturating_add(1);
            if let Some(peer) = self.peers.get_mut(peer as usize) {
                peer.controllers.inc();
            }
            *qpcc = Qpcc::new(config, (peer, profile), mtu_bytes, now, known);
        } else {
            qpcc.join(config, mtu_bytes);
        }
        if self.cfg.send_below_window {
            qpcc.send_below_window();
        }
        slot.qpcc = Some(index);
    }

    /// Takes a QP out of its controller with all it had waiting and in flight; the last one out ends it.
    //= QPCC-001
    pub(super) fn leave_qpcc(&mut self, qp: u32) {
        let Some(slot) = self.qps.get_mut(qp as usize) else { return };
        let (peer, Some(index)) = (slot.peer, slot.qpcc.take()) else { return };
        self.urgent.remove(self.qps, qp);
        let Some(qpcc) = self.qpccs.get_mut(index as usize) else { return };
        if qpcc.leave(self.qps, qp) {
            if let Some(peer) = self.peers.get_mut(peer as usize) {
                peer.base_rtt = qpcc.measured_base_rtt().or(peer.base_rtt);
                peer.controllers = peer.controllers.saturating_sub(1);
            }
            if let Some(profile) = self.cc_profiles.get_mut(qpcc.profile as usize) {
                profile.users = profile.users.saturating_sub(1);
            }
            self.free_qpccs.freed(index);
        }
        self.evaluate(index);
    }
}
