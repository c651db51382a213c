//! The network between hosts: topology, switches, links, queues, faults, and the clock that drives them.
//!
//! | file | owns |
//! |---|---|
//! | `topology` | the two-tier Clos: numbering, names |
//! | `graph` | any other fabric: nodes, links, shortest paths |
//! | `tiers` | regular graphs: three tiers, parallel links |
//! | `shape` | what both have in common |
//! | `address` | SIDs, MACs, GIDs, compact EVs |
//! | `packet` | packets and the arena they live in |
//! | `queue` | two classes, ECN, trimming, tail drop, pause |
//! | `impair` | what a bad link does: loss, corruption, jitter |
//! | `port` | one direction of a link: serialisation, flight, carrier |
//! | `scheme` | the door for forwarding: [`SwitchScheme`] |
//! | `switch` | a switch, and what queues read of headers |
//! | `sim` | the order of events |
//! | `partition` | how a fabric is divided among event queues |
//! | `parts` | a divided fabric at work, on one or several threads |
//! | `wheel` | the event queue |
//! | `trace` | evidence: digest and captures |

pub mod address;
mod graph;
mod impair;
#[cfg(test)]
pub(crate) mod one_switch;
pub(crate) mod packet;
mod partition;
mod parts;
mod port;
mod queue;
mod scheme;
mod shape;
mod sim;
pub(crate) mod switch;
mod telemetry;
mod tiers;
mod topology;
mod trace;
mod wheel;

pub(crate) use graph::SidTable;
pub use graph::{Edge, Graph, GraphError, GraphSpec, Node};
pub use impair::{Impairment, Loss};
#[cfg(test)]
pub(crate) use packet::CORRUPT;
pub use packet::{HEADER_MAX, Packet, PayloadTag};
pub use partition::Partition;
pub use parts::{Parts, Windows};
pub use port::{LinkSpec, PortCounters};
pub use queue::{EcnSpec, PfcSpec, QueueSpec, TrimSpec, TrimVictim};
pub use scheme::{
    Check, MAX_PARAMS, Param, ParamError, PathNames, Scheme, SchemeInfo, Site, SwitchCtx, SwitchScheme, Verdict, Way,
    table_bytes,
};
pub(crate) use shape::serialisation_ns;
pub use shape::{ShapeError, Topology};
pub use sim::{Fault, ReceiveSpec, Sim, SimCounters, TierQueue};
pub use switch::{NoForward, SwitchCounters};
pub use telemetry::{Hop, Report};
pub use tiers::Tiers;
pub use topology::{Clos, LinkId, MAX_PLANES, PortId, Tier, TopologyError};
pub use trace::{Captured, Digest, Tap};
pub use wheel::Wheel;
