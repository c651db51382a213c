//! The directories `counters` and `hw_counters` of the port in the view of `/sys` that `mrc verbs-run` makes.
//!
//! A thread asks the devices of this host over their control sockets and writes one file for each counter. A device is of this host
//! if its host file has the same name and interfaces, and a thread of its process is in our network namespace. The sums include
//! devices that are closed meanwhile, so a counter never goes back.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::Context as _;
use mrc_core::{Discard, Stats};
use mrc_verbs_shim::control::{Client, Counters, Devices, Request, all_devices};
use mrc_verbs_shim::host::HostFile;

/// Time between two looks at the devices. `hw_counters/lifespan` says it in milliseconds, as drivers do.
const EVERY: Duration = Duration::from_secs(1);

/// Why a received frame counts in `port_rcv_errors`: it is damaged, or no packet of MRC.
const DAMAGED: [Discard; 7] =
    [Discard::L3Bad, Discard::L3Len, Discard::UdpBad, Discard::Short, Discard::Opcode, Discard::Tver, Discard::Icrc];

/// Values by file, relative to the port's directory.
type Values = BTreeMap<String, u64>;

/// Keeps the files current while it lives.
pub(super) struct Live(#[allow(dead_code, reason = "the thread ends when it is dropped")] Sender<()>);

impl Live {
    /// Writes the files below `port` and starts the thread that keeps them current.
    pub(super) fn start(host: &HostFile, port: &Path) -> anyhow::Result<Self> {
        let mut files = Files::new(host, port);
        files.look();
        let (stop, stopped) = channel();
        let work = move || {
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                files.look();
            }
        };
        std::thread::Builder::new().name("mrc-counters".into()).spawn(work).context("cannot make a thread")?;
        Ok(Self(stop))
    }
}

struct Files {
    port: PathBuf,
    host: String,
    interfaces: Vec<String>,
    /// The network namespace that this thread is in.
    namespace: Option<(u64, u64)>,
    /// Why the folder of sockets is not searched.
    refused: Option<String>,
    totals: Totals,
    written: Values,
}

impl Files {
    fn new(host: &HostFile, port: &Path) -> Self {
        Self {
            port: port.to_owned(),
            host: host.name.clone(),
            interfaces: host.planes.iter().map(|plane| plane.interface.clone()).collect(),
            namespace: identity(Path::new("/proc/thread-self/ns/net")),
            refused: None,
            totals: Totals::default(),
            written: Values::new(),
        }
    }

    fn look(&mut self) {
        let Devices { mut found, refused, .. } = all_devices();
        if refused != self.refused {
            refused.iter().for_each(|why| log::warn!("the counters of {} stand still: {why}", self.port.display()));
            self.refused = refused;
        }
        found.retain(|found| self.is_in_our_network(found.pid));
        self.totals.keep(|socket| found.iter().any(|found| found.path == socket));
        for found in found {
            // One that does not answer keeps what it said last.
            let asked = Client::connect(&found.path).and_then(|mut client| client.ask::<Counters>(&Request::Stats));
            if let Some(counters) = asked.ok().filter(|counters| self.is_ours(counters)) {
                self.totals.take(found.path, &counters);
            }
        }
        for (file, value) in self.totals.sums() {
            if self.written.get(&file) != Some(&value) && self.write(&file, value).is_ok() {
                self.written.insert(file, value);
            }
        }
    }

    fn is_in_our_network(&self, pid: u32) -> bool {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        self.namespace.is_some()
            && threads.into_iter().any(|task| identity(&task.path().join("ns/net")) == self.namespace)
    }

    fn is_ours(&self, counters: &Counters) -> bool {
        counters.host == self.host && counters.planes.iter().map(|plane| &plane.interface).eq(&self.interfaces)
    }

    /// Readers see the old text or the new one, never a part.
    fn write(&self, file: &str, value: u64) -> std::io::Result<()> {
        let new = self.port.join(".counter");
        fs::write(&new, format!("{value}\n"))?;
        fs::rename(&new, self.port.join(file))
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|about| (about.dev(), about.ino()))
}

/// What all devices have counted.
#[derive(Default)]
struct Totals {
    /// By control socket: how long the device was open, and its values.
    open: HashMap<PathBuf, (f64, Values)>,
    closed: Values,
}

impl Totals {
    /// The devices whose socket is not `kept` are closed.
    fn keep(&mut self, kept: impl Fn(&Path) -> bool) {
        let closed: Vec<_> = self.open.extract_if(|socket, _| !kept(socket)).collect();
        closed.into_iter().for_each(|(_, (_, values))| add(&mut self.closed, values));
    }

