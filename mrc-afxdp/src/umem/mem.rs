//! Registered application memory as raw bytes: [`MemRegion`].
//!
//! The application, the progress thread and, through them, remote peers share these bytes, so nobody ever holds a
//! reference into them: all access is by relaxed atomics, eight bytes wide where aligned. Values may be torn at the level
//! of a message, as on hardware, never at the level of an aligned word.
//!
//! Placement contract (`MemRegion::place`): stores ascend, aligned words are stored whole, the last bytes are stored
//! last. A CPU that polls the last word of a write therefore finds the rest of the write in place.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};
use std::io;

use crate::sys::mmap::Mapping;

/// An access outside a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("bytes {offset}+{len} leave the memory region of {region_len} bytes: check address and length of the request")]
pub struct OutOfBounds {
    /// First byte asked for.
    pub offset: u64,
    /// Bytes asked for.
    pub len: usize,
    /// Bytes of the region.
    pub region_len: usize,
}

#[derive(Debug)]
enum Owner {
    /// Unmapped on drop.
    Map(#[expect(dead_code, reason = "held for its Drop")] Mapping),
    /// Turned back into the vector it came from, on drop.
    Vec { capacity: usize },
    /// Somebody else's.
    Foreign,
}

/// Bytes that may be registered as a memory region. Share it by `Arc`; all methods take `&self`.
#[derive(Debug)]
pub struct MemRegion {
    base: NonNull<u8>,
    len: usize,
    owner: Owner,
}

// SAFETY: the bytes are accessed by atomics only, from any thread.
unsafe impl Send for MemRegion {}
// SAFETY: as above.
unsafe impl Sync for MemRegion {}

impl MemRegion {
    /// `len` zeroed bytes, page aligned, all pages present.
    ///
    /// # Errors
    /// The system is out of memory; `len` is zero.
    pub fn map(len: usize) -> io::Result<Self> {
        let map = Mapping::anonymous(len)?;
        Ok(Self { base: map.base(), len, owner: Owner::Map(map) })
    }

    /// The bytes of a vector, which moves in.
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        let mut bytes = core::mem::ManuallyDrop::new(bytes);
        let (len, capacity) = (bytes.len(), bytes.capacity());
        let base = NonNull::new(bytes.as_mut_ptr()).unwrap_or(NonNull::dangling());
        Self { base, len, owner: Owner::Vec { capacity } }
    }

    /// Memory of the caller, e.g. a buffer of a C program.
    ///
    /// # Safety
    /// `base` is valid for reads and writes of `len` bytes for as long as the region lives, and everybody accesses them
    /// through this region, by atomics or volatile, or while nothing is in flight to or from them.
    pub unsafe fn from_raw(base: NonNull<u8>, len: usize) -> Self {
        Self { base, len, owner: Owner::Foreign }
    }

    /// Address of the first byte, which peers use as the virtual address of the region.
    pub fn addr(&self) -> u64 {
        self.base.as_ptr() as u64
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// A region without bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Stores `bytes` at `offset` in ascending order, aligned words whole, the last ones after all others.
    ///
    /// # Errors
    /// [`OutOfBounds`]; nothing is stored then.
    pub fn place(&self, offset: u64, bytes: &[u8]) -> Result<(), OutOfBounds> {
        let start = self.check(offset, bytes.len())?;
        let (bulk, last) = bytes.split_at(last_words(self.base.as_ptr() as usize + start, bytes.len()));
        self.store(start, bulk);
        // Free on x86, whose stores stay in order; elsewhere it keeps the last bytes behind all others.
        fence(Ordering::Release);
        self.store(start + bulk.len(), last);
        Ok(())
    }

    /// Copies bytes at `offset` to `out`.
    ///
    /// # Errors
    /// [`OutOfBounds`]; `out` is untouched then.
    pub fn gather(&self, offset: u64, out: &mut [u8]) -> Result<(), OutOfBounds> {
        let start = self.check(offset, out.len())?;
        let (head, words) = split(self.base.as_ptr() as usize + start, out.len());
        let (first, rest) = out.split_at_mut(head);
        let (middle, tail) = rest.split_at_mut(words * 8);
        for (n, byte) in first.iter_mut().enumerate() {
            *byte = self.byte(start + n).load(Ordering::Relaxed);
        }
        let at = start + head;
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        self.load_bytes(at, middle);
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        for (n, word) in middle.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *word = self.word(at + 8 * n).load(Ordering::Relaxed).to_ne_bytes();
        }
        for (n, byte) in tail.iter_mut().enumerate() {
            *byte = self.byte(at + 8 * words + n).load(Ordering::Relaxed);
        }
        Ok(())
    }

