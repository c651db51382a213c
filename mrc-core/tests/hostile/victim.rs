//! An engine in the middle of its work, and the frames one may send to it.

use std::hash::{DefaultHasher, Hasher as _};

use mrc_core::cc::CcConfig;
use mrc_core::path::{EvEntry, compact_profile};
use mrc_core::{
    Access, CqHandle, Discard, Endpoint, EndpointConfig, IcrcCheck, Instant, Limits, MAX_HEADER_LEN, MAX_PORTS,
    MemRange, OwnedStorage, Pd, PeerConfig, PeerHandle, PlanePath, PortConfig, PortMask, QpHandle, QpInit, Received,
    Route, RtrAttr, RtsAttr, RxMeta, SendWr,
};
use mrc_wire::{
    AethRepr, Body, BthRepr, DscpPlan, Ecn, EmitMeta, Encap, EndpointOp, EndpointRequestRepr, EndpointResponseRepr, Ev,
    FrameTemplate, Ip, MethRepr, Msn, NackReason, NackRepr, Opcode, PortNum, ProbeRepr, Psn, Qpn, RethRepr, Rkey,
    SackRepr, Syndrome, TsethRepr, Verdict, WireConfig, icrc,
};

pub(crate) const PORT: PortNum = PortNum::from_plane(0);
pub(crate) const REGION: MemRange = MemRange { va: 0x10_0000, len: 1 << 16 };
pub(crate) const MTU: u16 = 256;
/// The victim's window, in packets.
pub(crate) const WINDOW: u32 = 128;
/// First PSN in both directions: the numbers wrap within a window.
pub(crate) const FIRST: u32 = 0xFF_FFF0;
/// Packets of the victim in flight, the first one lost from our point of view.
pub(crate) const IN_FLIGHT: u32 = 8;
pub(crate) const PEER_QP: u32 = 77;

pub(crate) fn address(last: u8) -> Ip {
    let mut ip = [0xFD; 16];
    ip[15] = last;
    Ip::V6(ip)
}

pub(crate) const VICTIM: u8 = 0;
pub(crate) const PEER: u8 = 1;
pub(crate) const STRANGER: u8 = 99;

/// An engine in the middle of its work: packets in flight, some received with a gap, answers given.
pub(crate) struct Victim<'s> {
    pub(crate) engine: Endpoint<'s>,
    pub(crate) qp: QpHandle,
    pub(crate) peer: PeerHandle,
    pub(crate) cq: CqHandle,
    pub(crate) key: u32,
    pub(crate) now: Instant,
}

