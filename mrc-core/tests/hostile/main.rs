//! Frames that nobody should send: forged, replayed, out of range, at line rate. What fails validation is counted and
//! changes nothing; what passes draws at most one frame; a stranger draws none.

mod reports;
mod victim;

use std::collections::BTreeMap;

use mrc_core::{Discard, MAX_HEADER_LEN, PortMask, QpState, Received, RtrAttr, SendWr};
use mrc_wire::{
    AethRepr, Body, BthRepr, DscpPlan, Ecn, EmitMeta, Encap, EndpointOp, Ev, FrameTemplate, Ip, MethRepr, Msn,
    NackReason, NackRepr, Opcode, Outer, Psn, Qpn, RethRepr, Rkey, SackRepr, Syndrome, TsethRepr, WireConfig, icrc,
};
use victim::{
    FIRST, IN_FLIGHT, MTU, PEER, PEER_QP, REGION, STRANGER, VICTIM, Victim, WINDOW, address, sign, trim, with,
    without_effect,
};

/// Each bit of each header of each kind of packet, turned and signed again: refused without a trace, or taken as what it
/// then says. Never more than one frame comes back.
//= VAL-001, VAL-002, VAL-010, VAL-011, VAL-012, VAL-013, VAL-014 test
#[test]
fn every_bit_of_every_header() {
    let mut reasons = BTreeMap::new();
    let kinds = with(|v| v.every_kind(PEER).len());
    for kind in 0..kinds {
        for signed in [true, false] {
            // Without the right ICRC they all end alike: some will do.
            let step = if signed { 1 } else { 13 };
            let mut at = 14 * 8;
            let mut done = false;
            while !done {
                // One victim serves until something changes it.
                at = with(|v| {
                    let (name, good) = v.every_kind(PEER).swap_remove(kind);
                    let headers = good.len() - icrc::LEN - if kind < 2 { usize::from(MTU) } else { 0 };
                    let before = v.state();
                    while at < headers * 8 {
                        let mut bytes = good.clone();
                        bytes[at / 8] ^= 1 << (at % 8);
                        if signed {
                            sign(&mut bytes);
                        }
                        at += step;
                        let heard = v.hear(&bytes);
                        let quiet = heard.as_ref().is_err_and(|&why| without_effect(why));
                        let state = if quiet { v.state() } else { 0 };
                        let (frames, _) = v.sent();
                        if let Err(why) = heard {
                            *reasons.entry(why.name()).or_insert(0u64) += 1;
                            assert!(v.engine.stats().discarded(why) > 0);
                            assert!(
                                !quiet || (state, frames) == (before, 0),
                                "{name}, bit {}: {why}, and yet something changed",
                                at - step
                            );
                        }
                        // A SACK or NACK may set off retransmissions; they are bounded by what is in flight.
                        assert!(frames <= 1 + IN_FLIGHT as usize);
                        if !quiet {
                            return at;
                        }
                    }
                    done = true;
                    at
                });
            }
        }
    }
    println!("{reasons:?}");
    for why in [
        Discard::L3Bad,
        Discard::L3Dst,
        Discard::L3Len,
        Discard::UdpBad,
        Discard::Short,
        Discard::Opcode,
        Discard::Tver,
        Discard::Icrc,
        Discard::Qpn,
        Discard::Pkey,
        Discard::Peer,
        Discard::Stranger,
        Discard::StalePsn,
        Discard::Syndrome,
        Discard::Nak,
    ] {
        assert!(reasons.contains_key(why.name()), "{why} was never reached");
    }
}

