//! Verbs-shaped Rust API over the MRC userspace NIC: context, protection domain, memory region, queue pair, completions.
//!
//! The C libraries stand on this crate: `mrc-ibverbs` builds `libibverbs.so.1`, `mrc-libmrc` builds `lib_mrc.so`.
//!
//! ```no_run
//! use mrc_verbs_shim::{Access, Context, MemRegion, QpAddress, QpAttr, WriteWr};
//!
//! fn write_once(
//!     config: mrc_afxdp::device::DeviceConfig,
//!     peer: mrc_core::PeerConfig,
//!     paths: Vec<mrc_core::path::EvEntry>,
//!     remote: QpAddress,
//! ) -> Result<(), Box<dyn std::error::Error>> {
//!     let context = Context::open(config)?;
//!     let pd = context.alloc_pd();
//!     let mr = pd.reg_mr(MemRegion::map(1 << 20)?, Access::LOCAL)?;
//!     let attr = QpAttr::new(context.add_peer(peer)?, context.create_ev_profile(paths)?);
//!     let mut cq = context.create_cq(128)?;
//!     let qp = pd.create_qp(&cq)?;
//!     qp.connect(&attr, &remote)?;
//!     let (remote_va, rkey) = (remote.va, remote.rkey);
//!     cq.post_write(&qp, &WriteWr { wr_id: 1, mr: &mr, offset: 0, len: 4096, remote_va, rkey, signaled: true });
//!     while cq.poll().is_none() {}
//!     Ok(())
//! }
//! ```
#![forbid(unsafe_code)]

pub mod control;
pub mod host;
pub mod logging;

use std::sync::Arc;

use mrc_afxdp::device::{Device, DeviceConfig, DeviceError, DeviceEvent, DeviceStats, Queue};
use mrc_core::cc::CcConfig;
use mrc_core::path::{EvEntry, LossEvAction};
use mrc_core::{
    CcProfileHandle, EvProfileHandle, MrHandle, Pd as PdNumber, PeerConfig, PeerHandle, QpHandle, QpInfo, QpccInfo,
    RtrAttr, RtsAttr, SendWr,
};
use mrc_wire::{Psn, Qpn, Rkey};

use crate::host::{HostFile, HostPeer};

pub use mrc_afxdp::MemRegion;
pub use mrc_core::{Access, Completion, Operation, QpState, Status};

/// An open device.
#[derive(Debug, Clone)]
pub struct Context {
    device: Arc<Device>,
    next_pd: Arc<std::sync::atomic::AtomicU32>,
}

impl Context {
    /// Opens a device in the caller's network namespace.
    ///
    /// # Errors
    /// [`DeviceError`] names the interface, the cause and the cure.
    pub fn open(mut config: DeviceConfig) -> Result<Self, DeviceError> {
        // Verbs programs post receive requests late (perftest does); that must not fail the sender's QP.
        config.endpoint.tail_retry_lenient = true;
        Ok(Self { device: Arc::new(Device::open(config)?), next_pd: Arc::default() })
    }

    /// The device underneath.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Offers the device's control socket ([`control`]); `host` is its host file. None, with a line in the
    /// log, when there cannot be one.
    pub fn offer_control(&self, host: &host::HostFile) -> Option<control::ControlServer> {
        control::ControlServer::start(host, &self.device)
    }

    /// A new protection domain.
    pub fn alloc_pd(&self) -> ProtectionDomain {
        let number = self.next_pd.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        ProtectionDomain { device: Arc::clone(&self.device), pd: PdNumber(number) }
    }

    /// A completion queue with the ring that posts to its QPs go through; for one thread at a time.
    ///
    /// # Errors
    /// No free completion queue.
    pub fn create_cq(&self, depth: usize) -> Result<CompletionQueue, DeviceError> {
        Ok(CompletionQueue { queue: self.device.create_queue(depth)? })
    }

    /// Registers a peer.
    ///
    /// # Errors
    /// No free slot, or no plane in common.
    pub fn add_peer(&self, peer: PeerConfig) -> Result<PeerHandle, DeviceError> {
        self.device.add_peer(peer)
    }

