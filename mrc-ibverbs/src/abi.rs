//! The structures of `<infiniband/verbs.h>`, as rdma-core 44 lays them out on 64-bit machines, and the numbers that go
//! with them. Names are C's. A test compiles the same offsets against the installed header.

#![allow(missing_docs, reason = "the header and its manual pages say what each field means")]

use core::ffi::{c_char, c_int, c_void};

pub(crate) type Op = Option<unsafe extern "C" fn()>;
/// An operation of an extended queue pair that we do not have; arguments behind the queue pair are not looked at.
pub(crate) type WrOp = Option<unsafe extern "C" fn(*mut IbvQpEx)>;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct IbvDevice {
    pub(crate) ops: [Op; 2],
    pub(crate) node_type: c_int,
    pub(crate) transport_type: c_int,
    pub(crate) name: [c_char; 64],
    pub(crate) dev_name: [c_char; 64],
    pub(crate) dev_path: [c_char; 256],
    pub(crate) ibdev_path: [c_char; 256],
    /// libmlx5 reads behind the structure of a device it did not make.
    pub(crate) slack: [u64; 32],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct IbvContextOps {
    pub(crate) compat_before: [Op; 7],
    pub(crate) alloc_mw: Option<unsafe extern "C" fn(*mut IbvPd, c_int) -> *mut c_void>,
    pub(crate) bind_mw: Option<unsafe extern "C" fn(*mut IbvQp, *mut c_void, *mut c_void) -> c_int>,
    pub(crate) dealloc_mw: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    pub(crate) compat_create_cq: Op,
    pub(crate) poll_cq: Option<unsafe extern "C" fn(*mut IbvCq, c_int, *mut IbvWc) -> c_int>,
    pub(crate) req_notify_cq: Option<unsafe extern "C" fn(*mut IbvCq, c_int) -> c_int>,
    pub(crate) compat_cq: [Op; 7],
    pub(crate) post_srq_recv: Option<unsafe extern "C" fn(*mut c_void, *mut IbvRecvWr, *mut *mut IbvRecvWr) -> c_int>,
    pub(crate) compat_qp: [Op; 4],
    pub(crate) post_send: Option<unsafe extern "C" fn(*mut IbvQp, *mut IbvSendWr, *mut *mut IbvSendWr) -> c_int>,
    pub(crate) post_recv: Option<unsafe extern "C" fn(*mut IbvQp, *mut IbvRecvWr, *mut *mut IbvRecvWr) -> c_int>,
    pub(crate) compat_after: [Op; 5],
}

#[repr(C)]
pub(crate) struct IbvContext {
    pub(crate) device: *mut IbvDevice,
    pub(crate) ops: IbvContextOps,
    pub(crate) cmd_fd: c_int,
    pub(crate) async_fd: c_int,
    pub(crate) num_comp_vectors: c_int,
    pub(crate) mutex: [u64; 5],
    pub(crate) abi_compat: *mut c_void,
}

#[repr(C)]
pub(crate) struct VerbsContext {
    pub(crate) query_port: Option<unsafe extern "C" fn(*mut IbvContext, u8, *mut c_void, usize) -> c_int>,
    pub(crate) before_cq: [Op; 24],
    pub(crate) create_cq_ex: Option<unsafe extern "C" fn(*mut IbvContext, *const IbvCqInitAttrEx) -> *mut IbvCqEx>,
    pub(crate) private: *mut c_void,
    pub(crate) query_device_ex:
        Option<unsafe extern "C" fn(*mut IbvContext, *const u32, *mut IbvDeviceAttrEx, usize) -> c_int>,
    pub(crate) before_qp: [Op; 5],
    pub(crate) create_qp_ex: Option<unsafe extern "C" fn(*mut IbvContext, *mut IbvQpInitAttrEx) -> *mut IbvQp>,
    pub(crate) get_srq_num: Op,
    pub(crate) create_srq_ex: Option<unsafe extern "C" fn(*mut IbvContext, *mut c_void) -> *mut c_void>,
    pub(crate) open_xrcd: Option<unsafe extern "C" fn(*mut IbvContext, *mut c_void) -> *mut c_void>,
    pub(crate) after_xrcd: [Op; 2],
    pub(crate) sz: usize,
    pub(crate) context: IbvContext,
}

#[repr(C)]
pub(crate) struct IbvPd {
    pub(crate) context: *mut IbvContext,
    pub(crate) handle: u32,
}

#[repr(C)]
pub(crate) struct IbvMr {
    pub(crate) context: *mut IbvContext,
    pub(crate) pd: *mut IbvPd,
    pub(crate) addr: *mut c_void,
    pub(crate) length: usize,
    pub(crate) handle: u32,
    pub(crate) lkey: u32,
    pub(crate) rkey: u32,
}

#[repr(C)]
pub(crate) struct IbvCompChannel {
    pub(crate) context: *mut IbvContext,
    pub(crate) fd: c_int,
    pub(crate) refcnt: c_int,
}

#[repr(C)]
pub(crate) struct IbvCq {
    pub(crate) context: *mut IbvContext,
    pub(crate) channel: *mut IbvCompChannel,
    pub(crate) cq_context: *mut c_void,
    pub(crate) handle: u32,
    pub(crate) cqe: c_int,
    pub(crate) mutex: [u64; 5],
    pub(crate) cond: [u64; 6],
    pub(crate) comp_events_completed: u32,
    pub(crate) async_events_completed: u32,
}

type Read<T> = Option<unsafe extern "C" fn(*mut IbvCqEx) -> T>;

#[repr(C)]
pub(crate) struct IbvCqEx {
    pub(crate) base: IbvCq,
    pub(crate) comp_mask: u32,
    pub(crate) status: c_int,
    pub(crate) wr_id: u64,
    pub(crate) start_poll: Option<unsafe extern "C" fn(*mut IbvCqEx, *const u32) -> c_int>,
    pub(crate) next_poll: Read<c_int>,
    pub(crate) end_poll: Read<()>,
    pub(crate) read_opcode: Read<c_int>,
    pub(crate) read_vendor_err: Read<u32>,
    pub(crate) read_byte_len: Read<u32>,
    pub(crate) read_imm_data: Read<u32>,
    pub(crate) read_qp_num: Read<u32>,
    pub(crate) read_src_qp: Read<u32>,
    pub(crate) read_wc_flags: Read<u32>,
    pub(crate) read_slid: Read<u32>,
    pub(crate) read_sl: Read<u8>,
    pub(crate) read_dlid_path_bits: Read<u8>,
    pub(crate) unused: [Op; 5],
}

#[repr(C)]
pub(crate) struct IbvQp {
    pub(crate) context: *mut IbvContext,
    pub(crate) qp_context: *mut c_void,
    pub(crate) pd: *mut IbvPd,
    pub(crate) send_cq: *mut IbvCq,
    pub(crate) recv_cq: *mut IbvCq,
    pub(crate) srq: *mut c_void,
    pub(crate) handle: u32,
    pub(crate) qp_num: u32,
    pub(crate) state: u32,
    pub(crate) qp_type: u32,
    pub(crate) mutex: [u64; 5],
    pub(crate) cond: [u64; 6],
    pub(crate) events_completed: u32,
}

#[repr(C)]
pub(crate) struct IbvQpEx {
    pub(crate) qp_base: IbvQp,
    pub(crate) comp_mask: u64,
    pub(crate) wr_id: u64,
    pub(crate) wr_flags: u32,
    pub(crate) wr_atomic_cmp_swp: WrOp,
    pub(crate) wr_atomic_fetch_add: WrOp,
    pub(crate) wr_bind_mw: WrOp,
    pub(crate) wr_local_inv: WrOp,
    pub(crate) wr_rdma_read: WrOp,
    pub(crate) wr_rdma_write: Option<unsafe extern "C" fn(*mut IbvQpEx, u32, u64)>,
    pub(crate) wr_rdma_write_imm: Option<unsafe extern "C" fn(*mut IbvQpEx, u32, u64, u32)>,
    pub(crate) wr_send: [WrOp; 4],
    pub(crate) wr_set_ud_addr: WrOp,
    pub(crate) wr_set_xrc_srqn: WrOp,
    pub(crate) wr_set_inline_data: Option<unsafe extern "C" fn(*mut IbvQpEx, *const c_void, usize)>,
    pub(crate) wr_set_inline_data_list: Option<unsafe extern "C" fn(*mut IbvQpEx, usize, *const IbvDataBuf)>,
    pub(crate) wr_set_sge: Option<unsafe extern "C" fn(*mut IbvQpEx, u32, u64, u32)>,
    pub(crate) wr_set_sge_list: Option<unsafe extern "C" fn(*mut IbvQpEx, usize, *const IbvSge)>,
    pub(crate) wr_start: Option<unsafe extern "C" fn(*mut IbvQpEx)>,
    pub(crate) wr_complete: Option<unsafe extern "C" fn(*mut IbvQpEx) -> c_int>,
    pub(crate) wr_abort: Option<unsafe extern "C" fn(*mut IbvQpEx)>,
    pub(crate) wr_atomic_write: WrOp,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct IbvDataBuf {
    pub(crate) addr: *mut c_void,
    pub(crate) length: usize,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IbvQpCap {
    pub(crate) max_send_wr: u32,
    pub(crate) max_recv_wr: u32,
    pub(crate) max_send_sge: u32,
    pub(crate) max_recv_sge: u32,
    pub(crate) max_inline_data: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct IbvQpInitAttr {
    pub(crate) qp_context: *mut c_void,
    pub(crate) send_cq: *mut IbvCq,
    pub(crate) recv_cq: *mut IbvCq,
    pub(crate) srq: *mut c_void,
    pub(crate) cap: IbvQpCap,
    pub(crate) qp_type: u32,
    pub(crate) sq_sig_all: c_int,
}

#[repr(C)]
pub(crate) struct IbvQpInitAttrEx {
    pub(crate) qp_context: *mut c_void,
    pub(crate) send_cq: *mut IbvCq,
    pub(crate) recv_cq: *mut IbvCq,
    pub(crate) srq: *mut c_void,
    pub(crate) cap: IbvQpCap,
    pub(crate) qp_type: u32,
    pub(crate) sq_sig_all: c_int,
    pub(crate) comp_mask: u32,
    pub(crate) pd: *mut IbvPd,
    pub(crate) xrcd: *mut c_void,
    pub(crate) create_flags: u32,
    pub(crate) max_tso_header: u16,
    pub(crate) rwq_ind_tbl: *mut c_void,
    pub(crate) rx_hash_conf: [u64; 3],
    pub(crate) source_qpn: u32,
    pub(crate) send_ops_flags: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct IbvGlobalRoute {
    pub(crate) dgid: [u8; 16],
    pub(crate) flow_label: u32,
    pub(crate) sgid_index: u8,
    pub(crate) hop_limit: u8,
    pub(crate) traffic_class: u8,
}

/// As C aligns it: `union ibv_gid` holds 64-bit numbers.
#[repr(C, align(8))]
#[derive(Clone, Copy, Default)]
pub(crate) struct IbvAhAttr {
    pub(crate) grh: IbvGlobalRoute,
    pub(crate) dlid: u16,
    pub(crate) sl: u8,
    pub(crate) src_path_bits: u8,
    pub(crate) static_rate: u8,
    pub(crate) is_global: u8,
    pub(crate) port_num: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct IbvQpAttr {
    pub(crate) qp_state: u32,
    pub(crate) cur_qp_state: u32,
    pub(crate) path_mtu: u32,
    pub(crate) path_mig_state: u32,
    pub(crate) qkey: u32,
    pub(crate) rq_psn: u32,
    pub(crate) sq_psn: u32,
    pub(crate) dest_qp_num: u32,
    pub(crate) qp_access_flags: u32,
    pub(crate) cap: IbvQpCap,
    pub(crate) ah_attr: IbvAhAttr,
    pub(crate) alt_ah_attr: IbvAhAttr,
    pub(crate) pkey_index: u16,
    pub(crate) alt_pkey_index: u16,
    pub(crate) en_sqd_async_notify: u8,
    pub(crate) sq_draining: u8,
    pub(crate) max_rd_atomic: u8,
    pub(crate) max_dest_rd_atomic: u8,
    pub(crate) min_rnr_timer: u8,
    pub(crate) port_num: u8,
    pub(crate) timeout: u8,
    pub(crate) retry_cnt: u8,
    pub(crate) rnr_retry: u8,
    pub(crate) alt_port_num: u8,
    pub(crate) alt_timeout: u8,
    pub(crate) rate_limit: u32,
}

#[repr(C)]
pub(crate) struct IbvCqInitAttrEx {
    pub(crate) cqe: u32,
    pub(crate) cq_context: *mut c_void,
    pub(crate) channel: *mut IbvCompChannel,
    pub(crate) comp_vector: u32,
    pub(crate) wc_flags: u64,
    pub(crate) comp_mask: u32,
    pub(crate) flags: u32,
    pub(crate) parent_domain: *mut IbvPd,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct IbvSge {
    pub(crate) addr: u64,
    pub(crate) length: u32,
    pub(crate) lkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct IbvSendWr {
    pub(crate) wr_id: u64,
    pub(crate) next: *mut IbvSendWr,
    pub(crate) sg_list: *mut IbvSge,
    pub(crate) num_sge: c_int,
    pub(crate) opcode: u32,
    pub(crate) send_flags: u32,
    pub(crate) imm_data: u32,
    pub(crate) remote_addr: u64,
    pub(crate) rkey: u32,
    pub(crate) unused: [u64; 9],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct IbvRecvWr {
    pub(crate) wr_id: u64,
    pub(crate) next: *mut IbvRecvWr,
    pub(crate) sg_list: *mut IbvSge,
    pub(crate) num_sge: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct IbvWc {
    pub(crate) wr_id: u64,
    pub(crate) status: u32,
    pub(crate) opcode: u32,
    pub(crate) vendor_err: u32,
    pub(crate) byte_len: u32,
    pub(crate) imm_data: u32,
    pub(crate) qp_num: u32,
    pub(crate) src_qp: u32,
    pub(crate) wc_flags: u32,
    pub(crate) pkey_index: u16,
    pub(crate) slid: u16,
    pub(crate) sl: u8,
    pub(crate) dlid_path_bits: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct IbvAsyncEvent {
    /// A CQ, a QP, or a port number.
    pub(crate) element: *mut c_void,
    pub(crate) event_type: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct IbvGidEntry {
    pub(crate) gid: [u64; 2],
    pub(crate) gid_index: u32,
    pub(crate) port_num: u32,
    pub(crate) gid_type: u32,
    pub(crate) ndev_ifindex: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct IbvDeviceAttr {
    pub(crate) fw_ver: [u8; 64],
    pub(crate) node_guid: [u8; 8],
    pub(crate) sys_image_guid: [u8; 8],
    pub(crate) max_mr_size: u64,
    pub(crate) page_size_cap: u64,
    pub(crate) vendor_id: u32,
    pub(crate) vendor_part_id: u32,
    pub(crate) hw_ver: u32,
    pub(crate) max_qp: c_int,
    pub(crate) max_qp_wr: c_int,
    pub(crate) device_cap_flags: u32,
    pub(crate) max_sge: c_int,
    pub(crate) max_sge_rd: c_int,
    pub(crate) max_cq: c_int,
    pub(crate) max_cqe: c_int,
    pub(crate) max_mr: c_int,
    pub(crate) max_pd: c_int,
    pub(crate) rd_atom: [c_int; 5],
    pub(crate) atomic_cap: c_int,
    pub(crate) max_ee: c_int,
    pub(crate) max_rdd: c_int,
    pub(crate) max_mw: c_int,
    pub(crate) raw_and_mcast: [c_int; 5],
    pub(crate) max_ah: c_int,
    pub(crate) max_fmr: c_int,
    pub(crate) max_map_per_fmr: c_int,
    pub(crate) max_srq: c_int,
    pub(crate) max_srq_wr: c_int,
    pub(crate) max_srq_sge: c_int,
    pub(crate) max_pkeys: u16,
    pub(crate) local_ca_ack_delay: u8,
    pub(crate) phys_port_cnt: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct IbvDeviceAttrEx {
    pub(crate) orig_attr: IbvDeviceAttr,
    pub(crate) comp_mask: u32,
    /// On-demand paging, segmentation, hashing, pacing, tag matching: none of it.
    pub(crate) capabilities: [u32; 40],
    pub(crate) phys_port_cnt_ex: u32,
}

/// As newest rdma-core has it; older callers ask for less of it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct IbvPortAttr {
    pub(crate) state: u32,
    pub(crate) max_mtu: u32,
    pub(crate) active_mtu: u32,
    pub(crate) gid_tbl_len: c_int,
    pub(crate) port_cap_flags: u32,
    pub(crate) max_msg_sz: u32,
    pub(crate) bad_pkey_cntr: u32,
    pub(crate) qkey_viol_cntr: u32,
    pub(crate) pkey_tbl_len: u16,
    pub(crate) lid: u16,
    pub(crate) sm_lid: u16,
    pub(crate) lmc: u8,
    pub(crate) max_vl_num: u8,
    pub(crate) sm_sl: u8,
    pub(crate) subnet_timeout: u8,
    pub(crate) init_type_reply: u8,
    pub(crate) active_width: u8,
    pub(crate) active_speed: u8,
    pub(crate) phys_state: u8,
    pub(crate) link_layer: u8,
    pub(crate) flags: u8,
    pub(crate) port_cap_flags2: u16,
    pub(crate) active_speed_ex: u32,
}

/// `IBV_PORT_ACTIVE_SPEED`: everything up to `port_cap_flags2`, what rdma-core 44 knows.
pub(crate) const PORT_ATTR_COMPAT_LEN: usize = 48;

pub(crate) const QPS_RESET: u32 = 0;
pub(crate) const QPS_INIT: u32 = 1;
pub(crate) const QPS_RTR: u32 = 2;
pub(crate) const QPS_RTS: u32 = 3;
pub(crate) const QPS_SQD: u32 = 4;
pub(crate) const QPS_ERR: u32 = 6;

pub(crate) const QPT_RC: u32 = 2;

pub(crate) const QP_STATE: u32 = 1;
pub(crate) const QP_CUR_STATE: u32 = 1 << 1;
pub(crate) const QP_ACCESS_FLAGS: u32 = 1 << 3;
pub(crate) const QP_PKEY_INDEX: u32 = 1 << 4;
pub(crate) const QP_PORT: u32 = 1 << 5;
pub(crate) const QP_AV: u32 = 1 << 7;
pub(crate) const QP_PATH_MTU: u32 = 1 << 8;
pub(crate) const QP_TIMEOUT: u32 = 1 << 9;
pub(crate) const QP_RETRY_CNT: u32 = 1 << 10;
pub(crate) const QP_RNR_RETRY: u32 = 1 << 11;
pub(crate) const QP_RQ_PSN: u32 = 1 << 12;
pub(crate) const QP_MAX_RD_ATOMIC: u32 = 1 << 13;
pub(crate) const QP_ALT_PATH: u32 = 1 << 14;
pub(crate) const QP_MIN_RNR_TIMER: u32 = 1 << 15;
pub(crate) const QP_SQ_PSN: u32 = 1 << 16;
pub(crate) const QP_MAX_DEST_RD_ATOMIC: u32 = 1 << 17;
pub(crate) const QP_PATH_MIG_STATE: u32 = 1 << 18;
pub(crate) const QP_DEST_QPN: u32 = 1 << 20;

pub(crate) const WR_RDMA_WRITE: u32 = 0;
pub(crate) const WR_RDMA_WRITE_WITH_IMM: u32 = 1;
pub(crate) const SEND_SIGNALED: u32 = 1 << 1;
pub(crate) const SEND_SOLICITED: u32 = 1 << 2;
pub(crate) const SEND_INLINE: u32 = 1 << 3;

pub(crate) const WC_RDMA_WRITE: u32 = 1;
pub(crate) const WC_RECV_RDMA_WITH_IMM: u32 = 129;
pub(crate) const WC_WITH_IMM: u32 = 1 << 1;
/// `IBV_WC_STANDARD_FLAGS`.
pub(crate) const WC_EX_STANDARD: u64 = 0x7f;

pub(crate) const ACCESS_LOCAL_WRITE: u32 = 1;
pub(crate) const ACCESS_REMOTE_WRITE: u32 = 1 << 1;
pub(crate) const ACCESS_REMOTE_READ: u32 = 1 << 2;
pub(crate) const ACCESS_REMOTE_ATOMIC: u32 = 1 << 3;
/// Memory windows, zero based, on demand, huge pages, flushes: known to verbs, not to MRC.
pub(crate) const ACCESS_KNOWN_TO_VERBS: u32 = 0x3f0;
/// Flags that a provider may ignore.
pub(crate) const ACCESS_OPTIONAL: u32 = 0x3ff0_0000;

/// What `ibv_rereg_mr` may change.
pub(crate) const REREG_TRANSLATION: c_int = 1;
pub(crate) const REREG_PD: c_int = 1 << 1;
pub(crate) const REREG_ACCESS: c_int = 1 << 2;
/// `IBV_REREG_MR_FLAGS_SUPPORTED`.
pub(crate) const REREG_FLAGS: c_int = 7;

pub(crate) const EVENT_QP_FATAL: u32 = 1;
pub(crate) const EVENT_QP_REQ_ERR: u32 = 2;
pub(crate) const EVENT_QP_ACCESS_ERR: u32 = 3;
pub(crate) const EVENT_COMM_EST: u32 = 4;
pub(crate) const EVENT_PORT_ACTIVE: u32 = 9;
pub(crate) const EVENT_PORT_ERR: u32 = 10;

pub(crate) const QP_INIT_ATTR_PD: u32 = 1;
pub(crate) const QP_INIT_ATTR_CREATE_FLAGS: u32 = 1 << 2;
pub(crate) const QP_INIT_ATTR_SEND_OPS_FLAGS: u32 = 1 << 6;
/// `IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM`.
pub(crate) const QP_EX_WRITES: u64 = 3;

#[cfg(test)]
mod tests;
