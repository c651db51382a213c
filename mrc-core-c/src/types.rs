//! What crosses the border: plain C structs and numbers. No Rust enum and no `bool` does, so that no bit pattern from C can
//! be invalid; a flag is a `uint8_t`, zero or not.

use core::ffi::c_char;

/// Version of this interface. It changes whenever a struct, a number or a promise does.
pub const MRC_CORE_ABI: u32 = 2;

/// Alignment of the memory an endpoint lives in, in bytes.
pub const MRC_CORE_ALIGN: usize = 64;

/// Ports (planes) of an endpoint at most.
pub const MRC_CORE_MAX_PORTS: usize = 8;

/// GIDs of an endpoint at most.
pub const MRC_CORE_MAX_GIDS: usize = 4;

/// Copy operations of an SRv6 template at most.
pub const MRC_CORE_MAX_COPY_OPS: usize = 16;

/// Fields of an EV format at most.
pub const MRC_CORE_MAX_EV_FIELDS: usize = 16;

/// The smallest `out` of mrc_core_poll_transmit() that every frame's headers fit in, in bytes.
pub const MRC_CORE_MAX_HEADER_LEN: usize = 192;

/// A time that never comes.
pub const MRC_CORE_NEVER: u64 = 0xFFFF_FFFF_FFFF_FFFF;

/// Done; from a poll: nothing there.
pub const MRC_CORE_OK: i32 = 0;
/// From mrc_core_handle_packet() and the polls: the out struct was filled.
pub const MRC_CORE_SOME: i32 = 1;
/// A pointer is NULL.
pub const MRC_CORE_E_NULL: i32 = -1;
/// A pointer is not aligned for what it points to.
pub const MRC_CORE_E_ALIGN: i32 = -2;
/// The memory lent is smaller than mrc_core_storage_size() says.
pub const MRC_CORE_E_MEMORY: i32 = -3;
/// The memory holds no endpoint.
pub const MRC_CORE_E_NO_ENDPOINT: i32 = -4;
/// The configuration was made for another version of this interface.
pub const MRC_CORE_E_ABI: i32 = -5;
/// A value is outside its range; mrc_core_detail() names it.
pub const MRC_CORE_E_RANGE: i32 = -6;
/// No free slot or entry; mrc_core_detail() names the table.
pub const MRC_CORE_E_FULL: i32 = -7;
/// A handle is stale or was never given out; mrc_core_detail() names it.
pub const MRC_CORE_E_UNKNOWN: i32 = -8;
/// Another object still uses this one.
pub const MRC_CORE_E_BUSY: i32 = -9;
/// The QP or profile is in a state that does not allow it.
pub const MRC_CORE_E_STATE: i32 = -10;
/// The EV profile has no usable entry for this QP.
pub const MRC_CORE_E_NO_USABLE_EV: i32 = -11;
/// The L_Key names no region of the QP's protection domain.
pub const MRC_CORE_E_LOCAL_KEY: i32 = -12;
/// The local range leaves its region.
pub const MRC_CORE_E_LOCAL_BOUNDS: i32 = -13;
/// The message needs more packets than half the PSN space.
pub const MRC_CORE_E_TOO_LONG: i32 = -14;
/// The peer takes no writes with immediate.
pub const MRC_CORE_E_NO_WRITE_IMM: i32 = -15;
/// An error this version of the interface has no number for.
pub const MRC_CORE_E_OTHER: i32 = -16;
/// mrc_core_handle_packet() returns this minus the number of a discard reason; mrc_core_error_text() gives its name, which
/// is also the name of its counter. Compare names: numbers move with MRC_CORE_ABI.
pub const MRC_CORE_E_DISCARDED: i32 = -256;

/// The engine checks the ICRC; the frame must be given whole.
pub const MRC_CORE_ICRC_VERIFY: u8 = 0;
/// Hardware or driver checked it: good.
pub const MRC_CORE_ICRC_VALID: u8 = 1;
/// Hardware or driver checked it: bad, or absent as in a trimmed packet.
pub const MRC_CORE_ICRC_INVALID: u8 = 2;

/// States of a QP.
pub const MRC_CORE_QP_RESET: u8 = 0;
/// Initialised: still receives nothing.
pub const MRC_CORE_QP_INIT: u8 = 1;
/// Ready to receive.
pub const MRC_CORE_QP_RTR: u8 = 2;
/// Ready to receive and to send.
pub const MRC_CORE_QP_RTS: u8 = 3;
/// Failed: queued work is flushed, packets are ignored.
pub const MRC_CORE_QP_ERROR: u8 = 4;

