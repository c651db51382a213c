//! Frames that nobody should send: forged, replayed, out of range, at line rate. What fails validation is counted and
//! changes nothing; what passes draws at most one frame; a stranger draws none.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher as _};

use mrc_core::cc::{CcConfig, NsccConfig};
use mrc_core::path::{EvEntry, compact_profile};
use mrc_core::{
    Access, CqHandle, Discard, Endpoint, EndpointConfig, IcrcCheck, Instant, Limits, MAX_HEADER_LEN, MAX_PORTS,
    MemRange, OwnedStorage, Pd, PeerConfig, PeerHandle, PlanePath, PortConfig, PortMask, QpHandle, QpInit, QpState,
    Received, Route, RtrAttr, RtsAttr, RxMeta, SendWr,
};
use mrc_wire::{
    AethRepr, Body, BthRepr, DscpPlan, Ecn, EmitMeta, Encap, EndpointOp, EndpointRequestRepr, EndpointResponseRepr, Ev,
    FrameTemplate, Ip, MethRepr, Msn, NackReason, NackRepr, Opcode, Outer, PortNum, ProbeRepr, Psn, Qpn, RethRepr,
    Rkey, SackRepr, Syndrome, TsethRepr, Verdict, WireConfig, icrc,
};

const PORT: PortNum = PortNum::from_plane(0);
const REGION: MemRange = MemRange { va: 0x10_0000, len: 1 << 16 };
const MTU: u16 = 256;
/// The victim's window, in packets.
const WINDOW: u32 = 128;
/// First PSN in both directions: the numbers wrap within a window.
const FIRST: u32 = 0xFF_FFF0;
/// Packets of the victim in flight, the first one lost from our point of view.
const IN_FLIGHT: u32 = 8;
const PEER_QP: u32 = 77;

fn address(last: u8) -> Ip {
    let mut ip = [0xFD; 16];
    ip[15] = last;
    Ip::V6(ip)
}

const VICTIM: u8 = 0;
const PEER: u8 = 1;
const STRANGER: u8 = 99;

/// An engine in the middle of its work: packets in flight, some received with a gap, answers given.
struct Victim<'s> {
    engine: Endpoint<'s>,
    qp: QpHandle,
    peer: PeerHandle,
    cq: CqHandle,
    key: u32,
    now: Instant,
}

fn limits() -> Limits {
    Limits {
        qps: 1,
        mpr: 1,
        send_queue: 4,
        recv_queue: 4,
        wimm: 4,
        evs: 8,
        active_evs: 8,
        cqs: 1,
        cq_depth: 4,
        mrs: 1,
        peers: 1,
        ev_profiles: 1,
        profile_evs: 8,
        events: 4,
        ..Limits::default()
    }
}

fn victim(storage: &mut OwnedStorage, cc: Option<CcConfig>, begins: u64) -> Victim<'_> {
    let mut cfg = EndpointConfig { port_update_on_rts: false, ..EndpointConfig::default() };
    cfg.cc = cc.unwrap_or(cfg.cc);
    cfg.gids[0] = Some(address(VICTIM));
    for port in cfg.ports.iter_mut().take(2) {
        *port = Some(PortConfig { mac: [2; 6], sid: None, addr: None });
    }
    let mut engine = Endpoint::new(cfg, storage.lend(), 3).unwrap();
    let mr = engine.register_mr(Pd(0), REGION, Access::REMOTE_WRITE).unwrap();
    let key = engine.key(mr).unwrap().0;
    let cq = engine.create_cq().unwrap();
    let qp = engine.create_qp(&QpInit { pd: Pd(0), send_cq: cq, recv_cq: cq }).unwrap();
    let mut planes = [None; MAX_PORTS];
    for plane in planes.iter_mut().take(2) {
        *plane = Some(PlanePath { next_hop: [4; 6], outer_src: None });
    }
    let (local, remote) = (address(VICTIM), address(PEER));
    let peer = engine.add_peer(&PeerConfig { local, remote, planes, route: Route::Plain, hop_limit: 64 }).unwrap();
    let mut entries = [EvEntry::new(Ev(0), PORT); 8];
    compact_profile(&mut entries, 2, 4, 8).unwrap();
    let ev_profile = engine.create_ev_profile(&entries).unwrap();
    engine.modify_to_init(qp).unwrap();
    let rtr = RtrAttr {
        path_mtu: MTU,
        mpr_dest: 1,
        max_wimm_dest: 4,
        ..RtrAttr::software(peer, Qpn::new(PEER_QP), Psn::new(FIRST), ev_profile)
    };
    engine.modify_to_rtr(Instant::ZERO, qp, &rtr).unwrap();
    let mut rts = RtsAttr::software(Psn::new(FIRST));
    rts.mpr = 1;
    engine.modify_to_rts(Instant::ZERO, qp, &rts).unwrap();
    let mut victim = Victim { engine, qp, peer, cq, key, now: Instant::from_nanos(begins) };
    let wr = SendWr {
        lkey: key,
        local_va: REGION.va,
        len: u32::from(MTU) * IN_FLIGHT,
        remote_va: 0,
        rkey: Rkey(5),
        signaled: true,
        ..SendWr::default()
    };
    victim.engine.post_send(victim.now, qp, &wr).unwrap();
    assert_eq!(victim.sent().0, IN_FLIGHT as usize);
    for psn in [0, 1, 2, 5] {
        let bytes = victim.write(psn);
        assert!(matches!(victim.hear(&bytes), Ok(Received::Place(_))));
    }
    victim.sent();
    // Whatever is noted with a time differs from now on.
    victim.now = victim.now.after(10_000);
    victim
}

