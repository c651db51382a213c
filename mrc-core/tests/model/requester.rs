//! A naive requester: every packet ever sent with its whole history, every request ever posted. Written from
//! `transport.md` 3. What it cannot know (the path chosen, when a probe leaves) it takes from what the engine sent.

use mrc_core::{Discard, ErrorCause, RetryConfig};
use mrc_wire::{AethRepr, Ev, NackReason, NackRepr, SackRepr, Syndrome};

use crate::responder::{Seq, psn_of, seq_of};
use crate::schedule::Setup;

/// Where a packet stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Sent,
    Sacked,
    Lost,
}

/// A packet that was sent so often goes again when its timer ends, and not before; a timer that ends leaves three of them.
const MOST_SENT: u32 = 7;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) fate: Fate,
    pub(crate) sent_at: u64,
    pub(crate) ev: Ev,
    /// Times it was sent.
    pub(crate) count: u32,
    /// Inferred lost since its timer last expired.
    inferred: bool,
    /// When the responder had no room for its latest transmission, and how many refusals there had been before that one.
    refused: Option<(u64, u32)>,
    /// Interval of its timer.
    patience: u64,
    /// UDP length + 40.
    nominal: i64,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) id: u64,
    pub(crate) len: u32,
    /// Offset of its first byte on both sides.
    pub(crate) at: usize,
    pub(crate) imm: Option<u32>,
    pub(crate) solicited: bool,
    pub(crate) signaled: bool,
    pub(crate) first: Option<Seq>,
    pub(crate) packets: i64,
    pub(crate) sent: i64,
    pub(crate) rqmsn: u16,
}

/// What is in flight and what waits (`congestion.md` 2, 4.6 and 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct InFlight {
    /// Packets sent and neither SACKED nor LOST.
    pub(crate) packets: i64,
    /// Bytes: what left, less what the responder reported, less what is LOST.
    pub(crate) bytes: i64,
    /// LOST packets and their bytes.
    pub(crate) lost: i64,
    pub(crate) lost_bytes: i64,
}

impl Request {
    pub(crate) fn last(&self) -> Option<Seq> {
        (self.sent == self.packets).then(|| self.first.unwrap() + self.packets - 1)
    }
}

/// A counter of each kind of loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Losses {
    pub(crate) inferred: u64,
    pub(crate) nack: u64,
    pub(crate) timeout: u64,
    pub(crate) probes: u64,
    pub(crate) retransmitted: u64,
}

pub(crate) struct Requester {
    pub(crate) start: u32,
    pub(crate) unack: Seq,
    pub(crate) max: Seq,
    pub(crate) tack: Seq,
    hi: Seq,
    pub(crate) mpr: i64,
    /// Widest window so far.
    pub(crate) widest: i64,
    capacity: i64,
    pub(crate) packets: Vec<Packet>,
    pub(crate) requests: Vec<Request>,
    /// First request without completion, and first with packets to send.
    pub(crate) oldest: usize,
    pub(crate) current: usize,
    wimm_inflight: u16,
    rqmsn: u16,
    pub(crate) retries: u8,
    last_retry: u64,
    /// Requests wait and no port leads to the peer, at least since then.
    pub(crate) stranded_since: Option<u64>,
    resource_nacks: u32,
    /// When anything came from the peer.
    pub(crate) last_heard: u64,
    last_answer: u64,
    tack_wait: Option<u64>,
    pub(crate) resend_tail: bool,
    pub(crate) base_rtt: u64,
    /// Samples since the base RTT was last confirmed, the smallest one, and when that was.
    lowest: u64,
    confirmed: u64,
    srtt: u64,
    /// Id, time and path.
    probes: Vec<(u16, u64, Ev)>,
    /// Steps by which the reordering window has grown, losses since that were losses, and when it grew.
    reorder: (u64, u32, u64),
    /// How late packets were that arrived: planes 0 and 1, and all.
    late: [Late; 3],
    late_since: u64,
    last_probe: Option<u64>,
    pub(crate) losses: Losses,
    retry: RetryConfig,
    /// Bytes that the responder has reported.
    reported: i64,
    /// Bytes of the packets that are cumulatively acknowledged.
    acknowledged: i64,
    /// Bytes that count as in flight no more though the responder has not reported them: nothing was in flight any more.
    waived: i64,
    /// Bytes in flight that test whether a silent peer is there: the window of others does not count them.
    pub(crate) apart: i64,
}

