use mrc_core::{
    EndpointConfig, Limits, MAX_PORTS, OwnedStorage, Pd, PeerConfig, PlanePath, PortConfig, QpHandle, QpInit, Route,
    RtrAttr,
};
use mrc_wire::{Ev, Ip, Psn, Qpn};

use super::*;

const NOW: Instant = Instant::ZERO;

/// A registry with an engine of two ports under it; eight paths.
fn controller<R>(f: impl FnOnce(&mut Registry, &mut Endpoint<'_>) -> R) -> R {
    let limits = Limits {
        qps: 4,
        ev_profiles: MAX_PROFILES,
        profile_evs: MAX_EVS,
        cc_profiles: 1 + MAX_PROFILES,
        ..Limits::default()
    };
    let mut storage = OwnedStorage::new(limits).unwrap();
    let mut cfg = EndpointConfig::default();
    cfg.gids[0] = Some(Ip::V6([1; 16]));
    for port in cfg.ports.iter_mut().take(2) {
        *port = Some(PortConfig { mac: [2; 6], sid: None, addr: None });
    }
    let mut engine = Endpoint::new(cfg, storage.lend(), 1).unwrap();
    let paths =
        (0..8).map(|n| EvEntry::new(Ev(((n % 2) << 8) | (n / 2)), PortNum::from_plane((n % 2) as u8))).collect();
    f(&mut Registry::new(paths, 1_000_000_000), &mut engine)
}

/// A QP in RTR that draws from the profile.
fn bind(engine: &mut Endpoint<'_>, ev_profile: EvProfileHandle, route: Route) -> QpHandle {
    let mut planes = [None; MAX_PORTS];
    planes[..2].fill(Some(PlanePath { next_hop: [4; 6], outer_src: Some([3; 16]) }));
    let (local, remote) = (Ip::V6([1; 16]), Ip::V6([2; 16]));
    let peer = engine.add_peer(&PeerConfig { local, remote, planes, route, hop_limit: 64 }).unwrap();
    let cq = engine.create_cq().unwrap();
    let qp = engine.create_qp(&QpInit { pd: Pd(1), send_cq: cq, recv_cq: cq }).unwrap();
    engine.modify_to_init(qp).unwrap();
    engine.modify_to_rtr(NOW, qp, &RtrAttr::software(peer, Qpn::new(9), Psn::new(0), ev_profile)).unwrap();
    qp
}

fn to(state: State) -> EvProfileChange {
    EvProfileChange { state: Some(state), ..EvProfileChange::default() }
}

fn online() -> EvProfileChange {
    EvProfileChange { min_active: Some(1), event_mask: Some(EV_ASSUMED_BAD as c_int), ..to(State::Online) }
}

fn offline(mode: u32, count: u32) -> EvProfileChange {
    let format = if mode == EV_MODE_AUTO { None } else { Some(7) };
    EvProfileChange { mode: Some(mode), format, count: Some(count), ..to(State::Offline) }
}

fn evs(evs: Vec<EvChange>) -> EvProfileChange {
    EvProfileChange { evs, ..EvProfileChange::default() }
}

fn format_change(mode: u32) -> FormatChange {
    FormatChange { state: Some(State::Offline), mode: Some(mode), ..FormatChange::default() }
}

fn online_format(registry: &mut Registry, mode: u32, widths: &[u8]) {
    let offline = FormatChange { widths: Some(widths.to_vec()), ..format_change(mode) };
    registry.change_format(7, &offline).unwrap();
    registry.change_format(7, &FormatChange { state: Some(State::Online), ..FormatChange::default() }).unwrap();
}

fn ev(value: u32, port: u8) -> MrcCtlEv {
    let mut ev = MrcCtlEv { port, ..MrcCtlEv::UNPOPULATED };
    ev.val[..4].copy_from_slice(&value.to_be_bytes());
    ev
}

fn replace(from: MrcCtlEv, to: MrcCtlEv) -> EvChange {
    EvChange { ev: from, new: Some(to), state: EV_GOOD, all: false }
}

fn set(ev: MrcCtlEv, state: u32) -> EvProfileChange {
    evs(vec![EvChange { ev, new: None, state, all: false }])
}

/// From each state to each, for a profile that has all it needs.
#[test]
fn the_whole_table_of_states() {
    let states = [State::Init, State::Offline, State::Online];
    let table = states.map(|from| {
        states.map(|to| {
            controller(|registry, engine| {
                if from >= State::Offline {
                    registry.change_ev_profile(engine, NOW, 5, &offline(EV_MODE_AUTO, 4)).unwrap();
                }
                if from == State::Online {
                    registry.change_ev_profile(engine, NOW, 5, &online()).unwrap();
                }
                assert_eq!(registry.ev_profile(engine, 5).state, from);
                let change = match (from, to) {
                    (State::Init, State::Offline) => offline(EV_MODE_AUTO, 4),
                    (State::Offline, State::Online) => online(),
                    (_, to) => super::tests::to(to),
                };
                let done = registry.change_ev_profile(engine, NOW, 5, &change);
                assert_eq!(registry.ev_profile(engine, 5).state, if done.is_ok() { to } else { from });
                assert_eq!(registry.evs.len(), usize::from(registry.ev_profile(engine, 5).state != State::Init));
                done.is_ok()
            })
        })
    });
    assert_eq!(table, [[true, true, false], [true, true, true], [false, true, true]]);
}

#[test]
fn leaving_init_takes_mode_count_and_format() {
    controller(|registry, engine| {
        let whole = offline(EV_MODE_EXP, 2);
        assert_eq!(registry.change_ev_profile(engine, NOW, 1, &whole), Err(EINVAL), "no such format");
        online_format(registry, FMT_MODE_STEV, &[24, 8]);
        for (wrong, code) in [
            (EvProfileChange { mode: None, ..offline(EV_MODE_EXP, 2) }, EINVAL),
            (EvProfileChange { mode: Some(8), ..offline(EV_MODE_EXP, 2) }, EINVAL),
            (EvProfileChange { format: None, ..offline(EV_MODE_EXP, 2) }, EINVAL),
            (EvProfileChange { count: None, ..offline(EV_MODE_EXP, 2) }, EINVAL),
            (offline(EV_MODE_EXP, 0), EINVAL),
            (offline(EV_MODE_EXP, MAX_EVS as u32 + 1), E2BIG),
            (offline(EV_MODE_EXP, 1 << 20), E2BIG),
            (EvProfileChange { event_mask: Some(EV_DENIED as c_int), ..offline(EV_MODE_EXP, 2) }, EINVAL),
            (EvProfileChange { state: None, ..offline(EV_MODE_EXP, 2) }, EINVAL),
            (EvProfileChange { cur_state: Some(State::Offline), ..offline(EV_MODE_EXP, 2) }, EINVAL),
            (EvProfileChange { evs: vec![replace(ev(1, 1), ev(1, 1))], ..offline(EV_MODE_EXP, 2) }, ENOENT),
            (offline(EV_MODE_GEN, 2), EINVAL),
            (offline(EV_MODE_AUTO, 9), E2BIG),
        ] {
            assert_eq!(registry.change_ev_profile(engine, NOW, 1, &wrong), Err(code), "{wrong:?}");
            assert_eq!(registry.ev_profile(engine, 1).state, State::Init);
        }
        for id in 0..MAX_PROFILES as u64 {
            registry.change_ev_profile(engine, NOW, id, &whole).unwrap();
        }
        assert_eq!(registry.evs_in_use(engine), 2 * MAX_PROFILES);
        assert_eq!(registry.change_ev_profile(engine, NOW, 99, &whole), Err(E2BIG));
        registry.change_ev_profile(engine, NOW, 3, &to(State::Init)).unwrap();
        registry.change_ev_profile(engine, NOW, 99, &whole).unwrap();
    });
}

#[test]
fn an_explicit_profile_needs_all_entries_and_keeps_them() {
    controller(|registry, engine| {
        online_format(registry, FMT_MODE_STEV, &[24, 8]);
        registry.change_ev_profile(engine, NOW, 1, &offline(EV_MODE_EXP, 2)).unwrap();
        assert_eq!(registry.ev_profile(engine, 1).entries, [(MrcCtlEv::UNPOPULATED, EV_GOOD); 2]);
        assert_eq!(registry.change_ev_profile(engine, NOW, 1, &online()), Err(EINVAL), "unpopulated");
        let mut change = |evs_: Vec<EvChange>| registry.change_ev_profile(engine, NOW, 1, &evs(evs_));
        let none = MrcCtlEv::UNPOPULATED;
        let three = vec![replace(none, ev(0x102, 1)), replace(ev(9, 9), ev(1, 1)), replace(none, ev(0x203, 2))];
        assert_eq!(change(three), Err(ENOENT), "the second matches nothing");
        assert_eq!(change(vec![replace(ev(0x102, 1), ev(0x203, 3))]), Err(EINVAL), "there are two ports");
        change(vec![replace(none, ev(0x102, 1))]).unwrap();
        let last = EvProfileChange { evs: vec![replace(ev(0x102, 1), ev(0x203, 2))], ..online() };
        registry.change_ev_profile(engine, NOW, 1, &last).unwrap();
        let view = registry.ev_profile(engine, 1);
        assert_eq!(view.entries, [(ev(0x203, 2), EV_GOOD), (ev(0x102, 1), EV_GOOD)]);
        assert_eq!((view.fields.len(), view.min_active, view.event_mask), (2, 1, EV_ASSUMED_BAD));
        // ONLINE its format is held, its attributes and values are fixed, its states are not.
        let down = FormatChange { state: Some(State::Offline), ..FormatChange::default() };
        assert_eq!(registry.change_format(7, &down), Err(EBUSY));
        for fixed in [
            EvProfileChange { count: Some(2), ..EvProfileChange::default() },
            EvProfileChange { event_mask: Some(1), ..EvProfileChange::default() },
            evs(vec![replace(ev(0x102, 1), ev(1, 1))]),
            set(ev(0x102, 1), EV_ASSUMED_BAD),
            set(ev(0x102, 1), 7),
        ] {
            assert_eq!(registry.change_ev_profile(engine, NOW, 1, &fixed), Err(EINVAL), "{fixed:?}");
        }
        assert_eq!(registry.change_ev_profile(engine, NOW, 1, &set(ev(0x104, 1), EV_DENIED)), Err(ENOENT));
        let (handle, routed) = registry.online_ev_profile(1).unwrap().unwrap();
        assert!(!routed);
        let qp = bind(engine, handle, Route::Plain);
        registry.change_ev_profile(engine, NOW, 1, &set(ev(0x102, 1), EV_DENIED)).unwrap();
        assert_eq!(registry.ev_profile(engine, 1).entries[1], (ev(0x102, 1), EV_DENIED), "with a QP as well");
        assert_eq!(registry.change_ev_profile(engine, NOW, 1, &to(State::Offline)), Err(EBUSY));
        assert_eq!(registry.named(handle, 1), Some((1, ev(0x102, 1))));
        assert_eq!(registry.named(handle, 2), None);
        engine.destroy_qp(qp).unwrap();
        registry.change_ev_profile(engine, NOW, 1, &to(State::Offline)).unwrap();
        assert_eq!((registry.online_ev_profile(1), registry.named(handle, 1)), (Err(EINVAL), None));
        // What is said again changes nothing; another size begins anew.
        registry.change_ev_profile(engine, NOW, 1, &offline(EV_MODE_EXP, 2)).unwrap();
        assert_eq!(registry.ev_profile(engine, 1).entries[0], (ev(0x203, 2), EV_GOOD));
        registry.change_ev_profile(engine, NOW, 1, &offline(EV_MODE_EXP, 3)).unwrap();
        assert_eq!(registry.ev_profile(engine, 1).entries, [(MrcCtlEv::UNPOPULATED, EV_GOOD); 3]);
    });
}

/// Entries may be copies of each other. What goes ONLINE was given an event mask.
#[test]
fn an_explicit_profile_may_hold_copies() {
    controller(|registry, engine| {
        online_format(registry, FMT_MODE_STEV, &[24, 8]);
        registry.change_ev_profile(engine, NOW, 1, &offline(EV_MODE_EXP, 2)).unwrap();
        let copy = || replace(MrcCtlEv::UNPOPULATED, ev(0x102, 1));
        registry.change_ev_profile(engine, NOW, 1, &evs(vec![copy(), copy()])).unwrap();
        let silent = EvProfileChange { event_mask: None, ..online() };
        assert_eq!(registry.change_ev_profile(engine, NOW, 1, &silent), Err(EINVAL), "no event mask was given");
        registry.change_ev_profile(engine, NOW, 1, &online()).unwrap();
        assert_eq!(registry.ev_profile(engine, 1).entries, [(ev(0x102, 1), EV_GOOD); 2]);
    });
}

/// A step that fails on the way ONLINE kept what came with it: a later one then went ONLINE with numbers of a refused call.
#[test]
fn a_step_that_fails_leaves_the_profile_as_it_was() {
    controller(|registry, engine| {
        online_format(registry, FMT_MODE_STEV, &[24, 8]);
        registry.change_ev_profile(engine, NOW, 1, &offline(EV_MODE_EXP, 2)).unwrap();
        let none = MrcCtlEv::UNPOPULATED;
        let denied = EvChange { state: EV_DENIED, ..replace(none, ev(0x102, 1)) };
        registry.change_ev_profile(engine, NOW, 1, &evs(vec![denied])).unwrap();
        let same = |registry: &Registry, engine: &mut Endpoint<'_>, what: &str| {
            let view = registry.ev_profile(engine, 1);
            let numbers = (view.state, view.mode, view.count, view.min_active, view.event_mask, view.format);
            assert_eq!(numbers, (State::Offline, EV_MODE_EXP, 2, 0, 0, 7), "{what}");
            assert_eq!(view.entries, [(ev(0x102, 1), EV_DENIED), (none, EV_GOOD)], "{what}");
        };
        for (wrong, code, what) in [
            (online(), EINVAL, "an entry has no value"),
            (EvProfileChange { event_mask: None, ..online() }, EINVAL, "no event mask"),
            (EvProfileChange { evs: vec![replace(ev(9, 1), ev(1, 1))], ..online() }, ENOENT, "no such EV"),
            (EvProfileChange { count: Some(3), ..online() }, EINVAL, "of three entries"),
            (EvProfileChange { mode: Some(EV_MODE_AUTO), event_mask: None, ..online() }, EINVAL, "of another mode"),
        ] {
            assert_eq!(registry.change_ev_profile(engine, NOW, 1, &wrong), Err(code), "{what}");
            same(registry, engine, what);
        }
        // An attribute that no call gave successfully is missing.
        let bare = EvProfileChange { evs: vec![replace(none, ev(0x203, 2))], ..to(State::Online) };
        assert_eq!(registry.change_ev_profile(engine, NOW, 1, &bare), Err(EINVAL), "neither MIN_ACTIVE nor events");
        registry.change_ev_profile(engine, NOW, 1, &online()).unwrap();
        assert_eq!(registry.ev_profile(engine, 1).entries[1].0, ev(0x203, 2), "EV operations stay applied");
        // Refused because of a queue pair, the states stay too.
        let held = registry.bind(Bindable::Ev, 1);
        let down = EvProfileChange { state: Some(State::Offline), ..set(ev(0x203, 2), EV_DENIED) };
        assert_eq!(registry.change_ev_profile(engine, NOW, 1, &down), Err(EBUSY));
        assert_eq!(registry.ev_profile(engine, 1).entries[1].1, EV_GOOD);
        drop(held);
    });
}

