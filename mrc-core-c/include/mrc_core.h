/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * mrc_core.h: the MRC transport engine for firmware in C. No libc, no allocation, no lock, no thread, no clock, no payload
 * bytes: memory and time are arguments, frames are described, the caller moves what is in them. How to bring it up on a NIC:
 * docs/embedding.md.
 *
 * A turn is one input (a frame, a posted request, a port that changed, time), then mrc_core_poll_transmit(),
 * or mrc_core_transmit_burst() where frames leave by the dozen, mrc_core_poll_cq() and mrc_core_poll_event() until they
 * return MRC_CORE_OK, then nothing until mrc_core_next_timeout(). Draining late costs latency, never correctness; `now_ns` never goes back,
 * and MRC_CORE_NEVER counts as the moment before it.
 *
 * Every pointer is NULL, which is refused, or points to what its type says for as long as the call lasts. Calls on one
 * endpoint never overlap; two endpoints know nothing of each other. A flag is a uint8_t, zero or not. A call that is refused may
 * have cleared its out struct: do not pass the variable that holds a handle in use.
 *
 * The firmware provides memcpy, memmove, memset, memcmp and bcmp, as freestanding C compilers ask for anyway. Link with
 * -Wl,--gc-sections: what then still refers to mrc_core_a_panic_is_reachable, which exists nowhere, could panic.
 */
#ifndef MRC_CORE_H
#define MRC_CORE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An endpoint; opaque. */
struct mrc_core_endpoint;
/* An endpoint that is being filled from an image; opaque. */
struct mrc_core_import;

#define MRC_CORE_ABI 19u /* Version of this interface. It changes whenever a struct, a number or a promise does. */

#define MRC_CORE_SEED_LEN 16u /* Bytes of the seed that mrc_core_init() takes. */

#define MRC_CORE_ALIGN 64u /* Alignment of the memory an endpoint lives in, in bytes. */

#define MRC_CORE_MAX_PORTS 8u /* Ports (planes) of an endpoint at most. */

#define MRC_CORE_MAX_GIDS 4u /* GIDs of an endpoint at most. */

#define MRC_CORE_MAX_COPY_OPS 16u /* Copy operations of an SRv6 template at most. */

#define MRC_CORE_MAX_EV_FIELDS 16u /* Fields of an EV format at most. */
/* The smallest `out` of mrc_core_poll_transmit() that every frame's headers fit in, in bytes. */
#define MRC_CORE_MAX_HEADER_LEN 192u

/* A buffer of this many bytes is long enough for every record of an image, see mrc_core_export(). */
#define MRC_CORE_EXPORT_MIN 4096u

#define MRC_CORE_NEVER UINT64_MAX /* A time that never comes. */

#define MRC_CORE_OK 0 /* Done; from a poll: nothing there. */
#define MRC_CORE_SOME 1 /* From mrc_core_handle_packet() and the polls: the out struct was filled. */
#define MRC_CORE_E_NULL (-1) /* A pointer is NULL. */
#define MRC_CORE_E_ALIGN (-2) /* A pointer is not aligned for what it points to. */
#define MRC_CORE_E_MEMORY (-3) /* The memory lent is smaller than mrc_core_storage_size() says. */
#define MRC_CORE_E_NO_ENDPOINT (-4) /* The memory holds no endpoint. */
#define MRC_CORE_E_ABI (-5) /* The configuration was made for another version of this interface. */
#define MRC_CORE_E_RANGE (-6) /* A value is outside its range; mrc_core_detail() names it. */
#define MRC_CORE_E_FULL (-7) /* No free slot or entry; mrc_core_detail() names the table. */
#define MRC_CORE_E_UNKNOWN (-8) /* A handle is stale or was never given out; mrc_core_detail() names it. */
#define MRC_CORE_E_BUSY (-9) /* Another object still uses this one. */
#define MRC_CORE_E_STATE (-10) /* The QP or profile is in a state that does not allow it. */
#define MRC_CORE_E_NO_USABLE_EV (-11) /* The EV profile has no usable entry for this QP. */
#define MRC_CORE_E_LOCAL_KEY (-12) /* The L_Key names no region of the QP's protection domain. */
#define MRC_CORE_E_LOCAL_BOUNDS (-13) /* The local range leaves its region. */
#define MRC_CORE_E_TOO_LONG (-14) /* The message needs more than 2^23 packets, half of the PSN space (path MTU 256 only). */
#define MRC_CORE_E_NO_WRITE_IMM (-15) /* The peer takes no writes with immediate. */
#define MRC_CORE_E_OTHER (-16) /* An error this version of the interface has no number for. */
#define MRC_CORE_E_IMAGE (-17) /* The image of an endpoint is refused; the detail says why. */
#define MRC_CORE_E_EMPTY (-18) /* The message is empty, and reject_zero_len is set. */
/* mrc_core_handle_packet() returns this minus the number of a discard reason; mrc_core_error_text() gives its name,
 * which is also the name of its counter. Compare names: numbers move with MRC_CORE_ABI. */
#define MRC_CORE_E_DISCARDED (-256)

#define MRC_CORE_ICRC_VERIFY 0u /* The engine checks the ICRC; the frame must be given whole. */
#define MRC_CORE_ICRC_VALID 1u /* Hardware or driver checked it: good. */
#define MRC_CORE_ICRC_INVALID 2u /* Hardware or driver checked it: bad, or absent as in a trimmed packet. */

#define MRC_CORE_QP_RESET 0u /* States of a QP. */
#define MRC_CORE_QP_INIT 1u /* Initialised: still receives nothing. */
#define MRC_CORE_QP_RTR 2u /* Ready to receive. */
#define MRC_CORE_QP_RTS 3u /* Ready to receive and to send. */
#define MRC_CORE_QP_ERROR 4u /* Failed: queued work is flushed, packets are ignored. */

#define MRC_CORE_WC_SUCCESS 0u /* Completion status: executed by the responder. */
#define MRC_CORE_WC_LOCAL_PROTECTION 1u /* The local region was deregistered under the request. */
#define MRC_CORE_WC_FLUSHED 2u /* The QP failed or was reset before this request ended. */
#define MRC_CORE_WC_REMOTE_INVALID 3u /* The responder refused the request's form. */
#define MRC_CORE_WC_REMOTE_ACCESS 4u /* The responder refused the key, rights or bounds. */
#define MRC_CORE_WC_REMOTE_OPERATION 5u /* The responder failed. */
#define MRC_CORE_WC_RETRY_EXCEEDED 6u /* Nothing was heard within the retry budget. */
#define MRC_CORE_WC_OTHER 255u /* A status this version of the interface has no number for. */

#define MRC_CORE_EVENT_QP_ERROR 1u /* Kind of an event: a QP went to ERROR; `qpn` and `cause` are set. */
/* An EV of a QP changed between usable and not; `qpn`, `ev`, `port`, `from` and `to` are set. */
#define MRC_CORE_EVENT_EV 2u
#define MRC_CORE_EVENT_PORT 3u /* A port went up or down; `port` and `up` are set. */
#define MRC_CORE_EVENT_QP_STATE 4u /* A QP changed its state; `qpn`, `from` and `to` are set. */
#define MRC_CORE_EVENT_LOSS 5u /* A packet is going to be sent again; `qpn`, `psn`, `ev` and `cause` are set. */
#define MRC_CORE_EVENT_DISCARD 6u /* A received frame had no further effect; `port`, `discard` and `cause` are set. */
/* An EV entered a state that the event mask of its profile names, on any QP; `profile`, `entry`, `ev`, `port`, `to`
 * and `dropped` are set. */
#define MRC_CORE_EVENT_EV_PROFILE 7u
#define MRC_CORE_EVENT_PEER_PORTS 8u /* A peer told which of its ports are up; `peer` and `ports` are set. */
/* A single-path selector begins to probe alternatives; `qpn`, `entry` and `rtt_ns` are set. */
#define MRC_CORE_EVENT_PATH_PROBE 9u
/* A single-path selector takes another path; `qpn`, `from_entry` and `entry` are set. */
#define MRC_CORE_EVENT_PATH_SWITCH 10u
#define MRC_CORE_EVENT_OTHER 255u /* An event this version of the interface has no number for. */

#define MRC_CORE_EVENTS_QP_ERROR 1u /* Events to raise: QPs that fail. */
#define MRC_CORE_EVENTS_EV 2u /* EVs into and out of ASSUMED_BAD and DENIED. */
#define MRC_CORE_EVENTS_EV_SKIP 4u /* EVs into and out of SKIP. */
#define MRC_CORE_EVENTS_PORT 8u /* Ports, ours and those of peers. */
#define MRC_CORE_EVENTS_QP_STATE 16u /* Every change of state of a QP. */
#define MRC_CORE_EVENTS_LOSS 32u /* Single packets that are sent again. */
#define MRC_CORE_EVENTS_DISCARD 64u /* Single frames that are discarded. */
#define MRC_CORE_EVENTS_PATH 128u /* What single-path selectors probe and take. */

#define MRC_CORE_OP_WRITE 0u /* What a completed request was: a write. */
#define MRC_CORE_OP_WRITE_IMM 1u /* A write with immediate. */
#define MRC_CORE_OP_RECEIVE 2u /* A receive request, consumed by the peer's write with immediate, or flushed. */

/* A write with immediate that finds no receive request waits: its Transport ACK is held back until one is posted. The peer counts
 * a retry per T0 meanwhile and fails when its budget is spent, unless it has `tail_retry_lenient`. */
#define MRC_CORE_NO_RECEIVE_HOLD 0u
#define MRC_CORE_NO_RECEIVE_NAK 1u /* It is refused with a NAK and the QP fails. */

#define MRC_CORE_ACCESS_REMOTE_WRITE 1u /* Right of a region besides local use: the peer may write into it. */

