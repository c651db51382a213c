//! The program as its users run it, on a real fabric. Needs root; skipped by name and reason otherwise.

mod common;

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{alone, finish, folder, json, skip_trial, spawn};
use mrc_lab::{Fabric, Shape, skip};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

fn mrc(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mrc"));
    command.args(args).stdin(Stdio::null());
    command
}

#[test]
fn the_demo_survives_its_cut() {
    if skip("the_demo_survives_its_cut") {
        return;
    }
    let _alone = alone();
    let out = folder("demo");
    let child = spawn(&["demo", "--json", "--seconds", "6", "--mode", "lab", "--out", out.to_str().unwrap()]);
    let output = finish(child, Duration::from_secs(60));
    let report = json(&output);
    assert!(output.status.success(), "{report}");
    assert_eq!((report["mode"].as_str(), report["integrity"].as_str()), (Some("lab"), Some("ok")));
    let planes: Vec<f64> = report["planes"].as_array().unwrap().iter().map(|p| p["bytes"].as_f64().unwrap()).collect();
    let sum: f64 = planes.iter().sum();
    assert!(planes.iter().all(|bytes| (0.4..=0.6).contains(&(bytes / sum))), "{planes:?}");
    let t1 = report["t1_packets"].as_object().unwrap();
    assert_eq!(t1.len(), 8);
    assert!(t1.values().all(|packets| packets.as_u64().unwrap() > 0), "{t1:?}");
    assert!(report["ev_assumed_bad"].as_u64().unwrap() >= 1 && report["ev_restored"].as_u64().unwrap() >= 1);
    assert!(std::fs::metadata(report["chart"].as_str().unwrap()).unwrap().len() > 1_000);
    assert!(std::fs::metadata(report["pcap"].as_str().unwrap()).unwrap().len() > 10_000);
    let left =
        std::fs::read_dir("/run/netns").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    assert_eq!(left.filter(|name| name.starts_with("mrcdemo")).count(), 0);
}

//= TRIM-005, NACK-001, MFLD-001 test
#[test]
fn switches_that_lose_trim_mark_and_vanish_cost_no_byte() {
    if skip_trial("switches_that_lose_trim_mark_and_vanish_cost_no_byte") {
        return;
    }
    let _alone = alone();
    let output = finish(spawn(&["lab", "trial", "--seconds", "2", "--json"]), Duration::from_secs(90));
    let report = json(&output);
    assert_eq!((report["integrity"].as_str(), report["qp_errors"].as_u64()), (Some("ok"), Some(0)));
    let phases = report["phases"].as_array().unwrap();
    assert_eq!(phases.len(), 5);
    for phase in phases {
        let checks = phase["checks"].as_array().unwrap();
        let failed: Vec<_> = checks.iter().filter(|check| check["ok"] != true).collect();
        assert!(!checks.is_empty() && failed.is_empty(), "{}: {failed:?}", phase["phase"]);
    }
    // The switches did what was asked of them: losses, trims, marks.
    for (phase, counter) in [(1, "lost"), (2, "trimmed"), (3, "marked")] {
        assert!(phases[phase]["forward"][counter].as_u64().unwrap() > 0, "{report}");
    }
    assert!(output.status.success());
}

/// Starts a command that builds a fabric of its own, interrupts it when it is under way and sees that the fabric is gone.
fn interrupted(args: &[&str], prefix: &str) -> Output {
    let child = spawn(args);
    let prefix = format!("{prefix}{}", child.id());
    let exists = || {
        let names = std::fs::read_dir("/run/netns").into_iter().flatten().filter_map(|entry| entry.ok());
        names.filter(|name| name.file_name().to_string_lossy().starts_with(&prefix)).count()
    };
    let give_up = Instant::now() + Duration::from_secs(20);
    while exists() < 14 && Instant::now() < give_up {
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_secs(1));
    // Twice, as `timeout` does it: once to the program, once to its group.
    for _ in 0..2 {
        kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    }
    let output = finish(child, Duration::from_secs(60));
    assert_eq!((output.status.code(), exists()), (Some(130), 0));
    output
}

