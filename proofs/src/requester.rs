//! The requester: sends, marks what arrived, infers losses, completes. Source: `transport` 3.3 to 3.9.

use crate::{
    Fault, MAX_PACKETS, below, bit,
    protocol::{Control, Data},
};

/// What the requester knows of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Arrival {
    /// Never sent.
    #[default]
    Unsent,
    /// On its way, as far as is known.
    Sent,
    /// Arrived.
    Sacked,
    /// To be retransmitted.
    Lost,
}

/// One packet of the send queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Packet {
    /// Where it is.
    pub arrival: Arrival,
    /// How often it was sent; also names the latest transmission, as the EV of a packet does.
    pub transmissions: u8,
    /// Later packets have shown it lost since its timer last ran out.
    fast_done: bool,
}

/// What the requester knows. PSNs count from 0; a count names the first PSN that is not in.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Requester {
    /// Every packet.
    pub packets: [Packet; MAX_PACKETS],
    /// Packets known to have arrived without a hole before them.
    pub unacknowledged: u8,
    /// Packets sent at least once.
    pub next: u8,
    /// Packets covered by a Transport ACK.
    pub executed: u8,
    /// One above the highest packet known to have arrived.
    highest: u8,
    /// How often each message completed.
    pub completions: [u8; MAX_PACKETS],
}

impl Requester {
    /// The oldest lost packet.
    pub(crate) fn oldest_lost(&self) -> Option<u8> {
        (self.unacknowledged..self.next).find(|&psn| self.packet(psn).arrival == Arrival::Lost)
    }

    /// Whether a new packet may leave: retransmissions go first, and the window limits.
    pub(crate) fn may_send_new(&self, total: u8, window: u8, fault: Option<Fault>) -> bool {
        let window = window + u8::from(fault == Some(Fault::WindowPlusOne));
        self.oldest_lost().is_none() && self.next < total && self.next < self.unacknowledged + window
    }

    /// Sends `psn`; its message's last packet asks for an acknowledgement.
    pub(crate) fn send(&mut self, psn: u8, last: bool) -> Data {
        self.next = self.next.max(psn + 1);
        let packet = &mut self.packets[usize::from(psn)];
        packet.arrival = Arrival::Sent;
        Self::transmission(packet, psn, last)
    }

    /// Repeats the last packet of a request whose Transport ACK is missing; it stays known to have arrived.
    pub(crate) fn repeat_tail(&mut self, psn: u8) -> Data {
        Self::transmission(&mut self.packets[usize::from(psn)], psn, true)
    }

    fn transmission(packet: &mut Packet, psn: u8, last: bool) -> Data {
        packet.transmissions += 1;
        let retransmission = packet.transmissions > 1;
        Data { psn, transmission: packet.transmissions, ask: last, retransmission }
    }

    /// The timer of `psn` ran out.
    pub(crate) fn timer(&mut self, psn: u8) {
        let packet = &mut self.packets[usize::from(psn)];
        packet.arrival = Arrival::Lost;
        packet.fast_done = false;
    }

    /// Whether the timer of `psn` runs.
    pub(crate) fn timer_runs(&self, psn: u8, fault: Option<Fault>) -> bool {
        let arrival = self.packet(psn).arrival;
        arrival == Arrival::Sent || (fault == Some(Fault::TimerOfArrived) && arrival == Arrival::Sacked)
    }

    /// Takes a control packet. `ends` are the counts at which the messages end; `reorder` is how many later packets
    /// show a packet lost.
    pub(crate) fn receive(&mut self, control: &Control, ends: &[u8], reorder: u8, fault: Option<Fault>) {
        match *control {
            Control::Sack { cumulative, received, trigger } => {
                self.sack(cumulative, received | below(cumulative) | bit(trigger), reorder, fault);
                if fault == Some(Fault::CompletesOnSack) {
                    self.complete(ends, |end| received & bit(end - 1) != 0, fault);
                }
            }
            Control::Nack { psn, transmission, .. } => self.nack(psn, transmission, fault),
            Control::TransportAck { cumulative } => {
                if cumulative > self.executed || fault == Some(Fault::CompletesAgain) {
                    self.executed = self.executed.max(cumulative);
                    self.mark(below(cumulative));
                    self.unacknowledged = self.unacknowledged.max(cumulative);
                    let executed = self.executed;
                    self.complete(ends, |end| end <= executed, fault);
                }
            }
        }
    }

    fn sack(&mut self, cumulative: u8, arrived: u8, reorder: u8, fault: Option<Fault>) {
        self.mark(arrived);
        if fault == Some(Fault::CumulativeGoesBack) {
            self.unacknowledged = cumulative;
        }
        self.unacknowledged = self.unacknowledged.max(cumulative);
        for psn in self.unacknowledged..self.next {
            let overtaken = self.highest > psn + reorder;
            let packet = &mut self.packets[usize::from(psn)];
            let missing = arrived & bit(psn) == 0;
            if fault == Some(Fault::ZeroUnmarks) && missing && packet.arrival == Arrival::Sacked {
                packet.arrival = Arrival::Sent;
            }
            if packet.arrival == Arrival::Sent && missing && overtaken && !packet.fast_done {
                packet.arrival = Arrival::Lost;
                packet.fast_done = true;
            }
        }
    }

    /// The packets of the set arrived; nothing is ever unmarked.
    fn mark(&mut self, arrived: u8) {
        for psn in 0..self.next {
            if arrived & bit(psn) != 0 {
                self.packets[usize::from(psn)].arrival = Arrival::Sacked;
                self.highest = self.highest.max(psn + 1);
            }
        }
    }

    fn nack(&mut self, psn: u8, transmission: u8, fault: Option<Fault>) {
        let packet = &mut self.packets[usize::from(psn)];
        let stale = packet.transmissions != transmission && fault != Some(Fault::ObeysStaleNack);
        if packet.arrival == Arrival::Sent && !stale {
            packet.arrival = if fault == Some(Fault::NackedNotSent) { Arrival::Unsent } else { Arrival::Lost };
        }
    }

    fn complete(&mut self, ends: &[u8], done: impl Fn(u8) -> bool, fault: Option<Fault>) {
        for (message, &end) in ends.iter().enumerate() {
            if done(end) && (self.completions[message] == 0 || fault == Some(Fault::CompletesAgain)) {
                self.completions[message] += 1;
            }
        }
    }

    fn packet(&self, psn: u8) -> &Packet {
        &self.packets[usize::from(psn)]
    }
}
