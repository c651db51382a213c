//! The out-of-band exchange of `write-bw` and `write-lat`: one JSON line each way over TCP, then the connection stays open
//! so that either side notices when the other is gone.

use std::io::{ErrorKind, Write};
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::lines::{Line, LineReader};

/// First field of every message, so that a stranger on the port is recognised.
const PROTOCOL: &str = "mrc-perf/1";

/// Begins the line that asks for a check.
const CHECK: &str = "check ";
/// Begins the line that says why a side does not go on.
const GAVE_UP: &str = "gave-up ";

const PATH_MTUS: [u16; 5] = [256, 512, 1024, 2048, 4096];

/// How often a server that waits looks for a client, and whether it shall end.
const GLANCE: Duration = Duration::from_millis(20);

/// How long each side waits for a line of the other.
const PATIENCE: Duration = Duration::from_secs(30);

/// Memory that a slow or busy machine brings in, or compares, within a second.
const SLOW_BYTES: u64 = 1 << 26;

/// Longest line, in bytes: the other side may be a stranger who sends anything.
const MAX_LINE: usize = 1 << 20;
const TOO_LONG: &str = "sent a line of more than 1 MiB";

/// Letters of what a side says of its end that are shown.
const MOST_SAID: usize = 400;

/// Connections that have not said who they are; one more, and the oldest is closed.
const MAX_STRANGERS: usize = 64;

/// Bounds of what a client may ask of a server: those of the options.
const MAX_SIZE: u32 = 1 << 30;
const MAX_SLOTS: u16 = 128;

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

    /// Reads a line.
    fn parse(line: &[u8]) -> anyhow::Result<Self> {
        let hello: Self = serde_json::from_slice(line).with_context(|| format!("does not speak {PROTOCOL}"))?;
        ensure!(hello.protocol == PROTOCOL, "speaks {}, not {PROTOCOL}", hello.protocol.escape_debug());
        Ok(hello)
    }

    /// Bytes of memory that the server makes for a client with this message.
    fn bytes(&self) -> u64 {
        let messages = self.qps.len() as u64 * u64::from(self.check.unwrap_or(1));
        u64::from(self.size).saturating_mul(messages)
    }

    /// See [`Control::patience`].
    fn patience(&self) -> Duration {
        PATIENCE.saturating_add(Duration::from_secs(self.bytes() / SLOW_BYTES))
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

    /// Refuses what no client asks: a server makes memory for it.
    fn check_wish(&self) -> anyhow::Result<()> {
        let Self { size, check, .. } = self;
        ensure!((1..=MAX_SIZE).contains(size), "`size` {size}: a message has 1 to {MAX_SIZE} bytes");
        ensure!(check.is_none_or(|slots| (1..=MAX_SLOTS).contains(&slots)), "`check`: 1 to {MAX_SLOTS} slots");
        Ok(())
    }
}

/// A connection that has not said yet who it is.
struct Stranger {
    reader: LineReader,
    peer: String,
    since: Instant,
}

impl Stranger {
    /// Its first line, once that is whole.
    ///
    /// # Errors
    /// It is no client.
    fn first_line(&mut self) -> anyhow::Result<Option<Hello>> {
        match self.reader.read()? {
            Line::Whole(line) => return Hello::parse(&line).map(Some),
            Line::Closed => bail!("closed the connection"),
            Line::TooLong => bail!(TOO_LONG),
            Line::Waiting => {}
        }
        ensure!(self.since.elapsed() < PATIENCE, "said nothing");
        Ok(None)
    }
}

/// The TCP side of a measurement.
pub struct Control {
    reader: LineReader,
    peer: String,
    /// How long a client waits for what the server does with all of its memory.
    patience: Duration,
}

/// What the control connection says about the peer.
#[derive(Debug, PartialEq, Eq)]
pub enum Peer {
    /// Still there, nothing said.
    Quiet,
    /// It said it is done.
    Done,
    /// It said why it does not go on.
    GaveUp(String),
    /// It asks whether so many messages of each queue pair arrived as they were sent.
    Check(Vec<u64>),
    /// Its connection broke without a word.
    Vanished(String),
}

