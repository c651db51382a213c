//! What an operator asks the program, on a real fabric: which destinations, which paths, which counters. Needs root; skipped
//! by name and reason otherwise.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use mrc_lab::{Fabric, Shape, skip};
use serde_json::Value;

fn spawn(args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mrc"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for a child, killing it when it takes longer than a minute.
fn finish(mut child: Child) -> Output {
    let give_up = Instant::now() + Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > give_up {
            child.kill().unwrap();
            panic!("still running after a minute");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}\n{}", String::from_utf8_lossy(&output.stderr)))
}

/// Fabrics share two cores and the kernel's namespaces: one test at a time.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    LOCK.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn folder(test: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// A fabric of this process and test.
fn fabric(test: &str) -> Fabric {
    Fabric::up(Shape { prefix: format!("mrco{}{test}", std::process::id()), ..Shape::default() }).unwrap().guarded()
}

/// The host file of `host`, written to a file.
fn host_file(fabric: &Fabric, test: &str, host: &str) -> PathBuf {
    let path = folder(test).join(format!("{host}.json"));
    std::fs::write(&path, serde_json::to_string(&fabric.host(host).unwrap()).unwrap()).unwrap();
    path
}

#[test]
fn doctor_probes_every_destination_and_write_bw_names_paths_without_an_answer() {
    if skip("doctor_probes_every_destination_and_write_bw_names_paths_without_an_answer") {
        return;
    }
    let _alone = alone();
    let fabric = fabric("paths");
    let config = host_file(&fabric, "paths", "hA");
    let probed = || {
        let report = json(&finish(spawn(&["doctor", "--json", "--config", config.to_str().unwrap()])));
        let paths = report["checks"].as_array().unwrap().iter().filter(|check| check["subject"] == "paths to hB");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        paths.map(|path| (text(&path["name"]), text(&path["status"]), text(&path["detail"]))).collect::<Vec<_>>()
    };
    let healthy = probed();
    assert_eq!(healthy.len(), 8, "{healthy:?}");
    assert!(healthy.iter().all(|(_, status, _)| status == "ok"), "{healthy:?}");
    assert!(healthy[7].2.starts_with("fcbb:bb00:1100:2103:1101:3101:: "), "{healthy:?}");
    fabric.cut("p1-t0b-t1c").unwrap();
    let failed: Vec<_> = probed().into_iter().filter(|(_, status, _)| status != "ok").collect();
    assert!(failed.len() == 1 && failed[0].0 == "p1u2" && failed[0].1 == "fail", "{failed:?}");
    let common = ["--prefix", &fabric.shape().prefix, "--port", "18711", "--json"];
    let server = spawn(&[&["write-bw", "--lab", "hB"][..], &common].concat());
    let client = finish(spawn(&[&["write-bw", "--lab", "hA", "localhost", "-D", "2"][..], &common].concat()));
    let report = json(&client);
    assert!(client.status.success() && finish(server).status.success(), "{report}");
    let silent = report["runs"][0]["silent_paths"].as_array().unwrap();
    assert!(silent.iter().any(|path| path["path"] == "p1u2"), "{report}");
    assert_eq!(report["silent_planes"].as_array().map(Vec::len), Some(0), "{report}");
}
