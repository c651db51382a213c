//! An MRC host: the engine that runs on the wire, driven in virtual time. Owns the translation between the engine's
//! calls and the fabric's, and the addresses a host of a [`Clos`] has; what is sent is up to an [`App`].

use mrc_core::path::{EvEntry, ProfileError, compact_profile};
use mrc_core::{
    ConfigError, Endpoint, EndpointConfig, EvProfileHandle, IcrcCheck, Instant, MAX_PORTS, ModifyError, PeerConfig,
    PeerHandle, PlanePath, PortConfig, PortMask, Received, Route, RxMeta, Storage, TableError,
};
use mrc_wire::{Ev, EvTemplate, Ip, PortNum, TemplateError};

use crate::fabric::Clos;
use crate::fabric::address;
use crate::fabric::{Packet, PayloadTag};
use crate::host::Host;
use crate::host::Memory;

/// Where the plane stands in the compact EV; the T1's index is below it.
pub(super) const PLANE_LSB: u8 = 8;

/// What uses an endpoint: posts work, takes completions and events.
pub trait App {
    /// Called after every input of the host. Drains what it cares about and posts what it wants.
    fn on_turn(&mut self, now: Instant, endpoint: &mut Endpoint<'_>, memory: &mut Memory);

    /// When the app wants a turn even if nothing arrives.
    fn next_turn(&self) -> Option<Instant> {
        None
    }
}

/// No application: a host that others write to.
impl App for () {
    fn on_turn(&mut self, _now: Instant, _endpoint: &mut Endpoint<'_>, _memory: &mut Memory) {}
}

/// A host that may have an application.
impl<A: App> App for Option<A> {
    fn on_turn(&mut self, now: Instant, endpoint: &mut Endpoint<'_>, memory: &mut Memory) {
        if let Some(app) = self {
            app.on_turn(now, endpoint, memory);
        }
    }

