//! What is known of the latest transmission of one PSN. Source: `transport.md` 3.1.

use crate::{
    image::{Reader, Stored, Writer},
    path::EvIndex,
    time::{Instant, Tick},
};

/// What is known of the latest transmission of one PSN.
//= REQ-002
#[derive(Clone, Copy, Debug)]
pub struct TxRecord {
    /// When it left; when it was refused, if it was.
    pub(crate) sent_at: Tick,
    ev: u16,
    /// Bits 15, 1 and 0 transmissions (at most [`TxRecord::MANY`]), 2 fast retransmission done, 3 refused, 4..=11 retry count at
    /// arming, 12..=14 refusals before it; all of 12..=14 without 3: NACKed, to leave again at once.
    pub(super) meta: u16,
}

const COUNT: u16 = 0b11;
/// The transmissions' high bit lies above all others.
const COUNT_HIGH_SHIFT: u32 = 13;
const COUNT_HIGH: u16 = 0b100;
const FAST_DONE: u16 = 0b100;
const REFUSED: u16 = 0b1000;
const ARMED_SHIFT: u32 = 4;
const REFUSALS_SHIFT: u32 = 12;
const REFUSALS: u16 = 0b111;

impl TxRecord {
    /// A record of nothing.
    pub const EMPTY: Self = Self { sent_at: Tick::at(crate::time::Instant::ZERO), ev: 0, meta: 0 };

    /// Transmissions that are counted: after so many only the timer repeats a packet.
    pub(crate) const MANY: u16 = 7;

    pub(crate) fn first(sent_at: Tick, ev: EvIndex, armed: u8) -> Self {
        Self { sent_at, ev: ev.0, meta: 1 | u16::from(armed) << ARMED_SHIFT }
    }

    /// The same packet, sent again.
    pub(crate) fn again(self, sent_at: Tick, ev: EvIndex, armed: u8) -> Self {
        let count = self.tx_count().wrapping_add(1).min(Self::MANY);
        let count = count & COUNT | (count & COUNT_HIGH) << COUNT_HIGH_SHIFT;
        Self { sent_at, ev: ev.0, meta: count | (self.meta & FAST_DONE) | u16::from(armed) << ARMED_SHIFT }
    }

    /// Keeps an old transmission old: what left longer ago than a [`Tick`] can tell would look as if it had just left. To be
    /// called at least once in [`Tick::OLDEST_NS`].
    pub(crate) fn keep_age(&mut self, now: Instant) {
        if self.sent_at.elapsed_ns(now) > Tick::OLDEST_NS {
            self.sent_at = Tick::before(now, Tick::OLDEST_NS);
        }
    }

    /// When it left, seen from `now`.
    pub(crate) fn left_at(self, now: Instant) -> Instant {
        Instant::from_nanos(now.as_nanos().saturating_sub(self.sent_at.elapsed_ns(now)))
    }

    pub(crate) fn tx_count(self) -> u16 {
        self.meta & COUNT | self.meta >> COUNT_HIGH_SHIFT & COUNT_HIGH
    }

    /// Whether feedback with this rtx flag answers the latest transmission for certain, so that `sent_at` is when that left
    /// (`congestion.md` 3). A refused transmission has been answered.
    pub(crate) fn answers_latest(self, rtx: bool) -> bool {
        let latest = COUNT | COUNT_HIGH << COUNT_HIGH_SHIFT | REFUSED;
        self.meta & latest == if rtx { 2 } else { 1 }
    }

    /// The responder had no room for the latest transmission, after `refusals` others.
    pub(crate) fn refuse(&mut self, at: Tick, refusals: u8) {
        self.sent_at = at;
        self.meta = self.meta & !(REFUSALS << REFUSALS_SHIFT) | REFUSED;
        self.meta |= u16::from(refusals).min(REFUSALS) << REFUSALS_SHIFT;
    }

    /// A NACK named the latest transmission, which leaves again at once.
    pub(crate) fn nacked(&mut self) {
        self.meta |= REFUSALS << REFUSALS_SHIFT;
    }

    /// Whether a NACK named the latest transmission.
    pub(crate) fn was_nacked(self) -> bool {
        self.meta & (REFUSED | REFUSALS << REFUSALS_SHIFT) != 0
    }

    /// Refusals before that of the latest transmission, at most 7.
    pub(crate) fn refusals(self) -> u8 {
        (self.meta >> REFUSALS_SHIFT & REFUSALS) as u8
    }

