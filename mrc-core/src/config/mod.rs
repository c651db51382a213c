//! What a deployment decides: addresses, windows, timers and every uncertain protocol item as a named knob.
//! The defaults run on a laptop. Numbers of open questions refer to `spec/decisions.toml`.

mod retry;

pub use retry::RetryConfig;
pub(crate) use retry::TIMER_CEILING_NS;

use mrc_wire::{Ip, PortNum, WireConfig, srv6::EvTemplate};

use crate::port::PortMask;

/// Most ports (planes) of one endpoint. Each costs one frame template per peer and a few words per endpoint.
pub const MAX_PORTS: usize = 8;

/// One port of this endpoint: where frames leave and under which addresses they are ours.
#[derive(Clone, Copy, Debug)]
pub struct PortConfig {
    /// Source MAC address of frames that leave here.
    pub mac: [u8; 6],
    /// The host's SRv6 SID on this plane; packets arrive with it as outer destination.
    pub sid: Option<[u8; 16]>,
    /// The port's own address: outer source of what it sends, accepted as destination.
    pub addr: Option<[u8; 16]>,
}

/// Everything of an endpoint that is not per QP.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Ports, port 1 first; `None` where the endpoint has no such port.
    pub ports: [Option<PortConfig>; MAX_PORTS],
    /// Inner (or only) addresses of this endpoint: its GIDs.
    pub gids: [Option<Ip>; 4],
    /// Which of several endpoints behind these addresses this one is; alone by default.
    pub shard: crate::Shard,
    /// Wire knobs: UDP ports, DSCP plan, EV placement.
    pub wire: WireConfig,
    /// Partition key of every packet (open question 44).
    pub pkey: u16,
    /// How long what a QP measures of the network holds unless it is confirmed, in nanoseconds; 0 = for ever. After that the
    /// smallest round trip of that time, at most the configured one, is the base RTT, and the largest lateness of that time
    /// counts for [`RtsAttr::reorder_tolerance`].
    pub measurement_life_ns: u64,
    /// SACK after this many received bytes (open question 32).
    pub sack_gen_threshold: u32,
    /// Let the SACKs that several packets of a QP draw before one can leave be one, where nothing is missing and none of them
    /// has a mark, a probe's number or a retransmission to report (open question 67).
    pub merge_sacks: bool,
    /// Send a Transport ACK also for a packet within a message that asks for an acknowledgement. Without, its SACK is the
    /// answer, and the end of the message draws the Transport ACK (open question 65).
    pub tack_within_message: bool,
    /// Drop packets above the window without a NACK (open question 4).
    pub oor_silent: bool,
    /// Send control packets also on planes whose EV probes nobody answers (open question 47).
    pub answers_on_silent_planes: bool,
    /// Distance of the highest received PSN from the beginning of a bitmap that shows the newest PSNs: 63, or 64 for the reading
    /// that leaves the newest one out (open question 34).
    pub bitmap_reach: u8,
    /// Let the right edge of the window move back when Dynamic MPR makes the window smaller, so that packets in flight beyond
    /// it are refused (open question 40).
    pub right_edge_retreats: bool,
    /// Let a packet leave while less is in flight than the congestion window, though it does not fit (open question 31).
    pub send_below_window: bool,
    /// Let a SACK complete requests, for peers that send no Transport ACK (open question 11).
    pub complete_on_sack: bool,
    /// Let a Transport NAK end the QP also when it names a PSN that a Transport ACK covered before (open question 50).
    pub stale_nak_fatal: bool,
    /// Count every retried packet against the budget, not only the oldest (open question 12).
    pub retry_strict: bool,
    /// First MSN of a QP (open question 9).
    pub msn_start: u16,
    /// First RQMSN of a QP (open question 9).
    pub rqmsn_start: u16,
    /// When the bytes of a placement are in memory.
    pub placement: PlacementMode,
    /// Refuse zero-length messages (open question 36).
    pub reject_zero_len: bool,
    /// Put a timestamp in every write.
    pub timestamps: bool,
    /// Mark control packets ECN-capable (open question 28).
    pub ctl_ect: bool,
    /// Verdict ALWAYS_SKIP after this many consecutive CE marks on one EV; 0 = never (open question 43).
    pub always_skip_after: u8,
    /// NAK syndrome for a write with immediate beyond the limit (open question 10).
    pub wimm_nak_syndrome: u8,
    /// What the nominal size of a packet adds to its UDP length, in bytes: in `rcvd_bytes`, in the count that triggers SACKs,
    /// and in the bytes in flight (open question 33).
    pub size_overhead: u8,
    /// Transport ACKs and NAKs carry message number 0 in place of the count of completed messages (open question 45).
    pub ack_msn_zero: bool,
    /// Ask for an acknowledgement with the last packet of every message. Without, with the last one that may leave: when the
    /// send queue runs dry or a window closes. Transport ACKs, and with them completions, come as soon; what congestion
    /// control and paths learn comes from every 16 KiB (`sack_gen_threshold`), as within a message (open question 66). With
    /// `complete_on_sack` every message asks in any case.
    pub ask_each_message: bool,
    /// Bytes that a congestion controller, and within it a QP, may send in one turn while others wait; what a turn sends
    /// beyond it is taken from the next. 0, the default, is one packet per turn, as the specification has it. Packets cost
    /// less when several of one QP leave together. A QP or controller that was idle has its first turn before those that had
    /// turns: a small write does not wait for theirs (open question 64).
    pub turn_bytes: u32,
    /// QPs that one call serves at most where it concerns all of them: [`crate::Endpoint::handle_timeout`], `set_port`,
    /// `set_port_admin`, `set_ev_state`. The others follow with the next calls of `handle_timeout`. At least 1; the default
    /// is all of them.
    pub call_budget: u32,
    /// Congestion control of QPs that name no profile.
    pub cc: crate::cc::CcConfig,
    /// Events to raise.
    pub events: crate::EventMask,
    /// What happens to a write with immediate that finds no receive request (open question 38).
    pub no_receive: NoReceive,
    /// Do not charge a repeated tail to the retry budget while the peer answers it; with nothing else unacknowledged an answer
    /// also gives the whole budget back. A responder that holds its Transport ACK back for want of a receive request then never
    /// fails the QP (open question 38).
    pub tail_retry_lenient: bool,
    /// Charge a repeated tail to the retry budget no faster than the timer of a packet, which waits longer after each retry: a peer
    /// that falls silent then has as long as [`RetryConfig::budget_ns`], also where only a Transport ACK is missing. Without,
    /// each repetition is a retry, one per T0 (open question 12).
    pub tail_retry_paced: bool,
    /// Packets in flight of a queue pair whose timer ran out and that had no answer since: they test whether the peer is there, and take
    /// nothing from the window, which is for the others that share its controller. While so many are, what is lost waits, and what is
    /// new. Tail probes leave further and further apart then, up to T0. 0: none of this.
    pub silent_packets: u8,
    /// Endpoint operations of peers answered per second, after a burst of 32; the others are dropped. 0 answers none.
    pub endpoint_rate_limit: u32,
    /// An EV that one QP finds bad is bad for all QPs of its profile, each of which then probes it by itself (open question
    /// 20).
    pub share_bad_evs: bool,
    /// EV probes this endpoint sends of its own accord per second, over all QPs, after a burst of 16.
    pub ev_probe_rate_limit: u32,
    /// Take the time that answers to endpoint operations wait out of the timestamps they reflect (open question 21).
    pub endpoint_svc_time: bool,
    /// Wait for the answer to a Port Status Update, in nanoseconds, before it is repeated. After three repetitions each
    /// wait is twice the one before (open question 60).
    pub port_update_rto_ns: u64,
    /// Longest wait between two repetitions of a Port Status Update, in nanoseconds, unless `port_update_rto_ns` is longer
    /// (open question 60). Repetitions end with the answer or with the last QP towards the peer.
    pub port_update_max_ns: u64,
    /// A packet of an open QP, or an EV probe of the peer, that arrives from a port which the peer has masked unmasks that port, if
    /// it arrives at least this long after the update that masked it, in nanoseconds; 0 = never (open question 61). Packets
    /// that left before the port failed may arrive after the update.
    pub port_unmask_after_ns: u64,
    /// When a peer's update leaves no usable port, send probes through the masked ports, one per port and retransmission
    /// timeout (open question 61).
    pub probe_masked_ports: bool,
    /// Tell the peer of our ports when a QP enters RTS, not only when one changes.
    pub port_update_on_rts: bool,
    /// Bit N of a port status mask stands for port N + 1 (open question 30).
    pub port_mask_zero_based: bool,
}

