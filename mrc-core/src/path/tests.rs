//! The path set as the engine sees it: examples of each rule; `properties` plays random sequences.

mod after_nack;
mod again;
mod properties;

use std::{collections::BTreeSet, vec, vec::Vec};

use mrc_wire::{Ev, PortNum, Verdict};

use super::*;
use crate::rng::Rng;

const MS: u64 = 1_000_000;
const ALL: PortMask = PortMask::ALL;
const GOOD_ANSWER: Feedback = Feedback::ProbeAnswer(Verdict::None);
const MARK: Feedback = Feedback::Sack(Verdict::SkipOnce);

/// A path set with the storage that a QP would lend.
struct Qp {
    set: PathSet,
    slots: Vec<EvSlot>,
    order: Vec<u16>,
    cfg: PathConfig,
    rng: Rng,
    now: Instant,
}

impl Qp {
    fn with(selector: Selector, entries: &[EvEntry], cfg: PathConfig, seed: u64) -> Self {
        let mut qp = Self {
            set: PathSet::EMPTY,
            slots: vec![EvSlot::EMPTY; entries.len()],
            order: vec![0; cfg.active as usize],
            cfg,
            rng: Rng::new(seed),
            now: Instant::from_nanos(seed % 1_000_000_007),
        };
        qp.start(selector, entries, ALL).unwrap();
        qp
    }

    /// `planes` planes, each with so many active and backup EVs.
    fn spray(planes: u8, active: u16, backup: u16, tune: impl FnOnce(&mut PathConfig)) -> Self {
        let (p, mut cfg) = (planes as u16, PathConfig::default());
        (cfg.active, cfg.backup) = (active * p, backup * p);
        tune(&mut cfg);
        Self::with(Selector::Spray, &profile(planes, (active + backup) * p), cfg, 42)
    }

    fn start(&mut self, selector: Selector, entries: &[EvEntry], ports: PortMask) -> Result<(), PathError> {
        self.set.start(&mut self.slots, &mut self.order, entries, &self.cfg, selector, ports, &mut self.rng)
    }

    fn select(&mut self, ports: PortMask) -> Option<Choice> {
        self.set.select(self.now, &mut self.slots, &mut self.order, ports, &self.cfg, &mut self.rng)
    }

    fn select_other(&mut self, avoid: Ev) -> Option<Choice> {
        self.set.select_other(self.now, &mut self.slots, &mut self.order, ALL, avoid, &self.cfg, &mut self.rng)
    }

    fn feed(&mut self, index: EvIndex, what: Feedback) -> Option<Transition> {
        self.set.on_feedback(self.now, &mut self.slots, &mut self.order, index, what, &self.cfg, &mut self.rng)
    }

    fn poll(&mut self, ports: PortMask, idle: bool) -> Option<Choice> {
        self.set.poll_probe(self.now, &mut self.slots, ports, &self.cfg, idle)
    }

    fn deny(&mut self, index: EvIndex) -> Option<Transition> {
        self.set.set_denied(&mut self.slots, &mut self.order, index, &mut self.rng).unwrap()
    }

    fn allow(&mut self, index: EvIndex) -> Option<Transition> {
        self.set.set_good(&mut self.slots, &mut self.order, index, &mut self.rng).unwrap()
    }

    fn state(&self, index: EvIndex) -> EvState {
        self.slots[index.0 as usize].state()
    }

    fn indices(&self, wanted: impl Fn(&EvSlot) -> bool) -> Vec<EvIndex> {
        let used = self.slots.iter().take(self.set.universe());
        (0..).zip(used).filter(|(_, slot)| wanted(slot)).map(|(i, _)| EvIndex(i)).collect()
    }

    fn sleep(&mut self, ns: u64) {
        self.now = self.now.after(ns);
    }

