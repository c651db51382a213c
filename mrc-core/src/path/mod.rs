//! Where packets go: the entropy values (EVs) of a QP, their health, the choice of one per packet, probes of bad ones,
//! and the paths of control packets. Owns no packet and no port: the engine says which ports are free and what came
//! back, this module answers with an EV. Source: `paths.md`, read sections 5 to 8 first.
//!
//! ```text
//! profile entries --start--> slots (universe of the QP) --order--> rotation (active EVs), one per packet
//!                              |  ^                                      |
//!                    feedback  |  | probe answered well                  | retired: a backup of the same
//!                              v  |                                      v plane takes its place
//!                           ASSUMED_BAD <--------------------------------+
//! ```
//!
//! A QP lends two slices with every call, always the same: `slots`, one [`EvSlot`] per EV, and `order`, one `u16` per
//! active EV. [`PathSet`] is the fixed-size rest. Which policy runs is a [`Selector`]; the engine sees only [`PathSet`].

mod balance;
mod config;
mod fixed;
#[cfg(feature = "flowbender")]
mod flowbender;
#[cfg(feature = "flowing-jumping")]
mod flowing;
mod format;
#[cfg(feature = "hopper")]
mod hopper;
#[cfg(feature = "plb")]
mod plb;
mod policy;
mod probe;
mod profile;
#[cfg(feature = "reps")]
mod reps;
mod research;
mod reverse;
mod rotation;
#[cfg(any(feature = "flowbender", feature = "plb"))]
mod rounds;
#[cfg(any(feature = "hopper", feature = "flowbender", feature = "plb", feature = "reps", feature = "flowing-jumping"))]
mod single;
#[cfg(all(test, feature = "research"))]
mod single_tests;
mod slot;
mod spray;
mod state;
mod telemetry;
#[cfg(test)]
mod tests;
#[cfg(feature = "hopper")]
mod trend;

use core::fmt;

use mrc_wire::{Ev, PortNum, Psn, Verdict};

#[cfg(feature = "flowbender")]
pub use self::flowbender::FlowBenderConfig;
#[cfg(feature = "flowing-jumping")]
pub use self::flowing::FlowingJumpingConfig;
#[cfg(feature = "hopper")]
pub use self::hopper::HopperConfig;
#[cfg(feature = "plb")]
pub use self::plb::PlbConfig;
pub(crate) use self::profile::fill_auto;
#[cfg(feature = "reps")]
pub use self::reps::RepsConfig;
pub use self::{
    config::{LossEvAction, PathConfig, SkipMode},
    format::{EvFields, EvFormat, FormatMode, MAX_FIELDS, generate_profile},
    policy::Selector,
    profile::{EvEntry, MAX_ENTRIES, ProfileError, auto_profile, compact_profile, validate_profile},
    reverse::ReverseSet,
    slot::{EvSlot, EvState},
    telemetry::{PathLoad, PathTelemetry},
};
use self::{
    fixed::{Oblivious, Pinned},
    policy::Policy,
    rotation::Rotation,
    spray::Spray,
    state::Order,
};
use crate::{port::PortMask, rng::Rng, time::Instant};

/// Most planes of a QP; ports above this number carry no EV. Costs 10 bytes per plane and QP.
pub const MAX_PLANES: usize = 8;

/// Slot of a QP's EV table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EvIndex(pub u16);

impl EvIndex {
    /// No slot: a path of the reverse set, which comes from the profile and not from the QP's table.
    pub const NONE: Self = Self(u16::MAX);
}

/// Where one packet goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Value on the wire.
    pub ev: Ev,
    /// Slot of the QP, for the feedback.
    pub index: EvIndex,
    /// Index into the profile's entries, which hold the outer destination where there is one.
    pub entry: u16,
    /// Port to leave through.
    pub port: PortNum,
}

