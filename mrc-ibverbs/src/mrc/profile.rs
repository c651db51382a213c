//! A controller's numbers for the profiles of the device, and what `mrc_ctl.h` asks of each step from INIT to OFFLINE to
//! ONLINE and back. EV profiles live in the engine, with their entries, states and users; formats, which the engine only
//! takes as values, and the configuration of congestion control until it is ONLINE live here. No C here; `ctl` translates.
//!
//! A profile exists in INIT under any number. Number 0 is the device's own until a controller configures it: all paths to
//! the peer, and the congestion control of the device. Calls that take the engine run on the progress thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use core::ffi::c_int;

use parking_lot::Mutex;

use libc::{E2BIG, EBUSY, EINVAL, EIO, ENOENT};
use mrc_core::cc::CcConfig;
use mrc_core::path::{EvEntry, EvFields, EvFormat, EvState, FormatMode, ProfileError};
use mrc_core::{
    CcProfileHandle, Endpoint, EvEventMask, EvMode, EvProfileConfig, EvProfileHandle, EvProfileInfo, EvReport, EvSpec,
    Instant, ProfileState, TableError,
};
use mrc_wire::{EvError, EvField, PortNum};

use super::abi::{
    EV_ASSUMED_BAD, EV_DENIED, EV_GOOD, EV_MODE_AUTO, EV_MODE_EXP, EV_MODE_GEN, FMT_MODE_SRV6, FMT_MODE_STEV,
    FMT_MODE_UDP, MrcCtlCcNsccCfg, MrcCtlEv,
};

/// Profiles of each kind that may be out of INIT.
pub(crate) const MAX_PROFILES: usize = 16;
/// EVs of one profile.
pub(crate) const MAX_EVS: usize = 256;

/// Where a format or a choice of congestion control is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum State {
    #[default]
    Init,
    Offline,
    Online,
}

impl State {
    pub(crate) fn from_c(value: u32) -> Result<Self, c_int> {
        [Self::Init, Self::Offline, Self::Online].get(value as usize).copied().ok_or(EINVAL)
    }

    /// One step up or down, or none.
    fn may_become(self, to: Self) -> Result<(), c_int> {
        if (self as i32 - to as i32).abs() <= 1 { Ok(()) } else { Err(EINVAL) }
    }
}

impl From<ProfileState> for State {
    fn from(state: ProfileState) -> Self {
        match state {
            ProfileState::Init => Self::Init,
            ProfileState::Offline => Self::Offline,
            ProfileState::Online => Self::Online,
        }
    }
}

/// What the engine refuses, in the words of `mrc_ctl.h`.
fn refused(error: ProfileError) -> c_int {
    log::error!("{error}");
    match error {
        ProfileError::Unknown | ProfileError::NoSuchEv => ENOENT,
        ProfileError::Busy { .. } | ProfileError::Commands => EBUSY,
        ProfileError::Size { entries } if entries > 0 => E2BIG,
        ProfileError::TooWide { .. } | ProfileError::TooFew { .. } => E2BIG,
        _ => EINVAL,
    }
}

/// As [`refused`], for the fields of a format: more or wider ones than the device has are E2BIG.
fn format_refused(error: ProfileError) -> c_int {
    let none = matches!(error, ProfileError::Field(EvError::TooManyFields { given: 0, .. }));
    match (refused(error), error) {
        (_, ProfileError::Field(_)) if !none => E2BIG,
        (code, _) => code,
    }
}

/// What the EVs of its profiles mean on the wire.
#[derive(Debug, Clone, Default)]
pub(crate) struct Format {
    pub(crate) state: State,
    mode: Option<FormatMode>,
    fields: Option<EvFormat>,
}

/// A change of a format; `None` leaves as it is.
#[derive(Debug, Default)]
pub(crate) struct FormatChange {
    pub(crate) cur_state: Option<State>,
    pub(crate) state: Option<State>,
    pub(crate) mode: Option<u32>,
    pub(crate) widths: Option<Vec<u8>>,
}

