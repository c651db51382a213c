//! Sizes, offsets and values against our headers, by a C compiler.

use std::fmt::Write as _;
use std::io::Write as _;
use std::mem::offset_of;
use std::process::{Command, Output, Stdio};

use super::*;

/// `struct = Type, size: field = "C's name" at the offset of the published ABI, ...`; in Rust, too.
macro_rules! layouts {
    ($out:ident; $($c:literal = $type:ty, $size:literal: $($($field:ident).+ $(= $name:literal)? @ $at:literal),+;)*) => {$(
        assert_eq!(size_of::<$type>(), $size, $c);
        writeln!($out, "_Static_assert(sizeof(struct {0}) == {1}, \"{0}\");", $c, $size).unwrap();
        $(
            assert_eq!(offset_of!($type, $($field).+), $at, "{} {}", $c, stringify!($($field).+));
            #[allow(unused_mut, unused_assignments)]
            let mut name = stringify!($($field).+).replace(' ', "");
            $(name = $name.to_owned();)?
            writeln!($out, "_Static_assert(offsetof(struct {0}, {name}) == {1}, \"{0}.{name}\");", $c, $at).unwrap();
        )+
    )*};
}

macro_rules! values {
    ($out:ident; $($name:literal = $value:expr;)*) => {$(
        writeln!($out, "_Static_assert((unsigned){0} == {1}u, \"{0}\");", $name, $value).unwrap();
    )*};
}

