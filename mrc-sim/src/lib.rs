//! A deterministic packet-level fabric in virtual time, driven by the same engine that runs on the wire.
//!
//! * [`Sim`] runs a [`Clos`] fabric: hosts, links with rate and delay, switches that forward real header bytes by SRv6
//!   uSID shift through finite two-class queues, links that are cut and healed on schedule.
//! * [`Host`] is the door for transports: [`MrcHost`] runs the engine, [`traffic::Generator`] offers bare load.
//! * [`demo::run`] tells the story of `mrc demo`: a transfer, a link cut on the way, every byte checked.
//! * One seed, virtual nanoseconds, no float, no clock, no hash order: equal inputs give equal runs, shown by [`Digest`].
//!
//! A packet carries its headers and a length. Payload stays in the sender's memory and is named by a [`PayloadTag`], so
//! that the receiving host can copy it from memory to memory where a run checks every byte.
#![forbid(unsafe_code)]

pub mod address;
pub mod demo;
mod host;
mod memory;
mod mrc;
mod packet;
mod port;
mod sim;
mod switch;
mod topology;
mod trace;
pub mod traffic;
mod wheel;

pub use host::Host;
pub use memory::Memory;
pub use mrc::{App, MrcHost, MrcHostError};
pub use packet::{HEADER_MAX, Packet, PayloadTag};
pub use port::{LinkSpec, PortCounters, QueueSpec};
pub use sim::{Fault, Sim, SimCounters};
pub use switch::{NoForward, SwitchCounters};
pub use topology::{Clos, LinkId, MAX_PLANES, PortId, TopologyError};
pub use trace::{Captured, Digest, Tap};
pub use wheel::Wheel;
