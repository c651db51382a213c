//! All devices of this machine, looked at again and again over their control sockets, and what was seen as a file.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use mrc_verbs_shim::control::{Client, ControlError, Devices, Events, Found, Happened, Request, State, all_devices};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::usage::usage;

/// Devices that are looked at; more are only counted.
pub const MAX_DEVICES: usize = 64;

/// A device at a time.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Seen {
    /// Name that stays the same while the device is open: process and number.
    pub name: String,
    /// Its state.
    pub state: State,
    /// What happened to it since it was last seen.
    #[serde(default)]
    pub events: Vec<Happened>,
}

/// All devices at a time.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// Milliseconds since 1970.
    pub unix_ms: u64,
    /// By name.
    pub devices: Vec<Seen>,
    /// Devices beyond [`MAX_DEVICES`].
    #[serde(default)]
    pub left_out: usize,
    /// Names of those that do not answer.
    #[serde(default)]
    pub silent: Vec<String>,
    /// Why the folder of this user's devices was not searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// What devices answered.
#[derive(Debug)]
pub struct Asked<T> {
    /// By name.
    pub answers: Vec<(String, T)>,
    /// Devices beyond [`MAX_DEVICES`].
    pub left_out: usize,
    /// Names of those that do not answer: their process may be stopped.
    pub silent: Vec<String>,
    /// Why the folder of this user's devices was not searched.
    pub refused: Option<String>,
}

/// How long devices count as those that there are: to look for others means to connect to each.
const SEARCH: Duration = Duration::from_millis(500);

/// Devices that did not answer, by socket. For a while they are not asked again: the others would wait for them each time.
#[derive(Debug, Default)]
pub struct Silent(BTreeMap<PathBuf, Instant>);

impl Silent {
    const WHILE: Duration = Duration::from_secs(10);

    /// Forgets those that went, and those whose time is over.
    pub fn forget(&mut self, found: &[Found]) {
        self.0.retain(|path, since| found.iter().any(|found| found.path == *path) && since.elapsed() < Self::WHILE);
    }

    /// Whether this one is among them.
    pub fn has(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }

    /// Takes a device whose answer failed so; whether it is one that is silent.
    pub fn note(&mut self, path: &Path, error: &ControlError) -> bool {
        let silent = matches!(error, ControlError::Silent { .. });
        if silent {
            self.0.insert(path.to_owned(), Instant::now());
        }
        silent
    }
}

/// What a device has told, over whatever connections.
#[derive(Default)]
struct Told {
    /// How long it was open.
    seconds: f64,
    /// Number of its last event.
    event: u64,
}

/// Looks at all devices.
#[derive(Default)]
pub struct Watcher {
    devices: Devices,
    searched: Option<Instant>,
    clients: BTreeMap<PathBuf, Client>,
    told: BTreeMap<PathBuf, Told>,
    silent: Silent,
    /// The one process that is looked at.
    only: Option<u32>,
}

/// Milliseconds since 1970.
pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

impl Watcher {
    /// Looks at the devices of one process, or of all.
    pub fn of(only: Option<u32>) -> Self {
        Self { only, ..Self::default() }
    }

    /// Asks every device; all have the same time to answer. One that went meanwhile is left out.
    pub fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Asked<T> {
        if self.searched.is_none_or(|at| at.elapsed() >= SEARCH) {
            (self.devices, self.searched) = (all_devices(), Some(Instant::now()));
            self.devices.found.retain(|found| self.only.is_none_or(|pid| found.pid == pid));
        }
        let Devices { found: all, refused, .. } = &self.devices;
        let (left_out, refused) = (all.len().saturating_sub(MAX_DEVICES), refused.clone());
        let is_there = |path: &PathBuf| all.iter().any(|found| found.path == *path);
        self.clients.retain(|path, _| is_there(path));
        self.told.retain(|path, _| is_there(path));
        self.silent.forget(all);
        // All are asked before the first answer is waited for.
        let mut asked = Vec::new();
        for found in all.iter().take(MAX_DEVICES) {
            if self.silent.has(&found.path) {
                continue;
            }
            if !self.clients.get(&found.path).is_some_and(Client::is_open) {
                self.clients.remove(&found.path);
                match Client::connect(&found.path) {
                    Ok(client) => _ = self.clients.insert(found.path.clone(), client),
                    Err(error) => _ = self.silent.note(&found.path, &error),
                }
            }
            let Some(client) = self.clients.get_mut(&found.path) else { continue };
            asked.push((found.path.clone(), client.send(request)));
        }
        let (mut answers, until) = (Vec::new(), Instant::now() + Client::PATIENCE);
        for (path, sent) in asked {
            let Some(client) = self.clients.get_mut(&path) else { continue };
            match sent.and_then(|()| client.answer_by(until)) {
                Ok(answer) => answers.push((name(&path), answer)),
                Err(error) => {
                    self.silent.note(&path, &error);
                    self.clients.remove(&path);
                    self.searched = None;
                }
            }
        }
        Asked { answers, left_out, silent: self.silent.0.keys().map(|path| name(path)).collect(), refused }
    }