/// What the network said about an EV.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Feedback {
    /// A SACK that echoed the EV; the reserved verdict 3 counts as `Verdict::None`.
    Sack(Verdict),
    /// NACK TRIMMED.
    Trimmed,
    /// NACK TRIMMED_LASTHOP: the receiver's own link, no fault of the path.
    TrimmedLastHop,
    /// Any other NACK.
    OtherNack,
    /// The timer of a packet expired without trim or SACK.
    Timeout,
    /// Loss inferred from SACKs; `trim_nack`: congestion on this QP would have shown as trimming instead, or a probe ruled
    /// it out.
    Loss {
        /// Whether trimming is negotiated on this QP, or a probe showed the loss.
        trim_nack: bool,
    },
    /// A probe on this EV was answered.
    ProbeAnswer(Verdict),
    /// A probe on this EV was not answered in time.
    ProbeLost,
    /// A round trip was measured on this EV, by a SACK that answers one transmission without doubt (`congestion.md` 3).
    /// Only for selectors that want it, see [`PathSet::wants_rtt`].
    Rtt {
        /// The round trip, in nanoseconds.
        rtt_ns: u64,
        /// The packet that was timed.
        psn: Psn,
        /// Packets sent after it.
        behind: u16,
    },
    /// The round trip of a probe on this EV, whose [`Feedback::ProbeAnswer`] follows.
    ProbeRtt {
        /// The round trip, in nanoseconds.
        rtt_ns: u64,
    },
    /// What switches wrote into a probe on this EV; its [`Feedback::ProbeRtt`] follows. Only for selectors that want it, see
    /// [`PathSet::wants_telemetry`].
    Telemetry(PathTelemetry),
}

/// A change of state, for EV events (`paths.md` 14).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transition {
    /// Slot of the QP.
    pub index: EvIndex,
    /// Value on the wire.
    pub ev: Ev,
    /// Port of the EV.
    pub port: PortNum,
    /// State before.
    pub from: EvState,
    /// State now.
    pub to: EvState,
    /// What the network said; `None`: a controller or another QP of the profile did.
    pub cause: Option<Feedback>,
}

impl Transition {
    /// Why, in one word for people.
    pub const fn reason(&self) -> &'static str {
        match self.cause {
            None => "told",
            Some(Feedback::Sack(Verdict::AlwaysSkip)) => "verdict",
            Some(Feedback::Sack(_)) => "marked",
            Some(Feedback::Trimmed | Feedback::TrimmedLastHop) => "trimmed",
            Some(Feedback::OtherNack) => "nack",
            Some(Feedback::Timeout) => "timeout",
            Some(Feedback::Loss { .. }) => "reordering",
            Some(Feedback::ProbeAnswer(_) | Feedback::ProbeRtt { .. }) => "probe-answered",
            Some(Feedback::ProbeLost) => "probe-lost",
            Some(Feedback::Rtt { .. }) => "round-trip",
            Some(Feedback::Telemetry(_)) => "telemetry",
        }
    }
}

/// How many EVs are in which state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EvCounts {
    /// GOOD, in rotation or in reserve.
    pub good: u16,
    /// SKIP.
    pub skip: u16,
    /// ASSUMED_BAD.
    pub assumed_bad: u16,
    /// DENIED.
    pub denied: u16,
    /// In rotation.
    pub active: u16,
    /// Planes (as ports) whose EVs are all ASSUMED_BAD: out of rotation until a probe revives one (`paths.md` 6).
    pub suspended_planes: PortMask,
}

