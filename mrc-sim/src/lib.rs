//! mrc-sim
