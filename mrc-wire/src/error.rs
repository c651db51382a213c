//! Errors of single headers and of set-up values.
//!
//! Refusals of whole received frames are [`Reject`](crate::Reject), because each of them is a counter.

use core::fmt;

/// The field a [`WireError`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FieldId {
    /// `op` of an endpoint request or response, wire.md section 8.
    EndpointOp,
}

impl fmt::Display for FieldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EndpointOp => f.write_str("endpoint operation"),
        }
    }
}

/// Why the bytes of one header were not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WireError {
    /// BTH `tver` is not 0; the value is the one received.
    Version(u8),
    /// The field holds a code point the protocol keeps for later.
    Reserved(FieldId),
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(v) => write!(
                f,
                "BTH transport version is {v}, only 0 is known: drop the packet, the peer is newer than this endpoint"
            ),
            Self::Reserved(field) => {
                write!(f, "{field} holds a reserved code point: drop the packet, the peer is newer than this endpoint")
            }
        }
    }
}

impl core::error::Error for WireError {}
