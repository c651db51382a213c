//! What an operator's machine may do to the mapper and its views: an interface vanishes, a disk is full, somebody without
//! rights asks. Needs root and a lab; skipped by name and reason otherwise.

mod common;

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use common::{MRC, alone, eventually, mrc, start};
use mrc_lab::{Fabric, Shape, skip};
use serde_json::{Value, json};

const NOBODY: u32 = 65_534;

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("mrc-misfortune-").tempdir().unwrap()
}

fn fabric(prefix: &str) -> Fabric {
    Fabric::up(Shape { prefix: prefix.to_owned(), ..Shape::default() }).unwrap().guarded()
}

/// Two programs that write to each other; the client's process.
fn devices(prefix: &str, port: &str, more: &[&str]) -> (common::Running, common::Running) {
    let server = start(&["write-bw", "--prefix", prefix, "--lab", "hB", "-p", port]);
    std::thread::sleep(Duration::from_millis(700));
    let to = ["localhost", "-D", "120", "-p", port];
    let from = ["--prefix", prefix, "--lab", "hA"];
    let client = start(&[&["write-bw"][..], if more.is_empty() { &from } else { more }, &to].concat());
    eventually("a queue pair", || {
        let output = mrc(&["control", "--pid", &client.0.id().to_string(), "state"]);
        let state: Value = serde_json::from_slice(&output.stdout).ok()?;
        (state["qps"][0]["state"] == "RTS").then_some(())
    });
    (server, client)
}

#[test]
fn an_interface_that_vanishes_is_reported_as_the_port_and_the_agent_stays() {
    if skip("an_interface_that_vanishes_is_reported_as_the_port_and_the_agent_stays") {
        return;
    }
    let _alone = alone();
    let prefix = "mrcgone";
    let fabric = fabric(prefix);
    let host = fabric.host("hA").unwrap();
    let folder = folder();
    let folder = folder.path();
    let begin = |run: &str| {
        let lines = folder.join(run);
        let out = std::fs::File::create(&lines).unwrap();
        let agent = ["mapper", "agent", "--prefix", prefix, "--lab", "hA", "--interval", "5", "--json"];
        let agent = Command::new(MRC).args(agent).stdin(Stdio::null()).stdout(out).stderr(Stdio::null()).spawn();
        (common::Running(agent.unwrap()), lines)
    };
    let has = |lines: &Path, event: &str, component: &str| {
        let text = std::fs::read_to_string(lines).unwrap();
        let mut all = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        all.any(|line| line["event"] == event && (component.is_empty() || line["component"] == component))
    };
    let reports_the_port = |agent: &mut common::Running, lines: &Path| {
        eventually("the port is reported", || has(lines, "faulty", "p1-hA.port").then_some(()));
        std::thread::sleep(Duration::from_secs(1));
        assert!(agent.0.try_wait().unwrap().is_none(), "the agent goes on with the planes that are left");
        for other in ["p1-hA", "p1", "p0-hA"] {
            assert!(!has(lines, "faulty", other), "{other}: the port alone");
        }
    };
    let (mut agent, lines) = begin("first");
    eventually("the agent began", || has(&lines, "started", "").then_some(()));
    let interface = host.planes[1].interface.clone();
    let namespace = host.namespace.clone().unwrap();
    let gone = Command::new("ip").args(["-n", &namespace, "link", "del", &interface]).status().unwrap();
    assert!(gone.success());
    reports_the_port(&mut agent, &lines);
    drop(agent);
    // An agent that begins without the interface, as after a reboot with a broken port, says the same.
    let (mut agent, lines) = begin("second");
    reports_the_port(&mut agent, &lines);
}

/// A file system of 64 kB that is full.
struct FullDisk(PathBuf);

