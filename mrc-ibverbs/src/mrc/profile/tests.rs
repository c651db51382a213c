use super::*;

fn fabric() -> Fabric {
    let paths = (0..8).map(|n| EvEntry::new(Ev(n << 8), PortNum::from_plane((n % 2) as u8))).collect();
    Fabric { ports: PortMask::first(2), paths }
}

fn explicit(registry: &mut Registry, id: u64) -> Result<(), c_int> {
    let change = EvProfileChange {
        state: Some(State::Offline),
        mode: Some(EV_MODE_EXP),
        format: Some(7),
        count: Some(2),
        ..EvProfileChange::default()
    };
    registry.change_ev_profile(id, change, &fabric())
}

fn online_format(registry: &mut Registry) {
    let offline = FormatChange { state: Some(State::Offline), mode: Some(FMT_MODE_STEV), widths: Some(vec![24, 8]) };
    registry.change_format(7, offline).unwrap();
    registry.change_format(7, FormatChange { state: Some(State::Online), ..FormatChange::default() }).unwrap();
}

fn ev(value: u32, port: u8) -> MrcCtlEv {
    let mut ev = MrcCtlEv { port, ..MrcCtlEv::UNPOPULATED };
    ev.val[..4].copy_from_slice(&value.to_be_bytes());
    ev
}

fn replace(from: MrcCtlEv, to: MrcCtlEv) -> EvChange {
    EvChange { ev: from, new: Some(to), state: EV_GOOD, all: false }
}

fn evs(evs: Vec<EvChange>) -> EvProfileChange {
    EvProfileChange { evs, ..EvProfileChange::default() }
}

fn go_online() -> EvProfileChange {
    EvProfileChange {
        state: Some(State::Online),
        min_active: Some(1),
        event_mask: Some(EV_ASSUMED_BAD as c_int),
        ..EvProfileChange::default()
    }
}

/// From each state to each, for a profile that has all it needs.
#[test]
fn the_whole_table_of_states() {
    let complete = |state| EvProfile {
        state,
        mode: EV_MODE_AUTO,
        min_active: Some(1),
        event_mask: Some(0),
        entries: vec![Entry { ev: MrcCtlEv::UNPOPULATED, state: EV_GOOD, wire: None }],
        ..EvProfile::default()
    };
    let states = [State::Init, State::Offline, State::Online];
    let allowed = |from: State, to: State| {
        let change = EvProfileChange { state: Some(to), ..EvProfileChange::default() };
        complete(from).change(change, None, &fabric()).is_ok()
    };
    let table = states.map(|from| states.map(|to| allowed(from, to)));
    assert_eq!(table, [[true, true, false], [true, true, true], [false, true, true]]);
}

#[test]
fn an_explicit_profile_needs_its_format_and_all_entries() {
    let mut registry = Registry::default();
    assert_eq!(explicit(&mut registry, 1), Err(EINVAL), "no such format");
    online_format(&mut registry);
    explicit(&mut registry, 1).unwrap();
    assert_eq!(registry.change_ev_profile(1, go_online(), &fabric()), Err(EINVAL), "unpopulated");
    let both = evs(vec![
        replace(MrcCtlEv::UNPOPULATED, ev(0x0102, 1)),
        replace(ev(9, 9), ev(1, 1)),
        replace(MrcCtlEv::UNPOPULATED, ev(0x0203, 2)),
    ]);
    assert_eq!(registry.change_ev_profile(1, both, &fabric()), Err(ENOENT), "the second matches nothing");
    assert_eq!(registry.ev_profile(1).entries[0].ev, ev(0x0102, 1), "the first stays applied");
    let duplicate = evs(vec![replace(MrcCtlEv::UNPOPULATED, ev(0x0102, 1))]);
    registry.change_ev_profile(1, duplicate, &fabric()).unwrap();
    assert_eq!(registry.change_ev_profile(1, go_online(), &fabric()), Err(EINVAL), "twice the same");
    registry.change_ev_profile(1, evs(vec![replace(ev(0x0102, 1), ev(0x0203, 3))]), &fabric()).unwrap();
    assert_eq!(registry.change_ev_profile(1, go_online(), &fabric()), Err(EINVAL), "there are two ports");
    registry.change_ev_profile(1, evs(vec![replace(ev(0x0203, 3), ev(0x0203, 2))]), &fabric()).unwrap();
    registry.change_ev_profile(1, go_online(), &fabric()).unwrap();
    let wire = registry.ev_profile(1).wire_entries();
    assert_eq!(
        wire,
        [EvEntry::new(Ev(0x0203), PortNum::from_plane(1)), EvEntry::new(Ev(0x0102), PortNum::from_plane(0))]
    );
    assert_eq!(
        registry.change_format(7, FormatChange { state: Some(State::Offline), ..FormatChange::default() }),
        Err(EBUSY)
    );
}

