//! EV profiles from outside: their life cycle, programming and asking, what denial and shared health do to traffic, the
//! events they raise, and the bytes of routed EVs.

mod common;

use common::{Net, Setup, Weather, net};
use mrc_core::path::{EvEntry, EvFormat, EvState, FormatMode, ProfileError, auto_profile};
use mrc_core::{
    Endpoint, EndpointConfig, EvEventMask, EvMode, EvProfileConfig, EvReport, EvSpec, Event, EventMask, Instant,
    Limits, MAX_HEADER_LEN, MAX_PORTS, ModifyError, OwnedStorage, Pd, PeerConfig, PeerHandle, PlanePath, PortConfig,
    PortMask, ProfileState, QpHandle, QpInit, Route, RtrAttr, RtsAttr, SendWr, TableError,
};
use mrc_wire::{Body, Ev, Ip, PortNum, Psn, Qpn, WireConfig, ev::EvField, icrc, parse_frame};

const PORT1: PortNum = PortNum::from_plane(0);
const PORT2: PortNum = PortNum::from_plane(1);
const SECOND: u64 = 1_000_000_000;

fn address(last: u8) -> [u8; 16] {
    let mut octets = [0xFD; 16];
    octets[15] = last;
    octets
}

/// An endpoint with two ports and a peer.
fn alone<R>(route: Route, f: impl FnOnce(&mut Endpoint<'_>, PeerHandle) -> R) -> R {
    let limits = Limits { evs: 16, active_evs: 16, profile_evs: 16, ev_profiles: 2, ..Limits::default() };
    let mut storage = OwnedStorage::new(limits).unwrap();
    let mut cfg = EndpointConfig { port_update_on_rts: false, ..EndpointConfig::default() };
    cfg.gids[0] = Some(Ip::V6(address(1)));
    let mut planes = [None; MAX_PORTS];
    for (port, plane) in cfg.ports.iter_mut().zip(&mut planes).take(2) {
        *port = Some(PortConfig { mac: [2; 6], sid: None, addr: None });
        *plane = Some(PlanePath { next_hop: [4; 6], outer_src: Some(address(9)) });
    }
    let mut engine = Endpoint::new(cfg, storage.lend(), 1).unwrap();
    let (local, remote) = (Ip::V6(address(1)), Ip::V6(address(2)));
    let peer = engine.add_peer(&PeerConfig { local, remote, planes, route, hop_limit: 64 }).unwrap();
    f(&mut engine, peer)
}

fn bits(bytes: &[u8]) -> [u8; 32] {
    let mut value = [0; 32];
    value[..bytes.len()].copy_from_slice(bytes);
    value
}

fn stev() -> EvProfileConfig<'static> {
    EvProfileConfig {
        mode: EvMode::Explicit,
        format: EvFormat::new(FormatMode::Stev, &[16, 16]).unwrap(),
        fields: &[],
        count: 4,
        min_active: 0,
        events: EvEventMask::default(),
        paths: &[],
    }
}

fn qp(engine: &mut Endpoint<'_>) -> QpHandle {
    let cq = engine.create_cq().unwrap();
    let qp = engine.create_qp(&QpInit { pd: Pd(0), send_cq: cq, recv_cq: cq }).unwrap();
    engine.modify_to_init(qp).unwrap();
    qp
}

//= PROF-001, PROF-002, PROF-005, PROF-006 test
#[test]
fn a_profile_lives_from_init_to_online_and_back() {
    use ProfileState::{Init, Offline, Online};
    alone(Route::Plain, |engine, peer| {
        let profile = engine.open_ev_profile(7).unwrap();
        let state = |engine: &Endpoint<'_>| engine.ev_profile_info(profile).unwrap().state;
        let qp = qp(engine);
        let rtr = RtrAttr::software(peer, Qpn::new(77), Psn::new(0), profile);
        let refused = |from, to| Err(ProfileError::State { from, to });
        assert_eq!(state(engine), Init);
        for to in [Online, Offline, Init] {
            assert_eq!(engine.set_ev_profile_state(profile, to), refused(Init, to));
        }
        let auto = EvProfileConfig { mode: EvMode::Auto, format: EvFormat::UDP, count: 16, ..stev() };
        engine.configure_ev_profile(profile, &auto).unwrap();
        assert_eq!(state(engine), Offline);
        let missing = Err(ModifyError::Missing("EV profile"));
        assert_eq!(engine.modify_to_rtr(Instant::ZERO, qp, &rtr), missing, "a QP binds to an ONLINE profile only");
        engine.set_ev_profile_state(profile, Online).unwrap();
        assert_eq!(engine.set_ev_profile_state(profile, Init), refused(Online, Init));
        assert_eq!(engine.configure_ev_profile(profile, &auto), refused(Online, Offline), "its size is fixed");

        engine.modify_to_rtr(Instant::ZERO, qp, &rtr).unwrap();
        let busy = Err(ProfileError::Busy { users: 1 });
        assert_eq!(engine.set_ev_profile_state(profile, Offline), busy);
        assert_eq!(engine.destroy_ev_profile(profile), busy);
        assert_eq!(engine.ev_profile_info(profile).unwrap().users, 1);
        engine.modify_to_reset(qp).unwrap();
        engine.set_ev_profile_state(profile, Offline).unwrap();
        // OFFLINE it may change, and go back all the way.
        engine.configure_ev_profile(profile, &EvProfileConfig { count: 8, ..auto }).unwrap();
        assert_eq!(engine.ev_profile_info(profile).unwrap().count, 8);
        engine.set_ev_profile_state(profile, Init).unwrap();
        engine.destroy_ev_profile(profile).unwrap();
        assert_eq!(engine.ev_profile_info(profile), None);
        assert_eq!(engine.destroy_ev_profile(profile), Err(ProfileError::Unknown));
        // Two slots, taken and given back.
        for _ in 0..3 {
            let both = [engine.open_ev_profile(1).unwrap(), engine.open_ev_profile(2).unwrap()];
            assert_eq!(engine.open_ev_profile(3), Err(TableError::Full("EV profile")));
            for profile in both {
                engine.destroy_ev_profile(profile).unwrap();
            }
        }
    });
}

