//! Turns: whoever has the engine and the ports moves frames and bytes; nothing here decides about the
//! protocol. Source: the contract on `mrc_core::Endpoint`.

use core::cell::Cell;
use std::sync::{Arc, mpsc};

use mrc_core::{
    Access, Completion, CqHandle, Endpoint, Instant, MemRange, ModifyError, MrHandle, Operation, Pd, PostError,
    QpHandle, QpState, RtrAttr, RtsAttr, Status, TableError,
};
use mrc_wire::{Ev, PortNum, Rkey};

use super::awaited::Awaited;
use super::clock::Clock;
use super::drive::Drive;
use super::events::Events;
use super::hold::Hold;
use super::planes::Planes;
use super::queue::{CompletionWaker, Post, Work};
use super::receive::Arrivals;
use super::recorder::Recorder;
use super::transmit::Outlet;
use super::trust::Trust;
use super::{DeviceConfig, DeviceEvent, DeviceStats, EventHook, Idle, Job, Memory, PathBytes};
use crate::ring::spsc;
use crate::{AnyPort, LinkEvent, LinkMonitor, LinkState, MemRegion, Port as _};

/// Frames taken from a port, and frames sent, in one turn: bounds the time between two looks at everything else.
const BATCH: usize = 64;

/// Requests that leave before the answers that wait.
const BEFORE_ANSWERS: usize = 2;

/// SACKs that leave behind requests while other answers wait.
const BEHIND_REQUESTS: usize = 1;

/// Longest sleep, so that a lost wake-up costs little.
const LONGEST_SLEEP_NS: u64 = 100_000_000;

/// How often a busy device asks for changes of its links, which takes a system call.
const LINK_LOOK_NS: u64 = 200_000;

/// What the thread shares with the application.
pub(super) struct Shared {
    pub(super) jobs: mpsc::Receiver<Job>,
    pub(super) events: Arc<Events>,
    /// Hears of every event besides the application.
    pub(super) observer: Option<EventHook>,
}

