//! Endpoint operations and ports: probes of single EVs, what peers tell of their ports and we of ours.

use mrc_core::{PeerHandle, PortMask};

use crate::{
    border, codes::*, control_types::*, convert::port, convert_control, fault::fault, memory::mrc_core_endpoint,
    types::*,
};

/// Performs an endpoint operation once, over one path; mrc_core_poll_endpoint_op() tells how it ended. MRC_CORE_E_BUSY: 64
/// are under way, or ended and were not taken.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `request` NULL or readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_post_endpoint_op(
    endpoint: *mut mrc_core_endpoint,
    peer: mrc_core_peer,
    request: *const mrc_core_op_request,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let request = convert_control::op_request(border::read(request, "request")?)?;
            e.engine.post_endpoint_op(PeerHandle::from_parts(peer.index, peer.generation), &request)?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Takes the endpoint operation that ended longest ago.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `out` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_poll_endpoint_op(
    endpoint: *mut mrc_core_endpoint,
    out: *mut mrc_core_op_outcome,
) -> i32 {
    // SAFETY: passed on; `out` is checked before an outcome leaves the queue.
    unsafe {
        border::call(endpoint, |e| {
            border::check(out, "out")?;
            let Some(outcome) = e.engine.poll_endpoint_op() else { return Ok(MRC_CORE_OK) };
            border::write(out, "out", convert_control::op_outcome(&outcome))?;
            Ok(MRC_CORE_SOME)
        })
    }
}

/// The ports that a peer says are up, bit N for port N; all until it has told.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `out` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_peer_ports(
    endpoint: *mut mrc_core_endpoint,
    peer: mrc_core_peer,
    out: *mut u32,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let ports = e.engine.peer_ports(PeerHandle::from_parts(peer.index, peer.generation));
            border::write(out, "out", ports.ok_or(fault(MRC_CORE_E_UNKNOWN, "peer"))?.bits())?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Tells the engine that the link of a port went up or down. EVs of a port that is down are not used; they keep their states.
/// Peers hear of it by Port Status Updates.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_set_port(endpoint: *mut mrc_core_endpoint, now_ns: u64, number: u8, up: u8) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let port = port(number)?;
            if !e.engine.config().port_mask().contains(port) {
                return Err(fault(MRC_CORE_E_UNKNOWN, "port"));
            }
            e.engine.set_port(border::time(now_ns), port, up != 0);
            Ok(MRC_CORE_OK)
        })
    }
}

/// Takes a port out of use, or back into it, whatever its link does. Ports begin enabled.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_set_port_admin(
    endpoint: *mut mrc_core_endpoint,
    now_ns: u64,
    number: u8,
    enabled: u8,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let port = port(number)?;
            if !e.engine.config().port_mask().contains(port) {
                return Err(fault(MRC_CORE_E_UNKNOWN, "port"));
            }
            e.engine.set_port_admin(border::time(now_ns), port, enabled != 0);
            Ok(MRC_CORE_OK)
        })
    }
}

/// The ports that are up and enabled, bit N for port N; 0 without an endpoint.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_ports_up(endpoint: *mut mrc_core_endpoint) -> u32 {
    // SAFETY: passed on.
    unsafe { border::endpoint(endpoint) }.map_or(PortMask::NONE, |e| e.engine.ports_up()).bits()
}
