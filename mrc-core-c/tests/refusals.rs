//! What a C caller can get wrong, one by one: a code that says what, a detail that names it, and no effect.

use std::ptr::{null, null_mut};

use mrc_core::Discard;
use mrc_core_c::*;

const SEED: [u8; MRC_CORE_SEED_LEN] = [1; MRC_CORE_SEED_LEN];

fn said(text: mrc_core_text) -> &'static str {
    // SAFETY: texts of the interface are static.
    std::str::from_utf8(unsafe { std::slice::from_raw_parts(text.ptr.cast(), text.len) }).unwrap()
}

fn config() -> mrc_core_config {
    let mut config = std::mem::MaybeUninit::uninit();
    // SAFETY: filled by the call.
    let mut config = unsafe {
        assert_eq!(mrc_core_config_default(config.as_mut_ptr()), MRC_CORE_OK);
        config.assume_init()
    };
    config.limits.qps = 2;
    config.ports[0].present = 1;
    config.ports[0].mac = [2, 0, 0, 0, 0, 1];
    config.gids[0] = mrc_core_ip { version: 6, bytes: [1; 16] };
    config
}

/// Memory that starts at a multiple of `MRC_CORE_ALIGN`, full of something.
#[repr(C, align(64))]
#[derive(Clone)]
struct Line([u8; 64]);

fn memory(bytes: usize) -> Vec<Line> {
    vec![Line([0xA5; 64]); bytes.div_ceil(64)]
}

/// `mrc_core_init` and what it says of a refusal.
fn init(memory: &mut [Line], len: usize, config: &mrc_core_config) -> (i32, &'static str, *mut mrc_core_endpoint) {
    let mut endpoint = null_mut();
    let mut detail = mrc_core_text { ptr: null(), len: 0 };
    assert!(len <= memory.len() * 64);
    // SAFETY: `len` bytes are there, and outlive the endpoint in every test.
    let code =
        unsafe { mrc_core_init(memory.as_mut_ptr().cast(), len, config, SEED.as_ptr(), &mut endpoint, &mut detail) };
    (code, said(detail), endpoint)
}

