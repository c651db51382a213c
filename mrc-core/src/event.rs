//! Things the driver should hear about that are not completions. Bounded: an event that finds the queue full is
//! counted (`events_lost`), and what it said can still be queried.

use mrc_wire::{Ev, NackReason, PortNum, Psn, Qpn};

use crate::num::Counter;
use crate::{
    EvProfileHandle,
    error::Discard,
    image::Sequence,
    path::{EvIndex, EvState, Transition},
    qp::QpState,
    stats::Stats,
    time::Instant,
};

/// Why a QP went to ERROR.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorCause {
    /// Nothing was heard from the peer within the retry budget.
    RetryExceeded,
    /// No port led to the peer for the retry budget: local ports down, or masked by the peer and silent.
    NoUsablePort,
    /// Keep-alive probes stayed unanswered for the retry budget.
    PeerSilent,
    /// The peer sent a NAK: invalid request.
    RemoteInvalidRequest,
    /// The peer sent a NAK: access refused.
    RemoteAccess,
    /// The peer sent a NAK or an UNEXP_EVENT NACK: it failed.
    RemoteOperation,
    /// A local region was deregistered under a request.
    LocalProtection,
    /// We refused the peer's write: its form.
    RequestInvalid,
    /// We refused the peer's write: key, rights or bounds.
    RequestAccess,
    /// We refused the peer's write with immediate: more than we offered were in flight.
    RequestWimm,
    /// We refused the peer's write with immediate: no receive request was posted (`NoReceive::Nak`).
    RequestNoReceive,
    /// The driver reported that it could not place the peer's write.
    RequestFailed,
    /// The application asked for it.
    Application,
    /// The driver had taken a request from the application that the engine refused ([`Endpoint::fail_post`](crate::Endpoint::fail_post)).
    PostRefused,
}

impl ErrorCause {
    /// Text for people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::RetryExceeded => "retry budget exceeded: the peer or every path to it is gone",
            Self::NoUsablePort => {
                "no usable port for the whole retry budget: local ports are down, or the peer has masked its own"
            }
            Self::PeerSilent => "peer vanished: keep-alive probes unanswered for the whole retry budget",
            Self::RemoteInvalidRequest => "the peer refused the request as invalid",
            Self::RemoteAccess => "the peer refused access: R_Key, rights or bounds",
            Self::RemoteOperation => "the peer failed while executing the request",
            Self::LocalProtection => "local memory was deregistered under a request",
            Self::RequestInvalid => "the peer sent an invalid request",
            Self::RequestAccess => "the peer asked for memory it may not write: R_Key, rights or bounds",
            Self::RequestWimm => "the peer sent a write with immediate beyond the limit",
            Self::RequestNoReceive => "the peer's write with immediate found no receive request",
            Self::RequestFailed => "the peer's write could not be placed",
            Self::Application => "moved to ERROR by the application",
            Self::PostRefused => "a posted request was refused: its L_Key, rights, bounds or length",
        }
    }
}

