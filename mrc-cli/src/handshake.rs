//! The out-of-band exchange of `write-bw` and `write-lat`: one JSON line each way over TCP, then the connection stays open
//! so that either side notices when the other is gone.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

/// First field of every message, so that a stranger on the port is recognised.
const PROTOCOL: &str = "mrc-perf/1";

/// Begins the line that asks for a check.
const CHECK: &str = "check ";

const PATH_MTUS: [u16; 5] = [256, 512, 1024, 2048, 4096];

/// How often a server that waits looks for a client, and whether it shall end.
const GLANCE: Duration = Duration::from_millis(20);

/// What each side tells the other.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub protocol: String,
    /// `write-bw` or `write-lat`.
    pub test: String,
    /// Sender's inner address.
    pub gid: Ipv6Addr,
    /// Largest path MTU the sender's interfaces carry.
    pub path_mtu: u16,
    /// Bytes per message.
    pub size: u32,
    /// Address of the region the other side may write.
    pub va: u64,
    /// Its key.
    pub rkey: u32,
    /// QP number and first PSN of each QP.
    pub qps: Vec<(u32, u32)>,
    /// Window of the sender's responder, units of 128 PSNs.
    pub mpr_dest: u8,
    /// Slots for messages per QP, when the server is to check what arrives; see [`crate::content`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<u16>,
}

impl Hello {
    /// A message with the protocol's name filled in.
    pub fn new(test: &str, gid: Ipv6Addr, path_mtu: u16, size: u32) -> Self {
        let (protocol, test) = (PROTOCOL.to_owned(), test.to_owned());
        Self { protocol, test, gid, path_mtu, size, va: 0, rkey: 0, qps: Vec::new(), mpr_dest: 8, check: None }
    }

    /// Refuses facts that cannot be: a peer of another implementation may have written them.
    fn validate(&self) -> anyhow::Result<()> {
        let Self { path_mtu, mpr_dest, .. } = self;
        ensure!(PATH_MTUS.contains(path_mtu), "`path_mtu` {path_mtu}: there are 256, 512, 1024, 2048 and 4096");
        ensure!(*mpr_dest > 0, "`mpr_dest` 0: a window has at least one unit of 128 PSNs");
        ensure!(!self.qps.is_empty(), "`qps` is empty");
        for (qpn, psn) in &self.qps {
            ensure!((3..1 << 24).contains(qpn), "`qps`: queue pair number {qpn} is reserved or has more than 24 bits");
            ensure!(*psn < 1 << 24, "`qps`: first PSN {psn} has more than 24 bits");
        }
        Ok(())
    }
}

/// The TCP side of a measurement.
pub struct Control {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    peer: String,
    /// What [`Self::watch`] read of a line that is not complete yet.
    begun: String,
}

/// What the control connection says about the peer.
#[derive(Debug, PartialEq, Eq)]
pub enum Peer {
    /// Still there, nothing said.
    Quiet,
    /// It said it is done.
    Done,
    /// It asks whether so many messages of each queue pair arrived as they were sent.
    Check(Vec<u64>),
    /// Its connection broke without a word.
    Vanished(String),
}