#[test]
fn a_step_that_fails_gives_an_auto_profile_its_states_back() {
    controller(|registry, engine| {
        registry.change_ev_profile(engine, NOW, 1, &offline(EV_MODE_AUTO, 3)).unwrap();
        registry.change_ev_profile(engine, NOW, 1, &set(ev(0x100, 2), EV_DENIED)).unwrap();
        let before = registry.ev_profile(engine, 1).entries;
        let smaller = EvProfileChange { count: Some(1), event_mask: None, ..online() };
        assert_eq!(registry.change_ev_profile(engine, NOW, 1, &smaller), Err(EINVAL));
        assert_eq!(registry.ev_profile(engine, 1).entries, before);
    });
}

#[test]
fn a_format_that_changed_is_taken_again() {
    controller(|registry, engine| {
        online_format(registry, FMT_MODE_STEV, &[24, 8]);
        registry.change_ev_profile(engine, NOW, 1, &offline(EV_MODE_EXP, 1)).unwrap();
        let fill = EvProfileChange { evs: vec![replace(MrcCtlEv::UNPOPULATED, ev(0x102, 1))], ..online() };
        let down = |widths| FormatChange { widths, mode: None, ..format_change(0) };
        registry.change_format(7, &down(None)).unwrap();
        assert_eq!(registry.change_ev_profile(engine, NOW, 1, &fill), Err(EINVAL), "its format is not ONLINE");
        registry.change_format(7, &down(Some(vec![16, 16]))).unwrap();
        registry.change_format(7, &FormatChange { state: Some(State::Online), ..down(None) }).unwrap();
        assert_eq!(registry.change_ev_profile(engine, NOW, 1, &online()), Err(EINVAL), "it is another one now");
        let again = EvProfileChange { format: Some(7), ..fill };
        registry.change_ev_profile(engine, NOW, 1, &again).unwrap();
        assert_eq!(registry.ev_profile(engine, 1).fields.iter().map(|field| field.width).collect::<Vec<_>>(), [16, 16]);
    });
}

