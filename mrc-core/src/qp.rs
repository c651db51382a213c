//! The queue pair: its state machine and everything one QP holds outside the lent slices.
//! Source: `transport.md` 2.

use mrc_wire::{HeadImage, Qpn};

use crate::{
    Prefetch,
    cc::{Credit, Share},
    config::{RtrAttr, RtsAttr},
    cq::{CqHandle, Status},
    endpoint::WriteHead,
    event::ErrorCause,
    mem::Pd,
    path::{Drawn, EvCounts, PathConfig, PathSet, ReverseSet},
    port::PortMask,
    ready::{Link, Links, List, Member},
    renew::renew,
    requester::{Requester, SendQueue},
    responder::{ReceiveQueue, Responder},
    time::Instant,
};

/// States of a QP, in the order of the specification.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QpState {
    /// Created or reset: nothing happens.
    Reset,
    /// Initialised: still receives nothing.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to receive and to send.
    Rts,
    /// Failed: queued work is flushed, packets are ignored.
    Error,
}

impl QpState {
    /// Whether the state machine has an edge from this state to `to`.
    //= QP-001
    pub const fn allows(self, to: Self) -> bool {
        matches!(
            (self, to),
            (Self::Reset, Self::Init)
                | (Self::Init, Self::Rtr)
                | (Self::Rtr, Self::Rts)
                | (_, Self::Error)
                | (_, Self::Reset)
        )
    }

    /// Whether writes and probes are accepted.
    //= QP-002, VAL-014
    pub const fn receives(self) -> bool {
        matches!(self, Self::Rtr | Self::Rts)
    }

    /// Whether what answers our own packets is accepted.
    pub(crate) const fn sends(self) -> bool {
        matches!(self, Self::Rts)
    }
}

/// Words between the responder and the configuration of the paths, beside what was drawn.
const GAP: usize = (28 - size_of::<Option<(DrawnFor, Drawn)>>()) / size_of::<u32>();

/// What EVs were drawn for: with the same again, they are as good as others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DrawnFor {
    pub(crate) profile: u32,
    /// Every change of any profile makes another edition.
    pub(crate) edition: u32,
    pub(crate) ports: PortMask,
    pub(crate) active: u16,
    pub(crate) backup: u16,
}

/// A queue pair. Stale after its QP was destroyed, even if the slot is used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct QpHandle {
    pub(crate) index: u32,
    pub(crate) qpn: Qpn,
}

impl QpHandle {
    /// The QP number, as the peer knows it.
    pub const fn qpn(self) -> Qpn {
        self.qpn
    }

    /// Slot number, below `Limits::qps`.
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// A handle put together again from its parts; stale when they were never given out.
    pub const fn from_parts(index: u32, qpn: Qpn) -> Self {
        Self { index, qpn }
    }
}

/// What a QP is created with.
#[derive(Clone, Copy, Debug)]
pub struct QpInit {
    /// Protection domain; regions of others are invisible to this QP.
    pub pd: Pd,
    /// Where completions of sends go.
    pub send_cq: CqHandle,
    /// Where completions of receives go.
    pub recv_cq: CqHandle,
}

/// Everything of one QP outside the lent arrays. Lent by the caller as a slice; opaque.
///
/// In this order, and so are its parts: what every packet touches lies together, in few lines of memory of 64 bytes (`tests::lines`
/// holds which). First what receives, then what both sides look at, what sends, and what few packets need.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Qp {
    /// The head that packets to this QP are expected to have; none while it receives nothing. Learned anew where it is lost.
    pub(crate) expected: HeadImage,
    pub(crate) pd: Pd,
    /// Tells the lives of a slot apart in tokens of placements; 0 before RTR.
    pub(crate) life: u32,
    pub(crate) qpn: Qpn,
    pub(crate) dest_qp: Qpn,
    pub(crate) peer: u32,
    pub(crate) path_mtu: u32,
    pub(crate) used: bool,
    pub(crate) state: QpState,
    /// The peer may not write at all, whatever the region allows.
    pub(crate) write_refused: bool,
    /// A new write arrived since the last probe.
    pub(crate) written: bool,
    /// A completion of a send, of a receive, waits for room in its queue.
    pub(crate) send_held: bool,
    pub(crate) recv_held: bool,
    /// Its congestion controller, from RTS to ERROR.
    pub(crate) qpcc: Option<u32>,
    pub(crate) rsp: Responder,
    /// So that the configuration of the paths begins with a line of memory.
    pub(crate) gap: [u32; GAP],
    /// The EVs in the tables of the slot, which the next QP may use as they are: all that can be used are in rotation.
    pub(crate) drawn: Option<(DrawnFor, Drawn)>,
    pub(crate) path_cfg: PathConfig,
    pub(crate) ev_profile: u32,
    /// Bad EVs of the profile that this QP has heard of.
    pub(crate) bad_evs_heard: u32,
    pub(crate) links: Links,
    pub(crate) reverse: ReverseSet,
    pub(crate) req: Requester,
    pub(crate) send_cq: CqHandle,
    pub(crate) recv_cq: CqHandle,
    pub(crate) sq: SendQueue,
    pub(crate) share: Share,
    pub(crate) head: WriteHead,
    pub(crate) rq: ReceiveQueue,
    pub(crate) cause: Option<ErrorCause>,
    /// Status of the request that failed; the others flush.
    pub(crate) failed_status: Option<Status>,
    /// Counted as a user of its peer.
    pub(crate) has_peer: bool,
    /// The words of the slot for received packets are empty, if none comes out of order: the next QP need not empty them.
    pub(crate) words_empty: bool,
    /// PSN of the request at fault; without it the oldest one is.
    pub(crate) failed_psn: Option<mrc_wire::Psn>,
    /// Silence of the peer when the QP failed, in nanoseconds.
    pub(crate) silent_ns: u64,
    /// When the reverse paths were last redrawn; ZERO: never.
    pub(crate) rerouted: Instant,
    pub(crate) paths: PathSet,
}

