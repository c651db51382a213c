//! Writes the flight recorder of a device to files: packet heads as pcapng with events as comments between them, and the
//! state of the device as JSON.
//!
//! # Bounds
//! A folder keeps the newest [`RecordConfig::files`] recordings of all devices. Recordings that a trigger starts are at
//! least [`RecordConfig::gap`] apart, for each kind of trigger; those that a user asks for are not limited. Packet heads
//! contain R_Keys, so only the owner can read folder and files.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mrc_afxdp::device::{DeviceEvent, HEAD, Recording};
use mrc_core::path::EvState;
use mrc_core::{ErrorCause, Event};
use mrc_wire::{Body, WireConfig, parse_frame};
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};

use super::{Happened, Recorded, State, make_directory};

/// What makes a device write a recording down without being asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// A queue pair failed; that the application ended it is no failure.
    QpFailed,
    /// A path was retired.
    PathRetired,
}

/// The reason of a recording that somebody asked for.
pub(super) const ASKED: &str = "asked";

/// Where recordings go, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordConfig {
    /// Folder, which only its owner may enter.
    pub folder: PathBuf,
    /// Recordings that the folder keeps.
    pub files: usize,
    /// What makes one.
    pub on: Vec<Trigger>,
    /// Shortest time between two that nobody asked for.
    pub gap: Duration,
}

impl Default for RecordConfig {
    fn default() -> Self {
        let user = rustix::process::geteuid().as_raw();
        Self {
            folder: PathBuf::from(format!("/var/tmp/mrc-records-{user}")),
            files: 16,
            on: vec![Trigger::QpFailed, Trigger::PathRetired],
            gap: Duration::from_secs(60),
        }
    }
}

impl RecordConfig {
    /// Whether an event is worth a recording.
    pub(super) fn trigger(&self, event: &DeviceEvent) -> Option<Trigger> {
        let trigger = match event {
            // What the application did, or did wrong, no packet shows.
            DeviceEvent::Engine(Event::QpError {
                cause: ErrorCause::Application | ErrorCause::PostRefused, ..
            }) => return None,
            DeviceEvent::Engine(Event::QpError { .. }) => Trigger::QpFailed,
            DeviceEvent::Engine(Event::Ev { transition, .. }) if transition.to == EvState::AssumedBad => {
                Trigger::PathRetired
            }
            _ => return None,
        };
        self.on.contains(&trigger).then_some(trigger)
    }
}

impl Trigger {
    /// For the file's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::QpFailed => "qp-failed",
            Self::PathRetired => "path-retired",
        }
    }

    /// How long the recording goes on after it: how a path was left can be seen a moment later, and a program that lost
    /// a queue pair may be about to end.
    fn aftermath(self) -> Duration {
        match self {
            Self::QpFailed => Duration::ZERO,
            Self::PathRetired => Duration::from_millis(200),
        }
    }
}

/// What happened that is worth a recording. Raised on the device's thread, heard by that of the control socket.
#[derive(Debug)]
pub(super) struct Alarm {
    /// Per trigger: when it was raised, and until when it is not heard again.
    raised: Mutex<[(Option<Instant>, Option<Instant>); 2]>,
    /// Wakes the thread; does not block.
    waker: UnixStream,
    gap: Duration,
}

impl Alarm {
    pub(super) fn new(waker: UnixStream, gap: Duration) -> Self {
        Self { raised: Mutex::default(), waker, gap }
    }

    fn raised(&self) -> MutexGuard<'_, [(Option<Instant>, Option<Instant>); 2]> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something happened. Cheap while one of its kind is raised already, or was heard within the gap.
    pub(super) fn raise(&self, trigger: Trigger, now: Instant) {
        let mut raised = self.raised();
        let (at, rest) = &mut raised[trigger as usize];
        if at.is_none() && rest.is_none_or(|rest| rest <= now) {
            *at = Some(now);
            let _ = (&self.waker).write(&[1]);
        }
    }

    /// A trigger whose recording is due; with `ending` any that is raised.
    pub(super) fn take(&self, now: Instant, ending: bool) -> Option<Trigger> {
        let mut raised = self.raised();
        let due =
            |trigger: &Trigger| raised[*trigger as usize].0.is_some_and(|at| ending || at + trigger.aftermath() <= now);
        let trigger = [Trigger::QpFailed, Trigger::PathRetired].into_iter().find(due)?;
        raised[trigger as usize] = (None, Some(now + self.gap));
        Some(trigger)
    }

