//! A flow whose path is slowed on the way, under each selector. The picture in docs/selectors.md is drawn from what the test prints.
//!
//! ```text
//! hA --100G-- T0a --100G-- T1a (slowed to 10G after 200 us) --100G-- T0b --100G-- hB      2 planes x 4 spines
//! ```

use mrc_core::cc::CcConfig;
use mrc_core::path::{EvIndex, FlowBenderConfig, HopperConfig, Selector};
use mrc_core::{
    Access, CqHandle, Endpoint, EndpointConfig, Event, EventMask, Instant, Limits, MemRange, OwnedStorage, Pd,
    QpHandle, QpInit, RtrAttr, RtsAttr, SendWr, Status,
};
use mrc_sim::{App, Clos, EcnSpec, Fault, LinkId, LinkSpec, Memory, MrcHost, QueueSpec, Sim};
use mrc_wire::Psn;

const MESSAGE: u32 = 64 * 1024;
const DEPTH: u64 = 8;
pub(crate) const PATHS: u16 = 8;
/// Bytes of a full packet and of a SACK on the wire.
const FULL_FRAME: u32 = 14 + 40 + 88 + 4096;
const SACK_FRAME: u32 = 14 + 40 + 88 + 40;
pub(crate) const US: u64 = 1_000;

/// Keeps a queue pair full of writes and notes what the engine says of its path.
struct Flow {
    cq: CqHandle,
    qp: QpHandle,
    wr: SendWr,
    open: u64,
    done: u64,
    probes: Vec<(u64, u16)>,
    switches: Vec<(u64, u16, u16)>,
}

impl App for Flow {
    fn on_turn(&mut self, now: Instant, endpoint: &mut Endpoint<'_>, _: &mut Memory) {
        while let Some(event) = endpoint.poll_event() {
            match event {
                Event::PathProbe { path, at, .. } => self.probes.push((at.as_nanos(), path)),
                Event::PathSwitch { from, to, at, .. } => self.switches.push((at.as_nanos(), from, to)),
                _ => {}
            }
        }
        while let Some(done) = endpoint.poll_completion(self.cq) {
            assert_eq!(done.status, Status::Success);
            self.open -= 1;
            self.done += 1;
        }
        while self.open < DEPTH && endpoint.post_send(now, self.qp, &self.wr).is_ok() {
            self.open += 1;
        }
    }
}

/// What is slowed, when, and how the flow runs.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) seed: u64,
    pub(crate) slow_at: u64,
    pub(crate) slow: LinkSpec,
    pub(crate) run: u64,
    pub(crate) samples: usize,
}

impl Setup {
    pub(crate) const DEFAULT: Self =
        Self { seed: 1, slow_at: 200 * US, slow: LinkSpec::new(10, 500), run: 1_000 * US, samples: 10 };
}

pub(crate) struct Outcome {
    /// Bytes that each path took in each sample, of frames.
    pub(crate) paths: Vec<[u64; PATHS as usize]>,
    /// Bytes written, by sample.
    pub(crate) goodput: Vec<u64>,
    pub(crate) probes: Vec<(u64, u16)>,
    pub(crate) switches: Vec<(u64, u16, u16)>,
    pub(crate) lost: u64,
}

impl Outcome {
    pub(crate) fn gbps(&self, setup: &Setup, samples: std::ops::Range<usize>) -> f64 {
        let ns = setup.run / setup.samples as u64 * samples.len() as u64;
        self.goodput[samples].iter().sum::<u64>() as f64 * 8.0 / ns as f64
    }

    /// Share of the bytes of `samples` that took path 0, the slow one.
    pub(crate) fn on_slow(&self, samples: std::ops::Range<usize>) -> f64 {
        let rows = &self.paths[samples];
        let all: u64 = rows.iter().flatten().sum();
        rows.iter().map(|row| row[0]).sum::<u64>() as f64 / all.max(1) as f64
    }
}

fn clos() -> Clos {
    // ECN at a fifth of a bandwidth-delay product of the path.
    let ecn = EcnSpec { last_hop: false, ..EcnSpec::step(20_000) };
    Clos { queue: QueueSpec { ecn: Some(ecn), ..QueueSpec::default() }, ..Clos::default() }
}

pub(crate) fn base_rtt_ns() -> u64 {
    clos().base_rtt_ns(FULL_FRAME, SACK_FRAME)
}

/// The link between leaf and spine of path `path` of the profile: planes alternate.
fn uplink(clos: &Clos, path: u16) -> LinkId {
    clos.fabric_link_id((path % 2) as u8, 0, path / 2)
}