#[test]
fn configurations_that_make_no_sense_are_refused() {
    alone(Route::Plain, |engine, _| {
        let profile = engine.open_ev_profile(0).unwrap();
        let mut refuse = |config: EvProfileConfig<'_>| engine.configure_ev_profile(profile, &config).unwrap_err();
        assert_eq!(refuse(EvProfileConfig { count: 0, ..stev() }), ProfileError::Size { entries: 0 });
        assert_eq!(refuse(EvProfileConfig { count: 17, ..stev() }), ProfileError::Size { entries: 17 });
        engine.configure_ev_profile(profile, &EvProfileConfig { min_active: 4, ..stev() }).unwrap();
        let profile = engine.open_ev_profile(0).unwrap();
        let mut refuse = |config: EvProfileConfig<'_>| engine.configure_ev_profile(profile, &config).unwrap_err();
        let most = ProfileError::MinActive { min_active: 5, count: 4 };
        assert_eq!(refuse(EvProfileConfig { min_active: 5, ..stev() }), most);
        assert_eq!(refuse(EvProfileConfig { mode: EvMode::Generated, ..stev() }), ProfileError::NoFields);
        let narrow = [EvField { width: 16, init_val: 0, min_val: 0, max_val: 2, mask: 3 }];
        let few = ProfileError::TooFew { have: 3, need: 4 };
        assert_eq!(refuse(EvProfileConfig { mode: EvMode::Generated, fields: &narrow, ..stev() }), few);
        let wide = [EvField::fixed(17, 0)];
        assert!(matches!(refuse(EvProfileConfig { fields: &wide, ..stev() }), ProfileError::Field(_)));
        assert_eq!(engine.ev_profile_info(profile).unwrap().state, ProfileState::Init, "nothing changed");
        engine.destroy_ev_profile(profile).unwrap();
        let (near, far) = (EvEntry::new(Ev(1), PORT1), EvEntry::new(Ev(1), PortNum::from_plane(2)));
        let refused = Err(TableError::Range("EV profile entries"));
        for entries in [&[][..], &[far], &[near, far]] {
            assert_eq!(engine.create_ev_profile(entries), refused, "{entries:?}");
        }
        assert_eq!(engine.create_ev_profile(&[near; 17]), Err(TableError::Range("EV profile size")));
        // Its values are those of an application, and no controller's.
        let profile = engine.create_ev_profile(&[near; 16]).unwrap();
        engine.set_ev_profile_state(profile, ProfileState::Offline).unwrap();
        let old = engine.query_evs(profile, 0, &mut [EvReport::EMPTY]);
        assert_eq!(old, Ok(16));
        let spec = EvSpec { value: bits(&[0, 0, 0, 1]), port: Some(PORT1) };
        let replaced = engine.replace_ev(profile, &spec, &spec, EvState::Good, false);
        assert_eq!(replaced, Err(ProfileError::NotExplicit));
    });
}

/// AUTO values are a permutation of the 16-bit space with the ports in turn, where the deployment sets no other format. Of a wider
/// format they use every bit.
//= PROF-002, GENEV-004 test
#[test]
fn an_auto_profile_uses_all_bits_of_its_format() {
    alone(Route::Plain, |engine, _| {
        let profile = engine.open_ev_profile(77).unwrap();
        let mut specs = |format| {
            let config = EvProfileConfig { mode: EvMode::Auto, format, count: 16, ..stev() };
            engine.configure_ev_profile(profile, &config).unwrap();
            let mut reports = [EvReport::EMPTY; 16];
            assert_eq!(engine.query_evs(profile, 0, &mut reports), Ok(16));
            for (report, port) in reports.iter().zip([PORT1, PORT2].into_iter().cycle()) {
                assert_eq!(report.ev.port, Some(port));
            }
            reports.map(|report| report.ev)
        };
        let mut entries = [EvEntry::new(Ev(0), PORT1); 16];
        auto_profile(&mut entries, 2, 16, 77).unwrap();
        let named = |entry: EvEntry| EvSpec { value: bits(&(entry.ev.0 as u16).to_be_bytes()), port: Some(entry.port) };
        assert_eq!(specs(EvFormat::UDP), entries.map(named));
        let wide = specs(EvFormat::new(FormatMode::Stev, &[16, 16]).unwrap());
        for byte in 0..4 {
            let values: std::collections::BTreeSet<_> = wide.iter().map(|spec| spec.value[byte]).collect();
            assert!(values.len() > 8, "byte {byte}: {values:?}");
        }
    });
}

