//! Connections of MRC hosts: peers, the EV profiles of the paths to them, and queue pairs that come up.

use std::collections::VecDeque;

use mrc_core::path::{EvEntry, EvIndex, Selector, auto_profile, compact_profile};
use mrc_core::{
    EvProfileHandle, Instant, MAX_PORTS, PeerConfig, PeerHandle, PlanePath, QpHandle, QpInit, Route, RtrAttr, RtsAttr,
    Trimming,
};
use mrc_wire::{Ev, EvTemplate, Ip, PortNum, Psn, Qpn, Rkey};

use super::{MrcSettings, MrcTransport, PD};
use crate::fabric::{PathNames, Topology, address};
use crate::host::mrc::{MrcHostError, PLANE_LSB};

/// Number of the first packet of each queue pair.
pub(super) const FIRST_PSN: Psn = Psn::new(1);

/// What hosts that share an EV profile have in common.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum ProfileOf {
    /// Whether they are below different leaves of a Clos.
    Across(bool),
    /// Ports that both ends have.
    Ports(u8),
    /// The paths.
    Paths(Vec<(u32, u8)>),
}

/// A piece of a message: message, first byte, bytes.
pub(super) type Piece = (u32, u64, u32);

/// A queue pair and the pieces of messages that wait for room in it.
pub(super) struct Lane {
    pub(super) qp: QpHandle,
    pub(super) posted: u32,
    /// None until a piece had to wait: most never have.
    #[expect(clippy::box_collection, reason = "a pointer in place of a whole queue, for each of many lanes")]
    pub(super) backlog: Option<Box<VecDeque<Piece>>>,
}

/// What a host knows of another one.
#[derive(Clone, Copy)]
pub(super) struct Connection {
    pub(super) peer: u32,
    pub(super) handle: PeerHandle,
    pub(super) profile: EvProfileHandle,
    pub(super) entries: u32,
    pub(super) rkey: Rkey,
    /// Its lanes among those of the host; those of a connection follow one another.
    pub(super) first: u32,
    pub(super) count: u32,
    /// The connection whose turn it is.
    next: u32,
}

impl Connection {
    /// The first lane, among its own, of the connection whose turn it is.
    pub(super) fn take_turn(&mut self, qps: u32) -> u32 {
        self.next += 1;
        (self.next - 1) % (self.count / qps.max(1)).max(1) * qps
    }
}

/// What an end of a connection does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// It sends and receives.
    Both,
    /// It sends.
    Sender,
    /// It receives, from this number on.
    Receiver(Psn),
}

/// What all queue pairs of a host come up with.
pub(super) struct Attributes {
    rtr: RtrAttr,
    rts: RtsAttr,
    /// `None`: one path each, drawn at random.
    selector: Option<Selector>,
}

impl Attributes {
    pub(super) fn new(settings: &MrcSettings) -> Self {
        let nobody = PeerHandle::from_index(0);
        let rtr = RtrAttr {
            path_mtu: settings.mtu,
            mpr_dest: settings.rts.mpr,
            trim_nack: settings.rts.trimming == Trimming::On,
            max_wimm_dest: 0,
            ..RtrAttr::software(nobody, Qpn::new(0), FIRST_PSN, EvProfileHandle::from_index(0))
        };
        let rts = RtsAttr { sq_psn: FIRST_PSN, ..settings.rts };
        Self { rtr, rts, selector: settings.selector }
    }
}

/// The SID of a host's port.
pub(super) fn sid_of(topology: &Topology, plane: u8, host: u32) -> [u8; 16] {
    match topology {
        Topology::Clos(clos) => clos.plan().sid(clos.plan().host(plane, clos.host_index(host))),
        Topology::Graph(graph) => graph.sid(host),
    }
}