impl Shared {
    fn raise(&self, hook: Option<&EventHook>, event: DeviceEvent) {
        if let Some(observer) = &self.observer {
            observer(event.clone());
        }
        match hook {
            Some(hook) => hook(event),
            None => self.events.push(event),
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
    /// QPs that were reset, each with how many of the next posts in the ring were there then.
    ended: Vec<(QpHandle, usize)>,
}

impl Source {
    /// The next post of the ring, without those that are older than a reset of their QP.
    fn pop(&mut self) -> Option<Post> {
        loop {
            let post = self.posts.pop()?;
            let ended = self.ended.iter().any(|(qp, _)| *qp == post.qp);
            self.ended.retain_mut(|(_, left)| {
                *left = left.saturating_sub(1);
                *left > 0
            });
            if !ended {
                return Some(post);
            }
        }
    }

    /// Drops what is posted to `qp`. Posts of other QPs keep their order: behind the first of them it goes later.
    fn drop_posts(&mut self, qp: QpHandle) {
        self.waiting = self.waiting.take().filter(|post| post.qp != qp);
        for _ in 0..self.posts.len() {
            if self.waiting.is_some() {
                break;
            }
            self.waiting = self.pop().filter(|post| post.qp != qp);
        }
        self.ended.retain(|(ended, _)| *ended != qp);
        let left = self.posts.len();
        if left > 0 {
            self.ended.push((qp, left));
        }
    }
}

/// The application's end of a completion queue.
struct Sink {
    cq: CqHandle,
    completions: spsc::Sender<Completion>,
    waker: Option<Arc<dyn CompletionWaker>>,
    /// Completions are staged; whether one of them failed or was solicited.
    staged: Option<bool>,
}

impl Sink {
    /// Stages the engine's completions, as far as there is room.
    fn take_from(&mut self, engine: &mut Endpoint<'_>) {
        while self.completions.free() > 0 {
            let Some(completion) = engine.poll_completion(self.cq) else { break };
            if !self.stage(completion) {
                break;
            }
        }
    }

    /// Puts a completion where [`Self::publish`] finds it; whether there was room.
    fn stage(&mut self, completion: Completion) -> bool {
        let solicited = completion.solicited || completion.status != Status::Success;
        let staged = self.completions.stage(completion).is_ok();
        if staged {
            self.staged = Some(self.staged.unwrap_or(false) | solicited);
        }
        staged
    }

    /// Makes the staged completions visible to the application; whether there were any.
    fn publish(&mut self) -> bool {
        let Some(solicited) = self.staged.take() else { return false };
        let completions = &mut self.completions;
        match &self.waker {
            Some(waker) => waker.completed(solicited, &mut || completions.publish()),
            None => completions.publish(),
        }
        true
    }
}

/// What the device's thread does after a turn.
pub(super) enum Next {
    Turn,
    Spin,
    Yield,
    /// For so many nanoseconds, while others do the work.
    Nap(u64),
    /// For so many nanoseconds, or until a frame comes.
    Sleep(u64),
}

/// Everything a turn needs.
pub(super) struct Progress<'s> {
    pub(super) engine: Endpoint<'s>,
    pub(super) ports: Vec<AnyPort>,
    pub(super) links: LinkMonitor,
    planes: Planes,
    /// A port was opened or closed: the descriptors to sleep on are others.
    pub(super) ports_changed: bool,
    shared: Shared,
    hook: Option<EventHook>,
    sources: Vec<Source>,
    sinks: Vec<Sink>,
    memory: Memory,
    hold: Hold,
    /// When links are asked again.
    links_at: Instant,
    /// When the device's thread, which sleeps, wakes up by itself.
    sleeper: Option<Instant>,
    /// The device's thread left the work to a helper when it had the engine last.
    napping: bool,
    trust: Trust,
    /// Frames received.
    frames: u64,
    clock: Clock,
    /// The last time that was told, in debug builds.
    latest: Cell<Instant>,
    outlet: Outlet,
    recorder: Recorder,
    awaited: Awaited,
}

impl<'s> Progress<'s> {
    pub(super) fn new(
        engine: Endpoint<'s>,
        ports: Vec<AnyPort>,
        planes: Planes,
        links: LinkMonitor,
        shared: Shared,
        config: &DeviceConfig,
        clock: Clock,
    ) -> Self {
        let mut progress = Self {
            memory: vec![None; engine.limits().mrs],
            outlet: Outlet::new(ports.len(), config.count_paths),
            recorder: Recorder::new(config.recorded_packets),
            awaited: Awaited::default(),
            engine,
            ports,
            links,
            shared,
            hook: None,
            sources: Vec::new(),
            sinks: Vec::new(),
            hold: Hold::new(config.answer_delay),
            links_at: Instant::ZERO,
            sleeper: None,
            napping: false,
            frames: 0,
            trust: Trust::default(),
            planes,
            ports_changed: false,
            clock,
            latest: Cell::new(Instant::ZERO),
        };
        for plane in 0..progress.ports.len() {
            let absent = matches!(progress.ports[plane], AnyPort::Absent(_));
            if absent || progress.links.state_of(plane) != Some(LinkState::Up) {
                progress.engine.set_port(Instant::ZERO, port_of(plane), false);
            }
        }
        progress
    }

    pub(super) fn now(&self) -> Instant {
        let now = self.clock.now();
        if cfg!(debug_assertions) {
            self.latest.set(now);
        }
        now
    }

    /// A turn of the device's thread; whether there was anything to do.
    fn turn(&mut self) -> bool {
        // Jobs have times of their own, and the engine's never goes back.
        let mut worked = self.run_jobs();
        let now = self.now();
        worked |= self.look_at_links(now);
        worked | self.move_all(now)
    }

    /// What the device's thread does when it has the engine, and then.
    pub(super) fn own_turn(&mut self, drive: &Drive, idle: Idle, helped: bool, last_work: &mut Instant) -> Next {
        self.sleeper = None;
        let now = self.now();
        if helped && self.trust.allows(now) {
            self.housekeeping();
            if !self.posts_wait() {
                if core::mem::replace(&mut self.napping, true) {
                    self.trust.nap_ended(now, false, false);
                }
                return self.lie_down(drive, true).map_or(Next::Turn, Next::Nap);
            }
        }
        let (frames, late) =
            (self.frames, !helped && (self.posts_wait() || self.next_look().is_some_and(|at| at < now)));
        let worked = self.turn();
        if core::mem::take(&mut self.napping) {
            self.trust.nap_ended(now, self.frames > frames, late);
        }
        if worked {
            *last_work = now;
            return Next::Turn;
        }
        match idle {
            Idle::SleepAfter(patience) if u128::from(now.since(*last_work)) >= patience.as_nanos() => {
                self.trust.forget(now);
                self.lie_down(drive, false).map_or(Next::Turn, Next::Sleep)
            }
            Idle::SleepAfter(_) => Next::Yield,
            Idle::Spin => Next::Spin,
        }
    }

