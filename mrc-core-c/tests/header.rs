//! `include/mrc_core.h` and this crate say the same: every struct, constant and prototype. The header is written by hand; a
//! change on one side alone fails here.

mod common;

use std::{collections::BTreeMap, fmt::Write as _, fs};

use common::{compiler, folder, scratch};
use mrc_core_c::*;

/// Assertions in C on size, alignment and every field of every struct. A field that Rust has and the list has not does not
/// compile; one that only C has shifts another or the size.
fn structs() -> String {
    let mut c = String::new();
    macro_rules! layout {
        ($($name:ident { $($field:ident),* $(,)? })*) => {$({
            let _ = |all: $name| {
                let $name { $($field: _),* } = all;
            };
            let name = stringify!($name);
            writeln!(c, "_Static_assert(sizeof(struct {name}) == {}, \"{name}\");", size_of::<$name>()).unwrap();
            writeln!(c, "_Static_assert(_Alignof(struct {name}) == {}, \"{name}\");", align_of::<$name>()).unwrap();
            $(
                let field = stringify!($field);
                let size = field_size(|all: $name| all.$field);
                let offset = std::mem::offset_of!($name, $field);
                writeln!(c, "_Static_assert(offsetof(struct {name}, {field}) == {offset}, \"{name}.{field}\");").unwrap();
                writeln!(c, "_Static_assert(sizeof(((struct {name} *)0)->{field}) == {size}, \"{name}.{field}\");").unwrap();
            )*
        })*};
    }
    layout! {
        mrc_core_text { ptr, len }
        mrc_core_limits {
            qps, mpr, tx_packets, send_queue, recv_queue, wimm, evs, active_evs, cqs, cq_depth, mrs, peers, ev_profiles,
            planes, srv6_peers, profile_evs, cc_profiles, qpccs, refusals, events,
        }
        mrc_core_ip { version, bytes }
        mrc_core_port { present, has_sid, has_addr, mac, sid, addr }
        mrc_core_dscp { no_trim, trimmable, trimmable_retx, trimmed, trimmed_lasthop, control }
        mrc_core_cc { rate_bps, window_bytes, base_rtt_ns, target_delay_ns, fi_bytes, eta_bytes, fi_scale_q16, gamma_q16, max_md_jump_q16, qa_threshold_ns, adjust_bytes, adjust_period_ns, max_cwnd_bytes, clear_delay_ns, avg_weight_q16, probe_shortfall_ns, algorithm, trimming, qa_gate, disable_qa, disable_rtt_probe, window_follows_rtt, crowds }
        mrc_core_config { abi, limits, cc, port_update_rto_ns, port_update_max_ns, port_unmask_after_ns, endpoint_rate_limit, ev_probe_rate_limit, turn_bytes, call_budget, ports, gids, dscp, udp_dport, udp_dport_accept, pkey, msn_start, rqmsn_start, sack_gen_threshold, ev_high_half_in_sport, bth_se_bit, neth_cc_type, pdcid_order, oor_silent, answers_on_silent_planes, complete_on_sack, stale_nak_fatal, retry_strict, reject_zero_len, timestamps, ctl_ect, always_skip_after, wimm_nak_syndrome, events, no_receive, tail_retry_lenient, tail_retry_paced, silent_packets, share_bad_evs, endpoint_svc_time, port_update_on_rts, probe_masked_ports, port_mask_zero_based, merge_sacks, tack_within_message, ask_each_message, placement_reported, shard_bits, shard, measurement_life_ns, bitmap_reach, right_edge_retreats, send_below_window, size_overhead, ack_msn_zero, eeth_op_bit }
        mrc_core_mr { index, generation }
        mrc_core_qp { index, qpn }
        mrc_core_cq { index, generation }
        mrc_core_peer { index, generation }
        mrc_core_ev_profile { index, generation }
        mrc_core_cc_profile { index, generation }
        mrc_core_plane { present, has_outer_src, next_hop, outer_src }
        mrc_core_copy_op { ev_lsb, width, dst_msb_offset }
        mrc_core_peer_config { local, remote, planes, route, hop_limit, copy_ops, base, ops }
        mrc_core_ev_entry { ev, port, denied, has_dst, has_segment, dst, segment }
        mrc_core_rtr {
            peer, ev_profile, dest_qp, rq_psn, path_mtu, max_wimm_dest, mpr_dest, trim_nack, dynamic_mpr,
            svc_time, private_stamps_us,
        }
        mrc_core_paths { probe_interval_ns, skip_ns, active, backup, ev_min_active, pinned, hopper, flowbender, selector, resurrect_probes, bad_probes_outstanding, loss_streak, skip_mode, loss_ev_action, last_resort, plane_lead, last_resort_unpaced, marked_probe_good, skip_extends, reuse_nacked_ev, relapse_backoff }
        mrc_core_rts {
            base_rtt_ns, target_delay_ns, probe_rate_limit_ns, keepalive_ns, reorder_delay_ns, tail_probe_ns, paths, sq_psn, cc_profile,
            reorder_pkts_min, reorder_factor, max_wimm, mpr, trimming, timeout, retry_linear, retry_exponential,
            dynamic_mpr, reorder_floor_ns, reorder_tolerance, exponential_from_t0, blame_silence,
        }
        mrc_core_send_wr { wr_id, local_va, remote_va, lkey, rkey, len, imm, has_imm, solicited, signaled }
        mrc_core_rx { wire_len, port, icrc }
        mrc_core_placement { mr, offset, token, qp, psn, payload_start, payload_len }
        mrc_core_transmit { mr, offset, payload_len, header_len, l3_offset, frame_len, ev, port, pad, traffic_class }
        mrc_core_arrival { head, head_len, rx, code, place }
        mrc_core_frame { headers, len, tx }
        mrc_core_completion {
            wr_id, since_ack_ns, qpn, byte_len, first_psn, imm, last_ev, last_port, status, operation, has_imm,
            solicited, retries,
        }
        mrc_core_event { qpn, ev, psn, discard, cause, profile, peer, ports, dropped, rtt_ns, entry, from_entry, kind, port, up, from, to }
        mrc_core_qp_info {
            base_rtt_ns, cause, dest_qp, outstanding, queued, receives, placements, suspended_ports, evs_good, evs_skip,
            evs_assumed_bad, evs_denied, evs_active, state, retries,
        }
        mrc_core_hopper { alpha_percent, th_probe_percent, th_cong_percent, ttl_probe_percent, delta_rtt_percent, switch_delay_percent, switch_delay_max_percent, first, move_on_loss, probe_on_mark }
        mrc_core_flowbender { threshold_permille, rtt_percent, first, epochs }
        mrc_core_ev { value, port }
        mrc_core_ev_report { ev, state }
        mrc_core_ev_field { init_val, min_val, max_val, mask, width }
        mrc_core_ev_profile_config { paths, path_count, fields, widths, count, min_active, mode, format, width_count, field_count, event_good, event_assumed_bad }
        mrc_core_ev_profile_info { id, users, fields, widths, count, min_active, state, mode, format, width_count, field_count, event_good, event_assumed_bad }
        mrc_core_cc_info { cwnd_bytes, inflight_bytes, backlog_bytes, base_rtt_ns, avg_delay_ns, users, state }
        mrc_core_op_request { cookie, timeout_ns, path, ports, op, has_dscp, dscp }
        mrc_core_op_outcome { cookie, rtt_ns, peer, op, answered, port, adjusted }
        mrc_core_shard_message { ports, profile, entry, id, timestamp, kind, from, to, used, entered_rts, op, port, local, remote }
        mrc_core_port_stats { tx_packets, tx_bytes, rx_packets, rx_bytes }
    }
    c
}