impl Format {
    /// `MRC_CTL_EV_FMT_MODE_*`, 0 = not yet chosen.
    pub(crate) fn mode(&self) -> u32 {
        match self.mode {
            None => 0,
            Some(FormatMode::Stev) => FMT_MODE_STEV,
            Some(FormatMode::Srv6) => FMT_MODE_SRV6,
            Some(FormatMode::Udp) => FMT_MODE_UDP,
        }
    }

    pub(crate) fn widths(&self) -> &[u8] {
        self.fields.as_ref().map_or(&[], EvFormat::widths)
    }

    fn change(&mut self, change: &FormatChange) -> Result<(), c_int> {
        let changes = change.mode.is_some() || change.widths.is_some();
        let stays = change.state.unwrap_or(self.state) == State::Init;
        let mistaken = change.cur_state.is_some_and(|state| state != self.state);
        if mistaken || changes && (self.state == State::Online || stays) {
            return Err(EINVAL);
        }
        if let Some(mode) = change.mode {
            let mode = match mode {
                FMT_MODE_STEV => FormatMode::Stev,
                FMT_MODE_SRV6 => FormatMode::Srv6,
                FMT_MODE_UDP => FormatMode::Udp,
                _ => return Err(EINVAL),
            };
            if self.mode.replace(mode) != Some(mode) {
                self.fields = None;
            }
        }
        if let Some(widths) = &change.widths {
            self.fields = Some(EvFormat::new(self.mode.ok_or(EINVAL)?, widths).map_err(format_refused)?);
        }
        if let Some(to) = change.state {
            self.state.may_become(to)?;
            let lacks = to >= State::Offline && self.mode.is_none() || to == State::Online && self.fields.is_none();
            if lacks {
                return Err(EINVAL);
            }
            self.state = to;
        }
        Ok(())
    }
}

/// One entry of an EV operation that changes something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EvChange {
    pub(crate) ev: MrcCtlEv,
    /// What takes its place, for REPLACE_EV.
    pub(crate) new: Option<MrcCtlEv>,
    pub(crate) state: u32,
    pub(crate) all: bool,
}

fn spec(ev: &MrcCtlEv) -> EvSpec {
    EvSpec { value: ev.val, port: PortNum::new(ev.port) }
}

fn name(spec: &EvSpec) -> MrcCtlEv {
    MrcCtlEv { val: spec.value, port: spec.port.map_or(0, PortNum::value) }
}

/// `MRC_CTL_EV_*` of a state as the engine tells it.
pub(crate) fn ev_state(state: EvState) -> u32 {
    match state {
        EvState::Good | EvState::Skip => EV_GOOD,
        EvState::AssumedBad => EV_ASSUMED_BAD,
        EvState::Denied => EV_DENIED,
    }
}

impl EvChange {
    fn apply(&self, engine: &mut Endpoint<'_>, now: Instant, profile: EvProfileHandle) -> Result<(), c_int> {
        let state = match self.state {
            EV_GOOD => EvState::Good,
            EV_ASSUMED_BAD => EvState::AssumedBad,
            EV_DENIED => EvState::Denied,
            _ => return Err(EINVAL),
        };
        let old = spec(&self.ev);
        let changed = match &self.new {
            Some(new) => engine.replace_ev(profile, &old, &spec(new), state, self.all),
            None => engine.set_ev_state(now, profile, &old, state, self.all),
        };
        changed.map_err(refused)
    }
}

/// The number of an EV profile, and what the engine has no use for.
#[derive(Debug, Clone)]
struct EvProfile {
    handle: EvProfileHandle,
    /// Number of its format; an AUTO profile needs none.
    format: Option<u64>,
    /// Whether its EVs are outer destinations: QPs of it need a peer that is registered for that.
    routed: bool,
    /// Said by the controller, as `mrc_ctl.h` wants before a profile goes ONLINE.
    min_active: bool,
    event_mask: bool,
    /// The EVs while it is ONLINE, for events: they come from the progress thread between two turns.
    online: Option<Vec<MrcCtlEv>>,
}