/// Something happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A QP went to ERROR.
    QpError {
        /// Local QP.
        qp: Qpn,
        /// Why.
        cause: ErrorCause,
    },
    /// An EV of a QP changed between usable and not.
    Ev {
        /// Local QP.
        qp: Qpn,
        /// What changed.
        transition: Transition,
    },
    /// An EV of a profile entered a state that the profile's own mask selects, on any QP; [`EventMask`] has no say.
    EvProfile {
        /// The profile.
        profile: EvProfileHandle,
        /// Its entry.
        entry: u16,
        /// Value on the wire.
        ev: Ev,
        /// Port of the EV.
        port: PortNum,
        /// GOOD or ASSUMED_BAD.
        state: EvState,
        /// Events of this kind that found the queue full since the last one.
        dropped: u32,
    },
    /// A port went up or down.
    Port {
        /// Which.
        port: PortNum,
        /// Its new state.
        up: bool,
    },
    /// A peer told which of its ports are up.
    PeerPorts {
        /// The peer.
        peer: crate::PeerHandle,
        /// Its ports that are up.
        ports: crate::PortMask,
    },
    /// A QP changed its state.
    QpState {
        /// Local QP.
        qp: Qpn,
        /// State it left.
        from: QpState,
        /// State it is in.
        to: QpState,
    },
    /// A packet is going to be sent again.
    Loss {
        /// Local QP.
        qp: Qpn,
        /// The packet.
        psn: Psn,
        /// Where its last copy went.
        ev: EvIndex,
        /// How it was found.
        cause: LossCause,
    },
    /// A single-path selector begins to probe alternatives because the round trip of its path grew.
    PathProbe {
        /// Local QP.
        qp: Qpn,
        /// The path in use: index into the entries of the QP's EV profile.
        path: u16,
        /// Its latest round trip, in nanoseconds.
        rtt_ns: u32,
        /// When.
        at: Instant,
    },
    /// A single-path selector sends its first packet on another path.
    PathSwitch {
        /// Local QP.
        qp: Qpn,
        /// The path it left: index into the entries of the QP's EV profile.
        from: u16,
        /// The path it took.
        to: u16,
        /// When.
        at: Instant,
    },
    /// A received frame had no further effect.
    Discard {
        /// Port it arrived on.
        port: PortNum,
        /// Why.
        why: Discard,
    },
}

/// How a loss was found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum LossCause {
    /// Enough later packets were acknowledged.
    Inferred,
    /// A NACK of this reason.
    Nack(NackReason),
    /// Its timer expired.
    Timeout,
    /// Everything of its message was SACKed, and no Transport ACK came.
    Tail,
}

/// Kinds of events an endpoint raises ([`crate::EndpointConfig::events`]). The default is what an operator wants to know;
/// the others follow single packets and are for debugging and tests.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EventMask(u8);

impl EventMask {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// [`Event::QpError`].
    pub const QP_ERROR: Self = Self(1);
    /// [`Event::Ev`] into and out of ASSUMED_BAD and DENIED.
    pub const EV: Self = Self(1 << 1);
    /// [`Event::Ev`] into and out of SKIP.
    pub const EV_SKIP: Self = Self(1 << 2);
    /// [`Event::Port`] and [`Event::PeerPorts`].
    pub const PORT: Self = Self(1 << 3);
    /// [`Event::QpState`].
    pub const QP_STATE: Self = Self(1 << 4);
    /// [`Event::Loss`].
    pub const LOSS: Self = Self(1 << 5);
    /// [`Event::Discard`].
    pub const DISCARD: Self = Self(1 << 6);
    /// [`Event::PathProbe`] and [`Event::PathSwitch`].
    pub const PATH: Self = Self(1 << 7);
    /// Everything.
    pub const ALL: Self = Self(u8::MAX);

    /// The set with these bits, numbered as the constants; bits without a meaning are kept and do nothing.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// One bit per kind.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Both sets.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether `kind` is in the set.
    pub const fn contains(self, kind: Self) -> bool {
        self.0 & kind.0 != 0
    }
}

impl Default for EventMask {
    fn default() -> Self {
        Self::QP_ERROR.with(Self::EV).with(Self::PORT)
    }
}

impl Event {
    /// The kind, as the mask names it.
    pub const fn kind(&self) -> EventMask {
        match self {
            Self::QpError { .. } => EventMask::QP_ERROR,
            Self::Ev { transition, .. } => match (transition.from, transition.to) {
                (EvState::Good | EvState::Skip, EvState::Good | EvState::Skip) => EventMask::EV_SKIP,
                _ => EventMask::EV,
            },
            Self::EvProfile { .. } => EventMask::EV,
            Self::Port { .. } | Self::PeerPorts { .. } => EventMask::PORT,
            Self::QpState { .. } => EventMask::QP_STATE,
            Self::Loss { .. } => EventMask::LOSS,
            Self::Discard { .. } => EventMask::DISCARD,
            Self::PathProbe { .. } | Self::PathSwitch { .. } => EventMask::PATH,
        }
    }
}

/// One slot of the event ring, lent by the caller.
pub type EventSlot = Option<Event>;

