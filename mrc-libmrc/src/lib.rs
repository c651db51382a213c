//! `lib_mrc.so`, also known as `libnv_mrc.so`: every call of `mrc.h` and `mrc_ctl.h`, forwarded to our `libibverbs.so.1`.
//!
//! The work is done there because the calls take contexts, domains and memory regions that were made there, and one
//! process has one device with one progress thread. This library has no state and a name of its own. It looks for its
//! functions when they are called first, under the version node `IBVERBS_MRC_1` that no other libibverbs has: a program that
//! runs over somebody else's library is told so, instead of failing to start or crashing over a foreign context.
#![deny(unsafe_op_in_unsafe_fn)]
#![allow(missing_docs, reason = "mrc.h and mrc_ctl.h say what each function does")]
#![allow(clippy::missing_safety_doc, reason = "the signatures are C's; the headers say what callers owe")]

#[path = "../../mrc-ibverbs/src/stderr.rs"]
mod stderr;

use std::ffi::CStr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

use core::ffi::{c_int, c_uint, c_void};
use core::ptr::null_mut;

/// A pointer that is only passed on.
type P = *mut c_void;

/// The function `name` of our libibverbs; null when another one is loaded or none can be.
fn find(slot: &AtomicPtr<c_void>, name: &CStr) -> P {
    let known = slot.load(Ordering::Acquire);
    if !known.is_null() {
        return known;
    }
    // SAFETY: strings that end with zero. Ours is never unloaded (`-z nodelete`), so that the handle need not be kept.
    let found = unsafe {
        let library = libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if library.is_null() { null_mut() } else { libc::dlvsym(library, name.as_ptr(), c"IBVERBS_MRC_1".as_ptr()) }
    };
    if found.is_null() {
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            stderr::say(
                "lib_mrc: the libibverbs.so.1 of this process has no MRC: start the program with `mrc verbs-run`",
            );
        });
        // SAFETY: the location is valid for this thread.
        unsafe { *libc::__errno_location() = libc::ENOSYS };
    }
    slot.store(found, Ordering::Release);
    found
}

/// `fn name(arguments) -> result = what it answers when there is nobody to ask`.
macro_rules! forward {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty = $without:expr)?;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            static SLOT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
            let name = concat!(stringify!($name), "\0");
            let Ok(name) = CStr::from_bytes_with_nul(name.as_bytes()) else { return $($without)? };
            let function = find(&SLOT, name);
            if function.is_null() {
                return $($without)?;
            }
            // SAFETY: the function of this name has this signature; a test compiles both against the headers.
            let function = unsafe {
                core::mem::transmute::<P, unsafe extern "C" fn($($type),*) $(-> $result)?>(function)
            };
            // SAFETY: the caller's arguments, for which the same contract holds.
            unsafe { function($($argument),*) }
        }
    )*};
}

/// As [`forward`], for calls in which a program may cancel the thread: libc then unwinds its stack, and a function of Rust would
/// abort the process. So they jump.
macro_rules! jump {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty = $without:expr;)*) => {$(
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            extern "C" fn function() -> P {
                static SLOT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
                let name = concat!(stringify!($name), "\0");
                CStr::from_bytes_with_nul(name.as_bytes()).map_or(null_mut(), |name| find(&SLOT, name))
            }
            core::arch::naked_asm!(
                // The arguments, at most three; the stack is aligned to 16 bytes then.
                ".cfi_startproc",
                "push rdi",
                "push rsi",
                "push rdx",
                ".cfi_adjust_cfa_offset 24",
                "call {function}",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                ".cfi_adjust_cfa_offset -24",
                "test rax, rax",
                "je 2f",
                "jmp rax",
                "2:",
                "mov eax, {without}",
                "ret",
                ".cfi_endproc",
                function = sym function,
                without = const $without,
            );
        }
        #[cfg(not(target_arch = "x86_64"))]
        forward! { fn $name($($argument: $type),*) -> $result = $without; }
    )*};
}

/// Calls that answer like those of verbs.
const NO: c_int = libc::ENOSYS;

jump! {
    fn mrc_get_cq_event(channel: P, cq: P, cq_context: P) -> c_int = -1;
    fn mrc_get_async_event(context: P, event: P) -> c_int = NO;
}

