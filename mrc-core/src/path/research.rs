//! The selectors of research, each behind a feature of its own: firmware without the feature has not a byte of it, neither code nor
//! memory in its queue pairs. What a selector does is in its own file; this one sends calls to it.
#![cfg_attr(
    not(feature = "research"),
    allow(dead_code, unused_variables, unused_imports, reason = "without any of them nothing is left to call")
)]

use mrc_wire::Ev;

use super::{
    EvIndex, EvSlot, Feedback, PathError, PathSelector, Selector, Transition, rotation::Rotation, spray::Spray,
};
use crate::{
    image::{Reader, Stored, Writer},
    port::PortMask,
    rng::Rng,
    time::Instant,
};

/// How a selector differs from spraying, beside its choices.
pub(super) trait Traits {
    /// Keeps to one path, which it chose itself, until it leaves it.
    const SINGLE_PATH: bool = false;
    /// Whether [`Feedback::Rtt`] is worth the call.
    const WANTS_RTT: bool = Self::SINGLE_PATH;
    /// Whether [`Feedback::Telemetry`] is.
    const WANTS_TELEMETRY: bool = false;

    /// Begins on slot `first`.
    fn begin(&mut self, _first: EvIndex) {}

    /// Whether the last feedback left a probe to be taken.
    fn wants_probe(&self) -> bool {
        false
    }

    /// The QP has data again.
    fn on_busy(&mut self) {}

    /// When it may have work, beside that of the rotation.
    fn next_timeout(&self, _rotation: &Rotation) -> Instant {
        Instant::FAR
    }
}

