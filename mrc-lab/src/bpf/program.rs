//! The eBPF program that loses, queues, trims and marks the packets of a port. There is one program for all settings: the
//! settings and the counters are in one map, so that both can be read back from the kernel.
//!
//! The seed and the number n alone decide what happens to the n-th packet at a port. A run can therefore be repeated as
//! long as packets arrive in the same order. The virtual queue is one word: the time at which it will be empty. If two
//! processors handle packets at the same instant, the queue may count them as one; with thousands of packets in the
//! queue this makes no difference. Counters are atomic.

use super::asm::{Alu, Assembler, If, Insn, STACK, Width};

/// Words of the map, by number.
pub(super) mod word {
    pub(in crate::bpf) const SEED: usize = 0;
    /// Random loss, trimming and marking: of 2^[`super::RANDOM_BITS`].
    pub(in crate::bpf) const LOSS: usize = 1;
    pub(in crate::bpf) const TRIM: usize = 2;
    pub(in crate::bpf) const CE: usize = 3;
    /// Picoseconds per byte of the virtual queue; 0 = there is none.
    pub(in crate::bpf) const PS_PER_BYTE: usize = 4;
    /// Backlogs, in nanoseconds, beyond which the queue marks, trims and drops.
    pub(in crate::bpf) const MARK_NS: usize = 5;
    pub(in crate::bpf) const TRIM_NS: usize = 6;
    pub(in crate::bpf) const DROP_NS: usize = 7;
    /// DSCP of trimmed packets.
    pub(in crate::bpf) const TRIMMED_DSCP: usize = 8;
    /// Bit n: packets with DSCP n may be trimmed.
    pub(in crate::bpf) const TRIMMABLE: usize = 9;
    /// Bit n: packets with DSCP n overtake the queue.
    pub(in crate::bpf) const PRIORITY: usize = 10;
    /// When the virtual queue will be empty, in nanoseconds since boot.
    pub(in crate::bpf) const EMPTY_AT: usize = 11;
    pub(in crate::bpf) const PACKETS: usize = 12;
    pub(in crate::bpf) const LOST: usize = 13;
    pub(in crate::bpf) const DROPPED: usize = 14;
    pub(in crate::bpf) const TRIMMED: usize = 15;
    pub(in crate::bpf) const MARKED: usize = 16;
    pub(in crate::bpf) const COUNT: usize = 17;
}

/// Bits of each of the three random numbers a packet draws.
pub(super) const RANDOM_BITS: u32 = 21;
/// Increment and multipliers of SplitMix64 (Steele, Lea, Flood 2014).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
const MIX: [u64; 2] = [0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB];

/// The finaliser of SplitMix64; the program computes the same.
pub(super) fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(MIX[0]);
    let word = (word ^ word >> 27).wrapping_mul(MIX[1]);
    word ^ word >> 31
}

/// What the n-th packet draws: for loss, trimming and marking, each below 2^[`RANDOM_BITS`].
#[cfg(test)]
pub(super) fn draws(seed: u64, n: u64) -> [u64; 3] {
    let word = mix(seed.wrapping_add(n.wrapping_mul(GOLDEN)));
    [0, 1, 2].map(|k| word >> (k * RANDOM_BITS) & ((1 << RANDOM_BITS) - 1))
}

// Next headers of SRv6: the inner packet, a segment routing header before it, or UDP directly (the mapper's probes).
const NEXT_IPV6: i32 = 41;
const NEXT_ROUTING: i32 = 43;
const NEXT_UDP: i32 = 17;

/// Ethernet and outer IPv6.
const OUTER_BYTES: i32 = 14 + 40;
/// A segment routing header with one segment.
const SRH_BYTES: i32 = 24;
/// What stays of a trimmed packet behind the outer headers: inner IPv6, UDP, BTH, METH, TSETH.
const INNER_BYTES: i32 = 40 + 8 + 12 + 4 + 4;
/// Packets that exceed their remains by no more than this stay whole: a reliability probe, say, carries nothing to cut.
const WORTHLESS_BYTES: i32 = 16;
/// Length of a trimmed frame without segment routing header.
pub(super) const TRIMMED_BYTES: i32 = OUTER_BYTES + INNER_BYTES;

// `struct __sk_buff`, by byte.
const SKB_LEN: i16 = 0;
const SKB_MARK: i16 = 8;
const SKB_IFINDEX: i16 = 40;

