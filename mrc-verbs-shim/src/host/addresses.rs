//! Inner addresses of a peer for each plane: `addrs` of a `[[peers]]` table, and `addr` of the planes on our side. Source: `paths.md`
//! 9.5.

use std::net::Ipv6Addr;

use mrc_afxdp::device::{Device, DeviceError};
use mrc_core::PeerHandle;
use mrc_wire::{Ip, PortNum};

use super::{HostFile, HostPeer};

impl HostFile {
    /// Gives packets to and from `peer`, which `device` knows as `handle`, their inner addresses on each plane where they are not
    /// the GIDs. It has to be done before a queue pair uses the peer.
    ///
    /// # Errors
    /// The handle is stale or used, or the addresses cannot be.
    pub fn set_plane_addresses(&self, device: &Device, handle: PeerHandle, peer: &HostPeer) -> Result<(), DeviceError> {
        self.plane_addresses(peer)
            .try_for_each(|(port, local, remote)| device.set_plane_addresses(handle, port, local, remote))
    }

    /// Port, our address and the peer's, where the inner addresses are not the GIDs.
    fn plane_addresses<'h>(&'h self, peer: &'h HostPeer) -> impl Iterator<Item = (PortNum, Ip, Ip)> + 'h {
        let planes = (0u8..).map(PortNum::from_plane).zip(&self.planes).zip(&peer.addrs);
        let inner = |address: Ipv6Addr| Ip::V6(address.octets());
        planes.filter_map(move |((port, plane), theirs)| Some((port, inner(plane.addr?), inner(*theirs))))
    }
}

/// Whether `addrs` of peer `index` can be; what is wrong if not.
pub(super) fn check(host: &HostFile, index: usize) -> Result<(), String> {
    let Some(peer) = host.peers.get(index).filter(|peer| !peer.addrs.is_empty()) else { return Ok(()) };
    let (have, planes) = (peer.addrs.len(), host.planes.len());
    if have != planes {
        return Err(format!("{have} addresses: one for each of the {planes} planes, plane 0 first"));
    }
    for (plane, (own, theirs)) in host.planes.iter().zip(&peer.addrs).enumerate() {
        let Some(own) = own.addr else {
            return Err(format!("plane {plane} has no `addr`: our own inner address there"));
        };
        if theirs.is_unspecified() || theirs.is_multicast() || theirs.is_loopback() || theirs.to_ipv4_mapped().is_some()
        {
            return Err(format!("{theirs} on plane {plane} is no unicast IPv6 address"));
        }
        if *theirs == own {
            return Err(format!("{theirs} on plane {plane} is this host's own address there"));
        }
        let before = host.peers.iter().take(index);
        if let Some(other) = before.into_iter().find(|other| other.addrs.get(plane) == Some(theirs)) {
            return Err(format!("{theirs} on plane {plane} is the address of {} already", other.name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"name = "hA"
gid = "fd00::1"
mtu = 9000

[[planes]]
interface = "plane0"
addr = "fd00:0:0:10::1"
next_hop = "02:00:00:00:00:01"

[[planes]]
interface = "plane1"
addr = "fd00:0:0:11::1"
next_hop = "02:00:00:00:00:02"

[[peers]]
name = "hB"
gid = "fd00::2"
addrs = ["fd00:0:0:10::2", "fd00:0:0:11::2"]
uplinks = 4

[[peers]]
name = "hC"
gid = "fd00::3"
uplinks = 4
"#;

    fn ip(text: &str) -> Ip {
        Ip::V6(text.parse::<Ipv6Addr>().unwrap().octets())
    }

    //= ADDR-001 test
    #[test]
    fn a_peer_has_an_address_on_each_plane() {
        let host = HostFile::parse("mrc.toml", FILE).unwrap();
        let of = |peer: usize| host.plane_addresses(&host.peers[peer]).collect::<Vec<_>>();
        let port = PortNum::from_plane;
        let expected = [
            (port(0), ip("fd00:0:0:10::1"), ip("fd00:0:0:10::2")),
            (port(1), ip("fd00:0:0:11::1"), ip("fd00:0:0:11::2")),
        ];
        assert_eq!((of(0).as_slice(), of(1).len()), (&expected[..], 0));
        let again = HostFile::parse("again", &host.to_toml()).unwrap();
        assert_eq!(again.to_toml(), host.to_toml());
        // The device takes packets to these addresses, and the engine takes them as its own.
        let device = host.device();
        assert_eq!(device.planes[1].addr.map(Ip::V6), Some(ip("fd00:0:0:11::1")));
    }

    #[test]
    fn addresses_that_cannot_be_are_refused_by_line_and_reason() {
        for (from, to, want) in [
            (", \"fd00:0:0:11::2\"", "", "line 18, `addrs`: 1 addresses: one for each of the 2 planes"),
            ("addr = \"fd00:0:0:11::1\"\n", "", "line 17, `addrs`: plane 1 has no `addr`"),
            ("11::2\"]", "11::1\"]", "line 18, `addrs`: fd00:0:0:11::1 on plane 1 is this host's own"),
            ("fd00:0:0:11::2", "ff02::1", "line 18, `addrs`: ff02::1 on plane 1 is no unicast IPv6 address"),
            ("fd00:0:0:11::2", "::ffff:10.0.0.1", "line 18, `addrs`: ::ffff:10.0.0.1 on plane 1 is no unicast"),
            ("\"fd00:0:0:11::2\"]", "\"here\"]", "line 18, `addrs`: invalid IPv6 address"),
            (
                "gid = \"fd00::3\"",
                "gid = \"fd00::3\"\naddrs = [\"fd00:0:0:10::3\", \"fd00:0:0:11::2\"]",
                "line 24, `addrs`: fd00:0:0:11::2 on plane 1 is the address of hB already",
            ),
        ] {
            assert!(FILE.contains(from), "{from}");
            let text = HostFile::parse("mrc.toml", &FILE.replace(from, to)).unwrap_err().to_string();
            assert!(text.contains(want), "{text}");
        }
    }
}
