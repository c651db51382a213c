//! The host file: planes, addresses and source routes of a host and its peers.
//!
//! `mrc lab` writes it for its hosts; for a real host somebody writes it. Every command that opens a device reads it, and so
//! does the verbs library. People write TOML ([`HostFile::configured`] lists where it is searched), programs may write JSON
//! with the same keys.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mrc_afxdp::device::{DEFAULT_PACKETS, DeviceConfig, PlaneConfig};
use mrc_core::path::{EvEntry, compact_profile};
use mrc_core::{MAX_PORTS, PeerConfig, PlanePath, RetryConfig, Route};
use mrc_wire::srv6::EvTemplate;
use mrc_wire::{DscpPlan, Ev, FrameTemplate, Ip, PortNum};
use serde::{Deserialize, Serialize};

use crate::control::{RecordConfig, Trigger};

mod addresses;
mod plan;
mod protocol;

pub use protocol::{HostProtocol, Tuning};

/// Why a host file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// File.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// No file was named and the standard place is empty.
    #[error(
        "no configuration: {path} does not exist; write one (docs/verbs.md), let `mrc lab up` write one, or name one with \
         the environment variable {CONFIG_VARIABLE}"
    )]
    None {
        /// Where it was looked for.
        path: String,
    },
    /// The file holds something else; the parser says where.
    #[error("{origin} is no host file: {source}")]
    Parse {
        /// Where the text came from.
        origin: String,
        /// Line, column and key.
        source: serde_json::Error,
    },
    /// The TOML does not parse, or a value has the wrong type.
    #[error("{origin}, line {line}, `{key}`: {why}")]
    Toml {
        /// Where the text came from.
        origin: String,
        /// Line, 1-based.
        line: usize,
        /// The line's key.
        key: String,
        /// What is wrong and what is possible.
        why: String,
    },
    /// A value is impossible.
    #[error("host {name}: {why}")]
    Value {
        /// Host.
        name: String,
        /// What is wrong and what is possible.
        why: String,
    },
}

/// Names the configuration file.
pub const CONFIG_VARIABLE: &str = "MRC_CONFIG";

/// Where the configuration file is when nothing names it.
pub const CONFIG_PATH: &str = "/etc/mrc/mrc.toml";

/// One plane of a host.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostPlane {
    /// Network interface.
    pub interface: String,
    /// The host's SID on this plane; without one packets have no outer header, and their EV is the UDP source port and the
    /// flow label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sid: Option<Ipv6Addr>,
    /// The port's own address, the outer source; needed with `sid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addr: Option<Ipv6Addr>,
    /// MAC address of the first hop: the T0 switch's port, or the peer's.
    pub next_hop: String,
}

impl HostPlane {
    /// The MAC address that [`Self::next_hop`] spells; `None` when it is malformed.
    pub fn next_hop_mac(&self) -> Option<[u8; 6]> {
        addresses::parse_mac(&self.next_hop)
    }
}

/// One peer of a host.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostPeer {
    /// Name for people.
    pub name: String,
    /// Inner address.
    pub gid: Ipv6Addr,
    /// Address in the host network, which the IPv4-mapped GID carries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<Ipv4Addr>,
    /// Block and micro-SIDs of plane 0, uplink 0, first hop first: own T0, T1, peer's T0, peer; T0, peer under one T0; the
    /// peer alone on a direct link. `host/plan.rs` has the rule. None where the planes have no SID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<Ipv6Addr>,
    /// Its inner address on each plane, plane 0 first, where planes are networks of their own; ours is `addr` of the plane then.
    /// Left out: `gid` on all planes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addrs: Vec<Ipv6Addr>,
    /// T0 uplinks (T1 switches per plane) that lead there; 0 when both hosts share a T0 or a link. Without a template: EVs
    /// per plane.
    pub uplinks: u16,
}