const KTIME_GET_NS: i32 = 5;
const SKB_STORE_BYTES: i32 = 9;
const REDIRECT: i32 = 23;
const SKB_LOAD_BYTES: i32 = 26;
const SKB_CHANGE_TAIL: i32 = 38;

/// Continue.
pub(super) const ACT_OK: i32 = 0;
/// Drop.
pub(super) const ACT_SHOT: i32 = 2;
/// Go where the redirect says.
#[cfg(test)]
pub(super) const ACT_REDIRECT: i32 = 7;

/// Mark of a packet that comes by for the second time after trimming.
const SEEN: i32 = 0x004D_5243;

// Registers that survive calls.
const SKB: u8 = 6;
const TRAFFIC_CLASS: u8 = 7;
const RANDOM: u8 = 8;
const MAP: u8 = 9;

// Stack. Bytes 12 to 23 of the frame: EtherType, version to flow label, payload length, next header.
const HEAD: i16 = -16;
const VERSION: i16 = HEAD + 2;
const NEXT_HEADER: i16 = HEAD + 8;
/// Nanoseconds the packet would wait in the queue.
const BACKLOG: i16 = -24;
/// When the queue would be empty without it.
const START: i16 = -32;
/// Bytes to keep.
const KEEP: i16 = -40;
const SCRATCH: i16 = -48;
/// 2^DSCP.
const DSCP_BIT: i16 = -56;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    Ours,
    QueueEmpty,
    Judge,
    Trim,
    KeepKnown,
    Whole,
    Mark,
    DoMark,
    Lost,
    Dropped,
    Pass,
}

fn at(word: usize) -> i16 {
    (word * 8) as i16
}

type Asm = Assembler<Label>;

/// Adds one to a counter.
fn count(asm: &mut Asm, word: usize) {
    asm.imm(Alu::Move, 1, 1);
    asm.atomic_add(MAP, at(word), 1);
}

/// `r0 = SKB_STORE_BYTES(frame byte to, stack from, len)`
fn store_bytes(asm: &mut Asm, to: i32, from: i16, len: i32) {
    asm.reg(Alu::Move, 1, SKB);
    asm.imm(Alu::Move, 2, to);
    asm.reg(Alu::Move, 3, STACK);
    asm.imm(Alu::Add, 3, i32::from(from));
    asm.imm(Alu::Move, 4, len);
    asm.imm(Alu::Move, 5, 0);
    asm.call(SKB_STORE_BYTES);
}

/// `dst` = random number `k` of the packet.
fn draw(asm: &mut Asm, dst: u8, k: i32) {
    asm.reg(Alu::Move, dst, RANDOM);
    asm.imm(Alu::Shr, dst, k * RANDOM_BITS as i32);
    asm.imm(Alu::And, dst, (1 << RANDOM_BITS) - 1);
}

/// The program around the map `map_fd`.
pub(super) fn program(map_fd: i32) -> Vec<Insn> {
    let mut asm = Asm::new();
    read_head(&mut asm, map_fd);
    draw_fate(&mut asm);
    ask_queue(&mut asm);
    trim(&mut asm);
    enqueue_and_mark(&mut asm);

    asm.label(Label::Pass);
    asm.imm(Alu::Move, 0, ACT_OK);
    asm.exit();
    for (label, counter) in [(Label::Lost, word::LOST), (Label::Dropped, word::DROPPED)] {
        asm.label(label);
        count(&mut asm, counter);
        asm.imm(Alu::Move, 0, ACT_SHOT);
        asm.exit();
    }
    asm.finish()
}

/// Lets pass what is not SRv6 (the kernels' own multicast reports, say) and what was trimmed a moment ago.
fn read_head(asm: &mut Asm, map_fd: i32) {
    asm.reg(Alu::Move, SKB, 1);
    asm.map_value(MAP, map_fd);
    asm.load(Width::U32, 1, SKB, SKB_MARK);
    asm.jump_imm(If::Eq, 1, SEEN, Label::Pass);
    asm.reg(Alu::Move, 1, SKB);
    asm.imm(Alu::Move, 2, 12);
    asm.reg(Alu::Move, 3, STACK);
    asm.imm(Alu::Add, 3, i32::from(HEAD));
    asm.imm(Alu::Move, 4, 12);
    asm.call(SKB_LOAD_BYTES);
    asm.jump_imm(If::Ne, 0, 0, Label::Pass);
    asm.load(Width::U16, 1, STACK, HEAD);
    asm.be16(1);
    asm.jump_imm(If::Ne, 1, 0x86DD, Label::Pass);
    asm.load(Width::U8, 1, STACK, NEXT_HEADER);
    asm.jump_imm(If::Eq, 1, NEXT_IPV6, Label::Ours);
    asm.jump_imm(If::Eq, 1, NEXT_UDP, Label::Ours);
    asm.jump_imm(If::Ne, 1, NEXT_ROUTING, Label::Pass);
    asm.label(Label::Ours);
}