/// What is known of packets that overtook others, on one plane or on all.
#[derive(Clone, Copy, Debug, Default)]
struct Late {
    /// When the newest packet left that arrived.
    newest: u64,
    /// The most that an arriving packet was older than the newest before, lately and before that.
    recent: u64,
    older: u64,
}

/// A result that ends the QP.
pub(crate) type Failure = Option<(ErrorCause, Option<Seq>)>;

const ANCIENT: i64 = -(1 << 22);

impl Requester {
    pub(crate) fn new(setup: &Setup, start: u32) -> Self {
        let mpr = i64::from(setup.mpr) * 128;
        Self {
            start,
            unack: -1,
            max: -1,
            tack: -1,
            hi: -1,
            mpr,
            widest: mpr,
            capacity: i64::from(crate::schedule::WIDEST) * 128,
            packets: Vec::new(),
            requests: Vec::new(),
            oldest: 0,
            current: 0,
            wimm_inflight: 0,
            rqmsn: setup.first_msn,
            retries: 0,
            last_retry: 0,
            stranded_since: None,
            resource_nacks: 0,
            last_heard: 0,
            last_answer: 0,
            tack_wait: None,
            resend_tail: false,
            base_rtt: setup.base_rtt_ns,
            lowest: u64::MAX,
            confirmed: setup.start_ns,
            srtt: setup.base_rtt_ns,
            probes: Vec::new(),
            reorder: (1, 0, 0),
            late: [Late::default(); 3],
            late_since: setup.start_ns,
            last_probe: None,
            losses: Losses::default(),
            retry: setup.retry,
            reported: 0,
            acknowledged: 0,
            waived: 0,
            apart: 0,
        }
    }

    /// Counted anew from the whole history. A SACK reports bytes by a counter, and packets by their PSNs: a packet counts
    /// in packets until it is SACKED or LOST, in bytes until the counter moves or it is LOST.
    pub(crate) fn in_flight(&self) -> InFlight {
        let mut now = InFlight { bytes: self.acknowledged - self.reported - self.waived, ..InFlight::default() };
        for packet in &self.packets[(self.unack + 1) as usize..] {
            if packet.fate == Fate::Lost {
                now.lost += 1;
                now.lost_bytes += packet.nominal;
            } else {
                now.packets += i64::from(packet.fate == Fate::Sent);
                now.bytes += packet.nominal;
            }
        }
        now
    }

    /// Nominal bytes of the packets that were never sent, by what one of so much payload, with or without immediate, has.
    pub(crate) fn unsent(&self, mtu: i64, nominal: impl Fn(i64, bool) -> i64) -> i64 {
        let left = |request: &Request| -> i64 {
            let size = |nth: i64| (i64::from(request.len) - nth * mtu).min(mtu);
            (request.sent..request.packets)
                .map(|nth| nominal(size(nth), request.imm.is_some() && nth + 1 == request.packets))
                .sum()
        };
        self.requests.iter().skip(self.current).map(left).sum()
    }

    /// Whatever the responder has not reported when nothing is in flight any more was lost, rounded, or is still to come.
    fn settle(&mut self) {
        let now = self.in_flight();
        if now.packets == 0 {
            self.waived += now.bytes;
            self.apart = 0;
        }
    }

    /// What leaves while the peer is silent tests it, together with what is in flight: no more than `silent_packets`.
    pub(crate) fn set_apart(&mut self, setup: &Setup) {
        if self.is_silent(setup) {
            self.apart = self.in_flight().bytes;
        }
    }

    /// Reports and losses are of what tests a silent peer before they are of other packets.
    fn less_apart(&mut self, bytes: i64) {
        self.apart -= bytes.min(self.apart.max(0));
    }

    /// The responder's counter of bytes, in units of 256 and modulo 2^24; an older one says nothing.
    fn report(&mut self, units: u32) {
        let new = (i64::from(units) - self.reported / 256).rem_euclid(1 << 24);
        if new < 1 << 23 {
            self.reported += new * 256;
            let waived = (new * 256).min(self.waived.max(0));
            self.waived -= waived;
            self.less_apart(new * 256 - waived);
        }
    }

