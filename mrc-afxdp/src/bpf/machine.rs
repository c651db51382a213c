//! Interpreters for both kinds of program, as far as the tests need them: they refuse what they do not know.

use super::{classic, xdp};

/// Address at which the machine shows the packet.
const PACKET: u64 = 0x1_0000;
const CONTEXT: u64 = 0x100;

/// What an XDP program decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// `bpf_redirect_map` with this key.
    Redirect(u32),
    /// Returned without redirect.
    Returned(u64),
}

/// Runs an XDP program over `frame` on receive queue `queue`; an access outside the frame is an error.
pub(super) fn run_xdp(program: &[xdp::Insn], frame: &[u8], queue: u32) -> Result<Verdict, String> {
    let mut r = [0u64; 11];
    r[1] = CONTEXT;
    let mut redirected = None;
    let mut pc = 0usize;
    for _ in 0..10_000 {
        let insn = program.get(pc).ok_or(format!("ran off the program at {pc}"))?;
        let (dst, src) = (usize::from(insn.registers & 15), usize::from(insn.registers >> 4));
        let imm = i64::from(insn.immediate) as u64;
        let operand = if insn.code & 8 != 0 { r[src] } else { imm };
        let mut jump = false;
        pc += 1;
        match insn.code {
            0x18 => {
                r[dst] = 0xdead_0000;
                pc += 1;
            }
            0xb7 | 0xbf => r[dst] = operand,
            0xb4 | 0xbc => r[dst] = u64::from(operand as u32),
            0x07 | 0x0f => r[dst] = r[dst].wrapping_add(operand),
            0x57 | 0x5f => r[dst] &= operand,
            0x54 | 0x5c => r[dst] = u64::from(r[dst] as u32 & operand as u32),
            0x47 | 0x4f => r[dst] |= operand,
            0x67 => r[dst] <<= operand,
            0x77 => r[dst] >>= operand,
            0x61 | 0x69 | 0x71 => {
                let bytes = match insn.code {
                    0x61 => 4,
                    0x69 => 2,
                    _ => 1,
                };
                r[dst] = load(r[src].wrapping_add_signed(i64::from(insn.offset)), bytes, frame, queue)?;
            }
            0x05 => jump = true,
            0x15 | 0x1d => jump = r[dst] == operand,
            0x55 | 0x5d => jump = r[dst] != operand,
            0x25 | 0x2d => jump = r[dst] > operand,
            0x35 | 0x3d => jump = r[dst] >= operand,
            0xa5 | 0xad => jump = r[dst] < operand,
            0xb5 | 0xbd => jump = r[dst] <= operand,
            0x16 | 0x1e => jump = r[dst] as u32 == operand as u32,
            0x56 | 0x5e => jump = r[dst] as u32 != operand as u32,
            0x85 if insn.immediate == xdp::BPF_FUNC_REDIRECT_MAP => {
                if r[3] != xdp::XDP_PASS as u64 {
                    return Err(format!("fallback of the redirect is {}, not XDP_PASS", r[3]));
                }
                redirected = Some(r[2] as u32);
                r[0] = 4;
            }
            0x95 => return Ok(redirected.map_or(Verdict::Returned(r[0]), Verdict::Redirect)),
            code => return Err(format!("instruction {code:#x} at {}", pc - 1)),
        }
        if jump {
            pc = pc.checked_add_signed(isize::from(insn.offset)).ok_or("jump before the program")?;
        }
    }
    Err("did not end".into())
}

fn load(address: u64, bytes: usize, frame: &[u8], queue: u32) -> Result<u64, String> {
    if let Some(at) = address.checked_sub(PACKET) {
        let at = at as usize;
        let field = frame.get(at..at + bytes).ok_or(format!("load of {bytes} at {at} of {}", frame.len()))?;
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(field);
        return Ok(u64::from_le_bytes(word));
    }
    match address.wrapping_sub(CONTEXT) {
        0 => Ok(PACKET),
        4 => Ok(PACKET + frame.len() as u64),
        16 => Ok(u64::from(queue)),
        at => Err(format!("load from {at} of the context")),
    }
}

/// Runs a classic filter on a frame whose VLAN tag, if it had one, was taken out; true means "take".
pub(super) fn run_classic(program: &[classic::Insn], frame: &[u8], tag: Option<u16>) -> Result<bool, String> {
    let mut accumulator = 0u32;
    let mut pc = 0usize;
    for _ in 0..10_000 {
        let insn = program.get(pc).ok_or(format!("ran off the program at {pc}"))?;
        pc += 1;
        let mut branch = |test: bool| pc += usize::from(if test { insn.yes } else { insn.no });
        match insn.code {
            classic::LOAD_U8 if insn.k == classic::VLAN_TAG_PRESENT => accumulator = u32::from(tag.is_some()),
            classic::LOAD_U16 if insn.k == classic::VLAN_TAG => accumulator = u32::from(tag.unwrap_or(0)),
            classic::LOAD_U32 | classic::LOAD_U16 | classic::LOAD_U8 => {
                let bytes = match insn.code {
                    classic::LOAD_U32 => 4,
                    classic::LOAD_U16 => 2,
                    _ => 1,
                };
                let Some(field) = frame.get(insn.k as usize..insn.k as usize + bytes) else {
                    return Ok(false);
                };
                accumulator = field.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
            }
            classic::JUMP => pc += insn.k as usize,
            classic::JUMP_EQ => branch(accumulator == insn.k),
            classic::JUMP_ANY_BIT => branch(accumulator & insn.k != 0),
            classic::RETURN => return Ok(insn.k != 0),
            code => return Err(format!("instruction {code:#x} at {}", pc - 1)),
        }
    }
    Err("did not end".into())
}
