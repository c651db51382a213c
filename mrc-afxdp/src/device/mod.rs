//! One userspace NIC: [`Device`] owns the progress thread, which drives the engine and the ports unless an application
//! thread that would only wait does it (`device/drive.rs`). Applications reach them through single-producer
//! single-consumer rings ([`WorkQueue`], [`CompletionRing`], both in one: [`Queue`]) for work, and through commands for
//! everything rare.
//!
//! ```text
//!  application thread                    progress thread
//!  WorkQueue::post       --> ring of posts   -->  Endpoint::{post_send, post_recv}
//!  CompletionRing::poll  <-- ring of results <--  Endpoint::poll_completion
//!  Device::...  --> command channel -->  Endpoint::{register_mr, create_qp, modify_...}
//! ```

mod awaited;
mod baton;
mod clock;
mod drive;
mod events;
#[cfg(all(test, not(loom)))]
mod fake_port;
mod hold;
mod planes;
mod progress;
mod queue;
mod receive;
mod recorder;
mod thread;
mod transmit;
mod trust;

pub use queue::{CompletionRing, CompletionWaker, Queue, WorkQueue, waits};
pub use recorder::{DEFAULT_PACKETS, HEAD, RecordedPacket, Recording};

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use mrc_core::cc::CcConfig;
use mrc_core::path::EvEntry;
use mrc_core::{
    Access, CcProfileHandle, ConfigError, CqHandle, Endpoint, EndpointConfig, EvProfileHandle, Event, Instant, Limits,
    ModifyError, MrHandle, OpError, OpOutcome, OpRequest, OwnedStorage, Pd, PeerConfig, PeerHandle, PortConfig,
    PortMask, PostError, QpHandle, QpInfo, QpInit, QpccInfo, RtrAttr, RtsAttr, Seed, Stats, TableError,
};
use mrc_wire::{Ev, Ip, PortNum, Qpn, Rkey};
use self_cell::MutBorrow;

use self::clock::Clock;
use crate::ring::doorbell::Doorbell;
use crate::ring::spsc;
use crate::sys::process;
use crate::{LinkMonitor, MemRegion, Mode, Obtained, Port as _, PortStats, SetupError};

/// One plane of a device.
#[derive(Debug, Clone)]
pub struct PlaneConfig {
    /// Network interface, in the caller's network namespace.
    pub interface: String,
    /// Our SRv6 SID on this plane, when packets arrive under one.
    pub sid: Option<[u8; 16]>,
    /// The port's own address, the outer source of what it sends.
    pub addr: Option<[u8; 16]>,
}

/// How frames reach the interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attachment {
    /// AF_XDP in the given mode.
    Xdp(Mode),
    /// Packet sockets, for interfaces without XDP.
    Raw,
}

/// What the progress thread does when there is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// Spins: lowest latency, one core burnt.
    Spin,
    /// Spins for the given time, then sleeps in `poll(2)` until a frame, a post or a timer comes.
    SleepAfter(Duration),
}

/// How to open a device.
#[derive(Debug, Clone)]
pub struct DeviceConfig {
    /// Name for messages and the thread.
    pub name: String,
    /// Planes, plane 0 first; at most `mrc_core::MAX_PORTS`.
    pub planes: Vec<PlaneConfig>,
    /// Our inner address.
    pub gid: [u8; 16],
    /// Engine knobs; ports and addresses are filled in from the fields above.
    pub endpoint: EndpointConfig,
    /// Engine sizes.
    pub limits: Limits,
    /// How to attach.
    pub attachment: Attachment,
    /// Smallest interface MTU to accept, in bytes; 0 accepts any.
    pub required_mtu: u32,
    /// Idle policy.
    pub idle: Idle,
    /// How long the answers to writes wait for data of ours that may follow them, where data has followed them closely
    /// before; zero: not at all.
    pub answer_delay: Duration,
    /// Count the payload bytes sent on each path ([`DeviceStats::paths`]); costs a look-up per packet.
    pub count_paths: bool,
    /// Real nanoseconds to a nanosecond of the device's clock: 1, or more for a conformance test whose tester is slower than
    /// the protocol.
    pub slowness: NonZeroU32,
    /// Packets of which the flight recorder keeps the heads ([`Device::take_recording`]), 192 bytes of memory each; 0: none.
    pub recorded_packets: usize,
}