impl FullDisk {
    fn at(path: PathBuf) -> Self {
        std::fs::create_dir_all(&path).unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k,mode=0700", "tmpfs"]).arg(&path).status();
        assert!(mounted.unwrap().success());
        let _ = std::fs::write(path.join("filler"), vec![0; 1 << 20]);
        Self(path)
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_named_and_stops_nothing() {
    if skip("a_full_disk_is_named_and_stops_nothing") {
        return;
    }
    let _alone = alone();
    let prefix = "mrcfull";
    let fabric = fabric(prefix);
    let folder = folder();
    let folder = folder.path();
    let disk = FullDisk::at(folder.join("disk"));
    let host = serde_json::to_value(fabric.host("hA").unwrap()).unwrap();
    let host_file = folder.join("hA.json");
    let with = |mut host: Value| {
        host["recorder"] = json!({ "folder": disk.0, "packets": 4096 });
        host
    };
    std::fs::write(&host_file, with(host).to_string()).unwrap();
    let (_server, mut client) = devices(prefix, "18781", &["--host-file", host_file.to_str().unwrap()]);
    let pid = client.0.id().to_string();

    // The flight recorder says where there is no room, and leaves no half of a file behind.
    let refused = eventually("a recording that finds no room", || {
        let output = mrc(&["control", "record", "--pid", &pid]);
        (output.status.code() == Some(1) && stderr(&output).contains("No space left")).then_some(output)
    });
    assert!(stderr(&refused).contains(disk.0.to_str().unwrap()), "{refused:?}");
    let left: Vec<_> = std::fs::read_dir(&disk.0).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["filler"]);
    // So do the other writers.
    let text = disk.0.join("mrc.prom");
    let metrics = mrc(&["metrics", "--textfile", text.to_str().unwrap()]);
    assert!(metrics.status.code() == Some(1) && stderr(&metrics).contains("mrc.prom"), "{metrics:?}");
    assert!(!text.exists() && !disk.0.join("mrc.prom.new").exists());
    let db = disk.0.join("map.db");
    let key = folder.join("key");
    let collect =
        ["mapper", "collect", "--fabric", "2,2,4,2", "--key", key.to_str().unwrap(), "--db", db.to_str().unwrap()];
    let collect = mrc(&[&collect[..], &["--listen", "127.0.0.1:18783", "--http", "127.0.0.1:18784"]].concat());
    assert!(collect.status.code() == Some(1) && stderr(&collect).contains("map.db"), "{collect:?}");
    assert_eq!(stderr(&collect).matches("disk is full").count(), 1, "{collect:?}");
    // The device goes on.
    let acked = || -> u64 {
        let output = mrc(&["control", "--pid", &pid, "state"]);
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["qps"][0]["acked_bytes"].as_u64().unwrap()
    };
    let before = acked();
    eventually("more bytes", || (acked() > before).then_some(()));
    assert!(client.0.try_wait().unwrap().is_none());
}

#[test]
fn a_log_on_a_disk_that_is_full_for_a_while_goes_on_behind_it() {
    if skip("a_log_on_a_disk_that_is_full_for_a_while_goes_on_behind_it") {
        return;
    }
    let _alone = alone();
    let prefix = "mrclog";
    let fabric = fabric(prefix);
    let folder = folder();
    let disk = FullDisk::at(folder.path().join("disk"));
    let lines = disk.0.join("agent.json");
    let log = || std::fs::OpenOptions::new().append(true).create(true).open(&lines).unwrap();
    let agent = ["mapper", "agent", "--prefix", prefix, "--lab", "hA", "--interval", "5", "--json"];
    let agent = Command::new(MRC).args(agent).stdin(Stdio::null()).stdout(log()).stderr(log()).spawn();
    let mut agent = common::Running(agent.unwrap());
    let has = |state: &str| std::fs::read_to_string(&lines).unwrap().contains(&format!("\"{state}\""));
    fabric.cut("p0-t0a-t1c").unwrap();
    std::thread::sleep(Duration::from_secs(3));
    assert!(!has("started") && !has("down"), "the disk is full");
    std::fs::remove_file(disk.0.join("filler")).unwrap();
    fabric.heal("p0-t0a-t1c").unwrap();
    eventually("a path that is up again", || has("up").then_some(()));
    assert!(agent.0.try_wait().unwrap().is_none());
}

/// It ended, and with it what node_exporter shows.
#[test]
fn a_text_file_on_a_disk_that_is_full_for_a_while_is_renewed_behind_it() {
    if skip("a_text_file_on_a_disk_that_is_full_for_a_while_is_renewed_behind_it") {
        return;
    }
    let folder = folder();
    let folder = folder.path();
    let disk = FullDisk::at(folder.join("disk"));
    let (filler, file, says) = (disk.0.join("filler"), disk.0.join("mrc.prom"), folder.join("says"));
    std::fs::remove_file(&filler).unwrap();
    let mut metrics = Command::new(MRC);
    metrics.args(["metrics", "--every", "1", "--textfile"]).arg(&file).stdin(Stdio::null()).stdout(Stdio::null());
    let mut metrics = common::Running(metrics.stderr(std::fs::File::create(&says).unwrap()).spawn().unwrap());
    eventually("a file", || file.exists().then_some(()));
    let _ = std::fs::write(&filler, vec![0; 1 << 20]);
    let told = || std::fs::read_to_string(&says).unwrap();
    eventually("a word about the disk", || told().contains("No space left").then_some(()));
    std::thread::sleep(Duration::from_millis(2500));
    assert!(metrics.0.try_wait().unwrap().is_none() && told().lines().count() == 1, "{}", told());
    assert!(std::fs::read_to_string(&file).unwrap().ends_with("# EOF\n"), "the last one stays whole");
    let renewed = || file.metadata().unwrap().modified().unwrap();
    let before = renewed();
    std::fs::remove_file(&filler).unwrap();
    eventually("a new file", || (renewed() > before).then_some(()));
    // A place that never was one is told at once.
    let nowhere = mrc(&["metrics", "--every", "1", "--textfile", folder.join("no/mrc.prom").to_str().unwrap()]);
    assert_eq!(nowhere.status.code(), Some(1));
}

/// A command with room for so many descriptors; what it says goes into a file.
fn start_with(files: usize, args: &[&str], says: &Path) -> common::Running {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -n {files}; exec \"$@\""), "sh", MRC]).args(args).stdin(Stdio::null());
    let says = std::fs::File::create(says).unwrap();
    common::Running(shell.stdout(Stdio::null()).stderr(says).spawn().unwrap())
}

