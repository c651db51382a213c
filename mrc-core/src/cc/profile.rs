//! Congestion-control profiles: the configurations that QPs name.

use super::CcConfig;

crate::handle::handle! {
    /// A congestion-control profile: the configuration of every controller that QPs create by naming it; slot 0 is the endpoint's own.
    /// Stale once it is destroyed.
    CcProfileHandle, "cc_profiles"
}

/// One slot of the profile table, lent by the caller.
#[derive(Clone, Copy, Debug)]
pub struct CcProfile {
    pub(crate) config: Option<CcConfig>,
    /// Controllers that run it.
    pub(crate) users: u32,
    /// Profiles that were destroyed here.
    pub(crate) generation: u16,
}

impl CcProfile {
    /// Whether `profile`, which names the slot, is the one that is here.
    pub(crate) fn is(&self, profile: CcProfileHandle) -> bool {
        self.config.is_some() && self.generation == profile.generation()
    }

    /// An unused slot.
    pub const EMPTY: Self = Self { config: None, users: 0, generation: 0 };
}

crate::image::stored!(struct CcProfile { config, users, generation });
