//! The mapper as its users run it. The trial and the agent need root; skipped by name and reason otherwise.

mod common;

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{alone, skip_trial, start};
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
    // A host file alone does not say what fabric it is in, and an agent without the fabric's key hears of nobody.
    for some in [&["--fabric", "2,2,4,2"][..], &["--key", "k"]] {
        let half = mrc(&[&["mapper", "agent", "--host-file", "mrc.toml"], some].concat(), 10);
        assert_eq!(half.status.code(), Some(2), "{some:?}");
    }
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

/// What a device says of itself.
fn state(pid: &str) -> Value {
    let output = mrc(&["control", "--pid", pid, "state"], 10);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

fn eventually(what: &str, seconds: u64, mut is: impl FnMut() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(seconds);
    while !is() {
        assert!(Instant::now() < give_up, "not within {seconds} s: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// States of the entropy values of one plane in the profiles that queue pairs use.
fn ev_states(state: &Value, plane: u64) -> Vec<String> {
    let profiles = state["profiles"].as_array().unwrap().iter().filter(|profile| profile["users"] != 0);
    let evs = profiles.flat_map(|profile| profile["evs"].as_array().unwrap());
    evs.filter(|ev| ev["plane"] == plane).map(|ev| ev["state"].as_str().unwrap().to_owned()).collect()
}

/// A policy denies the plane behind a lossy host link on the running device and takes it back; nothing takes the last plane.
#[test]
fn a_policy_denies_a_plane_of_a_running_device_and_gives_it_back() {
    if skip_trial("a_policy_denies_a_plane_of_a_running_device_and_gives_it_back") {
        return;
    }
    let _alone = alone();
    let prefix = "mrcdeny";
    let fabric = Fabric::up(Shape { prefix: prefix.to_owned(), ..Shape::default() }).unwrap().guarded();
    let policy = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("policy.toml");
    let rule = "[[rules]]\nname = 'host-link'\npart = 'host-link'\nloss_above = 0.02\n";
    std::fs::write(&policy, rule).unwrap();
    let _server = start(&["write-bw", "--prefix", prefix, "--lab", "hB", "-p", "18733"]);
    std::thread::sleep(Duration::from_millis(700));
    let client = start(&["write-bw", "--prefix", prefix, "--lab", "hA", "-p", "18733", "localhost", "-D", "60"]);
    let pid = client.0.id().to_string();
    eventually("a device with a queue pair", 10, || {
        let output = mrc(&["control", "--pid", &pid, "state"], 10);
        serde_json::from_slice::<Value>(&output.stdout).is_ok_and(|state| state["qps"][0]["state"] == "RTS")
    });
    let control = |args: &[&str]| mrc(&[&["control", "--pid", &pid][..], args].concat(), 10);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();

    // Only its user gets there.
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(std::fs::metadata("/run/mrc/engines").unwrap().permissions().mode() & 0o077, 0);
    // A dry run changes nothing; the last plane is never denied; a list ends.
    let dry = control(&["deny", "--plane", "1", "--dry-run"]);
    assert!(text(&dry.stdout).contains("4 paths would be denied"), "{dry:?}");
    assert!(ev_states(&state(&pid), 1).iter().all(|state| state != "DENIED"));
    let all = control(&["deny", "--plane", "0", "--plane", "1"]);
    assert!(all.status.code() == Some(1) && text(&all.stderr).contains("the last one stays"), "{all:?}");
    assert!(control(&["deny", "--plane", "1", "--seconds", "1"]).status.success());
    assert_eq!(ev_states(&state(&pid), 1), ["DENIED"; 4]);
    eventually("the list runs out", 5, || ev_states(&state(&pid), 1).iter().all(|state| state != "DENIED"));
    // Asked now: the device keeps its latest events, and paths under load have many.
    let told = |parts: &[&str]| {
        let events = text(&control(&["events"]).stdout);
        parts.iter().for_each(|part| assert!(events.contains(part), "{part}: {events}"));
    };
    told(&["denylist of operator: planes {1}", "denylist of operator ran out"]);

    // The agent finds the link, has its plane denied, and gives it back when the link is well.
    let agent = ["mapper", "agent", "--prefix", prefix, "--lab", "hA", "--interval", "5", "--policy"];
    let mut agent = start(&[&agent[..], &[policy.to_str().unwrap(), "--apply"]].concat());
    let lossy = mrc_lab::Impairment { loss_ppm: 100_000, seed: 3, ..Default::default() };
    fabric.impair("p0-hA", &lossy).unwrap();
    eventually("plane 0 is denied", 20, || ev_states(&state(&pid), 0) == ["DENIED"; 4]);
    let denied = state(&pid);
    assert_eq!((&denied["planes"][0]["denied"], &denied["planes"][1]["denied"]), (&true.into(), &false.into()));
    let lists: Value = serde_json::from_slice(&control(&["denylist"]).stdout).unwrap();
    let because = lists["denylists"][0]["because"].as_str().unwrap();
    assert!(because.starts_with("p0-hA") && because.ends_with("(host-link)"), "{lists}");
    fabric.clear("p0-hA").unwrap();
    eventually("plane 0 is used again", 20, || ev_states(&state(&pid), 0).iter().all(|state| state != "DENIED"));
    agent.0.kill().unwrap();

    // The other plane fails while one is denied: all is allowed again.
    assert!(control(&["deny", "--plane", "0"]).status.success());
    assert_eq!(ev_states(&state(&pid), 0), ["DENIED"; 4]);
    fabric.withdraw(1).unwrap();
    eventually("the last plane is allowed", 5, || ev_states(&state(&pid), 0).iter().all(|state| state != "DENIED"));
    told(&["p0u0 ", "->DENIED", "plane=1 UP->DOWN"]);
}

/// A switch port that takes short packets and no full ones is found, by its direction, and `why` says what it loses.
#[test]
fn a_port_of_too_small_an_mtu_is_found() {
    if skip("a_port_of_too_small_an_mtu_is_found") {
        return;
    }
    let _alone = alone();
    let prefix = "mrcnarrow";
    let _fabric = Fabric::up(Shape { prefix: prefix.to_owned(), ..Shape::default() }).unwrap().guarded();
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let db = folder.join(format!("narrow-{}.db", std::process::id()));
    let collect =
        ["mapper", "collect", "--prefix", prefix, "--db", db.to_str().unwrap(), "--listen", "127.0.0.1:18735"];
    let _collector = start(&[&collect[..], &["--http", "127.0.0.1:18736"]].concat());
    let _agents = ["hA", "hB"].map(|host| {
        let agent = ["mapper", "agent", "--prefix", prefix, "--lab", host, "--interval", "2"];
        start(&[&agent[..], &["--collector", "127.0.0.1:18735"]].concat())
    });
    let link = "p0-t0a-t1b:up";
    let why = |more: &[&str]| mrc(&[&["mapper", "why", link, "--http", "127.0.0.1:18736"][..], more].concat(), 10);
    let told = || serde_json::from_slice::<Value>(&why(&["--json"]).stdout).unwrap_or_default();
    let sum = |key: &str| -> u64 {
        told()["paths"].as_array().into_iter().flatten().filter_map(|path| path[key].as_u64()).sum()
    };
    eventually("both agents report", 20, || sum("sent") > 400);
    let switch = format!("{prefix}-p0-t0a");
    let set = ["-n", &switch, "link", "set", "t1b", "mtu", "4251"];
    assert!(Command::new("ip").args(set).status().unwrap().success());
    eventually("the link is faulty", 60, || told()["faulty"] == true);
    let (component, loss) = (told()["component"].clone(), told()["loss"].as_f64().unwrap());
    assert!(component == link && loss < 0.2, "{component} loses {loss}");
    let text = String::from_utf8_lossy(&why(&[]).stdout).into_owned();
    assert!(text.contains("lost probes were as long as a full data packet"), "{text}");
    std::fs::remove_file(db).unwrap();
}
