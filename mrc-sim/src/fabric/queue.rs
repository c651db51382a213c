//! The queue of a switch's egress port: two classes, their schedule, ECN marks, trimming, tail drop, and the pause of the
//! class that is not trimmed. Owns no time.

use mrc_core::Rng;

use super::packet::{Arena, Fifo, Packet, TRIMMED, Waiting};
use super::port::PortCounters;
use super::switch;

/// ECN as RED does it: the chance of a mark grows from 0 at `min_bytes` to 1 at `max_bytes` of data left behind when the
/// packet begins to leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EcnSpec {
    /// No marks below this many bytes.
    pub min_bytes: u32,
    /// Every packet from here on; equal to `min_bytes` for a step.
    pub max_bytes: u32,
    /// Chance just below `max_bytes`, in percent; DCQCN profiles use less than 100.
    pub max_percent: u8,
    /// Whether the last switch marks too; MRC asks it not to.
    pub last_hop: bool,
}

impl EcnSpec {
    /// Marks every packet from `bytes` on, at every hop.
    pub const fn step(bytes: u32) -> Self {
        Self { min_bytes: bytes, max_bytes: bytes, max_percent: 100, last_hop: true }
    }

    #[inline]
    fn marks(&self, queued: u32, last_hop: bool, rng: &mut Rng) -> bool {
        if queued < self.min_bytes || last_hop && !self.last_hop {
            return false;
        }
        let above = u64::from(queued - self.min_bytes);
        let span = u64::from(self.max_bytes.saturating_sub(self.min_bytes));
        let draw = u128::from(rng.below(u32::MAX)) * u128::from(span) * 100;
        above >= span || draw < (u128::from(above) * u128::from(self.max_percent)) << 32
    }
}

/// Which packet pays when the data class is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TrimVictim {
    /// The one that arrives.
    #[default]
    Arriving,
    /// By a fair coin the one that arrives or the last of those that wait.
    ArrivingOrLast,
    /// By a fair coin the one that arrives or any of those that wait.
    ArrivingOrAny,
}

/// Trimming: a data packet that finds no room loses its payload instead of its life. One that is no longer than what
/// trimming would leave of it, such as a probe, has nothing to lose: it waits like data that may not be trimmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrimSpec {
    /// Bytes of data that may wait before packets are trimmed.
    pub threshold_bytes: u32,
    /// The same at the last hop.
    pub last_hop_threshold_bytes: u32,
    /// Bytes of a trimmed packet on the wire.
    pub trimmed_bytes: u32,
    /// Who is trimmed.
    pub victim: TrimVictim,
    /// Whether the last switch writes the code point that tells the receiver so.
    pub last_hop_dscp: bool,
}

impl TrimSpec {
    /// Whether a packet may be trimmed and has something to lose.
    fn takes(&self, packet: &Packet) -> bool {
        packet.wire_len > self.trimmed_bytes && switch::is_trimmable(packet.header())
    }
}

/// Priority flow control of the data class, per ingress port. What arrives after the pause finds room in any case
/// (headroom).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PfcSpec {
    /// Thresholds of their own.
    Static {
        /// Bytes from one ingress port at which its sender is paused.
        xoff_bytes: u32,
        /// Bytes at which it may go on.
        xon_bytes: u32,
    },
    /// A threshold that follows what is free of the buffer that all ports of a switch share.
    Dynamic {
        /// Size of the shared buffer, in bytes per Gb/s of the switch's ports.
        bytes_per_gbps: u32,
        /// An ingress port is paused at this many eighths of the free bytes (DCQCN's beta), and goes on
        /// [`PfcSpec::HYSTERESIS`] below.
        beta: u32,
    },
}

impl PfcSpec {
    /// Two of the longest packets.
    pub const HYSTERESIS: u64 = 2 * 4_200;

    /// Bytes at which an ingress port is paused and at which it goes on, in a switch whose shared buffer has `free` bytes.
    pub(crate) fn thresholds(&self, free: u64) -> (u64, u64) {
        match *self {
            Self::Static { xoff_bytes, xon_bytes } => (xoff_bytes.into(), xon_bytes.into()),
            Self::Dynamic { beta, .. } => {
                let xoff = free * u64::from(beta) / 8;
                (xoff, xoff.saturating_sub(Self::HYSTERESIS))
            }
        }
    }

