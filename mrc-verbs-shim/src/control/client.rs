//! The client of control sockets: finds those of this machine and sends requests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::{Reply, Request, own_directory};

/// How long a device may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest answer that is read.
const MAX_REPLY: u64 = 64 << 20;

/// Why a device did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The socket failed.
    #[error("control socket {}: {source}", path.display())]
    Socket {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
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
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens, or it belongs to somebody else.
    pub fn connect(path: &Path) -> Result<Self, ControlError> {
        let connect = || {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(BufReader::new(stream))
        };
        connect()
            .map(|stream| Self { path: path.to_owned(), stream })
            .map_err(|source| ControlError::Socket { path: path.to_owned(), source })
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
        let sent = self.stream.get_mut().write_all(&line);
        sent.map_err(|source| ControlError::Socket { path: self.path.clone(), source })
    }

    /// Waits for the answer to the oldest request that has none.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn answer<T: DeserializeOwned>(&mut self) -> Result<T, ControlError> {
        let wrong = |why: String| ControlError::Answer { path: self.path.clone(), why };
        let mut answer = Vec::new();
        let read = (&mut self.stream).take(MAX_REPLY).read_until(b'\n', &mut answer);
        read.map_err(|source| ControlError::Socket { path: self.path.clone(), source })?;
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
    let refused = UnixStream::connect(path).is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused);
    if refused {
        let _ = std::fs::remove_file(path);
    }
    refused
}
