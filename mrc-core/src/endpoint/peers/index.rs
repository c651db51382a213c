//! How a packet's addresses find its peer in O(1). Source: `transport.md` 7.

use mrc_wire::Ip;

use super::{NIL, PeerSlot};
use crate::rng::Rng;

/// Finds peers by their addresses: as many hash buckets as slots, chained through the slots. The hash is keyed, so that
/// nobody can choose addresses that share a bucket.
#[derive(Clone, Copy, Debug)]
pub(in crate::endpoint) struct PeerIndex {
    key: u64,
}

impl PeerIndex {
    pub(in crate::endpoint) const fn new(key: u64) -> Self {
        Self { key }
    }

    fn bucket(&self, peers: &[PeerSlot], local: &Ip, remote: &Ip) -> u32 {
        let mut hash = self.key;
        for address in [local, remote] {
            let (high, low) = match address {
                Ip::V6(octets) => {
                    let bits = u128::from_be_bytes(*octets);
                    ((bits >> 64) as u64, bits as u64)
                }
                Ip::V4(octets) => (u64::MAX, u32::from_be_bytes(*octets).into()),
            };
            for word in [high, low] {
                hash = Rng::new(hash ^ word).next_u64();
            }
        }
        (hash >> 32).wrapping_mul(peers.len() as u64).wrapping_shr(32) as u32
    }

    /// Enters a slot that holds its addresses.
    pub(in crate::endpoint) fn insert(&self, peers: &mut [PeerSlot], peer: u32) {
        let Some((local, remote)) = peers.get(peer as usize).map(|slot| (slot.local, slot.remote)) else { return };
        let bucket = self.bucket(peers, &local, &remote) as usize;
        let Some(head) = peers.get_mut(bucket) else { return };
        let next = core::mem::replace(&mut head.bucket, peer);
        if let Some(slot) = peers.get_mut(peer as usize) {
            slot.chain = next;
        }
    }

    /// Forgets a slot that still holds its addresses.
    pub(in crate::endpoint) fn remove(&self, peers: &mut [PeerSlot], peer: u32) {
        let Some(slot) = peers.get_mut(peer as usize) else { return };
        let (local, remote, after) = (slot.local, slot.remote, slot.chain);
        slot.chain = NIL;
        let bucket = self.bucket(peers, &local, &remote) as usize;
        let Some(head) = peers.get_mut(bucket) else { return };
        if head.bucket == peer {
            head.bucket = after;
            return;
        }
        let mut at = head.bucket;
        while let Some(slot) = peers.get_mut(at as usize) {
            if slot.chain == peer {
                slot.chain = after;
                return;
            }
            at = slot.chain;
        }
    }

    /// A slot with these addresses; [`PeerIndex::next`] names the others.
    pub(in crate::endpoint) fn find(&self, peers: &[PeerSlot], local: &Ip, remote: &Ip) -> Option<u32> {
        let head = peers.get(self.bucket(peers, local, remote) as usize)?.bucket;
        Self::scan(peers, head, local, remote)
    }

    /// The next slot with the addresses of `peer`: an application may register one node several times.
    pub(in crate::endpoint) fn next(peers: &[PeerSlot], peer: u32) -> Option<u32> {
        let slot = peers.get(peer as usize)?;
        Self::scan(peers, slot.chain, &slot.local, &slot.remote)
    }

    fn scan(peers: &[PeerSlot], mut at: u32, local: &Ip, remote: &Ip) -> Option<u32> {
        while let Some(slot) = peers.get(at as usize) {
            if slot.used && slot.remote == *remote && slot.local == *local {
                return Some(at);
            }
            at = slot.chain;
        }
        None
    }
}

crate::image::stored!(struct PeerIndex { key });

#[cfg(test)]
mod tests {
    use std::{vec, vec::Vec};

    use super::{
        super::{clear, occupy},
        *,
    };

    fn address(n: u32) -> Ip {
        Ip::V4(n.to_be_bytes())
    }

    #[test]
    fn peers_are_found_until_they_are_removed() {
        let mut peers = vec![PeerSlot::EMPTY; 40];
        let index = PeerIndex::new(7);
        let mut rng = Rng::new(3);
        for _ in 0..2_000 {
            let at = rng.below(40);
            // Two slots may hold the same addresses.
            let (local, remote) = (address(0), address(at / 2));
            if peers[at as usize].used {
                index.remove(&mut peers, at);
                clear(&mut peers[at as usize]);
            } else {
                occupy(&mut peers[at as usize], PeerSlot { used: true, local, remote, ..PeerSlot::EMPTY });
                index.insert(&mut peers, at);
            }
            for node in 0..21 {
                let mut found = vec![];
                let mut next = index.find(&peers, &local, &address(node));
                while let Some(peer) = next {
                    found.push(peer);
                    next = PeerIndex::next(&peers, peer);
                }
                found.sort_unstable();
                let slots = [2 * node, 2 * node + 1].into_iter();
                let want: Vec<u32> = slots.filter(|&at| peers.get(at as usize).is_some_and(|p| p.used)).collect();
                assert_eq!(found, want);
            }
            assert_eq!(index.find(&peers, &address(1), &remote), None, "other local address");
        }
    }
}
