//! What to deny because of what is faulty: named rules, and what they come to for each host.
//!
//! A host's plane is denied when its host link or port loses more than [`Rules::host_link_loss`], since MRC keeps planes equal
//! and cannot tell its own end from the remote one. EVs through a faulty uplink or T1 are denied only on request: MRC finds
//! those by itself. At most [`Rules::most_planes`] planes of a host are denied and never the last one. A component with
//! alternatives is never acted on.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::locate::Finding;
use crate::topology::{Component, Fabric, HostId};

/// The rules.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rules {
    /// Loss of a host link above which its plane is denied on that host.
    pub host_link_loss: f64,
    /// Most planes denied per host.
    pub most_planes: u8,
    /// Also deny EVs through uplinks and T1s that lose more than this; none: leave them to MRC.
    pub uplink_loss: Option<f64>,
}

impl Default for Rules {
    fn default() -> Self {
        Self { host_link_loss: 0.01, most_planes: 1, uplink_loss: None }
    }
}

/// State number of a denied EV in `mrc_ctl` (`MRC_CTL_EV_DENIED`).
pub const MRC_CTL_EV_DENIED: u32 = 1 << 2;

/// An entry of `MRC_CTL_EV_OP_MODIFY_EV_STATE`: compact EV, plane in bits 11 to 8 and uplink in bits 7 to 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Denied {
    /// The EV.
    pub ev: u32,
    /// Its new state.
    pub state: u32,
}

/// What a host should deny.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Denylist {
    /// Whole planes.
    pub planes: BTreeSet<u8>,
    /// EVs, those of denied planes included.
    pub evs: BTreeSet<Denied>,
    /// The findings behind it, by name.
    pub because: BTreeSet<String>,
}

/// Applies the rules. Hosts without an entry deny nothing.
#[must_use]
pub fn apply(fabric: &Fabric, rules: &Rules, faulty: &[Finding]) -> BTreeMap<HostId, Denylist> {
    let mut lists: BTreeMap<HostId, Denylist> = BTreeMap::new();
    let mut worst: Vec<&Finding> = faulty.iter().filter(|finding| finding.instead.is_empty()).collect();
    worst.sort_by(|a, b| b.loss.total_cmp(&a.loss).then(a.component.cmp(&b.component)));
    for finding in worst {
        match finding.component {
            Component::HostLink(plane, host, _) | Component::NicPort(plane, host)
                if finding.loss > rules.host_link_loss =>
            {
                let list = lists.entry(host).or_default();
                let most = usize::from(rules.most_planes.min(fabric.planes.saturating_sub(1)));
                if list.planes.contains(&plane) || list.planes.len() < most {
                    list.planes.insert(plane);
                    list.because.insert(finding.component.to_string());
                    list.evs.extend((0..fabric.spines).map(|spine| denied(plane, spine)));
                }
            }
            Component::Uplink(plane, leaf, spine, _) if rules.uplink_loss.is_some_and(|most| finding.loss > most) => {
                for host in fabric.hosts_of(leaf) {
                    lists.entry(host).or_default().deny(plane, spine, finding);
                }
            }
            Component::T1(plane, spine) if rules.uplink_loss.is_some_and(|most| finding.loss > most) => {
                for host in 0..fabric.hosts {
                    lists.entry(host).or_default().deny(plane, spine, finding);
                }
            }
            _ => {}
        }
    }
    lists.retain(|_, list| !list.evs.is_empty());
    lists
}

fn denied(plane: u8, spine: u16) -> Denied {
    Denied { ev: u32::from(plane) << 8 | u32::from(spine & 0xFF), state: MRC_CTL_EV_DENIED }
}

impl Denylist {
    fn deny(&mut self, plane: u8, spine: u16, finding: &Finding) {
        self.evs.insert(denied(plane, spine));
        self.because.insert(finding.component.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FABRIC: Fabric = Fabric { planes: 2, leaves: 2, spines: 4, hosts: 4 };

    fn finding(name: &str, loss: f64) -> Finding {
        Finding { component: name.parse().unwrap(), loss, evidence: 100.0, instead: Vec::new() }
    }

    #[test]
    fn a_plane_behind_a_lossy_host_link_is_denied_but_never_the_last() {
        let lists = apply(&FABRIC, &Rules::default(), &[finding("p0-hA:down", 0.02), finding("p1-hA", 0.5)]);
        assert_eq!(lists.len(), 1);
        assert_eq!(lists[&0].planes, BTreeSet::from([1]), "the worse one, and one stays");
        let evs: Vec<u32> = lists[&0].evs.iter().map(|denied| denied.ev).collect();
        assert_eq!(evs, [0x100, 0x101, 0x102, 0x103]);
        assert!(lists[&0].evs.iter().all(|denied| denied.state == 4));
        let greedy = Rules { most_planes: 9, ..Rules::default() };
        assert_eq!(apply(&FABRIC, &greedy, &[finding("p0-hA", 1.0), finding("p1-hA", 0.5)])[&0].planes.len(), 1);
        assert!(apply(&FABRIC, &Rules::default(), &[finding("p0-hA", 0.005)]).is_empty());
    }

    #[test]
    fn uplinks_are_left_to_mrc_unless_asked_for() {
        let findings = [finding("p0-t0b-t1c", 1.0), finding("p1-t1a", 1.0), finding("hA", 1.0)];
        assert!(apply(&FABRIC, &Rules::default(), &findings).is_empty());
        let lists = apply(&FABRIC, &Rules { uplink_loss: Some(0.01), ..Rules::default() }, &findings);
        assert_eq!(lists[&1].evs.iter().map(|denied| denied.ev).collect::<Vec<_>>(), [0x002, 0x100]);
        assert_eq!(lists[&0].evs.len(), 1);
    }

    #[test]
    fn what_is_not_certain_is_not_acted_on() {
        let mut unsure = finding("p0-hA", 1.0);
        unsure.instead.push("p0-t0a".parse().unwrap());
        assert!(apply(&FABRIC, &Rules::default(), &[unsure]).is_empty());
    }
}
