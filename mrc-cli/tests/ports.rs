//! Host links that fail and return beneath a transfer, with the program's own commands. Needs root; skipped by name and
//! reason otherwise.

mod common;

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::alone;
use mrc_lab::{Fabric, Shape, skip};
use serde_json::Value;

fn mrc(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mrc"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A fabric for one test.
fn fabric(test: &str) -> Fabric {
    let prefix = format!("mrcp{}{test}", std::process::id());
    Fabric::up(Shape { prefix, ..Shape::default() }).unwrap().guarded()
}

/// A fabric with a server on hB and a client on hA.
struct Pair {
    fabric: Fabric,
    server: Child,
    client: Child,
    start: Instant,
}

impl Pair {
    fn start(test: &str, port: &str, client: &[&str]) -> Self {
        Self::on(fabric(test), port, client)
    }

    fn on(fabric: Fabric, port: &str, client: &[&str]) -> Self {
        let prefix = fabric.shape().prefix.clone();
        let common = ["--prefix", &prefix, "--port", port, "--json"];
        let server = mrc(&[&["write-bw", "--lab", "hB"][..], &common].concat()).spawn().unwrap();
        let client = mrc(&[&["write-bw", "--lab", "hA", "localhost"][..], &common, client].concat()).spawn().unwrap();
        // The transfer itself begins a little later; both sides must be open before anything fails.
        std::thread::sleep(Duration::from_secs(1));
        Self { fabric, server, client, start: Instant::now() }
    }

    /// Waits until so many milliseconds after the start.
    fn at(&self, ms: u64) {
        let at = self.start + Duration::from_millis(ms);
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
    }

    /// Runs `mrc lab` so many milliseconds after the start.
    fn lab(&self, ms: u64, args: &[&str]) {
        self.at(ms);
        let prefix = &self.fabric.shape().prefix;
        let output = mrc(&[&["lab", "--prefix", prefix][..], args].concat()).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// What client and server report, when both end within `limit`.
    fn finish(self, limit: Duration) -> [(Output, Value); 2] {
        let give_up = Instant::now() + limit;
        [self.client, self.server].map(|mut child| {
            end_by(&mut child, give_up);
            let output = child.wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            let report = serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("{error}: {text}\n{}", String::from_utf8_lossy(&output.stderr)));
            (output, report)
        })
    }
}

/// Waits until the program has ended.
fn end_by(child: &mut Child, give_up: Instant) {
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > give_up {
            child.kill().unwrap();
            panic!("still running");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(child: &Child, name: &str) {
    let kill = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
}

/// Bytes per plane that the client sent from `from` on, in milliseconds of the run.
fn planes_after(report: &Value, from: f64) -> [u64; 2] {
    let names: Vec<&str> = report["paths"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let mut planes = [0; 2];
    for sample in report["runs"][0]["samples"].as_array().unwrap() {
        if sample["ms"].as_f64().unwrap() > from {
            for (name, bytes) in names.iter().zip(sample["path_bytes"].as_array().unwrap()) {
                planes[usize::from(name.starts_with("p1"))] += bytes.as_u64().unwrap();
            }
        }
    }
    planes
}

fn skip_impaired(test: &str) -> bool {
    if skip(test) {
        return true;
    }
    let Err(missing) = mrc_lab::impair_requirements() else { return false };
    eprintln!("SKIP {test}: {missing}");
    true
}

/// The link of plane 1 returns while nothing arrives anywhere: the plane carries its share again, and takes all of it when
/// the other link goes.
//= EPOP-006 test
#[test]
fn a_plane_that_returns_during_an_outage_carries_its_share() {
    if skip_impaired("a_plane_that_returns_during_an_outage_carries_its_share") {
        return;
    }
    let _alone = alone();
    for other_cut in [false, true] {
        let load = ["-D", "8", "-q", "2", "-s", "65536", "--rate-limit", "400mbit", "--interval", "500"];
        let pair = Pair::start(if other_cut { "b" } else { "a" }, "18711", &load);
        pair.lab(1_000, &["cut", "p1-hB"]);
        pair.lab(2_000, &["impair", "--all", "--loss", "100%"]);
        pair.lab(2_200, &["heal", "p1-hB"]);
        pair.lab(2_700, &["impair", "--all", "--clear"]);
        if other_cut {
            pair.lab(3_000, &["cut", "p0-hB"]);
        }
        let [(client, report), (server, _)] = pair.finish(Duration::from_secs(30));
        let [plane0, plane1] = planes_after(&report, 6_500.0);
        assert!(client.status.success() && server.status.success(), "{report}");
        let share = plane1 as f64 / (plane0 + plane1) as f64;
        let wanted = if other_cut { 0.99..=1.0 } else { 0.3..=0.7 };
        assert!(wanted.contains(&share), "plane 1 carries {share} of {} bytes: {report}", plane0 + plane1);
    }
}

/// An outage of all planes that is shorter than the retry budget costs time and nothing else.
//= RETRY-004 test
#[test]
fn five_seconds_without_any_plane_are_survived() {
    if skip("five_seconds_without_any_plane_are_survived") {
        return;
    }
    let _alone = alone();
    let pair = Pair::start(
        "o",
        "18712",
        &["-D", "9", "-q", "2", "-s", "65536", "--rate-limit", "400mbit", "--interval", "500"],
    );
    pair.lab(1_000, &["withdraw", "0"]);
    pair.lab(1_000, &["withdraw", "1"]);
    pair.lab(6_000, &["restore", "0"]);
    pair.lab(6_000, &["restore", "1"]);
    let [(client, report), (server, _)] = pair.finish(Duration::from_secs(30));
    assert!(client.status.success() && server.status.success(), "{report}");
    let planes = planes_after(&report, 8_000.0);
    assert!(planes.iter().all(|&bytes| bytes > 0), "{planes:?} bytes at the end: {report}");
}

/// Without any plane for good, a run of a set time ends soon after it, and one without fails within the budget.
//= RETRY-004 test
#[test]
fn a_run_without_any_plane_ends_and_says_why() {
    if skip("a_run_without_any_plane_ends_and_says_why") {
        return;
    }
    let _alone = alone();
    for (load, limit, says) in [
        (["-D", "3"], Duration::from_secs(8), "did not complete, and no answer came for"),
        (["-n", "100000000"], Duration::from_secs(20), "no usable port"),
    ] {
        let pair = Pair::start("n", "18713", &[&load[..], &["-q", "2", "-s", "65536"]].concat());
        pair.lab(1_000, &["withdraw", "0"]);
        pair.lab(1_000, &["withdraw", "1"]);
        let [(client, report), (server, heard)] = pair.finish(limit);
        assert_eq!(client.status.code(), Some(1), "{report}");
        let error = report["error"].as_str().unwrap();
        assert!(error.contains(says), "{error}");
        assert_eq!(server.status.code(), Some(1), "{heard}");
        let told = heard["error"].as_str().unwrap();
        assert!(told == format!("the client gave up: {error}") || told.contains("no usable port"), "{told}");
    }
}

/// The server of a client that was stopped gives up first, and the client is told. Both say that they have no port.
#[test]
fn whoever_gives_up_first_without_any_plane_says_why() {
    if skip("whoever_gives_up_first_without_any_plane_says_why") {
        return;
    }
    let _alone = alone();
    let mut pair = Pair::start("w", "18716", &["-n", "100000000", "-q", "2", "-s", "65536"]);
    pair.lab(1_000, &["withdraw", "0"]);
    pair.lab(1_000, &["withdraw", "1"]);
    // The kernel may report a carrier up to a second late.
    pair.at(2_500);
    signal(&pair.client, "STOP");
    end_by(&mut pair.server, Instant::now() + Duration::from_secs(15));
    signal(&pair.client, "CONT");
    let [(client, report), (server, heard)] = pair.finish(Duration::from_secs(10));
    assert_eq!((client.status.code(), server.status.code()), (Some(1), Some(1)), "{report}\n{heard}");
    let (error, told) = (report["error"].as_str().unwrap(), heard["error"].as_str().unwrap());
    assert!(told.contains("no usable port for the whole retry budget"), "{told}");
    assert!(error.starts_with(&format!("the server gave up: {told}; ")), "{error}");
}

/// As above, with one message at a time: who has nothing in flight hears why the other one gave up.
/// Both may have a message in flight. Then both may give up within the same milliseconds, and none hears of the other.
#[test]
fn a_latency_run_without_any_plane_says_why() {
    if skip("a_latency_run_without_any_plane_says_why") {
        return;
    }
    let _alone = alone();
    let fabric = fabric("l");
    let common = ["--prefix", &fabric.shape().prefix, "--port", "18717"];
    let side = |args: &[&str]| mrc(&[args, &common].concat()).spawn().unwrap();
    let server = side(&["write-lat", "--lab", "hB"]);
    let client = side(&["write-lat", "--lab", "hA", "localhost", "-n", "10000000"]);
    std::thread::sleep(Duration::from_secs(2));
    fabric.withdraw(0).unwrap();
    fabric.withdraw(1).unwrap();
    let give_up = Instant::now() + Duration::from_secs(20);
    let both = [client, server].map(|mut child| {
        end_by(&mut child, give_up);
        let output = child.wait_with_output().unwrap();
        let says = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{says}");
        assert!(says.contains("no usable port"), "{says}");
        says
    });
    let gave_up_alone = |says: &String| says.contains("RTS->ERROR") && !says.contains("the peer gave up: ");
    let heard = both.iter().any(|says| says.contains("the peer gave up: "));
    assert!(heard || both.iter().all(gave_up_alone), "{both:?}");
}

/// What is in flight when the time is over ends, however long it takes, as long as answers come.
#[test]
fn a_slow_fabric_ends_what_is_in_flight() {
    if skip("a_slow_fabric_ends_what_is_in_flight") {
        return;
    }
    let _alone = alone();
    let fabric = fabric("s");
    for link in ["p0-hB", "p1-hB"] {
        fabric.slow(link, 10_000_000, None).unwrap();
    }
    // All four messages are posted at once, and the links carry them in 6.7 s.
    let load = ["-D", "1", "-q", "4", "-t", "1", "-s", "4194304", "--window", "65536", "--timeout", "18"];
    let pair = Pair::on(fabric, "18715", &load);
    let [(client, report), (server, _)] = pair.finish(Duration::from_secs(60));
    assert!(client.status.success() && server.status.success(), "{report}");
    assert_eq!(report["messages"], 4, "{report}");
}

/// The program of the other side is gone: its connection says so at once.
#[test]
fn a_killed_server_ends_the_client() {
    if skip("a_killed_server_ends_the_client") {
        return;
    }
    let _alone = alone();
    let mut pair = Pair::start("k", "18714", &["-D", "60", "-q", "2"]);
    pair.server.kill().unwrap();
    let [(client, report), _] = pair_without_server(pair);
    assert_eq!(client.status.code(), Some(1), "{report}");
    assert!(report["error"].as_str().unwrap().contains("closed its control connection"), "{report}");
}

/// As [`Pair::finish`] where the server was killed and reports nothing.
fn pair_without_server(mut pair: Pair) -> [(Output, Value); 2] {
    pair.server.wait().unwrap();
    pair.server = Command::new("echo").arg("{}").stdout(Stdio::piped()).spawn().unwrap();
    pair.finish(Duration::from_secs(5))
}
