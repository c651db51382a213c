//! Packets inside the fabric: real header bytes and a length, no payload. Owns the arena they live in.

/// Header bytes a packet can hold; the longest MRC header stack (SRv6 with SRH, IPv6, SACK, ICRC) takes 178.
pub const HEADER_MAX: usize = 192;

const NIL: u32 = u32::MAX;

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

/// One frame on its way: four cache lines, the first of which hold all that a switch reads.
#[repr(C, align(64))]
#[derive(Clone)]
pub struct Packet {
    /// Next packet of the queue, or next free slot.
    pub(crate) next: u32,
    /// Previous packet of the queue.
    prev: u32,
    /// Epoch of the link it was put on; a cut changes the link's epoch.
    pub(crate) epoch: u32,
    /// Port it came in by, to the switch whose queue it stands in.
    pub(crate) ingress: u32,
    /// Bytes of the frame on the wire, from the Ethernet header through the ICRC.
    pub wire_len: u32,
    header_len: u16,
    /// Whether it travels in the control class: by its DSCP when its host sent it, or because it was trimmed.
    pub(crate) control: bool,
    /// [`CORRUPT`], [`TRIMMED`], and those of `telemetry`.
    pub(crate) flags: u8,
    /// The payload's place in the sender's memory, length 0 for none.
    pub payload: PayloadTag,
    /// For the schemes of the switches that it crosses: all zeros when its host sends it.
    pub scratch: [u8; 16],
    header: [u8; HEADER_MAX],
}

/// A link changed bits that its own checksum does not cover.
pub(crate) const CORRUPT: u8 = 1;
/// A switch cut the payload off.
pub(crate) const TRIMMED: u8 = 2;

impl Packet {
    const EMPTY: Self = Self {
        next: NIL,
        prev: NIL,
        epoch: 0,
        ingress: 0,
        wire_len: 0,
        header_len: 0,
        control: false,
        flags: 0,
        payload: PayloadTag { host: 0, region: 0, offset: 0, len: 0, sent: 0 },
        scratch: [0; 16],
        header: [0; HEADER_MAX],
    };

    /// Takes over frame and payload of another packet, not its place in queues.
    pub(crate) fn copy_frame(&mut self, from: &Self) {
        let Self { wire_len, header_len, payload, scratch, header, .. } = from;
        (self.wire_len, self.header_len, self.payload) = (*wire_len, *header_len, *payload);
        (self.scratch, self.header) = (*scratch, *header);
    }

    /// Takes over everything of another packet. Of the buffer only the cache lines that the header fills.
    pub(crate) fn copy(&mut self, from: &Self) {
        let Self { next, prev, epoch, ingress, wire_len, header_len, control, flags, payload, scratch, header } = self;
        (*next, *prev, *epoch, *ingress, *wire_len) = (from.next, from.prev, from.epoch, from.ingress, from.wire_len);
        (*header_len, *control, *flags, *payload) = (from.header_len, from.control, from.flags, from.payload);
        *scratch = from.scratch;
        let used = usize::from(from.header_len).next_multiple_of(64).min(HEADER_MAX);
        header[..used].copy_from_slice(&from.header[..used]);
    }

    /// Reads the two cache lines that every switch reads; the number means nothing.
    pub(super) fn fetch(&self) -> u32 {
        self.epoch ^ u32::from(self.header[0])
    }

    /// Whether a link changed its bits: a checksum over the whole packet would not match.
    pub fn is_corrupt(&self) -> bool {
        self.flags & CORRUPT != 0
    }

    /// Whether a switch cut its payload off.
    pub fn is_trimmed(&self) -> bool {
        self.flags & TRIMMED != 0
    }

    /// An empty packet, for callers that keep one outside a fabric.
    pub const fn new() -> Self {
        Self::EMPTY
    }

    /// The header bytes, from the Ethernet header on.
    pub fn header(&self) -> &[u8] {
        &self.header[..usize::from(self.header_len).min(HEADER_MAX)]
    }

    /// The header bytes, to change in place.
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

/// Storage for all packets of a run; grows to the largest number alive, then allocates no more.
#[derive(Default)]
pub(crate) struct Arena {
    slots: Vec<Packet>,
    free: Vec<u32>,
}

impl Arena {
    /// A slot whose content is whatever the last user left, except that it has neither payload nor flags.
    pub(crate) fn take(&mut self) -> u32 {
        if let Some(id) = self.free.pop() {
            let slot = &mut self.slots[id as usize];
            slot.payload.len = 0;
            slot.scratch = [0; 16];
            slot.flags = 0;
            return id;
        }
        self.slots.push(Packet::EMPTY);
        (self.slots.len() - 1) as u32
    }

