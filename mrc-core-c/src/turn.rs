//! The turn: one input, then drain frames, completions and events, then sleep until the next deadline.

use mrc_core::{Instant, PlaceToken, Received};
use mrc_wire::{NackReason, icrc};

use crate::{
    border,
    burst::{Arrivals, Burst, MOST},
    codes::*,
    convert::{self, cq, qp},
    fault::fault,
    memory::mrc_core_endpoint,
    types::*,
};

/// Queues a write. Its bytes must not change until its completion.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `wr` NULL or readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_post_send(
    endpoint: *mut mrc_core_endpoint,
    now_ns: u64,
    pair: mrc_core_qp,
    wr: *const mrc_core_send_wr,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let wr = convert::send_wr(border::read(wr, "wr")?);
            e.engine.post_send(border::time(now_ns), qp(pair), &wr)?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Queues a receive request: the peer's next write with immediate completes it.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_post_recv(endpoint: *mut mrc_core_endpoint, pair: mrc_core_qp, wr_id: u64) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            e.engine.post_recv(qp(pair), wr_id)?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// Takes one received frame. `head` holds `head_len` bytes from the Ethernet header on: at least all headers, and the
/// whole frame under MRC_CORE_ICRC_VERIFY. MRC_CORE_SOME: move the payload as `out` says (mrc_core_placement).
/// MRC_CORE_OK: nothing to move. Below: the frame had no further effect, and the code says why.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `rx` NULL or readable, `head` points to `head_len` bytes, `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_handle_packet(
    endpoint: *mut mrc_core_endpoint,
    now_ns: u64,
    rx: *const mrc_core_rx,
    head: *const u8,
    head_len: usize,
    out: *mut mrc_core_placement,
) -> i32 {
    // SAFETY: passed on; `out` is checked before the frame takes effect.
    unsafe {
        border::call(endpoint, |e| {
            let meta = convert::rx(border::read(rx, "rx")?)?;
            let head = border::slice(head, head_len, "head")?;
            border::write(out, "out", convert::nowhere())?;
            match e.engine.handle_packet(border::time(now_ns), meta, head)? {
                Received::Nothing => Ok(MRC_CORE_OK),
                Received::Place(at) => {
                    border::write(out, "out", convert::placement(&at))?;
                    Ok(MRC_CORE_SOME)
                }
            }
        })
    }
}

/// As mrc_core_handle_packet(), for `count` frames at a time, which costs less per frame: takes the first ones of `frames`,
/// says in each what became of it and returns how many it took, at most 1024. A refusal takes none.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `frames` points to `count` frames, each with NULL or `head_len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_receive_burst(
    endpoint: *mut mrc_core_endpoint,
    now_ns: u64,
    frames: *mut mrc_core_arrival,
    count: usize,
) -> i32 {
    // SAFETY: passed on; all frames are checked before one takes effect.
    unsafe {
        border::call(endpoint, |e| {
            let mut arrivals = Arrivals::new(border::slice_mut(frames, count.min(MOST), "frames")?)?;
            e.engine.receive(border::time(now_ns), &mut arrivals);
            Ok(arrivals.taken() as i32)
        })
    }
}

/// Lets time pass: serves every QP whose deadline has come, `call_budget` of them at most.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_handle_timeout(endpoint: *mut mrc_core_endpoint, now_ns: u64) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            e.engine.handle_timeout(border::time(now_ns));
            Ok(MRC_CORE_OK)
        })
    }
}

/// When mrc_core_handle_timeout() next has something to do, in nanoseconds; MRC_CORE_NEVER when only an input can change
/// that. A time in the past means now.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_next_timeout(endpoint: *mut mrc_core_endpoint) -> u64 {
    // SAFETY: passed on.
    let endpoint = unsafe { border::endpoint(endpoint) };
    endpoint.ok().and_then(|e| e.engine.next_timeout()).map_or(MRC_CORE_NEVER, Instant::as_nanos)
}

/// Writes the headers of the next frame to send to `headers`, of at least MRC_CORE_MAX_HEADER_LEN bytes, and says in `out`
/// what follows them. `ports` has bit N for each port N with room for a frame; frames for others wait. MRC_CORE_OK:
/// nothing to send now.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `headers` points to `len` writable bytes, `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_poll_transmit(
    endpoint: *mut mrc_core_endpoint,
    now_ns: u64,
    ports: u32,
    headers: *mut u8,
    len: usize,
    out: *mut mrc_core_transmit,
) -> i32 {
    // SAFETY: passed on; both pointers are checked before a frame leaves the queue.
    unsafe {
        border::call(endpoint, |e| {
            if len < MRC_CORE_MAX_HEADER_LEN {
                return Err(fault(MRC_CORE_E_RANGE, "len"));
            }
            let headers = border::slice_mut(headers, len, "headers")?;
            border::write(out, "out", convert::no_transmit())?;
            let ports = convert::port_mask(ports)?;
            let Some(transmit) = e.engine.poll_transmit(border::time(now_ns), ports, headers) else {
                return Ok(MRC_CORE_OK);
            };
            border::write(out, "out", convert::transmit(&transmit))?;
            Ok(MRC_CORE_SOME)
        })
    }
}