fn assertions() -> String {
    let mut out = String::from("#include <stddef.h>\n#include \"mrc_ctl.h\"\n");
    layouts! { out;
        "mrc_device_attr" = MrcDeviceAttr, 20: mrc_protocol_version @ 0, max_wimm = "wimm_attr.max_wimm" @ 4,
            max_wimm_dest = "wimm_attr.max_wimm_dest" @ 6, max_mpr = "mpr_attr.max_mpr" @ 8,
            mpr_resolution = "mpr_attr.mpr_resolution" @ 9, max_qp_hint = "qp_attr.max_qp_hint" @ 12, cap @ 16;
        "mrc_context_attr" = MrcContextAttr, 8: mrc_api_version_used @ 0, mrc_vendor_api_version_used @ 4;
        "mrc_qp_hint_attr" = MrcQpHintAttr, 140: num_qps_per_peer @ 0, num_send_peers @ 4, num_remote_recv_peers @ 8,
            vendor_cfg @ 12;
        "mrc_qp_hint_init_attr" = MrcQpHintAttr, 140: num_qps_per_peer = "attr" @ 0;
        "mrc_qp_init_attr" = MrcQpInitAttr, 72: qp_context @ 0, send_cq @ 8, recv_cq @ 16, cap @ 24, sq_sig_all @ 44, pd @ 48,
            send_ops_flags @ 56, protocol_version @ 64;
        "mrc_qp_attr" = MrcQpAttr, 176: mpr = "mpr.mpr" @ 0, mpr_dest = "mpr.mpr_dest" @ 1, max_wimm = "wimm.max_wimm" @ 2,
            max_wimm_dest = "wimm.max_wimm_dest" @ 4, timeout @ 6, ev_profile_id = "profile.ev_profile_id" @ 8,
            cc_profile_id = "profile.cc_profile_id" @ 16, linear_cnt = "retry.linear_cnt" @ 24, exp_cnt = "retry.exp_cnt" @ 25,
            qp_hint @ 32, cap @ 40, vendor_cfg @ 44;
        "mrc_async_event" = crate::abi::IbvAsyncEvent, 16: element @ 0, event_type @ 8;
        "mrc_ctl_device_attr" = MrcCtlDeviceAttr, 72: mrc_ctl_protocol_version @ 0,
            ev_max_fmt_profiles = "ev.ev_max_fmt_profiles" @ 4, ev_max_profiles = "ev.ev_max_profiles" @ 8,
            ev_max_count = "ev.ev_max_count" @ 12, ev_free_count = "ev.ev_free_count" @ 16,
            ev_max_count_profile = "ev.ev_max_count_profile" @ 20, ev_count_align = "ev.ev_count_align" @ 24,
            ev_max_width = "ev.ev_max_width" @ 28, ev_fmt_mode_mask = "ev.ev_fmt_mode_mask" @ 32,
            ev_mode_mask = "ev.ev_mode_mask" @ 36, ev_op_max_entries = "ev.ev_op_max_entries" @ 40,
            cc_max_profiles = "cc.cc_max_profiles" @ 48, algorithms = "cc.algorithms" @ 56, phy_port_mask @ 64, opt_attr @ 68;
        "mrc_ctl_port_attr" = MrcCtlPortAttr, 4: port_admin_state @ 0;
        "mrc_ctl_ev_fmt_profile_attr" = MrcCtlEvFmtProfileAttr, 168: profile_state @ 0, cur_profile_state @ 4, ev_fmt_mode @ 8,
            ev_fmt_op.op @ 16, ev_fmt_op.fmt_fields @ 24, ev_fmt_op.fmt_field_count @ 32, vendor_cfg @ 40;
        "mrc_ctl_ev" = MrcCtlEv, 33: val @ 0, port @ 32;
        "mrc_ctl_ev_field" = MrcCtlEvField, 20: width @ 0, init_val @ 4, min_val @ 8, max_val @ 12, mask @ 16;
        "mrc_ctl_ev_op_entry" = MrcCtlEvOpEntry, 76: ev @ 0, ev_new @ 33, state @ 68, flags @ 72;
        "mrc_ctl_ev_profile_attr" = MrcCtlEvProfileAttr, 216: profile_state @ 0, cur_profile_state @ 4, ev_mode @ 8,
            ev_fmt_profile_id @ 16, ev_count @ 24, ev_min_active @ 28, ev_event_mask @ 32, ev_op.op @ 40,
            ev_op.entries @ 48, ev_op.entry_count @ 56, ev_fields_op.op @ 64, ev_fields_op.fields @ 72,
            ev_fields_op.field_count @ 80, vendor_cfg @ 88;
        "mrc_ctl_cc_profile_attr" = MrcCtlCcProfileAttr, 152: profile_state @ 0, cur_profile_state @ 4, algorithm @ 8,
            cc_config @ 16, vendor_cfg @ 24;
        "mrc_ctl_cc_nscc_cfg" = MrcCtlCcNsccCfg, 52: disable_qa @ 0, adjust_bytes_threshold @ 4, adjust_period_threshold @ 8,
            base_rtt @ 12, eta @ 16, fi @ 20, fi_scale @ 24, gamma @ 28, max_md_jump @ 32, max_cwnd @ 36, qa_gate @ 40,
            qa_threshold @ 44, target_delay @ 48;
        "mrc_ctl_ep_req" = MrcCtlEpReq, 88: req_id @ 0, sgid @ 8, dgid @ 24, ev_fmt_mode @ 40, req_ev @ 44,
            port_status = "op.port_status_update.port_status" @ 80;
        "mrc_ctl_ep_rsp" = MrcCtlEpRsp, 12: req_id @ 0, port @ 2, rtt @ 4, adj_svc_time @ 8;
    }
    values! { out;
        "MRC_API_CURRENT_VERSION" = API_VERSION;
        "MRC_CTL_API_CURRENT_VERSION" = API_VERSION;
        "MRC_API_VER(1, 0, 1)" = API_VERSION;
        "MRC_VENDOR_API_CURRENT_VERSION" = VENDOR_API_VERSION;
        "MRC_CTL_VENDOR_API_CURRENT_VERSION" = VENDOR_API_VERSION;
        "MRC_PROTOCOL_VERSION_1" = PROTOCOL_VERSION_1;
        "MRC_CTL_PROTOCOL_VERSION_1" = PROTOCOL_VERSION_1;
        "MRC_DEVICE_CAP_TRIM_NACK" = 1;
        "MRC_DEVICE_CAP_DYNAMIC_MPR" = 2;
        "MRC_DEVICE_CAP_SVC_TIME" = 4;
        "MRC_QP_HINT_NUM_QPS_PER_PEER" = HINT_NUM_QPS_PER_PEER;
        "MRC_QP_HINT_NUM_SEND_PEERS" = HINT_NUM_SEND_PEERS;
        "MRC_QP_HINT_NUM_REMOTE_RECV_PEERS" = HINT_NUM_REMOTE_RECV_PEERS;
        "MRC_QP_HINT_VENDOR_CFG" = VENDOR_CFG;
        "MRC_QP_MAX_WIMM" = QP_MAX_WIMM;
        "MRC_QP_MAX_WIMM_DEST" = QP_MAX_WIMM_DEST;
        "MRC_QP_MPR" = QP_MPR;
        "MRC_QP_MPR_DEST" = QP_MPR_DEST;
        "MRC_QP_TIMEOUT" = QP_TIMEOUT;
        "MRC_QP_EV_PROFILE_ID" = QP_EV_PROFILE_ID;
        "MRC_QP_CC_PROFILE_ID" = QP_CC_PROFILE_ID;
        "MRC_QP_HINT" = QP_HINT;
        "MRC_QP_RETRY_CNT" = QP_RETRY_CNT;
        "MRC_QP_CAP" = QP_CAP;
        "MRC_QP_VENDOR_CFG" = VENDOR_CFG;
        "MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED" = QP_CAP_TRIM_NACK_DEST_UNSUPPORTED;
        "MRC_QP_CAP_DYNAMIC_MPR" = QP_CAP_DYNAMIC_MPR;
        "MRC_QP_CAP_SVC_TIME_DEST_UNSUPPORTED" = QP_CAP_SVC_TIME_DEST_UNSUPPORTED;
        "MRC_CTL_PROFILE_INIT" = 0;
        "MRC_CTL_PROFILE_OFFLINE" = 1;
        "MRC_CTL_PROFILE_ONLINE" = 2;
        "MRC_CTL_OPT_CAP_EV_EVENT" = OPT_CAP_EV_EVENT;
        "MRC_CTL_OPT_CAP_EP_OP_EV_PROBE" = OPT_CAP_EP_OP_EV_PROBE;
        "MRC_CTL_PORT_ADMIN_DISABLED" = PORT_ADMIN_DISABLED;
        "MRC_CTL_PORT_ADMIN_ENABLED" = PORT_ADMIN_ENABLED;
        "MRC_CTL_PORT_ADMIN_STATE" = PORT_ADMIN_STATE;
        "MRC_CTL_EV_FMT_MODE_STEV" = FMT_MODE_STEV;
        "MRC_CTL_EV_FMT_MODE_SRV6" = FMT_MODE_SRV6;
        "MRC_CTL_EV_FMT_MODE_UDP" = FMT_MODE_UDP;
        "MRC_CTL_EV_FMT_OP_MODIFY_FIELDS" = OP_MODIFY_FIELDS;
        "MRC_CTL_EV_FMT_OP_QUERY_FIELDS" = OP_QUERY_FIELDS;
        "MRC_CTL_EV_FMT_PROFILE_STATE" = PROFILE_STATE;
        "MRC_CTL_EV_FMT_PROFILE_CUR_STATE" = PROFILE_CUR_STATE;
        "MRC_CTL_EV_FMT_PROFILE_MODE" = FMT_PROFILE_MODE;
        "MRC_CTL_EV_FMT_PROFILE_OP" = FMT_PROFILE_OP;
        "MRC_CTL_EV_FMT_VENDOR_CFG" = VENDOR_CFG;
        "MRC_CTL_EV_GOOD" = EV_GOOD;
        "MRC_CTL_EV_ASSUMED_BAD" = EV_ASSUMED_BAD;
        "MRC_CTL_EV_DENIED" = EV_DENIED;
        "MRC_CTL_EV_UNKNOWN" = EV_UNKNOWN;
        "MRC_CTL_EV_MODE_AUTO" = EV_MODE_AUTO;
        "MRC_CTL_EV_MODE_EXP" = EV_MODE_EXP;
        "MRC_CTL_EV_MODE_GEN" = EV_MODE_GEN;
        "MRC_CTL_EV_OP_REPLACE_EV" = EV_OP_REPLACE_EV;
        "MRC_CTL_EV_OP_MODIFY_EV_STATE" = EV_OP_MODIFY_EV_STATE;
        "MRC_CTL_EV_OP_QUERY_EV_STATE" = EV_OP_QUERY_EV_STATE;
        "MRC_CTL_EV_OP_QUERY_EV_ARRAY" = EV_OP_QUERY_EV_ARRAY;
        "MRC_CTL_EV_OP_F_ALL_COPIES" = EV_OP_F_ALL_COPIES;
        "MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS" = OP_MODIFY_FIELDS;
        "MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS" = OP_QUERY_FIELDS;
        "MRC_CTL_EV_PROFILE_STATE" = PROFILE_STATE;
        "MRC_CTL_EV_PROFILE_CUR_STATE" = PROFILE_CUR_STATE;
        "MRC_CTL_EV_PROFILE_MODE" = EV_PROFILE_MODE;
        "MRC_CTL_EV_PROFILE_FMT_ID" = EV_PROFILE_FMT_ID;
        "MRC_CTL_EV_PROFILE_COUNT" = EV_PROFILE_COUNT;
        "MRC_CTL_EV_PROFILE_MIN_ACTIVE" = EV_PROFILE_MIN_ACTIVE;
        "MRC_CTL_EV_PROFILE_EVENT_MASK" = EV_PROFILE_EVENT_MASK;
        "MRC_CTL_EV_PROFILE_EV_OP" = EV_PROFILE_EV_OP;
        "MRC_CTL_EV_PROFILE_EV_FIELDS_OP" = EV_PROFILE_EV_FIELDS_OP;
        "MRC_CTL_EV_PROFILE_VENDOR_CFG" = VENDOR_CFG;
        "MRC_CTL_CC_PROFILE_STATE" = PROFILE_STATE;
        "MRC_CTL_CC_PROFILE_CUR_STATE" = PROFILE_CUR_STATE;
        "MRC_CTL_CC_PROFILE_ALGORITHM" = CC_PROFILE_ALGORITHM;
        "MRC_CTL_CC_PROFILE_CONFIG" = CC_PROFILE_CONFIG;
        "MRC_CTL_CC_PROFILE_VENDOR_CFG" = VENDOR_CFG;
        "MRC_CTL_EP_OP_EV_PROBE" = EP_OP_EV_PROBE;
        "MRC_CTL_EP_OP_PORT_STATUS_UPDATE" = EP_OP_PORT_STATUS_UPDATE;
    }
    out
}

