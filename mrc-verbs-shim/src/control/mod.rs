//! The control socket of a running device. It is a Unix socket in a folder that only the device's user and root can enter;
//! the network cannot reach it. Both directions carry one JSON object per line: a [`Request`], and as its answer
//! `{"ok": ...}` or `{"error": "..."}`.
//!
//! [`ControlServer`] is the device's side, [`Client`] the side of `mrc stats`, `mrc top`, `mrc metrics` and the mapper's
//! agent.

mod client;
mod denylist;
mod record;
mod server;
mod snapshot;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use serde::{Deserialize, Serialize};

pub use client::{Client, ControlError, Devices, Found, all_devices, own_devices};
pub use record::{RecordConfig, Trigger};
pub use server::{ControlServer, accepted};
pub use snapshot::path_tables;

/// Longest line that a device reads, in bytes.
pub const MAX_REQUEST: usize = 64 << 10;

/// What may be asked of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// [`Counters`].
    Stats,
    /// [`State`]: counters, queue pairs and, with `evs`, the states of all entropy values and the tables of paths.
    State {
        /// Whether the profiles are listed with their entropy values, and queue pairs with their paths.
        #[serde(default)]
        evs: bool,
    },
    /// [`Events`] with a number above `after`.
    Events {
        /// Number of the last event that is known; 0 = all that are kept.
        #[serde(default)]
        after: u64,
    },
    /// [`Denylist`]s in force.
    Denylist,
    /// Puts a denylist in the place of the one that the same `by` gave before; answered by an [`Effect`].
    Deny(Deny),
    /// Writes down what the flight recorder holds; answered by a [`Recorded`].
    Record,
    /// Ends the denylist of `by`; answered by an [`Effect`].
    Allow {
        /// Who gave it.
        by: String,
    },
}

/// A denylist with an end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deny {
    /// Who gives it: up to 32 letters, digits, `-` or `_`.
    pub by: String,
    /// Whole planes.
    #[serde(default)]
    pub planes: BTreeSet<u8>,
    /// Compact entropy values: plane in bits 11 to 8, uplink in bits 7 to 0.
    #[serde(default)]
    pub evs: BTreeSet<u32>,
    /// Seconds after which it ends by itself unless it is given again.
    pub seconds: u32,
    /// Why, for people.
    #[serde(default)]
    pub because: String,
    /// Only say what it would do.
    #[serde(default)]
    pub dry_run: bool,
}

/// What a denylist does, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Effect {
    /// Entries of EV profiles that all denylists of this socket together deny.
    pub denied: usize,
    /// EV profiles left alone because nothing usable would remain in them.
    pub spared: usize,
    /// Entropy values of these lists that no profile has now; one that gets them later is denied then.
    #[serde(default)]
    pub absent: usize,
}

/// A denylist in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denylist {
    /// Who gave it.
    pub by: String,
    /// Whole planes.
    pub planes: BTreeSet<u8>,
    /// Compact entropy values.
    pub evs: BTreeSet<u32>,
    /// Seconds until it ends by itself.
    pub seconds_left: u32,
    /// Why.
    pub because: String,
}

/// What a running device has counted.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
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
    /// Queue pairs by state.
    #[serde(default)]
    pub qps_by_state: BTreeMap<String, u64>,
    /// Entropy values of all queue pairs, by state.
    #[serde(default)]
    pub evs_by_state: BTreeMap<String, u64>,
}

/// One plane of a device.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Plane {
    /// Interface.
    pub interface: String,
    /// Frames the engine sent.
    pub tx_packets: u64,
    /// Frames the engine received.
    pub rx_packets: u64,
    /// Frames the kernel dropped for lack of room.
    pub rx_dropped: u64,
    /// Bytes of payload the engine sent.
    #[serde(default)]
    pub tx_bytes: u64,
    /// Bytes of payload the engine received.
    #[serde(default)]
    pub rx_bytes: u64,
    /// The port has a carrier and no controller disabled it.
    #[serde(default)]
    pub up: bool,
    /// A denylist of this socket names it.
    #[serde(default)]
    pub denied: bool,
}

/// Everything about a device that changes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct State {
    /// Counters and planes.
    #[serde(flatten)]
    pub counters: Counters,
    /// The first [`MAX_QPS`] queue pairs.
    pub qps: Vec<Qp>,
    /// Queue pairs beyond them.
    pub qps_left_out: usize,
    /// EV profiles, if asked for.
    pub profiles: Vec<Profile>,
}

/// Queue pairs that a [`State`] lists.
pub const MAX_QPS: usize = 16_384;

/// A queue pair.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Qp {
    /// Its number.
    pub qpn: u32,
    /// State as verbs name it.
    pub state: String,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The peer's number.
    pub peer_qpn: u32,
    /// Slot of its EV profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<usize>,
    /// Packets in flight.
    pub outstanding: u32,
    /// Requests without completion.
    pub queued: u32,
    /// Retries spent on the oldest packet.
    pub retries: u8,
    /// Smoothed round trip.
    pub srtt_ns: u64,
    /// Smallest round trip.
    pub base_rtt_ns: u64,
    /// Window of its congestion controller; none: no limit, or not connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwnd_bytes: Option<u64>,
    /// Average queueing delay that its congestion controller sees.
    pub delay_ns: u64,
    /// Its bytes in flight.
    pub inflight_bytes: i64,
    /// Bytes that the peer acknowledged, headers included.
    pub acked_bytes: u64,
    /// Bytes received, headers included, modulo 2^32.
    pub received_bytes: u32,
    /// Packets sent again.
    pub retransmitted: u32,
    /// Entropy values by state: good, skip, assumed bad, denied, in rotation.
    pub evs: [u16; 5],
    /// With `evs`, where its selector keeps a load of each path: its paths. [`MAX_PATHS`] over all queue pairs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathRow>,
}