pub(crate) fn run(selector: Selector, setup: &Setup) -> Outcome {
    let clos = clos();
    let limits = Limits { qps: 1, evs: PATHS.into(), active_evs: PATHS.into(), ..Limits::default() };
    let mut storages = [0, 1].map(|_| OwnedStorage::new(limits).unwrap());
    let [storage_a, storage_b] = &mut storages;
    let events = EventMask::PATH.with(EventMask::QP_ERROR);
    // A bandwidth-delay product: full rate on an idle path, and no queue.
    let cc = CcConfig::Fixed { window_bytes: (100 * base_rtt_ns() / 8) as u32 };
    // Bytes per path are those of the flow: no EV probes among them.
    let quiet = EndpointConfig { ev_probe_rate_limit: 0, ..EndpointConfig::default() };
    let config = EndpointConfig { events, cc, ..quiet.clone() };
    let mut a = MrcHost::new(&clos, 0, config, storage_a.lend(), setup.seed, None).unwrap();
    let mut b = MrcHost::new(&clos, 1, quiet, storage_b.lend(), !setup.seed, None).unwrap();
    let mut memory = Memory::new(2);
    *a.app_mut() = Some(connect(&clos, &mut a, &mut b, &mut memory, selector));

    let mut hosts = [Some(a), Some(b)];
    let mut sim = Sim::new(clos, setup.seed, memory, |index| hosts[index as usize].take().unwrap()).unwrap();
    sim.schedule(Instant::from_nanos(setup.slow_at), Fault::Degrade(uplink(&clos, 0), setup.slow));
    sim.with_host(0, |host, now, memory| host.turn(now, memory));
    let mut outcome =
        Outcome { paths: Vec::new(), goodput: Vec::new(), probes: Vec::new(), switches: Vec::new(), lost: 0 };
    let (mut sent, mut received) = ([0u64; PATHS as usize], 0u64);
    for nth in 1..=setup.samples as u64 {
        sim.run_until(Instant::from_nanos(setup.run * nth / setup.samples as u64));
        let total: [u64; PATHS as usize] =
            std::array::from_fn(|path| sim.port_counters(uplink(&clos, path as u16).lower()).tx_bytes);
        outcome.paths.push(std::array::from_fn(|path| total[path] - sent[path]));
        let arrived = sim.host(1).endpoint().stats().ports.iter().map(|port| port.rx_bytes).sum::<u64>();
        outcome.goodput.push(arrived - received);
        (sent, received) = (total, arrived);
    }
    let app = sim.host(0).app().as_ref().unwrap();
    assert!(app.done > 0);
    outcome.probes.clone_from(&app.probes);
    outcome.switches.clone_from(&app.switches);
    let stats = sim.host(0).endpoint().stats();
    outcome.lost = stats.lost_inferred + stats.lost_nack + stats.lost_timeout;
    outcome
}

type SimHost<'s> = MrcHost<'s, Option<Flow>>;

fn connect<'s>(clos: &Clos, a: &mut SimHost<'s>, b: &mut SimHost<'s>, memory: &mut Memory, selector: Selector) -> Flow {
    let (peer_a, profile_a) = a.add_peer(clos, 1).unwrap();
    let (peer_b, profile_b) = b.add_peer(clos, 0).unwrap();
    let range = MemRange { va: 0x1_0000_0000, len: MESSAGE.into() };
    let mr_a = a.endpoint_mut().register_mr(Pd(1), range, Access::LOCAL).unwrap();
    let mr_b = b.endpoint_mut().register_mr(Pd(1), range, Access::REMOTE_WRITE).unwrap();
    memory.set(0, mr_a.index(), vec![0; MESSAGE as usize]);
    memory.set(1, mr_b.index(), vec![0; MESSAGE as usize]);
    let base_rtt_ns = base_rtt_ns();
    let rts =
        // What the packets counted cost: measured lateness would spare every one of them.
        |selector| RtsAttr { selector, base_rtt_ns, target_delay_ns: base_rtt_ns, reorder_tolerance: 0, ..RtsAttr::software(Psn::new(0)) };
    let cqs = [a.endpoint_mut().create_cq().unwrap(), b.endpoint_mut().create_cq().unwrap()];
    let init = |cq| QpInit { pd: Pd(1), send_cq: cq, recv_cq: cq };
    let qp_a = a.endpoint_mut().create_qp(&init(cqs[0])).unwrap();
    let qp_b = b.endpoint_mut().create_qp(&init(cqs[1])).unwrap();
    let rtr = |peer, remote: QpHandle, profile| RtrAttr::software(peer, remote.qpn(), Psn::new(0), profile);
    let ends = [
        (a.endpoint_mut(), qp_a, rtr(peer_a, qp_b, profile_a), rts(selector)),
        (b.endpoint_mut(), qp_b, rtr(peer_b, qp_a, profile_b), rts(Selector::Spray)),
    ];
    for (endpoint, qp, rtr, rts) in ends {
        endpoint.modify_to_init(qp).unwrap();
        endpoint.modify_to_rtr(Instant::ZERO, qp, &rtr).unwrap();
        endpoint.modify_to_rts(Instant::ZERO, qp, &rts).unwrap();
    }
    let wr = SendWr {
        lkey: a.endpoint().key(mr_a).unwrap().0,
        local_va: range.va,
        len: MESSAGE,
        remote_va: range.va,
        rkey: b.endpoint().key(mr_b).unwrap(),
        signaled: true,
        ..SendWr::default()
    };
    Flow { cq: cqs[0], qp: qp_a, wr, open: 0, done: 0, probes: Vec::new(), switches: Vec::new() }
}

pub(crate) fn all() -> [(&'static str, Selector); 5] {
    let first = EvIndex(0);
    [
        ("spray", Selector::Spray),
        ("hopper", Selector::Hopper(HopperConfig { first, ..HopperConfig::DEFAULT })),
        ("flow-bender", Selector::FlowBender(FlowBenderConfig { first, ..FlowBenderConfig::DEFAULT })),
        ("oblivious", Selector::Oblivious),
        ("single", Selector::Pinned(first)),
    ]
}