/// The victim has received four writes of one packet. The next one is like them, but for one thing; each such write is checked as if
/// it were the first.
//= VAL-016, VAL-017, LEN-003, LEN-005, IP6-004 test
#[test]
fn a_write_that_resembles_the_last_one_is_checked() {
    let write = |v: &Victim<'_>, opcode, dmalen, rkey: u32, len: usize| {
        let reth = RethRepr { va: REGION.va, rkey: Rkey(rkey), dmalen };
        let meth = MethRepr { rqmsn: Msn(0), msn: Msn(0) };
        let body = Body::Write { meth, tseth: Some(TsethRepr::ns128(5)), reth, imm: None };
        v.frame(PEER, opcode, Psn::new(FIRST).offset(3), &body, &vec![7; len])
    };
    let (mtu, len) = (u32::from(MTU), usize::from(MTU));
    for (opcode, dmalen, payload) in [
        (Opcode::WriteOnly, 2 * mtu, len),
        (Opcode::WriteOnly, mtu - 4, len),
        (Opcode::WriteOnly, mtu, len - 4),
        (Opcode::WriteFirst, mtu, len),
        (Opcode::WriteMiddle, mtu, len),
        (Opcode::WriteLast, mtu, len),
    ] {
        with(|v| {
            let bytes = write(v, opcode, dmalen, v.key, payload);
            assert_eq!(v.hear(&bytes), Err(Discard::Nak), "{opcode:?} with {payload} of {dmalen} bytes");
        });
    }
    with(|v| {
        let bytes = write(v, Opcode::WriteOnly, mtu, v.key ^ 0x100, len);
        assert_eq!(v.hear(&bytes), Err(Discard::Nak), "another key");
    });
    with(|v| {
        let mut bytes = write(v, Opcode::WriteOnly, mtu, v.key, len);
        // ECN of the only IPv6 header, which the ICRC does not cover.
        bytes[15] |= 0x30;
        assert!(matches!(v.hear(&bytes), Ok(Received::Place(_))));
        assert_eq!(v.engine.stats().rx_marked, 1);
    });
    // Behind a packet of a longer message, which ends where the region does: its key, its place and its length.
    let of = |v: &Victim<'_>, nth: i32, opcode, va: u64, len: usize| {
        let reth = RethRepr { va, rkey: Rkey(v.key), dmalen: 2 * mtu };
        let meth = MethRepr { rqmsn: Msn(0), msn: Msn(0) };
        let body = Body::Write { meth, tseth: Some(TsethRepr::ns128(5)), reth, imm: None };
        v.frame(PEER, opcode, Psn::new(FIRST).offset(nth), &body, &vec![7; len])
    };
    let end = REGION.va + REGION.len;
    for (first, next, va, payload, what) in [
        (
            (Opcode::WriteFirst, len),
            Opcode::WriteFirst,
            end - u64::from(mtu),
            len,
            "the message ends beyond the region",
        ),
        (
            (Opcode::WriteMiddle, len),
            Opcode::WriteFirst,
            end - u64::from(mtu),
            len,
            "the message ends beyond the region",
        ),
        ((Opcode::WriteMiddle, len), Opcode::WriteOnly, REGION.va, len, "a message of one packet has its length"),
        ((Opcode::WriteLast, len - 4), Opcode::WriteMiddle, REGION.va, len - 4, "only the last packet may be shorter"),
    ] {
        with(|v| {
            let bytes = of(v, 3, first.0, REGION.va, first.1);
            assert!(matches!(v.hear(&bytes), Ok(Received::Place(_))), "{what}");
            let bytes = of(v, 4, next, va, payload);
            assert_eq!(v.hear(&bytes), Err(Discard::Nak), "{what}");
        });
    }
}

//= SRX-001, CTL-001 test
/// The outermost destination is none of what writes share: each is looked at.
//= VAL-003 test
#[test]
fn a_write_like_the_last_one_for_somebody_else_is_refused() {
    with(|v| {
        let reth = RethRepr { va: REGION.va, rkey: Rkey(v.key), dmalen: u32::from(MTU) };
        let meth = MethRepr { rqmsn: Msn(0), msn: Msn(0) };
        let body = Body::Write { meth, tseth: Some(TsethRepr::ns128(5)), reth, imm: None };
        let Ip::V6(own) = address(VICTIM) else { panic!("IPv6") };
        let plain = Encap::plain([2; 6], [4; 6], address(PEER), address(VICTIM));
        let write = |qp: Qpn, nth: i32, dst: [u8; 16]| {
            let outer = Some(Outer { src: [9; 16], dst, srh: None });
            let template = FrameTemplate::new(&Encap { outer, ..plain }, &WireConfig::default());
            let meta = EmitMeta { ev: Ev(0), dscp: DscpPlan::default().trimmable, ecn: Ecn::Ect0, outer_dst: None };
            let psn = Psn::new(FIRST).offset(nth);
            let bth = BthRepr { ts: true, ..BthRepr::new(Opcode::WriteOnly, qp, psn) };
            let mut out = vec![0; 2_000];
            let len = template.emit_packet(&mut out, &meta, &bth, &body, &[7; MTU as usize]).unwrap();
            out.truncate(len);
            out
        };
        let qp = v.qp.qpn();
        for nth in [3, 4] {
            let taken = v.hear(&write(qp, nth, own));
            assert!(matches!(taken, Ok(Received::Place(_))), "{taken:?}");
        }
        v.sent();
        v.refuse(&write(qp, 6, [5; 16]), Discard::L3Dst);
    });
}

