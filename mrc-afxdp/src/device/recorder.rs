//! The flight recorder: heads of the last packets of a device, in both directions, in a ring of fixed size. Recording a packet
//! copies [`HEAD`] bytes and reads no clock: packets of a turn have its time. Whoever wants the ring takes it and leaves an
//! empty one in its place, so that the device waits for nobody who writes it down.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mrc_core::{Discard, Instant, MAX_HEADER_LEN};

/// Bytes kept of each packet: all headers of those that have no segment routing header, and mostly no payload.
pub const HEAD: usize = 176;

/// Packets that a device keeps unless told otherwise: 12 MiB.
pub const DEFAULT_PACKETS: usize = 1 << 16;

/// Three cache lines.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Slot {
    at: Instant,
    wire_len: u32,
    kept: u8,
    plane: u8,
    sent: bool,
    /// Why it had no further effect.
    discard: Option<Discard>,
    head: [u8; HEAD],
}

const _: () = assert!(size_of::<Slot>() == 192 && HEAD <= MAX_HEADER_LEN);

const EMPTY: Slot =
    Slot { at: Instant::ZERO, wire_len: 0, kept: 0, plane: 0, sent: false, discard: None, head: [0; HEAD] };

/// The ring.
pub(super) struct Recorder {
    slots: Box<[Slot]>,
    /// Where the next packet goes.
    next: usize,
    count: u64,
    now: Instant,
}

impl Recorder {
    /// One of so many packets; 0: records nothing. Its memory is touched here, not by the packets.
    pub(super) fn new(packets: usize) -> Self {
        Self { slots: vec![EMPTY; packets].into_boxed_slice(), next: 0, count: 0, now: Instant::ZERO }
    }

    /// A turn begins.
    #[inline]
    pub(super) fn turn(&mut self, now: Instant) {
        self.now = now;
    }

    #[inline]
    fn slot(&mut self) -> Option<&mut Slot> {
        let next = self.next + 1;
        let slot = self.slots.get_mut(self.next)?;
        slot.at = self.now;
        self.next = next;
        self.count += 1;
        Some(slot)
    }

    /// Behind every [`Self::slot`].
    #[inline]
    fn wrap(&mut self) {
        if self.next == self.slots.len() {
            self.next = 0;
        }
    }

    /// A frame that leaves: its headers, and its length with payload and ICRC.
    #[inline]
    pub(super) fn sent(&mut self, plane: u8, headers: &[u8; MAX_HEADER_LEN], header_len: usize, len: usize) {
        let Some(slot) = self.slot() else { return };
        (slot.plane, slot.sent, slot.discard) = (plane, true, None);
        (slot.wire_len, slot.kept) = (len as u32, header_len.min(HEAD) as u8);
        // Of a known length, so a handful of wide stores; what is too much is never shown.
        if let Some(head) = headers.first_chunk() {
            slot.head = *head;
        }
        self.wrap();
    }

    /// A frame that arrived.
    #[inline]
    pub(super) fn received(&mut self, plane: u8, head: &[u8], len: usize) {
        let Some(slot) = self.slot() else { return };
        (slot.plane, slot.sent, slot.discard, slot.wire_len) = (plane, false, None, len as u32);
        match head.first_chunk() {
            Some(head) => (slot.head, slot.kept) = (*head, HEAD as u8),
            None => {
                slot.kept = head.len() as u8;
                if let Some(to) = slot.head.get_mut(..head.len()) {
                    to.copy_from_slice(head);
                }
            }
        }
        self.wrap();
    }

    /// The frame that arrived last had no further effect.
    #[cold]
    pub(super) fn discarded(&mut self, why: Discard) {
        let last = self.next.checked_sub(1).unwrap_or_else(|| self.slots.len().saturating_sub(1));
        if let Some(slot) = self.slots.get_mut(last).filter(|_| self.count > 0) {
            slot.discard = Some(why);
        }
    }

    /// What was recorded, at a time of the engine's clock.
    pub(super) fn finish(self, now: Instant) -> Recording {
        Recording { recorder: self, taken_at: now, taken: SystemTime::now() }
    }
}

/// Heads of the last packets of a device.
pub struct Recording {
    recorder: Recorder,
    taken_at: Instant,
    taken: SystemTime,
}

