//! The QP congestion controller: one algorithm that all QPs towards one peer with one profile share, the counters that
//! say whether data waits, and the turns of those QPs. Owns no packet; the endpoint gives it its turn.
//! Source: `congestion.md` 4.8 and 5.
//!
//! ```text
//!            data to send                          no data
//!   window open     READY   in the round      in flight   PENDING
//!   window closed   ACTIVE                    nothing     IDLE
//! ```

use super::{AckSample, Cc, CcConfig, CongestionControl, Credit, Load, Share};
use crate::{
    Prefetch,
    config::EndpointConfig,
    qp::Qp,
    ready::{Link, List, Member, Ready},
    time::Instant,
};

/// How long a base RTT that a probe measured stays good for new controllers of the same peer.
const BASE_RTT_CACHE_NS: u64 = 10_000_000_000;

/// What a controller is doing.
//= QPCC-004
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QpccState {
    /// Nothing to send, nothing in flight.
    Idle,
    /// Nothing to send, packets in flight.
    Pending,
    /// Data waits, the window is closed.
    Active,
    /// Data waits, the window is open: it takes part in the scheduler's round.
    Ready,
}

/// One congestion controller with its QPs. Lent by the caller as a slice; opaque. In this order, as a turn, a packet and its
/// acknowledgement touch it: each begins with a line of memory.
//= QPCC-001, QPCC-002
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Qpcc {
    link: Link,
    /// What its QPs together may still send in its turn.
    pub(crate) turn: Credit,
    /// QPs with packets to send again, and with new ones.
    pub(crate) retransmit: Ready,
    pub(crate) new_data: Ready,
    load: Load,
    /// The sum of its QPs' `unasked`.
    unasked: u64,
    /// Bytes of the window that packets leave free which do not ask for an acknowledgement: a packet, or all where the next one has
    /// to ask.
    reserve: u32,
    /// The first feedback of the destination is still to come, and no base RTT is known: it triggers a probe.
    base_rtt_wanted: bool,
    cc: Cc,
    /// When a probe last measured the base RTT.
    base_rtt_at: Option<Instant>,
    /// QPs that share it; 0 = the slot is free.
    pub(crate) users: u32,
    pub(crate) peer: u32,
    pub(crate) profile: u32,
    mtu_bytes: u32,
}

impl Member for Qpcc {
    fn link(&mut self, _: List) -> &mut Link {
        &mut self.link
    }

    fn credit(&mut self) -> &mut Credit {
        &mut self.turn
    }
}

impl Qpcc {
    /// An unused slot.
    pub const EMPTY: Self = Self {
        cc: Cc::Fixed(super::FixedWindow::new(0, 0)),
        users: 0,
        peer: 0,
        profile: 0,
        mtu_bytes: 0,
        reserve: 0,
        load: Share::NONE.load,
        unasked: 0,
        retransmit: Ready::new(List::Retransmit),
        new_data: Ready::new(List::NewData),
        link: Link::NONE,
        turn: Credit::NONE,
        base_rtt_wanted: false,
        base_rtt_at: None,
    };

    /// The lines of memory that sending reads.
    #[inline]
    pub(crate) fn fetch_turn(&self, memory: &impl Prefetch) {
        self.fetch_link(memory);
        memory.prefetch(&self.load.inflight_pkts);
    }

    /// Those that acknowledgements read.
    #[inline]
    pub(crate) fn fetch_acked(&self, memory: &impl Prefetch) {
        self.fetch_turn(memory);
        self.cc.fetch(memory);
    }

    /// Its place in the round.
    #[inline]
    pub(crate) fn fetch_link(&self, memory: &impl Prefetch) {
        self.link.fetch(memory);
    }

    /// The only QP that may send, and it has new packets alone.
    #[inline(always)]
    pub(crate) fn sole_sender(&self) -> Option<u32> {
        self.new_data.front().filter(|&qp| self.retransmit.is_empty() && self.new_data.holds_at_most(qp))
    }

    /// Who stands behind it in the round.
    #[inline]
    pub(crate) fn behind(&self) -> Option<u32> {
        self.link.behind()
    }