macro_rules! research {
    ($($feature:literal $variant:ident = $number:literal: $module:ident::$state:ident, $first:expr;)*) => {
        /// The selector of research that is in force, with what it remembers of a QP.
        #[derive(Clone, Copy, Debug)]
        pub(super) enum Research {
            $(#[cfg(feature = $feature)] $variant(super::$module::$state),)*
        }

        impl Selector {
            /// Whether the knobs make sense together.
            ///
            /// # Errors
            /// [`PathError::Knob`] names the first that does not.
            pub const fn check(&self) -> Result<(), PathError> {
                match self {
                    Self::Spray | Self::Oblivious | Self::Pinned(_) => Ok(()),
                    $(#[cfg(feature = $feature)] Self::$variant(cfg) => cfg.check(),)*
                }
            }

            /// Bytes that a QP needs to select among `evs` EVs: their slots and order, the active set, and the selector's own
            /// scalars. One path for ever needs none.
            pub const fn state_bytes(&self, evs: usize) -> usize {
                let own = match self {
                    Self::Pinned(_) => return 0,
                    Self::Spray | Self::Oblivious => 0,
                    $(#[cfg(feature = $feature)] Self::$variant(_) => size_of::<super::$module::$state>(),)*
                };
                let of_ev = size_of::<EvSlot>().wrapping_add(size_of::<u16>());
                size_of::<Rotation>().wrapping_add(own).wrapping_add(evs.saturating_mul(of_ev))
            }
        }

        impl Research {
            /// The memory of a selector that has one, and the path that it wants to begin on.
            pub(super) fn of(selector: Selector) -> Option<(Self, EvIndex)> {
                match selector {
                    Selector::Spray | Selector::Oblivious | Selector::Pinned(_) => None,
                    $(#[cfg(feature = $feature)]
                    Selector::$variant(cfg) => {
                        let first: fn(&_) -> EvIndex = $first;
                        Some((Self::$variant(super::$module::$state::new(cfg)), first(&cfg)))
                    })*
                }
            }

            pub(super) fn selector(&self) -> Selector {
                match *self {
                    $(#[cfg(feature = $feature)] Self::$variant(ref state) => Selector::$variant(state.cfg),)*
                }
            }

            /// What `f` makes of the selector over the paths of `spray`.
            fn over<R>(&mut self, spray: Spray<'_>, f: impl FnOnce(&mut dyn PathSelector) -> R) -> R {
                match *self {
                    $(#[cfg(feature = $feature)]
                    Self::$variant(ref mut state) => f(&mut super::$module::$variant::new(spray, state)),)*
                }
            }

            #[inline]
            pub(super) const fn is_single_path(&self) -> bool {
                match *self {
                    $(#[cfg(feature = $feature)] Self::$variant(_) => super::$module::$state::SINGLE_PATH,)*
                }
            }

            #[inline]
            pub(super) const fn wants_rtt(&self) -> bool {
                match *self {
                    $(#[cfg(feature = $feature)] Self::$variant(_) => super::$module::$state::WANTS_RTT,)*
                }
            }

            pub(super) const fn wants_telemetry(&self) -> bool {
                match *self {
                    $(#[cfg(feature = $feature)] Self::$variant(_) => super::$module::$state::WANTS_TELEMETRY,)*
                }
            }

            #[inline]
            pub(super) fn wants_probe(&self) -> bool {
                match *self {
                    $(#[cfg(feature = $feature)] Self::$variant(ref state) => Traits::wants_probe(state),)*
                }
            }

            pub(super) fn begin(&mut self, first: EvIndex) {
                match *self {
                    $(#[cfg(feature = $feature)] Self::$variant(ref mut state) => Traits::begin(state, first),)*
                }
            }

            pub(super) fn on_busy(&mut self) {
                match *self {
                    $(#[cfg(feature = $feature)] Self::$variant(ref mut state) => Traits::on_busy(state),)*
                }
            }

            pub(super) fn next_timeout(&self, rotation: &Rotation) -> Instant {
                match *self {
                    $(#[cfg(feature = $feature)]
                    Self::$variant(ref state) => rotation.next_timeout().min(Traits::next_timeout(state, rotation)),)*
                }
            }
        }

        impl Stored for Research {
            fn save(&self, to: &mut Writer<'_>) {
                match *self {
                    $(#[cfg(feature = $feature)]
                    Self::$variant(ref state) => {
                        <u8 as Stored>::save(&$number, to);
                        state.save(to);
                    })*
                }
            }

            fn load(from: &mut Reader<'_>) -> Option<Self> {
                match u8::load(from)? {
                    $(#[cfg(feature = $feature)] $number => Some(Self::$variant(Stored::load(from)?)),)*
                    _ => None,
                }
            }
        }
    };
}

impl Research {
    pub(super) fn select(
        &mut self,
        spray: Spray<'_>,
        now: Instant,
        ports: PortMask,
        avoid: Option<Ev>,
        rng: &mut Rng,
    ) -> Option<EvIndex> {
        self.over(spray, |selector| selector.select(now, ports, avoid, rng))
    }

    pub(super) fn on_feedback(
        &mut self,
        spray: Spray<'_>,
        now: Instant,
        index: EvIndex,
        what: Feedback,
        rng: &mut Rng,
    ) -> Option<Transition> {
        self.over(spray, |selector| selector.on_feedback(now, index, what, rng))
    }

    pub(super) fn poll_probe(
        &mut self,
        spray: Spray<'_>,
        now: Instant,
        ports: PortMask,
        idle: bool,
    ) -> Option<EvIndex> {
        self.over(spray, |selector| selector.poll_probe(now, ports, idle))
    }
}

research! {
    "hopper" Hopper = 0: hopper::HopperState, |cfg: &super::HopperConfig| cfg.first;
    "flowbender" FlowBender = 1: flowbender::FlowBenderState, |cfg: &super::FlowBenderConfig| cfg.first;
    "plb" Plb = 2: plb::PlbState, |cfg: &super::PlbConfig| cfg.first;
    "reps" Reps = 3: reps::RepsState, |_: &super::RepsConfig| EvIndex::NONE;
    "flowing-jumping" FlowingJumping = 4: flowing::FlowingState, |_: &super::FlowingJumpingConfig| EvIndex::NONE;
}
