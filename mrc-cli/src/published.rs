//! Counters of a running device for `mrc stats`: a socket in the file system that answers each connection with one JSON object.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mrc_afxdp::device::DeviceStats;
use mrc_core::Discard;
use mrc_verbs_shim::Context;
use serde::{Deserialize, Serialize};

/// How long a program may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a running device has counted.
#[derive(Debug, Serialize, Deserialize)]
pub struct Counters {
    /// Process.
    pub pid: u32,
    /// What it runs, e.g. `write-bw`.
    pub command: String,
    /// Host of its host file.
    pub host: String,
    /// Seconds since the device was opened.
    pub seconds: f64,
    /// Frames that had no further effect, by reason; those that never happened are left out.
    pub discards: BTreeMap<String, u64>,
    /// The engine's other counters that are not zero.
    pub counters: BTreeMap<String, u64>,
    /// Planes, plane 0 first.
    pub planes: Vec<Plane>,
}

/// What one plane has counted.
#[derive(Debug, Serialize, Deserialize)]
pub struct Plane {
    /// Interface.
    pub interface: String,
    /// Frames the engine sent.
    pub tx_packets: u64,
    /// Frames the engine received.
    pub rx_packets: u64,
    /// Frames the kernel dropped for lack of room.
    pub rx_dropped: u64,
}

impl Counters {
    fn new(host: &str, interfaces: &[String], stats: &DeviceStats, seconds: f64) -> Self {
        let names: Vec<&str> = Discard::ALL.iter().map(|why| why.name()).collect();
        let (mut discards, mut counters) = (BTreeMap::new(), BTreeMap::new());
        let mut seen = 0;
        stats.engine.for_each(|name, value| {
            // Discards come first and may share a name with a counter.
            let list = if seen < names.len() { &mut discards } else { &mut counters };
            seen += 1;
            if value > 0 {
                list.insert(name.to_owned(), value);
            }
        });
        let planes =
            interfaces.iter().zip(&stats.engine.ports).zip(&stats.ports).map(|((interface, engine), port)| Plane {
                interface: interface.clone(),
                tx_packets: engine.tx_packets,
                rx_packets: engine.rx_packets,
                rx_dropped: port.rx_dropped,
            });
        let command = std::env::args().nth(1).unwrap_or_default();
        Self {
            pid: std::process::id(),
            command,
            host: host.to_owned(),
            seconds,
            discards,
            counters,
            planes: planes.collect(),
        }
    }
}

/// Where programs of this user publish.
fn directory() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return "/run/mrc/engines".into();
    }
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    own.unwrap_or_else(|| std::env::temp_dir().join(format!("mrc-{}", rustix::process::geteuid().as_raw())))
        .join("mrc-engines")
}

/// Published counters; withdrawn on drop.
pub struct Published {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Published {
    /// Publishes the counters of `context`. That it cannot is no reason not to run: it says so in the log.
    pub fn start(host: &str, context: &Context) -> Option<Self> {
        Self::listen(&directory(), host, context)
            .map_err(|error| log::info!("no `mrc stats` for this run: {error}"))
            .ok()
    }

    fn listen(directory: &Path, host: &str, context: &Context) -> std::io::Result<Self> {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let path = directory.join(format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
        // A process of the same number was killed.
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        let (stop, host, context, since) =
            (Arc::new(AtomicBool::new(false)), host.to_owned(), context.clone(), Instant::now());
        let interfaces: Vec<String> = context.device().obtained().iter().map(|(name, _)| name.clone()).collect();
        let told = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("mrc-stats".into()).spawn(move || {
            for stream in listener.incoming() {
                if told.load(Ordering::Acquire) {
                    return;
                }
                let (Ok(mut stream), Ok(stats)) = (stream, context.stats()) else { continue };
                let counters = Counters::new(&host, &interfaces, &stats, since.elapsed().as_secs_f64());
                // Whoever asked may be gone.
                let _ = stream.set_write_timeout(Some(PATIENCE));
                let _ = stream.write_all(&serde_json::to_vec(&counters).unwrap_or_default());
            }
        })?;
        Ok(Self { path, stop, thread: Some(thread) })
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let woken = UnixStream::connect(&self.path).is_ok();
        let _ = std::fs::remove_file(&self.path);
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

/// What all running programs of this user publish, by process; files of programs that were killed are removed.
pub fn all() -> Vec<Counters> {
    let files = std::fs::read_dir(directory()).into_iter().flatten().flatten();
    let mut all: Vec<Counters> = files.filter_map(|file| ask(&file.path())).collect();
    all.sort_by_key(|counters| counters.pid);
    all
}

fn ask(path: &Path) -> Option<Counters> {
    let mut stream = match UnixStream::connect(path) {
        Ok(stream) => stream,
        Err(error) => {
            if error.kind() == std::io::ErrorKind::ConnectionRefused {
                let _ = std::fs::remove_file(path);
            }
            return None;
        }
    };
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut text = Vec::new();
    stream.read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discards_stand_apart_from_what_else_was_counted() {
        let mut engine = mrc_core::Stats::default();
        engine.tx_data = 7;
        engine.ports[1].tx_packets = 9;
        let stats = DeviceStats {
            at: mrc_core::Instant::from_nanos(0),
            engine,
            ports: vec![mrc_afxdp::PortStats::default(); 2],
            paths: Vec::new(),
        };
        let counters = Counters::new("hA", &["p0".into(), "p1".into()], &stats, 1.0);
        assert!(counters.discards.is_empty(), "{counters:?}");
        assert_eq!(counters.counters.into_iter().collect::<Vec<_>>(), [("tx_data".to_owned(), 7)]);
        assert_eq!((counters.planes[1].interface.as_str(), counters.planes[1].tx_packets), ("p1", 9));
    }
}
