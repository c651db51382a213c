//! The EVs of one plane in numbers. Source: `paths.md` 5 and 6.

use super::EvState;

/// EVs of one plane by state, and how many are in rotation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plane {
    pub(super) good: u16,
    pub(super) skip: u16,
    pub(super) bad: u16,
    pub(super) denied: u16,
    pub(super) active: u16,
}

impl Plane {
    pub(super) const NONE: Self = Self { good: 0, skip: 0, bad: 0, denied: 0, active: 0 };

    pub(super) fn of_state(&mut self, state: EvState) -> &mut u16 {
        match state {
            EvState::Good => &mut self.good,
            EvState::Skip => &mut self.skip,
            EvState::AssumedBad => &mut self.bad,
            EvState::Denied => &mut self.denied,
        }
    }

    /// Healthy EVs outside the rotation. Every active EV is healthy.
    pub(super) const fn spare(&self) -> u16 {
        self.good.saturating_add(self.skip).saturating_sub(self.active)
    }

    pub(super) const fn bad(&self) -> u16 {
        self.bad
    }

    /// `paths.md` 6 item 6.
    pub(super) const fn is_suspended(&self) -> bool {
        //= BAL-006
        self.good == 0 && self.skip == 0 && self.bad > 0
    }
}

crate::image::stored!(struct Plane { good, skip, bad, denied, active });
