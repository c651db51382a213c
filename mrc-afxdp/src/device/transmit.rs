//! Frames of one turn on their way out: the [`FrameSink`] over the ports. The engine writes headers into it; payload, pad
//! and ICRC are added here, and each port gets its frames in one batch.

use std::collections::BTreeMap;

use mrc_core::{FrameSink, MAX_HEADER_LEN, PortMask, Transmit};
use mrc_wire::icrc;

use super::Memory;
use super::progress::port_of;
use super::recorder::Recorder;
use crate::port::{Port, TxSlot};

/// Where a frame has the address of the interface that sends it.
const SOURCE_MAC: core::ops::Range<usize> = 6..12;

/// Payload bytes by plane and EV.
type Paths = BTreeMap<(u8, u32), u64>;

/// What is known of a port between turns.
#[derive(Debug, Clone, Copy, Default)]
struct Lane {
    /// Frames it takes, at least.
    room: usize,
    /// Frames still with the kernel.
    pending: usize,
}

/// The way out, between turns.
pub(super) struct Outlet {
    lanes: Box<[Lane]>,
    headers: [u8; MAX_HEADER_LEN],
    /// Payload bytes by path, if they are to be counted.
    paths: Option<Paths>,
}

impl Outlet {
    pub(super) fn new(ports: usize, count_paths: bool) -> Self {
        let lanes = vec![Lane::default(); ports].into_boxed_slice();
        Self { lanes, headers: [0; MAX_HEADER_LEN], paths: count_paths.then(Paths::new) }
    }

    /// Another port has this plane from now on.
    pub(super) fn replaced(&mut self, plane: usize) {
        if let Some(lane) = self.lanes.get_mut(plane) {
            *lane = Lane::default();
        }
    }

    /// Whether the kernel still holds frames: it needs another kick.
    pub(super) fn is_pending(&self) -> bool {
        self.lanes.iter().any(|lane| lane.pending > 0)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = (&(u8, u32), &u64)> {
        self.paths.iter().flatten()
    }

    /// For the frames of one turn; [`Burst::finish`] ends it.
    pub(super) fn burst<'a, P: Port>(
        &'a mut self,
        ports: &'a mut [P],
        memory: &'a Memory,
        recorder: &'a mut Recorder,
    ) -> Burst<'a, P> {
        let mut free = PortMask::NONE;
        for (plane, (lane, port)) in self.lanes.iter_mut().zip(ports.iter_mut()).enumerate() {
            if lane.room == 0 {
                lane.room = port.tx_free();
            }
            if lane.room > 0 {
                free = free.with(port_of(plane));
            }
        }
        Burst { outlet: self, ports, memory, recorder, free, touched: PortMask::NONE, in_order: 0, left: 0, made: 0 }
    }
}

/// The frames of one turn.
pub(super) struct Burst<'a, P> {
    outlet: &'a mut Outlet,
    ports: &'a mut [P],
    memory: &'a Memory,
    recorder: &'a mut Recorder,
    /// Ports with room.
    free: PortMask,
    /// Ports with frames that were not handed over yet.
    touched: PortMask,
    /// How often frames still leave in the order in which they were made, over all ports, rather than in batches by port.
    in_order: usize,
    /// Frames that may still be made.
    left: usize,
    made: usize,
}

impl<P: Port> Burst<'_, P> {
    /// Takes up to so many frames from now on.
    pub(super) fn allow(&mut self, frames: usize) {
        self.left = frames;
    }

    /// The next frames, while they change ports so many times, leave one after the other.
    pub(super) fn keep_order(&mut self, times: usize) {
        self.in_order = times;
    }

    /// Frames made.
    pub(super) fn made(&self) -> usize {
        self.made
    }

    /// Hands the frames to the kernel, and reminds it of those that it has not sent yet.
    pub(super) fn finish(mut self) {
        self.flush(true);
    }

    fn flush(&mut self, remind: bool) {
        for (plane, (lane, port)) in self.outlet.lanes.iter_mut().zip(self.ports.iter_mut()).enumerate() {
            if self.touched.contains(port_of(plane)) || (remind && lane.pending > 0) {
                lane.pending = port.flush().unwrap_or_else(|error| {
                    log::debug!("plane {plane}: {error}");
                    0
                });
            }
        }
        self.touched = PortMask::NONE;
    }
}

