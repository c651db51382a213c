//! Between agent and collector: lines of JSON over TCP, a Unix socket or TLS, signed with the fabric's key.
//!
//! The collector begins with a random challenge. Every line of the agent is `SIGNATURE JSON`: SipHash-2-4 under the key
//! over the challenge, the number of the line and the JSON. So nobody without the key is heard, and nothing can be
//! replayed, moved or left out unnoticed. Without TLS nothing is encrypted, and the agent does not know who hears it:
//! such connections stay on the machine.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use mrc_mapper::agent::Summary;
use mrc_mapper::probe::Key;
use rustls::{ClientConfig, StreamOwned};

use super::tls;
use super::wire::Address;

/// Longest line, in bytes.
pub const MAX_LINE: usize = 1 << 20;
/// Summaries that wait for the collector; more are dropped.
const WAITING: usize = 8;
/// Time between two attempts to connect.
const RETRY: Duration = Duration::from_secs(1);
/// A connection that takes summaries for so long works. One with a wrong key or name is cut off sooner.
const WORKS_AFTER: Duration = Duration::from_secs(3);

/// The signature of line number `number`.
pub fn sign(key: &Key, challenge: &[u8; 16], number: u64, json: &str) -> u64 {
    let mut bytes = Vec::with_capacity(24 + json.len());
    bytes.extend_from_slice(challenge);
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.extend_from_slice(json.as_bytes());
    key.sign(&bytes)
}

/// The JSON of a signed line; none when the signature is wrong.
pub fn verified<'a>(key: &Key, challenge: &[u8; 16], number: u64, line: &'a str) -> Option<&'a str> {
    let (signature, json) = line.split_once(' ')?;
    let signature = u64::from_str_radix(signature, 16).ok()?;
    (sign(key, challenge, number, json) == signature).then_some(json)
}

