//! The demo in virtual time.

use super::{Interrupt, Report, Story};

/// Runs the story.
pub fn run(_story: &Story, _interrupt: &Interrupt) -> anyhow::Result<Report> {
    anyhow::bail!("the simulator is not wired in yet")
}