#[test]
fn generated_values_come_from_the_fields() {
    controller(|registry, engine| {
        online_format(registry, FMT_MODE_STEV, &[24, 8]);
        let fields = vec![EvField::fixed(24, 5), EvField { width: 8, init_val: 0, min_val: 2, max_val: 5, mask: 0xFF }];
        let with = |count| EvProfileChange { fields: Some(fields.clone()), ..offline(EV_MODE_GEN, count) };
        assert_eq!(registry.change_ev_profile(engine, NOW, 1, &with(5)), Err(E2BIG), "four values there are");
        registry.change_ev_profile(engine, NOW, 1, &with(4)).unwrap();
        assert_eq!(
            registry.change_ev_profile(engine, NOW, 1, &evs(vec![replace(ev(5 << 24, 1), ev(1, 1))])),
            Err(EINVAL)
        );
        registry.change_ev_profile(engine, NOW, 1, &online()).unwrap();
        let view = registry.ev_profile(engine, 1);
        let mut values: Vec<u8> = view.entries.iter().map(|(ev, _)| ev.val[0]).collect();
        values.sort_unstable();
        assert_eq!((view.mode, view.format, values), (EV_MODE_GEN, 7, vec![2, 3, 4, 5]));
        assert_eq!(view.entries.iter().map(|(ev, _)| ev.port).collect::<Vec<_>>(), [1, 2, 1, 2]);
    });
}

