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
/// The same while requests are still to be sent: a window in each stays below the rate at which a node answers.
const ROUND: Duration = Duration::from_micros(200);
/// Requests that wait for their answers at once. A node answers a limited number in a burst and drops the others, which would
/// look like a path that is bad.
const WINDOW: usize = 16;

/// The requests of a batch that are sent at once.
struct Window {
    waiting: Vec<(usize, Instant)>,
    /// After this time a request without an answer makes room for the next one.
    patience: Duration,
}

impl Window {
    /// Half of the batch's time is enough to send all of it, even if nobody answers.
    fn new(requests: usize, timeout: Duration) -> Self {
        let rounds = u32::try_from(requests.div_ceil(WINDOW)).unwrap_or(u32::MAX);
        Self { waiting: Vec::with_capacity(WINDOW), patience: timeout / rounds.saturating_mul(2).max(1) }
    }

    /// How many more may be sent now.
    fn room(&mut self, now: Instant) -> usize {
        self.waiting.retain(|(_, sent)| now.saturating_duration_since(*sent) < self.patience);
        WINDOW - self.waiting.len()
    }

    fn sent(&mut self, request: usize, now: Instant) {
        self.waiting.push((request, now));
    }

    fn ended(&mut self, request: usize) {
        self.waiting.retain(|(waiting, _)| *waiting != request);
    }
}

/// The EV beside a destination of SRv6: a node without queue pairs to us answers along the EV that a request brings. That of the
/// same path where the host's template has it, else one of the same plane.
fn answered_along(engine: &Engine, node: Ipv6Addr, port: PortNum, dst: Ipv6Addr) -> Ev {
    let peer = engine.host.peer_by_gid(node);
    let paths = peer.as_ref().and_then(|peer| engine.host.paths_to(peer).ok()).unwrap_or_default();
    let of_plane = || paths.iter().filter(|path| path.port == port);
    let leads_there = |path: &&EvEntry| {
        peer.as_ref().is_some_and(|peer| engine.host.destination(peer, path).is_ok_and(|there| there == dst))
    };
    of_plane().find(leads_there).or_else(|| of_plane().next()).map_or(Ev(0), |path| path.ev)
}

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
            let dst = ev::srv6_destination(value);
            let ev = answered_along(engine, Ipv6Addr::from(request.dgid.0), port, dst.into());
            EvEntry { dst: Some(dst), segment, ..EvEntry::new(ev, port) }
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
        prepared.push((index, peer, OpRequest { cookie: cookie(index), ..request }));
    }
    let (begin, timeout) = (Instant::now(), Duration::from_nanos(timeout_ns.into()));
    // A little longer than the engine waits, so that it always has the last word.
    let deadline = begin + timeout + Duration::from_millis(50);
    let mut to_send = prepared.into_iter().peekable();
    let mut window = Window::new(asked.len(), timeout);
    let (mut open, mut lost) = (0usize, 0usize);
    loop {
        while let Some(outcome) = engine.device.poll_endpoint_op().map_err(device)? {
            let index = (outcome.cookie & u64::from(u32::MAX)) as usize;
            let Some(one) = asked.get(index).filter(|_| outcome.cookie >> 32 == *serial) else { continue };
            open -= 1;
            window.ended(index);
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
        for _ in 0..window.room(Instant::now()) {
            let Some((index, peer, request)) = to_send.peek() else { break };
            let now = Instant::now();
            let left = timeout.saturating_sub(now.saturating_duration_since(begin));
            let request = OpRequest { timeout_ns: left.as_nanos() as u64, ..*request };
            match engine.device.post_endpoint_op(*peer, request).map_err(device)? {
                Ok(()) => open += 1,
                Err(mrc_core::OpError::Busy) if open > 0 => break,
                Err(mrc_core::OpError::Busy) => return Err(EAGAIN),
                Err(_) => return Err(EINVAL),
            }
            window.sent(*index, now);
            to_send.next();
        }
        if open == 0 && to_send.peek().is_none() {
            return if lost > 0 { Err(ETIMEDOUT) } else { Ok(()) };
        }
        if Instant::now() > deadline {
            return Err(ETIMEDOUT);
        }
        // Not `sleep`: a program may cancel the thread there, which would keep the lock for ever.
        std::thread::park_timeout(if to_send.peek().is_some() { ROUND } else { PAUSE });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_sent_a_window_at_a_time_and_whole_in_half_its_time() {
        let (begin, timeout, requests) = (Instant::now(), Duration::from_millis(100), 256);
        // Nobody answers: the last window goes out after half of the time at the latest.
        let mut window = Window::new(requests, timeout);
        let (mut sent, mut now) = (0, begin);
        while sent < requests {
            let room = window.room(now);
            assert!(room <= WINDOW);
            for _ in 0..room {
                window.sent(sent, now);
                sent += 1;
            }
            assert_eq!(window.room(now), 0);
            now += Duration::from_micros(100);
        }
        assert!(now - begin <= timeout / 2, "{:?}", now - begin);
        // What was answered makes room at once.
        let mut window = Window::new(requests, timeout);
        (0..WINDOW).for_each(|request| window.sent(request, begin));
        window.ended(3);
        window.ended(7);
        window.ended(99);
        assert_eq!(window.room(begin), 2);
    }
}