/// The DSCP plan; keys left out keep their default.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostDscp {
    /// Data when the fabric does not trim.
    pub no_trim: Option<u8>,
    /// First transmissions.
    pub trimmable: Option<u8>,
    /// Retransmissions.
    pub trimmable_retx: Option<u8>,
    /// Set by a switch that cut the payload.
    pub trimmed: Option<u8>,
    /// The same, set by the last switch.
    pub trimmed_lasthop: Option<u8>,
    /// Acknowledgements.
    pub control: Option<u8>,
}

impl HostDscp {
    fn plan(&self) -> DscpPlan {
        let default = DscpPlan::default();
        DscpPlan {
            no_trim: self.no_trim.unwrap_or(default.no_trim),
            trimmable: self.trimmable.unwrap_or(default.trimmable),
            trimmable_retx: self.trimmable_retx.unwrap_or(default.trimmable_retx),
            trimmed: self.trimmed.unwrap_or(default.trimmed),
            trimmed_lasthop: self.trimmed_lasthop.unwrap_or(default.trimmed_lasthop),
            control: self.control.unwrap_or(default.control),
        }
    }
}

/// Timer and retries, as `mrc_core::RetryConfig`. What verbs programs ask for is a lower bound to the time they allow.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostRetry {
    /// T0 = 1.024 us * 2^timeout, 1 to 24.
    pub timeout: u8,
    /// Retries at T0, 0 to 7.
    pub linear: u8,
    /// Retries at a doubling interval, 0 to 24; 25 = for ever.
    pub exponential: u8,
    /// Milliseconds of silence after which an idle queue pair probes its peer; 0 = never.
    pub keepalive_ms: u32,
}

impl Default for HostRetry {
    /// The engine's budget.
    fn default() -> Self {
        let RetryConfig { timeout, linear, exponential } = RetryConfig::default();
        Self { timeout, linear, exponential, keepalive_ms: default_keepalive_ms() }
    }
}

/// The flight recorder of a device (`docs/operations.md`).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostRecorder {
    /// Packets of which the heads are kept, 192 bytes of memory each; 0: none.
    pub packets: usize,
    /// Where recordings are written; none = `/var/tmp/mrc-records-UID`.
    pub folder: Option<PathBuf>,
    /// Recordings that the folder keeps, 1 to 1000.
    pub files: usize,
    /// What makes a recording without being asked.
    pub on: Vec<Trigger>,
    /// Seconds between two recordings that nobody asked for.
    pub gap_s: u32,
}

impl Default for HostRecorder {
    fn default() -> Self {
        let RecordConfig { files, on, gap, .. } = RecordConfig::default();
        Self { packets: DEFAULT_PACKETS, folder: None, files, on, gap_s: gap.as_secs() as u32 }
    }
}

/// Most packets that a recorder may keep: 768 MiB.
const MOST_RECORDED: usize = 1 << 22;

/// Bytes of the longest name of an interface.
const LONGEST_INTERFACE: usize = 15;

fn default_keepalive_ms() -> u32 {
    1_000
}

fn default_device() -> String {
    "mrc0".to_owned()
}

/// One host.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostFile {
    /// Name for people.
    pub name: String,
    /// Network namespace that the interfaces live in; none = the caller's.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Name of the RDMA device.
    #[serde(default = "default_device")]
    pub device: String,
    /// Inner address.
    pub gid: Ipv6Addr,
    /// Address in the host network, which the IPv4-mapped GID carries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<Ipv4Addr>,
    /// Interface MTU in bytes.
    pub mtu: u32,
    /// Largest payload of a packet, when less than the MTU allows is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pmtu: Option<u16>,
    /// Code points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<HostDscp>,
    /// Acknowledgement timer and retry budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<HostRetry>,
    /// How long, in microseconds, answers to writes wait for data that the program may send in reply
    /// (`DeviceConfig::answer_delay`); 0: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_delay_us: Option<u16>,
    /// What verbs have no attribute for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<HostProtocol>,
    /// Flight recorder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorder: Option<HostRecorder>,
    /// Planes, plane 0 first.
    pub planes: Vec<HostPlane>,
    /// Peers.
    pub peers: Vec<HostPeer>,
}