    /// Everything about every device.
    pub fn look(&mut self) -> Snapshot {
        let Asked { answers, left_out, silent, refused } = self.ask::<State>(&Request::State { evs: true });
        let mut devices = Vec::new();
        for (name, state) in answers {
            let client = self.clients.iter_mut().find(|(path, _)| self::name(path) == name);
            let events = client.and_then(|(path, client)| {
                let told = self.told.entry(path.clone()).or_default();
                // Another device has got the name of one that was closed.
                if state.counters.seconds < told.seconds {
                    *told = Told::default();
                }
                told.seconds = state.counters.seconds;
                let events: Events = client.ask(&Request::Events { after: told.event }).ok()?;
                told.event = events.events.last().map_or(told.event, |last| last.number);
                Some(events.events)
            });
            devices.push(Seen { name, state, events: events.unwrap_or_default() });
        }
        Snapshot { unix_ms: unix_ms(), devices, left_out, silent, refused }
    }
}

fn name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Reads what `mrc top --record` wrote.
pub fn read(path: &Path) -> anyhow::Result<Vec<Snapshot>> {
    snapshots(path).map_err(usage)
}

fn snapshots(path: &Path) -> anyhow::Result<Vec<Snapshot>> {
    let file = std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut all = Vec::new();
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.with_context(|| format!("cannot read {}", path.display()))?;
        match serde_json::from_str(&line) {
            Ok(snapshot) => all.push(snapshot),
            // A recording that was cut off ends in the middle of a line.
            Err(error) if error.is_eof() => break,
            Err(error) => {
                anyhow::bail!("{}, line {}: not a recording of `mrc top`: {error}", path.display(), number + 1)
            }
        }
    }
    anyhow::ensure!(!all.is_empty(), "{} holds no snapshot", path.display());
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A device that has been open for so long, and has so many events, answers one look and closes the connection.
    fn answer_once(listener: &UnixListener, seconds: f64, events: u64) {
        let (stream, _) = listener.accept().unwrap();
        let mut requests = BufReader::new(stream.try_clone().unwrap()).lines();
        let say = |answer: serde_json::Value| writeln!(&stream, "{}", serde_json::json!({ "ok": answer })).unwrap();
        let mut state = State::default();
        state.counters.seconds = seconds;
        assert!(requests.next().unwrap().unwrap().contains("state"));
        say(serde_json::to_value(state).unwrap());
        let Request::Events { after } = serde_json::from_str(&requests.next().unwrap().unwrap()).unwrap() else {
            panic!()
        };
        let happened = |number| Happened { number, unix_ms: 0, text: String::new() };
        say(serde_json::to_value(Events { events: (after + 1..=events).map(happened).collect(), lost: 0 }).unwrap());
    }

    /// They were shown again after each connection.
    #[test]
    fn events_are_seen_once_over_all_connections_and_those_of_another_device_too() {
        let path = std::env::temp_dir().join(format!("mrc-watch-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let mut watcher = Watcher::default();
        watcher.devices.found = vec![Found { pid: 1, path: path.clone() }];
        // The search for devices of this machine never comes.
        watcher.searched = Some(Instant::now() + Duration::from_secs(3600));
        let (close, closed) = std::sync::mpsc::channel();
        let device = std::thread::spawn(move || {
            for (seconds, events) in [(1.0, 2), (2.0, 2), (3.0, 4), (0.5, 1)] {
                close.send(()).unwrap();
                answer_once(&listener, seconds, events);
            }
        });
        let mut look = || {
            closed.recv().unwrap();
            let snapshot = watcher.look();
            snapshot.devices[0].events.iter().map(|event| event.number).collect::<Vec<_>>()
        };
        assert_eq!([look(), look(), look(), look()], [vec![1, 2], vec![], vec![3, 4], vec![1]]);
        device.join().unwrap();
        std::fs::remove_file(path).unwrap();
    }
}
