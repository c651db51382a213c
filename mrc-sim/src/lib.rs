//! A deterministic packet-level fabric in virtual time, driven by the same engine that runs on the wire.
//!
//! * [`Sim`] runs a [`Clos`] fabric: hosts, links with rate and delay, switches that forward real header bytes by SRv6
//!   uSID shift, STEV fields, ECMP hash, round robin or queue depth, through finite two-class queues that mark, trim, drop
//!   or pause; links and switches fail on schedule.
//! * [`Host`] is the door for transports: [`MrcHost`] runs the engine, [`traffic::Generator`] offers bare load.
//! * [`demo::run`] tells the story of `mrc demo`: a transfer, a link cut on the way, every byte checked.
//! * One seed, virtual nanoseconds, no clock, no hash order: equal inputs give equal runs, shown by [`Digest`].
//!
//! A packet carries its headers and a length. Payload stays in the sender's memory and is named by a [`PayloadTag`], so
//! that the receiving host can copy it from memory to memory where a run checks every byte.
#![forbid(unsafe_code)]

pub mod demo;
pub mod fabric;
pub mod host;

pub use fabric::address;
pub use fabric::{
    Captured, Clos, Digest, EcnSpec, Fault, Forwarding, HEADER_MAX, Impairment, LinkId, LinkSpec, Loss, MAX_PLANES,
    NoForward, Packet, PayloadTag, PfcSpec, PortCounters, PortId, QueueSpec, Sim, SimCounters, SwitchCounters, Tap,
    Tier, TierQueue, TopologyError, TrimSpec, TrimVictim, Wheel,
};
pub use host::traffic;
pub use host::{App, Host, Memory, MrcHost, MrcHostError};