    /// A controller for its first QP; `known` is a base RTT measured to the peer earlier, and when.
    //= NSCC-024
    pub(crate) fn new(
        config: &CcConfig,
        (peer, profile): (u32, u32),
        mtu_bytes: u32,
        now: Instant,
        known: Option<(u64, Instant)>,
    ) -> Self {
        let mut cc = Cc::new(config, mtu_bytes, now);
        let known = known.filter(|(_, at)| now.since(*at) < BASE_RTT_CACHE_NS);
        if let Some((rtt_ns, _)) = known {
            cc.on_base_rtt(rtt_ns);
        }
        let base_rtt_wanted = cc.wants_rtt_of_probes() && known.is_none();
        let base_rtt_at = known.map(|(_, at)| at);
        Self { cc, users: 1, peer, profile, mtu_bytes, reserve: mtu_bytes, base_rtt_wanted, base_rtt_at, ..Self::EMPTY }
    }

    /// Works out again what an image does not hold; whether it is a controller of `config`.
    pub(crate) fn rebuild(&mut self, config: &CcConfig) -> bool {
        self.reserve = self.mtu_bytes;
        self.cc.rebuild(config, self.mtu_bytes)
    }

    /// One more QP, whose full packets are of `mtu_bytes`: the largest of all QPs counts.
    pub(crate) fn join(&mut self, config: &CcConfig, mtu_bytes: u32) {
        self.users = self.users.saturating_add(1);
        if mtu_bytes > self.mtu_bytes {
            self.mtu_bytes = mtu_bytes;
            self.reserve = mtu_bytes;
            self.cc.set_mtu(config, mtu_bytes);
        }
    }

    /// Lets packets leave while less than the window is in flight, though they do not fit.
    //= NSCC-022
    pub(crate) fn send_below_window(&mut self) {
        self.cc.send_below_window();
    }

    /// A turn of the QP with `share` begins or goes on. Whether its packets leave one by one, because the algorithm says which one
    /// asks for an acknowledgement, and may let the next one wait.
    #[inline]
    pub(crate) fn one_by_one(&mut self, share: &Share) -> bool {
        let Some(asks) = self.cc.wants_ack(share.unasked, self.mtu_bytes) else { return false };
        self.reserve = if asks { u32::MAX } else { self.mtu_bytes };
        true
    }

    /// After a packet that is larger than the window: no turn for anybody until the instant returned, when the QP that sent it
    /// calls [`Qpcc::resume`].
    #[inline]
    pub(crate) fn pause(&mut self, now: Instant) -> Option<Instant> {
        self.cc.pause(now)
    }

    /// Ends a pause whose time has come; until when it lasts if not, [`Instant::FAR`] if there is none.
    pub(crate) fn resume(&mut self, now: Instant) -> Instant {
        self.cc.resume(now)
    }

    /// QP number `qp` goes, with all it had in flight; whether it was the last.
    pub(crate) fn leave(&mut self, qps: &mut [Qp], qp: u32) -> bool {
        // The end of a pause may be its to tell.
        self.cc.resume(Instant::FAR);
        self.retransmit.remove(qps, qp);
        self.new_data.remove(qps, qp);
        if let Some(slot) = qps.get_mut(qp as usize) {
            let share = core::mem::replace(&mut slot.share, Share::NONE);
            let (sum, part) = (&mut self.load, &share.load);
            sum.backlog_bytes = sum.backlog_bytes.saturating_sub(part.backlog_bytes);
            sum.waiting_rtx = sum.waiting_rtx.saturating_sub(part.waiting_rtx);
            sum.rtx_backlog_bytes = sum.rtx_backlog_bytes.saturating_sub(part.rtx_backlog_bytes);
            sum.inflight_pkts = sum.inflight_pkts.saturating_sub(part.inflight_pkts);
            self.unasked = self.unasked.saturating_sub(share.unasked.into());
            self.cc.on_settled(share.inflight);
        }
        self.users = self.users.saturating_sub(1);
        self.users == 0
    }

    /// The probe for the base RTT found no way out: the next feedback triggers another.
    pub(crate) fn want_base_rtt(&mut self) {
        self.base_rtt_wanted = true;
    }

    /// The base RTT a probe measured, and when.
    pub(crate) fn measured_base_rtt(&self) -> Option<(u64, Instant)> {
        Some((self.cc.base_rtt_ns()?, self.base_rtt_at?))
    }

