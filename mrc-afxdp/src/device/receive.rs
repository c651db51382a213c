//! Frames of one turn on their way in: the [`FrameSource`] over a port. The engine reads headers and says where payload goes;
//! frames in several buffers are checked here, and bytes are placed.

use mrc_core::{Discard, FrameSource, IcrcCheck, Received, RxMeta};
use mrc_wire::{PortNum, icrc};

use super::Memory;
use super::awaited::Awaited;
use super::recorder::Recorder;
use crate::port::{Port, RxFrame};

/// Up to so many frames of one port; [`Arrivals::finish`] ends them.
pub(super) struct Arrivals<'a, P> {
    port: &'a mut P,
    number: PortNum,
    memory: &'a Memory,
    recorder: &'a mut Recorder,
    awaited: &'a mut Awaited,
    /// Frames that may still be taken.
    left: usize,
    taken: usize,
}

impl<'a, P: Port> Arrivals<'a, P> {
    pub(super) fn new(
        port: &'a mut P,
        number: PortNum,
        memory: &'a Memory,
        recorder: &'a mut Recorder,
        awaited: &'a mut Awaited,
        most: usize,
    ) -> Self {
        port.rx_begin(most);
        Self { port, number, memory, recorder, awaited, left: most, taken: 0 }
    }

    /// Gives the buffers back to the port, and says how many frames there were.
    pub(super) fn finish(self) -> usize {
        self.port.rx_done();
        self.taken
    }
}

impl<P: Port> FrameSource for Arrivals<'_, P> {
    #[inline]
    fn next(&mut self) -> Option<(RxMeta, &[u8])> {
        if self.left == 0 {
            return None;
        }
        let frame = self.port.rx_next(self.left)?;
        self.left -= 1;
        self.taken += 1;
        let icrc = match frame.contiguous() {
            Some(_) => IcrcCheck::Verify,
            None if icrc_matches(&frame) => IcrcCheck::Valid,
            None => IcrcCheck::Invalid,
        };
        self.recorder.received(self.number.plane(), frame.head(), frame.len());
        Some((RxMeta { port: self.number, wire_len: frame.len(), icrc }, frame.head()))
    }

    #[inline]
    fn peek(&self, ahead: usize) -> Option<&[u8]> {
        if ahead < self.left { self.port.rx_peek(ahead) } else { None }
    }

    #[inline]
    fn done(&mut self, result: Result<Received, Discard>) {
        let place = match result {
            Ok(Received::Place(place)) => place,
            // A discard is counted by the engine under its reason.
            Err(why) => return self.recorder.discarded(why),
            _ => return,
        };
        self.awaited.placed(place.qp);
        let Some(Some(region)) = self.memory.get(place.mr.index()) else { return };
        let Some(frame) = self.port.rx_frame() else { return };
        let mut offset = place.offset;
        for piece in frame.pieces(place.payload) {
            // The engine has checked the bounds against the same region.
            let placed = region.place(offset, piece);
            debug_assert!(placed.is_ok());
            offset += piece.len() as u64;
        }
    }
}

/// The ICRC of a frame in several buffers. Such frames are longer than any Ethernet padding, so the ICRC is their end. The first
/// buffer may end inside of it.
fn icrc_matches(frame: &RxFrame<'_>) -> bool {
    let Some(end) = frame.len().checked_sub(icrc::LEN) else { return false };
    let head = frame.head().get(..end).unwrap_or(frame.head());
    let Some(start) = icrc::start(head) else { return false };
    let Some(mut running) = head.get(start..).and_then(icrc::Icrc::over_headers) else { return false };
    for piece in frame.pieces(head.len()..end) {
        running.update(piece);
    }
    let mut carried = [0u8; icrc::LEN];
    let mut at = 0;
    for piece in frame.pieces(end..frame.len()) {
        let Some(to) = carried.get_mut(at..at + piece.len()) else { return false };
        to.copy_from_slice(piece);
        at += piece.len();
    }
    running.finish() == carried
}

#[cfg(all(test, not(loom)))]
mod tests;