/// The peer hears of our ports as long as a QP uses it, whichever QP came first: the paths of a profile that is gone are replaced by
/// those of another.
//= EPOP-006 test
#[test]
fn a_peer_hears_of_our_ports_when_the_profile_of_its_first_queue_pair_is_gone() {
    for destroyed in [false, true] {
        alone(Route::Plain, |engine, peer| {
            let profiles = [0x100, 0x200].map(|base| {
                let entries = [EvEntry::new(Ev(base), PORT1), EvEntry::new(Ev(base + 1), PORT2)];
                engine.create_ev_profile(&entries).unwrap()
            });
            let qps = profiles.map(|profile| {
                let qp = qp(engine);
                let rtr = RtrAttr::software(peer, Qpn::new(9), Psn::new(0), profile);
                engine.modify_to_rtr(Instant::ZERO, qp, &rtr).unwrap();
                qp
            });
            engine.destroy_qp(qps[0]).unwrap();
            if destroyed {
                engine.destroy_ev_profile(profiles[0]).unwrap();
            } else {
                engine.set_ev_profile_state(profiles[0], ProfileState::Offline).unwrap();
            }
            engine.set_port(Instant::ZERO, PORT2, false);
            let mut out = [0; MAX_HEADER_LEN];
            let tx = engine.poll_transmit(Instant::ZERO, PortMask::ALL, &mut out).expect("an update");
            let frame = [&out[..tx.header_len], &[0; 4]].concat();
            let parsed = parse_frame(&frame, tx.frame_len(), &WireConfig::default(), |_| true).unwrap();
            assert!(matches!(parsed.body, Body::EndpointRequest(_)), "{:?}", parsed.body);
            assert_eq!((tx.port, parsed.entropy), (PORT1, Ev(0x200)));
        });
    }
}

//= PROF-002 test
#[test]
fn an_auto_profile_takes_the_paths_of_a_driver_that_knows_them() {
    // Format and fields have no meaning then.
    for format in [stev().format, EvFormat::UDP] {
        alone(Route::Plain, |engine, _| takes_paths(engine, EvProfileConfig { format, ..stev() }));
    }
}

fn takes_paths(engine: &mut Endpoint<'_>, config: EvProfileConfig<'_>) {
    let profile = engine.open_ev_profile(3).unwrap();
    let paths = [(0x000, PORT1), (0x100, PORT2), (0x001, PORT1)].map(|(ev, port)| EvEntry::new(Ev(ev), port));
    let auto = EvProfileConfig { mode: EvMode::Auto, count: 2, paths: &paths, ..config };
    engine.configure_ev_profile(profile, &EvProfileConfig { count: 3, ..auto }).unwrap();
    let few = Err(ProfileError::TooFew { have: 3, need: 4 });
    assert_eq!(engine.configure_ev_profile(profile, &EvProfileConfig { count: 4, ..auto }), few);
    assert_eq!(engine.ev_profile_info(profile).unwrap().count, 3, "as before");
    let astray = [EvEntry::new(Ev(1), PortNum::from_plane(5)); 2];
    let refused = engine.configure_ev_profile(profile, &EvProfileConfig { paths: &astray, ..auto });
    assert_eq!(refused, Err(ProfileError::Port { index: 0, port: 6 }));
    // Only an AUTO profile has a use for them.
    engine.configure_ev_profile(profile, &EvProfileConfig { mode: EvMode::Explicit, ..auto }).unwrap();
    let mut reports = [EvReport::EMPTY; 2];
    assert_eq!(engine.query_evs(profile, 0, &mut reports), Ok(2));
    assert_eq!(reports[0].ev, EvSpec::UNPOPULATED);

    engine.configure_ev_profile(profile, &auto).unwrap();
    assert_eq!(engine.query_evs(profile, 0, &mut reports), Ok(2));
    let specs = [([0, 0, 0, 0], PORT1), ([0, 0, 1, 0], PORT2)];
    assert_eq!(reports.map(|report| report.ev), specs.map(|(ev, port)| EvSpec { value: bits(&ev), port: Some(port) }));
    let denied = engine.set_ev_state(Instant::ZERO, profile, &reports[1].ev, EvState::Denied, false);
    assert_eq!(denied, Ok(()));

    engine.set_ev_min_active(profile, 2).unwrap();
    let info = engine.ev_profile_info(profile).unwrap();
    assert_eq!((info.mode, info.min_active, info.state), (EvMode::Auto, 2, ProfileState::Offline));
    assert_eq!(engine.query_ev_state(profile, &reports[1].ev), Ok(EvState::Denied), "the entries stay");
    let most = Err(ProfileError::MinActive { min_active: 3, count: 2 });
    assert_eq!(engine.set_ev_min_active(profile, 3), most);
    engine.set_ev_profile_state(profile, ProfileState::Online).unwrap();
    let online = Err(ProfileError::State { from: ProfileState::Online, to: ProfileState::Offline });
    assert_eq!(engine.set_ev_min_active(profile, 1), online);
}