#[test]
fn acknowledgements_of_what_was_never_sent() {
    with(|v| {
        let last = Psn::new(FIRST).offset(IN_FLIGHT as i32 - 1);
        for beyond in [1, 2, 100, 1 << 12, 1 << 22] {
            let psn = last.offset(beyond);
            let sack = SackRepr { bitmap: u64::MAX, ..v.sack(psn) };
            let bytes = v.frame(PEER, Opcode::Sack, psn, &Body::Sack(sack), &[]);
            v.refuse(&bytes, Discard::StalePsn);
            let ack = Body::Ack(AethRepr { syndrome: Syndrome::Ack(31), msn: 0xFF_FFFF });
            let bytes = v.frame(PEER, Opcode::Ack, psn, &ack, &[]);
            v.refuse(&bytes, Discard::StalePsn);
            let nak = Body::Ack(AethRepr { syndrome: Syndrome::RemoteAccess, msn: 0 });
            let bytes = v.frame(PEER, Opcode::Ack, psn, &nak, &[]);
            v.refuse(&bytes, Discard::StalePsn);
            let bytes = v.nack(NackReason::UnexpEvent, psn, Ev(0));
            v.refuse(&bytes, Discard::StaleNack);
        }
        assert_eq!(v.engine.qp_info(v.qp).unwrap().state, QpState::Rts);
    });
}

/// The peer has acknowledged the first packets: a NAK that names one of them, or any PSN before them, comes late or from a
/// forger. Ten thousand of them leave the QP alone; one for a packet that still waits for its acknowledgement ends it.
//= CTL-003 test
#[test]
fn a_nak_for_what_the_peer_acknowledged_is_dropped() {
    with(|v| {
        let ack = Body::Ack(AethRepr { syndrome: Syndrome::Ack(31), msn: 0 });
        let acknowledged = Psn::new(FIRST).offset(2);
        let bytes = v.frame(PEER, Opcode::Ack, acknowledged, &ack, &[]);
        assert_eq!(v.hear(&bytes), Ok(Received::Nothing));
        v.sent();
        let naks =
            [Syndrome::InvalidRequest, Syndrome::RemoteAccess, Syndrome::RemoteOperational, Syndrome::Other(0x7F)];
        for behind in [0, 1, 2, 3, 100, 1 << 12, (1 << 22) - 1] {
            for syndrome in naks {
                let nak = Body::Ack(AethRepr { syndrome, msn: 0 });
                let bytes = v.frame(PEER, Opcode::Ack, acknowledged.offset(-behind), &nak, &[]);
                v.refuse(&bytes, Discard::StalePsn);
            }
        }
        assert_eq!(v.engine.qp_info(v.qp).unwrap().state, QpState::Rts);
        let nak = Body::Ack(AethRepr { syndrome: Syndrome::RemoteAccess, msn: 0 });
        let bytes = v.frame(PEER, Opcode::Ack, acknowledged.next(), &nak, &[]);
        assert_eq!(v.hear(&bytes), Ok(Received::Nothing));
        assert_eq!(v.engine.qp_info(v.qp).unwrap().state, QpState::Error);
    });
}

