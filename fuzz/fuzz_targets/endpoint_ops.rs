//! Endpoint operations, asked and answered. The body is in the library.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mrc_fuzz::ops::endpoint_ops(data));
