//! What in-band telemetry says of paths, and what a selector that keeps a load of each path knows of them.

use mrc_wire::{Ev, PortNum};

use super::EvIndex;

/// What switches said of one path: read from the records they wrote into a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathTelemetry {
    /// Least bandwidth of its links, in Mb/s.
    pub bandwidth_mbps: u32,
    /// Sum of the delays of its hops, in nanoseconds.
    pub delay_ns: u32,
}

/// One path of the table of [`Selector::FlowingJumping`](super::Selector), for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathLoad {
    /// Slot of the QP.
    pub index: EvIndex,
    /// Value on the wire.
    pub ev: Ev,
    /// Port of the path.
    pub port: PortNum,
    /// Index into the profile's entries.
    pub entry: u16,
    /// Delay measured last, in nanoseconds: of the path there from telemetry, else the round trip. In steps of 128, at most
    /// 8.4 ms; 0: never measured.
    pub delay_ns: u32,
    /// Bandwidth measured last, in Mb/s: in steps of 100, at most 6.5 Tb/s; without telemetry
    /// the knob of the selector.
    pub bandwidth_mbps: u32,
    /// The load by which paths are levelled, in bytes.
    pub load_bytes: u32,
    /// Packets placed on it that have not left.
    pub placed_packets: u16,
    /// Whether loads come from telemetry; otherwise from measured round trips.
    pub telemetry: bool,
}

crate::image::stored!(struct PathTelemetry { bandwidth_mbps, delay_ns });
