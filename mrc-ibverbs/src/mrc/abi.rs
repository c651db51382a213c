//! The structures of `mrc.h` and `mrc_ctl.h` (in `include/`) and the numbers that go with them. Names are C's; enumerations
//! are integers, since an application can write any. A test compiles the same sizes, offsets and values against the headers.

#![allow(missing_docs, reason = "the headers say what each field means")]

use core::ffi::{c_char, c_int, c_void};

use crate::abi::{IbvCq, IbvPd, IbvQpCap};

/// API version of both headers.
pub(crate) const API_VERSION: u32 = 0x0100_0001;
/// Version of what is ours in them, which is nothing yet.
pub(crate) const VENDOR_API_VERSION: u32 = 0x0100_0000;
pub(crate) const PROTOCOL_VERSION_1: u32 = 1;

pub(crate) type VendorCfg = [u8; 128];
pub(crate) const VENDOR_CFG: u32 = 1 << 31;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct MrcDeviceAttr {
    pub(crate) mrc_protocol_version: u32,
    pub(crate) max_wimm: u16,
    pub(crate) max_wimm_dest: u16,
    pub(crate) max_mpr: u8,
    pub(crate) mpr_resolution: u8,
    pub(crate) max_qp_hint: u32,
    pub(crate) cap: u32,
}

pub(crate) const DEVICE_CAP_TRIM_NACK: u32 = 1;
pub(crate) const DEVICE_CAP_DYNAMIC_MPR: u32 = 1 << 1;

#[repr(C)]
pub(crate) struct MrcContextAttr {
    pub(crate) mrc_api_version_used: u32,
    pub(crate) mrc_vendor_api_version_used: u32,
}