/// Processor time of a process, in hundredths of a second.
fn processor_time(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    after_name[11].parse::<u64>().unwrap() + after_name[12].parse::<u64>().unwrap()
}

#[test]
fn a_server_without_descriptors_says_so_and_does_not_spin() {
    if skip("a_server_without_descriptors_says_so_and_does_not_spin") {
        return;
    }
    let _alone = alone();
    let prefix = "mrcnofd";
    let _fabric = fabric(prefix);
    let _writes = start(&["write-bw", "--prefix", prefix, "--lab", "hB", "-p", "18794"]);
    let folder = folder();
    let folder = folder.path();
    let says = folder.join("says");
    let db = folder.join("map.db");
    let collect = ["mapper", "collect", "--prefix", prefix, "--db", db.to_str().unwrap(), "--http", "127.0.0.1:18792"];
    for (files, args, address) in [
        (16, &["metrics", "--listen", "127.0.0.1:18791"][..], "127.0.0.1:18791"),
        (18, &[&collect[..], &["--listen", "127.0.0.1:18793"]].concat(), "127.0.0.1:18793"),
        (
            32,
            &[
                "write-bw",
                "--prefix",
                prefix,
                "--lab",
                "hA",
                "localhost",
                "-p",
                "18794",
                "-D",
                "60",
                "--rate-limit",
                "1mbit",
            ],
            "",
        ),
    ] {
        let server = start_with(files, args, &says);
        let pid = server.0.id();
        let socket = format!("/run/mrc/engines/{pid}-0");
        let connect = || -> Option<Box<dyn std::any::Any>> {
            Some(match address {
                "" => Box::new(std::os::unix::net::UnixStream::connect(&socket).ok()?),
                _ => Box::new(std::net::TcpStream::connect(address).ok()?),
            })
        };
        let mut idle = vec![eventually("the server", connect)];
        if address.is_empty() {
            // The socket is there before the client has all descriptors that it needs.
            eventually("it writes", || {
                let stats =
                    serde_json::from_slice::<Value>(&mrc(&["stats", "--json", "--pid", &pid.to_string()]).stdout)
                        .ok()?;
                (stats[0]["counters"]["tx_data"].as_u64()? > 0).then_some(())
            });
        }
        idle.extend((0..12).map_while(|_| connect()));
        eventually("a word about descriptors", || {
            std::fs::read_to_string(&says).unwrap().contains("`ulimit -").then_some(())
        });
        let before = processor_time(pid);
        std::thread::sleep(Duration::from_secs(1));
        let taken = processor_time(pid) - before;
        assert!(taken < 40, "{args:?}: {taken} hundredths of a second in one");
        drop(idle);
        eventually(&format!("an answer of {args:?}"), || {
            let output = match address {
                "" => mrc(&["control", "--pid", &pid.to_string(), "state"]),
                "127.0.0.1:18793" => mrc(&["metrics", "--collector", "127.0.0.1:18792"]),
                _ => Command::new("curl").args(["-sf", &format!("http://{address}/metrics")]).output().unwrap(),
            };
            output.status.success().then_some(())
        });
    }
}

