//! A small HTTP server: GET alone, one request per connection, everything bounded.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Context as _;

/// How long a client may take to ask and to take its answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest request that is read.
const MAX_REQUEST: usize = 8 << 10;
/// How often a waiting server looks whether it shall end.
const GLANCE: Duration = Duration::from_millis(50);

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

impl Answer {
    /// 404, with where else to look.
    pub fn not_found(hint: &str) -> Self {
        Self { status: "404 Not Found", kind: "text/plain", body: format!("{hint}\n") }
    }

    /// JSON.
    pub fn json(value: &serde_json::Value) -> Self {
        Self { status: "200 OK", kind: "application/json", body: format!("{value}\n") }
    }
}

/// Listens.
pub fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Answers one client after the other until it is over: what a client does wrong is its own loss.
pub fn serve(
    listener: &TcpListener,
    is_over: &dyn Fn() -> bool,
    mut answer: impl FnMut(&str) -> anyhow::Result<Answer>,
) -> anyhow::Result<()> {
    while !is_over() {
        match listener.accept() {
            Ok((stream, _)) => drop(one(stream, &mut answer)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(GLANCE),
            Err(error) => return Err(error).context("cannot accept a connection"),
        }
    }
    Ok(())
}

fn one(mut stream: TcpStream, answer: &mut impl FnMut(&str) -> anyhow::Result<Answer>) -> anyhow::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let give_up = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let left = give_up.saturating_duration_since(Instant::now());
        anyhow::ensure!(!left.is_zero() && head.len() < MAX_REQUEST, "no request");
        stream.set_read_timeout(Some(left))?;
        let mut bytes = [0; 1024];
        let len = stream.read(&mut bytes)?;
        anyhow::ensure!(len > 0, "closed");
        head.extend_from_slice(&bytes[..len]);
    }
    let line = String::from_utf8_lossy(&head);
    let mut words = line.split([' ', '\r']);
    let Answer { status, kind, body } = match (words.next(), words.next()) {
        (Some("GET"), Some(path)) => answer(path).unwrap_or_else(|error| Answer {
            status: "500 Internal Server Error",
            kind: "text/plain",
            body: format!("{error:#}\n"),
        }),
        _ => Answer { status: "405 Method Not Allowed", kind: "text/plain", body: "only GET\n".to_owned() },
    };
    let len = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{body}"
    )?;
    Ok(())
}

/// Asks a server of ours; the body of its answer.
pub fn get(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    let mut stream =
        TcpStream::connect_timeout(&address, PATIENCE).with_context(|| format!("no answer from {address}"))?;
    stream.set_read_timeout(Some(PATIENCE * 5))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
    let mut text = String::new();
    stream.take(64 << 20).read_to_string(&mut text).with_context(|| format!("no answer from {address}"))?;
    let (head, body) = text.split_once("\r\n\r\n").context("not an answer of HTTP")?;
    let status = head.lines().next().unwrap_or_default().to_owned();
    anyhow::ensure!(status.contains(" 200 "), "{address}: {}", body.trim());
    Ok(body.to_owned())
}
