//! Every size and offset against the installed header, by a C compiler: the assertions are written in C and compiled.

use std::fmt::Write as _;
use std::io::Write as _;
use std::mem::offset_of;
use std::process::{Command, Stdio};

use super::*;

/// C assertions for one structure: its size, and where fields are. `rust = c` where the names differ.
macro_rules! structure {
    ($out:ident, $name:literal = $type:ty: $($field:ident).+ $(= $c:literal)? $(, $($more:ident).+ $(= $d:literal)?)*) => {
        structure!(@size $out, $name, size_of::<$type>());
        structure!(@fields $out, $name, $type: $($field).+ $(= $c)? $(, $($more).+ $(= $d)?)*);
    };
    (@fields $out:ident, $name:literal, $type:ty: $($($field:ident).+ $(= $c:literal)?),*) => {$(
        #[allow(unused_mut, unused_assignments)]
        let mut c = stringify!($($field).+).to_owned();
        $(c = $c.to_owned();)?
        let c = c.replace("base.", "").replace(' ', "");
        writeln!($out, "_Static_assert(offsetof(struct {0}, {c}) == {1}, \"{0}.{c}\");", $name, offset_of!($type, $($field).+))
            .unwrap();
    )*};
    (@size $out:ident, $name:literal, $size:expr) => {
        writeln!($out, "_Static_assert(sizeof(struct {0}) == {1}, \"size of {0}\");", $name, $size).unwrap();
    };
}