/// Why a path set cannot start or a slot cannot change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathError {
    /// No entry of the profile is populated, allowed and on a port of the peer.
    NoUsableEv,
    /// The lent slices hold fewer EVs than there are planes.
    StorageTooSmall {
        /// Smallest length of `slots` and of `order`.
        need: u16,
    },
    /// [`Selector::Pinned`], or the first path of a single-path selector, names an entry that the profile does not have,
    /// that cannot be used, or that was not drawn into the QP's EVs.
    PinnedEv(EvIndex),
    /// The QP has no such slot.
    UnknownEv(EvIndex),
    /// A knob of the selector is out of range or contradicts another; the text names it and what is allowed.
    Knob(&'static str),
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoUsableEv => f.write_str(
                "EV profile: no entry is populated, allowed and on a port towards the peer; add entries or ports",
            ),
            Self::StorageTooSmall { need } => {
                write!(
                    f,
                    "EV storage of the QP: less than one slot per plane; lend at least {need} slots and order words"
                )
            }
            Self::PinnedEv(index) => {
                write!(
                    f,
                    "pinned or first EV: entry {} of the profile is missing, denied or on no usable port; name another",
                    index.0
                )
            }
            Self::UnknownEv(index) => {
                write!(f, "EV table of the QP: no slot {}; look the EV up with `find`", index.0)
            }
            Self::Knob(text) => f.write_str(text),
        }
    }
}

impl core::error::Error for PathError {}

/// A policy of path selection over the slices of one QP.
///
/// An implementation is a short-lived view that borrows the scalars and the slices; [`PathSet`] builds the view its
/// [`Selector`] names and calls it, so dispatch is a `match` and inlines. A new policy of research is a view, a variant of
/// [`Selector`] and a line in `research`.
pub(crate) trait PathSelector {
    /// The path of one packet that leaves now through one of `ports`; not `avoid` if there is another.
    fn select(&mut self, now: Instant, ports: PortMask, avoid: Option<Ev>, rng: &mut Rng) -> Option<EvIndex>;

    /// Learns from the network; returns the change of state it caused.
    fn on_feedback(&mut self, now: Instant, index: EvIndex, what: Feedback, rng: &mut Rng) -> Option<Transition>;

    /// The next EV to probe through one of `ports`; `idle`: the QP has no data under way.
    fn poll_probe(&mut self, now: Instant, ports: PortMask, idle: bool) -> Option<EvIndex>;
}

/// Scalars of one QP's paths; the tables are lent with every call.
///
/// No call allocates or panics, whatever the slices: with other slices than those of `start` the answers are useless
/// and nothing worse. `select`, `next_timeout` and a `poll_probe` with nothing due are O(1), amortised over the packets
/// of a rotation; a change of state is O(slots).
#[derive(Clone, Debug)]
pub struct PathSet {
    policy: Policy,
    rotation: Rotation,
}

impl PathSet {
    /// A set without EVs, which selects nothing until [`start`](Self::start).
    pub const EMPTY: Self = Self { policy: Policy::Spray, rotation: Rotation::EMPTY };

    /// The policy in force.
    pub fn selector(&self) -> Selector {
        match &self.policy {
            Policy::Spray => Selector::Spray,
            Policy::Oblivious => Selector::Oblivious,
            Policy::Pinned(index) => Selector::Pinned(*index),
            Policy::Research(research) => research.selector(),
        }
    }

    /// Whether the policy keeps to one path at a time and chose it itself.
    #[inline]
    pub const fn is_single_path(&self) -> bool {
        matches!(&self.policy, Policy::Research(research) if research.is_single_path())
    }

    /// Whether [`Feedback::Rtt`] is worth the call.
    #[inline]
    pub const fn wants_rtt(&self) -> bool {
        matches!(&self.policy, Policy::Research(research) if research.wants_rtt())
    }

    /// Whether [`Feedback::Telemetry`] is worth the call.
    pub const fn wants_telemetry(&self) -> bool {
        matches!(&self.policy, Policy::Research(research) if research.wants_telemetry())
    }

    /// The table of [`Selector::FlowingJumping`], which keeps a load for each path; nothing of other selectors.
    #[cfg(feature = "flowing-jumping")]
    pub fn loads<'a>(&'a self, slots: &'a [EvSlot]) -> impl Iterator<Item = PathLoad> + 'a {
        let state = match &self.policy {
            Policy::Research(research::Research::FlowingJumping(state)) => Some(state),
            _ => None,
        };
        state.into_iter().flat_map(|state| state.table(slots))
    }

