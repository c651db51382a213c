//! The client of control sockets: finds those of this machine and sends requests.

use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType};
use serde::de::DeserializeOwned;

use super::{Reply, Request, check_directory, own_directory, peer_user};

/// Longest answer that is read, in bytes. A state with as many queue pairs as one lists has about 9 MB beside its profiles.
const MAX_REPLY: usize = 32 << 20;
/// Time that each device has, also behind one that used up what all share: what it has said already is read.
const GRACE: Duration = Duration::from_millis(20);
/// Sockets that are looked at in the folder of another user.
const MAX_OF_OTHERS: usize = 32;

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
    /// The device is there and does not answer: not in time, or it has no place for one more connection.
    #[error("control socket {}: no answer; the process may be stopped, or too many others ask it", path.display())]
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
    has_answered: bool,
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
        open()
            .map(|stream| Self { path: path.to_owned(), stream, has_answered: false })
            .map_err(|source| failed(path, source))
    }

    /// Whether the device has not closed the connection. While others wait it closes those that ask nothing.
    pub fn is_open(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(self.stream.get_ref(), &mut [0; 1], flags) {
            Ok((_, len)) => len > 0,
            Err(error) => error == rustix::io::Errno::AGAIN,
        }
    }

    /// Why the device closed the connection. One that ended took its socket with it; another has no place for a connection that
    /// it closes before the first answer.
    fn closed(&self) -> ControlError {
        let path = self.path.clone();
        match self.has_answered || open(&path).is_err() {
            true => ControlError::Answer { path, why: "the device closed the connection".to_owned() },
            false => ControlError::Silent { path },
        }
    }

    fn failed(&self, source: std::io::Error) -> ControlError {
        match source.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => self.closed(),
            _ => failed(&self.path, source),
        }
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
        self.stream.get_mut().write_all(&line).map_err(|source| self.failed(source))
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
        let wrong = |why: &str| ControlError::Answer { path: self.path.clone(), why: why.to_owned() };
        let until = until.max(Instant::now() + GRACE);
        let mut answer = Vec::new();
        while answer.last() != Some(&b'\n') {
            // Time for the whole answer: root asks programs of other users, too, and one may send a byte now and then.
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ControlError::Silent { path: self.path.clone() });
            }
            let timed = self.stream.get_ref().set_read_timeout(Some(left));
            if let Err(source) = timed.and_then(|()| self.stream.fill_buf().map(drop)) {
                return Err(self.failed(source));
            }
            let part = self.stream.buffer();
            if part.is_empty() {
                return Err(self.closed());
            }
            let len = part.iter().position(|byte| *byte == b'\n').map_or(part.len(), |end| end + 1);
            if answer.len() + len > MAX_REPLY {
                return Err(wrong("the answer is too long"));
            }
            answer.extend_from_slice(&part[..len]);
            self.stream.consume(len);
        }
        self.has_answered = true;
        match understood(&answer) {
            Ok(Reply::Ok(value)) => Ok(value),
            Ok(Reply::Error(why)) => Err(ControlError::Refused(why)),
            Err(error) => Err(wrong(&error.to_string())),
        }
    }
}

/// An answer without control characters: texts of a program may reach the terminal of another user.
fn understood<T: DeserializeOwned>(answer: &[u8]) -> serde_json::Result<Reply<T>> {
    let may_have = answer.windows(2).any(|two| match *two {
        // JSON writes most of them as escapes.
        [b'\\', next] => !b"\"\\/".contains(&next),
        // DEL, and those of Latin-1.
        [0x7f, _] | [0xc2, 0x80..=0x9f] => true,
        _ => false,
    });
    if !may_have {
        return serde_json::from_slice(answer);
    }
    let mut value = serde_json::from_slice(answer)?;
    clean(&mut value);
    serde_json::from_value(value)
}

fn clean(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) => *text = crate::visible(text),
        serde_json::Value::Array(all) => all.iter_mut().for_each(clean),
        serde_json::Value::Object(all) => {
            *all = std::mem::take(all).into_iter().map(|(name, value)| (crate::visible(&name), value)).collect();
            all.values_mut().for_each(clean);
        }
        _ => {}
    }
}

