//! The responder: records packets, places payload, answers. Source: `transport` 4.2, 4.3 and 4.7.

use crate::{
    Fault, MAX_PACKETS, bit,
    protocol::{Control, Data, Reason},
};

/// What the responder knows. PSNs count from 0; a count names the first PSN that is not in.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Responder {
    /// Packets received without a hole before them.
    pub cumulative: u8,
    /// The packets received, as a set.
    pub received: u8,
    /// How often the payload of each packet was placed.
    pub placed: [u8; MAX_PACKETS],
    /// New packets since the last SACK.
    since_sack: u8,
    /// A Transport ACK is owed until the cumulative count reaches this.
    ack_wanted: u8,
}

impl Responder {
    /// Takes a whole packet; `refuse` when a resource is short. Returns what it answers, in this order.
    pub(crate) fn receive(&mut self, data: &Data, refuse: bool, sack_every: u8, fault: Option<Fault>) -> Vec<Control> {
        let psn = data.psn;
        let below = psn < self.cumulative;
        let duplicate = below || self.received & bit(psn) != 0;
        if duplicate {
            if fault == Some(Fault::PlacesDuplicates) {
                self.placed[usize::from(psn)] += 1;
            }
            if fault == Some(Fault::SilentAboutDuplicates) {
                return Vec::new();
            }
            self.since_sack = 0;
            let mut answers = vec![self.sack(data)];
            if below && fault != Some(Fault::NoAckForDuplicate) {
                answers.push(self.transport_ack(psn, fault));
            }
            return answers;
        }
        if refuse {
            if fault == Some(Fault::RecordsRefused) {
                self.record(psn, fault);
            }
            return vec![Control::Nack { psn, transmission: data.transmission, reason: Reason::NoResource }];
        }
        let before = self.cumulative;
        self.record(psn, fault);
        self.placed[usize::from(psn)] += 1;
        if data.ask {
            self.ack_wanted = self.ack_wanted.max(psn + 1);
        }
        self.since_sack += 1;
        let mut answers = Vec::new();
        if self.since_sack >= sack_every || data.ask || data.retransmission {
            self.since_sack = 0;
            answers.push(self.sack(data));
        }
        let over_hole = fault == Some(Fault::AckNamesTrigger) && data.ask;
        if over_hole || (self.cumulative > before && before < self.ack_wanted) {
            answers.push(self.transport_ack(psn, fault));
        }
        answers
    }

    /// Takes a packet that a switch trimmed.
    pub(crate) fn trimmed(&mut self, data: &Data, fault: Option<Fault>) -> Vec<Control> {
        if fault == Some(Fault::RecordsTrimmed) {
            self.record(data.psn, fault);
        }
        vec![Control::Nack { psn: data.psn, transmission: data.transmission, reason: Reason::Trimmed }]
    }

    fn record(&mut self, psn: u8, fault: Option<Fault>) {
        self.received |= bit(psn);
        if fault == Some(Fault::CumulativeOverHole) {
            self.cumulative = self.cumulative.max(psn + 1);
        }
        while usize::from(self.cumulative) < MAX_PACKETS && self.received & bit(self.cumulative) != 0 {
            self.cumulative += 1;
        }
    }

    fn sack(&self, trigger: &Data) -> Control {
        Control::Sack { cumulative: self.cumulative, received: self.received, trigger: trigger.psn }
    }

    fn transport_ack(&self, trigger: u8, fault: Option<Fault>) -> Control {
        let named = if fault == Some(Fault::AckNamesTrigger) { trigger + 1 } else { self.cumulative };
        Control::TransportAck { cumulative: named }
    }
}
