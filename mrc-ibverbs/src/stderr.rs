//! Lines on the program's standard error. A library may neither end its program nor stop it for the sake of a message:
//! whatever standard error is (closed, a pipe without a reader, a full pipe, a stopped terminal), [`say`] returns at once.
//! A line that cannot be written is lost; the next one that can says how many were.
//!
//! `lib_mrc.so` compiles this file, too.

use std::sync::atomic::{AtomicU32, Ordering};

use core::ffi::c_int;
use core::mem::MaybeUninit;

/// Longest line in bytes: `PIPE_BUF`, for which a pipe that polls as writable has room.
const LONGEST: usize = 4096;

/// Lines lost since the last one that was written.
static LOST: AtomicU32 = AtomicU32::new(0);

/// Writes one line, or loses it.
pub(crate) fn say(line: &str) {
    say_to(libc::STDERR_FILENO, line, &LOST);
}

fn say_to(fd: c_int, line: &str, lost: &AtomicU32) {
    let before = lost.load(Ordering::Relaxed);
    let mut text = String::with_capacity(line.len() + 1);
    text.push_str(line);
    if before > 0 {
        text.push_str(&format!(" ({before} lines before this one were lost: standard error took none)"));
    }
    text.truncate(text.floor_char_boundary(LONGEST - 1));
    text.push('\n');
    if uncancelled(|| without_sigpipe(|| write(fd, text.as_bytes()))) {
        lost.fetch_sub(before, Ordering::Relaxed);
    } else {
        lost.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes the line if that does not block; whether it did.
fn write(fd: c_int, line: &[u8]) -> bool {
    let mut state = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one structure, and no time to wait.
    let ready = unsafe { libc::poll(&raw mut state, 1, 0) };
    // An error or a reader that is gone is reported beside POLLOUT.
    if ready != 1 || state.revents != libc::POLLOUT {
        return false;
    }
    let piece = libc::iovec { iov_base: line.as_ptr().cast_mut().cast(), iov_len: line.len() };
    // Another writer may have filled a pipe since. Where the kernel can refuse to wait it shall; a file may want to wait for
    // its disk, which ends.
    // SAFETY: one piece, which is `line`.
    let written = unsafe { libc::pwritev2(fd, &raw const piece, 1, -1, libc::RWF_NOWAIT) };
    if written >= 0 {
        return true;
    }
    match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::EAGAIN) if !is_file(fd) => false,
        Some(libc::EAGAIN | libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS | libc::ESPIPE) => {
            // SAFETY: `line` is readable.
            unsafe { libc::write(fd, line.as_ptr().cast(), line.len()) >= 0 }
        }
        _ => false,
    }
}