impl<P: Port> FrameSink for Burst<'_, P> {
    #[inline]
    fn ports(&self) -> PortMask {
        if self.left == 0 { PortMask::NONE } else { self.free }
    }

    #[inline]
    fn headers(&mut self) -> &mut [u8; MAX_HEADER_LEN] {
        // The port, and with it the frame's place, is known when they are written.
        &mut self.outlet.headers
    }

    fn push(&mut self, transmit: Transmit) {
        self.left = self.left.saturating_sub(1);
        self.made += 1;
        let number = transmit.port;
        if self.in_order > 0 && !self.touched.is_empty() && !self.touched.contains(number) {
            self.in_order -= 1;
            self.flush(false);
        }
        self.touched = self.touched.with(number);
        let Outlet { lanes, headers, paths } = &mut *self.outlet;
        let plane = usize::from(number.plane());
        let (Some(port), Some(lane)) = (self.ports.get_mut(plane), lanes.get_mut(plane)) else { return };
        let mac = port.mac();
        if let Some(slot) = port.tx_slot()
            && fill(slot, headers, mac, &transmit, self.memory)
        {
            self.recorder.sent(number.plane(), headers, transmit.header_len, transmit.frame_len());
            if let (Some(paths), Some(payload)) = (paths, transmit.payload) {
                *paths.entry((number.plane(), transmit.ev.0)).or_default() += u64::from(payload.len);
            }
        }
        lane.room = lane.room.saturating_sub(1);
        if lane.room == 0 {
            lane.room = port.tx_free();
            if lane.room == 0 {
                self.free = self.free.without(number);
            }
        }
    }
}

/// Builds the frame: headers, payload, pad, ICRC. `false` when the region is gone or the buffer is too short, and then
/// nothing is sent.
fn fill(
    mut slot: TxSlot<'_>,
    headers: &[u8; MAX_HEADER_LEN],
    mac: [u8; 6],
    transmit: &Transmit,
    memory: &Memory,
) -> bool {
    let len = transmit.frame_len();
    let buffer = slot.buffer();
    let filled = write(buffer, headers, transmit, memory, len).is_some();
    // The interface may be another one than when the engine made its headers.
    if let Some(source) = buffer.get_mut(SOURCE_MAC).filter(|_| filled) {
        source.copy_from_slice(&mac);
    }
    if filled {
        slot.commit(len);
    }
    filled
}

#[inline]
fn write(
    buffer: &mut [u8],
    headers: &[u8; MAX_HEADER_LEN],
    transmit: &Transmit,
    memory: &Memory,
    len: usize,
) -> Option<()> {
    // Of a known length, so a handful of wide stores; what is too much is overwritten or not sent.
    *buffer.first_chunk_mut()? = *headers;
    let frame = buffer.get_mut(..len)?;
    let covered = len.checked_sub(icrc::LEN)?;
    let (_, rest) = frame.get_mut(..covered)?.split_at_mut_checked(transmit.header_len)?;
    let payload_len = transmit.payload.map_or(0, |payload| payload.len as usize);
    let (payload, pad) = rest.split_at_mut_checked(payload_len)?;
    if let Some(source) = transmit.payload {
        memory.get(source.mr.index())?.as_ref()?.gather(source.offset, payload).ok()?;
    }
    for byte in pad {
        *byte = 0;
    }
    //= ICRC-009
    let crc = icrc::compute(frame.get(transmit.l3_offset..covered)?)?;
    *frame.get_mut(covered..)?.first_chunk_mut()? = crc;
    Some(())
}

#[cfg(all(test, not(loom)))]
mod tests;
