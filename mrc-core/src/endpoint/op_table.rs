//! What is under way of endpoint operations: requests that wait for a frame or an answer, answers that wait to leave, and
//! the limits of rate. Fixed sizes, O(1) per packet. What is asked and answered is `ops`'s. Source: `transport.md` 7.

use mrc_wire::{EndpointOp, Ev, Ip, PortNum};

use super::{
    EvProfileHandle, PeerHandle,
    ops::OpAnswer,
    peers::{PeerList, PeerListId, PeerSlot},
    shards::{RESPONSES, Shard, ShardMessage, ShardNews},
};
use crate::num::Counter;
use crate::{
    config::EndpointConfig,
    image::{Pass, Stored},
    path::{Choice, EvEntry},
    port::PortMask,
    qp::QpHandle,
    time::Instant,
};

/// Requests that may be outstanding at once; the low six bits of an identifier name the slot.
pub(super) const REQUESTS: usize = 64;
/// Answers that may wait to leave.
pub(super) const ANSWERS: usize = 32;
/// An answer later than this, in nanoseconds, says nothing.
const LATE_NS: u64 = 1_000_000_000;

/// Who asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// The application, with its cookie, and the peer by the handle that it knows, which may be stale when the request ends.
    Application { cookie: u64, peer: PeerHandle },
    /// A QP that looks for a return path to its peer.
    ReturnPath { qp: QpHandle, choice: Choice },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Free,
    Queued,
    Sent,
    Done(Option<OpAnswer>),
}

/// One operation that this endpoint asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) stage: Stage,
    pub(super) peer: u32,
    pub(super) id: u16,
    pub(super) op: EndpointOp,
    pub(super) ports: PortMask,
    pub(super) dscp: Option<u8>,
    pub(super) path: EvEntry,
    pub(super) owner: Owner,
    pub(super) timeout_ns: u64,
    pub(super) sent_at: Instant,
    pub(super) deadline: Instant,
}

impl Request {
    pub(super) const NONE: Self = Self {
        stage: Stage::Free,
        peer: 0,
        id: 0,
        op: EndpointOp::EvProbe,
        ports: PortMask::NONE,
        dscp: None,
        path: EvEntry::EMPTY,
        owner: Owner::Application { cookie: 0, peer: PeerHandle::from_index(0) },
        timeout_ns: 0,
        sent_at: Instant::ZERO,
        deadline: Instant::FAR,
    };
}

/// An answer that waits to leave.
#[derive(Clone, Copy, Debug)]
pub(super) struct DueResponse {
    /// `u32::MAX` once the peer is gone.
    pub(super) peer: u32,
    /// Our address that the request was for.
    pub(super) local: Ip,
    pub(super) id: u16,
    pub(super) op: EndpointOp,
    pub(super) timestamp: u16,
    /// Add the time since `arrived` to the timestamp.
    pub(super) serviced: bool,
    pub(super) arrived: u16,
    /// Port and EV of the request: the return path to a peer that has no QP of ours.
    pub(super) port: PortNum,
    pub(super) ev: Ev,
}

/// First in first out, of at most `N` elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fifo<T, const N: usize> {
    pub(super) ring: [T; N],
    pub(super) head: usize,
    pub(super) len: usize,
}

impl<T: Copy, const N: usize> Fifo<T, N> {
    pub(super) const fn new(empty: T) -> Self {
        Self { ring: [empty; N], head: 0, len: 0 }
    }

    pub(super) fn at(&self, nth: usize) -> usize {
        let at = self.head.wrapping_add(nth);
        at.checked_sub(N).unwrap_or(at)
    }

    pub(super) fn is_full(&self) -> bool {
        self.len >= N
    }

    pub(super) fn push(&mut self, value: T) -> bool {
        if self.is_full() {
            return false;
        }
        let at = self.at(self.len);
        if let Some(slot) = self.ring.get_mut(at) {
            *slot = value;
            self.len.inc();
        }
        true
    }