/// When the bytes of a [`crate::Placement`] are in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PlacementMode {
    /// Before the driver next asks for frames to send or for completions. It reports nothing.
    #[default]
    BeforePoll,
    /// When the driver says so ([`crate::Endpoint::placed`]), for each placement, in any order. Transport ACKs and receive
    /// completions wait for that; SACKs do not, since they say what arrived. A QP refuses packets (`NoPktBuffer`) that lie
    /// `Limits::mpr * 128` PSNs or more beyond the oldest placement that is not finished.
    Reported,
}

/// A write with immediate arrived and the application has posted no receive request; MRC has no RNR.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NoReceive {
    /// Hold the Transport ACK back until one is posted.
    #[default]
    Hold,
    /// NAK 0x63; the QP fails.
    Nak,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            ports: [None; MAX_PORTS],
            gids: [None; 4],
            shard: crate::Shard { bits: 0, index: 0 },
            wire: WireConfig::default(),
            pkey: 0xFFFF,
            measurement_life_ns: 10_000_000_000,
            sack_gen_threshold: 16_384,
            merge_sacks: false,
            tack_within_message: true,
            oor_silent: false,
            answers_on_silent_planes: false,
            bitmap_reach: 63,
            right_edge_retreats: false,
            send_below_window: false,
            complete_on_sack: false,
            stale_nak_fatal: false,
            retry_strict: false,
            msn_start: 0,
            rqmsn_start: 0,
            placement: PlacementMode::BeforePoll,
            reject_zero_len: false,
            timestamps: true,
            ctl_ect: false,
            always_skip_after: 0,
            wimm_nak_syndrome: 0x61,
            size_overhead: 40,
            ack_msn_zero: false,
            ask_each_message: true,
            turn_bytes: 0,
            call_budget: u32::MAX,
            cc: crate::cc::CcConfig::default(),
            events: crate::EventMask::default(),
            no_receive: NoReceive::Hold,
            tail_retry_lenient: false,
            tail_retry_paced: false,
            silent_packets: 0,
            endpoint_rate_limit: 100_000,
            share_bad_evs: false,
            ev_probe_rate_limit: 20_000,
            endpoint_svc_time: false,
            port_update_rto_ns: 1_024 << 14,
            port_update_max_ns: 1_000_000_000,
            port_unmask_after_ns: 1_024 << 14,
            probe_masked_ports: true,
            port_update_on_rts: true,
            port_mask_zero_based: false,
        }
    }
}

