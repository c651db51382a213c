//! The engine against a naive reference model, through random schedules of loss, duplication, reordering, corruption,
//! trimming, congestion marks, port events, changing windows, starving receivers and drivers, live
//! updates, and failures. Knobs are drawn, too: those of `EndpointConfig::default()` and of `EndpointConfig::software()`.
//!
//! * `MRC_MODEL_SCHEDULES=N` runs N schedules (100 000 when not set), on all cores, beginning with seed `MRC_MODEL_FIRST`.
//! * `MRC_MODEL_SEED=S` runs one and prints all that happens in it.
//! * `MRC_MODEL_BRIEF=1` names the seed that fails and does not cut it down.
//!
//! A schedule that fails is printed with its seed and cut down to the operations that are needed.

mod endpoint;
mod frames;
mod requester;
mod responder;
mod schedule;
#[path = "../common/sums.rs"]
mod sums;
mod update;
mod wiring;
mod world;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering},
};

use schedule::{Op, Schedule};

/// Runs a schedule; the message of the panic when it fails.
fn fails(schedule: &Schedule, story: Option<&mut Vec<String>>) -> Option<String> {
    let result = catch_unwind(AssertUnwindSafe(|| world::run(schedule, story)));
    let panic = result.err()?;
    let text = panic.downcast_ref::<String>().cloned();
    Some(text.or_else(|| panic.downcast_ref::<&str>().map(|&s| s.to_owned())).unwrap_or_default())
}

/// Takes away operations as long as it still fails.
fn shrink(schedule: &Schedule) -> Schedule {
    let mut best = schedule.clone();
    let mut size = best.ops.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < best.ops.len() {
            let end = (at + size).min(best.ops.len());
            let ops: Vec<Op> = [&best.ops[..at], &best.ops[end..]].concat();
            let smaller = Schedule { ops, ..best.clone() };
            if fails(&smaller, None).is_some() { best = smaller } else { at += size }
        }
        size /= 2;
    }
    best
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.replace('_', "").parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

fn explain(schedule: &Schedule) -> String {
    if number("MRC_MODEL_BRIEF") == Some(1) {
        return format!("seed {}", schedule.setup.seed);
    }
    let small = shrink(schedule);
    let mut story = Vec::new();
    let why = fails(&small, Some(&mut story)).unwrap_or_default();
    // A long story is told without its middle.
    if story.len() > 400 {
        story.splice(200..story.len() - 200, ["...".to_owned()]);
    }
    format!(
        "seed {}: replay with MRC_MODEL_SEED={0}\n{:#?}\n{} of {} operations are enough:\n{}\n{why}",
        small.setup.seed,
        small.setup,
        small.ops.len(),
        schedule.ops.len(),
        story.join("\n"),
    )
}

//= MODEL-001, MODEL-003, INV-001, INV-002, INV-003, INV-004, INV-005, INV-006, INV-007 test
#[test]
fn the_engine_agrees_with_the_model() {
    // A panic is an answer here: the hook that prints it would drown the story.
    std::panic::set_hook(Box::new(|_| {}));
    if let Some(seed) = number("MRC_MODEL_SEED") {
        let (schedule, mut story) = (Schedule::random(seed), Vec::new());
        let why = fails(&schedule, Some(&mut story));
        let _ = std::panic::take_hook();
        println!("{:#?}\n{}", schedule.setup, story.join("\n"));
        assert_eq!(why, None);
        return;
    }
    let (first, count) = (number("MRC_MODEL_FIRST").unwrap_or(0), number("MRC_MODEL_SCHEDULES").unwrap_or(100_000));
    println!("seeds {first} to {}", first + count);
    let found = first_failure(first, first + count).map(|seed| explain(&Schedule::random(seed)));
    let _ = std::panic::take_hook();
    if let Some(text) = found {
        panic!("{text}");
    }
}

/// The lowest seed in `[first, end)` whose schedule fails, found on all cores.
fn first_failure(first: u64, end: u64) -> Option<u64> {
    let (next, failed) = (AtomicU64::new(first), AtomicU64::new(u64::MAX));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            // Seeds are taken in order: none below a failure is left out.
            if seed >= end.min(failed.load(Ordering::Relaxed)) {
                return;
            }
            if seed % 500_000 == 0 && seed > first {
                eprintln!("{} schedules", seed - first);
            }
            if fails(&Schedule::random(seed), None).is_some() {
                failed.fetch_min(seed, Ordering::Relaxed);
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
    Some(failed.into_inner()).filter(|&seed| seed != u64::MAX)
}
