//! What a run leaves: every frame and every action, in the order of time.

use crate::script::Post;

/// Frames of a run, both ways.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Trace {
    /// In the order of time.
    pub entries: Vec<TraceEntry>,
    /// What the application or driver of the target did, in the order of time.
    pub actions: Vec<TraceAction>,
}

/// One action of a run.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct TraceAction {
    /// Nanoseconds since the script began.
    pub at_ns: u64,
    /// Frames of the run before it: its place among those of the same time.
    pub frames_before: usize,
    /// What was done.
    #[serde(flatten)]
    pub post: Post,
}

/// One frame of a run.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct TraceEntry {
    /// Nanoseconds since the script began.
    pub at_ns: u64,
    /// The target sent it; else the tester.
    pub from_target: bool,
    /// Port of the target.
    pub port: u8,
    /// One line for people.
    pub text: String,
    /// The frame as hexadecimal digits.
    pub frame: String,
}