    pub(crate) fn outstanding(&self) -> i64 {
        self.max - self.unack
    }

    pub(crate) fn queued(&self) -> usize {
        self.requests.len() - self.oldest
    }

    /// The request that `seq` belongs to, and which of its packets it is.
    pub(crate) fn owner(&self, seq: Seq) -> (Request, i64) {
        let holds = |r: &&Request| r.first.is_some_and(|first| (first..first + r.sent).contains(&seq));
        let request = self.requests.iter().find(holds).expect("a packet of some request");
        (*request, seq - request.first.unwrap())
    }

    /// The oldest packet that waits to be sent again, if it may be now.
    pub(crate) fn due_again(&self, setup: &Setup, now: u64) -> Option<Seq> {
        if self.held_back(setup) {
            return None;
        }
        let due = |seq: &Seq| {
            let packet = &self.packets[*seq as usize];
            packet.fate == Fate::Lost && self.released(packet) <= now
        };
        (self.unack + 1..=self.max).find(due).filter(|seq| seq - self.unack <= self.mpr)
    }

    /// When a LOST packet may leave again: at once, or, if it was refused for want of room, after a base RTT, doubled for
    /// each refusal before it in a row, six times at most. When the cumulative acknowledgement moves, the row ends.
    fn released(&self, packet: &Packet) -> u64 {
        let Some((at, before)) = packet.refused else { return 0 };
        at + (self.base_rtt << before.min(6))
    }

    /// Whether window and limits let a packet go that was never sent.
    pub(crate) fn new_allowed(&self, setup: &Setup) -> bool {
        let Some(request) = self.requests.get(self.current) else { return false };
        let blocked = request.imm.is_some() && request.sent == 0 && self.wimm_inflight >= setup.max_wimm;
        !blocked && self.outstanding() < self.mpr.min(self.capacity)
    }

    /// A retry was charged, and no SACK, NACK or ACK came since.
    fn is_silent(&self, setup: &Setup) -> bool {
        setup.silent_packets > 0 && self.retries > 0 && self.last_answer < self.last_retry
    }

    /// The peer is silent, and as many packets as may be in flight then: what is lost waits, and so does what is new.
    pub(crate) fn held_back(&self, setup: &Setup) -> bool {
        self.is_silent(setup) && self.in_flight().packets >= i64::from(setup.silent_packets)
    }

    fn sent(&mut self, now: u64, seq: Seq, ev: Ev, nominal: i64) {
        let patience = interval(self.retry, self.retries);
        if seq > self.max {
            self.max = seq;
            let fresh = Packet {
                fate: Fate::Sent,
                sent_at: now,
                ev,
                count: 1,
                inferred: false,
                refused: None,
                patience,
                nominal,
            };
            self.packets.push(fresh);
        } else {
            let packet = &mut self.packets[seq as usize];
            assert_eq!(packet.nominal, nominal);
            *packet = Packet { sent_at: now, ev, count: packet.count + 1, refused: None, patience, ..*packet };
            if packet.fate == Fate::Lost {
                packet.fate = Fate::Sent;
            }
        }
    }

    /// A packet leaves for the first time; returns its request and place in it.
    pub(crate) fn send_new(&mut self, now: u64, ev: Ev, nominal: i64) -> (Request, i64) {
        let seq = self.max + 1;
        self.sent(now, seq, ev, nominal);
        let request = &mut self.requests[self.current];
        if request.sent == 0 {
            request.first = Some(seq);
            if request.imm.is_some() {
                request.rqmsn = self.rqmsn;
                self.rqmsn = self.rqmsn.wrapping_add(1);
                self.wimm_inflight += 1;
            }
        }
        request.sent += 1;
        let found = (*request, request.sent - 1);
        if request.sent == request.packets {
            self.current += 1;
        }
        found
    }

    /// A packet leaves again.
    pub(crate) fn send_again(&mut self, now: u64, seq: Seq, ev: Ev, nominal: i64) {
        self.losses.retransmitted += 1;
        self.sent(now, seq, ev, nominal);
    }

