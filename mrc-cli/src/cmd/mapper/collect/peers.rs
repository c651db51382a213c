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
use rustls::{ServerConfig, ServerConnection};

use super::Map;
use super::link::{self, MAX_LINE};
use super::tls;
use super::wire::{Listener, Wire};

/// Agents at a time.
const MAX_AGENTS: usize = 12_000;
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

/// That somebody did the same again is written down after so long.
const AGAIN: Duration = Duration::from_secs(60);
const TOO_MUCH: &str = "many connections without a name hold much memory, this one most";
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
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Received::NoMore),
            Err(_) => return Ok(Received::End),
        }
        let processed = tls.process_new_packets();
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
    connections: u64,
    /// Which connection speaks for a host.
    speaks: BTreeMap<HostId, (u64, String)>,
    blamed: Blamed,
}

type Deliver<'a> = &'a mut dyn FnMut(What<'_>) -> Result<(), String>;

impl<'a> Peers<'a> {
    /// No agent yet.
    pub fn new(listener: &'a Listener, key: Key, tls: Option<Arc<ServerConfig>>) -> Self {
        Self {
            listener,
            key,
            tls,
            peers: Vec::new(),
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
            self.accept();
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
        let held = |peer: &Peer| if peer.host.is_none() { peer.heard.capacity() } else { 0 };
        let mut all: usize = self.peers.iter().map(held).sum();
        while all > MOST_UNKNOWN
            && let Some(at) = (0..self.peers.len()).max_by_key(|at| self.peers.get(*at).map_or(0, held))
        {
            let peer = self.peers.swap_remove(at);
            all -= held(&peer);
            if self.blamed.is_news(&peer.from, TOO_MUCH) {
                // It only writes down.
                let _ = deliver(What::Blame(&peer.from, TOO_MUCH));
            }
        }
    }

    fn accept(&mut self) {
        while let Some((stream, from)) = self.listener.accept() {
            let tls = self.tls.clone().map(ServerConnection::new).transpose();
            let mut challenge = [0; 16];
            let (Ok(tls), Ok(()), true) = (tls, getrandom::fill(&mut challenge), self.peers.len() < MAX_AGENTS) else {
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