/// Completion status: executed by the responder.
pub const MRC_CORE_WC_SUCCESS: u8 = 0;
/// The local region was deregistered under the request.
pub const MRC_CORE_WC_LOCAL_PROTECTION: u8 = 1;
/// The QP failed or was reset before this request ended.
pub const MRC_CORE_WC_FLUSHED: u8 = 2;
/// The responder refused the request's form.
pub const MRC_CORE_WC_REMOTE_INVALID: u8 = 3;
/// The responder refused the key, rights or bounds.
pub const MRC_CORE_WC_REMOTE_ACCESS: u8 = 4;
/// The responder failed.
pub const MRC_CORE_WC_REMOTE_OPERATION: u8 = 5;
/// Nothing was heard within the retry budget.
pub const MRC_CORE_WC_RETRY_EXCEEDED: u8 = 6;
/// A status this version of the interface has no number for.
pub const MRC_CORE_WC_OTHER: u8 = 255;

/// Kind of an event: a QP went to ERROR; `qpn` and `cause` are set.
pub const MRC_CORE_EVENT_QP_ERROR: u8 = 1;
/// An EV of a QP changed between usable and not; `qpn`, `ev`, `port`, `from` and `to` are set.
pub const MRC_CORE_EVENT_EV: u8 = 2;
/// A port went up or down; `port` and `up` are set.
pub const MRC_CORE_EVENT_PORT: u8 = 3;
/// A QP changed its state; `qpn`, `from` and `to` are set.
pub const MRC_CORE_EVENT_QP_STATE: u8 = 4;
/// A packet is going to be sent again; `qpn`, `psn`, `ev` and `cause` are set.
pub const MRC_CORE_EVENT_LOSS: u8 = 5;
/// A received frame had no further effect; `port`, `discard` and `cause` are set.
pub const MRC_CORE_EVENT_DISCARD: u8 = 6;
/// An EV entered a state that the event mask of its profile names, on any QP; `profile`, `entry`, `ev`, `port`, `to` and
/// `dropped` are set.
pub const MRC_CORE_EVENT_EV_PROFILE: u8 = 7;
/// A peer told which of its ports are up; `peer` and `ports` are set.
pub const MRC_CORE_EVENT_PEER_PORTS: u8 = 8;
/// A single-path selector begins to probe alternatives; `qpn`, `entry` and `rtt_ns` are set.
pub const MRC_CORE_EVENT_PATH_PROBE: u8 = 9;
/// A single-path selector takes another path; `qpn`, `from_entry` and `entry` are set.
pub const MRC_CORE_EVENT_PATH_SWITCH: u8 = 10;
/// An event this version of the interface has no number for.
pub const MRC_CORE_EVENT_OTHER: u8 = 255;

/// Events to raise: QPs that fail.
pub const MRC_CORE_EVENTS_QP_ERROR: u8 = 1;
/// EVs into and out of ASSUMED_BAD and DENIED.
pub const MRC_CORE_EVENTS_EV: u8 = 2;
/// EVs into and out of SKIP.
pub const MRC_CORE_EVENTS_EV_SKIP: u8 = 4;
/// Ports, ours and those of peers.
pub const MRC_CORE_EVENTS_PORT: u8 = 8;
/// Every change of state of a QP.
pub const MRC_CORE_EVENTS_QP_STATE: u8 = 16;
/// Single packets that are sent again.
pub const MRC_CORE_EVENTS_LOSS: u8 = 32;
/// Single frames that are discarded.
pub const MRC_CORE_EVENTS_DISCARD: u8 = 64;
/// What single-path selectors probe and take.
pub const MRC_CORE_EVENTS_PATH: u8 = 128;

/// What a completed request was: a write.
pub const MRC_CORE_OP_WRITE: u8 = 0;
/// A write with immediate.
pub const MRC_CORE_OP_WRITE_IMM: u8 = 1;
/// A receive request, consumed by the peer's write with immediate, or flushed.
pub const MRC_CORE_OP_RECEIVE: u8 = 2;

/// A write with immediate that finds no receive request waits: its Transport ACK is held back until one is posted.
pub const MRC_CORE_NO_RECEIVE_HOLD: u8 = 0;
/// It is refused with a NAK and the QP fails.
pub const MRC_CORE_NO_RECEIVE_NAK: u8 = 1;