    /// A probe leaves.
    pub(crate) fn send_probe(&mut self, setup: &Setup, now: u64, id: u16, ev: Ev) {
        assert!(self.probes.len() < 64, "more than 64 probes outstanding");
        assert!(self.probes.iter().all(|&(other, ..)| other != id), "probe id used twice");
        if let Some(last) = self.last_probe {
            assert!(now - last >= setup.probe_rate_limit_ns, "probes too close: {} ns", now - last);
        }
        self.last_probe = Some(now);
        self.probes.push((id, now, ev));
    }

    /// The round trip of a packet, when it is certain which copy was answered, without the time that the responder says
    /// it took.
    fn rtt(&self, setup: &Setup, now: u64, seq: Seq, rtx: bool, reflected: u16) -> Option<u64> {
        if seq < 0 || seq > self.max || self.max - seq >= self.capacity {
            return None;
        }
        let packet = &self.packets[seq as usize];
        let elapsed = now - packet.sent_at;
        let sent = (packet.sent_at >> 7) as u16;
        let told = setup.timestamps && reflected != 0 && elapsed <= 8_000_000;
        let waited = if told { u64::from(reflected.wrapping_sub(sent)) * 128 } else { 0 };
        let rtt = if waited < elapsed { elapsed - waited } else { elapsed };
        let certain = matches!((packet.count, rtx), (1, false) | (2, true)) && packet.refused.is_none();
        (certain && plausible(rtt)).then_some(rtt)
    }

    /// The base RTT follows the smallest sample, down to a part of the configured one; after ten seconds without a sample as
    /// small, it is the smallest of those seconds.
    fn learn_base(&mut self, setup: &Setup, now: u64, rtt: u64) {
        let rtt = rtt.max(setup.base_rtt_ns / 32);
        self.lowest = self.lowest.min(rtt);
        if rtt <= self.base_rtt || now - self.confirmed >= 10_000_000_000 {
            self.base_rtt = self.lowest.min(setup.base_rtt_ns);
            (self.lowest, self.confirmed) = (u64::MAX, now);
        }
    }

    fn arrived(&mut self, seq: Seq) {
        if seq > self.unack && seq <= self.max {
            self.packets[seq as usize].fate = Fate::Sacked;
        }
    }

    fn progress(&mut self, to: Seq) {
        for seq in self.unack + 1..=to {
            self.arrived(seq);
            self.acknowledged += self.packets[seq as usize].nominal;
        }
        self.unack = to;
        self.hi = self.hi.max(to);
        self.retries = 0;
        self.resource_nacks = 0;
        for packet in &mut self.packets[(to + 1) as usize..] {
            packet.refused = packet.refused.map(|(at, _)| (at, 0));
        }
    }

    fn plausible(&self, psn: mrc_wire::Psn) -> Option<Seq> {
        let seq = seq_of(self.start, psn, self.unack);
        (seq <= self.max && seq - self.unack > ANCIENT).then_some(seq)
    }

