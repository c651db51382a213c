//! Requirement register tool.
fn main() {}
