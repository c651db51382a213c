//! Tokens for UMEM frames: move-only, and their type says who may touch the bytes.
//!
//! ```text
//!   receive chunk:  Ours --lend--> (kernel: fill ring) --claim--> Rx --recycle--> Ours
//!   transmit slot:  Ours --lend--> (kernel: tx ring) --complete (last descriptor)--> Ours
//! ```
//! While the kernel holds a frame no token for it exists, only a mark in the ledger. A token comes back through
//! [`RxLedger::claim`] or [`TxLedger::complete`], which refuse addresses that were not lent: a confused driver may cost
//! a frame, never give two owners to one chunk.

use core::marker::PhantomData;

use crate::config::{CHUNK_BYTES, TX_SLOT_BYTES};

/// The program may write it.
#[derive(Debug)]
pub(crate) enum Ours {}
/// The kernel filled it; the program may read it.
#[derive(Debug)]
pub(crate) enum Rx {}

/// A receive chunk held by `H`.
#[derive(Debug)]
pub(crate) struct Chunk<H> {
    index: u32,
    holder: PhantomData<H>,
}

impl<H> Chunk<H> {
    fn mint(index: u32) -> Self {
        Self { index, holder: PhantomData }
    }

    /// Byte offset of the chunk in the UMEM.
    pub(crate) fn offset(&self) -> usize {
        self.index as usize * CHUNK_BYTES
    }
}

impl Chunk<Rx> {
    /// Gives up reading; the chunk can be lent again.
    pub(crate) fn recycle(self) -> Chunk<Ours> {
        Chunk::mint(self.index)
    }
}

/// Who holds each receive chunk. Receive chunks start at UMEM offset 0.
#[derive(Debug)]
pub(crate) struct RxLedger {
    with_kernel: Box<[bool]>,
}

impl RxLedger {
    /// The ledger and the only tokens for its `chunks` chunks.
    pub(crate) fn new(chunks: u32) -> (Self, Vec<Chunk<Ours>>) {
        let ledger = Self { with_kernel: vec![false; chunks as usize].into_boxed_slice() };
        (ledger, (0..chunks).map(Chunk::mint).collect())
    }

    /// Takes the token and returns the address to put on the fill ring.
    pub(crate) fn lend(&mut self, chunk: Chunk<Ours>) -> u64 {
        if let Some(mark) = self.with_kernel.get_mut(chunk.index as usize) {
            *mark = true;
        }
        chunk.offset() as u64
    }

    /// The chunk that holds `address`, and the place of `address` in it; `None` when it was not lent.
    pub(crate) fn claim(&mut self, address: u64) -> Option<(Chunk<Rx>, usize)> {
        let index = usize::try_from(address / CHUNK_BYTES as u64).ok()?;
        let mark = self.with_kernel.get_mut(index)?;
        core::mem::take(mark).then(|| (Chunk::mint(index as u32), (address % CHUNK_BYTES as u64) as usize))
    }
}

/// A transmit slot we may write: two adjacent chunks.
#[derive(Debug)]
pub(crate) struct Slot {
    index: u32,
    base: usize,
}

impl Slot {
    /// Byte offset of the slot in the UMEM.
    pub(crate) fn offset(&self) -> usize {
        self.base + self.index as usize * TX_SLOT_BYTES
    }
}

/// A completion for a slot the kernel does not hold.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotLent;

/// How many descriptors of each transmit slot the kernel holds. Slots start at UMEM offset `base`.
#[derive(Debug)]
pub(crate) struct TxLedger {
    base: usize,
    outstanding: Box<[u8]>,
}

impl TxLedger {
    /// The ledger and the only tokens for its `slots` slots.
    pub(crate) fn new(base: usize, slots: u32) -> (Self, Vec<Slot>) {
        let ledger = Self { base, outstanding: vec![0; slots as usize].into_boxed_slice() };
        (ledger, (0..slots).map(|index| Slot { index, base }).collect())
    }

    /// Takes the token and returns the address of the first of `descriptors` descriptors.
    pub(crate) fn lend(&mut self, slot: Slot, descriptors: u8) -> u64 {
        if let Some(count) = self.outstanding.get_mut(slot.index as usize) {
            *count = descriptors;
        }
        slot.offset() as u64
    }

    /// Notes that the kernel is done with the descriptor at `address`; the slot returns with its last one.
    pub(crate) fn complete(&mut self, address: u64) -> Result<Option<Slot>, NotLent> {
        let offset = usize::try_from(address).ok().and_then(|a| a.checked_sub(self.base)).ok_or(NotLent)?;
        let index = offset / TX_SLOT_BYTES;
        let count = self.outstanding.get_mut(index).filter(|count| **count > 0).ok_or(NotLent)?;
        *count -= 1;
        Ok((*count == 0).then_some(Slot { index: index as u32, base: self.base }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_claimed_once_per_loan() {
        let (mut ledger, mut chunks) = RxLedger::new(4);
        let address = ledger.lend(chunks.pop().unwrap());
        assert_eq!(address, 3 * 4096);
        let (chunk, at) = ledger.claim(address + 256).unwrap();
        assert_eq!((chunk.offset(), at), (3 * 4096, 256));
        assert!(ledger.claim(address).is_none(), "claimed twice");
        assert!(ledger.claim(0).is_none(), "never lent");
        assert!(ledger.claim(u64::MAX).is_none(), "outside");
        ledger.lend(chunk.recycle());
        assert!(ledger.claim(address).is_some());
    }

    #[test]
    fn a_slot_returns_with_its_last_descriptor() {
        let (mut ledger, mut slots) = TxLedger::new(1 << 20, 2);
        let slot = slots.pop().unwrap();
        let address = ledger.lend(slot, 2);
        assert_eq!(address, (1 << 20) + 8192);
        assert!(ledger.complete(address).unwrap().is_none());
        let slot = ledger.complete(address + 4096).unwrap().unwrap();
        assert_eq!(slot.offset() as u64, address);
        assert_eq!(ledger.complete(address).unwrap_err(), NotLent);
        assert_eq!(ledger.complete(5).unwrap_err(), NotLent);
        assert_eq!(ledger.complete(u64::MAX).unwrap_err(), NotLent);
    }
}
