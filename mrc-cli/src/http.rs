//! A small HTTP server: GET and HEAD alone, one request per connection, everything bounded. A connection may also stay and follow
//! what is new, as server-sent events.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mrc_verbs_shim::control::accepted;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long a client may take to ask and to take its answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest request that is read.
const MAX_REQUEST: usize = 8 << 10;
/// Clients at a time; one more, and the oldest is closed that has not asked yet, or has its refusal.
const MAX_CLIENTS: usize = 128;
/// Clients that may follow at a time.
const MAX_FOLLOWERS: usize = 32;
/// Bytes that may wait for a follower; one that takes less is closed, and its browser comes back.
const MAX_WAITING: usize = 1 << 20;
/// How often a waiting server looks whether it shall end, and whether there is something new.
const GLANCE: Duration = Duration::from_millis(100);

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Such as `200 OK`.
    pub status: &'static str,
    /// Media type.
    pub kind: &'static str,
    /// What it says.
    pub body: String,
}

const EVENT_STREAM: &str = "text/event-stream";
const OK: &str = "200 OK";
const NOT_ALLOWED: &str = "405 Method Not Allowed";

/// What a client asks for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Question<'a> {
    /// Without its escapes.
    pub path: &'a str,
    /// What follows `?`.
    pub query: &'a str,
    /// Media types that the client takes, as it lists them; empty: it says nothing.
    pub accept: &'a str,
}

impl Answer {
    /// 200.
    pub fn ok(kind: &'static str, body: String) -> Self {
        Self { status: OK, kind, body }
    }

    /// 404, with where else to look.
    pub fn not_found(hint: &str) -> Self {
        Self::refused("404 Not Found", hint)
    }

    /// 400, with what is wrong.
    pub fn bad_request(why: &str) -> Self {
        Self::refused("400 Bad Request", why)
    }

    /// JSON.
    pub fn json(value: &serde_json::Value) -> Self {
        Self::ok("application/json", format!("{value}\n"))
    }

    /// The first event for a client that stays; [`serve`] sends it what [`Site::news`] says later.
    pub fn follow(first: &serde_json::Value) -> Self {
        Self::ok(EVENT_STREAM, event(first))
    }

    fn refused(status: &'static str, why: &str) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: format!("{why}\n") }
    }

    /// As it is sent; without the body where the head alone was asked for.
    fn bytes(&self, head_alone: bool) -> Vec<u8> {
        let Self { status, kind, body } = self;
        let length = match *kind {
            EVENT_STREAM => String::new(),
            _ => format!("Content-Length: {}\r\n", body.len()),
        };
        let allow = if *status == NOT_ALLOWED { "Allow: GET, HEAD\r\n" } else { "" };
        let body = if head_alone { "" } else { body };
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{length}{allow}{HEADERS}Connection: close\r\n\r\n{body}",
            HEADERS = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
                       Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; \
                       connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; \
                       frame-ancestors 'none'\r\n",
        )
        .into_bytes()
    }
}

/// JSON as a server-sent event; it has no newlines.
pub fn event(value: &serde_json::Value) -> String {
    format!("data: {value}\n\n")
}

/// Listens.
pub fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// A connection.
struct Client {
    stream: TcpStream,
    from: IpAddr,
    give_up: Instant,
    asked: Vec<u8>,
    answer: Vec<u8>,
    sent: usize,
    answered: bool,
    follows: bool,
    /// Refused, perhaps before all of the question was read. A connection that is closed with bytes unread is reset, and the
    /// answer lost.
    lingers: bool,
}

