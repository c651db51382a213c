//! A fabric at work in parts, each with its own event queue, on one or several threads.
//!
//! No packet needs less than the lookahead from one part to another. So all parts process a window of that length without
//! looking at each other, then exchange what crossed, in the order of the parts, and go on. Windows and exchange depend
//! on virtual time alone: any number of threads gives the same run, event by event. The number of parts does change a
//! run, as another seed would: the order of simultaneous events and the draws of random numbers are each part's own.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use mrc_core::Instant;

use super::partition::Partition;
use super::port::{LinkSpec, PortCounters};
use super::shape::Topology;
use super::sim::{Fault, Mail, ReceiveSpec, Share, Sim, SimCounters, TierQueue};
use super::switch::SwitchCounters;
use super::topology::{LinkId, PortId, Tier, TopologyError};
use super::trace::{Captured, Digest, Tap};
use crate::host::Host;

/// Looks at a gate before a thread lets others run.
const SPINS: u32 = 2_000;

/// How evenly the work was divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Windows {
    /// Windows between two exchanges.
    pub count: u64,
    /// Events in all of them.
    pub events: u64,
    /// Events of the busiest part of each window, added up: what as many threads as parts would wait for.
    pub critical: u64,
}

/// What a thread says at the end of a window.
#[derive(Default)]
struct Report {
    earliest: AtomicU64,
    events: AtomicU64,
    busiest: AtomicU64,
}

/// Where the threads of a run meet.
struct Gate {
    threads: usize,
    waiting: AtomicUsize,
    round: AtomicUsize,
    broken: AtomicBool,
}

impl Gate {
    fn wait(&self) {
        let round = self.round.load(Ordering::Acquire);
        if self.waiting.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.waiting.store(0, Ordering::Relaxed);
            self.round.store(round.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut spins = 0;
        while self.round.load(Ordering::Acquire) == round {
            assert!(!self.broken.load(Ordering::Relaxed), "another thread of this run panicked");
            if spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }
}

/// Tells the others when its thread panics: nobody waits for it.
struct Alarm<'a>(&'a Gate);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, Ordering::Relaxed);
        }
    }
}

/// What threads share. Two of each, in turn: who is through the gate first writes into the other.
struct Office {
    parts: usize,
    gate: Gate,
    /// By sender and receiver.
    mail: [Vec<Mutex<Mail>>; 2],
    /// By thread.
    reports: [Vec<Report>; 2],
}

impl Office {
    fn new(parts: usize, threads: usize) -> Self {
        let mail = || (0..parts * parts).map(|_| Mutex::default()).collect();
        let reports = || (0..threads).map(|_| Report::default()).collect();
        let (waiting, round, broken) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        let gate = Gate { threads, waiting, round, broken };
        Self { parts, gate, mail: [mail(), mail()], reports: [reports(), reports()] }
    }

