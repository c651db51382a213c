//! Changes that concern every QP or every peer, carried to them a few at a time: ports that went up or down, a peer that can be reached
//! again, and commands to EVs. A call takes at most [`crate::EndpointConfig::call_budget`] steps; `handle_timeout` takes the others, and
//! `next_timeout` asks for it. What forbids something (a port that is down) holds for packets at once, without the walk.
//!
//! ```text
//!  set_port      -> ports_left = n --.
//!  peer's ports  -> wakes_left = n ---+-> steps: QP and peer `at`, then `at + 1` modulo n
//!  set_ev_state  -> command.left = n -'
//! ```

use super::{Endpoint, op_table::Fifo, part, profiles::EvSpec, profiles::profile};
use crate::{event::Event, image::Pass, num::Counter, path::EvEntry, qp::QpState, time::Instant};
use mrc_wire::PortNum;

/// Commands to EVs that may be under way at once.
const COMMANDS: usize = 8;
/// Index of no profile.
const NO_PROFILE: u32 = u32::MAX;

/// What a controller said of an EV.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    pub(super) profile: u32,
    /// The entry, or the first one that is meant.
    pub(super) entry: u16,
    /// Every entry from there on with this value is meant.
    pub(super) all: Option<EvSpec>,
    pub(super) denied: bool,
    /// Steps to go.
    left: u32,
}

impl Command {
    pub(super) const fn new(profile: u32, entry: u16, all: Option<EvSpec>, denied: bool) -> Self {
        Self { profile, entry, all, denied, left: 0 }
    }

    /// The port of the EVs that it allows again: entries of one value have one port.
    fn allows(&self, entries: &[EvEntry]) -> Option<PortNum> {
        entries.get(usize::from(self.entry)).filter(|_| !self.denied).map(|entry| entry.port)
    }
}

/// How far changes have come.
#[derive(Debug)]
pub(super) struct Walk {
    /// Index of the QP and of the peer whose turn is next.
    at: u32,
    /// Steps until every one knows which ports are up.
    ports_left: u32,
    /// Steps until every one is woken that had no port.
    wakes_left: u32,
    /// Oldest first, which are the first to end.
    commands: Fifo<Command, COMMANDS>,
}

impl Walk {
    pub(super) const fn new() -> Self {
        Self { at: 0, ports_left: 0, wakes_left: 0, commands: Fifo::new(Command::new(0, 0, None, false)) }
    }

    /// Writes how far they have come to an image, or replaces it; `round`: the steps of a whole one.
    pub(super) fn visit<P: Pass>(&mut self, io: &mut P, round: u32) -> Option<()> {
        let Self { at, ports_left, wakes_left, commands } = self;
        io.item(at)?;
        io.item(ports_left)?;
        io.item(wakes_left)?;
        commands.visit(io)?;
        let left = commands.ring.iter().take(commands.len).all(|command| command.left <= round);
        (*at < round && *ports_left.max(wakes_left) <= round && (left || !P::LOADS)).then_some(())
    }

    /// Whether there are steps to take.
    #[inline]
    pub(super) const fn is_open(&self) -> bool {
        self.ports_left > 0 || self.wakes_left > 0 || self.commands.len > 0
    }

    /// Whether one more command finds room.
    pub(super) fn takes_command(&self) -> bool {
        !self.commands.is_full()
    }

    /// Commands to EVs of a profile that no QP uses have no effect any more. They keep their places until their round ends.
    pub(super) fn forget_commands(&mut self, profile: u32) {
        for command in self.commands.ring.iter_mut().filter(|command| command.profile == profile) {
            command.profile = NO_PROFILE;
        }
    }
}

