//! The responder of one QP: which packets arrived, what may be placed, what to answer. Says what arrived; never decides
//! what the peer resends. Source: `transport.md` 4, `wire.md` 13 and 14.

mod answers;
mod placing;
mod psn_window;
mod receive;
mod refusals;
mod sack;
#[cfg(test)]
mod tests;

pub use psn_window::RxWord;
pub use receive::{Immediate, RecvWqe};
pub use refusals::Refusal;

pub(crate) use answers::{Added, Answer, AnswerKind, Answers, ServiceTime};
pub(crate) use placing::Placing;
pub(crate) use psn_window::{Arrival, PsnWindow};
pub(crate) use receive::{ReceiveQueue, Stash};
pub(crate) use refusals::{Listed as ListedRefusals, RefusalList, Refusals};

use mrc_wire::{NackReason, PacketHead, Psn, WriteHeaders, WriteShape};

use crate::config::{EndpointConfig, RtrAttr};
use crate::num::Counter;
use crate::renew::renew;
use crate::time::Instant;

/// Scalars of one QP's responder (`transport.md` 4.1).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Responder {
    pub(crate) window: PsnWindow,
    lowest_unsacked: Psn,
    rcvd_bytes: u32,
    trigger_bytes: u32,
    /// Highest PSN that ended a message, or asked for an acknowledgement (`tack_within_message`).
    tack_goal: Psn,
    /// Messages received completely.
    msn_done: u32,
    /// Placements that the driver has not finished.
    pub(crate) placing: Placing,
    /// Point up to which Transport ACKs were considered: [`Responder::executed`], or less while an immediate waits for its
    /// receive request.
    tack_point: Psn,
    /// A Transport ACK is owed.
    pub(crate) tack_due: bool,
    pub(crate) trim_nack: bool,
    /// Every SACK carries the window.
    pub(crate) dynamic_mpr: bool,
    /// Which timestamps the time that an answer waits is added to.
    pub(crate) svc_time: ServiceTime,
    /// What every SACK asks of the peer's window, and whether it gets its old one back.
    pub(crate) penalty: u8,
    pub(crate) restore_cwnd: bool,
    pub(crate) stash: Stash,
    /// RQMSN that the next immediate should carry, once one was seen.
    next_rqmsn: Option<mrc_wire::Msn>,
    /// EV that brought the last congestion mark, and how many marks in a row (open question 43).
    marked_ev: mrc_wire::Ev,
    marked_row: u8,
    /// A packet came out of order: words of the ring were written.
    pub(crate) gaps: bool,
    /// Refusals for which `answers` had no room.
    pub(crate) refusals: RefusalList,
    pub(crate) answers: Answers,
}

/// What the responder makes of one write packet, before anything is placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Acceptance {
    /// New: check the transport rules, then place it.
    New {
        /// A control packet is owed.
        owes: bool,
    },
    /// Arrived before: acknowledge again, place nothing.
    Duplicate,
    /// Above the window: refuse.
    OutOfWindow,
}

/// The write packet at hand. Each field is read where it is needed: what is read earlier has to be kept until then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WritePacket<'f> {
    pub(crate) packet: PacketHead<'f>,
    pub(crate) headers: WriteHeaders<'f>,
    pub(crate) shape: WriteShape,
    /// A write of the same shape, key and message length, with payload, passed before: its lengths and the QP's permission need no check.
    pub(crate) sound: bool,
    pub(crate) ce: bool,
    pub(crate) now: Instant,
}

impl WritePacket<'_> {
    #[inline(always)]
    pub(crate) fn psn(&self) -> Psn {
        self.packet.psn()
    }

    #[inline(always)]
    pub(crate) fn ends_message(&self) -> bool {
        self.packet.ends_message()
    }

    /// Whether its QP may expect more writes of this shape: it is a full packet of a message, or a message of one packet, which has
    /// payload.
    pub(crate) fn is_repeated(&self) -> bool {
        self.shape.payload_len() > 0 && (self.packet.begins_message() || !self.packet.ends_message())
    }

    /// A SACK for it.
    //= TS-003, TS-004
    #[inline(always)]
    pub(crate) fn sack(&self, cfg: &EndpointConfig, svc_time: ServiceTime) -> Answer {
        let (ev, tseth) = (self.packet.entropy(&cfg.wire), self.headers.tseth());
        let timestamp = tseth.map_or(0, |tseth| tseth.reflected());
        let added = tseth.map_or(Added::Nothing, |tseth| svc_time.on(&tseth));
        let (kind, rtx) = (AnswerKind::PLAIN_SACK, self.packet.rtx());
        Answer { kind, psn: self.psn(), ev, timestamp, rtx, added, arrived: self.now.stamp() }
    }

    /// What the books and an answer need of it.
    #[inline(always)]
    pub(crate) fn arrived(&self, cfg: &EndpointConfig, svc_time: ServiceTime) -> Arrived {
        Arrived {
            sack: self.sack(cfg, svc_time),
            udp_len: self.packet.udp_len(),
            ends_message: self.ends_message(),
            ack_req: self.packet.ack_req(),
            ce: self.ce,
        }
    }
}

