//! The endpoint under test as the runner sees it.

use serde::{Deserialize, Serialize};

use crate::script::Post;

/// A frame that the target sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// When, in nanoseconds since the script began.
    pub at: u64,
    /// Tester's port it came in on, from 1.
    pub port: u8,
    /// The frame, without FCS.
    pub frame: Vec<u8>,
}

/// What completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DoneKind {
    /// A write, with or without immediate.
    Write,
    /// A receive request.
    Recv,
}

/// What the status of a completion may be.
pub(crate) const STATUSES: &[&str] = &[
    "success",
    "flushed",
    "remote_access",
    "remote_invalid_request",
    "remote_operation",
    "retry_exceeded",
    "local_protection",
];

/// States of a QP; a target says the place in this list.
pub(crate) const STATES: &[&str] = &["reset", "init", "rtr", "rts", "error"];

/// A completion of the target's application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// When, in nanoseconds since the script began.
    pub at: u64,
    /// What.
    pub kind: DoneKind,
    /// The number it was posted under.
    pub id: u64,
    /// `success`, `flushed`, `remote_access`, ...
    pub status: String,
    /// Bytes of the message.
    pub len: u32,
    /// Immediate of a receive.
    pub imm: Option<u32>,
    /// The peer asked for an event.
    pub solicited: bool,
}

/// Why a script cannot be played against this target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The target cannot do this; the script does not apply.
    #[error("{0}")]
    NotApplicable(String),
    /// Something broke that says nothing about the target's conformance.
    #[error("{0}")]
    Broken(String),
}

/// An endpoint under test, with a fresh QP. Times are nanoseconds since the script began.
pub trait Target {
    /// Whether times are exact and counters are told.
    fn virtual_time(&self) -> bool {
        self.slowness() == 0
    }
    /// Real nanoseconds to a nanosecond of the script; 0 in virtual time.
    fn slowness(&self) -> u64;
    /// Longest time in which the tester did not look at its links: what came meanwhile has no exact time.
    fn blind(&self) -> u64 {
        0
    }
    /// The tester's frame reaches `port` of the target at `at`.
    ///
    /// # Errors
    /// The link is broken.
    fn send(&mut self, at: u64, port: u8, frame: &[u8]) -> Result<(), Refusal>;
    /// The next frame from the target, unless none comes until `until`.
    ///
    /// # Errors
    /// The link is broken.
    fn hear(&mut self, until: u64) -> Result<Option<Heard>, Refusal>;
    /// The target's application or driver does something at `at`.
    ///
    /// # Errors
    /// The target offers no way to do it.
    fn act(&mut self, at: u64, post: &Post) -> Result<(), Refusal>;
    /// The oldest completion, unless none comes until `until`.
    ///
    /// # Errors
    /// The target does not tell.
    fn done(&mut self, until: u64) -> Result<Option<Done>, Refusal>;
    /// Bytes of the target's region.
    ///
    /// # Errors
    /// The target does not tell.
    fn memory(&mut self, offset: u64, len: usize) -> Result<Vec<u8>, Refusal>;
    /// A counter of the target, or the state of its QP under the name `qp_state`.
    ///
    /// # Errors
    /// The target does not tell.
    fn counter(&mut self, name: &str) -> Result<i64, Refusal>;
}
