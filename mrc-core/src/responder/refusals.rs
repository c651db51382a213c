//! Refusals that find no room among a QP's answers, in one pool for all QPs of an endpoint.
//!
//! A burst may bring a thousand trimmed packets of one QP before its NACKs can leave. Every one of them must be told, with the
//! EV that it echoes: a requester that hears nothing infers a loss and retires a healthy path. What waits is bounded by the
//! packets that a driver hands over between two turns to send, not by the number of QPs; so the room is shared.

use super::Answer;
use crate::image::Sequence;

/// A refusal that waits for its turn. Lent by the caller as a slice; opaque.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    answer: Answer,
    next: u32,
}

impl Refusal {
    /// An unused one.
    pub const EMPTY: Self = Self { answer: Answer::NONE, next: NIL };
}

const NIL: u32 = u32::MAX;

/// The refusals of one QP in the pool, oldest first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefusalList {
    first: u32,
    last: u32,
}

impl RefusalList {
    pub(crate) const EMPTY: Self = Self { first: NIL, last: NIL };

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.first == NIL
    }
}

/// The pool.
#[derive(Debug)]
pub(crate) struct Refusals<'s> {
    slots: &'s mut [Refusal],
    free: u32,
}

impl<'s> Refusals<'s> {
    pub(crate) fn new(slots: &'s mut [Refusal]) -> Self {
        let mut free = NIL;
        for (at, slot) in (0..NIL).zip(slots.iter_mut()) {
            *slot = Refusal { next: free, ..Refusal::EMPTY };
            free = at;
        }
        Self { slots, free }
    }

    /// Appends `answer` to `list`; false when the pool is full.
    pub(crate) fn push(&mut self, list: &mut RefusalList, answer: Answer) -> bool {
        let at = self.free;
        let Some(slot) = self.slots.get_mut(at as usize) else { return false };
        self.free = core::mem::replace(slot, Refusal { answer, next: NIL }).next;
        match self.slots.get_mut(list.last as usize) {
            Some(last) if !list.is_empty() => last.next = at,
            _ => list.first = at,
        }
        list.last = at;
        true
    }

    /// Takes the oldest of `list`.
    pub(crate) fn pop(&mut self, list: &mut RefusalList) -> Option<Answer> {
        let at = list.first;
        let slot = self.slots.get_mut(at as usize)?;
        let taken = core::mem::replace(slot, Refusal { next: self.free, ..Refusal::EMPTY });
        self.free = at;
        list.first = taken.next;
        Some(taken.answer)
    }

    /// Forgets all of `list`. The pool takes it back as one piece, whatever its length.
    pub(crate) fn release(&mut self, list: &mut RefusalList) {
        if !list.is_empty()
            && let Some(last) = self.slots.get_mut(list.last as usize)
        {
            last.next = self.free;
            self.free = list.first;
        }
        *list = RefusalList::EMPTY;
    }
}

/// The refusals of one QP with their pool, for images.
pub(crate) struct Listed<'a, 's>(pub(crate) &'a mut Refusals<'s>, pub(crate) &'a mut RefusalList);

impl Sequence for Listed<'_, '_> {
    type Item = Answer;

    fn first(&self) -> Option<u32> {
        if self.1.is_empty() { None } else { Some(self.1.first) }
    }

    fn at(&mut self, place: u32) -> Option<(Answer, Option<u32>)> {
        let Refusal { answer, next } = *self.0.slots.get(place as usize)?;
        Some((answer, if next == NIL { None } else { Some(next) }))
    }

    fn append(&mut self, answer: Answer) -> bool {
        self.0.push(self.1, answer)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::AnswerKind, *};
    use mrc_wire::{NackReason, Psn};

    fn refusal(psn: u32) -> Answer {
        Answer { psn: Psn::new(psn), ..Answer::of(AnswerKind::Nack(NackReason::Trimmed)) }
    }

    #[test]
    fn lists_share_the_pool_and_keep_their_order() {
        let mut slots = [Refusal::EMPTY; 4];
        let mut pool = Refusals::new(&mut slots);
        let (mut a, mut b) = (RefusalList::EMPTY, RefusalList::EMPTY);
        for round in 0..10 {
            for psn in [1, 2] {
                assert!(pool.push(&mut a, refusal(psn)), "round {round}");
                assert!(pool.push(&mut b, refusal(10 * psn)), "round {round}");
            }
            assert!(!pool.push(&mut a, refusal(3)), "four places");
            let mut psn = |list: &mut RefusalList| pool.pop(list).map(|answer| answer.psn.value());
            assert_eq!([psn(&mut a), psn(&mut a), psn(&mut a)], [Some(1), Some(2), None]);
            assert_eq!(psn(&mut b), Some(10));
            pool.release(&mut b);
            assert!(a.is_empty() && b.is_empty());
        }
    }

    /// An image holds the refusals that wait, in their order, and the pool of the new endpoint has them again.
    #[test]
    fn an_image_holds_what_waits_in_its_order() {
        let (mut slots, mut others) = ([Refusal::EMPTY; 4], [Refusal::EMPTY; 3]);
        let (mut pool, mut copy) = (Refusals::new(&mut slots), Refusals::new(&mut others));
        let (mut list, mut copied) = (RefusalList::EMPTY, RefusalList::EMPTY);
        assert_eq!(Listed(&mut pool, &mut list).first(), None);
        for psn in [5, 7, 6] {
            assert!(pool.push(&mut list, refusal(psn)));
        }
        let mut from = Listed(&mut pool, &mut list);
        let mut place = from.first();
        while let Some(at) = place {
            let (answer, next) = from.at(at).unwrap();
            assert!(Listed(&mut copy, &mut copied).append(answer));
            place = next;
        }
        assert!(!Listed(&mut copy, &mut copied).append(refusal(8)), "three places");
        let psns = [5, 7, 6].map(|_| copy.pop(&mut copied).map(|answer| answer.psn.value()));
        assert_eq!(psns, [Some(5), Some(7), Some(6)]);
        assert!(copied.is_empty());
    }

    #[test]
    fn a_pool_without_places_takes_nothing() {
        let mut pool = Refusals::new(&mut []);
        let mut list = RefusalList::EMPTY;
        assert!(!pool.push(&mut list, refusal(1)) && pool.pop(&mut list).is_none());
        pool.release(&mut list);
    }
}