#define MRC_CORE_EV_GOOD 0u /* EV states. */
#define MRC_CORE_EV_SKIP 1u /* Passed over once, or for a time. */
#define MRC_CORE_EV_ASSUMED_BAD 2u /* Carries no data until a probe or the controller revives it. */
#define MRC_CORE_EV_DENIED 3u /* Excluded by the controller. */

#define MRC_CORE_ROUTE_PLAIN 0u /* Outer destination of packets to a peer: none, switches hash the EV. */
#define MRC_CORE_ROUTE_SRV6 1u /* The EV is copied into a template of micro-SIDs. */
#define MRC_CORE_ROUTE_SRV6_ENTRY 2u /* The EV profile's entry is the outer destination. */

/* Path selection: spray over the active EVs and avoid what feedback says is congested or broken. */
#define MRC_CORE_SELECT_SPRAY 0u
#define MRC_CORE_SELECT_OBLIVIOUS 1u /* Spray and never react: the baseline. */
#define MRC_CORE_SELECT_PINNED 2u /* One path for everything: entry `pinned` of the profile. */
/* One path, left for a better one when its round trip says that it is congested: `hopper`. */
#define MRC_CORE_SELECT_HOPPER 3u
/* One path, left for a random one when many packets were marked or lost: `flowbender`. */
#define MRC_CORE_SELECT_FLOWBENDER 4u
/* One path, left for a random one after rounds of congestion, earlier when idle: PLB with its published parameters. */
#define MRC_CORE_SELECT_PLB 5u
/* Spray over the paths whose acknowledgements came back unmarked: REPS with its published parameters. */
#define MRC_CORE_SELECT_REPS 6u
/* Spray over eight paths so that their loads stay level: Flowing & Jumping with the defaults of docs/selectors.md. */
#define MRC_CORE_SELECT_FLOWING_JUMPING 7u
#define MRC_CORE_ENTRY_ANY 0xFFFFu /* No entry: a single-path selector draws the one it begins on. */

#define MRC_CORE_EV_FORMAT_UDP 0u /* Format of EVs: up to 16 bits, the UDP source port. */
#define MRC_CORE_EV_FORMAT_STEV 1u /* Up to 32 bits, a field per tier: source port and flow label. */
/* Up to 128 bits: the outer IPv6 destination; up to 256: an SRH segment behind it. */
#define MRC_CORE_EV_FORMAT_SRV6 2u

/* Values of an EV profile: from the engine, or from `paths` of a driver that knows its fabric. */
#define MRC_CORE_EV_MODE_AUTO 0u
#define MRC_CORE_EV_MODE_EXPLICIT 1u /* A controller programs each entry. */
#define MRC_CORE_EV_MODE_GENERATED 2u /* From the field descriptions. */

#define MRC_CORE_PROFILE_INIT 0u /* Life of an EV profile: nothing is known of it. */
#define MRC_CORE_PROFILE_OFFLINE 1u /* Configured; an EXPLICIT one is being programmed. */
#define MRC_CORE_PROFILE_ONLINE 2u /* QPs may bind to it. */

#define MRC_CORE_SHARD_PEER_PORTS 1u /* What a message between shards says: `ports` of the peer are up. */
/* The shard has QPs towards the peer, or none any more; `used`, `entered_rts` and `profile` are set. */
#define MRC_CORE_SHARD_PEER_USED 2u
#define MRC_CORE_SHARD_BAD_EV 3u /* `entry` of `profile` is bad. */
/* An endpoint operation of the receiver was answered; `id`, `op`, `timestamp` and `port` are set. */
#define MRC_CORE_SHARD_RESPONSE 4u
#define MRC_CORE_SHARD_ALL 255u /* A message is for every other shard. */

#define MRC_CORE_ENDPOINT_EV_PROBE 0u /* Endpoint operation: measure the round trip of one path. */
/* Tell the peer which ports are up. The engine does so by itself when a port changes. */
#define MRC_CORE_ENDPOINT_PORT_STATUS 1u

#define MRC_CORE_CC_IDLE 0u /* A congestion controller: nothing to send, nothing in flight. */
#define MRC_CORE_CC_PENDING 1u /* Nothing to send, packets in flight. */
#define MRC_CORE_CC_ACTIVE 2u /* Data waits, the window is closed. */
#define MRC_CORE_CC_READY 3u /* Data waits, the window is open. */

/* Congestion control: a window that never changes, `window_bytes` of nominal packets. */
#define MRC_CORE_CC_FIXED 0u
#define MRC_CORE_CC_NONE 1u /* None: the window of PSNs alone bounds what is in flight. */
#define MRC_CORE_CC_NSCC 2u /* NSCC; needs `rate_bps` and `base_rtt_ns`. */

#define MRC_CORE_SKIP_ROTATION 0u /* End of a skip: when the rotation has passed over the EV once. */
#define MRC_CORE_SKIP_TIME 1u /* After `skip_ns`. */

/* Effect of an inferred loss on the EV: ASSUMED_BAD where trimming is negotiated, otherwise SKIP. */
#define MRC_CORE_LOSS_BY_TRIMMING 0u
#define MRC_CORE_LOSS_ASSUMED_BAD 1u /* Always ASSUMED_BAD. */
#define MRC_CORE_LOSS_SKIP 2u /* Always SKIP. */
#define MRC_CORE_LOSS_NONE 3u /* None. */

/* Text of `len` bytes, without a final NUL; lives for ever. */
struct mrc_core_text {
    /* First byte. */
    const char *ptr;
    /* Bytes. */
    size_t len;
};

/* Sizes of an endpoint; mrc_core_config_default() fills them. Every per-QP array has the same size for each QP. */
struct mrc_core_limits {
    /* Queue pairs, 1 to 65536. */
    uint32_t qps;
    /* Widest window of a QP in units of 128 PSNs, both directions, a power of two, 1 to 256: the widest on the wire is 255. */
    uint32_t mpr;
    /* Packets a QP can have in flight, a power of two, at least 8, where it sends less than a window: `mpr * 128` or more is the
     * whole window. */
    uint32_t tx_packets;
    /* Work requests a QP can hold, a power of two, 1 to 1048576. */
    uint32_t send_queue;
    /* Receive requests a QP can hold, a power of two, or 0 where nothing is received with immediate; 0 to 1048576. */
    uint32_t recv_queue;
    /* Writes with immediate a QP accepts in flight, 0 to 65535. */
    uint32_t wimm;
    /* EVs of a QP, active and backup, 1 to 4096. */
    uint32_t evs;
    /* EVs a QP rotates through at most, 1 to `evs`; no fewer than the planes
     * that its EV profile uses. */
    uint32_t active_evs;
    /* Completion queues, 1 to 65536. */
    uint32_t cqs;
    /* Completions a queue can hold, a power of two, 1 to 1048576. */
    uint32_t cq_depth;
    /* Memory regions, 1 to 65536. */
    uint32_t mrs;
    /* Peers, 1 to 65536. */
    uint32_t peers;
    /* Planes, 1 to 8: ports with higher numbers cannot be. */
    uint32_t planes;
    /* Peers that micro-SIDs may lead to: those with handles below this number. `peers` or more: all. */
    uint32_t srv6_peers;
    /* EV profiles, 1 to 65536. */
    uint32_t ev_profiles;
    /* Entries of an EV profile, 1 to 65535. */
    uint32_t profile_evs;
    /* Congestion-control profiles, the endpoint's own among them, 1 to 65536. */
    uint32_t cc_profiles;
    /* Congestion controllers, 1 to 65536: pairs of a peer and a profile that QPs use at the same time. */
    uint32_t qpccs;
    /* NACKs of all QPs together that can wait beside the 16 answers of each QP, 0 to 65536: as many as the packets handed over
     * between two turns to send. */
    uint32_t refusals;
    /* Events that can wait. */
    uint32_t events;
};

/* An IP address in network order; IPv4 uses the first four bytes. */
struct mrc_core_ip {
    /* 4, 6, or 0 for none. */
    uint8_t version;
    /* The address. */
    uint8_t bytes[16];
};

/* One port of an endpoint. */
struct mrc_core_port {
    /* The port exists. */
    uint8_t present;
    /* `sid` is set. */
    uint8_t has_sid;
    /* `addr` is set. */
    uint8_t has_addr;
    /* Source MAC address of frames that leave here. */
    uint8_t mac[6];
    /* The host's SRv6 SID on this plane; packets arrive with it as outer destination. */
    uint8_t sid[16];
    /* The port's own address: outer source of what it sends, accepted as destination. */
    uint8_t addr[16];
};

/* The DSCP code points of the fabric, six bits each. */
struct mrc_core_dscp {
    /* Data when the fabric does not trim; EV probe requests. */
    uint8_t no_trim;
    /* First transmissions and reliability probes. */
    uint8_t trimmable;
    /* Retransmissions. */
    uint8_t trimmable_retx;
    /* Set by a switch that cut the payload. */
    uint8_t trimmed;
    /* The same, set by the last switch. */
    uint8_t trimmed_lasthop;
    /* SACK, NACK, Transport ACK, endpoint responses. */
    uint8_t control;
};

/* A congestion-control profile. Fill it with mrc_core_cc_default(), then change fields; all below `window_bytes` are NSCC's,
 * where 0 stands for the default that follows from rate and base RTT, but for `qa_gate` and the switches. */
