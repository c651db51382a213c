//! Three ethtool questions: the driver's name, the number of queues in use, and who takes VLAN tags out.

use std::os::fd::{AsFd, AsRawFd};

use rustix::io;
use rustix::net::{AddressFamily, SocketType};

use super::bpf::last_errno;

const GET_DRIVER_INFO: u32 = 0x03;
const GET_FLAGS: u32 = 0x25;
const GET_CHANNELS: u32 = 0x3c;
/// In the answer to [`GET_FLAGS`]: the interface takes VLAN tags out of what it receives.
const FLAG_RX_VLAN: u32 = 1 << 8;
const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// `struct ethtool_drvinfo`: command, then driver[32], then text of no interest.
const DRIVER_INFO_BYTES: usize = 196;
/// `struct ethtool_channels`: command, four maxima, four counts (rx, tx, other, combined).
const CHANNELS_BYTES: usize = 36;

/// The name of the driver of `interface`.
pub(crate) fn driver(interface: &str) -> io::Result<String> {
    let mut info = [0u32; DRIVER_INFO_BYTES / 4];
    info[0] = GET_DRIVER_INFO;
    ask(interface, &mut info)?;
    let bytes: Vec<u8> = info[1..9].iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Receive queues of `interface` in use.
pub(crate) fn rx_queues(interface: &str) -> io::Result<u32> {
    let mut channels = [0u32; CHANNELS_BYTES / 4];
    channels[0] = GET_CHANNELS;
    ask(interface, &mut channels)?;
    let [.., rx, _tx, _other, combined] = channels;
    Ok(rx.max(combined))
}

/// Whether `interface` takes VLAN tags out of received packets before XDP sees them.
pub(crate) fn strips_vlan_tags(interface: &str) -> io::Result<bool> {
    let mut flags = [GET_FLAGS, 0];
    ask(interface, &mut flags)?;
    Ok(flags[1] & FLAG_RX_VLAN != 0)
}

fn ask(interface: &str, request: &mut [u32]) -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: all-zero is a value of this plain C struct.
    let mut ifreq: libc::ifreq = unsafe { core::mem::zeroed() };
    if interface.len() >= ifreq.ifr_name.len() {
        return Err(io::Errno::NODEV);
    }
    for (to, from) in ifreq.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    ifreq.ifr_ifru.ifru_data = request.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most the size of the struct that the command in `request` names, which it has.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), SIOCETHTOOL, &raw mut ifreq) };
    if result < 0 { Err(last_errno()) } else { Ok(()) }
}
