//! Which QP slots are free. The slot whose QP was destroyed last comes first: caches still hold its memory.

use crate::first_free::FirstFree;
use crate::qp::Qp;

/// End of the list.
const NIL: u32 = u32::MAX;

/// Slots whose QPs were destroyed, linked through their field `peer`, and where the slots begin that had none.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreeQps {
    last: u32,
    begun: FirstFree,
}

impl FreeQps {
    /// Nothing was destroyed.
    pub(super) const NONE: Self = Self { last: NIL, begun: FirstFree::NONE };

    /// The slot of the next QP; [`FreeQps::take`] takes it.
    pub(super) fn find(&mut self, qps: &[Qp]) -> Option<usize> {
        match self.last {
            NIL => self.begun.find(qps, |qp| !qp.used),
            last => Some(last as usize),
        }
    }

    /// The slot that [`FreeQps::find`] found is in use from now on.
    pub(super) fn take(&mut self, qps: &[Qp], index: usize) {
        if self.last as usize == index
            && let Some(slot) = qps.get(index)
        {
            self.last = slot.peer;
        }
    }

    /// The QP of slot `index` was destroyed.
    pub(super) fn freed(&mut self, qps: &mut [Qp], index: u32) {
        if let Some(slot) = qps.get_mut(index as usize) {
            slot.peer = self.last;
            self.last = index;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::{Choice, EvIndex};
    use crate::qp::{QpInit, QpState};
    use crate::responder::{Answer, AnswerKind};
    use crate::{Instant, PortMask};
    use crate::{cq::CqHandle, mem::Pd};
    use mrc_wire::{Ev, PortNum, Psn, Qpn};

    fn create(free: &mut FreeQps, qps: &mut [Qp]) -> Option<usize> {
        let index = free.find(qps)?;
        free.take(qps, index);
        qps[index].begin(
            Qpn::new(7),
            &QpInit { pd: Pd(1), send_cq: CqHandle::from_index(0), recv_cq: CqHandle::from_index(0) },
        );
        Some(index)
    }

    fn destroy(free: &mut FreeQps, qps: &mut [Qp], index: u32) {
        qps[index as usize].reset();
        qps[index as usize].used = false;
        free.freed(qps, index);
    }

    #[test]
    fn the_slot_freed_last_comes_first_and_each_once() {
        let (mut free, mut qps) = (FreeQps::NONE, [Qp::EMPTY; 5]);
        assert_eq!([(); 4].map(|()| create(&mut free, &mut qps)), [Some(0), Some(1), Some(2), Some(3)]);
        for index in [1, 3, 0] {
            destroy(&mut free, &mut qps, index);
        }
        assert_eq!([(); 3].map(|()| create(&mut free, &mut qps)), [Some(0), Some(3), Some(1)]);
        assert_eq!([(); 2].map(|()| create(&mut free, &mut qps)), [Some(4), None], "then one that never was in use");
    }

    /// An image knows no list: its slots are found one after the other.
    #[test]
    fn slots_that_another_endpoint_freed_are_found() {
        let (mut free, mut qps) = (FreeQps::NONE, [Qp::EMPTY; 3]);
        for _ in 0..3 {
            create(&mut free, &mut qps);
        }
        destroy(&mut free, &mut qps, 2);
        destroy(&mut free, &mut qps, 1);
        let mut free = FreeQps::NONE;
        assert_eq!([(); 3].map(|()| create(&mut free, &mut qps)), [Some(1), Some(2), None]);
    }

    /// What a life leaves behind in states that have sent, and in those that have not.
    fn live(qp: &mut Qp, state: QpState, used: u8) {
        (qp.state, qp.req.was_heard, qp.req.last_heard) = (state, true, Instant::FAR);
        let sacks = (0..used).map(|psn| Answer { psn: Psn::new(psn.into()), ..Answer::of(AnswerKind::PLAIN_SACK) });
        sacks.for_each(|sack| qp.rsp.answers.push(sack));
        (0..used / 2).for_each(|_| qp.rsp.answers.pop());
        qp.paths.set_usable_ports(PortMask::NONE);
        for plane in 0..used.min(8) {
            let port = PortNum::from_plane(plane);
            qp.reverse.learn(Choice { ev: Ev(plane.into()), index: EvIndex::NONE, entry: 0, port });
            qp.reverse.on_probe_answered(qp.reverse.on(port).unwrap(), 1_000);
        }
        if matches!(state, QpState::Rts | QpState::Error) {
            qp.req.probes.begin_again(99);
            let ids: std::vec::Vec<u16> =
                (0..used).map(|ev| qp.req.probes.sent(EvIndex(ev.into()), Instant::ZERO)).collect();
            ids.iter().skip(1).for_each(|&id| _ = qp.req.probes.answered(id, Instant::ZERO));
            qp.req.probes.want(EvIndex(7));
        }
    }

    #[test]
    fn a_queue_pair_in_a_slot_that_was_in_use_is_as_in_a_new_one() {
        let states = [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts, QpState::Error];
        for (state, used) in states.into_iter().flat_map(|state| [0, 1, 5, 16, 70].map(|used| (state, used))) {
            one_life_leaves_nothing(state, used);
        }
    }

    fn one_life_leaves_nothing(state: QpState, used: u8) {
        let (mut free, mut qps) = (FreeQps::NONE, [Qp::EMPTY; 2]);
        create(&mut free, &mut qps);
        create(&mut free, &mut qps);
        live(&mut qps[0], state, used);
        destroy(&mut free, &mut qps, 1);
        destroy(&mut free, &mut qps, 0);
        create(&mut free, &mut qps);
        let mut new = Qp::EMPTY;
        new.begin(
            Qpn::new(7),
            &QpInit { pd: Pd(1), send_cq: CqHandle::from_index(0), recv_cq: CqHandle::from_index(0) },
        );
        assert_eq!(std::format!("{:?}", qps[0]), std::format!("{new:?}"), "{state:?} {used}");
    }
}