    //= QPCC-004
    pub(crate) fn state(&self) -> QpccState {
        let data = self.load.backlog_bytes > 0 || self.load.waiting_rtx > 0;
        match (data, self.load.inflight_pkts) {
            (true, _) if self.cc.can_send() => QpccState::Ready,
            (true, _) => QpccState::Active,
            (false, 0) => QpccState::Idle,
            (false, _) => QpccState::Pending,
        }
    }

    /// Whether it takes part in the round: READY, and not all its QPs wait for something other than the window.
    pub(crate) fn has_turn(&self) -> bool {
        !(self.retransmit.is_empty() && self.new_data.is_empty()) && self.cc.can_send()
    }

    pub(crate) fn info(&self) -> QpccInfo {
        QpccInfo {
            state: self.state(),
            users: self.users,
            load: self.load,
            cwnd_bytes: self.cc.cwnd_bytes(),
            inflight_bytes: self.cc.inflight_bytes(),
            base_rtt_ns: self.cc.base_rtt_ns(),
            avg_delay_ns: self.cc.avg_delay_ns(),
        }
    }
}

/// A read-only picture of one controller for tools.
#[derive(Clone, Copy, Debug)]
pub struct QpccInfo {
    /// State.
    pub state: QpccState,
    /// QPs that share it.
    pub users: u32,
    /// What they have to send and have in flight, in all.
    pub load: Load,
    /// Window in bytes of nominal packets; `u64::MAX` without limit.
    pub cwnd_bytes: u64,
    /// Bytes in flight, without those that test a silent peer (`silent_packets`).
    pub inflight_bytes: i64,
    /// Smallest round trip known in nanoseconds, where the algorithm has one.
    pub base_rtt_ns: Option<u64>,
    /// Average queueing delay in nanoseconds; 0 where the algorithm has none.
    pub avg_delay_ns: u64,
}

/// What a QP does counts in its share and in its controller.
//= QPCC-003
impl Qpcc {
    fn both(&mut self, share: &mut Share, change: impl Fn(&mut Load)) {
        change(&mut self.load);
        change(&mut share.load);
    }

    /// `bytes` of new data were posted.
    pub(crate) fn on_posted(&mut self, share: &mut Share, bytes: u64) {
        self.both(share, |load| load.backlog_bytes = load.backlog_bytes.saturating_add(bytes));
        share.posted = share.posted.saturating_add(bytes);
    }

    /// `packets` of `each` nominal bytes leave, for the first time or again; the last one is acknowledged at once
    /// (`asks`), or all wait until the responder has `sack_gen_threshold` bytes to report.
    #[inline]
    pub(crate) fn on_send(
        &mut self,
        share: &mut Share,
        packets: u32,
        each: u32,
        rtx: bool,
        asks: bool,
        sack_gen_threshold: u32,
    ) {
        let bytes = packets.saturating_mul(each);
        let unasked = if asks { 0 } else { share.unasked.saturating_add(bytes).min(sack_gen_threshold) };
        self.unasked = self.others_unasked(share).saturating_add(unasked.into());
        share.unasked = unasked;
        share.turn.spend(bytes);
        self.turn.spend(bytes);
        self.both(share, |load| {
            load.inflight_pkts = load.inflight_pkts.saturating_add(packets);
            if rtx {
                load.waiting_rtx = load.waiting_rtx.saturating_sub(packets);
                load.rtx_backlog_bytes = load.rtx_backlog_bytes.saturating_sub(bytes.into());
            } else {
                load.backlog_bytes = load.backlog_bytes.saturating_sub(bytes.into());
            }
        });
        if rtx {
            share.retransmitted = share.retransmitted.saturating_add(packets);
        }
        share.inflight = share.inflight.saturating_add(bytes.into());
        self.cc.on_send(bytes);
    }

    /// `packets` in state SENT became SACKED; each is reported once.
    pub(crate) fn on_sacked(&mut self, share: &mut Share, packets: u32) {
        self.both(share, |load| load.inflight_pkts = load.inflight_pkts.saturating_sub(packets));
    }

