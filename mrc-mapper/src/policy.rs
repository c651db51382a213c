//! What to deny because of a fault: a [`Policy`] is a list of named rules, and this module applies it to each host.
//!
//! The plane of a host is denied when its host link or port loses more than a rule allows. MRC cannot do this itself: it
//! uses all planes evenly, and cannot tell a fault at its own end from one at the remote end. MRC does retire EVs through a
//! faulty uplink or T1, so those are denied only if a rule says so. At most [`Policy::most_planes`] planes of a host are
//! denied, and never the last one. A finding with alternatives has an effect only if all of them lie at the host's own end
//! of the plane, because they then lead to the same denial.
//!
//! [`Enforcer`] adds time for one host. A denial ends with its finding, or after [`Rule::expire_s`]. MRC's own losses
//! and probes then judge the path for [`Rule::rest_s`] before the rule may deny it again.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::locate::Finding;
use crate::topology::{Component, Direction, Fabric, HostId};

/// Rules, and what bounds all of them together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Most planes denied per host.
    pub most_planes: u8,
    /// Seconds for which a component counts as faulty after it was last reported: one that loses little is not reported in
    /// every round.
    pub hold_s: u32,
    /// The rules.
    pub rules: Vec<Rule>,
}

/// What a rule looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// A host link or the port at its end: denies the plane on that host.
    HostLink,
    /// A link between T0 and T1: denies its EVs on the hosts under that T0.
    Uplink,
    /// A T1: denies its EVs on every host.
    T1,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name, in every message about what it does.
    pub name: String,
    /// What it looks at.
    pub part: Part,
    /// Share of packets lost above which it denies.
    pub loss_above: f64,
    /// Seconds after which a denial ends though the fault stays.
    #[serde(default = "expire_s")]
    pub expire_s: u32,
    /// Seconds between such an end and the next denial for the same component.
    #[serde(default = "rest_s")]
    pub rest_s: u32,
}

const fn expire_s() -> u32 {
    600
}

const fn rest_s() -> u32 {
    30
}

impl Default for Policy {
    fn default() -> Self {
        let name = "lossy-host-link".to_owned();
        let rule = Rule { name, part: Part::HostLink, loss_above: 0.01, expire_s: expire_s(), rest_s: rest_s() };
        Self { most_planes: 1, hold_s: 10, rules: vec![rule] }
    }
}

/// What is wrong with a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPolicy {
    /// A rule without a name.
    #[error("rule number {0} has no name: give it one, up to 40 characters")]
    Name(usize),
    /// Two rules of one name.
    #[error("two rules are called `{0}`")]
    Twice(String),
    /// A loss that is none.
    #[error("rule `{0}`: `loss_above` is a share of packets, at least 0 and below 1")]
    Loss(String),
    /// A denial that ends before it begins.
    #[error("rule `{0}`: `expire_s` is at least 1")]
    Expire(String),
}

