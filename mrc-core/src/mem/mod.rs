//! Memory regions: keys, rights and bounds. Every placement and every gather is checked here, so that a driver cannot
//! forget. Knows addresses and lengths, never bytes. Source: `wire.md` 14 step 16, `transport.md` 8.

use mrc_wire::Rkey;

use crate::{error::TableError, first_free::FirstFree, image::Pass, secret::Secrets};

/// A protection domain: regions and QPs of different domains never meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pd(pub u32);

/// What a region allows beyond local reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// The peer may write into it.
    pub remote_write: bool,
}

impl Access {
    /// Local use only.
    pub const LOCAL: Self = Self { remote_write: false };
    /// The peer may write.
    pub const REMOTE_WRITE: Self = Self { remote_write: true };
}

/// A range of application addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemRange {
    /// Address of the first byte, as the peer will name it.
    pub va: u64,
    /// Bytes.
    pub len: u64,
}

/// A registered region. Stale after its region was deregistered, even if the slot is used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MrHandle {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl MrHandle {
    /// Slot number, below `Limits::mrs`: for drivers that keep a table of base addresses beside the engine's.
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// Which of the slot's regions, in turn, this is.
    pub const fn generation(self) -> u32 {
        self.generation
    }

    /// A handle put together again from its parts; stale when they were never given out.
    pub const fn from_parts(index: u32, generation: u32) -> Self {
        Self { index, generation }
    }
}

/// One slot of the region table, lent by the caller.
#[derive(Clone, Copy, Debug)]
pub struct MrSlot {
    va: u64,
    len: u64,
    key: u32,
    generation: u32,
    pd: Pd,
    access: Access,
    used: bool,
}

impl MrSlot {
    /// An unused slot.
    pub const EMPTY: Self =
        Self { va: 0, len: 0, key: 0, generation: 0, pd: Pd(0), access: Access::LOCAL, used: false };
}

/// Why an access was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AccessError {
    /// No such key, or of another protection domain.
    Key,
    /// The region does not allow it.
    Rights,
    /// The range leaves the region.
    Bounds,
}

/// The region table. A key is a random number whose low bits are the slot, so that a look-up is one index.
#[derive(Debug)]
pub(crate) struct Regions<'s> {
    slots: &'s mut [MrSlot],
    free: FirstFree,
    /// Bits of a key that name its slot: how many, and which.
    index_bits: u32,
    index_mask: u32,
}

impl<'s> Regions<'s> {
    pub(crate) fn new(slots: &'s mut [MrSlot]) -> Self {
        slots.fill(MrSlot::EMPTY);
        let index_bits = usize::BITS.wrapping_sub(slots.len().saturating_sub(1).leading_zeros());
        let index_mask = 1u32.checked_shl(index_bits).map_or(u32::MAX, |bit| bit.wrapping_sub(1));
        Self { slots, free: FirstFree::NONE, index_bits, index_mask }
    }

    /// Writes one region to an image, or replaces it by that of one.
    pub(crate) fn visit<P: Pass>(&mut self, index: u32, io: &mut P) -> Option<()> {
        let slot = self.slots.get_mut(index as usize)?;
        io.item(slot)?;
        let own = !u32::MAX.checked_shl(self.index_bits).unwrap_or(0);
        let named = !slot.used || self.index_bits >= 32 || slot.key & own == index;
        (named && slot.va.checked_add(slot.len).is_some()).then_some(())
    }

    pub(crate) fn register(
        &mut self,
        pd: Pd,
        range: MemRange,
        access: Access,
        secrets: &mut Secrets,
    ) -> Result<MrHandle, TableError> {
        if range.va.checked_add(range.len).is_none() {
            return Err(TableError::Range("memory range"));
        }
        let bits = self.index_bits;
        let index = self.free.find(self.slots, |slot| !slot.used).ok_or(TableError::Full("memory region"))?;
        let slot = self.slots.get_mut(index).ok_or(TableError::Full("memory region"))?;
        // A fresh random part for every registration: a key of the slot's last owner never opens it again.
        let mut key = slot.key;
        while key == slot.key {
            let random = (secrets.draw() >> 32) as u32;
            key = random.checked_shl(bits).unwrap_or(0) | index as u32;
            if bits >= 32 {
                break;
            }
        }
        *slot = MrSlot {
            va: range.va,
            len: range.len,
            key,
            generation: slot.generation.wrapping_add(1),
            pd,
            access,
            used: true,
        };
        Ok(MrHandle { index: index as u32, generation: slot.generation })
    }

