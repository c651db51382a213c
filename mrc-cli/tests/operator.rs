//! What an operator asks the program, on a real fabric: which destinations, which paths, which counters. Needs root; skipped
//! by name and reason otherwise.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{Running, alone, folder, json, spawn};
use mrc_lab::{Fabric, Shape, skip};
use serde_json::Value;

/// No command of these tests takes longer.
const MINUTE: Duration = Duration::from_secs(60);

fn finish(child: Child) -> Output {
    common::finish(child, MINUTE)
}

/// A fabric of this process and test.
fn fabric(test: &str) -> Fabric {
    Fabric::up(Shape { prefix: format!("mrco{}{test}", std::process::id()), ..Shape::default() }).unwrap().guarded()
}

/// Waits until the peer of a program writes to it. On a busy machine that takes a while.
fn until_written_to(child: &Child) {
    let pid = child.id().to_string();
    common::eventually("bytes of the peer", || {
        let stats = finish(spawn(&["stats", "--json", "--pid", &pid]));
        let planes = serde_json::from_slice::<Value>(&stats.stdout).ok()?[0]["planes"].as_array()?.clone();
        planes.iter().any(|plane| plane["rx_bytes"].as_u64() > Some(0)).then_some(())
    });
}

/// The host file of `host`, written to a file.
fn host_file(fabric: &Fabric, test: &str, host: &str) -> PathBuf {
    let path = folder(test).join(format!("{host}.json"));
    std::fs::write(&path, serde_json::to_string(&fabric.host(host).unwrap()).unwrap()).unwrap();
    path
}

/// What doctor says of each path to host B: name, status, detail.
fn paths_to_hb(config: &Path) -> Vec<(String, String, String)> {
    let report = json(&finish(spawn(&["doctor", "--json", "--config", config.to_str().unwrap()])));
    let paths = report["checks"].as_array().unwrap().iter().filter(|check| check["subject"] == "paths to hB");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    paths.map(|path| (text(&path["name"]), text(&path["status"]), text(&path["detail"]))).collect()
}