    pub(crate) fn on_sack(&mut self, setup: &Setup, now: u64, sack: &SackRepr, rtx: bool) -> Result<(), Discard> {
        let cack = self.plausible(sack.cack).ok_or(Discard::StalePsn)?;
        (self.last_heard, self.last_answer) = (now, now);
        let trigger = (!sack.probe_answer).then(|| cack + i64::from(sack.offset_or_probe as i16));
        let mut result = Ok(());
        let mut probe = None;
        if trigger.is_none() {
            match self.probes.iter().position(|&(id, ..)| id == sack.offset_or_probe) {
                Some(nth) => {
                    let (_, sent_at, ev) = self.probes.remove(nth);
                    if plausible(now - sent_at) {
                        self.learn_base(setup, now, now - sent_at);
                    }
                    probe = Some((now - sent_at, ev));
                }
                None => result = Err(Discard::StaleProbe),
            }
        }
        if let Some(rtt) = trigger.and_then(|seq| self.rtt(setup, now, seq, rtx, sack.timestamp)) {
            self.learn_base(setup, now, rtt);
            self.srtt = self.srtt - self.srtt / 8 + rtt / 8;
        }
        if setup.dynamic_mpr && sack.mpr != 0 {
            self.mpr = i64::from(sack.mpr) * 128;
            self.widest = self.widest.max(self.mpr);
        }
        if let Some(seq) = trigger.filter(|_| rtx) {
            self.judge_repetition(now, seq);
        }
        if let Some(seq) = trigger {
            self.learn_lateness(setup, now, seq, rtx);
        }
        if cack > self.unack {
            self.progress(cack);
        }
        let base = cack + i64::from(sack.sack_offset);
        let shown = (0..64).filter(|bit| sack.bitmap >> bit & 1 == 1).map(|bit| base + bit);
        for seq in shown.chain(trigger) {
            self.arrived(seq);
            if seq <= self.max {
                self.hi = self.hi.max(seq);
            }
        }
        self.note_arrival(self.hi, false);
        self.report(sack.rcvd_bytes);
        self.infer(setup, now, base, sack.bitmap);
        if let Some((rtt, ev)) = probe {
            let (same, any) = self.tolerance(setup, (ev.0 >> 8) as usize);
            let behind = |packet: &Packet| now - packet.sent_at >= rtt + same.max(1) && packet.ev == ev;
            self.infer_missing(setup, base, sack.bitmap, true, false, |packet, _| behind(packet));
            if rtt.saturating_sub(self.base_rtt) < setup.target_delay_ns {
                let oldest = (3 * self.base_rtt.max(self.srtt)).max(rtt + any);
                self.infer_missing(setup, base, sack.bitmap, true, false, |packet, _| now - packet.sent_at >= oldest);
            }
        }
        self.settle();
        self.watch_tail(setup, now);
        result
    }

    /// The plane and the time that a packet left, when it is certain which transmission arrived.
    fn departure(&self, seq: Seq, rtx: bool) -> Option<(usize, u64)> {
        if seq < 0 || seq > self.max || self.max - seq >= self.capacity {
            return None;
        }
        let packet = &self.packets[seq as usize];
        let certain = matches!((packet.count, rtx), (1, false) | (2, true)) && packet.refused.is_none();
        certain.then_some(((packet.ev.0 >> 8) as usize, packet.sent_at))
    }

    fn note_arrival(&mut self, seq: Seq, rtx: bool) {
        if let Some((plane, sent)) = self.departure(seq, rtx) {
            for scope in [plane, 2] {
                self.late[scope].newest = self.late[scope].newest.max(sent);
            }
        }
    }

    /// `seq` triggered a SACK. If it was not known to have arrived it did so just now, this late.
    fn learn_lateness(&mut self, setup: &Setup, now: u64, seq: Seq, rtx: bool) {
        let Some((plane, sent)) = self.departure(seq, rtx) else { return };
        if self.packets[seq as usize].fate != Fate::Sacked {
            self.late_by(setup, now, plane, sent);
        }
        self.note_arrival(seq, rtx);
    }

    /// What left through `plane` at `sent` is known now to have reached the peer.
    fn late_by(&mut self, setup: &Setup, now: u64, plane: usize, sent: u64) {
        if setup.reorder_tolerance == 0 {
            return;
        }
        if now - self.late_since >= 10_000_000_000 {
            self.late_since = now;
            for late in &mut self.late {
                (late.older, late.recent) = (late.recent, 0);
            }
        }
        for scope in [plane, 2] {
            let late = &mut self.late[scope];
            late.recent = late.recent.max(late.newest.saturating_sub(sent));
        }
    }

    /// How much later a packet must have left than one that it proves lost: on the same plane, and on any.
    fn tolerance(&self, setup: &Setup, plane: usize) -> (u64, u64) {
        if setup.reorder_tolerance == 0 {
            return (0, 0);
        }
        let of =
            |late: &Late| (late.recent.max(late.older) * u64::from(setup.reorder_tolerance) / 256).min(t0(setup.retry));
        let any = of(&self.late[2]).max(setup.reorder_floor_ns).min(t0(setup.retry));
        (of(&self.late[plane]).max(self.base_rtt / 4), any)
    }