fn compile(text: &str, flags: &[&str]) -> Output {
    let mut child = Command::new("cc")
        .args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-std=c11", "-x", "c", "-"])
        .args(["-I", concat!(env!("CARGO_MANIFEST_DIR"), "/include")])
        .args(flags)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a C compiler comes with Rust's linker");
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn the_headers_agree_with_every_size_offset_and_value() {
    if !std::path::Path::new("/usr/include/infiniband/verbs.h").exists() {
        let _ = std::io::stderr().write_all(b"SKIP mrc abi: no infiniband/verbs.h; install libibverbs-dev\n");
        return;
    }
    let text = assertions();
    assert!(text.matches("_Static_assert").count() > 180);
    let event = |size: usize| format!("_Static_assert(sizeof(struct mrc_ctl_ev_event) == {size}, \"event\");");
    let output = compile(&(text.clone() + &event(size_of::<MrcCtlEvEvent>())), &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (old, new) = (text.clone() + &event(EV_EVENT_OLD), event(56));
    let output = compile(&old, &["-DMRC_CTL_API_VER_USED=0x01000000"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!compile(&(text.clone() + &new), &["-DMRC_CTL_API_VER_USED=0x01000000"]).status.success());
    assert!(!compile(&text, &["-DMRC_API_VER_USED=0x01000002"]).status.success(), "newer than the header");
    assert!(compile(&text, &["-DMRC_API_VER_USED=MRC_API_VER_LATEST"]).status.success());
    // The test can fail.
    assert!(!compile(&text.replacen("== 0,", "== 1,", 1), &[]).status.success());
}

#[test]
fn an_event_has_the_published_layout() {
    assert_eq!((size_of::<MrcCtlEvEvent>(), EV_EVENT_OLD), (56, 48));
    assert_eq!((offset_of!(MrcCtlEvEvent, ev), offset_of!(MrcCtlEvEvent, drop_count)), (8, 44));
}