    /// Invariants of `paths.md` 6, from the slots alone.
    fn check(&self, planes: u8, quota: usize) {
        let active = self.indices(EvSlot::is_active);
        let order: BTreeSet<u16> = self.order[..active.len()].iter().copied().collect();
        assert_eq!(order, active.iter().map(|i| i.0).collect(), "order holds the active EVs, each once");
        let counts = self.set.counts();
        let of = |state| self.indices(|slot| slot.state() == state).len() as u16;
        assert_eq!(counts.good, of(EvState::Good));
        assert_eq!(counts.skip, of(EvState::Skip));
        assert_eq!(counts.assumed_bad, of(EvState::AssumedBad));
        assert_eq!(counts.denied, of(EvState::Denied));
        assert_eq!(counts.active as usize, active.len());
        for plane in 0..planes {
            let port = PortNum::from_plane(plane);
            let here = |wanted: &dyn Fn(&EvSlot) -> bool| self.indices(|s| s.port() == port && wanted(s)).len();
            let healthy = here(&EvSlot::is_healthy);
            assert_eq!(here(&EvSlot::is_active), quota.min(healthy), "active EVs of plane {plane}");
            assert_eq!(here(&|s| s.is_active() && !s.is_healthy()), 0, "bad EV in rotation");
            let bad = here(&|s| s.state() == EvState::AssumedBad);
            assert_eq!(counts.suspended_planes.contains(port), healthy == 0 && bad > 0);
        }
        let probing = self.indices(EvSlot::is_probing);
        assert!(probing.iter().all(|&i| self.state(i) == EvState::AssumedBad));
        assert!(probing.len() <= self.cfg.bad_probes_outstanding as usize);
    }
}

fn profile(planes: u8, len: u16) -> Vec<EvEntry> {
    let mut entries = vec![EvEntry::EMPTY; len as usize];
    auto_profile(&mut entries, planes, 16, 7).unwrap();
    entries
}

mod balance;
mod limits;
mod probes;
mod skips;
mod streak;

// Start, paths.md 5.

//= SET-001, SET-002, BAL-001 test
#[test]
fn the_default_start_is_balanced_and_random() {
    let entries = profile(4, 256);
    let qps: Vec<Qp> = (0..2).map(|seed| Qp::with(Selector::Spray, &entries, PathConfig::default(), seed)).collect();
    for qp in &qps {
        qp.check(4, 32);
        assert_eq!(qp.set.universe(), 192);
        for plane in 0..4 {
            assert_eq!(qp.indices(|slot| slot.plane() == plane).len(), 48);
        }
        let drawn: BTreeSet<u16> = qp.slots[..192].iter().map(EvSlot::entry).collect();
        assert_eq!(drawn.len(), 192, "no entry twice");
        for slot in &qp.slots[..192] {
            let entry = entries[slot.entry() as usize];
            assert_eq!((slot.ev(), slot.port()), (entry.ev, entry.port));
        }
    }
    let drawn = |qp: &Qp| qp.slots.iter().map(EvSlot::entry).collect::<Vec<_>>();
    assert_ne!(drawn(&qps[0]), drawn(&qps[1]));
}

//= SET-003, SET-005, DENY-001, EV-015 test
#[test]
fn denied_and_unreachable_entries_are_left_out() {
    let mut entries = profile(4, 64);
    for entry in entries.iter_mut().step_by(3) {
        entry.denied = true;
    }
    let mut qp = Qp::with(Selector::Spray, &entries, PathConfig::default(), 1);
    let three = PortMask::first(3);
    qp.start(Selector::Spray, &entries, three).unwrap();
    assert_eq!(qp.set.counts().denied, 16, "kept for the day they are allowed");
    for _ in 0..500 {
        let choice = qp.select(ALL).unwrap();
        assert!(three.contains(choice.port) && !entries[choice.entry as usize].denied);
    }
}

#[test]
fn a_start_that_cannot_work_says_why() {
    let entries = profile(4, 8);
    let mut qp = Qp::with(Selector::Spray, &entries, PathConfig::default(), 1);
    let lone = PortMask::NONE.with(PortNum::from_plane(5));
    assert_eq!(qp.start(Selector::Spray, &entries, lone), Err(PathError::NoUsableEv));
    assert_eq!(qp.select(ALL), None);
    assert_eq!(qp.start(Selector::Spray, &[EvEntry::EMPTY; 4], ALL), Err(PathError::NoUsableEv));
    let pinned = Selector::Pinned(EvIndex(8));
    assert_eq!(qp.start(pinned, &entries, ALL), Err(PathError::PinnedEv(EvIndex(8))));
    qp.order.truncate(3);
    assert_eq!(qp.start(Selector::Spray, &entries, ALL), Err(PathError::StorageTooSmall { need: 4 }));
    assert_eq!(
        qp.set.set_good(&mut qp.slots, &mut qp.order, EvIndex(0), &mut qp.rng),
        Err(PathError::UnknownEv(EvIndex(0)))
    );
}