/// Whether nobody listens there any more: its program was killed.
pub(super) fn is_dead(path: &Path) -> bool {
    open(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
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

/// The control sockets that a search found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Devices {
    /// Those that somebody listens at.
    pub found: Vec<Found>,
    /// Why the folder of this user's own programs was not searched, in one sentence: others could enter it, or it cannot be read.
    pub refused: Option<String>,
}

/// The control sockets of this user's programs, by process.
pub fn own_devices() -> Devices {
    own_devices_in(&own_directory())
}

fn own_devices_in(folder: &Path) -> Devices {
    match in_folder(folder, rustix::process::geteuid().as_raw()) {
        Ok(found) => Devices { found, refused: None },
        Err(error) if error.raw_os_error().is_none() => Devices { found: Vec::new(), refused: Some(error.to_string()) },
        Err(error) => {
            Devices { found: Vec::new(), refused: Some(format!("cannot read {}: {error}", folder.display())) }
        }
    }
}

/// The control sockets of all users' programs that this user may talk to: root all, others their own. Own ones come first,
/// then those of the other users in turn: nobody crowds out the others with many sockets.
pub fn all_devices() -> Devices {
    let mut devices = own_devices();
    if rustix::process::geteuid().is_root() {
        // What is wrong with the folder of another user is told to that user.
        let of_user = |(folder, user): (PathBuf, u32)| in_folder(&folder, user).unwrap_or_default();
        devices.found.extend(in_turn(folders_of_others().map(of_user).collect()));
    }
    devices
}

/// Where programs of other users may have their sockets. The name tells whose a folder must be: anybody can make one in the
/// folder of temporary files.
fn folders_of_others() -> impl Iterator<Item = (PathBuf, u32)> {
    let entries = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named = |entry: &std::fs::DirEntry, prefix: &str| {
        let user = entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok()?;
        Some((entry.path(), user))
    };
    let sessions = entries("/run/user".into()).filter_map(move |entry| named(&entry, ""));
    let temporary = entries(std::env::temp_dir()).filter_map(move |entry| named(&entry, "mrc-engines-"));
    sessions.map(|(folder, user)| (folder.join("mrc-engines"), user)).chain(temporary)
}

fn in_turn(of_users: Vec<Vec<Found>>) -> Vec<Found> {
    let longest = of_users.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest).flat_map(|at| of_users.iter().filter_map(move |found| found.get(at).cloned())).collect()
}

/// The living sockets of `user` in a folder that must be that user's alone. Without a folder there are none.
fn in_folder(folder: &Path, user: u32) -> std::io::Result<Vec<Found>> {
    let files = match check_directory(folder, user).and_then(|()| std::fs::read_dir(folder)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        files => files?,
    };
    let is_own = user == rustix::process::geteuid().as_raw();
    let sockets = files.flatten().filter_map(|file| {
        let pid = file.file_name().to_str()?.split_once('-')?.0.parse().ok()?;
        Some(Found { pid, path: file.path() })
    });
    let mut found: Vec<Found> = sockets
        .take(if is_own { usize::MAX } else { MAX_OF_OTHERS })
        .filter(|found| match open(&found.path) {
            Ok(stream) => peer_user(&stream) == Some(user),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                if is_own {
                    remove_socket(&found.path);
                }
                false
            }
            // One that does not answer is told by name.
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        })
        .collect();
    found.sort();
    Ok(found)
}