    /// Gives packets to and from a peer of the host file inner addresses of their own, before a queue pair uses the peer: where
    /// each plane is a network of its own ([`HostFile::set_plane_addresses`]).
    ///
    /// # Errors
    /// The handle is stale or used, or the addresses cannot be.
    pub fn set_plane_addresses(&self, handle: PeerHandle, host: &HostFile, peer: &HostPeer) -> Result<(), DeviceError> {
        host.set_plane_addresses(&self.device, handle, peer)
    }

    /// Creates an EV profile.
    ///
    /// # Errors
    /// No free slot, or entries on ports that do not exist.
    pub fn create_ev_profile(&self, entries: Vec<EvEntry>) -> Result<EvProfileHandle, DeviceError> {
        self.device.create_ev_profile(entries)
    }

    /// Creates a congestion-control profile, to be named in [`QpAttr`]'s `rts.cc`; QPs to one peer that name the same one
    /// share its window. Without one they run that of `DeviceConfig::endpoint`.
    ///
    /// # Errors
    /// No free slot, or a parameter outside its range, by name.
    pub fn create_cc_profile(&self, config: CcConfig) -> Result<CcProfileHandle, DeviceError> {
        self.device.create_cc_profile(config)
    }

    /// The oldest asynchronous event. The event that says why a request failed is there before its completion can be polled.
    pub fn poll_event(&self) -> Option<DeviceEvent> {
        self.device.poll_event()
    }

    /// Counters.
    ///
    /// # Errors
    /// The device is closed.
    pub fn stats(&self) -> Result<DeviceStats, DeviceError> {
        self.device.stats()
    }
}

/// A protection domain: regions and QPs of different domains never meet.
#[derive(Debug, Clone)]
pub struct ProtectionDomain {
    device: Arc<Device>,
    pd: PdNumber,
}

impl ProtectionDomain {
    /// Registers memory, which moves in and lives as long as the region.
    ///
    /// # Errors
    /// No free slot.
    pub fn reg_mr(&self, memory: MemRegion, access: Access) -> Result<MemoryRegion, DeviceError> {
        let memory = Arc::new(memory);
        let (handle, key) = self.device.register(self.pd, Arc::clone(&memory), access)?;
        Ok(MemoryRegion { device: Arc::clone(&self.device), handle, key, memory })
    }

    /// Creates a QP in INIT whose completions go to `cq`.
    ///
    /// # Errors
    /// No free slot.
    pub fn create_qp(&self, cq: &CompletionQueue) -> Result<QueuePair, DeviceError> {
        let handle = self.device.create_qp(self.pd, &cq.queue)?;
        Ok(QueuePair { device: Arc::clone(&self.device), handle })
    }
}

/// Registered memory; revoked on drop.
#[derive(Debug)]
pub struct MemoryRegion {
    device: Arc<Device>,
    handle: MrHandle,
    key: Rkey,
    memory: Arc<MemRegion>,
}

impl MemoryRegion {
    /// The key peers need to write here.
    pub fn rkey(&self) -> Rkey {
        self.key
    }

    /// Address of the first byte, as peers name it.
    pub fn addr(&self) -> u64 {
        self.memory.addr()
    }

    /// The bytes.
    pub fn memory(&self) -> &MemRegion {
        &self.memory
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // A closed device holds no reference to the memory either.
        let _ = self.device.deregister(self.handle);
    }
}

/// What a peer must know to write to us; exchanged out of band.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpAddress {
    /// QP number.
    pub qpn: Qpn,
    /// First PSN this side will send.
    pub psn: Psn,
    /// Window this side's responder offers, units of 128 PSNs.
    pub mpr_dest: u8,
    /// Address of the memory it may write.
    pub va: u64,
    /// Key of that memory.
    pub rkey: Rkey,
}

