//! One direction of a link: serialisation, propagation, carrier, impairment. The queue before it is `queue`'s.
//! Owns no time and schedules nothing: [`crate::Sim`] asks it and files the events.

use mrc_core::{Prefetch, Rng};

use super::impair::{Fate, Impaired, Impairment};
use super::packet::{Arena, LOADED, Waiting};
use super::queue::{Admit, EgressQueue, QueueSpec};
use crate::prefetch::Caches;

/// Who owns an egress port, hence who gets what arrives there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    Host { host: u32, plane: u8 },
    Switch(u32),
}

/// What an arrival has to know of the port it comes in by. Apart from the ports: those are many, and far apart in memory.
#[derive(Clone, Copy)]
pub(crate) struct Inlet {
    pub(crate) owner: Owner,
    /// As the port's: what left in another one may have been lost.
    pub(crate) epoch: u16,
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

/// What one egress port has seen. A packet offered to a port ends in exactly one of sent or a drop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortCounters {
    /// Frames whose serialisation began.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Bytes of data packets with payload that a switch chose this port for, whatever became of them.
    pub offered_bytes: u64,
    /// Largest sum of queued bytes, both classes.
    pub peak_bytes: u64,
    /// Packets marked CE.
    pub ecn_marks: u64,
    /// Data-class packets that found the queue full.
    pub drop_data: u64,
    /// Control-class packets that found the queue full.
    pub drop_control: u64,
    /// Packets offered while the link was cut, and those that stood in the queue when it was.
    pub drop_down: u64,
    /// Packets on the wire, or being put on it, when the link was cut.
    pub lost_in_flight: u64,
    /// Trimmed packets that found the control class full.
    pub drop_trimmed: u64,
    /// Packets the link lost by itself, see [`crate::Loss`].
    pub lost_random: u64,
    /// Those of `drop_down`, `lost_in_flight` and `lost_random` together that travelled in the control class.
    pub lost_control: u64,
    /// Packets whose bits the link changed.
    pub corrupted: u64,
    /// Packets that lost their payload before this port.
    pub trims: u64,
    /// Times this port was told to hold its data class.
    pub pauses: u64,
}

impl PortCounters {
    /// Adds what another share of the fabric counted of the same port.
    pub(super) fn add(&mut self, other: &Self) {
        self.tx_packets += other.tx_packets;
        self.tx_bytes += other.tx_bytes;
        self.offered_bytes += other.offered_bytes;
        self.drop_data += other.drop_data;
        self.drop_control += other.drop_control;
        self.drop_down += other.drop_down;
        self.lost_in_flight += other.lost_in_flight;
        self.drop_trimmed += other.drop_trimmed;
        self.lost_random += other.lost_random;
        self.lost_control += other.lost_control;
        self.corrupted += other.corrupted;
        self.trims += other.trims;
        self.ecn_marks += other.ecn_marks;
        self.pauses += other.pauses;
        self.peak_bytes = self.peak_bytes.max(other.peak_bytes);
    }
}

/// What became of a packet offered to a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Offer {
    /// The port was idle: the packet is the next to be sent, now.
    SendNow,
    /// Queued behind others; `wake` is when to come back, unless somebody comes already. Another packet may have lost its
    /// place.
    Queued {
        wake: Option<u64>,
        evicted: Option<u32>,
    },
    Dropped,
}

/// Cut times a port remembers: a packet that spans more than this many cuts counts as lost by the first.
const CUTS: usize = 4;

/// State of the link's carrier; it is up when nothing keeps it down.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Down {
    /// The link itself is cut.
    pub(crate) cut: bool,
    /// Ends whose switch is down, 0 to 2.
    pub(crate) switches: u8,
}

/// One cache line, and what lies behind it.
#[repr(C, align(64))]
pub(crate) struct Port {
    pub(crate) owner: Owner,
    /// Cuts of the link. No packet is on a link for 65 536 of them.
    pub(crate) epoch: u16,
    pub(crate) up: bool,
    pub(crate) tapped: bool,
    /// Sends to a host: the last hop of what leaves here.
    pub(crate) last_hop: bool,
    /// A wake-up for the end of the running serialisation is in the event queue.
    wake_pending: bool,
    busy_until: u64,
    /// Bit-nanoseconds by which the last serialisation of a busy period missed a whole nanosecond.
    carry: u64,
    link: LinkSpec,
    /// Propagation to the far end and the latency of the switch there.
    flight_ns: u32,
    /// Latency of the switch this port belongs to: what arrived through it left the link that long ago.
    ingress_ns: u32,
    /// From the first use on. A share of a fabric has all ports of it, and uses its own.
    used: Option<Box<Used>>,
}

