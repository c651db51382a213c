//! A selector of the engine over a RoCE queue pair: each path is a UDP source port, by which switches hash. This is how
//! papers run host-based path selection over DCQCN and IRN (Hopper, section 4.1).
//!
//! What selectors go by: an acknowledgement repeats, in the BECN bit, whether what it answers was marked, and is timed
//! when it answers one transmission without doubt; probes go with the data and are answered at once. A hole that the
//! receiver reports says nothing about a path, since moving from one to another makes holes; a timeout does.

use std::collections::VecDeque;

use mrc_core::path::{EvEntry, EvIndex, EvSlot, Feedback, PathConfig, PathSet, Selector};
use mrc_core::{Instant, PortMask, Rng};
use mrc_wire::{Ev, PortNum, Psn, Verdict};

use super::{PSN_MASK, any_sport};
use crate::host::PathCounts;

/// How queue pairs choose paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RocePaths {
    /// The policy.
    pub selector: Selector,
    /// Its frame: how many paths, the round trip without load.
    pub cfg: PathConfig,
    /// A probe that nobody answered for so long is lost, in nanoseconds.
    pub probe_patience_ns: u64,
    /// Packets that leave on one path before the policy may choose another one; 1: it may with each.
    pub hold_packets: u32,
    /// A piece of `hold_packets` begins when the one before is acknowledged and no probe is out. Its time is the round trip that
    /// the policy sees.
    pub in_turn: bool,
    /// Congestion control begins anew on each path.
    pub rate_per_path: bool,
    /// Payload of a probe.
    pub probe_bytes: u32,
}

impl RocePaths {
    /// Bytes of state of a queue pair.
    pub(super) const fn state_bytes(&self) -> usize {
        self.selector.state_bytes(self.entries())
    }

    const fn entries(&self) -> usize {
        self.cfg.active as usize + self.cfg.backup as usize
    }
}

/// A packet that is not acknowledged.
#[derive(Clone, Copy, Debug)]
struct Flight {
    sent: Instant,
    path: EvIndex,
    /// Sent more than once: an acknowledgement does not say which one arrived.
    again: bool,
    /// Acknowledged by itself.
    seen: bool,
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    id: u32,
    path: EvIndex,
    sent: Instant,
}

/// The paths of one queue pair.
#[derive(Debug)]
pub(super) struct Paths {
    settings: RocePaths,
    set: PathSet,
    slots: Box<[EvSlot]>,
    order: Box<[u16]>,
    last: Option<EvIndex>,
    /// The path of the packets since the policy was asked, and how many packets may still follow on it.
    held: Option<(u16, EvIndex)>,
    hold_left: u32,
    /// When the first packet of the piece left.
    piece_since: Instant,
    /// Packets from `first` on.
    flights: VecDeque<Flight>,
    first: u64,
    probes: Vec<Probe>,
    next_probe: u32,
}

/// The path set knows one port: which one a queue pair leaves through is not its concern.
const PORT: PortNum = PortNum::from_plane(0);
const PORTS: PortMask = PortMask::NONE.with(PORT);

fn verdict(marked: bool) -> Verdict {
    if marked { Verdict::SkipOnce } else { Verdict::None }
}

impl Paths {
    pub(super) fn new(settings: &RocePaths, rng: &mut Rng) -> Self {
        let mut paths = Self {
            settings: *settings,
            set: PathSet::EMPTY,
            slots: vec![EvSlot::EMPTY; settings.entries()].into(),
            order: vec![0; settings.cfg.active.into()].into(),
            last: None,
            held: None,
            hold_left: 0,
            piece_since: Instant::ZERO,
            flights: VecDeque::new(),
            first: 0,
            probes: Vec::new(),
            next_probe: 0,
        };
        paths.begin(rng);
        paths
    }