/// Bit 7 of a syndrome is reserved: what the others say counts. Bits 6:5 = 10 are neither an acknowledgement nor a NAK, and end
/// nothing.
//= AETH-001, AETH-002, AETH-003, AETH-007, AETH-009 test
#[test]
fn every_syndrome_is_one_kind_of_answer() {
    for byte in 0..=u8::MAX {
        with(|v| {
            let mut bytes = {
                let ack = Body::Ack(AethRepr { syndrome: Syndrome::ACK, msn: 0 });
                v.frame(PEER, Opcode::Ack, Psn::new(FIRST), &ack, &[])
            };
            bytes[14 + 40 + 8 + 12] = byte;
            sign(&mut bytes);
            let outstanding = v.engine.qp_info(v.qp).unwrap().outstanding;
            match byte & 0x7F {
                0x00..=0x1F => {
                    assert_eq!(v.hear(&bytes), Ok(Received::Nothing), "{byte:#x}");
                    assert_eq!(v.engine.qp_info(v.qp).unwrap().outstanding, outstanding - 1, "{byte:#x}");
                }
                0x20..=0x60 => v.refuse(&bytes, Discard::Syndrome),
                _ => {
                    assert_eq!(v.hear(&bytes), Ok(Received::Nothing), "{byte:#x}");
                    assert_eq!(v.engine.qp_info(v.qp).unwrap().state, QpState::Error, "{byte:#x}");
                }
            }
        });
    }
}

/// A bitmap that reaches past what was sent acknowledges what was sent, and nothing else.
//= SRX-002 test
#[test]
fn a_bitmap_past_the_end_is_cut() {
    with(|v| {
        let before = Psn::new(FIRST).offset(-1);
        let sack = SackRepr { bitmap: u64::MAX, sack_offset: 1, ..v.sack(before) };
        let bytes = v.frame(PEER, Opcode::Sack, before, &Body::Sack(sack), &[]);
        let _ = v.hear(&bytes);
        let info = v.engine.qp_info(v.qp).unwrap();
        assert_eq!(info.outstanding, IN_FLIGHT, "only the cumulative part moves the window");
        // What comes next is a new packet with the next number: nothing was skipped.
        let wr = SendWr { lkey: v.key, local_va: REGION.va, len: 10, rkey: Rkey(5), ..SendWr::default() };
        v.engine.post_send(v.now, v.qp, &wr).unwrap();
        v.sent();
        assert_eq!(v.engine.qp_info(v.qp).unwrap().outstanding, IN_FLIGHT + 1);
    });
}

/// A bitmap may begin below the cumulative PSN, as that of a peer which rounds its base down.
//= SETH-008 test
#[test]
fn a_bitmap_begins_where_its_offset_says() {
    for offset in -61..=2i16 {
        with(|v| {
            let first = Psn::new(FIRST);
            // Everything up to the first packet arrived, and the third one.
            let below = (1u64 << (1 - offset).max(0)) - 1;
            let sack = SackRepr { sack_offset: offset, bitmap: below | 1 << (2 - offset), ..v.sack(first) };
            // The same as the packet that triggered the SACK: no news.
            let again = SackRepr { offset_or_probe: 2, bitmap: 0, ..v.sack(first) };
            for sack in [sack, again] {
                let bytes = v.frame(PEER, Opcode::Sack, first, &Body::Sack(sack), &[]);
                assert_eq!(v.hear(&bytes), Ok(Received::Nothing));
                let load = v.engine.qp_info(v.qp).unwrap().load;
                assert_eq!(load.inflight_pkts, IN_FLIGHT - 2, "offset {offset}");
            }
        });
    }
}

/// A NACK names the path of the copy it refuses: ten thousand of the same repeat a packet once.
//= NACK-001 test
#[test]
fn a_storm_of_nacks_repeats_a_packet_once() {
    with(|v| {
        let psn = Psn::new(FIRST).offset(2);
        for uplink in 0..4 {
            for plane in 0..2 {
                let bytes = v.nack(NackReason::Trimmed, psn, Ev(plane << 8 | uplink));
                for _ in 0..1_000 {
                    let _ = v.hear(&bytes);
                    v.sent();
                }
            }
        }
        let stats = v.engine.stats();
        assert_eq!(stats.discarded(Discard::StaleNack) + stats.lost_nack, 8_000, "each NACK is counted");
        // Each path can be guessed once, then the packet is on another.
        assert!((1..=8).contains(&stats.retransmitted), "{} copies", stats.retransmitted);
        assert_eq!(stats.retransmitted, stats.lost_nack);
        assert_eq!(v.engine.qp_info(v.qp).unwrap().state, QpState::Rts);
    });
}