/// What only a port in use has, in this order: what every packet touches lies in front.
#[repr(C, align(64))]
#[derive(Default)]
struct Used {
    queue: EgressQueue,
    impaired: Option<Box<Impaired>>,
    counters: PortCounters,
    /// When the link was cut, by epoch; of one that never was, nothing.
    cut_at: Option<Box<[u64; CUTS]>>,
    /// Data bytes that came in through this port and still wait in the switch; counted only with PFC.
    ingress_bytes: u32,
    down: Down,
    /// The far end was told to pause because of what came in through this port.
    pausing: bool,
}

impl Port {
    pub(crate) fn new(owner: Owner, link: LinkSpec, last_hop: bool, far_latency_ns: u32, own_latency_ns: u32) -> Self {
        Self {
            owner,
            epoch: 0,
            up: true,
            tapped: false,
            last_hop,
            wake_pending: false,
            busy_until: 0,
            carry: 0,
            link,
            flight_ns: link.delay_ns + far_latency_ns,
            ingress_ns: own_latency_ns,
            used: None,
        }
    }

    #[inline]
    fn used(&mut self) -> &mut Used {
        self.used.get_or_insert_default()
    }

    pub(crate) fn counters(&self) -> PortCounters {
        self.used.as_ref().map_or(PortCounters::default(), |used| used.counters)
    }

    pub(crate) fn counters_mut(&mut self) -> &mut PortCounters {
        &mut self.used().counters
    }

    /// What keeps the carrier down.
    pub(crate) fn down(&mut self) -> &mut Down {
        &mut self.used().down
    }

    /// Its own cache line.
    #[inline]
    pub(super) fn fetch(&self) {
        Caches.prefetch(&self.epoch);
    }

    /// Where that says that the queue and the counters lie.
    #[inline]
    pub(super) fn fetch_used(&self) {
        if let Some(used) = &self.used {
            Caches.prefetch(&used.queue.paused);
            Caches.prefetch(&used.counters.tx_packets);
        }
    }

    /// Where the queue says that its ends lie.
    #[inline]
    pub(super) fn fetch_queue(&self) {
        if let Some(used) = &self.used {
            used.queue.fetch();
        }
    }

    pub(crate) fn inlet(&self) -> Inlet {
        Inlet { owner: self.owner, epoch: self.epoch }
    }

    /// Takes a packet of the class it carries, to send at once or to queue.
    #[inline]
    pub(crate) fn offer(&mut self, now: u64, id: u32, spec: &QueueSpec, arena: &mut Arena, rng: &mut Rng) -> Offer {
        let used = self.used.get_or_insert_default();
        let packet = arena.get(id);
        if packet.flags & LOADED != 0 && !packet.control {
            used.counters.offered_bytes += u64::from(packet.wire_len);
        }
        if !self.up {
            used.counters.drop_down += 1;
            used.counters.lost_control += u64::from(packet.control);
            return Offer::Dropped;
        }
        let idle = now >= self.busy_until && !self.wake_pending;
        if idle && (!used.queue.paused || packet.control) {
            return Offer::SendNow;
        }
        let evicted = match used.queue.admit(id, spec, self.last_hop, arena, rng, &mut used.counters) {
            Admit::Queued => None,
            Admit::QueuedInstead(victim) => Some(victim),
            Admit::Dropped => return Offer::Dropped,
        };
        used.counters.peak_bytes = used.counters.peak_bytes.max(used.queue.bytes().into());
        let wake = (!self.wake_pending && used.queue.is_sendable()).then_some(self.busy_until.max(now));
        self.wake_pending |= wake.is_some();
        Offer::Queued { wake, evicted }
    }

