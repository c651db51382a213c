//! What the next choices of a path will read.

use super::{EvSlot, PathSet};
use crate::{Prefetch, rng::Rng};

impl PathSet {
    /// The line of memory that every packet reads of it.
    #[inline]
    pub(crate) fn fetch(&self, memory: &impl Prefetch) {
        memory.prefetch(self.rotation.hot());
    }

    /// Where the order has the choices for so many packets, if each takes the next number of `rng`.
    #[inline]
    fn picks<'a>(&self, order: &'a [u16], packets: u32, rng: &'a mut Rng) -> impl Iterator<Item = &'a u16> {
        let (order, mut at) = self.rotation.pass(order);
        (0..packets).filter_map(move |_| {
            at = if at < order.len() { at } else { 0 };
            // What the choices before swap is left out: a few of the EVs are then others.
            let pick = at.wrapping_add(rng.below(order.len().wrapping_sub(at) as u32) as usize);
            at = at.wrapping_add(1);
            order.get(pick)
        })
    }

    /// What the choices for so many packets read first.
    #[inline]
    pub(crate) fn fetch_order(&self, order: &[u16], packets: u32, rng: &mut Rng, memory: &impl Prefetch) {
        memory.prefetch_all(order.get(self.rotation.pass(order).1));
        self.picks(order, packets, rng).for_each(|pick| memory.prefetch(pick));
    }

    /// The EVs that they come to.
    #[inline]
    pub(crate) fn fetch_evs(
        &self,
        slots: &[EvSlot],
        order: &[u16],
        packets: u32,
        rng: &mut Rng,
        memory: &impl Prefetch,
    ) {
        for slot in self.picks(order, packets, rng).filter_map(|&index| slots.get(usize::from(index))) {
            slot.fetch(memory);
        }
    }
}
