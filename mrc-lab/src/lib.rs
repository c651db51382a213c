//! A multi-plane SRv6 fabric on this machine: one network namespace per host and per switch, veth pairs for links, and
//! kernels that only know SRv6 micro-SIDs as switches. None of our code forwards a packet.
//!
//! [`Shape`] is its size. [`Fabric`] builds, breaks, slows, heals and removes it. [`Impairment`] makes its switches lose,
//! mark and trim, [`Capture`] records a switch port, [`enter`] runs a closure inside a namespace. Everything but the shape
//! is read back from the kernel, so nothing goes stale.
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
pub use fabric::{Fabric, LinkReport, LinkState, Status, SwitchReport};
pub use impair::{Impairment, PortCounters, PortReport, VirtualQueue, parse_ppm};
pub use shape::{Host, HostPeer, HostPlane, Link, Node, Shape};
pub use shaper::{ShaperReport, parse_rate, parse_size};