//= PROF-003, EXP-005, EV-015, DENY-001, SET-005 test
#[test]
fn a_controller_programs_an_explicit_profile_entry_by_entry() {
    alone(Route::Plain, |engine, peer| {
        let profile = engine.open_ev_profile(0).unwrap();
        engine.configure_ev_profile(profile, &stev()).unwrap();
        let spec = |value: u32, port| EvSpec { value: bits(&value.to_be_bytes()), port: Some(port) };
        let good = EvState::Good;
        let online = |engine: &mut Endpoint<'_>| engine.set_ev_profile_state(profile, ProfileState::Online);
        for (n, port) in [PORT1, PORT2, PORT1].into_iter().enumerate() {
            assert_eq!(online(engine), Err(ProfileError::Unpopulated { index: n }));
            engine.replace_ev(profile, &EvSpec::UNPOPULATED, &spec(0x10 + n as u32, port), good, false).unwrap();
        }
        let empty = EvSpec::UNPOPULATED;
        let none = EvSpec { port: None, ..spec(1, PORT1) };
        assert_eq!(
            engine.replace_ev(profile, &empty, &none, good, false),
            Err(ProfileError::Port { index: 0, port: 0 })
        );
        let far = spec(1, PortNum::from_plane(5));
        assert_eq!(
            engine.replace_ev(profile, &empty, &far, good, false),
            Err(ProfileError::Port { index: 0, port: 6 })
        );
        let stray = EvSpec { value: bits(&[0, 0, 0, 1, 1]), port: Some(PORT1) };
        assert!(matches!(engine.replace_ev(profile, &empty, &stray, good, false), Err(ProfileError::Field(_))));
        for state in [EvState::AssumedBad, EvState::Skip] {
            let refused = engine.replace_ev(profile, &empty, &spec(1, PORT1), state, false);
            assert_eq!(refused, Err(ProfileError::EvState));
        }
        assert_eq!(
            engine.replace_ev(profile, &spec(0x99, PORT1), &empty, good, false),
            Err(ProfileError::Port { index: 0, port: 0 })
        );
        assert_eq!(
            engine.replace_ev(profile, &spec(0x99, PORT1), &spec(1, PORT1), good, false),
            Err(ProfileError::NoSuchEv)
        );
        // The same value twice on one port: a copy. One of the two becomes another one, denied.
        engine.replace_ev(profile, &empty, &spec(0x10, PORT1), good, false).unwrap();
        engine.replace_ev(profile, &spec(0x10, PORT1), &spec(0x20, PORT2), EvState::Denied, false).unwrap();
        online(engine).unwrap();
        assert_eq!(
            engine.replace_ev(profile, &spec(0x20, PORT2), &spec(1, PORT1), good, false),
            Err(ProfileError::State { from: ProfileState::Online, to: ProfileState::Offline })
        );
        let mut out = [EvReport::EMPTY; 3];
        assert_eq!(engine.query_evs(profile, 0, &mut out), Ok(4), "more than fit");
        let want = [(spec(0x20, PORT2), EvState::Denied), (spec(0x11, PORT2), good), (spec(0x12, PORT1), good)];
        assert_eq!(out, want.map(|(ev, state)| EvReport { ev, state }));
        assert_eq!(engine.query_evs(profile, 3, &mut out), Ok(1));
        assert_eq!(out[0].ev, spec(0x10, PORT1));
        assert_eq!(engine.query_ev_state(profile, &spec(0x20, PORT2)), Ok(EvState::Denied));
        assert_eq!(engine.query_ev_state(profile, &spec(0x21, PORT2)), Err(ProfileError::NoSuchEv));

        // A QP draws what is not denied.
        let qp = qp(engine);
        engine.modify_to_rtr(Instant::ZERO, qp, &RtrAttr::software(peer, Qpn::new(9), Psn::new(0), profile)).unwrap();
        engine.modify_to_rts(Instant::ZERO, qp, &RtsAttr::software(Psn::new(0))).unwrap();
        let evs = engine.qp_info(qp).unwrap().evs;
        assert_eq!((evs.good, evs.denied), (3, 1));
    });
}

//= MAP-005, MAP-006, SRH-001 test
#[test]
fn routed_evs_are_destination_and_segment_as_they_stand() {
    for (widths, segment) in [(&[32u8, 16, 16, 16][..], false), (&[32, 32, 32, 32, 16, 16][..], true)] {
        alone(Route::Srv6Entry, |engine, peer| {
            let profile = engine.open_ev_profile(3).unwrap();
            let mut fields = vec![EvField::fixed(widths[0], 0xFC00_0001)];
            let last = widths.len() - 1;
            fields.extend(widths[1..last].iter().map(|&width| EvField::fixed(width, 0x6011)));
            fields.push(EvField { width: widths[last], init_val: 0x7000, min_val: 1, max_val: 12, mask: 0xF });
            let format = EvFormat::new(FormatMode::Srv6, widths).unwrap();
            let config = EvProfileConfig { mode: EvMode::Generated, format, fields: &fields, count: 12, ..stev() };
            engine.configure_ev_profile(profile, &config).unwrap();
            engine.set_ev_profile_state(profile, ProfileState::Online).unwrap();

            // Another route, or another format, does not fit.
            let plain = engine.open_ev_profile(4).unwrap();
            let auto = EvProfileConfig { mode: EvMode::Auto, format: EvFormat::UDP, ..stev() };
            engine.configure_ev_profile(plain, &auto).unwrap();
            engine.set_ev_profile_state(plain, ProfileState::Online).unwrap();
            let qp = qp(engine);
            let rtr = |profile| RtrAttr::software(peer, Qpn::new(9), Psn::new(0), profile);
            assert_eq!(engine.modify_to_rtr(Instant::ZERO, qp, &rtr(plain)), Err(ModifyError::Range("EV format")));
            engine.modify_to_rtr(Instant::ZERO, qp, &rtr(profile)).unwrap();
            engine.modify_to_rts(Instant::ZERO, qp, &RtsAttr::software(Psn::new(0))).unwrap();

            let mut seen = std::collections::BTreeSet::new();
            for _ in 0..12 {
                let wr = SendWr { signaled: true, ..SendWr::default() };
                engine.post_send(Instant::ZERO, qp, &wr).unwrap();
                let mut out = [0; MAX_HEADER_LEN];
                let tx = engine.poll_transmit(Instant::ZERO, PortMask::ALL, &mut out).unwrap();
                let mut expanded: Vec<u8> = out[38..54].to_vec();
                assert_eq!(tx.l3_offset, if segment { 54 + 24 } else { 54 });
                if segment {
                    assert_eq!((out[20], &out[54..58]), (43, &[41, 2, 4, 1][..]), "one segment, and it is left");
                    expanded.extend(&out[62..78]);
                } else {
                    assert_eq!(out[20], 41);
                }
                let bytes = widths.iter().map(|&width| usize::from(width) / 8).sum::<usize>();
                assert_eq!(
                    &expanded[..6],
                    [0xFC, 0, 0, 1, if segment { 0 } else { 0x60 }, if segment { 0 } else { 0x11 }]
                );
                let digit = u16::from_be_bytes([expanded[bytes - 2], expanded[bytes - 1]]);
                assert!((0x7001..=0x700C).contains(&digit), "{expanded:x?}");
                assert!(expanded[bytes..].iter().all(|&byte| byte == 0));
                // The inner packet is a whole MRC packet; its EV is the handle: the index of the entry.
                let mut inner = out[..14].to_vec();
                inner.extend(&out[tx.l3_offset..tx.header_len]);
                inner.extend(icrc::compute(&out[tx.l3_offset..tx.header_len]).unwrap());
                let frame = parse_frame(&inner, inner.len(), &WireConfig::default(), |_| true).unwrap();
                assert!(frame.entropy.0 < 12 && frame.entropy == tx.ev);
                let mut report = [EvReport::EMPTY];
                engine.query_evs(profile, frame.entropy.0 as u16, &mut report).unwrap();
                assert_eq!(report[0].ev, EvSpec { value: bits(&[(digit as u8 & 0xF) << 4]), port: Some(tx.port) });
                seen.insert((digit, frame.entropy));
            }
            assert_eq!(seen.len(), 12, "each entry once in a rotation");
        });
    }
}

