//! Paths and planes that a run sent on and nothing came back from: a host file that does not fit the fabric, a cut link.

use std::collections::{BTreeMap, BTreeSet};

use mrc_core::path::{EvState, Transition};
use mrc_core::{PortStats, Stats};
use mrc_wire::{Ev, PortNum, Qpn};
use serde::Serialize;

use crate::selector::Paths;

/// A path without an acknowledgement from some time on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SilentPath {
    /// Name.
    pub path: String,
    /// When the first queue pair retired it, since the beginning of the run.
    pub since_ms: f64,
}

/// A path that queue pairs retired again and again, and much more often than others. Probes are answered on it, data is not:
/// a link of too small an MTU does that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnsteadyPath {
    /// Name.
    pub path: String,
    /// How often the queue pair retired it that did so most often.
    pub retired: u32,
}

/// A plane on which nothing was sent, or nothing received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SilentPlane {
    /// Number.
    pub plane: usize,
    /// Frames sent.
    pub sent: u64,
    /// Frames received.
    pub received: u64,
}

/// Which paths are retired, as events tell.
#[derive(Debug, Default)]
pub struct Retired {
    /// By port and EV: when, and for which queue pairs it still is.
    paths: BTreeMap<(u8, u32), (f64, BTreeSet<u32>)>,
    /// By port and EV: how often each queue pair retired it.
    times: BTreeMap<(u8, u32), BTreeMap<u32, u32>>,
}

/// Retirements from which on a path is unsteady, and how many times those of most others it needs.
const OFTEN: u32 = 20;
const MORE_THAN_OTHERS: u32 = 4;

impl Retired {
    /// Takes an EV event of a queue pair into account.
    pub fn note(&mut self, ms: f64, qp: Qpn, transition: &Transition) {
        let key = (transition.port.plane(), transition.ev.0);
        if transition.to == EvState::AssumedBad {
            self.paths.entry(key).or_insert((ms, BTreeSet::new())).1.insert(qp.value());
            *self.times.entry(key).or_default().entry(qp.value()).or_default() += 1;
        } else if transition.from == EvState::AssumedBad {
            // One packet that was answered is enough: the path is there.
            self.paths.remove(&key);
        }
    }

    /// Those that nobody restored.
    pub fn silent(&self, paths: &Paths) -> Vec<SilentPath> {
        let named = |(&(plane, ev), (since_ms, _)): (&(u8, u32), &(f64, BTreeSet<u32>))| SilentPath {
            path: paths.named(PortNum::from_plane(plane), Ev(ev)),
            since_ms: *since_ms,
        };
        self.paths.iter().map(named).collect()
    }

    /// Those that were retired again and again.
    pub fn unsteady(&self, paths: &Paths) -> Vec<UnsteadyPath> {
        let most = |times: &BTreeMap<u32, u32>| times.values().copied().max().unwrap_or(0);
        let mut all: Vec<u32> = self.times.values().map(most).collect();
        all.resize(paths.names().len().max(all.len()), 0);
        all.sort_unstable();
        let usual = all.get(all.len() / 2).copied().unwrap_or(0);
        let often = |times: u32| times >= OFTEN && times >= usual.saturating_mul(MORE_THAN_OTHERS);
        let times = self.times.iter().map(|(key, times)| (key, most(times))).filter(|(_, times)| often(*times));
        let named = |(&(plane, ev), retired): (&(u8, u32), u32)| UnsteadyPath {
            path: paths.named(PortNum::from_plane(plane), Ev(ev)),
            retired,
        };
        times.map(named).collect()
    }
}

/// Frames for each plane from which on one that sees none tells something; a few packets need not reach every plane.
const ENOUGH: u64 = 16;

/// The planes of a run that carried data on others, by the counters before and after it; none of a run of a few packets.
pub fn planes(before: &Stats, after: &Stats, planes: usize) -> Vec<SilentPlane> {
    let change = |(plane, (before, after)): (usize, (&PortStats, &PortStats))| SilentPlane {
        plane,
        sent: after.tx_packets - before.tx_packets,
        received: after.rx_packets - before.rx_packets,
    };
    let all = before.ports.iter().zip(&after.ports).take(planes).enumerate().map(change);
    let all: Vec<SilentPlane> = all.collect();
    if all.iter().map(|plane| plane.sent).sum::<u64>() < ENOUGH * planes as u64 {
        return Vec::new();
    }
    all.into_iter().filter(|plane| plane.sent == 0 || plane.received == 0).collect()
}

