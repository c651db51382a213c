//! Connections of single messages: a queue pair at each end exists while its message needs it, and its memory then serves another
//! message.
//!
//! ```text
//! sender:    released -> queue pair -> completed: destroyed
//! receiver:  first packet -> queue pair -> all bytes placed: lingers -> destroyed
//! ```
//!
//! Neither end asks the other one: hosts may be in parts of the fabric that run apart. Packets therefore name the message in place of
//! a queue pair, and each host finds its own queue pair by that. A packet that comes when its message is complete and the
//! receiver's queue pair is gone is a duplicate or a probe of a sender that lacks the last acknowledgement. The receiver
//! brings up a queue pair again that expects what follows the message: it acknowledges everything and lingers.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use mrc_core::{Instant, QpHandle};
use mrc_wire::Qpn;

use super::connect::{FIRST_PSN, Role};
use super::{MrcSettings, MrcTransport};
use crate::fabric::Packet;
use crate::host::mrc::MrcHostError;
use crate::workload::{Connections, Exchange};

/// Number of the first connection of all; those below are not of connections.
const FIRST: u32 = 4;
/// Where the number of the receiving queue pair stands: behind Ethernet, IPv6, UDP and five bytes of the BTH.
const QPN: usize = 14 + 40 + 8 + 5;
/// Where an IPv6 header behind the Ethernet header says what follows it, what it says of another one, and how long that is.
const NEXT_HEADER: usize = 14 + 6;
const IPV6: u8 = 41;
const IPV6_LEN: usize = 40;

/// Spreads numbers that follow each other.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// The connections of a host's messages that are open.
pub(super) struct Own {
    /// Queue pairs by the number that packets to them have.
    ends: HashMap<u32, QpHandle, BuildHasherDefault<NumberHasher>>,
    /// Those that send, and most of them: the others are for what the host receives.
    sending: u32,
    most_sending: u32,
    /// Messages that are complete at their receiver, with the end of its queue pairs; oldest first.
    lingering: VecDeque<(Instant, u32)>,
    linger_ns: u64,
    /// Messages that found no free queue pair, with the place of their connection.
    waiting: VecDeque<(usize, u32)>,
}

impl Own {
    /// Those of a host; `None` where messages share connections.
    pub(super) fn new(settings: &MrcSettings, host: u32) -> Option<Box<Self>> {
        let sent = settings.open.get(host as usize).map_or(1, |&[sent, _]| sent);
        let own = Self {
            ends: HashMap::default(),
            sending: 0,
            most_sending: sent.max(1).saturating_mul(settings.qps),
            lingering: VecDeque::new(),
            // What left the sender before the last acknowledgement reached it has arrived by then, unless it queued for longer.
            linger_ns: settings.rts.base_rtt_ns + settings.rts.target_delay_ns,
            waiting: VecDeque::new(),
        };
        (settings.connections == Connections::PerMessage).then(|| Box::new(own))
    }

    /// When the next queue pair ends that lingers.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.lingering.front().map(|&(end, _)| end)
    }

    /// Every queue pair, in the order of its message.
    pub(super) fn ends(&self) -> impl Iterator<Item = QpHandle> {
        let mut ends: Vec<_> = self.ends.iter().map(|(&number, &qp)| (number, qp)).collect();
        ends.sort_unstable_by_key(|&(number, _)| number);
        ends.into_iter().map(|(_, qp)| qp)
    }

    /// The queue pair that a packet with this header is for; `None` where it is gone, or not up yet.
    pub(super) fn end_of(&self, header: &[u8]) -> Option<QpHandle> {
        self.ends.get(&number_in(header)?).copied()
    }

    fn linger(&mut self, now: Instant, message: u32) {
        self.lingering.push_back((now.after(self.linger_ns), message));
    }
}

fn number_at(header: &[u8]) -> usize {
    QPN + if header.get(NEXT_HEADER) == Some(&IPV6) { IPV6_LEN } else { 0 }
}

fn number_in(header: &[u8]) -> Option<u32> {
    let at = number_at(header);
    Some(header.get(at..at + 3)?.iter().fold(0, |sum, &byte| sum << 8 | u32::from(byte)))
}

