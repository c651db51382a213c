//! A simulator that holds a share of a fabric: which part that is, and the packets and pauses that leave it for another.
//!
//! Every share has all ports and switches, so that faults, carriers and epochs are known everywhere; only those it owns
//! have queues and counters in use.

use std::ops::{Index, IndexMut, Range};
use std::sync::Arc;

use mrc_core::Instant;

use super::super::packet::Packet;
use super::{Event, HostSlot, Sim};
use crate::host::Host;

/// The hosts that are here, by their number in the fabric.
pub(super) struct Hosts<H> {
    pub(super) first: u32,
    pub(super) slots: Vec<HostSlot<H>>,
}

impl<H> Hosts<H> {
    pub(super) fn numbers(&self) -> Range<u32> {
        self.first..self.first + self.slots.len() as u32
    }
}

impl<H> Index<u32> for Hosts<H> {
    type Output = HostSlot<H>;

    #[inline]
    fn index(&self, host: u32) -> &HostSlot<H> {
        &self.slots[(host - self.first) as usize]
    }
}

impl<H> IndexMut<u32> for Hosts<H> {
    #[inline]
    fn index_mut(&mut self, host: u32) -> &mut HostSlot<H> {
        &mut self.slots[(host - self.first) as usize]
    }
}

/// A packet on a link that leads to another share.
struct Arrival {
    at: Instant,
    port: u32,
    epoch: u16,
    packet: Box<Packet>,
}

/// Packets and pauses on their way from one share to another.
#[derive(Default)]
pub(in crate::fabric) struct Mail {
    arrivals: Vec<Arrival>,
    pauses: Vec<(Instant, u32, bool, u16)>,
    /// Packets may collect telemetry.
    collects: bool,
}

impl Mail {
    /// The first arrival of what is in it.
    pub(in crate::fabric) fn earliest(&self) -> Option<Instant> {
        let pauses = self.pauses.iter().map(|&(at, ..)| at);
        self.arrivals.iter().map(|arrival| arrival.at).chain(pauses).min()
    }
}

/// Which share of a fabric a simulator holds.
pub(in crate::fabric) struct Share {
    pub(in crate::fabric) index: usize,
    /// By port: the share of its owner.
    pub(in crate::fabric) owners: Arc<[u8]>,
    /// By share.
    pub(in crate::fabric) outbox: Vec<Mail>,
}

impl Share {
    /// The seed of a share's random numbers.
    pub(super) fn seed(&self, seed: u64) -> u64 {
        seed ^ (self.index as u64).wrapping_mul(0xd1b5_4a32_d192_ed03)
    }
}

impl<H: Host> Sim<H> {
    /// The share that owns a port, if it is another one.
    #[inline(always)]
    pub(super) fn stranger(&self, port: u32) -> Option<usize> {
        let share = self.share.as_ref()?;
        let owner = usize::from(share.owners[port as usize]);
        (owner != share.index).then_some(owner)
    }

    /// A packet is on the link to `port`, which had this epoch when it left.
    #[inline(always)]
    pub(super) fn fly(&mut self, at: Instant, port: u32, packet: u32, epoch: u16) {
        let Some(other) = self.stranger(port) else {
            return self.wheel.schedule(at, Event::Arrive { port, packet, epoch });
        };
        if let (Some(share), Some(packet)) = (&mut self.share, self.arena.leave(packet)) {
            let mail = &mut share.outbox[other];
            mail.collects |= self.collects;
            mail.arrivals.push(Arrival { at, port, epoch, packet });
        }
    }

    /// A pause frame, or the end of a pause, is on the link to `port`.
    pub(super) fn fly_pause(&mut self, at: Instant, port: u32, paused: bool, epoch: u16) {
        match (self.stranger(port), &mut self.share) {
            (Some(other), Some(share)) => share.outbox[other].pauses.push((at, port, paused, epoch)),
            _ => self.wheel.schedule(at, Event::Pause { port, paused, epoch }),
        }
    }

    /// What this share has for another.
    pub(in crate::fabric) fn outbox(&mut self, other: usize) -> Option<&mut Mail> {
        self.share.as_mut().map(|share| &mut share.outbox[other])
    }

    /// Takes in what another share sent.
    pub(in crate::fabric) fn take_in(&mut self, mail: &mut Mail) {
        self.collects |= mail.collects;
        for Arrival { at, port, epoch, packet } in mail.arrivals.drain(..) {
            let packet = self.arena.put(packet);
            self.wheel.schedule(at, Event::Arrive { port, packet, epoch });
        }
        for (at, port, paused, epoch) in mail.pauses.drain(..) {
            self.wheel.schedule(at, Event::Pause { port, paused, epoch });
        }
    }

    /// No event of this share is earlier; `None`: none is pending.
    pub(in crate::fabric) fn earliest(&self) -> Option<Instant> {
        self.wheel.earliest()
    }

    /// Whether this share counts what happens in every one of them.
    pub(super) fn is_first(&self) -> bool {
        self.share.as_ref().is_none_or(|share| share.index == 0)
    }
}
