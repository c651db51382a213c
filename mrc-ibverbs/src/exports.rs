//! Which symbol has which version, and what stands behind it.
//!
//! Each export is a jump of its own name and version to a Rust function: `.symver` needs a label in the same object file,
//! which a Rust function with a fixed name is not once code generation is split. The nodes come from `build.rs`. Nothing is
//! exported from test binaries, which have no nodes.
//!
//! Names without a function of their own are what MRC does not have. They must exist all the same: programs are linked
//! with immediate binding, and librdmacm, libmlx5 and libefa import them.

use core::ffi::{c_int, c_void};

use crate::object;
use crate::{cq, device, events, memory, mrc, qp, query, share, text};

/// Answers EOPNOTSUPP.
unsafe extern "C" fn refuse() -> c_int {
    object::set_errno(libc::EOPNOTSUPP);
    libc::EOPNOTSUPP
}

/// Answers EOPNOTSUPP, for calls that return an object.
unsafe extern "C" fn refuse_pointer() -> *mut c_void {
    object::set_errno(libc::EOPNOTSUPP);
    core::ptr::null_mut()
}

/// Answers -1 and EOPNOTSUPP, for calls that return a descriptor.
unsafe extern "C" fn refuse_minus_one() -> c_int {
    object::set_errno(libc::EOPNOTSUPP);
    -1
}

/// For calls that need nothing done.
unsafe extern "C" fn nothing() -> c_int {
    0
}

#[cfg(all(target_arch = "x86_64", not(test)))]
macro_rules! jump {
    () => {
        "jmp {f}"
    };
}
#[cfg(all(target_arch = "aarch64", not(test)))]
macro_rules! jump {
    () => {
        "b {f}"
    };
}

/// Jumps with the labels `__v{tag}_{name}`, each of which is `$name` at `$version`: the default one (`@@@`), or another (`@`).
macro_rules! node {
    ($tag:literal, $at:literal, $version:literal: $($name:ident = $function:path),* $(,)?) => {$(
        #[cfg(not(test))]
        core::arch::global_asm!(
            concat!(".globl __v", $tag, "_", stringify!($name)),
            concat!(".type __v", $tag, "_", stringify!($name), ", @function"),
            concat!("__v", $tag, "_", stringify!($name), ":"),
            jump!(),
            concat!(".size __v", $tag, "_", stringify!($name), ", . - __v", $tag, "_", stringify!($name)),
            concat!(".symver __v", $tag, "_", stringify!($name), ", ", stringify!($name), $at, $version),
            f = sym $function,
        );
        #[cfg(test)]
        const _: fn() = || {
            let _ = $function as *const ();
        };
    )*};
}

/// `$name` at `$version` is `$function`.
macro_rules! export {
    ($version:literal: $($list:tt)*) => { node! { "", "@@@", $version: $($list)* } };
}

/// `$name` is `$function` at every private node: rdma-core 36 to 56, 57 and 58, 59 to 63, 64, and later. What one has and an
/// older one lacks does no harm there.
macro_rules! private {
    ($($list:tt)*) => {
        node! { "", "@@@", "IBVERBS_PRIVATE_34": $($list)* }
        node! { "57", "@", "IBVERBS_PRIVATE_57": $($list)* }
        node! { "59", "@", "IBVERBS_PRIVATE_59": $($list)* }
        node! { "64", "@", "IBVERBS_PRIVATE_64": $($list)* }
        node! { "65", "@", "IBVERBS_PRIVATE_65": $($list)* }
    };
}

/// Names at every private node that share a function.
macro_rules! private_all {
    ($function:path: $($name:ident),* $(,)?) => {
        private! { $($name = $function),* }
    };
}

/// Names at `$version` that share a function.
macro_rules! export_all {
    ($version:literal, $function:path: $($name:ident),* $(,)?) => {
        export! { $version: $($name = $function),* }
    };
}

export! { "IBVERBS_1.0":
    ibv_create_comp_channel = events::create_comp_channel,
    ibv_destroy_comp_channel = events::destroy_comp_channel,
    ibv_get_sysfs_path = device::get_sysfs_path,
    ibv_read_sysfs_file = device::read_sysfs_file,
    ibv_rate_to_mult = text::rate_to_mult,
    mult_to_ibv_rate = text::mult_to_rate,
}

