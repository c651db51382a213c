//! The device's side of a control socket: one thread waits in `poll(2)` for requests, and ends denylists in time.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mrc_afxdp::Private;
use mrc_afxdp::device::{Device, DeviceError, DeviceEvent};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use super::client::{Client, is_dead, remove_socket};
use super::denylist::{Lists, Outcome, Wanted, enforce};
use super::record::{self, Alarm, RecordConfig};
use super::snapshot::{self, Names};
use super::{
    Deny, Effect, Events, Happened, MAX_REQUEST, Recorded, Reply, Request, make_directory, own_directory, peer_user,
};
use crate::host::HostFile;
use crate::logging;

/// Connections at a time; one more waits for the place of an idle one.
const MAX_CLIENTS: usize = 16;
/// A client that neither asks nor reads for so long gives its place to one that waits. Clients wait longer for an answer.
const IDLE: Duration = Duration::from_millis(500);
const _: () = assert!(IDLE.as_millis() * 2 <= Client::PATIENCE.as_millis());
/// Events that are kept.
const KEPT: usize = 512;
/// How often denylists are looked after: leases end, new profiles are denied, too.
const TICK: Duration = Duration::from_millis(250);
/// How long closing a device waits for a question that is being answered.
const GOODBYE: Duration = Duration::from_millis(200);
/// The same while a recording must still be written.
const LAST_RECORDING: Duration = Duration::from_secs(3);
/// How long a device waits for others that make their sockets.
const PATIENCE: Duration = Duration::from_secs(1);
/// Rest of the thread when it cannot take a connection.
const REST: Duration = Duration::from_millis(20);

/// The control socket of a device; gone when dropped. Drop it before the device.
#[derive(Debug)]
pub struct ControlServer {
    path: PathBuf,
    pid: u32,
    wake: UnixStream,
    ended: Mutex<mpsc::Receiver<()>>,
    alarm: Arc<Alarm>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Log {
    kept: VecDeque<(u64, SystemTime, What)>,
    last: u64,
}

#[derive(Debug)]
enum What {
    Device(DeviceEvent),
    Control(String),
}

impl Log {
    fn push(&mut self, what: What) {
        self.last += 1;
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((self.last, SystemTime::now(), what));
    }

    fn after(&self, number: u64) -> Events {
        let oldest = self.kept.front().map_or(self.last + 1, |(first, ..)| *first);
        let events = self.kept.iter().filter(|(n, ..)| *n > number).map(|(number, at, what)| Happened {
            number: *number,
            unix_ms: at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64),
            text: match what {
                What::Device(event) => logging::line(event, |_| None),
                What::Control(text) => text.clone(),
            },
        });
        Events { events: events.collect(), lost: oldest.saturating_sub(number.saturating_add(1)) }
    }
}

impl ControlServer {
    /// Offers the control socket of `device`, whose host file is `host`. That it cannot is no reason not to run: it
    /// says so in the log.
    pub fn start(host: &HostFile, device: &Arc<Device>) -> Option<Self> {
        Self::listen(&own_directory(), &host.name, host.records(), device)
            .map_err(|error| {
                // One of the system is common, such as no right to make the folder. Ours says that the folder is not safe.
                let level = if error.raw_os_error().is_some() { log::Level::Info } else { log::Level::Warn };
                log::log!(level, "no control socket for this run: {error}");
            })
            .ok()
    }

