//! The numbers of the interface: sizes, return codes, and the values of its `uint8_t` fields.

/// Version of this interface. It changes whenever a struct, a number or a promise does.
pub const MRC_CORE_ABI: u32 = 19;

/// Bytes of the seed that mrc_core_init() takes.
pub const MRC_CORE_SEED_LEN: usize = 16;

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

/// A buffer of this many bytes is long enough for every record of an image, see mrc_core_export().
pub const MRC_CORE_EXPORT_MIN: usize = 4096;

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
/// The message needs more than 2^23 packets, half of the PSN space (path MTU 256 only).
pub const MRC_CORE_E_TOO_LONG: i32 = -14;
/// The peer takes no writes with immediate.
pub const MRC_CORE_E_NO_WRITE_IMM: i32 = -15;
/// An error this version of the interface has no number for.
pub const MRC_CORE_E_OTHER: i32 = -16;
/// The image of an endpoint is refused; the detail says why.
pub const MRC_CORE_E_IMAGE: i32 = -17;
/// The message is empty, and reject_zero_len is set.
pub const MRC_CORE_E_EMPTY: i32 = -18;
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

/// A write with immediate that finds no receive request waits: its Transport ACK is held back until one is posted. The peer counts
/// a retry per T0 meanwhile and fails when its budget is spent, unless it has `tail_retry_lenient`.
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
/// One path, left for a random one after rounds of congestion, earlier when idle: PLB with its published parameters.
pub const MRC_CORE_SELECT_PLB: u8 = 5;
/// Spray over the paths whose acknowledgements came back unmarked: REPS with its published parameters.
pub const MRC_CORE_SELECT_REPS: u8 = 6;
/// Spray over eight paths so that their loads stay level: Flowing & Jumping with the defaults of docs/selectors.md.
pub const MRC_CORE_SELECT_FLOWING_JUMPING: u8 = 7;
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

/// What a message between shards says: `ports` of the peer are up.
pub const MRC_CORE_SHARD_PEER_PORTS: u8 = 1;
/// The shard has QPs towards the peer, or none any more; `used`, `entered_rts` and `profile` are set.
pub const MRC_CORE_SHARD_PEER_USED: u8 = 2;
/// `entry` of `profile` is bad.
pub const MRC_CORE_SHARD_BAD_EV: u8 = 3;
/// An endpoint operation of the receiver was answered; `id`, `op`, `timestamp` and `port` are set.
pub const MRC_CORE_SHARD_RESPONSE: u8 = 4;
/// A message is for every other shard.
pub const MRC_CORE_SHARD_ALL: u8 = 255;

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
