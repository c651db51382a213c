//! The progress loop: one thread that owns the engine and the ports. Moves frames and bytes; decides nothing about the
//! protocol. Source: the contract on `mrc_core::Endpoint`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use mrc_core::{
    Access, Completion, CqHandle, Endpoint, IcrcCheck, Instant, MAX_HEADER_LEN, MrHandle, Pd, PortMask, Received,
    RxMeta, TableError, Transmit,
};
use mrc_wire::{PortNum, Rkey, icrc};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{DeviceEvent, DeviceStats, Idle, Job, Memory, Post, range_of, since};
use crate::ring::doorbell::Doorbell;
use crate::ring::spsc;
use crate::{AnyPort, LinkMonitor, LinkState, MemRegion, Port as _, RxFrame};

/// Frames taken from a port, and frames sent, in one turn: bounds the time between two looks at everything else.
const BATCH: usize = 64;

/// Longest sleep, so that a lost wake-up costs little.
const LONGEST_SLEEP_NS: u64 = 100_000_000;

/// What the thread shares with the application.
pub(super) struct Shared {
    pub(super) jobs: mpsc::Receiver<Job>,
    pub(super) events: mpsc::Sender<DeviceEvent>,
    pub(super) bell: Arc<Doorbell>,
}

struct AppQueue {
    cq: CqHandle,
    posts: spsc::Receiver<Post>,
    completions: spsc::Sender<Completion>,
    /// A post that the engine had no room for.
    waiting: Option<Post>,
}

/// Everything the progress thread owns.
pub(super) struct Progress<'s> {
    pub(super) engine: Endpoint<'s>,
    ports: Vec<AnyPort>,
    links: LinkMonitor,
    shared: Shared,
    queues: Vec<AppQueue>,
    memory: Memory,
    idle: Idle,
    origin: std::time::Instant,
    /// Frames still with the kernel, per port.
    pending: Vec<usize>,
}

impl<'s> Progress<'s> {
    pub(super) fn new(
        engine: Endpoint<'s>,
        ports: Vec<AnyPort>,
        links: LinkMonitor,
        shared: Shared,
        idle: Idle,
    ) -> Self {
        let memory = vec![None; engine.limits().mrs];
        let pending = vec![0; ports.len()];
        let origin = std::time::Instant::now();
        let mut progress = Self { engine, ports, links, shared, queues: Vec::new(), memory, idle, origin, pending };
        for plane in 0..progress.ports.len() {
            let state = progress.links.state(progress.ports[plane].ifindex());
            if state != Some(LinkState::Up) {
                progress.engine.set_port(Instant::ZERO, port_of(plane), false);
            }
        }
        progress
    }

    pub(super) fn now(&self) -> Instant {
        since(self.origin)
    }

    pub(super) fn run(&mut self, stop: &AtomicBool) {
        let mut last_work = self.now();
        while !stop.load(Ordering::Acquire) {
            let now = self.now();
            if self.turn(now) {
                last_work = now;
                continue;
            }
            match self.idle {
                Idle::Spin => std::hint::spin_loop(),
                Idle::SleepAfter(patience) => {
                    if u128::from(now.since(last_work)) >= patience.as_nanos() {
                        self.sleep(now);
                    } else {
                        std::thread::yield_now();
                    }
                }
            }
        }
    }

    /// One turn over everything; whether there was anything to do.
    fn turn(&mut self, now: Instant) -> bool {
        let mut worked = self.run_jobs();
        worked |= self.take_links(now);
        worked |= self.take_posts(now);
        for plane in 0..self.ports.len() {
            worked |= self.receive(now, plane);
        }
        if self.engine.next_timeout().is_some_and(|at| at <= now) {
            self.engine.handle_timeout(now);
            worked = true;
        }
        worked |= self.transmit(now);
        worked |= self.deliver();
        worked
    }

    fn run_jobs(&mut self) -> bool {
        let mut worked = false;
        while let Ok(job) = self.shared.jobs.try_recv() {
            job(self);
            worked = true;
        }
        worked
    }

    fn take_links(&mut self, now: Instant) -> bool {
        let (engine, ports, events) = (&mut self.engine, &self.ports, &self.shared.events);
        let seen = self.links.poll(|event| {
            log::info!("{event}");
            if let Some(plane) = ports.iter().position(|port| port.ifindex() == event.ifindex) {
                engine.set_port(now, port_of(plane), event.state == LinkState::Up);
            }
            let _ = events.send(DeviceEvent::Link(event.to_string()));
        });
        match seen {
            Ok(count) => count > 0,
            Err(error) => {
                log::error!("link events lost: {error}");
                false
            }
        }
    }

