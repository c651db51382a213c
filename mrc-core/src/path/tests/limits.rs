//! Where a rule of the paths begins and ends: just below each limit, at it, and just above; and what is drawn at random, over many
//! seeds.

use super::*;
use crate::path::profile::{ProfileError, compact_profile};
use crate::path::set::random_place;

fn only(plane: u8) -> PortMask {
    PortMask::NONE.with(PortNum::from_plane(plane))
}

/// A set over `entries` with its own seed, and room for more active EVs than it is told to use.
fn started(entries: &[EvEntry], active: u16, backup: u16, seed: u64) -> Qp {
    let cfg = PathConfig { active, backup, ..PathConfig::default() };
    let mut qp = Qp::with(Selector::Spray, entries, cfg, seed);
    qp.order = vec![0; entries.len()];
    qp.start(Selector::Spray, entries, ALL).unwrap();
    qp
}

/// Entries of the profile in the slots that `wanted` takes.
fn entries_of(qp: &Qp, wanted: impl Fn(&EvSlot) -> bool) -> Vec<u16> {
    qp.indices(wanted).iter().map(|index| qp.slots[usize::from(index.0)].entry()).collect()
}

/// Each EV of a plane is drawn as often as the others, and so is each of those drawn for the active set.
//= SET-001, SET-002 test
#[test]
fn every_ev_is_drawn_and_becomes_active_equally_often() {
    let entries = profile(1, 8);
    let (mut drawn, mut active) = ([0; 8], [0; 8]);
    for seed in 0..2_000 {
        let qp = started(&entries, 2, 2, seed);
        entries_of(&qp, |_| true).iter().for_each(|&entry| drawn[usize::from(entry)] += 1);
        entries_of(&qp, EvSlot::is_active).iter().for_each(|&entry| active[usize::from(entry)] += 1);
    }
    // 1000 and 500 each; a deviation of five sigma is 112 and 97.
    assert!(drawn.iter().all(|n| (888..=1_112).contains(n)), "{drawn:?}");
    assert!(active.iter().all(|n| (403..=597).contains(n)), "{active:?}");
}

/// An EV that comes back while its plane has as many active EVs as it should becomes a backup.
//= EV-017 test
#[test]
fn a_revived_ev_does_not_make_the_active_set_larger() {
    let mut qp = started(&profile(2, 16), 8, 4, 1);
    for bad in qp.indices(|slot| slot.is_active() && slot.plane() == 0)[..2].to_vec() {
        qp.feed(bad, Feedback::Timeout);
        qp.check(2, 4);
        qp.allow(bad);
        qp.check(2, 4);
        assert!(!qp.slots[usize::from(bad.0)].is_active());
    }
}

/// A pinned EV that is denied carries nothing, and everything again when it is allowed.
#[test]
fn a_pinned_ev_comes_back_when_it_is_allowed() {
    let mut qp = Qp::with(Selector::Pinned(EvIndex(3)), &profile(2, 8), PathConfig::default(), 1);
    let path = qp.select(ALL).unwrap();
    assert_eq!((path.entry, path.index), (3, EvIndex(0)));
    qp.deny(path.index);
    assert_eq!((qp.select(ALL), qp.set.counts().active), (None, 0));
    qp.allow(path.index);
    assert_eq!((qp.select(ALL), qp.set.counts().active), (Some(path), 1));
}

/// The ports that are up are told once; a set that starts anew still knows them.
#[test]
fn a_new_start_keeps_what_is_known_of_the_ports() {
    let entries = profile(2, 8);
    for selector in [Selector::Spray, Selector::Pinned(EvIndex(0))] {
        let mut qp = Qp::with(selector, &entries, PathConfig::default(), 1);
        assert_eq!(qp.set.usable_ports(), ALL);
        qp.set.set_usable_ports(only(1));
        qp.start(selector, &entries, ALL).unwrap();
        assert_eq!(qp.set.usable_ports(), only(1));
    }
}

