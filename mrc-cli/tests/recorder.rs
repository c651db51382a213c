//! The flight recorder of a device in a lab: on demand, when a path is retired, when a queue pair fails, and read back by
//! `mrc decode` and tshark. Needs root; skipped by name and reason otherwise.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use common::{eventually, mrc, start};
use mrc_lab::{Fabric, Shape, skip};
use serde_json::{Value, json};

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The host file of a host with a recorder like this, as a file.
fn host_file(fabric: &Fabric, folder: &Path, host: &str, recorder: Value) -> String {
    let mut file = serde_json::to_value(fabric.host(host).unwrap()).unwrap();
    file["recorder"] = recorder;
    let path = folder.join(format!("{host}.json"));
    std::fs::write(&path, file.to_string()).unwrap();
    path.display().to_string()
}

fn recording(folder: &Path, reason: &str) -> Option<PathBuf> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
    // The JSON beside it is written last.
    let is_it = |path: &PathBuf| path.extension().is_some_and(|ext| ext == "json");
    let found = files.filter(is_it).find(|path| path.to_string_lossy().ends_with(&format!("-{reason}.json")))?;
    serde_json::from_str::<Value>(&std::fs::read_to_string(&found).ok()?).ok()?;
    Some(found.with_extension("pcapng"))
}

#[test]
fn the_last_packets_are_there_when_somebody_asks_a_path_is_retired_or_a_queue_pair_fails() {
    if skip("the_last_packets_are_there") {
        return;
    }
    let prefix = format!("mrcrec{}", std::process::id());
    let fabric = Fabric::up(Shape { prefix: prefix.clone(), ..Shape::default() }).unwrap().guarded();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recorder");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let records = folder.join("records");
    let on = json!({ "folder": records, "packets": 4096 });
    let (a, b) = (host_file(&fabric, &folder, "hA", on), host_file(&fabric, &folder, "hB", json!({ "packets": 0 })));
    let server = start(&["write-bw", "--host-file", &b, "-p", "18771"]);
    std::thread::sleep(Duration::from_millis(500));
    // Its budget: some 0.3 s, so that the failure need not be waited for.
    let client = ["write-bw", "--host-file", &a, "-p", "18771", "localhost", "-D", "60", "--timeout", "10"];
    let client = start(&client);
    let (pid, other) = (client.0.id().to_string(), server.0.id().to_string());
    let ask = || {
        let output = mrc(&["control", "record", "--json", "--pid", &pid]);
        let answer: Value = serde_json::from_slice(&output.stdout).ok()?;
        let packets = answer["recorded"]["packets"].as_u64()? as usize;
        // Each one begins anew: a busy machine sends little between two of them.
        (packets > 100).then(|| (packets, answer["recorded"]["path"].as_str().unwrap().to_owned()))
    };

    // On demand: both directions, with nothing of the payload, readable by their owner alone.
    let (packets, path) = eventually("a recording with packets", ask);
    assert!(packets <= 4096);
    let decoded = stdout(&mrc(&["decode", &path]));
    assert_eq!(decoded.lines().filter(|line| !line.contains(" -- ")).count(), packets, "each one is decoded");
    assert!(decoded.contains("WRITE_") && decoded.contains("SACK"), "{:?}", decoded.lines().next());
    let about: Value =
        serde_json::from_str(&std::fs::read_to_string(Path::new(&path).with_extension("json")).unwrap()).unwrap();
    assert_eq!((&about["reason"], &about["state"]["host"]), (&json!("asked"), &json!("hA")));
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(Path::new(&path)), mode(&records)), (0o600, 0o700));
    if Command::new("tshark").arg("--version").output().is_ok() {
        let lua = folder.join("mrc.lua");
        std::fs::write(&lua, stdout(&mrc(&["dissector"]))).unwrap();
        let lua = format!("lua_script:{}", lua.display());
        let fields = ["-T", "fields", "-e", "mrc.bth.opcode", "-e", "frame.comment"];
        let shown = Command::new("tshark").args(["-X", &lua, "-r", &path]).args(fields).output().unwrap();
        let opcodes = stdout(&shown).lines().filter(|line| !line.split('\t').next().unwrap().is_empty()).count();
        assert_eq!(opcodes, packets, "the dissector reads each one");
    }
    // One that records nothing says so.
    let off = mrc(&["control", "record", "--pid", &other]);
    assert!(
        off.status.code() == Some(1) && String::from_utf8_lossy(&off.stderr).contains("recorder is off"),
        "{off:?}"
    );

    // A path that is retired.
    assert!(mrc(&["lab", "--prefix", &prefix, "cut", "p0-t0a-t1b"]).status.success());
    let path = eventually("a recording of a retired path", || recording(&records, "path-retired"));
    let decoded = stdout(&mrc(&["decode", path.to_str().unwrap()]));
    let retired = |line: &str| line.contains(" -- ") && line.contains("->ASSUMED_BAD reason=");
    assert!(
        decoded.lines().any(retired),
        "{:?}",
        decoded.lines().filter(|line| line.contains(" -- ")).collect::<Vec<_>>()
    );

    // A queue pair that fails, in a program that then ends.
    let stop = Command::new("kill").args(["-STOP", &other]).status().unwrap();
    assert!(stop.success());
    let path = eventually("a recording of a failed queue pair", || recording(&records, "qp-failed"));
    let decoded = stdout(&mrc(&["decode", path.to_str().unwrap()]));
    assert!(decoded.contains("RTS->ERROR reason=\"retry budget exceeded"), "{:?}", decoded.lines().last());
    let _ = Command::new("kill").args(["-CONT", &other]).status();
}