#[test]
fn an_endpoint_that_cannot_be() {
    let config = config();
    // SAFETY: valid limits.
    let size = unsafe { mrc_core_storage_size(&config.limits) };
    let mut memory = memory(size);
    let (code, detail, endpoint) = init(&mut memory, size - 1, &config);
    assert_eq!((code, detail, endpoint), (MRC_CORE_E_MEMORY, "mem", null_mut()));
    let mut other = config;
    other.abi += 1;
    assert_eq!(init(&mut memory, size, &other).0, MRC_CORE_E_ABI);
    other = config;
    other.ports[0].present = 0;
    assert_eq!(init(&mut memory, size, &other).1, "ports");
    other = config;
    other.ports[0].mac = [0; 6];
    assert_eq!((init(&mut memory, size, &other).0, init(&mut memory, size, &other).1), (MRC_CORE_E_RANGE, "mac"));
    other.ports[0].mac[0] = 1;
    assert_eq!(init(&mut memory, size, &other).1, "mac");
    other = config;
    other.ports[0].has_sid = 1;
    assert_eq!(init(&mut memory, size, &other).1, "sid");
    other = config;
    other.ports[0].has_addr = 1;
    assert_eq!(init(&mut memory, size, &other).1, "addr");
    other.ports[0].addr[0] = 0xFF;
    assert_eq!(init(&mut memory, size, &other).1, "addr");
    other = config;
    other.gids[0].bytes = [0; 16];
    assert_eq!(init(&mut memory, size, &other).1, "gids");
    other = config;
    other.gids[0].bytes[0] = 0xFF;
    assert_eq!(init(&mut memory, size, &other).1, "gids");
    other.gids[0].version = 5;
    assert_eq!(init(&mut memory, size, &other).1, "gids");
    other = config;
    other.no_receive = 2;
    assert_eq!(init(&mut memory, size, &other).1, "no_receive");
    other = config;
    other.bth_se_bit = 5;
    assert_eq!(init(&mut memory, size, &other).1, "bth_se_bit");
    let mut other = config;
    other.pdcid_order = 2;
    assert_eq!(init(&mut memory, size, &other).1, "pdcid_order");
    other = config;
    other.neth_cc_type = 16;
    assert_eq!(init(&mut memory, size, &other).1, "neth_cc_type");
    for reach in [0, 62, 65, 255] {
        other = config;
        other.bitmap_reach = reach;
        assert_eq!(init(&mut memory, size, &other).1, "bitmap_reach");
    }
    // An acknowledgement in place of the refusal would complete the write that was refused.
    for syndrome in [0, 0x1F, 0x20, 0x60, 0x80, 0xE1] {
        other = config;
        other.wimm_nak_syndrome = syndrome;
        assert_eq!(init(&mut memory, size, &other).1, "wimm_nak_syndrome");
    }
    other = config;
    other.cc.algorithm = 3;
    assert_eq!(init(&mut memory, size, &other).1, "algorithm");
    other.cc.algorithm = MRC_CORE_CC_NSCC;
    assert_eq!(init(&mut memory, size, &other).1, "nscc.rate_bps");
    other.cc.rate_bps = 100_000_000_000;
    assert_eq!(init(&mut memory, size, &other).1, "nscc.base_rtt_ns");
    other.cc.base_rtt_ns = 12_000;
    other.cc.qa_gate = 32;
    assert_eq!(init(&mut memory, size, &other).1, "nscc.qa_gate");
    other = config;
    other.limits.mpr = 3;
    assert_eq!(init(&mut memory, size, &other).0, MRC_CORE_E_RANGE);
    assert_eq!(init(&mut memory, size, &other).1, "mpr");
    // SAFETY: NULL is refused; a pointer off its alignment is not followed.
    unsafe {
        assert_eq!(mrc_core_storage_size(&other.limits), 0);
        assert_eq!(mrc_core_storage_size(null()), 0);
        let mut endpoint = null_mut();
        let mem = memory.as_mut_ptr().cast::<u8>();
        assert_eq!(mrc_core_init(null_mut(), size, &config, SEED.as_ptr(), &mut endpoint, null_mut()), MRC_CORE_E_NULL);
        assert_eq!(mrc_core_init(mem, size, null(), SEED.as_ptr(), &mut endpoint, null_mut()), MRC_CORE_E_NULL);
        assert_eq!(mrc_core_init(mem, size, &config, SEED.as_ptr(), null_mut(), null_mut()), MRC_CORE_E_NULL);
        assert_eq!(mrc_core_init(mem, size, &config, null(), &mut endpoint, null_mut()), MRC_CORE_E_NULL);
        let zeros = [0; MRC_CORE_SEED_LEN];
        assert_eq!(mrc_core_init(mem, size, &config, zeros.as_ptr(), &mut endpoint, null_mut()), MRC_CORE_E_RANGE);
        assert_eq!(
            mrc_core_init(mem.add(1), size - 1, &config, SEED.as_ptr(), &mut endpoint, null_mut()),
            MRC_CORE_E_ALIGN
        );
    }
    let (code, detail, endpoint) = init(&mut memory, size, &config);
    assert_eq!((code, detail), (MRC_CORE_OK, ""));
    assert_eq!(endpoint.cast::<u8>(), memory.as_mut_ptr().cast());
}