    /// As [`Self::start`], in a folder of the caller's choice.
    ///
    /// # Errors
    /// The folder is not safe, or the socket cannot be made.
    pub fn listen(folder: &Path, host: &str, records: RecordConfig, device: &Arc<Device>) -> std::io::Result<Self> {
        make_directory(folder)?;
        let (listener, number, path) = bind(folder, &NUMBER)?;
        // A child that outlives this process would leave whoever asks without an answer.
        let private = Private::of(&listener);
        listener.set_nonblocking(true)?;
        let (wake, woken) = UnixStream::pair()?;
        let log = Arc::new(Mutex::new(Log::default()));
        let hears = Arc::clone(&log);
        let (alarming, alarmed) = UnixStream::pair()?;
        alarming.set_nonblocking(true)?;
        alarmed.set_nonblocking(true)?;
        let alarm = Arc::new(Alarm::new(alarming, records.gap));
        let (rings, on) = (Arc::clone(&alarm), records.clone());
        let records_any = device.recorded_packets() > 0;
        let observer = move |event: DeviceEvent| {
            let trigger = on.trigger(&event).filter(|_| records_any);
            lock(&hears).push(What::Device(event));
            if let Some(trigger) = trigger {
                rings.raise(trigger, Instant::now());
            }
        };
        device.observe_events(observer).map_err(std::io::Error::other)?;
        let names = Names {
            host: host.to_owned(),
            number,
            command: command(),
            interfaces: device.obtained().iter().map(|(name, _)| name.clone()).collect(),
        };
        let (alive, ended) = mpsc::channel();
        let device = Arc::downgrade(device);
        let alarm_of = Arc::clone(&alarm);
        let mut serving =
            Serving { device, names, log, lists: Lists::default(), clients: Vec::new(), alarm: alarm_of, records };
        let thread = std::thread::Builder::new().name("mrc-control".into());
        let run = move || {
            let _alive: mpsc::Sender<()> = alive;
            let _private = private;
            serving.run(&listener, &woken, &alarmed);
            serving.record_what_is_due(true);
        };
        let thread = mrc_afxdp::without_signals(|| thread.spawn(run))?;
        Ok(Self { path, pid: std::process::id(), wake, ended: Mutex::new(ended), alarm, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if std::process::id() != self.pid {
            // A child after `fork` has no such thread; the socket is the parent's.
            return core::mem::forget(thread);
        }
        let _ = std::fs::remove_file(&self.path);
        // The other end lives as long as the thread.
        let _ = self.wake.shutdown(std::net::Shutdown::Both);
        // The device's own thread may be the one that drops it while a question waits for that thread.
        let patience = if self.alarm.due().is_some() { LAST_RECORDING } else { GOODBYE };
        let _ = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner).recv_timeout(patience);
    }
}

/// Devices that this process has opened.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A socket whose name nobody else has, and the number in it. Where containers share the folder, each may have a process of this
/// number.
fn bind(folder: &Path, next: &AtomicU32) -> std::io::Result<(UnixListener, u32, PathBuf)> {
    // Between the look at a dead socket and its end nobody else may take its name. A process that was stopped meanwhile holds
    // nobody up.
    let alone = File::open(folder)?;
    let until = Instant::now() + PATIENCE;
    while alone.try_lock().is_err() && Instant::now() < until {
        std::thread::sleep(REST);
    }
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{}-{number}", std::process::id()));
        if is_dead(&path) {
            remove_socket(&path);
        }
        match UnixListener::bind(&path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            listener => return Ok((listener?, number, path)),
        }
    }
}

fn lock(log: &Mutex<Log>) -> std::sync::MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The command of `mrc`, or the name of another program.
fn command() -> String {
    let mut args = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned());
    let program = args.next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default().to_owned();
    if name == "mrc" { args.next().unwrap_or(name) } else { name }
}

/// What `accept` gave, if that is a connection. Where the process has no descriptor left, the listener stays readable: without the
/// rest the caller's loop would take a whole processor. For every server of this project that polls.
pub fn accepted<C>(outcome: std::io::Result<C>) -> Option<C> {
    static TOLD: AtomicBool = AtomicBool::new(false);
    match outcome {
        Ok(connection) => {
            TOLD.store(false, Ordering::Relaxed);
            Some(connection)
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) => None,
        Err(error) => {
            if !TOLD.swap(true, Ordering::Relaxed) {
                log::warn!("a connection cannot be taken: {error}; `ulimit -n` limits the open files of a process");
            }
            std::thread::sleep(REST);
            None
        }
    }
}

/// A connection.
struct Connection {
    // Before the connection, which is closed when it goes.
    _private: Private,
    stream: UnixStream,
    /// When bytes last went either way.
    active: Instant,
    asked: Vec<u8>,
    answer: Vec<u8>,
    sent: usize,
}

struct Serving {
    device: Weak<Device>,
    names: Names,
    log: Arc<Mutex<Log>>,
    lists: Lists,
    clients: Vec<Connection>,
    alarm: Arc<Alarm>,
    records: RecordConfig,
}

