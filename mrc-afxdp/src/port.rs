//! The door between the progress loop and a network interface: [`Port`], one interface = one plane.
//!
//! The loop gets slices and counters; rings, chunks and system calls stay behind. No call allocates, and system calls
//! happen once per batch, in [`Port::rx_next`] (raw socket only) and [`Port::flush`].

use core::ops::Range;
use std::os::fd::BorrowedFd;

use crate::config::Obtained;
use crate::{AbsentPort, RawPort, XskPort};

/// Slices a received frame may consist of; four hold 15 360 bytes, more than any Ethernet jumbo frame.
pub const MAX_FRAGMENTS: usize = 4;

/// One received Ethernet frame, readable until the port is asked for the next one.
#[derive(Debug, Clone, Copy)]
pub struct RxFrame<'a> {
    fragments: [&'a [u8]; MAX_FRAGMENTS],
    count: u8,
    len: u32,
}

impl<'a> RxFrame<'a> {
    pub(crate) const EMPTY: Self = Self { fragments: [&[]; MAX_FRAGMENTS], count: 0, len: 0 };

    /// A frame of one slice.
    pub fn from_slice(bytes: &'a [u8]) -> Self {
        Self { fragments: [bytes, &[], &[], &[]], count: 1, len: bytes.len() as u32 }
    }

    /// A frame of up to [`MAX_FRAGMENTS`] slices; `None` when there are more.
    pub fn from_fragments(parts: &[&'a [u8]]) -> Option<Self> {
        let mut frame = Self::EMPTY;
        for part in parts {
            frame.push(part)?;
        }
        Some(frame)
    }

    pub(crate) fn push(&mut self, part: &'a [u8]) -> Option<()> {
        *self.fragments.get_mut(self.count as usize)? = part;
        self.count += 1;
        self.len += part.len() as u32;
        Some(())
    }

    /// The slices in order; at least one.
    pub fn fragments(&self) -> &[&'a [u8]] {
        self.fragments.get(..self.count as usize).unwrap_or(&[])
    }

    /// The first slice: all headers lie in it.
    pub fn head(&self) -> &'a [u8] {
        self.fragments[0]
    }

    /// Bytes of the whole frame.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// A frame without bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The frame as one slice when it is one.
    pub fn contiguous(&self) -> Option<&'a [u8]> {
        (self.count == 1).then_some(self.fragments[0])
    }

    /// The slices that make up bytes `range` of the frame, in order; stops at the end of the frame.
    pub fn pieces(&self, range: Range<usize>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let Range { mut start, end } = range;
        let mut left = end.saturating_sub(start);
        self.fragments.into_iter().filter_map(move |part| {
            if left == 0 {
                return None;
            }
            let Some(rest) = part.get(start..) else {
                start -= part.len();
                return None;
            };
            start = 0;
            let piece = rest.get(..left).unwrap_or(rest);
            left -= piece.len();
            (!piece.is_empty()).then_some(piece)
        })
    }

    /// Copies the frame to the start of `out` and returns it as one slice; `None` when `out` is too short.
    pub fn copy_to<'o>(&self, out: &'o mut [u8]) -> Option<&'o mut [u8]> {
        let out = out.get_mut(..self.len())?;
        let mut rest = &mut *out;
        for part in self.fragments() {
            let (head, tail) = rest.split_at_mut_checked(part.len())?;
            head.copy_from_slice(part);
            rest = tail;
        }
        Some(out)
    }
}

/// A transmit buffer of the port: write an Ethernet frame at its start, then [`TxSlot::commit`].
///
/// Dropped without commit it sends nothing and is handed out again. The bytes are whatever was there before.
#[must_use = "nothing is sent without `commit`"]
#[derive(Debug)]
pub struct TxSlot<'p> {
    buffer: &'p mut [u8],
    /// Where the port looks, at its next call, whether and how much to send.
    staged_len: &'p mut u32,
}

impl<'p> TxSlot<'p> {
    pub(crate) fn new(buffer: &'p mut [u8], staged_len: &'p mut u32) -> Self {
        *staged_len = 0;
        Self { buffer, staged_len }
    }

    /// The whole buffer, 8192 contiguous bytes.
    pub fn buffer(&mut self) -> &mut [u8] {
        self.buffer
    }

    /// Queues the first `len` bytes as one frame; it leaves at the next [`Port::flush`].
    ///
    /// A `len` beyond the buffer is cut to it; zero sends nothing.
    pub fn commit(self, len: usize) {
        *self.staged_len = len.min(self.buffer.len()) as u32;
    }
}

