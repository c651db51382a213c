//! The collector as agents and operators meet it, with agents that this test plays: no rights are needed.

mod browser;
#[path = "collect/page.rs"]
mod page;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mrc_mapper::agent::{AgentStats, PathSummary, Summary};
use mrc_mapper::path::{State, Totals};
use mrc_mapper::plan::{PathSpec, Route};
use mrc_mapper::probe::Key;
use serde_json::Value;

const MRC: &str = env!("CARGO_BIN_EXE_mrc");
const KEY: [u8; 16] = *b"sixteen bytes...";
const HOSTS: u16 = 4;

/// A collector that is killed at the end.
struct Collector {
    child: Child,
    agents: u16,
    http: u16,
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn folder(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("collect-{test}"));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    std::fs::write(path.join("key"), KEY).unwrap();
    path
}

fn collector(folder: &Path, agents: u16) -> Collector {
    let (listen, http) = (format!("127.0.0.1:{agents}"), format!("127.0.0.1:{}", agents + 1));
    let args = ["mapper", "collect", "--fabric", "2,2,4,4", "--key", "key", "--db", "map.db", "--round", "50"];
    let child = Command::new(MRC)
        .current_dir(folder)
        .args(args)
        .args(["--listen", &listen, "--http", &http])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let collector = Collector { child, agents, http: agents + 1 };
    eventually("the collector answers", || collector.get("/api/state").is_some());
    collector
}

fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(30);
    while !is() {
        assert!(Instant::now() < give_up, "not within 30 s: {what}");
        std::thread::sleep(Duration::from_millis(30));
    }
}

impl Collector {
    fn answer(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.http)).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text)
    }

    fn get(&self, path: &str) -> Option<Value> {
        serde_json::from_str(self.answer(path)?.split_once("\r\n\r\n")?.1).ok()
    }

    fn faulty(&self) -> Vec<String> {
        let state = self.get("/api/state").unwrap();
        let all = state["faulty"].as_array().unwrap().iter();
        all.map(|finding| finding["component"].as_str().unwrap().to_owned()).collect()
    }

    fn events(&self) -> Vec<(String, String)> {
        let events = self.get("/api/events?after=0").unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        events.as_array().unwrap().iter().map(|event| (text(&event["component"]), text(&event["event"]))).collect()
    }

    fn has_event(&self, component: &str, event: &str) -> bool {
        self.events().iter().any(|(c, e)| c == component && e == event)
    }
}

/// An agent of this test.
struct Agent {
    stream: TcpStream,
    challenge: [u8; 16],
    line: u64,
    host: u16,
    instance: u32,
    number: u64,
    /// What its clock makes of round trips and pauses.
    clock: u64,
}

