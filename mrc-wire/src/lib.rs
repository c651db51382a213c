//! MRC packet formats.
#![no_std]
#![forbid(unsafe_code)]
