//! What crosses the border: plain C structs and numbers. No Rust enum and no `bool` does, so that no bit pattern from C can
//! be invalid; a flag is a `uint8_t`, zero or not. Numbers are in `codes`, what controllers exchange in
//! `control_types`, what the engine reports in `report_types`.

use core::ffi::c_char;

use crate::codes::*;
pub use crate::report_types::*;

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
    /// Widest window of a QP in units of 128 PSNs, both directions, a power of two, 1 to 256: the widest on the wire is 255.
    pub mpr: u32,
    /// Packets a QP can have in flight, a power of two, at least 8, where it sends less than a window: `mpr * 128` or more is the
    /// whole window.
    pub tx_packets: u32,
    /// Work requests a QP can hold, a power of two, 1 to 1048576.
    pub send_queue: u32,
    /// Receive requests a QP can hold, a power of two, or 0 where nothing is received with immediate; 0 to 1048576.
    pub recv_queue: u32,
    /// Writes with immediate a QP accepts in flight, 0 to 65535.
    pub wimm: u32,
    /// EVs of a QP, active and backup, 1 to 4096.
    pub evs: u32,
    /// EVs a QP rotates through at most, 1 to `evs`; no fewer than the planes that its EV profile uses.
    pub active_evs: u32,
    /// Completion queues, 1 to 65536.
    pub cqs: u32,
    /// Completions a queue can hold, a power of two, 1 to 1048576.
    pub cq_depth: u32,
    /// Memory regions, 1 to 65536.
    pub mrs: u32,
    /// Peers, 1 to 65536.
    pub peers: u32,
    /// Planes, 1 to 8: ports with higher numbers cannot be.
    pub planes: u32,
    /// Peers that micro-SIDs may lead to: those with handles below this number. `peers` or more: all.
    pub srv6_peers: u32,
    /// EV profiles, 1 to 65536.
    pub ev_profiles: u32,
    /// Entries of an EV profile, 1 to 65535.
    pub profile_evs: u32,
    /// Congestion-control profiles, the endpoint's own among them, 1 to 65536.
    pub cc_profiles: u32,
    /// Congestion controllers, 1 to 65536: pairs of a peer and a profile that QPs use at the same time.
    pub qpccs: u32,
    /// NACKs of all QPs together that can wait beside the 16 answers of each QP, 0 to 65536: as many as the packets handed over
    /// between two turns to send.
    pub refusals: u32,
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
/// where 0 stands for the default that follows from rate and base RTT, but for `qa_gate` and the switches.
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
    /// What a full packet takes longer than a probe over the longest path of an idle fabric, in nanoseconds: added to each
    /// probe's round trip before that lowers the base RTT. 0: the difference counts as queueing.
    pub probe_shortfall_ns: u32,
    /// MRC_CORE_CC_*.
    pub algorithm: u8,
    /// The fabric trims.
    pub trimming: u8,
    /// Quick adapt acts on epochs that delivered less than the maximum window shifted right by this; at most 31.
    pub qa_gate: u8,
    /// No quick adapt.
    pub disable_qa: u8,
    /// No probe asks for the base RTT, and no probe's round trip lowers it.
    pub disable_rtt_probe: u8,
    /// A base RTT that falls cuts the window to the largest one at once, not when increases are applied next.
    pub window_follows_rtt: u8,
    /// Many senders share the link of one host, whose switch marks nothing: windows go below a packet, a delay of the target or more
    /// decreases them without a mark, and small ones grow slowly.
    pub crowds: u8,
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
    /// Time after which an unanswered Port Status Update is sent again, in nanoseconds; doubles after three repetitions.
    pub port_update_rto_ns: u64,
    /// Longest time between two repetitions of a Port Status Update, in nanoseconds.
    pub port_update_max_ns: u64,
    /// A packet from a port that its peer masked this long ago or longer unmasks it, in nanoseconds; 0 = never.
    pub port_unmask_after_ns: u64,
    /// How long what a QP measures of the network holds unless it is confirmed, in nanoseconds; 0 = for ever.
    pub measurement_life_ns: u64,
    /// Endpoint operations of peers answered per second, after a burst of 32; 0 answers none.
    pub endpoint_rate_limit: u32,
    /// EV probes sent of its own accord per second, over all QPs, after a burst of 16.
    pub ev_probe_rate_limit: u32,
    /// Bytes that a congestion controller, and within it a QP, may send in one turn while others wait; 0 = one packet per turn,
    /// as the specification has it. With bytes, who was idle has its first turn before those that had turns.
    pub turn_bytes: u32,
    /// QPs that one call serves at most where it concerns all of them: mrc_core_handle_timeout(), mrc_core_set_port(),
    /// mrc_core_set_port_admin(), mrc_core_set_ev_state(). The next calls of mrc_core_handle_timeout() go on. At least 1.
    pub call_budget: u32,
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
    /// `cc_type` of sent NACKs, 0 to 15.
    pub neth_cc_type: u8,
    /// Order of `spdcid` and `dpdcid` in sent SACKs and NACKs: 0 = the packet's sender first, 1 = the requester first.
    pub pdcid_order: u8,
    /// Drop packets above the window without a NACK.
    pub oor_silent: u8,
    /// Send control packets also on planes whose EV probes nobody answers.
    pub answers_on_silent_planes: u8,
    /// Let a SACK complete requests, for peers that send no Transport ACK.
    pub complete_on_sack: u8,
    /// Let a Transport NAK end the QP also when it names a PSN that a Transport ACK covered before.
    pub stale_nak_fatal: u8,
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
    /// NAK syndrome for a write with immediate beyond the limit, 0x61 to 0x7F.
    pub wimm_nak_syndrome: u8,
    /// Events to raise: MRC_CORE_EVENTS_*.
    pub events: u8,
    /// MRC_CORE_NO_RECEIVE_*: a write with immediate found no receive request.
    pub no_receive: u8,
    /// Do not charge a repeated tail to the retry budget while the peer answers it.
    pub tail_retry_lenient: u8,
    /// Charge a repeated tail to the retry budget no faster than the timer of a packet, whose waits grow. 0: one retry per T0.
    pub tail_retry_paced: u8,
    /// A QP whose timer ran out, and that had no answer since, has so many packets in flight. They take nothing from the window that QPs share,
    /// and tail probes leave further and further apart, up to T0. 0: no limit.
    pub silent_packets: u8,
    /// QPs of an EV profile take over from each other which EVs are bad.
    pub share_bad_evs: u8,
    /// Take the time that endpoint responses wait out of the timestamps they reflect.
    pub endpoint_svc_time: u8,
    /// Tell the peer our ports when a QP enters RTS.
    pub port_update_on_rts: u8,
    /// Send probes through ports that the peer has masked when no other port is left.
    pub probe_masked_ports: u8,
    /// Port masks on the wire count ports from zero.
    pub port_mask_zero_based: u8,
    /// SACKs that several packets of a QP draw before one can leave may be one, where nothing is missing and none of them has
    /// a mark, a probe's number or a retransmission to report.
    pub merge_sacks: u8,
    /// Send a Transport ACK also for a packet within a message that asks for an acknowledgement; else its SACK is the answer.
    pub tack_within_message: u8,
    /// Ask for an acknowledgement with the last packet of every message; else with the last one that may leave.
    pub ask_each_message: u8,
    /// The driver reports the end of each placement: mrc_core_placed(). Else its bytes are in memory before the next poll.
    pub placement_reported: u8,
    /// Upper bits of a QP number that name the shard, 0 to 6; 0: the endpoint is alone behind its addresses.
    pub shard_bits: u8,
    /// Which shard it is, below 2^shard_bits. Shard 0 takes what is for QP 2.
    pub shard: u8,
    /// Distance of the highest received PSN from the beginning of a bitmap that shows the newest PSNs: 63 or 64.
    pub bitmap_reach: u8,
    /// A smaller window refuses packets that the wider one allowed.
    pub right_edge_retreats: u8,
    /// A packet may leave while less than the congestion window is in flight, though it does not fit.
    pub send_below_window: u8,
    /// What the nominal size of a packet adds to its UDP length, in bytes.
    pub size_overhead: u8,
    /// Transport ACKs and NAKs carry message number 0 in place of the count of completed messages.
    pub ack_msn_zero: u8,
    /// Lower bit of the operation in byte 1 of endpoint responses: 2 or 4.
    pub eeth_op_bit: u8,
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