#[test]
fn nobody_without_rights_reads_or_changes_anything() {
    if skip("nobody_without_rights_reads_or_changes_anything") {
        return;
    }
    let _alone = alone();
    let prefix = "mrcright";
    let _fabric = fabric(prefix);
    let folder = folder();
    let folder = folder.path();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (program, key) = (folder.join("mrc"), folder.join("key"));
    std::fs::copy(MRC, &program).unwrap();
    std::fs::write(&key, [1; 16]).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let nobody = |args: &[&str]| {
        let mut command = Command::new(&program);
        command.args(args).uid(NOBODY).gid(NOBODY).current_dir("/").env_remove("XDG_RUNTIME_DIR");
        command.stdin(Stdio::null()).output().unwrap()
    };
    let (_server, client) = devices(prefix, "18785", &[]);
    let pid = client.0.id().to_string();
    for args in [&["state"][..], &["events"], &["record"], &["deny", "--plane", "1"], &["allow"]] {
        let output = nobody(&[&["control", "--pid", &pid][..], args].concat());
        assert!(!output.status.success() && output.stdout.is_empty(), "{args:?}: {output:?}");
    }
    let seen = nobody(&["top", "--once"]);
    assert!(String::from_utf8_lossy(&seen.stdout).contains("no program that this user may ask"), "{seen:?}");
    // The socket itself is out of reach, not only unknown.
    let socket = format!("/run/mrc/engines/{pid}-0");
    assert!(Path::new(&socket).exists());
    let there = Command::new("test").args(["-e", &socket]).uid(NOBODY).gid(NOBODY).status().unwrap();
    assert!(!there.success());
    let state: Value = serde_json::from_slice(&mrc(&["control", "--pid", &pid, "state"]).stdout).unwrap();
    assert_eq!(state["planes"][1]["denied"], false);
    // The fabric's key, and the interfaces.
    let (key, listen) = (key.to_str().unwrap(), ["--listen", "127.0.0.1:18787", "--http", "127.0.0.1:18788"]);
    let collect = nobody(
        &[&["mapper", "collect", "--fabric", "2,2,4,2", "--key", key, "--db", "/tmp/no.db"][..], &listen].concat(),
    );
    assert!(!collect.status.success() && stderr(&collect).contains("cannot read the key"), "{collect:?}");
    let agent = nobody(&["mapper", "agent", "--prefix", prefix, "--lab", "hA", "--seconds", "1"]);
    let said = stderr(&agent);
    assert!(
        !agent.status.success() && (said.contains("root") || said.contains("CAP_") || said.contains("ermi")),
        "{said}"
    );
    println!("{said}");
}

/// Nothing said why a peer that sends all the time "was never heard".
#[test]
fn packets_that_no_right_peer_sends_are_named() {
    if skip("packets_that_no_right_peer_sends_are_named") {
        return;
    }
    let _alone = alone();
    let prefix = format!("mrcmisr{}", std::process::id());
    let fabric = fabric(&prefix);
    let folder = folder();
    let folder = folder.path();
    let file = |host: &str, pkey: u32| {
        let mut file = serde_json::to_value(fabric.host(host).unwrap()).unwrap();
        file["protocol"] = json!({ "pkey": pkey });
        let path = folder.join(format!("{host}.json"));
        std::fs::write(&path, file.to_string()).unwrap();
        path.display().to_string()
    };
    let (a, b) = (file("hA", 0xFFFF), file("hB", 0x8001));
    let server = ["write-bw", "--host-file", &b, "-p", "18796", "--json"];
    let server = Command::new(MRC).args(server).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let client = eventually("a server", || {
        let client = mrc(&["write-bw", "--host-file", &a, "-p", "18796", "localhost", "-n", "1", "--timeout", "10"]);
        (!stderr(&client).contains("cannot reach a server")).then_some(client)
    });
    assert!(!client.status.success(), "{client:?}");
    let server = server.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&server.stdout).expect("a report");
    assert_eq!(report["refused"].as_array().map(Vec::len), Some(1), "{report}");
    assert_eq!(report["refused"][0]["reason"], "pkey");
    assert!(report["refused"][0]["packets"].as_u64() > Some(0), "{report}");
}