    fn next_turn(&self) -> Option<Instant> {
        self.as_ref().and_then(App::next_turn)
    }
}

/// Why a host of a fabric could not be set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MrcHostError {
    /// More planes than an endpoint has ports.
    #[error("planes = {0}: an MRC endpoint has at most {MAX_PORTS} ports")]
    Planes(u8),
    /// The engine refused its configuration.
    #[error("endpoint: {0}")]
    Config(#[from] ConfigError),
    /// An engine table refused an object.
    #[error("endpoint: {0}")]
    Table(#[from] TableError),
    /// The EV profile does not fit.
    #[error("{0}")]
    Profile(#[from] ProfileError),
    /// The SRv6 template does not fit.
    #[error("{0}")]
    Template(#[from] TemplateError),
    /// A queue pair could not be brought up.
    #[error("queue pair: {0}")]
    Modify(#[from] ModifyError),
    /// A pair of hosts that is none.
    #[error("hosts {0} and {1} cannot be connected")]
    Pair(u32, u32),
}

/// There is no payload to compute an ICRC over: the fabric knows which packets it damaged.
pub(super) fn icrc_of(packet: &Packet) -> IcrcCheck {
    if packet.is_corrupt() || packet.is_trimmed() { IcrcCheck::Invalid } else { IcrcCheck::Valid }
}

/// A host with one endpoint.
pub struct MrcHost<'s, A> {
    index: u32,
    endpoint: Endpoint<'s>,
    app: A,
}

impl<'s, A> MrcHost<'s, A> {
    /// Host `index` of `clos`; ports and addresses of `base` are replaced by those of the fabric.
    ///
    /// # Errors
    /// More planes than ports, or a configuration that the engine refuses.
    pub fn new(
        clos: &Clos,
        index: u32,
        base: EndpointConfig,
        storage: Storage<'s>,
        seed: u64,
        app: A,
    ) -> Result<Self, MrcHostError> {
        if usize::from(clos.planes) > MAX_PORTS {
            return Err(MrcHostError::Planes(clos.planes));
        }
        let mut config = base;
        config.ports = [None; MAX_PORTS];
        for (plane, port) in (0..clos.planes).zip(&mut config.ports) {
            let sid = clos.plan().sid(clos.plan().host(plane, clos.host_index(index)));
            *port = Some(PortConfig { mac: address::host_mac(plane, index), sid: Some(sid), addr: None });
        }
        config.gids = [Some(Ip::V6(address::gid(index))), None, None, None];
        Ok(Self { index, endpoint: Endpoint::new(config, storage, seed)?, app })
    }

    /// Makes host `peer` known: an SRv6 route by EV template, and a profile of every path to it.
    ///
    /// # Errors
    /// A table of the engine is full or too small for the paths.
    pub fn add_peer(&mut self, clos: &Clos, peer: u32) -> Result<(PeerHandle, EvProfileHandle), MrcHostError> {
        let plan = clos.plan();
        let (template, ops) = clos.ev_template(self.index, peer);
        let mut planes = [None; MAX_PORTS];
        for (plane, path) in (0..clos.planes).zip(&mut planes) {
            *path = Some(PlanePath {
                next_hop: address::t0_mac(plane, self.index),
                outer_src: Some(plan.sid(plan.host(plane, clos.host_index(self.index)))),
            });
        }
        let handle = self.endpoint.add_peer(&PeerConfig {
            local: Ip::V6(address::gid(self.index)),
            remote: Ip::V6(address::gid(peer)),
            planes,
            route: Route::Srv6(EvTemplate::new(template, ops)?),
            hop_limit: 64,
        })?;
        let uplinks = if clos.t0_of(self.index) == clos.t0_of(peer) { 1 } else { clos.uplinks() };
        let blank = EvEntry::new(Ev(0), PortNum::from_plane(0));
        let mut entries = vec![blank; usize::from(clos.planes) * usize::from(uplinks)];
        compact_profile(&mut entries, clos.planes, uplinks, PLANE_LSB)?;
        Ok((handle, self.endpoint.create_ev_profile(&entries)?))
    }

    /// The engine.
    pub fn endpoint(&self) -> &Endpoint<'s> {
        &self.endpoint
    }

    /// The engine, to set up objects before or between runs.
    pub fn endpoint_mut(&mut self) -> &mut Endpoint<'s> {
        &mut self.endpoint
    }

    /// The application.
    pub fn app(&self) -> &A {
        &self.app
    }

    /// The application, to change between runs.
    pub fn app_mut(&mut self) -> &mut A {
        &mut self.app
    }
}

impl<A: App> MrcHost<'_, A> {
    /// Gives the application a turn, as after an input.
    pub fn turn(&mut self, now: Instant, memory: &mut Memory) {
        self.app.on_turn(now, &mut self.endpoint, memory);
    }
}

impl<A: App> Host for MrcHost<'_, A> {
    type World = Memory;

    fn on_packet(&mut self, now: Instant, port: PortNum, packet: &Packet, memory: &mut Memory) {
        let rx = RxMeta { port, wire_len: packet.wire_len as usize, icrc: icrc_of(packet) };
        if let Ok(Received::Place(placement)) = self.endpoint.handle_packet(now, rx, packet.header()) {
            debug_assert_eq!(placement.payload.len(), packet.payload.len as usize);
            memory.place(&packet.payload, self.index, placement.mr.index(), placement.offset);
        }
        self.turn(now, memory);
    }

    fn on_timer(&mut self, now: Instant, memory: &mut Memory) {
        if self.endpoint.next_timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
        self.turn(now, memory);
    }

    fn on_port(&mut self, now: Instant, port: PortNum, up: bool, memory: &mut Memory) {
        self.endpoint.set_port(now, port, up);
        self.turn(now, memory);
    }

    fn poll_transmit(
        &mut self,
        now: Instant,
        free: PortMask,
        out: &mut Packet,
        _memory: &mut Memory,
    ) -> Option<PortNum> {
        let transmit = self.endpoint.poll_transmit(now, free, out.buffer())?;
        out.set_header_len(transmit.header_len);
        out.wire_len = transmit.frame_len() as u32;
        out.payload = transmit.payload.map_or(PayloadTag::default(), |payload| PayloadTag {
            host: self.index,
            region: payload.mr.index() as u32,
            offset: payload.offset,
            len: payload.len,
            sent: 0,
        });
        Some(transmit.port)
    }

    fn next_timeout(&self) -> Option<Instant> {
        match (self.endpoint.next_timeout(), self.app.next_turn()) {
            (Some(engine), Some(app)) => Some(engine.min(app)),
            (engine, app) => engine.or(app),
        }
    }
}