pub(crate) const HINT_NUM_QPS_PER_PEER: u32 = 1;
pub(crate) const HINT_NUM_SEND_PEERS: u32 = 1 << 1;
pub(crate) const HINT_NUM_REMOTE_RECV_PEERS: u32 = 1 << 2;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MrcQpHintAttr {
    pub(crate) num_qps_per_peer: c_int,
    pub(crate) num_send_peers: c_int,
    pub(crate) num_remote_recv_peers: c_int,
    pub(crate) vendor_cfg: VendorCfg,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MrcQpInitAttr {
    pub(crate) qp_context: *mut c_void,
    pub(crate) send_cq: *mut IbvCq,
    pub(crate) recv_cq: *mut IbvCq,
    pub(crate) cap: IbvQpCap,
    pub(crate) sq_sig_all: c_int,
    pub(crate) pd: *mut IbvPd,
    pub(crate) send_ops_flags: u64,
    pub(crate) protocol_version: u32,
}

pub(crate) const QP_MAX_WIMM: u32 = 1;
pub(crate) const QP_MAX_WIMM_DEST: u32 = 1 << 1;
pub(crate) const QP_MPR: u32 = 1 << 2;
pub(crate) const QP_MPR_DEST: u32 = 1 << 3;
pub(crate) const QP_TIMEOUT: u32 = 1 << 4;
pub(crate) const QP_EV_PROFILE_ID: u32 = 1 << 5;
pub(crate) const QP_CC_PROFILE_ID: u32 = 1 << 6;
pub(crate) const QP_HINT: u32 = 1 << 7;
pub(crate) const QP_RETRY_CNT: u32 = 1 << 8;
pub(crate) const QP_CAP: u32 = 1 << 9;

pub(crate) const QP_CAP_TRIM_NACK_DEST_UNSUPPORTED: u32 = 1;
pub(crate) const QP_CAP_DYNAMIC_MPR: u32 = 1 << 1;
pub(crate) const QP_CAP_SVC_TIME_DEST_UNSUPPORTED: u32 = 1 << 2;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MrcQpAttr {
    pub(crate) mpr: u8,
    pub(crate) mpr_dest: u8,
    pub(crate) max_wimm: u16,
    pub(crate) max_wimm_dest: u16,
    pub(crate) timeout: u8,
    pub(crate) ev_profile_id: u64,
    pub(crate) cc_profile_id: u64,
    pub(crate) linear_cnt: u8,
    pub(crate) exp_cnt: u8,
    pub(crate) qp_hint: *mut super::hint::Hint,
    pub(crate) cap: u32,
    pub(crate) vendor_cfg: VendorCfg,
}

pub(crate) const OPT_CAP_EV_EVENT: u32 = 1 << 2;
pub(crate) const OPT_CAP_EV_EVENT_PRECISE_DROP_CNT: u32 = 1 << 4;
pub(crate) const OPT_CAP_EP_OP_EV_PROBE: u32 = 1 << 5;

#[repr(C)]
pub(crate) struct MrcCtlDeviceAttr {
    pub(crate) mrc_ctl_protocol_version: u32,
    pub(crate) ev_max_fmt_profiles: u32,
    pub(crate) ev_max_profiles: u32,
    pub(crate) ev_max_count: u32,
    pub(crate) ev_free_count: u32,
    pub(crate) ev_max_count_profile: u32,
    pub(crate) ev_count_align: u32,
    pub(crate) ev_max_width: u32,
    pub(crate) ev_fmt_mode_mask: u32,
    pub(crate) ev_mode_mask: u32,
    pub(crate) ev_op_max_entries: u32,
    // `cc` begins at a multiple of 8.
    pub(crate) padding: u32,
    pub(crate) cc_max_profiles: u32,
    pub(crate) algorithms: *const *const c_char,
    pub(crate) phy_port_mask: u32,
    pub(crate) opt_attr: u32,
}

pub(crate) const PORT_ADMIN_DISABLED: u32 = 0;
pub(crate) const PORT_ADMIN_ENABLED: u32 = 1;
pub(crate) const PORT_ADMIN_STATE: u32 = 1;

#[repr(C)]
pub(crate) struct MrcCtlPortAttr {
    pub(crate) port_admin_state: u32,
}

pub(crate) const FMT_MODE_STEV: u32 = 1;
pub(crate) const FMT_MODE_SRV6: u32 = 1 << 1;
pub(crate) const FMT_MODE_UDP: u32 = 1 << 2;

/// In format and EV fields alike.
pub(crate) const OP_MODIFY_FIELDS: u32 = 0;
pub(crate) const OP_QUERY_FIELDS: u32 = 1;

/// In all three kinds of profile.
pub(crate) const PROFILE_STATE: u32 = 1;
pub(crate) const PROFILE_CUR_STATE: u32 = 1 << 1;
pub(crate) const FMT_PROFILE_MODE: u32 = 1 << 2;
pub(crate) const FMT_PROFILE_OP: u32 = 1 << 3;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MrcCtlEvFmtProfileAttr {
    pub(crate) profile_state: u32,
    pub(crate) cur_profile_state: u32,
    pub(crate) ev_fmt_mode: u32,
    pub(crate) ev_fmt_op: EvFmtOp,
    pub(crate) vendor_cfg: VendorCfg,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct EvFmtOp {
    pub(crate) op: u32,
    pub(crate) fmt_fields: *mut u8,
    pub(crate) fmt_field_count: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MrcCtlEv {
    pub(crate) val: [u8; 32],
    pub(crate) port: u8,
}

impl MrcCtlEv {
    /// What an explicit array holds at first.
    pub(crate) const UNPOPULATED: Self = Self { val: [0; 32], port: 0 };
}

pub(crate) const EV_GOOD: u32 = 1;
pub(crate) const EV_ASSUMED_BAD: u32 = 1 << 1;
pub(crate) const EV_DENIED: u32 = 1 << 2;
#[cfg(test)]
pub(crate) const EV_UNKNOWN: u32 = 1 << 31;

pub(crate) const EV_MODE_AUTO: u32 = 1;
pub(crate) const EV_MODE_EXP: u32 = 1 << 1;
pub(crate) const EV_MODE_GEN: u32 = 1 << 2;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MrcCtlEvField {
    pub(crate) width: u32,
    pub(crate) init_val: u32,
    pub(crate) min_val: u32,
    pub(crate) max_val: u32,
    pub(crate) mask: u32,
}

pub(crate) const EV_OP_REPLACE_EV: u32 = 0;
pub(crate) const EV_OP_MODIFY_EV_STATE: u32 = 1;
pub(crate) const EV_OP_QUERY_EV_STATE: u32 = 2;
pub(crate) const EV_OP_QUERY_EV_ARRAY: u32 = 3;
pub(crate) const EV_OP_F_ALL_COPIES: u32 = 1;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MrcCtlEvOpEntry {
    pub(crate) ev: MrcCtlEv,
    pub(crate) ev_new: MrcCtlEv,
    pub(crate) state: u32,
    pub(crate) flags: u32,
}

pub(crate) const EV_PROFILE_MODE: u32 = 1 << 2;
pub(crate) const EV_PROFILE_FMT_ID: u32 = 1 << 3;
pub(crate) const EV_PROFILE_COUNT: u32 = 1 << 4;
pub(crate) const EV_PROFILE_MIN_ACTIVE: u32 = 1 << 5;
pub(crate) const EV_PROFILE_EVENT_MASK: u32 = 1 << 6;
pub(crate) const EV_PROFILE_EV_OP: u32 = 1 << 7;
pub(crate) const EV_PROFILE_EV_FIELDS_OP: u32 = 1 << 8;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MrcCtlEvProfileAttr {
    pub(crate) profile_state: u32,
    pub(crate) cur_profile_state: u32,
    pub(crate) ev_mode: u32,
    pub(crate) ev_fmt_profile_id: u64,
    pub(crate) ev_count: u32,
    pub(crate) ev_min_active: u32,
    pub(crate) ev_event_mask: c_int,
    pub(crate) ev_op: EvOp,
    pub(crate) ev_fields_op: EvFieldsOp,
    pub(crate) vendor_cfg: VendorCfg,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct EvOp {
    pub(crate) op: u32,
    pub(crate) entries: *mut MrcCtlEvOpEntry,
    pub(crate) entry_count: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct EvFieldsOp {
    pub(crate) op: u32,
    pub(crate) fields: *mut MrcCtlEvField,
    pub(crate) field_count: c_int,
}

pub(crate) const CC_PROFILE_ALGORITHM: u32 = 1 << 2;
pub(crate) const CC_PROFILE_CONFIG: u32 = 1 << 3;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MrcCtlCcProfileAttr {
    pub(crate) profile_state: u32,
    pub(crate) cur_profile_state: u32,
    pub(crate) algorithm: *const c_char,
    pub(crate) cc_config: *const c_void,
    pub(crate) vendor_cfg: VendorCfg,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MrcCtlCcNsccCfg {
    pub(crate) disable_qa: u8,
    pub(crate) adjust_bytes_threshold: u32,
    pub(crate) adjust_period_threshold: u32,
    pub(crate) base_rtt: u32,
    pub(crate) eta: f32,
    pub(crate) fi: f32,
    pub(crate) fi_scale: f32,
    pub(crate) gamma: f32,
    pub(crate) max_md_jump: f32,
    pub(crate) max_cwnd: u32,
    pub(crate) qa_gate: u8,
    pub(crate) qa_threshold: u32,
    pub(crate) target_delay: u32,
}

/// What a controller that gives no structure means: everything at its default. Zero stands for it everywhere but in `qa_gate`,
/// where it is a value, and in `qa_threshold`, where it is no threshold.
impl Default for MrcCtlCcNsccCfg {
    fn default() -> Self {
        Self {
            disable_qa: 0,
            adjust_bytes_threshold: 0,
            adjust_period_threshold: 0,
            base_rtt: 0,
            eta: 0.0,
            fi: 0.0,
            fi_scale: 0.0,
            gamma: 0.0,
            max_md_jump: 0.0,
            max_cwnd: 0,
            qa_gate: 3,
            // Four target delays, each of a base RTT.
            qa_threshold: 4 * super::cc::BASE_RTT_NS,
            target_delay: 0,
        }
    }
}

/// As of 1.0.1; before, it ended with `drop_count`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MrcCtlEvEvent {
    pub(crate) profile_id: u64,
    pub(crate) ev: MrcCtlEv,
    pub(crate) drop_count: u32,
    pub(crate) state: u32,
}

/// Size of an event before 1.0.1, bytes.
pub(crate) const EV_EVENT_OLD: usize = core::mem::offset_of!(MrcCtlEvEvent, state);

pub(crate) const EP_OP_EV_PROBE: u32 = 0;
pub(crate) const EP_OP_PORT_STATUS_UPDATE: u32 = 1;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MrcCtlEpReq {
    pub(crate) req_id: u16,
    // A GID is aligned as its 64-bit halves.
    pub(crate) sgid: Gid,
    pub(crate) dgid: Gid,
    pub(crate) ev_fmt_mode: u32,
    pub(crate) req_ev: MrcCtlEv,
    pub(crate) port_status: u32,
}

#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(crate) struct Gid(pub(crate) [u8; 16]);

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MrcCtlEpRsp {
    pub(crate) req_id: u16,
    pub(crate) port: u8,
    pub(crate) rtt: u32,
    pub(crate) adj_svc_time: u8,
}

#[cfg(test)]
mod tests;