    /// When the next recording is due.
    pub(super) fn due(&self) -> Option<Instant> {
        let raised = self.raised();
        let due = |trigger: Trigger| raised[trigger as usize].0.map(|at| at + trigger.aftermath());
        [Trigger::QpFailed, Trigger::PathRetired].into_iter().filter_map(due).min()
    }
}

/// Writes a recording, and removes the oldest ones of this device beyond those that are kept.
///
/// # Errors
/// The folder is not safe, or the files cannot be written; half-written ones are removed.
pub(super) fn write(
    config: &RecordConfig,
    wire: &WireConfig,
    device: &str,
    reason: &str,
    recording: &Recording,
    events: &[Happened],
    state: &State,
) -> std::io::Result<Recorded> {
    make_directory(&config.folder)?;
    let ms = recording.taken().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    // Names sort by time.
    let pcap = config.folder.join(format!("{device}-{ms}-{reason}.pcapng"));
    let json = pcap.with_extension("json");
    let interfaces: Vec<String> = state.counters.planes.iter().map(|plane| plane.interface.clone()).collect();
    let written = packets(&pcap, &interfaces, wire, recording, events).and_then(|packets| {
        let about = serde_json::json!({
            "reason": reason, "unix_ms": ms as u64, "packets": packets, "packets_lost": recording.lost(),
            "events": events, "state": state,
        });
        create(&json)?.write_all(format!("{about}\n").as_bytes())?;
        Ok(packets)
    });
    let packets = written.map_err(|error| {
        for path in [&pcap, &json] {
            let _ = fs::remove_file(path);
        }
        std::io::Error::new(error.kind(), format!("cannot write {}: {error}", pcap.display()))
    })?;
    prune(&config.folder, config.files.max(1));
    Ok(Recorded { path: pcap, packets, events: events.len() as u64, packets_lost: recording.lost() })
}

fn create(path: &Path) -> std::io::Result<File> {
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Whether a file is called as [`write`] calls recordings: process, number, milliseconds, reason. Captures of others stay.
fn is_recording(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".pcapng")) else { return false };
    let mut parts = name.splitn(4, '-');
    let numbers = parts.by_ref().take(3).filter(|part| part.parse::<u64>().is_ok()).count();
    let reasons = [ASKED, Trigger::QpFailed.name(), Trigger::PathRetired.name()];
    numbers == 3 && parts.next().is_some_and(|reason| reasons.contains(&reason))
}

/// The oldest recordings go. Those of a later time than now are from before the clock was set back, and count as oldest: else
/// each new one would go at once.
fn prune(folder: &Path, keep: usize) {
    let now = SystemTime::now();
    let age = |path: &PathBuf| {
        let modified = fs::metadata(path).and_then(|about| about.modified()).ok()?;
        (modified <= now).then_some(modified)
    };
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
    let mut files: Vec<_> = files.filter(|path| is_recording(path)).map(|path| (age(&path), path)).collect();
    files.sort();
    let surplus = files.len().saturating_sub(keep);
    for (_, path) in files.iter().take(surplus) {
        let _ = fs::remove_file(path.with_extension("json"));
        let _ = fs::remove_file(path);
    }
}

