//! Packets inside the fabric: real header bytes and a length, no payload. Owns the arena they live in.

use mrc_core::Prefetch;

use crate::prefetch::Caches;

/// Header bytes a packet can hold; the longest MRC header stack (SRv6 with SRH, IPv6, SACK, ICRC) takes 178.
pub const HEADER_MAX: usize = 192;

/// Where the payload of a packet lies, so that whoever receives it can copy the bytes from memory to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PayloadTag {
    /// Index of the host that sent it.
    pub host: u32,
    /// Memory region, numbered by that host.
    pub region: u32,
    /// First byte within the region.
    pub offset: u64,
    /// Payload bytes, without padding.
    pub len: u32,
    /// Packets that hosts had sent before this one, modulo 2^32: the fabric writes it.
    pub(crate) sent: u32,
}

/// One frame on its way: four cache lines, the first of which holds all that a switch reads.
#[repr(C, align(64))]
#[derive(Clone)]
pub struct Packet {
    /// Bytes of the frame on the wire, from the Ethernet header through the ICRC.
    pub wire_len: u32,
    header_len: u16,
    /// Whether it travels in the control class: by its DSCP when its host sent it, or because it was trimmed.
    pub(crate) control: bool,
    /// [`CORRUPT`], [`TRIMMED`], [`LOADED`], and those of `telemetry`.
    pub(crate) flags: u8,
    header: [u8; HEADER_MAX],
    /// The payload's place in the sender's memory, length 0 for none.
    pub payload: PayloadTag,
    /// For the schemes of the switches that it crosses: all zeros when its host sends it.
    pub scratch: [u8; 16],
    /// Port it came in by, to the switch whose queue it stands in; written where PFC or cut-through ask for it.
    pub(crate) ingress: u32,
}

/// A link changed bits that its own checksum does not cover.
pub(crate) const CORRUPT: u8 = 1;
/// A switch cut the payload off.
pub(crate) const TRIMMED: u8 = 2;
/// Its host sent it with payload.
pub(crate) const LOADED: u8 = 16;

impl Packet {
    const EMPTY: Self = Self {
        wire_len: 0,
        header_len: 0,
        control: false,
        flags: 0,
        header: [0; HEADER_MAX],
        payload: PayloadTag { host: 0, region: 0, offset: 0, len: 0, sent: 0 },
        scratch: [0; 16],
        ingress: 0,
    };

    /// Takes over frame and payload of another packet.
    pub(crate) fn copy_frame(&mut self, from: &Self) {
        let Self { wire_len, header_len, payload, scratch, header, .. } = from;
        (self.wire_len, self.header_len, self.payload) = (*wire_len, *header_len, *payload);
        (self.scratch, self.header) = (*scratch, *header);
    }

    /// The cache line that every switch reads.
    #[inline]
    pub(super) fn fetch(&self) {
        Caches.prefetch(&self.wire_len);
    }

    /// The other lines, which hosts read as well.
    #[inline]
    pub(super) fn fetch_rest(&self) {
        // The first line ends with the 56th byte.
        Caches.prefetch_all([&self.header[64], &self.header[128]]);
        Caches.prefetch(&self.payload.len);
    }

    /// Whether a link changed its bits: a checksum over the whole packet would not match.
    #[inline]
    pub fn is_corrupt(&self) -> bool {
        self.flags & CORRUPT != 0
    }

    /// Whether a switch cut its payload off.
    #[inline]
    pub fn is_trimmed(&self) -> bool {
        self.flags & TRIMMED != 0
    }

    /// An empty packet, for callers that keep one outside a fabric.
    pub const fn new() -> Self {
        Self::EMPTY
    }

    /// The header bytes, from the Ethernet header on.
    #[inline]
    pub fn header(&self) -> &[u8] {
        &self.header[..usize::from(self.header_len).min(HEADER_MAX)]
    }

    /// The header bytes, to change in place.
    #[inline]
    pub fn header_mut(&mut self) -> &mut [u8] {
        let len = usize::from(self.header_len).min(HEADER_MAX);
        &mut self.header[..len]
    }

    /// The whole buffer, to write a header into; then say with [`Packet::set_header_len`] how long it is.
    pub fn buffer(&mut self) -> &mut [u8; HEADER_MAX] {
        &mut self.header
    }