    fn take_posts(&mut self, now: Instant) -> bool {
        let mut worked = false;
        for queue in &mut self.queues {
            for _ in 0..BATCH {
                let Some(post) = queue.waiting.take().or_else(|| queue.posts.pop()) else { break };
                match self.engine.post_send(now, post.qp, &post.wr) {
                    Ok(()) => worked = true,
                    Err(mrc_core::PostError::Full) => {
                        queue.waiting = Some(post);
                        break;
                    }
                    Err(why) => {
                        let _ = self.shared.events.send(DeviceEvent::PostRefused { wr_id: post.wr.wr_id, why });
                    }
                }
            }
        }
        // A queue whose application end is gone has nothing more to say.
        worked
    }

    fn receive(&mut self, now: Instant, plane: usize) -> bool {
        let (engine, memory) = (&mut self.engine, &self.memory);
        let Some(port) = self.ports.get_mut(plane) else { return false };
        let count = port.rx_batch(BATCH, |frame| {
            let icrc = match frame.contiguous() {
                Some(_) => IcrcCheck::Verify,
                None if icrc_matches(&frame) => IcrcCheck::Valid,
                None => IcrcCheck::Invalid,
            };
            let meta = RxMeta { port: port_of(plane), wire_len: frame.len(), icrc };
            // A discard is counted by the engine under its reason.
            if let Ok(Received::Place(place)) = engine.handle_packet(now, meta, frame.head()) {
                let Some(Some(region)) = memory.get(place.mr.index()) else { return };
                let mut offset = place.offset;
                for piece in frame.pieces(place.payload) {
                    // The engine has checked the bounds against the same region.
                    let placed = region.place(offset, piece);
                    debug_assert!(placed.is_ok());
                    offset += piece.len() as u64;
                }
            }
        });
        count > 0
    }

    fn transmit(&mut self, now: Instant) -> bool {
        let mut headers = [0u8; MAX_HEADER_LEN];
        let mut worked = false;
        let mut touched = PortMask::NONE;
        let mut free = self.free_ports();
        for _ in 0..BATCH {
            let Some(transmit) = self.engine.poll_transmit(now, free, &mut headers) else { break };
            worked = true;
            let plane = usize::from(transmit.port.plane());
            touched = touched.with(transmit.port);
            let Some(port) = self.ports.get_mut(plane) else { continue };
            if let Some(mut slot) = port.tx_slot()
                && let Some(len) = fill(slot.buffer(), &headers, &transmit, &self.memory)
            {
                slot.commit(len);
            }
            if port.tx_free() == 0 {
                free = free.without(transmit.port);
            }
        }
        for plane in 0..self.ports.len() {
            if touched.contains(port_of(plane)) || self.pending[plane] > 0 {
                match self.ports[plane].flush() {
                    Ok(left) => self.pending[plane] = left,
                    Err(error) => {
                        log::debug!("plane {plane}: {error}");
                        self.pending[plane] = 0;
                    }
                }
            }
        }
        worked
    }

    fn free_ports(&mut self) -> PortMask {
        let mut free = PortMask::NONE;
        for (plane, port) in self.ports.iter_mut().enumerate() {
            if port.tx_free() > 0 {
                free = free.with(port_of(plane));
            }
        }
        free
    }

    /// Completions and events to the application.
    fn deliver(&mut self) -> bool {
        let mut worked = false;
        for queue in &mut self.queues {
            while queue.completions.free() > 0 {
                let Some(completion) = self.engine.poll_completion(queue.cq) else { break };
                worked = true;
                if queue.completions.push(completion).is_err() {
                    break;
                }
            }
        }
        while let Some(event) = self.engine.poll_event() {
            worked = true;
            let _ = self.shared.events.send(DeviceEvent::Engine(event));
        }
        worked
    }