impl Client {
    /// Goes on until it would block; whether the client stays.
    fn go_on(&mut self, site: &mut Site<'_>, may_follow: bool) -> bool {
        while !self.answered {
            let mut bytes = [0; 2048];
            match self.stream.read(&mut bytes) {
                Ok(0) => return false,
                Ok(len) => self.asked.extend_from_slice(&bytes[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Instant::now() < self.give_up,
                Err(_) => return false,
            }
            let is_whole = self.asked.windows(4).any(|four| four == b"\r\n\r\n");
            if is_whole || self.asked.len() > MAX_REQUEST {
                let asked = String::from_utf8_lossy(&self.asked);
                let head_alone = asked.starts_with("HEAD ");
                let mut said = if is_whole { reply(&asked, self.from, site) } else { too_long(&asked) };
                self.follows = said.kind == EVENT_STREAM && !head_alone;
                if self.follows && !may_follow {
                    said = Answer::refused("503 Service Unavailable", "too many clients follow already");
                    self.follows = false;
                }
                self.lingers = said.status != OK;
                (self.answer, self.answered) = (said.bytes(head_alone), true);
            }
        }
        self.write()
    }

    /// Whether nothing is left to do but to wait for its end.
    fn has_its_refusal(&self) -> bool {
        self.lingers && self.answer.is_empty()
    }

    fn write(&mut self) -> bool {
        while self.sent < self.answer.len() {
            match self.stream.write(&self.answer[self.sent..]) {
                Ok(0) => return false,
                Ok(len) => self.sent += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let waiting = self.answer.len() - self.sent;
                    return if self.follows { waiting <= MAX_WAITING } else { Instant::now() < self.give_up };
                }
                Err(_) => return false,
            }
        }
        if self.lingers {
            if !self.answer.is_empty() && self.stream.shutdown(Shutdown::Write).is_err() {
                return false;
            }
            self.answer.clear();
            self.sent = 0;
            // The others have their turn before more of it is dropped.
            let read = self.stream.read(&mut [0; 65_536]);
            let goes_on = read.map_or_else(|error| error.kind() == ErrorKind::WouldBlock, |len| len > 0);
            return goes_on && Instant::now() < self.give_up;
        }
        (self.answer, self.sent) = (Vec::new(), 0);
        if self.follows {
            // Nothing more is expected: bytes are dropped, an end is seen.
            return !matches!(self.stream.read(&mut [0; 256]), Ok(0));
        }
        false
    }

    fn wants(&self) -> PollFlags {
        if self.answer.is_empty() { PollFlags::IN } else { PollFlags::OUT }
    }
}

type Ask<'a> = &'a mut dyn FnMut(Question<'_>) -> anyhow::Result<Answer>;

/// What a server says.
pub struct Site<'a> {
    /// The answer to a question.
    pub answer: Ask<'a>,
    /// What is new for clients that follow; asked while there are any.
    pub news: &'a mut dyn FnMut() -> Option<String>,
    /// Refuses local clients that ask under a name that others may own: a page of theirs could read the answers. For what
    /// browsers read.
    pub own_names_only: bool,
}

/// What whoever asks more than [`MAX_REQUEST`] hears.
fn too_long(asked: &str) -> Answer {
    let why = format!("a request has {MAX_REQUEST} bytes at most");
    // The end of the first line is that of the target.
    let status = if asked.contains('\n') { "431 Request Header Fields Too Large" } else { "414 URI Too Long" };
    Answer::refused(status, &why)
}

fn reply(head: &str, from: IpAddr, site: &mut Site<'_>) -> Answer {
    let mut words = head.split([' ', '\r']);
    let (Some("GET" | "HEAD"), Some(target)) = (words.next(), words.next()) else {
        return Answer::refused(NOT_ALLOWED, "only GET and HEAD");
    };
    let field = |wanted: &str| {
        head.lines().skip(1).find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case(wanted).then(|| value.trim())
        })
    };
    // As a proxy asks: the name in the target holds, not the field's (RFC 9112, 3.2.2).
    let absolute =
        target.strip_prefix("http://").map(|rest| rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len())));
    let (host, target) = absolute.map_or((field("host"), target), |(name, target)| (Some(name), target));
    let target = if target.starts_with('/') { target } else { &format!("/{target}") };
    if site.own_names_only && from.is_loopback() && host.is_some_and(|host| !is_own_name(host)) {
        return Answer::refused(
            "403 Forbidden",
            "asked under a name that is not this machine's: another site's page may be behind it; use 127.0.0.1 or localhost",
        );
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    (site.answer)(Question { path: &unescaped(path), query, accept: field("accept").unwrap_or_default() })
        .unwrap_or_else(|error| Answer::refused("500 Internal Server Error", &format!("{error:#}")))
}

/// A path without its `%3A`: what is not such an escape stays as it is.
fn unescaped(path: &str) -> String {
    let mut parts = path.split('%');
    let mut text: Vec<u8> = parts.next().unwrap_or_default().into();
    for part in parts {
        match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                text.push(byte);
                text.extend_from_slice(&part.as_bytes()[2..]);
            }
            None => {
                text.push(b'%');
                text.extend_from_slice(part.as_bytes());
            }
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Whether a page under this name can only be ours. A site on the network may have its name point to the loopback address.
fn is_own_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let here = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost") || name == here().trim()
}

