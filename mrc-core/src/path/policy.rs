//! Which selectors there are, with their knobs and what each remembers of a QP. What they do is in their own files.

use super::{
    EvIndex, EvSlot, FlowBenderConfig, FlowingJumpingConfig, HopperConfig, PathError, PlbConfig, RepsConfig,
    flowbender::FlowBenderState, flowing::FlowingState, hopper::HopperState, plb::PlbState, reps::RepsState,
    rotation::Rotation,
};

/// Policy that picks the EV of each packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Selector {
    /// MRC: spray over the active set, avoid what feedback says is congested or broken. See [`Spray`](super::Spray).
    #[default]
    Spray,
    /// Spray over the active set and never react: the baseline. See [`Oblivious`](super::Oblivious).
    Oblivious,
    /// One path for everything; the index is that of the profile's entry. See [`Pinned`](super::Pinned).
    Pinned(EvIndex),
    /// One path, left for a better one when its round trip says that it is congested. See [`Hopper`](super::Hopper).
    Hopper(HopperConfig),
    /// One path, left for a random one when many packets were marked or lost. See [`FlowBender`](super::FlowBender).
    FlowBender(FlowBenderConfig),
    /// One path, left for a random one after rounds of congestion, earlier when idle. See [`Plb`](super::Plb).
    Plb(PlbConfig),
    /// Spray over the paths whose acknowledgements came back unmarked. See [`Reps`](super::Reps).
    Reps(RepsConfig),
    /// Spray over a few paths so that their loads stay level. See [`FlowingJumping`](super::FlowingJumping).
    FlowingJumping(FlowingJumpingConfig),
}

impl Selector {
    /// Whether the knobs make sense together.
    ///
    /// # Errors
    /// [`PathError::Knob`] names the first that does not.
    pub const fn check(&self) -> Result<(), PathError> {
        match self {
            Self::Spray | Self::Oblivious | Self::Pinned(_) => Ok(()),
            Self::Hopper(cfg) => cfg.check(),
            Self::FlowBender(cfg) => cfg.check(),
            Self::Plb(cfg) => cfg.check(),
            Self::Reps(cfg) => cfg.check(),
            Self::FlowingJumping(cfg) => cfg.check(),
        }
    }
}

impl Selector {
    /// Bytes that a QP needs to select among `evs` EVs: their slots and order, the active set, and the selector's own
    /// scalars. One path for ever needs none.
    pub const fn state_bytes(&self, evs: usize) -> usize {
        let own = match self {
            Self::Pinned(_) => return 0,
            Self::Spray | Self::Oblivious => 0,
            Self::Hopper(_) => size_of::<HopperState>(),
            Self::FlowBender(_) => size_of::<FlowBenderState>(),
            Self::Plb(_) => size_of::<PlbState>(),
            Self::Reps(_) => size_of::<RepsState>(),
            Self::FlowingJumping(_) => size_of::<FlowingState>(),
        };
        let of_ev = size_of::<EvSlot>().wrapping_add(size_of::<u16>());
        size_of::<Rotation>().wrapping_add(own).wrapping_add(evs.saturating_mul(of_ev))
    }
}

/// The selector in force with what it remembers of a QP.
#[derive(Clone, Copy, Debug)]
pub(super) enum Policy {
    Spray,
    Oblivious,
    Pinned(EvIndex),
    Hopper(HopperState),
    FlowBender(FlowBenderState),
    Plb(PlbState),
    Reps(RepsState),
    Flowing(FlowingState),
}

impl Policy {
    pub(super) const fn new(selector: Selector) -> Self {
        match selector {
            Selector::Spray => Self::Spray,
            Selector::Oblivious => Self::Oblivious,
            Selector::Pinned(index) => Self::Pinned(index),
            Selector::Hopper(cfg) => Self::Hopper(HopperState::new(cfg)),
            Selector::FlowBender(cfg) => Self::FlowBender(FlowBenderState::new(cfg)),
            Selector::Plb(cfg) => Self::Plb(PlbState::new(cfg)),
            Selector::Reps(cfg) => Self::Reps(RepsState::new(cfg)),
            Selector::FlowingJumping(cfg) => Self::Flowing(FlowingState::new(cfg)),
        }
    }
}

crate::image::stored!(enum Policy {
    0 => Spray, 1 => Oblivious, 2 => Pinned(index), 3 => Hopper(state), 4 => FlowBender(state), 5 => Plb(state), 6 => Reps(state),
    7 => Flowing(state),
});
