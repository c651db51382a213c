//! One side of a transfer: an open device with its queue pairs, memory and completion queue.

use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context as _, bail};
use mrc_afxdp::device::{Attachment, DeviceEvent, Idle};
use mrc_core::{Discard, EventMask, PeerHandle, RetryConfig, Stats, Trimming};
use mrc_verbs_shim::{
    Access, CompletionQueue, Context, MemRegion, MemoryRegion, QpAddress, QpAttr, QueuePair, shared_keepalive_ns,
};
use mrc_wire::{Psn, Qpn, Rkey};

use mrc_verbs_shim::control::ControlServer;
use mrc_verbs_shim::host::{HostFile, HostPeer};

use crate::refused::{self, Refused};

/// Silence of the peer that a transfer survives at least: an outage of some seconds, or a process that is stopped for as long.
const PATIENCE_NS: u64 = 8_000_000_000;

/// Acknowledgement timer by default: T0 = 16.8 ms. With 4.2 ms threads that waited for a processor looked like losses.
const TIMEOUT: u8 = 14;

/// Silence after which a queue pair asks its peer, if there are few.
const KEEPALIVE_NS: u64 = 50_000_000;

/// How to open a device.
#[derive(Debug, Clone, clap::Args)]
pub struct DeviceArgs {
    /// Host file: planes, addresses, peers (`mrc lab host hA` writes one)
    #[arg(long, value_name = "FILE", conflicts_with = "lab")]
    pub host_file: Option<std::path::PathBuf>,
    /// Host of the lab fabric to run on, e.g. hA; needs root
    #[arg(long, value_name = "HOST")]
    pub lab: Option<String>,
    /// Prefix of the lab fabric
    #[arg(long, default_value = "mrc")]
    pub prefix: String,
    /// How to attach to the interfaces: the best XDP mode there is, one in particular, or packet sockets
    #[arg(long, value_enum, default_value_t = ModeArg::Auto)]
    pub mode: ModeArg,
    /// Never sleep: lowest latency, one core burnt per device
    #[arg(long)]
    pub spin: bool,
    /// Let switches trim packets and answer trimmed ones with a NACK; say so on both sides
    #[arg(long)]
    pub trimming: bool,
    /// Acknowledgement timer T0 = 1.024 us * 2^N; a silent peer is given up after 8 s or more
    #[arg(long, value_name = "N", default_value_t = TIMEOUT, value_parser = clap::value_parser!(u8).range(1..=24))]
    pub timeout: u8,
    /// Set by commands that report bytes per path
    #[arg(skip)]
    pub count_paths: bool,
}

/// `--mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ModeArg {
    /// Native XDP, else SKB mode
    Auto,
    /// XDP in the driver
    Native,
    /// XDP on socket buffers
    Skb,
    /// Native and zero-copy, or fail
    ZeroCopy,
    /// Packet sockets, for interfaces without XDP
    Raw,
}

impl ModeArg {
    fn attachment(self) -> Attachment {
        use mrc_afxdp::Mode;
        match self {
            Self::Auto => Attachment::Xdp(Mode::Auto),
            Self::Native => Attachment::Xdp(Mode::Native),
            Self::Skb => Attachment::Xdp(Mode::Skb),
            Self::ZeroCopy => Attachment::Xdp(Mode::ZeroCopy),
            Self::Raw => Attachment::Raw,
        }
    }
}

impl DeviceArgs {
    /// Defaults for a host of a fabric that the program built itself.
    pub fn own_fabric(trimming: bool) -> Self {
        let mode = ModeArg::Auto;
        Self {
            host_file: None,
            lab: None,
            prefix: String::new(),
            mode,
            spin: false,
            trimming,
            timeout: TIMEOUT,
            count_paths: false,
        }
    }

    /// The host to run on.
    pub fn host(&self) -> anyhow::Result<HostFile> {
        match (&self.host_file, &self.lab) {
            (Some(path), _) => Ok(HostFile::read(path)?),
            (None, Some(name)) => lab_host(&mrc_lab::Fabric::discover(&self.prefix)?, name),
            (None, None) => {
                let why = "which host is this? give --host-file FILE, or --lab hA on a fabric made by `mrc lab up`";
                Err(crate::usage::usage(anyhow::Error::msg(why)))
            }
        }
    }
}

