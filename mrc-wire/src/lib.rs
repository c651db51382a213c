//! Packet formats of MRC 1.0: every byte an endpoint puts on or takes from the wire. No behaviour, no state.
//!
//! * Headers are `XRepr` values with `parse(&[u8; LEN])` and `emit(&mut [u8; LEN])`. A fixed-size array in place of a
//!   checked view makes both directions free of panics by construction: cutting the array off the packet is the check.
//!   `emit` writes every byte, reserved ones as zero; `parse` ignores reserved bits.
//! * [`parse_frame`] is the only door for bytes from the network: steps 1 to 9 of the validation order, then a [`Frame`].
//! * [`FrameTemplate`] prebuilds everything below BTH, which is the same for all packets to a peer through one plane.
//! * [`icrc`] computes the trailer, in one piece or along a copy; [`srv6`] and [`ev`] place entropy values.
//!
//! No allocation, no unsafe code, no reachable panic. Features add speed (`std`, `crc32fast`), never change a byte.
//! The README beside this crate says which way we went where the sources of the protocol leave a choice.
//!
//! A packet out and back in:
//!
//! ```
//! use mrc_wire::*;
//!
//! let cfg = WireConfig::default();
//! let (a, b) = (Ip::V6([0xAA; 16]), Ip::V6([0xBB; 16]));
//! let template = FrameTemplate::new(&Encap::plain([2; 6], [4; 6], a, b), &cfg);
//! let ack = Body::Ack(AethRepr { syndrome: Syndrome::ACK, msn: 1 });
//! let bth = BthRepr::new(Opcode::Ack, Qpn::new(0x12), Psn::new(77));
//! let meta = EmitMeta { ev: Ev(0x3A), dscp: cfg.dscp.control, ecn: Ecn::NotEct, outer_dst: None };
//!
//! let mut buf = [0; 128];
//! let len = template.emit_packet(&mut buf, &meta, &bth, &ack, &[]).unwrap();
//!
//! let frame = parse_frame(&buf[..len], len, &cfg, |dst| *dst == b).unwrap();
//! assert!(icrc::verify(&buf[..len], frame.l3_offset, frame.icrc_offset));
//! assert_eq!(frame.body, ack);
//! assert_eq!(frame.to_string(), "ACK qp=0x000012 psn=77 ev=0x0000003a len=0 ack msn=1");
//! ```
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
// Nothing that can panic, whatever the optimiser does (docs/embedding.md), and no function of more than 80 lines.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::disallowed_methods,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::todo,
        clippy::too_many_lines,
        clippy::unimplemented,
        clippy::unreachable,
        clippy::unwrap_used,
    )
)]

mod aeth;
mod body;
mod bth;
mod bytes;
mod config;
mod encap;
mod endpoint;
mod error;
pub mod ev;
mod fmt;
mod frame;
mod head_image;
pub mod icrc;
mod ids;
mod ip;
mod layer3;
mod meth;
mod nack;
mod opcode;
mod packet;
mod plain;
mod probe;
mod psn;
mod reth;
mod sack;
pub mod srv6;
mod template;

pub use aeth::{AethRepr, Syndrome};
pub use body::Body;
pub use bth::BthRepr;
pub use config::{DscpError, DscpPlan, Ecn, PdcidOrder, Trim, WireConfig};
pub use encap::{Encap, EncapError, Outer, Srh};
pub use endpoint::{EndpointOp, EndpointRequestRepr, EndpointResponseRepr};
pub use error::{FieldId, WireError};
pub use ev::{EvError, EvField};
pub use frame::{Frame, Reject, parse_frame};
pub use head_image::{HeadImage, WriteShape};
pub use icrc::Icrc;
pub use ids::{Ev, Msn, PortNum, Qpn, Rkey};
pub use ip::{Ip, nominal_bytes, pad_len};
pub use meth::{MethRepr, TsethRepr};
pub use nack::{NackReason, NackRepr};
pub use opcode::Opcode;
pub use packet::{Extension, PacketHead, PacketView, WriteHeaders};
pub use plain::PlainFrame;
pub use probe::ProbeRepr;
pub use psn::{Psn, SackPsns};
pub use reth::RethRepr;
pub use sack::{CcState, SackRepr, Verdict};
pub use srv6::{CopyOp, EvTemplate, TemplateError};
pub use template::{EmitMeta, FrameTemplate};
