//! One direction of a link and the queue before it: serialisation, propagation, classes, tail drop, ECN, cut and heal.
//! Owns no time and schedules nothing: [`crate::Sim`] asks it and files the events.

use crate::packet::{Arena, Fifo, Packet};

/// Who owns an egress port, hence who gets what arrives there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    Host { host: u32, plane: u8 },
    Switch(u32),
}

/// Rate and delay of a link, the same in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkSpec {
    /// Bits per second.
    pub rate_bps: u64,
    /// Propagation delay in nanoseconds.
    pub delay_ns: u32,
}

impl LinkSpec {
    /// A link of `gbps` gigabits per second and `delay_ns` nanoseconds.
    pub const fn new(gbps: u64, delay_ns: u32) -> Self {
        Self { rate_bps: gbps * 1_000_000_000, delay_ns }
    }
}

/// The queue of a switch's egress port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueSpec {
    /// Bytes of the data class; a packet that does not fit is dropped.
    pub data_bytes: u32,
    /// Bytes of the control class, which is served first.
    pub control_bytes: u32,
    /// Data packets that find at least this many bytes before them are marked CE, if their sender can take it.
    pub ecn_bytes: Option<u32>,
    /// Bit N: DSCP N belongs to the control class.
    pub control_dscps: u64,
}

impl Default for QueueSpec {
    fn default() -> Self {
        let dscp = mrc_wire::DscpPlan::default();
        let control = [dscp.control, dscp.trimmed, dscp.trimmed_lasthop];
        Self {
            data_bytes: 256 * 1024,
            control_bytes: 512 * 1024,
            ecn_bytes: None,
            control_dscps: control.iter().fold(0, |set, dscp| set | 1 << (dscp & 63)),
        }
    }
}

/// What one egress port has seen. A packet offered to a port ends in exactly one of sent or a drop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortCounters {
    /// Frames whose serialisation began.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Data-class packets that found the queue full.
    pub drop_data: u64,
    /// Control-class packets that found the queue full.
    pub drop_control: u64,
    /// Packets offered while the link was cut, and those that stood in the queue when it was.
    pub drop_down: u64,
    /// Packets on the wire, or being put on it, when the link was cut.
    pub lost_in_flight: u64,
    /// Packets marked CE.
    pub ecn_marks: u64,
    /// Largest sum of queued bytes, both classes.
    pub peak_bytes: u64,
}

/// What became of a packet offered to a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Offer {
    /// The port was idle: the packet is the next to be sent, now.
    SendNow,
    /// Queued behind others; `wake` is when to come back, unless somebody comes already.
    Queued {
        wake: Option<u64>,
    },
    Dropped,
}

/// Cut times a port remembers: a packet that spans more than this many cuts counts as lost by the first.
const CUTS: usize = 4;

pub(crate) struct Port {
    pub(crate) owner: Owner,
    pub(crate) up: bool,
    pub(crate) tapped: bool,
    /// A wake-up for the end of the running serialisation is in the event queue.
    wake_pending: bool,
    pub(crate) epoch: u32,
    /// Propagation to the far end and the latency of the switch there.
    flight_ns: u32,
    /// Latency of the switch this port belongs to: what arrived through it left the link that long ago.
    ingress_ns: u32,
    rate_bps: u64,
    busy_until: u64,
    /// Bit-nanoseconds by which the last serialisation of a busy period missed a whole nanosecond.
    carry: u64,
    data: Fifo,
    control: Fifo,
    queue: QueueSpec,
    pub(crate) counters: PortCounters,
    cut_at: [u64; CUTS],
}

impl Port {
    pub(crate) fn new(
        owner: Owner,
        link: LinkSpec,
        queue: QueueSpec,
        far_latency_ns: u32,
        own_latency_ns: u32,
    ) -> Self {
        Self {
            owner,
            up: true,
            tapped: false,
            wake_pending: false,
            epoch: 0,
            flight_ns: link.delay_ns + far_latency_ns,
            ingress_ns: own_latency_ns,
            rate_bps: link.rate_bps.max(1),
            busy_until: 0,
            carry: 0,
            data: Fifo::EMPTY,
            control: Fifo::EMPTY,
            queue,
            counters: PortCounters::default(),
            cut_at: [0; CUTS],
        }
    }

