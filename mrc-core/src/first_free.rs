//! Where the first free slot of a table is: regions, completion queues, peers, profiles, controllers and queue pairs take it.

/// Where to look for the first free slot of a table: none before it is free.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FirstFree(usize);

impl FirstFree {
    /// Every slot is free.
    pub(crate) const NONE: Self = Self(0);

    /// The first slot that is free.
    pub(crate) fn find<T>(&mut self, slots: &[T], is_free: impl Fn(&T) -> bool) -> Option<usize> {
        let behind = slots.get(self.0..).unwrap_or_default();
        let skipped = behind.iter().position(is_free);
        self.0 = self.0.saturating_add(skipped.unwrap_or(behind.len()));
        skipped.map(|_| self.0)
    }

    /// Slot `index` is free again.
    pub(crate) fn freed(&mut self, index: u32) {
        self.0 = self.0.min(index as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use std::vec;

    /// Against a search from the first slot on.
    #[test]
    fn the_first_free_slot_is_found_from_where_the_last_one_was() {
        let (mut slots, mut first, mut rng) = (vec![false; 30], FirstFree::default(), Rng::new(13));
        for _ in 0..3_000 {
            if rng.below(2) == 0 {
                let found = first.find(&slots, |used| !used);
                assert_eq!(found, slots.iter().position(|used| !used));
                found.into_iter().for_each(|at| slots[at] = true);
            } else {
                let at = rng.below(30);
                slots[at as usize] = false;
                first.freed(at);
            }
        }
    }
}