/// With nothing but bad EVs a packet takes any of them, one per base RTT; the wait has a timer until it is over, and nobody who asks
/// for probes meanwhile ends it.
//= SEL-005 test
#[test]
fn the_last_resort_takes_any_bad_ev_once_per_round_trip() {
    let mut qp = Qp::spray(2, 4, 0, |cfg| (cfg.probe_interval_ns, cfg.ev_min_active) = (1_000 * MS, 0));
    for index in qp.indices(|slot| slot.plane() == 0) {
        qp.deny(index);
    }
    let bad = qp.indices(|slot| slot.plane() == 1);
    for &index in &bad {
        qp.feed(index, Feedback::Timeout);
    }
    let mut taken = BTreeSet::new();
    for _ in 0..100 {
        taken.insert(qp.select(ALL).unwrap().index);
        let due = qp.now.after(qp.cfg.base_rtt_ns);
        qp.sleep(qp.cfg.base_rtt_ns - 1);
        assert_eq!(qp.select(ALL), None);
        assert_eq!((qp.poll(ALL, false), qp.set.next_timeout()), (None, due));
        qp.sleep(1);
    }
    assert_eq!(taken, bad.into_iter().collect());
}

/// When the last bad EV was revived by its probe, no deadline is left of it.
#[test]
fn a_probe_that_was_answered_leaves_no_deadline() {
    let mut qp = Qp::spray(1, 4, 4, |_| {});
    let bad = qp.indices(EvSlot::is_active)[0];
    qp.feed(bad, Feedback::Timeout);
    qp.sleep(2 * MS);
    assert_eq!(qp.poll(ALL, false).map(|choice| choice.index), Some(bad));
    assert_ne!(qp.set.next_timeout(), Instant::FAR, "the probe may be lost");
    qp.feed(bad, GOOD_ANSWER);
    assert_eq!(qp.poll(ALL, false), None);
    assert_eq!(qp.set.next_timeout(), Instant::FAR);
}

/// The EV of a probe that tests a port lies on it and is healthy if one there is; one that asks for life is any but a denied one.
//= EPOP-009, PROBE-011 test
#[test]
fn probes_of_ports_and_of_peers_take_the_evs_that_they_may() {
    let mut qp = Qp::spray(2, 4, 0, |_| {});
    let all = |qp: &mut Qp, ports: PortMask| -> BTreeSet<EvIndex> {
        (0..200).filter_map(|_| qp.set.any_of(&qp.slots, ports, &mut qp.rng)).collect()
    };
    let port = PortNum::from_plane(0);
    let here = qp.indices(|slot| slot.plane() == 0);
    let on = |qp: &mut Qp| -> BTreeSet<EvIndex> {
        (0..200).filter_map(|_| qp.set.any_on(&qp.slots, port, &mut qp.rng)).collect()
    };
    let set = |from: &[EvIndex]| from.iter().copied().collect::<BTreeSet<_>>();
    assert_eq!(on(&mut qp), set(&here));
    qp.deny(here[0]);
    qp.feed(here[1], Feedback::Timeout);
    assert_eq!(on(&mut qp), set(&here[2..]), "the healthy ones");
    assert_eq!(all(&mut qp, only(0)), set(&here[1..]), "bad ones, too");
    qp.feed(here[2], Feedback::Timeout);
    qp.feed(here[3], Feedback::Timeout);
    assert_eq!(on(&mut qp), set(&here[1..]), "there is no healthy one");
    for &index in &here {
        qp.deny(index);
    }
    assert_eq!((on(&mut qp), all(&mut qp, only(0))), (BTreeSet::new(), BTreeSet::new()));
    assert_eq!(random_place(&[0u8; 0], &mut qp.rng, |_| true), None);
}

/// A packet ends one skip, that of an EV which it can use itself or which the next one can.
//= EV-010, SEL-003 test
#[test]
fn one_skip_ends_per_packet() {
    let mut qp = Qp::spray(1, 8, 0, |_| {});
    for index in qp.indices(|_| true) {
        qp.feed(index, MARK);
    }
    for packets in 1..=8 {
        assert!(qp.select(ALL).is_some());
        let counts = qp.set.counts();
        assert!(counts.good >= 1 && counts.good <= packets, "{counts:?} after {packets} packets");
    }
    // The one that a NACK names keeps its skip where there is another.
    let mut qp = Qp::spray(1, 2, 0, |_| {});
    let [avoided, other] = qp.indices(|_| true)[..] else { panic!() };
    qp.feed(avoided, MARK);
    qp.feed(other, MARK);
    let avoid = qp.slots[usize::from(avoided.0)].ev();
    assert_eq!(qp.select_other(avoid).map(|choice| choice.index), Some(other));
    assert_eq!((qp.state(avoided), qp.state(other)), (EvState::Skip, EvState::Good));
}

