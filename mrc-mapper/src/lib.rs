//! Finds the broken component of a multi-plane SRv6 fabric, with probes that return to the host that sent them.
//!
//! ```text
//!  host -> T0 -> host                         the host link and the T0
//!  host -> T0 -> T1 -> T0 -> host             an uplink, there and back
//!  host -> T0a -> T1x -> T0b -> T1y -> T0a -> host     each uplink in one direction only
//!  host -> T0 -> neighbour, back on another plane      each host link in one direction only
//! ```
//!
//! | module | does |
//! |---|---|
//! | [`topology`] | names the components |
//! | [`plan`] | decides which agent probes what, and when |
//! | [`probe`] | writes and reads the frame of a probe |
//! | [`path`] | turns the losses and delays of a path into a state |
//! | [`agent`] | puts these together, without clock and socket |
//! | [`locate`] | finds the components behind the losses |
//! | [`view`] | keeps what agents report |
//! | [`policy`] | decides what to deny because of a fault |
//! | [`model`], [`score`] | a fabric at the level of probes, and algorithms compared in it |
//!
//! `docs/operations.md` explains how to run it.
#![forbid(unsafe_code)]

pub mod agent;
pub mod locate;
pub mod model;
pub mod path;
pub mod plan;
pub mod policy;
pub mod probe;
mod rng;
pub mod score;
pub mod topology;
pub mod view;

pub use topology::{Component, Direction, Fabric, HostId};