impl EndpointConfig {
    /// The first GID that is an IPv6 address.
    pub(crate) fn gid_v6(&self) -> Option<[u8; 16]> {
        self.gids.iter().flatten().find_map(|gid| if let Ip::V6(gid) = gid { Some(*gid) } else { None })
    }

    /// The default, which keeps to the letter of the specification wherever a knob lets one choose, with the choices that
    /// cost an implementation in software least: turns of 64 KiB, whose packets draw one SACK together, Transport ACKs at the end of
    /// messages only, acknowledgements asked for when nothing more may leave, one SACK for what was received together, and a
    /// tenth of the EV probes: in software a probe and its answer cost as much as two packets of data. And with a budget of
    /// retries that lasts as long for a tail as for any packet (`tail_retry_paced`): a peer's threads may have to wait. And a queue pair
    /// whose peer is silent leaves the window to others (`silent_packets`).
    pub fn software() -> Self {
        Self {
            turn_bytes: 65_536,
            tack_within_message: false,
            ask_each_message: false,
            merge_sacks: true,
            ev_probe_rate_limit: 2_000,
            tail_retry_paced: true,
            silent_packets: 4,
            ..Self::default()
        }
    }

    /// The ports that exist.
    pub fn port_mask(&self) -> PortMask {
        let mut mask = PortMask::NONE;
        for (plane, port) in self.ports.iter().enumerate() {
            if port.is_some() {
                mask = mask.with(port_of_plane(plane));
            }
        }
        mask
    }
}

/// The port that attaches to `plane` (0-based); planes beyond the last possible one wrap to port 1.
pub(crate) fn port_of_plane(plane: usize) -> PortNum {
    PortNum::from_plane((plane % MAX_PORTS) as u8)
}

/// How packets to one peer leave through one port.
#[derive(Clone, Copy, Debug)]
pub struct PlanePath {
    /// MAC address of the first hop: the T0 switch, or the peer itself on a direct link.
    pub next_hop: [u8; 6],
    /// Outer source address under SRv6; `None` sends the inner packet bare.
    pub outer_src: Option<[u8; 16]>,
}

/// How the outer destination of a packet is found.
#[derive(Clone, Copy, Debug)]
pub enum Route {
    /// No outer header: switches hash the EV (UDP, striped and STEV formats).
    Plain,
    /// The EV is copied into a template of micro-SIDs (`paths.md` 9.3).
    Srv6(EvTemplate),
    /// The EV profile's entry is the outer destination (`paths.md` 9.4).
    Srv6Entry,
}