impl Victim<'_> {
    /// Everything the engine knows, but for its counters.
    fn state(&self) -> u64 {
        let all = format!("{:?}", self.engine);
        let from = all.find(" stats: Stats {").expect("the counters");
        let to = from + all[from..].find(" qps: [").expect("what follows them");
        let mut digest = DefaultHasher::new();
        digest.write(&all.as_bytes()[..from]);
        digest.write(&all.as_bytes()[to..]);
        digest.finish()
    }

    fn hear(&mut self, bytes: &[u8]) -> Result<Received, Discard> {
        let meta = RxMeta { port: PORT, wire_len: bytes.len(), icrc: IcrcCheck::Verify };
        self.engine.handle_packet(self.now, meta, bytes)
    }

    /// Frames and bytes that leave now.
    fn sent(&mut self) -> (usize, usize) {
        let mut headers = [0; MAX_HEADER_LEN];
        let (mut frames, mut bytes) = (0, 0);
        while let Some(tx) = self.engine.poll_transmit(self.now, PortMask::ALL, &mut headers) {
            frames += 1;
            bytes += tx.frame_len();
        }
        (frames, bytes)
    }

    /// As [`Victim::hear`] for a frame that must be refused: counted under its name, without effect, without an answer.
    fn refuse(&mut self, bytes: &[u8], why: Discard) {
        let (state, count) = (self.state(), self.engine.stats().discarded(why));
        assert_eq!(self.hear(bytes), Err(why));
        assert_eq!(self.engine.stats().discarded(why), count + 1);
        assert_eq!(self.state(), state, "{why}: refused, and yet something changed");
        assert_eq!(self.sent(), (0, 0));
    }

    /// A packet of one write, `nth` after the first PSN.
    fn write(&self, nth: i32) -> Vec<u8> {
        let reth = RethRepr { va: REGION.va, rkey: Rkey(self.key), dmalen: u32::from(MTU) };
        let meth = MethRepr { rqmsn: Msn(0), msn: Msn(0) };
        let body = Body::Write { meth, tseth: Some(TsethRepr::ns128(5)), reth, imm: None };
        self.frame(PEER, Opcode::WriteOnly, Psn::new(FIRST).offset(nth), &body, &[7; MTU as usize])
    }

    fn sack(&self, cack: Psn) -> SackRepr {
        SackRepr {
            verdict: Verdict::None,
            probe_answer: false,
            offset_or_probe: 0,
            entropy: Ev(0),
            spdcid: 0,
            dpdcid: 0,
            cack,
            cc_type: 0,
            mpr: 0,
            sack_offset: 1,
            bitmap: 0,
            timestamp: 0,
            ooo_count: 0,
            restore_cwnd: false,
            rcv_cwnd_pen: 0,
            rcvd_bytes: 0,
        }
    }

    fn nack(&self, reason: NackReason, psn: Psn, entropy: Ev) -> Vec<u8> {
        let nack = NackRepr { reason, vendor_info: 0, entropy, spdcid: 0, dpdcid: 0, psn, cc_type: 0, timestamp: 0 };
        self.frame(PEER, Opcode::Nack, psn, &Body::Nack(nack), &[])
    }

    fn probe(&self, src: u8, id: u16) -> Vec<u8> {
        let tseth = TsethRepr::ns128(9);
        let probe = ProbeRepr { probe_id: id, vendor_info: 0, spdcid: 0, dpdcid: 0, tseth };
        self.frame(src, Opcode::Probe, Psn::new(0), &Body::Probe(probe), &[])
    }

    fn request(&self, src: u8, id: u32, op: EndpointOp, mask: u32) -> Vec<u8> {
        let request = EndpointRequestRepr { op, vendor_info: 0, port_status_mask: mask, tseth: TsethRepr::ns128(3) };
        self.frame(src, Opcode::EndpointRequest, Psn::new(id), &Body::EndpointRequest(request), &[])
    }

    fn frame(&self, src: u8, opcode: Opcode, psn: Psn, body: &Body, payload: &[u8]) -> Vec<u8> {
        let endpoint = matches!(body, Body::EndpointRequest(_) | Body::EndpointResponse(_));
        let dest_qp = if endpoint { Qpn::ENDPOINT } else { self.qp.qpn() };
        let encap = Encap::plain([2; 6], [4; 6], address(src), address(VICTIM));
        let template = FrameTemplate::new(&encap, &WireConfig::default());
        let meta = EmitMeta { ev: Ev(0), dscp: DscpPlan::default().trimmable, ecn: Ecn::Ect0, outer_dst: None };
        let ts = matches!(body, Body::Write { tseth: Some(_), .. });
        let bth = BthRepr { opcode, se: false, pad: 0, pkey: 0xFFFF, dest_qp, ack_req: false, rtx: false, ts, psn };
        let mut out = vec![0; 2_000];
        let len = template.emit_packet(&mut out, &meta, &bth, body, payload).unwrap();
        out.truncate(len);
        out
    }

    /// One valid frame of each kind, with its name.
    fn every_kind(&self, src: u8) -> Vec<(&'static str, Vec<u8>)> {
        let psn = |nth| Psn::new(FIRST).offset(nth);
        let reth = RethRepr { va: REGION.va, rkey: Rkey(self.key), dmalen: u32::from(MTU) };
        let meth = MethRepr { rqmsn: Msn(0), msn: Msn(0) };
        let write = |imm| Body::Write { meth, tseth: Some(TsethRepr::ns128(5)), reth, imm };
        let payload = [7; MTU as usize];
        let nack = NackRepr {
            reason: NackReason::Trimmed,
            vendor_info: 0,
            entropy: Ev(0),
            spdcid: 0,
            dpdcid: 0,
            psn: psn(1),
            cc_type: 0,
            timestamp: 0,
        };
        let aeth = AethRepr { syndrome: Syndrome::Ack(31), msn: 0 };
        let response = EndpointResponseRepr { op: EndpointOp::EvProbe, timestamp: 3 };
        vec![
            ("write", self.frame(src, Opcode::WriteOnly, psn(3), &write(None), &payload)),
            ("write with immediate", self.frame(src, Opcode::WriteOnlyImm, psn(3), &write(Some(1)), &payload)),
            ("sack", self.frame(src, Opcode::Sack, psn(0), &Body::Sack(self.sack(psn(0))), &[])),
            ("nack", self.frame(src, Opcode::Nack, psn(1), &Body::Nack(nack), &[])),
            ("ack", self.frame(src, Opcode::Ack, psn(0), &Body::Ack(aeth), &[])),
            ("probe", self.probe(src, 4)),
            ("endpoint request", self.request(src, 1, EndpointOp::PortStatusUpdate, 2)),
            (
                "endpoint response",
                self.frame(src, Opcode::EndpointResponse, psn(0), &Body::EndpointResponse(response), &[]),
            ),
        ]
    }
}