impl Qp {
    /// An unused slot.
    pub const EMPTY: Self = Self {
        expected: HeadImage::NONE,
        qpn: Qpn::new(0),
        used: false,
        state: QpState::Reset,
        cause: None,
        failed_status: None,
        failed_psn: None,
        silent_ns: 0,
        life: 0,
        has_peer: false,
        words_empty: false,
        pd: Pd(0),
        write_refused: false,
        send_cq: CqHandle::from_index(0),
        recv_cq: CqHandle::from_index(0),
        peer: 0,
        dest_qp: Qpn::new(0),
        path_mtu: 0,
        ev_profile: 0,
        req: Requester::IDLE,
        sq: SendQueue::IDLE,
        rq: ReceiveQueue::EMPTY,
        send_held: false,
        recv_held: false,
        rsp: Responder::IDLE,
        gap: [0; GAP],
        paths: PathSet::EMPTY,
        path_cfg: PathConfig::DEFAULT,
        reverse: ReverseSet::EMPTY,
        qpcc: None,
        share: Share::NONE,
        links: Links::NONE,
        head: WriteHead::NONE,
        rerouted: Instant::ZERO,
        written: false,
        bad_evs_heard: 0,
        drawn: None,
    };

    /// Its EVs by state; none unless it sends.
    pub(crate) fn ev_counts(&self) -> Option<EvCounts> {
        if self.state == QpState::Rts { Some(self.paths.counts()) } else { None }
    }

    /// The lines of memory that receiving a write, and answering it, begins with.
    #[inline]
    pub(crate) fn fetch_responder(&self, memory: &impl Prefetch) {
        memory.prefetch_all(self.expected.lines());
        memory.prefetch(&self.peer);
        self.rsp.window.fetch(memory);
        memory.prefetch(&self.rsp.tack_due);
        self.rsp.answers.fetch(memory);
        self.links.fetch(memory);
        self.reverse.fetch(memory);
        memory.prefetch(&self.req.last_heard);
        self.req.fetch_patience(memory);
    }

    /// The lines that an answer to our own packets begins with.
    #[inline]
    pub(crate) fn fetch_acked(&self, memory: &impl Prefetch) {
        memory.prefetch_all(self.expected.lines().first().copied());
        self.fetch_requester(memory);
        self.req.fetch_measures(memory);
        self.reverse.fetch(memory);
    }

    /// The lines that say whether a QP leaves a port to others.
    #[inline]
    pub(crate) fn fetch_balance(&self, memory: &impl Prefetch) {
        memory.prefetch(&self.peer);
        self.paths.fetch(memory);
    }

    /// The lines that sending begins with, and an answer to our own packets.
    #[inline]
    pub(crate) fn fetch_requester(&self, memory: &impl Prefetch) {
        memory.prefetch(&self.qpn);
        self.req.fetch(memory);
        memory.prefetch(&self.share.unasked);
        memory.prefetch(&self.share.load.inflight_pkts);
        self.links.fetch(memory);
        self.paths.fetch(memory);
    }

    /// The lines that sending data begins with, beside those of the requester.
    #[inline]
    pub(crate) fn fetch_data(&self, memory: &impl Prefetch) {
        self.sq.fetch(memory);
        self.head.fetch(memory);
        memory.prefetch(&self.path_cfg.plane_lead);
        self.reverse.fetch_sent(memory);
        self.req.fetch_patience(memory);
    }

