//! A NIC whose DMA engine finishes late and in any order: the driver reports each placement when its bytes are in memory.
//! Then one transfer fails. Run it with `cargo run -p mrc-core --example late_dma --features alloc`.
//!
//! ```text
//! frame -> handle_packet -> Placement { token, .. } -> DMA engine ... later ... -> placed(token) or place_failed(token)
//!                \-> SACK at once                                      \-> Transport ACK, receive completion
//! ```

use std::collections::VecDeque;

use mrc_core::path::{EvEntry, compact_profile};
use mrc_core::{
    Access, Completion, CqHandle, Endpoint, EndpointConfig, IcrcCheck, Instant, Limits, MAX_HEADER_LEN, MAX_PORTS,
    MemRange, MrHandle, OwnedStorage, Pd, PeerConfig, PlaceToken, PlacementMode, PlanePath, PortConfig, PortMask,
    QpHandle, QpInit, Received, Route, RtrAttr, RtsAttr, RxMeta, SendWr, Status,
};
use mrc_wire::{Ev, Ip, PortNum, Psn, icrc};

const VA: u64 = 0x10_0000;
const MEMORY: usize = 64 << 10;
const MESSAGE: usize = 20_000;

/// A transfer that the DMA engine has not finished.
struct Transfer {
    token: PlaceToken,
    to: usize,
    bytes: Vec<u8>,
}

struct Nic<'s> {
    engine: Endpoint<'s>,
    qp: QpHandle,
    cq: CqHandle,
    mr: MrHandle,
    memory: Vec<u8>,
    dma: Vec<Transfer>,
    completions: Vec<Completion>,
}

fn address(side: u8) -> Ip {
    let mut octets = [0xFD; 16];
    octets[15] = side;
    Ip::V6(octets)
}

fn port() -> PortNum {
    PortNum::from_plane(0)
}

impl<'s> Nic<'s> {
    fn new(side: u8, storage: &'s mut OwnedStorage) -> Self {
        let mut cfg = EndpointConfig { placement: PlacementMode::Reported, ..EndpointConfig::default() };
        cfg.gids[0] = Some(address(side));
        cfg.ports[0] = Some(PortConfig { mac: [2, 0, 0, 0, 0, side], sid: None, addr: None });
        // On a device the seed comes from its random number generator.
        let mut engine = Endpoint::new(cfg, storage.lend(), u64::from(side)).expect("the limits fit the storage");
        let cq = engine.create_cq().expect("there is one");
        let range = MemRange { va: VA, len: MEMORY as u64 };
        let mr = engine.register_mr(Pd(0), range, Access::REMOTE_WRITE).expect("there is room");
        let qp = engine.create_qp(&QpInit { pd: Pd(0), send_cq: cq, recv_cq: cq }).expect("there is room");
        Self { engine, qp, cq, mr, memory: vec![0; MEMORY], dma: vec![], completions: vec![] }
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
        self.engine.modify_to_init(self.qp).expect("from RESET");
        self.engine.modify_to_rtr(Instant::ZERO, self.qp, &rtr).expect("from INIT");
        self.engine.modify_to_rts(Instant::ZERO, self.qp, &RtsAttr::software(Psn::new(7))).expect("from RTR");
    }

    /// Takes a frame. A payload is handed to the DMA engine; nothing waits for it here.
    fn receive(&mut self, now: Instant, frame: &[u8]) {
        let rx = RxMeta { port: port(), wire_len: frame.len(), icrc: IcrcCheck::Verify };
        if let Ok(Received::Place(place)) = self.engine.handle_packet(now, rx, frame) {
            let bytes = frame[place.payload].to_vec();
            self.dma.push(Transfer { token: place.token, to: place.offset as usize, bytes });
        }
    }

    /// The DMA engine says that transfer `nth` is in memory.
    fn dma_done(&mut self, now: Instant, nth: usize) {
        let Transfer { token, to, bytes } = self.dma.swap_remove(nth);
        self.memory[to..to + bytes.len()].copy_from_slice(&bytes);
        self.engine.placed(now, token).expect("open until now");
    }

    /// The DMA engine says that transfer `nth` failed.
    fn dma_failed(&mut self, now: Instant, nth: usize) {
        let Transfer { token, .. } = self.dma.swap_remove(nth);
        self.engine.place_failed(now, token).expect("open until now");
    }