/// What an operator should know, a sentence each.
pub fn sentences(
    paths: &[SilentPath],
    unsteady: &[UnsteadyPath],
    planes: &[SilentPlane],
    all: &[String],
) -> Vec<String> {
    let mut sentences = Vec::new();
    for UnsteadyPath { path, retired } in unsteady {
        sentences.push(format!(
            "{path} was retired {retired} times: probes are answered there and data is lost, as by a link of too small an MTU; \
             `mrc doctor --config FILE` probes with both sizes"
        ));
    }
    for plane in planes {
        sentences.push(match plane {
            SilentPlane { plane, sent: 0, .. } => {
                format!(
                    "plane {plane}: nothing was sent; its port, or the peer's, is down (`mrc doctor` tells of ours)"
                )
            }
            SilentPlane { plane, sent, .. } => format!("plane {plane}: {sent} packets sent, nothing came back"),
        });
    }
    let Some(first) = paths.iter().map(|path| path.since_ms).min_by(f64::total_cmp) else { return sentences };
    let names: Vec<&str> = paths.iter().map(|path| path.path.as_str()).collect();
    let few = names.iter().take(8).copied().collect::<Vec<_>>().join(" ");
    let more = if names.len() > 8 { format!(" and {} more", names.len() - 8) } else { String::new() };
    sentences.push(format!(
        "{} of {} paths did not answer any more, the first from {:.1} s after the start on: {few}{more}; `mrc doctor \
         --config FILE` prints and probes the destination of each",
        names.len(),
        all.len(),
        first / 1e3,
    ));
    sentences
}

#[cfg(test)]
mod tests {
    use mrc_core::path::{EvEntry, EvIndex, compact_profile};

    use super::*;

    fn to(plane: u8, ev: u32, from: EvState, to: EvState) -> Transition {
        Transition { index: EvIndex(0), ev: Ev(ev), port: PortNum::from_plane(plane), from, to, cause: None }
    }

    #[test]
    fn a_path_is_silent_until_somebody_restores_it() {
        let mut entries = vec![EvEntry::new(Ev(0), PortNum::from_plane(0)); 4];
        compact_profile(&mut entries, 2, 2, 8).unwrap();
        let paths = Paths::new(entries);
        let mut retired = Retired::default();
        let (good, bad) = (EvState::Good, EvState::AssumedBad);
        retired.note(3.0, Qpn::new(5), &to(1, 0x100, good, bad));
        retired.note(4.0, Qpn::new(6), &to(1, 0x100, good, bad));
        retired.note(5.0, Qpn::new(5), &to(0, 0x001, good, bad));
        retired.note(9.0, Qpn::new(5), &to(0, 0x001, bad, EvState::Skip));
        retired.note(9.0, Qpn::new(5), &to(0, 0x000, good, EvState::Skip));
        let silent = retired.silent(&paths);
        assert_eq!(silent, [SilentPath { path: "p1u0".into(), since_ms: 3.0 }]);
        let mut after = Stats::default();
        (after.ports[0].tx_packets, after.ports[0].rx_packets, after.ports[1].tx_packets) = (9, 9, 7);
        assert!(planes(&Stats::default(), &after, 3).is_empty(), "a few packets");
        (after.ports[0].tx_packets, after.ports[0].rx_packets, after.ports[1].tx_packets) = (90, 90, 70);
        let planes = planes(&Stats::default(), &after, 3);
        assert_eq!(planes.iter().map(|plane| (plane.plane, plane.sent)).collect::<Vec<_>>(), [(1, 70), (2, 0)]);
        let text = sentences(&silent, &[], &planes, &paths.names()).join("\n");
        for want in [
            "plane 1: 70 packets sent",
            "plane 2: nothing was sent",
            "1 of 4 paths did not answer any more, the first from 0.0 s after the start on: p1u0",
        ] {
            assert!(text.contains(want), "{text}");
        }
        assert!(sentences(&[], &[], &[], &[]).is_empty());
    }

    #[test]
    fn a_path_that_is_retired_much_more_often_than_others_is_unsteady() {
        let mut entries = vec![EvEntry::new(Ev(0), PortNum::from_plane(0)); 4];
        compact_profile(&mut entries, 2, 2, 8).unwrap();
        let paths = Paths::new(entries);
        let mut retired = Retired::default();
        let mut note = |plane, ev, qp| {
            retired.note(1.0, Qpn::new(qp), &to(plane, ev, EvState::Good, EvState::AssumedBad));
            retired.note(2.0, Qpn::new(qp), &to(plane, ev, EvState::AssumedBad, EvState::Skip));
            retired.unsteady(&paths)
        };
        for _ in 1..OFTEN {
            assert_eq!(note(1, 0x100, 5), []);
        }
        // Many queue pairs that retire it once each tell nothing.
        assert_eq!(note(1, 0x100, 6), []);
        let unsteady = note(1, 0x100, 5);
        assert_eq!(unsteady, [UnsteadyPath { path: "p1u0".into(), retired: OFTEN }]);
        let text = sentences(&[], &unsteady, &[], &paths.names()).join("\n");
        assert!(text.starts_with("p1u0 was retired 20 times: "), "{text}");
        // Where all paths are, none of them is to blame.
        for (plane, ev) in [(0, 0), (0, 1), (1, 0x101)] {
            for _ in 0..OFTEN {
                note(plane, ev, 5);
            }
        }
        assert_eq!(note(1, 0x100, 5), []);
    }
}
