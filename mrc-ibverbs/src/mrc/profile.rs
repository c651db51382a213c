//! The profiles of a device and their state machines: INIT to OFFLINE to ONLINE and back. No C here; `ctl` translates.
//!
//! A profile exists in INIT under any number. Number 0 is the device's own until a controller configures it: all paths to
//! the peer, and the congestion control of the device.

use std::collections::HashMap;

use core::ffi::c_int;

use libc::{E2BIG, EBUSY, EINVAL, ENOENT, ENOMEM, EOPNOTSUPP};
use mrc_core::PortMask;
use mrc_core::cc::CcConfig;
use mrc_core::path::{EvEntry, validate_profile};
use mrc_wire::{Ev, EvField, PortNum, ev};
use parking_lot::Mutex;

use super::abi::{
    EV_ASSUMED_BAD, EV_DENIED, EV_GOOD, EV_MODE_AUTO, EV_MODE_EXP, EV_MODE_GEN, FMT_MODE_SRV6, FMT_MODE_STEV,
    FMT_MODE_UDP, MrcCtlEv,
};

/// Profiles of each kind that may be out of INIT.
pub(crate) const MAX_PROFILES: usize = 16;
/// EVs of one profile.
pub(crate) const MAX_EVS: usize = 256;
/// Fields of a format.
const MAX_FIELDS: usize = 32;

/// Where a profile is.
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

/// What the EVs of its profiles mean on the wire.
#[derive(Debug, Clone, Default)]
pub(crate) struct Format {
    pub(crate) state: State,
    /// `MRC_CTL_EV_FMT_MODE_*`, 0 = not yet chosen.
    pub(crate) mode: u32,
    pub(crate) widths: Vec<u8>,
}

/// A change of a format; `None` leaves as it is.
#[derive(Debug, Default)]
pub(crate) struct FormatChange {
    pub(crate) state: Option<State>,
    pub(crate) mode: Option<u32>,
    pub(crate) widths: Option<Vec<u8>>,
}

impl Format {
    fn change(&mut self, change: FormatChange) -> Result<(), c_int> {
        if self.state == State::Online && (change.mode.is_some() || change.widths.is_some()) {
            return Err(EINVAL);
        }
        if let Some(mode) = change.mode {
            match mode {
                FMT_MODE_STEV | FMT_MODE_UDP => self.mode = mode,
                // The paths of a host are made from a template, not from addresses in a profile.
                FMT_MODE_SRV6 => return Err(EOPNOTSUPP),
                _ => return Err(EINVAL),
            }
        }
        if let Some(widths) = change.widths {
            let bits: u32 = widths.iter().map(|&width| u32::from(width)).sum();
            if widths.is_empty() || widths.contains(&0) {
                return Err(EINVAL);
            }
            if widths.len() > MAX_FIELDS || widths.iter().any(|&width| width > 32) || bits > self.bits() {
                return Err(E2BIG);
            }
            self.widths = widths;
        }
        if let Some(to) = change.state {
            self.state.may_become(to)?;
            let lacks = to >= State::Offline && self.mode == 0 || to == State::Online && self.widths.is_empty();
            if lacks {
                return Err(EINVAL);
            }
            if to == State::Init {
                *self = Self::default();
            }
            self.state = to;
        }
        Ok(())
    }

    fn bits(&self) -> u32 {
        if self.mode == FMT_MODE_UDP { 16 } else { 32 }
    }
}

/// An EV of a profile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) ev: MrcCtlEv,
    /// `MRC_CTL_EV_*`.
    pub(crate) state: u32,
    /// As on the wire, once the profile is ONLINE.
    wire: Option<(Ev, PortNum)>,
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

/// A set of EVs that QPs draw from.
#[derive(Debug, Clone, Default)]
pub(crate) struct EvProfile {
    pub(crate) state: State,
    /// `MRC_CTL_EV_MODE_*`, 0 = not yet chosen.
    pub(crate) mode: u32,
    pub(crate) format: Option<u64>,
    pub(crate) min_active: Option<u32>,
    pub(crate) event_mask: Option<c_int>,
    pub(crate) fields: Vec<EvField>,
    pub(crate) entries: Vec<Entry>,
    users: usize,
}

/// A change of an EV profile; `None` leaves as it is.
#[derive(Debug, Default)]
pub(crate) struct EvProfileChange {
    pub(crate) state: Option<State>,
    pub(crate) mode: Option<u32>,
    pub(crate) format: Option<u64>,
    pub(crate) count: Option<u32>,
    pub(crate) min_active: Option<u32>,
    pub(crate) event_mask: Option<c_int>,
    pub(crate) fields: Option<Vec<EvField>>,
    pub(crate) evs: Vec<EvChange>,
}