    /// The wake-up came: the next packet to send.
    #[inline]
    pub(crate) fn dequeue(&mut self, spec: &QueueSpec, arena: &mut Arena, rng: &mut Rng) -> Option<Waiting> {
        self.wake_pending = false;
        let used = self.used.get_or_insert_default();
        used.queue.next(spec, self.last_hop, arena, rng, &mut used.counters)
    }

    /// When to wake after the serialisation that is running, if packets wait for its end and nobody comes already.
    #[inline]
    pub(crate) fn wake(&mut self, now: u64) -> Option<u64> {
        if self.wake_pending || !self.used.as_ref().is_some_and(|used| used.queue.is_sendable()) {
            return None;
        }
        self.wake_pending = true;
        Some(self.busy_until.max(now))
    }

    /// Begins to put a frame of `wire_len` bytes on the link; returns the ends of its serialisation and of its flight,
    /// where the flight includes the latency of the switch it ends at.
    #[inline]
    pub(crate) fn transmit(&mut self, now: u64, wire_len: u32) -> (u64, u64) {
        if now > self.busy_until {
            self.carry = 0;
        }
        let work = u64::from(wire_len) * 8 * 1_000_000_000 + self.carry;
        self.busy_until = now + work / self.link.rate_bps;
        self.carry = work % self.link.rate_bps;
        let counters = self.counters_mut();
        counters.tx_packets += 1;
        counters.tx_bytes += u64::from(wire_len);
        (self.busy_until, self.busy_until + u64::from(self.flight_ns))
    }

    /// Whether the link may do something to what is sent.
    #[inline]
    pub(crate) fn is_impaired(&self) -> bool {
        self.used.as_ref().is_some_and(|used| used.impaired.is_some())
    }

    /// What the link does to the packet of `bytes` that was just sent, and when that arrives.
    pub(crate) fn impair(&mut self, bytes: u32, arrives_at: u64, rng: &mut Rng) -> (Fate, u64) {
        let Some((impaired, counters)) =
            self.used.as_mut().and_then(|used| Some((used.impaired.as_mut()?, &mut used.counters)))
        else {
            return (Fate { lost: false, corrupt: false }, arrives_at);
        };
        let fate = impaired.fate(bytes, rng);
        counters.lost_random += u64::from(fate.lost);
        counters.corrupted += u64::from(fate.corrupt);
        (fate, impaired.delay(arrives_at, rng))
    }

    pub(crate) fn set_impairment(&mut self, spec: &Impairment) {
        let impaired = &mut self.used().impaired;
        match impaired {
            Some(impaired) => impaired.change(spec),
            None => *impaired = Some(Impaired::new(spec)).filter(|impaired| !impaired.is_idle()).map(Box::new),
        }
    }

    /// Whether the link was cut while a packet sent in `epoch`, that the owner of this port handles `now`, was on it.
    ///
    /// A packet whose last bit arrives at the very instant of the cut is saved.
    pub(crate) fn lost(&self, epoch: u16, now: u64) -> bool {
        let cuts = self.epoch.wrapping_sub(epoch);
        let arrived = now - u64::from(self.ingress_ns);
        let cut_at = self.used.as_ref().and_then(|used| used.cut_at.as_ref()).map_or(0, |at| at[epoch as usize % CUTS]);
        cuts != 0 && (cuts as usize > CUTS || cut_at < arrived)
    }

    /// Cuts the link on this side: what is in flight will be lost, and the queue must be drained.
    pub(crate) fn cut(&mut self, now: u64) {
        if !self.up {
            return;
        }
        self.up = false;
        let epoch = self.epoch;
        self.epoch = epoch.wrapping_add(1);
        let used = self.used();
        used.cut_at.get_or_insert_default()[epoch as usize % CUTS] = now;
        used.queue.paused = false;
        used.pausing = false;
    }

    /// Takes the next packet out of the queue of a link that was cut.
    pub(crate) fn drain(&mut self, arena: &mut Arena) -> Option<u32> {
        let used = self.used.as_mut()?;
        let id = used.queue.drain()?;
        used.counters.drop_down += 1;
        used.counters.lost_control += u64::from(arena.get(id).control);
        Some(id)
    }

    /// The link carries again; returns whether it did not before.
    pub(crate) fn heal(&mut self) -> bool {
        !std::mem::replace(&mut self.up, true)
    }