/// Values that a C program leaves at zero or counts from the wrong end.
#[test]
fn silent_traps_are_refused() {
    let mut config = config();
    (config.limits.wimm, config.limits.evs, config.limits.active_evs) = (8, 12, 8);
    // SAFETY: valid limits.
    let size = unsafe { mrc_core_storage_size(&config.limits) };
    let mut memory = memory(size);
    let (code, _, e) = init(&mut memory, size, &config);
    assert_eq!(code, MRC_CORE_OK);
    // SAFETY: the endpoint lives; out pointers are variables; all zeros is a value of every struct of the interface.
    unsafe {
        let refused = |code: i32, field: &str| {
            assert_eq!((code, said(mrc_core_detail(e))), (MRC_CORE_E_RANGE, field));
        };
        let mut there: mrc_core_peer_config = std::mem::zeroed();
        let mut peer = mrc_core_peer { index: 9, generation: 0 };
        let mut add = |there: &mrc_core_peer_config| mrc_core_add_peer(e, there, &mut peer);
        (there.local, there.remote) = (config.gids[0], mrc_core_ip { version: 6, bytes: [2; 16] });
        there.planes[0].present = 1;
        refused(add(&there), "next_hop");
        there.planes[0].next_hop = [2, 0, 0, 0, 0, 2];
        refused(add(&there), "hop_limit");
        there.hop_limit = 64;
        let good = there;
        there.planes[0].has_outer_src = 1;
        refused(add(&there), "outer_src");
        there = good;
        there.local.bytes = [3; 16];
        refused(add(&there), "local");
        there = good;
        there.remote.bytes = [0; 16];
        refused(add(&there), "remote");
        // Several hosts, and one of another family than ours.
        for remote in [(6, 0xFF), (4, 0xE0), (4, 10)] {
            (there.remote.version, there.remote.bytes) = (remote.0, [remote.1; 16]);
            refused(add(&there), "remote");
        }
        there = good;
        there.planes[0].next_hop[0] |= 1;
        refused(add(&there), "next_hop");
        assert_eq!(add(&good), MRC_CORE_OK);
        let own = |port: u8, local: &mrc_core_ip, remote: &mrc_core_ip| {
            mrc_core_set_plane_addresses(e, peer, port, local, remote)
        };
        let (ours, theirs, none) = (good.local, mrc_core_ip { bytes: [4; 16], ..good.remote }, std::mem::zeroed());
        refused(own(1, &none, &theirs), "local");
        refused(own(1, &ours, &none), "remote");
        refused(own(0, &ours, &theirs), "port");
        refused(own(2, &ours, &theirs), "peer planes");
        refused(own(1, &theirs, &theirs), "plane addresses");
        assert_eq!(own(1, &ours, &theirs), MRC_CORE_OK);

        let mut profile = mrc_core_ev_profile { index: 9, generation: 0 };
        let mut entry: mrc_core_ev_entry = std::mem::zeroed();
        (entry.ev, entry.port) = (1, 1);
        assert_eq!(mrc_core_create_ev_profile(e, &entry, 1, &mut profile), MRC_CORE_OK);
        let (mut cq, mut qp) = (mrc_core_cq { index: 9, generation: 0 }, mrc_core_qp { index: 9, qpn: 9 });
        assert_eq!(mrc_core_create_cq(e, &mut cq), MRC_CORE_OK);
        assert_eq!(mrc_core_create_qp(e, 0, cq, cq, &mut qp), MRC_CORE_OK);
        assert_eq!(mrc_core_modify_to_init(e, qp), MRC_CORE_OK);
        let (mut rtr, mut rts): (mrc_core_rtr, mrc_core_rts) = std::mem::zeroed();
        assert_eq!((mrc_core_rtr_default(&mut rtr), mrc_core_rts_default(&mut rts, 5)), (MRC_CORE_OK, MRC_CORE_OK));
        (rtr.peer, rtr.ev_profile, rtr.dest_qp, rtr.max_wimm_dest) = (peer, profile, 9, 9);
        refused(mrc_core_modify_to_rtr(e, 0, qp, &rtr), "max_wimm_dest");
        rtr.max_wimm_dest = 8;
        (rtr.dest_qp, rtr.rq_psn) = (0x100_0009, 5);
        refused(mrc_core_modify_to_rtr(e, 0, qp, &rtr), "dest_qp");
        (rtr.dest_qp, rtr.rq_psn) = (9, 0x100_0005);
        refused(mrc_core_modify_to_rtr(e, 0, qp, &rtr), "rq_psn");
        rtr.rq_psn = 0xFF_FFFF;
        assert_eq!(mrc_core_modify_to_rtr(e, 0, qp, &rtr), MRC_CORE_OK);
        // What we may have in flight needs no room of ours: the peer says how much it takes.
        (rts.max_wimm, rts.paths.active, rts.paths.backup) = (9, 9, 4);
        refused(mrc_core_modify_to_rts(e, 0, qp, &rts), "paths.active");
        (rts.paths.active, rts.paths.backup) = (8, 5);
        refused(mrc_core_modify_to_rts(e, 0, qp, &rts), "paths.backup");
        rts.paths.backup = 4;
        rts.sq_psn = 0x100_0005;
        refused(mrc_core_modify_to_rts(e, 0, qp, &rts), "sq_psn");
        (rts.sq_psn, rts.timeout) = (5, 25);
        refused(mrc_core_modify_to_rts(e, 0, qp, &rts), "timeout");
        (rts.timeout, rts.retry_linear) = (14, 8);
        refused(mrc_core_modify_to_rts(e, 0, qp, &rts), "retry_linear");
        (rts.retry_linear, rts.retry_exponential) = (7, 26);
        refused(mrc_core_modify_to_rts(e, 0, qp, &rts), "retry_exponential");
        rts.retry_exponential = 7;
        assert_eq!(mrc_core_modify_to_rts(e, 0, qp, &rts), MRC_CORE_OK);
        assert_eq!(mrc_core_set_mpr(e, qp, 1), MRC_CORE_E_STATE, "without Dynamic MPR");

        let (mut headers, mut tx) = ([0; MRC_CORE_MAX_HEADER_LEN], std::mem::zeroed());
        // Port 1 is bit 1; bit 0 is what counts ports from 0 the way `room` does.
        refused(mrc_core_poll_transmit(e, 0, 1 << 0, headers.as_mut_ptr(), headers.len(), &mut tx), "ports");
        let mut request: mrc_core_op_request = std::mem::zeroed();
        (request.op, request.path, request.ports) = (MRC_CORE_ENDPOINT_PORT_STATUS, entry, 3);
        refused(mrc_core_post_endpoint_op(e, peer, &request), "ports");
    }
}