/// What the device has for EV profiles.
#[derive(Debug, Clone)]
pub(crate) struct Fabric {
    pub(crate) ports: PortMask,
    /// Entries of AUTO profiles.
    pub(crate) paths: Vec<EvEntry>,
}

/// The EV of an AUTO profile, for people: its 32 bits first.
fn auto_ev(entry: &EvEntry) -> Entry {
    let mut ev = MrcCtlEv { port: entry.port.value(), ..MrcCtlEv::UNPOPULATED };
    if let Some(first) = ev.val.first_chunk_mut() {
        *first = entry.ev.0.to_be_bytes();
    }
    Entry { ev, state: EV_GOOD, wire: Some((entry.ev, entry.port)) }
}

impl EvProfile {
    /// Applies everything but the state, then the EV operations, then the state. A failing EV operation leaves those
    /// before it applied; everything else is all or nothing.
    fn change(&mut self, change: EvProfileChange, format: Option<&Format>, fabric: &Fabric) -> Result<(), c_int> {
        let mut next = self.clone();
        next.attributes(&change)?;
        for ev in &change.evs {
            if let Err(code) = next.change_ev(ev) {
                *self = next;
                return Err(code);
            }
        }
        if let Some(to) = change.state {
            next.become_state(to, format, fabric)?;
        }
        *self = next;
        Ok(())
    }

    fn attributes(&mut self, change: &EvProfileChange) -> Result<(), c_int> {
        let fixed = change.mode.is_some() || change.format.is_some() || change.count.is_some();
        let tunable = change.min_active.is_some() || change.event_mask.is_some() || change.fields.is_some();
        if self.state == State::Online && (fixed || tunable) {
            return Err(EINVAL);
        }
        if let Some(mode) = change.mode {
            match mode {
                EV_MODE_AUTO | EV_MODE_EXP => self.mode = mode,
                EV_MODE_GEN => return Err(EOPNOTSUPP),
                _ => return Err(EINVAL),
            }
        }
        self.format = change.format.or(self.format);
        if let Some(count) = change.count {
            match count as usize {
                0 => return Err(EINVAL),
                count if count > MAX_EVS => return Err(E2BIG),
                count => self.entries.resize(count, Entry { ev: MrcCtlEv::UNPOPULATED, state: EV_GOOD, wire: None }),
            }
        }
        self.min_active = change.min_active.or(self.min_active);
        self.event_mask = change.event_mask.or(self.event_mask);
        if let Some(fields) = &change.fields {
            if fields.len() > MAX_FIELDS {
                return Err(E2BIG);
            }
            self.fields.clone_from(fields);
        }
        Ok(())
    }

    fn change_ev(&mut self, change: &EvChange) -> Result<(), c_int> {
        if self.state == State::Init {
            return Err(EINVAL);
        }
        // ASSUMED_BAD is what QPs find out, each for itself.
        if change.state == EV_ASSUMED_BAD {
            return Err(EOPNOTSUPP);
        }
        if change.state != EV_GOOD && change.state != EV_DENIED {
            return Err(EINVAL);
        }
        if change.new.is_some() && (self.mode != EV_MODE_EXP || self.state == State::Online) {
            return Err(EINVAL);
        }
        if self.state == State::Online && self.users > 0 {
            // The engine takes the states of EVs when a QP connects.
            return Err(EOPNOTSUPP);
        }
        let mut found = false;
        for entry in self.entries.iter_mut().filter(|entry| entry.ev == change.ev) {
            if let Some(new) = change.new {
                entry.ev = new;
                entry.wire = None;
            }
            entry.state = change.state;
            found = true;
            if !change.all {
                break;
            }
        }
        if found { Ok(()) } else { Err(ENOENT) }
    }

    fn become_state(&mut self, to: State, format: Option<&Format>, fabric: &Fabric) -> Result<(), c_int> {
        self.state.may_become(to)?;
        if self.state == State::Online && to != State::Online && self.users > 0 {
            return Err(EBUSY);
        }
        match to {
            State::Init => *self = Self::default(),
            State::Offline if self.state == State::Init => self.configured(format)?,
            State::Online if self.state != State::Online => self.resolve(format, fabric)?,
            _ => {}
        }
        self.state = to;
        Ok(())
    }

    fn configured(&self, format: Option<&Format>) -> Result<(), c_int> {
        let formatted = self.mode == EV_MODE_AUTO || format.is_some_and(|format| format.state != State::Init);
        if self.mode == 0 || self.entries.is_empty() || !formatted { Err(EINVAL) } else { Ok(()) }
    }