/// The spec of an entry of the harness's profile, which holds EVs as they are on the wire.
fn entry(ev: Ev, port: PortNum) -> EvSpec {
    EvSpec { value: bits(&ev.0.to_be_bytes()), port: Some(port) }
}

/// Runs messages of side 0 until `done`; each of 50 packets.
fn messages(net: &mut Net<'_>, qp: usize, most: usize, mut done: impl FnMut(&Net<'_>) -> bool) -> bool {
    for _ in 0..most {
        if done(net) {
            return true;
        }
        let before = net.sides[0].completions.len();
        net.post(qp, 0, 0, 50_000).unwrap();
        assert!(net.run(net.now.as_nanos() + SECOND, |net| net.completed(before + 1)));
    }
    done(net)
}

//= EV-014, DENY-001, BAL-005, SET-003 test
#[test]
fn a_denied_ev_carries_nothing_until_it_is_allowed_again() {
    net(1, &Setup { qps: 2, ..Setup::default() }, Weather::default(), |net| {
        messages(net, 0, 5, |_| false);
        let denied = [(Ev(3), PORT1), (Ev(0x105), PORT2)];
        for side in 0..2 {
            let profile = net.sides[side].profile.unwrap();
            for (ev, port) in denied {
                let engine = &mut net.sides[side].engine;
                engine.set_ev_state(net.now, profile, &entry(ev, port), EvState::Denied, true).unwrap();
                assert_eq!(engine.query_ev_state(profile, &entry(ev, port)), Ok(EvState::Denied));
            }
        }
        // What was on its way arrives; from now on neither data nor answers use them.
        net.run(net.now.as_nanos() + 1_000_000, |_| false);
        net.used.clear();
        for qp in [0, 1, 0, 1] {
            messages(net, qp, 10, |_| false);
        }
        assert!(net.used.len() > 12, "{:?}", net.used);
        assert!(denied.iter().all(|&(ev, _)| !net.used.keys().any(|&(_, used)| used == ev)), "{:?}", net.used);
        let counts = net.sides[0].info(1).evs;
        assert_eq!((counts.denied, counts.active), (2, 14));
        let profile = net.sides[0].profile.unwrap();
        let engine = &mut net.sides[0].engine;
        let refused = engine.set_ev_state(net.now, profile, &entry(Ev(4), PORT1), EvState::AssumedBad, true);
        assert_eq!(refused, Err(ProfileError::EvState));
        let unknown = engine.set_ev_state(net.now, profile, &entry(Ev(4), PORT2), EvState::Denied, true);
        assert_eq!(unknown, Err(ProfileError::NoSuchEv));
        for (ev, port) in denied {
            engine.set_ev_state(net.now, profile, &entry(ev, port), EvState::Good, true).unwrap();
        }
        net.used.clear();
        for qp in [0, 1] {
            messages(net, qp, 10, |_| false);
        }
        assert!(denied.iter().all(|&(ev, _)| net.used.contains_key(&(0, ev))));
        // A whole plane of the profile.
        let engine = &mut net.sides[0].engine;
        for uplink in 0..8 {
            engine.set_ev_state(net.now, profile, &entry(Ev(0x100 + uplink), PORT2), EvState::Denied, true).unwrap();
        }
        net.run(net.now.as_nanos() + 1_000_000, |_| false);
        let before = net.sides[0].engine.stats().ports[1].tx_packets;
        messages(net, 0, 10, |_| false);
        assert_eq!(net.sides[0].engine.stats().ports[1].tx_packets, before);
    });
}

/// A command means the queue pairs of its profile, though others have entries with the same number and value.
//= SET-003, DENY-001 test
#[test]
fn a_command_leaves_the_queue_pairs_of_other_profiles_alone() {
    net(1, &Setup { qps: 2, ..Setup::default() }, Weather::default(), |net| {
        let (now, qp) = (net.now, net.sides[0].qps[0]);
        let engine = &mut net.sides[0].engine;
        let paths: Vec<_> =
            (0..16).map(|nth| (Ev((nth / 2) | ((nth % 2) << 8)), if nth % 2 == 0 { PORT1 } else { PORT2 })).collect();
        let entries: Vec<_> = paths.iter().map(|&(ev, port)| EvEntry::new(ev, port)).collect();
        let other = engine.create_ev_profile(&entries).unwrap();
        for (state, all) in [(EvState::Denied, true), (EvState::Good, true), (EvState::Denied, false)] {
            for &(ev, port) in &paths {
                engine.set_ev_state(now, other, &entry(ev, port), state, all).unwrap();
                assert_eq!(engine.query_ev_state(other, &entry(ev, port)), Ok(state));
            }
            assert_eq!(engine.qp_info(qp).unwrap().evs.denied, 0);
        }
    });
}

