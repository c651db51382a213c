//! Where a thread waits for an event. Programs end such threads with `pthread_cancel`, which libc acts on in its own `read` only, and
//! then unwinds the stack up to the thread's beginning. A function of Rust does not let that pass: it aborts the process. So the
//! function that waits is one of assembly, and what comes before and after the wait are functions of Rust that it calls.
//!
//! On other machines than x86-64 a thread that waits cannot be cancelled.

/// What a function of Rust behind [`waiting`] answers when the event was withdrawn: wait again.
pub(crate) const AGAIN: core::ffi::c_int = 1;

/// Calls `ready`, the fourth argument, for the descriptor; reads one count from it; calls `take`, the fifth. Both have the first
/// three arguments. `take` ends the loop unless it answers [`AGAIN`]. Where a step fails (a negative answer and `errno`), what
/// `fail`, the sixth, answers is the answer.
///
/// # Safety
/// Only [`waiting`] jumps here.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn for_event() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbx",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbx, 0",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbp, 0",
        "push r12",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r12, 0",
        "push r13",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r13, 0",
        "push r14",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r14, 0",
        "push r15",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r15, 0",
        // Room for the count; the stack is aligned to 16 bytes then.
        "sub rsp, 24",
        ".cfi_adjust_cfa_offset 24",
        "mov rbx, rdi",
        "mov rbp, rsi",
        "mov r12, rdx",
        "mov r13, rcx",
        "mov r14, r8",
        "mov r15, r9",
        "2:",
        "mov rdi, rbx",
        "mov rsi, rbp",
        "mov rdx, r12",
        "call r13",
        "test eax, eax",
        "js 3f",
        "mov edi, eax",
        "mov rsi, rsp",
        "mov edx, 8",
        "call qword ptr [rip + {read}@GOTPCREL]",
        "cmp rax, 8",
        "jne 3f",
        "mov rdi, rbx",
        "mov rsi, rbp",
        "mov rdx, r12",
        "call r14",
        "cmp eax, {again}",
        "je 2b",
        "test eax, eax",
        "jns 4f",
        "3:",
        "call r15",
        "4:",
        "add rsp, 24",
        ".cfi_adjust_cfa_offset -24",
        "pop r15",
        ".cfi_adjust_cfa_offset -8",
        "pop r14",
        ".cfi_adjust_cfa_offset -8",
        "pop r13",
        ".cfi_adjust_cfa_offset -8",
        "pop r12",
        ".cfi_adjust_cfa_offset -8",
        "pop rbp",
        ".cfi_adjust_cfa_offset -8",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
        read = sym libc::read,
        again = const AGAIN,
    );
}

/// Takes one count from a descriptor, as libc does; -1 and `errno` otherwise.
#[cfg(any(test, not(target_arch = "x86_64")))]
pub(crate) fn take_count(fd: core::ffi::c_int) -> core::ffi::c_int {
    let mut count = 0u64;
    // SAFETY: room for the eight bytes of a count.
    let taken = unsafe { libc::read(fd, (&raw mut count).cast(), size_of::<u64>()) };
    if taken == size_of::<u64>() as isize { 0 } else { -1 }
}

/// `fn name(arguments) = what gives the descriptor, what takes the event, what answers a failure`; at most three arguments.
macro_rules! waiting {
    ($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),*) = $ready:path, $take:path, $fail:path) => {
        $(#[$doc])*
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> core::ffi::c_int {
            core::arch::naked_asm!(
                "lea rcx, [rip + {ready}]",
                "lea r8, [rip + {take}]",
                "lea r9, [rip + {fail}]",
                "jmp {wait}",
                ready = sym $ready,
                take = sym $take,
                fail = sym $fail,
                wait = sym $crate::wait::for_event,
            );
        }

        $(#[$doc])*
        #[cfg(not(target_arch = "x86_64"))]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> core::ffi::c_int {
            loop {
                // SAFETY: the arguments of this call, whose contract is the same.
                let fd = unsafe { $ready($($argument),*) };
                if fd < 0 || $crate::wait::take_count(fd) != 0 {
                    return $fail();
                }
                // SAFETY: as above.
                match unsafe { $take($($argument),*) } {
                    $crate::wait::AGAIN => {}
                    0 => return 0,
                    _ => return $fail(),
                }
            }
        }
    };
}

pub(crate) use waiting;

/// For calls that answer -1 and `errno`.
pub(crate) extern "C" fn minus_one() -> core::ffi::c_int {
    -1
}

/// For calls that answer with an error number.
pub(crate) extern "C" fn error_number() -> core::ffi::c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

#[cfg(test)]
mod tests {
    use core::ffi::c_int;
    use std::os::fd::AsRawFd as _;
    use std::sync::atomic::{AtomicU32, Ordering};

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    /// `fd` is in the first argument; `take` counts in the second, and withdraws as often as the third says.
    unsafe extern "C" fn ready(fd: usize, _: &AtomicU32, _: u32) -> c_int {
        fd as c_int
    }

    unsafe extern "C" fn take(_: usize, taken: &AtomicU32, withdrawn: u32) -> c_int {
        if taken.fetch_add(1, Ordering::AcqRel) < withdrawn { AGAIN } else { 0 }
    }

    waiting! { fn next(fd: usize, taken: &AtomicU32, withdrawn: u32) = ready, take, error_number }

    #[test]
    fn counts_are_taken_until_one_has_an_event() {
        let fd = eventfd(3, EventfdFlags::SEMAPHORE | EventfdFlags::NONBLOCK).unwrap();
        let (number, taken) = (fd.as_raw_fd() as usize, AtomicU32::new(0));
        // SAFETY: an open descriptor.
        unsafe {
            assert_eq!(next(number, &taken, 2), 0);
            assert_eq!((taken.load(Ordering::Acquire), next(number, &taken, 9)), (3, libc::EAGAIN));
            assert_eq!(next(usize::MAX, &taken, 0), libc::EAGAIN, "what went wrong before the wait");
        }
        assert_eq!(taken.load(Ordering::Acquire), 3, "without a count nothing is taken");
    }

    /// `pthread_cancel` ends the thread in the wait, and libc unwinds through it: the thread begins with it.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_thread_that_waits_can_be_cancelled() {
        use core::ffi::c_void;

        type Start = extern "C" fn(*mut c_void) -> *mut c_void;
        let fd = eventfd(0, EventfdFlags::SEMAPHORE).unwrap();
        // SAFETY: the function has more arguments than a thread gives it; nothing reads the others. The descriptor stays open.
        unsafe {
            let start = core::mem::transmute::<*const (), Start>(next as *const ());
            let (mut thread, mut ended) = (0, core::ptr::null_mut());
            let argument = fd.as_raw_fd() as usize as *mut c_void;
            assert_eq!(libc::pthread_create(&raw mut thread, core::ptr::null(), start, argument), 0);
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert_eq!((libc::pthread_cancel(thread), libc::pthread_join(thread, &raw mut ended)), (0, 0));
            assert_eq!(ended as isize, -1, "PTHREAD_CANCELED");
        }
    }
}
