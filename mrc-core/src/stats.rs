//! Counters. Each discard reason, retransmission cause and EV transition has one; drivers and tools read them.

use crate::num::Counter;
use crate::{
    Discard, Qp, QpState,
    config::MAX_PORTS,
    path::{EvCounts, EvState},
};

/// Traffic of one port.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct PortStats {
    // Not side by side what one packet counts: the compiler would add it in a vector, which takes longer to be put together.
    /// Frames handed to the driver.
    pub tx_packets: u64,
    /// Frames accepted by the parser.
    pub rx_packets: u64,
    /// Payload bytes of the writes that left, retransmissions included.
    pub tx_bytes: u64,
    /// Payload bytes placed.
    pub rx_bytes: u64,
}

/// How many queue pairs are in which state, and how many EVs of those in RTS. Each change of a state changes the sums, so that to
/// read them takes no walk over queue pairs.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct StateSums {
    qp_states: [u64; 5],
    ev_states: [u64; 4],
    /// Those in RTR and RTS.
    connected: u64,
}

impl StateSums {
    /// Queue pairs in `state`.
    pub fn qps(&self, state: QpState) -> u64 {
        self.qp_states.get(state as usize).copied().unwrap_or(0)
    }

    /// Queue pairs in RTR and RTS.
    #[inline]
    pub(crate) const fn connected(&self) -> u64 {
        self.connected
    }

    /// EVs in `state`, of all queue pairs in RTS.
    pub fn evs(&self, state: EvState) -> u64 {
        self.ev_states.get(state as usize).copied().unwrap_or(0)
    }

    /// A queue pair exists from now on, as it is.
    pub(crate) fn enter(&mut self, qp: &Qp) {
        if let Some(sum) = self.qp_states.get_mut(qp.state as usize) {
            sum.inc();
        }
        self.connected.inc_by(qp.state.receives().into());
        if let Some(evs) = qp.ev_counts() {
            for (sum, count) in self.ev_states.iter_mut().zip(by_state(evs)) {
                sum.inc_by(count);
            }
        }
    }

    /// A queue pair ends, or is about to change.
    pub(crate) fn leave(&mut self, qp: &Qp) {
        if let Some(sum) = self.qp_states.get_mut(qp.state as usize) {
            *sum = sum.saturating_sub(1);
        }
        self.connected = self.connected.saturating_sub(qp.state.receives().into());
        if let Some(evs) = qp.ev_counts() {
            for (sum, count) in self.ev_states.iter_mut().zip(by_state(evs)) {
                *sum = sum.saturating_sub(count);
            }
        }
    }

    /// A queue pair changes its state. One that goes to RTS has its paths already.
    pub(crate) fn change(&mut self, qp: &mut Qp, to: QpState) {
        self.leave(qp);
        qp.state = to;
        self.enter(qp);
    }

    /// So many EVs of a queue pair in RTS changed their state.
    pub(crate) fn change_evs(&mut self, from: EvState, to: EvState, count: u32) {
        if let Some(sum) = self.ev_states.get_mut(from as usize) {
            *sum = sum.saturating_sub(count.into());
        }
        if let Some(sum) = self.ev_states.get_mut(to as usize) {
            sum.inc_by(count.into());
        }
    }
}

/// In the order of [`EvState`].
fn by_state(evs: EvCounts) -> [u64; 4] {
    [evs.good, evs.skip, evs.assumed_bad, evs.denied].map(u64::from)
}

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one endpoint since its construction, and the states of its queue pairs now.
        #[derive(Clone, Copy, Debug)]
        pub struct Stats {
            discards: [u64; Discard::COUNT],
            /// Per port, port 1 first.
            pub ports: [PortStats; MAX_PORTS],
            /// Queue pairs and EVs by state.
            pub states: StateSums,
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Default for Stats {
            fn default() -> Self {
                let (ports, states) = ([PortStats::default(); MAX_PORTS], StateSums::default());
                Self { discards: [0; Discard::COUNT], ports, states, $($name: 0,)* }
            }
        }

        impl Stats {
            /// Every counter but the per-port ones, by name; no sum of states.
            pub fn for_each(&self, mut f: impl FnMut(&'static str, u64)) {
                for &why in Discard::ALL {
                    f(why.name(), self.discarded(why));
                }
                $(f(stringify!($name), self.$name);)*
            }
        }

        crate::image::stored!(struct Stats { discards, ports, $($name,)* } rebuilt { states: StateSums::default() });
    };
}

