//! How memory is told what will be read. The engine has no unsafe code, and stable Rust no other way to an instruction that only
//! asks for a line of memory: so the engine itself loads a word of each, and waits where many are missing. A caller that may use
//! that instruction says how.

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
