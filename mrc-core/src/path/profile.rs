//! EV profiles: the entries QPs draw their EVs from, how to make them, and what a controller's list must satisfy.
//! Owns no life cycle (that is the endpoint's) and no per-QP state. Source: `paths.md` 2.

use core::fmt;

use mrc_wire::{Ev, PortNum, ev::EvError};

use super::MAX_PLANES;
use crate::num::Counter;
use crate::{endpoint::ProfileState, port::PortMask};

/// Most entries of a profile.
pub const MAX_ENTRIES: usize = 4096;

/// One entry of an EV profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EvEntry {
    /// Value on the wire, which echoes carry back; for explicit SRv6 entries the index of the entry.
    pub ev: Ev,
    /// Port, and so plane, of the path.
    pub port: PortNum,
    /// Whether the entry holds a value; explicit profiles start without.
    pub populated: bool,
    /// DENIED by the controller, for all QPs.
    pub denied: bool,
    /// Outer IPv6 destination of explicit and generated SRv6 entries; unused otherwise.
    pub dst: Option<[u8; 16]>,
    /// Segment of the SRH that follows, where the path does not fit into one destination.
    pub segment: Option<[u8; 16]>,
}

impl EvEntry {
    /// An entry without a value: fills lent tables, and is what an explicit profile holds before the controller programs it.
    pub const EMPTY: Self = Self { populated: false, ..Self::new(Ev(0), PortNum::from_plane(0)) };

    /// The path `ev` through `port`.
    pub const fn new(ev: Ev, port: PortNum) -> Self {
        Self { ev, port, populated: true, denied: false, dst: None, segment: None }
    }

    /// Whether a QP may draw this entry.
    pub(crate) fn is_usable(&self, ports: PortMask) -> bool {
        //= SET-005, DENY-001
        self.populated && !self.denied && ports.contains(self.port) && (self.port.plane() as usize) < MAX_PLANES
    }
}

/// How many entries of a profile QPs may draw, by plane: what a QP needs to know of all of them before it draws.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Supply {
    planes: [u16; MAX_PLANES],
    /// There are denied entries, too.
    pub(super) denied: bool,
}

impl Supply {
    /// That of a whole profile.
    pub(crate) fn of(entries: &[EvEntry]) -> Self {
        let mut supply = Self { planes: [0; MAX_PLANES], denied: false };
        for entry in entries.iter().take(u16::MAX.into()) {
            supply.denied |= entry.denied;
            if entry.is_usable(PortMask::ALL)
                && let Some(count) = supply.planes.get_mut(entry.port.plane() as usize)
            {
                *count = count.wrapping_add(1);
            }
        }
        supply
    }

    /// Of planes that leave through `ports`; none of the others.
    pub(crate) fn on(&self, ports: PortMask) -> [u16; MAX_PLANES] {
        let mut planes = self.planes;
        for (plane, count) in (0u8..).zip(&mut planes) {
            if !ports.contains(PortNum::from_plane(plane)) {
                *count = 0;
            }
        }
        planes
    }

    /// Of all these planes together.
    pub(crate) fn all_on(&self, ports: PortMask) -> usize {
        self.on(ports).into_iter().fold(0, |all, count| all.wrapping_add(count.into()))
    }
}