    /// A device tells its counters.
    fn take(&mut self, socket: PathBuf, counters: &Counters) {
        let before = self.open.insert(socket, (counters.seconds, values(counters)));
        // Another device has got the number of one that was closed.
        if let Some((_, values)) = before.filter(|(seconds, _)| *seconds > counters.seconds) {
            add(&mut self.closed, values);
        }
    }

    /// Every counter there is, also those that are zero.
    fn sums(&self) -> Values {
        let mut sums = values(&Counters::default());
        add(&mut sums, self.closed.clone());
        self.open.values().for_each(|(_, values)| add(&mut sums, values.clone()));
        sums.insert("hw_counters/lifespan".to_owned(), EVERY.as_millis() as u64);
        sums
    }
}

fn add(sums: &mut Values, values: Values) {
    for (file, value) in values {
        *sums.entry(file).or_default() += value;
    }
}

/// The files that one device's counters make.
fn values(counters: &Counters) -> Values {
    let planes = |value: fn(&mrc_verbs_shim::control::Plane) -> u64| counters.planes.iter().map(value).sum::<u64>();
    let discarded = |why: Discard| counters.discards.get(why.name()).copied().unwrap_or(0);
    let (sent, received) = (planes(|plane| plane.tx_packets), planes(|plane| plane.rx_packets));
    // InfiniBand counts data in words of four bytes.
    let (sent_words, received_words) = (planes(|plane| plane.tx_bytes) / 4, planes(|plane| plane.rx_bytes) / 4);
    let mut files: Values = [
        ("counters/port_xmit_data", sent_words),
        ("counters/port_rcv_data", received_words),
        ("counters/port_xmit_packets", sent),
        ("counters/port_rcv_packets", received),
        ("counters/unicast_xmit_packets", sent),
        ("counters/unicast_rcv_packets", received),
        ("counters/port_rcv_errors", DAMAGED.into_iter().map(discarded).sum()),
        ("hw_counters/rx_dropped", planes(|plane| plane.rx_dropped)),
    ]
    .map(|(file, value)| (file.to_owned(), value))
    .into();
    let mut seen = 0;
    Stats::default().for_each(|name, _| {
        // Discards come first and may share a name with a counter.
        let (prefix, list) =
            if seen < Discard::ALL.len() { ("discard_", &counters.discards) } else { ("", &counters.counters) };
        seen += 1;
        files.insert(format!("hw_counters/{prefix}{name}"), list.get(name).copied().unwrap_or(0));
    });
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(seconds: f64, sent: u64) -> Counters {
        let plane = mrc_verbs_shim::control::Plane {
            interface: "p0".to_owned(),
            tx_packets: sent,
            rx_packets: 2 * sent,
            rx_dropped: 3,
            tx_bytes: 4096 * sent,
            rx_bytes: 0,
            up: true,
            denied: false,
        };
        Counters {
            seconds,
            discards: [("icrc".to_owned(), 5), ("duplicate".to_owned(), 7)].into(),
            counters: [("retransmitted".to_owned(), 11)].into(),
            planes: vec![plane.clone(), plane],
            ..Counters::default()
        }
    }

    #[test]
    fn files_have_the_units_of_infiniband_and_each_counter_has_one() {
        let none = Totals::default().sums();
        assert_eq!((none["counters/port_xmit_data"], none["hw_counters/retransmitted"]), (0, 0));
        assert_eq!(none["hw_counters/lifespan"], 1000);
        let mut totals = Totals::default();
        totals.take("1-0".into(), &counted(1.0, 10));
        let sums = totals.sums();
        assert!(sums.keys().eq(none.keys()));
        for (file, value) in [
            ("counters/port_xmit_data", 20 * 1024),
            ("counters/port_xmit_packets", 20),
            ("counters/unicast_rcv_packets", 40),
            ("counters/port_rcv_errors", 5),
            ("hw_counters/rx_dropped", 6),
            ("hw_counters/discard_duplicate", 7),
            ("hw_counters/retransmitted", 11),
        ] {
            assert_eq!(sums[file], value, "{file}");
        }
    }

    #[test]
    fn a_counter_never_goes_back() {
        let packets = |totals: &Totals| totals.sums()["counters/port_xmit_packets"];
        let mut totals = Totals::default();
        totals.take("1-0".into(), &counted(1.0, 10));
        totals.take("1-0".into(), &counted(2.0, 15));
        totals.take("2-0".into(), &counted(1.0, 1));
        assert_eq!(packets(&totals), 32);
        // The first is closed; a process with the number of the second opens another one.
        totals.keep(|socket| socket == Path::new("2-0"));
        totals.take("2-0".into(), &counted(0.5, 4));
        assert_eq!(packets(&totals), 30 + 2 + 8);
        totals.keep(|_| false);
        assert_eq!(packets(&totals), 40);
    }
}
