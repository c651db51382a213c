//! `mrc metrics` and `mrc top` as users run them. What needs root or tmux is skipped by name and reason without.

mod common;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use common::{MRC, eventually, mrc, start};
use mrc_lab::{Fabric, Shape, skip};

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn request(port: u16, ask: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    stream.write_all(ask.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn metrics_are_served_and_bad_clients_harm_nobody() {
    let port = 18_741;
    let _server = start(&["metrics", "--listen", &format!("127.0.0.1:{port}")]);
    let get = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    let answer = eventually("an answer", || request(port, get));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("application/openmetrics-text"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    assert!(body.starts_with("# HELP mrc_devices ") && body.ends_with("# EOF\n"), "{body}");
    assert!(request(port, "GET / HTTP/1.1\r\n\r\n").unwrap().starts_with("HTTP/1.1 404"));
    assert!(request(port, "POST /metrics HTTP/1.1\r\n\r\n").unwrap().starts_with("HTTP/1.1 405"));
    // A scraper with parameters, a health check, and a scraper of the older format.
    assert!(request(port, "GET /metrics?module=x HTTP/1.1\r\n\r\n").unwrap().contains("# EOF"));
    let head = request(port, "HEAD /metrics HTTP/1.1\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"), "{head}");
    let older = request(port, "GET /metrics HTTP/1.1\r\nAccept: text/plain;version=0.0.4\r\n\r\n").unwrap();
    assert!(older.contains("Content-Type: text/plain; version=0.0.4") && older.contains("# TYPE mrc_discards_total"));
    // One that says nothing, one that never ends: the next is answered.
    let _silent = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let _ = request(port, &"x".repeat(20_000));
    assert!(request(port, get).unwrap().contains("# EOF"));
    let refused = mrc(&["metrics", "--listen", &format!("127.0.0.1:{port}")]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("cannot listen on 127.0.0.1:18741"), "{refused:?}");
    let out = file("mrc.prom");
    assert!(mrc(&["metrics", "--textfile", out.to_str().unwrap()]).status.success());
    assert!(std::fs::read_to_string(&out).unwrap().ends_with("# EOF\n"));
    assert!(!file("mrc.prom.new").exists());
}

/// Two snapshots of two devices, as `mrc top --record` writes them.
fn recording(name: &str) -> PathBuf {
    let device = |name: &str, host: &str, bytes: u64, ms: u64| {
        let plane = |n: u64, up: bool| {
            serde_json::json!({ "interface": format!("p{n}"), "tx_packets": 0, "rx_packets": 0, "rx_dropped": 0,
                "tx_bytes": bytes, "up": up, "denied": n == 1 })
        };
        let qp = |qpn: u64, share: u64| {
            serde_json::json!({ "qpn": qpn, "state": "RTS", "peer_qpn": 9, "outstanding": 0, "queued": 0, "retries": 0,
                "srtt_ns": 1000 * qpn, "base_rtt_ns": 0, "delay_ns": 0, "inflight_bytes": 0, "acked_bytes": bytes / share,
                "received_bytes": 0, "retransmitted": 0, "evs": [4, 0, 1, 2, 4], "paths": [
                    { "name": "p0u1", "plane": 0, "state": "ASSUMED_BAD", "delay_ns": 12_345 * share, "bandwidth_mbps": 100_000,
                        "load_bytes": 777, "placed_packets": 3, "telemetry": true }] })
        };
        let ev =
            |name: &str, plane: u64, state: &str| serde_json::json!({ "name": name, "plane": plane, "state": state });
        let evs = [ev("p0u0", 0, "GOOD"), ev("p0u1", 0, "ASSUMED_BAD"), ev("p1u0", 1, "DENIED")];
        let event = serde_json::json!({ "number": 1, "unix_ms": 1000, "text": "plane=1 UP->DOWN" });
        serde_json::json!({ "name": name, "events": [event], "state": {
            "pid": 1, "command": "write-bw", "host": host, "seconds": ms as f64 / 1e3, "discards": { "icrc": 7 }, "counters": {},
            "planes": [plane(0, true), plane(1, true), plane(2, false)], "qps_by_state": { "RTS": 2 },
            "qps": [qp(0x11, 4), qp(0x22, 2)], "qps_left_out": 0,
            "profiles": [{ "index": 0, "users": 2, "evs": evs }] } })
    };
    let snapshot = |ms: u64, bytes: u64| serde_json::json!({ "unix_ms": ms, "devices": [device("100-0", "hA", bytes, ms), device("200-0", "hB", 0, ms)] });
    let path = file(name);
    let lines = format!("{}\n{}\n", snapshot(1000, 0), snapshot(2000, 1_000_000_000));
    std::fs::write(&path, lines).unwrap();
    path
}

#[test]
fn a_recording_is_shown_as_text() {
    let path = recording("once.jsonl");
    let shown = text(&mrc(&["top", "--once", "--replay", path.to_str().unwrap()]));
    for part in [
        "2 devices",
        "100-0",
        "hA",
        "24.000",
        "DENIED",
        "DOWN",
        "0 oX",
        "1 d",
        "0x000022",
        "4.000",
        "7 icrc",
        "paths of 0x000022",
        "p0u1",
        "24.7",
        "777 B",
        "telemetry",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    // The one that sends more comes first.
    assert!(shown.find("0x000022") < shown.find("0x000011"), "{shown}");
    std::fs::write(file("bad.jsonl"), "{\"a\":\n[]\n").unwrap();
    let bad = mrc(&["top", "--once", "--replay", file("bad.jsonl").to_str().unwrap()]);
    assert!(bad.status.code() == Some(2) && String::from_utf8_lossy(&bad.stderr).contains("bad.jsonl"), "{bad:?}");
    let no_terminal = Command::new(MRC).args(["top", "--replay", path.to_str().unwrap()]).stdin(Stdio::null()).output();
    assert!(!no_terminal.unwrap().status.success());
}

/// It was emptied, and then there was no terminal.
#[test]
fn a_recording_survives_a_top_without_a_terminal() {
    let path = file("kept.jsonl");
    std::fs::write(&path, "seen before").unwrap();
    // A session of its own has no terminal, whoever runs the test.
    let mut top = Command::new("setsid");
    top.args(["--wait", MRC, "top", "--record"]).arg(&path).stdin(Stdio::null());
    let output = top.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("this is no terminal"), "{output:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "seen before");
}

/// A terminal of its own.
struct Tmux(String);

impl Tmux {
    fn run(&self, args: &[&str]) -> String {
        let output = Command::new("tmux").args(["-L", &self.0]).args(args).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn screen_with(&self, part: &str) -> String {
        eventually(part, || Some(self.run(&["capture-pane", "-p"])).filter(|screen| screen.contains(part)))
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

#[test]
fn keys_sort_filter_pause_and_quit_in_a_terminal() {
    if Command::new("tmux").arg("-V").output().is_err() {
        let _ =
            std::io::stderr().write_all(b"SKIP keys_sort_filter_pause_and_quit_in_a_terminal: tmux is not installed\n");
        return;
    }
    let path = recording("tmux.jsonl");
    let tmux = Tmux(format!("mrc-top-{}", std::process::id()));
    let command = format!("{MRC} top --interval 100 --replay {}; echo LEFT $?; sleep 60", path.display());
    tmux.run(&["-f", "/dev/null", "new-session", "-d", "-x", "110", "-y", "40", &command]);
    let keys = |keys: &[&str]| {
        tmux.run(&[&["send-keys"][..], keys].concat());
    };
    let screen = tmux.screen_with("24.000");
    assert!(screen.contains("queue pairs: 2 of 2, by goodput") && screen.contains("plane=1 UP->DOWN"), "{screen}");
    keys(&["s"]);
    let screen = tmux.screen_with("by number");
    assert!(screen.find("0x000011") < screen.find("0x000022"), "{screen}");
    keys(&["r"]);
    tmux.screen_with("reversed");
    keys(&["/", "2", "2"]);
    tmux.screen_with("filter: 22_");
    keys(&["Enter"]);
    let screen = tmux.screen_with("queue pairs: 1 of 2");
    assert!(!screen.contains("0x000011"), "{screen}");
    keys(&["Escape"]);
    tmux.screen_with("queue pairs: 2 of 2");
    keys(&["p"]);
    tmux.screen_with("PAUSED");
    keys(&["Left"]);
    // A snapshot back nothing was sent yet.
    let screen = tmux.screen_with("mrc top  00:00:01.0");
    assert!(!screen.contains("24.000"), "{screen}");
    keys(&["q"]);
    tmux.screen_with("LEFT 0");
}

/// Prometheus' own checker reads the file for node_exporter and has nothing to say about it.
fn promtool_reads(test: &str) {
    let out = file("device.prom");
    assert!(mrc(&["metrics", "--textfile", out.to_str().unwrap()]).status.success());
    let stdin = std::fs::File::open(&out).unwrap();
    let Ok(said) = Command::new("promtool").args(["check", "metrics"]).stdin(stdin).output() else {
        let _ = std::io::stderr().write_all(format!("SKIP {test}, promtool: not installed\n").as_bytes());
        return;
    };
    assert!(said.status.success() && said.stdout.is_empty() && said.stderr.is_empty(), "{said:?}");
}

/// It ended when its interval did, up to a minute later.
#[test]
fn top_ends_soon_whatever_its_interval() {
    let mut script = Command::new("script");
    script.args(["-qec", &format!("stty rows 24 cols 80; exec {MRC} top --interval 60000"), "/dev/null"]);
    let script = script.env("TERM", "xterm").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(script) = script else {
        eprintln!("SKIP top_ends_soon_whatever_its_interval: needs script(1)");
        return;
    };
    let mut script = common::Running(script);
    // It shows something when it has its terminal and waits.
    script.0.stdout.as_mut().unwrap().read_exact(&mut [0; 200]).unwrap();
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", script.0.id())).unwrap();
    let top = nix::unistd::Pid::from_raw(children.trim().parse().unwrap());
    let begun = std::time::Instant::now();
    nix::sys::signal::kill(top, nix::sys::signal::Signal::SIGTERM).unwrap();
    let code = eventually("its end", || script.0.try_wait().unwrap().map(|status| status.code()));
    assert!(code == Some(130) && begun.elapsed() < Duration::from_secs(10), "{code:?} after {:?}", begun.elapsed());
}

#[test]
fn a_running_device_is_seen() {
    if skip("a_running_device_is_seen") {
        return;
    }
    let prefix = "mrcviews";
    let _fabric = Fabric::up(Shape { prefix: prefix.to_owned(), ..Shape::default() }).unwrap().guarded();
    let _server = start(&["write-bw", "--prefix", prefix, "--lab", "hB", "-p", "18743"]);
    std::thread::sleep(Duration::from_millis(700));
    let client =
        start(&["write-bw", "--prefix", prefix, "--lab", "hA", "-p", "18743", "localhost", "-D", "60", "-q", "3"]);
    let name = format!("{}-0", client.0.id());
    let labelled = |text: &str, start: &str, label: &str| {
        let of_device = |line: &&str| line.starts_with(start) && line.contains(&name) && line.contains(label);
        text.lines().find(of_device).and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
    };
    let series = |text: &str, start: &str| labelled(text, start, "");
    let sent = |text: &str| series(text, "mrc_engine_total").and(labelled(text, "mrc_qps{", "state=\"RTS\""));
    let metrics =
        eventually("three queue pairs", || Some(text(&mrc(&["metrics"]))).filter(|text| sent(text) == Some(3.0)));
    assert!(metrics.contains(&format!("command=\"write-bw\",device=\"{name}\",name=\"tx_data\"")), "{metrics}");
    assert!(series(&metrics, "mrc_plane_up") == Some(1.0) && series(&metrics, "mrc_evs").is_some(), "{metrics}");
    assert_eq!(labelled(&metrics, "mrc_qps{", "state=\"ERROR\""), Some(0.0), "a series without queue pairs");
    let lines = metrics.lines().filter(|line| line.contains(&name)).count();
    assert!(lines < 160, "docs/operations.md says so: {lines}");
    promtool_reads("a_running_device_is_seen");
    // Other programs may have devices open: this one alone is selected.
    let shown = text(&mrc(&["top", "--once", "--pid", &client.0.id().to_string()]));
    assert!(shown.contains(&name) && shown.contains("queue pairs: 3 of 3") && shown.contains("0 oooo"), "{shown}");
    println!("{shown}");
}

/// They said that there is no device, and scripts took the machine for idle.
#[test]
fn a_folder_of_sockets_that_others_can_enter_is_named() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    let folder = tempfile::tempdir().unwrap();
    let (program, engines) = (folder.path().join("mrc"), folder.path().join("mrc-engines"));
    std::fs::copy(MRC, &program).unwrap();
    std::fs::create_dir(&engines).unwrap();
    for open in [folder.path(), &engines] {
        std::fs::set_permissions(open, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let run = |args: &[&str]| {
        let mut command = Command::new(&program);
        // Root has a folder for the whole machine.
        if nix::unistd::geteuid().is_root() {
            command.uid(65_534).gid(65_534);
        }
        command.args(args).current_dir("/").env("XDG_RUNTIME_DIR", folder.path()).stdin(Stdio::null()).output().unwrap()
    };
    for args in [&["stats"][..], &["stats", "--json"], &["control", "state"], &["top", "--once"], &["metrics"]] {
        let output = run(args);
        let says = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        assert!(says.contains(engines.to_str().unwrap()) && says.contains("mode 0700"), "{args:?}: {says}");
    }
    let shown = |args: &[&str]| String::from_utf8(run(args).stdout).unwrap();
    assert!(shown(&["metrics"]).contains("\nmrc_devices_folder_refused 1.0\n"));
    assert!(shown(&["top", "--once"]).contains("mrc-engines must be a folder of user"));
    // None at all is no mistake: no program has run yet.
    std::fs::remove_dir(&engines).unwrap();
    let metrics = run(&["metrics"]);
    assert!(metrics.status.success() && metrics.stderr.is_empty(), "{metrics:?}");
}
