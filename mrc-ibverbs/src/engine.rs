//! The device under all contexts of this process: one engine, one progress thread.

use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use core::ffi::c_int;

use mrc_afxdp::device::{Device, DeviceError};
use mrc_afxdp::{Problem, SetupError};
use mrc_core::path::EvEntry;
use mrc_core::{Endpoint, EvProfileHandle, Instant, Limits, PeerHandle, PortMask, QpState, Route, TableError};
use mrc_verbs_shim::control::ControlServer;
use mrc_verbs_shim::host::{HostFile, Tuning};
use parking_lot::Mutex;

use crate::events::Hub;
use crate::mrc::profile::{MAX_EVS, MAX_PROFILES, Registry};

/// Sizes. Beyond them creating fails with ENOMEM.
pub(crate) const MAX_QP: usize = 256;
pub(crate) const MAX_CQ: usize = 128;
/// A key is random but for the bits that name its slot: fewer slots, keys harder to guess.
pub(crate) const MAX_MR: usize = 1024;
/// Work requests a QP's ring can hold.
pub(crate) const MAX_WR: usize = 16_384;
/// Completions a CQ's ring can hold.
pub(crate) const MAX_CQE: usize = 1 << 18;
/// What a plane is taken to carry where congestion control asks, in bit/s: what the port says of itself.
pub(crate) const LINK_RATE: u64 = 100_000_000_000;
/// Work requests in the engine's own queues; the rest waits in the rings.
pub(crate) const ENGINE_QUEUE: usize = 256;

pub(crate) struct Engine {
    // Before the device, which it looks at.
    _control: Option<ControlServer>,
    pub(crate) device: Arc<Device>,
    pub(crate) host: HostFile,
    pub(crate) hub: Arc<Hub>,
    peers: Mutex<Vec<Known>>,
    /// What controllers configured. Never locked across a call to the device: its thread locks it too.
    pub(crate) profiles: Arc<Mutex<Registry>>,
    next_pd: AtomicU32,
    /// Regions of the application; inline data has its own.
    pub(crate) regions: AtomicUsize,
}

/// A peer as the engine knows it.
struct Known {
    gid: Ipv6Addr,
    /// Registered for EVs that are outer destinations; else for those that the host's template turns into such.
    routed: bool,
    handle: PeerHandle,
    /// All paths of the template.
    paths: Option<EvProfileHandle>,
}

static CURRENT: Mutex<Weak<Engine>> = Mutex::new(Weak::new());

impl Engine {
    /// Queue pairs in RTS; 0 when the device is closed.
    pub(crate) fn sending_qps(&self) -> u64 {
        self.device.with_engine(|engine, _| engine.stats().states.qps(QpState::Rts)).unwrap_or(0)
    }

    /// The process's engine, opened if nobody has it open.
    pub(crate) fn obtain(host: &HostFile) -> Result<Arc<Self>, c_int> {
        let mut current = CURRENT.lock();
        // A child after `fork` opens a device of its own.
        if let Some(engine) = current.upgrade().filter(|engine| !engine.device.is_forked()) {
            return Ok(engine);
        }
        let engine = Arc::new(Self::open(host).map_err(|error| failed(&host.device, &error))?);
        *current = Arc::downgrade(&engine);
        // Every peer of the configuration is answered when it asks about paths and ports, before any queue pair is there.
        for peer in &host.peers {
            if engine.peer(peer.gid, false).is_err() {
                log::warn!("peer {} gets no answers about paths before a queue pair leads there", peer.name);
            }
        }
        Ok(engine)
    }

