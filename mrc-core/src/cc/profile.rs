//! Congestion-control profiles: the configurations that QPs name.

use super::CcConfig;

/// A congestion-control profile: the configuration of every controller that QPs create by naming it. Its slot number: the next one
/// in the slot answers to an old handle.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CcProfileHandle(pub(crate) u32);

impl CcProfileHandle {
    /// Slot of the profile, below `Limits::cc_profiles`; 0 is the endpoint's own.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The handle of a slot; calls refuse it while the slot is unused.
    pub const fn from_index(index: u32) -> Self {
        Self(index)
    }
}

/// One slot of the profile table, lent by the caller.
#[derive(Clone, Copy, Debug)]
pub struct CcProfile {
    pub(crate) config: Option<CcConfig>,
    /// Controllers that run it.
    pub(crate) users: u32,
}

impl CcProfile {
    /// An unused slot.
    pub const EMPTY: Self = Self { config: None, users: 0 };
}

crate::image::stored!(newtype CcProfileHandle);
crate::image::stored!(struct CcProfile { config, users });
