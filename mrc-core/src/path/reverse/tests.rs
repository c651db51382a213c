extern crate std;
use std::{vec, vec::Vec};

use super::*;
use crate::path::auto_profile;

fn started(seed: u64) -> (Vec<EvEntry>, ReverseSet, Rng) {
    let mut entries = vec![EvEntry::EMPTY; 64];
    auto_profile(&mut entries, 4, 16, seed).unwrap();
    let (mut set, mut rng) = (ReverseSet::new(), Rng::new(seed));
    set.start(&entries, PortMask::ALL, &mut rng);
    (entries, set, rng)
}

//= REV-001, REV-004 test
#[test]
fn control_packets_take_the_planes_in_turn() {
    let (_, mut set, _) = started(1);
    let ports: Vec<u8> = (0..8).map(|_| set.pick(PortMask::ALL).unwrap().port.value()).collect();
    for pair in ports.windows(2) {
        assert_eq!(pair[1], pair[0] % 4 + 1, "{ports:?}");
    }
    let two = PortMask::NONE.with(PortNum::from_plane(1));
    assert_eq!(set.pick(two).unwrap().port.value(), 2);
    assert_eq!(set.pick(PortMask::NONE), None);
    assert_eq!(ReverseSet::new().pick(PortMask::ALL), None);
}

/// Queue pairs that start together take planes at random, each as likely as the others.
#[test]
fn the_first_plane_is_drawn() {
    let mut firsts = [0; 4];
    for seed in 0..400 {
        let (_, mut set, _) = started(seed);
        firsts[usize::from(set.pick(PortMask::ALL).unwrap().port.plane())] += 1;
    }
    assert!(firsts.iter().all(|n| (60..140).contains(n)), "{firsts:?}");
}

/// Where no probe can leave, the next one is due a round trip later.
//= REV-003 test
#[test]
fn a_probe_that_cannot_leave_is_put_off() {
    let (_, mut set, _) = started(1);
    set.on_data_received();
    assert!(set.is_due(Instant::ZERO) && !set.rests(Instant::ZERO));
    let now = Instant::from_nanos(1_000);
    set.postpone(now, 10_000);
    assert!(!set.is_due(now.after(9_999)) && set.rests(now.after(9_999)));
    assert!(set.is_due(now.after(10_000)) && !set.rests(now.after(10_000)));
}

/// A longer round trip of the probes counts at once, of a shorter one half the difference.
#[test]
fn the_round_trip_of_probes_rises_at_once_and_falls_by_halves() {
    let (_, mut set, _) = started(1);
    let path = set.pick(PortMask::ALL).unwrap();
    for (measured, told) in [(40_000, 40_000), (100_000, 100_000), (20_000, 60_000), (20_000, 40_000), (41_000, 41_000)]
    {
        set.on_probe_answered(path, measured);
        assert_eq!(set.rtt_ns(), told);
    }
}

//= REV-008 test
#[test]
fn no_two_answers_take_an_ev_that_nothing_vouched_for() {
    let (entries, mut set, mut rng) = started(6);
    let only = PortMask::NONE.with(PortNum::from_plane(1));
    let mut answer = |set: &mut ReverseSet| set.pick_answer(only, &entries, &mut rng).unwrap();
    let mut last = answer(&mut set);
    for _ in 0..32 {
        let next = answer(&mut set);
        assert_ne!(next.ev, last.ev);
        assert_eq!(next.port, last.port);
        last = next;
    }
    set.learn(last);
    assert_eq!(answer(&mut set), last, "vouched for");
    assert_ne!(answer(&mut set), last, "once");
}

//= DENY-001 test
#[test]
fn denied_entries_carry_no_control_packets() {
    let (mut entries, mut set, mut rng) = started(2);
    for entry in entries.iter_mut().filter(|e| e.port.plane() == 2) {
        entry.denied = true;
    }
    set.start(&entries, PortMask::ALL, &mut rng);
    for _ in 0..32 {
        assert_ne!(set.pick(PortMask::ALL).unwrap().port.plane(), 2);
    }
}