    /// Fills `len` bytes at `offset` with `value`.
    ///
    /// # Errors
    /// [`OutOfBounds`].
    pub fn fill(&self, offset: u64, len: usize, value: u8) -> Result<(), OutOfBounds> {
        let start = self.check(offset, len)?;
        let block = [value; 4096];
        let mut done = 0;
        while done < len {
            let piece = block.get(..len - done).unwrap_or(&block);
            self.store(start + done, piece);
            done += piece.len();
        }
        Ok(())
    }

    /// Loads the aligned word at `offset`, acquire: what was placed before it is visible afterwards. For polling.
    ///
    /// # Errors
    /// [`OutOfBounds`], also when address + `offset` is not a multiple of eight.
    pub fn load_u64(&self, offset: u64) -> Result<u64, OutOfBounds> {
        let start = self.check(offset, 8)?;
        if !(self.base.as_ptr() as usize + start).is_multiple_of(8) {
            return Err(OutOfBounds { offset, len: 8, region_len: self.len });
        }
        Ok(self.word(start).load(Ordering::Acquire))
    }

    fn check(&self, offset: u64, len: usize) -> Result<usize, OutOfBounds> {
        usize::try_from(offset)
            .ok()
            .filter(|start| start.checked_add(len).is_some_and(|end| end <= self.len))
            .ok_or(OutOfBounds { offset, len, region_len: self.len })
    }

    /// Stores in ascending order; `start` and length were checked.
    fn store(&self, start: usize, bytes: &[u8]) {
        let (head, words) = split(self.base.as_ptr() as usize + start, bytes.len());
        let (first, rest) = bytes.split_at(head);
        let (middle, tail) = rest.split_at(words * 8);
        for (n, byte) in first.iter().enumerate() {
            self.byte(start + n).store(*byte, Ordering::Relaxed);
        }
        let at = start + head;
        // One word first where that aligns the wide stores.
        let odd = if (self.base.as_ptr() as usize + at).is_multiple_of(16) { 0 } else { middle.len().min(8) };
        if let Some(word) = middle[..odd].first_chunk() {
            self.word(at).store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        let done = odd + self.store_wide(at + odd, &middle[odd..]);
        // The atomics keep their order and are never merged into a memcpy, which has none.
        for (n, word) in middle[done..].as_chunks::<8>().0.iter().enumerate() {
            self.word(at + done + 8 * n).store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        for (n, byte) in tail.iter().enumerate() {
            self.byte(at + 8 * words + n).store(*byte, Ordering::Relaxed);
        }
    }

    /// Stores whole blocks of 64 bytes at `at` with aligned 16-byte stores, in order, and returns how many bytes it did.
    ///
    /// Twice as fast as words. CPUs with AVX store aligned 16 bytes at once; others get none done here. Assembly, since
    /// Rust has no 16-byte atomics and may reorder or merge plain vector stores.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn store_wide(&self, at: usize, bytes: &[u8]) -> usize {
        let aligned = (self.base.as_ptr() as usize + at).is_multiple_of(16);
        let blocks = bytes.len() / 64;
        if !aligned || blocks == 0 || !std::arch::is_x86_feature_detected!("avx") {
            return 0;
        }
        debug_assert!(at + bytes.len() <= self.len);
        // SAFETY: the caller checked that the target lies in the region; source and target hold `blocks` * 64 bytes; SSE2
        // is part of x86-64.
        unsafe {
            core::arch::asm!(
                "2:",
                "movdqu {a}, [{from}]",
                "movdqu {b}, [{from} + 16]",
                "movdqu {c}, [{from} + 32]",
                "movdqu {d}, [{from} + 48]",
                "movdqa [{to}], {a}",
                "movdqa [{to} + 16], {b}",
                "movdqa [{to} + 32], {c}",
                "movdqa [{to} + 48], {d}",
                "add {from}, 64",
                "add {to}, 64",
                "dec {count}",
                "jnz 2b",
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                from = inout(reg) bytes.as_ptr() => _,
                to = inout(reg) self.base.as_ptr().add(at) => _,
                count = inout(reg) blocks => _,
                options(nostack)
            );
        }
        blocks * 64
    }

    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    fn store_wide(&self, _at: usize, _bytes: &[u8]) -> usize {
        0
    }

    /// Copies bytes of the region to `out` in any order; the range was checked.
    ///
    /// A string move, since a gather promises no order and this takes half the time of word loads. It is assembly because
    /// others may write the bytes meanwhile, which a Rust copy must not see.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn load_bytes(&self, at: usize, out: &mut [u8]) {
        debug_assert!(at + out.len() <= self.len);
        // SAFETY: the caller checked that the source lies in the region; `out` is exclusively ours and as long as `rcx`
        // says; the direction flag is clear by the calling convention.
        unsafe {
            core::arch::asm!(
                "rep movsb",
                inout("rcx") out.len() => _,
                inout("rsi") self.base.as_ptr().add(at) => _,
                inout("rdi") out.as_mut_ptr() => _,
                options(nostack, preserves_flags)
            );
        }
    }

