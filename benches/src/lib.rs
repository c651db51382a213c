//! Shared pieces of the benches: interleaved timing, and two engines wired back to back in memory.

pub mod cases;

use mrc_core::cc::CcConfig;
use mrc_core::path::{EvEntry, compact_profile};
use mrc_core::{
    Access, CqHandle, Discard, Endpoint, EndpointConfig, FrameSink, FrameSource, IcrcCheck, Instant, Limits,
    MAX_HEADER_LEN, MAX_PORTS, MemRange, OwnedStorage, Pd, PeerConfig, PlanePath, PortConfig, PortMask, QpHandle,
    QpInit, Received, Route, RtrAttr, RtsAttr, RxMeta, SendWr, Transmit,
};
use mrc_wire::srv6::{CopyOp, EvTemplate};
use mrc_wire::{Ev, Ip, PortNum, Psn, Rkey, icrc};
use rustix::time::{ClockId, clock_gettime};

/// Application address of the benches' region, and its length in bytes.
pub const VA: u64 = 0x1000_0000;
/// Bytes of the region.
pub const REGION: usize = 1 << 20;

/// Nanoseconds of processor time that `f` takes per unit of the work it says it did: what others run meanwhile does not count, what they
/// take of the caches does.
pub fn per_unit(f: impl FnOnce() -> u64) -> f64 {
    let start = clock_gettime(ClockId::ThreadCPUTime);
    let units = f();
    let end = clock_gettime(ClockId::ThreadCPUTime);
    let nanos = (end.tv_sec - start.tv_sec) * 1_000_000_000 + (end.tv_nsec - start.tv_nsec);
    nanos as f64 / units.max(1) as f64
}

/// Median of at least one value.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Runs `a` and `b` in turn, A B A B, and returns the medians of both and of the ratio A / B.
pub fn pairs(count: usize, mut a: impl FnMut() -> f64, mut b: impl FnMut() -> f64) -> (f64, f64, f64) {
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    for _ in 0..count {
        of_a.push(a());
        of_b.push(b());
    }
    let ratio = median(of_a.iter().zip(&of_b).map(|(a, b)| a / b).collect());
    (median(of_a), median(of_b), ratio)
}

/// Congestion window of a bench's endpoint in bytes, which all its queue pairs share.
pub const WINDOW: u32 = 256 << 10;

/// How much of a driver's work a run includes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Headers only: what the engine itself costs.
    Headers,
    /// With one payload copy and the ICRC at each end.
    CopyAndIcrc,
}

/// One endpoint with `qps` queue pairs towards its peer over two SRv6 planes.
pub struct Side<'s> {
    /// The engine.
    pub engine: Endpoint<'s>,
    /// Queue pairs.
    pub qps: Vec<QpHandle>,
    /// Where all completions go.
    pub cq: CqHandle,
    key: u32,
    memory: Box<Memory>,
}

/// What the region's payloads are read from and placed in: less than the region, so that both ends fit in a second-level
/// cache together, and in pages, as applications register it.
#[repr(align(4096))]
struct Memory([u8; MEMORY]);

const MEMORY: usize = 256 << 10;

impl Memory {
    fn at(&mut self, offset: u64, len: usize) -> &mut [u8] {
        &mut self.0[offset as usize % MEMORY..][..len]
    }
}

/// Storage for `qps` queue pairs.
pub fn storage(qps: usize) -> OwnedStorage {
    OwnedStorage::new(Limits { qps, send_queue: 16, ..Limits::default() }).expect("limits")
}

fn address(side: u8) -> [u8; 16] {
    [0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, side]
}

impl<'s> Side<'s> {
    /// Endpoint number `which` (0 or 1). Its queue pairs share one congestion window of [`WINDOW`] bytes.
    pub fn new(storage: &'s mut OwnedStorage, which: u8, qps: usize) -> Self {
        Self::with_window(storage, which, qps, WINDOW)
    }