    /// The lines that posting a write reads.
    #[inline]
    pub(crate) fn fetch_post(&self, memory: &impl Prefetch) {
        memory.prefetch(&self.qpn);
        memory.prefetch(&self.req.last_heard);
        memory.prefetch(&self.share.unasked);
        memory.prefetch(&self.share.load.inflight_pkts);
        self.links.fetch(memory);
        self.paths.fetch(memory);
        self.sq.fetch(memory);
    }

    /// The lines that the completion of a write reads.
    #[inline]
    pub(crate) fn fetch_completion(&self, memory: &impl Prefetch) {
        memory.prefetch(&self.qpn);
        memory.prefetch(&self.req.tack);
        memory.prefetch(&self.req.last_path);
        memory.prefetch(&self.req.retry_cnt);
        self.sq.fetch(memory);
        self.links.fetch(memory);
    }

    /// A new QP in this slot, which is as [`Qp::EMPTY`] or [`Qp::reset`] left it.
    pub(crate) fn begin(&mut self, qpn: Qpn, init: &QpInit) {
        self.qpn = qpn;
        self.used = true;
        self.pd = init.pd;
        self.send_cq = init.send_cq;
        self.recv_cq = init.recv_cq;
        self.peer = Self::EMPTY.peer;
        self.req.probes.clear();
    }

    /// Back to the state right after creation. The QP has left its controller; it may still be on lists of the endpoint,
    /// which clean themselves. What is as at creation is not written: memory would have to read it.
    pub(crate) fn reset(&mut self) {
        self.words_empty &= !self.rsp.gaps;
        let has_sent = matches!(self.state, QpState::Rts | QpState::Error);
        renew!(self = Self::EMPTY; {
            expected, life, dest_qp, peer, path_mtu, state, write_refused, written, send_held, recv_held, qpcc, path_cfg,
            ev_profile, bad_evs_heard, sq, share, rq, cause, failed_status, has_peer, failed_psn, silent_ns, rerouted,
        } but {
            qpn, used, pd, send_cq, recv_cq, links, drawn, words_empty, gap, rsp, reverse, req, head, paths,
        });
        self.reverse.clear();
        self.rsp.renew(Responder::IDLE);
        if has_sent {
            if let Some((_, drawn)) = &mut self.drawn {
                drawn.end(&self.paths);
            }
            self.req.renew(Requester::IDLE);
            (self.head, self.paths) = (WriteHead::NONE, PathSet::EMPTY);
        } else {
            // Nothing else of what sends is touched before RTS.
            (self.req.last_heard, self.req.was_heard) = (Requester::IDLE.last_heard, Requester::IDLE.was_heard);
            self.paths.set_usable_ports(PortMask::ALL);
        }
    }
}

impl Member for Qp {
    fn link(&mut self, list: List) -> &mut Link {
        self.links.get(list)
    }

    fn credit(&mut self) -> &mut Credit {
        &mut self.share.turn
    }
}

/// A read-only picture of one QP for tools.
#[derive(Clone, Copy, Debug)]
pub struct QpInfo {
    /// State.
    pub state: QpState,
    /// Why it failed, in state ERROR.
    pub cause: Option<ErrorCause>,
    /// The peer's QP number.
    pub dest_qp: Qpn,
    /// Packets in flight.
    pub outstanding: u32,
    /// Requests without completion.
    pub queued: u32,
    /// Receive requests not consumed.
    pub receives: u32,
    /// Retries spent on the oldest packet.
    pub retries: u8,
    /// Smallest round trip seen, in nanoseconds.
    pub base_rtt_ns: u64,
    /// What it has to send and has in flight: its part of the counters of its congestion controller.
    pub load: crate::cc::Load,
    /// Its part of the controller's bytes in flight, without those that test a silent peer (`silent_packets`); may be slightly negative
    /// because responders round up.
    pub inflight_bytes: i64,
    /// EVs by state.
    pub evs: EvCounts,
    /// The peer, from RTR on.
    pub peer: Option<crate::PeerHandle>,
    /// The EV profile it is bound to, from RTR on.
    pub ev_profile: Option<crate::EvProfileHandle>,
    /// Smoothed round trip, in nanoseconds.
    pub srtt_ns: u64,
    /// Nominal bytes (headers included) that the peer has acknowledged since the QP joined its controller.
    pub acked_bytes: u64,
    /// Packets it sent again since then.
    pub retransmitted: u32,
    /// Nominal bytes it received, modulo 2^32.
    pub received_bytes: u32,
    /// Placements whose end the driver has not reported ([`crate::PlacementMode::Reported`]).
    pub placements: u32,
}