    /// As a connection that begins: new source ports, nothing known of them.
    pub(super) fn begin(&mut self, rng: &mut Rng) {
        let RocePaths { selector, cfg, .. } = &self.settings;
        let entries: Vec<EvEntry> =
            self.slots.iter().map(|_| EvEntry::new(Ev::from_halves(0, any_sport(rng)), PORT)).collect();
        let started = self.set.start(&mut self.slots, &mut self.order, &entries, cfg, *selector, PORTS, rng);
        // The scenario has checked the knobs, and all entries are alike.
        debug_assert_eq!(started, Ok(()));
        (self.last, self.held, self.hold_left) = (None, None, 0);
        self.probes.clear();
    }

    /// The queue pair has data again.
    pub(super) fn on_busy(&mut self) {
        self.set.on_busy();
        if self.settings.in_turn && self.flights.is_empty() {
            self.hold_left = 0;
        }
    }

    /// The source port of the packet that leaves now, `again` or for the first time; `None`: not before [`Self::deadline`],
    /// unless an acknowledgement or the answer of a probe comes.
    pub(super) fn choose(&mut self, now: Instant, again: bool, rng: &mut Rng) -> Option<(u16, EvIndex)> {
        if self.hold_left > 0 && self.held.is_some() {
            return self.held;
        }
        if self.settings.in_turn && !(self.flights.is_empty() && self.probes.is_empty()) {
            return self.held.filter(|_| again);
        }
        let cfg = &self.settings.cfg;
        let choice = self.set.select(now, &mut self.slots, &mut self.order, PORTS, cfg, rng)?;
        self.held = Some((choice.ev.low(), choice.index));
        self.hold_left = self.settings.hold_packets;
        self.piece_since = now;
        self.held
    }

    /// Whether behind the packet that leaves now no new one may leave before an acknowledgement.
    pub(super) fn waits_behind_next(&self) -> bool {
        self.settings.in_turn && self.hold_left <= 1
    }

    /// Packet `psn` left on `path`; whether that is another one than before, of a policy that keeps to one.
    pub(super) fn on_send(&mut self, now: Instant, psn: u64, path: EvIndex) -> bool {
        if self.flights.is_empty() {
            self.first = psn;
        }
        match psn.checked_sub(self.first).and_then(|at| self.flights.get_mut(at as usize)) {
            Some(flight) => *flight = Flight { sent: now, path, again: true, ..*flight },
            None => self.flights.push_back(Flight { sent: now, path, again: false, seen: false }),
        }
        self.hold_left = self.hold_left.saturating_sub(1);
        let moved = self.last.is_some_and(|last| last != path);
        self.last = Some(path);
        moved && self.set.is_single_path()
    }

    /// All before `una` have arrived, and `seen`, which is behind a hole.
    pub(super) fn on_ack(&mut self, now: Instant, una: u64, seen: Option<u64>, marked: bool, rng: &mut Rng) {
        let end = self.first + self.flights.len() as u64;
        let newly = una.clamp(self.first, end) - self.first;
        let arrived = self.flights.iter().take(newly as usize);
        // Where a hole was filled, what filled it drew the acknowledgement, and not the last one before `una`.
        let trigger = match seen {
            Some(seen) => Some(seen),
            None if newly > 0 && arrived.clone().all(|flight| !flight.seen) => Some(una - 1),
            None => None,
        };
        let at = trigger.and_then(|psn| psn.checked_sub(self.first)).map(|at| at as usize);
        if let (Some(psn), Some(flight)) = (trigger, at.and_then(|at| self.flights.get_mut(at))) {
            flight.seen = true;
            let flight = *flight;
            if self.set.wants_rtt() && !flight.again && !self.settings.in_turn {
                let rtt_ns = now.as_nanos() - flight.sent.as_nanos();
                let behind = u16::try_from(end - 1 - psn).unwrap_or(u16::MAX);
                let psn = Psn::new((psn & PSN_MASK) as u32);
                self.tell(now, flight.path, Feedback::Rtt { rtt_ns, psn, behind }, rng);
            }
            self.tell(now, flight.path, Feedback::Sack(verdict(marked)), rng);
        }
        let last = self.flights.drain(..newly as usize).next_back();
        self.first += newly;
        if let Some(last) = last.filter(|_| self.settings.in_turn && self.hold_left == 0 && self.flights.is_empty()) {
            let rtt_ns = now.as_nanos() - self.piece_since.as_nanos();
            let psn = Psn::new(((una - 1) & PSN_MASK) as u32);
            self.tell(now, last.path, Feedback::Rtt { rtt_ns, psn, behind: 0 }, rng);
        }
    }