/// One side of a transfer.
pub struct Session {
    // Order matters: what looks at the device, QPs and regions go before it.
    _control: Option<ControlServer>,
    /// Queue pairs.
    pub qps: Vec<QueuePair>,
    /// The region that the peer writes to and that local writes are read from.
    pub mr: MemoryRegion,
    /// Posts and completions.
    pub cq: CompletionQueue,
    /// The device.
    pub context: Context,
    timeout: u8,
    trimming: bool,
    /// Name of the peer, once connected.
    peer: OnceLock<String>,
    /// Frames of strangers before the peer was known.
    early: OnceLock<u64>,
    /// First PSN of every QP here. Random: who can guess PSNs can forge acknowledgements.
    first_psn: Psn,
}

/// The device's own congestion-control profile and one for each path selector that a command compares.
const CC_PROFILES: usize = 16;

/// An open device without queue pairs.
pub struct Nic {
    // Before the device, which it looks at.
    control: Option<ControlServer>,
    context: Context,
}

impl Nic {
    /// Opens the device in the host's namespace, with room for `qps` queue pairs.
    pub fn open(host: &HostFile, args: &DeviceArgs, qps: usize) -> anyhow::Result<Self> {
        let mut config = host.device();
        config.attachment = args.mode.attachment();
        config.count_paths = args.count_paths;
        config.endpoint.events = config.endpoint.events.with(EventMask::PATH);
        config.limits.cc_profiles = CC_PROFILES;
        config.limits.qps = qps.next_power_of_two().max(4);
        config.idle = if args.spin { Idle::Spin } else { Idle::SleepAfter(Duration::from_micros(50)) };
        let context = match &host.namespace {
            Some(namespace) => mrc_lab::enter(namespace, || Context::open(config))?,
            None => Context::open(config),
        }
        .with_context(|| format!("host {}", host.name))?;
        for (name, obtained) in context.device().obtained() {
            log::info!("{name}: {obtained}");
        }
        Ok(Self { control: context.offer_control(host), context })
    }

    /// Adds `qps` queue pairs and `bytes` of memory.
    pub fn session(self, args: &DeviceArgs, qps: usize, bytes: usize) -> anyhow::Result<Session> {
        let Self { control, context } = self;
        let pd = context.alloc_pd();
        affordable(bytes as u64, memory_left())?;
        let mr = pd.reg_mr(MemRegion::map(bytes).context("memory for the transfer")?, Access::REMOTE_WRITE)?;
        let cq = context.create_cq(4096)?;
        let qps = (0..qps).map(|_| pd.create_qp(&cq)).collect::<Result<_, _>>()?;
        let first_psn = Psn::new(getrandom::u32().context("random first PSN")?);
        let (timeout, trimming, peer, early) = (args.timeout, args.trimming, OnceLock::new(), OnceLock::new());
        Ok(Session { _control: control, qps, mr, cq, context, timeout, trimming, first_psn, peer, early })
    }
}

impl Session {
    /// Opens the device in the host's namespace, with `qps` queue pairs and `bytes` of memory.
    pub fn open(host: &HostFile, args: &DeviceArgs, qps: usize, bytes: usize) -> anyhow::Result<Self> {
        Nic::open(host, args, qps)?.session(args, qps, bytes)
    }

    /// What the peer must know of QP number `index`.
    pub fn address(&self, index: usize) -> QpAddress {
        QpAddress {
            qpn: self.qps[index].qpn(),
            psn: self.first_psn,
            mpr_dest: 8,
            va: self.mr.addr(),
            rkey: self.mr.rkey(),
        }
    }

    /// The oldest event of the device, which the log hears as well.
    pub fn poll_event(&self) -> Option<DeviceEvent> {
        let event = self.context.poll_event()?;
        mrc_verbs_shim::logging::tell(&event, |_| self.peer.get().cloned());
        Some(event)
    }