    /// Bytes of the shared buffer of a switch whose ports have `rate_bps` together.
    pub(crate) fn buffer_bytes(&self, rate_bps: u64) -> u64 {
        match *self {
            Self::Static { .. } => 0,
            Self::Dynamic { bytes_per_gbps, .. } => {
                (u128::from(rate_bps) * u128::from(bytes_per_gbps) / 1_000_000_000) as u64
            }
        }
    }
}

/// The queue of a switch's egress port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueSpec {
    /// Bytes of the data class; a packet that does not fit, and is not trimmed, is dropped.
    pub data_bytes: u32,
    /// Bytes of the control class.
    pub control_bytes: u32,
    /// Share of the link, in percent, that the control class may take while data waits; `None`: it always goes first.
    pub control_percent: Option<u8>,
    /// Congestion marks.
    pub ecn: Option<EcnSpec>,
    /// Trimming.
    pub trim: Option<TrimSpec>,
    /// Pauses.
    pub pfc: Option<PfcSpec>,
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
            control_percent: None,
            ecn: None,
            trim: None,
            pfc: None,
            control_dscps: control.iter().fold(0, |set, dscp| set | 1 << (dscp & 63)),
        }
    }
}

impl QueueSpec {
    /// Whether a frame of DSCP `dscp` takes the control class.
    #[inline]
    pub(crate) fn is_control(&self, dscp: u8) -> bool {
        self.control_dscps >> (dscp & 63) & 1 == 1
    }
}

/// What became of a packet that had to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admit {
    /// It waits, perhaps without its payload.
    Queued,
    /// It waits, and a packet that waited was dropped for it.
    QueuedInstead(u32),
    /// It does not fit.
    Dropped,
}

#[derive(Default)]
pub(crate) struct EgressQueue {
    data: Fifo,
    control: Fifo,
    /// Weighted schedule: bytes by which the control class is behind its share, in percent of bytes.
    credit: i64,
    /// The next hop asked the data class to wait.
    pub(crate) paused: bool,
}

impl EgressQueue {
    #[inline]
    pub(crate) fn bytes(&self) -> u32 {
        self.data.bytes + self.control.bytes
    }

    /// Whether something could be sent now.
    #[inline]
    pub(crate) fn is_sendable(&self) -> bool {
        !self.control.is_empty() || !self.data.is_empty() && !self.paused
    }

    /// Files a packet that cannot leave at once.
    #[inline]
    pub(crate) fn admit(
        &mut self,
        id: u32,
        spec: &QueueSpec,
        last_hop: bool,
        arena: &mut Arena,
        rng: &mut Rng,
        counters: &mut PortCounters,
    ) -> Admit {
        let packet = arena.get(id);
        let bytes = packet.wire_len;
        if packet.control {
            return self.admit_control(Waiting { id, bytes }, spec, &mut counters.drop_control);
        }
        let trim_from = |trim: TrimSpec| trim.threshold_bytes.min(trim.last_hop_threshold_bytes);
        if self.data.bytes.saturating_add(bytes) <= spec.data_bytes.min(spec.trim.map_or(u32::MAX, trim_from)) {
            self.data.push(Waiting { id, bytes });
            return Admit::Queued;
        }
        self.admit_or_trim(Waiting { id, bytes }, spec, last_hop, arena, rng, counters)
    }