    /// Whether the last feedback left a probe to be taken with [`poll_probe`](Self::poll_probe) now.
    #[inline]
    pub fn wants_probe(&self) -> bool {
        matches!(&self.policy, Policy::Research(research) if research.wants_probe())
    }

    /// Starts or restarts the paths of a QP: fills `slots` and `order` from the profile, at random and equally over the
    /// planes. `slots.len()` bounds the universe, `order.len()` the active set.
    ///
    /// `ports` are those that lead to the peer at all. A port that is merely down right now belongs in it: leave it out
    /// of `select` instead, or its plane stays unused when it returns. Denied entries fill what is left of `slots`, so
    /// that the controller can allow them later.
    ///
    /// # Errors
    /// [`PathError::NoUsableEv`], [`PathError::StorageTooSmall`], [`PathError::PinnedEv`], [`PathError::Knob`]; the set is then empty.
    ///
    /// # Source
    /// `paths.md` 5.
    #[expect(clippy::too_many_arguments, reason = "the tables of a QP are lent separately")]
    pub fn start(
        &mut self,
        slots: &mut [EvSlot],
        order: &mut [u16],
        entries: &[EvEntry],
        cfg: &PathConfig,
        selector: Selector,
        ports: PortMask,
        rng: &mut Rng,
    ) -> Result<(), PathError> {
        if let Err(refused) = selector.check() {
            *self = Self::EMPTY;
            return Err(refused);
        }
        let first;
        (self.policy, first) = Policy::new(selector);
        if let Selector::Pinned(index) = selector {
            return self.rotation.start_pinned(slots, order, entries, index, ports);
        }
        self.rotation.start(slots, order, entries, cfg, ports, rng)?;
        //= HOP-015, FLB-006
        if first == EvIndex::NONE {
            return Ok(());
        }
        let Some(slot) = self.rotation.slot_of(slots, first) else {
            *self = Self::EMPTY;
            return Err(PathError::PinnedEv(first));
        };
        if let Policy::Research(research) = &mut self.policy {
            research.begin(slot);
        }
        Ok(())
    }

    /// The path of the next packet, called once per packet when it is sent; `None` = nothing usable now.
    ///
    /// `ports`: free and usable (link up, allowed, peer's port up).
    ///
    /// # Source
    /// `paths.md` 8, `GetSendParams`.
    #[inline]
    pub fn select(
        &mut self,
        now: Instant,
        slots: &mut [EvSlot],
        order: &mut [u16],
        ports: PortMask,
        cfg: &PathConfig,
        rng: &mut Rng,
    ) -> Option<Choice> {
        self.choose(now, slots, order, ports, None, cfg, rng)
    }

    /// As [`select`](Self::select), but not on `avoid`, the EV that a NACK echoed, if there is another.
    #[expect(clippy::too_many_arguments, reason = "the tables of a QP are lent separately")]
    pub fn select_other(
        &mut self,
        now: Instant,
        slots: &mut [EvSlot],
        order: &mut [u16],
        ports: PortMask,
        avoid: Ev,
        cfg: &PathConfig,
        rng: &mut Rng,
    ) -> Option<Choice> {
        self.choose(now, slots, order, ports, Some(avoid), cfg, rng)
    }

    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the tables of a QP are lent separately")]
    fn choose(
        &mut self,
        now: Instant,
        slots: &mut [EvSlot],
        order: &mut [u16],
        ports: PortMask,
        avoid: Option<Ev>,
        cfg: &PathConfig,
        rng: &mut Rng,
    ) -> Option<Choice> {
        let index = match self.policy {
            Policy::Spray => Spray::new(&mut self.rotation, slots, order, cfg).select(now, ports, avoid, rng),
            _ => self.choose_otherwise(now, slots, order, ports, avoid, cfg, rng),
        }?;
        choice(slots, index)
    }