/// A change of an EV profile; `None` leaves as it is.
#[derive(Debug, Default)]
pub(crate) struct EvProfileChange {
    pub(crate) cur_state: Option<State>,
    pub(crate) state: Option<State>,
    pub(crate) mode: Option<u32>,
    pub(crate) format: Option<u64>,
    pub(crate) count: Option<u32>,
    pub(crate) min_active: Option<u32>,
    pub(crate) event_mask: Option<c_int>,
    pub(crate) fields: Option<Vec<EvField>>,
    pub(crate) evs: Vec<EvChange>,
}

impl EvProfileChange {
    /// What only a profile that is not ONLINE takes.
    fn attributes(&self) -> bool {
        let size = self.mode.is_some() || self.format.is_some() || self.count.is_some() || self.fields.is_some();
        size || self.min_active.is_some() || self.event_mask.is_some()
    }
}

/// A picture of an EV profile.
#[derive(Debug, Default)]
pub(crate) struct EvView {
    pub(crate) state: State,
    /// `MRC_CTL_EV_MODE_*`, 0 = not yet chosen.
    pub(crate) mode: u32,
    pub(crate) format: u64,
    pub(crate) count: u32,
    pub(crate) min_active: u32,
    pub(crate) event_mask: u32,
    pub(crate) fields: Vec<EvField>,
    /// EVs and their states.
    pub(crate) entries: Vec<(MrcCtlEv, u32)>,
}

fn entries(engine: &mut Endpoint<'_>, profile: EvProfileHandle) -> Vec<EvReport> {
    let count = engine.ev_profile_info(profile).map_or(0, |info| info.count);
    let mut reports = vec![EvReport::EMPTY; count.into()];
    if engine.query_evs(profile, 0, &mut reports).is_err() {
        reports.clear();
    }
    reports
}

/// A choice of congestion control.
#[derive(Debug, Clone, Default)]
pub(crate) struct CcProfile {
    pub(crate) state: State,
    /// Whether an algorithm is chosen, and if NSCC is it.
    pub(crate) nscc: Option<bool>,
    pub(crate) config: Option<MrcCtlCcNsccCfg>,
    /// The engine's, while ONLINE.
    handle: Option<CcProfileHandle>,
}

/// A change of a congestion-control profile; `None` leaves as it is.
#[derive(Debug, Default)]
pub(crate) struct CcProfileChange {
    pub(crate) cur_state: Option<State>,
    pub(crate) state: Option<State>,
    pub(crate) nscc: Option<bool>,
    pub(crate) config: Option<MrcCtlCcNsccCfg>,
}

impl CcProfile {
    fn change(&mut self, engine: &mut Endpoint<'_>, change: &CcProfileChange, rate_bps: u64) -> Result<(), c_int> {
        let to = change.state.unwrap_or(self.state);
        let changes = change.nscc.is_some() || change.config.is_some();
        if changes && (self.state == State::Online || to == State::Init) {
            return Err(EINVAL);
        }
        self.state.may_become(to)?;
        let (nscc, config) = (change.nscc.or(self.nscc), change.config.or(self.config));
        let configured = nscc.is_some_and(|nscc| to != State::Online || !nscc || config.is_some());
        if to != State::Init && !configured {
            return Err(EINVAL);
        }
        match (self.handle, to) {
            (None, State::Online) => {
                let config = match (nscc, &config) {
                    (Some(true), Some(config)) => super::cc::engine_config(config, rate_bps),
                    _ => CcConfig::None,
                };
                self.handle = Some(engine.create_cc_profile(&config).map_err(|error| {
                    log::error!("congestion-control profile: {error}");
                    if matches!(error, TableError::Range(_)) { EINVAL } else { EIO }
                })?);
            }
            (Some(handle), State::Offline) => {
                engine.destroy_cc_profile(handle).map_err(|error| {
                    log::error!("congestion-control profile: {error}");
                    if matches!(error, TableError::Busy(_)) { EBUSY } else { EIO }
                })?;
                self.handle = None;
            }
            _ => {}
        }
        (self.nscc, self.config, self.state) = (nscc, config, to);
        Ok(())
    }
}

/// A kind of profile that queue pairs name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Bindable {
    Ev,
    Cc,
}