    pub(super) fn front(&self) -> Option<T> {
        if self.len == 0 { None } else { self.ring.get(self.head).copied() }
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let front = self.front()?;
        self.head = self.at(1);
        self.len.dec();
        Some(front)
    }
}

impl<T: Stored, const N: usize> Fifo<T, N> {
    /// Writes the elements to an image, or replaces them by those of one.
    pub(super) fn visit<P: Pass>(&mut self, io: &mut P) -> Option<()> {
        let mut len = self.len;
        io.item(&mut len)?;
        if len > N {
            return None;
        }
        if P::LOADS {
            (self.head, self.len) = (0, len);
        }
        for nth in 0..len {
            let at = self.head.wrapping_add(nth);
            io.item(self.ring.get_mut(at.checked_sub(N).unwrap_or(at))?)?;
        }
        Some(())
    }
}

/// A limit of rate: one per interval, and a burst.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// `None` allows nothing.
    interval_ns: Option<u64>,
    burst_ns: u64,
    next: Instant,
}

impl Pace {
    pub(super) fn per_second(rate: u32, burst: u64) -> Self {
        let interval_ns = 1_000_000_000u64.checked_div(rate.into());
        let burst_ns = interval_ns.unwrap_or(0).saturating_mul(burst.saturating_sub(1));
        Self { interval_ns, burst_ns, next: Instant::ZERO }
    }

    pub(super) fn has_room(&self, now: Instant) -> bool {
        self.interval_ns.is_some() && self.next <= now.after(self.burst_ns)
    }

    pub(super) fn allows(&mut self, now: Instant) -> bool {
        let Some(interval_ns) = self.interval_ns.filter(|_| self.has_room(now)) else { return false };
        self.next = self.next.max(now).after(interval_ns);
        true
    }
}

/// Doublings of the wait for the answer to a Port Status Update.
const LEVELS: usize = 16;

/// Peers that have been told of our ports and have not answered: a list for each wait, so that every change is O(1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) lists: [PeerList; LEVELS],
    /// When the next round of any of them is due.
    due: Instant,
}

impl Waiting {
    const NONE: Self = Self { lists: [PeerList::new(PeerListId::Waiting); LEVELS], due: Instant::FAR };

    /// The doublings after round `rounds`; `repeats` rounds after the first follow at the shortest wait.
    //= EPOP-006
    pub(super) fn level(rounds: u8, repeats: u8) -> u8 {
        rounds.saturating_sub(repeats).min(const { LEVELS as u8 - 1 })
    }

    /// `peer` waits until its `update.due`, as long as all others of its level.
    pub(super) fn push(&mut self, peers: &mut [PeerSlot], peer: u32) {
        let Some(level) = peers.get(peer as usize).map(|slot| slot.update.level) else { return };
        if let Some(list) = self.lists.get_mut(usize::from(level)) {
            list.push(peers, peer);
        }
        self.refresh(peers);
    }

    /// `peer` waits no longer, if it did.
    pub(super) fn remove(&mut self, peers: &mut [PeerSlot], peer: u32) {
        let Some(level) = peers.get(peer as usize).map(|slot| slot.update.level) else { return };
        let Some(list) = self.lists.get_mut(usize::from(level)) else { return };
        let front = list.front();
        list.remove(peers, peer);
        // Those behind the front are due later.
        if list.front() != front {
            self.refresh(peers);
        }
    }

    pub(super) fn refresh(&mut self, peers: &[PeerSlot]) {
        let fronts = self.lists.iter().filter_map(|list| peers.get(list.front()? as usize));
        self.due = fronts.map(|slot| slot.update.due).min().unwrap_or(Instant::FAR);
    }

    /// A peer whose next round is due.
    pub(super) fn due(&self, now: Instant, peers: &[PeerSlot]) -> Option<u32> {
        if self.due > now {
            return None;
        }
        let mut fronts = self.lists.iter().filter_map(PeerList::front);
        fronts.find(|&peer| peers.get(peer as usize).is_some_and(|slot| slot.update.due <= now))
    }
}

