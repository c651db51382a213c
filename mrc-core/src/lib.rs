//! Sans-IO transport engine for MRC (Multipath Reliable Connection): no clock, no socket, no heap, no payload bytes.
//!
//! [`Endpoint`] is the only door. A driver hands it frames and time, and drains frames, completions and events; the
//! contract stands on the type. Everything else is what its calls take and return.
//!
//! Read first: `spec/README.md` for the requirement ids, `docs/architecture.md` for the life of a write.
#![no_std]
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
#![allow(clippy::manual_clamp, reason = "`clamp` panics when its limits cross")]

#[cfg(test)]
extern crate std;

pub mod cc;
mod config;
mod cq;
mod endpoint;
mod error;
mod event;
mod first_free;
mod handle;
mod image;
mod knobs;
mod mem;
mod num;
pub mod path;
mod port;
mod prefetch;
mod qp;
mod ready;
mod renew;
mod requester;
mod responder;
mod rng;
mod secret;
mod stats;
mod storage;
mod time;
mod timer;

pub use cc::{CcProfile, CcProfileHandle, Qpcc, QpccInfo, QpccState};
pub use config::{
    EndpointConfig, MAX_PORTS, NoReceive, PeerConfig, PlacementMode, PlanePath, PortConfig, RetryConfig, Route,
    RtrAttr, RtsAttr, Trimming,
};
pub use cq::{Completion, CqHandle, CqSlot, Operation, Status};
pub use endpoint::{
    Endpoint, EvEventMask, EvMode, EvProfileConfig, EvProfileHandle, EvProfileInfo, EvProfileSlot, EvReport, EvSpec,
    Export, FrameSink, FrameSource, IcrcCheck, Import, MAX_HEADER_LEN, OpAnswer, OpOutcome, OpRequest, PayloadRef,
    PeerHandle, PeerSlot, PlaceToken, Placement, PlaneSlot, ProfileState, Received, RouteSlot, RxMeta, Shard,
    ShardMessage, ShardNews, Transmit, Upcoming,
};
pub use error::{
    ConfigError, Discard, ImageError, ModifyError, OpError, PlaceError, PostError, ShardError, TableError,
};
pub use event::{ErrorCause, Event, EventMask, EventSlot, LossCause};
pub use knobs::KnobError;
pub use mem::{Access, MemRange, MrHandle, MrSlot, Pd};
pub use port::PortMask;
pub use prefetch::{Loads, Prefetch};
pub use qp::{Qp, QpHandle, QpInfo, QpInit, QpState};
pub use requester::{SendWr, TxRecord, TxWord, Wqe};
pub use responder::{Immediate, RecvWqe, Refusal, RxWord};
pub use rng::Rng;
pub use secret::Seed;
pub use stats::{PortStats, StateSums, Stats};
#[cfg(any(feature = "alloc", test))]
pub use storage::OwnedStorage;
pub use storage::{Limits, Storage};
pub use time::{Instant, Tick};
pub use timer::TimerSlot;
