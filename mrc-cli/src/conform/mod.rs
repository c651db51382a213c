//! Conformance over a wire: the links, the tester's side, the target's side.

pub mod files;
pub mod link;
pub mod report;
pub mod serve;
pub mod setup;
pub mod tester;
