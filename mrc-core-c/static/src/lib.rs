//! `libmrc_core.a` for C. Owns the panic handler and nothing else; the interface is that of `mrc-core-c`.
//!
//! The panic handler calls a function that exists nowhere: an image links only when the optimised code of the calls it
//! uses cannot reach a panic.
#![no_std]

pub use mrc_core_c::*;

unsafe extern "C" {
    safe fn mrc_core_a_panic_is_reachable() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    mrc_core_a_panic_is_reachable()
}

/// Divides by the number of ports that are up, unchecked.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[cfg(feature = "bad")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_bad(endpoint: *mut mrc_core_endpoint) -> u32 {
    // SAFETY: passed on.
    let up = unsafe { mrc_core_ports_up(endpoint) };
    100 / up
}