    /// Whether there are posts that the engine could be offered.
    fn posts_wait(&mut self) -> bool {
        self.sources.iter_mut().any(|source| source.waiting.is_none() && !source.posts.is_empty())
    }

    /// A turn of an application thread: when it began, and whether the device's thread must be woken because it sleeps past
    /// the next timer.
    pub(super) fn help(&mut self) -> (Instant, bool) {
        let now = self.now();
        self.move_all(now);
        let late = self.sleeper.is_some_and(|wakes| self.next_look().is_some_and(|at| at < wakes));
        if late {
            self.sleeper = None;
        }
        (now, late)
    }

    /// What is left to the device's thread while others help.
    fn housekeeping(&mut self) {
        self.run_jobs();
        self.look_at_links(self.now());
        self.raise_events();
    }

    fn move_all(&mut self, now: Instant) -> bool {
        debug_assert!(now >= self.latest.get(), "the engine's time goes back from {:?} to {now:?}", self.latest.get());
        self.recorder.turn(now);
        let mut worked = self.take_posts(now);
        for plane in 0..self.ports.len() {
            worked |= self.receive(now, plane);
        }
        if self.engine.next_timeout().is_some_and(|at| at <= now) {
            self.engine.handle_timeout(now);
            worked = true;
        }
        worked |= self.transmit(now);
        worked | self.deliver()
    }

    fn look_at_links(&mut self, now: Instant) -> bool {
        if now < self.links_at {
            return false;
        }
        self.links_at = now.after(LINK_LOOK_NS);
        self.take_links(now)
    }

    /// When something must be done though nothing comes.
    fn next_look(&self) -> Option<Instant> {
        [self.engine.next_timeout(), self.hold.until()].into_iter().flatten().min()
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
        let mut events = Vec::new();
        if let Err(error) = self.links.poll(|event| events.push(event.clone())) {
            log::error!("link events lost: {error}");
        }
        for event in &events {
            log::info!("{event}");
            self.take_link(now, event);
            self.shared.raise(self.hook.as_ref(), DeviceEvent::Link(event.to_string()));
        }
        for plane in 0..self.ports.len() {
            let open = !matches!(self.ports[plane], AnyPort::Absent(_));
            if open && self.planes.has_shrunk(plane, &self.links) {
                self.engine.set_port(now, port_of(plane), false);
                self.close_port(plane);
                // Which says why it cannot be opened.
                self.planes.appeared();
            }
        }
        let (engine, outlet, changed) = (&mut self.engine, &mut self.outlet, &mut self.ports_changed);
        self.planes.open_absent(now, &mut self.ports, &self.links, |plane| {
            outlet.replaced(plane);
            engine.set_port(now, port_of(plane), true);
            *changed = true;
        });
        !events.is_empty()
    }

    fn take_link(&mut self, now: Instant, event: &LinkEvent) {
        let plane = event.position;
        let Some(port) = self.ports.get_mut(plane) else { return };
        if matches!(port, AnyPort::Absent(_)) {
            self.planes.appeared();
            return;
        }
        self.engine.set_port(now, port_of(plane), event.state == LinkState::Up);
        if event.state == LinkState::Gone {
            self.close_port(plane);
        }
    }

    fn close_port(&mut self, plane: usize) {
        let Some(port) = self.ports.get_mut(plane) else { return };
        self.planes.close(plane, port);
        self.outlet.replaced(plane);
        self.ports_changed = true;
    }

    /// Whether a port was opened or closed since the last call.
    pub(super) fn take_ports_changed(&mut self) -> bool {
        core::mem::take(&mut self.ports_changed)
    }