    /// Declares the first `len` bytes of the buffer the header.
    ///
    /// # Panics
    /// When `len` is above [`HEADER_MAX`]: the caller wrote past its buffer.
    pub fn set_header_len(&mut self, len: usize) {
        assert!(len <= HEADER_MAX, "a header of {len} B does not fit {HEADER_MAX} B");
        self.header_len = len as u16;
    }
}

impl Default for Packet {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Storage for the packets of a run, or of a share of its fabric. A packet that leaves for another share moves there as it
/// is: its header is not copied.
#[derive(Default)]
pub(crate) struct Arena {
    slots: Vec<Option<Box<Packet>>>,
    /// Slots whose packet is not in use.
    free: Vec<u32>,
    /// Slots without a packet.
    vacant: Vec<u32>,
}

/// Packets not in use that a share keeps where more of them come in than leave.
const SPARE: usize = 1024;

impl Arena {
    /// A slot whose content is whatever the last user left, except that it has neither payload nor flags.
    #[inline]
    pub(crate) fn take(&mut self) -> u32 {
        if let Some(id) = self.free.pop() {
            let slot = self.get_mut(id);
            slot.payload.len = 0;
            slot.scratch = [0; 16];
            slot.flags = 0;
            return id;
        }
        self.put(Box::new(Packet::EMPTY))
    }

    #[inline]
    pub(crate) fn release(&mut self, id: u32) {
        self.free.push(id);
    }

    /// A packet that another share sent.
    pub(crate) fn put(&mut self, packet: Box<Packet>) -> u32 {
        let slot = if self.free.len() > SPARE { self.free.pop() } else { self.vacant.pop() };
        match slot {
            Some(id) => self.slots[id as usize] = Some(packet),
            None => self.slots.push(Some(packet)),
        }
        slot.unwrap_or_else(|| (self.slots.len() - 1) as u32)
    }

    /// Takes a packet out, for another share.
    pub(crate) fn leave(&mut self, id: u32) -> Option<Box<Packet>> {
        self.vacant.push(id);
        self.slots[id as usize].take()
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> &Packet {
        self.slots[id as usize].as_deref().expect("a packet that has not left")
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> &mut Packet {
        self.slots[id as usize].as_deref_mut().expect("a packet that has not left")
    }

    /// All packets alive.
    pub(crate) fn packets(&self) -> impl Iterator<Item = &Packet> {
        let mut alive = vec![true; self.slots.len()];
        self.free.iter().for_each(|&id| alive[id as usize] = false);
        self.slots.iter().zip(alive).filter(|(_, alive)| *alive).filter_map(|(packet, _)| packet.as_deref())
    }

    /// Packets alive now.
    pub(crate) fn alive(&self) -> usize {
        self.slots.len() - self.free.len() - self.vacant.len()
    }
}

/// A packet in a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) id: u32,
    /// On the wire.
    pub(crate) bytes: u32,
}

/// A queue of packets, counted in packets and bytes: a ring, so that who queues a packet or takes one out reads no packet.
#[derive(Default)]
pub(crate) struct Fifo {
    /// As many places as a power of two, or none.
    ring: Box<[Waiting]>,
    head: u32,
    pub(crate) len: u32,
    pub(crate) bytes: u32,
}

impl Fifo {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) fn push(&mut self, packet: Waiting) {
        if self.len as usize == self.ring.len() {
            self.grow();
        }
        let at = self.place(self.len);
        self.ring[at] = packet;
        self.bytes += packet.bytes;
        self.len += 1;
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        let first = self.head()?;
        self.head = self.place(1) as u32;
        self.bytes -= first.bytes;
        self.len -= 1;
        Some(first)
    }

    /// The first packet.
    #[inline]
    pub(crate) fn head(&self) -> Option<Waiting> {
        (self.len > 0).then(|| self.ring[self.head as usize])
    }

    /// Both ends.
    #[inline]
    pub(super) fn fetch(&self) {
        Caches.prefetch_all(self.ring.get(self.head as usize));
        Caches.prefetch_all(self.ring.get(self.place(self.len)));
    }

    /// The packet `back` places before the last one.
    pub(crate) fn nth_back(&self, back: u32) -> Option<Waiting> {
        (back < self.len).then(|| self.ring[self.place(self.len - 1 - back)])
    }