fn is_file(fd: c_int) -> bool {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: room for one structure, which is read only after the call filled it.
    unsafe { libc::fstat(fd, stat.as_mut_ptr()) == 0 && stat.assume_init().st_mode & libc::S_IFMT == libc::S_IFREG }
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Runs `f` so that a thread which the program has cancelled goes on behind it. libc ends such a thread in calls that may block,
/// and whoever says something here may hold a lock.
fn uncancelled<R>(f: impl FnOnce() -> R) -> R {
    const DISABLED: c_int = 1;
    let mut before = 0;
    // SAFETY: room for a number.
    let disabled = unsafe { pthread_setcancelstate(DISABLED, &raw mut before) } == 0;
    let result = f();
    if disabled {
        // SAFETY: what it was; not every libc takes null for what it is.
        unsafe { pthread_setcancelstate(before, &raw mut before) };
    }
    result
}

/// Runs `f` so that a pipe whose reader goes meanwhile sends this thread no signal, which would end the program.
fn without_sigpipe<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: sets of signals on our stack, initialised before they are read; no time to wait.
    unsafe {
        let (mut pipe, mut before, mut pending) =
            (MaybeUninit::uninit(), MaybeUninit::uninit(), MaybeUninit::<libc::sigset_t>::zeroed());
        libc::sigemptyset(pipe.as_mut_ptr());
        libc::sigaddset(pipe.as_mut_ptr(), libc::SIGPIPE);
        libc::sigpending(pending.as_mut_ptr());
        let waits = libc::sigismember(pending.as_ptr(), libc::SIGPIPE) == 1;
        let masked = libc::pthread_sigmask(libc::SIG_BLOCK, pipe.as_ptr(), before.as_mut_ptr()) == 0;
        let result = f();
        if masked {
            // One that waited before is the program's own.
            if !waits {
                let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
                libc::sigtimedwait(pipe.as_ptr(), core::ptr::null_mut(), &raw const now);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), core::ptr::null_mut());
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsRawFd as _;

    use super::*;

    /// Fills a pipe to its last byte.
    fn fill(mut writer: &std::io::PipeWriter) {
        // SAFETY: a flag of a descriptor that is ours.
        unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        while writer.write(&[b'x'; 512]).is_ok() {}
        // SAFETY: as above.
        unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, 0) };
    }

    #[test]
    fn a_line_that_cannot_be_written_is_lost_and_counted() {
        let lost = AtomicU32::new(0);
        let (mut reader, writer) = std::io::pipe().unwrap();
        fill(&writer);
        say_to(writer.as_raw_fd(), "one", &lost);
        say_to(writer.as_raw_fd(), "two", &lost);
        assert_eq!(lost.load(Ordering::Relaxed), 2);
        let mut junk = vec![0; 1 << 20];
        assert!(reader.read(&mut junk).unwrap() > 0);
        say_to(writer.as_raw_fd(), "three", &lost);
        assert_eq!(lost.load(Ordering::Relaxed), 0);
        drop(writer);
        let mut text = Vec::new();
        reader.read_to_end(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.ends_with("three (2 lines before this one were lost: standard error took none)\n"), "{text}");
        assert!(!text.contains("one\n"));
    }

    #[test]
    fn a_reader_that_is_gone_and_a_closed_descriptor_harm_nobody() {
        // Rust programs ignore the signal; the programs that load us do not.
        // SAFETY: the default action is what this test is about.
        let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let lost = AtomicU32::new(0);
        say_to(writer.as_raw_fd(), "text", &lost);
        // Without the look before: the signal is taken back.
        // SAFETY: readable bytes.
        let written = without_sigpipe(|| unsafe { libc::write(writer.as_raw_fd(), b"x".as_ptr().cast(), 1) });
        assert_eq!(written, -1);
        say_to(-1, "text", &lost);
        assert_eq!(lost.load(Ordering::Relaxed), 2);
        // SAFETY: what it was.
        unsafe { libc::signal(libc::SIGPIPE, before) };
    }

    #[test]
    fn a_thread_that_the_program_cancelled_goes_on() {
        extern "C" fn thread(fd: *mut core::ffi::c_void) -> *mut core::ffi::c_void {
            // SAFETY: this thread, which nobody else ends.
            unsafe { libc::pthread_cancel(libc::pthread_self()) };
            say_to(fd as usize as c_int, "text", &AtomicU32::new(0));
            fd
        }
        let (mut reader, writer) = std::io::pipe().unwrap();
        let argument = writer.as_raw_fd() as usize as *mut core::ffi::c_void;
        let (mut started, mut ended) = (0, core::ptr::null_mut());
        // SAFETY: the thread ends before the pipe is closed.
        unsafe {
            assert_eq!(libc::pthread_create(&raw mut started, core::ptr::null(), thread, argument), 0);
            assert_eq!(libc::pthread_join(started, &raw mut ended), 0);
        }
        assert_eq!(ended, argument);
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text\n");
    }

    #[test]
    fn long_lines_are_cut_and_files_are_written() {
        let mut file = tempfile();
        say_to(file.as_raw_fd(), &"ä".repeat(4000), &AtomicU32::new(0));
        let mut text = String::new();
        std::io::Seek::rewind(&mut file).unwrap();
        file.read_to_string(&mut text).unwrap();
        assert!(text.len() <= LONGEST && text.ends_with("ä\n"));
    }

    fn tempfile() -> std::fs::File {
        let path = std::env::temp_dir().join(format!("mrc-stderr-{}", std::process::id()));
        let file = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }
}