/// A write packet that is not the next one, by what matters then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    /// The SACK that it may draw.
    pub(crate) sack: Answer,
    udp_len: u16,
    ends_message: bool,
    ack_req: bool,
    ce: bool,
}

impl Responder {
    pub(crate) const IDLE: Self = Self {
        window: PsnWindow::EMPTY,
        lowest_unsacked: Psn::new(0),
        rcvd_bytes: 0,
        trigger_bytes: 0,
        tack_goal: Psn::new(0),
        msn_done: 0,
        placing: Placing::NONE,
        tack_point: Psn::new(0),
        tack_due: false,
        trim_nack: false,
        dynamic_mpr: false,
        svc_time: ServiceTime::Never,
        penalty: 0,
        restore_cwnd: true,
        stash: Stash::EMPTY,
        next_rqmsn: None,
        answers: Answers::EMPTY,
        refusals: RefusalList::EMPTY,
        marked_ev: mrc_wire::Ev(0),
        marked_row: 0,
        gaps: false,
    };

    //= RSP-001
    pub(crate) fn start(attr: &RtrAttr) -> Self {
        let before = attr.rq_psn.sub(1);
        Self {
            window: PsnWindow::new(before, u32::from(attr.mpr_dest) * 128),
            lowest_unsacked: before,
            tack_goal: before,
            tack_point: before,
            trim_nack: attr.trim_nack,
            dynamic_mpr: attr.dynamic_mpr,
            svc_time: match (attr.svc_time, attr.private_stamps_us) {
                (false, _) => ServiceTime::Never,
                (true, false) => ServiceTime::Standard,
                (true, true) => ServiceTime::Any,
            },
            stash: Stash::new(attr.max_wimm_dest),
            ..Self::IDLE
        }
    }

    /// Becomes `new`, which has no answers. What the ring of answers has already is not written.
    #[inline(always)]
    pub(crate) fn renew(&mut self, new: Self) {
        renew!(self = new; {
            window, lowest_unsacked, rcvd_bytes, trigger_bytes, tack_goal, msn_done, placing, tack_point, tack_due, trim_nack,
            dynamic_mpr, svc_time, penalty, restore_cwnd, stash, next_rqmsn, marked_ev, marked_row, gaps, refusals,
        } but { answers });
        self.answers.clear();
    }

    /// Records a write packet in the reliability state and queues the SACK it triggers (`transport.md` 4.2, 4.3), if it is the next
    /// one and no packet waits behind it: then no bit has to be touched. Whether a control packet is owed; `None` for any other packet,
    /// which is for [`Self::on_gap`]. The caller then runs the transport checks. Where nothing holds Transport ACKs back (`FREE`) all
    /// that arrived counts; the caller asks [`Self::settle`] otherwise.
    #[inline(always)]
    //= RSP-002, SACK-001, ACK-001
    pub(crate) fn on_next<const FREE: bool>(&mut self, write: &WritePacket<'_>, cfg: &EndpointConfig) -> Option<bool> {
        if !self.window.take_next(write.psn()) {
            return None;
        }
        if FREE {
            // The goal is not left behind: a message may be longer than PSNs can be compared.
            (self.tack_point, self.tack_goal) = (write.psn(), write.psn());
        }
        let due = self.count(write.packet.udp_len(), cfg);
        if !due && !write.packet.is_special() && !write.ce {
            return Some(false);
        }
        let (ends, ack_req) = (write.ends_message(), write.packet.ack_req());
        // All that arrived before counts: a Transport ACK can only be due for this packet.
        let asks = self.note_end(write.psn(), ends, ack_req, ends.into(), cfg);
        if FREE && asks {
            self.tack_due = true;
        }
        if due || ack_req || write.packet.rtx() || write.ce {
            self.answer_sack(write.sack(cfg, self.svc_time), write.ce, cfg);
        }
        Some(true)
    }

