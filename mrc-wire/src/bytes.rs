//! Reading and writing bytes at places that the compiler checks, without a panic at any level of optimisation.
//!
//! [`u16_at`] and [`u32_at`] read a field of a header whose length is known: a place beyond its end does not compile.
//! [`copy`] stands for `copy_from_slice`; [`set`] and [`fill`] build tables at compile time. Everything else uses `first_chunk`, `split_first_chunk` and `get`.

/// The two bytes at `AT`, most significant first.
#[inline(always)]
pub(crate) const fn u16_at<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u16 {
    match chunk_at::<AT, 2, N>(bytes) {
        Some(field) => u16::from_be_bytes(*field),
        None => 0,
    }
}

/// The four bytes at `AT`, most significant first.
#[inline(always)]
pub(crate) const fn u32_at<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u32 {
    match chunk_at::<AT, 4, N>(bytes) {
        Some(field) => u32::from_be_bytes(*field),
        None => 0,
    }
}

/// `LEN` bytes from `AT` on. There always are: the place is checked at compile time.
#[inline(always)]
pub(crate) const fn chunk_at<const AT: usize, const LEN: usize, const N: usize>(bytes: &[u8; N]) -> Option<&[u8; LEN]> {
    const { assert!(AT <= N && LEN <= N - AT, "the field ends beyond its header") };
    match bytes.split_at_checked(AT) {
        Some((_, from)) => from.first_chunk(),
        None => None,
    }
}

/// The last `LEN` bytes. `last_chunk` of the core library can panic where it is not inlined.
#[inline(always)]
pub(crate) const fn last<const LEN: usize>(bytes: &[u8]) -> Option<&[u8; LEN]> {
    let Some(at) = bytes.len().checked_sub(LEN) else { return None };
    match bytes.split_at_checked(at) {
        Some((_, last)) => last.first_chunk(),
        None => None,
    }
}

/// The last `LEN` bytes, to be written.
#[inline(always)]
pub(crate) fn last_mut<const LEN: usize>(bytes: &mut [u8]) -> Option<&mut [u8; LEN]> {
    split_last(bytes).map(|(_, last)| last)
}

/// What is before the last `LEN` bytes, and these.
#[inline(always)]
pub(crate) fn split_last<const LEN: usize>(bytes: &mut [u8]) -> Option<(&mut [u8], &mut [u8; LEN])> {
    let at = bytes.len().checked_sub(LEN)?;
    let (before, last) = bytes.split_at_mut_checked(at)?;
    Some((before, last.first_chunk_mut()?))
}

/// Copies as many bytes as both have. The compiler makes a `memcpy` of it.
#[inline(always)]
pub(crate) fn copy(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}

/// Sets the byte at `at`, which is inside of `bytes`. For tables.
pub(crate) const fn set(bytes: &mut [u8], at: usize, value: u8) {
    fill(bytes, at, 1, value);
}

/// Sets `len` bytes from `at` on, all of them inside of `bytes`. For tables.
pub(crate) const fn fill(bytes: &mut [u8], at: usize, len: usize, value: u8) {
    let Some((_, from)) = bytes.split_at_mut_checked(at) else { return };
    let Some((mut piece, _)) = from.split_at_mut_checked(len) else { return };
    while let Some((byte, rest)) = piece.split_first_mut() {
        *byte = value;
        piece = rest;
    }
}
