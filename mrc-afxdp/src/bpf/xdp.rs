//! The XDP program: ours goes to the XSKMAP entry of its queue, everything else to the kernel.

use crate::filter::{ETHERTYPE_VLAN, IPV4_DESTINATION, IPV6_DESTINATION, PacketFilter, Sid, VLAN_ID};

/// One eBPF instruction as the kernel lays it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Insn {
    pub(crate) code: u8,
    /// Destination register in the low half, source in the high half.
    pub(crate) registers: u8,
    pub(crate) offset: i16,
    pub(crate) immediate: i32,
}

pub(crate) const XDP_PASS: i32 = 2;
pub(crate) const BPF_FUNC_REDIRECT_MAP: i32 = 51;

const LOAD_U32: u8 = 0x61;
const LOAD_U16: u8 = 0x69;
const LOAD_U8: u8 = 0x71;
const LOAD_IMM64: u8 = 0x18;
const MOVE: u8 = 0xbf;
const MOVE_IMM: u8 = 0xb7;
const ADD_IMM: u8 = 0x07;
const AND_IMM: u8 = 0x57;
const JUMP: u8 = 0x05;
const JUMP_EQ_IMM: u8 = 0x15;
const JUMP_NE_IMM: u8 = 0x55;
const JUMP_NE_IMM_32: u8 = 0x56;
const JUMP_GT: u8 = 0x2d;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// Source register value that says "the immediate is a map's file descriptor".
const PSEUDO_MAP_FD: u8 = 1;

// Register use: r6 context, r2 start of packet (4 bytes on behind a tag), r3 its end, r4 bound under test, r5 field under test.
const CONTEXT_DATA: i16 = 0;
const CONTEXT_DATA_END: i16 = 4;
const CONTEXT_QUEUE: i16 = 16;

/// The shortest packet of interest: Ethernet, IPv4, UDP ports.
const SHORTEST: i32 = 14 + 20 + 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    Untagged,
    Ipv4,
    Ipv4Address,
    Ipv6Address,
    Sids,
    /// Of list, entry.
    Next(u8, usize),
    Take,
    Pass,
}

#[derive(Default)]
struct Assembler {
    code: Vec<Insn>,
    jumps: Vec<(usize, Label)>,
    labels: Vec<(Label, usize)>,
}

impl Assembler {
    fn op(&mut self, code: u8, dst: u8, src: u8, offset: i16, immediate: i32) {
        self.code.push(Insn { code, registers: dst | src << 4, offset, immediate });
    }

    fn load(&mut self, code: u8, dst: u8, src: u8, offset: i16) {
        self.op(code, dst, src, offset, 0);
    }

    fn jump(&mut self, code: u8, dst: u8, src: u8, immediate: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.op(code, dst, src, 0, immediate);
    }

    fn label(&mut self, label: Label) {
        self.labels.push((label, self.code.len()));
    }

    /// Leaves for `Take` when the packet has one of these byte strings at `at`, else for `Pass`. `list` is any number used once.
    fn one_of(&mut self, list: u8, at: usize, entries: &[Vec<u8>]) {
        for (n, bytes) in entries.iter().enumerate() {
            // Last word first: SIDs of one fabric differ at the end of their first 64 bits.
            for (word, value) in bytes.as_chunks::<4>().0.iter().enumerate().rev() {
                self.load(LOAD_U32, 5, 2, (at + 4 * word) as i16);
                self.jump(JUMP_NE_IMM_32, 5, 0, i32::from_ne_bytes(*value), Label::Next(list, n));
            }
            self.jump(JUMP, 0, 0, 0, Label::Take);
            self.label(Label::Next(list, n));
        }
        self.jump(JUMP, 0, 0, 0, Label::Pass);
    }

    /// Judges the UDP destination port in r5; the port of a packet that may be ours leads to `address`.
    fn ports(&mut self, filter: &PacketFilter, address: Label) {
        for port in filter.used_ports() {
            self.jump(JUMP_EQ_IMM, 5, 0, half(*port), if filter.addresses.is_empty() { Label::Take } else { address });
        }
        self.jump(JUMP, 0, 0, 0, Label::Pass);
    }

    /// Leaves for `Pass` when the packet has fewer than `bytes` bytes in its first buffer.
    fn need(&mut self, bytes: i32) {
        self.op(MOVE, 4, 2, 0, 0);
        self.op(ADD_IMM, 4, 0, 0, bytes);
        self.jump(JUMP_GT, 4, 3, 0, Label::Pass);
    }

