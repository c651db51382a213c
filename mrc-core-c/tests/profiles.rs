//! EV and congestion-control profiles, endpoint operations and ports through the C interface: what goes in comes out, and
//! what is refused has its name. That frames come of it is shown by `example/main.c`, which `image.rs` runs.

use std::ptr::{null, null_mut};

use mrc_core_c::*;

const SEED: [u8; MRC_CORE_SEED_LEN] = [1; MRC_CORE_SEED_LEN];

const PORTS: usize = 2;
const EVS: usize = 40;

fn said(text: mrc_core_text) -> &'static str {
    // SAFETY: texts of the interface are static.
    std::str::from_utf8(unsafe { std::slice::from_raw_parts(text.ptr.cast(), text.len) }).unwrap()
}

/// Memory that starts at a multiple of `MRC_CORE_ALIGN`.
#[repr(C, align(64))]
#[derive(Clone)]
struct Line([u8; 64]);

fn zeroed<T: Copy>() -> T {
    // SAFETY: only structs of the interface, for which all zeros is a value.
    unsafe { std::mem::zeroed() }
}

/// An endpoint with two ports, a peer of the given route, and room for two profiles of 40 EVs.
fn alone(route: u8, f: impl FnOnce(*mut mrc_core_endpoint, mrc_core_peer)) {
    let mut config: mrc_core_config = zeroed();
    let (mut endpoint, mut peer) = (null_mut(), mrc_core_peer { index: 9, generation: 0 });
    let mut there = mrc_core_peer_config { route, hop_limit: 64, ..zeroed() };
    // SAFETY: out pointers are variables; the memory lives until the end of the call.
    unsafe {
        assert_eq!(mrc_core_config_default(&mut config), MRC_CORE_OK);
        config.limits.qps = 2;
        (config.limits.ev_profiles, config.limits.profile_evs) = (2, EVS as u32);
        config.port_update_on_rts = 0;
        for plane in 0..PORTS {
            config.ports[plane].present = 1;
            config.ports[plane].mac = [2; 6];
            there.planes[plane] = mrc_core_plane { present: 1, has_outer_src: 1, next_hop: [4; 6], outer_src: [3; 16] };
        }
        config.gids[0] = mrc_core_ip { version: 6, bytes: [1; 16] };
        (there.local, there.remote) = (config.gids[0], mrc_core_ip { version: 6, bytes: [2; 16] });
        let size = mrc_core_storage_size(&config.limits);
        let mut memory = vec![Line([0; 64]); size.div_ceil(64)];
        let code = mrc_core_init(memory.as_mut_ptr().cast(), size, &config, SEED.as_ptr(), &mut endpoint, null_mut());
        assert_eq!(code, MRC_CORE_OK);
        assert_eq!(mrc_core_add_peer(endpoint, &there, &mut peer), MRC_CORE_OK);
        f(endpoint, peer);
    }
}

fn ev(value: u32, port: u8) -> mrc_core_ev {
    let mut ev = mrc_core_ev { value: [0; 32], port };
    ev.value[..4].copy_from_slice(&value.to_be_bytes());
    ev
}

fn stev(mode: u8, count: u16) -> mrc_core_ev_profile_config {
    let mut config = mrc_core_ev_profile_config { mode, count, format: MRC_CORE_EV_FORMAT_STEV, ..zeroed() };
    (config.widths[0], config.widths[1], config.width_count) = (24, 8, 2);
    config
}

/// A QP in INIT, and the attributes that take it to RTR.
unsafe fn qp(
    e: *mut mrc_core_endpoint,
    peer: mrc_core_peer,
    ev_profile: mrc_core_ev_profile,
) -> (mrc_core_qp, mrc_core_rtr) {
    let (mut cq, mut pair, mut rtr) =
        (mrc_core_cq { index: 0, generation: 0 }, mrc_core_qp { index: 0, qpn: 0 }, zeroed());
    // SAFETY: the endpoint lives; out pointers are variables.
    unsafe {
        assert_eq!(mrc_core_create_cq(e, &mut cq), MRC_CORE_OK);
        assert_eq!(mrc_core_create_qp(e, 0, cq, cq, &mut pair), MRC_CORE_OK);
        assert_eq!(mrc_core_modify_to_init(e, pair), MRC_CORE_OK);
        assert_eq!(mrc_core_rtr_default(&mut rtr), MRC_CORE_OK);
    }
    (pair, mrc_core_rtr { peer, ev_profile, dest_qp: 9, ..rtr })
}

