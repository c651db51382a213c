//! Counters. Each discard reason, retransmission cause and EV transition has one; drivers and tools read them.

use crate::{Discard, config::MAX_PORTS};

/// Traffic of one port.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct PortStats {
    /// Frames handed to the driver.
    pub tx_packets: u64,
    /// Payload bytes of the writes among them, retransmissions included.
    pub tx_bytes: u64,
    /// Frames accepted by the parser.
    pub rx_packets: u64,
    /// Payload bytes placed.
    pub rx_bytes: u64,
}

/// Counters of one endpoint since its construction.
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    discards: [u64; Discard::COUNT],
    /// Per port, port 1 first.
    pub ports: [PortStats; MAX_PORTS],
    /// Write packets sent for the first time.
    pub tx_data: u64,
    /// Write packets sent again.
    pub retransmitted: u64,
    /// Packets declared lost because later ones were acknowledged.
    pub lost_inferred: u64,
    /// Packets declared lost because the responder or a switch refused them.
    pub lost_nack: u64,
    /// Packets declared lost because their timer expired.
    pub lost_timeout: u64,
    /// Requests repeated because their Transport ACK is missing.
    pub tail_resent: u64,
    /// SACKs sent.
    pub tx_sack: u64,
    /// SACKs received.
    pub rx_sack: u64,
    /// NACKs sent.
    pub tx_nack: u64,
    /// NACKs received.
    pub rx_nack: u64,
    /// Transport ACKs sent.
    pub tx_ack: u64,
    /// Transport ACKs received.
    pub rx_ack: u64,
    /// Transport NAKs sent.
    pub tx_nak: u64,
    /// Transport NAKs received.
    pub rx_nak: u64,
    /// Reliability probes sent.
    pub tx_probe: u64,
    /// Reliability probes received.
    pub rx_probe: u64,
    /// Reliability probes without an answer in time.
    pub probe_lost: u64,
    /// Write packets placed.
    pub rx_data: u64,
    /// Answers merged because a QP owed more than it can remember.
    pub answers_merged: u64,
    /// EVs that became ASSUMED_BAD.
    pub ev_assumed_bad: u64,
    /// EVs that left ASSUMED_BAD.
    pub ev_restored: u64,
    /// EVs that became SKIP.
    pub ev_skipped: u64,
    /// QPs that went to ERROR by themselves.
    pub qp_errors: u64,
    /// Events that found the event queue full.
    pub events_lost: u64,
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            discards: [0; Discard::COUNT],
            ports: [PortStats::default(); MAX_PORTS],
            tx_data: 0,
            retransmitted: 0,
            lost_inferred: 0,
            lost_nack: 0,
            lost_timeout: 0,
            tail_resent: 0,
            tx_sack: 0,
            rx_sack: 0,
            tx_nack: 0,
            rx_nack: 0,
            tx_ack: 0,
            rx_ack: 0,
            tx_nak: 0,
            rx_nak: 0,
            tx_probe: 0,
            rx_probe: 0,
            probe_lost: 0,
            rx_data: 0,
            answers_merged: 0,
            ev_assumed_bad: 0,
            ev_restored: 0,
            ev_skipped: 0,
            qp_errors: 0,
            events_lost: 0,
        }
    }
}

impl Stats {
    /// Frames discarded for `why`.
    pub fn discarded(&self, why: Discard) -> u64 {
        self.discards.get(why as usize).copied().unwrap_or(0)
    }

    pub(crate) fn discard(&mut self, why: Discard) {
        if let Some(counter) = self.discards.get_mut(why as usize) {
            *counter += 1;
        }
    }

    /// Every counter but the per-port ones, by name.
    pub fn for_each(&self, mut f: impl FnMut(&'static str, u64)) {
        for &why in Discard::ALL {
            f(why.name(), self.discarded(why));
        }
        let named = [
            ("tx_data", self.tx_data),
            ("retransmitted", self.retransmitted),
            ("lost_inferred", self.lost_inferred),
            ("lost_nack", self.lost_nack),
            ("lost_timeout", self.lost_timeout),
            ("tail_resent", self.tail_resent),
            ("tx_sack", self.tx_sack),
            ("rx_sack", self.rx_sack),
            ("tx_nack", self.tx_nack),
            ("rx_nack", self.rx_nack),
            ("tx_ack", self.tx_ack),
            ("rx_ack", self.rx_ack),
            ("tx_nak", self.tx_nak),
            ("rx_nak", self.rx_nak),
            ("tx_probe", self.tx_probe),
            ("rx_probe", self.rx_probe),
            ("probe_lost", self.probe_lost),
            ("rx_data", self.rx_data),
            ("answers_merged", self.answers_merged),
            ("ev_assumed_bad", self.ev_assumed_bad),
            ("ev_restored", self.ev_restored),
            ("ev_skipped", self.ev_skipped),
            ("qp_errors", self.qp_errors),
            ("events_lost", self.events_lost),
        ];
        for (name, value) in named {
            f(name, value);
        }
    }
}
