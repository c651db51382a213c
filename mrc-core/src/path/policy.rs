//! Which selectors there are, with their knobs and what each remembers of a QP. What they do is in their own files.

#[cfg(feature = "flowbender")]
use super::FlowBenderConfig;
#[cfg(feature = "flowing-jumping")]
use super::FlowingJumpingConfig;
#[cfg(feature = "hopper")]
use super::HopperConfig;
#[cfg(feature = "plb")]
use super::PlbConfig;
#[cfg(feature = "reps")]
use super::RepsConfig;
use super::{EvIndex, research::Research};

/// Policy that picks the EV of each packet. The list is closed: an embedder names one and sets its knobs. Selectors of research
/// exist with their feature only (`research` turns on all).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Selector {
    /// MRC: spray over the active set, avoid what feedback says is congested or broken.
    #[default]
    Spray,
    /// Spray over the active set and never react: the baseline.
    Oblivious,
    /// One path for everything; the index is that of the profile's entry.
    Pinned(EvIndex),
    /// One path, left for a better one when its round trip says that it is congested.
    #[cfg(feature = "hopper")]
    Hopper(HopperConfig),
    /// One path, left for a random one when many packets were marked or lost.
    #[cfg(feature = "flowbender")]
    FlowBender(FlowBenderConfig),
    /// One path, left for a random one after rounds of congestion, earlier when idle.
    #[cfg(feature = "plb")]
    Plb(PlbConfig),
    /// Spray over the paths whose acknowledgements came back unmarked.
    #[cfg(feature = "reps")]
    Reps(RepsConfig),
    /// Spray over a few paths so that their loads stay level.
    #[cfg(feature = "flowing-jumping")]
    FlowingJumping(FlowingJumpingConfig),
}

/// The selector in force with what it remembers of a QP.
#[derive(Clone, Copy, Debug)]
pub(super) enum Policy {
    Spray,
    Oblivious,
    Pinned(EvIndex),
    Research(Research),
}

impl Policy {
    /// With the path that it wants to begin on.
    pub(super) fn new(selector: Selector) -> (Self, EvIndex) {
        match (selector, Research::of(selector)) {
            (_, Some((research, first))) => (Self::Research(research), first),
            (Selector::Oblivious, _) => (Self::Oblivious, EvIndex::NONE),
            (Selector::Pinned(index), _) => (Self::Pinned(index), EvIndex::NONE),
            _ => (Self::Spray, EvIndex::NONE),
        }
    }
}

crate::image::stored!(enum Policy { 0 => Spray, 1 => Oblivious, 2 => Pinned(index), 3 => Research(research) });
