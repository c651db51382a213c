//! How evenly one QP uses its planes (`PathConfig::plane_lead`). Does not know which plane has room: the engine asks which
//! planes may have the next packet and says which one had it.
//!
//! Among many QPs a port that becomes free goes to the next one. One QP's shares of the planes then drift apart like a
//! random walk, and so does the load of a receiver's links. A QP that leaves free ports to others while it is ahead
//! there keeps its shares equal.

use core::mem;

use mrc_wire::PortNum;

use super::MAX_PLANES;
use crate::port::PortMask;

/// What a QP has given to each plane beyond what it gave to the least used one.
#[derive(Clone, Debug)]
pub(super) struct PlaneBalance {
    ahead: [u8; MAX_PLANES],
    /// The planes that are compared, as ports.
    among: PortMask,
    /// Those as far ahead as they may be. Never all that are compared: the least used is not ahead.
    full: PortMask,
    /// The next packet may take any plane.
    waived: bool,
    /// The last packet found room, but only where its QP is ahead.
    yielded: bool,
}

impl PlaneBalance {
    pub(super) const EVEN: Self =
        Self { ahead: [0; MAX_PLANES], among: PortMask::NONE, full: PortMask::NONE, waived: false, yielded: false };

    #[inline]
    pub(super) const fn full(&self) -> PortMask {
        self.full
    }

    /// Whether the next packet leaves all of `ports` to others; both as for [`Self::allow`].
    //= BAL-007
    #[inline]
    pub(super) fn leaves(&self, ports: PortMask, among: PortMask) -> bool {
        !ports.is_empty() && ports.minus(self.full).is_empty() && among == self.among
    }

    /// Those of `ports`, all of them planes in use, that may have the next packet; `among` are all planes in use. When
    /// they have changed, nobody is ahead: who was away owes nothing.
    //= BAL-007
    pub(super) fn allow(&mut self, ports: PortMask, among: PortMask) -> PortMask {
        if among != self.among {
            *self = Self { among, ..Self::EVEN };
        }
        let allowed = if self.waived { ports } else { ports.minus(self.full) };
        self.waived = false;
        self.yielded = allowed.is_empty() && !ports.is_empty();
        allowed
    }

    /// Plane `plane` had its turn.
    pub(super) fn count(&mut self, plane: usize, lead: u8) {
        let port = PortNum::from_plane(plane as u8);
        let Some(turns) = self.ahead.get_mut(plane).filter(|_| self.among.contains(port)) else { return };
        *turns = turns.saturating_add(1);
        let least = self.among.planes().filter_map(|plane| self.ahead.get(plane)).min().copied().unwrap_or(0);
        // All others stay what they are while one of them is where it was.
        let changed = if least == 0 { PortMask::NONE.with(port) } else { self.among };
        for plane in changed.planes() {
            let Some(ahead) = self.ahead.get_mut(plane) else { continue };
            // What was waived is not owed for ever.
            *ahead = ahead.saturating_sub(least).min(lead);
            let (is_full, port) = (*ahead >= lead, PortNum::from_plane(plane as u8));
            self.full = if is_full { self.full.with(port) } else { self.full.without(port) };
        }
    }

    /// See [`super::PathSet::take_yielded`].
    #[inline]
    pub(super) fn take_yielded(&mut self) -> bool {
        mem::take(&mut self.yielded)
    }

    /// See [`super::PathSet::waive_lead`].
    pub(super) fn waive(&mut self) {
        self.waived = true;
    }
}

crate::image::stored!(struct PlaneBalance { ahead, among, full, waived, yielded });

#[cfg(test)]
mod tests {
    use super::*;

    //= BAL-007 test
    #[test]
    fn only_ports_of_planes_that_are_ahead_are_left_to_others() {
        let [a, b] = [0, 1].map(|plane| PortMask::NONE.with(PortNum::from_plane(plane)));
        let both = PortMask::first(2);
        let mut balance = PlaneBalance::EVEN;
        assert_eq!(balance.allow(a, both), a);
        balance.count(0, 1);
        assert!(balance.leaves(a, both) && !balance.leaves(b, both) && !balance.leaves(both, both));
        assert!(!balance.leaves(PortMask::NONE, both), "there is no port to leave");
        assert!(!balance.leaves(a, a), "without another plane nobody is ahead");
        assert_eq!((balance.allow(a, both), balance.take_yielded()), (PortMask::NONE, true));
        assert_eq!(balance.allow(a, a), a);
    }
}
