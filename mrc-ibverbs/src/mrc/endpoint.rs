//! Endpoint operations in batches: EV probes and port status updates.

use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use core::ffi::c_int;

use libc::{EAGAIN, EINVAL, EIO, ENOMEM, ETIMEDOUT};
use mrc_core::path::EvEntry;
use mrc_core::{OpRequest, PortMask};
use mrc_wire::{EndpointOp, Ev, PortNum, ev};
use parking_lot::Mutex;

use super::abi::{
    EP_OP_EV_PROBE, EP_OP_PORT_STATUS_UPDATE, FMT_MODE_SRV6, FMT_MODE_STEV, FMT_MODE_UDP, MrcCtlEpReq, MrcCtlEpRsp,
};
use super::{MrcContext, ctl};
use crate::engine::Engine;
use crate::object;

/// One batch at a time: the engine's answers have one reader.
static BATCH: Mutex<u64> = Mutex::new(0);

/// Between looks for answers. Round trips are measured by the engine, not by when we look.
const PAUSE: Duration = Duration::from_micros(50);

fn request(engine: &Engine, op: EndpointOp, request: &MrcCtlEpReq, dscp: u8) -> Result<OpRequest, c_int> {
    let port = PortNum::new(request.req_ev.port).ok_or(EINVAL)?;
    let value = &request.req_ev.val;
    let [a, b, c, d, ..] = *value;
    let path = match request.ev_fmt_mode {
        FMT_MODE_STEV => EvEntry::new(Ev(u32::from_be_bytes([a, b, c, d])), port),
        FMT_MODE_UDP => EvEntry::new(Ev(u16::from_be_bytes([a, b]).into()), port),
        FMT_MODE_SRV6 => {
            let segment = ev::srh_segment(value);
            let segment = (segment != [0; 16]).then_some(segment);
            EvEntry { dst: Some(ev::srv6_destination(value)), segment, ..EvEntry::new(Ev(0), port) }
        }
        _ => return Err(EINVAL),
    };
    let own = Ipv6Addr::from(request.sgid.0);
    let ours = engine.host.gids().contains(&own) || own.is_unspecified();
    if !ours {
        return Err(EINVAL);
    }
    Ok(OpRequest {
        cookie: 0,
        op,
        ports: PortMask::from_bits(request.port_status),
        path,
        dscp: Some(dscp),
        timeout_ns: 0,
    })
}

fn batch(
    engine: &Engine,
    op: EndpointOp,
    dscp: u8,
    asked: &[MrcCtlEpReq],
    timeout_ns: u32,
    mut answered: impl FnMut(MrcCtlEpRsp),
) -> Result<(), c_int> {
    let device = |error| crate::engine::failed("endpoint operation", &error);
    let mut serial = BATCH.lock();
    // Every batch has cookies of its own: a late answer of an earlier one matches nothing.
    *serial += 1;
    let cookie = |index: usize| *serial << 32 | index as u64;
    let mut prepared = Vec::with_capacity(asked.len());
    for (index, one) in asked.iter().enumerate() {
        let request = request(engine, op, one, dscp)?;
        let peer = engine.peer(Ipv6Addr::from(one.dgid.0), request.path.dst.is_some());
        // `mrc_ctl.h` has no error of its own for a node that nobody knows.
        let peer = peer.map_err(|code| if code == libc::EHOSTUNREACH { EINVAL } else { code })?;
        prepared.push((peer, OpRequest { cookie: cookie(index), timeout_ns: timeout_ns.into(), ..request }));
    }
    // A little longer than the engine waits, so that it always has the last word.
    let deadline = Instant::now() + Duration::from_nanos(timeout_ns.into()) + Duration::from_millis(50);
    let mut to_send = prepared.into_iter().peekable();
    let (mut open, mut lost) = (0usize, 0usize);
    loop {
        while let Some(outcome) = engine.device.poll_endpoint_op().map_err(device)? {
            let index = (outcome.cookie & u64::from(u32::MAX)) as usize;
            let Some(one) = asked.get(index).filter(|_| outcome.cookie >> 32 == *serial) else { continue };
            open -= 1;
            match outcome.answer {
                Some(answer) => answered(MrcCtlEpRsp {
                    req_id: one.req_id,
                    port: answer.port.value(),
                    rtt: u32::try_from(answer.rtt_ns).unwrap_or(u32::MAX),
                    adj_svc_time: answer.adjusted.into(),
                }),
                None => lost += 1,
            }
        }
        while let Some((peer, request)) = to_send.peek() {
            match engine.device.post_endpoint_op(*peer, *request).map_err(device)? {
                Ok(()) => open += 1,
                Err(mrc_core::OpError::Busy) if open > 0 => break,
                Err(mrc_core::OpError::Busy) => return Err(EAGAIN),
                Err(_) => return Err(EINVAL),
            }
            to_send.next();
        }
        if open == 0 && to_send.peek().is_none() {
            return if lost > 0 { Err(ETIMEDOUT) } else { Ok(()) };
        }
        if Instant::now() > deadline {
            return Err(ETIMEDOUT);
        }
        std::thread::sleep(PAUSE);
    }
}

pub(crate) unsafe extern "C" fn ep_batch_send_wait(
    context: *mut MrcContext,
    req_tc: u8,
    op_type: u32,
    requests: *const MrcCtlEpReq,
    num_requests: c_int,
    timeout_ns: u32,
    responses: *mut MrcCtlEpRsp,
    num_responses: *mut c_int,
) -> c_int {
    let run = || {
        ctl::allowed()?;
        let context = object::get::<MrcContext>(context)?;
        let op = match op_type {
            EP_OP_EV_PROBE => EndpointOp::EvProbe,
            EP_OP_PORT_STATUS_UPDATE => EndpointOp::PortStatusUpdate,
            _ => return Err(EINVAL),
        };
        let count = usize::try_from(num_requests).map_err(|_| EINVAL)?;
        if count == 0 || requests.is_null() || responses.is_null() || num_responses.is_null() || req_tc > 63 {
            return Err(EINVAL);
        }
        if count > usize::from(u16::MAX) {
            return Err(ENOMEM);
        }
        // SAFETY: not null; the application says that there are so many, and waits.
        let asked = unsafe { core::slice::from_raw_parts(requests, count) };
        let engine = context.shared.engine().map_err(|code| if code == EINVAL { EIO } else { code })?;
        let mut got = 0;
        // SAFETY: not null; room for a number.
        unsafe { num_responses.write(0) };
        batch(&engine, op, req_tc, asked, timeout_ns, |response| {
            // SAFETY: the application gives room for an answer to each request, and each has one at most.
            unsafe {
                responses.add(got).write(response);
                got += 1;
                num_responses.write(got as c_int);
            }
        })
    };
    object::minus_one(run())
}