/// The ranges that the header gives for sizes are those that the engine takes.
#[test]
fn sizes_have_the_ranges_of_the_header() {
    let header = fs::read_to_string(folder().join("include/mrc_core.h")).unwrap();
    let (_, rest) = header.split_once("struct mrc_core_limits {").unwrap();
    let (block, _) = rest.split_once("};").unwrap();
    let mut checked = 0;
    for field in block.split(';').filter(|field| field.contains("uint32_t")) {
        let (text, name) = field.rsplit_once("uint32_t ").unwrap();
        let words: Vec<&str> = text.split([' ', ',', ':', '.', '\n']).filter(|word| !word.is_empty()).collect();
        let range = words.windows(3).find_map(|w| match w {
            [least, "to", most] => Some((least.parse::<u32>().ok()?, most.parse::<u32>().ok()?)),
            _ => None,
        });
        let Some((least, most)) = range else { continue };
        let takes = |value: u32| {
            let mut limits = mrc_core::Limits { qps: 1, cqs: 1, mpr: 1, send_queue: 1, ..mrc_core::Limits::default() };
            let value = value as usize;
            let at = match name {
                "qps" => &mut limits.qps,
                "mpr" => &mut limits.mpr,
                "send_queue" => &mut limits.send_queue,
                "recv_queue" => &mut limits.recv_queue,
                "wimm" => &mut limits.wimm,
                "evs" => &mut limits.evs,
                "cqs" => &mut limits.cqs,
                "cq_depth" => &mut limits.cq_depth,
                "mrs" => &mut limits.mrs,
                "peers" => &mut limits.peers,
                "planes" => &mut limits.planes,
                "ev_profiles" => &mut limits.ev_profiles,
                "profile_evs" => &mut limits.profile_evs,
                "cc_profiles" => &mut limits.cc_profiles,
                "qpccs" => &mut limits.qpccs,
                "refusals" => &mut limits.refusals,
                other => panic!("{other} has a range and is not in this test"),
            };
            *at = value;
            limits.active_evs = limits.active_evs.min(limits.evs.max(1));
            limits.check().is_ok()
        };
        // Where only powers of two are taken, the next one is the first beyond.
        let beyond = if text.contains("power of two") { most * 2 } else { most + 1 };
        assert!(takes(least) && takes(most) && !takes(beyond), "{name}: {least} to {most}");
        assert!(least == 0 || !takes(least - 1), "{name}: {}", least - 1);
        checked += 1;
    }
    assert_eq!(checked, 16);
}