    fn take_posts(&mut self, now: Instant) -> bool {
        let mut worked = false;
        for source in &mut self.sources {
            for _ in 0..BATCH {
                let Some(post) = source.waiting.take().or_else(|| source.pop()) else { break };
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
                    // A QP that is destroyed takes its requests along.
                    Err(PostError::UnknownQp) => worked = true,
                    Err(why) => {
                        if !refuse(&mut self.engine, &mut self.sinks, source.cq, &post, why) {
                            source.waiting = Some(post);
                            break;
                        }
                        if !matches!(why, PostError::State(_)) {
                            // As for any request that fails: those behind it are flushed. The QP exists, so this works.
                            let _ = self.engine.fail_post(now, post.qp);
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
        let Some(port) = self.ports.get_mut(plane) else { return false };
        let (recorder, awaited) = (&mut self.recorder, &mut self.awaited);
        let mut arrivals = Arrivals::new(port, port_of(plane), &self.memory, recorder, awaited, BATCH);
        self.engine.receive(now, &mut arrivals);
        let count = arrivals.finish();
        self.frames += count as u64;
        count > 0
    }

    fn transmit(&mut self, now: Instant) -> bool {
        let mut burst = self.outlet.burst(&mut self.ports, &self.memory, &mut self.recorder);
        let owes = self.engine.owes_answers();
        if owes {
            burst.allow(BEFORE_ANSWERS);
            self.engine.transmit_requests(now, &mut burst);
            // The application waits for the first ones: its peer's write, then the answer to its own.
            burst.keep_order(BEFORE_ANSWERS);
        }
        let requests = burst.made();
        if self.hold.holds(now, owes, requests > 0, self.engine.stats().rx_data) {
            if requests > 0 {
                // The peer has our write to do with meanwhile.
                burst.allow(BEHIND_REQUESTS);
                self.engine.transmit_feedback(now, &mut burst);
            }
        } else {
            burst.allow(BATCH);
            self.engine.transmit(now, &mut burst);
            if !owes && burst.made() > 0 {
                self.hold.requested(now);
            }
        }
        let worked = burst.made() > 0;
        burst.finish();
        worked
    }

    /// Events and completions to the application. Events come first: whoever polls a failed completion finds the event that
    /// says why.
    fn deliver(&mut self) -> bool {
        for sink in &mut self.sinks {
            sink.take_from(&mut self.engine);
        }
        let (engine, shared, hook) = (&self.engine, &self.shared, self.hook.as_ref());
        let established = |qp| shared.raise(hook, DeviceEvent::Established { qp });
        let mut worked = self.awaited.turn(engine.stats().rx_data, |qp| engine.qp_info(qp), established);
        worked |= self.raise_events();
        for sink in &mut self.sinks {
            worked |= sink.publish();
        }
        worked
    }

    /// Announces a rest of the device's thread and looks once more. How long it may last, in nanoseconds; `None`: there is
    /// something to do.
    fn lie_down(&mut self, drive: &Drive, helped: bool) -> Option<u64> {
        if helped {
            drive.bell.announce_nap()
        } else {
            drive.bell.announce_sleep()
        };
        let now = self.now();
        let mut until = self.trust.nap_ns(now);
        if !helped {
            until = self.next_look().map_or(LONGEST_SLEEP_NS, |at| at.since(now)).min(LONGEST_SLEEP_NS);
            if self.outlet.is_pending() {
                // Frames that the kernel still holds need another kick soon.
                until = until.min(1_000_000);
            }
        }
        if until == 0 || self.posts_wait() || self.run_jobs() {
            return None;
        }
        self.sleeper = (!helped).then(|| now.after(until));
        Some(until)
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

    /// INIT to RTR: the first data that the QP receives is an event.
    pub(super) fn modify_to_rtr(&mut self, qp: QpHandle, attr: &RtrAttr) -> Result<(), ModifyError> {
        self.engine.modify_to_rtr(self.now(), qp, attr)?;
        self.awaited.add(qp);
        Ok(())
    }

    /// RTR to RTS; data that the QP received before is told first.
    pub(super) fn modify_to_rts(&mut self, qp: QpHandle, attr: &RtsAttr) -> Result<(), ModifyError> {
        if self.awaited.take(qp, |qp| self.engine.qp_info(qp)) {
            self.shared.raise(self.hook.as_ref(), DeviceEvent::Established { qp: qp.qpn() });
        }
        self.engine.modify_to_rts(self.now(), qp, attr)?;
        self.awaited.remove(qp);
        Ok(())
    }

    /// Any state to RESET. Posts that the engine has not taken go with the life that ends, and what completed before can be
    /// polled when this returns: the next life meets neither.
    pub(super) fn reset_qp(&mut self, qp: QpHandle) -> Result<(), ModifyError> {
        self.sources.iter_mut().for_each(|source| source.drop_posts(qp));
        let reset = self.engine.modify_to_reset(qp);
        self.deliver();
        reset
    }

    /// Destroys a QP with its posts; what completed before can be polled when this returns.
    pub(super) fn destroy_qp(&mut self, qp: QpHandle) -> Result<(), TableError> {
        self.sources.iter_mut().for_each(|source| source.drop_posts(qp));
        let destroyed = self.engine.destroy_qp(qp);
        self.deliver();
        self.sweep();
        destroyed
    }

    pub(super) fn add_cq(
        &mut self,
        completions: spsc::Sender<Completion>,
        waker: Option<Arc<dyn CompletionWaker>>,
    ) -> Result<CqHandle, TableError> {
        self.sweep();
        let cq = self.engine.create_cq()?;
        self.sinks.push(Sink { cq, completions, waker, staged: None });
        Ok(cq)
    }

    /// Completions go to a larger ring, those first that nobody has polled from the one before.
    pub(super) fn enlarge_cq(
        &mut self,
        cq: CqHandle,
        mut larger: spsc::Sender<Completion>,
        mut before: spsc::Receiver<Completion>,
    ) {
        let Some(sink) = self.sinks.iter_mut().find(|sink| sink.cq == cq) else { return };
        sink.publish();
        while let Some(completion) = before.pop() {
            let staged = larger.stage(completion);
            debug_assert!(staged.is_ok(), "a larger ring has room for what a smaller one held");
        }
        larger.publish();
        sink.completions = larger;
    }

    pub(super) fn add_work_queue(&mut self, posts: spsc::Receiver<Post>, cq: CqHandle) {
        self.sweep();
        self.sources.push(Source { posts, cq, waiting: None, ended: Vec::new() });
    }

    /// Forgets the rings whose application end is gone. Posts in flight go first, completion queues after their QPs.
    fn sweep(&mut self) {
        self.sources
            .retain_mut(|source| source.waiting.is_some() || !source.posts.is_closed() || !source.posts.is_empty());
        let engine = &mut self.engine;
        self.sinks.retain(|sink| !sink.completions.is_closed() || engine.destroy_cq(sink.cq).is_err());
    }

    pub(super) fn set_hook(&mut self, hook: EventHook) {
        self.hook = Some(hook);
    }

    /// Goes on with another recorder.
    pub(super) fn replace_recorder(&mut self, fresh: Recorder) -> Recorder {
        core::mem::replace(&mut self.recorder, fresh)
    }

    pub(super) fn set_observer(&mut self, observer: EventHook) {
        self.shared.observer = Some(observer);
    }

    pub(super) fn stats(&self) -> DeviceStats {
        let path =
            |(&(plane, ev), &bytes): (&(u8, u32), &u64)| PathBytes { port: port_of(plane.into()), ev: Ev(ev), bytes };
        DeviceStats {
            at: self.now(),
            engine: *self.engine.stats(),
            ports: self.ports.iter().map(|port| port.stats()).collect(),
            up: self.engine.ports_up(),
            paths: self.outlet.paths().map(path).collect(),
        }
    }
}

/// Stages the completion of a post that the engine refused, as for requests: after the older ones of its queue. `false` when
/// that cannot be yet.
fn refuse(engine: &mut Endpoint<'_>, sinks: &mut [Sink], cq: CqHandle, post: &Post, why: PostError) -> bool {
    let info = engine.qp_info(post.qp);
    let older = matches!(post.work, Work::Write(_)) && info.is_some_and(|info| info.queued > 0);
    if older {
        return false;
    }
    let status = match why {
        // Whatever is wrong with it.
        _ if info.is_some_and(|info| info.state == QpState::Error) => Status::Flushed,
        PostError::State(_) => Status::Flushed,
        PostError::TooLong { .. } | PostError::Empty => Status::LocalLength,
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
    // Those of older requests, if they are still with the engine.
    sink.take_from(engine);
    sink.completions.free() > 0 && sink.stage(completion)
}

pub(super) fn port_of(plane: usize) -> PortNum {
    PortNum::from_plane(plane as u8)
}