impl DeviceConfig {
    /// A device with defaults for everything but its planes and address.
    pub fn new(name: &str, planes: Vec<PlaneConfig>, gid: [u8; 16]) -> Self {
        Self {
            name: name.to_owned(),
            planes,
            gid,
            endpoint: EndpointConfig::software(),
            limits: Limits::default(),
            attachment: Attachment::Xdp(Mode::Auto),
            required_mtu: 0,
            idle: Idle::SleepAfter(Duration::from_micros(50)),
            answer_delay: Duration::from_micros(20),
            count_paths: false,
            slowness: NonZeroU32::MIN,
            recorded_packets: recorder::DEFAULT_PACKETS,
        }
    }
}

/// Why a device could not be opened or does not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// An interface refused.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The engine refused its configuration.
    #[error("engine configuration: {0}")]
    Config(#[from] ConfigError),
    /// The operating system refused.
    #[error("{what}: {source}")]
    Os {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
    /// Too many planes, or none.
    #[error("a device has 1 to {max} planes, not {have}", max = mrc_core::MAX_PORTS)]
    Planes {
        /// Planes asked for.
        have: usize,
    },
    /// A table of the engine refused.
    #[error("{0}")]
    Table(#[from] TableError),
    /// A QP refused.
    #[error("{0}")]
    Modify(#[from] ModifyError),
    /// The progress thread has ended.
    #[error("the device's progress thread has ended")]
    Closed,
    /// This process is a child of the one that opened the device.
    #[error(
        "the device belongs to the parent process: after fork a child may exit, execute a program or open a device of its own"
    )]
    Forked,
}

/// What an application thread can see happen besides its completions.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum DeviceEvent {
    /// The engine says so.
    Engine(Event),
    /// A post was refused after it left the application, because its arguments were wrong. Posts whose QP is destroyed
    /// meanwhile vanish with it.
    PostRefused {
        /// The caller's number.
        wr_id: u64,
        /// Why.
        why: PostError,
    },
    /// A QP in RTR received the first data of its peer. Once for each time that the QP goes to RTR; never for data that arrives in RTS.
    Established {
        /// Local QP.
        qp: Qpn,
    },
    /// An interface changed; the text names it.
    Link(String),
}

/// Hears of every event, on the thread that drives the device; must not block.
type EventHook = Box<dyn Fn(DeviceEvent) + Send>;

type Job = Box<dyn FnOnce(&mut progress::Progress<'_>) + Send>;

/// What one path carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathBytes {
    /// Port it leaves through.
    pub port: PortNum,
    /// Entropy value.
    pub ev: Ev,
    /// Payload bytes sent, retransmissions included.
    pub bytes: u64,
}

/// Counters of a device.
#[derive(Debug, Clone)]
pub struct DeviceStats {
    /// When they were read, on the engine's clock, which also dates its events.
    pub at: Instant,
    /// The engine's.
    pub engine: Stats,
    /// Each port's, plane 0 first.
    pub ports: Vec<PortStats>,
    /// Ports that have a link and are not disabled.
    pub up: PortMask,
    /// Each path that carried payload, by port and entropy value; empty unless [`DeviceConfig::count_paths`] is set.
    pub paths: Vec<PathBytes>,
}

/// An open userspace NIC. Dropping it ends the progress thread and releases the interfaces.
#[derive(Debug)]
pub struct Device {
    jobs: mpsc::Sender<Job>,
    drive: Arc<drive::Drive>,
    stop: Arc<AtomicBool>,
    events: Arc<events::Events>,
    thread: Option<JoinHandle<()>>,
    obtained: Vec<(String, Obtained)>,
    gid: [u8; 16],
    recorded_packets: usize,
}

impl std::fmt::Debug for progress::Progress<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Progress").finish_non_exhaustive()
    }
}