    /// As [`Side::new`], with a congestion window of `window_bytes`.
    pub fn with_window(storage: &'s mut OwnedStorage, which: u8, qps: usize, window_bytes: u32) -> Self {
        let cc = CcConfig::Fixed { window_bytes };
        // No Port Status Updates: they are not what is measured, and both sides send them at the same instant.
        let mut cfg =
            EndpointConfig { cc, port_update_on_rts: false, ev_probe_rate_limit: 0, ..EndpointConfig::software() };
        cfg.gids[0] = Some(Ip::V6(address(which)));
        for (plane, port) in cfg.ports.iter_mut().take(2).enumerate() {
            // The mapping below leaves the T0 part of the destination for the host: what "arrives" is what was sent.
            *port = Some(PortConfig { mac: [2; 6], sid: None, addr: Some(address(0x10 + plane as u8)) });
        }
        let mut engine = Endpoint::new(cfg, storage.lend(), u64::from(which) + 1).expect("configuration");
        let cq = engine.create_cq().expect("completion queue");
        let range = MemRange { va: VA, len: REGION as u64 };
        let mr = engine.register_mr(Pd(0), range, Access::REMOTE_WRITE).expect("region");
        let key = engine.key(mr).expect("key").0;
        let init = QpInit { pd: Pd(0), send_cq: cq, recv_cq: cq };
        let qps = (0..qps).map(|_| engine.create_qp(&init).expect("queue pair")).collect();
        // Not of zeros: pages that nobody wrote to would all be the same one.
        Self { engine, qps, cq, key, memory: Box::new(Memory([which + 1; MEMORY])) }
    }

    /// Connects every queue pair to the other side's.
    pub fn connect(&mut self, which: u8, peers: &[QpHandle]) {
        let mut planes = [None; MAX_PORTS];
        for plane in planes.iter_mut().take(2) {
            *plane = Some(PlanePath { next_hop: [4; 6], outer_src: Some(address(9)) });
        }
        // Five copies, as the production mapping has; the last one puts the plane where the receiver looks.
        let op = |ev_lsb, width, dst_msb_offset| CopyOp { ev_lsb, width, dst_msb_offset };
        let ops = [op(16, 4, 36), op(16, 4, 52), op(16, 4, 68), op(16, 8, 56), op(8, 4, 124)];
        let map = EvTemplate::new(address(0x10), &ops).expect("template");
        let (local, remote) = (Ip::V6(address(which)), Ip::V6(address(1 - which)));
        let config = PeerConfig { local, remote, planes, route: Route::Srv6(map), hop_limit: 64 };
        let peer = self.engine.add_peer(&config).expect("peer");
        let mut entries = [EvEntry::new(Ev(0), PortNum::from_plane(0)); 192];
        compact_profile(&mut entries, 2, 96, 8).expect("paths");
        let ev_profile = self.engine.create_ev_profile(&entries).expect("profile");
        for (&qp, far) in self.qps.iter().zip(peers) {
            self.engine.modify_to_init(qp).expect("init");
            let rtr = RtrAttr {
                peer,
                dest_qp: far.qpn(),
                rq_psn: Psn::new(0),
                path_mtu: 4096,
                mpr_dest: 8,
                ev_profile,
                trim_nack: false,
                max_wimm_dest: 32,
                dynamic_mpr: false,
                svc_time: false,
                private_stamps_us: false,
            };
            self.engine.modify_to_rtr(Instant::ZERO, qp, &rtr).expect("rtr");
            let rts = RtsAttr::software(Psn::new(0));
            self.engine.modify_to_rts(Instant::ZERO, qp, &rts).expect("rts");
        }
    }

    /// Sends one burst of what may leave now to `to`, as a driver does; returns the frames.
    fn burst(&mut self, to: &mut Side<'_>, now: Instant, ring: &mut Ring, work: Work) -> u64 {
        self.engine.transmit(now, ring);
        let frames = ring.sent.len() as u64;
        if frames == 0 {
            return 0;
        }
        if work == Work::CopyAndIcrc {
            self.append(ring);
        }
        let Side { engine, memory, .. } = &mut *to;
        engine.receive(
            now,
            &mut Arrivals { sent: ring.sent.iter(), frames: ring.frames.iter(), memory, work, last: &[] },
        );
        ring.sent.clear();
        frames
    }

    /// What a driver appends to the headers of every frame.
    fn append(&mut self, ring: &mut Ring) {
        for (tx, buffer) in ring.sent.iter().zip(ring.frames.iter_mut()) {
            let buffer = &mut buffer.0[LEAD..];
            if let Some(payload) = tx.payload {
                let n = payload.len as usize;
                buffer[tx.header_len..tx.header_len + n].copy_from_slice(self.memory.at(payload.offset, n));
            }
            let len = tx.frame_len();
            let end = len - icrc::LEN;
            let crc = icrc::compute(&buffer[tx.l3_offset..end]).expect("a packet");
            buffer[end..len].copy_from_slice(&crc);
        }
    }
}

/// Frames that one burst may fill, unless a case says otherwise.
pub const BURST: usize = 16;

/// Bytes of a frame with 4 KiB of payload, and a few more: in frames a power of two apart all headers would share a set
/// of the cache.
const FRAME: usize = 4096 + 320;

