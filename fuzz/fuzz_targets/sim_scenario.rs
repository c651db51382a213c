//! The bytes choose a scenario of the simulator, which runs on one thread and on two. The body is in `mrc-sim/tests/random`,
//! whose test draws from random numbers instead.
#![no_main]

#[path = "../../mrc-sim/tests/random/scenario.rs"]
mod scenario;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = scenario::Draw(scenario::Choices::Bytes(data)).scenario();
    scenario::check(&text, data.iter().fold(1, |sum: u64, &byte| sum.wrapping_mul(31) ^ u64::from(byte)));
});
