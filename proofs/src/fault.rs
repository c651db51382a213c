//! One broken place each, to show that the rules notice it.

use std::{fmt, str::FromStr};

/// A deliberate mistake in requester or responder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fault {
    /// The responder places a duplicate once more.
    PlacesDuplicates,
    /// The responder moves its cumulative PSN to the highest packet, over holes.
    CumulativeOverHole,
    /// The responder's Transport ACK names the packet that triggered it instead of the cumulative PSN.
    AckNamesTrigger,
    /// The responder records a packet that it refuses for want of a resource.
    RecordsRefused,
    /// The responder records a trimmed packet.
    RecordsTrimmed,
    /// The responder says nothing about duplicates.
    SilentAboutDuplicates,
    /// The responder does not repeat the Transport ACK for a duplicate below its window.
    NoAckForDuplicate,
    /// The requester takes the cumulative PSN of an older SACK for the newest.
    CumulativeGoesBack,
    /// The requester forgets that a packet arrived when a SACK has a zero for it.
    ZeroUnmarks,
    /// The requester lets packet timers run for packets that arrived.
    TimerOfArrived,
    /// The requester sends one packet beyond its window.
    WindowPlusOne,
    /// The requester never retransmits what a NACK reported.
    NackedNotSent,
    /// The requester does not repeat the last packet when only the Transport ACK is missing.
    NoTailTimer,
    /// The requester completes a message again with each Transport ACK that covers it.
    CompletesAgain,
    /// The requester completes a message when its last packet was acknowledged selectively.
    CompletesOnSack,
    /// The requester obeys a NACK that belongs to an earlier transmission.
    ObeysStaleNack,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 16] = [
        Self::PlacesDuplicates,
        Self::CumulativeOverHole,
        Self::AckNamesTrigger,
        Self::RecordsRefused,
        Self::RecordsTrimmed,
        Self::SilentAboutDuplicates,
        Self::NoAckForDuplicate,
        Self::CumulativeGoesBack,
        Self::ZeroUnmarks,
        Self::TimerOfArrived,
        Self::WindowPlusOne,
        Self::NackedNotSent,
        Self::NoTailTimer,
        Self::CompletesAgain,
        Self::CompletesOnSack,
        Self::ObeysStaleNack,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::PlacesDuplicates => "places-duplicates",
            Self::CumulativeOverHole => "cumulative-over-hole",
            Self::AckNamesTrigger => "ack-names-trigger",
            Self::RecordsRefused => "records-refused",
            Self::RecordsTrimmed => "records-trimmed",
            Self::SilentAboutDuplicates => "silent-about-duplicates",
            Self::NoAckForDuplicate => "no-ack-for-duplicate",
            Self::CumulativeGoesBack => "cumulative-goes-back",
            Self::ZeroUnmarks => "zero-unmarks",
            Self::TimerOfArrived => "timer-of-arrived",
            Self::WindowPlusOne => "window-plus-one",
            Self::NackedNotSent => "nacked-not-sent",
            Self::NoTailTimer => "no-tail-timer",
            Self::CompletesAgain => "completes-again",
            Self::CompletesOnSack => "completes-on-sack",
            Self::ObeysStaleNack => "obeys-stale-nack",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|fault| fault.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|fault| fault.name()).collect();
            format!("no such fault; known: {}", names.join(", "))
        })
    }
}