impl Control {
    /// Waits for one client; `None` when `stop` says so first.
    pub fn accept(port: u16, stop: impl Fn() -> bool) -> anyhow::Result<Option<Self>> {
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).with_context(|| {
            format!("cannot listen on TCP port {port}: is another server running? choose one with -p")
        })?;
        listener.set_nonblocking(true)?;
        while !stop() {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false)?;
                    return Self::over(stream).map(Some);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(GLANCE),
                Err(error) => return Err(error).context("waiting for a client"),
            }
        }
        Ok(None)
    }

    /// Connects to a server, retrying while it starts.
    pub fn connect(server: &str, port: u16) -> anyhow::Result<Self> {
        let give_up = Instant::now() + Duration::from_secs(5);
        loop {
            match TcpStream::connect((server, port)) {
                Ok(stream) => return Self::over(stream),
                Err(error) if error.kind() == ErrorKind::ConnectionRefused && Instant::now() < give_up => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                Err(error) => {
                    return Err(error).with_context(|| {
                        format!("cannot reach a server at {server} port {port}: start the other side without an address first")
                    });
                }
            }
        }
    }

    fn over(stream: TcpStream) -> anyhow::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let peer = stream.peer_addr()?.to_string();
        Ok(Self { reader: BufReader::new(stream.try_clone()?), stream, peer, begun: String::new() })
    }

    fn send(&mut self, hello: &Hello) -> anyhow::Result<()> {
        let line = serde_json::to_string(hello)? + "\n";
        self.stream.write_all(line.as_bytes()).with_context(|| format!("sending to {}", self.peer))
    }

    fn receive(&mut self) -> anyhow::Result<Hello> {
        let mut line = String::new();
        // A stranger may send anything: bound what is read.
        std::io::Read::take(&mut self.reader, 1 << 20)
            .read_line(&mut line)
            .with_context(|| format!("no answer from {}", self.peer))?;
        ensure!(!line.is_empty(), "{} closed the connection without an answer: its own output says why", self.peer);
        let hello: Hello =
            serde_json::from_str(&line).with_context(|| format!("{} does not speak {PROTOCOL}", self.peer))?;
        ensure!(hello.protocol == PROTOCOL, "{} speaks {}, not {PROTOCOL}", self.peer, hello.protocol);
        Ok(hello)
    }

    /// Client: says ours, hears theirs.
    pub fn offer(&mut self, hello: &Hello) -> anyhow::Result<Hello> {
        self.send(hello)?;
        let theirs = self.receive()?;
        ensure!(theirs.test == hello.test, "the server runs {}, this is {}", theirs.test, hello.test);
        self.sane(&theirs)?;
        Ok(theirs)
    }

    /// Server: hears theirs, then says what `answer` makes of it.
    pub fn answer(
        &mut self,
        test: &str,
        answer: impl FnOnce(&Hello) -> anyhow::Result<Hello>,
    ) -> anyhow::Result<Hello> {
        let theirs = self.receive()?;
        if theirs.test != test {
            // Enough for the other side to say the same.
            let _ = self.send(&Hello::new(test, Ipv6Addr::UNSPECIFIED, 0, 0));
            bail!("the client runs {}, this is {test}", theirs.test);
        }
        self.sane(&theirs)?;
        let ours = answer(&theirs)?;
        self.send(&ours)?;
        Ok(theirs)
    }

    fn sane(&self, theirs: &Hello) -> anyhow::Result<()> {
        theirs.validate().with_context(|| format!("{} cannot be connected to", self.peer))
    }

    /// Waits until both sides have come here.
    pub fn barrier(&mut self) -> anyhow::Result<()> {
        self.stream.write_all(b"ready\n")?;
        let mut line = String::new();
        self.reader.read_line(&mut line).with_context(|| format!("{} did not get ready", self.peer))?;
        ensure!(line.trim() == "ready", "{} gave up before the measurement", self.peer);
        Ok(())
    }

    /// Tells the peer that the measurement is over.
    pub fn done(&mut self) {
        // The peer may be gone already; it will notice by itself.
        let _ = self.stream.write_all(b"done\n");
    }

    /// Client: asks the server to compare its memory with what so many messages of each queue pair carried; the verdict.
    pub fn ask_for_check(&mut self, messages: &[u64]) -> anyhow::Result<String> {
        let line = format!("{CHECK}{}\n", serde_json::to_string(messages)?);
        self.stream.write_all(line.as_bytes()).with_context(|| format!("sending to {}", self.peer))?;
        self.stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut verdict = String::new();
        let read = self.reader.read_line(&mut verdict);
        read.with_context(|| format!("{} did not say whether the content is right", self.peer))?;
        ensure!(!verdict.is_empty(), "{} closed the connection before it had checked the content", self.peer);
        Ok(verdict.trim().to_owned())
    }

    /// Server: the answer to [`Peer::Check`].
    pub fn tell_verdict(&mut self, verdict: &str) -> anyhow::Result<()> {
        let line = format!("{verdict}\n");
        self.stream.write_all(line.as_bytes()).with_context(|| format!("sending to {}", self.peer))
    }

    /// Why the connection to the peer is broken, if it is. Does not wait.
    pub fn broken(&self) -> Option<String> {
        let look = || {
            self.stream.set_nonblocking(true)?;
            let seen = self.stream.peek(&mut [0]);
            self.stream.set_nonblocking(false)?;
            seen
        };
        match look() {
            Ok(0) => Some(format!("{} closed its control connection", self.peer)),
            Ok(_) => None,
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => Some(format!("control connection to {}: {error}", self.peer)),
        }
    }

    /// Looks for up to `wait` whether the peer said something or vanished.
    pub fn watch(&mut self, wait: Duration) -> anyhow::Result<Peer> {
        self.stream.set_read_timeout(Some(wait))?;
        let read = self.reader.read_line(&mut self.begun);
        if matches!(&read, Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)) {
            return Ok(Peer::Quiet);
        }
        let line = std::mem::take(&mut self.begun);
        match read {
            Ok(0) => Ok(Peer::Vanished(format!("{} closed its control connection", self.peer))),
            Ok(_) if line.trim() == "done" => Ok(Peer::Done),
            Ok(_) => Ok(match line.strip_prefix(CHECK) {
                Some(messages) => Peer::Check(serde_json::from_str(messages).context("what to check")?),
                None => Peer::Quiet,
            }),
            Err(error) => Ok(Peer::Vanished(format!("control connection to {}: {error}", self.peer))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Control, Control) {
        let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Control::over(client).unwrap(), Control::over(listener.accept().unwrap().0).unwrap())
    }

    #[test]
    fn a_line_that_comes_in_pieces_is_one_line() {
        let (mut client, mut server) = pair();
        client.stream.write_all(b"check [1").unwrap();
        assert_eq!(server.watch(Duration::from_millis(50)).unwrap(), Peer::Quiet);
        client.stream.write_all(b",2]\n").unwrap();
        assert_eq!(server.watch(Duration::from_secs(5)).unwrap(), Peer::Check(vec![1, 2]));
    }

    #[test]
    fn both_sides_are_told_that_they_run_different_tests() {
        let (mut client, mut server) = pair();
        let server = std::thread::spawn(move || server.answer("write-lat", |hello| Ok(hello.clone())).unwrap_err());
        let client = client.offer(&Hello::new("write-bw", Ipv6Addr::LOCALHOST, 4096, 8)).unwrap_err();
        assert_eq!(client.to_string(), "the server runs write-lat, this is write-bw");
        assert_eq!(server.join().unwrap().to_string(), "the client runs write-bw, this is write-lat");
    }

    #[test]
    fn facts_that_cannot_be_are_refused_by_name() {
        type Change = fn(&mut Hello);
        let hello = |change: Change| {
            let mut hello = Hello::new("write-bw", Ipv6Addr::LOCALHOST, 4096, 8);
            hello.qps = vec![(0x01a0a1, 0xff_ffff)];
            change(&mut hello);
            hello
        };
        let cases: [(&str, Change); 7] = [
            ("`path_mtu` 1500: there are", |hello| hello.path_mtu = 1500),
            ("`mpr_dest` 0: a window", |hello| hello.mpr_dest = 0),
            ("`qps` is empty", |hello| hello.qps.clear()),
            ("queue pair number 2 is reserved", |hello| hello.qps.push((2, 0))),
            ("queue pair number 16777216 is", |hello| hello.qps[0].0 = 1 << 24),
            ("first PSN 16777216 has", |hello| hello.qps[0].1 = 1 << 24),
            ("", |_| {}),
        ];
        for (why, change) in cases {
            let (mut client, mut server) = pair();
            client.send(&hello(change)).unwrap();
            let answer = server.answer("write-bw", |_| Ok(hello(|_| {})));
            if why.is_empty() {
                answer.unwrap();
            } else {
                let says = format!("{:#}", answer.unwrap_err());
                assert!(says.contains(why) && says.contains("cannot be connected to"), "{says}");
            }
            let (mut client, mut server) = pair();
            server.send(&hello(change)).unwrap();
            assert_eq!(client.offer(&hello(|_| {})).is_ok(), why.is_empty(), "{why}");
        }
    }

    #[test]
    fn a_broken_connection_is_seen_without_waiting() {
        let (client, mut server) = pair();
        assert_eq!(client.broken(), None);
        server.stream.write_all(b"x").unwrap();
        assert_eq!(client.broken(), None);
        let (client, server) = pair();
        drop(server);
        let give_up = Instant::now() + Duration::from_secs(5);
        while client.broken().is_none() {
            assert!(Instant::now() < give_up, "a closed connection goes unnoticed");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(client.broken().unwrap().contains("closed its control connection"));
    }

    #[test]
    fn a_server_that_gives_up_is_told_from_a_stranger() {
        let (mut client, server) = pair();
        drop(server);
        // The connection may already be reset when this is sent.
        let says = format!("{:#}", client.offer(&Hello::new("write-bw", Ipv6Addr::LOCALHOST, 4096, 8)).unwrap_err());
        assert!(!says.contains("does not speak"), "{says}");
        let (mut client, mut server) = pair();
        server.stream.write_all(b"HTTP/1.1 400\r\n").unwrap();
        let says = format!("{:#}", client.receive().unwrap_err());
        assert!(says.contains("does not speak mrc-perf/1"), "{says}");
    }
}
