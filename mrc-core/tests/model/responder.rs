//! A naive responder: one flag per PSN ever received, one list of what it owes. No window arithmetic, no bit tricks, no
//! bound on memory. Written from `transport.md` 4.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mrc_core::Discard;
use mrc_wire::{Body, Ev, Frame, NackReason, Psn, Syndrome, Trim, Verdict};

use crate::schedule::{Setup, WIDEST};

/// A PSN as a count from the first packet of the connection, which is 0. Never wraps.
pub(crate) type Seq = i64;

/// The wire's PSN of `seq`.
pub(crate) fn psn_of(start: u32, seq: Seq) -> Psn {
    Psn::new((i64::from(start) + seq).rem_euclid(1 << 24) as u32)
}

/// The count that `psn` stands for, the nearest one to `around`.
pub(crate) fn seq_of(start: u32, psn: Psn, around: Seq) -> Seq {
    around + i64::from(psn.diff(psn_of(start, around)))
}

/// Kind of a control packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Sack { verdict: Verdict, probe: Option<u16> },
    Nack(NackReason),
    Nak(Syndrome),
}

/// A control packet owed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owed {
    pub(crate) kind: Kind,
    pub(crate) trigger: Seq,
    pub(crate) ev: Ev,
    pub(crate) timestamp: u16,
    pub(crate) rtx: bool,
    /// Service time is added from this tick on.
    pub(crate) since: Option<u16>,
}

/// Answers that fit.
const OWED: usize = 16;

/// A write with immediate that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) imm: u32,
    pub(crate) dmalen: u32,
    pub(crate) solicited: bool,
}

/// What must come of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Nothing,
    Place {
        va: u64,
        len: usize,
    },
    Discard(Discard),
    /// Whatever the engine likes.
    Any,
    /// Refused for good: NAK, QP in ERROR.
    Fatal(Syndrome),
    /// NACK UNEXP_EVENT, QP in ERROR.
    Broken,
}

enum Arrival {
    Below,
    Seen,
    New,
    Above,
}

pub(crate) struct Responder {
    start: u32,
    /// Everything up to here arrived.
    pub(crate) cack: Seq,
    got: Vec<bool>,
    ends: Vec<bool>,
    max: Seq,
    pub(crate) range: Seq,
    edge: Seq,
    bytes: u64,
    trigger_bytes: u32,
    /// Packets whose payload the driver still moves. Always empty where the driver moves it at once.
    pub(crate) moving: BTreeSet<Seq>,
    /// Highest PSN that wants a Transport ACK.
    goal: Seq,
    pub(crate) acked: Seq,
    pub(crate) ack_due: bool,
    slice: Seq,
    marked: (Ev, u8),
    pub(crate) stash: BTreeMap<Seq, Waiting>,
    pub(crate) receives: VecDeque<u64>,
    pub(crate) owed: Vec<Owed>,
    /// Refusals that found no room there; none is ever forgotten.
    pub(crate) refused: Vec<Owed>,
    pub(crate) refusal: Option<NackReason>,
}

impl Responder {
    pub(crate) fn new(start: u32, mpr: u8) -> Self {
        let range = i64::from(mpr) * 128;
        Self {
            start,
            cack: -1,
            got: Vec::new(),
            ends: Vec::new(),
            max: -1,
            range,
            edge: range - 1,
            bytes: 0,
            trigger_bytes: 0,
            moving: BTreeSet::new(),
            goal: -1,
            acked: -1,
            ack_due: false,
            slice: -1,
            marked: (Ev(0), 0),
            stash: BTreeMap::new(),
            receives: VecDeque::new(),
            owed: Vec::new(),
            refused: Vec::new(),
            refusal: None,
        }
    }

    fn has(&self, seq: Seq) -> bool {
        seq < 0 || self.got.get(seq as usize).copied().unwrap_or(false)
    }

