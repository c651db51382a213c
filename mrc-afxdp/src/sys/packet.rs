//! Packet sockets: set-up, and batches of messages over buffers that never move.

use core::mem;
use core::ptr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io;

use super::bpf::last_errno;
use super::mmap::Mapping;
use crate::bpf::classic;

const PACKET_STATISTICS: i32 = 6;
const PACKET_QDISC_BYPASS: i32 = 20;
const PACKET_IGNORE_OUTGOING: i32 = 23;

fn set<T>(fd: BorrowedFd<'_>, level: i32, option: i32, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is `len` readable bytes.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, ptr::from_ref(value).cast(), len) };
    if result < 0 { Err(last_errno()) } else { Ok(()) }
}

/// Lets this socket queue `bytes` of packets for sending, beyond the system limit where we may.
pub(crate) fn set_send_buffer(fd: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes)
        .or_else(|_| set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes))
}

/// A socket that receives what `filter` takes on one interface, and nothing before the filter is in place.
pub(crate) fn open(ifindex: u32, filter: &[classic::Insn], receive_bytes: u32, bypass: bool) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no addresses. Protocol 0: nothing is received before bind.
    let raw = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if raw < 0 {
        return Err(last_errno());
    }
    // SAFETY: the kernel just made this descriptor for us.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut().cast() };
    set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
    set(fd.as_fd(), libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1i32)?;
    if bypass {
        set(fd.as_fd(), libc::SOL_PACKET, PACKET_QDISC_BYPASS, &1i32)?;
    }
    if set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &receive_bytes).is_err() {
        set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, &receive_bytes)?;
    }
    // SAFETY: all-zero is a value of this plain C struct.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = ifindex as i32;
    // SAFETY: `address` is a whole sockaddr_ll.
    let result = unsafe { libc::bind(raw, (&raw const address).cast(), size_of_val(&address) as libc::socklen_t) };
    if result < 0 { Err(last_errno()) } else { Ok(fd) }
}

/// Packets the kernel dropped for lack of room since the last call.
pub(crate) fn take_drops(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut counts = [0u32; 2];
    let mut len = size_of_val(&counts) as libc::socklen_t;
    // SAFETY: `counts` is `len` writable bytes.
    let result = unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_PACKET, PACKET_STATISTICS, counts.as_mut_ptr().cast(), &raw mut len)
    };
    if result < 0 { Err(last_errno()) } else { Ok(counts[1]) }
}

/// `count` buffers of `slot_bytes` with one message header each, for recvmmsg(2) and sendmmsg(2).
pub(crate) struct Batch {
    buffers: Mapping,
    slot_bytes: usize,
    /// `messages[n]` points to `vectors[n]`, which points to buffer `n`; neither box is ever reallocated.
    vectors: Box<[libc::iovec]>,
    messages: Box<[libc::mmsghdr]>,
}

// SAFETY: the pointers lead into memory owned by the batch.
unsafe impl Send for Batch {}

impl core::fmt::Debug for Batch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Batch({} x {} bytes)", self.vectors.len(), self.slot_bytes)
    }
}

impl Batch {
    pub(crate) fn new(count: u32, slot_bytes: usize) -> io::Result<Self> {
        let count = count.max(1) as usize;
        let buffers = Mapping::anonymous(count * slot_bytes)?;
        let mut vectors: Box<[libc::iovec]> = (0..count)
            .map(|n| libc::iovec {
                // SAFETY: inside the mapping.
                iov_base: unsafe { buffers.base().add(n * slot_bytes) }.as_ptr().cast(),
                iov_len: slot_bytes,
            })
            .collect();
        let first = vectors.as_mut_ptr();
        let messages = (0..count)
            .map(|n| {
                // SAFETY: all-zero is a value of this plain C struct.
                let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
                // SAFETY: `n` is inside the box.
                message.msg_hdr.msg_iov = unsafe { first.add(n) };
                message.msg_hdr.msg_iovlen = 1;
                message
            })
            .collect();
        Ok(Self { buffers, slot_bytes, vectors, messages })
    }

    pub(crate) fn count(&self) -> usize {
        self.vectors.len()
    }

    /// Buffer `n` (modulo the count), for writing.
    pub(crate) fn buffer(&mut self, n: usize) -> &mut [u8] {
        let start = n % self.vectors.len() * self.slot_bytes;
        // SAFETY: inside the mapping; the borrow of `self` is exclusive and the kernel holds no buffer between calls.
        unsafe { core::slice::from_raw_parts_mut(self.buffers.base().as_ptr().add(start), self.slot_bytes) }
    }

    /// Bytes of message `n` to send.
    pub(crate) fn set_len(&mut self, n: usize, len: usize) {
        let limit = self.slot_bytes;
        if let Some(vector) = self.vectors.get_mut(n) {
            vector.iov_len = len.min(limit);
        }
    }

    /// Frame `n` of the last [`Batch::receive`]; `None` when it did not fit its buffer.
    pub(crate) fn frame(&self, n: usize) -> Option<&[u8]> {
        let message = self.messages.get(n)?;
        if message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 {
            return None;
        }
        let len = (message.msg_len as usize).min(self.slot_bytes);
        // SAFETY: inside the mapping, initialised (zeroed, then written by the kernel); only `receive` and `buffer`
        // write, which need an exclusive borrow.
        Some(unsafe { core::slice::from_raw_parts(self.buffers.base().as_ptr().add(n * self.slot_bytes), len) })
    }

    /// Receives up to `max` waiting frames without blocking.
    pub(crate) fn receive(&mut self, fd: BorrowedFd<'_>, max: usize) -> io::Result<usize> {
        let count = max.min(self.messages.len());
        // Not `libc::recvmmsg`, in which libc ends a thread that the program has cancelled: the driver's lock would stay taken.
        // SAFETY: `count` headers, each with one vector over its own buffer; no time to wait.
        let result = unsafe {
            libc::syscall(
                libc::SYS_recvmmsg,
                fd.as_raw_fd(),
                self.messages.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT,
                ptr::null_mut::<libc::timespec>(),
            )
        };
        if result < 0 { Err(last_errno()) } else { Ok(result as usize) }
    }

    /// Sends messages `from..to` and returns how many the kernel took, at least one.
    pub(crate) fn send(&mut self, fd: BorrowedFd<'_>, from: usize, to: usize) -> io::Result<usize> {
        let Some(messages) = self.messages.get_mut(from..to) else {
            return Ok(0);
        };
        let (first, count) = (messages.as_mut_ptr(), messages.len() as libc::c_uint);
        // SAFETY: as in `receive`; `set_len` keeps lengths inside the buffers.
        let result = unsafe { libc::syscall(libc::SYS_sendmmsg, fd.as_raw_fd(), first, count, libc::MSG_DONTWAIT) };
        if result < 0 { Err(last_errno()) } else { Ok(result as usize) }
    }
}