pub(crate) fn limits() -> Limits {
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

pub(crate) fn victim(storage: &mut OwnedStorage, cc: Option<CcConfig>, begins: u64) -> Victim<'_> {
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
    pub(crate) fn state(&self) -> u64 {
        let all = format!("{:?}", self.engine);
        let from = all.find(" stats: Stats {").expect("the counters");
        let to = from + all[from..].find(" qps: [").expect("what follows them");
        let mut digest = DefaultHasher::new();
        digest.write(&all.as_bytes()[..from]);
        digest.write(&all.as_bytes()[to..]);
        digest.finish()
    }

    pub(crate) fn hear(&mut self, bytes: &[u8]) -> Result<Received, Discard> {
        let meta = RxMeta { port: PORT, wire_len: bytes.len(), icrc: IcrcCheck::Verify };
        self.engine.handle_packet(self.now, meta, bytes)
    }

    /// Frames and bytes that leave now.
    pub(crate) fn sent(&mut self) -> (usize, usize) {
        let sent = self.answers();
        (sent.len(), sent.iter().map(|&(_, len)| len).sum())
    }

    /// All that it has to send now: of each frame the opcode, and its bytes.
    pub(crate) fn answers(&mut self) -> Vec<(Opcode, usize)> {
        let (mut headers, mut sent) = ([0; MAX_HEADER_LEN], Vec::new());
        while let Some(tx) = self.engine.poll_transmit(self.now, PortMask::ALL, &mut headers) {
            sent.push((Opcode::from_u8(headers[14 + 40 + 8]), tx.frame_len()));
        }
        sent
    }

    /// As [`Victim::hear`] for a frame that must be refused: counted under its name, without effect, without an answer.
    pub(crate) fn refuse(&mut self, bytes: &[u8], why: Discard) {
        let (state, count) = (self.state(), self.engine.stats().discarded(why));
        assert_eq!(self.hear(bytes), Err(why));
        assert_eq!(self.engine.stats().discarded(why), count + 1);
        assert_eq!(self.state(), state, "{why}: refused, and yet something changed");
        assert_eq!(self.sent(), (0, 0));
    }

    /// A packet of one write, `nth` after the first PSN.
    pub(crate) fn write(&self, nth: i32) -> Vec<u8> {
        let reth = RethRepr { va: REGION.va, rkey: Rkey(self.key), dmalen: u32::from(MTU) };
        let meth = MethRepr { rqmsn: Msn(0), msn: Msn(0) };
        let body = Body::Write { meth, tseth: Some(TsethRepr::ns128(5)), reth, imm: None };
        self.frame(PEER, Opcode::WriteOnly, Psn::new(FIRST).offset(nth), &body, &[7; MTU as usize])
    }

    pub(crate) fn sack(&self, cack: Psn) -> SackRepr {
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

    pub(crate) fn nack(&self, reason: NackReason, psn: Psn, entropy: Ev) -> Vec<u8> {
        let nack = NackRepr { reason, vendor_info: 0, entropy, spdcid: 0, dpdcid: 0, psn, cc_type: 0, timestamp: 0 };
        self.frame(PEER, Opcode::Nack, psn, &Body::Nack(nack), &[])
    }

    pub(crate) fn probe(&self, src: u8, id: u16) -> Vec<u8> {
        let tseth = TsethRepr::ns128(9);
        let probe = ProbeRepr { probe_id: id, vendor_info: 0, spdcid: 0, dpdcid: 0, tseth };
        self.frame(src, Opcode::Probe, Psn::new(0), &Body::Probe(probe), &[])
    }

    pub(crate) fn request(&self, src: u8, id: u32, op: EndpointOp, mask: u32) -> Vec<u8> {
        let request = EndpointRequestRepr { op, vendor_info: 0, port_status_mask: mask, tseth: TsethRepr::ns128(3) };
        self.frame(src, Opcode::EndpointRequest, Psn::new(id), &Body::EndpointRequest(request), &[])
    }

    pub(crate) fn frame(&self, src: u8, opcode: Opcode, psn: Psn, body: &Body, payload: &[u8]) -> Vec<u8> {
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
    pub(crate) fn every_kind(&self, src: u8) -> Vec<(&'static str, Vec<u8>)> {
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
pub(crate) fn with<R>(f: impl FnOnce(&mut Victim<'_>) -> R) -> R {
    with_cc(None, 1_000, f)
}

/// `f` with a victim of this congestion control, which sends at `begins`.
pub(crate) fn with_cc<R>(cc: Option<CcConfig>, begins: u64, f: impl FnOnce(&mut Victim<'_>) -> R) -> R {
    let mut storage = OwnedStorage::new(limits()).unwrap();
    f(&mut victim(&mut storage, cc, begins))
}

/// Puts the right ICRC behind what was changed, as a forger would.
pub(crate) fn sign(bytes: &mut [u8]) {
    let end = bytes.len() - icrc::LEN;
    if let Some(sum) = icrc::compute(&bytes[14..end]) {
        bytes[end..].copy_from_slice(&sum);
    }
}

/// As a switch trims: 20 bytes behind UDP stay, the code point changes.
pub(crate) fn trim(mut bytes: Vec<u8>, keep: usize) -> Vec<u8> {
    bytes.truncate(14 + 40 + 8 + keep);
    let dscp = DscpPlan::default().trimmed;
    bytes[14] = 0x60 | dscp >> 2;
    bytes[15] = dscp << 6 | bytes[15] & 0x3F;
    bytes
}

/// Reasons found before the packet concerns a QP, or found by the part that it would have concerned.
pub(crate) fn without_effect(why: Discard) -> bool {
    use Discard::*;
    let with_effect = [Duplicate, OutOfWindow, Nak, StaleProbe, StaleNack];
    !with_effect.contains(&why)
}
