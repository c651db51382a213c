//! Four endpoints of one NIC behind one address, each driven by a thread of its own, write to a peer. A packet goes to the
//! shard that its destination QP names; what is for QP 2 goes to the first one, whose messages tell the others.
//! Run it with `cargo run -p mrc-core --example shards --features alloc`.
//!
//! ```text
//!  frames -> steer(dest_qp) -> shard 0 .. 3        messages: shard -> poll_shard_message -> handle_shard_message -> shard
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant as Wall};

use mrc_core::path::{EvEntry, compact_profile};
use mrc_core::{
    Access, CqHandle, Endpoint, EndpointConfig, EvProfileHandle, IcrcCheck, Instant, Limits, MAX_HEADER_LEN, MAX_PORTS,
    MemRange, MrHandle, OwnedStorage, Pd, PeerConfig, PeerHandle, PlanePath, PortConfig, PortMask, QpHandle, QpInit,
    Received, Route, RtrAttr, RtsAttr, RxMeta, SendWr, Shard, ShardMessage, Status,
};
use mrc_wire::{Ev, Ip, PortNum, Psn, Qpn, Rkey, icrc};

const PORTS: u8 = 2;
const QPS: usize = 4;
const VA: u64 = 0x10_0000;
/// Bytes that each queue pair writes.
const MESSAGE: usize = 30_000;

/// What arrives at a shard.
pub(crate) enum Input {
    /// A frame from the wire and its port.
    Frame(PortNum, Vec<u8>),
    /// News of another shard.
    News(ShardMessage),
    /// A port of the NIC goes up or down; all shards are told.
    Port(PortNum, bool),
}

/// The shard that takes a frame. Hardware reads the same three bytes: the destination QP in BTH, behind Ethernet, IPv6 and
/// UDP.
pub(crate) fn steer(frame: &[u8], bits: u8) -> u8 {
    let dest_qp = [0, frame[67], frame[68], frame[69]];
    Shard::of(Qpn::new(u32::from_be_bytes(dest_qp)), bits)
}

/// One endpoint of a NIC, with its driver.
pub(crate) struct Unit<'s> {
    /// The engine.
    pub(crate) engine: Endpoint<'s>,
    /// Its queue pairs.
    pub(crate) qps: Vec<QpHandle>,
    /// The other host.
    pub(crate) peer: PeerHandle,
    /// Paths to it.
    pub(crate) profile: EvProfileHandle,
    cq: CqHandle,
    mr: MrHandle,
    memory: Vec<u8>,
    /// Status of each write that ended.
    pub(crate) done: Vec<Status>,
}

fn address(host: u8) -> Ip {
    let mut octets = [0xFD; 16];
    octets[15] = host;
    Ip::V6(octets)
}

impl<'s> Unit<'s> {
    /// Shard `shard` of host `host`. Every shard knows the peer, and creates the same EV profiles.
    pub(crate) fn new(host: u8, shard: Shard, storage: &'s mut OwnedStorage, tweak: fn(&mut EndpointConfig)) -> Self {
        let mut cfg = EndpointConfig { shard, share_bad_evs: true, ..EndpointConfig::default() };
        tweak(&mut cfg);
        cfg.gids[0] = Some(address(host));
        let mut planes = [None; MAX_PORTS];
        for (port, path) in planes.iter_mut().enumerate().take(PORTS.into()) {
            cfg.ports[port] = Some(PortConfig { mac: [2, 0, 0, 0, port as u8, host], sid: None, addr: None });
            *path = Some(PlanePath { next_hop: [2; 6], outer_src: None });
        }
        // Every shard has a seed of its own.
        let seed = u64::from(host) << 8 | u64::from(shard.index);
        let mut engine = Endpoint::new(cfg, storage.lend(), seed).expect("the limits fit the storage");
        let cq = engine.create_cq().expect("there is room");
        let range = MemRange { va: VA, len: (QPS * MESSAGE) as u64 };
        let mr = engine.register_mr(Pd(0), range, Access::REMOTE_WRITE).expect("there is room");
        let init = QpInit { pd: Pd(0), send_cq: cq, recv_cq: cq };
        let qps = (0..QPS).map(|_| engine.create_qp(&init).expect("there is room")).collect();
        let (local, remote) = (address(host), address(1 - host));
        let peer = PeerConfig { local, remote, planes, route: Route::Plain, hop_limit: 64 };
        let peer = engine.add_peer(&peer).expect("there is room");
        let mut paths = [EvEntry::new(Ev(0), PortNum::from_plane(0)); 16];
        compact_profile(&mut paths, PORTS, 8, 8).expect("sixteen paths");
        let profile = engine.create_ev_profile(&paths).expect("there is room");
        Self { engine, qps, peer, profile, cq, mr, memory: vec![0; QPS * MESSAGE], done: vec![] }
    }