    /// The responder reported `ack.newly_bytes` more.
    //= NSCC-021
    pub(crate) fn on_ack(&mut self, share: &mut Share, now: Instant, ack: &AckSample) {
        share.inflight = share.inflight.saturating_sub(ack.newly_bytes.into());
        if share.settled.max(share.testing) > 0 {
            let early = share.take_settled(ack.newly_bytes);
            self.cc.on_settled(early.saturating_neg());
        }
        self.cc.on_ack(now, ack);
    }

    /// Bytes of this QP that left for the first time and that its responder has not reported: in flight, lost and still to
    /// be sent again, or settled before their report. The responder rounds its count up to a unit of 256 bytes.
    //= SRX-009
    pub(crate) fn unreported_bytes(&self, share: &Share) -> u32 {
        // Sums of packets of one QP, a window of 2^23 at most: far from the ends of their type.
        let lost = share.load.rtx_backlog_bytes.cast_signed();
        let bytes = share.open_bytes().wrapping_add(share.settled.into()).wrapping_add(lost).wrapping_add(255);
        u32::try_from(bytes.max(0)).unwrap_or(u32::MAX)
    }

    /// Bytes that count as in flight beyond the packets that are, when each of these had the `full` size. They have arrived:
    /// for peers whose congestion state does not tell how many have.
    pub(crate) fn bytes_beyond_packets(&self, share: &Share, full: u32) -> u32 {
        let packets = i64::from(share.load.inflight_pkts).saturating_mul(full.into());
        u32::try_from(share.open_bytes().saturating_sub(packets).max(0)).unwrap_or(u32::MAX)
    }

    fn on_lost(&mut self, share: &mut Share, bytes: u32) {
        self.both(share, |load| {
            load.waiting_rtx = load.waiting_rtx.saturating_add(1);
            load.rtx_backlog_bytes = load.rtx_backlog_bytes.saturating_add(bytes.into());
            load.inflight_pkts = load.inflight_pkts.saturating_sub(1);
        });
        share.inflight = share.inflight.saturating_sub(bytes.into());
        let tested = share.take_testing(bytes);
        self.cc.on_settled(tested.saturating_neg());
    }

    /// A packet in state SENT was refused and is LOST now.
    pub(crate) fn on_nack(&mut self, share: &mut Share, now: Instant, bytes: u32, trimmed: bool, rtt_ns: Option<u64>) {
        self.on_lost(share, bytes);
        self.cc.on_nack(now, bytes, trimmed, rtt_ns);
    }

    /// A packet in state SENT is LOST, inferred or by its timer. The algorithm hears of it where that may be `congestion`; else the packet
    /// is only in flight no more.
    pub(crate) fn on_loss(&mut self, share: &mut Share, now: Instant, bytes: u32, congestion: bool) {
        self.on_lost(share, bytes);
        match congestion {
            true => self.cc.on_loss(now, bytes),
            false => self.cc.on_settled(bytes.into()),
        }
    }

    /// A LOST packet turned out SACKED before it was sent again.
    //= NSCC-021
    pub(crate) fn on_unloss(&mut self, share: &mut Share, bytes: u32) {
        self.both(share, |load| {
            load.waiting_rtx = load.waiting_rtx.saturating_sub(1);
            load.rtx_backlog_bytes = load.rtx_backlog_bytes.saturating_sub(bytes.into());
        });
        share.inflight = share.inflight.saturating_add(bytes.into());
        self.cc.on_unloss(bytes);
    }

    /// When nothing of the QP is in flight its part is 0, whatever feedback was lost, rounded or is still to come. Lost
    /// packets may wait meanwhile: in a window of one packet the least remainder would hold them back for ever.
    //= NSCC-021, INV-005
    pub(crate) fn settle(&mut self, share: &mut Share) {
        if share.load.inflight_pkts > 0 {
            return;
        }
        self.cc.on_settled(share.settle());
    }

    /// What the QP has in flight only tests whether its peer is there: it takes nothing from the window of others.
    //= SCHED-002
    #[cold]
    pub(crate) fn set_apart(&mut self, share: &mut Share) {
        self.cc.on_settled(share.set_apart());
    }

    /// The round trip of a full packet, from that of one with `payload` bytes, where it is less than the base RTT.
    #[inline]
    pub(crate) fn full_rtt_ns(&self, rtt_ns: u64, payload: impl FnOnce() -> u32) -> u64 {
        self.cc.full_rtt_ns(rtt_ns, payload)
    }

