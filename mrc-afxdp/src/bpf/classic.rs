//! The same rule as a classic socket filter, for the raw-socket port. A load beyond the packet rejects it. The kernel takes
//! VLAN tags out of the packet before it runs the filter, and says what was in them.

use crate::filter::{IPV4_DESTINATION, IPV6_DESTINATION, PacketFilter, Sid, VLAN_ID};

/// One classic instruction as the kernel lays it out (`struct sock_filter`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Insn {
    pub(crate) code: u16,
    /// Instructions to skip when the test holds.
    pub(crate) yes: u8,
    /// Instructions to skip when it does not.
    pub(crate) no: u8,
    pub(crate) k: u32,
}

pub(crate) const LOAD_U32: u16 = 0x20;
pub(crate) const LOAD_U16: u16 = 0x28;
pub(crate) const LOAD_U8: u16 = 0x30;
pub(crate) const JUMP: u16 = 0x05;
pub(crate) const JUMP_EQ: u16 = 0x15;
pub(crate) const JUMP_ANY_BIT: u16 = 0x45;
pub(crate) const RETURN: u16 = 0x06;

/// Load from here: whether the packet had a VLAN tag (`SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT`).
pub(crate) const VLAN_TAG_PRESENT: u32 = 0xffff_f000 + 48;
/// Load from here: priority and VLAN of that tag (`SKF_AD_OFF + SKF_AD_VLAN_TAG`).
pub(crate) const VLAN_TAG: u32 = 0xffff_f000 + 44;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    Next,
    Untagged,
    Ipv6,
    Ipv4,
    Ipv4Address,
    Ipv6Address,
    Sids,
    /// Of list, entry.
    NextEntry(u8, usize),
    /// The instruction after the next, by the number of this one.
    Skip(usize),
    Take,
    Drop,
}

#[derive(Default)]
struct Assembler {
    code: Vec<Insn>,
    jumps: Vec<(usize, Label, Label)>,
    labels: Vec<(Label, usize)>,
}

impl Assembler {
    fn op(&mut self, code: u16, k: u32) {
        self.code.push(Insn { code, yes: 0, no: 0, k });
    }

    fn test(&mut self, code: u16, k: u32, yes: Label, no: Label) {
        self.jumps.push((self.code.len(), yes, no));
        self.op(code, k);
    }

    fn label(&mut self, label: Label) {
        self.labels.push((label, self.code.len()));
    }

    /// Takes the packet when it has one of these byte strings at `at`, else drops it. `list` is any number used once.
    fn one_of(&mut self, list: u8, at: usize, entries: &[Vec<u8>]) {
        for (n, bytes) in entries.iter().enumerate() {
            for (word, value) in bytes.as_chunks::<4>().0.iter().enumerate().rev() {
                self.op(LOAD_U32, (at + 4 * word) as u32);
                self.test(JUMP_EQ, u32::from_be_bytes(*value), Label::Next, Label::NextEntry(list, n));
            }
            self.test(JUMP, 0, Label::Take, Label::Take);
            self.label(Label::NextEntry(list, n));
        }
        self.test(JUMP, 0, Label::Drop, Label::Drop);
    }

    /// Judges the UDP destination port in the accumulator.
    fn ports(&mut self, filter: &PacketFilter, address: Label) {
        for port in filter.used_ports() {
            let ours = if filter.addresses.is_empty() { Label::Take } else { address };
            // A conditional jump reaches 255 instructions, an unconditional one any number.
            self.test(JUMP_EQ, u32::from(*port), Label::Next, Label::Skip(self.code.len()));
            self.test(JUMP, 0, ours, ours);
            let at = self.code.len() - 2;
            self.label(Label::Skip(at));
        }
        self.test(JUMP, 0, Label::Drop, Label::Drop);
    }

    fn finish(mut self) -> Vec<Insn> {
        let labels = self.labels;
        let distance = |from: usize, to: Label| match to {
            Label::Next => 0,
            to => labels.iter().find(|(label, _)| *label == to).map_or(0, |(_, at)| at.saturating_sub(from + 1)),
        };
        for (at, yes, no) in self.jumps {
            if let Some(insn) = self.code.get_mut(at) {
                if insn.code == JUMP {
                    insn.k = distance(at, yes) as u32;
                } else {
                    // All far jumps are unconditional: these distances stay far below 256.
                    (insn.yes, insn.no) = (distance(at, yes) as u8, distance(at, no) as u8);
                }
            }
        }
        self.code
    }
}

/// The filter as instructions; returns the whole packet or nothing.
pub(crate) fn program(filter: &PacketFilter) -> Vec<Insn> {
    use Label::{Drop, Ipv4, Ipv4Address, Ipv6, Ipv6Address, Next, Sids, Skip, Take, Untagged};
    let mut asm = Assembler::default();
    let far_drop = |asm: &mut Assembler, code, k, on: bool| {
        let after = Skip(asm.code.len());
        let (yes, no) = if on { (Next, after) } else { (after, Next) };
        asm.test(code, k, yes, no);
        asm.test(JUMP, 0, Drop, Drop);
        asm.label(after);
    };
    asm.op(LOAD_U8, VLAN_TAG_PRESENT);
    asm.test(JUMP_EQ, 0, Untagged, Next);
    asm.op(LOAD_U16, VLAN_TAG);
    far_drop(&mut asm, JUMP_ANY_BIT, u32::from(VLAN_ID), true);

    asm.label(Untagged);
    asm.op(LOAD_U16, 12);
    asm.test(JUMP_EQ, 0x0800, Ipv4, Next);
    far_drop(&mut asm, JUMP_EQ, 0x86dd, false);

    asm.label(Ipv6);
    asm.op(LOAD_U8, 20);
    asm.test(JUMP_EQ, 41, Sids, Next);
    asm.test(JUMP_EQ, 43, Sids, Next);
    far_drop(&mut asm, JUMP_EQ, 17, false);
    asm.op(LOAD_U16, 56);
    asm.ports(filter, Ipv6Address);

    asm.label(Ipv4);
    asm.op(LOAD_U8, 14);
    far_drop(&mut asm, JUMP_EQ, 0x45, false);
    asm.op(LOAD_U8, 23);
    far_drop(&mut asm, JUMP_EQ, 17, false);
    asm.op(LOAD_U16, 20);
    far_drop(&mut asm, JUMP_ANY_BIT, 0x3fff, true);
    asm.op(LOAD_U16, 36);
    asm.ports(filter, Ipv4Address);

    asm.label(Sids);
    let sids: Vec<_> = filter.used_sids().iter().map(Sid::bytes).collect();
    asm.one_of(0, IPV6_DESTINATION, &sids);
    asm.label(Ipv6Address);
    asm.one_of(1, IPV6_DESTINATION, &filter.used_addresses(true));
    asm.label(Ipv4Address);
    asm.one_of(2, IPV4_DESTINATION, &filter.used_addresses(false));
    asm.label(Drop);
    asm.op(RETURN, 0);
    asm.label(Take);
    asm.op(RETURN, u32::MAX);
    asm.finish()
}