    /// The other policies: out of line, so that MRC's own stays short.
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "the tables of a QP are lent separately")]
    fn choose_otherwise(
        &mut self,
        now: Instant,
        slots: &mut [EvSlot],
        order: &mut [u16],
        ports: PortMask,
        avoid: Option<Ev>,
        cfg: &PathConfig,
        rng: &mut Rng,
    ) -> Option<EvIndex> {
        let rotation = &mut self.rotation;
        match &mut self.policy {
            Policy::Spray => None,
            Policy::Oblivious => Oblivious::new(rotation, slots, order).select(now, ports, avoid, rng),
            Policy::Pinned(_) => Pinned::new(rotation, slots).select(now, ports, avoid, rng),
            Policy::Research(research) => {
                research.select(Spray::new(rotation, slots, order, cfg), now, ports, avoid, rng)
            }
        }
    }

    /// The path that slot `index` stands for, whatever its state: for packets that test a given EV.
    #[inline]
    pub fn choice(&self, slots: &[EvSlot], index: EvIndex) -> Option<Choice> {
        choice(self.rotation.used(slots), index)
    }

    /// As [`choice`](Self::choice), but nothing for an EV that the controller has denied meanwhile: neither probes nor
    /// control packets use it.
    //= BAL-005
    pub(crate) fn probe_choice(&self, slots: &[EvSlot], index: EvIndex) -> Option<Choice> {
        self.choice(slots, index).filter(|_| slots.get(index.0 as usize).is_some_and(|s| s.state() != EvState::Denied))
    }

    /// The slot whose value on the wire is `ev`. `hint`, the slot the packet was sent with, decides between equal values
    /// on two planes and saves the scan.
    #[inline]
    pub fn find(&self, slots: &[EvSlot], hint: Option<EvIndex>, ev: Ev) -> Option<EvIndex> {
        let used = self.rotation.used(slots);
        match hint.and_then(|hint| used.get(hint.0 as usize)) {
            Some(slot) if slot.ev() == ev => hint,
            //= EV-018
            _ => scan(used, ev),
        }
    }

    /// Applies feedback to an EV, in rotation or not, and returns the change of state it caused.
    ///
    /// # Source
    /// `paths.md` 6 and 7.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the tables of a QP are lent separately")]
    pub fn on_feedback(
        &mut self,
        now: Instant,
        slots: &mut [EvSlot],
        order: &mut [u16],
        index: EvIndex,
        what: Feedback,
        cfg: &PathConfig,
        rng: &mut Rng,
    ) -> Option<Transition> {
        match self.policy {
            Policy::Spray => Spray::new(&mut self.rotation, slots, order, cfg).on_feedback(now, index, what, rng),
            _ => self.learn_otherwise(now, slots, order, index, what, cfg, rng),
        }
    }

    /// As [`Self::choose_otherwise`].
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "the tables of a QP are lent separately")]
    fn learn_otherwise(
        &mut self,
        now: Instant,
        slots: &mut [EvSlot],
        order: &mut [u16],
        index: EvIndex,
        what: Feedback,
        cfg: &PathConfig,
        rng: &mut Rng,
    ) -> Option<Transition> {
        let rotation = &mut self.rotation;
        match &mut self.policy {
            Policy::Spray => None,
            Policy::Oblivious => Oblivious::new(rotation, slots, order).on_feedback(now, index, what, rng),
            Policy::Pinned(_) => Pinned::new(rotation, slots).on_feedback(now, index, what, rng),
            Policy::Research(research) => {
                research.on_feedback(Spray::new(rotation, slots, order, cfg), now, index, what, rng)
            }
        }
    }

    /// The controller denies an EV: it leaves the rotation at once, whatever `ev_min_active` says.
    ///
    /// # Errors
    /// [`PathError::UnknownEv`].
    pub fn set_denied(
        &mut self,
        slots: &mut [EvSlot],
        order: &mut [u16],
        index: EvIndex,
        rng: &mut Rng,
    ) -> Result<Option<Transition>, PathError> {
        self.rotation.command(slots, order, index, Order::Denied, rng)
    }

    /// The controller declares an EV good: it rejoins the rotation if its plane has room, else the reserve.
    ///
    /// # Errors
    /// [`PathError::UnknownEv`].
    pub fn set_good(
        &mut self,
        slots: &mut [EvSlot],
        order: &mut [u16],
        index: EvIndex,
        rng: &mut Rng,
    ) -> Result<Option<Transition>, PathError> {
        self.rotation.command(slots, order, index, Order::Good, rng)
    }

    /// Ports over which the peer can be reached now, whether busy or free. Only the last resort asks: healthy EVs on
    /// ports that are down do not stop it, those on ports that are busy do. All ports until told.
    pub fn set_usable_ports(&mut self, ports: PortMask) {
        self.rotation.set_usable(ports);
    }

    /// The QP has data again: probes of bad EVs, rare while it was idle, come at their full rate. O(1); what it means is
    /// found by the next [`poll_probe`](Self::poll_probe), for which [`next_timeout`](Self::next_timeout) now asks.
    pub fn on_busy(&mut self) {
        if let Policy::Research(research) = &mut self.policy {
            research.on_busy();
        }
        self.rotation.on_busy();
    }

    /// Whether a [`select`](Self::select) since the last call found room only on planes that are too far ahead
    /// ([`PathConfig::plane_lead`]).
    #[inline]
    pub(crate) fn take_yielded(&mut self) -> bool {
        self.rotation.balance.take_yielded()
    }

    /// The next packet may take any plane, however far ahead.
    pub(crate) fn waive_lead(&mut self) {
        self.rotation.balance.waive();
    }

    /// Ports over which the peer can be reached, as told last.
    pub fn usable_ports(&self) -> PortMask {
        self.rotation.usable()
    }

    /// The next EV to probe through one of `ports`: a path of which the selector wants to know, else the next bad EV
    /// whose probe is due; it counts as under way until [`Feedback::ProbeAnswer`] or [`Feedback::ProbeLost`] comes for it.
    /// A probe of a bad EV of which nothing is heard (it was never sent) is offered again after 16 probe intervals.
    ///
    /// Call until `None`. `idle`: the QP has no data under way; probes then come at 1/8 of their rate.
    ///
    /// # Source
    /// `paths.md` 10.
    pub fn poll_probe(
        &mut self,
        now: Instant,
        slots: &mut [EvSlot],
        ports: PortMask,
        cfg: &PathConfig,
        idle: bool,
    ) -> Option<Choice> {
        let rotation = &mut self.rotation;
        let index = match &mut self.policy {
            Policy::Spray => Spray::new(rotation, slots, &mut [], cfg).poll_probe(now, ports, idle),
            Policy::Oblivious => Oblivious::new(rotation, slots, &mut []).poll_probe(now, ports, idle),
            Policy::Pinned(_) => Pinned::new(rotation, slots).poll_probe(now, ports, idle),
            Policy::Research(research) => {
                research.poll_probe(Spray::new(rotation, slots, &mut [], cfg), now, ports, idle)
            }
        }?;
        self.choice(slots, index)
    }

    /// The earliest time at which [`poll_probe`](Self::poll_probe), or a `select` refused by the pace of the last
    /// resort or by the pause before a switch, may have work. May be early; [`Instant::FAR`] if there is none. O(1).
    #[inline]
    pub fn next_timeout(&self) -> Instant {
        match &self.policy {
            Policy::Spray => self.rotation.next_timeout(),
            Policy::Oblivious | Policy::Pinned(_) => Instant::FAR,
            Policy::Research(research) => research.next_timeout(&self.rotation),
        }
    }

    /// As [`next_timeout`](Self::next_timeout), as far as a [`select`](Self::select) can have brought it forward that found a
    /// path.
    #[inline(always)]
    pub(crate) fn next_of_choice(&self) -> Instant {
        if matches!(self.policy, Policy::Spray) { Instant::FAR } else { self.next_timeout() }
    }

    /// A random EV on `port`, healthy if there is one, bad otherwise, never denied: for a probe that tests the port. O(slots).
    pub(crate) fn any_on(&self, slots: &[EvSlot], port: PortNum, rng: &mut Rng) -> Option<EvIndex> {
        let slots = self.used(slots);
        let healthy = random_place(slots, rng, |slot| slot.port() == port && slot.is_healthy());
        healthy.or_else(|| self.any_of(slots, PortMask::NONE.with(port), rng).map(|ev| ev.0)).map(EvIndex)
    }

    /// A random EV on one of `ports`, healthy or bad, never denied: for a probe that asks whether the peer lives. O(slots).
    pub(crate) fn any_of(&self, slots: &[EvSlot], ports: PortMask, rng: &mut Rng) -> Option<EvIndex> {
        let allowed = |slot: &EvSlot| ports.contains(slot.port()) && slot.state() != EvState::Denied;
        random_place(self.used(slots), rng, allowed).map(EvIndex)
    }

    /// The slots in use.
    pub(crate) fn used<'a>(&self, slots: &'a [EvSlot]) -> &'a [EvSlot] {
        self.rotation.used(slots)
    }

    /// The slot that holds entry `entry` of the QP's profile.
    pub(crate) fn find_entry(&self, slots: &[EvSlot], entry: u16) -> Option<EvIndex> {
        let at = self.used(slots).iter().position(|slot| slot.entry() == entry)?;
        u16::try_from(at).ok().map(EvIndex)
    }

    /// Skips that choices ended since the last call: changes without a [`Transition`].
    #[inline(always)]
    pub(crate) fn take_ended_skips(&mut self) -> u32 {
        core::mem::take(&mut self.rotation.ended_skips)
    }

    /// How many EVs are in which state.
    pub fn counts(&self) -> EvCounts {
        self.rotation.counts()
    }

    /// Number of slots in use, from the first.
    pub fn universe(&self) -> usize {
        self.rotation.universe()
    }

    /// Words of `order` in use, from the first.
    pub(crate) const fn active_len(&self) -> usize {
        self.rotation.active_len()
    }
}

