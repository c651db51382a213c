//! Outstanding reliability probes of one QP: id, EV under test, send time. Source: `transport.md` 5.

use mrc_wire::PortNum;

use crate::num::Counter;
use crate::{
    path::EvIndex,
    port::PortMask,
    time::{Instant, Tick},
};

/// Probes that may be outstanding at once.
const CAPACITY: usize = 64;

/// Eight bytes; the send time is a [`Tick`], far longer than any patience.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    id: u16,
    ev: EvIndex,
    sent_at: Tick,
}

/// What becomes of an EV that waits for its probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    /// Its port has room: send.
    Send,
    /// This port, its own, is busy.
    Wait(PortNum),
    /// Its port is down. Whoever wants the probe asks again when it is up.
    Forget,
}

/// A first-in first-out table: every probe has the same patience, so the oldest expires first.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ProbeTable {
    head: u8,
    len: u8,
    wanted_len: u8,
    /// Planes of the busy ports that all EVs without their probe waited for at the last look; 0: not known.
    busy: u8,
    /// Places of the ring that a probe was written to: the others are as at first.
    used: u8,
    next_id: u16,
    /// An EV that waits for the probe of the control class that learns a base RTT.
    base_rtt: Option<EvIndex>,
    /// The probe of the control class that left last.
    base_rtt_id: Option<u16>,
    /// EVs that wait for their probe to leave.
    wanted: [EvIndex; 8],
    ring: [Outstanding; CAPACITY],
}

impl ProbeTable {
    pub(crate) const EMPTY: Self = Self {
        ring: [Outstanding { id: 0, ev: EvIndex(0), sent_at: Tick::at(Instant::ZERO) }; CAPACITY],
        head: 0,
        len: 0,
        used: 0,
        next_id: 0,
        wanted: [EvIndex(0); 8],
        wanted_len: 0,
        busy: 0,
        base_rtt: None,
        base_rtt_id: None,
    };

    /// A fresh table. Its identifiers begin where `random` says, but so that none is among the last of this table, that of the
    /// QP's last life: an answer that comes late finds no probe.
    //= PROBE-010
    pub(crate) fn begin_again(&mut self, random: u64) {
        const APART: u16 = 1 << 8;
        const SPREAD: u64 = u16::MAX as u64 - 2 * APART as u64;
        let spread = (random % SPREAD) as u16;
        self.end();
        self.next_id = self.next_id.wrapping_add(APART).wrapping_add(spread);
    }

    /// The QP was reset: nothing is outstanding, and the next life knows which identifiers to avoid.
    pub(crate) fn end(&mut self) {
        let next_id = self.next_id;
        self.clear();
        self.next_id = next_id;
    }

    /// As at first. Writes only what is not.
    pub(crate) fn clear(&mut self) {
        const NOTHING: ProbeTable = ProbeTable::EMPTY;
        for (to, from) in self.ring.iter_mut().zip(NOTHING.ring).take(self.used.into()) {
            *to = from;
        }
        let Self { head, len, used, next_id, wanted, wanted_len, busy, base_rtt, base_rtt_id, ring: _ } = self;
        (*head, *len, *used, *next_id, *wanted_len, *busy) = (0, 0, 0, 0, 0, 0);
        (*wanted, *base_rtt, *base_rtt_id) = (NOTHING.wanted, None, None);
    }

    fn slot(&self, nth: u8) -> usize {
        (self.head.wrapping_add(nth)) as usize % CAPACITY
    }

    /// Remembers to probe `ev`; a request that finds no room is dropped, its EV will ask again.
    pub(crate) fn want(&mut self, ev: EvIndex) {
        let len = self.wanted_len as usize;
        if self.wanted.iter().take(len).any(|&waiting| waiting == ev) {
            return;
        }
        if let Some(slot) = self.wanted.get_mut(len) {
            *slot = ev;
            self.wanted_len.inc();
            self.busy = 0;
        }
    }

    /// Remembers to send the one probe that learns a base RTT on `ev`.
    //= NSCC-024
    pub(crate) fn want_base_rtt(&mut self, ev: EvIndex) {
        self.base_rtt = Some(ev);
        self.busy = 0;
    }

    /// Whether all wanted probes wait for ports of `up` that have no `room`, as far as is known.
    pub(crate) fn waits_for_room(&self, room: PortMask, up: PortMask) -> bool {
        let busy = PortMask::from_bits(u32::from(self.busy) << 1);
        !busy.is_empty() && busy.and(room).is_empty() && busy.minus(up).is_empty()
    }