impl Device {
    /// Opens the interfaces in the caller's network namespace and starts the progress thread.
    ///
    /// A plane whose interface does not exist is a port that is down, with a warning in the log. The progress thread opens
    /// it when the interface appears and is up, also after an interface was deleted.
    ///
    /// # Errors
    /// [`DeviceError`]; nothing stays open. No interface exists at all: the error of plane 0.
    pub fn open(config: DeviceConfig) -> Result<Self, DeviceError> {
        let have = config.planes.len();
        if have == 0 || have > mrc_core::MAX_PORTS {
            return Err(DeviceError::Planes { have });
        }
        let mut endpoint = config.endpoint.clone();
        endpoint.gids[0] = Some(Ip::V6(config.gid));
        let (planes, ports) = planes::Planes::open(config.clone())?;
        for ((plane, port), slot) in config.planes.iter().zip(&ports).zip(&mut endpoint.ports) {
            *slot = Some(PortConfig { mac: port.mac(), sid: plane.sid, addr: plane.addr });
        }
        let watched = config.planes.iter().zip(&ports).map(|(plane, port)| (port.ifindex(), plane.interface.as_str()));
        let links = LinkMonitor::new(watched).map_err(|source| DeviceError::Os { what: "netlink", source })?;
        let wakers = thread::Wakers::new(&ports, &links).map_err(|source| DeviceError::Os { what: "dup", source })?;
        let bell = Doorbell::new().map_err(|source| DeviceError::Os { what: "eventfd", source })?;
        let mut seed = [0; Seed::LEN];
        getrandom::fill(&mut seed)
            .map_err(|error| DeviceError::Os { what: "random seed", source: std::io::Error::other(error) })?;
        let obtained = ports.iter().map(|port| (port.name().to_owned(), port.obtained())).collect();
        let (jobs, job_queue) = mpsc::channel();
        let events = Arc::new(events::Events::default());
        let shared = progress::Shared { jobs: job_queue, events: Arc::clone(&events), observer: None };
        let clock = Clock::start(config.slowness);
        let (name, idle, gid) = (config.name.clone(), config.idle, config.gid);
        let recorded_packets = config.recorded_packets;
        let storage = MutBorrow::new(OwnedStorage::new(config.limits)?);
        let nic = drive::Nic::try_new(storage, |storage| {
            Endpoint::new(endpoint, storage.borrow_mut().lend(), seed)
                .map(|engine| progress::Progress::new(engine, ports, planes, links, shared, &config, clock))
        })?;
        let drive = Arc::new(drive::Drive::new(nic, bell, clock));
        let stop = Arc::new(AtomicBool::new(false));
        let (driven, told) = (Arc::clone(&drive), Arc::clone(&stop));
        // A thread's name ends where C strings do.
        let thread = std::thread::Builder::new().name(format!("mrc-{name}").replace('\0', ""));
        let run = move || {
            // However the loop ends: rings close, calls fail, interfaces are free.
            let _last = drive::Last(&driven);
            thread::run(&driven, &told, idle, wakers);
        };
        let thread = process::without_signals(|| thread.spawn(run))
            .map_err(|source| DeviceError::Os { what: "progress thread", source })?;
        Ok(Self { jobs, drive, stop, events, thread: Some(thread), obtained, gid, recorded_packets })
    }

    /// What each interface obtained when the device was opened, plane 0 first.
    pub fn obtained(&self) -> &[(String, Obtained)] {
        &self.obtained
    }

    /// Our inner address.
    pub fn gid(&self) -> [u8; 16] {
        self.gid
    }

    /// Whether this process is a child of the one that opened the device: calls fail with [`DeviceError::Forked`], and
    /// dropping the device leaves the parent's alone.
    pub fn is_forked(&self) -> bool {
        self.drive.is_forked()
    }

