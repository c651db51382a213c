//! The door for transports that carry an [`Exchange`]: what a run asks of them beside [`Host`].

use mrc_core::path::PathLoad;

use crate::fabric::{Hop, Packet};
use crate::host::Host;
use crate::workload::Exchange;

/// Packets of all hosts of one transport, counted since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TransportCounters {
    /// Data packets sent for the first time.
    pub data: u64,
    /// Data packets retransmitted.
    pub retransmitted: u64,
    /// Losses found because later packets were acknowledged; with RoCE, packets that go again because the receiver reported
    /// a hole.
    pub lost_inferred: u64,
    /// Losses found because the receiver or a switch said so: trimming, NACKs.
    pub lost_nack: u64,
    /// Losses found by a timer; with RoCE, packets that go again because of it.
    pub lost_timeout: u64,
    /// Acknowledgements and other control packets sent.
    pub control: u64,
    /// Probes sent.
    pub probes: u64,
    /// Paths that were taken out of use.
    pub paths_retired: u64,
    /// Paths that came back.
    pub paths_restored: u64,
    /// Queue pairs that failed.
    pub qp_errors: u64,
    /// Probes of paths sent: EV probes.
    pub path_probes: u64,
    /// Data packets that left on another path than the one before, of queue pairs that keep to one path.
    pub path_switches: u64,
    /// Messages that waited although they should have a connection of their own: all were taken. With them, packets that found
    /// none at their receiver.
    pub crowded: u64,
}

impl TransportCounters {
    /// Adds another host's counters.
    pub fn add(&mut self, other: &Self) {
        self.data += other.data;
        self.retransmitted += other.retransmitted;
        self.lost_inferred += other.lost_inferred;
        self.lost_nack += other.lost_nack;
        self.lost_timeout += other.lost_timeout;
        self.control += other.control;
        self.probes += other.probes;
        self.paths_retired += other.paths_retired;
        self.paths_restored += other.paths_restored;
        self.qp_errors += other.qp_errors;
        self.path_probes += other.path_probes;
        self.path_switches += other.path_switches;
        self.crowded += other.crowded;
    }
}

/// Paths by state, of all queue pairs of a host; transports without path states report none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathCounts {
    /// In use or in reserve.
    pub good: u64,
    /// Passed over for a moment, for congestion.
    pub skip: u64,
    /// Out of use.
    pub assumed_bad: u64,
}

/// One path of a queue pair whose selector keeps a load for each.
#[derive(Clone, PartialEq, Debug)]
pub struct PathRow {
    /// Sending host.
    pub host: u32,
    /// Receiving host.
    pub peer: u32,
    /// Queue pair between the two, from 0.
    pub qp: u32,
    /// The path as the selector has it.
    pub load: PathLoad,
    /// With telemetry: what the switches on the path wrote last.
    pub hops: Vec<Hop>,
}

/// A host that carries the messages of an [`Exchange`].
///
/// A transport plugs in with this trait and a line in [`crate::TRANSPORTS`]; what it must call on the exchange is listed there
/// ([`Exchange`]). [`crate::Datagram`] are packets for it, or it writes its own: they carry real header bytes from the Ethernet header on,
/// with an IPv6 header whose destination is [`crate::address::gid`] of the receiver, so that switches can forward them by
/// [`crate::scheme::ECMP`] and its kin; the DSCP chooses the class (`mrc_wire::DscpPlan`), and bytes 54 and 55 are the
/// hash's entropy (a UDP source port). The payload goes in [`Packet::payload`], see [`payload_tag`].
pub trait Transport: Host<World = Exchange> {
    /// Counters since the start.
    fn counters(&self) -> TransportCounters;

    /// Paths by state now.
    fn paths(&self) -> PathCounts {
        PathCounts::default()
    }

    /// Paths with their loads now, where the selector keeps them.
    fn path_table(&self) -> Vec<PathRow> {
        Vec::new()
    }

    /// Bytes of state about paths of each queue pair.
    fn path_state_bytes(&self) -> usize {
        0
    }

    /// What a reader needs to understand why the message does not move; one line.
    fn diagnose(&self, message: u32, exchange: &Exchange) -> String;

    /// Bytes on the wire of a full packet, and its payload: what the ideal time of a message is reckoned from.
    fn packet_bytes(&self) -> (u32, u32);

    /// Bytes on the wire of the shortest packet that completes a message, for the same.
    fn acknowledgement_bytes(&self) -> u32 {
        64
    }
}

/// The payload of a packet: `len` bytes of message `message` from byte `offset` on.
pub fn payload_tag(host: u32, message: u32, offset: u64, len: u32) -> crate::PayloadTag {
    crate::PayloadTag { host, region: message, offset, len, sent: 0 }
}

/// A packet's wire length without what switches cut or added: what a receiver checks length fields against. `header` is
/// without telemetry.
pub(crate) fn uncut_len(packet: &Packet, header: &[u8]) -> usize {
    const ICRC: usize = 4;
    let payload = packet.payload.len as usize;
    match packet.is_trimmed() {
        true => header.len(),
        false => header.len() + payload + payload.wrapping_neg() % 4 + ICRC,
    }
}
