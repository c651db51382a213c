//! Runs and sweeps that somebody ends before their time leave what they have, or nothing that could be taken for results.

mod common;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{MRC, Running, empty_folder};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::Pid;

/// Hours of work.
const LONG: &str = r#"
name = "long"
limit_us = 1e9
bin_us = 1000
[topology]
hosts_per_t0 = 4
[[workload]]
kind = "permutation"
bytes = 2000000000
messages = 100
"#;

/// The only way is cut and the sender tries for ever.
const STUCK: &str = r#"
stall_us = 20000
[transport.mrc]
exponential_retries = 25
[[workload]]
bytes = 1000000
[[fault]]
target = ["p0-hD"]
at_us = 10
"#;

fn folder(name: &str, scenario: &str) -> PathBuf {
    let folder = empty_folder(name);
    std::fs::write(folder.join("scenario.toml"), scenario).expect("a scenario");
    std::fs::write(folder.join("sweep.toml"), "scenario = \"scenario.toml\"\nseeds = [1, 2, 3]\n").expect("a sweep");
    folder
}

fn start(folder: &Path, args: &[&str]) -> Running {
    let mut command = Command::new(MRC);
    command.args(args).current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    Running(command.spawn().expect("mrc starts"))
}

/// Waits until the program is ready for a signal.
fn listening(child: &mut Child, signal: Signal) {
    let status = format!("/proc/{}/status", child.id());
    let since = Instant::now();
    let caught = || {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).map(str::trim);
        mask.and_then(|mask| u64::from_str_radix(mask, 16).ok())
            .is_some_and(|mask| mask >> (signal as u64 - 1) & 1 == 1)
    };
    while !caught() {
        assert!(child.try_wait().expect("a child").is_none(), "it ended by itself");
        assert!(since.elapsed() < Duration::from_secs(60), "it never listened");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Sends a signal as soon as the program is ready for it.
fn interrupt(mut child: Running, signal: Signal) -> Output {
    listening(&mut child.0, signal);
    // Twice, as `timeout` does it: once to the program, once to its group.
    for _ in 0..2 {
        kill(Pid::from_raw(child.0.id().cast_signed()), signal).expect("it is there");
    }
    child.output()
}

#[test]
fn a_run_that_is_interrupted_writes_what_it_has_and_says_so() {
    let folder = folder("interrupt-run", LONG);
    let output = interrupt(start(&folder, &["sim", "run", "scenario.toml", "--json", "out.json"]), Signal::SIGINT);
    let (said, table) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("interrupted at ") && table.contains("INTERRUPTED"), "{said}{table}");
    let text = std::fs::read_to_string(folder.join("out.json")).expect("results");
    let results: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&results["ended"], &results["finished"]), (&"interrupted".into(), &false.into()));
    assert!(results["events"].as_u64() > Some(0) && results["flows"] == 800, "{results}");
}

#[test]
fn a_run_that_is_asked_writes_its_results_so_far_and_goes_on() {
    let folder = folder("so-far", LONG);
    let mut child = start(&folder, &["sim", "run", "scenario.toml", "--json", "out.json"]);
    listening(&mut child.0, Signal::SIGUSR1);
    let file = folder.join("out.json");
    let since = Instant::now();
    let mut ends = Vec::new();
    while ends.len() < 2 {
        let _ = std::fs::remove_file(&file);
        kill(Pid::from_raw(child.0.id().cast_signed()), Signal::SIGUSR1).expect("it goes on");
        while !file.exists() {
            std::thread::sleep(Duration::from_millis(10));
            assert!(since.elapsed() < Duration::from_secs(60), "no results");
        }
        let text = std::fs::read_to_string(&file).expect("results");
        let results: serde_json::Value = serde_json::from_str(&text).expect("JSON, whole");
        assert_eq!((&results["ended"], &results["finished"]), (&"interrupted".into(), &false.into()));
        ends.push(results["end_us"].as_f64().expect("a time"));
    }
    assert!(ends[1] > ends[0], "{ends:?}");
    let output = interrupt(child, Signal::SIGINT);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains(" of 800 messages: the results so far are in out.json"), "{said}");
}