/// Where the first of `all` that is `wanted` lies at or after a random place. O(`all`).
fn random_place<T>(all: &[T], rng: &mut Rng, wanted: impl Fn(&T) -> bool) -> Option<u16> {
    let len = all.len().min(usize::from(u16::MAX));
    let start = rng.below(len as u32) as usize;
    let mut places = (start..len).chain(0..start);
    places.find(|&at| all.get(at).is_some_and(&wanted)).map(|at| at as u16)
}

#[inline(never)]
fn scan(slots: &[EvSlot], ev: Ev) -> Option<EvIndex> {
    slots.iter().position(|slot| slot.ev() == ev).and_then(|at| u16::try_from(at).ok()).map(EvIndex)
}

#[inline(always)]
fn choice(slots: &[EvSlot], index: EvIndex) -> Option<Choice> {
    let slot = slots.get(index.0 as usize)?;
    Some(Choice { ev: slot.ev(), index, entry: slot.entry(), port: slot.port() })
}

crate::image::stored!(newtype EvIndex);
crate::image::stored!(struct Choice { ev, index, entry, port });
crate::image::stored!(enum Feedback {
    0 => Sack(verdict), 1 => Trimmed, 2 => TrimmedLastHop, 3 => OtherNack, 4 => Timeout, 5 => Loss { trim_nack },
    6 => ProbeAnswer(verdict), 7 => ProbeLost, 8 => Rtt { rtt_ns, psn, behind }, 9 => ProbeRtt { rtt_ns },
    10 => Telemetry(told),
});
crate::image::stored!(struct Transition { index, ev, port, from, to, cause });
crate::image::stored!(struct PathSet { policy, rotation } where |paths| paths.selector().check().is_ok());