    /// What to add to an error that the peer's silence explains, while no port of this host is up: then the silence is no fault
    /// of the peer. Empty while a port is up.
    pub fn without_ports(&self) -> &'static str {
        match self.context.stats() {
            Ok(stats) if stats.up.is_empty() => "; this host has no usable port: its links are down",
            _ => "",
        }
    }

    /// Packets dropped that a right peer does not send.
    pub fn refused(&self, stats: &Stats) -> Vec<Refused> {
        refused::packets(stats, self.early.get().copied().unwrap_or(0))
    }

    /// Connects all QPs to the peer's, in order.
    pub fn connect(
        &self,
        host: &HostFile,
        peer: &HostPeer,
        path_mtu: u16,
        keepalive: bool,
        remotes: &[QpAddress],
    ) -> anyhow::Result<PeerHandle> {
        self.connect_with(host, peer, path_mtu, keepalive, remotes, |_, _| ())
    }

    /// As [`Self::connect`]; `tune` may change the attributes of each QP, by its number.
    pub fn connect_with(
        &self,
        host: &HostFile,
        peer: &HostPeer,
        path_mtu: u16,
        keepalive: bool,
        remotes: &[QpAddress],
        tune: impl Fn(usize, &mut QpAttr),
    ) -> anyhow::Result<PeerHandle> {
        let _ = self.peer.set(peer.name.clone());
        let handle = self.context.add_peer(host.peer_config(peer)?)?;
        let _ = self.early.set(self.context.stats()?.engine.discarded(Discard::Stranger));
        self.context.set_plane_addresses(handle, host, peer)?;
        let profile = self.context.create_ev_profile(host.paths_to(peer)?)?;
        let mut attr = QpAttr::new(handle, profile);
        attr.path_mtu = path_mtu;
        attr.trim_nack = self.trimming;
        attr.rts.sq_psn = self.first_psn;
        host.protocol().connect(&mut attr);
        attr.rts.trimming = if self.trimming { Trimming::On } else { Trimming::Off };
        attr.rts.retry = RetryConfig { timeout: self.timeout, linear: 7, exponential: 0 }.at_least(PATIENCE_NS);
        if !host.protocol().knobs.contains_key("keepalive") {
            attr.rts.keepalive_ns =
                if keepalive { shared_keepalive_ns(KEEPALIVE_NS, self.qps.len() as u64) } else { 0 };
        }
        for (index, (qp, remote)) in self.qps.iter().zip(remotes).enumerate() {
            let mut attr = attr;
            tune(index, &mut attr);
            qp.connect(&attr, remote)?;
        }
        Ok(handle)
    }
}

/// Bytes of memory that this machine has left; none: it does not say.
fn memory_left() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let left = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    left.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Refuses a region that this machine cannot bring in: the kernel would kill a program for it. A server has the size from its client.
fn affordable(bytes: u64, left: Option<u64>) -> anyhow::Result<()> {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    match left.filter(|left| *left < bytes) {
        None => Ok(()),
        Some(left) => bail!(
            "memory for the transfer: {:.1} GiB, and this machine has {:.1} left: choose a smaller --size, -q or -t",
            gib(bytes),
            gib(left)
        ),
    }
}

/// A peer's QP as it arrived over the control connection.
pub fn address(qpn: u32, psn: u32, mpr_dest: u8, va: u64, rkey: u32) -> QpAddress {
    QpAddress { qpn: Qpn::new(qpn), psn: Psn::new(psn), mpr_dest, va, rkey: Rkey(rkey) }
}

/// A host of the lab fabric: what `mrc lab host` prints is a host file.
pub fn lab_host(fabric: &mrc_lab::Fabric, name: &str) -> anyhow::Result<HostFile> {
    Ok(HostFile::parse("the lab fabric", &serde_json::to_string(&fabric.host(name)?)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_that_the_machine_cannot_bring_in_is_refused() {
        let left = memory_left().unwrap();
        assert!(left > 1 << 20 && affordable(1 << 20, Some(left)).is_ok() && affordable(u64::MAX, None).is_ok());
        let why = affordable(64 << 30, Some(20 << 30)).unwrap_err().to_string();
        assert!(why.contains("64.0 GiB, and this machine has 20.0 left"), "{why}");
    }
}
