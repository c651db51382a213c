//! Things the driver should hear about that are not completions. Bounded: an event that finds the queue full is
//! counted (`events_lost`), and what it said can still be queried.

use mrc_wire::{PortNum, Qpn};

use crate::path::Transition;

/// Why a QP went to ERROR.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorCause {
    /// Nothing was heard from the peer within the retry budget.
    RetryExceeded,
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
}

impl ErrorCause {
    /// Text for people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::RetryExceeded => "retry budget exceeded: the peer or every path to it is gone",
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
    /// A port went up or down.
    Port {
        /// Which.
        port: PortNum,
        /// Its new state.
        up: bool,
    },
}

/// One slot of the event ring, lent by the caller.
pub type EventSlot = Option<Event>;

/// A ring of events.
#[derive(Debug)]
pub(crate) struct Events<'s> {
    ring: &'s mut [EventSlot],
    head: usize,
    len: usize,
}

impl<'s> Events<'s> {
    pub(crate) fn new(ring: &'s mut [EventSlot]) -> Self {
        ring.fill(None);
        Self { ring, head: 0, len: 0 }
    }

    /// Whether the event fitted.
    pub(crate) fn push(&mut self, event: Event) -> bool {
        let capacity = self.ring.len();
        if self.len >= capacity {
            return false;
        }
        let mut at = self.head + self.len;
        if at >= capacity {
            at -= capacity;
        }
        if let Some(slot) = self.ring.get_mut(at) {
            *slot = Some(event);
            self.len += 1;
        }
        true
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        if self.len == 0 {
            return None;
        }
        let event = self.ring.get_mut(self.head)?.take();
        self.head += 1;
        if self.head >= self.ring.len() {
            self.head = 0;
        }
        self.len -= 1;
        event
    }
}
