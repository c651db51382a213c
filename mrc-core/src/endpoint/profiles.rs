//! EV profiles of the endpoint: their life cycle, what a controller may program and ask, what QPs learn from each other
//! through them, and the events they raise. How values are made and expanded is `path`'s. Source: `paths.md` 2, 13 and
//! 14.

use mrc_wire::{PortNum, Verdict, ev::EvField};

use super::{Endpoint, EvProfileHandle, part, walk::Command};
use crate::num::Counter;
use crate::{
    error::TableError,
    event::{Event, Events},
    path::{
        EvEntry, EvFields, EvFormat, EvState, Feedback, ProfileError, Transition, fill_auto, generate_profile,
        validate_profile,
    },
    stats::Stats,
    time::Instant,
};

/// Bad EVs that a profile remembers for QPs which have not heard of them (`EndpointConfig::share_bad_evs`).
const SHARED: usize = 32;
/// Of these, taken over by a QP per packet it sends.
const LEARNED_PER_PACKET: u32 = 4;
/// Equal events closer than this are one, in nanoseconds.
const MERGE_NS: u64 = 1_000_000;

/// Where the values of a profile come from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EvMode {
    /// From the implementation; no controller needed.
    Auto,
    /// A controller programs each entry.
    Explicit,
    /// From field descriptions.
    Generated,
}

/// Life of a profile: INIT, OFFLINE, ONLINE, and back the same way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ProfileState {
    /// Nothing is known of it.
    Init,
    /// Configured; an EXPLICIT one is being programmed.
    Offline,
    /// QPs may bind to it.
    Online,
}

/// States of EVs that raise an event when one is entered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct EvEventMask {
    /// GOOD.
    pub good: bool,
    /// ASSUMED_BAD.
    pub assumed_bad: bool,
}

/// What a profile is configured with.
#[derive(Clone, Copy, Debug)]
pub struct EvProfileConfig<'a> {
    /// Where values come from.
    pub mode: EvMode,
    /// What they are on the wire.
    pub format: EvFormat,
    /// How they become that. Empty: every bit of every field of the format, except in GENERATED mode, which needs them.
    pub fields: &'a [EvField],
    /// Entries; at most `Limits::profile_evs`.
    pub count: u16,
    /// EVs that stay in rotation whatever happens, for QPs of this profile; 0 = as each QP says. At most `count`.
    pub min_active: u16,
    /// Events to raise.
    pub events: EvEventMask,
    /// AUTO only: paths as they are on the wire, from a driver that knows its fabric, of which the first `count` are taken;
    /// empty = values made here. Format and fields have then no meaning.
    pub paths: &'a [EvEntry],
}

/// An EV as a controller names it: bits before expansion, byte 0 the most significant, and port. All zero and no port:
/// an entry without a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EvSpec {
    /// The bits.
    pub value: [u8; 32],
    /// The port.
    pub port: Option<PortNum>,
}

impl EvSpec {
    /// What an entry holds before it is programmed.
    pub const UNPOPULATED: Self = Self { value: [0; 32], port: None };
}

/// An entry of a profile, as a controller sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EvReport {
    /// Value and port.
    pub ev: EvSpec,
    /// DENIED if denied, else ASSUMED_BAD if any QP has it so, else GOOD.
    pub state: EvState,
}

impl EvReport {
    /// To fill a slice before it is lent.
    pub const EMPTY: Self = Self { ev: EvSpec::UNPOPULATED, state: EvState::Good };
}

/// A picture of a profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EvProfileInfo {
    /// The number it was opened with.
    pub id: u64,
    /// Life cycle.
    pub state: ProfileState,
    /// Where values come from.
    pub mode: EvMode,
    /// Format on the wire.
    pub format: EvFormat,
    /// Field descriptions.
    pub fields: EvFields,
    /// Entries.
    pub count: u16,
    /// EVs that stay in rotation.
    pub min_active: u16,
    /// Events it raises.
    pub events: EvEventMask,
    /// QPs bound to it.
    pub users: u32,
}

/// One slot of the profile table, lent by the caller.
#[derive(Clone, Copy, Debug)]
pub struct EvProfileSlot {
    used: bool,
    info: EvProfileInfo,
    /// The value of each entry was given as it is on the wire, without a format.
    raw: bool,
    last_event: Option<(u16, EvState, Instant)>,
    shared: [u16; SHARED],
    /// Bad EVs ever told; the newest is at `told - 1` modulo the length.
    told: u32,
    /// Of these, looked through for other shards.
    carried: u32,
    /// Bit N: place N of `shared` came from another shard.
    heard: u32,
}