export! { "IBVERBS_1.1":
    ibv_ack_async_event = events::ack_async_event,
    ibv_ack_cq_events = events::ack_cq_events,
    ibv_alloc_pd = memory::alloc_pd,
    ibv_close_device = device::close_device,
    ibv_create_cq = cq::create_cq,
    ibv_create_qp = qp::create_qp,
    ibv_dealloc_pd = memory::dealloc_pd,
    ibv_dereg_mr = memory::dereg_mr,
    ibv_destroy_cq = cq::destroy_cq,
    ibv_destroy_qp = qp::destroy_qp,
    ibv_event_type_str = text::event_type_str,
    ibv_fork_init = device::fork_init,
    ibv_free_device_list = device::free_device_list,
    ibv_get_async_event = events::get_async_event,
    ibv_get_cq_event = events::get_cq_event,
    ibv_get_device_guid = device::get_device_guid,
    ibv_get_device_list = device::get_device_list,
    ibv_get_device_name = device::get_device_name,
    ibv_modify_qp = qp::modify_qp,
    ibv_node_type_str = text::node_type_str,
    ibv_open_device = device::open_device,
    ibv_port_state_str = text::port_state_str,
    ibv_query_device = query::query_device,
    ibv_query_gid = query::query_gid,
    ibv_query_pkey = query::query_pkey,
    ibv_query_port = query::query_port_compat,
    ibv_query_qp = qp::query_qp,
    ibv_rate_to_mbps = text::rate_to_mbps,
    ibv_reg_mr = memory::reg_mr,
    ibv_rereg_mr = memory::rereg_mr,
    ibv_resize_cq = cq::resize_cq,
    ibv_wc_status_str = text::wc_status_str,
    mbps_to_ibv_rate = text::mbps_to_rate,
}

export! { "IBVERBS_1.5": ibv_get_pkey_index = query::get_pkey_index }
export! { "IBVERBS_1.6": ibv_qp_to_qp_ex = qp::qp_to_qp_ex }
export! { "IBVERBS_1.7": ibv_reg_mr_iova = memory::reg_mr_iova }
export! { "IBVERBS_1.8": ibv_reg_mr_iova2 = memory::reg_mr_iova2 }
export! { "IBVERBS_1.9": ibv_get_device_index = device::get_device_index }
export! { "IBVERBS_1.10":
    ibv_import_device = share::import_device,
    ibv_import_mr = share::import_mr,
    ibv_import_pd = share::import_pd,
    ibv_unimport_mr = share::unimport_mr,
    ibv_unimport_pd = share::unimport_pd,
}
export! { "IBVERBS_1.11": _ibv_query_gid_ex = query::query_gid_ex, _ibv_query_gid_table = query::query_gid_table }
export! { "IBVERBS_1.13": ibv_is_fork_initialized = device::is_fork_initialized }
export! { "IBVERBS_1.16": ibv_query_port_speed = query::query_port_speed }
private! { ibv_query_gid_type = query::query_gid_type, ibv_wr_opcode_str = text::wr_opcode_str }