    fn open(host: &HostFile) -> Result<Self, DeviceError> {
        let mut config = host.device();
        // Programs post receive requests late (perftest does); that must not fail the sender's QP.
        if host.protocol().tuning == Tuning::Software && !host.protocol().knobs.contains_key("tail_retry_lenient") {
            config.endpoint.tail_retry_lenient = true;
        }
        let peers = host.peers.len() + 1;
        let paths = host.peers.iter().map(|peer| usize::from(peer.uplinks.max(1))).max().unwrap_or(1);
        let paths = paths * host.planes.len();
        let evs = paths.max(MAX_EVS);
        config.limits = Limits {
            qps: MAX_QP,
            cqs: MAX_CQ,
            cq_depth: ENGINE_QUEUE,
            // Inline data of a queue pair is a region of its own.
            mrs: MAX_MR + MAX_QP,
            send_queue: ENGINE_QUEUE,
            recv_queue: ENGINE_QUEUE,
            wimm: 256,
            // Once for paths of the template, once for those of a controller.
            peers: 2 * peers,
            ev_profiles: peers + MAX_PROFILES,
            profile_evs: evs,
            evs,
            active_evs: evs.min(128),
            cc_profiles: 1 + MAX_PROFILES,
            ..Limits::default()
        };
        let device = Arc::new(Device::open(config)?);
        for (name, obtained) in device.obtained() {
            log::info!("{name}: {obtained}");
        }
        let registry = Registry::new(auto_paths(host), LINK_RATE * host.planes.len() as u64);
        let profiles = Arc::new(Mutex::new(registry));
        let hub = Arc::new(Hub::new(Arc::clone(&profiles)));
        let hears = Arc::clone(&hub);
        device.on_event(move |event| hears.hear(event))?;
        let begins = Arc::clone(&hub);
        device.with_engine(move |engine, _| begins.begin(engine.ports_up()))?;
        let control = ControlServer::start(host, &device);
        Ok(Self {
            _control: control,
            device,
            host: host.clone(),
            hub,
            peers: Mutex::default(),
            profiles,
            next_pd: AtomicU32::new(1),
            regions: AtomicUsize::new(0),
        })
    }

    /// Refuses objects of a parent process.
    pub(crate) fn in_this_process(&self) -> Result<(), c_int> {
        if self.device.is_forked() { Err(failed(&self.host.device, &DeviceError::Forked)) } else { Ok(()) }
    }

    /// A number for a new protection domain.
    pub(crate) fn next_pd(&self) -> u32 {
        self.next_pd.fetch_add(1, Ordering::Relaxed)
    }

    /// Runs a controller's call on the progress thread.
    pub(crate) fn control<T: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Registry, &mut Endpoint<'_>, Instant) -> T + Send + 'static,
    ) -> Result<T, c_int> {
        let profiles = Arc::clone(&self.profiles);
        let done = self.device.with_engine(move |engine, now| f(&mut profiles.lock(), engine, now));
        done.map_err(|error| failed("controller", &error))
    }

    /// The ports that no controller disabled.
    pub(crate) fn ports_enabled(&self) -> Result<PortMask, c_int> {
        self.control(|_, engine, _| engine.ports_enabled())
    }

    /// The peer that a GID names, for EVs that are outer destinations (`routed`) or those of the host's template.
    pub(crate) fn peer(&self, gid: Ipv6Addr, routed: bool) -> Result<PeerHandle, c_int> {
        self.known(gid, routed).map(|(handle, _)| handle)
    }

    /// The peer that a GID names, and all paths to it.
    pub(crate) fn peer_and_paths(&self, gid: Ipv6Addr) -> Result<(PeerHandle, EvProfileHandle), c_int> {
        let (handle, paths) = self.known(gid, false)?;
        Ok((handle, paths.ok_or(libc::EIO)?))
    }

    fn known(&self, gid: Ipv6Addr, routed: bool) -> Result<(PeerHandle, Option<EvProfileHandle>), c_int> {
        let Some(peer) = self.host.peer_by_gid(gid) else {
            let known: Vec<String> = self.host.peers.iter().map(|peer| peer.gid.to_string()).collect();
            // Half an address does not say which.
            let none = if gid.is_unicast_link_local() { "no peer, or more than one," } else { "no peer" };
            log::error!(
                "{none} has the GID {gid}: the configuration lists {}; add a `[[peers]]` table, or name the peer by one of these",
                known.join(", ")
            );
            return Err(libc::EHOSTUNREACH);
        };
        if routed {
            // Requests of the peer, which may be this host itself, are answered along bare EVs.
            self.known(gid, false)?;
        }
        let mut peers = self.peers.lock();
        if let Some(known) = peers.iter().find(|known| known.gid == peer.gid && known.routed == routed) {
            return Ok((known.handle, known.paths));
        }
        let wrong = |error: &dyn std::fmt::Display| {
            log::error!("{error}");
            libc::EINVAL
        };
        let mut config = self.host.peer_config(&peer).map_err(|error| wrong(&error))?;
        let mut paths = None;
        if routed {
            config.route = Route::Srv6Entry;
        } else {
            let entries = self.host.paths_to(&peer).map_err(|error| wrong(&error))?;
            paths = Some(self.device.create_ev_profile(entries).map_err(|error| failed("paths", &error))?);
        }
        let handle = self.device.add_peer(config).map_err(|error| failed("peer", &error))?;
        let addressed = self.host.set_plane_addresses(&self.device, handle, &peer);
        addressed.map_err(|error| failed("addresses of the peer", &error))?;
        peers.push(Known { gid: peer.gid, routed, handle, paths });
        Ok((handle, paths))
    }
}

