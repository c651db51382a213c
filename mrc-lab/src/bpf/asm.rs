//! An assembler for the few eBPF instructions of the impairment program, with labels to jump to.
//!
//! `mrc-afxdp` has an assembler of its own. The lab does not use it, because the lab must not depend on what it tests.

/// One eBPF instruction as the kernel lays it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Insn {
    pub(super) code: u8,
    /// Destination register in the low half, source in the high half.
    pub(super) registers: u8,
    pub(super) offset: i16,
    pub(super) immediate: i32,
}

/// Width of a load or store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// One byte.
    U8 = 0x10,
    /// Two bytes.
    U16 = 0x08,
    /// Four bytes.
    U32 = 0x00,
    /// Eight bytes.
    U64 = 0x18,
}

/// 64-bit arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alu {
    /// `+=`
    Add = 0x00,
    /// `-=`
    Sub = 0x10,
    /// `*=`
    Mul = 0x20,
    /// `/=`, by zero gives zero
    Div = 0x30,
    /// `|=`
    Or = 0x40,
    /// `&=`
    And = 0x50,
    /// `<<=`
    Shl = 0x60,
    /// `>>=`
    Shr = 0x70,
    /// `^=`
    Xor = 0xa0,
    /// `=`
    Move = 0xb0,
}

/// Unsigned 64-bit conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum If {
    /// `==`
    Eq = 0x10,
    /// `>`
    Gt = 0x20,
    /// Any bit in common.
    AnyBit = 0x40,
    /// `!=`
    Ne = 0x50,
    /// `<`
    Lt = 0xa0,
    /// `<=`
    Le = 0xb0,
}

/// Frame pointer: the end of 512 bytes of stack.
pub(super) const STACK: u8 = 10;

/// A program in the making; `L` names places in it.
#[derive(Debug)]
pub(super) struct Assembler<L> {
    code: Vec<Insn>,
    jumps: Vec<(usize, L)>,
    labels: Vec<(L, usize)>,
}

impl<L: Copy + PartialEq + std::fmt::Debug> Assembler<L> {
    pub(super) fn new() -> Self {
        Self { code: Vec::new(), jumps: Vec::new(), labels: Vec::new() }
    }

    fn op(&mut self, code: u8, dst: u8, src: u8, offset: i16, immediate: i32) {
        self.code.push(Insn { code, registers: dst | src << 4, offset, immediate });
    }

    /// `dst = *(width *)(src + offset)`
    pub(super) fn load(&mut self, width: Width, dst: u8, src: u8, offset: i16) {
        self.op(0x61 | width as u8, dst, src, offset, 0);
    }

    /// `*(width *)(dst + offset) = src`
    pub(super) fn store(&mut self, width: Width, dst: u8, offset: i16, src: u8) {
        self.op(0x63 | width as u8, dst, src, offset, 0);
    }

    /// `dst op= value`
    pub(super) fn imm(&mut self, op: Alu, dst: u8, value: i32) {
        self.op(0x07 | op as u8, dst, 0, 0, value);
    }

    /// `dst op= src`
    pub(super) fn reg(&mut self, op: Alu, dst: u8, src: u8) {
        self.op(0x0f | op as u8, dst, src, 0, 0);
    }

    /// `dst = value`
    pub(super) fn imm64(&mut self, dst: u8, value: u64) {
        self.op(0x18, dst, 0, 0, value as u32 as i32);
        self.op(0, 0, 0, 0, (value >> 32) as u32 as i32);
    }

    /// `dst` = address of the only value of the array map `fd`.
    pub(super) fn map_value(&mut self, dst: u8, fd: i32) {
        const PSEUDO_MAP_VALUE: u8 = 2;
        self.op(0x18, dst, PSEUDO_MAP_VALUE, 0, fd);
        self.op(0, 0, 0, 0, 0);
    }

    /// The low 16 bits of `dst` in network order; the rest becomes zero.
    pub(super) fn be16(&mut self, dst: u8) {
        self.op(0xdc, dst, 0, 0, 16);
    }

    /// `*(u64 *)(dst + offset) += src`, atomically.
    pub(super) fn atomic_add(&mut self, dst: u8, offset: i16, src: u8) {
        self.op(0xdb, dst, src, offset, 0);
    }

    /// As [`Self::atomic_add`], and `src` becomes the old value.
    pub(super) fn atomic_fetch_add(&mut self, dst: u8, offset: i16, src: u8) {
        self.op(0xdb, dst, src, offset, 1);
    }

    /// Calls helper number `helper`: arguments in r1 to r5, which are gone afterwards, result in r0.
    pub(super) fn call(&mut self, helper: i32) {
        self.op(0x85, 0, 0, 0, helper);
    }

    pub(super) fn exit(&mut self) {
        self.op(0x95, 0, 0, 0, 0);
    }

    pub(super) fn jump_imm(&mut self, condition: If, dst: u8, value: i32, to: L) {
        self.jumps.push((self.code.len(), to));
        self.op(0x05 | condition as u8, dst, 0, 0, value);
    }

    pub(super) fn jump_reg(&mut self, condition: If, dst: u8, src: u8, to: L) {
        self.jumps.push((self.code.len(), to));
        self.op(0x0d | condition as u8, dst, src, 0, 0);
    }

    /// `label` is here.
    pub(super) fn label(&mut self, label: L) {
        self.labels.push((label, self.code.len()));
    }

    /// The program.
    ///
    /// # Panics
    /// A jump leads to a label that is nowhere: a mistake in this crate, which its tests would find.
    pub(super) fn finish(mut self) -> Vec<Insn> {
        for (at, to) in &self.jumps {
            let target = self.labels.iter().find(|(label, _)| label == to).expect("every label used is placed").1;
            self.code[*at].offset = (target as i64 - *at as i64 - 1) as i16;
        }
        self.code
    }
}
