//! What both ends know before the first packet: addresses, numbers, keys, paths. A connection manager would agree on it.

use serde::{Deserialize, Serialize};

use crate::knobs::Knobs;

/// An IP address.
pub type Address = std::net::IpAddr;

/// Everything agreed for one script. `target` is the endpoint under test, `tester` the one that plays its peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// QP number of the target.
    pub target_qpn: u32,
    /// QP number the tester uses.
    pub tester_qpn: u32,
    /// MAC addresses of the target's ports, port 1 first.
    pub target_mac: Vec<[u8; 6]>,
    /// MAC addresses of the tester's ports.
    pub tester_mac: Vec<[u8; 6]>,
    /// Inner (or only) address of the target.
    pub target_ip: Address,
    /// Inner (or only) address of the tester.
    pub tester_ip: Address,
    /// Outer addresses under SRv6, per port: the target's SID.
    pub target_sid: Vec<std::net::Ipv6Addr>,
    /// Outer addresses under SRv6, per port: the tester's SID.
    pub tester_sid: Vec<std::net::Ipv6Addr>,
    /// The target's region that the tester writes to.
    pub target_va: u64,
    /// Its key.
    pub target_rkey: u32,
    /// Bytes of either region.
    pub region: u64,
    /// The tester's region that the target writes to.
    pub tester_va: u64,
    /// Its key.
    pub tester_rkey: u32,
    /// The EV profile of the target's QP: value and port. Empty: any value may come.
    pub evs: Vec<(u32, u8)>,
    /// What the target's driver leaves to others, see [`LACKS`]; scripts that need it do not apply.
    #[serde(default)]
    pub lacks: Vec<String>,
}

/// What a target may lack: the name and what it means.
pub const LACKS: &[(&str, &str)] = &[
    ("vlan", "frames with an 802.1Q tag go elsewhere"),
    ("ip_options", "IPv4 packets with options go elsewhere"),
    ("bare", "under SRv6, frames without an outer header go elsewhere"),
    ("ports", "the target's ports cannot be taken down and up"),
];

/// Bytes of a region.
pub(crate) const REGION: u64 = 1 << 20;
/// Where the target's region begins.
pub(crate) const TARGET_VA: u64 = 0x7F00_0000_0000;
/// Where the tester's region begins.
pub(crate) const TESTER_VA: u64 = 0x6E00_0000_0000;

impl Facts {
    /// The tester's half of what is agreed; the target fills in its own.
    pub fn offer(knobs: &Knobs, tester_mac: Vec<[u8; 6]>) -> Self {
        let v4 = knobs.get("ip") == 4;
        let ip = |last: u8| {
            if v4 {
                Address::from([192, 0, 2, last])
            } else {
                Address::from([0x2001, 0xDB8, 1, 0, 0, 0, 0, last.into()])
            }
        };
        let sid = |host: u16| {
            (0..8).map(|plane| [0xFCBB, 0xBB00, 0x3000 | plane << 8 | host, 0, 0, 0, 0, 0].into()).collect()
        };
        let planes = knobs.get("planes").clamp(1, 8) as u32;
        // Where a packet carries the high half, it is another one for each EV but the first. IPv4 has no place for it, and
        // under SRv6 the value stands for an uplink.
        let wide = !v4 && !knobs.on("srv6");
        let high = |n: u32| if wide && n > 0 { (0xA500 | n) << 16 } else { 0 };
        let evs = (0..knobs.get("evs") as u32)
            .map(|n| (high(n) | ((n % planes) << 8) | (n / planes), (n % planes) as u8 + 1))
            .collect();
        Self {
            target_qpn: 0,
            tester_qpn: 0x01_A0A1,
            target_mac: Vec::new(),
            tester_mac,
            target_ip: ip(11),
            tester_ip: ip(10),
            target_sid: sid(0xB),
            tester_sid: sid(0xA),
            target_va: TARGET_VA,
            target_rkey: 0,
            region: REGION,
            tester_va: TESTER_VA,
            tester_rkey: 0xCAFE_0001,
            evs,
            lacks: Vec::new(),
        }
    }

