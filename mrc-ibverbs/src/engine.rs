//! The device under all contexts of this process: one engine, one progress thread.

use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use core::ffi::c_int;

use mrc_afxdp::device::{Device, DeviceError};
use mrc_afxdp::{Problem, SetupError};
use mrc_core::cc::CcConfig;
use mrc_core::path::EvEntry;
use mrc_core::{CcProfileHandle, EvProfileHandle, Limits, PeerHandle, TableError};
use mrc_verbs_shim::host::HostFile;
use parking_lot::Mutex;

use crate::events::Hub;
use crate::mrc::profile::MAX_EVS;

/// Sizes. Beyond them creating fails with ENOMEM.
pub(crate) const MAX_QP: usize = 256;
pub(crate) const MAX_CQ: usize = 128;
/// A key is random but for the bits that name its slot: fewer slots, keys harder to guess.
pub(crate) const MAX_MR: usize = 1024;
/// Work requests a QP's ring can hold.
pub(crate) const MAX_WR: usize = 16_384;
/// Completions a CQ's ring can hold.
pub(crate) const MAX_CQE: usize = 1 << 18;
/// Different lists of EVs, and different configurations of congestion control, that QPs of a process may have had.
const MAX_LISTS: usize = 64;
/// Work requests in the engine's own queues; the rest waits in the rings.
pub(crate) const ENGINE_QUEUE: usize = 256;

pub(crate) struct Engine {
    pub(crate) device: Device,
    pub(crate) host: HostFile,
    pub(crate) hub: Arc<Hub>,
    peers: Mutex<Vec<(Ipv6Addr, PeerHandle, EvProfileHandle)>>,
    lists: Mutex<Vec<(Vec<EvEntry>, EvProfileHandle)>>,
    controls: Mutex<Vec<(CcConfig, CcProfileHandle)>>,
    next_pd: AtomicU32,
}

static CURRENT: Mutex<Weak<Engine>> = Mutex::new(Weak::new());

impl Engine {
    /// The process's engine, opened if nobody has it open.
    pub(crate) fn obtain(host: &HostFile) -> Result<Arc<Self>, c_int> {
        let mut current = CURRENT.lock();
        if let Some(engine) = current.upgrade() {
            return Ok(engine);
        }
        let engine = Arc::new(Self::open(host).map_err(|error| failed(&host.device, &error))?);
        *current = Arc::downgrade(&engine);
        Ok(engine)
    }

    fn open(host: &HostFile) -> Result<Self, DeviceError> {
        let mut config = host.device();
        // Programs post receive requests late (perftest does); that must not fail the sender's QP.
        config.endpoint.tail_retry_lenient = true;
        let peers = host.peers.len() + 1;
        let paths = host.peers.iter().map(|peer| usize::from(peer.uplinks.max(1))).max().unwrap_or(1);
        let paths = paths * host.planes.len();
        let evs = paths.max(MAX_EVS);
        config.limits = Limits {
            qps: MAX_QP,
            cqs: MAX_CQ,
            cq_depth: ENGINE_QUEUE,
            mrs: MAX_MR,
            send_queue: ENGINE_QUEUE,
            recv_queue: ENGINE_QUEUE,
            wimm: 256,
            peers,
            ev_profiles: peers + MAX_LISTS,
            profile_evs: evs,
            evs,
            active_evs: evs.min(128),
            cc_profiles: 1 + MAX_LISTS,
            ..Limits::default()
        };
        let device = Device::open(config)?;
        for (name, obtained) in device.obtained() {
            log::info!("{name}: {obtained}");
        }
        let hub = Arc::new(Hub::new(host.planes.len()));
        let hears = Arc::clone(&hub);
        device.on_event(move |event| hears.hear(event))?;
        let (peers, lists, controls) = (Mutex::default(), Mutex::default(), Mutex::default());
        Ok(Self { device, host: host.clone(), hub, peers, lists, controls, next_pd: AtomicU32::new(1) })
    }

