//! The loads under which the engine is measured, each with its budget. One list for `cargo bench --bench engine`, which takes
//! times, and for `benches/instructions.sh`, which counts instructions.

use super::{BURST, Load, WINDOW, Work};

/// One load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case {
    /// Short name, for the environment variable `MRC_BENCH_CASE` and for JSON.
    pub name: &'static str,
    /// What is measured, for people.
    pub about: &'static str,
    /// Queue pairs, all towards one peer.
    pub qps: usize,
    /// Congestion window in bytes, which the queue pairs share.
    pub window_bytes: u32,
    /// What each of them writes.
    pub load: Load,
    /// Rounds of one run.
    pub rounds: u64,
    /// Instructions per data packet through both ends, at most; `None` where only time is asked for.
    pub budget: Option<u32>,
}

const MIB: u32 = 1 << 20;

const fn load(message: u32, depth: u64, burst: usize) -> Load {
    Load { message, depth, burst, work: Work::Headers }
}

/// One queue pair in bursts, 1 MiB messages: what others are compared with.
pub const ONE: Case = Case {
    name: "one",
    about: "1 queue pair, bursts of 16 frames",
    qps: 1,
    window_bytes: WINDOW,
    load: load(MIB, 1, BURST),
    rounds: 40,
    budget: Some(850),
};

/// All cases.
pub const CASES: [Case; 7] = [
    ONE,
    Case {
        name: "many",
        about: "64 queue pairs, one window of 256 KiB",
        qps: 64,
        load: load(256 << 10, 1, BURST),
        rounds: 4,
        budget: Some(1_100),
        ..ONE
    },
    Case {
        name: "many-ample",
        about: "64 queue pairs, one window of 16 MiB",
        qps: 64,
        window_bytes: 64 * WINDOW,
        load: load(256 << 10, 1, BURST),
        rounds: 4,
        budget: Some(1_100),
    },
    Case {
        name: "cold",
        about: "4096 queue pairs, cold, one window of 256 KiB",
        qps: 4_096,
        load: load(16 << 10, 1, BURST),
        rounds: 1,
        budget: None,
        ..ONE
    },
    Case {
        name: "single",
        about: "1 queue pair, bursts of one frame",
        load: load(MIB, 1, 1),
        rounds: 20,
        budget: Some(1_700),
        ..ONE
    },
    Case {
        name: "small",
        about: "1 queue pair, writes of 64 bytes",
        load: load(64, 16, BURST),
        rounds: 400,
        budget: Some(1_500),
        ..ONE
    },
    Case {
        name: "small-many",
        about: "64 queue pairs, writes of 64 bytes",
        qps: 64,
        load: load(64, 16, BURST),
        rounds: 8,
        budget: Some(1_500),
        ..ONE
    },
];

/// The case with this name.
pub fn named(name: &str) -> Option<&'static Case> {
    CASES.iter().find(|case| case.name == name)
}