// Objects of verbs and of MRC are the same where the function is.
export! { "IBVERBS_MRC_1":
    mrc_query_device = mrc::query_device,
    mrc_query_device_ex = mrc::query_device_ex,
    mrc_query_version = mrc::query_version,
    mrc_create_context = mrc::create_context,
    mrc_destroy_context = mrc::destroy_context,
    mrc_create_comp_channel = mrc::queue::create_comp_channel,
    mrc_get_comp_channel_fd = mrc::queue::get_comp_channel_fd,
    mrc_destroy_comp_channel = events::destroy_comp_channel,
    mrc_create_cq = mrc::queue::create_cq,
    mrc_poll_cq = mrc::queue::poll_cq,
    mrc_destroy_cq = mrc::queue::destroy_cq,
    mrc_req_notify_cq = mrc::queue::req_notify_cq,
    mrc_get_cq_event = mrc::queue::get_cq_event,
    mrc_ack_cq_events = mrc::queue::ack_cq_events,
    mrc_create_qp_hint = mrc::hint::create_qp_hint,
    mrc_destroy_qp_hint = mrc::hint::destroy_qp_hint,
    mrc_query_qp_hint = mrc::hint::query_qp_hint,
    mrc_modify_qp_hint = mrc::hint::modify_qp_hint,
    mrc_create_qp = mrc::qp::create_qp,
    mrc_destroy_qp = qp::destroy_qp,
    mrc_query_qp = mrc::qp::query_qp,
    mrc_modify_qp = mrc::qp::modify_qp,
    mrc_get_qpn = mrc::qp::get_qpn,
    mrc_post_send = mrc::qp::post_send,
    mrc_post_recv = mrc::qp::post_recv,
    mrc_get_async_event = mrc::queue::get_async_event,
    mrc_ack_async_event = events::ack_async_event,
    mrc_ctl_query_device = mrc::ctl::query_device,
    mrc_ctl_query_device_ex = mrc::ctl::query_device_ex,
    mrc_ctl_query_version = mrc::query_version,
    mrc_ctl_query_port = mrc::ctl::query_port,
    mrc_ctl_modify_port = mrc::ctl::modify_port,
    mrc_ctl_query_ev_fmt_profile = mrc::ctl::query_ev_fmt_profile,
    mrc_ctl_modify_ev_fmt_profile = mrc::ctl::modify_ev_fmt_profile,
    mrc_ctl_query_ev_profile = mrc::ctl::query_ev_profile,
    mrc_ctl_modify_ev_profile = mrc::ctl::modify_ev_profile,
    mrc_ctl_query_cc_profile = mrc::ctl::query_cc_profile,
    mrc_ctl_modify_cc_profile = mrc::ctl::modify_cc_profile,
    mrc_ctl_create_ev_event_cq = mrc::queue::create_ev_event_cq,
    mrc_ctl_poll_ev_event = mrc::queue::poll_ev_event,
    mrc_ctl_ep_batch_send_wait = mrc::endpoint::ep_batch_send_wait,
}

export_all! { "IBVERBS_1.1", nothing: ibv_dofork_range, ibv_dontfork_range, ibv_register_driver }
export_all! { "IBVERBS_1.0", nothing:
    ibv_copy_path_rec_from_kern, ibv_copy_path_rec_to_kern, ibv_copy_qp_attr_from_kern,
}
export_all! { "IBVERBS_1.1", nothing: ibv_copy_ah_attr_from_kern }
export! { "IBVERBS_1.1":
    ibv_create_ah = device::create_ah,
    ibv_create_ah_from_wc = device::create_ah,
    ibv_create_srq = device::create_srq,
}
export_all! { "IBVERBS_1.1", refuse:
    ibv_attach_mcast, ibv_destroy_ah, ibv_destroy_srq, ibv_detach_mcast, ibv_init_ah_from_wc, ibv_modify_srq,
    ibv_query_srq, ibv_resolve_eth_l2_from_gid,
}
export_all! { "IBVERBS_1.10", refuse: ibv_query_ece, ibv_set_ece }
export_all! { "IBVERBS_1.12", refuse_pointer: ibv_reg_dmabuf_mr }
export_all! { "IBVERBS_1.13", refuse_pointer: ibv_import_dm }
export_all! { "IBVERBS_1.13", nothing: ibv_unimport_dm }
// No promise about the order of data within a write beyond what `ibv_query_qp_data_in_order` calls "none".
export_all! { "IBVERBS_1.14", nothing: ibv_query_qp_data_in_order }

export_all! { "IBVERBS_1.15", refuse_pointer: ibv_alloc_dmah, ibv_reg_mr_ex }
export_all! { "IBVERBS_1.15", refuse: ibv_dealloc_dmah }
export_all! { "IBVERBS_1.16", refuse_minus_one: ibv_dm_export_dmabuf_fd }
export_all! { "IBVERBS_1.17", refuse_pointer: ibv_alloc_buf, ibv_reg_buf_mr }
export_all! { "IBVERBS_1.17", nothing: ibv_free_buf }