    /// Gives every entry what goes onto the wire.
    fn resolve(&mut self, format: Option<&Format>, fabric: &Fabric) -> Result<(), c_int> {
        self.configured(format)?;
        let count = self.entries.len();
        let min_active = self.min_active.ok_or(EINVAL)?;
        if self.event_mask.is_none() || min_active as usize > count {
            return Err(EINVAL);
        }
        if self.mode == EV_MODE_AUTO {
            if count > fabric.paths.len() {
                return Err(E2BIG);
            }
            self.entries = fabric.paths.iter().take(count).map(auto_ev).collect();
            return Ok(());
        }
        let format = format.filter(|format| format.state == State::Online).ok_or(EINVAL)?;
        let full = |&width: &u8| {
            let mask = if width >= 32 { u32::MAX } else { (1 << width) - 1 };
            EvField { width, init_val: 0, min_val: 0, max_val: mask, mask }
        };
        let fields = match self.fields.is_empty() {
            true => format.widths.iter().map(full).collect(),
            false => self.fields.clone(),
        };
        for entry in &mut self.entries {
            let port = PortNum::new(entry.ev.port).ok_or(EINVAL)?;
            let bits = ev::expand(&entry.ev.val, &fields, &format.widths).map_err(|error| {
                log::error!("{error}");
                EINVAL
            })?;
            entry.wire = Some((if format.mode == FMT_MODE_UDP { ev::udp(&bits) } else { ev::stev(&bits) }, port));
        }
        validate_profile(&self.wire_entries(), fabric.ports).map_err(|error| {
            log::error!("{error}");
            EINVAL
        })
    }

    /// For the engine.
    fn wire_entries(&self) -> Vec<EvEntry> {
        let entry = |entry: &Entry| {
            let (ev, port) = entry.wire?;
            Some(EvEntry { denied: entry.state == EV_DENIED, ..EvEntry::new(ev, port) })
        };
        self.entries.iter().filter_map(entry).collect()
    }
}

/// A choice of congestion control.
#[derive(Debug, Clone, Default)]
pub(crate) struct CcProfile {
    pub(crate) state: State,
    /// Whether an algorithm is chosen, and if NSCC is it.
    pub(crate) nscc: Option<bool>,
    pub(crate) config: Option<super::abi::MrcCtlCcNsccCfg>,
    users: usize,
}

/// A change of a congestion-control profile; `None` leaves as it is.
#[derive(Debug, Default)]
pub(crate) struct CcProfileChange {
    pub(crate) state: Option<State>,
    pub(crate) nscc: Option<bool>,
    pub(crate) config: Option<super::abi::MrcCtlCcNsccCfg>,
}

impl CcProfile {
    fn change(&mut self, change: &CcProfileChange) -> Result<(), c_int> {
        if self.state == State::Online && (change.nscc.is_some() || change.config.is_some()) {
            return Err(EINVAL);
        }
        let mut next = self.clone();
        next.nscc = change.nscc.or(self.nscc);
        next.config = change.config.or(self.config);
        if let Some(to) = change.state {
            next.state.may_become(to)?;
            if next.state == State::Online && to != State::Online && self.users > 0 {
                return Err(EBUSY);
            }
            let configured = next.nscc.is_some_and(|nscc| to != State::Online || !nscc || next.config.is_some());
            if to != State::Init && !configured {
                return Err(EINVAL);
            }
            if to == State::Init {
                next = Self::default();
            }
            next.state = to;
        }
        *self = next;
        Ok(())
    }
}

/// All profiles of the device.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    formats: HashMap<u64, Format>,
    evs: HashMap<u64, EvProfile>,
    ccs: HashMap<u64, CcProfile>,
    /// EV profile of each QP that has one, by QP number.
    qps: HashMap<u32, u64>,
}

/// Never held across a call to the device, whose thread reports events here.
pub(crate) static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);

/// Runs `f` with the registry.
pub(crate) fn with<R>(f: impl FnOnce(&mut Registry) -> R) -> R {
    f(REGISTRY.lock().get_or_insert_default())
}

/// The profile `id`, made in INIT if it is new; gone again if `f` leaves it there.
fn edit<T: Default, R>(
    map: &mut HashMap<u64, T>,
    id: u64,
    state: impl Fn(&T) -> State,
    f: impl FnOnce(&mut T) -> Result<R, c_int>,
) -> Result<R, c_int> {
    if map.len() >= MAX_PROFILES && !map.contains_key(&id) {
        return Err(ENOMEM);
    }
    let result = f(map.entry(id).or_default());
    map.retain(|_, profile| state(profile) != State::Init);
    result
}

impl Registry {
    pub(crate) fn format(&self, id: u64) -> Format {
        self.formats.get(&id).cloned().unwrap_or_default()
    }

    pub(crate) fn ev_profile(&self, id: u64) -> EvProfile {
        self.evs.get(&id).cloned().unwrap_or_default()
    }

