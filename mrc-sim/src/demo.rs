//! The story of `mrc demo` in virtual time: one host writes fresh data into another's memory over all planes. A link
//! between two switches is cut and healed on the way. Every byte of every completed message is checked.
//!
//! Owns the story and its evidence; how it is printed, drawn or saved is the caller's.

mod sender;

use mrc_core::{
    Access, CqHandle, Endpoint, EndpointConfig, Instant, Limits, MemRange, ModifyError, OwnedStorage, Pd, PostError,
    QpHandle, QpInit, RetryConfig, RtrAttr, RtsAttr, Status, TableError,
    cc::CcConfig,
    path::{LossEvAction, PathConfig},
};
use mrc_wire::Psn;

use crate::fabric::LinkSpec;
use crate::fabric::{Captured, Digest, Tap};
use crate::fabric::{Clos, LinkId, TopologyError};
use crate::fabric::{Fault, Sim};
use crate::host::Memory;
use crate::host::{MrcHost, MrcHostError};
use sender::{Qp, Sender, Target};

/// The writing host.
const A: u32 = 0;
/// The host written to.
const B: u32 = 1;
/// Payload of a full packet, in bytes.
const PATH_MTU: u16 = 4096;
/// Frame bytes of a full packet, and of a SACK, under SRv6.
const FULL_FRAME: u32 = 4096 + 88 + 40 + 14;
const SACK_FRAME: u32 = 14 + 40 + 40 + 60;
/// How long after the end the last messages may take, in virtual nanoseconds.
const DRAIN_NS: u64 = 10_000_000_000;

/// The story's knobs. The default is that of `mrc demo`: 15 virtual seconds, cut at one third, healed at two thirds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DemoConfig {
    /// All randomness: paths, keys, data.
    pub seed: u64,
    /// How long new messages are posted, in virtual nanoseconds.
    pub duration_ns: u64,
    /// When the link is cut.
    pub cut_at_ns: u64,
    /// When it is healed.
    pub heal_at_ns: u64,
    /// Which link: plane, T0 and T1. T0 0 is the writer's, T0 1 the target's.
    pub cut: (u8, u16, u16),
    /// Planes, 1 to 8.
    pub planes: u8,
    /// Leaves per plane, at least 2.
    pub t0: u16,
    /// Spines per plane, at least 2.
    pub t1: u16,
    /// Every link. Slow by default: what costs real time is packets, and 15 s at 1 Gb/s are about a million per plane.
    pub link: LinkSpec,
    /// Bytes of a message.
    pub message_bytes: u32,
    /// Queue pairs.
    pub qps: u32,
    /// Messages under way per queue pair.
    pub depth: u32,
    /// Samples of the time line.
    pub samples: u32,
    /// Packets captured before and after the cut.
    pub capture: (usize, usize),
}

impl Default for DemoConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            duration_ns: 15_000_000_000,
            cut_at_ns: 5_000_000_000,
            heal_at_ns: 10_000_000_000,
            cut: (0, 0, 1),
            planes: 2,
            t0: 2,
            t1: 4,
            link: LinkSpec::new(1, 1_000),
            message_bytes: 1 << 20,
            qps: 2,
            depth: 2,
            samples: 150,
            capture: (150, 250),
        }
    }
}