#[test]
fn an_explicit_profile_from_init_to_online_and_back() {
    alone(MRC_CORE_ROUTE_PLAIN, |e, peer| {
        let mut profile = mrc_core_ev_profile { index: 9, generation: 0 };
        let mut info: mrc_core_ev_profile_info = zeroed();
        // SAFETY: the endpoint lives; out pointers are variables.
        unsafe {
            let detail = || said(mrc_core_detail(e));
            assert_eq!(mrc_core_configure_ev_profile(e, profile, &stev(1, 2)), MRC_CORE_E_UNKNOWN);
            assert_eq!(detail(), "EV profile");
            assert_eq!(mrc_core_open_ev_profile(e, 77, &mut profile), MRC_CORE_OK);
            let config = stev(MRC_CORE_EV_MODE_EXPLICIT, EVS as u16);
            assert_eq!(mrc_core_configure_ev_profile(e, profile, &config), MRC_CORE_OK);
            assert_eq!(mrc_core_set_ev_profile_state(e, profile, MRC_CORE_PROFILE_ONLINE), MRC_CORE_E_STATE);
            assert_eq!(detail(), "EV without a value");
            let none = ev(0, 0);
            for n in 0..EVS as u32 {
                let value = ev(n + 1, 1 + (n % 2) as u8);
                assert_eq!(mrc_core_replace_ev(e, profile, &none, &value, MRC_CORE_EV_GOOD, 0), MRC_CORE_OK);
            }
            let one = ev(1, 1);
            for (old, value, state, code, what) in [
                (&none, &one, MRC_CORE_EV_GOOD, MRC_CORE_E_UNKNOWN, "EV"),
                (&one, &ev(1, 3), MRC_CORE_EV_GOOD, MRC_CORE_E_RANGE, "port"),
                (&one, &one, MRC_CORE_EV_ASSUMED_BAD, MRC_CORE_E_RANGE, "state"),
                (&one, &one, 9, MRC_CORE_E_RANGE, "state"),
            ] {
                assert_eq!(mrc_core_replace_ev(e, profile, old, value, state, 0), code, "{what}");
                assert_eq!(detail(), what);
            }
            assert_eq!(mrc_core_replace_ev(e, profile, null(), &one, 0, 0), MRC_CORE_E_NULL);
            assert_eq!(mrc_core_set_ev_min_active(e, profile, 1 << 16), MRC_CORE_E_RANGE);
            assert_eq!(mrc_core_set_ev_min_active(e, profile, 3), MRC_CORE_OK);
            assert_eq!(mrc_core_set_ev_events(e, profile, 0, 1), MRC_CORE_OK);
            assert_eq!(mrc_core_set_ev_profile_state(e, profile, MRC_CORE_PROFILE_ONLINE), MRC_CORE_OK);
            assert_eq!(mrc_core_set_ev_profile_state(e, profile, 3), MRC_CORE_E_RANGE);
            assert_eq!(mrc_core_query_ev_profile(e, profile, &mut info), MRC_CORE_OK);
            assert_eq!((info.id, info.users, info.count, info.min_active), (77, 0, EVS as u16, 3));
            assert_eq!((info.state, info.mode), (MRC_CORE_PROFILE_ONLINE, MRC_CORE_EV_MODE_EXPLICIT));
            assert_eq!((info.event_good, info.event_assumed_bad), (0, 1));
            assert_eq!(
                (info.format, info.width_count, &info.widths[..3]),
                (MRC_CORE_EV_FORMAT_STEV, 2, &[24, 8, 0][..])
            );
            assert_eq!((info.field_count, info.fields[1].mask, info.fields[1].width), (2, 0xFF, 8));

            // Asked for in pieces, whole, and beyond the end.
            assert_eq!(mrc_core_set_ev_state(e, 0, profile, &ev(39, 1), MRC_CORE_EV_DENIED, 0), MRC_CORE_OK);
            assert_eq!(mrc_core_set_ev_state(e, 0, profile, &ev(39, 2), MRC_CORE_EV_DENIED, 0), MRC_CORE_E_UNKNOWN);
            let empty = mrc_core_ev_report { ev: none, state: 77 };
            let (mut reports, mut count) = ([empty; EVS], 0);
            assert_eq!(mrc_core_query_evs(e, profile, 0, reports.as_mut_ptr(), EVS, &mut count), MRC_CORE_OK);
            assert_eq!(count, EVS as u32);
            for (n, report) in reports.iter().enumerate() {
                let state = if n == 38 { MRC_CORE_EV_DENIED } else { MRC_CORE_EV_GOOD };
                assert_eq!(*report, mrc_core_ev_report { ev: ev(n as u32 + 1, 1 + (n % 2) as u8), state });
            }
            let mut some = [empty; 20];
            assert_eq!(mrc_core_query_evs(e, profile, 21, some.as_mut_ptr(), 18, &mut count), MRC_CORE_OK);
            assert_eq!((count, &some[..18], some[18]), (19, &reports[21..39], empty), "no more than there is room for");
            assert_eq!(mrc_core_query_evs(e, profile, 40, some.as_mut_ptr(), 18, &mut count), MRC_CORE_OK);
            assert_eq!(count, 0);
            assert_eq!(mrc_core_query_evs(e, profile, 0, null_mut(), 0, &mut count), MRC_CORE_OK);
            assert_eq!(count, EVS as u32);
            assert_eq!(mrc_core_query_evs(e, profile, 0, null_mut(), 1, &mut count), MRC_CORE_E_NULL);
            assert_eq!(mrc_core_query_evs(e, profile, 1 << 16, null_mut(), 0, &mut count), MRC_CORE_E_RANGE);

            let (pair, rtr) = qp(e, peer, profile);
            assert_eq!(mrc_core_modify_to_rtr(e, 0, pair, &rtr), MRC_CORE_OK);
            assert_eq!(mrc_core_set_ev_profile_state(e, profile, MRC_CORE_PROFILE_OFFLINE), MRC_CORE_E_BUSY);
            assert_eq!(mrc_core_destroy_ev_profile(e, profile), MRC_CORE_E_BUSY);
            assert_eq!(mrc_core_destroy_qp(e, pair), MRC_CORE_OK);
            assert_eq!(mrc_core_set_ev_profile_state(e, profile, MRC_CORE_PROFILE_OFFLINE), MRC_CORE_OK);
            assert_eq!(mrc_core_destroy_ev_profile(e, profile), MRC_CORE_OK);
            assert_eq!(mrc_core_query_ev_profile(e, profile, &mut info), MRC_CORE_E_UNKNOWN);
        }
    });
}