/// They died of the signal, as no other command does that has results.
#[test]
fn a_score_and_a_view_that_are_interrupted_end_as_other_commands_do() {
    let folder = folder("interrupt-views", LONG);
    let output = interrupt(start(&folder, &["mapper", "score", "--faults", "1000000"]), Signal::SIGTERM);
    let (said, table) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("interrupted after ") && said.contains(" of 1000000 faults"), "{said}");
    assert!(table.contains("algorithm"), "{table}");
    let output = interrupt(start(&folder, &["mapper", "score", "--packets", "1000"]), Signal::SIGINT);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(130) && said.contains(" of 1000.0 minutes"), "{said}");
    let output = interrupt(start(&folder, &["top", "--once"]), Signal::SIGTERM);
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(130), true), "{output:?}");
}

#[test]
fn a_second_signal_ends_a_run_at_once() {
    let folder = folder("interrupt-twice", LONG);
    // Nobody reads what it has to write, so that the first signal cannot end it.
    nix::unistd::mkfifo(&folder.join("out.json"), Mode::S_IRWXU).expect("a pipe");
    let mut child = start(&folder, &["sim", "run", "scenario.toml", "--json", "out.json"]);
    listening(&mut child.0, Signal::SIGTERM);
    let since = Instant::now();
    let status = loop {
        kill(Pid::from_raw(child.0.id().cast_signed()), Signal::SIGTERM).expect("it is there");
        std::thread::sleep(Duration::from_millis(100));
        if let Some(status) = child.0.try_wait().expect("a child") {
            break status;
        }
        assert!(since.elapsed() < Duration::from_secs(60), "it goes on");
    };
    assert_eq!(status.code(), Some(130));
}

#[test]
fn a_sweep_that_is_interrupted_keeps_no_half_results() {
    let folder = folder("interrupt-sweep", LONG);
    let output = interrupt(start(&folder, &["sim", "sweep", "sweep.toml", "-o", "out", "-j", "2"]), Signal::SIGTERM);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("interrupted with 3 of 3 points left"), "{said}");
    let files =
        std::fs::read_dir(folder.join("out")).expect("the folder").map(|file| file.expect("a file").file_name());
    // Who is killed while he asks whether a file can be written leaves a hidden, empty one, which nobody takes for results.
    let asked =
        |name: &OsString| name.as_encoded_bytes().starts_with(b".") && name.as_encoded_bytes().ends_with(b".new");
    assert_eq!(files.filter(|name| !asked(name)).collect::<Vec<_>>(), ["sweep.json"]);
}

/// The processes that have this parent and still run.
fn children(parent: u32) -> Vec<u32> {
    let pids = std::fs::read_dir("/proc")
        .expect("processes")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|&pid| stat(pid).is_some_and(|(state, of)| state != "Z" && of == parent)).collect()
}

/// State and parent of a process.
fn stat(pid: u32) -> Option<(String, u32)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

#[test]
fn the_runs_of_a_sweep_end_with_it_even_when_it_is_killed() {
    let folder = folder("interrupt-killed", LONG);
    let mut sweep = start(&folder, &["sim", "sweep", "sweep.toml", "-o", "out", "-j", "2"]);
    let since = Instant::now();
    let patient = || since.elapsed() < Duration::from_secs(60);
    let mut runs = children(sweep.0.id());
    while runs.len() < 2 && patient() {
        std::thread::sleep(Duration::from_millis(2));
        runs = children(sweep.0.id());
    }
    sweep.0.kill().expect("it is there");
    sweep.0.wait().expect("its end");
    assert_eq!((runs.len(), left_of(&runs, patient)), (2, 0));
}

