//! How memory is told what will be read. Without the feature `prefetch` the engine itself loads a word of each line, and waits where
//! many are missing: it has no unsafe code, and stable Rust has no other safe way to the instruction that only asks for a line. With the
//! feature, which needs `std`, a crate that wraps this instruction asks. A caller of the engine may also say how.

/// Asks memory for a line.
pub trait Prefetch {
    /// The line with `word` will be read soon.
    fn prefetch<T: Copy>(&self, word: &T);

    /// The same of several, or of one that may not be there.
    #[inline(always)]
    fn prefetch_all<'a, T: Copy + 'a>(&self, words: impl IntoIterator<Item = &'a T>) {
        words.into_iter().for_each(|word| self.prefetch(word));
    }
}

/// Loads the words.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loads;

impl Prefetch for Loads {
    #[inline(always)]
    fn prefetch<T: Copy>(&self, word: &T) {
        core::hint::black_box(*word);
    }
}

/// Asks with the instruction that waits for nothing.
#[cfg(feature = "prefetch")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instruction;

#[cfg(feature = "prefetch")]
impl Prefetch for Instruction {
    #[inline(always)]
    fn prefetch<T: Copy>(&self, word: &T) {
        prefetch_index::prefetch_index(core::slice::from_ref(word), 0);
    }
}

/// How the engine itself reads ahead.
#[cfg(feature = "prefetch")]
pub(crate) const HINTS: Instruction = Instruction;
#[cfg(not(feature = "prefetch"))]
pub(crate) const HINTS: Loads = Loads;

/// Notes what is asked for.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct Asked(core::cell::RefCell<std::collections::BTreeSet<usize>>);

#[cfg(test)]
impl Prefetch for Asked {
    fn prefetch<T: Copy>(&self, word: &T) {
        self.0.borrow_mut().insert(core::ptr::from_ref(word).addr());
    }
}

#[cfg(test)]
impl Asked {
    /// Different words within `it` that were asked for.
    pub(crate) fn within<T: ?Sized>(&self, it: &T) -> usize {
        let first = core::ptr::from_ref(it).addr();
        self.0.borrow().range(first..first + size_of_val(it)).count()
    }

    /// All words that were asked for.
    pub(crate) fn words(&self) -> usize {
        self.0.borrow().len()
    }
}