impl RtrAttr {
    pub(crate) fn validate(&self) -> Result<(), crate::ModifyError> {
        if !matches!(self.path_mtu, 256 | 512 | 1_024 | 2_048 | 4_096) {
            return Err(crate::ModifyError::Range("path_mtu"));
        }
        if self.mpr_dest == 0 {
            return Err(crate::ModifyError::Range("mpr_dest"));
        }
        if self.dest_qp.value() < 3 {
            return Err(crate::ModifyError::Range("dest_qp"));
        }
        Ok(())
    }
}

impl RtsAttr {
    pub(crate) fn validate(&self) -> Result<(), crate::ModifyError> {
        let refuse = |what| Err(crate::ModifyError::Range(what));
        if self.mpr == 0 {
            return refuse("mpr");
        }
        if self.retry.timeout > 24 {
            return refuse("retry.timeout");
        }
        if self.retry.linear > 7 {
            return refuse("retry.linear");
        }
        if self.retry.exponential > 25 {
            return refuse("retry.exponential");
        }
        if self.base_rtt_ns == 0 || self.base_rtt_ns > 1_000_000_000 {
            return refuse("base_rtt_ns");
        }
        if self.target_delay_ns > 1_000_000_000 {
            return refuse("target_delay_ns");
        }
        if self.reorder_delay_ns > 1_000_000_000 {
            return refuse("reorder_delay_ns");
        }
        if self.tail_probe_ns > 1_000_000_000 {
            return refuse("tail_probe_ns");
        }
        Ok(())
    }
}

crate::image::stored!(enum QpState { 0 => Reset, 1 => Init, 2 => Rtr, 3 => Rts, 4 => Error });
crate::image::stored!(struct QpHandle { index, qpn });
crate::image::stored!(
    struct Qp {
        qpn, dest_qp, peer, pd, path_mtu, ev_profile, life, used, state, write_refused, written, send_held, recv_held, qpcc, rsp,
        reverse, req, sq, share, paths, path_cfg, send_cq, recv_cq, rq, bad_evs_heard, cause, failed_status, failed_psn,
        silent_ns, has_peer, rerouted, links,
    }
    rebuilt { expected: HeadImage::NONE, head: WriteHead::NONE, gap: [0; GAP], drawn: None, words_empty: false }
);

#[cfg(test)]
mod tests {
    use super::{
        Qp,
        QpState::{self, *},
    };
    use crate::{path::PathSet, requester::Requester};
    use core::mem::offset_of;
    use std::{format, string::String};

    /// The whole transition table; a change of behaviour is a diff of this picture.
    //= QP-001 test
    #[test]
    fn transition_table() {
        let states = [Reset, Init, Rtr, Rts, Error];
        let mut table = String::new();
        for from in states {
            let row: String = states.iter().map(|&to| if QpState::allows(from, to) { 'x' } else { '.' }).collect();
            table += &format!("{row}\n");
        }
        // to: Reset Init Rtr Rts Error
        assert_eq!(table, "xx..x\nx.x.x\nx..xx\nx...x\nx...x\n");
    }

    /// Answers to probes of the last life may still come, so that the next one must know its identifiers.
    //= PROBE-010 test
    #[test]
    fn a_reset_queue_pair_knows_which_probes_it_sent() {
        let mut qp = Qp::EMPTY;
        qp.req.probes.begin_again(12_345);
        let mut ended = qp.req.probes;
        ended.end();
        let ended = format!("{ended:?}");
        assert_ne!(ended, format!("{:?}", Requester::IDLE.probes));
        qp.reset();
        assert_eq!(format!("{:?}", qp.req.probes), ended);
    }

    /// What packets touch begins with a line of memory, or lies in one: a packet of a QP that no cache holds waits for each line.
    #[test]
    fn lines() {
        const LINE: usize = 64;
        let [probes, base_rtt, lateness] = Requester::PARTS.map(|part| offset_of!(Qp, req) + part);
        let begins = [offset_of!(Qp, links), offset_of!(Qp, reverse), offset_of!(Qp, req), offset_of!(Qp, send_cq)];
        for begin in begins.into_iter().chain([base_rtt, lateness]) {
            assert_eq!(begin % LINE, 0);
        }
        // The third line of the requester ends with the head of the table of probes.
        assert_eq!(probes / LINE, offset_of!(Qp, req) / LINE + 2);
        let paths = offset_of!(Qp, paths) + PathSet::HOT.start..offset_of!(Qp, paths) + PathSet::HOT.end;
        assert_eq!(paths.start / LINE, (paths.end - 1) / LINE);
        // What a request is sent with, from its place in the queue to its headers, and what configures its path.
        assert_eq!(offset_of!(Qp, rq).div_ceil(LINE) - offset_of!(Qp, send_cq) / LINE, 3);
        assert_eq!(offset_of!(Qp, path_cfg) / LINE, (offset_of!(Qp, bad_evs_heard) - 1) / LINE);
    }
}