/// Paths that a [`State`] lists.
pub const MAX_PATHS: usize = 4096;

/// A path of a queue pair as its selector has it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PathRow {
    /// `p0u1` for a compact entropy value, else its digits.
    pub name: String,
    /// Plane.
    pub plane: u8,
    /// As in [`EvReport`].
    pub state: String,
    /// Delay measured last: of the path there from telemetry, else the round trip; 0: never measured.
    pub delay_ns: u32,
    /// Bandwidth measured last; without telemetry the knob of the selector.
    pub bandwidth_mbps: u32,
    /// The load by which paths are levelled.
    pub load_bytes: u32,
    /// Packets placed on it that have not left.
    pub placed_packets: u16,
    /// Whether the load comes from telemetry; otherwise from measured round trips.
    pub telemetry: bool,
}

/// An EV profile.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Profile {
    /// Slot.
    pub index: usize,
    /// Queue pairs bound to it.
    pub users: u32,
    /// Its entries.
    pub evs: Vec<EvReport>,
}

/// An entry of an EV profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvReport {
    /// `p0u1` for a compact entropy value, else its digits.
    pub name: String,
    /// Plane.
    pub plane: u8,
    /// GOOD, ASSUMED_BAD (for one queue pair at least) or DENIED.
    pub state: String,
}

/// Something that happened to a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Happened {
    /// Its number, from 1.
    pub number: u64,
    /// Milliseconds since 1970.
    pub unix_ms: u64,
    /// One line.
    pub text: String,
}

/// A recording that was written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// The packets, as pcapng; the state of the device is beside it as JSON.
    pub path: PathBuf,
    /// Packets in it.
    pub packets: u64,
    /// Packets that were overwritten by these.
    pub packets_lost: u64,
    /// Events in it.
    pub events: u64,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Events {
    /// Oldest first.
    pub events: Vec<Happened>,
    /// Events that were asked for and are no longer kept.
    pub lost: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply<T> {
    Ok(T),
    Error(String),
}

/// Where programs of this user have their control sockets.
fn own_directory() -> PathBuf {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return "/run/mrc/engines".into();
    }
    match mrc_afxdp::trusted_env("XDG_RUNTIME_DIR") {
        Some(folder) => PathBuf::from(folder).join("mrc-engines"),
        None => std::env::temp_dir().join(format!("mrc-engines-{}", user.as_raw())),
    }
}

/// Makes a folder that only this user can enter, and with it the folders above, which are as others are.
fn make_directory(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    if let Some(above) = folder.parent() {
        std::fs::create_dir_all(above)?;
    }
    match std::fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => check_directory(folder, rustix::process::geteuid().as_raw()),
    }
}

/// Refuses a folder that others than `user` could put a file into.
fn check_directory(folder: &Path, user: u32) -> std::io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let about = std::fs::symlink_metadata(folder)?;
    if !about.is_dir() || about.uid() != user || about.mode() & 0o077 != 0 {
        let why = format!(
            "{} must be a folder of user {user} that nobody else can enter (mode 0700): chmod or remove it",
            folder.display()
        );
        return Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

/// The user of the process at the other end, also of one in another PID namespace. There it has the number 0 here, which rustix
/// takes for an error.
fn peer_user(stream: &UnixStream) -> Option<u32> {
    getsockopt(stream, PeerCredentials).ok().map(|peer| peer.uid())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_the_folder_itself_is_closed_to_others() {
        let above = std::env::temp_dir().join(format!("mrc-control-above-{}", std::process::id()));
        for _ in 0..2 {
            make_directory(&above.join("mrc/engines")).unwrap();
        }
        let mode = |folder| std::fs::metadata(above.join(folder)).unwrap().permissions().mode() & 0o777;
        let others = above.join("others");
        std::fs::create_dir(&others).unwrap();
        assert_eq!((mode("mrc"), mode("mrc/engines")), (mode("others"), 0o700));
        std::fs::remove_dir_all(&above).unwrap();
    }

    #[test]
    fn a_folder_that_others_can_enter_is_refused() {
        let folder = std::env::temp_dir().join(format!("mrc-control-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let user = rustix::process::geteuid().as_raw();
        let with = |mode| {
            std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).unwrap();
            check_directory(&folder, user)
        };
        assert!(with(0o700).is_ok());
        for mode in [0o755, 0o710, 0o770, 0o777] {
            assert!(with(mode).unwrap_err().to_string().contains("mode 0700"));
        }
        let link = folder.with_extension("link");
        with(0o700).unwrap();
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        assert!(check_directory(&link, user).is_err());
        assert!(check_directory(&folder, user + 1).is_err(), "of another user");
        std::fs::remove_file(&link).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(check_directory(&folder, user).is_err());
    }

    #[test]
    fn requests_are_what_the_docs_say() {
        let parse = |text: &str| serde_json::from_str::<Request>(text);
        assert_eq!(parse(r#"{"op":"stats"}"#).unwrap(), Request::Stats);
        assert_eq!(parse(r#"{"op":"state"}"#).unwrap(), Request::State { evs: false });
        let deny = r#"{"op":"deny","by":"me","planes":[1],"seconds":5}"#;
        let Request::Deny(deny) = parse(deny).unwrap() else { panic!("another request") };
        assert!(deny.planes.contains(&1) && deny.evs.is_empty() && !deny.dry_run);
        for wrong in
            ["", "{}", r#"{"op":"reboot"}"#, r#"{"op":"deny","by":"me"}"#, r#"{"op":"deny","by":"a","seconds":-1}"#]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
