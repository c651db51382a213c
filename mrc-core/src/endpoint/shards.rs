//! Several endpoints of one NIC behind the same addresses: what each has to tell the others. The driver carries the messages
//! in order and loses none; nothing else is shared. Source: `transport.md` 7, `paths.md` 11 and 12.
//!
//! ```text
//!  frame -> BTH.dest_qp >> (24 - bits) = shard        QP 2 -> shard 0, the first one
//!  first shard: answers QP 2, sends Port Status Updates for all
//!     |-- PeerPorts --------> all       a peer said which of its ports are up, or a packet showed that one is
//!     |-- Response ---------> asker     an answer to an endpoint operation of another shard
//!  any shard
//!     |-- PeerUsed ---------> first     it has QPs towards a peer now, or has none any more
//!     '-- BadEv ------------> all       an EV of a profile is bad (with `share_bad_evs`)
//! ```

use mrc_wire::{EndpointOp, EndpointResponseRepr, Ip, PortNum, Qpn};

use super::{Endpoint, EvProfileHandle, peers::PeerIndex, profiles::profile};
use crate::{error::ShardError, num::Counter, port::PortMask, time::Instant};

/// Most bits of a shard's number.
pub(super) const MAX_BITS: u8 = 6;

/// Responses that may wait to be carried to other shards.
pub(super) const RESPONSES: usize = 32;

/// Which of several endpoints of a NIC this one is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Shard {
    /// Upper bits of a QP number that name the shard: at most 6. 0: the endpoint is alone.
    pub bits: u8,
    /// This one's number, below `2^bits`.
    pub index: u8,
}

impl Shard {
    /// The shard that takes packets to `qpn`, where QP numbers begin with `bits` bits of it. QP 2 is shard 0's.
    pub const fn of(qpn: Qpn, bits: u8) -> u8 {
        if bits == 0 { 0 } else { (qpn.value() >> 24u32.saturating_sub(bits as u32)) as u8 }
    }

    /// Whether an endpoint with `qpn_bits` bits of slot numbers can be this shard: two random bits are left.
    pub(super) const fn fits(self, qpn_bits: u32) -> bool {
        self.bits <= MAX_BITS
            && (self.index as u32) < 1u32.wrapping_shl(self.bits as u32)
            && (self.bits as u32).saturating_add(qpn_bits) <= 22
    }

    /// `number` of `width` bits with the shard's number in the upper ones.
    pub(super) const fn prefixed(self, number: u32, width: u32) -> u32 {
        let free = width.saturating_sub(self.bits as u32);
        (self.index as u32).wrapping_shl(free) | number & !u32::MAX.wrapping_shl(free)
    }

    const fn is_alone(self) -> bool {
        self.bits == 0
    }
}

/// What one shard tells another, or all others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShardMessage {
    /// The shard that says it.
    pub from: u8,
    /// The shard it is for; `None`: every other one.
    pub to: Option<u8>,
    /// What it says.
    pub news: ShardNews,
}

/// Content of a [`ShardMessage`]. Peers go by their addresses, profiles by their handles: each shard creates the same profiles
/// in the same order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShardNews {
    /// Ports of a peer that are up.
    PeerPorts {
        /// Our address towards the peer.
        local: Ip,
        /// The peer's.
        remote: Ip,
        /// The ports.
        ports: PortMask,
    },
    /// The shard has QPs towards a peer, or none any more.
    PeerUsed {
        /// Our address towards the peer.
        local: Ip,
        /// The peer's.
        remote: Ip,
        /// Profile of these QPs; `None`: there are none.
        profile: Option<EvProfileHandle>,
        /// One of them entered RTS.
        entered_rts: bool,
    },
    /// An EV is bad.
    BadEv {
        /// Its profile.
        profile: EvProfileHandle,
        /// Its entry.
        entry: u16,
    },
    /// The answer to an endpoint operation of the shard that this is for.
    Response {
        /// Our address towards the peer.
        local: Ip,
        /// The peer's.
        remote: Ip,
        /// Identifier of the request.
        id: u16,
        /// The operation.
        op: EndpointOp,
        /// The timestamp it reflects.
        timestamp: u16,
        /// Port it arrived on.
        port: PortNum,
    },
}

/// What of a peer other shards have not been told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Untold {
    pub(super) ports: bool,
    pub(super) used: bool,
    pub(super) entered_rts: bool,
}