impl Policy {
    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// [`BadPolicy`] names the rule.
    pub fn check(&self) -> Result<(), BadPolicy> {
        let mut names = BTreeSet::new();
        for (number, rule) in self.rules.iter().enumerate() {
            if rule.name.is_empty() || rule.name.chars().count() > 40 {
                return Err(BadPolicy::Name(number + 1));
            }
            if !names.insert(&rule.name) {
                return Err(BadPolicy::Twice(rule.name.clone()));
            }
            if !(0.0..1.0).contains(&rule.loss_above) {
                return Err(BadPolicy::Loss(rule.name.clone()));
            }
            if rule.expire_s == 0 {
                return Err(BadPolicy::Expire(rule.name.clone()));
            }
        }
        Ok(())
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
    /// The findings behind it, by name, with the rule that each of them met.
    pub because: BTreeMap<String, String>,
}

/// The plane and host at whose own end a finding lies, however its alternatives are told apart: the port, the host link, the
/// host's T0 or the plane, with the link or port among them.
#[must_use]
pub fn own_end(fabric: &Fabric, finding: &Finding) -> Option<(u8, HostId)> {
    let candidates = || finding.instead.iter().chain([&finding.component]);
    let (plane, host) = candidates().find_map(|component| match *component {
        Component::HostLink(plane, host, _) | Component::NicPort(plane, host) => Some((plane, host)),
        _ => None,
    })?;
    let at_its_end = |component: &Component| match *component {
        Component::HostLink(p, h, _) | Component::NicPort(p, h) => (p, h) == (plane, host),
        Component::T0(p, leaf) => (p, leaf) == (plane, fabric.leaf_of(host)),
        Component::Plane(p) => p == plane,
        _ => false,
    };
    candidates().all(at_its_end).then_some((plane, host))
}

/// A finding under the name that stays the same from round to round: the host link, when it lies at a host's own end.
#[must_use]
pub fn at_own_end(fabric: &Fabric, finding: Finding) -> Finding {
    let Some((plane, host)) = own_end(fabric, &finding).filter(|_| !finding.instead.is_empty()) else {
        return finding;
    };
    let is_link = |component: &Component| matches!(component, Component::HostLink(..));
    let instead = finding.instead.iter().chain([&finding.component]).filter(|component| !is_link(component)).copied();
    let instead = instead.collect::<BTreeSet<_>>().into_iter().collect();
    Finding { component: Component::HostLink(plane, host, Direction::Both), instead, ..finding }
}

/// Applies a policy. Hosts without an entry deny nothing.
#[must_use]
pub fn apply(fabric: &Fabric, policy: &Policy, faulty: &[Finding]) -> BTreeMap<HostId, Denylist> {
    apply_unless(fabric, policy, faulty, |_, _| false)
}

/// As [`apply`], without the rules that rest for a component.
fn apply_unless(
    fabric: &Fabric,
    policy: &Policy,
    faulty: &[Finding],
    rests: impl Fn(&Rule, Component) -> bool,
) -> BTreeMap<HostId, Denylist> {
    let mut lists: BTreeMap<HostId, Denylist> = BTreeMap::new();
    let mut worst: Vec<&Finding> = faulty.iter().collect();
    worst.sort_by(|a, b| b.loss.total_cmp(&a.loss).then(a.component.cmp(&b.component)));
    let most = usize::from(policy.most_planes.min(fabric.planes.saturating_sub(1)));
    for finding in worst {
        let meets = |part: Part| {
            let met = |rule: &&Rule| rule.part == part && finding.loss > rule.loss_above;
            policy.rules.iter().filter(met).find(|rule| !rests(rule, finding.component))
        };
        let certain = finding.instead.is_empty();
        match finding.component {
            _ if own_end(fabric, finding).is_some() => {
                let (Some((plane, host)), Some(rule)) = (own_end(fabric, finding), meets(Part::HostLink)) else {
                    continue;
                };
                let list = lists.entry(host).or_default();
                if list.planes.contains(&plane) || list.planes.len() < most {
                    list.planes.insert(plane);
                    list.evs.extend((0..fabric.spines).map(|spine| denied(plane, spine)));
                    list.because.insert(finding.component.to_string(), rule.name.clone());
                }
            }
            Component::Uplink(plane, leaf, spine, _) if certain => {
                let Some(rule) = meets(Part::Uplink) else { continue };
                for host in fabric.hosts_of(leaf) {
                    lists.entry(host).or_default().deny(plane, spine, finding, rule);
                }
            }
            Component::T1(plane, spine) if certain => {
                let Some(rule) = meets(Part::T1) else { continue };
                for host in 0..fabric.hosts {
                    lists.entry(host).or_default().deny(plane, spine, finding, rule);
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
    fn deny(&mut self, plane: u8, spine: u16, finding: &Finding, rule: &Rule) {
        self.evs.insert(denied(plane, spine));
        self.because.insert(finding.component.to_string(), rule.name.clone());
    }
}

/// A policy at work on one host. Time is an argument, in seconds since any moment.
#[derive(Debug)]
pub struct Enforcer {
    fabric: Fabric,
    host: HostId,
    policy: Policy,
    /// Findings with the time of their last report.
    held: BTreeMap<Component, (Finding, f64)>,
    /// By component and rule: since when it denies.
    since: BTreeMap<(String, String), f64>,
    /// By component and rule: until when it leaves the path to MRC.
    rests: BTreeMap<(String, String), f64>,
}

/// A denial begins or ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Decision {
    /// It begins.
    Deny {
        /// The faulty component.
        component: String,
        /// The rule.
        rule: String,
    },
    /// It ends, since the component is not faulty any more, or others are worse.
    End {
        /// The component.
        component: String,
        /// The rule.
        rule: String,
    },
    /// It ends though the component is still faulty: MRC judges the path now.
    HandBack {
        /// The component.
        component: String,
        /// The rule.
        rule: String,
    },
}

impl Enforcer {
    /// No denial yet.
    ///
    /// # Errors
    /// The policy makes no sense.
    pub fn new(fabric: Fabric, host: HostId, policy: Policy) -> Result<Self, BadPolicy> {
        policy.check()?;
        Ok(Self { fabric, host, policy, held: BTreeMap::new(), since: BTreeMap::new(), rests: BTreeMap::new() })
    }

    /// What the host should deny now, and what changed.
    pub fn decide(&mut self, now_s: f64, faulty: &[Finding]) -> (Denylist, Vec<Decision>) {
        let mut decisions = Vec::new();
        self.held.extend(faulty.iter().map(|finding| (finding.component, (finding.clone(), now_s))));
        let hold = f64::from(self.policy.hold_s);
        self.held.retain(|_, (_, last)| now_s - *last <= hold);
        let faulty: Vec<Finding> = self.held.values().map(|(finding, _)| finding.clone()).collect();
        self.rests.retain(|_, until| *until > now_s);
        for (key, since) in &self.since {
            let expire =
                self.policy.rules.iter().find(|rule| rule.name == key.1).map(|rule| (rule.expire_s, rule.rest_s));
            let Some((expire, rest)) = expire else { continue };
            if now_s - since >= f64::from(expire) {
                self.rests.insert(key.clone(), now_s + f64::from(rest));
                decisions.push(Decision::HandBack { component: key.0.clone(), rule: key.1.clone() });
            }
        }
        let rests =
            |rule: &Rule, component: Component| self.rests.contains_key(&(component.to_string(), rule.name.clone()));
        let mut lists = apply_unless(&self.fabric, &self.policy, &faulty, rests);
        let list = lists.remove(&self.host).unwrap_or_default();
        let wanted: BTreeSet<(String, String)> =
            list.because.iter().map(|(component, rule)| (component.clone(), rule.clone())).collect();
        for key in self.since.keys().filter(|key| !wanted.contains(*key) && !self.rests.contains_key(*key)) {
            decisions.push(Decision::End { component: key.0.clone(), rule: key.1.clone() });
        }
        self.since.retain(|key, _| wanted.contains(key));
        for (component, rule) in wanted {
            let key = (component.clone(), rule.clone());
            if self.since.contains_key(&key) {
                continue;
            }
            self.since.insert(key, now_s);
            decisions.push(Decision::Deny { component, rule });
        }
        (list, decisions)
    }
}

#[cfg(test)]
mod tests;
