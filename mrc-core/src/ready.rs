//! Ready lists: which QPs have something to send, which controllers have their turn. Intrusive and doubly linked, first
//! in first out, so that finding, adding and taking out are O(1) whatever the number of members.
//!
//! Where turns are of bytes, a member that was idle stands before those that had turns ([`Ready::join`]). It is a newcomer once:
//! after its turn it stands at the end, or leaves and is a newcomer again when each of those it leaves behind had a turn.
//!
//! ```text
//!  newcomers                others
//!  a - b - c(newest)  -  d - e - f(tail)
//! ```

use crate::Prefetch;
use crate::cc::Credit;
use crate::image::{Reader, Sequence, Stored, Writer};

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
    NewData,
    /// Has completions that found their queue full.
    Completions,
}

/// The place of one member on one list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    previous: u32,
    /// While it is off the list: with which turn of the list ([`Ready::turns`]) it may be a newcomer.
    next: u32,
    queued: bool,
    newcomer: bool,
}

impl Link {
    pub(crate) const NONE: Self = Self { previous: NIL, next: 0, queued: false, newcomer: false };

    #[inline]
    pub(crate) fn fetch(&self, memory: &impl Prefetch) {
        memory.prefetch(&self.next);
    }

    pub(crate) const fn is_queued(&self) -> bool {
        self.queued
    }

    /// Who stands behind it.
    pub(crate) const fn behind(&self) -> Option<u32> {
        if self.queued && self.next != NIL { Some(self.next) } else { None }
    }
}

/// The places of one QP, in a line of memory.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Links {
    control: Link,
    urgent: Link,
    retransmit: Link,
    new_data: Link,
    completions: Link,
    /// A QP that some turns behind has data to send, as far as is known: only for reading ahead.
    pub(crate) ahead: u16,
}

impl Links {
    pub(crate) const NONE: Self = Self {
        control: Link::NONE,
        urgent: Link::NONE,
        retransmit: Link::NONE,
        new_data: Link::NONE,
        completions: Link::NONE,
        ahead: 0,
    };

    #[inline]
    pub(crate) fn fetch(&self, memory: &impl Prefetch) {
        self.control.fetch(memory);
        self.new_data.fetch(memory);
    }

    pub(crate) fn get(&mut self, list: List) -> &mut Link {
        match list {
            List::Control => &mut self.control,
            List::Urgent => &mut self.urgent,
            List::Retransmit => &mut self.retransmit,
            List::NewData => &mut self.new_data,
            List::Completions => &mut self.completions,
        }
    }
}

/// A member of lists, stored in a slice; lists name it by its index.
pub(crate) trait Member {
    /// Its place on `list`.
    fn link(&mut self, list: List) -> &mut Link;

    /// What it may still send in its turn.
    fn credit(&mut self) -> &mut Credit;
}

const NIL: u32 = u32::MAX;

/// One list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    list: List,
    head: u32,
    tail: u32,
    /// The last of the newcomers.
    newest: u32,
    /// Members.
    len: u32,
    /// Turns of members that were no newcomers.
    turns: u32,
}