#[test]
fn doctor_probes_every_destination_and_write_bw_names_paths_without_an_answer() {
    if skip("doctor_probes_every_destination_and_write_bw_names_paths_without_an_answer") {
        return;
    }
    let _alone = alone();
    let fabric = fabric("paths");
    let config = host_file(&fabric, "paths", "hA");
    let probed = || paths_to_hb(&config);
    let healthy = probed();
    assert_eq!(healthy.len(), 8, "{healthy:?}");
    assert!(healthy.iter().all(|(_, status, _)| status == "ok"), "{healthy:?}");
    assert!(healthy[7].2.starts_with("fcbb:bb00:1100:2103:1101:3101:: "), "{healthy:?}");
    // A switch whose port takes small packets alone: what data meets there, probes of doctor meet.
    let switch = format!("{}-p0-t0a", fabric.shape().prefix);
    let mtu = |bytes: &str| {
        let set = ["-n", &switch, "link", "set", "t1b", "mtu", bytes];
        assert!(Command::new("ip").args(set).status().unwrap().success());
    };
    mtu("4251");
    let narrow: Vec<_> = probed().into_iter().filter(|(_, status, _)| status != "ok").collect();
    assert!(narrow.len() == 1 && narrow[0].0 == "p0u1" && narrow[0].1 == "fail", "{narrow:?}");
    assert!(narrow[0].2.contains("as long as a full packet (4252 bytes) did not"), "{narrow:?}");
    mtu("4252");
    assert!(probed().iter().all(|(_, status, _)| status == "ok"));
    // A link that loses packets is not taken for one of too small an MTU, nor for a good one.
    fabric.impair("p0-t0a-t1d:up", &mrc_lab::Impairment { loss_ppm: 300_000, ..Default::default() }).unwrap();
    let lossy = (0..20).find_map(|_| probed().into_iter().find(|(_, status, _)| status != "ok")).unwrap();
    assert!(lossy.0 == "p0u3" && lossy.1 == "warn" && lossy.2.contains("but probes were lost: "), "{lossy:?}");
    fabric.clear("p0-t0a-t1d:up").unwrap();
    fabric.cut("p1-t0b-t1c").unwrap();
    let failed: Vec<_> = probed().into_iter().filter(|(_, status, _)| status != "ok").collect();
    assert!(failed.len() == 1 && failed[0].0 == "p1u2" && failed[0].1 == "fail", "{failed:?}");
    let common = ["--prefix", &fabric.shape().prefix, "--port", "18711", "--json"];
    let server = spawn(&[&["write-bw", "--lab", "hB"][..], &common].concat());
    let client = spawn(&[&["write-bw", "--lab", "hA", "localhost", "-D", "2"][..], &common].concat());
    // On a busy machine it takes a while to begin.
    let eventually = Instant::now() + Duration::from_secs(20);
    let running = loop {
        let running = json(&finish(spawn(&["stats", "--json", "--pid", &client.id().to_string()])));
        if running[0]["counters"]["tx_data"].as_u64() > Some(0) || Instant::now() > eventually {
            break running;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    assert_eq!((&running[0]["command"], &running[0]["host"]), (&"write-bw".into(), &"hA".into()), "{running}");
    assert!(running[0]["counters"]["tx_data"].as_u64().unwrap() > 0 && running[0]["discards"].is_object(), "{running}");
    let id = client.id().to_string();
    let client = finish(client);
    let later = finish(spawn(&["stats", "--json", "--pid", &id]));
    assert_eq!((json(&later), later.status.code()), (serde_json::json!([]), Some(1)));
    let report = json(&client);
    assert!(client.status.success() && finish(server).status.success(), "{report}");
    let silent = report["runs"][0]["silent_paths"].as_array().unwrap();
    assert!(silent.iter().any(|path| path["path"] == "p1u2"), "{report}");
    assert_eq!(report["silent_planes"].as_array().map(Vec::len), Some(0), "{report}");
}

/// The last switch of plane 0 removes the outer header of what it sends to the host, as the specification lets it.
#[test]
fn doctor_hears_probes_without_their_outer_header() {
    if skip("doctor_hears_probes_without_their_outer_header") {
        return;
    }
    let _alone = alone();
    let fabric = fabric("bare");
    let config = host_file(&fabric, "bare", "hA");
    let switch = format!("{}-p0-t0a", fabric.shape().prefix);
    for change in [
        "addr add fdaa::1/64 dev hA nodad",
        "neigh replace fdaa::2 lladdr 02:00:30:00:10:00 nud permanent dev hA",
        "route replace fcbb:bb00:3000::/48 encap seg6local action End.DX6 nh6 fdaa::2 dev hA",
    ] {
        let words = ["-6", "-n", &switch].into_iter().chain(change.split(' '));
        assert!(Command::new("ip").args(words).status().unwrap().success(), "{change}");
    }
    let paths = paths_to_hb(&config);
    assert!(paths.len() == 8 && paths.iter().all(|(_, status, _)| status == "ok"), "{paths:?}");
    let bare = |path: &(String, String, String)| path.2.ends_with("us without its outer header");
    assert!(paths.iter().all(|path| bare(path) == path.0.starts_with("p0")), "{paths:?}");
    // A switch that trusts none of its ports: nftables are no part of the lab, so this is left out without them.
    let t1 = format!("{}-p1-t1d", fabric.shape().prefix);
    let rule =
        "add table ip6 x; add chain ip6 x f { type filter hook forward priority 0; }; add rule ip6 x f ip6 dscp set 0";
    let rewrites = Command::new("ip").args(["netns", "exec", &t1, "nft", rule]).output();
    if rewrites.is_ok_and(|output| output.status.success()) {
        let told: Vec<_> = paths_to_hb(&config).into_iter().filter(|(_, status, _)| status != "ok").collect();
        assert!(told.len() == 1 && told[0].0 == "p1u3" && told[0].1 == "warn", "{told:?}");
        assert!(told[0].2.ends_with("but code point 46 came back as 0"), "{told:?}");
        assert!(
            Command::new("ip").args(["netns", "exec", &t1, "nft", "delete table ip6 x"]).status().unwrap().success()
        );
    }
    fabric.cut("p0-t0a-t1c").unwrap();
    let failed: Vec<_> = paths_to_hb(&config).into_iter().filter(|(_, status, _)| status != "ok").collect();
    assert!(failed.len() == 1 && failed[0].0 == "p0u2", "{failed:?}");
}

#[test]
fn a_fabric_without_a_switch_is_shown_and_one_without_owner_is_removed() {
    if skip("a_fabric_without_a_switch_is_shown_and_one_without_owner_is_removed") {
        return;
    }
    let _alone = alone();
    let fabric = fabric("gone");
    let prefix = fabric.shape().prefix.clone();
    fabric.impair("p0-t0a-t1b", &mrc_lab::Impairment { loss_ppm: 1, ..Default::default() }).unwrap();
    fabric.slow("p0-hB", 1_000_000_000, None).unwrap();
    for node in ["p0-t1d", "p1-t0a", "hA"] {
        assert!(Command::new("ip").args(["netns", "del", &format!("{prefix}-{node}")]).status().unwrap().success());
    }
    let lab = |action: &str| finish(spawn(&["lab", "--json", "--prefix", &prefix, action]));
    let eventually = Instant::now() + Duration::from_secs(5);
    let status = loop {
        let status = json(&lab("status"));
        // The kernel removes the links of a namespace a moment after it.
        let missing = status["links"].as_array().unwrap().iter().filter(|link| link["state"] == "missing").count();
        if missing == 8 || Instant::now() > eventually {
            break status;
        }
    };
    assert_eq!((status["shape"]["t1"].as_u64(), status["shape"]["hosts"].as_u64()), (Some(4), Some(2)), "{status}");
    let switches = status["switches"].as_array().unwrap();
    let gone: Vec<_> = switches.iter().filter(|switch| switch["packets"].is_null()).map(|s| &s["name"]).collect();
    assert_eq!(gone, ["p1-t0a", "p0-t1d"], "{status}");
    let counters = json(&lab("counters"));
    assert_eq!(counters["missing"], serde_json::json!(["hA", "p1-t0a", "p0-t1d"]), "{counters}");
    assert_eq!((counters["impaired"].as_array().unwrap().len(), counters["slowed"].as_array().unwrap().len()), (2, 1));

    let out = folder("killed");
    removed_after_kill(
        &["demo", "--json", "--mode", "lab", "--seconds", "30", "--out", out.to_str().unwrap()],
        "mrcdemo",
    );
    if mrc_lab::impair_requirements().is_ok() {
        removed_after_kill(&["mapper", "trial"], "mrcmap");
    }
}

/// Kills a command while its own fabric is up: `lab down` finds the fabric then, and not before.
fn removed_after_kill(command: &[&str], prefix: &str) {
    let mut child = spawn(command);
    let own = format!("{prefix}{}-", child.id());
    let left = || {
        let names =
            std::fs::read_dir("/run/netns").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
        names.filter(|name| name.starts_with(&own)).count()
    };
    let give_up = Instant::now() + Duration::from_secs(20);
    while left() < 14 && Instant::now() < give_up {
        std::thread::sleep(Duration::from_millis(50));
    }
    // Not while it runs.
    finish(spawn(&["lab", "--prefix", "mrcnone", "down"]));
    assert_eq!(left(), 14, "{command:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    let down = finish(spawn(&["lab", "--json", "--prefix", "mrcnone", "down"]));
    assert!(json(&down)["removed"].as_u64().unwrap() >= 14, "{}", json(&down));
    assert_eq!(left(), 0, "{command:?}");
}

#[test]
fn an_interrupted_client_prints_its_totals() {
    if skip("an_interrupted_client_prints_its_totals") {
        return;
    }
    let _alone = alone();
    let fabric = fabric("int");
    let common = ["--prefix", &fabric.shape().prefix, "--port", "18712", "--json"];
    let server = spawn(&[&["write-bw", "--lab", "hB"][..], &common].concat());
    let client = spawn(&[&["write-bw", "--lab", "hA", "localhost", "-D", "50"][..], &common].concat());
    until_written_to(&server);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(client.id().cast_signed()), nix::sys::signal::SIGINT).unwrap();
    let client = finish(client);
    let report = json(&client);
    assert!(client.status.code() == Some(130) && report["error"].is_null(), "{report}");
    assert!(report["bytes"].as_u64().unwrap() > 0 && report["seconds"].as_f64().unwrap() < 40.0, "{report}");
    assert!(finish(server).status.success());
}

/// Whoever stops a server that waits, or that is written to, finds no device of it and its exit code.
#[test]
fn an_interrupted_server_ends_as_a_client_does() {
    if skip("an_interrupted_server_ends_as_a_client_does") {
        return;
    }
    let _alone = alone();
    let fabric = fabric("srv");
    let common = ["--prefix", &fabric.shape().prefix, "--port", "18713", "--json"];
    let stop = |child: &Child| {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id().cast_signed()), nix::sys::signal::SIGTERM)
            .unwrap();
    };
    for test in ["write-bw", "write-lat"] {
        let server = spawn(&[&[test, "--lab", "hB"][..], &common].concat());
        let socket = format!("/run/mrc/engines/{}-0", server.id());
        common::eventually("a device", || std::path::Path::new(&socket).exists().then_some(()));
        std::thread::sleep(Duration::from_millis(300));
        stop(&server);
        assert_eq!(finish(server).status.code(), Some(130), "{test}");
        assert!(!std::path::Path::new(&socket).exists(), "{test}");
    }
    let server = spawn(&[&["write-bw", "--lab", "hB"][..], &common].concat());
    let client = spawn(&[&["write-bw", "--lab", "hA", "localhost", "-D", "50"][..], &common].concat());
    until_written_to(&server);
    stop(&server);
    let server = finish(server);
    assert!(server.status.code() == Some(130) && json(&server)["bytes"].as_u64().unwrap() > 0, "{server:?}");
    let client = finish(client);
    assert!(client.status.code() == Some(1) && !json(&client)["error"].is_null(), "{client:?}");
    // Round trips up to then.
    let server = spawn(&[&["write-lat", "--lab", "hB"][..], &common].concat());
    let client = spawn(&[&["write-lat", "--lab", "hA", "localhost", "-n", "10000000"][..], &common].concat());
    until_written_to(&client);
    stop(&client);
    let client = finish(client);
    assert!(client.status.code() == Some(130) && json(&client)["iterations"].as_u64().unwrap() > 0, "{client:?}");
    assert!(finish(server).status.success());
}