    fn with_mail<R>(&self, side: usize, from: usize, to: usize, act: impl FnOnce(&mut Mail) -> R) -> R {
        let cell = &self.mail[side][from * self.parts + to];
        act(&mut cell.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Earliest event of all, events of all, and those of the busiest part in this window.
    fn sum(&self, side: usize) -> (u64, u64, u64) {
        let get = |value: &AtomicU64| value.load(Ordering::Relaxed);
        self.reports[side].iter().fold((u64::MAX, 0, 0), |(earliest, events, busiest), report| {
            (earliest.min(get(&report.earliest)), events + get(&report.events), busiest.max(get(&report.busiest)))
        })
    }
}

/// When a call ends.
#[derive(Clone, Copy)]
struct Stop {
    until: Instant,
    events: u64,
    lookahead_ns: u64,
}

/// One thread: windows of its parts until the end. Returns whether `until` was reached, and what it saw.
fn work<H: Host>(office: &Office, sims: &mut [Sim<H>], (first, thread): (usize, usize), stop: Stop) -> (bool, Windows) {
    let _alarm = Alarm(&office.gate);
    let mut seen = Windows::default();
    let (mut side, mut busiest) = (0, 0);
    let mut sent = Instant::FAR;
    loop {
        let pending = sims.iter().filter_map(Sim::earliest).min().unwrap_or(Instant::FAR);
        let events = sims.iter().map(|sim| sim.counters().events).sum();
        let report = &office.reports[side][thread];
        report.earliest.store(pending.min(sent).as_nanos(), Ordering::Relaxed);
        report.events.store(events, Ordering::Relaxed);
        report.busiest.store(busiest, Ordering::Relaxed);
        office.gate.wait();
        for (nth, sim) in sims.iter_mut().enumerate() {
            for from in 0..office.parts {
                office.with_mail(side, from, first + nth, |mail| sim.take_in(mail));
            }
        }
        let (earliest, events, most) = office.sum(side);
        seen.critical += most;
        if Instant::from_nanos(earliest) > stop.until {
            sims.iter_mut().for_each(|sim| sim.run_until(stop.until));
            return (true, seen);
        }
        if events >= stop.events {
            return (false, seen);
        }
        side ^= 1;
        let end = Instant::from_nanos(earliest.saturating_add(stop.lookahead_ns - 1)).min(stop.until);
        (busiest, sent) = (0, Instant::FAR);
        for (nth, sim) in sims.iter_mut().enumerate() {
            let before = sim.counters().events;
            sim.run_until(end);
            busiest = busiest.max(sim.counters().events - before);
            for to in (0..office.parts).filter(|&to| to != first + nth) {
                let Some(outbox) = sim.outbox(to) else { continue };
                sent = sent.min(outbox.earliest().unwrap_or(Instant::FAR));
                office.with_mail(side, first + nth, to, |mail| std::mem::swap(mail, outbox));
            }
        }
        seen.count += 1;
    }
}

/// A fabric in parts. One part is a [`Sim`] of the whole.
pub struct Parts<H: Host> {
    sims: Vec<Sim<H>>,
    partition: Partition,
    threads: usize,
    windows: Windows,
}

impl<H: Host> Parts<H> {
    /// As [`Sim::new`], with a world for each part, on up to `threads` threads.
    ///
    /// # Errors
    /// A topology that cannot be addressed.
    pub fn new(
        topology: &Topology,
        seed: u64,
        partition: &Partition,
        worlds: impl IntoIterator<Item = H::World>,
        hosts: impl IntoIterator<Item = H>,
        threads: usize,
    ) -> Result<Self, TopologyError> {
        topology.validate()?;
        let count = partition.parts();
        let share =
            |index| Share { index, owners: partition.owners(), outbox: (0..count).map(|_| Mail::default()).collect() };
        let mut hosts = hosts.into_iter();
        let part = |(index, world): (usize, H::World)| {
            let (first, end) = (partition.firsts()[index], partition.firsts()[index + 1]);
            let hosts = hosts.by_ref().take((end - first) as usize).collect();
            Sim::assemble(topology.clone(), seed, world, (first, hosts), (count > 1).then(|| share(index)))
        };
        let sims: Vec<_> = worlds.into_iter().enumerate().map(part).collect();
        assert_eq!(sims.len(), count, "a world for each part");
        let threads = threads.clamp(1, count);
        Ok(Self { sims, partition: partition.clone(), threads, windows: Windows::default() })
    }

    /// The parts.
    pub fn sims(&self) -> &[Sim<H>] {
        &self.sims
    }

    /// How the fabric is divided.
    pub fn partition(&self) -> &Partition {
        &self.partition
    }

    /// How evenly the work was divided so far.
    pub fn windows(&self) -> Windows {
        self.windows
    }

    /// Threads at work.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Virtual time.
    pub fn now(&self) -> Instant {
        self.sims[0].now()
    }

    /// The topology.
    pub fn topology(&self) -> &Topology {
        self.sims[0].topology()
    }

    /// As [`Sim::set_receive`].
    pub fn set_receive(&mut self, spec: ReceiveSpec) {
        self.sims.iter_mut().for_each(|sim| sim.set_receive(spec));
    }

    /// As [`Sim::schedule`].
    pub fn schedule(&mut self, at: Instant, fault: Fault) {
        self.sims.iter_mut().for_each(|sim| sim.schedule(at, fault));
    }

    /// As [`Sim::set_link`].
    pub fn set_link(&mut self, link: LinkId, spec: LinkSpec) {
        self.sims.iter_mut().for_each(|sim| sim.set_link(link, spec));
    }

    /// As [`Sim::attach_tap`].
    pub fn attach_tap(&mut self, tap: &Tap, ports: &[PortId]) {
        self.sims.iter_mut().for_each(|sim| sim.attach_tap(tap.clone(), ports));
    }

    /// What the attached tap has captured, in order of time.
    pub fn captured(&self) -> Vec<Captured> {
        let taps = self.sims.iter().filter_map(Sim::tap);
        let mut packets: Vec<Captured> = taps.flat_map(Tap::packets).cloned().collect();
        // What came in was seen when its switch took it, which is later than it left the link.
        packets.sort_by_key(|packet| packet.at);
        packets
    }

    /// A host.
    pub fn host(&self, host: u32) -> &H {
        self.sims[self.partition.part_of(host)].host(host)
    }

    /// Totals so far.
    pub fn counters(&self) -> SimCounters {
        let mut sum = SimCounters::default();
        self.sims.iter().for_each(|sim| sum.add(&sim.counters()));
        sum
    }

    /// Counters of one egress port.
    pub fn port_counters(&self, port: PortId) -> PortCounters {
        let mut sum = self.sims[0].port_counters(port);
        self.sims[1..].iter().for_each(|sim| sum.add(&sim.port_counters(port)));
        sum
    }

    /// Bytes waiting before one egress port now.
    pub fn queued_bytes(&self, port: PortId) -> u32 {
        self.sims.iter().map(|sim| sim.queued_bytes(port)).sum()
    }

    /// As [`Sim::sent_bytes`].
    pub fn sent_bytes(&self, port: PortId) -> u64 {
        self.sims.iter().map(|sim| sim.sent_bytes(port)).sum()
    }

    /// What the link behind one egress port could have sent so far, in bits per second times nanoseconds.
    pub(crate) fn capacity(&self, port: PortId) -> u128 {
        self.sims[0].capacity(port)
    }

    /// Rate and delay of the link behind one egress port now.
    pub fn link_spec(&self, port: PortId) -> LinkSpec {
        self.sims[0].link_spec(port)
    }

    /// Counters of a switch.
    pub fn switch(&self, index: usize) -> SwitchCounters {
        let mut sum = SwitchCounters::default();
        for (_, counters) in self.sims.iter().map(|sim| sim.switch(index)) {
            sum.forwarded += counters.forwarded;
            sum.refused_control += counters.refused_control;
            sum.refused.iter_mut().zip(counters.refused).for_each(|(sum, refused)| *sum += refused);
        }
        sum
    }

    /// The queues of one tier now.
    pub fn tier_queue(&self, tier: Tier) -> TierQueue {
        let mut sum = TierQueue::default();
        for TierQueue { ports, total_bytes, max_bytes } in self.sims.iter().map(|sim| sim.tier_queue(tier)) {
            sum.ports = ports;
            sum.total_bytes += total_bytes;
            sum.max_bytes = sum.max_bytes.max(max_bytes);
        }
        sum
    }

    /// As [`Sim::scheme_state_bytes`].
    pub fn scheme_state_bytes(&self) -> usize {
        self.sims.iter().map(Sim::scheme_state_bytes).max().unwrap_or(0)
    }

    /// Packets in queues and on links now.
    pub fn packets_in_fabric(&self) -> usize {
        self.sims.iter().map(Sim::packets_in_fabric).sum()
    }

    /// Those of them in the control class.
    pub fn control_packets_in_fabric(&self) -> usize {
        self.sims.iter().map(Sim::control_packets_in_fabric).sum()
    }

    /// Fingerprint of the run so far: of one part its own, else that of all in their order.
    pub fn digest(&self) -> Digest {
        match &self.sims[..] {
            [only] => only.digest(),
            parts => parts.iter().fold(Digest::START, |mut digest, sim| {
                digest.mix(sim.digest().value());
                digest
            }),
        }
    }

    /// Whether nothing is left to happen.
    pub fn is_quiet(&self) -> bool {
        self.sims.iter().all(Sim::is_quiet)
    }
}

impl<H: Host + Send> Parts<H>
where
    H::World: Send,
{
    /// As [`Sim::run_events`]; of several parts, `most` is looked at after each window.
    pub fn run_events(&mut self, until: Instant, most: u64) -> bool {
        if let [whole] = &mut self.sims[..] {
            return whole.run_events(until, most);
        }
        let (parts, threads, before) = (self.sims.len(), self.threads, self.counters().events);
        let stop =
            Stop { until, events: before.saturating_add(most), lookahead_ns: self.partition.lookahead_ns().max(1) };
        let office = &Office::new(parts, threads);
        let (reached, windows) = std::thread::scope(|scope| {
            let mut rest = &mut self.sims[..];
            let mut mine = None;
            for thread in 0..threads {
                let (first, end) = (thread * parts / threads, (thread + 1) * parts / threads);
                let sims;
                (sims, rest) = std::mem::take(&mut rest).split_at_mut(end - first);
                match thread {
                    0 => mine = Some(sims),
                    _ => drop(scope.spawn(move || work(office, sims, (first, thread), stop))),
                }
            }
            work(office, mine.unwrap_or_default(), (0, 0), stop)
        });
        self.windows.count += windows.count;
        self.windows.critical += windows.critical;
        self.windows.events += self.counters().events - before;
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Clos;
    use crate::host::traffic::{Flow, Generator};
    use mrc_wire::PortNum;

    /// Every host sends to the one a leaf further, and the last of a leaf to host 0 as well.
    fn parts(count: u32, threads: usize) -> Parts<Generator> {
        let link = LinkSpec::new(100, 500);
        let clos = Clos { planes: 1, t0: 6, t1: 3, hosts: 24, host_link: link, fabric_link: link, ..Clos::default() };
        let topology = Topology::from(clos);
        let partition = Partition::new(&topology, count, |_| 500);
        let host = |host: u32| {
            let flow = |to: u32, t1: u8| Flow {
                // All at once: packets of several parts arrive in the same nanosecond.
                start: Instant::ZERO,
                port: PortNum::from_plane(0),
                dst: clos.path(0, host, t1, to),
                traffic_class: 4 << 2 | 0b10,
                wire_len: 1500,
                count: 200,
            };
            let far = flow((host + 4) % 24, (host % 3) as u8);
            let flows = if host % 4 == 3 && host > 4 { vec![far, flow(0, 1)] } else { vec![far] };
            Generator::new(flows).recording()
        };
        let worlds = vec![(); partition.parts()];
        Parts::new(&topology, 7, &partition, worlds, (0..24).map(host), threads).unwrap()
    }

    #[test]
    fn any_number_of_threads_gives_the_same_run() {
        for count in [2, 3, 6] {
            let run = |threads, slice| {
                let mut parts = parts(count, threads);
                parts.schedule(Instant::from_nanos(9_000), Fault::SwitchDown(6));
                parts.schedule(Instant::from_nanos(19_000), Fault::SwitchUp(6));
                while !parts.is_quiet() {
                    parts.run_events(Instant::from_nanos(1_000_000), slice);
                }
                let arrivals: Vec<_> = (0..24).map(|host| parts.host(host).arrivals().to_vec()).collect();
                (parts.digest(), parts.counters(), arrivals, parts.windows())
            };
            let one = run(1, u64::MAX);
            assert_eq!(one, run(2, u64::MAX), "{count} parts");
            assert_eq!(one, run(3, u64::MAX), "{count} parts");
            assert_eq!(one, run(2, 1_000), "{count} parts, and a call ends at a window's end");
            assert!(one.3.critical * u64::from(count) >= one.3.events && one.3.critical < one.3.events);
        }
    }

    #[test]
    fn parts_lose_nothing_and_keep_the_time_of_the_whole() {
        let last = |count| {
            let mut parts = parts(count, 2);
            assert!(parts.run_events(Instant::from_nanos(2_000_000), u64::MAX));
            assert!(parts.is_quiet() && parts.packets_in_fabric() == 0);
            let sums = parts.counters();
            assert_eq!(parts.now(), Instant::from_nanos(2_000_000));
            let dropped: u64 =
                (0..parts.topology().links() * 2).map(|id| parts.port_counters(PortId(id)).drop_data).sum();
            assert_eq!(sums.sent, sums.delivered + dropped);
            (sums.sent, sums.switch_hops + dropped * 3 >= sums.sent, parts.host(9).arrivals().last().map(|a| a.at))
        };
        let whole = last(1);
        assert_eq!(whole.0, 24 * 200 + 5 * 200);
        for count in [2, 3, 6] {
            // Host 9 has a path to itself: its last packet arrives at the same nanosecond.
            assert_eq!(last(count), whole, "{count} parts");
        }
    }
}
