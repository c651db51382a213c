//! The routing netlink messages that attach a program to an interface and find it again.
//!
//! `tc` could do it, but takes an eBPF program only from an object file or a mounted bpf filesystem.

use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};

const NEW_QDISC: u16 = 36;
const DEL_QDISC: u16 = 37;
const NEW_FILTER: u16 = 44;
const DEL_FILTER: u16 = 45;
const GET_FILTER: u16 = 46;

/// Parent and handle of the clsact qdisc.
const CLSACT: (u32, u32) = (0xFFFF_FFF1, 0xFFFF_0000);
/// Our filter: preference and handle are the letters "MRC".
const PREFERENCE: u32 = 0x4D52;
const HANDLE: u32 = 0x43;

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_ID: u16 = 11;
/// The program's return value is the verdict.
const DIRECT_ACTION: u32 = 1;

/// Which packets of an interface pass a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Hook {
    /// Those that arrive.
    Ingress = 0xFFFF_FFF2,
    /// Those that leave.
    Egress = 0xFFFF_FFF3,
}

/// One attribute, padded.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.len() + 8);
    bytes.extend(((4 + value.len()) as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The attributes of a message: type without flag bits, and value. Malformed bytes end the walk.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?) & 0x3FFF;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

/// A netlink socket of the thread's network namespace.
#[derive(Debug)]
pub(super) struct TrafficControl(OwnedFd);

impl TrafficControl {
    pub(super) fn open() -> nix::Result<Self> {
        let kind = SockType::Raw;
        socket(AddressFamily::Netlink, kind, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute).map(Self)
    }

    /// Sends one request about `ifindex` and returns the payload of the answer, empty when it is only "done".
    fn ask(
        &self,
        kind: u16,
        flags: i32,
        ifindex: i32,
        (parent, handle): (u32, u32),
        info: u32,
        rest: &[u8],
    ) -> nix::Result<Vec<u8>> {
        let flags = flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK;
        let mut message = Vec::with_capacity(36 + rest.len());
        message.extend((36 + rest.len() as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend((flags as u16).to_ne_bytes());
        message.extend([0; 8]); // sequence number, port
        message.extend([0; 4]); // `struct tcmsg`: family, padding
        message.extend(ifindex.to_ne_bytes());
        message.extend([handle, parent, info].map(u32::to_ne_bytes).concat());
        message.extend(rest);
        send(self.0.as_raw_fd(), &message, MsgFlags::empty())?;
        let mut answer = Vec::new();
        loop {
            let mut buffer = vec![0u8; 1 << 15];
            let len = recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            let mut bytes = &buffer[..len];
            while let Some((header, _)) = bytes.split_first_chunk::<16>() {
                let len = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
                let kind = u16::from_ne_bytes([header[4], header[5]]);
                let Some(payload) = bytes.get(16..len) else { break };
                if i32::from(kind) == libc::NLMSG_ERROR {
                    let code = payload.first_chunk().map_or(-libc::EPROTO, |code| i32::from_ne_bytes(*code));
                    return if code == 0 { Ok(answer) } else { Err(Errno::from_raw(-code)) };
                }
                answer = payload.to_vec();
                bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
            }
        }
    }

    fn filter_info() -> u32 {
        PREFERENCE << 16 | u32::from((libc::ETH_P_ALL as u16).to_be())
    }

    /// Lets `program` decide over every packet at `hook`, in the place of an earlier one of ours.
    pub(super) fn attach(&self, ifindex: i32, hook: Hook, program: BorrowedFd<'_>) -> nix::Result<()> {
        let clsact = attribute(TCA_KIND, b"clsact\0");
        match self.ask(NEW_QDISC, libc::NLM_F_CREATE | libc::NLM_F_EXCL, ifindex, CLSACT, 0, &clsact) {
            Ok(_) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(error),
        }
        let fd: RawFd = program.as_raw_fd();
        let options = [
            attribute(TCA_BPF_FD, &fd.to_ne_bytes()),
            attribute(TCA_BPF_NAME, b"mrc_impair\0"),
            attribute(TCA_BPF_FLAGS, &DIRECT_ACTION.to_ne_bytes()),
        ];
        let rest = [attribute(TCA_KIND, b"bpf\0"), attribute(TCA_OPTIONS, &options.concat())].concat();
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        self.ask(NEW_FILTER, flags, ifindex, (hook as u32, HANDLE), Self::filter_info(), &rest).map(drop)
    }

    /// Id of our program at `hook`, if there is one.
    pub(super) fn program(&self, ifindex: i32, hook: Hook) -> nix::Result<Option<u32>> {
        let kind = attribute(TCA_KIND, b"bpf\0");
        let place = (hook as u32, HANDLE);
        let answer = match self.ask(GET_FILTER, 0, ifindex, place, Self::filter_info(), &kind) {
            Ok(answer) => answer,
            Err(Errno::ENOENT | Errno::EINVAL | Errno::EOPNOTSUPP) => return Ok(None),
            Err(error) => return Err(error),
        };
        let attrs = answer.get(20..).unwrap_or(&[]);
        let options = attributes(attrs).find(|(kind, _)| *kind == TCA_OPTIONS).map_or(&[][..], |(_, value)| value);
        let id = attributes(options).find(|(kind, _)| *kind == TCA_BPF_ID);
        Ok(id.and_then(|(_, value)| value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))))
    }

    /// Removes our programs from the interface; nothing to remove is fine. Filters of others stay.
    pub(super) fn detach(&self, ifindex: i32) -> nix::Result<()> {
        let kind = attribute(TCA_KIND, b"bpf\0");
        for hook in [Hook::Ingress, Hook::Egress] {
            match self.ask(DEL_FILTER, 0, ifindex, (hook as u32, HANDLE), Self::filter_info(), &kind) {
                Ok(_) | Err(Errno::ENOENT | Errno::EINVAL | Errno::EOPNOTSUPP) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Whether this kernel takes clsact and eBPF filters: tried on the loopback interface of the thread's namespace.
pub(super) fn try_on_loopback(program: BorrowedFd<'_>) -> nix::Result<()> {
    let control = TrafficControl::open()?;
    control.attach(1, Hook::Egress, program)?;
    control.detach(1)?;
    control.ask(DEL_QDISC, 0, 1, CLSACT, 0, &[]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_round_trip_and_survive_nonsense() {
        let mut bytes = attribute(TCA_KIND, b"bpf\0");
        bytes.extend(attribute(0x8000 | TCA_OPTIONS, &attribute(TCA_BPF_ID, &7u32.to_ne_bytes())));
        let all: Vec<_> = attributes(&bytes).collect();
        assert_eq!((all.len(), all[0].1, all[1].0), (2, &b"bpf\0"[..], TCA_OPTIONS));
        assert_eq!(attributes(all[1].1).next(), Some((TCA_BPF_ID, &7u32.to_ne_bytes()[..])));
        for cut in 0..bytes.len() {
            assert!(attributes(&bytes[..cut]).count() <= 2);
        }
        // A length of zero must not loop for ever.
        assert_eq!(attributes(&[0; 64]).count(), 0);
    }
}