#[test]
fn small_storage_bounds_the_set() {
    let entries = profile(2, 64);
    let mut qp = Qp::with(Selector::Spray, &entries, PathConfig::default(), 1);
    qp.slots.truncate(11);
    qp.order.truncate(7);
    qp.start(Selector::Spray, &entries, ALL).unwrap();
    qp.check(2, 3);
    assert_eq!(qp.set.universe(), 10);
}

// Selection, paths.md 8.

//= SEL-001 test
#[test]
fn each_pass_visits_every_active_ev_once_in_a_new_order() {
    let mut qp = Qp::spray(4, 8, 4, |_| {});
    let mut passes = BTreeSet::new();
    for _ in 0..20 {
        let pass: Vec<u16> = (0..32).map(|_| qp.select(ALL).unwrap().index.0).collect();
        assert_eq!(pass.iter().collect::<BTreeSet<_>>().len(), 32);
        passes.insert(pass);
    }
    assert_eq!(passes.len(), 20);
}

//= SEL-002, SEL-007 test
#[test]
fn only_free_ports_are_chosen() {
    let mut qp = Qp::spray(4, 8, 4, |_| {});
    let port = PortNum::from_plane(2);
    for _ in 0..100 {
        assert_eq!(qp.select(PortMask::NONE.with(port)).unwrap().port, port);
    }
    assert_eq!(qp.select(PortMask::NONE), None);
    assert_eq!(qp.select(PortMask::NONE.with(PortNum::from_plane(6))), None);
}

#[test]
fn the_echoed_ev_is_avoided_if_there_is_another() {
    let mut qp = Qp::spray(1, 4, 0, |_| {});
    for _ in 0..100 {
        let avoid = qp.select(ALL).unwrap().ev;
        assert_ne!(qp.select_other(avoid).unwrap().ev, avoid);
    }
    let mut lone = Qp::spray(1, 1, 0, |_| {});
    let only = lone.select(ALL).unwrap();
    assert_eq!(lone.select_other(only.ev), Some(only));
}

//= SEL-005 test
#[test]
fn the_last_resort_sends_one_packet_per_rtt_on_a_bad_ev() {
    let mut qp = Qp::spray(2, 2, 0, |cfg| cfg.ev_min_active = 0);
    let denied = qp.indices(|_| true)[0];
    qp.deny(denied);
    for index in qp.indices(|_| true) {
        qp.feed(index, Feedback::Timeout);
    }
    qp.check(2, 2);
    let first = qp.select(ALL).unwrap();
    assert_eq!(qp.state(first.index), EvState::AssumedBad);
    let expect = qp.now.after(qp.cfg.base_rtt_ns);
    for _ in 0..10 {
        assert_eq!(qp.select(ALL), None);
    }
    assert_eq!(qp.set.next_timeout(), expect, "the wait is announced");
    for _ in 0..50 {
        qp.sleep(qp.cfg.base_rtt_ns);
        let choice = qp.select(PortMask::NONE.with(first.port)).unwrap();
        assert_ne!(choice.index, denied);
        assert_eq!(choice.port, first.port);
    }
    qp.cfg.last_resort = false;
    qp.sleep(MS);
    assert_eq!(qp.select(ALL), None);
}

#[test]
fn busy_ports_are_no_last_resort_but_dead_ones_are() {
    let mut qp = Qp::spray(2, 2, 0, |_| {});
    let (a, b) = (PortMask::NONE.with(PortNum::from_plane(0)), PortMask::NONE.with(PortNum::from_plane(1)));
    for index in qp.indices(|slot| slot.plane() == 0) {
        qp.feed(index, Feedback::Timeout);
    }
    assert_eq!(qp.set.counts().suspended_planes, a);
    assert_eq!(qp.select(a), None, "plane b is busy, not gone");
    qp.set.set_usable_ports(a);
    assert!(qp.select(a).is_some(), "plane b is down");
    qp.set.set_usable_ports(ALL);
    assert!(qp.select(b).is_some());
}