/// What is wrong with a profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ProfileError {
    /// The profile has no entry, or more than [`MAX_ENTRIES`].
    Size {
        /// Its entries.
        entries: usize,
    },
    /// No plane, or more than [`MAX_PLANES`].
    Planes {
        /// Planes asked for.
        planes: u8,
    },
    /// The handle is stale, or was never given out (ENOENT).
    Unknown,
    /// As many commands to EVs as there is room for are on their way to QPs: let `handle_timeout` go on (EBUSY).
    Commands,
    /// QPs are bound to the profile (EBUSY).
    Busy {
        /// How many.
        users: u32,
    },
    /// The profile is in another state than this takes.
    State {
        /// State it is in.
        from: ProfileState,
        /// State asked for, or needed.
        to: ProfileState,
    },
    /// More EVs are to stay active than the profile has.
    MinActive {
        /// EVs that are to stay active.
        min_active: u16,
        /// Entries.
        count: u16,
    },
    /// A GENERATED profile without field descriptions.
    NoFields,
    /// A format wider than its mode (E2BIG).
    TooWide {
        /// Its bits.
        bits: u16,
        /// Bits that fit.
        max: u16,
    },
    /// Field descriptions that do not fit the format, or bits of an EV that none of them takes.
    Field(EvError),
    /// Only entries of an EXPLICIT profile with a format can be replaced.
    NotExplicit,
    /// No entry equals the EV named (ENOENT).
    NoSuchEv,
    /// A controller may ask for GOOD and DENIED only.
    EvState,
    /// EVs wider than 32 bits, or of no bit.
    Width {
        /// Bits asked for.
        bits: u8,
    },
    /// The value space is smaller than the profile (E2BIG).
    TooFew {
        /// Different values there are.
        have: u64,
        /// Entries to fill.
        need: usize,
    },
    /// An explicit entry was never programmed.
    Unpopulated {
        /// The entry.
        index: usize,
    },
    /// An entry leaves through a port the function does not have.
    Port {
        /// The entry.
        index: usize,
        /// Its port.
        port: u8,
    },
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Size { entries } => write!(f, "EV profile: {entries} entries; give it 1 to {MAX_ENTRIES}"),
            Self::Planes { planes } => {
                write!(f, "EV profile: {planes} planes; give it 1 to {MAX_PLANES}")
            }
            Self::Unknown => f.write_str("EV profile: stale handle"),
            Self::Commands => {
                f.write_str("EV profile: too many commands on their way to QPs; call handle_timeout first")
            }
            Self::Busy { users } => write!(f, "EV profile: {users} QPs are bound to it; destroy or reset them first"),
            Self::State { from, to } => write!(f, "EV profile: it is {from:?}, which does not go with {to:?}"),
            Self::MinActive { min_active, count } => {
                write!(f, "EV profile: {min_active} of {count} EVs are to stay active; ask for at most {count}")
            }
            Self::NoFields => f.write_str("EV profile: GENERATED values need field descriptions"),
            Self::TooWide { bits, max } => write!(f, "EV format: {bits} bits, {max} fit; drop or narrow fields"),
            Self::Field(why) => write!(f, "{why}"),
            Self::NotExplicit => f.write_str("EV profile: only entries of an EXPLICIT profile can be replaced"),
            Self::NoSuchEv => f.write_str("EV profile: no entry has this value and port"),
            Self::EvState => f.write_str("EV state: a controller may ask for GOOD or DENIED"),
            Self::Width { bits } => {
                write!(f, "EV profile: values of {bits} bits; give them 1 to 32")
            }
            Self::TooFew { have, need } => {
                write!(f, "EV profile: {have} values for {need} entries; widen the fields or shrink the profile")
            }
            Self::Unpopulated { index } => write!(f, "EV profile: entry {index} has no value; program it first"),
            Self::Port { index, port } => {
                write!(
                    f,
                    "EV profile: entry {index} uses port {port}, which does not exist; use one of the function's ports"
                )
            }
        }
    }
}

impl core::error::Error for ProfileError {}

/// Checks an explicit profile before it goes ONLINE: complete, and on `ports`. Copies of an EV are allowed.
///
/// # Errors
/// The first fault, as [`ProfileError`].
///
/// # Source
/// `paths.md` 2; `api.md` 6.2 (copies).
pub fn validate_profile(entries: &[EvEntry], ports: PortMask) -> Result<(), ProfileError> {
    if entries.is_empty() || entries.len() > MAX_ENTRIES {
        return Err(ProfileError::Size { entries: entries.len() });
    }
    for (index, entry) in entries.iter().enumerate() {
        //= PROF-003
        if !entry.populated {
            return Err(ProfileError::Unpopulated { index });
        }
        if !ports.contains(entry.port) || entry.port.plane() as usize >= MAX_PLANES {
            return Err(ProfileError::Port { index, port: entry.port.value() });
        }
    }
    Ok(())
}

