//! What the single-path policies share: the path a QP is on, and how it gets off a path that cannot be used. Health and
//! probes of bad paths are those of [`Spray`]; so a path that dies is retired, probed and revived as under MRC.
#![cfg_attr(not(feature = "research"), allow(dead_code, reason = "selectors of research use the rest"))]

use super::{EvIndex, Feedback, PathSelector, spray::Spray};
use crate::{port::PortMask, rng::Rng, time::Instant};
use mrc_wire::Verdict;

/// The path of a QP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Current {
    /// `EvIndex::NONE` until the first packet.
    pub(super) index: EvIndex,
    /// The next packet takes another path, if there is one.
    pub(super) leave: bool,
}

impl Current {
    pub(super) const NONE: Self = Self { index: EvIndex::NONE, leave: false };

    /// The path of the next packet: the same as before while it is healthy and its port up, else a random healthy one
    /// from then on. O(1) but for the draw.
    //= HOP-012, FLB-005
    #[inline]
    pub(super) fn settle(
        &mut self,
        spray: &mut Spray<'_>,
        now: Instant,
        ports: PortMask,
        rng: &mut Rng,
    ) -> Option<EvIndex> {
        let slot = spray.slots.get(self.index.0 as usize).copied();
        if let Some(slot) = slot.filter(|slot| !self.leave && slot.is_healthy()) {
            if ports.contains(slot.port()) {
                return Some(self.index);
            }
            if spray.rotation.usable().contains(slot.port()) {
                // The port is merely busy: this packet waits for it, another path would reorder for nothing.
                return None;
            }
        }
        let index = spray.select(now, ports, slot.map(|slot| slot.ev()), rng)?;
        // A bad path of last resort carries one packet, not the flow.
        if spray.slots.get(index.0 as usize).is_some_and(|slot| slot.is_healthy()) {
            *self = Self { index, leave: false };
        }
        Some(index)
    }
}

/// Whether `what` concerns the health of an EV when there is only one in use: congestion marks and trims, which under
/// spraying make a packet pass the EV by, are here for the policy to judge.
pub(super) fn is_health(what: Feedback) -> bool {
    match what {
        Feedback::Sack(verdict) => verdict != Verdict::SkipOnce,
        Feedback::Timeout | Feedback::Loss { .. } | Feedback::ProbeAnswer(_) | Feedback::ProbeLost => true,
        _ => false,
    }
}

crate::image::stored!(struct Current { index, leave });