struct mrc_core_cc {
    /* Link speed in bit/s, the smaller one of sender and receiver, all planes together. */
    uint64_t rate_bps;
    /* Window of MRC_CORE_CC_FIXED, in bytes of nominal packets. */
    uint32_t window_bytes;
    /* Unloaded round trip of a full packet over the longest path, in nanoseconds. */
    uint32_t base_rtt_ns;
    /* Queueing delay to aim at, in nanoseconds. */
    uint32_t target_delay_ns;
    /* Fair increase per received byte, in bytes. */
    uint32_t fi_bytes;
    /* Fixed increase per adjustment period, in bytes. */
    uint32_t eta_bytes;
    /* Part of the received bytes by which fast increase grows the window, Q16.16. */
    uint32_t fi_scale_q16;
    /* Weight of the excess delay in a decrease, Q16.16. */
    uint32_t gamma_q16;
    /* Smallest factor of one decrease, Q16.16. */
    uint32_t max_md_jump_q16;
    /* Delay that calls for quick adapt by itself, in nanoseconds; UINT32_MAX = never. */
    uint32_t qa_threshold_ns;
    /* Apply increases after this many received bytes. */
    uint32_t adjust_bytes;
    /* Apply increases after this long, in nanoseconds. */
    uint32_t adjust_period_ns;
    /* Largest window in bytes. */
    uint32_t max_cwnd_bytes;
    /* Delays below this count as zero, in nanoseconds. */
    uint32_t clear_delay_ns;
    /* Weight of a delay sample in the average, Q16.16, at most one; 0 = by the time since the last one. */
    uint32_t avg_weight_q16;
    /* What a full packet takes longer than a probe over the longest path of an idle fabric, in nanoseconds: added to each
     * probe's round trip before that lowers the base RTT. 0: the difference counts as queueing. */
    uint32_t probe_shortfall_ns;
    /* MRC_CORE_CC_*. */
    uint8_t algorithm;
    /* The fabric trims. */
    uint8_t trimming;
    /* Quick adapt acts on epochs that delivered less than the maximum window shifted right by this; at most 31. */
    uint8_t qa_gate;
    /* No quick adapt. */
    uint8_t disable_qa;
    /* No probe asks for the base RTT, and no probe's round trip lowers it. */
    uint8_t disable_rtt_probe;
    /* A base RTT that falls cuts the window to the largest one at once, not when increases are applied next. */
    uint8_t window_follows_rtt;
    /* Many senders share the link of one host, whose switch marks nothing: windows go below a packet, a delay of the target or more
     * decreases them without a mark, and small ones grow slowly. */
    uint8_t crowds;
};

/* Everything of an endpoint that is not per QP. Fill it with mrc_core_config_default(), then change fields. */
struct mrc_core_config {
    /* MRC_CORE_ABI, as mrc_core_config_default() sets it. */
    uint32_t abi;
    /* Sizes. */
    struct mrc_core_limits limits;
    /* The endpoint's own congestion-control profile, for QPs that name none. */
    struct mrc_core_cc cc;
    /* Time after which an unanswered Port Status Update is sent again, in nanoseconds; doubles after three repetitions. */
    uint64_t port_update_rto_ns;
    /* Longest time between two repetitions of a Port Status Update, in nanoseconds. */
    uint64_t port_update_max_ns;
    /* A packet from a port that its peer masked this long ago or longer unmasks it, in nanoseconds; 0 = never. */
    uint64_t port_unmask_after_ns;
    /* How long what a QP measures of the network holds unless it is confirmed, in nanoseconds; 0 = for ever. */
    uint64_t measurement_life_ns;
    /* Endpoint operations of peers answered per second, after a burst of 32; 0 answers none. */
    uint32_t endpoint_rate_limit;
    /* EV probes sent of its own accord per second, over all QPs, after a burst of 16. */
    uint32_t ev_probe_rate_limit;
    /* Bytes that a congestion controller, and within it a QP, may send in one turn while others wait; 0 = one packet per turn,
     * as the specification has it. With bytes, who was idle has its first turn before those that had turns. */
    uint32_t turn_bytes;
    /* QPs that one call serves at most where it concerns all of them: mrc_core_handle_timeout(), mrc_core_set_port(),
     * mrc_core_set_port_admin(), mrc_core_set_ev_state(). The next calls of mrc_core_handle_timeout() go on. At least 1. */
    uint32_t call_budget;
    /* Ports, port 1 first. */
    struct mrc_core_port ports[MRC_CORE_MAX_PORTS];
    /* Inner (or only) addresses of this endpoint: its GIDs. */
    struct mrc_core_ip gids[MRC_CORE_MAX_GIDS];
    /* The code points. */
    struct mrc_core_dscp dscp;
    /* UDP destination port of sent packets. */
    uint16_t udp_dport;
    /* UDP destination ports taken on receipt. */
    uint16_t udp_dport_accept[2];
    /* Partition key of every packet. */
    uint16_t pkey;
    /* First MSN of a QP. */
    uint16_t msn_start;
    /* First RQMSN of a QP. */
    uint16_t rqmsn_start;
    /* SACK after this many received bytes. */
    uint32_t sack_gen_threshold;
    /* Puts the upper EV half, not the lower, into the source port of IPv6 packets. */
    uint8_t ev_high_half_in_sport;
    /* Where the solicited bit sits in byte 1 of BTH: 7 (IBTA) or 6. */
    uint8_t bth_se_bit;
    /* `cc_type` of sent NACKs, 0 to 15. */
    uint8_t neth_cc_type;
    /* Order of `spdcid` and `dpdcid` in sent SACKs and NACKs: 0 = the packet's sender first, 1 = the requester first. */
    uint8_t pdcid_order;
    /* Drop packets above the window without a NACK. */
    uint8_t oor_silent;
    /* Send control packets also on planes whose EV probes nobody answers. */
    uint8_t answers_on_silent_planes;
    /* Let a SACK complete requests, for peers that send no Transport ACK. */
    uint8_t complete_on_sack;
    /* Let a Transport NAK end the QP also when it names a PSN that a Transport ACK covered before. */
    uint8_t stale_nak_fatal;
    /* Count every retried packet against the budget, not only the oldest. */
    uint8_t retry_strict;
    /* Refuse zero-length messages. */
    uint8_t reject_zero_len;
    /* Put a timestamp in every write. */
    uint8_t timestamps;
    /* Mark control packets ECN-capable. */
    uint8_t ctl_ect;
    /* Verdict ALWAYS_SKIP after this many consecutive CE marks on one EV; 0 = never. */
    uint8_t always_skip_after;
    /* NAK syndrome for a write with immediate beyond the limit, 0x61 to 0x7F. */
    uint8_t wimm_nak_syndrome;
    /* Events to raise: MRC_CORE_EVENTS_*. */
    uint8_t events;
    /* MRC_CORE_NO_RECEIVE_*: a write with immediate found no receive request. */
    uint8_t no_receive;
    /* Do not charge a repeated tail to the retry budget while the peer answers it. */
    uint8_t tail_retry_lenient;
    /* Charge a repeated tail to the retry budget no faster than the timer of a packet, whose waits grow. 0: one retry per T0. */
    uint8_t tail_retry_paced;
    /* A QP whose timer ran out, and that had no answer since, has so many packets in flight. They take nothing from the window that QPs share,
     * and tail probes leave further and further apart, up to T0. 0: no limit. */
    uint8_t silent_packets;
    /* QPs of an EV profile take over from each other which EVs are bad. */
    uint8_t share_bad_evs;
    /* Take the time that endpoint responses wait out of the timestamps they reflect. */
    uint8_t endpoint_svc_time;
    /* Tell the peer our ports when a QP enters RTS. */
    uint8_t port_update_on_rts;
    /* Send probes through ports that the peer has masked when no other port is left. */
    uint8_t probe_masked_ports;
    /* Port masks on the wire count ports from zero. */
    uint8_t port_mask_zero_based;
    /* SACKs that several packets of a QP draw before one can leave may be one, where nothing is missing and none of them has
     * a mark, a probe's number or a retransmission to report. */
    uint8_t merge_sacks;
    /* Send a Transport ACK also for a packet within a message that asks for an acknowledgement; else its SACK is the answer. */
    uint8_t tack_within_message;
    /* Ask for an acknowledgement with the last packet of every message; else with the last one that may leave. */
    uint8_t ask_each_message;
    /* The driver reports the end of each placement: mrc_core_placed(). Else its bytes are in memory before the next poll. */
    uint8_t placement_reported;
    /* Upper bits of a QP number that name the shard, 0 to 6; 0: the endpoint is alone behind its addresses. */
    uint8_t shard_bits;
    /* Which shard it is, below 2^shard_bits. Shard 0 takes what is for QP 2. */
    uint8_t shard;
    /* Distance of the highest received PSN from the beginning of a bitmap that shows the newest PSNs: 63 or 64. */
    uint8_t bitmap_reach;
    /* A smaller window refuses packets that the wider one allowed. */
    uint8_t right_edge_retreats;
    /* A packet may leave while less than the congestion window is in flight, though it does not fit. */
    uint8_t send_below_window;
    /* What the nominal size of a packet adds to its UDP length, in bytes. */
    uint8_t size_overhead;
    /* Transport ACKs and NAKs carry message number 0 in place of the count of completed messages. */
    uint8_t ack_msn_zero;
    /* Lower bit of the operation in byte 1 of endpoint responses: 2 or 4. */
    uint8_t eeth_op_bit;
};

/* Handles are refused once their object is gone, also when the slot has another one. */

/* A registered region. Stale after mrc_core_deregister_mr(), even if the slot is used again. */
struct mrc_core_mr {
    /* Slot, below `limits.mrs`: for drivers that keep base addresses in a table of their own. */
    uint32_t index;
    /* Which of the slot's regions, in turn. */
    uint32_t generation;
};

/* A queue pair. Stale after mrc_core_destroy_qp(), even if the slot is used again. */
struct mrc_core_qp {
    /* Slot, below `limits.qps`. */
    uint32_t index;
    /* The QP number, as the peer knows it. */
    uint32_t qpn;
};

/* A completion queue. Stale after mrc_core_destroy_cq(), even if the slot is used again. */
struct mrc_core_cq {
    /* Slot, below `limits.cqs`. */
    uint16_t index;
    /* Which of the slot's objects, in turn. */
    uint16_t generation;
};

