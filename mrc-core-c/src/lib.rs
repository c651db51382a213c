//! C interface of the transport engine: what firmware written in C links against. `include/mrc_core.h` says the same in C,
//! and `tests/header.rs` holds the two together; `docs/embedding.md` says how to bring it up on a NIC.
//!
//! One endpoint lives in one piece of memory that the caller lends for ever. Calls on it never overlap: the engine has no
//! lock. `unsafe` is confined to this border: `memory` carves the lent memory, `border` turns pointers into references, `burst` those
//! of an array of frames.
//!
//! This crate is an ordinary library so that tests can call it; `static/` makes the archive that C links against.
#![no_std]
// Nothing that can panic, whatever the optimiser does (docs/embedding.md).
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
        clippy::unimplemented,
        clippy::unreachable,
        clippy::unwrap_used,
    )
)]
#![allow(non_camel_case_types, reason = "names of C")]

#[cfg(test)]
extern crate std;

mod border;
mod burst;
mod codes;
mod control;
mod control_types;
mod convert;
mod convert_config;
mod convert_control;
mod fault;
mod memory;
mod ops;
mod profiles;
mod report_types;
mod selector;
mod shards;
mod turn;
mod types;
mod update;

pub use codes::*;
pub use control::*;
pub use control_types::*;
pub use fault::mrc_core_error_text;
pub use memory::{mrc_core_bytes_per_qp, mrc_core_endpoint, mrc_core_init, mrc_core_storage_size};
pub use ops::*;
pub use profiles::*;
pub use shards::*;
pub use turn::*;
pub use types::*;
pub use update::*;
