//! The loop of README.md, word for word, as the driver of a NIC of its own kind: each port is a Unix datagram socket. Two hosts
//! write to each other over two such ports, of which one loses frames.

use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use mrc_core::path::{EvEntry, compact_profile};
use mrc_core::{
    Access, Completion, CqHandle, Endpoint, EndpointConfig, Event, IcrcCheck, Instant, Limits, MAX_HEADER_LEN,
    MAX_PORTS, MemRange, OwnedStorage, Pd, PeerConfig, PlanePath, PortConfig, PortMask, QpInit, Received, Route,
    RtrAttr, RtsAttr, RxMeta, SendWr, Status, Transmit,
};
use mrc_wire::{Ip, PortNum, Psn, icrc};

const VA: u64 = 0x10_0000;
const LEN: usize = 1 << 20;
const PORTS: u8 = 2;

/// Memory that a NIC reads and writes while the application looks at it.
#[derive(Clone)]
struct Region(Arc<Vec<AtomicU8>>);

impl Region {
    fn write(&self, at: u64, bytes: &[u8]) {
        for (to, byte) in self.0[at as usize..].iter().zip(bytes) {
            to.store(*byte, Ordering::Relaxed);
        }
    }

    fn read(&self, at: u64, len: usize) -> impl Iterator<Item = u8> + '_ {
        self.0[at as usize..][..len].iter().map(|byte| byte.load(Ordering::Relaxed))
    }
}

struct Clock(std::time::Instant);

impl Clock {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.elapsed().as_nanos() as u64)
    }
}

struct Nic {
    ports: Vec<UnixDatagram>,
    memory: Region,
    frame: Vec<u8>,
    sent: u32,
    clock: Arc<Clock>,
}

impl Nic {
    fn receive(&mut self) -> Option<(PortNum, &[u8])> {
        for (plane, socket) in (0..).zip(&self.ports) {
            if let Ok(len) = socket.recv(&mut self.frame) {
                return Some((PortNum::from_plane(plane), &self.frame[..len]));
            }
        }
        None
    }

    fn free_ports(&self) -> PortMask {
        PortMask::first(PORTS)
    }

    fn send(&mut self, headers: &[u8], tx: &Transmit) {
        let mut frame = headers.to_vec();
        if let Some(payload) = tx.payload {
            frame.extend(self.memory.read(payload.offset, payload.len as usize));
        }
        frame.resize(frame.len() + usize::from(tx.pad), 0);
        frame.extend(icrc::compute(&frame[tx.l3_offset..]).expect("a packet"));
        assert_eq!(frame.len(), tx.frame_len());
        self.sent += 1;
        // Every ninth frame of the second port is lost, and what finds a full socket.
        if tx.port.plane() == 0 || !self.sent.is_multiple_of(9) {
            let _ = self.ports[usize::from(tx.port.plane())].send(&frame);
        }
    }

    /// Until then, or for a millisecond: sockets that wake the thread would be the next step.
    fn sleep_until(&self, at: Option<Instant>) {
        let ns = at.map_or(u64::MAX, |at| at.since(self.clock.now()));
        std::thread::sleep(Duration::from_nanos(ns.min(1_000_000)));
    }
}

struct Application(mpsc::Sender<Completion>);

impl Application {
    fn completed(&self, completion: Completion) {
        let _ = self.0.send(completion);
    }
}

fn log(_: Event) {}

#[rustfmt::skip]
fn drive(mut endpoint: Endpoint<'static>, cq: CqHandle, mut nic: Nic, clock: &Clock, application: &Application) {
    let (memory, mut headers) = ([nic.memory.clone()], [0; MAX_HEADER_LEN]);
// README: begin
loop {
    let now = clock.now();
    while let Some((port, frame)) = nic.receive() {
        let meta = RxMeta { port, wire_len: frame.len(), icrc: IcrcCheck::Verify };
        match endpoint.handle_packet(now, meta, frame) {
            Ok(Received::Place(at)) => memory[at.mr.index()].write(at.offset, &frame[at.payload]),
            Ok(Received::Nothing) | Err(_) => {}            // a discard is counted under its reason
        }
    }
    if endpoint.next_timeout().is_some_and(|at| at <= now) {
        endpoint.handle_timeout(now);
    }
    while let Some(tx) = endpoint.poll_transmit(now, nic.free_ports(), &mut headers) {
        nic.send(&headers[..tx.header_len], &tx); // appends payload, pad, ICRC; sends through `tx.port`
    }
    while let Some(completion) = endpoint.poll_completion(cq) { application.completed(completion); }
    while let Some(event) = endpoint.poll_event() { log(event); }
    nic.sleep_until(endpoint.next_timeout());
}
// README: end
}

fn address(side: u8) -> Ip {
    let mut octets = [0xFD; 16];
    octets[15] = side;
    Ip::V6(octets)
}

