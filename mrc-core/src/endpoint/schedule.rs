//! Whose packet leaves next: endpoint operations, control packets, then what no congestion window holds back, then data
//! from each READY congestion controller in turn. Within a controller the QPs send in turn, retransmissions first. A
//! turn is one packet, or `turn_bytes`. Finding the next one costs the same whatever the number of QPs. Source:
//! `congestion.md` 5.
//!
//! ```text
//!  ops      what nodes say beside their QPs
//!  control  qp - qp - qp                       SACKs, NACKs, Transport ACKs
//!  urgent   qp                                 probes, repeated tails
//!  ready    qpcc ----------- qpcc ----- qpcc   window open
//!            |- retransmit   |- ...
//!            |   qp - qp
//!            '- new data
//!                qp - qp - qp
//! ```

use super::{Endpoint, MAX_HEADER_LEN, Transmit, tx::Run};
use crate::num::Counter;
use crate::{cc::Credit, event::ErrorCause, port::PortMask, requester::Wants, time::Instant};

/// QPs that wait for a port in one call before it gives up until the next one; bounds a call when many are blocked. A QP
/// that leaves its list does not count: it cannot come up again, and the one behind it may have something to send.
pub(super) const ATTEMPTS: usize = 8;

/// From which list a QP had its turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Urgent,
    Data,
}

/// Where frames go that leave in one call of [`Endpoint::transmit`]: what a driver implements over its rings.
pub trait FrameSink {
    /// Ports with room for one more frame; with none left the call ends. A packet for another port waits, nothing is lost.
    fn ports(&self) -> PortMask;

    /// Where the headers of the next frame go. Asked for before it is certain that there is one.
    fn headers(&mut self) -> &mut [u8; MAX_HEADER_LEN];

    /// The headers are written; the driver appends payload, pad and ICRC (`mrc_wire::icrc`).
    fn push(&mut self, transmit: Transmit);
}

/// Room for one frame.
struct One<'a> {
    ports: PortMask,
    headers: &'a mut [u8; MAX_HEADER_LEN],
    frame: Option<Transmit>,
}

impl FrameSink for One<'_> {
    #[inline]
    fn ports(&self) -> PortMask {
        if self.frame.is_some() { PortMask::NONE } else { self.ports }
    }

    #[inline]
    fn headers(&mut self) -> &mut [u8; MAX_HEADER_LEN] {
        self.headers
    }

    #[inline]
    fn push(&mut self, transmit: Transmit) {
        self.frame = Some(transmit);
    }
}