/// What AUTO profiles are made of: the paths that lead to every peer. A peer behind our own switch has no uplink to choose.
fn auto_paths(host: &HostFile) -> Vec<EvEntry> {
    let far = host.peers.iter().filter(|peer| peer.uplinks > 0);
    let fewest = far.min_by_key(|peer| peer.uplinks).or(host.peers.first());
    fewest.and_then(|peer| host.paths_to(peer).ok()).unwrap_or_default()
}

impl Drop for Engine {
    fn drop(&mut self) {
        if log::log_enabled!(log::Level::Debug)
            && let Ok(stats) = self.device.stats()
        {
            log::debug!("{}", mrc_verbs_shim::logging::counters(&stats.engine));
        }
    }
}

/// How destroying an object of the device ended. A child after `fork` only has a copy of it, which goes without the device.
pub(crate) fn destroyed(what: &str, result: Result<(), DeviceError>) -> Result<(), c_int> {
    match result {
        Err(DeviceError::Forked) => Ok(()),
        other => other.map_err(|error| failed(what, &error)),
    }
}

/// Says why the device refused, and which error number means that.
pub(crate) fn failed(what: &str, error: &DeviceError) -> c_int {
    match error {
        // What the engine says of its limits is for who sets them; a verbs program cannot.
        DeviceError::Table(TableError::Full(kind)) => {
            log::error!("{what}: no free {kind}: a process has a fixed number of them; release one");
        }
        _ => log::error!("{what}: {error}"),
    }
    match error {
        DeviceError::Setup(SetupError { problem, .. }) => match problem {
            Problem::UnknownInterface => libc::ENODEV,
            Problem::MissingRight { .. } => libc::EPERM,
            Problem::QueueBusy { .. } | Problem::ProgramBusy { .. } => libc::EBUSY,
            Problem::LockedMemory { .. } => libc::ENOMEM,
            Problem::Os { errno, .. } => exhausted(*errno),
            _ => libc::EIO,
        },
        DeviceError::Os { source, .. } => exhausted(source.raw_os_error().unwrap_or(libc::EIO)),
        DeviceError::Table(TableError::Full(_)) => libc::ENOMEM,
        DeviceError::Table(TableError::Busy(_)) => libc::EBUSY,
        DeviceError::Table(_) | DeviceError::Modify(_) | DeviceError::Config(_) => libc::EINVAL,
        _ => libc::EIO,
    }
}

/// The error number of something that ran out, which a program may free or ask for less of; EIO for anything else.
fn exhausted(errno: c_int) -> c_int {
    match errno {
        libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EAGAIN => errno,
        _ => libc::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_descriptors_learns_that_it_has_none() {
        let port = |errno| {
            let problem = Problem::Os { step: "open a socket", errno };
            let error = SetupError { interface: "p0".into(), queue: Some(0), mode: None, problem };
            failed("mrc0", &DeviceError::Setup(error))
        };
        let device = |errno| {
            let source = std::io::Error::from_raw_os_error(errno);
            failed("mrc0", &DeviceError::Os { what: "netlink", source })
        };
        for errno in [libc::EMFILE, libc::ENFILE, libc::ENOMEM] {
            assert_eq!((port(errno), device(errno)), (errno, errno));
        }
        assert_eq!((port(libc::ENOTTY), device(libc::ENOTTY)), (libc::EIO, libc::EIO));
    }
}