/* A registered peer. Stale after mrc_core_remove_peer(), even if the slot is used again. */
struct mrc_core_peer {
    /* Slot, below `limits.peers`. */
    uint16_t index;
    /* Which of the slot's objects, in turn. */
    uint16_t generation;
};

/* An EV profile. Stale after mrc_core_destroy_ev_profile(), even if the slot is used again. */
struct mrc_core_ev_profile {
    /* Slot, below `limits.ev_profiles`. */
    uint16_t index;
    /* Which of the slot's objects, in turn. */
    uint16_t generation;
};

/* A congestion-control profile. Stale after mrc_core_destroy_cc_profile(), even if the slot is used again. */
struct mrc_core_cc_profile {
    /* Slot, below `limits.cc_profiles`; 0 is the endpoint's own. */
    uint16_t index;
    /* Which of the slot's objects, in turn. */
    uint16_t generation;
};

/* How packets to one peer leave through one port. */
struct mrc_core_plane {
    /* The peer is reachable through this port. */
    uint8_t present;
    /* `outer_src` is set; without it the inner packet is sent bare. */
    uint8_t has_outer_src;
    /* MAC address of the first hop: the T0 switch, or the peer itself on a direct link. */
    uint8_t next_hop[6];
    /* Outer source address under SRv6. */
    uint8_t outer_src[16];
};

/* Copies `width` EV bits, from bit `ev_lsb` up, to the destination bits that start `dst_msb_offset` from the top. */
struct mrc_core_copy_op {
    /* Lowest EV bit copied, 0 to 31. */
    uint8_t ev_lsb;
    /* Bits copied, 1 to 32. */
    uint8_t width;
    /* Where the highest of them goes; 0 is the top bit of the address. */
    uint8_t dst_msb_offset;
};

/* A remote endpoint: addresses and paths that all QPs towards it share. Start from all zeros. */
struct mrc_core_peer_config {
    /* Our inner address towards this peer. */
    struct mrc_core_ip local;
    /* The peer's inner address. */
    struct mrc_core_ip remote;
    /* How to leave, port 1 first. */
    struct mrc_core_plane planes[MRC_CORE_MAX_PORTS];
    /* MRC_CORE_ROUTE_*. */
    uint8_t route;
    /* IP hop limit of the inner (or only) header. */
    uint8_t hop_limit;
    /* Copy operations used, for MRC_CORE_ROUTE_SRV6. */
    uint8_t copy_ops;
    /* The address the EV is copied over, for MRC_CORE_ROUTE_SRV6. */
    uint8_t base[16];
    /* The copy operations. */
    struct mrc_core_copy_op ops[MRC_CORE_MAX_COPY_OPS];
};

/* One entry of an EV profile. */
struct mrc_core_ev_entry {
    /* Value on the wire; for MRC_CORE_ROUTE_SRV6_ENTRY the index of the entry. */
    uint32_t ev;
    /* Port, and so plane, of the path. */
    uint8_t port;
    /* Excluded by the controller. */
    uint8_t denied;
    /* `dst` is set. */
    uint8_t has_dst;
    /* `segment` is set. */
    uint8_t has_segment;
    /* Outer IPv6 destination. */
    uint8_t dst[16];
    /* Segment of the SRH that follows, where the path does not fit into one destination. */
    uint8_t segment[16];
};

/* What a QP learns when it becomes able to receive. Fill it with mrc_core_rtr_default(), then set the rest. */
struct mrc_core_rtr {
    /* The peer. */
    struct mrc_core_peer peer;
    /* EV profile of this QP. */
    struct mrc_core_ev_profile ev_profile;
    /* The peer's QP number, 3 to 0xFFFFFF. */
    uint32_t dest_qp;
    /* PSN of the first packet the peer will send; 24 bits. */
    uint32_t rq_psn;
    /* Payload bytes of a full packet: 256, 512, 1024, 2048 or 4096. */
    uint16_t path_mtu;
    /* Writes with immediate the peer may have in flight; at most `limits.wimm`. */
    uint16_t max_wimm_dest;
    /* Our responder's window, units of 128 PSNs, 1 to 255 and at most `limits.mpr`. */
    uint8_t mpr_dest;
    /* Whether we answer trimmed packets with a trim NACK. */
    uint8_t trim_nack;
    /* Both sides agreed that our window may change: mrc_core_set_mpr(). */
    uint8_t dynamic_mpr;
    /* Both sides agreed that we add our service time to the timestamps we reflect. */
    uint8_t svc_time;
    /* Service time is added to timestamps of a private unit, too, which is a microsecond then. */
    uint8_t private_stamps_us;
};

/* MRC_CORE_SELECT_HOPPER; percent of the base RTT where a time is meant. */
struct mrc_core_hopper {
    /* Weight of a new sample in the average round trip, in percent. */
    uint16_t alpha_percent;
    /* Average above which alternatives are probed. */
    uint16_t th_probe_percent;
    /* Average above which the path counts as congested. */
    uint16_t th_cong_percent;
    /* How long a path is not probed again, and how long its answer is believed. */
    uint16_t ttl_probe_percent;
    /* An alternative wins when its round trip is below this part of the average of the current path. */
    uint16_t delta_rtt_percent;
    /* Pause before a switch, in percent of what the round trips differ by; 0 never pauses. */
    uint16_t switch_delay_percent;
    /* Longest pause. */
    uint16_t switch_delay_max_percent;
    /* Entry of the profile to begin on, or MRC_CORE_ENTRY_ANY. */
    uint16_t first;
    /* An inferred loss on the current path moves the QP, once per epoch, even if the EV stays healthy. */
    uint8_t move_on_loss;
    /* A marked acknowledgement of the current path starts the probes of its epoch, whatever the average. */
    uint8_t probe_on_mark;
};

/* MRC_CORE_SELECT_FLOWBENDER. */
struct mrc_core_flowbender {
    /* Part of an epoch's acknowledgements that may be marked or lost, in tenths of a percent. */
    uint16_t threshold_permille;
    /* 0: marks say what an acknowledgement met. Otherwise a round trip above this part of the base RTT, in percent, counts as
     * a mark, and marks do not; above 100 then. */
    uint16_t rtt_percent;
    /* Entry of the profile to begin on, or MRC_CORE_ENTRY_ANY. */
    uint16_t first;
    /* Epochs in a row above the threshold before the QP moves; 0 counts as 1. */
    uint8_t epochs;
};

/* Path selection of one QP. */
struct mrc_core_paths {
    /* Distance of two probes of a bad EV, in nanoseconds. */
    uint64_t probe_interval_ns;
    /* Length of a skip under MRC_CORE_SKIP_TIME, in nanoseconds. */
    uint64_t skip_ns;
    /* EVs in rotation over all planes, rounded down to a multiple of the planes in use; at least one of each plane. */
    uint16_t active;
    /* Healthy EVs in reserve over all planes, rounded likewise. */
    uint16_t backup;
    /* EVs that stay in rotation whatever the network says of them. */
    uint16_t ev_min_active;
    /* The profile's entry, for MRC_CORE_SELECT_PINNED. */
    uint16_t pinned;
    /* For MRC_CORE_SELECT_HOPPER. */
    struct mrc_core_hopper hopper;
    /* For MRC_CORE_SELECT_FLOWBENDER. */
    struct mrc_core_flowbender flowbender;
    /* MRC_CORE_SELECT_*. */
    uint8_t selector;
    /* Good probe answers in a row that revive an EV. */
    uint8_t resurrect_probes;
    /* Probes of bad EVs under way at once. */
    uint8_t bad_probes_outstanding;
    /* Losses of an EV in a row before a loss or timeout retires it; until then it is skipped. */
    uint8_t loss_streak;
    /* MRC_CORE_SKIP_*. */
    uint8_t skip_mode;
    /* MRC_CORE_LOSS_*. */
    uint8_t loss_ev_action;
    /* With no healthy EV on a usable port, send one packet per base RTT on a bad one. */
    uint8_t last_resort;
    /* Packets by which a QP may use one plane more than its least used one while others can use the port; 0: no limit. */
    uint8_t plane_lead;
    /* The last resort does not wait between two packets. */
    uint8_t last_resort_unpaced;
    /* A marked answer to the probe that revives an EV makes it GOOD, not SKIP. */
    uint8_t marked_probe_good;
    /* A mark lengthens a skip under MRC_CORE_SKIP_TIME that is in force. */
    uint8_t skip_extends;
    /* A retransmission may use the EV that its NACK named while no other healthy EV is on a free port. */
    uint8_t reuse_nacked_ev;
    /* An EV that fails again after its return is probed half as often each time, until SACKs without a mark take that back. */
    uint8_t relapse_backoff;
};