#[test]
fn calls_that_are_refused() {
    let config = config();
    // SAFETY: valid limits.
    let size = unsafe { mrc_core_storage_size(&config.limits) };
    let mut memory = memory(size);
    let (code, _, e) = init(&mut memory, size, &config);
    assert_eq!(code, MRC_CORE_OK);
    let stale = mrc_core_qp { index: 1, qpn: 99 };
    let mut qp = stale;
    let mut cq = mrc_core_cq { index: 9, generation: 0 };
    // SAFETY: the endpoint lives; out pointers are variables or NULL, which is refused.
    unsafe {
        let detail = || said(mrc_core_detail(e));
        assert_eq!(mrc_core_create_qp(e, 0, cq, cq, &mut qp), MRC_CORE_E_UNKNOWN);
        assert_eq!(detail(), "completion queue");
        assert_eq!(mrc_core_create_cq(e, null_mut()), MRC_CORE_E_NULL);
        for _ in 0..config.limits.cqs {
            assert_eq!(mrc_core_create_cq(e, &mut cq), MRC_CORE_OK, "a refused call takes no slot");
        }
        assert_eq!(mrc_core_create_cq(e, &mut cq), MRC_CORE_E_FULL);
        assert_eq!(mrc_core_create_qp(e, 0, cq, cq, &mut qp), MRC_CORE_OK);
        assert_eq!(mrc_core_destroy_cq(e, cq), MRC_CORE_E_BUSY);
        assert_eq!(mrc_core_modify_to_init(e, stale), MRC_CORE_E_UNKNOWN);
        assert_eq!(mrc_core_modify_to_init(e, qp), MRC_CORE_OK);
        assert_eq!(mrc_core_modify_to_init(e, qp), MRC_CORE_E_STATE);
        let wr: mrc_core_send_wr = std::mem::zeroed();
        assert_eq!(mrc_core_post_send(e, 0, qp, &wr), MRC_CORE_E_STATE);
        assert_eq!(mrc_core_post_send(e, 0, qp, null()), MRC_CORE_E_NULL);
        assert_eq!(mrc_core_post_recv(e, qp, 5), MRC_CORE_OK);
        assert_eq!(mrc_core_set_port(e, 0, 2, 1), MRC_CORE_E_UNKNOWN);
        assert_eq!(mrc_core_set_port(e, 0, 0, 1), MRC_CORE_E_RANGE);
        let mut traffic = std::mem::zeroed();
        assert_eq!(mrc_core_query_port(e, 2, &mut traffic), MRC_CORE_E_UNKNOWN);
        assert_eq!(mrc_core_query_port(e, 1, &mut traffic), MRC_CORE_OK);
        let mut cc = config.cc;
        let mut profile = mrc_core_cc_profile { index: 0, generation: 0 };
        cc.algorithm = MRC_CORE_CC_NSCC;
        assert_eq!(mrc_core_create_cc_profile(e, &cc, &mut profile), MRC_CORE_E_RANGE);
        assert_eq!(said(mrc_core_detail(e)), "nscc.rate_bps");
        assert_eq!(mrc_core_create_cc_profile(e, null(), &mut profile), MRC_CORE_E_NULL);
        (cc.rate_bps, cc.base_rtt_ns) = (100_000_000_000, 12_000);
        assert_eq!(mrc_core_create_cc_profile(e, &cc, null_mut()), MRC_CORE_E_NULL);
        assert_eq!(mrc_core_create_cc_profile(e, &cc, &mut profile), MRC_CORE_OK);
        assert_eq!(mrc_core_destroy_cc_profile(e, profile), MRC_CORE_OK);
        assert_eq!(mrc_core_destroy_cc_profile(e, profile), MRC_CORE_E_UNKNOWN);
        // Nor does the next one in the slot answer to the old handle.
        let (stale, mut next) = (profile, profile);
        assert_eq!(mrc_core_create_cc_profile(e, &cc, &mut next), MRC_CORE_OK);
        assert_eq!((next.index, next.generation), (stale.index, stale.generation + 1));
        assert_eq!(mrc_core_destroy_cc_profile(e, stale), MRC_CORE_E_UNKNOWN);
        assert_eq!(mrc_core_destroy_cc_profile(e, next), MRC_CORE_OK);
        assert_eq!(mrc_core_destroy_cc_profile(e, mrc_core_cc_profile { index: 0, generation: 0 }), MRC_CORE_E_BUSY);
        let pair = mrc_core_qp { index: 0, qpn: 3 };
        assert_eq!(mrc_core_set_receiver_penalty(e, pair, 0, 1), MRC_CORE_E_UNKNOWN);
        assert_eq!(mrc_core_set_qp_access(e, pair, MRC_CORE_ACCESS_REMOTE_WRITE), MRC_CORE_E_UNKNOWN);
        assert_eq!(mrc_core_set_qp_access(e, qp, 2), MRC_CORE_E_RANGE);
        assert_eq!(mrc_core_set_qp_access(e, qp, 0), MRC_CORE_OK);
        assert_eq!(mrc_core_set_refusal(e, 0x42), MRC_CORE_E_RANGE);
        let (mut mr, mut key) = (mrc_core_mr { index: 0, generation: 0 }, 0);
        assert_eq!(mrc_core_register_mr(e, 0, u64::MAX, 2, 1, &mut mr, &mut key), MRC_CORE_E_RANGE);
        assert_eq!(mrc_core_register_mr(e, 0, 0, 2, 2, &mut mr, &mut key), MRC_CORE_E_RANGE);
        assert_eq!(mrc_core_change_mr(e, mr, 0, 1), MRC_CORE_E_UNKNOWN);
        assert_eq!(mrc_core_register_mr(e, 0, 0, 2, 1, &mut mr, &mut key), MRC_CORE_OK);
        assert_eq!(mrc_core_change_mr(e, mr, 5, 2), MRC_CORE_E_RANGE);
        assert_eq!(mrc_core_change_mr(e, mr, 5, 0), MRC_CORE_OK);
        assert_eq!(detail(), "access");
        let mut headers = [0; MRC_CORE_MAX_HEADER_LEN];
        let mut tx = std::mem::zeroed();
        assert_eq!(mrc_core_poll_transmit(e, 0, 2, headers.as_mut_ptr(), 191, &mut tx), MRC_CORE_E_RANGE);
        assert_eq!(mrc_core_poll_transmit(e, 0, 2, null_mut(), 192, &mut tx), MRC_CORE_E_NULL);
        assert_eq!(mrc_core_poll_transmit(e, 0, 2, headers.as_mut_ptr(), 192, &mut tx), MRC_CORE_OK);
        assert_eq!(mrc_core_next_timeout(e), MRC_CORE_NEVER);
        assert_eq!(mrc_core_next_timeout(null_mut()), MRC_CORE_NEVER);
        assert_eq!(mrc_core_poll_event(null_mut(), null_mut()), MRC_CORE_E_NULL);
        let many =
            mrc_core_ev_entry { ev: 0, port: 1, denied: 0, has_dst: 0, has_segment: 0, dst: [0; 16], segment: [0; 16] };
        let mut profile = mrc_core_ev_profile { index: 0, generation: 0 };
        let entries = vec![many; config.limits.profile_evs as usize + 1];
        assert_eq!(mrc_core_create_ev_profile(e, entries.as_ptr(), entries.len(), &mut profile), MRC_CORE_E_RANGE);
        assert_eq!(mrc_core_create_ev_profile(e, null(), 3, &mut profile), MRC_CORE_E_NULL);
        assert_eq!(mrc_core_create_ev_profile(e, entries.as_ptr(), entries.len() - 1, &mut profile), MRC_CORE_OK);
    }
    let mut nobody = memory.clone();
    nobody.fill(Line([0; 64]));
    // SAFETY: memory without an endpoint is told by its mark.
    let code = unsafe { mrc_core_handle_timeout(nobody.as_mut_ptr().cast(), 0) };
    assert_eq!(code, MRC_CORE_E_NO_ENDPOINT);
}