impl Serving {
    fn run(&mut self, listener: &UnixListener, woken: &UnixStream, mut alarmed: &UnixStream) {
        loop {
            let mut fds = vec![
                PollFd::from_borrowed_fd(woken.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(alarmed.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(
                    listener.as_fd(),
                    if self.has_room() { PollFlags::IN } else { PollFlags::empty() },
                ),
            ];
            fds.extend(self.clients.iter().map(|client| {
                let wants = if client.answer.is_empty() { PollFlags::IN } else { PollFlags::OUT };
                PollFd::from_borrowed_fd(client.stream.as_fd(), wants)
            }));
            match poll(&mut fds, self.timeout().as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(fds);
            if ready.first() == Some(&true) {
                return;
            }
            let _ = alarmed.read(&mut [0; 64]);
            self.record_what_is_due(false);
            let mut ready = ready.into_iter().skip(3);
            let mut clients = std::mem::take(&mut self.clients);
            clients.retain_mut(|client| !ready.next().unwrap_or(false) || self.serve(client).is_ok());
            self.clients = clients;
            self.accept(listener);
            if self.look_after().is_err() {
                return;
            }
        }
    }

    /// How long it may wait for questions.
    fn timeout(&self) -> Option<Timespec> {
        let tick = (!self.lists.is_idle()).then_some(TICK);
        let due = self.alarm.due().map(|at| at.saturating_duration_since(Instant::now()));
        let room = self.place_is_free_in().filter(|wait| !wait.is_zero());
        let wait = tick.into_iter().chain(due).chain(room).min()?;
        Some(Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() })
    }

    fn record_what_is_due(&mut self, ending: bool) {
        while let Some(trigger) = self.alarm.take(Instant::now(), ending) {
            let Some(device) = self.device.upgrade() else { return };
            match self.record(&device, trigger.name()) {
                Ok(Recorded { path, .. }) => {
                    log::warn!("{}: the last packets are in {}", trigger.name(), path.display())
                }
                Err(why) => log::warn!("{}: no recording: {why}", trigger.name()),
            }
        }
    }

    /// Writes down what the flight recorder holds.
    fn record(&mut self, device: &Device, reason: &str) -> Result<Recorded, String> {
        if device.recorded_packets() == 0 {
            return Err("the recorder is off: `packets` in the host file's table `recorder` is 0".to_owned());
        }
        let denied: Vec<u8> = self.lists.planes().into_iter().collect();
        let state = snapshot::state(&self.names, device, &denied, true).map_err(|error| error.to_string())?;
        let recording = device.take_recording().map_err(|error| error.to_string())?;
        let events = lock(&self.log).after(0).events;
        let wire = device.with_engine(|engine, _| engine.config().wire).map_err(|error| error.to_string())?;
        let recorded = record::write(&self.records, &wire, &self.name(), reason, &recording, &events, &state)
            .map_err(|error| format!("{}: {error}", self.records.folder.display()))?;
        lock(&self.log).push(What::Control(format!("recorded: {}", recorded.path.display())));
        Ok(recorded)
    }

    /// Process and number, as the socket is called.
    fn name(&self) -> String {
        format!("{}-{}", std::process::id(), self.names.number)
    }

    /// The client whose last byte is the oldest.
    fn most_idle(&self) -> Option<usize> {
        (0..self.clients.len()).min_by_key(|at| self.clients[*at].active)
    }

    /// Time until a new client finds a place; none while places are free.
    fn place_is_free_in(&self) -> Option<Duration> {
        let most_idle = self.most_idle().filter(|_| self.clients.len() >= MAX_CLIENTS)?;
        Some(IDLE.saturating_sub(self.clients[most_idle].active.elapsed()))
    }

    fn has_room(&self) -> bool {
        self.place_is_free_in().is_none_or(|wait| wait.is_zero())
    }

    fn accept(&mut self, listener: &UnixListener) {
        while self.has_room()
            && let Some((stream, _)) = accepted(listener.accept())
        {
            let own = rustix::process::geteuid().as_raw();
            let may = peer_user(&stream).is_some_and(|user| user == 0 || user == own);
            // Who may not is closed.
            if !may || stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.clients.len() >= MAX_CLIENTS
                && let Some(idle) = self.most_idle()
            {
                self.clients.remove(idle);
            }
            let (_private, active) = (Private::of(&stream), Instant::now());
            self.clients.push(Connection { _private, stream, active, asked: Vec::new(), answer: Vec::new(), sent: 0 });
        }
    }

    /// Goes on with a connection until it would block.
    ///
    /// # Errors
    /// It is to be closed.
    fn serve(&mut self, client: &mut Connection) -> Result<(), ()> {
        loop {
            while client.sent < client.answer.len() {
                match client.stream.write(&client.answer[client.sent..]) {
                    Ok(0) => return Err(()),
                    Ok(sent) => (client.sent, client.active) = (client.sent + sent, Instant::now()),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                    Err(_) => return Err(()),
                }
            }
            (client.answer, client.sent) = (Vec::new(), 0);
            if let Some(end) = client.asked.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = client.asked.drain(..=end).collect();
                client.answer = self.answer(&line).ok_or(())?;
                continue;
            }
            if client.asked.len() > MAX_REQUEST {
                return Err(());
            }
            let mut bytes = [0; 4096];
            match client.stream.read(&mut bytes) {
                Ok(0) => return Err(()),
                Ok(len) => {
                    client.asked.extend_from_slice(&bytes[..len]);
                    client.active = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(_) => return Err(()),
            }
        }
    }

    /// The answer to a line; none when the device is gone.
    fn answer(&mut self, line: &[u8]) -> Option<Vec<u8>> {
        let device = self.device.upgrade()?;
        let request: Request = match serde_json::from_slice(line) {
            Ok(request) => request,
            Err(error) => return said(&Reply::<()>::Error(format!("not understood: {error}"))),
        };
        let denied: Vec<u8> = self.lists.planes().into_iter().collect();
        let now = Instant::now();
        match request {
            Request::Stats => reply(snapshot::stats(&self.names, &device, &denied)),
            Request::State { evs } => reply(snapshot::state(&self.names, &device, &denied, evs)),
            Request::Events { after } => said(&Reply::Ok(lock(&self.log).after(after))),
            Request::Denylist => said(&Reply::Ok(self.lists.report(now))),
            Request::Deny(deny) => said(&self.deny(&device, deny, now).map_or_else(Reply::Error, Reply::Ok)),
            Request::Record => said(&self.record(&device, record::ASKED).map_or_else(Reply::Error, Reply::Ok)),
            Request::Allow { by } => match self.lists.remove(&by) {
                true => {
                    lock(&self.log).push(What::Control(format!("denylist of {by} ended")));
                    reply(self.enforce(&device))
                }
                false => said(&Reply::<()>::Error(format!("`{by}` has no denylist in force"))),
            },
        }
    }

    fn deny(&mut self, device: &Device, deny: Deny, now: Instant) -> Result<Effect, String> {
        let closed = |error: DeviceError| error.to_string();
        let up = device.with_engine(|engine, _| engine.ports_up()).map_err(closed)?;
        let wanted = self.lists.with(&deny, self.names.interfaces.len(), up, now)?;
        if deny.dry_run {
            return self.tell(device, wanted, true).map(|outcome| outcome.effect).map_err(closed);
        }
        let (before, by, because) = (self.lists.wanted(), deny.by.clone(), deny.because.clone());
        let text = format!("denylist of {by}: planes {:?}, {} EVs, {because}", deny.planes, deny.evs.len());
        self.lists.put(deny, now);
        if self.lists.wanted() != before {
            lock(&self.log).push(What::Control(text));
        }
        let effect = self.enforce(device).map_err(closed)?;
        match self.lists.is_idle() {
            true if wanted != Wanted::default() => Err("a queue pair would be left without a path".into()),
            _ => Ok(effect),
        }
    }

    fn tell(&self, device: &Device, wanted: Wanted, dry_run: bool) -> Result<Outcome, DeviceError> {
        let told = self.lists.told();
        device.with_engine(move |engine, now| enforce(engine, now, &wanted, &told, dry_run))
    }

    /// Has the engine deny what the lists say.
    fn enforce(&mut self, device: &Device) -> Result<Effect, DeviceError> {
        let outcome = self.tell(device, self.lists.wanted(), false)?;
        let effect = outcome.effect.clone();
        let Some(qp) = self.lists.settle(outcome, Instant::now()) else { return Ok(effect) };
        let text = format!("denylists ended: QP {qp:#x} was left without a healthy path");
        log::warn!("{text}");
        lock(&self.log).push(What::Control(text));
        let outcome = self.tell(device, self.lists.wanted(), false)?;
        let effect = outcome.effect.clone();
        self.lists.settle(outcome, Instant::now());
        Ok(effect)
    }

    fn look_after(&mut self) -> Result<(), DeviceError> {
        if self.lists.is_idle() {
            return Ok(());
        }
        for by in self.lists.expire(Instant::now()) {
            lock(&self.log).push(What::Control(format!("denylist of {by} ran out")));
        }
        let device = self.device.upgrade().ok_or(DeviceError::Closed)?;
        self.enforce(&device).map(drop)
    }
}

fn said<T: Serialize>(reply: &Reply<T>) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(reply).ok()?;
    line.push(b'\n');
    Some(line)
}

fn reply<T: Serialize>(result: Result<T, DeviceError>) -> Option<Vec<u8>> {
    said(&result.map_or_else(|error| Reply::Error(error.to_string()), Reply::Ok))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sixteen clients that said nothing hid the device from everybody else.
    #[test]
    fn a_client_that_comes_gets_the_place_of_the_one_that_was_idle_longest() {
        let path = std::env::temp_dir().join(format!("mrc-places-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (wake, woken) = UnixStream::pair().unwrap();
        let (alarming, alarmed) = UnixStream::pair().unwrap();
        alarmed.set_nonblocking(true).unwrap();
        let mut serving = Serving {
            device: Weak::new(),
            names: Names { host: String::new(), number: 0, command: String::new(), interfaces: Vec::new() },
            log: Arc::default(),
            lists: Lists::default(),
            clients: Vec::new(),
            alarm: Arc::new(Alarm::new(alarming, Duration::ZERO)),
            records: RecordConfig::default(),
        };
        let server = std::thread::spawn(move || serving.run(&listener, &woken, &alarmed));
        let connect = || {
            let stream = UnixStream::connect(&path).unwrap();
            stream.set_read_timeout(Some(Client::PATIENCE)).unwrap();
            stream
        };
        let mut clients: Vec<UnixStream> = (0..MAX_CLIENTS).map(|_| connect()).collect();
        let begin = Instant::now();
        // One that says something, though no whole request, is not the most idle.
        std::thread::sleep(Duration::from_millis(50));
        clients[0].write_all(b"{").unwrap();
        let waits = connect();
        assert_eq!(clients[1].read(&mut [0; 1]).unwrap(), 0, "closed");
        assert!(begin.elapsed() >= IDLE, "{:?}", begin.elapsed());
        for (number, stream) in clients.iter_mut().chain([&mut { waits }]).enumerate().filter(|(at, _)| *at != 1) {
            stream.set_nonblocking(true).unwrap();
            let read = stream.read(&mut [0; 1]);
            assert!(read.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "{number}: {read:?}");
        }
        wake.shutdown(std::net::Shutdown::Both).unwrap();
        server.join().unwrap();
        std::fs::remove_file(path).unwrap();
    }

    /// Two containers that share the folder, each with a process of this number: the second took the first one's socket away.
    #[test]
    fn a_socket_that_somebody_listens_at_keeps_its_name() {
        let folder = std::env::temp_dir().join(format!("mrc-bind-{}", std::process::id()));
        make_directory(&folder).unwrap();
        let bind = || bind(&folder, &AtomicU32::new(0)).unwrap();
        let (first, second) = (bind(), bind());
        assert_eq!((first.1, second.1), (0, 1));
        assert!(UnixStream::connect(&first.2).is_ok() && first.0.accept().is_ok());
        // One that was killed leaves its name.
        drop(first.0);
        let third = bind();
        assert_eq!((third.1, &third.2), (0, &first.2));
        // Two that begin together.
        let names: std::collections::BTreeSet<PathBuf> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(bind)).collect();
            let all: Vec<_> = all.into_iter().map(|one| one.join().unwrap()).collect();
            all.iter().map(|(_, _, path)| path.clone()).collect()
        });
        assert_eq!(names.len(), 8);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