    pub(crate) fn deregister(&mut self, mr: MrHandle) -> Result<(), TableError> {
        self.live_mut(mr)?.used = false;
        self.free.freed(mr.index);
        Ok(())
    }

    /// Gives a region another domain and other rights. Its key stays.
    pub(crate) fn change(&mut self, mr: MrHandle, pd: Pd, access: Access) -> Result<(), TableError> {
        let slot = self.live_mut(mr)?;
        (slot.pd, slot.access) = (pd, access);
        Ok(())
    }

    fn live_mut(&mut self, mr: MrHandle) -> Result<&mut MrSlot, TableError> {
        let slot = self.slots.get_mut(mr.index()).filter(|slot| slot.used && slot.generation == mr.generation);
        slot.ok_or(TableError::Unknown("memory region"))
    }

    pub(crate) fn live(&self, mr: MrHandle) -> bool {
        self.slots.get(mr.index()).is_some_and(|slot| slot.used && slot.generation == mr.generation)
    }

    /// L_Key and R_Key of a region are the same number.
    pub(crate) fn key(&self, mr: MrHandle) -> Option<Rkey> {
        self.slots
            .get(mr.index())
            .filter(|slot| slot.used && slot.generation == mr.generation)
            .map(|slot| Rkey(slot.key))
    }

    #[inline(always)]
    fn find(&self, pd: Pd, key: u32) -> Result<(MrHandle, &MrSlot), AccessError> {
        let index = key & self.index_mask;
        let slot = self.slots.get(index as usize).ok_or(AccessError::Key)?;
        if !slot.used || slot.key != key || slot.pd != pd {
            return Err(AccessError::Key);
        }
        Ok((MrHandle { index, generation: slot.generation }, slot))
    }

    /// The region and offset that `[va, va + len)` lies in, when `key` gives access to it.
    #[inline(always)]
    pub(crate) fn check(
        &self,
        pd: Pd,
        key: u32,
        va: u64,
        len: u64,
        remote_write: bool,
    ) -> Result<(MrHandle, u64), AccessError> {
        let (mr, slot) = self.find(pd, key)?;
        if remote_write && !slot.access.remote_write {
            return Err(AccessError::Rights);
        }
        // Below the region the offset wraps, to beyond its end: no region leaves the address space.
        let offset = va.wrapping_sub(slot.va);
        if slot.len.checked_sub(len).is_none_or(|last| offset > last) {
            return Err(AccessError::Bounds);
        }
        Ok((mr, offset))
    }
}

