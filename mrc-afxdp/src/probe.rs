//! What this machine allows, asked without changing anything: for `mrc doctor` and for error messages.

use std::fs;
use std::os::fd::AsFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, netlink, socket_with};

use crate::filter::PacketFilter;
use crate::netlink::{FLAG_ACK, Socket, attribute, attributes};
use crate::sys::bpf;

/// Whether an AF_XDP socket can be opened; the reason if not.
///
/// # Errors
/// What the kernel said, e.g. "operation not permitted" or "address family not supported".
pub fn af_xdp() -> std::io::Result<()> {
    socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    Ok(())
}

/// Whether our XDP program can be loaded (it is dropped at once).
///
/// # Errors
/// What the kernel said, e.g. "operation not permitted".
pub fn bpf() -> std::io::Result<()> {
    let map = bpf::create_xskmap(1)?;
    let program = crate::bpf::xdp::program(&PacketFilter::default(), std::os::fd::AsRawFd::as_raw_fd(&map.as_fd()));
    bpf::load_xdp(&program).map_err(|(errno, _)| errno)?;
    Ok(())
}

/// Whether a packet socket can be opened.
///
/// # Errors
/// What the kernel said, e.g. "operation not permitted".
pub fn packet_socket() -> std::io::Result<()> {
    socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    Ok(())
}

/// What a driver says it can do, from the kernel's `netdev` family (Linux 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdpFeatures(u64);

impl XdpFeatures {
    /// Native XDP with redirect, which AF_XDP needs.
    pub fn native(self) -> bool {
        self.0 & 0b11 == 0b11
    }
    /// Zero-copy AF_XDP.
    pub fn zero_copy(self) -> bool {
        self.0 & 1 << 3 != 0
    }
    /// Native XDP on frames of several buffers.
    pub fn multi_buffer(self) -> bool {
        self.0 & 1 << 5 != 0
    }
}

/// XDP features of an interface; `None` where the kernel cannot tell.
pub fn xdp_features(ifindex: u32) -> Option<XdpFeatures> {
    const CONTROL: u16 = 16;
    const GET_FAMILY: u8 = 3;
    const DEV_GET: u8 = 1;
    let mut socket = Socket::open(Some(netlink::GENERIC), 0).ok()?;
    let body = |command: u8, attribute: Vec<u8>| [vec![command, 1, 0, 0], attribute].concat();

    let mut family = None;
    let question = body(GET_FAMILY, attribute(2, b"netdev\0"));
    socket
        .ask(CONTROL, FLAG_ACK, &question, |message| {
            let id = attributes(message.payload.get(4..).unwrap_or(&[])).find(|(kind, _)| *kind == 1);
            family = id.and_then(|(_, id)| id.first_chunk().map(|id| u16::from_ne_bytes(*id)));
        })
        .ok()?;
    let mut features = None;
    let question = body(DEV_GET, attribute(1, &ifindex.to_ne_bytes()));
    socket
        .ask(family?, FLAG_ACK, &question, |message| {
            let bits = attributes(message.payload.get(4..).unwrap_or(&[])).find(|(kind, _)| *kind == 3);
            features = bits.and_then(|(_, bits)| bits.first_chunk().map(|bits| u64::from_ne_bytes(*bits)));
        })
        .ok()?;
    features.map(XdpFeatures)
}

/// The process that holds XDP program `program_id` open, as "NAME (pid N)"; needs root to see other users' processes.
pub fn holder_of_program(program_id: u32) -> Option<String> {
    let wanted = format!("prog_id:\t{program_id}");
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(descriptors) = fs::read_dir(process.path().join("fd")) else {
            continue;
        };
        for descriptor in descriptors.flatten() {
            let is_bpf = fs::read_link(descriptor.path())
                .is_ok_and(|target| target.to_str().is_some_and(|target| target.starts_with("anon_inode:bpf")));
            if !is_bpf {
                continue;
            }
            let info = process.path().join("fdinfo").join(descriptor.file_name());
            if fs::read_to_string(info).is_ok_and(|info| info.lines().any(|line| line.trim_end() == wanted)) {
                let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                return Some(format!("{} (pid {pid})", name.trim()));
            }
        }
    }
    None
}