    fn arrival(&self, seq: Seq) -> Arrival {
        match seq {
            _ if seq <= self.cack => Arrival::Below,
            _ if seq > self.edge => Arrival::Above,
            _ if self.has(seq) => Arrival::Seen,
            _ => Arrival::New,
        }
    }

    pub(crate) fn set_range(&mut self, mpr: u8) {
        self.range = i64::from(mpr) * 128;
        self.edge = self.edge.max(self.cack + self.range);
    }

    /// A full list gives up what says least; see `mrc-core`'s `answers.rs` for why.
    fn owe(&mut self, new: Owed) {
        let worth = |owed: &Owed| match owed.kind {
            Kind::Sack { verdict: Verdict::None, probe: None } => 0,
            Kind::Sack { .. } => 1,
            Kind::Nack(_) => 2,
            Kind::Nak(_) => 3,
        };
        if self.owed.len() < OWED {
            self.owed.push(new);
            return;
        }
        if matches!(new.kind, Kind::Nack(_)) {
            self.refused.push(new);
            return;
        }
        let least = self.owed.iter().map(worth).min().unwrap();
        let newest = self.owed.iter().rposition(|owed| worth(owed) == least).unwrap();
        if worth(&new) >= least || (worth(&new) <= 1 && least >= 2) {
            self.owed[newest] = new;
        }
    }

    fn verdict(&mut self, ev: Ev, ce: bool, always_skip_after: u8) -> Verdict {
        let (marked, row) = self.marked;
        if !ce {
            if ev == marked {
                self.marked.1 = 0;
            }
            return Verdict::None;
        }
        self.marked = (ev, if ev == marked { row.saturating_add(1) } else { 1 });
        if always_skip_after > 0 && self.marked.1 >= always_skip_after {
            Verdict::AlwaysSkip
        } else {
            Verdict::SkipOnce
        }
    }

    fn answer(&self, setup: &Setup, frame: &Frame, now: u16, kind: Kind, trigger: Seq) -> Owed {
        let timestamp = frame.timestamp();
        let standard = match &frame.body {
            Body::Write { tseth: Some(tseth), .. } => !tseth.tsr,
            Body::Probe(probe) => !probe.tseth.tsr,
            Body::Trimmed { tsr, .. } => !tsr,
            _ => false,
        };
        let since = (setup.svc_time && standard && timestamp != 0).then_some(now);
        let rtx = frame.bth.rtx && !matches!(frame.body, Body::Probe(_));
        Owed { kind, trigger, ev: frame.entropy, timestamp, rtx, since }
    }

    /// With `merge_sacks` in place of the newest that waits, when neither has anything of its own to say and nothing is missing.
    //= SACK-007 test
    fn owe_sack(&mut self, setup: &Setup, frame: &Frame, now: u16, seq: Seq) {
        self.trigger_bytes = 0;
        let verdict = self.verdict(frame.entropy, frame.ce, setup.always_skip_after);
        let owed = self.answer(setup, frame, now, Kind::Sack { verdict, probe: None }, seq);
        let plain = |owed: &Owed| owed.kind == Kind::Sack { verdict: Verdict::None, probe: None } && !owed.rtx;
        let missing = self.max > self.cack;
        match self.owed.last_mut() {
            Some(newest) if setup.merge_sacks && !missing && plain(newest) && plain(&owed) => *newest = owed,
            _ => self.owe(owed),
        }
    }

