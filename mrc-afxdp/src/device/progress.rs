//! The progress loop: one thread that owns the engine and the ports. Moves frames and bytes; decides nothing about the
//! protocol. Source: the contract on `mrc_core::Endpoint`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use mrc_core::{
    Access, Completion, CqHandle, Endpoint, IcrcCheck, Instant, MAX_HEADER_LEN, MemRange, MrHandle, Operation, Pd,
    PortMask, PostError, Received, RxMeta, Status, TableError, Transmit,
};
use mrc_wire::{Ev, PortNum, Rkey, icrc};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::queue::{CompletionWaker, Post, Work};
use super::{DeviceEvent, DeviceStats, EventHook, Idle, Job, Memory, PathBytes, since};
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

impl Shared {
    fn raise(&self, hook: Option<&EventHook>, event: DeviceEvent) {
        match hook {
            Some(hook) => hook(event),
            // Nobody listens when the device is being closed.
            None => drop(self.events.send(event)),
        }
    }
}

/// Posts of one application thread.
struct Source {
    posts: spsc::Receiver<Post>,
    /// Where a refused post completes.
    cq: CqHandle,
    /// A post that the engine, or the ring of completions, had no room for.
    waiting: Option<Post>,
}

/// The application's end of a completion queue.
struct Sink {
    cq: CqHandle,
    completions: spsc::Sender<Completion>,
    waker: Option<Arc<dyn CompletionWaker>>,
}

/// Everything the progress thread owns.
pub(super) struct Progress<'s> {
    pub(super) engine: Endpoint<'s>,
    ports: Vec<AnyPort>,
    links: LinkMonitor,
    shared: Shared,
    hook: Option<EventHook>,
    sources: Vec<Source>,
    sinks: Vec<Sink>,
    memory: Memory,
    idle: Idle,
    origin: std::time::Instant,
    /// Frames still with the kernel, per port.
    pending: Vec<usize>,
    /// Payload bytes by path, if they are to be counted.
    paths: Option<BTreeMap<(u8, u32), u64>>,
}

