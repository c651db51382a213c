//! Denylists of a device: leases that end by themselves, and their effect on the EV profiles of the engine.
//!
//! A denylist never takes the last path. A list that names every plane that is up is refused, and a profile that would have
//! no usable entry left stays as it is. When a queue pair loses its last healthy EV because another plane fails, all
//! lists end at once, and new ones are refused for [`HOLD_OFF`]. When a list ends, its EVs become GOOD, and MRC's own losses
//! and probes judge them. EVs that somebody else denied stay denied.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::{Duration, Instant};

use mrc_core::path::EvState;
use mrc_core::{Endpoint, EvReport, EvSpec, PortMask, QpState};
use mrc_wire::PortNum;

use super::{Deny, Denylist, Effect};

/// How long lists are refused after they had to end.
pub(super) const HOLD_OFF: Duration = Duration::from_secs(10);
/// Longest lease.
const MAX_SECONDS: u32 = 3600;
/// Lists in force.
const MAX_LISTS: usize = 8;
/// Entropy values in a list.
const MAX_EVS: usize = 4096;
/// Characters of a reason that are kept.
const MAX_BECAUSE: usize = 500;

/// A profile entry as it was denied: slot and number of the profile, value.
type Entry = (usize, u64, [u8; 32], u8);

/// What all lists together deny.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    planes: BTreeSet<u8>,
    evs: BTreeSet<u32>,
}

/// The lists.
#[derive(Debug, Default)]
pub(super) struct Lists {
    leases: BTreeMap<String, (Deny, Instant)>,
    /// What the engine was told.
    denied: HashSet<Entry>,
    refused_until: Option<Instant>,
}

/// What became of the engine.
pub(super) struct Outcome {
    pub(super) effect: Effect,
    denied: HashSet<Entry>,
    /// A queue pair without a healthy EV, though some are denied.
    starved: Option<u32>,
}

impl Lists {
    /// Whether there is anything to look after.
    pub(super) fn is_idle(&self) -> bool {
        self.leases.is_empty() && self.denied.is_empty()
    }

    pub(super) fn planes(&self) -> BTreeSet<u8> {
        self.leases.values().flat_map(|(deny, _)| deny.planes.iter().copied()).collect()
    }

    /// Ends leases that are over and returns their names.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<String> {
        let over: Vec<String> =
            self.leases.iter().filter(|(_, (_, end))| *end <= now).map(|(by, _)| by.clone()).collect();
        over.iter().for_each(|by| drop(self.leases.remove(by)));
        over
    }

    /// What the lists would come to with `deny` among them.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn with(&self, deny: &Deny, planes: usize, up: PortMask, now: Instant) -> Result<Wanted, String> {
        if deny.by.is_empty()
            || deny.by.len() > 32
            || !deny.by.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        {
            return Err("`by` must have 1 to 32 letters, digits, `-` or `_`".into());
        }
        if deny.seconds == 0 || deny.seconds > MAX_SECONDS {
            return Err(format!("`seconds` is {}: a denylist lasts 1 to {MAX_SECONDS} seconds", deny.seconds));
        }
        if deny.evs.len() > MAX_EVS {
            return Err(format!("{} entropy values: a denylist has at most {MAX_EVS}", deny.evs.len()));
        }
        if let Some(plane) = deny.planes.iter().find(|&&plane| usize::from(plane) >= planes) {
            return Err(format!("there is no plane {plane}: this device has planes 0 to {}", planes.saturating_sub(1)));
        }
        if let Some(ev) = deny.evs.iter().find(|&&ev| (ev >> 8) as usize >= planes) {
            let last = planes.saturating_sub(1);
            return Err(format!(
                "there is no EV {ev:#x}: bits 8 and up are the plane, and this device has planes 0 to {last}"
            ));
        }
        if self.leases.len() >= MAX_LISTS && !self.leases.contains_key(&deny.by) {
            return Err(format!("{MAX_LISTS} denylists are in force: end one with `allow`"));
        }
        if let Some(until) = self.refused_until.filter(|until| *until > now) {
            let left = until.duration_since(now).as_secs() + 1;
            return Err(format!(
                "denylists had to end because a queue pair was left without a path; refused for {left} s more"
            ));
        }
        let others = self.leases.iter().filter(|(by, _)| **by != deny.by).map(|(_, (other, _))| other);
        let wanted = Wanted::of(others.chain([deny]));
        let left = |plane: &u8| up.contains(PortNum::from_plane(*plane)) && !wanted.planes.contains(plane);
        if !wanted.planes.is_empty() && !(0..planes as u8).any(|plane| left(&plane)) {
            return Err("that would deny every plane that is up; the last one stays".into());
        }
        Ok(wanted)
    }

    /// Takes a list in; [`Self::with`] must have allowed it.
    pub(super) fn put(&mut self, mut deny: Deny, now: Instant) {
        deny.because = deny.because.chars().take(MAX_BECAUSE).collect();
        let end = now + Duration::from_secs(deny.seconds.into());
        if deny.planes.is_empty() && deny.evs.is_empty() {
            self.leases.remove(&deny.by);
        } else {
            self.leases.insert(deny.by.clone(), (deny, end));
        }
    }

    /// Ends a list; whether there was one.
    pub(super) fn remove(&mut self, by: &str) -> bool {
        self.leases.remove(by).is_some()
    }

    pub(super) fn wanted(&self) -> Wanted {
        Wanted::of(self.leases.values().map(|(deny, _)| deny))
    }

    pub(super) fn told(&self) -> HashSet<Entry> {
        self.denied.clone()
    }

    /// Takes note of what the engine did. `Some` when all lists had to end: the queue pair that would have starved. The
    /// engine must be told again then.
    pub(super) fn settle(&mut self, outcome: Outcome, now: Instant) -> Option<u32> {
        self.denied = outcome.denied;
        let starved = outcome.starved.filter(|_| !self.denied.is_empty())?;
        self.leases.clear();
        self.refused_until = Some(now + HOLD_OFF);
        Some(starved)
    }

    pub(super) fn report(&self, now: Instant) -> Vec<Denylist> {
        let list = |(by, (deny, end)): (&String, &(Deny, Instant))| Denylist {
            by: by.clone(),
            planes: deny.planes.clone(),
            evs: deny.evs.clone(),
            seconds_left: end.saturating_duration_since(now).as_secs() as u32,
            because: deny.because.clone(),
        };
        self.leases.iter().map(list).collect()
    }
}

