//! The conformance language and its packet formats. The body is in the library.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mrc_fuzz::conform::conform_parse(data));