#[test]
fn the_loop_of_the_readme_drives_a_nic() {
    let here = include_str!("readme.rs");
    let (_, code) = here.split_once("// README: begin\n").expect("the loop");
    let (code, _) = code.split_once("// README: end\n").expect("its end");
    let readme = include_str!("../../../README.md");
    assert!(readme.contains(&format!("```rust,ignore\n{code}```\n")), "README.md should have this loop:\n{code}");

    let clock = Arc::new(Clock(std::time::Instant::now()));
    let wires: Vec<_> = (0..PORTS).map(|_| UnixDatagram::pair().expect("sockets")).collect();
    let (mut a_ports, mut b_ports) = (Vec::new(), Vec::new());
    for (a, b) in wires {
        a.set_nonblocking(true).and_then(|()| b.set_nonblocking(true)).expect("sockets");
        a_ports.push(a);
        b_ports.push(b);
    }
    let data = |side: u32| (0..LEN as u32).map(|n| AtomicU8::new((n * 7 + n / 251 + side) as u8)).collect();
    let regions = [0, 1].map(|side| Region(Arc::new(data(side))));
    let mut engines = [0u8, 1].map(|side| {
        let limits = Limits { qps: 1, ..Limits::default() };
        let storage = Box::leak(Box::new(OwnedStorage::new(limits).expect("sound limits")));
        let mut cfg = EndpointConfig::software();
        cfg.gids[0] = Some(address(side));
        for plane in 0..PORTS {
            let mac = [2, 0, 0, 0, plane, side];
            cfg.ports[usize::from(plane)] = Some(PortConfig { mac, sid: None, addr: None });
        }
        let mut engine = Endpoint::new(cfg, storage.lend(), u64::from(side) + 1).expect("the limits fit the storage");
        let cq = engine.create_cq().expect("there is room");
        let mr = engine.register_mr(Pd(0), MemRange { va: VA, len: LEN as u64 }, Access::REMOTE_WRITE);
        let mr = mr.expect("there is room");
        let qp = engine.create_qp(&QpInit { pd: Pd(0), send_cq: cq, recv_cq: cq }).expect("there is room");
        let key = engine.key(mr).expect("registered");
        (engine, cq, qp, key)
    });
    let (qps, keys) = (engines.each_ref().map(|side| side.2), engines.each_ref().map(|side| side.3));
    for (side, (engine, _, qp, key)) in engines.iter_mut().enumerate() {
        let far = 1 - side;
        let mut planes = [None; MAX_PORTS];
        planes[..usize::from(PORTS)].fill(Some(PlanePath { next_hop: [2; 6], outer_src: None }));
        let (local, remote) = (address(side as u8), address(far as u8));
        let peer = PeerConfig { local, remote, planes, route: Route::Plain, hop_limit: 64 };
        let peer = engine.add_peer(&peer).expect("there is room");
        let mut paths = [EvEntry::new(mrc_wire::Ev(0), PortNum::from_plane(0)); 16];
        compact_profile(&mut paths, PORTS, 8, 16).expect("sixteen paths");
        let profile = engine.create_ev_profile(&paths).expect("there is room");
        let rtr = RtrAttr { path_mtu: 1_024, ..RtrAttr::software(peer, qps[far].qpn(), Psn::new(7), profile) };
        engine.modify_to_init(*qp).expect("from RESET");
        engine.modify_to_rtr(Instant::ZERO, *qp, &rtr).expect("from INIT");
        engine.modify_to_rts(Instant::ZERO, *qp, &RtsAttr::software(Psn::new(7))).expect("from RTR");
        if side == 0 {
            let (len, rkey) = (LEN as u32, keys[far]);
            let wr = SendWr {
                wr_id: 1,
                lkey: key.0,
                local_va: VA,
                len,
                remote_va: VA,
                rkey,
                signaled: true,
                imm: None,
                solicited: false,
            };
            engine.post_send(Instant::ZERO, *qp, &wr).expect("the queue has room");
        }
    }
    let (done, completions) = mpsc::channel();
    for ((engine, cq, ..), (ports, memory)) in
        engines.into_iter().zip([a_ports, b_ports].into_iter().zip(regions.clone()))
    {
        let (clock, application) = (Arc::clone(&clock), Application(done.clone()));
        let nic = Nic { ports, memory, frame: vec![0; 4096], sent: 0, clock: Arc::clone(&clock) };
        std::thread::spawn(move || drive(engine, cq, nic, &clock, &application));
    }
    let completion = completions.recv_timeout(Duration::from_secs(120)).expect("the write ends");
    assert_eq!(completion.status, Status::Success);
    assert!(regions[0].read(0, LEN).eq(regions[1].read(0, LEN)), "every byte is there");
}
