//! Packets that a device dropped because they are not what a peer of this host sends: what a first run against another
//! implementation goes wrong with.

use mrc_core::{Discard, Stats};
use serde::Serialize;

/// Packets dropped for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Name of the counter.
    pub reason: &'static str,
    /// How many.
    pub packets: u64,
    /// What is wrong with them.
    #[serde(skip)]
    meaning: &'static str,
}

/// What a right peer never does. Frames that are none of MRC's, late ones and duplicates are left out.
const REASONS: &[(Discard, &str)] = &[
    (Discard::Icrc, "their ICRC is wrong"),
    (Discard::Pkey, "their partition key is not ours"),
    (Discard::Peer, "their source is not the address of the peer"),
    (Discard::Stranger, "their source is the address of no peer"),
    (Discard::Opcode, "MRC has no such opcode"),
    (Discard::Tver, "their transport version is not 0"),
    (Discard::Short, "a header is cut short"),
    (
        Discard::L3Len,
        "their IP length is longer than the frame, as that of trimmed packets whose code point is neither `trimmed` nor \
         `trimmed_lasthop`, or went away with the outer header",
    ),
    (Discard::Syndrome, "MRC has no such syndrome"),
];

impl Refused {
    /// Whether others may have sent them: that tells something only where the peer was not heard.
    pub fn may_be_of_others(&self) -> bool {
        [Discard::Peer, Discard::Stranger].map(Discard::name).contains(&self.reason)
    }
}

/// Those of a device since it was opened. `early` is how many were from strangers while the peer was not known: a peer that knows us
/// already tells the state of its ports.
pub fn packets(stats: &Stats, early: u64) -> Vec<Refused> {
    let count = |&(why, meaning): &(Discard, &'static str)| {
        let early = if why == Discard::Stranger { early } else { 0 };
        Refused { reason: why.name(), packets: stats.discarded(why).saturating_sub(early), meaning }
    };
    REASONS.iter().map(count).filter(|refused| refused.packets > 0).collect()
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} packets received were dropped as {}: {}", self.packets, self.reason, self.meaning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A few of these come by on any network.
    #[test]
    fn frames_of_other_sources_may_be_of_others() {
        let of_others = |&(why, meaning): &(Discard, &'static str)| {
            Refused { reason: why.name(), packets: 1, meaning }.may_be_of_others().then_some(why.name())
        };
        assert_eq!(REASONS.iter().filter_map(of_others).collect::<Vec<_>>(), ["peer", "stranger"]);
    }
}