/// Removes what a program that was killed left behind, in a folder that is ours alone. A file that is no socket also refuses
/// connections: it stays.
pub(super) fn remove_socket(path: &Path) {
    if std::fs::symlink_metadata(path).is_ok_and(|about| about.file_type().is_socket()) {
        let _ = std::fs::remove_file(path);
    }
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
        assert!(start.elapsed() < Client::PATIENCE, "{:?}", start.elapsed());
        std::fs::remove_file(path).unwrap();
    }

    /// What a client hears of a device that answers so.
    fn heard(name: &str, answer: impl FnOnce(UnixStream) + Send + 'static) -> Result<serde_json::Value, ControlError> {
        let path = std::env::temp_dir().join(format!("mrc-client-{}-{name}", std::process::id()));
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let device = std::thread::spawn(move || answer(listener.accept().unwrap().0));
        let mut client = Client::connect(&path).unwrap();
        client.send(&Request::Stats).unwrap();
        let heard = client.answer_by(Instant::now() + Duration::from_millis(300));
        drop(client);
        device.join().unwrap();
        std::fs::remove_file(path).unwrap();
        heard
    }

    #[test]
    fn a_program_that_answers_byte_by_byte_or_without_end_holds_nobody_up() {
        let start = Instant::now();
        let dribble = |mut stream: UnixStream| {
            while stream.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        assert!(matches!(heard("dribble", dribble), Err(ControlError::Silent { .. })));
        let flood = |mut stream: UnixStream| while stream.write_all(&[b' '; 65_536]).is_ok() {};
        assert!(heard("flood", flood).is_err());
        assert!(start.elapsed() < Client::PATIENCE, "{:?}", start.elapsed());
    }

    /// It was taken for one that ended, and `mrc stats` said that there is no device.
    #[test]
    fn a_device_that_has_no_place_for_a_connection_is_silent_and_one_that_ends_is_gone() {
        let path = std::env::temp_dir().join(format!("mrc-client-{}-full", std::process::id()));
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let ask = |client: &mut Client| {
            client.send(&Request::Stats).and_then(|()| client.answer::<serde_json::Value>()).unwrap_err()
        };
        for unread in [false, true] {
            let mut client = Client::connect(&path).unwrap();
            assert!(client.is_open());
            if unread {
                client.send(&Request::Stats).unwrap();
            }
            drop(listener.accept().unwrap());
            assert!(!client.is_open());
            let error = ask(&mut client);
            assert!(matches!(error, ControlError::Silent { .. }), "{error}");
            // It asked whether somebody listens still.
            drop(listener.accept().unwrap());
        }
        let mut client = Client::connect(&path).unwrap();
        drop((listener.accept().unwrap(), listener));
        let error = ask(&mut client);
        assert!(matches!(error, ControlError::Answer { .. }), "{error}");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn no_answer_brings_control_characters_to_a_terminal() {
        let texts = ["\u{1b}]0;x\u{7}", "two\nlines", "\u{7f}", "\u{9b}31m"];
        for text in texts {
            let answer = serde_json::json!({ "ok": { text: [text, 7] } });
            let said = heard("terminal", move |mut stream| writeln!(stream, "{answer}").unwrap()).unwrap();
            let (name, value) = said.as_object().unwrap().iter().next().unwrap();
            for shown in [name, value[0].as_str().unwrap()] {
                assert!(!shown.contains(char::is_control) && shown.contains('\u{fffd}'), "{shown:?}");
            }
            assert_eq!(value[1], 7);
            let refused = serde_json::json!({ "error": text });
            let said = heard("terminal", move |mut stream| writeln!(stream, "{refused}").unwrap());
            assert!(matches!(said, Err(ControlError::Refused(why)) if !why.contains(char::is_control)));
        }
        let plain = serde_json::json!({ "ok": "a \"word\", \\, é and 中" });
        let said = heard("plain", move |mut stream| writeln!(stream, "{plain}").unwrap()).unwrap();
        assert_eq!(said, "a \"word\", \\, é and 中");
    }

    #[test]
    fn whoever_looks_for_devices_removes_nothing_but_dead_sockets_of_its_own() {
        let root = std::env::temp_dir().join(format!("mrc-find-{}", std::process::id()));
        let folder = root.join("engines");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let (file, dead) = (folder.join("10-network.conf"), folder.join("11-0"));
        std::fs::write(&file, "mine").unwrap();
        drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
        let _living = std::os::unix::net::UnixListener::bind(folder.join("12-0")).unwrap();
        let user = rustix::process::geteuid().as_raw();
        // Where somebody else may have put a link, and a folder that is not the user's of its name.
        let link = root.join("link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        assert!(in_folder(&link, user).is_err() && in_folder(&folder, user + 1).is_err());
        assert!(file.exists() && dead.exists());
        let found = in_folder(&folder, user).unwrap();
        assert_eq!(found, [Found { pid: 12, path: folder.join("12-0") }]);
        assert!(file.exists() && !dead.exists());
        std::fs::remove_dir_all(root).unwrap();
    }

    /// It looked as if there were no devices.
    #[test]
    fn a_folder_that_is_not_searched_is_named_with_its_cure() {
        let root = std::env::temp_dir().join(format!("mrc-refused-{}", std::process::id()));
        let folder = root.join("engines");
        assert_eq!(own_devices_in(&folder), Devices::default(), "no program has run yet");
        std::fs::create_dir_all(&folder).unwrap();
        let with = |mode| {
            std::fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            own_devices_in(&folder).refused
        };
        assert_eq!(with(0o700), None);
        let why = with(0o755).unwrap();
        assert!(why.starts_with(folder.to_str().unwrap()) && why.contains("mode 0700"), "{why}");
        let why = own_devices_in(&folder.join("y".repeat(300))).refused.unwrap();
        assert!(why.starts_with("cannot read ") && why.contains("too long"), "{why}");
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_user_with_many_sockets_does_not_crowd_out_the_others() {
        let of = |user: &str, count: u32| -> Vec<Found> {
            (0..count).map(|pid| Found { pid, path: format!("{user}/{pid}-0").into() }).collect()
        };
        let all = in_turn(vec![of("a", 100), of("b", 2), of("c", 0)]);
        let order: Vec<String> = all.iter().take(5).map(|found| found.path.display().to_string()).collect();
        assert_eq!(order, ["a/0-0", "b/0-0", "a/1-0", "b/1-0", "a/2-0"]);
        assert_eq!(all.len(), 102);
    }
}
