//! The little of netlink this crate speaks: link dumps and events, and one generic-netlink question.
//!
//! A parser of our own, since all it takes is a walk over two nested lists; the published crates bring eight packages
//! for it. Everything is bounds-checked: a malformed message ends the walk.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with, sockopt,
};

use crate::sys::private_fd::PrivateFd;

/// Routing and links: protocol number 0, which rustix spells as none.
pub(crate) const ROUTE: Option<Protocol> = None;

pub(crate) const NEW_LINK: u16 = 16;
pub(crate) const DEL_LINK: u16 = 17;
pub(crate) const GET_LINK: u16 = 18;
const MSG_ERROR: u16 = 2;
const MSG_DONE: u16 = 3;
const FLAG_REQUEST: u16 = 1;
pub(crate) const FLAG_DUMP: u16 = 0x300;
pub(crate) const FLAG_ACK: u16 = 4;
const HEADER_BYTES: usize = 16;

/// Largest message the kernel sends in one datagram.
const BUFFER_BYTES: usize = 64 << 10;

/// A netlink socket with its buffer.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: PrivateFd,
    buffer: Vec<u8>,
    sequence: u32,
}

/// One message of a datagram.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) payload: &'a [u8],
}

impl Socket {
    /// Opens a socket of `protocol` that also hears multicast `groups`.
    pub(crate) fn open(protocol: Option<Protocol>, groups: u32) -> io::Result<Self> {
        let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        bind(&fd, &SocketAddrNetlink::new(0, groups))?;
        // Room for a burst of events; the reader copes with an overflow anyway.
        let _ = sockopt::set_socket_recv_buffer_size(&fd, 1 << 20);
        Ok(Self { fd: fd.into(), buffer: vec![0; BUFFER_BYTES], sequence: 0 })
    }

    /// For `poll(2)`.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Sends one request; `body` is what follows the netlink header.
    pub(crate) fn request(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
        message.extend_from_slice(&((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(&(FLAG_REQUEST | flags).to_ne_bytes());
        message.extend_from_slice(&self.sequence.to_ne_bytes());
        message.extend_from_slice(&[0; 4]);
        message.extend_from_slice(body);
        send(&self.fd, &message, SendFlags::empty()).map(drop)
    }

    /// Sends a request and hands each answer to `f`, until the kernel says that was all.
    pub(crate) fn ask(&mut self, kind: u16, flags: u16, body: &[u8], mut f: impl FnMut(Message<'_>)) -> io::Result<()> {
        self.request(kind, flags, body)?;
        // A dump of a thousand links takes about 50 datagrams; a kernel that never says "done" must not hang us.
        for _ in 0..4096 {
            let (_, len) = recv(&self.fd, &mut self.buffer[..], RecvFlags::empty())?;
            for message in messages(self.buffer.get(..len).unwrap_or(&[])) {
                match message.kind {
                    MSG_DONE => return Ok(()),
                    MSG_ERROR => {
                        let code = message.payload.first_chunk::<4>().map_or(0, |code| i32::from_ne_bytes(*code));
                        return if code == 0 { Ok(()) } else { Err(io::Errno::from_raw_os_error(-code)) };
                    }
                    _ => f(message),
                }
            }
        }
        Err(io::Errno::TIMEDOUT)
    }

    /// Hands each message of one waiting datagram to `f`; false when none waits.
    ///
    /// # Errors
    /// `ENOBUFS` when the kernel dropped events: ask for the whole state again.
    pub(crate) fn try_receive(&mut self, mut f: impl FnMut(Message<'_>)) -> io::Result<bool> {
        match recv(&self.fd, &mut self.buffer[..], RecvFlags::DONTWAIT) {
            Ok((_, len)) => {
                messages(self.buffer.get(..len).unwrap_or(&[])).for_each(&mut f);
                Ok(true)
            }
            Err(io::Errno::AGAIN) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The messages of a datagram.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    core::iter::from_fn(move || {
        let len = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
        let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
        let payload = bytes.get(HEADER_BYTES..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some(Message { kind, payload })
    })
}

/// The attributes of a message or of a nested attribute: type without flag bits, and value.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    core::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?) & 0x3fff;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

/// One attribute, padded.
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.len() + 8);
    bytes.extend_from_slice(&((4 + value.len()) as u16).to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A native-endian number of an attribute.
pub(crate) fn number(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// A text attribute without its terminating zero.
pub(crate) fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value.split(|byte| *byte == 0).next().unwrap_or(&[])).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_round_trip_and_survive_nonsense() {
        let mut bytes = attribute(3, b"p0\0");
        bytes.extend(attribute(0x8000 | 18, &attribute(1, b"veth\0")));
        let all: Vec<_> = attributes(&bytes).collect();
        assert_eq!(all[0], (3, &b"p0\0"[..]));
        assert_eq!(text(all[0].1), "p0");
        assert_eq!(all[1].0, 18);
        assert_eq!(attributes(all[1].1).next().unwrap().1, b"veth\0");
        for cut in 0..bytes.len() {
            for (at, flip) in [(cut, 0xff), (0, 1), (2, 0x80)] {
                let mut bad = bytes[..cut].to_vec();
                if let Some(byte) = bad.get_mut(at) {
                    *byte ^= flip;
                }
                assert!(attributes(&bad).count() <= 64);
                assert!(messages(&bad).count() <= 64);
            }
        }
        // A length of zero must not loop for ever.
        assert_eq!(attributes(&[0; 64]).count(), 0);
        assert_eq!(messages(&[0; 64]).count(), 0);
    }
}