/// A plane whose EVs are all denied carries no control packets until one of them is allowed: that one does then.
//= REV-001, DENY-001 test
#[test]
fn a_plane_whose_ev_is_allowed_again_carries_control_packets_again() {
    let (mut entries, mut set, mut rng) = started(2);
    let port = PortNum::from_plane(2);
    let of_plane = |entry: &EvEntry| entry.port == port;
    let turn = |set: &mut ReverseSet| (0..4).filter(|_| set.pick(PortMask::ALL).unwrap().port == port).count();
    entries.iter_mut().filter(|entry| of_plane(entry)).for_each(|entry| entry.denied = true);
    set.heed_denylist(&entries, None, &mut rng);
    assert_eq!((turn(&mut set), set.on(port)), (0, None));
    let ev = {
        let entry = entries.iter_mut().filter(|entry| of_plane(entry)).nth(5).unwrap();
        entry.denied = false;
        entry.ev
    };
    set.heed_denylist(&entries, Some(PortNum::from_plane(1)), &mut rng);
    assert_eq!(set.on(port), None, "of another plane");
    set.heed_denylist(&entries, Some(port), &mut rng);
    assert_eq!((turn(&mut set), set.on(port).unwrap().ev), (1, ev));
    let before = set.on(port);
    set.heed_denylist(&entries, Some(port), &mut rng);
    assert_eq!(set.on(port), before, "who has an EV keeps it");
}

#[test]
fn data_teaches_the_plane_of_its_ev() {
    let (entries, mut set, _) = started(3);
    let entry = entries[9];
    let choice = Choice { ev: entry.ev, index: EvIndex(5), entry: 9, port: entry.port };
    set.learn(choice);
    assert_eq!(set.pick(PortMask::NONE.with(entry.port)), Some(choice));
}

//= REV-003 test
#[test]
fn probes_go_out_once_per_rtt_and_only_for_a_silent_receiver() {
    let (entries, mut set, mut rng) = started(4);
    let (rtt, ports) = (1000, PortMask::ALL);
    let at = Instant::from_nanos;
    let mut poll = |set: &mut ReverseSet, ns| set.poll_probe(at(ns), &entries, ports, rtt, &mut rng).is_some();
    assert!(!poll(&mut set, 0), "nothing received");
    set.on_data_received();
    assert!(poll(&mut set, 1));
    set.on_data_received();
    assert!(!poll(&mut set, 1000), "too early");
    assert!(poll(&mut set, 1001));
    set.on_data_received();
    set.on_data_sent();
    assert!(!poll(&mut set, 5000), "own data teaches more");
    assert!(!poll(&mut set, 9000), "nothing received since");
}

//= REV-005 test
#[test]
fn three_lost_probes_change_the_ev_and_an_answer_makes_it_current() {
    let (entries, mut set, mut rng) = started(5);
    let port = PortNum::from_plane(0);
    let only = PortMask::NONE.with(port);
    let mut now = Instant::ZERO;
    let mut probe = |set: &mut ReverseSet, rng: &mut Rng| {
        now = now.after(1000);
        set.on_data_received();
        set.poll_probe(now, &entries, only, 1000, rng).unwrap()
    };
    let first = probe(&mut set, &mut rng);
    assert_eq!(set.pick(only), Some(first), "the EV in use is tested first");
    let mut tested = first;
    for lost in 1..=30 {
        set.on_probe_lost(port, tested.ev, &entries, false, &mut rng);
        let next = probe(&mut set, &mut rng);
        assert_eq!(next == tested, lost % 3 != 0, "after {lost}");
        assert_eq!(set.pick(only), Some(next));
        tested = next;
    }
    set.on_probe_answered(tested, 50_000);
    let fresh = probe(&mut set, &mut rng);
    set.on_probe_answered(fresh, 50_000);
    assert_eq!(set.pick(only), Some(fresh));
}

#[test]
fn what_a_received_packet_says_of_its_plane_is_read_ahead() {
    let ((_, set, _), asked) = (started(1), crate::prefetch::Asked::default());
    set.fetch(&asked);
    assert_eq!((asked.within(&set.probe_at), asked.within(&set.planes)), (1, 1));
}

/// Whatever gave a plane its EV, the cleared set is an empty one.
#[test]
fn a_cleared_set_is_empty() {
    let port = PortNum::from_plane(3);
    let entry = EvEntry::new(Ev(7), port);
    let (entries, rng) = ([entry; 2], &mut Rng::new(1));
    let choice = Choice { ev: entry.ev, index: EvIndex::NONE, entry: 0, port };
    let mut sets = [const { ReverseSet::EMPTY }; 3];
    let [started, allowed, learned] = &mut sets;
    started.start(&entries, PortMask::ALL, rng);
    allowed.heed_denylist(&entries, Some(port), rng);
    learned.learn(choice);
    for set in &mut sets {
        assert_eq!(set.on(port).map(|choice| choice.ev), Some(entry.ev));
        set.clear();
        assert_eq!(std::format!("{set:?}"), std::format!("{:?}", ReverseSet::EMPTY));
    }
}