/// Sixteen bytes as text.
pub fn hex(bytes: &[u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sixteen bytes from text.
pub fn unhex(text: &str) -> Option<[u8; 16]> {
    let text = text.trim();
    u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32).map(u128::to_be_bytes)
}

/// The agent's side: a thread that sends what it can. A collector that is gone, slow or wrong costs summaries, nothing else.
pub struct Uplink(SyncSender<Summary>);

impl Uplink {
    /// Sends to the collector at `address` from now on. The log hears that the collector is lost, and that it is back.
    pub fn start(address: Address, key: Key, tls: Option<Arc<ClientConfig>>) -> anyhow::Result<Self> {
        Self::start_and_tell(address, key, tls, |text| log::warn!("{text}"))
    }

    fn start_and_tell(
        address: Address,
        key: Key,
        tls: Option<Arc<ClientConfig>>,
        tell: impl Fn(String) + Send + 'static,
    ) -> anyhow::Result<Self> {
        let (sender, summaries) = sync_channel(WAITING);
        std::thread::Builder::new().name("mrc-uplink".into()).spawn(move || {
            let mut told = String::new();
            loop {
                let mut works = || {
                    if !told.is_empty() {
                        tell(format!("collector {address}: it takes summaries again"));
                        told.clear();
                    }
                };
                // Ok: the agent has ended.
                let Err(error) = deliver(&address, &key, tls.as_ref(), &summaries, &mut works) else { return };
                let why = reason(&error);
                if why != told {
                    tell(format!("collector {address}: {why}; the agent goes on without it"));
                    told = why;
                }
                std::thread::sleep(RETRY);
            }
        })?;
        Ok(Self(sender))
    }

    /// Hands a summary over; whether it was taken.
    pub fn send(&self, summary: Summary) -> bool {
        !matches!(self.0.try_send(summary), Err(TrySendError::Full(_) | TrySendError::Disconnected(_)))
    }
}

pub(super) fn reason(error: &std::io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    inner.map_or_else(|| error.to_string(), tls::explained)
}

/// Sends summaries until there are no more or the connection breaks; `works` hears of each once it has worked for a while.
pub(super) fn deliver(
    address: &Address,
    key: &Key,
    tls: Option<&Arc<ClientConfig>>,
    summaries: &Receiver<Summary>,
    works: &mut dyn FnMut(),
) -> std::io::Result<()> {
    let wire = address.connect(RETRY)?;
    match tls {
        None => tell(wire, key, summaries, works),
        Some(config) => tell(StreamOwned::new(tls::connect(config)?, wire), key, summaries, works),
    }
}

fn tell(
    stream: impl Read + Write,
    key: &Key,
    summaries: &Receiver<Summary>,
    works: &mut dyn FnMut(),
) -> std::io::Result<()> {
    let mut line = String::new();
    let mut reader = BufReader::new(stream);
    reader.by_ref().take(64).read_line(&mut line)?;
    let challenge = unhex(&line).ok_or_else(|| {
        std::io::Error::other("it gave no challenge: is it a collector, and does it use TLS as this agent does?")
    })?;
    let begin = Instant::now();
    for (number, summary) in (0u64..).zip(summaries) {
        let json = serde_json::to_string(&summary)?;
        let signed = format!("{:016x} {json}\n", sign(key, &challenge, number, &json));
        reader.get_mut().write_all(signed.as_bytes())?;
        reader.get_mut().flush()?;
        if begin.elapsed() >= WORKS_AFTER {
            works();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::PathBuf;

    use mrc_mapper::agent::{AgentStats, PathSummary};
    use mrc_mapper::path::{State, Totals};
    use mrc_mapper::plan::{PathSpec, Route};

    use super::*;

    const KEY: Key = Key::new([7; 16]);
    const PATIENCE: Duration = Duration::from_secs(60);

    fn socket(test: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("mrc-link-{}-{test}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    /// A summary of some 16 kB.
    fn summary(number: u64) -> Summary {
        let path = PathSummary {
            path: PathSpec { plane: 0, route: Route::T0 },
            state: State::Up,
            delta: Totals::default(),
            rtt_ns: None,
        };
        let (gone, stats) = (Vec::new(), AgentStats::default());
        Summary { host: 0, instance: 1, number, paused_ns: 0, gone, paths: vec![path; 100], stats }
    }

    /// What `deliver` says of a collector that does `what`, while so many summaries wait.
    fn told(test: &str, summaries: u64, what: impl FnOnce(UnixStream) + Send + 'static) -> std::io::Result<()> {
        let path = socket(test);
        let listener = UnixListener::bind(&path).unwrap();
        let collector = std::thread::spawn(move || what(listener.accept().unwrap().0));
        let (sender, waiting) = sync_channel(summaries as usize);
        (0..summaries).for_each(|number| sender.send(summary(number)).unwrap());
        drop(sender);
        let told = deliver(&Address::Unix(path.clone()), &KEY, None, &waiting, &mut || {});
        drop(waiting);
        collector.join().unwrap();
        let _ = std::fs::remove_file(path);
        told
    }

    #[test]
    fn a_collector_that_lies_or_floods_is_named_and_read_no_further() {
        // A line without an end: what is read of it is bounded, and the collector finds the connection closed.
        let flood = |mut stream: UnixStream| {
            let block = [b'x'; 4096];
            let written = (0..10_000).take_while(|_| stream.write_all(&block).is_ok()).count();
            assert!(written < 1000, "{written} blocks were read");
        };
        for (test, lie) in [("short", "12\n"), ("words", "this is a challenge, believe me\n"), ("nothing", "")] {
            let error = told(test, 1, move |mut stream| drop(stream.write_all(lie.as_bytes()))).unwrap_err();
            assert!(error.to_string().contains("it gave no challenge: is it a collector"), "{test}: {error}");
        }
        let error = told("endless", 1, flood).unwrap_err();
        assert!(error.to_string().contains("it gave no challenge"), "{error}");
        // A right challenge, and then a flood that nobody reads: the summaries arrive all the same.
        let (sender, lines) = sync_channel(10);
        told("later", 3, move |mut stream| {
            stream.write_all(format!("{}\n", hex(&[9; 16])).as_bytes()).unwrap();
            let mut other = stream.try_clone().unwrap();
            let flood = std::thread::spawn(move || while other.write_all(&[b'y'; 4096]).is_ok() {});
            for line in BufReader::new(stream).lines().take(3) {
                sender.send(verified(&KEY, &[9; 16], 0, &line.unwrap()).is_some()).unwrap();
            }
            flood.join().unwrap();
        })
        .unwrap();
        assert_eq!(lines.iter().collect::<Vec<_>>(), [true, false, false], "three lines, each signed for its place");
    }

    #[test]
    fn a_collector_that_does_not_read_costs_summaries_and_is_left() {
        // One that takes the connection and reads nothing, until the agent has left it.
        let (left, has_left) = sync_channel(1);
        let path = socket("deaf");
        let listener = UnixListener::bind(&path).unwrap();
        let collector = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(format!("{}\n", hex(&[9; 16])).as_bytes()).unwrap();
            has_left.recv_timeout(PATIENCE).is_ok()
        });
        let (sender, waiting) = sync_channel(200);
        (0..200).for_each(|number| sender.send(summary(number)).unwrap());
        drop(sender);
        assert!(deliver(&Address::Unix(path.clone()), &KEY, None, &waiting, &mut || {}).is_err());
        let _ = left.send(());
        assert!(collector.join().unwrap(), "the agent waits for a collector that does not read");
        let _ = std::fs::remove_file(path);
        // Meanwhile only so many summaries wait; the others are dropped, and the agent is told so.
        let path = socket("full");
        let _listener = UnixListener::bind(&path).unwrap();
        let uplink = Uplink::start(Address::Unix(path.clone()), KEY, None).unwrap();
        let taken = (0..100).filter(|number| uplink.send(summary(*number))).count();
        assert!(taken <= WAITING + 1, "{taken} wait");
        let _ = std::fs::remove_file(path);
    }

    #[test]
    fn a_collector_that_was_killed_is_found_again() {
        let path = socket("killed");
        let uplink = Uplink::start(Address::Unix(path.clone()), KEY, None).unwrap();
        for _ in 0..2 {
            let _ = std::fs::remove_file(&path);
            let listener = UnixListener::bind(&path).unwrap();
            listener.set_nonblocking(true).unwrap();
            let give_up = Instant::now() + PATIENCE;
            let mut stream = loop {
                if let Ok((stream, _)) = listener.accept() {
                    break stream;
                }
                assert!(Instant::now() < give_up, "nobody connects");
                // An agent goes on: who has written all that waited finds out with the next one that nobody reads.
                let _ = uplink.send(summary(0));
                std::thread::sleep(Duration::from_millis(20));
            };
            stream.set_nonblocking(false).unwrap();
            stream.write_all(format!("{}\n", hex(&[9; 16])).as_bytes()).unwrap();
            // What waited for the one before may be lost with it.
            while uplink.send(summary(1)) {}
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).unwrap();
            assert!(verified(&KEY, &[9; 16], 0, line.trim_end()).is_some(), "the first line of a new connection");
        }
        let _ = std::fs::remove_file(path);
    }

    /// The log said that the collector is lost, and never that it is back.
    #[test]
    fn a_collector_that_is_back_is_told_once_it_works() {
        let path = socket("back");
        let (tell, told) = sync_channel(10);
        let tell = move |text| tell.send(text).unwrap();
        let uplink = Uplink::start_and_tell(Address::Unix(path.clone()), KEY, None, tell).unwrap();
        assert!(told.recv_timeout(PATIENCE).unwrap().contains("goes on without it"));
        let listener = UnixListener::bind(&path).unwrap();
        // One that cuts the connection off, as where the key is wrong, is not back.
        let mut stream = listener.accept().unwrap().0;
        stream.write_all(format!("{}\n", hex(&[9; 16])).as_bytes()).unwrap();
        drop(stream);
        let reads = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            stream.write_all(format!("{}\n", hex(&[9; 16])).as_bytes()).unwrap();
            let begin = Instant::now();
            BufReader::new(stream).lines().take_while(Result::is_ok).for_each(drop);
            begin.elapsed()
        });
        let give_up = Instant::now() + PATIENCE;
        let mut texts = Vec::new();
        while !texts.last().is_some_and(|text: &String| text.contains("takes summaries again")) {
            assert!(Instant::now() < give_up, "{texts:?}");
            let _ = uplink.send(summary(0));
            texts.extend(told.recv_timeout(Duration::from_millis(50)));
        }
        assert!(texts.len() <= 2, "{texts:?}");
        drop(uplink);
        assert!(reads.join().unwrap() >= WORKS_AFTER - Duration::from_millis(100));
        let _ = std::fs::remove_file(path);
    }

    #[test]
    fn a_line_counts_once_in_its_place_under_its_key() {
        let (key, challenge) = (KEY, [9; 16]);
        let line = format!("{:016x} {{}}", sign(&key, &challenge, 3, "{}"));
        assert_eq!(verified(&key, &challenge, 3, &line), Some("{}"));
        assert_eq!(verified(&key, &challenge, 4, &line), None, "replayed");
        assert_eq!(verified(&key, &[8; 16], 3, &line), None, "of another connection");
        assert_eq!(verified(&Key::new([6; 16]), &challenge, 3, &line), None, "another key");
        assert_eq!(verified(&key, &challenge, 3, &line.replace("{}", "[]")), None, "changed");
        for wrong in ["", " ", "x {}", "{}"] {
            assert_eq!(verified(&key, &challenge, 0, wrong), None);
        }
        assert_eq!(unhex(&hex(&challenge)), Some(challenge));
        assert_eq!(unhex("12"), None);
    }
}