/// Why a flush could not hand everything to the interface. Frames not taken stay queued unless noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// The interface is down; queued frames leave when it comes back (a raw-socket port drops them).
    #[error("the interface is down: queued frames wait (set it up with `ip link set IFACE up`)")]
    LinkDown,
    /// The interface disappeared; the port never works again.
    #[error("the interface is gone: close this port and open a new one when it is back")]
    Gone,
    /// The kernel refused for another reason.
    #[error("the kernel refused to send: OS error {0}")]
    Os(i32),
}

/// Counters of a port since it was opened. Kernel counters are read by [`Port::stats`], the rest is kept by the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortStats {
    /// Frames handed out.
    pub rx_frames: u64,
    /// Bytes of these frames.
    pub rx_bytes: u64,
    /// Frames that came in more than one fragment.
    pub rx_multi_buffer: u64,
    /// Frames of more than [`MAX_FRAGMENTS`] fragments, or longer than a raw-socket buffer: dropped.
    pub rx_too_long: u64,
    /// Descriptors from the kernel that name no chunk lent to it: ignored. Not zero means a kernel or driver defect.
    pub rx_invalid: u64,
    /// Kernel: frames dropped because they did not fit a chunk, or no room in the socket.
    pub rx_dropped: u64,
    /// Kernel: frames dropped because the receive ring was full.
    pub rx_ring_full: u64,
    /// Kernel: times the fill ring was found empty.
    pub rx_fill_empty: u64,
    /// Frames committed.
    pub tx_frames: u64,
    /// Bytes of these frames.
    pub tx_bytes: u64,
    /// Frames whose buffer came back from the kernel ("taken by the interface", not "delivered").
    pub tx_completed: u64,
    /// Frames dropped by the port itself because the interface was down or refused them (raw socket only).
    pub tx_dropped: u64,
    /// Kernel: descriptors refused as malformed.
    pub tx_invalid: u64,
    /// Completions that name no transmit buffer lent to the kernel: ignored.
    pub tx_invalid_completions: u64,
    /// Send system calls.
    pub tx_kicks: u64,
    /// Send system calls that ended in "try again" (the kernel's budget per call was used, or its queue was full).
    pub tx_kicks_again: u64,
    /// Send system calls refused because the interface was down.
    pub tx_link_down: u64,
}

/// One network interface as the progress loop sees it.
///
/// A turn: any number of [`rx_next`](Port::rx_next) and one [`rx_done`](Port::rx_done), then any number of
/// [`tx_slot`](Port::tx_slot) + commit, then one [`flush`](Port::flush).
pub trait Port {
    /// The next received frame, in place of the one before, whose buffers are free from now on. `None`: no more for now.
    /// Never blocks. At most `most` frames, with this one, are asked for in this batch: a port that takes several from the
    /// kernel at once takes no more, since [`Port::fd`] would not tell of those.
    fn rx_next(&mut self, most: usize) -> Option<RxFrame<'_>>;

    /// The frame that [`rx_next`](Port::rx_next) gave last; `None` when it gave none since [`rx_done`](Port::rx_done).
    fn rx_frame(&self) -> Option<RxFrame<'_>>;

    /// Before a batch of `most` frames: takes from the kernel what [`rx_peek`](Port::rx_peek) is to show, at most so many. They are
    /// the first ones that [`rx_next`](Port::rx_next) gives.
    fn rx_begin(&mut self, most: usize) {
        let _ = most;
    }

    /// The beginning of the frame that comes `ahead` frames behind the next one, where it was taken from the kernel by now.
    fn rx_peek(&self, ahead: usize) -> Option<&[u8]> {
        let _ = ahead;
        None
    }

    /// Ends a batch of [`rx_next`](Port::rx_next): buffers go back to the kernel, those of the last frame, too.
    fn rx_done(&mut self);

    /// Calls `f` for up to `max` received frames and returns how many there were. Never blocks.
    fn rx_batch<F: FnMut(RxFrame<'_>)>(&mut self, max: usize, mut f: F) -> usize {
        let mut received = 0;
        while received < max
            && let Some(frame) = self.rx_next(max - received)
        {
            received += 1;
            f(frame);
        }
        self.rx_done();
        received
    }

    /// A free transmit buffer; `None` when all are queued or with the kernel: flush, and try in a later turn.
    fn tx_slot(&mut self) -> Option<TxSlot<'_>>;

    /// Hands committed frames to the kernel and takes back the buffers it is done with. Bounded, never blocks.
    ///
    /// Returns how many frames are still with the kernel; call again later while that is not zero, since a kernel whose
    /// budget was used continues only when asked.
    ///
    /// # Errors
    /// [`PortError`]; the port stays usable except after [`PortError::Gone`].
    fn flush(&mut self) -> Result<usize, PortError>;

