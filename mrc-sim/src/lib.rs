//! A deterministic packet-level fabric in virtual time, driven by the same engine that runs on the wire.
//!
//! * [`Sim`] runs a [`Clos`] fabric (or a dumbbell): hosts, links with rate and delay, and switches. A switch forwards
//!   real header bytes by SRv6 uSID shift, STEV fields, ECMP hash, round robin or queue depth. Its finite two-class
//!   queues mark, trim, drop or pause; links and switches fail on schedule.
//! * [`Host`] is the door for hosts: [`MrcHost`] runs the engine with an application, [`traffic::Generator`] offers bare
//!   load. [`Transport`] is the narrower door for transports that carry the messages of a scenario.
//! * [`workload`] says what is sent, [`scenario`] reads it all from a file, [`run::run`] runs it and returns
//!   [`run::Results`], the data behind `mrc sim run --json` and every report.
//! * [`demo::run`] tells the story of `mrc demo`: a transfer, a link cut on the way, every byte checked.
//! * One seed, virtual nanoseconds, no clock, no hash order: equal inputs give equal runs, shown by [`Digest`].
//!
//! A packet carries its headers and a length. Payload stays in the sender's memory and is named by a [`PayloadTag`], so
//! that the receiving host can copy it from memory to memory where a run checks every byte.
//!
//! # Another transport
//!
//! A type that implements [`Host`] with `World = `[`workload::Exchange`], and [`Transport`]; [`workload::Exchange`] lists what
//! it must call. With a line in [`TRANSPORTS`] scenarios name it (`transport.kind`); [`run::run_hosts`] runs it without.
//! `docs/extend.md` writes one, [`Datagram`] are packets for it.
#![forbid(unsafe_code)]

// A scheme or a transport that was written outside, with `use mrc_sim::...`, moves in as it is.
extern crate self as mrc_sim;

pub mod demo;
pub mod fabric;
pub mod host;
mod prefetch;
pub mod run;
pub mod scenario;
pub mod scheme;
pub mod workload;

pub use fabric::address;
pub use fabric::{
    Captured, Clos, Digest, EcnSpec, Edge, Fault, Graph, GraphError, GraphSpec, HEADER_MAX, Hop, Impairment, LinkId,
    LinkSpec, Loss, MAX_PARAMS, MAX_PLANES, NoForward, Node, Packet, Param, ParamError, Partition, Parts, PathNames,
    PayloadTag, PfcSpec, PortCounters, PortId, QueueSpec, ReceiveSpec, Report, Scheme, SchemeInfo, ShapeError, Sim,
    SimCounters, Site, SwitchCounters, SwitchCtx, SwitchScheme, Tap, Tier, TierQueue, Tiers, Topology, TopologyError,
    TrimSpec, TrimVictim, Verdict, Way, Wheel, Windows, table_bytes,
};
pub use host::traffic;
pub use host::{
    AnyTransport, App, Datagram, Host, HostSite, Ideal, Memory, MrcHost, MrcHostError, MrcSettings, MrcTransport,
    PathCounts, PathRow, Soon, TRANSPORTS, Transport, TransportCheck, TransportCounters, TransportInfo,
    TransportParamError, Upcoming, WireBytes, WireSizes, World, datagram_line, next_port, payload_tag, roce_line,
};
