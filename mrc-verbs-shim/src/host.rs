//! What a host knows of itself and its peers: planes, addresses, source routes. Written by `mrc lab`, or by hand for real
//! hosts; read by every command that opens a device.

use std::net::Ipv6Addr;
use std::path::Path;

use mrc_afxdp::device::{DeviceConfig, PlaneConfig};
use mrc_core::path::{EvEntry, compact_profile};
use mrc_core::{MAX_PORTS, PeerConfig, PlanePath, Route};
use mrc_wire::srv6::{CopyOp, EvTemplate, TemplateError};
use mrc_wire::{Ev, Ip, PortNum};
use serde::{Deserialize, Serialize};

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
    /// The file holds something else; the parser says where.
    #[error("{origin} is no host file: {source}")]
    Parse {
        /// Where the text came from.
        origin: String,
        /// Line, column and key.
        source: serde_json::Error,
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

/// EV bits: plane in [11:8], T0 uplink in [7:0].
const PLANE_LSB: u8 = 8;

/// One plane of a host.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostPlane {
    /// Network interface.
    pub interface: String,
    /// The host's SID on this plane.
    pub sid: Ipv6Addr,
    /// The port's own address.
    pub addr: Ipv6Addr,
    /// MAC address of the T0 switch's port.
    pub next_hop: String,
}

/// One peer of a host.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostPeer {
    /// Name for people.
    pub name: String,
    /// Inner address.
    pub gid: Ipv6Addr,
    /// Micro-SIDs of plane 0, uplink 0, first hop first: own T0, T1, peer's T0, peer; or T0, peer under one T0.
    pub template: Ipv6Addr,
    /// T0 uplinks (T1 switches per plane) that lead there; 0 when both hosts share a T0.
    pub uplinks: u16,
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
    /// Inner address.
    pub gid: Ipv6Addr,
    /// Interface MTU in bytes.
    pub mtu: u32,
    /// Planes, plane 0 first.
    pub planes: Vec<HostPlane>,
    /// Peers.
    pub peers: Vec<HostPeer>,
}

impl HostFile {
    /// Reads a host file.
    ///
    /// # Errors
    /// [`HostError`] names the file, the line and the key.
    pub fn read(path: &Path) -> Result<Self, HostError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| HostError::Read { path: name.clone(), source })?;
        Self::parse(&name, &text)
    }

    /// Reads a host file's text; `origin` says where it came from, for the error message.
    ///
    /// # Errors
    /// [`HostError`] names origin, line and key.
    pub fn parse(origin: &str, text: &str) -> Result<Self, HostError> {
        let host: Self =
            serde_json::from_str(text).map_err(|source| HostError::Parse { origin: origin.to_owned(), source })?;
        if (1..=MAX_PORTS).contains(&host.planes.len()) {
            return Ok(host);
        }
        Err(host.refuse(format!("`planes` has {} entries, 1 to {MAX_PORTS} are possible", host.planes.len())))
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
            sid: Some(plane.sid.octets()),
            addr: Some(plane.addr.octets()),
        });
        DeviceConfig::new(&self.name, planes.collect(), self.gid.octets())
    }

    /// How this host reaches `peer`.
    ///
    /// # Errors
    /// A MAC address or the template is malformed.
    pub fn peer_config(&self, peer: &HostPeer) -> Result<PeerConfig, HostError> {
        let mut planes = [None; MAX_PORTS];
        for (slot, plane) in planes.iter_mut().zip(&self.planes) {
            *slot = Some(PlanePath {
                next_hop: parse_mac(&plane.next_hop)
                    .ok_or_else(|| self.refuse(format!("`{}` is no MAC address", plane.next_hop)))?,
                outer_src: Some(plane.addr.octets()),
            });
        }
        Ok(PeerConfig {
            local: Ip::V6(self.gid.octets()),
            remote: Ip::V6(peer.gid.octets()),
            planes,
            route: Route::Srv6(
                template(peer).map_err(|error| self.refuse(format!("route to {}: {error}", peer.name)))?,
            ),
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
        compact_profile(&mut entries, planes, uplinks, PLANE_LSB)
            .map_err(|error| self.refuse(format!("paths to {}: {error}", peer.name)))?;
        Ok(entries)
    }

    /// Largest standard path MTU whose frames fit the interface: payload, 88 bytes of headers, 40 of SRv6.
    ///
    /// # Errors
    /// Not even 256 bytes fit.
    pub fn path_mtu(&self) -> Result<u16, HostError> {
        [4096u16, 2048, 1024, 512, 256]
            .into_iter()
            .find(|&payload| u32::from(payload) + 88 + 40 <= self.mtu)
            .ok_or_else(|| self.refuse(format!("an MTU of {} is too small: at least 384 is needed", self.mtu)))
    }
}

/// The algorithmic mapping: the plane goes into every micro-SID, the uplink into the T1's.
fn template(peer: &HostPeer) -> Result<EvTemplate, TemplateError> {
    let plane = |usid: u8| CopyOp { ev_lsb: PLANE_LSB, width: 4, dst_msb_offset: 32 + 16 * usid + 4 };
    let uplink = CopyOp { ev_lsb: 0, width: 8, dst_msb_offset: 32 + 16 + 8 };
    let far = [plane(0), plane(1), plane(2), plane(3), uplink];
    let near = [plane(0), plane(1)];
    let ops: &[CopyOp] = if peer.uplinks == 0 { &near } else { &far };
    EvTemplate::new(peer.template.octets(), ops)
}

fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_puts_plane_and_uplink_where_the_switches_look() {
        let peer = HostPeer {
            name: "hB".into(),
            gid: Ipv6Addr::LOCALHOST,
            template: "fcbb:bb00:1000:2000:1001:3001::".parse().unwrap(),
            uplinks: 4,
        };
        let dst = Ipv6Addr::from(template(&peer).unwrap().apply(Ev(0x103)));
        assert_eq!(dst.to_string(), "fcbb:bb00:1100:2103:1101:3101::");
    }

    #[test]
    fn macs_are_checked() {
        assert_eq!(parse_mac("02:00:00:00:00:0a"), Some([2, 0, 0, 0, 0, 10]));
        for bad in ["", "02:00", "02:00:00:00:00:0a:01", "zz:00:00:00:00:00"] {
            assert_eq!(parse_mac(bad), None, "{bad}");
        }
    }
}