/// State of all endpoint operations of one endpoint.
#[derive(Debug)]
pub(super) struct Ops {
    pub(super) requests: [Request; REQUESTS],
    /// Bit N: slot N is free.
    pub(super) free: u64,
    /// High bits of the next identifier.
    pub(super) generation: u16,
    /// The slot whose turn it is, if it is free.
    turn: u8,
    pub(super) queue: Fifo<u8, REQUESTS>,
    pub(super) done: Fifo<u8, REQUESTS>,
    pub(super) answers: Fifo<DueResponse, ANSWERS>,
    pub(super) answer_pace: Pace,
    pub(super) probe_pace: Pace,
    pub(super) sending: PeerList,
    pub(super) waiting: Waiting,
    /// Peers of which other shards have not been told something.
    pub(super) news: PeerList,
    /// Answers for other shards.
    pub(super) responses: Fifo<ShardMessage, RESPONSES>,
    /// Part of identifiers.
    shard: Shard,
    /// No request expires before this.
    pub(super) expiry: Instant,
}

impl Ops {
    /// `first` begins the identifiers of its requests.
    pub(super) fn new(cfg: &EndpointConfig, first: u16) -> Self {
        let none = DueResponse {
            peer: u32::MAX,
            local: Ip::V6([0; 16]),
            id: 0,
            op: EndpointOp::EvProbe,
            timestamp: 0,
            serviced: false,
            arrived: 0,
            port: PortNum::from_plane(0),
            ev: Ev(0),
        };
        let news = ShardNews::BadEv { profile: EvProfileHandle::from_index(0), entry: 0 };
        let nothing = ShardMessage { from: 0, to: None, news };
        Self {
            requests: [Request::NONE; REQUESTS],
            free: u64::MAX,
            generation: first,
            turn: 0,
            queue: Fifo::new(0),
            done: Fifo::new(0),
            answers: Fifo::new(none),
            answer_pace: Pace::per_second(cfg.endpoint_rate_limit, ANSWERS as u64),
            probe_pace: Pace::per_second(cfg.ev_probe_rate_limit, 16),
            sending: PeerList::new(PeerListId::Sending),
            waiting: Waiting::NONE,
            news: PeerList::new(PeerListId::News),
            responses: Fifo::new(nothing),
            shard: cfg.shard,
            expiry: Instant::FAR,
        }
    }

    /// Writes everything to an image, or replaces it: but for the requests and the lists of peers, which are tables of their own.
    pub(super) fn visit<P: Pass>(&mut self, io: &mut P) -> Option<()> {
        let Self {
            requests: _,
            free,
            generation,
            turn,
            queue,
            done,
            answers,
            answer_pace: Pace { interval_ns: _, burst_ns: _, next: next_answer },
            probe_pace: Pace { interval_ns: _, burst_ns: _, next: next_probe },
            sending: _,
            waiting: _,
            news: _,
            responses,
            shard: _,
            expiry,
        } = self;
        io.item(free)?;
        io.item(generation)?;
        io.item(turn)?;
        queue.visit(io)?;
        done.visit(io)?;
        answers.visit(io)?;
        io.item(next_answer)?;
        io.item(next_probe)?;
        responses.visit(io)?;
        io.item(expiry)
    }

