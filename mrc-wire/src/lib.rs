//! Packet formats of MRC 1.0: every byte an endpoint puts on or takes from the wire.
//!
//! * Headers are `XRepr` values with `parse(&[u8; LEN])` and `emit(&mut [u8; LEN])`. A fixed-size array in place of a
//!   checked view makes both directions free of panics by construction: cutting the array off the packet is the check.
//! * [`parse_frame`] is the only door for bytes from the network: steps 1 to 9 of the validation order, then a [`Frame`].
//! * [`FrameTemplate`] prebuilds everything below BTH, which is the same for all packets to a peer through one plane.
//! * [`icrc`] computes the trailer, [`srv6`] and [`ev`] place entropy values.
//!
//! No allocation, no unsafe code, no panic. Features add speed (`std`, `crc32fast`), never change a byte.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod aeth;
mod bth;
mod config;
mod endpoint;
mod error;
pub mod ev;
mod fmt;
mod frame;
pub mod icrc;
mod ids;
mod ip;
mod meth;
mod nack;
mod opcode;
mod probe;
mod psn;
mod reth;
mod sack;
pub mod srv6;
mod template;

pub use aeth::{AethRepr, Syndrome};
pub use bth::BthRepr;
pub use config::{DscpError, DscpPlan, Ecn, Trim, WireConfig};
pub use endpoint::{EndpointOp, EndpointRequestRepr, EndpointResponseRepr};
pub use error::{FieldId, WireError};
pub use frame::{Body, Frame, Reject, parse_frame};
pub use ids::{Ev, Msn, PortNum, Qpn, Rkey};
pub use ip::{Ip, nominal_bytes, pad_len};
pub use meth::{MethRepr, TsethRepr};
pub use nack::{NackReason, NackRepr};
pub use opcode::Opcode;
pub use probe::ProbeRepr;
pub use psn::{Psn, SackPsns};
pub use reth::RethRepr;
pub use sack::{SackRepr, Verdict};
pub use template::{Encap, FrameTemplate, Outer, Srh};