#[test]
fn an_auto_profile_is_made_of_the_hosts_paths() {
    controller(|registry, engine| {
        registry.change_ev_profile(engine, NOW, 0, &offline(EV_MODE_AUTO, 3)).unwrap();
        let too_many = EvProfileChange { min_active: Some(4), ..online() };
        assert_eq!(registry.change_ev_profile(engine, NOW, 0, &too_many), Err(EINVAL));
        assert_eq!(registry.online_ev_profile(0), Err(EINVAL), "number 0 is the controller's now");
        registry.change_ev_profile(engine, NOW, 0, &online()).unwrap();
        let view = registry.ev_profile(engine, 0);
        assert_eq!(view.entries, [ev(0x000, 1), ev(0x100, 2), ev(0x001, 1)].map(|ev| (ev, EV_GOOD)));
        assert!(view.fields.is_empty());
        registry.change_ev_profile(engine, NOW, 0, &set(ev(0x001, 1), EV_DENIED)).unwrap();
        assert_eq!(registry.ev_profile(engine, 0).entries[2].1, EV_DENIED);
        assert!(registry.online_ev_profile(0).unwrap().is_some());
        registry.change_ev_profile(engine, NOW, 0, &to(State::Offline)).unwrap();
        registry.change_ev_profile(engine, NOW, 0, &to(State::Init)).unwrap();
        assert_eq!(registry.online_ev_profile(0), Ok(None), "and the device's again");
    });
}