forward! {
    fn mrc_query_device(context: P, attr: P, supported: P) -> c_int = -1;
    fn mrc_query_device_ex(context: P, mrc: P, attr: P, supported: P) -> c_int = -1;
    fn mrc_query_version(current: P, last: P, vendor: P, vendor_last: P);
    fn mrc_create_context(context: P, attr: P) -> P = null_mut();
    fn mrc_destroy_context(context: P) -> c_int = -1;
    fn mrc_create_comp_channel(context: P, channel: P) -> c_int = NO;
    fn mrc_get_comp_channel_fd(channel: P, fd: P) -> c_int = -1;
    fn mrc_destroy_comp_channel(channel: P) -> c_int = NO;
    fn mrc_create_cq(context: P, cqe: c_int, cq_context: P, channel: P, vector: c_int) -> P = null_mut();
    fn mrc_poll_cq(cq: P, entries: c_int, wc: P) -> c_int = -1;
    fn mrc_destroy_cq(cq: P) -> c_int = NO;
    fn mrc_req_notify_cq(cq: P, solicited_only: c_int) -> c_int = NO;
    fn mrc_ack_cq_events(cq: P, events: c_uint);
    fn mrc_create_qp_hint(context: P, attr: P) -> P = null_mut();
    fn mrc_destroy_qp_hint(hint: P) -> c_int = -1;
    fn mrc_query_qp_hint(hint: P, attr: P, mask: c_int) -> c_int = -1;
    fn mrc_modify_qp_hint(hint: P, attr: P, mask: c_int) -> c_int = -1;
    fn mrc_create_qp(context: P, attr: P) -> P = null_mut();
    fn mrc_destroy_qp(qp: P) -> c_int = NO;
    fn mrc_query_qp(qp: P, attr: P, mask: c_int, mrc: P, mrc_mask: c_int, init: P) -> c_int = NO;
    fn mrc_modify_qp(qp: P, attr: P, mask: c_int, mrc: P, mrc_mask: c_int) -> c_int = NO;
    fn mrc_get_qpn(qp: P, qpn: P) -> c_int = -1;
    fn mrc_post_send(qp: P, wr: P, bad: P) -> c_int = NO;
    fn mrc_post_recv(qp: P, wr: P, bad: P) -> c_int = -1;
    fn mrc_ack_async_event(event: P);
    fn mrc_ctl_query_device(context: P, attr: P) -> c_int = -1;
    fn mrc_ctl_query_device_ex(context: P, mrc: P, attr: P, supported: P) -> c_int = -1;
    fn mrc_ctl_query_version(current: P, last: P, vendor: P, vendor_last: P);
    fn mrc_ctl_query_port(context: P, port: u8, attr: P, mask: c_int) -> c_int = -1;
    fn mrc_ctl_modify_port(context: P, port: u8, attr: P, mask: c_int) -> c_int = -1;
    fn mrc_ctl_query_ev_fmt_profile(context: P, id: u64, attr: P, mask: c_int) -> c_int = -1;
    fn mrc_ctl_modify_ev_fmt_profile(context: P, id: u64, attr: P, mask: c_int) -> c_int = -1;
    fn mrc_ctl_query_ev_profile(context: P, id: u64, attr: P, mask: c_int) -> c_int = -1;
    fn mrc_ctl_modify_ev_profile(context: P, id: u64, attr: P, mask: c_int) -> c_int = -1;
    fn mrc_ctl_query_cc_profile(context: P, id: u64, attr: P, mask: c_int) -> c_int = -1;
    fn mrc_ctl_modify_cc_profile(context: P, id: u64, attr: P, mask: c_int) -> c_int = -1;
    fn mrc_ctl_create_ev_event_cq(context: P, cqe: c_int, cq_context: P, channel: P, vector: c_int) -> P = null_mut();
    fn mrc_ctl_poll_ev_event(cq: P, entries: c_int, events: P) -> c_int = -NO;
    fn mrc_ctl_ep_batch_send_wait(
        context: P, tc: u8, op: c_uint, requests: P, count: c_int, timeout_ns: u32, responses: P, answered: P
    ) -> c_int = -1;
}

/// Answers that no device is an mlx5 one. Programs made for another library of this name look for the function here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlx5dv_is_supported(_device: P) -> bool {
    false
}