/// The packets as pcapng, one interface per plane. An event is a comment on the first packet that is not older, or on the
/// last one.
fn packets(
    path: &Path,
    interfaces: &[String],
    wire: &WireConfig,
    recording: &Recording,
    events: &[Happened],
) -> std::io::Result<u64> {
    let broken = |error: pcap_file::PcapError| match error {
        pcap_file::PcapError::IoError(error) => error,
        error => std::io::Error::other(error.to_string()),
    };
    let mut writer = PcapNgWriter::new(BufWriter::new(create(path)?)).map_err(broken)?;
    for interface in interfaces {
        let options = vec![
            InterfaceDescriptionOption::IfName(interface.as_str().into()),
            InterfaceDescriptionOption::IfTsResol(9),
        ];
        let block = InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: HEAD as u32, options };
        writer.write_pcapng_block(block).map_err(broken)?;
    }
    let mut events = events.iter().peekable();
    let (mut all, mut count) = (recording.packets().peekable(), 0);
    while let Some(packet) = all.next() {
        let is_last = all.peek().is_none();
        let mut options = vec![EnhancedPacketOption::Flags(if packet.sent { 2 } else { 1 })];
        while let Some(event) = events.next_if(|event| is_last || Duration::from_millis(event.unix_ms) <= packet.at) {
            options.push(EnhancedPacketOption::Comment(event.text.as_str().into()));
        }
        if let Some(why) = packet.discard {
            options.push(EnhancedPacketOption::Comment(format!("discarded: {}", why.name()).into()));
        }
        let head = without_payload(packet.head, wire);
        let block = EnhancedPacketBlock {
            interface_id: packet.plane.into(),
            timestamp: packet.at,
            original_len: packet.wire_len,
            data: head.into(),
            options,
        };
        writer.write_pcapng_block(block).map_err(broken)?;
        count += 1;
    }
    writer.into_inner().flush()?;
    Ok(count)
}

