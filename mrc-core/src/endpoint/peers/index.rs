//! How a packet's source finds its peer in O(1), by each address that the peer has. Source: `transport.md` 7, `paths.md` 9.5.

use mrc_wire::Ip;

use super::{NIL, PeerSlot};
use crate::{
    config::{MAX_PORTS, port_of_plane},
    endpoint::below::PlaneSlot,
    rng::Rng,
};

/// Finds peers by their addresses: as many hash buckets as slots, chained through the slots. The hash is keyed, so that
/// nobody can choose addresses that share a bucket.
#[derive(Clone, Copy, Debug)]
pub(in crate::endpoint) struct PeerIndex {
    key: u64,
}

/// Headers of all peers, as many for each.
#[derive(Clone, Copy)]
pub(in crate::endpoint) struct Headers<'p> {
    pub(in crate::endpoint) planes: &'p [PlaneSlot],
    pub(in crate::endpoint) each: usize,
}

impl Headers<'_> {
    /// Inner addresses of packets to `peer` through `plane`, ours first.
    pub(in crate::endpoint) fn addresses(self, peer: u32, plane: usize) -> Option<(Ip, Ip)> {
        let at = (peer as usize).wrapping_mul(self.each).wrapping_add(plane);
        let encap = self.planes.get(at).filter(|_| plane < self.each)?.0.encap();
        Some((encap.src, encap.dst))
    }

    /// Whether `slot`, which is `peer`, has these addresses, each on any plane.
    pub(in crate::endpoint) fn belong(self, slot: &PeerSlot, peer: u32, local: &Ip, remote: &Ip) -> bool {
        let (mut ours, mut theirs) = (slot.local == *local, slot.remote == *remote);
        for plane in (0..MAX_PORTS).filter(|&plane| slot.own_addresses.contains(port_of_plane(plane))) {
            if let Some((src, dst)) = self.addresses(peer, plane) {
                (ours, theirs) = (ours || src == *local, theirs || dst == *remote);
            }
        }
        ours && theirs
    }
}

/// An address of a peer in a bucket: the peer's slot, and 0 for its own address, N + 1 for that of plane N.
fn entry(peer: u32, which: usize) -> u32 {
    peer << 4 | which as u32 & 0xF
}

fn parts(entry: u32) -> (u32, usize) {
    (entry >> 4, (entry & 0xF) as usize)
}

impl PeerIndex {
    pub(in crate::endpoint) const fn new(key: u64) -> Self {
        Self { key }
    }

    fn bucket(&self, peers: &[PeerSlot], remote: &Ip) -> usize {
        let (high, low) = match remote {
            Ip::V6(octets) => {
                let bits = u128::from_be_bytes(*octets);
                ((bits >> 64) as u64, bits as u64)
            }
            Ip::V4(octets) => (u64::MAX, u32::from_be_bytes(*octets).into()),
        };
        let hash = [high, low].into_iter().fold(self.key, |hash, word| Rng::new(hash ^ word).next_u64());
        (hash >> 32).wrapping_mul(peers.len() as u64).wrapping_shr(32) as usize
    }