    /// Files a data packet that may have no room.
    fn admit_or_trim(
        &mut self,
        new: Waiting,
        spec: &QueueSpec,
        last_hop: bool,
        arena: &mut Arena,
        rng: &mut Rng,
        counters: &mut PortCounters,
    ) -> Admit {
        let packet = arena.get(new.id);
        let trim = spec.trim.filter(|trim| trim.takes(packet));
        let threshold = match trim {
            Some(trim) if last_hop => trim.last_hop_threshold_bytes,
            Some(trim) => trim.threshold_bytes,
            None => spec.data_bytes,
        };
        if self.data.bytes.saturating_add(new.bytes) <= threshold.min(spec.data_bytes) {
            self.data.push(new);
            return Admit::Queued;
        }
        let Some(trim) = trim else {
            counters.drop_data += 1;
            return Admit::Dropped;
        };
        counters.trims += 1;
        let victim = self.waiting_victim(&trim, arena, rng).filter(|&(_, victim)| {
            // Only a swap that makes room helps.
            self.data.bytes - victim.bytes + new.bytes <= threshold.min(spec.data_bytes)
        });
        let Some((back, Waiting { id: victim, .. })) = victim else {
            let bytes = cut(new.id, &trim, last_hop, arena);
            return self.admit_control(Waiting { bytes, ..new }, spec, &mut counters.drop_trimmed);
        };
        self.data.remove_back(back);
        self.data.push(new);
        let bytes = cut(victim, &trim, last_hop, arena);
        match self.admit_control(Waiting { id: victim, bytes }, spec, &mut counters.drop_trimmed) {
            Admit::Dropped => Admit::QueuedInstead(victim),
            _ => Admit::Queued,
        }
    }

    #[inline]
    fn admit_control(&mut self, new: Waiting, spec: &QueueSpec, drops: &mut u64) -> Admit {
        if self.control.bytes.saturating_add(new.bytes) > spec.control_bytes {
            *drops += 1;
            return Admit::Dropped;
        }
        self.control.push(new);
        Admit::Queued
    }

    /// A packet that waits and can be trimmed in place of the new one, and how many wait behind it.
    fn waiting_victim(&self, trim: &TrimSpec, arena: &Arena, rng: &mut Rng) -> Option<(u32, Waiting)> {
        let back = match trim.victim {
            TrimVictim::Arriving => return None,
            TrimVictim::ArrivingOrLast => 0,
            TrimVictim::ArrivingOrAny => rng.below(self.data.len),
        };
        let heads = rng.next_u64() >> 63 == 1;
        let victim = self.data.nth_back(back).filter(|_| heads)?;
        trim.takes(arena.get(victim.id)).then_some((back, victim))
    }

    /// What the next packet that leaves and the next one that waits will read or write.
    #[inline]
    pub(super) fn fetch(&self) {
        self.data.fetch();
        self.control.fetch();
    }

    /// The next packet to send, marked if there is congestion behind it.
    #[inline]
    pub(crate) fn next(
        &mut self,
        spec: &QueueSpec,
        last_hop: bool,
        arena: &mut Arena,
        rng: &mut Rng,
        counters: &mut PortCounters,
    ) -> Option<Waiting> {
        if self.control_is_next(spec) {
            return self.control.pop();
        }
        let next = self.data.pop()?;
        if let Some(ecn) = &spec.ecn
            && ecn.marks(self.data.bytes, last_hop, rng)
            && switch::mark_ce(arena.get_mut(next.id).header_mut())
        {
            counters.ecn_marks += 1;
        }
        Some(next)
    }

    #[inline]
    fn control_is_next(&mut self, spec: &QueueSpec) -> bool {
        let data_waits = !self.data.is_empty() && !self.paused;
        let (false, Some(percent)) = (self.control.is_empty() || !data_waits, spec.control_percent) else {
            // One class alone owes the other nothing.
            self.credit = 0;
            return !self.control.is_empty() || !data_waits;
        };
        let percent = i64::from(percent.min(100));
        let control = self.credit >= 0;
        let queue = if control { &self.control } else { &self.data };
        let bytes = queue.head().map_or(0, |packet| i64::from(packet.bytes));
        self.credit += if control { -bytes * (100 - percent) } else { bytes * percent };
        control
    }

    /// Takes everything out, packet by packet.
    pub(crate) fn drain(&mut self) -> Option<u32> {
        Some(self.control.pop().or_else(|| self.data.pop())?.id)
    }
}

/// Cuts the payload off and marks the packet as trimmed. Returns what is left of it, in bytes on the wire.
fn cut(id: u32, trim: &TrimSpec, last_hop: bool, arena: &mut Arena) -> u32 {
    let packet = arena.get_mut(id);
    packet.wire_len = packet.wire_len.min(trim.trimmed_bytes);
    packet.payload.len = 0;
    packet.flags |= TRIMMED;
    packet.control = true;
    switch::mark_trimmed(packet.header_mut(), last_hop && trim.last_hop_dscp);
    packet.wire_len
}