impl Ready {
    pub(crate) const fn new(list: List) -> Self {
        Self { list, head: NIL, tail: NIL, newest: NIL, len: 0, turns: 0 }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// Members.
    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    /// Appends `member` unless it is on the list already.
    #[inline(always)]
    pub(crate) fn push<M: Member>(&mut self, members: &mut [M], member: u32) {
        let Some(slot) = members.get_mut(member as usize) else { return };
        let link = slot.link(self.list);
        if link.queued {
            return;
        }
        *link = Link { previous: self.tail, next: NIL, queued: true, newcomer: false };
        match members.get_mut(self.tail as usize) {
            Some(last) => last.link(self.list).next = member,
            None => self.head = member,
        }
        self.tail = member;
        self.len = self.len.wrapping_add(1);
    }

    /// Puts `member`, unless it is on the list already, where it belongs: before those that had turns if it is a newcomer, else at
    /// the end. Nobody is one where a turn is a packet (no `turn_bytes`).
    //= SCHED-001
    #[inline]
    pub(crate) fn join<M: Member>(&mut self, members: &mut [M], member: u32, turn_bytes: u32) {
        let Some(&mut link) = members.get_mut(member as usize).map(|slot| slot.link(self.list)) else { return };
        if link.queued {
            return;
        }
        if self.head == self.tail {
            self.count(members, self.head, 0, turn_bytes);
        }
        if turn_bytes > 0 && self.turns.wrapping_sub(link.next) as i32 >= 0 {
            self.push_newcomer(members, member);
        } else {
            self.push(members, member);
        }
    }

    /// Puts `member`, which is not on the list, behind the newcomers.
    #[inline(never)]
    fn push_newcomer<M: Member>(&mut self, members: &mut [M], member: u32) {
        let previous = core::mem::replace(&mut self.newest, member);
        let next = match members.get_mut(previous as usize) {
            Some(slot) => core::mem::replace(&mut slot.link(self.list).next, member),
            None => core::mem::replace(&mut self.head, member),
        };
        match members.get_mut(next as usize) {
            Some(slot) => slot.link(self.list).previous = member,
            None => self.tail = member,
        }
        if let Some(slot) = members.get_mut(member as usize) {
            *slot.link(self.list) = Link { previous, next, queued: true, newcomer: true };
        }
        self.len = self.len.wrapping_add(1);
    }

    /// Whose turn it is.
    #[inline]
    pub(crate) fn front(&self) -> Option<u32> {
        if self.head == NIL { None } else { Some(self.head) }
    }

    /// Whose turn is last.
    #[inline]
    pub(crate) fn back(&self) -> u32 {
        self.tail
    }

    /// Who stands behind `member`.
    pub(crate) fn behind<M: Member>(&self, members: &mut [M], member: u32) -> Option<u32> {
        members.get_mut(member as usize)?.link(self.list).behind()
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
        self.len = self.len.wrapping_sub(1);
        let link = core::mem::replace(slot, Link { next: self.turns.wrapping_add(self.len), ..Link::NONE });
        if self.newest == member {
            self.newest = link.previous;
        }
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

    /// As [`Ready::after_turn`], of turns of bytes.
    #[inline]
    pub(crate) fn after_turn_of<M: Member>(&mut self, members: &mut [M], member: u32, more: bool, turn_bytes: u32) {
        if turn_bytes > 0 {
            self.count(members, member, 1, turn_bytes);
        }
        self.after_turn(members, member, more);
    }

    /// `member` had so many turns, and those that it had alone: then it is no newcomer any more.
    fn count<M: Member>(&mut self, members: &mut [M], member: u32, turns: u32, turn_bytes: u32) {
        let Some(slot) = members.get_mut(member as usize) else { return };
        let turns = slot.credit().take_turns(turn_bytes).wrapping_add(turns);
        let link = slot.link(self.list);
        if turns == 0 || !link.queued {
            return;
        }
        self.turns = self.turns.wrapping_add(turns);
        if core::mem::take(&mut link.newcomer) {
            self.turns = self.turns.wrapping_sub(1);
            if self.newest == member {
                self.newest = link.previous;
            }
        }
    }

    /// What an image holds of the list beside its members.
    pub(crate) fn turns_mut(&mut self) -> &mut u32 {
        &mut self.turns
    }
}

/// A list with its members, for images.
pub(crate) struct Listed<'a, M>(pub(crate) &'a mut Ready, pub(crate) &'a mut [M]);

impl<M: Member> Sequence for Listed<'_, M> {
    /// The member, and whether it is a newcomer.
    type Item = (u32, bool);

    fn first(&self) -> Option<u32> {
        self.0.front()
    }

    fn at(&mut self, place: u32) -> Option<(Self::Item, Option<u32>)> {
        let newcomer = self.1.get_mut(place as usize)?.link(self.0.list).newcomer;
        Some(((place, newcomer), self.0.behind(self.1, place)))
    }

    fn append(&mut self, (member, newcomer): Self::Item) -> bool {
        let new = self.1.get_mut(member as usize).is_some_and(|slot| !slot.link(self.0.list).queued);
        // Newcomers stand before the others.
        if !newcomer {
            self.0.push(self.1, member);
            return new;
        }
        let fits = new && self.0.newest == self.0.tail;
        if fits {
            self.0.push_newcomer(self.1, member);
        }
        fits
    }
}

/// Neighbours and newcomers come with the lists: what is left is when a member that is on no list may be a newcomer.
impl Stored for Link {
    fn save(&self, to: &mut Writer<'_>) {
        if self.queued { 0 } else { self.next }.save(to);
    }