    /// Takes queue pair `nth` to RTS.
    pub(crate) fn connect(&mut self, now: Instant, nth: usize, far: QpHandle) {
        let rtr =
            RtrAttr { path_mtu: 1_024, ..RtrAttr::software(self.peer, far.qpn(), Psn::new(nth as u32), self.profile) };
        self.engine.modify_to_init(self.qps[nth]).expect("from RESET");
        self.engine.modify_to_rtr(now, self.qps[nth], &rtr).expect("from INIT");
        self.engine.modify_to_rts(now, self.qps[nth], &RtsAttr::software(Psn::new(nth as u32))).expect("from RTR");
    }

    /// Opens the memory.
    pub(crate) fn key(&self) -> Rkey {
        self.engine.key(self.mr).expect("registered")
    }

    /// Queue pair `nth` writes its part of the memory to the same place at the peer.
    pub(crate) fn post(&mut self, now: Instant, nth: usize, rkey: Rkey) {
        let at = VA + (nth * MESSAGE) as u64;
        let wr = SendWr {
            wr_id: nth as u64,
            lkey: self.key().0,
            local_va: at,
            len: MESSAGE as u32,
            remote_va: at,
            rkey,
            signaled: true,
            ..SendWr::default()
        };
        self.engine.post_send(now, self.qps[nth], &wr).expect("the queue has room");
    }

    /// One input.
    pub(crate) fn take(&mut self, now: Instant, input: Input) {
        match input {
            Input::Frame(port, frame) => {
                let rx = RxMeta { port, wire_len: frame.len(), icrc: IcrcCheck::Verify };
                if let Ok(Received::Place(place)) = self.engine.handle_packet(now, rx, &frame) {
                    let at = place.offset as usize;
                    self.memory[at..at + place.payload.len()].copy_from_slice(&frame[place.payload]);
                }
            }
            Input::News(message) => {
                // Late answers and peers that this shard does not know do no harm.
                let _ = self.engine.handle_shard_message(now, &message);
            }
            Input::Port(port, up) => self.engine.set_port(now, port, up),
        }
    }

    /// Everything that this shard wants to do now: frames to `wire`, news to `others`.
    pub(crate) fn drain(
        &mut self,
        now: Instant,
        mut wire: impl FnMut(PortNum, Vec<u8>),
        mut others: impl FnMut(ShardMessage),
    ) {
        let mut headers = [0; MAX_HEADER_LEN];
        while let Some(tx) = self.engine.poll_transmit(now, PortMask::ALL, &mut headers) {
            let mut frame = headers[..tx.header_len].to_vec();
            if let Some(payload) = tx.payload {
                let at = payload.offset as usize;
                frame.extend(&self.memory[at..at + payload.len as usize]);
            }
            frame.resize(frame.len() + usize::from(tx.pad), 0);
            frame.extend(icrc::compute(&frame[tx.l3_offset..]).expect("a packet"));
            wire(tx.port, frame);
        }
        while let Some(message) = self.engine.poll_shard_message() {
            others(message);
        }
        self.done.extend(std::iter::from_fn(|| self.engine.poll_completion(self.cq)).map(|done| done.status));
    }
}