/* What a QP learns when it becomes able to send. Fill it with mrc_core_rts_default(), then change fields. */
struct mrc_core_rts {
    /* Unloaded round trip of a full packet, in nanoseconds. */
    uint64_t base_rtt_ns;
    /* Added to 3 base RTTs before a probe counts as lost, in nanoseconds. */
    uint64_t target_delay_ns;
    /* Shortest time between two probes of this QP, in nanoseconds. */
    uint64_t probe_rate_limit_ns;
    /* Probe an otherwise silent peer this often, in nanoseconds; 0 = never. */
    uint64_t keepalive_ns;
    /* The other way to infer a loss: a packet sent at least this much later, in nanoseconds, has arrived; 0 = never. */
    uint64_t reorder_delay_ns;
    /* A probe leaves this long after the last packet to send, or after the window shrank and closed behind packets that did
     * not ask for an acknowledgement, in nanoseconds, and what left that long before it and its answer lacks is lost on any
     * path; 0 = only silence draws a probe. */
    uint64_t tail_probe_ns;
    /* Lateness over all planes that is tolerated in any case, in nanoseconds; with `reorder_tolerance` only. */
    uint64_t reorder_floor_ns;
    /* Path selection. */
    struct mrc_core_paths paths;
    /* PSN of our first packet; 24 bits. */
    uint32_t sq_psn;
    /* Congestion-control profile; 0 = the endpoint's own. QPs to one peer with one profile share its window. */
    struct mrc_core_cc_profile cc_profile;
    /* Fewest packets that must have overtaken a packet before it is inferred lost. */
    uint16_t reorder_pkts_min;
    /* Part of the window, in 1/256, that must have overtaken it. */
    uint16_t reorder_factor;
    /* How late a packet may be, in 1/256 of the largest lateness measured, before it is inferred lost; 0 = nothing is measured. */
    uint16_t reorder_tolerance;
    /* Writes with immediate in flight: the smaller of our own limit and the peer's `max_wimm_dest`; 0 = none. */
    uint16_t max_wimm;
    /* Our requester's window, units of 128 PSNs, 1 to 255 and at most `limits.mpr`: the smaller of our wish and the peer's `mpr_dest`. */
    uint8_t mpr;
    /* The peer answers trimmed packets with a trim NACK and the fabric trims. */
    uint8_t trimming;
    /* T0 = 1.024 us * 2^timeout; 0 disables the timer; 1 to 24. */
    uint8_t timeout;
    /* Retries at the fixed interval T0; 0 to 7. */
    uint8_t retry_linear;
    /* Retries at a doubling interval; 0 to 25, 25 = unlimited. */
    uint8_t retry_exponential;
    /* Both sides agreed that the peer's window may change. */
    uint8_t dynamic_mpr;
    /* The first exponential retry waits T0, the next one twice as long; else the first one waits 2 * T0. */
    uint8_t exponential_from_t0;
    /* A packet's timer blames its path although nothing that left later has arrived on any path. */
    uint8_t blame_silence;
};

/* An RDMA write, with or without immediate. Start from all zeros. */
struct mrc_core_send_wr {
    /* The caller's number, returned in the completion. */
    uint64_t wr_id;
    /* Address of the first local byte. */
    uint64_t local_va;
    /* Address of the first remote byte. */
    uint64_t remote_va;
    /* L_Key of the local region. */
    uint32_t lkey;
    /* The peer's key. */
    uint32_t rkey;
    /* Bytes of the message; 0 is allowed. */
    uint32_t len;
    /* The immediate. */
    uint32_t imm;
    /* The write carries `imm` and completes a receive request of the peer. */
    uint8_t has_imm;
    /* The peer's completion asks for an event. */
    uint8_t solicited;
    /* Whether success produces a completion; failure always does. */
    uint8_t signaled;
};

/* What the driver knows about a received frame. */
struct mrc_core_rx {
    /* Bytes of the whole frame, from the Ethernet header on, without FCS. */
    uint32_t wire_len;
    /* Port it arrived on, 1-based. */
    uint8_t port;
    /* MRC_CORE_ICRC_*. */
    uint8_t icrc;
};

/* Where a payload goes. Keys, rights and bounds are checked.
 *
 * Without `placement_reported` the bytes must have landed, so that the host sees them, before the next call of
 * mrc_core_transmit_burst(), mrc_core_poll_transmit() or mrc_core_poll_cq(): what these return tells the peer or the
 * application that they are there. Other calls may come before that. With it, the engine waits for mrc_core_placed(). The
 * frame must stay where it is until its bytes have landed. If they cannot, mrc_core_place_failed() takes `token`. */
struct mrc_core_placement {
    /* Region. */
    struct mrc_core_mr mr;
    /* Offset of the first byte in the region. */
    uint64_t offset;
    /* Names the placement; never 0. */
    uint64_t token;
    /* The QP that the packet came for. */
    struct mrc_core_qp qp;
    /* Its PSN. */
    uint32_t psn;
    /* Where in the frame the payload starts. */
    uint32_t payload_start;
    /* Its bytes. */
    uint32_t payload_len;
};

/* A received frame for mrc_core_receive_burst(), and what became of it. */
struct mrc_core_arrival {
    /* The frame from its Ethernet header on: at least all headers, whole under MRC_CORE_ICRC_VERIFY. */
    const uint8_t *head;
    /* Bytes there. */
    uint32_t head_len;
    /* What the driver knows about it. */
    struct mrc_core_rx rx;
    /* What mrc_core_handle_packet() would have returned. */
    int32_t code;
    /* Where its payload goes, under MRC_CORE_SOME. */
    struct mrc_core_placement place;
};

/* A frame to send: headers lie at the start of the caller's buffer; payload, pad and ICRC follow. */
struct mrc_core_transmit {
    /* Region of the payload. */
    struct mrc_core_mr mr;
    /* Offset of the payload's first byte in the region. */
    uint64_t offset;
    /* Bytes of payload to append; 0 = none, `mr` and `offset` are then meaningless. */
    uint32_t payload_len;
    /* Bytes of headers written, from the Ethernet header to the last transport header. */
    uint32_t header_len;
    /* Offset of the IP header that carries UDP: the ICRC starts there. */
    uint32_t l3_offset;
    /* Bytes of the whole frame: headers, payload, pad and ICRC. */
    uint32_t frame_len;
    /* Entropy value of the packet. */
    uint32_t ev;
    /* Port to send through, 1-based. */
    uint8_t port;
    /* Zero bytes to append after the payload; the 4 ICRC bytes follow. */
    uint8_t pad;
    /* DSCP and ECN as in the IP header. */
    uint8_t traffic_class;
};

/* A frame that mrc_core_transmit_burst() may fill. */
struct mrc_core_frame {
    /* Where its headers go. */
    uint8_t *headers;
    /* Writable bytes there, at least MRC_CORE_MAX_HEADER_LEN. */
    uint32_t len;
    /* What follows them, if the frame was filled. */
    struct mrc_core_transmit tx;
};

/* One finished work request, and why when it failed. */
struct mrc_core_completion {
    /* The caller's number. */
    uint64_t wr_id;
    /* Time since the peer was last heard, in nanoseconds; UINT64_MAX if it never was, 0 for success. */
    uint64_t since_ack_ns;
    /* Local QP number. */
    uint32_t qpn;
    /* Bytes of the message. */
    uint32_t byte_len;
    /* PSN of its first packet; of a receive that succeeded, PSN of the packet with the immediate. */
    uint32_t first_psn;
    /* The peer's immediate. */
    uint32_t imm;
    /* EV of the last packet sent on the QP. */
    uint32_t last_ev;
    /* Its port; 0 when nothing was sent. */
    uint8_t last_port;
    /* MRC_CORE_WC_*. */
    uint8_t status;
    /* MRC_CORE_OP_*. */
    uint8_t operation;
    /* `imm` is set: a receive that succeeded. */
    uint8_t has_imm;
    /* The peer asked for an event with this completion. */
    uint8_t solicited;
    /* Retries spent when it ended. */
    uint8_t retries;
};

/* Something happened that is no completion. MRC_CORE_EVENT_* says which fields are set. */
struct mrc_core_event {
    /* Local QP number. */
    uint32_t qpn;
    /* Entropy value, or for MRC_CORE_EVENT_LOSS the EV's slot in the QP. */
    uint32_t ev;
    /* The packet. */
    uint32_t psn;
    /* Return code of mrc_core_handle_packet() for the frame. */
    int32_t discard;
    /* In words: why a QP failed, how a loss was found, why a frame was discarded. */
    struct mrc_core_text cause;
    /* EV profile. */
    struct mrc_core_ev_profile profile;
    /* Peer. */
    struct mrc_core_peer peer;
    /* The peer's ports, bit N for port N. */
    uint32_t ports;
    /* Events of EV profiles that found the queue full since the last one. */
    uint32_t dropped;
    /* Latest round trip of the path, in nanoseconds. */
    uint32_t rtt_ns;
    /* Entry of an EV profile. */
    uint16_t entry;
    /* Entry of the path that is left. */
    uint16_t from_entry;
    /* MRC_CORE_EVENT_*. */
    uint8_t kind;
    /* Port. */
    uint8_t port;
    /* The port's new state. */
    uint8_t up;
    /* MRC_CORE_EV_* or MRC_CORE_QP_* before. */
    uint8_t from;
    /* MRC_CORE_EV_* or MRC_CORE_QP_* now. */
    uint8_t to;
};

/* An EV as a controller names it: bits before expansion and port. All zero with port 0: an entry without a value. */
struct mrc_core_ev {
    /* The bits from the top of byte 0 on, the first field first; zeros follow. Of an entry as it is on the wire: the 32 bits
     * of `ev`, or 16 bytes of `dst` and 16 of `segment`. */
    uint8_t value[32];
    /* The port, 1-based. */
    uint8_t port;
};

/* An entry of an EV profile, as a controller sees it. */
struct mrc_core_ev_report {
    /* Value and port. */
    struct mrc_core_ev ev;
    /* MRC_CORE_EV_*. */
    uint8_t state;
};

/* How bits of an EV become a field of the expanded value: `init_val` with those bits replaced that `mask` names. */
struct mrc_core_ev_field {
    /* The field where the EV says nothing. */
    uint32_t init_val;
    /* Least generated value. */
    uint32_t min_val;
    /* Greatest generated value. */
    uint32_t max_val;
    /* Bits that come from the EV. */
    uint32_t mask;
    /* Bits of the field; at most 32, and those of the format. */
    uint8_t width;
};