    /// Whether a packet is later than those that arrived were.
    fn overdue(&self, setup: &Setup, packet: &Packet) -> bool {
        let plane = (packet.ev.0 >> 8) as usize;
        let (same, any) = self.tolerance(setup, plane);
        let later = |late: &Late| late.newest.saturating_sub(packet.sent_at);
        setup.reorder_tolerance == 0 || later(&self.late[2]) >= any || later(&self.late[plane]) >= same
    }

    /// Packets that a bitmap shows missing, old enough, and overtaken by enough others.
    fn infer(&mut self, setup: &Setup, now: u64, base: Seq, bitmap: u64) {
        let packet = u64::from(setup.mtu) + 88;
        let window = setup.window_bytes.unwrap_or(u64::MAX).min(self.mpr as u64 * packet);
        let scaled = (window * u64::from(setup.reorder_factor) / 256).min(window);
        // A window of PSNs never overtakes anything as a whole: an eighth of it is left out.
        let psns = self.mpr.min(self.capacity) as u64;
        let reachable = psns - psns / 8;
        let distance = scaled.div_ceil(packet).min(reachable).max(u64::from(setup.reorder_pkts_min)) as i64;
        let (hi, base_rtt) = (self.hi, self.base_rtt);
        // The first of those that overtake; what was sent again has been overtaken by what left after that.
        let first = self
            .packets
            .get((hi - distance).max(0) as usize)
            .filter(|packet| packet.count == 1 && packet.refused.is_none());
        let first_sent = first.map(|packet| packet.sent_at);
        self.infer_missing(setup, base, bitmap, false, true, |packet, seq| {
            let overtaken = hi - seq >= distance && (packet.count == 1 || first_sent >= Some(packet.sent_at));
            overtaken && now - packet.sent_at >= base_rtt
        });
        if setup.reorder_delay_ns == 0 || hi < 0 {
            return;
        }
        let delay = (setup.reorder_delay_ns * self.reorder.0).min(self.srtt).max(setup.reorder_delay_ns);
        let newest = &self.packets[hi as usize];
        let age = now - newest.refused.map_or(newest.sent_at, |(at, _)| at);
        if (newest.count == 1 && newest.refused.is_none()) || age >= base_rtt {
            let least = (age + delay).max(base_rtt);
            self.infer_missing(setup, base, bitmap, true, true, |packet, seq| {
                seq < hi && now - packet.sent_at >= least
            });
        }
    }

    /// `again`: of packets inferred before and not timed out since, too. `overdue`: only what is later than usual.
    fn infer_missing(
        &mut self,
        setup: &Setup,
        base: Seq,
        bitmap: u64,
        again: bool,
        overdue: bool,
        lost: impl Fn(&Packet, Seq) -> bool,
    ) {
        for seq in (0..64).filter(|bit| bitmap >> bit & 1 == 0).map(|bit| base + bit) {
            if seq <= self.unack || seq > self.max {
                continue;
            }
            if overdue && !self.overdue(setup, &self.packets[seq as usize]) {
                continue;
            }
            let packet = &mut self.packets[seq as usize];
            let repeats = (again || !packet.inferred) && packet.count < MOST_SENT;
            if packet.fate == Fate::Sent && repeats && lost(packet, seq) {
                (packet.fate, packet.inferred) = (Fate::Lost, true);
                let bytes = packet.nominal;
                self.less_apart(bytes);
                self.losses.inferred += 1;
            }
        }
    }

    /// The repetition of a packet that was inferred lost has arrived.
    fn judge_repetition(&mut self, now: u64, seq: Seq) {
        let Some(packet) = self.packets.get(seq as usize).filter(|packet| packet.inferred) else { return };
        if self.max - seq >= self.capacity {
            return;
        }
        let (steps, in_need, grown_at) = &mut self.reorder;
        if packet.fate == Fate::Sacked {
            *in_need = 0;
            if *steps == 1 || now - *grown_at >= self.srtt {
                (*steps, *grown_at) = ((*steps + 1).min(16), now);
            }
        } else {
            *in_need += 1;
            if *in_need == 16 {
                (*steps, *in_need) = (1, 0);
            }
        }
    }