/// What `struct mrc_core_ev` says of its bits, where entries are as they are on the wire, and of fields.
#[test]
fn the_bits_of_an_ev_begin_at_the_top() {
    alone(MRC_CORE_ROUTE_PLAIN, |e, _| {
        let mut profile = mrc_core_ev_profile { index: 9, generation: 0 };
        let (mut reports, mut count) = ([mrc_core_ev_report { ev: ev(0, 0), state: 77 }; 2], 0);
        let expected = |bytes: &[u8]| {
            let mut value = [0; 32];
            value[..bytes.len()].copy_from_slice(bytes);
            value
        };
        // SAFETY: the endpoint lives; out pointers are variables.
        unsafe {
            let plain = [0x112, 0x0A0B_0C0D].map(|ev| mrc_core_ev_entry { ev, port: 1, ..zeroed() });
            assert_eq!(mrc_core_create_ev_profile(e, plain.as_ptr(), 2, &mut profile), MRC_CORE_OK);
            assert_eq!(mrc_core_query_evs(e, profile, 0, reports.as_mut_ptr(), 2, &mut count), MRC_CORE_OK);
            assert_eq!(
                reports.map(|report| report.ev.value),
                [expected(&[0, 0, 1, 0x12]), expected(&[10, 11, 12, 13])]
            );
            assert_eq!(mrc_core_destroy_ev_profile(e, profile), MRC_CORE_OK);

            let outer = mrc_core_ev_entry { port: 1, has_dst: 1, dst: [5; 16], ..zeroed() };
            let entries = [outer, mrc_core_ev_entry { has_segment: 1, segment: [6; 16], ..outer }];
            assert_eq!(mrc_core_create_ev_profile(e, entries.as_ptr(), 2, &mut profile), MRC_CORE_OK);
            assert_eq!(mrc_core_query_evs(e, profile, 0, reports.as_mut_ptr(), 2, &mut count), MRC_CORE_OK);
            let both = [[5; 16], [6; 16]].concat();
            assert_eq!(reports.map(|report| report.ev.value), [expected(&[5; 16]), expected(&both)]);
            assert_eq!(mrc_core_destroy_ev_profile(e, profile), MRC_CORE_OK);

            // Fields of 4 and 3 bits.
            let mut fields = mrc_core_ev_profile_config { count: 2, mode: MRC_CORE_EV_MODE_GENERATED, ..zeroed() };
            (fields.widths[0], fields.widths[1], fields.width_count, fields.field_count) = (4, 3, 2, 2);
            let field =
                |width, at| mrc_core_ev_field { width, min_val: at, max_val: at, mask: (1 << width) - 1, init_val: 0 };
            (fields.fields[0], fields.fields[1]) = (field(4, 0xA), mrc_core_ev_field { max_val: 6, ..field(3, 5) });
            assert_eq!(mrc_core_open_ev_profile(e, 5, &mut profile), MRC_CORE_OK);
            assert_eq!(mrc_core_configure_ev_profile(e, profile, &fields), MRC_CORE_OK);
            assert_eq!(mrc_core_query_evs(e, profile, 0, reports.as_mut_ptr(), 2, &mut count), MRC_CORE_OK);
            let mut values = reports.map(|report| report.ev.value);
            values.sort_unstable();
            assert_eq!(values, [expected(&[0b1010_1010]), expected(&[0b1010_1100])]);
        }
    });
}