    fn byte(&self, at: usize) -> &AtomicU8 {
        debug_assert!(at < self.len);
        // SAFETY: callers checked bounds; the memory is valid while `self` lives; all access is atomic.
        unsafe { AtomicU8::from_ptr(self.base.as_ptr().add(at)) }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at + 8 <= self.len && (self.base.as_ptr() as usize + at).is_multiple_of(8));
        // SAFETY: as in `byte`; callers split at alignment.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) }
    }
}

/// Leading bytes up to alignment, and aligned words after them, of `len` bytes at `address`.
fn split(address: usize, len: usize) -> (usize, usize) {
    let head = (address.next_multiple_of(8) - address).min(len);
    (head, (len - head) / 8)
}

/// How many of `len` bytes at `address` come before the last (possibly partial) aligned word.
fn last_words(address: usize, len: usize) -> usize {
    let end = address + len;
    ((end.saturating_sub(1)) & !7).saturating_sub(address).min(len)
}

impl Drop for MemRegion {
    fn drop(&mut self) {
        if let Owner::Vec { capacity } = self.owner {
            // SAFETY: pointer, length and capacity come from the vector taken apart in `from_vec`.
            drop(unsafe { Vec::from_raw_parts(self.base.as_ptr(), self.len, capacity) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_and_gather_agree_for_every_alignment_and_short_length() {
        let region = MemRegion::map(4096).unwrap();
        let data: Vec<u8> = (0..200u32).map(|n| (n * 7 + 1) as u8).collect();
        for offset in 0..17u64 {
            for len in 0..=data.len() {
                region.fill(0, 512, 0xEE).unwrap();
                region.place(16 + offset, &data[..len]).unwrap();
                let mut all = [0; 512];
                region.gather(0, &mut all).unwrap();
                let start = 16 + offset as usize;
                assert!(all[..start].iter().all(|b| *b == 0xEE), "before {offset}+{len}");
                assert_eq!(all[start..start + len], data[..len], "{offset}+{len}");
                assert!(all[start + len..].iter().all(|b| *b == 0xEE), "after {offset}+{len}");
                let mut back = vec![0; len];
                region.gather(16 + offset, &mut back).unwrap();
                assert_eq!(back, data[..len]);
            }
        }
    }

    #[test]
    fn bounds_hold_and_refusals_touch_nothing() {
        let region = MemRegion::from_vec(vec![1; 10]);
        assert!(region.place(0, &[2; 10]).is_ok());
        let refused = region.place(3, &[9; 8]).unwrap_err();
        assert_eq!(refused, OutOfBounds { offset: 3, len: 8, region_len: 10 });
        assert!(region.place(u64::MAX, &[9]).is_err());
        assert!(region.gather(10, &mut [0]).is_err());
        assert!(region.gather(10, &mut []).is_ok());
        let mut all = [0; 10];
        region.gather(0, &mut all).unwrap();
        assert_eq!(all, [2; 10]);
    }

    #[test]
    fn foreign_memory_is_left_alone_on_drop() {
        let mut owner = vec![0u8; 64];
        // SAFETY: `owner` outlives the region and is not touched meanwhile.
        let region = unsafe { MemRegion::from_raw(NonNull::new(owner.as_mut_ptr()).unwrap(), owner.len()) };
        region.place(1, b"hello").unwrap();
        drop(region);
        assert_eq!(&owner[..7], b"\0hello\0");
    }

    #[test]
    fn a_poller_of_the_last_word_sees_the_whole_write() {
        const ROUNDS: u64 = if cfg!(miri) { 3 } else { 2000 };
        let region = std::sync::Arc::new(MemRegion::map(4096).unwrap());
        let writer = {
            let region = std::sync::Arc::clone(&region);
            std::thread::spawn(move || {
                for round in 1..=ROUNDS {
                    let bytes: Vec<u8> = round.to_ne_bytes().repeat(512);
                    region.place(0, &bytes).unwrap();
                    while region.load_u64(0).unwrap() != 0 {
                        std::hint::spin_loop();
                        std::thread::yield_now();
                    }
                }
            })
        };
        for round in 1..=ROUNDS {
            while region.load_u64(4088).unwrap() != round {
                std::thread::yield_now();
            }
            for word in 0..511 {
                assert_eq!(region.load_u64(8 * word).unwrap(), round);
            }
            // Answer in the first word, which the writer polls.
            region.place(0, &0u64.to_ne_bytes()).unwrap();
        }
        writer.join().unwrap();
    }

    #[test]
    fn the_last_word_is_split_off() {
        assert_eq!(last_words(0, 0), 0);
        assert_eq!(last_words(0, 8), 0);
        assert_eq!(last_words(0, 9), 8);
        assert_eq!(last_words(0, 4096), 4088);
        assert_eq!(last_words(3, 4), 0);
        assert_eq!(last_words(3, 6), 5);
    }
}