stats! {
    /// Write packets sent for the first time.
    tx_data,
    /// Write packets sent again.
    retransmitted,
    /// Packets declared lost because later ones were acknowledged.
    lost_inferred,
    /// Packets declared lost because the responder or a switch refused them.
    lost_nack,
    /// Packets declared lost because their timer expired.
    lost_timeout,
    /// Requests repeated because their Transport ACK is missing.
    tail_resent,
    /// SACKs sent.
    tx_sack,
    /// SACKs received.
    rx_sack,
    /// NACKs sent.
    tx_nack,
    /// NACKs received.
    rx_nack,
    /// NACKs received that tell of a trimmed packet.
    rx_nack_trimmed,
    /// Transport ACKs sent.
    tx_ack,
    /// Transport ACKs received.
    rx_ack,
    /// Transport NAKs sent.
    tx_nak,
    /// Transport NAKs received.
    rx_nak,
    /// Reliability probes sent.
    tx_probe,
    /// Reliability probes received.
    rx_probe,
    /// Reliability probes without an answer in time.
    probe_lost,
    /// Write packets placed.
    rx_data,
    /// Write packets and probes that arrived with a congestion mark.
    rx_marked,
    /// Trimmed packets received.
    rx_trimmed,
    /// Answers that a later one of the same QP made needless, or that found no room.
    answers_merged,
    /// EVs that became ASSUMED_BAD.
    ev_assumed_bad,
    /// EVs that left ASSUMED_BAD.
    ev_restored,
    /// EVs that became SKIP.
    ev_skipped,
    /// Data packets that left on another path than the one before, under a single-path selector.
    path_switches,
    /// EVs that became ASSUMED_BAD because another QP of the profile found them so (`EndpointConfig::share_bad_evs`).
    ev_learned_bad,
    /// EV events left out because an equal one had just been raised.
    ev_events_merged,
    /// QPs that went to ERROR by themselves.
    qp_errors,
    /// Events that found the event queue full.
    events_lost,
    /// Endpoint operations asked of peers.
    tx_endpoint_request,
    /// Endpoint operations answered.
    tx_endpoint_response,
    /// Endpoint operations that peers asked.
    rx_endpoint_request,
    /// Answers to endpoint operations.
    rx_endpoint_response,
    /// EV probes that found a return path for control packets.
    return_path_found,
    /// EV probes of return paths without an answer.
    return_path_lost,
    /// Answers to such probes after they counted as lost; also in `return_path_found`.
    return_path_late,
    /// Changes of a peer's ports learned from its Port Status Updates.
    peer_ports_changed,
    /// Port Status Updates ignored because a newer one had overtaken them.
    port_update_stale,
    /// Port Status Updates that a peer had not answered after three repetitions. They are repeated at growing intervals.
    port_update_unanswered,
    /// Masked ports of peers that a packet has shown to work.
    peer_ports_unmasked,
    /// Write packets with immediate whose RQMSN does not follow the one before.
    rqmsn_gaps,
    /// Transport ACKs that had to wait because an immediate found no receive request.
    receive_starved,
}

impl Stats {
    /// Frames discarded for `why`.
    pub fn discarded(&self, why: Discard) -> u64 {
        self.discards.get(why as usize).copied().unwrap_or(0)
    }

    pub(crate) fn discard(&mut self, why: Discard) {
        if let Some(counter) = self.discards.get_mut(why as usize) {
            counter.inc();
        }
    }
}

crate::image::stored!(struct PortStats { tx_packets, tx_bytes, rx_packets, rx_bytes });
