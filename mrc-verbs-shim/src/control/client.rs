//! The client of control sockets: finds those of this machine and sends requests.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::de::DeserializeOwned;

use super::{Reply, Request, own_directory};

/// Longest answer that is read.
const MAX_REPLY: u64 = 64 << 20;

/// Why a device did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The socket failed.
    #[error("control socket {}", path.display())]
    Socket {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The device does not answer in time.
    #[error("control socket {}: no answer; the process may be stopped", path.display())]
    Silent {
        /// Which.
        path: PathBuf,
    },
    /// The device said something else.
    #[error("control socket {}: not understood: {why}", path.display())]
    Answer {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The device refuses.
    #[error("{0}")]
    Refused(String),
}

/// A connection to a device's control socket.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Client {
    /// How long a device may take to answer.
    pub const PATIENCE: Duration = Duration::from_secs(2);

    /// Connects.
    ///
    /// # Errors
    /// Nobody listens, or it belongs to somebody else.
    pub fn connect(path: &Path) -> Result<Self, ControlError> {
        let open = || {
            let stream = open(path)?;
            stream.set_write_timeout(Some(Self::PATIENCE))?;
            Ok(BufReader::new(stream))
        };
        open().map(|stream| Self { path: path.to_owned(), stream }).map_err(|source| failed(path, source))
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// The device is gone, refuses, or answers something else.
    pub fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, ControlError> {
        self.send(request)?;
        self.answer()
    }

    /// Asks; [`Client::answer`] waits. For whoever asks several devices, which then work at the same time.
    ///
    /// # Errors
    /// The device is gone.
    pub fn send(&mut self, request: &Request) -> Result<(), ControlError> {
        let why = |error: serde_json::Error| ControlError::Answer { path: self.path.clone(), why: error.to_string() };
        let mut line = serde_json::to_vec(request).map_err(why)?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line).map_err(|source| failed(&self.path, source))
    }

    /// Waits for the answer to the oldest request that has none.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn answer<T: DeserializeOwned>(&mut self) -> Result<T, ControlError> {
        self.answer_by(Instant::now() + Self::PATIENCE)
    }

    /// As [`Client::answer`], until then at most. For whoever asks several devices, which then have the same time.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn answer_by<T: DeserializeOwned>(&mut self, until: Instant) -> Result<T, ControlError> {
        // An answer that is there already is read in any case; 0 would be for ever.
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let wrong = |why: String| ControlError::Answer { path: self.path.clone(), why };
        let mut answer = Vec::new();
        let timed = self.stream.get_ref().set_read_timeout(Some(left));
        let read = timed.and_then(|()| (&mut self.stream).take(MAX_REPLY).read_until(b'\n', &mut answer));
        read.map_err(|source| failed(&self.path, source))?;
        if answer.is_empty() {
            return Err(wrong("the device closed the connection".into()));
        }
        match serde_json::from_slice(&answer) {
            Ok(Reply::Ok(value)) => Ok(value),
            Ok(Reply::Error(why)) => Err(ControlError::Refused(why)),
            Err(error) => Err(wrong(error.to_string())),
        }
    }
}

/// A connection to a control socket. Of a process that is stopped the queue of connections fills up, and then `connect`
/// would wait for as long as that lasts.
fn open(path: &Path) -> std::io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn failed(path: &Path, source: std::io::Error) -> ControlError {
    let path = path.to_owned();
    match source.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => ControlError::Silent { path },
        _ => ControlError::Socket { path, source },
    }
}

/// A control socket.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// Process that has the device open.
    pub pid: u32,
    /// Its socket.
    pub path: PathBuf,
}

/// The control sockets of this user's programs, by process.
pub fn own_devices() -> Vec<Found> {
    in_folders(&[own_directory()])
}

/// The control sockets of all users' programs that this user may talk to: root all, others their own.
pub fn all_devices() -> Vec<Found> {
    let mut folders = vec![own_directory()];
    if rustix::process::geteuid().is_root() {
        let entries = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
        folders.extend(entries(Path::new("/run/user")).map(|user| user.join("mrc-engines")));
        let temporary = entries(&std::env::temp_dir()).filter(|path| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("mrc-engines-"))
        });
        folders.extend(temporary);
    }
    in_folders(&folders)
}

fn in_folders(folders: &[PathBuf]) -> Vec<Found> {
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    let mut found: Vec<Found> = files
        .filter_map(|file| {
            let pid = file.file_name().to_str()?.split_once('-')?.0.parse().ok()?;
            Some(Found { pid, path: file.path() })
        })
        .filter(|found| !is_left_behind(&found.path))
        .collect();
    found.sort();
    found
}

/// Whether the program was killed; its file is removed then.
fn is_left_behind(path: &Path) -> bool {
    let refused = open(path).is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused);
    if refused {
        let _ = std::fs::remove_file(path);
    }
    refused
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket that nobody accepts connections from, as of a process that is stopped.
    fn stopped(name: &str) -> (PathBuf, rustix::fd::OwnedFd) {
        let path = std::env::temp_dir().join(format!("mrc-client-{}-{name}", std::process::id()));
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&socket, 1).unwrap();
        (path, socket)
    }

    #[test]
    fn a_process_that_is_stopped_holds_nobody_up() {
        let (path, _socket) = stopped("silent");
        let (start, short) = (Instant::now(), Duration::from_millis(50));
        let mut clients: Vec<Client> = (0..2).map(|_| Client::connect(&path).unwrap()).collect();
        for client in &mut clients {
            client.send(&Request::Stats).unwrap();
        }
        for client in &mut clients {
            let answer = client.answer_by::<serde_json::Value>(start + short);
            assert!(matches!(answer, Err(ControlError::Silent { .. })), "{answer:?}");
        }
        // The queue of connections is full: nothing waits for room in it.
        let full = Client::connect(&path);
        assert!(matches!(full, Err(ControlError::Silent { .. })), "{full:?}");
        assert!(!is_left_behind(&path) && path.exists());
        assert!(start.elapsed() < Client::PATIENCE, "{:?}", start.elapsed());
        std::fs::remove_file(path).unwrap();
    }
}