// Invariants, paths.md 6.

//= BAL-001, BAL-003, EV-016 test
#[test]
fn a_retired_ev_is_replaced_from_its_own_plane() {
    let mut qp = Qp::spray(4, 8, 4, |_| {});
    let mut retired = Vec::new();
    for _ in 0..4 {
        let victim = qp.indices(|slot| slot.plane() == 1 && slot.is_active())[0];
        assert_eq!(qp.feed(victim, Feedback::Timeout).unwrap().to, EvState::AssumedBad);
        retired.push(victim);
        qp.check(4, 8);
        assert_eq!(qp.set.counts().active, 32, "balance holds while there are backups");
    }
    for _ in 0..200 {
        assert!(!retired.contains(&qp.select(ALL).unwrap().index));
    }
}

#[test]
fn a_retirement_disturbs_no_other_ev_of_the_pass() {
    for (seen, nth) in (1..16).flat_map(|seen| (0..16).map(move |nth| (seen, nth))) {
        let mut qp = Qp::spray(1, 16, 0, |_| {});
        let mut pass: Vec<EvIndex> = (0..seen).map(|_| qp.select(ALL).unwrap().index).collect();
        let victim = EvIndex(qp.order[nth]);
        qp.feed(victim, Feedback::Timeout);
        let rest = if pass.contains(&victim) { 16 - seen } else { 15 - seen };
        pass.extend((0..rest).map(|_| qp.select(ALL).unwrap().index));
        pass.push(victim);
        pass.sort();
        pass.dedup();
        assert_eq!(pass.len(), 16, "each of the others once: {seen} seen, number {nth} retired");
    }
}

//= BAL-002 test
#[test]
fn the_last_evs_are_skipped_instead_of_retired() {
    let mut qp = Qp::spray(1, 4, 2, |cfg| cfg.ev_min_active = 3);
    for index in qp.indices(|_| true) {
        qp.feed(index, Feedback::Timeout);
    }
    let counts = qp.set.counts();
    assert_eq!((counts.active, counts.assumed_bad, counts.skip), (3, 3, 3));
    qp.check(1, 4);
    assert!(qp.select(ALL).is_some());
}

//= BAL-006, RES-001 test
#[test]
fn a_dead_plane_is_suspended_and_returns_with_a_probe() {
    let mut qp = Qp::spray(4, 8, 4, |_| {});
    let dead = qp.indices(|slot| slot.plane() == 3);
    for &index in &dead {
        qp.feed(index, Feedback::Timeout);
    }
    let port = PortNum::from_plane(3);
    assert_eq!(qp.set.counts().suspended_planes, PortMask::NONE.with(port));
    assert_eq!(qp.set.counts().active, 24, "the others stay balanced");
    for _ in 0..100 {
        assert_ne!(qp.select(ALL).unwrap().port, port);
    }
    for _ in 0..100 {
        assert_eq!(qp.feed(dead[0], Feedback::Sack(Verdict::None)), None, "data feedback revives nothing");
    }
    assert_eq!(qp.feed(dead[0], GOOD_ANSWER).unwrap().to, EvState::Good);
    assert_eq!(qp.set.counts().suspended_planes, PortMask::NONE);
    assert!((0..100).any(|_| qp.select(ALL).unwrap().port == port));
    for &index in &dead {
        qp.feed(index, GOOD_ANSWER);
    }
    qp.check(4, 8);
    assert_eq!(qp.set.counts().active, 32);
}

//= BAL-005, EV-014 test
#[test]
fn only_the_controller_moves_denied_evs() {
    let mut qp = Qp::spray(2, 4, 0, |_| {});
    let index = qp.indices(|_| true)[0];
    assert_eq!(qp.deny(index).unwrap().to, EvState::Denied);
    assert_eq!(qp.deny(index), None);
    for what in [GOOD_ANSWER, Feedback::Timeout, MARK, Feedback::ProbeLost, Feedback::Trimmed] {
        assert_eq!(qp.feed(index, what), None);
    }
    for _ in 0..100 {
        assert_ne!(qp.select(ALL).unwrap().index, index);
    }
    assert_eq!(qp.allow(index).unwrap().to, EvState::Good);
    qp.check(2, 4);
}