/// Fills an AUTO profile: values of `bits` bits (16 for the UDP format) in an order keyed by `profile_id`, ports round
/// robin.
///
/// # Errors
/// [`ProfileError::Planes`], [`ProfileError::Width`], [`ProfileError::TooFew`]; the entries are then untouched.
///
/// # Source
/// `paths.md` 2.2.
pub fn auto_profile(entries: &mut [EvEntry], planes: u8, bits: u8, profile_id: u64) -> Result<(), ProfileError> {
    if planes as usize > MAX_PLANES {
        return Err(ProfileError::Planes { planes });
    }
    fill_auto(entries, PortMask::first(planes), bits, profile_id)
}

/// As [`auto_profile`], over these ports.
fn fill_auto(entries: &mut [EvEntry], ports: PortMask, bits: u8, profile_id: u64) -> Result<(), ProfileError> {
    let ports = Ports::of_mask(ports)?;
    if bits == 0 || bits > 32 {
        return Err(ProfileError::Width { bits });
    }
    let permutation = Permutation::new(1u64.wrapping_shl(bits.into()), profile_id);
    permutation.check_room(entries)?;
    for (i, entry) in (0u64..).zip(entries) {
        //= PROF-002, GENEV-004
        *entry = EvEntry::new(Ev(permutation.at(i) as u32), ports.of(i));
    }
    Ok(())
}

/// Fills a profile of compact EVs for the algorithmic SRv6 mapping: every pair of plane and T0 uplink once, plane by
/// turns, `EV = plane << plane_lsb | uplink`.
///
/// # Errors
/// [`ProfileError::Planes`]; [`ProfileError::Width`] if `uplinks` does not fit below `plane_lsb` or the plane above it;
/// [`ProfileError::TooFew`] if there are fewer pairs than entries. The entries are then untouched.
///
/// # Source
/// `paths.md` 9.3.
pub fn compact_profile(entries: &mut [EvEntry], planes: u8, uplinks: u16, plane_lsb: u8) -> Result<(), ProfileError> {
    if planes as usize > MAX_PLANES {
        return Err(ProfileError::Planes { planes });
    }
    let ports = Ports::of_mask(PortMask::first(planes))?;
    // Planes are at most 8 and need three bits.
    if plane_lsb > 29 || u64::from(uplinks) > 1u64.wrapping_shl(plane_lsb.into()) {
        return Err(ProfileError::Width { bits: plane_lsb });
    }
    let have = (planes as u64).wrapping_mul(uplinks.into());
    if have < entries.len() as u64 {
        return Err(ProfileError::TooFew { have, need: entries.len() });
    }
    for (i, entry) in (0u64..).zip(entries) {
        let port = ports.of(i);
        let uplink = i / ports.count();
        *entry = EvEntry::new(Ev((port.plane() as u32).wrapping_shl(plane_lsb.into()) | uplink as u32), port);
    }
    Ok(())
}

/// Ports in turn.
pub(super) struct Ports {
    list: [PortNum; MAX_PLANES],
    count: core::num::NonZeroU64,
}

impl Ports {
    /// The ports of a mask, lowest first; those beyond [`MAX_PLANES`] carry no EV.
    pub(super) fn of_mask(mask: PortMask) -> Result<Self, ProfileError> {
        let mut list = [PortNum::from_plane(0); MAX_PLANES];
        let ports = (0..MAX_PLANES as u8).map(PortNum::from_plane).filter(|&port| mask.contains(port));
        let mut count = 0u64;
        for (to, port) in list.iter_mut().zip(ports) {
            *to = port;
            count.inc();
        }
        let count = core::num::NonZeroU64::new(count).ok_or(ProfileError::Planes { planes: 0 })?;
        Ok(Self { list, count })
    }

