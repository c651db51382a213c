//! Asks memory for what will be read, with the instruction that the processor has for it: it waits for nothing.

use mrc_core::Prefetch;

/// Brings a line of memory into all caches.
#[derive(Clone, Copy)]
pub(crate) struct Caches;

impl Prefetch for Caches {
    #[inline(always)]
    fn prefetch<T: Copy>(&self, word: &T) {
        prefetch_index::prefetch_index(std::slice::from_ref(word), 0);
    }
}