/// Silence after which each of `qps` queue pairs asks its peer, in nanoseconds: `alone_ns`, and longer where all together would
/// ask more than 2 000 times a second, which a device on a shared core does not answer beside its work. 0 stays: never.
pub const fn shared_keepalive_ns(alone_ns: u64, qps: u64) -> u64 {
    const SHARE_NS: u64 = 500_000;
    let together = qps.saturating_mul(SHARE_NS);
    if alone_ns > 0 && together > alone_ns { together } else { alone_ns }
}

/// Requester attributes for a host whose engine runs in a thread. Planes and threads wait for a processor there, so packets
/// arrive out of order and late without any loss.
pub fn software_host(sq_psn: Psn) -> RtsAttr {
    let mut rts = RtsAttr::software(sq_psn);
    // Five eighths of the window, 640 packets: more than planes and software queues reorder. A loss is found without the timer,
    // which is long; the engine's default waits for the whole window, which a hole stops.
    rts.reorder_factor = 160;
    rts.reorder_floor_ns = 8_000_000;
    // A repetition that is lost as well is found by what left a quarter of a millisecond later, not by its timer.
    rts.reorder_delay_ns = 250_000;
    // One loss says little: two in a row retire a path. Silence on all paths retires none.
    rts.paths.loss_ev_action = LossEvAction::AssumedBad;
    rts.paths.loss_streak = 2;
    rts.blame_silence = false;
    // Links with too small an MTU pass probes and lose data: they come back ever more rarely.
    rts.paths.relapse_backoff = true;
    rts
}

/// Attributes of a connection.
#[derive(Debug, Clone, Copy)]
pub struct QpAttr {
    /// The peer.
    pub peer: PeerHandle,
    /// Paths.
    pub ev_profile: EvProfileHandle,
    /// Payload bytes of a full packet.
    pub path_mtu: u16,
    /// Our responder's window, units of 128 PSNs.
    pub mpr_dest: u8,
    /// Whether we answer trimmed packets with a trim NACK; the peer's `rts.trimming` should say the same.
    pub trim_nack: bool,
    /// Whether we add our service time to the timestamps we reflect; the peer must expect it.
    pub svc_time: bool,
    /// Whether a private timestamp of the peer counts microseconds.
    pub private_stamps_us: bool,
    /// Requester attributes; `sq_psn` is our first PSN, `mpr` is lowered to what the peer offers.
    pub rts: RtsAttr,
}

impl QpAttr {
    /// Defaults for a software endpoint: [`software_host`].
    pub fn new(peer: PeerHandle, ev_profile: EvProfileHandle) -> Self {
        Self {
            peer,
            ev_profile,
            path_mtu: 4096,
            mpr_dest: 8,
            trim_nack: false,
            svc_time: false,
            private_stamps_us: false,
            rts: software_host(Psn::new(0)),
        }
    }
}

/// A queue pair; destroyed on drop.
#[derive(Debug)]
pub struct QueuePair {
    device: Arc<Device>,
    handle: QpHandle,
}

impl QueuePair {
    /// Our QP number.
    pub fn qpn(&self) -> Qpn {
        self.handle.qpn()
    }

    /// INIT to RTS towards `remote`.
    ///
    /// # Errors
    /// An attribute outside its range, or a missing object.
    pub fn connect(&self, attr: &QpAttr, remote: &QpAddress) -> Result<(), DeviceError> {
        self.device.modify_to_rtr(
            self.handle,
            RtrAttr {
                peer: attr.peer,
                dest_qp: remote.qpn,
                rq_psn: remote.psn,
                path_mtu: attr.path_mtu,
                mpr_dest: attr.mpr_dest,
                ev_profile: attr.ev_profile,
                trim_nack: attr.trim_nack,
                max_wimm_dest: attr.rts.max_wimm,
                dynamic_mpr: false,
                svc_time: attr.svc_time,
                private_stamps_us: attr.private_stamps_us,
            },
        )?;
        let mut rts = attr.rts;
        //= QP-004
        rts.mpr = rts.mpr.min(remote.mpr_dest);
        self.device.modify_to_rts(self.handle, rts)
    }

