//! Pointers of C become references of Rust here, after the checks that can be made.
//!
//! What cannot be checked is the caller's promise, the same for every function of the interface: a pointer that is not NULL
//! points to what its type says, for as long as the call lasts; memory that is written to is not read or written by anybody
//! else meanwhile; an endpoint comes from `mrc_core_init` and no two calls on it overlap.

use core::slice;

use mrc_core::Instant;

use crate::{
    codes::{MRC_CORE_E_ALIGN, MRC_CORE_E_NO_ENDPOINT, MRC_CORE_E_NULL, MRC_CORE_NEVER},
    fault::{Fault, fault},
    memory::{ALIVE, mrc_core_endpoint},
};

/// A time of the caller. `MRC_CORE_NEVER` itself never comes: it counts as the moment before.
pub(crate) fn time(now_ns: u64) -> Instant {
    Instant::from_nanos(now_ns.min(MRC_CORE_NEVER - 1))
}

/// Refuses NULL and what is not aligned.
pub(crate) fn check<T>(ptr: *const T, what: &'static str) -> Result<(), Fault> {
    if ptr.is_null() {
        return Err(fault(MRC_CORE_E_NULL, what));
    }
    if !ptr.is_aligned() {
        return Err(fault(MRC_CORE_E_ALIGN, what));
    }
    Ok(())
}

/// What `ptr` points to.
///
/// # Safety
/// The caller's promise (module).
pub(crate) unsafe fn read<'a, T>(ptr: *const T, what: &'static str) -> Result<&'a T, Fault> {
    check(ptr, what)?;
    // SAFETY: not NULL and aligned; the rest is promised.
    Ok(unsafe { &*ptr })
}

/// Fills the out struct `ptr`, whose old content does not matter.
///
/// # Safety
/// The caller's promise (module).
pub(crate) unsafe fn write<T>(ptr: *mut T, what: &'static str, value: T) -> Result<(), Fault> {
    check(ptr, what)?;
    // SAFETY: not NULL and aligned; the rest is promised.
    unsafe { ptr.write(value) };
    Ok(())
}

/// `len` elements from `ptr` on; NULL is fine for none.
///
/// # Safety
/// The caller's promise (module).
pub(crate) unsafe fn slice<'a, T>(ptr: *const T, len: usize, what: &'static str) -> Result<&'a [T], Fault> {
    if len == 0 {
        return Ok(&[]);
    }
    check(ptr, what)?;
    if len.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > isize::MAX as usize) {
        return Err(fault(crate::MRC_CORE_E_RANGE, what));
    }
    // SAFETY: not NULL, aligned, a length that can exist; the rest is promised.
    Ok(unsafe { slice::from_raw_parts(ptr, len) })
}

/// As [`slice`](fn@slice), to write to.
///
/// # Safety
/// The caller's promise (module).
pub(crate) unsafe fn slice_mut<'a, T>(ptr: *mut T, len: usize, what: &'static str) -> Result<&'a mut [T], Fault> {
    if len == 0 {
        return Ok(&mut []);
    }
    check(ptr, what)?;
    if len.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > isize::MAX as usize) {
        return Err(fault(crate::MRC_CORE_E_RANGE, what));
    }
    // SAFETY: not NULL, aligned, a length that can exist; the rest is promised.
    Ok(unsafe { slice::from_raw_parts_mut(ptr, len) })
}

/// The endpoint.
///
/// # Safety
/// The caller's promise (module).
pub(crate) unsafe fn endpoint<'a>(ptr: *mut mrc_core_endpoint) -> Result<&'a mut mrc_core_endpoint, Fault> {
    check(ptr, "endpoint")?;
    // SAFETY: not NULL and aligned; the rest is promised. The mark comes first: an import has its own there.
    if unsafe { ptr.cast::<u64>().read() } != ALIVE {
        return Err(fault(MRC_CORE_E_NO_ENDPOINT, "endpoint"));
    }
    // SAFETY: as above; the mark says what it is.
    Ok(unsafe { &mut *ptr })
}

/// Runs `f` on the endpoint and makes a return code of its answer; a refusal's detail stays in the endpoint.
///
/// # Safety
/// The caller's promise (module).
pub(crate) unsafe fn call(
    ptr: *mut mrc_core_endpoint,
    f: impl FnOnce(&mut mrc_core_endpoint) -> Result<i32, Fault>,
) -> i32 {
    // SAFETY: passed on.
    let endpoint = match unsafe { endpoint(ptr) } {
        Ok(endpoint) => endpoint,
        Err(fault) => return fault.code,
    };
    match f(endpoint) {
        Ok(code) => code,
        Err(fault) => {
            endpoint.detail = fault.what;
            fault.code
        }
    }
}