/// The shards that `message` is for, of `count`.
pub(crate) fn receivers(message: &ShardMessage, count: u8) -> impl Iterator<Item = u8> + use<> {
    let (from, to) = (message.from, message.to);
    (0..count).filter(move |&shard| to.map_or(shard != from, |to| shard == to))
}

/// Two hosts with `count` shards each, a thread per shard. Every queue pair writes; what host 0 loses is a port, halfway.
/// Returns how many writes succeeded, and how many shards of host 1 know of the port.
pub(crate) fn run(count: u8) -> (usize, usize) {
    let bits = count.ilog2() as u8;
    let limits = Limits { qps: QPS, ..Limits::default() };
    let mut storage: Vec<_> = (0..2 * count).map(|_| OwnedStorage::new(limits).expect("sound limits")).collect();
    let mut units: Vec<Unit<'_>> = Vec::new();
    for (n, storage) in (0u8..).zip(&mut storage) {
        units.push(Unit::new(n / count, Shard { bits, index: n % count }, storage, |_| {}));
    }
    // Shard n of one host talks to shard n + 1 of the other.
    let host_of = |n: u8| n / count;
    let far_of = |n: u8| {
        (1 - host_of(n)) * count + (if host_of(n) == 0 { n % count + 1 } else { n % count + count - 1 }) % count
    };
    let names: Vec<_> = units.iter().map(|unit| (unit.qps.clone(), unit.key())).collect();
    for (n, unit) in (0u8..).zip(&mut units) {
        let (far, key) = &names[usize::from(far_of(n))];
        for (nth, far) in far.iter().enumerate() {
            unit.connect(Instant::ZERO, nth, *far);
            unit.post(Instant::ZERO, nth, *key);
        }
    }
    let (inputs, outputs): (Vec<Sender<Input>>, Vec<Receiver<Input>>) = units.iter().map(|_| channel()).unzip();
    let (finished, aware, start) = (AtomicUsize::new(0), AtomicUsize::new(0), Wall::now());
    let (inputs, finished, aware) = (&inputs, &finished, &aware);
    std::thread::scope(|scope| {
        for ((n, mut unit), output) in (0u8..).zip(units).zip(outputs) {
            scope.spawn(move || {
                let port = PortNum::from_plane(1);
                let (mut counted, mut told, mut cut) = (0, false, false);
                while finished.load(Ordering::Relaxed) < usize::from(2 * count) * QPS
                    || aware.load(Ordering::Relaxed) < usize::from(count)
                {
                    let now = Instant::from_nanos(start.elapsed().as_nanos() as u64);
                    while let Ok(input) = output.try_recv() {
                        unit.take(now, input);
                    }
                    // Host 0 loses a port: its driver tells all of its shards.
                    if host_of(n) == 0 && !cut && unit.done.len() >= QPS / 2 {
                        cut = true;
                        unit.take(now, Input::Port(port, false));
                    }
                    unit.engine.handle_timeout(now);
                    let far = (1 - host_of(n)) * count;
                    unit.drain(
                        now,
                        |port, frame| {
                            drop(inputs[usize::from(far + steer(&frame, bits))].send(Input::Frame(port, frame)))
                        },
                        |news| {
                            for shard in receivers(&news, count) {
                                let _ = inputs[usize::from(host_of(n) * count + shard)].send(Input::News(news));
                            }
                        },
                    );
                    let done = unit.done.iter().filter(|&&status| status == Status::Success).count();
                    finished.fetch_add(done - counted, Ordering::Relaxed);
                    counted = done;
                    let ports = unit.engine.peer_ports(unit.peer).expect("registered");
                    if host_of(n) == 1 && !told && !ports.contains(port) {
                        told = true;
                        aware.fetch_add(1, Ordering::Relaxed);
                    }
                    if start.elapsed() > Duration::from_secs(60) {
                        return;
                    }
                    std::thread::yield_now();
                }
            });
        }
    });
    (finished.load(Ordering::Relaxed), aware.load(Ordering::Relaxed))
}

fn main() {
    let (writes, aware) = run(4);
    println!("{writes} of {} writes succeeded, {aware} of 4 shards heard of the port", 8 * QPS);
}