/// Right of a region besides local use: the peer may write into it.
pub const MRC_CORE_ACCESS_REMOTE_WRITE: u8 = 1;

/// EV states.
pub const MRC_CORE_EV_GOOD: u8 = 0;
/// Passed over once, or for a time.
pub const MRC_CORE_EV_SKIP: u8 = 1;
/// Carries no data until a probe or the controller revives it.
pub const MRC_CORE_EV_ASSUMED_BAD: u8 = 2;
/// Excluded by the controller.
pub const MRC_CORE_EV_DENIED: u8 = 3;

/// Outer destination of packets to a peer: none, switches hash the EV.
pub const MRC_CORE_ROUTE_PLAIN: u8 = 0;
/// The EV is copied into a template of micro-SIDs.
pub const MRC_CORE_ROUTE_SRV6: u8 = 1;
/// The EV profile's entry is the outer destination.
pub const MRC_CORE_ROUTE_SRV6_ENTRY: u8 = 2;

/// Path selection: spray over the active EVs and avoid what feedback says is congested or broken.
pub const MRC_CORE_SELECT_SPRAY: u8 = 0;
/// Spray and never react: the baseline.
pub const MRC_CORE_SELECT_OBLIVIOUS: u8 = 1;
/// One path for everything: entry `pinned` of the profile.
pub const MRC_CORE_SELECT_PINNED: u8 = 2;
/// One path, left for a better one when its round trip says that it is congested: `hopper`.
pub const MRC_CORE_SELECT_HOPPER: u8 = 3;
/// One path, left for a random one when many packets were marked or lost: `flowbender`.
pub const MRC_CORE_SELECT_FLOWBENDER: u8 = 4;
/// No entry: a single-path selector draws the one it begins on.
pub const MRC_CORE_ENTRY_ANY: u16 = 0xFFFF;

/// Format of EVs: up to 16 bits, the UDP source port.
pub const MRC_CORE_EV_FORMAT_UDP: u8 = 0;
/// Up to 32 bits, a field per tier: source port and flow label.
pub const MRC_CORE_EV_FORMAT_STEV: u8 = 1;
/// Up to 128 bits: the outer IPv6 destination; up to 256: an SRH segment behind it.
pub const MRC_CORE_EV_FORMAT_SRV6: u8 = 2;

/// Values of an EV profile: from the engine, or from `paths` of a driver that knows its fabric.
pub const MRC_CORE_EV_MODE_AUTO: u8 = 0;
/// A controller programs each entry.
pub const MRC_CORE_EV_MODE_EXPLICIT: u8 = 1;
/// From the field descriptions.
pub const MRC_CORE_EV_MODE_GENERATED: u8 = 2;

/// Life of an EV profile: nothing is known of it.
pub const MRC_CORE_PROFILE_INIT: u8 = 0;
/// Configured; an EXPLICIT one is being programmed.
pub const MRC_CORE_PROFILE_OFFLINE: u8 = 1;
/// QPs may bind to it.
pub const MRC_CORE_PROFILE_ONLINE: u8 = 2;

/// Endpoint operation: measure the round trip of one path.
pub const MRC_CORE_ENDPOINT_EV_PROBE: u8 = 0;
/// Tell the peer which ports are up. The engine does so by itself when a port changes.
pub const MRC_CORE_ENDPOINT_PORT_STATUS: u8 = 1;

/// A congestion controller: nothing to send, nothing in flight.
pub const MRC_CORE_CC_IDLE: u8 = 0;
/// Nothing to send, packets in flight.
pub const MRC_CORE_CC_PENDING: u8 = 1;
/// Data waits, the window is closed.
pub const MRC_CORE_CC_ACTIVE: u8 = 2;
/// Data waits, the window is open.
pub const MRC_CORE_CC_READY: u8 = 3;

/// Congestion control: a window that never changes, `window_bytes` of nominal packets.
pub const MRC_CORE_CC_FIXED: u8 = 0;
/// None: the window of PSNs alone bounds what is in flight.
pub const MRC_CORE_CC_NONE: u8 = 1;
/// NSCC; needs `rate_bps` and `base_rtt_ns`.
pub const MRC_CORE_CC_NSCC: u8 = 2;