#[test]
fn routed_profiles_say_so() {
    controller(|registry, engine| {
        // Block, three micro-SIDs, and a segment of as many.
        online_format(registry, FMT_MODE_SRV6, &[32, 16, 16, 16, 16, 32, 32, 16]);
        let mut long = MrcCtlEv { port: 2, ..MrcCtlEv::UNPOPULATED };
        long.val[..22].copy_from_slice(&core::array::from_fn::<u8, 22, _>(|n| n as u8 + 1));
        let whole = EvProfileChange { evs: vec![replace(MrcCtlEv::UNPOPULATED, long)], ..offline(EV_MODE_EXP, 1) };
        registry.change_ev_profile(engine, NOW, 1, &whole).unwrap();
        registry.change_ev_profile(engine, NOW, 1, &online()).unwrap();
        assert_eq!(registry.ev_profile(engine, 1).entries, [(long, EV_GOOD)]);
        let (handle, routed) = registry.online_ev_profile(1).unwrap().unwrap();
        assert!(routed);
        bind(engine, handle, Route::Srv6Entry);
    });
}

#[test]
fn formats_refuse_what_does_not_fit() {
    controller(|registry, _| {
        let with = |mode, widths| FormatChange { widths, ..format_change(mode) };
        for (mode, widths, code) in [
            (FMT_MODE_UDP, vec![16, 1], E2BIG),
            (FMT_MODE_STEV, vec![33], E2BIG),
            (FMT_MODE_STEV, vec![16, 16, 1], E2BIG),
            (FMT_MODE_SRV6, vec![1; 17], E2BIG),
            (FMT_MODE_SRV6, vec![], EINVAL),
            (9, vec![8], EINVAL),
        ] {
            assert_eq!(registry.change_format(1, &with(mode, Some(widths.clone()))), Err(code), "{mode} {widths:?}");
        }
        assert!(registry.formats.is_empty(), "what stays in INIT leaves nothing behind");
        assert_eq!(registry.change_format(1, &FormatChange { state: None, ..with(FMT_MODE_UDP, None) }), Err(EINVAL));
        registry.change_format(1, &with(FMT_MODE_UDP, None)).unwrap();
        let online = || FormatChange { state: Some(State::Online), ..FormatChange::default() };
        assert_eq!(registry.change_format(1, &online()), Err(EINVAL), "no fields yet");
        registry.change_format(1, &with(FMT_MODE_UDP, Some(vec![16]))).unwrap();
        registry.change_format(1, &with(FMT_MODE_STEV, None)).unwrap();
        assert_eq!(registry.change_format(1, &online()), Err(EINVAL), "fields belong to their mode");
        for id in 2..=MAX_PROFILES as u64 {
            registry.change_format(id, &with(FMT_MODE_SRV6, Some(vec![32; 8]))).unwrap();
        }
        assert_eq!(registry.change_format(99, &with(FMT_MODE_UDP, None)), Err(E2BIG));
    });
}