    /// The addresses of a peer, each once; `which` of them, as in [`entry`].
    fn addresses<'p>(slot: &PeerSlot, headers: Headers<'p>, peer: u32) -> impl Iterator<Item = (usize, Ip)> + use<'p> {
        let (main, own) = (slot.remote, slot.own_addresses);
        let of = move |plane: usize| {
            let has = own.contains(port_of_plane(plane));
            has.then(|| headers.addresses(peer, plane)).flatten().map(|(_, remote)| remote)
        };
        let planes = (0..MAX_PORTS).filter_map(move |plane| {
            let remote = of(plane).filter(|remote| *remote != main)?;
            let first = (0..plane).all(|before| of(before) != Some(remote));
            first.then_some((plane.wrapping_add(1), remote))
        });
        core::iter::once((0, main)).chain(planes)
    }

    /// Enters a slot that holds its addresses.
    pub(in crate::endpoint) fn insert(&self, peers: &mut [PeerSlot], headers: Headers<'_>, peer: u32) {
        let Some(slot) = peers.get(peer as usize) else { return };
        for (which, remote) in Self::addresses(slot, headers, peer) {
            let bucket = self.bucket(peers, &remote);
            let Some(head) = peers.get_mut(bucket) else { return };
            let next = core::mem::replace(&mut head.bucket, entry(peer, which));
            if let Some(chain) = Self::chain(peers, entry(peer, which)) {
                *chain = next;
            }
        }
    }

    /// Forgets a slot that still holds its addresses.
    pub(in crate::endpoint) fn remove(&self, peers: &mut [PeerSlot], headers: Headers<'_>, peer: u32) {
        let Some(slot) = peers.get(peer as usize) else { return };
        for (which, remote) in Self::addresses(slot, headers, peer) {
            let gone = entry(peer, which);
            let Some(chain) = Self::chain(peers, gone) else { return };
            let after = core::mem::replace(chain, NIL);
            let bucket = self.bucket(peers, &remote);
            let Some(head) = peers.get_mut(bucket) else { return };
            let mut at = head.bucket;
            if at == gone {
                head.bucket = after;
                continue;
            }
            while let Some(chain) = Self::chain(peers, at) {
                if *chain == gone {
                    *chain = after;
                    break;
                }
                at = *chain;
            }
        }
    }

    /// What follows an entry of a bucket.
    fn chain(peers: &mut [PeerSlot], entry: u32) -> Option<&mut u32> {
        let (peer, which) = parts(entry);
        peers.get_mut(peer as usize)?.chains.get_mut(which)
    }

    /// A slot of the node with this address; [`PeerIndex::next`] names the others.
    pub(in crate::endpoint) fn find(&self, peers: &[PeerSlot], headers: Headers<'_>, remote: &Ip) -> Option<u32> {
        let head = |remote: &Ip| peers.get(self.bucket(peers, remote)).map_or(NIL, |head| head.bucket);
        let mut at = head(remote);
        if let Some(peer) = Self::scan(peers, at, remote) {
            return Some(peer);
        }
        while let (peer, which) = parts(at)
            && let Some(slot) = peers.get(peer as usize)
        {
            let plane = which.checked_sub(1).and_then(|plane| headers.addresses(peer, plane));
            if plane.is_some_and(|(_, own)| own == *remote) {
                // All of the node, the first one first.
                return Self::scan(peers, head(&slot.remote), &slot.remote);
            }
            at = slot.chains.get(which).copied().unwrap_or(NIL);
        }
        None
    }

    /// The slot with both addresses, whatever those of its planes are.
    pub(in crate::endpoint) fn find_exactly(
        &self,
        peers: &[PeerSlot],
        headers: Headers<'_>,
        local: &Ip,
        remote: &Ip,
    ) -> Option<u32> {
        let mut next = self.find(peers, headers, remote);
        while let Some(peer) = next {
            if peers.get(peer as usize).is_some_and(|slot| slot.local == *local && slot.remote == *remote) {
                return next;
            }
            next = Self::next(peers, peer);
        }
        None
    }

    /// The next slot with the address of `peer`: an application may register one node several times.
    pub(in crate::endpoint) fn next(peers: &[PeerSlot], peer: u32) -> Option<u32> {
        let slot = peers.get(peer as usize)?;
        Self::scan(peers, *slot.chains.first()?, &slot.remote)
    }

    /// The next slot with both addresses of `peer`.
    pub(in crate::endpoint) fn next_alike(peers: &[PeerSlot], peer: u32) -> Option<u32> {
        let slot = peers.get(peer as usize)?;
        let mut next = Self::next(peers, peer);
        while let Some(other) = next {
            if peers.get(other as usize).is_some_and(|other| other.local == slot.local) {
                return next;
            }
            next = Self::next(peers, other);
        }
        None
    }

    /// The first slot from this entry on whose own address is `remote`.
    fn scan(peers: &[PeerSlot], mut at: u32, remote: &Ip) -> Option<u32> {
        while let (peer, which) = parts(at)
            && let Some(slot) = peers.get(peer as usize)
        {
            if which == 0 && slot.used && slot.remote == *remote {
                return Some(peer);
            }
            at = slot.chains.get(which).copied().unwrap_or(NIL);
        }
        None
    }
}

crate::image::stored!(struct PeerIndex { key });

#[cfg(test)]
mod tests {
    use std::{vec, vec::Vec};

    use mrc_wire::{Encap, FrameTemplate, WireConfig};