/// End of a skip: when the rotation has passed over the EV once.
pub const MRC_CORE_SKIP_ROTATION: u8 = 0;
/// After `skip_ns`.
pub const MRC_CORE_SKIP_TIME: u8 = 1;

/// Effect of an inferred loss on the EV: ASSUMED_BAD where trimming is negotiated, otherwise SKIP.
pub const MRC_CORE_LOSS_BY_TRIMMING: u8 = 0;
/// Always ASSUMED_BAD.
pub const MRC_CORE_LOSS_ASSUMED_BAD: u8 = 1;
/// Always SKIP.
pub const MRC_CORE_LOSS_SKIP: u8 = 2;
/// None.
pub const MRC_CORE_LOSS_NONE: u8 = 3;

/// Text of `len` bytes, without a final NUL; lives for ever.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_text {
    /// First byte.
    pub ptr: *const c_char,
    /// Bytes.
    pub len: usize,
}

/// Sizes of an endpoint; mrc_core_config_default() fills them. Every per-QP array has the same size for each QP.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_limits {
    /// Queue pairs, 1 to 65536.
    pub qps: u32,
    /// Widest window of a QP in units of 128 PSNs, both directions, a power of two, 1 to 128.
    pub mpr: u32,
    /// Work requests a QP can hold, a power of two.
    pub send_queue: u32,
    /// Receive requests a QP can hold, a power of two, or 0 where nothing is received with immediate.
    pub recv_queue: u32,
    /// Writes with immediate a QP accepts in flight, at most 65535.
    pub wimm: u32,
    /// EVs of a QP, active and backup.
    pub evs: u32,
    /// EVs a QP rotates through at most.
    pub active_evs: u32,
    /// Completion queues.
    pub cqs: u32,
    /// Completions a queue can hold, a power of two.
    pub cq_depth: u32,
    /// Memory regions, 1 to 65536.
    pub mrs: u32,
    /// Peers.
    pub peers: u32,
    /// EV profiles.
    pub ev_profiles: u32,
    /// Entries of an EV profile.
    pub profile_evs: u32,
    /// Congestion-control profiles, the endpoint's own among them.
    pub cc_profiles: u32,
    /// Congestion controllers: pairs of a peer and a profile that QPs use at the same time.
    pub qpccs: u32,
    /// Events that can wait.
    pub events: u32,
}

/// An IP address in network order; IPv4 uses the first four bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_ip {
    /// 4, 6, or 0 for none.
    pub version: u8,
    /// The address.
    pub bytes: [u8; 16],
}

/// One port of an endpoint.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_port {
    /// The port exists.
    pub present: u8,
    /// `sid` is set.
    pub has_sid: u8,
    /// `addr` is set.
    pub has_addr: u8,
    /// Source MAC address of frames that leave here.
    pub mac: [u8; 6],
    /// The host's SRv6 SID on this plane; packets arrive with it as outer destination.
    pub sid: [u8; 16],
    /// The port's own address: outer source of what it sends, accepted as destination.
    pub addr: [u8; 16],
}

/// The DSCP code points of the fabric, six bits each.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_dscp {
    /// Data when the fabric does not trim; EV probe requests.
    pub no_trim: u8,
    /// First transmissions and reliability probes.
    pub trimmable: u8,
    /// Retransmissions.
    pub trimmable_retx: u8,
    /// Set by a switch that cut the payload.
    pub trimmed: u8,
    /// The same, set by the last switch.
    pub trimmed_lasthop: u8,
    /// SACK, NACK, Transport ACK, endpoint responses.
    pub control: u8,
}

