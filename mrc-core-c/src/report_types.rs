//! What the engine reports: events, queue pairs, ports.

use crate::types::*;

/// Something happened that is no completion. MRC_CORE_EVENT_* says which fields are set.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_event {
    /// Local QP number.
    pub qpn: u32,
    /// Entropy value, or for MRC_CORE_EVENT_LOSS the EV's slot in the QP.
    pub ev: u32,
    /// The packet.
    pub psn: u32,
    /// Return code of mrc_core_handle_packet() for the frame.
    pub discard: i32,
    /// In words: why a QP failed, how a loss was found, why a frame was discarded.
    pub cause: mrc_core_text,
    /// EV profile.
    pub profile: mrc_core_ev_profile,
    /// Peer.
    pub peer: mrc_core_peer,
    /// The peer's ports, bit N for port N.
    pub ports: u32,
    /// Events of EV profiles that found the queue full since the last one.
    pub dropped: u32,
    /// Latest round trip of the path, in nanoseconds.
    pub rtt_ns: u32,
    /// Entry of an EV profile.
    pub entry: u16,
    /// Entry of the path that is left.
    pub from_entry: u16,
    /// MRC_CORE_EVENT_*.
    pub kind: u8,
    /// Port.
    pub port: u8,
    /// The port's new state.
    pub up: u8,
    /// MRC_CORE_EV_* or MRC_CORE_QP_* before.
    pub from: u8,
    /// MRC_CORE_EV_* or MRC_CORE_QP_* now.
    pub to: u8,
}

/// A picture of one QP.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_qp_info {
    /// Smallest round trip seen, in nanoseconds.
    pub base_rtt_ns: u64,
    /// Why it failed, in words; empty unless it did.
    pub cause: mrc_core_text,
    /// The peer's QP number.
    pub dest_qp: u32,
    /// Packets in flight.
    pub outstanding: u32,
    /// Requests without completion.
    pub queued: u32,
    /// Receive requests not consumed.
    pub receives: u32,
    /// Placements whose end was not reported; 0 without `placement_reported`.
    pub placements: u32,
    /// Planes, as port bits, whose EVs are all ASSUMED_BAD.
    pub suspended_ports: u32,
    /// EVs in GOOD, in rotation or in reserve.
    pub evs_good: u16,
    /// EVs in SKIP.
    pub evs_skip: u16,
    /// EVs in ASSUMED_BAD.
    pub evs_assumed_bad: u16,
    /// EVs in DENIED.
    pub evs_denied: u16,
    /// EVs in rotation.
    pub evs_active: u16,
    /// MRC_CORE_QP_*.
    pub state: u8,
    /// Retries spent on the oldest packet.
    pub retries: u8,
}

/// Traffic of one port.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct mrc_core_port_stats {
    /// Frames handed to the driver.
    pub tx_packets: u64,
    /// Payload bytes of the writes among them, retransmissions included.
    pub tx_bytes: u64,
    /// Frames accepted by the parser.
    pub rx_packets: u64,
    /// Payload bytes placed.
    pub rx_bytes: u64,
}