#[test]
fn values_that_the_engine_makes() {
    alone(MRC_CORE_ROUTE_SRV6_ENTRY, |e, peer| {
        let mut profile = mrc_core_ev_profile { index: 9, generation: 0 };
        let (mut reports, mut count) = ([mrc_core_ev_report { ev: ev(0, 0), state: 77 }; 4], 0);
        // Block, a fixed micro-SID, one that varies.
        let mut gen_config =
            mrc_core_ev_profile_config { format: MRC_CORE_EV_FORMAT_SRV6, ..stev(MRC_CORE_EV_MODE_GENERATED, 4) };
        gen_config.widths[..3].copy_from_slice(&[32, 16, 16]);
        let fixed = |width, init_val| mrc_core_ev_field { init_val, width, ..zeroed() };
        let varies = mrc_core_ev_field { max_val: 3, mask: 3, ..fixed(16, 0x2000) };
        gen_config.fields[..3].copy_from_slice(&[fixed(32, 0xFCBB_BB00), fixed(16, 0x1000), varies]);
        (gen_config.width_count, gen_config.field_count) = (3, 3);
        // SAFETY: the endpoint lives; out pointers are variables.
        unsafe {
            assert_eq!(mrc_core_open_ev_profile(e, 5, &mut profile), MRC_CORE_OK);
            let refused = |config: &mrc_core_ev_profile_config, what: &str| {
                assert_eq!(mrc_core_configure_ev_profile(e, profile, config), MRC_CORE_E_RANGE, "{what}");
                assert_eq!(said(mrc_core_detail(e)), what);
            };
            refused(&mrc_core_ev_profile_config { count: 5, ..gen_config }, "count");
            refused(&mrc_core_ev_profile_config { field_count: 0, ..gen_config }, "fields");
            refused(&mrc_core_ev_profile_config { field_count: 17, ..gen_config }, "field_count");
            refused(&mrc_core_ev_profile_config { width_count: 17, ..gen_config }, "width_count");
            refused(&mrc_core_ev_profile_config { format: MRC_CORE_EV_FORMAT_STEV, ..gen_config }, "widths");
            refused(&mrc_core_ev_profile_config { format: 3, ..gen_config }, "format");
            refused(&mrc_core_ev_profile_config { mode: 3, ..gen_config }, "mode");
            refused(&mrc_core_ev_profile_config { min_active: 5, ..gen_config }, "min_active");
            assert_eq!(mrc_core_configure_ev_profile(e, profile, &gen_config), MRC_CORE_OK);
            assert_eq!(mrc_core_query_evs(e, profile, 0, reports.as_mut_ptr(), 4, &mut count), MRC_CORE_OK);
            let mut values = reports.map(|report| (report.ev.value[0] >> 6, report.ev.port));
            assert_eq!(values.map(|(_, port)| port), [1, 2, 1, 2]);
            values.sort_unstable();
            assert_eq!(values.map(|(value, _)| value), [0, 1, 2, 3]);
            assert_eq!(mrc_core_set_ev_profile_state(e, profile, MRC_CORE_PROFILE_ONLINE), MRC_CORE_OK);
            let (pair, rtr) = qp(e, peer, profile);
            assert_eq!(mrc_core_modify_to_rtr(e, 0, pair, &rtr), MRC_CORE_OK, "its EVs are outer destinations");

            // AUTO: from the engine, or from a driver that knows its fabric.
            assert_eq!(mrc_core_open_ev_profile(e, 6, &mut profile), MRC_CORE_OK);
            let auto = mrc_core_ev_profile_config { mode: MRC_CORE_EV_MODE_AUTO, count: 4, ..zeroed() };
            assert_eq!(mrc_core_configure_ev_profile(e, profile, &auto), MRC_CORE_OK);
            let paths = [(0x000, 1), (0x100, 2), (0x001, 1), (0x101, 2), (0x002, 1)]
                .map(|(ev, port)| mrc_core_ev_entry { ev, port, ..zeroed() });
            let known = mrc_core_ev_profile_config { paths: paths.as_ptr(), path_count: 5, ..auto };
            assert_eq!(mrc_core_configure_ev_profile(e, profile, &known), MRC_CORE_OK);
            assert_eq!(mrc_core_query_evs(e, profile, 0, reports.as_mut_ptr(), 4, &mut count), MRC_CORE_OK);
            let want = [ev(0x000, 1), ev(0x100, 2), ev(0x001, 1), ev(0x101, 2)];
            assert_eq!((count, reports.map(|report| report.ev)), (4, want));
            let few = mrc_core_ev_profile_config { path_count: 3, ..known };
            assert_eq!(mrc_core_configure_ev_profile(e, profile, &few), MRC_CORE_E_RANGE);
            let nowhere = mrc_core_ev_profile_config { paths: null(), ..known };
            assert_eq!(mrc_core_configure_ev_profile(e, profile, &nowhere), MRC_CORE_E_NULL);
        }
    });
}