#[test]
fn congestion_control_needs_an_algorithm_then_its_configuration() {
    controller(|registry, engine| {
        let to = |state| CcProfileChange { state: Some(state), ..CcProfileChange::default() };
        let mut change = |change: &CcProfileChange| registry.change_cc_profile(engine, 3, change);
        assert_eq!(change(&to(State::Offline)), Err(EINVAL));
        assert_eq!(change(&CcProfileChange { nscc: Some(true), ..CcProfileChange::default() }), Err(EINVAL));
        change(&CcProfileChange { nscc: Some(true), ..to(State::Offline) }).unwrap();
        assert_eq!(change(&to(State::Online)), Err(EINVAL));
        let config = MrcCtlCcNsccCfg { gamma: 0.5, base_rtt: 20_000, ..Default::default() };
        let online = CcProfileChange { config: Some(config), ..to(State::Online) };
        assert_eq!(
            change(&CcProfileChange { cur_state: Some(State::Init), config: Some(config), ..to(State::Online) }),
            Err(EINVAL)
        );
        change(&online).unwrap();
        assert_eq!(change(&online), Err(EINVAL), "ONLINE it is fixed");
        assert_eq!(change(&to(State::Init)), Err(EINVAL), "not in one step");
        let handle = registry.online_cc_profile(3).unwrap().unwrap();
        let Some(CcConfig::Nscc(nscc)) = engine.cc_profile(handle) else { panic!() };
        assert_eq!((nscc.gamma_q16, nscc.base_rtt_ns, nscc.fi_bytes), (32_768, 20_000, 0));
        registry.change_cc_profile(engine, 3, &to(State::Offline)).unwrap();
        assert_eq!((engine.cc_profile(handle), registry.online_cc_profile(3)), (None, Err(EINVAL)));
        registry.change_cc_profile(engine, 3, &to(State::Init)).unwrap();
        assert_eq!(registry.cc_profile(3).nscc, None);
        assert_eq!((registry.online_cc_profile(3), registry.online_cc_profile(0)), (Err(EINVAL), Ok(None)));
        // A parameter that NSCC cannot have is found on the way ONLINE, and the profile is as before.
        registry.change_cc_profile(engine, 4, &CcProfileChange { nscc: Some(true), ..to(State::Offline) }).unwrap();
        let wild = MrcCtlCcNsccCfg { gamma: 1000.0, ..config };
        let online = CcProfileChange { config: Some(wild), ..to(State::Online) };
        assert_eq!(registry.change_cc_profile(engine, 4, &online), Err(EINVAL));
        assert_eq!(registry.cc_profile(4).state, State::Offline);
    });
}

