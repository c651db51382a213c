//! Structs of a controller: EVs as it names them, profiles as it configures and sees them, endpoint operations.

use crate::{codes::MRC_CORE_MAX_EV_FIELDS, types::*};

/// An EV as a controller names it: bits before expansion and port. All zero with port 0: an entry without a value.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct mrc_core_ev {
    /// The bits from the top of byte 0 on, the first field first; zeros follow. Of an entry as it is on the wire: the 32 bits
    /// of `ev`, or 16 bytes of `dst` and 16 of `segment`.
    pub value: [u8; 32],
    /// The port, 1-based.
    pub port: u8,
}

/// An entry of an EV profile, as a controller sees it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct mrc_core_ev_report {
    /// Value and port.
    pub ev: mrc_core_ev,
    /// MRC_CORE_EV_*.
    pub state: u8,
}

/// How bits of an EV become a field of the expanded value: `init_val` with those bits replaced that `mask` names.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct mrc_core_ev_field {
    /// The field where the EV says nothing.
    pub init_val: u32,
    /// Least generated value.
    pub min_val: u32,
    /// Greatest generated value.
    pub max_val: u32,
    /// Bits that come from the EV.
    pub mask: u32,
    /// Bits of the field; at most 32, and those of the format.
    pub width: u8,
}

/// What an EV profile is configured with. Start from all zeros.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_ev_profile_config {
    /// MRC_CORE_EV_MODE_AUTO only: paths as they are on the wire, of which the first `count` are taken; NULL = values are
    /// made.
    pub paths: *const mrc_core_ev_entry,
    /// Paths there are; at most `limits.profile_evs`.
    pub path_count: u32,
    /// Field descriptions, first field most significant; none = every bit of every field is the EV's, except in
    /// MRC_CORE_EV_MODE_GENERATED, which needs them.
    pub fields: [mrc_core_ev_field; MRC_CORE_MAX_EV_FIELDS],
    /// Field widths of the format, in bits.
    pub widths: [u8; MRC_CORE_MAX_EV_FIELDS],
    /// Entries; at most `limits.profile_evs`.
    pub count: u16,
    /// EVs that stay in rotation whatever happens; 0 = as each QP says.
    pub min_active: u16,
    /// MRC_CORE_EV_MODE_*.
    pub mode: u8,
    /// MRC_CORE_EV_FORMAT_*.
    pub format: u8,
    /// Fields of the format; 0 = one of 16 bits, for MRC_CORE_EV_FORMAT_UDP.
    pub width_count: u8,
    /// Field descriptions.
    pub field_count: u8,
    /// Raise an event when an entry becomes GOOD.
    pub event_good: u8,
    /// Raise an event when an entry becomes ASSUMED_BAD.
    pub event_assumed_bad: u8,
}

/// A picture of an EV profile.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_ev_profile_info {
    /// The number it was opened with.
    pub id: u64,
    /// QPs bound to it; in shard 0 also peers that other shards use with it.
    pub users: u32,
    /// Field descriptions in force.
    pub fields: [mrc_core_ev_field; MRC_CORE_MAX_EV_FIELDS],
    /// Field widths of the format.
    pub widths: [u8; MRC_CORE_MAX_EV_FIELDS],
    /// Entries.
    pub count: u16,
    /// EVs that stay in rotation.
    pub min_active: u16,
    /// MRC_CORE_PROFILE_*.
    pub state: u8,
    /// MRC_CORE_EV_MODE_*.
    pub mode: u8,
    /// MRC_CORE_EV_FORMAT_*.
    pub format: u8,
    /// Fields of the format.
    pub width_count: u8,
    /// Field descriptions.
    pub field_count: u8,
    /// It raises an event when an entry becomes GOOD.
    pub event_good: u8,
    /// It raises an event when an entry becomes ASSUMED_BAD.
    pub event_assumed_bad: u8,
}

/// A picture of a congestion controller, for all QPs that share it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_cc_info {
    /// Window in bytes of nominal packets; UINT64_MAX without limit.
    pub cwnd_bytes: u64,
    /// Bytes in flight, without those that test a silent peer (`silent_packets`).
    pub inflight_bytes: u64,
    /// Bytes of data never sent.
    pub backlog_bytes: u64,
    /// Smallest round trip known in nanoseconds; 0 where the algorithm has none.
    pub base_rtt_ns: u64,
    /// Average queueing delay in nanoseconds; 0 where the algorithm has none.
    pub avg_delay_ns: u64,
    /// QPs that share it.
    pub users: u32,
    /// MRC_CORE_CC_IDLE to MRC_CORE_CC_READY.
    pub state: u8,
}

/// An endpoint operation to perform once, over one path. Start from all zeros.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_op_request {
    /// Comes back in the outcome.
    pub cookie: u64,
    /// Time to wait for the answer, in nanoseconds.
    pub timeout_ns: u64,
    /// The path; `dst` where the peer's route is MRC_CORE_ROUTE_SRV6_ENTRY, and only there.
    pub path: mrc_core_ev_entry,
    /// Ports that MRC_CORE_ENDPOINT_PORT_STATUS tells, bit N for port N.
    pub ports: u32,
    /// MRC_CORE_ENDPOINT_*.
    pub op: u8,
    /// `dscp` is set; by default that of data which must not be trimmed for a probe, of control packets for an update.
    pub has_dscp: u8,
    /// Code point, 6 bits.
    pub dscp: u8,
}

/// How an endpoint operation ended.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_op_outcome {
    /// Of the request.
    pub cookie: u64,
    /// Round trip, in nanoseconds; 0 without an answer.
    pub rtt_ns: u64,
    /// Of the request.
    pub peer: mrc_core_peer,
    /// Of the request.
    pub op: u8,
    /// The answer came in time.
    pub answered: u8,
    /// Port it arrived on.
    pub port: u8,
    /// The peer took its service time out of the round trip.
    pub adjusted: u8,
}

/// What one shard of a NIC tells another one, or all others. The driver carries it unread.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_shard_message {
    /// Ports of the peer that are up, bit N for port N.
    pub ports: u32,
    /// The EV profile, the same one in every shard.
    pub profile: mrc_core_ev_profile,
    /// Its entry.
    pub entry: u16,
    /// Identifier of the request.
    pub id: u16,
    /// The timestamp that the answer reflects.
    pub timestamp: u16,
    /// MRC_CORE_SHARD_*: what it says. The peer is named but in MRC_CORE_SHARD_BAD_EV.
    pub kind: u8,
    /// The shard that says it.
    pub from: u8,
    /// The shard it is for, or MRC_CORE_SHARD_ALL.
    pub to: u8,
    /// The shard has QPs towards the peer.
    pub used: u8,
    /// One of them entered RTS.
    pub entered_rts: u8,
    /// MRC_CORE_ENDPOINT_*.
    pub op: u8,
    /// Port the answer arrived on.
    pub port: u8,
    /// Our address towards the peer.
    pub local: mrc_core_ip,
    /// The peer's.
    pub remote: mrc_core_ip,
}