/// As mrc_core_poll_transmit(), for up to `count` frames at a time, which costs less per frame: fills the first ones of
/// `frames` and returns how many, 0 when there is nothing to send now. `room[N - 1]` says how many frames port N takes, for
/// all MRC_CORE_MAX_PORTS ports, and is lowered by those filled for it; frames for others wait. At most 1024 leave in a call. A
/// refusal fills nothing.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `room` NULL or MRC_CORE_MAX_PORTS numbers, `frames` points to `count` frames, each
/// with NULL or `len` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_transmit_burst(
    endpoint: *mut mrc_core_endpoint,
    now_ns: u64,
    room: *mut u32,
    frames: *mut mrc_core_frame,
    count: usize,
) -> i32 {
    // SAFETY: passed on; all pointers are checked before a frame leaves the queue.
    unsafe {
        border::call(endpoint, |e| {
            border::check(room, "room")?;
            let room = &mut *room.cast::<[u32; MRC_CORE_MAX_PORTS]>();
            // More than that leave in the next call.
            let frames = border::slice_mut(frames, count.min(MOST), "frames")?;
            for frame in frames.iter() {
                border::check(frame.headers, "headers")?;
                if (frame.len as usize) < MRC_CORE_MAX_HEADER_LEN {
                    return Err(fault(MRC_CORE_E_RANGE, "len"));
                }
            }
            let mut burst = Burst::new(room, frames);
            e.engine.transmit(border::time(now_ns), &mut burst);
            Ok(burst.filled as i32)
        })
    }
}

/// Takes the oldest completion of a queue. A queue that was destroyed, or that never was, has none: MRC_CORE_OK.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `out` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_poll_cq(
    endpoint: *mut mrc_core_endpoint,
    queue: mrc_core_cq,
    out: *mut mrc_core_completion,
) -> i32 {
    // SAFETY: passed on; `out` is checked before a completion leaves the queue.
    unsafe {
        border::call(endpoint, |e| {
            border::check(out, "out")?;
            let Some(completion) = e.engine.poll_completion(cq(queue)) else { return Ok(MRC_CORE_OK) };
            border::write(out, "out", convert::completion(&completion))?;
            Ok(MRC_CORE_SOME)
        })
    }
}

/// Takes the oldest event.
///
/// # Safety
/// `endpoint` is NULL or an endpoint, `out` NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_poll_event(endpoint: *mut mrc_core_endpoint, out: *mut mrc_core_event) -> i32 {
    // SAFETY: passed on; `out` is checked before an event leaves the queue.
    unsafe {
        border::call(endpoint, |e| {
            border::check(out, "out")?;
            let Some(event) = e.engine.poll_event() else { return Ok(MRC_CORE_OK) };
            border::write(out, "out", convert::event(&event))?;
            Ok(MRC_CORE_SOME)
        })
    }
}

/// From now on every new write is refused with a NACK of this wire reason (0x06 no bitmap, 0x07 no packet buffer, 0x0A no
/// resource, 0x19 device failed), before anything of it is recorded; 0 ends it.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_set_refusal(endpoint: *mut mrc_core_endpoint, reason: u8) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            let reason = match reason {
                0 => None,
                known => match NackReason::from_u8(known) {
                    NackReason::NoBitmap => Some(NackReason::NoBitmap),
                    NackReason::NoPktBuffer => Some(NackReason::NoPktBuffer),
                    NackReason::NoResource => Some(NackReason::NoResource),
                    NackReason::UnexpEvent => Some(NackReason::UnexpEvent),
                    _ => return Err(fault(MRC_CORE_E_RANGE, "reason")),
                },
            };
            e.engine.set_refusal(reason);
            Ok(MRC_CORE_OK)
        })
    }
}

/// The bytes of a placement are in memory, where the host sees them. Only with `placement_reported`; placements may end in
/// any order. Transport ACKs and completions that waited for it come with the next polls. MRC_CORE_E_UNKNOWN: the QP was
/// reset or destroyed since, or the end of this placement was reported before; nothing happened.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_placed(endpoint: *mut mrc_core_endpoint, now_ns: u64, token: u64) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            e.engine.placed(border::time(now_ns), PlaceToken::from_bits(token))?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// The bytes of a placement could not be moved: the QP refuses its packet with NAK 0x63 and fails. Refusals are those of
/// mrc_core_placed(). Without `placement_reported` this comes before the next poll; receives that completed with this packet
/// or later ones flush.
///
/// # Safety
/// `endpoint` is NULL or an endpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_place_failed(endpoint: *mut mrc_core_endpoint, now_ns: u64, token: u64) -> i32 {
    // SAFETY: passed on.
    unsafe {
        border::call(endpoint, |e| {
            e.engine.place_failed(border::time(now_ns), PlaceToken::from_bits(token))?;
            Ok(MRC_CORE_OK)
        })
    }
}

/// The ICRC of a packet that lies in one piece: `packet` starts at `l3_offset` of the frame and ends with the last pad
/// byte; the four bytes go behind it.
///
/// # Safety
/// `packet` points to `len` bytes, `out` to 4 writable ones.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrc_core_icrc(packet: *const u8, len: usize, out: *mut u8) -> i32 {
    // SAFETY: passed on.
    let made = unsafe { border::slice(packet, len, "packet") }.and_then(|packet| {
        let icrc = icrc::compute(packet).ok_or(fault(MRC_CORE_E_RANGE, "packet"))?;
        // SAFETY: passed on.
        unsafe { border::write(out.cast::<[u8; icrc::LEN]>(), "out", icrc) }
    });
    made.err().map_or(MRC_CORE_OK, |fault| fault.code)
}