    /// Moves the QP to ERROR; queued requests flush.
    ///
    /// # Errors
    /// The device is closed.
    pub fn fail(&self) -> Result<(), DeviceError> {
        self.device.modify_to_error(self.handle)
    }

    /// State, cause of failure, EV states.
    ///
    /// # Errors
    /// The device is closed.
    pub fn info(&self) -> Result<Option<QpInfo>, DeviceError> {
        self.device.qp_info(self.handle)
    }

    /// The congestion controller this QP shares; `None` unless the QP is connected.
    ///
    /// # Errors
    /// The device is closed.
    pub fn congestion(&self) -> Result<Option<QpccInfo>, DeviceError> {
        self.device.qpcc_info(self.handle)
    }

    /// What our SACKs ask of the peer's window from now on: 0 nothing, 64 for a round trip halves it, 127 leaves about one
    /// packet per round trip. With `restore_cwnd` the peer takes its old window back when the penalty ends.
    ///
    /// # Errors
    /// A penalty above 127, or the device is closed.
    pub fn set_receiver_penalty(&self, penalty: u8, restore_cwnd: bool) -> Result<(), DeviceError> {
        self.device.set_receiver_penalty(self.handle, penalty, restore_cwnd)
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        let _ = self.device.destroy_qp(self.handle);
    }
}

/// One write.
#[derive(Debug, Clone, Copy)]
pub struct WriteWr<'m> {
    /// The caller's number, returned in the completion.
    pub wr_id: u64,
    /// Local region.
    pub mr: &'m MemoryRegion,
    /// Offset of the first byte in it.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
    /// Remote address.
    pub remote_va: u64,
    /// Remote key.
    pub rkey: Rkey,
    /// Whether success produces a completion.
    pub signaled: bool,
}

/// Posts in, completions out.
#[derive(Debug)]
pub struct CompletionQueue {
    queue: Queue,
}

impl CompletionQueue {
    /// Posts a write; `false` when the ring is full: poll first.
    pub fn post_write(&mut self, qp: &QueuePair, wr: &WriteWr<'_>) -> bool {
        self.queue.post(qp.handle, send_wr(wr))
    }

    /// Posts a write with immediate: it consumes a receive request of the peer, which completes with `imm` after all
    /// earlier writes of the QP. `false` when the ring is full.
    pub fn post_write_imm(&mut self, qp: &QueuePair, wr: &WriteWr<'_>, imm: u32, solicited: bool) -> bool {
        self.queue.post(qp.handle, SendWr { imm: Some(imm), solicited, ..send_wr(wr) })
    }

    /// Posts a receive request for a write with immediate; `false` when the ring is full.
    pub fn post_recv(&mut self, qp: &QueuePair, wr_id: u64) -> bool {
        self.queue.post_recv(qp.handle, wr_id)
    }

    /// The oldest completion; never blocks.
    pub fn poll(&mut self) -> Option<Completion> {
        self.queue.poll()
    }

    /// Whether the device has gone.
    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }
}

fn send_wr(wr: &WriteWr<'_>) -> SendWr {
    SendWr {
        wr_id: wr.wr_id,
        lkey: wr.mr.key.0,
        local_va: wr.mr.addr() + wr.offset,
        len: wr.len,
        remote_va: wr.remote_va,
        rkey: wr.rkey,
        signaled: wr.signaled,
        ..SendWr::default()
    }
}

/// What others wrote, such as a file or an answer, for a terminal or a log: nothing in it steers the terminal.
pub(crate) fn visible(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::shared_keepalive_ns;

    #[test]
    fn many_queue_pairs_ask_no_more_than_a_few() {
        for alone_ns in [50_000_000, 1_000_000_000] {
            assert_eq!(shared_keepalive_ns(alone_ns, 1), alone_ns);
            for qps in [2_500, 16_384] {
                let per_second = qps * 1_000_000_000 / shared_keepalive_ns(alone_ns, qps);
                assert!((1_900..=2_000).contains(&per_second), "{qps} queue pairs ask {per_second} times a second");
            }
        }
        assert_eq!(shared_keepalive_ns(0, 16_384), 0);
    }
}