//= SET-003, SET-004 test
#[test]
fn bad_evs_are_a_matter_of_one_qp_unless_shared() {
    // What is only skipped is not bad.
    let weather = Weather { mark: 500, ..Weather::default() };
    net(2, &Setup { qps: 2, share_bad: true, ..Setup::default() }, weather, |net| {
        assert!(messages(net, 0, 50, |net| net.sides[0].engine.stats().ev_skipped > 8));
        messages(net, 1, 20, |_| false);
        let stats = net.sides[0].engine.stats();
        assert_eq!((stats.ev_learned_bad, stats.ev_assumed_bad), (0, 0));
    });
    for share_bad in [false, true] {
        let weather = Weather { black_hole: Some(Ev(0x103)), ..Weather::default() };
        net(2, &Setup { qps: 2, share_bad, ..Setup::default() }, weather, |net| {
            let bad = |net: &Net<'_>, qp: usize| net.sides[0].info(qp).evs.assumed_bad;
            assert!(messages(net, 0, 200, |net| bad(net, 0) == 1));
            assert_eq!(bad(net, 1), 0, "nobody told it yet");
            // Seen from the profile, the EV is bad, and the others are good, skipped or not.
            let profile = net.sides[0].profile.unwrap();
            let mut out = [EvReport::EMPTY; 16];
            assert_eq!(net.sides[0].engine.query_evs(profile, 0, &mut out), Ok(16));
            for report in out {
                let dead = report.ev == entry(Ev(0x103), PORT2);
                assert_eq!(report.state, if dead { EvState::AssumedBad } else { EvState::Good });
            }
            // The QPs of a profile say nothing about another one.
            let entries: Vec<_> = (0..16).map(|ev| EvEntry::new(Ev(ev), PORT2)).collect();
            let other = net.sides[0].engine.create_ev_profile(&entries).unwrap();
            assert_eq!(net.sides[0].engine.query_evs(other, 0, &mut out), Ok(16));
            assert!(out.iter().all(|report| report.state == EvState::Good), "{out:?}");
            net.run(net.now.as_nanos() + 100_000, |_| false);
            let lost = net.sides[0].engine.stats().retransmitted;
            net.used.clear();
            let mut messages_sent = 0;
            while net.used.get(&(0, Ev(0x103))).is_none_or(|&n| n == 0) && messages_sent < 20 {
                messages_sent += 1;
                messages(net, 1, 1, |_| false);
            }
            let stats = net.sides[0].engine.stats();
            if share_bad {
                assert_eq!((bad(net, 1), stats.ev_learned_bad), (1, 1));
                let learner = net.sides[0].qps[1].qpn();
                let learned = net.sides[0].events.iter().find_map(|event| match event {
                    Event::Ev { qp, transition } if *qp == learner => {
                        Some((transition.ev, transition.to, transition.cause))
                    }
                    _ => None,
                });
                assert_eq!(learned, Some((Ev(0x103), EvState::AssumedBad, None)), "the network told it nothing");
                assert_eq!(stats.retransmitted, lost, "it lost a packet on an EV that it could have known");
            } else {
                assert_eq!(stats.ev_learned_bad, 0);
                assert!(stats.retransmitted > lost);
            }
        });
    }
}

/// Each EV that a QP found bad is learned, whichever came first, and no other one.
//= SET-003 test
#[test]
fn every_shared_bad_ev_is_learned() {
    net(2, &Setup { qps: 2, share_bad: true, ..Setup::default() }, Weather::default(), |net| {
        let bad = [Ev(0x103), Ev(2), Ev(0x106)];
        net.dead_ways.extend(bad.map(|ev| (0, ev)));
        assert!(messages(net, 0, 400, |net| net.sides[0].info(0).evs.assumed_bad == 3));
        let (learner, lost) = (net.sides[0].qps[1].qpn(), net.sides[0].engine.stats().retransmitted);
        messages(net, 1, 10, |_| false);
        let mut learned: Vec<_> = net.sides[0]
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Ev { qp, transition } if *qp == learner => Some(transition.ev),
                _ => None,
            })
            .collect();
        learned.sort_unstable();
        assert_eq!(learned, [Ev(2), Ev(0x103), Ev(0x106)]);
        assert_eq!(net.sides[0].engine.stats().retransmitted, lost);
    });
}

/// An idle queue pair probes its bad EVs eight times more rarely. With data to send it probes at once what is due by then.
//= RES-004 test
#[test]
fn a_queue_pair_with_data_again_probes_its_bad_evs_at_full_rate() {
    let dead = Ev(0x103);
    net(2, &Setup::default(), Weather { black_hole: Some(dead), ..Weather::default() }, |net| {
        assert!(messages(net, 0, 200, |net| net.sides[0].info(0).evs.assumed_bad == 1));
        let probes = |net: &Net<'_>| net.used.get(&(0, dead)).copied().unwrap_or(0);
        let mut next_probe = || {
            let before = probes(net);
            assert!(net.run(u64::MAX, |net| probes(net) > before));
            net.now.as_nanos()
        };
        // The first ones come closer to each other than answers may take.
        let [.., first, second] = [(); 8].map(|()| next_probe());
        let (until, sent) = (second + (second - first) / 2, probes(net));
        assert!(!net.run(until, |net| probes(net) > sent), "half of the time that it waited before");
        // The timer of packets is due much later.
        net.weather.delay_ns = 100_000;
        net.post(0, 0, 0, 1_000).unwrap();
        assert!(net.run(until + 50_000, |net| probes(net) > sent), "while the write is in flight");
    });
}

