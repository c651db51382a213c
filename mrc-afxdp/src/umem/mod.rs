//! The packet memory of an AF_XDP port: one mapping, receive chunks first, transmit slots behind them.
//!
//! ```text
//!   0                     rx_chunks * 4096                         len
//!   | chunk | chunk | ... | slot: two chunks | slot: two chunks | ... |
//! ```
//! A descriptor may not cross a chunk, but two descriptors over two adjacent chunks let the driver write one slice.
//! Bytes are reached only through a token of `frame.rs`, whose type says whether we may read or write.

pub(crate) mod mem;

use rustix::io;
use rustix::net::xdp::{XdpUmemReg, XdpUmemRegFlags};

use crate::config::{CHUNK_BYTES, TX_SLOT_BYTES, XskConfig};
use crate::frame::{Chunk, Ours, Rx, RxLedger, Slot, TxLedger};
use crate::sys::mmap::Mapping;

/// The mapping. Its frames are handed out once, by [`Umem::new`].
#[derive(Debug)]
pub(crate) struct Umem {
    map: Mapping,
}

/// Every frame of a new UMEM, with the ledgers that track them.
#[derive(Debug)]
pub(crate) struct Frames {
    pub(crate) rx_ledger: RxLedger,
    pub(crate) rx: Vec<Chunk<Ours>>,
    pub(crate) tx_ledger: TxLedger,
    pub(crate) tx: Vec<Slot>,
}

impl Umem {
    /// Maps the memory and mints its tokens.
    pub(crate) fn new(config: &XskConfig) -> io::Result<(Self, Frames)> {
        let map = Mapping::anonymous(config.umem_bytes())?.without_children()?;
        let (rx_ledger, rx) = RxLedger::new(config.rx_chunks);
        let (tx_ledger, tx) = TxLedger::new(config.rx_chunks as usize * CHUNK_BYTES, config.tx_slots);
        Ok((Self { map }, Frames { rx_ledger, rx, tx_ledger, tx }))
    }

    /// What `XDP_UMEM_REG` wants to know.
    pub(crate) fn registration(&self, headroom: u32) -> XdpUmemReg {
        XdpUmemReg {
            addr: self.map.base().as_ptr() as u64,
            len: self.map.len() as u64,
            chunk_size: CHUNK_BYTES as u32,
            headroom,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        }
    }

    /// `len` received bytes at `at` in the chunk; `None` when they would leave it.
    pub(crate) fn received<'a>(&'a self, chunk: &'a Chunk<Rx>, at: usize, len: usize) -> Option<&'a [u8]> {
        if at.checked_add(len)? > CHUNK_BYTES || chunk.offset() + CHUNK_BYTES > self.map.len() {
            return None;
        }
        // SAFETY: in bounds by the check above; the token proves that the kernel gave the chunk to us and that nobody
        // writes it before `recycle` consumes the token, which the borrow outlives not.
        Some(unsafe { core::slice::from_raw_parts(self.map.base().as_ptr().add(chunk.offset() + at), len) })
    }

    /// The bytes of a transmit slot; empty for a slot outside this UMEM.
    pub(crate) fn slot<'a>(&'a self, slot: &'a mut Slot) -> &'a mut [u8] {
        if slot.offset() + TX_SLOT_BYTES > self.map.len() {
            return &mut [];
        }
        // SAFETY: in bounds by the check above; slots do not overlap each other nor receive chunks, there is one token
        // per slot, borrowed mutably here, and the kernel holds only slots whose token was consumed by `lend`.
        unsafe { core::slice::from_raw_parts_mut(self.map.base().as_ptr().add(slot.offset()), TX_SLOT_BYTES) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_chunks_are_disjoint_and_bounded() {
        let config = XskConfig { rx_chunks: 2, tx_slots: 2, ..XskConfig::default() };
        let (umem, mut frames) = Umem::new(&config).unwrap();
        for (n, slot) in frames.tx.iter_mut().enumerate() {
            umem.slot(slot).fill(n as u8 + 1);
        }
        assert!(umem.slot(&mut frames.tx[0]).iter().all(|b| *b == 1));
        assert!(umem.slot(&mut frames.tx[1]).iter().all(|b| *b == 2));
        let address = frames.rx_ledger.lend(frames.rx.remove(1));
        let (chunk, at) = frames.rx_ledger.claim(address + 256).unwrap();
        assert_eq!(umem.received(&chunk, at, 3840).unwrap(), [0; 3840]);
        assert!(umem.received(&chunk, at, 3841).is_none());
        assert!(umem.received(&chunk, usize::MAX, 2).is_none());
    }
}
