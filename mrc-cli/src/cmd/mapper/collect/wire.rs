//! Where agents meet the collector: an address, TCP or a Unix socket, and a connection of either.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;
use mrc_verbs_shim::control::accepted;

use crate::http;
use crate::tcp::end_when_dead;

/// `127.0.0.1:9713`, or the path of a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// TCP.
    Tcp(SocketAddr),
    /// TCP, to a name and a port, looked up for each connection: a collector may move.
    Named(String),
    /// A Unix socket.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return Ok(Self::Unix(text.into()));
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::Tcp(address));
        }
        let is_name = |name: &str| !name.is_empty() && !name.contains(|c: char| c == ':' || c.is_whitespace());
        match text.rsplit_once(':') {
            Some((name, port)) if is_name(name) && port.parse::<u16>().is_ok() => Ok(Self::Named(text.to_owned())),
            _ => Err(format!(
                "`{text}` is no address: write 127.0.0.1:9713 or collector.example:9713, or ./map.sock for a Unix socket"
            )),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Named(name) => name.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

impl Address {
    /// Whether what is sent there leaves this machine. The fabric's key alone signs; it does not hide what is told, nor who
    /// the collector is.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            // Who answers for another name may change (RFC 6761 has this one stay).
            Self::Named(name) => name.starts_with("localhost:"),
            Self::Unix(_) => true,
        }
    }

    /// Refuses what needs certificates and has none.
    ///
    /// # Errors
    /// With the cure.
    pub fn check(&self, has_tls: bool) -> anyhow::Result<()> {
        anyhow::ensure!(
            has_tls || self.is_local(),
            "{self} is no address of this machine alone: give --tls FOLDER with ca.pem, cert.pem and key.pem, or use \
             127.0.0.1 or the path of a Unix socket"
        );
        Ok(())
    }

    /// Listens.
    ///
    /// # Errors
    /// The address, and why it cannot be had.
    pub fn listen(&self) -> anyhow::Result<Listener> {
        let path = match self {
            Self::Tcp(address) => return Ok(Listener::Tcp(http::listen(*address)?)),
            Self::Named(name) => return Ok(Listener::Tcp(http::listen(looked_up(name)?[0])?)),
            Self::Unix(path) => path,
        };
        // What an earlier collector left behind; a living one keeps its socket.
        if std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
            anyhow::ensure!(UnixStream::connect(path).is_err(), "another collector listens at {self}");
            std::fs::remove_file(path).with_context(|| format!("cannot replace {self}"))?;
        }
        let listener = UnixListener::bind(path).with_context(|| format!("cannot listen at {self}"))?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Listener::Unix(listener))
    }

    /// Connects within `patience`, which is also the longest time that a read or a write may take later, five times over.
    ///
    /// # Errors
    /// Nobody listens.
    pub fn connect(&self, patience: Duration) -> io::Result<Wire> {
        let wire = match self {
            Self::Tcp(address) => Wire::Tcp(connected(&[*address], patience)?),
            Self::Named(name) => Wire::Tcp(connected(&looked_up(name)?, patience)?),
            Self::Unix(path) => Wire::Unix(UnixStream::connect(path)?),
        };
        let longest = Some(patience * 5);
        match &wire {
            Wire::Tcp(stream) => stream.set_read_timeout(longest).and_then(|()| stream.set_write_timeout(longest))?,
            Wire::Unix(stream) => stream.set_read_timeout(longest).and_then(|()| stream.set_write_timeout(longest))?,
        }
        Ok(wire)
    }
}

/// The addresses of a name and port, at least one.
fn looked_up(name: &str) -> io::Result<Vec<SocketAddr>> {
    let found: Vec<_> = name.to_socket_addrs().map_err(|error| io::Error::other(format!("{name}: {error}")))?.collect();
    if found.is_empty() { Err(io::Error::other(format!("{name} has no address"))) } else { Ok(found) }
}

/// A connection to the first of these that answers.
fn connected(addresses: &[SocketAddr], patience: Duration) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect_timeout(address, patience) {
            Ok(stream) => return end_when_dead(&stream).map(|()| stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// A place to listen at.
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(UnixListener),
}

impl Listener {
    /// The next connection, made non-blocking, and who it is from; none when nobody waits.
    pub fn accept(&self) -> Option<(Wire, String)> {
        let (wire, from) = match self {
            Self::Tcp(listener) => {
                let (stream, from) = accepted(listener.accept())?;
                stream.set_nonblocking(true).ok()?;
                end_when_dead(&stream).ok()?;
                (Wire::Tcp(stream), from.ip().to_string())
            }
            Self::Unix(listener) => {
                let (stream, _) = accepted(listener.accept())?;
                stream.set_nonblocking(true).ok()?;
                (Wire::Unix(stream), "a local agent".to_owned())
            }
        };
        Some((wire, from))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

/// A connection.
pub enum Wire {
    /// TCP.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
}

impl Read for Wire {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(bytes),
            Self::Unix(stream) => stream.read(bytes),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::sockopt;

    use super::*;

    #[test]
    fn both_ends_notice_that_the_other_machine_is_gone() {
        let listener = http::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        let agent = address.connect(Duration::from_secs(9)).unwrap();
        let listener = Listener::Tcp(listener);
        let (collector, _) = std::iter::repeat_with(|| listener.accept()).flatten().next().unwrap();
        for wire in [agent, collector] {
            assert!(sockopt::socket_keepalive(&wire).unwrap());
            let silence = sockopt::tcp_keepidle(&wire).unwrap();
            let tests = sockopt::tcp_keepintvl(&wire).unwrap() * sockopt::tcp_keepcnt(&wire).unwrap();
            assert_eq!((silence + tests).as_secs(), 25);
            assert_eq!(sockopt::tcp_user_timeout(&wire).unwrap(), 25_000);
        }
    }

    #[test]
    fn only_what_stays_on_this_machine_may_do_without_certificates() {
        let address = |text: &str| text.parse::<Address>().unwrap();
        for local in ["127.0.0.1:9713", "[::1]:9713", "localhost:9713", "./map.sock", "/run/mrc/map.sock"] {
            assert!(address(local).check(false).is_ok(), "{local}");
        }
        for open in ["0.0.0.0:9713", "[::]:9713", "10.1.2.3:9713", "map.example:9713", "localhost.example:9713"] {
            let refused = address(open).check(false).unwrap_err().to_string();
            assert!(refused.contains("--tls"), "{refused}");
            assert!(address(open).check(true).is_ok(), "{open}");
        }
        for none in ["map", "map:", ":9713", "map:97130", "a map:9713", "::1:9713", ""] {
            assert!(none.parse::<Address>().is_err(), "{none}");
        }
    }

    /// The first address of a name may be one at which nobody listens, as where a host has IPv6 and the collector has not.
    #[test]
    fn a_name_stands_for_all_of_its_addresses() {
        let listener = http::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let here = listener.local_addr().unwrap();
        let nobody = SocketAddr::from(([127, 0, 0, 2], here.port()));
        assert!(connected(&[nobody, here], Duration::from_secs(9)).is_ok());
        assert!(connected(&[nobody], Duration::from_secs(9)).is_err());
        let name = format!("localhost:{}", here.port()).parse::<Address>().unwrap();
        assert!(name.connect(Duration::from_secs(9)).is_ok());
        let unknown = "none.invalid:9713".parse::<Address>().unwrap().connect(Duration::from_secs(9));
        assert!(unknown.err().unwrap().to_string().contains("none.invalid:9713"));
    }
}