/// Probes at line rate, and a driver that polls late: one answer at most for each, and no more than the ring remembers.
#[test]
fn probes_at_line_rate() {
    with(|v| {
        for id in 0..1_000u16 {
            let bytes = v.probe(PEER, id);
            assert_eq!(v.hear(&bytes), Ok(Received::Nothing));
            let (frames, _) = v.sent();
            assert_eq!(frames, 1, "an answer each while we keep up");
        }
        for id in 0..10_000u16 {
            let bytes = v.probe(PEER, id);
            assert_eq!(v.hear(&bytes), Ok(Received::Nothing));
        }
        let (frames, _) = v.sent();
        assert!(frames <= 64, "{frames} answers from a ring of a few");
        assert!(v.engine.stats().answers_merged >= 10_000 - 64);
    });
}

/// Whoever is not the peer of a QP, or of this endpoint: nothing changes, nothing is answered, whatever is sent.
//= VAL-013, EPOP-004, IP6-007 test
#[test]
fn strangers_hear_nothing() {
    with(|v| {
        let ports = v.engine.peer_ports(v.peer);
        let (mut bytes_in, mut bytes_out) = (0, 0);
        for _ in 0..50 {
            for (name, bytes) in v.every_kind(STRANGER) {
                let why = if name.starts_with("endpoint") { Discard::Stranger } else { Discard::Peer };
                v.refuse(&bytes, why);
                bytes_in += bytes.len();
                if name.starts_with("write") {
                    v.refuse(&trim(bytes, 20), Discard::Peer);
                }
                bytes_out += v.sent().1;
            }
            for op in [EndpointOp::PortStatusUpdate, EndpointOp::EvProbe] {
                let bytes = v.request(STRANGER, 9, op, 0);
                v.refuse(&bytes, Discard::Stranger);
            }
        }
        assert!(bytes_out == 0 && bytes_in > 10_000);
        assert_eq!(v.engine.peer_ports(v.peer), ports);
    });
}

/// A burst of trimmed packets that fills the window, before anything can leave: each of them draws its NACK, with its own EV.
//= TRIM-006, NACK-001 test
#[test]
fn no_refusal_of_a_burst_is_forgotten() {
    with(|v| {
        let trimmed = 7..WINDOW as i32;
        for nth in trimmed.clone() {
            let mut bytes = trim(v.write(nth), 40);
            // Each on a path of its own: the EV is the UDP source port.
            bytes[54..56].copy_from_slice(&(nth as u16).to_be_bytes());
            assert_eq!(v.hear(&bytes), Ok(Received::Nothing));
        }
        let mut headers = [0; MAX_HEADER_LEN];
        let mut refused = Vec::new();
        while v.engine.poll_transmit(v.now, PortMask::ALL, &mut headers).is_some() {
            let nack = NackRepr::parse(headers[14 + 40 + 8 + 12..].first_chunk().unwrap());
            assert_eq!(nack.reason, NackReason::Trimmed);
            refused.push((nack.psn.diff(Psn::new(FIRST)), nack.entropy));
        }
        refused.sort_by_key(|&(nth, _)| nth);
        let sent: Vec<_> = trimmed.map(|nth| (nth, Ev(nth as u32))).collect();
        assert_eq!(refused, sent);
        assert_eq!(v.engine.stats().answers_merged, 0);
    });
}

/// A trimmed packet carries no ICRC, so nothing it says is believed but for one NACK or SACK.
//= TRIM-005, TRIM-006, TRIM-007, TRIM-008, TRIM-010 test
#[test]
fn trimmed_packets_with_lies() {
    with(|v| {
        // Far outside the window, and behind BTH only noise.
        for nth in [WINDOW as i32 + 10, 1 << 20, 1 << 22] {
            let bytes = trim(v.write(nth), 40);
            v.refuse(&bytes, Discard::Trimmed);
        }
        let mut bytes = trim(v.write(3), 40);
        bytes[14 + 40 + 8 + 12..].fill(0xFF);
        assert_eq!(v.hear(&bytes), Ok(Received::Nothing));
        let sent = v.answers();
        assert!(matches!(sent[..], [(Opcode::Nack, len)] if len <= bytes.len() + 40), "{sent:?} for {}", bytes.len());
        // It arrived before: a SACK, and still nothing is placed or forgotten.
        let (received, queued) = (v.engine.stats().rx_data, v.engine.qp_info(v.qp).unwrap().queued);
        let bytes = trim(v.write(1), 20);
        assert_eq!(v.hear(&bytes), Ok(Received::Nothing));
        let sent = v.answers();
        assert!(matches!(sent[..], [(Opcode::Sack, _)]), "{sent:?}");
        assert_eq!((v.engine.stats().rx_data, v.engine.qp_info(v.qp).unwrap().queued), (received, queued));
        // The gap that a forged trimmed packet named is still open for the real one.
        let bytes = v.write(3);
        assert!(matches!(v.hear(&bytes), Ok(Received::Place(_))));
        // In the colours of a trimmed packet, but a SACK.
        let bytes = v.frame(PEER, Opcode::Sack, Psn::new(FIRST), &Body::Sack(v.sack(Psn::new(FIRST))), &[]);
        let bytes = trim(bytes, 40);
        v.sent();
        v.refuse(&bytes, Discard::Opcode);
    });
}