impl Control {
    /// Waits for a client, and for its first line; `None` when `stop` says so first. Connections of others, such as a scan of ports,
    /// are closed, and nobody waits for them.
    pub fn accept(port: u16, stop: impl Fn() -> bool) -> anyhow::Result<Option<(Self, Hello)>> {
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).with_context(|| {
            format!("cannot listen on TCP port {port}: is another server running? choose one with -p")
        })?;
        Self::client(&listener, stop)
    }

    fn client(listener: &TcpListener, stop: impl Fn() -> bool) -> anyhow::Result<Option<(Self, Hello)>> {
        listener.set_nonblocking(true)?;
        let mut strangers: Vec<Stranger> = Vec::new();
        while !stop() {
            match listener.accept() {
                Ok((stream, peer)) => {
                    stream.set_nonblocking(true)?;
                    if strangers.len() == MAX_STRANGERS {
                        strangers.remove(0);
                    }
                    let reader = LineReader::new(stream, MAX_LINE);
                    strangers.push(Stranger { reader, peer: peer.to_string(), since: Instant::now() });
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(GLANCE),
                // Others have all descriptors, or the connection is gone already.
                Err(error) => {
                    log::warn!("waiting for a client: {error}");
                    std::thread::sleep(GLANCE);
                }
            }
            let mut at = 0;
            while let Some(stranger) = strangers.get_mut(at) {
                match stranger.first_line() {
                    Ok(None) => at += 1,
                    Ok(Some(hello)) => {
                        let reader = strangers.swap_remove(at).reader;
                        reader.stream().set_nonblocking(false)?;
                        return Ok(Some((Self::over(reader)?, hello)));
                    }
                    Err(why) => {
                        log::warn!("{} {why}; the server waits on", stranger.peer);
                        strangers.swap_remove(at);
                    }
                }
            }
        }
        Ok(None)
    }

    /// Connects to a server, retrying while it starts.
    pub fn connect(server: &str, port: u16) -> anyhow::Result<Self> {
        let give_up = Instant::now() + Duration::from_secs(5);
        loop {
            match TcpStream::connect((server, port)) {
                Ok(stream) => return Self::over(LineReader::new(stream, MAX_LINE)),
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

    fn over(reader: LineReader) -> anyhow::Result<Self> {
        reader.stream().set_nodelay(true)?;
        let peer = reader.stream().peer_addr()?.to_string();
        Ok(Self { reader, peer, patience: PATIENCE })
    }

    fn write(&self, line: &str) -> std::io::Result<()> {
        let line = format!("{line}\n");
        self.reader.stream().write_all(line.as_bytes())
    }

    fn send(&self, hello: &Hello) -> anyhow::Result<()> {
        self.tell(&serde_json::to_string(hello)?)
    }

    fn tell(&self, line: &str) -> anyhow::Result<()> {
        self.write(line).with_context(|| format!("sending to {}", self.peer))
    }

    /// A line of the other side, empty at the end of the connection; its text may reach a terminal.
    fn line(&mut self, patience: Duration) -> anyhow::Result<String> {
        match self.reader.read_by(Instant::now() + patience)? {
            Line::Whole(line) => Ok(String::from_utf8_lossy(&line).into_owned()),
            Line::Closed => Ok(String::new()),
            Line::TooLong => bail!(TOO_LONG),
            Line::Waiting => bail!("nothing within {} s", patience.as_secs()),
        }
    }

    fn receive(&mut self) -> anyhow::Result<Hello> {
        let line = self.line(self.patience).with_context(|| format!("no answer from {}", self.peer))?;
        ensure!(!line.is_empty(), "{} closed the connection without an answer: its own output says why", self.peer);
        Hello::parse(line.as_bytes()).with_context(|| self.peer.clone())
    }

    /// Client: says ours, hears theirs.
    pub fn offer(&mut self, hello: &Hello) -> anyhow::Result<Hello> {
        self.send(hello)?;
        self.patience = hello.patience();
        let theirs = self.receive()?;
        ensure!(theirs.test == hello.test, "the server runs {}, this is {}", theirs.test.escape_debug(), hello.test);
        self.sane(&theirs)?;
        Ok(theirs)
    }

    /// Server: says what `answer` makes of the client's first line.
    pub fn answer(
        &mut self,
        test: &str,
        theirs: &Hello,
        answer: impl FnOnce(&Hello) -> anyhow::Result<Hello>,
    ) -> anyhow::Result<()> {
        if theirs.test != test {
            // Enough for the other side to say the same.
            let _ = self.send(&Hello::new(test, Ipv6Addr::UNSPECIFIED, 0, 0));
            bail!("the client runs {}, this is {test}", theirs.test.escape_debug());
        }
        self.sane(theirs)?;
        theirs.check_wish().with_context(|| format!("{} asks too much", self.peer))?;
        let ours = answer(theirs)?;
        self.send(&ours)
    }

    fn sane(&self, theirs: &Hello) -> anyhow::Result<()> {
        theirs.validate().with_context(|| format!("{} cannot be connected to", self.peer))
    }

    /// Waits until both sides have come here.
    pub fn barrier(&mut self) -> anyhow::Result<()> {
        self.write("ready")?;
        let line = self.line(PATIENCE).with_context(|| format!("{} did not get ready", self.peer))?;
        ensure!(line.trim() == "ready", "{} gave up before the measurement", self.peer);
        Ok(())
    }

    /// Tells the peer that the measurement is over.
    pub fn done(&mut self) {
        // The peer may be gone already; it will notice by itself.
        let _ = self.write("done");
    }

    /// Tells the peer why the measurement ends before it is over.
    pub fn give_up(&mut self, why: &str) {
        // As above.
        let _ = self.write(&format!("{GAVE_UP}{}", why.replace('\n', " ")));
    }

    /// Client: asks the server to compare its memory with what so many messages of each queue pair carried; the verdict.
    pub fn ask_for_check(&mut self, messages: &[u64]) -> anyhow::Result<String> {
        self.tell(&format!("{CHECK}{}", serde_json::to_string(messages)?))?;
        let verdict = self
            .line(self.patience.saturating_mul(2))
            .with_context(|| format!("{} did not say whether the content is right", self.peer))?;
        ensure!(!verdict.is_empty(), "{} closed the connection before it had checked the content", self.peer);
        if let Some(why) = gave_up(&verdict) {
            bail!("{} gave up before it had checked the content: {why}", self.peer);
        }
        Ok(verdict.trim().escape_debug().to_string())
    }

    /// Server: the answer to [`Peer::Check`].
    pub fn tell_verdict(&mut self, verdict: &str) -> anyhow::Result<()> {
        self.tell(verdict)
    }

    /// Looks whether the peer said something or vanished. Does not wait.
    pub fn glance(&mut self) -> anyhow::Result<Peer> {
        self.reader.stream().set_nonblocking(true)?;
        let line = self.reader.read();
        self.reader.stream().set_nonblocking(false)?;
        self.said(line)
    }

    /// As [`Control::glance`], for up to `wait`.
    pub fn watch(&mut self, wait: Duration) -> anyhow::Result<Peer> {
        let line = self.reader.read_by(Instant::now() + wait);
        self.said(line)
    }

    fn said(&self, line: std::io::Result<Line>) -> anyhow::Result<Peer> {
        let line = match line {
            Ok(Line::Whole(line)) => line,
            Ok(Line::Waiting) => return Ok(Peer::Quiet),
            Ok(Line::Closed) => return Ok(Peer::Vanished(format!("{} closed its control connection", self.peer))),
            Ok(Line::TooLong) => return Ok(Peer::Vanished(format!("{} {TOO_LONG}", self.peer))),
            Err(error) => return Ok(Peer::Vanished(format!("control connection to {}: {error}", self.peer))),
        };
        let line = String::from_utf8_lossy(&line);
        if let Some(messages) = line.strip_prefix(CHECK) {
            return Ok(Peer::Check(serde_json::from_str(messages).context("what to check")?));
        }
        if let Some(why) = gave_up(&line) {
            return Ok(Peer::GaveUp(why));
        }
        Ok(if line.trim() == "done" { Peer::Done } else { Peer::Quiet })
    }
}

/// Why the other side does not go on, if its line says so; fit for a terminal.
fn gave_up(line: &str) -> Option<String> {
    let why = line.strip_prefix(GAVE_UP)?;
    Some(why.trim().chars().take(MOST_SAID).collect::<String>().escape_debug().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control_over(stream: TcpStream) -> Control {
        Control::over(LineReader::new(stream, MAX_LINE)).unwrap()
    }

    fn pair() -> (Control, Control) {
        let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (control_over(client), control_over(listener.accept().unwrap().0))
    }

    #[test]
    fn a_line_that_comes_in_pieces_is_one_line() {
        let (client, mut server) = pair();
        client.reader.stream().write_all(b"check [1").unwrap();
        assert_eq!(server.watch(Duration::from_millis(50)).unwrap(), Peer::Quiet);
        client.reader.stream().write_all(b",2]\n").unwrap();
        assert_eq!(server.watch(Duration::from_secs(5)).unwrap(), Peer::Check(vec![1, 2]));
    }

    /// Of a server that still made memory the client said that it had given no answer.
    #[test]
    fn a_server_has_time_for_the_memory_that_a_client_asks_for() {
        let mut hello = Hello::new("write-bw", Ipv6Addr::LOCALHOST, 4096, 8);
        hello.qps = vec![(0x01a0a1, 0); 2];
        assert_eq!((hello.bytes(), hello.patience()), (16, PATIENCE));
        (hello.size, hello.check) = (MAX_SIZE, Some(MAX_SLOTS));
        assert_eq!(hello.bytes(), 256 << 30);
        assert_eq!(hello.patience(), PATIENCE + Duration::from_secs(4096));
        hello.qps = vec![(0x01a0a1, 0); 16_384];
        assert_eq!(hello.bytes(), 1 << 51);
    }

    #[test]
    fn both_sides_are_told_that_they_run_different_tests() {
        let (mut client, mut server) = pair();
        let answer = move || {
            let hello = server.receive().unwrap();
            server.answer("write-lat", &hello, |hello| Ok(hello.clone())).unwrap_err()
        };
        let server = std::thread::spawn(answer);
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
            let (client, mut server) = pair();
            client.send(&hello(change)).unwrap();
            let theirs = server.receive().unwrap();
            let answer = server.answer("write-bw", &theirs, |_| Ok(hello(|_| {})));
            if why.is_empty() {
                answer.unwrap();
            } else {
                let says = format!("{:#}", answer.unwrap_err());
                assert!(says.contains(why) && says.contains("cannot be connected to"), "{says}");
            }
            let (mut client, server) = pair();
            server.send(&hello(change)).unwrap();
            assert_eq!(client.offer(&hello(|_| {})).is_ok(), why.is_empty(), "{why}");
        }
    }

    #[test]
    fn a_client_that_asks_for_any_amount_of_memory_is_refused() {
        let asks = |size, check| {
            let (client, mut server) = pair();
            let mut hello = Hello::new("write-bw", Ipv6Addr::LOCALHOST, 4096, size);
            (hello.qps, hello.check) = (vec![(0x01a0a1, 7)], check);
            client.send(&hello).unwrap();
            let theirs = server.receive().unwrap();
            server.answer("write-bw", &theirs, |_| Ok(hello.clone())).map_err(|why| format!("{why:#}"))
        };
        assert!(asks(1 << 30, None).is_ok() && asks(8, Some(128)).is_ok());
        for (size, check) in [(0, None), ((1 << 30) + 1, None), (u32::MAX, Some(1)), (8, Some(0)), (8, Some(129))] {
            assert!(asks(size, check).unwrap_err().contains("asks too much"), "{size} {check:?}");
        }
    }

    #[test]
    fn strangers_do_not_keep_a_client_from_its_server() {
        let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let over = std::sync::atomic::AtomicBool::new(false);
        let stop = || over.load(std::sync::atomic::Ordering::Relaxed);
        std::thread::scope(|scope| {
            let server = scope.spawn(|| Control::client(&listener, stop).unwrap());
            let connect = || TcpStream::connect(address).unwrap();
            // A scan, noise, another protocol, a line without an end, many that say nothing.
            drop(connect());
            connect().write_all(b"\x80\xff\n").unwrap();
            connect().write_all(b"{\"protocol\":\"mrc-perf/2\"}\n").unwrap();
            let mut endless = connect();
            while endless.write_all(&[b'x'; 65_536]).is_ok() {}
            let silent: Vec<TcpStream> = (0..MAX_STRANGERS + 20).map(|_| connect()).collect();
            let client = control_over(connect());
            let mut hello = Hello::new("write-bw", Ipv6Addr::LOCALHOST, 4096, 8);
            hello.qps = vec![(0x01a0a1, 7)];
            client.send(&hello).unwrap();
            client.reader.stream().write_all(b"ready\n").unwrap();
            let (mut control, theirs) = server.join().unwrap().unwrap();
            assert_eq!(theirs.qps, hello.qps);
            assert_eq!(control.line(PATIENCE).unwrap(), "ready\n", "what came behind the first line");
            drop(silent);
            // Nobody but those that say nothing: the server still ends when it is asked to.
            let server = scope.spawn(|| Control::client(&listener, stop).unwrap());
            let _silent = connect();
            std::thread::sleep(GLANCE * 3);
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(server.join().unwrap().is_none());
        });
    }

    #[test]
    fn what_a_peer_says_is_bounded_and_shows_no_control_characters() {
        let (client, mut server) = pair();
        client.reader.stream().write_all(b"{\"protocol\":\"\\u001b]0;x\",\"test\":\"\",\"gid\":\"::1\",\"path_mtu\":1,\"size\":1,\"va\":0,\"rkey\":0,\"qps\":[],\"mpr_dest\":8}\n").unwrap();
        let says = format!("{:#}", server.receive().unwrap_err());
        assert!(says.contains("u{1b}]0;x") && !says.contains('\u{1b}'), "{says}");
        for read in [
            |control: &mut Control| control.barrier().is_err(),
            |control: &mut Control| {
                let heard = std::iter::repeat_with(|| control.watch(Duration::from_secs(5)).unwrap());
                let vanished = heard.take(100).find(|heard| *heard != Peer::Quiet);
                matches!(vanished, Some(Peer::Vanished(why)) if why.contains("a line of more than"))
            },
        ] {
            let (client, mut server) = pair();
            let flood = std::thread::spawn(move || {
                (0..1024).take_while(|_| client.reader.stream().write_all(&[b'x'; 65_536]).is_ok()).count()
            });
            assert!(read(&mut server));
            drop(server);
            assert!(flood.join().unwrap() < 1024, "all of it was read");
        }
    }

    /// Either side may give up, and the other hears why.
    #[test]
    fn a_side_that_gives_up_is_told_from_one_that_is_done() {
        for swapped in [false, true] {
            let (mut said, mut heard) = pair();
            if swapped {
                std::mem::swap(&mut said, &mut heard);
            }
            said.give_up("2 messages did not complete:\n\x1b[2Jno plane leads to the peer");
            said.done();
            let heard = std::iter::repeat_with(|| heard.watch(Duration::from_secs(5)).unwrap());
            let told: Vec<Peer> = heard.filter(|heard| *heard != Peer::Quiet).take(2).collect();
            let why = "2 messages did not complete: \\u{1b}[2Jno plane leads to the peer";
            assert_eq!(told, [Peer::GaveUp(why.to_owned()), Peer::Done]);
        }
    }

    /// Its reason stood in the report as what it had found of the content.
    #[test]
    fn a_server_that_gives_up_in_place_of_a_verdict_is_heard() {
        let (mut client, mut server) = pair();
        server.give_up("no port");
        let says = client.ask_for_check(&[1]).unwrap_err().to_string();
        assert!(says.ends_with("gave up before it had checked the content: no port"), "{says}");
    }

    #[test]
    fn a_glance_does_not_wait() {
        let (mut client, mut server) = pair();
        let soon = |client: &mut Control| {
            let give_up = Instant::now() + Duration::from_secs(5);
            loop {
                match client.glance().unwrap() {
                    Peer::Quiet => assert!(Instant::now() < give_up, "what the peer does goes unnoticed"),
                    seen => return seen,
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        assert_eq!(client.glance().unwrap(), Peer::Quiet);
        server.reader.stream().write_all(b"gave-").unwrap();
        assert_eq!(client.glance().unwrap(), Peer::Quiet);
        server.reader.stream().write_all(b"up no port\n").unwrap();
        assert_eq!(soon(&mut client), Peer::GaveUp("no port".to_owned()));
        server.done();
        drop(server);
        assert_eq!(soon(&mut client), Peer::Done);
        let Peer::Vanished(why) = soon(&mut client) else { panic!("the connection is closed") };
        assert!(why.contains("closed its control connection"), "{why}");
    }

    #[test]
    fn a_server_that_gives_up_is_told_from_a_stranger() {
        let (mut client, server) = pair();
        drop(server);
        // The connection may already be reset when this is sent.
        let says = format!("{:#}", client.offer(&Hello::new("write-bw", Ipv6Addr::LOCALHOST, 4096, 8)).unwrap_err());
        assert!(!says.contains("does not speak"), "{says}");
        let (mut client, server) = pair();
        server.reader.stream().write_all(b"HTTP/1.1 400\r\n").unwrap();
        let says = format!("{:#}", client.receive().unwrap_err());
        assert!(says.contains("does not speak mrc-perf/1"), "{says}");
    }
}
