//! Conformance scripts for MRC endpoints: a small language, packet formats of its own, and a runner that plays the peer.
//!
//! [`Script`] is a parsed file, [`run`] plays it against a [`Target`]; [`engine`] is the target in this process (virtual
//! time), `mrc conform` brings the one over a wire. `docs/conformance.md` explains the language.
//!
//! ```
//! use mrc_conform::{Verdict, builtin, engine, run};
//!
//! let scripts = builtin()?;
//! let script = scripts.iter().find(|script| script.file == "sack/gap.mrc").expect("it is built in");
//! let outcome = engine::with_virtual(&script.knobs, |target, facts| run(script, facts, target))?;
//! assert_eq!(outcome.verdict, Verdict::Pass);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod bits;
mod blocks;
mod certainty;
pub mod control;
pub mod engine;
mod expect;
mod facts;
mod fault;
pub mod format;
mod freedom;
mod icrc;
mod knobs;
mod number;
mod packet;
mod reading;
mod register;
mod run;
mod script;
mod target;
mod trace;
pub mod vectors;

pub use bits::{Field, Layout};
pub use facts::{Address, Facts, LACKS};
pub use fault::Fault;
pub use icrc::icrc;
pub use knobs::{KNOBS, Knob, Knobs, Values, knobs_of};
pub use packet::{Difference, Layer, Packet, hex, show};
pub use register::{Certainty, Decision, Requirement, Weight, nearest};
pub use run::{Failure, Outcome, Verdict, run, run_traced, stretch};
pub use script::{
    Check, Op, PacketSpec, Post, Script, ScriptError, Step, Value, builtin, builtin_text, list_fields, load_tree,
};
pub use target::{Done, DoneKind, Heard, Refusal, Target};
pub use trace::{Trace, TraceAction, TraceEntry};