/// How many of these processes still run when nobody is patient any more; those are killed.
fn left_of(runs: &[u32], patient: impl Fn() -> bool) -> usize {
    let on = |&pid: &u32| stat(pid).is_some_and(|(state, _)| state != "Z" && state != "X");
    while runs.iter().any(on) && patient() {
        std::thread::sleep(Duration::from_millis(2));
    }
    let left: Vec<u32> = runs.iter().copied().filter(on).collect();
    for &run in &left {
        let _ = kill(Pid::from_raw(run.cast_signed()), Signal::SIGKILL);
    }
    left.len()
}

/// Two sides: the first one is finished at once, the second one has hours of work.
const SIDES: &str = r#"
scenario = "scenario.toml"
seed = 1
seeds = [2]
measure = "goodput"
[[side]]
name = "short"
set = { "workload.0.bytes" = 4096, "workload.0.messages" = 1 }
[[side]]
name = "long"
"#;

#[test]
fn a_comparison_that_is_interrupted_keeps_the_sides_that_are_finished() {
    let folder = folder("interrupt-tune", LONG);
    std::fs::write(folder.join("tuning.toml"), SIDES).expect("a tuning file");
    let mut child = start(&folder, &["sim", "tune", "tuning.toml", "--json", "out.json", "-j", "1"]);
    listening(&mut child.0, Signal::SIGTERM);
    let (since, before) = (Instant::now(), processor_ticks(child.0.id()));
    // Three seconds of processor time: the first side takes a small part of one.
    while processor_ticks(child.0.id()) < before + 300 {
        assert!(since.elapsed() < Duration::from_secs(60), "it does not work");
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = interrupt(child, Signal::SIGTERM);
    let (said, table) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("interrupted: 1 of 2 sides finished"), "{said}");
    assert!(table.contains("| short |") && !table.contains("long"), "{table}");
    let compared = std::fs::read_to_string(folder.join("out.json")).expect("the comparison");
    let compared: serde_json::Value = serde_json::from_str(&compared).expect("JSON");
    let sides = &compared["sides"];
    assert_eq!((sides.as_array().map(Vec::len), &sides[0]["incomplete"]), (Some(1), &0.into()), "{compared}");
    assert_eq!(compared["finished"], false);
}

/// What a process has used of the processor so far, in hundredths of a second.
fn processor_ticks(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    fields[11..=12].iter().map(|ticks| ticks.parse::<u64>().expect("ticks")).sum()
}

#[test]
fn the_run_of_a_bench_ends_with_it() {
    let folder = folder("interrupt-bench", LONG);
    for (signal, code, says) in [(Signal::SIGTERM, Some(130), "interrupted: "), (Signal::SIGKILL, None, "")] {
        let mut bench = start(&folder, &["sim", "bench", "--hosts", "128", "--bytes", "2000000000"]);
        listening(&mut bench.0, Signal::SIGTERM);
        let since = Instant::now();
        let patient = || since.elapsed() < Duration::from_secs(60);
        let mut runs = children(bench.0.id());
        while runs.is_empty() && patient() {
            std::thread::sleep(Duration::from_millis(2));
            runs = children(bench.0.id());
        }
        kill(Pid::from_raw(bench.0.id().cast_signed()), signal).expect("it is there");
        let output = bench.output();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == code && said.starts_with(says), "{signal}: {} {said}", output.status);
        assert_eq!((runs.len(), left_of(&runs, patient)), (1, 0), "{signal}");
    }
}

#[test]
fn what_a_killed_attempt_left_is_not_taken_for_results() {
    let folder = folder("interrupt-stale", STUCK);
    std::fs::create_dir(folder.join("out")).expect("a folder");
    std::fs::write(folder.join("out/.seed1.json.1"), "{ half").expect("what a killed attempt left");
    let output = start(&folder, &["sim", "sweep", "sweep.toml", "-o", "out"]).output();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.matches(": stalled: 0 of").count(), 3, "{said}");
    let results = std::fs::read_to_string(folder.join("out/seed1.json")).expect("a run that stalls has results");
    let results: serde_json::Value = serde_json::from_str(&results).expect("whole ones");
    assert_eq!(results["ended"], "stalled");
}