impl EvProfileSlot {
    /// An unused slot.
    pub const EMPTY: Self = Self {
        used: false,
        info: EvProfileInfo {
            id: 0,
            state: ProfileState::Init,
            mode: EvMode::Auto,
            format: EvFormat::UDP,
            fields: EvFields::NONE,
            count: 0,
            min_active: 0,
            events: EvEventMask { good: false, assumed_bad: false },
            users: 0,
        },
        raw: false,
        last_event: None,
        shared: [0; SHARED],
        told: 0,
        carried: 0,
        heard: 0,
    };

    /// Entries.
    pub(super) const fn entries(&self) -> usize {
        self.info.count as usize
    }

    fn spec(&self, entry: &EvEntry) -> EvSpec {
        if !entry.populated {
            return EvSpec::UNPOPULATED;
        }
        if !self.raw {
            return EvSpec { value: self.info.format.value(&self.info.fields, entry), port: Some(entry.port) };
        }
        let mut value = [0u8; 32];
        let wire = entry.ev.0.to_be_bytes();
        let bytes = entry.dst.iter().chain(&entry.segment).flatten();
        let given = if entry.dst.is_some() { None } else { Some(wire.iter()) };
        for (to, from) in value.iter_mut().zip(bytes.chain(given.into_iter().flatten())) {
            *to = *from;
        }
        EvSpec { value, port: Some(entry.port) }
    }

    /// Announces that an EV of the profile changed, if the change shows outside and is wanted.
    //= EVT-001, EVT-003
    pub(crate) fn announce(
        &mut self,
        now: Instant,
        profile: u32,
        entry: u16,
        change: &Transition,
        events: &mut Events<'_>,
        stats: &mut Stats,
    ) {
        let (from, to) = (shown(change.from), shown(change.to));
        let wanted = match to {
            EvState::Good => self.info.events.good,
            EvState::AssumedBad => self.info.events.assumed_bad,
            _ => false,
        };
        if from == to || !wanted {
            return;
        }
        let same = |(e, s, at): (u16, EvState, Instant)| (e, s) == (entry, to) && now.since(at) < MERGE_NS;
        if self.last_event.is_some_and(same) {
            stats.ev_events_merged.inc();
            return;
        }
        self.last_event = Some((entry, to, now));
        let (ev, port) = (change.ev, change.port);
        let profile = EvProfileHandle(profile);
        events.raise_ev(stats, profile, entry, ev, port, to);
    }

    /// Remembers a bad EV for the other QPs of the profile.
    pub(crate) fn tell_bad(&mut self, entry: u16) {
        self.heard &= !1u32.wrapping_shl(self.told);
        if let Some(slot) = self.shared.get_mut(self.told as usize % SHARED) {
            *slot = entry;
            self.told = self.told.wrapping_add(1);
        }
    }

    /// As [`Self::tell_bad`], from another shard, so that none is told.
    pub(super) fn hear_bad(&mut self, entry: u16) {
        let place = self.told;
        self.tell_bad(entry);
        self.heard |= 1u32.wrapping_shl(place);
    }

    /// The oldest bad EV that other shards have not been told.
    pub(super) fn next_told(&mut self) -> Option<u16> {
        if self.told.wrapping_sub(self.carried) > SHARED as u32 {
            self.carried = self.told.wrapping_sub(SHARED as u32);
        }
        while self.carried != self.told {
            let place = self.carried;
            self.carried = place.wrapping_add(1);
            if self.heard.wrapping_shr(place) & 1 == 0 {
                return self.shared.get(place as usize % SHARED).copied();
            }
        }
        None
    }

    /// Whether it is in use and has this entry.
    pub(super) const fn has_entry(&self, entry: u16) -> bool {
        self.used && entry < self.info.count
    }

    /// EVs that stay in rotation; 0 = as each QP says.
    pub(super) fn min_active(&self) -> u16 {
        self.info.min_active
    }

    /// Bad EVs told so far.
    pub(crate) fn told(&self) -> u32 {
        self.told
    }
}

/// SKIP is a matter of one QP: outside it shows as GOOD.
//= SET-004
const fn shown(state: EvState) -> EvState {
    match state {
        EvState::Skip => EvState::Good,
        state => state,
    }
}

