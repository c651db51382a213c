//! The connections of agents: one thread, everything bounded.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mrc_mapper::agent::Summary;
use mrc_mapper::probe::Key;
use mrc_mapper::topology::{HostId, host_name};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::{ServerConfig, ServerConnection};

use super::Map;
use super::link::{self, MAX_LINE};
use super::tls;
use super::wire::{Listener, Wire};

/// Agents at a time.
const MAX_AGENTS: usize = 12_000;
/// Descriptors that agents leave to questions, the history and the rest.
const OTHERS: u64 = 256;
/// Summaries that an agent may send per second, and at once.
const PER_SECOND: f64 = 50.0;
/// From so many agents on, what they tell is gathered for so long.
const MANY: usize = 200;
const GATHER: Duration = Duration::from_millis(10);
/// A connection that has not said for whom it speaks by then gives its place to others. An agent says so with its first summary, which
/// at the longest interval between probes takes 10 s.
const INTRODUCTION: Duration = Duration::from_secs(30);

/// Memory for what those together have said that did not say for whom they speak.
const MOST_UNKNOWN: usize = 64 << 20;

/// Bytes of a TLS handshake: what comes before the name is known waits in memory. A chain of certificates has some thousand.
const MAX_HANDSHAKE: usize = 32 << 10;

/// That somebody did the same again is written down after so long.
const AGAIN: Duration = Duration::from_secs(60);
const TOO_MUCH: &str = "many connections without a name hold much memory, this one most";
const NO_PLACE: &str =
    "all places are taken, and this connection is the oldest of those that did not prove who they are";
/// Different things that are written down in that time.
const MAX_BLAMED: usize = 64;

/// What an agent did.
pub enum What<'a> {
    /// It told something.
    Summary(&'a Summary),
    /// It was cut off.
    Blame(&'a str, &'a str),
}

/// Gives it to the map.
///
/// # Errors
/// Why the agent is to be cut off.
pub fn deliver(map: &mut Map, what: What<'_>) -> Result<(), String> {
    match what {
        What::Summary(summary) => map.add(summary).map_err(|error| error.to_string()),
        What::Blame(who, why) => {
            map.blame(who, why);
            Ok(())
        }
    }
}

struct Peer {
    stream: Wire,
    tls: Option<Box<ServerConnection>>,
    from: String,
    /// Number of the connection.
    id: u64,
    since: Instant,
    challenge: [u8; 16],
    greeted: bool,
    number: u64,
    heard: Vec<u8>,
    /// Bytes of it that hold no end of a line.
    searched: usize,
    /// Bytes of a TLS handshake that is not complete.
    shaken: usize,
    host: Option<HostId>,
    /// Summaries it may still send, and since when.
    allowance: (f64, Instant),
}

/// What a look at a connection brought.
enum Received {
    Bytes,
    NoMore,
    End,
}

impl Peer {
    /// Sends the challenge. It fits into an empty socket buffer.
    fn greet(&mut self) -> std::io::Result<()> {
        self.greeted = true;
        let line = format!("{}\n", link::hex(&self.challenge));
        match &mut self.tls {
            None => self.stream.write_all(line.as_bytes()),
            Some(tls) => tls.writer().write_all(line.as_bytes()),
        }
    }

    /// Whether it showed a certificate of the fabric.
    fn has_certificate(&self) -> bool {
        self.tls.is_some() && self.greeted
    }

    /// Bytes that wait of somebody who has not said for whom it speaks.
    fn held(&self) -> usize {
        if self.host.is_none() { self.heard.capacity() + self.shaken } else { 0 }
    }