//= EVT-001, EVT-002, EVT-003 test
#[test]
fn a_profile_raises_the_events_it_is_asked_for() {
    let both = EvEventMask { good: true, assumed_bad: true };
    let weather = Weather { black_hole: Some(Ev(0x103)), ..Weather::default() };
    for mask in
        [EvEventMask::default(), EvEventMask { good: false, ..both }, EvEventMask { assumed_bad: false, ..both }, both]
    {
        net(3, &Setup { events: EventMask::NONE, ..Setup::default() }, weather, |net| {
            let profile = net.sides[0].profile.unwrap();
            net.sides[0].engine.set_ev_events(profile, mask).unwrap();
            assert!(messages(net, 0, 200, |net| net.sides[0].info(0).evs.assumed_bad == 1));
            net.weather.black_hole = None;
            let until = net.now.as_nanos() + 5 * SECOND;
            assert!(net.run(until, |net| net.sides[0].info(0).evs.assumed_bad == 0));
            let told: Vec<_> = net.sides[0]
                .events
                .iter()
                .map(|event| match *event {
                    Event::EvProfile { profile: from, entry, ev, port, state, dropped } => {
                        assert_eq!((from, ev, port, dropped), (profile, Ev(0x103), PORT2, 0));
                        assert_eq!(entry, 7, "the entry of the compact profile");
                        state
                    }
                    ref other => panic!("{other:?} was not asked for"),
                })
                .collect();
            let want = [(mask.assumed_bad, EvState::AssumedBad), (mask.good, EvState::Good)];
            assert_eq!(
                told,
                want.into_iter().filter(|(wanted, _)| *wanted).map(|(_, state)| state).collect::<Vec<_>>()
            );
        });
    }
}

//= EVT-002, EVT-003 test
#[test]
fn events_that_do_not_fit_are_counted_in_the_next_and_equal_ones_merge() {
    net(4, &Setup { events: EventMask::NONE, event_slots: 2, ..Setup::default() }, Weather::default(), |net| {
        let profile = net.sides[0].profile.unwrap();
        let engine = &mut net.sides[0].engine;
        engine.set_ev_events(profile, EvEventMask { good: true, assumed_bad: true }).unwrap();
        // Every EV of plane 1 is denied and allowed again: eight events into GOOD, two of which fit.
        let flip = |engine: &mut Endpoint<'_>, now, uplink: u32| {
            let ev = entry(Ev(uplink), PORT1);
            engine.set_ev_state(now, profile, &ev, EvState::Denied, true).unwrap();
            engine.set_ev_state(now, profile, &ev, EvState::Good, true).unwrap();
        };
        for uplink in 0..8 {
            flip(engine, net.now, uplink);
        }
        let drops = |engine: &mut Endpoint<'_>| -> Vec<u32> {
            let all = std::iter::from_fn(|| engine.poll_event());
            all.map(|event| if let Event::EvProfile { dropped, .. } = event { dropped } else { panic!() }).collect()
        };
        assert_eq!(drops(engine), [0, 0]);
        flip(engine, net.now, 3);
        assert_eq!(drops(engine), [6], "those that did not fit");
        assert_eq!(engine.stats().events_lost, 6);
        // The same again within a millisecond is the same event; later it is another.
        flip(engine, net.now, 3);
        assert_eq!((drops(engine), engine.stats().ev_events_merged), (vec![], 1));
        net.now = net.now.after(1_000_000);
        flip(engine, net.now, 3);
        assert_eq!(drops(engine), [0]);
    });
}

//= BAL-002 test
#[test]
fn a_profile_keeps_its_least_number_of_evs_active() {
    for min_active in [0, 6] {
        alone(Route::Plain, |engine, peer| {
            let profile = engine.open_ev_profile(1).unwrap();
            let config = EvProfileConfig { mode: EvMode::Auto, format: EvFormat::UDP, count: 8, min_active, ..stev() };
            engine.configure_ev_profile(profile, &config).unwrap();
            engine.set_ev_profile_state(profile, ProfileState::Online).unwrap();
            let qp = qp(engine);
            engine
                .modify_to_rtr(Instant::ZERO, qp, &RtrAttr::software(peer, Qpn::new(9), Psn::new(0), profile))
                .unwrap();
            let mut rts = RtsAttr::software(Psn::new(0));
            rts.retry.timeout = 1;
            rts.retry.exponential = 25;
            engine.modify_to_rts(Instant::ZERO, qp, &rts).unwrap();
            // Nobody answers: every packet that times out takes its EV with it.
            let mut now = Instant::ZERO;
            let wr = SendWr { signaled: true, ..SendWr::default() };
            for _ in 0..64 {
                engine.post_send(now, qp, &wr).unwrap();
            }
            let mut out = [0; MAX_HEADER_LEN];
            for _ in 0..2_000 {
                while let Some(tx) = engine.poll_transmit(now, PortMask::ALL, &mut out) {
                    let frame = out[..tx.header_len].to_vec();
                    let parsed =
                        parse_frame(&[&frame[..], &[0; 4]].concat(), tx.frame_len(), &WireConfig::default(), |_| true);
                    assert!(matches!(parsed.unwrap().body, Body::Write { .. } | Body::Probe(_)));
                }
                now = engine.next_timeout().map_or(now, |at| now.max(at));
                engine.handle_timeout(now);
            }
            let evs = engine.qp_info(qp).unwrap().evs;
            assert_eq!(evs.active, if min_active == 0 { 1 } else { min_active }, "{evs:?}");
        });
    }
}