    fn found_busy(&mut self, port: PortNum) {
        self.busy |= 1u8.checked_shl(port.plane().into()).unwrap_or(0);
    }

    pub(crate) fn wants_any(&self) -> bool {
        (self.wanted_len > 0 || self.base_rtt.is_some()) && (self.len as usize) < CAPACITY
    }

    /// The EV that waits for the base-RTT probe, when `judge` would send it; and whether it was forgotten.
    pub(crate) fn take_base_rtt(&mut self, judge: impl Fn(EvIndex) -> Wanted) -> (Option<EvIndex>, bool) {
        self.busy = 0;
        let Some(ev) = self.base_rtt.filter(|_| self.wants_any()) else { return (None, false) };
        match judge(ev) {
            Wanted::Wait(port) => {
                self.found_busy(port);
                (None, false)
            }
            Wanted::Send => (self.base_rtt.take(), false),
            Wanted::Forget => {
                self.base_rtt = None;
                (None, true)
            }
        }
    }

    /// The next EV to probe: the first that `judge` would send, without those it would forget.
    pub(crate) fn take_wanted(&mut self, judge: impl Fn(EvIndex) -> Wanted) -> Option<EvIndex> {
        if !self.wants_any() {
            return None;
        }
        let (mut taken, mut kept) = (None, 0u8);
        for nth in 0..self.wanted_len as usize {
            let Some(&ev) = self.wanted.get(nth) else { break };
            let verdict = if taken.is_some() { None } else { Some(judge(ev)) };
            match verdict {
                Some(Wanted::Send) => taken = Some(ev),
                Some(Wanted::Forget) => {}
                None | Some(Wanted::Wait(_)) => {
                    if let Some(Wanted::Wait(port)) = verdict {
                        self.found_busy(port);
                    }
                    if let Some(place) = self.wanted.get_mut(kept as usize) {
                        *place = ev;
                    }
                    kept.inc();
                }
            }
        }
        self.wanted_len = kept;
        if taken.is_some() {
            self.busy = 0;
        }
        taken
    }

    /// Records a probe that leaves now and returns its id.
    //= PROBE-004
    pub(crate) fn sent(&mut self, ev: EvIndex, now: Instant) -> u16 {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        if (self.len as usize) < CAPACITY {
            let slot = self.slot(self.len);
            if let Some(entry) = self.ring.get_mut(slot) {
                *entry = Outstanding { id, ev, sent_at: Tick::at(now) };
                self.used = self.used.max((slot as u8).wrapping_add(1));
            }
            self.len.inc();
        }
        id
    }

    /// Remembers that probe `id` travels in the control class: its round trip says nothing about the queues of data.
    pub(crate) fn is_base_rtt(&mut self, id: u16) {
        self.base_rtt_id = Some(id);
    }

    /// Whether probe `id` travelled with the data.
    pub(crate) fn saw_data_queues(&self, id: u16) -> bool {
        self.base_rtt_id != Some(id)
    }

    /// The EV and age in nanoseconds of probe `id`, which is no longer outstanding.
    pub(crate) fn answered(&mut self, id: u16, now: Instant) -> Option<(EvIndex, u64)> {
        let nth = (0..self.len).find(|&nth| self.ring.get(self.slot(nth)).is_some_and(|entry| entry.id == id))?;
        let found = self.ring.get(self.slot(nth)).copied()?;
        // Keep the order of the others.
        for nth in nth..self.len.saturating_sub(1) {
            let (to, from) = (self.slot(nth), self.slot(nth.wrapping_add(1)));
            let moved = self.ring.get(from).copied()?;
            if let Some(entry) = self.ring.get_mut(to) {
                *entry = moved;
            }
        }
        self.len.dec();
        Some((found.ev, found.sent_at.elapsed_ns(now)))
    }

    /// Takes the oldest probe if it was sent `patience_ns` or longer ago.
    pub(crate) fn expired(&mut self, now: Instant, patience_ns: u64) -> Option<EvIndex> {
        if self.is_idle() || self.deadline(now, patience_ns) > now {
            return None;
        }
        let ev = self.ring.get(self.slot(0))?.ev;
        self.head = self.slot(1) as u8;
        self.len.dec();
        Some(ev)
    }