    /// Nothing was heard of the oldest packet for too long.
    pub(super) fn on_timeout(&mut self, now: Instant, rng: &mut Rng) {
        if let Some(flight) = self.flights.front().copied() {
            self.tell(now, flight.path, Feedback::Timeout, rng);
        }
    }

    /// The source port and the number of a probe that is wanted now.
    pub(super) fn poll_probe(&mut self, now: Instant) -> Option<(u16, u32)> {
        let idle = self.flights.is_empty();
        let choice = self.set.poll_probe(now, &mut self.slots, PORTS, &self.settings.cfg, idle)?;
        let id = self.next_probe;
        self.next_probe = (id + 1) & PSN_MASK as u32;
        self.probes.push(Probe { id, path: choice.index, sent: now });
        Some((choice.ev.low(), id))
    }

    /// Probe `id` was answered.
    pub(super) fn on_probe_answer(&mut self, now: Instant, id: u32, marked: bool, rng: &mut Rng) {
        let Some(at) = self.probes.iter().position(|probe| probe.id == id) else { return };
        let Probe { path, sent, .. } = self.probes.swap_remove(at);
        let rtt_ns = now.as_nanos() - sent.as_nanos();
        self.tell(now, path, Feedback::ProbeRtt { rtt_ns }, rng);
        self.tell(now, path, Feedback::ProbeAnswer(verdict(marked)), rng);
    }

    /// Gives up probes that were not answered in time.
    pub(super) fn expire(&mut self, now: Instant, rng: &mut Rng) {
        let patience = self.settings.probe_patience_ns;
        while let Some(at) = self.probes.iter().position(|probe| probe.sent.after(patience) <= now) {
            let Probe { path, .. } = self.probes.swap_remove(at);
            self.tell(now, path, Feedback::ProbeLost, rng);
        }
    }

    /// When to look again in any case: a probe is due or given up, or a pause is over. Later than now: what the set says may be
    /// early, and then a round trip passes.
    pub(super) fn deadline(&self, now: Instant) -> Instant {
        let given_up = self.probes.iter().map(|probe| probe.sent.after(self.settings.probe_patience_ns));
        let deadline = given_up.fold(self.set.next_timeout(), Instant::min);
        if deadline > now { deadline } else { self.soon(now) }
    }

    /// As [`Self::deadline`] for who was refused a path, and wants one.
    pub(super) fn retry_at(&self, now: Instant) -> Instant {
        self.deadline(now).min(self.soon(now))
    }

    fn soon(&self, now: Instant) -> Instant {
        now.after(self.settings.cfg.base_rtt_ns.max(1))
    }

    pub(super) fn counts(&self) -> PathCounts {
        let counts = self.set.counts();
        PathCounts { good: counts.good.into(), skip: counts.skip.into(), assumed_bad: counts.assumed_bad.into() }
    }

    fn tell(&mut self, now: Instant, path: EvIndex, what: Feedback, rng: &mut Rng) {
        self.set.on_feedback(now, &mut self.slots, &mut self.order, path, what, &self.settings.cfg, rng);
    }
}

#[cfg(test)]
mod tests {
    use mrc_core::path::{FlowBenderConfig, HopperConfig};

    use super::*;

    fn settings(selector: Selector, cfg: PathConfig) -> RocePaths {
        RocePaths {
            selector,
            cfg,
            probe_patience_ns: 100_000,
            hold_packets: 1,
            in_turn: false,
            rate_per_path: false,
            probe_bytes: 0,
        }
    }

