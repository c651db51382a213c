//! Firmware is replaced under a running queue pair, first at the requester with frames in flight, then at the responder with
//! placements open. Run it with `cargo run -p mrc-core --example live_update --features alloc`.
//!
//! ```text
//!  old firmware                              new firmware
//!  stop: no call but export                  Import::new(same configuration, its own storage)
//!  export(piece) ... ----- image ----------> feed(piece) ...
//!                                            finish() -> Endpoint: the next turn
//! ```

use std::collections::VecDeque;

use mrc_core::path::{EvEntry, compact_profile};
use mrc_core::{
    Access, CqHandle, Endpoint, EndpointConfig, Export, IcrcCheck, ImageError, Import, Instant, Limits, MAX_HEADER_LEN,
    MAX_PORTS, MemRange, MrHandle, OwnedStorage, Pd, PeerConfig, PlaceToken, PlacementMode, PlanePath, PortConfig,
    PortMask, QpHandle, QpInit, Received, Route, RtrAttr, RtsAttr, RxMeta, SendWr,
};
use mrc_wire::{Ev, Ip, PortNum, Psn, icrc};

const VA: u64 = 0x10_0000;
const MEMORY: usize = 64 << 10;
const MESSAGE: usize = 8_000;

/// What outlives the firmware: the memory of the host, the frames of the rings, the transfers of the DMA engine.
struct Hardware {
    memory: Vec<u8>,
    received: VecDeque<Vec<u8>>,
    dma: VecDeque<(PlaceToken, usize, Vec<u8>)>,
    completions: Vec<u64>,
}

/// What the driver knows beside the engine. A real one stores these handles next to the image.
#[derive(Clone, Copy)]
struct Handles {
    qp: QpHandle,
    cq: CqHandle,
    mr: MrHandle,
}

struct Nic<'s> {
    engine: Endpoint<'s>,
    handles: Handles,
    hardware: Hardware,
}

fn address(side: u8) -> Ip {
    let mut octets = [0xFD; 16];
    octets[15] = side;
    Ip::V6(octets)
}

fn port() -> PortNum {
    PortNum::from_plane(0)
}

const LIMITS: fn() -> Limits = || Limits { qps: 1, ..Limits::default() };

/// The same in the old firmware and in the new one.
fn config(side: u8) -> EndpointConfig {
    let mut cfg = EndpointConfig { placement: PlacementMode::Reported, ..EndpointConfig::default() };
    cfg.gids[0] = Some(address(side));
    cfg.ports[0] = Some(PortConfig { mac: [2, 0, 0, 0, 0, side], sid: None, addr: None });
    cfg
}

impl<'s> Nic<'s> {
    fn new(side: u8, storage: &'s mut OwnedStorage) -> Self {
        // On a device the seed comes from its random number generator.
        let mut engine =
            Endpoint::new(config(side), storage.lend(), u64::from(side)).expect("the limits fit the storage");
        let cq = engine.create_cq().expect("there is one");
        let range = MemRange { va: VA, len: MEMORY as u64 };
        let mr = engine.register_mr(Pd(0), range, Access::REMOTE_WRITE).expect("there is room");
        let qp = engine.create_qp(&QpInit { pd: Pd(0), send_cq: cq, recv_cq: cq }).expect("there is room");
        let (memory, received) = (vec![0; MEMORY], VecDeque::new());
        let hardware = Hardware { memory, received, dma: VecDeque::new(), completions: vec![] };
        Self { engine, handles: Handles { qp, cq, mr }, hardware }
    }

    fn connect(&mut self, side: u8, far: QpHandle) {
        let mut planes = [None; MAX_PORTS];
        planes[0] = Some(PlanePath { next_hop: [2; 6], outer_src: None });
        let (local, remote) = (address(side), address(1 - side));
        let peer = PeerConfig { local, remote, planes, route: Route::Plain, hop_limit: 64 };
        let peer = self.engine.add_peer(&peer).expect("there is room");
        let mut paths = [EvEntry::new(Ev(0), port()); 8];
        compact_profile(&mut paths, 1, 8, 8).expect("eight paths");
        let profile = self.engine.create_ev_profile(&paths).expect("there is room");
        let rtr = RtrAttr { path_mtu: 1_024, ..RtrAttr::software(peer, far.qpn(), Psn::new(7), profile) };
        let qp = self.handles.qp;
        self.engine.modify_to_init(qp).expect("from RESET");
        self.engine.modify_to_rtr(Instant::ZERO, qp, &rtr).expect("from INIT");
        self.engine.modify_to_rts(Instant::ZERO, qp, &RtsAttr::software(Psn::new(7))).expect("from RTR");
    }