    /// Everything of the oldest request without Transport ACK arrived: from then on that is waited for.
    fn watch_tail(&mut self, setup: &Setup, now: u64) {
        if setup.complete_on_sack && self.unack > self.tack {
            (self.tack, self.tack_wait, self.resend_tail) = (self.unack, None, false);
        }
        let open = self.requests.iter().find(|request| request.last().is_none_or(|last| last > self.tack));
        let arrived = |last| (self.unack + 1..=last).all(|seq| self.packets[seq as usize].fate == Fate::Sacked);
        let waits = open.and_then(Request::last).is_some_and(arrived);
        if !waits {
            self.tack_wait = None;
        } else if self.tack_wait.is_none() {
            self.tack_wait = Some(now);
        }
    }

    pub(crate) fn on_ack(
        &mut self,
        setup: &Setup,
        now: u64,
        psn: mrc_wire::Psn,
        aeth: &AethRepr,
    ) -> Result<Failure, Discard> {
        if matches!(aeth.syndrome, Syndrome::RnrNak(_) | Syndrome::PsnSequenceError) {
            return Err(Discard::Syndrome);
        }
        let seq = self.plausible(psn).ok_or(Discard::StalePsn)?;
        // A refusal of what was acknowledged before is late or forged.
        if !matches!(aeth.syndrome, Syndrome::Ack(_)) && seq <= self.tack {
            return Err(Discard::StalePsn);
        }
        (self.last_heard, self.last_answer) = (now, now);
        let cause = match aeth.syndrome {
            Syndrome::Ack(_) => None,
            Syndrome::RemoteAccess => Some(ErrorCause::RemoteAccess),
            Syndrome::RemoteOperational => Some(ErrorCause::RemoteOperation),
            _ => Some(ErrorCause::RemoteInvalidRequest),
        };
        if let Some(cause) = cause {
            return Ok(Some((cause, Some(seq))));
        }
        if seq > self.tack {
            self.tack = seq;
            self.tack_wait = None;
            self.resend_tail = false;
            self.retries = 0;
        }
        if seq > self.unack {
            self.progress(seq);
        }
        self.settle();
        self.watch_tail(setup, now);
        Ok(None)
    }

    pub(crate) fn on_nack(&mut self, setup: &Setup, now: u64, nack: &NackRepr, rtx: bool) -> Result<Failure, Discard> {
        let seq = seq_of(self.start, nack.psn, self.unack);
        if seq <= self.unack || seq > self.max || self.packets[seq as usize].fate == Fate::Sacked {
            return Err(Discard::StaleNack);
        }
        (self.last_heard, self.last_answer) = (now, now);
        if nack.reason == NackReason::UnexpEvent {
            return Ok(Some((ErrorCause::RemoteOperation, Some(seq))));
        }
        let packet = &mut self.packets[seq as usize];
        if packet.fate == Fate::Lost || packet.ev != nack.entropy || (rtx && packet.count == 1) {
            return Err(Discard::StaleNack);
        }
        packet.fate = Fate::Lost;
        let bytes = packet.nominal;
        self.less_apart(bytes);
        if matches!(nack.reason, NackReason::Trimmed | NackReason::TrimmedLastHop)
            && let Some((plane, sent)) = self.departure(seq, rtx)
        {
            self.late_by(setup, now, plane, sent);
        }
        self.losses.nack += 1;
        self.settle();
        match nack.reason {
            NackReason::Trimmed | NackReason::TrimmedLastHop => {}
            NackReason::PsnOorWindow => self.packets[seq as usize].refused = Some((now, 0)),
            _ => {
                self.packets[seq as usize].refused = Some((now, self.resource_nacks));
                self.resource_nacks += 1;
            }
        }
        Ok(self.retry(setup, now, seq))
    }

    /// A retry of the oldest packet that is not SACKED counts, at most one per half interval.
    fn retry(&mut self, setup: &Setup, now: u64, seq: Seq) -> Failure {
        let mut open = self.unack + 1..=self.max;
        let first = open.find(|&seq| self.packets[seq as usize].fate != Fate::Sacked);
        let oldest = Some(seq) == first || seq == self.tack + 1;
        let soon = self.retries > 0 && now - self.last_retry < t0(self.retry) / 2;
        if (!oldest && !setup.retry_strict) || soon {
            return None;
        }
        self.charge(now, ErrorCause::RetryExceeded)
    }