    /// A write packet; `key` is the only one that opens our memory.
    pub(crate) fn on_write(&mut self, setup: &Setup, frame: &Frame, now: u16, key: u32) -> Outcome {
        let seq = seq_of(self.start, frame.bth.psn, self.cack);
        match self.arrival(seq) {
            Arrival::Below => {
                self.owe_sack(setup, frame, now, seq);
                self.ack_due = true;
                Outcome::Discard(Discard::Duplicate)
            }
            Arrival::Seen => {
                self.owe_sack(setup, frame, now, seq);
                Outcome::Discard(Discard::Duplicate)
            }
            Arrival::Above => {
                if !setup.oor_silent && seq - self.cack <= 1 << 22 {
                    let owed = self.answer(setup, frame, now, Kind::Nack(NackReason::PsnOorWindow), seq);
                    self.owe(owed);
                }
                Outcome::Discard(Discard::OutOfWindow)
            }
            Arrival::New => match self.refusal.or(self.no_buffer(seq)) {
                Some(NackReason::UnexpEvent) => Outcome::Broken,
                Some(reason) => {
                    let owed = self.answer(setup, frame, now, Kind::Nack(reason), seq);
                    self.owe(owed);
                    Outcome::Discard(Discard::Refused)
                }
                None => self.on_new(setup, frame, now, seq, key),
            },
        }
    }

    fn on_new(&mut self, setup: &Setup, frame: &Frame, now: u16, seq: Seq, key: u32) -> Outcome {
        let nominal = u32::from(frame.udp_len) + 40;
        let ends = frame.bth.opcode.ends_message();
        let at = seq as usize;
        if self.got.len() <= at {
            self.got.resize(at + 1, false);
            self.ends.resize(at + 1, false);
        }
        (self.got[at], self.ends[at]) = (true, ends);
        self.max = self.max.max(seq);
        self.bytes += u64::from(nominal);
        if ends || (setup.tack_within_message && frame.bth.ack_req) {
            self.goal = self.goal.max(seq);
        }
        while self.has(self.cack + 1) {
            self.cack += 1;
        }
        self.edge = self.edge.max(self.cack + self.range);
        self.trigger_bytes += nominal.max(1024);
        let due = self.trigger_bytes >= setup.sack_gen_threshold;
        if due || frame.bth.ack_req || frame.ce || frame.bth.rtx {
            self.owe_sack(setup, frame, now, seq);
        }
        let Body::Write { reth, imm, .. } = &frame.body else { unreachable!() };
        let len = frame.payload.len();
        if len > 0 && reth.rkey.0 != key {
            return Outcome::Fatal(Syndrome::RemoteAccess);
        }
        if let Some(imm) = *imm {
            self.stash.insert(seq, Waiting { imm, dmalen: reth.dmalen, solicited: frame.bth.se });
        }
        if len == 0 { Outcome::Nothing } else { Outcome::Place { va: reth.va, len } }
    }

    /// Up to here every packet arrived and is in memory: what was executed (`transport.md` 1). Reliability knows nothing of it.
    fn executed(&self) -> Seq {
        self.moving.first().map_or(self.cack, |&oldest| self.cack.min(oldest - 1))
    }

    /// A packet too far beyond one that is not in memory has no room.
    fn no_buffer(&self, seq: Seq) -> Option<NackReason> {
        (seq > self.executed() + i64::from(WIDEST) * 128).then_some(NackReason::NoPktBuffer)
    }

    pub(crate) fn on_probe(&mut self, setup: &Setup, frame: &Frame, now: u16, id: u16) -> Outcome {
        self.trigger_bytes = 0;
        let verdict = self.verdict(frame.entropy, frame.ce, setup.always_skip_after);
        let owed = self.answer(setup, frame, now, Kind::Sack { verdict, probe: Some(id) }, self.cack);
        self.owe(owed);
        Outcome::Nothing
    }

    /// Changes nothing but the list of what is owed.
    pub(crate) fn on_trimmed(&mut self, setup: &Setup, frame: &Frame, now: u16, kind: Trim) -> Outcome {
        if !setup.trim_nack {
            return Outcome::Discard(Discard::Trimmed);
        }
        let seq = seq_of(self.start, frame.bth.psn, self.cack);
        let kind = match (self.arrival(seq), kind) {
            (Arrival::Above, _) => return Outcome::Discard(Discard::Trimmed),
            (Arrival::New, Trim::Trimmed) => Kind::Nack(NackReason::Trimmed),
            (Arrival::New, Trim::LastHop) => Kind::Nack(NackReason::TrimmedLastHop),
            _ => Kind::Sack { verdict: Verdict::None, probe: None },
        };
        let owed = self.answer(setup, frame, now, kind, seq);
        self.owe(owed);
        Outcome::Nothing
    }