/// A packet leaves through a free port or not at all, though every EV is to be skipped.
//= SEL-002, SEL-007 test
#[test]
fn a_skipped_ev_on_a_busy_port_is_no_way_out() {
    for (skip_mode, evs) in [(SkipMode::Rotation, 1), (SkipMode::Rotation, 3), (SkipMode::Time { ns: 1_000 * MS }, 2)] {
        let mut qp = Qp::spray(2, evs, 0, |cfg| cfg.skip_mode = skip_mode);
        for turn in 0..200 {
            for index in qp.indices(|_| true) {
                qp.feed(index, MARK);
            }
            let plane = turn % 2;
            assert_eq!(qp.select(only(plane)).map(|choice| choice.port.plane()), Some(plane));
        }
    }
    // The only EV on a free port is the one to avoid: better that one than a busy port.
    let mut qp = Qp::spray(2, 1, 0, |_| {});
    let [busy, free] = qp.indices(|_| true)[..] else { panic!() };
    let (avoid, ports) = (qp.slots[usize::from(free.0)].ev(), only(qp.slots[usize::from(free.0)].port().plane()));
    for _ in 0..50 {
        qp.feed(busy, MARK);
        let Qp { set, slots, order, cfg, rng, now } = &mut qp;
        let choice = set.select_other(*now, slots, order, ports, avoid, cfg, rng);
        assert_eq!(choice.map(|choice| choice.index), Some(free));
    }
}

/// A plane whose EV is passed over has had its turn if its port had room, whichever way a skip ends.
//= BAL-007 test
#[test]
fn a_turn_passed_over_counts_where_the_port_had_room() {
    for skip_mode in [SkipMode::Rotation, SkipMode::Time { ns: 1_000 * MS }] {
        for (free, counts) in [(ALL, true), (only(1), false)] {
            let mut qp = Qp::spray(2, 1, 0, |cfg| (cfg.plane_lead, cfg.skip_mode) = (2, skip_mode));
            let marked = qp.indices(|slot| slot.plane() == 0)[0];
            for _ in 0..2 {
                qp.feed(marked, MARK);
                qp.select(free).unwrap();
                qp.allow(marked);
            }
            // Two turns on plane 1, and none or as many passed over on plane 0.
            let even = qp.select(only(1)).is_some();
            assert_eq!(even, counts, "{skip_mode:?}");
        }
    }
}

/// The last plane, width and number of uplinks that a compact profile can have.
//= GENEV-004 test
#[test]
fn a_compact_profile_has_its_limits() {
    let make = |planes, uplinks, plane_lsb| compact_profile(&mut [EvEntry::EMPTY; 2], planes, uplinks, plane_lsb);
    let last = MAX_PLANES as u8;
    assert_eq!(make(last, 4, 8), Ok(()));
    for planes in [0, last + 1, last + 2, u8::MAX] {
        assert_eq!(make(planes, 4, 8), Err(ProfileError::Planes { planes }));
    }
    assert_eq!((make(1, 255, 8), make(1, 256, 8)), (Ok(()), Ok(())));
    for uplinks in [257, 512, u16::MAX] {
        assert_eq!(make(1, uplinks, 8), Err(ProfileError::Width { bits: 8 }));
    }
    assert_eq!(make(1, 4, 29), Ok(()));
    for bits in [30, 31, 32, 64, u8::MAX] {
        assert_eq!(make(1, 4, bits), Err(ProfileError::Width { bits }));
    }
}

/// No EV can be drawn whose port lies above the planes.
//= SET-005 test
#[test]
fn an_entry_above_the_planes_is_not_used() {
    for (plane, usable) in [(0, true), (MAX_PLANES as u8 - 1, true), (MAX_PLANES as u8, false)] {
        let port = PortNum::from_plane(plane);
        assert_eq!(EvEntry::new(Ev(1), port).is_usable(PortMask::NONE.with(port)), usable, "plane {plane}");
    }
}

/// A refusal names what is wrong with a number that the caller can look for.
#[test]
fn refusals_name_their_numbers() {
    for (error, number) in [
        (PathError::StorageTooSmall { need: 17 }, "17"),
        (PathError::PinnedEv(EvIndex(23)), "23"),
        (PathError::UnknownEv(EvIndex(29)), "29"),
        (PathError::Knob("knob 31"), "knob 31"),
        (PathError::NoUsableEv, "ports"),
    ] {
        assert!(std::format!("{error}").contains(number), "{error}");
    }
    for (error, number) in [
        (ProfileError::Size { entries: 17 }, "17"),
        (ProfileError::Planes { planes: 23 }, "23"),
        (ProfileError::Busy { users: 29 }, "29"),
    ] {
        assert!(std::format!("{error}").contains(number), "{error}");
    }
}