/// Whoever named one of its hosts heard of a namespace that does not exist.
#[test]
fn a_smaller_fabric_has_no_hosts_of_the_one_before() {
    if skip("a_smaller_fabric_has_no_hosts_of_the_one_before") {
        return;
    }
    let _alone = alone();
    let prefix = format!("mrct{}less", std::process::id());
    let lab = |args: &[&str]| {
        let output = mrc(&[&["lab", "--prefix", &prefix], args].concat()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let files = mrc_lab::folder(&prefix);
    lab(&["up", "--hosts", "3", "--planes", "1", "--t1", "1"]);
    std::fs::write(files.join("mapper.key"), [7; 16]).unwrap();
    lab(&["up", "--hosts", "2", "--planes", "1", "--t1", "1"]);
    assert!(files.join("hB.toml").exists() && !files.join("hC.toml").exists() && files.join("mapper.key").exists());
    lab(&["down"]);
    assert!(!files.exists());
}

#[test]
fn an_interrupted_demo_leaves_nothing() {
    if skip("an_interrupted_demo_leaves_nothing") {
        return;
    }
    let _alone = alone();
    let out = folder("interrupted");
    interrupted(&["demo", "--json", "--seconds", "60", "--mode", "lab", "--out", out.to_str().unwrap()], "mrcdemo");
}

#[test]
fn an_interrupted_trial_reports_the_phases_it_finished() {
    if skip_trial("an_interrupted_trial_reports_the_phases_it_finished") {
        return;
    }
    let _alone = alone();
    let report = json(&interrupted(&["lab", "trial", "--seconds", "60", "--json"], "mrctrial"));
    assert_eq!((report["integrity"].as_str(), report["phases"].as_array().map(Vec::len)), (Some("ok"), Some(0)));
}

/// A fabric with a server on hB and a client on hA.
struct Pair {
    fabric: Fabric,
    server: Child,
    client: Child,
}

impl Pair {
    fn start(test: &str, port: &str, client: &[&str]) -> Self {
        let prefix = format!("mrct{}{test}", std::process::id());
        Self::on(Fabric::up(Shape { prefix, ..Shape::default() }).unwrap().guarded(), port, client)
    }

    fn on(fabric: Fabric, port: &str, client: &[&str]) -> Self {
        let prefix = fabric.shape().prefix.clone();
        let common = ["--prefix", &prefix, "--port", port, "--json"];
        let server = spawn(&[&["write-bw", "--lab", "hB"][..], &common].concat());
        let client = spawn(&[&["write-bw", "--lab", "hA", "localhost"][..], &common, client].concat());
        Self { fabric, server, client }
    }
}

#[test]
fn every_core_link_may_fail_in_turn() {
    if skip("every_core_link_may_fail_in_turn") {
        return;
    }
    let _alone = alone();
    let pair = Pair::start("links", "18701", &["-D", "20", "-q", "2"]);
    std::thread::sleep(Duration::from_secs(2));
    let links: Vec<String> =
        pair.fabric.shape().links().iter().map(mrc_lab::Link::name).filter(|n| n.contains("-t1")).collect();
    assert_eq!(links.len(), 16);
    for link in &links {
        pair.fabric.cut(link).unwrap();
        std::thread::sleep(Duration::from_millis(500));
        pair.fabric.heal(link).unwrap();
        std::thread::sleep(Duration::from_millis(400));
    }
    let client = finish(pair.client, Duration::from_secs(60));
    let server = finish(pair.server, Duration::from_secs(10));
    let (client_report, server_report) = (json(&client), json(&server));
    assert!(client.status.success() && server.status.success(), "{client_report} {server_report}");
    assert!(client_report["error"].is_null() && server_report["error"].is_null());
    assert!(client_report["retransmitted"].as_u64().unwrap() > 0, "{client_report}");
    assert!(server_report["bytes"].as_u64().unwrap() >= client_report["bytes"].as_u64().unwrap());
}

#[test]
fn the_server_checks_what_arrives_while_switches_lose_packets() {
    let test = "the_server_checks_what_arrives_while_switches_lose_packets";
    if skip_trial(test) {
        return;
    }
    let _alone = alone();
    let prefix = format!("mrct{}check", std::process::id());
    let fabric = Fabric::up(Shape { prefix: prefix.clone(), ..Shape::default() }).unwrap().guarded();
    let lossy = mrc(&["lab", "--prefix", &prefix, "impair", "--all", "--loss", "1%"]).output().unwrap();
    assert!(lossy.status.success(), "{}", String::from_utf8_lossy(&lossy.stderr));
    let pair = Pair::on(fabric, "18706", &["-n", "600", "-q", "3", "-s", "65541", "-t", "8", "--check"]);
    let client = finish(pair.client, Duration::from_secs(90));
    let server = finish(pair.server, Duration::from_secs(10));
    let (client_report, server_report) = (json(&client), json(&server));
    for (side, output, report) in [("client", &client, &client_report), ("server", &server, &server_report)] {
        assert!(output.status.success() && report["content"] == "ok", "{side}: {report}");
        // Also none of those that one side sends before the other knows it.
        assert_eq!(report["refused"], serde_json::json!([]), "{side}: {report}");
    }
    assert_eq!(client_report["messages"], 600);
    assert!(client_report["retransmitted"].as_u64().unwrap() > 0, "{client_report}");
}

#[test]
fn congestion_control_is_a_choice_and_says_what_it_came_to() {
    if skip("congestion_control_is_a_choice_and_says_what_it_came_to") {
        return;
    }
    let _alone = alone();
    for (port, args) in [
        ("18704", &["--cc", "nscc", "--base-rtt", "500", "--link-rate", "4gbit"][..]),
        ("18705", &["--cc", "fixed", "--window", "65536"]),
    ] {
        let pair = Pair::start(args[1], port, &[&["-n", "300", "-q", "3", "-s", "65536"][..], args].concat());
        let client = finish(pair.client, Duration::from_secs(60));
        let report = json(&client);
        let _ = finish(pair.server, Duration::from_secs(10));
        assert!(client.status.success() && report["messages"] == 300, "{report}");
        let cc = &report["congestion"][0];
        assert_eq!((cc["algorithm"].as_str(), report["congestion"].as_array().unwrap().len()), (Some(args[1]), 1));
        let window = cc["cwnd_bytes"].as_u64().unwrap();
        if args[1] == "nscc" {
            // At most one and a half times 4 Gb/s for 500 us; what a loaded machine makes of it is its affair.
            assert!((4_000..=375_000).contains(&window) && cc["base_rtt_us"].as_f64().unwrap() <= 500.0, "{report}");
        } else {
            assert_eq!(window, 65_536);
        }
    }
}

#[test]
fn a_killed_client_leaves_the_server_with_a_cause() {
    if skip("a_killed_client_leaves_the_server_with_a_cause") {
        return;
    }
    let _alone = alone();
    let mut pair = Pair::start("kill", "18702", &["-D", "30"]);
    std::thread::sleep(Duration::from_secs(3));
    pair.client.kill().unwrap(); // SIGKILL
    pair.client.wait().unwrap();
    let killed = Instant::now();
    let server = finish(pair.server, Duration::from_secs(10));
    let report = json(&server);
    assert_eq!(server.status.code(), Some(1), "{report}");
    assert!(report["error"].as_str().unwrap().contains("peer vanished"), "{report}");
    let text = String::from_utf8_lossy(&server.stderr);
    assert!(text.contains("QP 0x") && text.contains("in ERROR"), "{text}");
    // Retry budget of the program's defaults: 7 linear and 8 doubling intervals of 4.2 ms, about 2.2 s.
    assert!(killed.elapsed() < Duration::from_millis(2_500), "{:?}", killed.elapsed());
}

#[test]
fn mistakes_are_explained() {
    let _alone = alone();
    let say = |args: &[&str]| {
        let output = mrc(args).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = say(&["write-bw"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("--host-file") && text.contains("mrc lab up"), "{text}");
    let (code, text) = say(&["write-bw", "--host-file", "/nonexistent"]);
    assert!(code == Some(2) && text.contains("/nonexistent"), "{text}");
    let (code, _) = say(&["write-bw", "-s", "0"]);
    assert_eq!(code, Some(2));
    let (code, text) = say(&["write-lat", "-s", "12"]);
    assert!(code == Some(2) && text.contains("multiple of 8"), "{text}");
    if skip("mistakes_are_explained (fabric)") {
        return;
    }
    let (code, text) = say(&["lab", "--prefix", "mrcnone", "cut", "p0-t0a-t1a"]);
    assert!(code == Some(1) && text.contains("mrc lab up"), "{text}");
    let (code, text) = say(&["lab", "up", "--planes", "0", "--prefix", "mrcnone"]);
    assert!(code == Some(2) && text.contains("1 to 8"), "{text}");
    let kept = folder("kept");
    for prefix in ["", "..", "engines", kept.to_str().unwrap()] {
        let (code, text) = say(&["lab", "down", "--prefix", prefix]);
        assert!(code == Some(2) && text.contains("prefix") && kept.exists(), "{prefix}: {text}");
    }
    // Unknown interface: the host file names one that does not exist.
    let file = folder("host").join("host.json");
    let host = Shape::default().host(0);
    let mut value = serde_json::to_value(host).unwrap();
    value["namespace"] = Value::Null;
    value["planes"][0]["interface"] = "nosuchport0".into();
    std::fs::write(&file, value.to_string()).unwrap();
    // A server opens its interfaces before it waits for anybody.
    let (code, text) = say(&["write-bw", "--host-file", file.to_str().unwrap(), "-p", "18703"]);
    assert!(code == Some(2) && text.contains("nosuchport0"), "{text}");
}