/// A completion queue. Stale after mrc_core_destroy_cq(), even if the slot is used again.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct mrc_core_cq {
    /// Slot, below `limits.cqs`.
    pub index: u16,
    /// Which of the slot's objects, in turn.
    pub generation: u16,
}

/// A registered peer. Stale after mrc_core_remove_peer(), even if the slot is used again.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct mrc_core_peer {
    /// Slot, below `limits.peers`.
    pub index: u16,
    /// Which of the slot's objects, in turn.
    pub generation: u16,
}

/// An EV profile. Stale after mrc_core_destroy_ev_profile(), even if the slot is used again.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct mrc_core_ev_profile {
    /// Slot, below `limits.ev_profiles`.
    pub index: u16,
    /// Which of the slot's objects, in turn.
    pub generation: u16,
}

/// A congestion-control profile. Stale after mrc_core_destroy_cc_profile(), even if the slot is used again.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct mrc_core_cc_profile {
    /// Slot, below `limits.cc_profiles`; 0 is the endpoint's own.
    pub index: u16,
    /// Which of the slot's objects, in turn.
    pub generation: u16,
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
    /// The peer's QP number, 3 to 0xFFFFFF.
    pub dest_qp: u32,
    /// PSN of the first packet the peer will send; 24 bits.
    pub rq_psn: u32,
    /// Payload bytes of a full packet: 256, 512, 1024, 2048 or 4096.
    pub path_mtu: u16,
    /// Writes with immediate the peer may have in flight; at most `limits.wimm`.
    pub max_wimm_dest: u16,
    /// Our responder's window, units of 128 PSNs, 1 to 255 and at most `limits.mpr`.
    pub mpr_dest: u8,
    /// Whether we answer trimmed packets with a trim NACK.
    pub trim_nack: u8,
    /// Both sides agreed that our window may change: mrc_core_set_mpr().
    pub dynamic_mpr: u8,
    /// Both sides agreed that we add our service time to the timestamps we reflect.
    pub svc_time: u8,
    /// Service time is added to timestamps of a private unit, too, which is a microsecond then.
    pub private_stamps_us: u8,
}