    /// The oldest immediate whose every earlier packet arrived and is in memory (`transport.md` 4.6).
    pub(crate) fn ripe(&self) -> Option<(Seq, Waiting)> {
        self.stash.first_key_value().map(|(&seq, &waiting)| (seq, waiting)).filter(|(seq, _)| *seq <= self.executed())
    }

    /// What arrived last is an immediate that neither completed at once nor found room among those that wait.
    pub(crate) fn is_crowded(&self, setup: &Setup) -> bool {
        self.stash.len() > usize::from(setup.max_wimm_dest)
    }

    /// Transport ACKs pass neither what is not in memory nor an immediate that waits for its receive request.
    pub(crate) fn settle(&mut self) {
        let point = self.ripe().map_or(self.executed(), |(seq, _)| seq - 1);
        if point > self.acked {
            self.ack_due |= self.goal > self.acked;
            self.acked = point;
        }
    }

    /// Complete messages.
    pub(crate) fn messages(&self) -> u32 {
        (0..=self.executed()).filter(|&seq| self.ends[seq as usize]).count() as u32
    }

    /// Where the next bitmap begins; the one after it begins elsewhere in a wide window.
    fn next_base(&mut self) -> Seq {
        let mut base = if self.slice > self.cack { self.slice } else { self.cack + 1 };
        if self.max - base < 64 {
            base = (self.max - 63).max(self.cack + 1);
        }
        self.slice = if self.max > base + 63 { base + 64 } else { self.cack };
        base
    }

    /// Checks a SACK that leaves now for `owed`.
    pub(crate) fn check_sack(&mut self, setup: &Setup, owed: &Owed, sack: &mrc_wire::SackRepr, now: u16) {
        let Kind::Sack { verdict, probe } = owed.kind else { panic!("a SACK instead of {owed:?}") };
        assert_eq!((sack.verdict, sack.probe_answer), (verdict, probe.is_some()), "{owed:?}");
        let offset = (owed.trigger - self.cack).clamp(-32_768, 32_767) as i16;
        assert_eq!(sack.offset_or_probe, probe.unwrap_or(offset as u16), "{owed:?}");
        assert_eq!(sack.entropy, owed.ev);
        assert_eq!(sack.cack, psn_of(self.start, self.cack), "cumulative PSN");
        assert_eq!(u32::from(sack.mpr), if setup.dynamic_mpr { (self.range / 128) as u32 } else { 0 });
        let base = self.next_base();
        assert_eq!(i64::from(sack.sack_offset), base - self.cack, "bitmap base");
        let bitmap = (0..64).filter(|&bit| self.has(base + bit)).fold(0u64, |bits, bit| bits | 1 << bit);
        assert_eq!(sack.bitmap, bitmap, "bitmap from {base}");
        assert_eq!(sack.timestamp, reflected(owed, now), "timestamp");
        let out_of_order = (self.cack + 1..=self.max).filter(|&seq| self.has(seq)).count();
        assert_eq!(usize::from(sack.ooo_count), out_of_order, "out of order");
        assert_eq!(u64::from(sack.rcvd_bytes), self.bytes.div_ceil(256) % (1 << 24), "bytes received");
        assert_eq!((sack.rcv_cwnd_pen, sack.restore_cwnd), (0, true));
    }
}

/// The timestamp an answer carries when it leaves at tick `now`.
pub(crate) fn reflected(owed: &Owed, now: u16) -> u16 {
    match owed.since {
        Some(since) => owed.timestamp.wrapping_add(now.wrapping_sub(since)).max(1),
        None => owed.timestamp,
    }
}