/* What an EV profile is configured with. Start from all zeros. */
struct mrc_core_ev_profile_config {
    /* MRC_CORE_EV_MODE_AUTO only: paths as they are on the wire, of which the first `count` are taken; NULL = values
     * are made. */
    const struct mrc_core_ev_entry *paths;
    /* Paths there are; at most `limits.profile_evs`. */
    uint32_t path_count;
    /* Field descriptions, first field most significant; none = every bit of every field is the EV's, except in
     * MRC_CORE_EV_MODE_GENERATED, which needs them. */
    struct mrc_core_ev_field fields[MRC_CORE_MAX_EV_FIELDS];
    /* Field widths of the format, in bits. */
    uint8_t widths[MRC_CORE_MAX_EV_FIELDS];
    /* Entries; at most `limits.profile_evs`. */
    uint16_t count;
    /* EVs that stay in rotation whatever happens; 0 = as each QP says. */
    uint16_t min_active;
    /* MRC_CORE_EV_MODE_*. */
    uint8_t mode;
    /* MRC_CORE_EV_FORMAT_*. */
    uint8_t format;
    /* Fields of the format; 0 = one of 16 bits, for MRC_CORE_EV_FORMAT_UDP. */
    uint8_t width_count;
    /* Field descriptions. */
    uint8_t field_count;
    /* Raise an event when an entry becomes GOOD. */
    uint8_t event_good;
    /* Raise an event when an entry becomes ASSUMED_BAD. */
    uint8_t event_assumed_bad;
};

/* A picture of an EV profile. */
struct mrc_core_ev_profile_info {
    /* The number it was opened with. */
    uint64_t id;
    /* QPs bound to it; in shard 0 also peers that other shards use with it. */
    uint32_t users;
    /* Field descriptions in force. */
    struct mrc_core_ev_field fields[MRC_CORE_MAX_EV_FIELDS];
    /* Field widths of the format. */
    uint8_t widths[MRC_CORE_MAX_EV_FIELDS];
    /* Entries. */
    uint16_t count;
    /* EVs that stay in rotation. */
    uint16_t min_active;
    /* MRC_CORE_PROFILE_*. */
    uint8_t state;
    /* MRC_CORE_EV_MODE_*. */
    uint8_t mode;
    /* MRC_CORE_EV_FORMAT_*. */
    uint8_t format;
    /* Fields of the format. */
    uint8_t width_count;
    /* Field descriptions. */
    uint8_t field_count;
    /* It raises an event when an entry becomes GOOD. */
    uint8_t event_good;
    /* It raises an event when an entry becomes ASSUMED_BAD. */
    uint8_t event_assumed_bad;
};

/* A picture of a congestion controller, for all QPs that share it. */
struct mrc_core_cc_info {
    /* Window in bytes of nominal packets; UINT64_MAX without limit. */
    uint64_t cwnd_bytes;
    /* Bytes in flight, without those that test a silent peer (silent_packets). */
    uint64_t inflight_bytes;
    /* Bytes of data never sent. */
    uint64_t backlog_bytes;
    /* Smallest round trip known in nanoseconds; 0 where the algorithm has none. */
    uint64_t base_rtt_ns;
    /* Average queueing delay in nanoseconds; 0 where the algorithm has none. */
    uint64_t avg_delay_ns;
    /* QPs that share it. */
    uint32_t users;
    /* MRC_CORE_CC_IDLE to MRC_CORE_CC_READY. */
    uint8_t state;
};

/* An endpoint operation to perform once, over one path. Start from all zeros. */
struct mrc_core_op_request {
    /* Comes back in the outcome. */
    uint64_t cookie;
    /* Time to wait for the answer, in nanoseconds. */
    uint64_t timeout_ns;
    /* The path; `dst` where the peer's route is MRC_CORE_ROUTE_SRV6_ENTRY, and only there. */
    struct mrc_core_ev_entry path;
    /* Ports that MRC_CORE_ENDPOINT_PORT_STATUS tells, bit N for port N. */
    uint32_t ports;
    /* MRC_CORE_ENDPOINT_*. */
    uint8_t op;
    /* `dscp` is set; by default that of data which must not be trimmed for a probe, of control packets for an
     * update. */
    uint8_t has_dscp;
    /* Code point, 6 bits. */
    uint8_t dscp;
};

/* How an endpoint operation ended. */
struct mrc_core_op_outcome {
    /* Of the request. */
    uint64_t cookie;
    /* Round trip, in nanoseconds; 0 without an answer. */
    uint64_t rtt_ns;
    /* Of the request. */
    struct mrc_core_peer peer;
    /* Of the request. */
    uint8_t op;
    /* The answer came in time. */
    uint8_t answered;
    /* Port it arrived on. */
    uint8_t port;
    /* The peer took its service time out of the round trip. */
    uint8_t adjusted;
};

/* What one shard of a NIC tells another one, or all others. The driver carries it unread. */
struct mrc_core_shard_message {
    /* Ports of the peer that are up, bit N for port N. */
    uint32_t ports;
    /* The EV profile, the same one in every shard. */
    struct mrc_core_ev_profile profile;
    /* Its entry. */
    uint16_t entry;
    /* Identifier of the request. */
    uint16_t id;
    /* The timestamp that the answer reflects. */
    uint16_t timestamp;
    /* MRC_CORE_SHARD_*: what it says. The peer is named but in MRC_CORE_SHARD_BAD_EV. */
    uint8_t kind;
    /* The shard that says it. */
    uint8_t from;
    /* The shard it is for, or MRC_CORE_SHARD_ALL. */
    uint8_t to;
    /* The shard has QPs towards the peer. */
    uint8_t used;
    /* One of them entered RTS. */
    uint8_t entered_rts;
    /* MRC_CORE_ENDPOINT_*. */
    uint8_t op;
    /* Port the answer arrived on. */
    uint8_t port;
    /* Our address towards the peer. */
    struct mrc_core_ip local;
    /* The peer's. */
    struct mrc_core_ip remote;
};

/* Says whether the peer may write through a QP, on top of what each region allows. Every QP starts, and leaves RESET, with
 * permission; a write without it is refused like one without the region's. `access` as for a region. */
int32_t mrc_core_set_qp_access(struct mrc_core_endpoint *endpoint, struct mrc_core_qp pair, uint8_t access);

/* What the SACKs of a QP ask of the peer's window from now on: 0 nothing, 64 for a whole round trip halves it, 127 leaves
 * about one packet per round trip. With `restore_cwnd` the peer takes its old window back when the penalty ends. QPs of a peer may
 * share that window: one without a penalty then ends the penalty of the others. */
int32_t mrc_core_set_receiver_penalty(
    struct mrc_core_endpoint *endpoint, struct mrc_core_qp pair, uint8_t penalty, uint8_t restore_cwnd);

/* A picture of one QP. */
struct mrc_core_qp_info {
    /* Smallest round trip seen, in nanoseconds. */
    uint64_t base_rtt_ns;
    /* Why it failed, in words; empty unless it did. */
    struct mrc_core_text cause;
    /* The peer's QP number. */
    uint32_t dest_qp;
    /* Packets in flight. */
    uint32_t outstanding;
    /* Requests without completion. */
    uint32_t queued;
    /* Receive requests not consumed. */
    uint32_t receives;
    /* Placements whose end was not reported; 0 without `placement_reported`. */
    uint32_t placements;
    /* Planes, as port bits, whose EVs are all ASSUMED_BAD. */
    uint32_t suspended_ports;
    /* EVs in GOOD, in rotation or in reserve. */
    uint16_t evs_good;
    /* EVs in SKIP. */
    uint16_t evs_skip;
    /* EVs in ASSUMED_BAD. */
    uint16_t evs_assumed_bad;
    /* EVs in DENIED. */
    uint16_t evs_denied;
    /* EVs in rotation. */
    uint16_t evs_active;
    /* MRC_CORE_QP_*. */
    uint8_t state;
    /* Retries spent on the oldest packet. */
    uint8_t retries;
};

/* Traffic of one port. */
struct mrc_core_port_stats {
    /* Frames handed to the driver. */
    uint64_t tx_packets;
    /* Payload bytes of the writes among them, retransmissions included. */
    uint64_t tx_bytes;
    /* Frames accepted by the parser. */
    uint64_t rx_packets;
    /* Payload bytes placed. */
    uint64_t rx_bytes;
};

/* ---- Memory ---- */

/* Bytes of memory that an endpoint of these sizes needs; 0 when no endpoint can have them or `limits` is NULL. */
size_t mrc_core_storage_size(const struct mrc_core_limits *limits);

/* Bytes that one QP of these sizes costs; 0 when `limits` is NULL. */
size_t mrc_core_bytes_per_qp(const struct mrc_core_limits *limits);

/* Makes an endpoint in `mem`, which is aligned to MRC_CORE_ALIGN, has the `len` bytes that mrc_core_storage_size()
 * asks for, and belongs to the endpoint from now on, until nobody calls it any more. Its content does not matter. All
 * randomness (keys, QP numbers, identifiers, path order) comes from the MRC_CORE_SEED_LEN bytes of `seed`: draw them from
 * the device's random generator, anew for each endpoint. Who knows them knows every R_Key. All zeros are refused.
 * `detail`, where it is not NULL, receives the name of the field at fault. */
int32_t mrc_core_init(
    uint8_t *mem, size_t len, const struct mrc_core_config *config, const uint8_t *seed, struct mrc_core_endpoint * *out,
    struct mrc_core_text *detail);

/* ---- Live update ---- */

/* Begins an image of the endpoint, also when another one was begun. */
int32_t mrc_core_export_begin(struct mrc_core_endpoint *endpoint);

/* Writes the next piece of the image into `out` and its length to `written`; MRC_CORE_SOME: more follow, MRC_CORE_OK: it was
 * the last. The work of a call is bounded by `len`. The pieces one behind the other are the image. Between the first and the
 * last piece no other call may be made on the endpoint. Afterwards it is as it was, so that an update that fails can be given
 * up. Keep the image as secret as the memory of the endpoint. MRC_CORE_E_MEMORY: `len` is too small for the next record;
 * MRC_CORE_EXPORT_MIN bytes never are. */
int32_t mrc_core_export(struct mrc_core_endpoint *endpoint, uint8_t *out, size_t len, size_t *written);

/* Begins an endpoint from an image, in memory as for mrc_core_init(). `config` is equal to that of the endpoint of the image. */
int32_t mrc_core_import_begin(
    uint8_t *mem, size_t len, const struct mrc_core_config *config, struct mrc_core_import * *out,
    struct mrc_core_text *detail);