/// A ring of events.
#[derive(Debug)]
pub(crate) struct Events<'s> {
    ring: &'s mut [EventSlot],
    head: usize,
    len: usize,
    mask: EventMask,
    /// Events of EV profiles that did not fit since one did.
    dropped: u32,
}

impl<'s> Events<'s> {
    pub(crate) fn new(ring: &'s mut [EventSlot], mask: EventMask) -> Self {
        ring.fill(None);
        Self { ring, head: 0, len: 0, mask, dropped: 0 }
    }

    /// Whether events of this kind are wanted; for callers that would have to gather what the event says.
    #[inline]
    pub(crate) fn wants(&self, kind: EventMask) -> bool {
        self.mask.contains(kind)
    }

    /// Queues the event if it is wanted; counts it as lost if it does not fit.
    pub(crate) fn raise(&mut self, stats: &mut Stats, event: Event) {
        if self.wants(event.kind()) && !self.push(event) {
            stats.events_lost.inc();
        }
    }

    /// Queues an event that an EV profile selected; what does not fit is counted in the next one that does.
    //= EVT-001, EVT-002
    pub(crate) fn raise_ev(
        &mut self,
        stats: &mut Stats,
        profile: EvProfileHandle,
        entry: u16,
        ev: Ev,
        port: PortNum,
        state: EvState,
    ) {
        let dropped = self.dropped;
        if self.push(Event::EvProfile { profile, entry, ev, port, state, dropped }) {
            self.dropped = 0;
        } else {
            self.dropped = dropped.saturating_add(1);
            stats.events_lost.inc();
        }
    }

    fn push(&mut self, event: Event) -> bool {
        let capacity = self.ring.len();
        if self.len >= capacity {
            return false;
        }
        let end = self.head.wrapping_add(self.len);
        let at = end.checked_sub(capacity).unwrap_or(end);
        if let Some(slot) = self.ring.get_mut(at) {
            *slot = Some(event);
            self.len.inc();
        }
        true
    }

    /// Events of EV profiles that did not fit since one did.
    pub(crate) const fn dropped_mut(&mut self) -> &mut u32 {
        &mut self.dropped
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        if self.len == 0 {
            return None;
        }
        let event = self.ring.get_mut(self.head)?.take();
        self.head.inc();
        if self.head >= self.ring.len() {
            self.head = 0;
        }
        self.len.dec();
        event
    }
}

/// The events in their order, for images; a place is the number of those before.
impl Sequence for Events<'_> {
    type Item = Event;

    fn first(&self) -> Option<u32> {
        if self.len == 0 { None } else { Some(0) }
    }

    fn at(&mut self, place: u32) -> Option<(Event, Option<u32>)> {
        let at = self.head.wrapping_add(place as usize);
        let event = (*self.ring.get(at.checked_sub(self.ring.len()).unwrap_or(at))?)?;
        let next = place.wrapping_add(1);
        Some((event, if (next as usize) < self.len { Some(next) } else { None }))
    }

    fn append(&mut self, event: Event) -> bool {
        self.push(event)
    }
}

crate::image::stored!(enum ErrorCause {
    0 => RetryExceeded, 1 => NoUsablePort, 2 => PeerSilent, 3 => RemoteInvalidRequest, 4 => RemoteAccess, 5 => RemoteOperation,
    6 => LocalProtection, 7 => RequestInvalid, 8 => RequestAccess, 9 => RequestWimm, 10 => RequestNoReceive,
    11 => RequestFailed, 12 => Application, 13 => PostRefused,
});
crate::image::stored!(enum Event {
    0 => QpError { qp, cause }, 1 => Ev { qp, transition }, 2 => EvProfile { profile, entry, ev, port, state, dropped },
    3 => Port { port, up }, 4 => PeerPorts { peer, ports }, 5 => QpState { qp, from, to }, 6 => Loss { qp, psn, ev, cause },
    7 => PathProbe { qp, path, rtt_ns, at }, 8 => PathSwitch { qp, from, to, at }, 9 => Discard { port, why },
});
crate::image::stored!(enum LossCause { 0 => Inferred, 1 => Nack(reason), 2 => Timeout, 3 => Tail });
crate::image::stored!(newtype EventMask);