    fn count(&self) -> core::num::NonZeroU64 {
        self.count
    }

    //= GENEV-002
    pub(super) fn of(&self, i: u64) -> PortNum {
        self.list.get((i % self.count) as usize).copied().unwrap_or(PortNum::from_plane(0))
    }
}

/// A keyed permutation of `[0, n)`: four Feistel rounds on the next power of four, walking the cycle until the value
/// falls below `n` (less than four steps on average).
pub(super) struct Permutation {
    n: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Permutation {
    /// `n` in `[1, 2^62]`.
    pub(super) fn new(n: u64, key: u64) -> Self {
        let mut rng = crate::rng::Rng::new(key);
        let bits = u64::BITS.wrapping_sub(n.saturating_sub(1).leading_zeros());
        let keys = core::array::from_fn(|_| rng.next_u64());
        Self { n, half_bits: (bits.wrapping_add(1) >> 1).min(31), keys }
    }

    pub(super) fn check_room(&self, entries: &[EvEntry]) -> Result<(), ProfileError> {
        //= GENEV-003
        if self.n < entries.len() as u64 {
            return Err(ProfileError::TooFew { have: self.n, need: entries.len() });
        }
        Ok(())
    }

    /// The image of `i`, which lies below `n`. Ends because the cycle of `i` comes back to `i`.
    pub(super) fn at(&self, i: u64) -> u64 {
        let mut x = self.rounds(i);
        while x >= self.n {
            x = self.rounds(x);
        }
        x
    }

    fn rounds(&self, x: u64) -> u64 {
        let mask = !u64::MAX.wrapping_shl(self.half_bits);
        let (mut left, mut right) = (x.wrapping_shr(self.half_bits) & mask, x & mask);
        for key in self.keys {
            let f = crate::rng::Rng::new(right ^ key).next_u64() & mask;
            (left, right) = (right, left ^ f);
        }
        left.wrapping_shl(self.half_bits) | right
    }
}

crate::image::stored!(struct EvEntry { ev, port, populated, denied, dst, segment });

#[cfg(test)]
mod tests {
    extern crate std;
    use std::{collections::BTreeSet, vec, vec::Vec};

    use super::*;

