//! Every call of `mrc-core` and `mrc-wire` as an image of its own: no std, no allocator, no libc.
//!
//! The panic handler calls a function that exists nowhere: an image links only when the code of its call cannot reach a
//! panic. All arguments are opaque to the optimiser. `tests/cross/tests/freestanding.rs` links the images, at every level of
//! optimisation; they are never run.
#![no_std]
#![allow(improper_ctypes_definitions, reason = "nobody calls an image from C")]
#![allow(unused_must_use, reason = "an image wants no result")]

/// Functions named `image_*` that take an endpoint of any content.
macro_rules! images {
    ($($name:ident($e:ident) $body:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($e: &mut mrc_core::Endpoint<'static>) {
            core::hint::black_box($body);
        }
    )*};
}

mod calls;
mod libc_stubs;
mod parts;
mod storage;
mod wire_calls;

use core::hint::black_box;

unsafe extern "C" {
    safe fn A_PANIC_IS_REACHABLE() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    A_PANIC_IS_REACHABLE()
}

/// A value of any content, by reference.
fn any<T>() -> &'static mut T {
    // SAFETY: never executed; the optimiser knows the type and nothing else.
    unsafe { &mut *black_box(core::ptr::dangling_mut()) }
}

/// A slice of any content and length.
fn some<T>() -> &'static mut [T] {
    // SAFETY: never executed.
    unsafe { core::slice::from_raw_parts_mut(black_box(core::ptr::dangling_mut()), black_box(0)) }
}

#[cfg(feature = "bad")]
images! {
    image_bad(_e) some::<u8>()[black_box(3)];
}