#[cfg(test)]
mod tests {
    use super::*;
    use mrc_wire::DscpPlan;

    const LEN: u32 = 1000;

    fn packet(arena: &mut Arena, dscp: u8, control: bool) -> u32 {
        let id = arena.take();
        let packet = arena.get_mut(id);
        packet.set_header_len(switch::HEAD);
        packet.header_mut().fill(0);
        packet.header_mut()[12..16].copy_from_slice(&[0x86, 0xdd, 0x60 | dscp >> 2, (dscp & 3) << 6 | 0b10 << 4]);
        (packet.wire_len, packet.control, packet.payload.len) = (LEN, control, 900);
        id
    }

    struct Bench {
        arena: Arena,
        rng: Rng,
        queue: EgressQueue,
        counters: PortCounters,
        spec: QueueSpec,
    }

    impl Bench {
        fn new(spec: QueueSpec) -> Self {
            let counters = PortCounters::default();
            Self { arena: Arena::default(), rng: Rng::new(5), queue: EgressQueue::default(), counters, spec }
        }

        fn add(&mut self, dscp: u8) -> (u32, Admit) {
            let id = packet(&mut self.arena, dscp, self.spec.is_control(dscp));
            let Self { arena, rng, queue, counters, spec } = self;
            (id, queue.admit(id, spec, false, arena, rng, counters))
        }

        fn next(&mut self, last_hop: bool) -> Option<u32> {
            let Self { arena, rng, queue, counters, spec } = self;
            queue.next(spec, last_hop, arena, rng, counters).map(|next| next.id)
        }
    }

    fn trimming(victim: TrimVictim) -> QueueSpec {
        let trim = TrimSpec {
            threshold_bytes: 4 * LEN,
            last_hop_threshold_bytes: 6 * LEN,
            trimmed_bytes: 64,
            victim,
            last_hop_dscp: true,
        };
        QueueSpec { trim: Some(trim), data_bytes: 8 * LEN, control_bytes: 640, ..QueueSpec::default() }
    }

    #[test]
    fn what_arrives_at_a_full_queue_is_trimmed_and_overtakes() {
        let plan = DscpPlan::default();
        let mut bench = Bench::new(trimming(TrimVictim::Arriving));
        for _ in 0..4 {
            assert_eq!(bench.add(plan.trimmable).1, Admit::Queued);
        }
        let (id, admit) = bench.add(plan.trimmable_retx);
        assert_eq!(admit, Admit::Queued);
        assert_eq!(bench.next(false), Some(id));
        let packet = bench.arena.get(id);
        assert_eq!((packet.wire_len, packet.payload.len, packet.is_trimmed()), (64, 0, true));
        assert_eq!(switch::dscp(packet.header()), plan.trimmed);
        assert_eq!(bench.counters.trims, 1);
    }

    #[test]
    fn a_packet_with_nothing_to_cut_is_not_trimmed() {
        let plan = DscpPlan::default();
        let mut bench = Bench::new(trimming(TrimVictim::ArrivingOrLast));
        for _ in 0..4 {
            bench.add(plan.trimmable);
        }
        let id = packet(&mut bench.arena, plan.trimmable, false);
        bench.arena.get_mut(id).wire_len = 64;
        let Bench { arena, rng, queue, counters, spec } = &mut bench;
        assert_eq!(queue.admit(id, spec, false, arena, rng, counters), Admit::Queued);
        assert!(!bench.arena.get(id).is_trimmed() && bench.counters.trims == 0, "a probe stays one that can be read");
        // Nor is it the victim of another one.
        for _ in 0..50 {
            bench.add(plan.trimmable);
        }
        assert!(!bench.arena.get(id).is_trimmed());
        assert_eq!(switch::dscp(bench.arena.get(id).header()), plan.trimmable);
    }

    #[test]
    fn packets_that_may_not_be_trimmed_have_the_whole_buffer_and_then_drop() {
        let mut bench = Bench::new(trimming(TrimVictim::Arriving));
        for _ in 0..8 {
            assert_eq!(bench.add(0).1, Admit::Queued);
        }
        assert_eq!(bench.add(0).1, Admit::Dropped);
        assert_eq!((bench.counters.drop_data, bench.counters.trims), (1, 0));
    }