/// Counts the packet, draws its random numbers, loses it or not; finds its traffic class.
fn draw_fate(asm: &mut Asm) {
    asm.imm(Alu::Move, 1, 1);
    asm.atomic_fetch_add(MAP, at(word::PACKETS), 1);
    asm.imm64(2, GOLDEN);
    asm.reg(Alu::Mul, 1, 2);
    asm.load(Width::U64, RANDOM, MAP, at(word::SEED));
    asm.reg(Alu::Add, RANDOM, 1);
    for (shift, factor) in [(30, Some(MIX[0])), (27, Some(MIX[1])), (31, None)] {
        asm.reg(Alu::Move, 1, RANDOM);
        asm.imm(Alu::Shr, 1, shift);
        asm.reg(Alu::Xor, RANDOM, 1);
        if let Some(factor) = factor {
            asm.imm64(2, factor);
            asm.reg(Alu::Mul, RANDOM, 2);
        }
    }
    draw(asm, 1, 0);
    asm.load(Width::U64, 2, MAP, at(word::LOSS));
    asm.jump_reg(If::Lt, 1, 2, Label::Lost);

    asm.load(Width::U8, TRAFFIC_CLASS, STACK, VERSION);
    asm.imm(Alu::And, TRAFFIC_CLASS, 0x0F);
    asm.imm(Alu::Shl, TRAFFIC_CLASS, 4);
    asm.load(Width::U8, 1, STACK, VERSION + 1);
    asm.imm(Alu::Shr, 1, 4);
    asm.reg(Alu::Or, TRAFFIC_CLASS, 1);
    asm.reg(Alu::Move, 2, TRAFFIC_CLASS);
    asm.imm(Alu::Shr, 2, 2);
    asm.imm(Alu::Move, 1, 1);
    asm.reg(Alu::Shl, 1, 2);
    asm.store(Width::U64, STACK, DSCP_BIT, 1);
    asm.load(Width::U64, 2, MAP, at(word::PRIORITY));
    asm.jump_reg(If::AnyBit, 1, 2, Label::Pass);
}

/// How long the packet would wait in the virtual queue.
fn ask_queue(asm: &mut Asm) {
    asm.imm(Alu::Move, 1, 0);
    asm.store(Width::U64, STACK, BACKLOG, 1);
    asm.store(Width::U64, STACK, START, 1);
    asm.load(Width::U64, 1, MAP, at(word::PS_PER_BYTE));
    asm.jump_imm(If::Eq, 1, 0, Label::Judge);
    asm.call(KTIME_GET_NS);
    asm.store(Width::U64, STACK, START, 0);
    asm.load(Width::U64, 1, MAP, at(word::EMPTY_AT));
    asm.jump_reg(If::Le, 1, 0, Label::QueueEmpty);
    asm.store(Width::U64, STACK, START, 1);
    asm.reg(Alu::Sub, 1, 0);
    asm.store(Width::U64, STACK, BACKLOG, 1);
    asm.label(Label::QueueEmpty);
    asm.label(Label::Judge);
}

