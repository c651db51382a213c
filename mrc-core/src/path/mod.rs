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

mod after_nack;
mod ahead;
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
mod plane;
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
mod set;
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
#[cfg(feature = "reps")]
pub use self::reps::RepsConfig;
pub use self::{
    config::{LossEvAction, PathConfig, SkipMode},
    format::{EvFields, EvFormat, FormatMode, MAX_FIELDS, generate_profile},
    policy::Selector,
    profile::{EvEntry, MAX_ENTRIES, ProfileError, auto_profile, compact_profile, validate_profile},
    reverse::ReverseSet,
    set::PathSet,
    slot::{EvSlot, EvState},
    telemetry::{PathLoad, PathTelemetry},
};
pub(crate) use self::{profile::Supply, rotation::Drawn};
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

crate::image::stored!(newtype EvIndex);
crate::image::stored!(struct Choice { ev, index, entry, port });
crate::image::stored!(enum Feedback {
    0 => Sack(verdict), 1 => Trimmed, 2 => TrimmedLastHop, 3 => OtherNack, 4 => Timeout, 5 => Loss { trim_nack },
    6 => ProbeAnswer(verdict), 7 => ProbeLost, 8 => Rtt { rtt_ns, psn, behind }, 9 => ProbeRtt { rtt_ns },
    10 => Telemetry(told),
});
crate::image::stored!(struct Transition { index, ev, port, from, to, cause });
