//! A multi-plane SRv6 fabric on this machine. Each host and each switch is a network namespace, each link a veth pair. The
//! kernel forwards by SRv6 micro-SIDs; no code of this project forwards a packet.
//!
//! [`Shape`] is the size of a fabric. [`Fabric`] builds, breaks, slows, heals and removes it. [`Impairment`] makes its
//! switches lose, mark and trim packets. [`Capture`] records a switch port. [`enter`] runs a closure inside a namespace.
//! Only the shape is kept in memory: the state of links and impairments is read from the kernel each time.
#![deny(unsafe_code)]

mod bpf;
mod capture;
mod exec;
mod fabric;
mod impair;
mod shape;
mod shaper;

pub use bpf::impair_requirements;
pub use capture::{Capture, CapturedPacket, write_pcapng};
pub use exec::{LabError, Missing, enter, requirements, skip};
pub use fabric::{Fabric, LinkReport, LinkState, Status, SwitchReport, folder};
pub use impair::{Impairment, PortCounters, PortReport, VirtualQueue, parse_ppm};
pub use shape::{Host, HostPeer, HostPlane, Link, Node, Shape};
pub use shaper::{ShaperReport, parse_rate, parse_size};