/// Where the headers begin in a frame: payloads behind 138 bytes of them then begin with a line of the cache.
const LEAD: usize = 54;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Frame([u8; FRAME]);

/// A ring of frames, as a driver has one for as long as it runs.
pub struct Ring {
    frames: Box<[Frame; BURST]>,
    /// Frames that one burst fills, at most [`BURST`].
    burst: usize,
    sent: Vec<Transmit>,
}

impl Default for Ring {
    fn default() -> Self {
        Self { frames: Box::new([Frame([0; FRAME]); BURST]), burst: BURST, sent: Vec::with_capacity(BURST) }
    }
}

impl FrameSink for Ring {
    fn ports(&self) -> PortMask {
        if self.sent.len() < self.burst { PortMask::ALL } else { PortMask::NONE }
    }

    fn headers(&mut self) -> &mut [u8; MAX_HEADER_LEN] {
        self.frames[self.sent.len()].0[LEAD..].first_chunk_mut().expect("a frame is longer than its headers")
    }

    fn push(&mut self, transmit: Transmit) {
        self.sent.push(transmit);
    }
}

/// The frames of a ring on their way in.
struct Arrivals<'a> {
    sent: std::slice::Iter<'a, Transmit>,
    frames: std::slice::Iter<'a, Frame>,
    memory: &'a mut Memory,
    work: Work,
    /// The frame last given out.
    last: &'a [u8],
}

impl FrameSource for Arrivals<'_> {
    fn next(&mut self) -> Option<(RxMeta, &[u8])> {
        let (tx, buffer) = (self.sent.next()?, self.frames.next()?);
        let wire_len = tx.frame_len();
        let (icrc, head) = match self.work {
            Work::Headers => (IcrcCheck::Valid, tx.header_len),
            Work::CopyAndIcrc => (IcrcCheck::Verify, wire_len),
        };
        self.last = &buffer.0[LEAD..][..head];
        Some((RxMeta { port: tx.port, wire_len, icrc }, self.last))
    }

    fn peek(&self, ahead: usize) -> Option<&[u8]> {
        let (tx, buffer) = (self.sent.as_slice().get(ahead)?, self.frames.as_slice().get(ahead)?);
        Some(&buffer.0[LEAD..][..tx.header_len])
    }

    fn done(&mut self, result: Result<Received, Discard>) {
        match result {
            Ok(Received::Place(at)) if self.work == Work::CopyAndIcrc => {
                self.memory.at(at.offset, at.payload.len()).copy_from_slice(&self.last[at.payload]);
            }
            Ok(_) => {}
            Err(why) => panic!("a frame of the bench was refused: {why}"),
        }
    }
}

/// What is written, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// Bytes of each message.
    pub message: u32,
    /// Messages that each queue pair has posted at once; at most 16.
    pub depth: u64,
    /// Frames that one burst fills; at most [`BURST`].
    pub burst: usize,
    /// The driver's part.
    pub work: Work,
}

/// Writes `rounds` times what `load` says from every queue pair of A to B; returns the data packets. Every turn is 20 us
/// after the one before. Its own function, which callgrind can find.
#[inline(never)]
pub fn transfer(
    a: &mut Side<'_>,
    b: &mut Side<'_>,
    ring: &mut Ring,
    now: &mut Instant,
    rounds: u64,
    load: Load,
) -> u64 {
    ring.burst = load.burst;
    let before = a.engine.stats().tx_data;
    for _ in 0..rounds {
        for nth in 0..load.depth {
            for &qp in &a.qps {
                let wr = SendWr {
                    wr_id: nth,
                    lkey: a.key,
                    local_va: VA,
                    len: load.message,
                    remote_va: VA,
                    rkey: Rkey(b.key),
                    signaled: true,
                    ..SendWr::default()
                };
                a.engine.post_send(*now, qp, &wr).expect("room in the send queue");
            }
        }
        let mut open = load.depth * a.qps.len() as u64;
        while open > 0 {
            *now = now.after(20_000);
            let mut moved = 0;
            // Burst by burst, each side in turn: what one receives together it answers before more arrives.
            loop {
                let frames = a.burst(b, *now, ring, load.work) + b.burst(a, *now, ring, load.work);
                if frames == 0 {
                    break;
                }
                moved += frames;
            }
            assert!(moved > 0, "the transfer stands still");
            while a.engine.poll_completion(a.cq).is_some() {
                open -= 1;
            }
        }
    }
    a.engine.stats().tx_data - before
}