impl Untold {
    pub(super) const NOTHING: Self = Self { ports: false, used: false, entered_rts: false };
}

impl Endpoint<'_> {
    /// The oldest message of this endpoint for other shards. The driver hands it to those it is for
    /// ([`Endpoint::handle_shard_message`]), in order.
    pub fn poll_shard_message(&mut self) -> Option<ShardMessage> {
        let Shard { bits, index: from } = self.cfg.shard;
        if bits == 0 {
            return None;
        }
        if let Some(response) = self.ops.responses.pop() {
            return Some(response);
        }
        if let Some((to, news)) = self.peer_news() {
            return Some(ShardMessage { from, to, news });
        }
        let (index, entry) = self.ev_profiles.next_told()?;
        let news = ShardNews::BadEv { profile: self.profile_handle(index)?, entry };
        Some(ShardMessage { from, to: None, news })
    }

    /// What is untold of the peer that waits longest.
    fn peer_news(&mut self) -> Option<(Option<u8>, ShardNews)> {
        loop {
            let peer = self.ops.news.front()?;
            let slot = self.peers.get_mut(peer as usize)?;
            let (local, remote) = (slot.local, slot.remote);
            if core::mem::take(&mut slot.untold.ports) {
                return Some((None, ShardNews::PeerPorts { local, remote, ports: slot.announced }));
            }
            let (used, entered_rts) = (slot.untold.used, slot.untold.entered_rts);
            slot.untold = Untold::NOTHING;
            let profile = slot.ev_profile.filter(|_| slot.users > 0);
            self.ops.news.remove(self.peers, peer);
            if used {
                let profile = profile.and_then(|profile| self.profile_handle(profile));
                let entered_rts = entered_rts && profile.is_some();
                return Some((Some(0), ShardNews::PeerUsed { local, remote, profile, entered_rts }));
            }
        }
    }

    /// A message of another shard.
    ///
    /// # Errors
    /// It had no effect; the variant says why.
    pub fn handle_shard_message(&mut self, now: Instant, message: &ShardMessage) -> Result<(), ShardError> {
        let own = self.cfg.shard;
        let known = u32::from(message.from) < 1u32.wrapping_shl(own.bits.into());
        if own.is_alone() || !known || message.from == own.index || message.to.is_some_and(|to| to != own.index) {
            return Err(ShardError::Misdirected);
        }
        match message.news {
            ShardNews::PeerPorts { local, remote, ports } => {
                let peer = self.node(&local, &remote)?;
                self.peer_has_ports(now, peer, ports);
                Ok(())
            }
            ShardNews::PeerUsed { local, remote, profile, entered_rts } => {
                if own.index != 0 {
                    return Err(ShardError::Misdirected);
                }
                let peer = self
                    .peer_index
                    .find_exactly(self.peers, self.headers(), &local, &remote)
                    .ok_or(ShardError::Peer)?;
                match profile {
                    Some(profile) => {
                        let known = self.ev_profiles.get(profile.index()).is_some_and(|slot| slot.is(profile));
                        if !known {
                            return Err(ShardError::Profile);
                        }
                        self.peer_used(now, peer, message.from, profile.slot(), entered_rts)
                    }
                    None => {
                        self.peer_unused(peer, message.from);
                        Ok(())
                    }
                }
            }
            ShardNews::BadEv { profile, entry } => {
                let slot =
                    self.ev_profiles.get_mut(profile.index()).filter(|slot| slot.is(profile) && slot.has_entry(entry));
                slot.ok_or(ShardError::Profile)?.hear_bad(entry);
                Ok(())
            }
            ShardNews::Response { local, remote, id, op, timestamp, port } => {
                let peer = self.node(&local, &remote)?;
                let answered = self.take_response(now, port, peer, id, &EndpointResponseRepr { op, timestamp });
                if answered { Ok(()) } else { Err(ShardError::Late) }
            }
        }
    }

    /// The first registration of a node that has one with both addresses.
    fn node(&self, local: &Ip, remote: &Ip) -> Result<u32, ShardError> {
        let known = self.peer_index.find_exactly(self.peers, self.headers(), local, remote);
        known.and_then(|_| self.peer_index.find(self.peers, self.headers(), remote)).ok_or(ShardError::Peer)
    }

    /// The ports of a node, as another shard heard.
    //= EPOP-005
    fn peer_has_ports(&mut self, now: Instant, first: u32, ports: PortMask) {
        let mut next = Some(first);
        while let Some(peer) = next {
            next = PeerIndex::next(self.peers, peer);
            let Some(slot) = self.peers.get_mut(peer as usize) else { return };
            if !slot.announced.minus(ports).is_empty() {
                slot.masked_at = now;
            }
            if self.set_peer_ports(peer, ports) {
                self.stats.peer_ports_changed.inc();
            }
        }
    }

    /// Another shard has QPs towards a peer: we tell that peer of our ports, through EVs of these QPs' profile.
    //= EPOP-006
    fn peer_used(&mut self, now: Instant, peer: u32, by: u8, index: u32, entered_rts: bool) -> Result<(), ShardError> {
        let entries = profile(self.ev_entries, &self.ev_profiles, &self.limits, index).ok_or(ShardError::Profile)?;
        let slot = self.peers.get_mut(peer as usize).ok_or(ShardError::Peer)?;
        slot.used_by |= 1u64.wrapping_shl(by.into());
        if slot.ev_profile.is_none() {
            slot.ev_profile = Some(index);
            slot.op_paths.start(entries, self.cfg.port_mask(), &mut self.rng);
        }
        let masked = slot.announced != PortMask::ALL;
        if slot.shards_profile.is_none() {
            slot.shards_profile = Some(index);
            self.bind_profile(index);
        }
        if masked {
            self.tell_peer_ports(peer);
        }
        if entered_rts {
            self.announce_on_rts(now, peer);
        }
        Ok(())
    }

    /// Another shard has no QPs towards a node any more.
    fn peer_unused(&mut self, first: u32, by: u8) {
        let mut next = Some(first);
        while let Some(peer) = next {
            next = PeerIndex::next_alike(self.peers, peer);
            let Some(slot) = self.peers.get_mut(peer as usize) else { return };
            slot.used_by &= !1u64.wrapping_shl(by.into());
            if slot.used_by == 0
                && let Some(bound) = slot.shards_profile.take()
            {
                self.unbind_profile(bound);
                self.unless_used(peer);
            }
        }
    }

    /// The other shards shall hear which ports of a peer are up.
    pub(super) fn tell_peer_ports(&mut self, peer: u32) {
        self.tell_shards(peer, |untold| untold.ports = true);
    }

    /// The first shard shall hear whether QPs of this one use a peer.
    pub(super) fn tell_peer_used(&mut self, peer: u32, entered_rts: bool) {
        if self.cfg.shard.index > 0 {
            self.tell_shards(peer, |untold| {
                untold.used = true;
                untold.entered_rts |= entered_rts;
            });
        }
    }

    fn tell_shards(&mut self, peer: u32, what: impl FnOnce(&mut Untold)) {
        if self.cfg.shard.is_alone() {
            return;
        }
        if let Some(slot) = self.peers.get_mut(peer as usize) {
            what(&mut slot.untold);
            self.ops.news.push(self.peers, peer);
        }
    }

    /// An answer that no request of this shard waits for: another one's, by its identifier. `false` if it is nobody's.
    pub(super) fn forward_response(
        &mut self,
        peer: u32,
        id: u16,
        port: PortNum,
        response: &EndpointResponseRepr,
    ) -> bool {
        let Shard { bits, index: from } = self.cfg.shard;
        let to = if bits == 0 { from } else { id.wrapping_shr(16u32.saturating_sub(bits.into())) as u8 };
        let Some(slot) = self.peers.get(peer as usize).filter(|_| to != from) else { return false };
        let (op, timestamp) = (response.op, response.timestamp);
        let news = ShardNews::Response { local: slot.local, remote: slot.remote, id, op, timestamp, port };
        self.ops.responses.push(ShardMessage { from, to: Some(to), news })
    }
}

crate::image::stored!(struct Shard { bits, index });
crate::image::stored!(struct ShardMessage { from, to, news });
crate::image::stored!(enum ShardNews {
    0 => PeerPorts { local, remote, ports }, 1 => PeerUsed { local, remote, profile, entered_rts }, 2 => BadEv { profile, entry },
    3 => Response { local, remote, id, op, timestamp, port },
});
crate::image::stored!(struct Untold { ports, used, entered_rts });
