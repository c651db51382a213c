//! Set-up: memory regions, completion queues, peers, queue pairs, counters. Rare calls; a firmware makes them on behalf of
//! its host.

use mrc_core::{Access, EndpointConfig, MemRange, Pd, QpInit};

use crate::{
    border,
    codes::*,
    convert::{self, cq, mr, peer_config, port, qp},
    convert_config::config_of,
    fault::{Fault, fault, text},
    memory::mrc_core_endpoint,
    types::*,
};

/// The permission that bits name; those nobody knows are refused.
fn access_of(bits: u8) -> Result<Access, Fault> {
    match bits & !MRC_CORE_ACCESS_REMOTE_WRITE {
        0 => Ok(Access { remote_write: bits & MRC_CORE_ACCESS_REMOTE_WRITE != 0 }),
        _ => Err(fault(MRC_CORE_E_RANGE, "access")),
    }
}

/// Fills `config` with the defaults: no port, no GID, limits for 16 QPs.
///
/// # Safety
/// `config` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_config_default(config: *mut mrc_core_config) -> i32 {
    // SAFETY: passed on.
    code(unsafe { border::write(config, "config", config_of(&EndpointConfig::default())) })
}

/// As mrc_core_config_default(), with the choices that cost an implementation in software least: turns of 64 KiB, Transport
/// ACKs at the end of messages only, acknowledgements asked for when nothing more may leave, one SACK for what was received
/// together, and a tenth of the EV probes. The default keeps to the letter of the specification instead.
///
/// # Safety
/// `config` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_config_software(config: *mut mrc_core_config) -> i32 {
    // SAFETY: passed on.
    code(unsafe { border::write(config, "config", config_of(&EndpointConfig::software())) })
}

/// Fills `rtr` with the defaults; the caller sets `peer`, `ev_profile`, `dest_qp` and `rq_psn`.
///
/// # Safety
/// `rtr` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_rtr_default(rtr: *mut mrc_core_rtr) -> i32 {
    // SAFETY: passed on.
    code(unsafe { border::write(rtr, "rtr", convert::rtr_default()) })
}

/// Fills `rts` with the defaults for a software endpoint whose first packet has PSN `sq_psn`.
///
/// # Safety
/// `rts` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_rts_default(rts: *mut mrc_core_rts, sq_psn: u32) -> i32 {
    // SAFETY: passed on.
    code(unsafe { border::write(rts, "rts", convert::rts_default(sq_psn)) })
}

/// Fills `cc` with the defaults: a fixed window, and NSCC's defaults for everything but rate and base RTT.
///
/// # Safety
/// `cc` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_cc_default(cc: *mut mrc_core_cc) -> i32 {
    // SAFETY: passed on.
    code(unsafe { border::write(cc, "cc", convert::cc_default()) })
}

fn code(done: Result<(), Fault>) -> i32 {
    done.err().map_or(MRC_CORE_OK, |fault| fault.code)
}

/// What the last refusal was about: the name of a field, table or handle; empty when nothing was refused yet.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_detail(endpoint: *mut mrc_core_endpoint) -> mrc_core_text {
    // SAFETY: passed on.
    text(unsafe { border::endpoint(endpoint) }.map_or("", |endpoint| endpoint.detail))
}