    /// The live update. `storage` is the new firmware's.
    fn update<'n>(mut self, side: u8, storage: &'n mut OwnedStorage) -> Result<Nic<'n>, ImageError> {
        // The old firmware, which makes no other call any more. The image goes where the new firmware finds it, a buffer at a
        // time: a call does no more than fill its buffer.
        let (mut export, mut image, mut buffer) = (Export::new(), Vec::new(), [0; Export::MIN_BUFFER]);
        while !export.is_done() {
            let len = self.engine.export(&mut export, &mut buffer).expect("every record fits");
            image.extend(&buffer[..len]);
        }
        // The new firmware. Until `finish` there is no endpoint, so that a bad image leaves none half filled: the old firmware
        // can still go on.
        let mut import = Import::new(config(side), storage.lend()).expect("as the old one");
        let mut rest = image.as_slice();
        while !rest.is_empty() {
            let taken = import.feed(&rest[..rest.len().min(Export::MIN_BUFFER)])?;
            rest = &rest[taken..];
        }
        let engine = import.finish()?;
        // Handles, keys and tokens of placements stay good, and the clock goes on.
        Ok(Nic { engine, handles: self.handles, hardware: self.hardware })
    }

    /// Received frames go to the engine; their payloads to the DMA engine.
    fn receive(&mut self, now: Instant) {
        while let Some(frame) = self.hardware.received.pop_front() {
            let rx = RxMeta { port: port(), wire_len: frame.len(), icrc: IcrcCheck::Verify };
            if let Ok(Received::Place(place)) = self.engine.handle_packet(now, rx, &frame) {
                let bytes = frame[place.payload].to_vec();
                self.hardware.dma.push_back((place.token, place.offset as usize, bytes));
            }
        }
    }

    /// The DMA engine ends its oldest transfers, all but `left`.
    fn place(&mut self, now: Instant, left: usize) {
        while self.hardware.dma.len() > left {
            let (token, to, bytes) = self.hardware.dma.pop_front().expect("just counted");
            self.hardware.memory[to..to + bytes.len()].copy_from_slice(&bytes);
            self.engine.placed(now, token).expect("open until now");
        }
    }

    fn drain(&mut self, now: Instant, far: &mut VecDeque<Vec<u8>>) {
        let mut headers = [0; MAX_HEADER_LEN];
        while let Some(tx) = self.engine.poll_transmit(now, PortMask::ALL, &mut headers) {
            let mut frame = headers[..tx.header_len].to_vec();
            if let Some(payload) = tx.payload {
                let at = payload.offset as usize;
                frame.extend(&self.hardware.memory[at..at + payload.len as usize]);
            }
            frame.resize(frame.len() + usize::from(tx.pad), 0);
            frame.extend(icrc::compute(&frame[tx.l3_offset..]).expect("a packet"));
            far.push_back(frame);
        }
        let done = std::iter::from_fn(|| self.engine.poll_completion(self.handles.cq));
        self.hardware.completions.extend(done.map(|completion| completion.wr_id));
    }
}

fn post(from: &mut Nic<'_>, to: &Nic<'_>, now: Instant, wr_id: u64) {
    let key = |nic: &Nic<'_>| nic.engine.key(nic.handles.mr).expect("registered");
    let at = VA + (wr_id - 1) * MESSAGE as u64;
    let wr = SendWr {
        wr_id,
        lkey: key(from).0,
        local_va: at,
        len: MESSAGE as u32,
        remote_va: at,
        rkey: key(to),
        signaled: true,
        ..SendWr::default()
    };
    from.engine.post_send(now, from.handles.qp, &wr).expect("the queue has room");
}

/// Two writes with an update of each side in between; what happened, in order.
pub(crate) fn run() -> Vec<String> {
    let mut storage = [(); 4].map(|()| OwnedStorage::new(LIMITS()).expect("sound limits"));
    let [old_a, old_b, new_a, new_b] = &mut storage;
    let (mut a, mut b) = (Nic::new(0, old_a), Nic::new(1, old_b));
    a.connect(0, b.handles.qp);
    b.connect(1, a.handles.qp);
    a.hardware.memory[..2 * MESSAGE].iter_mut().zip(0u32..).for_each(|(byte, n)| *byte = (n * 7 + n / 251) as u8);
    let (mut now, mut story) = (Instant::ZERO, Vec::new());

    // The requester is replaced while its packets are in the fabric.
    post(&mut a, &b, now, 1);
    a.drain(now, &mut b.hardware.received);
    let in_flight = a.engine.qp_info(a.handles.qp).expect("exists").outstanding;
    story.push(format!("update at the requester, {in_flight} packets in flight"));
    let mut a = a.update(0, new_a).expect("what was just exported");

    // The responder is replaced while its DMA engine works.
    post(&mut a, &b, now, 2);
    a.drain(now, &mut b.hardware.received);
    now = now.after(5_000);
    b.receive(now);
    b.place(now, 2);
    story.push(format!("update at the responder, {} placements open", b.hardware.dma.len()));
    let mut b = b.update(1, new_b).expect("what was just exported");

    b.place(now, 0);
    b.drain(now, &mut a.hardware.received);
    now = now.after(5_000);
    a.receive(now);
    a.drain(now, &mut b.hardware.received);
    let same = a.hardware.memory[..2 * MESSAGE] == b.hardware.memory[..2 * MESSAGE];
    let (done, again) = (&a.hardware.completions, a.engine.stats().retransmitted);
    story.push(format!("completions {done:?}, bytes the same: {same}, retransmitted {again}"));
    story
}

fn main() {
    for line in run() {
        println!("{line}");
    }
}