    /// A number for a new protection domain.
    pub(crate) fn next_pd(&self) -> u32 {
        self.next_pd.fetch_add(1, Ordering::Relaxed)
    }

    /// The peer that a GID names, and the paths to it.
    pub(crate) fn peer(&self, gid: Ipv6Addr) -> Result<(PeerHandle, EvProfileHandle), c_int> {
        let Some(peer) = self.host.peer_by_gid(gid) else {
            let known: Vec<String> = self.host.peers.iter().map(|peer| peer.gid.to_string()).collect();
            log::error!(
                "no peer has the GID {gid}: the configuration lists {}; add a `[[peers]]` table",
                known.join(", ")
            );
            return Err(libc::EHOSTUNREACH);
        };
        let mut peers = self.peers.lock();
        if let Some((_, handle, profile)) = peers.iter().find(|(gid, ..)| *gid == peer.gid) {
            return Ok((*handle, *profile));
        }
        let wrong = |error: &dyn std::fmt::Display| {
            log::error!("{error}");
            libc::EINVAL
        };
        let config = self.host.peer_config(&peer).map_err(|error| wrong(&error))?;
        let paths = self.host.paths_to(&peer).map_err(|error| wrong(&error))?;
        let handle = self.device.add_peer(config).map_err(|error| failed("peer", &error))?;
        let profile = self.device.create_ev_profile(paths).map_err(|error| failed("paths", &error))?;
        peers.push((peer.gid, handle, profile));
        Ok((handle, profile))
    }
}

impl Engine {
    /// The engine's profile of a controller's EVs. Where the host chose them, those that do not lead to the peer are left out.
    pub(crate) fn ev_profile(
        &self,
        gid: Ipv6Addr,
        mut entries: Vec<EvEntry>,
        any_path: bool,
    ) -> Result<EvProfileHandle, c_int> {
        if any_path && let Some(peer) = self.host.peer_by_gid(gid) {
            let paths = self.host.paths_to(&peer).map_err(|_| libc::EINVAL)?;
            entries.retain(|entry| paths.iter().any(|path| (path.ev, path.port) == (entry.ev, entry.port)));
        }
        let mut lists = self.lists.lock();
        if let Some((_, handle)) = lists.iter().find(|(known, _)| *known == entries) {
            return Ok(*handle);
        }
        let created = self.device.create_ev_profile(entries.clone());
        let handle = created.map_err(|error| failed("EV profile", &error))?;
        lists.push((entries, handle));
        Ok(handle)
    }

    /// The engine's profile of a configuration of congestion control.
    pub(crate) fn cc_profile(&self, config: CcConfig) -> Result<CcProfileHandle, c_int> {
        let mut controls = self.controls.lock();
        if let Some((_, handle)) = controls.iter().find(|(known, _)| *known == config) {
            return Ok(*handle);
        }
        let created = self.device.create_cc_profile(config);
        let handle = created.map_err(|error| failed("congestion-control profile", &error))?;
        controls.push((config, handle));
        Ok(handle)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if log::log_enabled!(log::Level::Debug)
            && let Ok(stats) = self.device.stats()
        {
            log::debug!("{:?}", stats.engine);
        }
    }
}

/// Says why the device refused, and which error number means that.
pub(crate) fn failed(what: &str, error: &DeviceError) -> c_int {
    log::error!("{what}: {error}");
    match error {
        DeviceError::Setup(SetupError { problem, .. }) => match problem {
            Problem::UnknownInterface => libc::ENODEV,
            Problem::MissingRight { .. } => libc::EPERM,
            Problem::QueueBusy { .. } | Problem::ProgramBusy { .. } => libc::EBUSY,
            Problem::LockedMemory { .. } => libc::ENOMEM,
            _ => libc::EIO,
        },
        DeviceError::Table(TableError::Full(_)) => libc::ENOMEM,
        DeviceError::Table(TableError::Busy(_)) => libc::EBUSY,
        DeviceError::Table(_) | DeviceError::Modify(_) | DeviceError::Config(_) => libc::EINVAL,
        _ => libc::EIO,
    }
}