    #[test]
    fn a_fair_coin_chooses_between_arriving_and_waiting() {
        let plan = DscpPlan::default();
        let mut bench = Bench::new(QueueSpec { control_bytes: 1 << 20, ..trimming(TrimVictim::ArrivingOrLast) });
        let mut arriving = 0;
        for nth in 0..1004 {
            let (id, admit) = bench.add(plan.trimmable);
            assert_eq!(admit, Admit::Queued);
            arriving += u32::from(nth >= 4 && bench.arena.get(id).is_trimmed());
        }
        assert_eq!((bench.queue.data.len, bench.queue.control.len), (4, 1000));
        assert!((440..560).contains(&arriving), "{arriving}");
        assert_eq!(bench.counters.trims, 1000);
    }

    #[test]
    fn a_full_control_class_drops_the_trimmed() {
        let plan = DscpPlan::default();
        let mut bench = Bench::new(trimming(TrimVictim::Arriving));
        for _ in 0..14 {
            bench.add(plan.trimmable);
        }
        assert_eq!(bench.add(plan.trimmable).1, Admit::Dropped);
        assert_eq!((bench.counters.trims, bench.counters.drop_trimmed), (11, 1));
    }

    #[test]
    fn the_last_hop_trims_later_and_says_so() {
        let plan = DscpPlan::default();
        let spec = trimming(TrimVictim::Arriving);
        let (mut arena, mut rng, mut counters) = (Arena::default(), Rng::new(1), PortCounters::default());
        let mut queue = EgressQueue::default();
        for nth in 0..7 {
            let id = packet(&mut arena, plan.trimmable, false);
            queue.admit(id, &spec, true, &mut arena, &mut rng, &mut counters);
            assert_eq!(arena.get(id).is_trimmed(), nth == 6);
        }
        let id = queue.next(&spec, true, &mut arena, &mut rng, &mut counters).unwrap().id;
        assert_eq!(switch::dscp(arena.get(id).header()), plan.trimmed_lasthop);
    }

    #[test]
    fn marks_grow_with_the_queue_left_behind() {
        let ecn = EcnSpec { min_bytes: 10 * LEN, max_bytes: 20 * LEN, max_percent: 100, last_hop: false };
        let mut rng = Rng::new(3);
        let mut share =
            |queued, last_hop| (0..10_000).filter(|_| ecn.marks(queued, last_hop, &mut rng)).count() as f64 / 10_000.0;
        assert_eq!(share(9_999, false), 0.0);
        assert_eq!(share(20_000, false), 1.0);
        assert_eq!(share(20_000, true), 0.0);
        assert!((0.28..0.32).contains(&share(13_000, false)));
        let step = EcnSpec::step(5 * LEN);
        assert!(!step.marks(4_999, true, &mut rng) && step.marks(5_000, true, &mut rng));
    }

    #[test]
    fn a_weighted_control_class_gets_its_share_and_no_more() {
        let plan = DscpPlan::default();
        let big = QueueSpec { data_bytes: 1 << 30, control_bytes: 1 << 30, ..QueueSpec::default() };
        for (control_percent, want) in [(None, 1000), (Some(25), 250), (Some(50), 500)] {
            let mut bench = Bench::new(QueueSpec { control_percent, ..big });
            for _ in 0..1000 {
                bench.add(0);
                bench.add(plan.control);
            }
            let mut control = 0u32;
            for _ in 0..1000 {
                let id = bench.next(false).unwrap();
                control += u32::from(bench.arena.get(id).control);
            }
            assert!(control.abs_diff(want) <= 2, "{control_percent:?}: {control}");
        }
    }

    #[test]
    fn a_pause_holds_data_and_not_control() {
        let mut bench = Bench::new(QueueSpec::default());
        bench.add(0);
        let (control, _) = bench.add(DscpPlan::default().control);
        bench.queue.paused = true;
        assert!(bench.queue.is_sendable());
        assert_eq!(bench.next(false), Some(control));
        assert!(!bench.queue.is_sendable());
        bench.queue.paused = false;
        assert!(bench.queue.is_sendable() && bench.next(false).is_some());
    }
}