/* Takes the next bytes of the image and writes how many to `taken`: whole records only; hand over the others again, with
 * those that follow. Of MRC_CORE_EXPORT_MIN bytes or more it always takes some. MRC_CORE_SOME: more must follow,
 * MRC_CORE_OK: the image is complete. MRC_CORE_E_IMAGE: it is refused, and `detail`, where it is not NULL, says why. */
int32_t mrc_core_import_feed(
    struct mrc_core_import *import, const uint8_t *image, size_t len, size_t *taken, struct mrc_core_text *detail);

/* Makes the endpoint, in the same memory; `import` is gone then. MRC_CORE_E_IMAGE: the image is not complete, or was refused,
 * and there is no endpoint. */
int32_t mrc_core_import_end(
    struct mrc_core_import *import, struct mrc_core_endpoint * *out, struct mrc_core_text *detail);

/* ---- Set-up ---- */

/* Fills `config` with the defaults: no port, no GID, limits for 16 QPs. */
int32_t mrc_core_config_default(struct mrc_core_config *config);

/* As mrc_core_config_default(), with the choices that cost an implementation in software least: turns of 64 KiB,
 * Transport ACKs at the end of messages only, acknowledgements asked for when nothing more may leave, one SACK for what
 * was received together, a tenth of the EV probes, `tail_retry_paced` and `silent_packets`. The default keeps to the letter of the
 * specification instead. */
int32_t mrc_core_config_software(struct mrc_core_config *config);

/* Fills `rtr` with the defaults; the caller sets `peer`, `ev_profile`, `dest_qp` and `rq_psn`. */
int32_t mrc_core_rtr_default(struct mrc_core_rtr *rtr);

/* Fills `rts` with the defaults for a software endpoint whose first packet has PSN `sq_psn`. */
int32_t mrc_core_rts_default(struct mrc_core_rts *rts, uint32_t sq_psn);

/* Fills `cc` with the defaults: a fixed window, and NSCC's defaults for everything but rate and base RTT. */
int32_t mrc_core_cc_default(struct mrc_core_cc *cc);

/* What the last refusal was about: the name of a field, table or handle; empty when nothing was refused yet. */
struct mrc_core_text mrc_core_detail(struct mrc_core_endpoint *endpoint);

/* Registers `len` bytes of memory that the application knows as `va` with the rights `access`
 * (MRC_CORE_ACCESS_REMOTE_WRITE or 0). `out` names the region in placements and transmissions, `key` is its L_Key and
 * R_Key: fresh and random. */
int32_t mrc_core_register_mr(
    struct mrc_core_endpoint *endpoint, uint32_t pd, uint64_t va, uint64_t len, uint8_t access,
    struct mrc_core_mr *out, uint32_t *key);

/* Gives a region another protection domain and other rights. Its key stays: packets and posts that come later meet what is new, requests
 * that were posted before go on. */
int32_t mrc_core_change_mr(struct mrc_core_endpoint *endpoint, struct mrc_core_mr region, uint32_t pd, uint8_t access);

/* Revokes a region: its key is dead when this returns, and nothing is placed through it any more. */
int32_t mrc_core_deregister_mr(struct mrc_core_endpoint *endpoint, struct mrc_core_mr region);

/* Creates a completion queue of `limits.cq_depth` entries. */
int32_t mrc_core_create_cq(struct mrc_core_endpoint *endpoint, struct mrc_core_cq *out);

/* Destroys a completion queue that no QP uses. */
int32_t mrc_core_destroy_cq(struct mrc_core_endpoint *endpoint, struct mrc_core_cq queue);

/* Registers a peer: addresses and paths shared by all QPs towards it. */
int32_t mrc_core_add_peer(
    struct mrc_core_endpoint *endpoint, const struct mrc_core_peer_config *config, struct mrc_core_peer *out);

/* Packets to and from a peer on `port` (1-based) have these inner addresses in place of the peer's own: where each plane is a network
 * of its own. `local` is a GID or the port's address. To be called before a QP uses the peer. */
int32_t mrc_core_set_plane_addresses(
    struct mrc_core_endpoint *endpoint, struct mrc_core_peer peer, uint8_t port, const struct mrc_core_ip *local,
    const struct mrc_core_ip *remote);

/* Forgets a peer that no QP uses, also none of another shard. */
int32_t mrc_core_remove_peer(struct mrc_core_endpoint *endpoint, struct mrc_core_peer peer);

/* Creates an EV profile that is ONLINE at once, from `count` entries as they are on the wire, at most
 * `limits.profile_evs`. */
int32_t mrc_core_create_ev_profile(
    struct mrc_core_endpoint *endpoint, const struct mrc_core_ev_entry *entries, size_t count,
    struct mrc_core_ev_profile *out);

/* Opens an EV profile in INIT. `id` keys the order in which values are made, and comes back in a query. */
int32_t mrc_core_open_ev_profile(struct mrc_core_endpoint *endpoint, uint64_t id, struct mrc_core_ev_profile *out);

/* Configures a profile that is not ONLINE, which is OFFLINE then. AUTO and GENERATED values are made at once, the
 * entries of an EXPLICIT profile start without values. After a refusal the profile is as before. */
int32_t mrc_core_configure_ev_profile(
    struct mrc_core_endpoint *endpoint, struct mrc_core_ev_profile profile,
    const struct mrc_core_ev_profile_config *config);

/* Moves a profile one step along INIT, OFFLINE, ONLINE or back; INIT to OFFLINE is mrc_core_configure_ev_profile().
 * MRC_CORE_E_BUSY while QPs are bound to it. */
int32_t mrc_core_set_ev_profile_state(
    struct mrc_core_endpoint *endpoint, struct mrc_core_ev_profile profile, uint8_t state);

/* Destroys an EV profile that no QP uses, in shard 0 none of another shard either. */
int32_t mrc_core_destroy_ev_profile(struct mrc_core_endpoint *endpoint, struct mrc_core_ev_profile profile);

/* A picture of an EV profile. */
int32_t mrc_core_query_ev_profile(
    struct mrc_core_endpoint *endpoint, struct mrc_core_ev_profile profile, struct mrc_core_ev_profile_info *out);

/* Programs an entry of an EXPLICIT profile that is OFFLINE: the first that equals `old`, or with `all` each of them,
 * becomes `value` in `state`, MRC_CORE_EV_GOOD or MRC_CORE_EV_DENIED. An entry without a value is all zero with port
 * 0. */
int32_t mrc_core_replace_ev(
    struct mrc_core_endpoint *endpoint, struct mrc_core_ev_profile profile, const struct mrc_core_ev *old,
    const struct mrc_core_ev *value, uint8_t state, uint8_t all);

/* Denies an EV for all QPs of a profile (MRC_CORE_EV_DENIED), or makes it MRC_CORE_EV_GOOD in whatever state they
 * have it; with `all` each entry that equals it. In effect at once, for QPs that are in RTS already once `call_budget` has let
 * them hear of it. MRC_CORE_E_BUSY: eight commands are on their way to QPs. */
int32_t mrc_core_set_ev_state(
    struct mrc_core_endpoint *endpoint, uint64_t now_ns, struct mrc_core_ev_profile profile,
    const struct mrc_core_ev *ev, uint8_t state, uint8_t all);

/* Fills the `room` elements at `out` with the entries of a profile from number `first` on, and `count` with the
 * number of entries there are from there. A state is DENIED if denied, else ASSUMED_BAD if any QP has it so, else
 * GOOD. */
int32_t mrc_core_query_evs(
    struct mrc_core_endpoint *endpoint, struct mrc_core_ev_profile profile, uint32_t first,
    struct mrc_core_ev_report *out, size_t room, uint32_t *count);

/* Changes what events a profile raises, ONLINE or not: entries that become GOOD, and that become ASSUMED_BAD. */
int32_t mrc_core_set_ev_events(
    struct mrc_core_endpoint *endpoint, struct mrc_core_ev_profile profile, uint8_t good, uint8_t assumed_bad);

/* Changes how many EVs of an OFFLINE profile stay in rotation; its entries stay as they are. */
int32_t mrc_core_set_ev_min_active(
    struct mrc_core_endpoint *endpoint, struct mrc_core_ev_profile profile, uint32_t min_active);

/* Creates a congestion-control profile. QPs to one peer that name the same profile share a controller. */
int32_t mrc_core_create_cc_profile(
    struct mrc_core_endpoint *endpoint, const struct mrc_core_cc *cc, struct mrc_core_cc_profile *out);

/* Changes a congestion-control profile that no QP in RTS uses, the endpoint's own among them. */
int32_t mrc_core_modify_cc_profile(
    struct mrc_core_endpoint *endpoint, struct mrc_core_cc_profile profile, const struct mrc_core_cc *cc);

/* What a congestion-control profile was given last; fields of other algorithms have their defaults. */
int32_t mrc_core_query_cc_profile(
    struct mrc_core_endpoint *endpoint, struct mrc_core_cc_profile profile, struct mrc_core_cc *out);

/* Forgets a congestion-control profile that no QP uses; not the endpoint's own. */
int32_t mrc_core_destroy_cc_profile(struct mrc_core_endpoint *endpoint, struct mrc_core_cc_profile profile);

/* A picture of the congestion controller that a QP in RTS shares with those of the same peer and profile. */
int32_t mrc_core_query_cc(struct mrc_core_endpoint *endpoint, struct mrc_core_qp pair, struct mrc_core_cc_info *out);

/* Creates a QP in RESET. Completions of sends and receives go to the two queues, which may be one. */
int32_t mrc_core_create_qp(
    struct mrc_core_endpoint *endpoint, uint32_t pd, struct mrc_core_cq send_cq, struct mrc_core_cq recv_cq,
    struct mrc_core_qp *out);

