//! What a run adds up.

/// Totals of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SimCounters {
    /// Events processed.
    pub events: u64,
    /// Packets a host put on its link.
    pub sent: u64,
    /// Those of them in the control class.
    pub sent_control: u64,
    /// Packets that reached a host.
    pub delivered: u64,
    /// Those of them in the control class.
    pub delivered_control: u64,
    /// Those of them whose ICRC is wrong because a link changed their bits.
    pub corrupt: u64,
    /// Packets that found a host's receive buffer full, see [`super::ReceiveSpec`].
    pub host_full: u64,
    /// Those of them in the control class.
    pub host_full_control: u64,
    /// Packets that schemes sent, in the control class.
    pub emitted: u64,
    /// Packets that were meant for a switch.
    pub consumed: u64,
    /// Those of them in the control class.
    pub consumed_control: u64,
    /// Bytes of data packets that hosts sent, headers included.
    pub data_bytes: u64,
    /// Bytes of payload among them, retransmissions included.
    pub payload_bytes: u64,
    /// Bytes of control packets that hosts and schemes sent.
    pub control_bytes: u64,
    /// Data packets that reached their host after one that was sent later on the same queue pair.
    pub reordered: u64,
    /// Packets sent by a switch's egress port: one packet-hop each.
    pub switch_hops: u64,
}

impl SimCounters {
    /// Adds those of another share of the fabric.
    pub(in crate::fabric) fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.sent += other.sent;
        self.sent_control += other.sent_control;
        self.delivered += other.delivered;
        self.delivered_control += other.delivered_control;
        self.corrupt += other.corrupt;
        self.host_full += other.host_full;
        self.host_full_control += other.host_full_control;
        self.emitted += other.emitted;
        self.consumed += other.consumed;
        self.consumed_control += other.consumed_control;
        self.data_bytes += other.data_bytes;
        self.payload_bytes += other.payload_bytes;
        self.control_bytes += other.control_bytes;
        self.reordered += other.reordered;
        self.switch_hops += other.switch_hops;
    }
}