    pub(crate) fn ev(self) -> EvIndex {
        EvIndex(self.ev)
    }

    pub(crate) fn armed_retries(self) -> u8 {
        (self.meta >> ARMED_SHIFT) as u8
    }

    pub(crate) fn fast_done(self) -> bool {
        self.meta & FAST_DONE != 0
    }

    /// Its timer has run out, and counting of repetitions goes on at three transmissions: 1 and 2 say which one is answered.
    pub(crate) fn timed_out(&mut self) {
        self.set_fast_done(false);
        if self.tx_count() > COUNT {
            self.meta = self.meta & !(COUNT_HIGH << COUNT_HIGH_SHIFT) | COUNT;
        }
    }

    pub(crate) fn set_fast_done(&mut self, done: bool) {
        self.meta = if done { self.meta | FAST_DONE } else { self.meta & !FAST_DONE };
    }
}

/// Most records of a ring were never used: those are two bytes.
impl Stored for TxRecord {
    fn save(&self, to: &mut Writer<'_>) {
        let Self { sent_at, ev, meta } = self;
        meta.save(to);
        if *meta != 0 {
            (*sent_at, *ev).save(to);
        }
    }

    fn load(from: &mut Reader<'_>) -> Option<Self> {
        let meta = u16::load(from)?;
        if meta == 0 {
            return Some(Self::EMPTY);
        }
        let (sent_at, ev) = Stored::load(from)?;
        Some(Self { sent_at, ev, meta })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A budget without end retries more often than six bits can count.
    //= TIMER-002 test
    #[test]
    fn a_record_keeps_any_number_of_retries() {
        let now = Tick::at(crate::time::Instant::ZERO);
        for armed in [0, 1, 63, 64, 112, 255] {
            let first = TxRecord::first(now, EvIndex(7), armed);
            let mut again = first.again(now, EvIndex(9), armed);
            again.set_fast_done(true);
            again.set_fast_done(true);
            assert_eq!((first.armed_retries(), first.tx_count(), first.fast_done()), (armed, 1, false));
            assert_eq!((again.armed_retries(), again.tx_count(), again.fast_done()), (armed, 2, true));
        }
    }

    /// Only a NACK for the latest transmission names its EV.
    //= SND-005 test
    #[test]
    fn a_record_knows_whether_a_nack_named_its_latest_transmission() {
        let now = Tick::at(crate::time::Instant::ZERO);
        for armed in [0, 255] {
            let first = TxRecord::first(now, EvIndex(7), armed);
            let (mut trimmed, mut refused) = (first, first);
            trimmed.nacked();
            refused.refuse(now, 0);
            assert_eq!([first, trimmed, refused].map(TxRecord::was_nacked), [false, true, true], "{armed}");
            for again in [trimmed.again(now, EvIndex(9), armed), refused.again(now, EvIndex(9), armed)] {
                assert!(!again.was_nacked() && again.tx_count() == 2 && again.armed_retries() == armed);
            }
        }
    }

    #[test]
    fn transmissions_are_counted_up_to_seven_beside_all_else() {
        let now = Tick::at(crate::time::Instant::ZERO);
        let mut record = TxRecord::first(now, EvIndex(7), 255);
        for count in [2, 3, 4, 5, 6, 7, 7, 7] {
            record = record.again(now, EvIndex(9), 255);
            record.refuse(now, 7);
            assert_eq!((record.tx_count(), record.armed_retries(), record.refusals()), (count, 255, 7));
            assert!(!record.fast_done());
            let mut late = record;
            late.timed_out();
            assert_eq!((late.tx_count(), late.armed_retries(), late.refusals()), (count.min(3), 255, 7));
        }
    }

    /// A refused transmission has been answered, however often its refusals are counted anew.
    #[test]
    fn a_refusal_answers_a_transmission() {
        let now = Tick::at(crate::time::Instant::ZERO);
        let mut record = TxRecord::first(now, EvIndex(7), 5);
        assert!(record.answers_latest(false) && !record.answers_latest(true));
        for refusals in [6, 7, 8, 0, 3] {
            record.refuse(now, refusals);
            assert!(!record.answers_latest(false) && !record.answers_latest(true));
            assert_eq!((record.refusals(), record.armed_retries(), record.ev()), (refusals.min(7), 5, EvIndex(7)));
        }
        assert!(record.again(now, EvIndex(9), 5).answers_latest(true));
    }
}