    /// Whether a frame of DSCP `dscp` takes the control class here.
    pub(crate) fn is_control(&self, dscp: u8) -> bool {
        self.queue.control_dscps >> (dscp & 63) & 1 == 1
    }

    /// Whether a data packet that arrives now is to be marked CE.
    pub(crate) fn congested(&self) -> bool {
        self.queue.ecn_bytes.is_some_and(|threshold| self.data.bytes >= threshold)
    }

    /// Takes a packet of the class it carries, to send at once or to queue.
    pub(crate) fn offer(&mut self, now: u64, id: u32, arena: &mut Arena) -> Offer {
        if !self.up {
            self.counters.drop_down += 1;
            return Offer::Dropped;
        }
        if now >= self.busy_until && !self.wake_pending {
            return Offer::SendNow;
        }
        let &Packet { wire_len, control, .. } = arena.get(id);
        let (fifo, limit, drops) = if control {
            (&mut self.control, self.queue.control_bytes, &mut self.counters.drop_control)
        } else {
            (&mut self.data, self.queue.data_bytes, &mut self.counters.drop_data)
        };
        if fifo.bytes.saturating_add(wire_len) > limit {
            *drops += 1;
            return Offer::Dropped;
        }
        fifo.push(id, arena);
        let queued = u64::from(self.data.bytes) + u64::from(self.control.bytes);
        self.counters.peak_bytes = self.counters.peak_bytes.max(queued);
        let wake = (!self.wake_pending).then_some(self.busy_until);
        self.wake_pending = true;
        Offer::Queued { wake }
    }

    /// The wake-up came: the next packet to send, control class first.
    pub(crate) fn dequeue(&mut self, arena: &Arena) -> Option<u32> {
        self.wake_pending = false;
        self.control.pop(arena).or_else(|| self.data.pop(arena))
    }

    /// When to wake after the serialisation that has just begun, if packets wait for its end.
    pub(crate) fn wake(&mut self) -> Option<u64> {
        if self.data.is_empty() && self.control.is_empty() {
            return None;
        }
        self.wake_pending = true;
        Some(self.busy_until)
    }

    /// Begins to put a frame of `wire_len` bytes on the link; returns the ends of its serialisation and of its flight,
    /// where the flight includes the latency of the switch it ends at.
    pub(crate) fn transmit(&mut self, now: u64, wire_len: u32) -> (u64, u64) {
        if now > self.busy_until {
            self.carry = 0;
        }
        let work = u64::from(wire_len) * 8 * 1_000_000_000 + self.carry;
        self.busy_until = now + work / self.rate_bps;
        self.carry = work % self.rate_bps;
        self.counters.tx_packets += 1;
        self.counters.tx_bytes += u64::from(wire_len);
        (self.busy_until, self.busy_until + u64::from(self.flight_ns))
    }

    /// Whether the link was cut while a packet sent in `epoch`, that the owner of this port handles `now`, was on it.
    ///
    /// A packet whose last bit arrives at the very instant of the cut is saved.
    pub(crate) fn lost(&self, epoch: u32, now: u64) -> bool {
        let cuts = self.epoch.wrapping_sub(epoch);
        let arrived = now - u64::from(self.ingress_ns);
        cuts != 0 && (cuts as usize > CUTS || self.cut_at[epoch as usize % CUTS] < arrived)
    }

    /// Cuts the link on this side: the queue is lost, and so will be what is in flight.
    pub(crate) fn cut(&mut self, now: u64, arena: &mut Arena) {
        if !self.up {
            return;
        }
        self.up = false;
        self.cut_at[self.epoch as usize % CUTS] = now;
        self.epoch = self.epoch.wrapping_add(1);
        while let Some(id) = self.control.pop(arena).or_else(|| self.data.pop(arena)) {
            arena.release(id);
            self.counters.drop_down += 1;
        }
    }