    pub(crate) fn release(&mut self, id: u32) {
        self.free.push(id);
    }

    pub(crate) fn get(&self, id: u32) -> &Packet {
        &self.slots[id as usize]
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> &mut Packet {
        &mut self.slots[id as usize]
    }

    /// All packets alive.
    pub(crate) fn packets(&self) -> impl Iterator<Item = &Packet> {
        let mut alive = vec![true; self.slots.len()];
        self.free.iter().for_each(|&id| alive[id as usize] = false);
        self.slots.iter().zip(alive).filter(|(_, alive)| *alive).map(|(packet, _)| packet)
    }

    /// Packets alive now.
    pub(crate) fn alive(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

/// A queue threaded through the packets themselves, counted in packets and bytes.
#[derive(Clone, Copy)]
pub(crate) struct Fifo {
    head: u32,
    tail: u32,
    pub(crate) bytes: u32,
    pub(crate) len: u32,
}

impl Fifo {
    pub(crate) const EMPTY: Self = Self { head: NIL, tail: NIL, bytes: 0, len: 0 };

    pub(crate) fn is_empty(&self) -> bool {
        self.head == NIL
    }

    pub(crate) fn push(&mut self, id: u32, arena: &mut Arena) {
        let packet = arena.get_mut(id);
        packet.next = NIL;
        packet.prev = self.tail;
        self.bytes += packet.wire_len;
        self.len += 1;
        if self.head == NIL {
            self.head = id;
        } else {
            arena.get_mut(self.tail).next = id;
        }
        self.tail = id;
    }

    pub(crate) fn pop(&mut self, arena: &mut Arena) -> Option<u32> {
        let id = (self.head != NIL).then_some(self.head)?;
        self.remove(id, arena);
        Some(id)
    }

    /// The first packet.
    pub(crate) fn head<'a>(&self, arena: &'a Arena) -> Option<&'a Packet> {
        (self.head != NIL).then(|| arena.get(self.head))
    }

    /// The packet `back` places before the last one.
    pub(crate) fn nth_back(&self, back: u32, arena: &Arena) -> Option<u32> {
        let mut id = (self.tail != NIL).then_some(self.tail)?;
        for _ in 0..back {
            id = Some(arena.get(id).prev).filter(|&prev| prev != NIL)?;
        }
        Some(id)
    }

    /// Takes a packet of this queue out of it.
    pub(crate) fn remove(&mut self, id: u32, arena: &mut Arena) {
        let &Packet { prev, next, wire_len, .. } = arena.get(id);
        match prev {
            NIL => self.head = next,
            _ => arena.get_mut(prev).next = next,
        }
        match next {
            NIL => self.tail = prev,
            _ => arena.get_mut(next).prev = prev,
        }
        self.bytes -= wire_len;
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_fills_four_cache_lines() {
        assert_eq!(size_of::<Packet>(), 256);
    }

    #[test]
    fn fifo_keeps_order_and_bytes() {
        let mut arena = Arena::default();
        let mut fifo = Fifo::EMPTY;
        let ids: Vec<u32> = (1..=3u32)
            .map(|len| {
                let id = arena.take();
                arena.get_mut(id).wire_len = len;
                fifo.push(id, &mut arena);
                id
            })
            .collect();
        assert_eq!(fifo.bytes, 6);
        assert_eq!([fifo.pop(&mut arena), fifo.pop(&mut arena)], [Some(ids[0]), Some(ids[1])]);
        fifo.push(ids[0], &mut arena);
        assert_eq!(
            [fifo.pop(&mut arena), fifo.pop(&mut arena), fifo.pop(&mut arena)],
            [Some(ids[2]), Some(ids[0]), None]
        );
        assert!(fifo.is_empty());
        assert_eq!(fifo.bytes, 0);
    }

    #[test]
    fn any_packet_can_leave_a_fifo() {
        let mut arena = Arena::default();
        for out in 0..4 {
            let mut fifo = Fifo::EMPTY;
            let ids: Vec<u32> = (0..4).map(|_| arena.take()).collect();
            ids.iter().for_each(|&id| fifo.push(id, &mut arena));
            assert_eq!(fifo.nth_back(3 - out, &arena), Some(ids[out as usize]));
            assert_eq!(fifo.nth_back(4, &arena), None);
            fifo.remove(ids[out as usize], &mut arena);
            assert_eq!(fifo.len, 3);
            for (nth, &id) in ids.iter().enumerate() {
                if nth as u32 != out {
                    assert_eq!(fifo.pop(&mut arena), Some(id));
                }
            }
            assert!(fifo.is_empty() && fifo.pop(&mut arena).is_none());
        }
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