/// What a head has of the application's data is nobody's business, whatever ports and code points `wire` gives the host.
fn without_payload<'h>(head: &'h [u8], wire: &WireConfig) -> &'h [u8] {
    // A switch may leave some of it in a packet that it trims: such a packet is read as a whole one.
    let mut whole = *wire;
    (whole.dscp.trimmed, whole.dscp.trimmed_lasthop) = (u8::MAX, u8::MAX);
    // Packets that were sent may have another port than those that are taken.
    let frame = [wire.udp_dport_accept, [wire.udp_dport; 2]].into_iter().find_map(|udp_dport_accept| {
        let cfg = WireConfig { udp_dport_accept, ..whole };
        parse_frame(head, usize::from(u16::MAX), &cfg, |_| true).ok()
    });
    let start = frame.and_then(|frame| {
        let is_trimmed = wire.dscp.trim(frame.dscp).is_some();
        let has_some = matches!(frame.body, Body::Write { .. }) && (is_trimmed || !frame.payload.is_empty());
        has_some.then_some(frame.payload.start)
    });
    start.and_then(|start| head.get(..start)).unwrap_or(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden(name: &str) -> Vec<u8> {
        let text = include_str!("../../../mrc-wire/tests/golden.json");
        let all: serde_json::Value = serde_json::from_str(text).unwrap();
        let hex = all["packets"][name]["hex"].as_str().unwrap();
        (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn no_head_keeps_data_of_the_application() {
        let whole = golden("write_only_ts");
        let headers = whole.len() - 13 - 3 - 4;
        let kept = |frame: &[u8], wire: &WireConfig| without_payload(frame, wire).len();
        let default = WireConfig::default();
        assert_eq!(kept(&whole, &default), headers);
        // Other ports, for sending and for both.
        let mut other = whole.clone();
        other[56..58].copy_from_slice(&5000u16.to_be_bytes());
        assert_eq!(kept(&other, &WireConfig { udp_dport: 5000, ..default }), headers);
        assert_eq!(kept(&other, &WireConfig { udp_dport_accept: [5000; 2], ..default }), headers);
        // A code point that says trimmed elsewhere, and one that says it here, with data left in the packet.
        let mut plan = default;
        (plan.dscp.trimmable, plan.dscp.trimmed) = (12, 4);
        assert_eq!(kept(&whole, &plan), headers);
        let mut marked = whole.clone();
        marked[14..16].copy_from_slice(&[0x63, 0x00]);
        for frame in [&marked[..], &marked[..headers + 10]] {
            assert_eq!(kept(frame, &default), headers);
            assert_eq!(kept(frame, &plan), headers);
        }
        // All else stays.
        for name in ["sack_ecn", "transport_ack", "trimmed_write_only_ts", "ipv4_write_only_imm_empty"] {
            assert_eq!(kept(&golden(name), &default), golden(name).len(), "{name}");
        }
    }

    #[test]
    fn a_clock_that_was_set_back_costs_the_old_recordings_and_not_the_new() {
        let folder = std::env::temp_dir().join(format!("mrc-record-{}-clock", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let hour = Duration::from_secs(3600);
        let now = SystemTime::now();
        for (process, at) in [(1, now + 2 * hour), (2, now + hour), (3, now - hour), (4, now)] {
            let path = folder.join(format!("{process}-0-1700-{ASKED}.pcapng"));
            create(&path).unwrap().set_modified(at).unwrap();
            create(&path.with_extension("json")).unwrap();
        }
        prune(&folder, 2);
        let mut left: Vec<_> = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(
            left,
            ["3-0-1700-asked.json", "3-0-1700-asked.pcapng", "4-0-1700-asked.json", "4-0-1700-asked.pcapng"]
        );
        fs::remove_dir_all(&folder).unwrap();
    }

    fn alarm(gap: Duration) -> (Alarm, UnixStream) {
        let (waker, woken) = UnixStream::pair().unwrap();
        for stream in [&waker, &woken] {
            stream.set_nonblocking(true).unwrap();
        }
        (Alarm::new(waker, gap), woken)
    }

    fn wakes(mut woken: &UnixStream) -> usize {
        std::io::Read::read(&mut woken, &mut [0; 64]).unwrap_or(0)
    }

    #[test]
    fn a_storm_of_retired_paths_makes_one_recording_and_hides_no_failure() {
        let (gap, start) = (Duration::from_secs(60), Instant::now());
        let (alarm, woken) = alarm(gap);
        for _ in 0..1_000 {
            alarm.raise(Trigger::PathRetired, start);
        }
        assert_eq!(wakes(&woken), 1);
        assert_eq!(alarm.take(start, false), None, "what follows shall be on it");
        let due = alarm.due().unwrap();
        assert_eq!(alarm.take(due, false), Some(Trigger::PathRetired));
        alarm.raise(Trigger::PathRetired, due);
        assert_eq!((wakes(&woken), alarm.due()), (0, None));
        alarm.raise(Trigger::QpFailed, due);
        assert_eq!((wakes(&woken), alarm.take(due, false)), (1, Some(Trigger::QpFailed)));
        alarm.raise(Trigger::PathRetired, due + gap);
        assert_eq!((wakes(&woken), alarm.take(due + gap, false)), (1, None));
        assert_eq!(alarm.take(due + gap, true), Some(Trigger::PathRetired), "a program that ends waits for nothing");
    }

    #[test]
    fn only_what_the_configuration_names_is_a_trigger() {
        let failed = |cause| DeviceEvent::Engine(Event::QpError { qp: mrc_wire::Qpn::new(1), cause });
        let all = RecordConfig::default();
        assert_eq!(all.trigger(&failed(ErrorCause::PeerSilent)), Some(Trigger::QpFailed));
        assert_eq!(all.trigger(&failed(ErrorCause::Application)), None);
        assert_eq!(all.trigger(&failed(ErrorCause::PostRefused)), None);
        assert_eq!(all.trigger(&DeviceEvent::Link("p0 down".into())), None);
        let none = RecordConfig { on: Vec::new(), ..all };
        assert_eq!(none.trigger(&failed(ErrorCause::PeerSilent)), None);
    }

    #[test]
    fn a_folder_keeps_so_many_recordings_and_other_files() {
        let folder = std::env::temp_dir().join(format!("mrc-record-test-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for other in ["notes.txt", "fabric.pcapng", "fabric.json", "1-2-3-mine.pcapng", "1-2-asked.pcapng"] {
            fs::write(folder.join(other), "mine").unwrap();
        }
        for number in 0..5u64 {
            let path = folder.join(format!("{}-0-1700-qp-failed.pcapng", 9 - number));
            let file = File::create(&path).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000 + number)).unwrap();
            fs::write(path.with_extension("json"), "{}").unwrap();
        }
        prune(&folder, 2);
        let mut left: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        let recordings: Vec<&String> = left.iter().filter(|name| name.contains("qp-failed")).collect();
        let newest =
            ["5", "6"].map(|process| ["json", "pcapng"].map(|end| format!("{process}-0-1700-qp-failed.{end}")));
        assert!(recordings.iter().copied().eq(newest.as_flattened()), "{recordings:?}");
        assert_eq!(left.len(), 4 + 5, "what is no recording stays: {left:?}");
        fs::remove_dir_all(folder).unwrap();
    }
}