#[test]
fn an_interrupted_lab_up_leaves_nothing() {
    if skip("an_interrupted_lab_up_leaves_nothing") {
        return;
    }
    let _alone = alone();
    let prefix = format!("mrco{}up", std::process::id());
    let there = || {
        let names = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
        names.filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{prefix}-"))).count()
    };
    let up = spawn(&["lab", "--prefix", &prefix, "up", "--planes", "4", "--hosts", "8"]);
    common::eventually("a namespace", || (there() > 0).then_some(()));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(up.id().cast_signed()), nix::sys::signal::SIGTERM).unwrap();
    assert_eq!(finish(up).status.code(), Some(130));
    assert_eq!(there(), 0);
}

/// Exporters and scripts read the counters of RDMA devices below `/sys/class/infiniband`; the directory was empty.
#[test]
fn verbs_run_shows_the_counters_of_the_hosts_device_while_they_grow() {
    if skip("verbs_run_shows_the_counters_of_the_hosts_device_while_they_grow") {
        return;
    }
    let _alone = alone();
    let fabric = fabric("sys");
    let library = folder("sys").join("libibverbs.so");
    std::fs::write(&library, b"").unwrap();
    let prefix = &fabric.shape().prefix;
    let common = ["--prefix", prefix, "--port", "18718"];
    let _server = common::start(&[&["write-bw", "--lab", "hB"][..], &common].concat());
    let _client = common::start(&[&["write-bw", "--lab", "hA", "localhost", "-D", "60"][..], &common].concat());
    // Twice, until each has grown: words sent by the client, words that the server received.
    let grow = "cd /sys/class/infiniband/mrc0/ports/1 && cat hw_counters/lifespan hw_counters/discard_icrc || exit 1
        first=0; for _ in 1 2; do until now=$(cat counters/$0) || exit 1; [ $now -gt $first ]; do sleep 0.1; done; first=$now; done";
    let view = |host: &str, script: &str, counter: &str| {
        let (config, namespace) = (host_file(&fabric, "sys", host), format!("{prefix}-{host}"));
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &namespace, common::MRC, "verbs-run", "--config"]).arg(config);
        command.arg("--library").arg(&library).args(["--", "sh", "-c", script, counter]);
        finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    };
    for (host, counter) in [("hA", "port_xmit_data"), ("hB", "port_rcv_data")] {
        let output = view(host, grow, counter);
        assert!(output.status.success(), "{host}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "1000\n0\n", "{host}");
    }
    // Nothing of the other host: only the client sends data.
    let output = view("hB", "cat /sys/class/infiniband/mrc0/ports/1/counters/$0", "port_xmit_data");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n", "{output:?}");
}