    /// Sleeps until a frame, a post, a command or a timer comes.
    fn sleep(&mut self, now: Instant) {
        let bell = Arc::clone(&self.shared.bell);
        bell.announce_sleep();
        let waiting = self.queues.iter_mut().any(|queue| queue.waiting.is_none() && !queue.posts.is_empty());
        let kernel_busy = self.pending.iter().any(|&frames| frames > 0);
        let until = self.engine.next_timeout().map_or(LONGEST_SLEEP_NS, |at| at.since(now)).min(LONGEST_SLEEP_NS);
        // Frames that the kernel still holds need another kick soon.
        let until = if kernel_busy { until.min(1_000_000) } else { until };
        if !waiting && until > 0 && !self.run_jobs() {
            let timeout = Timespec { tv_sec: 0, tv_nsec: until as i64 };
            let mut fds = Vec::with_capacity(self.ports.len() + 2);
            fds.extend(self.ports.iter().map(|port| PollFd::from_borrowed_fd(port.fd(), PollFlags::IN)));
            fds.push(PollFd::from_borrowed_fd(bell.fd(), PollFlags::IN));
            fds.push(PollFd::from_borrowed_fd(self.links.fd(), PollFlags::IN));
            // An interrupted or failed sleep is a short sleep.
            let _ = poll(&mut fds, Some(&timeout));
        }
        bell.awake();
    }

    pub(super) fn register(
        &mut self,
        pd: Pd,
        memory: Arc<MemRegion>,
        access: Access,
    ) -> Result<(MrHandle, Rkey), TableError> {
        let mr = self.engine.register_mr(pd, range_of(&memory), access)?;
        let key = self.engine.key(mr).ok_or(TableError::Unknown("memory region"))?;
        if let Some(slot) = self.memory.get_mut(mr.index()) {
            *slot = Some(memory);
        }
        Ok((mr, key))
    }

    pub(super) fn deregister(&mut self, mr: MrHandle) -> Result<(), TableError> {
        self.engine.deregister_mr(mr)?;
        if let Some(slot) = self.memory.get_mut(mr.index()) {
            *slot = None;
        }
        Ok(())
    }

    pub(super) fn add_queue(
        &mut self,
        posts: spsc::Receiver<Post>,
        completions: spsc::Sender<Completion>,
    ) -> Result<CqHandle, TableError> {
        let cq = self.engine.create_cq()?;
        self.queues.push(AppQueue { cq, posts, completions, waiting: None });
        Ok(cq)
    }

    pub(super) fn stats(&self) -> DeviceStats {
        DeviceStats { engine: *self.engine.stats(), ports: self.ports.iter().map(|port| port.stats()).collect() }
    }
}

fn port_of(plane: usize) -> PortNum {
    PortNum::from_plane(plane as u8)
}

/// Builds the frame: headers, payload, pad, ICRC. Returns its length; `None` when the region is gone or the buffer is
/// too short, and then nothing is sent.
fn fill(buffer: &mut [u8], headers: &[u8], transmit: &Transmit, memory: &Memory) -> Option<usize> {
    let len = transmit.frame_len();
    let frame = buffer.get_mut(..len)?;
    let (head, rest) = frame.split_at_mut_checked(transmit.header_len)?;
    head.copy_from_slice(headers.get(..transmit.header_len)?);
    let payload_len = transmit.payload.map_or(0, |payload| payload.len as usize);
    let (payload, tail) = rest.split_at_mut_checked(payload_len)?;
    if let Some(source) = transmit.payload {
        memory.get(source.mr.index())?.as_ref()?.gather(source.offset, payload).ok()?;
    }
    tail.fill(0);
    //= ICRC-009
    let covered = len - icrc::LEN;
    let crc = icrc::compute(frame.get(transmit.l3_offset..covered)?)?;
    frame.get_mut(covered..)?.copy_from_slice(&crc);
    Some(len)
}

/// The ICRC of a frame in several buffers. Such frames are longer than any Ethernet padding, so the ICRC is their end.
fn icrc_matches(frame: &RxFrame<'_>) -> bool {
    let Some(start) = icrc::start(frame.head()) else { return false };
    let Some(mut running) = frame.head().get(start..).and_then(icrc::Icrc::over_headers) else { return false };
    let Some(end) = frame.len().checked_sub(icrc::LEN) else { return false };
    if end < frame.head().len() {
        return false;
    }
    for piece in frame.pieces(frame.head().len()..end) {
        running.update(piece);
    }
    let mut carried = [0u8; icrc::LEN];
    let mut at = 0;
    for piece in frame.pieces(end..frame.len()) {
        let Some(to) = carried.get_mut(at..at + piece.len()) else { return false };
        to.copy_from_slice(piece);
        at += piece.len();
    }
    running.finish() == carried
}