const fn field_size<S, F>(_: fn(S) -> F) -> usize {
    size_of::<F>()
}

/// Assertions in C on every constant of the source.
fn constants() -> String {
    let source = fs::read_to_string(folder().join("src/codes.rs")).unwrap();
    let mut c = String::new();
    let mut count = 0;
    macro_rules! values {
        ($($name:ident),* $(,)?) => {$(
            count += 1;
            let suffix = if $name as i128 > i64::MAX.into() { "u" } else { "" };
            writeln!(c, "_Static_assert({0} == {1}{suffix}, \"{0}\");", stringify!($name), $name).unwrap();
        )*};
    }
    values! {
        MRC_CORE_ABI, MRC_CORE_SEED_LEN, MRC_CORE_ALIGN, MRC_CORE_MAX_PORTS, MRC_CORE_MAX_GIDS, MRC_CORE_MAX_COPY_OPS,
        MRC_CORE_MAX_HEADER_LEN, MRC_CORE_NEVER, MRC_CORE_OK, MRC_CORE_SOME, MRC_CORE_E_NULL, MRC_CORE_E_ALIGN,
        MRC_CORE_E_MEMORY, MRC_CORE_E_NO_ENDPOINT, MRC_CORE_E_ABI, MRC_CORE_E_RANGE, MRC_CORE_E_FULL,
        MRC_CORE_E_UNKNOWN, MRC_CORE_E_BUSY, MRC_CORE_E_STATE, MRC_CORE_E_NO_USABLE_EV, MRC_CORE_E_LOCAL_KEY,
        MRC_CORE_E_LOCAL_BOUNDS, MRC_CORE_E_TOO_LONG, MRC_CORE_E_NO_WRITE_IMM, MRC_CORE_E_OTHER, MRC_CORE_E_IMAGE, MRC_CORE_E_EMPTY,
        MRC_CORE_EXPORT_MIN,
        MRC_CORE_E_DISCARDED, MRC_CORE_ICRC_VERIFY, MRC_CORE_ICRC_VALID, MRC_CORE_ICRC_INVALID,
        MRC_CORE_QP_RESET, MRC_CORE_QP_INIT, MRC_CORE_QP_RTR, MRC_CORE_QP_RTS, MRC_CORE_QP_ERROR,
        MRC_CORE_WC_SUCCESS, MRC_CORE_WC_LOCAL_PROTECTION, MRC_CORE_WC_FLUSHED, MRC_CORE_WC_REMOTE_INVALID,
        MRC_CORE_WC_REMOTE_ACCESS, MRC_CORE_WC_REMOTE_OPERATION, MRC_CORE_WC_RETRY_EXCEEDED, MRC_CORE_WC_OTHER,
        MRC_CORE_EVENT_QP_ERROR, MRC_CORE_EVENT_EV, MRC_CORE_EVENT_PORT, MRC_CORE_EVENT_QP_STATE,
        MRC_CORE_EVENT_LOSS, MRC_CORE_EVENT_DISCARD, MRC_CORE_EVENT_OTHER, MRC_CORE_EVENTS_QP_ERROR,
        MRC_CORE_EVENTS_EV, MRC_CORE_EVENTS_EV_SKIP, MRC_CORE_EVENTS_PORT, MRC_CORE_EVENTS_QP_STATE,
        MRC_CORE_EVENTS_LOSS, MRC_CORE_EVENTS_DISCARD, MRC_CORE_OP_WRITE, MRC_CORE_OP_WRITE_IMM,
        MRC_CORE_OP_RECEIVE, MRC_CORE_NO_RECEIVE_HOLD, MRC_CORE_NO_RECEIVE_NAK, MRC_CORE_ACCESS_REMOTE_WRITE,
        MRC_CORE_EV_GOOD, MRC_CORE_EV_SKIP, MRC_CORE_EV_ASSUMED_BAD, MRC_CORE_EV_DENIED, MRC_CORE_ROUTE_PLAIN,
        MRC_CORE_ROUTE_SRV6, MRC_CORE_ROUTE_SRV6_ENTRY, MRC_CORE_SELECT_SPRAY, MRC_CORE_SELECT_OBLIVIOUS,
        MRC_CORE_SELECT_PINNED, MRC_CORE_CC_FIXED, MRC_CORE_CC_NONE, MRC_CORE_CC_NSCC, MRC_CORE_SKIP_ROTATION,
        MRC_CORE_SKIP_TIME, MRC_CORE_LOSS_BY_TRIMMING, MRC_CORE_LOSS_ASSUMED_BAD, MRC_CORE_LOSS_SKIP,
        MRC_CORE_LOSS_NONE, MRC_CORE_MAX_EV_FIELDS, MRC_CORE_EVENT_EV_PROFILE, MRC_CORE_EVENT_PEER_PORTS, MRC_CORE_EVENT_PATH_PROBE, MRC_CORE_EVENT_PATH_SWITCH, MRC_CORE_EVENTS_PATH, MRC_CORE_SELECT_HOPPER, MRC_CORE_SELECT_FLOWBENDER, MRC_CORE_SELECT_PLB, MRC_CORE_SELECT_REPS, MRC_CORE_SELECT_FLOWING_JUMPING, MRC_CORE_ENTRY_ANY, MRC_CORE_EV_FORMAT_UDP, MRC_CORE_EV_FORMAT_STEV, MRC_CORE_EV_FORMAT_SRV6, MRC_CORE_EV_MODE_AUTO, MRC_CORE_EV_MODE_EXPLICIT, MRC_CORE_EV_MODE_GENERATED, MRC_CORE_PROFILE_INIT, MRC_CORE_PROFILE_OFFLINE, MRC_CORE_PROFILE_ONLINE, MRC_CORE_ENDPOINT_EV_PROBE, MRC_CORE_ENDPOINT_PORT_STATUS, MRC_CORE_SHARD_PEER_PORTS, MRC_CORE_SHARD_PEER_USED, MRC_CORE_SHARD_BAD_EV, MRC_CORE_SHARD_RESPONSE, MRC_CORE_SHARD_ALL, MRC_CORE_CC_IDLE, MRC_CORE_CC_PENDING, MRC_CORE_CC_ACTIVE, MRC_CORE_CC_READY,
    }
    let in_source = source.lines().filter(|line| line.starts_with("pub const ")).count();
    assert_eq!(count, in_source, "a constant of src/codes.rs is missing above");
    let header = fs::read_to_string(folder().join("include/mrc_core.h")).unwrap();
    let in_header = header.lines().filter(|line| line.starts_with("#define MRC_CORE_") && line.contains(' ')).count();
    assert_eq!(in_header, in_source + 1, "constants of the header, and its guard");
    c
}