#[test]
fn congestion_control_is_given_changed_and_asked() {
    alone(MRC_CORE_ROUTE_PLAIN, |e, peer| {
        let (mut cc, mut back): (mrc_core_cc, mrc_core_cc) = (zeroed(), zeroed());
        let (mut control, mut ev_profile) =
            (mrc_core_cc_profile { index: 0, generation: 0 }, mrc_core_ev_profile { index: 0, generation: 0 });
        let mut info: mrc_core_cc_info = zeroed();
        // SAFETY: the endpoint lives; out pointers are variables.
        unsafe {
            assert_eq!(mrc_core_cc_default(&mut cc), MRC_CORE_OK);
            cc.algorithm = MRC_CORE_CC_NSCC;
            (cc.rate_bps, cc.base_rtt_ns) = (100_000_000_000, 12_000);
            (cc.gamma_q16, cc.avg_weight_q16, cc.max_cwnd_bytes) = (40_000, 9_000, 123_456);
            assert_eq!(mrc_core_create_cc_profile(e, &cc, &mut control), MRC_CORE_OK);
            assert_eq!(mrc_core_query_cc_profile(e, control, &mut back), MRC_CORE_OK);
            assert_eq!((back.algorithm, back.gamma_q16, back.avg_weight_q16), (MRC_CORE_CC_NSCC, 40_000, 9_000));
            assert_eq!((back.rate_bps, back.max_cwnd_bytes), (100_000_000_000, 123_456));
            cc.avg_weight_q16 = 65_537;
            assert_eq!(mrc_core_modify_cc_profile(e, control, &cc), MRC_CORE_E_RANGE);
            assert_eq!(said(mrc_core_detail(e)), "nscc.avg_weight_q16");
            let fixed = mrc_core_cc { algorithm: MRC_CORE_CC_FIXED, window_bytes: 50_000, ..cc };
            assert_eq!(mrc_core_modify_cc_profile(e, control, &fixed), MRC_CORE_OK);
            assert_eq!(mrc_core_query_cc_profile(e, control, &mut back), MRC_CORE_OK);
            assert_eq!((back.algorithm, back.window_bytes), (MRC_CORE_CC_FIXED, 50_000));

            let entry = mrc_core_ev_entry { ev: 5, port: 1, ..zeroed() };
            assert_eq!(mrc_core_create_ev_profile(e, &entry, 1, &mut ev_profile), MRC_CORE_OK);
            let (pair, rtr) = qp(e, peer, ev_profile);
            let mut rts: mrc_core_rts = zeroed();
            assert_eq!(mrc_core_rts_default(&mut rts, 0), MRC_CORE_OK);
            rts.cc_profile = control;
            assert_eq!(mrc_core_modify_to_rtr(e, 0, pair, &rtr), MRC_CORE_OK);
            assert_eq!(mrc_core_query_cc(e, pair, &mut info), MRC_CORE_E_STATE, "nothing controls it yet");
            // Each selector by its number; Hopper keeps the values of its paper where nothing else is said.
            assert_eq!((rts.paths.hopper.th_probe_percent, rts.paths.hopper.first), (150, MRC_CORE_ENTRY_ANY));
            assert_eq!(rts.paths.flowbender.threshold_permille, 50);
            let with = |selector| {
                let mut rts = rts;
                rts.paths.selector = selector;
                rts
            };
            assert_eq!(
                mrc_core_modify_to_rts(e, 0, pair, &with(MRC_CORE_SELECT_FLOWING_JUMPING + 1)),
                MRC_CORE_E_RANGE
            );
            assert_eq!(mrc_core_modify_to_rts(e, 0, pair, &with(MRC_CORE_SELECT_HOPPER)), MRC_CORE_OK);
            assert_eq!(mrc_core_query_cc(e, pair, &mut info), MRC_CORE_OK);
            assert_eq!((info.cwnd_bytes, info.users, info.state), (50_000, 1, MRC_CORE_CC_IDLE));
            assert_eq!(mrc_core_modify_cc_profile(e, control, &fixed), MRC_CORE_E_BUSY);
            assert_eq!(mrc_core_modify_to_reset(e, pair), MRC_CORE_OK);
            assert_eq!(mrc_core_modify_to_init(e, pair), MRC_CORE_OK);
            assert_eq!(mrc_core_modify_to_rtr(e, 0, pair, &rtr), MRC_CORE_OK);
            let mut by_round_trip = with(MRC_CORE_SELECT_FLOWBENDER);
            by_round_trip.paths.flowbender.rtt_percent = 100;
            assert_eq!(
                mrc_core_modify_to_rts(e, 0, pair, &by_round_trip),
                MRC_CORE_E_RANGE,
                "every round trip is longer"
            );
            by_round_trip.paths.flowbender.rtt_percent = 250;
            assert_eq!(mrc_core_modify_to_rts(e, 0, pair, &by_round_trip), MRC_CORE_OK);
            for selector in [MRC_CORE_SELECT_PLB, MRC_CORE_SELECT_REPS, MRC_CORE_SELECT_FLOWING_JUMPING] {
                assert_eq!(mrc_core_modify_to_reset(e, pair), MRC_CORE_OK);
                assert_eq!(mrc_core_modify_to_init(e, pair), MRC_CORE_OK);
                assert_eq!(mrc_core_modify_to_rtr(e, 0, pair, &rtr), MRC_CORE_OK);
                assert_eq!(mrc_core_modify_to_rts(e, 0, pair, &with(selector)), MRC_CORE_OK);
            }
            assert_eq!(
                mrc_core_query_cc_profile(e, mrc_core_cc_profile { index: 60, generation: 0 }, &mut back),
                MRC_CORE_E_UNKNOWN
            );
        }
    });
}