    /// The link carries again; returns whether it did not before.
    pub(crate) fn heal(&mut self) -> bool {
        !std::mem::replace(&mut self.up, true)
    }

    pub(crate) fn busy(&self, now: u64) -> bool {
        now < self.busy_until
    }

    pub(crate) fn queued_bytes(&self) -> u32 {
        self.data.bytes + self.control.bytes
    }

    /// Changes rate and delay; packets on their way keep what they left with.
    pub(crate) fn set_link(&mut self, link: LinkSpec, far_latency_ns: u32) {
        self.rate_bps = link.rate_bps.max(1);
        self.flight_ns = link.delay_ns + far_latency_ns;
        self.carry = 0;
    }

    pub(crate) fn ingress_ns(&self) -> u32 {
        self.ingress_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(rate_bps: u64) -> Port {
        let queue = QueueSpec { data_bytes: 3000, control_bytes: 200, ecn_bytes: Some(2000), ..QueueSpec::default() };
        Port::new(Owner::Switch(0), LinkSpec { rate_bps, delay_ns: 500 }, queue, 70, 0)
    }

    #[test]
    fn a_busy_period_loses_no_fraction_of_a_nanosecond() {
        // 1000 B at 768 Gb/s take 10.41666... ns.
        let mut port = port(768_000_000_000);
        let mut now = 0;
        for _ in 0..1200 {
            (now, _) = port.transmit(now, 1000);
        }
        assert_eq!(now, 12_500);
        // An idle gap starts afresh: the fractions of lone frames do not add up to an eleventh nanosecond.
        for start in [20_000, 30_000, 40_000] {
            assert_eq!(port.transmit(start, 1000), (start + 10, start + 580));
        }
    }

    #[test]
    fn full_queues_drop_by_class_and_control_goes_first() {
        let mut arena = Arena::default();
        let mut port = port(8_000_000_000);
        let add = |port: &mut Port, arena: &mut Arena, wire_len, control| {
            let id = arena.take();
            arena.get_mut(id).wire_len = wire_len;
            arena.get_mut(id).control = control;
            (id, port.offer(0, id, arena))
        };
        assert_eq!(add(&mut port, &mut arena, 1000, false).1, Offer::SendNow);
        assert_eq!(port.transmit(0, 1000).0, 1000);
        assert_eq!(add(&mut port, &mut arena, 1500, false).1, Offer::Queued { wake: Some(1000) });
        assert!(!port.congested());
        assert_eq!(add(&mut port, &mut arena, 1500, false).1, Offer::Queued { wake: None });
        assert!(port.congested());
        assert_eq!(add(&mut port, &mut arena, 1, false).1, Offer::Dropped);
        let (control, offer) = add(&mut port, &mut arena, 150, true);
        assert_eq!(offer, Offer::Queued { wake: None });
        assert_eq!(add(&mut port, &mut arena, 51, true).1, Offer::Dropped);
        assert_eq!(port.dequeue(&arena), Some(control));
        let counters = port.counters;
        assert_eq!((counters.drop_data, counters.drop_control, counters.peak_bytes), (1, 1, 3150));
    }

    #[test]
    fn only_what_a_cut_caught_is_lost() {
        let mut arena = Arena::default();
        let mut port = port(8_000_000_000);
        port.ingress_ns = 70;
        port.cut(1000, &mut arena);
        assert!(!port.lost(0, 1070), "its last bit arrived at the instant of the cut");
        assert!(port.lost(0, 1071));
        assert!(port.heal());
        assert!(!port.lost(1, 5000));
        port.cut(6000, &mut arena);
        port.heal();
        assert!(!port.lost(0, 1070), "a later cut does not reach back");
        assert!(port.lost(0, 1071));
        assert!(port.lost(1, 6071));
    }
}