impl HostFile {
    /// The configuration of this host: the file that [`CONFIG_VARIABLE`] names, else [`CONFIG_PATH`]. A program with more
    /// rights than its caller (set-user-ID, file capabilities) does not ask the variable.
    ///
    /// # Errors
    /// [`HostError`] names file, line and key.
    pub fn configured() -> Result<Self, HostError> {
        Self::read(&Self::configured_path()?)
    }

    /// Where [`HostFile::configured`] reads.
    ///
    /// # Errors
    /// Nothing names a file and the standard one does not exist.
    pub fn configured_path() -> Result<PathBuf, HostError> {
        match mrc_afxdp::trusted_env(CONFIG_VARIABLE) {
            Some(name) => Ok(name.into()),
            None => Self::standard_path(Path::new(CONFIG_PATH)),
        }
    }

    /// A file in a folder that this user may not enter may exist: reading it says so.
    fn standard_path(path: &Path) -> Result<PathBuf, HostError> {
        match path.try_exists() {
            Ok(false) => Err(HostError::None { path: path.display().to_string() }),
            Ok(true) | Err(_) => Ok(path.to_owned()),
        }
    }

    /// Reads a host file.
    ///
    /// # Errors
    /// [`HostError`] names the file, the line and the key.
    pub fn read(path: &Path) -> Result<Self, HostError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| HostError::Read { path: name.clone(), source })?;
        Self::parse(&name, &text)
    }

    /// Reads a host file's text, TOML or JSON; `origin` says where it came from, for the error message.
    ///
    /// # Errors
    /// [`HostError`] names origin, line and key.
    pub fn parse(origin: &str, text: &str) -> Result<Self, HostError> {
        let json = text.trim_start().starts_with('{');
        let host: Self = if json {
            serde_json::from_str(text).map_err(|source| HostError::Parse { origin: origin.to_owned(), source })?
        } else {
            toml::from_str(text).map_err(|error| located(origin, text, &error))?
        };
        match host.check() {
            Ok(()) => Ok(host),
            Err(Wrong { why, .. }) if json => Err(host.refuse(why)),
            Err(Wrong { table, index, key, why }) => {
                Err(HostError::Toml { origin: origin.to_owned(), line: line_of(text, table, index, &key), key, why })
            }
        }
    }

    /// The file's text as TOML.
    pub fn to_toml(&self) -> String {
        // Numbers, strings and tables only: there is nothing that TOML cannot say.
        toml::to_string(self).unwrap_or_default()
    }

    /// What no single value tells.
    fn check(&self) -> Result<(), Wrong> {
        let wrong = |key: &str, why: String| Wrong { table: "", index: 0, key: key.to_owned(), why };
        let planes = self.planes.len();
        if !(1..=MAX_PORTS).contains(&planes) {
            return Err(wrong(
                "planes",
                format!("{planes} entries: 1 to {MAX_PORTS} `[[planes]]` tables are possible"),
            ));
        }
        let usable = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        // It is a file name as well: `.` and `..` are others' directories.
        let relative = self.device.chars().all(|c| c == '.');
        if relative || self.device.len() > 63 || !self.device.chars().all(usable) {
            return Err(wrong("device", "1 to 63 letters, digits, `_`, `-` or `.`, e.g. \"mrc0\"".into()));
        }
        printable(&self.name).map_err(|why| wrong("name", why))?;
        if self.namespace.as_ref().is_some_and(String::is_empty) {
            return Err(wrong("namespace", "a name under /run/netns; left out: that of the program".into()));
        }
        addresses::check_own(self).map_err(|(key, why)| wrong(key, why))?;
        if let Some(pmtu) = self.pmtu {
            let largest = self.largest_path_mtu();
            if !PATH_MTUS.contains(&pmtu) || largest.is_none_or(|largest| pmtu > largest) {
                let largest = largest.unwrap_or(0);
                let why = format!(
                    "{pmtu} with an MTU of {}: choose 256, 512, 1024, 2048 or 4096, at most {largest}, or raise `mtu`",
                    self.mtu
                );
                return Err(wrong("pmtu", why));
            }
        } else if self.largest_path_mtu().is_none() {
            return Err(wrong("mtu", format!("{} is too small: at least {} is needed", self.mtu, required_mtu(256))));
        }
        if let Some(dscp) = &self.dscp {
            dscp.plan().check().map_err(|error| Wrong {
                table: "dscp",
                index: 0,
                key: "dscp".to_owned(),
                why: error.to_string(),
            })?;
        }
        if let Some(retry) = &self.retry {
            for (key, value, range) in [
                ("timeout", retry.timeout, 1..=24),
                ("linear", retry.linear, 0..=7),
                ("exponential", retry.exponential, 0..=25),
            ] {
                if !range.contains(&value) {
                    let why = format!("{value}: {} to {} are possible", range.start(), range.end());
                    return Err(Wrong { table: "retry", index: 0, key: key.to_owned(), why });
                }
            }
        }
        if let Some(delay) = self.answer_delay_us.filter(|&delay| delay > LONGEST_ANSWER_DELAY_US) {
            let why = format!("{delay}: at most {LONGEST_ANSWER_DELAY_US}, or peers take answers for lost");
            return Err(wrong("answer_delay_us", why));
        }
        let dscp = self.dscp.unwrap_or_default().plan();
        if let Some(Err((key, why))) = self.protocol.as_ref().map(|protocol| protocol.check(dscp)) {
            return Err(Wrong { table: "protocol", index: 0, key: key.to_owned(), why });
        }
        if let Some(recorder) = &self.recorder {
            let wrong = |key: &str, why| Wrong { table: "recorder", index: 0, key: key.to_owned(), why };
            if recorder.packets > MOST_RECORDED {
                return Err(wrong("packets", format!("{}: at most {MOST_RECORDED}", recorder.packets)));
            }
            if !(1..=1000).contains(&recorder.files) {
                return Err(wrong("files", format!("{}: 1 to 1000 are possible", recorder.files)));
            }
        }
        for (index, plane) in self.planes.iter().enumerate() {
            let wrong = |key: &str, why| Wrong { table: "planes", index, key: key.to_owned(), why };
            if plane.next_hop_mac().is_none() {
                let why = format!("`{}` is no unicast MAC address: six hexadecimal bytes with colons", plane.next_hop);
                return Err(wrong("next_hop", why));
            }
            if !(1..=LONGEST_INTERFACE).contains(&plane.interface.len()) {
                return Err(wrong("interface", format!("1 to {LONGEST_INTERFACE} bytes, as Linux has them")));
            }
            if self.planes.iter().take(index).any(|other| other.interface == plane.interface) {
                let why = format!("`{}` carries another plane already: each plane has its own", plane.interface);
                return Err(wrong("interface", why));
            }
            plan::check_sid(&self.planes, index).map_err(|why| wrong("sid", why))?;
            addresses::check_plane(plane).map_err(|why| wrong("addr", why))?;
        }
        for (index, peer) in self.peers.iter().enumerate() {
            let wrong = |key: &str, why| Wrong { table: "peers", index, key: key.to_owned(), why };
            printable(&peer.name).map_err(|why| wrong("name", why))?;
            addresses::check_peer(self, index).map_err(|(key, why)| wrong(key, why))?;
            plan::check_peer(peer, &self.planes).map_err(|(key, why)| wrong(key, why))?;
            addresses::check(self, index).map_err(|why| wrong("addrs", why))?;
        }
        Ok(())
    }

    fn refuse(&self, why: String) -> HostError {
        HostError::Value { name: self.name.clone(), why }
    }

    /// The peer with this inner address.
    ///
    /// # Errors
    /// The file lists no such peer.
    pub fn peer(&self, gid: Ipv6Addr) -> Result<&HostPeer, HostError> {
        self.peers.iter().find(|peer| peer.gid == gid).ok_or_else(|| {
            let known: Vec<String> = self.peers.iter().map(|peer| peer.gid.to_string()).collect();
            self.refuse(format!("no peer {gid}; the host file lists {}", known.join(", ")))
        })
    }

    /// The device this host opens.
    pub fn device(&self) -> DeviceConfig {
        let planes = self.planes.iter().map(|plane| PlaneConfig {
            interface: plane.interface.clone(),
            sid: plane.sid.map(|sid| sid.octets()),
            addr: plane.addr.map(|addr| addr.octets()),
        });
        let mut config = DeviceConfig::new(&self.name, planes.collect(), self.gid.octets());
        config.endpoint.wire.dscp = self.dscp.unwrap_or_default().plan();
        config.required_mtu = self.path_mtu().map_or(0, required_mtu);
        if let Some(delay) = self.answer_delay_us {
            config.answer_delay = Duration::from_micros(delay.into());
        }
        self.protocol().device(&mut config);
        if let Some(recorder) = &self.recorder {
            config.recorded_packets = recorder.packets;
        }
        config
    }

    /// What becomes of the flight recorder's packets.
    pub fn records(&self) -> RecordConfig {
        let HostRecorder { folder, files, on, gap_s, .. } = self.recorder.clone().unwrap_or_default();
        let default = RecordConfig::default();
        let folder = folder.unwrap_or(default.folder);
        RecordConfig { folder, files, on, gap: Duration::from_secs(gap_s.into()) }
    }

    /// How this host reaches `peer`.
    ///
    /// # Errors
    /// A MAC address or the template is malformed.
    pub fn peer_config(&self, peer: &HostPeer) -> Result<PeerConfig, HostError> {
        let mut planes = [None; MAX_PORTS];
        for (slot, plane) in planes.iter_mut().zip(&self.planes) {
            *slot = Some(PlanePath {
                next_hop: plane
                    .next_hop_mac()
                    .ok_or_else(|| self.refuse(format!("`{}` is no MAC address", plane.next_hop)))?,
                outer_src: plane.addr.map(|addr| addr.octets()),
            });
        }
        Ok(PeerConfig {
            local: Ip::V6(self.gid.octets()),
            remote: Ip::V6(peer.gid.octets()),
            planes,
            route: match peer.template {
                Some(_) => Route::Srv6(self.template(peer)?),
                None => Route::Plain,
            },
            hop_limit: 64,
        })
    }

    /// Every path to `peer` once: each plane with each uplink.
    ///
    /// # Errors
    /// More uplinks than an EV can name.
    pub fn paths_to(&self, peer: &HostPeer) -> Result<Vec<EvEntry>, HostError> {
        let planes = self.planes.len() as u8;
        let uplinks = peer.uplinks.max(1);
        let blank = EvEntry::new(Ev(0), PortNum::from_plane(0));
        let mut entries = vec![blank; usize::from(planes) * usize::from(uplinks)];
        compact_profile(&mut entries, planes, uplinks, plan::PLANE_LSB)
            .map_err(|error| self.refuse(format!("paths to {}: {error}", peer.name)))?;
        Ok(entries)
    }

    /// Name of a path of [`Self::paths_to`] for people: `p1u2` is plane 1, uplink 2 of the own T0.
    pub fn path_name(entry: &EvEntry) -> String {
        format!("p{}u{}", entry.port.plane(), entry.ev.0 & ((1 << plan::PLANE_LSB) - 1))
    }

    fn template(&self, peer: &HostPeer) -> Result<EvTemplate, HostError> {
        plan::template(peer).map_err(|error| self.refuse(format!("route to {}: {error}", peer.name)))
    }

    /// The destination of packets to `peer` on a path of [`Self::paths_to`]: the outer one, or the peer's address on the plane
    /// where there is no outer header.
    ///
    /// # Errors
    /// The template is malformed.
    pub fn destination(&self, peer: &HostPeer, path: &EvEntry) -> Result<Ipv6Addr, HostError> {
        match peer.template {
            Some(_) => Ok(self.template(peer)?.apply(path.ev).into()),
            None => Ok(peer.addrs.get(usize::from(path.port.plane())).copied().unwrap_or(peer.gid)),
        }
    }

    /// The outer destination that takes a packet along a path as far as the last switch before `peer` and the same way back
    /// to this host. `None` where no switch is on the path, or more than six micro-SIDs would be needed.
    pub fn return_destination(&self, peer: &HostPeer, path: &EvEntry) -> Option<Ipv6Addr> {
        let there = self.destination(peer, path).ok()?;
        plan::and_back(there, self.planes.get(usize::from(path.port.plane()))?.sid?)
    }

    /// Payload bytes of a full packet: what the file says, else the largest whose frames fit the interface.
    ///
    /// # Errors
    /// Not even 256 bytes fit.
    pub fn path_mtu(&self) -> Result<u16, HostError> {
        self.pmtu.or_else(|| self.largest_path_mtu()).ok_or_else(|| {
            self.refuse(format!("an MTU of {} is too small: at least {} is needed", self.mtu, required_mtu(256)))
        })
    }

    fn largest_path_mtu(&self) -> Option<u16> {
        largest_path_mtu(self.mtu)
    }

    /// Timer and retries. By default the timer is longer than a busy machine takes to run the other side's threads: what
    /// is really lost is found by later packets, long before.
    pub fn retry(&self) -> RetryConfig {
        match self.retry {
            Some(HostRetry { timeout, linear, exponential, .. }) => RetryConfig { timeout, linear, exponential },
            None => RetryConfig::default(),
        }
    }

    /// What verbs have no attribute for.
    pub fn protocol(&self) -> &HostProtocol {
        static PLAIN: HostProtocol =
            HostProtocol { tuning: Tuning::Software, slowness: None, knobs: std::collections::BTreeMap::new() };
        self.protocol.as_ref().unwrap_or(&PLAIN)
    }

    /// How often a queue pair probes a silent peer, in nanoseconds; 0 = never. A side that only receives notices by it
    /// that its peer is gone, after the time that [`Self::retry`] allows.
    pub fn keepalive_ns(&self) -> u64 {
        let ms = self.retry.map_or_else(default_keepalive_ms, |retry| retry.keepalive_ms);
        u64::from(ms) * 1_000_000
    }

    /// This host as a peer of its own: up to the first switch and back. `None` when no peer says which switch that is.
    pub fn myself(&self) -> Option<HostPeer> {
        let [block, rest, first, ..] = self.peers.first()?.template?.segments();
        let [.., own, _, _, _, _, _] = self.planes.first()?.sid?.segments();
        Some(HostPeer {
            name: self.name.clone(),
            gid: self.gid,
            ipv4: self.ipv4,
            template: Some(Ipv6Addr::new(block, rest, first, own, 0, 0, 0, 0)),
            addrs: Vec::new(),
            uplinks: 0,
        })
    }

    /// The GID table: two link-local entries, the inner address, and the only IPv4-mapped one at index 3, unspecified
    /// where the host has none. Programs that choose by themselves, and those told by habit, both look there.
    pub fn gids(&self) -> [Ipv6Addr; 4] {
        let mapped = self.ipv4.map_or(Ipv6Addr::UNSPECIFIED, |ipv4| ipv4.to_ipv6_mapped());
        [link_local(self.gid), link_local(self.gid), self.gid, mapped]
    }

    /// The peer that a GID of any form names; the host itself when it is one of its own. A link-local GID has only the lower half
    /// of the address: `None` where several hosts have the same.
    pub fn peer_by_gid(&self, gid: Ipv6Addr) -> Option<HostPeer> {
        let v4 = gid.to_ipv4_mapped();
        let exactly = |own: Ipv6Addr, ipv4| own == gid || (v4.is_some() && ipv4 == v4);
        if let Some(peer) = self.peers.iter().find(|peer| exactly(peer.gid, peer.ipv4)) {
            return Some(peer.clone());
        }
        if exactly(self.gid, self.ipv4) {
            return self.myself();
        }
        let mut peers = self.peers.iter().filter(|peer| link_local(peer.gid) == gid);
        match (peers.next(), peers.next(), link_local(self.gid) == gid) {
            (Some(peer), None, false) => Some(peer.clone()),
            (None, _, true) => self.myself(),
            _ => None,
        }
    }
}