/// A congestion-control profile. Fill it with mrc_core_cc_default(), then change fields; all below `window_bytes` are NSCC's,
/// where 0 stands for the default that follows from rate and base RTT, but for `qa_gate` and `disable_qa`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_cc {
    /// Link speed in bit/s, the smaller one of sender and receiver, all planes together.
    pub rate_bps: u64,
    /// Window of MRC_CORE_CC_FIXED, in bytes of nominal packets.
    pub window_bytes: u32,
    /// Unloaded round trip of a full packet over the longest path, in nanoseconds.
    pub base_rtt_ns: u32,
    /// Queueing delay to aim at, in nanoseconds.
    pub target_delay_ns: u32,
    /// Fair increase per received byte, in bytes.
    pub fi_bytes: u32,
    /// Fixed increase per adjustment period, in bytes.
    pub eta_bytes: u32,
    /// Part of the received bytes by which fast increase grows the window, Q16.16.
    pub fi_scale_q16: u32,
    /// Weight of the excess delay in a decrease, Q16.16.
    pub gamma_q16: u32,
    /// Smallest factor of one decrease, Q16.16.
    pub max_md_jump_q16: u32,
    /// Delay that calls for quick adapt by itself, in nanoseconds; UINT32_MAX = never.
    pub qa_threshold_ns: u32,
    /// Apply increases after this many received bytes.
    pub adjust_bytes: u32,
    /// Apply increases after this long, in nanoseconds.
    pub adjust_period_ns: u32,
    /// Largest window in bytes.
    pub max_cwnd_bytes: u32,
    /// Delays below this count as zero, in nanoseconds.
    pub clear_delay_ns: u32,
    /// Weight of a delay sample in the average, Q16.16, at most one; 0 = by the time since the last one.
    pub avg_weight_q16: u32,
    /// MRC_CORE_CC_*.
    pub algorithm: u8,
    /// The fabric trims.
    pub trimming: u8,
    /// Quick adapt acts on epochs that delivered less than the maximum window shifted right by this; at most 31.
    pub qa_gate: u8,
    /// No quick adapt.
    pub disable_qa: u8,
}

/// Everything of an endpoint that is not per QP. Fill it with mrc_core_config_default(), then change fields.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_config {
    /// MRC_CORE_ABI, as mrc_core_config_default() sets it.
    pub abi: u32,
    /// Sizes.
    pub limits: mrc_core_limits,
    /// The endpoint's own congestion-control profile, for QPs that name none.
    pub cc: mrc_core_cc,
    /// Time after which an unanswered Port Status Update is sent again, in nanoseconds.
    pub port_update_rto_ns: u64,
    /// Endpoint operations of peers answered per second; 0 answers none.
    pub endpoint_rate_limit: u32,
    /// EV probes sent of its own accord per second, over all QPs.
    pub ev_probe_rate_limit: u32,
    /// Ports, port 1 first.
    pub ports: [mrc_core_port; MRC_CORE_MAX_PORTS],
    /// Inner (or only) addresses of this endpoint: its GIDs.
    pub gids: [mrc_core_ip; MRC_CORE_MAX_GIDS],
    /// The code points.
    pub dscp: mrc_core_dscp,
    /// UDP destination port of sent packets.
    pub udp_dport: u16,
    /// UDP destination ports taken on receipt.
    pub udp_dport_accept: [u16; 2],
    /// Partition key of every packet.
    pub pkey: u16,
    /// First MSN of a QP.
    pub msn_start: u16,
    /// First RQMSN of a QP.
    pub rqmsn_start: u16,
    /// SACK after this many received bytes.
    pub sack_gen_threshold: u32,
    /// Puts the upper EV half, not the lower, into the source port of IPv6 packets.
    pub ev_high_half_in_sport: u8,
    /// Where the solicited bit sits in byte 1 of BTH: 7 (IBTA) or 6.
    pub bth_se_bit: u8,
    /// `cc_type` of sent NACKs.
    pub neth_cc_type: u8,
    /// Drop packets above the window without a NACK.
    pub oor_silent: u8,
    /// Send control packets also on planes whose EV probes nobody answers.
    pub answers_on_silent_planes: u8,
    /// Let a SACK complete requests, for peers that send no Transport ACK.
    pub complete_on_sack: u8,
    /// Count every retried packet against the budget, not only the oldest.
    pub retry_strict: u8,
    /// Refuse zero-length messages.
    pub reject_zero_len: u8,
    /// Put a timestamp in every write.
    pub timestamps: u8,
    /// Mark control packets ECN-capable.
    pub ctl_ect: u8,
    /// Verdict ALWAYS_SKIP after this many consecutive CE marks on one EV; 0 = never.
    pub always_skip_after: u8,
    /// NAK syndrome for a write with immediate beyond the limit.
    pub wimm_nak_syndrome: u8,
    /// Events to raise: MRC_CORE_EVENTS_*.
    pub events: u8,
    /// MRC_CORE_NO_RECEIVE_*: a write with immediate found no receive request.
    pub no_receive: u8,
    /// Do not charge a repeated tail to the retry budget while the peer answers it.
    pub tail_retry_lenient: u8,
    /// QPs of an EV profile take over from each other which EVs are bad.
    pub share_bad_evs: u8,
    /// Take the time that endpoint responses wait out of the timestamps they reflect.
    pub endpoint_svc_time: u8,
    /// Tell the peer our ports when a QP enters RTS.
    pub port_update_on_rts: u8,
    /// Port masks on the wire count ports from zero.
    pub port_mask_zero_based: u8,
}

