//! Addresses by which hosts know each other: `gid` and `ipv4`. Inner addresses of a peer for each plane: `addrs` of a `[[peers]]`
//! table, and `addr` of the planes on our side. Source: `paths.md` 9.5.

use std::net::{Ipv4Addr, Ipv6Addr};

use mrc_afxdp::device::{Device, DeviceError};
use mrc_core::PeerHandle;
use mrc_wire::{Ip, PortNum};

use super::{HostFile, HostPeer, HostPlane};

impl HostFile {
    /// The device's GUID, from the lower half of the inner address: unique where that half is.
    pub fn guid(&self) -> [u8; 8] {
        let [.., a, b, c, d, e, f, g, h] = self.gid.octets();
        [a ^ 0x02, b, c, d, e, f, g, h]
    }

    /// Gives packets to and from `peer`, which `device` knows as `handle`, their inner addresses on each plane where they are not
    /// the GIDs. It has to be done before a queue pair uses the peer.
    ///
    /// # Errors
    /// The handle is stale or used, or the addresses cannot be.
    pub fn set_plane_addresses(&self, device: &Device, handle: PeerHandle, peer: &HostPeer) -> Result<(), DeviceError> {
        self.plane_addresses(peer)
            .try_for_each(|(port, local, remote)| device.set_plane_addresses(handle, port, local, remote))
    }

    /// Port, our address and the peer's.
    fn plane_addresses<'h>(&'h self, peer: &'h HostPeer) -> impl Iterator<Item = (PortNum, Ip, Ip)> + 'h {
        let planes = (0u8..).map(PortNum::from_plane).zip(&self.planes).zip(&peer.addrs);
        let inner = |address: Ipv6Addr| Ip::V6(address.octets());
        planes.filter_map(move |((port, plane), theirs)| Some((port, inner(plane.addr?), inner(*theirs))))
    }
}