/// A process that was stopped made the mapper's agent on its host blind, and `mrc stats` said that it has no device.
#[test]
fn a_process_that_is_stopped_is_named_and_holds_up_nobody() {
    if skip("a_process_that_is_stopped_is_named_and_holds_up_nobody") {
        return;
    }
    let _alone = alone();
    let fabric = fabric("stopped");
    let prefix = ["--prefix", &fabric.shape().prefix];
    // Killed at the end, whatever happens: stopped, it would hold its TCP port.
    let mut server = Running(spawn(&[&["write-bw", "--lab", "hA", "--port", "18712"][..], &prefix].concat()));
    let pid = server.0.id().to_string();
    let stats = || finish(spawn(&["stats", "--json", "--pid", &pid]));
    common::eventually("a device", || stats().status.success().then_some(()));
    let signal = |name: &str| assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    signal("-STOP");
    let silent = stats();
    let says = String::from_utf8_lossy(&silent.stderr);
    assert!(silent.status.code() == Some(1) && says.contains(&format!("process {pid} does not answer")), "{says}");
    let metrics = finish(spawn(&["metrics"]));
    let count = |name: &str| {
        let text = String::from_utf8_lossy(&metrics.stdout).into_owned();
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok()).unwrap()
    };
    assert!(count("mrc_devices_silent ") >= 1.0 && count("mrc_scrape_seconds ") < 10.0);
    let screen = finish(spawn(&["top", "--once"]));
    let screen = String::from_utf8_lossy(&screen.stdout).into_owned();
    assert!(screen.lines().next().unwrap().contains(&format!("no answer from {pid}-0")), "{screen}");
    // The agent probes all the while.
    let policy = folder("stopped").join("policy.toml");
    std::fs::write(&policy, finish(spawn(&["mapper", "policy"])).stdout).unwrap();
    let agent = ["mapper", "agent", "--lab", "hA", "--json", "--seconds", "6", "--apply", "--policy"];
    let agent = finish(spawn(&[&agent[..], &[policy.to_str().unwrap()], &prefix].concat()));
    let lines = String::from_utf8_lossy(&agent.stdout).into_owned();
    let events: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.iter().all(|event| event["event"].is_string() && event["unix_ms"].is_u64()), "{lines}");
    let paused = events.iter().filter(|event| event["event"] == "paused");
    let paused = paused.map(|event| event["ns"].as_u64().unwrap()).sum::<u64>();
    assert!(agent.status.success() && paused < 1_000_000_000, "paused for {paused} ns: {lines}");
    signal("-CONT");
    signal("-TERM");
    server.0.wait().unwrap();
}

/// They held all connections of the control socket, and `mrc stats` said that there is no device.
#[test]
fn clients_that_say_nothing_hide_no_device() {
    if skip("clients_that_say_nothing_hide_no_device") {
        return;
    }
    let _alone = alone();
    let fabric = fabric("idle");
    let prefix = ["--prefix", &fabric.shape().prefix];
    let server = common::start(&[&["write-bw", "--lab", "hA", "--port", "18719"][..], &prefix].concat());
    let pid = server.0.id().to_string();
    let socket = format!("/run/mrc/engines/{pid}-0");
    let connect = || std::os::unix::net::UnixStream::connect(&socket).ok();
    let mut idle = vec![common::eventually("a device", connect)];
    idle.extend((0..40).map_while(|_| connect()));
    assert_eq!(idle.len(), 41);
    let stats = finish(spawn(&["stats", "--json", "--pid", &pid]));
    assert!(stats.status.success() && json(&stats)[0]["host"] == "hA", "{stats:?}");
    let (top, metrics) = (finish(spawn(&["top", "--once", "--pid", &pid])), finish(spawn(&["metrics"])));
    for shown in [top, metrics] {
        let text = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(text.contains(&format!("{pid}-0")) && !text.contains("no answer"), "{text}");
    }
}
