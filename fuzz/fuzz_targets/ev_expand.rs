//! EV expansion against its definition. The body is in the library.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mrc_fuzz::expand::ev_expand(data));
