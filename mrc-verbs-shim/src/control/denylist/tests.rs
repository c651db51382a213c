use mrc_core::path::EvEntry;
use mrc_core::{EndpointConfig, EvProfileHandle, Limits, OwnedStorage, PortConfig};
use mrc_wire::Ev;

use super::*;

const NOW: mrc_core::Instant = mrc_core::Instant::ZERO;

/// An engine with three planes, all up.
fn with_engine(test: impl FnOnce(&mut Endpoint<'_>)) {
    let mut config = EndpointConfig::default();
    for plane in 0..3u8 {
        config.ports[usize::from(plane)] = Some(PortConfig { mac: [2, 0, 0, 0, 0, plane], sid: None, addr: None });
    }
    config.gids[0] = Some(mrc_wire::Ip::V6([0xFD; 16]));
    let mut storage = OwnedStorage::new(Limits::default()).unwrap();
    let mut engine = Endpoint::new(config, storage.lend(), [7; 16]).unwrap();
    for plane in 0..3 {
        engine.set_port(NOW, PortNum::from_plane(plane), true);
    }
    test(&mut engine);
}

fn profile(engine: &mut Endpoint<'_>, planes: &[u8]) -> EvProfileHandle {
    let entry = |plane: u8, uplink: u32| EvEntry::new(Ev(u32::from(plane) << 8 | uplink), PortNum::from_plane(plane));
    let all: Vec<EvEntry> = planes.iter().flat_map(|&plane| (0..2).map(move |uplink| entry(plane, uplink))).collect();
    engine.create_ev_profile(&all).unwrap()
}

fn denied(engine: &mut Endpoint<'_>, profile: EvProfileHandle) -> Vec<u32> {
    let all = entries(engine, profile);
    all.iter().filter(|report| report.state == EvState::Denied).filter_map(|report| compact(&report.ev)).collect()
}

fn deny(by: &str, planes: &[u8], evs: &[u32]) -> Deny {
    let (planes, evs) = (planes.iter().copied().collect(), evs.iter().copied().collect());
    Deny { by: by.into(), planes, evs, seconds: 10, because: "test".into(), dry_run: false }
}

/// Puts the lists into effect.
fn run(lists: &mut Lists, engine: &mut Endpoint<'_>, now: Instant) -> Effect {
    let outcome = enforce(engine, NOW, &lists.wanted(), &lists.told(), false);
    let effect = outcome.effect.clone();
    assert_eq!(lists.settle(outcome, now), None);
    effect
}

#[test]
fn a_denied_plane_is_denied_in_every_profile_until_its_lease_ends() {
    with_engine(|engine| {
        let (now, mut lists) = (Instant::now(), Lists::default());
        let first = profile(engine, &[0, 1, 2]);
        let list = deny("mapper", &[1], &[0x001]);
        let wanted = lists.with(&list, 3, PortMask::first(3), now).unwrap();
        let dry = enforce(engine, NOW, &wanted, &lists.told(), true);
        assert_eq!((dry.effect.denied, denied(engine, first)), (3, vec![]), "a dry run changes nothing");
        lists.put(list, now);
        assert_eq!(run(&mut lists, engine, now), Effect { denied: 3, spared: 0, absent: 0 });
        assert_eq!(denied(engine, first), [0x001, 0x100, 0x101]);
        // A profile that is made later is looked after, too.
        let second = profile(engine, &[1, 2]);
        assert_eq!(run(&mut lists, engine, now).denied, 5);
        assert_eq!(denied(engine, second), [0x100, 0x101]);
        assert!(lists.expire(now + Duration::from_secs(9)).is_empty());
        assert_eq!(lists.expire(now + Duration::from_secs(10)), ["mapper"]);
        run(&mut lists, engine, now);
        assert!(denied(engine, first).is_empty() && denied(engine, second).is_empty() && lists.is_idle());
    });
}

/// An operator who mistypes a value hears that it is nobody's.
#[test]
fn a_value_that_no_path_has_is_counted_and_one_of_no_plane_is_refused() {
    with_engine(|engine| {
        let (now, mut lists) = (Instant::now(), Lists::default());
        profile(engine, &[0, 1]);
        lists.put(deny("operator", &[], &[0x001, 0x0FF, 0x200]), now);
        assert_eq!(run(&mut lists, engine, now), Effect { denied: 1, spared: 0, absent: 2 });
        profile(engine, &[1, 2]);
        assert_eq!(run(&mut lists, engine, now), Effect { denied: 2, spared: 0, absent: 1 });
        let why = lists.with(&deny("operator", &[], &[0x300]), 3, PortMask::first(3), now).unwrap_err();
        assert!(why.contains("no EV 0x300") && why.contains("planes 0 to 2"), "{why}");
    });
}

#[test]
fn what_others_denied_stays_denied() {
    with_engine(|engine| {
        let (now, mut lists) = (Instant::now(), Lists::default());
        let profile = profile(engine, &[0, 1]);
        let theirs = entries(engine, profile)[2].ev;
        engine.set_ev_state(NOW, profile, &theirs, EvState::Denied, true).unwrap();
        lists.put(deny("a", &[1], &[]), now);
        assert_eq!(run(&mut lists, engine, now).denied, 1);
        lists.put(deny("b", &[1], &[]), now);
        assert!(lists.remove("a") && !lists.remove("a"));
        run(&mut lists, engine, now);
        assert_eq!(denied(engine, profile), [0x100, 0x101], "b's list is still in force");
        lists.remove("b");
        run(&mut lists, engine, now);
        assert_eq!(denied(engine, profile), [0x100]);
    });
}

#[test]
fn a_profile_without_an_alternative_is_spared() {
    with_engine(|engine| {
        let (now, mut lists) = (Instant::now(), Lists::default());
        let (one, two) = (profile(engine, &[1]), profile(engine, &[0, 1]));
        lists.put(deny("mapper", &[1], &[]), now);
        assert_eq!(run(&mut lists, engine, now), Effect { denied: 2, spared: 1, absent: 0 });
        assert!(denied(engine, one).is_empty() && denied(engine, two) == [0x100, 0x101]);
        // The other plane goes down: nothing usable would remain, so all is allowed again.
        engine.set_port(NOW, PortNum::from_plane(0), false);
        assert_eq!(run(&mut lists, engine, now), Effect { denied: 0, spared: 2, absent: 0 });
        assert!(denied(engine, two).is_empty());
    });
}

#[test]
fn lists_that_would_do_harm_are_refused() {
    let (now, mut lists) = (Instant::now(), Lists::default());
    let refused = |lists: &Lists, deny: &Deny, up, says: &str| {
        let why = lists.with(deny, 3, up, now).unwrap_err();
        assert!(why.contains(says), "{why}");
    };
    let all = PortMask::first(3);
    refused(&lists, &deny("", &[0], &[]), all, "letters");
    refused(&lists, &deny("a b", &[0], &[]), all, "letters");
    refused(&lists, &deny("a", &[3], &[]), all, "no plane 3: this device has planes 0 to 2");
    refused(&lists, &deny("a", &[0, 1, 2], &[]), all, "every plane that is up");
    refused(&lists, &deny("a", &[0], &[]), PortMask::first(1), "every plane that is up");
    refused(&lists, &Deny { seconds: 0, ..deny("a", &[0], &[]) }, all, "1 to 3600");
    refused(&lists, &Deny { evs: (0..5000).collect(), ..deny("a", &[], &[]) }, all, "at most 4096");
    lists.put(deny("a", &[0, 1], &[]), now);
    refused(&lists, &deny("b", &[2], &[]), all, "every plane that is up");
    assert!(lists.with(&deny("a", &[2], &[]), 3, all, now).is_ok(), "its own list before counts no more");
    for n in 1..8 {
        lists.put(deny(&format!("l{n}"), &[0], &[]), now);
    }
    refused(&lists, &deny("more", &[0], &[]), all, "8 denylists");
}

#[test]
fn all_lists_end_when_a_queue_pair_would_starve() {
    let (now, mut lists) = (Instant::now(), Lists::default());
    lists.put(deny("mapper", &[1], &[]), now);
    let outcome = |ours: bool| Outcome {
        effect: Effect::default(),
        denied: ours.then_some((0, 0, [0; 32], 1)).into_iter().collect(),
        starved: Some(0x17),
    };
    assert_eq!(lists.settle(outcome(false), now), None, "not because of us");
    assert_eq!(lists.settle(outcome(true), now), Some(0x17));
    assert!(lists.wanted() == Wanted::default() && !lists.is_idle(), "the engine is still to be told");
    let why = lists.with(&deny("mapper", &[1], &[]), 3, PortMask::first(3), now).unwrap_err();
    assert!(why.contains("refused for"), "{why}");
    assert!(lists.with(&deny("mapper", &[1], &[]), 3, PortMask::first(3), now + HOLD_OFF).is_ok());
}