    /// How many more [`tx_slot`](Port::tx_slot) calls succeed without a flush. Reaps completions, no system call.
    fn tx_free(&mut self) -> usize;

    /// Readable when frames wait; for `poll(2)` when the loop sleeps.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Counters; costs a system call.
    fn stats(&self) -> PortStats;

    /// What the port got when it was opened.
    fn obtained(&self) -> Obtained;

    /// Index of the interface in its network namespace.
    fn ifindex(&self) -> u32;

    /// Name the interface had when the port was opened.
    fn name(&self) -> &str;

    /// Ethernet address of the interface.
    fn mac(&self) -> [u8; 6];
}

/// Any kind of port, so that one loop drives a mix of them without boxes.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a device holds a handful of ports; a box would cost a load per call")]
pub enum AnyPort {
    /// AF_XDP.
    Xsk(XskPort),
    /// Packet socket.
    Raw(RawPort),
    /// The interface does not exist.
    Absent(AbsentPort),
}

macro_rules! any {
    ($self:ident, $port:ident => $call:expr) => {
        match $self {
            Self::Xsk($port) => $call,
            Self::Raw($port) => $call,
            Self::Absent($port) => $call,
        }
    };
}

impl Port for AnyPort {
    #[inline]
    fn rx_next(&mut self, most: usize) -> Option<RxFrame<'_>> {
        any!(self, port => port.rx_next(most))
    }
    #[inline]
    fn rx_frame(&self) -> Option<RxFrame<'_>> {
        any!(self, port => port.rx_frame())
    }
    fn rx_begin(&mut self, most: usize) {
        any!(self, port => port.rx_begin(most))
    }
    #[inline]
    fn rx_peek(&self, ahead: usize) -> Option<&[u8]> {
        any!(self, port => port.rx_peek(ahead))
    }
    fn rx_done(&mut self) {
        any!(self, port => port.rx_done())
    }
    fn tx_slot(&mut self) -> Option<TxSlot<'_>> {
        any!(self, port => port.tx_slot())
    }
    fn flush(&mut self) -> Result<usize, PortError> {
        any!(self, port => port.flush())
    }
    fn tx_free(&mut self) -> usize {
        any!(self, port => port.tx_free())
    }
    fn fd(&self) -> BorrowedFd<'_> {
        any!(self, port => port.fd())
    }
    fn stats(&self) -> PortStats {
        any!(self, port => port.stats())
    }
    fn obtained(&self) -> Obtained {
        any!(self, port => port.obtained())
    }
    fn ifindex(&self) -> u32 {
        any!(self, port => port.ifindex())
    }
    fn name(&self) -> &str {
        any!(self, port => port.name())
    }
    fn mac(&self) -> [u8; 6] {
        any!(self, port => port.mac())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cut_across_fragments() {
        let frame = RxFrame::from_fragments(&[b"abcd", b"efgh", b"ij"]).unwrap();
        assert_eq!(frame.len(), 10);
        assert!(frame.contiguous().is_none());
        let cut = |range| frame.pieces(range).collect::<Vec<_>>();
        assert_eq!(cut(0..10), [&b"abcd"[..], b"efgh", b"ij"]);
        assert_eq!(cut(2..9), [&b"cd"[..], b"efgh", b"i"]);
        assert_eq!(cut(4..8), [&b"efgh"[..]]);
        assert_eq!(cut(5..6), [&b"f"[..]]);
        assert_eq!(cut(8..99), [&b"ij"[..]]);
        assert!(cut(3..3).is_empty());
        assert!(cut(10..20).is_empty());
    }

    #[test]
    fn more_fragments_than_fit_are_refused() {
        assert!(RxFrame::from_fragments(&[&b"a"[..]; MAX_FRAGMENTS]).is_some());
        assert!(RxFrame::from_fragments(&[&b"a"[..]; MAX_FRAGMENTS + 1]).is_none());
    }

    #[test]
    fn copy_to_joins_fragments_or_refuses() {
        let frame = RxFrame::from_fragments(&[b"abc", b"de"]).unwrap();
        let mut out = [0; 8];
        assert_eq!(frame.copy_to(&mut out).unwrap(), b"abcde");
        assert!(frame.copy_to(&mut out[..4]).is_none());
    }

    #[test]
    fn commit_is_cut_to_the_buffer_and_drop_sends_nothing() {
        let (mut buffer, mut staged) = ([0u8; 16], 7);
        drop(TxSlot::new(&mut buffer, &mut staged));
        assert_eq!(staged, 0);
        TxSlot::new(&mut buffer, &mut staged).commit(99);
        assert_eq!(staged, 16);
    }
}