    /// A probe measured a round trip.
    pub(crate) fn on_probe_rtt(&mut self, now: Instant, rtt_ns: u64) {
        self.base_rtt_at = Some(now);
        self.cc.on_base_rtt(self.full_rtt_ns(rtt_ns, || 0));
    }

    /// Whether this, the first feedback of the destination, should trigger the probe for the base RTT.
    //= NSCC-024
    pub(crate) fn take_base_rtt_wanted(&mut self) -> bool {
        core::mem::take(&mut self.base_rtt_wanted)
    }

    pub(crate) fn can_send(&self) -> bool {
        self.cc.can_send()
    }

    #[inline]
    fn others_unasked(&self, share: &Share) -> u64 {
        self.unasked.saturating_sub(share.unasked.into())
    }

    /// Whether the turn of both goes on.
    #[inline]
    pub(crate) fn has_turn_left(&self, share: &Share) -> bool {
        share.turn.is_left() && self.turn.is_left()
    }

    /// Whether the turn of both goes on after so many packets of so many bytes each.
    #[inline]
    pub(crate) fn has_turn_after(&self, share: &Share, packets: u32, each: u32) -> bool {
        let credit = share.turn.left().min(self.turn.left());
        i64::from(credit) > i64::from(packets.saturating_mul(each))
    }

    /// Bytes that may leave before a packet has to ask for an acknowledgement: as many as leave room for another packet.
    /// None when the window is smaller than what the responder collects before it reports. When the responders of the
    /// other QPs may sit on more than half of it, each below its threshold, the packet that ends a QP's turn asks, or the
    /// one with which as much as a turn would be unasked: else what closes the window would draw one QP's report, and the
    /// window would open by that QP's part alone.
    //= AREQ-002, NSCC-023
    #[inline]
    fn may_leave_unasked(&self, share: &Share, cfg: &EndpointConfig) -> u64 {
        let window = self.cc.cwnd_bytes();
        if window < u64::from(cfg.sack_gen_threshold) {
            return 0;
        }
        let room = window.saturating_sub_signed(self.cc.inflight_bytes()).saturating_sub(self.reserve.into());
        if self.others_unasked(share) > window / 2 { room.min(self.turn_left(share, cfg)) } else { room }
    }

    /// Bytes that may leave before the packet that ends the turn.
    #[inline]
    fn turn_left(&self, share: &Share, cfg: &EndpointConfig) -> u64 {
        let credit = share.turn.left().min(self.turn.left()).saturating_sub(1).max(0).unsigned_abs();
        credit.min(cfg.turn_bytes.saturating_sub(share.unasked)).into()
    }

    /// How many packets of `each` nominal bytes may leave in the turn, and before one of them has to ask for an
    /// acknowledgement. Where packets leave [one by one](Self::one_by_one) it holds for the next one alone.
    #[inline]
    pub(crate) fn unasked_packets(&self, share: &Share, each: u32, cfg: &EndpointConfig) -> u32 {
        let turn = share.turn.left().min(self.turn.left()).max(0).unsigned_abs();
        // The one that begins before the turn is over is the last.
        let turn = turn.saturating_add(each).saturating_sub(1);
        let bytes = self.may_leave_unasked(share, cfg).min(turn.into());
        u32::try_from(bytes).unwrap_or(u32::MAX).checked_div(each).unwrap_or(0)
    }

    /// Whether a packet of `bytes` that is about to leave has to ask for an acknowledgement.
    #[inline]
    pub(crate) fn wants_ack(&self, share: &Share, bytes: u32, cfg: &EndpointConfig) -> bool {
        u64::from(bytes) > self.may_leave_unasked(share, cfg)
    }

    pub(crate) fn cwnd_bytes(&self) -> u64 {
        self.cc.cwnd_bytes()
    }

    pub(crate) fn max_wnd_bytes(&self) -> u64 {
        self.cc.max_wnd_bytes()
    }
}

crate::image::stored!(
    struct Qpcc { cc, users, peer, profile, mtu_bytes, load, unasked, turn, base_rtt_wanted, base_rtt_at, link }
    rebuilt { retransmit: Ready::new(List::Retransmit), new_data: Ready::new(List::NewData), reserve: 0 }
);

#[cfg(test)]
mod tests;
