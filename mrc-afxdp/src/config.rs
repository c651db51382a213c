//! What a port is asked for ([`XskConfig`], [`RawConfig`], [`Mode`]) and what it obtained ([`Obtained`]).
//!
//! Owns no socket. Defaults run on a laptop: one port costs 24 MiB of UMEM, none of it huge pages.

use core::fmt;
use core::time::Duration;

use crate::filter::PacketFilter;

/// Bytes of one UMEM chunk; the kernel accepts 2048 and 4096 only, and 4096 halves the fragments.
pub const CHUNK_BYTES: usize = 4096;

/// Bytes of one transmit buffer: two adjacent chunks, so that a frame of a 4096-byte payload is one slice.
pub const TX_SLOT_BYTES: usize = 2 * CHUNK_BYTES;

/// How an AF_XDP port attaches to its interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// The best the interface gives: native, else SKB; zero-copy, else copy. [`Obtained`] tells which.
    #[default]
    Auto,
    /// The driver's own XDP hook, copy mode or zero-copy as the driver likes. Fails where the driver has none.
    Native,
    /// The generic hook, after the kernel built a socket buffer. Works on any interface.
    Skb,
    /// Native and zero-copy. Fails rather than degrade.
    ZeroCopy,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Native => "native",
            Self::Skb => "skb",
            Self::ZeroCopy => "zero-copy",
        })
    }
}

/// Where packets leave the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attach {
    /// XDP in the driver.
    NativeXdp,
    /// XDP on socket buffers (generic XDP).
    SkbXdp,
    /// A packet socket; the kernel also sees the packets.
    PacketSocket,
    /// Nowhere: the interface does not exist.
    Absent,
}

/// What a port got, for logs and `--json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Obtained {
    /// What was asked; `None` for a raw-socket port, which has no modes.
    pub asked: Option<Mode>,
    /// Where packets leave the kernel.
    pub attach: Attach,
    /// The interface reads and writes the UMEM itself.
    pub zero_copy: bool,
    /// Received frames may span chunks (needed for 4096-byte payloads).
    pub multi_buffer: bool,
    /// Bytes of the interface's MTU when the port was opened.
    pub mtu: u32,
}

impl fmt::Display for Obtained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.attach {
            Attach::NativeXdp => "native XDP",
            Attach::SkbXdp => "SKB-mode XDP",
            Attach::PacketSocket => "packet socket",
            Attach::Absent => return f.write_str("absent, no such interface"),
        })?;
        f.write_str(if self.zero_copy { ", zero-copy" } else { ", copy" })?;
        if self.attach != Attach::PacketSocket {
            f.write_str(if self.multi_buffer { ", multi-buffer" } else { ", single buffer" })?;
        }
        write!(f, ", MTU {}", self.mtu)?;
        match self.asked {
            Some(mode) => write!(f, " (asked: {mode})"),
            None => Ok(()),
        }
    }
}

/// How to open an AF_XDP port: one interface, one queue.
#[derive(Debug, Clone)]
pub struct XskConfig {
    /// Receive queue of the interface.
    pub queue: u32,
    /// How to attach.
    pub mode: Mode,
    /// Which packets to take from the kernel.
    pub filter: PacketFilter,
    /// Receive chunks of 4096 bytes; two rings' worth lets a full receive ring and a full fill ring coexist. The kernel gets
    /// 512 of them at first and more as soon as it uses half: few of them stay in the caches.
    pub rx_chunks: u32,
    /// Transmit buffers of 8192 bytes each.
    pub tx_slots: u32,
    /// Entries of each of the four rings, a power of two.
    pub ring_entries: u32,
    /// Bytes left free before a received frame, on top of the kernel's own 256; at most 3392.
    pub headroom: u32,
    /// Ask the kernel to say when a ring needs a system call. No effect in copy mode; saves calls in zero-copy mode.
    pub need_wakeup: bool,
    /// Refuse an interface whose MTU is below this; 0 accepts any.
    pub required_mtu: u32,
    /// Accept frames longer than one chunk (`XDP_USE_SG`).
    pub multi_buffer: bool,
    /// How long to wait for a program that is just letting go of the interface.
    pub busy_wait: Duration,
}

impl Default for XskConfig {
    fn default() -> Self {
        Self {
            queue: 0,
            mode: Mode::Auto,
            filter: PacketFilter::default(),
            rx_chunks: 4096,
            tx_slots: 1024,
            ring_entries: 2048,
            headroom: 0,
            need_wakeup: true,
            required_mtu: 0,
            multi_buffer: true,
            busy_wait: Duration::from_secs(2),
        }
    }
}

impl XskConfig {
    /// Bytes of locked memory this port costs: UMEM only, rings add 16 bytes per entry and ring.
    pub fn umem_bytes(&self) -> usize {
        self.rx_chunks as usize * CHUNK_BYTES + self.tx_slots as usize * TX_SLOT_BYTES
    }

    /// The first reason why the kernel would refuse these sizes, if any.
    pub(crate) fn check(&self) -> Option<&'static str> {
        if !self.ring_entries.is_power_of_two() || self.ring_entries < 64 {
            return Some("ring_entries must be a power of two, at least 64");
        }
        if self.rx_chunks == 0 || self.tx_slots == 0 {
            return Some("rx_chunks and tx_slots must not be zero");
        }
        if self.rx_chunks > 1 << 20 || self.tx_slots > 1 << 19 || self.ring_entries > 1 << 20 {
            return Some("at most 2^20 chunks, 2^19 transmit slots and 2^20 ring entries");
        }
        if self.headroom > 3392 {
            return Some("headroom is at most 3392 bytes of a 4096-byte chunk");
        }
        None
    }
}

/// How to open a raw-socket port.
#[derive(Debug, Clone)]
pub struct RawConfig {
    /// Refuse an interface whose MTU is below this; 0 accepts any.
    pub required_mtu: u32,
    /// Which packets to copy from the kernel.
    pub filter: PacketFilter,
    /// Receive buffers of 16 KiB, taken by one system call.
    pub rx_slots: u32,
    /// Transmit buffers of 8192 bytes, sent by one system call.
    pub tx_slots: u32,
    /// Skip the interface's queueing discipline (and captures) on transmit.
    pub qdisc_bypass: bool,
    /// Bytes of the kernel's receive buffer for this socket (`SO_RCVBUFFORCE`).
    pub receive_buffer_bytes: u32,
}

impl Default for RawConfig {
    fn default() -> Self {
        Self {
            required_mtu: 0,
            filter: PacketFilter::default(),
            rx_slots: 64,
            tx_slots: 64,
            qdisc_bypass: false,
            receive_buffer_bytes: 16 << 20,
        }
    }
}
