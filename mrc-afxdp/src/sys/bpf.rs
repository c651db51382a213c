//! bpf(2): the XSKMAP, the XDP program, and the link that ties the program to an interface.
//!
//! A link, unlike the older netlink attach, detaches by itself when its last descriptor closes: also after a crash.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::{self, Errno};

use crate::bpf::xdp::Insn;

const MAP_CREATE: i32 = 0;
const MAP_UPDATE: i32 = 2;
const PROG_LOAD: i32 = 5;
const LINK_CREATE: i32 = 28;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_TYPE_XDP: u32 = 37;
const XDP_HAS_FRAGS: u32 = 1 << 5;

/// Attach flags of XDP.
pub(crate) const SKB_MODE: u32 = 1 << 1;
pub(crate) const DRIVER_MODE: u32 = 1 << 2;

/// `union bpf_attr`, written field by field at the offsets of the kernel header.
#[repr(C, align(8))]
struct Attr([u8; 128]);

impl Attr {
    fn new() -> Self {
        Self([0; 128])
    }
    fn u32(mut self, at: usize, value: u32) -> Self {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }
    fn u64(mut self, at: usize, value: u64) -> Self {
        self.0[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        self
    }
    fn fd(self, at: usize, fd: BorrowedFd<'_>) -> Self {
        self.u32(at, fd.as_raw_fd() as u32)
    }
}

/// # Safety
/// Every address in `attr` is valid for what `command` does with it, for the duration of the call.
unsafe fn bpf(command: i32, attr: &mut Attr) -> io::Result<i32> {
    // SAFETY: the attribute block is 128 writable bytes; the rest is the caller's promise.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr.0.as_mut_ptr(), attr.0.len()) };
    if result < 0 { Err(last_errno()) } else { Ok(result as i32) }
}

/// The error of the last libc call of this thread.
pub(crate) fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// # Safety
/// As [`bpf`], and a successful `command` returns a new descriptor.
unsafe fn bpf_fd(command: i32, attr: &mut Attr) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise.
    let fd = unsafe { bpf(command, attr)? };
    // SAFETY: the kernel just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A map from receive queue to AF_XDP socket.
pub(crate) fn create_xskmap(entries: u32) -> io::Result<OwnedFd> {
    let mut attr = Attr::new().u32(0, MAP_TYPE_XSKMAP).u32(4, 4).u32(8, 4).u32(12, entries);
    // SAFETY: no addresses in it.
    unsafe { bpf_fd(MAP_CREATE, &mut attr) }
}

/// Sends packets of `queue` to `socket`.
pub(crate) fn set_xskmap(map: BorrowedFd<'_>, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
    let value = socket.as_raw_fd() as u32;
    let mut attr = Attr::new().fd(0, map).u64(8, &raw const queue as u64).u64(16, &raw const value as u64);
    // SAFETY: key and value are four bytes each, as the map was created, and live until the call returns.
    unsafe { bpf(MAP_UPDATE, &mut attr) }.map(drop)
}

/// Loads an XDP program that accepts multi-buffer packets. The error carries what the verifier said.
pub(crate) fn load_xdp(program: &[Insn]) -> Result<OwnedFd, (Errno, String)> {
    let license = c"GPL";
    let base = || {
        Attr::new()
            .u32(0, PROG_TYPE_XDP)
            .u32(4, program.len() as u32)
            .u64(8, program.as_ptr() as u64)
            .u64(16, license.as_ptr() as u64)
            .u32(44, XDP_HAS_FRAGS)
            .u32(68, ATTACH_TYPE_XDP)
    };
    // SAFETY: instructions and licence live until the call returns; `Insn` has the kernel's layout.
    match unsafe { bpf_fd(PROG_LOAD, &mut base()) } {
        Ok(fd) => Ok(fd),
        Err(errno) => {
            let mut log = vec![0u8; 16384];
            let mut attr = base().u32(24, 1).u32(28, log.len() as u32).u64(32, log.as_mut_ptr() as u64);
            // SAFETY: as above; the log buffer is as long as stated.
            let _ = unsafe { bpf_fd(PROG_LOAD, &mut attr) };
            let text = log.split(|byte| *byte == 0).next().unwrap_or(&[]);
            Err((errno, String::from_utf8_lossy(text).into_owned()))
        }
    }
}

/// Attaches `program` to an interface until the returned descriptor closes.
pub(crate) fn attach_xdp(program: BorrowedFd<'_>, ifindex: u32, flags: u32) -> io::Result<OwnedFd> {
    let mut attr = Attr::new().fd(0, program).u32(4, ifindex).u32(8, ATTACH_TYPE_XDP).u32(12, flags);
    // SAFETY: no addresses in it.
    unsafe { bpf_fd(LINK_CREATE, &mut attr) }
}

/// Runs `program` on `frame` and returns its verdict.
#[cfg(test)]
pub(crate) fn test_run(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<u32> {
    const PROG_TEST_RUN: i32 = 10;
    let mut attr = Attr::new().fd(0, program).u32(8, frame.len() as u32).u64(16, frame.as_ptr() as u64).u32(32, 1);
    // SAFETY: the frame lives until the call returns and is only read; no output buffer is given.
    unsafe { bpf(PROG_TEST_RUN, &mut attr)? };
    Ok(u32::from_ne_bytes([attr.0[4], attr.0[5], attr.0[6], attr.0[7]]))
}
