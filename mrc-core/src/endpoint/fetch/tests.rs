//! What is read ahead is what is read then.

use std::{collections::BTreeSet, vec::Vec};

use mrc_wire::{BthRepr, Ecn, Encap, Ev, FrameTemplate, Ip, Opcode, Outer, Psn, Rkey, WireConfig};

use super::*;
use crate::cc::{CcConfig, NsccConfig};
use crate::path::{EvEntry, PathConfig, compact_profile};
use crate::prefetch::Asked;
use crate::{
    Access, CqHandle, EndpointConfig, IcrcCheck, Instant, Limits, MAX_HEADER_LEN, MAX_PORTS, MemRange, OwnedStorage,
    Pd, PeerConfig, PlanePath, PortConfig, QpInit, Route, RtrAttr, RtsAttr, RxMeta, SendWr,
};

#[test]
fn the_queue_pair_is_found_behind_every_stack_of_headers() {
    let (v6, v4) = (Ip::V6([1; 16]), Ip::V4([2; 4]));
    let outer = Some(Outer { src: [3; 16], dst: [4; 16], srh: None });
    let stacks = [Encap::plain([0; 6], [0; 6], v6, v6), Encap::plain([0; 6], [0; 6], v4, v4)];
    for encap in [stacks[0], stacks[1], Encap { outer, ..stacks[0] }] {
        let mut out = [0; 192];
        let template = FrameTemplate::new(&encap, &WireConfig::default());
        let start = template.emit(&mut out, Ev(7), 4, Ecn::Ect0, 100, None).unwrap();
        let bth = BthRepr::new(Opcode::Sack, Qpn::new(0x12_3456), Psn::new(9));
        bth.emit(out[start..].first_chunk_mut().unwrap());
        assert_eq!(read(&out), Some((Opcode::Sack.to_u8(), Qpn::new(0x12_3456))), "{encap:?}");
        assert_eq!(read(&out[..start + 7]), None);
    }
}

/// Which words a call that comes would have memory asked for.
fn asked(engine: &Endpoint<'_>, mut next: Upcoming) -> Asked {
    let asked = Asked::default();
    while !next.is_done() {
        engine.fetch(&mut next, &asked);
    }
    asked
}

const QPS: usize = 6;
const PLANES: u8 = 2;
const MTU: u16 = 256;

pub(in crate::endpoint) fn limits() -> Limits {
    Limits {
        qps: QPS,
        mpr: 1,
        tx_packets: 32,
        send_queue: 4,
        evs: 16,
        active_evs: 16,
        planes: PLANES.into(),
        ..Limits::default()
    }
}

fn address(side: u8, nth: u8) -> Ip {
    Ip::V6([0xFD, side, nth, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])
}

pub(in crate::endpoint) struct Side<'s> {
    pub(in crate::endpoint) engine: Endpoint<'s>,
    pub(in crate::endpoint) qps: Vec<QpHandle>,
    key: Rkey,
    cq: CqHandle,
}

/// Two sides that know each other by three addresses, so that each has three controllers with two QPs each.
pub(in crate::endpoint) fn pair<'s>(storage: &'s mut [OwnedStorage; 2], plane_lead: u8) -> [Side<'s>; 2] {
    let mut nth = 0u8;
    let mut sides = storage.each_mut().map(|storage| {
        let nscc = CcConfig::Nscc(NsccConfig::new(100_000_000_000, 12_000, true));
        let mut cfg = EndpointConfig { cc: nscc, ..EndpointConfig::software() };
        for plane in 0..PLANES {
            cfg.ports[usize::from(plane)] = Some(PortConfig { mac: [2, 0, 0, 0, nth, plane], sid: None, addr: None });
        }
        (0..3).for_each(|of| cfg.gids[usize::from(of)] = Some(address(nth, of)));
        let mut engine = Endpoint::new(cfg, storage.lend(), u64::from(nth)).unwrap();
        nth += 1;
        let cq = engine.create_cq().unwrap();
        let mr = engine.register_mr(Pd(0), MemRange { va: 0, len: 1 << 20 }, Access::REMOTE_WRITE).unwrap();
        let init = QpInit { pd: Pd(0), send_cq: cq, recv_cq: cq };
        let qps = (0..QPS).map(|_| engine.create_qp(&init).unwrap()).collect();
        let key = engine.key(mr).unwrap();
        Side { engine, qps, key, cq }
    });
    for side in 0..2u8 {
        let far = sides[usize::from(1 - side)].qps.clone();
        let Side { engine, qps, .. } = &mut sides[usize::from(side)];
        let mut entries = [EvEntry::EMPTY; 16];
        compact_profile(&mut entries, PLANES, 8, 8).unwrap();
        let profile = engine.create_ev_profile(&entries).unwrap();
        let mut planes = [None; MAX_PORTS];
        planes[..usize::from(PLANES)].fill(Some(PlanePath { next_hop: [2; 6], outer_src: None }));
        for of in 0..3u8 {
            let (local, remote) = (address(side, of), address(1 - side, of));
            let peer = PeerConfig { local, remote, planes, route: Route::Plain, hop_limit: 64 };
            let peer = engine.add_peer(&peer).unwrap();
            for at in [usize::from(of), usize::from(of) + 3] {
                let rtr = RtrAttr {
                    path_mtu: MTU,
                    mpr_dest: 1,
                    ..RtrAttr::software(peer, far[at].qpn(), Psn::new(1), profile)
                };
                engine.modify_to_init(qps[at]).unwrap();
                engine.modify_to_rtr(Instant::ZERO, qps[at], &rtr).unwrap();
                let paths = PathConfig { active: 16, backup: 0, plane_lead, ..PathConfig::default() };
                let rts = RtsAttr { paths, mpr: 1, max_wimm: 0, ..RtsAttr::software(Psn::new(1)) };
                engine.modify_to_rts(Instant::ZERO, qps[at], &rts).unwrap();
            }
        }
    }
    sides
}

