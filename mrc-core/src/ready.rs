//! Ready lists: which QPs have something to send, which controllers have their turn. Intrusive and doubly linked, first
//! in first out, so that finding, adding and taking out are O(1) whatever the number of members.

use crate::image::Sequence;

/// Lists a QP can be on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum List {
    /// Owes SACKs, NACKs or ACKs.
    Control,
    /// Has a probe or a repeated tail to send, which no congestion window holds back.
    Urgent,
    /// Has packets to send again; of its congestion controller.
    Retransmit,
    /// Has new packets; of its congestion controller.
    Fresh,
    /// Has completions that found their queue full.
    Completions,
}

/// The place of one member on one list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    previous: u32,
    next: u32,
    queued: bool,
}

impl Link {
    pub(crate) const NONE: Self = Self { previous: NIL, next: NIL, queued: false };

    pub(crate) const fn is_queued(&self) -> bool {
        self.queued
    }
}

/// The places of one QP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    control: Link,
    urgent: Link,
    retransmit: Link,
    fresh: Link,
    completions: Link,
}

impl Links {
    pub(crate) const NONE: Self = Self {
        control: Link::NONE,
        urgent: Link::NONE,
        retransmit: Link::NONE,
        fresh: Link::NONE,
        completions: Link::NONE,
    };

    pub(crate) fn get(&mut self, list: List) -> &mut Link {
        match list {
            List::Control => &mut self.control,
            List::Urgent => &mut self.urgent,
            List::Retransmit => &mut self.retransmit,
            List::Fresh => &mut self.fresh,
            List::Completions => &mut self.completions,
        }
    }
}

/// A member of lists, stored in a slice; lists name it by its index.
pub(crate) trait Member {
    /// Its place on `list`.
    fn link(&mut self, list: List) -> &mut Link;
}

const NIL: u32 = u32::MAX;

/// Head and tail of one list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    list: List,
    head: u32,
    tail: u32,
}

impl Ready {
    pub(crate) const fn new(list: List) -> Self {
        Self { list, head: NIL, tail: NIL }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// Appends `member` unless it is on the list already.
    #[inline]
    pub(crate) fn push<M: Member>(&mut self, members: &mut [M], member: u32) {
        let Some(slot) = members.get_mut(member as usize) else { return };
        let link = slot.link(self.list);
        if link.queued {
            return;
        }
        *link = Link { previous: self.tail, next: NIL, queued: true };
        match members.get_mut(self.tail as usize) {
            Some(last) => last.link(self.list).next = member,
            None => self.head = member,
        }
        self.tail = member;
    }

    /// Whose turn it is.
    #[inline]
    pub(crate) fn front(&self) -> Option<u32> {
        if self.head == NIL { None } else { Some(self.head) }
    }

    /// Who stands behind `member`.
    pub(crate) fn behind<M: Member>(&self, members: &mut [M], member: u32) -> Option<u32> {
        let next = members.get_mut(member as usize)?.link(self.list).next;
        if next == NIL { None } else { Some(next) }
    }

    /// Whether nobody but `member` is on the list.
    #[inline]
    pub(crate) fn holds_at_most(&self, member: u32) -> bool {
        self.head == NIL || (self.head == member && self.tail == member)
    }

    /// Takes `member` off, wherever it stands; the others keep their order.
    #[inline]
    pub(crate) fn remove<M: Member>(&mut self, members: &mut [M], member: u32) {
        if self.head == NIL {
            return;
        }
        let Some(slot) = members.get_mut(member as usize).map(|slot| slot.link(self.list)) else { return };
        if !slot.queued {
            return;
        }
        let link = core::mem::replace(slot, Link::NONE);
        match members.get_mut(link.previous as usize) {
            Some(previous) => previous.link(self.list).next = link.next,
            None => self.head = link.next,
        }
        match members.get_mut(link.next as usize) {
            Some(next) => next.link(self.list).previous = link.previous,
            None => self.tail = link.previous,
        }
    }

    /// Takes off the first member that `wanted` accepts; the others keep their order.
    pub(crate) fn take<M: Member>(&mut self, members: &mut [M], wanted: impl Fn(&M) -> bool) -> Option<u32> {
        let mut at = self.head;
        while let Some(slot) = members.get_mut(at as usize) {
            if wanted(slot) {
                self.remove(members, at);
                return Some(at);
            }
            at = slot.link(self.list).next;
        }
        None
    }

    /// After a turn of `member`: to the end when it has more, else off the list.
    #[inline]
    pub(crate) fn after_turn<M: Member>(&mut self, members: &mut [M], member: u32, more: bool) {
        // The only member keeps its place either way.
        if more && self.head == member && self.tail == member {
            return;
        }
        self.remove(members, member);
        if more {
            self.push(members, member);
        }
    }
}

/// A list with its members, for images.
pub(crate) struct Listed<'a, M>(pub(crate) &'a mut Ready, pub(crate) &'a mut [M]);

impl<M: Member> Sequence for Listed<'_, M> {
    type Item = u32;

    fn first(&self) -> Option<u32> {
        self.0.front()
    }

    fn at(&mut self, place: u32) -> Option<(u32, Option<u32>)> {
        Some((place, self.0.behind(self.1, place)))
    }

    fn append(&mut self, member: u32) -> bool {
        let new = self.1.get_mut(member as usize).is_some_and(|slot| !slot.link(self.0.list).queued);
        self.0.push(self.1, member);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use std::{collections::VecDeque, vec::Vec};

    struct Place(Link);

    impl Member for Place {
        fn link(&mut self, _: List) -> &mut Link {
            &mut self.0
        }
    }

    /// Against a naive queue: every operation, in random order.
    #[test]
    fn behaves_like_a_queue_without_duplicates() {
        let mut members: Vec<Place> = (0..8).map(|_| Place(Link::NONE)).collect();
        let mut list = Ready::new(List::Control);
        let mut model = VecDeque::new();
        let mut rng = Rng::new(7);
        for step in 0..20_000 {
            let member = rng.below(8);
            match rng.below(4) {
                0 => {
                    list.push(&mut members, member);
                    if !model.contains(&member) {
                        model.push_back(member);
                    }
                }
                1 => {
                    list.remove(&mut members, member);
                    model.retain(|&m| m != member);
                }
                2 => {
                    let more = rng.below(2) == 0;
                    if let Some(front) = list.front() {
                        list.after_turn(&mut members, front, more);
                        model.pop_front();
                        if more {
                            model.push_back(front);
                        }
                    }
                }
                _ => {
                    // "Wanted" cannot see the index, so it sees whether the member has a successor.
                    let taken = list.take(&mut members, |place| place.0.next != NIL);
                    let want = if model.len() > 1 { model.pop_front() } else { None };
                    assert_eq!(taken, want, "step {step}");
                }
            }
            assert_eq!(list.front(), model.front().copied(), "step {step}");
            assert_eq!(list.is_empty(), model.is_empty());
        }
        let mut rest = VecDeque::new();
        while let Some(front) = list.front() {
            rest.push_back(front);
            list.remove(&mut members, front);
        }
        assert_eq!(rest, model);
    }
}