    /// Runs `f` on the progress thread between two turns and waits for its result.
    fn call<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut progress::Progress<'_>) -> R + Send + 'static,
    ) -> Result<R, DeviceError> {
        if self.is_forked() {
            return Err(DeviceError::Forked);
        }
        let (reply, answer) = mpsc::sync_channel(1);
        let job: Job = Box::new(move |progress| drop(reply.send(f(progress))));
        self.jobs.send(job).map_err(|_| DeviceError::Closed)?;
        self.drive.bell.ring();
        answer.recv().map_err(|_| DeviceError::Closed)
    }

    /// Registers memory under its own address. The region stays alive until it is deregistered.
    ///
    /// # Errors
    /// No free slot.
    pub fn register(&self, pd: Pd, memory: Arc<MemRegion>, access: Access) -> Result<(MrHandle, Rkey), DeviceError> {
        let va = memory.addr();
        self.register_at(pd, memory, va, access)
    }

    /// Registers memory whose first byte work requests and peers call `va`.
    ///
    /// # Errors
    /// No free slot, or a range past the end of the address space.
    pub fn register_at(
        &self,
        pd: Pd,
        memory: Arc<MemRegion>,
        va: u64,
        access: Access,
    ) -> Result<(MrHandle, Rkey), DeviceError> {
        self.call(move |progress| progress.register(pd, memory, va, access))?.map_err(Into::into)
    }

    /// Gives a region another protection domain and other rights. Its key stays.
    ///
    /// # Errors
    /// The handle is stale.
    pub fn change_region(&self, mr: MrHandle, pd: Pd, access: Access) -> Result<(), DeviceError> {
        self.call(move |progress| progress.engine.change_mr(mr, pd, access))?.map_err(Into::into)
    }

    /// Revokes a region: when this returns nothing reads or writes its memory any more.
    ///
    /// # Errors
    /// The handle is stale.
    pub fn deregister(&self, mr: MrHandle) -> Result<(), DeviceError> {
        self.call(move |progress| progress.deregister(mr))?.map_err(Into::into)
    }

    /// Registers a peer.
    ///
    /// # Errors
    /// No free slot, or no plane in common.
    pub fn add_peer(&self, peer: PeerConfig) -> Result<PeerHandle, DeviceError> {
        self.call(move |progress| progress.engine.add_peer(&peer))?.map_err(Into::into)
    }

    /// Gives packets to and from a peer on one port inner addresses of their own ([`Endpoint::set_plane_addresses`]).
    ///
    /// # Errors
    /// The handle is stale or used, or the addresses cannot be.
    pub fn set_plane_addresses(
        &self,
        peer: PeerHandle,
        port: PortNum,
        local: Ip,
        remote: Ip,
    ) -> Result<(), DeviceError> {
        self.call(move |progress| progress.engine.set_plane_addresses(peer, port, local, remote))?.map_err(Into::into)
    }

    /// Creates an EV profile.
    ///
    /// # Errors
    /// No free slot, or entries on ports that do not exist.
    pub fn create_ev_profile(&self, entries: Vec<EvEntry>) -> Result<EvProfileHandle, DeviceError> {
        self.call(move |progress| progress.engine.create_ev_profile(&entries))?.map_err(Into::into)
    }

    /// Creates a congestion-control profile; QPs to one peer that name the same one share its window.
    ///
    /// # Errors
    /// No free slot, or a parameter outside its range, by name.
    pub fn create_cc_profile(&self, config: CcConfig) -> Result<CcProfileHandle, DeviceError> {
        self.call(move |progress| progress.engine.create_cc_profile(&config))?.map_err(Into::into)
    }

    /// Forgets a congestion-control profile.
    ///
    /// # Errors
    /// The handle is stale or that of the device's own profile, or a QP uses it.
    pub fn destroy_cc_profile(&self, profile: CcProfileHandle) -> Result<(), DeviceError> {
        self.call(move |progress| progress.engine.destroy_cc_profile(profile))?.map_err(Into::into)
    }

    /// Creates a work queue of `depth` posts with a completion queue of its own, for one application thread.
    ///
    /// # Errors
    /// No free completion queue.
    pub fn create_queue(&self, depth: usize) -> Result<Queue, DeviceError> {
        let completions = self.create_cq(depth, None)?;
        let cq = completions.handle();
        let (writes, receives) = (self.create_work_queue(cq, depth)?, self.create_work_queue(cq, depth)?);
        Ok(Queue { writes, receives, completions, idle: 0 })
    }

    /// Creates a completion queue that holds at least `depth` completions; a full one holds completions back, it never
    /// overruns. It goes when the ring and all its QPs are gone.
    ///
    /// # Errors
    /// No free completion queue.
    pub fn create_cq(
        &self,
        depth: usize,
        waker: Option<Arc<dyn CompletionWaker>>,
    ) -> Result<CompletionRing, DeviceError> {
        let slots = self.call(|progress| progress.engine.limits().cq_depth)?;
        let (sender, completions) = spsc::channel(depth.max(slots));
        let cq = self.call(move |progress| progress.add_cq(sender, waker))??;
        Ok(CompletionRing::new(cq, completions))
    }

    /// Has a completion queue hold at least `depth` completions from now on. Those that can be polled stay, in their order. A queue with
    /// that much room is left as it is.
    ///
    /// # Errors
    /// The device is closed: what could be polled is lost.
    pub fn enlarge_cq(&self, ring: &mut CompletionRing, depth: usize) -> Result<(), DeviceError> {
        if depth <= ring.capacity() {
            return Ok(());
        }
        let (cq, (larger, completions)) = (ring.handle(), spsc::channel(depth));
        let before = ring.replace(completions);
        self.call(move |progress| progress.enlarge_cq(cq, larger, before))
    }

    /// Creates a ring of `depth` posts, writes or receive requests, for any QPs whose completions go to `cq`: one
    /// application thread at a time. Writes and receive requests need rings of their own where one may wait for the other.
    ///
    /// # Errors
    /// The device is closed.
    pub fn create_work_queue(&self, cq: CqHandle, depth: usize) -> Result<WorkQueue, DeviceError> {
        let (posts, receiver) = spsc::channel(depth);
        self.call(move |progress| progress.add_work_queue(receiver, cq))?;
        Ok(WorkQueue::new(posts, Arc::clone(&self.drive)))
    }

    /// Creates a QP in INIT whose completions go to `queue`.
    ///
    /// # Errors
    /// No free slot.
    pub fn create_qp(&self, pd: Pd, queue: &Queue) -> Result<QpHandle, DeviceError> {
        let cq = queue.completions.handle();
        let qp = self.create_qp_in_reset(&QpInit { pd, send_cq: cq, recv_cq: cq })?;
        self.modify_to_init(qp)?;
        Ok(qp)
    }

    /// Creates a QP in RESET.
    ///
    /// # Errors
    /// No free slot.
    pub fn create_qp_in_reset(&self, init: &QpInit) -> Result<QpHandle, DeviceError> {
        let init = *init;
        self.call(move |progress| progress.engine.create_qp(&init))?.map_err(Into::into)
    }

    /// RESET to INIT: receive requests may be posted.
    ///
    /// # Errors
    /// As [`Endpoint::modify_to_init`].
    pub fn modify_to_init(&self, qp: QpHandle) -> Result<(), DeviceError> {
        self.call(move |progress| progress.engine.modify_to_init(qp))?.map_err(Into::into)
    }

    /// Any state to RESET: queued work is dropped, also what was posted and not taken yet. What completed before can be polled when
    /// this returns.
    ///
    /// # Errors
    /// The handle is stale.
    pub fn modify_to_reset(&self, qp: QpHandle) -> Result<(), DeviceError> {
        self.call(move |progress| progress.reset_qp(qp))?.map_err(Into::into)
    }

    /// Says whether the peer may write through this QP, on top of what each region allows.
    ///
    /// # Errors
    /// The handle is stale.
    pub fn set_qp_access(&self, qp: QpHandle, access: Access) -> Result<(), DeviceError> {
        self.call(move |progress| progress.engine.set_qp_access(qp, access))?.map_err(Into::into)
    }

    /// INIT to RTR: the QP receives.
    ///
    /// # Errors
    /// As [`Endpoint::modify_to_rtr`].
    pub fn modify_to_rtr(&self, qp: QpHandle, attr: RtrAttr) -> Result<(), DeviceError> {
        self.call(move |progress| progress.modify_to_rtr(qp, &attr))?.map_err(Into::into)
    }

    /// RTR to RTS: the QP sends.
    ///
    /// # Errors
    /// As [`Endpoint::modify_to_rts`].
    pub fn modify_to_rts(&self, qp: QpHandle, attr: RtsAttr) -> Result<(), DeviceError> {
        self.call(move |progress| progress.modify_to_rts(qp, &attr))?.map_err(Into::into)
    }

    /// Any state to ERROR.
    ///
    /// # Errors
    /// The handle is stale.
    pub fn modify_to_error(&self, qp: QpHandle) -> Result<(), DeviceError> {
        self.call(move |progress| progress.engine.modify_to_error(progress.now(), qp))?.map_err(Into::into)
    }

    /// Destroys a QP.
    ///
    /// # Errors
    /// The handle is stale.
    pub fn destroy_qp(&self, qp: QpHandle) -> Result<(), DeviceError> {
        self.call(move |progress| progress.destroy_qp(qp))?.map_err(Into::into)
    }

    /// A picture of one QP; `None` when the handle is stale.
    ///
    /// # Errors
    /// The device is closed.
    pub fn qp_info(&self, qp: QpHandle) -> Result<Option<QpInfo>, DeviceError> {
        self.call(move |progress| progress.engine.qp_info(qp))
    }

    /// A picture of the congestion controller that a QP shares; `None` unless the QP is in RTS.
    ///
    /// # Errors
    /// The device is closed.
    pub fn qpcc_info(&self, qp: QpHandle) -> Result<Option<QpccInfo>, DeviceError> {
        self.call(move |progress| progress.engine.qpcc_info(qp))
    }

    /// What the SACKs of a QP ask of the peer's window from now on: 0 nothing, 127 about one packet per round trip. QPs of a peer may share
    /// that window: one without a penalty then ends the penalty of the others.
    ///
    /// # Errors
    /// As [`Endpoint::set_receiver_penalty`].
    pub fn set_receiver_penalty(&self, qp: QpHandle, penalty: u8, restore_cwnd: bool) -> Result<(), DeviceError> {
        self.call(move |progress| progress.engine.set_receiver_penalty(qp, penalty, restore_cwnd))?.map_err(Into::into)
    }

    /// Runs `f` with the engine on the progress thread, between two turns, and waits for its result: for what concerns the
    /// engine alone, such as profiles and ports. Memory, queues and QPs have methods of their own, since the device keeps
    /// track of them too. `f` must not block.
    ///
    /// # Errors
    /// The device is closed.
    pub fn with_engine<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Endpoint<'_>, Instant) -> R + Send + 'static,
    ) -> Result<R, DeviceError> {
        self.call(move |progress| {
            let now = progress.now();
            f(&mut progress.engine, now)
        })
    }

    /// After [`WorkQueue::stage`]: has the posts sent. Costs a fence while the device is at work and a system call if it
    /// sleeps. If it naps because the program helps it, the caller helps now, once for a burst.
    pub fn posted(&self) {
        self.drive.posted();
    }

    /// For a thread that polls in vain: does the device's work for one turn unless another thread does; whether it did.
    /// [`waits`] says when. [`Queue::poll`] does it by itself.
    pub fn help(&self) -> bool {
        self.drive.help()
    }

    /// Sends an endpoint operation; [`Device::poll_endpoint_op`] tells how it ended.
    ///
    /// # Errors
    /// The device is closed; inside, what [`Endpoint::post_endpoint_op`] refuses.
    pub fn post_endpoint_op(&self, peer: PeerHandle, request: OpRequest) -> Result<Result<(), OpError>, DeviceError> {
        self.call(move |progress| progress.engine.post_endpoint_op(peer, &request))
    }

    /// The endpoint operation that ended longest ago, if any did.
    ///
    /// # Errors
    /// The device is closed.
    pub fn poll_endpoint_op(&self) -> Result<Option<OpOutcome>, DeviceError> {
        self.call(|progress| progress.engine.poll_endpoint_op())
    }

    /// Counters.
    ///
    /// # Errors
    /// The device is closed.
    pub fn stats(&self) -> Result<DeviceStats, DeviceError> {
        self.call(|progress| progress.stats())
    }

    /// Packets of which the flight recorder keeps the heads.
    pub fn recorded_packets(&self) -> usize {
        self.recorded_packets
    }

    /// The heads of the last packets, from which on the recorder begins anew. The device goes on meanwhile: it leaves the ring
    /// and takes an empty one.
    ///
    /// # Errors
    /// The device is closed.
    pub fn take_recording(&self) -> Result<Recording, DeviceError> {
        let fresh = recorder::Recorder::new(self.recorded_packets);
        let (full, now) = self.call(move |progress| (progress.replace_recorder(fresh), progress.now()))?;
        Ok(full.finish(now))
    }

    /// Sends all later events to `hook`, which runs on the thread that drives the device, under its lock, and must not
    /// block, instead of [`Device::poll_event`]. The hook hears why a request failed before its completion can be polled.
    ///
    /// # Errors
    /// The device is closed.
    pub fn on_event(&self, hook: impl Fn(DeviceEvent) + Send + 'static) -> Result<(), DeviceError> {
        self.call(move |progress| progress.set_hook(Box::new(hook)))
    }

    /// Has `observer` hear of every later event besides [`Device::poll_event`] or the hook; the same rules as for a hook.
    ///
    /// # Errors
    /// The device is closed.
    pub fn observe_events(&self, observer: impl Fn(DeviceEvent) + Send + 'static) -> Result<(), DeviceError> {
        self.call(move |progress| progress.set_observer(Box::new(observer)))
    }

    /// The oldest event; never waits for one. Of those that nobody asks for the newest 4096 are kept. The event that says why a
    /// request failed is there before its completion can be polled.
    pub fn poll_event(&self) -> Option<DeviceEvent> {
        self.events.pop()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.is_forked() {
            // A child has no such thread; the parent's goes on.
            return core::mem::forget(thread);
        }
        self.stop.store(true, Ordering::Release);
        self.drive.bell.ring();
        // What runs on the device's thread, such as an event hook, may have had the last handle: the thread ends by itself.
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join();
        }
    }
}

/// Registered memory by region index, as the progress thread sees it.
type Memory = Vec<Option<Arc<MemRegion>>>;