//= EV-018, EV-019 test
#[test]
fn echoes_find_their_slot() {
    let mut qp = Qp::spray(2, 4, 2, |_| {});
    for index in qp.indices(|_| true) {
        let ev = qp.slots[index.0 as usize].ev();
        assert_eq!(qp.set.find(&qp.slots, None, ev), Some(index));
        assert_eq!(qp.set.find(&qp.slots, Some(EvIndex(999)), ev), Some(index));
    }
    assert_eq!(qp.set.find(&qp.slots, Some(EvIndex(0)), Ev(0xFFFF_0000)), None);
    // Two planes may use the same value: the hint decides.
    qp.slots[5].ev = qp.slots[0].ev;
    assert_eq!(qp.set.find(&qp.slots, Some(EvIndex(5)), qp.slots[0].ev), Some(EvIndex(5)));
}

// The selectors that do not listen.

//= OBL-001 test
#[test]
fn the_oblivious_never_react() {
    let cfg = PathConfig { active: 32, ..PathConfig::default() };
    let mut qp = Qp::with(Selector::Oblivious, &profile(4, 32), cfg, 3);
    for index in qp.indices(|_| true) {
        assert_eq!(qp.feed(index, Feedback::Timeout), None);
    }
    let pass: BTreeSet<u16> = (0..32).map(|_| qp.select(ALL).unwrap().index.0).collect();
    assert_eq!(pass.len(), 32);
    qp.sleep(100 * MS);
    assert_eq!((qp.poll(ALL, false), qp.set.next_timeout()), (None, Instant::FAR));
    let denied = EvIndex(*pass.first().unwrap());
    qp.deny(denied);
    assert!((0..100).all(|_| qp.select(ALL).unwrap().index != denied));
}

//= PIN-001 test
#[test]
fn the_pinned_stay_on_one_path() {
    let entries = profile(4, 32);
    let mut qp = Qp::with(Selector::Pinned(EvIndex(5)), &entries, PathConfig::default(), 3);
    let choice = qp.select(ALL).unwrap();
    assert_eq!((choice.ev, choice.port, choice.entry), (entries[5].ev, entries[5].port, 5));
    qp.feed(choice.index, Feedback::Timeout);
    assert_eq!(qp.select_other(choice.ev), Some(choice));
    assert_eq!(qp.select(ALL.without(choice.port)), None);
    qp.deny(choice.index);
    assert_eq!(qp.select(ALL), None);
    qp.allow(choice.index);
    assert_eq!(qp.select(ALL), Some(choice));
}

#[test]
fn the_evs_of_the_next_packets_are_read_ahead() {
    /// Where what is read lies.
    #[derive(Default)]
    struct Read(core::cell::RefCell<Vec<usize>>);

    impl crate::Prefetch for Read {
        fn prefetch<T: Copy>(&self, word: &T) {
            self.0.borrow_mut().push(core::ptr::from_ref(word).addr());
        }
    }

    let mut qp = Qp::spray(2, 64, 0, |_| {});
    let mut right = 0;
    for _ in 0..200 {
        let (read, order, selected) = (Read::default(), Read::default(), Read::default());
        qp.set.fetch_order(&qp.order, 4, &mut { qp.rng }, &order);
        qp.set.fetch_evs(&qp.slots, &qp.order, 4, &mut { qp.rng }, &read);
        assert!(order.0.take().iter().all(|at| qp.order.as_ptr_range().contains(&(*at as *const u16))));
        for _ in 0..4 {
            qp.select(ALL).into_iter().for_each(|at| qp.slots[at.index.0 as usize].fetch(&selected));
        }
        right += u32::from(read.0.take() == selected.0.take());
    }
    assert!(right > 150, "{right} of 200: only choices that swap each other's places are others");
}

/// Who may want a probe sooner once there is data says so: then the timer is asked for its deadline.
#[test]
fn a_queue_pair_that_has_data_again_may_have_an_earlier_deadline() {
    let mut spray = Qp::spray(1, 4, 2, |_| {});
    assert!(!spray.set.on_busy(), "no EV is bad");
    let hopper = Selector::Hopper(HopperConfig::default());
    let mut hopper = Qp::with(hopper, &profile(1, 4), PathConfig { active: 4, ..PathConfig::default() }, 1);
    assert!(hopper.set.on_busy());
}