impl Endpoint<'_> {
    /// Steps of a whole round.
    pub(super) fn round(&self) -> u32 {
        self.qps.len().max(self.peers.len()) as u32
    }

    /// Ports went up or down.
    pub(super) fn walk_ports(&mut self, now: Instant) {
        self.walk.ports_left = self.round();
        self.walk(now);
    }

    /// A peer can be reached again: calls to come wake its QPs, whichever they are.
    pub(super) fn wake_all(&mut self) {
        self.walk.wakes_left = self.round();
    }

    /// A controller commands; the caller has asked [`Walk::takes_command`].
    pub(super) fn walk_command(&mut self, now: Instant, command: Command) {
        let left = self.round();
        self.walk.commands.push(Command { left, ..command });
        self.walk(now);
    }

    /// Takes as many steps as one call may.
    pub(super) fn walk(&mut self, now: Instant) {
        let mut left = self.cfg.call_budget;
        while left > 0 && self.walk.is_open() {
            left = left.saturating_sub(1);
            self.step(now);
        }
    }

    /// The QP and the peer whose turn it is hear of every change under way.
    fn step(&mut self, now: Instant) {
        let at = self.walk.at;
        self.walk.at = if at.wrapping_add(1) < self.round() { at.wrapping_add(1) } else { 0 };
        for nth in 0..self.walk.commands.len {
            let place = self.walk.commands.at(nth);
            let Some(command) = self.walk.commands.ring.get_mut(place) else { continue };
            command.left = command.left.saturating_sub(1);
            let command = *command;
            self.command_qp(now, at, &command);
            self.command_peer(at, &command);
        }
        while self.walk.commands.front().is_some_and(|command| command.left == 0) {
            self.walk.commands.pop();
        }
        if self.walk.ports_left > 0 {
            self.walk.ports_left.dec();
            let usable = self.usable_ports(at);
            if let Some(slot) = self.qps.get_mut(at as usize) {
                slot.paths.set_usable_ports(usable);
                if !usable.is_empty() {
                    slot.req.portless = Instant::FAR;
                }
            }
            self.announce_to(now, at);
        }
        self.walk.wakes_left = self.walk.wakes_left.saturating_sub(1);
        self.wake(now, at);
    }

    /// What a command means to a QP.
    //= EV-014, SET-003, DENY-001
    fn command_qp(&mut self, now: Instant, qp: u32, command: &Command) {
        let Some(slot) = self.qps.get_mut(qp as usize) else { return };
        if !slot.has_peer || slot.ev_profile != command.profile {
            return;
        }
        let entries = profile(self.ev_entries, &self.ev_profiles, &self.limits, command.profile).unwrap_or(&[]);
        slot.reverse.heed_denylist(entries, command.allows(entries), &mut self.rng);
        let Some(value) = command.all else { return self.command_entry(now, qp, command, command.entry) };
        for entry in command.entry..entries.len() as u16 {
            if self.entry_is(command.profile, entry, &value) {
                self.command_entry(now, qp, command, entry);
            }
        }
    }

    fn command_entry(&mut self, now: Instant, qp: u32, command: &Command, entry: u16) {
        let (Some(slots), Some(order)) =
            (part(self.ev_slots, qp, self.limits.evs), part(self.ev_order, qp, self.limits.active_evs))
        else {
            return;
        };
        let Some(slot) = self.qps.get_mut(qp as usize) else { return };
        let Some(index) = slot.paths.find_entry(slots, entry) else { return };
        let paths = &mut slot.paths;
        let change = if command.denied {
            paths.set_denied(slots, order, index, &mut self.rng)
        } else {
            paths.set_good(slots, order, index, &mut self.rng)
        };
        let Ok(Some(transition)) = change else { return };
        if slot.state == QpState::Rts {
            self.stats.states.change_evs(transition.from, transition.to, 1);
        }
        self.events.raise(&mut self.stats, Event::Ev { qp: slot.qpn, transition });
        if let Some(slot) = self.ev_profiles.get_mut(command.profile as usize) {
            slot.announce(now, command.profile, entry, &transition, &mut self.events, &mut self.stats);
        }
    }

    /// What a command means to the paths of a peer's endpoint operations.
    fn command_peer(&mut self, peer: u32, command: &Command) {
        let entries = profile(self.ev_entries, &self.ev_profiles, &self.limits, command.profile).unwrap_or(&[]);
        let slot = self.peers.get_mut(peer as usize).filter(|peer| peer.ev_profile == Some(command.profile));
        if let Some(slot) = slot {
            slot.op_paths.heed_denylist(entries, command.allows(entries), &mut self.rng);
        }
    }
}

crate::image::stored!(struct Command { profile, entry, all, denied, left });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Checksum, Reader, Writer};

    /// Whether an image may say that changes have come so far, in an endpoint with rounds of `round` steps.
    fn may_be(at: u32, (ports_left, wakes_left): (u32, u32), left: &[u32], round: u32) -> bool {
        let mut walk = Walk { at, ports_left, wakes_left, ..Walk::new() };
        left.iter().for_each(|&left| _ = walk.commands.push(Command { left, ..Command::new(0, 0, None, false) }));
        let mut bytes = [0; 1_000];
        let mut to = Writer::new(&mut bytes, Checksum::NEW);
        walk.visit(&mut to, u32::MAX);
        let len = to.finish().0;
        let (mut from, mut loaded) = (Reader::new(&bytes[..len]), Walk::new());
        let taken = loaded.visit(&mut from, round).is_some();
        let have = (loaded.at, loaded.ports_left, loaded.wakes_left, loaded.commands.len);
        assert!(!taken || have == (at, ports_left, wakes_left, left.len()));
        taken
    }

    #[test]
    fn no_image_has_more_steps_to_go_than_a_round() {
        assert!(may_be(0, (0, 0), &[], 1) && may_be(3, (4, 4), &[4, 1], 4));
        assert!(!may_be(4, (0, 0), &[], 4), "nobody has that place");
        assert!(!may_be(0, (5, 0), &[], 4) && !may_be(0, (0, 5), &[], 4));
        assert!(!may_be(0, (0, 0), &[4, 5], 4) && !may_be(0, (0, 0), &[5, 4], 4));
    }
}