/// A registered region. Stale after mrc_core_deregister_mr(), even if the slot is used again.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct mrc_core_mr {
    /// Slot, below `limits.mrs`: for drivers that keep base addresses in a table of their own.
    pub index: u32,
    /// Which of the slot's regions, in turn.
    pub generation: u32,
}

/// A queue pair. Stale after mrc_core_destroy_qp(), even if the slot is used again.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct mrc_core_qp {
    /// Slot, below `limits.qps`.
    pub index: u32,
    /// The QP number, as the peer knows it.
    pub qpn: u32,
}

/// A completion queue.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct mrc_core_cq {
    /// Slot, below `limits.cqs`.
    pub index: u32,
}

/// A registered peer.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct mrc_core_peer {
    /// Slot, below `limits.peers`.
    pub index: u32,
}

/// An EV profile.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct mrc_core_ev_profile {
    /// Slot, below `limits.ev_profiles`.
    pub index: u32,
}

/// A congestion-control profile.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct mrc_core_cc_profile {
    /// Slot, below `limits.cc_profiles`; 0 is the endpoint's own.
    pub index: u32,
}

/// How packets to one peer leave through one port.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_plane {
    /// The peer is reachable through this port.
    pub present: u8,
    /// `outer_src` is set; without it the inner packet is sent bare.
    pub has_outer_src: u8,
    /// MAC address of the first hop: the T0 switch, or the peer itself on a direct link.
    pub next_hop: [u8; 6],
    /// Outer source address under SRv6.
    pub outer_src: [u8; 16],
}

/// Copies `width` EV bits, from bit `ev_lsb` up, to the destination bits that start `dst_msb_offset` from the top.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_copy_op {
    /// Lowest EV bit copied, 0 to 31.
    pub ev_lsb: u8,
    /// Bits copied, 1 to 32.
    pub width: u8,
    /// Where the highest of them goes; 0 is the top bit of the address.
    pub dst_msb_offset: u8,
}

/// A remote endpoint: addresses and paths that all QPs towards it share. Start from all zeros.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_peer_config {
    /// Our inner address towards this peer.
    pub local: mrc_core_ip,
    /// The peer's inner address.
    pub remote: mrc_core_ip,
    /// How to leave, port 1 first.
    pub planes: [mrc_core_plane; MRC_CORE_MAX_PORTS],
    /// MRC_CORE_ROUTE_*.
    pub route: u8,
    /// IP hop limit of the inner (or only) header.
    pub hop_limit: u8,
    /// Copy operations used, for MRC_CORE_ROUTE_SRV6.
    pub copy_ops: u8,
    /// The address the EV is copied over, for MRC_CORE_ROUTE_SRV6.
    pub base: [u8; 16],
    /// The copy operations.
    pub ops: [mrc_core_copy_op; MRC_CORE_MAX_COPY_OPS],
}

/// One entry of an EV profile.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_ev_entry {
    /// Value on the wire; for MRC_CORE_ROUTE_SRV6_ENTRY the index of the entry.
    pub ev: u32,
    /// Port, and so plane, of the path.
    pub port: u8,
    /// Excluded by the controller.
    pub denied: u8,
    /// `dst` is set.
    pub has_dst: u8,
    /// `segment` is set.
    pub has_segment: u8,
    /// Outer IPv6 destination.
    pub dst: [u8; 16],
    /// Segment of the SRH that follows, where the path does not fit into one destination.
    pub segment: [u8; 16],
}

/// What a QP learns when it becomes able to receive. Fill it with mrc_core_rtr_default(), then set the rest.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_rtr {
    /// The peer.
    pub peer: mrc_core_peer,
    /// EV profile of this QP.
    pub ev_profile: mrc_core_ev_profile,
    /// The peer's QP number.
    pub dest_qp: u32,
    /// PSN of the first packet the peer will send.
    pub rq_psn: u32,
    /// Payload bytes of a full packet: 256, 512, 1024, 2048 or 4096.
    pub path_mtu: u16,
    /// Writes with immediate the peer may have in flight; at most `limits.wimm`.
    pub max_wimm_dest: u16,
    /// Our responder's window, units of 128 PSNs, within the limits.
    pub mpr_dest: u8,
    /// Whether we answer trimmed packets with a trim NACK.
    pub trim_nack: u8,
    /// Both sides agreed that our window may change: mrc_core_set_mpr().
    pub dynamic_mpr: u8,
    /// Both sides agreed that we add our service time to the timestamps we reflect.
    pub svc_time: u8,
}