impl<'s> Progress<'s> {
    pub(super) fn new(
        engine: Endpoint<'s>,
        ports: Vec<AnyPort>,
        links: LinkMonitor,
        shared: Shared,
        idle: Idle,
        count_paths: bool,
    ) -> Self {
        let memory = vec![None; engine.limits().mrs];
        let pending = vec![0; ports.len()];
        let origin = std::time::Instant::now();
        let (sources, sinks, hook) = (Vec::new(), Vec::new(), None);
        let paths = count_paths.then(BTreeMap::new);
        let mut progress =
            Self { engine, ports, links, shared, hook, sources, sinks, memory, idle, origin, pending, paths };
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
            // What happened before a call is heard before it: an error of a QP never after its reset.
            self.raise_events();
            job(self);
            worked = true;
        }
        worked
    }

    fn raise_events(&mut self) -> bool {
        let mut worked = false;
        while let Some(event) = self.engine.poll_event() {
            worked = true;
            self.shared.raise(self.hook.as_ref(), DeviceEvent::Engine(event));
        }
        worked
    }

    fn take_links(&mut self, now: Instant) -> bool {
        let (engine, ports, shared, hook) = (&mut self.engine, &self.ports, &self.shared, self.hook.as_ref());
        let seen = self.links.poll(|event| {
            log::info!("{event}");
            if let Some(plane) = ports.iter().position(|port| port.ifindex() == event.ifindex) {
                engine.set_port(now, port_of(plane), event.state == LinkState::Up);
            }
            shared.raise(hook, DeviceEvent::Link(event.to_string()));
        });
        match seen {
            Ok(count) => count > 0,
            Err(error) => {
                log::error!("link events lost: {error}");
                false
            }
        }
    }

    pub(super) fn take_posts(&mut self, now: Instant) -> bool {
        let mut worked = false;
        for source in &mut self.sources {
            for _ in 0..BATCH {
                let Some(post) = source.waiting.take().or_else(|| source.posts.pop()) else { break };
                let posted = match post.work {
                    Work::Write(wr) => self.engine.post_send(now, post.qp, &wr),
                    Work::Receive(wr_id) => self.engine.post_recv(post.qp, wr_id),
                };
                match posted {
                    Ok(()) => worked = true,
                    Err(PostError::Full) => {
                        source.waiting = Some(post);
                        break;
                    }
                    Err(why) => {
                        if !refuse(&mut self.sinks, source.cq, &post, why) {
                            source.waiting = Some(post);
                            break;
                        }
                        if !matches!(why, PostError::UnknownQp | PostError::State(_)) {
                            // As for any request that fails: those behind it are flushed. The QP exists, so this works.
                            let _ = self.engine.modify_to_error(now, post.qp);
                        }
                        let event = DeviceEvent::PostRefused { wr_id: post.work.wr_id(), why };
                        self.shared.raise(self.hook.as_ref(), event);
                        worked = true;
                    }
                }
            }
        }
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
                if let (Some(paths), Some(payload)) = (&mut self.paths, transmit.payload) {
                    *paths.entry((transmit.port.plane(), transmit.ev.0)).or_default() += u64::from(payload.len);
                }
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
        for sink in &mut self.sinks {
            let (mut some, mut solicited) = (false, false);
            while sink.completions.free() > 0 {
                let Some(completion) = self.engine.poll_completion(sink.cq) else { break };
                some = true;
                solicited |= completion.solicited || completion.status != Status::Success;
                if sink.completions.stage(completion).is_err() {
                    break;
                }
            }
            if some {
                worked = true;
                sink.completions.publish();
                if let Some(waker) = &sink.waker {
                    waker.completed(solicited);
                }
            }
        }
        worked | self.raise_events()
    }

    /// Sleeps until a frame, a post, a command or a timer comes.
    fn sleep(&mut self, now: Instant) {
        let bell = Arc::clone(&self.shared.bell);
        bell.announce_sleep();
        let waiting = self.sources.iter_mut().any(|source| source.waiting.is_none() && !source.posts.is_empty());
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
        va: u64,
        access: Access,
    ) -> Result<(MrHandle, Rkey), TableError> {
        let mr = self.engine.register_mr(pd, MemRange { va, len: memory.len() as u64 }, access)?;
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

    pub(super) fn add_cq(
        &mut self,
        completions: spsc::Sender<Completion>,
        waker: Option<Arc<dyn CompletionWaker>>,
    ) -> Result<CqHandle, TableError> {
        self.sweep();
        let cq = self.engine.create_cq()?;
        self.sinks.push(Sink { cq, completions, waker });
        Ok(cq)
    }

    pub(super) fn add_work_queue(&mut self, posts: spsc::Receiver<Post>, cq: CqHandle) {
        self.sweep();
        self.sources.push(Source { posts, cq, waiting: None });
    }

    /// Forgets the rings whose application end is gone. Posts in flight go first, completion queues after their QPs.
    pub(super) fn sweep(&mut self) {
        self.sources
            .retain_mut(|source| source.waiting.is_some() || !source.posts.is_closed() || !source.posts.is_empty());
        let engine = &mut self.engine;
        self.sinks.retain(|sink| !sink.completions.is_closed() || engine.destroy_cq(sink.cq).is_err());
    }

    pub(super) fn set_hook(&mut self, hook: EventHook) {
        self.hook = Some(hook);
    }

    pub(super) fn stats(&self) -> DeviceStats {
        let path =
            |(&(plane, ev), &bytes): (&(u8, u32), &u64)| PathBytes { port: port_of(plane.into()), ev: Ev(ev), bytes };
        DeviceStats {
            at: self.now(),
            engine: *self.engine.stats(),
            ports: self.ports.iter().map(|port| port.stats()).collect(),
            paths: self.paths.iter().flatten().map(path).collect(),
        }
    }
}

/// Completes a post that the engine refused; `false` when there is no room for that yet.
fn refuse(sinks: &mut [Sink], cq: CqHandle, post: &Post, why: PostError) -> bool {
    let status = match why {
        PostError::UnknownQp => return true,
        PostError::State(_) => Status::Flushed,
        PostError::TooLong { .. } => Status::LocalLength,
        PostError::NoWriteImm => Status::LocalOperation,
        _ => Status::LocalProtection,
    };
    let Some(sink) = sinks.iter_mut().find(|sink| sink.cq == cq) else { return true };
    let operation = match post.work {
        Work::Write(wr) if wr.imm.is_some() => Operation::WriteImm,
        Work::Write(_) => Operation::Write,
        Work::Receive(_) => Operation::Receive,
    };
    let wr_id = post.work.wr_id();
    let completion = Completion { wr_id, operation, status, qp: post.qp.qpn(), ..Completion::EMPTY };
    if sink.completions.push(completion).is_err() {
        return false;
    }
    if let Some(waker) = &sink.waker {
        waker.completed(true);
    }
    true
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