/// Trims what may be trimmed when chance or the queue says so. Trimmed packets overtake the queue.
fn trim(asm: &mut Asm) {
    asm.load(Width::U64, 1, STACK, DSCP_BIT);
    asm.load(Width::U64, 2, MAP, at(word::TRIMMABLE));
    asm.reg(Alu::And, 1, 2);
    asm.jump_imm(If::Eq, 1, 0, Label::Whole);
    draw(asm, 1, 1);
    asm.load(Width::U64, 2, MAP, at(word::TRIM));
    asm.jump_reg(If::Lt, 1, 2, Label::Trim);
    asm.load(Width::U64, 1, STACK, BACKLOG);
    asm.load(Width::U64, 2, MAP, at(word::TRIM_NS));
    asm.jump_reg(If::Le, 1, 2, Label::Whole);

    asm.label(Label::Trim);
    asm.imm(Alu::Move, 2, TRIMMED_BYTES);
    asm.load(Width::U8, 1, STACK, NEXT_HEADER);
    asm.jump_imm(If::Ne, 1, NEXT_ROUTING, Label::KeepKnown);
    asm.imm(Alu::Add, 2, SRH_BYTES);
    asm.label(Label::KeepKnown);
    asm.store(Width::U64, STACK, KEEP, 2);
    asm.load(Width::U32, 1, SKB, SKB_LEN);
    asm.imm(Alu::Sub, 1, WORTHLESS_BYTES);
    asm.jump_reg(If::Le, 1, 2, Label::Whole);
    asm.reg(Alu::Move, 1, SKB);
    asm.imm(Alu::Move, 3, 0);
    asm.call(SKB_CHANGE_TAIL);
    asm.jump_imm(If::Ne, 0, 0, Label::Whole);

    asm.load(Width::U64, 1, STACK, KEEP);
    asm.imm(Alu::Sub, 1, OUTER_BYTES);
    asm.be16(1);
    asm.store(Width::U16, STACK, SCRATCH, 1);
    store_bytes(asm, 18, SCRATCH, 2); // outer payload length

    asm.load(Width::U64, 1, MAP, at(word::TRIMMED_DSCP));
    asm.imm(Alu::Shl, 1, 2);
    asm.imm(Alu::And, TRAFFIC_CLASS, 3);
    asm.reg(Alu::Or, 1, TRAFFIC_CLASS);
    asm.reg(Alu::Move, 2, 1);
    asm.imm(Alu::Shr, 2, 4);
    asm.imm(Alu::Or, 2, 0x60);
    asm.store(Width::U8, STACK, VERSION, 2);
    asm.imm(Alu::Shl, 1, 4);
    asm.load(Width::U8, 2, STACK, VERSION + 1);
    asm.imm(Alu::And, 2, 0x0F);
    asm.reg(Alu::Or, 1, 2);
    asm.store(Width::U8, STACK, VERSION + 1, 1);
    store_bytes(asm, 14, VERSION, 2);

    count(asm, word::TRIMMED);
    // A real queue below has charged the full length already: enqueue the packet anew, marked so that it passes here.
    asm.imm(Alu::Move, 1, SEEN);
    asm.store(Width::U32, SKB, SKB_MARK, 1);
    asm.load(Width::U32, 1, SKB, SKB_IFINDEX);
    asm.imm(Alu::Move, 2, 0);
    asm.call(REDIRECT);
    asm.exit();
}

/// A packet that stays whole: drops it when the queue is full, else enqueues it, and marks it if chance or the queue
/// says so and it is ECN-capable.
fn enqueue_and_mark(asm: &mut Asm) {
    asm.label(Label::Whole);
    asm.load(Width::U64, 1, STACK, BACKLOG);
    asm.load(Width::U64, 2, MAP, at(word::DROP_NS));
    asm.jump_reg(If::Gt, 1, 2, Label::Dropped);
    asm.load(Width::U64, 1, MAP, at(word::PS_PER_BYTE));
    asm.jump_imm(If::Eq, 1, 0, Label::Mark);
    asm.load(Width::U32, 2, SKB, SKB_LEN);
    asm.reg(Alu::Mul, 1, 2);
    asm.imm(Alu::Div, 1, 1000);
    asm.load(Width::U64, 2, STACK, START);
    asm.reg(Alu::Add, 1, 2);
    asm.store(Width::U64, MAP, at(word::EMPTY_AT), 1);

    asm.label(Label::Mark);
    asm.reg(Alu::Move, 1, TRAFFIC_CLASS);
    asm.imm(Alu::And, 1, 3);
    asm.jump_imm(If::Eq, 1, 0, Label::Pass);
    asm.jump_imm(If::Eq, 1, 3, Label::Pass);
    draw(asm, 1, 2);
    asm.load(Width::U64, 2, MAP, at(word::CE));
    asm.jump_reg(If::Lt, 1, 2, Label::DoMark);
    asm.load(Width::U64, 1, STACK, BACKLOG);
    asm.load(Width::U64, 2, MAP, at(word::MARK_NS));
    asm.jump_reg(If::Le, 1, 2, Label::Pass);
    asm.label(Label::DoMark);
    asm.load(Width::U8, 1, STACK, VERSION + 1);
    asm.imm(Alu::Or, 1, 0x30);
    asm.store(Width::U8, STACK, VERSION + 1, 1);
    store_bytes(asm, 15, VERSION + 1, 1);
    count(asm, word::MARKED);
}