    fn load(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self { next: Stored::load(from)?, ..Self::NONE })
    }
}

crate::image::stored!(
    struct Links { new_data } rebuilt {
        control: Link::NONE, urgent: Link::NONE, retransmit: Link::NONE, completions: Link::NONE, ahead: 0,
    }
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use std::{collections::VecDeque, vec, vec::Vec};

    struct Place(Link, Credit);

    impl Member for Place {
        fn link(&mut self, _: List) -> &mut Link {
            &mut self.0
        }

        fn credit(&mut self) -> &mut Credit {
            &mut self.1
        }
    }

    /// Against two naive queues: members that rest, come back, and have turns, in random order.
    #[test]
    fn a_member_is_a_newcomer_again_when_all_it_left_behind_had_a_turn() {
        // The number of turns passes its end.
        let first = u32::MAX - 1_000;
        let mut members: Vec<Place> = (0..8).map(|_| Place(Link { next: first, ..Link::NONE }, Credit::NONE)).collect();
        let mut list = Ready { turns: first, ..Ready::new(List::NewData) };
        let (mut newcomers, mut others) = (VecDeque::new(), VecDeque::<u32>::new());
        let (mut turns, mut from) = (0u32, [0u32; 8]);
        let mut rng = Rng::new(9);
        for step in 0..20_000 {
            let member = rng.below(8);
            let at = member as usize;
            let listed = newcomers.contains(&member) || others.contains(&member);
            match rng.below(4) {
                0 => {
                    list.join(&mut members, member, 1);
                    match turns >= from[at] {
                        _ if listed => {}
                        true => newcomers.push_back(member),
                        false => others.push_back(member),
                    }
                }
                1 if listed => {
                    list.remove(&mut members, member);
                    newcomers.retain(|&m| m != member);
                    others.retain(|&m| m != member);
                    from[at] = turns + (newcomers.len() + others.len()) as u32;
                }
                _ => {
                    let more = rng.below(3) > 0;
                    if let Some(front) = list.front() {
                        list.after_turn_of(&mut members, front, more, 1);
                        if newcomers.pop_front().is_none() {
                            others.pop_front();
                            turns += 1;
                        }
                        if more {
                            others.push_back(front);
                        } else {
                            from[front as usize] = turns + (newcomers.len() + others.len()) as u32;
                        }
                    }
                }
            }
            assert_eq!(list.front(), newcomers.front().or(others.front()).copied(), "step {step}");
        }
        assert!(turns > 2_000, "{turns}");
        let mut listed = Listed(&mut list, &mut members);
        let (mut rest, mut place) = (vec![], listed.first());
        while let Some(at) = place {
            let (item, next) = listed.at(at).unwrap();
            rest.push(item);
            place = next;
        }
        let naive = newcomers.iter().map(|&m| (m, true)).chain(others.iter().map(|&m| (m, false)));
        assert_eq!(rest, naive.collect::<Vec<_>>());
    }

    /// Against a naive queue: every operation, in random order.
    #[test]
    fn behaves_like_a_queue_without_duplicates() {
        let mut members: Vec<Place> = (0..8).map(|_| Place(Link::NONE, Credit::NONE)).collect();
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