/// An endpoint with a queue pair in INIT.
fn with_qp(config: &mrc_core_config, f: impl FnOnce(*mut mrc_core_endpoint, mrc_core_cq, mrc_core_qp)) {
    // SAFETY: valid limits.
    let size = unsafe { mrc_core_storage_size(&config.limits) };
    let mut memory = memory(size);
    let (_, _, e) = init(&mut memory, size, config);
    let (mut cq, mut qp) = (mrc_core_cq { index: 0, generation: 0 }, mrc_core_qp { index: 0, qpn: 0 });
    // SAFETY: the endpoint lives; out pointers are variables.
    unsafe {
        assert_eq!(mrc_core_create_cq(e, &mut cq), MRC_CORE_OK);
        assert_eq!(mrc_core_create_qp(e, 0, cq, cq, &mut qp), MRC_CORE_OK);
        assert_eq!(mrc_core_modify_to_init(e, qp), MRC_CORE_OK);
    }
    f(e, cq, qp);
}

/// A driver that had taken a request fails its QP, whose cause is that request and not the application.
#[test]
fn a_request_that_was_taken_and_refused_fails_its_qp() {
    // SAFETY: the endpoint lives; out pointers are variables.
    with_qp(&config(), |e, cq, qp| unsafe {
        assert_eq!(mrc_core_post_recv(e, qp, 5), MRC_CORE_OK);
        assert_eq!(mrc_core_fail_post(null_mut(), 0, qp), MRC_CORE_E_NULL);
        let stale = mrc_core_qp { qpn: qp.qpn ^ 1, ..qp };
        assert_eq!(mrc_core_fail_post(e, 0, stale), MRC_CORE_E_UNKNOWN);
        assert_eq!(mrc_core_fail_post(e, 7, qp), MRC_CORE_OK);
        let (mut info, mut event, mut done) = (std::mem::zeroed(), std::mem::zeroed(), std::mem::zeroed());
        assert_eq!(mrc_core_query_qp(e, qp, &mut info), MRC_CORE_OK);
        let cause = said(info.cause);
        assert_eq!((info.state, cause), (MRC_CORE_QP_ERROR, mrc_core::ErrorCause::PostRefused.text()));
        assert_eq!(mrc_core_poll_event(e, &mut event), MRC_CORE_SOME);
        assert_eq!((event.kind, event.qpn, said(event.cause)), (MRC_CORE_EVENT_QP_ERROR, qp.qpn, cause));
        assert_eq!(mrc_core_poll_cq(e, cq, &mut done), MRC_CORE_SOME);
        assert_eq!((done.wr_id, done.status), (5, MRC_CORE_WC_FLUSHED));
    });
}