/// Answers clients until it is over: what a client does wrong is its own loss.
pub fn serve(listener: &TcpListener, is_over: &dyn Fn() -> bool, mut site: Site<'_>) -> anyhow::Result<()> {
    let mut clients: Vec<Client> = Vec::new();
    while !is_over() {
        let mut fds = vec![PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
        fds.extend(clients.iter().map(|client| PollFd::from_borrowed_fd(client.stream.as_fd(), client.wants())));
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(GLANCE.subsec_nanos()) };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => anyhow::bail!("cannot wait for clients: {errno}"),
        }
        drop(fds);
        let mut followers = clients.iter().filter(|client| client.follows).count();
        clients.retain_mut(|client| {
            let before = client.follows;
            let stays = client.go_on(&mut site, followers < MAX_FOLLOWERS);
            followers += usize::from(client.follows && !before);
            stays
        });
        if followers > 0
            && let Some(text) = (site.news)()
        {
            clients.retain_mut(|client| {
                if client.follows {
                    client.answer.extend_from_slice(text.as_bytes());
                    return client.write();
                }
                true
            });
        }
        accept(listener, &mut clients);
    }
    Ok(())
}

fn accept(listener: &TcpListener, clients: &mut Vec<Client>) {
    while let Some((stream, from)) = accepted(listener.accept()) {
        if clients.len() == MAX_CLIENTS
            && let Some(idle) = clients.iter().position(|client| !client.answered || client.has_its_refusal())
        {
            // In the order in which they came.
            clients.remove(idle);
        }
        if clients.len() < MAX_CLIENTS && stream.set_nonblocking(true).is_ok() {
            clients.push(Client {
                stream,
                from: from.ip(),
                give_up: Instant::now() + PATIENCE,
                asked: Vec::new(),
                answer: Vec::new(),
                sent: 0,
                answered: false,
                follows: false,
                lingers: false,
            });
        }
    }
}

/// Longest answer that is read.
const MAX_ANSWER: usize = 64 << 20;