impl Endpoint<'_> {
    /// Writes the headers of the next frame to send into `out` (at least [`MAX_HEADER_LEN`] bytes) and says what follows
    /// them. `ports` are the ports with room for a frame; a packet for another port waits, nothing is lost.
    ///
    /// `None`: nothing to send now, or `out` is too short. The driver appends payload, pad and ICRC (`mrc_wire::icrc`). The
    /// same frames as from [`Endpoint::transmit`], one at a time.
    pub fn poll_transmit(&mut self, now: Instant, ports: PortMask, out: &mut [u8]) -> Option<Transmit> {
        let mut sink = One { ports, headers: out.first_chunk_mut()?, frame: None };
        self.transmit(now, &mut sink);
        sink.frame
    }

    /// Fills frames until nothing is left to send now or the sink has no room. In bursts a packet costs less: what a QP's
    /// turn costs is paid once, as long as nobody else waits for theirs.
    pub fn transmit(&mut self, now: Instant, sink: &mut impl FrameSink) {
        self.fill(now, true, sink);
    }

    /// As [`Endpoint::transmit`], for requests alone: answers and endpoint operations stay for the next call of that one.
    /// A driver that holds answers back for a moment asks here first, so that data posted in reply to a write leaves
    /// before the write's answers.
    pub fn transmit_requests(&mut self, now: Instant, sink: &mut impl FrameSink) {
        self.fill(now, false, sink);
    }

    /// As [`Endpoint::transmit`], for the SACKs and NACKs that wait: everything else stays for the next call of that one. For
    /// a driver that has a moment to spare and lets Transport ACKs, of which the last one tells all, wait on.
    pub fn transmit_feedback(&mut self, now: Instant, sink: &mut impl FrameSink) {
        let mut blocked = 0;
        while blocked < ATTEMPTS
            && let Some(qp) = self.control.front()
        {
            let ports = sink.ports().and(self.up);
            if ports.is_empty() {
                return;
            }
            let sent = self.send_feedback(now, qp, ports, sink.headers());
            self.control_had_turn(qp);
            match sent {
                Some(transmit) => sink.push(transmit),
                None => blocked.inc(),
            }
        }
    }

    /// Both of them: with the answers and operations that are owed, or without.
    #[inline(always)]
    fn fill(&mut self, now: Instant, answers: bool, sink: &mut impl FrameSink) {
        loop {
            let only_data = self.urgent.is_empty() && (!answers || (self.control.is_empty() && self.ops.is_idle()));
            if only_data && self.ready.is_empty() {
                return;
            }
            let ports = sink.ports().and(self.up);
            if ports.is_empty() {
                return;
            }
            let special = match (only_data, answers) {
                (true, _) => None,
                (false, true) => self.poll_special(now, ports, sink.headers()),
                (false, false) => self.poll_urgent(now, ports, sink.headers()),
            };
            if let Some(transmit) = special {
                sink.push(transmit);
            } else if !self.data_turn(now, only_data, sink) {
                return;
            }
        }
    }

    /// Whether a responder owes answers that [`Endpoint::poll_transmit`] would send.
    pub fn owes_answers(&self) -> bool {
        !self.control.is_empty()
    }

    /// What goes before data.
    #[inline(never)]
    fn poll_special(&mut self, now: Instant, ports: PortMask, out: &mut [u8]) -> Option<Transmit> {
        if !self.ops.is_idle()
            && let Some(transmit) = self.send_op(now, ports, out)
        {
            return Some(transmit);
        }
        if !self.control.is_empty()
            && let Some(transmit) = self.poll_control(now, ports, out)
        {
            return Some(transmit);
        }
        if !self.urgent.is_empty() { self.poll_urgent(now, ports, out) } else { None }
    }

    // These three share nothing: one function each keeps the commonest, the last, short.
    #[inline(never)]
    fn poll_control(&mut self, now: Instant, ports: PortMask, out: &mut [u8]) -> Option<Transmit> {
        let mut blocked = 0;
        while blocked < ATTEMPTS
            && let Some(qp) = self.control.front()
        {
            let sent = self.send_control(now, qp, ports, out);
            let owes = self.control_had_turn(qp);
            if sent.is_some() {
                return sent;
            }
            blocked.inc_by(usize::from(owes));
        }
        None
    }

    /// Whether the QP owes more.
    #[inline(always)]
    fn control_had_turn(&mut self, qp: u32) -> bool {
        let owes = self.qps.get(qp as usize).is_some_and(|slot| slot.used && slot.rsp.owes());
        self.control.after_turn(self.qps, qp, owes);
        owes
    }

    #[inline(never)]
    fn poll_urgent(&mut self, now: Instant, ports: PortMask, out: &mut [u8]) -> Option<Transmit> {
        let mut blocked = 0;
        while blocked < ATTEMPTS
            && let Some(qp) = self.urgent.front()
        {
            if self.waits_for_room(qp, ports) {
                self.urgent.after_turn(self.qps, qp, true);
                blocked.inc();
                continue;
            }
            let (sent, wants) = self.send_urgent(now, qp, ports, out);
            let testable = self.testable_ports(qp);
            let keep = sent.is_some() || testable != testable.and(ports);
            let stays = self.after_turn(qp, Turn::Urgent, keep, wants);
            if sent.is_some() {
                return sent;
            }
            blocked.inc_by(usize::from(stays));
        }
        None
    }

    /// A turn with data or a part of one; whether anything left. It ends for now where the sink has no more room, after each
    /// retransmission, and after each packet while anything waits that goes before data (not `only_data`). The QP then
    /// keeps its place until its turn is over.
    //= SCHED-001, SCHED-002, QPCC-004
    #[inline(never)]
    fn data_turn(&mut self, now: Instant, only_data: bool, sink: &mut impl FrameSink) -> bool {
        let mut blocked = 0;
        let mut yielding = None;
        let mut whose = self.ready.front();
        if self.has_many() {
            self.fetch_turns();
        }
        while blocked < ATTEMPTS
            && let Some(index) = whose
            && let Some(qpcc) = self.qpccs.get(index as usize)
        {
            // A retransmission that waits for its port does not hold up new packets for another.
            let (again, new_data) = (qpcc.retransmit.front(), qpcc.new_data.front());
            if let Some(qp) = new_data
                && self.is_ahead(qp)
                && self.leaves_to_others(qp, sink.ports())
                && qpcc.sole_sender().is_some()
            {
                // Its turn would come to nothing: it keeps its place for the next port, and so do those asked after it.
                yielding = yielding.or(new_data);
                whose = self.ready.behind(self.qpccs, index);
                blocked.inc();
                continue;
            }
            let (mut sent, mut stays, mut fault) = (false, false, None);
            let mut turn = again.or(new_data);
            let mut other = again.and(new_data);
            while let Some(qp) = turn {
                let most = |alone: bool| if only_data && (alone || again.is_none()) { u32::MAX } else { 1 };
                let run = self.part_of_turn(now, index, qp, most, sink);
                if again.is_none() && run.goes_on && self.urgent.is_empty() {
                    // Nothing else changed: all stay where they are.
                    self.timers.arm(qp, run.wants.map_or(Instant::FAR, |wants| wants.deadline));
                    self.check_timer(now, qp);
                    return true;
                }
                let keep = !run.blocked || self.starved(qp, sink.ports());
                stays |= self.after_turn(qp, Turn::Data, keep, run.wants);
                self.check_timer(now, qp);
                fault = run.fault.map(|psn| (qp, psn));
                sent = run.sent > 0;
                if sent {
                    break;
                }
                if run.yields {
                    yielding = yielding.or(Some(qp));
                }
                turn = other.take();
            }
            let behind = yielding.and_then(|_| self.ready.behind(self.qpccs, index));
            // Who leaves a port to others keeps the place for the next port, and so do those asked after them.
            self.end_turn(index, sent, yielding.is_none() || sent);
            // Last: a QP that fails leaves its lists by itself.
            if let Some((qp, psn)) = fault {
                self.fail_qp(now, qp, ErrorCause::LocalProtection, Some(psn));
            }
            if sent {
                return true;
            }
            blocked.inc_by(usize::from(stays));
            whose = if yielding.is_some() { behind } else { self.ready.front() };
        }
        yielding.is_some_and(|qp| self.waived_turn(now, qp, sink))
    }

    /// What controller `index` and QP `qp` send in their turn, or in a part of it. `most` gives the largest number of packets; it is told
    /// whether nobody else waits for a turn.
    #[inline(always)]
    fn part_of_turn(
        &mut self,
        now: Instant,
        index: u32,
        qp: u32,
        most: impl FnOnce(bool) -> u32,
        sink: &mut impl FrameSink,
    ) -> Run {
        let Some((alone, one_by_one, silent)) = self.begin_turn(index, qp) else {
            return Run { blocked: true, ..Run::NOTHING };
        };
        if silent {
            return self.test_turn(now, qp, sink);
        }
        let most = if one_by_one { 1 } else { most(alone) };
        let mut run = self.send_data(now, qp, most, sink);
        if one_by_one && run.sent > 0 {
            run.wants = self.pause(now, qp);
        }
        run
    }

    /// The turn of controller `index` and QP `qp` begins or goes on; whether nobody else waits for one, whether its packets
    /// leave one by one, and whether its peer is silent.
    #[inline(always)]
    fn begin_turn(&mut self, index: u32, qp: u32) -> Option<(bool, bool, bool)> {
        let turn_bytes = self.cfg.turn_bytes;
        let (qpcc, slot) = (self.qpccs.get_mut(index as usize)?, self.qps.get_mut(qp as usize)?);
        let only_controller = self.ready.holds_at_most(index);
        let only_qp = qpcc.retransmit.holds_at_most(qp) && qpcc.new_data.holds_at_most(qp);
        qpcc.turn.begin(turn_bytes, only_controller);
        slot.share.turn.begin(turn_bytes, only_qp);
        Some((only_controller && only_qp, qpcc.one_by_one(&slot.share), slot.req.is_silent(&self.cfg)))
    }

    /// After one of its QPs had a turn, or a part of one: controller `index` leaves the round when it has nothing more that
    /// may leave, goes to its end (`rotate`) when its turn is over, and else goes on.
    #[inline(always)]
    fn end_turn(&mut self, index: u32, sent: bool, rotate: bool) {
        let Some(qpcc) = self.qpccs.get_mut(index as usize) else { return };
        let more = qpcc.has_turn();
        if more && (!rotate || (sent && qpcc.turn.is_left())) {
            return;
        }
        self.ready.after_turn_of(self.qpccs, index, more, self.cfg.turn_bytes);
        if !more && let Some(qpcc) = self.qpccs.get_mut(index as usize) {
            qpcc.turn = Credit::NONE;
        }
    }

    /// Nobody can use the ports that `qp` left to others: it takes them after all.
    //= BAL-007
    #[cold]
    fn waived_turn(&mut self, now: Instant, qp: u32, sink: &mut impl FrameSink) -> bool {
        let Some(slot) = self.qps.get_mut(qp as usize) else { return false };
        let Some(index) = slot.qpcc else { return false };
        slot.paths.waive_lead();
        let run = self.part_of_turn(now, index, qp, |_| 1, sink);
        let keep = !run.blocked || self.starved(qp, sink.ports());
        self.after_turn(qp, Turn::Data, keep, run.wants);
        self.end_turn(index, run.sent > 0, true);
        if let Some(psn) = run.fault {
            self.fail_qp(now, qp, ErrorCause::LocalProtection, Some(psn));
        }
        run.sent > 0
    }

    /// Whether a QP may have failed to send only because the driver left out a port: then it keeps its turn. Blocked by
    /// anything else, an acknowledgement, a timer or a port event puts it back.
    fn starved(&self, qp: u32, ports: PortMask) -> bool {
        let usable = self.usable_ports(qp);
        usable != usable.and(ports)
    }

    /// Puts a QP whose turn is over to the end of its lists, or takes it off those where it has nothing more or, unless
    /// `keep`, nothing that could leave now; arms its timer. Whether it is still where it had its turn.
    #[inline(always)]
    fn after_turn(&mut self, qp: u32, turn: Turn, keep: bool, wants: Option<Wants>) -> bool {
        let has_many = self.has_many();
        let qpcc = self.qps.get(qp as usize).and_then(|slot| slot.qpcc);
        let (Some(index), Some(wants)) = (qpcc, wants) else {
            self.urgent.remove(self.qps, qp);
            return false;
        };
        // Who has no port is on no list: one that returns wakes the QP.
        let reaches = self.qps.get(qp as usize).is_some_and(|slot| !slot.paths.usable_ports().is_empty());
        let urgent = wants.urgent && (keep || (turn == Turn::Data && reaches));
        if turn == Turn::Urgent || !urgent {
            self.urgent.after_turn(self.qps, qp, urgent);
        } else {
            self.urgent.push(self.qps, qp);
        }
        let mut data = false;
        if let Some(qpcc) = self.qpccs.get_mut(index as usize) {
            let (again, new_data) = (wants.retransmit, wants.new_data);
            if turn == Turn::Data {
                let (again, new_data) = (again && keep, new_data && keep);
                data = again || new_data;
                let goes_on = self.qps.get(qp as usize).is_some_and(|slot| slot.share.turn.is_left());
                if again && goes_on {
                    qpcc.retransmit.push(self.qps, qp);
                } else {
                    qpcc.retransmit.after_turn(self.qps, qp, again);
                }
                if new_data && goes_on {
                    qpcc.new_data.push(self.qps, qp);
                } else {
                    if has_many && new_data {
                        self.ahead.waits(self.qps, qp);
                    }
                    qpcc.new_data.after_turn_of(self.qps, qp, new_data, self.cfg.turn_bytes);
                }
                if !data && let Some(slot) = self.qps.get_mut(qp as usize) {
                    slot.share.turn = Credit::NONE;
                }
            } else {
                self.join(index, qp, again && reaches, new_data && reaches);
            }
        }
        self.timers.arm(qp, wants.deadline);
        if turn == Turn::Urgent { urgent } else { data }
    }

    /// Puts a QP on the lists it belongs to and arms its timer.
    #[inline]
    pub(super) fn wake(&mut self, now: Instant, qp: u32) {
        self.wake_control(qp);
        // The peer's ports may have changed since the QP last had a turn.
        let without = self.qps.get(qp as usize).is_some_and(|slot| slot.paths.usable_ports().is_empty());
        let ports = if without { Some(self.usable_ports(qp)) } else { None };
        let wants = self.with_tx(qp, |mut tx| {
            if let Some(ports) = ports {
                tx.set_ports(now, ports);
            }
            tx.wants(now)
        });
        if let Some(wants) = wants {
            self.wake_for(qp, wants);
        }
    }

    /// Puts a QP on the lists for what it wants to send and arms its timer.
    #[inline]
    pub(super) fn wake_for(&mut self, qp: u32, wants: Wants) {
        let Some(index) = self.qps.get(qp as usize).and_then(|slot| slot.qpcc) else { return };
        if wants.urgent {
            self.urgent.push(self.qps, qp);
        }
        self.join(index, qp, wants.retransmit, wants.new_data);
        self.timers.arm(qp, wants.deadline);
    }

    /// What follows a packet or a report tells only the deadlines that it can have brought forward. Debug builds look at all of them:
    /// the timer of the QP fires for the first one, or before; send times are kept in ticks of 16 ns. Or it fires soon for one that had come,
    /// which somebody served meanwhile, or an open walk wakes all.
    #[inline(always)]
    pub(super) fn check_timer(&mut self, now: Instant, qp: u32) {
        if cfg!(debug_assertions)
            && !self.walk.is_open()
            && let Some((next, soon)) = self.with_tx(qp, |tx| (tx.next_timeout(now), tx.once_more(now)))
        {
            assert!(next > now, "QP {qp} would be woken for ever at {now:?}");
            let armed = self.timers.armed_for(qp);
            let late = armed.since(next) >= 16 && armed > soon;
            assert!(!late, "QP {qp} has a deadline at {next:?} and its timer fires at {armed:?}");
        }
    }

    /// Puts QP `qp` of controller `index` on its lists for packets to send again and for new ones, and the controller into the round.
    #[inline]
    fn join(&mut self, index: u32, qp: u32, again: bool, new_data: bool) {
        let has_many = self.has_many();
        if let Some(qpcc) = self.qpccs.get_mut(index as usize) {
            if again {
                qpcc.retransmit.push(self.qps, qp);
            }
            if new_data {
                self.ahead.joins(self.qps, qp, has_many);
                qpcc.new_data.join(self.qps, qp, self.cfg.turn_bytes);
            }
        }
        self.evaluate(index);
    }

    /// As [`Endpoint::wake`] after something that concerned the responder only: a received write moves no timer.
    #[inline]
    pub(super) fn wake_control(&mut self, qp: u32) {
        if self.qps.get(qp as usize).is_some_and(|slot| slot.rsp.owes()) {
            self.control.push(self.qps, qp);
        }
    }

    /// New packets may leave, and no deadline moved: a request was posted, or a completion made room among the writes with
    /// immediate in flight. Looks at what a new packet needs and at nothing else of the QP.
    pub(super) fn wake_new_data(&mut self, qp: u32) {
        if !self.qps.get(qp as usize).is_some_and(|slot| slot.sq.has_new()) {
            return;
        }
        let new_data = self.with_tx(qp, |tx| tx.has_new_data()).unwrap_or(false);
        let Some(index) = self.qps.get(qp as usize).and_then(|slot| slot.qpcc) else { return };
        if new_data {
            self.join(index, qp, false, true);
        }
    }

    /// After anything that may have opened or closed a controller's window, or given it data.
    //= QPCC-004
    pub(super) fn evaluate(&mut self, index: u32) {
        let Some(qpcc) = self.qpccs.get(index as usize) else { return };
        if qpcc.has_turn() {
            self.ready.join(self.qpccs, index, self.cfg.turn_bytes);
        } else {
            self.ready.remove(self.qpccs, index);
        }
    }
}