#[test]
fn an_online_profile_is_fixed() {
    let mut registry = Registry::default();
    let auto = EvProfileChange {
        state: Some(State::Offline),
        mode: Some(EV_MODE_AUTO),
        count: Some(4),
        ..EvProfileChange::default()
    };
    registry.change_ev_profile(5, auto, &fabric()).unwrap();
    let mut too_few = go_online();
    too_few.min_active = Some(5);
    assert_eq!(registry.change_ev_profile(5, too_few, &fabric()), Err(EINVAL));
    registry.change_ev_profile(5, go_online(), &fabric()).unwrap();
    let count = EvProfileChange { count: Some(2), ..EvProfileChange::default() };
    assert_eq!(registry.change_ev_profile(5, count, &fabric()), Err(EINVAL));
    let known = registry.ev_profile(5).entries[1].ev;
    assert_eq!(registry.change_ev_profile(5, evs(vec![replace(known, ev(1, 1))]), &fabric()), Err(EINVAL));
    let deny = || evs(vec![EvChange { ev: known, new: None, state: EV_DENIED, all: false }]);
    registry.change_ev_profile(5, deny(), &fabric()).unwrap();
    assert!(registry.ev_profile(5).wire_entries()[1].denied);
    // A QP holds it where it is.
    registry.evs.get_mut(&5).unwrap().users = 1;
    assert_eq!(registry.change_ev_profile(5, deny(), &fabric()), Err(EOPNOTSUPP));
    let offline = EvProfileChange { state: Some(State::Offline), ..EvProfileChange::default() };
    assert_eq!(registry.change_ev_profile(5, offline, &fabric()), Err(EBUSY));
    // What its QPs find out is told to those who asked for it.
    registry.qps.insert(77, 5);
    let port = PortNum::from_plane(0);
    assert_eq!(registry.ev_changed(77, Ev(0), port, EV_GOOD), None);
    assert_eq!(registry.ev_changed(77, Ev(0), port, EV_ASSUMED_BAD), Some((5, ev(0, 1))));
    assert_eq!(registry.ev_profile(5).entries[0].state, EV_ASSUMED_BAD);
    assert_eq!(registry.ev_changed(78, Ev(0), port, EV_ASSUMED_BAD), None);
}

#[test]
fn formats_refuse_what_does_not_fit() {
    let mut registry = Registry::default();
    let with = |mode, widths| FormatChange { state: Some(State::Offline), mode: Some(mode), widths };
    assert_eq!(registry.change_format(1, with(FMT_MODE_UDP, Some(vec![16, 1]))), Err(E2BIG));
    assert_eq!(registry.change_format(1, with(FMT_MODE_STEV, Some(vec![33]))), Err(E2BIG));
    assert_eq!(registry.change_format(1, with(FMT_MODE_SRV6, None)), Err(EOPNOTSUPP));
    assert_eq!(registry.change_format(1, with(9, None)), Err(EINVAL));
    registry.change_format(1, with(FMT_MODE_UDP, None)).unwrap();
    let online = || FormatChange { state: Some(State::Online), ..FormatChange::default() };
    assert_eq!(registry.change_format(1, online()), Err(EINVAL), "no fields yet");
    assert!(registry.formats.len() == 1, "what stays in INIT leaves nothing behind");
}

#[test]
fn congestion_control_needs_an_algorithm_then_its_configuration() {
    let mut registry = Registry::default();
    let to = |state| CcProfileChange { state: Some(state), ..CcProfileChange::default() };
    assert_eq!(registry.change_cc_profile(3, &to(State::Offline)), Err(EINVAL));
    registry.change_cc_profile(3, &CcProfileChange { nscc: Some(true), ..to(State::Offline) }).unwrap();
    assert_eq!(registry.change_cc_profile(3, &to(State::Online)), Err(EINVAL));
    let config = super::super::abi::MrcCtlCcNsccCfg { gamma: 0.5, base_rtt: 20_000, ..Default::default() };
    registry.change_cc_profile(3, &CcProfileChange { config: Some(config), ..to(State::Online) }).unwrap();
    assert_eq!(registry.change_cc_profile(3, &to(State::Init)), Err(EINVAL), "not in one step");
    let CcConfig::Nscc(nscc) = super::super::cc::engine_config(&config, 1_000_000_000) else { panic!() };
    assert_eq!((nscc.gamma_q16, nscc.base_rtt_ns, nscc.fi_bytes), (32_768, 20_000, 0));
}