    /// As [`Self::on_next`] of any other packet. The caller refuses one beyond the window ([`Self::out_of_window`]).
    //= RSP-002, RSP-003, RSP-004, RSP-005, SACK-001, SACK-002, SACK-003, SACK-004, SACK-006, ACK-002
    pub(crate) fn on_gap<const FREE: bool>(
        &mut self,
        write: &Arrived,
        bits: &mut [RxWord],
        cfg: &EndpointConfig,
    ) -> Acceptance {
        let psn = write.sack.psn;
        let arrival = self.window.classify(psn, bits);
        match arrival {
            Arrival::Below | Arrival::Seen => {
                self.tack_due |= arrival == Arrival::Below;
                self.answer_sack(write.sack, write.ce, cfg);
                Acceptance::Duplicate
            }
            Arrival::Above => Acceptance::OutOfWindow,
            Arrival::New => {
                self.gaps = true;
                let ended = self.window.insert(psn, write.ends_message, bits);
                let due = self.count(write.udp_len, cfg);
                self.note_end(psn, write.ends_message, write.ack_req, ended, cfg);
                if due || write.ack_req || write.sack.rtx || write.ce {
                    self.answer_sack(write.sack, write.ce, cfg);
                }
                if FREE {
                    self.settle_at(self.window.cack());
                }
                Acceptance::New { owes: self.owes() }
            }
        }
    }

    /// The NACK for a packet above the window; none where `oor_silent` is set, or for a PSN that lies too far ahead.
    //= RSP-004, RSP-005
    pub(crate) fn out_of_window(&self, write: &Arrived, cfg: &EndpointConfig) -> Option<Answer> {
        let near = write.sack.psn.diff(self.window.cack()) <= 1 << 22;
        let kind = AnswerKind::Nack(NackReason::PsnOorWindow);
        (near && !cfg.oor_silent).then_some(Answer { kind, ..write.sack })
    }

    /// Queues a refusal, which no other answer replaces as long as `pool` has room.
    pub(crate) fn refuse(&mut self, pool: &mut Refusals<'_>, nack: Answer) {
        let waits = self.answers.is_full() && pool.push(&mut self.refusals, nack);
        if !waits {
            self.answers.push(nack);
        }
    }

    /// The next answer to send, taken.
    pub(crate) fn next_answer(&mut self, pool: &mut Refusals<'_>) -> Option<Answer> {
        let Some(answer) = self.answers.front() else { return pool.pop(&mut self.refusals) };
        self.answers.pop();
        Some(answer)
    }

    /// Forgets all answers.
    pub(crate) fn forget_answers(&mut self, pool: &mut Refusals<'_>) {
        self.tack_due = false;
        self.answers.clear();
        pool.release(&mut self.refusals);
    }

    /// A new packet of this size; whether as many bytes arrived as trigger a SACK.
    //= RSP-008, RBYT-001
    #[inline(always)]
    fn count(&mut self, udp_len: u16, cfg: &EndpointConfig) -> bool {
        let nominal = u32::from(udp_len).wrapping_add(cfg.size_overhead.into());
        self.rcvd_bytes = self.rcvd_bytes.wrapping_add(nominal);
        self.trigger_bytes.inc_by(nominal.max(1_024));
        self.trigger_bytes >= cfg.sack_gen_threshold
    }

    /// A new packet, with which so many messages `ended`; whether it asks for a Transport ACK.
    //= ACK-001
    #[inline(always)]
    fn note_end(&mut self, psn: Psn, ends: bool, ack_req: bool, ended: u32, cfg: &EndpointConfig) -> bool {
        let asks = ends || (ack_req && cfg.tack_within_message);
        if asks && psn.diff(self.tack_goal) > 0 {
            self.tack_goal = psn;
        }
        self.msn_done = self.msn_done.wrapping_add(ended) & 0xFF_FFFF;
        asks
    }

    /// Nominal bytes received, modulo 2^32.
    pub(crate) const fn received_bytes(&self) -> u32 {
        self.rcvd_bytes
    }

    /// Every packet up to here arrived and its bytes are in memory: what Transport ACKs and completions may speak of.
    #[inline(always)]
    pub(crate) fn executed(&self) -> Psn {
        if self.placing.is_reported() { self.placing.done() } else { self.window.cack() }
    }

    /// Last PSN a Transport ACK may cover: what was executed, less what an immediate without its receive request holds back.
    //= ACK-003, WIMM-006
    fn acknowledgeable(&self, stash: &[Immediate]) -> Psn {
        let executed = self.executed();
        match self.stash.front(stash) {
            Some(held) if held.psn.diff(executed) <= 0 => held.psn.sub(1),
            _ => executed,
        }
    }

    /// After a packet was taken in, its bytes reached memory, or an immediate completed: whether a Transport ACK has become due.
    //= ACK-001, ACK-003
    #[inline(always)]
    pub(crate) fn settle(&mut self, stash: &[Immediate]) {
        let point = if self.stash.is_empty() { self.executed() } else { self.acknowledgeable(stash) };
        self.settle_at(point);
    }