impl MrcTransport<'_> {
    /// Connects two hosts: their queue pairs to each other come up now, unless messages have their own.
    pub(super) fn connect(
        settings: &MrcSettings,
        topology: &Topology,
        a: &mut Self,
        b: &mut Self,
        connections: u32,
    ) -> Result<(), MrcHostError> {
        let count = if a.own.is_some() { 0 } else { settings.qps * connections };
        let [to_b, to_a] = [b.index, a.index];
        a.know(settings, topology, to_b, b.key())?;
        b.know(settings, topology, to_a, a.key())?;
        for _ in 0..count {
            let qps = [a.create_qp()?, b.create_qp()?];
            for (nth, host) in [&mut *a, &mut *b].into_iter().enumerate() {
                let at = host.connections.len() - 1;
                host.bring_up(Instant::ZERO, qps[nth], qps[1 - nth].qpn(), at, Role::Both)?;
                host.lanes.push(Lane { qp: qps[nth], posted: 0, backlog: None });
                host.connections[at].count += 1;
            }
        }
        Ok(())
    }

    /// Makes another host known: its addresses, the paths to it and the key of its memory.
    fn know(&mut self, settings: &MrcSettings, topology: &Topology, peer: u32, rkey: Rkey) -> Result<(), MrcHostError> {
        let handle = self.add_peer(topology, peer)?;
        let (profile, entries) = self.profile(settings, topology, peer)?;
        let first = self.lanes.len() as u32;
        self.connections.push(Connection { peer, handle, profile, entries, rkey, first, count: 0, next: 0 });
        Ok(())
    }

    fn key(&self) -> Rkey {
        self.endpoint.key(self.region).expect("registered by new")
    }

    pub(super) fn create_qp(&mut self) -> Result<QpHandle, MrcHostError> {
        Ok(self.endpoint.create_qp(&QpInit { pd: PD, send_cq: self.cq, recv_cq: self.cq })?)
    }

    fn add_peer(&mut self, topology: &Topology, peer: u32) -> Result<PeerHandle, MrcHostError> {
        let srv6 = topology.scheme().paths() == PathNames::MicroSids;
        let mut planes = [None; MAX_PORTS];
        for (plane, path) in (0..topology.host_ports(self.index)).zip(&mut planes) {
            let sid = sid_of(topology, plane, self.index);
            *path = Some(PlanePath { next_hop: address::t0_mac(plane, self.index), outer_src: srv6.then_some(sid) });
        }
        let route = match srv6 {
            true => {
                let (template, ops) = match topology {
                    Topology::Clos(clos) => clos.ev_template(self.index, peer),
                    Topology::Graph(graph) => graph.ev_template(peer),
                };
                Route::Srv6(EvTemplate::new(template, ops)?)
            }
            false => Route::Plain,
        };
        let (local, remote) = (Ip::V6(address::gid(self.index)), Ip::V6(address::gid(peer)));
        Ok(self.endpoint.add_peer(&PeerConfig { local, remote, planes, route, hop_limit: 64 })?)
    }

    /// The profile of the paths to hosts below the same leaf, or across, and its length.
    fn profile(
        &mut self,
        settings: &MrcSettings,
        topology: &Topology,
        peer: u32,
    ) -> Result<(EvProfileHandle, u32), MrcHostError> {
        let blank = EvEntry::new(Ev(0), PortNum::from_plane(0));
        let ports = topology.host_ports(self.index).min(topology.host_ports(peer));
        let across = topology.leaf_of(self.index) != topology.leaf_of(peer);
        let of = match (topology.scheme().paths(), topology) {
            (PathNames::Entropy, _) => ProfileOf::Ports(ports),
            (_, Topology::Clos(_)) => ProfileOf::Across(across),
            (_, Topology::Graph(graph)) => ProfileOf::Paths(settings.path_evs(graph, self.index, peer)),
        };
        if let Some(profile) = self.profiles.get(&of) {
            return Ok(*profile);
        }
        let planes = usize::from(ports);
        let entries = match (topology.scheme().paths(), topology, &of) {
            (_, _, ProfileOf::Paths(paths)) => {
                paths.iter().map(|&(ev, port)| EvEntry::new(Ev(ev), PortNum::from_plane(port))).collect()
            }
            (PathNames::MicroSids, Topology::Clos(clos), _) => {
                let uplinks = if across { settings.uplinks(clos.uplinks()) } else { 1 };
                let mut entries = vec![blank; planes * usize::from(uplinks)];
                compact_profile(&mut entries, ports, uplinks, PLANE_LSB)?;
                entries
            }
            // The first of three 10-bit fields, from the top.
            (PathNames::UplinkNumbers, Topology::Clos(clos), _) => (0..planes
                * usize::from(settings.uplinks(clos.uplinks())))
                .map(|nth| EvEntry::new(Ev(((nth / planes) as u32) << 22), PortNum::from_plane((nth % planes) as u8)))
                .collect(),
            _ => {
                let mut entries = vec![blank; settings.evs()];
                auto_profile(&mut entries, ports, 16, self.index.into())?;
                entries
            }
        };
        let profile = (self.endpoint.create_ev_profile(&entries)?, entries.len() as u32);
        self.profiles.insert(of, profile);
        Ok(profile)
    }

    /// Brings up a queue pair on one of the connections; `far` is the number by which packets to its peer name theirs.
    pub(super) fn bring_up(
        &mut self,
        now: Instant,
        near: QpHandle,
        far: Qpn,
        at: usize,
        role: Role,
    ) -> Result<(), MrcHostError> {
        let Connection { handle: peer, profile: ev_profile, entries, .. } = self.connections[at];
        let rq_psn = if let Role::Receiver(first) = role { first } else { FIRST_PSN };
        let rtr = RtrAttr { peer, dest_qp: far, rq_psn, ev_profile, ..self.attributes.rtr };
        self.endpoint.modify_to_init(near)?;
        self.endpoint.modify_to_rtr(now, near, &rtr)?;
        // Every queue pair that keeps to one path has its own.
        let selector = match self.attributes.selector {
            Some(selector) => selector,
            None => Selector::Pinned(EvIndex(self.rng.below(entries.max(1)) as u16)),
        };
        if !matches!(role, Role::Receiver(_)) {
            self.endpoint.modify_to_rts(now, near, &RtsAttr { selector, ..self.attributes.rts })?;
        }
        Ok(())
    }
}