/// What is wrong with a value, behind its key.
type Wrong = (&'static str, String);

/// Whether `gid` and `ipv4` of this host can be.
pub(super) fn check_own(host: &HostFile) -> Result<(), Wrong> {
    unicast(host.gid).map_err(|why| ("gid", why))?;
    host.ipv4.map_or(Ok(()), unicast_v4).map_err(|why| ("ipv4", why))
}

/// Whether `gid`, `ipv4` and `template` of peer `index` can be. A file that was copied from the peer and not changed gives both hosts one
/// address, and neither hears the other.
pub(super) fn check_peer(host: &HostFile, index: usize) -> Result<(), Wrong> {
    let Some(peer) = host.peers.get(index) else { return Ok(()) };
    unicast(peer.gid).map_err(|why| ("gid", why))?;
    peer.ipv4.map_or(Ok(()), unicast_v4).map_err(|why| ("ipv4", why))?;
    let before = || host.peers.iter().take(index);
    if peer.gid == host.gid {
        return Err(("gid", format!("{} is this host's own", peer.gid)));
    }
    if before().any(|other| other.gid == peer.gid) {
        return Err(("gid", format!("{} names another peer already", peer.gid)));
    }
    if let Some(other) = before().find(|other| other.template.is_some() && other.template == peer.template) {
        return Err(("template", format!("it leads to {} already", other.name)));
    }
    let Some(ipv4) = peer.ipv4 else { return Ok(()) };
    if host.ipv4 == Some(ipv4) {
        return Err(("ipv4", format!("{ipv4} is this host's own")));
    }
    if before().any(|other| other.ipv4 == Some(ipv4)) {
        return Err(("ipv4", format!("{ipv4} names another peer already")));
    }
    Ok(())
}

/// Whether `addr` of a plane can be. Behind a SID it is the source of the outer header: no router forwards packets from a link-local one.
pub(super) fn check_plane(plane: &HostPlane) -> Result<(), String> {
    let Some(addr) = plane.addr else { return Ok(()) };
    if plane.sid.is_some() && addr.is_unicast_link_local() {
        return Err(format!(
            "{addr} is link-local: switches forward no packet from it; an address of the port is needed"
        ));
    }
    unicast(addr)
}

fn unicast(ip: Ipv6Addr) -> Result<(), String> {
    let other = ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() || ip.to_ipv4_mapped().is_some();
    if other { Err(format!("{ip} is no unicast IPv6 address of a host")) } else { Ok(()) }
}

fn unicast_v4(ip: Ipv4Addr) -> Result<(), String> {
    let other = ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast();
    if other { Err(format!("{ip} is no unicast IPv4 address of a host")) } else { Ok(()) }
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
        unicast(*theirs).map_err(|why| format!("plane {plane}: {why}"))?;
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

/// The address of one interface: neither a group's nor nobody's.
pub(super) fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    (parts.next().is_none() && mac[0] & 1 == 0 && mac != [0; 6]).then_some(mac)
}

#[cfg(test)]
mod tests {
    use mrc_core::path::EvEntry;
    use mrc_wire::Ev;

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

    #[test]
    fn macs_are_checked() {
        assert_eq!(parse_mac("02:00:00:00:00:0a"), Some([2, 0, 0, 0, 0, 10]));
        let groups = ["01:00:5e:00:00:01", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00"];
        for bad in ["", "02:00", "02:00:00:00:00:0a:01", "zz:00:00:00:00:00"].into_iter().chain(groups) {
            assert_eq!(parse_mac(bad), None, "{bad}");
        }
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
        // What `mrc doctor` prints for each path.
        let leads_to = |peer: usize, plane| {
            let path = EvEntry::new(Ev(u32::from(plane) << 8), port(plane));
            host.destination(&host.peers[peer], &path).unwrap().to_string()
        };
        assert_eq!([leads_to(0, 0), leads_to(0, 1), leads_to(1, 1)], ["fd00:0:0:10::2", "fd00:0:0:11::2", "fd00::3"]);
        let again = HostFile::parse("again", &host.to_toml()).unwrap();
        assert_eq!(again.to_toml(), host.to_toml());
        // The device takes packets to these addresses, and the engine takes them as its own.
        let device = host.device();
        assert_eq!(device.planes[1].addr.map(Ip::V6), Some(ip("fd00:0:0:11::1")));
    }

    /// These were taken; the device opened, and nothing arrived anywhere.
    #[test]
    fn hosts_that_cannot_be_told_apart_are_refused_by_line_and_reason() {
        let file = FILE
            .replace("gid = \"fd00::1\"", "gid = \"fd00::1\"\nipv4 = \"10.0.0.1\"")
            .replace("gid = \"fd00::2\"", "gid = \"fd00::2\"\nipv4 = \"10.0.0.2\"");
        let file = file.replace("gid = \"fd00::3\"", "gid = \"fd00::3\"\nipv4 = \"10.0.0.3\"");
        HostFile::parse("mrc.toml", &file).unwrap();
        for (from, to, want) in [
            ("fd00::1\"", "::\"", "line 2, `gid`: :: is no unicast IPv6 address of a host"),
            ("fd00::1\"", "ff02::1\"", "line 2, `gid`: ff02::1 is no unicast"),
            ("fd00::1\"", "::ffff:10.0.0.1\"", "line 2, `gid`: ::ffff:10.0.0.1 is no unicast"),
            ("10.0.0.1", "0.0.0.0", "line 3, `ipv4`: 0.0.0.0 is no unicast IPv4 address of a host"),
            ("fd00::2\"", "fd00::1\"", "line 18, `gid`: fd00::1 is this host's own"),
            ("fd00::3", "fd00::2", "line 25, `gid`: fd00::2 names another peer already"),
            ("fd00::3", "::1", "line 25, `gid`: ::1 is no unicast"),
            ("10.0.0.2", "10.0.0.1", "line 19, `ipv4`: 10.0.0.1 is this host's own"),
            ("10.0.0.3", "10.0.0.2", "line 26, `ipv4`: 10.0.0.2 names another peer already"),
            ("10.0.0.3", "224.0.0.1", "line 26, `ipv4`: 224.0.0.1 is no unicast"),
            ("02:00:00:00:00:02", "03:00:00:00:00:02", "line 14, `next_hop`: `03:00:00:00:00:02` is no unicast MAC"),
            ("name = \"hA\"\n", "", "line 1, `name`: missing field `name`"),
        ] {
            assert!(file.contains(from), "{from}");
            let text = HostFile::parse("mrc.toml", &file.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(text.contains(want), "{text}");
        }
    }

    #[test]
    fn packets_with_an_outer_header_reach_one_peer_each_from_an_address_that_is_forwarded() {
        let template = "template = \"fcbb:bb00:1000:2000:1001:3001::\"\n";
        let sids = ["fcbb:bb00:3000::", "fcbb:bb00:3100::"];
        let mut file = FILE.replace("addrs = [\"fd00:0:0:10::2\", \"fd00:0:0:11::2\"]\n", "");
        for (plane, sid) in sids.iter().enumerate() {
            file = file.replace(
                &format!("interface = \"plane{plane}\""),
                &format!("interface = \"plane{plane}\"\nsid = \"{sid}\""),
            );
        }
        let file = file.replace("uplinks", &format!("{template}uplinks"));
        for (addr, want) in [("fe80::1", "fe80::1 is link-local"), ("ff02::1", "ff02::1 is no unicast")] {
            let why = HostFile::parse("mrc.toml", &file.replace("fd00:0:0:11::1", addr)).unwrap_err().to_string();
            assert!(why.contains("line 14, `addr`: ") && why.contains(want), "{why}");
        }
        let why = HostFile::parse("mrc.toml", &file).unwrap_err().to_string();
        assert!(why.contains("`template`: it leads to hB already"), "{why}");
        let other = file.replacen("3001::", "3002::", 1);
        HostFile::parse("mrc.toml", &other).unwrap();
    }

    #[test]
    fn addresses_that_cannot_be_are_refused_by_line_and_reason() {
        for (from, to, want) in [
            (", \"fd00:0:0:11::2\"", "", "line 18, `addrs`: 1 addresses: one for each of the 2 planes"),
            ("addr = \"fd00:0:0:11::1\"\n", "", "line 17, `addrs`: plane 1 has no `addr`"),
            ("11::2\"]", "11::1\"]", "line 18, `addrs`: fd00:0:0:11::1 on plane 1 is this host's own"),
            ("fd00:0:0:11::2", "ff02::1", "line 18, `addrs`: plane 1: ff02::1 is no unicast IPv6 address"),
            ("fd00:0:0:11::2", "::ffff:10.0.0.1", "line 18, `addrs`: plane 1: ::ffff:10.0.0.1 is no unicast"),
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
