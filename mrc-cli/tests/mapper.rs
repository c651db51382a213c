//! The mapper as its users run it. The trial and the agent need root; skipped by name and reason otherwise.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use mrc_lab::{Fabric, Shape, skip};
use serde_json::Value;

/// Runs `mrc` and kills it when it takes longer than `seconds`.
fn mrc(args: &[&str], seconds: u64) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mrc"));
    let command = command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A reader of its own, so that a full pipe holds nothing up.
    let mut stdout = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        std::io::Read::read_to_end(&mut stdout, &mut text).map(|_| text)
    });
    let give_up = Instant::now() + Duration::from_secs(seconds);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > give_up {
            child.kill().unwrap();
            panic!("mrc {args:?} still runs after {seconds} s");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut output = child.wait_with_output().unwrap();
    output.stdout = reader.join().unwrap().unwrap();
    output
}

fn alone() -> std::sync::MutexGuard<'static, ()> {
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    LOCK.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn skip_trial(test: &str) -> bool {
    if skip(test) {
        return true;
    }
    let Err(missing) = mrc_lab::impair_requirements() else { return false };
    let _ = std::io::stderr().write_all(format!("SKIP {test}: {missing}\n").as_bytes());
    true
}

#[test]
fn score_puts_five_algorithms_into_one_table() {
    let output = mrc(&["mapper", "score", "--faults", "12", "--hours", "0.002", "--seed", "5", "--json"], 120);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success(), "{report}");
    let names: Vec<&str> = report["algorithms"].as_array().unwrap().iter().map(|a| a[0].as_str().unwrap()).collect();
    assert_eq!(names, ["ours", "netbouncer", "007", "detector", "majority"]);
    assert_eq!(report["healthy"]["reports"], 0);
    let table = String::from_utf8(mrc(&["mapper", "score", "--faults", "2", "--hours", "0"], 120).stdout).unwrap();
    assert!(names.iter().all(|name| table.contains(name)), "{table}");
    let refused = mrc(&["mapper", "score", "--hours", "-1"], 10);
    assert_eq!(refused.status.code(), Some(2));
    let no_host = mrc(&["mapper", "agent", "--lab", "p0-t0a"], 10);
    assert_eq!(no_host.status.code(), Some(2));
}

#[test]
fn the_map_names_what_is_broken_on_kernel_switches() {
    if skip_trial("the_map_names_what_is_broken_on_kernel_switches") {
        return;
    }
    let _alone = alone();
    let output = mrc(&["mapper", "trial", "--only", "p1-t0a-t1b", "--load-seconds", "1", "--json"], 100);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success(), "{report}");
    let faults: Vec<(&str, &str)> = report["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| (step["component"].as_str().unwrap(), step["fault"].as_str().unwrap()))
        .collect();
    let link = "p1-t0a-t1b";
    let (up, down) = (format!("{link}:up"), format!("{link}:down"));
    assert_eq!(faults, [(link, "cut"), (link, "lossy"), (&*up, "lossy"), (&*down, "lossy")]);
    let left =
        std::fs::read_dir("/run/netns").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    assert_eq!(left.filter(|name| name.starts_with("mrcmap")).count(), 0);
}

/// An MRC device takes its own packets from the interface; the mapper's still reach the kernel, and both do their work.
#[test]
fn an_agent_runs_beside_a_device_on_the_same_interfaces() {
    if skip("an_agent_runs_beside_a_device_on_the_same_interfaces") {
        return;
    }
    let _alone = alone();
    let prefix = "mrcbeside";
    let _fabric = Fabric::up(Shape { prefix: prefix.to_owned(), ..Shape::default() }).unwrap().guarded();
    let run = |args: &'static [&'static str]| std::thread::spawn(move || mrc(args, 60));
    let server = run(&["write-bw", "--prefix", "mrcbeside", "--lab", "hB", "-p", "18731"]);
    std::thread::sleep(Duration::from_millis(700));
    let client = run(&["write-bw", "--prefix", "mrcbeside", "--lab", "hA", "-p", "18731", "localhost", "-D", "4"]);
    let output = mrc(&["mapper", "agent", "--prefix", prefix, "--lab", "hA", "--seconds", "3", "--json"], 30);
    let lines: Vec<Value> =
        String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let stats = &lines.last().unwrap()["stats"];
    assert!(output.status.success(), "{lines:?}");
    // Requests to host B, where no agent runs, stay without a reply; all others come back.
    assert!(stats["received"].as_u64().unwrap() * 2 > stats["sent"].as_u64().unwrap(), "{lines:?}");
    assert!(lines.iter().all(|line| line["event"] != "faulty" || line["component"] == "hB"), "{lines:?}");
    let (client, server) = (client.join().unwrap(), server.join().unwrap());
    assert!(client.status.success() && server.status.success(), "{}", String::from_utf8_lossy(&client.stderr));
}