/// The entries of profile `index`, if QPs may use it.
//= PROF-006
pub(super) fn profile<'a>(
    entries: &'a [EvEntry],
    profiles: &[EvProfileSlot],
    limits: &crate::Limits,
    index: u32,
) -> Option<&'a [EvEntry]> {
    let slot = profiles.get(index as usize).filter(|slot| slot.used && slot.info.state == ProfileState::Online)?;
    let start = (index as usize).checked_mul(limits.profile_evs)?;
    entries.get(start..start.checked_add(slot.info.count.into())?)
}

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
        let room = part(self.ev_entries, handle.0, self.limits.profile_evs);
        for (slot, entry) in room.into_iter().flatten().zip(entries) {
            *slot = *entry;
        }
        if let Some(slot) = self.ev_profiles.get_mut(handle.0 as usize) {
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
        let free = self.ev_profiles.iter().position(|slot| !slot.used).ok_or(TableError::Full("EV profile"))?;
        if let Some(slot) = self.ev_profiles.get_mut(free) {
            *slot = EvProfileSlot { used: true, ..EvProfileSlot::EMPTY };
            slot.info.id = id;
        }
        Ok(EvProfileHandle(free as u32))
    }

    fn profile_slot(&mut self, profile: EvProfileHandle) -> Result<&mut EvProfileSlot, ProfileError> {
        self.ev_profiles.get_mut(profile.0 as usize).filter(|slot| slot.used).ok_or(ProfileError::Unknown)
    }

    /// Configures a profile that is not ONLINE, which is OFFLINE then. AUTO and GENERATED values are made at once; the
    /// entries of an EXPLICIT profile start without values.
    ///
    /// # Errors
    /// The first fault, as [`ProfileError`]; the profile is then as before.
    //= PROF-002, PROF-003, PROF-004, PROF-005
    pub fn configure_ev_profile(
        &mut self,
        profile: EvProfileHandle,
        config: &EvProfileConfig<'_>,
    ) -> Result<(), ProfileError> {
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
        let entries = part(self.ev_entries, profile.0, room).and_then(|all| all.get_mut(..config.count.into()));
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
            EvMode::Auto if config.fields.is_empty() && config.format == EvFormat::UDP => {
                fill_auto(entries, ports, 16, id)?;
            }
            EvMode::Auto | EvMode::Generated => generate_profile(entries, &config.format, &fields, ports, id)?,
        }
        let slot = self.profile_slot(profile)?;
        *slot = EvProfileSlot { used: true, info, raw, ..EvProfileSlot::EMPTY };
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
                let room = part(self.ev_entries, profile.0, self.limits.profile_evs);
                validate_profile(room.and_then(|all| all.get(..count)).unwrap_or(&[]), ports)?;
            }
            (ProfileState::Online, ProfileState::Offline) if users > 0 => return Err(ProfileError::Busy { users }),
            (ProfileState::Online, ProfileState::Offline) | (ProfileState::Offline, ProfileState::Init) => {}
            (from, to) => return Err(ProfileError::State { from, to }),
        }
        self.profile_slot(profile)?.info.state = to;
        self.forget_ways(profile.0);
        Ok(())
    }

    /// Destroys a profile that no QP uses.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`], [`ProfileError::Busy`].
    //= PROF-005
    pub fn destroy_ev_profile(&mut self, profile: EvProfileHandle) -> Result<(), ProfileError> {
        let slot = self.profile_slot(profile)?;
        if slot.info.users > 0 {
            return Err(ProfileError::Busy { users: slot.info.users });
        }
        *slot = EvProfileSlot::EMPTY;
        self.forget_ways(profile.0);
        Ok(())
    }

    /// No peer draws ways for endpoint operations from this profile any more.
    fn forget_ways(&mut self, profile: u32) {
        for peer in self.peers.iter_mut().filter(|peer| peer.ev_profile == Some(profile)) {
            peer.ev_profile = None;
        }
    }

    /// A picture of a profile.
    pub fn ev_profile_info(&self, profile: EvProfileHandle) -> Option<EvProfileInfo> {
        self.ev_profiles.get(profile.0 as usize).filter(|slot| slot.used).map(|slot| slot.info)
    }

    /// Every EV profile that exists, by slot number.
    pub fn ev_profiles(&self) -> impl Iterator<Item = EvProfileHandle> + '_ {
        (0u32..).zip(&*self.ev_profiles).filter(|(_, slot)| slot.used).map(|(index, _)| EvProfileHandle(index))
    }

    /// A QP binds to a profile.
    //= PROF-001, PROF-006
    pub(super) fn bind_profile(&mut self, profile: u32) {
        if let Some(slot) = self.ev_profiles.get_mut(profile as usize) {
            slot.info.users.inc();
        }
    }

    /// A QP leaves its profile.
    pub(super) fn unbind_profile(&mut self, profile: u32) {
        if let Some(slot) = self.ev_profiles.get_mut(profile as usize) {
            slot.info.users = slot.info.users.saturating_sub(1);
        }
    }

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
        let entries = part(self.ev_entries, profile.0, self.limits.profile_evs).ok_or(ProfileError::Unknown)?;
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
        let denied = denied(state)?;
        let slot = *self.profile_slot(profile)?;
        if !self.walk.takes_command() {
            return Err(ProfileError::Commands);
        }
        let entries = part(self.ev_entries, profile.0, self.limits.profile_evs).ok_or(ProfileError::Unknown)?;
        let mut first = None;
        for (index, entry) in (0u16..slot.info.count).zip(entries) {
            if slot.spec(entry) == *ev && (all || first.is_none()) {
                first = first.or(Some(index));
                entry.denied = denied;
            }
        }
        let first = first.ok_or(ProfileError::NoSuchEv)?;
        self.walk_command(now, Command::new(profile.0, first, all.then_some(*ev), denied));
        Ok(())
    }

    /// Whether entry `entry` of a profile has this value.
    pub(super) fn entry_is(&self, profile: u32, entry: u16, ev: &EvSpec) -> bool {
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
        let entries = part(self.ev_entries, profile.0, self.limits.profile_evs).ok_or(ProfileError::Unknown)?;
        let entries = entries.get(usize::from(first)..usize::from(slot.info.count)).unwrap_or(&[]);
        for (report, entry) in out.iter_mut().zip(entries) {
            let state = if entry.denied { EvState::Denied } else { EvState::Good };
            *report = EvReport { ev: slot.spec(entry), state };
        }
        let shown = out.len().min(entries.len());
        let count = entries.len();
        for qp in 0..self.qps.len() as u32 {
            let Some(slots) = part(self.ev_slots, qp, self.limits.evs) else { break };
            let Some(slot) = self.qps.get(qp as usize).filter(|slot| slot.has_peer && slot.ev_profile == profile.0)
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
        let entries = part(self.ev_entries, profile.0, self.limits.profile_evs).ok_or(ProfileError::Unknown)?;
        let count = usize::from(slot.info.count);
        let at = entries.iter().take(count).position(|entry| slot.spec(entry) == *ev).ok_or(ProfileError::NoSuchEv)?;
        let mut report = [EvReport::EMPTY];
        self.query_evs(profile, at as u16, &mut report)?;
        Ok(report.first().map_or(EvState::Good, |report| report.state))
    }

    /// Takes over what other QPs of the profile found bad since this one last asked. Bounded: a QP that lags far behind
    /// misses the oldest, and finds out by itself.
    //= SET-003
    pub(super) fn learn_shared(&mut self, now: Instant, qp: u32) {
        let Some(slot) = self.qps.get_mut(qp as usize) else { return };
        let Some(profile) = self.ev_profiles.get(slot.ev_profile as usize) else { return };
        let lag = profile.told.wrapping_sub(slot.bad_evs_heard);
        if lag == 0 {
            return;
        }
        if lag > SHARED as u32 {
            slot.bad_evs_heard = profile.told.wrapping_sub(SHARED as u32);
        }
        let (Some(slots), Some(order)) =
            (part(self.ev_slots, qp, self.limits.evs), part(self.ev_order, qp, self.limits.active_evs))
        else {
            return;
        };
        for _ in 0..LEARNED_PER_PACKET {
            if slot.bad_evs_heard == profile.told {
                return;
            }
            let entry = profile.shared.get(slot.bad_evs_heard as usize % SHARED).copied();
            slot.bad_evs_heard = slot.bad_evs_heard.wrapping_add(1);
            let Some(index) = entry.and_then(|entry| slot.paths.find_entry(slots, entry)) else { continue };
            // As if it had been told on this QP never to use it; the invariants of its own set hold.
            let what = Feedback::Sack(Verdict::AlwaysSkip);
            let change = slot.paths.on_feedback(now, slots, order, index, what, &slot.path_cfg, &mut self.rng);
            if let Some(transition) = change {
                self.stats.ev_learned_bad.inc();
                self.stats.states.change_evs(transition.from, transition.to, 1);
                let transition = Transition { cause: None, ..transition };
                self.events.raise(&mut self.stats, Event::Ev { qp: slot.qpn, transition });
            }
        }
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

crate::image::stored!(enum EvMode { 0 => Auto, 1 => Explicit, 2 => Generated });
crate::image::stored!(enum ProfileState { 0 => Init, 1 => Offline, 2 => Online });
crate::image::stored!(struct EvEventMask { good, assumed_bad });
crate::image::stored!(struct EvSpec { value, port });
crate::image::stored!(struct EvProfileInfo { id, state, mode, format, fields, count, min_active, events, users });
crate::image::stored!(struct EvProfileSlot { used, info, raw, last_event, shared, told, carried, heard });