    /// Frames that the engine wants to send, and completions. No barrier before it.
    fn drain(&mut self, now: Instant, wire: &mut VecDeque<Vec<u8>>) {
        let mut headers = [0; MAX_HEADER_LEN];
        while let Some(tx) = self.engine.poll_transmit(now, PortMask::ALL, &mut headers) {
            let mut frame = headers[..tx.header_len].to_vec();
            if let Some(payload) = tx.payload {
                let at = payload.offset as usize;
                frame.extend(&self.memory[at..at + payload.len as usize]);
            }
            frame.resize(frame.len() + usize::from(tx.pad), 0);
            frame.extend(icrc::compute(&frame[tx.l3_offset..]).expect("a packet"));
            wire.push_back(frame);
        }
        self.completions.extend(std::iter::from_fn(|| self.engine.poll_completion(self.cq)));
    }
}

/// Two NICs and the frames to each.
struct World<'s> {
    nics: [Nic<'s>; 2],
    wires: [VecDeque<Vec<u8>>; 2],
    now: Instant,
}

impl World<'_> {
    /// Moves frames until none is under way. Transfers of the DMA engines do not move meanwhile.
    fn exchange(&mut self) {
        loop {
            let [to_a, to_b] = &mut self.wires;
            self.nics[0].drain(self.now, to_b);
            self.nics[1].drain(self.now, to_a);
            let Some(side) = (0..2).find(|&side| !self.wires[side].is_empty()) else { return };
            self.now = self.now.after(1_000);
            let frame = self.wires[side].pop_front().expect("just seen");
            self.nics[side].receive(self.now, &frame);
        }
    }

    fn post(&mut self, wr_id: u64, imm: Option<u32>) {
        let key = |nic: &Nic<'_>| nic.engine.key(nic.mr).expect("registered");
        let [a, b] = &self.nics;
        let wr = SendWr {
            wr_id,
            lkey: key(a).0,
            local_va: VA,
            len: MESSAGE as u32,
            remote_va: VA,
            rkey: key(b),
            signaled: true,
            imm,
            solicited: false,
        };
        let now = self.now;
        let a = &mut self.nics[0];
        a.engine.post_send(now, a.qp, &wr).expect("the queue has room");
    }
}

/// The two stories; what happened in each, in order.
pub(crate) fn run() -> Vec<String> {
    let limits = Limits { qps: 1, ..Limits::default() };
    let mut storage = [limits, limits].map(|limits| OwnedStorage::new(limits).expect("sound limits"));
    let [a, b] = &mut storage;
    let mut nics = [Nic::new(0, a), Nic::new(1, b)];
    let qps = [nics[0].qp, nics[1].qp];
    nics[0].connect(0, qps[1]);
    nics[1].connect(1, qps[0]);
    nics[0].memory[..MESSAGE].iter_mut().zip(0u32..).for_each(|(byte, n)| *byte = (n * 7 + n / 251) as u8);
    let mut world = World { nics, wires: [VecDeque::new(), VecDeque::new()], now: Instant::ZERO };
    let mut story = Vec::new();

    // A write with immediate, whose payloads land late, the last ones first.
    let qp = world.nics[1].qp;
    world.nics[1].engine.post_recv(qp, 77).expect("the queue has room");
    world.post(1, Some(0xC0FFEE));
    world.exchange();
    let sender = world.nics[0].engine.qp_info(qps[0]).expect("exists");
    story.push(format!("{} transfers open, {} packets outstanding", world.nics[1].dma.len(), sender.outstanding));
    while let Some(newest) = world.nics[1].dma.len().checked_sub(1) {
        let now = world.now;
        world.nics[1].dma_done(now, newest);
        world.exchange();
        let done = world.nics.each_ref().map(|nic| nic.completions.len());
        if done != [0, 0] {
            let same = world.nics[1].memory[..MESSAGE] == world.nics[0].memory[..MESSAGE];
            story.push(format!("{} left: completions {done:?}, bytes the same: {same}", world.nics[1].dma.len()));
        }
    }

    // A write of which one payload cannot be moved.
    world.post(2, None);
    world.exchange();
    let now = world.now;
    world.nics[1].dma_failed(now, 3);
    world.exchange();
    let failed = world.nics[0].completions.iter().find(|done| done.wr_id == 2).map(|done| done.status);
    story.push(format!(
        "write 2: {failed:?}, as the peer cannot execute it: {}",
        failed == Some(Status::RemoteOperation)
    ));
    // What the DMA engine finishes later is still reported, and changes nothing.
    while !world.nics[1].dma.is_empty() {
        world.nics[1].dma_done(now, 0);
    }
    story
}

fn main() {
    for line in run() {
        println!("{line}");
    }
}