/// MRC_CORE_SELECT_HOPPER; percent of the base RTT where a time is meant.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_hopper {
    /// Weight of a new sample in the average round trip, in percent.
    pub alpha_percent: u16,
    /// Average above which alternatives are probed.
    pub th_probe_percent: u16,
    /// Average above which the path counts as congested.
    pub th_cong_percent: u16,
    /// How long a path is not probed again, and how long its answer is believed.
    pub ttl_probe_percent: u16,
    /// An alternative wins when its round trip is below this part of the average of the current path.
    pub delta_rtt_percent: u16,
    /// Pause before a switch, in percent of what the round trips differ by; 0 never pauses.
    pub switch_delay_percent: u16,
    /// Longest pause.
    pub switch_delay_max_percent: u16,
    /// Entry of the profile to begin on, or MRC_CORE_ENTRY_ANY.
    pub first: u16,
    /// An inferred loss on the current path moves the QP, once per epoch, even if the EV stays healthy.
    pub move_on_loss: u8,
}

/// MRC_CORE_SELECT_FLOWBENDER.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_flowbender {
    /// Part of an epoch's acknowledgements that may be marked or lost, in tenths of a percent.
    pub threshold_permille: u16,
    /// Entry of the profile to begin on, or MRC_CORE_ENTRY_ANY.
    pub first: u16,
    /// Epochs in a row above the threshold before the QP moves; 0 counts as 1.
    pub epochs: u8,
}

/// Path selection of one QP.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_paths {
    /// Distance of two probes of a bad EV, in nanoseconds.
    pub probe_interval_ns: u64,
    /// Length of a skip under MRC_CORE_SKIP_TIME, in nanoseconds.
    pub skip_ns: u64,
    /// EVs in rotation over all planes.
    pub active: u16,
    /// Healthy EVs in reserve over all planes.
    pub backup: u16,
    /// EVs that stay in rotation whatever the network says of them.
    pub ev_min_active: u16,
    /// The profile's entry, for MRC_CORE_SELECT_PINNED.
    pub pinned: u16,
    /// For MRC_CORE_SELECT_HOPPER.
    pub hopper: mrc_core_hopper,
    /// For MRC_CORE_SELECT_FLOWBENDER.
    pub flowbender: mrc_core_flowbender,
    /// MRC_CORE_SELECT_*.
    pub selector: u8,
    /// Good probe answers in a row that revive an EV.
    pub resurrect_probes: u8,
    /// Probes of bad EVs under way at once.
    pub bad_probes_outstanding: u8,
    /// Losses of an EV in a row before a loss or timeout retires it; until then it is skipped.
    pub loss_streak: u8,
    /// MRC_CORE_SKIP_*.
    pub skip_mode: u8,
    /// MRC_CORE_LOSS_*.
    pub loss_ev_action: u8,
    /// With no healthy EV on a usable port, send one packet per base RTT on a bad one.
    pub last_resort: u8,
}

/// What a QP learns when it becomes able to send. Fill it with mrc_core_rts_default(), then change fields.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_rts {
    /// Unloaded round trip of a full packet, in nanoseconds.
    pub base_rtt_ns: u64,
    /// Added to 3 base RTTs before a probe counts as lost, in nanoseconds.
    pub target_delay_ns: u64,
    /// Shortest time between two probes of this QP, in nanoseconds.
    pub probe_rate_limit_ns: u64,
    /// Probe an otherwise silent peer this often, in nanoseconds; 0 = never.
    pub keepalive_ns: u64,
    /// Path selection.
    pub paths: mrc_core_paths,
    /// PSN of our first packet.
    pub sq_psn: u32,
    /// Congestion-control profile; 0 = the endpoint's own. QPs to one peer with one profile share its window.
    pub cc_profile: mrc_core_cc_profile,
    /// Fewest packets that must have overtaken a packet before it is inferred lost.
    pub reorder_pkts_min: u16,
    /// Part of the window, in 1/256, that must have overtaken it.
    pub reorder_factor: u16,
    /// Writes with immediate in flight: the smaller of our own limit and the peer's `max_wimm_dest`; 0 = none.
    pub max_wimm: u16,
    /// Our requester's window, units of 128 PSNs: the smaller of our wish and the peer's `mpr_dest`.
    pub mpr: u8,
    /// The peer answers trimmed packets with a trim NACK and the fabric trims.
    pub trimming: u8,
    /// T0 = 1.024 us * 2^timeout; 0 disables the timer; 1 to 24.
    pub timeout: u8,
    /// Retries at the fixed interval T0; 0 to 7.
    pub retry_linear: u8,
    /// Retries at a doubling interval; 0 to 25, 25 = unlimited.
    pub retry_exponential: u8,
    /// Both sides agreed that the peer's window may change.
    pub dynamic_mpr: u8,
}

