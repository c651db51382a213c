//! Bodies of the fuzz targets that need a connected engine.

use mrc_core::path::{EvEntry, compact_profile};
use mrc_core::{
    Access, CqHandle, Discard, Endpoint, EndpointConfig, FrameSource, IcrcCheck, Instant, Limits, MAX_HEADER_LEN,
    MAX_PORTS, MemRange, OwnedStorage, Pd, PeerConfig, PlanePath, PortConfig, PortMask, QpHandle, QpInit, QpState,
    Received, Route, RtrAttr, RtsAttr, RxMeta, SendWr,
};
use mrc_wire::{Ev, Ip, PortNum, Psn, Qpn};

const OURS: [u8; 16] = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const THEIRS: [u8; 16] = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
const REGION: MemRange = MemRange { va: 0x10_0000, len: 1 << 16 };
const FIRST_PSN: u32 = 0xFF_FFF0;
/// Opcodes of the protocol, so that a byte picks one.
const OPCODES: [u8; 12] = [0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xCB, 0xD1, 0xD8, 0xD9, 0xDC, 0xDD, 0xDE];

/// `data` is a script: frames of any content, frames with a plausible start, posts, and time.
pub fn engine_rx(data: &[u8]) {
    let limits =
        Limits { qps: 2, mpr: 1, send_queue: 8, evs: 8, active_evs: 8, events: 8, cq_depth: 4, ..Limits::default() };
    let mut storage = OwnedStorage::new(limits).expect("limits");
    let mut cfg = EndpointConfig::default();
    cfg.gids[0] = Some(Ip::V6(OURS));
    for port in cfg.ports.iter_mut().take(2) {
        *port = Some(PortConfig { mac: [2; 6], sid: None, addr: None });
    }
    let mut engine = Endpoint::new(cfg, storage.lend(), 7).expect("configuration");
    let (qp, cq, key) = connect(&mut engine);
    let mut now = Instant::from_nanos(1_000);
    let mut script = data;
    for _ in 0..64 {
        let Some((&op, rest)) = script.split_first() else { break };
        let (step, rest) = rest.split_at(rest.len().min(usize::from(op >> 2)));
        script = rest;
        match op & 3 {
            0 => receive(&mut engine, now, step),
            1 => burst(&mut engine, now, &plausible(qp, key, step), step.last().copied().unwrap_or(0)),
            2 => {
                let len = step.iter().fold(0u32, |len, &byte| len.wrapping_mul(57).wrapping_add(byte.into())) % 70_000;
                let wr = SendWr {
                    wr_id: len.into(),
                    lkey: key,
                    local_va: REGION.va,
                    len,
                    remote_va: 0,
                    rkey: mrc_wire::Rkey(key),
                    signaled: len % 2 == 0,
                    ..SendWr::default()
                };
                let _ = engine.post_send(now, qp, &wr);
            }
            _ => {
                now = now.after(step.first().map_or(1, |&byte| 1 << (byte % 34)));
                engine.handle_timeout(now);
            }
        }
        drain(&mut engine, now, cq);
    }
    let info = engine.qp_info(qp).expect("the QP lives on");
    assert!(info.outstanding <= 128, "more in flight than the window");
    assert!(matches!(info.state, QpState::Rts | QpState::Error));
}

fn connect(engine: &mut Endpoint<'_>) -> (QpHandle, CqHandle, u32) {
    let pd = Pd(0);
    let mr = engine.register_mr(pd, REGION, Access::REMOTE_WRITE).expect("region");
    let key = engine.key(mr).expect("key").0;
    let mut planes = [None; MAX_PORTS];
    for plane in planes.iter_mut().take(2) {
        *plane = Some(PlanePath { next_hop: [4; 6], outer_src: None });
    }
    let (local, remote) = (Ip::V6(OURS), Ip::V6(THEIRS));
    let peer =
        engine.add_peer(&PeerConfig { local, remote, planes, route: Route::Plain, hop_limit: 64 }).expect("peer");
    let mut entries = [EvEntry::new(Ev(0), PortNum::from_plane(0)); 8];
    compact_profile(&mut entries, 2, 4, 8).expect("paths");
    let ev_profile = engine.create_ev_profile(&entries).expect("profile");
    let cq = engine.create_cq().expect("completion queue");
    let qp = engine.create_qp(&QpInit { pd, send_cq: cq, recv_cq: cq }).expect("queue pair");
    engine.modify_to_init(qp).expect("init");
    let rq_psn = Psn::new(FIRST_PSN);
    let rtr = RtrAttr { path_mtu: 1024, mpr_dest: 1, ..RtrAttr::software(peer, Qpn::new(77), rq_psn, ev_profile) };
    engine.modify_to_rtr(Instant::ZERO, qp, &rtr).expect("rtr");
    let mut rts = RtsAttr::software(Psn::new(FIRST_PSN));
    rts.mpr = 1;
    engine.modify_to_rts(Instant::ZERO, qp, &rts).expect("rts");
    (qp, cq, key)
}