/* Destroys a QP; what it had queued is dropped without completions. */
int32_t mrc_core_destroy_qp(struct mrc_core_endpoint *endpoint, struct mrc_core_qp pair);

/* A first PSN for one direction of a QP, which nobody can guess. */
int32_t mrc_core_draw_psn(struct mrc_core_endpoint *endpoint, uint32_t *out);

/* RESET to INIT. */
int32_t mrc_core_modify_to_init(struct mrc_core_endpoint *endpoint, struct mrc_core_qp pair);

/* INIT to RTR: the QP receives from now on. */
int32_t mrc_core_modify_to_rtr(
    struct mrc_core_endpoint *endpoint, uint64_t now_ns, struct mrc_core_qp pair, const struct mrc_core_rtr *rtr);

/* RTR to RTS: the QP sends from now on. */
int32_t mrc_core_modify_to_rts(
    struct mrc_core_endpoint *endpoint, uint64_t now_ns, struct mrc_core_qp pair, const struct mrc_core_rts *rts);

/* Any state to ERROR: queued work flushes. */
int32_t mrc_core_modify_to_error(struct mrc_core_endpoint *endpoint, uint64_t now_ns, struct mrc_core_qp pair);

/* Any state to ERROR, for a driver that took a request from the host before mrc_core_post_send refused it: queued work
 * flushes, as behind any request that fails, and the cause is the refused request. The driver completes that one itself. */
int32_t mrc_core_fail_post(struct mrc_core_endpoint *endpoint, uint64_t now_ns, struct mrc_core_qp pair);

/* Any state to RESET: queued work is dropped. */
int32_t mrc_core_modify_to_reset(struct mrc_core_endpoint *endpoint, struct mrc_core_qp pair);

/* Changes the window that a QP offers its peer, in units of 128 PSNs; MRC_CORE_E_STATE without Dynamic MPR. */
int32_t mrc_core_set_mpr(struct mrc_core_endpoint *endpoint, struct mrc_core_qp pair, uint8_t mpr);

/* A picture of one QP. */
int32_t mrc_core_query_qp(struct mrc_core_endpoint *endpoint, struct mrc_core_qp pair, struct mrc_core_qp_info *out);

/* Tells the engine that the link of a port went up or down. EVs of a port that is down are not used; they keep their
 * states. Peers hear of it by Port Status Updates. */
int32_t mrc_core_set_port(struct mrc_core_endpoint *endpoint, uint64_t now_ns, uint8_t number, uint8_t up);

/* Takes a port out of use, or back into it, whatever its link does. Ports begin enabled. */
int32_t mrc_core_set_port_admin(struct mrc_core_endpoint *endpoint, uint64_t now_ns, uint8_t number, uint8_t enabled);

/* The ports that are up and enabled, bit N for port N; 0 without an endpoint. */
uint32_t mrc_core_ports_up(struct mrc_core_endpoint *endpoint);

/* The ports that a peer says are up, bit N for port N; all until it has told. */
int32_t mrc_core_peer_ports(struct mrc_core_endpoint *endpoint, struct mrc_core_peer peer, uint32_t *out);

/* Traffic of port `number`; MRC_CORE_E_UNKNOWN where the endpoint has no such port. */
int32_t mrc_core_query_port(struct mrc_core_endpoint *endpoint, uint8_t number, struct mrc_core_port_stats *out);

/* Counter number `index`, from 0 up: its name and value. MRC_CORE_OK when there is no such counter, MRC_CORE_SOME when
 * there is: discard reasons first, under the names of mrc_core_error_text(). */
int32_t mrc_core_counter(
    struct mrc_core_endpoint *endpoint, uint32_t index, struct mrc_core_text *name, uint64_t *value);

/* ---- The turn ---- */

/* Queues a write. Its bytes must not change until its completion. */
int32_t mrc_core_post_send(
    struct mrc_core_endpoint *endpoint, uint64_t now_ns, struct mrc_core_qp pair, const struct mrc_core_send_wr *wr);

/* Queues a receive request: the peer's next write with immediate completes it. */
int32_t mrc_core_post_recv(struct mrc_core_endpoint *endpoint, struct mrc_core_qp pair, uint64_t wr_id);

/* Takes one received frame. `head` holds `head_len` bytes from the Ethernet header on: at least all headers, and the
 * whole frame under MRC_CORE_ICRC_VERIFY. MRC_CORE_SOME: move the payload as `out` says (struct mrc_core_placement).
 * MRC_CORE_OK: nothing to move. Below: the frame had no further effect, and the code says why. */
int32_t mrc_core_handle_packet(
    struct mrc_core_endpoint *endpoint, uint64_t now_ns, const struct mrc_core_rx *rx, const uint8_t *head,
    size_t head_len, struct mrc_core_placement *out);

/* As mrc_core_handle_packet(), for `count` frames at a time, which costs less per frame: takes the first ones of `frames`,
 * says in each what became of it and returns how many it took, at most 1024. A refusal takes none. */
int32_t mrc_core_receive_burst(
    struct mrc_core_endpoint *endpoint, uint64_t now_ns, struct mrc_core_arrival *frames, size_t count);

/* Lets time pass: serves every QP whose deadline has come, `call_budget` of them at most. */
int32_t mrc_core_handle_timeout(struct mrc_core_endpoint *endpoint, uint64_t now_ns);

/* When mrc_core_handle_timeout() next has something to do, in nanoseconds; MRC_CORE_NEVER when only an input can
 * change that. A time in the past means now. */
uint64_t mrc_core_next_timeout(struct mrc_core_endpoint *endpoint);

/* Writes the headers of the next frame to send to `headers`, of at least MRC_CORE_MAX_HEADER_LEN bytes, and says in
 * `out` what follows them. `ports` has bit N for each port N with room for a frame; frames for others wait.
 * MRC_CORE_OK: nothing to send now. */
int32_t mrc_core_poll_transmit(
    struct mrc_core_endpoint *endpoint, uint64_t now_ns, uint32_t ports, uint8_t *headers, size_t len,
    struct mrc_core_transmit *out);

/* As mrc_core_poll_transmit(), for up to `count` frames at a time, which costs less per frame: fills the first ones of
 * `frames` and returns how many, 0 when there is nothing to send now. `room[N - 1]` says how many frames port N takes, for
 * all MRC_CORE_MAX_PORTS ports, and is lowered by those filled for it; frames for others wait. At most 1024 leave in a call. A
 * refusal fills nothing. */
int32_t mrc_core_transmit_burst(
    struct mrc_core_endpoint *endpoint, uint64_t now_ns, uint32_t *room, struct mrc_core_frame *frames, size_t count);

/* Takes the oldest completion of a queue. A queue that was destroyed, or that never was, has none: MRC_CORE_OK. */
int32_t mrc_core_poll_cq(struct mrc_core_endpoint *endpoint, struct mrc_core_cq queue, struct mrc_core_completion *out);

/* Takes the oldest event. */
int32_t mrc_core_poll_event(struct mrc_core_endpoint *endpoint, struct mrc_core_event *out);

/* Performs an endpoint operation once, over one path; mrc_core_poll_endpoint_op() tells how it ended.
 * MRC_CORE_E_BUSY: 64 are under way, or ended and were not taken. */
int32_t mrc_core_post_endpoint_op(
    struct mrc_core_endpoint *endpoint, struct mrc_core_peer peer, const struct mrc_core_op_request *request);

/* Takes the endpoint operation that ended longest ago. */
int32_t mrc_core_poll_endpoint_op(struct mrc_core_endpoint *endpoint, struct mrc_core_op_outcome *out);

/* The shard that takes packets to `qpn`, where QP numbers begin with `bits` bits of its number. */
uint32_t mrc_core_shard_of(uint32_t qpn, uint32_t bits);

/* Takes the oldest message of this endpoint for other shards. The driver hands it to those it is for, in order. */
int32_t mrc_core_poll_shard_message(struct mrc_core_endpoint *endpoint, struct mrc_core_shard_message *out);

/* A message of another shard. MRC_CORE_E_RANGE: it is for another one; MRC_CORE_E_UNKNOWN: there is no such peer, profile or
 * request here. Neither does harm. */
int32_t mrc_core_handle_shard_message(
    struct mrc_core_endpoint *endpoint, uint64_t now_ns, const struct mrc_core_shard_message *message);

/* From now on every new write is refused with a NACK of this wire reason (0x06 no bitmap, 0x07 no packet buffer, 0x0A
 * no resource, 0x19 device failed), before anything of it is recorded; 0 ends it. */
int32_t mrc_core_set_refusal(struct mrc_core_endpoint *endpoint, uint8_t reason);

/* The bytes of a placement are in memory, where the host sees them. Only with `placement_reported`; placements may end in
 * any order. Transport ACKs and completions that waited for it come with the next polls. MRC_CORE_E_UNKNOWN: the QP was
 * reset or destroyed since, or the end of this placement was reported before; nothing happened. */
int32_t mrc_core_placed(struct mrc_core_endpoint *endpoint, uint64_t now_ns, uint64_t token);

/* The bytes of a placement could not be moved: the QP refuses its packet with NAK 0x63 and fails. Refusals are those of
 * mrc_core_placed(). Without `placement_reported` this comes before the next poll; receives that completed with this packet
 * or later ones flush. */
int32_t mrc_core_place_failed(struct mrc_core_endpoint *endpoint, uint64_t now_ns, uint64_t token);

/* The ICRC of a packet that lies in one piece: `packet` starts at `l3_offset` of the frame and ends with the last pad
 * byte; the four bytes go behind it. */
int32_t mrc_core_icrc(const uint8_t *packet, size_t len, uint8_t *out);

/* ---- Return codes in words ---- */

/* What a return code means; a discard's code gives the name of its counter. */
struct mrc_core_text mrc_core_error_text(int32_t code);

#ifdef __cplusplus
}
#endif

#endif