/// A packet of a [`Recording`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedPacket<'a> {
    /// Time since 1970; packets that were handled together have the same.
    pub at: Duration,
    /// Plane, from 0.
    pub plane: u8,
    /// Whether this device sent it.
    pub sent: bool,
    /// Its length on the wire.
    pub wire_len: u32,
    /// Why this device did nothing with it.
    pub discard: Option<Discard>,
    /// Its first bytes.
    pub head: &'a [u8],
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").field("packets", &self.recorder.count).finish_non_exhaustive()
    }
}

impl Recording {
    /// Packets that were overwritten by later ones.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.recorder.count.saturating_sub(self.recorder.slots.len() as u64)
    }

    /// When the ring was taken.
    #[must_use]
    pub fn taken(&self) -> SystemTime {
        self.taken
    }

    /// Packets, oldest first.
    pub fn packets(&self) -> impl Iterator<Item = RecordedPacket<'_>> {
        let Recorder { slots, next, count, .. } = &self.recorder;
        let next = *next;
        let (newer, older) = slots.split_at(next.min(slots.len()));
        let kept = usize::try_from(*count).unwrap_or(usize::MAX).min(slots.len());
        let taken = self.taken.duration_since(UNIX_EPOCH).unwrap_or_default();
        older.iter().chain(newer).skip(slots.len() - kept).map(move |slot| RecordedPacket {
            at: taken.saturating_sub(Duration::from_nanos(self.taken_at.since(slot.at))),
            plane: slot.plane,
            sent: slot.sent,
            wire_len: slot.wire_len,
            discard: slot.discard,
            head: slot.head.get(..usize::from(slot.kept)).unwrap_or_default(),
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn numbered(recorder: Recorder) -> Vec<u8> {
        recorder.finish(Instant::ZERO).packets().map(|packet| packet.head[0]).collect()
    }

    #[test]
    fn the_newest_packets_are_kept_in_order() {
        for (packets, kept) in [(0, 0..0), (3, 0..3), (4, 0..4), (5, 1..5), (8, 4..8), (11, 7..11)] {
            let mut recorder = Recorder::new(4);
            for number in 0..packets {
                recorder.sent(0, &[number; MAX_HEADER_LEN], 100, 100);
            }
            assert_eq!(numbered(recorder), kept.collect::<Vec<_>>(), "of {packets}");
        }
    }

    #[test]
    fn one_of_no_packets_records_nothing() {
        let mut recorder = Recorder::new(0);
        recorder.sent(0, &[1; MAX_HEADER_LEN], 100, 100);
        recorder.received(0, &[1; 60], 60);
        recorder.discarded(Discard::Short);
        assert!(numbered(recorder).is_empty());
    }

    #[test]
    fn a_packet_is_described_and_a_refused_one_says_why() {
        let mut recorder = Recorder::new(3);
        recorder.turn(Instant::from_nanos(1_000));
        recorder.sent(2, &[9; MAX_HEADER_LEN], 130, 4_200);
        recorder.turn(Instant::from_nanos(3_000));
        recorder.received(1, &[8; 60], 64);
        recorder.discarded(Discard::Short);
        recorder.received(1, &[7; 2_000], 9_000);
        // The last place of the ring.
        recorder.discarded(Discard::Duplicate);
        let recording = recorder.finish(Instant::from_nanos(4_000));
        let end = recording.taken().duration_since(UNIX_EPOCH).unwrap();
        let all: Vec<_> = recording.packets().collect();
        let of = |packet: &RecordedPacket<'_>| {
            (packet.plane, packet.sent, packet.wire_len, packet.discard, packet.head.len(), packet.head[0])
        };
        assert_eq!(
            all.iter().map(of).collect::<Vec<_>>(),
            [
                (2, true, 4_200, None, 130, 9),
                (1, false, 64, Some(Discard::Short), 60, 8),
                (1, false, 9_000, Some(Discard::Duplicate), HEAD, 7),
            ]
        );
        assert_eq!(all.iter().map(|packet| (end - packet.at).as_nanos()).collect::<Vec<_>>(), [3_000, 1_000, 1_000]);
        assert_eq!(recording.lost(), 0);
    }
}