/// Registers `len` bytes of memory that the application knows as `va` with the rights `access`
/// (MRC_CORE_ACCESS_REMOTE_WRITE or 0). `out` names the region in placements and transmissions, `key` is its L_Key and
/// R_Key: fresh and random.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `out` and `key` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_register_mr(
    endpoint: *mut mrc_core_endpoint,
    pd: u32,
    va: u64,
    len: u64,
    access: u8,
    out: *mut mrc_core_mr,
    key: *mut u32,
) -> i32 {
    // SAFETY: passed on; both out pointers are checked before anything is registered.
    unsafe {
        border::call(endpoint, |e| {
            let access = access_of(access)?;
            border::write(out, "out", mrc_core_mr { index: 0, generation: 0 })?;
            border::write(key, "key", 0)?;
            let mr = e.engine.register_mr(Pd(pd), MemRange { va, len }, access)?;
            let rkey = e.engine.key(mr).ok_or(fault(MRC_CORE_E_UNKNOWN, "memory region"))?;
            border::write(key, "key", rkey.0)?;
            border::write(out, "out", convert::mr_of(mr))?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Gives a region another protection domain and other rights. Its key stays: packets and posts that come later meet what is new, requests
/// that were posted before go on.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_change_mr(
    endpoint: *mut mrc_core_endpoint,
    region: mrc_core_mr,
    pd: u32,
    access: u8,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            e.engine.change_mr(mr(region), Pd(pd), access_of(access)?)?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Revokes a region: its key is dead when this returns, and nothing is placed through it any more.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_deregister_mr(endpoint: *mut mrc_core_endpoint, region: mrc_core_mr) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            e.engine.deregister_mr(mr(region))?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Creates a completion queue of `limits.cq_depth` entries.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `out` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_create_cq(endpoint: *mut mrc_core_endpoint, out: *mut mrc_core_cq) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            border::write(out, "out", mrc_core_cq { index: 0, generation: 0 })?;
            let cq = e.engine.create_cq()?;
            border::write(out, "out", mrc_core_cq { index: cq.index() as u16, generation: cq.generation() })?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Destroys a completion queue that no QP uses.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_destroy_cq(endpoint: *mut mrc_core_endpoint, queue: mrc_core_cq) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            e.engine.destroy_cq(cq(queue))?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Registers a peer: addresses and paths shared by all QPs towards it.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `config` NULL or readable, `out` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_add_peer(
    endpoint: *mut mrc_core_endpoint,
    config: *const mrc_core_peer_config,
    out: *mut mrc_core_peer,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let config = peer_config(border::read(config, "config")?)?;
            if !e.engine.config().gids.contains(&Some(config.local)) {
                return Err(fault(MRC_CORE_E_RANGE, "local"));
            }
            border::write(out, "out", mrc_core_peer { index: 0, generation: 0 })?;
            let peer = e.engine.add_peer(&config)?;
            border::write(out, "out", mrc_core_peer { index: peer.index() as u16, generation: peer.generation() })?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Packets to and from a peer on `port` (1-based) have these inner addresses in place of the peer's own: where each plane is a network
/// of its own. `local` is a GID or the port's address. To be called before a QP uses the peer.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, the others are NULL or readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_set_plane_addresses(
    endpoint: *mut mrc_core_endpoint,
    peer: mrc_core_peer,
    port: u8,
    local: *const mrc_core_ip,
    remote: *const mrc_core_ip,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let address = |given: &mrc_core_ip, what| convert::ip(given, what)?.ok_or(fault(MRC_CORE_E_RANGE, what));
            let local = address(border::read(local, "local")?, "local")?;
            let remote = address(border::read(remote, "remote")?, "remote")?;
            let peer = mrc_core::PeerHandle::from_parts(peer.index, peer.generation);
            e.engine.set_plane_addresses(peer, convert::port(port)?, local, remote)?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Forgets a peer that no QP uses, also none of another shard.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_remove_peer(endpoint: *mut mrc_core_endpoint, peer: mrc_core_peer) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            e.engine.remove_peer(mrc_core::PeerHandle::from_parts(peer.index, peer.generation))?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Creates a QP in RESET. Completions of sends and receives go to the two queues, which may be one.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `out` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_create_qp(
    endpoint: *mut mrc_core_endpoint,
    pd: u32,
    send_cq: mrc_core_cq,
    recv_cq: mrc_core_cq,
    out: *mut mrc_core_qp,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            border::write(out, "out", mrc_core_qp { index: 0, qpn: 0 })?;
            let init = QpInit { pd: Pd(pd), send_cq: cq(send_cq), recv_cq: cq(recv_cq) };
            let qp = e.engine.create_qp(&init)?;
            border::write(out, "out", mrc_core_qp { index: qp.index() as u32, qpn: qp.qpn().value() })?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Destroys a QP; what it had queued is dropped without completions.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_destroy_qp(endpoint: *mut mrc_core_endpoint, pair: mrc_core_qp) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            e.engine.destroy_qp(qp(pair))?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// A first PSN for one direction of a QP, which nobody can guess.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `out` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_draw_psn(endpoint: *mut mrc_core_endpoint, out: *mut u32) -> i32 {
    // SAFETY: passed on; `out` is checked before a number is drawn.
    unsafe {
        border::call(endpoint, |e| {
            border::check(out, "out")?;
            border::write(out, "out", e.engine.draw_psn().value())?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// RESET to INIT.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_modify_to_init(endpoint: *mut mrc_core_endpoint, pair: mrc_core_qp) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            e.engine.modify_to_init(qp(pair))?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// INIT to RTR: the QP receives from now on.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `rtr` NULL or readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_modify_to_rtr(
    endpoint: *mut mrc_core_endpoint,
    now_ns: u64,
    pair: mrc_core_qp,
    rtr: *const mrc_core_rtr,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let attr = convert::rtr(border::read(rtr, "rtr")?)?;
            e.engine.modify_to_rtr(border::time(now_ns), qp(pair), &attr)?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// RTR to RTS: the QP sends from now on.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `rts` NULL or readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_modify_to_rts(
    endpoint: *mut mrc_core_endpoint,
    now_ns: u64,
    pair: mrc_core_qp,
    rts: *const mrc_core_rts,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let attr = convert::rts(border::read(rts, "rts")?, e.engine.limits())?;
            e.engine.modify_to_rts(border::time(now_ns), qp(pair), &attr)?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Any state to ERROR: queued work flushes.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_modify_to_error(
    endpoint: *mut mrc_core_endpoint,
    now_ns: u64,
    pair: mrc_core_qp,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            e.engine.modify_to_error(border::time(now_ns), qp(pair))?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Any state to ERROR, for a driver that took a request from the host before `mrc_core_post_send` refused it: queued work
/// flushes, as behind any request that fails, and the cause is the refused request. The driver completes that one itself.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_fail_post(endpoint: *mut mrc_core_endpoint, now_ns: u64, pair: mrc_core_qp) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            e.engine.fail_post(border::time(now_ns), qp(pair))?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Any state to RESET: queued work is dropped.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_modify_to_reset(endpoint: *mut mrc_core_endpoint, pair: mrc_core_qp) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            e.engine.modify_to_reset(qp(pair))?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Changes the window that a QP offers its peer, in units of 128 PSNs; MRC_CORE_E_STATE without Dynamic MPR.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_set_mpr(endpoint: *mut mrc_core_endpoint, pair: mrc_core_qp, mpr: u8) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            e.engine.set_mpr(qp(pair), mpr)?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Says whether the peer may write through a QP, on top of what each region allows. Every QP starts, and leaves RESET, with
/// permission; a write without it is refused like one without the region's. `access` as for a region.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_set_qp_access(
    endpoint: *mut mrc_core_endpoint,
    pair: mrc_core_qp,
    access: u8,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let access = access_of(access)?;
            e.engine.set_qp_access(qp(pair), access)?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// What the SACKs of a QP ask of the peer's window from now on: 0 nothing, 64 for a whole round trip halves it, 127 leaves
/// about one packet per round trip. With `restore_cwnd` the peer takes its old window back when the penalty ends. QPs of a peer may
/// share that window: one without a penalty then ends the penalty of the others.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_set_receiver_penalty(
    endpoint: *mut mrc_core_endpoint,
    pair: mrc_core_qp,
    penalty: u8,
    restore_cwnd: u8,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            e.engine.set_receiver_penalty(qp(pair), penalty, restore_cwnd != 0)?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// A picture of one QP.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `out` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_query_qp(
    endpoint: *mut mrc_core_endpoint,
    pair: mrc_core_qp,
    out: *mut mrc_core_qp_info,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let info = e.engine.qp_info(qp(pair)).ok_or(fault(MRC_CORE_E_UNKNOWN, "queue pair"))?;
            border::write(out, "out", convert::qp_info(&info))?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Traffic of port `number`; MRC_CORE_E_UNKNOWN where the endpoint has no such port.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `out` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_query_port(
    endpoint: *mut mrc_core_endpoint,
    number: u8,
    out: *mut mrc_core_port_stats,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let port = port(number)?;
            if !e.engine.config().port_mask().contains(port) {
                return Err(fault(MRC_CORE_E_UNKNOWN, "port"));
            }
            let plane = usize::from(port.plane());
            let stats = e.engine.stats().ports.get(plane).ok_or(fault(MRC_CORE_E_UNKNOWN, "port"))?;
            let stats = mrc_core_port_stats {
                tx_packets: stats.tx_packets,
                tx_bytes: stats.tx_bytes,
                rx_packets: stats.rx_packets,
                rx_bytes: stats.rx_bytes,
            };
            border::write(out, "out", stats)?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Counter number `index`, from 0 up: its name and value. MRC_CORE_OK when there is no such counter, MRC_CORE_SOME when
/// there is: discard reasons first, under the names of mrc_core_error_text().
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `name` and `value` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_counter(
    endpoint: *mut mrc_core_endpoint,
    index: u32,
    name: *mut mrc_core_text,
    value: *mut u64,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let (mut at, mut found) = (0u32, None);
            e.engine.stats().for_each(|name, value| {
                if at == index {
                    found = Some((name, value));
                }
                at = at.saturating_add(1);
            });
            let Some(found) = found else { return Ok(MRC_CORE_OK) };
            border::write(name, "name", text(found.0))?;
            border::write(value, "value", found.1)?;
            Ok(MRC_CORE_SOME)
        })
    }
}