pub(in crate::endpoint) fn post(side: &mut Side<'_>, rkey: Rkey, qp: usize, len: u32) {
    let wr = SendWr { lkey: side.key.0, len, rkey, ..SendWr::default() };
    side.engine.post_send(Instant::ZERO, side.qps[qp], &wr).unwrap();
}

/// Moves one frame of `from` through `port`, and checks what was asked for on both sides. Which QP sent data, whether it was
/// taken for the sender, and whether the EV that it took was among what was asked for.
fn step(now: Instant, sides: &mut [Side<'_>; 2], from: usize, port: PortNum) -> Option<Option<(usize, bool, bool)>> {
    let mut head = [0; MAX_HEADER_LEN];
    let engine = &mut sides[from].engine;
    let before = asked(engine, engine.upcoming_transmit(port));
    let sent = engine.poll_transmit(now, PortMask::NONE.with(port), &mut head)?;
    let (opcode, dest) = read(&head).unwrap();
    let rx = RxMeta { port, wire_len: sent.frame_len(), icrc: IcrcCheck::Valid };
    let at = sides[1 - from].qps.iter().position(|qp| qp.qpn() == dest);
    let Some(at) = at.filter(|_| opcode != Opcode::Probe.to_u8()) else {
        // Probes, and what whole endpoints tell each other, are rare: nothing of it is read ahead.
        let _ = sides[1 - from].engine.handle_packet(now, rx, &head[..sent.header_len]);
        return Some(None);
    };
    let engine = &sides[from].engine;
    let qp = &engine.qps[at];
    assert!(before.within(qp) > 0, "QP {at}");
    let data = sent.payload.map(|_| {
        if before.within(&qp.sq) == 0 {
            // Another QP was taken for the sender.
            return (at, false, false);
        }
        let (records, words) = (engine.limits.records(), engine.limits.tx_words());
        let psn = qp.req.max_sent.value() as usize;
        let record = &engine.tx_records[at * records + psn % records];
        assert_eq!(before.within(record), 1, "QP {at}, PSN {psn}");
        assert_eq!(before.within(&engine.tx_words[at * words..][..words]), 1);
        assert_eq!(before.within(&engine.wqes[at * 4..][..4]), 1, "one request");
        assert!(before.within(&qp.sq) > 0 && before.within(&qp.head) > 0 && before.within(&qp.share) > 1);
        assert!(before.within(&qp.links) > 0 && before.within(&qp.req) > 2 && before.within(&qp.paths) > 0);
        let controller = &engine.qpccs[qp.qpcc.unwrap() as usize];
        assert!(before.within(controller) > 1);
        assert!(before.within(&engine.peers[qp.peer as usize]) > 0);
        let first = qp.peer as usize * usize::from(PLANES);
        assert!(before.within(&engine.planes[first + usize::from(port.plane())]) > 0);
        assert!(before.within(engine.order_of(at as u32)) > 0);
        let slot = &engine.slots_of(at as u32)[usize::from(record.ev().0)];
        (at, true, before.within(slot) > 0)
    });
    if data.is_none() {
        assert!(before.within(&qp.rsp) > 2 && before.within(&qp.reverse) > 1 && before.within(&qp.expected) > 0);
    }
    let engine = &mut sides[1 - from].engine;
    let before = asked(engine, engine.upcoming_packet(&head));
    let qp = &engine.qps[at];
    if data.is_some() {
        assert!(before.within(&qp.rsp) > 2 && before.within(&qp.reverse) > 1 && before.within(&qp.links) > 0);
    } else {
        let oldest = qp.req.unack.next().value() as usize % engine.limits.records();
        assert_eq!(before.within(&engine.tx_records[at * engine.limits.records() + oldest]), 1);
        assert!(before.within(&qp.req) > 5, "also what is measured");
        assert!(before.within(&engine.qpccs[qp.qpcc.unwrap() as usize]) > 4, "with the window");
        assert!(before.within(engine.slots_of(at as u32)) > 0);
        assert!(before.within(&engine.peers[qp.peer as usize]) > 0);
    }
    assert!(engine.handle_packet(now, rx, &head[..sent.header_len]).is_ok());
    Some(data)
}

/// One QP alone, several behind each other, and several controllers: whoever sends, what that reads was asked for, and mostly the EV
/// of the packet as well.
#[test]
fn what_a_packet_reads_is_asked_for_before() {
    for (senders, plane_lead) in
        [(&[4][..], 0), (&[1, 4], 0), (&[0, 1, 2], 0), (&[0, 1, 2, 3, 4, 5], 0), (&[0, 1, 2], 1)]
    {
        let mut storage = [(); 2].map(|()| OwnedStorage::new(limits()).unwrap());
        let mut sides = pair(&mut storage, plane_lead);
        let key = sides[1].key;
        let (mut packets, mut known, mut paths, mut of) = (0, 0, 0, BTreeSet::new());
        for round in 0..40u64 {
            let now = Instant::from_nanos(1_000_000 + round * 20_000);
            for &qp in senders {
                post(&mut sides[0], key, qp, 3 * u32::from(MTU));
            }
            loop {
                let mut quiet = true;
                for (from, plane) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                    let moved = step(now, &mut sides, from, PortNum::from_plane(plane));
                    quiet &= moved.is_none();
                    if let Some(Some((qp, sender, path))) = moved {
                        packets += 1;
                        known += u32::from(sender);
                        paths += u32::from(path);
                        of.insert(qp);
                    }
                }
                if quiet {
                    break;
                }
            }
            let cq = sides[0].cq;
            while sides[0].engine.poll_completion(cq).is_some() {}
        }
        assert_eq!((packets, of.len()), (120 * senders.len() as u32, senders.len()), "{senders:?}");
        // Which controllers leave a port to others is a guess; so are the EVs, two of sixteen.
        let most = if plane_lead == 0 { packets } else { packets * 9 / 10 };
        assert!(known >= most && paths * 10 >= packets * 6, "{senders:?}: {known} senders, {paths} EVs of {packets}");
    }
}

