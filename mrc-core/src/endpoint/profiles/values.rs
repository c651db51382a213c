//! What a controller programs into the entries of an EV profile, and what it may ask of them.

use mrc_wire::PortNum;

use super::{EvMode, EvReport, EvSpec, ProfileState, part};
use crate::{
    Endpoint, EvProfileHandle,
    endpoint::walk::Command,
    path::{EvEntry, EvState, ProfileError},
    time::Instant,
};

impl Endpoint<'_> {
    /// Programs an entry of an EXPLICIT profile that is OFFLINE: the first that equals `old`, or with `all` each of them,
    /// becomes `new`, GOOD or DENIED.
    ///
    /// # Errors
    /// [`ProfileError::NotExplicit`], [`ProfileError::State`], [`ProfileError::NoSuchEv`] without a match,
    /// [`ProfileError::EvState`], a port that does not exist, bits that no field takes.
    //= PROF-003, EXP-005
    pub fn replace_ev(
        &mut self,
        profile: EvProfileHandle,
        old: &EvSpec,
        new: &EvSpec,
        state: EvState,
        all: bool,
    ) -> Result<(), ProfileError> {
        self.ev_edition = self.ev_edition.wrapping_add(1);
        let ports = self.cfg.port_mask();
        let slot = *self.profile_slot(profile)?;
        if slot.info.mode != EvMode::Explicit || slot.raw {
            return Err(ProfileError::NotExplicit);
        }
        if slot.info.state != ProfileState::Offline {
            return Err(ProfileError::State { from: slot.info.state, to: ProfileState::Offline });
        }
        let denied = denied(state)?;
        let port = new.port.filter(|&port| ports.contains(port));
        let port = port.ok_or(ProfileError::Port { index: 0, port: new.port.map_or(0, PortNum::value) })?;
        let entries = part(self.ev_entries, profile.slot(), self.limits.profile_evs).ok_or(ProfileError::Unknown)?;
        let mut found = false;
        for (index, entry) in (0u16..slot.info.count).zip(entries) {
            if slot.spec(entry) == *old && (all || !found) {
                let fresh = slot.info.format.entry(&slot.info.fields, &new.value, index, port)?;
                *entry = EvEntry { denied, ..fresh };
                found = true;
            }
        }
        if found { Ok(()) } else { Err(ProfileError::NoSuchEv) }
    }

    /// Denies an EV for all QPs of a profile, or makes it GOOD again, in whatever state they have it. In effect at once for QPs
    /// that enter RTS, for the others too unless a `call_budget` spreads it over several calls.
    ///
    /// # Errors
    /// [`ProfileError::NoSuchEv`] without a match; [`ProfileError::EvState`] for other states; [`ProfileError::Commands`] while
    /// eight commands are on their way to QPs.
    //= EV-014, EV-015, SET-003, DENY-001
    pub fn set_ev_state(
        &mut self,
        now: Instant,
        profile: EvProfileHandle,
        ev: &EvSpec,
        state: EvState,
        all: bool,
    ) -> Result<(), ProfileError> {
        self.ev_edition = self.ev_edition.wrapping_add(1);
        let denied = denied(state)?;
        let slot = *self.profile_slot(profile)?;
        if !self.walk.takes_command() {
            return Err(ProfileError::Commands);
        }
        let entries = part(self.ev_entries, profile.slot(), self.limits.profile_evs).ok_or(ProfileError::Unknown)?;
        let mut first = None;
        for (index, entry) in (0u16..slot.info.count).zip(entries) {
            if slot.spec(entry) == *ev && (all || first.is_none()) {
                first = first.or(Some(index));
                entry.denied = denied;
            }
        }
        let first = first.ok_or(ProfileError::NoSuchEv)?;
        self.walk_command(now, Command::new(profile.slot(), first, all.then_some(*ev), denied));
        Ok(())
    }

    /// Whether entry `entry` of a profile has this value.
    pub(in crate::endpoint) fn entry_is(&self, profile: u32, entry: u16, ev: &EvSpec) -> bool {
        let slot = self.ev_profiles.get(profile as usize);
        let first = (profile as usize).checked_mul(self.limits.profile_evs);
        let at = first.and_then(|first| first.checked_add(entry.into()));
        let entry = at.and_then(|at| self.ev_entries.get(at));
        slot.zip(entry).is_some_and(|(slot, entry)| slot.spec(entry) == *ev)
    }

    /// Fills `out` with the entries of a profile from number `first` on and returns how many there are from there.
    ///
    /// # Errors
    /// The handle is stale.
    //= SET-004
    pub fn query_evs(
        &mut self,
        profile: EvProfileHandle,
        first: u16,
        out: &mut [EvReport],
    ) -> Result<usize, ProfileError> {
        let slot = *self.profile_slot(profile)?;
        let entries = part(self.ev_entries, profile.slot(), self.limits.profile_evs).ok_or(ProfileError::Unknown)?;
        let entries = entries.get(usize::from(first)..usize::from(slot.info.count)).unwrap_or(&[]);
        for (report, entry) in out.iter_mut().zip(entries) {
            let state = if entry.denied { EvState::Denied } else { EvState::Good };
            *report = EvReport { ev: slot.spec(entry), state };
        }
        let shown = out.len().min(entries.len());
        let count = entries.len();
        for qp in 0..self.qps.len() as u32 {
            let Some(slots) = part(self.ev_slots, qp, self.limits.evs) else { break };
            let Some(slot) =
                self.qps.get(qp as usize).filter(|slot| slot.has_peer && slot.ev_profile == profile.slot())
            else {
                continue;
            };
            for ev in slot.paths.used(slots).iter().filter(|ev| ev.state() == EvState::AssumedBad) {
                let at = usize::from(ev.entry()).checked_sub(first.into()).filter(|&at| at < shown);
                if let Some(report) = at.and_then(|at| out.get_mut(at))
                    && report.state == EvState::Good
                {
                    report.state = EvState::AssumedBad;
                }
            }
        }
        Ok(count)
    }

    /// State of one EV of a profile.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`], [`ProfileError::NoSuchEv`].
    //= SET-004
    pub fn query_ev_state(&mut self, profile: EvProfileHandle, ev: &EvSpec) -> Result<EvState, ProfileError> {
        let slot = *self.profile_slot(profile)?;
        let entries = part(self.ev_entries, profile.slot(), self.limits.profile_evs).ok_or(ProfileError::Unknown)?;
        let count = usize::from(slot.info.count);
        let at = entries.iter().take(count).position(|entry| slot.spec(entry) == *ev).ok_or(ProfileError::NoSuchEv)?;
        let mut report = [EvReport::EMPTY];
        self.query_evs(profile, at as u16, &mut report)?;
        Ok(report.first().map_or(EvState::Good, |report| report.state))
    }
}

/// Whether a state that a controller asks for is DENIED; it may ask for GOOD otherwise.
//= EV-015
fn denied(state: EvState) -> Result<bool, ProfileError> {
    match state {
        EvState::Good => Ok(false),
        EvState::Denied => Ok(true),
        EvState::Skip | EvState::AssumedBad => Err(ProfileError::EvState),
    }
}