    /// Whether it is serialising a packet.
    pub(crate) fn busy(&self, now: u64) -> bool {
        now < self.busy_until
    }

    /// When the latest frame will have left, or left.
    pub(crate) fn busy_until(&self) -> u64 {
        self.busy_until
    }

    /// Bytes of the frame that is being sent, at `frame_bps`, which have not left yet.
    pub(crate) fn unsent_bytes(&self, now: u64, frame_bps: u64) -> u64 {
        let ns = u128::from(self.busy_until.saturating_sub(now));
        (ns * u128::from(frame_bps) / 8_000_000_000) as u64
    }

    pub(crate) fn queued_bytes(&self) -> u32 {
        self.used.as_ref().map_or(0, |used| used.queue.bytes())
    }

    pub(crate) fn link(&self) -> LinkSpec {
        self.link
    }

    /// Changes rate and delay; packets on their way keep what they left with.
    pub(crate) fn set_link(&mut self, link: LinkSpec, far_latency_ns: u32) {
        self.link = link;
        self.flight_ns = link.delay_ns + far_latency_ns;
        self.carry = 0;
    }

    /// Propagation to the far end, and the latency of the switch there.
    pub(crate) fn flight_ns(&self) -> u32 {
        self.flight_ns
    }

    pub(crate) fn ingress_ns(&self) -> u32 {
        self.ingress_ns
    }

    /// The far end's pause frame arrived, or its end.
    pub(crate) fn set_paused(&mut self, paused: bool) {
        let used = self.used();
        used.counters.pauses += u64::from(paused && !used.queue.paused);
        used.queue.paused = paused;
    }

    /// When this port can send a control frame of the MAC: those wait for the frame that is being sent, and overtake the
    /// others.
    pub(crate) fn next_gap(&self, now: u64) -> u64 {
        self.busy_until.max(now)
    }