/// An RDMA write, with or without immediate. Start from all zeros.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_send_wr {
    /// The caller's number, returned in the completion.
    pub wr_id: u64,
    /// Address of the first local byte.
    pub local_va: u64,
    /// Address of the first remote byte.
    pub remote_va: u64,
    /// L_Key of the local region.
    pub lkey: u32,
    /// The peer's key.
    pub rkey: u32,
    /// Bytes of the message; 0 is allowed.
    pub len: u32,
    /// The immediate.
    pub imm: u32,
    /// The write carries `imm` and completes a receive request of the peer.
    pub has_imm: u8,
    /// The peer's completion asks for an event.
    pub solicited: u8,
    /// Whether success produces a completion; failure always does.
    pub signaled: u8,
}

/// What the driver knows about a received frame.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_rx {
    /// Bytes of the whole frame, from the Ethernet header on, without FCS.
    pub wire_len: u32,
    /// Port it arrived on, 1-based.
    pub port: u8,
    /// MRC_CORE_ICRC_*.
    pub icrc: u8,
}

/// Where a payload goes. Keys, rights and bounds are checked; the bytes move before the next call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_placement {
    /// Region.
    pub mr: mrc_core_mr,
    /// Offset of the first byte in the region.
    pub offset: u64,
    /// Where in the frame the payload starts.
    pub payload_start: u32,
    /// Its bytes.
    pub payload_len: u32,
}

/// A frame to send: headers lie at the start of the caller's buffer; payload, pad and ICRC follow.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_transmit {
    /// Region of the payload.
    pub mr: mrc_core_mr,
    /// Offset of the payload's first byte in the region.
    pub offset: u64,
    /// Bytes of payload to append; 0 = none, `mr` and `offset` are then meaningless.
    pub payload_len: u32,
    /// Bytes of headers written, from the Ethernet header to the last transport header.
    pub header_len: u32,
    /// Offset of the IP header that carries UDP: the ICRC starts there.
    pub l3_offset: u32,
    /// Bytes of the whole frame: headers, payload, pad and ICRC.
    pub frame_len: u32,
    /// Entropy value of the packet.
    pub ev: u32,
    /// Port to send through, 1-based.
    pub port: u8,
    /// Zero bytes to append after the payload; the 4 ICRC bytes follow.
    pub pad: u8,
    /// DSCP and ECN as in the IP header.
    pub traffic_class: u8,
}

/// One finished work request, and why when it failed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_completion {
    /// The caller's number.
    pub wr_id: u64,
    /// Time since the last acknowledgement, in nanoseconds; 0 for success.
    pub since_ack_ns: u64,
    /// Local QP number.
    pub qpn: u32,
    /// Bytes of the message.
    pub byte_len: u32,
    /// PSN of its first packet.
    pub first_psn: u32,
    /// The peer's immediate.
    pub imm: u32,
    /// EV of the last packet sent on the QP.
    pub last_ev: u32,
    /// Its port; 0 when nothing was sent.
    pub last_port: u8,
    /// MRC_CORE_WC_*.
    pub status: u8,
    /// MRC_CORE_OP_*.
    pub operation: u8,
    /// `imm` is set: a receive that succeeded.
    pub has_imm: u8,
    /// The peer asked for an event with this completion.
    pub solicited: u8,
    /// Retries spent when it ended.
    pub retries: u8,
}

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

/// An EV as a controller names it: bits before expansion, byte 0 the most significant, and port. All zero with port 0: an
/// entry without a value.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct mrc_core_ev {
    /// The bits.
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
    /// QPs bound to it.
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
    /// Bytes in flight.
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