/// `f` with a fresh victim.
fn with<R>(f: impl FnOnce(&mut Victim<'_>) -> R) -> R {
    with_cc(None, 1_000, f)
}

/// `f` with a victim of this congestion control, which sends at `begins`.
fn with_cc<R>(cc: Option<CcConfig>, begins: u64, f: impl FnOnce(&mut Victim<'_>) -> R) -> R {
    let mut storage = OwnedStorage::new(limits()).unwrap();
    f(&mut victim(&mut storage, cc, begins))
}

/// Puts the right ICRC behind what was changed, as a forger would.
fn sign(bytes: &mut [u8]) {
    let end = bytes.len() - icrc::LEN;
    if let Some(sum) = icrc::compute(&bytes[14..end]) {
        bytes[end..].copy_from_slice(&sum);
    }
}

/// As a switch trims: 20 bytes behind UDP stay, the code point changes.
fn trim(mut bytes: Vec<u8>, keep: usize) -> Vec<u8> {
    bytes.truncate(14 + 40 + 8 + keep);
    let dscp = DscpPlan::default().trimmed;
    bytes[14] = 0x60 | dscp >> 2;
    bytes[15] = dscp << 6 | bytes[15] & 0x3F;
    bytes
}

/// Reasons found before the packet concerns a QP, or found by the part that it would have concerned.
fn without_effect(why: Discard) -> bool {
    use Discard::*;
    let with_effect = [Duplicate, OutOfWindow, Nak, StaleProbe, StaleNack];
    !with_effect.contains(&why)
}

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
        let (frames, len) = v.sent();
        assert_eq!(frames, 1, "one NACK");
        assert!(len <= bytes.len() + 40, "{len} bytes for {}", bytes.len());
        // It arrived before: a SACK, and still nothing is placed or forgotten.
        let (received, queued) = (v.engine.stats().rx_data, v.engine.qp_info(v.qp).unwrap().queued);
        let bytes = trim(v.write(1), 20);
        assert_eq!(v.hear(&bytes), Ok(Received::Nothing));
        assert_eq!(v.sent().0, 1);
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

/// A SACK of the peer for `cack`, triggered by a packet `trigger` behind it, with the count of bytes received.
fn report(v: &Victim<'_>, cack: Psn, trigger: i16, rcvd_bytes: u32) -> Vec<u8> {
    let sack = SackRepr { offset_or_probe: trigger.cast_unsigned(), rcvd_bytes, ..v.sack(cack) };
    v.frame(PEER, Opcode::Sack, cack, &Body::Sack(sack), &[])
}

/// A SACK that names as its trigger a packet that was never sent, or one so old that its record is another's, tells nothing of any
/// packet: not that it arrived, and not how long it took.
//= SRX-002, RTT-001 test
#[test]
fn a_trigger_of_which_nothing_is_known_says_nothing() {
    let after = |trigger: i16| {
        with(|v| {
            let bytes = report(v, Psn::new(FIRST), trigger, 0);
            assert_eq!(v.hear(&bytes), Ok(Received::Nothing));
            (v.state(), v.engine.qp_info(v.qp).unwrap().srtt_ns)
        })
    };
    // Packet 0 is acknowledged, packet 7 the last one sent: 121 to 128 have the records of 1 to 7.
    let silent = after(8);
    for trigger in [9, 10, 100, 120, 121, 122, 125, 128, 129, 500, i16::MAX, 7 - 128, 7 - 129, -500, i16::MIN] {
        assert_eq!(after(trigger), silent, "trigger {trigger}");
    }
    for trigger in [0, 1, 4, 7] {
        assert_ne!(after(trigger).1, silent.1, "trigger {trigger} was timed");
    }
}

/// Control packets of another turn of the circle end where the recent past of the connection begins.
//= SRX-001, TACK-001 test
#[test]
fn the_recent_past_has_an_end() {
    const PAST: i32 = 1 << 22;
    with(|v| {
        let unack = Psn::new(FIRST).offset(-1);
        let ack = |v: &Victim<'_>, behind: i32| {
            let ack = Body::Ack(AethRepr { syndrome: Syndrome::Ack(31), msn: 0 });
            v.frame(PEER, Opcode::Ack, unack.offset(-behind), &ack, &[])
        };
        for behind in [PAST, PAST + 1] {
            let bytes = report(v, unack.offset(-behind), 0, 0);
            v.refuse(&bytes, Discard::StalePsn);
            let bytes = ack(v, behind);
            v.refuse(&bytes, Discard::StalePsn);
        }
        let bytes = report(v, unack.offset(-(PAST - 1)), 0, 0);
        assert_eq!(v.hear(&bytes), Ok(Received::Nothing));
        let bytes = ack(v, PAST - 1);
        assert_eq!(v.hear(&bytes), Ok(Received::Nothing));
    });
}

/// The peer counts more bytes than there are, and then the truth, which is less: that is understood, too, and what counts as in
/// flight is what is, but for the rounding of its counts to 256 bytes.
//= SRX-005, SRX-009 test
#[test]
fn a_true_count_is_understood_after_a_false_one() {
    for lie in [0x20, 0x100, 0x7F_FFFF] {
        with(|v| {
            let inflight = |v: &Victim<'_>| v.engine.qpcc_info(v.qp).unwrap().inflight_bytes;
            let each = inflight(v) / i64::from(IN_FLIGHT);
            let units = |packets: i64| ((packets * each + 255) / 256) as u32;
            let first = Psn::new(FIRST);
            let bytes = report(v, first, 0, lie);
            assert_eq!(v.hear(&bytes), Ok(Received::Nothing));
            assert!((-255..=0).contains(&inflight(v)), "no more than there is: {}", inflight(v));
            for turn in 1..=8 {
                let wr =
                    SendWr { lkey: v.key, local_va: REGION.va, len: MTU.into(), rkey: Rkey(5), ..SendWr::default() };
                if v.engine.post_send(v.now, v.qp, &wr).is_err() {
                    break;
                }
                v.sent();
                // All but the last packet have arrived.
                let arrived = i64::from(IN_FLIGHT) + turn - 1;
                let bytes = report(v, first.offset(arrived as i32 - 1), 0, units(arrived));
                assert_eq!(v.hear(&bytes), Ok(Received::Nothing));
                assert!(inflight(v).abs_diff(each) <= 255, "lie {lie:#x}, turn {turn}: {} of {each}", inflight(v));
                let ack = Body::Ack(AethRepr { syndrome: Syndrome::Ack(31), msn: 0 });
                let bytes = v.frame(PEER, Opcode::Ack, first.offset(arrived as i32 - 1), &ack, &[]);
                assert_eq!(v.hear(&bytes), Ok(Received::Nothing));
                while v.engine.poll_completion(v.cq).is_some() {}
            }
        });
    }
}

/// A packet that was trimmed at the last hop met congestion as any trimmed one did, but no path is to blame. A refusal for other
/// reasons is neither.
//= NACK-002, NACK-003 test
#[test]
fn a_trim_at_the_last_hop_is_congestion_of_no_path() {
    let nscc = NsccConfig { avg_weight_q16: 1 << 14, ..NsccConfig::new(100_000_000_000, 10_000, true) };
    let after = |reason: NackReason| {
        with_cc(Some(CcConfig::Nscc(nscc)), 1_000, |v| {
            // On which path the packet was it does not tell: one of the eight is right.
            for ev in (0..4).flat_map(|uplink| [uplink, 1 << 8 | uplink]) {
                let bytes = v.nack(reason, Psn::new(FIRST).offset(2), Ev(ev));
                let _ = v.hear(&bytes);
            }
            (v.engine.qpcc_info(v.qp).unwrap().avg_delay_ns, v.engine.qp_info(v.qp).unwrap().evs.skip)
        })
    };
    let trimmed = after(NackReason::Trimmed);
    assert!(trimmed.0 > 0 && trimmed.1 > 0, "{trimmed:?}");
    assert_eq!(after(NackReason::TrimmedLastHop), (trimmed.0, 0));
    assert_eq!(after(NackReason::PsnOorWindow), (0, 0));
}

/// The timestamp that comes back tells how long the responder let a packet wait. None, one of a packet that left longer ago than the
/// field reaches, and one that claims more than the whole time, say nothing.
//= RTT-001, TS-002 test
#[test]
fn a_round_trip_is_without_what_the_responder_waited() {
    const REACH: u64 = 8_000_000;
    let measured = |sent: u64, elapsed: u64, timestamp: fn(u64) -> u16| {
        with_cc(None, sent, |v| {
            v.now = Instant::from_nanos(sent + elapsed);
            let before = v.engine.qp_info(v.qp).unwrap().srtt_ns;
            let sack = SackRepr { timestamp: timestamp(sent), ..v.sack(Psn::new(FIRST)) };
            let bytes = v.frame(PEER, Opcode::Sack, sack.cack, &Body::Sack(sack), &[]);
            assert_eq!(v.hear(&bytes), Ok(Received::Nothing));
            let after = v.engine.qp_info(v.qp).unwrap().srtt_ns;
            (after - (before - before / 8)) * 8
        })
    };
    // Time goes in steps of 128 ns; the second packet leaves 768 ns before their 16 bits are all zero again.
    let near = |elapsed, timestamp: fn(u64) -> u16, want: u64| {
        for sent in [1_000, (128 << 16) - 768] {
            let rtt = measured(sent, elapsed, timestamp);
            assert!(rtt.abs_diff(want) <= 24, "{rtt} of {want} ns, sent at {sent}");
        }
    };
    let waited: fn(u64) -> u16 = |sent| (sent / 128 + 100) as u16;
    near(1_000_000, |sent| (sent / 128) as u16, 1_000_000);
    near(1_000_000, waited, 1_000_000 - 12_800);
    near(1_000_000, |_| 0, 1_000_000);
    near(12_800, waited, 12_800);
    near(REACH - 16, waited, REACH - 16 - 12_800);
    near(REACH + 16, waited, REACH + 16);
}