/// A profile may hold copies of an EV, which carry more of the packets than others. A command is for one of them, or with `all` for
/// each; a QP blames the copy that it used.
//= PROF-003, EV-014, EV-018 test
#[test]
fn a_profile_may_hold_copies_of_an_ev() {
    alone(Route::Plain, |engine, peer| {
        let profile = engine.open_ev_profile(0).unwrap();
        engine.configure_ev_profile(profile, &stev()).unwrap();
        let spec = |value: u32| EvSpec { value: bits(&value.to_be_bytes()), port: Some(PORT1) };
        for value in [7, 7, 8, 7] {
            engine.replace_ev(profile, &EvSpec::UNPOPULATED, &spec(value), EvState::Good, false).unwrap();
        }
        engine.set_ev_profile_state(profile, ProfileState::Online).unwrap();
        let qp = qp(engine);
        engine.modify_to_rtr(Instant::ZERO, qp, &RtrAttr::software(peer, Qpn::new(9), Psn::new(0), profile)).unwrap();
        engine.modify_to_rts(Instant::ZERO, qp, &RtsAttr::software(Psn::new(0))).unwrap();
        let states = |engine: &mut Endpoint<'_>| {
            let mut out = [EvReport::EMPTY; 4];
            engine.query_evs(profile, 0, &mut out).unwrap();
            let evs = engine.qp_info(qp).unwrap().evs;
            (out.map(|report| report.state), evs.good, evs.denied)
        };
        let (good, denied) = (EvState::Good, EvState::Denied);
        assert_eq!(states(engine), ([good; 4], 4, 0));
        engine.set_ev_state(Instant::ZERO, profile, &spec(7), denied, false).unwrap();
        assert_eq!(states(engine), ([denied, good, good, good], 3, 1));
        engine.set_ev_state(Instant::ZERO, profile, &spec(7), denied, true).unwrap();
        assert_eq!(states(engine), ([denied, denied, good, denied], 1, 3));
        engine.set_ev_state(Instant::ZERO, profile, &spec(7), good, true).unwrap();
        assert_eq!(states(engine), ([good; 4], 4, 0));
    });
}

/// The slot of a QP keeps its EVs for the next QP in it, but not those of a profile that has changed meanwhile.
//= DENY-001 test
#[test]
fn a_queue_pair_in_a_used_slot_has_no_ev_that_was_denied_meanwhile() {
    alone(Route::Plain, |engine, peer| {
        let entries: Vec<_> = (0..4).map(|ev| EvEntry::new(Ev(ev), PORT1)).collect();
        let other: Vec<_> = (4..7).map(|ev| EvEntry::new(Ev(ev), PORT1)).collect();
        let profiles = [entries, other].map(|entries| engine.create_ev_profile(&entries).unwrap());
        let cq = engine.create_cq().unwrap();
        let life = |engine: &mut Endpoint<'_>, profile| {
            let qp = engine.create_qp(&QpInit { pd: Pd(0), send_cq: cq, recv_cq: cq }).unwrap();
            let rtr = RtrAttr::software(peer, Qpn::new(9), Psn::new(0), profile);
            engine.modify_to_init(qp).unwrap();
            engine.modify_to_rtr(Instant::ZERO, qp, &rtr).unwrap();
            engine.modify_to_rts(Instant::ZERO, qp, &RtsAttr::software(Psn::new(0))).unwrap();
            let evs = engine.qp_info(qp).unwrap().evs;
            engine.destroy_qp(qp).unwrap();
            (qp.index(), evs.good, evs.denied, evs.active)
        };
        let [first, second] = profiles;
        assert_eq!([first, first, second, first].map(|profile| life(engine, profile).1), [4, 4, 3, 4]);
        let spec = EvSpec { value: bits(&2u32.to_be_bytes()), port: Some(PORT1) };
        engine.set_ev_state(Instant::ZERO, first, &spec, EvState::Denied, true).unwrap();
        assert_eq!(
            [first, second, first].map(|profile| life(engine, profile)),
            [(0, 3, 1, 3), (0, 3, 0, 3), (0, 3, 1, 3)]
        );
        engine.set_ev_state(Instant::ZERO, first, &spec, EvState::Good, true).unwrap();
        assert_eq!(life(engine, first), (0, 4, 0, 4));
    });
}

/// Where chance decides which EVs a QP has, it decides for each QP anew, whoever had the slot before.
//= SET-001 test
#[test]
fn a_queue_pair_in_a_used_slot_draws_its_own_evs() {
    alone(Route::Plain, |engine, peer| {
        let entries: Vec<_> = (0..16).map(|ev| EvEntry::new(Ev(ev), PORT1)).collect();
        let ev_profile = engine.create_ev_profile(&entries).unwrap();
        let cq = engine.create_cq().unwrap();
        let mut life = |active, backup| {
            let qp = engine.create_qp(&QpInit { pd: Pd(0), send_cq: cq, recv_cq: cq }).unwrap();
            let rtr = RtrAttr::software(peer, Qpn::new(9), Psn::new(0), ev_profile);
            engine.modify_to_init(qp).unwrap();
            engine.modify_to_rtr(Instant::ZERO, qp, &rtr).unwrap();
            let mut rts = RtsAttr::software(Psn::new(0));
            (rts.paths.active, rts.paths.backup) = (active, backup);
            engine.modify_to_rts(Instant::ZERO, qp, &rts).unwrap();
            let wr = SendWr { signaled: true, ..SendWr::default() };
            (0..4).for_each(|_| engine.post_send(Instant::ZERO, qp, &wr).unwrap());
            let mut out = [0; MAX_HEADER_LEN];
            let mut next = || engine.poll_transmit(Instant::ZERO, PortMask::ALL, &mut out).unwrap().ev;
            let evs = [(); 4].map(|()| next());
            engine.destroy_qp(qp).unwrap();
            evs
        };
        for (active, backup) in [(4, 0), (4, 12)] {
            let mut lives: Vec<_> = (0..8).map(|_| life(active, backup)).collect();
            lives.iter_mut().for_each(|evs| evs.sort());
            lives.sort();
            lives.dedup();
            assert!(lives.len() >= 6, "{active} of 16: {lives:?}");
        }
    });
}