/// Why the story could not be told, or did not end well.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DemoError {
    /// A knob outside its range.
    #[error("demo: {0}")]
    Config(&'static str),
    /// The fabric.
    #[error("{0}")]
    Topology(#[from] TopologyError),
    /// A host.
    #[error("{0}")]
    Host(#[from] MrcHostError),
    /// An engine object.
    #[error("{0}")]
    Table(#[from] TableError),
    /// A queue pair.
    #[error("{0}")]
    Modify(#[from] ModifyError),
    /// A write.
    #[error("{0}")]
    Post(#[from] PostError),
    /// A write failed, which the story does not foresee.
    #[error("QP {qpn:#x}: message {message} ended with `{}` at {at_ns} ns after {retries} retries", .status.text())]
    Failed {
        /// Queue pair.
        qpn: u32,
        /// Number of the message on it.
        message: u64,
        /// How it ended.
        status: Status,
        /// When, in virtual nanoseconds.
        at_ns: u64,
        /// Retries spent.
        retries: u8,
    },
    /// Messages are still open long after the end.
    #[error("{open} messages were still open {DRAIN_NS} ns after the end: the transfer hangs")]
    Stuck {
        /// Messages without completion.
        open: u64,
    },
}

/// A point of the time line. Counters run from the start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Virtual nanoseconds since the start.
    pub at_ns: u64,
    /// Payload bytes placed in B's memory, by plane; duplicates do not count.
    pub plane_bytes: Vec<u64>,
    /// Completed messages.
    pub messages: u64,
    /// Write packets sent again.
    pub retransmitted: u64,
    /// EVs of all queue pairs in state GOOD now.
    pub good: u32,
    /// In state SKIP.
    pub skip: u32,
    /// In state ASSUMED_BAD.
    pub assumed_bad: u32,
}

/// The first byte that was not what was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// Queue pair, by index.
    pub qp: u32,
    /// Message on it.
    pub message: u64,
    /// Byte of the message.
    pub offset: u32,
}

/// What happened.
#[derive(Clone, Debug)]
pub struct DemoOutcome {
    /// Virtual nanoseconds from the start to the last completion.
    pub elapsed_ns: u64,
    /// Messages completed.
    pub messages: u64,
    /// Bytes of them; each was checked in B's memory.
    pub bytes: u64,
    /// First wrong byte, `None` if all were right.
    pub mismatch: Option<Mismatch>,
    /// Payload bytes placed, by plane.
    pub plane_bytes: Vec<u64>,
    /// Packets forwarded by each T1, as its switch counted them.
    pub t1_packets: Vec<(String, u64)>,
    /// Write packets sent for the first time.
    pub sent: u64,
    /// Write packets sent again.
    pub retransmitted: u64,
    /// EVs that became ASSUMED_BAD, on either host.
    pub ev_assumed_bad: u64,
    /// EVs that came back.
    pub ev_restored: u64,
    /// Longest time without a completion, in nanoseconds.
    pub longest_stall_ns: u64,
    /// When it began.
    pub stall_at_ns: u64,
    /// Packets the cut took with it.
    pub lost_in_fabric: u64,
    /// The link that was cut.
    pub cut_link: String,
    /// The time line.
    pub samples: Vec<Sample>,
    /// Packets around the cut, both directions.
    pub capture: Vec<Captured>,
    /// The switch port they were captured on.
    pub capture_port: String,
    /// Packet-hops through switches.
    pub switch_hops: u64,
    /// Events simulated.
    pub events: u64,
    /// Fingerprint of the run: equal for equal configurations.
    pub digest: Digest,
}

impl DemoOutcome {
    /// Completed bytes over time, in Gb/s.
    pub fn gbit_per_s(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.elapsed_ns.max(1) as f64
    }
}

impl DemoConfig {
    fn clos(&self) -> Clos {
        Clos {
            planes: self.planes,
            t0: self.t0,
            t1: self.t1,
            hosts: 2,
            host_link: self.link,
            fabric_link: self.link,
            ..Clos::default()
        }
    }

    fn check(&self) -> Result<(), DemoError> {
        let refuse = |what| Err(DemoError::Config(what));
        if self.t0 < 2 || self.t1 < 2 {
            return refuse("t0 and t1 must be at least 2: with one spine a cut link has no way around it");
        }
        let (plane, t0, t1) = self.cut;
        if plane >= self.planes || t0 > 1 || t1 >= self.t1 {
            return refuse("the link to cut does not exist, or is not one of the two hosts' leaves");
        }
        if self.message_bytes == 0 || self.message_bytes > 64 << 20 {
            return refuse("messages have 1 byte to 64 MiB");
        }
        if !(1..=256).contains(&self.qps) || !(1..=64).contains(&self.depth) {
            return refuse("1 to 256 queue pairs with 1 to 64 messages each");
        }
        if self.region_bytes() > 1 << 30 {
            return refuse("queue pairs x depth x 2 x message size exceed 1 GiB per host");
        }
        if self.samples == 0 || self.duration_ns < u64::from(self.samples) {
            return refuse("at least one sample, and a nanosecond for each");
        }
        if self.cut_at_ns >= self.heal_at_ns {
            return refuse("the link is cut before it is healed");
        }
        Ok(())
    }

    fn limits(&self) -> Limits {
        let evs = usize::from(self.planes) * usize::from(self.t1);
        Limits {
            qps: self.qps as usize,
            send_queue: (self.depth as usize).next_power_of_two(),
            evs,
            active_evs: evs,
            cqs: 1,
            cq_depth: (self.qps as usize * self.depth as usize).next_power_of_two(),
            mrs: 1,
            peers: 1,
            ev_profiles: 1,
            profile_evs: evs,
            ..Limits::default()
        }
    }

    fn rts(&self, clos: &Clos) -> RtsAttr {
        let base_rtt_ns = clos.base_rtt_ns(FULL_FRAME, SACK_FRAME).min(1_000_000_000);
        // A timer of at least four round trips.
        let timeout = (1..24).find(|&timeout| 1_024 << timeout >= 4 * base_rtt_ns).unwrap_or(24);
        RtsAttr {
            retry: RetryConfig { timeout, ..RetryConfig::default() },
            base_rtt_ns,
            target_delay_ns: base_rtt_ns,
            // Nothing here can be congested, so what is lost was lost to a broken path; without trimming the engine
            // cannot know that and would only skip it now and then.
            paths: PathConfig { loss_ev_action: LossEvAction::AssumedBad, ..PathConfig::default() },
            ..RtsAttr::software(Psn::new(0))
        }
    }

    /// A window of two round trips, which the queue pairs share; at least 64 KiB and at most 4 MiB for each.
    fn endpoint(&self, clos: &Clos) -> EndpointConfig {
        let base_rtt_ns = clos.base_rtt_ns(FULL_FRAME, SACK_FRAME).min(1_000_000_000);
        let in_flight =
            u128::from(self.link.rate_bps) * u128::from(self.planes) * u128::from(base_rtt_ns) / 4_000_000_000;
        let qps = u128::from(self.qps);
        let window = in_flight.clamp(qps * (64 << 10), qps * (4 << 20)).min(u32::MAX.into());
        EndpointConfig { cc: CcConfig::Fixed { window_bytes: window as u32 }, ..EndpointConfig::default() }
    }

    /// Bytes of each host's region: for every queue pair twice its depth in messages, so that a slot is written again
    /// only long after it was checked.
    fn region_bytes(&self) -> u64 {
        u64::from(self.qps) * u64::from(self.slots()) * u64::from(self.message_bytes)
    }

    fn slots(&self) -> u32 {
        self.depth * 2
    }
}

/// Tells the story; `progress` hears of every sample while it runs.
///
/// # Errors
/// A knob outside its range, or a transfer that fails or hangs. Wrong bytes are no error: see [`DemoOutcome::mismatch`].
pub fn run(config: &DemoConfig, progress: &mut dyn FnMut(&Sample)) -> Result<DemoOutcome, DemoError> {
    config.check()?;
    let clos = config.clos();
    clos.validate()?;
    let mut storages = [A, B].map(|_| OwnedStorage::new(config.limits()));
    let [storage_a, storage_b] = storages.each_mut().map(|storage| storage.as_mut().map_err(|error| *error));
    let (storage_a, storage_b) = (storage_a.map_err(MrcHostError::from)?, storage_b.map_err(MrcHostError::from)?);
    let seeds = [config.seed, config.seed ^ 0x5eed_0000_0000_000b];
    let mut a = MrcHost::new(&clos, A, config.endpoint(&clos), storage_a.lend(), seeds[0], None)?;
    let mut b = MrcHost::new(&clos, B, config.endpoint(&clos), storage_b.lend(), seeds[1], None)?;
    let mut memory = Memory::new(2);
    *a.app_mut() = Some(connect(config, &clos, &mut a, &mut b, &mut memory)?);

    let mut hosts = [Some(a), Some(b)];
    let mut sim = Sim::new(clos, config.seed, memory, |index| {
        hosts[index as usize].take().expect("each host is asked for once")
    })?;
    let (plane, t0, t1) = config.cut;
    let link = clos.fabric_link_id(plane, t0, t1);
    sim.schedule(Instant::from_nanos(config.cut_at_ns), Fault::Cut(link));
    sim.schedule(Instant::from_nanos(config.heal_at_ns), Fault::Heal(link));
    let tap_port = clos.host_link_id(plane, if t0 == 0 { A } else { B }).upper();
    sim.attach_tap(Tap::around(Instant::from_nanos(config.cut_at_ns), config.capture.0, config.capture.1), &[tap_port]);

    sim.with_host(A, |host, now, memory| host.turn(now, memory));
    let mut samples = Vec::with_capacity(config.samples as usize);
    for nth in 1..=u64::from(config.samples) {
        sim.run_until(Instant::from_nanos(config.duration_ns * nth / u64::from(config.samples)));
        check_failure(&sim)?;
        let sample = sample(config, &sim);
        progress(&sample);
        samples.push(sample);
    }
    sim.with_host(A, |host, _, _| sender_mut(host).stop());
    let end = sim.now();
    while open_messages(&sim) > 0 {
        if sim.now().since(end) >= DRAIN_NS {
            return Err(DemoError::Stuck { open: open_messages(&sim) });
        }
        sim.run_until(sim.now().after(1_000_000));
        check_failure(&sim)?;
    }
    Ok(outcome(config, &sim, link, samples))
}

type DemoHost<'s> = MrcHost<'s, Option<Sender>>;

fn sender<'h>(host: &'h DemoHost<'_>) -> &'h Sender {
    host.app().as_ref().expect("host A has the sender")
}

fn sender_mut<'h>(host: &'h mut DemoHost<'_>) -> &'h mut Sender {
    host.app_mut().as_mut().expect("host A has the sender")
}

fn open_messages(sim: &Sim<DemoHost<'_>>) -> u64 {
    sender(sim.host(A)).open()
}

fn check_failure(sim: &Sim<DemoHost<'_>>) -> Result<(), DemoError> {
    sender(sim.host(A)).failure().map_or(Ok(()), Err)
}

/// Creates all objects on both hosts and brings the queue pairs to RTS.
fn connect(
    config: &DemoConfig,
    clos: &Clos,
    a: &mut DemoHost<'_>,
    b: &mut DemoHost<'_>,
    memory: &mut Memory,
) -> Result<Sender, DemoError> {
    let len = config.region_bytes();
    let (peer_a, profile_a) = a.add_peer(clos, B)?;
    let (peer_b, profile_b) = b.add_peer(clos, A)?;
    let range = |va| MemRange { va, len };
    let (va_a, va_b) = (0x0a00_0000_0000, 0x0b00_0000_0000);
    let mr_a = a.endpoint_mut().register_mr(Pd(1), range(va_a), Access::LOCAL)?;
    let mr_b = b.endpoint_mut().register_mr(Pd(1), range(va_b), Access::REMOTE_WRITE)?;
    memory.set(A, mr_a.index(), vec![0; len as usize]);
    memory.set(B, mr_b.index(), vec![0; len as usize]);
    let (cq_a, cq_b) = (a.endpoint_mut().create_cq()?, b.endpoint_mut().create_cq()?);
    let init = |cq: CqHandle| QpInit { pd: Pd(1), send_cq: cq, recv_cq: cq };
    let rts = config.rts(clos);
    let mut qps = Vec::with_capacity(config.qps as usize);
    for _ in 0..config.qps {
        let (qp_a, qp_b) = (a.endpoint_mut().create_qp(&init(cq_a))?, b.endpoint_mut().create_qp(&init(cq_b))?);
        let rtr = |peer, remote: QpHandle, ev_profile| RtrAttr {
            peer,
            dest_qp: remote.qpn(),
            rq_psn: rts.sq_psn,
            path_mtu: PATH_MTU,
            mpr_dest: rts.mpr,
            ev_profile,
            trim_nack: false,
            max_wimm_dest: 32,
            dynamic_mpr: false,
            svc_time: false,
            private_stamps_us: false,
        };
        bring_up(a.endpoint_mut(), qp_a, &rtr(peer_a, qp_b, profile_a), &rts)?;
        bring_up(b.endpoint_mut(), qp_b, &rtr(peer_b, qp_a, profile_b), &rts)?;
        qps.push(Qp::new(qp_a));
    }
    let key = |host: &DemoHost<'_>, mr| host.endpoint().key(mr).expect("the region was registered above");
    let target = Target {
        host: B,
        region: mr_b.index(),
        local_region: mr_a.index(),
        lkey: key(a, mr_a).0,
        rkey: key(b, mr_b),
        local_va: va_a,
        remote_va: va_b,
    };
    Ok(Sender::new(config, A, cq_a, qps, target))
}

fn bring_up(endpoint: &mut Endpoint<'_>, qp: QpHandle, rtr: &RtrAttr, rts: &RtsAttr) -> Result<(), ModifyError> {
    endpoint.modify_to_init(qp)?;
    endpoint.modify_to_rtr(Instant::ZERO, qp, rtr)?;
    endpoint.modify_to_rts(Instant::ZERO, qp, rts)
}

fn plane_bytes(config: &DemoConfig, sim: &Sim<DemoHost<'_>>) -> Vec<u64> {
    let ports = &sim.host(B).endpoint().stats().ports;
    ports.iter().take(config.planes.into()).map(|port| port.rx_bytes).collect()
}

fn sample(config: &DemoConfig, sim: &Sim<DemoHost<'_>>) -> Sample {
    let host = sim.host(A);
    let (mut good, mut skip, mut assumed_bad) = (0, 0, 0);
    for qp in sender(host).handles() {
        if let Some(info) = host.endpoint().qp_info(qp) {
            good += u32::from(info.evs.good);
            skip += u32::from(info.evs.skip);
            assumed_bad += u32::from(info.evs.assumed_bad);
        }
    }
    Sample {
        at_ns: sim.now().as_nanos(),
        plane_bytes: plane_bytes(config, sim),
        messages: sender(host).messages(),
        retransmitted: host.endpoint().stats().retransmitted,
        good,
        skip,
        assumed_bad,
    }
}

fn outcome(config: &DemoConfig, sim: &Sim<DemoHost<'_>>, link: LinkId, samples: Vec<Sample>) -> DemoOutcome {
    let clos = sim.clos();
    let (a, b) = (sim.host(A).endpoint().stats(), sim.host(B).endpoint().stats());
    let sender = sender(sim.host(A));
    let spines = (0..config.planes).flat_map(|plane| (0..config.t1).map(move |t1| clos.t1_switch(plane, t1)));
    let t1_packets = spines.map(|index| {
        let (name, counters) = sim.switch(index);
        (name.to_owned(), counters.forwarded)
    });
    let ends = [link.lower(), link.upper()].map(|port| sim.port_counters(port));
    let (plane, t0, _) = config.cut;
    let (leaf, host) = if t0 == 0 { ("t0a", "hA") } else { ("t0b", "hB") };
    DemoOutcome {
        elapsed_ns: sender.last_completion().as_nanos(),
        messages: sender.messages(),
        bytes: sender.messages() * u64::from(config.message_bytes),
        mismatch: sender.mismatch(),
        plane_bytes: plane_bytes(config, sim),
        t1_packets: t1_packets.collect(),
        sent: a.tx_data,
        retransmitted: a.retransmitted,
        ev_assumed_bad: a.ev_assumed_bad + b.ev_assumed_bad,
        ev_restored: a.ev_restored + b.ev_restored,
        longest_stall_ns: sender.longest_stall().0,
        stall_at_ns: sender.longest_stall().1.as_nanos(),
        lost_in_fabric: ends.iter().map(|port| port.lost_in_flight + port.drop_down).sum(),
        cut_link: clos.link_name(link),
        samples,
        capture: sim.tap().map(|tap| tap.packets().cloned().collect()).unwrap_or_default(),
        capture_port: format!("p{plane}-{leaf} towards {host}"),
        switch_hops: sim.counters().switch_hops,
        events: sim.counters().events,
        digest: sim.digest(),
    }
}