    fn finish(mut self) -> Vec<Insn> {
        for (at, to) in &self.jumps {
            let target = self.labels.iter().find(|(label, _)| label == to).map_or(0, |(_, target)| *target);
            if let Some(insn) = self.code.get_mut(*at) {
                insn.offset = (target as i64 - *at as i64 - 1) as i16;
            }
        }
        self.code
    }
}

/// A 16-bit field as a little- or big-endian machine loads it from the packet.
fn half(value: u16) -> i32 {
    i32::from(u16::from_ne_bytes(value.to_be_bytes()))
}

/// The program for `filter`; `map_fd` is the XSKMAP.
pub(crate) fn program(filter: &PacketFilter, map_fd: i32) -> Vec<Insn> {
    let mut asm = Assembler::default();
    asm.op(MOVE, 6, 1, 0, 0);
    asm.load(LOAD_U32, 2, 1, CONTEXT_DATA);
    asm.load(LOAD_U32, 3, 1, CONTEXT_DATA_END);
    asm.need(SHORTEST);
    asm.load(LOAD_U16, 5, 2, 12);
    asm.jump(JUMP_NE_IMM, 5, 0, half(ETHERTYPE_VLAN), Label::Untagged);
    asm.load(LOAD_U16, 5, 2, 14); // priority and VLAN of the tag
    asm.op(AND_IMM, 5, 0, 0, half(VLAN_ID));
    asm.jump(JUMP_NE_IMM, 5, 0, 0, Label::Pass);
    asm.op(ADD_IMM, 2, 0, 0, 4); // behind the tag everything has the offsets of an untagged frame
    asm.need(SHORTEST);
    asm.load(LOAD_U16, 5, 2, 12);

    asm.label(Label::Untagged);
    asm.jump(JUMP_EQ_IMM, 5, 0, half(0x0800), Label::Ipv4);
    asm.jump(JUMP_NE_IMM, 5, 0, half(0x86dd), Label::Pass);

    asm.need(14 + 40);
    asm.load(LOAD_U8, 5, 2, 20); // next header
    asm.jump(JUMP_EQ_IMM, 5, 0, 41, Label::Sids);
    asm.jump(JUMP_EQ_IMM, 5, 0, 43, Label::Sids);
    asm.jump(JUMP_NE_IMM, 5, 0, 17, Label::Pass);
    asm.need(14 + 40 + 4);
    asm.load(LOAD_U16, 5, 2, 56); // UDP destination port
    asm.ports(filter, Label::Ipv6Address);

    asm.label(Label::Ipv4);
    asm.load(LOAD_U8, 5, 2, 14); // version and header length
    asm.jump(JUMP_NE_IMM, 5, 0, 0x45, Label::Pass);
    asm.load(LOAD_U8, 5, 2, 23); // protocol
    asm.jump(JUMP_NE_IMM, 5, 0, 17, Label::Pass);
    asm.load(LOAD_U16, 5, 2, 20); // more fragments, fragment offset
    asm.op(AND_IMM, 5, 0, 0, half(0x3fff));
    asm.jump(JUMP_NE_IMM, 5, 0, 0, Label::Pass);
    asm.load(LOAD_U16, 5, 2, 36); // UDP destination port

    asm.ports(filter, Label::Ipv4Address);

    asm.label(Label::Sids);
    let sids: Vec<_> = filter.used_sids().iter().map(Sid::bytes).collect();
    asm.one_of(0, IPV6_DESTINATION, &sids);
    for (list, label, at) in [(1, Label::Ipv6Address, IPV6_DESTINATION), (2, Label::Ipv4Address, IPV4_DESTINATION)] {
        // The verifier refuses code that nothing reaches.
        if asm.jumps.iter().any(|(_, to)| *to == label) {
            asm.label(label);
            asm.one_of(list, at, &filter.used_addresses(list == 1));
        }
    }

    if asm.jumps.iter().any(|(_, to)| *to == Label::Take) {
        asm.label(Label::Take);
        asm.load(LOAD_U32, 2, 6, CONTEXT_QUEUE);
        asm.op(LOAD_IMM64, 1, PSEUDO_MAP_FD, 0, map_fd);
        asm.op(0, 0, 0, 0, 0);
        asm.op(MOVE_IMM, 3, 0, 0, XDP_PASS); // what to do when the queue has no socket
        asm.op(CALL, 0, 0, 0, BPF_FUNC_REDIRECT_MAP);
        asm.op(EXIT, 0, 0, 0, 0);
    }
    asm.label(Label::Pass);
    asm.op(MOVE_IMM, 0, 0, 0, XDP_PASS);
    asm.op(EXIT, 0, 0, 0, 0);
    asm.finish()
}