/// A queue pair that has named a profile, from INIT on, has it: it would come up without it otherwise.
#[test]
fn a_profile_that_a_queue_pair_has_named_stays_online() {
    controller(|registry, engine| {
        registry.change_ev_profile(engine, NOW, 5, &offline(EV_MODE_AUTO, 4)).unwrap();
        registry.change_ev_profile(engine, NOW, 5, &online()).unwrap();
        let cc = CcProfileChange { state: Some(State::Offline), nscc: Some(false), ..CcProfileChange::default() };
        registry.change_cc_profile(engine, 6, &cc).unwrap();
        let step = |state| CcProfileChange { state: Some(state), ..CcProfileChange::default() };
        registry.change_cc_profile(engine, 6, &step(State::Online)).unwrap();
        assert!(registry.bind(Bindable::Ev, 0).is_none() && registry.bind(Bindable::Ev, 4).is_none());
        let held = [registry.bind(Bindable::Ev, 5), registry.bind(Bindable::Cc, 6)];
        let another = held.clone();
        assert!(held.iter().all(Option::is_some));
        for held in [Some(held), Some(another), None] {
            let want = if held.is_some() { Err(EBUSY) } else { Ok(()) };
            assert_eq!(registry.change_ev_profile(engine, NOW, 5, &to(State::Offline)), want);
            assert_eq!(registry.change_cc_profile(engine, 6, &step(State::Offline)), want);
        }
    });
}