fn assertions() -> String {
    let mut out = String::from("#include <stddef.h>\n#include <infiniband/verbs.h>\n");
    // Ours is longer, for those who read behind the end.
    structure!(@size out, "ibv_device", offset_of!(IbvDevice, slack));
    structure!(@fields out, "ibv_device", IbvDevice: node_type, transport_type, name, dev_name, dev_path, ibdev_path);
    structure!(out, "ibv_context_ops" = IbvContextOps: alloc_mw, bind_mw, dealloc_mw, poll_cq, req_notify_cq, post_srq_recv,
        post_send, post_recv);
    structure!(out, "ibv_context" = IbvContext: device, ops, cmd_fd, async_fd, num_comp_vectors, mutex, abi_compat);
    structure!(out, "verbs_context" = VerbsContext: query_port, create_cq_ex, private = "priv", query_device_ex, create_qp_ex,
        get_srq_num, create_srq_ex, open_xrcd, sz, context);
    structure!(out, "ibv_pd" = IbvPd: context, handle);
    structure!(out, "ibv_mr" = IbvMr: context, pd, addr, length, handle, lkey, rkey);
    structure!(out, "ibv_comp_channel" = IbvCompChannel: context, fd, refcnt);
    structure!(out, "ibv_cq" = IbvCq: context, channel, cq_context, handle, cqe, mutex, cond, comp_events_completed,
        async_events_completed);
    structure!(out, "ibv_cq_ex" = IbvCqEx: base.context, base.channel, base.cq_context, base.cqe, comp_mask, status, wr_id,
        start_poll, next_poll, end_poll, read_opcode, read_vendor_err, read_byte_len, read_imm_data, read_qp_num, read_src_qp,
        read_wc_flags, read_slid, read_sl, read_dlid_path_bits);
    structure!(out, "ibv_qp" = IbvQp: context, qp_context, pd, send_cq, recv_cq, srq, handle, qp_num, state, qp_type, mutex,
        cond, events_completed);
    structure!(out, "ibv_qp_ex" = IbvQpEx: qp_base, comp_mask, wr_id, wr_flags, wr_atomic_cmp_swp, wr_rdma_read, wr_rdma_write,
        wr_rdma_write_imm, wr_send, wr_set_ud_addr, wr_set_inline_data, wr_set_inline_data_list, wr_set_sge, wr_set_sge_list,
        wr_start, wr_complete, wr_abort, wr_atomic_write);
    structure!(out, "ibv_data_buf" = IbvDataBuf: addr, length);
    structure!(out, "ibv_qp_cap" = IbvQpCap: max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data);
    structure!(out, "ibv_qp_init_attr" = IbvQpInitAttr: qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all);
    structure!(out, "ibv_qp_init_attr_ex" = IbvQpInitAttrEx: qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all,
        comp_mask, pd, xrcd, create_flags, max_tso_header, rwq_ind_tbl, rx_hash_conf, source_qpn, send_ops_flags);
    structure!(out, "ibv_global_route" = IbvGlobalRoute: dgid, flow_label, sgid_index, hop_limit, traffic_class);
    structure!(out, "ibv_ah_attr" = IbvAhAttr: grh, dlid, sl, src_path_bits, static_rate, is_global, port_num);
    structure!(out, "ibv_qp_attr" = IbvQpAttr: qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn,
        dest_qp_num, qp_access_flags, cap, ah_attr, alt_ah_attr, pkey_index, alt_pkey_index, en_sqd_async_notify, sq_draining,
        max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout,
        rate_limit);
    structure!(out, "ibv_cq_init_attr_ex" = IbvCqInitAttrEx: cqe, cq_context, channel, comp_vector, wc_flags, comp_mask, flags,
        parent_domain);
    structure!(out, "ibv_sge" = IbvSge: addr, length, lkey);
    structure!(out, "ibv_send_wr" = IbvSendWr: wr_id, next, sg_list, num_sge, opcode, send_flags, imm_data,
        remote_addr = "wr.rdma.remote_addr", rkey = "wr.rdma.rkey");
    structure!(out, "ibv_recv_wr" = IbvRecvWr: wr_id, next, sg_list, num_sge);
    structure!(out, "ibv_wc" = IbvWc: wr_id, status, opcode, vendor_err, byte_len, imm_data, qp_num, src_qp, wc_flags,
        pkey_index, slid, sl, dlid_path_bits);
    structure!(out, "ibv_async_event" = IbvAsyncEvent: element, event_type);
    structure!(out, "ibv_gid_entry" = IbvGidEntry: gid, gid_index, port_num, gid_type, ndev_ifindex);
    structure!(out, "ibv_device_attr" = IbvDeviceAttr: fw_ver, node_guid, sys_image_guid, max_mr_size, page_size_cap,
        vendor_id, vendor_part_id, hw_ver, max_qp, max_qp_wr, device_cap_flags, max_sge, max_sge_rd, max_cq, max_cqe, max_mr,
        max_pd, rd_atom = "max_qp_rd_atom", atomic_cap, max_ee, max_rdd, max_mw, raw_and_mcast = "max_raw_ipv6_qp", max_ah,
        max_fmr, max_srq, max_srq_wr, max_srq_sge, max_pkeys, local_ca_ack_delay, phys_port_cnt);
    structure!(out, "ibv_device_attr_ex" = IbvDeviceAttrEx: orig_attr, comp_mask, phys_port_cnt_ex);
    // The newest header has one field more than 44.
    writeln!(
        out,
        "_Static_assert(sizeof(struct ibv_port_attr) >= {}, \"\");",
        offset_of!(IbvPortAttr, active_speed_ex)
    )
    .unwrap();
    structure!(@fields out, "ibv_port_attr", IbvPortAttr: state, max_mtu, active_mtu, gid_tbl_len, port_cap_flags, max_msg_sz,
        bad_pkey_cntr, qkey_viol_cntr, pkey_tbl_len, lid, sm_lid, lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply,
        active_width, active_speed, phys_state, link_layer, flags, port_cap_flags2);
    for (name, value) in [
        ("IBV_QPS_ERR", QPS_ERR),
        ("IBV_QPT_RC", QPT_RC),
        ("IBV_QP_DEST_QPN", QP_DEST_QPN),
        ("IBV_QP_MAX_QP_RD_ATOMIC", QP_MAX_RD_ATOMIC),
        ("IBV_WR_RDMA_WRITE_WITH_IMM", WR_RDMA_WRITE_WITH_IMM),
        ("IBV_SEND_INLINE", SEND_INLINE),
        ("IBV_WC_RECV_RDMA_WITH_IMM", WC_RECV_RDMA_WITH_IMM),
        ("IBV_WC_RDMA_WRITE", WC_RDMA_WRITE),
        ("IBV_WC_STANDARD_FLAGS", WC_EX_STANDARD as u32),
        ("IBV_ACCESS_OPTIONAL_RANGE", ACCESS_OPTIONAL),
        ("IBV_EVENT_QP_ACCESS_ERR", EVENT_QP_ACCESS_ERR),
        ("IBV_EVENT_PORT_ERR", EVENT_PORT_ERR),
        ("IBV_QP_INIT_ATTR_SEND_OPS_FLAGS", QP_INIT_ATTR_SEND_OPS_FLAGS),
    ] {
        writeln!(out, "_Static_assert({name} == {value}, \"{name}\");").unwrap();
    }
    out
}

#[test]
fn the_installed_header_agrees_with_every_size_and_offset() {
    if !std::path::Path::new("/usr/include/infiniband/verbs.h").exists() {
        let _ = std::io::stderr().write_all(b"SKIP abi: no infiniband/verbs.h; install libibverbs-dev\n");
        return;
    }
    let text = assertions();
    assert!(text.matches("_Static_assert").count() > 250);
    let compile = |text: &str| {
        let mut child = Command::new("cc")
            .args(["-fsyntax-only", "-x", "c", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a C compiler comes with Rust's linker");
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let output = compile(&text);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The test can fail.
    assert!(!compile(&text.replacen("== 0,", "== 1,", 1)).status.success());
}