/// All profiles of a device that are out of INIT. Locked by the progress thread; nobody else holds the lock across a call
/// to the device.
#[derive(Debug)]
pub(crate) struct Registry {
    formats: BTreeMap<u64, Format>,
    evs: BTreeMap<u64, EvProfile>,
    ccs: BTreeMap<u64, CcProfile>,
    /// Queue pairs that named a profile: one more reference for each. The engine knows those alone that receive or send.
    bound: Mutex<BTreeMap<(Bindable, u64), Arc<()>>>,
    /// What AUTO profiles are made of.
    paths: Vec<EvEntry>,
    /// All ports of the device together.
    rate_bps: u64,
}

/// Edits a copy of profile `id`, made in INIT if it is new; what ends in INIT is gone.
fn edit<T: Clone + Default>(
    map: &mut BTreeMap<u64, T>,
    id: u64,
    in_init: impl Fn(&T) -> bool,
    f: impl FnOnce(&mut T) -> Result<(), c_int>,
) -> Result<(), c_int> {
    if map.len() >= MAX_PROFILES && !map.contains_key(&id) {
        log::error!("profile {id}: the device has {MAX_PROFILES} of each kind");
        return Err(E2BIG);
    }
    let mut next = map.get(&id).cloned().unwrap_or_default();
    f(&mut next)?;
    if in_init(&next) {
        map.remove(&id)
    } else {
        map.insert(id, next)
    };
    Ok(())
}

