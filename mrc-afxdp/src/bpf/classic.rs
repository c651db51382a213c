//! The same rule as a classic socket filter, for the raw-socket port. A load beyond the packet rejects it.

use crate::filter::PacketFilter;

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    Next,
    Ipv6,
    Ipv4,
    Ports,
    Sids,
    NextSid(usize),
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
                    // The limits of `PacketFilter` keep every distance far below 256.
                    (insn.yes, insn.no) = (distance(at, yes) as u8, distance(at, no) as u8);
                }
            }
        }
        self.code
    }
}

/// The filter as instructions; returns the whole packet or nothing.
pub(crate) fn program(filter: &PacketFilter) -> Vec<Insn> {
    use Label::{Drop, Ipv4, Ipv6, Next, NextSid, Ports, Sids, Take};
    let mut asm = Assembler::default();
    asm.op(LOAD_U16, 12);
    asm.test(JUMP_EQ, 0x0800, Ipv4, Next);
    asm.test(JUMP_EQ, 0x86dd, Ipv6, Drop);

    asm.label(Ipv6);
    asm.op(LOAD_U8, 20);
    asm.test(JUMP_EQ, 41, Sids, Next);
    asm.test(JUMP_EQ, 43, Sids, Next);
    asm.test(JUMP_EQ, 17, Next, Drop);
    asm.op(LOAD_U16, 56);
    asm.test(JUMP, 0, Ports, Ports);

    asm.label(Ipv4);
    asm.op(LOAD_U8, 14);
    asm.test(JUMP_EQ, 0x45, Next, Drop);
    asm.op(LOAD_U8, 23);
    asm.test(JUMP_EQ, 17, Next, Drop);
    asm.op(LOAD_U16, 20);
    asm.test(JUMP_ANY_BIT, 0x3fff, Drop, Next);
    asm.op(LOAD_U16, 36);

    asm.label(Ports);
    for port in filter.used_ports() {
        asm.test(JUMP_EQ, u32::from(*port), Take, Next);
    }
    asm.test(JUMP, 0, Drop, Drop);

    asm.label(Sids);
    for (n, sid) in filter.used_sids().iter().enumerate() {
        for (at, word) in sid.words().rev() {
            asm.op(LOAD_U32, 38 + at as u32);
            asm.test(JUMP_EQ, u32::from_be_bytes(word), Next, NextSid(n));
        }
        asm.test(JUMP, 0, Take, Take);
        asm.label(NextSid(n));
    }
    asm.label(Drop);
    asm.op(RETURN, 0);
    asm.label(Take);
    asm.op(RETURN, u32::MAX);
    asm.finish()
}
