//! MRC engine.
#![no_std]
#![forbid(unsafe_code)]

pub mod port;
pub mod rng;
pub mod time;
