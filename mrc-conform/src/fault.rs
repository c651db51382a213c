//! Faults put into a target on purpose, frame by frame and outside the engine, to show that the scripts find them.

use crate::icrc;
use crate::packet::Packet;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The trailer of what is sent leaves the hop limit unmasked.
    IcrcMask,
    /// SACKs that show a gap count their bitmap from one PSN too high.
    SackOffset,
    /// A verdict "skip once" is taken for "always skip": a marked EV counts as bad.
    SkipAsBad,
}

impl Fault {
    /// All, with their names.
    pub const ALL: &'static [(&'static str, Self)] =
        &[("icrc-mask", Self::IcrcMask), ("sack-offset", Self::SackOffset), ("skip-as-bad", Self::SkipAsBad)];

    /// The fault of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, fault)| *fault)
    }

    /// A frame that the target received, as it reads it.
    pub fn received(self, frame: &mut Vec<u8>) {
        if self == Self::SkipAsBad {
            rewrite(frame, |packet| {
                let skip = packet.get("m") == Some(1) && packet.get("pr") == Some(0);
                skip && packet.set("m", 2)
            });
        }
    }

    /// A frame that the target sends, as it leaves.
    pub fn sent(self, frame: &mut Vec<u8>) {
        match self {
            Self::SkipAsBad => {}
            Self::SackOffset => rewrite(frame, |packet| {
                let gap = packet.get("ooo").is_some_and(|count| count > 0);
                gap && packet.set("sack_offset", packet.get("sack_offset").unwrap_or(0) + 1)
            }),
            Self::IcrcMask => {
                let Ok(packet) = Packet::parse(frame) else { return };
                let l3 = packet.l3().unwrap_or(0);
                let end = frame.len() - icrc::LEN;
                let wrong = icrc::unmasked(&frame[l3..end], 7);
                frame[end..].copy_from_slice(&wrong);
            }
        }
    }
}

/// Changes a whole MRC packet and gives it a right trailer again.
fn rewrite(frame: &mut Vec<u8>, change: impl FnOnce(&mut Packet) -> bool) {
    let Ok(mut packet) = Packet::parse(frame) else { return };
    if change(&mut packet) {
        packet.icrc = None;
        *frame = packet.bytes();
    }
}