    fn charge(&mut self, now: u64, cause: ErrorCause) -> Failure {
        self.retries = self.retries.saturating_add(1);
        self.last_retry = now;
        let budget = u32::from(self.retry.linear) + u32::from(self.retry.exponential);
        let spent = self.retry.exponential < 25 && u32::from(self.retries) > budget;
        spent.then_some((cause, None))
    }

    /// When a packet's timer or the wait for a Transport ACK ends.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let open = (self.unack + 1..=self.max).map(|seq| &self.packets[seq as usize]);
        let timers = open.filter(|packet| packet.fate == Fate::Sent).map(|packet| packet.sent_at + packet.patience);
        let tail = self.tack_wait.map(|since| since + t0(self.retry));
        timers.chain(tail).min()
    }

    /// `stranded`: requests wait and no port leads to the peer; `charged`: the engine counted a retry for it.
    //= RETRY-004 test
    pub(crate) fn on_timeout(&mut self, setup: &Setup, now: u64, stranded: bool, charged: bool) -> Failure {
        let mut failure = None;
        if charged {
            let since = self.stranded_since.replace(now).expect("a retry is charged to a QP that has ports");
            let (waited, interval) = (now - since, interval(self.retry, self.retries));
            assert!(waited >= interval.min(t0(self.retry)), "a retry is charged after {waited} ns, not {interval}");
            failure = self.charge(now, ErrorCause::NoUsablePort);
        }
        for seq in self.unack + 1..=self.max {
            let packet = &mut self.packets[seq as usize];
            if packet.fate == Fate::Sent && now - packet.sent_at >= packet.patience {
                (packet.fate, packet.inferred, packet.count) = (Fate::Lost, false, packet.count.min(3));
                let bytes = packet.nominal;
                self.less_apart(bytes);
                self.losses.timeout += 1;
                // Nothing could be sent again: time alone counts.
                if !stranded {
                    failure = failure.or(self.retry(setup, now, seq));
                }
            }
        }
        self.settle();
        let overdue = self.tack_wait.filter(|since| now - since >= t0(self.retry));
        if failure.is_none()
            && let Some(since) = overdue
        {
            self.tack_wait = Some(now);
            self.resend_tail = true;
            let pause = interval(self.retry, self.retries) - t0(self.retry) / 2;
            let early = setup.tail_retry_paced && self.retries > 0 && now - self.last_retry < pause;
            let forgiven = setup.tail_retry_lenient && self.last_heard > since;
            if !stranded && forgiven && self.outstanding() == 0 {
                self.retries = 0;
            }
            if !stranded && !early && !forgiven {
                failure = self.retry(setup, now, self.tack + 1);
            }
        }
        let patience = (3 * self.base_rtt + setup.target_delay_ns).max(4 * self.srtt).max(100_000);
        while self.probes.first().is_some_and(|&(_, at, _)| now - at >= patience) {
            self.probes.remove(0);
            self.losses.probes += 1;
        }
        failure
    }

    /// A write with immediate completed.
    pub(crate) fn wimm_done(&mut self) {
        self.wimm_inflight -= 1;
    }

    /// The PSN of a request's first packet, 0 when it was never sent.
    pub(crate) fn first_psn(&self, request: &Request) -> mrc_wire::Psn {
        request.first.map_or(mrc_wire::Psn::new(0), |first| psn_of(self.start, first))
    }
}

/// What a network can do: not less than the resolution of timestamps, not more than a second.
fn plausible(rtt: u64) -> bool {
    (128..=1_000_000_000).contains(&rtt)
}

/// T0, which never is disabled here.
fn t0(retry: RetryConfig) -> u64 {
    1_024 << retry.timeout
}

/// The interval of a timer armed after `n` retries: fixed, then doubling up to a ceiling.
fn interval(retry: RetryConfig, n: u8) -> u64 {
    let doublings = (i32::from(n) - i32::from(retry.linear) + 1).max(0) as u32;
    // From 24 doublings on the shortest interval is at the ceiling.
    (t0(retry) << doublings.min(24)).min(1_024 << 24)
}
