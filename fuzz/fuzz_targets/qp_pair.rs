//! Two engines and a link in bad hands. The body is in the library.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mrc_fuzz::pair::qp_pair(data));
