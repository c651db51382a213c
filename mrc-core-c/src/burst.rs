//! Sink and source over a caller's arrays of frames.

use mrc_core::{Discard, FrameSink, FrameSource, MAX_HEADER_LEN, PortMask, Received, RxMeta, Transmit};
use mrc_wire::PortNum;

use crate::{border, codes::*, convert, fault::Fault, types::*};

/// Frames of one call at most: bounds it.
pub(crate) const MOST: usize = 1024;

/// Frames to fill, in order.
pub(crate) struct Burst<'a> {
    room: &'a mut [u32; MRC_CORE_MAX_PORTS],
    frames: &'a mut [mrc_core_frame],
    pub(crate) filled: usize,
    /// Ports with room.
    free: PortMask,
    /// For headers that are asked for when no frame is left, which end nowhere.
    spare: [u8; MAX_HEADER_LEN],
}

impl<'a> Burst<'a> {
    /// # Safety
    /// Each frame's headers point to [`MAX_HEADER_LEN`] bytes that nobody else uses meanwhile.
    pub(crate) unsafe fn new(room: &'a mut [u32; MRC_CORE_MAX_PORTS], frames: &'a mut [mrc_core_frame]) -> Self {
        let mut free = PortMask::NONE;
        for (plane, &left) in room.iter().enumerate() {
            if left > 0 {
                free = free.with(PortNum::from_plane(plane as u8));
            }
        }
        Self { room, frames, filled: 0, free, spare: [0; MAX_HEADER_LEN] }
    }
}

impl FrameSink for Burst<'_> {
    #[inline]
    fn ports(&self) -> PortMask {
        if self.filled < self.frames.len() { self.free } else { PortMask::NONE }
    }

    #[inline]
    fn headers(&mut self) -> &mut [u8; MAX_HEADER_LEN] {
        match self.frames.get(self.filled) {
            // SAFETY: promised to `new`; bytes have no alignment; the borrow of `self` keeps it the only one.
            Some(frame) => unsafe { &mut *frame.headers.cast() },
            None => &mut self.spare,
        }
    }

    #[inline]
    fn push(&mut self, transmit: Transmit) {
        if let Some(frame) = self.frames.get_mut(self.filled) {
            frame.tx = convert::transmit(&transmit);
            self.filled = self.filled.saturating_add(1);
        }
        if let Some(left) = self.room.get_mut(usize::from(transmit.port.plane())) {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.free = self.free.without(transmit.port);
            }
        }
    }
}

/// Received frames, in order.
pub(crate) struct Arrivals<'a> {
    frames: &'a mut [mrc_core_arrival],
    taken: usize,
}

impl<'a> Arrivals<'a> {
    /// # Errors
    /// What is wrong with one of the frames.
    ///
    /// # Safety
    /// Each frame's `head` is NULL or points to `head_len` readable bytes.
    pub(crate) unsafe fn new(frames: &'a mut [mrc_core_arrival]) -> Result<Self, Fault> {
        for frame in frames.iter() {
            convert::rx(&frame.rx)?;
            // SAFETY: promised.
            unsafe { border::slice(frame.head, frame.head_len as usize, "head")? };
        }
        Ok(Self { frames, taken: 0 })
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken
    }
}

impl FrameSource for Arrivals<'_> {
    fn next(&mut self) -> Option<(RxMeta, &[u8])> {
        let frame = self.frames.get(self.taken)?;
        self.taken = self.taken.saturating_add(1);
        // SAFETY: promised to `new`, which has looked at both.
        let head = unsafe { border::slice(frame.head, frame.head_len as usize, "head") };
        Some((convert::rx(&frame.rx).ok()?, head.ok()?))
    }

    fn peek(&self, ahead: usize) -> Option<&[u8]> {
        let frame = self.frames.get(self.taken.saturating_add(ahead))?;
        // SAFETY: promised to `new`, which has looked at it.
        unsafe { border::slice(frame.head, frame.head_len as usize, "head") }.ok()
    }

    fn done(&mut self, result: Result<Received, Discard>) {
        let Some(frame) = self.taken.checked_sub(1).and_then(|last| self.frames.get_mut(last)) else { return };
        (frame.code, frame.place) = match result {
            Ok(Received::Nothing) => (MRC_CORE_OK, convert::nowhere()),
            Ok(Received::Place(at)) => (MRC_CORE_SOME, convert::placement(&at)),
            Err(why) => (Fault::from(why).code, convert::nowhere()),
        };
    }
}