/// The other things that a driver or a simulator may ask for: a timer that fires, a frame whose head it has, where a request lies.
#[test]
fn what_a_timer_and_a_frame_read_is_asked_for_before() {
    let mut storage = [(); 2].map(|()| OwnedStorage::new(limits()).unwrap());
    let [side, far] = &mut pair(&mut storage, 0);
    let wr = SendWr { lkey: side.key.0, local_va: 4_096, len: 100, rkey: far.key, ..SendWr::default() };
    side.engine.post_send(Instant::ZERO, side.qps[4], &wr).unwrap();
    let mut head = [0; MAX_HEADER_LEN];
    // What the endpoint says of its ports goes first.
    let sent = loop {
        let sent = side.engine.poll_transmit(Instant::ZERO, PortMask::ALL, &mut head).unwrap();
        if sent.payload.is_some() {
            break sent;
        }
    };
    let engine = &side.engine;
    let timer = asked(engine, engine.upcoming_timeout());
    assert!(timer.within(&engine.qps[4].req) > 0 && timer.within(&engine.qps[0]) == 0);
    let by_head = Asked::default();
    far.engine.fetch_for(&head[..sent.header_len], &by_head);
    assert!(by_head.within(&far.engine.qps[4].rsp) > 2 && by_head.within(&far.engine.qps[0]) == 0);
    // Where the last request began, which the next one probably follows.
    let mut next = Upcoming::post(side.qps[4]);
    let mut offsets = Vec::new();
    while !next.is_done() {
        engine.fetch(&mut next, &Asked::default());
        offsets.extend(next.take_offset());
        assert_eq!(next.take_offset(), None, "told once");
    }
    assert_eq!(offsets, [4_096]);
}