    /// Reads once and keeps what the agent said in `heard`.
    fn receive(&mut self, bytes: &mut [u8]) -> Result<Received, String> {
        let Some(tls) = &mut self.tls else {
            return Ok(match self.stream.read(bytes) {
                Ok(0) => Received::End,
                Ok(len) => {
                    self.heard.extend_from_slice(&bytes[..len]);
                    Received::Bytes
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => Received::NoMore,
                Err(_) => Received::End,
            });
        };
        match tls.read_tls(&mut self.stream) {
            Ok(0) => return Ok(Received::End),
            Ok(len) => self.shaken += len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Received::NoMore),
            Err(_) => return Ok(Received::End),
        }
        let processed = tls.process_new_packets();
        if !tls.is_handshaking() {
            self.shaken = 0;
        } else if self.shaken > MAX_HANDSHAKE {
            return Err(format!("TLS: a handshake of more than {MAX_HANDSHAKE} bytes"));
        }
        if processed.is_ok() && !self.greeted && !tls.is_handshaking() {
            // An error shows at the next look.
            let _ = self.greet();
        }
        let Some(tls) = &mut self.tls else { return Ok(Received::End) };
        // All that this side ever says fits into the socket's buffer: its part of the handshake, an alert, the challenge.
        while tls.wants_write() && tls.write_tls(&mut self.stream).is_ok_and(|len| len > 0) {}
        processed.map_err(|error| tls::explained(&error))?;
        loop {
            match tls.reader().read(bytes) {
                Ok(0) => return Ok(Received::End),
                Ok(len) => self.heard.extend_from_slice(&bytes[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Received::Bytes),
                Err(_) => return Ok(Received::End),
            }
        }
    }
}

/// Who did what of late. The history is bounded: who connects again and again to be cut off must not push it out.
#[derive(Default)]
struct Blamed(BTreeMap<(String, String), Instant>);

impl Blamed {
    /// Whether it is to be written down.
    fn is_news(&mut self, who: &str, why: &str) -> bool {
        self.0.retain(|_, at| at.elapsed() < AGAIN);
        let what = (who.to_owned(), why.to_owned());
        self.0.len() < MAX_BLAMED && !self.0.contains_key(&what) && self.0.insert(what, Instant::now()).is_none()
    }
}

/// All agents.
pub struct Peers<'a> {
    listener: &'a Listener,
    key: Key,
    tls: Option<Arc<ServerConfig>>,
    peers: Vec<Peer>,
    /// Connections at a time.
    places: usize,
    connections: u64,
    /// Which connection speaks for a host.
    speaks: BTreeMap<HostId, (u64, String)>,
    blamed: Blamed,
}

/// Connections for which this process may have descriptors. The limit is raised as far as it may be; it is told when it is too
/// low for so many hosts.
fn places(hosts: u64) -> usize {
    let wanted = MAX_AGENTS as u64 + OTHERS;
    let mut limit = getrlimit(Resource::Nofile);
    // None: no limit.
    if limit.current.is_some_and(|now| now < wanted) {
        let most = limit.maximum.map_or(wanted, |most| most.min(wanted));
        let raised = Rlimit { current: Some(most), ..limit };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            limit = raised;
        }
    }
    let places = limit.current.unwrap_or(wanted).saturating_sub(OTHERS).clamp(1, MAX_AGENTS as u64);
    if places < hosts {
        log::warn!("place for {places} agents: raise the hard limit of open files (`ulimit -Hn`) to {wanted} for more");
    }
    places as usize
}

