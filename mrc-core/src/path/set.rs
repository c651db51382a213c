//! The paths of one QP: [`PathSet`] builds the view of the policy in force and hands each call on to it.

use mrc_wire::{Ev, PortNum};

use super::{
    Choice, EvCounts, EvEntry, EvIndex, EvSlot, EvState, Feedback, PathConfig, PathError, PathSelector, Selector,
    Supply, Transition,
    fixed::{Oblivious, Pinned},
    policy::Policy,
    rotation::{Drawn, Rotation},
    slot::{choice, scan},
    spray::Spray,
    state::Order,
};
#[cfg(feature = "flowing-jumping")]
use super::{PathLoad, research};
use crate::{port::PortMask, rng::Rng, time::Instant};

/// Scalars of one QP's paths; the tables are lent with every call.
///
/// No call allocates or panics, whatever the slices: with other slices than those of `start` the answers are useless
/// and nothing worse. `select`, `next_timeout` and a `poll_probe` with nothing due are O(1), amortised over the packets
/// of a rotation; a change of state is O(slots).
#[derive(Clone, Debug)]
#[repr(C)]
pub struct PathSet {
    // Last it has what every packet touches, and the kind of policy comes next.
    pub(super) rotation: Rotation,
    policy: Policy,
}

impl PathSet {
    /// A set without EVs, which selects nothing until [`start`](Self::start).
    pub const EMPTY: Self = Self { policy: Policy::Spray, rotation: Rotation::EMPTY };

    /// Where what every packet touches begins and ends, in bytes.
    #[cfg(test)]
    pub(crate) const HOT: core::ops::Range<usize> = Rotation::HOT..core::mem::offset_of!(Self, policy) + 1;

    /// The policy in force.
    pub fn selector(&self) -> Selector {
        match &self.policy {
            Policy::Spray => Selector::Spray,
            Policy::Oblivious => Selector::Oblivious,
            Policy::Pinned(index) => Selector::Pinned(*index),
            Policy::Research(research) => research.selector(),
        }
    }

    /// Whether the policy keeps to one path at a time and chose it itself.
    #[inline]
    pub const fn is_single_path(&self) -> bool {
        matches!(&self.policy, Policy::Research(research) if research.is_single_path())
    }

    /// Whether [`Feedback::Rtt`] is worth the call.
    #[inline]
    pub const fn wants_rtt(&self) -> bool {
        matches!(&self.policy, Policy::Research(research) if research.wants_rtt())
    }

    /// Whether [`Feedback::Telemetry`] is worth the call.
    pub const fn wants_telemetry(&self) -> bool {
        matches!(&self.policy, Policy::Research(research) if research.wants_telemetry())
    }

    /// The table of [`Selector::FlowingJumping`], which keeps a load for each path; nothing of other selectors.
    #[cfg(feature = "flowing-jumping")]
    pub fn loads<'a>(&'a self, slots: &'a [EvSlot]) -> impl Iterator<Item = PathLoad> + 'a {
        let state = match &self.policy {
            Policy::Research(research::Research::FlowingJumping(state)) => Some(state),
            _ => None,
        };
        state.into_iter().flat_map(|state| state.table(slots))
    }

    /// Whether the last feedback left a probe to be taken with [`poll_probe`](Self::poll_probe) now.
    #[inline]
    pub fn wants_probe(&self) -> bool {
        matches!(&self.policy, Policy::Research(research) if research.wants_probe())
    }

    /// Starts or restarts the paths of a QP: fills `slots` and `order` from the profile, at random and equally over the
    /// planes. `slots.len()` bounds the universe, `order.len()` the active set.
    ///
    /// `ports` are those that lead to the peer at all. A port that is merely down right now belongs in it: leave it out
    /// of `select` instead, or its plane stays unused when it returns. Denied entries fill what is left of `slots`, so
    /// that the controller can allow them later.
    ///
    /// # Errors
    /// [`PathError::NoUsableEv`], [`PathError::StorageTooSmall`], [`PathError::PinnedEv`], [`PathError::Knob`]; the set is then empty.
    ///
    /// # Source
    /// `paths.md` 5.
    #[expect(clippy::too_many_arguments, reason = "the tables of a QP are lent separately")]
    pub fn start(
        &mut self,
        slots: &mut [EvSlot],
        order: &mut [u16],
        entries: &[EvEntry],
        cfg: &PathConfig,
        selector: Selector,
        ports: PortMask,
        rng: &mut Rng,
    ) -> Result<(), PathError> {
        self.start_with(slots, order, (entries, &Supply::of(entries)), cfg, selector, ports, rng)
    }

