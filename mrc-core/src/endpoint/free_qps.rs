//! Which QP slots are free. The slot whose QP was destroyed last comes first: caches still hold its memory.

use super::peers::FirstFree;
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
    use crate::qp::QpInit;
    use crate::{cq::CqHandle, mem::Pd};
    use mrc_wire::Qpn;

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

    #[test]
    fn a_queue_pair_in_a_slot_that_was_in_use_is_as_in_a_new_one() {
        let (mut free, mut qps) = (FreeQps::NONE, [Qp::EMPTY; 2]);
        create(&mut free, &mut qps);
        create(&mut free, &mut qps);
        qps[0].req.probes.begin_after(&qps[1].req.probes.clone(), 99);
        destroy(&mut free, &mut qps, 1);
        destroy(&mut free, &mut qps, 0);
        create(&mut free, &mut qps);
        let mut new = Qp::EMPTY;
        new.begin(
            Qpn::new(7),
            &QpInit { pd: Pd(1), send_cq: CqHandle::from_index(0), recv_cq: CqHandle::from_index(0) },
        );
        assert_eq!(std::format!("{:?}", qps[0]), std::format!("{new:?}"));
    }
}