crate::image::stored!(newtype Pd);
crate::image::stored!(struct Access { remote_write });
crate::image::stored!(struct MrHandle { index, generation });
crate::image::stored!(struct MrSlot { va, len, key, generation, pd, access, used });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Checksum, Reader, Stored, Writer};

    const RW: Access = Access::REMOTE_WRITE;

    #[test]
    fn bounds_are_exact() {
        let mut slots = [MrSlot::EMPTY; 4];
        let mut mrs = Regions::new(&mut slots);
        let mr = mrs.register(Pd(1), MemRange { va: 1_000, len: 100 }, RW, &mut Secrets::new(1.into())).unwrap();
        let key = mrs.key(mr).unwrap().0;
        assert_eq!(mrs.check(Pd(1), key, 1_000, 100, true), Ok((mr, 0)));
        assert_eq!(mrs.check(Pd(1), key, 1_100, 0, true), Ok((mr, 100)));
        assert_eq!(mrs.check(Pd(1), key, 1_001, 100, true), Err(AccessError::Bounds));
        assert_eq!(mrs.check(Pd(1), key, 999, 1, true), Err(AccessError::Bounds));
        assert_eq!(mrs.check(Pd(1), key, u64::MAX, 2, true), Err(AccessError::Bounds));
        assert_eq!(mrs.check(Pd(2), key, 1_000, 1, true), Err(AccessError::Key));
        assert_eq!(mrs.check(Pd(1), key ^ 0x100, 1_000, 1, true), Err(AccessError::Key));
    }

    #[test]
    fn rights_and_revocation() {
        let mut slots = [MrSlot::EMPTY; 1];
        let mut mrs = Regions::new(&mut slots);
        let mut secrets = Secrets::new(2.into());
        let range = MemRange { va: 0, len: 10 };
        let mr = mrs.register(Pd(0), range, Access::LOCAL, &mut secrets).unwrap();
        let key = mrs.key(mr).unwrap().0;
        assert_eq!(mrs.check(Pd(0), key, 0, 1, true), Err(AccessError::Rights));
        assert!(mrs.check(Pd(0), key, 0, 1, false).is_ok());
        assert_eq!(mrs.register(Pd(0), range, RW, &mut secrets), Err(TableError::Full("memory region")));
        mrs.deregister(mr).unwrap();
        assert_eq!(mrs.check(Pd(0), key, 0, 1, false), Err(AccessError::Key));
        let again = mrs.register(Pd(0), range, RW, &mut secrets).unwrap();
        assert_ne!(mrs.key(again).unwrap().0, key);
        assert_eq!(mrs.deregister(mr), Err(TableError::Unknown("memory region")));
        assert!(!mrs.live(mr) && mrs.live(again));
        // A stale handle has no key, not even that of the next region in its slot.
        assert_eq!((again.index(), mrs.key(mr)), (mr.index(), None));
        assert_ne!(again.generation(), mr.generation());
        assert_eq!(MrHandle::from_parts(again.index, again.generation()), again);
        mrs.deregister(again).unwrap();
        assert_eq!((mrs.key(mr), mrs.key(again)), (None, None));
    }

    #[test]
    fn a_region_that_changes_keeps_its_key() {
        let mut slots = [MrSlot::EMPTY; 2];
        let mut mrs = Regions::new(&mut slots);
        let mr = mrs.register(Pd(1), MemRange { va: 0, len: 10 }, RW, &mut Secrets::new(3.into())).unwrap();
        let key = mrs.key(mr).unwrap().0;
        mrs.change(mr, Pd(2), Access::LOCAL).unwrap();
        assert_eq!(mrs.check(Pd(1), key, 0, 1, false), Err(AccessError::Key));
        assert_eq!(mrs.check(Pd(2), key, 0, 1, true), Err(AccessError::Rights));
        assert_eq!(mrs.check(Pd(2), key, 0, 1, false), Ok((mr, 0)));
        mrs.deregister(mr).unwrap();
        assert_eq!(mrs.change(mr, Pd(1), RW), Err(TableError::Unknown("memory region")));
    }

    /// What a slot of an image may say: its key names the slot, and its range lies in the address space. Else a key of the
    /// peer could open a region that is not its own, or memory that is no region's.
    #[test]
    fn a_region_of_an_image_is_one_that_could_be_registered() {
        let taken = |index: u32, slot: MrSlot| {
            let mut bytes = [0; 64];
            let mut image = Writer::new(&mut bytes, Checksum::NEW);
            slot.save(&mut image);
            assert!(image.finish().1.is_some(), "it fits");
            let mut slots = [MrSlot::EMPTY; 4];
            Regions::new(&mut slots).visit(index, &mut Reader::new(&bytes)).is_some()
        };
        let slot = MrSlot { va: 1_000, len: 100, key: 7 << 2 | 2, used: true, ..MrSlot::EMPTY };
        assert_eq!([0, 1, 2, 3, 4].map(|index| taken(index, slot)), [false, false, true, false, false]);
        assert!(taken(1, MrSlot { used: false, ..slot }), "nobody looks at the key of an empty slot");
        assert!(taken(2, MrSlot { va: u64::MAX - 100, ..slot }));
        assert!(!taken(2, MrSlot { va: u64::MAX - 99, ..slot }));
    }

    /// With few bits left to chance, too, the key of the slot's last region does not open the next one.
    #[test]
    fn a_key_is_never_that_of_the_region_before() {
        let mut slots = std::vec![MrSlot::EMPTY; 1 << 16];
        let (mut mrs, mut secrets, mut before) = (Regions::new(&mut slots), Secrets::new(5.into()), None);
        for _ in 0..300_000 {
            let mr = mrs.register(Pd(0), MemRange { va: 0, len: 1 }, RW, &mut secrets).unwrap();
            let key = mrs.key(mr);
            assert_ne!(key, before);
            mrs.deregister(mr).unwrap();
            before = key;
        }
    }

    #[test]
    fn a_range_past_the_end_of_the_address_space_is_refused() {
        let mut slots = [MrSlot::EMPTY; 1];
        let mut mrs = Regions::new(&mut slots);
        let range = MemRange { va: u64::MAX, len: 2 };
        assert!(mrs.register(Pd(0), range, RW, &mut Secrets::new(1.into())).is_err());
    }
}