impl MrcTransport<'_> {
    /// Most messages of a run that can have connections of their own with so many queue pairs each.
    pub const fn most_own(qps: u32) -> u32 {
        ((1 << 24) - FIRST) / if qps == 0 { 1 } else { qps }
    }

    /// The number that packets have of a queue pair of a message.
    fn number(&self, message: u32, lane: u32) -> u32 {
        FIRST + message * self.qps + lane
    }

    /// Opens the connection of a message, or has it wait for a free queue pair.
    pub(super) fn open_or_wait(&mut self, now: Instant, next: (usize, u32), exchange: &mut Exchange) {
        let Some(own) = &mut self.own else { return };
        if !own.waiting.is_empty() || own.sending + self.qps > own.most_sending {
            self.crowded += 1;
            own.waiting.push_back(next);
            return;
        }
        self.open(now, next, exchange);
    }

    /// Brings up the sender's queue pairs of a message and posts it.
    fn open(&mut self, now: Instant, (at, id): (usize, u32), exchange: &mut Exchange) {
        let bytes = exchange.message(id).bytes;
        for lane in 0..self.qps {
            let (offset, len) = self.piece(bytes, lane);
            if len == 0 {
                break;
            }
            match self.begin(now, self.number(id, lane), at, Role::Sender) {
                Ok(qp) => {
                    self.send(now, qp, (at, lane), (id, offset, len), exchange);
                }
                Err(error) => exchange.on_failed(now, id, || error.to_string()),
            }
        }
    }

    /// Brings up the queue pair that packets with `number` are for. Queue pairs that linger make room.
    fn begin(&mut self, now: Instant, number: u32, at: usize, role: Role) -> Result<QpHandle, MrcHostError> {
        let most = self.endpoint.limits().qps;
        while let Some(own) = &mut self.own
            && own.ends.len() >= most
            && let Some((_, message)) = own.lingering.pop_front()
        {
            self.close_receiver(message);
        }
        let qp = self.create_qp()?;
        if let Err(error) = self.bring_up(now, qp, Qpn::new(number), at, role) {
            self.endpoint.destroy_qp(qp)?;
            return Err(error);
        }
        if let Some(own) = &mut self.own {
            own.ends.insert(number, qp);
            own.sending += u32::from(role == Role::Sender);
        }
        Ok(qp)
    }

    /// Destroys a queue pair. What it still owes is lost, as on the wire.
    fn end(&mut self, number: u32) -> bool {
        let Some(qp) = self.own.as_mut().and_then(|own| own.ends.remove(&number)) else { return false };
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.forget(qp);
        }
        self.endpoint.destroy_qp(qp).is_ok()
    }

    /// A piece of a message has completed or failed: its sender's queue pair makes room for another message.
    pub(super) fn close_sender(&mut self, now: Instant, message: u32, lane: u32, exchange: &mut Exchange) {
        let ended = self.end(self.number(message, lane));
        let Some(own) = &mut self.own else { return };
        own.sending -= u32::from(ended);
        if own.sending + self.qps <= own.most_sending
            && let Some(next) = own.waiting.pop_front()
        {
            self.open(now, next, exchange);
        }
    }

    fn close_receiver(&mut self, message: u32) {
        for lane in 0..self.qps {
            self.end(self.number(message, lane));
        }
    }

    /// Bytes of a message were placed: with the last of them its receiver's queue pairs begin to linger.
    pub(super) fn on_placed(&mut self, now: Instant, message: u32, exchange: &Exchange) {
        if let Some(own) = &mut self.own
            && exchange.missing(message) == 0
        {
            own.linger(now, message);
        }
    }

    /// Destroys the queue pairs that have lingered long enough.
    pub(super) fn close_lingering(&mut self, now: Instant) {
        while let Some(own) = &mut self.own
            && let Some((_, message)) = own.lingering.pop_front_if(|&mut (end, _)| end <= now)
        {
            self.close_receiver(message);
        }
    }

    /// Writes into the header of a received packet the number of the queue pair that it is for, which comes up if it is the
    /// receiver's; `false` where there is none.
    pub(super) fn readdress(&mut self, now: Instant, header: &mut [u8], packet: &Packet, exchange: &Exchange) -> bool {
        let Some(number) = number_in(header) else { return false };
        if number < FIRST {
            return true;
        }
        let known = self.own.as_ref().and_then(|own| own.ends.get(&number).copied());
        let Some(qp) = known.or_else(|| self.receive_anew(now, number, packet, exchange)) else { return false };
        let at = number_at(header);
        header[at..at + 3].copy_from_slice(&qp.qpn().value().to_be_bytes()[1..]);
        true
    }

    /// Brings up the receiver's queue pair of a message: for its first packet, or for one that comes when all is done.
    fn receive_anew(&mut self, now: Instant, number: u32, packet: &Packet, exchange: &Exchange) -> Option<QpHandle> {
        let (id, lane) = ((number - FIRST) / self.qps, (number - FIRST) % self.qps);
        let message = exchange.messages().get(id as usize).filter(|message| message.dst == self.index)?;
        if packet.is_corrupt() {
            return None;
        }
        let at = self.connection_to(message.src)?;
        let complete = exchange.missing(id) == 0;
        let packets = if complete { self.piece(message.bytes, lane).1.div_ceil(self.packet.1) } else { 0 };
        let Ok(qp) = self.begin(now, number, at, Role::Receiver(FIRST_PSN.add(packets))) else {
            self.crowded += 1;
            return None;
        };
        if complete && let Some(own) = &mut self.own {
            own.linger(now, id);
        }
        Some(qp)
    }

    /// The other host of a queue pair.
    pub(super) fn peer_of(&self, qp: QpHandle) -> Option<u32> {
        let handle = self.endpoint.qp_info(qp)?.peer?;
        self.connections.iter().find(|connection| connection.handle == handle).map(|connection| connection.peer)
    }
}