#[test]
fn structs_and_constants_agree() {
    let Some(mut cc) = compiler("structs_and_constants_agree") else { return };
    let file = scratch("layout.c");
    fs::write(&file, format!("#include \"mrc_core.h\"\n{}{}", structs(), constants())).unwrap();
    let output = cc.arg("-fsyntax-only").arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Types of arguments and result, in the words of C.
type Signature = Vec<String>;

fn c_type(rust: &str) -> String {
    let rust = rust.trim();
    if let Some(target) = rust.strip_prefix("*const ") {
        return format!("const {}*", c_type(target));
    }
    if let Some(target) = rust.strip_prefix("*mut ") {
        return format!("{}*", c_type(target));
    }
    match rust {
        "u8" => "uint8_t".into(),
        "u32" => "uint32_t".into(),
        "u64" => "uint64_t".into(),
        "i32" => "int32_t".into(),
        "usize" => "size_t".into(),
        named => format!("struct {named}"),
    }
}

fn exported() -> BTreeMap<String, Signature> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder().join("src")).unwrap() {
        let source = fs::read_to_string(entry.unwrap().path()).unwrap();
        for part in source.split("#[unsafe(no_mangle)]").skip(1) {
            let (_, rest) = part.split_once("extern \"C\" fn ").unwrap();
            let (name, rest) = rest.split_once('(').unwrap();
            let (arguments, rest) = rest.split_once(')').unwrap();
            let (result, _) = rest.split_once('{').unwrap();
            let result = result.trim().trim_start_matches("->");
            let types = arguments.split(',').filter_map(|one| one.split_once(':')).map(|(_, kind)| c_type(kind));
            found.insert(name.to_owned(), types.chain([c_type(result)]).collect());
        }
    }
    found
}

fn declared() -> BTreeMap<String, Signature> {
    let header = fs::read_to_string(folder().join("include/mrc_core.h")).unwrap();
    let mut found = BTreeMap::new();
    let mut code = String::new();
    for part in header.split("/*") {
        code.push_str(part.split_once("*/").map_or(part, |(_, rest)| rest));
    }
    for statement in code.split(';') {
        let Some((head, arguments)) = statement.split_once('(') else { continue };
        let Some((arguments, _)) = arguments.split_once(')') else { continue };
        let kind = |declaration: &str| {
            let at = declaration.rfind([' ', '*']).unwrap() + 1;
            let kind = declaration[..at].split_whitespace().collect::<Vec<_>>().join(" ").replace(" *", "*");
            (kind, declaration[at..].to_owned())
        };
        if !head.contains(" mrc_core_") {
            continue;
        }
        let (result, name) = kind(head.rsplit('\n').next().unwrap());
        let types = arguments.split(',').map(|one| kind(one.trim()).0);
        found.insert(name, types.chain([result]).collect());
    }
    found
}

#[test]
fn prototypes_agree() {
    let (exported, declared) = (exported(), declared());
    assert!(exported.len() > 30);
    assert_eq!(exported, declared);
}