/// A remote endpoint: addresses and paths that all QPs towards it share.
#[derive(Clone, Copy, Debug)]
pub struct PeerConfig {
    /// Our inner address towards this peer.
    pub local: Ip,
    /// The peer's inner address.
    pub remote: Ip,
    /// Per plane (port - 1): how to leave, `None` where the peer is not reachable.
    pub planes: [Option<PlanePath>; MAX_PORTS],
    /// Outer destinations.
    pub route: Route,
    /// IP hop limit of the inner (or only) header.
    pub hop_limit: u8,
}

/// Trimming as negotiated for one direction of a QP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Trimming {
    /// The fabric does not trim, or the responder sends no trim NACK: DSCP_NO_TRIM.
    #[default]
    Off,
    /// First transmissions and retransmissions may be trimmed and the responder says so.
    On,
}

/// What a QP learns when it becomes able to receive.
#[derive(Clone, Copy, Debug)]
pub struct RtrAttr {
    /// The peer, from [`crate::Endpoint::add_peer`].
    pub peer: crate::PeerHandle,
    /// The peer's QP number.
    pub dest_qp: mrc_wire::Qpn,
    /// PSN of the first packet the peer will send.
    pub rq_psn: mrc_wire::Psn,
    /// Payload bytes of a full packet: 256, 512, 1024, 2048 or 4096.
    pub path_mtu: u16,
    /// Our responder's window, units of 128 PSNs, 1..=255 and within the storage.
    pub mpr_dest: u8,
    /// EV profile of this QP, from [`crate::Endpoint::create_ev_profile`].
    pub ev_profile: crate::EvProfileHandle,
    /// Whether we answer trimmed packets with a trim NACK.
    pub trim_nack: bool,
    /// Writes with immediate the peer may have in flight; at most `Limits::wimm`.
    pub max_wimm_dest: u16,
    /// Both sides agreed that the responder's window may change (Dynamic MPR).
    pub dynamic_mpr: bool,
    //= CAP-002
    /// Both sides agreed that we add our service time to the timestamps we reflect (open question 21).
    pub svc_time: bool,
    /// Service time is added to timestamps of a private unit, too, which is a microsecond then (open question 22).
    pub private_stamps_us: bool,
}

impl RtrAttr {
    /// Attributes for a software endpoint: 4096-byte packets, a window of 1024 PSNs, 32 writes with immediate.
    pub fn software(
        peer: crate::PeerHandle,
        dest_qp: mrc_wire::Qpn,
        rq_psn: mrc_wire::Psn,
        ev_profile: crate::EvProfileHandle,
    ) -> Self {
        Self {
            peer,
            dest_qp,
            rq_psn,
            path_mtu: 4_096,
            mpr_dest: 8,
            ev_profile,
            trim_nack: true,
            max_wimm_dest: 32,
            dynamic_mpr: false,
            svc_time: false,
            private_stamps_us: false,
        }
    }
}