#[test]
fn ports_and_operations_are_refused_by_name() {
    alone(MRC_CORE_ROUTE_PLAIN, |e, peer| {
        let path = mrc_core_ev_entry { ev: 5, port: 2, ..zeroed() };
        let probe = mrc_core_op_request { cookie: 3, timeout_ns: 1_000, path, ..zeroed() };
        let (mut outcome, mut ports): (mrc_core_op_outcome, u32) = (zeroed(), 0);
        // SAFETY: the endpoint lives; out pointers are variables.
        unsafe {
            let refused = |request: &mrc_core_op_request, what: &str| {
                assert_eq!(mrc_core_post_endpoint_op(e, peer, request), MRC_CORE_E_RANGE, "{what}");
                assert_eq!(said(mrc_core_detail(e)), what);
            };
            refused(&mrc_core_op_request { op: 2, ..probe }, "op");
            refused(&mrc_core_op_request { has_dscp: 1, dscp: 64, ..probe }, "path");
            refused(&mrc_core_op_request { path: mrc_core_ev_entry { port: 0, ..path }, ..probe }, "port");
            refused(&mrc_core_op_request { path: mrc_core_ev_entry { has_dst: 1, ..path }, ..probe }, "path");
            let nobody = mrc_core_peer { index: 7, generation: 0 };
            assert_eq!(mrc_core_post_endpoint_op(e, nobody, &probe), MRC_CORE_E_UNKNOWN);
            assert_eq!(mrc_core_peer_ports(e, nobody, &mut ports), MRC_CORE_E_UNKNOWN);
            assert_eq!(mrc_core_peer_ports(e, peer, &mut ports), MRC_CORE_OK);
            assert_eq!(ports & 6, 6, "all, until it has told");
            assert_eq!(mrc_core_poll_endpoint_op(e, &mut outcome), MRC_CORE_OK);
            assert_eq!(mrc_core_poll_endpoint_op(e, null_mut()), MRC_CORE_E_NULL);

            assert_eq!(mrc_core_set_port_admin(e, 0, 3, 0), MRC_CORE_E_UNKNOWN);
            assert_eq!(mrc_core_set_port_admin(e, 0, 2, 0), MRC_CORE_OK);
            assert_eq!(mrc_core_set_port(e, 0, 2, 1), MRC_CORE_OK);
            assert_eq!(mrc_core_ports_up(e), 1 << 1, "it has a link, and is not to be used");
            // A probe through it ends at once.
            assert_eq!(mrc_core_post_endpoint_op(e, peer, &probe), MRC_CORE_OK);
            let mut headers = [0; MRC_CORE_MAX_HEADER_LEN];
            let mut tx = zeroed();
            assert_eq!(mrc_core_poll_transmit(e, 0, 2, headers.as_mut_ptr(), 192, &mut tx), MRC_CORE_OK);
            assert_eq!(mrc_core_poll_endpoint_op(e, &mut outcome), MRC_CORE_SOME);
            assert_eq!((outcome.cookie, outcome.answered, outcome.op), (3, 0, MRC_CORE_ENDPOINT_EV_PROBE));
            assert_eq!(mrc_core_set_port_admin(e, 0, 2, 1), MRC_CORE_OK);
            assert_eq!(mrc_core_ports_up(e), 6);
            for _ in 0..64 {
                assert_eq!(mrc_core_post_endpoint_op(e, peer, &probe), MRC_CORE_OK);
            }
            assert_eq!(mrc_core_post_endpoint_op(e, peer, &probe), MRC_CORE_E_BUSY);
        }
    });
}
