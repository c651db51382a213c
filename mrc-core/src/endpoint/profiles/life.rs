//! The life of an EV profile: opened, configured, moved between its states, bound by QPs, destroyed.

use super::{EvEventMask, EvMode, EvProfileConfig, EvProfileInfo, EvProfileSlot, ProfileState, part, profile};
use crate::{
    Endpoint, EvProfileHandle,
    error::TableError,
    num::Counter,
    path::{EvEntry, EvFields, ProfileError, generate_profile, validate_profile},
};

impl Endpoint<'_> {
    /// Creates an EV profile that is ONLINE with `entries` as they are on the wire (see `path::auto_profile`).
    ///
    /// # Errors
    /// No free slot, no entry, more entries than `Limits::profile_evs`, or an entry on a port that does not exist.
    pub fn create_ev_profile(&mut self, entries: &[EvEntry]) -> Result<EvProfileHandle, TableError> {
        let ports = self.cfg.port_mask();
        if entries.is_empty() || entries.iter().any(|entry| !ports.contains(entry.port)) {
            return Err(TableError::Range("EV profile entries"));
        }
        if entries.len() > self.limits.profile_evs {
            return Err(TableError::Range("EV profile size"));
        }
        let handle = self.open_ev_profile(0)?;
        let room = part(self.ev_entries, handle.slot(), self.limits.profile_evs);
        for (slot, entry) in room.into_iter().flatten().zip(entries) {
            *slot = *entry;
        }
        if let Some(slot) = self.ev_profiles.get_mut(handle.index()) {
            slot.raw = true;
            slot.info.mode = EvMode::Explicit;
            slot.info.count = entries.len() as u16;
            slot.info.state = ProfileState::Online;
        }
        Ok(handle)
    }

    /// Opens a profile in INIT. `id` keys the order in which values are made, and comes back in [`EvProfileInfo`].
    ///
    /// # Errors
    /// No free slot.
    pub fn open_ev_profile(&mut self, id: u64) -> Result<EvProfileHandle, TableError> {
        self.ev_edition = self.ev_edition.wrapping_add(1);
        let free =
            self.free_profiles.find(&self.ev_profiles, |slot| !slot.used).ok_or(TableError::Full("EV profile"))?;
        let slot = self.ev_profiles.get_mut(free).ok_or(TableError::Full("EV profile"))?;
        *slot = EvProfileSlot { used: true, generation: slot.generation, untold: slot.untold, ..EvProfileSlot::EMPTY };
        slot.info.id = id;
        Ok(EvProfileHandle::from_parts(free as u16, slot.generation))
    }

    /// Configures a profile that is not ONLINE, which is OFFLINE then. AUTO and GENERATED values are made at once; the
    /// entries of an EXPLICIT profile start without values.
    ///
    /// # Errors
    /// The first fault, as [`ProfileError`]; the profile is then as before.
    //= PROF-002, PROF-003, PROF-004, PROF-005, GENEV-004
    pub fn configure_ev_profile(
        &mut self,
        profile: EvProfileHandle,
        config: &EvProfileConfig<'_>,
    ) -> Result<(), ProfileError> {
        self.ev_edition = self.ev_edition.wrapping_add(1);
        let (ports, room) = (self.cfg.port_mask(), self.limits.profile_evs);
        let slot = self.profile_slot(profile)?;
        if slot.info.state == ProfileState::Online {
            return Err(ProfileError::State { from: ProfileState::Online, to: ProfileState::Offline });
        }
        if config.count == 0 || usize::from(config.count) > room {
            return Err(ProfileError::Size { entries: config.count.into() });
        }
        if config.min_active > config.count {
            return Err(ProfileError::MinActive { min_active: config.min_active, count: config.count });
        }
        let fields = match (config.fields, config.mode) {
            ([], EvMode::Generated) => return Err(ProfileError::NoFields),
            ([], _) => EvFields::full(&config.format),
            (fields, _) => EvFields::new(&config.format, fields)?,
        };
        let id = slot.info.id;
        let info = EvProfileInfo {
            id,
            state: ProfileState::Offline,
            mode: config.mode,
            format: config.format,
            fields,
            count: config.count,
            min_active: config.min_active,
            events: config.events,
            users: 0,
        };
        let entries = part(self.ev_entries, profile.slot(), room).and_then(|all| all.get_mut(..config.count.into()));
        let entries = entries.ok_or(ProfileError::Unknown)?;
        let raw = config.mode == EvMode::Auto && !config.paths.is_empty();
        match config.mode {
            EvMode::Explicit => entries.fill(EvEntry::EMPTY),
            EvMode::Auto if raw => {
                let (have, need) = (config.paths.len() as u64, entries.len());
                let paths = config.paths.get(..need).ok_or(ProfileError::TooFew { have, need })?;
                validate_profile(paths, ports)?;
                for (to, from) in entries.iter_mut().zip(paths) {
                    *to = *from;
                }
            }
            EvMode::Auto | EvMode::Generated => generate_profile(entries, &config.format, &fields, ports, id)?,
        }
        let slot = self.profile_slot(profile)?;
        *slot = EvProfileSlot {
            used: true,
            generation: slot.generation,
            info,
            raw,
            untold: slot.untold,
            ..EvProfileSlot::EMPTY
        };
        Ok(())
    }

    /// Changes how many EVs of an OFFLINE profile stay in rotation; its entries stay as they are.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`], [`ProfileError::State`], [`ProfileError::MinActive`].
    pub fn set_ev_min_active(&mut self, profile: EvProfileHandle, min_active: u16) -> Result<(), ProfileError> {
        let info = &mut self.profile_slot(profile)?.info;
        if info.state != ProfileState::Offline {
            return Err(ProfileError::State { from: info.state, to: ProfileState::Offline });
        }
        if min_active > info.count {
            return Err(ProfileError::MinActive { min_active, count: info.count });
        }
        info.min_active = min_active;
        Ok(())
    }

    /// Changes what may change while a profile is ONLINE: the events it raises.
    ///
    /// # Errors
    /// The handle is stale.
    pub fn set_ev_events(&mut self, profile: EvProfileHandle, events: EvEventMask) -> Result<(), ProfileError> {
        self.profile_slot(profile)?.info.events = events;
        Ok(())
    }

    /// Moves a profile along INIT, OFFLINE, ONLINE, one step in either direction; INIT to OFFLINE is
    /// [`Endpoint::configure_ev_profile`].
    ///
    /// # Errors
    /// [`ProfileError::State`] for other steps, [`ProfileError::Busy`] when QPs are bound, and what makes an EXPLICIT
    /// profile incomplete.
    //= PROF-003, PROF-005
    pub fn set_ev_profile_state(&mut self, profile: EvProfileHandle, to: ProfileState) -> Result<(), ProfileError> {
        let ports = self.cfg.port_mask();
        let slot = self.profile_slot(profile)?;
        let (from, users) = (slot.info.state, slot.info.users);
        let count = usize::from(slot.info.count);
        match (from, to) {
            (ProfileState::Offline, ProfileState::Online) => {
                let room = part(self.ev_entries, profile.slot(), self.limits.profile_evs);
                validate_profile(room.and_then(|all| all.get(..count)).unwrap_or(&[]), ports)?;
            }
            (ProfileState::Online, ProfileState::Offline) if users > 0 => return Err(ProfileError::Busy { users }),
            (ProfileState::Online, ProfileState::Offline) | (ProfileState::Offline, ProfileState::Init) => {}
            (from, to) => return Err(ProfileError::State { from, to }),
        }
        self.profile_slot(profile)?.info.state = to;
        self.forget_use(profile.slot());
        Ok(())
    }

    /// Destroys a profile that no QP uses, in shard 0 none of another shard either.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`], [`ProfileError::Busy`].
    //= PROF-005
    pub fn destroy_ev_profile(&mut self, profile: EvProfileHandle) -> Result<(), ProfileError> {
        let slot = self.profile_slot(profile)?;
        if slot.info.users > 0 {
            return Err(ProfileError::Busy { users: slot.info.users });
        }
        let (generation, untold) = (slot.generation.wrapping_add(1), slot.untold);
        *slot = EvProfileSlot { generation, untold, ..EvProfileSlot::EMPTY };
        self.free_profiles.freed(profile.slot());
        self.forget_use(profile.slot());
        Ok(())
    }

    /// No QP uses the profile, whose entries may become others: commands to its EVs that are under way are for nobody.
    //= EV-014
    fn forget_use(&mut self, index: u32) {
        self.walk.forget_commands(index);
        self.forget_op_paths(index);
    }

    /// No peer draws paths for endpoint operations from this profile any more. A peer that is in use takes those of another of
    /// its QPs: it must still be told of our ports.
    //= EPOP-006
    fn forget_op_paths(&mut self, index: u32) {
        let mut forgotten = false;
        for peer in self.peers.iter_mut().filter(|peer| peer.ev_profile == Some(index)) {
            peer.ev_profile = None;
            forgotten = true;
        }
        if !forgotten {
            return;
        }
        let ports = self.cfg.port_mask();
        for slot in self.qps.iter().filter(|slot| slot.has_peer) {
            if let Some(peer) = self.peers.get_mut(slot.peer as usize).filter(|peer| peer.ev_profile.is_none())
                && let Some(entries) = profile(self.ev_entries, &self.ev_profiles, &self.limits, slot.ev_profile)
            {
                peer.ev_profile = Some(slot.ev_profile);
                peer.op_paths.start(entries, ports, &mut self.rng);
            }
        }
    }

    /// A QP binds to a profile.
    //= PROF-001, PROF-006
    pub(in crate::endpoint) fn bind_profile(&mut self, profile: u32) {
        if let Some(slot) = self.ev_profiles.get_mut(profile as usize) {
            slot.info.users.inc();
        }
    }

    /// A QP leaves its profile.
    pub(in crate::endpoint) fn unbind_profile(&mut self, profile: u32) {
        if let Some(slot) = self.ev_profiles.get_mut(profile as usize) {
            slot.info.users = slot.info.users.saturating_sub(1);
        }
    }
}