impl Registry {
    pub(crate) fn new(paths: Vec<EvEntry>, rate_bps: u64) -> Self {
        let (formats, evs, ccs, bound) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new(), Mutex::default());
        Self { formats, evs, ccs, bound, paths, rate_bps }
    }

    /// Keeps a profile ONLINE as long as the token lives, if it is; the device's own needs none.
    pub(crate) fn bind(&self, kind: Bindable, id: u64) -> Option<Arc<()>> {
        let online = match kind {
            Bindable::Ev => matches!(self.online_ev_profile(id), Ok(Some(_))),
            Bindable::Cc => matches!(self.online_cc_profile(id), Ok(Some(_))),
        };
        online.then(|| Arc::clone(self.bound.lock().entry((kind, id)).or_default()))
    }

    /// Whether a queue pair has named the profile; the entry goes when none has.
    fn is_bound(&self, kind: Bindable, id: u64) -> bool {
        let mut bound = self.bound.lock();
        bound.retain(|_, token| Arc::strong_count(token) > 1);
        let is = bound.contains_key(&(kind, id));
        if is {
            log::error!("profile {id}: a queue pair has it");
        }
        is
    }

    pub(crate) fn format(&self, id: u64) -> Format {
        self.formats.get(&id).cloned().unwrap_or_default()
    }

    pub(crate) fn cc_profile(&self, id: u64) -> CcProfile {
        self.ccs.get(&id).cloned().unwrap_or_default()
    }

    /// EVs of all profiles together.
    pub(crate) fn evs_in_use(&self, engine: &Endpoint<'_>) -> usize {
        let count = |profile: &EvProfile| engine.ev_profile_info(profile.handle).map_or(0, |info| info.count.into());
        self.evs.values().map(count).sum()
    }

    pub(crate) fn change_format(&mut self, id: u64, change: &FormatChange) -> Result<(), c_int> {
        let used = |profile: &EvProfile| profile.online.is_some() && profile.format == Some(id);
        if self.evs.values().any(used) {
            return Err(EBUSY);
        }
        edit(&mut self.formats, id, |format| format.state == State::Init, |format| format.change(change))
    }

    pub(crate) fn change_cc_profile(
        &mut self,
        engine: &mut Endpoint<'_>,
        id: u64,
        change: &CcProfileChange,
    ) -> Result<(), c_int> {
        let rate_bps = self.rate_bps;
        let leaves = change.state.is_some_and(|to| to < self.cc_profile(id).state);
        if leaves && self.is_bound(Bindable::Cc, id) {
            return Err(EBUSY);
        }
        edit(
            &mut self.ccs,
            id,
            |profile| profile.state == State::Init,
            |profile| {
                if change.cur_state.is_some_and(|state| state != profile.state) {
                    return Err(EINVAL);
                }
                profile.change(engine, change, rate_bps)
            },
        )
    }

    /// Applies everything but the state, then the EV operations, then the state. A call that fails leaves the attributes as they
    /// were. EV operations before the one that failed stay applied, unless the call made the entries begin anew: then those are
    /// as before, too, and a profile that was in INIT is there again.
    pub(crate) fn change_ev_profile(
        &mut self,
        engine: &mut Endpoint<'_>,
        now: Instant,
        id: u64,
        change: &EvProfileChange,
    ) -> Result<(), c_int> {
        let info = self.evs.get(&id).and_then(|profile| engine.ev_profile_info(profile.handle));
        let from = info.map_or(State::Init, |info| info.state.into());
        let to = change.state.unwrap_or(from);
        if change.cur_state.is_some_and(|state| state != from) {
            return Err(EINVAL);
        }
        from.may_become(to)?;
        if from == State::Init {
            if to == State::Init {
                return if change.attributes() || !change.evs.is_empty() { Err(EINVAL) } else { Ok(()) };
            }
            self.open(engine, id)?;
            let changed =
                self.configure(engine, id, change, None).and_then(|()| self.change_evs(engine, now, id, change));
            return changed.inspect_err(|_| self.close(engine, id));
        }
        if from == State::Online && change.attributes() {
            return Err(EINVAL);
        }
        if (from, to) == (State::Online, State::Offline) && self.is_bound(Bindable::Ev, id) {
            return Err(EBUSY);
        }
        let before = self.evs.get(&id).cloned().zip(info).ok_or(ENOENT)?;
        let entries = entries(engine, before.0.handle);
        self.configure(engine, id, change, info)?;
        let changed = self.change_evs(engine, now, id, change).and_then(|()| self.become_state(engine, id, from, to));
        changed.inspect_err(|_| {
            if from == State::Offline {
                self.undo(engine, now, id, before, &entries);
            }
        })
    }

    /// Gives an OFFLINE profile its attributes back, and its entries where others began.
    fn undo(
        &mut self,
        engine: &mut Endpoint<'_>,
        now: Instant,
        id: u64,
        (profile, old): (EvProfile, EvProfileInfo),
        entries: &[EvReport],
    ) {
        let handle = profile.handle;
        let kept = engine.ev_profile_info(handle).is_some_and(|info| {
            (info.mode, info.count, info.format, info.fields) == (old.mode, old.count, old.format, old.fields)
        });
        let undone = if kept {
            engine.set_ev_min_active(handle, old.min_active).and_then(|()| engine.set_ev_events(handle, old.events))
        } else {
            self.begin_anew(engine, handle, &old).and_then(|()| {
                entries.iter().filter(|entry| entry.ev != EvSpec::UNPOPULATED).try_for_each(|entry| match old.mode {
                    EvMode::Explicit => engine.replace_ev(handle, &EvSpec::UNPOPULATED, &entry.ev, entry.state, false),
                    _ => engine.set_ev_state(now, handle, &entry.ev, entry.state, false),
                })
            })
        };
        debug_assert_eq!(undone, Ok(()));
        self.evs.insert(id, profile);
    }

    /// Configures a profile with what `info` says of it; its entries begin anew.
    fn begin_anew(
        &self,
        engine: &mut Endpoint<'_>,
        profile: EvProfileHandle,
        info: &EvProfileInfo,
    ) -> Result<(), ProfileError> {
        let EvProfileInfo { mode, format, count, min_active, events, .. } = *info;
        let (paths, fields) = match mode {
            EvMode::Auto => (self.paths.as_slice(), &[][..]),
            _ => (&[][..], info.fields.as_slice()),
        };
        engine
            .configure_ev_profile(profile, &EvProfileConfig { mode, format, fields, count, min_active, events, paths })
    }

    fn open(&mut self, engine: &mut Endpoint<'_>, id: u64) -> Result<(), c_int> {
        if self.evs.len() >= MAX_PROFILES {
            log::error!("EV profile {id}: the device has {MAX_PROFILES}");
            return Err(E2BIG);
        }
        let handle = engine.open_ev_profile(id).map_err(|error| {
            log::error!("EV profile {id}: {error}");
            EIO
        })?;
        let profile =
            EvProfile { handle, format: None, routed: false, min_active: false, event_mask: false, online: None };
        self.evs.insert(id, profile);
        Ok(())
    }

    /// Back to INIT, where nothing is known of a profile.
    fn close(&mut self, engine: &mut Endpoint<'_>, id: u64) {
        if let Some(profile) = self.evs.remove(&id) {
            // Nothing is bound to a profile that is not ONLINE.
            let closed = engine.destroy_ev_profile(profile.handle);
            debug_assert_eq!(closed, Ok(()));
        }
    }

    /// Gives the engine what the controller says and, for the rest, what it had (`info`).
    fn configure(
        &mut self,
        engine: &mut Endpoint<'_>,
        id: u64,
        change: &EvProfileChange,
        info: Option<EvProfileInfo>,
    ) -> Result<(), c_int> {
        let profile = self.evs.get_mut(&id).ok_or(ENOENT)?;
        let mode = match change.mode {
            Some(EV_MODE_AUTO) => EvMode::Auto,
            Some(EV_MODE_EXP) => EvMode::Explicit,
            Some(EV_MODE_GEN) => EvMode::Generated,
            Some(_) => return Err(EINVAL),
            None => info.ok_or(EINVAL)?.mode,
        };
        let count = match change.count {
            Some(count) => u16::try_from(count).map_err(|_| E2BIG)?,
            None => info.ok_or(EINVAL)?.count,
        };
        let min_active = match change.min_active {
            Some(min_active) => u16::try_from(min_active).map_err(|_| EINVAL)?,
            None => info.map_or(0, |info| info.min_active),
        };
        let events = match change.event_mask.map(|mask| mask as u32) {
            Some(mask) if mask & !(EV_GOOD | EV_ASSUMED_BAD) != 0 => return Err(EINVAL),
            Some(mask) => EvEventMask { good: mask & EV_GOOD != 0, assumed_bad: mask & EV_ASSUMED_BAD != 0 },
            None => info.map_or(EvEventMask::default(), |info| info.events),
        };
        let number = change.format.or(profile.format);
        let format = match (mode, change.format, info) {
            (EvMode::Auto, ..) => EvFormat::UDP,
            (_, None, Some(info)) if info.mode != EvMode::Auto => info.format,
            _ => {
                let format = self.formats.get(&number.ok_or(EINVAL)?).and_then(|format| format.fields);
                format.ok_or_else(|| {
                    log::error!("EV profile {id}: its format has no fields; configure the format first");
                    EINVAL
                })?
            }
        };
        let old = info.filter(|info| info.mode != EvMode::Auto && info.format == format);
        let fields = match (&change.fields, &old) {
            (Some(fields), _) => fields.as_slice(),
            (None, Some(old)) => old.fields.as_slice(),
            (None, None) => &[],
        };
        let same = info.is_some_and(|info| {
            let described = match (mode, fields) {
                (EvMode::Auto, _) => return (info.mode, info.count) == (mode, count),
                (_, []) => Ok(EvFields::full(&format)),
                (_, fields) => EvFields::new(&format, fields),
            };
            (info.mode, info.count, info.format) == (mode, count, format) && described == Ok(info.fields)
        });
        if same {
            if change.min_active.is_some() {
                engine.set_ev_min_active(profile.handle, min_active).map_err(refused)?;
            }
            engine.set_ev_events(profile.handle, events).map_err(refused)?;
        } else {
            let paths = if mode == EvMode::Auto { self.paths.as_slice() } else { &[] };
            let fields = if mode == EvMode::Auto { &[] } else { fields };
            let config = EvProfileConfig { mode, format, fields, count, min_active, events, paths };
            engine.configure_ev_profile(profile.handle, &config).map_err(refused)?;
        }
        profile.format = number;
        profile.routed = mode != EvMode::Auto && format.mode() == FormatMode::Srv6;
        profile.min_active |= change.min_active.is_some();
        profile.event_mask |= change.event_mask.is_some();
        Ok(())
    }

    fn change_evs(
        &self,
        engine: &mut Endpoint<'_>,
        now: Instant,
        id: u64,
        change: &EvProfileChange,
    ) -> Result<(), c_int> {
        let handle = self.evs.get(&id).ok_or(ENOENT)?.handle;
        change.evs.iter().try_for_each(|ev| ev.apply(engine, now, handle))
    }

    fn become_state(&mut self, engine: &mut Endpoint<'_>, id: u64, from: State, to: State) -> Result<(), c_int> {
        let profile = self.evs.get_mut(&id).ok_or(ENOENT)?;
        match (from, to) {
            (State::Offline, State::Online) => {
                let info = engine.ev_profile_info(profile.handle).ok_or(ENOENT)?;
                let format = profile.format.and_then(|number| self.formats.get(&number));
                let format = format.filter(|format| format.state == State::Online).and_then(|format| format.fields);
                if info.mode != EvMode::Auto && format != Some(info.format) {
                    log::error!("EV profile {id}: its format is not ONLINE, or changed since the profile took it");
                    return Err(EINVAL);
                }
                if !profile.min_active || !profile.event_mask {
                    return Err(EINVAL);
                }
                engine.set_ev_profile_state(profile.handle, ProfileState::Online).map_err(refused)?;
                profile.online = Some(entries(engine, profile.handle).iter().map(|entry| name(&entry.ev)).collect());
            }
            (State::Online, State::Offline) => {
                engine.set_ev_profile_state(profile.handle, ProfileState::Offline).map_err(refused)?;
                profile.online = None;
            }
            (State::Offline, State::Init) => self.close(engine, id),
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn ev_profile(&self, engine: &mut Endpoint<'_>, id: u64) -> EvView {
        let Some(profile) = self.evs.get(&id) else { return EvView::default() };
        let Some(info) = engine.ev_profile_info(profile.handle) else { return EvView::default() };
        let (mode, fields) = match info.mode {
            EvMode::Auto => (EV_MODE_AUTO, &[][..]),
            EvMode::Explicit => (EV_MODE_EXP, info.fields.as_slice()),
            EvMode::Generated => (EV_MODE_GEN, info.fields.as_slice()),
        };
        let bit = |on, bit| if on { bit } else { 0 };
        EvView {
            state: info.state.into(),
            mode,
            format: profile.format.unwrap_or(0),
            count: info.count.into(),
            min_active: info.min_active.into(),
            event_mask: bit(info.events.good, EV_GOOD) | bit(info.events.assumed_bad, EV_ASSUMED_BAD),
            fields: fields.to_vec(),
            entries: entries(engine, profile.handle).iter().map(|e| (name(&e.ev), ev_state(e.state))).collect(),
        }
    }

    /// The number and the EV that an event of the engine is about.
    pub(crate) fn named(&self, profile: EvProfileHandle, entry: u16) -> Option<(u64, MrcCtlEv)> {
        let (id, profile) = self.evs.iter().find(|(_, known)| known.handle == profile)?;
        Some((*id, *profile.online.as_ref()?.get(usize::from(entry))?))
    }

    /// The engine's handle of an EV profile that is ONLINE, and whether its EVs are outer destinations; `None` for the
    /// device's own.
    pub(crate) fn online_ev_profile(&self, id: u64) -> Result<Option<(EvProfileHandle, bool)>, c_int> {
        match self.evs.get(&id) {
            None if id == 0 => Ok(None),
            Some(profile) if profile.online.is_some() => Ok(Some((profile.handle, profile.routed))),
            _ => Err(EINVAL),
        }
    }

    /// The engine's handle of a congestion-control profile that is ONLINE; `None` for the device's own.
    pub(crate) fn online_cc_profile(&self, id: u64) -> Result<Option<CcProfileHandle>, c_int> {
        match self.ccs.get(&id) {
            None if id == 0 => Ok(None),
            Some(CcProfile { handle: Some(handle), .. }) => Ok(Some(*handle)),
            _ => Err(EINVAL),
        }
    }
}

#[cfg(test)]
mod tests;
