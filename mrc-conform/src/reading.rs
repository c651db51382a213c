//! Readings of open questions that the engine has no knob for, because it serves both: frames as a target of that reading
//! takes and sends them.

use crate::knobs::Knobs;

/// The readings of one target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Under SRv6 the high half of the EV is in the outer flow label alone (OQ-23).
    outer_label: bool,
    /// A trimmed packet that ends before TSETH is dropped (OQ-26); the code points that say "trimmed".
    whole_tseth: Option<[u8; 2]>,
}

/// BTH, METH and TSETH.
const THROUGH_TSETH: usize = 20;

/// Where the headers of a frame begin.
struct Places {
    outer: Option<usize>,
    inner: usize,
    behind_udp: usize,
}

impl Places {
    /// Of a frame without VLAN tag.
    fn of(frame: &[u8]) -> Option<Self> {
        let first = 14;
        let ethertype = frame.get(12..14)?;
        if ethertype == [0x08, 0x00] {
            let header = usize::from(frame.get(first)? & 0x0F) * 4;
            return Some(Self { outer: None, inner: first, behind_udp: first + header + 8 });
        }
        let (outer, inner) = match (ethertype, frame.get(first + 6)?) {
            ([0x86, 0xDD], 41) => (Some(first), first + 40),
            ([0x86, 0xDD], 43) => (Some(first), first + 40 + 8 + usize::from(*frame.get(first + 41)?) * 8),
            _ => (None, first),
        };
        Some(Self { outer, inner, behind_udp: inner + 48 })
    }

    /// Code point of the header that switches look at.
    fn dscp(&self, frame: &[u8]) -> Option<u8> {
        let (at, is_v4) = (self.outer.unwrap_or(self.inner), frame.get(12) == Some(&0x08));
        let [first, second] = *frame.get(at..)?.first_chunk::<2>()?;
        Some(if is_v4 { second >> 2 } else { (first << 4 | second >> 4) >> 2 })
    }
}

impl Reading {
    pub(crate) fn of(knobs: &Knobs) -> Self {
        let trimmed = [knobs.get("dscp_trimmed") as u8, knobs.get("dscp_trimmed_lasthop") as u8];
        Self {
            outer_label: knobs.on("ev_in_outer_label"),
            whole_tseth: knobs.on("trim_keeps_tseth").then_some(trimmed),
        }
    }

    /// The frame as this target takes it; false if it does not.
    pub(crate) fn takes(self, frame: &mut [u8]) -> bool {
        let Some(places) = Places::of(frame) else { return true };
        if let (true, Some(outer)) = (self.outer_label, places.outer)
            && places.inner + 4 <= frame.len()
        {
            frame.copy_within(outer + 2..outer + 4, places.inner + 2);
        }
        let short = frame.len() < places.behind_udp + THROUGH_TSETH;
        let trimmed = |points: [u8; 2]| places.dscp(frame).is_some_and(|dscp| points.contains(&dscp));
        !(short && self.whole_tseth.is_some_and(trimmed))
    }

    /// The frame as this target sends it. The ICRC does not cover flow labels.
    pub(crate) fn sends(self, frame: &mut [u8]) {
        if let (true, Some(Places { outer: Some(_), inner, .. })) = (self.outer_label, Places::of(frame))
            && let Some(label) = frame.get_mut(inner + 2..inner + 4)
        {
            label.fill(0);
        }
    }
}