/// Every distance in the circle of PSNs: only what is new and inside the window is placed, once. Packets of the last
/// turn of the circle are either behind the window or ahead of it.
//= RSP-006, INV-007 test
#[test]
fn replays_from_another_turn_of_the_circle() {
    with(|v| {
        let seen = [0, 1, 2, 5];
        // PSNs 0 to 2 arrived in order: the window starts behind them.
        let new = |nth: i32| (3..=2 + WINDOW as i32).contains(&nth) && !seen.contains(&nth);
        let steps = (0..23).flat_map(|bit| [-1, 0, 1].map(|by| (1i32 << bit) + by));
        let mut distances: Vec<i32> = steps.flat_map(|n| [n, -n]).chain([-(1 << 23) + 3, 130, 131, 4, 7]).collect();
        // Packet 3 would move the window.
        distances.retain(|&nth| nth != 3);
        distances.sort_unstable();
        distances.dedup();
        let mut taken = vec![];
        for nth in distances {
            let bytes = v.write(nth);
            let heard = v.hear(&bytes);
            if new(nth) && !taken.contains(&nth) {
                assert!(matches!(heard, Ok(Received::Place(_))), "PSN {nth}: {heard:?}");
                taken.push(nth);
            } else if nth > 2 + WINDOW as i32 {
                assert_eq!(heard, Err(Discard::OutOfWindow), "PSN {nth}");
            } else {
                assert_eq!(heard, Err(Discard::Duplicate), "PSN {nth}");
            }
            assert!(v.sent().0 <= 2, "a SACK or NACK, and a Transport ACK");
            // The same packet once more is never placed.
            assert!(matches!(v.hear(&bytes), Err(Discard::Duplicate | Discard::OutOfWindow)));
            v.sent();
        }
        assert!(taken.len() > 10);
    });
}

/// Frames in every state of a QP: before RTR nothing is taken, in RTR only what a responder takes, in ERROR nothing.
//= VAL-014, QP-002 test
#[test]
fn every_kind_in_every_state() {
    for state in [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Error] {
        for kind in 0..6 {
            with(|v| {
                match state {
                    QpState::Error => v.engine.modify_to_error(v.now, v.qp).unwrap(),
                    _ => v.engine.modify_to_reset(v.qp).unwrap(),
                }
                if matches!(state, QpState::Init | QpState::Rtr) {
                    v.engine.modify_to_init(v.qp).unwrap();
                }
                if state == QpState::Rtr {
                    let profile = mrc_core::EvProfileHandle::from_index(0);
                    let rtr = RtrAttr {
                        path_mtu: MTU,
                        mpr_dest: 1,
                        max_wimm_dest: 4,
                        ..RtrAttr::software(v.peer, Qpn::new(PEER_QP), Psn::new(FIRST), profile)
                    };
                    v.engine.modify_to_rtr(v.now, v.qp, &rtr).unwrap();
                }
                v.sent();
                let (name, bytes) = v.every_kind(PEER).swap_remove(kind);
                let responder = name.starts_with("write") || name == "probe";
                if state == QpState::Rtr && responder {
                    assert!(v.hear(&bytes).is_ok(), "{name} in RTR");
                } else {
                    v.refuse(&bytes, Discard::State);
                }
            });
        }
    }
}