impl Wanted {
    fn of<'a>(lists: impl Iterator<Item = &'a Deny>) -> Self {
        let mut wanted = Self::default();
        for deny in lists {
            wanted.planes.extend(&deny.planes);
            wanted.evs.extend(&deny.evs);
        }
        wanted
    }

    fn names(&self, spec: &EvSpec) -> bool {
        spec.port.is_some_and(|port| self.planes.contains(&port.plane()))
            || compact(spec).is_some_and(|ev| self.evs.contains(&ev))
    }
}

/// A value of 32 bits, such as a compact entropy value.
pub(super) fn compact(spec: &EvSpec) -> Option<u32> {
    let (head, rest) = spec.value.split_first_chunk::<4>()?;
    rest.iter().all(|byte| *byte == 0).then(|| u32::from_be_bytes(*head))
}

/// All entries of a profile.
pub(super) fn entries(engine: &mut Endpoint<'_>, profile: mrc_core::EvProfileHandle) -> Vec<EvReport> {
    let count = engine.ev_profile_info(profile).map_or(0, |info| usize::from(info.count));
    let mut reports = vec![EvReport::EMPTY; count];
    let known = engine.query_evs(profile, 0, &mut reports).unwrap_or(0);
    reports.truncate(known);
    reports
}

/// Makes the engine's profiles deny what is wanted, and allow again what was `told` before and is wanted no more. With
/// `dry_run` nothing changes.
pub(super) fn enforce(
    engine: &mut Endpoint<'_>,
    now: mrc_core::Instant,
    wanted: &Wanted,
    told: &HashSet<Entry>,
    dry_run: bool,
) -> Outcome {
    let mut outcome = Outcome { effect: Effect::default(), denied: HashSet::new(), starved: None };
    let (up, profiles) = (engine.ports_up(), engine.ev_profiles().collect::<Vec<_>>());
    let mut absent = wanted.evs.clone();
    for profile in profiles {
        let Some(info) = engine.ev_profile_info(profile) else { continue };
        let reports = entries(engine, profile);
        let usable = |report: &&EvReport| report.ev.port.is_some_and(|port| up.contains(port));
        let by_others = |report: &EvReport| {
            report.state == EvState::Denied && !told.contains(&key(profile.index(), info.id, &report.ev))
        };
        let named = reports.iter().any(|report| wanted.names(&report.ev));
        let stays = reports.iter().filter(usable).any(|report| !wanted.names(&report.ev) && !by_others(report));
        outcome.effect.spared += usize::from(named && !stays);
        for report in &reports {
            if let Some(ev) = compact(&report.ev) {
                absent.remove(&ev);
            }
            let key = key(profile.index(), info.id, &report.ev);
            let (deny, ours) = (stays && wanted.names(&report.ev), told.contains(&key));
            let denied = report.state == EvState::Denied;
            let to = match (deny, denied, ours) {
                (true, false, _) => Some(EvState::Denied),
                (false, true, true) => Some(EvState::Good),
                _ => None,
            };
            if let Some(to) = to.filter(|_| !dry_run) {
                // The entry was listed a moment ago.
                let _ = engine.set_ev_state(now, profile, &report.ev, to, true);
            }
            if deny && (!denied || ours) {
                outcome.effect.denied += 1;
                outcome.denied.insert(key);
            }
        }
    }
    outcome.effect.absent = absent.len();
    let starved = |info: &mrc_core::QpInfo| {
        info.state == QpState::Rts && info.evs.denied > 0 && info.evs.good == 0 && info.evs.skip == 0
    };
    let found = engine.qps().find(|&qp| engine.qp_info(qp).is_some_and(|info| starved(&info)));
    outcome.starved = found.map(|qp| qp.qpn().value());
    outcome
}

fn key(profile: usize, id: u64, spec: &EvSpec) -> Entry {
    (profile, id, spec.value, spec.port.map_or(0, PortNum::value))
}

#[cfg(test)]
mod tests;
