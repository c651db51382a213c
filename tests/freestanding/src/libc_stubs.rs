//! The functions that compiled code may call whatever the source says. A firmware has its own.

/// Copies `n` bytes upward.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    // SAFETY: the caller's promise; volatile so that the loop does not become a call to itself.
    unsafe {
        for at in 0..n {
            to.add(at).write_volatile(from.add(at).read_volatile());
        }
    }
    to
}

/// Copies `n` bytes that may overlap.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    // SAFETY: the caller's promise; downward when the regions overlap that way.
    unsafe {
        if (to as usize) < from as usize {
            return memcpy(to, from, n);
        }
        for at in (0..n).rev() {
            to.add(at).write_volatile(from.add(at).read_volatile());
        }
    }
    to
}

/// Fills `n` bytes.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memset(to: *mut u8, value: i32, n: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe {
        for at in 0..n {
            to.add(at).write_volatile(value as u8);
        }
    }
    to
}

/// Compares `n` bytes.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        for at in 0..n {
            let (x, y) = (a.add(at).read_volatile(), b.add(at).read_volatile());
            if x != y {
                return i32::from(x) - i32::from(y);
            }
        }
    }
    0
}

/// Compares `n` bytes for equality.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { memcmp(a, b, n) }
}