/// MRC_CORE_SELECT_HOPPER; percent of the base RTT where a time is meant.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
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
    /// A marked acknowledgement of the current path starts the probes of its epoch, whatever the average.
    pub probe_on_mark: u8,
}

/// MRC_CORE_SELECT_FLOWBENDER.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct mrc_core_flowbender {
    /// Part of an epoch's acknowledgements that may be marked or lost, in tenths of a percent.
    pub threshold_permille: u16,
    /// 0: marks say what an acknowledgement met. Otherwise a round trip above this part of the base RTT, in percent, counts as
    /// a mark, and marks do not; above 100 then.
    pub rtt_percent: u16,
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
    /// EVs in rotation over all planes, rounded down to a multiple of the planes in use; at least one of each plane.
    pub active: u16,
    /// Healthy EVs in reserve over all planes, rounded likewise.
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
    /// Packets by which a QP may use one plane more than its least used one while others can use the port; 0: no limit.
    pub plane_lead: u8,
    /// The last resort does not wait between two packets.
    pub last_resort_unpaced: u8,
    /// A marked answer to the probe that revives an EV makes it GOOD, not SKIP.
    pub marked_probe_good: u8,
    /// A mark lengthens a skip under MRC_CORE_SKIP_TIME that is in force.
    pub skip_extends: u8,
    /// A retransmission may use the EV that its NACK named while no other healthy EV is on a free port.
    pub reuse_nacked_ev: u8,
    /// An EV that fails again after its return is probed half as often each time, until SACKs without a mark take that back.
    pub relapse_backoff: u8,
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
    /// The other way to infer a loss: a packet sent at least this much later, in nanoseconds, has arrived; 0 = never.
    pub reorder_delay_ns: u64,
    /// A probe leaves this long after the last packet to send, or after the window shrank and closed behind packets that
    /// did not ask for an acknowledgement, in nanoseconds, and what left that long before it and its answer lacks is lost
    /// on any path; 0 = only silence draws a probe.
    pub tail_probe_ns: u64,
    /// Lateness over all planes that is tolerated in any case, in nanoseconds; with `reorder_tolerance` only.
    pub reorder_floor_ns: u64,
    /// Path selection.
    pub paths: mrc_core_paths,
    /// PSN of our first packet; 24 bits.
    pub sq_psn: u32,
    /// Congestion-control profile; 0 = the endpoint's own. QPs to one peer with one profile share its window.
    pub cc_profile: mrc_core_cc_profile,
    /// Fewest packets that must have overtaken a packet before it is inferred lost.
    pub reorder_pkts_min: u16,
    /// Part of the window, in 1/256, that must have overtaken it.
    pub reorder_factor: u16,
    /// How late a packet may be, in 1/256 of the largest lateness measured, before it is inferred lost; 0 = nothing is measured.
    pub reorder_tolerance: u16,
    /// Writes with immediate in flight: the smaller of our own limit and the peer's `max_wimm_dest`; 0 = none.
    pub max_wimm: u16,
    /// Our requester's window, units of 128 PSNs, 1 to 255 and at most `limits.mpr`: the smaller of our wish and the peer's `mpr_dest`.
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
    /// The first exponential retry waits T0, the next one twice as long; else the first one waits 2 * T0.
    pub exponential_from_t0: u8,
    /// A packet's timer blames its path although nothing that left later has arrived on any path.
    pub blame_silence: u8,
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