    use super::{
        super::{clear, occupy},
        *,
    };

    fn address(n: u32) -> Ip {
        Ip::V4(n.to_be_bytes())
    }

    /// Neighbours share few buckets, and which ones depends on the key: a chain stays short whoever chooses the addresses.
    #[test]
    fn addresses_spread_over_the_buckets() {
        let peers = vec![PeerSlot::EMPTY; 64];
        let v6 = |n: u32| {
            let mut octets = [0xFD; 16];
            octets[12..].copy_from_slice(&n.to_be_bytes());
            Ip::V6(octets)
        };
        let prefix = |n: u32| {
            let mut octets = [0xFD; 16];
            octets[4..8].copy_from_slice(&n.to_be_bytes());
            Ip::V6(octets)
        };
        let families: [fn(u32) -> Ip; 3] = [address, v6, prefix];
        let buckets = |key: u64, of: &dyn Fn(u32) -> Ip| -> Vec<usize> {
            (0..64).map(|n| PeerIndex::new(key).bucket(&peers, &of(n))).collect()
        };
        for of in families {
            let [one, other] = [7, 8].map(|key| buckets(key, &of));
            let mut used = one.clone();
            used.sort_unstable();
            used.dedup();
            // Of 64 buckets 64 addresses leave 23 empty on average.
            assert!(used.len() > 32 && used.iter().all(|&bucket| bucket < 64), "{used:?}");
            assert!(one.iter().zip(&other).filter(|(one, other)| one == other).count() < 8);
        }
    }

    /// Three planes; the second and third may have addresses of their own, which two slots of a node may share.
    #[test]
    fn peers_are_found_by_each_address_until_they_are_removed() {
        const PLANES: usize = 3;
        let mut peers = vec![PeerSlot::EMPTY; 40];
        let mut planes = vec![PlaneSlot::EMPTY; 40 * PLANES];
        let index = PeerIndex::new(7);
        let mut rng = Rng::new(3);
        for _ in 0..2_000 {
            let at = rng.below(40);
            // Two slots may hold the same addresses.
            let (local, remote) = (address(at & 1), address(at / 2));
            if peers[at as usize].used {
                index.remove(&mut peers, Headers { planes: &planes, each: PLANES }, at);
                clear(&mut peers[at as usize]);
            } else {
                let own_addresses = crate::PortMask::from_bits(rng.below(8) << 1 & 0b1100);
                occupy(
                    &mut peers[at as usize],
                    PeerSlot { used: true, local, remote, own_addresses, ..PeerSlot::EMPTY },
                );
                for plane in 0..PLANES {
                    let own = own_addresses.contains(port_of_plane(plane));
                    // Now and then both planes have the same one, or the one of the whole.
                    let dst = if own { address(at / 2 + 100 * rng.below(3)) } else { remote };
                    let encap = Encap::plain([0; 6], [0; 6], local, dst);
                    planes[at as usize * PLANES + plane] =
                        PlaneSlot(FrameTemplate::new(&encap, &WireConfig::default()));
                }
                index.insert(&mut peers, Headers { planes: &planes, each: PLANES }, at);
            }
            let headers = Headers { planes: &planes, each: PLANES };
            for node in 0..21u32 {
                let slots = || [2 * node, 2 * node + 1].into_iter();
                let slots = || slots().filter(|&at| peers.get(at as usize).is_some_and(|p| p.used));
                let want: Vec<u32> = slots().collect();
                for sought in [node, node + 100, node + 200] {
                    let mut found = vec![];
                    let mut next = index.find(&peers, headers, &address(sought));
                    while let Some(peer) = next {
                        found.push(peer);
                        next = PeerIndex::next(&peers, peer);
                    }
                    found.sort_unstable();
                    let known = sought == node
                        || slots()
                            .any(|at| headers.belong(&peers[at as usize], at, &address(at & 1), &address(sought)));
                    assert_eq!(found, if known { want.clone() } else { vec![] }, "{node} {sought}");
                }
                for &at in &want {
                    assert_eq!(index.find_exactly(&peers, headers, &address(at & 1), &address(node)), Some(at));
                    assert_eq!(PeerIndex::next_alike(&peers, at), None);
                }
            }
            assert_eq!(index.find_exactly(&peers, headers, &address(7), &remote), None, "other local address");
        }
    }
}