    /// As [`start`](Self::start), where the supply of the entries is known.
    #[expect(clippy::too_many_arguments, reason = "the tables of a QP are lent separately")]
    pub(crate) fn start_with(
        &mut self,
        slots: &mut [EvSlot],
        order: &mut [u16],
        (entries, supply): (&[EvEntry], &Supply),
        cfg: &PathConfig,
        selector: Selector,
        ports: PortMask,
        rng: &mut Rng,
    ) -> Result<(), PathError> {
        if let Err(refused) = selector.check() {
            *self = Self::EMPTY;
            return Err(refused);
        }
        let first;
        (self.policy, first) = Policy::new(selector);
        if let Selector::Pinned(index) = selector {
            return self.rotation.start_pinned(slots, order, entries, index, ports);
        }
        self.rotation.start(slots, order, (entries, supply), cfg, ports, rng)?;
        self.begin(slots, first)
    }

    /// As [`start`](Self::start) with the EVs that the last QP with these tables drew, if they would do: `drawn` is what
    /// [`draw_of`](Self::draw_of) said of them, for the same entries, configuration and ports.
    pub(crate) fn start_again(
        &mut self,
        drawn: Drawn,
        slots: &mut [EvSlot],
        cfg: &PathConfig,
        selector: Selector,
    ) -> Option<Result<(), PathError>> {
        if selector.check().is_err() || matches!(selector, Selector::Pinned(_)) {
            return None;
        }
        let first;
        (self.policy, first) = Policy::new(selector);
        self.rotation.start_again(drawn, slots, cfg).then(|| self.begin(slots, first))
    }

    /// What the EVs are that [`start`](Self::start) drew, for [`start_again`](Self::start_again).
    pub(crate) fn draw_of(&self) -> Option<Drawn> {
        if matches!(self.policy, Policy::Pinned(_)) { None } else { self.rotation.drawn() }
    }

    /// A policy that keeps to one path begins with the one that it was given.
    fn begin(&mut self, slots: &[EvSlot], first: EvIndex) -> Result<(), PathError> {
        //= HOP-015, FLB-006
        if first == EvIndex::NONE {
            return Ok(());
        }
        let Some(slot) = self.rotation.slot_of(slots, first) else {
            *self = Self::EMPTY;
            return Err(PathError::PinnedEv(first));
        };
        if let Policy::Research(research) = &mut self.policy {
            research.begin(slot);
        }
        Ok(())
    }

    /// The path of the next packet, called once per packet when it is sent; `None` = nothing usable now.
    ///
    /// `ports`: free and usable (link up, allowed, peer's port up).
    ///
    /// # Source
    /// `paths.md` 8, `GetSendParams`.
    #[inline]
    pub fn select(
        &mut self,
        now: Instant,
        slots: &mut [EvSlot],
        order: &mut [u16],
        ports: PortMask,
        cfg: &PathConfig,
        rng: &mut Rng,
    ) -> Option<Choice> {
        self.choose(now, slots, order, ports, None, cfg, rng)
    }