/// Where a payload goes. Keys, rights and bounds are checked.
///
/// Without `placement_reported` the bytes must have landed, so that the host sees them, before the next call of
/// mrc_core_transmit_burst(), mrc_core_poll_transmit() or mrc_core_poll_cq(): what these return tells the peer or the
/// application that they are there. Other calls may come before that. With it, the engine waits for mrc_core_placed(). The
/// frame must stay where it is until its bytes have landed. If they cannot, mrc_core_place_failed() takes `token`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_placement {
    /// Region.
    pub mr: mrc_core_mr,
    /// Offset of the first byte in the region.
    pub offset: u64,
    /// Names the placement; never 0.
    pub token: u64,
    /// The QP that the packet came for.
    pub qp: mrc_core_qp,
    /// Its PSN.
    pub psn: u32,
    /// Where in the frame the payload starts.
    pub payload_start: u32,
    /// Its bytes.
    pub payload_len: u32,
}

/// A received frame for mrc_core_receive_burst(), and what became of it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct mrc_core_arrival {
    /// The frame from its Ethernet header on: at least all headers, whole under MRC_CORE_ICRC_VERIFY.
    pub head: *const u8,
    /// Bytes there.
    pub head_len: u32,
    /// What the driver knows about it.
    pub rx: mrc_core_rx,
    /// What mrc_core_handle_packet() would have returned.
    pub code: i32,
    /// Where its payload goes, under MRC_CORE_SOME.
    pub place: mrc_core_placement,
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

/// A frame that mrc_core_transmit_burst() may fill.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct mrc_core_frame {
    /// Where its headers go.
    pub headers: *mut u8,
    /// Writable bytes there, at least MRC_CORE_MAX_HEADER_LEN.
    pub len: u32,
    /// What follows them, if the frame was filled.
    pub tx: mrc_core_transmit,
}

/// One finished work request, and why when it failed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mrc_core_completion {
    /// The caller's number.
    pub wr_id: u64,
    /// Time since the peer was last heard, in nanoseconds; `u64::MAX` if it never was, 0 for success.
    pub since_ack_ns: u64,
    /// Local QP number.
    pub qpn: u32,
    /// Bytes of the message.
    pub byte_len: u32,
    /// PSN of its first packet; of a receive that succeeded, PSN of the packet with the immediate.
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