/// What a QP learns when it becomes able to send.
#[derive(Clone, Copy, Debug)]
pub struct RtsAttr {
    /// PSN of our first packet.
    pub sq_psn: mrc_wire::Psn,
    /// Our requester's window, units of 128 PSNs: the smaller of our wish and the peer's `mpr_dest`.
    pub mpr: u8,
    /// Timer and retries.
    pub retry: RetryConfig,
    /// The first exponential retry waits T0, the next one twice as long; without, the first one waits 2 * T0 (open question 13).
    pub exponential_from_t0: bool,
    /// Trimming towards the peer.
    pub trimming: Trimming,
    /// Congestion-control profile, from [`crate::Endpoint::create_cc_profile`]; `None` = [`EndpointConfig::cc`]. All QPs
    /// to one peer with one profile share a controller, hence its window.
    pub cc: Option<crate::CcProfileHandle>,
    /// Path selection.
    pub paths: crate::path::PathConfig,
    /// Which paths to use.
    pub selector: crate::path::Selector,
    /// Unloaded round trip of a full packet, in nanoseconds; only decreases by measurement.
    pub base_rtt_ns: u64,
    /// Added to 3 base RTTs before a probe counts as lost, in nanoseconds.
    pub target_delay_ns: u64,
    //= QP-009
    /// Writes with immediate in flight: the smaller of our own limit and the peer's `max_wimm_dest`; 0 = none.
    pub max_wimm: u16,
    /// Both sides agreed that the peer's window may change (Dynamic MPR).
    pub dynamic_mpr: bool,
    /// Fewest packets that must have overtaken a packet before it is inferred lost (open question 14).
    pub reorder_pkts_min: u16,
    /// Part of the window, in 1/256, that must have overtaken it (open question 14); 384 = 1.5 windows.
    pub reorder_factor: u16,
    /// The other way to infer a loss (open question 14): a packet sent at least this much later, in nanoseconds, has
    /// arrived; 0 = never. Unlike a number of packets it does not wait longer when there is less to send. Queues
    /// differ by no more than the target delay of congestion control as long as that has its way.
    pub reorder_delay_ns: u64,
    /// How late a packet may be, in 1/256 of the largest lateness measured, before it can be inferred lost (open question
    /// 14); 0 = nothing is measured. A packet is as late as the newest packet that arrived before it left after it. This is
    /// measured over all planes, and for each plane alone: what is missing counts as lost when the one or the other says
    /// so. Packets that planes, queues or threads deliver late then are not sent again for nothing, and cost no path.
    pub reorder_tolerance: u16,
    /// Lateness over all planes that is tolerated in any case, in nanoseconds, for hosts whose planes may wait for a processor;
    /// with `reorder_tolerance` only. What is missing behind later packets of its own plane does not wait for it.
    pub reorder_floor_ns: u64,
    /// A packet's timer blames its path although nothing that left later has arrived on any path (open question 15): the
    /// specification's rule. Without it, silence on all paths at once says that the peer or its host did not run;
    /// a QP that keeps to one path blames it from the second timeout in a row on.
    pub blame_silence: bool,
    /// Send a probe this long after the last packet there is to send, or after the window shrank and closed behind packets
    /// that did not ask for an acknowledgement, in nanoseconds, and take for lost what left that long before the probe and
    /// its answer lacks; 0 = only silence draws a probe (open question 14). A lost tail then costs this time and a round
    /// trip, and each burst costs a probe.
    pub tail_probe_ns: u64,
    /// Shortest time between two probes of this QP, in nanoseconds.
    pub probe_rate_limit_ns: u64,
    /// Probe an otherwise silent peer this often, in nanoseconds, and fail the QP when the retry budget is spent and at
    /// least three probes in a row are unanswered; 0 = never. Lets a side that only receives notice that its peer is gone.
    /// A peer of which nothing has been heard yet is waited for.
    pub keepalive_ns: u64,
}

impl RtsAttr {
    /// Attributes for a software endpoint: everything at its default but the first PSN.
    pub fn software(sq_psn: mrc_wire::Psn) -> Self {
        Self {
            sq_psn,
            mpr: 8,
            retry: RetryConfig::default(),
            exponential_from_t0: false,
            trimming: Trimming::Off,
            cc: None,
            paths: crate::path::PathConfig::default(),
            selector: crate::path::Selector::Spray,
            base_rtt_ns: 50_000,
            target_delay_ns: 50_000,
            max_wimm: 32,
            dynamic_mpr: false,
            reorder_pkts_min: 3,
            reorder_factor: 384,
            reorder_delay_ns: 0,
            reorder_tolerance: 512,
            reorder_floor_ns: 0,
            blame_silence: true,
            tail_probe_ns: 0,
            probe_rate_limit_ns: 10_000,
            keepalive_ns: 0,
        }
    }
}

crate::image::stored!(struct PortConfig { mac, sid, addr });
crate::image::stored!(struct EndpointConfig {
    ports, gids, shard, wire, pkey, measurement_life_ns, sack_gen_threshold, merge_sacks, tack_within_message, oor_silent,
    answers_on_silent_planes, complete_on_sack, stale_nak_fatal, retry_strict, msn_start, rqmsn_start, placement,
    reject_zero_len, timestamps, ctl_ect, always_skip_after, wimm_nak_syndrome, size_overhead, ack_msn_zero, ask_each_message,
    turn_bytes, call_budget, cc, events, no_receive, tail_retry_lenient, tail_retry_paced, silent_packets, endpoint_rate_limit, share_bad_evs,
    ev_probe_rate_limit, endpoint_svc_time, port_update_rto_ns, port_update_max_ns, port_unmask_after_ns, probe_masked_ports,
    port_update_on_rts, port_mask_zero_based, bitmap_reach, right_edge_retreats, send_below_window,
});
crate::image::stored!(enum PlacementMode { 0 => BeforePoll, 1 => Reported });
crate::image::stored!(enum NoReceive { 0 => Hold, 1 => Nak });
crate::image::stored!(enum Route { 0 => Plain, 1 => Srv6(template), 2 => Srv6Entry });
crate::image::stored!(enum Trimming { 0 => Off, 1 => On });
