//! Finds the broken component of a multi-plane SRv6 fabric, from probes that end where they began.
//!
//! ```text
//!  host -> T0 -> host                         the host link and the T0
//!  host -> T0 -> T1 -> T0 -> host             an uplink, there and back
//!  host -> T0a -> T1x -> T0b -> T1y -> T0a -> host     each uplink in one direction only
//!  host -> T0 -> neighbour, back on another plane      each host link in one direction only
//! ```
//!
//! [`topology`] names components. [`plan`] says which agent probes what and when. [`probe`] is the frame. [`path`]
//! turns losses and delays into a state. [`agent`] puts them together without reading a clock or a socket. [`locate`]
//! finds the components behind the losses. [`view`] keeps what agents tell. [`policy`] says what to deny. [`model`] is
//! a fabric at the level of probes, and [`score`] compares algorithms in it. The docs page `docs/operations.md` tells
//! how to run it.
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