    /// Takes the packet `back` places before the last one out.
    pub(crate) fn remove_back(&mut self, back: u32) -> Option<Waiting> {
        let packet = self.nth_back(back)?;
        for nth in self.len - 1 - back..self.len - 1 {
            self.ring[self.place(nth)] = self.ring[self.place(nth + 1)];
        }
        self.bytes -= packet.bytes;
        self.len -= 1;
        Some(packet)
    }

    /// Where the packet `nth` places behind the first one is.
    #[inline]
    fn place(&self, nth: u32) -> usize {
        (self.head.wrapping_add(nth) as usize) & (self.ring.len().wrapping_sub(1))
    }

    #[cold]
    fn grow(&mut self) {
        let mut ring = vec![Waiting::default(); (self.ring.len() * 2).max(8)].into_boxed_slice();
        for (nth, place) in (0..self.len).zip(&mut ring) {
            *place = self.ring[self.place(nth)];
        }
        (self.ring, self.head) = (ring, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_fills_four_cache_lines() {
        assert_eq!(size_of::<Packet>(), 256);
        let read = std::mem::offset_of!(Packet, header) + 14 + 40 + 2;
        assert!(read <= 64, "switches read up to the UDP source port: {read}");
    }

    #[test]
    fn fifo_keeps_order_and_bytes() {
        let mut fifo = Fifo::default();
        let [a, b, c] = [1, 2, 3].map(|nth| Waiting { id: 10 + nth, bytes: nth });
        for packet in [a, b, c] {
            fifo.push(packet);
        }
        assert_eq!((fifo.len, fifo.bytes, fifo.head()), (3, 6, Some(a)));
        assert_eq!([fifo.pop(), fifo.pop()], [Some(a), Some(b)]);
        fifo.push(a);
        assert_eq!([fifo.pop(), fifo.pop(), fifo.pop()], [Some(c), Some(a), None]);
        assert!(fifo.is_empty());
        assert_eq!(fifo.bytes, 0);
    }

    #[test]
    fn any_packet_can_leave_a_fifo() {
        // From wherever the ring begins, with room and without.
        for (skip, count) in [(0, 4), (5, 4), (6, 8), (3, 16), (7, 9)] {
            for out in 0..count {
                let mut fifo = Fifo::default();
                for _ in 0..skip {
                    fifo.push(Waiting { id: 99, bytes: 9 });
                    fifo.pop();
                }
                let all: Vec<Waiting> = (0..count).map(|id| Waiting { id, bytes: 1 << id }).collect();
                all.iter().for_each(|&packet| fifo.push(packet));
                assert_eq!(fifo.nth_back(count), None);
                assert_eq!(fifo.remove_back(count - 1 - out), Some(all[out as usize]));
                assert_eq!((fifo.len, fifo.bytes), (count - 1, (1 << count) - 1 - (1 << out)));
                for packet in all.iter().filter(|packet| packet.id != out) {
                    assert_eq!(fifo.pop(), Some(*packet));
                }
                assert!(fifo.is_empty() && fifo.pop().is_none());
            }
        }
    }

    #[test]
    fn a_packet_that_leaves_makes_room() {
        let (mut here, mut there) = (Arena::default(), Arena::default());
        let id = here.take();
        here.get_mut(id).wire_len = 77;
        let packet = here.leave(id).unwrap();
        assert_eq!((here.alive(), here.packets().count()), (0, 0));
        let far = there.put(packet);
        assert_eq!((there.get(far).wire_len, there.alive(), there.packets().count()), (77, 1, 1));
        assert_eq!(here.take(), id, "the slot is used again");
        // Where packets only come in, few are kept.
        for _ in 0..10 * SPARE {
            let id = there.put(Box::new(Packet::EMPTY));
            there.release(id);
        }
        assert!(there.slots.len() <= SPARE + 2);
        assert_eq!(there.alive(), 1);
    }

    #[test]
    fn the_arena_reuses_slots() {
        let mut arena = Arena::default();
        let first = arena.take();
        arena.get_mut(first).payload.len = 9;
        arena.release(first);
        assert_eq!(arena.take(), first);
        assert_eq!(arena.get(first).payload.len, 0);
        assert_eq!(arena.alive(), 1);
    }
}
