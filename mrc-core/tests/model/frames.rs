//! What frames of a schedule must be like.

use mrc_core::Transmit;
use mrc_wire::{Body, Frame, icrc};

use crate::endpoint::Model;
use crate::requester::{Fate, Request};
use crate::responder::seq_of;
use crate::schedule::{MEMORY, Setup};
use crate::wiring::VA;

/// Nominal bytes of a write packet: UDP length + 40.
pub(crate) fn nominal(setup: &Setup, payload: i64, imm: bool) -> i64 {
    let timestamp = if setup.timestamps { 4 } else { 0 };
    let immediate = if imm { 4 } else { 0 };
    // UDP, BTH, METH, RETH, ICRC.
    let headers = 8 + 12 + 4 + timestamp + 16 + 4;
    headers + immediate + (payload + 3) / 4 * 4 + 40
}

pub(crate) fn intact(frame: &Frame, bytes: &[u8]) -> bool {
    matches!(frame.body, Body::Trimmed { .. }) || icrc::verify(bytes, frame.l3_offset, frame.icrc_offset)
}

pub(crate) fn line(frame: &Frame) -> String {
    let (bth, ce) = (&frame.bth, if frame.ce { " CE" } else { "" });
    let flags = format!("{}{}", if bth.ack_req { " a" } else { "" }, if bth.rtx { " rtx" } else { "" });
    format!("{:?} psn {} ev {:#x}{flags}{ce} {:?}", bth.opcode, bth.psn, frame.entropy.0, frame.body)
}

/// A write packet: the right one, with the right headers. More packets may ask for an acknowledgement than must.
//= AREQ-001 test
pub(crate) fn check_write(
    setup: &Setup,
    now: u64,
    model: &mut Model,
    frame: &Frame,
    transmit: &Transmit,
    choice: bool,
) {
    let Body::Write { meth, tseth, reth, imm } = &frame.body else { unreachable!() };
    let bytes = i64::from(frame.udp_len) + 40;
    let start = model.req.start;
    let seq = seq_of(start, frame.bth.psn, model.req.max);
    let (request, nth) = if seq == model.req.max + 1 {
        assert!(!frame.bth.rtx, "a new packet with rtx");
        assert!(model.req.new_allowed(setup), "a packet beyond window or limits");
        assert!(!model.req.held_back(setup), "a new packet of a queue pair whose peer is silent");
        assert!(!choice || model.req.due_again(setup, now).is_none(), "a new packet before a lost one");
        let new = model.req.send_new(now, frame.entropy, bytes);
        model.req.set_apart(setup);
        new
    } else {
        assert!(frame.bth.rtx, "an old packet without rtx");
        let tail = model.req.requests.get(model.req.oldest).and_then(Request::last);
        let before = model.req.packets[seq as usize];
        if before.fate == Fate::Lost {
            assert_eq!(Some(seq), model.req.due_again(setup, now), "not the oldest lost packet");
            assert!(!choice || before.ev != frame.entropy, "the same path again: {before:?}");
        } else {
            assert!(model.req.resend_tail && Some(seq) == tail, "sent again without need: {before:?}");
            assert!(frame.bth.ack_req);
            model.req.resend_tail = false;
        }
        model.req.send_again(now, seq, frame.entropy, bytes);
        if before.fate == Fate::Lost {
            model.req.set_apart(setup);
        }
        model.req.owner(seq)
    };
    let last = nth + 1 == request.packets;
    let (first, single) = (nth == 0, request.packets == 1);
    assert_eq!((frame.bth.opcode.is_first(), frame.bth.opcode.ends_message()), (first || single, last));
    let each = setup.ask_each_message || setup.complete_on_sack || frame.bth.rtx;
    let nothing_more = !frame.bth.rtx && !model.req.new_allowed(setup);
    assert!(!(last && each || nothing_more) || frame.bth.ack_req, "nobody asks for an acknowledgement");
    let done = nth as u64 * u64::from(setup.mtu);
    assert_eq!((reth.va, reth.dmalen), (VA + (MEMORY + request.at) as u64 + done, request.len));
    let payload = transmit.payload.map_or((0, 0), |payload| (payload.offset, u64::from(payload.len)));
    let len = (u64::from(request.len) - done).min(setup.mtu.into());
    assert_eq!(payload, if len == 0 { (0, 0) } else { (request.at as u64 + done, len) });
    assert_eq!(*imm, request.imm.filter(|_| last));
    assert_eq!(frame.bth.se, request.solicited && last);
    assert_eq!(meth.msn.0, setup.first_msn.wrapping_add(request.id as u16));
    assert_eq!(meth.rqmsn.0, request.rqmsn);
    assert_eq!(tseth.map(|tseth| tseth.timestamp), setup.timestamps.then_some((now >> 7) as u16));
}