    /// Data that came in through this port joined or left the buffer; whether the far end is to be told to
    /// stop (`Some(true)`) or to go on, by the bytes at which it stops and goes on.
    pub(crate) fn account_ingress(&mut self, joined: bool, bytes: u32, (xoff, xon): (u64, u64)) -> Option<bool> {
        let used = self.used();
        used.ingress_bytes =
            if joined { used.ingress_bytes.saturating_add(bytes) } else { used.ingress_bytes.saturating_sub(bytes) };
        let held = u64::from(used.ingress_bytes);
        let pause = if used.pausing { held > xon } else { joined && held >= xoff };
        (pause != used.pausing).then(|| {
            used.pausing = pause;
            pause
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::impair::Loss;
    use crate::fabric::queue::PfcSpec;

    const QUEUE: QueueSpec = QueueSpec {
        data_bytes: 3000,
        control_bytes: 200,
        control_percent: None,
        ecn: None,
        trim: None,
        pfc: None,
        control_dscps: 0,
    };

    fn port(rate_bps: u64) -> Port {
        Port::new(Owner::Switch(0), LinkSpec { rate_bps, delay_ns: 500 }, false, 70, 0)
    }

    #[test]
    fn an_impairment_that_does_nothing_costs_nothing() {
        let mut port = Port::new(Owner::Switch(0), LinkSpec::new(100, 500), false, 0, 0);
        let lossy = |probability| Impairment { loss: Loss::Bernoulli { probability }, ..Impairment::default() };
        port.set_impairment(&Impairment::default());
        assert!(!port.is_impaired());
        port.set_impairment(&lossy(0.0));
        assert!(!port.is_impaired());
        for spec in [lossy(0.1), Impairment { jitter_ns: 1, ..Impairment::default() }] {
            let mut port = Port::new(Owner::Switch(0), LinkSpec::new(100, 500), false, 0, 0);
            port.set_impairment(&spec);
            assert!(port.is_impaired(), "{spec:?}");
        }
        let burst = Loss::GilbertElliott { to_bad: 0.1, to_good: 0.1, loss_good: 0.0, loss_bad: 1.0 };
        port.set_impairment(&Impairment { loss: burst, ..Impairment::default() });
        assert!(port.is_impaired());
    }

    #[test]
    fn a_port_fills_a_cache_line_and_four_where_it_is_used() {
        assert_eq!((size_of::<Port>(), size_of::<Used>()), (64, 256));
        let counters = std::mem::offset_of!(Used, counters);
        assert!(
            std::mem::offset_of!(PortCounters, ecn_marks) < 5 * 8
                && std::mem::offset_of!(PortCounters, tx_packets) < 5 * 8
        );
        assert!(
            counters >= 64 && counters + 5 * 8 <= 128,
            "what each packet counts lies in the second line: {counters}"
        );
        let mut port = port(1_000_000_000);
        assert!(port.used.is_none() && port.queued_bytes() == 0 && port.counters() == PortCounters::default());
        port.transmit(0, 64);
        assert_eq!(port.counters().tx_packets, 1);
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
        let (mut arena, mut rng) = (Arena::default(), Rng::new(1));
        let mut port = port(8_000_000_000);
        let mut add = |port: &mut Port, wire_len, control| {
            let id = arena.take();
            arena.get_mut(id).wire_len = wire_len;
            arena.get_mut(id).control = control;
            (id, port.offer(0, id, &QUEUE, &mut arena, &mut rng))
        };
        assert_eq!(add(&mut port, 1000, false).1, Offer::SendNow);
        assert_eq!(port.transmit(0, 1000).0, 1000);
        assert_eq!(add(&mut port, 1500, false).1, Offer::Queued { wake: Some(1000), evicted: None });
        assert_eq!(add(&mut port, 1500, false).1, Offer::Queued { wake: None, evicted: None });
        assert_eq!(add(&mut port, 1, false).1, Offer::Dropped);
        let (control, offer) = add(&mut port, 150, true);
        assert_eq!(offer, Offer::Queued { wake: None, evicted: None });
        assert_eq!(add(&mut port, 51, true).1, Offer::Dropped);
        assert_eq!(port.dequeue(&QUEUE, &mut arena, &mut rng), Some(Waiting { id: control, bytes: 150 }));
        let counters = port.counters();
        assert_eq!((counters.drop_data, counters.drop_control, counters.peak_bytes), (1, 1, 3150));
    }

    #[test]
    fn pauses_have_hysteresis() {
        let mut port = port(1);
        let limits = PfcSpec::Static { xoff_bytes: 3000, xon_bytes: 1000 }.thresholds(0);
        assert_eq!(port.account_ingress(true, 2999, limits), None);
        assert_eq!(port.account_ingress(true, 1, limits), Some(true));
        assert_eq!(port.account_ingress(true, 500, limits), None);
        assert_eq!(port.account_ingress(false, 2499, limits), None);
        assert_eq!(port.account_ingress(false, 1, limits), Some(false));
    }

    #[test]
    fn a_dynamic_threshold_follows_the_free_buffer_and_never_holds_an_empty_port() {
        let pfc = PfcSpec::Dynamic { bytes_per_gbps: 1000, beta: 8 };
        assert_eq!(pfc.buffer_bytes(400_000_000_000), 400_000);
        assert_eq!(pfc.buffer_bytes(2_500_000_000), 2_500, "half a Gb/s has a share, too");
        assert_eq!(pfc.thresholds(400_000), (400_000, 391_600));
        let mut port = port(1);
        assert_eq!(port.account_ingress(true, 200_000, pfc.thresholds(200_000)), Some(true), "half of the buffer");
        // The buffer fills up from other ports: the threshold falls to 0, and what left last lets the port go on.
        assert_eq!(port.account_ingress(false, 199_999, pfc.thresholds(0)), None);
        assert_eq!(port.account_ingress(false, 1, pfc.thresholds(0)), Some(false));
    }

    #[test]
    fn only_what_a_cut_caught_is_lost() {
        let mut port = port(8_000_000_000);
        port.ingress_ns = 70;
        port.cut(1000);
        assert!(!port.lost(0, 1070), "its last bit arrived at the instant of the cut");
        assert!(port.lost(0, 1071));
        assert!(port.heal());
        assert!(!port.lost(1, 5000));
        port.cut(6000);
        port.heal();
        assert!(!port.lost(0, 1070), "a later cut does not reach back");
        assert!(port.lost(0, 1071));
        assert!(port.lost(1, 6071));
    }
}