impl Agent {
    fn new(collector: &Collector, host: u16, instance: u32) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", collector.agents)).unwrap();
        let mut line = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
        let challenge = u128::from_str_radix(line.trim(), 16).unwrap().to_be_bytes();
        Self { stream, challenge, line: 0, host, instance, number: 0, clock: 0 }
    }

    fn summary(&mut self, lossy: bool) -> String {
        self.number += 1;
        let (from, mate) = (self.host, (self.host + 2) % HOSTS);
        // Host A's link on plane 0 loses what goes up.
        let goes_up = |plane, route: &Route| match *route {
            Route::Pair { target, reply_plane, .. } => (from, plane) == (0, 0) || (target, reply_plane) == (0, 0),
            _ => (from, plane) == (0, 0),
        };
        let path = |plane: u8, route: Route| {
            let lost = if lossy && goes_up(plane, &route) { 40 } else { 0 };
            let delta = Totals { sent: 100, lost, ..Totals::default() };
            let rtt_ns = (self.clock > 0).then_some(self.clock);
            PathSummary { path: PathSpec { plane, route }, state: State::Up, delta, rtt_ns }
        };
        let routes = |plane: u8| {
            let pair = Route::Pair { target: mate, reply_plane: 1 - plane, spine: 0 };
            (0..4).map(|spine| Route::T1 { spine }).chain([Route::T0, pair])
        };
        let paths = (0..2).flat_map(|plane| routes(plane).map(move |route| (plane, route)));
        let paths = paths.map(|(plane, route)| path(plane, route)).collect();
        let (host, instance, number) = (self.host, self.instance, self.number);
        let summary = Summary {
            host,
            instance,
            number,
            paused_ns: self.clock,
            gone: Vec::new(),
            paths,
            stats: AgentStats::default(),
        };
        serde_json::to_string(&summary).unwrap()
    }

    fn signed(&mut self, key: [u8; 16], json: &str) -> String {
        let bytes = [&self.challenge[..], &self.line.to_be_bytes(), json.as_bytes()].concat();
        self.line += 1;
        format!("{:016x} {json}\n", Key::new(key).sign(&bytes))
    }

    fn tell(&mut self, lossy: bool) {
        let json = self.summary(lossy);
        let line = self.signed(KEY, &json);
        self.stream.write_all(line.as_bytes()).unwrap();
    }

    /// Whether the collector closed the connection.
    fn is_cut_off(&mut self) -> bool {
        self.stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        matches!(self.stream.read(&mut [0; 16]), Ok(0) | Err(_))
    }

    fn is_cut_off_now(&mut self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        match self.stream.read(&mut [0; 16]) {
            Ok(len) => len == 0,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
}

fn tell_until(collector: &Collector, agents: &mut [Agent], lossy: bool, faulty: &[&str]) {
    eventually(&format!("faulty: {faulty:?}"), || {
        for agent in &mut *agents {
            agent.tell(lossy);
        }
        std::thread::sleep(Duration::from_millis(40));
        collector.faulty() == faulty
    });
}

#[test]
fn the_map_has_history_evidence_and_denylists_and_survives_a_restart() {
    let folder = folder("map");
    let collector = self::collector(&folder, 18_751);
    let mut agents: Vec<Agent> = (0..HOSTS).map(|host| Agent::new(&collector, host, 1)).collect();
    tell_until(&collector, &mut agents, true, &["p0-hA:up"]);
    for path in ["/api/history?after=abc", "/api/events?x=1&after="] {
        let refused = collector.answer(path).unwrap();
        assert!(refused.starts_with("HTTP/1.1 400") && refused.contains("the number of an event"), "{refused}");
    }
    assert!(collector.get("/api/history?x=1&after=1").unwrap().is_array());
    let denied = collector.get("/api/denylist").unwrap();
    assert_eq!(denied["hA"]["planes"], serde_json::json!([0]), "{denied}");
    assert_eq!(denied["hA"]["evs"][3], serde_json::json!({ "ev": 3, "state": 4 }), "{denied}");
    let http = format!("127.0.0.1:{}", collector.http);
    let why = |name: &str| Command::new(MRC).args(["mapper", "why", name, "--http", &http]).output().unwrap();
    let text = String::from_utf8(why("p0-hA:up").stdout).unwrap();
    assert!(
        text.starts_with("p0-hA:up is FAULTY, loses ") && text.contains("p0-hA:up faulty") && text.contains("hA "),
        "{text}"
    );
    // Who asks for the link hears of its direction.
    assert!(String::from_utf8(why("p0-hA").stdout).unwrap().starts_with("p0-hA:up is FAULTY"));
    assert_eq!(why("p9-hA").status.code(), Some(2));
    assert!(String::from_utf8(why("p1-hB").stdout).unwrap().starts_with("p1-hB is healthy"));
    // Agents that are gone are silent; what they found is not healthy for that.
    drop(agents);
    eventually("all are silent", || collector.get("/api/state").unwrap()["silent"].as_array().unwrap().len() == 4);
    assert_eq!(collector.faulty(), ["p0-hA:up"]);
    drop(collector);

    // Killed and started again: the fault is known, and its end is written down.
    let collector = self::collector(&folder, 18_753);
    assert_eq!(collector.get("/api/state").unwrap()["open_before"], serde_json::json!(["p0-hA:up"]));
    let mut agents: Vec<Agent> = (0..HOSTS).map(|host| Agent::new(&collector, host, 1)).collect();
    tell_until(&collector, &mut agents, true, &["p0-hA:up"]);
    let count = collector.events().iter().filter(|(c, e)| c == "p0-hA:up" && e == "faulty").count();
    assert_eq!(count, 1, "it began once");
    tell_until(&collector, &mut agents, false, &[]);
    assert!(collector.has_event("p0-hA:up", "healthy"));
}

#[test]
fn who_comes_again_and_again_does_not_push_the_history_out() {
    let folder = folder("again");
    let collector = self::collector(&folder, 18_765);
    for _ in 0..200 {
        let mut stranger = Agent::new(&collector, 0, 1);
        stranger.stream.write_all(b"no signature\n").unwrap();
        assert!(stranger.is_cut_off());
    }
    let strangers = collector.events().into_iter().filter(|(who, what)| who == "127.0.0.1" && what == "agent").count();
    // A machine that stands still for a minute may see a second one.
    assert!((1..10).contains(&strangers), "{strangers} events");
}

#[test]
fn strangers_together_hold_no_more_memory_than_is_set() {
    let folder = folder("strangers");
    let collector = self::collector(&folder, 18_767);
    // Each stays below what one may send before it says who it is: 80 MB in all.
    let half = vec![b'x'; 250_000];
    let mut strangers: Vec<Agent> = (0..320).map(|_| Agent::new(&collector, 0, 1)).collect();
    for stranger in &mut strangers {
        let _ = stranger.stream.write_all(&half);
    }
    eventually("those that hold most are cut off", || {
        let cut_off = strangers.iter_mut().map(Agent::is_cut_off_now).filter(|cut_off| *cut_off).count();
        collector.has_event("127.0.0.1", "agent") && cut_off > 20
    });
    // An agent is heard all the same.
    let mut good: Vec<Agent> = (0..HOSTS).map(|host| Agent::new(&collector, host, 1)).collect();
    tell_until(&collector, &mut good, false, &[]);
    eventually("all agents are known", || {
        collector.get("/api/state").unwrap()["agents"].as_array().unwrap().len() == 4
    });
}

#[test]
fn who_lies_floods_or_has_no_key_is_cut_off_and_changes_nothing() {
    let folder = folder("bad");
    let collector = self::collector(&folder, 18_755);
    let mut good: Vec<Agent> = (0..HOSTS).map(|host| Agent::new(&collector, host, 1)).collect();
    tell_until(&collector, &mut good, false, &[]);
    let agents = || collector.get("/api/state").unwrap()["agents"].as_array().unwrap().len();
    eventually("all agents are known", || agents() == 4);

    let send = |line: &dyn Fn(&mut Agent) -> String, host: u16| {
        let mut agent = Agent::new(&collector, host, 77);
        let line = line(&mut agent);
        // It may be cut off while it sends.
        let _ = agent.stream.write_all(line.as_bytes());
        agent
    };
    // Another key; a replayed line; a line without an end; a second agent of one name; a host that does not exist.
    let wrong_key = |agent: &mut Agent| {
        let json = agent.summary(true);
        agent.signed([0; 16], &json)
    };
    assert!(send(&wrong_key, 0).is_cut_off());
    assert!(send(&|_| "x".repeat(2 << 20), 0).is_cut_off());
    let honest = |agent: &mut Agent| {
        let json = agent.summary(true);
        agent.signed(KEY, &json)
    };
    assert!(send(&honest, 0).is_cut_off(), "host A has an agent");
    assert!(send(&honest, 999).is_cut_off());
    let no_summary = |agent: &mut Agent| agent.signed(KEY, "{\"host\":0}");
    assert!(send(&no_summary, 0).is_cut_off());
    let silent = Agent::new(&collector, 0, 5);
    // One that floods: more than fifty at once.
    let mut flood = good.pop().unwrap();
    for _ in 0..400 {
        let json = flood.summary(true);
        let line = flood.signed(KEY, &json);
        if flood.stream.write_all(line.as_bytes()).is_err() {
            break;
        }
    }
    assert!(flood.is_cut_off());
    let blamed: Vec<String> = collector.events().into_iter().filter(|(_, e)| e == "agent").map(|(c, _)| c).collect();
    assert!(blamed.contains(&"hD".to_owned()) && blamed.contains(&"127.0.0.1".to_owned()), "{blamed:?}");
    assert_eq!(collector.faulty(), Vec::<String>::new());
    // Its place is free for it again.
    let mut back = Agent::new(&collector, 3, 2);
    back.tell(false);
    // Its clock is wrong from now on: summaries count from when they arrive.
    back.clock = u64::MAX;
    good.push(back);
    tell_until(&collector, &mut good, true, &["p0-hA:up"]);
    drop(silent);
}

/// A collector that cannot begin leaves nothing behind.
#[test]
fn who_cannot_listen_makes_no_database() {
    let (folder, holder) = (folder("taken"), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let taken = holder.local_addr().unwrap().to_string();
    for [listen, http] in [[&*taken, "127.0.0.1:0"], ["127.0.0.1:0", &*taken]] {
        let common = ["mapper", "collect", "--fabric", "2,2,4,4", "--key", "key", "--db", "map.db"];
        let ends = ["--listen", listen, "--http", http, "--seconds", "9"];
        let output = Command::new(MRC).current_dir(&folder).args(common).args(ends).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(&taken), "{said}");
        let left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["key"]);
    }
}