/// All that comes until the end of the connection, which must come by then. Somebody else may listen there, who sends a byte now
/// and then.
fn whole(stream: &mut TcpStream, until: Instant) -> std::io::Result<String> {
    let (mut all, mut bytes) = (Vec::new(), vec![0; 65_536]);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || all.len() > MAX_ANSWER {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut bytes) {
            Ok(0) => {
                let text = String::from_utf8(all).map_err(|_| std::io::Error::from(ErrorKind::InvalidData))?;
                // It may reach a terminal.
                return Ok(text.replace(|c: char| c.is_control() && !"\r\n\t".contains(c), "\u{fffd}"));
            }
            Ok(len) => all.extend_from_slice(&bytes[..len]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Asks a server of ours; the body of its answer.
pub fn get(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    get_within(address, path, PATIENCE * 5)
}

/// As [`get`], for whoever cannot wait so long.
pub fn get_within(address: SocketAddr, path: &str, patience: Duration) -> anyhow::Result<String> {
    let until = Instant::now() + patience;
    let mut stream = TcpStream::connect_timeout(&address, patience.min(PATIENCE))
        .with_context(|| format!("no answer from {address}"))?;
    // In one piece: a server that answers before it has read all of it resets the connection, and its answer with it.
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let text = whole(&mut stream, until).with_context(|| format!("no answer from {address}"))?;
    let (head, body) = text.split_once("\r\n\r\n").context("not an answer of HTTP")?;
    let status = head.lines().next().unwrap_or_default().to_owned();
    anyhow::ensure!(status.contains(" 200 "), "{address}: {}", body.trim());
    Ok(body.to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use super::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn an_answer_has_its_time_and_steers_no_terminal() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let _ = stream.read(&mut [0; 1024]).unwrap();
            stream.write_all(b"HTTP/1.1 500 No\r\n\r\n\x1b]0;x\x07").unwrap();
            drop(stream);
            let mut stream = listener.accept().unwrap().0;
            while stream.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let why = format!("{:#}", get(address, "/").unwrap_err());
        assert!(why.contains("]0;x") && !why.contains(char::is_control), "{why:?}");
        let begun = Instant::now();
        assert!(get(address, "/").is_err() && begun.elapsed() < PATIENCE * 6);
        server.join().unwrap();
    }

    #[test]
    fn escapes_of_a_path_are_read() {
        for (path, text) in
            [("/a%3Aup", "/a:up"), ("/", "/"), ("%", "%"), ("%zz%2", "%zz%2"), ("%C3%A9", "é"), ("%é", "%é")]
        {
            assert_eq!(unescaped(path), text);
        }
    }

    #[test]
    fn a_silent_client_delays_nobody_and_a_follower_hears_what_is_new() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let (over, number) = (AtomicBool::new(false), AtomicU32::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut answer = |asked: Question<'_>| match asked.path {
                    "/asked" => Ok(Answer::ok("text/plain", format!("{asked:?}"))),
                    "/live" => Ok(Answer::follow(&serde_json::json!("first"))),
                    "/" => Ok(Answer::ok("text/html", "x".repeat(3 << 20))),
                    _ => Ok(Answer::not_found("ask /")),
                };
                let mut news = || Some(event(&number.fetch_add(1, Ordering::Relaxed).into()));
                let site = Site { answer: &mut answer, news: &mut news, own_names_only: true };
                serve(&listener, &|| over.load(Ordering::Relaxed), site).unwrap();
            });
            // Browsers open connections that they may never use.
            let silent: Vec<TcpStream> = (0..5).map(|_| TcpStream::connect(address).unwrap()).collect();
            let begun = Instant::now();
            let page = ask(address, "GET / HTTP/1.1\r\nHost: localhost:99\r\n\r\n");
            assert!(page.starts_with("HTTP/1.1 200 OK") && page.len() > 3 << 20 && page.contains("default-src 'none'"));
            // The silent ones have still most of their time.
            assert!(begun.elapsed() < PATIENCE * 5);
            drop(silent);
            // Nor do more of them than there are places for.
            let silent: Vec<TcpStream> = (0..MAX_CLIENTS + 20).map(|_| TcpStream::connect(address).unwrap()).collect();
            assert!(ask(address, "GET /x HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
            drop(silent);
            // Nor those that were refused and stay.
            let refused = |_| {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(b"GET /x HTTP/1.1\r\n\r\n").unwrap();
                stream
            };
            let refused: Vec<TcpStream> = (0..MAX_CLIENTS + 20).map(refused).collect();
            assert!(ask(address, "GET /asked HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
            drop(refused);
            let mut follower = TcpStream::connect(address).unwrap();
            follower.write_all(b"GET /live HTTP/1.1\r\n\r\n").unwrap();
            let mut heard = String::new();
            while !heard.contains("data: 2\n\n") {
                let mut bytes = [0; 512];
                let len = follower.read(&mut bytes).unwrap();
                assert!(len > 0, "{heard}");
                heard += std::str::from_utf8(&bytes[..len]).unwrap();
            }
            assert!(heard.contains("data: \"first\"\n\ndata: 0\n\ndata: 1\n\n") && !heard.contains("Content-Length"));
            // A health check asks for the head alone, and gets it, also of what goes on without end.
            let head = ask(address, "HEAD / HTTP/1.1\r\n\r\n");
            assert!(head.contains(&format!("Content-Length: {}\r\n", 3 << 20)) && head.ends_with("\r\n\r\n"), "{head}");
            assert!(ask(address, "HEAD /live HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
            // Whoever scrapes may have parameters to add.
            let asked = ask(address, "GET /ask%65d?a=%20&b HTTP/1.1\r\nACCEPT: text/plain\r\n\r\n");
            assert!(asked.ends_with(r#"{ path: "/asked", query: "a=%20&b", accept: "text/plain" }"#), "{asked}");
            assert!(ask(address, "PUT / HTTP/1.1\r\n\r\n").contains("\r\nAllow: GET, HEAD\r\n"));
            // It was reset, and the answer lost with it.
            let long = "x".repeat(1 << 20);
            for (request, status) in [
                (format!("GET /{long} HTTP/1.1\r\n\r\n"), "414 URI Too Long"),
                (format!("GET / HTTP/1.1\r\nx: {long}\r\n\r\n"), "431 "),
                (format!("POST / HTTP/1.1\r\n\r\n{long}"), "405 "),
            ] {
                assert!(ask(address, &request).starts_with(&format!("HTTP/1.1 {status}")), "{status}");
            }
            for (request, status) in [
                ("POST / HTTP/1.1\r\n\r\n", "405"),
                ("GET /x HTTP/1.1\r\n\r\n", "404"),
                ("GET / HTTP/1.1\r\nHOST: evil.example:80\r\n\r\n", "403"),
                ("GET /x HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "404"),
                ("GET http://localhost:80/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", "200"),
                ("GET http://localhost HTTP/1.1\r\n\r\n", "200"),
                ("GET http://localhost/x HTTP/1.1\r\n\r\n", "404"),
                ("GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", "403"),
            ] {
                assert!(ask(address, request).starts_with(&format!("HTTP/1.1 {status}")), "{request}");
            }
            over.store(true, Ordering::Relaxed);
        });
    }
}