    //= LEN-009
    #[inline(always)]
    fn settle_at(&mut self, point: Psn) {
        if point.diff(self.tack_point) > 0 {
            if self.tack_goal.diff(self.tack_point) > 0 {
                self.tack_due = true;
            } else {
                // Not left behind: a message may be longer than PSNs can be compared.
                self.tack_goal = point;
            }
            self.tack_point = point;
        }
    }

    /// PSN of a Transport ACK sent now.
    pub(crate) fn tack_psn(&self) -> Psn {
        self.tack_point
    }

    /// An immediate whose bytes and those of every earlier packet are in memory, the oldest first.
    //= WIMM-003, WIMM-004
    pub(crate) fn ripe(&self, stash: &[Immediate]) -> Option<Immediate> {
        self.stash.front(stash).filter(|front| front.psn.diff(self.executed()) <= 0)
    }

    /// Whether `imm`, which just arrived and is in no stash, is the next to complete: nothing before it is missing, and none
    /// of the stash comes before it. Where the driver reports placements, it must not be one whose bytes still `move`.
    pub(crate) fn is_next(&self, stash: &[Immediate], imm: &Immediate, moves: bool) -> bool {
        let complete = match self.placing.is_reported() {
            // It is not entered there yet.
            true => !moves && imm.psn == self.placing.done().next(),
            false => imm.psn.diff(self.window.cack()) <= 0,
        };
        complete && self.stash.front(stash).is_none_or(|oldest| imm.psn.diff(oldest.psn) < 0)
    }

    /// Whether `rqmsn` follows that of the immediate before it; only counted, never trusted.
    //= WIMM-007
    pub(crate) fn in_sequence(&mut self, rqmsn: mrc_wire::Msn) -> bool {
        let expected = self.next_rqmsn.replace(mrc_wire::Msn(rqmsn.0.wrapping_add(1)));
        expected.is_none_or(|expected| expected == rqmsn)
    }

    /// Changes the window; the edge advertised before stays acceptable unless it `retreats`.
    //= DMPR-001, DMPR-002
    pub(crate) fn set_range(&mut self, range: u32, retreats: bool) {
        self.window.set_range(range, retreats);
    }

    /// A SACK has become due, which reports all that was received.
    #[inline(always)]
    pub(crate) fn reported(&mut self) {
        self.trigger_bytes = 0;
    }

    //= SACK-007, SACK-009
    #[inline(never)]
    fn answer_sack(&mut self, sack: Answer, ce: bool, cfg: &EndpointConfig) {
        self.reported();
        let verdict = self.verdict(sack.ev, ce, cfg.always_skip_after);
        let answer = Answer { kind: AnswerKind::Sack { verdict, probe_id: None }, ..sack };
        // With packets missing each SACK shows another part of the window.
        if cfg.merge_sacks && self.window.out_of_order() == 0 {
            self.answers.merge(answer);
        } else {
            self.answers.push(answer);
        }
    }

    /// The m field (`transport.md` 4.4).
    //= MFLD-001
    #[inline]
    pub(crate) fn verdict(&mut self, ev: mrc_wire::Ev, ce: bool, always_skip_after: u8) -> mrc_wire::Verdict {
        if !ce {
            if ev == self.marked_ev {
                self.marked_row = 0;
            }
            return mrc_wire::Verdict::None;
        }
        self.marked_row = if ev == self.marked_ev { self.marked_row.saturating_add(1) } else { 1 };
        self.marked_ev = ev;
        if always_skip_after > 0 && self.marked_row >= always_skip_after {
            mrc_wire::Verdict::AlwaysSkip
        } else {
            mrc_wire::Verdict::SkipOnce
        }
    }

    /// Messages received completely, and in memory, modulo 2^24.
    pub(crate) fn messages_done(&self) -> u32 {
        if self.placing.is_reported() { self.placing.messages() } else { self.msn_done }
    }

    /// Whether it can be that of rings of `packets` and `wimm` immediates.
    pub(crate) fn fits(&self, packets: u32, wimm: usize) -> bool {
        self.window.fits(packets) && self.stash.fits(wimm)
    }

    /// Whether a control packet is owed.
    pub(crate) fn owes(&self) -> bool {
        self.tack_due || !self.answers.is_empty() || !self.refusals.is_empty()
    }
}

crate::image::stored!(
    struct Responder {
        window, lowest_unsacked, rcvd_bytes, trigger_bytes, tack_goal, msn_done, placing, tack_point, tack_due, trim_nack,
        dynamic_mpr, svc_time, penalty, restore_cwnd, stash, next_rqmsn, marked_ev, marked_row, answers,
    }
    rebuilt { refusals: RefusalList::EMPTY, gaps: true }
);