// Providers register themselves before `main`, and never get a device of ours.
export_all! { "IBVERBS_PRIVATE_34", nothing: verbs_register_driver_34 }
export_all! { "IBVERBS_PRIVATE_57", nothing: verbs_register_driver_57 }
export_all! { "IBVERBS_PRIVATE_59", nothing: verbs_register_driver_59 }
export_all! { "IBVERBS_PRIVATE_64", nothing: verbs_register_driver_64 }
export_all! { "IBVERBS_PRIVATE_65", nothing: verbs_register_driver_65 }
private_all! { nothing: __verbs_log, ibv_dmabuf_heap_destroy, ibv_dmabuf_heap_free }
private_all! { refuse_pointer:
    _verbs_init_and_alloc_context, ibv_dmabuf_heap_alloc, ibv_dmabuf_heap_cc_shared_init, verbs_open_device,
}
private_all! { refuse:
        ibv_cmd_alloc_dmah, ibv_cmd_create_cq_ex2, ibv_cmd_export_dmabuf_fd, ibv_cmd_free_dmah, ibv_cmd_query_port_speed,
        ibv_cmd_reg_mr_ex,
        __ioctl_final_num_attrs, execute_ioctl, ibv_cmd_advise_mr, ibv_cmd_alloc_dm, ibv_cmd_alloc_mw,
        ibv_cmd_alloc_pd, ibv_cmd_attach_mcast, ibv_cmd_close_xrcd, ibv_cmd_create_ah, ibv_cmd_create_counters,
        ibv_cmd_create_cq, ibv_cmd_create_cq_ex, ibv_cmd_create_flow, ibv_cmd_create_flow_action_esp,
        ibv_cmd_create_qp, ibv_cmd_create_qp_ex, ibv_cmd_create_qp_ex2, ibv_cmd_create_rwq_ind_table,
        ibv_cmd_create_srq, ibv_cmd_create_srq_ex, ibv_cmd_create_wq, ibv_cmd_dealloc_mw, ibv_cmd_dealloc_pd,
        ibv_cmd_dereg_mr, ibv_cmd_destroy_ah, ibv_cmd_destroy_counters, ibv_cmd_destroy_cq, ibv_cmd_destroy_flow,
        ibv_cmd_destroy_flow_action, ibv_cmd_destroy_qp, ibv_cmd_destroy_rwq_ind_table, ibv_cmd_destroy_srq,
        ibv_cmd_destroy_wq, ibv_cmd_detach_mcast, ibv_cmd_free_dm, ibv_cmd_get_context, ibv_cmd_modify_cq,
        ibv_cmd_modify_flow_action_esp, ibv_cmd_modify_qp, ibv_cmd_modify_qp_ex, ibv_cmd_modify_srq,
        ibv_cmd_modify_wq, ibv_cmd_open_qp, ibv_cmd_open_xrcd, ibv_cmd_poll_cq, ibv_cmd_post_recv,
        ibv_cmd_post_send, ibv_cmd_post_srq_recv, ibv_cmd_query_context, ibv_cmd_query_device_any, ibv_cmd_query_mr,
        ibv_cmd_query_port, ibv_cmd_query_qp, ibv_cmd_query_srq, ibv_cmd_read_counters, ibv_cmd_reg_dm_mr,
        ibv_cmd_reg_dmabuf_mr, ibv_cmd_reg_mr, ibv_cmd_req_notify_cq, ibv_cmd_rereg_mr, ibv_cmd_resize_cq,
        ibv_read_ibdev_sysfs_file, verbs_init_cq, verbs_set_ops, verbs_uninit_context,
}

#[cfg(not(test))]
core::arch::global_asm!(
    ".pushsection .bss.__v_verbs_allow_disassociate_destroy,\"aw\",@nobits",
    ".globl __v_verbs_allow_disassociate_destroy",
    ".type __v_verbs_allow_disassociate_destroy, @object",
    "__v_verbs_allow_disassociate_destroy:",
    "7:",
    ".zero 1",
    ".size __v_verbs_allow_disassociate_destroy, 1",
    ".symver __v_verbs_allow_disassociate_destroy, verbs_allow_disassociate_destroy@@@IBVERBS_PRIVATE_34",
    // The same byte at the newer nodes.
    ".irp node, 57, 59, 64, 65",
    ".globl __v\\node\\()_verbs_allow_disassociate_destroy",
    ".type __v\\node\\()_verbs_allow_disassociate_destroy, @object",
    ".set __v\\node\\()_verbs_allow_disassociate_destroy, 7b",
    ".size __v\\node\\()_verbs_allow_disassociate_destroy, 1",
    ".symver __v\\node\\()_verbs_allow_disassociate_destroy, verbs_allow_disassociate_destroy@IBVERBS_PRIVATE_\\node",
    ".endr",
    ".popsection",
);