    /// Whether nothing waits to be sent.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.answers.len == 0 && self.queue.len == 0 && self.sending.front().is_none()
    }

    /// When time alone has something to do.
    #[inline]
    pub(super) fn deadline(&self) -> Instant {
        self.waiting.due.min(self.expiry)
    }

    pub(super) fn slot(&mut self, nth: u8) -> Option<&mut Request> {
        self.requests.get_mut(usize::from(nth))
    }

    /// Takes a free slot for `request`.
    //= EPOP-002
    pub(super) fn admit(&mut self, request: Request) -> bool {
        // The slots take turns, so that a late answer finds what it answers.
        let turn = u32::from(self.turn);
        let ahead = self.free.rotate_right(turn).trailing_zeros();
        if ahead >= REQUESTS as u32 {
            return false;
        }
        let nth = (turn.wrapping_add(ahead) & const { REQUESTS as u32 - 1 }) as u8;
        // Unique among the outstanding ones of the node: slot and shard are parts of the identifier.
        let id = self.shard.prefixed(u32::from(self.generation << 6 | u16::from(nth)), 16) as u16;
        let Some(slot) = self.slot(nth) else { return false };
        *slot = Request { id, stage: Stage::Queued, ..request };
        self.generation = self.generation.wrapping_add(1);
        self.free &= !1u64.wrapping_shl(nth.into());
        self.turn = nth.wrapping_add(1) & const { REQUESTS as u8 - 1 };
        self.queue.push(nth)
    }

    /// Whether the endpoint's own EV probes are within their rate and have room. Half of the room is the application's.
    pub(super) fn may_probe(&self, now: Instant) -> bool {
        self.free.count_ones() > REQUESTS as u32 / 2 && self.probe_pace.has_room(now)
    }

    /// Queues an EV probe of the endpoint's own.
    pub(super) fn probe(&mut self, now: Instant, request: Request) {
        if self.probe_pace.allows(now) {
            self.admit(request);
        }
    }

    /// Ends a request; its slot is free once the owner heard of it. Returns the owner that must be told.
    pub(super) fn finish(&mut self, nth: u8, answer: Option<OpAnswer>) -> Option<(QpHandle, Choice)> {
        let slot = self.slot(nth)?;
        match slot.owner {
            Owner::Application { .. } => {
                slot.stage = Stage::Done(answer);
                self.done.push(nth);
                None
            }
            Owner::ReturnPath { qp, choice } => {
                slot.stage = Stage::Free;
                self.free |= 1u64.wrapping_shl(nth.into());
                Some((qp, choice))
            }
        }
    }

    /// The return path that request `id` probed, when its answer comes after its time, and how long ago it left, in
    /// nanoseconds. Once per request, and while its slot has no other one.
    pub(super) fn take_late(&mut self, now: Instant, peer: u32, id: u16) -> Option<(QpHandle, Choice, u64)> {
        let request = self.slot((id & const { REQUESTS as u16 - 1 }) as u8)?;
        let Owner::ReturnPath { qp, choice } = request.owner else { return None };
        let age_ns = now.since(request.sent_at);
        if request.stage != Stage::Free || (request.peer, request.id) != (peer, id) || age_ns > LATE_NS {
            return None;
        }
        request.peer = u32::MAX;
        Some((qp, choice, age_ns))
    }

    /// The last QP towards `peer` is gone: nobody there cares for our ports.
    pub(super) fn stop_updates(&mut self, peers: &mut [PeerSlot], peer: u32) {
        self.sending.remove(peers, peer);
        self.waiting.remove(peers, peer);
    }

    /// Ends everything that concerns a peer which is being removed.
    pub(super) fn forget(&mut self, peers: &mut [PeerSlot], peer: u32) {
        self.stop_updates(peers, peer);
        self.news.remove(peers, peer);
        for due in &mut self.answers.ring {
            if due.peer == peer {
                due.peer = u32::MAX;
            }
        }
        for nth in 0..REQUESTS as u8 {
            let Some(request) = self.slot(nth).filter(|request| request.peer == peer) else { continue };
            match request.stage {
                Stage::Sent => {
                    self.finish(nth, None);
                }
                // Its turn to be sent ends it.
                Stage::Queued | Stage::Free => request.peer = u32::MAX,
                Stage::Done(_) => {}
            }
        }
    }
}

crate::image::stored!(enum Owner { 0 => Application { cookie, peer }, 1 => ReturnPath { qp, choice } });
crate::image::stored!(enum Stage { 0 => Free, 1 => Queued, 2 => Sent, 3 => Done(answer) });
crate::image::stored!(struct Request { stage, peer, id, op, ports, dscp, path, owner, timeout_ns, sent_at, deadline });
crate::image::stored!(struct DueResponse { peer, local, id, op, timestamp, serviced, arrived, port, ev });

#[cfg(test)]
mod tests;
