//! What a host is to the fabric: the trait through which transports connect to it: MRC, RoCEv2, and those
//! that [`TRANSPORTS`] registers by name.

mod any;
mod datagram;
mod ideal;
mod line_rate;
mod max_flow;
mod memory;
mod mrc;
mod mrc_transport;
mod registry;
mod roce;
mod storage_bytes;
mod telemetry;
pub mod traffic;
mod transport;

use mrc_core::{Instant, PortMask};
use mrc_wire::PortNum;

pub use self::any::AnyTransport;
pub(crate) use self::datagram::datagram_message;
pub use self::datagram::{Datagram, datagram_line, next_port};
pub use self::ideal::{Ideal, WireBytes};
pub use self::memory::Memory;
pub use self::mrc::{App, MrcHost, MrcHostError};
pub use self::mrc_transport::{MrcSettings, MrcTransport, WireSizes};
pub use self::registry::{HostSite, TRANSPORTS, TransportCheck, TransportInfo, TransportParamError};
pub use self::roce::{DcqcnConfig, Recovery, RocePaths, RoceSettings, RoceTransport, roce_line};
pub use self::telemetry::PathBandwidth;
pub use self::transport::{PathCounts, PathRow, Transport, TransportCounters, payload_tag};
use crate::fabric::Packet;

/// What the hosts of a run share.
pub trait World {
    /// A host that has something new to look at, and when: what one host did may concern another. Asked after every call
    /// to a host until it says `None`; the host then gets [`Host::on_timer`].
    fn next_wake(&mut self) -> Option<(u32, Instant)> {
        None
    }
}

impl World for () {}

/// An end point of the fabric, driven in virtual time.
///
/// Inputs are `on_*`; after each of them, and whenever one of its ports falls idle, the host is asked with
/// [`Host::poll_transmit`] until it has nothing for the ports that are free. So a host never queues inside the simulator:
/// back-pressure is not being asked. Calls carry the world, the state that all hosts of a run share.
pub trait Host {
    /// What the hosts of a run share, such as each other's memory.
    type World: World;

    /// `packet` arrived on `port`.
    fn on_packet(&mut self, now: Instant, port: PortNum, packet: &Packet, world: &mut Self::World);

    /// The instant that [`Host::next_timeout`] named has come. May be called early or without need.
    fn on_timer(&mut self, now: Instant, world: &mut Self::World);

    /// The carrier of one of the host's own links came or went.
    fn on_port(&mut self, now: Instant, port: PortNum, up: bool, world: &mut Self::World);

    /// A switch asked by priority flow control to hold back the data class on `port`, or to go on. The fabric goes on
    /// asking for packets: a host that keeps to PFC answers with control packets only. MRC does not use PFC.
    fn on_pause(&mut self, _now: Instant, _port: PortNum, _paused: bool, _world: &mut Self::World) {}

    /// Writes the next frame into `out` (header, wire length, payload tag) and returns its port, one of `free`; `None`
    /// when there is nothing to send on these ports now.
    fn poll_transmit(
        &mut self,
        now: Instant,
        free: PortMask,
        out: &mut Packet,
        world: &mut Self::World,
    ) -> Option<PortNum>;

    /// When [`Host::on_timer`] is wanted next, at the latest.
    fn next_timeout(&self) -> Option<Instant>;

    /// Whether reading ahead pays: the hosts of the run hold more than caches do.
    fn fetches(&self) -> bool {
        false
    }

    /// What the host will do soon, to be read ahead with [`Host::fetch`].
    fn upcoming(&self, _soon: Soon<'_>) -> Upcoming {
        Upcoming::NONE
    }

    /// Asks memory for one step of what `next` will read that caches do not hold: nothing that another read of this step has to
    /// find. Called for many events at once, so that memory answers all of them together, and again until it is done.
    fn fetch(&self, next: &mut Upcoming, _world: &Self::World) {
        *next = Upcoming::NONE;
    }
}

/// A call that a host will soon get.
#[derive(Clone, Copy)]
pub enum Soon<'a> {
    /// [`Host::on_packet`].
    Packet(&'a Packet),
    /// [`Host::poll_transmit`] with room at this port.
    Transmit(PortNum),
    /// [`Host::on_timer`] at [`Host::next_timeout`].
    Timer,
    /// The same because [`World::next_wake`] said so.
    Wake,
}

/// What a host will do soon, and how much of it was read ahead.
#[derive(Clone, Copy, Debug)]
pub struct Upcoming {
    pub(crate) engine: mrc_core::Upcoming,
    pub(crate) message: Option<MessageAhead>,
}

/// A message whose state is read ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MessageAhead {
    Sent(u32),
    Received(u32),
    /// The first one that the host may send, and then where it goes.
    Release,
    Post(u32),
}

impl Upcoming {
    /// Nothing that is known.
    pub const NONE: Self = Self { engine: mrc_core::Upcoming::NONE, message: None };

    /// Whether nothing is left to read.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.message.is_none() && self.engine.is_done()
    }
}