/// An empty message has a code of its own where those are refused.
#[test]
fn an_empty_message_is_not_called_too_long() {
    // SAFETY: the endpoint lives.
    with_qp(&mrc_core_config { reject_zero_len: 1, ..config() }, |e, _, qp| unsafe {
        // A QP in ERROR takes requests, as one in RTS does.
        assert_eq!(mrc_core_fail_post(e, 0, qp), MRC_CORE_OK);
        let wr: mrc_core_send_wr = std::mem::zeroed();
        assert_eq!(mrc_core_post_send(e, 0, qp, &wr), MRC_CORE_E_EMPTY);
        assert_eq!(said(mrc_core_detail(e)), "len");
        assert!(said(mrc_core_error_text(MRC_CORE_E_EMPTY)).contains("reject_zero_len"));
    });
}

/// A frame that is refused has its reason as return code, in words, as counter and as event.
#[test]
fn a_discard_has_one_name_everywhere() {
    let mut config = config();
    config.events = MRC_CORE_EVENTS_DISCARD;
    // SAFETY: valid limits.
    let size = unsafe { mrc_core_storage_size(&config.limits) };
    let mut memory = memory(size);
    let (_, _, e) = init(&mut memory, size, &config);
    let rx = mrc_core_rx { wire_len: 60, port: 1, icrc: MRC_CORE_ICRC_VERIFY };
    // SAFETY: the endpoint lives; out pointers are variables.
    unsafe {
        let mut place = std::mem::zeroed();
        let code = mrc_core_handle_packet(e, 0, &rx, [0; 60].as_ptr(), 60, &mut place);
        assert!(code <= MRC_CORE_E_DISCARDED);
        let name = said(mrc_core_error_text(code));
        assert_eq!(name, Discard::L3Bad.name());
        let (mut event, mut text, mut value) = (std::mem::zeroed(), std::mem::zeroed(), 0);
        assert_eq!(mrc_core_poll_event(e, &mut event), MRC_CORE_SOME);
        assert_eq!((event.kind, event.discard, said(event.cause)), (MRC_CORE_EVENT_DISCARD, code, name));
        assert_eq!(mrc_core_poll_event(e, &mut event), MRC_CORE_OK);
        let found = (0..).find(|&index| {
            assert_eq!(mrc_core_counter(e, index, &mut text, &mut value), MRC_CORE_SOME);
            said(text) == name
        });
        assert!(found.is_some() && value == 1);
    }
    for &why in Discard::ALL {
        assert_eq!(said(mrc_core_error_text(MRC_CORE_E_DISCARDED - why as i32)), why.name());
    }
}