type Deliver<'a> = &'a mut dyn FnMut(What<'_>) -> Result<(), String>;

impl<'a> Peers<'a> {
    /// No agent yet, of a fabric of so many hosts.
    pub fn new(listener: &'a Listener, key: Key, tls: Option<Arc<ServerConfig>>, hosts: HostId) -> Self {
        Self {
            listener,
            key,
            tls,
            peers: Vec::new(),
            places: places(hosts.into()),
            connections: 0,
            speaks: BTreeMap::new(),
            blamed: Blamed::default(),
        }
    }

    /// Hears agents until `end`.
    pub fn serve(&mut self, end: Instant, deliver: Deliver<'_>) -> anyhow::Result<()> {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            let mut fds = vec![PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN)];
            fds.extend(self.peers.iter().map(|peer| PollFd::from_borrowed_fd(peer.stream.as_fd(), PollFlags::IN)));
            match poll(&mut fds, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => anyhow::bail!("cannot wait for agents: {errno}"),
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(fds);
            let (mut ready, mut peers) = (ready.into_iter().skip(1), std::mem::take(&mut self.peers));
            peers.retain_mut(|peer| match ready.next().unwrap_or(false) {
                true => self.hear(peer, deliver),
                false => peer.host.is_some() || peer.since.elapsed() < INTRODUCTION,
            });
            self.peers = peers;
            self.bound_unknown(deliver);
            self.accept(deliver);
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            if self.peers.len() > MANY {
                // To ask the kernel about thousands for every line of one of them would cost more than the lines.
                std::thread::sleep(GATHER.min(left));
            }
        }
    }

    /// Cuts off those that hold most while all that are unknown hold too much.
    fn bound_unknown(&mut self, deliver: Deliver<'_>) {
        let mut all: usize = self.peers.iter().map(Peer::held).sum();
        while all > MOST_UNKNOWN
            && let Some(at) = (0..self.peers.len()).max_by_key(|at| self.peers.get(*at).map_or(0, Peer::held))
        {
            all -= self.cut(at, TOO_MUCH, deliver);
        }
    }

    /// Cuts off connection `at`, of somebody unknown; the bytes that it held.
    fn cut(&mut self, at: usize, why: &str, deliver: Deliver<'_>) -> usize {
        let peer = self.peers.swap_remove(at);
        if self.blamed.is_news(&peer.from, why) {
            // It only writes down.
            let _ = deliver(What::Blame(&peer.from, why));
        }
        peer.held()
    }

    /// Whether there is a place for one more, if need be that of the oldest who has not said for whom it speaks, and first of one
    /// without a certificate: who only connects must not keep agents out.
    fn has_place(&mut self, deliver: Deliver<'_>) -> bool {
        if self.peers.len() < self.places {
            return true;
        }
        let unknown = self.peers.iter().enumerate().filter(|(_, peer)| peer.host.is_none());
        let Some((first, _)) = unknown.min_by_key(|(_, peer)| (peer.has_certificate(), peer.since)) else {
            return false;
        };
        self.cut(first, NO_PLACE, deliver);
        true
    }

    fn accept(&mut self, deliver: Deliver<'_>) {
        while let Some((stream, from)) = self.listener.accept() {
            let tls = self.tls.clone().map(ServerConnection::new).transpose();
            let mut challenge = [0; 16];
            let (Ok(tls), Ok(()), true) = (tls, getrandom::fill(&mut challenge), self.has_place(deliver)) else {
                continue;
            };
            self.connections += 1;
            let mut peer = Peer {
                stream,
                tls: tls.map(Box::new),
                from,
                id: self.connections,
                since: Instant::now(),
                challenge,
                greeted: false,
                number: 0,
                heard: Vec::new(),
                searched: 0,
                shaken: 0,
                host: None,
                allowance: (PER_SECOND, Instant::now()),
            };
            if peer.tls.is_some() || peer.greet().is_ok() {
                self.peers.push(peer);
            }
        }
    }

    /// Reads what is there; whether the agent stays.
    fn hear(&mut self, peer: &mut Peer, deliver: Deliver<'_>) -> bool {
        let why = match self.read(peer, deliver) {
            Ok(true) => return true,
            Ok(false) => None,
            Err(why) => Some(why),
        };
        if let Some(host) = peer.host.filter(|host| self.speaks.get(host).is_some_and(|(id, _)| *id == peer.id)) {
            self.speaks.remove(&host);
        }
        if let Some(why) = why {
            let who = peer.host.map_or_else(|| peer.from.clone(), host_name);
            if self.blamed.is_news(&who, &why) {
                // It only writes down.
                let _ = deliver(What::Blame(&who, &why));
            }
        }
        false
    }

    fn read(&mut self, peer: &mut Peer, deliver: Deliver<'_>) -> Result<bool, String> {
        let mut bytes = [0; 16_384];
        // A bounded part of what one agent sends, then the others'.
        for _ in 0..8 {
            match peer.receive(&mut bytes)? {
                Received::Bytes => {}
                Received::NoMore => break,
                Received::End => return Ok(false),
            }
            while let Some(end) = peer.heard.iter().skip(peer.searched).position(|byte| *byte == b'\n') {
                let line: Vec<u8> = peer.heard.drain(..=peer.searched + end).collect();
                peer.searched = 0;
                self.line(peer, &line, deliver)?;
            }
            peer.searched = peer.heard.len();
            let most = if peer.host.is_some() { MAX_LINE } else { MAX_LINE / 4 };
            if peer.heard.len() > most {
                return Err(format!("a line of more than {most} bytes"));
            }
        }
        Ok(true)
    }

    fn line(&mut self, peer: &mut Peer, line: &[u8], deliver: Deliver<'_>) -> Result<(), String> {
        let text = std::str::from_utf8(line).map_err(|_| "a line that is no text")?.trim_end_matches('\n');
        let json = link::verified(&self.key, &peer.challenge, peer.number, text)
            .ok_or("a line with a wrong signature: another key, or somebody else")?;
        peer.number += 1;
        let (tokens, since) = peer.allowance;
        let tokens = (tokens + since.elapsed().as_secs_f64() * PER_SECOND).min(PER_SECOND) - 1.0;
        peer.allowance = (tokens, Instant::now());
        if tokens < 0.0 {
            return Err(format!("more than {PER_SECOND} summaries per second"));
        }
        let summary: Summary = serde_json::from_str(json).map_err(|error| format!("not a summary: {error}"))?;
        if peer.host.is_some_and(|host| host != summary.host) {
            return Err(format!("one connection speaks for two hosts, now for {}", host_name(summary.host)));
        }
        if peer.host.is_none() {
            let name = host_name(summary.host);
            if peer.tls.as_ref().is_some_and(|tls| !tls::may_speak_for(tls, summary.host)) {
                return Err(format!("a certificate without the name {name} speaks for that host"));
            }
            if let Some((_, other)) = self.speaks.get(&summary.host) {
                return Err(format!("a second agent called {name}: {other} speaks for it already"));
            }
            self.speaks.insert(summary.host, (peer.id, peer.from.clone()));
            peer.host = Some(summary.host);
        }
        deliver(What::Summary(&summary))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::net::UnixStream;

    use mrc_mapper::agent::AgentStats;

    use super::super::wire::Address;
    use super::*;

    const KEY: Key = Key::new([7; 16]);

    /// Tells one summary as the agent of `host`.
    fn tell(stream: &mut UnixStream, host: HostId, number: u64, challenge: &[u8; 16]) {
        let (gone, paths, stats) = (Vec::new(), Vec::new(), AgentStats::default());
        let summary = Summary { host, instance: 1, number, paused_ns: 0, gone, paths, stats };
        let json = serde_json::to_string(&summary).unwrap();
        let line = format!("{:016x} {json}\n", link::sign(&KEY, challenge, number, &json));
        stream.write_all(line.as_bytes()).unwrap();
    }

    #[test]
    fn connections_that_prove_nothing_keep_no_agent_out() {
        let socket = std::env::temp_dir().join(format!("mrc-peers-{}", std::process::id()));
        let listener = Address::Unix(socket.clone()).listen().unwrap();
        let mut peers = Peers::new(&listener, KEY, None, 2);
        peers.places = 4;
        let (mut heard, mut blamed) = (Vec::new(), Vec::new());
        let mut serve = |peers: &mut Peers<'_>, heard: &mut Vec<HostId>, until: usize| {
            let start = Instant::now();
            while heard.len() < until && start.elapsed() < Duration::from_secs(10) {
                let mut deliver = |what: What<'_>| {
                    match what {
                        What::Summary(summary) => heard.push(summary.host),
                        What::Blame(_, why) => blamed.push(why.to_owned()),
                    }
                    Ok(())
                };
                peers.serve(Instant::now() + Duration::from_millis(10), &mut deliver).unwrap();
            }
            assert_eq!(heard.len(), until);
        };
        let connect = || UnixStream::connect(&socket).unwrap();
        let mut agents = Vec::new();
        for host in 0..2 {
            // More than there are places, before and after the agent.
            let before: Vec<UnixStream> = (0..20).map(|_| connect()).collect();
            let mut agent = connect();
            let collector = std::thread::scope(|scope| {
                let agent = scope.spawn(|| {
                    let mut line = String::new();
                    BufReader::new(&agent).read_line(&mut line).unwrap();
                    link::unhex(&line).unwrap()
                });
                while !agent.is_finished() {
                    let mut nothing = |_: What<'_>| Ok(());
                    peers.serve(Instant::now() + Duration::from_millis(10), &mut nothing).unwrap();
                }
                agent.join().unwrap()
            });
            tell(&mut agent, host, 0, &collector);
            serve(&mut peers, &mut heard, usize::from(host) + 1);
            let after: Vec<UnixStream> = (0..20).map(|_| connect()).collect();
            agents.push((agent, collector, before, after));
        }
        for (host, (agent, challenge, ..)) in (0..).zip(&mut agents) {
            tell(agent, host, 1, challenge);
            serve(&mut peers, &mut heard, 3 + usize::from(host));
        }
        assert_eq!(heard, [0, 1, 0, 1]);
        assert!(peers.peers.len() <= 4);
        std::fs::remove_file(socket).unwrap();
    }

    #[test]
    fn the_limit_of_open_files_is_raised_for_agents() {
        let places = places(0);
        let limit = getrlimit(Resource::Nofile);
        assert!(
            limit.current.is_none_or(|now| now >= places as u64 + OTHERS || limit.maximum == Some(now)),
            "{limit:?}"
        );
    }
}
