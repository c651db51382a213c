//! An executable specification of MRC's reliability layer, small enough to explore every behaviour of it.
//!
//! It is written from the protocol reference alone and shares no code with the engine. [`Protocol`] is the reliability
//! layer of one direction of a connection (writes, SACK, NACK, Transport ACK, retransmission) between two lossy queues.
//! A model checker visits every state that a bounded number of faults can lead to and holds [`rules`] in each of them.
//! [`Fault`] breaks the specification in one place: the rules must notice every one of them.
//!
//! What it leaves out: time, paths, congestion control, probes, writes with immediate, the wrap of the PSN space and
//! the retry budget. A timer runs out when the network is empty, or early as often as [`Budget::early_timers`] allows.
#![forbid(unsafe_code)]

mod fault;
mod protocol;
mod requester;
mod responder;
pub mod rules;

pub use self::{
    fault::Fault,
    protocol::{Action, Budget, Protocol, State},
    requester::{Arrival, Packet, Requester},
    responder::Responder,
};

/// Most packets that a run may have; a set of packets is the bits of one byte.
pub const MAX_PACKETS: usize = 8;

/// Packet `psn` as a member of a set of packets.
const fn bit(psn: u8) -> u8 {
    1 << psn
}

/// The set of all packets below `end`.
const fn below(end: u8) -> u8 {
    ((1u16 << end) - 1) as u8
}