/// Payload bytes of a full packet, as verbs name them.
const PATH_MTUS: [u16; 5] = [4096, 2048, 1024, 512, 256];

/// The interface MTU that packets of `path_mtu` payload bytes need, in bytes, whatever headers they carry.
pub const fn required_mtu(path_mtu: u16) -> u32 {
    path_mtu as u32 + FrameTemplate::OVERHEAD_MAX as u32
}

/// The largest path MTU whose packets fit an interface MTU.
pub fn largest_path_mtu(mtu: u32) -> Option<u16> {
    PATH_MTUS.into_iter().find(|&payload| required_mtu(payload) <= mtu)
}

/// Longest wait of an answer: below the round trips that loaded software queues make.
const LONGEST_ANSWER_DELAY_US: u16 = 200;

/// What is wrong in a file that parses, and where: key `key` of table number `index` of the name `table`.
struct Wrong {
    table: &'static str,
    index: usize,
    key: String,
    why: String,
}

/// The line, 1-based, of a key in TOML text; of its table when the key is written elsewhere or left out.
fn line_of(text: &str, table: &str, index: usize, key: &str) -> usize {
    let lines = || text.lines().map(str::trim_start).zip(1..);
    let is_key = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='));
    let is_header = |line: &str| line.trim_matches(|c: char| "[] \t".contains(c)) == table && line.starts_with('[');
    if table.is_empty() {
        let mut top = lines().take_while(|(line, _)| !line.starts_with('['));
        return top.find(|(line, _)| is_key(line)).map_or(1, |(_, number)| number);
    }
    let Some(header) = lines().filter(|(line, _)| is_header(line)).nth(index).map(|(_, number)| number) else {
        return 1;
    };
    let mut body = lines().skip(header).take_while(|(line, _)| !line.starts_with('['));
    body.find(|(line, _)| is_key(line)).map_or(header, |(_, number)| number)
}

