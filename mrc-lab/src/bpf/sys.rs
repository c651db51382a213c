//! bpf(2). The only place of this crate with `unsafe`.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::libc;

use super::asm::Insn;

const MAP_CREATE: i32 = 0;
const MAP_LOOKUP: i32 = 1;
const MAP_UPDATE: i32 = 2;
const PROG_LOAD: i32 = 5;
const PROG_GET_FD_BY_ID: i32 = 13;
const MAP_GET_FD_BY_ID: i32 = 14;
const OBJ_GET_INFO_BY_FD: i32 = 15;
const MAP_TYPE_ARRAY: u32 = 2;
const PROG_TYPE_SCHED_CLS: u32 = 3;

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
unsafe fn bpf(command: i32, attr: &mut Attr) -> nix::Result<i32> {
    // SAFETY: the attribute block is 128 writable bytes; the rest is the caller's promise.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr.0.as_mut_ptr(), attr.0.len()) };
    Errno::result(result).map(|value| value as i32)
}

/// # Safety
/// As [`bpf`], and a successful `command` returns a new descriptor.
unsafe fn bpf_fd(command: i32, attr: &mut Attr) -> nix::Result<OwnedFd> {
    // SAFETY: the caller's promise.
    let fd = unsafe { bpf(command, attr)? };
    // SAFETY: the kernel just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// An array map with one value of `WORDS` words.
pub(super) fn create_map<const WORDS: usize>() -> nix::Result<OwnedFd> {
    let mut attr = Attr::new().u32(0, MAP_TYPE_ARRAY).u32(4, 4).u32(8, 8 * WORDS as u32).u32(12, 1);
    // SAFETY: no addresses in it.
    unsafe { bpf_fd(MAP_CREATE, &mut attr) }
}

/// Writes the value of a map made by [`create_map`] with as many words.
pub(super) fn write_map<const WORDS: usize>(map: BorrowedFd<'_>, value: &[u64; WORDS]) -> nix::Result<()> {
    let key = 0u32;
    let mut attr = Attr::new().fd(0, map).u64(8, &raw const key as u64).u64(16, value.as_ptr() as u64);
    // SAFETY: key and value are as long as the map was created for, and live until the call returns.
    unsafe { bpf(MAP_UPDATE, &mut attr) }.map(drop)
}

/// Reads the value of a map; an error unless it has as many words.
pub(super) fn read_map<const WORDS: usize>(map: BorrowedFd<'_>) -> nix::Result<[u64; WORDS]> {
    // `struct bpf_map_info` begins with type, id, key size, value size, entries.
    let mut info = [0u32; 5];
    let mut attr = Attr::new().fd(0, map).u32(4, size_of_val(&info) as u32).u64(8, info.as_mut_ptr() as u64);
    // SAFETY: the kernel writes at most the length given.
    unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut attr)? };
    if info[0] != MAP_TYPE_ARRAY || info[2] != 4 || info[3] != 8 * WORDS as u32 {
        return Err(Errno::EMEDIUMTYPE);
    }
    let (key, mut value) = (0u32, [0u64; WORDS]);
    let mut attr = Attr::new().fd(0, map).u64(8, &raw const key as u64).u64(16, value.as_mut_ptr() as u64);
    // SAFETY: key and value are as long as the map says, and live until the call returns.
    unsafe { bpf(MAP_LOOKUP, &mut attr)? };
    Ok(value)
}

/// Loads a traffic-control program. The error carries what the verifier said.
pub(super) fn load_classifier(program: &[Insn]) -> Result<OwnedFd, (Errno, String)> {
    let license = c"GPL";
    let base = || {
        Attr::new()
            .u32(0, PROG_TYPE_SCHED_CLS)
            .u32(4, program.len() as u32)
            .u64(8, program.as_ptr() as u64)
            .u64(16, license.as_ptr() as u64)
    };
    // SAFETY: instructions and licence live until the call returns; `Insn` has the kernel's layout.
    match unsafe { bpf_fd(PROG_LOAD, &mut base()) } {
        Ok(fd) => Ok(fd),
        Err(errno) => {
            let mut log = vec![0u8; 1 << 16];
            let mut attr = base().u32(24, 1).u32(28, log.len() as u32).u64(32, log.as_mut_ptr() as u64);
            // SAFETY: as above; the log buffer is as long as stated.
            let _ = unsafe { bpf_fd(PROG_LOAD, &mut attr) };
            let text = log.split(|byte| *byte == 0).next().unwrap_or(&[]);
            Err((errno, String::from_utf8_lossy(text).into_owned()))
        }
    }
}

/// The only map of the program with this id.
pub(super) fn map_of_program(id: u32) -> nix::Result<OwnedFd> {
    // SAFETY: no addresses in it.
    let program = unsafe { bpf_fd(PROG_GET_FD_BY_ID, &mut Attr::new().u32(0, id))? };
    // `struct bpf_prog_info` up to the name: the number of maps at byte 52, the address for their ids at 56.
    let mut map_id = 0u32;
    let mut info = Attr::new().u32(52, 1).u64(56, &raw mut map_id as u64);
    let mut attr = Attr::new().fd(0, std::os::fd::AsFd::as_fd(&program)).u32(4, 64).u64(8, info.0.as_mut_ptr() as u64);
    // SAFETY: the kernel writes at most the 64 bytes given, and one id at the address in them.
    unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut attr)? };
    // SAFETY: no addresses in it.
    unsafe { bpf_fd(MAP_GET_FD_BY_ID, &mut Attr::new().u32(0, map_id)) }
}

/// Runs `program` once on `frame`; returns its verdict and the frame as it left it.
#[cfg(test)]
pub(super) fn test_run(program: BorrowedFd<'_>, frame: &[u8]) -> nix::Result<(i32, Vec<u8>)> {
    const PROG_TEST_RUN: i32 = 10;
    let mut out = vec![0u8; frame.len() + 256];
    let mut attr = Attr::new()
        .fd(0, program)
        .u32(8, frame.len() as u32)
        .u32(12, out.len() as u32)
        .u64(16, frame.as_ptr() as u64)
        .u64(24, out.as_mut_ptr() as u64)
        .u32(32, 1);
    // SAFETY: both frames live until the call returns and are as long as stated.
    unsafe { bpf(PROG_TEST_RUN, &mut attr)? };
    let word = |at: usize| [attr.0[at], attr.0[at + 1], attr.0[at + 2], attr.0[at + 3]];
    out.truncate(u32::from_ne_bytes(word(12)) as usize);
    Ok((i32::from_ne_bytes(word(4)), out))
}
