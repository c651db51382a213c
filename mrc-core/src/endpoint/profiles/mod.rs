//! EV profiles of the endpoint: what they are and which events they raise; `life` creates and configures them, `values`
//! holds what a controller may program and ask, `sharing` what QPs learn from each other through them. How values are
//! made and expanded is `path`'s. Source: `paths.md` 2, 13 and 14.

mod life;
mod sharing;
mod values;

use mrc_wire::{PortNum, ev::EvField};

use super::{Endpoint, EvProfileHandle, part};
use crate::num::Counter;
use crate::{
    event::Events,
    path::{EvEntry, EvFields, EvFormat, EvState, ProfileError, Supply, Transition},
    stats::Stats,
    time::Instant,
};
pub(crate) use sharing::EvProfiles;
use sharing::{SHARED, Untold};

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

/// An EV as a controller names it: bits before expansion and port. All zero and no port: an entry without a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EvSpec {
    /// The bits from the top of byte 0 on, the first field first; zeros follow. Of an entry as it is on the wire: the 32 bits
    /// of `ev`, or 16 bytes of `dst` and 16 of `segment`.
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
    /// QPs bound to it; in shard 0 also peers that other shards use with it.
    pub users: u32,
}

/// What QPs ask of all entries of a profile before they bind to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Contents {
    /// Some entries have a destination of their own.
    pub(super) routed: bool,
    /// Some have none.
    pub(super) bare: bool,
    /// An EV has more than 16 bits.
    pub(super) wide: bool,
    /// What QPs may draw.
    pub(super) supply: Supply,
}

impl Contents {
    fn of(entries: &[EvEntry]) -> Self {
        Self {
            routed: entries.iter().any(|entry| entry.dst.is_some()),
            bare: entries.iter().any(|entry| entry.dst.is_none()),
            wide: entries.iter().any(|entry| entry.populated && entry.ev.0 > 0xFFFF),
            supply: Supply::of(entries),
        }
    }
}

/// One slot of the profile table, lent by the caller.
#[derive(Clone, Copy, Debug)]
pub struct EvProfileSlot {
    used: bool,
    /// What the entries were when a QP last asked, and in which edition of the profiles: the next one reads none of them.
    contents: Option<(u32, Contents)>,
    /// Profiles that were destroyed here.
    generation: u16,
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
    /// Outlives the profile: the list goes on through the slot.
    untold: Untold,
}

impl EvProfileSlot {
    /// An unused slot.
    pub const EMPTY: Self = Self {
        used: false,
        contents: None,
        generation: 0,
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
        untold: Untold::NONE,
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
        let profile = EvProfileHandle::from_parts(profile as u16, self.generation);
        events.raise_ev(stats, profile, entry, ev, port, to);
    }

    /// Whether `profile`, which names the slot, is the one that is here.
    pub(super) const fn is(&self, profile: EvProfileHandle) -> bool {
        self.used && self.generation == profile.generation()
    }

    /// Whether it is in use and has this entry.
    pub(super) const fn has_entry(&self, entry: u16) -> bool {
        self.used && entry < self.info.count
    }

    /// What its entries, of this edition of the profiles, have in common.
    pub(super) fn contents(&mut self, edition: u32, entries: &[EvEntry]) -> Contents {
        match self.contents {
            Some((of, contents)) if of == edition => contents,
            _ => self.contents.insert((edition, Contents::of(entries))).1,
        }
    }

    /// EVs that stay in rotation; 0 = as each QP says.
    pub(super) fn min_active(&self) -> u16 {
        self.info.min_active
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
    profiles: &EvProfiles<'_>,
    limits: &crate::Limits,
    index: u32,
) -> Option<&'a [EvEntry]> {
    let slot = profiles.get(index as usize).filter(|slot| slot.used && slot.info.state == ProfileState::Online)?;
    let start = (index as usize).checked_mul(limits.profile_evs)?;
    entries.get(start..start.checked_add(slot.info.count.into())?)
}

impl Endpoint<'_> {
    fn profile_slot(&mut self, profile: EvProfileHandle) -> Result<&mut EvProfileSlot, ProfileError> {
        self.ev_profiles.get_mut(profile.index()).filter(|slot| slot.is(profile)).ok_or(ProfileError::Unknown)
    }

    /// The handle of the profile in slot `index`.
    pub(in crate::endpoint) fn profile_handle(&self, index: u32) -> Option<EvProfileHandle> {
        let slot = self.ev_profiles.get(index as usize).filter(|slot| slot.used)?;
        Some(EvProfileHandle::from_parts(index as u16, slot.generation))
    }

    /// A picture of a profile.
    pub fn ev_profile_info(&self, profile: EvProfileHandle) -> Option<EvProfileInfo> {
        self.ev_profiles.get(profile.index()).filter(|slot| slot.is(profile)).map(|slot| slot.info)
    }

    /// Every EV profile that exists, by slot number.
    pub fn ev_profiles(&self) -> impl Iterator<Item = EvProfileHandle> + '_ {
        let used = (0u16..).zip(&*self.ev_profiles).filter(|(_, slot)| slot.used);
        used.map(|(index, slot)| EvProfileHandle::from_parts(index, slot.generation))
    }
}

crate::image::stored!(enum EvMode { 0 => Auto, 1 => Explicit, 2 => Generated });
crate::image::stored!(enum ProfileState { 0 => Init, 1 => Offline, 2 => Online });
crate::image::stored!(struct EvEventMask { good, assumed_bad });
crate::image::stored!(struct EvSpec { value, port });
crate::image::stored!(struct EvProfileInfo { id, state, mode, format, fields, count, min_active, events, users });
crate::image::stored!(
    struct EvProfileSlot { used, generation, info, raw, last_event, shared, told, carried, heard }
    rebuilt { contents: None, untold: Untold::NONE }
);