/// Characters of a key that an error quotes.
const LONGEST_QUOTE: usize = 60;

/// Names go into logs, metrics and thread names as they stand.
fn printable(name: &str) -> Result<(), String> {
    let strange = name.contains(char::is_control);
    if strange { Err(format!("\"{}\" has control characters", name.escape_debug())) } else { Ok(()) }
}

/// What the TOML parser said, with line and key. Nothing of the file may steer a terminal, or fill it.
fn located(origin: &str, text: &str, error: &toml::de::Error) -> HostError {
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let line = text.get(..start).unwrap_or("").matches('\n').count() + 1;
    let key = text.lines().nth(line - 1).unwrap_or("").split('=').next().unwrap_or("").trim();
    // What the whole file lacks stands in no line of it.
    let lacks = error.message().strip_prefix("missing field `").filter(|_| start == 0);
    let key = lacks.map_or(key, |lacks| lacks.trim_end_matches('`'));
    let key = crate::visible(key).chars().take(LONGEST_QUOTE).collect();
    HostError::Toml { origin: origin.to_owned(), line, key, why: crate::visible(error.message()) }
}

/// The link-local address with the same lower half.
fn link_local(gid: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c, d] = gid.segments();
    Ipv6Addr::new(0xfe80, 0, 0, 0, a, b, c, d)
}

#[cfg(test)]
mod tests;
