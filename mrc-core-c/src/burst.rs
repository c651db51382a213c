//! The sink over a caller's array of frames.

use mrc_core::{FrameSink, MAX_HEADER_LEN, PortMask, Transmit};
use mrc_wire::PortNum;

use crate::{codes::*, convert, types::*};

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
            self.filled += 1;
        }
        if let Some(left) = self.room.get_mut(usize::from(transmit.port.plane())) {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.free = self.free.without(transmit.port);
            }
        }
    }
}