/// A frame from the peer to the QP whose opcode, PSN and flags come from the first bytes and whose rest is the script's.
fn plausible(qp: QpHandle, key: u32, step: &[u8]) -> Vec<u8> {
    let mut bytes = step.iter().copied();
    let mut next = || bytes.next().unwrap_or(0);
    let (opcode, psn, flags, ecn) = (OPCODES[usize::from(next()) % 12], next(), next(), next());
    let mut bth = vec![opcode, flags & 0x30, 0xFF, 0xFF, 0];
    bth.extend(&qp.qpn().value().to_be_bytes()[1..]);
    bth.push(flags & 0xB0 | u8::from(flags & 1 != 0) << 4);
    bth.extend(&(FIRST_PSN.wrapping_add(psn.into()).wrapping_sub(8) & 0xFF_FFFF).to_be_bytes()[1..]);
    let mut rest: Vec<u8> = bytes.collect();
    // A key that opens the region, where a write of a timestamped packet has it.
    if flags & 2 != 0 && rest.len() >= 20 {
        rest[16..20].copy_from_slice(&key.to_be_bytes());
    }
    let udp_len = (8 + bth.len() + rest.len() + 4) as u16;
    let mut frame = vec![2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 0x86, 0xDD];
    let class = (ecn & 3) | if ecn & 4 != 0 { 12 << 2 } else { 0 };
    frame.extend([0x60 | class >> 4, class << 4, 0, ecn]);
    frame.extend(udp_len.to_be_bytes());
    frame.extend([17, 64]);
    frame.extend(THEIRS);
    frame.extend(OURS);
    frame.extend([flags, psn, 0x12, 0xB7]);
    frame.extend(udp_len.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(bth);
    frame.extend(rest);
    frame.extend([0; 4]);
    frame
}

fn receive(engine: &mut Endpoint<'_>, now: Instant, frame: &[u8]) {
    let meta = RxMeta { port: PortNum::from_plane(0), wire_len: frame.len(), icrc: IcrcCheck::Valid };
    if let Ok(Received::Place(at)) = engine.handle_packet(now, meta, frame) {
        let len = at.payload.len() as u64;
        assert!(at.payload.end <= frame.len() && at.offset + len <= REGION.len, "a placement outside its region");
    }
}

/// Frames of one burst, one after the other.
struct Burst {
    frames: Vec<Vec<u8>>,
    taken: usize,
}

impl FrameSource for Burst {
    fn next(&mut self) -> Option<(RxMeta, &[u8])> {
        let frame = self.frames.get(self.taken)?;
        self.taken += 1;
        Some((RxMeta { port: PortNum::from_plane(0), wire_len: frame.len(), icrc: IcrcCheck::Valid }, frame))
    }

    fn done(&mut self, result: Result<Received, Discard>) {
        let frame = &self.frames[self.taken - 1];
        if let Ok(Received::Place(at)) = result {
            let len = at.payload.len() as u64;
            assert!(at.payload.end <= frame.len() && at.offset + len <= REGION.len, "a placement outside its region");
        }
    }
}

/// A frame, two that follow it, and one that is like them but for the byte that `hit` picks.
fn burst(engine: &mut Endpoint<'_>, now: Instant, first: &[u8], hit: u8) {
    let mut frames = vec![first.to_vec(); 4];
    for (nth, frame) in frames.iter_mut().enumerate() {
        // The last byte of the PSN.
        frame[73] = frame[73].wrapping_add(nth as u8);
    }
    let at = usize::from(hit) % first.len();
    frames[3][at] ^= 1 << (hit & 7);
    engine.receive(now, &mut Burst { frames, taken: 0 });
}

fn drain(engine: &mut Endpoint<'_>, now: Instant, cq: CqHandle) {
    let mut headers = [0u8; MAX_HEADER_LEN];
    let mut sent = 0;
    while let Some(transmit) = engine.poll_transmit(now, PortMask::ALL, &mut headers) {
        assert!(transmit.header_len <= headers.len() && transmit.frame_len() < 2_000);
        sent += 1;
        assert!(sent < 1_000, "the engine talks without end");
    }
    while engine.poll_completion(cq).is_some() {}
    while engine.poll_event().is_some() {}
    assert!(engine.next_timeout().is_none_or(|at| at > now) || sent > 0, "a deadline that never moves");
}