    /// Only what a QP may draw counts, on its own plane, and only where its port is wanted.
    //= SET-005 test
    #[test]
    fn a_supply_counts_the_usable_entries_of_each_plane() {
        let port = PortNum::from_plane;
        let entry = |plane: u8| EvEntry::new(Ev(plane.into()), port(plane));
        let denied = EvEntry { denied: true, ..entry(1) };
        let entries = [entry(0), entry(0), entry(1), denied, EvEntry::EMPTY, entry(7), entry(8)];
        let supply = Supply::of(&entries);
        assert!(supply.denied && !Supply::of(&entries[..3]).denied);
        assert_eq!(supply.on(PortMask::ALL), [2, 1, 0, 0, 0, 0, 0, 1]);
        assert_eq!((supply.all_on(PortMask::ALL), supply.all_on(PortMask::first(2))), (4, 3));
        assert_eq!(supply.on(PortMask::NONE.with(port(1))), [0, 1, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn permutations_are_permutations() {
        for n in [1, 2, 3, 4, 5, 16, 17, 100, 1000, 4097] {
            let permutation = Permutation::new(n, 99);
            let images: BTreeSet<u64> = (0..n).map(|i| permutation.at(i)).collect();
            assert_eq!(images.len() as u64, n);
            assert!(images.iter().all(|&x| x < n), "n = {n}");
        }
    }

    /// A key names the same permutation on every target and in every release: profiles are made from it.
    #[test]
    fn a_key_names_one_permutation() {
        let images = |key| (0..8).map(|i| Permutation::new(1_000, key).at(i)).collect::<Vec<u64>>();
        assert_eq!(images(99), [871, 576, 633, 12, 566, 790, 890, 958]);
        assert_ne!(images(99), images(100));
    }

    //= PROF-002, GENEV-004 test
    #[test]
    fn auto_profiles_are_distinct_balanced_and_keyed() {
        let mut entries = vec![EvEntry::EMPTY; 192];
        auto_profile(&mut entries, 4, 16, 1).unwrap();
        assert_eq!(validate_profile(&entries, PortMask::first(4)), Ok(()));
        let values: BTreeSet<Ev> = entries.iter().map(|e| e.ev).collect();
        assert_eq!(values.len(), 192);
        assert!(values.iter().all(|ev| ev.0 < 1 << 16));
        for plane in 0..4 {
            assert_eq!(entries.iter().filter(|e| e.port.plane() == plane).count(), 48);
        }
        let mut other = entries.clone();
        auto_profile(&mut other, 4, 16, 2).unwrap();
        assert_ne!(entries, other);
        auto_profile(&mut other, 4, 16, 1).unwrap();
        assert_eq!(entries, other);
    }

    //= GENEV-003 test
    #[test]
    fn auto_profiles_know_their_limits() {
        let mut entries = vec![EvEntry::EMPTY; 17];
        assert_eq!(auto_profile(&mut entries, 4, 4, 1), Err(ProfileError::TooFew { have: 16, need: 17 }));
        assert_eq!(auto_profile(&mut entries, 0, 4, 1), Err(ProfileError::Planes { planes: 0 }));
        assert_eq!(auto_profile(&mut entries, 9, 4, 1), Err(ProfileError::Planes { planes: 9 }));
        assert_eq!(auto_profile(&mut entries, 1, 33, 1), Err(ProfileError::Width { bits: 33 }));
        assert!(entries.iter().all(|e| !e.populated));
        assert_eq!(auto_profile(&mut entries, 8, 32, 1), Ok(()));
    }

    #[test]
    fn compact_profiles_pair_planes_and_uplinks() {
        let mut entries = vec![EvEntry::EMPTY; 12];
        compact_profile(&mut entries, 4, 3, 8).unwrap();
        let evs: Vec<u32> = entries.iter().map(|e| e.ev.0).collect();
        assert_eq!(evs, [0, 0x100, 0x200, 0x300, 1, 0x101, 0x201, 0x301, 2, 0x102, 0x202, 0x302]);
        assert!(entries.iter().all(|e| e.port.plane() as u32 == e.ev.0 >> 8));
        assert_eq!(compact_profile(&mut entries, 4, 2, 8), Err(ProfileError::TooFew { have: 8, need: 12 }));
        assert_eq!(compact_profile(&mut entries, 4, 257, 8), Err(ProfileError::Width { bits: 8 }));
        assert_eq!(compact_profile(&mut entries, 4, 256, 8), Ok(()));
    }

    //= PROF-003 test
    #[test]
    fn explicit_profiles_are_complete() {
        let port = PortNum::from_plane;
        let good = [EvEntry::new(Ev(1), port(0)), EvEntry::new(Ev(1), port(1)), EvEntry::new(Ev(2), port(0))];
        let ports = PortMask::first(2);
        assert_eq!(validate_profile(&good, ports), Ok(()));
        assert_eq!(validate_profile(&[], ports), Err(ProfileError::Size { entries: 0 }));
        let mut bad = good;
        bad[1] = EvEntry::EMPTY;
        assert_eq!(validate_profile(&bad, ports), Err(ProfileError::Unpopulated { index: 1 }));
        bad[1] = EvEntry::new(Ev(9), port(2));
        assert_eq!(validate_profile(&bad, ports), Err(ProfileError::Port { index: 1, port: 3 }));
        let most = vec![EvEntry::EMPTY; MAX_ENTRIES + 1];
        assert_eq!(validate_profile(&most, ports), Err(ProfileError::Size { entries: MAX_ENTRIES + 1 }));
        assert_eq!(validate_profile(&most[1..], ports), Err(ProfileError::Unpopulated { index: 0 }));
        bad[1] = good[0];
        assert_eq!(validate_profile(&bad, ports), Ok(()));
    }
}