    /// No probe is under way.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.len == 0
    }

    /// When the oldest outstanding probe expires, never before `now`.
    pub(crate) fn deadline(&self, now: Instant, patience_ns: u64) -> Instant {
        if self.len == 0 {
            return Instant::FAR;
        }
        let age = self.ring.get(self.slot(0)).map(|entry| entry.sent_at.elapsed_ns(now));
        age.map_or(Instant::FAR, |age| now.after(patience_ns.saturating_sub(age)))
    }
}

crate::image::stored!(struct Outstanding { id, ev, sent_at });
crate::image::stored!(
    struct ProbeTable { head, len, wanted_len, next_id, base_rtt, base_rtt_id, wanted, ring } rebuilt { busy: 0, used: CAPACITY as u8 }
    where |table| {
        usize::from(table.head) < CAPACITY
            && usize::from(table.len) <= CAPACITY
            && usize::from(table.wanted_len) <= table.wanted.len()
    }
);

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn answers_match_by_id_in_any_order_and_the_rest_expires() {
        let mut table = ProbeTable::EMPTY;
        let at = |ns| Instant::from_nanos(ns);
        let ids: [u16; 3] = core::array::from_fn(|n| table.sent(EvIndex(n as u16), at(n as u64 * 160)));
        assert_eq!(table.answered(ids[1], at(1_600)), Some((EvIndex(1), 1_440)));
        assert_eq!(table.answered(ids[1], at(1_600)), None);
        assert_eq!(table.deadline(at(800), 1_600), at(1_600));
        assert_eq!(table.expired(at(1_584), 1_600), None);
        assert_eq!(table.expired(at(1_600), 1_600), Some(EvIndex(0)));
        assert_eq!(table.expired(at(1_920), 1_600), Some(EvIndex(2)));
        assert_eq!(table.deadline(at(1_920), 1_600), Instant::FAR);
    }

    /// Whatever is drawn, a table of 64 probes has none of the identifiers that the last life had outstanding.
    //= PROBE-010 test
    #[test]
    fn the_next_life_has_other_identifiers() {
        for random in [0, 1, 0xFDFE, 0xFDFF, 0xFE00, 0xFFFF, u64::MAX, 0x1234_5678_9ABC_DEF0] {
            let mut first = ProbeTable::EMPTY;
            let old: Vec<u16> = (0..64).map(|_| first.sent(EvIndex(0), Instant::ZERO)).collect();
            let mut second = first;
            second.end();
            second.begin_again(random);
            for id in &old {
                assert_eq!(second.answered(*id, Instant::ZERO), None);
            }
            let new: Vec<u16> = (0..64).map(|_| second.sent(EvIndex(0), Instant::ZERO)).collect();
            assert!(new.iter().all(|id| !old.contains(id)), "{random:#x}");
        }
        let begin = |random| {
            let mut table = ProbeTable::EMPTY;
            table.begin_again(random);
            table.sent(EvIndex(0), Instant::ZERO)
        };
        assert_ne!(begin(5), begin(6), "nobody knows where they begin");
    }

    /// The identifiers of the next life lie apart from those that the last one can have outstanding, whatever is drawn and
    /// wherever they began.
    //= PROBE-010 test
    #[test]
    fn the_next_life_begins_apart() {
        for begin in [0, 40_000] {
            let mut first = ProbeTable::EMPTY;
            first.begin_again(begin);
            let old = first.sent(EvIndex(0), Instant::ZERO);
            (1..CAPACITY).for_each(|_| _ = first.sent(EvIndex(0), Instant::ZERO));
            for random in 0..0x1_1000 {
                let mut second = first;
                second.end();
                second.begin_again(random);
                let new = second.sent(EvIndex(0), Instant::ZERO);
                assert!(new.wrapping_sub(old) >= 64 && old.wrapping_sub(new) >= 64, "{random}: {old} and {new}");
            }
        }
    }

    /// A probe that finds the table full is not remembered, and takes no other's place.
    #[test]
    fn a_full_table_keeps_what_it_has() {
        let mut table = ProbeTable::EMPTY;
        let ids: Vec<u16> = (0..=CAPACITY).map(|n| table.sent(EvIndex(n as u16), Instant::ZERO)).collect();
        assert_eq!(table.answered(ids[CAPACITY], Instant::ZERO), None);
        assert_eq!(table.answered(ids[0], Instant::ZERO), Some((EvIndex(0), 0)));
        assert_eq!(table.answered(ids[CAPACITY - 1], Instant::ZERO), Some((EvIndex(CAPACITY as u16 - 1), 0)));
    }

    /// Only the probe of the control class has seen no queue of data; a table without a probe under way is idle.
    //= PROBE-007 test
    #[test]
    fn the_probe_of_the_control_class_is_known() {
        let mut table = ProbeTable::EMPTY;
        assert!(table.is_idle());
        let [data, control] = [1, 2].map(|ev| table.sent(EvIndex(ev), Instant::ZERO));
        table.is_base_rtt(control);
        assert!(table.saw_data_queues(data) && !table.saw_data_queues(control) && !table.is_idle());
        for id in [data, control] {
            table.answered(id, Instant::ZERO);
        }
        assert!(table.is_idle());
    }

    #[test]
    fn a_full_table_probes_no_more() {
        let mut table = ProbeTable::EMPTY;
        for _ in 0..CAPACITY {
            table.sent(EvIndex(0), Instant::ZERO);
        }
        table.want(EvIndex(3));
        assert!(!table.wants_any());
        assert!(table.expired(Instant::from_nanos(16), 16).is_some());
        assert_eq!(table.take_wanted(|_| Wanted::Send), Some(EvIndex(3)));
    }

    /// For which busy ports all wanted probes wait is known until another one is wanted, or one leaves.
    #[test]
    fn probes_that_wait_say_for_which_ports() {
        let ports = |planes: &[u8]| planes.iter().fold(PortMask::NONE, |all, &p| all.with(PortNum::from_plane(p)));
        let (up, room) = (ports(&[0, 1, 2, 7]), ports(&[7]));
        let all_wait = |ev: EvIndex| Wanted::Wait(PortNum::from_plane(ev.0 as u8));
        let look = |table: &mut ProbeTable, judge: &dyn Fn(EvIndex) -> Wanted| {
            table.take_base_rtt(judge).0.or_else(|| table.take_wanted(judge))
        };
        let mut table = ProbeTable::EMPTY;
        table.want(EvIndex(0));
        table.want(EvIndex(1));
        assert!(!table.waits_for_room(room, up), "nobody has looked");
        assert_eq!(look(&mut table, &all_wait), None);
        assert!(table.waits_for_room(room, up));
        assert!(!table.waits_for_room(room.with(PortNum::from_plane(1)), up), "one has room");
        assert!(!table.waits_for_room(room, ports(&[0, 7])), "one is down: its probe is to be forgotten");
        table.want(EvIndex(1));
        assert!(table.waits_for_room(room, up), "it was wanted already");
        table.want(EvIndex(2));
        assert!(!table.waits_for_room(room, up));
        look(&mut table, &all_wait);
        table.want_base_rtt(EvIndex(7));
        assert!(!table.waits_for_room(ports(&[3]), up));
        assert_eq!(look(&mut table, &all_wait), None);
        assert!(table.waits_for_room(ports(&[3]), up) && !table.waits_for_room(room, up));
        let third_leaves = |ev: EvIndex| if ev.0 == 2 { Wanted::Send } else { all_wait(ev) };
        assert_eq!(look(&mut table, &third_leaves), Some(EvIndex(2)));
        assert!(!table.waits_for_room(ports(&[3]), up), "those behind it were not looked at");
        assert_eq!(look(&mut table, &|ev| if ev.0 == 7 { Wanted::Send } else { all_wait(ev) }), Some(EvIndex(7)));
        assert!(!table.waits_for_room(ports(&[3]), up));
    }

    #[test]
    fn a_busy_port_holds_back_its_own_probes_only() {
        let mut table = ProbeTable::EMPTY;
        for ev in 0..5 {
            table.want(EvIndex(ev));
        }
        // EV 0 leaves through a busy port, EV 1 through one that is down.
        let judge = |ev: EvIndex| match ev.0 {
            0 => Wanted::Wait(PortNum::from_plane(0)),
            1 => Wanted::Forget,
            _ => Wanted::Send,
        };
        assert_eq!(table.take_wanted(judge), Some(EvIndex(2)));
        assert_eq!(table.take_wanted(|_| Wanted::Send), Some(EvIndex(0)));
        assert_eq!(table.take_wanted(judge), Some(EvIndex(3)));
        assert_eq!(table.take_wanted(judge), Some(EvIndex(4)));
        assert!(!table.wants_any());
    }
}