    fn paths(selector: Selector) -> (Paths, Rng) {
        let cfg = PathConfig { active: 16, backup: 0, base_rtt_ns: 8_000, ..PathConfig::DEFAULT };
        let mut rng = Rng::new(7);
        (Paths::new(&settings(selector, cfg), &mut rng), rng)
    }

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1_000)
    }

    /// FlowBender, one epoch: an eighth of the acknowledgements marked is above 5 %, by the mark that they repeat.
    #[test]
    fn marks_in_acknowledgements_move_flow_bender() {
        for (marks, moves) in [(0, 0), (1, 1)] {
            let (mut paths, mut rng) = paths(Selector::FlowBender(FlowBenderConfig::DEFAULT));
            let mut switches = 0;
            for psn in 0..24 {
                let (_, path) = paths.choose(at(psn), false, &mut rng).unwrap();
                switches += u32::from(paths.on_send(at(psn), psn, path));
                if psn >= 8 {
                    let marked = marks > 0 && psn % 8 == 0;
                    paths.on_ack(at(psn), psn - 7, None, marked, &mut rng);
                }
            }
            assert!(switches.min(1) == moves, "{marks} marks: {switches} switches");
        }
    }

    /// Hopper's first congested round trip draws two probes on other source ports; the faster one is taken.
    #[test]
    fn hopper_probes_over_roce_and_takes_the_faster_path() {
        let cfg = HopperConfig { switch_delay_percent: 0, ..HopperConfig::DEFAULT };
        let (mut paths, mut rng) = paths(Selector::Hopper(cfg));
        let (own, path) = paths.choose(at(0), false, &mut rng).unwrap();
        paths.on_send(at(0), 0, path);
        paths.on_send(at(1), 1, path);
        assert_eq!(paths.poll_probe(at(1)), None, "nothing is congested");
        // 40 us are five round trips of 8 us, above 2.5.
        paths.on_ack(at(40), 1, None, false, &mut rng);
        let (first, id) = paths.poll_probe(at(40)).unwrap();
        let (second, other) = paths.poll_probe(at(40)).unwrap();
        assert!(first != own && second != own && first != second);
        assert_eq!(paths.poll_probe(at(40)), None);
        paths.on_probe_answer(at(50), other, false, &mut rng);
        paths.on_probe_answer(at(70), id, false, &mut rng);
        paths.on_ack(at(75), 2, None, false, &mut rng);
        let (now, path) = paths.choose(at(76), false, &mut rng).unwrap();
        assert_eq!(now, second, "10 us beat 30 us");
        assert!(paths.on_send(at(76), 2, path), "and that is a switch");
    }

    /// By hand: packet 0 is sent again; 1 fills no hole; 3 arrives before 2.
    #[test]
    fn only_an_acknowledgement_of_one_transmission_is_timed() {
        let (mut paths, mut rng) = paths(Selector::Hopper(HopperConfig::DEFAULT));
        let send = |paths: &mut Paths, rng: &mut Rng, us, psn| {
            let (_, path) = paths.choose(at(us), false, rng).unwrap();
            paths.on_send(at(us), psn, path);
        };
        let congested = |paths: &mut Paths, us| paths.poll_probe(at(us)).is_some();
        for (us, psn) in [(0, 0), (1, 1), (2, 2), (3, 3), (5, 0)] {
            send(&mut paths, &mut rng, us, psn);
        }
        paths.on_ack(at(31), 1, None, false, &mut rng);
        assert!(!congested(&mut paths, 31), "packet 0 left twice: 31 us or 26 us");
        paths.on_ack(at(32), 1, Some(3), false, &mut rng);
        assert!(congested(&mut paths, 32), "29 us of packet 3");
        let _ = paths.poll_probe(at(32));
        let (mut fresh, mut rng) = self::paths(Selector::Hopper(HopperConfig::DEFAULT));
        for (us, psn) in [(0, 0), (1, 1), (20, 2)] {
            send(&mut fresh, &mut rng, us, psn);
        }
        fresh.on_ack(at(21), 0, Some(2), false, &mut rng);
        fresh.on_ack(at(60), 3, None, false, &mut rng);
        assert!(!congested(&mut fresh, 60), "what filled the hole before 2 is not known");
        assert_eq!((fresh.first, fresh.flights.len()), (3, 0));
    }

    #[test]
    fn probes_are_given_up_and_timeouts_leave_the_path() {
        let (mut paths, mut rng) = paths(Selector::FlowBender(FlowBenderConfig::DEFAULT));
        let (own, path) = paths.choose(at(0), false, &mut rng).unwrap();
        paths.on_send(at(0), 0, path);
        paths.on_timeout(at(400), &mut rng);
        let (next, path) = paths.choose(at(401), false, &mut rng).unwrap();
        assert_ne!(own, next);
        assert!(paths.on_send(at(401), 0, path));
        assert_eq!(paths.counts().assumed_bad, 1);
        let due = paths.deadline(at(401));
        assert!(due > at(401) && due < Instant::FAR, "the bad path is probed");
        assert_eq!(paths.poll_probe(due).map(|probe| probe.0), Some(own));
        assert!(paths.deadline(due) <= due.after(100_000) && paths.deadline(Instant::FAR) == Instant::FAR);
        assert_eq!(paths.deadline(due.after(200_000)), due.after(208_000), "never at once");
        paths.expire(due.after(100_000), &mut rng);
        assert!(paths.probes.is_empty());
    }

    /// FlowBender wants to move after the first epoch of marks; the queue pair does with the next piece of sixteen packets.
    #[test]
    fn a_path_is_held_for_a_piece() {
        for (hold_packets, expect) in [(1, vec![9, 17, 25]), (16, vec![16])] {
            let (mut paths, mut rng) = paths(Selector::FlowBender(FlowBenderConfig::DEFAULT));
            paths.settings.hold_packets = hold_packets;
            let mut moves = Vec::new();
            for psn in 0..32 {
                let (_, path) = paths.choose(at(psn), false, &mut rng).unwrap();
                if paths.on_send(at(psn), psn, path) {
                    moves.push(psn);
                }
                paths.on_ack(at(psn), psn + 1, None, true, &mut rng);
            }
            assert_eq!(moves, expect, "held for {hold_packets}");
        }
    }

    /// Pieces of four packets in turn, by hand: the second one waits for the acknowledgement of the first and for the probes that
    /// its time of 40 us draws, five times that of an idle path; a retransmission does not wait.
    #[test]
    fn pieces_in_turn_wait_for_acknowledgements_and_probes() {
        let cfg = HopperConfig { switch_delay_percent: 0, ..HopperConfig::DEFAULT };
        let (mut paths, mut rng) = paths(Selector::Hopper(cfg));
        (paths.settings.hold_packets, paths.settings.in_turn) = (4, true);
        let mut own = None;
        for psn in 0..4 {
            let (sport, path) = paths.choose(at(psn), false, &mut rng).unwrap();
            assert_eq!(*own.get_or_insert(sport), sport);
            paths.on_send(at(psn), psn, path);
        }
        assert_eq!(paths.choose(at(4), false, &mut rng), None, "the piece is out");
        assert_eq!(
            paths.choose(at(4), true, &mut rng).map(|(sport, _)| sport),
            own,
            "a retransmission stays on its path"
        );
        paths.on_ack(at(30), 3, None, false, &mut rng);
        assert_eq!(paths.poll_probe(at(30)), None, "30 us of a packet are not those of a piece");
        paths.on_ack(at(40), 4, None, false, &mut rng);
        let probes = [paths.poll_probe(at(40)).unwrap(), paths.poll_probe(at(40)).unwrap()];
        assert_eq!(paths.choose(at(41), false, &mut rng), None, "probes are out");
        paths.on_probe_answer(at(50), probes[1].1, false, &mut rng);
        assert_eq!(paths.choose(at(51), false, &mut rng), None, "one probe is out");
        paths.on_probe_answer(at(70), probes[0].1, false, &mut rng);
        assert_eq!(
            paths.choose(at(71), false, &mut rng).map(|(sport, _)| sport),
            Some(probes[1].0),
            "10 us beat 30 us"
        );
    }
}
