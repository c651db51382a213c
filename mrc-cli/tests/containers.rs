//! The program as the first process of containers, and devices that are watched from another one. Needs root; skipped by name and
//! reason otherwise.

mod common;

use std::fs::DirBuilder;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{MRC, Running, alone, eventually, finish, folder, json};
use mrc_lab::{Fabric, Shape, skip};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

const MINUTE: Duration = Duration::from_secs(60);

fn without_root(test: &str) -> bool {
    let without = !geteuid().is_root();
    if without {
        eprintln!("SKIP {test}: needs root for a PID namespace");
    }
    without
}

/// The first process of a PID namespace that `unshare` made, as seen from outside.
fn first_process(unshare: &Child) -> Pid {
    let children = format!("/proc/{0}/task/{0}/children", unshare.id());
    let child = || std::fs::read_to_string(&children).ok()?.trim().parse().ok();
    Pid::from_raw(eventually("a process in the container", child))
}

/// The kernel ignores signals that the first process does not catch: a pod waited for its deadline, and was killed.
#[test]
fn the_first_process_of_a_container_ends_when_it_is_asked_to() {
    if without_root("the_first_process_of_a_container_ends_when_it_is_asked_to") {
        return;
    }
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        // It waits for its input for ever.
        let mut unshare = Command::new("unshare");
        unshare
            .args(["--pid", "--fork", "--kill-child", MRC, "decode", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        let mut unshare = Running(unshare.stderr(Stdio::null()).spawn().unwrap());
        let first = first_process(&unshare.0);
        let text = || std::fs::read_to_string(format!("/proc/{first}/comm")).is_ok_and(|comm| comm.trim() == "mrc");
        eventually("the program", || text().then_some(()));
        let begun = Instant::now();
        let code = eventually("its end", || {
            // The first may come before the program is ready for it.
            let _ = kill(first, signal);
            unshare.0.try_wait().unwrap().map(|status| status.code())
        });
        assert_eq!(code, Some(130), "{signal}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}

/// What a program leaves behind filled the container's table of processes.
#[test]
fn verbs_run_as_the_first_process_leaves_no_zombies() {
    if without_root("verbs_run_as_the_first_process_leaves_no_zombies") {
        return;
    }
    let folder = folder("zombies");
    let (config, library) = (folder.join("mrc.toml"), folder.join("libibverbs.so"));
    std::fs::write(&library, b"").unwrap();
    let text = "name = \"hA\"\ngid = \"fd00::1\"\nmtu = 9000\n[[planes]]\ninterface = \"nosuch0\"\n\
        next_hop = \"02:00:00:00:00:01\"\n[[peers]]\nname = \"hB\"\ngid = \"fd00::2\"\nuplinks = 4\n";
    std::fs::write(&config, text).unwrap();
    // Grandchildren that end before the program does, which then waits for a word and has an exit code.
    let script = "for n in 1 2 3 4 5; do (sleep 0.1 &); done; sleep 1; echo ready; read word; exit 7";
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--kill-child", MRC, "verbs-run", "--no-sysfs"]).arg("--config").arg(&config);
    unshare.arg("--library").arg(&library).args(["--", "sh", "-c", script]);
    let mut unshare = Running(unshare.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(unshare.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let threads = std::fs::read_dir(format!("/proc/{}/task", first_process(&unshare.0))).unwrap();
    let children = threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("children")).unwrap());
    let children: String = children.collect();
    assert_eq!(children.split_whitespace().count(), 1, "the program alone: {children}");
    drop(unshare.0.stdin.take());
    assert_eq!(unshare.0.wait().unwrap().code(), Some(7));
}

/// Root of a container was told to run as root.
#[test]
fn root_without_rights_is_told_which_it_lacks() {
    if without_root("root_without_rights_is_told_which_it_lacks") {
        return;
    }
    let config = folder("rootless").join("mrc.toml");
    let text = "name = \"hA\"\ngid = \"fd00::1\"\nmtu = 9000\n[[planes]]\ninterface = \"a\"\n\
        next_hop = \"02:00:00:00:00:01\"\n[[peers]]\nname = \"hB\"\ngid = \"fd00::2\"\nuplinks = 4\n";
    std::fs::write(&config, text).unwrap();
    let script = "ip link add a mtu 9000 type veth peer name b && ip link set b up && ip link set a up || exit 99
        exec \"$@\" write-bw --host-file \"$0\" --port 18722";
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--net", "sh", "-c", script]).arg(&config).arg(MRC);
    let output = unshare.stdin(Stdio::null()).output().unwrap();
    let says = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(99) || says.starts_with("unshare:") {
        eprintln!("SKIP root_without_rights_is_told_which_it_lacks: {says}");
        return;
    }
    for part in ["though this is root: it lacks CAP_NET_ADMIN", "raw-socket port"] {
        assert!(output.status.code() == Some(3) && says.contains(part), "{output:?}");
    }
}

/// Two containers share the folder of control sockets. Each has a process 1, and whoever watches is in a third one: it saw no
/// device, and the second took the name of the first one's socket.
#[test]
fn devices_in_containers_are_seen_from_another_container() {
    if skip("devices_in_containers_are_seen_from_another_container") {
        return;
    }
    let _alone = alone();
    let prefix = format!("mrcpod{}", std::process::id());
    let _fabric = Fabric::up(Shape { prefix: prefix.clone(), ..Shape::default() }).unwrap().guarded();
    let engines = folder("containers").join("engines");
    let _ = std::fs::remove_dir_all(&engines);
    DirBuilder::new().mode(0o700).create(&engines).unwrap();
    let contained = |args: &[&str]| {
        let script = "mkdir -p -m 700 /run/mrc/engines && mount --bind \"$0\" /run/mrc/engines && exec \"$@\"";
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script]).arg(&engines).arg(MRC);
        unshare.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let sockets = |count: usize| {
        let has = || (std::fs::read_dir(&engines).unwrap().count() == count).then_some(());
        eventually("sockets", has);
    };
    let _server = Running(contained(&["write-bw", "--prefix", &prefix, "--lab", "hB", "--port", "18721"]));
    sockets(1);
    let client = ["write-bw", "--prefix", &prefix, "--lab", "hA", "localhost", "--port", "18721", "-D", "50"];
    let mut client = Running(contained(&[&client[..], &["--rate-limit", "1mbit"]].concat()));
    sockets(2);
    assert!(engines.join("1-0").exists() && engines.join("1-1").exists());
    let stats = json(&finish(contained(&["stats", "--json"]), MINUTE));
    let mut hosts: Vec<&str> = stats.as_array().unwrap().iter().filter_map(|one| one["host"].as_str()).collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["hA", "hB"]);
    let metrics = finish(contained(&["metrics"]), MINUTE);
    let metrics = String::from_utf8_lossy(&metrics.stdout);
    assert!(metrics.contains("\nmrc_devices 2.0\n"), "{metrics}");
    // Each ends as outside of containers.
    kill(first_process(&client.0), Signal::SIGTERM).unwrap();
    let code = client.0.wait().unwrap().code();
    let mut says = String::new();
    client.0.stderr.take().unwrap().read_to_string(&mut says).unwrap();
    assert_eq!(code, Some(130), "{says}");
    // The server ends with its client.
    sockets(0);
}
