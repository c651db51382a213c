//! The engine against its definition. The body is in the library.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mrc_fuzz::engine::engine_rx(data));