    /// As [`select`](Self::select), but not on `avoid`, the EV that a NACK echoed, if there is another.
    #[expect(clippy::too_many_arguments, reason = "the tables of a QP are lent separately")]
    pub fn select_other(
        &mut self,
        now: Instant,
        slots: &mut [EvSlot],
        order: &mut [u16],
        ports: PortMask,
        avoid: Ev,
        cfg: &PathConfig,
        rng: &mut Rng,
    ) -> Option<Choice> {
        self.choose(now, slots, order, ports, Some(avoid), cfg, rng)
    }

    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the tables of a QP are lent separately")]
    fn choose(
        &mut self,
        now: Instant,
        slots: &mut [EvSlot],
        order: &mut [u16],
        ports: PortMask,
        avoid: Option<Ev>,
        cfg: &PathConfig,
        rng: &mut Rng,
    ) -> Option<Choice> {
        let index = match self.policy {
            Policy::Spray => Spray::new(&mut self.rotation, slots, order, cfg).select(now, ports, avoid, rng),
            _ => self.choose_otherwise(now, slots, order, ports, avoid, cfg, rng),
        }?;
        choice(slots, index)
    }

    /// The other policies: out of line, so that MRC's own stays short.
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "the tables of a QP are lent separately")]
    fn choose_otherwise(
        &mut self,
        now: Instant,
        slots: &mut [EvSlot],
        order: &mut [u16],
        ports: PortMask,
        avoid: Option<Ev>,
        cfg: &PathConfig,
        rng: &mut Rng,
    ) -> Option<EvIndex> {
        let rotation = &mut self.rotation;
        match &mut self.policy {
            Policy::Spray => None,
            Policy::Oblivious => Oblivious::new(rotation, slots, order).select(now, ports, avoid, rng),
            Policy::Pinned(_) => Pinned::new(rotation, slots).select(now, ports, avoid, rng),
            Policy::Research(research) => {
                research.select(Spray::new(rotation, slots, order, cfg), now, ports, avoid, rng)
            }
        }
    }

    /// The path that slot `index` stands for, whatever its state: for packets that test a given EV.
    #[inline]
    pub fn choice(&self, slots: &[EvSlot], index: EvIndex) -> Option<Choice> {
        choice(self.rotation.used(slots), index)
    }

    /// As [`choice`](Self::choice), but nothing for an EV that the controller has denied meanwhile: neither probes nor
    /// control packets use it.
    //= BAL-005
    pub(crate) fn probe_choice(&self, slots: &[EvSlot], index: EvIndex) -> Option<Choice> {
        self.choice(slots, index).filter(|_| slots.get(index.0 as usize).is_some_and(|s| s.state() != EvState::Denied))
    }

    /// The slot whose value on the wire is `ev`. `hint`, the slot the packet was sent with, decides between equal values
    /// on two planes and saves the scan.
    #[inline]
    pub fn find(&self, slots: &[EvSlot], hint: Option<EvIndex>, ev: Ev) -> Option<EvIndex> {
        let used = self.rotation.used(slots);
        match hint.and_then(|hint| used.get(hint.0 as usize)) {
            Some(slot) if slot.ev() == ev => hint,
            //= EV-018
            _ => scan(used, ev),
        }
    }

    /// Applies feedback to an EV, in rotation or not, and returns the change of state it caused.
    ///
    /// # Source
    /// `paths.md` 6 and 7.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the tables of a QP are lent separately")]
    pub fn on_feedback(
        &mut self,
        now: Instant,
        slots: &mut [EvSlot],
        order: &mut [u16],
        index: EvIndex,
        what: Feedback,
        cfg: &PathConfig,
        rng: &mut Rng,
    ) -> Option<Transition> {
        match self.policy {
            Policy::Spray => Spray::new(&mut self.rotation, slots, order, cfg).on_feedback(now, index, what, rng),
            _ => self.learn_otherwise(now, slots, order, index, what, cfg, rng),
        }
    }

    /// As [`Self::choose_otherwise`].
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "the tables of a QP are lent separately")]
    fn learn_otherwise(
        &mut self,
        now: Instant,
        slots: &mut [EvSlot],
        order: &mut [u16],
        index: EvIndex,
        what: Feedback,
        cfg: &PathConfig,
        rng: &mut Rng,
    ) -> Option<Transition> {
        let rotation = &mut self.rotation;
        match &mut self.policy {
            Policy::Spray => None,
            Policy::Oblivious => Oblivious::new(rotation, slots, order).on_feedback(now, index, what, rng),
            Policy::Pinned(_) => Pinned::new(rotation, slots).on_feedback(now, index, what, rng),
            Policy::Research(research) => {
                research.on_feedback(Spray::new(rotation, slots, order, cfg), now, index, what, rng)
            }
        }
    }

    /// The controller denies an EV: it leaves the rotation at once, whatever `ev_min_active` says.
    ///
    /// # Errors
    /// [`PathError::UnknownEv`].
    pub fn set_denied(
        &mut self,
        slots: &mut [EvSlot],
        order: &mut [u16],
        index: EvIndex,
        rng: &mut Rng,
    ) -> Result<Option<Transition>, PathError> {
        self.rotation.command(slots, order, index, Order::Denied, rng)
    }

    /// The controller declares an EV good: it rejoins the rotation if its plane has room, else the reserve.
    ///
    /// # Errors
    /// [`PathError::UnknownEv`].
    pub fn set_good(
        &mut self,
        slots: &mut [EvSlot],
        order: &mut [u16],
        index: EvIndex,
        rng: &mut Rng,
    ) -> Result<Option<Transition>, PathError> {
        self.rotation.command(slots, order, index, Order::Good, rng)
    }

    /// Ports over which the peer can be reached now, whether busy or free. Only the last resort asks: healthy EVs on
    /// ports that are down do not stop it, those on ports that are busy do. All ports until told.
    pub fn set_usable_ports(&mut self, ports: PortMask) {
        self.rotation.set_usable(ports);
    }

    /// The QP has data again: probes of bad EVs, rare while it was idle, come at their full rate. O(1); what it means is
    /// found by the next [`poll_probe`](Self::poll_probe), for which [`next_timeout`](Self::next_timeout) now asks. Whether that time
    /// may be sooner than it was.
    pub fn on_busy(&mut self) -> bool {
        if let Policy::Research(research) = &mut self.policy {
            research.on_busy();
        }
        let sooner = self.rotation.on_busy();
        sooner || !matches!(self.policy, Policy::Spray | Policy::Oblivious | Policy::Pinned(_))
    }

    /// Whether some plane is too far ahead ([`PathConfig::plane_lead`]).
    #[inline]
    pub(crate) fn is_ahead(&self) -> bool {
        !self.rotation.balance.full().is_empty()
    }

    /// Whether a [`select`](Self::select) for a new packet would find room only on planes that are too far ahead; `towards` lead
    /// to the peer, and those of them in `room` have room.
    #[inline]
    pub(crate) fn leaves_to_others(&self, room: PortMask, towards: PortMask) -> bool {
        let in_use = self.rotation.active_ports().and(towards);
        self.rotation.balance.leaves(room.and(in_use), in_use)
    }

    /// Whether a [`select`](Self::select) since the last call found room only on planes that are too far ahead
    /// ([`PathConfig::plane_lead`]).
    #[inline]
    pub(crate) fn take_yielded(&mut self) -> bool {
        self.rotation.balance.take_yielded()
    }

    /// The next packet may take any plane, however far ahead.
    pub(crate) fn waive_lead(&mut self) {
        self.rotation.balance.waive();
    }

    /// Ports over which the peer can be reached, as told last.
    pub fn usable_ports(&self) -> PortMask {
        self.rotation.usable()
    }

    /// The next EV to probe through one of `ports`: a path of which the selector wants to know, else the next bad EV
    /// whose probe is due; it counts as under way until [`Feedback::ProbeAnswer`] or [`Feedback::ProbeLost`] comes for it.
    /// A probe of a bad EV of which nothing is heard (it was never sent) is offered again after 16 probe intervals.
    ///
    /// Call until `None`. `idle`: the QP has no data under way; probes then come at 1/8 of their rate.
    ///
    /// # Source
    /// `paths.md` 10.
    pub fn poll_probe(
        &mut self,
        now: Instant,
        slots: &mut [EvSlot],
        ports: PortMask,
        cfg: &PathConfig,
        idle: bool,
    ) -> Option<Choice> {
        let rotation = &mut self.rotation;
        let index = match &mut self.policy {
            Policy::Spray => Spray::new(rotation, slots, &mut [], cfg).poll_probe(now, ports, idle),
            Policy::Oblivious => Oblivious::new(rotation, slots, &mut []).poll_probe(now, ports, idle),
            Policy::Pinned(_) => Pinned::new(rotation, slots).poll_probe(now, ports, idle),
            Policy::Research(research) => {
                research.poll_probe(Spray::new(rotation, slots, &mut [], cfg), now, ports, idle)
            }
        }?;
        self.choice(slots, index)
    }

    /// The earliest time at which [`poll_probe`](Self::poll_probe), or a `select` refused by the pace of the last
    /// resort or by the pause before a switch, may have work. May be early; [`Instant::FAR`] if there is none. O(1).
    #[inline]
    pub fn next_timeout(&self) -> Instant {
        match &self.policy {
            Policy::Spray => self.rotation.next_timeout(),
            Policy::Oblivious | Policy::Pinned(_) => Instant::FAR,
            Policy::Research(research) => research.next_timeout(&self.rotation),
        }
    }

    /// As [`next_timeout`](Self::next_timeout), as far as a [`select`](Self::select) can have brought it forward that found a
    /// path.
    #[inline(always)]
    pub(crate) fn next_of_choice(&self) -> Instant {
        if matches!(self.policy, Policy::Spray) { Instant::FAR } else { self.next_timeout() }
    }

    /// A random EV on `port`, healthy if there is one, bad otherwise, never denied: for a probe that tests the port. O(slots).
    pub(crate) fn any_on(&self, slots: &[EvSlot], port: PortNum, rng: &mut Rng) -> Option<EvIndex> {
        let slots = self.used(slots);
        let healthy = random_place(slots, rng, |slot| slot.port() == port && slot.is_healthy());
        healthy.or_else(|| self.any_of(slots, PortMask::NONE.with(port), rng).map(|ev| ev.0)).map(EvIndex)
    }

    /// A random EV on one of `ports`, healthy or bad, never denied: for a probe that asks whether the peer lives. O(slots).
    pub(crate) fn any_of(&self, slots: &[EvSlot], ports: PortMask, rng: &mut Rng) -> Option<EvIndex> {
        let allowed = |slot: &EvSlot| ports.contains(slot.port()) && slot.state() != EvState::Denied;
        random_place(self.used(slots), rng, allowed).map(EvIndex)
    }

    /// The slots in use.
    pub(crate) fn used<'a>(&self, slots: &'a [EvSlot]) -> &'a [EvSlot] {
        self.rotation.used(slots)
    }

    /// The slot that holds entry `entry` of the QP's profile.
    pub(crate) fn find_entry(&self, slots: &[EvSlot], entry: u16) -> Option<EvIndex> {
        let at = self.used(slots).iter().position(|slot| slot.entry() == entry)?;
        u16::try_from(at).ok().map(EvIndex)
    }

    /// Skips that choices ended since the last call: changes without a [`Transition`].
    #[inline(always)]
    pub(crate) fn take_ended_skips(&mut self) -> u32 {
        core::mem::take(&mut self.rotation.ended_skips).into()
    }

    /// How many EVs are in which state.
    pub fn counts(&self) -> EvCounts {
        self.rotation.counts()
    }

    /// Number of slots in use, from the first.
    pub fn universe(&self) -> usize {
        self.rotation.universe()
    }

    /// Words of `order` in use, from the first.
    pub(crate) const fn active_len(&self) -> usize {
        self.rotation.active_len()
    }
}

/// Where the first of `all` that is `wanted` lies at or after a random place. O(`all`).
pub(super) fn random_place<T>(all: &[T], rng: &mut Rng, wanted: impl Fn(&T) -> bool) -> Option<u16> {
    let len = all.len().min(usize::from(u16::MAX));
    let start = rng.below(len as u32) as usize;
    let mut places = (start..len).chain(0..start);
    places.find(|&at| all.get(at).is_some_and(&wanted)).map(|at| at as u16)
}

crate::image::stored!(struct PathSet { policy, rotation } where |paths| paths.selector().check().is_ok());