    pub(crate) fn cc_profile(&self, id: u64) -> CcProfile {
        self.ccs.get(&id).cloned().unwrap_or_default()
    }

    /// EVs of all profiles together.
    pub(crate) fn evs_in_use(&self) -> usize {
        self.evs.values().map(|profile| profile.entries.len()).sum()
    }

    pub(crate) fn change_format(&mut self, id: u64, change: FormatChange) -> Result<(), c_int> {
        let used = |profile: &EvProfile| profile.state == State::Online && profile.format == Some(id);
        if self.evs.values().any(used) {
            return Err(EBUSY);
        }
        edit(
            &mut self.formats,
            id,
            |format| format.state,
            |format| {
                let mut next = format.clone();
                next.change(change)?;
                *format = next;
                Ok(())
            },
        )
    }

    pub(crate) fn change_ev_profile(&mut self, id: u64, change: EvProfileChange, fabric: &Fabric) -> Result<(), c_int> {
        let formats = &self.formats;
        edit(
            &mut self.evs,
            id,
            |profile| profile.state,
            |profile| {
                let format = change.format.or(profile.format).and_then(|id| formats.get(&id));
                profile.change(change, format, fabric)
            },
        )
    }

    pub(crate) fn change_cc_profile(&mut self, id: u64, change: &CcProfileChange) -> Result<(), c_int> {
        edit(&mut self.ccs, id, |profile| profile.state, |profile| profile.change(change))
    }

    /// The profile and the entry that a change of an EV of a QP concerns, if somebody wants to hear of it; remembers the
    /// state.
    pub(crate) fn ev_changed(&mut self, qpn: u32, ev: Ev, port: PortNum, state: u32) -> Option<(u64, MrcCtlEv)> {
        let id = *self.qps.get(&qpn)?;
        let profile = self.evs.get_mut(&id)?;
        let entry = profile.entries.iter_mut().find(|entry| entry.wire == Some((ev, port)))?;
        entry.state = state;
        let wanted = profile.event_mask.is_some_and(|mask| mask as u32 & state != 0);
        wanted.then_some((id, entry.ev))
    }
}

/// A QP's hold on a profile that is ONLINE.
#[derive(Debug)]
pub(crate) enum Bound {
    Ev { id: u64, qpn: u32 },
    Cc { id: u64 },
}

impl Bound {
    /// Binds a QP to an EV profile; `None` for the device's own.
    pub(crate) fn ev(id: u64, qpn: u32) -> Result<Option<Self>, c_int> {
        with(|registry| match registry.evs.get_mut(&id) {
            None if id == 0 => Ok(None),
            Some(profile) if profile.state == State::Online => {
                profile.users += 1;
                registry.qps.insert(qpn, id);
                Ok(Some(Self::Ev { id, qpn }))
            }
            _ => Err(EINVAL),
        })
    }

    /// Binds a QP to a congestion-control profile; `None` for the device's own.
    pub(crate) fn cc(id: u64) -> Result<Option<Self>, c_int> {
        with(|registry| match registry.ccs.get_mut(&id) {
            None if id == 0 => Ok(None),
            Some(profile) if profile.state == State::Online => {
                profile.users += 1;
                Ok(Some(Self::Cc { id }))
            }
            _ => Err(EINVAL),
        })
    }

    /// The EVs, and whether they are the host's own choice; then only those that lead to the peer count.
    pub(crate) fn entries(&self) -> Option<(Vec<EvEntry>, bool)> {
        let Self::Ev { id, .. } = self else { return None };
        with(|registry| registry.evs.get(id).map(|profile| (profile.wire_entries(), profile.mode == EV_MODE_AUTO)))
    }

    /// The congestion control, on links of `rate_bps` together.
    pub(crate) fn congestion(&self, rate_bps: u64) -> Option<CcConfig> {
        let Self::Cc { id } = self else { return None };
        with(|registry| {
            let profile = registry.ccs.get(id)?;
            Some(match (profile.nscc, &profile.config) {
                (Some(true), Some(config)) => super::cc::engine_config(config, rate_bps),
                _ => CcConfig::None,
            })
        })
    }

    pub(crate) fn id(&self) -> u64 {
        match self {
            Self::Ev { id, .. } | Self::Cc { id } => *id,
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        with(|registry| match self {
            Self::Ev { id, qpn } => {
                registry.qps.remove(qpn);
                if let Some(profile) = registry.evs.get_mut(id) {
                    profile.users = profile.users.saturating_sub(1);
                }
            }
            Self::Cc { id } => {
                if let Some(profile) = registry.ccs.get_mut(id) {
                    profile.users = profile.users.saturating_sub(1);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests;