    /// Whether a script can be played with these facts. Packets to a wrong address or of a wrong number draw no reply, and a
    /// script would blame the target for its silence.
    ///
    /// # Errors
    /// The first fact that cannot be, by name.
    pub fn check(&self, knobs: &Knobs) -> Result<(), String> {
        let planes = knobs.get("planes").max(1) as usize;
        for (name, qpn) in [("target_qpn", self.target_qpn), ("tester_qpn", self.tester_qpn)] {
            if !(3..=0xFF_FFFF).contains(&qpn) {
                return Err(format!("`{name}` {qpn}: 3 to 16777215 are possible"));
            }
        }
        let v4 = knobs.get("ip") == 4;
        for (name, ip) in [("target_ip", self.target_ip), ("tester_ip", self.tester_ip)] {
            if ip.is_ipv4() != v4 {
                return Err(format!("`{name}` {ip}: the knob ip is {}", knobs.get("ip")));
            }
        }
        for (name, macs) in [("target_mac", &self.target_mac), ("tester_mac", &self.tester_mac)] {
            if macs.is_empty() || macs.iter().any(|[first, ..]| first & 1 == 1) {
                return Err(format!("`{name}`: a unicast address for each port is needed"));
            }
        }
        for (name, sids) in [("target_sid", &self.target_sid), ("tester_sid", &self.tester_sid)] {
            if knobs.on("srv6") && sids.len() < planes {
                return Err(format!("`{name}`: {} SIDs for {planes} ports under SRv6", sids.len()));
            }
        }
        if self.region != REGION || self.target_va.checked_add(REGION).is_none() {
            return Err(format!(
                "`region` {} at `target_va` {:#x}: {REGION} bytes are needed",
                self.region, self.target_va
            ));
        }
        if let Some((ev, port)) = self.evs.iter().find(|(_, port)| !(1..=planes).contains(&usize::from(*port))) {
            return Err(format!("`evs`: value {ev} is on port {port}; there are ports 1 to {planes}"));
        }
        if let Some(word) = self.lacks.iter().find(|word| !LACKS.iter().any(|(known, _)| known == *word)) {
            let known: Vec<&str> = LACKS.iter().map(|(known, _)| *known).collect();
            return Err(format!("`lacks` `{word}`: there are {}", known.join(", ")));
        }
        Ok(())
    }

    /// Outer destination of the target's packet on `ev` under SRv6: the uplink named by the EV's low 12 bits, then the
    /// tester.
    pub fn outer_dst(&self, ev: u32) -> std::net::Ipv6Addr {
        let host = self.tester_sid.first().map_or(0, |sid| sid.segments()[2]);
        [0xFCBB, 0xBB00, 0x1000 | (ev & 0xFFF) as u16, host, 0, 0, 0, 0].into()
    }
}

/// First content of the target's memory at `offset`.
pub(crate) fn initial(offset: u64) -> u8 {
    (offset.wrapping_mul(7).wrapping_add(offset / 251)) as u8
}

/// Payload byte `n` of the tester's write packet `psn`.
pub(crate) fn fill(psn: u32, n: usize) -> u8 {
    psn.wrapping_mul(37).wrapping_add((n as u32).wrapping_mul(11)).wrapping_add(n as u32 / 256).wrapping_add(5) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_that_cannot_be_are_named() {
        let knobs = |items: &[&str]| {
            let mut knobs = Knobs::default();
            items.iter().for_each(|item| knobs.read(item).unwrap());
            knobs
        };
        let whole = |knobs: &Knobs| {
            let mac = vec![[2, 0, 0, 0, 0, 1]];
            Facts { target_qpn: 17, target_mac: mac.clone(), ..Facts::offer(knobs, mac) }
        };
        for items in [&[][..], &["ip=4"], &["srv6", "planes=2"]] {
            let knobs = knobs(items);
            assert_eq!(whole(&knobs).check(&knobs), Ok(()), "{items:?}");
        }
        let srv6 = knobs(&["srv6", "planes=2"]);
        let wrong = |spoil: &dyn Fn(&mut Facts)| {
            let mut facts = whole(&srv6);
            spoil(&mut facts);
            facts.check(&srv6).unwrap_err()
        };
        for (says, spoil) in [
            ("`target_qpn` 2:", &(|f: &mut Facts| f.target_qpn = 2) as &dyn Fn(&mut Facts)),
            ("`tester_qpn` 16777216:", &|f| f.tester_qpn = 1 << 24),
            ("`target_ip` 192.0.2.1: the knob ip is 6", &|f| f.target_ip = [192, 0, 2, 1].into()),
            ("`target_mac`: a unicast address", &|f| f.target_mac.clear()),
            ("`tester_mac`: a unicast address", &|f| f.tester_mac = vec![[0xFF; 6]]),
            ("`target_sid`: 1 SIDs for 2 ports", &|f| f.target_sid.truncate(1)),
            ("`tester_sid`: 0 SIDs for 2 ports", &|f| f.tester_sid.clear()),
            ("`region` 0 at", &|f| f.region = 0),
            ("at `target_va` 0xffffffffffffffff:", &|f| f.target_va = u64::MAX),
            ("`evs`: value 5 is on port 3; there are ports 1 to 2", &|f| f.evs = vec![(4, 1), (5, 3)]),
            ("`lacks` `vlans`: there are vlan,", &|f| f.lacks = vec!["vlans".into()]),
        ] {
            let why = wrong(spoil);
            assert!(why.contains(says), "{why}");
        }
    }
}
